//! Spans: what is being done, from its beginning to its end, and to which trace it belongs.
//!
//! A span is known to the log, where every line that is written inside it names its trace, and
//! to whatever exports spans, if anything does.

use std::fmt;
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::trace::{SpanId, TraceContext, TraceId};

/// Whether this program can hand spans to a collector (`trace.otlp_endpoint`).
pub const OTLP_BUILT_IN: bool = cfg!(feature = "otlp");

/// Something that is being done. Dropping it ends it.
#[derive(Debug)]
#[must_use = "dropping the span ends it"]
pub struct TraceSpan {
    context: TraceContext,
    ended: Option<Box<FinishedSpan>>,
    log: tracing::Span,
}

/// What is known of a span once it is over.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedSpan {
    /// Where it stands in its trace.
    pub context: TraceContext,
    /// The span that it is a part of.
    pub parent: Option<SpanId>,
    /// What was done.
    pub name: String,
    /// On whose behalf.
    pub kind: SpanKind,
    /// When it began.
    pub started: SystemTime,
    /// Particulars.
    pub attributes: Vec<(&'static str, SpanAttribute)>,
    /// What went wrong, if anything did.
    pub error: Option<String>,
}

/// On whose behalf something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A client waits for it.
    Server,
    /// It goes on by itself.
    Internal,
}

/// The value of a particular.
#[derive(Debug, Clone, PartialEq)]
pub enum SpanAttribute {
    /// A text.
    Text(String),
    /// A number.
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
    /// Begins something that is a part of `parent`, or the beginning of a trace of its own.
    pub fn start(kind: SpanKind, name: String, parent: Option<&TraceContext>) -> Self {
        let context = parent.map_or_else(root, TraceContext::child);
        let log = log_span_for(&context);
        // Nobody keeps particulars that nobody will read.
        let is_wanted = context.is_sampled && SINK.get().is_some();
        let ended = is_wanted.then(|| {
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
        Self { context, ended, log }
    }

    /// Where it stands in its trace.
    #[must_use]
    pub const fn context(&self) -> &TraceContext {
        &self.context
    }

    /// What log lines are written in.
    #[must_use]
    pub const fn log(&self) -> &tracing::Span {
        &self.log
    }

    /// Notes a particular.
    pub fn set_attribute(&mut self, key: &'static str, value: impl Into<SpanAttribute>) {
        if let Some(ended) = &mut self.ended {
            ended.attributes.push((key, value.into()));
        }
    }

    /// Notes that it went wrong.
    pub fn set_error(&mut self, why: &dyn fmt::Display) {
        if let Some(ended) = &mut self.ended {
            ended.error = Some(why.to_string());
        }
    }
}

/// What log lines are written in that belong to this place in a trace, also once its span is over.
#[must_use]
pub fn log_span_for(context: &TraceContext) -> tracing::Span {
    // An error's level: no filter that lets a line through hides where it belongs.
    let trace_id = context.trace_id.number();
    let span_id = context.span_id.number();
    tracing::error_span!("span", trace_id, span_id)
}

impl Drop for TraceSpan {
    fn drop(&mut self) {
        if let (Some(ended), Some(sink)) = (self.ended.take(), SINK.get()) {
            sink(*ended);
        }
    }
}

static SHARE: OnceLock<f64> = OnceLock::new();

/// Of the traces that begin here, this share is exported, from 0 to 1; where nobody says, all are.
/// What others began is exported as they wish. The first word stays.
pub fn set_sample_ratio(share: f64) {
    // A second setting cannot hold for traces that have begun.
    SHARE.set(share).ok();
}

/// The beginning of a trace, of which the others then know whether it is exported.
fn root() -> TraceContext {
    let context = TraceContext::root();
    let share = SHARE.get().copied().unwrap_or(1.0);
    TraceContext { is_sampled: is_within(context.trace_id, share), ..context }
}

/// Whether a trace is in this share of all: the same everywhere, because its number decides.
fn is_within(trace: TraceId, share: f64) -> bool {
    // The last seven bytes, which the standard wants to be random.
    let [_, _, _, _, _, _, _, _, _, end @ ..] = trace.bytes();
    let number = end.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    (number as f64) < share * (1_u64 << 56) as f64
}

type SpanSink = Box<dyn Fn(FinishedSpan) + Send + Sync>;

static SINK: OnceLock<SpanSink> = OnceLock::new();

/// From now on every sampled span that ends is handed to `sink`. The first one stays.
pub fn export_to(sink: impl Fn(FinishedSpan) + Send + Sync + 'static) {
    // A second exporter would get what the first one gets already.
    SINK.set(Box::new(sink)).ok();
}

/// Spans that ended, for tests: there is one sink, and it serves them all.
#[cfg(test)]
pub(crate) mod recorded {
    use std::sync::Mutex;

    use super::{FinishedSpan, export_to};
    use crate::trace::TraceId;

    static KEPT: Mutex<Vec<FinishedSpan>> = Mutex::new(Vec::new());

    /// From now on spans are kept when they end.
    pub(crate) fn start() {
        export_to(|span| KEPT.lock().unwrap().push(span));
    }

    /// Those of one trace that have ended.
    pub(crate) fn spans_of_trace(trace: TraceId) -> Vec<FinishedSpan> {
        let kept = KEPT.lock().unwrap();
        kept.iter().filter(|span| span.context.trace_id == trace).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_all_traces_is_sampled_and_each_is_or_is_not() {
        let traces: Vec<_> = (0..4000).map(|_| TraceContext::root().trace_id).collect();
        let within = |share: f64| {
            traces.iter().copied().filter(|trace| is_within(*trace, share)).collect::<Vec<_>>()
        };
        assert_eq!(within(0.0).len(), 0);
        assert_eq!(within(1.0).len(), traces.len());
        let (tenth, half) = (within(0.1), within(0.5));
        assert!((1500..2500).contains(&half.len()), "{}", half.len());
        assert!(tenth.iter().all(|trace| half.contains(trace)), "a larger share holds a smaller");
    }
}
