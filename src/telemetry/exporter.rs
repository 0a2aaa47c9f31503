//! The Prometheus exporter, and the metrics that show a state instead of counting events: the resource
//! usage of this process and its disk, read at each scrape, and the gauges of the queue.
//!
//! Series exist from the start, at zero: if a label value appeared only with its first event, a rate
//! over it would miss that event. Families with many label values that most servers never use are the
//! exception: [`MetricLabels`] names the event that registers their series.
//!
//! The names of lanes and tenants are configured, so the program cannot list their series.
//! [`QueueGauges`] gets the configured names and registers series for them alone. All other names
//! are counted together as `other`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use metrics::{Key, KeyName, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use rustix::process::{Resource, getrlimit};
use thiserror::Error;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::labels::{OTHER, WaitReason, key};
use super::names::{
    Counter, Gauge, LabelSet, Metric, MetricKind, MetricLabels, catalogue, jobs, lanes,
    list_known_operations, output, process, queue, tenants,
};
use super::{events, logging};
use crate::ids::TenantId;
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
        update_process_metrics(disk_space);
        update_output_metrics(&self.output);
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

/// Sets the metrics of this process and its disk, for a scrape.
fn update_process_metrics(disk_space: Option<DiskSpace>) {
    events::update_actor_gauges();
    if let Some(stat) = read_stat() {
        process::CPU.unlabeled().absolute(from_ticks(stat.cpu).as_secs());
        process::THREADS.unlabeled().set(stat.threads as f64);
        process::VIRTUAL.unlabeled().set(stat.virtual_bytes as f64);
        process::RESIDENT.unlabeled().set(stat.resident_bytes() as f64);
    }
    if let Some(open) = count_open_fds() {
        process::OPEN_FDS.set_count(open);
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        process::MAX_FDS.unlabeled().set(limit as f64);
    }
    if let Some(space) = disk_space {
        output::DISK_FREE.unlabeled().set(space.free as f64);
        output::DISK_SIZE.unlabeled().set(space.size as f64);
    }
    process::LOG_DROPPED.unlabeled().absolute(logging::count_dropped_lines());
}

/// Sets the metrics of the output store to its current counters, for a scrape.
fn update_output_metrics(counters: &Counters) {
    for (tier, bytes) in counters.stored() {
        output::STORED.with_label((key::TIER, tier.word())).set(bytes as f64);
    }
    for (reason, bytes) in counters.dropped() {
        output::DROPPED.with_label((key::REASON, reason)).absolute(bytes);
    }
    for (operation, count) in counters.spill_errors() {
        output::SPILL_ERRORS.with_label((key::OPERATION, operation.word())).absolute(count);
    }
    output::COMPRESSED.unlabeled().absolute(counters.compressed());
    output::READ_MEMORY.unlabeled().set(counters.read_memory() as f64);
    output::READS_REFUSED.unlabeled().absolute(counters.reads_refused());
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
    if gauge == process::BUILD_INFO.metric() {
        1.0
    } else if gauge == process::START_TIME.metric() {
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        read_start_time().unwrap_or_else(now).as_secs_f64()
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

/// The fields of `/proc/self/stat` that the metrics need, in the kernel's units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SelfStat {
    /// CPU time in ticks, user and system, without children.
    cpu: u64,
    threads: u64,
    /// The start of the process in ticks since boot.
    started: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl SelfStat {
    fn resident_bytes(&self) -> u64 {
        self.resident_pages.saturating_mul(rustix::param::page_size() as u64)
    }
}

/// Returns the start time of this process since the Unix epoch.
fn read_start_time() -> Option<Duration> {
    let booted = parse_boot_time(&fs::read_to_string("/proc/stat").ok()?)?;
    Some(booted + from_ticks(read_stat()?.started))
}

/// Counts the open file descriptors, without the one that lists them.
fn count_open_fds() -> Option<usize> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

fn read_stat() -> Option<SelfStat> {
    parse_stat(&fs::read_to_string("/proc/self/stat").ok()?)
}

fn parse_stat(text: &str) -> Option<SelfStat> {
    // The program name in front may contain spaces and parentheses.
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // Numbered as in proc(5), where the state is field 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(SelfStat {
        cpu: field(14)?.saturating_add(field(15)?),
        threads: field(20)?,
        started: field(22)?,
        virtual_bytes: field(23)?,
        resident_pages: field(24)?,
    })
}

fn parse_boot_time(text: &str) -> Option<Duration> {
    let seconds = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?))
}

fn from_ticks(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / per_second))
}

// The free space of the disk that holds output.

/// The time that a disk gets to report its free space.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The size and the free space of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DiskSpace {
    /// Bytes that this process may still write.
    free: u64,
    size: u64,
}

/// Asks a disk for its free space at each scrape. A disk that does not answer blocks one thread and
/// delays a scrape by at most a second.
#[derive(Debug, Default)]
struct DiskProbe {
    is_running: Arc<AtomicBool>,
}

impl DiskProbe {
    /// Returns the space on the disk of `dir`; `None` if the disk does not answer in time, or an
    /// earlier probe still runs.
    async fn measure_space(&self, dir: &Arc<Path>) -> Option<DiskSpace> {
        if self.is_running.swap(true, Ordering::AcqRel) {
            return None;
        }
        let dir = Arc::clone(dir);
        let is_running = Arc::clone(&self.is_running);
        let probe = move || {
            let space = read_disk_space(&dir);
            is_running.store(false, Ordering::Release);
            space
        };
        timeout(PROBE_TIMEOUT, spawn_blocking(probe)).await.ok()?.ok()?
    }
}

/// Reads the space on the disk of `dir`; `None` if the system call fails.
fn read_disk_space(dir: &Path) -> Option<DiskSpace> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Some(DiskSpace { free: bytes(stat.f_bavail), size: bytes(stat.f_blocks) })
}

const LANE_GAUGES: [(Gauge, Gauge); 2] =
    [(lanes::RUNNING, lanes::RUNNING_LIMIT), (lanes::QUEUED, lanes::QUEUED_LIMIT)];

const TENANT_GAUGES: [(Gauge, Gauge); 4] = [
    (tenants::RUNNING, tenants::RUNNING_LIMIT),
    (tenants::QUEUED, tenants::QUEUED_LIMIT),
    (tenants::STORED, tenants::STORED_LIMIT),
    (tenants::CPU, tenants::CPU_LIMIT),
];

/// The counters by tenant. Events increment them.
const TENANT_COUNTERS: [Counter; 4] =
    [tenants::SUBMITTED, tenants::REJECTED, tenants::FINISHED, tenants::OUTPUT];

/// The used amount of something and its limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageAndLimit {
    pub used: u64,
    /// The limit; `None` = no limit.
    pub limit: Option<u64>,
}

/// The numbers of one lane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaneStats {
    pub name: String,
    pub running: UsageAndLimit,
    pub queued: UsageAndLimit,
    /// `true` if an operator has paused this lane.
    pub is_paused: bool,
}

/// The numbers of one tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantStats {
    pub name: String,
    pub running: UsageAndLimit,
    pub queued: UsageAndLimit,
    /// Bytes of stored output.
    pub stored: UsageAndLimit,
    /// CPU seconds of the last hour.
    pub cpu: UsageAndLimit,
}

/// The numbers of the queue at one moment. The totals of running and queued jobs and the pressure are
/// missing: events update those gauges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Jobs that may hold a slot at one time.
    pub slots: u64,
    /// Running jobs that hold a slot.
    pub busy: u64,
    /// Running jobs that hold no slot, because they do not use the machine.
    pub idle: u64,
    /// Jobs that may be queued.
    pub max_queued: u64,
    /// `true` if an operator has paused the queue.
    pub is_paused: bool,
    /// `true` if the server accepts no new jobs.
    pub is_draining: bool,
    /// Queued jobs by the reason why they wait.
    pub waiting: BTreeMap<WaitReason, u64>,
    /// The waiting time of the job that has waited longest.
    pub oldest: Option<Duration>,
    /// The estimated waiting time of a new job, if there is an estimate.
    pub estimate: Option<Duration>,
    pub lanes: Vec<LaneStats>,
    /// Every tenant that is configured, has a job or has stored output.
    pub tenants: Vec<TenantStats>,
}

/// The gauges of the queue, its lanes and its tenants.
///
/// Invariant: the name of each series was [added](QueueGauges::add_names), or is `other`. At most
/// `MAX_NAMES` of each kind are added.
#[derive(Debug)]
pub struct QueueGauges {
    names: SharedNames,
}

impl QueueGauges {
    /// Registers the series of these names, at zero, and makes events count tenants by them. Call it
    /// once, after the exporter is installed.
    #[must_use]
    pub fn install(names: SeriesNames) -> Self {
        let gauges = Self::new(names);
        // A process has one metrics recorder, and so one set of names: the first.
        EVENT_NAMES.set(Arc::clone(&gauges.names)).ok();
        gauges
    }

    /// Registers the series of these names, at zero.
    fn new(names: SeriesNames) -> Self {
        let gauges = Self { names: Arc::new(RwLock::new(SeriesNames::only_other())) };
        gauges.add_names(names);
        gauges
    }

    /// Registers the series of further names, at zero. Earlier names stay: Prometheus would treat a
    /// series that disappears like a server that is gone.
    pub fn add_names(&self, new: SeriesNames) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        names.add(new);
        update_named(&names, &[], &[]);
        for tenant in &names.tenants {
            for counter in TENANT_COUNTERS {
                // The increment by zero registers the series.
                counter.with_name(key::TENANT, tenant).increment(0);
            }
        }
    }

    pub fn update(&self, stats: &QueueStats) {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        update_totals(stats);
        update_named(&names, &stats.lanes, &stats.tenants);
    }
}

fn update_named(names: &SeriesNames, lanes: &[LaneStats], tenants: &[TenantStats]) {
    for name in &names.lanes {
        let is_paused = lanes.iter().any(|lane| lane.name == *name && lane.is_paused);
        let gauge = lanes::PAUSED.with_name(key::LANE, name);
        gauge.set(f64::from(u8::from(is_paused)));
    }
    let lanes = lanes.iter().map(|lane| (&*lane.name, [lane.running, lane.queued]));
    set_usage(key::LANE, LANE_GAUGES, fold_unknown(&names.lanes, lanes));
    let tenants = tenants.iter().map(|tenant| {
        let TenantStats { name, running, queued, stored, cpu } = tenant;
        (&**name, [*running, *queued, *stored, *cpu])
    });
    set_usage(key::TENANT, TENANT_GAUGES, fold_unknown(&names.tenants, tenants));
}

/// Returns the usage of each known name, and under `other` the sum over all other names. The sum has
/// no limit, since each of these names has its own.
fn fold_unknown<'n, const N: usize>(
    known: &BTreeSet<String>,
    stats: impl Iterator<Item = (&'n str, [UsageAndLimit; N])>,
) -> BTreeMap<&str, [UsageAndLimit; N]> {
    let nothing = [UsageAndLimit::default(); N];
    let mut usages_by_name: BTreeMap<&str, _> =
        known.iter().map(|name| (&**name, nothing)).collect();
    let mut others = nothing;
    for (name, usages) in stats {
        match usages_by_name.get_mut(name).filter(|_| name != OTHER) {
            Some(own) => *own = usages,
            None => {
                for (sum, usage) in others.iter_mut().zip(usages) {
                    sum.used = sum.used.saturating_add(usage.used);
                }
            }
        }
    }
    usages_by_name.insert(OTHER, others);
    usages_by_name
}

fn set_usage<const N: usize>(
    label: &'static str,
    gauges: [(Gauge, Gauge); N],
    usages_by_name: BTreeMap<&str, [UsageAndLimit; N]>,
) {
    for (name, usages) in usages_by_name {
        for ((used, limit), usage) in gauges.into_iter().zip(usages) {
            let set = |gauge: Gauge, value: u64| gauge.with_name(label, name).set(value as f64);
            set(used, usage.used);
            set(limit, usage.limit.unwrap_or(0));
        }
    }
}

fn update_totals(stats: &QueueStats) {
    jobs::RUNNING_LIMIT.unlabeled().set(stats.slots as f64);
    jobs::BUSY.unlabeled().set(stats.busy as f64);
    jobs::IDLE.unlabeled().set(stats.idle as f64);
    jobs::QUEUED_LIMIT.unlabeled().set(stats.max_queued as f64);
    queue::PAUSED.set_flag(stats.is_paused);
    queue::DRAINING.set_flag(stats.is_draining);
    for reason in WaitReason::ALL {
        let jobs = stats.waiting.get(&reason).copied().unwrap_or(0);
        let gauge = queue::WAITING.with_label((key::REASON, reason.word()));
        gauge.set(jobs as f64);
    }
    let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
    queue::OLDEST_AGE.unlabeled().set(seconds(stats.oldest));
    queue::WAIT_ESTIMATE.unlabeled().set(seconds(stats.estimate));
}

// The names of lanes and tenants that have their own series. Names from clients would create an
// unbounded number of series, so only configured names get one.

/// The number of names of each kind that get their own series; further names count as `other`.
const MAX_NAMES: usize = 200;

/// The lanes and tenants that have their own series.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeriesNames {
    pub lanes: BTreeSet<String>,
    pub tenants: BTreeSet<String>,
}

impl SeriesNames {
    /// Only the name `other`.
    fn only_other() -> Self {
        let other = || BTreeSet::from([OTHER.to_owned()]);
        Self { lanes: other(), tenants: other() }
    }

    /// Adds names, up to `MAX_NAMES` of each kind. Earlier names stay.
    fn add(&mut self, new: Self) {
        for (known, new) in [(&mut self.lanes, new.lanes), (&mut self.tenants, new.tenants)] {
            let free = (MAX_NAMES + 1).saturating_sub(known.len());
            let new: Vec<String> = new.into_iter().filter(|name| !known.contains(name)).collect();
            known.extend(new.into_iter().take(free));
        }
    }

    /// The label value under which a tenant is counted.
    fn tenant_label(&self, tenant: TenantId) -> &'static str {
        if self.tenants.contains(tenant.name()) { tenant.name() } else { OTHER }
    }
}

/// The names are read at every event and change with a reload.
type SharedNames = Arc<RwLock<SeriesNames>>;

/// The names that events use.
static EVENT_NAMES: OnceLock<SharedNames> = OnceLock::new();

/// The label value under which events count a tenant.
pub(super) fn tenant_label(tenant: TenantId) -> &'static str {
    EVENT_NAMES.get().map_or(OTHER, |names| {
        names.read().unwrap_or_else(PoisonError::into_inner).tenant_label(tenant)
    })
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::super::labels::{
        ActorKind, ErrorType, FreedReason, HostResource, HttpRefusalReason, RejectionReason,
        Transport, WaitReason,
    };
    use super::*;
    use crate::ids::JobId;
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
            events::job_submitted(JOB, &events::LoggedCommand::new("true"));
            let _still_running =
                std::mem::ManuallyDrop::new(events::job_started(JOB, Duration::ZERO, None));
            let job = events::job_started(JOB, Duration::from_millis(2), None);
            let usage =
                outcome::ResourceUsage { cpu: Duration::from_millis(30), max_rss_bytes: 5000 };
            let outcome = Outcome::Exited { code: 3 };
            job.finish(&JobEnding { usage, ..JobEnding::unmeasured(outcome) }, 100);
            drop(events::job_started(JOB, Duration::ZERO, None));
            events::job_ended_before_start(JOB, &Outcome::Stopped { by: StopBy::Client }, None);
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
            events::job_started(JOB, Duration::ZERO, None).finish(&JobEnding::unmeasured(lost), 7);
        });
        assert_eq!(value(&text, "shellyard_job_cpu_seconds_count"), 0.0);
        assert_eq!(value(&text, "shellyard_job_peak_memory_bytes_count"), 0.0);
        assert_eq!(value(&text, "shellyard_job_output_bytes_count"), 1.0);
    }

    #[test]
    fn a_stopping_job_leaves_the_gauge_however_it_ends() {
        let stopping = |leave: fn(events::ActiveJob)| {
            rendered_after(|| {
                let mut job = events::job_started(JOB, Duration::ZERO, None);
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
        fs::write(&blocked, "").unwrap();
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

    #[test]
    fn a_program_name_with_parentheses_is_parsed() {
        let text = "7 (a ) R (b) S 1 7 7 0 -1 4194560 9 0 0 0 30 12 500 600 20 0 5 0 99 4096 3 18";
        let stat =
            SelfStat { cpu: 42, threads: 5, started: 99, virtual_bytes: 4096, resident_pages: 3 };
        assert_eq!(parse_stat(text), Some(stat));
        assert_eq!(parse_stat("7 (a) S 1 7"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn the_boot_time_is_found_among_other_lines() {
        assert_eq!(
            parse_boot_time("cpu 1 2\nbtime 1700\nprocesses 3\n"),
            Some(Duration::from_secs(1700))
        );
        assert_eq!(parse_boot_time("cpu 1 2\n"), None);
    }

    #[test]
    fn this_process_has_a_usage() {
        let stat = read_stat().unwrap();
        assert!(stat.threads > 0 && stat.resident_pages > 0, "{stat:?}");
        assert!(stat.virtual_bytes >= stat.resident_bytes(), "{stat:?}");
        assert!(count_open_fds().is_some_and(|open| open > 0));
        assert!(
            read_start_time().is_some_and(|since_1970| since_1970 > Duration::from_secs(1 << 30))
        );
    }

    #[test]
    fn an_existing_directory_has_space_and_a_missing_one_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let space = read_disk_space(dir.path()).unwrap();
        assert!(space.size > 0 && space.free <= space.size, "{space:?}");
        assert_eq!(read_disk_space(&dir.path().join("missing")), None);
    }

    fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
        names.into_iter().map(str::to_owned).collect()
    }

    fn usage(used: u64, limit: u64) -> [UsageAndLimit; 1] {
        [UsageAndLimit { used, limit: Some(limit) }]
    }

    #[test]
    fn unknown_names_are_summed_without_a_limit() {
        let known = names(["a", "b", OTHER]);
        let stats = [("a", usage(1, 10)), ("c", usage(2, 10)), ("d", usage(3, 10))];
        let usages_by_name = fold_unknown(&known, stats.into_iter());
        let others = [UsageAndLimit { used: 5, limit: None }];
        let expected = [("a", usage(1, 10)), ("b", [UsageAndLimit::default()]), (OTHER, others)];
        assert_eq!(usages_by_name, BTreeMap::from(expected));
    }

    #[test]
    fn a_tenant_with_the_name_other_counts_as_other() {
        let stats = [(OTHER, usage(2, 10)), ("x", usage(1, 10))];
        let known = names([OTHER]);
        let usages_by_name = fold_unknown(&known, stats.into_iter());
        assert_eq!(
            usages_by_name,
            BTreeMap::from([(OTHER, [UsageAndLimit { used: 3, limit: None }])])
        );
    }

    #[test]
    fn reloads_cannot_exceed_the_bound_on_names() {
        let mut known = SeriesNames::only_other();
        for round in 0..10 {
            let tenants = (0..50).map(|number| format!("t{round}-{number}")).collect();
            known.add(SeriesNames { tenants, lanes: ["build".to_owned()].into() });
        }
        assert_eq!((known.tenants.len(), known.lanes.len()), (MAX_NAMES + 1, 2));
    }

    #[test]
    fn an_unconfigured_tenant_counts_as_other() {
        let mut known = SeriesNames::only_other();
        known.add(SeriesNames { tenants: ["ci".to_owned()].into(), lanes: BTreeSet::new() });
        let label = |name| known.tenant_label(TenantId::parse(name).unwrap());
        assert_eq!(["ci", "stranger", OTHER].map(label), ["ci", OTHER, OTHER]);
    }
}
