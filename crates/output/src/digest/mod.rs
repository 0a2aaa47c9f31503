//! What matters in an output: the lines that tell of trouble, and how the tools in it ended.
//!
//! ```text
//! log → blocks (whole lines) → candidates (one combined pattern) → trouble: error, warning or neither
//!                                                                → endings: one recogniser per tool family
//!     → found by offset, counted; line numbers, texts and context are read last, for what is listed
//! ```
//!
//! Lines that no pattern knows cost one pass of a regular expression over the whole block, so that
//! logs of gigabytes stay feasible. All that is kept is bounded, whatever the log is.

mod blocks;
mod candidates;
mod endings;
mod findings;
mod listing;
mod made;
mod rows;
mod scan;
mod traceback;
mod trouble;

pub use endings::{Counts, Ending};
pub use made::{Digest, DigestRequest, EndingLine, InContext, NumberedLine, Reach, Tally, digest};
pub use trouble::looks_like_error;

pub(super) use made::digest_around;

#[cfg(test)]
mod digest_tests;
