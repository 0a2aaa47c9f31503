//! MCP over standard input and output, until the input ends.
//!
//! rmcp's own line transport ends the server on an early notification, answers nothing to
//! a line that is no JSON, and lets two calls with one id wait for ever. So the lines are
//! read here: a reader task hands on whole messages, and answers itself what is none.
//!
//! ```text
//! stdin → reader task → messages (bounded) → rmcp → Handler → replies → stdout
//!              └──────── error replies ───────────────────────────↗
//! ```
//!
//! **Invariant:** no line, however long or broken, ends the server or grows its memory
//! beyond [`MAX_LINE_BYTES`].

use std::collections::HashSet;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use rmcp::transport::{Transport, stdio_pipes};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::mcp::Handler;

/// The longest message that is taken.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Messages that are read ahead of rmcp.
const READ_AHEAD: usize = 16;

/// Requests that may be in work at a time: replies to them are held in memory.
const MAX_IN_FLIGHT: usize = 256;

/// What calls in flight get to finish after the end of input, and then to obey their
/// cancellation. Together this is well below the two seconds that clients wait.
const LAST_WORDS: Duration = Duration::from_millis(1000);
const LAST_BREATH: Duration = Duration::from_millis(300);

/// Serves one client on standard input and output until it goes away or `shutdown` is
/// cancelled. Calls in flight then have a moment to answer before they are cancelled;
/// this returns within two seconds of either.
pub async fn serve(handler: Handler, shutdown: CancellationToken) {
    let (input, output) = stdio_pipes();
    serve_on(handler, input, output, shutdown).await
}

async fn serve_on<H, R, W>(handler: H, input: R, output: W, shutdown: CancellationToken)
where
    H: ServerHandler + Clone,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let gone = CancellationToken::new();
    let calls = CancellationToken::new();
    let client = Client::new(output, gone.clone());
    let (messages, received) = mpsc::channel(READ_AHEAD);
    // Ends with this function, on every way out of it.
    let mut reader = JoinSet::new();
    reader.spawn(read_lines(BufReader::new(input), client.clone(), messages));
    let received = Arc::new(AsyncMutex::new(received));
    let mut session = pin!(converse(handler, Lines { client, received }, calls.clone()));
    tokio::select! {
        () = &mut session => return,
        () = gone.cancelled() => {}
        () = shutdown.cancelled() => {}
    }
    if timeout(LAST_WORDS, &mut session).await.is_err() {
        calls.cancel();
        timeout(LAST_BREATH, &mut session).await.ok();
    }
}

/// Talks to the client until its messages end. Whatever it says before a proper opening is
/// answered or ignored, and the opening is waited for again.
async fn converse<H, W>(handler: H, lines: Lines<W>, calls: CancellationToken)
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

/// The client's end of the line: its output, and what it still waits for.
struct Client<W> {
    output: Arc<AsyncMutex<W>>,
    in_flight: Arc<Mutex<HashSet<RequestId>>>,
    gone: CancellationToken,
}

// Not derived: that would ask for a writer that can be cloned.
impl<W> Clone for Client<W> {
    fn clone(&self) -> Self {
        Self {
            output: Arc::clone(&self.output),
            in_flight: Arc::clone(&self.in_flight),
            gone: self.gone.clone(),
        }
    }
}

impl<W: AsyncWrite + Unpin> Client<W> {
    fn new(output: W, gone: CancellationToken) -> Self {
        Self { output: Arc::new(AsyncMutex::new(output)), in_flight: Arc::default(), gone }
    }

    /// Writes one message as one line. A client that takes none is gone.
    async fn write(&self, message: &ServerJsonRpcMessage) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut output = self.output.lock().await;
        let written = async {
            output.write_all(&line).await?;
            output.flush().await
        };
        written.await.inspect_err(|_| self.gone.cancel())
    }

    /// Says why a line was not taken; false when nobody is there to hear it.
    async fn refuse(&self, error: ErrorData, id: Option<RequestId>) -> bool {
        self.write(&ServerJsonRpcMessage::error(error, id)).await.is_ok()
    }

    /// Notes that a request is answered.
    fn answered(&self, message: &ServerJsonRpcMessage) {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = id {
            self.in_flight(|ids| ids.remove(id));
        }
    }

    /// Notes a message that came in; an error where it cannot be taken.
    fn admit(&self, message: &ClientJsonRpcMessage) -> Result<(), ErrorData> {
        match message {
            JsonRpcMessage::Request(request) => self.in_flight(|ids| {
                if ids.len() >= MAX_IN_FLIGHT {
                    let text = format!("{MAX_IN_FLIGHT} requests are in work; wait for an answer");
                    return Err(ErrorData::internal_error(text, None));
                }
                if ids.insert(request.id.clone()) {
                    Ok(())
                } else {
                    let text = "a request with this id is still in work; use another id";
                    Err(ErrorData::invalid_request(text, None))
                }
            }),
            JsonRpcMessage::Notification(notification) => {
                // rmcp sends no response to a cancelled request.
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.in_flight(|ids| ids.remove(id));
                }
                Ok(())
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Ok(()),
        }
    }

    fn in_flight<T>(&self, look: impl FnOnce(&mut HashSet<RequestId>) -> T) -> T {
        look(&mut self.in_flight.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What rmcp talks to. A clone goes on where the other left off.
struct Lines<W> {
    client: Client<W>,
    received: Arc<AsyncMutex<mpsc::Receiver<ClientJsonRpcMessage>>>,
}

impl<W> Clone for Lines<W> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), received: Arc::clone(&self.received) }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for Lines<W> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let client = self.client.clone();
        async move {
            client.answered(&message);
            client.write(&message).await
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.received.lock().await.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads lines to the end of input, hands on the messages, and answers what is none.
async fn read_lines<R, W>(
    mut input: BufReader<R>,
    client: Client<W>,
    messages: mpsc::Sender<ClientJsonRpcMessage>,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let _gone = client.gone.clone().drop_guard();
    let mut line = Vec::new();
    while let Ok(Some(read)) = read_line(&mut input, &mut line).await {
        let decoded = match read {
            LineRead::Whole => decode(&line),
            LineRead::TooLong => Decoded::Faulty(too_long(), None),
        };
        // The next line may be small: a huge one must not keep its memory.
        line = Vec::new();
        let handed_on = match decoded {
            Decoded::Message(message) => match client.admit(&message) {
                Ok(()) => messages.send(*message).await.is_ok(),
                Err(error) => client.refuse(error, id_of(&message)).await,
            },
            Decoded::Nothing => true,
            Decoded::Faulty(error, id) => client.refuse(error, id).await,
        };
        if !handed_on {
            return;
        }
    }
}

enum LineRead {
    Whole,
    TooLong,
}

/// Reads the next line into `line`, without its end; the last one may have none. `None` at the
/// end of input. What is too long is skipped, not kept.
async fn read_line<R: AsyncRead + Unpin>(
    input: &mut BufReader<R>,
    line: &mut Vec<u8>,
) -> io::Result<Option<LineRead>> {
    let mut fits = true;
    loop {
        let available = input.fill_buf().await?;
        if available.is_empty() {
            let last = if fits { LineRead::Whole } else { LineRead::TooLong };
            return Ok((!line.is_empty() || !fits).then_some(last));
        }
        let newline = memchr::memchr(b'\n', available);
        let part = &available[..newline.unwrap_or(available.len())];
        fits = fits && line.len() + part.len() <= MAX_LINE_BYTES;
        if fits {
            line.extend_from_slice(part);
        } else {
            *line = Vec::new();
        }
        let used = part.len() + usize::from(newline.is_some());
        input.consume(used);
        if newline.is_some() {
            return Ok(Some(if fits { LineRead::Whole } else { LineRead::TooLong }));
        }
    }
}

/// What a line turned out to be.
#[derive(Debug)]
enum Decoded {
    Message(Box<ClientJsonRpcMessage>),
    /// Nothing that wants an answer.
    Nothing,
    /// No message; the id is there where one could be made out.
    Faulty(ErrorData, Option<RequestId>),
}

fn decode(line: &[u8]) -> Decoded {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Decoded::Nothing;
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return Decoded::Message(Box::new(message));
    }
    match serde_json::from_slice::<Value>(line) {
        Err(error) => {
            let text = format!("the line is not JSON: {error}");
            Decoded::Faulty(ErrorData::new(ErrorCode::PARSE_ERROR, text, None), None)
        }
        // A notification gets no answer, not even a bad one.
        Ok(value) if value.get("method").is_some() && value.get("id").is_none() => Decoded::Nothing,
        Ok(value) => {
            let text = "the line is not one JSON-RPC 2.0 message (batches are not supported)";
            let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
            Decoded::Faulty(ErrorData::invalid_request(text, None), id)
        }
    }
}

fn too_long() -> ErrorData {
    let text = format!(
        "the message is longer than {MAX_LINE_BYTES} bytes; write large input to a file and name that"
    );
    ErrorData::invalid_request(text, None)
}

fn id_of(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        JsonRpcMessage::Response(_)
        | JsonRpcMessage::Notification(_)
        | JsonRpcMessage::Error(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult};
    use rmcp::service::RequestContext;
    use serde_json::json;
    use tokio::io::{DuplexStream, Lines as TextLines, ReadHalf, WriteHalf};

    use super::*;

    /// Generous: only a server that hangs takes this long.
    const SOON: Duration = Duration::from_secs(30);

    /// Its only tool waits until it is cancelled.
    #[derive(Clone)]
    struct Waiter;

    impl ServerHandler for Waiter {
        async fn call_tool(
            &self,
            _request: CallToolRequestParams,
            context: RequestContext<RoleServer>,
        ) -> Result<CallToolResponse, ErrorData> {
            context.ct.cancelled().await;
            Ok(CallToolResult::success(Vec::new()).into())
        }
    }

    struct Session {
        input: WriteHalf<DuplexStream>,
        output: TextLines<BufReader<ReadHalf<DuplexStream>>>,
        server: tokio::task::JoinHandle<()>,
    }

    impl Session {
        fn start() -> Self {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            let (server_input, server_output) = tokio::io::split(theirs);
            let shutdown = CancellationToken::new();
            let server = tokio::spawn(serve_on(Waiter, server_input, server_output, shutdown));
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

    #[tokio::test]
    async fn nothing_said_before_the_opening_ends_the_server() {
        let mut session = Session::start();
        session.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        session.send(json!({"jsonrpc": "2.0", "method": "$/unheard/of"})).await;
        session.send(json!({"jsonrpc": "2.0", "id": 5, "result": {}})).await;
        session.send(request(2, "tools/list", json!({}))).await;
        assert_eq!(session.receive().await["error"]["code"], -32602);
        session.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        session.open().await;
    }

    #[tokio::test]
    async fn a_line_that_is_no_message_is_answered_and_the_server_goes_on() {
        let mut session = Session::start();
        for (line, code) in [
            ("{bad", -32700),
            ("\u{1b}[31mnot json", -32700),
            ("[]", -32600),
            ("7", -32600),
            ("{\"id\": 9}", -32600),
        ] {
            session.write(line).await;
            assert_eq!(session.receive().await["error"]["code"], code, "{line}");
        }
        session.write("\u{feff}").await;
        session.write("  \r").await;
        session.open().await;
    }

    #[tokio::test]
    async fn a_line_without_bound_is_refused_in_bounded_memory() {
        let mut session = Session::start();
        let part = "x".repeat(1024 * 1024);
        for _ in 0..=MAX_LINE_BYTES / part.len() {
            timeout(SOON, session.input.write_all(part.as_bytes())).await.unwrap().unwrap();
        }
        session.write("").await;
        let error = session.receive().await;
        assert!(error["error"]["message"].as_str().unwrap().contains("16777216 bytes"), "{error}");
        session.open().await;
    }

    #[tokio::test]
    async fn an_id_in_use_is_refused_and_its_first_call_goes_on() {
        let mut session = Session::start();
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
    async fn requests_in_work_are_bounded_and_cancelled_ones_do_not_count() {
        let client = Client::new(tokio::io::sink(), CancellationToken::new());
        let message = |value: Value| serde_json::from_value(value).unwrap();
        for id in 0..MAX_IN_FLIGHT as u64 {
            client.admit(&message(request(id, "ping", json!({})))).unwrap();
        }
        let one_more = message(request(9999, "ping", json!({})));
        client.admit(&one_more).unwrap_err();
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        client.admit(&message(cancelled)).unwrap();
        client.admit(&one_more).unwrap();
    }

    #[tokio::test]
    async fn the_end_of_input_ends_the_server_also_with_a_call_in_flight() {
        let mut session = Session::start();
        session.open().await;
        session.send(request(2, "tools/call", json!({"name": "wait"}))).await;
        session.input.shutdown().await.unwrap();
        assert_eq!(session.receive().await["id"], 2, "the call is cancelled, and answered");
        timeout(SOON, session.server).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_shutdown_ends_the_server_while_its_client_is_still_there() {
        let (_ours, theirs) = tokio::io::duplex(1024);
        let (input, output) = tokio::io::split(theirs);
        let shutdown = CancellationToken::new();
        let server = tokio::spawn(serve_on(Waiter, input, output, shutdown.clone()));
        shutdown.cancel();
        timeout(SOON, server).await.unwrap().unwrap();
    }
}
