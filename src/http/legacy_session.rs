//! One legacy session: its streams, and the service that answers its requests.
//!
//! rmcp's service takes some 30 KB even if nobody calls it, so a session has one only while a request
//! is in flight: the first request starts it, and the last reply ends it. What a session keeps
//! between calls is the handshake, the handler with its subscriptions, and the streams.

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, GetExtensions as _, InitializeRequestParams,
    JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::service::serve_directly_with_ct;
use rmcp::transport::{Transport, TransportAdapterIdentity};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::session_streams::{EventId, EventReceiver, IsPrimed, SessionStreams, UnknownStream};
use crate::lines::InFlightRequests;
use crate::mcp::SessionNotifier;

/// Starts a service of a session on this transport, which ends with the transport or the token.
pub(super) type ServiceStarter = Box<dyn Fn(SessionTransport, CancellationToken) + Send + Sync>;

/// Returns the function that starts services of a session whose client introduced itself so.
pub(super) fn service_starter<H: ServerHandler + Clone>(
    handler: H,
    client: InitializeRequestParams,
) -> ServiceStarter {
    Box::new(move |transport, ended| {
        let running = serve_directly_with_ct::<_, _, _, _, TransportAdapterIdentity>(
            handler.clone(),
            transport,
            Some(client.clone()),
            ended,
        );
        tokio::spawn(running.waiting());
    })
}

/// An open session. Dropping the last reference ends its streams.
pub(super) struct LegacySession {
    start_service: ServiceStarter,
    /// The requests in flight, including those whose client has hung up, which does not cancel
    /// them.
    in_flight: InFlightRequests,
    /// Cancelled when the session ends, and with it every call in flight.
    ended: CancellationToken,
    state: Mutex<SessionState>,
}

struct SessionState {
    streams: SessionStreams,
    /// The input of the running service, if there is one.
    input: Option<mpsc::UnboundedSender<Box<ClientJsonRpcMessage>>>,
    /// The id of the next request to the client. Each service counts its requests from 0.
    next_request: i64,
}

impl SessionState {
    /// Sends a message to the running service.
    ///
    /// # Errors
    /// When no service runs: the message itself.
    fn send_to_service(
        &self,
        message: Box<ClientJsonRpcMessage>,
    ) -> Result<(), Box<ClientJsonRpcMessage>> {
        match &self.input {
            Some(input) => input.send(message).map_err(|unsent| unsent.0),
            None => Err(message),
        }
    }
}

impl LegacySession {
    pub(super) fn new(start_service: ServiceStarter, primed: IsPrimed) -> Arc<Self> {
        let streams = SessionStreams::new(primed);
        Arc::new(Self {
            start_service,
            in_flight: InFlightRequests::default(),
            ended: CancellationToken::new(),
            state: Mutex::new(SessionState { streams, input: None, next_request: 0 }),
        })
    }

    pub(super) const fn in_flight(&self) -> &InFlightRequests {
        &self.in_flight
    }

    /// Hands a request to the service, and returns the stream of its reply.
    ///
    /// # Errors
    /// When a request with the same id is in flight.
    pub(super) fn request(
        self: &Arc<Self>,
        mut message: ClientJsonRpcMessage,
    ) -> Result<EventReceiver, ErrorData> {
        self.in_flight.admit(&mut message, usize::MAX)?;
        let JsonRpcMessage::Request(request) = &mut message else {
            return Err(ErrorData::invalid_request("this is not a request", None));
        };
        request.request.extensions_mut().insert(self.notifier());
        let received = self.with_state(|state| state.streams.open_for_request(request));
        self.deliver(message);
        Ok(received)
    }

    /// Hands a notification or a reply of the client to the service, if there is one: only a service
    /// with a request in flight has any use for them.
    pub(super) fn accept(self: &Arc<Self>, mut message: ClientJsonRpcMessage) {
        // Only requests can be refused.
        self.in_flight.admit(&mut message, usize::MAX).ok();
        let cancelled = cancelled_request(&message);
        self.deliver(message);
        if let Some(request) = cancelled {
            self.with_state(|state| state.streams.end_request(&request));
            self.end_idle_service();
        }
    }

    /// Opens the session's own stream, or one again after the event with this id.
    ///
    /// # Errors
    /// When that event belongs to a stream that does not exist, or no longer.
    pub(super) fn open_stream(
        &self,
        after: Option<EventId>,
    ) -> Result<EventReceiver, UnknownStream> {
        self.with_state(|state| match after {
            None => Ok(state.streams.open_own()),
            Some(last) => state.streams.resume(last, Instant::now()),
        })
    }

    /// Drops the replies that no client has fetched in time.
    pub(super) fn drop_expired_replies(&self, now: Instant) {
        self.with_state(|state| state.streams.drop_expired(now));
    }

    /// Ends the session and the calls in flight.
    pub(super) fn end(&self) {
        self.ended.cancel();
        self.with_state(|state| {
            state.input = None;
            state.streams = SessionStreams::new(IsPrimed(false));
        });
    }

    /// The way for the handler to notify this client between its calls.
    fn notifier(self: &Arc<Self>) -> SessionNotifier {
        let session = Arc::downgrade(self);
        SessionNotifier::new(move |notification: ServerNotification| {
            let Some(session) = session.upgrade() else { return false };
            let message = ServerJsonRpcMessage::notification(notification);
            session.with_state(|state| state.streams.send(message, Instant::now()));
            !session.ended.is_cancelled()
        })
    }

    /// Sends a message to the running service. A request starts one if there is none, or if it has
    /// ended by itself.
    fn deliver(self: &Arc<Self>, message: ClientJsonRpcMessage) {
        let started = self.with_state(|state| {
            let Err(message) = state.send_to_service(Box::new(message)) else { return None };
            let JsonRpcMessage::Request(_) = &*message else { return None };
            let (input, received) = mpsc::unbounded_channel();
            input.send(message).ok();
            state.input = Some(input);
            Some((received, state.next_request))
        });
        if let Some((received, first_request)) = started {
            let transport = SessionTransport { session: Arc::clone(self), received, first_request };
            (self.start_service)(transport, self.ended.child_token());
        }
    }

    /// Ends the service once no request is in flight. A request is in flight before it is delivered,
    /// so none is delivered to a service that ends.
    fn end_idle_service(&self) {
        self.with_state(|state| {
            if self.in_flight.is_empty() {
                state.input = None;
            }
        });
    }

    /// Sends a message of a service to the client.
    fn send(&self, message: ServerJsonRpcMessage) {
        let reply = self.in_flight.begin_reply(&message);
        self.with_state(|state| {
            if let JsonRpcMessage::Request(request) = &message
                && let RequestId::Number(number) = request.id
            {
                state.next_request = state.next_request.max(number + 1);
            }
            state.streams.send(message, Instant::now());
        });
        if reply.is_some() {
            self.end_idle_service();
        }
    }

    fn with_state<T>(&self, change: impl FnOnce(&mut SessionState) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for LegacySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LegacySession").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

/// Returns the request that a message cancels, if it cancels one.
fn cancelled_request(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    let JsonRpcMessage::Notification(notification) = message else { return None };
    let ClientNotification::CancelledNotification(cancelled) = &notification.notification else {
        return None;
    };
    cancelled.params.request_id.clone()
}

/// The transport of one service of a session.
pub(super) struct SessionTransport {
    session: Arc<LegacySession>,
    received: mpsc::UnboundedReceiver<Box<ClientJsonRpcMessage>>,
    /// The number that is added to the ids of requests to the client: ids are unique in a session.
    first_request: i64,
}

impl SessionTransport {
    fn shift_id(id: &mut RequestId, by: i64) {
        if let RequestId::Number(number) = id {
            // A client may reply to a request that it made up.
            *number = number.wrapping_add(by);
        }
    }
}

impl Transport<RoleServer> for SessionTransport {
    type Error = Infallible;

    fn send(
        &mut self,
        mut message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        match &mut message {
            JsonRpcMessage::Request(request) => {
                Self::shift_id(&mut request.id, self.first_request);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) =
                    &mut notification.notification
                    && let Some(id) = &mut cancelled.params.request_id
                {
                    Self::shift_id(id, self.first_request);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        self.session.send(message);
        ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let mut message = *self.received.recv().await?;
        match &mut message {
            JsonRpcMessage::Response(response) => {
                Self::shift_id(&mut response.id, -self.first_request);
            }
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &mut error.id {
                    Self::shift_id(id, -self.first_request);
                }
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The transport of a handshake: it carries `initialize` and its answer, then ends.
pub(super) struct HandshakeTransport {
    request: Option<oneshot::Receiver<Box<ClientJsonRpcMessage>>>,
    answer: Option<oneshot::Sender<Box<ServerJsonRpcMessage>>>,
    over: Option<oneshot::Receiver<Infallible>>,
}

/// The other side of a handshake.
#[derive(Debug)]
pub(super) struct HandshakeChannel {
    request: oneshot::Sender<Box<ClientJsonRpcMessage>>,
    answer: oneshot::Receiver<Box<ServerJsonRpcMessage>>,
    guard: HandshakeGuard,
}

/// Keeps the service of a handshake alive: rmcp closes the session when it ends, and by then the
/// session must be open.
#[derive(Debug)]
pub(super) struct HandshakeGuard {
    _over: oneshot::Sender<Infallible>,
}

impl HandshakeChannel {
    pub(super) fn new() -> (Self, HandshakeTransport) {
        let (request, requested) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        let (open, over) = oneshot::channel();
        let transport =
            HandshakeTransport { request: Some(requested), answer: Some(answer), over: Some(over) };
        (Self { request, answer: answered, guard: HandshakeGuard { _over: open } }, transport)
    }

    /// Sends the request and returns its answer; `None` if the service gave none. The handshake is
    /// over when the guard is dropped.
    pub(super) async fn exchange(
        self,
        request: ClientJsonRpcMessage,
    ) -> Option<(ServerJsonRpcMessage, HandshakeGuard)> {
        self.request.send(Box::new(request)).ok()?;
        let answer = self.answer.await.ok()?;
        Some((*answer, self.guard))
    }
}

impl Transport<RoleServer> for HandshakeTransport {
    type Error = Infallible;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        if let Some(answer) = self.answer.take() {
            // A client that is gone needs no answer.
            answer.send(Box::new(message)).ok();
        }
        ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        // Cancel-safe: each receiver is dropped only after it has completed.
        if let Some(request) = &mut self.request {
            let message = request.await.ok();
            self.request = None;
            return message.map(|message| *message);
        }
        if let Some(over) = &mut self.over {
            // Nothing is sent; the guard is dropped.
            over.await.ok();
            self.over = None;
        }
        None
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    #[derive(Clone)]
    struct Quiet;

    impl ServerHandler for Quiet {}

    fn message(value: serde_json::Value) -> ClientJsonRpcMessage {
        serde_json::from_value(value).unwrap()
    }

    #[tokio::test]
    async fn a_service_that_ended_by_itself_is_replaced_by_the_next_request() {
        let started = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&started);
        let start = service_starter(Quiet, InitializeRequestParams::default());
        let first_one_ends: ServiceStarter = Box::new(move |transport, ended| {
            if count.fetch_add(1, Ordering::Relaxed) > 0 {
                start(transport, ended);
            }
        });
        let session = LegacySession::new(first_one_ends, IsPrimed(false));
        let ping = |id| message(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        let _unanswered = session.request(ping(1)).unwrap();
        session.accept(message(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})));
        assert_eq!(started.load(Ordering::Relaxed), 1, "only a request starts one");
        let mut received = session.request(ping(2)).unwrap();
        assert_eq!(started.load(Ordering::Relaxed), 2);
        assert!(received.recv().await.is_some(), "the new service replies");
    }
}
