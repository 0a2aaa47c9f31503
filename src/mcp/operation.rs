//! One request from its arrival to its answer: counted, timed, and a span of its trace.

use std::sync::{Arc, OnceLock};

use axum::http::HeaderMap;
use axum::http::request::Parts;
use rmcp::RoleServer;
use rmcp::service::RequestContext;

use crate::ids::{JobId, Tenant};
use crate::telemetry::ErrorType;
use crate::telemetry::events::{self, ActiveOperation};
use crate::telemetry::spans::{Span, SpanKind};
use crate::trace::{BegunBy, CallTrace, TraceContext};

/// What carries a request, in OpenTelemetry's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Standard input and output.
    Pipe,
    /// A network connection.
    Tcp,
    /// A unix socket.
    Unix,
}

impl Network {
    const fn word(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Tcp => "tcp",
            Self::Unix => "unix",
        }
    }
}

/// What is asked for, and by whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) method: &'a str,
    /// The tool that is called, if one is.
    pub(super) tool: Option<&'static str>,
    pub(super) tenant: Option<Tenant>,
    /// What carries requests that do not say.
    pub(super) network: Network,
}

/// A request that is being answered. Dropping it, as cancellation may, ends it as one that was
/// cut short.
#[derive(Debug)]
#[must_use = "dropping the operation ends it"]
pub(super) struct Operation {
    active: Option<ActiveOperation>,
    error: Option<ErrorType>,
    span: Span,
    place: Place,
}

/// What those who answer a request know of its operation: it stands in the request's extensions.
#[derive(Debug, Clone)]
pub(super) struct Place {
    trace: CallTrace,
    job: Arc<OnceLock<JobId>>,
}

impl Place {
    /// Where this request stands in a trace, where that is known.
    pub(super) fn trace(context: &RequestContext<RoleServer>) -> Option<CallTrace> {
        context.extensions.get::<Self>().map(|place| place.trace.clone())
    }

    /// Tells that this request is about a job.
    pub(super) fn note_job(context: &RequestContext<RoleServer>, job: JobId) {
        if let Some(place) = context.extensions.get::<Self>() {
            // The first one is what it is about.
            place.job.set(job).ok();
        }
    }
}

impl Operation {
    /// Begins to answer a request.
    pub(super) fn begin(asked: Asked<'_>, context: &RequestContext<RoleServer>) -> Self {
        let active = events::operation_started(asked.method, asked.tool);
        let name = match active.tool() {
            Some(tool) => format!("{} {tool}", active.method()),
            None => active.method().to_owned(),
        };
        let sent = sent_context(context);
        let mut span = Span::begin(SpanKind::Server, name, sent.as_ref());
        describe(&mut span, &active, asked, context);
        let begun_by = if sent.is_some() { BegunBy::Caller } else { BegunBy::Server };
        let trace = CallTrace { context: span.context().clone(), begun_by };
        let place = Place { trace, job: Arc::default() };
        Self { active: Some(active), error: Some(ErrorType::Other), span, place }
    }

    /// What the request is given, for those who answer it.
    pub(super) fn place(&self) -> Place {
        self.place.clone()
    }

    /// What log lines about it are written in.
    pub(super) const fn log(&self) -> &tracing::Span {
        self.span.log()
    }

    /// It was answered. Without this it counts as cut short.
    pub(super) fn finish(mut self, error: Option<ErrorType>) {
        self.error = error;
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let Some(job) = self.place.job.get() {
            self.span.note("shellyard.job", i64::try_from(job.number()).unwrap_or(i64::MAX));
        }
        if let Some(error) = self.error {
            self.span.note("error.type", error.word());
            self.span.fail(&error.word());
        }
        let (active, error) = (self.active.take(), self.error);
        self.span.log().in_scope(|| active.map(|active| active.finish(error)));
    }
}

fn describe(
    span: &mut Span,
    active: &ActiveOperation,
    asked: Asked<'_>,
    context: &RequestContext<RoleServer>,
) {
    span.note("mcp.method.name", active.method());
    if let Some(tool) = active.tool() {
        span.note("gen_ai.tool.name", tool);
    }
    if let Some(version) = context.protocol_version() {
        span.note("mcp.protocol.version", version.as_str());
    }
    let told = parts(context).and_then(|parts| parts.extensions.get::<Network>());
    span.note("network.transport", told.copied().unwrap_or(asked.network).word());
    if let Some(tenant) = asked.tenant {
        span.note("shellyard.tenant", tenant.name());
    }
}

fn parts(context: &RequestContext<RoleServer>) -> Option<&Parts> {
    context.extensions.get::<Parts>()
}

/// The place in a trace that the caller told: in the request itself, else in its headers.
fn sent_context(context: &RequestContext<RoleServer>) -> Option<TraceContext> {
    let (meta, headers) = (&context.meta, parts(context).map(|parts| &parts.headers));
    let of_request = meta.get_traceparent();
    let of_request = of_request.and_then(|it| TraceContext::parse(it, meta.get_tracestate()));
    of_request.or_else(|| headers.and_then(context_of_headers))
}

/// The place in a trace that the headers of a request tell.
pub(crate) fn context_of_headers(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let (parent, None) = (parents.next()?, parents.next()) else { return None };
    // It may come in several headers, which count as one.
    let states: Vec<&str> =
        headers.get_all("tracestate").iter().filter_map(|it| it.to_str().ok()).collect();
    TraceContext::parse(parent.to_str().ok()?, Some(states.join(",").as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(headers: &[(&'static str, &'static str)]) -> Option<TraceContext> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        context_of_headers(&map)
    }

    #[test]
    fn headers_tell_one_context_or_none() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("tracestate", "a=1")]), None);
        let plain = read(&[("traceparent", PARENT)]).unwrap();
        assert_eq!((plain.traceparent().as_str(), plain.state), (PARENT, None));
        let stated =
            read(&[("tracestate", "a=1"), ("traceparent", PARENT), ("tracestate", "b=2")]).unwrap();
        assert_eq!(stated.state.as_deref(), Some("a=1,b=2"));
        assert_eq!(read(&[("traceparent", PARENT), ("traceparent", PARENT)]), None, "which one?");
        assert_eq!(read(&[("traceparent", "00-nonsense")]), None);
    }
}
