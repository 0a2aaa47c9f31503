//! Finds the connections that a job of this server opened.
//!
//! A job that may call its server can start further jobs on looser terms than its own, so jobs are
//! turned away unless `http.allow_jobs` is set. Who is at the other end of a connection does not
//! change while it is open: each connection is examined once, however many requests it carries and
//! whatever it is upgraded to.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::net::UnixStream;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use super::arrival::{Arrival, Peer};
use super::routes::API;

type UnixCheck = dyn Fn(&UnixStream) -> bool + Send + Sync;
type TcpCheck = dyn Fn(SocketAddr, SocketAddr) -> bool + Send + Sync;

/// Tells connections of this server's jobs from all others.
#[derive(Clone)]
pub struct JobDetection {
    on_unix: Arc<UnixCheck>,
    on_tcp: Arc<TcpCheck>,
}

impl JobDetection {
    /// Asks `on_unix` about sockets that were accepted, and `on_tcp` about the address that accepted
    /// a connection and the address that it came from. `on_tcp` may block for milliseconds.
    pub fn new(
        on_unix: impl Fn(&UnixStream) -> bool + Send + Sync + 'static,
        on_tcp: impl Fn(SocketAddr, SocketAddr) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { on_unix: Arc::new(on_unix), on_tcp: Arc::new(on_tcp) }
    }

    /// Takes no connection for a job's: for a server that runs none.
    #[must_use]
    pub fn off() -> Self {
        Self::new(|_| false, |_, _| false)
    }

    pub(super) fn peer_on_unix(&self, stream: &UnixStream) -> Peer {
        if (self.on_unix)(stream) { Peer::Job } else { Peer::User }
    }
}

impl fmt::Debug for JobDetection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobDetection").finish_non_exhaustive()
    }
}

/// The process at the other end of one connection. Each request carries that of its connection.
#[derive(Debug, Clone)]
pub(super) struct ConnectionPeer(Arc<PeerState>);

#[derive(Debug)]
struct PeerState {
    arrival: Arrival,
    /// The address that accepted the connection, over TCP.
    server: Option<SocketAddr>,
    detection: JobDetection,
    found: OnceCell<Peer>,
}

impl ConnectionPeer {
    pub(super) fn new(
        arrival: Arrival,
        server: Option<SocketAddr>,
        detection: JobDetection,
    ) -> Self {
        Self(Arc::new(PeerState { arrival, server, detection, found: OnceCell::new() }))
    }

    /// Returns the kind of process. Over TCP the first request asks for it: connections that say
    /// nothing cost nothing.
    pub(super) async fn get(&self) -> Peer {
        let from = match self.0.arrival {
            Arrival::Unix { peer } => return peer,
            Arrival::Tcp(from) => from,
        };
        *self.0.found.get_or_init(|| self.examine(from)).await
    }

    async fn examine(&self, from: SocketAddr) -> Peer {
        // Without its own address the connection is closed, and nobody hears the answer.
        let Some(server) = self.0.server else { return Peer::Job };
        let check = Arc::clone(&self.0.detection.on_tcp);
        match spawn_blocking(move || check(server, from)).await {
            Ok(false) => Peer::User,
            Ok(true) | Err(_) => Peer::Job,
        }
    }
}

/// The stable word for the refusal of a job.
const CODE: &str = "caller_is_job";

/// The answer to a request of a job: in JSON where the API answers in JSON, else in words.
pub(super) fn refuse_job(uri: &Uri) -> Response {
    let message = "a job of this server may not call it; run the command in the job itself, or \
                   let jobs call with http.allow_jobs = true";
    if uri.path().starts_with(API) {
        let body = json!({"error": {"code": CODE, "message": message}});
        let kind = [(CONTENT_TYPE, "application/json")];
        return (StatusCode::FORBIDDEN, kind, body.to_string()).into_response();
    }
    (StatusCode::FORBIDDEN, format!("{CODE}: {message}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_connection_is_examined_once_and_not_before_it_is_asked_about() {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let on_tcp = move |_, from: SocketAddr| {
            counter.fetch_add(1, Ordering::Relaxed);
            from.port() == 7
        };
        let detection = JobDetection::new(|_| false, on_tcp);
        for (port, expected) in [(7, Peer::Job), (8, Peer::User)] {
            let from = SocketAddr::from(([127, 0, 0, 1], port));
            let peer = ConnectionPeer::new(Arrival::Tcp(from), Some(from), detection.clone());
            let before = count.load(Ordering::Relaxed);
            for _ in 0..3 {
                assert_eq!(peer.clone().get().await, expected);
            }
            assert_eq!(count.load(Ordering::Relaxed), before + 1);
        }
        let from = SocketAddr::from(([127, 0, 0, 1], 8));
        let closed = ConnectionPeer::new(Arrival::Tcp(from), None, detection);
        assert_eq!(closed.get().await, Peer::Job);
    }
}
