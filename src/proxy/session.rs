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
use serde_json::{Value, json};

use super::message::{ClientLine, Followed, Request, ServerLine, Verdict, Wish, refusal};
use crate::lines::{MAX_IN_FLIGHT, MAX_LINE_BYTES};

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

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
