//! Trace spans.
//!
//! Each log line that is written inside a span carries the trace id of the span. A finished span
//! goes to the exporter, if there is one.

use std::fmt;
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::trace::{SpanId, TraceContext, TraceId};

/// `true` if this build can export spans to a collector (`trace.otlp_endpoint`).
pub const OTLP_BUILT_IN: bool = cfg!(feature = "otlp");

/// A span of a trace. Dropping it ends it.
#[derive(Debug)]
#[must_use = "dropping the span ends it"]
pub struct TraceSpan {
    context: TraceContext,
    /// The data for the exporter; `None` if the span is not exported.
    data: Option<Box<FinishedSpan>>,
    log_span: tracing::Span,
}

/// A span that has ended, as the exporter gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedSpan {
    pub context: TraceContext,
    pub parent: Option<SpanId>,
    pub name: String,
    pub kind: SpanKind,
    pub started: SystemTime,
    pub attributes: Vec<(&'static str, SpanAttribute)>,
    /// The error, if the operation failed.
    pub error: Option<String>,
}

/// The kind of a span in OpenTelemetry's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A request that a client waits for.
    Server,
    /// Work inside the server.
    Internal,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum SpanAttribute {
    Text(String),
    Number(i64),
}

impl From<&str> for SpanAttribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for SpanAttribute {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl TraceSpan {
    /// Starts a child span of `parent`, or the root span of a new trace.
    pub fn start(kind: SpanKind, name: String, parent: Option<&TraceContext>) -> Self {
        let context = parent.map_or_else(new_root, TraceContext::child);
        let log_span = new_log_span(&context);
        // The span collects no data if nobody exports it.
        let is_exported = context.is_sampled && SINK.get().is_some();
        let data = is_exported.then(|| {
            Box::new(FinishedSpan {
                context: context.clone(),
                parent: parent.map(|parent| parent.span_id),
                name,
                kind,
                started: SystemTime::now(),
                attributes: Vec::new(),
                error: None,
            })
        });
        Self { context, data, log_span }
    }

    #[must_use]
    pub const fn context(&self) -> &TraceContext {
        &self.context
    }

    /// The `tracing` span in which log lines of this span are written.
    #[must_use]
    pub const fn log_span(&self) -> &tracing::Span {
        &self.log_span
    }

    pub fn set_attribute(&mut self, key: &'static str, value: impl Into<SpanAttribute>) {
        if let Some(data) = &mut self.data {
            data.attributes.push((key, value.into()));
        }
    }

    /// Marks the span as failed.
    pub fn set_error(&mut self, why: &dyn fmt::Display) {
        if let Some(data) = &mut self.data {
            data.error = Some(why.to_string());
        }
    }
}

/// Returns a `tracing` span whose log lines carry the ids of `context`. The trace span itself may have
/// ended already.
#[must_use]
pub fn new_log_span(context: &TraceContext) -> tracing::Span {
    // The level is error, so that no filter that lets a line through hides its ids.
    let trace_id = context.trace_id.number();
    let span_id = context.span_id.number();
    tracing::error_span!("span", trace_id, span_id)
}

impl Drop for TraceSpan {
    fn drop(&mut self) {
        if let (Some(data), Some(sink)) = (self.data.take(), SINK.get()) {
            sink(*data);
        }
    }
}

static SAMPLE_RATIO: OnceLock<f64> = OnceLock::new();

/// Sets the fraction of traces that this server samples, from 0 to 1; the default is 1. It applies to
/// traces that start here; a client that sends a trace context decides for its own traces. Only the
/// first call has an effect, since a change could not apply to traces that have started.
pub fn set_sample_ratio(ratio: f64) {
    SAMPLE_RATIO.set(ratio).ok();
}

/// Starts a trace and decides whether it is sampled; all its spans inherit the decision.
fn new_root() -> TraceContext {
    let context = TraceContext::root();
    let ratio = SAMPLE_RATIO.get().copied().unwrap_or(1.0);
    TraceContext { is_sampled: is_sampled(context.trace_id, ratio), ..context }
}

/// `true` if a trace is in the sampled fraction. Only its id decides, so every server decides alike.
fn is_sampled(trace: TraceId, ratio: f64) -> bool {
    // The W3C standard requires the last seven bytes to be random.
    let [_, _, _, _, _, _, _, _, _, end @ ..] = trace.bytes();
    let number = end.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    (number as f64) < ratio * (1_u64 << 56) as f64
}

type SpanSink = Box<dyn Fn(FinishedSpan) + Send + Sync>;

static SINK: OnceLock<SpanSink> = OnceLock::new();

/// Passes every sampled span that ends from now on to `sink`. Only the first call has an effect.
pub fn export_to(sink: impl Fn(FinishedSpan) + Send + Sync + 'static) {
    SINK.set(Box::new(sink)).ok();
}

/// Records finished spans for tests, which share the one sink of the process.
#[cfg(test)]
pub(crate) mod recorded {
    use std::sync::Mutex;

    use super::{FinishedSpan, export_to};
    use crate::trace::TraceId;

    static RECORDED: Mutex<Vec<FinishedSpan>> = Mutex::new(Vec::new());

    /// Starts recording finished spans.
    pub(crate) fn start() {
        export_to(|span| RECORDED.lock().unwrap().push(span));
    }

    /// Returns the finished spans of one trace.
    pub(crate) fn spans_of_trace(trace: TraceId) -> Vec<FinishedSpan> {
        let spans = RECORDED.lock().unwrap();
        spans.iter().filter(|span| span.context.trace_id == trace).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_ratio_selects_that_fraction_of_traces_by_their_ids() {
        let traces: Vec<_> = (0..4000).map(|_| TraceContext::root().trace_id).collect();
        let sampled = |ratio: f64| {
            traces.iter().copied().filter(|trace| is_sampled(*trace, ratio)).collect::<Vec<_>>()
        };
        assert_eq!(sampled(0.0).len(), 0);
        assert_eq!(sampled(1.0).len(), traces.len());
        let tenth = sampled(0.1);
        let half = sampled(0.5);
        assert!((1500..2500).contains(&half.len()), "{}", half.len());
        assert!(
            tenth.iter().all(|trace| half.contains(trace)),
            "a larger ratio includes a smaller"
        );
    }
}
