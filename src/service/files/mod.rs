//! File calls: reading, writing and listing below the working directory, and nowhere else.
//!
//! A file call goes through admission like the command `TOOL PATH`: rules apply to it, and the decision
//! is in the audit log. Then the kernel resolves the path and refuses to leave the directory, so that
//! no link, no `..` and no race leads out of it.
//!
//! **Invariant:** only regular files and directories are opened. The kind of a file is checked before
//! it is opened, so a FIFO or a device can neither block a call nor notice it.

mod calls;
mod rooted_path;
#[cfg(test)]
mod tests;

pub use calls::{DirectoryEntry, DirectoryListing, FileError, FileKind, FilePage, WriteOutcome};
