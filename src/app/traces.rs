//! Where spans go.

use tokio::runtime::Handle;

#[cfg(feature = "otlp")]
use super::collector;
use super::error::AppError;
use crate::config::{Loaded, Origin};
use crate::telemetry::{events, spans};

/// Spans that are handed over as long as this lives; what is left is when it ends, within a bound.
#[derive(Debug, Default)]
#[must_use = "dropping it ends the export"]
pub(super) struct Traces {
    #[cfg(feature = "otlp")]
    _export: Option<crate::telemetry::otlp::Export>,
}

/// Begins to export, where the settings say so. Drop what it returns before `runtime`, which
/// carries the last spans.
pub(super) fn start(loaded: &Loaded, runtime: &Handle) -> Result<Traces, AppError> {
    let settings = &loaded.settings.trace;
    spans::sample(settings.sample);
    match (&settings.otlp_endpoint, loaded.origin("trace.otlp_endpoint")) {
        // It may well be meant for other programs.
        (Some(endpoint), Some(Origin::Variable(name))) if !CAN_EXPORT && name == STANDARD => {
            events::spans_stay_here(endpoint);
            Ok(Traces::default())
        }
        (Some(endpoint), _) => export(endpoint, runtime),
        (None, _) => Ok(Traces::default()),
    }
}

const CAN_EXPORT: bool = cfg!(feature = "otlp");

/// The variable by which all programs are told where a collector is.
const STANDARD: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

#[cfg(feature = "otlp")]
fn export(endpoint: &str, runtime: &Handle) -> Result<Traces, AppError> {
    Ok(Traces { _export: Some(collector::export_to(endpoint, runtime)?) })
}

#[cfg(not(feature = "otlp"))]
fn export(endpoint: &str, _: &Handle) -> Result<Traces, AppError> {
    Err(AppError::NoOtlp { endpoint: endpoint.to_owned() })
}
