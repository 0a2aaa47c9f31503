//! The queue against a naive model: a list of jobs.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;

use super::tests::{AGELESS, id, limits, tenant};
use super::*;
use crate::ids::{JobId, Tenant};
use crate::spec::Priority;

const LANES: [&str; 3] = ["default", "build", "net"];

#[derive(Debug, Clone)]
enum Step {
    Submit { tenant: usize, lane: usize, priority: Priority },
    Start,
    End(Index),
    Withdraw(Index),
    Pause(Option<usize>),
    Resume(Option<usize>),
    Change(QueueLimits),
}

fn any_step() -> impl Strategy<Value = Step> {
    let priority = prop::sample::select(Priority::WORDS.map(|(_, priority)| priority).to_vec());
    let lane = || prop_oneof![1 => Just(None), 3 => (0..3_usize).prop_map(Some)];
    prop_oneof![
        12 => (0..4_usize, 0..3_usize, priority)
            .prop_map(|(tenant, lane, priority)| Step::Submit { tenant, lane, priority }),
        8 => Just(Step::Start),
        5 => any::<Index>().prop_map(Step::End),
        2 => any::<Index>().prop_map(Step::Withdraw),
        1 => lane().prop_map(Step::Pause),
        2 => lane().prop_map(Step::Resume),
        1 => any_limits().prop_map(Step::Change),
    ]
}

fn any_limits() -> impl Strategy<Value = QueueLimits> {
    let bound = || prop::option::of(1..6_usize);
    let lanes = prop::collection::vec((bound(), bound()), 2);
    let tenants = prop::collection::vec((bound(), bound(), 1..5_u32), 4);
    (1..6_usize, 0..20_usize, lanes, tenants).prop_map(|(slots, max_queued, lanes, tenants)| {
        let lane = |(slots, max_queued)| LaneLimits { slots, max_queued };
        let lanes =
            ["build", "net"].map(str::to_owned).into_iter().zip(lanes.into_iter().map(lane));
        let tenants = tenants.into_iter().enumerate().map(|(index, (running, queued, weight))| {
            let weight = weight.try_into().unwrap();
            let quota = TenantLimits {
                max_running: running,
                max_queued: queued,
                weight,
                ..TenantLimits::default()
            };
            (named(index), quota)
        });
        QueueLimits {
            slots,
            max_queued,
            lanes: lanes.collect(),
            tenants: tenants.collect(),
            ..limits(1)
        }
    })
}

fn named(index: usize) -> Tenant {
    tenant(&format!("model-{index}"))
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Job {
    id: JobId,
    tenant: Tenant,
    lane: &'static str,
    priority: Priority,
    runs: bool,
}

struct Model {
    limits: QueueLimits,
    /// In the order of arrival.
    jobs: Vec<Job>,
    paused: Vec<Option<&'static str>>,
}

impl Model {
    fn count(&self, runs: bool, is_counted: impl Fn(&Job) -> bool) -> usize {
        self.jobs.iter().filter(|job| job.runs == runs && is_counted(job)).count()
    }

    /// Whether there is room for this job to run.
    fn has_room(&self, tenant: Tenant, lane: &'static str) -> bool {
        let is_below = |limit: Option<usize>, count| limit.is_none_or(|limit| count < limit);
        let of_lane = self.limits.lanes.get(lane).and_then(|limits| limits.slots);
        !self.paused.contains(&None)
            && !self.paused.contains(&Some(lane))
            && self.count(true, |_| true) < self.limits.slots
            && is_below(of_lane, self.count(true, |job| job.lane == lane))
            && is_below(
                self.limits.of(tenant).max_running,
                self.count(true, |job| job.tenant == tenant),
            )
    }

    fn may_start(&self) -> Vec<Job> {
        let waiting = self.jobs.iter().filter(|job| !job.runs);
        waiting.filter(|job| self.has_room(job.tenant, job.lane)).copied().collect()
    }

    fn refusal(&self, tenant: Tenant, lane: &'static str) -> Option<&'static str> {
        let is_reached = |limit: Option<usize>, count| limit.is_some_and(|limit| count >= limit);
        let of_lane = self.limits.lanes.get(lane).and_then(|limits| limits.max_queued);
        let own = self.limits.of(tenant).max_queued;
        if self.has_room(tenant, lane) && self.may_start().is_empty() {
            None
        } else if is_reached(own, self.count(false, |job| job.tenant == tenant)) {
            Some("tenant_limit")
        } else if is_reached(of_lane, self.count(false, |job| job.lane == lane))
            || self.count(false, |_| true) >= self.limits.max_queued
        {
            Some("queue_full")
        } else {
            None
        }
    }

    /// The jobs that wait in the same line, in its order.
    fn line(&self, of: &Job) -> Vec<JobId> {
        let is_same = |job: &&Job| !job.runs && job.tenant == of.tenant && job.lane == of.lane;
        let mut line: Vec<&Job> = self.jobs.iter().filter(is_same).collect();
        line.sort_by_key(|job| std::cmp::Reverse(job.priority));
        line.into_iter().map(|job| job.id).collect()
    }

    /// The tenant's best job among those that may start.
    fn best_of(&self, tenant: Tenant) -> Option<JobId> {
        let mut own = self.may_start();
        own.retain(|job| job.tenant == tenant);
        own.sort_by_key(|job| std::cmp::Reverse(job.priority));
        own.first().map(|job| job.id)
    }

    fn at(&self, index: Index, runs: bool) -> Option<JobId> {
        let jobs: Vec<&Job> = self.jobs.iter().filter(|job| job.runs == runs).collect();
        (!jobs.is_empty()).then(|| index.get(&jobs).id)
    }

    fn remove(&mut self, id: JobId) {
        self.jobs.retain(|job| job.id != id);
    }
}

fn apply(
    queue: &mut Queue,
    model: &mut Model,
    number: u64,
    step: Step,
) -> Result<(), TestCaseError> {
    match step {
        Step::Submit { tenant, lane, priority } => {
            let (tenant, lane) = (named(tenant), LANES[lane]);
            let refusal = queue.check(tenant, lane, AGELESS).err().map(|refusal| refusal.code());
            prop_assert_eq!(refusal, model.refusal(tenant, lane));
            if refusal.is_none() {
                queue.push(id(number), Wish { tenant, lane, priority });
                model.jobs.push(Job { id: id(number), tenant, lane, priority, runs: false });
            }
        }
        Step::Start => {
            let started = queue.next();
            let tenant = started.and_then(|id| queue.tenant_of(id));
            prop_assert_eq!(started.is_none(), model.may_start().is_empty(), "nobody idles");
            prop_assert_eq!(started, tenant.and_then(|tenant| model.best_of(tenant)));
            for job in model.jobs.iter_mut().filter(|job| Some(job.id) == started) {
                job.runs = true;
            }
        }
        Step::End(index) => {
            if let Some(id) = model.at(index, true) {
                prop_assert!(!queue.withdraw(id), "it runs");
                prop_assert!(queue.release(id, Duration::ZERO).is_some());
                model.remove(id);
                prop_assert!(queue.release(id, Duration::ZERO).is_none());
            }
        }
        Step::Withdraw(index) => {
            if let Some(id) = model.at(index, false) {
                prop_assert!(queue.release(id, Duration::ZERO).is_none(), "it waits");
                prop_assert!(queue.withdraw(id));
                model.remove(id);
            }
        }
        Step::Pause(lane) => {
            let lane = lane.map(|lane| LANES[lane]);
            queue.pause(lane).unwrap();
            model.paused.push(lane);
        }
        Step::Resume(lane) => {
            let lane = lane.map(|lane| LANES[lane]);
            queue.resume(lane).unwrap();
            model.paused.retain(|other| lane.is_some() && *other != lane);
        }
        Step::Change(limits) => {
            queue.change(limits.clone());
            model.limits = limits;
        }
    }
    Ok(())
}

fn compare(queue: &Queue, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(queue.waiting(), model.count(false, |_| true));
    for job in &model.jobs {
        let line = model.line(job);
        let place = line.iter().position(|id| *id == job.id).map(|at| (at + 1, line.len()));
        let found = queue.place(job.id, AGELESS).map(|place| (place.position, place.length));
        prop_assert_eq!(found, place);
    }
    let overview = queue.overview();
    for (lane, figures) in &overview.lanes {
        prop_assert_eq!(figures.running, model.count(true, |job| job.lane == lane));
        prop_assert_eq!(figures.queued, model.count(false, |job| job.lane == lane));
    }
    for (tenant, figures) in &overview.tenants {
        prop_assert_eq!(figures.running, model.count(true, |job| job.tenant == *tenant));
        prop_assert_eq!(figures.queued, model.count(false, |job| job.tenant == *tenant));
    }
    Ok(())
}

proptest! {
    #[test]
    fn bounds_hold_nobody_is_lost_and_every_place_is_true(
        first in any_limits(),
        steps in prop::collection::vec(any_step(), 0..150),
    ) {
        let mut queue = Queue::new(first.clone());
        let mut model = Model { limits: first, jobs: Vec::new(), paused: Vec::new() };
        for (number, step) in steps.into_iter().enumerate() {
            apply(&mut queue, &mut model, number as u64, step)?;
            compare(&queue, &model)?;
        }
        // Nothing is in the way any more: everybody who waits starts.
        let lanes = LANES.map(|lane| (lane.to_owned(), LaneLimits::default())).into();
        queue.change(QueueLimits { slots: 1000, lanes, ..limits(1) });
        queue.resume(None).unwrap();
        let started = std::iter::from_fn(|| queue.next()).count();
        prop_assert_eq!(started, model.count(false, |_| true));
        for job in &model.jobs {
            prop_assert_eq!(queue.release(job.id, Duration::ZERO), Some(job.tenant));
        }
        prop_assert_eq!(queue.waiting(), 0);
    }
}
