//! Stores the output of jobs and reads it back: append-only logs, addressed by absolute byte offset.
//!
//! ```text
//! pump → LogWriter::append → segment: store (memory, then one spill file) + index of runs → progress (watch)
//!                                        ↓
//!            LogReader::progress / wait_past / read_with, any number of readers
//!                                        ↓ off the runtime
//!            BlockingReader::read_page / tail_start / offset_of_line
//!                                        ↓
//!            views (bytes → text)   excerpt (the part that a reply shows)   search   json   summary
//! ```
//!
//! **The store holds bytes, never text.** Views change a reply and leave the store alone.
//! **Offsets are absolute and stay valid**: from memory to spill, from running to finished to
//! compressed.
//! **Reading never consumes** and never waits for another reader or for a writer on a slow disk.
//! **Missing bytes are reported**: bytes that no store could take have no offsets and are counted
//! (`Gaps`); a middle that was not to be kept, or a file that somebody truncated, is a hole in the
//! offsets (`LogSnapshot`).
//! **Publish last**: [`LogProgress`] moves only after the bytes that it counts can be read.
//!
//! A durable log ([`open_durable_log`]) has named files from its first byte on, and outlives its
//! server:
//!
//! ```text
//! NAME.log        the bytes; NAME.OFFSET.log for later segments of a truncated log
//! NAME.idx        changes of the stream, gaps, cuts and segments by offset; most logs have none
//! NAME.zst        the bytes of a closed log, compressed, with a table of its frames
//! ```
//!
//! [`LogWriter::append_from`] moves bytes from a pipe to the file inside the kernel, so that a
//! killed server loses none. Bytes that pass through memory are noted meanwhile ([`UnstoredBytes`]), so that
//! the log has a gap only where some may be missing. The next server goes on with [`reopen_log`], or opens a finished log
//! with [`open_closed_log`] and the [`ClosedLog`] that the last server recorded. Nothing is
//! removed without [`LogReader::remove_files`].

#![forbid(unsafe_code)]

mod chunks;
mod compression;
mod counters;
mod durable_writer;
mod export;
mod failure_sections;
mod index;
mod line_scan;
mod log;
mod page;
mod patch_sections;
mod positions;
mod quota;
mod read_memory;
mod reader;
mod recovery;
mod removal;
mod sections;
mod segment;
mod server_dir;
mod shared_log;
mod spill;
mod summary_scan;
mod unstored;

pub mod excerpt;
pub mod json;
pub mod redaction;
pub mod search;
pub mod secret_detection;
pub mod views;

/// The pattern of a search, a regex for single lines.
pub mod pattern {
    pub use crate::line_scan::{LinePattern, PatternError};
}

pub use compression::{CompressionTask, LogCompressor};
pub use counters::{Counters, DropReason, SpillOperation, Tier};
pub use durable_writer::AppendFrom;
pub use export::{GzipError, Gzipped, LogRange, LogRangeRequest, RawReader, gzip};
pub use index::{LostBytes, Stream};
pub use line_scan::{ScanDeadline, ScanGuard};
pub use log::{LogBounds, LogStorage, LogWriter, open_bounded_log, open_durable_log, open_log};
pub use page::{
    FollowedStreams, Hole, HoleReason, LogPage, LogPiece, PageEnd, PageRequest, StartAt,
};
pub use quota::{
    CapSource, Quota, QuotaLimits, ReclaimOutcome, Shortage, TenantQuota, TenantUsage,
};
pub use read_memory::{ReadBusy, ReadMemory, ReadPermit};
pub use reader::{BlockingReader, LogReader, log_offset, scan_with, stream_offset};
pub use recovery::{ClosedLog, open_closed_log, reopen_log};
pub use server_dir::{DiskOperation, DiskWatch, InvalidLogName, LogName};
pub use shared_log::{KeepOutput, LogProgress, LogSummary};
pub use shellyard_summary as summary;
pub use spill::SpillDir;
pub use summary_scan::{
    StreamCounts, SummaryLimits, SummaryRequest, count_lines, count_lines_and_errors, summarize,
};
pub use unstored::UnstoredBytes;

/// Runs the example in the README as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
