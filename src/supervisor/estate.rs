//! What outlives a supervisor's actor.

use super::actor::Supervision;
use super::control::Doors;
use super::queue::{Queue, QueueLimits};
use super::registry::Registry;
use super::retention::Retention;

/// What one supervisor hands on to the next. It has one owner at a time: the actor, then the
/// warden, then the next actor.
///
/// Only what cannot be in disorder is handed on: an actor fails in the middle of a change.
#[derive(Debug)]
pub(super) struct Estate {
    /// Who is known. Who of them has ended is to be seen again.
    pub(super) registry: Registry,
    /// Bounds and pauses, without any job.
    pub(super) queue: Queue,
    pub(super) doors: Doors,
}

impl Estate {
    /// What the first supervisor begins with.
    pub(super) fn new(queue: QueueLimits, retention: Retention) -> Self {
        Self { registry: Registry::new(retention), queue: Queue::new(queue), doors: Doors::Open }
    }
}

/// Runs when ractor lets go of the actor's state, also after a panic.
impl Drop for Supervision {
    fn drop(&mut self) {
        let estate = Estate {
            registry: self.registry.hand_on(),
            queue: self.queue.emptied(),
            doors: self.doors,
        };
        // Without a warden the whole program ends, and nobody inherits.
        self.heir.try_send(estate).ok();
    }
}
