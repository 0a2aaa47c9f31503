//! The W3C trace context of requests, calls and jobs.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest `tracestate` that is passed on, in bytes: the minimum that the standard demands.
const MAX_STATE: usize = 512;

const SAMPLED: u8 = 1;

/// The id of a trace. Never all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// The id of one span of a trace. Never all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// A span of a trace, as requests pass it on. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    pub trace_id: TraceId,
    pub span_id: SpanId,
    /// `true` if the spans of the trace are to be exported.
    pub is_sampled: bool,
    /// The `tracestate`: data of other tracing systems.
    pub state: Option<Arc<str>>,
}

impl TraceContext {
    /// Parses `traceparent` and `tracestate`; `None` if they are not valid. The standard then demands
    /// a new trace.
    #[must_use]
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let mut parts = parent.trim().splitn(5, '-');
        let version = decode_hex::<1>(parts.next()?)?;
        let trace = decode_hex::<16>(parts.next()?)?;
        let span = decode_hex::<8>(parts.next()?)?;
        let [flags] = decode_hex::<1>(parts.next()?)?;
        // Later versions may have more fields.
        let is_whole = parts.next().is_none() || version != [0];
        if version == [0xff] || trace == [0; 16] || span == [0; 8] || !is_whole {
            return None;
        }
        let trace_id = TraceId(trace);
        let span_id = SpanId(span);
        let state = state.filter(|state| is_valid_state(state)).map(Arc::from);
        Some(Self { trace_id, span_id, is_sampled: flags & SAMPLED != 0, state })
    }

    #[must_use]
    pub fn root() -> Self {
        let trace_id = TraceId(generate_bytes());
        Self { trace_id, span_id: SpanId(generate_bytes()), is_sampled: true, state: None }
    }

    /// Starts another span of the same trace.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { span_id: SpanId(generate_bytes()), ..self.clone() }
    }

    /// Formats the context as a `traceparent` header.
    #[must_use]
    pub fn format_traceparent(&self) -> String {
        let flags = if self.is_sampled { SAMPLED } else { 0 };
        format!("00-{}-{}-{flags:02x}", self.trace_id, self.span_id)
    }
}

/// The headers `traceparent` and `tracestate`.
#[derive(Serialize, Deserialize)]
struct TraceHeaders {
    parent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<Arc<str>>,
}

impl Serialize for TraceContext {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        let parent = self.format_traceparent();
        TraceHeaders { parent, state: self.state.clone() }.serialize(output)
    }
}

impl<'de> Deserialize<'de> for TraceContext {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let TraceHeaders { parent, state } = TraceHeaders::deserialize(input)?;
        let context = Self::parse(&parent, state.as_deref());
        context.ok_or_else(|| D::Error::custom("not a traceparent"))
    }
}

/// The trace context of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTrace {
    pub context: TraceContext,
    pub begun_by: BegunBy,
}

/// The side that started a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BegunBy {
    /// The caller, who sent a trace context and so knows the trace id.
    Caller,
    /// The server, because the caller sent no trace context.
    Server,
}

impl CallTrace {
    /// Starts a trace that no caller knows.
    #[must_use]
    pub fn start() -> Self {
        Self { context: TraceContext::root(), begun_by: BegunBy::Server }
    }

    /// The trace id, if the caller knows it.
    #[must_use]
    pub const fn id_known_to_caller(&self) -> Option<TraceId> {
        match self.begun_by {
            BegunBy::Caller => Some(self.context.trace_id),
            BegunBy::Server => None,
        }
    }
}

impl TraceId {
    #[must_use]
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// The id as a number; never 0.
    #[must_use]
    pub const fn number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

impl SpanId {
    #[must_use]
    pub const fn bytes(self) -> [u8; 8] {
        self.0
    }

    /// The id as a number; never 0.
    #[must_use]
    pub const fn number(self) -> u64 {
        u64::from_be_bytes(self.0)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HEXLOWER.encode_display(&self.0).fmt(f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HEXLOWER.encode_display(&self.0).fmt(f)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Decodes exactly `N` bytes of lower-case hexadecimal digits.
fn decode_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    HEXLOWER.decode_mut(text.as_bytes(), &mut bytes).ok()?;
    Some(bytes)
}

fn is_valid_state(state: &str) -> bool {
    (1..=MAX_STATE).contains(&state.len()) && state.bytes().all(|b| (b' '..=b'~').contains(&b))
}

/// Returns random bytes that are not all zero: zero is not a valid id.
fn generate_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    POOL.with_borrow_mut(|pool| pool.fill(&mut bytes));
    if bytes == [0; N] {
        bytes[N - 1] = 1;
    }
    bytes
}

thread_local! {
    static POOL: RefCell<RandomPool> = const { RefCell::new(RandomPool::EMPTY) };
}

/// A buffer of random bytes for many ids, filled by one system call. Ids are not secrets.
struct RandomPool {
    bytes: [u8; Self::SIZE],
    left: usize,
}

impl RandomPool {
    const SIZE: usize = 256;
    const EMPTY: Self = Self { bytes: [0; Self::SIZE], left: 0 };

    fn fill(&mut self, wanted: &mut [u8]) {
        if self.left < wanted.len() {
            // Without random numbers traces are hard to tell apart, but everything else works.
            getrandom::fill(&mut self.bytes).ok();
            self.left = Self::SIZE;
        }
        self.left -= wanted.len();
        wanted.copy_from_slice(&self.bytes[self.left..][..wanted.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_parsed_and_formatted() {
        let context = TraceContext::parse(PARENT, Some("vendor=1")).unwrap();
        assert_eq!(context.format_traceparent(), PARENT);
        assert_eq!(context.trace_id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert!(context.is_sampled);
        assert_eq!(context.state.as_deref(), Some("vendor=1"));
        let unsampled = PARENT.replace("-01", "-00");
        assert!(!TraceContext::parse(&unsampled, None).unwrap().is_sampled);
    }

    #[test]
    fn a_later_version_may_have_more_fields() {
        let later = format!("{}-more", PARENT.replacen("00", "01", 1));
        assert!(TraceContext::parse(&later, None).is_some());
        assert_eq!(TraceContext::parse(&format!("{PARENT}-more"), None), None);
    }

    #[test]
    fn an_invalid_context_is_refused() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = PARENT.replace("00f067aa0ba902b7", "0000000000000000");
        let upper = PARENT.to_uppercase();
        let forbidden = PARENT.replacen("00", "ff", 1);
        let short = &PARENT[..54];
        for bad in ["", "00", "é", short, &zero_trace, &zero_span, &upper, &forbidden] {
            assert_eq!(TraceContext::parse(bad, None), None, "{bad}");
        }
        let context = TraceContext::parse(PARENT, Some("line\nbreak")).unwrap();
        assert_eq!(context.state, None);
    }

    #[test]
    fn a_child_is_another_span_of_the_same_trace() {
        let root = TraceContext::root();
        let child = root.child();
        assert_eq!(root.trace_id, child.trace_id);
        assert_ne!(root.span_id, child.span_id);
        assert_ne!(TraceContext::root().trace_id, root.trace_id);
    }
}
