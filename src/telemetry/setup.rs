//! Where log lines go: to stderr, never to stdout, and never so that anyone waits.

use std::io;
use std::mem;

use thiserror::Error;
use tracing::{Level, Metadata, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{ParseError, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

/// Lines that wait while nobody drains stderr; further ones are dropped.
const BUFFERED_LINES: usize = 8192;

/// Libraries that print whole requests below warn, environment values and stdin included.
const CAPPED: [&str; 4] = ["rmcp", "hyper", "hyper_util", "h2"];

/// How log lines look, and which are written.
#[derive(Debug, Clone)]
pub struct Logging {
    /// For people or for programs.
    pub format: Format,
    /// A filter as in `RUST_LOG`. Libraries that print whole requests stay at warn
    /// whatever it says.
    pub filter: String,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One line per event, for people.
    Plain,
    /// The same, in colour.
    Coloured,
    /// One JSON object per line.
    Json,
}

/// Why there is no log.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The filter cannot be read.
    #[error("`{filter}` is not a log filter; write one such as `info` or `warn,shellyard=debug`")]
    Filter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// The process has a log already.
    #[error("logging is already set up in this process; set it up once")]
    Installed(#[from] TryInitError),
}

impl SetupError {
    /// The stable word that programs may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Filter { .. } => "log_filter",
            Self::Installed(_) => "log_installed",
        }
    }
}

/// Starts to log to stderr. Lines are written until the guard is dropped.
///
/// # Errors
/// When the filter cannot be read, or the process logs already.
pub fn start(logging: &Logging) -> Result<LogGuard, SetupError> {
    let (writer, guard) = writer_to(io::stderr());
    subscriber(logging, writer)?.try_init()?;
    Ok(guard)
}

/// Writes what is left when it is dropped, for a second at most.
#[derive(Debug)]
#[must_use = "dropping the guard ends the log"]
pub struct LogGuard {
    worker: Option<WorkerGuard>,
    dropped: ErrorCounter,
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        // With a full queue the worker's own guard would complain on stdout, which belongs
        // to the MCP client. Where lines were dropped nobody drains stderr: do not wait.
        if self.dropped.dropped_lines() > 0 {
            mem::forget(self.worker.take());
        }
    }
}

/// A writer that never blocks: when nobody drains `sink`, lines are dropped.
fn writer_to(sink: impl io::Write + Send + 'static) -> (NonBlocking, LogGuard) {
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(BUFFERED_LINES);
    let (writer, worker) = builder.thread_name("log").finish(sink);
    let guard = LogGuard { worker: Some(worker), dropped: writer.error_counter() };
    (writer, guard)
}

fn subscriber(
    logging: &Logging,
    writer: NonBlocking,
) -> Result<impl Subscriber + Send + Sync, SetupError> {
    let filter = EnvFilter::builder()
        .parse(&logging.filter)
        .map_err(|source| SetupError::Filter { filter: logging.filter.clone(), source })?;
    let lines = lines(logging.format, writer);
    // A filter of its own, because in one filter a directive for `rmcp::service` would
    // win over a cap on `rmcp`.
    Ok(Registry::default().with(lines).with(filter).with(filter_fn(within_cap)))
}

fn lines(format: Format, writer: NonBlocking) -> Box<dyn Layer<Registry> + Send + Sync> {
    let layer = fmt::layer().with_writer(writer);
    match format {
        Format::Plain => layer.with_ansi(false).boxed(),
        Format::Coloured => layer.with_ansi(true).boxed(),
        Format::Json => layer.with_ansi(false).json().flatten_event(true).boxed(),
    }
}

fn within_cap(event: &Metadata<'_>) -> bool {
    let root = event.target().split("::").next().unwrap_or_default();
    *event.level() <= Level::WARN || !CAPPED.contains(&root)
}
