//! The Prometheus exporter.
//!
//! Series exist from the start, at zero: if a label value appeared only with its first event, a rate
//! over it would miss that event. Families with many label values that most servers never use are the
//! exception: [`MetricLabels`] names the event that registers their series.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use metrics::{Key, KeyName, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use thiserror::Error;

use super::events;
use super::names::{
    self, LabelSet, Metric, MetricKind, MetricLabels, catalogue, list_known_operations,
};
use super::process_metrics::{self, DiskProbe};
use crate::output::Counters;

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

/// Renders the metrics of this process as text.
#[derive(Clone)]
pub struct Exporter {
    handle: PrometheusHandle,
    data_dir: Option<Arc<Path>>,
    disk: Arc<DiskProbe>,
    output: Arc<Counters>,
}

/// An error that prevents the export of metrics.
#[derive(Debug, Error)]
pub enum ExporterError {
    #[error("the metrics exporter could not be built")]
    Build(#[from] BuildError),
    #[error("metrics are already recorded in this process; install the exporter once")]
    Installed,
}

impl ExporterError {
    /// Returns the stable code word of the error.
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
    /// Fails if the process already has a recorder.
    pub fn install() -> Result<Self, ExporterError> {
        let (recorder, exporter) = Self::build()?;
        metrics::set_global_recorder(recorder).map_err(|_| ExporterError::Installed)?;
        Ok(exporter)
    }

    fn build() -> Result<(PrometheusRecorder, Self), BuildError> {
        let mut builder = PrometheusBuilder::new();
        for metric in catalogue() {
            if let MetricKind::Histogram(buckets) = metric.kind {
                let matcher = Matcher::Full(metric.name.to_owned());
                builder = builder.set_buckets_for_metric(matcher, buckets)?;
            }
        }
        let recorder = builder.build_recorder();
        register_all(&recorder);
        let exporter = Self {
            handle: recorder.handle(),
            data_dir: None,
            disk: Arc::default(),
            output: Arc::default(),
        };
        Ok((recorder, exporter))
    }

    /// Also exports the free space of the disk that holds `dir`.
    #[must_use]
    pub fn with_data_dir(self, dir: PathBuf) -> Self {
        Self { data_dir: Some(dir.into()), ..self }
    }

    /// Also exports the counters of the output store.
    #[must_use]
    pub fn with_output_counters(self, counters: Arc<Counters>) -> Self {
        Self { output: counters, ..self }
    }

    /// Returns all metrics in the Prometheus text format. Waits at most a second for a disk that does
    /// not answer.
    pub async fn render(&self) -> String {
        let disk_space = match &self.data_dir {
            Some(dir) => self.disk.measure_space(dir).await,
            None => None,
        };
        events::update_process_metrics(disk_space);
        events::update_output_metrics(&self.output);
        self.handle.render()
    }

    /// Moves recorded values into their buckets, forever. Without this task the memory of the
    /// histograms grows until the next scrape.
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
    for metric in catalogue() {
        describe(recorder, metric);
        for key in list_known_series(metric) {
            match metric.kind {
                MetricKind::Counter => recorder.register_counter(&key, &METADATA).absolute(0),
                MetricKind::Gauge => {
                    recorder.register_gauge(&key, &METADATA).set(initial_value(metric))
                }
                MetricKind::Histogram(_) => drop(recorder.register_histogram(&key, &METADATA)),
            }
        }
    }
}

fn describe(recorder: &PrometheusRecorder, metric: &Metric) {
    let name = KeyName::from_const_str(metric.name);
    let unit = Some(metric.unit());
    match metric.kind {
        MetricKind::Counter => recorder.describe_counter(name, unit, metric.help.into()),
        MetricKind::Gauge => recorder.describe_gauge(name, unit, metric.help.into()),
        MetricKind::Histogram(_) => recorder.describe_histogram(name, unit, metric.help.into()),
    }
}

/// The series of a metric that exist on every server from the start.
fn list_known_series(metric: &Metric) -> Vec<Key> {
    match metric.labels {
        MetricLabels::Closed(labels) => list_series(metric.name, labels),
        MetricLabels::Operation => {
            list_known_operations().map(|labels| Key::from_parts(metric.name, &labels)).collect()
        }
        // The first event registers these.
        MetricLabels::Session | MetricLabels::Report => Vec::new(),
        // These label values come from the configuration; `QueueGauges` registers their series.
        MetricLabels::Lane | MetricLabels::Tenant => Vec::new(),
    }
}

/// The value that a gauge starts with: zero, except for gauges that never change.
fn initial_value(gauge: &Metric) -> f64 {
    if gauge == names::process::BUILD_INFO.metric() {
        1.0
    } else if gauge == names::process::START_TIME.metric() {
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        process_metrics::read_start_time().unwrap_or_else(now).as_secs_f64()
    } else {
        0.0
    }
}

/// Returns one key for each combination of label values.
fn list_series(name: &'static str, labels: &[LabelSet]) -> Vec<Key> {
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

#[cfg(test)]
mod tests {
    use super::super::labels::{
        ActorKind, ErrorType, FreedReason, HostResource, HttpRefusalReason, RejectionReason,
        Transport, WaitReason,
    };
    use super::super::queue_gauges::SeriesNames;
    use super::super::queue_gauges::{
        LaneStats, QueueGauges, QueueStats, TenantStats, UsageAndLimit,
    };
    use futures_util::FutureExt as _;

    use super::*;
    use crate::ids::{JobId, TenantId};
    use crate::outcome::{self, JobEnding, Outcome, StopBy};
    use crate::output::{
        DropReason, KeepOutput, LogBounds, LogStorage, Quota, QuotaLimits, SpillDir,
        open_bounded_log,
    };
    use crate::spec::Stream;

    const JOB: JobId = JobId::local(7);

    /// Returns the rendered metrics after `happen` ran.
    fn rendered_after(happen: impl FnOnce()) -> String {
        let (recorder, exporter) = Exporter::build().unwrap();
        metrics::with_local_recorder(&recorder, || {
            happen();
            exporter.render().now_or_never().unwrap()
        })
    }

    /// The value of one series, spelled as in the text format.
    #[track_caller]
    fn value(text: &str, series: &str) -> f64 {
        let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
    }

    /// Returns the number of series that a metric has in the text.
    fn count(text: &str, name: &str) -> usize {
        let own =
            |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        text.lines().filter(own).count()
    }

    fn combinations(labels: &[LabelSet]) -> usize {
        labels.iter().map(|(_, values)| values.len()).product()
    }

    #[test]
    fn every_series_is_there_at_zero_before_anything_happens() {
        let text = rendered_after(|| ());
        for metric in catalogue() {
            let Metric { name, help, kind, .. } = metric;
            let series = match metric.labels {
                MetricLabels::Closed(labels) => combinations(labels),
                MetricLabels::Operation => list_known_operations().count(),
                MetricLabels::Session
                | MetricLabels::Report
                | MetricLabels::Lane
                | MetricLabels::Tenant => {
                    assert!(!text.contains(name), "{name}");
                    continue;
                }
            };
            assert!(text.contains(&format!("# HELP {name} {help}")), "{name}");
            assert!(text.contains(&format!("# TYPE {name} {}", kind.word())), "{name}");
            if let MetricKind::Histogram(buckets) = kind {
                let bucket_series = series * (buckets.len() + 1);
                assert_eq!(count(&text, &format!("{name}_count")), series, "{name}");
                assert_eq!(count(&text, &format!("{name}_bucket")), bucket_series, "{name}");
            } else {
                assert_eq!(count(&text, name), series, "{name}");
            }
        }
        assert_eq!(value(&text, "shellyard_jobs_finished_total{outcome=\"lost\"}"), 0.0);
    }

    #[test]
    fn each_scrape_measures_the_process() {
        let text = rendered_after(|| ());
        for name in ["resident_memory_bytes", "virtual_memory_bytes", "threads", "open_fds"] {
            assert!(value(&text, &format!("process_{name}")) > 0.0, "{name}");
        }
        let [open, most] = ["process_open_fds", "process_max_fds"].map(|name| value(&text, name));
        assert!(open <= most, "{open} of {most}");
        assert!(value(&text, "process_start_time_seconds") > 0.0);
        let build = format!("shellyard_build_info{{version=\"{}\"", env!("CARGO_PKG_VERSION"));
        assert!(text.contains(&build), "{text}");
    }

    #[test]
    fn a_job_is_counted_from_submission_to_end() {
        let text = rendered_after(|| {
            events::job_submitted(JOB, "true");
            let _still_running =
                std::mem::ManuallyDrop::new(events::job_started(JOB, Duration::ZERO));
            let job = events::job_started(JOB, Duration::from_millis(2));
            let usage =
                outcome::ResourceUsage { cpu: Duration::from_millis(30), max_rss_bytes: 5000 };
            let outcome = Outcome::Exited { code: 3 };
            job.finish(&JobEnding { usage, ..JobEnding::unmeasured(outcome) }, 100);
            drop(events::job_started(JOB, Duration::ZERO));
            events::job_ended_before_start(JOB, &Outcome::Stopped { by: StopBy::Client });
        });
        assert_eq!(value(&text, "shellyard_jobs_submitted_total"), 1.0);
        assert_eq!(value(&text, "shellyard_jobs_running"), 1.0);
        assert_eq!(value(&text, "shellyard_jobs_finished_total{outcome=\"exited\"}"), 1.0);
        assert_eq!(value(&text, "shellyard_jobs_finished_total{outcome=\"lost\"}"), 1.0);
        assert_eq!(value(&text, "shellyard_jobs_finished_total{outcome=\"stopped\"}"), 1.0);
        assert_eq!(value(&text, "shellyard_jobs_failed_total{fault=\"command\"}"), 1.0);
        assert_eq!(value(&text, "shellyard_jobs_failed_total{fault=\"server\"}"), 1.0);
        assert_eq!(value(&text, "shellyard_job_duration_seconds_count"), 2.0);
        assert_eq!(value(&text, "shellyard_job_output_bytes_sum"), 100.0);
        assert_eq!(value(&text, "shellyard_job_cpu_seconds_sum"), 0.03);
        assert_eq!(value(&text, "shellyard_job_peak_memory_bytes_bucket{le=\"16384\"}"), 1.0);
        assert_eq!(value(&text, "shellyard_job_queue_wait_seconds_bucket{le=\"0.001\"}"), 2.0);
        assert_eq!(value(&text, "shellyard_job_queue_wait_seconds_bucket{le=\"0.0025\"}"), 3.0);
    }

    #[test]
    fn unmeasured_usage_is_not_recorded() {
        let text = rendered_after(|| {
            let lost = Outcome::Lost { why: "gone".to_owned() };
            events::job_started(JOB, Duration::ZERO).finish(&JobEnding::unmeasured(lost), 7);
        });
        assert_eq!(value(&text, "shellyard_job_cpu_seconds_count"), 0.0);
        assert_eq!(value(&text, "shellyard_job_peak_memory_bytes_count"), 0.0);
        assert_eq!(value(&text, "shellyard_job_output_bytes_count"), 1.0);
    }

    #[test]
    fn a_stopping_job_leaves_the_gauge_however_it_ends() {
        let stopping = |leave: fn(events::ActiveJob)| {
            rendered_after(|| {
                let mut job = events::job_started(JOB, Duration::ZERO);
                job.mark_stopping();
                job.mark_stopping();
                leave(job);
            })
        };
        let gauge = |leave| value(&stopping(leave), "shellyard_jobs_stopping");
        assert_eq!(gauge(std::mem::forget), 1.0);
        assert_eq!(gauge(drop), 0.0);
        let finish = |job: events::ActiveJob| {
            let by = StopBy::Client;
            job.finish(&JobEnding::unmeasured(Outcome::Stopped { by }), 0);
        };
        assert_eq!(gauge(finish), 0.0);
    }

    #[test]
    fn events_add_no_series_beyond_the_registered_ones() {
        let lines = |text: String| text.lines().count();
        let everything = || {
            let limits =
                events::ServerLimits { slots: 1, queued: 2, retained: 3, retained_bytes: Some(40) };
            events::limits_set(limits);
            events::job_rejected(TenantId::LOCAL, RejectionReason::QueueFull);
            events::queue_length_changed(1);
            events::retained_changed(1, 30);
            events::output_written(Some(Stream::Stderr), 10);
            events::store_limit_set(1000);
            events::output_dropped(JOB, DropReason::StoreFull);
            events::job_freed(JOB, FreedReason::Age, 4);
            events::orphans_reaped(2);
            events::unattributed_processes_ended(1);
            events::actor_failed(ActorKind::Job, &"boom");
            events::operation_started("tools/call", None).finish(Some(ErrorType::Tool));
            events::http_refused(HttpRefusalReason::Origin);
            events::pressure_limit_set(HostResource::Io, Some(60));
            events::pressure_measured(HostResource::Io, 61);
            events::pressure_unavailable(&"no", "none");
            events::starts_held(HostResource::Io, 61);
        };
        let known = || drop(QueueGauges::new(SeriesNames::default()));
        let text = rendered_after(|| {
            known();
            everything();
        });
        assert_eq!(lines(text.clone()), lines(rendered_after(known)));
        assert_eq!(value(&text, "shellyard_jobs_running_limit"), 1.0);
        assert_eq!(value(&text, "shellyard_retained_bytes"), 30.0);
        assert_eq!(value(&text, "shellyard_retained_limit_bytes"), 40.0);
        assert_eq!(value(&text, "shellyard_tenant_jobs_rejected_total{tenant=\"other\"}"), 1.0);
        assert_eq!(value(&text, "shellyard_output_stored_limit_bytes"), 1000.0);
        assert_eq!(value(&text, "shellyard_retention_freed_jobs_total{reason=\"age\"}"), 1.0);
        assert_eq!(value(&text, "shellyard_output_bytes_total{stream=\"stderr\"}"), 10.0);
        assert_eq!(value(&text, "shellyard_http_refused_total{reason=\"origin\"}"), 1.0);
        assert_eq!(value(&text, "shellyard_pressure_ratio{resource=\"io\"}"), 0.61);
        assert_eq!(value(&text, "shellyard_pressure_limit_ratio{resource=\"io\"}"), 0.6);
        assert_eq!(value(&text, "shellyard_starts_held"), 1.0);
        let other = "mcp_server_operation_duration_seconds_count{mcp_method_name=\"tools/call\",class=\"ordinary\",gen_ai_tool_name=\"other\",error_type=\"tool_error\"}";
        assert_eq!(value(&text, other), 1.0);
    }

    #[test]
    fn an_operation_a_session_and_a_report_register_all_their_results_with_the_first() {
        let operations = "mcp_server_operation_duration_seconds_count";
        let sessions = "mcp_server_session_duration_seconds_count";
        let reports = "shellyard_job_reports_total";
        let idle = rendered_after(|| ());
        assert_eq!([operations, sessions, reports].map(|name| count(&idle, name)), [3, 0, 0]);
        let text = rendered_after(|| {
            for _ in 0..3 {
                events::operation_started("tools/list", None).finish(None);
                events::operation_started("tools/call", Some("read_output")).finish(None);
                std::mem::forget(events::session_opened(Transport::Http));
                events::tool_reported("cargo", false);
            }
        });
        assert_eq!([operations, sessions, reports].map(|name| count(&text, name)), [8, 1, 2]);
        for (labels, expected) in [
            ("{mcp_method_name=\"tools/list\",class=\"ordinary\"}", 3.0),
            ("{mcp_method_name=\"tools/list\",class=\"ordinary\",error_type=\"_OTHER\"}", 0.0),
            (
                "{mcp_method_name=\"tools/call\",class=\"ordinary\",gen_ai_tool_name=\"read_output\",error_type=\"tool_error\"}",
                0.0,
            ),
        ] {
            assert_eq!(value(&text, &format!("{operations}{labels}")), expected, "{labels}");
        }
        assert_eq!(value(&text, &format!("{sessions}{{transport=\"http\"}}")), 0.0);
        let failed = format!("{reports}{{tool=\"cargo\",result=\"failed\"}}");
        assert_eq!(value(&text, &failed), 0.0);
    }

    /// Counts the samples of a page.
    fn count_samples(text: &str) -> usize {
        text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count()
    }

    #[test]
    fn an_idle_server_has_few_series() {
        let text = rendered_after(|| {
            drop(QueueGauges::new(series_names(&["default", "build", "net"], &["local"])));
        });
        let samples = count_samples(&text);
        assert!(samples < 450, "{samples} samples: register the series of rare label values late");
    }

    #[test]
    fn the_counters_of_the_output_store_are_exported() {
        let dir = tempfile::tempdir().unwrap();
        let counters = Arc::new(Counters::default());
        let store_bytes = 10_000;
        let tenants = [].into();
        let limits = QuotaLimits { store_bytes, tenant_bytes: 100_000, tenants };
        let quota = Quota::new(limits, 1 << 20, Arc::clone(&counters));
        // The first log spills to a file, the second cannot, and the third finds the store full.
        let blocked = dir.path().join("file");
        std::fs::write(&blocked, "").unwrap();
        let written = [(dir.path(), 3000), (&blocked, 3000), (dir.path(), 50_000)];
        let logs = written.map(|(dir, bytes)| {
            let spill_dir = SpillDir::new(dir, Arc::clone(&counters));
            let bounds = LogBounds { keep: KeepOutput::All, quota: quota.tenant_quota("ci") };
            let mut log = open_bounded_log(&LogStorage { memory_bytes: 1000, spill_dir }, bounds);
            log.0.append(Stream::Stdout, &vec![b'x'; bytes]);
            log
        });
        let (recorder, exporter) = Exporter::build().unwrap();
        let exporter = exporter.with_output_counters(counters);
        let text =
            metrics::with_local_recorder(&recorder, || exporter.render().now_or_never().unwrap());
        for (series, expected) in [
            ("shellyard_output_stored_bytes{tier=\"disk\"}", 3000.0),
            ("shellyard_output_stored_bytes{tier=\"memory\"}", 1000.0),
            ("shellyard_output_stored_bytes{tier=\"compressed\"}", 0.0),
            ("shellyard_output_dropped_bytes_total{reason=\"store_full\"}", 50_000.0),
            ("shellyard_output_dropped_bytes_total{reason=\"io_error\"}", 2000.0),
            ("shellyard_spill_errors_total{operation=\"create\"}", 1.0),
            ("shellyard_output_compressed_bytes_total", 0.0),
            ("shellyard_read_memory_bytes", 0.0),
            ("shellyard_reads_refused_total", 0.0),
        ] {
            assert_eq!(value(&text, series), expected, "{series}");
        }
        drop(logs);
    }

    fn series_names(lanes: &[&str], tenants: &[&str]) -> SeriesNames {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        SeriesNames { lanes: owned(lanes), tenants: owned(tenants) }
    }

    /// A tenant with one running job out of at most four.
    fn tenant(name: &str) -> TenantStats {
        let running = UsageAndLimit { used: 1, limit: Some(4) };
        TenantStats { name: name.to_owned(), running, ..TenantStats::default() }
    }

    #[test]
    fn configured_names_are_there_at_zero_before_anything_happens() {
        let text = rendered_after(|| {
            let gauges = QueueGauges::new(series_names(&["default", "build"], &["local"]));
            gauges.add_names(series_names(&["build"], &["ci", "local"]));
        });
        for metric in catalogue() {
            let names: &[&str] = match metric.labels {
                MetricLabels::Closed(_)
                | MetricLabels::Operation
                | MetricLabels::Session
                | MetricLabels::Report => continue,
                MetricLabels::Lane => &["lane=\"build\"", "lane=\"default\"", "lane=\"other\""],
                MetricLabels::Tenant => &["tenant=\"ci\"", "tenant=\"local\"", "tenant=\"other\""],
            };
            assert_eq!(count(&text, metric.name), names.len(), "{metric:?}");
            for name in names {
                assert_eq!(value(&text, &format!("{}{{{name}}}", metric.name)), 0.0);
            }
        }
    }

    #[test]
    fn ten_thousand_tenants_and_lanes_add_no_series() {
        let lines = |text: &str| text.lines().count();
        let shown = |stats: QueueStats| {
            rendered_after(|| {
                let gauges = QueueGauges::new(series_names(&["build"], &["local", "ci"]));
                gauges.update(&stats);
            })
        };
        let names = || (0..10_000).map(|number| format!("n{number}"));
        let lane = |name| LaneStats { name, ..LaneStats::default() };
        let tenants = names().map(|name| tenant(&name)).chain([tenant("ci")]).collect();
        let lanes = names().map(lane).collect();
        let text = shown(QueueStats { tenants, lanes, ..QueueStats::default() });
        assert_eq!(lines(&text), lines(&shown(QueueStats::default())));
        let running = |tenant| format!("shellyard_tenant_jobs_running{{tenant=\"{tenant}\"}}");
        assert_eq!(value(&text, &running("other")), 10_000.0);
        assert_eq!(value(&text, &running("ci")), 1.0);
        assert_eq!(value(&text, "shellyard_tenant_jobs_running_limit{tenant=\"ci\"}"), 4.0);
        assert_eq!(value(&text, "shellyard_tenant_jobs_running_limit{tenant=\"other\"}"), 0.0);
    }

    #[test]
    fn names_without_stats_return_to_zero() {
        let text = rendered_after(|| {
            let gauges = QueueGauges::new(series_names(&[], &["ci"]));
            let waiting = [(WaitReason::Pressure, 3)].into();
            let oldest = Some(Duration::from_millis(1500));
            let tenants = vec![tenant("ci"), tenant("x")];
            gauges.update(&QueueStats { waiting, tenants, ..QueueStats::default() });
            gauges.update(&QueueStats { oldest, slots: 8, ..QueueStats::default() });
        });
        assert_eq!(value(&text, "shellyard_jobs_waiting{reason=\"pressure\"}"), 0.0);
        assert_eq!(value(&text, "shellyard_tenant_jobs_running{tenant=\"ci\"}"), 0.0);
        assert_eq!(value(&text, "shellyard_tenant_jobs_running{tenant=\"other\"}"), 0.0);
        assert_eq!(value(&text, "shellyard_queue_oldest_age_seconds"), 1.5);
        assert_eq!(value(&text, "shellyard_jobs_running_limit"), 8.0);
    }
}
