//! Who starts next: slots, lanes, and first come first served. Pure: no clock, no actors.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::JobId;

/// The bounds of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLimits {
    /// Jobs that may run at once.
    pub slots: usize,
    /// Jobs that may wait.
    pub max_queued: usize,
    /// Lanes, each with the number of its jobs that may run at once.
    pub lanes: BTreeMap<String, usize>,
}

/// Where a waiting job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePlace {
    /// 1 is next.
    pub position: usize,
    /// How many wait.
    pub length: usize,
    /// What it waits for, in words: "8/8 slots busy".
    pub waits_for: String,
}

/// The waiting line and what is taken.
///
/// Invariant: `running` holds exactly the jobs that were given out by [`Queue::next`] and not
/// yet released; it never has more than `limits.slots` entries, nor more of one lane than that
/// lane allows.
#[derive(Debug)]
pub(super) struct Queue {
    limits: QueueLimits,
    waiting: VecDeque<(JobId, String)>,
    running: BTreeMap<JobId, String>,
}

/// The line is as long as it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl Queue {
    pub(super) const fn new(limits: QueueLimits) -> Self {
        Self { limits, waiting: VecDeque::new(), running: BTreeMap::new() }
    }

    pub(super) const fn limits(&self) -> &QueueLimits {
        &self.limits
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Puts a job at the end of the line. A job that could start at once is never refused.
    pub(super) fn push(&mut self, id: JobId, lane: &str) -> Result<(), Full> {
        let would_wait = !self.has_room(lane) || !self.waiting.is_empty();
        if would_wait && self.waiting.len() >= self.limits.max_queued {
            return Err(Full);
        }
        self.waiting.push_back((id, lane.to_owned()));
        Ok(())
    }

    /// The first job in line that has a slot and room in its lane; it now runs.
    pub(super) fn next(&mut self) -> Option<JobId> {
        let at = self.waiting.iter().position(|(_, lane)| self.has_room(lane))?;
        let (id, lane) = self.waiting.remove(at)?;
        self.running.insert(id, lane);
        Some(id)
    }

    /// The job has ended: its slot is free.
    pub(super) fn release(&mut self, id: JobId) {
        self.running.remove(&id);
    }

    /// Takes a job out of the line; false when it was not in it.
    pub(super) fn withdraw(&mut self, id: JobId) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(waiting, _)| *waiting != id);
        self.waiting.len() < before
    }

    /// Where a waiting job stands.
    pub(super) fn place(&self, id: JobId) -> Option<QueuePlace> {
        let index = self.waiting.iter().position(|(waiting, _)| *waiting == id)?;
        let waits_for = self.waits_for(&self.waiting[index].1);
        Some(QueuePlace { position: index + 1, length: self.waiting.len(), waits_for })
    }

    fn waits_for(&self, lane: &str) -> String {
        let slots = self.limits.slots;
        match self.limits.lanes.get(lane) {
            Some(limit) if self.running.len() < slots => {
                format!("lane {lane}: {}/{limit} busy", self.running_in(lane))
            }
            Some(_) | None => format!("{}/{slots} slots busy", self.running.len()),
        }
    }

    fn has_room(&self, lane: &str) -> bool {
        self.running.len() < self.limits.slots
            && self.limits.lanes.get(lane).is_none_or(|limit| self.running_in(lane) < *limit)
    }

    fn running_in(&self, lane: &str) -> usize {
        self.running.values().filter(|running| *running == lane).count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn queue(slots: usize, max_queued: usize) -> Queue {
        let lanes = BTreeMap::from([("build".to_owned(), 1)]);
        Queue::new(QueueLimits { slots, max_queued, lanes })
    }

    fn id(number: u64) -> JobId {
        JobId::local(number)
    }

    #[test]
    fn jobs_start_in_the_order_in_which_they_came() {
        let mut queue = queue(2, 10);
        for number in 1..=4 {
            queue.push(id(number), "default").unwrap();
        }
        assert_eq!((queue.next(), queue.next(), queue.next()), (Some(id(1)), Some(id(2)), None));
        queue.release(id(1));
        assert_eq!(queue.next(), Some(id(3)));
    }

    #[test]
    fn a_full_lane_lets_others_pass() {
        let mut queue = queue(3, 10);
        for (number, lane) in [(1, "build"), (2, "build"), (3, "default")] {
            queue.push(id(number), lane).unwrap();
        }
        assert_eq!((queue.next(), queue.next(), queue.next()), (Some(id(1)), Some(id(3)), None));
        assert_eq!(
            queue.place(id(2)),
            Some(QueuePlace { position: 1, length: 1, waits_for: "lane build: 1/1 busy".into() })
        );
    }

    #[test]
    fn a_place_names_position_length_and_what_is_waited_for() {
        let mut queue = queue(1, 10);
        for number in 1..=3 {
            queue.push(id(number), "default").unwrap();
        }
        queue.next();
        assert_eq!(
            queue.place(id(3)),
            Some(QueuePlace { position: 2, length: 2, waits_for: "1/1 slots busy".into() })
        );
        assert_eq!(queue.place(id(1)), None);
    }

    #[test]
    fn the_bound_counts_those_who_wait_and_not_those_who_can_start() {
        let mut queue = queue(1, 1);
        queue.push(id(1), "default").unwrap();
        queue.next();
        queue.push(id(2), "default").unwrap();
        assert_eq!(queue.push(id(3), "default"), Err(Full));
        assert!(queue.withdraw(id(2)));
        assert!(!queue.withdraw(id(2)));
        queue.push(id(4), "default").unwrap();
    }

    proptest! {
        #[test]
        fn bounds_hold_and_nobody_is_lost(
            steps in prop::collection::vec((0u8..3, prop::bool::ANY), 0..200),
            slots in 1usize..5,
        ) {
            let mut queue = queue(slots, 20);
            let (mut accepted, mut started, mut ended) = (Vec::new(), Vec::new(), 0usize);
            for (number, (step, build)) in steps.into_iter().enumerate() {
                let lane = if build { "build" } else { "default" };
                match step {
                    0 => {
                        let id = id(number as u64 + 1);
                        if queue.push(id, lane).is_ok() {
                            accepted.push(id);
                        }
                    }
                    1 => started.extend(queue.next()),
                    _ => {
                        if let Some(id) = started.get(ended) {
                            queue.release(*id);
                            ended += 1;
                        }
                    }
                }
                prop_assert!(queue.running.len() <= slots);
                prop_assert!(queue.running_in("build") <= 1);
                prop_assert!(queue.waiting() <= 20);
                prop_assert_eq!(accepted.len(), queue.waiting() + started.len());
            }
        }
    }
}
