//! Memory that the server has freed and the system could use.

/// Gives memory that is free back to the system. glibc keeps it otherwise: each thread's share of the
/// heap stays as large as it ever was.
pub fn trim_memory() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the C library's own function")]
    // SAFETY: it may be called at any time, by any thread, and invalidates nothing.
    unsafe {
        libc::malloc_trim(0);
    }
}
