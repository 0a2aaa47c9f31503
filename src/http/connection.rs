//! Serves one connection from the handshake to its end.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use futures_util::future::BoxFuture;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::connection_table::{
    BusyGuard, BusyMarker, ConnectionPeer, ConnectionPermit, JobDetection, PeerAddress,
};
use super::settings::HttpServerSettings;
use crate::telemetry::{HttpRefusalReason, events};

/// The smallest buffer size that hyper accepts.
const MIN_HEADER_BYTES: usize = 8192;

/// The configuration that all connections share.
pub(super) struct ConnectionServer {
    router: Router,
    http1: http1::Builder,
    handshake_timeout: Duration,
    write_timeout: Duration,
    closing: CancellationToken,
    job_detection: JobDetection,
}

impl ConnectionServer {
    /// Creates a server for the routes of `router`. Cancelling `closing` ends each connection after
    /// the response in progress.
    pub(super) fn new(
        router: Router,
        settings: &HttpServerSettings,
        closing: CancellationToken,
    ) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            // Without a timer, the header timeout of hyper never fires.
            .timer(TokioTimer::new())
            .half_close(true)
            .header_read_timeout(settings.header_timeout)
            .max_buf_size(settings.max_header_bytes.max(MIN_HEADER_BYTES));
        let handshake_timeout = settings.header_timeout;
        let write_timeout = settings.write_timeout;
        let job_detection = settings.job_detection.clone();
        Self { router, http1, handshake_timeout, write_timeout, closing, job_detection }
    }

    /// Serves a connection until it ends or another connection evicts it.
    pub(super) async fn serve(
        self: Arc<Self>,
        incoming: AcceptedStream,
        peer_address: PeerAddress,
        permit: ConnectionPermit,
    ) {
        let evicted = permit.evicted();
        let ended = tokio::select! {
            () = evicted.cancelled() => return,
            ended = self.serve_http(incoming, peer_address, permit) => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(?peer_address, %error, "connection ended");
        }
    }

    async fn serve_http(
        &self,
        incoming: AcceptedStream,
        peer_address: PeerAddress,
        permit: ConnectionPermit,
    ) -> io::Result<()> {
        let server = incoming.server_address();
        let peer = ConnectionPeer::new(peer_address, server, self.job_detection.clone());
        let stream = tokio::select! {
            opened = incoming.open(self.handshake_timeout) => opened?,
            () = self.closing.cancelled() => return Ok(()),
        };
        let busy_hold = DelayedRelease::default();
        let half_close = HalfClose::default();
        let stream =
            ClientStream::new(stream, self.write_timeout, busy_hold.clone(), half_close.clone());
        let stream = TokioIo::new(stream);
        let upgrade_task = UpgradeTask::default();
        let router = TowerToHyperService::new(self.router.clone());
        let service = RequestService {
            router,
            peer_address,
            peer,
            busy_hold,
            half_close,
            upgrade_task: upgrade_task.clone(),
        };
        let permit = Arc::new(permit);
        let service = service_fn(move |request| {
            let busy_marker = BusyMarker::new(Arc::clone(&permit));
            service.clone().released(request, busy_marker)
        });
        let connection = self.http1.serve_connection(stream, service).with_upgrades();
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.closing.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        ended.map_err(io::Error::other)?;
        upgrade_task.run().await;
        Ok(())
    }
}

/// An accepted connection, before any handshake.
pub(super) enum AcceptedStream {
    Tcp(TcpStream),
    Tls(TcpStream, TlsAcceptor),
    Unix(UnixStream),
}

/// A bidirectional byte stream over any transport.
trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

impl AcceptedStream {
    /// The local address of the connection, if it is an open TCP connection.
    fn server_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) | Self::Tls(stream, _) => stream.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    /// Completes the TLS handshake, if there is one, within `handshake_timeout` and returns the
    /// stream.
    async fn open(self, handshake_timeout: Duration) -> io::Result<Box<dyn ByteStream>> {
        Ok(match self {
            Self::Tcp(stream) => Box::new(disable_nagle(stream)),
            Self::Unix(stream) => Box::new(stream),
            Self::Tls(stream, acceptor) => {
                let handshake = acceptor.accept(disable_nagle(stream));
                Box::new(timeout(handshake_timeout, handshake).await.map_err(io::Error::from)??)
            }
        })
    }
}

/// Disables Nagle's algorithm: small events would delay each other by 40 ms per call.
fn disable_nagle(stream: TcpStream) -> TcpStream {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    stream
}

/// Passes the requests of one connection to the router.
#[derive(Clone)]
struct RequestService {
    router: TowerToHyperService<Router>,
    peer_address: PeerAddress,
    peer: ConnectionPeer,
    busy_hold: DelayedRelease,
    half_close: HalfClose,
    /// The task that continues the connection after an upgrade.
    upgrade_task: UpgradeTask,
}

impl RequestService {
    async fn released(
        self,
        mut request: Request<Incoming>,
        busy_marker: BusyMarker,
    ) -> io::Result<Response<BusyBody>> {
        request.extensions_mut().insert(self.peer_address);
        request.extensions_mut().insert(self.peer);
        request.extensions_mut().insert(self.upgrade_task);
        request.extensions_mut().insert(busy_marker.clone());
        request.extensions_mut().insert(self.half_close.clone());
        let is_get = request.method() == Method::GET;
        let half_close = self.half_close.clone();
        let request = request.map(|body| RequestBody::new(body, half_close));
        let Ok(response) = self.router.call(request).await;
        let busy = busy_marker.take_guard().ok_or(io::ErrorKind::ConnectionAborted)?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // From here on the upgrade task owns the connection.
            self.half_close.enter(ConnectionPhase::Reading);
            self.busy_hold.hold_until_closed(busy);
            return Ok(response.map(|body| BusyBody { body, guards: None }));
        }
        if is_get && is_event_stream(response.headers()) {
            self.half_close.enter(ConnectionPhase::Streaming);
        }
        let guards =
            Some(BusyBodyParts { busy, busy_hold: self.busy_hold, half_close: self.half_close });
        Ok(response.map(|body| BusyBody { body, guards }))
    }
}

pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// `true` if a response with these headers is an event stream.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(EVENT_STREAM.as_bytes()))
}

/// A response body that keeps its connection busy until the body has been written.
struct BusyBody {
    body: Body,
    guards: Option<BusyBodyParts>,
}

/// The guards that a response holds on its connection.
struct BusyBodyParts {
    busy: BusyGuard,
    busy_hold: DelayedRelease,
    half_close: HalfClose,
}

impl HttpBody for BusyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // hyper polls for a frame when it has written the previous one.
        if let Some(BusyBodyParts { busy, .. }) = &self.guards {
            busy.release_bytes();
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let (Some(Ok(frame)), Some(BusyBodyParts { busy, .. })) = (&frame, &self.guards) {
            busy.hold_bytes(frame.data_ref().map_or(0, Bytes::len));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for BusyBody {
    fn drop(&mut self) {
        if let Some(BusyBodyParts { busy, busy_hold, half_close }) = self.guards.take() {
            busy_hold.hold_until_flushed(busy);
            half_close.enter(ConnectionPhase::Reading);
        }
    }
}

/// The task that continues a connection after hyper has released it for an upgrade. Each request
/// carries the task of its connection. The connection runs the task itself, so the task holds the
/// connection's permit and ends with the connection.
#[derive(Clone, Default)]
pub(super) struct UpgradeTask(Arc<Mutex<Option<BoxFuture<'static, ()>>>>);

impl UpgradeTask {
    /// Runs the task until its client goes away. Returns at once if there is no task.
    pub(super) async fn run(self) {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(next) = next {
            next.await;
        }
    }

    pub(super) fn set(&self, next: BoxFuture<'static, ()>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
    }
}

/// Keeps a connection busy after its response has been produced. Clones are cheap: the stream and
/// the responses share one.
#[derive(Debug, Clone, Default)]
struct DelayedRelease(Arc<Mutex<ReleaseCondition>>);

#[derive(Debug, Default)]
enum ReleaseCondition {
    #[default]
    Nothing,
    /// A response whose last bytes are not yet written.
    UntilFlushed { _busy: BusyGuard },
    /// An upgraded stream, which lives on after HTTP.
    UntilClosed { _busy: BusyGuard },
}

impl DelayedRelease {
    /// Keeps the connection busy until everything has been written.
    fn hold_until_flushed(&self, busy: BusyGuard) {
        self.replace(ReleaseCondition::UntilFlushed { _busy: busy });
    }

    /// Keeps the connection busy until the stream is closed.
    fn hold_until_closed(&self, busy: BusyGuard) {
        self.replace(ReleaseCondition::UntilClosed { _busy: busy });
    }

    fn release_flushed(&self) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let ReleaseCondition::UntilFlushed { .. } = *held {
            *held = ReleaseCondition::Nothing;
        }
    }

    fn replace(&self, new: ReleaseCondition) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }
}

/// The stream to a client, whose writes fail once the client has read nothing for `write_timeout`.
///
/// Nothing else would end a response that nobody reads: it would hold its buffers, and in a legacy
/// session everything behind it, for as long as the client keeps the connection open.
///
/// While a request is answered, the stream also checks whether the client has ended its side, which
/// hyper does not do (see [`HalfClose`]).
#[derive(Debug)]
struct ClientStream<S> {
    inner: S,
    write_timeout: Duration,
    /// Runs while a write is blocked.
    waiting: Option<Pin<Box<Sleep>>>,
    busy_hold: DelayedRelease,
    half_close: HalfClose,
    input: PeekedInput,
}

/// The input that the stream has read ahead of hyper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeekedInput {
    Unknown,
    /// The next byte of the input, which must be read before all others.
    Byte(u8),
    Ended,
}

impl<S> ClientStream<S> {
    /// Wraps a stream; any single write may block for at most `write_timeout`.
    const fn new(
        inner: S,
        write_timeout: Duration,
        busy_hold: DelayedRelease,
        half_close: HalfClose,
    ) -> Self {
        Self {
            inner,
            write_timeout,
            waiting: None,
            busy_hold,
            half_close,
            input: PeekedInput::Unknown,
        }
    }

    /// Returns the result of a write, or an error if writes have been blocked for too long.
    fn check_timeout<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.waiting = None;
            return write;
        }
        let write_timeout = self.write_timeout;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(write_timeout)));
        ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        events::connection_refused(HttpRefusalReason::Unread);
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read what is sent to it",
        )))
    }
}

impl<S: AsyncRead + Unpin> ClientStream<S> {
    /// Checks for the end of the input while a request is answered. Any byte that comes instead
    /// belongs to the next request; one byte is enough to know.
    ///
    /// # Errors
    /// When the input cannot be read, or when the connection must end with it.
    fn peek_input(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.half_close.phase() == ConnectionPhase::Reading {
            return Ok(());
        }
        if self.input == PeekedInput::Unknown {
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            self.input = match Pin::new(&mut self.inner).poll_read(cx, &mut buffer)? {
                Poll::Pending => PeekedInput::Unknown,
                Poll::Ready(()) => {
                    buffer.filled().first().copied().map_or(PeekedInput::Ended, PeekedInput::Byte)
                }
            };
        }
        match self.input {
            PeekedInput::Ended => self.half_close.note_input_end(),
            PeekedInput::Unknown | PeekedInput::Byte(_) => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let PeekedInput::Byte(byte) = self.input {
            self.input = PeekedInput::Unknown;
            buffer.put_slice(&[byte]);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.check_timeout(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        self.check_timeout(cx, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes whenever something has happened on the connection.
        self.peek_input(cx)?;
        let flush = Pin::new(&mut self.inner).poll_flush(cx);
        if flush.is_ready() {
            // hyper flushes once its own buffer is empty.
            self.busy_hold.release_flushed();
        }
        self.check_timeout(cx, flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shutdown = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.check_timeout(cx, shutdown)
    }
}

/// The effect of the end of a connection's input. Clones are cheap; the stream, the requests and
/// the responses of one connection share one.
///
/// Clients may end their side of a connection before they receive the response, as `nc -N` does.
/// The end of the input does not end a call: `half_close` tells hyper so, and hyper then ignores
/// the input while it answers. Over TCP, however, a client that is gone looks the same until
/// something is sent to it. So [`ClientStream`] checks for the end of the input itself, and
/// responses that are event streams then send comments ([`super::mcp_endpoint`]): a write that fails
/// ends the connection.
#[derive(Debug, Clone, Default)]
pub(super) struct HalfClose(Arc<HalfCloseState>);

#[derive(Debug, Default)]
struct HalfCloseState {
    phase: Mutex<ConnectionPhase>,
    input_ended: CancellationToken,
}

/// The phase of a connection, which decides what the end of its input means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ConnectionPhase {
    /// No request, or one that is being read: hyper sees the end of the input itself.
    #[default]
    Reading,
    /// A complete request is being answered: the client may wait for the response.
    Answering,
    /// The response is an endless event stream, for whose end no client waits.
    Streaming,
}

impl HalfClose {
    fn enter(&self, phase: ConnectionPhase) {
        *self.0.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    fn phase(&self) -> ConnectionPhase {
        *self.0.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the input has ended.
    ///
    /// # Errors
    /// When the connection must end with its input.
    fn note_input_end(&self) -> io::Result<()> {
        match self.phase() {
            ConnectionPhase::Reading => Ok(()),
            ConnectionPhase::Answering => {
                self.0.input_ended.cancel();
                Ok(())
            }
            ConnectionPhase::Streaming => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Cancelled when the input ends before the response: the client may be gone.
    pub(super) fn input_ended(&self) -> CancellationToken {
        self.0.input_ended.clone()
    }
}

/// The body of a request; it records when it has been read completely.
#[derive(Debug)]
struct RequestBody {
    body: Incoming,
    half_close: HalfClose,
}

impl RequestBody {
    fn new(body: Incoming, half_close: HalfClose) -> Self {
        if body.is_end_stream() {
            half_close.enter(ConnectionPhase::Answering);
        }
        Self { body, half_close }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.half_close.enter(ConnectionPhase::Answering);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Notify;

    use super::*;
    use crate::http::connection_table::{
        AddressGroup, ConnectionLimiter, ConnectionLimits, PeerKind,
    };

    const ARRIVAL: PeerAddress = PeerAddress::Unix { peer: PeerKind::User };

    /// Returns a client that is connected to a server with these routes, and the limiter, which
    /// allows one connection.
    fn connect(router: Router) -> (UnixStream, ConnectionLimiter) {
        let limiter =
            ConnectionLimiter::new(ConnectionLimits { all: 1, per_address: 1 }, usize::MAX);
        let permit = limiter.admit(AddressGroup::Loopback).unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let settings = HttpServerSettings::default();
        let server = Arc::new(ConnectionServer::new(router, &settings, CancellationToken::new()));
        tokio::spawn(server.serve(AcceptedStream::Unix(far), ARRIVAL, permit));
        (near, limiter)
    }

    async fn read_head(client: &mut UnixStream) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    /// Waits until the condition, which another task makes true, holds.
    async fn eventually(mut condition: impl FnMut() -> bool) {
        for _ in 0..10_000 {
            if condition() {
                return;
            }
            sleep(Duration::from_millis(1)).await;
        }
        panic!("it never came true");
    }

    #[tokio::test]
    async fn a_connection_is_busy_until_its_response_has_been_written() {
        let router = Router::new().route("/", get(async || vec![b'x'; 4 << 20]));
        let (mut client, limiter) = connect(router);
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        read_head(&mut client).await;
        assert!(limiter.admit(AddressGroup::Loopback).is_none(), "most of it has not been read");
        let mut body = vec![0; 4 << 20];
        client.read_exact(&mut body).await.unwrap();
        eventually(|| limiter.admit(AddressGroup::Loopback).is_some()).await;
    }

    /// Returns a route that answers when the test notifies it.
    fn answer_when_released(size: usize) -> (Router, Arc<Notify>) {
        let release = Arc::new(Notify::new());
        let released = Arc::clone(&release);
        let route = post(async move |body: Bytes| {
            assert_eq!(body, "request");
            released.notified().await;
            vec![b'x'; size]
        });
        (Router::new().route("/", route), release)
    }

    const POST: &[u8] = b"POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\n";

    #[tokio::test]
    async fn a_client_that_only_ends_its_own_side_gets_its_whole_response() {
        const SIZE: usize = 4 << 20;
        let (router, release) = answer_when_released(SIZE);
        let (mut client, limiter) = connect(router);
        client.write_all(&[POST, b"request"].concat()).await.unwrap();
        client.shutdown().await.unwrap();
        // hyper checks the input while it waits for the response.
        sleep(Duration::from_millis(20)).await;
        release.notify_one();
        assert!(read_head(&mut client).await.starts_with("HTTP/1.1 200"));
        let mut body = Vec::new();
        client.read_to_end(&mut body).await.unwrap();
        assert_eq!(body.len(), SIZE, "and then the connection is closed");
        eventually(|| limiter.admit(AddressGroup::Loopback).is_some()).await;
    }

    #[tokio::test]
    async fn a_request_that_ends_in_the_middle_closes_its_connection() {
        let (router, _told) = answer_when_released(1);
        let (mut client, _seats) = connect(router);
        client.write_all(&[POST, b"requ"].concat()).await.unwrap();
        client.shutdown().await.unwrap();
        let mut released = Vec::new();
        let read = client.read_to_end(&mut released);
        timeout(Duration::from_secs(60), read).await.expect("it is closed").unwrap();
    }

    #[tokio::test]
    async fn an_upgraded_connection_keeps_its_permit_until_it_is_closed() {
        let upgrade = get(async |mut request: axum::extract::Request| {
            let upgraded = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut stream = TokioIo::new(upgraded.await.unwrap());
                let byte = stream.read_u8().await.unwrap();
                stream.write_u8(byte + 1).await.unwrap();
                stream.read_u8().await.unwrap_err();
            });
            (StatusCode::SWITCHING_PROTOCOLS, [("connection", "upgrade"), ("upgrade", "test")])
        });
        let (mut client, limiter) = connect(Router::new().route("/", upgrade));
        let head = b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: test\r\n\r\n";
        client.write_all(head).await.unwrap();
        assert!(read_head(&mut client).await.starts_with("HTTP/1.1 101"));
        client.write_u8(7).await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), 8);
        assert!(limiter.admit(AddressGroup::Loopback).is_none(), "it is busy");
        drop(client);
        eventually(|| limiter.admit(AddressGroup::Loopback).is_some()).await;
    }
}

#[cfg(test)]
mod stream_tests {
    use futures_util::FutureExt as _;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    fn stall<S>(inner: S, write_timeout: Duration) -> ClientStream<S> {
        ClientStream::new(inner, write_timeout, DelayedRelease::default(), HalfClose::default())
    }

    #[tokio::test]
    async fn peeking_consumes_no_input_and_detects_its_end() {
        let (near, mut far) = duplex(16);
        let mut stream = stall(near, Duration::from_secs(3600));
        let half_close = stream.half_close.clone();
        half_close.enter(ConnectionPhase::Answering);
        stream.flush().await.unwrap();
        far.write_all(b"next").await.unwrap();
        stream.flush().await.unwrap();
        stream.flush().await.unwrap();
        let mut next = [0; 4];
        stream.read_exact(&mut next).await.unwrap();
        assert_eq!(&next, b"next");
        drop(far);
        assert!(!half_close.input_ended().is_cancelled());
        // An in-memory stream has no half-close. It only matters that the end was seen.
        stream.flush().await.ok();
        assert!(half_close.input_ended().is_cancelled());
        half_close.enter(ConnectionPhase::Streaming);
        stream.flush().await.unwrap_err();
    }

    #[tokio::test]
    async fn a_write_that_nobody_reads_times_out() {
        let (near, _far) = duplex(16);
        let mut stalled = stall(near, Duration::from_millis(10));
        let error = stalled.write_all(&[0; 17]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_reads_slowly_but_reads_is_waited_for() {
        let (near, mut far) = duplex(1);
        let mut stalled = stall(near, Duration::from_secs(3600));
        for byte in 0..3 {
            stalled.write_u8(byte).now_or_never().expect("there is room").unwrap();
            assert!(stalled.waiting.is_none(), "what was taken ends the wait");
            assert!(stalled.write_u8(99).now_or_never().is_none(), "it is full");
            assert!(stalled.waiting.is_some());
            assert_eq!(far.read_u8().await.unwrap(), byte);
        }
    }

    #[tokio::test]
    async fn reads_have_no_timeout() {
        let (near, mut far) = duplex(16);
        let mut stream = stall(near, Duration::from_millis(1));
        let read = tokio::spawn(async move { stream.read_u8().await });
        sleep(Duration::from_millis(20)).await;
        far.write_u8(9).await.unwrap();
        assert_eq!(read.await.unwrap().unwrap(), 9);
    }

    #[test]
    fn the_end_of_the_input_is_signalled_to_a_response_and_ends_a_stream() {
        let half_close = HalfClose::default();
        half_close.note_input_end().expect("hyper sees it");
        assert!(!half_close.input_ended().is_cancelled());
        half_close.enter(ConnectionPhase::Streaming);
        half_close.note_input_end().unwrap_err();
        assert!(!half_close.input_ended().is_cancelled());
        half_close.enter(ConnectionPhase::Answering);
        half_close.note_input_end().unwrap();
        assert!(half_close.input_ended().is_cancelled());
    }
}
