//! Resource limits that a process sets on itself and hands on.
//!
//! They hold for each process, not for all processes of a job together: they are the backstop of
//! what a cgroup or the job's watchdog holds. Memory is left to those two: the limits that the
//! kernel has for one process (`RLIMIT_AS`, `RLIMIT_DATA`) count what is reserved and never
//! touched, and so break address sanitizers, WebAssembly and programs with many threads.

use std::io;
use std::time::Duration;

use rustix::process::{
    Resource, Rlimit, getpriority_process, getrlimit, getuid, setpriority_process, setrlimit,
};

use crate::confinement::{Backend, ResourceLimits};
use crate::glance;

/// From the signal that a process can handle to the one that it cannot.
const CPU_GRACE: u64 = 5;

/// Tasks that other programs of the same user may start while a job runs.
const ROOM_FOR_OTHERS: u64 = 4096;

/// Sets the limits on this process, the one on tasks as [`most_tasks`] says. To be called after it
/// got its user namespace, if it gets one: only then are its processes counted apart from all others
/// of the same user. Allocates nothing.
///
/// # Errors
/// When the system refuses.
pub(crate) fn apply(limits: &ResourceLimits, most_tasks: Option<u64>) -> io::Result<()> {
    if *limits == ResourceLimits::NONE {
        return Ok(());
    }
    lower(Resource::Core, 0, 0)?;
    if let Some(files) = limits.open_files {
        lower(Resource::Nofile, files, files)?;
    }
    if let Some(bytes) = limits.file_size {
        lower(Resource::Fsize, bytes, bytes)?;
    }
    if let Some(cpu) = limits.cpu {
        let seconds = whole_seconds(cpu);
        lower(Resource::Cpu, seconds, seconds.saturating_add(CPU_GRACE))?;
    }
    if let Some(tasks) = most_tasks {
        lower(Resource::Nproc, tasks, tasks)?;
    }
    give_way(limits.nice)
}

/// Never raises: what the server itself was started with holds for jobs too.
fn lower(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    Ok(setrlimit(resource, lowered(getrlimit(resource), soft, hard))?)
}

fn lowered(old: Rlimit, soft: u64, hard: u64) -> Rlimit {
    let least = |limit: u64, old: Option<u64>| Some(old.map_or(limit, |old| old.min(limit)));
    let maximum = least(hard, old.maximum);
    Rlimit { current: least(soft, old.current).min(maximum), maximum }
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// How many tasks the user may have while this job runs; none where the kernel would not hold it.
///
/// In a user namespace of its own a job is counted alone, and twice its limit is the most that it
/// can ever have: at the limit itself its programs would fail with errors of their own, instead of
/// the watchdog ending the job for the limit. Elsewhere the kernel counts all that the user runs:
/// then this only keeps a fork bomb from filling the host.
pub(crate) fn most_tasks(limits: &ResourceLimits, backend: Backend) -> Option<u64> {
    let processes = limits.processes?;
    match backend {
        Backend::Namespaces => Some(processes.saturating_mul(2)),
        Backend::Landlock | Backend::Seccomp | Backend::Nothing if getuid().is_root() => None,
        Backend::Landlock | Backend::Seccomp | Backend::Nothing => {
            let now = glance::host_tasks()?;
            Some(now.saturating_add(processes).saturating_add(ROOM_FOR_OTHERS))
        }
    }
}

/// To this niceness, unless it gives way more already.
fn give_way(nice: u8) -> io::Result<()> {
    let nice = i32::from(nice);
    if getpriority_process(None)? < nice {
        setpriority_process(None, nice)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn limit(current: Option<u64>, maximum: Option<u64>) -> Rlimit {
        Rlimit { current, maximum }
    }

    #[test]
    fn limits_are_only_ever_lowered() {
        for (old, asked, expected) in [
            (limit(None, None), (60, 65), limit(Some(60), Some(65))),
            (limit(Some(1024), Some(4096)), (512, 512), limit(Some(512), Some(512))),
            (limit(Some(1024), Some(4096)), (9000, 9000), limit(Some(1024), Some(4096))),
            (limit(Some(1024), Some(4096)), (2000, 2000), limit(Some(1024), Some(2000))),
            (limit(Some(7), None), (0, 0), limit(Some(0), Some(0))),
        ] {
            assert_eq!(lowered(old, asked.0, asked.1), expected, "{old:?} {asked:?}");
        }
    }

    #[test]
    fn a_part_of_a_second_counts_as_one() {
        let seconds = [0, 1, 999, 1000, 1001].map(|ms| whole_seconds(Duration::from_millis(ms)));
        assert_eq!(seconds, [0, 1, 1, 1, 2]);
    }

    #[test]
    fn a_job_is_counted_alone_only_in_its_own_namespace() {
        let limits = ResourceLimits { processes: Some(512), ..ResourceLimits::NONE };
        assert_eq!(most_tasks(&limits, Backend::Namespaces), Some(1024));
        assert_eq!(most_tasks(&ResourceLimits::NONE, Backend::Namespaces), None);
        let others = most_tasks(&limits, Backend::Seccomp);
        assert!(others.is_none_or(|tasks| tasks > 512 + ROOM_FOR_OTHERS), "{others:?}");
        assert_eq!(others.is_none(), getuid().is_root());
    }
}
