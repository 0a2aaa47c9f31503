//! Watches over the limits that no kernel holds for a job as a whole: memory, CPU time, processes.
//!
//! One thread for all jobs of the process. While none is watched it sleeps; else it glances at the
//! host ten times in a second, which costs three short reads, and looks at all processes, once for
//! all jobs, when something has grown or a while has passed. While nothing grows glances become
//! rare, and while no job works either, looks do (`overuse.rs`); a new job ends that.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::actor::JobMsg;
use super::address::Address;
use super::overuse::{self, CALM, GLANCE_PAUSE, Glances, LastLook, Room, Used, Work};
use crate::confinement::ResourceLimits;
use crate::process::{self, Load, Tree};
use crate::telemetry::events;

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    jobs: BTreeMap::new(),
    last: 0,
    thread: Thread::Missing,
    pause: GLANCE_PAUSE,
});
static SOMEBODY: Condvar = Condvar::new();

#[derive(Debug)]
struct Registry {
    jobs: BTreeMap<u64, Watched>,
    last: u64,
    thread: Thread,
    /// How long the thread sleeps before the next glance.
    pause: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thread {
    Missing,
    /// It sleeps until somebody comes.
    Idle,
    /// It sleeps for a while at the most.
    Runs,
}

/// A job that is watched.
#[derive(Debug, Clone)]
struct Watched {
    tree: Arc<Tree>,
    limits: ResourceLimits,
    actor: Address,
    since: Instant,
    most: Used,
    standing: Standing,
}

/// How a job stands to its limits, by the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Within(Room),
    /// It passed one, and was told.
    Over,
}

/// A job is watched for as long as this is held.
#[derive(Debug)]
pub(super) struct Watch {
    number: u64,
}

impl Watch {
    /// Watches over a job, which is told when it has passed a limit. None where there is nothing to
    /// watch: no such limit, or one that the kernel holds.
    pub(super) fn over(tree: Arc<Tree>, limits: &ResourceLimits, actor: Address) -> Option<Self> {
        let limits = tree.unheld(limits);
        if (limits.memory, limits.cpu, limits.processes) == (None, None, None) {
            return None;
        }
        let (standing, most) = (Standing::Within(Room::at_first(&limits)), Used::default());
        let mut registry = registry();
        registry.last += 1;
        let number = registry.last;
        let since = Instant::now();
        registry.jobs.insert(number, Watched { tree, limits, actor, since, most, standing });
        registry.wake();
        Some(Self { number })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        registry().jobs.remove(&self.number);
    }
}

impl Registry {
    fn wake(&mut self) {
        if self.thread == Thread::Missing {
            match thread::Builder::new().name("watchdog".to_owned()).spawn(run) {
                Ok(_) => self.thread = Thread::Runs,
                // The next job tries again.
                Err(error) => events::watchdog_missing(&error),
            }
        }
        // Of many that come one after the other few wake it: to wake it costs each of them time.
        if self.thread == Thread::Idle || self.pause > GLANCE_PAUSE {
            self.pause = GLANCE_PAUSE;
            SOMEBODY.notify_all();
        }
    }

    /// For how long the oldest job was not looked at, if all were at this moment.
    fn longest_unseen(&self, looked: Instant) -> Duration {
        let oldest = self.jobs.values().next();
        oldest.map_or(Duration::ZERO, |job| job.since.max(looked).elapsed())
    }

    /// The least that is left to any job. Who has passed a limit is being ended, and needs no
    /// closer look.
    fn least_room(&self) -> Room {
        let rooms = self.jobs.values().filter_map(|job| match job.standing {
            Standing::Within(room) => Some(room),
            Standing::Over => None,
        });
        rooms.fold(Room::at_first(&ResourceLimits::NONE), Room::least)
    }
}

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run() {
    let processors = thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let mut looked = Instant::now();
    let (glance, jobs_cpu, took) = (None, None, Duration::ZERO);
    let mut last = LastLook { glance, jobs_cpu, took, calm: CALM, processors };
    let (mut before, mut newest) = (None, 0);
    loop {
        if wait_for_somebody() == Slept::Yes {
            last.rebase(process::glance());
        }
        let (pause, latest) = wait_for_the_next_glance();
        let (room, now) = (registry().least_room(), process::glance());
        let glances = Glances { before, now };
        if newest != latest || glances.have_stirred(&room) {
            last.calm = CALM;
        }
        if newest != latest {
            // It may be where its CPU time is not counted.
            last.jobs_cpu = None;
        }
        let (since, unseen) = (looked.elapsed(), registry().longest_unseen(looked));
        if last.is_over(since, unseen, now, &room) {
            let begun = Instant::now();
            let calm = last.next_calm(look_at_all());
            let jobs_cpu = now.and_then(|now| now.jobs_cpu);
            last = LastLook { glance: now, jobs_cpu, took: begun.elapsed(), calm, processors };
            looked = Instant::now();
        } else {
            last.rebase(now);
        }
        let pause = last.pause(pause, glances, &room);
        let mut registry = registry();
        // Who came meanwhile wants a glance soon.
        registry.pause = if registry.last == latest { pause } else { GLANCE_PAUSE };
        drop(registry);
        (before, newest) = (now, latest);
    }
}

/// Whether there was nobody to watch over for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slept {
    Yes,
    No,
}

/// Sleeps while there is no job.
fn wait_for_somebody() -> Slept {
    let mut slept = Slept::No;
    let nobody = |registry: &mut Registry| {
        let is_nobody = registry.jobs.is_empty();
        if is_nobody {
            slept = Slept::Yes;
        }
        registry.thread = if is_nobody { Thread::Idle } else { Thread::Runs };
        is_nobody
    };
    drop(SOMEBODY.wait_while(registry(), nobody));
    slept
}

/// Sleeps for the pause; less when a job comes. Gives the pause, and the number of the job that came
/// last.
fn wait_for_the_next_glance() -> (Duration, u64) {
    let registry = registry();
    let pause = registry.pause;
    let is_quiet = |registry: &mut Registry| registry.pause == pause;
    let waited = SOMEBODY.wait_timeout_while(registry, pause, is_quiet);
    let (registry, _) = waited.unwrap_or_else(PoisonError::into_inner);
    (registry.pause, registry.last)
}

/// Says whether any of them used CPU time since the last look.
fn look_at_all() -> Work {
    let (numbers, jobs): (Vec<u64>, Vec<Watched>) =
        registry().jobs.iter().map(|(number, job)| (*number, job.clone())).unzip();
    let trees: Vec<_> = jobs.iter().map(|job| Arc::clone(&job.tree)).collect();
    let mut work = Work::None;
    for ((number, job), load) in numbers.iter().zip(&jobs).zip(&process::survey(&trees)) {
        let used = used(job, load);
        let most = job.most.most(used);
        if most.cpu > job.most.cpu {
            work = Work::Done;
        }
        let found = overuse::judge(&job.limits, &used, &most);
        if let Some(job) = registry().jobs.get_mut(number) {
            job.most = most;
            job.standing = found.map_or(Standing::Over, Standing::Within);
        }
        if let Err(which) = found {
            job.actor.tell(JobMsg::LimitHit(which));
        }
    }
    work
}

/// What counts against a job's limits.
fn used(job: &Watched, load: &Load) -> Used {
    // Shared pages are counted in each process, which can only be too much.
    let is_enough = job.limits.memory.is_none_or(|limit| load.rss_bytes <= limit);
    let memory = if is_enough { load.rss_bytes } else { load.proportional_bytes() };
    let in_all = job.limits.cpu.and_then(|_| job.tree.cpu_in_all());
    Used { memory, tasks: load.tasks, cpu: in_all.unwrap_or(load.cpu) }
}

#[cfg(test)]
#[path = "watchdog_tests.rs"]
mod tests;
