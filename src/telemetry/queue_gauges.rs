//! What the queue knows of itself, as gauges.
//!
//! Lanes and tenants have names of their own, so their series cannot be listed in the program.
//! [`QueueGauges`] is told those that are configured, and makes series for them alone: whatever
//! other names turn up are counted together as `other`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use super::labels::{OTHER, WaitReason, key};
use super::names::{Counter, Gauge, jobs, lanes, queue, tenants};
use crate::ids::TenantId;

const LANES: [(Gauge, Gauge); 2] =
    [(lanes::RUNNING, lanes::RUNNING_LIMIT), (lanes::QUEUED, lanes::QUEUED_LIMIT)];

const TENANTS: [(Gauge, Gauge); 4] = [
    (tenants::RUNNING, tenants::RUNNING_LIMIT),
    (tenants::QUEUED, tenants::QUEUED_LIMIT),
    (tenants::STORED, tenants::STORED_LIMIT),
    (tenants::CPU, tenants::CPU_LIMIT),
];

/// What tenants did, which events count.
const DEEDS: [Counter; 4] =
    [tenants::SUBMITTED, tenants::REJECTED, tenants::FINISHED, tenants::OUTPUT];

/// How much of something there is, and how much there may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageGauge {
    /// How much there is.
    pub used: u64,
    /// How much there may be; `None` = no bound.
    pub limit: Option<u64>,
}

/// What is going on in one lane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaneStats {
    /// Its name.
    pub name: String,
    /// Jobs that run.
    pub running: UsageGauge,
    /// Jobs that wait.
    pub queued: UsageGauge,
    /// Whether somebody has paused it by itself.
    pub is_paused: bool,
}

/// What one tenant uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantStats {
    /// Its name.
    pub name: String,
    /// Jobs that run.
    pub running: UsageGauge,
    /// Jobs that wait.
    pub queued: UsageGauge,
    /// Bytes of output that are held.
    pub stored: UsageGauge,
    /// Seconds of CPU time in the last hour.
    pub cpu: UsageGauge,
}

/// What is going on in the queue at one moment. How much runs and waits in all is counted as it
/// happens, and so is pressure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Jobs that may run at one time.
    pub slots: u64,
    /// Jobs that may wait.
    pub max_queued: u64,
    /// Whether somebody has paused the queue.
    pub is_paused: bool,
    /// Whether no new jobs are taken.
    pub is_draining: bool,
    /// Jobs that wait, by what they wait for.
    pub waiting: BTreeMap<WaitReason, u64>,
    /// How long the job that waits longest has waited.
    pub oldest: Option<Duration>,
    /// How long a new job would wait, where that can be told.
    pub estimate: Option<Duration>,
    /// Every lane.
    pub lanes: Vec<LaneStats>,
    /// Every tenant that has a job, stores something, or is configured.
    pub tenants: Vec<TenantStats>,
}

/// The gauges of the queue, its lanes and its tenants.
///
/// Invariant: each series has a name that was [made known](QueueGauges::add_names), of which there are
/// only so many of each kind, or stands for all `other`s.
#[derive(Debug)]
pub struct QueueGauges {
    names: SharedNames,
}

impl QueueGauges {
    /// Makes the series of these names, at zero, and has events count tenants by them. Call once;
    /// the exporter has to be installed by then.
    #[must_use]
    pub fn install(names: SeriesNames) -> Self {
        let gauges = Self::new(names);
        use_for_events(&gauges.names);
        gauges
    }

    /// Makes the series of these names, at zero.
    pub(super) fn new(names: SeriesNames) -> Self {
        let gauges = Self { names: Arc::new(RwLock::new(SeriesNames::others())) };
        gauges.add_names(names);
        gauges
    }

    /// Makes the series of further names, at zero. Those that are known stay: Prometheus takes a
    /// series that vanishes for a server that is gone.
    pub fn add_names(&self, new: SeriesNames) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        names.add(new);
        show_named(&names, &[], &[]);
        for tenant in &names.tenants {
            for deed in DEEDS {
                // Nothing was done; but from now on the series is there.
                deed.with_name(key::TENANT, tenant).increment(0);
            }
        }
    }

    /// Sets every gauge.
    pub fn update(&self, figures: &QueueStats) {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        show_whole(figures);
        show_named(&names, &figures.lanes, &figures.tenants);
    }
}

fn show_named(names: &SeriesNames, lanes: &[LaneStats], tenants: &[TenantStats]) {
    for name in &names.lanes {
        let is_paused = lanes.iter().any(|lane| lane.name == *name && lane.is_paused);
        let gauge = lanes::PAUSED.with_name(key::LANE, name);
        gauge.set(f64::from(u8::from(is_paused)));
    }
    let lanes = lanes.iter().map(|lane| (&*lane.name, [lane.running, lane.queued]));
    show_each(key::LANE, LANES, folded(&names.lanes, lanes));
    let tenants = tenants.iter().map(|tenant| {
        let TenantStats { name, running, queued, stored, cpu } = tenant;
        (&**name, [*running, *queued, *stored, *cpu])
    });
    show_each(key::TENANT, TENANTS, folded(&names.tenants, tenants));
}

/// The figures under the names that are known. What belongs to others is added up, and has no
/// limit: each of them has its own.
fn folded<'n, const N: usize>(
    known: &BTreeSet<String>,
    figures: impl Iterator<Item = (&'n str, [UsageGauge; N])>,
) -> BTreeMap<&str, [UsageGauge; N]> {
    let nothing = [UsageGauge::default(); N];
    let mut shown: BTreeMap<&str, _> = known.iter().map(|name| (&**name, nothing)).collect();
    let mut others = nothing;
    for (name, usages) in figures {
        match shown.get_mut(name).filter(|_| name != OTHER) {
            Some(own) => *own = usages,
            None => {
                for (sum, usage) in others.iter_mut().zip(usages) {
                    sum.used = sum.used.saturating_add(usage.used);
                }
            }
        }
    }
    shown.insert(OTHER, others);
    shown
}

fn show_each<const N: usize>(
    label: &'static str,
    gauges: [(Gauge, Gauge); N],
    shown: BTreeMap<&str, [UsageGauge; N]>,
) {
    for (name, usages) in shown {
        for ((used, limit), usage) in gauges.into_iter().zip(usages) {
            let set = |gauge: Gauge, value: u64| gauge.with_name(label, name).set(value as f64);
            set(used, usage.used);
            set(limit, usage.limit.unwrap_or(0));
        }
    }
}

fn show_whole(figures: &QueueStats) {
    jobs::RUNNING_LIMIT.unlabeled().set(figures.slots as f64);
    jobs::QUEUED_LIMIT.unlabeled().set(figures.max_queued as f64);
    queue::PAUSED.set_flag(figures.is_paused);
    queue::DRAINING.set_flag(figures.is_draining);
    for reason in WaitReason::ALL {
        let jobs = figures.waiting.get(&reason).copied().unwrap_or(0);
        let gauge = queue::WAITING.with_label((key::REASON, reason.word()));
        gauge.set(jobs as f64);
    }
    let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
    queue::OLDEST_AGE.unlabeled().set(seconds(figures.oldest));
    queue::WAIT_ESTIMATE.unlabeled().set(seconds(figures.estimate));
}

// Lanes and tenants that metrics name; all others count as `other`.
//
// Series of names that come from outside would have no bound. Those that are configured have.

/// Names of one kind that get series of their own; the rest count as `other`.
const MAX_NAMES: usize = 200;

/// Names that get series of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeriesNames {
    /// Of lanes.
    pub lanes: BTreeSet<String>,
    /// Of tenants.
    pub tenants: BTreeSet<String>,
}

impl SeriesNames {
    /// Nobody but the others.
    pub(super) fn others() -> Self {
        let others = || BTreeSet::from([OTHER.to_owned()]);
        Self { lanes: others(), tenants: others() }
    }

    /// Takes further names in, as long as there are not too many. Those that are known stay.
    pub(super) fn add(&mut self, new: Self) {
        for (known, new) in [(&mut self.lanes, new.lanes), (&mut self.tenants, new.tenants)] {
            let free = (MAX_NAMES + 1).saturating_sub(known.len());
            let new: Vec<String> = new.into_iter().filter(|name| !known.contains(name)).collect();
            known.extend(new.into_iter().take(free));
        }
    }

    /// What a tenant is counted as.
    pub(super) fn label_of(&self, tenant: TenantId) -> &'static str {
        if self.tenants.contains(tenant.name()) { tenant.name() } else { OTHER }
    }
}

/// Names that are read at every event and change with a reload.
pub(super) type SharedNames = Arc<RwLock<SeriesNames>>;

/// Those that events count by. There is one recorder in a process, and so there is one of these.
static OF_EVENTS: OnceLock<SharedNames> = OnceLock::new();

/// From now on events count tenants by these names. The first ones stay.
pub(super) fn use_for_events(names: &SharedNames) {
    OF_EVENTS.set(Arc::clone(names)).ok();
}

/// What events count a tenant as.
pub(super) fn label_of(tenant: TenantId) -> &'static str {
    OF_EVENTS.get().map_or(OTHER, |names| {
        names.read().unwrap_or_else(PoisonError::into_inner).label_of(tenant)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
        names.into_iter().map(str::to_owned).collect()
    }

    fn usage(used: u64, limit: u64) -> [UsageGauge; 1] {
        [UsageGauge { used, limit: Some(limit) }]
    }

    #[test]
    fn whoever_is_not_known_is_added_up_without_a_limit() {
        let known = names(["a", "b", OTHER]);
        let figures = [("a", usage(1, 10)), ("c", usage(2, 10)), ("d", usage(3, 10))];
        let shown = folded(&known, figures.into_iter());
        let others = [UsageGauge { used: 5, limit: None }];
        let expected = [("a", usage(1, 10)), ("b", [UsageGauge::default()]), (OTHER, others)];
        assert_eq!(shown, BTreeMap::from(expected));
    }

    #[test]
    fn a_tenant_that_is_called_other_is_one_of_them() {
        let figures = [(OTHER, usage(2, 10)), ("x", usage(1, 10))];
        let known = names([OTHER]);
        let shown = folded(&known, figures.into_iter());
        assert_eq!(shown, BTreeMap::from([(OTHER, [UsageGauge { used: 3, limit: None }])]));
    }
}

#[cfg(test)]
mod known_tests {
    use super::*;

    #[test]
    fn names_have_a_bound_that_reloads_cannot_pass() {
        let mut known = SeriesNames::others();
        for round in 0..10 {
            let tenants = (0..50).map(|number| format!("t{round}-{number}")).collect();
            known.add(SeriesNames { tenants, lanes: ["build".to_owned()].into() });
        }
        assert_eq!((known.tenants.len(), known.lanes.len()), (MAX_NAMES + 1, 2));
    }

    #[test]
    fn whoever_is_not_configured_is_one_of_the_others() {
        let mut known = SeriesNames::others();
        known.add(SeriesNames { tenants: ["ci".to_owned()].into(), lanes: BTreeSet::new() });
        let label = |name| known.label_of(TenantId::parse(name).unwrap());
        assert_eq!(["ci", "stranger", OTHER].map(label), ["ci", OTHER, OTHER]);
    }
}
