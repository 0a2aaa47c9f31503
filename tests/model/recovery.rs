//! The jobs of the next server, from the journal and from the keeper.

use std::collections::BTreeMap;

use super::design::{BrokenRule, Design};
use super::world::{ModelEnding, ModelRecord, Number, number_of};

/// A job as the next server takes it over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecoveredJob {
    Queued,
    /// The keeper holds its process.
    Kept,
    /// It may have run, and nobody holds its process.
    Lost,
    Finished(ModelEnding),
    Freed,
}

/// Returns every job of the journal, in the order in which the next server takes them over.
pub(crate) fn recover(
    design: &Design,
    journal: &[ModelRecord],
    is_held: impl Fn(Number) -> bool,
) -> Vec<(Number, RecoveredJob)> {
    let mut last: BTreeMap<Number, ModelRecord> = BTreeMap::new();
    for record in journal {
        last.insert(number_of(record), *record);
    }
    let jobs = last.into_iter().map(|(number, record)| {
        let job = match record {
            ModelRecord::Accepted { .. } => RecoveredJob::Queued,
            ModelRecord::Starting(_) | ModelRecord::Started(_) if is_held(number) => {
                RecoveredJob::Kept
            }
            ModelRecord::Starting(_) | ModelRecord::Started(_) => lost(design),
            ModelRecord::Ended { ending, .. } => RecoveredJob::Finished(ending),
            ModelRecord::Freed(_) => RecoveredJob::Freed,
        };
        (number, job)
    });
    let mut jobs: Vec<_> = jobs.collect();
    if design.breaks(BrokenRule::QueueReversed) {
        jobs.reverse();
    }
    jobs
}

fn lost(design: &Design) -> RecoveredJob {
    if design.breaks(BrokenRule::StartAgain) { RecoveredJob::Queued } else { RecoveredJob::Lost }
}
