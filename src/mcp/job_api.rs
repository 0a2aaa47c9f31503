//! Jobs for callers outside MCP: submissions, read and admitted as those of `run_command` are, and the
//! state of jobs in the structured form of replies, with secrets masked.

use std::time::{Duration, Instant, UNIX_EPOCH};

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use thiserror::Error;

use super::args::{ArgError, ArgKind, ArgSpec, Args, build_schema};
use super::handler::Handler;
use super::reply::{
    DigestError, JobSnapshot, MAX_LISTED, ReplyPart, State, ToolReply, client_fields, mask_value,
    millis, read_summary, summary_fields,
};
use super::settings::ResultFormat;
use super::tools::{read_terms, type_in};
use crate::ids::JobNumber;
use crate::outcome::signal_name;
use crate::service::{
    CallerIdentity, CallerRole, JobHandle, JobPhase, JobTimes, ProcessInfo, Submission,
    SubmitError, TenantClient, TerminalSize,
};
use crate::spec::{
    CallMode, JobClient, JobProgram, JobSpec, LargeOutput, NO_TIMEOUT, Priority, Stdin, StreamMode,
};
use crate::telemetry::audit::format_rfc3339;

/// The fields of a request.
const FIELDS: [ArgSpec; 20] = [
    ArgSpec::optional("command", ArgKind::Text, "Shell command line"),
    ArgSpec::optional(
        "program",
        ArgKind::Text,
        "Program to run without a shell, instead of command",
    ),
    ArgSpec::optional("args", ArgKind::Texts, "Arguments of the program"),
    ArgSpec::optional("directory", ArgKind::Text, "Working directory"),
    ArgSpec::optional("env", ArgKind::Pairs, "Variables to add to the environment"),
    ArgSpec::with_empty(
        "stdin",
        ArgKind::Text,
        "Standard input; \"\" is none. Without this field the input stays open for POST /input",
    ),
    ArgSpec::optional("timeout_s", ArgKind::Seconds, "Then the process tree is killed"),
    ArgSpec::optional("description", ArgKind::Text, "Shown in lists"),
    ArgSpec::optional("lane", ArgKind::Text, "Queue lane"),
    ArgSpec::optional(
        "priority",
        ArgKind::Choice(&["low", "normal", "high"]),
        "Order among the waiting jobs of the tenant",
    ),
    ArgSpec::optional("terminal", ArgKind::Flag, "Run in a terminal"),
    ArgSpec::optional("rows", ArgKind::Whole, "Height of the terminal"),
    ArgSpec::optional("columns", ArgKind::Whole, "Width of the terminal"),
    ArgSpec::optional(
        "streams",
        ArgKind::Choice(&["merged", "separate"]),
        "separate: stdout and stderr apart, not in order",
    ),
    ArgSpec::optional(
        "on_large_output",
        ArgKind::Choice(&["spill", "truncate", "error"]),
        "Keep all, keep both ends, or stop",
    ),
    ArgSpec::optional(
        "confinement",
        ArgKind::Choice(&["none", "default", "workspace-write", "read-only"]),
        "Sandbox profile; it can only be tighter than the tenant's",
    ),
    ArgSpec::optional("network", ArgKind::Choice(&["on", "off"]), "Network access"),
    ArgSpec::optional(
        "limits",
        ArgKind::Object,
        "memory (2 GB), cpu_s, processes, open_files, file_size, nice",
    ),
    ArgSpec::optional("key", ArgKind::Text, "Same key, same job: a retry runs nothing twice"),
    ArgSpec::optional("shell", ArgKind::Text, "Path of the shell for command"),
];

/// The reason why a request submitted no job.
#[derive(Debug, Error)]
pub enum JobRequestError {
    /// The text says which field is not valid, and why.
    #[error("{0}")]
    Fields(String),
    #[error("refused, nothing was run: {0}")]
    Submit(#[from] SubmitError),
}

impl From<ArgError> for JobRequestError {
    fn from(error: ArgError) -> Self {
        Self::Fields(error.to_string())
    }
}

/// A request for a job, read but not admitted.
struct JobRequest {
    submission: Submission,
    /// The text to type into the terminal.
    typed: Option<String>,
}

/// Returns the JSON schema of a request.
#[must_use]
pub fn job_request_schema() -> Value {
    Value::Object(build_schema(&FIELDS))
}

impl Handler {
    /// Submits the job of a request by the program `client`.
    ///
    /// # Errors
    /// If a field is not valid, or the job is not accepted.
    pub async fn submit_job(
        &self,
        caller: CallerIdentity,
        client: &JobClient,
        fields: JsonObject,
    ) -> Result<JobHandle, JobRequestError> {
        let JobRequest { submission, typed } = JobRequest::read(fields)?;
        let called = Instant::now();
        let job = self.client_named(caller, client).submit(submission).await?;
        // The key may have returned a job that an earlier request started.
        let is_new = job.status().submitted >= called;
        if let Some(text) = typed.filter(|_| is_new) {
            let job = job.clone();
            tokio::spawn(async move {
                job.started().await;
                type_in(job, text).await;
            });
        }
        Ok(job)
    }

    fn client_named(&self, caller: CallerIdentity, client: &JobClient) -> TenantClient {
        let named = self.shared.service.tenant_client(caller, &client.name);
        match &client.version {
            Some(version) => named.with_client_version(version),
            None => named,
        }
    }
}

impl JobRequest {
    fn read(fields: JsonObject) -> Result<Self, ArgError> {
        let mut args = Args::new(Some(fields), &FIELDS)?;
        let program = read_program(&mut args)?;
        let text = args.text("stdin")?;
        let has_terminal = args.flag("terminal")?;
        let (stdin, typed) = match (has_terminal, text) {
            (true, text) => (Stdin::Terminal, text.filter(|text| !text.is_empty())),
            (false, Some(text)) => (Stdin::Text(text), None),
            (false, None) => (Stdin::Open, None),
        };
        let terminal_size = read_size(&mut args)?;
        let streams = args.choice("streams", &StreamMode::WORDS)?;
        if has_terminal && streams == Some(StreamMode::Separate) {
            return Err(ArgError::Conflict(
                "a terminal has only one stream; leave `terminal` or `streams` out",
            ));
        }
        if !has_terminal && terminal_size.is_some() {
            return Err(ArgError::Conflict("`rows` and `columns` are for a job with `terminal`"));
        }
        let submission = Submission {
            cwd: args.text("directory")?.map(Into::into),
            env: args.pairs("env")?,
            stdin,
            terminal_size,
            streams,
            timeout: args.seconds("timeout_s")?,
            on_large_output: args.choice("on_large_output", &LargeOutput::WORDS)?,
            description: args.text("description")?,
            lane: args.text("lane")?,
            priority: args.choice("priority", &Priority::WORDS)?,
            call_mode: CallMode::Background,
            confinement: read_terms(&mut args)?,
            key: args.text("key")?,
            shell: args.text("shell")?,
            ..Submission::new(program)
        };
        Ok(Self { submission, typed })
    }
}

fn read_program(args: &mut Args) -> Result<JobProgram, ArgError> {
    let arguments = args.texts("args")?;
    match (args.text("command")?, args.text("program")?, arguments) {
        (Some(command), None, None) => Ok(JobProgram::Shell(command)),
        (None, Some(program), args) => {
            Ok(JobProgram::Direct { program, args: args.unwrap_or_default() })
        }
        (Some(_), None, Some(_)) => {
            Err(ArgError::Conflict("`args` are for a `program`; put them into `command`"))
        }
        (Some(_), Some(_), _) => {
            Err(ArgError::Conflict("give `command` or `program`, and not both"))
        }
        (None, None, _) => Err(ArgError::Conflict(
            "there is nothing to run: give `command`, or `program` and `args`",
        )),
    }
}

fn read_size(args: &mut Args) -> Result<Option<TerminalSize>, ArgError> {
    let sizes = 1..=u64::from(TerminalSize::MAX);
    let rows = args.whole("rows", sizes.clone())?.and_then(|rows| u16::try_from(rows).ok());
    let columns = args.whole("columns", sizes)?.and_then(|columns| u16::try_from(columns).ok());
    match (rows, columns) {
        (Some(rows), Some(columns)) => Ok(Some(TerminalSize { rows, columns })),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => {
            Err(ArgError::Conflict("`rows` and `columns` belong together; give both"))
        }
    }
}

/// The phase of a job's life, as a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    Queued,
    Running,
    Stopping,
    Finished,
}

impl JobState {
    /// `true` if the job is in this state. A finished job of which processes still run is running,
    /// too.
    fn includes(self, job: &JobHandle) -> bool {
        match (&job.status().phase, self) {
            (JobPhase::Queued, Self::Queued)
            | (JobPhase::Running, Self::Running)
            | (JobPhase::Stopping, Self::Stopping)
            | (JobPhase::Finished(_), Self::Finished) => true,
            (JobPhase::Finished(_), Self::Running) => job.has_survivors(),
            (
                JobPhase::Queued | JobPhase::Running | JobPhase::Stopping | JobPhase::Finished(_),
                _,
            ) => false,
        }
    }
}

/// The jobs that a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobFilter {
    /// Only jobs in this state.
    pub state: Option<JobState>,
    /// Only jobs with this number: each tenant may have one.
    pub number: Option<JobNumber>,
    /// The most jobs.
    pub limit: usize,
}

impl JobFilter {
    /// Selects from jobs that are listed newest first. If there are more than the limit, those that
    /// have not finished come before newer ones that have.
    fn select(&self, mut jobs: Vec<JobHandle>) -> Vec<JobHandle> {
        jobs.retain(|job| {
            self.number.is_none_or(|number| job.id().job_number() == number)
                && self.state.is_none_or(|state| state.includes(job))
        });
        let has_finished = |job: &JobHandle| job.status().ending().is_some();
        let active = jobs.iter().filter(|job| !has_finished(job)).count();
        let mut room = self.limit.saturating_sub(active);
        jobs.retain(|job| {
            let is_kept = !has_finished(job) || room > 0;
            room -= usize::from(has_finished(job) && room > 0);
            is_kept
        });
        jobs.truncate(self.limit);
        jobs
    }
}

/// The parts of a job's state that a caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobDetail {
    /// The fields that lists have.
    Summary,
    /// These, and the processes of a running job.
    WithProcesses,
}

impl Handler {
    /// Returns the state of one job: the fields of a structured reply, without output, and those of
    /// its request.
    pub async fn describe_job(
        &self,
        caller: CallerIdentity,
        job: &JobHandle,
        detail: JobDetail,
    ) -> Value {
        let client = self.client_for(caller);
        let now = JobSnapshot::take(&client, job).await;
        let mut fields = request_fields(job, &now.state);
        if let (JobDetail::WithProcesses, State::Running(_) | State::Stopping) =
            (detail, &now.state)
        {
            let job = job.clone();
            let listed = tokio::task::spawn_blocking(move || job.list_processes()).await;
            fields.insert("processes".into(), process_fields(listed.unwrap_or_default()));
        }
        let bare = ToolReply::for_job(&now, None, ResultFormat::Structured);
        let add = |reply: ToolReply, (name, value): (String, Value)| reply.with_field(&name, value);
        to_structured(&client, fields.into_iter().fold(bare, add))
    }

    /// Returns the facts of a job's output, with secrets masked.
    ///
    /// # Errors
    /// Fails if the output cannot be read.
    pub async fn digest_job(
        &self,
        caller: CallerIdentity,
        job: &JobHandle,
    ) -> Result<Value, DigestError> {
        let client = self.client_for(caller);
        let mut fields = summary_fields(&*read_summary(job.output()).await?, MAX_LISTED);
        mask_value(&mut fields, &client.redactor());
        Ok(fields)
    }

    /// Returns the caller's jobs that a filter selects, newest first: `{"jobs": [ … ]}`.
    pub async fn list_jobs(&self, caller: CallerIdentity, filter: JobFilter) -> Value {
        let client = self.client_for(caller);
        let jobs = client.list().await;
        let mut parts = Vec::new();
        for job in &filter.select(jobs) {
            let now = JobSnapshot::take(&client, job).await;
            parts.push(ReplyPart::for_list(&now, String::new(), request_fields(job, &now.state)));
        }
        to_structured(&client, ToolReply::for_jobs(Some(String::new()), parts))
    }

    /// Returns the jobs of all tenants that a filter selects, each with its tenant's name: for an
    /// operator.
    pub async fn list_all_jobs(&self, filter: JobFilter) -> Value {
        let jobs = self.shared.service.list_all().await;
        let mut parts = Vec::new();
        for job in &filter.select(jobs) {
            let tenant = job.id().tenant();
            let client = self.client_for(CallerIdentity { tenant, role: CallerRole::Read });
            let now = JobSnapshot::take(&client, job).await;
            let mut fields = request_fields(job, &now.state);
            fields.insert("tenant".into(), tenant.name().into());
            parts.push(ReplyPart::for_list(&now, String::new(), fields));
        }
        let client = self.client_for(CallerIdentity::LOCAL);
        to_structured(&client, ToolReply::for_jobs(Some(String::new()), parts))
    }
}

fn to_structured(client: &TenantClient, reply: ToolReply) -> Value {
    let masked = reply.with_hint(None).masked(&client.redactor());
    masked.into_result(ResultFormat::Structured).structured_content.unwrap_or_default()
}

/// Returns the fields that identify a job beside its number, and those of its request. `state` is the
/// one that the caller sees: the job may be further now, and its times must not contradict it.
fn request_fields(job: &JobHandle, state: &State) -> JsonObject {
    let spec = job.spec();
    let mut fields = JsonObject::new();
    fields.insert("command".into(), spec.program.display().into());
    let texts = [("description", &spec.description), ("key", &spec.key)];
    for (name, text) in texts {
        fields.extend(text.as_deref().map(|text| (name.to_owned(), text.into())));
    }
    fields.insert("trace_id".into(), spec.trace.context.trace_id.to_string().into());
    fields.extend(client_fields(&spec.client));
    fields.insert("directory".into(), spec.cwd.to_string_lossy().into());
    fields.insert("terminal".into(), (spec.stdin == Stdin::Terminal).into());
    fields.insert("lane".into(), spec.lane.as_str().into());
    fields.insert("priority".into(), priority_word(spec.priority).into());
    fields.insert("limits".into(), limit_fields(spec));
    fields.extend(time_fields(times_in_state(job.status().times, state)));
    if let State::Running(_) | State::Stopping = state {
        fields.extend(job.leader_pid().map(|pid| ("pid".to_owned(), pid.into())));
    }
    if let State::Finished(ending) = state {
        let kill = ending.kill.map(|kill| signal_name(kill.last_signal()));
        fields.extend(kill.map(|signal| ("kill_signal".to_owned(), signal.into())));
    }
    fields
}

/// Returns the times up to a state that the job had a moment ago.
const fn times_in_state(times: JobTimes, state: &State) -> JobTimes {
    match state {
        State::Queued(_) => JobTimes { started_ms: None, finished_ms: None, ..times },
        State::Running(_) | State::Stopping => JobTimes { finished_ms: None, ..times },
        State::Finished(_) => times,
    }
}

fn priority_word(wanted: Priority) -> &'static str {
    let known = Priority::WORDS.iter().find(|(_, priority)| *priority == wanted);
    known.map_or("normal", |(word, _)| word)
}

/// Returns the times at which the job was accepted, started and finished, as far as it has come.
fn time_fields(times: JobTimes) -> impl Iterator<Item = (String, Value)> {
    let JobTimes { submitted_ms, started_ms, finished_ms } = times;
    let times = [
        ("submitted_at", Some(submitted_ms)),
        ("started_at", started_ms),
        ("finished_at", finished_ms),
    ];
    times.into_iter().filter_map(|(name, time)| Some((name.to_owned(), format_ms(time?).into())))
}

/// Formats milliseconds since 1970 as `2026-11-15T04:01:21.042Z`.
fn format_ms(time: u64) -> String {
    let moment = UNIX_EPOCH.checked_add(Duration::from_millis(time));
    format_rfc3339(moment.unwrap_or(UNIX_EPOCH))
}

/// Returns the limits of a job; one that does not exist is absent.
fn limit_fields(spec: &JobSpec) -> Value {
    let limits = spec.limits;
    let resources = spec.resources;
    let fields = [
        ("timeout_s", (limits.timeout < NO_TIMEOUT).then(|| json!(limits.timeout.as_secs_f64()))),
        ("grace_s", Some(json!(limits.grace.as_secs_f64()))),
        ("output_bytes", finite(limits.output_bytes)),
        ("output_lines", finite(limits.output_lines)),
        ("memory", resources.memory.map(Value::from)),
        ("cpu_s", resources.cpu.map(|time| json!(time.as_secs_f64()))),
        ("processes", resources.processes.map(Value::from)),
        ("open_files", resources.open_files.map(Value::from)),
        ("file_size", resources.file_size.map(Value::from)),
        ("nice", (resources.nice > 0).then(|| resources.nice.into())),
    ];
    let set = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(set.collect())
}

/// Returns a limit, unless it is the number that stands for none.
fn finite(limit: u64) -> Option<Value> {
    (limit < u64::MAX).then(|| limit.into())
}

/// Returns the living processes of a job, the leader first.
fn process_fields(processes: Vec<ProcessInfo>) -> Value {
    let to_fields = |process: ProcessInfo| {
        json!({
            "pid": process.pid,
            "parent_pid": process.parent,
            "command": process.command,
            "cpu_ms": millis(process.cpu),
            "rss_bytes": process.rss_bytes,
        })
    };
    processes.into_iter().map(to_fields).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::spec;
    use crate::spec::RunLimits;

    fn read(given: &Value) -> Result<JobRequest, ArgError> {
        JobRequest::read(given.as_object().cloned().unwrap())
    }

    #[test]
    fn a_request_names_a_command_or_a_program() {
        let shell = read(&json!({"command": "ls -l", "timeout_s": 1.5})).unwrap().submission;
        assert_eq!(shell.program, JobProgram::Shell("ls -l".into()));
        assert_eq!((shell.timeout, shell.stdin), (Some(Duration::from_millis(1500)), Stdin::Open));
        let direct = read(&json!({"program": "ls", "args": ["-l"], "stdin": ""})).unwrap();
        let program = JobProgram::Direct { program: "ls".into(), args: vec!["-l".into()] };
        assert_eq!(direct.submission.program, program);
        assert_eq!(direct.submission.stdin, Stdin::Text(String::new()));
        for (given, words) in [
            (json!({}), "nothing to run"),
            (json!({"args": ["-l"]}), "nothing to run"),
            (json!({"command": "ls", "program": "ls"}), "not both"),
            (json!({"command": "ls", "args": ["-l"]}), "into `command`"),
            (json!({"command": "ls", "cwd": "/"}), "unknown argument `cwd`"),
            (json!({"command": "ls", "limits": {"memroy": 5}}), "`memory`"),
        ] {
            let error = read(&given).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(words), "{given}: {error}");
        }
    }

    #[test]
    fn a_terminal_has_a_size_and_one_stream() {
        let given =
            json!({"command": "x", "terminal": true, "rows": 24, "columns": 80, "stdin": "y\n"});
        let request = read(&given).unwrap();
        assert_eq!(request.submission.stdin, Stdin::Terminal);
        assert_eq!(request.submission.terminal_size, Some(TerminalSize { rows: 24, columns: 80 }));
        assert_eq!(request.typed.as_deref(), Some("y\n"));
        for given in [
            json!({"command": "x", "rows": 24, "columns": 80}),
            json!({"command": "x", "terminal": true, "rows": 24}),
            json!({"command": "x", "terminal": true, "rows": 24, "columns": 80_000}),
            json!({"command": "x", "terminal": true, "streams": "separate"}),
        ] {
            assert!(read(&given).is_err(), "{given}");
        }
    }

    #[test]
    fn a_limit_that_does_not_exist_is_absent() {
        let mut spec = spec("true");
        spec.limits = RunLimits {
            timeout: NO_TIMEOUT,
            grace: Duration::from_millis(500),
            output_bytes: 1000,
            output_lines: u64::MAX,
            large_bytes: 10,
        };
        spec.resources.cpu = Some(Duration::from_secs(60));
        let expected = json!({"grace_s": 0.5, "output_bytes": 1000, "cpu_s": 60.0});
        assert_eq!(limit_fields(&spec), expected);
    }

    #[test]
    fn times_are_there_as_far_as_the_job_has_come() {
        let queued =
            JobTimes { submitted_ms: 1_795_000_000_042, started_ms: None, finished_ms: None };
        let fields: Vec<_> = time_fields(queued).collect();
        assert_eq!(fields, [("submitted_at".to_owned(), json!("2026-11-18T11:06:40.042Z"))]);
        let all = JobTimes { started_ms: Some(1), finished_ms: Some(2), ..queued };
        let names: Vec<String> = time_fields(all).map(|(name, _)| name).collect();
        assert_eq!(names, ["submitted_at", "started_at", "finished_at"]);
        assert_eq!(times_in_state(all, &State::Queued(None)), queued);
        let running = times_in_state(all, &State::Running(None));
        assert_eq!((running.started_ms, running.finished_ms), (Some(1), None));
    }
}
