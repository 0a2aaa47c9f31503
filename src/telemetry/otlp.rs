//! Spans for an OpenTelemetry collector: OTLP over HTTP, in batches, from a thread of its own.
//!
//! Nobody waits for the collector. What it does not take in time is lost, and so is what does not
//! fit into the queue while it is away.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, Key, KeyValue, Value, trace as wire};
use opentelemetry_http::HttpClient;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor,
};
use thiserror::Error;

use super::spans::{self, FinishedSpan, SpanAttribute, SpanKind};

/// Spans that wait for the collector; further ones are lost.
const QUEUED_SPANS: usize = 2048;

/// The time between two batches.
const BATCH_TIME: Duration = Duration::from_secs(1);

/// What the last batch gets before the process ends without it.
const FLUSH_TIME: Duration = Duration::from_secs(2);

/// Where a collector takes spans, below its address.
const TRACES: &str = "v1/traces";

const SERVICE_NAME: &str = "service.name";

/// How the name of a service begins that nobody named.
const UNNAMED: &str = "unknown_service";

/// Why no span can be handed over.
#[derive(Debug, Error)]
#[error(
    "spans cannot be exported to `{endpoint}`; check trace.otlp_endpoint and the variables OTEL_EXPORTER_OTLP_*"
)]
pub struct ExportError {
    endpoint: String,
    source: ExporterBuildError,
}

impl ExportError {
    /// The stable word that programs may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "otlp_export"
    }
}

/// Hands over what is left when it is dropped, within two seconds.
#[derive(Debug)]
#[must_use = "dropping the export ends it"]
pub struct Export(Arc<BatchSpanProcessor>);

impl Drop for Export {
    fn drop(&mut self) {
        // Whether the collector took it all is told by whoever carries it there.
        self.0.shutdown_with_timeout(FLUSH_TIME).ok();
    }
}

/// The address that spans are posted to, where the collector is at `endpoint`.
#[must_use]
pub fn traces_url(endpoint: &str) -> String {
    format!("{}/{TRACES}", endpoint.trim_end_matches('/'))
}

/// From now on every sampled span that ends is handed to the collector at `endpoint`, through
/// `client`, which must not wait for ever.
///
/// # Errors
/// When the address, or a standard variable that says how to export, cannot be used.
pub fn start(endpoint: &str, client: impl HttpClient + 'static) -> Result<Export, ExportError> {
    let export = Export(Arc::new(processor(endpoint, client)?));
    let processor = Arc::clone(&export.0);
    let scope = scope();
    spans::export_to(move |span| processor.on_end(data(span, scope.clone())));
    Ok(export)
}

fn processor(
    endpoint: &str,
    client: impl HttpClient + 'static,
) -> Result<BatchSpanProcessor, ExportError> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(traces_url(endpoint))
        .build()
        .map_err(|source| ExportError { endpoint: endpoint.to_owned(), source })?;
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUED_SPANS)
        .with_scheduled_delay(BATCH_TIME)
        .build();
    let builder = BatchSpanProcessor::builder(exporter).with_batch_config(batches);
    let mut processor = builder.build();
    processor.set_resource(&resource());
    Ok(processor)
}

fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
        .with_version(env!("CARGO_PKG_VERSION"))
        .build()
}

/// Who tells of all this: what the standard variables say comes first.
fn resource() -> Resource {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let told = Resource::builder().build().get(&Key::from_static_str(SERVICE_NAME));
    let name = told.map(|name| name.to_string()).filter(|name| !name.starts_with(UNNAMED));
    Resource::builder()
        .with_service_name(name.unwrap_or_else(|| env!("CARGO_PKG_NAME").to_owned()))
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("host.name", host.trim_end().to_owned()),
            KeyValue::new("process.pid", i64::from(std::process::id())),
        ])
        .build()
}

/// A span that has just ended, as collectors know it.
fn data(span: FinishedSpan, instrumentation_scope: InstrumentationScope) -> SpanData {
    let FinishedSpan { context, parent, name, kind, started, attributes, error } = span;
    let state = context.state.as_deref().and_then(|state| state.parse::<TraceState>().ok());
    let span_context = SpanContext::new(
        wire::TraceId::from_bytes(context.trace_id.bytes()),
        wire::SpanId::from_bytes(context.span_id.bytes()),
        TraceFlags::SAMPLED,
        false,
        state.unwrap_or_default(),
    );
    let parent = parent.map(|parent| wire::SpanId::from_bytes(parent.bytes()));
    SpanData {
        span_context,
        parent_span_id: parent.unwrap_or(wire::SpanId::INVALID),
        // Whoever waits for an answer is another process.
        parent_span_is_remote: parent.is_some() && kind == SpanKind::Server,
        span_kind: match kind {
            SpanKind::Server => wire::SpanKind::Server,
            SpanKind::Internal => wire::SpanKind::Internal,
        },
        name: Cow::Owned(name),
        start_time: started,
        end_time: SystemTime::now(),
        attributes: attributes.into_iter().map(|(key, value)| attribute(key, value)).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: error.map_or(Status::Unset, Status::error),
        instrumentation_scope,
    }
}

fn attribute(key: &'static str, value: SpanAttribute) -> KeyValue {
    let value = match value {
        SpanAttribute::Text(text) => Value::from(text),
        SpanAttribute::Number(number) => Value::from(number),
    };
    KeyValue::new(key, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceContext;
    use bytes::Bytes;
    use futures_util::future::{self, BoxFuture};
    use hyper::{Request, Response};
    use opentelemetry_http::HttpError;

    /// A way to a collector that takes what it is given and never answers.
    #[derive(Debug)]
    struct Mute;

    impl HttpClient for Mute {
        fn send_bytes<'life0, 'async_trait>(
            &'life0 self,
            _: Request<Bytes>,
        ) -> BoxFuture<'async_trait, Result<Response<Bytes>, HttpError>>
        where
            'life0: 'async_trait,
            Self: 'async_trait,
        {
            Box::pin(future::pending())
        }
    }

    fn ended(kind: SpanKind, parent: Option<&TraceContext>) -> FinishedSpan {
        FinishedSpan {
            context: parent.map_or_else(TraceContext::root, TraceContext::child),
            parent: parent.map(|parent| parent.span_id),
            name: "work".to_owned(),
            kind,
            started: SystemTime::now(),
            attributes: vec![("job", 7.into()), ("outcome", "exited".into())],
            error: None,
        }
    }

    #[test]
    fn a_span_keeps_its_place_in_its_trace() {
        let parent = TraceContext { state: Some("a=1".into()), ..TraceContext::root() };
        let span = ended(SpanKind::Server, Some(&parent));
        let context = span.context.clone();
        let sent = data(span, scope());
        assert_eq!(sent.span_context.trace_id().to_bytes(), context.trace_id.bytes());
        assert_eq!(sent.span_context.span_id().to_bytes(), context.span_id.bytes());
        assert_eq!(sent.parent_span_id.to_bytes(), parent.span_id.bytes());
        assert_eq!(sent.span_context.trace_state().header(), "a=1");
        assert!(sent.parent_span_is_remote && sent.span_context.is_sampled());
        assert_eq!(sent.attributes[0], KeyValue::new("job", 7));
        assert_eq!((sent.status, sent.span_kind), (Status::Unset, wire::SpanKind::Server));
        let failed = FinishedSpan { error: Some("lost".into()), ..ended(SpanKind::Internal, None) };
        let sent = data(failed, scope());
        assert_eq!(sent.status, Status::error("lost"));
        assert_eq!(sent.parent_span_id, wire::SpanId::INVALID);
        assert!(!sent.parent_span_is_remote);
    }

    #[test]
    fn nobody_waits_for_a_collector_that_never_answers() {
        let export = Export(Arc::new(processor("http://localhost:4318/", Mute).unwrap()));
        for _ in 0..2 * QUEUED_SPANS {
            export.0.on_end(data(ended(SpanKind::Internal, None), scope()));
        }
        drop(export); // returns although nothing was taken
    }

    #[test]
    fn what_is_no_address_is_refused_by_name() {
        let error = processor("http://[", Mute).unwrap_err();
        assert_eq!(error.code(), "otlp_export");
        assert!(error.to_string().contains("`http://[`"), "{error}");
        assert_eq!(traces_url("http://c:4318/otlp/"), "http://c:4318/otlp/v1/traces");
    }
}
