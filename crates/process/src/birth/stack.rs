//! Stacks for processes that live in our memory until they are their program.
#![expect(unsafe_code, reason = "memory with a guard has no safe wrapper")]

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// More than all steps of a new process take, unoptimised.
const BYTES: usize = 256 << 10;
/// Whoever runs over the end of the stack is ended by the kernel. A page or more on every processor.
const GUARD_BYTES: usize = 64 << 10;

/// How many are kept for later; as many as there are threads that create processes at one time.
const MOST_IDLE: usize = 16;

static IDLE: Mutex<Vec<Stack>> = Mutex::new(Vec::new());

/// A stack that nobody else uses. It grows down from its top.
#[derive(Debug)]
pub(super) struct Stack {
    /// Where the guard begins, below the stack.
    guard: NonNull<c_void>,
}

// SAFETY: it is memory that belongs to this value alone, whichever thread has it.
unsafe impl Send for Stack {}

impl Stack {
    /// One that was used before, or a new one.
    pub(super) fn take() -> Result<Self, Errno> {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(Self::map, Ok)
    }

    /// Keeps it for later.
    pub(super) fn put_back(self) {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_IDLE {
            idle.push(self);
        }
    }

    fn map() -> Result<Self, Errno> {
        let (both, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: new memory where the kernel finds room for it.
        let guard = unsafe { mmap_anonymous(ptr::null_mut(), GUARD_BYTES + BYTES, both, flags) }?;
        let stack = Self { guard: NonNull::new(guard).ok_or(Errno::NOMEM)? };
        // SAFETY: the first part of what was just mapped, which nobody uses yet.
        unsafe { mprotect(guard, GUARD_BYTES, MprotectFlags::empty()) }?;
        Ok(stack)
    }

    /// Its lowest address, above the guard.
    pub(super) fn base(&self) -> *mut c_void {
        self.guard.as_ptr().wrapping_byte_add(GUARD_BYTES)
    }

    /// Its size in bytes.
    pub(super) const fn size(&self) -> usize {
        BYTES
    }

    /// Where it begins, and grows down from.
    pub(super) fn top(&self) -> *mut c_void {
        self.base().wrapping_byte_add(BYTES)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this size, and used by nobody any more. Were it refused, it
        // would stay.
        unsafe { munmap(self.guard.as_ptr(), GUARD_BYTES + BYTES) }.ok();
    }
}
