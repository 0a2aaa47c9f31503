//! A job of a running server as the command line reads it: its state, and every byte of its output once,
//! from the stream of events of the server.
//!
//! The jobs of a durable server outlive its restart and its upgrade, so that a server that is away is
//! asked again for a while. A server that comes back may be another one, with other jobs.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use thiserror::Error;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::server_request::{ServerRequestError, get, open_stream, send_post};
use super::server_set::FoundJob;
use crate::client::ResponseStream;
use crate::mcp::thousands;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The time without a byte after which a connection counts as broken: servers send a comment every 15 s.
const MAX_SILENCE: Duration = Duration::from_secs(45);
/// The time after which a connection without news counts as a server that is back.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// The number of events that wait for their use.
const EVENT_BUFFER: usize = 8;

/// The message about a server that came back.
pub(super) const BACK_MESSAGE: &str = "the server is back, and the output goes on";

/// The next part of a job's output.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum OutputEvent {
    Bytes(Vec<u8>),
    Missing(MissingOutput),
    /// The server has not answered for a while; it is asked again.
    ConnectionLost,
    /// The server answers again, and the output goes on where it was.
    ConnectionBack {
        /// `true` if a [`OutputEvent::ConnectionLost`] came before.
        was_announced: bool,
    },
    /// The last event: all output was read. The value is the job.
    End(Value),
}

/// Bytes of a job that were not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MissingOutput {
    pub(super) bytes: u64,
    /// The word of the API for the reason.
    pub(super) why: String,
}

impl MissingOutput {
    fn new(data: &Value) -> Self {
        let number = |name: &str| data[name].as_u64();
        let from_range = || Some(number("to")?.saturating_sub(number("from")?));
        Self {
            bytes: number("bytes").or_else(from_range).unwrap_or_default(),
            why: data["why"].as_str().unwrap_or_default().to_owned(),
        }
    }

    /// Formats the line that stands in place of the bytes.
    pub(super) fn format(&self) -> String {
        let count = thousands(self.bytes);
        let (bytes, verb) = if self.bytes == 1 { ("byte", "is") } else { ("bytes", "are") };
        let why = match self.why.as_str() {
            "server_crash" => {
                return format!(
                    "[… up to {count} {bytes} may be missing: the server crashed here …]"
                );
            }
            "truncated" => "the job keeps only the beginning and the end of a large output",
            "cut" => "its file does not have them",
            "disk_full" => "the disk was full",
            "io_error" => "the disk failed",
            "store_full" => "the store of all outputs was full",
            "tenant_full" => "the outputs of the tenant were at their limit",
            _ => "it was not kept",
        };
        format!("[… {count} {bytes} {verb} missing: {why} …]")
    }
}

/// The output of one job. A task reads it, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct JobOutputEvents {
    events: mpsc::Receiver<Result<OutputEvent, ServerRequestError>>,
    /// Changes when a connection breaks.
    breaks: watch::Receiver<()>,
    target: String,
    _task: AbortOnDropHandle<()>,
}

impl JobOutputEvents {
    /// Opens the output of a job; `query` says where it starts, and whether it is followed.
    ///
    /// # Errors
    /// When the server cannot be asked, or refuses.
    pub(super) async fn open(
        job: &FoundJob,
        query: Vec<(&'static str, String)>,
    ) -> Result<Self, ServerRequestError> {
        let (break_sender, breaks) = watch::channel(());
        let mut source = EventSource {
            job: job.clone(),
            query,
            last_id: None,
            last_state: job.state["state"].clone(),
            outage: ServerOutage::default(),
            max_silence: MAX_SILENCE,
            breaks: break_sender,
        };
        let stream = source.connect().await?;
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        let task = tokio::spawn(async move {
            if let Err(error) = source.read_to_end(stream, &sender).await {
                // Nobody waits for the error if the reader is gone.
                sender.send(Err(error)).await.ok();
            }
        });
        let target = job.server.target();
        Ok(Self { events, breaks, target, _task: AbortOnDropHandle::new(task) })
    }

    /// Returns the next event; after [`OutputEvent::End`] there is none. Cancel-safe.
    ///
    /// # Errors
    /// When the server does not come back, or without this job, or cannot read the output.
    pub(super) async fn next(&mut self) -> Result<OutputEvent, ServerRequestError> {
        let early_end = || Err(unexpected_stream_error(&self.target, "the output has no end"));
        self.events.recv().await.unwrap_or_else(early_end)
    }

    /// Returns a receiver that changes when a connection breaks: another server may answer from then on.
    pub(super) fn breaks(&self) -> watch::Receiver<()> {
        self.breaks.clone()
    }
}

type EventSender = mpsc::Sender<Result<OutputEvent, ServerRequestError>>;

/// The place at which the output is read.
struct EventSource {
    job: FoundJob,
    query: Vec<(&'static str, String)>,
    /// The id of the last event: the place at which the rest of the output starts.
    last_id: Option<String>,
    /// The word of the last state.
    last_state: Value,
    /// The time since the last event that showed progress, if a connection broke since then.
    outage: ServerOutage,
    max_silence: Duration,
    breaks: watch::Sender<()>,
}

/// The end of one response.
enum ResponseEnd {
    /// All output was read, or nobody wants more of it.
    Complete,
    /// The connection broke, or the server ended.
    Broken,
}

impl EventSource {
    async fn connect(&self) -> Result<ResponseStream, ServerRequestError> {
        let last_id = self.last_id.as_deref().and_then(|id| HeaderValue::from_str(id).ok());
        let headers: HeaderMap = last_id.into_iter().map(|id| (LAST_EVENT_ID, id)).collect();
        let url = self.job.url("/stream", &self.query);
        open_stream(&self.job.server.client, &url, headers).await
    }

    async fn read_to_end(
        &mut self,
        mut stream: ResponseStream,
        sender: &EventSender,
    ) -> Result<(), ServerRequestError> {
        loop {
            match self.read_response(stream, sender).await? {
                ResponseEnd::Complete => return Ok(()),
                ResponseEnd::Broken => {
                    self.breaks.send_replace(());
                    stream = self.reconnect(sender).await?;
                }
            }
        }
    }

    async fn read_response(
        &mut self,
        mut stream: ResponseStream,
        sender: &EventSender,
    ) -> Result<ResponseEnd, ServerRequestError> {
        let opened_at = Instant::now();
        let mut is_back = !self.outage.is_ongoing();
        let mut parser = EventParser::default();
        while let Ok(Ok(Some(bytes))) = timeout(self.max_silence, stream.next_chunk()).await {
            for event in parser.push(&bytes) {
                let event = event.map_err(|error| self.unexpected_error(&error.to_string()))?;
                let taken = self.take_event(event)?;
                if !std::mem::replace(&mut is_back, true) {
                    let was_announced = self.outage.note_return();
                    sender.send(Ok(OutputEvent::ConnectionBack { was_announced })).await.ok();
                }
                if taken.is_progress {
                    self.outage.end();
                }
                let Some(event) = taken.event else { continue };
                let is_last = matches!(event, OutputEvent::End(_));
                if sender.send(Ok(event)).await.is_err() || is_last {
                    return Ok(ResponseEnd::Complete);
                }
            }
        }
        if opened_at.elapsed() >= STABLE_AFTER {
            self.outage.end();
        }
        Ok(ResponseEnd::Broken)
    }

    /// Notes the place after an event, and returns the event for the user.
    fn take_event(&mut self, event: ServerEvent) -> Result<TakenEvent, ServerRequestError> {
        let ServerEvent { name, id, data } = event;
        let mut is_progress = id.is_some() && id != self.last_id;
        let event = match name.as_str() {
            "output" => Some(OutputEvent::Bytes(
                read_bytes(&data).ok_or_else(|| self.unexpected_error("output without bytes"))?,
            )),
            "gap" => Some(OutputEvent::Missing(MissingOutput::new(&data))),
            "state" | "end" => {
                check_same_job(&self.job, &data)?;
                is_progress |= data["state"] != self.last_state;
                self.last_state = data["state"].clone();
                (name == "end").then_some(OutputEvent::End(data))
            }
            // The server cannot read the output.
            "error" => {
                let text = |name: &str| data[name].as_str().map(str::to_owned);
                let (Some(code), Some(message)) = (text("code"), text("message")) else {
                    return Err(self.unexpected_error("an error without a message"));
                };
                return Err(ServerRequestError::Refused { code, message, status: StatusCode::OK });
            }
            _ => None,
        };
        if id.is_some() {
            self.last_id = id;
        }
        Ok(TakenEvent { event, is_progress })
    }

    fn unexpected_error(&self, text: &str) -> ServerRequestError {
        unexpected_stream_error(&self.job.server.target(), text)
    }

    /// Connects again, with pauses. The response before counts as a failure: an outage is over only
    /// after an event that shows progress.
    async fn reconnect(
        &mut self,
        sender: &EventSender,
    ) -> Result<ResponseStream, ServerRequestError> {
        let mut retry = self.outage.retry(&self.job)?;
        loop {
            if retry.announce {
                sender.send(Ok(OutputEvent::ConnectionLost)).await.ok();
            }
            sleep(retry.pause).await;
            match self.connect().await {
                Ok(stream) => return Ok(stream),
                Err(error) => retry = next_retry(&self.job, error, &mut self.outage)?,
            }
        }
    }
}

/// An event of the server, as the reader takes it.
struct TakenEvent {
    /// The event for the user, if there is one.
    event: Option<OutputEvent>,
    /// `true` if the server has more to say than before the connection broke.
    is_progress: bool,
}

fn unexpected_stream_error(target: &str, text: &str) -> ServerRequestError {
    ServerRequestError::UnexpectedReply {
        target: target.to_owned(),
        status: StatusCode::OK,
        text: text.to_owned(),
    }
}

/// Returns the bytes of an event, in either form.
fn read_bytes(data: &Value) -> Option<Vec<u8>> {
    match (data["text"].as_str(), data["base64"].as_str()) {
        (Some(text), _) => Some(text.as_bytes().to_vec()),
        (None, Some(encoded)) => STANDARD.decode(encoded).ok(),
        (None, None) => None,
    }
}

// Server-sent events: the pieces of a response become events with a position and JSON.

/// The longest line. Events of servers are shorter: the longest has a command of 2 MiB, of which each
/// byte may take six in JSON.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The defect of a stream that is not one of this program's servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
enum EventError {
    #[error("an event is not JSON")]
    NotJson,
    #[error("an event is longer than 16 MiB")]
    TooLong,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Default)]
struct ServerEvent {
    name: String,
    /// The text with which a reader resumes after this event.
    id: Option<String>,
    data: Value,
}

/// Puts events together from pieces of any size.
#[derive(Debug, Default)]
struct EventParser {
    /// The start of a line that is not complete.
    line: Vec<u8>,
    event: ServerEvent,
}

impl EventParser {
    /// Returns the events that end in these bytes. Comments, and events without data, are left out.
    fn push(&mut self, bytes: &[u8]) -> Vec<Result<ServerEvent, EventError>> {
        let mut events = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + part.len() > MAX_LINE_BYTES {
                events.push(Err(EventError::TooLong));
                return events;
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                events.extend(self.end_line(line.trim_ascii_end()).transpose());
            }
        }
        events
    }

    /// Takes one line, and returns the event that it ends.
    fn end_line(&mut self, line: &[u8]) -> Result<Option<ServerEvent>, EventError> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return Ok(Some(event).filter(|event| !event.name.is_empty() && !event.data.is_null()));
        }
        let field = |name: &[u8]| line.strip_prefix(name).map(<[u8]>::trim_ascii_start);
        if let Some(data) = field(b"data:") {
            self.event.data = serde_json::from_slice(data).map_err(|_| EventError::NotJson)?;
        } else if let Some(name) = field(b"event:") {
            self.event.name = String::from_utf8_lossy(name).into_owned();
        } else if let Some(id) = field(b"id:") {
            self.event.id = Some(String::from_utf8_lossy(id).into_owned());
        }
        Ok(None)
    }
}

// Retries while a server is away.

/// The time without an answer after which the outage is announced to the user.
const ANNOUNCE_AFTER: Duration = Duration::from_secs(1);
/// The time after which a server counts as ended.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
/// The pause after the first failure; it doubles up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The largest difference between two times of the same submission.
const MAX_TIME_ERROR: time::Duration = time::Duration::seconds(1);

/// The message about a server that does not answer.
pub(super) const LOST_MESSAGE: &str =
    "the connection to the server is lost; trying again for a minute";

/// The time for which a server has not answered, and the number of attempts in it.
#[derive(Debug, Default)]
pub(super) struct ServerOutage {
    since: Option<Instant>,
    failures: u32,
    is_announced: bool,
    is_return_announced: bool,
}

/// The next attempt after one that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retry {
    /// The time until the attempt.
    pub(super) pause: Duration,
    /// `true` if the user is to learn of the outage now.
    pub(super) announce: bool,
}

impl ServerOutage {
    /// `true` from the first failure to the end of the outage.
    const fn is_ongoing(&self) -> bool {
        self.since.is_some()
    }

    /// Notes an attempt that failed, and returns the next one, or `None` if it is time to give up.
    fn note_failure(&mut self, now: Instant) -> Option<Retry> {
        let away = now.saturating_duration_since(*self.since.get_or_insert(now));
        if away >= GIVE_UP_AFTER {
            return None;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(8)).min(LONGEST_PAUSE);
        self.failures += 1;
        let announce = away >= ANNOUNCE_AFTER && !std::mem::replace(&mut self.is_announced, true);
        Some(Retry { pause, announce })
    }

    /// Notes an attempt that failed for a reason that may pass.
    ///
    /// # Errors
    /// When the server has been away for too long.
    pub(super) fn retry(&mut self, job: &FoundJob) -> Result<Retry, ServerRequestError> {
        self.note_failure(Instant::now()).ok_or_else(|| ServerRequestError::ServerLost {
            job: job.name.clone(),
            target: job.server.target(),
            seconds: GIVE_UP_AFTER.as_secs(),
        })
    }

    /// Notes a sign of life that does not end the outage, and returns `true` if the user is to learn
    /// of it: once, and only if the outage was announced.
    fn note_return(&mut self) -> bool {
        self.is_announced && !std::mem::replace(&mut self.is_return_announced, true)
    }

    /// Ends the outage, and returns `true` if it was announced.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(self).is_announced
    }
}

/// Returns the next attempt after an error.
///
/// # Errors
/// The error, if asking again cannot help, or helps no longer: the jobs of an editor end with its
/// server, others may go on.
pub(super) fn next_retry(
    job: &FoundJob,
    error: ServerRequestError,
    outage: &mut ServerOutage,
) -> Result<Retry, ServerRequestError> {
    // A server that is back does not know the job, or has less output than was read.
    let is_other = ["unknown_job", "range_not_satisfiable"].contains(&error.code());
    if outage.is_ongoing() && is_other {
        return Err(other_server_error(job));
    }
    if !error.is_transient() {
        return Err(error);
    }
    if job.server.name.is_stdio() && matches!(error, ServerRequestError::NoServer { .. }) {
        let target = job.server.target();
        return Err(ServerRequestError::ServerEnded { job: job.name.clone(), target });
    }
    outage.retry(job)
}

/// The facts by which a job is told from one with the same number in another server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct JobIdentity {
    command: String,
    submitted_at: Option<OffsetDateTime>,
}

impl JobIdentity {
    fn new(state: &Value) -> Self {
        let text = |name: &str| state[name].as_str().unwrap_or_default();
        Self {
            command: text("command").to_owned(),
            submitted_at: OffsetDateTime::parse(text("submitted_at"), &Rfc3339).ok(),
        }
    }

    /// `true` if both can be the same job. A server that goes on with a job may know the time of its
    /// submission a little less exactly.
    fn is_same_job(&self, other: &Self) -> bool {
        let is_near = match (self.submitted_at, other.submitted_at) {
            (Some(one), Some(other)) => (one - other).abs() <= MAX_TIME_ERROR,
            (None, _) | (_, None) => true,
        };
        is_near && self.command == other.command
    }
}

/// Checks that a state is that of the job that was found at the beginning.
///
/// # Errors
/// When the server was started anew, and has another job with this number.
fn check_same_job(job: &FoundJob, state: &Value) -> Result<(), ServerRequestError> {
    if JobIdentity::new(&job.state).is_same_job(&JobIdentity::new(state)) {
        return Ok(());
    }
    Err(other_server_error(job))
}

fn other_server_error(job: &FoundJob) -> ServerRequestError {
    let target = job.server.target();
    ServerRequestError::OtherServer { job: job.name.clone(), target }
}

/// Returns the state of a job, if the server still has the same job.
pub(super) async fn get_same_job(
    job: &FoundJob,
    query: &[(&str, String)],
) -> Result<Value, ServerRequestError> {
    let state = get(&job.server.client, &job.url("", query)).await?;
    check_same_job(job, &state)?;
    Ok(state)
}

/// Returns the state of a job, also if its server is away for a while.
pub(super) async fn get_job_with_retry(
    job: &FoundJob,
    query: &[(&str, String)],
) -> Result<Value, ServerRequestError> {
    let mut outage = ServerOutage::default();
    loop {
        match get_same_job(job, query).await {
            Ok(state) => return Ok(state),
            Err(error) => sleep(next_retry(job, error, &mut outage)?.pause).await,
        }
    }
}

/// Sends a request that may arrive twice without harm, also if the server is away for a while. A server
/// that comes back with another job gets no request.
pub(super) async fn post_with_retry(
    job: &FoundJob,
    part: &str,
    body: &Value,
) -> Result<Value, ServerRequestError> {
    let mut outage = ServerOutage::default();
    loop {
        let attempt = async {
            get_same_job(job, &[]).await?;
            send_post(&job.server.client, &job.url(part, &[]), body).await
        };
        match attempt.await {
            Ok(answer) => return Ok(answer),
            Err(error) => sleep(next_retry(job, error, &mut outage)?.pause).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;

    use super::super::server_set::{FoundServer, ServerLabel};
    use super::*;
    use crate::client::{ServerClient, ServerTarget};

    #[test]
    fn missing_bytes_are_counted_and_explained() {
        let gap = |data| MissingOutput::new(&data).format();
        let cut = json!({"from": 1000, "to": 1_235_567, "why": "cut"});
        let line = "[… 1,234,567 bytes are missing: its file does not have them …]";
        assert_eq!(gap(cut), line);
        let unexplained = json!({"from": 5, "to": 6, "why": "\u{1b}"});
        assert_eq!(gap(unexplained), "[… 1 byte is missing: it was not kept …]");
        let crash = json!({"from": 7, "to": 7, "bytes": 999, "why": "server_crash"});
        assert_eq!(gap(crash), "[… up to 999 bytes may be missing: the server crashed here …]");
    }

    fn found_job(socket: &std::path::Path, state: Value) -> FoundJob {
        let target = ServerTarget::socket(socket.into(), "/mcp");
        let client = ServerClient::new(target, None).unwrap();
        let server = FoundServer { name: ServerLabel::Given, client };
        let (number, name) = ("3".to_owned(), "3".to_owned());
        FoundJob { server, number, tenant: None, state, name }
    }

    fn source(job: FoundJob, max_silence: Duration) -> EventSource {
        EventSource {
            last_state: job.state["state"].clone(),
            job,
            query: Vec::new(),
            last_id: None,
            outage: ServerOutage::default(),
            max_silence,
            breaks: watch::channel(()).0,
        }
    }

    fn event(name: &str, id: &str, data: Value) -> ServerEvent {
        ServerEvent { name: name.to_owned(), id: Some(id.to_owned()), data }
    }

    /// Answers each connection with the same response, and returns their number.
    fn serve(
        socket: &std::path::Path,
        response: &'static str,
        keeps_open: bool,
    ) -> Arc<AtomicUsize> {
        let listener = UnixListener::bind(socket).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut connection, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                assert_ne!(connection.read(&mut [0; 4096]).await.unwrap(), 0, "a request");
                connection.write_all(response.as_bytes()).await.unwrap();
                if keeps_open {
                    open.push(connection);
                }
            }
        });
        count
    }

    const EMPTY_STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

    #[tokio::test]
    async fn a_server_whose_responses_are_empty_is_asked_with_pauses() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let count = serve(&socket, EMPTY_STREAM, false);
        let job = found_job(&socket, json!({"state": "running"}));
        let mut output = JobOutputEvents::open(&job, Vec::new()).await.unwrap();
        // The outage is announced after a second of pauses that double.
        assert_eq!(output.next().await.unwrap(), OutputEvent::ConnectionLost);
        let asked = count.load(Ordering::SeqCst);
        assert!((2..10).contains(&asked), "{asked} connections");
    }

    #[tokio::test]
    async fn a_connection_without_a_byte_for_long_is_broken() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        serve(&socket, EMPTY_STREAM, true);
        let job = found_job(&socket, json!({"state": "running"}));
        let mut source = source(job, Duration::from_millis(50));
        let stream = source.connect().await.unwrap();
        let (sender, _events) = mpsc::channel(1);
        let end = source.read_response(stream, &sender).await.unwrap();
        assert!(matches!(end, ResponseEnd::Broken));
    }

    #[test]
    fn only_news_of_the_same_job_are_progress() {
        let state = json!({"state": "queued", "command": "make"});
        let mut source = source(found_job("/s".as_ref(), state.clone()), MAX_SILENCE);
        let mut take = |event| source.take_event(event).map(|taken| taken.is_progress).unwrap();
        assert!(take(event("state", "0", state.clone())), "the first event");
        assert!(!take(event("state", "0", state)), "nothing new");
        assert!(take(event("state", "0", json!({"state": "running", "command": "make"}))));
        assert!(take(event("output", "2", json!({"text": "a\n"}))));
        let other = event("state", "2", json!({"state": "running", "command": "ls"}));
        assert_eq!(source.take_event(other).err().unwrap().code(), "other_server");
    }

    #[test]
    fn output_that_cannot_be_read_is_an_error() {
        let mut source = source(found_job("/s".as_ref(), json!({})), MAX_SILENCE);
        let mut code = |name, data| {
            let error = source.take_event(event(name, "1", data)).err().unwrap();
            (error.code().to_owned(), error.to_string())
        };
        for data in [json!({"base64": "?"}), json!({})] {
            assert_eq!(code("output", data).0, "foreign_answer");
        }
        let data = json!({"code": "output_unreadable", "message": "the disk failed"});
        assert_eq!(code("error", data), ("output_unreadable".into(), "the disk failed".into()));
    }

    #[test]
    fn output_is_text_or_base64() {
        assert_eq!(read_bytes(&json!({"text": "é\n"})).unwrap(), "é\n".as_bytes());
        assert_eq!(read_bytes(&json!({"base64": "/wo="})).unwrap(), b"\xff\n");
    }

    #[test]
    fn events_are_the_same_in_pieces_of_any_size() {
        let text = "event: state\nid: 0\ndata: {\"job\":1}\n\n: keep-alive\n\n\
                    event: output\nid: 6\ndata: {\"text\":\"h\\u00e9é\\n\"}\n\nevent: end\nid: 6\n";
        let expected = [
            ServerEvent { name: "state".into(), id: Some("0".into()), data: json!({"job": 1}) },
            ServerEvent {
                name: "output".into(),
                id: Some("6".into()),
                data: json!({"text": "héé\n"}),
            },
        ];
        for size in 1..text.len() {
            let mut parser = EventParser::default();
            let events: Result<Vec<ServerEvent>, EventError> =
                text.as_bytes().chunks(size).flat_map(|piece| parser.push(piece)).collect();
            assert_eq!(events.unwrap(), expected, "{size}");
        }
    }

    #[test]
    fn what_is_no_event_is_an_error_after_the_events_before_it() {
        let text = b"event: state\ndata: {}\n\nevent: output\ndata: {\"text\"\n\n";
        let events = EventParser::default().push(text);
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!((events[0].is_ok(), &events[1]), (true, &Err(EventError::NotJson)));
        let mut parser = EventParser::default();
        assert_eq!(parser.push(&vec![b'x'; MAX_LINE_BYTES]), []);
        assert_eq!(parser.push(b"x"), [Err(EventError::TooLong)]);
    }

    #[test]
    fn an_outage_is_announced_once_and_nobody_waits_for_ever() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let retry = |pause, announce| Some(Retry { pause, announce });
        let mut outage = ServerOutage::default();
        assert_eq!(outage.note_failure(at(0)), retry(FIRST_PAUSE, false));
        assert_eq!(outage.note_failure(at(900)), retry(FIRST_PAUSE * 2, false));
        assert!(!outage.note_return(), "the user does not know of the outage");
        assert_eq!(outage.note_failure(at(1100)), retry(FIRST_PAUSE * 4, true));
        assert_eq!(outage.note_failure(at(2000)), retry(FIRST_PAUSE * 8, false));
        assert!(outage.note_return() && !outage.note_return(), "said once");
        for _ in 0..100 {
            outage.note_failure(at(3000));
        }
        assert_eq!(outage.note_failure(at(3000)), retry(LONGEST_PAUSE, false));
        assert_eq!(outage.note_failure(at(60_001)), None);
        assert!(outage.is_ongoing() && outage.end() && !outage.is_ongoing());
        assert_eq!(outage.note_failure(at(70_000)), retry(FIRST_PAUSE, false));
        assert!(!outage.end(), "a short outage");
    }

    #[test]
    fn a_job_of_another_server_is_told_by_its_command_or_its_time() {
        let job = |command: &str, submitted_at: &str| {
            JobIdentity::new(&json!({"command": command, "submitted_at": submitted_at}))
        };
        let followed = job("make", "2026-01-02T00:00:00.990Z");
        assert!(followed.is_same_job(&job("make", "2026-01-02T00:00:00.991Z")));
        assert!(!followed.is_same_job(&job("make", "2026-01-02T00:01:00Z")));
        assert!(!followed.is_same_job(&job("ls", "2026-01-02T00:00:00.990Z")));
    }
}
