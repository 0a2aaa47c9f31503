//! Digests: the error and warning lines of an output, and the results of the tools in it.
//!
//! ```text
//! log → blocks (whole lines) → candidates (one combined pattern) → lines: error, warning, neither
//!                                                                → formats: the result of each tool
//!     → spots by offset, counted; line numbers, texts and context are read last, for listed lines
//! ```
//!
//! Lines that no pattern matches cost one pass of a regular expression over the whole block, so
//! that logs of gigabytes stay feasible. A digest takes bounded memory, whatever the log is.

mod collector;
mod format_readers;
mod formats;
mod lines;
mod summary;

pub use formats::{ToolCounts, ToolSummary};
pub(crate) use lines::looks_like_error;
pub(crate) use summary::digest_around;
pub use summary::{
    Digest, DigestLimits, DigestLines, DigestRequest, LineInContext, NumberedLine, ToolSummaryLine,
    digest,
};
