//! CountingAllocator of the allocations of a piece of code, for tests that limit them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNTED: Cell<ThreadAllocations> = const { Cell::new(ThreadAllocations { times: 0, bytes: 0 }) };
}

/// Allocations so far, freed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadAllocations {
    pub(crate) times: usize,
    pub(crate) bytes: usize,
}

/// Runs `work`, and returns the allocations of this thread during it.
pub(crate) fn count_allocations<T>(work: impl FnOnce() -> T) -> (ThreadAllocations, T) {
    let before = COUNTED.get();
    let done = work();
    let after = COUNTED.get();
    let times = after.times - before.times;
    let bytes = after.bytes - before.bytes;
    (ThreadAllocations { times, bytes }, done)
}

struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn count(bytes: usize) {
    let ThreadAllocations { times, bytes: before } = COUNTED.get();
    COUNTED.set(ThreadAllocations { times: times + 1, bytes: before + bytes });
}

#[expect(
    unsafe_code,
    reason = "GlobalAlloc is an unsafe trait; each method calls the system's allocator"
)]
// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.saturating_sub(layout.size()));
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[test]
fn allocations_are_counted() {
    let (seen, memory) = count_allocations(|| Vec::<u8>::with_capacity(1000));
    assert_eq!((seen, memory.capacity()), (ThreadAllocations { times: 1, bytes: 1000 }, 1000));
}
