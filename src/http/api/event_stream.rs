//! `/jobs/{id}/stream`: the output and the states of a job as server-sent events.
//!
//! The id of an event is the place after it, so that a client that comes back with the last id it has
//! seen (`Last-Event-ID`) gets the rest: no byte and no loss is left out or repeated. A position may be
//! in the middle of a character.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::output::{FOLLOW_VALUES, STREAM_VALUES, read_start};
use super::request::{ApiError, ApiState, JobAccess, QueryParams};
use crate::mcp::JobDetail;
use crate::service::{
    CallerIdentity, ForeignAccess, JobHandle, JobOutputReader, JobPhase, JobStatus, LostBytes,
    OutputPiece, StartAt,
};
use crate::spec::Stream;
use crate::telemetry::events;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The interval between comments on a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The most losses that are told right before the end of a stream that does not follow.
const MAX_LAST_LOSSES: usize = 16;

/// The parameters of the route.
pub(in crate::http) const PARAMS: [&str; 6] =
    ["cursor", "follow", "since", "stream", "tail", "tenant"];

/// Sends the output and the states of a job as events.
pub(in crate::http) async fn job_stream(
    State(api): State<Arc<ApiState>>,
    Extension(caller): Extension<CallerIdentity>,
    Path(job): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let params = QueryParams::parse(uri.query(), &PARAMS)?;
    let access = JobAccess::new(caller, &params)?;
    let stream = params.choice("stream", &STREAM_VALUES)?;
    let start = read_start(&params, "cursor")?.unwrap_or(StartAt::Position(0));
    let last_id = read_last_event_id(&headers)?;
    let start = last_id.map_or(start, |id| StartAt::Position(id.position));
    let follows = params.choice("follow", &FOLLOW_VALUES)?.unwrap_or(true);
    let job = access.find(&api, &job, ForeignAccess::ReadOutput).await?;
    let mut reader = JobOutputReader::open(&job, stream, start).await?;
    reader.mark_loss_known(last_id.map_or(0, |id| id.known_lost));
    if last_id.is_some_and(|id| id.is_end) && (!follows || reader.is_at_end()) {
        // A browser's `EventSource` connects again after the end, until it gets this status.
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(response);
    }
    let until = (!follows).then(|| reader.length());
    let mut keep_alive = interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let status = job.watch_status();
    let events = JobEvents {
        api,
        access,
        job,
        reader,
        until,
        status,
        shown: None,
        keep_alive,
        next: NextEvent::State,
    };
    let body = Body::from_stream(stream::unfold(events, JobEvents::next));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The id of an event: the place after it, as `1000`, `1000+7` or `1000-end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EventId {
    /// The position of the next byte.
    position: u64,
    /// The number of bytes that were lost right before the position, as far as they were told.
    known_lost: u64,
    /// `true` for the end of the stream. A client that has seen all output but not the end comes back
    /// for it; a client that has seen the end does not.
    is_end: bool,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, known_lost, is_end } = *self;
        write!(f, "{position}")?;
        if known_lost > 0 {
            write!(f, "+{known_lost}")?;
        }
        f.write_str(if is_end { "-end" } else { "" })
    }
}

impl EventId {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (place, is_end) = match text.strip_suffix("-end") {
            Some(place) => (place, true),
            None => (text, false),
        };
        let (position, known_lost) = place.split_once('+').unwrap_or((place, "0"));
        let number = |digits: &str| {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| digits.parse().ok()).flatten()
        };
        Some(Self { position: number(position)?, known_lost: number(known_lost)?, is_end })
    }
}

fn read_last_event_id(headers: &HeaderMap) -> Result<Option<EventId>, ApiError> {
    let Some(id) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let why = "the header Last-Event-ID must be the id of an event of this stream";
    let bad = || ApiError::bad_query("Last-Event-ID", why);
    id.to_str().ok().and_then(EventId::parse).map(Some).ok_or_else(bad)
}

/// The events of one response.
struct JobEvents {
    api: Arc<ApiState>,
    access: JobAccess,
    job: JobHandle,
    reader: JobOutputReader,
    /// The length of the output at the beginning, if no later output is wanted.
    until: Option<u64>,
    status: watch::Receiver<JobStatus>,
    /// The state that was sent last.
    shown: Option<JobPhase>,
    keep_alive: Interval,
    next: NextEvent,
}

/// The step that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextEvent {
    /// The state at the beginning.
    State,
    /// Output, or a change of the state.
    Output,
    /// The end, once the job has finished: its output is complete.
    End,
    Nothing,
}

impl JobEvents {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        let event = match self.next {
            NextEvent::State => {
                self.next = NextEvent::Output;
                self.state_event().await
            }
            NextEvent::Output => self.next_output().await?,
            NextEvent::End => self.wait_for_end().await?,
            NextEvent::Nothing => return None,
        };
        Some((Ok(event), self))
    }

    /// Waits for output, for another state, or for the time of a comment. `None` if the server ends:
    /// the client comes back for the rest.
    async fn next_output(&mut self) -> Option<Bytes> {
        if self.until.is_some_and(|until| self.reader.position() >= until) {
            return Some(self.stop_events().await);
        }
        let piece = tokio::select! {
            biased;
            () = self.api.streams.cancelled() => return None,
            Ok(()) = self.status.changed() => return Some(self.state_event().await),
            piece = self.reader.peek() => piece,
            _ = self.keep_alive.tick() => return Some(comment()),
        };
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => return Some(self.error_event(error)),
        };
        match piece {
            OutputPiece::End => {
                self.next = NextEvent::End;
                self.wait_for_end().await
            }
            OutputPiece::Missing(hole) => {
                let (from, to) = (hole.range.start, hole.range.end);
                self.reader.advance(to - from);
                let why = hole.why.word();
                let data = json!({"from": from, "to": to, "bytes": to - from, "why": why});
                Some(format_event("gap", self.place(), &data))
            }
            OutputPiece::Lost(lost) => Some(self.loss_event(lost)),
            OutputPiece::Bytes { stream, bytes, may_grow } => {
                match choose_form(&bytes, may_grow && self.until.is_none()) {
                    PieceForm::Text(length) | PieceForm::Base64(length) => {
                        Some(self.output_event(stream, &bytes[..length]))
                    }
                    PieceForm::Wait => self.wait_for_rest(bytes.len() as u64).await,
                }
            }
        }
    }

    /// Waits for the rest of a character, or for an event that comes first. Returns no bytes if the
    /// rest has come, and `None` if the server ends.
    async fn wait_for_rest(&mut self, peeked: u64) -> Option<Bytes> {
        tokio::select! {
            biased;
            () = self.api.streams.cancelled() => None,
            Ok(()) = self.status.changed() => Some(self.state_event().await),
            () = self.reader.wait_for_more(peeked) => Some(Bytes::new()),
            _ = self.keep_alive.tick() => Some(comment()),
        }
    }

    /// Waits until the job has finished, which may be a moment after its output is complete.
    async fn wait_for_end(&mut self) -> Option<Bytes> {
        if let Some(event) = self.changed_state().await {
            return Some(event);
        }
        if !matches!(self.shown, Some(JobPhase::Finished(_))) {
            tokio::select! {
                biased;
                () = self.api.streams.cancelled() => return None,
                Ok(()) = self.status.changed() => return Some(self.state_event().await),
                _ = self.keep_alive.tick() => return Some(comment()),
            }
        }
        Some(self.end_event().await)
    }

    /// Tells what was lost until now, and the end: a loss that goes on does not keep the stream open.
    async fn stop_events(&mut self) -> Bytes {
        let mut events = Vec::new();
        while events.len() < MAX_LAST_LOSSES
            && let Some(lost) = self.reader.find_loss()
        {
            events.push(self.loss_event(lost));
        }
        events.push(self.end_event().await);
        events.concat().into()
    }

    fn loss_event(&mut self, lost: LostBytes) -> Bytes {
        self.reader.mark_loss_known(lost.bytes);
        let at = self.reader.position();
        let data = json!({"from": at, "to": at, "bytes": lost.bytes, "why": lost.why.word()});
        format_event("gap", self.place(), &data)
    }

    /// Tells that the output cannot be read, which ends the stream.
    fn error_event(&mut self, error: io::Error) -> Bytes {
        self.next = NextEvent::Nothing;
        events::output_unreadable(self.job.id(), &error);
        let message = ApiError::Read(error).to_string();
        let data = json!({"code": "output_unreadable", "message": message});
        format_event("error", self.place(), &data)
    }

    async fn end_event(&mut self) -> Bytes {
        self.next = NextEvent::Nothing;
        let id = EventId { is_end: true, ..self.place() };
        format_event("end", id, &self.describe().await)
    }

    /// The place that was reached.
    const fn place(&self) -> EventId {
        let reader = &self.reader;
        EventId { position: reader.position(), known_lost: reader.known_lost(), is_end: false }
    }

    /// Returns an event if the state is another one than the last that was sent.
    async fn changed_state(&mut self) -> Option<Bytes> {
        let phase = self.status.borrow_and_update().phase.clone();
        if self.shown.as_ref() == Some(&phase) {
            return None;
        }
        self.shown = Some(phase);
        Some(format_event("state", self.place(), &self.describe().await))
    }

    async fn state_event(&mut self) -> Bytes {
        self.changed_state().await.unwrap_or_else(comment)
    }

    async fn describe(&self) -> Value {
        let Self { api, access, job, .. } = self;
        api.handler.describe_job(access.identity, job, JobDetail::Summary).await
    }

    fn output_event(&mut self, stream: Option<Stream>, bytes: &[u8]) -> Bytes {
        self.reader.advance(bytes.len() as u64);
        let mut data = match str::from_utf8(bytes) {
            Ok(text) => json!({"text": text}),
            Err(_) => json!({"base64": STANDARD.encode(bytes)}),
        };
        if let Some(stream) = stream {
            data["stream"] = json!(stream.name());
        }
        format_event("output", self.place(), &data)
    }
}

/// The form in which the next bytes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PieceForm {
    /// This many bytes are text.
    Text(usize),
    /// This many bytes are not text.
    Base64(usize),
    /// The bytes are the beginning of a character whose rest may come.
    Wait,
}

/// Chooses the form of the next bytes: as much text as possible, whole characters only.
fn choose_form(bytes: &[u8], may_grow: bool) -> PieceForm {
    // A reader that starts in the middle of a character gets its rest first.
    let is_continuation = |byte: &&u8| **byte & 0xC0 == 0x80;
    let rest = bytes.iter().take(4).take_while(is_continuation).count();
    if (1..=3).contains(&rest) {
        return PieceForm::Base64(rest);
    }
    match str::from_utf8(bytes) {
        Ok(_) => PieceForm::Text(bytes.len()),
        Err(error) => match (error.valid_up_to(), error.error_len()) {
            (0, None) if may_grow => PieceForm::Wait,
            (0, _) => PieceForm::Base64(bytes.len()),
            (valid, _) => PieceForm::Text(valid),
        },
    }
}

fn format_event(name: &str, id: EventId, data: &Value) -> Bytes {
    // JSON has no line breaks outside of texts, and escapes those inside.
    format!("event: {name}\nid: {id}\ndata: {data}\n\n").into()
}

fn comment() -> Bytes {
    Bytes::from_static(b": keep-alive\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_sent_in_whole_characters() {
        let euro = "a€".as_bytes();
        for (bytes, may_grow, form) in [
            (&b"abc"[..], true, PieceForm::Text(3)),
            (euro, true, PieceForm::Text(4)),
            (&euro[..3], true, PieceForm::Text(1)),
            (&euro[1..3], true, PieceForm::Wait),
            (&euro[1..3], false, PieceForm::Base64(2)),
            (&euro[2..], true, PieceForm::Base64(2)),
            (b"\xffabc", true, PieceForm::Base64(4)),
            (b"ab\xffc", true, PieceForm::Text(2)),
            (b"\x80\x80\x80\x80", true, PieceForm::Base64(4)),
        ] {
            assert_eq!(choose_form(bytes, may_grow), form, "{bytes:?} {may_grow}");
        }
    }

    #[test]
    fn any_bytes_arrive_whole_from_any_position() {
        let mut output = "grüße € 🎉 ".as_bytes().to_vec();
        output.extend_from_slice(b"\xff\xfe\x80 end \xf0\x9f");
        for start in 0..=output.len() {
            let mut at = start;
            while at < output.len() {
                match choose_form(&output[at..], false) {
                    PieceForm::Text(length) => {
                        assert!(length > 0 && str::from_utf8(&output[at..at + length]).is_ok());
                        at += length;
                    }
                    PieceForm::Base64(length) => {
                        assert!(length > 0);
                        at += length;
                    }
                    PieceForm::Wait => panic!("nothing follows"),
                }
            }
            assert_eq!(at, output.len(), "{start}");
        }
    }

    #[test]
    fn an_id_is_a_place_with_what_was_told_there() {
        for (position, known_lost, is_end, text) in [
            (0, 0, false, "0"),
            (17, 0, false, "17"),
            (17, 0, true, "17-end"),
            (17, 5, false, "17+5"),
            (17, 5, true, "17+5-end"),
        ] {
            let id = EventId { position, known_lost, is_end };
            assert_eq!(id.to_string(), text);
            assert_eq!(EventId::parse(text), Some(id));
        }
        for bad in ["", "x", "-end", "-1", "17-", "17-END", "+5", "17+", "17+x", "17++5", "1+2+3"] {
            assert_eq!(EventId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_event_is_one_line_of_data() {
        let id = EventId { position: 7, known_lost: 0, is_end: false };
        let event = format_event("output", id, &json!({"text": "a\nb\r\u{2028}"}));
        let text = String::from_utf8(event.to_vec()).unwrap();
        assert_eq!(text, "event: output\nid: 7\ndata: {\"text\":\"a\\nb\\r\u{2028}\"}\n\n");
    }
}
