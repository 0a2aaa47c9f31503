//! What matters in an output: the lines that tell of trouble, and how the tools in it ended.
//!
//! ```text
//! log → blocks (whole lines) → candidates (one combined pattern) → lines: error, warning or neither
//!                                                                → formats: how each tool in it ended
//!     → found by offset, counted; line numbers, texts and context are read last, for what is listed
//! ```
//!
//! Lines that no pattern knows cost one pass of a regular expression over the whole block, so that
//! logs of gigabytes stay feasible. All that is kept is bounded, whatever the log is.

mod format_readers;
mod formats;
mod lines;
mod scan;
mod summary;

pub use formats::{Counts, Ending};
pub(crate) use lines::looks_like_error;
pub use summary::{
    Digest, DigestRequest, EndingLine, InContext, NumberedLine, Reach, Tally, digest,
};

pub(crate) use summary::digest_around;
