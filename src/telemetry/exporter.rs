//! What Prometheus reads.
//!
//! Every series exists from the start, at zero: a rate over a label value that shows
//! up only with its first event would miss that event.

use std::fmt;
use std::time::{Duration, SystemTime};

use metrics::{Key, KeyName, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use thiserror::Error;

use super::events;
use super::names::{Counter, Gauge, Histogram, LabelSet};

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

/// The metrics of this process as text.
#[derive(Clone)]
pub struct Exporter {
    handle: PrometheusHandle,
}

/// Why there are no metrics.
#[derive(Debug, Error)]
pub enum ExporterError {
    /// The buckets were refused.
    #[error("the metrics exporter could not be built")]
    Build(#[from] BuildError),
    /// The process has a recorder already.
    #[error("metrics are already recorded in this process; install the exporter once")]
    Installed,
}

impl ExporterError {
    /// The stable word that programs may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Build(_) => "exporter_build",
            Self::Installed => "exporter_installed",
        }
    }
}

impl Exporter {
    /// Makes this process record its metrics. Call once; then spawn [`Exporter::run_upkeep`].
    ///
    /// # Errors
    /// When the process has a recorder already.
    pub fn install() -> Result<Self, ExporterError> {
        let (recorder, exporter) = Self::build()?;
        metrics::set_global_recorder(recorder).map_err(|_| ExporterError::Installed)?;
        Ok(exporter)
    }

    fn build() -> Result<(PrometheusRecorder, Self), BuildError> {
        let mut builder = PrometheusBuilder::new();
        for metric in Histogram::ALL {
            let matcher = Matcher::Full(metric.name().to_owned());
            builder = builder.set_buckets_for_metric(matcher, metric.buckets())?;
        }
        let recorder = builder.build_recorder();
        register_all(&recorder);
        let exporter = Self { handle: recorder.handle() };
        Ok((recorder, exporter))
    }

    /// All metrics in the Prometheus text format.
    #[must_use]
    pub fn render(&self) -> String {
        events::scraped();
        self.handle.render()
    }

    /// Folds recorded values into their buckets, for ever. Without it the memory of the
    /// histograms grows until somebody scrapes.
    pub async fn run_upkeep(self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            self.handle.run_upkeep();
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

fn register_all(recorder: &PrometheusRecorder) {
    for metric in Counter::ALL {
        let name = KeyName::from_const_str(metric.name());
        recorder.describe_counter(name, Some(metric.unit()), metric.help().into());
        for key in series(metric.name(), metric.labels()) {
            recorder.register_counter(&key, &METADATA).absolute(0);
        }
    }
    for metric in Gauge::ALL {
        let name = KeyName::from_const_str(metric.name());
        recorder.describe_gauge(name, Some(metric.unit()), metric.help().into());
        for key in series(metric.name(), metric.labels()) {
            recorder.register_gauge(&key, &METADATA).set(initial(metric));
        }
    }
    for metric in Histogram::ALL {
        let name = KeyName::from_const_str(metric.name());
        recorder.describe_histogram(name, Some(metric.unit()), metric.help().into());
        for key in series(metric.name(), metric.labels()) {
            let _registered = recorder.register_histogram(&key, &METADATA);
        }
    }
}

/// Gauges start at zero, except for those that never change.
fn initial(gauge: Gauge) -> f64 {
    match gauge {
        Gauge::BuildInfo => 1.0,
        Gauge::StartTime => {
            let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            since_1970.map_or(0.0, |elapsed| elapsed.as_secs_f64())
        }
        Gauge::JobsRunning
        | Gauge::JobsRunningLimit
        | Gauge::JobsQueued
        | Gauge::JobsQueuedLimit
        | Gauge::JobsRetained
        | Gauge::JobsRetainedLimit
        | Gauge::OutputStoredBytes
        | Gauge::ResidentMemory
        | Gauge::OpenFds => 0.0,
    }
}

/// One key for each combination of label values.
fn series(name: &'static str, labels: &[LabelSet]) -> Vec<Key> {
    let mut combinations: Vec<Vec<Label>> = vec![Vec::new()];
    for (label, values) in labels {
        let extend = |known: &Vec<Label>| {
            let known = known.clone();
            values.iter().map(move |value| {
                known.iter().cloned().chain([Label::from_static_parts(label, value)]).collect()
            })
        };
        combinations = combinations.iter().flat_map(extend).collect();
    }
    combinations.into_iter().map(|labels| Key::from_parts(name, labels)).collect()
}
