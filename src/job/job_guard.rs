//! The owner of a job: the guard that ensures that every job gets an outcome, the ways to create
//! one, and the journal records of a job.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use ractor::{Actor, ActorCell, SpawnErr};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::actor::JobActor;
use super::handle::{JobHandle, JobPhase, JobStatus, SharedJob};
use super::messages::Address;
use super::start::{JobVariables, SharedJobSettings};
use super::state::TreeRemains;
use crate::confinement::ResourceLimits;
use crate::ids::JobId;
use crate::journal::{
    AcceptedJob, EndedJob, InheritedVariable, JobInputs, JournalError, JournalTicket, QueuedJob,
    Record, StartedJob, StartingJob, StoredEnding, StoredJson, now_ms, wall_ms_of,
};
use crate::outcome::{JobEnding, JobFault, Outcome, StopBy};
use crate::output::{self, ClosedLog, KeepOutput, LogBounds, LogName, LogReader, LogWriter};
use crate::process::{
    Cwd, EnvVariable, FileReservation, OpenedDir, Process, ProcessTree, StartCounts,
};
use crate::spec::{JobKey, JobSpec, LargeOutput, Stdin};
use crate::telemetry::spans::{SpanKind, TraceSpan};
use crate::telemetry::{ActiveJob, LoggedCommand, events};
use crate::trace::{BegunBy, TraceContext};

/// The owner of a job: it publishes the job's outcome.
///
/// Invariant: dropping a guard ends what is left of the process tree, and a job that has not
/// finished reads as `lost`. So neither a panic of the actor nor a dropped queue leaves a job that
/// runs forever.
#[derive(Debug)]
pub struct JobGuard {
    pub(super) shared: Arc<SharedJob>,
    pub(super) settings: Arc<SharedJobSettings>,
    /// The writer of the log, until the pump takes it over.
    pub(super) writer: Option<LogWriter>,
    /// The text that the job reads at its start, until it is sent.
    pub(super) first_input: String,
    /// The working directory, if it was opened for the job, until the process is started.
    cwd: Option<OpenedDir>,
    /// The descriptors that are reserved for the start, until it is over.
    files: Option<FileReservation>,
    /// The variables that the job inherits.
    pub(super) variables: Arc<JobVariables>,
    active: Option<ActiveJob>,
    /// The command for the log, until the job runs; `None` if it is unknown.
    logged_command: Option<LoggedCommand>,
    span: JobSpan,
    status: watch::Sender<JobStatus>,
    /// The remains of the tree at the end of the job; `None` while the job has no outcome.
    ended_with: Option<TreeRemains>,
    /// The journal record that must be written before the process is started.
    pub(super) start_record: Option<JournalTicket>,
    /// The journal record that is written while the process is started.
    pub(super) unwritten_record: Option<JournalTicket>,
    /// `true` if the next server starts the job.
    is_left: bool,
    /// The starts of programs that were counted so far; `None` until the first count of a job that a previous
    /// server has started.
    pub(super) starts: Option<StartCounts>,
}

/// Creates a job that waits: nothing runs yet, but its handle can be found, read and waited for.
/// `cwd` is the job's working directory if it is open already; else `spec.cwd` is opened by path.
/// The job inherits `variables`, or else those of the server.
#[must_use]
pub fn create_job(
    id: JobId,
    mut spec: JobSpec,
    cwd: Option<OpenedDir>,
    variables: Option<Arc<JobVariables>>,
    settings: &Arc<SharedJobSettings>,
) -> (JobGuard, JobHandle) {
    // The spec is kept as long as the job is known; its input is needed only once.
    let first_input = match &mut spec.stdin {
        Stdin::Text(text) => std::mem::take(text),
        Stdin::Closed | Stdin::Open | Stdin::Inherited | Stdin::Terminal => String::new(),
    };
    let bounds = log_bounds(&spec, settings);
    let (writer, output) = match &settings.journal {
        Some(_) => output::open_durable_log(&settings.log, bounds, log_name(id)),
        None => output::open_bounded_log(&settings.log, bounds),
    };
    let (mut guard, handle) =
        create_guard(id, spec, writer, output, JobStatus::queued_now(), settings);
    guard.first_input = first_input;
    guard.cwd = cwd;
    if let Some(variables) = variables {
        guard.variables = variables;
    }
    (guard, handle)
}

/// Creates a job of a previous server whose log goes on at its end: it runs, it has ended and
/// processes of it still run, or the server ended too early to record its log.
///
/// # Errors
/// If its log cannot be opened.
pub fn restore_open_job(
    id: JobId,
    spec: JobSpec,
    status: JobStatus,
    settings: &Arc<SharedJobSettings>,
) -> io::Result<(JobGuard, JobHandle)> {
    let (writer, output) =
        output::reopen_log(&settings.log, log_bounds(&spec, settings), log_name(id))?;
    let is_running = status.phase == JobPhase::Running;
    let started = status.started;
    let ended_with = status.ending().map(|ending| TreeRemains::new(&ending.survivors));
    let (mut guard, handle) = create_guard(id, spec, writer, output, status, settings);
    guard.ended_with = ended_with;
    if let Some(started) = started.filter(|_| is_running) {
        guard.active = Some(guard.log_span().in_scope(|| events::job_resumed(id, started)));
    }
    Ok((guard, handle))
}

/// Creates the handle of a job that ended under a previous server.
#[must_use]
pub fn restore_finished_job(
    id: JobId,
    spec: JobSpec,
    status: JobStatus,
    log: &ClosedLog,
    settings: &SharedJobSettings,
) -> JobHandle {
    let bounds = log_bounds(&spec, settings);
    let output = output::open_closed_log(&settings.log, &bounds, &log_name(id), log);
    let (_, watching) = watch::channel(status);
    JobHandle::new(Arc::new(SharedJob::new(id, spec, watching, output)))
}

/// Creates the guard and the handle of a job that nothing was given to yet.
fn create_guard(
    id: JobId,
    spec: JobSpec,
    writer: LogWriter,
    output: LogReader,
    status: JobStatus,
    settings: &Arc<SharedJobSettings>,
) -> (JobGuard, JobHandle) {
    let (status, watching) = watch::channel(status);
    let span = JobSpan::begin(id, &spec);
    let shared = Arc::new(SharedJob::new(id, spec, watching, output));
    let guard = JobGuard {
        shared: Arc::clone(&shared),
        settings: Arc::clone(settings),
        writer: Some(writer),
        first_input: String::new(),
        cwd: None,
        files: None,
        variables: Arc::clone(&settings.environment),
        active: None,
        logged_command: None,
        span,
        status,
        ended_with: None,
        start_record: None,
        unwritten_record: None,
        is_left: false,
        starts: Some(StartCounts::default()),
    };
    (guard, JobHandle::new(shared))
}

/// Returns how much of the job's output is kept, and the quota that is charged for it.
fn log_bounds(spec: &JobSpec, settings: &SharedJobSettings) -> LogBounds {
    let keep = match spec.on_large_output {
        LargeOutput::Spill | LargeOutput::Error => KeepOutput::All,
        LargeOutput::Truncate => KeepOutput::Ends(spec.limits.large_bytes),
    };
    LogBounds { keep, quota: settings.quota.tenant_quota(spec.tenant.name()) }
}

/// Returns the name under which the keeper holds the process of a job.
#[must_use]
pub fn keep_name(id: JobId) -> String {
    format!("{}/{}", id.tenant().name(), id.number())
}

/// Returns the name of the output files of a job.
#[must_use]
pub fn log_name(id: JobId) -> LogName {
    LogName::from_text(&keep_name(id))
}

impl JobGuard {
    #[must_use]
    pub fn id(&self) -> JobId {
        self.shared.id
    }

    /// Logs and counts the job as submitted.
    pub fn log_submission(&mut self, command: LoggedCommand) {
        self.span.log_span.in_scope(|| events::job_submitted(self.shared.id, &command));
        self.set_logged_command(command);
    }

    /// Sets the command that the log shows at the end of the job.
    pub fn set_logged_command(&mut self, command: LoggedCommand) {
        match &mut self.active {
            Some(active) => active.set_command(command),
            None => self.logged_command = Some(command),
        }
    }

    /// Returns the tracing span of log lines about the job.
    #[must_use]
    pub const fn log_span(&self) -> &tracing::Span {
        &self.span.log_span
    }

    /// Returns the trace context for the job's processes.
    pub(super) const fn trace(&self) -> Option<&TraceContext> {
        self.span.handed_on.as_ref()
    }

    pub(super) fn spec(&self) -> &JobSpec {
        &self.shared.spec
    }

    pub(super) fn output(&self) -> &LogReader {
        &self.shared.output
    }

    pub(super) fn tree(&self) -> Option<Arc<ProcessTree>> {
        self.shared.tree.get().cloned()
    }

    /// Returns the limits that the kernel does not enforce, also once the tree is over.
    pub(super) fn measured_limits(&self) -> ResourceLimits {
        self.shared.measured_limits()
    }

    pub(super) fn set_tree(&self, tree: ProcessTree) -> Arc<ProcessTree> {
        let measured = tree.unenforced_limits(&self.shared.spec.resources);
        self.shared.measured_limits.get_or_init(|| measured);
        Arc::clone(self.shared.tree.get_or_init(|| Arc::new(tree)))
    }

    /// Takes the working directory. A directory that was opened for the job can be taken once.
    pub(super) fn take_cwd(&mut self) -> Cwd {
        match self.cwd.take() {
            Some(opened) => Cwd::Opened(Arc::new(opened)),
            None => Cwd::Path(self.shared.spec.cwd.clone()),
        }
    }

    /// Holds the descriptors that are reserved for the start of the process.
    pub fn hold_files(&mut self, files: FileReservation) {
        self.files = Some(files);
    }

    /// Releases the reserved descriptors: the start of the process is over.
    pub(super) fn release_files(&mut self) {
        self.files = None;
    }

    /// Runs the job under an actor of its own, linked to its supervisor. Hands the guard over to that
    /// actor, which owns the job from then on.
    ///
    /// # Errors
    /// If the actor could not be started; then the job's outcome is `lost`.
    pub async fn run(self, supervisor: ActorCell) -> Result<(), SpawnErr> {
        Actor::spawn_linked(None, JobActor, (self, None), supervisor).await?;
        Ok(())
    }

    /// Follows a process of a previous server under an actor, linked to the supervisor of the job.
    /// Hands the guard and the process over to that actor.
    ///
    /// # Errors
    /// If the actor could not be started; then the process tree ends and the outcome is `lost`.
    pub async fn resume(self, process: Process, supervisor: ActorCell) -> Result<(), SpawnErr> {
        self.set_tree(process.tree.clone());
        Actor::spawn_linked(None, JobActor, (self, Some(Box::new(process))), supervisor).await?;
        Ok(())
    }

    /// Sets the time at which the job was accepted by a previous server, by both clocks.
    pub fn set_submitted(&self, submitted: Instant, submitted_ms: u64) {
        self.status.send_modify(|status| {
            status.submitted = submitted;
            status.times.submitted_ms = submitted_ms;
        });
    }

    /// Returns the record of what the start of this waiting job needs.
    #[must_use]
    pub fn queued_record(&self) -> Record {
        let mut inputs = JobInputs::from_spec(self.spec());
        if !self.first_input.is_empty() {
            inputs.stdin = Some(self.first_input.clone());
        }
        if !Arc::ptr_eq(&self.variables, &self.settings.environment) {
            let variable = |variable: &EnvVariable| InheritedVariable {
                name: variable.name().to_owned(),
                value: variable.value().to_owned(),
            };
            inputs.inherited = Some(self.variables.inherited().iter().map(variable).collect());
            inputs.withheld = self.variables.withheld_names().map(str::to_owned).collect();
        }
        Record::Queued(QueuedJob { job: self.shared.id, inputs })
    }

    /// Makes the start of the process wait until this record is in the journal.
    pub fn start_after(&mut self, record: JournalTicket) {
        self.start_record = Some(record);
    }

    /// Makes the first output wait until this record is in the journal, or late.
    pub fn start_beside(&mut self, record: JournalTicket) {
        self.unwritten_record = Some(record);
    }

    /// `true` if the job has its outcome.
    pub(super) const fn has_ended(&self) -> bool {
        self.ended_with.is_some()
    }

    /// Ends a job of a previous server that cannot go on, and records it.
    pub fn finish_lost(mut self, why: String) {
        self.finish(JobEnding::unmeasured(Outcome::Lost { why }));
    }

    /// Makes the job reachable for requests.
    pub(super) fn set_actor(&self, actor: Address) {
        // A guard runs once, so the cell is empty.
        self.shared.actor.set(actor).ok();
    }

    /// Ends a job that waits for a slot.
    pub fn stop_unstarted(mut self, by: StopBy) {
        let waited = self.status.borrow().queued_for();
        self.finish(JobEnding::unmeasured(Outcome::NotRun { by, waited }));
    }

    /// Leaves a job that waits as it is in the journal: it is handed over to the next server, which
    /// starts it.
    pub fn leave_to_next_server(&mut self) {
        if !std::mem::replace(&mut self.is_left, true) {
            // Never dropped: whoever waits for the end of the job must not take this server's end
            // for it.
            std::mem::forget(self.status.clone());
        }
    }

    pub(super) fn mark_running(&mut self) {
        let queued = self.status.borrow().queued_for();
        let command = self.logged_command.take();
        let started = || events::job_started(self.shared.id, queued, command);
        self.active = Some(self.span.log_span.in_scope(started));
        self.status.send_modify(|status| {
            status.phase = JobPhase::Running;
            status.started = Some(Instant::now());
            status.times.started_ms = Some(now_ms());
        });
    }

    pub(super) fn mark_stopping(&mut self) {
        if let Some(active) = &mut self.active {
            active.mark_stopping();
        }
        self.status.send_modify(|status| status.phase = JobPhase::Stopping);
    }

    /// Records the ending and publishes it, once. Closes the log if no pump took its writer.
    pub(super) fn finish(&mut self, ending: JobEnding) {
        self.writer = None;
        self.release_files();
        self.ended_with = Some(TreeRemains::new(&ending.survivors));
        let active = self.active.take();
        let written = self.shared.output.progress().written_bytes();
        self.span.log_span.in_scope(|| match active {
            Some(active) => active.finish(&ending, written),
            None => {
                let command = self.logged_command.as_ref();
                events::job_ended_before_start(self.shared.id, &ending.outcome, command);
            }
        });
        let queued = self.status.borrow().queued_for();
        self.span.end(&ending, queued);
        let record = self.record_end(&ending);
        let status = self.status.clone();
        let finished_ms = wall_ms_of(ending.at);
        let publish = move |ending| {
            status.send_modify(|status| {
                status.phase = JobPhase::Finished(ending);
                status.times.finished_ms = Some(finished_ms);
            });
        };
        match (record, Handle::try_current()) {
            // After a crash the shim could not tell this ending again, so nobody hears of it
            // before it is recorded.
            (Some(record), Ok(runtime)) if !is_known_to_shim(&ending.outcome) => {
                let gate = self.settings.pumps.clone();
                // Hands the ending over to a task: the guard may be gone before it is published.
                runtime.spawn(async move {
                    // A journal that cannot be written reports its state itself.
                    let written = record.written_soon().await;
                    if gate.is_closed() && matches!(written, Err(JournalError::Closed)) {
                        // The next server decides. Whoever waits must not take the end of this one for
                        // the end of the job.
                        return std::mem::forget(publish);
                    }
                    publish(ending);
                });
            }
            (record, _) => {
                *self.shared.end_record.lock().unwrap_or_else(PoisonError::into_inner) = record;
                publish(ending);
            }
        }
    }

    /// Answers once callers hear of the ending, which is on record then.
    pub(super) fn answer_when_ended(&self, answer: oneshot::Sender<()>) {
        let mut status = self.status.subscribe();
        tokio::spawn(async move {
            if status.wait_for(|status| status.ending().is_some()).await.is_ok() {
                // The caller may not want to know.
                answer.send(()).ok();
            }
        });
    }

    /// Writes the start of the process to the journal.
    pub(super) fn record_start(&self) {
        let started_ms = self.status.borrow().times.started_ms;
        if let (Some(journal), Some(at_ms)) = (&self.settings.journal, started_ms) {
            let pid = self.tree().and_then(|tree| tree.leader_pid()).unwrap_or_default();
            let started = StartedJob { job: self.shared.id, at_ms, pid };
            drop(journal.append(&Record::Started(started)));
        }
    }

    fn record_end(&self, ending: &JobEnding) -> Option<JournalTicket> {
        let journal = self.settings.journal.as_ref()?;
        let log = self.shared.output.closed_state();
        let started = self.status.borrow().started;
        let record = ended_record(self.shared.id, started, ending, log.as_ref());
        Some(journal.append(&record))
    }
}

/// `true` if the shim keeps this ending until it is released.
const fn is_known_to_shim(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Exited { .. } | Outcome::Signaled { .. } | Outcome::TimedOut { .. })
}

impl Drop for JobGuard {
    fn drop(&mut self) {
        if self.is_left || self.ended_with == Some(TreeRemains::Nobody) {
            return;
        }
        let why = if let Some(tree) = self.tree() {
            // Killing verifies its result and may take a while, so the tree is handed over to another
            // thread than the one that unwinds, if the system provides one.
            let elsewhere = Arc::clone(&tree);
            if thread::Builder::new().spawn(move || elsewhere.kill()).is_err() {
                // Processes that are left even then are ended with the server.
                let _is_over = tree.kill();
            }
            "the actor that ran this job failed; its process tree is being killed"
        } else {
            "the server failed before this job began; nothing was run"
        };
        // No actor follows the survivors of a finished job any more, so no request could end them.
        if self.ended_with.is_none() {
            self.finish(JobEnding::unmeasured(Outcome::Lost { why: why.to_owned() }));
        }
    }
}

// The span of a job in traces, from its acceptance to its end.

/// The span of one job, a child of the call that submitted it. It records how the job went, never
/// its command, output or environment.
#[derive(Debug)]
struct JobSpan {
    /// `None` once the job has ended.
    span: Option<TraceSpan>,
    /// The span of all log lines about the job, also after its end.
    log_span: tracing::Span,
    /// The trace context that the job's processes get, if the caller has one: without one they
    /// have no use for it.
    handed_on: Option<TraceContext>,
}

impl JobSpan {
    fn begin(id: JobId, spec: &JobSpec) -> Self {
        let mut span =
            TraceSpan::start(SpanKind::Internal, "job".to_owned(), Some(&spec.trace.context));
        span.set_attribute("shellyard.job", i64::try_from(id.number()).unwrap_or(i64::MAX));
        span.set_attribute("shellyard.tenant", id.tenant().name());
        span.set_attribute("shellyard.lane", spec.lane.as_str());
        let handed_on = match spec.trace.begun_by {
            BegunBy::Caller => Some(span.context().clone()),
            BegunBy::Server => None,
        };
        Self { log_span: span.log_span().clone(), span: Some(span), handed_on }
    }

    /// Ends the span; `queued` is the time that the job waited. Only a fault of the server marks it
    /// as an error: a failing command is a normal result.
    fn end(&mut self, ending: &JobEnding, queued: Duration) {
        let Some(mut span) = self.span.take() else { return };
        span.set_attribute("shellyard.outcome", ending.outcome.word());
        if let Outcome::Exited { code } = &ending.outcome {
            span.set_attribute("process.exit.code", i64::from(*code));
        }
        span.set_attribute(
            "shellyard.queued_ms",
            i64::try_from(queued.as_millis()).unwrap_or(i64::MAX),
        );
        if ending.outcome.fault() == Some(JobFault::Server) {
            span.set_error(&ending.outcome.word());
        }
    }
}

// The journal records of a job.

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

/// Returns the record of a job whose process is about to be created.
#[must_use]
pub fn starting_record(job: JobId) -> Record {
    Record::Starting(StartingJob { job, at_ms: now_ms() })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{StartError, StopBy};
    use crate::telemetry::spans::recorded;
    use crate::trace::CallTrace;

    /// Returns the exported span of a job with this outcome, and the span of its call.
    fn exported(outcome: Outcome) -> (crate::telemetry::spans::FinishedSpan, TraceContext) {
        recorded::start();
        let call = CallTrace::start();
        let spec = JobSpec { trace: call.clone(), ..super::super::tests::spec("secret") };
        let mut span = JobSpan::begin(JobId::local(7), &spec);
        let ending = JobEnding::unmeasured(outcome);
        span.end(&ending, Duration::from_millis(12));
        span.end(&ending, Duration::ZERO);
        let mut spans = recorded::spans_of_trace(call.context.trace_id);
        let span = spans.pop().unwrap();
        assert!(spans.is_empty(), "a job ends once: {spans:?}");
        (span, call.context)
    }

    #[test]
    fn a_span_tells_how_its_job_went_and_nothing_of_what_it_ran() {
        let (span, call) = exported(Outcome::Exited { code: 3 });
        assert_eq!((span.name.as_str(), span.kind), ("job", SpanKind::Internal));
        assert_eq!(span.parent, Some(call.span_id));
        let expected = [
            ("shellyard.job", 7.into()),
            ("shellyard.tenant", "local".into()),
            ("shellyard.lane", "default".into()),
            ("shellyard.outcome", "exited".into()),
            ("process.exit.code", 3.into()),
            ("shellyard.queued_ms", 12.into()),
        ];
        assert_eq!(span.attributes, expected);
        assert_eq!(span.error, None, "a command that fails is no error of ours");
    }

    #[test]
    fn only_what_is_our_fault_is_an_error() {
        let program = || "x".to_owned();
        for (outcome, error) in [
            (Outcome::Stopped { by: StopBy::Client }, None),
            (Outcome::Signaled { signal: 9, core: false }, None),
            (Outcome::FailedToStart(StartError::NotFound { program: program() }), None),
            (
                Outcome::FailedToStart(StartError::System { program: program(), why: program() }),
                Some("failed_to_start"),
            ),
            (Outcome::Lost { why: program() }, Some("lost")),
        ] {
            assert_eq!(exported(outcome.clone()).0.error.as_deref(), error, "{outcome:?}");
        }
    }

    #[test]
    fn processes_are_told_only_of_traces_that_callers_keep() {
        let (own, sent) =
            (CallTrace::start(), CallTrace { begun_by: BegunBy::Caller, ..CallTrace::start() });
        let told = |trace: &CallTrace| {
            let spec = JobSpec { trace: trace.clone(), ..super::super::tests::spec("true") };
            JobSpan::begin(JobId::local(7), &spec).handed_on
        };
        assert_eq!(told(&own), None);
        let told = told(&sent).unwrap();
        assert_eq!(told.trace_id, sent.context.trace_id);
        assert_ne!(told.span_id, sent.context.span_id);
    }
}
