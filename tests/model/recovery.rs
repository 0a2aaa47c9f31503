//! The jobs of the next server, from the journal and from the keeper. The product's own replay reads
//! the journal.

use std::time::Duration;

use serde_json::json;
use shellyard::ids::{JobId, JobNumber, TenantId};
use shellyard::journal::{
    AcceptedJob, EndedJob, FreedNote, JobInputs, JournalState, QueuedJob, Record, StartedJob,
    StartingJob, StoredEnding, StoredJson,
};
use shellyard::outcome::{LivingProcesses, Outcome, ResourceUsage, SIGKILL, StartError, StopBy};

use super::design::{BrokenRule, Design};
use super::world::{ModelEnding, ModelRecord, Number};

/// A job as the next server takes it over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecoveredJob {
    Queued,
    /// The keeper holds its shim.
    Kept,
    /// It may have run, and the keeper holds no shim of it.
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
    let state = JournalState::replay(journal.iter().map(product_record));
    // A checkpoint begins each segment: it leads to the same state.
    let state = JournalState::replay(state.checkpoint());
    let freed = state.freed.iter().map(|note| (number(note.job), RecoveredJob::Freed));
    let finished = state.finished.iter().map(|it| {
        (number(it.accepted.job), RecoveredJob::Finished(model_ending(&it.ended.ending.outcome)))
    });
    let unfinished = state.unfinished.iter().map(|it| {
        let number = number(it.accepted.job);
        let may_have_started = it.starting.is_some() || it.started.is_some();
        let job = match (is_held(number), may_have_started, it.queued.is_some()) {
            (true, _, _) => RecoveredJob::Kept,
            (false, false, true) => RecoveredJob::Queued,
            (false, false, false) if design.breaks(BrokenRule::QueueUnrecorded) => {
                RecoveredJob::Queued
            }
            (false, false, false) => RecoveredJob::Lost,
            (false, true, _) => lost(design),
        };
        (number, job)
    });
    let mut jobs: Vec<_> = freed.chain(finished).chain(unfinished).collect();
    if design.breaks(BrokenRule::QueueReversed) {
        jobs.reverse();
    }
    jobs
}

fn lost(design: &Design) -> RecoveredJob {
    if design.breaks(BrokenRule::StartAgain) { RecoveredJob::Queued } else { RecoveredJob::Lost }
}

fn job_id(number: Number) -> JobId {
    JobNumber::new(u64::from(number)).for_tenant(TenantId::LOCAL)
}

fn number(job: JobId) -> Number {
    Number::try_from(job.number()).expect("a number of the model")
}

fn product_record(record: &ModelRecord) -> Record {
    let stored = |value| StoredJson::new(&value).expect("JSON");
    match *record {
        ModelRecord::Accepted { number, .. } => Record::Accepted(AcceptedJob {
            job: job_id(number),
            at_ms: 0,
            spec: stored(json!({})),
            key: None,
            command: String::new(),
        }),
        ModelRecord::Queued(number) => {
            Record::Queued(QueuedJob { job: job_id(number), inputs: JobInputs::default() })
        }
        ModelRecord::Starting(number) => {
            Record::Starting(StartingJob { job: job_id(number), at_ms: 0 })
        }
        ModelRecord::Started(number) => {
            Record::Started(StartedJob { job: job_id(number), at_ms: 0, pid: 1 })
        }
        ModelRecord::Ended { number, ending, bytes } => Record::Ended(EndedJob {
            job: job_id(number),
            at_ms: 0,
            started_at_ms: None,
            elapsed_ms: 0,
            ending: StoredEnding {
                outcome: product_outcome(ending),
                usage: ResourceUsage::default(),
                pipeline: Vec::new(),
                survivors: LivingProcesses::default(),
                kill: None,
            },
            log: Some(stored(json!({"bytes": bytes}))),
        }),
        ModelRecord::Freed(number) => {
            Record::Freed(FreedNote { job: job_id(number), at_ms: 0, why: stored(json!("age")) })
        }
    }
}

fn product_outcome(ending: ModelEnding) -> Outcome {
    let by = StopBy::Client;
    match ending {
        ModelEnding::Code(code) => Outcome::Exited { code: i32::from(code) },
        ModelEnding::Signaled => Outcome::Signaled { signal: SIGKILL, core: false },
        ModelEnding::Stopped => Outcome::Stopped { by },
        ModelEnding::TimedOut => Outcome::TimedOut { after: Duration::ZERO },
        ModelEnding::NotRun => Outcome::NotRun { by, waited: Duration::ZERO },
        ModelEnding::FailedToStart => {
            Outcome::FailedToStart(StartError::NotFound { program: String::new() })
        }
        ModelEnding::Lost => Outcome::Lost { why: "no process".to_owned() },
    }
}

fn model_ending(outcome: &Outcome) -> ModelEnding {
    match outcome {
        Outcome::Exited { code } => ModelEnding::Code(u8::try_from(*code).expect("a code")),
        Outcome::Signaled { .. } => ModelEnding::Signaled,
        Outcome::Stopped { .. } => ModelEnding::Stopped,
        Outcome::TimedOut { .. } => ModelEnding::TimedOut,
        Outcome::NotRun { .. } => ModelEnding::NotRun,
        Outcome::FailedToStart(_) => ModelEnding::FailedToStart,
        Outcome::Lost { .. } => ModelEnding::Lost,
        Outcome::Limit { .. } => unreachable!("the model has no such ending: {outcome:?}"),
    }
}
