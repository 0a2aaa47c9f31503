//! The errors that keep the program from starting, reloading or running on.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ractor::SpawnErr;
use thiserror::Error;
use tokio::task::JoinError;

use super::tenants::TenantAreaError;
use crate::TaskLimit;
use crate::client::{ClientError, TargetError};
use crate::config::ConfigError;
use crate::environment::NamePatternError;
use crate::http::HttpError;
use crate::http::auth::AuthError;
use crate::ids::TenantError;
use crate::journal::JournalError;
use crate::output::redaction::RedactError;
use crate::policy::rules::{DirectoryError, RuleError};
use crate::private_files::{BoundedReadError, PrivateDirError};
use crate::service::ConfinementUnavailable;
use crate::telemetry::audit::AuditError;
use crate::telemetry::exporter::ExporterError;
use crate::telemetry::logging::LoggingError;

/// The reason why the program could not start, reload or run on. Each text says what to do about
/// it.
#[derive(Debug, Error)]
pub(super) enum AppError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    DataDir(#[from] PrivateDirError),
    #[error(
        "the data directory `{}` is in use by {holder}; connect to that one (`shellyard stdio --connect SOCKET`), stop it, or give this one its own with --data-dir DIR", .path.display()
    )]
    DataDirInUse { path: PathBuf, holder: String },
    #[error(
        "the data directory `{}` does not answer; check the file system that it is on, or name another with --data-dir DIR", .path.display()
    )]
    DataDirTimeout { path: PathBuf, source: io::Error },
    #[error("cannot lock the data directory by `{}`; remove what is there", .path.display())]
    ServerLock { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Log(#[from] LoggingError),
    #[error(transparent)]
    Metrics(#[from] ExporterError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("cannot create a thread: {0}")]
    TaskLimit(TaskLimit),
    #[error("cannot start worker threads; check the limits on processes and memory (ulimit -a)")]
    Runtime(#[source] io::Error),
    #[error("cannot listen to signals; check the limit on open files (ulimit -n)")]
    Signals(#[from] io::Error),
    #[error(
        "this kernel lacks features that track the processes of a job; Linux 5.4 or newer is needed"
    )]
    Host(#[source] io::Error),
    #[error(
        "the server cannot talk to its keeper, the process that holds its jobs; start `shellyard serve` again"
    )]
    Keeper(#[source] io::Error),
    #[error(
        "the keeper, the process that holds the jobs of this server, was killed; all jobs were ended; start the server again"
    )]
    KeeperDied,
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(
        "the journal in `{}` was not read within {} s, and the jobs that run cannot be taken over without it; check the file system that it is on", .path.display(), .after.as_secs()
    )]
    JournalTimeout { path: PathBuf, after: Duration, source: io::Error },
    #[error("cannot start the supervisor")]
    Supervisor(#[from] SpawnErr),
    #[error(
        "the supervisor failed too often in a short time; the log says why; start the server again"
    )]
    SupervisorFailed,
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(
        "oauth.issuer is set, but no audience: set oauth.resource (or oauth.audience), or tokens that were issued for other servers would be accepted here"
    )]
    NoAudience,
    #[error(
        "oauth.{key} is set, but oauth.issuer is not, so no access token would be accepted; set oauth.issuer too"
    )]
    NoIssuer { key: &'static str },
    #[error("`{entry}` cannot be in oauth.tenants; write VALUE=TENANT")]
    OauthTenant { entry: String, source: TenantError },
    #[error("cannot read the token file `{}`; give a readable file with one token", .path.display())]
    TokenFile { path: PathBuf, source: BoundedReadError },
    #[error("the token file `{}` holds no token; write one into it", .path.display())]
    NoToken { path: PathBuf },
    #[error("the token in {origin} cannot be sent; it must be one line of plain characters")]
    UnusableToken { origin: String },
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(
        "the server has no socket (http.socket is \"none\"); say where it is: --connect http://127.0.0.1:8000/mcp"
    )]
    NoSocket,
    #[error(
        "{flag} is a setting of the server, and --connect only talks to one; give it to `shellyard serve`, or leave --connect out"
    )]
    ServerOnlyFlag { flag: &'static str },
    #[error(
        "--ensure-server starts a server on this machine only, on a socket or in plain HTTP on loopback, and {target} is none of these; run `shellyard serve` there and leave --ensure-server out"
    )]
    NotStartable { target: String },
    #[error(
        "cannot find this program's own file, so no server can be started; leave --ensure-server out"
    )]
    Program(#[source] io::Error),
    #[error("a rule cannot be used ({origin})")]
    Rule { origin: String, source: RuleError },
    #[error("`{}` cannot be in policy.allowed_directories ({origin}); give a directory that exists", .path.display())]
    AllowedDirectory { origin: String, path: PathBuf, source: io::Error },
    #[error("a directory in policy.allowed_directories cannot be used")]
    Directory(#[from] DirectoryError),
    #[error("a pattern in redact.patterns cannot be used ({origin})")]
    Redact { origin: String, source: RedactError },
    #[error("a pattern in {key} cannot be used ({origin})")]
    Variable { key: &'static str, origin: String, source: NamePatternError },
    #[error("jobs cannot be confined as `{key}` asks for ({origin})")]
    Confinement { key: String, origin: String, source: ConfinementUnavailable },
    #[error("{key} cannot be used ({origin})")]
    TenantArea { key: String, origin: String, source: TenantAreaError },
    #[error("a name under [tenants] cannot be used")]
    Tenant(#[from] TenantError),
    #[error("the audit log cannot be opened")]
    Audit(#[from] AuditError),
    #[error("`{}` cannot be the working directory; give an existing directory with -w", .dir.display())]
    WorkingDirectory { dir: PathBuf, source: io::Error },
    #[cfg(feature = "otlp")]
    #[error(transparent)]
    Otlp(#[from] crate::telemetry::otlp::SpanExportError),
    #[cfg(not(feature = "otlp"))]
    #[error(
        "trace.otlp_endpoint is set ({endpoint}), but this program was built without the export of spans; build it with `cargo build --release --features otlp`, or leave the setting empty"
    )]
    NoOtlp { endpoint: String },
    #[error(
        "the settings could not be read within {} s: a file system does not answer; check the mounts that the settings name", .after.as_secs()
    )]
    ReloadTimeout { after: Duration },
    #[error("the settings could not be read: the task that reads them failed")]
    ReloadFailed(#[source] JoinError),
    #[error("the current directory cannot be used; start in an existing one, or set job.cwd")]
    Cwd(#[source] io::Error),
}

impl AppError {
    /// Converts the error of a thread that could not be created.
    pub(super) fn from_thread_error(error: io::Error) -> Self {
        TaskLimit::reached(&error).map_or(Self::Runtime(error), Self::TaskLimit)
    }
}
