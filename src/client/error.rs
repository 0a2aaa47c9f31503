//! Why a server could not be asked.

use std::io;
use std::time::Duration;

use hyper::StatusCode;
use thiserror::Error;

/// Why a server could not be asked. Each text says what was tried and what to do next.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("no server answers at {target}; start one with {start}, or add --ensure-server")]
    Nobody {
        /// The place that was looked at.
        target: String,
        /// The command that starts one there.
        start: String,
        /// The system's own words.
        source: io::Error,
    },
    /// Something is there, but it cannot be reached.
    #[error("cannot connect to {target}; check the address, the network and who owns it")]
    Connect {
        /// The place that was looked at.
        target: String,
        /// The system's own words.
        source: io::Error,
    },
    /// Nobody can ever be reached there.
    #[error("cannot connect to {target}; {next}")]
    Unusable {
        /// The place that was looked at.
        target: String,
        /// What to do about it.
        next: &'static str,
        /// The system's own words.
        source: io::Error,
    },
    /// It took too long.
    #[error(
        "{target} did not answer within {} s; it may be overloaded or another program",
        .after.as_secs()
    )]
    TimedOut {
        /// The server that was asked.
        target: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// There is no certificate to trust, or none that fits.
    #[error(
        "cannot use TLS with {target}; check its certificate and the trusted ones (SSL_CERT_FILE)"
    )]
    Tls {
        /// The server that was asked.
        target: String,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The connection broke off, or what came is no HTTP.
    #[error("the exchange with {target} broke off; check that a Shellyard server is there")]
    Broken {
        /// The server that was asked.
        target: String,
        /// Where it broke.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A process of another user listens on the socket.
    #[error(
        "{target} is listened on by user {uid}, not by you or root, so nothing was sent to it; name a socket of yours with --connect /PATH.sock or --data-dir DIR"
    )]
    OtherUser {
        /// The place that was looked at.
        target: String,
        /// The user who listens there.
        uid: u32,
    },
    /// The server takes no calls from its own jobs, and we are one.
    #[error(
        "{target} takes no calls from its own jobs; run the command in the job itself, or set http.allow_jobs = true for that server"
    )]
    CallerIsJob {
        /// The server that was asked.
        target: String,
    },
    /// It answered, and not with what was asked for.
    #[error("{target} refused: {status}{}{text}; {}", if .text.is_empty() { "" } else { ", " }, next(*.status))]
    Refused {
        /// The server that was asked.
        target: String,
        /// Its status.
        status: StatusCode,
        /// Its own words, the first of them.
        text: String,
    },
}

impl ClientError {
    /// The stable word that callers may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Nobody { .. } => "no_server",
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

    /// Whether it may go better soon without anybody's doing: a restart looks like this.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Nobody { .. }
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

/// What to do about a refusal.
fn next(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "give a token that it knows: --token FILE, or SHELLYARD_TOKEN",
        403 => "its http.allowed_hosts must name the host, and the token must allow this",
        404 => "check the path: it must be that of its MCP endpoint (http.path)",
        503 => "it takes no work now; try again later",
        _ => "check that it is a Shellyard server of this version",
    }
}
