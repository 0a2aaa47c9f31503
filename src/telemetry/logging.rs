//! Where log lines go: to stderr, never to stdout, and never so that anyone waits.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::time::Duration;
use std::{mem, thread};

use thiserror::Error;
use tracing::{Level, Metadata, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layered, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, fmt};

use super::log_line::{FilterLayer, JsonLine, KeepIds, LogFilter, NoFields, PlainLine};
use crate::filter::FilterError;

/// Lines that wait while nobody drains stderr; further ones are dropped.
const BUFFERED_LINES: usize = 2048;

/// Libraries that print whole requests below warn, environment values and stdin included.
const CAPPED: [&str; 4] = ["rmcp", "hyper", "hyper_util", "h2"];

/// How log lines look, and which are written.
#[derive(Debug, Clone)]
pub struct LoggingSettings {
    /// For people or for programs.
    pub format: LineFormat,
    /// A filter as in `RUST_LOG`. Libraries that print whole requests stay at warn
    /// whatever it says.
    pub filter: String,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFormat {
    /// One line per event, for people.
    Plain,
    /// The same, in colour.
    Coloured,
    /// One JSON object per line.
    Json,
}

/// Why there is no log.
#[derive(Debug, Error)]
pub enum LoggingError {
    /// The filter cannot be read.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The process has a log already.
    #[error("logging is already set up in this process; set it up once")]
    Installed(#[from] TryInitError),
}

impl LoggingError {
    /// The stable word that programs may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Filter(error) => error.code(),
            Self::Installed(_) => "log_installed",
        }
    }
}

/// Starts to log to stderr. Lines are written until the guard is dropped; which ones can be
/// changed meanwhile.
///
/// # Errors
/// When the filter cannot be read, or the process logs already.
pub fn start(logging: &LoggingSettings) -> Result<(LogGuard, LogFilter), LoggingError> {
    let (writer, guard) = writer_to(io::stderr());
    let (subscriber, filter) = subscriber(logging, writer)?;
    subscriber.try_init()?;
    // Only the first log of a process got this far.
    DROPPED.set(guard.dropped.clone()).ok();
    Ok((guard, filter))
}

static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// Lines of this process's log that were dropped because nobody drained stderr.
pub(super) fn dropped_lines() -> u64 {
    DROPPED.get().map_or(0, |dropped| dropped.dropped_lines() as u64)
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
fn writer_to(sink: impl Write + Send + 'static) -> (NonBlocking, LogGuard) {
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(BUFFERED_LINES);
    let (writer, worker) = builder.thread_name("log").finish(Gathered::new(sink));
    let guard = LogGuard { worker: Some(worker), dropped: writer.error_counter() };
    (writer, guard)
}

fn subscriber(
    logging: &LoggingSettings,
    writer: NonBlocking,
) -> Result<(impl Subscriber + Send + Sync, LogFilter), LoggingError> {
    let (layer, filter) = LogFilter::new(&logging.filter)?;
    let lines = lines(logging.format, writer);
    // A filter of its own, because in one filter a directive for `rmcp::service` would
    // win over a cap on `rmcp`.
    let subscriber = Registry::default().with(layer).with(lines).with(filter_fn(within_cap));
    Ok((subscriber, filter))
}

/// Everything that the filter lets through.
type Filtered = Layered<FilterLayer, Registry>;

fn lines(format: LineFormat, writer: NonBlocking) -> Box<dyn Layer<Filtered> + Send + Sync> {
    let layer = fmt::layer().fmt_fields(NoFields).with_writer(writer);
    match format {
        LineFormat::Plain => {
            KeepIds.and_then(layer.with_ansi(false).event_format(PlainLine)).boxed()
        }
        LineFormat::Coloured => {
            KeepIds.and_then(layer.with_ansi(true).event_format(PlainLine)).boxed()
        }
        LineFormat::Json => KeepIds.and_then(layer.with_ansi(false).event_format(JsonLine)).boxed(),
    }
}

fn within_cap(event: &Metadata<'_>) -> bool {
    let root = event.target().split("::").next().unwrap_or_default();
    *event.level() <= Level::WARN || !CAPPED.contains(&root)
}

// A writer that gathers lines and writes them together.

/// Whoever has written lets those gather that come in this time: as long as he does not wait for the
/// next one, who logs it need not wake him.
const GATHERING: Duration = Duration::from_millis(10);

/// As much is written at once.
const AT_ONCE: usize = 16 * 1024;

/// Holds lines back until it is flushed, which takes a moment after some were written.
#[derive(Debug)]
pub(super) struct Gathered<W> {
    sink: W,
    lines: Vec<u8>,
}

impl<W: Write> Gathered<W> {
    pub(super) const fn new(sink: W) -> Self {
        Self { sink, lines: Vec::new() }
    }

    fn write_out(&mut self) -> io::Result<()> {
        let written = self.sink.write_all(&self.lines);
        // What could not be written then could not be later.
        self.lines.clear();
        written
    }
}

impl<W: Write> Write for Gathered<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.extend_from_slice(bytes);
        if self.lines.len() >= AT_ONCE {
            self.write_out()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.lines.is_empty() {
            return self.sink.flush();
        }
        self.write_out()?;
        self.sink.flush()?;
        thread::sleep(GATHERING);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::events;
    use super::super::spans::{SpanKind, TraceSpan};
    use super::*;
    use crate::ids::JobId;
    use crate::trace::TraceContext;
    use std::sync::{Arc, Mutex, PoisonError};

    /// A sink that can be looked into.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LineFormat, filter: &str, happen: impl FnOnce()) -> String {
        logged_while(format, filter, |_| happen())
    }

    fn logged_while(format: LineFormat, filter: &str, happen: impl FnOnce(&LogFilter)) -> String {
        let sink = Sink::default();
        let (writer, guard) = writer_to(sink.clone());
        let logging = LoggingSettings { format, filter: filter.to_owned() };
        let (subscriber, filter) = subscriber(&logging, writer).unwrap();
        tracing::subscriber::with_default(subscriber, || happen(&filter));
        drop(guard);
        // The guard waits for a second at most. The log's thread may get its turn later, and
        // lets go of the sink with its last line.
        let begun = std::time::Instant::now();
        while Arc::strong_count(&sink.0) > 1 {
            assert!(begun.elapsed().as_secs() < 60, "the log does not end");
            thread::yield_now();
        }
        let bytes = sink.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        String::from_utf8(bytes).unwrap()
    }

    const FORGERY: &str = "echo hi\n2026-01-01T00:00:00Z ERROR forged \u{1b}[31m";

    #[test]
    fn a_command_cannot_forge_a_line() {
        for format in [LineFormat::Plain, LineFormat::Json] {
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
        let text =
            logged(LineFormat::Json, "info", || events::job_submitted(JobId::local(1), "true"));
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["message"], "job submitted");
        assert_eq!(line["job_id"], "1");
        assert_eq!(line["command"], "\"true\"");
    }

    fn json(text: &str) -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_json_line_has_its_own_words_and_sets_others_of_that_name_apart() {
        let text = logged(LineFormat::Json, "info", || {
            tracing::info!(target: "a::b", target = "x", count = 3, share = 0.5, ok = true, "told");
        });
        let line = &json(&text)[0];
        let start = r#"{"timestamp":"20"#;
        assert!(text.starts_with(start) && text.contains(r#"Z","level":"INFO","target":"a::b","#));
        assert_eq!((&line["message"], &line["field_target"]), (&"told".into(), &"x".into()));
        assert_eq!(line["count"], 3);
        assert_eq!((&line["share"], &line["ok"]), (&0.5.into(), &true.into()));
        assert!(line.get("trace_id").is_none() && line.get("span").is_none(), "{text}");
    }

    /// Tells something in a span, in a library's span inside a further one, of a trace by name,
    /// and outside of all.
    fn tell_in_spans() -> [TraceContext; 2] {
        let tell = || tracing::info!(target: "shellyard::job", "told");
        let span = |parent| TraceSpan::start(SpanKind::Internal, "work".to_owned(), parent);
        let outer = span(None);
        let inner = span(Some(outer.context()));
        outer.log().in_scope(tell);
        let of_a_library =
            inner.log().in_scope(|| tracing::error_span!(target: "shellyard::job", "other"));
        of_a_library.in_scope(tell);
        outer.log().in_scope(|| tracing::info!(target: "shellyard::job", trace_id = "own", "told"));
        tell();
        [outer.context().clone(), inner.context().clone()]
    }

    #[test]
    fn a_line_inside_a_span_names_its_trace_whatever_the_filter_is() {
        for filter in ["info", "off,shellyard::job=info"] {
            let mut contexts = Vec::new();
            let text = logged(LineFormat::Json, filter, || contexts.extend(tell_in_spans()));
            let lines = json(&text);
            assert_eq!(lines.len(), 4, "{text}");
            for (line, context) in lines.iter().zip(&contexts) {
                assert_eq!(line["trace_id"], context.trace_id.to_string());
                assert_eq!(line["span_id"], context.span_id.to_string());
            }
            assert_eq!(lines[2]["trace_id"], "own", "{text}");
            assert!(lines[3].get("trace_id").is_none(), "{text}");
        }
    }

    #[test]
    fn a_line_for_people_names_its_trace_shortly() {
        let mut id = String::new();
        let text = logged(LineFormat::Plain, "info", || {
            let span = TraceSpan::start(SpanKind::Server, "call".to_owned(), None);
            id = span.context().trace_id.to_string();
            span.log().in_scope(|| tracing::info!(target: "a", count = 3, "told"));
        });
        let end = format!("Z  INFO a: told count=3 trace={}\n", &id[..8]);
        assert!(text.ends_with(&end), "{text}");
        let coloured = logged(LineFormat::Coloured, "info", || tracing::warn!(target: "a", "told"));
        assert!(coloured.contains("\u{1b}[33m WARN\u{1b}[0m"), "{coloured:?}");
    }

    #[test]
    fn a_filter_that_changes_holds_at_once_and_the_cap_stays() {
        let text = logged_while(LineFormat::Plain, "warn", |filter| {
            let tell = |words: &str| {
                tracing::debug!(target: "shellyard::job", "{words}");
                tracing::debug!(target: "rmcp::service", "secret");
            };
            tell("before");
            filter.set_override("trace,rmcp=trace", None).unwrap();
            tell("meanwhile");
            filter.reset();
            tell("after");
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("meanwhile"), "{text}");
    }

    #[test]
    fn a_long_command_is_cut() {
        let long = "é".repeat(10_000);
        let text =
            logged(LineFormat::Plain, "info", || events::job_submitted(JobId::local(1), &long));
        assert_eq!(text.matches('é').count(), 500);
        assert!(text.contains('…'), "{text}");
    }

    #[test]
    fn no_filter_makes_the_libraries_print_requests() {
        let text = logged(LineFormat::Plain, "trace,rmcp::service=trace,hyper=debug", || {
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
        let logging =
            LoggingSettings { format: LineFormat::Plain, filter: "shellyard=loud".into() };
        let (writer, _guard) = writer_to(io::sink());
        let error = subscriber(&logging, writer).err().unwrap();
        assert_eq!(error.code(), "log_filter");
        assert!(error.to_string().contains("shellyard=debug"), "{error}");
    }

    /// A stderr that nobody drains.
    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl Write for Stuck {
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
        for _ in 0..4 * BUFFERED_LINES {
            Write::write_all(&mut writer, &[b'x'; 100]).unwrap();
        }
        assert!(guard.dropped.dropped_lines() >= 2 * BUFFERED_LINES);
        drop(guard); // returns although the queue is full
    }

    #[test]
    fn an_undrained_stderr_is_not_complained_of_on_stdout() {
        // In a process of its own, where stdout can be read.
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("telemetry::logging::tests::an_undrained_stderr_blocks_nobody")
            .output()
            .unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(stdout.contains("1 passed"), "{stdout}");
        assert!(!stdout.contains("shutdown signal"), "{stdout}");
    }
}

#[cfg(test)]
mod gathered_tests {
    use super::*;

    /// Every write by itself.
    #[derive(Default)]
    struct Writes(Vec<Vec<u8>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_between_two_flushes_are_one_write() {
        let mut log = Gathered::new(Writes::default());
        for line in ["a\n", "b\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(log.sink.0.len(), 0);
        log.flush().unwrap();
        log.flush().unwrap();
        assert_eq!(log.sink.0, [b"a\nb\n"]);
    }

    #[test]
    fn what_is_held_back_is_bounded() {
        let mut log = Gathered::new(Writes::default());
        for _ in 0..100 {
            log.write_all(&[b'x'; 1024]).unwrap();
            assert!(log.lines.len() < AT_ONCE);
        }
        assert_eq!(log.sink.0.iter().map(Vec::len).sum::<usize>() + log.lines.len(), 100 * 1024);
    }
}
