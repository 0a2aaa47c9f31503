//! `mount_setattr`, which has no safe wrapper.
#![expect(unsafe_code, reason = "mount_setattr has no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

/// Which mounts are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// This one.
    Alone,
    /// This one and all below it.
    Below,
}

/// `struct mount_attr` of the kernel.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Adds restrictions to the mount that this file is the root of. Those that it has stay.
pub(super) fn restrict(
    mount: BorrowedFd<'_>,
    restrictions: MountAttrFlags,
    reach: Reach,
) -> Result<(), Errno> {
    let flags = match reach {
        Reach::Alone => libc::AT_EMPTY_PATH,
        Reach::Below => libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
    };
    let set = u64::from(restrictions.bits());
    let attr = MountAttr { set, clear: 0, propagation: 0, user_namespace: 0 };
    // SAFETY: the path is an empty C string, and the kernel reads as many bytes of `attr` as it is
    // told; both live through the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
