//! Sends one request and reads its response, or upgrades one connection.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONNECTION, HOST, HeaderMap, HeaderValue, UPGRADE, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::process::{Uid, geteuid};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::target::{Authority, BearerToken, Endpoint, ServerTarget};
use crate::private_files::SocketAddress;

/// The time limit for a whole response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest accepted response.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

/// The number of characters of a refusal that an error quotes.
const MAX_QUOTED_CHARS: usize = 100;

/// The first bytes of the response that refuses a job.
const CALLER_IS_JOB: &[u8] = b"caller_is_job:";

/// A client of one server. Clones are equivalent.
#[derive(Clone)]
pub struct ServerClient {
    target: ServerTarget,
    token: Option<BearerToken>,
    tls: Option<TlsConnector>,
    /// Headers of every request.
    headers: HeaderMap,
    /// The body of requests to upgrade a connection.
    upgrade_body: Bytes,
}

/// An upgraded connection: a raw stream of bytes in both directions.
pub type UpgradedStream = TokioIo<hyper::upgrade::Upgraded>;

/// The response of a server.
#[derive(Debug)]
pub struct ServerResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl ServerClient {
    /// Creates a client that authenticates with `token`.
    ///
    /// # Errors
    /// When the target needs TLS and this machine trusts no certificate.
    pub fn new(target: ServerTarget, token: Option<BearerToken>) -> Result<Self, ClientError> {
        let tls = match target.endpoint() {
            Endpoint::Tls(_) => Some(
                tls_connector()
                    .map_err(|source| ClientError::Tls { target: target.to_string(), source })?,
            ),
            Endpoint::Tcp(_) | Endpoint::Socket(_) => None,
        };
        Ok(Self { target, token, tls, headers: HeaderMap::new(), upgrade_body: Bytes::new() })
    }

    /// Adds a header to every request.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sends this body with every request to upgrade a connection.
    #[must_use]
    pub fn with_upgrade_body(self, body: Vec<u8>) -> Self {
        Self { upgrade_body: body.into(), ..self }
    }

    #[must_use]
    pub const fn target(&self) -> &ServerTarget {
        &self.target
    }

    /// Sends one request and reads the whole response. An error status is a response, not an error.
    ///
    /// # Errors
    /// When there is no response, or none within the limits of time and size.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<ServerResponse, ClientError> {
        let mut request = self.build_request(method, path, body)?;
        request.headers_mut().extend(headers);
        self.with_timeout(async { self.read_response(self.send(request).await?).await }).await
    }

    /// Sends one request and returns its response as soon as the head is there; the body follows in
    /// pieces, for as long as the server sends some.
    ///
    /// # Errors
    /// When there is no response within the time limit.
    pub async fn open_stream(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
    ) -> Result<ResponseStream, ClientError> {
        let mut request = self.build_request(method, path, Bytes::new())?;
        request.headers_mut().extend(headers);
        let response = self.with_timeout(self.send(request)).await?;
        Ok(ResponseStream { client: self.clone(), response })
    }

    /// Upgrades a connection to a raw stream that follows `protocol`. Shutting down the writing
    /// side leaves the other side open.
    ///
    /// # Errors
    /// When the server cannot be reached or does not support the protocol.
    pub async fn upgrade(&self, protocol: &'static str) -> Result<UpgradedStream, ClientError> {
        let body = self.upgrade_body.clone();
        let mut request = self.build_request(Method::GET, self.target.path(), body)?;
        let headers = request.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static(protocol));
        self.with_timeout(async {
            let response = self.send(request).await?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Err(self.refused_error(self.read_response(response).await?));
            }
            hyper::upgrade::on(response)
                .await
                .map(TokioIo::new)
                .map_err(|error| self.broken_error(error))
        })
        .await
    }

    fn build_request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request =
            Request::builder().method(method).uri(path).header(HOST, self.target.host());
        request = request.header(USER_AGENT, concat!("shellyard/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.header());
        }
        let mut request =
            request.body(Full::new(body)).map_err(|error| self.broken_error(error))?;
        request.headers_mut().extend(self.headers.clone());
        Ok(request)
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, ClientError> {
        let mut sender = connect(&self.target, self.tls.as_ref()).await?;
        sender.send_request(request).await.map_err(|error| self.broken_error(error))
    }

    async fn read_response(
        &self,
        response: Response<Incoming>,
    ) -> Result<ServerResponse, ClientError> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|error| self.broken_error(error))?.to_bytes();
        Ok(ServerResponse { status: head.status, headers: head.headers, body })
    }

    async fn with_timeout<T>(
        &self,
        exchange: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let after = RESPONSE_TIMEOUT;
        let too_late = || ClientError::TimedOut { target: self.target.to_string(), after };
        timeout(after, exchange).await.unwrap_or_else(|_| Err(too_late()))
    }

    fn broken_error(
        &self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> ClientError {
        ClientError::Broken { target: self.target.to_string(), source: source.into() }
    }

    fn refused_error(&self, response: ServerResponse) -> ClientError {
        let target = self.target.to_string();
        if response.status == StatusCode::FORBIDDEN && response.body.starts_with(CALLER_IS_JOB) {
            return ClientError::CallerIsJob { target };
        }
        let text = first_line(&String::from_utf8_lossy(&response.body));
        ClientError::Refused { target, status: response.status, text }
    }
}

/// A response whose body is read in pieces. Dropping it ends the connection.
#[derive(Debug)]
pub struct ResponseStream {
    client: ServerClient,
    response: Response<Incoming>,
}

impl ResponseStream {
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Returns the next piece of the body, `None` at its end. Cancel-safe.
    ///
    /// # Errors
    /// When the connection broke off before the end of the body.
    pub async fn next_chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.response.body_mut().frame().await {
            let frame = frame.map_err(|error| self.client.broken_error(error))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// Reads the rest of the body, within the limits of a whole response.
    ///
    /// # Errors
    /// When the connection breaks off, or a limit of time or size is reached.
    pub async fn read_rest(self) -> Result<ServerResponse, ClientError> {
        let Self { client, response } = self;
        client.with_timeout(client.read_response(response)).await
    }
}

/// Returns the first non-empty line as plain text: the responder may be any program.
fn first_line(text: &str) -> String {
    let pieces =
        text.split('<').enumerate().map(|(index, piece)| match (index, piece.split_once('>')) {
            (0, _) | (_, None) => piece,
            (_, Some((_tag, after))) => after,
        });
    let plain: String = pieces.collect();
    let line = plain.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(MAX_QUOTED_CHARS).collect()
}

impl std::fmt::Debug for ServerClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { target, token, tls: _, headers: _, upgrade_body: _ } = self;
        f.debug_struct("ServerClient").field("target", target).field("token", token).finish()
    }
}

/// The time limit for a connection, its TLS handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The sending side of an HTTP connection.
type RequestSender = SendRequest<Full<Bytes>>;

/// Connects to the target. The connection ends with the sender, or lives on as its upgrade.
pub(super) async fn connect(
    target: &ServerTarget,
    tls: Option<&TlsConnector>,
) -> Result<RequestSender, ClientError> {
    let after = CONNECT_TIMEOUT;
    let connected = timeout(after, open(target, tls)).await;
    connected.unwrap_or_else(|_| Err(ClientError::TimedOut { target: target.to_string(), after }))
}

async fn open(
    target: &ServerTarget,
    tls: Option<&TlsConnector>,
) -> Result<RequestSender, ClientError> {
    let failed = |source| not_connected(target, source);
    match (target.endpoint(), tls) {
        (Endpoint::Socket(path), _) => {
            let address = SocketAddress::new(path).map_err(failed)?;
            let stream = UnixStream::connect(address.path()).await.map_err(failed)?;
            check_listener(target, &stream)?;
            handshake_http(target, stream).await
        }
        (Endpoint::Tls(authority), Some(tls)) => {
            let stream = dial(authority).await.map_err(failed)?;
            let wrap = async {
                let name =
                    ServerName::try_from(authority.host.clone()).map_err(io::Error::other)?;
                tls.connect(name, stream).await
            };
            let failed = |source| ClientError::Tls { target: target.to_string(), source };
            handshake_http(target, wrap.await.map_err(failed)?).await
        }
        (Endpoint::Tcp(authority), _) | (Endpoint::Tls(authority), None) => {
            handshake_http(target, dial(authority).await.map_err(failed)?).await
        }
    }
}

/// Checks that our own user or root listens on the socket, as the kernel reports it. Another user
/// who may create files next to the socket could put one in its place and would receive the token.
fn check_listener(target: &ServerTarget, stream: &UnixStream) -> Result<(), ClientError> {
    let uid = stream.peer_cred().map_err(|source| not_connected(target, source))?.uid();
    if uid == geteuid().as_raw() || uid == Uid::ROOT.as_raw() {
        return Ok(());
    }
    Err(ClientError::OtherUser { target: target.to_string(), uid })
}

async fn dial(authority: &Authority) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((authority.host.as_str(), authority.port)).await?;
    // Without this, small messages would delay each other.
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn handshake_http<S>(target: &ServerTarget, stream: S) -> Result<RequestSender, ClientError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let result = handshake(TokioIo::new(stream)).await;
    let (sender, connection) = result.map_err(|error| ClientError::Broken {
        target: target.to_string(),
        source: error.into(),
    })?;
    // Errors of the connection reach the caller that waits for a response.
    tokio::spawn(connection.with_upgrades());
    Ok(sender)
}

fn not_connected(endpoint: &ServerTarget, source: io::Error) -> ClientError {
    let target = endpoint.to_string();
    let unusable =
        |source, advice| ClientError::Unusable { target: target.clone(), advice, source };
    match (source.kind(), endpoint.endpoint()) {
        (ErrorKind::NotFound | ErrorKind::ConnectionRefused, _) => {
            ClientError::NotListening { target, start: endpoint.start_command(), source }
        }
        (ErrorKind::InvalidInput, Endpoint::Socket(_)) => unusable(source, TOO_LONG),
        (ErrorKind::NotADirectory, _) => unusable(source, NO_DIRECTORY),
        (ErrorKind::PermissionDenied, Endpoint::Socket(_)) => unusable(source, OTHER_USER),
        (ErrorKind::InvalidInput | ErrorKind::PermissionDenied, _) => unusable(source, NO_ADDRESS),
        _ => ClientError::Connect { target, source },
    }
}

const TOO_LONG: &str = "its path is too long for a socket; name a shorter one with \
                        --connect /SHORTER.sock or --data-dir DIR";
const NO_DIRECTORY: &str = "a part of its path is not a directory; name another one with \
                            --connect /PATH.sock or --data-dir DIR";
const OTHER_USER: &str = "it belongs to another user; ask as that user, or name a socket of yours \
                          with --connect /PATH.sock or --data-dir DIR";
const NO_ADDRESS: &str = "this machine allows no connection to that address; check it";

/// Creates a TLS connector that trusts the certificates of the system, or those that
/// `SSL_CERT_FILE` names: such servers mostly use a company's own certificate, which no compiled-in
/// list contains.
fn tls_connector() -> io::Result<TlsConnector> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        return Err(found.errors.into_iter().next().map_or_else(
            || io::Error::other("the system has no trusted certificates"),
            io::Error::other,
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The reason why a request failed. Each text says what was tried and what to do next.
#[derive(Debug, Error)]
pub enum ClientError {
    #[error("no server answers at {target}; start one with {start}, or add --ensure-server")]
    NotListening { target: String, start: String, source: io::Error },
    #[error("cannot connect to {target}; check the address and the network")]
    Connect { target: String, source: io::Error },
    /// A target that can never be reached.
    #[error("cannot connect to {target}; {advice}")]
    Unusable { target: String, advice: &'static str, source: io::Error },
    #[error(
        "{target} did not answer within {} s; it may be overloaded or another program",
        .after.as_secs()
    )]
    TimedOut { target: String, after: Duration },
    #[error(
        "cannot use TLS with {target}; check its certificate and the trusted ones (SSL_CERT_FILE)"
    )]
    Tls { target: String, source: io::Error },
    /// The connection broke, or the response is not HTTP.
    #[error("the exchange with {target} broke off; check that a Shellyard server is there")]
    Broken { target: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error(
        "user {uid} listens on {target}, not you or root, so nothing was sent; name a socket of your own with --connect /PATH.sock or --data-dir DIR"
    )]
    OtherUser { target: String, uid: u32 },
    /// The server refuses calls of its own jobs, and this process is one.
    #[error(
        "{target} takes no calls from its own jobs; run the command in the job itself, or set http.allow_jobs = true for that server"
    )]
    CallerIsJob { target: String },
    #[error("{target} refused: {status}{}{text}; {}", if .text.is_empty() { "" } else { ", " }, advice(*.status))]
    Refused {
        target: String,
        status: StatusCode,
        /// The first line of the response body.
        text: String,
    },
}

impl ClientError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotListening { .. } => "no_server",
            Self::Connect { .. } => "connect_failed",
            Self::Unusable { .. } => "target_unusable",
            Self::TimedOut { .. } => "server_timeout",
            Self::Tls { .. } => "tls_failed",
            Self::Broken { .. } => "connection_broken",
            Self::OtherUser { .. } => "server_of_other_user",
            Self::CallerIsJob { .. } => "caller_is_job",
            Self::Refused { .. } => "server_refused",
        }
    }

    /// `true` if a later attempt may succeed without intervention: a restart looks like this.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::NotListening { .. }
            | Self::Connect { .. }
            | Self::TimedOut { .. }
            | Self::Broken { .. } => true,
            Self::Refused { status, .. } => *status == StatusCode::SERVICE_UNAVAILABLE,
            Self::Unusable { .. }
            | Self::Tls { .. }
            | Self::OtherUser { .. }
            | Self::CallerIsJob { .. } => false,
        }
    }
}

/// Returns the advice for a refusal.
fn advice(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "give a token that it knows: --token FILE, or SHELLYARD_TOKEN",
        403 => {
            "its http.allowed_hosts must name the host, and the token's role must allow this call"
        }
        404 => "check the path: it must be that of its MCP endpoint (http.path)",
        503 => "it takes no work now; try again later",
        _ => "check that it is a Shellyard server of this version",
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{UnixListener, UnixStream};
    use tokio::task::JoinHandle;

    use super::*;

    /// Answers one connection with these bytes; the task returns the request and the stream.
    fn server(
        response: &'static str,
    ) -> (tempfile::TempDir, ServerClient, JoinHandle<(String, UnixStream)>) {
        let dir = tempfile::tempdir().unwrap();
        let path: PathBuf = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let request = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = String::new();
            while !request.ends_with("\r\n\r\n") && !request.ends_with("{}") {
                request.push(char::from(stream.read_u8().await.unwrap()));
            }
            stream.write_all(response.as_bytes()).await.unwrap();
            (request, stream)
        });
        let token = BearerToken::new("secret").unwrap();
        (dir, ServerClient::new(ServerTarget::socket(path, "/mcp"), Some(token)).unwrap(), request)
    }

    #[tokio::test]
    async fn a_request_has_all_its_headers_and_returns_the_whole_response() {
        let (_dir, client, request) =
            server("HTTP/1.1 409 Conflict\r\nX-A: b\r\nContent-Length: 4\r\n\r\nbody");
        let headers = HeaderMap::from_iter([(UPGRADE, HeaderValue::from_static("x"))]);
        let body = Bytes::from_static(b"{}");
        let response = client.request(Method::POST, "/api/v1/x?y=1", headers, body).await.unwrap();
        assert_eq!((response.status, &response.body[..]), (StatusCode::CONFLICT, &b"body"[..]));
        assert_eq!(response.headers["x-a"], "b");
        let (request, _) = request.await.unwrap();
        assert!(request.starts_with("POST /api/v1/x?y=1 HTTP/1.1\r\n"), "{request}");
        for part in ["host: localhost\r\n", "authorization: Bearer secret\r\n", "upgrade: x\r\n"] {
            assert!(request.contains(part), "{request}");
        }
        assert!(!format!("{client:?}").contains("secret"));
    }

    #[tokio::test]
    async fn an_upgrade_gives_both_directions_and_half_closes() {
        let (_dir, client, request) = server(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: p\r\n\r\nhello",
        );
        let mut stream = client.upgrade("p").await.unwrap();
        let mut hello = [0; 5];
        stream.read_exact(&mut hello).await.unwrap();
        assert_eq!(&hello, b"hello");
        let (_, mut theirs) = request.await.unwrap();
        stream.write_all(b"bye").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut received = String::new();
        theirs.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "bye");
        theirs.write_all(b"last").await.unwrap();
        drop(theirs);
        let mut last = String::new();
        stream.read_to_string(&mut last).await.unwrap();
        assert_eq!(last, "last", "the other direction stays open");
    }

    #[tokio::test]
    async fn a_refused_upgrade_says_why_and_what_to_do() {
        let (_dir, client, _asked) =
            server("HTTP/1.1 401 Unauthorized\r\nContent-Length: 8\r\n\r\nno token");
        let Err(error) = client.upgrade("p").await else { panic!("it was refused") };
        assert_eq!(error.code(), "server_refused");
        let text = error.to_string();
        assert!(text.contains("401") && text.contains("no token"), "{text}");
        assert!(text.contains("--token FILE"), "{text}");
        assert!(!error.is_transient());
    }

    #[tokio::test]
    async fn a_draining_server_is_a_transient_error() {
        let (_dir, client, _asked) =
            server("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\ndraining\n");
        let Err(error) = client.upgrade("p").await else { panic!("it was refused") };
        assert!(error.is_transient(), "{error}");
    }

    #[tokio::test]
    async fn a_missing_server_is_reported_with_the_command_that_starts_one() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("none");
        let stale = dir.path().join("stale");
        let left = UnixListener::bind(&stale).unwrap();
        // A child process that another test is starting may hold a copy of the socket.
        rustix::net::shutdown(&left, rustix::net::Shutdown::Both).unwrap();
        drop(left);
        for path in [missing, stale] {
            let client = ServerClient::new(ServerTarget::socket(path, "/mcp"), None).unwrap();
            let Err(error) = client.upgrade("p").await else { panic!("nobody is there") };
            assert_eq!(error.code(), "no_server");
            let text = error.to_string();
            assert!(
                text.contains("`shellyard serve --") && text.contains("--ensure-server"),
                "{text}"
            );
            assert!(error.is_transient());
        }
    }

    #[tokio::test]
    async fn an_unusable_target_is_refused_with_advice() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        for (path, way_out) in [
            (dir.path().join("x".repeat(200)), "--connect /SHORTER.sock"),
            (file.join("s"), "--data-dir"),
        ] {
            let client = ServerClient::new(ServerTarget::socket(path, "/mcp"), None).unwrap();
            let Err(error) = client.upgrade("p").await else { panic!("nobody is there") };
            assert_eq!(
                (error.code(), error.is_transient()),
                ("target_unusable", false),
                "{error:?}"
            );
            assert!(error.to_string().contains(way_out), "{error}");
        }
    }

    #[test]
    fn an_error_quotes_the_first_line_of_a_foreign_page() {
        for (body, words) in [
            ("no token\nand more", "no token"),
            (
                "<!DOCTYPE html>\n<html><head>\n<title>404 \u{1b}[31mNot Found</title>",
                "404 [31mNot Found",
            ),
            ("", ""),
            ("<<<", ""),
        ] {
            assert_eq!(first_line(body), words, "{body:?}");
        }
        assert_eq!(first_line(&"é".repeat(500)).chars().count(), MAX_QUOTED_CHARS);
    }
}
