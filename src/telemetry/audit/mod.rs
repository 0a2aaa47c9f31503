//! The audit log: the commands that clients asked for, the decision on each, and the end of each job.
//! One JSON object per line.
//!
//! - **Chain.** Every line carries its number (`seq`, without gaps) and the SHA-256 of the line
//!   before it (`prev`; zeros in the very first). A line that is changed, removed, moved or added
//!   no longer matches its neighbours.
//! - **Head.** `<log>.head` holds the number and the hash of the last line, so that a truncation is
//!   found too. It is also the lock: any number of processes may write, one at a time.
//! - **Rotation.** Above a size the log becomes `<log>.1`, `.1` becomes `.2`, and so on. The chain
//!   continues in the new file, whose first line is a note that says so.
//! - **Thread.** One thread of the process writes, from a bounded queue. A call waits for the entry
//!   of its decision only for a short time, so a log that does not answer delays no call.
//! - **Failures.** A failed write is undone and reported to the caller; the next write continues the
//!   chain. The remains of a crash (half a line, a line that the head does not cover) stay, and the
//!   next writer adds a note about them.
//!
//! Limits of the guarantee: an attacker who can write both the log and its head can compute a new
//! chain from any line on, and an attacker who removes all files leaves nothing to check. If that
//! matters, ship the log or the head's hash to another host. Removing the oldest rotated files
//! looks like rotation: [`verify`] reports at which entry the log begins. Entries survive the
//! death of the process, but not a power failure: nothing is synced.
//!
//! The files stay open from one append to the next. Each append checks, under the lock, that the
//! paths still name these files, so it never misses a write or a rotation by another process.

mod entry;
mod log_files;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub use entry::{AuditDecision, DecisionEntry, EndingEntry, NoteEntry, format_rfc3339};
pub use verify::{
    AuditedJob, EntryStamp, LineLocation, VerifyError, VerifyReport, find_open_jobs, verify,
};
pub use writer::{AuditError, AuditLog, AuditLogSettings};
