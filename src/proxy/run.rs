//! Relays lines between a client and its server while the client is connected.

use std::error::Error as _;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use std::{io, iter, mem};

use rmcp::transport::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::session::{ClientLine, Event, ProxyAction, ProxySession, ServerLine};
use super::upstream::{NextAttempt, OpenError, RetryPauses, ServerDemand, Upstream, pause_after};
use crate::client::UpgradedStream;
use crate::lines::{InputLine, read_line};
use crate::telemetry::events;

/// The capacity of each channel of lines: one, since a line may be long.
const READ_AHEAD: usize = 1;

/// The time that the server has for its last responses after the end of input. It cancels calls
/// well before.
const INPUT_END_GRACE: Duration = Duration::from_secs(5);

/// Relays lines between standard input and output and the server until the input ends. Calls in
/// flight then get a moment to be answered. Errors of the server do not end the proxy.
pub async fn serve(upstream: Upstream) {
    serve_on(upstream, stdio_pipes()).await;
}

async fn serve_on<R, W>(upstream: Upstream, (input, output): (R, W))
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Unpin,
{
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
}
