//! Why the HTTP server did not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

use super::tls::TlsError;

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
