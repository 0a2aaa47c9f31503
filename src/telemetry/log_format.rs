//! The formats of a log line, and the trace that a line belongs to.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Keys that every JSON line has. Event fields with such a name get the prefix `field_`.
const RESERVED_KEYS: [&str; 3] = ["timestamp", "level", "target"];

/// Plain lines show the first eight hex digits of a trace id: enough to find its other lines.
const HIDDEN_TRACE_ID_BITS: u32 = 128 - 8 * 4;

/// The target of log lines whose text the document of `mcpz` (dialect `execute_command`)
/// prescribes. In plain format such a line is its message alone.
pub(super) const DOCUMENTED_TARGET: &str = "mcpz";

/// A layer that stores the ids of a span where the log lines inside the span find them.
#[derive(Debug)]
pub(super) struct SpanIdLayer;

/// The format for people.
#[derive(Debug)]
pub(super) struct PlainFormat;

/// The format for programs: one flat JSON object per line.
#[derive(Debug)]
pub(super) struct JsonFormat;

/// Formats no span fields: a log line shows only the ids of its span.
#[derive(Debug)]
pub(super) struct NoFields;

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
