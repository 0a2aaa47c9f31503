//! The queue itself: its changes, and the choice of the next job.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::limits::{
    FullQueue, LaneLimits, Pressure, QueueLimits, Retry, SubmitRefusal, TenantBound,
};
use super::line::{Line, Ticket, Turn, VirtualTime};
use super::position::{Ages, Mean};
use crate::ids::{JobId, TenantId};
use crate::spec::{CallMode, DEFAULT_LANE, Priority};

/// Jobs that wait and jobs that run.
///
/// Invariant: the counts in `lanes` and `members` are those of `jobs`. Every change of a member
/// takes it out before (`leave`) and puts it back after (`join`), so that the lanes always know
/// which tenants are ready.
#[derive(Debug)]
pub struct Queue {
    pub(super) limits: QueueLimits,
    pub(super) flow: Flow,
    pub(super) pressure: Option<Pressure>,
    /// `true` if the server has too few free file descriptors for another start.
    pub(super) is_short_of_files: bool,
    pub(super) lanes: BTreeMap<Arc<str>, Lane>,
    pub(super) members: HashMap<TenantId, QueuedTenant>,
    /// Tenants that start nothing because they have used up their CPU time.
    pub(super) spent: HashSet<TenantId>,
    /// Members without jobs that virtual time has not reached yet, by their tags.
    without_jobs: BTreeSet<(u64, TenantId)>,
    pub(super) jobs: HashMap<JobId, Entry>,
    /// Jobs that run and hold a slot.
    pub(super) running: usize,
    /// Jobs that run and hold no slot, because they do not use the machine.
    pub(super) idle: usize,
    time: VirtualTime,
    arrivals: u64,
    /// Jobs that wait, in the order of their arrivals.
    by_arrival: BTreeMap<u64, JobId>,
    /// The mean run time of all jobs.
    pub(super) ran: Mean,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) tenant: TenantId,
    pub(super) lane: Arc<str>,
    pub(super) stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting(Ticket),
    /// Holds a slot.
    Running,
    /// Runs without a slot.
    Idle,
}

/// The reason why a job holds its slot no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotReturn {
    JobIdle,
    /// The job left the queue, after this run time if it has ended.
    JobLeft(Option<Duration>),
}

/// The tenant, lane and priority of a job that joins the queue.
#[derive(Debug, Clone, Copy)]
pub struct EnqueueRequest<'a> {
    /// The tenant that owns the job.
    pub tenant: TenantId,
    pub lane: &'a str,
    /// Its priority among the tenant's own jobs.
    pub priority: Priority,
    pub call_mode: CallMode,
}

impl Queue {
    #[must_use]
    pub fn new(limits: QueueLimits) -> Self {
        let mut queue = Self {
            limits: limits.clone(),
            flow: Flow::Open,
            pressure: None,
            is_short_of_files: false,
            lanes: BTreeMap::new(),
            members: HashMap::new(),
            spent: HashSet::new(),
            without_jobs: BTreeSet::new(),
            jobs: HashMap::new(),
            running: 0,
            idle: 0,
            time: VirtualTime::default(),
            arrivals: 0,
            by_arrival: BTreeMap::new(),
            ran: Mean::default(),
        };
        queue.set_limits(limits);
        queue
    }

    /// Returns a queue with the same limits and pauses but without jobs; it does not know the
    /// pressure on the host, nor a shortage of files.
    #[must_use]
    pub fn without_jobs(&self) -> Self {
        let mut queue = Self::new(self.limits.clone());
        queue.flow = self.flow;
        for (name, lane) in &mut queue.lanes {
            lane.flow = self.lanes.get(name).map_or(lane.flow, |known| known.flow);
        }
        queue
    }

    #[must_use]
    pub const fn limits(&self) -> &QueueLimits {
        &self.limits
    }

    /// The number of waiting jobs.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.jobs.len() - self.running - self.idle
    }

    /// Returns the job that has waited longest.
    #[must_use]
    pub fn oldest_waiting(&self) -> Option<JobId> {
        self.by_arrival.values().next().copied()
    }

    /// Returns the tenant of a job, while the job waits or runs.
    #[must_use]
    pub fn find_tenant(&self, id: JobId) -> Option<TenantId> {
        self.jobs.get(&id).map(|entry| entry.tenant)
    }

    /// Replaces the limits. Running and waiting jobs stay even above a new limit; no further job
    /// starts or joins until there is room.
    pub fn set_limits(&mut self, limits: QueueLimits) {
        let names = limits.lanes.keys().map(String::as_str).chain([DEFAULT_LANE]);
        for name in names {
            self.lanes.entry(name.into()).or_default();
        }
        for (name, lane) in &mut self.lanes {
            // Jobs that were accepted into a removed lane keep its limits.
            lane.limits = limits.lanes.get(&**name).copied().unwrap_or(lane.limits);
        }
        self.limits = limits;
        if self.limits.idle_after.is_none() {
            let is_idle = |entry: &Entry| entry.stage == Stage::Idle;
            let idle = self.jobs.iter().filter(|(_, entry)| is_idle(entry)).map(|(id, _)| *id);
            for id in idle.collect::<Vec<JobId>>() {
                self.set_busy(id);
            }
        }
        let limits = &self.limits;
        self.lanes.retain(|name, lane| limits.has_lane(name) || !lane.is_unused());
        let tenants: Vec<TenantId> = self.members.keys().copied().collect();
        for tenant in tenants {
            self.leave(tenant);
            self.join(tenant);
        }
    }

    /// Adds a waiting job without checking limits: see [`Queue::check`].
    pub fn push(&mut self, id: JobId, request: EnqueueRequest<'_>) {
        let EnqueueRequest { tenant, lane, priority, call_mode } = request;
        self.leave(tenant);
        self.arrivals += 1;
        let ticket = Ticket::new(priority, call_mode, self.arrivals);
        let name =
            self.lanes.get_key_value(lane).map_or_else(|| lane.into(), |(name, _)| name.clone());
        let lane = self.lanes.entry(Arc::clone(&name)).or_default();
        let member = self.members.entry(tenant).or_insert_with(QueuedTenant::new);
        let share = member.lanes.entry(Arc::clone(&name)).or_default();
        if member.waiting == 0 {
            let first = lane.first_ready().map(|(turn, _)| turn);
            member.turn = self.time.begin(member.turn, first, self.arrivals);
        } else if share.line.is_empty() {
            // The tenant joins this lane now; turns that it missed in others are not made up for.
            member.turn = member.turn.at_present(&self.time);
        }
        share.line.insert(ticket, id);
        self.by_arrival.insert(ticket.arrival(), id);
        member.waiting += 1;
        lane.waiting += 1;
        self.jobs.insert(id, Entry { tenant, lane: name, stage: Stage::Waiting(ticket) });
        self.join(tenant);
    }

    /// Adds a job that runs already, without checking limits: a job of a previous server. More jobs
    /// than slots may run then, until some of them end.
    pub fn adopt_running(&mut self, id: JobId, tenant: TenantId, lane: &str) {
        self.leave(tenant);
        let name: Arc<str> =
            self.lanes.get_key_value(lane).map_or_else(|| lane.into(), |(name, _)| name.clone());
        self.lanes.entry(Arc::clone(&name)).or_default().running += 1;
        let member = self.members.entry(tenant).or_insert_with(QueuedTenant::new);
        member.running += 1;
        member.lanes.entry(Arc::clone(&name)).or_default().running.insert(id);
        self.running += 1;
        self.jobs.insert(id, Entry { tenant, lane: name, stage: Stage::Running });
        self.join(tenant);
    }

    /// Returns the job whose turn it is, if one may start, and counts it as running.
    #[expect(clippy::should_implement_trait, reason = "a queue is no iterator: it is asked again")]
    pub fn next(&mut self) -> Option<JobId> {
        let tenant = self.next_tenant()?;
        let (name, ticket) = self.find_best_job(tenant)?;
        self.leave(tenant);
        let weight = self.limits.tenant_limits(tenant).weight;
        let member = self.members.get_mut(&tenant)?;
        let share = member.lanes.get_mut(&name)?;
        let id = share.line.remove(ticket)?;
        self.by_arrival.remove(&ticket.arrival());
        share.running.insert(id);
        member.waiting -= 1;
        member.running += 1;
        member.turn = self.time.serve(member.turn, weight);
        let lane = self.lanes.entry(Arc::clone(&name)).or_default();
        lane.waiting -= 1;
        lane.running += 1;
        self.running += 1;
        self.jobs.insert(id, Entry { tenant, lane: name, stage: Stage::Running });
        self.join(tenant);
        self.forget_without_jobs();
        Some(id)
    }

    /// Removes a job that ended after this run time, and frees its slot; without a run time, the job
    /// goes on outside the queue. Returns its tenant.
    pub fn release(&mut self, id: JobId, ran_for: Option<Duration>) -> Option<TenantId> {
        let runs = |stage: Stage| matches!(stage, Stage::Running | Stage::Idle);
        let Entry { tenant, lane: name, stage } = self.take(id, runs)?;
        if let Some(ran_for) = ran_for {
            self.ran.add(ran_for);
        }
        self.return_slot(id, tenant, &name, stage, SlotReturn::JobLeft(ran_for));
        self.leave_lane(&name);
        Some(tenant)
    }

    /// Gives the slot of a running job back while it does not use the machine. `false` if the job
    /// holds no slot, or if its tenant has too many idle jobs already.
    pub fn set_idle(&mut self, id: JobId) -> bool {
        let Some(tenant) = self.find_tenant(id) else { return false };
        let idle = self.members.get(&tenant).map_or(0, |member| member.idle);
        if idle >= self.limits.max_idle {
            return false;
        }
        let Some((tenant, name)) = self.change_stage(id, Stage::Running, Stage::Idle) else {
            return false;
        };
        self.return_slot(id, tenant, &name, Stage::Running, SlotReturn::JobIdle);
        true
    }

    /// Updates all counts after a job that was in `stage` has ended or become idle.
    fn return_slot(
        &mut self,
        id: JobId,
        tenant: TenantId,
        name: &Arc<str>,
        stage: Stage,
        reason: SlotReturn,
    ) {
        let slots = usize::from(stage == Stage::Running);
        let idle_before = usize::from(stage == Stage::Idle);
        let idle_after = usize::from(reason == SlotReturn::JobIdle);
        let is_back = slots > 0 && self.is_at_limit(tenant);
        self.leave(tenant);
        self.running -= slots;
        self.idle = self.idle - idle_before + idle_after;
        if let Some(lane) = self.lanes.get_mut(name) {
            lane.running -= slots;
            lane.idle = lane.idle - idle_before + idle_after;
        }
        if let Some(member) = self.members.get_mut(&tenant) {
            member.running -= slots;
            member.idle = member.idle - idle_before + idle_after;
            if is_back {
                // Turns that the tenant missed while it was at its limit are not made up for.
                member.turn = member.turn.at_present(&self.time);
            }
            let share = member.lanes.entry(Arc::clone(name)).or_default();
            share.running.remove(&id);
            match reason {
                SlotReturn::JobIdle => {
                    share.idle.insert(id);
                }
                SlotReturn::JobLeft(ran_for) => {
                    share.idle.remove(&id);
                    if let Some(ran_for) = ran_for {
                        share.ran.add(ran_for);
                    }
                }
            }
        }
        self.join(tenant);
    }

    /// Gives an idle job that works again a slot, even if there is none: a running job is never
    /// stopped for others, so more jobs than slots may be busy until some of them end. `false` if
    /// the job is not idle.
    pub fn set_busy(&mut self, id: JobId) -> bool {
        let Some((tenant, name)) = self.change_stage(id, Stage::Idle, Stage::Running) else {
            return false;
        };
        self.running += 1;
        self.idle -= 1;
        self.leave(tenant);
        if let Some(lane) = self.lanes.get_mut(&name) {
            lane.running += 1;
            lane.idle -= 1;
        }
        if let Some(member) = self.members.get_mut(&tenant) {
            member.running += 1;
            member.idle -= 1;
            let share = member.lanes.entry(name).or_default();
            share.idle.remove(&id);
            share.running.insert(id);
        }
        self.join(tenant);
        true
    }

    fn change_stage(&mut self, id: JobId, from: Stage, to: Stage) -> Option<(TenantId, Arc<str>)> {
        let entry = self.jobs.get_mut(&id).filter(|entry| entry.stage == from)?;
        entry.stage = to;
        Some((entry.tenant, Arc::clone(&entry.lane)))
    }

    /// Removes a waiting job; `false` if it did not wait.
    pub fn withdraw(&mut self, id: JobId) -> bool {
        let waits = |stage: Stage| matches!(stage, Stage::Waiting(_));
        let Some(Entry { tenant, lane: name, stage }) = self.take(id, waits) else { return false };
        self.leave(tenant);
        if let Some(lane) = self.lanes.get_mut(&name) {
            lane.waiting -= 1;
        }
        if let (Some(member), Stage::Waiting(ticket)) = (self.members.get_mut(&tenant), stage) {
            member.waiting -= 1;
            member.lanes.entry(Arc::clone(&name)).or_default().line.remove(ticket);
            self.by_arrival.remove(&ticket.arrival());
        }
        self.join(tenant);
        self.leave_lane(&name);
        true
    }

    /// Sets the tenants that have used up their CPU time: no job of theirs starts.
    pub fn set_spent(&mut self, spent: HashSet<TenantId>) {
        let changed: Vec<TenantId> = self.spent.symmetric_difference(&spent).copied().collect();
        for tenant in &changed {
            self.leave(*tenant);
        }
        self.spent = spent;
        for tenant in changed {
            if let Some(member) = self.members.get_mut(&tenant) {
                // Turns that it missed meanwhile are not made up for.
                member.turn = member.turn.at_present(&self.time);
            }
            self.join(tenant);
        }
    }

    /// `true` if any tenant has used up its CPU time.
    #[must_use]
    pub fn is_any_spent(&self) -> bool {
        !self.spent.is_empty()
    }

    /// Removes a lane that is no longer configured, with its last job.
    fn leave_lane(&mut self, name: &str) {
        let is_over = self.lanes.get(name).is_some_and(Lane::is_unused);
        if is_over && !self.limits.has_lane(name) {
            self.lanes.remove(name);
        }
    }

    fn take(&mut self, id: JobId, is_wanted: impl FnOnce(Stage) -> bool) -> Option<Entry> {
        self.jobs.get(&id).filter(|entry| is_wanted(entry.stage))?;
        self.jobs.remove(&id)
    }

    /// Returns the tenant whose turn it is, among those that could start a job.
    fn next_tenant(&self) -> Option<TenantId> {
        if self.hold().is_some() || self.running >= self.limits.slots {
            return None;
        }
        let lanes = self.lanes.values().filter(|lane| lane.has_room());
        let firsts = lanes.filter_map(Lane::first_ready);
        // A lane that was full has turns in the past: they are due now, not earlier.
        firsts
            .map(|(turn, tenant)| (turn.at_present(&self.time), tenant))
            .min()
            .map(|(_, tenant)| tenant)
    }

    /// Returns this tenant's best job among the lanes that have room.
    fn find_best_job(&self, tenant: TenantId) -> Option<(Arc<str>, Ticket)> {
        let lanes = self.members.get(&tenant)?.lanes.iter();
        let open = lanes.filter(|(name, _)| self.lanes.get(*name).is_some_and(Lane::has_room));
        let firsts = open.filter_map(|(name, share)| Some((share.line.first()?.0, name)));
        firsts.min().map(|(ticket, name)| (Arc::clone(name), ticket))
    }

    /// `true` if this tenant may not start another job now.
    pub(super) fn is_at_limit(&self, tenant: TenantId) -> bool {
        let running = self.members.get(&tenant).map_or(0, |member| member.running + member.idle);
        let max_running = self.limits.tenant_limits(tenant).max_running;
        max_running.is_some_and(|limit| running >= limit) || self.spent.contains(&tenant)
    }

    /// Removes a tenant from all ordered sets.
    fn leave(&mut self, tenant: TenantId) {
        let Some(member) = self.members.get(&tenant) else { return };
        self.without_jobs.remove(&(member.turn.tag(), tenant));
        for name in member.lanes_with_waiting_jobs() {
            if let Some(lane) = self.lanes.get_mut(name) {
                lane.ready.remove(&(member.turn, tenant));
            }
        }
    }

    /// Inserts a tenant into the sets where it belongs now, or forgets it.
    fn join(&mut self, tenant: TenantId) {
        let is_at_limit = self.is_at_limit(tenant);
        let Some(member) = self.members.get(&tenant) else { return };
        if member.has_no_jobs() && self.time.is_behind(member.turn) {
            self.without_jobs.insert((member.turn.tag(), tenant));
        } else if member.has_no_jobs() {
            self.members.remove(&tenant);
        } else if !is_at_limit {
            for name in member.lanes_with_waiting_jobs() {
                if let Some(lane) = self.lanes.get_mut(name) {
                    lane.ready.insert((member.turn, tenant));
                }
            }
        }
    }

    /// Forgets tenants without jobs that had no more than their share: they are treated like new ones.
    fn forget_without_jobs(&mut self) {
        while let Some((_, tenant)) = self.without_jobs.first().copied()
            && self.members.get(&tenant).is_none_or(|member| !self.time.is_behind(member.turn))
        {
            self.without_jobs.pop_first();
            self.members.remove(&tenant);
        }
    }
}

// One tenant in the queue.

/// A tenant that has jobs in the queue, or recently had its share.
#[derive(Debug)]
pub(super) struct QueuedTenant {
    pub(super) turn: Turn,
    pub(super) running: usize,
    pub(super) idle: usize,
    pub(super) waiting: usize,
    pub(super) lanes: BTreeMap<Arc<str>, TenantLane>,
}

/// The jobs of a tenant in one lane.
#[derive(Debug, Default)]
pub(super) struct TenantLane {
    pub(super) line: Line,
    /// Jobs that run and hold a slot.
    pub(super) running: BTreeSet<JobId>,
    /// Jobs that run without a slot.
    pub(super) idle: BTreeSet<JobId>,
    /// The durations of the tenant's jobs.
    pub(super) ran: Mean,
}

impl QueuedTenant {
    const fn new() -> Self {
        Self { turn: Turn::UNSERVED, running: 0, idle: 0, waiting: 0, lanes: BTreeMap::new() }
    }

    const fn has_no_jobs(&self) -> bool {
        self.running == 0 && self.idle == 0 && self.waiting == 0
    }

    /// Returns the lanes in which the tenant has waiting jobs.
    fn lanes_with_waiting_jobs(&self) -> impl Iterator<Item = &Arc<str>> {
        self.lanes.iter().filter(|(_, share)| !share.line.is_empty()).map(|(name, _)| name)
    }
}

// One lane, over all tenants.

#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) limits: LaneLimits,
    pub(super) flow: Flow,
    pub(super) running: usize,
    pub(super) idle: usize,
    pub(super) waiting: usize,
    /// Invariant: holds exactly the tenants that have a job waiting here and may run one more, by
    /// their turns.
    pub(super) ready: BTreeSet<(Turn, TenantId)>,
}

/// The state of starts, in a lane or in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Flow {
    #[default]
    Open,
    Paused,
}

impl Lane {
    pub(super) fn is_full(&self) -> bool {
        self.limits.slots.is_some_and(|slots| self.running + self.idle >= slots)
    }

    /// `true` if the lane lets one more of its jobs start.
    pub(super) fn has_room(&self) -> bool {
        match self.flow {
            Flow::Open => !self.is_full(),
            Flow::Paused => false,
        }
    }

    /// Returns the tenant whose turn it is among those that could start in this lane.
    fn first_ready(&self) -> Option<(Turn, TenantId)> {
        self.ready.first().copied()
    }

    const fn is_unused(&self) -> bool {
        self.running == 0 && self.idle == 0 && self.waiting == 0
    }
}

// Admission of one more waiting job.

/// The retry delay when the duration of jobs is not known.
const UNKNOWN: Duration = Duration::from_secs(5);

impl Queue {
    /// Checks whether a job of this tenant may join this lane: first against the tenant's own
    /// bound, then against the common ones. A job that can start at once is never refused. `ages`
    /// are the ages of running jobs.
    ///
    /// # Errors
    /// If too many jobs wait already.
    pub fn check(&self, tenant: TenantId, lane: &str, ages: Ages<'_>) -> Result<(), SubmitRefusal> {
        if self.can_start_now(tenant, lane) {
            return Ok(());
        }
        let retry = if self.is_paused(lane) {
            Retry::Resumed
        } else {
            Retry::In(self.estimate(tenant, lane, 1, ages).unwrap_or(UNKNOWN))
        };
        let own = self.members.get(&tenant).map_or(0, |member| member.waiting);
        if let Some(limit) = reached_limit(self.limits.tenant_limits(tenant).max_queued, own) {
            return Err(SubmitRefusal::TenantLimit { bound: TenantBound::Queued { limit }, retry });
        }
        let of_lane = self
            .lanes
            .get(lane)
            .and_then(|lane| reached_limit(lane.limits.max_queued, lane.waiting));
        if of_lane.is_some() {
            let full = FullQueue::Lane { lane: lane.to_owned() };
            return Err(SubmitRefusal::QueueFull { full, retry });
        }
        if self.waiting_count() >= self.limits.max_queued {
            return Err(SubmitRefusal::QueueFull { full: FullQueue::All, retry });
        }
        Ok(())
    }

    /// `true` if the job would start at once: there is room for it, and no other job waits for that
    /// room.
    fn can_start_now(&self, tenant: TenantId, lane: &str) -> bool {
        self.hold().is_none()
            && self.running < self.limits.slots
            && self.lanes.get(lane).is_none_or(Lane::has_room)
            && !self.is_at_limit(tenant)
            && self.next_tenant().is_none()
    }
}

/// Returns the limit if this count has reached it.
fn reached_limit(limit: Option<usize>, count: usize) -> Option<usize> {
    limit.filter(|limit| count >= *limit)
}
