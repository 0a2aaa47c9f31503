//! The activity of running jobs: those that use the machine hold slots, idle ones do not. Pure: no
//! clock, no /proc.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::ids::JobId;

/// A busy job becomes idle if it used at most one part in this many of one processor for a while.
const IDLE_SHARE: u32 = 50;

/// An idle job becomes busy if it used more than one part in this many of one processor.
const BUSY_SHARE: u32 = 20;

/// CPU time that says nothing: the kernel counts in steps of ten milliseconds.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// The time for which a job must be idle if another one waits for a slot.
const IDLE_TIME_IF_OTHERS_WAIT: Duration = Duration::from_millis(500);

/// The shortest time between two measurements.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);

/// The time between two measurements of idle jobs.
const IDLE_JOBS_PAUSE: Duration = Duration::from_secs(2);

/// Measurements take at most one part in this many of one processor's time, or while a job waits
/// for a slot, in [`SHARE_IF_OTHERS_WAIT`].
const COST_SHARE: u32 = 500;
const SHARE_IF_OTHERS_WAIT: u32 = 20;

/// The demand for slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotDemand {
    None,
    JobsWait,
}

/// The jobs that the next measurement covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeasuredJobs {
    Busy,
    All,
}

/// A change in the activity of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActivityChange {
    BecameIdle,
    BecameBusy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    Busy,
    Idle,
}

/// The CPU time of a job at the start of the current window.
#[derive(Debug, Clone, Copy)]
struct CpuWindow {
    activity: Activity,
    cpu: Duration,
    since: Instant,
}

/// The activity of all running jobs.
#[derive(Debug)]
pub(super) struct JobActivity {
    jobs: HashMap<JobId, CpuWindow>,
    busy: usize,
    /// The CPU time that the last measurement took.
    cost: Duration,
    /// The time of the last measurement of idle jobs.
    idle_measured: Option<Instant>,
}

impl JobActivity {
    pub(super) fn new() -> Self {
        Self { jobs: HashMap::new(), busy: 0, cost: Duration::ZERO, idle_measured: None }
    }

    /// Adds a job that starts now. It counts as busy at first.
    pub(super) fn add_job(&mut self, id: JobId, now: Instant) {
        let window = CpuWindow { activity: Activity::Busy, cpu: Duration::ZERO, since: now };
        self.remove_job(id);
        self.jobs.insert(id, window);
        self.busy += 1;
    }

    pub(super) fn remove_job(&mut self, id: JobId) {
        if let Some(CpuWindow { activity: Activity::Busy, .. }) = self.jobs.remove(&id) {
            self.busy -= 1;
        }
    }

    /// Returns the time until the next measurement; `None` if there is nothing to measure.
    /// `idle_time` is the time for which a job must be idle before it gives its slot back.
    pub(super) fn next_pause(&self, demand: SlotDemand, idle_time: Duration) -> Option<Duration> {
        let (pause, share) = if self.jobs.is_empty() {
            return None;
        } else if self.busy == 0 {
            (IDLE_JOBS_PAUSE, COST_SHARE)
        } else {
            match demand {
                SlotDemand::None => (SHORTEST_PAUSE.max(idle_time / 2), COST_SHARE),
                SlotDemand::JobsWait => (SHORTEST_PAUSE, SHARE_IF_OTHERS_WAIT),
            }
        };
        Some(pause.max(self.cost * share))
    }

    /// Returns the jobs to measure now. Idle jobs may be many, and are measured less often.
    pub(super) fn choose_measured_jobs(&mut self, now: Instant) -> MeasuredJobs {
        let pause = IDLE_JOBS_PAUSE.max(self.cost * COST_SHARE);
        if self.idle_measured.is_none_or(|then| now.saturating_duration_since(then) >= pause) {
            self.idle_measured = Some(now);
            return MeasuredJobs::All;
        }
        MeasuredJobs::Busy
    }

    /// Returns the ids of the running jobs that a measurement covers.
    pub(super) fn list_ids(&self, covered: MeasuredJobs) -> impl Iterator<Item = JobId> {
        let is_covered = move |window: &CpuWindow| match covered {
            MeasuredJobs::All => true,
            MeasuredJobs::Busy => window.activity == Activity::Busy,
        };
        self.jobs.iter().filter(move |(_, window)| is_covered(window)).map(|(id, _)| *id)
    }

    /// Records the CPU time that a measurement took.
    pub(super) const fn record_cost(&mut self, cost: Duration) {
        self.cost = cost;
    }

    /// Records the CPU time that a running job has used since its start.
    pub(super) fn record(
        &mut self,
        id: JobId,
        cpu: Duration,
        now: Instant,
        demand: SlotDemand,
        idle_time: Duration,
    ) -> Option<ActivityChange> {
        let window = self.jobs.get_mut(&id)?;
        let idle_time = match demand {
            SlotDemand::None => idle_time,
            SlotDemand::JobsWait => idle_time.min(IDLE_TIME_IF_OTHERS_WAIT),
        };
        let change = window.record(cpu, now, idle_time);
        match change {
            Some(ActivityChange::BecameIdle) => self.busy -= 1,
            Some(ActivityChange::BecameBusy) => self.busy += 1,
            None => {}
        }
        change
    }

    /// Makes an idle job count as busy again, because its slot was not given back.
    pub(super) fn keep_busy(&mut self, id: JobId) {
        if let Some(window) = self.jobs.get_mut(&id)
            && window.activity == Activity::Idle
        {
            window.activity = Activity::Busy;
            self.busy += 1;
        }
    }
}

impl CpuWindow {
    fn record(
        &mut self,
        cpu: Duration,
        now: Instant,
        idle_time: Duration,
    ) -> Option<ActivityChange> {
        let length = now.saturating_duration_since(self.since);
        let has_used_more = |share: u32| {
            // The time of an ended process may be missing: the job did something.
            cpu.checked_sub(self.cpu).is_none_or(|used| used > CLOCK_TICK.max(length / share))
        };
        let change = match self.activity {
            Activity::Busy if has_used_more(IDLE_SHARE) => None,
            Activity::Busy if length < idle_time => return None,
            Activity::Busy => Some(ActivityChange::BecameIdle),
            Activity::Idle if has_used_more(BUSY_SHARE) => Some(ActivityChange::BecameBusy),
            Activity::Idle => None,
        };
        match change {
            Some(ActivityChange::BecameIdle) => self.activity = Activity::Idle,
            Some(ActivityChange::BecameBusy) => self.activity = Activity::Busy,
            None => {}
        }
        (self.cpu, self.since) = (cpu, now);
        change
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDLE_TIME: Duration = Duration::from_secs(3);

    const fn id(number: u64) -> JobId {
        JobId::local(number)
    }

    /// Records these measurements, in milliseconds of time and of CPU time since the start.
    fn changes(demand: SlotDemand, measured: &[(u64, u64)]) -> Vec<(u64, ActivityChange)> {
        let start = Instant::now();
        let mut activity = JobActivity::new();
        activity.add_job(id(1), start);
        let record = |&(at, cpu): &(u64, u64)| {
            let [now, cpu] = [at, cpu].map(Duration::from_millis);
            let change = activity.record(id(1), cpu, start + now, demand, IDLE_TIME)?;
            Some((at, change))
        };
        measured.iter().filter_map(record).collect()
    }

    #[test]
    fn a_job_that_sleeps_becomes_idle_after_the_idle_time() {
        let sleeping: Vec<_> = (0..10).map(|step| (step * 1000, 5)).collect();
        let expected = [(3000, ActivityChange::BecameIdle)];
        assert_eq!(changes(SlotDemand::None, &sleeping), expected);
    }

    #[test]
    fn a_job_that_sleeps_becomes_idle_soon_while_another_one_waits() {
        let sleeping: Vec<_> = (0..10).map(|step| (step * 250, 5)).collect();
        let expected = [(500, ActivityChange::BecameIdle)];
        assert_eq!(changes(SlotDemand::JobsWait, &sleeping), expected);
    }

    #[test]
    fn a_job_that_works_stays_busy() {
        let working: Vec<_> = (0..100).map(|step| (step * 250, step * 25)).collect();
        for demand in [SlotDemand::None, SlotDemand::JobsWait] {
            assert_eq!(changes(demand, &working), []);
        }
    }

    #[test]
    fn a_server_that_polls_a_little_is_idle_until_it_works() {
        let polling = (0..8).map(|step| (step * 1000, step * 10));
        let working = (8..10).map(|step| (step * 1000, 80 + (step - 7) * 500));
        let expected = [(3000, ActivityChange::BecameIdle), (8000, ActivityChange::BecameBusy)];
        assert_eq!(
            changes(SlotDemand::None, &polling.chain(working).collect::<Vec<_>>()),
            expected
        );
    }

    #[test]
    fn the_end_of_a_process_counts_as_work() {
        let measured = [(1000, 900), (5000, 900), (6000, 100)];
        let expected = [(5000, ActivityChange::BecameIdle), (6000, ActivityChange::BecameBusy)];
        assert_eq!(changes(SlotDemand::None, &measured), expected);
    }

    #[test]
    fn measurements_are_rare_without_demand_and_never_expensive() {
        let start = Instant::now();
        let mut activity = JobActivity::new();
        assert_eq!(activity.next_pause(SlotDemand::JobsWait, IDLE_TIME), None);
        activity.add_job(id(1), start);
        assert_eq!(activity.next_pause(SlotDemand::JobsWait, IDLE_TIME), Some(SHORTEST_PAUSE));
        assert_eq!(activity.next_pause(SlotDemand::None, IDLE_TIME), Some(IDLE_TIME / 2));
        activity.record(id(1), Duration::ZERO, start + IDLE_TIME, SlotDemand::None, IDLE_TIME);
        assert_eq!(activity.next_pause(SlotDemand::JobsWait, IDLE_TIME), Some(IDLE_JOBS_PAUSE));
        activity.record_cost(Duration::from_millis(20));
        assert_eq!(activity.next_pause(SlotDemand::None, IDLE_TIME), Some(Duration::from_secs(10)));
    }

    #[test]
    fn idle_jobs_are_measured_less_often_than_busy_ones() {
        let start = Instant::now();
        let mut activity = JobActivity::new();
        assert_eq!(activity.choose_measured_jobs(start), MeasuredJobs::All);
        assert_eq!(activity.choose_measured_jobs(start + SHORTEST_PAUSE), MeasuredJobs::Busy);
        assert_eq!(activity.choose_measured_jobs(start + IDLE_JOBS_PAUSE), MeasuredJobs::All);
    }

    proptest! {
        #[test]
        fn the_number_of_busy_jobs_is_always_right(
            steps in prop::collection::vec((0..5_u64, 0..4_u8, 0..3000_u64, 0..200_u64), 0..200),
        ) {
            let mut activity = JobActivity::new();
            let mut now = Instant::now();
            let mut cpu = HashMap::<u64, Duration>::new();
            for (number, kind, pause, used) in steps {
                now += Duration::from_millis(pause);
                match kind {
                    0 => activity.add_job(id(number), now),
                    1 => activity.remove_job(id(number)),
                    2 => activity.keep_busy(id(number)),
                    _ => {
                        let cpu = cpu.entry(number).or_default();
                        *cpu += Duration::from_millis(used);
                        activity.record(id(number), *cpu, now, SlotDemand::None, IDLE_TIME);
                    }
                }
                prop_assert_eq!(activity.busy, activity.list_ids(MeasuredJobs::Busy).count());
            }
        }
    }
}
