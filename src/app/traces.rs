//! Where spans go.

use tokio::runtime::Handle;

#[cfg(feature = "otlp")]
use super::collector;
use super::error::AppError;
use crate::config::TraceSettings;
use crate::telemetry::spans;

/// Spans that are handed over as long as this lives; what is left is when it ends, within a bound.
#[derive(Debug, Default)]
#[must_use = "dropping it ends the export"]
pub(super) struct Traces {
    #[cfg(feature = "otlp")]
    _export: Option<crate::telemetry::otlp::Export>,
}

/// Begins to export, where the settings say so. Drop what it returns before `runtime`, which
/// carries the last spans.
pub(super) fn start(settings: &TraceSettings, runtime: &Handle) -> Result<Traces, AppError> {
    spans::sample(settings.sample);
    match &settings.otlp_endpoint {
        Some(endpoint) => export(endpoint, runtime),
        None => Ok(Traces::default()),
    }
}

#[cfg(feature = "otlp")]
fn export(endpoint: &str, runtime: &Handle) -> Result<Traces, AppError> {
    Ok(Traces { _export: Some(collector::export_to(endpoint, runtime)?) })
}

#[cfg(not(feature = "otlp"))]
fn export(endpoint: &str, _: &Handle) -> Result<Traces, AppError> {
    Err(AppError::NoOtlp { endpoint: endpoint.to_owned() })
}
