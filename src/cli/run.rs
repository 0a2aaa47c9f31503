//! `run -- CMD`: runs one command as a job, here or with `--queue` by a running server, forwards its
//! output and returns its exit code.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hyper::header::HeaderValue;
use rustix::fs::fstat;
use rustix::stdio::{stderr, stdout};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::attach::{SessionEnd, SessionSettings, describe_ended_job, run_session};
use super::flags::{flag_value, parse_time};
use super::job_view::{
    NOT_EXECUTABLE, NOT_FOUND, OUR_FAILURE, TIMED_OUT, TRY_LATER, command_exit_code,
    explain_signal, signal_exit_code,
};
use super::server_request::{ServerRequestError, send_post};
use super::server_set::{FoundJob, FoundServer, ServerLabel};
use super::terminal::{
    Display, RawTerminal, TerminalSignal, TerminalSignals, VerbOutput, format_with_causes,
    read_keys, read_terminal_size, with_spinner,
};
use crate::client::ServerClient;
use crate::config::FlagValue;
use crate::outcome::{JobEnding, Outcome, StartError, StopBy, format_not_run, signal_name};
use crate::output::{LogReader, PageEnd, PageRequest};
use crate::service::{
    CallerIdentity, JobHandle, JobInput, JobService, StopRequest, Submission, SubmitError,
};
use crate::setting_values::parse_size;
use crate::spec::{JobProgram, Stdin, Stream, StreamMode};
use crate::telemetry::spans::{SpanKind, TraceSpan};
use crate::trace::{BegunBy, CallTrace};

const RUN_HELP: &str = "\
Examples:
  shellyard run ls -la
  shellyard run --timeout 10m --memory 2G --env CI=1 -- make check
  shellyard run --shell -- 'grep -r deprecated . | wc -l'
  shellyard run --queue --lane build cargo test

Flags of shellyard stand before the command; everything after its first word belongs to it. On a
terminal, the command has a terminal as well.

Exit codes: the command's own; 124 if it timed out, 125 if Shellyard itself failed, 126 if it
cannot be executed, 127 if it was not found, 128+N if signal N ended it, 75 if the queue is full or a limit of the tenant is reached.";

/// Flags of the verb `run`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = RUN_HELP)]
pub struct RunFlags {
    /// End the command after this time, such as 90, 90s, 10m or 1h30m.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub timeout: Option<Duration>,
    /// Working directory of the command.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Set an environment variable; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub env: Vec<(String, String)>,
    /// Join the words with spaces and run them as shell text.
    #[arg(long)]
    pub shell: bool,
    /// Give the command no terminal, even if you have one.
    #[arg(long)]
    pub no_terminal: bool,
    #[command(flatten)]
    pub confine: ConfineFlags,
    #[command(flatten)]
    pub queue: RunQueueFlags,
    /// Configuration file, instead of the default locations.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data directory, which stores output that does not fit into memory.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub words: Vec<String>,
}

impl RunFlags {
    /// Returns the settings that these flags set.
    #[must_use]
    pub fn values(&self) -> Vec<FlagValue> {
        let own = flag_value("server.data_dir", "--data-dir", self.data_dir.as_ref());
        own.into_iter().chain(self.confine.values()).collect()
    }

    /// `true` if the program gets a terminal: the user has one for input and output.
    pub(super) fn wants_terminal(&self, display: &Display) -> bool {
        !self.no_terminal && display.is_terminal && display.has_keyboard && !self.queue.detach
    }
}

/// Flags of `run` about confinement and limits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ConfineFlags {
    /// Confinement profile (sandbox): none, default, workspace-write or read-only.
    #[arg(long, value_name = "PROFILE")]
    #[arg(value_parser = ["none", "default", "workspace-write", "read-only"])]
    pub confinement: Option<String>,
    /// Network access: on, off or auto.
    #[arg(long, value_name = "ON|OFF|AUTO", value_parser = ["on", "off", "auto"])]
    pub network: Option<String>,
    /// Limit on memory, such as 512M or 2G; `none` = no limit.
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<String>,
    /// Limit on CPU time, such as 60 or 10m; `none` = no limit.
    #[arg(long, value_name = "TIME", value_parser = parse_cpu_seconds)]
    pub cpu: Option<String>,
    /// Limit on the number of processes; `none` = no limit.
    #[arg(long, value_name = "N", value_parser = parse_process_count)]
    pub processes: Option<String>,
}

impl ConfineFlags {
    /// Returns the settings that these flags set.
    pub(super) fn values(&self) -> impl Iterator<Item = FlagValue> {
        let values = [
            flag_value("confinement.profile", "--confinement", self.confinement.as_ref()),
            flag_value("confinement.network", "--network", self.network.as_ref()),
            flag_value("limits.memory", "--memory", self.memory.as_ref()),
            flag_value("limits.cpu_s", "--cpu", self.cpu.as_ref()),
            flag_value("limits.processes", "--processes", self.processes.as_ref()),
        ];
        values.into_iter().flatten()
    }

    /// Returns the limits as fields of a request to a server.
    pub(super) fn limit_fields(&self) -> Map<String, Value> {
        let fields = [
            ("memory", self.memory.as_ref().map(|size| json!(size))),
            ("cpu_s", self.cpu.as_deref().map(number_or_text)),
            ("processes", self.processes.as_deref().map(number_or_text)),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// Flags of `run` about a running server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
#[command(next_help_heading = "With a running server")]
pub struct RunQueueFlags {
    /// Send the command to the running server, which queues it beside the jobs of all its clients.
    #[arg(short, long)]
    pub queue: bool,
    /// Print the number of the job and return; the job goes on.
    #[arg(short, long, requires = "queue")]
    pub detach: bool,
    /// The lane (part of the queue) of the job.
    #[arg(long, value_name = "LANE", requires = "queue")]
    pub lane: Option<String>,
    /// The order among the waiting jobs of the tenant.
    #[arg(long, value_name = "PRIORITY", requires = "queue", value_parser = ["low", "normal", "high"])]
    pub priority: Option<String>,
    /// A name for this submission: the same key again is the same job, and runs nothing twice.
    #[arg(long, value_name = "KEY", requires = "queue")]
    pub key: Option<String>,
    /// A text that lists show beside the command.
    #[arg(long, value_name = "TEXT", requires = "queue")]
    pub description: Option<String>,
    /// URL or unix socket of the server; the default is the socket in its data directory.
    #[arg(long, value_name = "URL|SOCKET", requires = "queue")]
    pub connect: Option<String>,
    /// File with the bearer token to send; the default is the variable SHELLYARD_TOKEN.
    #[arg(long, value_name = "FILE", requires = "queue")]
    pub token: Option<PathBuf>,
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as NAME=VALUE, such as CI=1".to_owned()),
    }
}

fn number_or_text(text: &str) -> Value {
    text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number))
}

/// The words that stand for no limit, and for one that fits the host.
const BOUND_WORDS: [&str; 2] = ["none", "auto"];

fn parse_memory(text: &str) -> Result<String, String> {
    let is_known = BOUND_WORDS.contains(&text) || parse_size(text).is_some();
    let bad = || "give a size such as 512M, 2G or 1.5 GiB, or none".to_owned();
    if is_known { Ok(text.to_owned()) } else { Err(bad()) }
}

fn parse_process_count(text: &str) -> Result<String, String> {
    let is_count = text.parse::<u64>().is_ok_and(|count| count > 0);
    let bad = || "give a number above 0, or none".to_owned();
    if is_count || BOUND_WORDS.contains(&text) { Ok(text.to_owned()) } else { Err(bad()) }
}

/// Parses a CPU time as whole seconds: the kernel counts no smaller ones.
fn parse_cpu_seconds(text: &str) -> Result<String, String> {
    if text == "none" {
        return Ok(text.to_owned());
    }
    let time = parse_time(text)?;
    Some(time.as_secs())
        .filter(|seconds| *seconds > 0)
        .map(|seconds| seconds.to_string())
        .ok_or_else(|| "give a time of at least a second, such as 60 or 10m".to_owned())
}

const PAGE_BYTES: usize = 64 * 1024;

/// The result of a run for the calling shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunResult {
    pub exit_code: u8,
    /// A message for stderr, if the command itself has not printed one.
    pub message: Option<String>,
}

/// Runs one command to its end, in a terminal if the user has one. A SIGINT or SIGTERM to this process
/// stops the command; a second one kills it at once.
///
/// # Errors
/// Fails if the signal handlers cannot be installed, or the terminal cannot be used.
pub async fn run(
    service: &JobService,
    flags: RunFlags,
    display: &Display,
) -> io::Result<RunResult> {
    let mut stop_signals = StopSignals::listen()?;
    let span = TraceSpan::start(SpanKind::Internal, "run".to_owned(), None);
    let trace = CallTrace { context: span.context().clone(), begun_by: BegunBy::Server };
    let client = service.tenant_client(CallerIdentity::LOCAL, "shellyard run").with_trace(trace);
    let has_terminal = flags.wants_terminal(display);
    let job = match client.submit(to_submission(flags, has_terminal)).await {
        Ok(job) => job,
        Err(error) => return Ok(explain_refusal(&error)),
    };
    let forwarded = if has_terminal {
        follow_in_terminal(&job, &mut stop_signals, display).await
    } else {
        follow(&job, &mut stop_signals).await
    };
    Ok(match forwarded {
        Ok(()) => explain_ending(&job.finished().await),
        Err(error) => forward_failure(&error),
    })
}

/// Forwards the streams of the job until it has ended.
async fn follow(job: &JobHandle, stop_signals: &mut StopSignals) -> io::Result<()> {
    let forwarding = async {
        let both = tokio::join!(
            forward_or_stop(job, Some(Stream::Stdout), tokio::io::stdout()),
            forward_or_stop(job, Some(Stream::Stderr), tokio::io::stderr()),
        );
        job.finished().await;
        both.0.and(both.1)
    };
    tokio::pin!(forwarding);
    loop {
        tokio::select! {
            forwarded = &mut forwarding => return forwarded,
            request = stop_signals.next() => drop(job.stop(request)),
        }
    }
}

/// Connects the user's terminal with that of the job until the job has ended. Keys such as Ctrl-C go to
/// the job, whose terminal acts on them.
async fn follow_in_terminal(
    job: &JobHandle,
    stop_signals: &mut StopSignals,
    display: &Display,
) -> io::Result<()> {
    let _raw = RawTerminal::enter(display)?;
    let mut keys = read_keys()?;
    let mut signals = TerminalSignals::listen()?;
    let forwarding = async {
        let forwarded = forward_or_stop(job, None, tokio::io::stdout()).await;
        job.finished().await;
        forwarded
    };
    tokio::pin!(forwarding);
    let starting = job.started();
    tokio::pin!(starting);
    let mut has_started = false;
    let mut has_keys = true;
    loop {
        tokio::select! {
            forwarded = &mut forwarding => return forwarded,
            () = &mut starting, if !has_started => {
                has_started = true;
                resize(job).await;
            }
            typed = keys.recv(), if has_started && has_keys => match typed {
                // A job that reads no more loses what is typed, as in any terminal.
                Some(bytes) => drop(job.send_input(JobInput { bytes, ..JobInput::default() }).await),
                None => has_keys = false,
            },
            signal = signals.next() => match signal {
                TerminalSignal::Resized => resize(job).await,
                TerminalSignal::End(signal) => drop(job.stop(stop_signals.next_request(signal))),
            },
        }
    }
}

/// The result if the output could not be forwarded: the exit code of a program that writes to a
/// closed pipe, or our own failure.
fn forward_failure(error: &io::Error) -> RunResult {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return RunResult { exit_code: signal_exit_code(libc::SIGPIPE), message: None };
    }
    let message = format!("the output could not be passed on, and the command was ended: {error}");
    RunResult { exit_code: OUR_FAILURE, message: Some(message) }
}

fn to_submission(flags: RunFlags, has_terminal: bool) -> Submission {
    let mut words = flags.words.into_iter();
    let program = if flags.shell {
        JobProgram::Shell(words.collect::<Vec<_>>().join(" "))
    } else {
        JobProgram::Direct { program: words.next().unwrap_or_default(), args: words.collect() }
    };
    Submission {
        cwd: flags.cwd,
        env: flags.env,
        stdin: if has_terminal { Stdin::Terminal } else { Stdin::Inherited },
        terminal_size: has_terminal.then(read_terminal_size),
        streams: Some(choose_stream_mode()),
        timeout: flags.timeout,
        ..Submission::new(program)
    }
}

/// Returns how the command writes: to two pipes, because this process prints stdout to stdout and
/// stderr to stderr. If both of those are the same file, as on a terminal or after `2>&1`, one pipe
/// keeps the order.
fn choose_stream_mode() -> StreamMode {
    let identify = |file: BorrowedFd<'_>| fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
    let is_one_file =
        identify(stdout()).is_ok_and(|stdout| identify(stderr()).is_ok_and(|it| it == stdout));
    if is_one_file { StreamMode::Merged } else { StreamMode::Separate }
}

/// Forwards a stream of the job until the job has ended and everything is written. If that fails,
/// stops the job, since nobody reads its output.
async fn forward_or_stop(
    job: &JobHandle,
    stream: Option<Stream>,
    sink: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let forwarded = forward(job, stream, sink).await;
    if forwarded.is_err() {
        let signal = Some(libc::SIGPIPE);
        job.stop(StopRequest { by: StopBy::Client, signal, grace: None })
            .wait_until_ordered()
            .await;
    }
    forwarded
}

async fn forward(
    job: &JobHandle,
    stream: Option<Stream>,
    mut sink: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut from = 0;
    loop {
        // Check for the end before reading the page: bytes after the end belong to surviving
        // processes.
        let ended = job.status().ending().is_some();
        let request =
            PageRequest { from, to: u64::MAX, stream, max_bytes: PAGE_BYTES, max_lines: 0 };
        let page = job.output().read_with(move |log| log.read_page(&request)).await?;
        sink.write_all(&page.bytes).await?;
        sink.flush().await?;
        from = page.end;
        match page.end_kind {
            PageEnd::More => {}
            PageEnd::Complete => return Ok(()),
            PageEnd::CaughtUp if ended => return Ok(()),
            PageEnd::CaughtUp => wait_for_more(job, job.output(), page.total_bytes).await,
        }
    }
}

async fn wait_for_more(job: &JobHandle, output: &LogReader, seen: u64) {
    tokio::select! {
        () = output.wait_past(seen) => {}
        _ = job.finished() => {}
    }
}

/// The signals that stop the command.
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    is_first: bool,
}

impl StopSignals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            is_first: true,
        })
    }

    async fn next(&mut self) -> StopRequest {
        let signal = tokio::select! {
            _ = self.interrupt.recv() => libc::SIGINT,
            _ = self.terminate.recv() => libc::SIGTERM,
        };
        self.next_request(signal)
    }

    /// Returns the request for a signal: the first leaves the command its grace period.
    fn next_request(&mut self, signal: i32) -> StopRequest {
        let grace = if std::mem::take(&mut self.is_first) { None } else { Some(Duration::ZERO) };
        StopRequest { by: StopBy::Client, signal: Some(signal), grace }
    }
}

/// Gives the size of the user's terminal to that of the job.
async fn resize(job: &JobHandle) {
    // A job that has ended has no terminal.
    job.resize_terminal(read_terminal_size()).await.ok();
}

fn explain_refusal(error: &SubmitError) -> RunResult {
    let exit_code = match error.code() {
        "queue_full" | "tenant_limit" | "rate_limited" => TRY_LATER,
        _ => OUR_FAILURE,
    };
    RunResult { exit_code, message: Some(format!("refused, nothing was run: {error}")) }
}

fn explain_ending(ending: &JobEnding) -> RunResult {
    let plain = |exit_code| RunResult { exit_code, message: None };
    let with_message = |exit_code, message| RunResult { exit_code, message: Some(message) };
    match &ending.outcome {
        Outcome::Exited { code } => plain(command_exit_code((*code).into())),
        Outcome::Signaled { signal, core } => {
            let core = if *core { ", core dumped" } else { "" };
            let name = signal_name(*signal);
            let message = format!("killed by {name}{}{core}", explain_signal(*signal));
            with_message(signal_exit_code(*signal), message)
        }
        Outcome::TimedOut { after } => {
            let rest = if ending.survivors.is_empty() {
                "the process tree was ended"
            } else {
                "processes of it may still run"
            };
            with_message(TIMED_OUT, format!("timed out after {}s; {rest}", after.as_secs_f64()))
        }
        Outcome::Stopped { .. } => {
            plain(signal_exit_code(ending.kill.map_or(libc::SIGTERM, |kill| kill.last_signal())))
        }
        Outcome::NotRun { waited, .. } => {
            with_message(signal_exit_code(libc::SIGTERM), format_not_run(*waited))
        }
        Outcome::Limit { which } => with_message(OUR_FAILURE, format!("ended: {which}")),
        Outcome::FailedToStart(why) => with_message(start_failure_exit_code(why), why.to_string()),
        Outcome::Lost { why } => with_message(OUR_FAILURE, format!("lost: {why}")),
    }
}

const fn start_failure_exit_code(why: &StartError) -> u8 {
    match why {
        StartError::NotFound { .. } => NOT_FOUND,
        StartError::NotExecutable { .. } => NOT_EXECUTABLE,
        StartError::BadCwd { .. }
        | StartError::TooLong { .. }
        | StartError::NulByte { .. }
        | StartError::Confinement { .. }
        | StartError::NoWorkspace { .. }
        | StartError::Refused { .. }
        | StartError::OutOfProcesses { .. }
        | StartError::OutOfFiles { .. }
        | StartError::System { .. } => OUR_FAILURE,
    }
}

// `run --queue`: a running server runs the command.

/// The name by which lists show jobs of this verb.
const USER_AGENT: &str = concat!("shellyard-run/", env!("CARGO_PKG_VERSION"));

/// Submits the command to a running server, and follows the job unless it is detached. Returns the
/// exit code.
pub async fn run_queued(flags: &RunFlags, client: ServerClient, display: &Display) -> u8 {
    let submitting = with_spinner(display, "submitting the job", submit(flags, client, display));
    let output = match submitting.await {
        Ok(job) if flags.queue.detach => Ok(VerbOutput::result(format!("{}\n", job.number))),
        Ok(job) => follow_queued(&job, display).await,
        Err(error) => Err(error),
    };
    let output = output.unwrap_or_else(|error| VerbOutput {
        code: match error.code() {
            "queue_full" | "tenant_limit" | "rate_limited" => TRY_LATER,
            _ => OUR_FAILURE,
        },
        ..VerbOutput::failure(&format_with_causes(&error))
    });
    output.print()
}

async fn submit(
    flags: &RunFlags,
    client: ServerClient,
    display: &Display,
) -> Result<FoundJob, ServerRequestError> {
    let is_local = client.target().is_local();
    let client = client.with_header("user-agent", HeaderValue::from_static(USER_AGENT));
    let state = send_post(&client, "/api/v1/jobs", &job_fields(flags, is_local, display)).await?;
    let number = state["job"].to_string();
    let server = FoundServer { name: ServerLabel::Given, client };
    Ok(FoundJob { server, name: number.clone(), number, tenant: None, state })
}

/// Returns the request. A server on this machine runs the command in our own directory.
fn job_fields(flags: &RunFlags, is_local: bool, display: &Display) -> Value {
    let mut fields = Map::new();
    let mut words = flags.words.iter();
    if flags.shell {
        fields.insert("command".into(), flags.words.join(" ").into());
    } else {
        fields.insert("program".into(), words.next().cloned().unwrap_or_default().into());
        fields.insert("args".into(), words.cloned().collect::<Vec<_>>().into());
    }
    let directory = match &flags.cwd {
        Some(directory) => Some(directory.clone()),
        None if is_local => std::env::current_dir().ok(),
        None => None,
    };
    let directory = directory.map(|path| std::path::absolute(&path).unwrap_or(path));
    let limits = flags.confine.limit_fields();
    let size = read_terminal_size();
    let has_terminal = flags.wants_terminal(display);
    let optional = [
        ("directory", directory.map(|path| json!(path.to_string_lossy()))),
        ("env", (!flags.env.is_empty()).then(|| flags.env.iter().cloned().collect::<Value>())),
        ("timeout_s", flags.timeout.map(|time| json!(time.as_secs_f64()))),
        ("stdin", flags.queue.detach.then(|| json!(""))),
        ("terminal", has_terminal.then_some(Value::Bool(true))),
        ("rows", has_terminal.then(|| json!(size.rows))),
        ("columns", has_terminal.then(|| json!(size.columns))),
        ("lane", flags.queue.lane.as_ref().map(|text| json!(text))),
        ("priority", flags.queue.priority.as_ref().map(|text| json!(text))),
        ("key", flags.queue.key.as_ref().map(|text| json!(text))),
        ("description", flags.queue.description.as_ref().map(|text| json!(text))),
        ("confinement", flags.confine.confinement.as_ref().map(|text| json!(text))),
        ("network", flags.confine.network.as_ref().map(|text| json!(text))),
        ("limits", (!limits.is_empty()).then(|| limits.into())),
    ];
    let given = optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    fields.extend(given);
    Value::Object(fields)
}

/// Shows the output of the job until it ends, and returns its exit code. Ctrl-C stops the job.
async fn follow_queued(
    job: &FoundJob,
    display: &Display,
) -> Result<VerbOutput, ServerRequestError> {
    let is_raw = job.state["terminal"] == true && display.is_terminal && display.has_keyboard;
    let settings = SessionSettings {
        is_raw,
        has_input: true,
        redraws: false,
        detach_keys: None,
        tail: None,
        stops_job: true,
    };
    match run_session(job, &settings, display).await? {
        SessionEnd::JobEnded | SessionEnd::Detached => describe_ended_job(job, false).await,
        SessionEnd::Signaled(signal) => {
            let name = &job.name;
            let message = format!(
                "job {name} may go on; `shellyard logs {name}` and `shellyard stop {name}` reach it when its server is back"
            );
            Ok(VerbOutput { code: signal_exit_code(signal), ..VerbOutput::failure(&message) })
        }
        SessionEnd::ReaderGone => {
            // Nobody reads the output, so the command gets the signal that tells it so.
            let body = json!({ "signal": "SIGPIPE" });
            send_post(&job.server.client, &job.url("/stop", &[]), &body).await?;
            Ok(VerbOutput::exit_code(signal_exit_code(libc::SIGPIPE)))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Cli, Command};
    use super::*;

    #[track_caller]
    fn check(outcome: Outcome, exit_code: u8) {
        assert_eq!(explain_ending(&JobEnding::unmeasured(outcome)).exit_code, exit_code);
    }

    #[test]
    fn the_exit_code_is_the_one_that_a_shell_would_report() {
        check(Outcome::Exited { code: 3 }, 3);
        check(Outcome::Signaled { signal: 9, core: false }, 137);
        check(Outcome::TimedOut { after: Duration::from_secs(1) }, 124);
        check(Outcome::Stopped { by: StopBy::Client }, 143);
        check(Outcome::Lost { why: String::new() }, 125);
        check(Outcome::FailedToStart(StartError::NotFound { program: String::new() }), 127);
        check(Outcome::FailedToStart(StartError::NotExecutable { program: String::new() }), 126);
        check(Outcome::FailedToStart(StartError::NulByte { what: "cwd" }), 125);
    }

    fn fields(line: &str) -> Value {
        let Command::Run(flags) = Cli::try_parse_from(line.split_whitespace()).unwrap().command
        else {
            panic!("not run")
        };
        job_fields(&flags, false, &Display::default())
    }

    #[test]
    fn a_request_has_what_the_flags_say() {
        assert_eq!(fields("shellyard run -q ls -la"), json!({"program": "ls", "args": ["-la"]}));
        let line = "shellyard run --queue --shell --timeout 10m --env A=b --lane build --key k \
                    --priority high --memory 2G --cpu 1m -- make all";
        let expected = json!({
            "command": "make all", "timeout_s": 600.0, "env": {"A": "b"}, "lane": "build",
            "key": "k", "priority": "high", "limits": {"memory": "2G", "cpu_s": 60},
        });
        assert_eq!(fields(line), expected);
        let detached = fields("shellyard run -qd --cwd /x true");
        assert_eq!((&detached["stdin"], &detached["directory"]), (&json!(""), &json!("/x")));
    }
}
