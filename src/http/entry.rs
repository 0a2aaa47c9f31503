//! The way in: every request passes here, and none goes on unless it may.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, EXPECT};
use axum::http::{Extensions, HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::arrival::{Arrival, Peer};
use super::auth::{Auth, Credential, Denied, until_it_ends};
use super::body::{self, BodyError};
use super::connections::Entrance;
use super::guard::{Guard, Refusal};
use super::job_detection::{ConnectionPeer, refuse_job};
use crate::telemetry::{self, events};

/// What every request has to pass.
pub(super) struct Gate {
    pub(super) guard: Guard,
    pub(super) auth: Auth,
    /// Paths that need no token.
    pub(super) open: Vec<String>,
    pub(super) max_body_bytes: usize,
    pub(super) body_timeout: Duration,
    /// `true` if jobs may call like anybody else.
    pub(super) allow_jobs: bool,
}

impl Gate {
    /// Who sends a request. Over the unix socket no token is needed: its user was checked. Where
    /// tenants are told apart that does not hold for jobs, which are some tenant's.
    async fn identify(
        &self,
        headers: &HeaderMap,
        arrival: Option<Arrival>,
    ) -> Result<Credential, Denied> {
        let is_trusted = match arrival {
            Some(Arrival::Unix { peer: Peer::User }) => true,
            Some(Arrival::Unix { peer: Peer::Job }) => !self.auth.asks(),
            Some(Arrival::Tcp(_)) | None => false,
        };
        if is_trusted && !headers.contains_key(AUTHORIZATION) {
            return Ok(self.auth.same_user());
        }
        self.auth.identify(headers).await
    }

    /// The sender of a request, as known some time ago.
    async fn identify_again(
        &self,
        known: Credential,
        headers: &HeaderMap,
        arrival: Option<Arrival>,
    ) -> Result<Credential, Denied> {
        if known.is_valid() { Ok(known) } else { self.identify(headers, arrival).await }
    }

    /// The whole body. To begin to read it sends `100 Continue` to a client that waits for that:
    /// one that announces too much sends nothing.
    async fn read_body(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, BodyError> {
        if headers.contains_key(EXPECT) && body::says_too_large(&body, self.max_body_bytes) {
            return Err(BodyError::TooLarge);
        }
        body::read(body, self.max_body_bytes, self.body_timeout).await
    }
}

/// Lets a request in, its body read, or says why not.
pub(super) async fn enter(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let arrival = request.extensions().get::<Arrival>().copied();
    if let Err(refusal) = check_head(&gate.guard, &request, arrival) {
        events::http_refused(refusal.counted_as());
        return refusal.into_response();
    }
    let (mut parts, body) = request.into_parts();
    if gate.open.iter().any(|open| open == parts.uri.path()) {
        // Nobody knows who sends it, so nobody waits for a body, which has no meaning there.
        return next.run(Request::from_parts(parts, Body::empty())).await;
    }
    if !gate.allow_jobs && is_job(&parts.extensions).await {
        events::http_refused(telemetry::Refusal::Job);
        return refuse_job(&parts.uri);
    }
    let caller = match gate.identify(&parts.headers, arrival).await {
        Ok(caller) => caller,
        Err(denied) => return refused(denied),
    };
    let body = match gate.read_body(&parts.headers, body).await {
        Ok(body) => body,
        Err(error) => {
            events::http_refused(telemetry::Refusal::Body);
            return refused_body(error, gate.max_body_bytes);
        }
    };
    // A body may take long to arrive: what was allowed at its beginning may not be at its end.
    let caller = match gate.identify_again(caller, &parts.headers, arrival).await {
        Ok(caller) => caller,
        Err(denied) => return refused(denied),
    };
    parts.extensions.insert(caller.identity);
    parts.extensions.insert(caller.clone());
    if parts.extensions.get::<Entrance>().is_some_and(|entrance| !entrance.let_in()) {
        // Its connection has been closed: nobody hears this.
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    until_it_ends(response, caller)
}

/// Returns `true` if a job of this server sends this request, whatever token it shows.
async fn is_job(extensions: &Extensions) -> bool {
    match extensions.get::<ConnectionPeer>() {
        Some(peer) => peer.get().await == Peer::Job,
        // Every connection has one; without it nobody knows who sends.
        None => true,
    }
}

fn check_head(guard: &Guard, request: &Request, arrival: Option<Arrival>) -> Result<(), Refusal> {
    guard.check_size(request.method(), request.uri(), request.headers())?;
    guard.check(request.headers(), arrival)
}

pub(super) fn refused(denied: Denied) -> Response {
    events::http_refused(telemetry::Refusal::Auth);
    denied.into_response()
}

fn refused_body(error: BodyError, limit: usize) -> Response {
    let (status, text) = match error {
        BodyError::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "the request is larger than {limit} bytes; write large input to a file and name that\n"
            ),
        ),
        BodyError::TooSlow => {
            (StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive\n".to_owned())
        }
        BodyError::Broken => {
            (StatusCode::BAD_REQUEST, "the request could not be read to its end\n".to_owned())
        }
    };
    // What is left of the request is not read, so nothing can follow it.
    (status, [(CONNECTION, "close")], text).into_response()
}
