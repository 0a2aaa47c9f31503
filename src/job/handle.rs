//! The public handle of a job.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::messages::{Address, JobMsg};
use super::stdin_writer::{InputError, JobInput};
use crate::ids::JobId;
use crate::outcome::{JobEnding, Outcome, StopBy};
use crate::output::LogReader;
use crate::process::ProcessTree;
use crate::spec::JobSpec;

/// A job, as the rest of the service sees it. A cheap clone; it outlives the actor.
#[derive(Debug, Clone)]
pub struct JobHandle {
    shared: Arc<Shared>,
}

/// The state that the handle and the guard share. The two `OnceLock`s are set once: `actor` when
/// the actor runs, `tree` when the process has started.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) id: JobId,
    pub(super) spec: JobSpec,
    pub(super) actor: OnceLock<Address>,
    pub(super) tree: OnceLock<Arc<ProcessTree>>,
    status: watch::Receiver<JobStatus>,
    pub(super) output: LogReader,
    last_measurement: LastMeasurement,
}

impl Shared {
    pub(super) fn new(
        id: JobId,
        spec: JobSpec,
        status: watch::Receiver<JobStatus>,
        output: LogReader,
    ) -> Self {
        let actor = OnceLock::new();
        let tree = OnceLock::new();
        let last_measurement = LastMeasurement::default();
        Self { id, spec, actor, tree, status, output, last_measurement }
    }
}

/// A request to end a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopRequest {
    /// The party that asks for it.
    pub by: StopBy,
    /// The first signal; SIGTERM where none is named.
    pub signal: Option<i32>,
    /// From that signal to SIGKILL; the job's own grace where none is named.
    pub grace: Option<Duration>,
}

impl JobHandle {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    #[must_use]
    pub fn id(&self) -> JobId {
        self.shared.id
    }

    /// The specification of the job.
    #[must_use]
    pub fn spec(&self) -> &JobSpec {
        &self.shared.spec
    }

    #[must_use]
    pub fn status(&self) -> JobStatus {
        self.shared.status.borrow().clone()
    }

    /// Everything that it wrote.
    #[must_use]
    pub fn output(&self) -> &LogReader {
        &self.shared.output
    }

    /// Returns once the job has left the queue: it runs, or it has ended.
    pub async fn started(&self) {
        let mut status = self.shared.status.clone();
        // An error means that the guard is gone, and with it the wait.
        status.wait_for(|status| status.phase != JobPhase::Queued).await.ok();
    }

    /// Returns once the job has ended. Any number may wait; giving up waiting disturbs nobody.
    pub async fn finished(&self) -> JobEnding {
        let mut status = self.shared.status.clone();
        let ended = status.wait_for(|status| status.ending().is_some()).await;
        let ending = ended.ok().and_then(|status| status.ending().cloned());
        // A guard is never dropped without an ending; if it were, report the job as lost rather
        // than wait for ever.
        ending.unwrap_or_else(|| {
            let why = "the job's actor went away without an outcome".to_owned();
            JobEnding::unmeasured(Outcome::Lost { why })
        })
    }

    /// `true` if the job has ended, none of its processes runs, and its output is complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let is_left = || self.shared.actor.get().is_none_or(Address::is_gone);
        let status = self.status();
        let ending = status.ending();
        ending.is_some_and(|ending| ending.survivors.is_empty() || is_left())
            && self.shared.output.progress().closed
    }

    /// Returns once the job [is settled](Self::is_complete). Survivors are followed by the job's
    /// actor, so its end is theirs.
    pub async fn completed(&self) {
        self.finished().await;
        if let Some(actor) = self.shared.actor.get().filter(|_| !self.is_complete()) {
            actor.gone().await;
        }
        // An actor that failed leaves before its pipes have ended.
        self.shared.output.wait_past(u64::MAX).await;
    }

    /// A look at its processes; nothing when none was started or none is left.
    #[must_use]
    pub fn liveness(&self) -> Option<Liveness> {
        let activity = self.shared.tree.get()?.read_activity();
        (activity.processes > 0).then_some(Liveness {
            processes: activity.processes,
            cpu: activity.cpu,
            rss_bytes: activity.rss_bytes,
            waiting_for_input: activity.waiting_for_input,
        })
    }

    /// The same, or what was seen a moment ago: for whoever asks often.
    #[must_use]
    pub fn cached_liveness(&self) -> Option<Liveness> {
        self.shared.last_measurement.get_or_measure(|| self.liveness())
    }

    /// Processes that outlived the leader and are alive right now.
    #[must_use]
    pub fn survivors(&self) -> Vec<u32> {
        match (&self.status().phase, self.shared.tree.get()) {
            (JobPhase::Finished(ending), Some(tree)) if !ending.survivors.is_empty() => {
                tree.living_pids()
            }
            (
                JobPhase::Finished(_) | JobPhase::Queued | JobPhase::Running | JobPhase::Stopping,
                _,
            ) => Vec::new(),
        }
    }

    /// Living processes that may belong to this job, which was ended, or to another: whoever says
    /// that its tree has ended must name them.
    #[must_use]
    pub fn unattributed(&self) -> Vec<u32> {
        let was_ended = self.status().ending().is_some_and(|ending| ending.kill.is_some());
        let tree = self.shared.tree.get().filter(|_| was_ended);
        tree.map(|tree| tree.unattributed_pids()).unwrap_or_default()
    }

    /// Its processes that are alive right now, the leader first.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.shared.tree.get().map(|tree| tree.living_pids()).unwrap_or_default()
    }

    /// Begins the end of the job; does not wait for it. Of a job that has finished, what
    /// survived is ended.
    pub fn stop(&self, request: StopRequest) {
        if let Some(actor) = self.shared.actor.get() {
            // An actor that is gone has nothing left to end.
            actor.tell(JobMsg::Stop(request));
        }
    }

    /// Makes the job's actor fail, as only a mistake in it could.
    #[cfg(test)]
    pub(crate) fn fail(&self) {
        self.shared.actor.get().expect("the job has begun").tell(JobMsg::Fail);
    }

    /// Sends input to the running job.
    ///
    /// # Errors
    /// When the job is not running, has no open input, or does not read what it got.
    pub async fn send_input(&self, input: JobInput) -> Result<(), InputError> {
        let Some(actor) = self.shared.actor.get() else {
            return Err(match self.status().phase {
                JobPhase::Queued | JobPhase::Running | JobPhase::Stopping => {
                    InputError::NotStarted(self.id())
                }
                JobPhase::Finished(_) => InputError::Finished(self.id()),
            });
        };
        let told = actor.ask(|reply| JobMsg::Input(input, reply)).await;
        told.unwrap_or(Err(InputError::Finished(self.id())))
    }
}

// The status of a job at one moment.

/// A snapshot of a job, taken without asking its actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStatus {
    /// The phase of the job.
    pub phase: JobPhase,
    /// When it was accepted.
    pub submitted: Instant,
    /// When its process was started, if it was.
    pub started: Option<Instant>,
}

/// The phase of a job, as its users see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobPhase {
    Queued,
    Running,
    /// Its tree is being ended.
    Stopping,
    Finished(JobEnding),
}

impl JobStatus {
    pub(super) fn queued_now() -> Self {
        Self { phase: JobPhase::Queued, submitted: Instant::now(), started: None }
    }

    /// The ending, once the job has ended.
    #[must_use]
    pub const fn ending(&self) -> Option<&JobEnding> {
        match &self.phase {
            JobPhase::Finished(ending) => Some(ending),
            JobPhase::Queued | JobPhase::Running | JobPhase::Stopping => None,
        }
    }

    /// From the start to the end, or to now; zero when it never started.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |started| self.until().duration_since(started))
    }

    /// From acceptance to the start; to the end, or to now, when it never started.
    #[must_use]
    pub fn queued_for(&self) -> Duration {
        self.started.unwrap_or_else(|| self.until()).duration_since(self.submitted)
    }

    fn until(&self) -> Instant {
        self.ending().map_or_else(Instant::now, |ending| ending.at)
    }
}

/// A measurement of a running job's processes, so that a quiet job is not taken for a dead one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Liveness {
    /// The number of living processes.
    pub processes: usize,
    /// CPU time that they have used so far.
    pub cpu: Duration,
    /// Their resident memory.
    pub rss_bytes: u64,
    /// One of them is blocked reading the job's standard input.
    pub waiting_for_input: bool,
}

// A cached measurement of a job's processes.

/// The age up to which a measurement is used again. Each one walks over the host's processes, so
/// there are at most ten per second, however many callers ask.
const MAX_AGE: Duration = Duration::from_millis(100);

/// The last measurement, and the time at which it began.
#[derive(Debug, Default)]
pub(super) struct LastMeasurement(Mutex<Option<(Instant, Option<Liveness>)>>);

impl LastMeasurement {
    /// Returns a recent measurement, or measures now with `measure`. While one caller measures, others
    /// get the previous result and do not wait.
    pub(super) fn get_or_measure(
        &self,
        measure: impl FnOnce() -> Option<Liveness>,
    ) -> Option<Liveness> {
        self.get_or_measure_at(Instant::now(), measure)
    }

    fn get_or_measure_at(
        &self,
        now: Instant,
        measure: impl FnOnce() -> Option<Liveness>,
    ) -> Option<Liveness> {
        {
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((began, seen)) = &mut *last {
                if now.duration_since(*began) < MAX_AGE {
                    return seen.clone();
                }
                *began = now;
            }
        }
        let seen = measure();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, seen.clone()));
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn liveness(processes: usize) -> Option<Liveness> {
        let (cpu, rss_bytes, waiting_for_input) = (Duration::ZERO, 0, false);
        Some(Liveness { processes, cpu, rss_bytes, waiting_for_input })
    }

    #[test]
    fn callers_get_the_previous_measurement_while_one_is_taken() {
        let now = Instant::now();
        let old = now.checked_sub(2 * MAX_AGE).unwrap();
        let last = LastMeasurement(Mutex::new(Some((old, liveness(1)))));
        let looked = last.get_or_measure_at(now, || {
            assert_eq!(last.get_or_measure_at(now, || panic!("a second measurement")), liveness(1));
            liveness(2)
        });
        assert_eq!(looked, liveness(2));
    }

    #[test]
    fn an_old_measurement_is_replaced() {
        let last = LastMeasurement::default();
        assert_eq!(last.get_or_measure(|| None), None);
        let old = Instant::now().checked_sub(2 * MAX_AGE).unwrap();
        *last.0.lock().unwrap() = Some((old, liveness(1)));
        assert_eq!(last.get_or_measure(|| liveness(2)), liveness(2));
    }
}
