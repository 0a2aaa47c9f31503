//! The state of a proxy session: the responses that the client still expects, and what a new
//! connection must be told. Pure, without a clock.
//!
//! ```text
//! Waiting ── Connected ──▶ Up ── Lost ──▶ Waiting     requests are queued, within limits
//! Up ── Closing ──▶ Closing ── Lost ──▶ Waiting       requests in flight are answered, new ones queued
//! Waiting ── GiveUp ──▶ Waiting                       queued requests are refused, with the reason
//! ```

use std::collections::{BTreeSet, HashMap};
use std::mem;

use rmcp::model::{ErrorData, RequestId};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::lines::{
    self, CLOSING_METHOD, DecodedMessage, InputLine, MAX_IN_FLIGHT, MAX_LINE_BYTES, trim_line,
};

/// An event of a proxy session.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    Client(ClientLine),
    Server(ServerLine),
    /// A new connection, on which nothing has been sent yet.
    Connected,
    /// The connection is lost.
    Lost,
    /// Queued requests have waited long enough.
    GiveUp {
        /// The reason why there is no server.
        why: String,
    },
}

/// A line to be sent; actions are applied in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProxyAction {
    ToServer(Vec<u8>),
    ToClient(Vec<u8>),
}

/// The state of one client of the proxy.
#[derive(Debug)]
pub(super) struct ProxySession {
    link: UpstreamLink,
    handshake: Handshake,
    in_flight: HashMap<RequestId, PendingRequest>,
    subscriptions: BTreeSet<Subscription>,
    /// The number of requests that the proxy itself has sent.
    own_requests: u64,
}

#[derive(Debug)]
enum UpstreamLink {
    Up,
    /// The server is closing: requests in flight are answered, and new ones wait for the next
    /// server.
    Closing(Vec<ProxyRequest>),
    /// Requests wait for a connection, in order.
    Waiting(Vec<ProxyRequest>),
}

impl UpstreamLink {
    fn queued(&self) -> &[ProxyRequest] {
        match self {
            Self::Closing(queued) | Self::Waiting(queued) => queued,
            Self::Up => &[],
        }
    }

    fn into_queued(self) -> Vec<ProxyRequest> {
        match self {
            Self::Closing(queued) | Self::Waiting(queued) => queued,
            Self::Up => Vec::new(),
        }
    }
}

/// The progress of a legacy client's `initialize` handshake; a modern client has none.
#[derive(Debug, Clone)]
enum Handshake {
    None,
    /// The `initialize` line, which has been answered.
    Answered(Vec<u8>),
    /// The `initialize` line; the client has confirmed the answer.
    Complete(Vec<u8>),
}

#[derive(Debug)]
enum PendingRequest {
    /// The `initialize` line of a legacy client, which can be sent again.
    Initialize(Vec<u8>),
    Client(RequestKind),
    /// A request of the proxy, whose response is for nobody else.
    Replay(Option<Subscription>),
}

impl ProxySession {
    /// Creates a session that waits for its first connection.
    pub(super) fn new() -> Self {
        Self {
            link: UpstreamLink::Waiting(Vec::new()),
            handshake: Handshake::None,
            in_flight: HashMap::new(),
            subscriptions: BTreeSet::new(),
            own_requests: 0,
        }
    }

    /// `true` if a request of the client waits for a connection.
    pub(super) fn has_queued(&self) -> bool {
        !self.link.queued().is_empty()
    }

    /// `true` if a response is still expected on the connection.
    pub(super) fn has_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Applies an event and returns the actions that follow.
    pub(super) fn apply(&mut self, event: Event) -> Vec<ProxyAction> {
        match event {
            Event::Client(line) => self.handle_client_line(line),
            Event::Server(line) => self.handle_server_line(line),
            Event::Connected => self.handle_connected(),
            Event::Lost => self.handle_lost(),
            Event::GiveUp { why } => self.refuse_queued(&why),
        }
    }

    fn handle_client_line(&mut self, line: ClientLine) -> Vec<ProxyAction> {
        match line {
            ClientLine::Request(request) => self.handle_request(request),
            ClientLine::Initialized(line) => {
                if let Handshake::Answered(handshake) = &mut self.handshake {
                    self.handshake = Handshake::Complete(mem::take(handshake));
                }
                self.forward(line)
            }
            ClientLine::Cancelled { id, line } => {
                if let UpstreamLink::Waiting(queued) | UpstreamLink::Closing(queued) =
                    &mut self.link
                {
                    queued.retain(|request| request.id != id);
                }
                // A cancelled request gets no response, not even from the proxy.
                self.in_flight.remove(&id);
                self.forward(line)
            }
            ClientLine::Other(line) => self.forward(line),
            ClientLine::Faulty(answer) => vec![ProxyAction::ToClient(answer)],
        }
    }

    /// Forwards a line that expects no response to the connected server. A later server does not
    /// need it: the replay tells it what matters.
    fn forward(&self, line: Vec<u8>) -> Vec<ProxyAction> {
        match self.link {
            UpstreamLink::Up | UpstreamLink::Closing(_) => vec![ProxyAction::ToServer(line)],
            UpstreamLink::Waiting(_) => Vec::new(),
        }
    }

    fn handle_request(&mut self, request: ProxyRequest) -> Vec<ProxyAction> {
        if let Err(error) = self.check_limits(&request) {
            return vec![ProxyAction::ToClient(error_line(Some(&request.id), &error))];
        }
        match &mut self.link {
            UpstreamLink::Up => vec![self.send(request)],
            UpstreamLink::Closing(queued) | UpstreamLink::Waiting(queued) => {
                queued.push(request);
                Vec::new()
            }
        }
    }

    /// Checks the limits of stdio, and one for queued requests: their lines are held in memory.
    fn check_limits(&self, request: &ProxyRequest) -> Result<(), ErrorData> {
        let queued = self.link.queued();
        if self.in_flight.contains_key(&request.id) || queued.iter().any(|one| one.id == request.id)
        {
            let text = "a request with this id is still in progress; use another id";
            return Err(ErrorData::invalid_request(text, None));
        }
        if self.in_flight.len() + queued.len() >= MAX_IN_FLIGHT {
            let text = format!("{MAX_IN_FLIGHT} requests are in progress; wait for an answer");
            return Err(ErrorData::internal_error(text, None));
        }
        let bytes: usize = queued.iter().map(|one| one.line.len()).sum();
        if !queued.is_empty() && bytes + request.line.len() > MAX_LINE_BYTES {
            let text = format!("{bytes} bytes of requests wait for the server; wait for an answer");
            return Err(ErrorData::internal_error(text, None));
        }
        Ok(())
    }

    fn send(&mut self, request: ProxyRequest) -> ProxyAction {
        let ProxyRequest { id, kind, line } = request;
        let pending = match kind {
            RequestKind::Initialize => PendingRequest::Initialize(line.clone()),
            RequestKind::Unsubscribe(uri) => {
                self.subscriptions.remove(&Subscription::Resource(uri));
                PendingRequest::Client(RequestKind::Other)
            }
            RequestKind::Subscribe(_) | RequestKind::Other => PendingRequest::Client(kind),
        };
        self.in_flight.insert(id, pending);
        ProxyAction::ToServer(line)
    }

    fn handle_server_line(&mut self, line: ServerLine) -> Vec<ProxyAction> {
        let (id, status, line) = match line {
            ServerLine::Response { id, status, line } => (id, status, line),
            ServerLine::Other(line) => return vec![ProxyAction::ToClient(line)],
            ServerLine::Closing => {
                if matches!(self.link, UpstreamLink::Up) {
                    self.link = UpstreamLink::Closing(Vec::new());
                }
                return Vec::new();
            }
        };
        match (self.in_flight.remove(&id), status) {
            (Some(PendingRequest::Initialize(line)), ResponseStatus::Result) => {
                self.handshake = Handshake::Answered(line);
            }
            (
                Some(PendingRequest::Client(RequestKind::Subscribe(subscription))),
                ResponseStatus::Result,
            ) => {
                self.subscriptions.insert(subscription);
            }
            (Some(PendingRequest::Replay(subscription)), status) => {
                // A resource that the new server does not know is no longer subscribed.
                if let (Some(subscription), ResponseStatus::Error) = (subscription, status) {
                    self.subscriptions.remove(&subscription);
                }
                return Vec::new();
            }
            (Some(PendingRequest::Initialize(_) | PendingRequest::Client(_)) | None, _) => {}
        }
        vec![ProxyAction::ToClient(line)]
    }

    /// Replays to the new connection what the old one knew, then sends the queued requests.
    fn handle_connected(&mut self) -> Vec<ProxyAction> {
        let queued = mem::replace(&mut self.link, UpstreamLink::Up).into_queued();
        let mut actions = self.replay();
        actions.extend(queued.into_iter().map(|request| self.send(request)));
        actions
    }

    fn replay(&mut self) -> Vec<ProxyAction> {
        match self.handshake.clone() {
            Handshake::None => Vec::new(),
            Handshake::Answered(line) => vec![self.replay_handshake(&line)],
            Handshake::Complete(line) => {
                let mut actions = vec![self.replay_handshake(&line)];
                let confirmed = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
                actions.push(ProxyAction::ToServer(confirmed.to_string().into_bytes()));
                let subscriptions: Vec<Subscription> = self.subscriptions.iter().cloned().collect();
                actions.extend(
                    subscriptions
                        .into_iter()
                        .map(|subscriptions| self.replay_subscription(subscriptions)),
                );
                actions
            }
        }
    }

    fn replay_handshake(&mut self, line: &[u8]) -> ProxyAction {
        let mut handshake: Value = serde_json::from_slice(line).unwrap_or_default();
        handshake["id"] = json!(self.next_own_id(None));
        ProxyAction::ToServer(handshake.to_string().into_bytes())
    }

    fn replay_subscription(&mut self, subscriptions: Subscription) -> ProxyAction {
        let id = self.next_own_id(Some(subscriptions.clone()));
        let request = match subscriptions {
            Subscription::List => json!({"jsonrpc": "2.0", "id": id, "method": "resources/list"}),
            Subscription::Resource(uri) => json!({
                "jsonrpc": "2.0", "id": id, "method": "resources/subscribe", "params": {"uri": uri},
            }),
        };
        ProxyAction::ToServer(request.to_string().into_bytes())
    }

    /// Returns an id of the proxy's own. A client's request with the same id is refused as a
    /// duplicate.
    fn next_own_id(&mut self, subscriptions: Option<Subscription>) -> RequestId {
        self.own_requests += 1;
        let id = RequestId::String(format!("shellyard-proxy:{}", self.own_requests).into());
        self.in_flight.insert(id.clone(), PendingRequest::Replay(subscriptions));
        id
    }

    /// Answers every call in flight, and nothing else. An `initialize` request can be repeated
    /// without loss, so it is queued again.
    fn handle_lost(&mut self) -> Vec<ProxyAction> {
        let later = mem::replace(&mut self.link, UpstreamLink::Up).into_queued();
        let mut queued = Vec::new();
        let mut actions = Vec::new();
        for (id, pending) in self.in_flight.drain() {
            match pending {
                PendingRequest::Initialize(line) => {
                    queued.push(ProxyRequest { id, kind: RequestKind::Initialize, line })
                }
                PendingRequest::Client(_) => {
                    actions.push(ProxyAction::ToClient(server_lost_error(&id)))
                }
                PendingRequest::Replay(_) => {}
            }
        }
        queued.extend(later);
        self.link = UpstreamLink::Waiting(queued);
        actions
    }

    fn refuse_queued(&mut self, why: &str) -> Vec<ProxyAction> {
        let queued = match &mut self.link {
            // Requests that are queued on a closing connection are kept until it is lost.
            UpstreamLink::Up | UpstreamLink::Closing(_) => return Vec::new(),
            UpstreamLink::Waiting(queued) => mem::take(queued),
        };
        let refuse = |request: ProxyRequest| {
            ProxyAction::ToClient(server_unreachable_error(&request.id, why))
        };
        queued.into_iter().map(refuse).collect()
    }
}

fn server_lost_error(id: &RequestId) -> Vec<u8> {
    error_line(Some(id), &lines::server_lost_error())
}

fn server_unreachable_error(id: &RequestId, why: &str) -> Vec<u8> {
    error_line(Some(id), &lines::connection_error(why.to_owned(), "server_unreachable"))
}

// The parts of a message that the proxy reads. The rest is forwarded unchanged.

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ClientLine {
    Request(ProxyRequest),
    /// The legacy handshake is complete.
    Initialized(Vec<u8>),
    /// The client has cancelled this request.
    Cancelled {
        id: RequestId,
        line: Vec<u8>,
    },
    /// Another notification, or a response.
    Other(Vec<u8>),
    /// Not a message; holds the line to answer with.
    Faulty(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ProxyRequest {
    pub(super) id: RequestId,
    pub(super) kind: RequestKind,
    pub(super) line: Vec<u8>,
}

/// The effect of a request on the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// The legacy `initialize` request.
    Initialize,
    /// A subscription to changes, which only legacy clients request.
    Subscribe(Subscription),
    /// The end of the subscription to this resource.
    Unsubscribe(String),
    /// No effect that outlives the response.
    Other,
}

/// A subscription of a legacy client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subscription {
    /// New jobs: a client that has read the list is notified of them.
    List,
    Resource(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ServerLine {
    Response {
        id: RequestId,
        status: ResponseStatus,
        line: Vec<u8>,
    },
    /// The server takes no further work and will end soon.
    Closing,
    Other(Vec<u8>),
}

/// The kind of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseStatus {
    Result,
    Error,
}

/// The few fields that matter. All others are skipped without being stored.
#[derive(Deserialize)]
struct MessageHead {
    id: Option<RequestId>,
    method: Option<String>,
    error: Option<IgnoredAny>,
}

impl ClientLine {
    /// Parses a line; `None` if it holds nothing.
    pub(super) fn from_line(read: InputLine) -> Option<Self> {
        let parsed = match &read {
            InputLine::Whole(line) => Self::from_json(trim_line(line)),
            InputLine::TooLong(_) => None,
        };
        parsed.or_else(|| match read.decode() {
            DecodedMessage::Faulty(error, id) => {
                Some(Self::Faulty(error_line(id.as_ref(), &error)))
            }
            DecodedMessage::Message(_) | DecodedMessage::Nothing => None,
        })
    }

    fn from_json(line: &[u8]) -> Option<Self> {
        let envelope: MessageHead = serde_json::from_slice(line).ok()?;
        let owned = || line.to_vec();
        Some(match (envelope.method, envelope.id) {
            (Some(method), Some(id)) => Self::Request(ProxyRequest {
                id,
                kind: RequestKind::from_line(&method, line),
                line: owned(),
            }),
            (Some(method), None) => match method.as_str() {
                "notifications/initialized" | "initialized" => Self::Initialized(owned()),
                "notifications/cancelled" => match cancelled_id(line) {
                    Some(id) => Self::Cancelled { id, line: owned() },
                    None => Self::Other(owned()),
                },
                _ => Self::Other(owned()),
            },
            (None, Some(_)) => Self::Other(owned()),
            (None, None) => return None,
        })
    }
}

impl RequestKind {
    fn from_line(method: &str, line: &[u8]) -> Self {
        let uri = || param(line, "uri").and_then(|uri| Some(uri.as_str()?.to_owned()));
        match method {
            "initialize" => Self::Initialize,
            "resources/list" => Self::Subscribe(Subscription::List),
            "resources/subscribe" => {
                uri().map_or(Self::Other, |uri| Self::Subscribe(Subscription::Resource(uri)))
            }
            "resources/unsubscribe" => uri().map_or(Self::Other, Self::Unsubscribe),
            _ => Self::Other,
        }
    }
}

impl ServerLine {
    /// Parses a line; `None` if no client would understand it.
    pub(super) fn from_line(read: InputLine) -> Option<Self> {
        match read {
            InputLine::Whole(line) => {
                let envelope: MessageHead = serde_json::from_slice(&line).ok()?;
                let status = if envelope.error.is_some() {
                    ResponseStatus::Error
                } else {
                    ResponseStatus::Result
                };
                Some(match (envelope.method.as_deref(), envelope.id) {
                    (None, Some(id)) => Self::Response { id, status, line },
                    (Some(CLOSING_METHOD), _) => Self::Closing,
                    (Some(_), _) | (None, None) => Self::Other(line),
                })
            }
            InputLine::TooLong(ends) => {
                let id = ends.id()?;
                let line = error_line(Some(&id), &ErrorData::internal_error(TOO_LARGE, None));
                Some(Self::Response { id, status: ResponseStatus::Error, line })
            }
        }
    }
}

const TOO_LARGE: &str = "the answer is too large to be passed on; ask for less of it";

/// Returns one of the params of a message.
fn param(line: &[u8], name: &str) -> Option<Value> {
    let mut message: Value = serde_json::from_slice(line).ok()?;
    Some(message.get_mut("params")?.get_mut(name)?.take())
}

fn cancelled_id(line: &[u8]) -> Option<RequestId> {
    serde_json::from_value(param(line, "requestId")?).ok()
}

/// Renders an error as a line.
pub(super) fn error_line(id: Option<&RequestId>, error: &ErrorData) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;

    fn request(id: i64, method: &str) -> ProxyRequest {
        let kind = match method {
            "initialize" => RequestKind::Initialize,
            "resources/list" => RequestKind::Subscribe(Subscription::List),
            "resources/subscribe" => RequestKind::Subscribe(Subscription::Resource("u".into())),
            "resources/unsubscribe" => RequestKind::Unsubscribe("u".into()),
            _ => RequestKind::Other,
        };
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"x": "y"}});
        ProxyRequest { id: RequestId::Number(id), kind, line: line.to_string().into_bytes() }
    }

    fn ask(id: i64, method: &str) -> Event {
        Event::Client(ClientLine::Request(request(id, method)))
    }

    fn answer(id: &RequestId, status: ResponseStatus) -> Event {
        Event::Server(ServerLine::Response { id: id.clone(), status, line: b"answer".to_vec() })
    }

    fn answered(id: i64) -> Event {
        answer(&RequestId::Number(id), ResponseStatus::Result)
    }

    fn initialized() -> Event {
        Event::Client(ClientLine::Initialized(b"initialized".to_vec()))
    }

    fn closing() -> Event {
        Event::Server(ServerLine::Closing)
    }

    fn give_up() -> Event {
        Event::GiveUp { why: "nobody is there".into() }
    }

    /// Returns a session after these events, and the actions of the last one.
    fn play(events: impl IntoIterator<Item = Event>) -> (ProxySession, Vec<ProxyAction>) {
        let mut session = ProxySession::new();
        let last = events.into_iter().fold(Vec::new(), |_, event| session.apply(event));
        (session, last)
    }

    /// The events of a legacy client that has finished its handshake.
    fn opened() -> Vec<Event> {
        vec![Event::Connected, ask(1, "initialize"), answered(1), initialized()]
    }

    fn render(actions: &[ProxyAction]) -> Vec<String> {
        let text = |line: &[u8]| match serde_json::from_slice::<Value>(line) {
            Ok(message) if message.get("error").is_some() => {
                format!("{} {}", message["id"], message["error"]["data"]["code"])
            }
            Ok(message) => format!("{} {}", message["id"], message["method"]),
            Err(_) => String::from_utf8_lossy(line).into_owned(),
        };
        let one = |action: &ProxyAction| match action {
            ProxyAction::ToServer(line) => format!("> {}", text(line)).replace('"', ""),
            ProxyAction::ToClient(line) => format!("< {}", text(line)).replace('"', ""),
        };
        actions.iter().map(one).collect()
    }

    #[track_caller]
    fn check(events: impl IntoIterator<Item = Event>, expected: &[&str]) {
        assert_eq!(render(&play(events).1), expected);
    }

    #[test]
    fn a_request_reaches_the_server_and_its_response_the_client() {
        check([Event::Connected, ask(1, "tools/call")], &["> 1 tools/call"]);
        check([Event::Connected, ask(1, "tools/call"), answered(1)], &["< answer"]);
    }

    #[test]
    fn requests_before_the_first_connection_are_queued() {
        check(
            [ask(1, "initialize"), ask(2, "ping"), Event::Connected],
            &["> 1 initialize", "> 2 ping"],
        );
    }

    #[test]
    fn a_lost_connection_answers_only_the_calls_in_flight() {
        let mut events = opened();
        events.extend([ask(2, "a"), ask(3, "b"), answered(2), Event::Lost]);
        check(events.clone(), &["< 3 server_lost"]);
        events.push(Event::Lost);
        check(events, &[]);
    }

    #[test]
    fn a_new_connection_gets_the_handshake_and_its_response_is_dropped() {
        let mut events = opened();
        events.extend([Event::Lost, ask(2, "a"), Event::Connected]);
        check(
            events.clone(),
            &["> shellyard-proxy:1 initialize", "> null notifications/initialized", "> 2 a"],
        );
        let own_requests = RequestId::String("shellyard-proxy:1".into());
        events.push(answer(&own_requests, ResponseStatus::Result));
        check(events.clone(), &[]);
        // The next connection gets it too.
        events.extend([answered(2), Event::Lost, Event::Connected]);
        check(events, &["> shellyard-proxy:2 initialize", "> null notifications/initialized"]);
    }

    #[test]
    fn the_replayed_handshake_differs_only_in_its_id() {
        let mut events = opened();
        events.extend([Event::Lost, Event::Connected]);
        let (_, actions) = play(events);
        let ProxyAction::ToServer(line) = &actions[0] else { panic!("{actions:?}") };
        let replayed: Value = serde_json::from_slice(line).unwrap();
        let mut original: Value = serde_json::from_slice(&request(1, "initialize").line).unwrap();
        original["id"] = json!("shellyard-proxy:1");
        assert_eq!(replayed, original);
    }

    #[test]
    fn a_modern_client_has_nothing_to_replay() {
        let events = [Event::Connected, ask(1, "a"), answered(1), Event::Lost, Event::Connected];
        check(events, &[]);
    }

    #[test]
    fn a_handshake_in_flight_is_sent_again_and_its_response_reaches_the_client() {
        let events = [Event::Connected, ask(1, "initialize"), Event::Lost];
        check(events.clone(), &[]);
        let mut events = events.to_vec();
        events.push(Event::Connected);
        check(events.clone(), &["> 1 initialize"]);
        events.push(answered(1));
        check(events, &["< answer"]);
    }

    #[test]
    fn an_unconfirmed_handshake_is_replayed_without_confirmation() {
        let events =
            [Event::Connected, ask(1, "initialize"), answered(1), Event::Lost, Event::Connected];
        check(events.clone(), &["> shellyard-proxy:1 initialize"]);
        let mut events = events.to_vec();
        events.push(initialized());
        check(events, &["> initialized"]);
    }

    #[test]
    fn a_failed_handshake_is_not_replayed() {
        let failed = answer(&RequestId::Number(1), ResponseStatus::Error);
        check([Event::Connected, ask(1, "initialize"), failed, Event::Lost, Event::Connected], &[]);
    }

    #[test]
    fn subscriptions_are_replayed() {
        let mut events = opened();
        events.extend([ask(2, "resources/list"), answered(2), ask(3, "resources/subscribe")]);
        events.extend([answered(3), Event::Lost, Event::Connected]);
        check(
            events.clone(),
            &[
                "> shellyard-proxy:1 initialize",
                "> null notifications/initialized",
                "> shellyard-proxy:2 resources/list",
                "> shellyard-proxy:3 resources/subscribe",
            ],
        );
        // A resource that the server does not know is not requested again.
        let unknown = RequestId::String("shellyard-proxy:3".into());
        events.extend([answer(&unknown, ResponseStatus::Error), Event::Lost, Event::Connected]);
        assert_eq!(render(&play(events).1).len(), 3);
    }

    #[test]
    fn ended_and_refused_subscriptions_are_not_replayed() {
        let mut dropped = opened();
        dropped.extend([ask(2, "resources/subscribe"), answered(2)]);
        dropped.extend([
            ask(3, "resources/unsubscribe"),
            answered(3),
            Event::Lost,
            Event::Connected,
        ]);
        assert_eq!(render(&play(dropped).1).len(), 2);
        let mut refused = opened();
        let no = answer(&RequestId::Number(2), ResponseStatus::Error);
        refused.extend([ask(2, "resources/subscribe"), no, Event::Lost, Event::Connected]);
        assert_eq!(render(&play(refused).1).len(), 2);
    }

    #[test]
    fn requests_to_a_closing_server_wait_for_the_next_one() {
        let mut events = vec![Event::Connected, ask(1, "a"), closing()];
        check(events.clone(), &[]);
        events.push(ask(2, "b"));
        check(events.clone(), &[]);
        events.push(give_up());
        check(events.clone(), &[]);
        events.push(answered(1));
        check(events.clone(), &["< answer"]);
        events.extend([ask(3, "c"), Event::Lost]);
        check(events.clone(), &[]);
        events.push(Event::Connected);
        check(events, &["> 2 b", "> 3 c"]);
        let in_flight = [Event::Connected, ask(1, "a"), closing(), ask(2, "b"), Event::Lost];
        check(in_flight, &["< 1 server_lost"]);
    }

    #[test]
    fn a_closing_server_still_gets_cancellations() {
        let cancel = |id| {
            let line = b"cancelled".to_vec();
            Event::Client(ClientLine::Cancelled { id: RequestId::Number(id), line })
        };
        let mut events = vec![Event::Connected, ask(1, "a"), closing(), ask(2, "b"), cancel(1)];
        check(events.clone(), &["> cancelled"]);
        events.extend([cancel(2), Event::Lost, Event::Connected]);
        check(events, &[]);
    }

    #[test]
    fn requests_that_waited_too_long_get_the_reason() {
        check(
            [ask(1, "a"), ask(2, "b"), give_up()],
            &["< 1 server_unreachable", "< 2 server_unreachable"],
        );
        let (mut session, actions) = play([ask(3, "c"), give_up()]);
        assert!(!session.has_queued());
        let ProxyAction::ToClient(line) = &actions[0] else { panic!("{actions:?}") };
        assert!(String::from_utf8_lossy(line).contains("nobody is there"));
        session.apply(Event::Connected);
        assert_eq!(render(&session.apply(ask(4, "d"))), ["> 4 d"]);
    }

    #[test]
    fn a_cancelled_request_gets_no_answer() {
        let cancel = |id| {
            let line = b"cancelled".to_vec();
            Event::Client(ClientLine::Cancelled { id: RequestId::Number(id), line })
        };
        check([Event::Connected, ask(1, "a"), cancel(1)], &["> cancelled"]);
        check([Event::Connected, ask(1, "a"), cancel(1), Event::Lost], &[]);
        check([ask(1, "a"), cancel(1)], &[]);
        check([ask(1, "a"), cancel(1), Event::Connected], &[]);
    }

    #[test]
    fn an_id_in_use_is_refused_and_its_first_request_continues() {
        for first in [vec![Event::Connected], vec![]] {
            let mut events = first.clone();
            events.extend([ask(1, "a"), ask(1, "b")]);
            let (session, actions) = play(events);
            assert_eq!(render(&actions), ["< 1 null"]);
            assert!(session.has_in_flight() || session.has_queued());
        }
    }

    #[test]
    fn requests_are_limited_with_and_without_a_server() {
        let most = i64::try_from(MAX_IN_FLIGHT).unwrap();
        for first in [vec![Event::Connected], vec![]] {
            let mut events = first;
            events.extend((0..most).map(|id| ask(id, "a")));
            let (mut session, _) = play(events);
            let refused = session.apply(ask(most, "a"));
            assert!(matches!(&refused[..], [ProxyAction::ToClient(_)]), "{refused:?}");
        }
    }

    #[test]
    fn the_bytes_of_queued_requests_are_limited() {
        let large = |id| {
            let line = vec![b'x'; MAX_LINE_BYTES / 2 + 1];
            Event::Client(ClientLine::Request(ProxyRequest { line, ..request(id, "a") }))
        };
        check([large(1)], &[]);
        check([large(1), large(2)], &["< 2 null"]);
    }

    fn any_event() -> impl Strategy<Value = Event> {
        let method = prop::sample::select(vec![
            "initialize",
            "tools/call",
            "resources/list",
            "resources/subscribe",
            "resources/unsubscribe",
        ]);
        let status = prop::sample::select(vec![ResponseStatus::Result, ResponseStatus::Error]);
        prop_oneof![
            4 => (0..6_i64, method).prop_map(|(id, method)| ask(id, method)),
            4 => (0..6_i64, status.clone())
                .prop_map(|(id, status)| answer(&RequestId::Number(id), status)),
            2 => (1..6_u64, status).prop_map(|(n, status)| {
                answer(&RequestId::String(format!("shellyard-proxy:{n}").into()), status)
            }),
            1 => Just(initialized()),
            2 => Just(Event::Connected),
            1 => Just(closing()),
            2 => Just(Event::Lost),
            1 => Just(give_up()),
        ]
    }

    proptest! {
        /// Each accepted request is answered exactly once, sooner or later, and
        /// no other response reaches the client.
        #[test]
        fn every_request_is_answered_exactly_once(events in prop::collection::vec(any_event(), 0..60)) {
            let mut session = ProxySession::new();
            let mut owed = 0_i64;
            for event in events {
                // A real server answers only with a connection, and only what is in flight.
                let is_possible = match &event {
                    Event::Server(ServerLine::Response { id, .. }) => session.in_flight.contains_key(id),
                    Event::Client(_) | Event::Server(_) | Event::Connected | Event::Lost
                    | Event::GiveUp { .. } => true,
                };
                if !is_possible {
                    continue;
                }
                let is_request = matches!(event, Event::Client(ClientLine::Request(_)));
                let actions = session.apply(event);
                let replies = actions.iter().filter(|action| matches!(action, ProxyAction::ToClient(_))).count();
                owed += i64::from(is_request) - i64::try_from(replies).unwrap();
                prop_assert!(owed >= 0);
            }
            session.apply(Event::Connected);
            let lost = session.apply(Event::Lost).len();
            let left = session.apply(give_up()).len();
            prop_assert_eq!(owed, i64::try_from(lost + left).unwrap());
        }
    }
}

#[cfg(test)]
mod message_tests {
    use super::*;

    fn client_line(line: &str) -> Option<ClientLine> {
        ClientLine::from_line(InputLine::Whole(line.as_bytes().to_vec()))
    }

    fn kind(line: &str) -> RequestKind {
        match client_line(line) {
            Some(ClientLine::Request(request)) => request.kind,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn requests_are_classified_by_their_lasting_effect() {
        let uri = || "shellyard://jobs/1/output".to_owned();
        for (line, expected) in [
            (r#"{"id":1,"method":"initialize","params":{}}"#, RequestKind::Initialize),
            (r#"{"id":"a","method":"tools/call","params":{"uri":"x"}}"#, RequestKind::Other),
            (r#"{"id":1,"method":"resources/list"}"#, RequestKind::Subscribe(Subscription::List)),
            (
                r#"{"method":"resources/subscribe","params":{"uri":"shellyard://jobs/1/output"},"id":1}"#,
                RequestKind::Subscribe(Subscription::Resource(uri())),
            ),
            (
                r#"{"id":1,"method":"resources/unsubscribe","params":{"uri":"shellyard://jobs/1/output"}}"#,
                RequestKind::Unsubscribe(uri()),
            ),
            (r#"{"id":1,"method":"resources/subscribe","params":[]}"#, RequestKind::Other),
        ] {
            assert_eq!(kind(line), expected, "{line}");
        }
    }

    #[test]
    fn lines_that_are_not_messages_are_answered_as_on_stdio() {
        for (line, code) in [("{bad", -32700), ("[]", -32600), (r#"{"id":{}}"#, -32600)] {
            let Some(ClientLine::Faulty(answer)) = client_line(line) else { panic!("{line}") };
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer["error"]["code"], code, "{line}");
            assert_eq!(answer.get("id"), Some(&Value::Null));
        }
        for line in ["", "  ", "# comment"] {
            assert_eq!(client_line(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_message_is_forwarded_without_surrounding_white_space() {
        let line = r#"{"method":"x"}"#;
        let carried = Some(ClientLine::Other(line.as_bytes().to_vec()));
        assert_eq!(client_line(&format!("\u{feff} {line}\r")), carried);
    }

    #[test]
    fn the_closing_notification_does_not_reach_the_client() {
        let line = |method: &str| InputLine::Whole(json!({"method": method}).to_string().into());
        assert_eq!(ServerLine::from_line(line(CLOSING_METHOD)), Some(ServerLine::Closing));
        let other = ServerLine::from_line(line("notifications/message"));
        assert!(matches!(other, Some(ServerLine::Other(_))), "{other:?}");
    }

    #[test]
    fn a_cancellation_names_its_request() {
        let line = r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#;
        let Some(ClientLine::Cancelled { id, .. }) = client_line(line) else { panic!() };
        assert_eq!(id, RequestId::Number(7));
        let nothing = r#"{"method":"notifications/cancelled"}"#;
        assert!(matches!(client_line(nothing), Some(ClientLine::Other(_))));
    }
}
