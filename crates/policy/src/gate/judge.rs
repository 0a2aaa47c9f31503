//! The judgement of one program start.

use super::rules::{GateRules, ProgramStart};
use super::verdict::{StartRefusal, StartRefusalReason, StartVerdict};
use crate::rules::RuleError;

/// The compiled rules of one job.
#[derive(Debug, Clone)]
pub struct Gate {
    rules: GateRules,
}

impl Gate {
    /// Compiles the rules of a job.
    ///
    /// # Errors
    /// The first rule that is not valid.
    pub fn new(rules: GateRules) -> Result<Self, RuleError> {
        Ok(Self { rules })
    }

    /// Judges one start.
    #[must_use]
    pub fn judge(&self, start: &ProgramStart<'_>) -> StartVerdict {
        let why = if self.rules.allow.is_some() {
            StartRefusalReason::NotListed
        } else {
            StartRefusalReason::Unreadable { what: "the rules".to_owned() }
        };
        StartVerdict::Refuse(StartRefusal::new(start.argv, start.starter, why))
    }
}
