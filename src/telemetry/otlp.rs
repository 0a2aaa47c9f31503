//! The export of spans to an OpenTelemetry collector: OTLP over HTTP, in batches, from a separate
//! thread.
//!
//! Nothing waits for the collector. Spans that it does not accept in time are lost, and so are spans
//! that do not fit into the queue while it is unreachable.

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

/// Spans that are queued for the collector; further spans are lost.
const QUEUED_SPANS: usize = 2048;

/// The time between two batches.
const BATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The time that the last batch gets before the process ends without it.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The path below the collector's address that accepts spans.
const TRACES_PATH: &str = "v1/traces";

const SERVICE_NAME: &str = "service.name";

/// The prefix of the default service name of the OpenTelemetry SDK.
const DEFAULT_SERVICE_PREFIX: &str = "unknown_service";

/// The error of an export that cannot be set up.
#[derive(Debug, Error)]
#[error(
    "spans cannot be exported to `{endpoint}`; check trace.otlp_endpoint and the variables OTEL_EXPORTER_OTLP_*"
)]
pub struct SpanExportError {
    endpoint: String,
    source: ExporterBuildError,
}

impl SpanExportError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "otlp_export"
    }
}

/// The running export. Dropping it sends the queued spans, within two seconds.
#[derive(Debug)]
#[must_use = "dropping the export ends it"]
pub struct SpanExport(Arc<BatchSpanProcessor>);

impl Drop for SpanExport {
    fn drop(&mut self) {
        // The HTTP client reports failures.
        self.0.shutdown_with_timeout(FLUSH_TIMEOUT).ok();
    }
}

/// Returns the address to post spans to, for the collector at `endpoint`.
#[must_use]
pub fn traces_url(endpoint: &str) -> String {
    format!("{}/{TRACES_PATH}", endpoint.trim_end_matches('/'))
}

/// Starts to send every sampled span that ends to the collector at `endpoint`, through `client`,
/// which must have a timeout.
///
/// # Errors
/// Fails if the address or one of the variables `OTEL_EXPORTER_OTLP_*` is not valid.
pub fn start(
    endpoint: &str,
    client: impl HttpClient + 'static,
) -> Result<SpanExport, SpanExportError> {
    let export = SpanExport(Arc::new(new_processor(endpoint, client)?));
    let processor = Arc::clone(&export.0);
    let scope = instrumentation_scope();
    spans::export_to(move |span| processor.on_end(to_span_data(span, scope.clone())));
    Ok(export)
}

fn new_processor(
    endpoint: &str,
    client: impl HttpClient + 'static,
) -> Result<BatchSpanProcessor, SpanExportError> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(traces_url(endpoint))
        .build()
        .map_err(|source| SpanExportError { endpoint: endpoint.to_owned(), source })?;
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUED_SPANS)
        .with_scheduled_delay(BATCH_INTERVAL)
        .build();
    let builder = BatchSpanProcessor::builder(exporter).with_batch_config(batches);
    let mut processor = builder.build();
    processor.set_resource(&describe_server());
    Ok(processor)
}

fn instrumentation_scope() -> InstrumentationScope {
    InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
        .with_version(env!("CARGO_PKG_VERSION"))
        .build()
}

/// The attributes of this server. The standard OTEL variables take precedence for the service name.
fn describe_server() -> Resource {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let configured = Resource::builder().build().get(&Key::from_static_str(SERVICE_NAME));
    let name = configured
        .map(|name| name.to_string())
        .filter(|name| !name.starts_with(DEFAULT_SERVICE_PREFIX));
    Resource::builder()
        .with_service_name(name.unwrap_or_else(|| env!("CARGO_PKG_NAME").to_owned()))
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("host.name", host.trim_end().to_owned()),
            KeyValue::new("process.pid", i64::from(std::process::id())),
        ])
        .build()
}

/// Converts a span that has just ended into the form of the OpenTelemetry SDK.
fn to_span_data(span: FinishedSpan, instrumentation_scope: InstrumentationScope) -> SpanData {
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
        // The client that waits for the reply is another process.
        parent_span_is_remote: parent.is_some() && kind == SpanKind::Server,
        span_kind: match kind {
            SpanKind::Server => wire::SpanKind::Server,
            SpanKind::Internal => wire::SpanKind::Internal,
        },
        name: Cow::Owned(name),
        start_time: started,
        end_time: SystemTime::now(),
        attributes: attributes.into_iter().map(|(key, value)| to_key_value(key, value)).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: error.map_or(Status::Unset, Status::error),
        instrumentation_scope,
    }
}

fn to_key_value(key: &'static str, value: SpanAttribute) -> KeyValue {
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

    /// A client whose collector never answers.
    #[derive(Debug)]
    struct SilentCollector;

    impl HttpClient for SilentCollector {
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

    fn finished(kind: SpanKind, parent: Option<&TraceContext>) -> FinishedSpan {
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
        let span = finished(SpanKind::Server, Some(&parent));
        let context = span.context.clone();
        let sent = to_span_data(span, instrumentation_scope());
        assert_eq!(sent.span_context.trace_id().to_bytes(), context.trace_id.bytes());
        assert_eq!(sent.span_context.span_id().to_bytes(), context.span_id.bytes());
        assert_eq!(sent.parent_span_id.to_bytes(), parent.span_id.bytes());
        assert_eq!(sent.span_context.trace_state().header(), "a=1");
        assert!(sent.parent_span_is_remote && sent.span_context.is_sampled());
        assert_eq!(sent.attributes[0], KeyValue::new("job", 7));
        assert_eq!((sent.status, sent.span_kind), (Status::Unset, wire::SpanKind::Server));
        let failed =
            FinishedSpan { error: Some("lost".into()), ..finished(SpanKind::Internal, None) };
        let sent = to_span_data(failed, instrumentation_scope());
        assert_eq!(sent.status, Status::error("lost"));
        assert_eq!(sent.parent_span_id, wire::SpanId::INVALID);
        assert!(!sent.parent_span_is_remote);
    }

    #[test]
    fn nothing_waits_for_a_collector_that_never_answers() {
        let processor = new_processor("http://localhost:4318/", SilentCollector).unwrap();
        let export = SpanExport(Arc::new(processor));
        for _ in 0..2 * QUEUED_SPANS {
            let span = finished(SpanKind::Internal, None);
            export.0.on_end(to_span_data(span, instrumentation_scope()));
        }
        drop(export); // returns although the collector accepted nothing
    }

    #[test]
    fn the_error_for_a_bad_address_names_it() {
        let error = new_processor("http://[", SilentCollector).unwrap_err();
        assert_eq!(error.code(), "otlp_export");
        assert!(error.to_string().contains("`http://[`"), "{error}");
        assert_eq!(traces_url("http://c:4318/otlp/"), "http://c:4318/otlp/v1/traces");
    }
}
