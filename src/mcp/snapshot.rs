//! One job at one moment: what every form of an answer is written from.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::confinement::GrantedConfinement;
use crate::ids::JobId;
use crate::outcome::{JobEnding, Outcome};
use crate::output::LogProgress;
use crate::service::{JobHandle, Liveness, Phase, QueuePlace, TenantClient};
use crate::trace::TraceId;

/// One job at one moment. Plain data: nothing in it changes while an answer is written.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// Which job.
    pub(crate) job: JobId,
    /// Where it is in its life.
    pub(crate) state: State,
    /// How long it has run, or ran.
    pub(crate) elapsed: Duration,
    /// How long it has waited, or waited, for its start.
    pub(crate) queued: Duration,
    /// How much it has written.
    pub(crate) output: LogProgress,
    /// How long ago it last wrote.
    pub(crate) quiet_for: Option<Duration>,
    /// Processes that outlived its end and are alive right now; of a job that was ended also those
    /// that may be its own or another job's.
    pub(crate) survivors: Vec<u32>,
    /// How it is confined.
    pub(crate) confinement: GrantedConfinement,
    /// The doubt because of which it runs in a sandbox.
    pub(crate) doubt: Option<Arc<str>>,
    /// Where it may write, where that is bounded.
    pub(crate) writable: Vec<PathBuf>,
    /// The trace that it belongs to, where its caller knows of one.
    pub(crate) trace_id: Option<TraceId>,
}

/// Where a job is in its life.
#[derive(Debug, Clone)]
pub(crate) enum State {
    /// It waits for a slot; the place is known unless it is being started right now.
    Queued(Option<QueuePlace>),
    /// It runs; the facts are there while a process of it can be looked at.
    Running(Option<Liveness>),
    /// It is being ended.
    Stopping,
    /// It has ended.
    Finished(JobEnding),
}

impl Snapshot {
    /// Whether it has ended without a process of its own.
    pub(crate) fn never_started(&self) -> bool {
        match &self.state {
            State::Finished(ending) => match ending.outcome {
                Outcome::FailedToStart(_) => true,
                // Nothing that ran has run for no time at all.
                Outcome::Stopped { .. } => self.elapsed.is_zero(),
                Outcome::Exited { .. }
                | Outcome::Signaled { .. }
                | Outcome::TimedOut { .. }
                | Outcome::Limit { .. }
                | Outcome::Lost { .. } => false,
            },
            State::Queued(_) | State::Running(_) | State::Stopping => false,
        }
    }

    /// Looks at a job now.
    pub(crate) async fn take(client: &TenantClient, job: &JobHandle) -> Self {
        Self::with(client, job, JobHandle::liveness).await
    }

    /// The same for whoever asks often: its processes may have been looked at a moment ago.
    pub(crate) async fn take_often(client: &TenantClient, job: &JobHandle) -> Self {
        Self::with(client, job, JobHandle::recent_liveness).await
    }

    async fn with(
        client: &TenantClient,
        job: &JobHandle,
        liveness: fn(&JobHandle) -> Option<Liveness>,
    ) -> Self {
        // The status before the output: a job that reads as finished has written all that
        // it will be shown with.
        let status = job.status();
        let state = match &status.phase {
            Phase::Queued => State::Queued(client.queue_position(job.id()).await),
            Phase::Running => State::Running(liveness(job)),
            Phase::Stopping => State::Stopping,
            Phase::Finished(ending) => State::Finished(ending.clone()),
        };
        let output = job.output().progress();
        Self {
            job: job.id(),
            state,
            elapsed: status.elapsed(),
            queued: status.queued_for(),
            output,
            quiet_for: output.last_output.map(|at| at.elapsed()),
            survivors: job.survivors().into_iter().chain(job.unattributed()).collect(),
            confinement: job.spec().confinement,
            doubt: job.spec().doubt.clone(),
            writable: client.writable(job.spec()),
            trace_id: job.spec().trace.id_known_to_caller(),
        }
    }

    /// How it ended, once it has.
    pub(crate) const fn ending(&self) -> Option<&JobEnding> {
        match &self.state {
            State::Finished(ending) => Some(ending),
            State::Queued(_) | State::Running(_) | State::Stopping => None,
        }
    }

    /// Lines written, an unfinished last one included.
    pub(crate) fn lines(&self) -> u64 {
        self.output.lines + u64::from(self.output.open_line)
    }

    /// Whether a process of it is blocked on reading its input.
    pub(crate) fn waits_for_input(&self) -> bool {
        match &self.state {
            State::Running(Some(liveness)) => liveness.waiting_for_input,
            State::Running(None) | State::Queued(_) | State::Stopping | State::Finished(_) => false,
        }
    }
}
