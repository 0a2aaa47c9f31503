//! The MCP endpoint as JSON lines: what `stdio --connect` asks for, by an upgrade.
//!
//! One connection is then one client, as on standard input and output, and served by the same
//! code. No page can ask for it: browsers let none set `Upgrade`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONNECTION, UPGRADE};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::arrival::Arrival;
use super::auth::Credential;
use super::health::{self, Readiness};
use crate::lines::{self, DIRECTORY, PROTOCOL};
use crate::mcp::{Handler, Network};
use crate::telemetry::{Transport, events};

/// What goes on with a connection once hyper has let it go. Each request carries the one of its
/// connection, which carries it out itself: so it holds its place among the connections, and ends
/// with them.
#[derive(Clone, Default)]
pub(super) struct Afterwards(Arc<Mutex<Option<BoxFuture<'static, ()>>>>);

impl Afterwards {
    /// Goes on until its client goes away; at once where there is nothing to go on with.
    pub(super) async fn run(self) {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(next) = next {
            next.await;
        }
    }

    fn set(&self, next: BoxFuture<'static, ()>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
    }
}

/// Whether a request asks for lines.
pub(super) fn is_asked_for(request: &Request) -> bool {
    request.method() == Method::GET
        && has_word(request.headers(), &CONNECTION, "upgrade")
        && has_word(request.headers(), &UPGRADE, PROTOCOL)
}

/// Turns the connection of this request into lines for its caller, until `shutdown` or the end of
/// the caller's credential. The client is told when no further work is taken; where that is so
/// already, it is sent away.
pub(super) fn open(
    mut request: Request,
    handler: &Handler,
    shutdown: CancellationToken,
    mut readiness: watch::Receiver<Readiness>,
) -> Response {
    if *readiness.borrow() == Readiness::Draining {
        return health::draining();
    }
    let extensions = request.extensions();
    let afterwards = extensions.get::<Afterwards>().cloned();
    let caller = extensions.get::<Credential>().cloned();
    let (Some(afterwards), Some(caller)) = (afterwards, caller) else {
        return StatusCode::NOT_IMPLEMENTED.into_response();
    };
    let handler = match directory(&request) {
        Some(directory) => handler.for_caller(caller.identity).in_directory(&directory),
        None => handler.for_caller(caller.identity),
    };
    let handler = handler.watched(network(&request));
    let upgrade = hyper::upgrade::on(&mut request);
    afterwards.set(Box::pin(async move {
        match upgrade.await {
            Ok(stream) => {
                let _session = events::session_opened(Transport::Proxy);
                let streams = tokio::io::split(TokioIo::new(stream));
                let closing = shutdown.child_token();
                let revoked = async {
                    caller.ended().await;
                    closing.cancel();
                };
                let draining = async move {
                    // Whoever could tell is gone at the very end only.
                    readiness.wait_for(|now| *now == Readiness::Draining).await.ok();
                };
                let ends = lines::Ends {
                    shutdown: closing.clone(),
                    patience: lines::PATIENCE,
                    is_allowed: Arc::new({
                        let caller = caller.clone();
                        move || caller.is_valid()
                    }),
                };
                let serving = lines::serve_on(handler, streams, ends, draining);
                tokio::join!(closing.run_until_cancelled(revoked), async {
                    serving.await;
                    closing.cancel();
                });
            }
            Err(error) => tracing::debug!(%error, "connection not upgraded"),
        }
    }));
    let headers = [(CONNECTION, "upgrade"), (UPGRADE, PROTOCOL)];
    (StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response()
}

fn network(request: &Request) -> Network {
    request.extensions().get::<Arrival>().map_or(Network::Tcp, Arrival::network)
}

/// Where the jobs of this client run that name no directory: where it was started itself, if that
/// is on this machine.
fn directory(request: &Request) -> Option<PathBuf> {
    let is_here = match request.extensions().get::<Arrival>()? {
        Arrival::Unix { .. } => true,
        Arrival::Tcp(from) => from.ip().to_canonical().is_loopback(),
    };
    let named = request.headers().get(DIRECTORY).filter(|_| is_here)?;
    let path = PathBuf::from(OsString::from_vec(STANDARD.decode(named).ok()?));
    path.is_absolute().then_some(path)
}

fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|given| given.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_wish_is_one() {
        for (method, connection, upgrade, expected) in [
            (Method::GET, "Upgrade", "shellyard-stdio", true),
            (Method::GET, "keep-alive, upgrade", "h2c, Shellyard-Stdio", true),
            (Method::GET, "keep-alive", "shellyard-stdio", false),
            (Method::GET, "Upgrade", "websocket", false),
            (Method::POST, "Upgrade", "shellyard-stdio", false),
        ] {
            let request = Request::builder()
                .method(method)
                .header(CONNECTION, connection)
                .header(UPGRADE, upgrade)
                .body(Body::empty())
                .unwrap();
            assert_eq!(is_asked_for(&request), expected, "{request:?}");
        }
    }
}
