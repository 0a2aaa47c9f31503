//! Settings of the HTTP server: plain values, already checked.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::auth::Authenticator;
use super::peer::JobDetection;

/// Settings of the HTTP server.
#[derive(Debug, Clone)]
pub struct HttpServerSettings {
    /// Where to listen; none: only on the socket. Any address but loopback needs a token.
    pub bind: Option<SocketAddr>,
    /// The unix socket to listen on.
    pub socket: Option<SocketPath>,
    /// A certificate chain, as a PEM file: with it, and its key, the address speaks TLS.
    pub tls_cert: Option<PathBuf>,
    /// The key of that certificate.
    pub tls_key: Option<PathBuf>,
    /// Where the MCP endpoint is, from `/`.
    pub path: String,
    /// Host names to answer to besides loopback and the bound address: `name`, `name:port`,
    /// or `*` for any.
    pub allowed_hosts: Vec<String>,
    /// Origins to answer besides our own: `scheme://host[:port]`.
    pub allowed_origins: Vec<String>,
    /// Finds out who calls.
    pub auth: Authenticator,
    /// Tells connections of jobs from others.
    pub job_detection: JobDetection,
    /// `true` if jobs may call like anybody else.
    pub allow_jobs: bool,
    /// The largest request body.
    pub max_body_bytes: usize,
    /// The largest request head.
    pub max_header_bytes: usize,
    /// How long a client may take to send a request head; a connection that is idle for so
    /// long is closed.
    pub header_timeout: Duration,
    /// How long a client may take to send a request body.
    pub body_timeout: Duration,
    /// How long a client may leave what is sent to it unread.
    pub write_timeout: Duration,
    /// The most that waits in memory for all clients to read it; beyond it those connections are
    /// closed for which it has waited longest.
    pub max_unread_bytes: usize,
    /// The most connections at a time; a further one takes the place of the one that was idle
    /// longest.
    pub max_connections: usize,
    /// The same for the connections of one address.
    pub max_connections_per_address: usize,
    /// The most legacy sessions at a time; a further one ends the one that was idle longest.
    pub max_sessions: usize,
    /// A legacy session that is idle for so long is ended. One with a call in work or an open
    /// stream is not idle.
    pub session_idle: Duration,
    /// How often a comment is sent on a silent stream.
    pub keep_alive_every: Duration,
    /// The most time that a shutdown takes.
    pub shutdown_grace: Duration,
}

impl Default for HttpServerSettings {
    fn default() -> Self {
        Self {
            bind: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 8000))),
            socket: None,
            tls_cert: None,
            tls_key: None,
            path: "/mcp".to_owned(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            auth: Authenticator::default(),
            job_detection: JobDetection::off(),
            allow_jobs: false,
            max_body_bytes: 4 * 1024 * 1024,
            max_header_bytes: 32 * 1024,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            max_unread_bytes: 64 * 1024 * 1024,
            max_connections: 1024,
            max_connections_per_address: 512,
            max_sessions: 256,
            session_idle: Duration::from_secs(3600),
            keep_alive_every: Duration::from_secs(15),
            shutdown_grace: Duration::from_secs(5),
        }
    }
}

/// Which unix socket to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketPath {
    /// The usual one. A server that also has an address does without it where it is taken.
    Default(PathBuf),
    /// One that was asked for: no server without it.
    Configured(PathBuf),
}

impl SocketPath {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Default(path) | Self::Configured(path) => path,
        }
    }
}
