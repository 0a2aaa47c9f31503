//! The MCP endpoint: rmcp's streamable HTTP service, set up for both eras.
//!
//! **Legacy clients get sessions.** Only inside a session does rmcp deliver
//! `notifications/cancelled` (request ids are unique per session, not per server), and only
//! there do clients find the GET stream that some insist on. The price is state, which
//! [`Sessions`] bounds; it ends only those in which nothing is in work, so a quiet call survives.
//! **Modern clients are stateless** whatever the setting; hanging up cancels their call.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::arrival::Arrival;
use super::auth::{Credential, Denied};
use super::entry::refused;
use super::guard::allowed_origins;
use super::half_close::HalfClose;
use super::health::Readiness;
use super::keep_alive::{Patience, answer_in_time};
use super::lines;
use super::refusal::{in_json_rpc, unreadable};
use super::sessions::{Full, Sessions};
use super::settings::HttpSettings;
use crate::lines::id_near_ends;
use crate::mcp::{Handler, Network, Watched};
use crate::yard::{Identity, Role};

/// Where a modern client names the method of its request.
const METHOD: &str = "mcp-method";

/// The time for an answer that takes none, so that it need not be a stream.
const AT_ONCE: Duration = Duration::from_millis(20);

/// When a request that should have been answered long ago gets its response begun.
const LATER: Duration = Duration::from_secs(2);

/// The MCP endpoint.
pub(super) struct McpMount {
    service: StreamableHttpService<Watched, Sessions>,
    sessions: Arc<Sessions>,
    handler: Handler,
    between_comments: Duration,
    streams: CancellationToken,
    readiness: watch::Receiver<Readiness>,
}

impl McpMount {
    /// Serves `handler` on a server that listens on `bound`; cancelling `streams` ends all
    /// open responses and sessions.
    pub(super) fn new(
        handler: Handler,
        settings: &HttpSettings,
        bound: Option<SocketAddr>,
        streams: CancellationToken,
        readiness: watch::Receiver<Readiness>,
    ) -> Self {
        let sessions = Arc::new(Sessions::new(settings.max_sessions));
        let reaping = Sessions::reap(Arc::downgrade(&sessions), settings.session_idle);
        tokio::spawn(streams.clone().run_until_cancelled_owned(reaping));
        let config = config(settings, bound, streams.clone());
        let fresh = handler.clone();
        let service = StreamableHttpService::new(
            move || Ok(fresh.for_connection().watched(Network::Tcp)),
            Arc::clone(&sessions),
            config,
        );
        let between_comments = settings.keep_alive_every;
        Self { service, sessions, handler, between_comments, streams, readiness }
    }

    /// A tool may be quiet for long, and its call is begun to be answered at once. What cannot be
    /// answered at all is said by a status, so all else waits for its own: it is never quiet.
    fn patience_for(&self, parts: &Parts) -> Patience {
        // Modern clients have to say it, and rmcp compares it with the message.
        let calls_tool = parts.headers.get(METHOD).is_some_and(|method| method == "tools/call");
        let before_stream = if calls_tool { AT_ONCE } else { LATER };
        let half_close = parts.extensions.get::<HalfClose>();
        let input_ended = half_close.map(HalfClose::input_ended).unwrap_or_default();
        Patience { before_stream, between_comments: self.between_comments, input_ended }
    }

    /// Answers one request, whose body has been read already.
    pub(super) async fn serve(self: Arc<Self>, request: Request) -> Response {
        if lines::is_asked_for(&request) {
            let (streams, readiness) = (self.streams.clone(), self.readiness.clone());
            return lines::open(request, &self.handler, streams, readiness);
        }
        let (mut parts, body) = request.into_parts();
        let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
            return StatusCode::BAD_REQUEST.into_response();
        };
        if let Err(denied) = self.check_scope(&parts, &body) {
            return refused(denied);
        }
        let tenant = parts.extensions.get::<Identity>().map(|caller| caller.tenant);
        self.sessions.hide_foreign(&mut parts.headers, tenant);
        if let Some(network) = parts.extensions.get().map(Arrival::network) {
            parts.extensions.insert(network);
        }
        let is_json = is_json(&parts);
        let id = id_near_ends(&body);
        let patience = self.patience_for(&parts);
        let request = Request::from_parts(parts, Body::from(body.clone()));
        let answer = Box::pin(async move {
            let answer =
                Sessions::opening_for(tenant, Box::pin(self.service.handle(request))).await;
            let response = answer.map_or_else(full, |response| response.map(Body::new));
            in_json_rpc(response, id).await
        });
        let response = answer_in_time(answer, patience).await;
        // rmcp calls a body that it cannot read an unsupported media type.
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && is_json {
            return unreadable(&body);
        }
        response
    }

    /// Clients with scopes are told at once which one they need, so that they can ask for it;
    /// all others get the tool's own answer.
    fn check_scope(&self, parts: &Parts, body: &Bytes) -> Result<(), Denied> {
        match parts.extensions.get::<Credential>() {
            Some(caller) if caller.has_scopes() && self.handler.needs_run(body) => {
                caller.require(Role::Run, &parts.headers)
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn config(
    settings: &HttpSettings,
    bound: Option<SocketAddr>,
    streams: CancellationToken,
) -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(true)
        .with_json_response(true)
        .with_sse_keep_alive(Some(settings.keep_alive_every))
        .with_max_request_body_bytes(settings.max_body_bytes)
        .with_cancellation_token(streams)
        .with_allowed_origins(allowed_origins(settings, bound).into_iter().map(with_some_port))
        .enforce_origin_validation()
        // The guard has looked at the host, and knows where it does not matter.
        .disable_allowed_hosts()
}

/// rmcp wants a port, or `:*`. The guard before it has compared the whole origin already.
fn with_some_port(origin: String) -> String {
    let host = origin.split_once("://").map_or("", |(_, host)| host);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if host.is_empty() || has_port { origin } else { format!("{origin}:*") }
}

/// All sessions that this tenant may have are in use.
fn full(_: Full) -> Response {
    let text = "all MCP sessions are in use, with calls in flight or open streams; end one, or try again later\n";
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "10")], text).into_response()
}

fn is_json(parts: &Parts) -> bool {
    let kind = parts.headers.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_origin_reaches_rmcp_with_a_port() {
        for (origin, expected) in [
            ("http://localhost:8000", "http://localhost:8000"),
            ("http://[::1]:8000", "http://[::1]:8000"),
            ("http://[::1]", "http://[::1]:*"),
            ("https://app.example", "https://app.example:*"),
            ("null", "null"),
        ] {
            assert_eq!(with_some_port(origin.to_owned()), expected);
        }
    }
}
