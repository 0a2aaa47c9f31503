//! Everything that jobs write: kept as it came, read by absolute offset, shown as text.
//!
//! ```text
//! pump → LogWriter::append → part: store (memory, then one spill file) + index of runs → progress (watch)
//!                                        ↓
//!            LogReader::progress / wait_past / read_with, any number of readers
//!                                        ↓ off the runtime
//!            BlockingReader::page / tail_start / offset_of_line
//!                                        ↓
//!            views (bytes → text)   excerpt (what a reply shows)   scan → search   query   digest
//! ```
//!
//! **The store holds bytes, never text.** Views change a reply and leave the store alone.
//! **Offsets are absolute and stay valid**: from memory to spill, from running to finished to
//! compressed.
//! **Reading never consumes** and never waits for another reader or for a slow disk's writer.
//! **What is missing is told**: bytes that no store could take have no offsets and are counted
//! (`Gaps`); a middle that was not wanted, or a file that was cut, is a hole in the offsets (`Kept`).
//! **Publish last**: [`Progress`] moves only after the bytes it speaks of can be read.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod compression;
mod counters;
mod export;
mod index;
mod json;
mod log;
mod page;
mod part;
mod parts;
mod pieces;
mod query_plan;
mod quota;
mod read_memory;
mod reader;
mod scan;
mod spill;

pub mod digest;
pub mod excerpt;
pub mod pattern;
pub mod query;
pub mod redaction;
pub mod search;
pub mod secrets;
pub mod views;

pub use compression::{Packer, Packing};
pub use counters::{Counters, DropReason, SpillOperation, Tier};
pub use export::{GzipError, Gzipped, Part, PartRequest, RawReader, gzip};
pub use index::Stream;
pub use log::{LogBounds, LogSettings, LogWriter, open, open_bounded};
pub use page::{Page, PageEnd, PageRequest};
pub use parts::{Keep, Progress};
pub use quota::{Allowance, Answer, Cap, Quota, QuotaLimits, Shortage, Stored};
pub use read_memory::{ReadBusy, ReadMemory, ReadPermit};
pub use reader::{BlockingReader, LogReader, log_offset, scan_with, stream_offset};
pub use scan::{Leash, Patience};
pub use search::{Tally, count_lines, tally};
pub use spill::SpillDir;

#[cfg(test)]
mod tests;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
