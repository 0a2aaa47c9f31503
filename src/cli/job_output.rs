//! The output of a job as the command line reads it: every byte once, from the stream of events of its
//! server, also over a restart or an upgrade of that server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::reconnect::{Absence, AbsenceStep, check_return, get_job_patiently};
use super::server_events::{EventParser, ServerEvent};
use super::server_request::{ServerRequestError, open_stream};
use super::server_set::FoundJob;
use crate::client::ResponseStream;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The largest difference between two times of the same submission.
const MAX_TIME_ERROR: time::Duration = time::Duration::seconds(1);

/// The number of events that wait for their use.
const EVENT_BUFFER: usize = 8;

/// The message about a connection that broke.
pub(super) const LOST_MESSAGE: &str =
    "the connection to the server is lost; trying again for a minute";
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
        was_told: bool,
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
        let count = group_digits(self.bytes);
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

/// Formats a number as `1,234,567`.
fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// The output of one job. A task reads it, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct JobOutputEvents {
    events: mpsc::Receiver<Result<OutputEvent, ServerRequestError>>,
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
        let mut source = EventSource {
            job: job.clone(),
            query,
            last_id: None,
            identity: JobIdentity::new(&job.state),
        };
        let stream = source.connect().await?;
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        let task = tokio::spawn(async move {
            if let Err(error) = source.read_to_end(stream, &sender).await {
                // Nobody waits for the error if the reader is gone.
                sender.send(Err(error)).await.ok();
            }
        });
        Ok(Self { events, _task: AbortOnDropHandle::new(task) })
    }

    /// Returns the next event, `None` after the last. Cancel-safe.
    ///
    /// # Errors
    /// When the server does not come back, or without this job.
    pub(super) async fn next(&mut self) -> Result<Option<OutputEvent>, ServerRequestError> {
        self.events.recv().await.transpose()
    }
}

type EventSender = mpsc::Sender<Result<OutputEvent, ServerRequestError>>;

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

/// The place at which the output is read.
struct EventSource {
    job: FoundJob,
    query: Vec<(&'static str, String)>,
    /// The id of the last event: the place at which the rest of the output starts.
    last_id: Option<String>,
    identity: JobIdentity,
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
                ResponseEnd::Broken => stream = self.reconnect(sender).await?,
            }
        }
    }

    async fn read_response(
        &mut self,
        mut stream: ResponseStream,
        sender: &EventSender,
    ) -> Result<ResponseEnd, ServerRequestError> {
        // The answer to a reader that has everything.
        if stream.status() == StatusCode::NO_CONTENT {
            let state = get_job_patiently(&self.job, &[]).await?;
            sender.send(Ok(OutputEvent::End(state))).await.ok();
            return Ok(ResponseEnd::Complete);
        }
        let mut parser = EventParser::default();
        while let Ok(Some(bytes)) = stream.next_chunk().await {
            for event in parser.push(&bytes) {
                let Some(event) = self.take_event(event)? else { continue };
                let is_last = matches!(event, OutputEvent::End(_));
                if sender.send(Ok(event)).await.is_err() || is_last {
                    return Ok(ResponseEnd::Complete);
                }
            }
        }
        Ok(ResponseEnd::Broken)
    }

    /// Notes the place after an event, and returns the event for the user.
    fn take_event(
        &mut self,
        event: ServerEvent,
    ) -> Result<Option<OutputEvent>, ServerRequestError> {
        let ServerEvent { name, id, data } = event;
        let event = match name.as_str() {
            "output" => Some(OutputEvent::Bytes(read_bytes(&data))),
            "gap" => Some(OutputEvent::Missing(MissingOutput::new(&data))),
            "end" => {
                self.check_job(&data)?;
                Some(OutputEvent::End(data))
            }
            "state" => {
                self.check_job(&data)?;
                None
            }
            _ => None,
        };
        if id.is_some() {
            self.last_id = id;
        }
        Ok(event)
    }

    /// Checks that the server speaks of the same job as at the beginning.
    fn check_job(&self, state: &Value) -> Result<(), ServerRequestError> {
        if self.identity.is_same_job(&JobIdentity::new(state)) {
            return Ok(());
        }
        let target = self.job.server.client.target().to_string();
        Err(ServerRequestError::OtherServer { job: self.job.name.clone(), target })
    }

    /// Connects again, with patience.
    async fn reconnect(&self, sender: &EventSender) -> Result<ResponseStream, ServerRequestError> {
        let mut absence = Absence::default();
        loop {
            let error = match self.connect().await {
                Ok(stream) => {
                    let was_told = absence.note_answer();
                    sender.send(Ok(OutputEvent::ConnectionBack { was_told })).await.ok();
                    return Ok(stream);
                }
                Err(error) => self.explain_return(error),
            };
            let step = check_return(&self.job, error, &mut absence)?;
            if matches!(step, AbsenceStep::TellAndRetry(_)) {
                sender.send(Ok(OutputEvent::ConnectionLost)).await.ok();
            }
            sleep(step.pause()).await;
        }
    }

    /// Explains why a server that is back does not go on: it does not know the job, or has less output
    /// than was read.
    fn explain_return(&self, error: ServerRequestError) -> ServerRequestError {
        match error.code() {
            "unknown_job" | "range_not_satisfiable" => ServerRequestError::OtherServer {
                job: self.job.name.clone(),
                target: self.job.server.client.target().to_string(),
            },
            _ => error,
        }
    }
}

/// Returns the bytes of an event, in either form.
fn read_bytes(data: &Value) -> Vec<u8> {
    match (data["text"].as_str(), data["base64"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(encoded)) => STANDARD.decode(encoded).unwrap_or_default(),
        (None, None) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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

    #[test]
    fn output_is_text_or_base64() {
        assert_eq!(read_bytes(&json!({"text": "é\n"})), "é\n".as_bytes());
        assert_eq!(read_bytes(&json!({"base64": "/wo="})), b"\xff\n");
    }
}
