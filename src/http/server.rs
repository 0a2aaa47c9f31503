//! The HTTP server: its router with every route behind one guard, and its accept loop, which bounds
//! every connection and ends a shutdown in time.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post};
use axum::{Extension, Router};
use rustix::io::Errno;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::api::{
    ApiError, ApiProcess, ApiState, MissingRole, ServerControl, event_stream, jobs, openapi,
    operator, output,
};
use super::auth::{Authenticator, Credential, WELL_KNOWN};
use super::connection::{AcceptedStream, ConnectionServer};
use super::connection_table::{ConnectionLimiter, ConnectionLimits, PeerAddress};
use super::guard::{
    API_PREFIX, HeadRules, METRICS_PATH, RequestGuard, denied_response, guard_request,
};
use super::listen::{HttpError, HttpListeners, InheritedListeners};
use super::mcp_endpoint::{self, McpEndpoint};
use super::probes::{self, MetricsRenderer, Readiness, list_runbook_paths, runbook_response};
use super::settings::{HttpServerSettings, OfferedRoutes};
use crate::mcp::{Handler, trace_context_from_headers};
use crate::service::JobService;
use crate::telemetry::spans::{SpanKind, TraceSpan};

/// The time that responses in progress get at shutdown before open streams are closed.
const RESPONSE_GRACE: Duration = Duration::from_millis(250);

/// The pause after a failed accept. The most common cause is that the process has no free file
/// descriptor, and one must be closed first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// An HTTP server that listens but does not answer yet.
#[derive(Debug)]
pub struct Server {
    listeners: HttpListeners,
    settings: HttpServerSettings,
}

impl Server {
    /// Binds all configured listeners. Refuses an address that other machines can reach if no token
    /// is required.
    pub async fn bind(settings: HttpServerSettings) -> Result<Self, HttpError> {
        Self::bind_or_reuse(settings, InheritedListeners::default()).await
    }

    /// Does the same, but uses the listeners of a previous server where they fit the settings.
    pub async fn bind_or_reuse(
        settings: HttpServerSettings,
        inherited: InheritedListeners,
    ) -> Result<Self, HttpError> {
        if let Some(bind) = settings.bind
            && !bind.ip().to_canonical().is_loopback()
            && !settings.auth.requires_token()
        {
            return Err(HttpError::TokenRequired { bind });
        }
        if !is_valid_mcp_path(&settings.path) {
            return Err(HttpError::BadPath { path: settings.path });
        }
        let listeners = HttpListeners::bind(&settings, inherited).await?;
        Ok(Self { listeners, settings })
    }

    /// The bound address, if any. The port is the real one, even if port 0 was configured.
    #[must_use]
    pub const fn local_addr(&self) -> Option<SocketAddr> {
        self.listeners.bound()
    }

    /// Returns the listeners with the names under which a keeper holds them.
    #[must_use]
    pub fn named_listeners(&self) -> Vec<(&'static str, BorrowedFd<'_>)> {
        self.listeners.named_fds()
    }

    /// `true` if callers over TCP need a token.
    #[must_use]
    pub fn requires_token(&self) -> bool {
        self.settings.auth.requires_token()
    }

    /// The path of the unix socket, if the server listens on one.
    #[must_use]
    pub fn socket_path(&self) -> Option<&Path> {
        self.listeners.socket_path()
    }

    /// Serves requests until `shutdown` is cancelled. Then accepts nothing new, lets responses in
    /// progress finish, closes open streams, and returns within the configured grace period.
    pub async fn serve(self, services: HttpServices, shutdown: CancellationToken) {
        let closing = CancellationToken::new();
        let streams = CancellationToken::new();
        let readiness = services.readiness.clone();
        let router =
            build_router(services, &self.settings, self.listeners.bound(), streams.clone());
        let server = Arc::new(ConnectionServer::new(router, &self.settings, closing.clone()));
        let limits = ConnectionLimits {
            all: self.settings.max_connections,
            per_address: self.settings.max_connections_per_address,
        };
        let limiter = ConnectionLimiter::new(limits, self.settings.max_unread_bytes);
        let mut connections = JoinSet::new();
        loop {
            let (incoming, peer_address) = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = accept(&self.listeners, &limiter) => accepted,
            };
            if let Some(permit) = limiter.admit(peer_address.into()) {
                connections.spawn(Arc::clone(&server).serve(incoming, peer_address, permit));
            }
            while connections.try_join_next().is_some() {}
        }
        match *readiness.borrow() {
            // The next server listens on the same socket.
            Readiness::Replaced => self.listeners.leave_socket_file(),
            Readiness::Ready | Readiness::Draining => drop(self.listeners),
        }
        closing.cancel();
        close_connections(&mut connections, &streams, self.settings.shutdown_grace).await;
        // The connections that are still open have used up the grace period.
        connections.shutdown().await;
    }
}

/// `true` if the MCP endpoint can be mounted at `path`: a plain path that no other route uses.
fn is_valid_mcp_path(path: &str) -> bool {
    path.starts_with('/')
        && !path.contains(['{', '}', '?', '#', '*'])
        && !path.starts_with(API_PREFIX)
        && !RESERVED_PATHS.contains(&path)
}

/// Accepts the next connection and retries after errors.
async fn accept(
    listeners: &HttpListeners,
    limiter: &ConnectionLimiter,
) -> (AcceptedStream, PeerAddress) {
    loop {
        match listeners.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                if let Some(Errno::MFILE | Errno::NFILE) = Errno::from_io_error(&error) {
                    limiter.close_longest_idle();
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn close_connections(
    connections: &mut JoinSet<()>,
    streams: &CancellationToken,
    grace: Duration,
) {
    let deadline = Instant::now() + grace;
    let mut finished = std::pin::pin!(async { while connections.join_next().await.is_some() {} });
    if timeout(RESPONSE_GRACE.min(grace), &mut finished).await.is_err() {
        streams.cancel();
        if timeout_at(deadline, finished).await.is_err() {
            tracing::warn!("connections were still open at the end of the shutdown");
        }
    }
    streams.cancel();
}

/// The services that the routes call.
#[derive(Debug, Clone)]
pub struct HttpServices {
    pub service: JobService,
    pub handler: Handler,
    pub metrics: MetricsRenderer,
    pub readiness: watch::Receiver<Readiness>,
    pub control: ServerControl,
    pub process: ApiProcess,
}

/// Paths of other routes, which the MCP endpoint cannot use.
const RESERVED_PATHS: [&str; 6] =
    ["/healthz", "/readyz", METRICS_PATH, "/api", WELL_KNOWN, "/runbooks"];

/// Builds the router of a server that listens on `bound`. Cancelling `streams` ends all open
/// responses and MCP sessions.
fn build_router(
    services: HttpServices,
    settings: &HttpServerSettings,
    bound: Option<SocketAddr>,
    streams: CancellationToken,
) -> Router {
    let HttpServices { service, handler, metrics, readiness, control, process } = services;
    let public = Route::ALL.into_iter().filter(|route| route.is_public());
    let guard = RequestGuard {
        head_rules: HeadRules::new(settings, bound),
        auth: settings.auth.clone(),
        public_paths: public
            .map(|route| route.path(&settings.path))
            .chain(settings.auth.metadata_path())
            .chain(list_runbook_paths())
            .collect(),
        max_body_bytes: settings.max_body_bytes,
        body_timeout: settings.body_timeout,
        allow_jobs: settings.allow_jobs,
    };
    let handlers = RouteHandlers {
        mcp: Arc::new(McpEndpoint::new(
            handler.clone(),
            settings,
            bound,
            streams.clone(),
            readiness.clone(),
        )),
        api: Arc::new(ApiState::new(service.clone(), handler, control, process, streams)),
        service,
        auth: settings.auth.clone(),
        metrics,
        readiness,
    };
    let mount = |router: Router, route: Route| {
        router.route(&route.path(&settings.path), handlers.handler_for(route))
    };
    Route::ALL
        .into_iter()
        .filter(|route| route.is_offered(settings.routes))
        .fold(Router::new(), mount)
        .route("/api/{*rest}", any(no_such_path))
        .fallback(fallback(settings.auth.clone()))
        .layer(from_fn_with_state(Arc::new(guard), guard_request))
        .layer(from_fn_with_state(
            Arc::from(settings.path.as_str()),
            mcp_endpoint::refuse_in_json_rpc,
        ))
}

/// The handlers behind the routes.
struct RouteHandlers {
    mcp: Arc<McpEndpoint>,
    api: Arc<ApiState>,
    service: JobService,
    auth: Authenticator,
    metrics: MetricsRenderer,
    readiness: watch::Receiver<Readiness>,
}

impl RouteHandlers {
    fn handler_for(&self, route: Route) -> MethodRouter {
        const READ: &str = "GET, HEAD";
        const CHANGE: &str = "POST";
        const READ_OR_PUT: &str = "GET, HEAD, PUT";
        const READ_OR_POST: &str = "GET, HEAD, POST";
        match route {
            Route::Mcp => {
                let mcp = Arc::clone(&self.mcp);
                // Boxed: the future is large, and every layer above would carry it around.
                any(move |request: Request| Box::pin(Arc::clone(&mcp).serve(request)))
            }
            Route::ProtectedResource | Route::ProtectedResourceOfMcp => {
                metadata_route(self.auth.clone())
            }
            Route::Healthz => get(probes::healthz),
            Route::Readyz => {
                let readiness = self.readiness.clone();
                let service = self.service.clone();
                get(move || probes::readyz(readiness, service))
            }
            Route::Metrics => {
                let metrics = self.metrics.clone();
                get(move |caller, headers| scrape(metrics, caller, headers))
            }
            Route::Server => self.api(route, get(operator::describe_server), READ),
            Route::OpenApi => self.api(route, get(openapi::describe_api), READ),
            Route::Jobs => {
                self.api(route, get(jobs::list_jobs).post(jobs::submit_job), READ_OR_POST)
            }
            Route::Job => self.api(route, get(jobs::show_job), READ),
            Route::JobOutput => self.api(route, get(output::job_output), READ),
            Route::JobDigest => self.api(route, get(jobs::job_digest), READ),
            Route::JobStream => self.api(route, get(event_stream::job_stream), READ),
            Route::JobStop => self.api(route, post(jobs::stop_job), CHANGE),
            Route::JobInput => self.api(route, post(jobs::send_input), CHANGE),
            Route::JobResize => self.api(route, post(jobs::resize_terminal), CHANGE),
            Route::Queue => self.api(route, get(operator::queue), READ),
            Route::QueuePause => self.api(route, post(operator::pause), CHANGE),
            Route::QueueResume => self.api(route, post(operator::resume), CHANGE),
            Route::Drain => self.api(route, post(operator::drain), CHANGE),
            Route::Reload => self.api(route, post(operator::reload), CHANGE),
            Route::LogLevel => {
                let methods = get(operator::log_level).put(operator::set_log_level);
                self.api(route, methods, READ_OR_PUT)
            }
            Route::Upgrade => {
                self.api(route, get(operator::generation).post(operator::upgrade), READ_OR_POST)
            }
        }
    }

    /// Returns the handler of an API route; `allowed` are its methods.
    fn api(
        &self,
        route: Route,
        methods: MethodRouter<Arc<ApiState>>,
        allowed: &'static str,
    ) -> MethodRouter {
        methods
            .layer(from_fn(move |request, next| in_span(route, request, next)))
            .fallback(async move || ApiError::Method { allowed })
            .layer(from_fn(add_challenge))
            .with_state(Arc::clone(&self.api))
    }
}

/// The OAuth metadata that names the authorization server; 404 without OAuth.
fn metadata_route(auth: Authenticator) -> MethodRouter {
    get(move |headers: HeaderMap| async move {
        auth.metadata(&headers).unwrap_or_else(|| StatusCode::NOT_FOUND.into_response())
    })
}

/// Answers paths that are not a route: with the OAuth metadata of a resource that clients know by
/// another path than ours, as behind a proxy, with a runbook, or with 404. It is not a route because
/// that path may contain any characters.
fn fallback(auth: Authenticator) -> MethodRouter {
    let path = auth.metadata_path();
    any(move |request: Request| async move {
        let is_metadata = path.as_deref() == Some(request.uri().path());
        let found = is_metadata.then(|| auth.metadata(request.headers())).flatten();
        let found = found.or_else(|| runbook_response(request.method(), request.uri().path()));
        let nothing = (
            StatusCode::NOT_FOUND,
            "nothing here; the MCP endpoint is at another path (http.path)\n",
        );
        found.unwrap_or_else(|| nothing.into_response())
    })
}

/// Answers `/metrics`. Metrics show all tenants, so they need the role metrics or admin.
async fn scrape(
    metrics: MetricsRenderer,
    Extension(caller): Extension<Credential>,
    headers: HeaderMap,
) -> Response {
    match caller.require_metrics(&headers) {
        Ok(()) => metrics.response(&headers).await,
        Err(denied) => denied_response(denied),
    }
}

/// A route of the server. The server mounts exactly the routes in [`Route::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    Mcp,
    /// OAuth metadata that names the authorization server.
    ProtectedResource,
    /// The same metadata at the path for clients that know the MCP path.
    ProtectedResourceOfMcp,
    Healthz,
    Readyz,
    Metrics,
    Server,
    OpenApi,
    Jobs,
    Job,
    JobOutput,
    JobDigest,
    JobStream,
    JobStop,
    JobInput,
    JobResize,
    Queue,
    QueuePause,
    QueueResume,
    Drain,
    Reload,
    LogLevel,
    Upgrade,
}

impl Route {
    pub const ALL: [Self; 23] = [
        Self::Mcp,
        Self::ProtectedResource,
        Self::ProtectedResourceOfMcp,
        Self::Healthz,
        Self::Readyz,
        Self::Metrics,
        Self::Server,
        Self::OpenApi,
        Self::Jobs,
        Self::Job,
        Self::JobOutput,
        Self::JobDigest,
        Self::JobStream,
        Self::JobStop,
        Self::JobInput,
        Self::JobResize,
        Self::Queue,
        Self::QueuePause,
        Self::QueueResume,
        Self::Drain,
        Self::Reload,
        Self::LogLevel,
        Self::Upgrade,
    ];

    /// The path of the route when the MCP endpoint is at `mcp`. A name in braces matches any
    /// segment.
    #[must_use]
    pub fn path(self, mcp: &str) -> String {
        match self {
            Self::Mcp => mcp.to_owned(),
            Self::ProtectedResource => WELL_KNOWN.to_owned(),
            Self::ProtectedResourceOfMcp => format!("{WELL_KNOWN}{mcp}"),
            Self::Healthz => "/healthz".to_owned(),
            Self::Readyz => "/readyz".to_owned(),
            Self::Metrics => METRICS_PATH.to_owned(),
            Self::Server => "/api/v1/server".to_owned(),
            Self::OpenApi => "/api/v1/openapi.json".to_owned(),
            Self::Jobs => "/api/v1/jobs".to_owned(),
            Self::Job => "/api/v1/jobs/{id}".to_owned(),
            Self::JobOutput => "/api/v1/jobs/{id}/output".to_owned(),
            Self::JobDigest => "/api/v1/jobs/{id}/digest".to_owned(),
            Self::JobStream => "/api/v1/jobs/{id}/stream".to_owned(),
            Self::JobStop => "/api/v1/jobs/{id}/stop".to_owned(),
            Self::JobInput => "/api/v1/jobs/{id}/input".to_owned(),
            Self::JobResize => "/api/v1/jobs/{id}/resize".to_owned(),
            Self::Queue => "/api/v1/queue".to_owned(),
            Self::QueuePause => "/api/v1/queue/pause".to_owned(),
            Self::QueueResume => "/api/v1/queue/resume".to_owned(),
            Self::Drain => "/api/v1/drain".to_owned(),
            Self::Reload => "/api/v1/reload".to_owned(),
            Self::LogLevel => "/api/v1/log-level".to_owned(),
            Self::Upgrade => "/api/v1/upgrade".to_owned(),
        }
    }

    /// `true` if a server that offers these routes has this one.
    const fn is_offered(self, offered: OfferedRoutes) -> bool {
        match offered {
            OfferedRoutes::All => true,
            OfferedRoutes::ApiOnly => !matches!(
                self,
                Self::Mcp | Self::ProtectedResource | Self::ProtectedResourceOfMcp | Self::Metrics
            ),
        }
    }

    /// `true` if the route needs no token: a health probe has none, and neither does a client that
    /// looks for the way to get one.
    pub(super) const fn is_public(self) -> bool {
        matches!(
            self,
            Self::ProtectedResource | Self::ProtectedResourceOfMcp | Self::Healthz | Self::Readyz
        )
    }
}

/// Tells a refused caller that can get more rights which scope to request.
async fn add_challenge(request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Credential>().cloned();
    let headers = request.headers().clone();
    let mut response = next.run(request).await;
    if let Some(MissingRole(role)) = response.extensions().get().copied()
        && let Some(Err(denied)) = caller.map(|caller| caller.require(role, &headers))
    {
        denied.put_challenge(&mut response);
    }
    response
}

/// Answers paths that are not a route of the API.
async fn no_such_path() -> ApiError {
    ApiError::NoSuchPath
}

/// Answers a request at `route` in its own span if the request may change something.
async fn in_span(route: Route, request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let route = route.path("");
    let parent = trace_context_from_headers(request.headers());
    let name = format!("{} {route}", request.method());
    let mut span = TraceSpan::start(SpanKind::Server, name, parent.as_ref());
    span.set_attribute("http.request.method", request.method().as_str());
    span.set_attribute("http.route", route.as_str());
    let response = next.run(request).instrument(span.log_span().clone()).await;
    let status = response.status();
    span.set_attribute("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.set_error(&status);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::auth::{AuthSettings, Authenticator, TokenFilePath};
    use crate::http::settings::SocketPath;

    fn on(bind: &str) -> HttpServerSettings {
        HttpServerSettings { bind: bind.parse().ok(), ..HttpServerSettings::default() }
    }

    #[tokio::test]
    async fn a_public_address_needs_a_token() {
        for bind in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let refused = Server::bind(on(bind)).await.unwrap_err();
            assert_eq!(refused.code(), "token_required", "{bind}");
            assert!(refused.to_string().contains("--token-file"), "{refused}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "t\n").unwrap();
        let token_file = TokenFilePath::Configured(file.path().into());
        let auth = Authenticator::open(AuthSettings { token_file, oauth: None }).unwrap();
        Server::bind(HttpServerSettings { auth, ..on("0.0.0.0:0") }).await.unwrap();
        assert!(Server::bind(on("127.0.0.1:0")).await.unwrap().local_addr().unwrap().port() > 0);
    }

    #[tokio::test]
    async fn an_address_or_path_in_use_is_refused_with_its_code() {
        let first = Server::bind(on("127.0.0.1:0")).await.unwrap();
        let taken = on(&first.local_addr().unwrap().to_string());
        assert_eq!(Server::bind(taken).await.unwrap_err().code(), "bind_failed");
        for path in ["", "mcp", "/metrics", "/{id}", "/api", "/api/v1/jobs"] {
            let settings = HttpServerSettings { path: path.to_owned(), ..on("127.0.0.1:0") };
            assert_eq!(Server::bind(settings).await.unwrap_err().code(), "bad_path", "{path}");
        }
    }

    #[tokio::test]
    async fn a_server_listens_on_an_address_or_a_socket_or_both() {
        let nowhere = HttpServerSettings { bind: None, ..HttpServerSettings::default() };
        assert_eq!(Server::bind(nowhere.clone()).await.unwrap_err().code(), "no_listener");
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("yard.sock");
        let given = Some(SocketPath::Configured(path.clone()));
        let only_socket = HttpServerSettings { socket: given.clone(), ..nowhere.clone() };
        let server = Server::bind(only_socket).await.unwrap();
        assert_eq!((server.local_addr(), server.socket_path()), (None, Some(path.as_path())));
        let usual = Some(SocketPath::Default(path.clone()));
        let second = HttpServerSettings { socket: usual.clone(), ..on("127.0.0.1:0") };
        let second = Server::bind(second).await.unwrap();
        assert!(second.local_addr().is_some() && second.socket_path().is_none());
        for taken in [
            HttpServerSettings { socket: given, ..on("127.0.0.1:0") },
            HttpServerSettings { socket: usual, ..nowhere },
        ] {
            assert_eq!(Server::bind(taken).await.unwrap_err().code(), "socket_in_use");
        }
    }
}
