//! The journal records of a job.

use std::time::{Duration, Instant};

use crate::ids::JobId;
use crate::journal::{
    AcceptedJob, EndedJob, JobInputs, QueuedJob, Record, StartedJob, StartingJob, StoredEnding,
    StoredJson, now_ms, wall_ms_of,
};
use crate::outcome::{JobEnding, StopBy};
use crate::output::ClosedLog;
use crate::spec::{JobKey, JobSpec};

/// Returns the record of an accepted job; `command` is its command with secrets masked.
#[must_use]
pub fn accepted_record(
    job: JobId,
    spec: &JobSpec,
    key: Option<&JobKey>,
    command: &str,
) -> Option<Record> {
    // Every specification has a JSON form.
    let spec = StoredJson::new(spec).ok()?;
    let key = key.cloned();
    Some(Record::Accepted(AcceptedJob { job, at_ms: now_ms(), spec, key, command: command.into() }))
}

/// Returns the record of a job that waits for a slot.
pub(super) const fn queued_record(job: JobId, inputs: JobInputs) -> Record {
    Record::Queued(QueuedJob { job, inputs })
}

/// Returns the record of a job whose process is about to be created.
#[must_use]
pub fn starting_record(job: JobId) -> Record {
    Record::Starting(StartingJob { job, at_ms: now_ms() })
}

/// Returns the record of a job whose process exists, and which `stopped_by` wants to end.
pub(super) const fn started_record(
    job: JobId,
    at_ms: u64,
    pid: u32,
    stopped_by: Option<StopBy>,
) -> Record {
    Record::Started(StartedJob { job, at_ms, pid, stopped_by })
}

/// Returns the record of a job that has ended. Its log is stored with it once the log is closed.
#[must_use]
pub fn ended_record(
    job: JobId,
    started: Option<Instant>,
    ending: &JobEnding,
    log: Option<&ClosedLog>,
) -> Record {
    let to_ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let at_ms = wall_ms_of(ending.at);
    let elapsed = started.map(|started| to_ms(ending.at.duration_since(started)));
    Record::Ended(EndedJob {
        job,
        at_ms,
        started_at_ms: elapsed.map(|elapsed| at_ms.saturating_sub(elapsed)),
        elapsed_ms: elapsed.unwrap_or(0),
        ending: StoredEnding::from(ending),
        log: log.and_then(|log| StoredJson::new(log).ok()),
    })
}
