//! What a proxy owes its client, and what a new connection must be told: pure, without a clock.
//!
//! ```text
//! Waiting ── Connected ──▶ Up ── Lost ──▶ Waiting     requests wait, within bounds
//! Up ── Closing ──▶ Closing ── Lost ──▶ Waiting       those in flight are answered, new ones wait
//! Waiting ── HoldOver ──▶ Waiting                     who waited is refused, with the reason
//! ```

use std::collections::{BTreeSet, HashMap};
use std::mem;

use rmcp::model::{ErrorCode, ErrorData, RequestId};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::lines::{CLOSING, Decoded, LineRead, MAX_IN_FLIGHT, MAX_LINE_BYTES, content};

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// The client said something.
    Client(ClientLine),
    /// The server said something.
    Server(ServerLine),
    /// There is a new connection, on which nothing was said yet.
    Connected,
    /// The connection is no more.
    Lost,
    /// Whoever waits for a server has waited long enough.
    HoldOver {
        /// Why there is none.
        why: String,
    },
}

/// What is to be done about it: lines to be sent, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    ToServer(Vec<u8>),
    ToClient(Vec<u8>),
}

/// One client's state of affairs.
#[derive(Debug)]
pub(super) struct Session {
    link: Link,
    opening: Opening,
    in_flight: HashMap<RequestId, InFlight>,
    followed: BTreeSet<Followed>,
    /// Requests of our own so far.
    own: u64,
}

#[derive(Debug)]
enum Link {
    Up,
    /// The server ends: what is in flight is answered, and what comes waits for the next one.
    Closing(Vec<Request>),
    /// Requests wait for a connection, in order.
    Waiting(Vec<Request>),
}

impl Link {
    fn held(&self) -> &[Request] {
        match self {
            Self::Closing(held) | Self::Waiting(held) => held,
            Self::Up => &[],
        }
    }

    fn into_held(self) -> Vec<Request> {
        match self {
            Self::Closing(held) | Self::Waiting(held) => held,
            Self::Up => Vec::new(),
        }
    }
}

/// How far a legacy client got with its opening; a modern one has none.
#[derive(Debug, Clone)]
enum Opening {
    None,
    /// The line that was answered.
    Answered(Vec<u8>),
    /// The same; and the client has confirmed.
    Complete(Vec<u8>),
}

#[derive(Debug)]
enum InFlight {
    /// The line of a legacy opening, which can be asked again.
    Opening(Vec<u8>),
    Client(Wish),
    /// Ours: its answer is for nobody else.
    Replay(Option<Followed>),
}

impl Session {
    /// A session whose client said nothing yet, and that waits for its first connection.
    pub(super) fn new() -> Self {
        Self {
            link: Link::Waiting(Vec::new()),
            opening: Opening::None,
            in_flight: HashMap::new(),
            followed: BTreeSet::new(),
            own: 0,
        }
    }

    /// Whether a client's request waits for a connection.
    pub(super) fn has_waiting(&self) -> bool {
        !self.link.held().is_empty()
    }

    /// Whether an answer is still to come over the connection.
    pub(super) fn has_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Takes note of what happened, and says what follows from it.
    pub(super) fn apply(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Client(line) => self.heard_client(line),
            Event::Server(line) => self.heard_server(line),
            Event::Connected => self.connected(),
            Event::Lost => self.lost(),
            Event::HoldOver { why } => self.hold_over(&why),
        }
    }

    fn heard_client(&mut self, line: ClientLine) -> Vec<Action> {
        match line {
            ClientLine::Request(request) => self.asked(request),
            ClientLine::Initialized(line) => {
                if let Opening::Answered(opening) = &mut self.opening {
                    self.opening = Opening::Complete(mem::take(opening));
                }
                self.pass_on(line)
            }
            ClientLine::Cancelled { id, line } => {
                if let Link::Waiting(held) | Link::Closing(held) = &mut self.link {
                    held.retain(|request| request.id != id);
                }
                // A cancelled request gets no answer, also none from us.
                self.in_flight.remove(&id);
                self.pass_on(line)
            }
            ClientLine::Other(line) => self.pass_on(line),
            ClientLine::Faulty(answer) => vec![Action::ToClient(answer)],
        }
    }

    /// What wants no answer is for the server that is there, and for none that comes later: that
    /// one is told what matters of it by the replay.
    fn pass_on(&self, line: Vec<u8>) -> Vec<Action> {
        match self.link {
            Link::Up | Link::Closing(_) => vec![Action::ToServer(line)],
            Link::Waiting(_) => Vec::new(),
        }
    }

    fn asked(&mut self, request: Request) -> Vec<Action> {
        if let Err(error) = self.admit(&request) {
            return vec![Action::ToClient(refusal(Some(&request.id), &error))];
        }
        match &mut self.link {
            Link::Up => vec![self.send(request)],
            Link::Closing(held) | Link::Waiting(held) => {
                held.push(request);
                Vec::new()
            }
        }
    }

    /// The bounds of stdio, and one for what waits: its lines are held in memory.
    fn admit(&self, request: &Request) -> Result<(), ErrorData> {
        let held = self.link.held();
        if self.in_flight.contains_key(&request.id) || held.iter().any(|one| one.id == request.id) {
            let text = "a request with this id is still in work; use another id";
            return Err(ErrorData::invalid_request(text, None));
        }
        if self.in_flight.len() + held.len() >= MAX_IN_FLIGHT {
            let text = format!("{MAX_IN_FLIGHT} requests are in work; wait for an answer");
            return Err(ErrorData::internal_error(text, None));
        }
        let bytes: usize = held.iter().map(|one| one.line.len()).sum();
        if !held.is_empty() && bytes + request.line.len() > MAX_LINE_BYTES {
            let text = format!("{bytes} bytes of requests wait for the server; wait for an answer");
            return Err(ErrorData::internal_error(text, None));
        }
        Ok(())
    }

    fn send(&mut self, request: Request) -> Action {
        let Request { id, wish, line } = request;
        let noted = match wish {
            Wish::Open => InFlight::Opening(line.clone()),
            Wish::Unfollow(uri) => {
                self.followed.remove(&Followed::Resource(uri));
                InFlight::Client(Wish::Answer)
            }
            Wish::Follow(_) | Wish::Answer => InFlight::Client(wish),
        };
        self.in_flight.insert(id, noted);
        Action::ToServer(line)
    }

    fn heard_server(&mut self, line: ServerLine) -> Vec<Action> {
        let (id, verdict, line) = match line {
            ServerLine::Answer { id, verdict, line } => (id, verdict, line),
            ServerLine::Other(line) => return vec![Action::ToClient(line)],
            ServerLine::Closing => {
                if matches!(self.link, Link::Up) {
                    self.link = Link::Closing(Vec::new());
                }
                return Vec::new();
            }
        };
        match (self.in_flight.remove(&id), verdict) {
            (Some(InFlight::Opening(line)), Verdict::Result) => {
                self.opening = Opening::Answered(line);
            }
            (Some(InFlight::Client(Wish::Follow(followed))), Verdict::Result) => {
                self.followed.insert(followed);
            }
            (Some(InFlight::Replay(followed)), verdict) => {
                // A resource that the new server does not know is followed no more.
                if let (Some(followed), Verdict::Error) = (followed, verdict) {
                    self.followed.remove(&followed);
                }
                return Vec::new();
            }
            (Some(InFlight::Opening(_) | InFlight::Client(_)) | None, _) => {}
        }
        vec![Action::ToClient(line)]
    }

    /// The new connection hears what the old one knew, then what waits.
    fn connected(&mut self) -> Vec<Action> {
        let held = mem::replace(&mut self.link, Link::Up).into_held();
        let mut actions = self.replay();
        actions.extend(held.into_iter().map(|request| self.send(request)));
        actions
    }

    fn replay(&mut self) -> Vec<Action> {
        match self.opening.clone() {
            Opening::None => Vec::new(),
            Opening::Answered(line) => vec![self.replay_opening(&line)],
            Opening::Complete(line) => {
                let mut actions = vec![self.replay_opening(&line)];
                let confirmed = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
                actions.push(Action::ToServer(confirmed.to_string().into_bytes()));
                let followed: Vec<Followed> = self.followed.iter().cloned().collect();
                actions.extend(followed.into_iter().map(|followed| self.replay_follow(followed)));
                actions
            }
        }
    }

    fn replay_opening(&mut self, line: &[u8]) -> Action {
        let mut opening: Value = serde_json::from_slice(line).unwrap_or_default();
        opening["id"] = json!(self.own_request(None));
        Action::ToServer(opening.to_string().into_bytes())
    }

    fn replay_follow(&mut self, followed: Followed) -> Action {
        let id = self.own_request(Some(followed.clone()));
        let request = match followed {
            Followed::List => json!({"jsonrpc": "2.0", "id": id, "method": "resources/list"}),
            Followed::Resource(uri) => json!({
                "jsonrpc": "2.0", "id": id, "method": "resources/subscribe", "params": {"uri": uri},
            }),
        };
        Action::ToServer(request.to_string().into_bytes())
    }

    /// An id that the client does not use; should it do so, it is refused as one in work.
    fn own_request(&mut self, followed: Option<Followed>) -> RequestId {
        self.own += 1;
        let id = RequestId::String(format!("shellyard-proxy:{}", self.own).into());
        self.in_flight.insert(id.clone(), InFlight::Replay(followed));
        id
    }

    /// Every call in flight is answered, and nothing else. An opening loses nothing by being asked
    /// again, so it waits.
    fn lost(&mut self) -> Vec<Action> {
        let later = mem::replace(&mut self.link, Link::Up).into_held();
        let mut held = Vec::new();
        let mut actions = Vec::new();
        for (id, noted) in self.in_flight.drain() {
            match noted {
                InFlight::Opening(line) => held.push(Request { id, wish: Wish::Open, line }),
                InFlight::Client(_) => actions.push(Action::ToClient(lost_call(&id))),
                InFlight::Replay(_) => {}
            }
        }
        held.extend(later);
        self.link = Link::Waiting(held);
        actions
    }

    fn hold_over(&mut self, why: &str) -> Vec<Action> {
        let held = match &mut self.link {
            // What is held then waits for the loss first.
            Link::Up | Link::Closing(_) => return Vec::new(),
            Link::Waiting(held) => mem::take(held),
        };
        let refuse = |request: Request| Action::ToClient(unreachable(&request.id, why));
        held.into_iter().map(refuse).collect()
    }
}

/// The code that SDKs of MCP have for a connection that was closed.
const CONNECTION_CLOSED: ErrorCode = ErrorCode(-32000);

fn lost_call(id: &RequestId) -> Vec<u8> {
    let text = "the server was lost while this call was in flight, and a job that it had started \
                ended with the server; check what it has done before running it again";
    refusal(Some(id), &failure(text.to_owned(), "server_lost"))
}

fn unreachable(id: &RequestId, why: &str) -> Vec<u8> {
    refusal(Some(id), &failure(why.to_owned(), "server_unreachable"))
}

fn failure(text: String, word: &str) -> ErrorData {
    ErrorData::new(CONNECTION_CLOSED, text, Some(json!({"code": word})))
}

// The parts of a message that the proxy reads. The rest is passed on unchanged.

/// A line of the client.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ClientLine {
    /// It wants an answer.
    Request(Request),
    /// The legacy opening is complete.
    Initialized(Vec<u8>),
    /// The answer to this request is not wanted any more.
    Cancelled { id: RequestId, line: Vec<u8> },
    /// Another notification, or an answer.
    Other(Vec<u8>),
    /// No message: what is to be answered.
    Faulty(Vec<u8>),
}

/// A request of the client.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) id: RequestId,
    pub(super) wish: Wish,
    pub(super) line: Vec<u8>,
}

/// What a request means for the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// The legacy opening.
    Open,
    /// To hear of changes, as only legacy clients ask for it.
    Follow(Followed),
    /// To hear of no more changes of this resource.
    Unfollow(String),
    /// Nothing that outlives its answer.
    Answer,
}

/// What a legacy client hears of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Followed {
    /// Jobs that appear: whoever looked at the list hears of them.
    List,
    /// One resource.
    Resource(String),
}

/// A line of the server.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ServerLine {
    /// The answer to a request.
    Answer { id: RequestId, verdict: Verdict, line: Vec<u8> },
    /// It takes no further work, and will be gone soon.
    Closing,
    /// A notification.
    Other(Vec<u8>),
}

/// How a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Result,
    Error,
}

/// The few fields that matter. All else is skipped over without being kept.
#[derive(Deserialize)]
struct Envelope {
    id: Option<RequestId>,
    method: Option<String>,
    error: Option<IgnoredAny>,
}

impl ClientLine {
    /// What a line says; `None` where it says nothing.
    pub(super) fn of(read: LineRead) -> Option<Self> {
        let said = match &read {
            LineRead::Whole(line) => Self::of_content(content(line)),
            LineRead::TooLong(_) => None,
        };
        said.or_else(|| match read.decode() {
            Decoded::Faulty(error, id) => Some(Self::Faulty(refusal(id.as_ref(), &error))),
            Decoded::Message(_) | Decoded::Nothing => None,
        })
    }

    fn of_content(line: &[u8]) -> Option<Self> {
        let envelope: Envelope = serde_json::from_slice(line).ok()?;
        let owned = || line.to_vec();
        Some(match (envelope.method, envelope.id) {
            (Some(method), Some(id)) => {
                Self::Request(Request { id, wish: Wish::of(&method, line), line: owned() })
            }
            (Some(method), None) => match method.as_str() {
                "notifications/initialized" | "initialized" => Self::Initialized(owned()),
                "notifications/cancelled" => match cancelled(line) {
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

impl Wish {
    fn of(method: &str, line: &[u8]) -> Self {
        let uri = || field(line, "uri").and_then(|uri| Some(uri.as_str()?.to_owned()));
        match method {
            "initialize" => Self::Open,
            "resources/list" => Self::Follow(Followed::List),
            "resources/subscribe" => {
                uri().map_or(Self::Answer, |uri| Self::Follow(Followed::Resource(uri)))
            }
            "resources/unsubscribe" => uri().map_or(Self::Answer, Self::Unfollow),
            _ => Self::Answer,
        }
    }
}

impl ServerLine {
    /// What a line says; `None` where it says nothing that a client would understand.
    pub(super) fn of(read: LineRead) -> Option<Self> {
        match read {
            LineRead::Whole(line) => {
                let envelope: Envelope = serde_json::from_slice(&line).ok()?;
                let verdict =
                    if envelope.error.is_some() { Verdict::Error } else { Verdict::Result };
                Some(match (envelope.method.as_deref(), envelope.id) {
                    (None, Some(id)) => Self::Answer { id, verdict, line },
                    (Some(CLOSING), _) => Self::Closing,
                    (Some(_), _) | (None, None) => Self::Other(line),
                })
            }
            LineRead::TooLong(ends) => {
                let id = ends.id()?;
                let line = refusal(Some(&id), &ErrorData::internal_error(TOO_LARGE, None));
                Some(Self::Answer { id, verdict: Verdict::Error, line })
            }
        }
    }
}

const TOO_LARGE: &str = "the answer is too large to be passed on; ask for less of it";

/// One of the params of a message.
fn field(line: &[u8], name: &str) -> Option<Value> {
    let mut message: Value = serde_json::from_slice(line).ok()?;
    Some(message.get_mut("params")?.get_mut(name)?.take())
}

fn cancelled(line: &[u8]) -> Option<RequestId> {
    serde_json::from_value(field(line, "requestId")?).ok()
}

/// An error as a line.
pub(super) fn refusal(id: Option<&RequestId>, error: &ErrorData) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    //! The rules of a session, event by event.

    use proptest::prelude::*;

    use super::*;

    fn request(id: i64, method: &str) -> Request {
        let wish = match method {
            "initialize" => Wish::Open,
            "resources/list" => Wish::Follow(Followed::List),
            "resources/subscribe" => Wish::Follow(Followed::Resource("u".into())),
            "resources/unsubscribe" => Wish::Unfollow("u".into()),
            _ => Wish::Answer,
        };
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"x": "y"}});
        Request { id: RequestId::Number(id), wish, line: line.to_string().into_bytes() }
    }

    fn ask(id: i64, method: &str) -> Event {
        Event::Client(ClientLine::Request(request(id, method)))
    }

    fn answer(id: &RequestId, verdict: Verdict) -> Event {
        Event::Server(ServerLine::Answer { id: id.clone(), verdict, line: b"answer".to_vec() })
    }

    fn answered(id: i64) -> Event {
        answer(&RequestId::Number(id), Verdict::Result)
    }

    fn initialized() -> Event {
        Event::Client(ClientLine::Initialized(b"initialized".to_vec()))
    }

    fn closing() -> Event {
        Event::Server(ServerLine::Closing)
    }

    fn over() -> Event {
        Event::HoldOver { why: "nobody is there".into() }
    }

    /// A session after these events, and what the last of them led to.
    fn play(events: impl IntoIterator<Item = Event>) -> (Session, Vec<Action>) {
        let mut session = Session::new();
        let last = events.into_iter().fold(Vec::new(), |_, event| session.apply(event));
        (session, last)
    }

    /// A legacy client that is in the middle of its work.
    fn opened() -> Vec<Event> {
        vec![Event::Connected, ask(1, "initialize"), answered(1), initialized()]
    }

    fn shown(actions: &[Action]) -> Vec<String> {
        let text = |line: &[u8]| match serde_json::from_slice::<Value>(line) {
            Ok(message) if message.get("error").is_some() => {
                format!("{} {}", message["id"], message["error"]["data"]["code"])
            }
            Ok(message) => format!("{} {}", message["id"], message["method"]),
            Err(_) => String::from_utf8_lossy(line).into_owned(),
        };
        let one = |action: &Action| match action {
            Action::ToServer(line) => format!("> {}", text(line)).replace('"', ""),
            Action::ToClient(line) => format!("< {}", text(line)).replace('"', ""),
        };
        actions.iter().map(one).collect()
    }

    #[track_caller]
    fn check(events: impl IntoIterator<Item = Event>, expected: &[&str]) {
        assert_eq!(shown(&play(events).1), expected);
    }

    #[test]
    fn a_request_goes_through_and_its_answer_comes_back() {
        check([Event::Connected, ask(1, "tools/call")], &["> 1 tools/call"]);
        check([Event::Connected, ask(1, "tools/call"), answered(1)], &["< answer"]);
    }

    #[test]
    fn what_is_asked_before_the_first_connection_waits_for_it() {
        check(
            [ask(1, "initialize"), ask(2, "ping"), Event::Connected],
            &["> 1 initialize", "> 2 ping"],
        );
    }

    #[test]
    fn a_loss_answers_the_calls_in_flight_and_only_those() {
        let mut events = opened();
        events.extend([ask(2, "a"), ask(3, "b"), answered(2), Event::Lost]);
        check(events.clone(), &["< 3 server_lost"]);
        events.push(Event::Lost);
        check(events, &[]);
    }

    #[test]
    fn a_new_connection_hears_the_opening_and_its_answer_is_swallowed() {
        let mut events = opened();
        events.extend([Event::Lost, ask(2, "a"), Event::Connected]);
        check(
            events.clone(),
            &["> shellyard-proxy:1 initialize", "> null notifications/initialized", "> 2 a"],
        );
        let own = RequestId::String("shellyard-proxy:1".into());
        events.push(answer(&own, Verdict::Result));
        check(events.clone(), &[]);
        // Also the next one.
        events.extend([answered(2), Event::Lost, Event::Connected]);
        check(events, &["> shellyard-proxy:2 initialize", "> null notifications/initialized"]);
    }

    #[test]
    fn the_replayed_opening_is_the_clients_own_but_for_the_id() {
        let mut events = opened();
        events.extend([Event::Lost, Event::Connected]);
        let (_, actions) = play(events);
        let Action::ToServer(line) = &actions[0] else { panic!("{actions:?}") };
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
    fn an_opening_that_was_in_flight_is_asked_again_and_its_answer_is_the_clients() {
        let events = [Event::Connected, ask(1, "initialize"), Event::Lost];
        check(events.clone(), &[]);
        let mut events = events.to_vec();
        events.push(Event::Connected);
        check(events.clone(), &["> 1 initialize"]);
        events.push(answered(1));
        check(events, &["< answer"]);
    }

    #[test]
    fn an_opening_without_its_confirmation_is_replayed_without_it() {
        let events =
            [Event::Connected, ask(1, "initialize"), answered(1), Event::Lost, Event::Connected];
        check(events.clone(), &["> shellyard-proxy:1 initialize"]);
        let mut events = events.to_vec();
        events.push(initialized());
        check(events, &["> initialized"]);
    }

    #[test]
    fn an_opening_that_failed_is_not_replayed() {
        let failed = answer(&RequestId::Number(1), Verdict::Error);
        check([Event::Connected, ask(1, "initialize"), failed, Event::Lost, Event::Connected], &[]);
    }

    #[test]
    fn what_was_followed_is_followed_again() {
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
        // A server that does not know it is not asked again.
        let unknown = RequestId::String("shellyard-proxy:3".into());
        events.extend([answer(&unknown, Verdict::Error), Event::Lost, Event::Connected]);
        assert_eq!(shown(&play(events).1).len(), 3);
    }

    #[test]
    fn what_is_followed_no_more_or_never_was_is_not_replayed() {
        let mut dropped = opened();
        dropped.extend([ask(2, "resources/subscribe"), answered(2)]);
        dropped.extend([
            ask(3, "resources/unsubscribe"),
            answered(3),
            Event::Lost,
            Event::Connected,
        ]);
        assert_eq!(shown(&play(dropped).1).len(), 2);
        let mut refused = opened();
        let no = answer(&RequestId::Number(2), Verdict::Error);
        refused.extend([ask(2, "resources/subscribe"), no, Event::Lost, Event::Connected]);
        assert_eq!(shown(&play(refused).1).len(), 2);
    }

    #[test]
    fn what_is_asked_of_a_server_that_ends_waits_for_the_next_one() {
        let mut events = vec![Event::Connected, ask(1, "a"), closing()];
        check(events.clone(), &[]);
        events.push(ask(2, "b"));
        check(events.clone(), &[]);
        events.push(over());
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
    fn a_server_that_ends_still_hears_who_cancels() {
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
    fn who_has_waited_long_enough_hears_why() {
        check(
            [ask(1, "a"), ask(2, "b"), over()],
            &["< 1 server_unreachable", "< 2 server_unreachable"],
        );
        let (mut session, actions) = play([ask(3, "c"), over()]);
        assert!(!session.has_waiting());
        let Action::ToClient(line) = &actions[0] else { panic!("{actions:?}") };
        assert!(String::from_utf8_lossy(line).contains("nobody is there"));
        session.apply(Event::Connected);
        assert_eq!(shown(&session.apply(ask(4, "d"))), ["> 4 d"]);
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
    fn an_id_in_use_is_refused_and_its_first_request_goes_on() {
        for first in [vec![Event::Connected], vec![]] {
            let mut events = first.clone();
            events.extend([ask(1, "a"), ask(1, "b")]);
            let (session, actions) = play(events);
            assert_eq!(shown(&actions), ["< 1 null"]);
            assert!(session.has_in_flight() || session.has_waiting());
        }
    }

    #[test]
    fn requests_are_bounded_with_and_without_a_server() {
        let most = i64::try_from(MAX_IN_FLIGHT).unwrap();
        for first in [vec![Event::Connected], vec![]] {
            let mut events = first;
            events.extend((0..most).map(|id| ask(id, "a")));
            let (mut session, _) = play(events);
            let refused = session.apply(ask(most, "a"));
            assert!(matches!(&refused[..], [Action::ToClient(_)]), "{refused:?}");
        }
    }

    #[test]
    fn the_bytes_that_wait_are_bounded() {
        let large = |id| {
            let line = vec![b'x'; MAX_LINE_BYTES / 2 + 1];
            Event::Client(ClientLine::Request(Request { line, ..request(id, "a") }))
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
        let verdict = prop::sample::select(vec![Verdict::Result, Verdict::Error]);
        prop_oneof![
            4 => (0..6_i64, method).prop_map(|(id, method)| ask(id, method)),
            4 => (0..6_i64, verdict.clone())
                .prop_map(|(id, verdict)| answer(&RequestId::Number(id), verdict)),
            2 => (1..6_u64, verdict).prop_map(|(n, verdict)| {
                answer(&RequestId::String(format!("shellyard-proxy:{n}").into()), verdict)
            }),
            1 => Just(initialized()),
            2 => Just(Event::Connected),
            1 => Just(closing()),
            2 => Just(Event::Lost),
            1 => Just(over()),
        ]
    }

    proptest! {
        /// Whatever happens, each request that was taken is answered exactly once, sooner or later,
        /// and nobody else's answer reaches the client.
        #[test]
        fn every_request_is_answered_exactly_once(events in prop::collection::vec(any_event(), 0..60)) {
            let mut session = Session::new();
            let mut owed = 0_i64;
            for event in events {
                // A real server answers nobody without a connection, and only what is in flight.
                let is_said = match &event {
                    Event::Server(ServerLine::Answer { id, .. }) => session.in_flight.contains_key(id),
                    Event::Client(_) | Event::Server(_) | Event::Connected | Event::Lost
                    | Event::HoldOver { .. } => true,
                };
                if !is_said {
                    continue;
                }
                let is_request = matches!(event, Event::Client(ClientLine::Request(_)));
                let actions = session.apply(event);
                let told = actions.iter().filter(|action| matches!(action, Action::ToClient(_))).count();
                owed += i64::from(is_request) - i64::try_from(told).unwrap();
                prop_assert!(owed >= 0);
            }
            session.apply(Event::Connected);
            let lost = session.apply(Event::Lost).len();
            let left = session.apply(over()).len();
            prop_assert_eq!(owed, i64::try_from(lost + left).unwrap());
        }
    }
}

#[cfg(test)]
mod message_tests {
    use super::*;

    fn said(line: &str) -> Option<ClientLine> {
        ClientLine::of(LineRead::Whole(line.as_bytes().to_vec()))
    }

    fn wish(line: &str) -> Wish {
        match said(line) {
            Some(ClientLine::Request(request)) => request.wish,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn requests_are_told_apart_by_what_outlives_them() {
        let uri = || "shellyard://jobs/1/output".to_owned();
        for (line, expected) in [
            (r#"{"id":1,"method":"initialize","params":{}}"#, Wish::Open),
            (r#"{"id":"a","method":"tools/call","params":{"uri":"x"}}"#, Wish::Answer),
            (r#"{"id":1,"method":"resources/list"}"#, Wish::Follow(Followed::List)),
            (
                r#"{"method":"resources/subscribe","params":{"uri":"shellyard://jobs/1/output"},"id":1}"#,
                Wish::Follow(Followed::Resource(uri())),
            ),
            (
                r#"{"id":1,"method":"resources/unsubscribe","params":{"uri":"shellyard://jobs/1/output"}}"#,
                Wish::Unfollow(uri()),
            ),
            (r#"{"id":1,"method":"resources/subscribe","params":[]}"#, Wish::Answer),
        ] {
            assert_eq!(wish(line), expected, "{line}");
        }
    }

    #[test]
    fn what_is_no_message_is_answered_as_on_stdio() {
        for (line, code) in [("{bad", -32700), ("[]", -32600), (r#"{"id":{}}"#, -32600)] {
            let Some(ClientLine::Faulty(answer)) = said(line) else { panic!("{line}") };
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer["error"]["code"], code, "{line}");
            assert_eq!(answer.get("id"), Some(&Value::Null));
        }
        for line in ["", "  ", "# comment"] {
            assert_eq!(said(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_message_is_carried_without_what_stands_around_it() {
        let line = r#"{"method":"x"}"#;
        let carried = Some(ClientLine::Other(line.as_bytes().to_vec()));
        assert_eq!(said(&format!("\u{feff} {line}\r")), carried);
    }

    #[test]
    fn the_news_of_the_end_is_for_the_proxy_alone() {
        let line = |method: &str| LineRead::Whole(json!({"method": method}).to_string().into());
        assert_eq!(ServerLine::of(line(CLOSING)), Some(ServerLine::Closing));
        let other = ServerLine::of(line("notifications/message"));
        assert!(matches!(other, Some(ServerLine::Other(_))), "{other:?}");
    }

    #[test]
    fn a_cancellation_names_its_request() {
        let line = r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#;
        let Some(ClientLine::Cancelled { id, .. }) = said(line) else { panic!() };
        assert_eq!(id, RequestId::Number(7));
        let nothing = r#"{"method":"notifications/cancelled"}"#;
        assert!(matches!(said(nothing), Some(ClientLine::Other(_))));
    }
}
