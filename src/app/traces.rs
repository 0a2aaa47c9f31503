//! The export of spans to a collector.

use tokio::runtime::Handle;

use super::error::AppError;
use crate::config::{Loaded, ValueOrigin};
#[cfg(feature = "otlp")]
use crate::telemetry::otlp;
use crate::telemetry::{events, spans};

/// The running export of spans. Dropping it sends the remaining spans, within a time limit.
#[derive(Debug, Default)]
#[must_use = "dropping it ends the export"]
pub(super) struct TraceExport {
    #[cfg(feature = "otlp")]
    _export: Option<otlp::SpanExport>,
}

/// Starts the export, if the settings name a collector. Drop the result before `runtime`, which sends
/// the last spans.
pub(super) fn start(loaded: &Loaded, runtime: &Handle) -> Result<TraceExport, AppError> {
    let settings = &loaded.settings.trace;
    spans::set_sample_ratio(settings.sample);
    match (&settings.otlp_endpoint, loaded.origin("trace.otlp_endpoint")) {
        // The standard variable may be meant for other programs.
        (Some(endpoint), Some(ValueOrigin::Variable(name)))
            if !CAN_EXPORT && name == OTEL_ENDPOINT_VARIABLE =>
        {
            events::span_export_not_built(endpoint);
            Ok(TraceExport::default())
        }
        (Some(endpoint), _) => export(endpoint, runtime),
        (None, _) => Ok(TraceExport::default()),
    }
}

const CAN_EXPORT: bool = cfg!(feature = "otlp");

/// The standard variable with the address of a collector, which many programs read.
const OTEL_ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

#[cfg(feature = "otlp")]
fn export(endpoint: &str, runtime: &Handle) -> Result<TraceExport, AppError> {
    Ok(TraceExport { _export: Some(super::span_sender::export_to(endpoint, runtime)?) })
}

#[cfg(not(feature = "otlp"))]
fn export(endpoint: &str, _: &Handle) -> Result<TraceExport, AppError> {
    Err(AppError::NoOtlp { endpoint: endpoint.to_owned() })
}
