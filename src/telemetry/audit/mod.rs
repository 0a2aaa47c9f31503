//! The audit log: who ran what, who decided so, and how it ended; one JSON object per line.
//!
//! - **Chain.** Every line carries its number (`seq`, without gaps) and the SHA-256 of the line
//!   before it (`prev`; zeros in the very first). A line that is changed, removed, moved or added
//!   no longer fits its neighbours.
//! - **Head.** `<log>.head` holds the number and the hash of the last line, so that a cut tail is
//!   found too. It is also the lock: one entry is written at a time, by any number of processes.
//! - **Rotation.** Above a size the log becomes `<log>.1`, `.1` becomes `.2`, and so on. The chain
//!   goes on in the new file, whose first line is a note that says so.
//! - **Thread.** One thread of the process writes, from a queue with a bound. A call waits for the
//!   entry of its decision for a short time, so that a log that does not answer holds up no call.
//! - **Failures.** A write that fails is undone and told to the caller; the next one goes on with
//!   the chain. What a crash can leave (half a line, a line that the head does not know) stays,
//!   and the next writer adds a note that says what it found.
//!
//! What it does not promise: who can write both the log and its head can compute a new chain from
//! any line on, and who removes all of it leaves nothing to check. Ship the log elsewhere, or
//! keep the head's hash elsewhere, where that matters. Removing the oldest rotated files
//! looks like rotation: [`verify`] tells at which entry the log begins. Entries survive the
//! death of the process, not a loss of power: nothing is synced.
//!
//! The files stay open from one append to the next. Each append looks, under the lock, whether
//! they are still what stands under their names: what other processes wrote or rotated is never
//! missed.

mod entry;
mod error;
mod handle;
mod line;
mod log_files;
mod resume;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub use entry::{AuditVerdict, DecisionEntry, EndingEntry, NoteEntry};
pub use error::{AuditError, VerifyError};
pub use handle::AuditLog;
pub use line::rfc3339;
pub use verify::{EntryStamp, LineLocation, VerifyReport, verify};
pub use writer::AuditLogSettings;
