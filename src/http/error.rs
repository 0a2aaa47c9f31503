//! Why the HTTP server did not start.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

/// Why the HTTP server did not start.
#[derive(Debug, Error)]
pub enum HttpError {
    /// Anybody who reaches the address could run commands.
    #[error(
        "refusing to listen on {bind} without a token: anybody who reaches that address could run commands here; write one to a file and name it (--token-file FILE, or http.token_file), or listen on 127.0.0.1"
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
            Self::BadPath { .. } => "bad_path",
        }
    }
}
