//! The log: lines go to stderr, never to stdout, and writing one never blocks the caller. A line has
//! one of two formats, and names the trace that it belongs to.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, mem, thread};

use serde::{Serialize, Serializer};
use serde_json::Value;
use thiserror::Error;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, Layered, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use super::events;
use crate::setting_values::{FilterError, parse_filter};

/// Lines that are buffered while nobody reads stderr; further lines are dropped.
const BUFFERED_LINES: usize = 2048;

/// Libraries that log whole requests below warn, including environment values and stdin.
const CAPPED_CRATES: [&str; 4] = ["rmcp", "hyper", "hyper_util", "h2"];

/// The format and the filter of the log.
#[derive(Debug, Clone)]
pub struct LoggingSettings {
    pub format: LineFormat,
    /// A filter with the syntax of `RUST_LOG`. It cannot make libraries that log whole requests
    /// more verbose than warn.
    pub filter: String,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFormat {
    /// One line per event, for people.
    Plain,
    /// One line per event, in colour.
    Coloured,
    /// One JSON object per line.
    Json,
}

/// An error that prevents logging.
#[derive(Debug, Error)]
pub enum LoggingError {
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error("logging is already set up in this process; set it up once")]
    Installed(#[from] TryInitError),
}

impl LoggingError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Filter(error) => error.code(),
            Self::Installed(_) => "log_installed",
        }
    }
}

/// Starts the log on stderr. Dropping the guard ends it. The returned [`LogFilter`] changes the
/// filter meanwhile.
///
/// # Errors
/// Fails if the filter is not valid or the process already has a log.
pub fn start(logging: &LoggingSettings) -> Result<(LogGuard, LogFilter), LoggingError> {
    let (writer, guard) = new_non_blocking_writer(io::stderr());
    let (subscriber, filter) = build_subscriber(logging, writer)?;
    subscriber.try_init()?;
    // Only the first log of a process gets this far.
    DROPPED.set(guard.dropped.clone()).ok();
    Ok((guard, filter))
}

static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// Returns how many log lines were dropped because nobody read stderr.
pub(super) fn count_dropped_lines() -> u64 {
    DROPPED.get().map_or(0, |dropped| dropped.dropped_lines() as u64)
}

/// Keeps the log open. Dropping it writes the buffered lines, for at most a second.
#[derive(Debug)]
#[must_use = "dropping the guard ends the log"]
pub struct LogGuard {
    worker: Option<WorkerGuard>,
    dropped: ErrorCounter,
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        // If the queue is full, the worker's own guard prints a message to stdout, which belongs
        // to the MCP client. Dropped lines show that nobody reads stderr: do not wait.
        if self.dropped.dropped_lines() > 0 {
            mem::forget(self.worker.take());
        }
    }
}

/// Creates a writer that never blocks: if `sink` does not accept lines, they are dropped.
fn new_non_blocking_writer(sink: impl Write + Send + 'static) -> (NonBlocking, LogGuard) {
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(BUFFERED_LINES);
    let (writer, worker) = builder.thread_name("log").finish(BatchWriter::new(sink));
    let guard = LogGuard { worker: Some(worker), dropped: writer.error_counter() };
    (writer, guard)
}

fn build_subscriber(
    logging: &LoggingSettings,
    writer: NonBlocking,
) -> Result<(impl Subscriber + Send + Sync, LogFilter), LoggingError> {
    let (layer, filter) = LogFilter::new(&logging.filter)?;
    let lines = format_layer(logging.format, writer);
    // The cap is a separate filter: in one filter, a directive for `rmcp::service` would win over
    // a cap on `rmcp`.
    let subscriber = Registry::default().with(layer).with(lines).with(filter_fn(is_within_cap));
    Ok((subscriber, filter))
}

/// The events that pass the filter.
type Filtered = Layered<FilterLayer, Registry>;

fn format_layer(format: LineFormat, writer: NonBlocking) -> Box<dyn Layer<Filtered> + Send + Sync> {
    let layer = tracing_subscriber::fmt::layer().fmt_fields(NoFields).with_writer(writer);
    match format {
        LineFormat::Plain => {
            SpanIdLayer.and_then(layer.with_ansi(false).event_format(PlainFormat)).boxed()
        }
        LineFormat::Coloured => {
            SpanIdLayer.and_then(layer.with_ansi(true).event_format(PlainFormat)).boxed()
        }
        LineFormat::Json => {
            SpanIdLayer.and_then(layer.with_ansi(false).event_format(JsonFormat)).boxed()
        }
    }
}

fn is_within_cap(event: &Metadata<'_>) -> bool {
    let root = event.target().split("::").next().unwrap_or_default();
    *event.level() <= Level::WARN || !CAPPED_CRATES.contains(&root)
}

// The writer of the log thread.

/// After a write the log thread sleeps for this long, so that further lines collect. While it does
/// not wait for a line, a caller that logs one need not wake it.
const BATCH_DELAY: Duration = Duration::from_millis(10);

/// Lines are written as soon as this many bytes are buffered.
const BATCH_BYTES: usize = 16 * 1024;

/// Buffers lines until the flush, and writes them together. A flush that wrote something then
/// sleeps for [`BATCH_DELAY`].
#[derive(Debug)]
struct BatchWriter<W> {
    sink: W,
    lines: Vec<u8>,
}

impl<W: Write> BatchWriter<W> {
    const fn new(sink: W) -> Self {
        Self { sink, lines: Vec::new() }
    }

    fn write_out(&mut self) -> io::Result<()> {
        let written = self.sink.write_all(&self.lines);
        // Lines that could not be written now could not be written later either.
        self.lines.clear();
        written
    }
}

impl<W: Write> Write for BatchWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.extend_from_slice(bytes);
        if self.lines.len() >= BATCH_BYTES {
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
        thread::sleep(BATCH_DELAY);
        Ok(())
    }
}

// The log filter, which can change while the process runs.

/// A directive that keeps our spans enabled: a log line finds its trace in them, whatever the filter
/// is.
const SPAN_DIRECTIVE: &str = concat!(env!("CARGO_CRATE_NAME"), "::telemetry::spans=error");

/// A directive that keeps those prescribed lines enabled: `execute_command.verbose` controls them.
const DOCUMENTED_DIRECTIVE: &str = "mcpz=info";

/// The layer that applies the filter.
type FilterLayer = reload::Layer<EnvFilter, Registry>;

/// The filter of log lines: the configured one, or an override that an operator set for a while.
/// Clones are cheap and share the filter.
#[derive(Clone)]
pub struct LogFilter {
    layer: reload::Handle<EnvFilter, Registry>,
    state: Arc<Mutex<State>>,
}

/// The state of the log filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilterStatus {
    pub filter: String,
    /// The configured filter.
    pub configured: String,
    /// The time until the configured filter is active again, if the override has an end.
    pub remaining: Option<Duration>,
}

#[derive(Debug)]
struct State {
    configured: String,
    active_override: Option<FilterOverride>,
    /// The number of changes. A timer that was started before the last change does nothing.
    generation: u64,
}

#[derive(Debug)]
struct FilterOverride {
    filter: String,
    until: Option<Instant>,
}

impl State {
    fn filter(&self) -> &str {
        self.active_override.as_ref().map_or(&self.configured, |active| &active.filter)
    }
}

impl LogFilter {
    /// Creates the layer with the configured filter, and the handle that changes it.
    fn new(configured: &str) -> Result<(FilterLayer, Self), FilterError> {
        let (layer, handle) = reload::Layer::new(parse_with_directives(configured)?);
        let configured = configured.to_owned();
        let state = State { configured, active_override: None, generation: 0 };
        Ok((layer, Self { layer: handle, state: Arc::new(Mutex::new(state)) }))
    }

    #[must_use]
    pub fn status(&self) -> LogFilterStatus {
        let state = self.state();
        let until = state.active_override.as_ref().and_then(|active| active.until);
        LogFilterStatus {
            filter: state.filter().to_owned(),
            configured: state.configured.clone(),
            remaining: until.map(|until| until.saturating_duration_since(Instant::now())),
        }
    }

    /// Overrides the configured filter, until `time` has passed if it is given. Call it inside a
    /// tokio runtime, which runs the timer.
    ///
    /// # Errors
    /// Fails and changes nothing if the text is not a filter.
    pub fn set_override(&self, filter: &str, time: Option<Duration>) -> Result<(), FilterError> {
        let parsed = parse_with_directives(filter)?;
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let mut state = self.state();
        state.active_override = Some(FilterOverride { filter: filter.to_owned(), until });
        let generation = self.apply(state, parsed);
        if let Some(time) = time {
            tokio::spawn(self.clone().reset_after(time, generation));
        }
        Ok(())
    }

    /// Removes the override: the configured filter is active again.
    pub fn reset(&self) {
        self.remove_override(self.state());
    }

    /// Replaces the configured filter and removes the override.
    ///
    /// # Errors
    /// Fails and changes nothing if the text is not a filter.
    pub fn set_configured(&self, filter: &str) -> Result<(), FilterError> {
        let parsed = parse_with_directives(filter)?;
        let mut state = self.state();
        filter.clone_into(&mut state.configured);
        state.active_override = None;
        self.apply(state, parsed);
        Ok(())
    }

    async fn reset_after(self, after: Duration, generation: u64) {
        tokio::time::sleep(after).await;
        let state = self.state();
        if state.generation == generation {
            let configured = state.configured.clone();
            self.remove_override(state);
            events::log_filter_restored(&configured);
        }
    }

    fn remove_override(&self, mut state: MutexGuard<'_, State>) {
        // Always valid: the filter was parsed when it was configured.
        if let Ok(filter) = parse_with_directives(&state.configured) {
            state.active_override = None;
            self.apply(state, filter);
        }
    }

    /// Activates the filter while the state is still locked, so that the status never disagrees with
    /// the log. Returns the new generation.
    fn apply(&self, mut state: MutexGuard<'_, State>, filter: EnvFilter) -> u64 {
        state.generation += 1;
        // This fails only if the log is gone, and then no line is written anyway.
        self.layer.reload(filter).ok();
        state.generation
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogFilter").field("state", &self.state).finish_non_exhaustive()
    }
}

fn parse_with_directives(filter: &str) -> Result<EnvFilter, FilterError> {
    let directives = [SPAN_DIRECTIVE, DOCUMENTED_DIRECTIVE];
    // Both constants are valid.
    let directives = directives.into_iter().filter_map(|directive| directive.parse().ok());
    Ok(directives.fold(parse_filter(filter)?, EnvFilter::add_directive))
}

/// Keys that every JSON line has. Event fields with such a name get the prefix `field_`.
const RESERVED_KEYS: [&str; 3] = ["timestamp", "level", "target"];

/// Plain lines show the first eight hex digits of a trace id: enough to find its other lines.
const HIDDEN_TRACE_ID_BITS: u32 = 128 - 8 * 4;

/// The target of log lines whose text the document of `mcpz` (dialect `execute_command`)
/// prescribes. In plain format such a line is its message alone.
pub(super) const DOCUMENTED_TARGET: &str = "mcpz";

/// A layer that stores the ids of a span where the log lines inside the span find them.
#[derive(Debug)]
struct SpanIdLayer;

/// The format for people.
#[derive(Debug)]
struct PlainFormat;

/// The format for programs: one flat JSON object per line.
#[derive(Debug)]
struct JsonFormat;

/// Formats no span fields: a log line shows only the ids of its span.
#[derive(Debug)]
struct NoFields;

impl<'a> FormatFields<'a> for NoFields {
    fn format_fields<R: RecordFields>(&self, _: Writer<'a>, _: R) -> fmt::Result {
        Ok(())
    }
}

/// The trace id and the span id of a span; 0 if the span has none.
#[derive(Debug, Clone, Copy, Default)]
struct SpanIds {
    trace_id: u128,
    span_id: u64,
}

impl Visit for SpanIds {
    fn record_u128(&mut self, field: &Field, value: u128) {
        if field.name() == "trace_id" {
            self.trace_id = value;
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "span_id" {
            self.span_id = value;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanIdLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut ids = SpanIds::default();
        attributes.record(&mut ids);
        // Spans of libraries have no such ids.
        if let Some(span) = context.span(id).filter(|_| ids.trace_id != 0) {
            span.extensions_mut().insert(ids);
        }
    }
}

/// Returns the ids of the innermost span that has any.
fn current_span_ids<S, N>(context: &FmtContext<'_, S, N>) -> Option<SpanIds>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    context.event_scope()?.find_map(|span| span.extensions().get::<SpanIds>().copied())
}

impl<S, N> FormatEvent<S, N> for PlainFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        if metadata.target() == DOCUMENTED_TARGET {
            DefaultFields::new().format_fields(writer.by_ref(), event)?;
            return writeln!(writer);
        }
        let (dim, off) = if writer.has_ansi_escapes() { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        writer.write_str(dim)?;
        SystemTime.format_time(&mut writer)?;
        let colour = if writer.has_ansi_escapes() { colour_code(*metadata.level()) } else { "" };
        write!(writer, "{off} {colour}{:>5}{off} ", metadata.level().as_str())?;
        write!(writer, "{dim}{}:{off} ", metadata.target())?;
        DefaultFields::new().format_fields(writer.by_ref(), event)?;
        if let Some(SpanIds { trace_id, .. }) = current_span_ids(context) {
            write!(writer, " {dim}trace={:08x}{off}", trace_id >> HIDDEN_TRACE_ID_BITS)?;
        }
        writeln!(writer)
    }
}

/// The escape sequence that colours a level on a terminal.
const fn colour_code(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}

impl<S, N> FormatEvent<S, N> for JsonFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let metadata = event.metadata();
        let mut line = JsonLogFields::default();
        line.put("timestamp", timestamp.into());
        line.put("level", metadata.level().as_str().into());
        line.put("target", metadata.target().into());
        event.record(&mut line);
        // An event with its own `trace_id` field belongs to that trace.
        let ids = current_span_ids(context).filter(|_| !line.has_key("trace_id"));
        if let Some(SpanIds { trace_id, span_id }) = ids {
            line.put("trace_id", format!("{trace_id:032x}").into());
            line.put("span_id", format!("{span_id:016x}").into());
        }
        let text = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{text}")
    }
}

/// The fields of a JSON line, in their order on the line.
#[derive(Debug, Default)]
struct JsonLogFields(Vec<(Cow<'static, str>, Value)>);

impl JsonLogFields {
    fn put(&mut self, name: &'static str, value: Value) {
        self.0.push((name.into(), value));
    }

    fn has_key(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    fn put_field(&mut self, field: &Field, value: Value) {
        let name = field.name();
        if RESERVED_KEYS.contains(&name) {
            self.0.push((format!("field_{name}").into(), value));
        } else {
            self.put(name, value);
        }
    }
}

impl Visit for JsonLogFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put_field(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_field(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put_field(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put_field(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put_field(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put_field(field, value.into());
    }
}

impl Serialize for JsonLogFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::events;
    use super::super::spans::{SpanKind, TraceSpan};
    use super::*;
    use crate::ids::JobId;
    use crate::trace::TraceContext;

    /// A shared buffer that collects the log.
    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
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
        let sink = SharedBuffer::default();
        let (writer, guard) = new_non_blocking_writer(sink.clone());
        let logging = LoggingSettings { format, filter: filter.to_owned() };
        let (subscriber, filter) = build_subscriber(&logging, writer).unwrap();
        tracing::subscriber::with_default(subscriber, || happen(&filter));
        drop(guard);
        // The guard waits for at most a second. The log thread may run later; it drops its handle
        // to the buffer with its last line.
        let begun = Instant::now();
        while Arc::strong_count(&sink.0) > 1 {
            assert!(begun.elapsed().as_secs() < 60, "the log thread does not end");
            thread::yield_now();
        }
        let bytes = sink.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        String::from_utf8(bytes).unwrap()
    }

    /// Returns the line about the submission of a job with this command.
    fn submitted(format: LineFormat, command: &str) -> String {
        let command = events::LoggedCommand::new(command);
        logged(format, "debug", || events::job_submitted(JobId::local(1), &command))
    }

    const FORGERY: &str = "echo hi\n2026-01-01T00:00:00Z ERROR forged \u{1b}[31m";

    #[test]
    fn a_command_cannot_forge_a_line() {
        for format in [LineFormat::Plain, LineFormat::Json] {
            let text = submitted(format, FORGERY);
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(!text.contains('\u{1b}'), "{text:?}");
            let text = logged(format, "info", || events::command_executing(FORGERY));
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(!text.contains('\u{1b}') && text.contains("Executing: echo hi"), "{text:?}");
        }
    }

    #[test]
    fn json_lines_are_flat_objects() {
        let text = submitted(LineFormat::Json, "true");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["message"], "job submitted");
        assert_eq!(line["job_id"], "1");
        assert_eq!(line["command"], "\"true\"");
    }

    fn json(text: &str) -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_json_line_prefixes_fields_that_have_a_reserved_name() {
        let text = logged(LineFormat::Json, "info", || {
            tracing::info!(target: "a::b", target = "x", count = 3, share = 0.5, ok = true, "hello");
        });
        let line = &json(&text)[0];
        let start = r#"{"timestamp":"20"#;
        assert!(text.starts_with(start) && text.contains(r#"Z","level":"INFO","target":"a::b","#));
        assert_eq!((&line["message"], &line["field_target"]), (&"hello".into(), &"x".into()));
        assert_eq!(line["count"], 3);
        assert_eq!((&line["share"], &line["ok"]), (&0.5.into(), &true.into()));
        assert!(line.get("trace_id").is_none() && line.get("span").is_none(), "{text}");
    }

    /// Logs a line in a span, in a library's span inside another span, with an explicit trace id, and
    /// outside all spans.
    fn log_in_spans() -> [TraceContext; 2] {
        let log = || tracing::info!(target: "shellyard::job", "hello");
        let span = |parent| TraceSpan::start(SpanKind::Internal, "work".to_owned(), parent);
        let outer = span(None);
        let inner = span(Some(outer.context()));
        outer.log_span().in_scope(log);
        let library_span =
            inner.log_span().in_scope(|| tracing::error_span!(target: "shellyard::job", "other"));
        library_span.in_scope(log);
        outer
            .log_span()
            .in_scope(|| tracing::info!(target: "shellyard::job", trace_id = "own", "hello"));
        log();
        [outer.context().clone(), inner.context().clone()]
    }

    #[test]
    fn a_line_inside_a_span_names_its_trace_whatever_the_filter_is() {
        for filter in ["info", "off,shellyard::job=info"] {
            let mut contexts = Vec::new();
            let text = logged(LineFormat::Json, filter, || contexts.extend(log_in_spans()));
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
    fn a_plain_line_shows_the_start_of_its_trace_id() {
        let mut id = String::new();
        let text = logged(LineFormat::Plain, "info", || {
            let span = TraceSpan::start(SpanKind::Server, "call".to_owned(), None);
            id = span.context().trace_id.to_string();
            span.log_span().in_scope(|| tracing::info!(target: "a", count = 3, "hello"));
        });
        let end = format!("Z  INFO a: hello count=3 trace={}\n", &id[..8]);
        assert!(text.ends_with(&end), "{text}");
        let coloured =
            logged(LineFormat::Coloured, "info", || tracing::warn!(target: "a", "hello"));
        assert!(coloured.contains("\u{1b}[33m WARN\u{1b}[0m"), "{coloured:?}");
    }

    #[test]
    fn a_changed_filter_applies_at_once_and_the_cap_stays() {
        let text = logged_while(LineFormat::Plain, "warn", |filter| {
            let log = |words: &str| {
                tracing::debug!(target: "shellyard::job", "{words}");
                tracing::debug!(target: "rmcp::service", "secret");
            };
            log("before");
            filter.set_override("trace,rmcp=trace", None).unwrap();
            log("meanwhile");
            filter.reset();
            log("after");
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("meanwhile"), "{text}");
    }

    #[test]
    fn a_long_command_is_truncated() {
        let long = "é".repeat(10_000);
        let text = submitted(LineFormat::Plain, &long);
        assert_eq!(text.matches('é').count(), 500);
        assert!(text.contains('…'), "{text}");
    }

    #[test]
    fn no_filter_makes_the_libraries_log_requests() {
        let text = logged(LineFormat::Plain, "trace,rmcp::service=trace,hyper=debug", || {
            tracing::debug!(target: "rmcp::service", "secret");
            tracing::info!(target: "rmcp", "secret");
            tracing::trace!(target: "hyper_util::server", "secret");
            tracing::warn!(target: "rmcp::service", "hello");
            tracing::trace!(target: "shellyard::job", "hello");
        });
        assert_eq!(text.matches("secret").count(), 0, "{text}");
        assert_eq!(text.matches("hello").count(), 2, "{text}");
    }

    #[test]
    fn the_error_for_a_bad_filter_shows_a_good_one() {
        let logging =
            LoggingSettings { format: LineFormat::Plain, filter: "shellyard=loud".into() };
        let (writer, _guard) = new_non_blocking_writer(io::sink());
        let error = build_subscriber(&logging, writer).err().unwrap();
        assert_eq!(error.code(), "log_filter");
        assert!(error.to_string().contains("shellyard=debug"), "{error}");
    }

    /// A stderr that nobody reads.
    struct BlockedWriter(std::sync::mpsc::Receiver<()>);

    impl Write for BlockedWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().ok(); // returns once the test is over
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_unread_stderr_blocks_no_caller() {
        let (_release, stuck) = std::sync::mpsc::channel();
        let (mut writer, guard) = new_non_blocking_writer(BlockedWriter(stuck));
        for _ in 0..4 * BUFFERED_LINES {
            Write::write_all(&mut writer, &[b'x'; 100]).unwrap();
        }
        assert!(guard.dropped.dropped_lines() >= 2 * BUFFERED_LINES);
        drop(guard); // returns although the queue is full
    }

    #[test]
    fn an_unread_stderr_causes_no_message_on_stdout() {
        // The test runs in another process, whose stdout can be read.
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("telemetry::logging::tests::an_unread_stderr_blocks_no_caller")
            .output()
            .unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(stdout.contains("1 passed"), "{stdout}");
        assert!(!stdout.contains("shutdown signal"), "{stdout}");
    }

    /// Records each write separately.
    #[derive(Default)]
    struct RecordedWrites(Vec<Vec<u8>>);

    impl Write for RecordedWrites {
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
        let mut log = BatchWriter::new(RecordedWrites::default());
        for line in ["a\n", "b\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(log.sink.0.len(), 0);
        log.flush().unwrap();
        log.flush().unwrap();
        assert_eq!(log.sink.0, [b"a\nb\n"]);
    }

    #[test]
    fn the_buffer_is_bounded() {
        let mut log = BatchWriter::new(RecordedWrites::default());
        for _ in 0..100 {
            log.write_all(&[b'x'; 1024]).unwrap();
            assert!(log.lines.len() < BATCH_BYTES);
        }
        assert_eq!(log.sink.0.iter().map(Vec::len).sum::<usize>() + log.lines.len(), 100 * 1024);
    }

    /// A filter without its layer: a change of the layer would affect the logs of other tests.
    fn filter() -> LogFilter {
        LogFilter::new("info").unwrap().1
    }

    fn status(filter: &str, configured: &str) -> LogFilterStatus {
        let filter = filter.to_owned();
        let configured = configured.to_owned();
        LogFilterStatus { filter, configured, remaining: None }
    }

    #[test]
    fn an_override_lasts_until_it_is_reset_or_the_settings_change() {
        let log = filter();
        log.set_override("debug", None).unwrap();
        assert_eq!(log.status(), status("debug", "info"));
        log.reset();
        assert_eq!(log.status(), status("info", "info"));
        log.set_override("trace", None).unwrap();
        log.set_configured("warn").unwrap();
        assert_eq!(log.status(), status("warn", "warn"));
    }

    #[test]
    fn text_that_is_not_a_filter_changes_nothing() {
        let log = filter();
        log.set_override("debug", None).unwrap();
        for bad in ["shellyard=loud", "debgu", ""] {
            assert_eq!(log.set_override(bad, None).unwrap_err().code(), "log_filter");
            let error = log.set_configured(bad).unwrap_err().to_string();
            assert!(error.contains(bad) && error.contains("shellyard=debug"), "{error}");
        }
        assert_eq!(log.status(), status("debug", "info"));
    }

    #[tokio::test]
    async fn an_override_with_a_time_ends_after_it() {
        let log = filter();
        let minute = Duration::from_secs(60);
        log.set_override("debug", Some(minute)).unwrap();
        assert!(log.status().remaining.is_some_and(|left| left <= minute));
        let generation = log.state().generation;
        log.clone().reset_after(Duration::ZERO, generation).await;
        assert_eq!(log.status(), status("info", "info"));
    }

    #[tokio::test]
    async fn the_timer_of_an_earlier_override_does_not_end_a_later_one() {
        let log = filter();
        log.set_override("debug", Some(Duration::from_secs(60))).unwrap();
        let generation = log.state().generation;
        log.set_override("trace", None).unwrap();
        log.clone().reset_after(Duration::ZERO, generation).await;
        assert_eq!(log.status(), status("trace", "info"));
    }
}
