//! What the queue looks like in numbers, for whoever counts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::queue::{LaneOverview, QueueOverview, TenantOverview};
use crate::ids::Tenant;
use crate::output::Stored;
use crate::telemetry::{LaneFigures, QueueFigures, TenantFigures, Usage};

/// The lanes, the tenants, and what those who wait are waiting for.
pub(super) fn of(
    overview: QueueOverview,
    stored: BTreeMap<String, Stored>,
    oldest: Option<Duration>,
) -> QueueFigures {
    let waiting = overview.waiting.into_iter();
    QueueFigures {
        slots: overview.slots as u64,
        max_queued: overview.max_queued as u64,
        is_paused: overview.paused,
        waiting: waiting.map(|(reason, jobs)| (reason, jobs as u64)).collect(),
        oldest,
        estimate: overview.estimate,
        lanes: overview.lanes.into_iter().map(lane).collect(),
        tenants: tenants(overview.tenants, stored),
    }
}

fn lane((name, lane): (String, LaneOverview)) -> LaneFigures {
    LaneFigures {
        name,
        running: usage(lane.running, lane.limits.slots),
        queued: usage(lane.queued, lane.limits.max_queued),
    }
}

/// Everybody who has a job, stores something, or is configured.
fn tenants(
    queue: BTreeMap<Tenant, TenantOverview>,
    stored: BTreeMap<String, Stored>,
) -> Vec<TenantFigures> {
    let mut tenants: BTreeMap<String, TenantFigures> = queue.into_iter().map(tenant).collect();
    for (name, Stored { used, limit }) in stored {
        let known = TenantFigures { name: name.clone(), ..TenantFigures::default() };
        tenants.entry(name).or_insert(known).stored = Usage { used, limit: Some(limit) };
    }
    tenants.into_values().collect()
}

fn tenant((tenant, own): (Tenant, TenantOverview)) -> (String, TenantFigures) {
    let name = tenant.name().to_owned();
    let seconds = |time: Duration| time.as_secs();
    let figures = TenantFigures {
        name: name.clone(),
        running: usage(own.running, own.limits.max_running),
        queued: usage(own.queued, own.limits.max_queued),
        cpu: Usage { used: seconds(own.cpu_used), limit: own.limits.cpu_per_hour.map(seconds) },
        stored: Usage::default(),
    };
    (name, figures)
}

fn usage(used: usize, limit: Option<usize>) -> Usage {
    Usage { used: used as u64, limit: limit.map(|limit| limit as u64) }
}

#[cfg(test)]
mod tests {
    use super::super::queue::{LaneLimits, TenantLimits};
    use super::*;
    use crate::telemetry::WaitReason;

    #[test]
    fn lanes_tenants_and_reasons_are_counted() {
        let build = LaneOverview {
            running: 1,
            queued: 2,
            limits: LaneLimits { slots: Some(1), max_queued: None },
            paused: false,
        };
        let ci = TenantOverview {
            running: 1,
            queued: 2,
            limits: TenantLimits { max_running: Some(4), ..TenantLimits::default() },
            cpu_used: Duration::from_secs(7),
        };
        let overview = QueueOverview {
            slots: 2,
            waiting: BTreeMap::from([(WaitReason::Lane, 2)]),
            lanes: BTreeMap::from([("build".to_owned(), build)]),
            tenants: BTreeMap::from([(Tenant::named("figures-ci").unwrap(), ci)]),
            ..QueueOverview::default()
        };
        let stored = |used| Stored { used, limit: 50 };
        let stored =
            BTreeMap::from([("figures-ci".to_owned(), stored(9)), ("local".to_owned(), stored(0))]);
        let figures = of(overview, stored, None);
        assert_eq!((figures.slots, figures.waiting), (2, [(WaitReason::Lane, 2)].into()));
        let lane = &figures.lanes[0];
        assert_eq!((lane.running, lane.queued), (usage(1, Some(1)), usage(2, None)));
        let [ci, local] = &figures.tenants[..] else { panic!("two tenants") };
        assert_eq!((ci.running, ci.cpu), (usage(1, Some(4)), usage(7, None)));
        assert_eq!((ci.stored.used, local.stored.limit), (9, Some(50)));
    }
}
