//! Gauges of the queue, its lanes and its tenants.
//!
//! The names of lanes and tenants are configured, so the program cannot list their series.
//! [`QueueGauges`] gets the configured names and registers series for them alone. All other names
//! are counted together as `other`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use super::labels::{OTHER, WaitReason, key};
use super::names::{Counter, Gauge, jobs, lanes, queue, tenants};
use crate::ids::TenantId;

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
        use_for_events(&gauges.names);
        gauges
    }

    /// Registers the series of these names, at zero.
    pub(super) fn new(names: SeriesNames) -> Self {
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

/// The names that events use. A process has one metrics recorder, and so one set of names.
static EVENT_NAMES: OnceLock<SharedNames> = OnceLock::new();

/// Makes events count tenants by these names. Only the first call has an effect.
fn use_for_events(names: &SharedNames) {
    EVENT_NAMES.set(Arc::clone(names)).ok();
}

/// The label value under which events count a tenant.
pub(super) fn tenant_label(tenant: TenantId) -> &'static str {
    EVENT_NAMES.get().map_or(OTHER, |names| {
        names.read().unwrap_or_else(PoisonError::into_inner).tenant_label(tenant)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

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
}

#[cfg(test)]
mod names_tests {
    use super::*;

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
