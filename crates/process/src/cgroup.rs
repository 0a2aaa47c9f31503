//! A version 2 cgroup for each job, if the host lets us create any.
//!
//! ```text
//! our own cgroup               the cgroup that the server was started in
//! └─ shellyard-PID-START       locked while the server lives
//!    ├─ server                 the server itself, if controllers need that
//!    └─ job-N                  a job and everything that it starts
//! ```
//! Only a cgroup without processes can delegate a controller to its children. So the server moves
//! itself down, if no other process is in its cgroup; otherwise jobs are only grouped, which is
//! enough to kill them all at once. Some hosts have the controllers in version 1 hierarchies: those
//! are not used.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, fs, io, thread};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, getpid};

use crate::confinement::ResourceLimits;
use crate::handover::CGROUP_FILE;
pub use crate::job_cgroup::Controller;
use crate::job_cgroup::{
    CgroupHistory, CgroupReaper, IdleCgroups, JobCgroup, SavedCgroup, directories_in,
    parse_cpu_stat, try_remove_tree,
};
use crate::keeper::KeeperClient;
use crate::load::ProbeError;
use crate::open_files;
use crate::processes::{self, ProcessKey};

const PREFIX: &str = "shellyard-";
const SERVER: &str = "server";
const JOB_PREFIX: &str = "job-";
/// The time that ended processes may take at the end to leave their cgroups.
const LAST_WAIT: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_millis(5);

const UNTRIED: &str = "the system gave no file or memory to create one; try again later";

/// The cgroups of the jobs of this process, created when they are first needed. All hosts of a
/// process share them, since a process is in one cgroup.
#[derive(Debug)]
pub struct Cgroups {
    root: OnceLock<Result<CgroupRoot, String>>,
    /// Held while `root` is created.
    opening: Mutex<()>,
    /// The keeper of this server, under whose identity the cgroups are created.
    keeper: KeeperClient,
}

/// The parent of all job cgroups. It is set up once, which shows what the host allows.
#[derive(Debug)]
pub(crate) struct CgroupRoot {
    pub(crate) dir: PathBuf,
    /// The controllers that are enabled for jobs, or the reason why there are none.
    pub(crate) controllers: Result<Vec<Controller>, String>,
    /// The cgroups that wait for a job.
    pub(crate) idle: Arc<IdleCgroups>,
    /// The cgroup that the server was started in.
    home: PathBuf,
    pub(crate) reaper: CgroupReaper,
    /// The number of the last job's cgroup.
    last: AtomicU64,
    /// The lock that shows others that we are alive; it ends with this process, however that ends.
    lock: File,
}

impl Cgroups {
    /// Creates the cgroups of a server with this keeper, or takes over those of an earlier one.
    pub(crate) fn new(keeper: KeeperClient) -> Self {
        Self { root: OnceLock::new(), opening: Mutex::default(), keeper }
    }

    /// Takes over the cgroup of a job that an earlier server started.
    pub(crate) fn restore_job(&self, saved: SavedCgroup) -> JobCgroup {
        let reaper = self.root().map(|root| root.reaper.clone()).unwrap_or_default();
        JobCgroup::restore(saved, reaper)
    }

    /// Kills and removes the cgroups of jobs that an earlier server left, except for those in
    /// `kept`. Call it before jobs are started.
    pub(crate) fn remove_jobs_except(&self, kept: &HashSet<PathBuf>) {
        if self.keeper.generation() > 1
            && let Ok(root) = self.root()
        {
            let jobs = directories_in(&root.dir).filter(|dir| job_number(dir).is_some());
            jobs.filter(|dir| !kept.contains(dir)).for_each(|dir| {
                // An older kernel has no such file; then it is removed when its processes end.
                fs::write(dir.join("cgroup.kill"), "1").ok();
                root.reaper.remove(dir);
            });
        }
    }

    /// Returns what this host lets this process do with cgroups. The first call creates one for the
    /// jobs of this process and may move the process down into another; [`Self::clean_up`] undoes
    /// both.
    pub fn delegation(&self) -> Delegation {
        let root = match self.root() {
            Ok(root) => root,
            Err(why) => return Delegation::Nothing { why: why.to_owned() },
        };
        let below = root.dir.clone();
        match &root.controllers {
            Ok(controllers) => Delegation::Controllers { controllers: controllers.clone(), below },
            Err(why) => Delegation::Grouping { why: why.clone(), below },
        }
    }

    /// Removes what was created for this process, if anything was. Call it at the end, when no job
    /// is left: later jobs get no cgroup. Blocks for a moment while the last processes leave.
    pub fn clean_up(&self) {
        if self.keeper.is_handing_over() {
            return;
        }
        if let Some(Ok(root)) = self.root.get() {
            root.idle.clear();
            move_up(&root.dir, &root.home);
            let deadline = Instant::now() + LAST_WAIT;
            while !try_remove_tree(&root.dir) && Instant::now() < deadline {
                thread::sleep(LAST_PAUSE);
            }
        }
    }

    /// Creates a cgroup for a job with these limits; `None` if the host does not let us.
    pub(crate) fn create_job(&self, limits: &ResourceLimits) -> Option<JobCgroup> {
        self.root().ok()?.create_job(limits)
    }

    /// Returns the CPU time of everything that ever ran in the cgroups of our jobs: the kernel
    /// counts that without any controller. If the server lives below the same cgroup, it is
    /// included.
    pub(crate) fn jobs_cpu(&self) -> Option<Duration> {
        let root = self.root.get()?.as_ref().ok()?;
        parse_cpu_stat(&processes::read_short_file(root.dir.join("cpu.stat")).ok()?)
    }

    /// Returns the parent of all job cgroups, or the reason why there is none. A shortage of files
    /// or memory is not remembered: the next call tries again.
    fn root(&self) -> Result<&CgroupRoot, &str> {
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match self.root.get() {
            Some(known) => known,
            None => match self.open_root() {
                Err(ProbeError::NoResources) => return Err(UNTRIED),
                Err(ProbeError::Missing(why)) => self.root.get_or_init(|| Err(why)),
                Ok(root) => self.root.get_or_init(|| Ok(root)),
            },
        };
        known.as_ref().map_err(String::as_str)
    }

    fn open_root(&self) -> Result<CgroupRoot, ProbeError> {
        // A shortage while the controllers are read would look like missing controllers.
        if !open_files::has_files_to_spare() {
            return Err(ProbeError::NoResources);
        }
        CgroupRoot::open_kept(own_directory()?, &self.keeper)
    }
}

/// Returns the name of the directory of this server. The start time is part of it: the pid alone
/// may belong to another server by now.
fn directory_name((pid, started): ProcessKey) -> String {
    format!("{PREFIX}{pid}-{started}")
}

/// Returns the number of a job's cgroup; `None` if it is not one.
fn job_number(dir: &Path) -> Option<u64> {
    dir.file_name()?.to_str()?.strip_prefix(JOB_PREFIX)?.parse().ok()
}

fn refused(path: &Path, error: &io::Error) -> ProbeError {
    ProbeError::new(error, format!("{} cannot be written to ({error})", path.display()))
}

impl CgroupRoot {
    /// Creates a cgroup with these limits, or reuses one that another job left; `None` if it cannot
    /// be created.
    pub(crate) fn create_job(&self, limits: &ResourceLimits) -> Option<JobCgroup> {
        let pool = self.controllers.is_err().then(|| Arc::clone(&self.idle));
        // For a limit on CPU time the statistics must cover this job alone.
        let used = pool.as_ref().filter(|_| limits.cpu.is_none()).and_then(|idle| idle.take());
        let (dir, history) = match used {
            Some(dir) => (dir, CgroupHistory::OthersToo),
            None => (self.make_directory()?, CgroupHistory::ThisJob),
        };
        let mut cgroup = JobCgroup::new(dir, history, pool, self.reaper.clone());
        for controller in self.controllers.iter().flatten() {
            cgroup.set_limits(*controller, limits);
        }
        Some(cgroup)
    }

    /// Takes over the cgroup of an earlier server of this keeper, or creates one and leaves a copy
    /// of its lock with the keeper. `own` is the cgroup of this process.
    fn open_kept(own: PathBuf, keeper: &KeeperClient) -> Result<Self, ProbeError> {
        let no_pid = || ProbeError::Missing("the keeper has no pid".to_owned());
        let key = keeper.identity().key().ok_or_else(no_pid)?;
        let reaper = CgroupReaper::new(keeper.handover().clone());
        let home = home_of(own, &directory_name(key));
        let dir = home.join(directory_name(key));
        let held = keeper.take_noted_file(CGROUP_FILE).filter(|_| dir.is_dir());
        if let Some(held) = held {
            let lock = File::from(held.file);
            remove_stale(&home, &reaper);
            return Ok(Self::with_lock(home, dir, lock, reaper, Some(keeper.keeper())));
        }
        let root = Self::create(home, key, reaper, Some(keeper.keeper()))?;
        let sent = keeper.hold_noted_file(CGROUP_FILE, "", root.lock.as_fd());
        sent.map_err(|error| {
            ProbeError::Missing(format!("the keeper does not hold its lock ({error})"))
        })?;
        Ok(root)
    }

    fn create(
        home: PathBuf,
        owner: ProcessKey,
        reaper: CgroupReaper,
        keeper: Option<Pid>,
    ) -> Result<Self, ProbeError> {
        // Moving a process down from here requires write access to this file.
        let members = home.join("cgroup.procs");
        File::options().write(true).open(&members).map_err(|error| refused(&members, &error))?;
        remove_stale(&home, &reaper);
        let dir = home.join(directory_name(owner));
        fs::create_dir(&dir).map_err(|error| refused(&home, &error))?;
        let lock = File::open(&dir).and_then(|dir| Ok(lock(&dir).map(|()| dir)?));
        let lock = lock.map_err(|error| {
            try_remove_tree(&dir);
            refused(&dir, &error)
        })?;
        Ok(Self::with_lock(home, dir, lock, reaper, keeper))
    }

    fn with_lock(
        home: PathBuf,
        dir: PathBuf,
        lock: File,
        reaper: CgroupReaper,
        keeper: Option<Pid>,
    ) -> Self {
        let controllers = delegate_controllers(&home, &dir, keeper);
        let last = directories_in(&dir).filter_map(|dir| job_number(&dir)).max();
        let last = AtomicU64::new(last.unwrap_or(0));
        Self { dir, controllers, idle: Arc::default(), home, reaper, last, lock }
    }

    /// Creates a new directory for a job.
    pub(crate) fn make_directory(&self) -> Option<PathBuf> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let dir = self.dir.join(format!("{JOB_PREFIX}{number}"));
        fs::create_dir(&dir).ok().map(|()| dir)
    }
}

/// Returns the cgroup that the keeper was started in: an earlier server may have moved it down, to
/// the cgroup `server` in the directory of this name.
fn home_of(own: PathBuf, name: &str) -> PathBuf {
    let is_server = own.file_name().is_some_and(|found| found == SERVER);
    let above = own.parent().filter(|above| is_server && above.file_name() == Some(name.as_ref()));
    above.and_then(Path::parent).map(Path::to_owned).unwrap_or(own)
}

fn lock(dir: &File) -> rustix::io::Result<()> {
    flock(dir, FlockOperation::NonBlockingLockExclusive)
}

/// Removes what killed servers left, with the processes that may still run in it.
fn remove_stale(home: &Path, reaper: &CgroupReaper) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if is_ours && File::open(entry.path()).is_ok_and(|dir| lock(&dir).is_ok()) {
            // An older kernel has no such file; then the cgroup is removed when its processes end.
            fs::write(entry.path().join("cgroup.kill"), "1").ok();
            reaper.remove(entry.path());
        }
    }
}

/// Enables the controllers in everything that is created below `dir`.
fn delegate_controllers(
    home: &Path,
    dir: &Path,
    keeper: Option<Pid>,
) -> Result<Vec<Controller>, String> {
    let offered = fs::read_to_string(home.join("cgroup.controllers")).unwrap_or_default();
    let offered = Controller::named_in(&offered);
    if offered.is_empty() {
        return Err(format!("none of memory, pids and cpu is delegated to {}", home.display()));
    }
    if enable(home, &offered).is_err() {
        move_down(home, dir, keeper)?;
    }
    let enabled = enable(home, &offered).and_then(|()| enable(dir, &offered));
    enabled.map_err(|error| {
        move_up(dir, home);
        format!("{} does not hand its controllers down ({error})", home.display())
    })?;
    Ok(offered)
}

fn enable(dir: &Path, controllers: &[Controller]) -> io::Result<()> {
    switch(dir, controllers, '+')
}

fn switch(dir: &Path, controllers: &[Controller], sign: char) -> io::Result<()> {
    let words: Vec<_> = controllers.iter().map(|it| format!("{sign}{}", it.word())).collect();
    fs::write(dir.join("cgroup.subtree_control"), words.join(" "))
}

/// Moves the server and its keeper down, with the shims of probes, so that no process is left in `home`.
fn move_down(home: &Path, dir: &Path, keeper: Option<Pid>) -> Result<(), String> {
    let members = members(home);
    let ours: Vec<Pid> = keeper.into_iter().chain([getpid()]).collect();
    if !members.iter().all(|pid| is_one_of(*pid, &ours)) {
        return Err(format!("other processes are in {} too", home.display()));
    }
    let server = dir.join(SERVER);
    let moved = fs::create_dir(&server).and_then(|()| move_processes(&members, &server));
    moved.map_err(|error| {
        move_up(dir, home);
        format!("the server cannot move to {} ({error})", server.display())
    })
}

/// Undoes everything that [`delegate_controllers`] did, as far as the system lets us.
fn move_up(dir: &Path, home: &Path) {
    let server = dir.join(SERVER);
    if server.exists() {
        switch(home, &Controller::named_in(&read(home, "cgroup.subtree_control")), '-').ok();
        move_processes(&members(&server), home).ok();
        try_remove_tree(&server);
    }
}

fn move_processes(pids: &[i32], dir: &Path) -> io::Result<()> {
    pids.iter().try_for_each(|pid| fs::write(dir.join("cgroup.procs"), pid.to_string()))
}

fn members(dir: &Path) -> Vec<i32> {
    // 0 is a process that our pid namespace does not show.
    read(dir, "cgroup.procs").lines().map(|line| line.parse().unwrap_or(0)).collect()
}

/// `true` if it is the server, its keeper or one of their descendants; there is no job yet.
fn is_one_of(pid: i32, ours: &[Pid]) -> bool {
    let Some(pid) = processes::parse_pid(pid) else { return false };
    let ancestors = || processes::list_ancestors(pid).unwrap_or_default();
    ours.contains(&pid) || ancestors().iter().any(|ancestor| ours.contains(ancestor))
}

fn read(dir: &Path, file: &str) -> String {
    fs::read_to_string(dir.join(file)).unwrap_or_default()
}

// The extent of cgroup delegation, with messages for users.

/// The extent to which a host lets us use cgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delegation {
    /// Each job gets its own cgroup, with these controllers enabled.
    Controllers {
        /// The enabled controllers; never empty.
        controllers: Vec<Controller>,
        /// The directory that contains the job cgroups.
        below: PathBuf,
    },
    /// Each job gets its own cgroup, which can kill it at once but limits nothing.
    Grouping {
        /// The reason why no controllers are enabled.
        why: String,
        /// The directory that contains the job cgroups.
        below: PathBuf,
    },
    /// Jobs get no cgroups.
    Nothing {
        /// The reason why there are none.
        why: String,
    },
}

impl Delegation {
    /// Returns advice on how to get more; `None` if there is nothing more to get.
    #[must_use]
    pub fn fix(&self) -> Option<&'static str> {
        let holds = |controllers: &[Controller], it| controllers.contains(&it);
        match self {
            Self::Controllers { controllers, .. }
                if holds(controllers, Controller::Memory)
                    && holds(controllers, Controller::Pids) =>
            {
                None
            }
            Self::Controllers { .. } | Self::Grouping { .. } => Some(
                "start the server alone in a cgroup with delegated controllers: as a systemd service with Delegate=yes, or by `systemd-run --user --scope -p Delegate=yes shellyard serve`",
            ),
            Self::Nothing { .. } => Some(
                "give the server a cgroup of version 2 that its user may write to: a systemd service with Delegate=yes, or a container with a writable /sys/fs/cgroup",
            ),
        }
    }
}

impl fmt::Display for Delegation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controllers { controllers, below } => {
                let words: Vec<_> = controllers.iter().map(|it| it.word()).collect();
                write!(f, "{} delegated at {}", words.join(", "), below.display())
            }
            Self::Grouping { why, below } => {
                write!(f, "jobs are grouped below {} but not bounded: {why}", below.display())
            }
            Self::Nothing { why } => write!(f, "not delegated: {why}"),
        }
    }
}

// The place of our own cgroup in the file system.

/// Returns the directory of the cgroup that this process is in, or the reason why there is none.
pub(crate) fn own_directory() -> Result<PathBuf, ProbeError> {
    let read = |path: &str| {
        let refused = |error| ProbeError::new(&error, format!("{path} cannot be read ({error})"));
        fs::read_to_string(path).map_err(refused)
    };
    locate_cgroup(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)
        .map_err(ProbeError::Missing)
}

fn locate_cgroup(cgroup: &str, mountinfo: &str) -> Result<PathBuf, String> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"));
    let path = path.ok_or("this kernel has no cgroups of version 2")?;
    let mut mounts = mountinfo.lines().filter_map(parse_cgroup2_mount).peekable();
    if mounts.peek().is_none() {
        return Err("no file system of type cgroup2 is mounted".to_owned());
    }
    let below = |(root, point): (&str, &str)| {
        let rest = path.strip_prefix(root.trim_end_matches('/'))?;
        // A sibling's name may begin with ours; `..` leads out of what is mounted.
        let is_inside = rest.is_empty() || rest.starts_with('/') && !rest.contains("/..");
        is_inside.then(|| PathBuf::from(point).join(rest.trim_matches('/')))
    };
    mounts
        .find_map(below)
        .ok_or_else(|| format!("our cgroup {path} is outside of what is mounted of them"))
}

/// Returns root and mount point, if a line of mountinfo is about a cgroup2 file system.
fn parse_cgroup2_mount(line: &str) -> Option<(&str, &str)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let places = (fields.next()?, fields.next()?);
    (file_system.split(' ').next()? == "cgroup2").then_some(places)
}

#[cfg(test)]
impl CgroupRoot {
    /// Creates one below this directory, for this process.
    pub(crate) fn open(home: PathBuf) -> Result<Self, ProbeError> {
        let own = processes::own_key().expect("/proc shows this process");
        Self::create(home, own, CgroupReaper::default(), None)
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    /// A directory that looks like a cgroup, as far as plain files can.
    fn home(name: &str, controllers: &str, members: &str) -> PathBuf {
        let home = std::env::temp_dir().join(format!("cgroup-{name}-{}", getpid()));
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("cgroup.controllers"), controllers).unwrap();
        fs::write(home.join("cgroup.procs"), members).unwrap();
        home
    }

    #[test]
    fn controllers_are_enabled_for_jobs() {
        let home = home("down", "cpu memory hugetlb pids\n", "");
        let root = CgroupRoot::open(home.clone()).unwrap();
        assert_eq!(root.controllers, Ok(Controller::ALL.to_vec()));
        for dir in [&home, &root.dir] {
            assert_eq!(read(dir, "cgroup.subtree_control"), "+memory +pids +cpu");
        }
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn a_host_without_controllers_still_groups_jobs() {
        let home = home("group", "hugetlb\n", "");
        let root = CgroupRoot::open(home.clone()).unwrap();
        let why = root.controllers.unwrap_err();
        assert!(why.contains("none of memory, pids and cpu"), "{why}");
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn a_server_that_is_not_alone_stays_where_it_is() {
        let own = getpid().as_raw_nonzero().get();
        let home = home("alone", "memory", &format!("{own}\n1\n"));
        let dir = home.join("dir");
        fs::create_dir(&dir).unwrap();
        let why = move_down(&home, &dir, None).unwrap_err();
        assert!(why.contains("other processes"), "{why}");
        assert!(!dir.join(SERVER).exists());
        fs::write(home.join("cgroup.procs"), format!("{own}\n")).unwrap();
        move_down(&home, &dir, None).unwrap();
        assert_eq!(read(&dir.join(SERVER), "cgroup.procs"), own.to_string());
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn cgroups_of_a_dead_server_are_removed_and_those_of_a_live_one_are_not() {
        let home = home("stale", "", "");
        let dead = home.join("shellyard-1-1");
        let live = home.join("shellyard-2-2");
        fs::create_dir_all(dead.join("job-1")).unwrap();
        fs::create_dir_all(&live).unwrap();
        let held = File::open(&live).unwrap();
        lock(&held).unwrap();
        // A plain directory with a file in it could not be removed.
        let no_kill_file = |dir: &Path| fs::create_dir(dir.join("cgroup.kill"));
        no_kill_file(&dead).unwrap();
        let reaper = CgroupReaper::default();
        remove_stale(&home, &reaper);
        assert!(!dead.exists() && live.exists());
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn a_cgroup_without_write_access_is_reported() {
        let error = CgroupRoot::open(PathBuf::from("/nowhere")).unwrap_err();
        let is_named = |why: &str| why.contains("/nowhere/cgroup.procs");
        assert!(matches!(&error, ProbeError::Missing(why) if is_named(why)), "{error:?}");
    }

    #[test]
    fn a_shortage_of_files_is_no_answer_about_cgroups() {
        let shortage = refused(Path::new("/nowhere"), &io::Error::from(Errno::MFILE));
        assert_eq!(shortage, ProbeError::NoResources);
    }

    #[test]
    fn only_useful_controllers_are_taken() {
        let named = Controller::named_in("cpuset cpu io memory hugetlb pids rdma misc\n");
        assert_eq!(named, Controller::ALL);
        assert_eq!(Controller::named_in("cpuset memory.x\n"), []);
    }

    #[test]
    fn a_missing_controller_comes_with_advice() {
        let below = PathBuf::from("/x");
        let with = |controllers| Delegation::Controllers { controllers, below: below.clone() };
        assert_eq!(with(vec![Controller::Memory, Controller::Pids]).fix(), None);
        assert!(with(vec![Controller::Pids]).fix().is_some());
        let why = "because".to_owned();
        let grouping = Delegation::Grouping { why: why.clone(), below };
        assert!(grouping.to_string().contains("because") && grouping.fix().is_some());
        let nothing = Delegation::Nothing { why };
        assert!(nothing.to_string().contains("because") && nothing.fix().is_some());
    }

    const PURE: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    const HYBRID: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                          41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const BOUND: &str = "50 40 0:26 /docker/ab /sys/fs/cgroup ro shared:9 - cgroup2 cgroup rw\n";

    #[track_caller]
    fn check(cgroup: &str, mountinfo: &str, expected: Option<&str>) {
        let found = locate_cgroup(cgroup, mountinfo);
        assert_eq!(found.as_deref().ok(), expected.map(Path::new), "{found:?}");
    }

    #[test]
    fn our_cgroup_is_found_in_every_layout() {
        let unit = "0::/system.slice/shellyard.service\n";
        check(unit, PURE, Some("/sys/fs/cgroup/system.slice/shellyard.service"));
        check("4:memory:/x\n0::/\n", HYBRID, Some("/sys/fs/cgroup/unified"));
        check("4:memory:/x\n0::/a/b\n", HYBRID, Some("/sys/fs/cgroup/unified/a/b"));
        check("0::/docker/ab/c\n", BOUND, Some("/sys/fs/cgroup/c"));
        check("0::/docker/ab\n", BOUND, Some("/sys/fs/cgroup"));
    }

    #[test]
    fn a_cgroup_that_is_not_mounted_is_not_found() {
        check("4:memory:/x\n", PURE, None);
        check("0::/\n", "", None);
        check("0::/docker/abc\n", BOUND, None);
        check("0::/other\n", BOUND, None);
        check("0::/../above\n", PURE, None);
    }
}
