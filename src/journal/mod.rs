//! The journal: a record of every job in the data directory, from which the next server goes on.
//!
//! - **Records** (`record.rs`) are JSON lines with a CRC, in segments (`segment.rs`). A torn or damaged line is
//!   found by its CRC and left out. Everything else is read: lines after it, too.
//! - **Segments** begin with a checkpoint of all live records, so that older segments can be removed. The last
//!   but one is kept until the next is begun: if the host fails before the disk has the new segment, the old
//!   one is still there.
//! - **Thread.** One thread owns the files, and writes all records that wait with one call (`writer.rs`). It
//!   stores the place of each live record, not the record itself.
//! - **Failures.** When the disk is full, a reserve file is removed to make room. When that is not enough, or the
//!   directory is read-only or gone, the journal is degraded: records wait in memory, within a bound, until it
//!   can be written again. A journal that is opened then is read, and begins in that state (`unopened.rs`). After a failed `fsync` the kernel may have forgotten what was written, so the journal
//!   goes on in a new segment.

mod handle;
mod record;
mod replay;
mod segment;
mod state;
mod unopened;
mod writer;

#[cfg(test)]
mod tests;

pub use handle::{Durability, Journal, JournalCounts, JournalHealth, JournalTicket};
pub use record::{
    AcceptedJob, EndedJob, FreedNote, InheritedVariable, JobInputs, JournalError, LastingApproval,
    NextNumber, QueuedJob, Record, StartedJob, StartingJob, StoredEnding, StoredJson, now_ms,
    restore_instant, wall_ms_of,
};
pub use replay::{ReplayReport, replay_bytes};
pub use state::{EndedRecords, JournalState, UnfinishedJob};
