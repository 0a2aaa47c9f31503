//! The restrictions that a process puts on itself and passes on: resource limits, capabilities, and
//! Landlock, which limits where it may write.
//!
//! Resource limits apply to each process, not to all processes of a job together: they are the fallback
//! for what a cgroup or the job's watchdog enforces. Memory is left to those two: the kernel's limits
//! for one process (`RLIMIT_AS`, `RLIMIT_DATA`) count memory that is reserved and never touched, and so
//! break address sanitizers, WebAssembly and programs with many threads.
#![expect(unsafe_code, reason = "the system call itself, for a process that must not allocate")]

use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{io, thread};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, Errno,
    LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetError, Scope,
};
use rustix::process::{
    Resource, Rlimit, getpriority_process, getrlimit, getuid, setpriority_process, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities,
};

use crate::confinement::{Backend, NetworkAccess, ResourceLimits, SandboxProfile};
use crate::load::{self, ProbeError};
use crate::syscalls;

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

/// The allowed writes; all other ways of writing that Landlock knows are refused. Reading is not
/// limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileRules {
    /// Directories below which everything may be written.
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) network: NetworkAccess,
}

/// The first version that prevents files from being truncated anywhere.
const NEEDED: ABI = ABI::V3;
/// The first version with every feature that is requested here. From this version on, connections
/// to sockets with a path are limited to writable paths.
const COMPLETE: ABI = ABI::V9;

/// Devices that every program writes to. Skipped if they are missing.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];
/// Shared memory and semaphores, which are files here.
const SHARED_MEMORY: &str = "/dev/shm";

/// Builds the ruleset that a process applies to itself ([`restrict_self`]): it limits writing, and
/// with it signals to processes outside and their abstract sockets.
///
/// # Errors
/// If the kernel cannot limit all ways of writing, or a writable directory cannot be opened.
pub(crate) fn build_ruleset(rules: &FileRules) -> io::Result<OwnedFd> {
    let everything = AccessFs::from_write(COMPLETE);
    let device = everything & AccessFs::from_file(COMPLETE);
    let mut ruleset = empty_ruleset(rules.network).map_err(to_io_error)?;
    for path in DEVICES {
        ruleset = allow_if_present(ruleset, Path::new(path), device)?;
    }
    ruleset = allow_if_present(ruleset, Path::new(SHARED_MEMORY), everything)?;
    for path in &rules.writable {
        ruleset = allow(ruleset, path, everything)?;
    }
    Option::from(ruleset).ok_or(io::ErrorKind::Unsupported.into())
}

/// Restricts this thread and everything that it starts, which must no longer be able to gain
/// privileges (`no_new_privs`). Allocates nothing.
pub(crate) fn restrict_self(ruleset: BorrowedFd<'_>) -> Result<(), rustix::io::Errno> {
    const NO_FLAGS: u32 = 0;
    // SAFETY: the call takes two numbers, and changes only what this thread may do.
    let done =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), NO_FLAGS) };
    if done == 0 { Ok(()) } else { Err(syscalls::last_error()) }
}

/// Creates a ruleset that allows nothing yet. Features of newer kernels are used if available.
fn empty_ruleset(network: NetworkAccess) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_write(COMPLETE))?
        .scope(Scope::from_all(COMPLETE))?;
    if network == NetworkAccess::Off {
        ruleset = ruleset.handle_access(AccessNet::from_all(COMPLETE))?;
    }
    ruleset.create()
}

fn allow_if_present(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    if path.exists() { allow(ruleset, path, access) } else { Ok(ruleset) }
}

fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    let place = PathFd::new(path).map_err(|error| from_errno(&Errno::from(error)))?;
    ruleset.add_rule(PathBeneath::new(place, access)).map_err(to_io_error)
}

fn to_io_error(error: RulesetError) -> io::Error {
    from_errno(&Errno::from(error))
}

fn from_errno(errno: &Errno) -> io::Error {
    io::Error::from_raw_os_error(**errno)
}

/// Returns the version of Landlock that this host has, by using it.
///
/// # Errors
/// A description of what is missing.
pub(crate) fn probe_landlock() -> Result<u32, ProbeError> {
    let thread = thread::Builder::new().spawn(restrict_probe_thread);
    let thread = thread.map_err(|error| ProbeError::new(&error, error.to_string()))?;
    let tried = thread.join().unwrap_or(Err(io::ErrorKind::Other.into()));
    let status = tried.map_err(|error| ProbeError::new(&error, error.to_string()))?;
    check_version(status).map_err(ProbeError::Missing)
}

fn check_version(status: LandlockStatus) -> Result<u32, String> {
    match status {
        LandlockStatus::Available { effective_abi, .. } if effective_abi < NEEDED => {
            Err(format!("version {effective_abi}, and {NEEDED} is needed: Linux 6.2 or later"))
        }
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            let newer = kernel_abi.and_then(|version| u32::try_from(version).ok());
            Ok(newer.unwrap_or(effective_abi as u32))
        }
        LandlockStatus::NotEnabled => {
            Err("not switched on: add `landlock` to the kernel's boot parameter `lsm=`".to_owned())
        }
        LandlockStatus::NotImplemented => {
            Err("not built into this kernel, or a container does not allow it".to_owned())
        }
    }
}

/// Restricts this thread if the kernel supports it at all.
fn restrict_probe_thread() -> io::Result<LandlockStatus> {
    let ruleset = Ruleset::default().handle_access(AccessFs::from_write(COMPLETE));
    let limited = ruleset.and_then(Ruleset::create).and_then(RulesetCreated::restrict_self);
    limited.map(|status| status.landlock).map_err(to_io_error)
}

#[cfg(test)]
mod tests {
    //! Landlock on threads of this process: it ends with its thread. What is refused must have been
    //! possible without it.

    use std::fs::{self, File, OpenOptions};
    use std::io::{self, ErrorKind};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    use std::process::{Command, Stdio};
    use std::thread;

    use rustix::process::{Gid, Uid};
    use rustix::thread::{set_no_new_privs, set_thread_res_gid, set_thread_res_uid};

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

    /// A workspace, and a directory beside it.
    struct TestGround {
        _dir: tempfile::TempDir,
        inside: PathBuf,
        outside: PathBuf,
    }

    impl TestGround {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let [inside, outside] = ["inside", "outside"].map(|name| dir.path().join(name));
            for place in [&inside, &outside] {
                fs::create_dir(place).unwrap();
                fs::create_dir(place.join("empty")).unwrap();
                for file in ["file", "other", "third", "fourth"] {
                    fs::write(place.join(file), "text").unwrap();
                }
            }
            symlink(&outside, inside.join("way_out")).unwrap();
            Self { _dir: dir, inside, outside }
        }

        fn rules(&self, network: NetworkAccess) -> FileRules {
            FileRules { writable: vec![self.inside.clone()], network }
        }
    }

    fn limited<T: Send + 'static>(rules: FileRules, act: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = thread::spawn(move || {
            set_no_new_privs(true).unwrap();
            restrict_self(build_ruleset(&rules).unwrap().as_fd()).unwrap();
            act()
        });
        thread.join().unwrap()
    }

    type Attempt = (&'static str, fn(&Path) -> io::Result<()>);

    /// Every way to change something below a directory.
    const WRITES: &[Attempt] = &[
        ("write", |dir| fs::write(dir.join("file"), "x")),
        ("append", |dir| OpenOptions::new().append(true).open(dir.join("file")).map(drop)),
        ("truncate", |dir| truncate(&dir.join("other"))),
        ("create", |dir| File::create(dir.join("new")).map(drop)),
        ("make a directory", |dir| fs::create_dir(dir.join("new_dir"))),
        ("make a symlink", |dir| symlink("file", dir.join("new_link"))),
        ("make a pipe", |dir| {
            let mode = rustix::fs::Mode::RWXU;
            Ok(rustix::fs::mkfifoat(rustix::fs::CWD, dir.join("new_pipe"), mode)?)
        }),
        ("make a socket", |dir| UnixListener::bind(dir.join("new_socket")).map(drop)),
        ("link", |dir| fs::hard_link(dir.join("third"), dir.join("new_name"))),
        ("rename", |dir| fs::rename(dir.join("third"), dir.join("renamed"))),
        ("remove", |dir| fs::remove_file(dir.join("fourth"))),
        ("remove a directory", |dir| fs::remove_dir(dir.join("empty"))),
    ];

    /// Truncates by name, not by an open file.
    fn truncate(path: &Path) -> io::Result<()> {
        let script = "import os, sys; os.truncate(sys.argv[1], 0)";
        let mut python = Command::new("python3");
        let done = python.args(["-c", script]).arg(path).stderr(Stdio::null()).status()?;
        if done.success() { Ok(()) } else { Err(ErrorKind::PermissionDenied.into()) }
    }

    /// Returns the attempts that failed, with their errors.
    fn failures(dir: &Path) -> Vec<(&'static str, ErrorKind)> {
        let tried = WRITES.iter().map(|(name, attempt)| (*name, attempt(dir)));
        tried.filter_map(|(name, result)| Some((name, result.err()?.kind()))).collect()
    }

    #[test]
    fn every_write_works_inside_and_none_outside() {
        let free = TestGround::new();
        assert_eq!(failures(&free.outside), []);
        let ground = TestGround::new();
        let rules = ground.rules(NetworkAccess::On);
        let outside = ground.outside.clone();
        let inside = ground.inside.clone();
        let way_out = ground.inside.join("way_out");
        let (inside, outside, by_link) =
            limited(rules, move || (failures(&inside), failures(&outside), failures(&way_out)));
        assert_eq!(inside, []);
        let all: Vec<_> =
            WRITES.iter().map(|(name, _)| (*name, ErrorKind::PermissionDenied)).collect();
        assert_eq!(outside, all);
        assert_eq!(by_link, all);
        assert_eq!(fs::read_to_string(ground.outside.join("file")).unwrap(), "text");
    }

    #[test]
    fn nothing_is_moved_or_linked_across_the_boundary() {
        fn crossings(inside: &Path, outside: &Path) -> [bool; 4] {
            [
                fs::hard_link(outside.join("file"), inside.join("alias")).is_ok(),
                fs::hard_link(inside.join("file"), outside.join("alias")).is_ok(),
                fs::rename(outside.join("other"), inside.join("taken")).is_ok(),
                fs::rename(inside.join("other"), outside.join("given")).is_ok(),
            ]
        }
        let free = TestGround::new();
        assert_eq!(crossings(&free.inside, &free.outside), [true; 4]);
        let ground = TestGround::new();
        let inside = ground.inside.clone();
        let outside = ground.outside.clone();
        let crossed =
            limited(ground.rules(NetworkAccess::On), move || crossings(&inside, &outside));
        assert_eq!(crossed, [false; 4]);
    }

    #[test]
    fn processes_outside_get_no_signals_if_the_kernel_supports_that() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let number = child.id();
        let signal = move |text: String| {
            Command::new("sh").args(["-c", &text]).stderr(Stdio::null()).status().unwrap().success()
        };
        let outside = format!("kill -0 {number}");
        let own = "sleep 1000 & kill $!".to_owned();
        assert!(signal(outside.clone()));
        let found = limited(TestGround::new().rules(NetworkAccess::On), move || {
            (signal(outside), signal(own))
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, (probe_landlock().unwrap() < 6, true));
    }

    #[test]
    fn abstract_sockets_outside_are_unreachable_if_the_kernel_supports_that() {
        let name = format!("outside {}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        let connects = move || UnixStream::connect_addr(&address).is_ok();
        assert!(connects());
        assert_eq!(
            limited(TestGround::new().rules(NetworkAccess::On), connects),
            probe_landlock().unwrap() < 6
        );
    }

    #[test]
    fn the_network_is_refused_only_if_it_is_off() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let reaches =
            move || [TcpStream::connect(address).is_ok(), TcpListener::bind("127.0.0.1:0").is_ok()];
        assert_eq!(limited(TestGround::new().rules(NetworkAccess::On), reaches), [true; 2]);
        let is_older = probe_landlock().unwrap() < 4;
        assert_eq!(limited(TestGround::new().rules(NetworkAccess::Off), reaches), [is_older; 2]);
    }

    #[test]
    fn common_programs_work_under_landlock() {
        let ground = TestGround::new();
        let script = format!(
        "set -e; cd {}; echo a > /dev/null; echo b > /dev/stdout; cat ../outside/file
        git init -q repo && cd repo && git -c user.name=x -c user.email=x@y commit -q --allow-empty -m z
        git log --format=' %s'; sleep 1000 & kill $!; wait $! || true
        python3 -c 'import multiprocessing, pty
with multiprocessing.Lock(): print(1, flush=True)
pty.spawn([\"sh\", \"-c\", \"stty size > /dev/null; echo tty > /dev/tty\"])' < /dev/null",
        ground.inside.display()
    );
        let output = limited(ground.rules(NetworkAccess::Off), move || {
            Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap()
        });
        assert_eq!(String::from_utf8_lossy(&output.stdout), "b\ntext z\n1\ntty\r\n");
    }

    #[test]
    fn a_writable_directory_that_is_missing_is_an_error() {
        let missing = PathBuf::from("/nowhere/at/all");
        let rules = FileRules { writable: vec![missing], network: NetworkAccess::On };
        let tried = thread::spawn(move || build_ruleset(&rules)).join().unwrap();
        assert_eq!(tried.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn the_probe_restricts_no_other_thread() {
        assert!(probe_landlock().unwrap() >= 3);
        assert_eq!(failures(&TestGround::new().outside), []);
    }
}
