//! Everything that jobs write: kept as it came, read by absolute offset, shown as text.
//!
//! ```text
//! pump → LogWriter::append → part: store (memory, then one spill file) + index of runs → progress (watch)
//!                                        ↓
//!            LogReader::progress / wait_past / read_with, any number of readers
//!                                        ↓ off the runtime
//!            BlockingReader::page / tail_start / offset_of_line
//!                                        ↓
//!            view (bytes → text)   excerpt (what a reply shows)   scan → search   query
//! ```
//!
//! **The store holds bytes, never text.** Views change a reply and leave the store alone.
//! **Offsets are absolute and stay valid**: from memory to spill, from running to finished to
//! compressed.
//! **Reading never consumes** and never waits for another reader or for a slow disk's writer.
//! **What is missing is told**: bytes that no store could take have no offsets and are counted
//! (`gap`); a middle that was not wanted, or a file that was cut, is a hole in the offsets (`kept`).
//! **Publish last**: [`Progress`] moves only after the bytes it speaks of can be read.

mod account;
mod assignments;
mod block;
mod blocking_reader;
mod counters;
mod decoding;
mod frame_cache;
mod gap;
mod gathered;
mod gzip;
mod held;
mod hidden;
mod index;
mod json;
mod json_lines;
mod kept;
mod log;
mod packed;
mod packer;
mod page;
mod parts;
mod pieces;
mod query_plan;
mod quota;
mod raw;
mod read_memory;
mod reader;
pub mod redact;
mod redact_error;
mod scan;
pub mod secrets;
mod shared;
mod spill;
mod spill_dir;
mod tail;
mod tally;
mod within;

pub mod across;
pub mod digest;
pub mod excerpt;
pub mod patience;
pub mod pattern;
pub mod query;
pub mod search;
pub mod view;

pub use blocking_reader::BlockingReader;
pub use counters::{Counters, DropReason, SpillOperation, Tier};
pub use gzip::{GzipError, Gzipped, gzip};
pub use index::Stream;
pub use log::{LogBounds, LogSettings, LogWriter, Progress, open, open_bounded};
pub use packer::{Packer, Packing};
pub use page::{Page, PageEnd, PageRequest};
pub use parts::Keep;
pub use quota::{Allowance, Answer, Cap, Quota, QuotaLimits, Shortage, Stored};
pub use raw::{Part, PartRequest, RawReader};
pub use read_memory::{ReadBusy, ReadMemory, ReadPermit};
pub use reader::{LogReader, scan_with};
pub use spill_dir::SpillDir;
pub use tally::{Tally, count_lines, tally};
pub use within::{log_offset, stream_offset};

#[cfg(test)]
mod bounds_tests;
#[cfg(test)]
mod excerpt_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod search_tests;
#[cfg(test)]
mod tiers_tests;
