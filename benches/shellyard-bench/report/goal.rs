//! The goal of a figure.

use std::fmt;

use super::Row;

/// A bound for a figure, or for its ratio to the floor.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// At most this many times the floor.
    RatioAtMost(f64),
    /// At least this part of the floor.
    RatioAtLeast(f64),
    /// At most this much, in the unit of the figure.
    AtMost(f64),
}

impl Goal {
    /// Returns the word of the report: `ok` or `miss`.
    pub(super) fn verdict(self, row: &Row) -> &'static str {
        // What cannot be compared, for want of a floor, meets nothing.
        let ratio = row.ratio().unwrap_or(f64::NAN);
        let is_met = match self {
            Self::RatioAtMost(most) => ratio <= most,
            Self::RatioAtLeast(least) => ratio >= least,
            Self::AtMost(most) => row.ours <= most,
        };
        if is_met { "ok" } else { "miss" }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RatioAtMost(most) => write!(f, "≤ {most}×"),
            Self::RatioAtLeast(least) => write!(f, "≥ {least}×"),
            Self::AtMost(most) => write!(f, "≤ {most}"),
        }
    }
}
