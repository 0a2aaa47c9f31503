//! Serves one client: passes its messages to rmcp, and the replies back, and knows the requests that
//! are in flight.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use rmcp::transport::{Transport, stdio_pipes};
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::message::{DecodedMessage, read_line};
use crate::mcp::{
    CallTurn, CancelNotice, CancelReason, Handler, MethodFilter, NetworkTransport, OfferedMethods,
};
use crate::telemetry::{self, events};

/// The protocol name in `Upgrade` that turns a connection into JSON lines.
pub const UPGRADE_PROTOCOL: &str = "shellyard-stdio";

/// The header with the default working directory of the client's jobs, in base64.
pub const DIRECTORY_HEADER: &str = "shellyard-directory";

/// The notification to a client that connected with [`UPGRADE_PROTOCOL`] when the server takes no
/// further work.
pub const CLOSING_METHOD: &str = "notifications/shellyard/closing";

/// The number of messages that are read ahead of rmcp.
const READ_AHEAD: usize = 16;

/// The limit for requests in flight, until their replies are written: replies are held in memory,
/// and a client may be slow to read them.
pub const MAX_IN_FLIGHT: usize = 512;

/// The limit for unwritten reply bytes above which no further request is taken: replies for a
/// client that does not read must not fill the memory.
const MAX_UNWRITTEN: usize = 4 * 1024 * 1024;

/// The time that calls in flight get to finish after the end of input, and then to react to their
/// cancellation. Together this is well below the two seconds that clients wait.
const CALL_GRACE: Duration = Duration::from_millis(1000);
const CANCEL_GRACE: Duration = Duration::from_millis(300);

/// The default time for calls in flight at the end of input, for clients that are not known to wait
/// longer: well below the two seconds after which clients send a signal.
pub const INPUT_END_GRACE: Duration = CALL_GRACE;

/// Serves one client on standard input and output until it goes away or `shutdown` is cancelled, see
/// [`serve_streams`].
pub async fn serve_stdio(handler: Handler, shutdown: CancellationToken, input_end_grace: Duration) {
    let _session = events::session_opened(telemetry::Transport::Stdio);
    let methods = handler.offered_methods();
    let handler = handler.instrumented(NetworkTransport::Pipe);
    // A process that holds our standard input needs no token.
    let ends = StopConditions { shutdown, input_end_grace, is_allowed: Arc::new(|| true) };
    Box::pin(serve_streams(handler, methods, stdio_pipes(), ends, pending())).await;
}

/// Serves one client on these two streams until it goes away, loses its right to be served, or the
/// shutdown is cancelled. Calls in flight then have a moment to answer before they are cancelled:
/// at the end of input `input_end_grace`, else less than two seconds. When `closing` completes, the
/// client is notified that no further work is taken. Requests that are not among `methods` are
/// refused.
pub async fn serve_streams<H, R, W>(
    handler: H,
    methods: OfferedMethods,
    (input, output): (R, W),
    ends: StopConditions,
    closing: impl Future<Output = ()> + Send + 'static,
) where
    H: ServerHandler + Clone,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let gone = CancellationToken::new();
    let calls = CancellationToken::new();
    let StopConditions { shutdown, input_end_grace, is_allowed } = ends;
    let client = LineClient::new(output, gone.clone(), is_allowed);
    let (messages, received) = mpsc::channel(READ_AHEAD);
    // The tasks end with this function, on every return path.
    let mut tasks = JoinSet::new();
    tasks.spawn(read_lines(BufReader::new(input), methods, client.clone(), messages));
    let notified = client.clone();
    tasks.spawn(async move {
        closing.await;
        notified.announce_closing().await;
    });
    let received = Arc::new(AsyncMutex::new(received));
    let mut session =
        pin!(run_session(handler, LineTransport { client, received, turn: None }, calls.clone()));
    let input_end_grace = tokio::select! {
        () = &mut session => return,
        () = gone.cancelled() => input_end_grace,
        () = shutdown.cancelled() => CALL_GRACE,
    };
    let cut_short = async {
        shutdown.cancelled().await;
        sleep(CALL_GRACE).await;
    };
    tokio::select! {
        () = &mut session => return,
        () = sleep(input_end_grace) => {}
        () = cut_short => {}
    }
    calls.cancel();
    timeout(CANCEL_GRACE, &mut session).await.ok();
}

/// Runs the MCP session until the messages end. Anything before a valid handshake is answered or
/// ignored, and the handshake is awaited again.
async fn run_session<H, W>(handler: H, lines: LineTransport<W>, calls: CancellationToken)
where
    H: ServerHandler + Clone,
    W: AsyncWrite + Send + Unpin + 'static,
{
    loop {
        match serve_server_with_ct(handler.clone(), lines.clone(), calls.clone()).await {
            Ok(running) => {
                if let Err(error) = running.waiting().await {
                    tracing::error!(%error, "the MCP session broke off");
                }
                return;
            }
            Err(
                ServerInitializeError::ExpectedInitializeRequest(_)
                | ServerInitializeError::InitializeFailed(_)
                | ServerInitializeError::UnexpectedInitializeResponse(_),
            ) => {}
            Err(error) => {
                tracing::debug!(%error, "no MCP session");
                return;
            }
        }
    }
}

/// The client side: its output, and the requests that it waits for.
struct LineClient<W> {
    output: Arc<AsyncMutex<W>>,
    in_flight: InFlightRequests,
    unwritten: watch::Sender<usize>,
    gone: CancellationToken,
    is_allowed: Arc<dyn Fn() -> bool + Send + Sync>,
}

// Not derived: that would require `W: Clone`.
impl<W> Clone for LineClient<W> {
    fn clone(&self) -> Self {
        Self {
            output: Arc::clone(&self.output),
            in_flight: self.in_flight.clone(),
            unwritten: self.unwritten.clone(),
            gone: self.gone.clone(),
            is_allowed: Arc::clone(&self.is_allowed),
        }
    }
}

impl<W: AsyncWrite + Unpin> LineClient<W> {
    fn new(
        output: W,
        gone: CancellationToken,
        is_allowed: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Self {
        let output = Arc::new(AsyncMutex::new(output));
        let unwritten = watch::Sender::new(0);
        Self { output, in_flight: InFlightRequests::default(), unwritten, gone, is_allowed }
    }

    /// Refuses the request with this id, if there is one, of a client that may no longer be served.
    /// The client counts as gone from then on.
    async fn refuse_request(&self, id: Option<RequestId>) {
        if id.is_some() {
            let text = "refused, nothing was done: the token of this connection was revoked or has \
                        expired; connect again with a valid one";
            let error = ErrorData::invalid_request(text, Some(json!({"code": "token_ended"})));
            self.refuse(error, id).await;
        }
        self.gone.cancel();
    }

    /// Writes one message as one line.
    async fn write(&self, message: ServerJsonRpcMessage) -> io::Result<()> {
        let line = encode(&message)?;
        // The message may be large, and the line may have to wait.
        drop(message);
        self.write_line(line).await
    }

    /// Notifies the client that the server takes no further work.
    async fn announce_closing(&self) {
        let line = json!({"jsonrpc": "2.0", "method": CLOSING_METHOD}).to_string();
        // A client that is gone needs no notification.
        self.write_line(line.into_bytes()).await.ok();
    }

    /// Appends a newline and writes the line; it counts as unwritten until then.
    async fn write_line(&self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        self.unwritten.send_modify(|bytes| *bytes += line.len());
        let written = self.write_all(&line).await;
        self.unwritten.send_modify(|bytes| *bytes -= line.len());
        written
    }

    /// Writes a line. A client that it cannot be written to is gone.
    async fn write_all(&self, line: &[u8]) -> io::Result<()> {
        let mut output = self.output.lock().await;
        let written = async {
            output.write_all(line).await?;
            output.flush().await
        };
        written.await.inspect_err(|_| self.gone.cancel())
    }

    /// Waits until the client has read enough of its replies.
    async fn wait_for_reader(&self) {
        // `self` holds the sender, so this does not fail.
        self.unwritten.subscribe().wait_for(|bytes| *bytes <= MAX_UNWRITTEN).await.ok();
    }

    /// Answers with an error. Returns `false` if the client is gone.
    async fn refuse(&self, error: ErrorData, id: Option<RequestId>) -> bool {
        self.write(ServerJsonRpcMessage::error(error, id)).await.is_ok()
    }

    /// Writes a message of rmcp. A reply counts as in flight until it is written.
    async fn send(&self, message: ServerJsonRpcMessage) -> io::Result<()> {
        if !(self.is_allowed)() {
            self.gone.cancel();
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let _reply = self.in_flight.begin_reply(&message);
        self.write(message).await
    }
}

/// Encodes a message as JSON. rmcp omits the missing id of an error; JSON-RPC requires null.
fn encode(message: &ServerJsonRpcMessage) -> serde_json::Result<Vec<u8>> {
    match message {
        JsonRpcMessage::Error(error) if error.id.is_none() => {
            serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": null, "error": error.error}))
        }
        JsonRpcMessage::Error(_)
        | JsonRpcMessage::Request(_)
        | JsonRpcMessage::Response(_)
        | JsonRpcMessage::Notification(_) => serde_json::to_vec(message),
    }
}

/// The transport that rmcp uses. A clone continues where the other left off.
struct LineTransport<W> {
    client: LineClient<W>,
    received: Arc<AsyncMutex<mpsc::Receiver<ClientJsonRpcMessage>>>,
    /// Cancelled once the last call has started. The next call waits for that, so that calls start
    /// in the order in which they arrived.
    turn: Option<CancellationToken>,
}

impl<W> Clone for LineTransport<W> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            received: Arc::clone(&self.received),
            turn: self.turn.clone(),
        }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for LineTransport<W> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let client = self.client.clone();
        async move { client.send(message).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        // Cancel-safe at each await.
        if let Some(turn) = &self.turn {
            turn.cancelled().await;
            self.turn = None;
        }
        self.client.wait_for_reader().await;
        let mut message = self.received.lock().await.recv().await?;
        // Checked here and not where lines are read: messages wait in between.
        if !(self.client.is_allowed)() {
            self.client.refuse_request(find_request_id(&message)).await;
            return None;
        }
        if let JsonRpcMessage::Request(request) = &mut message
            && let ClientRequest::CallToolRequest(call) = &mut request.request
        {
            let (turn, over) = CallTurn::new();
            call.extensions.insert(turn);
            self.turn = Some(over);
        }
        Some(message)
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads lines until the end of input, forwards the messages, and answers lines that are not
/// messages.
async fn read_lines<R, W>(
    mut input: BufReader<R>,
    methods: OfferedMethods,
    client: LineClient<W>,
    messages: mpsc::Sender<ClientJsonRpcMessage>,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let _gone = client.gone.clone().drop_guard();
    let mut filter = MethodFilter::new(methods);
    while let Ok(Some(read)) = read_line(&mut input).await {
        let handed_on = match read.decode() {
            DecodedMessage::Message(mut message) => {
                let offered = filter.check(&message);
                match offered.and_then(|()| client.in_flight.admit(&mut message, MAX_IN_FLIGHT)) {
                    Ok(()) => messages.send(*message).await.is_ok(),
                    Err(error) => client.refuse(error, find_request_id(&message)).await,
                }
            }
            DecodedMessage::Nothing => true,
            DecodedMessage::Faulty(error, id) => client.refuse(error, id).await,
        };
        if !handed_on {
            return;
        }
    }
}

/// The conditions, besides the client itself, that end its service.
#[derive(Clone)]
pub struct StopConditions {
    /// Cancelled when the server ends, or ends the service of this client.
    pub shutdown: CancellationToken,
    /// The time for calls in flight at the end of input.
    pub input_end_grace: Duration,
    /// Returns `false` once the client has lost its right to be served. Called before each message
    /// is handled and before each is sent, so it must be cheap.
    pub is_allowed: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for StopConditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopConditions")
            .field("input_end_grace", &self.input_end_grace)
            .finish_non_exhaustive()
    }
}

/// The requests of one client that are in flight. Clones share their state.
///
/// rmcp routes replies by the id of their request. A second request with an id in use would take
/// the reply of the first, and one of the two would wait forever, so it is refused here. The same
/// knowledge keeps a session alive whose client has hung up while its call continues.
#[derive(Debug, Clone, Default)]
pub(crate) struct InFlightRequests(Arc<Mutex<RequestTable>>);

#[derive(Debug, Default)]
struct RequestTable {
    /// The requests without a reply, each with the notice that tells its call why it was cancelled.
    requests: HashMap<RequestId, CancelNotice>,
    /// The number of replies that are being written. Their ids are free: a client that has read its
    /// reply may reuse the id before the server knows that it was read.
    replies: usize,
    /// The time of the last reply.
    answered: Option<Instant>,
}

impl InFlightRequests {
    /// Records a message of the client. A call of a tool gets its [`CancelNotice`], which the
    /// notification that cancels it sets.
    ///
    /// # Errors
    /// When it is a request whose id is in use, or `max_requests` requests are in flight.
    pub(crate) fn admit(
        &self,
        message: &mut ClientJsonRpcMessage,
        max_requests: usize,
    ) -> Result<(), ErrorData> {
        match message {
            JsonRpcMessage::Request(request) => self.with(|now| {
                if now.requests.len() + now.replies >= max_requests {
                    let text =
                        format!("{max_requests} requests are in progress; wait for an answer");
                    return Err(ErrorData::internal_error(text, None));
                }
                let Entry::Vacant(entry) = now.requests.entry(request.id.clone()) else {
                    let text = "a request with this id is still in progress; use another id";
                    return Err(ErrorData::invalid_request(text, None));
                };
                let notice = entry.insert(CancelNotice::default());
                if let ClientRequest::CallToolRequest(call) = &mut request.request {
                    call.extensions.insert(notice.clone());
                }
                Ok(())
            }),
            JsonRpcMessage::Notification(notification) => {
                // rmcp sends no reply to a cancelled request.
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    let notice = self.with(|now| now.requests.remove(id));
                    if let Some(notice) = notice {
                        notice.set(CancelReason::from(cancelled.params.reason.clone()));
                    }
                }
                Ok(())
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Ok(()),
        }
    }

    /// Records a message of the server before it is sent: a client that has read a reply may reuse
    /// its id. A reply counts as in flight until the returned value is dropped.
    pub(crate) fn begin_reply(&self, message: &ServerJsonRpcMessage) -> Option<ReplyInFlight> {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        }?;
        self.with(|now| {
            now.requests.remove(id);
            now.replies += 1;
            now.answered = Some(Instant::now());
        });
        Some(ReplyInFlight(self.clone()))
    }

    /// `true` if no request is in flight, and none has been since `then`.
    pub(crate) fn is_idle_since(&self, then: Instant) -> bool {
        self.with(|now| now.requests.is_empty() && now.answered.is_none_or(|last| last <= then))
    }

    /// `true` if no request is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.with(|now| now.requests.is_empty())
    }

    fn with<T>(&self, change: impl FnOnce(&mut RequestTable) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A reply that is being written.
#[derive(Debug)]
pub(crate) struct ReplyInFlight(InFlightRequests);

impl Drop for ReplyInFlight {
    fn drop(&mut self) {
        self.0.with(|now| now.replies -= 1);
    }
}

/// The id of a request; `None` for any other message.
pub(crate) fn find_request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        JsonRpcMessage::Response(_)
        | JsonRpcMessage::Notification(_)
        | JsonRpcMessage::Error(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult};
    use rmcp::service::RequestContext;
    use serde_json::Value;
    use tokio::io::{AsyncBufReadExt, DuplexStream, Lines as TextLines, ReadHalf, WriteHalf};

    use super::super::message::MAX_LINE_BYTES;
    use super::*;

    /// A generous limit: only a server that hangs takes this long.
    const SOON: Duration = Duration::from_secs(30);

    const ALL: OfferedMethods = OfferedMethods::Protocol;

    /// A handler whose only tool waits until it is cancelled.
    #[derive(Clone)]
    struct WaitingHandler;

    impl ServerHandler for WaitingHandler {
        async fn call_tool(
            &self,
            _request: CallToolRequestParams,
            context: RequestContext<RoleServer>,
        ) -> Result<CallToolResponse, ErrorData> {
            CallTurn::end(&context);
            context.ct.cancelled().await;
            Ok(CallToolResult::success(Vec::new()).into())
        }
    }

    /// A handler whose only tool answers with a megabyte and counts its calls.
    #[derive(Clone, Default)]
    struct LargeReplyHandler(Arc<Mutex<usize>>);

    impl ServerHandler for LargeReplyHandler {
        async fn call_tool(
            &self,
            _request: CallToolRequestParams,
            _context: RequestContext<RoleServer>,
        ) -> Result<CallToolResponse, ErrorData> {
            *self.0.lock().unwrap() += 1;
            let text = "x".repeat(1 << 20);
            Ok(CallToolResult::success(vec![rmcp::model::ContentBlock::text(text)]).into())
        }
    }

    struct TestSession {
        input: WriteHalf<DuplexStream>,
        output: TextLines<BufReader<ReadHalf<DuplexStream>>>,
        server: tokio::task::JoinHandle<()>,
    }

    fn ends(shutdown: CancellationToken) -> StopConditions {
        StopConditions { shutdown, input_end_grace: CALL_GRACE, is_allowed: Arc::new(|| true) }
    }

    impl TestSession {
        fn start() -> Self {
            Self::with_handler(WaitingHandler)
        }

        fn with_handler(handler: impl ServerHandler + Clone) -> Self {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            let (server_input, server_output) = tokio::io::split(theirs);
            let streams = (server_input, server_output);
            let ends = ends(CancellationToken::new());
            let server = tokio::spawn(serve_streams(handler, ALL, streams, ends, pending()));
            let (output, input) = tokio::io::split(ours);
            Self { input, output: BufReader::new(output).lines(), server }
        }

        async fn write(&mut self, line: &str) {
            let line = format!("{line}\n");
            timeout(SOON, self.input.write_all(line.as_bytes())).await.unwrap().unwrap();
        }

        async fn send(&mut self, message: Value) {
            self.write(&message.to_string()).await;
        }

        async fn receive(&mut self) -> Value {
            let line = timeout(SOON, self.output.next_line()).await.unwrap().unwrap();
            serde_json::from_str(&line.unwrap()).unwrap()
        }

        async fn open(&mut self) {
            let params = json!({
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            });
            self.send(request(1, "initialize", params)).await;
            assert_eq!(self.receive().await["id"], 1);
        }
    }

    fn request(id: u64, method: &str, params: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    /// Returns the number of calls once it no longer grows.
    async fn at_rest(talker: &LargeReplyHandler) -> usize {
        loop {
            let before = *talker.0.lock().unwrap();
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            let after = *talker.0.lock().unwrap();
            if after > 4 && after == before {
                return after;
            }
        }
    }

    #[tokio::test]
    async fn replies_to_a_client_that_does_not_read_do_not_pile_up_in_memory() {
        const CALLS: u64 = 60;
        let talker = LargeReplyHandler::default();
        let mut session = TestSession::with_handler(talker.clone());
        session.open().await;
        for id in 2..2 + CALLS {
            session.send(request(id, "tools/call", json!({"name": "talk"}))).await;
        }
        // One thread runs all tasks: a count that does not change while they run is final.
        let served = timeout(SOON, at_rest(&talker)).await.unwrap();
        assert!(served < 16, "{served} megabytes are in memory");
        for _ in 0..CALLS {
            assert!(session.receive().await["result"].is_object());
        }
        assert_eq!(*talker.0.lock().unwrap() as u64, CALLS, "all are served in the end");
    }

    #[tokio::test]
    async fn no_message_before_the_handshake_ends_the_server() {
        let mut session = TestSession::start();
        session.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        session.send(json!({"jsonrpc": "2.0", "method": "$/unheard/of"})).await;
        session.send(json!({"jsonrpc": "2.0", "id": 5, "result": {}})).await;
        session.send(request(2, "tools/list", json!({}))).await;
        assert_eq!(session.receive().await["error"]["code"], -32602);
        session.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        session.open().await;
    }

    #[tokio::test]
    async fn a_line_that_is_not_a_message_is_answered_and_the_server_continues() {
        let mut session = TestSession::start();
        for (line, code) in [
            ("{bad", -32700),
            ("\u{1b}[31mnot json", -32700),
            ("[]", -32600),
            ("7", -32600),
            ("{\"id\": 9}", -32600),
        ] {
            session.write(line).await;
            let answer = session.receive().await;
            assert_eq!(answer["error"]["code"], code, "{line}");
            let id = if line.contains("id") { json!(9) } else { Value::Null };
            assert_eq!(answer.get("id"), Some(&id), "{line}");
        }
        session.write("\u{feff}").await;
        session.write("  \r").await;
        session.open().await;
    }

    #[tokio::test]
    async fn an_endless_line_is_refused_in_limited_memory() {
        let mut session = TestSession::start();
        let part = "x".repeat(1024 * 1024);
        for (start, id) in [("", Value::Null), ("{\"id\":3,\"x\":\"", json!(3))] {
            let input = &mut session.input;
            timeout(SOON, input.write_all(start.as_bytes())).await.unwrap().unwrap();
            for _ in 0..=MAX_LINE_BYTES / part.len() {
                timeout(SOON, input.write_all(part.as_bytes())).await.unwrap().unwrap();
            }
            session.write("").await;
            let error = session.receive().await;
            let message = error["error"]["message"].as_str().unwrap();
            assert!(message.contains("16777216 bytes"), "{error}");
            assert_eq!(error.get("id"), Some(&id));
        }
        session.open().await;
    }

    #[tokio::test]
    async fn an_id_in_use_is_refused_and_its_first_call_continues() {
        let mut session = TestSession::start();
        session.open().await;
        let call = request(2, "tools/call", json!({"name": "wait"}));
        session.send(call.clone()).await;
        session.send(call).await;
        let refused = session.receive().await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(-32600)));
        session.input.shutdown().await.unwrap();
        assert!(session.receive().await["result"].is_object());
    }

    #[tokio::test]
    async fn requests_in_flight_are_limited_and_cancelled_ones_do_not_count() {
        let client =
            LineClient::new(tokio::io::sink(), CancellationToken::new(), Arc::new(|| true));
        let message = |value: Value| serde_json::from_value(value).unwrap();
        for id in 0..MAX_IN_FLIGHT as u64 {
            client
                .in_flight
                .admit(&mut message(request(id, "ping", json!({}))), MAX_IN_FLIGHT)
                .unwrap();
        }
        let mut one_more = message(request(9999, "ping", json!({})));
        client.in_flight.admit(&mut one_more, MAX_IN_FLIGHT).unwrap_err();
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        client.in_flight.admit(&mut message(cancelled), MAX_IN_FLIGHT).unwrap();
        client.in_flight.admit(&mut one_more, MAX_IN_FLIGHT).unwrap();
    }

    #[tokio::test]
    async fn an_unread_reply_counts_as_in_flight_but_its_id_is_free() {
        let (ours, theirs) = tokio::io::duplex(8);
        let client = LineClient::new(theirs, CancellationToken::new(), Arc::new(|| true));
        let message = |value: Value| serde_json::from_value(value).unwrap();
        let mut request_message = message(request(0, "ping", json!({})));
        client.in_flight.admit(&mut request_message, MAX_IN_FLIGHT).unwrap();
        let refused = ErrorData::internal_error("no", None);
        let reply = ServerJsonRpcMessage::error(refused, Some(RequestId::Number(0)));
        let sender = client.clone();
        let sent = tokio::spawn(async move { sender.send(reply).await });
        tokio::task::yield_now().await;
        assert!(client.in_flight.is_empty(), "its id is free");
        for id in 0..MAX_IN_FLIGHT as u64 - 1 {
            client
                .in_flight
                .admit(&mut message(request(id, "ping", json!({}))), MAX_IN_FLIGHT)
                .unwrap();
        }
        let mut one_more = message(request(9999, "ping", json!({})));
        client.in_flight.admit(&mut one_more, MAX_IN_FLIGHT).unwrap_err();
        let mut line = String::new();
        BufReader::new(ours).read_line(&mut line).await.unwrap();
        timeout(SOON, sent).await.unwrap().unwrap().unwrap();
        client.in_flight.admit(&mut one_more, MAX_IN_FLIGHT).unwrap();
    }

    /// A handler whose only tool records the order in which its calls start.
    #[derive(Clone, Default)]
    struct CallOrderHandler(Arc<Mutex<Vec<String>>>);

    impl ServerHandler for CallOrderHandler {
        async fn call_tool(
            &self,
            request: CallToolRequestParams,
            context: RequestContext<RoleServer>,
        ) -> Result<CallToolResponse, ErrorData> {
            // The earlier a call, the longer it takes, so each could overtake those before it.
            let number: u32 = request.name.parse().unwrap();
            for _ in number..12 {
                tokio::task::yield_now().await;
            }
            self.0.lock().unwrap().push(request.name.to_string());
            CallTurn::end(&context);
            // A call that continues does not block the others.
            if request.name == "0" {
                context.ct.cancelled().await;
            }
            Ok(CallToolResult::success(Vec::new()).into())
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn calls_start_in_the_order_in_which_they_arrived() {
        let noter = CallOrderHandler::default();
        let mut session = TestSession::with_handler(noter.clone());
        session.open().await;
        let calls: Vec<String> = (0..12)
            .map(|n| request(10 + n, "tools/call", json!({"name": n.to_string()})).to_string())
            .collect();
        session.write(&calls.join("\n")).await;
        for _ in 1..calls.len() {
            session.receive().await;
        }
        let expected: Vec<String> = (0..12).map(|n| n.to_string()).collect();
        assert_eq!(*noter.0.lock().unwrap(), expected);
    }

    #[tokio::test]
    async fn the_end_of_input_ends_the_server_even_with_a_call_in_flight() {
        let mut session = TestSession::start();
        session.open().await;
        session.send(request(2, "tools/call", json!({"name": "wait"}))).await;
        session.input.shutdown().await.unwrap();
        assert_eq!(session.receive().await["id"], 2, "the call is cancelled, and answered");
        timeout(SOON, session.server).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_client_whose_credential_ended_is_refused() {
        let allowed = Arc::new(AtomicBool::new(true));
        let is_allowed = Arc::clone(&allowed);
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(theirs);
        let talker = LargeReplyHandler::default();
        let ends = StopConditions {
            is_allowed: Arc::new(move || is_allowed.load(Ordering::SeqCst)),
            ..ends(CancellationToken::new())
        };
        let serving = serve_streams(talker.clone(), ALL, (input, output), ends, pending());
        let server = tokio::spawn(serving);
        let (output, input) = tokio::io::split(ours);
        let mut session = TestSession { input, output: BufReader::new(output).lines(), server };
        session.open().await;
        session.send(request(2, "tools/call", json!({"name": "talk"}))).await;
        assert_eq!(session.receive().await["id"], 2);
        allowed.store(false, Ordering::SeqCst);
        session.send(request(3, "tools/call", json!({"name": "talk"}))).await;
        let refused = session.receive().await;
        assert_eq!(
            (&refused["id"], &refused["error"]["data"]["code"]),
            (&json!(3), &json!("token_ended"))
        );
        let next = timeout(SOON, session.output.next_line()).await.unwrap();
        assert!(next.is_ok_and(|line| line.is_none()), "nothing more but the end");
        assert_eq!(*talker.0.lock().unwrap(), 1, "the second call never ran");
        timeout(SOON, session.server).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_shutdown_ends_the_server_while_its_client_is_connected() {
        let (_ours, theirs) = tokio::io::duplex(1024);
        let (input, output) = tokio::io::split(theirs);
        let shutdown = CancellationToken::new();
        let serving =
            serve_streams(WaitingHandler, ALL, (input, output), ends(shutdown.clone()), pending());
        let server = tokio::spawn(serving);
        shutdown.cancel();
        timeout(SOON, server).await.unwrap().unwrap();
    }

    fn message(value: Value) -> ClientJsonRpcMessage {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_id_is_in_use_until_its_request_is_answered_or_cancelled() {
        let mut ping = message(json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}));
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 7}});
        let work = InFlightRequests::default();
        let begun = Instant::now();
        work.admit(&mut ping, 9).unwrap();
        assert_eq!(work.admit(&mut ping, 9).unwrap_err().code.0, -32600);
        assert_eq!(find_request_id(&ping), Some(RequestId::Number(7)));
        assert!(!work.is_idle_since(begun));
        let answer = ServerJsonRpcMessage::error(
            ErrorData::internal_error("no", None),
            Some(RequestId::Number(7)),
        );
        drop(work.begin_reply(&answer));
        assert!(work.is_empty() && !work.is_idle_since(begun), "it was answered after that");
        work.admit(&mut ping, 9).unwrap();
        work.admit(&mut message(cancel), 9).unwrap();
        work.admit(&mut ping, 9).unwrap();
    }

    #[test]
    fn a_cancelled_call_learns_the_reason() {
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": {"name": "run_command"}});
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 7, "reason": "Request timed out"}});
        let work = InFlightRequests::default();
        let mut call = message(call);
        work.admit(&mut call, 9).unwrap();
        let JsonRpcMessage::Request(request) = call else { panic!("a request") };
        let ClientRequest::CallToolRequest(call) = request.request else { panic!("a call") };
        let notice = call.extensions.get::<CancelNotice>().expect("a notice").clone();
        assert_eq!(notice.reason(), None);
        work.admit(&mut message(cancel), 9).unwrap();
        let reason = CancelReason::Given("Request timed out".to_owned());
        assert_eq!(notice.reason(), Some(&reason));
    }
}
