//! Files for callers: read, written and listed beneath the working directory, and nowhere else.
//!
//! A call passes the gate like a command does, as the command `TOOL PATH`: rules hold for it, and
//! the decision is in the audit log. Then the kernel itself resolves the path and refuses to leave
//! the directory, so that no link, no `..` and no race leads out of it.
//!
//! **Invariant:** nothing but a regular file or a directory is ever opened: what a path leads to is
//! looked at before it is touched, so a FIFO or a device cannot block a call or notice it.

mod beneath;
mod door;
mod error;
mod list;
mod pass;
mod place;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use error::FileError;
pub use list::{FileKind, Listed, Listing};
pub use read::FilePage;
pub use write::Written;
