//! The thread that watches the limits that the kernel does not enforce for a job as a whole:
//! memory, CPU time, processes.
//!
//! One thread serves all jobs of the process. It sleeps while no job is watched. Otherwise it
//! samples the host load ten times per second, which costs three short reads, and surveys all
//! processes, once for all jobs, when the load has grown or a while has passed. While nothing
//! grows, samples become rare; while no job works either, so do surveys (`overuse.rs`). A new job
//! restores the usual pace.
//!
//! Tasks come first, because a fork bomb grows while others are measured. The number of the host's
//! tasks is read between samples, before forks could use up what is left to any job. Once it has
//! grown, the tasks of each job are counted, and memory is measured only after that.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::messages::{Address, JobMsg};
use super::overuse::{
    self, CpuUse, Headroom, LastSurvey, LoadSamples, SAMPLE_INTERVAL, SURVEY_INTERVAL, TaskCount,
    UsedResources,
};
use super::state::is_urgent;
use crate::confinement::ResourceLimits;
use crate::outcome::{LimitKind, Outcome, SIGKILL};
use crate::process::{self, HostLoad, ProcessTree, TreeLoad};
use crate::telemetry::events;

/// The watchdog of one server. Clones are cheap and share its thread, which ends with the last clone
/// and the last watched job.
#[derive(Debug, Clone, Default)]
pub struct Watchdog {
    handle: Arc<WatchdogHandle>,
}

/// Ends the thread when it is dropped.
#[derive(Debug, Default)]
struct WatchdogHandle {
    shared: Arc<SharedRegistry>,
}

impl Drop for WatchdogHandle {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.wake.notify_all();
    }
}

/// The registry, which the jobs change and the thread reads.
#[derive(Debug, Default)]
struct SharedRegistry {
    registry: Mutex<Registry>,
    wake: Condvar,
}

#[derive(Debug)]
struct Registry {
    jobs: BTreeMap<u64, WatchedJob>,
    last: u64,
    thread: ThreadState,
    /// The time that the thread sleeps before the next sample of the host load.
    pause: Duration,
    /// No job will be added any more.
    is_closed: bool,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            jobs: BTreeMap::new(),
            last: 0,
            thread: ThreadState::Missing,
            pause: SAMPLE_INTERVAL,
            is_closed: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThreadState {
    Missing,
    /// The thread sleeps until a job is added.
    Idle,
    /// The thread runs, or sleeps for a limited time.
    Runs,
}

/// A job that is watched.
#[derive(Debug, Clone)]
struct WatchedJob {
    tree: Arc<ProcessTree>,
    /// The limits that the kernel does not enforce for the job.
    limits: ResourceLimits,
    /// The limit on its tasks. It is watched even where the kernel enforces it: a job that was
    /// refused a task is ended.
    processes: Option<u64>,
    actor: Address,
    since: Instant,
    peak: UsedResources,
    standing: WatchState,
}

/// The state of a job relative to its limits, by the last survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchState {
    Within(Headroom),
    /// The job passed one, and is being ended.
    Ending,
}

/// A guard: the job is watched until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    watchdog: Watchdog,
    number: u64,
}

impl Watchdog {
    /// Watches a job, whose actor is told when it exceeds a limit. `None` if there is nothing to
    /// watch: no limit, or only limits for which the kernel ends the job itself.
    pub(super) fn watch(
        &self,
        tree: Arc<ProcessTree>,
        limits: &ResourceLimits,
        actor: Address,
    ) -> Option<Watch> {
        let processes = limits.processes;
        let limits = tree.unenforced_limits(limits);
        if (limits.memory, limits.cpu, processes) == (None, None, None) {
            return None;
        }
        let standing = WatchState::Within(Headroom::new_unused(&limits));
        let peak = UsedResources::default();
        let since = Instant::now();
        let job = WatchedJob { tree, limits, processes, actor, since, peak, standing };
        let number = self.handle.shared.add(job);
        Some(Watch { watchdog: self.clone(), number })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watchdog.handle.shared.lock().jobs.remove(&self.number);
    }
}

impl WatchedJob {
    /// `true` if the job has a limit that requires a survey of its processes.
    fn needs_survey(&self) -> bool {
        let ResourceLimits { memory, cpu, processes, .. } = self.limits;
        memory.is_some() || cpu.is_some() || processes.is_some()
    }
}

impl Registry {
    /// Returns the longest time for which a job was in no survey; `surveyed` is the time of the
    /// last one.
    fn longest_unseen(&self, surveyed: Instant) -> Duration {
        let oldest = self.jobs.values().next();
        oldest.map_or(Duration::ZERO, |job| job.since.max(surveyed).elapsed())
    }

    /// Returns the smallest headroom of any job. A job that has exceeded a limit is being ended and
    /// is not counted.
    fn least_room(&self) -> Headroom {
        let rooms = self.jobs.values().filter_map(|job| match job.standing {
            WatchState::Within(room) => Some(room),
            WatchState::Ending => None,
        });
        rooms.fold(Headroom::new_unused(&ResourceLimits::NONE), Headroom::min_of_both)
    }
}

impl SharedRegistry {
    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job and returns its number.
    fn add(self: &Arc<Self>, job: WatchedJob) -> u64 {
        let mut registry = self.lock();
        registry.last += 1;
        let number = registry.last;
        registry.jobs.insert(number, job);
        if registry.thread == ThreadState::Missing {
            let shared = Arc::clone(self);
            let run = move || shared.run();
            match thread::Builder::new().name("watchdog".to_owned()).spawn(run) {
                Ok(_) => registry.thread = ThreadState::Runs,
                // The next job tries to start the thread again.
                Err(error) => events::watchdog_not_started(&error),
            }
        }
        // Of many jobs that start in a row only the first wakes the thread, since each wake-up
        // costs the starting job time.
        if registry.thread == ThreadState::Idle || registry.pause > SAMPLE_INTERVAL {
            registry.pause = SAMPLE_INTERVAL;
            self.wake.notify_all();
        }
        number
    }

    /// Reads the load of the host on which the watched jobs run; `None` if there are no jobs, or if the
    /// kernel does not report it.
    fn sample_host_load(&self) -> Option<HostLoad> {
        let tree = self.lock().jobs.values().next().map(|job| Arc::clone(&job.tree))?;
        tree.read_host_load()
    }

    fn run(&self) {
        // Otherwise hundreds of busy processes would delay this thread.
        process::raise_thread_priority();
        let processors = thread::available_parallelism().map_or(1, |count| count.get() as u32);
        let mut surveyed = Instant::now();
        let host_load = None;
        let jobs_cpu = None;
        let took = Duration::ZERO;
        let mut last =
            LastSurvey { host_load, jobs_cpu, took, interval: SURVEY_INTERVAL, processors };
        let mut before = None;
        let mut newest = 0;
        let mut cpu_use = CpuUse::Some;
        loop {
            match self.wait_for_jobs() {
                JobsFound::AtOnce => {}
                JobsFound::AfterSleep => last.rebase(self.sample_host_load()),
                JobsFound::NeverAgain => return,
            }
            let room = self.lock().least_room();
            let (pause, latest) = self.wait_for_next_sample(last.count(&room));
            let room = self.lock().least_room();
            let now = self.sample_host_load();
            let has_grown = last.count(&room).has_grown(now.map(|now| now.tasks));
            let samples = LoadSamples { before, now };
            if newest != latest || samples.has_grown(&room) {
                last.interval = SURVEY_INTERVAL;
            }
            if newest != latest {
                // The new job may run outside the cgroups in which CPU time is counted.
                last.jobs_cpu = None;
            }
            let since = surveyed.elapsed();
            let unseen = self.lock().longest_unseen(surveyed);
            if last.is_over(since, unseen, now, &room) {
                // Measured in CPU time: beside a fork bomb this thread waits long for a processor.
                let begun = process::thread_cpu_time();
                let count = LastSurvey { host_load: now, ..last }.count(&room);
                cpu_use = self.survey_jobs(count, cpu_use);
                let interval = last.next_interval(cpu_use);
                let jobs_cpu = now.and_then(|now| now.jobs_cpu);
                let took = process::thread_cpu_time().saturating_sub(begun);
                last = LastSurvey { host_load: now, jobs_cpu, took, interval, processors };
                surveyed = Instant::now();
            } else {
                if has_grown {
                    self.count_tasks(&self.list_jobs());
                }
                last.rebase(now);
            }
            let pause = last.pause(pause, samples, &room);
            let mut registry = self.lock();
            // A job that came meanwhile is sampled soon.
            registry.pause = if registry.last == latest { pause } else { SAMPLE_INTERVAL };
            drop(registry);
            (before, newest) = (now, latest);
        }
    }

    /// Sleeps while no job is watched.
    fn wait_for_jobs(&self) -> JobsFound {
        let mut found = JobsFound::AtOnce;
        let nobody = |registry: &mut Registry| {
            let is_nobody = registry.jobs.is_empty();
            if is_nobody {
                found = JobsFound::AfterSleep;
            }
            registry.thread = if is_nobody { ThreadState::Idle } else { ThreadState::Runs };
            is_nobody && !registry.is_closed
        };
        let registry = self.wake.wait_while(self.lock(), nobody);
        let registry = registry.unwrap_or_else(PoisonError::into_inner);
        if registry.jobs.is_empty() { JobsFound::NeverAgain } else { found }
    }

    /// Sleeps for the pause, or until a job is added or the host has more tasks than `count` allows.
    /// Returns the pause and the number of the newest job.
    fn wait_for_next_sample(&self, count: TaskCount) -> (Duration, u64) {
        let mut registry = self.lock();
        let pause = registry.pause;
        let is_quiet = |registry: &mut Registry| registry.pause == pause;
        let end = Instant::now() + pause;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            let waited = self.wake.wait_timeout_while(registry, rest.min(count.pause), is_quiet);
            let (awake, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            let found = (awake.pause, awake.last);
            drop(awake);
            // At the end of the pause the next sample shows the same.
            let is_over = rest <= count.pause || !timeout.timed_out();
            if is_over || count.has_grown(process::host_tasks()) {
                return found;
            }
            registry = self.lock();
        }
    }

    /// Returns the watched jobs with their numbers.
    fn list_jobs(&self) -> Vec<(u64, WatchedJob)> {
        self.lock().jobs.iter().map(|(number, job)| (*number, job.clone())).collect()
    }

    /// Ends the jobs with too many tasks. A job that has passed a limit is being ended already.
    fn count_tasks(&self, jobs: &[(u64, WatchedJob)]) {
        for (number, job) in jobs.iter().filter(|(_, job)| job.standing != WatchState::Ending) {
            let Some(limit) = job.processes else { continue };
            if let Some(which) = overuse::find_task_limit(job.processes, count_up_to(limit, job)) {
                self.end(*number, job, which);
            }
        }
    }

    /// Calls `act` with the entry of a job, if it is still watched.
    fn with_job<T>(&self, number: u64, act: impl FnOnce(&mut WatchedJob) -> T) -> Option<T> {
        self.lock().jobs.get_mut(&number).map(act)
    }

    /// Surveys the processes of all watched jobs, and says whether any job used CPU time
    /// since the last survey, which gave `before`. Memory is measured last, while `count` leaves time for it.
    fn survey_jobs(&self, count: TaskCount, before: CpuUse) -> CpuUse {
        let mut jobs = self.list_jobs();
        self.count_tasks(&jobs);
        jobs.retain(|(_, job)| job.needs_survey());
        if jobs.is_empty() {
            // The kernel enforces all limits, and CPU time was not measured.
            return CpuUse::Some;
        }
        let trees: Vec<_> = jobs.iter().map(|(_, job)| Arc::clone(&job.tree)).collect();
        let loads = process::measure_trees(&trees);
        let (many, rest): (Vec<_>, Vec<_>) =
            jobs.iter().zip(&loads).partition(|((_, job), load)| {
                overuse::find_task_limit(job.limits.processes, load.tasks).is_some()
            });
        for ((number, job), load) in many {
            if let Some(which) = overuse::find_task_limit(job.limits.processes, load.tasks) {
                self.end(*number, job, which);
            }
        }
        let mut cpu_use = CpuUse::None;
        let has_time = || count.has_time(process::host_tasks(), before);
        for ((number, job), load) in rest {
            let Some(used) = measure_usage(job, load, has_time) else { return CpuUse::Unknown };
            let peak = job.peak.max_of_both(used);
            if peak.cpu > job.peak.cpu {
                cpu_use = CpuUse::Some;
            }
            let found = overuse::judge(&job.limits, &used, &peak);
            self.with_job(*number, |job| {
                job.peak = peak;
                if let (WatchState::Within(room), Ok(left)) = (&mut job.standing, found) {
                    *room = left;
                }
            });
            if let Err(which) = found {
                self.end(*number, job, which);
            }
        }
        cpu_use
    }

    /// Tells a job's actor that the job exceeded this limit. A job that harms others is stopped here at
    /// once: beside a fork bomb it may take long until the actor gets a processor, or a thread to end
    /// the job.
    fn end(&self, number: u64, job: &WatchedJob, which: LimitKind) {
        self.with_job(number, |job| job.standing = WatchState::Ending);
        // The actor hears of the limit before it hears of the leader's end, so the limit is the outcome.
        job.actor.send(JobMsg::LimitHit(which));
        if is_urgent(which) {
            let cause = Outcome::Limit { which }.to_cause();
            // A shim that is gone has no processes.
            job.tree.stop(SIGKILL, Duration::ZERO, cause).ok();
        }
    }
}

/// The way in which the thread found jobs to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobsFound {
    AtOnce,
    /// There was a time without watched jobs.
    AfterSleep,
    /// The server is gone.
    NeverAgain,
}

/// Counts the tasks of a job: in a cgroup by one short read, elsewhere its processes from parent to
/// child, until there are more than `limit`.
fn count_up_to(limit: u64, job: &WatchedJob) -> u64 {
    let count = || job.tree.count_members(limit);
    // Processes that come and go during one count can make it too high.
    job.tree.tasks_in_cgroup().unwrap_or_else(|| match count() {
        most if most > limit => count(),
        tasks => tasks,
    })
}

/// Measures the job's use of limited resources; `None` if there was no time to measure its memory.
fn measure_usage(
    job: &WatchedJob,
    load: &TreeLoad,
    has_time: impl Fn() -> bool,
) -> Option<UsedResources> {
    // The sum counts shared pages once per process, so it is never too low: if it is within the
    // limit, no exact measurement is needed.
    let is_enough = job.limits.memory.is_none_or(|limit| load.rss_bytes <= limit);
    let memory = if is_enough { load.rss_bytes } else { load.proportional_bytes(has_time)? };
    let in_all = job.limits.cpu.and_then(|_| job.tree.total_cpu());
    Some(UsedResources { memory, tasks: load.tasks, cpu: in_all.unwrap_or(load.cpu) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ids::JobId;
    use crate::job::tests::{LONG, ParentActor, settings, spec};
    use crate::job::{JobHandle, SharedJobSettings, create_job};
    use crate::outcome::{JobEnding, Outcome};
    use crate::spec::JobSpec;
    use ractor::Actor;

    const MB: u64 = 1 << 20;

    async fn start(text: &str, resources: ResourceLimits) -> JobHandle {
        start_watched(text, resources, &Watchdog::default()).await
    }

    async fn start_watched(
        text: &str,
        resources: ResourceLimits,
        watchdog: &Watchdog,
    ) -> JobHandle {
        let (parent, _) = Actor::spawn(None, ParentActor, ()).await.unwrap();
        let spec = JobSpec { resources, ..spec(text) };
        let watchdog = watchdog.clone();
        let settings =
            Arc::new(SharedJobSettings { watchdog, ..SharedJobSettings::clone(&settings()) });
        let (guard, job) = create_job(JobId::local(1), spec, None, None, &settings);
        guard.run(parent.get_cell()).await.unwrap();
        job
    }

    async fn ended(job: &JobHandle) -> JobEnding {
        let ending = tokio::time::timeout(LONG, job.finished()).await.expect("it ends");
        tokio::time::timeout(LONG, job.completed()).await.expect("nothing of it is left");
        ending
    }

    fn is_watched(tree_of: &JobHandle, by: &Watchdog) -> bool {
        let pid = tree_of.pids().first().copied();
        by.handle.shared.lock().jobs.values().any(|job| job.tree.leader_pid() == pid)
    }

    /// Returns shell text that holds this much memory and then waits.
    fn holding(megabytes: u64) -> String {
        format!("x=$(head -c {} /dev/zero | tr '\\0' x); echo full; sleep 300", megabytes * MB)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_job_that_takes_too_much_memory_is_ended_at_once() {
        let limit = 100 * MB;
        let limits = ResourceLimits { memory: Some(limit), ..ResourceLimits::NONE };
        let watchdog = Watchdog::default();
        let bystander = start_watched("sleep 300", limits, &watchdog).await;
        let ending = ended(&start_watched(&holding(300), limits, &watchdog).await).await;
        let Outcome::Limit { which: LimitKind::Memory { limit: told, peak } } = ending.outcome
        else {
            panic!("{ending:?}");
        };
        assert_eq!(told, limit);
        assert!(peak > limit && peak < 2000 * MB, "{peak}");
        assert_eq!(ending.kill, None, "no signal came before");
        assert!(bystander.status().ending().is_none() && is_watched(&bystander, &watchdog));
        bystander.stop(crate::job::tests::now());
        ended(&bystander).await;
        assert!(!is_watched(&bystander, &watchdog));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn memory_that_processes_share_is_counted_once() {
        let limits = ResourceLimits { memory: Some(100 * MB), ..ResourceLimits::NONE };
        // Six processes with the same 40 MB: 240 MB by the plain figures.
        let text = format!(
            "x=$(head -c {} /dev/zero | tr '\\0' x); for i in 1 2 3 4 5; do (sleep 2; :) & done; wait; echo ok",
            40 * MB
        );
        let ending = ended(&start(&text, limits).await).await;
        assert_eq!(ending.outcome, Outcome::Exited { code: 0 });
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn cpu_time_counts_over_all_processes_and_ends_a_job_politely() {
        // Together they use it up long before the kernel would end any single one.
        let cpu = Duration::from_secs(2);
        let limits = ResourceLimits { cpu: Some(cpu), ..ResourceLimits::NONE };
        let text = "for i in 1 2 3 4; do (while :; do :; done) & done; wait";
        let ending = ended(&start(text, limits).await).await;
        assert_eq!(ending.outcome, Outcome::Limit { which: LimitKind::Cpu(cpu) });
        assert_eq!(ending.kill.map(|kill| kill.first), Some(crate::outcome::SIGTERM));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn too_many_processes_end_a_job_wherever_they_hide() {
        let limits = ResourceLimits { processes: Some(20), ..ResourceLimits::NONE };
        let text = "for i in $(seq 30); do setsid sleep 300 & done; (setsid sleep 300 &); wait";
        let job = start(text, limits).await;
        let ending = ended(&job).await;
        assert_eq!(ending.outcome, Outcome::Limit { which: LimitKind::Processes(20) });
        assert!(ending.survivors.is_empty() && job.pids().is_empty());
    }

    /// Returns the number and a copy of a watched job.
    fn watched(job: &JobHandle, by: &Watchdog) -> (u64, WatchedJob) {
        let pid = job.pids().first().copied();
        let registry = by.handle.shared.lock();
        let mut jobs = registry.jobs.iter();
        let (number, job) = jobs.find(|(_, job)| job.tree.leader_pid() == pid).expect("watched");
        (*number, job.clone())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_tasks_of_a_job_that_is_being_ended_are_not_counted() {
        let limits = ResourceLimits { processes: Some(1000), ..ResourceLimits::NONE };
        let watchdog = Watchdog::default();
        let text = "sleep 300 & sleep 300 & echo ready; wait";
        let job = start_watched(text, limits, &watchdog).await;
        tokio::time::timeout(LONG, job.output().wait_past(5)).await.expect("it runs");
        let (number, copy) = watched(&job, &watchdog);
        watchdog.handle.shared.count_tasks(&[(
            number,
            WatchedJob { processes: Some(1), standing: WatchState::Ending, ..copy },
        )]);
        job.stop(crate::job::tests::now());
        let ending = ended(&job).await;
        assert!(matches!(ending.outcome, Outcome::Stopped { .. }), "{ending:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_fork_bomb_is_ended_and_others_go_on() {
        let limits = ResourceLimits { processes: Some(64), ..ResourceLimits::NONE };
        let other = start("for i in $(seq 40); do sleep 0.05; done; echo fine", limits).await;
        // The bomb doubles, partly in sessions of its own, to at most a thousand processes.
        let bomb = "b() { if [ $1 -gt 0 ]; then b $(($1-1)) & setsid bash -c \"$(declare -f b); b $(($1-1))\" & fi; sleep 300; }; b 8";
        let job = start(bomb, limits).await;
        let ending = ended(&job).await;
        assert_eq!(ending.outcome, Outcome::Limit { which: LimitKind::Processes(64) });
        assert!(ending.survivors.is_empty() && job.pids().is_empty());
        assert_eq!(ended(&other).await.outcome, Outcome::Exited { code: 0 });
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn survivors_are_watched_too_and_the_outcome_stays() {
        let limits = ResourceLimits { memory: Some(100 * MB), ..ResourceLimits::NONE };
        let place = tempfile::tempdir().unwrap();
        let go = place.path().join("go");
        let text = format!(
            "setsid bash -c 'until [ -e {} ]; do sleep 0.02; done; head -c {} /dev/zero | tail -n 1 | sleep 300' >/dev/null 2>&1 & true",
            go.display(),
            300 * MB
        );
        let job = start(&text, limits).await;
        let ending = tokio::time::timeout(LONG, job.finished()).await.expect("its leader ends");
        assert_eq!(ending.outcome, Outcome::Exited { code: 0 });
        assert!(!ending.survivors.is_empty());
        std::fs::write(&go, "").unwrap();
        assert_eq!(ended(&job).await, ending);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_has_no_such_limit_is_not_watched() {
        let limits = ResourceLimits { open_files: Some(64), ..ResourceLimits::NONE };
        let watchdog = Watchdog::default();
        let job = start_watched("sleep 300", limits, &watchdog).await;
        job.started().await;
        assert!(!is_watched(&job, &watchdog));
        job.stop(crate::job::tests::now());
        ended(&job).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_thread_ends_with_its_server() {
        let limits = ResourceLimits { processes: Some(1000), ..ResourceLimits::NONE };
        let watchdog = Watchdog::default();
        let job = start_watched("sleep 300", limits, &watchdog).await;
        let shared = Arc::downgrade(&watchdog.handle.shared);
        drop(watchdog);
        job.stop(crate::job::tests::now());
        ended(&job).await;
        let deadline = Instant::now() + LONG;
        while shared.strong_count() > 0 {
            assert!(Instant::now() < deadline, "the thread still has the registry");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
