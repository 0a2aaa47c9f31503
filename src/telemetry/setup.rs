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

#[cfg(test)]
mod tests {
    use super::super::events;
    use super::*;
    use crate::ids::JobId;
    use std::sync::{Arc, Mutex, PoisonError};

    /// A sink that can be looked into.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format, filter: &str, happen: impl FnOnce()) -> String {
        let sink = Sink::default();
        let (writer, guard) = writer_to(sink.clone());
        let logging = Logging { format, filter: filter.to_owned() };
        tracing::subscriber::with_default(subscriber(&logging, writer).unwrap(), happen);
        drop(guard);
        let bytes = sink.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        String::from_utf8(bytes).unwrap()
    }

    const FORGERY: &str = "echo hi\n2026-01-01T00:00:00Z ERROR forged \u{1b}[31m";

    #[test]
    fn a_command_cannot_forge_a_line() {
        for format in [Format::Plain, Format::Json] {
            let text = logged(format, "info", || events::job_submitted(JobId::local(1), FORGERY));
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(!text.contains('\u{1b}'), "{text:?}");
            let text = logged(format, "info", || events::command_executing(FORGERY));
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(!text.contains('\u{1b}') && text.contains("Executing: echo hi"), "{text:?}");
        }
    }

    #[test]
    fn json_lines_are_flat_objects() {
        let text = logged(Format::Json, "info", || events::job_submitted(JobId::local(1), "true"));
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["message"], "job submitted");
        assert_eq!(line["job_id"], "1");
        assert_eq!(line["command"], "\"true\"");
    }

    #[test]
    fn a_long_command_is_cut() {
        let long = "é".repeat(10_000);
        let text = logged(Format::Plain, "info", || events::job_submitted(JobId::local(1), &long));
        assert_eq!(text.matches('é').count(), 500);
        assert!(text.contains('…'), "{text}");
    }

    #[test]
    fn no_filter_makes_the_libraries_print_requests() {
        let text = logged(Format::Plain, "trace,rmcp::service=trace,hyper=debug", || {
            tracing::debug!(target: "rmcp::service", "secret");
            tracing::info!(target: "rmcp", "secret");
            tracing::trace!(target: "hyper_util::server", "secret");
            tracing::warn!(target: "rmcp::service", "told");
            tracing::trace!(target: "shellyard::job", "told");
        });
        assert_eq!(text.matches("secret").count(), 0, "{text}");
        assert_eq!(text.matches("told").count(), 2, "{text}");
    }

    #[test]
    fn a_bad_filter_is_an_error_that_shows_a_good_one() {
        let logging = Logging { format: Format::Plain, filter: "shellyard=loud".into() };
        let (writer, _guard) = writer_to(io::sink());
        let error = subscriber(&logging, writer).err().unwrap();
        assert_eq!(error.code(), "log_filter");
        assert!(error.to_string().contains("shellyard=debug"), "{error}");
    }

    /// A stderr that nobody drains.
    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl io::Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().ok(); // returns once the test is over
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_undrained_stderr_blocks_nobody() {
        let (_release, stuck) = std::sync::mpsc::channel();
        let (mut writer, guard) = writer_to(Stuck(stuck));
        for _ in 0..2 * BUFFERED_LINES {
            io::Write::write_all(&mut writer, b"line\n").unwrap();
        }
        assert!(guard.dropped.dropped_lines() >= BUFFERED_LINES - 1);
        drop(guard); // returns although the queue is full
    }

    #[test]
    fn an_undrained_stderr_is_not_complained_of_on_stdout() {
        // In a process of its own, where stdout can be read.
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("telemetry::setup::tests::an_undrained_stderr_blocks_nobody")
            .output()
            .unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(stdout.contains("1 passed"), "{stdout}");
        assert!(!stdout.contains("shutdown signal"), "{stdout}");
    }
}
