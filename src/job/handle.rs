//! The public handle of a job.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::{oneshot, watch};

use super::messages::{Address, JobMsg};
use super::standard_streams::{self, InputError, InputReceipt, JobInput, PromptRule};
use crate::confinement::ResourceLimits;
use crate::confinement::SetAsideFile;
use crate::ids::JobId;
use crate::journal::{JournalError, JournalTicket, now_ms};
use crate::outcome::{JobEnding, LimitKind, LivingProcesses, Outcome, StopBy};
use crate::output::LogReader;
use crate::policy::gate::StartRefusal;
use crate::process::{self, ProcessInfo, ProcessTree, TerminalSize};
use crate::spec::{JobSpec, Stdin, Stream, StreamMode};

/// A job, as the rest of the service sees it. Clones are cheap, and outlive the actor.
#[derive(Debug, Clone)]
pub struct JobHandle {
    pub(super) shared: Arc<SharedJob>,
}

/// The state that the handle and the guard share. The two `OnceLock`s are set once: `actor` when
/// the actor runs, `tree` when the process has started.
#[derive(Debug)]
pub(super) struct SharedJob {
    pub(super) id: JobId,
    pub(super) spec: JobSpec,
    pub(super) actor: OnceLock<Address>,
    pub(super) tree: OnceLock<Arc<ProcessTree>>,
    status: watch::Receiver<JobStatus>,
    pub(super) output: LogReader,
    last_measurement: LastMeasurement,
    /// The limits that the server measures because the kernel of this host does not enforce them, once
    /// the job has begun.
    pub(super) measured_limits: OnceLock<ResourceLimits>,
    /// The journal record of the ending, until it was waited for.
    pub(super) end_record: Mutex<Option<JournalTicket>>,
    pub(super) refused_starts: Mutex<RefusedStarts>,
}

impl SharedJob {
    pub(super) fn new(
        id: JobId,
        spec: JobSpec,
        status: watch::Receiver<JobStatus>,
        output: LogReader,
    ) -> Self {
        let actor = OnceLock::new();
        let tree = OnceLock::new();
        let last_measurement = LastMeasurement::default();
        let measured_limits = OnceLock::new();
        let end_record = Mutex::default();
        let refused_starts = Mutex::default();
        Self {
            id,
            spec,
            actor,
            tree,
            status,
            output,
            last_measurement,
            measured_limits,
            end_record,
            refused_starts,
        }
    }

    pub(super) fn measured_limits(&self) -> ResourceLimits {
        self.measured_limits.get().copied().unwrap_or(ResourceLimits::NONE)
    }
}

/// The starts of programs in a job that its gate refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RefusedStarts {
    /// The first of them, in order.
    pub first: Vec<StartRefusal>,
    /// The number of all of them.
    pub count: u64,
    last: Option<StartRefusal>,
}

impl RefusedStarts {
    /// The most refused starts that are kept.
    const KEPT: usize = 20;

    /// Adds a start; `false` if it repeats the last one. A program that searches the PATH tries each
    /// directory.
    pub(super) fn add(&mut self, refusal: StartRefusal) -> bool {
        if self.last.as_ref() == Some(&refusal) {
            return false;
        }
        self.last = Some(refusal.clone());
        self.count += 1;
        if self.first.len() < Self::KEPT {
            self.first.push(refusal);
        }
        true
    }
}

/// A request to end a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopRequest {
    /// The party that asks for it.
    pub by: StopBy,
    /// The first signal; `None` is SIGTERM.
    pub signal: Option<i32>,
    /// The time from that signal to SIGKILL; `None` is the job's own grace period.
    pub grace: Option<Duration>,
}

/// The receipt of a request to end a job.
#[derive(Debug)]
pub enum StopReceipt {
    /// The job's actor answers once the shim has the order.
    Order(oneshot::Receiver<()>),
    /// The job had not begun: the record of its ending keeps the stop.
    Ending(JobHandle),
    /// The request asked for nothing any more.
    Nothing,
}

impl StopReceipt {
    /// Returns once the stop is carried out whatever happens to this server.
    pub async fn wait_until_ordered(self) {
        match self {
            // An actor that is gone has ended the job, or left it to the next server.
            Self::Order(given) => drop(given.await),
            Self::Ending(job) => drop(job.finished().await),
            Self::Nothing => {}
        }
    }
}

impl JobHandle {
    pub(super) const fn new(shared: Arc<SharedJob>) -> Self {
        Self { shared }
    }

    #[must_use]
    pub fn id(&self) -> JobId {
        self.shared.id
    }

    /// Returns the specification of the job.
    #[must_use]
    pub fn spec(&self) -> &JobSpec {
        &self.shared.spec
    }

    #[must_use]
    pub fn status(&self) -> JobStatus {
        self.shared.status.borrow().clone()
    }

    /// Returns a receiver that changes whenever the status does.
    #[must_use]
    pub fn watch_status(&self) -> watch::Receiver<JobStatus> {
        self.shared.status.clone()
    }

    /// Returns the reader of the job's output.
    #[must_use]
    pub fn output(&self) -> &LogReader {
        &self.shared.output
    }

    /// Checks that this stream of the job can be read; `None` = all of its output.
    ///
    /// # Errors
    /// If the job's streams are merged.
    pub fn check_stream(&self, stream: Option<Stream>) -> Result<(), StreamError> {
        check_stream(self.id(), self.spec(), stream)
    }

    /// Returns once the job has left the queue: it runs, or it has ended.
    pub async fn started(&self) {
        let mut status = self.shared.status.clone();
        // An error means that the guard is gone; then there is nothing to wait for.
        status.wait_for(|status| status.phase != JobPhase::Queued).await.ok();
    }

    /// Returns once the job has ended. Any number of callers may wait, and each may stop waiting at
    /// any time.
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

    /// Returns once the job [is complete](Self::is_complete). The job's actor follows survivors, so
    /// it ends with the last one.
    pub async fn completed(&self) {
        self.finished().await;
        if let Some(actor) = self.shared.actor.get().filter(|_| !self.is_complete()) {
            actor.wait_until_gone().await;
        }
        // An actor that failed ends before its pipes have ended.
        self.shared.output.wait_past(u64::MAX).await;
    }

    /// Measures the job's processes; `None` if none was started or none is left.
    #[must_use]
    pub fn liveness(&self) -> Option<Liveness> {
        let activity = self.shared.tree.get()?.read_activity();
        let output = self.shared.output.progress();
        (activity.processes > 0).then_some(Liveness {
            processes: activity.processes,
            cpu: activity.cpu,
            rss_bytes: activity.rss_bytes,
            waiting_for_input: standard_streams::is_waiting(activity.input_wait, &output),
        })
    }

    /// Returns a measurement that may be a moment old, for callers that ask often.
    #[must_use]
    pub fn cached_liveness(&self) -> Option<Liveness> {
        self.shared.last_measurement.get_or_measure(Instant::now(), || self.liveness())
    }

    /// Returns the processes that outlived the leader and are alive now.
    #[must_use]
    pub fn survivors(&self) -> LivingProcesses {
        match (&self.status().phase, self.shared.tree.get()) {
            (JobPhase::Finished(ending), Some(tree)) if !ending.survivors.is_empty() => {
                tree.living_processes()
            }
            (
                JobPhase::Finished(_) | JobPhase::Queued | JobPhase::Running | JobPhase::Stopping,
                _,
            ) => LivingProcesses::default(),
        }
    }

    /// `true` if the job has finished and processes of it still run.
    #[must_use]
    pub fn has_survivors(&self) -> bool {
        !self.survivors().is_empty()
    }

    /// Returns the files that appeared under protected names in a workspace of the ended job: they were
    /// renamed.
    #[must_use]
    pub fn set_aside_files(&self) -> &[SetAsideFile] {
        self.shared.tree.get().map(|tree| tree.set_aside_files()).unwrap_or_default()
    }

    /// Returns the starts of programs that the gate of the job refused so far.
    #[must_use]
    pub fn refused_starts(&self) -> RefusedStarts {
        self.shared.refused_starts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the job's living processes, the leader first.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.shared.tree.get().map(|tree| tree.living_pids()).unwrap_or_default()
    }

    /// Returns the first process of the job, while it runs.
    #[must_use]
    pub fn leader_pid(&self) -> Option<u32> {
        match self.status().phase {
            JobPhase::Running | JobPhase::Stopping => {
                self.shared.tree.get().and_then(|tree| tree.leader_pid())
            }
            JobPhase::Queued | JobPhase::Finished(_) => None,
        }
    }

    /// Describes the job's living processes. Blocks for a short time.
    #[must_use]
    pub fn list_processes(&self) -> Vec<ProcessInfo> {
        self.shared.tree.get().map(|tree| tree.list_processes()).unwrap_or_default()
    }

    /// `true` if the limit that ended the job was measured by the server: the kernel of this host does not
    /// enforce it without a cgroup, so the job could exceed it for a moment.
    #[must_use]
    pub fn is_limit_measured(&self) -> bool {
        let measured = self.shared.measured_limits();
        match self.status().ending().map(|ending| &ending.outcome) {
            Some(Outcome::Limit { which: LimitKind::Memory { .. } }) => measured.memory.is_some(),
            Some(Outcome::Limit { which: LimitKind::Processes(_) }) => measured.processes.is_some(),
            Some(_) | None => false,
        }
    }

    /// Begins to end the job and does not wait for it. For a finished job, ends the surviving
    /// processes. The receipt tells when the stop can no longer be lost.
    pub fn stop(&self, request: StopRequest) -> StopReceipt {
        let (given, receipt) = oneshot::channel();
        if let Some(actor) = self.shared.actor.get() {
            // An actor that has ended has no processes left to end.
            actor.send(JobMsg::Stop(request, given));
        }
        StopReceipt::Order(receipt)
    }

    /// Waits until the ending is in the journal, then gives up what is kept of the job for the case
    /// of a crash. Call it once no process of the job is left. The wait does not keep the output of
    /// the job from being freed.
    pub fn release_when_recorded(&self) -> impl Future<Output = ()> + use<> {
        let record = self.shared.end_record.lock().unwrap_or_else(PoisonError::into_inner).take();
        let tree = self.shared.tree.get().cloned();
        async move {
            if let Some(record) = record {
                // If the journal cannot be written, a crash makes the job lost; it is not kept for
                // ever.
                if let Err(JournalError::Closed) = record.written().await {
                    // The next server records the ending.
                    return;
                }
            }
            if let Some(tree) = tree {
                tree.release();
            }
        }
    }

    /// `true` if input can reach the job as long as it runs.
    fn takes_input(&self) -> bool {
        match self.spec().stdin {
            Stdin::Open | Stdin::Terminal => true,
            Stdin::Closed | Stdin::Text(_) | Stdin::Inherited => false,
        }
    }

    /// `true` if the job waits for input now. Blocks for a short time.
    #[must_use]
    pub fn is_waiting_for_input(&self) -> bool {
        let tree = self.shared.tree.get().filter(|_| self.takes_input());
        tree.is_some_and(|tree| {
            let activity = tree.read_input_activity();
            standard_streams::is_waiting(activity.input_wait, &self.shared.output.progress())
        })
    }

    /// Returns once the job has waited for input for about a second. Never returns for a job that
    /// takes no input. Cancel-safe.
    pub async fn waited_for_input(&self, rule: PromptRule) {
        self.started().await;
        match self.shared.tree.get().filter(|_| self.takes_input()) {
            Some(tree) => {
                standard_streams::wait_until_waiting(tree, &self.shared.output, rule).await
            }
            None => std::future::pending().await,
        }
    }

    /// Sends input to the running job.
    ///
    /// # Errors
    /// If the job is not running, has no open input, or does not read its input.
    pub async fn send_input(&self, input: JobInput) -> Result<InputReceipt, InputError> {
        let Some(actor) = self.shared.actor.get() else {
            return Err(self.no_actor_error());
        };
        let told = actor.ask(|reply| JobMsg::Input(input, reply)).await;
        told.unwrap_or(Err(InputError::Finished(self.id())))
    }

    /// Changes the size of the running job's terminal.
    ///
    /// # Errors
    /// If the job is not running, or not in a terminal.
    pub async fn resize_terminal(&self, size: TerminalSize) -> Result<(), InputError> {
        let Some(actor) = self.shared.actor.get() else {
            return Err(self.no_actor_error());
        };
        let resized = actor.ask(|reply| JobMsg::Resize(size, reply)).await;
        resized.unwrap_or(Err(InputError::Finished(self.id())))
    }

    /// The reason why a job without an actor takes no input.
    fn no_actor_error(&self) -> InputError {
        match self.status().phase {
            JobPhase::Queued | JobPhase::Running | JobPhase::Stopping => {
                InputError::NotStarted(self.id())
            }
            JobPhase::Finished(_) => InputError::Finished(self.id()),
        }
    }
}

// The streams of a job.

/// The reason why one stream of a job cannot be read by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StreamError {
    #[error(
        "job {0} has no separate streams: it writes stdout and stderr to one pipe, which keeps their order; read all of its output, or run the command with run_command(…, streams=\"separate\")"
    )]
    OnePipe(JobId),
    #[error(
        "job {0} has no separate streams: it runs in a terminal, which has only one; read all of its output, or run the command without tty: run_command(…, streams=\"separate\")"
    )]
    Terminal(JobId),
}

impl StreamError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::OnePipe(_) | Self::Terminal(_) => "merged_streams",
        }
    }
}

fn check_stream(job: JobId, spec: &JobSpec, stream: Option<Stream>) -> Result<(), StreamError> {
    match (stream, spec.streams, &spec.stdin) {
        (None, _, _) | (Some(_), StreamMode::Separate, _) => Ok(()),
        (Some(_), StreamMode::Merged, Stdin::Terminal) => Err(StreamError::Terminal(job)),
        (
            Some(_),
            StreamMode::Merged,
            Stdin::Closed | Stdin::Text(_) | Stdin::Open | Stdin::Inherited,
        ) => Err(StreamError::OnePipe(job)),
    }
}

// The status of a job at one moment.

/// A snapshot of a job, taken without asking its actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStatus {
    /// The phase of the job.
    pub phase: JobPhase,
    /// The time at which the job was accepted.
    pub submitted: Instant,
    /// The time at which the process was started, if it was.
    pub started: Option<Instant>,
    pub times: JobTimes,
}

/// The moments of a job by the wall clock, in milliseconds since 1970. Unlike an `Instant` they stay
/// the same after a restart of the server or of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobTimes {
    pub submitted_ms: u64,
    pub started_ms: Option<u64>,
    pub finished_ms: Option<u64>,
}

/// The phase of a job, as its users see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobPhase {
    Queued,
    Running,
    /// The job's tree is being ended.
    Stopping,
    Finished(JobEnding),
}

impl JobStatus {
    pub(super) fn queued_now() -> Self {
        let times = JobTimes { submitted_ms: now_ms(), started_ms: None, finished_ms: None };
        Self { phase: JobPhase::Queued, submitted: Instant::now(), started: None, times }
    }

    /// Returns the ending, once the job has ended.
    #[must_use]
    pub const fn ending(&self) -> Option<&JobEnding> {
        match &self.phase {
            JobPhase::Finished(ending) => Some(ending),
            JobPhase::Queued | JobPhase::Running | JobPhase::Stopping => None,
        }
    }

    /// Returns the time from the start to the end, or to now; zero if the job never started.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |started| self.end_or_now().duration_since(started))
    }

    /// Returns the time from acceptance to the start, or to the end or now if the job never
    /// started.
    #[must_use]
    pub fn queued_for(&self) -> Duration {
        self.started.unwrap_or_else(|| self.end_or_now()).duration_since(self.submitted)
    }

    fn end_or_now(&self) -> Instant {
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
    /// One of them waits for the job's input.
    pub waiting_for_input: bool,
}

/// Measures the CPU time that each of these jobs has used so far, with at most one pass over the
/// host's processes. Blocks. A job that has no process yet, or cannot be measured now, is left out.
#[must_use]
pub fn measure_cpu(jobs: &[JobHandle]) -> Vec<(JobId, Duration)> {
    // A cgroup is read without reading other processes.
    let mut used: Vec<(JobId, Option<Duration>)> = Vec::with_capacity(jobs.len());
    let mut without_cgroup = Vec::new();
    for job in jobs {
        let Some(tree) = job.shared.tree.get() else { continue };
        let in_cgroup = tree.total_cpu();
        if in_cgroup.is_none() {
            without_cgroup.push((used.len(), Arc::clone(tree)));
        }
        used.push((job.id(), in_cgroup));
    }
    let (places, trees): (Vec<usize>, Vec<_>) = without_cgroup.into_iter().unzip();
    let loads = process::measure_trees(&trees);
    for (place, load) in places.into_iter().zip(loads) {
        used[place].1 = Some(load.cpu);
    }
    used.into_iter().filter_map(|(id, cpu)| Some((id, cpu?))).collect()
}

// A cached measurement of a job's processes.

/// The age up to which a measurement is used again. Each one walks over the host's processes, so
/// there are at most ten per second, however many callers ask.
const MAX_AGE: Duration = Duration::from_millis(100);

/// The last measurement, and the time at which it began.
#[derive(Debug, Default)]
pub(super) struct LastMeasurement(Mutex<Option<(Instant, Option<Liveness>)>>);

impl LastMeasurement {
    /// Returns a recent measurement, or measures at `now` with `measure`. While one caller measures,
    /// others get the previous result and do not wait.
    fn get_or_measure(
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

    #[test]
    fn a_stream_can_be_read_by_itself_only_if_it_is_separate() {
        use crate::job::tests::spec;
        let job = JobId::local(1);
        let separate = spec("true");
        let merged = JobSpec { streams: StreamMode::Merged, ..separate.clone() };
        let terminal = JobSpec { stdin: Stdin::Terminal, ..merged.clone() };
        for stream in [Stream::Stdout, Stream::Stderr] {
            assert_eq!(check_stream(job, &separate, Some(stream)), Ok(()));
            let refused = |spec| check_stream(job, spec, Some(stream));
            assert_eq!(refused(&merged), Err(StreamError::OnePipe(job)));
            assert_eq!(refused(&terminal), Err(StreamError::Terminal(job)));
        }
        for spec in [separate, merged, terminal] {
            assert_eq!(check_stream(job, &spec, None), Ok(()));
        }
    }

    fn liveness(processes: usize) -> Option<Liveness> {
        let cpu = Duration::ZERO;
        let rss_bytes = 0;
        let waiting_for_input = false;
        Some(Liveness { processes, cpu, rss_bytes, waiting_for_input })
    }

    #[test]
    fn callers_get_the_previous_measurement_while_one_is_taken() {
        let now = Instant::now();
        let old = now.checked_sub(2 * MAX_AGE).unwrap();
        let last = LastMeasurement(Mutex::new(Some((old, liveness(1)))));
        let looked = last.get_or_measure(now, || {
            assert_eq!(last.get_or_measure(now, || panic!("a second measurement")), liveness(1));
            liveness(2)
        });
        assert_eq!(looked, liveness(2));
    }

    #[test]
    fn an_old_measurement_is_replaced() {
        let last = LastMeasurement::default();
        assert_eq!(last.get_or_measure(Instant::now(), || None), None);
        let old = Instant::now().checked_sub(2 * MAX_AGE).unwrap();
        *last.0.lock().unwrap() = Some((old, liveness(1)));
        assert_eq!(last.get_or_measure(Instant::now(), || liveness(2)), liveness(2));
    }
}
