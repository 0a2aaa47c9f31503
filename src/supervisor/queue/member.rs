//! One tenant in the queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::estimate::Mean;
use super::line::Line;
use super::turn::Turn;
use crate::ids::JobId;

/// A tenant that has jobs in the queue, or had its share just now.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) turn: Turn,
    pub(super) running: usize,
    pub(super) waiting: usize,
    pub(super) lanes: BTreeMap<Arc<str>, Share>,
}

/// What a tenant has in one lane.
#[derive(Debug, Default)]
pub(super) struct Share {
    pub(super) line: Line,
    pub(super) running: BTreeSet<JobId>,
    /// How long its jobs ran.
    pub(super) ran: Mean,
}

impl Member {
    pub(super) const fn new() -> Self {
        Self { turn: Turn::UNSERVED, running: 0, waiting: 0, lanes: BTreeMap::new() }
    }

    pub(super) const fn is_idle(&self) -> bool {
        self.running == 0 && self.waiting == 0
    }

    /// The lanes in which it waits.
    pub(super) fn lanes_with_line(&self) -> impl Iterator<Item = &Arc<str>> {
        self.lanes.iter().filter(|(_, share)| !share.line.is_empty()).map(|(name, _)| name)
    }
}
