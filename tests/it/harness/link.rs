//! The two transports of JSON-RPC messages.

use serde_json::Value;

use super::http::{HttpAnswer, HttpConnection, HttpRequest};
use super::stdio::StdioLink;
use super::wire::Era;

/// The transport between a test and its server.
#[derive(Debug)]
pub(crate) enum ServerLink {
    Stdio(StdioLink),
    Http(HttpLink),
}

/// A client of an HTTP server. A clone is a second client.
#[derive(Debug, Clone)]
pub(crate) struct HttpLink {
    address: String,
    era: Era,
    session: Option<String>,
    token: Option<String>,
}

impl HttpLink {
    /// Creates a client without an address.
    pub(crate) const fn new(era: Era) -> Self {
        Self { address: String::new(), era, session: None, token: None }
    }

    /// Sets the address for later connections.
    pub(crate) fn connect_to(&mut self, address: String) {
        self.address = address;
    }

    /// The address as `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The protocol revision of this client.
    pub(crate) const fn era(&self) -> Era {
        self.era
    }

    /// The session that the server has given this client.
    #[track_caller]
    pub(crate) fn session(&self) -> &str {
        self.session.as_deref().expect("a session")
    }

    /// Sends this bearer token from now on.
    pub(crate) fn use_token(&mut self, token: &str) {
        self.token = Some(token.to_owned());
    }

    /// Opens a connection and sends `message` without reading anything.
    #[track_caller]
    pub(crate) fn post(&self, message: &Value) -> HttpConnection {
        let mut connection = HttpConnection::open(&self.address);
        connection.send(&self.request(message));
        connection
    }

    /// Opens a connection and requests the stream of the session without reading anything.
    #[track_caller]
    pub(crate) fn open_stream(&self) -> HttpConnection {
        let mut connection = HttpConnection::open(&self.address);
        connection.send(&self.stream_request());
        connection
    }

    /// Opens a connection and requests the events after the one with this id.
    #[track_caller]
    pub(crate) fn resume_stream(&self, last_event: &str) -> HttpConnection {
        let mut connection = HttpConnection::open(&self.address);
        connection.send(&self.stream_request().header("Last-Event-ID", last_event));
        connection
    }

    #[track_caller]
    fn stream_request(&self) -> HttpRequest {
        let request = HttpRequest::get("/mcp").header("Accept", "text/event-stream");
        self.with_token(request.header("Mcp-Session-Id", self.session()))
    }

    #[track_caller]
    pub(crate) fn end_session(&mut self) {
        let session = self.session.take().expect("a session");
        let mut connection = HttpConnection::open(&self.address);
        let request = HttpRequest { method: "DELETE", ..HttpRequest::get("/mcp") };
        connection.send(&self.with_token(request.header("Mcp-Session-Id", &session)));
        let status = connection.answer().status;
        assert!((200..300).contains(&status), "{status}");
    }

    /// The request that carries `message`.
    pub(crate) fn request(&self, message: &Value) -> HttpRequest {
        let mut request = HttpRequest::post("/mcp", message);
        if message["method"] != "initialize" {
            request.headers.extend(self.era.headers(message));
        }
        if let Some(session) = &self.session {
            request = request.header("Mcp-Session-Id", session);
        }
        self.with_token(request)
    }

    fn with_token(&self, request: HttpRequest) -> HttpRequest {
        match &self.token {
            Some(token) => request.header("Authorization", &format!("Bearer {token}")),
            None => request,
        }
    }

    /// Sends a request and reads up to its response, skipping notifications before it.
    #[track_caller]
    pub(crate) fn exchange(&mut self, message: &Value) -> Value {
        let mut connection = self.post(message);
        let mut answer = connection.answer();
        let session = answer.header("mcp-session-id").map(str::to_owned);
        self.session = session.or(self.session.take());
        let mut notifications = Vec::new();
        loop {
            let status = answer.status;
            let Some(next) = answer.message() else {
                panic!("HTTP {status}, and no answer to {message}; before it: {notifications:?}");
            };
            if next["id"] == message["id"] || next.get("error").is_some() {
                assert_nothing_follows(&mut answer);
                return next;
            }
            notifications.push(next);
        }
    }

    /// Sends a notification, which is accepted with an empty answer.
    #[track_caller]
    pub(crate) fn notify(&self, message: &Value) {
        let mut connection = self.post(message);
        let status = connection.answer().status;
        assert_eq!(status, 202, "a notification is accepted: {message}");
    }
}

/// Checks that nothing follows the response on its stream.
#[track_caller]
fn assert_nothing_follows(answer: &mut HttpAnswer<'_>) {
    if answer.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
        let more = answer.message();
        assert!(more.is_none(), "a message after the answer: {more:?}");
    }
}
