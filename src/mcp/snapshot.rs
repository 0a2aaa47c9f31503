//! The state of one job at one moment, from which all forms of a reply are rendered.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::confinement::GrantedConfinement;
use crate::ids::JobId;
use crate::outcome::{JobEnding, Outcome};
use crate::output::excerpt::{Budget, tail};
use crate::output::summary::is_progress_line;
use crate::output::{LogProgress, LogReader};
use crate::service::{JobHandle, JobPhase, LimitSetting, Liveness, QueuePosition, TenantClient};
use crate::spec::Stdin;
use crate::trace::TraceId;

/// The state of one job at one moment. Plain data: nothing in it changes while a reply is rendered.
#[derive(Debug, Clone)]
pub(crate) struct JobSnapshot {
    pub(crate) job: JobId,
    pub(crate) state: State,
    /// The run time of the job so far, or in all.
    pub(crate) elapsed: Duration,
    /// The time that the job has waited for its start, or waited in all.
    pub(crate) queued: Duration,
    /// The caller's jobs that hold the slots that a queued job waits for.
    pub(crate) slot_holders: Vec<SlotHolder>,
    pub(crate) output: LogProgress,
    /// The unfinished line of output at which the job waits for input.
    pub(crate) prompt: Option<String>,
    /// `true` if the job runs in a terminal.
    pub(crate) has_terminal: bool,
    /// Time since the last output; `None` if there was none.
    pub(crate) quiet_for: Option<Duration>,
    /// Processes that outlived the job's end and are alive now; for a stopped job, also processes
    /// that may belong to it or to another job.
    pub(crate) survivors: Vec<u32>,
    pub(crate) confinement: GrantedConfinement,
    /// The reason why policy put the job into a sandbox.
    pub(crate) doubt: Option<Arc<str>>,
    /// The directories that the job may write to, if that is limited.
    pub(crate) writable: Vec<PathBuf>,
    /// `true` if the caller was shown later output of the job, but not all that came before it.
    pub(crate) has_skipped_output: bool,
    /// The server's variables that the job did not get, if it has failed and the caller may know them.
    pub(crate) withheld_variables: Vec<String>,
    /// The setting of the limit that ended the job.
    pub(crate) limit: Option<LimitSetting>,
    /// The trace of the job, if its caller knows one.
    pub(crate) trace_id: Option<TraceId>,
}

/// A running job that holds a slot.
#[derive(Debug, Clone)]
pub(crate) struct SlotHolder {
    pub(crate) job: JobId,
    pub(crate) command: String,
    pub(crate) elapsed: Duration,
    /// `true` if the job does not use the machine; lanes and tenant limits count it still.
    pub(crate) is_idle: bool,
}

/// The phase of a job's life, with the facts that a reply shows.
#[derive(Debug, Clone)]
pub(crate) enum State {
    /// Waiting for a slot; the position is known unless the job is being started right now.
    Queued(Option<QueuePosition>),
    /// Running; the facts are there while a process of the job can be inspected.
    Running(Option<Liveness>),
    Stopping,
    Finished(JobEnding),
}

impl JobSnapshot {
    /// `true` if the job ended without ever having a process.
    pub(crate) fn never_started(&self) -> bool {
        match &self.state {
            State::Finished(ending) => match ending.outcome {
                Outcome::FailedToStart(_) | Outcome::NotRun { .. } => true,
                // A job that ran has a non-zero run time.
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

    /// Takes a snapshot of a job now.
    pub(crate) async fn take(client: &TenantClient, job: &JobHandle) -> Self {
        Self::take_with(client, job, JobHandle::liveness).await
    }

    /// Takes a snapshot for frequent callers: the process facts may be slightly old.
    pub(crate) async fn take_cached(client: &TenantClient, job: &JobHandle) -> Self {
        Self::take_with(client, job, JobHandle::cached_liveness).await
    }

    async fn take_with(
        client: &TenantClient,
        job: &JobHandle,
        liveness: fn(&JobHandle) -> Option<Liveness>,
    ) -> Self {
        // Read the status before the output: a job that reads as finished has written everything
        // that will be shown.
        let mut status = job.status();
        let mut place = None;
        if status.phase == JobPhase::Queued {
            place = client.queue_position(job.id()).await;
            // The job may have started meanwhile.
            status = job.status();
        }
        let state = match &status.phase {
            JobPhase::Queued => State::Queued(place),
            JobPhase::Running => State::Running(liveness(job)),
            JobPhase::Stopping => State::Stopping,
            JobPhase::Finished(ending) => State::Finished(ending.clone()),
        };
        let slot_holders = match &state {
            State::Queued(Some(place)) => {
                let holders = client.find_slot_holders(place).await;
                holders.iter().map(|(job, is_idle)| SlotHolder::new(job, *is_idle)).collect()
            }
            State::Queued(None) | State::Running(_) | State::Stopping | State::Finished(_) => {
                Vec::new()
            }
        };
        let withheld_variables = match &state {
            State::Finished(ending) => client.withheld_variables(job, ending),
            State::Queued(_) | State::Running(_) | State::Stopping => Vec::new(),
        };
        let output = job.output().progress();
        let prompt = match &state {
            State::Running(Some(liveness)) if liveness.waiting_for_input && output.open_line => {
                read_last_line(job.output()).await
            }
            State::Running(_) | State::Queued(_) | State::Stopping | State::Finished(_) => None,
        };
        Self {
            job: job.id(),
            state,
            prompt,
            elapsed: status.elapsed(),
            queued: status.queued_for(),
            slot_holders,
            output,
            has_terminal: job.spec().stdin == Stdin::Terminal,
            quiet_for: output.last_output.map(|at| at.elapsed()),
            survivors: job.survivors().into_iter().chain(job.unattributed()).collect(),
            confinement: job.spec().confinement,
            doubt: job.spec().doubt.clone(),
            writable: client.writable_dirs(job.spec()),
            has_skipped_output: false,
            withheld_variables,
            limit: status.ending().and_then(|it| client.limit_setting(job.spec(), &it.outcome)),
            trace_id: job.spec().trace.id_known_to_caller(),
        }
    }

    /// The ending of the job, once it has ended.
    pub(crate) const fn ending(&self) -> Option<&JobEnding> {
        match &self.state {
            State::Finished(ending) => Some(ending),
            State::Queued(_) | State::Running(_) | State::Stopping => None,
        }
    }

    /// The number of lines written, including an unfinished last one.
    pub(crate) fn lines(&self) -> u64 {
        self.output.lines + u64::from(self.output.open_line)
    }

    /// `true` if a process of the job waits for its input.
    pub(crate) fn waits_for_input(&self) -> bool {
        match &self.state {
            State::Running(Some(liveness)) => liveness.waiting_for_input,
            State::Running(None) | State::Queued(_) | State::Stopping | State::Finished(_) => false,
        }
    }
}

/// The budget of the last output line; most lines fit.
const LAST_LINE: Budget = Budget { max_lines: 1, ..Budget::of_bytes(200) };

/// Reads the last line of output, unless it is empty or the log is busy.
pub(crate) async fn read_last_line(log: &LogReader) -> Option<String> {
    let section = log.read_if_idle_with(|log| tail(log, 0, LAST_LINE)).await?.sections.pop()?;
    let text = section.text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The budget of the last lines, of which one tells the progress.
const LAST_LINES: Budget = Budget { max_lines: 5, ..Budget::of_bytes(1000) };

/// Reads the line that tells how far a job has come: the last one or, if that is empty, the last
/// line before it that tells a progress, or that is not empty.
pub(crate) async fn read_progress_line(log: &LogReader) -> Option<String> {
    if let Some(last) = read_last_line(log).await {
        return Some(last);
    }
    let sections = log.read_if_idle_with(|log| tail(log, 0, LAST_LINES)).await?.sections;
    let text = sections.last()?.text.as_str();
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let progress = lines().rfind(|line| is_progress_line(line));
    progress.or_else(|| lines().next_back()).map(|line| line.chars().take(200).collect())
}

impl SlotHolder {
    fn new(job: &JobHandle, is_idle: bool) -> Self {
        Self {
            job: job.id(),
            command: job.spec().program.display(),
            elapsed: job.status().elapsed(),
            is_idle,
        }
    }
}
