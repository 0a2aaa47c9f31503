//! One lane, over all tenants.

use std::collections::BTreeSet;

use super::limits::LaneLimits;
use super::turn::Turn;
use crate::ids::Tenant;

#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) limits: LaneLimits,
    pub(super) flow: Flow,
    pub(super) running: usize,
    pub(super) waiting: usize,
    /// Invariant: holds exactly the tenants that have a job waiting here and may run one more, by
    /// their turns.
    pub(super) ready: BTreeSet<(Turn, Tenant)>,
}

/// Whether jobs start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Flow {
    #[default]
    Open,
    Paused,
}

impl Lane {
    pub(super) fn is_full(&self) -> bool {
        self.limits.slots.is_some_and(|slots| self.running >= slots)
    }

    /// Whether a job of it may start, as far as the lane is concerned.
    pub(super) fn has_room(&self) -> bool {
        match self.flow {
            Flow::Open => !self.is_full(),
            Flow::Paused => false,
        }
    }

    /// Whose turn it is among those that could start here.
    pub(super) fn first_ready(&self) -> Option<(Turn, Tenant)> {
        self.ready.first().copied()
    }

    pub(super) const fn is_unused(&self) -> bool {
        self.running == 0 && self.waiting == 0
    }
}
