//! `attach`: the terminal of a running job in the user's own, until the job ends or the user detaches.
//!
//! `run --queue` uses the same session: output to the user, keys and the size to the job. The keys that
//! detach are typed in a row, and do not reach the job.

use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::job_connection::{
    BACK_MESSAGE, JobOutputEvents, LOST_MESSAGE, OutputEvent, ServerOutage, get_job_with_retry,
    get_same_job, next_retry, post_with_retry,
};
use super::job_view::{JobView, OUR_FAILURE, signal_exit_code};
use super::server_request::{ServerRequestError, send_post};
use super::server_set::{FoundJob, JobName, JobScopeFlags, ServerSet, parse_job_name};
use super::terminal::{
    ASKING, Display, OutputSink, RawTerminal, TerminalSignal, TerminalSignals, VerbOutput,
    print_message, read_keys, read_terminal_size, with_spinner,
};
use super::text_layout::escape_for_terminal;
use super::wait::{OutageNotices, wait_for_end};
use crate::service::TerminalSize;

/// The number of earlier lines that are shown.
const EARLIER_LINES: u32 = 50;

const HELP: &str = "\
Keys go to the job; Ctrl-P Ctrl-Q detaches, and the job goes on. The exit code is that of the job,
or 0 after detaching. Start such a job with `shellyard run --queue COMMAND` on a terminal, or with
the argument tty of run_command.";

/// Flags of the verb `attach`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = HELP)]
pub struct AttachFlags {
    /// The job: its number, or SERVER/NUMBER.
    #[arg(value_name = "JOB", value_parser = parse_job_name)]
    pub job: JobName,
    /// The keys that detach, such as ctrl-] or ~,.
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q", value_parser = parse_detach_keys)]
    pub detach_keys: DetachKeys,
    /// Only watch; send nothing to the job.
    #[arg(long)]
    pub no_stdin: bool,
    #[command(flatten)]
    pub jobs: JobScopeFlags,
}

/// Connects the terminal with the job.
pub(super) async fn run(
    flags: &AttachFlags,
    servers: &ServerSet,
    display: &Display,
) -> Result<VerbOutput, ServerRequestError> {
    let finding = servers.find_job(&flags.job, flags.jobs.scope());
    let job = with_spinner(display, ASKING, finding).await?;
    let view = JobView(&job.state);
    if view.is_finished() {
        let state = view.state_cell().text;
        return Err(ServerRequestError::Unusable(format!(
            "job {0} has finished ({state}); `shellyard logs {0}` prints its output",
            job.name
        )));
    }
    let has_terminal = job.state["terminal"] == true;
    let settings = SessionSettings {
        is_raw: has_terminal && display.has_keyboard && display.is_terminal && !flags.no_stdin,
        has_input: !flags.no_stdin,
        redraws: true,
        detach_keys: Some(flags.detach_keys.clone()),
        tail: Some(EARLIER_LINES),
        stops_job: false,
    };
    let end = run_session(&job, &settings, display).await?;
    describe_end(&job, end, flags.jobs.server.json).await
}

/// Returns the exit code of the job if it ended, and what to do next if not.
async fn describe_end(
    job: &FoundJob,
    end: SessionEnd,
    is_json: bool,
) -> Result<VerbOutput, ServerRequestError> {
    let name = &job.name;
    let code = match end {
        SessionEnd::JobEnded => return describe_ended_job(job, is_json).await,
        SessionEnd::Detached => 0,
        SessionEnd::Signaled(signal) => signal_exit_code(signal),
        SessionEnd::ReaderGone => signal_exit_code(libc::SIGPIPE),
    };
    if is_json {
        return Ok(VerbOutput::json(&json!({ "detached": true }), code));
    }
    let message =
        format!("detached from job {name}, which goes on; `shellyard attach {name}` returns to it");
    Ok(VerbOutput { code, ..VerbOutput::message(&message) })
}

/// Returns the exit code of a job that has just ended, and how it ended.
pub(super) async fn describe_ended_job(
    job: &FoundJob,
    is_json: bool,
) -> Result<VerbOutput, ServerRequestError> {
    let state = wait_for_end(job, None, &OutageNotices::default()).await?;
    let view = JobView(&state);
    let code = view.exit_code().unwrap_or(OUR_FAILURE);
    if is_json {
        return Ok(VerbOutput::json(&state, code));
    }
    Ok(match view.explain_end() {
        Some(why) => {
            VerbOutput { code, ..VerbOutput::failure(&format!("job {}: {why}", job.name)) }
        }
        None => VerbOutput::exit_code(code),
    })
}

// The session.

/// The number of pieces of input that wait to be sent.
const INPUT_BUFFER: usize = 256;
/// The time between two attempts to send input.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The time between two looks at a job that is queued.
const QUEUE_INTERVAL: Duration = Duration::from_millis(200);
/// The number of looks after which the user is told why the job waits.
const LOOKS_BEFORE_MESSAGE: u32 = 3;
/// The largest input of one request.
const MAX_INPUT_BYTES: usize = 32 * 1024;

/// The message about input of which nobody knows whether it arrived.
const LOST_INPUT_MESSAGE: &str = "the connection broke while input was sent; the last keys or lines \
                                  may be missing, and are not sent again";

/// The way in which a session uses the terminal.
#[derive(Debug, Clone)]
pub(super) struct SessionSettings {
    /// The job has a terminal, and so has the user: keys and sizes are passed on as they are.
    pub(super) is_raw: bool,
    /// The job gets what the user types or pipes in.
    pub(super) has_input: bool,
    /// A full-screen program draws again at the beginning, because its earlier output is not shown.
    pub(super) redraws: bool,
    pub(super) detach_keys: Option<DetachKeys>,
    /// The number of lines of earlier output that are shown; `None`: all.
    pub(super) tail: Option<u32>,
    /// A signal to this process stops the job, and does not only end the session.
    pub(super) stops_job: bool,
}

impl SessionSettings {
    /// Prints one line to stderr, also while the terminal is in raw mode.
    fn print_message(&self, message: &str) {
        if self.is_raw {
            // In raw mode a line feed does not return to the first column.
            eprint!("\r\nshellyard: {message}\r\n");
        } else {
            print_message(message);
        }
    }
}

/// The end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// All output was shown.
    JobEnded,
    Detached,
    /// A signal ended this process; the job goes on.
    Signaled(i32),
    /// Nobody reads the output any more.
    ReaderGone,
}

/// Shows the output of a job and passes input on, until the job ends or the user detaches.
pub(super) async fn run_session(
    job: &FoundJob,
    settings: &SessionSettings,
    display: &Display,
) -> Result<SessionEnd, ServerRequestError> {
    let mut signals = TerminalSignals::listen().map_err(ServerRequestError::Terminal)?;
    if settings.is_raw
        && let Some(end) = wait_until_started(job, settings, &mut signals).await?
    {
        return Ok(end);
    }
    let tail = settings.tail.map(|lines| ("tail", lines.to_string()));
    let mut output = JobOutputEvents::open(job, tail.into_iter().collect()).await?;
    let raw = settings.is_raw.then(|| RawTerminal::enter(display)).transpose();
    let _raw = raw.map_err(ServerRequestError::Terminal)?;
    let mut input = SessionInput::start(job, settings, output.breaks())?;
    let mut sink = OutputSink::Stdout;
    // Requests to stop the job, which wait for a server that is away.
    let mut stops = JoinSet::new();
    let mut has_stopped = false;
    let mut is_away = false;
    loop {
        tokio::select! {
            event = output.next() => match event? {
                OutputEvent::End(_) => return Ok(SessionEnd::JobEnded),
                OutputEvent::Bytes(bytes) => {
                    if sink.write(&bytes).is_err() {
                        return Ok(SessionEnd::ReaderGone);
                    }
                }
                OutputEvent::Missing(missing) => settings.print_message(&missing.format()),
                OutputEvent::ConnectionLost => {
                    is_away = true;
                    settings.print_message(LOST_MESSAGE);
                }
                OutputEvent::ConnectionBack { was_announced } => {
                    is_away = false;
                    if was_announced {
                        settings.print_message(BACK_MESSAGE);
                    }
                    if settings.is_raw {
                        send_size(job, read_terminal_size()).await?;
                    }
                }
            },
            passed = input.forward() => match passed? {
                InputEvent::Detached => return Ok(SessionEnd::Detached),
                InputEvent::Passed => {}
                InputEvent::MayBeLost => settings.print_message(LOST_INPUT_MESSAGE),
            },
            Some(stopped) = stops.join_next() => to_task_result(stopped)?,
            signal = signals.next() => match signal {
                TerminalSignal::Resized if settings.is_raw => {
                    send_size(job, read_terminal_size()).await?;
                }
                TerminalSignal::Resized => {}
                TerminalSignal::End(signal) if settings.stops_job && !(is_away && has_stopped) => {
                    stops.spawn(stop_job(job.clone(), signal, has_stopped));
                    has_stopped = true;
                }
                // Nobody can be told to stop the job.
                TerminalSignal::End(signal) => return Ok(SessionEnd::Signaled(signal)),
            },
        }
    }
}

/// Waits while the job is queued, and then gives its terminal the size of the user's. Until it starts,
/// keys are those of the user's terminal, and Ctrl-C is a signal. Returns the end of the session if a
/// signal ends it.
async fn wait_until_started(
    job: &FoundJob,
    settings: &SessionSettings,
    signals: &mut TerminalSignals,
) -> Result<Option<SessionEnd>, ServerRequestError> {
    let mut looks = 0_u32;
    loop {
        let state = get_job_with_retry(job, &[]).await?;
        if state["state"] != "queued" {
            let sized = if settings.redraws {
                redraw(job).await
            } else {
                send_size(job, read_terminal_size()).await
            };
            return sized.map(|()| None);
        }
        looks += 1;
        if looks == LOOKS_BEFORE_MESSAGE {
            let why = escape_for_terminal(state["waits_for"].as_str().unwrap_or("no slot is free"));
            print_message(&format!("job {} is queued: {why}; Ctrl-C ends the wait", job.name));
        }
        tokio::select! {
            () = sleep(QUEUE_INTERVAL) => {}
            signal = signals.next() => match signal {
                TerminalSignal::Resized => {}
                TerminalSignal::End(signal) if settings.stops_job => {
                    stop_job(job.clone(), signal, false).await?;
                }
                TerminalSignal::End(signal) => return Ok(Some(SessionEnd::Signaled(signal))),
            },
        }
    }
}

/// Stops the job with the signal that this process got; the second time at once.
async fn stop_job(job: FoundJob, signal: i32, is_again: bool) -> Result<(), ServerRequestError> {
    let mut body = json!({ "signal": signal.to_string() });
    if is_again {
        body["grace_s"] = json!(0);
    }
    post_with_retry(&job, "/stop", &body).await.map(drop)
}

/// Sends the size of the terminal, after another one: full-screen programs draw again when the size
/// changes.
async fn redraw(job: &FoundJob) -> Result<(), ServerRequestError> {
    let size = read_terminal_size();
    let other = TerminalSize { rows: size.rows.saturating_add(1), ..size };
    send_size(job, other).await?;
    send_size(job, size).await
}

async fn send_size(job: &FoundJob, size: TerminalSize) -> Result<(), ServerRequestError> {
    let body = json!({ "rows": size.rows, "columns": size.columns });
    match send_post(&job.server.client, &job.url("/resize", &[]), &body).await {
        // A job that has just ended, or has not started, has no terminal to resize.
        Ok(_) | Err(ServerRequestError::Refused { .. }) => Ok(()),
        // The size is sent again when the server is back.
        Err(error) if error.is_transient() => Ok(()),
        Err(error) => Err(error),
    }
}

/// The effect of input on the session.
enum InputEvent {
    Passed,
    /// The connection broke while input was sent, which is not sent again.
    MayBeLost,
    Detached,
}

/// The input of a session: from the thread that reads stdin to the task that sends it.
struct SessionInput {
    keys: Option<mpsc::Receiver<Vec<u8>>>,
    search: Option<DetachSearch>,
    sender: mpsc::Sender<Vec<u8>>,
    task: JoinHandle<Result<(), ServerRequestError>>,
    /// Counts the requests of which nobody knows whether they arrived.
    uncertain: watch::Receiver<u64>,
    is_sending: bool,
}

impl SessionInput {
    fn start(
        job: &FoundJob,
        settings: &SessionSettings,
        breaks: watch::Receiver<()>,
    ) -> Result<Self, ServerRequestError> {
        let keys = settings.has_input.then(read_keys).transpose();
        let keys = keys.map_err(ServerRequestError::Terminal)?;
        let search = settings.detach_keys.as_ref().map(DetachSearch::new);
        let (sender, receiver) = mpsc::channel(INPUT_BUFFER);
        let ends_input = !settings.is_raw && settings.has_input;
        let (counter, uncertain) = watch::channel(0);
        let outage = ServerOutage::default();
        let target = InputTarget { job: job.clone(), outage, breaks, must_check: false };
        let task = tokio::spawn(send_input(target, receiver, ends_input, counter));
        Ok(Self { keys, search, sender, task, uncertain, is_sending: true })
    }

    /// Passes on what the user typed next. Cancel-safe.
    async fn forward(&mut self) -> Result<InputEvent, ServerRequestError> {
        let Some(keys) = &mut self.keys else { return self.wait_for_sender().await };
        // Room first: what was read must not be lost while this waits for room.
        let read = async { (self.sender.clone().reserve_owned().await, keys.recv().await) };
        let (room, typed) = tokio::select! {
            read = read => read,
            Ok(()) = self.uncertain.changed() => return Ok(InputEvent::MayBeLost),
            sent = &mut self.task, if self.is_sending => {
                self.is_sending = false;
                self.keys = None;
                return to_task_result(sent).map(|()| InputEvent::Passed);
            }
        };
        let Some(bytes) = typed else {
            // The task ends the job's input once everything before is sent.
            self.keys = None;
            self.sender = mpsc::channel(1).0;
            return Ok(InputEvent::Passed);
        };
        let typed = match &mut self.search {
            Some(search) => search.push(&bytes),
            None => TypedBytes { forward: bytes, has_detached: false },
        };
        // If the task has ended, its error is reported by the next call.
        if let (false, Ok(room)) = (typed.forward.is_empty(), room) {
            room.send(typed.forward);
        }
        Ok(if typed.has_detached { InputEvent::Detached } else { InputEvent::Passed })
    }

    /// Waits for the task that sends, and after its end for ever.
    async fn wait_for_sender(&mut self) -> Result<InputEvent, ServerRequestError> {
        if !self.is_sending {
            return std::future::pending().await;
        }
        let sent = tokio::select! {
            Ok(()) = self.uncertain.changed() => return Ok(InputEvent::MayBeLost),
            sent = &mut self.task => sent,
        };
        self.is_sending = false;
        to_task_result(sent).map(|()| InputEvent::Passed)
    }
}

fn to_task_result(
    sent: Result<Result<(), ServerRequestError>, tokio::task::JoinError>,
) -> Result<(), ServerRequestError> {
    sent.map_err(|error| ServerRequestError::Terminal(io::Error::other(error)))?
}

/// Sends input in the order in which it was typed; what piles up meanwhile goes in one request.
async fn send_input(
    mut target: InputTarget,
    mut typed: mpsc::Receiver<Vec<u8>>,
    ends_input: bool,
    uncertain: watch::Sender<u64>,
) -> Result<(), ServerRequestError> {
    while let Some(mut bytes) = typed.recv().await {
        while bytes.len() < MAX_INPUT_BYTES
            && let Ok(more) = typed.try_recv()
        {
            bytes.extend(more);
        }
        let body = json!({ "base64": STANDARD.encode(&bytes) });
        match target.post(&body).await? {
            InputDelivery::Done => {}
            InputDelivery::Uncertain => uncertain.send_modify(|count| *count += 1),
        }
    }
    if ends_input {
        // The end of input may arrive twice.
        let end = json!({ "end": true });
        while target.post(&end).await? == InputDelivery::Uncertain {
            sleep(target.outage.retry(&target.job)?.pause).await;
        }
    }
    Ok(())
}

/// The result of a request with input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputDelivery {
    /// The job has the input, or needs none.
    Done,
    /// The connection broke before the answer: the input may have arrived.
    Uncertain,
}

/// The job that gets the input.
struct InputTarget {
    job: FoundJob,
    /// The time since the last answer, if a request failed since then.
    outage: ServerOutage,
    /// Changes when the connection of the output breaks.
    breaks: watch::Receiver<()>,
    /// `true` if the server may be another one than at the last request.
    must_check: bool,
}

impl InputTarget {
    /// Sends input once the job takes it: a queued job has not started, a busy one may not read, and a
    /// server may be away. A job that has ended needs no input. Input that may have arrived is not sent
    /// again, and a server that comes back with another job gets none.
    async fn post(&mut self, body: &Value) -> Result<InputDelivery, ServerRequestError> {
        loop {
            if let Err(error) = self.check_job().await {
                sleep(next_retry(&self.job, error, &mut self.outage)?.pause).await;
                continue;
            }
            let sent = send_post(&self.job.server.client, &self.job.url("/input", &[]), body).await;
            let Err(error) = sent else {
                self.outage.end();
                return Ok(InputDelivery::Done);
            };
            match error.code() {
                "job_queued" | "input_full" => {
                    self.outage.end();
                    sleep(RETRY_INTERVAL).await;
                    continue;
                }
                "job_finished" => return Ok(InputDelivery::Done),
                // The job cannot read, so that it needs no end of its input.
                "input_closed" if body["end"] == true => return Ok(InputDelivery::Done),
                _ => self.must_check = true,
            }
            if error.may_have_arrived() {
                return Ok(InputDelivery::Uncertain);
            }
            sleep(next_retry(&self.job, error, &mut self.outage)?.pause).await;
        }
    }

    /// Checks that the server still has the same job, if it may have been started anew.
    async fn check_job(&mut self) -> Result<(), ServerRequestError> {
        // The output has ended if its side of the channel is gone: nothing can be said about breaks.
        self.must_check |= self.breaks.has_changed().unwrap_or(false);
        self.breaks.mark_unchanged();
        if self.must_check {
            get_same_job(&self.job, &[]).await?;
            self.must_check = false;
        }
        Ok(())
    }
}

// Detach keys.

/// A sequence of keys, such as `ctrl-p,ctrl-q`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachKeys(Vec<u8>);

/// Parses keys such as `ctrl-p,ctrl-q`, `ctrl-]` or `~,.`.
fn parse_detach_keys(text: &str) -> Result<DetachKeys, String> {
    let bad = || {
        format!("`{text}` is not a list of keys; give some such as ctrl-p,ctrl-q or ctrl-] or ~,.")
    };
    let keys: Option<Vec<u8>> = text.split(',').map(parse_key).collect();
    keys.map(DetachKeys).ok_or_else(bad)
}

fn parse_key(text: &str) -> Option<u8> {
    match text.as_bytes() {
        [byte @ b' '..=b'~'] => Some(*byte),
        _ => match text.strip_prefix("ctrl-")?.as_bytes() {
            [byte @ (b'a'..=b'z' | b'@' | b'['..=b'_')] => Some(byte & 0x1f),
            _ => None,
        },
    }
}

/// The search for detach keys in what the user types.
#[derive(Debug)]
struct DetachSearch {
    keys: Vec<u8>,
    /// The number of keys that were typed so far; they are held back.
    typed: usize,
}

/// The typed bytes for the job, and the end of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TypedBytes {
    forward: Vec<u8>,
    has_detached: bool,
}

impl DetachSearch {
    fn new(keys: &DetachKeys) -> Self {
        Self { keys: keys.0.clone(), typed: 0 }
    }

    /// Takes typed bytes, and returns those for the job. Bytes after the detach keys are dropped.
    fn push(&mut self, bytes: &[u8]) -> TypedBytes {
        let mut forward = Vec::with_capacity(bytes.len());
        for byte in bytes {
            if self.keys.get(self.typed) != Some(byte) {
                forward.extend_from_slice(&self.keys[..self.typed]);
                self.typed = 0;
            }
            if self.keys.get(self.typed) != Some(byte) {
                forward.push(*byte);
                continue;
            }
            self.typed += 1;
            if self.typed == self.keys.len() {
                return TypedBytes { forward, has_detached: true };
            }
        }
        TypedBytes { forward, has_detached: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(keys: &str, typed: &[&[u8]], forward: &[u8], has_detached: bool) {
        let mut search = DetachSearch::new(&parse_detach_keys(keys).unwrap());
        let mut all = TypedBytes { forward: Vec::new(), has_detached: false };
        for bytes in typed {
            let now = search.push(bytes);
            all.forward.extend(now.forward);
            all.has_detached |= now.has_detached;
        }
        assert_eq!(all, TypedBytes { forward: forward.to_vec(), has_detached }, "{keys} {typed:?}");
    }

    #[test]
    fn the_keys_detach_in_a_row_and_reach_the_job_otherwise() {
        let keys = "ctrl-p,ctrl-q";
        check(keys, &[b"ls\x10\x11rest"], b"ls", true);
        check(keys, &[b"\x10", b"\x11"], b"", true);
        check(keys, &[b"\x10", b"x"], b"\x10x", false);
        check(keys, &[b"\x10\x10\x11"], b"\x10", true);
        check(keys, &[b"\x11\x10"], b"\x11", false);
        check("ctrl-]", &[b"a\x1db"], b"a", true);
        check("~,.", &[b"~~."], b"~", true);
    }

    #[test]
    fn keys_that_cannot_be_typed_are_refused() {
        for text in ["", "ctrl-", "ctrl-p,", "ctrl-é", "f1", "ctrl-1"] {
            assert!(parse_detach_keys(text).is_err_and(|why| why.contains("ctrl-p")), "{text}");
        }
    }
}
