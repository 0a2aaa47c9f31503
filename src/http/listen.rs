//! The listeners of the server: a TCP address, with or without TLS, and a unix socket.
//!
//! The certificate of TLS and its key are read again when their files change.

use std::error::Error as _;
use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener, UnixSocket, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

use super::connection::AcceptedStream;
use super::connection_table::{JobDetection, PeerAddress, PeerKind};
use super::settings::{HttpServerSettings, SocketPath};
use crate::private_files::{
    BoundedReadError, MAX_PATH_BYTES, SocketAddress, Symlinks, is_bound_to, read_text,
};
use crate::telemetry::{HttpRefusalReason, events};

#[derive(Debug)]
enum HttpListener {
    Tcp(TcpListener),
    Tls(TcpListener, Arc<Certificates>),
    Unix(SocketListener),
}

impl HttpListener {
    /// Returns the socket with the name under which a keeper holds it.
    fn named_fd(&self) -> (&'static str, BorrowedFd<'_>) {
        match self {
            Self::Tcp(tcp) | Self::Tls(tcp, _) => (TCP_NAME, tcp.as_fd()),
            Self::Unix(socket) => (UNIX_NAME, socket.listener.as_fd()),
        }
    }

    /// Accepts the next connection. Cancel-safe: no connection is lost.
    async fn accept(&self) -> io::Result<(AcceptedStream, PeerAddress)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok((AcceptedStream::Tcp(stream), PeerAddress::Tcp(from)))
            }
            Self::Tls(listener, certificates) => {
                let (stream, from) = listener.accept().await?;
                Ok((AcceptedStream::Tls(stream, certificates.acceptor()), PeerAddress::Tcp(from)))
            }
            Self::Unix(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((AcceptedStream::Unix(stream), PeerAddress::Unix { peer }))
            }
        }
    }
}

/// The listeners of a server; at least one is set.
#[derive(Debug)]
pub(super) struct HttpListeners {
    address: Option<HttpListener>,
    socket: Option<HttpListener>,
    bound: Option<SocketAddr>,
}

impl HttpListeners {
    /// Binds the address and the socket of the settings. Listeners of a previous server that fit are
    /// used as they are: connections that wait in them are not lost.
    pub(super) async fn bind(
        settings: &HttpServerSettings,
        inherited: InheritedListeners,
    ) -> Result<Self, HttpError> {
        let files =
            TlsFiles::from_paths(settings.tls_cert.as_deref(), settings.tls_key.as_deref())?;
        let certificates = files.map(Certificates::load).transpose()?.map(Arc::new);
        let (address, bound) = match settings.bind {
            Some(bind) => {
                let (listener, bound) = listen_tcp(bind, inherited.tcp, certificates).await?;
                (Some(listener), Some(bound))
            }
            None => (None, None),
        };
        let socket = listen_unix(settings, inherited.unix, bound).await?;
        if address.is_none() && socket.is_none() {
            return Err(HttpError::NoListener);
        }
        Ok(Self { address, socket, bound })
    }

    /// The bound address. The port is the real one, even if port 0 was configured.
    pub(super) const fn bound(&self) -> Option<SocketAddr> {
        self.bound
    }

    pub(super) fn socket_path(&self) -> Option<&Path> {
        match &self.socket {
            Some(HttpListener::Unix(socket)) => Some(socket.path()),
            Some(HttpListener::Tcp(_) | HttpListener::Tls(..)) | None => None,
        }
    }

    /// Returns the listeners with the names under which a keeper holds them.
    pub(super) fn named_fds(&self) -> Vec<(&'static str, BorrowedFd<'_>)> {
        self.address.iter().chain(&self.socket).map(HttpListener::named_fd).collect()
    }

    /// Closes the listeners without removing the file of the unix socket.
    pub(super) fn leave_socket_file(self) {
        if let Some(HttpListener::Unix(SocketListener { file, .. })) = self.socket {
            std::mem::forget(file);
        }
    }

    /// Accepts the next connection of either listener. `select!` picks a ready one at random, so a
    /// rush on one listener does not starve the other.
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
    inherited: Option<OwnedFd>,
    certificates: Option<Arc<Certificates>>,
) -> Result<(HttpListener, SocketAddr), HttpError> {
    let failed = |source| HttpError::Bind { bind, source };
    let listener = match inherited.and_then(|fd| reuse_tcp(fd, bind)) {
        Some(listener) => listener,
        None => TcpListener::bind(bind).await.map_err(failed)?,
    };
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

/// Returns the listener of a previous server, if it listens at this address; a configured port 0
/// stands for the port that it got.
fn reuse_tcp(fd: OwnedFd, bind: SocketAddr) -> Option<TcpListener> {
    let listener = std::net::TcpListener::from(fd);
    let bound = listener.local_addr().ok()?;
    let fits = bound.ip() == bind.ip() && (bind.port() == 0 || bound.port() == bind.port());
    if !fits {
        return None;
    }
    listener.set_nonblocking(true).ok()?;
    TcpListener::from_std(listener).ok()
}

/// The listeners of a previous server that the keeper held. Those that do not fit the settings are
/// closed.
#[derive(Debug, Default)]
pub struct InheritedListeners {
    tcp: Option<OwnedFd>,
    unix: Option<OwnedFd>,
}

/// The names under which the keeper holds the listeners.
const TCP_NAME: &str = "tcp";
const UNIX_NAME: &str = "unix";

impl InheritedListeners {
    /// Every name under which a keeper may hold a listener.
    pub const NAMES: [&str; 2] = [TCP_NAME, UNIX_NAME];
}

impl From<Vec<(String, OwnedFd)>> for InheritedListeners {
    fn from(named: Vec<(String, OwnedFd)>) -> Self {
        let mut listeners = Self::default();
        for (name, fd) in named {
            match name.as_str() {
                TCP_NAME => listeners.tcp = Some(fd),
                UNIX_NAME => listeners.unix = Some(fd),
                // A listener of another version of this program.
                _ => {}
            }
        }
        listeners
    }
}

/// Listens on the unix socket. The default socket may be unavailable if there is a TCP address as
/// well: a second server beside the first is not a mistake.
async fn listen_unix(
    settings: &HttpServerSettings,
    inherited: Option<OwnedFd>,
    bound: Option<SocketAddr>,
) -> Result<Option<HttpListener>, HttpError> {
    let Some(socket) = &settings.socket else { return Ok(None) };
    if let Some(fd) = inherited
        && let Some(listener) = SocketListener::reuse(fd, socket.path(), &settings.job_detection)
    {
        return Ok(Some(HttpListener::Unix(listener)));
    }
    match (SocketListener::bind(socket.path(), settings.job_detection.clone()).await, socket) {
        (Ok(listener), _) => Ok(Some(HttpListener::Unix(listener))),
        (Err(error), SocketPath::Default(path)) if bound.is_some() => {
            events::socket_unavailable(path, &error);
            Ok(None)
        }
        (Err(error), SocketPath::Default(_) | SocketPath::Configured(_)) => Err(error),
    }
}

const BACKLOG: u32 = 1024;

/// The time limit for the probe of an existing socket. A server that does not accept in this time
/// counts as busy, so it is alive.
const LIVENESS_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest wait for the lock of a directory: a server holds it while it probes a socket.
const LOCK_TIME: Duration = Duration::from_secs(5);

/// The time between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The uid of root, who may do everything anyway.
const ROOT: u32 = 0;

/// A listening unix socket. Its file is removed on drop.
#[derive(Debug)]
struct SocketListener {
    listener: UnixListener,
    file: SocketFile,
    job_detection: JobDetection,
}

impl SocketListener {
    /// Listens at `path`. Replaces the socket file of a server that no longer runs.
    async fn bind(path: &Path, job_detection: JobDetection) -> Result<Self, HttpError> {
        let failed = |source| HttpError::Socket { path: path.into(), source };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or_else(|| Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        // The lock keeps two servers that start at once from taking the other's socket for a stale
        // one.
        let _lock = lock_directory(directory, LOCK_TIME).await.map_err(|error| match error {
            TryLockError::Error(source) => failed(source),
            TryLockError::WouldBlock => HttpError::DirectoryLocked { path: directory.into() },
        })?;
        let address = SocketAddress::new(path).map_err(|error| {
            if error.kind() == io::ErrorKind::InvalidInput {
                HttpError::SocketPathTooLong { path: path.into(), most: MAX_PATH_BYTES }
            } else {
                failed(error)
            }
        })?;
        remove_if_stale(path, &address).await?;
        let listener = listen(path, &address).map_err(failed)?;
        let file = SocketFile::from_path(path).map_err(failed)?;
        Ok(Self { listener, file, job_detection })
    }

    /// Returns the listener of a previous server, if it listens at `path` and its file is still
    /// there.
    fn reuse(fd: OwnedFd, path: &Path, job_detection: &JobDetection) -> Option<Self> {
        let listener = std::os::unix::net::UnixListener::from(fd);
        let bound = listener.local_addr().ok()?;
        if !bound.as_pathname().is_some_and(|bound| is_bound_to(bound, path)) {
            return None;
        }
        listener.set_nonblocking(true).ok()?;
        let file = SocketFile::from_path(path).ok()?;
        let listener = UnixListener::from_std(listener).ok()?;
        Some(Self { listener, file, job_detection: job_detection.clone() })
    }

    fn path(&self) -> &Path {
        &self.file.path
    }

    /// Accepts the next connection of our own user or root and returns what kind of process opened
    /// it.
    async fn accept(&self) -> io::Result<(UnixStream, PeerKind)> {
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

/// Locks the directory of the socket, until the result is dropped. Waits a limited time: another program
/// may hold a lock on it for ever.
async fn lock_directory(directory: &Path, time: Duration) -> Result<File, TryLockError> {
    let file = File::open(directory).map_err(TryLockError::Error)?;
    let deadline = Instant::now() + time;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => sleep(LOCK_PAUSE).await,
            Err(error) => return Err(error),
        }
    }
}

/// Creates the socket. Nobody can connect before `listen`, and by then the mode admits only our own
/// user.
fn listen(path: &Path, address: &SocketAddress) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(address.path())?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    socket.listen(BACKLOG)
}

/// Removes `path` if it is a socket that nobody listens on, and nothing else.
async fn remove_if_stale(path: &Path, address: &SocketAddress) -> Result<(), HttpError> {
    let failed = |source| HttpError::Socket { path: path.into(), source };
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !found.file_type().is_socket() {
        return Err(HttpError::NotASocket { path: path.into() });
    }
    match timeout(LIVENESS_TIMEOUT, UnixStream::connect(address.path())).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Ok(_) | Err(_) => Err(HttpError::SocketInUse { path: path.into() }),
    }
}

/// The file of our own socket, removed on drop if it is still the same file.
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
        // Another process may have replaced the file.
        if file_id(&self.path).is_ok_and(|id| id == self.id) {
            fs::remove_file(&self.path).ok();
        }
    }
}

fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

/// The reason why the HTTP server did not start.
#[derive(Debug, Error)]
pub enum HttpError {
    #[error(
        "refusing to listen on {bind} without a token: anybody who reaches that address could run commands here; make one with `shellyard token new NAME` (and name its file with --token-file FILE if it is not the usual one), set oauth.issuer, or listen on 127.0.0.1"
    )]
    TokenRequired { bind: SocketAddr },
    #[error("cannot listen on {bind}; stop what uses it, or choose another address")]
    Bind { bind: SocketAddr, source: io::Error },
    #[error(
        "there is nowhere to listen: http.bind and http.socket are both \"none\"; set one of them"
    )]
    NoListener,
    #[error(
        "another server listens on `{}`; stop that one, or give this one its own (http.socket, or server.data_dir)", .path.display()
    )]
    SocketInUse { path: PathBuf },
    #[error(
        "the name of `{}` is too long for a unix socket, whose path may have {most} bytes; set http.socket to a shorter path", .path.display()
    )]
    SocketPathTooLong { path: PathBuf, most: usize },
    #[error(
        "another program holds a lock on the directory `{}` (`lslocks` shows it), so no socket is made there; end that program, or set http.socket to a path in another directory", .path.display()
    )]
    DirectoryLocked { path: PathBuf },
    #[error("`{}` exists and is not a socket; move it away, or set http.socket to another path", .path.display())]
    NotASocket { path: PathBuf },
    #[error("cannot listen on the socket `{}`; set http.socket to a path in a directory that can be written, or to \"none\"", .path.display())]
    Socket { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("`{path}` cannot be the MCP path; give one such as /mcp that is not taken")]
    BadPath { path: String },
}

impl HttpError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TokenRequired { .. } => "token_required",
            Self::Bind { .. } => "bind_failed",
            Self::NoListener => "no_listener",
            Self::SocketInUse { .. } => "socket_in_use",
            Self::SocketPathTooLong { .. } => "socket_path_too_long",
            Self::DirectoryLocked { .. } => "socket_directory_locked",
            Self::NotASocket { .. } => "socket_not_a_socket",
            Self::Socket { .. } => "socket_failed",
            Self::Tls(_) => "tls_unusable",
            Self::BadPath { .. } => "bad_path",
        }
    }
}

/// The shortest interval between two checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The reason why a certificate cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error(
        "{given} is set and {missing} is not; TLS needs both: set {missing} as well, or neither"
    )]
    Half { given: &'static str, missing: &'static str },
    #[error("cannot read `{}`; give a PEM file that the server's user may read", .path.display())]
    Unreadable { path: PathBuf, source: BoundedReadError },
    #[error("cannot use `{}`; give a PEM file of a certificate chain, or of its key", .path.display())]
    Pem { path: PathBuf, source: pem::Error },
    /// The certificate and the key do not match, or rustls does not support their kind.
    #[error("the certificate `{}` and the key `{}` cannot be used together; give a certificate chain and its own key", .cert.display(), .key.display())]
    Pair { cert: PathBuf, key: PathBuf, source: rustls::Error },
}

/// The files of a certificate chain and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TlsFiles {
    cert: PathBuf,
    key: PathBuf,
}

impl TlsFiles {
    /// Returns both paths, or `None` if neither is set.
    fn from_paths(cert: Option<&Path>, key: Option<&Path>) -> Result<Option<Self>, TlsError> {
        const CERT: &str = "http.tls_cert";
        const KEY: &str = "http.tls_key";
        match (cert, key) {
            (Some(cert), Some(key)) => Ok(Some(Self { cert: cert.into(), key: key.into() })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(TlsError::Half { given: CERT, missing: KEY }),
            (None, Some(_)) => Err(TlsError::Half { given: KEY, missing: CERT }),
        }
    }

    fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let no_pem = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::Pem { path, source }
        };
        let cert = read(&self.cert)?;
        let key = read(&self.key)?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(cert.as_bytes()).collect();
        let chain = chain.map_err(no_pem(&self.cert))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(no_pem(&self.key))?;
        let unusable =
            |source| TlsError::Pair { cert: self.cert.clone(), key: self.key.clone(), source };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn stamps(&self) -> io::Result<[CertFileStamp; 2]> {
        Ok([CertFileStamp::from_path(&self.cert)?, CertFileStamp::from_path(&self.key)?])
    }
}

fn read(path: &Path) -> Result<String, TlsError> {
    read_text(path, Symlinks::Follow)
        .map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

/// The properties of a file that change when it is replaced or rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CertFileStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl CertFileStamp {
    fn from_path(path: &Path) -> io::Result<Self> {
        let file = fs::metadata(path)?;
        let modified = (file.mtime(), file.mtime_nsec());
        Ok(Self { inode: file.ino(), size: file.size(), modified })
    }
}

/// The certificate and key in use.
#[derive(Debug)]
struct Certificates {
    files: TlsFiles,
    current: Mutex<LoadedCertificate>,
}

#[derive(Debug)]
struct LoadedCertificate {
    config: Arc<ServerConfig>,
    /// The state of the files when they were last read, whether that succeeded or not; `None` while
    /// one is missing.
    stamps: Option<[CertFileStamp; 2]>,
    checked_at: Instant,
    /// `true` while a check of the files runs.
    is_checking: bool,
}

impl Certificates {
    fn load(files: TlsFiles) -> Result<Self, TlsError> {
        // Taken before the files are read: a change during the read is then noticed by the next
        // check.
        let stamps = files.stamps().ok();
        let config = files.load()?;
        let current =
            LoadedCertificate { config, stamps, checked_at: Instant::now(), is_checking: false };
        Ok(Self { files, current: Mutex::new(current) })
    }

    /// Returns an acceptor with the newest usable pair of the last check. An unusable pair is
    /// logged once, and the pair before it stays in use. If a check is due, it starts in the
    /// background, since files can block: later connections get its result.
    fn acceptor(self: &Arc<Self>) -> TlsAcceptor {
        let mut current = self.lock();
        if !current.is_checking && current.checked_at.elapsed() >= CHECK_INTERVAL {
            current.is_checking = true;
            let certificates = Arc::clone(self);
            tokio::task::spawn_blocking(move || certificates.reload_if_changed());
        }
        TlsAcceptor::from(Arc::clone(&current.config))
    }

    /// Reads the files if they have changed. Blocks, but holds no lock meanwhile.
    fn reload_if_changed(&self) {
        let known = self.lock().stamps;
        let stamps = self.files.stamps().ok();
        let loaded = (stamps != known).then(|| self.files.load());
        let mut current = self.lock();
        current.stamps = stamps;
        current.checked_at = Instant::now();
        current.is_checking = false;
        match loaded {
            Some(Ok(config)) => {
                current.config = config;
                events::certificate_replaced();
            }
            Some(Err(error)) => {
                let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                events::certificate_refused(&format!("{error}{cause}"));
            }
            None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, LoadedCertificate> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
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
    async fn a_socket_is_private_and_removed_with_its_server() {
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
        // A child process that another test is starting may hold a copy of the socket.
        rustix::net::shutdown(&live, rustix::net::Shutdown::Both).unwrap();
        drop(live);
        assert!(path.exists(), "std leaves the file");
        let socket = SocketListener::bind(&path, JobDetection::off()).await.unwrap();
        UnixStream::connect(&path).await.unwrap();
        // The socket does not remove a file that replaced its own.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "mine").unwrap();
        drop(socket);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[tokio::test]
    async fn a_lock_on_the_directory_is_waited_for_only_for_a_while() {
        let dir = TempDir::new().unwrap();
        let foreign = File::open(dir.path()).unwrap();
        foreign.lock().unwrap();
        let refused = lock_directory(dir.path(), Duration::ZERO).await.unwrap_err();
        assert!(matches!(refused, TryLockError::WouldBlock), "{refused}");
        let (locked, ()) = tokio::join!(lock_directory(dir.path(), LOCK_TIME), async {
            // A child process that another test is starting may hold a copy of the descriptor.
            foreign.unlock().unwrap();
        });
        locked.unwrap();
    }

    #[tokio::test]
    async fn a_file_that_is_not_a_socket_is_never_removed() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("precious");
        fs::write(&path, "data").unwrap();
        let refused = SocketListener::bind(&path, JobDetection::off()).await.unwrap_err();
        assert_eq!(refused.code(), "socket_not_a_socket");
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
    }

    #[tokio::test]
    async fn a_path_too_long_for_a_socket_is_refused_with_advice() {
        let path = Path::new("/tmp").join("x".repeat(200));
        let refused = SocketListener::bind(&path, JobDetection::off()).await.unwrap_err();
        assert_eq!(refused.code(), "socket_path_too_long");
        assert!(refused.to_string().contains("http.socket"), "{refused}");
    }

    fn write_pair(dir: &TempDir, name: &str) -> TlsFiles {
        let pair = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        let files = TlsFiles { cert: dir.path().join("cert"), key: dir.path().join("key") };
        fs::write(&files.cert, pair.cert.pem()).unwrap();
        fs::write(&files.key, pair.signing_key.serialize_pem()).unwrap();
        files
    }

    /// Checks the files now, whenever the last check was.
    fn config_after_check(certificates: &Certificates) -> Arc<ServerConfig> {
        certificates.reload_if_changed();
        Arc::clone(&certificates.lock().config)
    }

    #[test]
    fn one_file_without_the_other_is_an_error_that_names_both() {
        let some = Some(Path::new("x"));
        for (cert, key) in [(some, None), (None, some)] {
            let error = TlsFiles::from_paths(cert, key).unwrap_err().to_string();
            assert!(error.contains("tls_cert") && error.contains("tls_key"), "{error}");
        }
        assert_eq!(TlsFiles::from_paths(None, None).unwrap(), None);
    }

    #[test]
    fn a_new_certificate_is_used_and_a_broken_one_is_not() {
        let dir = TempDir::new().unwrap();
        let files = write_pair(&dir, "a.example");
        let certificates = Certificates::load(files.clone()).unwrap();
        let first = config_after_check(&certificates);
        assert!(Arc::ptr_eq(&first, &config_after_check(&certificates)), "nothing has changed");
        fs::write(&files.key, "no key").unwrap();
        assert!(Arc::ptr_eq(&first, &config_after_check(&certificates)));
        fs::remove_file(&files.key).unwrap();
        assert!(Arc::ptr_eq(&first, &config_after_check(&certificates)));
        write_pair(&dir, "b.example");
        assert!(!Arc::ptr_eq(&first, &config_after_check(&certificates)));
    }

    #[test]
    fn an_unusable_certificate_is_refused_by_name() {
        let dir = TempDir::new().unwrap();
        let files = write_pair(&dir, "a.example");
        let other = rcgen::KeyPair::generate().unwrap();
        fs::write(&files.key, other.serialize_pem()).unwrap();
        let error = Certificates::load(files.clone()).unwrap_err();
        assert!(matches!(error, TlsError::Pair { .. }), "{error}");
        fs::write(&files.cert, "").unwrap();
        let error = Certificates::load(files).unwrap_err().to_string();
        assert!(error.contains("cert"), "{error}");
    }
}
