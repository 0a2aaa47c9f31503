//! The event streams of one legacy session: one for each request in flight, and the session's own,
//! which the client opens with GET. Pure and without a clock, except for the channels to the responses.
//!
//! A client that has lost a stream names the last event that it has seen, and gets the later ones. If
//! the reply came while the client was not connected, its stream is kept for a while. A small reply is
//! kept even if it was sent: it may have been lost with the connection.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use rmcp::model::{
    ClientRequest, GetExtensions as _, GetMeta as _, JsonRpcMessage, JsonRpcRequest, ProgressToken,
    RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::service::OriginatingRequestId;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tokio::sync::mpsc;

/// The events of one stream that are kept for a client that reconnects.
const MAX_RECENT: usize = 16;

/// The events that may wait for the client of one stream, the reply included.
const MAX_UNREAD: usize = 32;

/// The streams of one session that are open without ever getting a message.
const MAX_SPARE: usize = 32;

/// The streams of one session that are kept after their reply.
const MAX_FINISHED: usize = 4;

/// The time for which they are kept.
pub(super) const KEEP_FINISHED: Duration = Duration::from_secs(60);

/// The most bytes of a stream that is kept although its reply was sent to a client.
const MAX_KEPT_SENT: usize = 16 * 1024;

/// The time after which a client reconnects a stream that has ended.
const RECONNECT_AFTER: Duration = Duration::from_secs(3);

/// The events of a stream as its client receives them.
pub(super) type EventReceiver = mpsc::Receiver<ServerSseMessage>;

/// `true` if streams begin with an empty event, by which a client can reconnect before the first
/// message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IsPrimed(pub(super) bool);

/// The streams of one session.
#[derive(Debug)]
pub(super) struct SessionStreams {
    primed: IsPrimed,
    /// The number of the next request's stream.
    next_number: u64,
    requests: BTreeMap<u64, RequestStream>,
    /// The streams whose reply came, oldest first.
    finished: VecDeque<FinishedStream>,
    own: EventStream,
    /// Streams beside the session's own. Clients that open several expect them to stay open, and
    /// must get each message once.
    spare: VecDeque<mpsc::Sender<ServerSseMessage>>,
}

#[derive(Debug)]
struct RequestStream {
    request: RequestId,
    progress: Option<ProgressToken>,
    events: EventStream,
}

/// A stream that has ended with its reply.
#[derive(Debug)]
struct FinishedStream {
    number: u64,
    events: EventStream,
    ended: Instant,
}

impl SessionStreams {
    pub(super) fn new(primed: IsPrimed) -> Self {
        Self {
            primed,
            next_number: 0,
            requests: BTreeMap::new(),
            finished: VecDeque::new(),
            own: EventStream::default(),
            spare: VecDeque::new(),
        }
    }

    /// Opens the stream of a request: its reply and everything that belongs to it go there.
    pub(super) fn open_for_request(
        &mut self,
        request: &JsonRpcRequest<ClientRequest>,
    ) -> EventReceiver {
        let number = self.next_number;
        self.next_number += 1;
        let mut events = EventStream { number: Some(number), ..EventStream::default() };
        let received = events.connect(0, self.primed);
        let progress = request.request.get_meta().get_progress_token();
        let stream = RequestStream { request: request.id.clone(), progress, events };
        self.requests.insert(number, stream);
        received
    }

    /// Opens the session's own stream. It begins with the messages that no stream has carried yet.
    pub(super) fn open_own(&mut self) -> EventReceiver {
        let after = self.own.sent;
        self.connect_own(after)
    }

    /// Opens a stream again, after the event with this id.
    ///
    /// # Errors
    /// When the stream does not exist, or no longer.
    pub(super) fn resume(
        &mut self,
        last: EventId,
        now: Instant,
    ) -> Result<EventReceiver, UnknownStream> {
        let Some(number) = last.stream else { return Ok(self.connect_own(last.event)) };
        if let Some(stream) = self.requests.get_mut(&number) {
            return Ok(stream.events.connect(last.event, IsPrimed(false)));
        }
        self.drop_expired(now);
        let finished = self.finished.iter_mut().find(|stream| stream.number == number);
        let events = &mut finished.ok_or(UnknownStream)?.events;
        let received = events.connect(last.event, IsPrimed(false));
        // Nothing follows the reply. The events stay: the client may lose this connection as well.
        events.client = None;
        Ok(received)
    }

    /// Drops the finished streams that were kept long enough.
    pub(super) fn drop_expired(&mut self, now: Instant) {
        self.finished.retain(|stream| now.duration_since(stream.ended) < KEEP_FINISHED);
    }

    fn connect_own(&mut self, after: u64) -> EventReceiver {
        if !self.own.is_connected() {
            return self.own.connect(after, self.primed);
        }
        self.spare.retain(|stream| !stream.is_closed());
        if self.spare.len() == MAX_SPARE {
            self.spare.pop_front();
        }
        let (sender, received) = mpsc::channel(1);
        self.spare.push_back(sender);
        received
    }

    /// Sends a message of the server on the stream to which it belongs. A reply ends its stream.
    pub(super) fn send(&mut self, message: ServerJsonRpcMessage, now: Instant) {
        match self.find_request_stream(&message) {
            Some(number) if is_reply(&message) => {
                if let Some(mut stream) = self.requests.remove(&number) {
                    // Without an event before the reply, a client knows none from which to go on.
                    let is_resumable = self.primed.0 || stream.events.last > 0;
                    stream.events.send(message);
                    let may_be_lost = !stream.events.is_sent() || stream.events.is_small();
                    if is_resumable && may_be_lost {
                        self.keep_finished(number, stream.events, now);
                    }
                }
            }
            Some(number) => {
                if let Some(stream) = self.requests.get_mut(&number) {
                    stream.events.send(message);
                }
            }
            None => self.own.send(message),
        }
    }

    /// Keeps a stream that has ended. If there are too many, one whose reply was sent makes room for
    /// others, and the oldest for one that was not sent.
    fn keep_finished(&mut self, number: u64, mut events: EventStream, now: Instant) {
        events.client = None;
        self.drop_expired(now);
        if self.finished.len() == MAX_FINISHED {
            let sent = self.finished.iter().position(|stream| stream.events.is_sent());
            match sent {
                Some(sent) => drop(self.finished.remove(sent)),
                None if events.is_sent() => return,
                None => drop(self.finished.pop_front()),
            }
        }
        self.finished.push_back(FinishedStream { number, events, ended: now });
    }

    /// Ends the stream of a request that its client has cancelled: no reply follows.
    pub(super) fn end_request(&mut self, request: &RequestId) {
        self.requests.retain(|_, stream| stream.request != *request);
    }

    fn find_request_stream(&self, message: &ServerJsonRpcMessage) -> Option<u64> {
        let by_request = |request: &RequestId| self.find(|stream| stream.request == *request);
        match message {
            JsonRpcMessage::Response(response) => by_request(&response.id),
            JsonRpcMessage::Error(error) => by_request(error.id.as_ref()?),
            JsonRpcMessage::Request(request) => {
                by_request(&request.request.extensions().get::<OriginatingRequestId>()?.0)
            }
            JsonRpcMessage::Notification(notification) => {
                let ServerNotification::ProgressNotification(progress) = &notification.notification
                else {
                    return None;
                };
                let token = &progress.params.progress_token;
                self.find(|stream| stream.progress.as_ref() == Some(token))
            }
        }
    }

    fn find(&self, is_wanted: impl Fn(&RequestStream) -> bool) -> Option<u64> {
        self.requests.iter().find(|(_, stream)| is_wanted(stream)).map(|(number, _)| *number)
    }
}

const fn is_reply(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
}

/// One stream, whether a client is connected to it or not.
#[derive(Debug, Default)]
struct EventStream {
    /// `None` for the session's own stream.
    number: Option<u64>,
    client: Option<mpsc::Sender<ServerSseMessage>>,
    recent: VecDeque<(u64, ServerSseMessage)>,
    /// The number of the last event. The first one has number 1.
    last: u64,
    /// The number of the last event that was sent to a client.
    sent: u64,
}

impl EventStream {
    /// `true` if every event was sent to a client. It may have lost its connection all the same.
    const fn is_sent(&self) -> bool {
        self.sent == self.last
    }

    /// `true` if its recent events have at most [`MAX_KEPT_SENT`] bytes together.
    fn is_small(&self) -> bool {
        // A slice takes no more than it has room for.
        let mut room = vec![0; MAX_KEPT_SENT];
        let mut rest = room.as_mut_slice();
        self.recent
            .iter()
            .all(|(_, event)| serde_json::to_writer(&mut rest, &event.message).is_ok())
    }

    fn is_connected(&self) -> bool {
        self.client.as_ref().is_some_and(|client| !client.is_closed())
    }

    /// Connects a client that has seen the events up to `after`; it replaces an earlier one.
    fn connect(&mut self, after: u64, primed: IsPrimed) -> EventReceiver {
        let (client, received) = mpsc::channel(MAX_UNREAD);
        if primed.0 {
            let id = EventId { event: after, stream: self.number };
            client.try_send(ServerSseMessage::priming(id.to_string(), RECONNECT_AFTER)).ok();
        }
        for (_, event) in self.recent.iter().filter(|(number, _)| *number > after) {
            client.try_send(event.clone()).ok();
        }
        self.client = Some(client);
        self.sent = self.last;
        received
    }

    /// Sends a message. A client that does not read misses notifications, but no reply.
    fn send(&mut self, message: ServerJsonRpcMessage) {
        let room_left = if is_reply(&message) { 0 } else { 1 };
        self.last += 1;
        let id = EventId { event: self.last, stream: self.number };
        let event = ServerSseMessage::new(id.to_string(), message);
        if self.recent.len() == MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((self.last, event.clone()));
        if let Some(client) = &self.client
            && client.capacity() > room_left
            && client.try_send(event).is_ok()
        {
            self.sent = self.last;
        }
    }
}

/// The id of an event: `EVENT` on the session's own stream, `EVENT/STREAM` on that of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventId {
    event: u64,
    stream: Option<u64>,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stream {
            Some(stream) => write!(f, "{}/{stream}", self.event),
            None => write!(f, "{}", self.event),
        }
    }
}

impl FromStr for EventId {
    type Err = UnknownStream;

    fn from_str(text: &str) -> Result<Self, UnknownStream> {
        let parse = |number: &str| number.parse().map_err(|_| UnknownStream);
        Ok(match text.split_once('/') {
            Some((event, stream)) => Self { event: parse(event)?, stream: Some(parse(stream)?) },
            None => Self { event: parse(text)?, stream: None },
        })
    }
}

/// The error for an event of a stream that does not exist, or no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnknownStream;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(id: u64, token: &str) -> JsonRpcRequest<ClientRequest> {
        let params = json!({"name": "run_command", "_meta": {"progressToken": token}});
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        serde_json::from_value(request).unwrap()
    }

    fn reply(id: u64) -> ServerJsonRpcMessage {
        serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "result": {}})).unwrap()
    }

    fn notification(method: &str, params: Value) -> ServerJsonRpcMessage {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        serde_json::from_value(message).unwrap()
    }

    fn progress(token: &str) -> ServerJsonRpcMessage {
        notification("notifications/progress", json!({"progressToken": token, "progress": 1.0}))
    }

    fn list_changed() -> ServerJsonRpcMessage {
        notification("notifications/resources/list_changed", json!({}))
    }

    fn resume(
        streams: &mut SessionStreams,
        last: &str,
        now: Instant,
    ) -> Result<EventReceiver, UnknownStream> {
        streams.resume(last.parse()?, now)
    }

    /// The ids of the events that have arrived; `over` is added if the stream has ended.
    fn arrived(received: &mut EventReceiver) -> Vec<String> {
        let mut ids = Vec::new();
        loop {
            match received.try_recv() {
                Ok(event) => ids.push(event.event_id.unwrap_or_default()),
                Err(mpsc::error::TryRecvError::Empty) => return ids,
                Err(mpsc::error::TryRecvError::Disconnected) => {
                    ids.push("over".to_owned());
                    return ids;
                }
            }
        }
    }

    #[test]
    fn each_message_goes_to_the_stream_of_its_request_or_to_the_sessions_own() {
        let mut streams = SessionStreams::new(IsPrimed(false));
        let mut own = streams.open_own();
        let mut first = streams.open_for_request(&request(7, "a"));
        let mut second = streams.open_for_request(&request(8, "b"));
        for message in [progress("b"), progress("unknown"), list_changed(), reply(8), reply(9)] {
            streams.send(message, Instant::now());
        }
        assert_eq!(arrived(&mut first), [""; 0]);
        assert_eq!(arrived(&mut second), ["1/1", "2/1", "over"], "a reply ends its stream");
        assert_eq!(arrived(&mut own), ["1", "2", "3"]);
        streams.end_request(&RequestId::Number(7));
        assert_eq!(arrived(&mut first), ["over"], "a cancelled request gets no reply");
    }

    #[test]
    fn a_lost_stream_continues_after_the_last_event_that_was_seen() {
        let mut streams = SessionStreams::new(IsPrimed(true));
        let mut lost = streams.open_for_request(&request(7, "a"));
        streams.send(progress("a"), Instant::now());
        assert_eq!(arrived(&mut lost), ["0/0", "1/0"]);
        drop(lost);
        streams.send(progress("a"), Instant::now());
        let mut again = resume(&mut streams, "1/0", Instant::now()).unwrap();
        streams.send(reply(7), Instant::now());
        assert_eq!(arrived(&mut again), ["2/0", "3/0", "over"]);
        let mut nothing = resume(&mut streams, "3/0", Instant::now()).unwrap();
        assert_eq!(arrived(&mut nothing), ["over"], "it has seen the reply");
        for text in ["", "x", "1/", "/1", "1/2/3"] {
            assert_eq!(text.parse::<EventId>(), Err(UnknownStream), "{text}");
        }
    }

    #[test]
    fn a_reply_that_came_without_a_client_is_kept_for_one_that_reconnects() {
        let mut streams = SessionStreams::new(IsPrimed(true));
        let begun = Instant::now();
        drop(streams.open_for_request(&request(7, "a")));
        streams.send(progress("a"), begun);
        streams.send(reply(7), begun);
        let just_in_time = begun + KEEP_FINISHED - Duration::from_millis(1);
        for now in [begun, just_in_time] {
            let mut again = resume(&mut streams, "0/0", now).unwrap();
            assert_eq!(arrived(&mut again), ["1/0", "2/0", "over"], "also after a second loss");
        }
        let mut reused = streams.open_for_request(&request(7, "a"));
        streams.send(progress("a"), begun);
        assert_eq!(arrived(&mut reused), ["0/1", "1/1"], "the id of the call is free");
        let expired = resume(&mut streams, "0/0", begun + KEEP_FINISHED);
        assert_eq!(expired.unwrap_err(), UnknownStream);
    }

    #[test]
    fn a_reply_that_was_sent_just_when_its_client_was_lost_is_kept() {
        let mut streams = SessionStreams::new(IsPrimed(true));
        let now = Instant::now();
        let lost = streams.open_for_request(&request(7, "a"));
        streams.send(reply(7), now);
        drop(lost);
        assert_eq!(arrived(&mut resume(&mut streams, "0/0", now).unwrap()), ["1/0", "over"]);
    }

    #[test]
    fn a_large_reply_that_was_sent_is_not_kept_nor_one_before_which_there_was_no_event() {
        let large = json!({"jsonrpc": "2.0", "id": 7, "result": {"x": "x".repeat(MAX_KEPT_SENT)}});
        let large: ServerJsonRpcMessage = serde_json::from_value(large).unwrap();
        for (primed, message) in [(true, large), (false, reply(7))] {
            let mut streams = SessionStreams::new(IsPrimed(primed));
            let _connected = streams.open_for_request(&request(7, "a"));
            streams.send(message, Instant::now());
            assert!(streams.finished.is_empty(), "primed: {primed}");
        }
    }

    #[test]
    fn a_reply_that_was_sent_is_dropped_before_one_that_was_not() {
        let mut streams = SessionStreams::new(IsPrimed(true));
        let begun = Instant::now();
        for id in (0..).take(MAX_FINISHED + 1) {
            drop(streams.open_for_request(&request(id, "a")));
            streams.send(reply(id), begun);
        }
        assert_eq!(resume(&mut streams, "0/0", begun).unwrap_err(), UnknownStream, "the oldest");
        let connected = streams.open_for_request(&request(99, "a"));
        streams.send(reply(99), begun);
        drop(connected);
        assert!(resume(&mut streams, "0/1", begun).is_ok(), "one that was sent displaces none");
        streams.drop_expired(begun + KEEP_FINISHED);
        assert!(streams.finished.is_empty());
        for id in (0..).take(MAX_FINISHED + 1) {
            let connected = streams.open_for_request(&request(id, "a"));
            if id == 0 {
                drop(connected);
            }
            streams.send(reply(id), begun);
        }
        let first = MAX_FINISHED + 2;
        assert!(resume(&mut streams, &format!("0/{first}"), begun).is_ok(), "nobody was sent it");
        let sent = resume(&mut streams, &format!("0/{}", first + 1), begun);
        assert_eq!(sent.unwrap_err(), UnknownStream);
    }

    #[test]
    fn messages_without_a_stream_wait_for_the_next_one() {
        let mut streams = SessionStreams::new(IsPrimed(false));
        for _ in 0..MAX_RECENT + 2 {
            streams.send(list_changed(), Instant::now());
        }
        let mut own = streams.open_own();
        let waited = arrived(&mut own);
        assert_eq!(waited.len(), MAX_RECENT);
        assert_eq!(waited.first().map(String::as_str), Some("3"), "the oldest are lost");
        drop(own);
        assert_eq!(arrived(&mut streams.open_own()), ["over"; 0], "each arrives once");
    }

    #[test]
    fn a_second_stream_of_the_session_stays_open_and_gets_nothing() {
        let mut streams = SessionStreams::new(IsPrimed(false));
        let mut own = streams.open_own();
        let mut spare: Vec<_> = (0..=MAX_SPARE).map(|_| streams.open_own()).collect();
        streams.send(list_changed(), Instant::now());
        assert_eq!(arrived(&mut own), ["1"]);
        assert_eq!(arrived(&mut spare[0]), ["over"], "there are too many");
        assert_eq!(arrived(&mut spare[1]), [""; 0]);
    }

    #[test]
    fn a_client_that_does_not_read_misses_notifications_but_no_reply() {
        let mut streams = SessionStreams::new(IsPrimed(false));
        let mut received = streams.open_for_request(&request(7, "a"));
        for _ in 0..MAX_UNREAD * 2 {
            streams.send(progress("a"), Instant::now());
        }
        streams.send(reply(7), Instant::now());
        let ids = arrived(&mut received);
        assert_eq!(ids.len(), MAX_UNREAD + 1, "{ids:?}");
        assert_eq!(ids[MAX_UNREAD - 1], format!("{}/0", MAX_UNREAD * 2 + 1));
    }
}
