//! The bounds of the queue, lanes and tenants, from settings: at start, and again at a reload.

use std::num::NonZeroU32;
use std::thread::available_parallelism;
use std::time::Duration;

use super::error::AppError;
use crate::config::{QuotaSettings, Settings, TenantSettings};
use crate::ids::Tenant;
use crate::yard::{LaneLimits, QueueLimits, TenantLimits};

/// The bounds that these settings ask for.
pub(super) fn queue_limits(settings: &Settings) -> Result<QueueLimits, AppError> {
    let queue = &settings.queue;
    let cores = available_parallelism().map_or(1, usize::from);
    let lanes = queue.lanes.iter().map(|(name, lane)| {
        (name.clone(), LaneLimits { slots: lane.slots, max_queued: lane.max_queued })
    });
    let quota = quota(&settings.quota);
    let tenants = settings.tenants.iter();
    let tenants = tenants.map(|(name, own)| Ok((Tenant::named(name)?, tenant(own, &quota))));
    Ok(QueueLimits {
        slots: queue.slots_for(cores),
        max_queued: queue.max_queued,
        lanes: lanes.collect(),
        quota,
        tenants: tenants.collect::<Result<_, AppError>>()?,
    })
}

fn quota(quota: &QuotaSettings) -> TenantLimits {
    TenantLimits {
        weight: NonZeroU32::MIN,
        max_running: quota.max_running.and_then(jobs),
        max_queued: quota.max_queued.and_then(jobs),
        starts_per_minute: quota.starts_per_minute.and_then(starts),
        cpu_per_hour: quota.cpu_s_per_hour.and_then(cpu),
    }
}

/// What the tenant's own section does not say is as for every tenant.
fn tenant(own: &TenantSettings, quota: &TenantLimits) -> TenantLimits {
    TenantLimits {
        weight: own.weight.and_then(NonZeroU32::new).unwrap_or(quota.weight),
        max_running: own.max_running.map_or(quota.max_running, jobs),
        max_queued: own.max_queued.map_or(quota.max_queued, jobs),
        starts_per_minute: own.starts_per_minute.map_or(quota.starts_per_minute, starts),
        cpu_per_hour: own.cpu_s_per_hour.map_or(quota.cpu_per_hour, cpu),
    }
}

/// Each: 0 = no bound.
fn jobs(most: u64) -> Option<usize> {
    (most > 0).then(|| usize::try_from(most).unwrap_or(usize::MAX))
}

fn starts(most: u64) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(most).unwrap_or(u32::MAX))
}

fn cpu(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LimitSettings, OwnConfinement};

    const NONE: TenantSettings = TenantSettings {
        weight: None,
        max_running: None,
        max_queued: None,
        starts_per_minute: None,
        cpu_s_per_hour: None,
        max_stored: None,
        environment: Vec::new(),
        confining: OwnConfinement {
            confinement: None,
            network: None,
            limits: LimitSettings {
                memory: None,
                cpu_s: None,
                processes: None,
                open_files: None,
                file_size: None,
                nice: None,
            },
        },
    };

    #[test]
    fn a_tenant_has_what_it_says_and_else_what_everybody_has() {
        let everybody = quota(&QuotaSettings {
            max_running: Some(4),
            max_queued: Some(10),
            starts_per_minute: Some(60),
            cpu_s_per_hour: None,
        });
        assert_eq!(tenant(&NONE, &everybody), everybody);
        let own = TenantSettings {
            weight: Some(3),
            max_queued: Some(0),
            starts_per_minute: Some(5),
            cpu_s_per_hour: Some(7),
            ..NONE
        };
        let expected = TenantLimits {
            weight: NonZeroU32::new(3).unwrap(),
            max_running: Some(4),
            max_queued: None,
            starts_per_minute: NonZeroU32::new(5),
            cpu_per_hour: Some(Duration::from_secs(7)),
        };
        assert_eq!(tenant(&own, &everybody), expected);
    }
}
