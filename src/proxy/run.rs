//! Relays lines between a client and its server while the client is connected: connects to the server,
//! starts it first if that is configured, and connects again when it is lost.

use std::error::Error as _;
use std::ffi::OsString;
use std::fs::{self, File};
use std::future::pending;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::iter;
use std::mem;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::stdio_pipes;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};

use super::session::{ClientLine, Event, ProxyAction, ProxySession, ServerLine};
use crate::client::{ClientError, ServerClient, UpgradedStream};
use crate::lines::{InputLine, UPGRADE_PROTOCOL, read_line};
use crate::private_files::{PrivateDirError, Symlinks, ensure_private_dir, explain_symlink_error};
use crate::process::{DetachedLaunch, DetachedProcess};
use crate::telemetry::events;

/// The capacity of each channel of lines: one, since a line may be long.
const READ_AHEAD: usize = 1;

/// The time that the server has for its last responses after the end of input. It cancels calls
/// well before.
const INPUT_END_GRACE: Duration = Duration::from_secs(5);

/// Relays lines between standard input and output and the server until the input ends. Calls in
/// flight then get a moment to be answered. Errors of the server do not end the proxy.
pub async fn serve(upstream: Upstream) {
    let (input, output) = stdio_pipes();
    let (parsed, lines) = mpsc::channel(READ_AHEAD);
    // The reader task ends with this function, on every return path.
    let mut reader = JoinSet::new();
    reader.spawn(read_lines(input, parsed, ClientLine::from_line));
    let proxy = Proxy {
        upstream: Arc::new(upstream),
        session: ProxySession::new(),
        input: ClientInput::Open(lines),
        output,
    };
    if let Err(error) = proxy.run().await {
        tracing::debug!(%error, "the client is gone");
    }
}

/// The input of the client.
enum ClientInput {
    Open(mpsc::Receiver<ClientLine>),
    Ended,
}

impl ClientInput {
    /// Returns the next line; `None` at the end. Cancel-safe. Never returns once the input has
    /// ended.
    async fn next(&mut self) -> Option<ClientLine> {
        let line = match self {
            Self::Open(lines) => lines.recv().await,
            Self::Ended => pending().await,
        };
        if line.is_none() {
            *self = Self::Ended;
        }
        line
    }

    const fn has_ended(&self) -> bool {
        matches!(self, Self::Ended)
    }
}

struct Proxy<W> {
    upstream: Arc<Upstream>,
    session: ProxySession,
    input: ClientInput,
    output: W,
}

impl<W: AsyncWrite + Unpin> Proxy<W> {
    /// Runs until the input ends. An error means that the client is gone.
    async fn run(mut self) -> io::Result<()> {
        let target = self.upstream.client.target().to_string();
        let mut pause = Duration::ZERO;
        while let Some(connection) = self.connect(pause).await? {
            let since = Instant::now();
            events::proxy_connected(&target);
            let known = self.apply(Event::Connected).await?;
            let mut connection = ServerConnection::new(connection, known);
            self.relay(&mut connection).await?;
            if self.input.has_ended() {
                connection.to_server = None;
                // Requests that are still unanswered then get an error that the server was lost.
                timeout(INPUT_END_GRACE, self.relay_remaining(&mut connection))
                    .await
                    .unwrap_or(Ok(()))?;
            } else {
                events::proxy_disconnected(&target);
            }
            self.apply(Event::Lost).await?;
            pause = pause_after(since.elapsed());
        }
        Ok(())
    }

    /// Connects to the server after this pause, however long it takes. Returns `None` once the
    /// input has ended and no request is queued.
    async fn connect(&mut self, pause: Duration) -> io::Result<Option<UpgradedStream>> {
        let upstream = Arc::clone(&self.upstream);
        let (failed, mut failure) = watch::channel(ConnectFailure::not_yet(&upstream));
        let (wanted, demand_changes) = watch::channel(self.demand());
        let mut opening = pin!(async {
            sleep(pause).await;
            connect_with_retries(&upstream, &failed, demand_changes).await
        });
        let mut hold = pin!(sleep(upstream.hold()));
        while !self.input.has_ended() || self.session.has_queued() {
            let event = tokio::select! {
                connection = &mut opening => return Ok(Some(connection)),
                line = self.input.next() => line.map(Event::Client),
                () = &mut hold, if !hold.is_elapsed() => failure.borrow().give_up_event(HoldPhase::Over),
                Ok(()) = failure.changed() => {
                    let hold = if hold.is_elapsed() { HoldPhase::Over } else { HoldPhase::Running };
                    failure.borrow_and_update().give_up_event(hold)
                }
            };
            if let Some(event) = event {
                // None of the actions goes to the server: there is none.
                self.apply(event).await?;
            }
            let demand = self.demand();
            // Only the first queued request is a change worth reporting.
            wanted.send_if_modified(|now| {
                mem::replace(now, demand) != demand && demand == ServerDemand::Waiting
            });
        }
        Ok(None)
    }

    fn demand(&self) -> ServerDemand {
        if self.session.has_queued() { ServerDemand::Waiting } else { ServerDemand::Idle }
    }

    /// Relays lines until the connection is lost or the input ends.
    async fn relay(&mut self, connection: &mut ServerConnection) -> io::Result<()> {
        while !self.input.has_ended() {
            let ServerConnection { from_server, to_server, .. } = &mut *connection;
            let event = tokio::select! {
                // The server comes first: a line that the client sends after the loss was never in
                // flight.
                biased;
                line = from_server.recv() => match line {
                    Some(line) => Some(Event::Server(line)),
                    None => return Ok(()),
                },
                line = next_line(&mut self.input, to_server.as_ref()) => line.map(Event::Client),
            };
            let Some(event) = event else { continue };
            for line in self.apply(event).await? {
                connection.send(line);
            }
        }
        Ok(())
    }

    /// Relays responses until every request in flight is answered.
    async fn relay_remaining(&mut self, connection: &mut ServerConnection) -> io::Result<()> {
        while self.session.has_in_flight()
            && let Some(line) = connection.from_server.recv().await
        {
            self.apply(Event::Server(line)).await?;
        }
        Ok(())
    }

    /// Applies an event and returns the lines for the server.
    async fn apply(&mut self, event: Event) -> io::Result<Vec<Vec<u8>>> {
        let mut to_server = Vec::new();
        for action in self.session.apply(event) {
            match action {
                ProxyAction::ToServer(line) => to_server.push(line),
                ProxyAction::ToClient(line) => write_line(&mut self.output, line).await?,
            }
        }
        Ok(to_server)
    }
}

/// A connection and the tasks that read and write it, so that neither direction waits for the
/// other.
struct ServerConnection {
    from_server: mpsc::Receiver<ServerLine>,
    /// Dropping the sender closes this direction alone.
    to_server: Option<mpsc::Sender<Vec<u8>>>,
    _tasks: JoinSet<()>,
}

impl ServerConnection {
    /// Starts the tasks and sends the first lines at once.
    fn new(connection: UpgradedStream, first: Vec<Vec<u8>>) -> Self {
        let (read, write) = tokio::io::split(connection);
        let (parsed, from_server) = mpsc::channel(READ_AHEAD);
        let (to_server, lines) = mpsc::channel(READ_AHEAD);
        let mut tasks = JoinSet::new();
        tasks.spawn(read_lines(read, parsed, ServerLine::from_line));
        tasks.spawn(write_lines(write, first, lines));
        Self { from_server, to_server: Some(to_server), _tasks: tasks }
    }

    /// Sends a line; there is room for it. If the writer task has ended, the connection is about to
    /// be reported as lost, and the line with it.
    fn send(&self, line: Vec<u8>) {
        if let Some(to_server) = &self.to_server {
            to_server.try_send(line).ok();
        }
    }
}

/// Returns the next line of the client once there is room for it on the way to the server.
async fn next_line(
    input: &mut ClientInput,
    to_server: Option<&mpsc::Sender<Vec<u8>>>,
) -> Option<ClientLine> {
    match to_server {
        Some(to_server) if to_server.reserve().await.is_ok() => input.next().await,
        // The writer has ended: the reader will report the loss.
        Some(_) | None => pending().await,
    }
}

/// The reason why there is no connection so far.
#[derive(Debug, PartialEq, Eq)]
struct ConnectFailure {
    why: String,
    next_attempt: NextAttempt,
}

impl ConnectFailure {
    fn not_yet(upstream: &Upstream) -> Self {
        let target = upstream.client.target();
        let why = format!(
            "{target} does not answer yet: it may be starting, overloaded or another program; try \
             again, or start a server with {}",
            target.start_command()
        );
        Self { why, next_attempt: NextAttempt::MaySucceed }
    }

    /// Returns the event that refuses queued requests, if waiting longer is useless.
    fn give_up_event(&self, hold: HoldPhase) -> Option<Event> {
        let is_over = match (self.next_attempt, hold) {
            (NextAttempt::Hopeless, _) | (NextAttempt::MaySucceed, HoldPhase::Over) => true,
            (NextAttempt::StartsServer, _) | (NextAttempt::MaySucceed, HoldPhase::Running) => false,
        };
        is_over.then(|| Event::GiveUp { why: self.why.clone() })
    }
}

/// The state of the time for which requests wait for a server to come back.
#[derive(Debug, Clone, Copy)]
enum HoldPhase {
    Running,
    Over,
}

/// Connects with retries and reports why it failed so far. A request that starts to wait cuts a
/// pause short.
async fn connect_with_retries(
    upstream: &Upstream,
    failed: &watch::Sender<ConnectFailure>,
    mut demand_changes: watch::Receiver<ServerDemand>,
) -> UpgradedStream {
    let mut pauses = RetryPauses::new();
    loop {
        let demand = *demand_changes.borrow_and_update();
        let error = match upstream.open(demand).await {
            Ok(connection) => return connection,
            Err(error) => error,
        };
        let failure =
            ConnectFailure { why: with_causes(&error), next_attempt: error.next_attempt() };
        let is_news = *failed.borrow() != failure;
        if is_news {
            events::proxy_unreachable(&failure.why);
        }
        failed.send_replace(failure);
        tokio::select! {
            () = sleep(pauses.next()) => {}
            Ok(()) = demand_changes.changed() => {}
        }
    }
}

/// Formats an error and its causes as one line.
fn with_causes(error: &OpenError) -> String {
    let causes = iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Reads lines until the end of input and sends what `parse` makes of them.
async fn read_lines<T>(
    input: impl AsyncRead + Unpin,
    parsed: mpsc::Sender<T>,
    parse: fn(InputLine) -> Option<T>,
) {
    let mut input = BufReader::new(input);
    while let Ok(Some(line)) = read_line(&mut input).await {
        if let Some(line) = parse(line)
            && parsed.send(line).await.is_err()
        {
            return;
        }
    }
}

/// Writes lines as they come, then closes this direction.
async fn write_lines(
    mut output: impl AsyncWrite + Unpin,
    first: Vec<Vec<u8>>,
    mut more: mpsc::Receiver<Vec<u8>>,
) {
    let mut written = Ok(());
    for line in first {
        written = written.and(write_line(&mut output, line).await);
    }
    while written.is_ok()
        && let Some(line) = more.recv().await
    {
        written = write_line(&mut output, line).await;
    }
    // The reader detects a broken connection.
    output.shutdown().await.ok();
}

async fn write_line(output: &mut (impl AsyncWrite + Unpin), mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    output.write_all(&line).await?;
    output.flush().await
}

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
enum OpenError {
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
enum ServerDemand {
    /// No request is queued; a stopped server is left alone.
    Idle,
    /// A request waits for a server.
    Waiting,
}

/// The prospect of the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextAttempt {
    /// It starts a server if a request is queued.
    StartsServer,
    /// The failure looks like a restart: it is worth waiting.
    MaySucceed,
    /// The failure lasts until someone intervenes.
    Hopeless,
}

impl OpenError {
    fn next_attempt(&self) -> NextAttempt {
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
    async fn open(&self, demand: ServerDemand) -> Result<UpgradedStream, OpenError> {
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
    const fn hold(&self) -> Duration {
        if self.launch.is_some() { HOLD_FOR_START } else { HOLD }
    }
}

/// The pause after a connection that lasted for `lived`: none, unless the server accepts
/// connections only to drop them.
const fn pause_after(lived: Duration) -> Duration {
    if lived.as_millis() < LONGEST_PAUSE.as_millis() { LONGEST_PAUSE } else { Duration::ZERO }
}

/// The growing pauses between attempts.
#[derive(Debug)]
struct RetryPauses(Duration);

impl RetryPauses {
    const fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    /// Returns the next pause.
    fn next(&mut self) -> Duration {
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
}

/// The reason why a server could not be started on demand.
#[derive(Debug, Error)]
enum ServerStartError {
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
    async fn start_and_connect(
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
        let server = DetachedProcess::start(&launch).map_err(ServerStartError::Spawn)?;
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
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = Symlinks::Refuse.options();
    options.create(true).append(true).mode(0o600).open(path).map_err(explain_symlink_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queued_requests_are_refused_when_a_retry_is_hopeless() {
        for (next_attempt, hold, is_over) in [
            (NextAttempt::Hopeless, HoldPhase::Running, true),
            (NextAttempt::Hopeless, HoldPhase::Over, true),
            (NextAttempt::MaySucceed, HoldPhase::Running, false),
            (NextAttempt::MaySucceed, HoldPhase::Over, true),
            // A server is about to be started for the queued requests.
            (NextAttempt::StartsServer, HoldPhase::Over, false),
        ] {
            let failure = ConnectFailure { why: "so".into(), next_attempt };
            let expected = is_over.then(|| Event::GiveUp { why: "so".into() });
            assert_eq!(failure.give_up_event(hold), expected, "{failure:?} {hold:?}");
        }
    }

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
