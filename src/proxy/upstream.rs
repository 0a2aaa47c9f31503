//! The server behind the proxy: connects to it, or starts it first.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::mem;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::client::{ClientError, ServerClient, UpgradedStream};
use crate::lines::UPGRADE_PROTOCOL;
use crate::private_files::{PrivateDirError, Symlinks, ensure_private_dir, explain_symlink_error};
use crate::process::{DetachedLaunch, DetachedProcesses};
use crate::telemetry::events;

/// The time that requests wait for a server after it is lost. A restart takes less.
const HOLD: Duration = Duration::from_secs(15);

/// The same if the proxy starts the server itself.
const HOLD_FOR_START: Duration = Duration::from_secs(30);

/// The pauses between attempts: the first attempt comes at once, and each later pause is twice as
/// long.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The server behind the proxy.
#[derive(Debug)]
pub struct Upstream {
    pub client: ServerClient,
    /// The way to start the server if none listens; `None`: the proxy does not start one.
    pub launch: Option<ServerLaunch>,
}

/// The reason why there is no connection to the server.
#[derive(Debug, Error)]
pub(super) enum OpenError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Start(#[from] ServerStartError),
    /// No server listens, and no request needed one.
    #[error("no server runs; the next call starts one")]
    NotRequested,
}

/// The demand for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerDemand {
    /// No request is queued; a stopped server is left alone.
    Idle,
    /// A request waits for a server.
    Waiting,
}

/// The prospect of the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextAttempt {
    /// It starts a server if a request is queued.
    StartsServer,
    /// The failure looks like a restart: it is worth waiting.
    MaySucceed,
    /// The failure lasts until someone intervenes.
    Hopeless,
}

impl OpenError {
    pub(super) fn next_attempt(&self) -> NextAttempt {
        match self {
            Self::NotRequested => NextAttempt::StartsServer,
            Self::Client(error) | Self::Start(ServerStartError::Client(error))
                if error.is_transient() =>
            {
                NextAttempt::MaySucceed
            }
            Self::Client(_) | Self::Start(_) => NextAttempt::Hopeless,
        }
    }
}

impl Upstream {
    /// Connects to the server. Starts it if that is configured and a request waits.
    pub(super) async fn open(&self, demand: ServerDemand) -> Result<UpgradedStream, OpenError> {
        match (self.client.upgrade(UPGRADE_PROTOCOL).await, &self.launch, demand) {
            (Err(ClientError::NotListening { .. }), Some(launch), ServerDemand::Waiting) => {
                Ok(launch.start_and_connect(&self.client).await?)
            }
            (Err(ClientError::NotListening { .. }), Some(_), ServerDemand::Idle) => {
                Err(OpenError::NotRequested)
            }
            (reached, _, _) => Ok(reached?),
        }
    }

    /// The time that requests wait after the server is lost.
    pub(super) const fn hold(&self) -> Duration {
        if self.launch.is_some() { HOLD_FOR_START } else { HOLD }
    }
}

/// The pause after a connection that lasted for `lived`: none, unless the server accepts
/// connections only to drop them.
pub(super) const fn pause_after(lived: Duration) -> Duration {
    if lived.as_millis() < LONGEST_PAUSE.as_millis() { LONGEST_PAUSE } else { Duration::ZERO }
}

/// The growing pauses between attempts.
#[derive(Debug)]
pub(super) struct RetryPauses(Duration);

impl RetryPauses {
    pub(super) const fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    /// Returns the next pause.
    pub(super) fn next(&mut self) -> Duration {
        let longer = (self.0 * 2).min(LONGEST_PAUSE);
        mem::replace(&mut self.0, longer)
    }
}

// Starts a server on demand: only one, however many proxies want it.

/// The time limit from the start of a server until it answers.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The pause between two attempts to connect to a starting server.
const POLL_PAUSE: Duration = Duration::from_millis(25);

/// The size above which the log is rotated at the next start.
const MAX_LOG_BYTES: u64 = 8 * 1024 * 1024;

/// The number of bytes of the log that an error quotes.
const QUOTED_BYTES: u64 = 1500;

/// The command that starts a server.
#[derive(Debug, Clone)]
pub struct ServerLaunch {
    /// The path of this program.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    /// The directory of its log, and of the lock that lets only one proxy start it.
    pub data_dir: PathBuf,
    pub starter: DetachedProcesses,
}

/// The reason why a server could not be started on demand.
#[derive(Debug, Error)]
pub enum ServerStartError {
    #[error("cannot start a server: `{}` cannot be used; give a directory with --data-dir", .path.display())]
    DataDir { path: PathBuf, source: io::Error },
    #[error("cannot start a server")]
    NotPrivate(#[from] PrivateDirError),
    #[error("cannot start a server; check the limits on processes and open files (ulimit -u, -n)")]
    Spawn(#[source] io::Error),
    #[error("the server ended as soon as it was started; `{}` says: {said}", .log.display())]
    Ended { log: PathBuf, said: String },
    #[error("the server was started and does not answer at {target}; `{}` says: {said}", .log.display())]
    Silent { target: String, log: PathBuf, said: String },
    /// A server runs, started by this proxy or another one, and refuses the connection.
    #[error(transparent)]
    Client(ClientError),
}

impl ServerLaunch {
    /// Starts the server unless another proxy has done so meanwhile, and waits until it answers.
    /// The server keeps running when the proxy ends.
    pub(super) async fn start_and_connect(
        &self,
        client: &ServerClient,
    ) -> Result<UpgradedStream, ServerStartError> {
        let _only_one = self.lock().await?;
        match client.upgrade(UPGRADE_PROTOCOL).await {
            Err(ClientError::NotListening { .. }) => {}
            reached => return reached.map_err(ServerStartError::Client),
        }
        let log = ServerLog::open(self.data_dir.join("server.log"))?;
        let launch = DetachedLaunch {
            program: &self.program,
            args: &self.args,
            env: &self.env,
            output: &log.file,
        };
        let mut server = self.starter.start(&launch).map_err(ServerStartError::Spawn)?;
        events::server_started_on_demand(server.pid(), &log.path);
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            match client.upgrade(UPGRADE_PROTOCOL).await {
                // The server is not ready yet, or it has ended with an error that is in its log.
                Err(error) if error.is_transient() => {}
                reached => return reached.map_err(ServerStartError::Client),
            }
            if server.try_reap().map_err(ServerStartError::Spawn)? {
                return Err(ServerStartError::Ended { said: log.last_lines(), log: log.path });
            }
            sleep(POLL_PAUSE).await;
        }
        let target = client.target().to_string();
        Err(ServerStartError::Silent { target, said: log.last_lines(), log: log.path })
    }

    /// Waits until no other proxy is starting a server. The lock lasts until the returned file is
    /// dropped.
    async fn lock(&self) -> Result<File, ServerStartError> {
        let path = self.data_dir.join("server.lock");
        let failed = |source| ServerStartError::DataDir { path: path.clone(), source };
        ensure_private_dir(&self.data_dir)?;
        let file = open_private(&path).map_err(failed)?;
        let locked = spawn_blocking(move || file.lock().map(|()| file));
        locked.await.map_err(io::Error::other).flatten().map_err(failed)
    }
}

/// The log of a server, from one start on.
struct ServerLog {
    path: PathBuf,
    file: File,
    start: u64,
}

impl ServerLog {
    fn open(path: PathBuf) -> Result<Self, ServerStartError> {
        let failed = |source| ServerStartError::DataDir { path: path.clone(), source };
        if Symlinks::Refuse.metadata(&path).is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
            fs::rename(&path, path.with_extension("log.1")).map_err(failed)?;
        }
        let file = open_private(&path).map_err(failed)?;
        let start = file.metadata().map_err(failed)?.len();
        Ok(Self { path, file, start })
    }

    /// The last lines since the start.
    fn last_lines(&self) -> String {
        let read = || {
            let mut file = Symlinks::Refuse.options().read(true).open(&self.path)?;
            let from = self.start.max(file.metadata()?.len().saturating_sub(QUOTED_BYTES));
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.take(QUOTED_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        };
        read().unwrap_or_else(|error: io::Error| error.to_string())
    }
}

/// Opens a private file for appending.
fn open_private(path: &std::path::Path) -> io::Result<File> {
    let mut options = Symlinks::Refuse.options();
    options.create(true).append(true).mode(0o600).open(path).map_err(explain_symlink_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_transient_errors_are_worth_a_retry() {
        let source = || io::ErrorKind::Other.into();
        let passing = || ClientError::Connect { target: "t".into(), source: source() };
        let lasting = || ClientError::Tls { target: "t".into(), source: source() };
        for (error, next_attempt) in [
            (OpenError::Client(passing()), NextAttempt::MaySucceed),
            (OpenError::Start(ServerStartError::Client(passing())), NextAttempt::MaySucceed),
            (OpenError::Client(lasting()), NextAttempt::Hopeless),
            (OpenError::Start(ServerStartError::Client(lasting())), NextAttempt::Hopeless),
            (OpenError::Start(ServerStartError::Spawn(source())), NextAttempt::Hopeless),
            (OpenError::NotRequested, NextAttempt::StartsServer),
        ] {
            assert_eq!(error.next_attempt(), next_attempt, "{error:?}");
        }
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let mut pauses = RetryPauses::new();
        let sequence: Vec<Duration> = (0..8).map(|_| pauses.next()).collect();
        assert_eq!(sequence[0], FIRST_PAUSE);
        assert!(sequence.is_sorted() && sequence[7] == LONGEST_PAUSE, "{sequence:?}");
    }
}
