//! The way in: every request passes here, and none goes on unless it may.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::arrival::{Arrival, Peer};
use super::auth::{Auth, Credential, Denied, until_it_ends};
use super::body::{self, BodyError};
use super::guard::Guard;
use crate::telemetry::{self, events};

/// What every request has to pass.
pub(super) struct Gate {
    pub(super) guard: Guard,
    pub(super) auth: Auth,
    /// Paths that need no token.
    pub(super) open: Vec<String>,
    pub(super) max_body_bytes: usize,
    pub(super) body_timeout: Duration,
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
}

/// Lets a request in, its body read, or says why not.
pub(super) async fn enter(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let arrival = request.extensions().get::<Arrival>().copied();
    if let Err(refusal) = gate.guard.check(request.headers(), arrival) {
        events::http_refused(refusal.counted_as());
        return refusal.into_response();
    }
    let (mut parts, body) = request.into_parts();
    let mut caller = None;
    if !gate.open.iter().any(|open| open == parts.uri.path()) {
        match gate.identify(&parts.headers, arrival).await {
            Ok(credential) => {
                parts.extensions.insert(credential.identity);
                parts.extensions.insert(credential.clone());
                caller = Some(credential);
            }
            Err(denied) => return refused(denied),
        }
    }
    match body::read(body, gate.max_body_bytes, gate.body_timeout).await {
        Ok(body) => {
            let response = next.run(Request::from_parts(parts, Body::from(body))).await;
            match caller {
                Some(caller) => until_it_ends(response, caller),
                None => response,
            }
        }
        Err(error) => {
            events::http_refused(telemetry::Refusal::Body);
            refused_body(error, gate.max_body_bytes)
        }
    }
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
    (status, text).into_response()
}
