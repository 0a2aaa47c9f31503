//! Serves one connection from the handshake to its end.

use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use futures_util::future::BoxFuture;
use hyper::body::{Frame, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio_util::sync::CancellationToken;

use super::client_stream::{BusyHold, ClientStream};
use super::client_stream::{ConnectionPhase, HalfClose, RequestBody};
use super::connection_table::{BusyGuard, BusyMarker, ConnectionPermit};
use super::keep_alive::is_event_stream;
use super::listen::AcceptedStream;
use super::peer::PeerAddress;
use super::peer::{ConnectionPeer, JobDetection};
use super::settings::HttpServerSettings;

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
        let busy_hold = BusyHold::default();
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
            service.clone().answer(request, busy_marker)
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

/// Passes the requests of one connection to the router.
#[derive(Clone)]
struct RequestService {
    router: TowerToHyperService<Router>,
    peer_address: PeerAddress,
    peer: ConnectionPeer,
    busy_hold: BusyHold,
    half_close: HalfClose,
    /// The task that continues the connection after an upgrade.
    upgrade_task: UpgradeTask,
}

impl RequestService {
    async fn answer(
        self,
        mut request: Request<hyper::body::Incoming>,
        busy_marker: BusyMarker,
    ) -> io::Result<Response<GuardedBody>> {
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
            return Ok(response.map(|body| GuardedBody { body, guards: None }));
        }
        if is_get && is_event_stream(response.headers()) {
            self.half_close.enter(ConnectionPhase::Streaming);
        }
        let guards =
            Some(BodyGuards { busy, busy_hold: self.busy_hold, half_close: self.half_close });
        Ok(response.map(|body| GuardedBody { body, guards }))
    }
}

/// A response body that keeps its connection busy until the body has been written.
struct GuardedBody {
    body: Body,
    guards: Option<BodyGuards>,
}

/// The guards that a response holds on its connection.
struct BodyGuards {
    busy: BusyGuard,
    busy_hold: BusyHold,
    half_close: HalfClose,
}

impl hyper::body::Body for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // hyper polls for a frame when it has written the previous one.
        if let Some(BodyGuards { busy, .. }) = &self.guards {
            busy.release_bytes();
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let (Some(Ok(frame)), Some(BodyGuards { busy, .. })) = (&frame, &self.guards) {
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

impl Drop for GuardedBody {
    fn drop(&mut self) {
        if let Some(BodyGuards { busy, busy_hold, half_close }) = self.guards.take() {
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

#[cfg(test)]
mod tests {
    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio::sync::Notify;

    use super::*;
    use crate::http::connection_table::{ConnectionLimiter, ConnectionLimits};
    use crate::http::peer::{AddressGroup, PeerKind};

    const ARRIVAL: PeerAddress = PeerAddress::Unix { peer: PeerKind::User };

    /// Returns a client that is connected to a server with these routes, and the limiter, which
    /// allows one connection.
    fn connect(router: Router) -> (UnixStream, ConnectionLimiter) {
        let limiter = ConnectionLimiter::new(ConnectionLimits { all: 1, each: 1 }, usize::MAX);
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
            tokio::time::sleep(Duration::from_millis(1)).await;
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
    fn answer_when_told(size: usize) -> (Router, Arc<Notify>) {
        let told = Arc::new(Notify::new());
        let answer = Arc::clone(&told);
        let route = post(async move |body: Bytes| {
            assert_eq!(body, "request");
            answer.notified().await;
            vec![b'x'; size]
        });
        (Router::new().route("/", route), told)
    }

    const POST: &[u8] = b"POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\n";

    #[tokio::test]
    async fn a_client_that_only_ends_its_own_side_gets_its_whole_response() {
        const SIZE: usize = 4 << 20;
        let (router, told) = answer_when_told(SIZE);
        let (mut client, limiter) = connect(router);
        client.write_all(&[POST, b"request"].concat()).await.unwrap();
        client.shutdown().await.unwrap();
        // hyper checks the input while it waits for the response.
        tokio::time::sleep(Duration::from_millis(20)).await;
        told.notify_one();
        assert!(read_head(&mut client).await.starts_with("HTTP/1.1 200"));
        let mut body = Vec::new();
        client.read_to_end(&mut body).await.unwrap();
        assert_eq!(body.len(), SIZE, "and then the connection is closed");
        eventually(|| limiter.admit(AddressGroup::Loopback).is_some()).await;
    }

    #[tokio::test]
    async fn a_request_that_ends_in_the_middle_is_not_waited_for() {
        let (router, _told) = answer_when_told(1);
        let (mut client, _seats) = connect(router);
        client.write_all(&[POST, b"requ"].concat()).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let read = client.read_to_end(&mut answer);
        tokio::time::timeout(Duration::from_secs(60), read).await.expect("it is closed").unwrap();
    }

    #[tokio::test]
    async fn an_upgraded_connection_keeps_its_seat_until_it_is_closed() {
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
