//! What a piece of code allocates, for tests that say how much it may.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static SEEN: Cell<Allocated> = const { Cell::new(Allocated { times: 0, bytes: 0 }) };
}

/// What was asked of the allocator, whether or not it was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allocated {
    pub(crate) times: usize,
    pub(crate) bytes: usize,
}

/// What this thread allocates in `work`.
pub(crate) fn allocated<T>(work: impl FnOnce() -> T) -> (Allocated, T) {
    let before = SEEN.get();
    let done = work();
    let after = SEEN.get();
    let (times, bytes) = (after.times - before.times, after.bytes - before.bytes);
    (Allocated { times, bytes }, done)
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(bytes: usize) {
    let Allocated { times, bytes: before } = SEEN.get();
    SEEN.set(Allocated { times: times + 1, bytes: before + bytes });
}

#[expect(
    unsafe_code,
    reason = "the trait of allocators is unsafe, and hands on to that of the system"
)]
// SAFETY: everything is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.saturating_sub(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[test]
fn what_is_allocated_is_counted() {
    let (seen, memory) = allocated(|| Vec::<u8>::with_capacity(1000));
    assert_eq!((seen, memory.capacity()), (Allocated { times: 1, bytes: 1000 }, 1000));
}
