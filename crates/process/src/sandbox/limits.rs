//! Resource limits that a process sets on itself and passes on.
//!
//! They apply to each process, not to all processes of a job together: they are the fallback for
//! what a cgroup or the job's watchdog enforces. Memory is left to those two: the kernel's limits
//! for one process (`RLIMIT_AS`, `RLIMIT_DATA`) count memory that is reserved and never touched,
//! and so break address sanitizers, WebAssembly and programs with many threads.

use std::io;
use std::time::Duration;

use rustix::process::{
    Resource, Rlimit, getpriority_process, getrlimit, getuid, setpriority_process, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities,
};

use crate::confinement::{Backend, ResourceLimits, SandboxProfile};
use crate::load;

/// The seconds from the signal that a process can handle to the one that it cannot.
const CPU_GRACE: u64 = 5;

/// Tasks that other programs of the same user may start while a job runs.
const ROOM_FOR_OTHERS: u64 = 4096;

/// Sets the limits on this process, the one on tasks as [`max_tasks`] says. Call it after the
/// process got its user namespace, if it gets one: only then are its processes counted apart from
/// all others of the same user. Allocates nothing.
///
/// # Errors
/// If the system refuses.
pub(crate) fn apply_limits(limits: &ResourceLimits, max_tasks: Option<u64>) -> io::Result<()> {
    if *limits == ResourceLimits::NONE {
        return Ok(());
    }
    lower_limit(Resource::Core, 0, 0)?;
    if let Some(files) = limits.open_files {
        lower_limit(Resource::Nofile, files, files)?;
    }
    if let Some(bytes) = limits.file_size {
        lower_limit(Resource::Fsize, bytes, bytes)?;
    }
    if let Some(cpu) = limits.cpu {
        let seconds = round_up_to_seconds(cpu);
        lower_limit(Resource::Cpu, seconds, seconds.saturating_add(CPU_GRACE))?;
    }
    if let Some(tasks) = max_tasks {
        lower_limit(Resource::Nproc, tasks, tasks)?;
    }
    raise_niceness(limits.nice)
}

/// Lowers a limit and never raises it: the limits that the server was started with apply to jobs
/// too.
fn lower_limit(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    Ok(setrlimit(resource, lowered_limit(getrlimit(resource), soft, hard))?)
}

fn lowered_limit(old: Rlimit, soft: u64, hard: u64) -> Rlimit {
    let least = |limit: u64, old: Option<u64>| Some(old.map_or(limit, |old| old.min(limit)));
    let maximum = least(hard, old.maximum);
    Rlimit { current: least(soft, old.current).min(maximum), maximum }
}

fn round_up_to_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Returns the number of tasks that the user may have while this job runs; `None` if the kernel
/// would not enforce it.
///
/// In its own user namespace a job is counted alone, and twice its limit is the most that it can
/// ever have: at the limit itself its programs would fail with errors of their own, instead of the
/// watchdog ending the job for the limit. Otherwise the kernel counts everything that the user
/// runs: then this only keeps a fork bomb from filling the host.
pub(crate) fn max_tasks(limits: &ResourceLimits, backend: Backend) -> Option<u64> {
    let processes = limits.processes?;
    match backend {
        Backend::Namespaces => Some(processes.saturating_mul(2)),
        Backend::Landlock | Backend::Seccomp | Backend::Nothing if getuid().is_root() => None,
        Backend::Landlock | Backend::Seccomp | Backend::Nothing => {
            let now = load::host_tasks()?;
            Some(now.saturating_add(processes).saturating_add(ROOM_FOR_OTHERS))
        }
    }
}

/// Raises the niceness to this value, unless it is already higher.
fn raise_niceness(nice: u8) -> io::Result<()> {
    let nice = i32::from(nice);
    if getpriority_process(None)? < nice {
        setpriority_process(None, nice)?;
    }
    Ok(())
}

// Privileges of the server's user that are given up: nothing that runs later can get them back.

/// Capabilities that no build and no package manager needs: they are for administrators.
const ADMIN_CAPABILITIES: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::SYS_MODULE)
    .union(CapabilitySet::SYS_RAWIO)
    .union(CapabilitySet::SYS_BOOT)
    .union(CapabilitySet::SYS_TIME)
    .union(CapabilitySet::SYS_PACCT)
    .union(CapabilitySet::SYS_TTY_CONFIG)
    // With these two a job would raise its own limits.
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::MAC_ADMIN)
    .union(CapabilitySet::MAC_OVERRIDE)
    .union(CapabilitySet::SYSLOG)
    .union(CapabilitySet::AUDIT_CONTROL)
    .union(CapabilitySet::AUDIT_READ)
    .union(CapabilitySet::WAKE_ALARM)
    .union(CapabilitySet::BLOCK_SUSPEND);

/// Drops the capabilities that a job of this profile must not have, for this thread and everything
/// that it starts. Makes one call for an ordinary user, who has none to drop.
///
/// This lasts only with `no_new_privs`, which every such job gets: without it a privileged program
/// brings them back.
///
/// # Errors
/// If the system refuses.
pub(crate) fn drop_capabilities(profile: SandboxProfile) -> io::Result<()> {
    let unwanted = unwanted_capabilities(profile);
    if unwanted.is_empty() {
        return Ok(());
    }
    let held = capabilities(None)?;
    if held.permitted.union(held.inheritable).intersects(unwanted) {
        // First the bounding set, which limits what a root program may get, while changing it is
        // still allowed. If it is not allowed, `no_new_privs` alone enforces the bound.
        if held.effective.contains(CapabilitySet::SETPCAP) {
            drop_from_bounding_set(held.permitted.intersection(unwanted))?;
        }
        set_capabilities(None, remove_capabilities(held, unwanted))?;
    }
    Ok(())
}

/// Returns the capabilities that a job of this profile must not have.
const fn unwanted_capabilities(profile: SandboxProfile) -> CapabilitySet {
    match profile {
        SandboxProfile::None => CapabilitySet::empty(),
        SandboxProfile::Default => ADMIN_CAPABILITIES,
        SandboxProfile::WorkspaceWrite | SandboxProfile::ReadOnly => CapabilitySet::all(),
    }
}

fn drop_from_bounding_set(unwanted: CapabilitySet) -> io::Result<()> {
    let each = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
    for capability in each.filter(|capability| unwanted.contains(*capability)) {
        remove_capability_from_bounding_set(capability)?;
    }
    Ok(())
}

/// Removes capabilities from all sets. Ambient ones go with the inheritable ones.
fn remove_capabilities(held: CapabilitySets, unwanted: CapabilitySet) -> CapabilitySets {
    CapabilitySets {
        effective: held.effective.difference(unwanted),
        permitted: held.permitted.difference(unwanted),
        inheritable: held.inheritable.difference(unwanted),
    }
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
            assert_eq!(lowered_limit(old, asked.0, asked.1), expected, "{old:?} {asked:?}");
        }
    }

    #[test]
    fn a_fraction_of_a_second_is_rounded_up() {
        let seconds =
            [0, 1, 999, 1000, 1001].map(|ms| round_up_to_seconds(Duration::from_millis(ms)));
        assert_eq!(seconds, [0, 1, 1, 1, 2]);
    }

    #[test]
    fn the_tasks_of_a_job_are_counted_alone_only_in_its_own_namespace() {
        let limits = ResourceLimits { processes: Some(512), ..ResourceLimits::NONE };
        assert_eq!(max_tasks(&limits, Backend::Namespaces), Some(1024));
        assert_eq!(max_tasks(&ResourceLimits::NONE, Backend::Namespaces), None);
        let others = max_tasks(&limits, Backend::Seccomp);
        assert!(others.is_none_or(|tasks| tasks > 512 + ROOM_FOR_OTHERS), "{others:?}");
        assert_eq!(others.is_none(), getuid().is_root());
    }
}

#[cfg(test)]
mod capabilities_tests {
    use std::process::Command;
    use std::thread;

    use rustix::process::{Gid, Uid};
    use rustix::thread::{set_no_new_privs, set_thread_res_gid, set_thread_res_uid};

    use super::*;

    /// Returns the capability sets of a program that is run by a thread after the drop, from its
    /// own status.
    fn after_exec(profile: SandboxProfile) -> Vec<CapabilitySet> {
        let act = move || {
            drop_capabilities(profile).unwrap();
            set_no_new_privs(true).unwrap();
            let kept = "sed -n 's/^Cap[A-Z][a-z]*:\\t//p' /proc/self/status";
            Command::new("sh").args(["-c", kept]).output().unwrap().stdout
        };
        let text = String::from_utf8(thread::spawn(act).join().unwrap()).unwrap();
        let bits = text.lines().map(|line| u64::from_str_radix(line, 16).unwrap());
        bits.map(CapabilitySet::from_bits_retain).collect()
    }

    /// Runs each of these commands after the drop; returns which of them worked.
    fn works(profile: SandboxProfile, commands: &[&'static str]) -> Vec<bool> {
        let commands = commands.to_vec();
        let act = move || {
            drop_capabilities(profile).unwrap();
            set_no_new_privs(true).unwrap();
            let run = |text: &&str| Command::new("sh").args(["-c", text]).output().unwrap();
            commands.iter().map(|text| run(text).status.success()).collect()
        };
        thread::spawn(act).join().unwrap()
    }

    fn has_much() -> bool {
        capabilities(None).unwrap().effective.contains(ADMIN_CAPABILITIES | CapabilitySet::SETPCAP)
    }

    #[test]
    fn jobs_of_a_privileged_server_lack_the_capabilities_of_administrators() {
        let before = capabilities(None).unwrap().permitted;
        let sets = after_exec(SandboxProfile::Default);
        assert_eq!(sets.len(), 5);
        let [_, permitted, effective, bounding, ambient] = sets[..] else { unreachable!() };
        assert_eq!(permitted, before.difference(ADMIN_CAPABILITIES));
        assert_eq!(effective, permitted);
        assert!(ambient.is_empty());
        assert!(!has_much() || !bounding.intersects(ADMIN_CAPABILITIES));
    }

    #[test]
    fn jobs_with_limited_files_keep_no_capabilities() {
        for profile in [SandboxProfile::WorkspaceWrite, SandboxProfile::ReadOnly] {
            let sets = after_exec(profile);
            let [inheritable, permitted, effective, _, ambient] = sets[..] else { unreachable!() };
            for set in [inheritable, permitted, effective, ambient] {
                assert!(set.is_empty(), "{set:?}");
            }
        }
    }

    #[test]
    fn root_can_still_install_packages_but_not_administrate_the_host() {
        if !has_much() {
            return;
        }
        let build = [
            "f=$(mktemp) && chown 65534:65534 $f && rm $f",
            "chroot / true",
            "setpriv --reuid 65534 --clear-groups true",
            "f=$(mktemp -u) && mknod $f c 1 3 && rm $f",
        ];
        let machine = ["unshare --mount true", "ulimit -n 100 && ulimit -n 200", "renice -n -5 $$"];
        assert_eq!(works(SandboxProfile::None, &[build.as_slice(), &machine].concat()), [true; 7]);
        assert_eq!(works(SandboxProfile::Default, &build), [true; 4]);
        assert_eq!(works(SandboxProfile::Default, &machine), [false; 3]);
        assert_eq!(works(SandboxProfile::ReadOnly, &build), [false; 4]);
    }

    #[test]
    fn an_ordinary_user_has_no_capabilities_to_drop_and_gets_no_error() {
        let act = || {
            if rustix::process::geteuid().is_root() {
                let nobody = Uid::from_raw(65534);
                let nogroup = Gid::from_raw(65534);
                set_thread_res_gid(nogroup, nogroup, nogroup).unwrap();
                set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            let before = capabilities(None).unwrap();
            drop_capabilities(SandboxProfile::Default).unwrap();
            drop_capabilities(SandboxProfile::ReadOnly).unwrap();
            (before, capabilities(None).unwrap())
        };
        let (before, after) = thread::spawn(act).join().unwrap();
        assert!(before.permitted.is_empty() && after == before);
    }
}
