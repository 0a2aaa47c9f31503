//! The guard in front of every route. It checks the head of a request (size, `Host`, `Origin`),
//! asks `auth` who sends it, and reads its body.
//!
//! A browser that was lured to a hostile page can reach loopback too. It then sends that page's
//! `Origin` or, after DNS rebinding, that page's `Host`. Both are therefore checked against lists
//! even if no token is required.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, EXPECT, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use futures_util::{StreamExt, stream};
use hyper::body::Body as _;
use serde_json::json;

use super::auth::{AccessDenied, Authenticator, Credential};
use super::connection_table::{BusyMarker, ConnectionPeer, PeerAddress, PeerKind};
use super::settings::HttpServerSettings;
use crate::service::CallerRole;
use crate::telemetry::{self, events};

/// The path prefix of the API, which the MCP endpoint cannot use.
pub(super) const API_PREFIX: &str = "/api/";

/// The only path of callers with the role `metrics` that needs a token.
pub(super) const METRICS_PATH: &str = "/metrics";

/// The rules for the head of a request.
#[derive(Debug)]
pub(super) struct HeadRules {
    hosts: Vec<AllowedHost>,
    origins: Vec<String>,
    max_header_bytes: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum AllowedHost {
    Any,
    Name(String),
    NameAndPort(String, u16),
}

/// The reason why the head of a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadRefusal {
    Headers,
    NoHost,
    Host,
    Origin,
}

impl HeadRules {
    /// Creates the rules of a server that listens on `bound`.
    pub(super) fn new(settings: &HttpServerSettings, bound: Option<SocketAddr>) -> Self {
        Self {
            hosts: allowed_hosts(settings, bound)
                .iter()
                .map(|host| AllowedHost::new(host))
                .collect(),
            origins: allowed_origins(settings, bound),
            max_header_bytes: settings.max_header_bytes,
        }
    }

    /// Checks `Host` and `Origin`. Over the unix socket any `Host` is allowed, since no web page
    /// can reach a unix socket.
    fn check(
        &self,
        headers: &HeaderMap,
        peer_address: Option<PeerAddress>,
    ) -> Result<(), HeadRefusal> {
        if !matches!(peer_address, Some(PeerAddress::Unix { .. })) {
            self.check_host(headers)?;
        }
        self.check_origin(headers)
    }

    /// Checks the size of a head, its first line included. hyper bounds only its buffer, which may
    /// hold more than one head.
    fn check_size(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), HeadRefusal> {
        let target = uri.path_and_query().map_or(0, |target| target.as_str().len());
        let first = method.as_str().len() + target + " HTTP/1.1\r\n".len() + 1;
        let line =
            |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
        let size: usize = headers.iter().map(line).sum();
        if first + size > self.max_header_bytes { Err(HeadRefusal::Headers) } else { Ok(()) }
    }

    fn check_host(&self, headers: &HeaderMap) -> Result<(), HeadRefusal> {
        // An authority may name a user; a `Host` may not (RFC 9110 §7.2).
        let host = single_value(headers, &HOST).filter(|host| !host.contains('@'));
        let host: Authority = host.and_then(|host| host.parse().ok()).ok_or(HeadRefusal::NoHost)?;
        let name = normalize_host(host.host());
        let allowed = |allowed: &AllowedHost| allowed.matches(&name, host.port_u16());
        if self.hosts.iter().any(allowed) { Ok(()) } else { Err(HeadRefusal::Host) }
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), HeadRefusal> {
        if !headers.contains_key(ORIGIN) {
            return Ok(());
        }
        let origin = single_value(headers, &ORIGIN).ok_or(HeadRefusal::Origin)?;
        let allowed = |allowed: &String| allowed.eq_ignore_ascii_case(origin);
        if self.origins.iter().any(allowed) { Ok(()) } else { Err(HeadRefusal::Origin) }
    }
}

impl AllowedHost {
    fn new(text: &str) -> Self {
        if text == "*" {
            return Self::Any;
        }
        match text.parse::<Authority>() {
            Ok(authority) => match authority.port_u16() {
                Some(port) => Self::NameAndPort(normalize_host(authority.host()), port),
                None => Self::Name(normalize_host(authority.host())),
            },
            // A bare IPv6 address is not an authority, but it is a host.
            Err(_) => Self::Name(normalize_host(text)),
        }
    }

    fn matches(&self, name: &str, port: Option<u16>) -> bool {
        match self {
            Self::Any => true,
            Self::Name(allowed) => allowed == name,
            Self::NameAndPort(allowed, exact) => allowed == name && port == Some(*exact),
        }
    }
}

/// Returns the hosts that a server on `bound` accepts, with any port unless the entry names one.
fn allowed_hosts(settings: &HttpServerSettings, bound: Option<SocketAddr>) -> Vec<String> {
    let mut hosts: Vec<String> = LOOPBACK.map(str::to_owned).to_vec();
    if let Some(bound) = bound.filter(|bound| !bound.ip().is_unspecified()) {
        hosts.push(bound.ip().to_string());
    }
    hosts.extend(settings.allowed_hosts.iter().cloned());
    hosts
}

/// Returns the origins that a server on `bound` accepts: its own pages and the configured ones.
pub(super) fn allowed_origins(
    settings: &HttpServerSettings,
    bound: Option<SocketAddr>,
) -> Vec<String> {
    let configured =
        settings.allowed_origins.iter().map(|origin| origin.trim_end_matches('/').to_owned());
    // No web page is served from a unix socket.
    let Some(bound) = bound else { return configured.collect() };
    let mut hosts: Vec<String> = vec!["localhost".into(), "127.0.0.1".into(), "[::1]".into()];
    match bound.ip() {
        IpAddr::V4(ip) if !ip.is_unspecified() => hosts.push(ip.to_string()),
        IpAddr::V6(ip) if !ip.is_unspecified() => hosts.push(format!("[{ip}]")),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    let port = bound.port();
    let (scheme, usual) = if settings.tls_cert.is_some() { ("https", 443) } else { ("http", 80) };
    // Browsers leave the default port out.
    let own = |host: String| {
        if port == usual {
            format!("{scheme}://{host}")
        } else {
            format!("{scheme}://{host}:{port}")
        }
    };
    hosts.into_iter().map(own).chain(configured).collect()
}

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Returns the value of a header that occurs exactly once. Two values are as suspicious as none.
fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        (Some(_), Some(_)) | (None, _) => None,
    }
}

fn normalize_host(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase()
}

impl HeadRefusal {
    /// The label under which the refusal is counted.
    const fn metric_label(self) -> telemetry::HttpRefusalReason {
        match self {
            Self::Headers => telemetry::HttpRefusalReason::Headers,
            Self::NoHost | Self::Host => telemetry::HttpRefusalReason::Host,
            Self::Origin => telemetry::HttpRefusalReason::Origin,
        }
    }
}

impl IntoResponse for HeadRefusal {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Self::Headers => (
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "the request line and headers are larger than http.max_headers\n",
            ),
            Self::NoHost => (StatusCode::BAD_REQUEST, "a single valid Host header is required\n"),
            Self::Host => (
                StatusCode::FORBIDDEN,
                "this Host is not allowed; add it to http.allowed_hosts if it is yours\n",
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                "this Origin is not allowed; add it to http.allowed_origins if it is yours\n",
            ),
        };
        (status, text).into_response()
    }
}

/// The number of bytes of an oversized body that are still read and discarded while the response is
/// sent: a client that is cut off while it sends never sees the reason.
const MAX_DISCARDED_BYTES: usize = 256 * 1024 * 1024;

/// The reason why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyError {
    TooLarge,
    TooSlow,
    Broken,
}

/// `true` if a body declares that it is larger than `limit`.
fn declares_more_than(body: &Body, limit: usize) -> bool {
    body.size_hint().lower() > limit as u64
}

/// Reads a whole body of at most `limit` bytes within `time`. Gives up a larger one as soon as its
/// size is known.
async fn read_whole(body: Body, limit: usize, time: Duration) -> Result<Bytes, BodyError> {
    let too_large = declares_more_than(&body, limit);
    let mut chunks = body.into_data_stream();
    let read = async {
        if too_large { Err(BodyError::TooLarge) } else { collect(&mut chunks, limit).await }
    };
    let read = tokio::time::timeout(time, read).await.unwrap_or(Err(BodyError::TooSlow));
    if read == Err(BodyError::TooLarge) {
        // The task also ends when its connection ends.
        tokio::spawn(tokio::time::timeout(time, discard_rest(chunks)));
    }
    read
}

async fn discard_rest(mut chunks: BodyDataStream) {
    let mut discarded = 0;
    while let Some(Ok(chunk)) = chunks.next().await {
        discarded += chunk.len();
        if discarded > MAX_DISCARDED_BYTES {
            return;
        }
    }
}

async fn collect(chunks: &mut BodyDataStream, limit: usize) -> Result<Bytes, BodyError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| BodyError::Broken)?;
        if body.len() + chunk.len() > limit {
            return Err(BodyError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The checks that every request has to pass.
pub(super) struct RequestGuard {
    pub(super) head_rules: HeadRules,
    pub(super) auth: Authenticator,
    pub(super) public_paths: Vec<String>,
    pub(super) max_body_bytes: usize,
    pub(super) body_timeout: Duration,
    /// `true` if jobs of this server may call it like any other client.
    pub(super) allow_jobs: bool,
}

impl RequestGuard {
    /// Identifies the sender of a request. Over the unix socket no token is needed because the
    /// kernel has verified the user. If tenants are in use, that does not hold for jobs: each
    /// belongs to some tenant.
    async fn identify(
        &self,
        headers: &HeaderMap,
        peer_address: Option<PeerAddress>,
    ) -> Result<Credential, AccessDenied> {
        let is_trusted = match peer_address {
            Some(PeerAddress::Unix { peer: PeerKind::User }) => true,
            Some(PeerAddress::Unix { peer: PeerKind::Job }) => !self.auth.requires_token(),
            Some(PeerAddress::Tcp(_)) | None => false,
        };
        if is_trusted && !headers.contains_key(AUTHORIZATION) {
            return Ok(self.auth.same_user_credential());
        }
        self.auth.identify(headers).await
    }

    /// Returns the sender that was identified some time ago, or identifies it again if that
    /// credential is no longer valid.
    async fn revalidate(
        &self,
        known: Credential,
        headers: &HeaderMap,
        peer_address: Option<PeerAddress>,
    ) -> Result<Credential, AccessDenied> {
        if known.is_valid() { Ok(known) } else { self.identify(headers, peer_address).await }
    }

    /// Reads the whole body. Starting to read sends `100 Continue` to a client that waits for it,
    /// so a client that announces too large a body is refused before it sends it.
    async fn read_body(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, BodyError> {
        if headers.contains_key(EXPECT) && declares_more_than(&body, self.max_body_bytes) {
            return Err(BodyError::TooLarge);
        }
        read_whole(body, self.max_body_bytes, self.body_timeout).await
    }
}

/// Checks a request, reads its body and passes it to its route, or answers with the reason why not.
pub(super) async fn guard_request(
    State(guard): State<Arc<RequestGuard>>,
    request: Request,
    next: Next,
) -> Response {
    let peer_address = request.extensions().get::<PeerAddress>().copied();
    if let Err(refusal) = check_head(&guard.head_rules, &request, peer_address) {
        events::http_refused(refusal.metric_label());
        return refusal.into_response();
    }
    let (mut parts, body) = request.into_parts();
    if guard.public_paths.iter().any(|public| public == parts.uri.path()) {
        // No body is read: the sender is unknown, and these paths ignore bodies.
        return next.run(Request::from_parts(parts, Body::empty())).await;
    }
    if !guard.allow_jobs && is_from_job(&parts.extensions).await {
        events::http_refused(telemetry::HttpRefusalReason::Job);
        return job_refusal_response(&parts.uri);
    }
    let caller = match guard.identify(&parts.headers, peer_address).await {
        Ok(caller) => caller,
        Err(denied) => {
            events::http_refused(telemetry::HttpRefusalReason::Auth);
            return path_refusal_response(denied, &parts.uri);
        }
    };
    if let Err(denied) = check_path_role(&caller, &parts) {
        events::http_refused(telemetry::HttpRefusalReason::Auth);
        return path_refusal_response(denied, &parts.uri);
    }
    let body = match guard.read_body(&parts.headers, body).await {
        Ok(body) => body,
        Err(error) => {
            events::http_refused(telemetry::HttpRefusalReason::Body);
            return body_error_response(error, guard.max_body_bytes);
        }
    };
    // A body may take long to arrive: a credential that was valid at its beginning may not be at
    // its end.
    let caller = match guard.revalidate(caller, &parts.headers, peer_address).await {
        Ok(caller) => caller,
        Err(denied) => return denied_response(denied),
    };
    if let Err(denied) = check_path_role(&caller, &parts) {
        return path_refusal_response(denied, &parts.uri);
    }
    parts.extensions.insert(caller.identity);
    parts.extensions.insert(caller.clone());
    if parts.extensions.get::<BusyMarker>().is_some_and(|busy_marker| !busy_marker.mark_busy()) {
        // The connection has been closed: nobody reads this response.
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    cut_when_revoked(response, caller)
}

/// Returns the response with a body that fails when the credential of `caller` ends. It fails
/// instead of ending, so that half an output is not taken for the whole.
fn cut_when_revoked(response: Response, caller: Credential) -> Response {
    // A complete body is sent at once.
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| Body::from_stream(cut_stream(body, caller)))
}

fn cut_stream(
    body: Body,
    caller: Credential,
) -> impl stream::Stream<Item = Result<Bytes, axum::Error>> {
    let ending = caller.clone();
    let ended = Box::pin(async move { ending.ended().await });
    let parts = (body.into_data_stream(), ended, caller);
    stream::unfold(parts, async |(mut chunks, mut ended, caller)| {
        let next = tokio::select! {
            biased;
            () = &mut ended => Err(revoked_error()),
            chunk = chunks.next() => check_still_valid(chunk?, &caller),
        };
        Some((next, (chunks, ended, caller)))
    })
}

/// Returns the chunk, unless the credential has ended since the last one.
fn check_still_valid(
    chunk: Result<Bytes, axum::Error>,
    caller: &Credential,
) -> Result<Bytes, axum::Error> {
    if caller.is_valid() { chunk } else { Err(revoked_error()) }
}

fn revoked_error() -> axum::Error {
    axum::Error::new(io::Error::other("the credential of this stream has ended"))
}

/// `true` if a job of this server sends the request, whatever token it presents.
async fn is_from_job(extensions: &Extensions) -> bool {
    match extensions.get::<ConnectionPeer>() {
        Some(peer) => peer.get().await == PeerKind::Job,
        // Every connection has a peer. Without one the sender is unknown, so it counts as a job.
        None => true,
    }
}

fn check_head(
    head_rules: &HeadRules,
    request: &Request,
    peer_address: Option<PeerAddress>,
) -> Result<(), HeadRefusal> {
    head_rules.check_size(request.method(), request.uri(), request.headers())?;
    head_rules.check(request.headers(), peer_address)
}

/// Checks that the caller's role includes anything at this path: the role `metrics` has one path. The
/// roles for each single action are checked where it is done.
fn check_path_role(caller: &Credential, parts: &Parts) -> Result<(), AccessDenied> {
    match parts.uri.path() {
        METRICS_PATH => Ok(()),
        _ => caller.require(CallerRole::Read, &parts.headers),
    }
}

/// Answers a caller whose role includes nothing at this path: in JSON below the API prefix, else in
/// plain text.
fn path_refusal_response(denied: AccessDenied, uri: &Uri) -> Response {
    if uri.path().starts_with(API_PREFIX) {
        return denied.to_api_response();
    }
    denied.into_response()
}

pub(super) fn denied_response(denied: AccessDenied) -> Response {
    events::http_refused(telemetry::HttpRefusalReason::Auth);
    denied.into_response()
}

fn body_error_response(error: BodyError, limit: usize) -> Response {
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
    // The rest of the request is not read, so nothing can follow it.
    (status, [(CONNECTION, "close")], text).into_response()
}

/// The stable error code for a refused job.
const CALLER_IS_JOB: &str = "caller_is_job";

/// Answers the request of a job: in JSON below the API prefix, else in plain text.
fn job_refusal_response(uri: &Uri) -> Response {
    let message = "a job of this server may not call it; run the command in the job itself, or \
                   let jobs call with http.allow_jobs = true";
    if uri.path().starts_with(API_PREFIX) {
        let body = json!({"error": {"code": CALLER_IS_JOB, "message": message}});
        let kind = [(CONTENT_TYPE, "application/json")];
        return (StatusCode::FORBIDDEN, kind, body.to_string()).into_response();
    }
    (StatusCode::FORBIDDEN, format!("{CALLER_IS_JOB}: {message}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> HttpServerSettings {
        HttpServerSettings {
            allowed_hosts: vec!["yard.example".into(), "lab.example:9000".into()],
            allowed_origins: vec!["https://app.example".into()],
            ..HttpServerSettings::default()
        }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[track_caller]
    fn check(pairs: &[(&'static str, &str)], expected: Result<(), HeadRefusal>) {
        let head_rules = HeadRules::new(&settings(), "127.0.0.1:8000".parse().ok());
        assert_eq!(head_rules.check(&headers(pairs), None), expected, "{pairs:?}");
    }

    #[test]
    fn only_our_own_hosts_are_allowed() {
        for host in [
            "localhost",
            "LOCALHOST:1",
            "localhost.:8000",
            "127.0.0.1:8000",
            "[::1]:8000",
            "yard.example",
            "Yard.Example:443",
            "lab.example:9000",
        ] {
            check(&[("host", host)], Ok(()));
        }
        for host in ["evil.example", "localhost.evil.example", "lab.example", "127.0.0.1.nip.io"] {
            check(&[("host", host)], Err(HeadRefusal::Host));
        }
        check(&[], Err(HeadRefusal::NoHost));
        check(&[("host", "a b")], Err(HeadRefusal::NoHost));
        check(&[("host", "evil.example@localhost")], Err(HeadRefusal::NoHost));
        check(&[("host", "localhost"), ("host", "evil.example")], Err(HeadRefusal::NoHost));
    }

    #[test]
    fn the_size_of_a_head_includes_its_first_line() {
        let settings = HttpServerSettings { max_header_bytes: 100, ..settings() };
        let head_rules = HeadRules::new(&settings, None);
        let ask = |target: &str, value: &str| {
            let headers = headers(&[("x", value)]);
            head_rules.check_size(&Method::GET, &target.parse().unwrap(), &headers)
        };
        assert_eq!(ask("/", &"v".repeat(50)), Ok(()));
        assert_eq!(ask("/", &"v".repeat(100)), Err(HeadRefusal::Headers));
        assert_eq!(ask(&format!("/?{}", "q".repeat(50)), "v"), Ok(()));
        assert_eq!(ask(&format!("/?{}", "q".repeat(100)), "v"), Err(HeadRefusal::Headers));
    }

    #[test]
    fn an_origin_may_be_absent_our_own_or_configured() {
        for origin in [
            "http://localhost:8000",
            "http://127.0.0.1:8000",
            "http://[::1]:8000",
            "https://app.example",
        ] {
            check(&[("host", "localhost"), ("origin", origin)], Ok(()));
        }
        for origin in [
            "null",
            "http://localhost:3000",
            "https://localhost:8000",
            "http://evil.example",
            "https://app.example.evil.example",
            "",
        ] {
            check(&[("host", "localhost"), ("origin", origin)], Err(HeadRefusal::Origin));
        }
    }

    #[test]
    fn an_unspecified_address_is_not_an_allowed_host() {
        let head_rules = HeadRules::new(&settings(), "0.0.0.0:8000".parse().ok());
        assert_eq!(
            head_rules.check(&headers(&[("host", "0.0.0.0:8000")]), None),
            Err(HeadRefusal::Host)
        );
        let head_rules = HeadRules::new(&settings(), "10.1.2.3:8000".parse().ok());
        assert_eq!(head_rules.check(&headers(&[("host", "10.1.2.3:8000")]), None), Ok(()));
    }

    #[test]
    fn the_socket_needs_no_host_but_still_checks_the_origin() {
        let head_rules = HeadRules::new(&settings(), None);
        let ask = |pairs: &[(&'static str, &str)]| {
            head_rules.check(&headers(pairs), Some(PeerAddress::Unix { peer: PeerKind::User }))
        };
        assert_eq!(ask(&[]), Ok(()));
        assert_eq!(ask(&[("host", "whatever")]), Ok(()));
        assert_eq!(ask(&[("origin", "http://evil.example")]), Err(HeadRefusal::Origin));
        assert_eq!(ask(&[("origin", "http://localhost:8000")]), Err(HeadRefusal::Origin));
    }

    #[test]
    fn with_tls_our_own_origins_use_https() {
        let settings = HttpServerSettings {
            tls_cert: Some("cert.pem".into()),
            ..HttpServerSettings::default()
        };
        let origins = allowed_origins(&settings, "127.0.0.1:8000".parse().ok());
        assert!(origins.contains(&"https://localhost:8000".to_owned()), "{origins:?}");
        assert!(origins.iter().all(|origin| origin.starts_with("https://")), "{origins:?}");
        let origins = allowed_origins(&settings, "127.0.0.1:443".parse().ok());
        assert!(origins.contains(&"https://localhost".to_owned()), "{origins:?}");
    }

    async fn read_bytes(size: usize, limit: usize) -> Result<usize, BodyError> {
        let body = Body::from(vec![b'x'; size]);
        read_whole(body, limit, Duration::from_secs(60)).await.map(|bytes| bytes.len())
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit_and_not_beyond() {
        assert_eq!(read_bytes(0, 10).await, Ok(0));
        assert_eq!(read_bytes(10, 10).await, Ok(10));
        assert_eq!(read_bytes(11, 10).await, Err(BodyError::TooLarge));
    }

    #[tokio::test]
    async fn a_body_of_unknown_size_is_refused_at_its_limit() {
        let chunk = || Ok::<_, io::Error>(Bytes::from_static(b"12345678"));
        let endless = stream::repeat_with(chunk);
        let read = read_whole(Body::from_stream(endless), 20, Duration::from_secs(60)).await;
        assert_eq!(read, Err(BodyError::TooLarge));
    }

    #[tokio::test]
    async fn a_body_that_never_ends_times_out() {
        let never = stream::pending::<Result<Bytes, io::Error>>();
        let read = read_whole(Body::from_stream(never), 10, Duration::from_millis(10)).await;
        assert_eq!(read, Err(BodyError::TooSlow));
    }
}
