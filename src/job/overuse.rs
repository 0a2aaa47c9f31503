//! The limits of a job, its use against them, and the time of the next survey. Pure: no clock, no
//! /proc.

use std::time::Duration;

use crate::confinement::ResourceLimits;
use crate::ids::JobId;
use crate::outcome::LimitKind;
use crate::process::HostLoad;
use crate::spec::{JobSpec, LargeOutput};

/// The time between two samples of the host load while jobs are watched.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// The same while nothing on the host grows.
const MAX_SAMPLE_INTERVAL: Duration = Duration::from_millis(800);

/// The time between two surveys when nothing grows.
pub(super) const SURVEY_INTERVAL: Duration = Duration::from_secs(1);

/// The longest that the interval between surveys is stretched because surveys are expensive.
const MAX_INTERVAL_FOR_COST: Duration = Duration::from_secs(5);

/// The time between two surveys while no job works and nothing on the host grows.
const MAX_INTERVAL_WITHOUT_WORK: Duration = Duration::from_secs(16);

/// The same while no job has used any CPU time: an idle job exceeds no limit. Surveys do not end,
/// because a process may have left the cgroup in which CPU time is counted.
const MAX_INTERVAL_WITHOUT_CPU: Duration = Duration::from_secs(64);

/// The shortest time between two counts of the host's tasks.
const SHORTEST_COUNT_PAUSE: Duration = Duration::from_millis(10);

/// Tasks that a loop of forks starts in a second on one processor, rounded up.
const FORKS_PER_SECOND: u64 = 5000;

/// The share of what is left to a job that counts as growth between two checks: one part in this
/// many.
const GROWTH_SHARE: u64 = 64;

/// Surveys take at most one part in this many of one processor's time: while nothing grows, and
/// while something does.
const REGULAR_COST_SHARE: u32 = 20;
const GROWING_COST_SHARE: u32 = 4;

/// The resources that a job uses at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct UsedResources {
    pub(super) memory: u64,
    pub(super) tasks: u64,
    pub(super) cpu: Duration,
}

impl UsedResources {
    /// Returns the maximum of both, field by field.
    pub(super) fn max_of_both(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            tasks: self.tasks.max(other.tasks),
            cpu: self.cpu.max(other.cpu),
        }
    }
}

/// The resources left before a job passes a limit; the maximum if there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Headroom {
    memory: u64,
    tasks: u64,
    cpu: Duration,
}

impl Headroom {
    /// Returns the headroom of a job that has used nothing yet.
    pub(super) fn new_unused(limits: &ResourceLimits) -> Self {
        Self::compute_left(limits, &UsedResources::default())
    }

    fn compute_left(limits: &ResourceLimits, used: &UsedResources) -> Self {
        let left = |limit: Option<u64>, used| limit.unwrap_or(u64::MAX).saturating_sub(used);
        Self {
            memory: left(limits.memory, used.memory),
            tasks: left(limits.processes, used.tasks),
            cpu: limits.cpu.unwrap_or(Duration::MAX).saturating_sub(used.cpu),
        }
    }

    pub(super) fn min_of_both(self, other: Self) -> Self {
        Self {
            memory: self.memory.min(other.memory),
            tasks: self.tasks.min(other.tasks),
            cpu: self.cpu.min(other.cpu),
        }
    }
}

/// Returns the limit on tasks that this number exceeds, if any.
pub(super) fn find_task_limit(processes: Option<u64>, tasks: u64) -> Option<LimitKind> {
    processes.filter(|limit| tasks > *limit).map(LimitKind::Processes)
}

/// Returns what is left to a job with this usage and these peaks, or the limit that it exceeded.
/// Tasks come first: the memory of a fork bomb is a consequence of their number.
pub(super) fn judge(
    limits: &ResourceLimits,
    now: &UsedResources,
    peak: &UsedResources,
) -> Result<Headroom, LimitKind> {
    if let Some(which) = find_task_limit(limits.processes, now.tasks) {
        return Err(which);
    }
    match (limits.memory, limits.cpu) {
        (Some(limit), _) if now.memory > limit => {
            Err(LimitKind::Memory { limit, peak: peak.memory })
        }
        // CPU time stays used even if the processes that used it have ended.
        (_, Some(limit)) if peak.cpu >= limit => Err(LimitKind::Cpu(limit)),
        _ => Ok(Headroom::compute_left(limits, &UsedResources { cpu: peak.cpu, ..*now })),
    }
}

/// The last survey of the jobs' processes, which decides when the next one is due.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastSurvey {
    /// The host load at that moment, if it could be read.
    pub(super) host_load: Option<HostLoad>,
    /// CPU time of all jobs at that moment, if it could be read and no job was added since.
    pub(super) jobs_cpu: Option<Duration>,
    /// The CPU time that the survey took.
    pub(super) took: Duration,
    /// The time until the next survey if nothing grows.
    pub(super) interval: Duration,
    /// The number of processors that can be busy at one time.
    pub(super) processors: u32,
}

impl LastSurvey {
    /// `true` if the next survey is due. `since` is the time since this survey, `unseen` the
    /// longest time that any job was in no survey, `now` the current host load, and `room` the
    /// smallest headroom of any job.
    ///
    /// No job can have exceeded its limit while all processes together grew by less than its
    /// headroom, unless others shrank meanwhile. So a survey is due at half the headroom, and at
    /// the latest after the regular interval.
    pub(super) fn is_over(
        &self,
        since: Duration,
        unseen: Duration,
        now: Option<HostLoad>,
        room: &Headroom,
    ) -> bool {
        let soonest = self.took * GROWING_COST_SHARE;
        if since < soonest {
            return false;
        }
        if self.is_still(now) {
            // A process that left the cgroup in which CPU time is counted shows by its tasks and
            // memory.
            return unseen >= MAX_INTERVAL_WITHOUT_CPU || self.has_grown(now, room);
        }
        let interval =
            self.interval.max((self.took * REGULAR_COST_SHARE).min(MAX_INTERVAL_FOR_COST));
        unseen >= interval || unseen >= room.cpu / self.processors || self.has_grown(now, room)
    }

    /// Measures growth from the lowest load seen since the survey, so that memory or tasks released
    /// by others hide no job's growth.
    pub(super) fn rebase(&mut self, now: Option<HostLoad>) {
        if let (Some(then), Some(now)) = (&mut self.host_load, now) {
            then.tasks = then.tasks.min(now.tasks);
            then.available_bytes = then.available_bytes.max(now.available_bytes);
        }
    }

    /// Returns the regular interval after a survey with this result. It doubles, up to
    /// [`MAX_INTERVAL_WITHOUT_WORK`], each time that no job used CPU time since the survey before.
    pub(super) fn next_interval(&self, cpu_use: CpuUse) -> Duration {
        match cpu_use {
            CpuUse::Some | CpuUse::Unknown => SURVEY_INTERVAL,
            CpuUse::None => (self.interval * 2).min(MAX_INTERVAL_WITHOUT_WORK),
        }
    }

    /// Returns the wait before the next check, from the last two and the pause between them: longer
    /// each time that nothing grew, and never past the moment at which all processors together
    /// could have used up the CPU time that is left to a job.
    pub(super) fn pause(&self, last: Duration, samples: LoadSamples, room: &Headroom) -> Duration {
        let quiet = if samples.has_grown(room) { SAMPLE_INTERVAL } else { last * 2 };
        quiet.min(MAX_SAMPLE_INTERVAL).min(room.cpu / self.processors).max(SAMPLE_INTERVAL)
    }

    /// `true` if it is known that no job has used CPU time since the survey.
    fn is_still(&self, now: Option<HostLoad>) -> bool {
        self.jobs_cpu.is_some() && self.jobs_cpu == now.and_then(|now| now.jobs_cpu)
    }

    fn has_grown(&self, now: Option<HostLoad>, room: &Headroom) -> bool {
        let (Some(then), Some(now)) = (self.host_load, now) else { return true };
        let memory = then.available_bytes.saturating_sub(now.available_bytes);
        self.count(room).has_grown(Some(now.tasks)) || memory > room.memory / 2
    }

    /// Returns the interval of counting the host's tasks until the next check, and the number from
    /// which on a job may exceed its limit: half of what is left to it.
    pub(super) fn count(&self, room: &Headroom) -> TaskCount {
        let max_growth = room.tasks / 2;
        let forks = FORKS_PER_SECOND * u64::from(self.processors);
        let millis = Duration::from_millis(max_growth.saturating_mul(1000) / forks);
        TaskCount {
            pause: millis.clamp(SHORTEST_COUNT_PAUSE, MAX_SAMPLE_INTERVAL),
            max_tasks: self.host_load.map(|then| then.tasks.saturating_add(max_growth)),
        }
    }
}

/// The number of the host's tasks that requires a survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskCount {
    /// The time between two counts, in which no job can use up its headroom.
    pub(super) pause: Duration,
    /// The number up to which no job can have exceeded its limit, if it is known.
    max_tasks: Option<u64>,
}

impl TaskCount {
    /// `true` if the host has so many tasks that some job may have passed its limit.
    pub(super) fn has_grown(&self, now: Option<u64>) -> bool {
        match (self.max_tasks, now) {
            (Some(max), Some(now)) => now > max,
            (None, _) | (_, None) => true,
        }
    }

    /// `true` if there is time to measure memory at this number of tasks. That takes long, so it is
    /// broken off while they grow, but never twice in a row: a host may be busy for hours.
    pub(super) fn has_time(&self, now: Option<u64>, before: CpuUse) -> bool {
        before == CpuUse::Unknown || now.is_none() || !self.has_grown(now)
    }
}

/// The CPU use of all jobs between two surveys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CpuUse {
    Some,
    None,
    /// Not known: tasks grew too fast for the survey to be finished.
    Unknown,
}

/// Two consecutive samples; `None` where the host load could not be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadSamples {
    pub(super) before: Option<HostLoad>,
    pub(super) now: Option<HostLoad>,
}

impl LoadSamples {
    /// `true` if tasks or memory use of the host grew between the two samples.
    pub(super) fn has_grown(&self, room: &Headroom) -> bool {
        let (Some(before), Some(now)) = (self.before, self.now) else { return true };
        let memory = before.available_bytes.saturating_sub(now.available_bytes);
        now.tasks > before.tasks || memory > room.memory / GROWTH_SHARE
    }
}

// Output.

/// The limits on the output of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputBounds {
    pub(super) job: JobId,
    pub(super) bytes: u64,
    /// The limit that a job exceeds when it writes more than `bytes`.
    pub(super) past_bytes: LimitKind,
    pub(super) lines: u64,
}

impl OutputBounds {
    /// The bounds of this job.
    pub(super) const fn new(job: JobId, spec: &JobSpec) -> Self {
        let limits = &spec.limits;
        let (bytes, past_bytes) = match spec.on_large_output {
            LargeOutput::Error if limits.large_bytes < limits.output_bytes => {
                (limits.large_bytes, LimitKind::LargeOutput(limits.large_bytes))
            }
            LargeOutput::Error | LargeOutput::Spill => {
                (limits.output_bytes, LimitKind::OutputBytes(limits.output_bytes))
            }
            // However much it writes, a bounded part of it is kept.
            LargeOutput::Truncate => (u64::MAX, LimitKind::OutputBytes(u64::MAX)),
        };
        Self { job, bytes, past_bytes, lines: limits.output_lines }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: ResourceLimits = ResourceLimits {
        memory: Some(1000),
        processes: Some(10),
        cpu: Some(Duration::from_secs(60)),
        ..ResourceLimits::NONE
    };
    const AT_LIMIT: UsedResources =
        UsedResources { memory: 1000, tasks: 10, cpu: Duration::from_secs(59) };
    const HOST: HostLoad = HostLoad { tasks: 500, available_bytes: 10_000, jobs_cpu: None };
    const SURVEY: LastSurvey = LastSurvey {
        host_load: Some(HOST),
        jobs_cpu: None,
        took: Duration::from_millis(1),
        interval: SURVEY_INTERVAL,
        processors: 2,
    };

    #[test]
    fn the_limit_itself_may_be_reached_and_not_passed() {
        let room = judge(&LIMITS, &AT_LIMIT, &AT_LIMIT).unwrap();
        assert_eq!(room, Headroom { memory: 0, tasks: 0, cpu: Duration::from_secs(1) });
        let over = |used: UsedResources| judge(&LIMITS, &used, &used).unwrap_err();
        let memory = UsedResources { memory: 1001, ..AT_LIMIT };
        assert_eq!(over(memory), LimitKind::Memory { limit: 1000, peak: 1001 });
        assert_eq!(over(UsedResources { tasks: 11, ..AT_LIMIT }), LimitKind::Processes(10));
        let cpu = Duration::from_secs(60);
        assert_eq!(over(UsedResources { cpu, ..AT_LIMIT }), LimitKind::Cpu(cpu));
        assert_eq!(judge(&ResourceLimits::NONE, &memory, &memory).unwrap().memory, u64::MAX - 1001);
    }

    #[test]
    fn too_many_tasks_are_named_before_the_memory_that_they_take() {
        let bomb = UsedResources { memory: 5000, tasks: 11, cpu: Duration::from_secs(70) };
        assert_eq!(judge(&LIMITS, &bomb, &bomb), Err(LimitKind::Processes(10)));
        assert_eq!(find_task_limit(Some(10), 10), None);
        assert_eq!(find_task_limit(None, u64::MAX), None);
    }

    #[test]
    fn tasks_are_counted_before_forks_could_use_up_what_is_left() {
        let room = |tasks| Headroom { tasks, ..Headroom::new_unused(&LIMITS) };
        for (tasks, millis) in [(0, 10), (100, 10), (1000, 50), (8000, 400), (u64::MAX, 800)] {
            let count = SURVEY.count(&room(tasks));
            assert_eq!(count.pause, Duration::from_millis(millis), "{tasks}");
        }
        let count = SURVEY.count(&room(100));
        assert!(!count.has_grown(Some(550)) && count.has_grown(Some(551)));
        assert!(count.has_grown(None), "nobody can tell");
        assert!(count.has_time(Some(550), CpuUse::Some) && count.has_time(None, CpuUse::Some));
        assert!(!count.has_time(Some(551), CpuUse::Some));
        assert!(count.has_time(Some(551), CpuUse::Unknown), "not twice in a row");
        assert!(!SURVEY.count(&room(u64::MAX)).has_grown(Some(1 << 40)), "nobody has a limit");
    }

    #[test]
    fn time_that_the_dead_used_counts_and_their_memory_does_not() {
        let peak = UsedResources { memory: 5000, tasks: 50, cpu: Duration::from_secs(61) };
        let now = UsedResources::default();
        assert_eq!(judge(&LIMITS, &now, &peak), Err(LimitKind::Cpu(Duration::from_secs(60))));
        let peak = UsedResources { cpu: Duration::ZERO, ..peak };
        assert_eq!(judge(&LIMITS, &now, &peak), Ok(Headroom::new_unused(&LIMITS)));
    }

    fn is_due(since_ms: u64, now: Option<HostLoad>, room: &Headroom) -> bool {
        let since = Duration::from_millis(since_ms);
        SURVEY.is_over(since, since, now, room)
    }

    #[test]
    fn jobs_that_have_just_begun_are_not_surveyed_unless_something_grows() {
        let room = Headroom::new_unused(&LIMITS);
        let unseen = Duration::from_millis(10);
        let is_due = |now| SURVEY.is_over(2 * SURVEY_INTERVAL, unseen, now, &room);
        assert!(!is_due(Some(HOST)));
        assert!(is_due(Some(HostLoad { tasks: 506, ..HOST })));
    }

    #[test]
    fn a_quiet_host_is_surveyed_slowly_and_a_growing_one_at_once() {
        let room = Headroom::new_unused(&LIMITS);
        assert!(!is_due(100, Some(HOST), &room) && is_due(1000, Some(HOST), &room));
        let few = HostLoad { tasks: 505, ..HOST };
        let many = HostLoad { tasks: 506, ..HOST };
        assert!(!is_due(100, Some(few), &room) && is_due(100, Some(many), &room));
        let less = HostLoad { available_bytes: 9_400, ..HOST };
        assert!(is_due(100, Some(less), &room));
        assert!(is_due(100, None, &room), "a survey is due where a host_load tells nothing");
    }

    #[test]
    fn what_others_gave_back_hides_no_growth() {
        let room = Headroom::new_unused(&LIMITS);
        let unseen = Duration::from_millis(10);
        let mut survey = SURVEY;
        let grown = HostLoad { available_bytes: 11_900, ..HOST };
        assert!(
            !survey.is_over(SURVEY_INTERVAL, unseen, Some(grown), &room),
            "by what was seen so far"
        );
        survey.rebase(Some(HostLoad { tasks: 400, available_bytes: 12_500, ..HOST }));
        assert!(survey.is_over(SURVEY_INTERVAL, unseen, Some(grown), &room));
        survey.rebase(Some(HostLoad { tasks: 600, available_bytes: 1, ..HOST }));
        let least = survey.host_load.unwrap();
        assert_eq!((least.tasks, least.available_bytes), (400, 12_500), "growth is not forgotten");
    }

    #[test]
    fn two_processors_use_up_a_second_in_half_of_one() {
        let room = Headroom { cpu: Duration::from_secs(1), ..Headroom::new_unused(&LIMITS) };
        assert!(!is_due(400, Some(HOST), &room) && is_due(500, Some(HOST), &room));
    }

    fn pause_after(last_ms: u64, now: Option<HostLoad>, room: &Headroom) -> u128 {
        let samples = LoadSamples { before: Some(HOST), now };
        SURVEY.pause(Duration::from_millis(last_ms), samples, room).as_millis()
    }

    #[test]
    fn samples_become_rare_while_nothing_grows_and_frequent_when_something_does() {
        let room = Headroom::new_unused(&LIMITS);
        let shrunk = HostLoad { tasks: 400, available_bytes: 11_000, ..HOST };
        for quiet in [HOST, shrunk] {
            assert_eq!(pause_after(100, Some(quiet), &room), 200);
            assert_eq!(pause_after(800, Some(quiet), &room), 800);
        }
        let one_more = HostLoad { tasks: 501, ..HOST };
        let less = HostLoad { available_bytes: 9_984, ..HOST };
        for grown in [Some(one_more), Some(less), None] {
            assert_eq!(pause_after(800, grown, &room), 100, "{grown:?}");
        }
        let room = Headroom { cpu: Duration::from_secs(1), ..room };
        assert_eq!(pause_after(800, Some(HOST), &room), 500, "two processors");
        assert_eq!(pause_after(800, Some(HOST), &Headroom { cpu: Duration::ZERO, ..room }), 100);
    }

    #[test]
    fn jobs_that_use_no_cpu_time_are_left_alone_unless_much_is_taken_elsewhere() {
        let room = Headroom::new_unused(&LIMITS);
        let cpu = |millis| Some(Duration::from_millis(millis));
        let survey = LastSurvey { jobs_cpu: cpu(7), ..SURVEY };
        let is_over = |now, since| {
            let since = Duration::from_secs(since);
            survey.is_over(since, since, Some(now), &room)
        };
        let still = HostLoad { jobs_cpu: cpu(7), ..HOST };
        assert!(!is_over(still, 63) && is_over(still, 64));
        assert!(is_over(HostLoad { tasks: 506, ..still }, 1), "who left is not counted");
        assert!(is_over(HostLoad { jobs_cpu: cpu(8), ..still }, 1), "one has worked");
        assert!(is_over(HostLoad { jobs_cpu: None, ..still }, 1), "nobody can tell");
    }

    #[test]
    fn surveys_become_rare_while_no_job_works() {
        let mut survey = SURVEY;
        for seconds in [2, 4, 8, 16, 16] {
            survey.interval = survey.next_interval(CpuUse::None);
            assert_eq!(survey.interval, Duration::from_secs(seconds));
        }
        let room = Headroom::new_unused(&LIMITS);
        for (seconds, expected) in [(15, false), (16, true)] {
            let since = Duration::from_secs(seconds);
            assert_eq!(survey.is_over(since, since, Some(HOST), &room), expected);
        }
        let many = HostLoad { tasks: 506, ..HOST };
        assert!(
            survey.is_over(SAMPLE_INTERVAL, SAMPLE_INTERVAL, Some(many), &room),
            "growth brings a survey at once"
        );
        assert_eq!(survey.next_interval(CpuUse::Some), SURVEY_INTERVAL);
    }

    proptest! {
        #[test]
        fn surveys_never_take_more_than_their_share(
            took_ms in 0_u64..3000, since_ms in 0_u64..20_000, tasks in 0_u64..5000,
        ) {
            let survey = LastSurvey { took: Duration::from_millis(took_ms), ..SURVEY };
            let now = Some(HostLoad { tasks, ..HOST });
            let nothing = Headroom { memory: 0, tasks: 0, cpu: Duration::ZERO };
            let since = Duration::from_millis(since_ms);
            let due = survey.is_over(since, since, now, &nothing);
            prop_assert_eq!(due, since_ms >= took_ms * 4);
        }
    }
}
