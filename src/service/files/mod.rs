//! Files for callers: read, written and listed beneath the working directory, and nowhere else.
//!
//! A call passes the gate like a command does, as the command `TOOL PATH`: rules hold for it, and
//! the decision is in the audit log. Then the kernel itself resolves the path and refuses to leave
//! the directory, so that no link, no `..` and no race leads out of it.
//!
//! **Invariant:** nothing but a regular file or a directory is ever opened: what a path leads to is
//! looked at before it is touched, so a FIFO or a device cannot block a call or notice it.

mod calls;
mod place;
#[cfg(test)]
mod tests;

pub use calls::{DirectoryEntry, DirectoryListing, FileError, FileKind, FilePage, WriteOutcome};
