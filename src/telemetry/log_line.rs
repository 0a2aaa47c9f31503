//! How a log line looks, and how it tells to which trace it belongs.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Serialize, Serializer};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use super::events;
use crate::filter::{self, FilterError};

/// What every JSON line has by itself; fields of an event with such a name are set apart.
const OWN: [&str; 3] = ["timestamp", "level", "target"];

/// Of a trace's number people are shown its first eight digits: enough to find its other lines.
const BITS_NOT_SHOWN: u32 = 128 - 8 * 4;

/// Keeps the numbers of a span where the lines inside it find them.
#[derive(Debug)]
pub(super) struct KeepIds;

/// One line for people.
#[derive(Debug)]
pub(super) struct PlainLine;

/// One flat JSON object.
#[derive(Debug)]
pub(super) struct JsonLine;

/// What the log keeps of the fields of a span: nothing. All that lines tell of one are its numbers.
#[derive(Debug)]
pub(super) struct NoFields;

impl<'a> FormatFields<'a> for NoFields {
    fn format_fields<R: RecordFields>(&self, _: Writer<'a>, _: R) -> fmt::Result {
        Ok(())
    }
}

/// The numbers of a span; 0 is none.
#[derive(Debug, Clone, Copy, Default)]
struct Ids {
    trace_id: u128,
    span_id: u64,
}

impl Visit for Ids {
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

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for KeepIds {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut ids = Ids::default();
        attributes.record(&mut ids);
        // Spans of libraries have no such numbers.
        if let Some(span) = context.span(id).filter(|_| ids.trace_id != 0) {
            span.extensions_mut().insert(ids);
        }
    }
}

/// The numbers of the nearest span that has any.
fn ids<S, N>(context: &FmtContext<'_, S, N>) -> Option<Ids>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    context.event_scope()?.find_map(|span| span.extensions().get::<Ids>().copied())
}

impl<S, N> FormatEvent<S, N> for PlainLine
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
        let (dim, off) = if writer.has_ansi_escapes() { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        writer.write_str(dim)?;
        SystemTime.format_time(&mut writer)?;
        let colour = if writer.has_ansi_escapes() { colour(*metadata.level()) } else { "" };
        write!(writer, "{off} {colour}{:>5}{off} ", metadata.level().as_str())?;
        write!(writer, "{dim}{}:{off} ", metadata.target())?;
        DefaultFields::new().format_fields(writer.by_ref(), event)?;
        if let Some(Ids { trace_id, .. }) = ids(context) {
            write!(writer, " {dim}trace={:08x}{off}", trace_id >> BITS_NOT_SHOWN)?;
        }
        writeln!(writer)
    }
}

/// How a terminal is told to colour a level.
const fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}

impl<S, N> FormatEvent<S, N> for JsonLine
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
        let mut line = Line::default();
        line.put("timestamp", timestamp.into());
        line.put("level", metadata.level().as_str().into());
        line.put("target", metadata.target().into());
        event.record(&mut line);
        // An event that names a trace by itself means that one.
        if let Some(Ids { trace_id, span_id }) = ids(context).filter(|_| !line.has("trace_id")) {
            line.put("trace_id", format!("{trace_id:032x}").into());
            line.put("span_id", format!("{span_id:016x}").into());
        }
        let text = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{text}")
    }
}

/// The fields of one object, in the order in which they are written.
#[derive(Debug, Default)]
struct Line(Vec<(Cow<'static, str>, Value)>);

impl Line {
    fn put(&mut self, name: &'static str, value: Value) {
        self.0.push((name.into(), value));
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    fn put_field(&mut self, field: &Field, value: Value) {
        let name = field.name();
        if OWN.contains(&name) {
            self.0.push((format!("field_{name}").into(), value));
        } else {
            self.put(name, value);
        }
    }
}

impl Visit for Line {
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

impl Serialize for Line {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

// Which log lines are written, and how that changes while the process runs.

/// Spans tell to which trace a line belongs: no filter hides that.
const SPANS: &str = concat!(env!("CARGO_CRATE_NAME"), "::telemetry::spans=error");

/// Where the filter stands among the layers.
pub(super) type FilterLayer = reload::Layer<EnvFilter, Registry>;

/// Which log lines are written: as configured, or as somebody chose for a while. A cheap clone.
#[derive(Clone)]
pub struct LogFilter {
    layer: reload::Handle<EnvFilter, Registry>,
    state: Arc<Mutex<State>>,
}

/// What holds, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilterStatus {
    /// The filter that holds.
    pub filter: String,
    /// The one of the settings, which comes back.
    pub configured: String,
    /// When it does, if that is set.
    pub remaining: Option<Duration>,
}

#[derive(Debug)]
struct State {
    configured: String,
    chosen: Option<Chosen>,
    /// Counts changes: a timer that was set before the last one has nothing to say any more.
    turn: u64,
}

#[derive(Debug)]
struct Chosen {
    filter: String,
    until: Option<Instant>,
}

impl State {
    fn filter(&self) -> &str {
        self.chosen.as_ref().map_or(&self.configured, |chosen| &chosen.filter)
    }
}

impl LogFilter {
    /// A layer that lets through what `configured` says, and what changes it.
    pub(super) fn new(configured: &str) -> Result<(FilterLayer, Self), FilterError> {
        let (layer, handle) = reload::Layer::new(parse(configured)?);
        let state = State { configured: configured.to_owned(), chosen: None, turn: 0 };
        Ok((layer, Self { layer: handle, state: Arc::new(Mutex::new(state)) }))
    }

    /// What holds, and why.
    #[must_use]
    pub fn status(&self) -> LogFilterStatus {
        let state = self.state();
        let until = state.chosen.as_ref().and_then(|chosen| chosen.until);
        LogFilterStatus {
            filter: state.filter().to_owned(),
            configured: state.configured.clone(),
            remaining: until.map(|until| until.saturating_duration_since(Instant::now())),
        }
    }

    /// This filter holds from now on, and with a time the configured one comes back after it.
    /// Call it inside of a runtime, which has the clock.
    ///
    /// # Errors
    /// When the text is no filter. Nothing changes then.
    pub fn set_override(&self, filter: &str, time: Option<Duration>) -> Result<(), FilterError> {
        let parsed = parse(filter)?;
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let mut state = self.state();
        state.chosen = Some(Chosen { filter: filter.to_owned(), until });
        let turn = self.put(state, parsed);
        if let Some(time) = time {
            tokio::spawn(self.clone().come_back(time, turn));
        }
        Ok(())
    }

    /// The filter of the settings holds again.
    pub fn reset(&self) {
        self.take_back(self.state());
    }

    /// The settings have changed: this filter holds from now on, whatever was chosen before.
    ///
    /// # Errors
    /// When the text is no filter. Nothing changes then.
    pub fn set_configured(&self, filter: &str) -> Result<(), FilterError> {
        let parsed = parse(filter)?;
        let mut state = self.state();
        filter.clone_into(&mut state.configured);
        state.chosen = None;
        self.put(state, parsed);
        Ok(())
    }

    async fn come_back(self, after: Duration, turn: u64) {
        tokio::time::sleep(after).await;
        let state = self.state();
        if state.turn == turn {
            let configured = state.configured.clone();
            self.take_back(state);
            events::log_filter_restored(&configured);
        }
    }

    fn take_back(&self, mut state: MutexGuard<'_, State>) {
        // It could be read when it was configured.
        if let Ok(filter) = parse(&state.configured) {
            state.chosen = None;
            self.put(state, filter);
        }
    }

    /// What is known has changed: so does what holds, before anybody can look. Tells how many
    /// changes there were.
    fn put(&self, mut state: MutexGuard<'_, State>, filter: EnvFilter) -> u64 {
        state.turn += 1;
        // Where the log is gone, no line is written anyway.
        self.layer.reload(filter).ok();
        state.turn
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

fn parse(filter: &str) -> Result<EnvFilter, FilterError> {
    let filter = filter::parse(filter)?;
    Ok(match SPANS.parse() {
        Ok(spans) => filter.add_directive(spans),
        // A constant that can be read.
        Err(_) => filter,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without its layer, whose changes would be felt by the logs of other tests.
    fn filter() -> LogFilter {
        LogFilter::new("info").unwrap().1
    }

    fn status(filter: &str, configured: &str) -> LogFilterStatus {
        let (filter, configured) = (filter.to_owned(), configured.to_owned());
        LogFilterStatus { filter, configured, remaining: None }
    }

    #[test]
    fn what_was_chosen_holds_until_it_is_reset_or_the_settings_change() {
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
    fn what_is_no_filter_changes_nothing() {
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
    async fn what_was_chosen_for_a_time_ends_with_it() {
        let log = filter();
        let minute = Duration::from_secs(60);
        log.set_override("debug", Some(minute)).unwrap();
        assert!(log.status().remaining.is_some_and(|left| left <= minute));
        let turn = log.state().turn;
        log.clone().come_back(Duration::ZERO, turn).await;
        assert_eq!(log.status(), status("info", "info"));
    }

    #[tokio::test]
    async fn a_later_choice_outlives_the_time_of_an_earlier_one() {
        let log = filter();
        log.set_override("debug", Some(Duration::from_secs(60))).unwrap();
        let turn = log.state().turn;
        log.set_override("trace", None).unwrap();
        log.clone().come_back(Duration::ZERO, turn).await;
        assert_eq!(log.status(), status("trace", "info"));
    }
}
