//! Figures of the queue for metrics.

use std::time::Duration;

use super::queue::{LaneOverview, QueueOverview, TenantOverview};
use crate::ids::TenantId;
use crate::telemetry::{LaneStats, QueueStats, TenantStats, UsageAndLimit};

/// Returns the figures of lanes and tenants, and the reasons why jobs wait.
pub(super) fn collect_queue_stats(overview: QueueOverview, oldest: Option<Duration>) -> QueueStats {
    let waiting = overview.waiting.into_iter();
    QueueStats {
        slots: overview.slots as u64,
        busy: overview.running as u64,
        idle: overview.idle as u64,
        max_queued: overview.max_queued as u64,
        is_paused: overview.paused,
        is_draining: overview.draining,
        waiting: waiting.map(|(reason, jobs)| (reason, jobs as u64)).collect(),
        oldest,
        estimate: overview.estimate,
        lanes: overview.lanes.into_iter().map(to_lane_stats).collect(),
        tenants: overview.tenants.into_iter().map(to_tenant_stats).collect(),
    }
}

fn to_lane_stats((name, lane): (String, LaneOverview)) -> LaneStats {
    LaneStats {
        name,
        running: to_usage(lane.running + lane.idle, lane.limits.slots),
        queued: to_usage(lane.queued, lane.limits.max_queued),
        is_paused: lane.paused,
    }
}

fn to_tenant_stats((tenant, own): (TenantId, TenantOverview)) -> TenantStats {
    let seconds = |time: Duration| time.as_secs();
    TenantStats {
        name: tenant.name().to_owned(),
        running: to_usage(own.running + own.idle, own.limits.max_running),
        queued: to_usage(own.queued, own.limits.max_queued),
        cpu: UsageAndLimit {
            used: seconds(own.cpu_used),
            limit: own.limits.cpu_per_hour.map(seconds),
        },
        stored: UsageAndLimit { used: own.stored_bytes, limit: Some(own.max_stored) },
    }
}

fn to_usage(used: usize, limit: Option<usize>) -> UsageAndLimit {
    UsageAndLimit { used: used as u64, limit: limit.map(|limit| limit as u64) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::queue::{LaneLimits, TenantLimits};
    use super::*;
    use crate::telemetry::WaitReason;

    #[test]
    fn lanes_tenants_and_reasons_are_counted() {
        let build = LaneOverview {
            running: 1,
            idle: 0,
            queued: 2,
            limits: LaneLimits { slots: Some(1), max_queued: None },
            paused: true,
        };
        let ci = TenantOverview {
            running: 1,
            idle: 0,
            queued: 2,
            limits: TenantLimits { max_running: Some(4), ..TenantLimits::default() },
            cpu_used: Duration::from_secs(7),
            stored_bytes: 9,
            max_stored: 50,
        };
        let overview = QueueOverview {
            slots: 2,
            draining: true,
            waiting: BTreeMap::from([(WaitReason::Lane, 2)]),
            lanes: BTreeMap::from([("build".to_owned(), build)]),
            tenants: BTreeMap::from([(TenantId::parse("figures-ci").unwrap(), ci)]),
            ..QueueOverview::default()
        };
        let figures = collect_queue_stats(overview, None);
        assert!(figures.is_draining && !figures.is_paused);
        assert_eq!((figures.slots, figures.waiting), (2, [(WaitReason::Lane, 2)].into()));
        let lane = &figures.lanes[0];
        assert_eq!((lane.running, lane.queued), (to_usage(1, Some(1)), to_usage(2, None)));
        assert!(lane.is_paused);
        let [ci] = &figures.tenants[..] else { panic!("one tenant") };
        assert_eq!((ci.running, ci.cpu), (to_usage(1, Some(4)), to_usage(7, None)));
        assert_eq!(ci.stored, to_usage(9, Some(50)));
    }
}
