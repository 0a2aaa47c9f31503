//! Listeners: an address, with TLS or without, and a unix socket.

use std::fs::{DirBuilder, File, Permissions};
use std::future::pending;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use rustix::process::geteuid;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixSocket, UnixStream};
use tokio::time::timeout;

use super::peer::{JobDetection, PeerAddress, PeerKind};
use super::settings::{HttpServerSettings, SocketPath};
use super::tls::{Certificates, TlsError, TlsFiles};
use crate::telemetry::{HttpRefusalReason, events};

/// One way in.
#[derive(Debug)]
enum HttpListener {
    Tcp(TcpListener),
    Tls(TcpListener, Arc<Certificates>),
    Unix(SocketListener),
}

impl HttpListener {
    /// The next connection. Loses none when it is dropped.
    async fn accept(&self) -> io::Result<(AcceptedStream, PeerAddress)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok((AcceptedStream::Tcp(stream), PeerAddress::Tcp(from)))
            }
            Self::Tls(listener, certificates) => {
                let (stream, from) = listener.accept().await?;
                Ok((AcceptedStream::Tls(stream, Arc::clone(certificates)), PeerAddress::Tcp(from)))
            }
            Self::Unix(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((AcceptedStream::Unix(stream), PeerAddress::Unix { peer }))
            }
        }
    }
}

/// All ways in; at least one.
#[derive(Debug)]
pub(super) struct HttpListeners {
    address: Option<HttpListener>,
    socket: Option<HttpListener>,
    bound: Option<SocketAddr>,
}

impl HttpListeners {
    /// Listens wherever the settings say.
    pub(super) async fn bind(settings: &HttpServerSettings) -> Result<Self, HttpError> {
        let files =
            TlsFiles::from_paths(settings.tls_cert.as_deref(), settings.tls_key.as_deref())?;
        let certificates = files.map(Certificates::load).transpose()?.map(Arc::new);
        let (address, bound) = match settings.bind {
            Some(bind) => {
                let (listener, bound) = listen_tcp(bind, certificates).await?;
                (Some(listener), Some(bound))
            }
            None => (None, None),
        };
        let socket = listen_unix(settings, bound).await?;
        if address.is_none() && socket.is_none() {
            return Err(HttpError::NoListener);
        }
        Ok(Self { address, socket, bound })
    }

    /// The address; its port is the real one, also where 0 was asked for.
    pub(super) const fn bound(&self) -> Option<SocketAddr> {
        self.bound
    }

    /// The unix socket.
    pub(super) fn socket_path(&self) -> Option<&Path> {
        match &self.socket {
            Some(HttpListener::Unix(socket)) => Some(socket.path()),
            Some(HttpListener::Tcp(_) | HttpListener::Tls(..)) | None => None,
        }
    }

    /// The next connection from anywhere. A rush at one door does not shut the other: which of
    /// two that are ready comes first is left to chance.
    pub(super) async fn accept(&self) -> io::Result<(AcceptedStream, PeerAddress)> {
        tokio::select! {
            accepted = accept_from(self.address.as_ref()) => accepted,
            accepted = accept_from(self.socket.as_ref()) => accepted,
        }
    }
}

async fn accept_from(listener: Option<&HttpListener>) -> io::Result<(AcceptedStream, PeerAddress)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => pending().await,
    }
}

async fn listen_tcp(
    bind: SocketAddr,
    certificates: Option<Arc<Certificates>>,
) -> Result<(HttpListener, SocketAddr), HttpError> {
    let failed = |source| HttpError::Bind { bind, source };
    let listener = TcpListener::bind(bind).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    if certificates.is_none() && !bound.ip().to_canonical().is_loopback() {
        events::tls_disabled(bound);
    }
    let listener = match certificates {
        Some(certificates) => HttpListener::Tls(listener, certificates),
        None => HttpListener::Tcp(listener),
    };
    Ok((listener, bound))
}

/// The unix socket. The usual one may be missing where there is an address as well: a second
/// server beside the first is no mistake.
async fn listen_unix(
    settings: &HttpServerSettings,
    bound: Option<SocketAddr>,
) -> Result<Option<HttpListener>, SocketError> {
    let Some(socket) = &settings.socket else { return Ok(None) };
    match (SocketListener::bind(socket.path(), settings.job_detection.clone()).await, socket) {
        (Ok(listener), _) => Ok(Some(HttpListener::Unix(listener))),
        (Err(error), SocketPath::Default(path)) if bound.is_some() => {
            events::socket_unavailable(path, &error);
            Ok(None)
        }
        (Err(error), SocketPath::Default(_) | SocketPath::Configured(_)) => Err(error),
    }
}

/// A connection that was accepted, and not a word said.
#[derive(Debug)]
pub(super) enum AcceptedStream {
    Tcp(TcpStream),
    Tls(TcpStream, Arc<Certificates>),
    Unix(UnixStream),
}

/// Bytes both ways, whatever carries them.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

impl AcceptedStream {
    /// The address that accepted the connection, if it came over TCP and is still open.
    pub(super) fn server_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) | Self::Tls(stream, _) => stream.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    /// The stream, once hands are shaken, which may take as long as `patience`.
    pub(super) async fn open(self, handshake_timeout: Duration) -> io::Result<Box<dyn ByteStream>> {
        Ok(match self {
            Self::Tcp(stream) => Box::new(disable_nagle(stream)),
            Self::Unix(stream) => Box::new(stream),
            Self::Tls(stream, certificates) => {
                let handshake = certificates.acceptor().accept(disable_nagle(stream));
                Box::new(timeout(handshake_timeout, handshake).await.map_err(io::Error::from)??)
            }
        })
    }
}

/// Small events must not wait for each other: 40 ms per call otherwise.
fn disable_nagle(stream: TcpStream) -> TcpStream {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    stream
}

/// What the kernel takes, without the byte that ends it.
const MAX_PATH_BYTES: usize = 107;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// How long a server may take to accept before it counts as busy, which is alive.
const LIVENESS_TIMEOUT: Duration = Duration::from_secs(1);

/// Root may do everything anyway.
const ROOT: u32 = 0;

/// A socket that is listened on; its file is removed on drop.
#[derive(Debug)]
pub(super) struct SocketListener {
    listener: UnixListener,
    file: SocketFile,
    job_detection: JobDetection,
}

impl SocketListener {
    /// Listens at `path`. What is left of a server that is gone is replaced.
    pub(super) async fn bind(
        path: &Path,
        job_detection: JobDetection,
    ) -> Result<Self, SocketError> {
        if path.as_os_str().len() > MAX_PATH_BYTES {
            return Err(SocketError::TooLong { path: path.into(), most: MAX_PATH_BYTES });
        }
        let failed = |source| SocketError::Io { path: path.into(), source };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or_else(|| Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        // Of two servers that start at once, neither may take the other's for left over.
        let lock = File::open(directory).map_err(failed)?;
        lock.lock().map_err(failed)?;
        remove_if_stale(path).await?;
        let listener = listen(path).map_err(failed)?;
        let file = SocketFile::from_path(path).map_err(failed)?;
        Ok(Self { listener, file, job_detection })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    /// The next connection of our own user or root, and what kind of process it comes from.
    pub(super) async fn accept(&self) -> io::Result<(UnixStream, PeerKind)> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            let uid = stream.peer_cred()?.uid();
            if uid == geteuid().as_raw() || uid == ROOT {
                let peer = self.job_detection.peer_on_unix(&stream);
                return Ok((stream, peer));
            }
            events::connection_refused(HttpRefusalReason::Peer);
        }
    }
}

/// Nobody can connect before `listen`, and by then only our own user may.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    socket.listen(BACKLOG)
}

/// Makes way for a socket: nothing but a socket that nobody listens on is removed.
async fn remove_if_stale(path: &Path) -> Result<(), SocketError> {
    let failed = |source| SocketError::Io { path: path.into(), source };
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::NotASocket { path: path.into() });
    }
    match timeout(LIVENESS_TIMEOUT, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Ok(_) | Err(_) => Err(SocketError::InUse { path: path.into() }),
    }
}

/// The file of a socket of ours.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
}

impl SocketFile {
    fn from_path(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.into(), id: file_id(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have put another one there.
        if file_id(&self.path).is_ok_and(|id| id == self.id) {
            fs::remove_file(&self.path).ok();
        }
    }
}

fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

/// Why the HTTP server did not start.
#[derive(Debug, Error)]
pub enum HttpError {
    /// Anybody who reaches the address could run commands.
    #[error(
        "refusing to listen on {bind} without a token: anybody who reaches that address could run commands here; make one with `shellyard token new NAME` (and name its file with --token-file FILE if it is not the usual one), set oauth.issuer, or listen on 127.0.0.1"
    )]
    TokenRequired {
        /// The address that was asked for.
        bind: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {bind}; stop what uses it, or choose another address")]
    Bind {
        /// The address that was asked for.
        bind: SocketAddr,
        /// The system's own words.
        source: io::Error,
    },
    /// There is nowhere to listen.
    #[error(
        "there is nowhere to listen: http.bind and http.socket are both \"none\"; set one of them"
    )]
    NoListener,
    /// The unix socket cannot be listened on.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The endpoint's path is none.
    #[error("`{path}` cannot be the MCP path; give one such as /mcp that is not taken")]
    BadPath {
        /// What was asked for.
        path: String,
    },
}

impl HttpError {
    /// The stable word that callers may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TokenRequired { .. } => "token_required",
            Self::Bind { .. } => "bind_failed",
            Self::NoListener => "no_listener",
            Self::Socket(error) => error.code(),
            Self::Tls(_) => "tls_unusable",
            Self::BadPath { .. } => "bad_path",
        }
    }
}

/// Why the unix socket cannot be listened on.
#[derive(Debug, Error)]
pub enum SocketError {
    /// A server listens on it.
    #[error(
        "another server listens on `{}`; stop that one, or give this one its own (http.socket, or server.data_dir)", .path.display()
    )]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The kernel takes no path so long.
    #[error(
        "`{}` is too long for a unix socket, which may have {most} bytes; set http.socket to a shorter path", .path.display()
    )]
    TooLong {
        /// The socket.
        path: PathBuf,
        /// The most that it may have.
        most: usize,
    },
    /// Something else has that name.
    #[error("`{}` is there, and is no socket; move it away, or set http.socket to another path", .path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The system says no.
    #[error("cannot listen on the socket `{}`; set http.socket to a path in a directory that can be written, or to \"none\"", .path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// The system's own words.
        source: io::Error,
    },
}

impl SocketError {
    /// The stable word that callers may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "socket_in_use",
            Self::TooLong { .. } => "socket_path_too_long",
            Self::NotASocket { .. } => "socket_not_a_socket",
            Self::Io { .. } => "socket_failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn a_socket_is_for_its_user_alone_and_goes_with_its_server() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("new/deep/yard.sock");
        let socket = SocketListener::bind(&path, JobDetection::off()).await.unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let _client = UnixStream::connect(&path).await.unwrap();
        assert_eq!(socket.accept().await.unwrap().1, PeerKind::User);
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_live_socket_is_left_alone_and_a_dead_one_replaced() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("yard.sock");
        let live = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let refused = SocketListener::bind(&path, JobDetection::off()).await.unwrap_err();
        assert_eq!(refused.code(), "socket_in_use");
        // A child of another test that is being born may hold a copy.
        rustix::net::shutdown(&live, rustix::net::Shutdown::Both).unwrap();
        drop(live);
        assert!(path.exists(), "std leaves the file");
        let socket = SocketListener::bind(&path, JobDetection::off()).await.unwrap();
        UnixStream::connect(&path).await.unwrap();
        // Whoever takes the place of the file keeps it.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "mine").unwrap();
        drop(socket);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[tokio::test]
    async fn what_is_no_socket_is_never_removed() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("precious");
        fs::write(&path, "data").unwrap();
        let refused = SocketListener::bind(&path, JobDetection::off()).await.unwrap_err();
        assert_eq!(refused.code(), "socket_not_a_socket");
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
    }

    #[tokio::test]
    async fn a_path_that_no_socket_can_have_is_refused_in_words() {
        let path = Path::new("/tmp").join("x".repeat(200));
        let refused = SocketListener::bind(&path, JobDetection::off()).await.unwrap_err();
        assert_eq!(refused.code(), "socket_path_too_long");
        assert!(refused.to_string().contains("http.socket"), "{refused}");
    }
}
