//! Memory that the server has freed and the system could use.

/// The free bytes that each thread's share of the heap may keep at its end, and the size from which
/// a block is not part of the heap at all.
#[cfg(target_env = "gnu")]
const KEPT_FREE: libc::c_int = 512 * 1024;

/// Bounds the memory that glibc keeps after it was freed. Without that each thread's share of the
/// heap may keep 64 MiB at its end, once blocks of 32 MiB were freed, and [`trim_memory`] leaves
/// these ends alone. Call it before there are threads.
pub fn bound_free_memory() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the C library's own function")]
    // SAFETY: it may be called at any time, and changes only how memory is taken and given back.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT_FREE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_FREE);
    }
}

/// Gives memory back to the system that is free between blocks that are in use. glibc keeps it
/// otherwise.
pub fn trim_memory() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the C library's own function")]
    // SAFETY: it may be called at any time, by any thread, and invalidates nothing.
    unsafe {
        libc::malloc_trim(0);
    }
}
