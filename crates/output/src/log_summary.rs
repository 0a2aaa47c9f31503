//! The summary of a log.

use shellyard_summary::Summary;

/// The summary of a log, or of a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// The facts.
    pub summary: Summary,
    /// The end of the range that was summarised.
    pub end: u64,
    /// Bytes that were scanned.
    pub scanned_bytes: u64,
    /// `true` if everything was scanned. If not, the facts cover the scanned bytes: the beginning
    /// and the end.
    pub complete: bool,
}
