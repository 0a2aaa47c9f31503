//! The cgroup of one job: created or reused, then kept for another job or removed once it is empty.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::confinement::ResourceLimits;
use crate::handover::{HandoverFlag, SavedPath};

/// A controller that is useful for jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// The controller that limits memory.
    Memory,
    /// The controller that limits the number of tasks.
    Pids,
    /// The controller that gives each job, and the server, the same share of the processors.
    Cpu,
}

impl Controller {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Pids, Self::Cpu];

    /// Returns the kernel's name for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }

    /// Returns the controllers that a file such as `cgroup.controllers` names.
    pub(crate) fn named_in(list: &str) -> Vec<Self> {
        let is_named = |it: &Self| list.split_ascii_whitespace().any(|word| word == it.word());
        Self::ALL.into_iter().filter(is_named).collect()
    }
}

/// The link count of a cgroup directory without children: itself and its name in its parent.
const LINKS_WITHOUT_CHILDREN: u64 = 2;

/// The cgroup of one job. On drop it is kept for another job if it is certainly empty and has no
/// limits; otherwise it is removed as soon as it is empty.
#[derive(Debug)]
pub(crate) struct JobCgroup {
    dir: PathBuf,
    /// The limits that the kernel enforces through it.
    enforced: ResourceLimits,
    history: CgroupHistory,
    /// The pool that may take it afterwards; `None` if limits are written into cgroups.
    pool: Option<Arc<IdleCgroups>>,
    reaper: CgroupReaper,
    /// `true` if the job was seen to have left it unchanged.
    vacated: AtomicBool,
}

/// The description of a job's cgroup that lets the next server take it over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedCgroup {
    pub(crate) dir: SavedPath,
    /// The limits that the kernel enforces through it.
    memory: Option<u64>,
    processes: Option<u64>,
    /// `true` if its statistics cover other jobs too.
    is_shared: bool,
}

/// The jobs that the kernel's statistics of a cgroup cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CgroupHistory {
    ThisJob,
    OthersToo,
}

impl JobCgroup {
    /// Takes this directory, which goes to the pool afterwards, if there is one.
    pub(crate) const fn new(
        dir: PathBuf,
        history: CgroupHistory,
        pool: Option<Arc<IdleCgroups>>,
        reaper: CgroupReaper,
    ) -> Self {
        let enforced = ResourceLimits::NONE;
        Self { dir, enforced, history, pool, reaper, vacated: AtomicBool::new(false) }
    }

    /// Describes the cgroup for the next server.
    pub(crate) fn save(&self) -> SavedCgroup {
        SavedCgroup {
            dir: self.dir.as_path().into(),
            memory: self.enforced.memory,
            processes: self.enforced.processes,
            is_shared: self.history == CgroupHistory::OthersToo,
        }
    }

    /// Takes over the cgroup of a job that an earlier server started. It is not used again for
    /// another job.
    pub(crate) fn restore(saved: SavedCgroup, reaper: CgroupReaper) -> Self {
        let SavedCgroup { dir, memory, processes, is_shared } = saved;
        Self {
            dir: dir.into(),
            enforced: ResourceLimits { memory, processes, ..ResourceLimits::NONE },
            history: if is_shared { CgroupHistory::OthersToo } else { CgroupHistory::ThisJob },
            pool: None,
            reaper,
            vacated: AtomicBool::new(false),
        }
    }

    pub(crate) fn set_limits(&mut self, controller: Controller, limits: &ResourceLimits) {
        match (controller, limits.memory, limits.processes) {
            (Controller::Memory, Some(bytes), _) => {
                let is_set = self.write("memory.max", &bytes.to_string());
                self.enforced.memory = is_set.then_some(bytes);
                // If the kernel lacks these files, a job may swap, or lose only some of its
                // processes.
                self.write("memory.swap.max", "0");
                self.write("memory.oom.group", "1");
            }
            (Controller::Pids, _, Some(tasks)) => {
                let is_set = self.write("pids.max", &tasks.to_string());
                self.enforced.processes = is_set.then_some(tasks);
            }
            (Controller::Memory | Controller::Pids | Controller::Cpu, _, _) => {}
        }
    }

    /// Opens its directory: a process is created as a member there, or becomes one by writing `0`
    /// to `cgroup.procs`. The directory is not kept open, since there may be thousands of jobs.
    pub(crate) fn open(&self) -> Result<OwnedFd, Errno> {
        open(&self.dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    /// Notes whether the job left it empty and unchanged, for another job.
    pub(crate) fn check_vacated(&self) {
        let Ok(events) = self.read_events() else { return };
        let is_empty = read_field(&events, "populated") == Some(0);
        // A job can freeze its own cgroup: the next job would not run.
        let is_as_before =
            is_empty && read_field(&events, "frozen").is_none_or(|frozen| frozen == 0);
        self.vacated.store(is_as_before, Ordering::Relaxed);
    }

    /// Returns those of these limits that it does not enforce.
    pub(crate) fn unenforced_limits(&self, limits: &ResourceLimits) -> ResourceLimits {
        ResourceLimits {
            memory: limits.memory.filter(|_| self.enforced.memory.is_none()),
            processes: limits.processes.filter(|_| self.enforced.processes.is_none()),
            ..*limits
        }
    }

    /// Returns its processes and threads; one more than the limit if the kernel refused one because
    /// of the limit.
    pub(crate) fn tasks(&self) -> Option<u64> {
        let Some(limit) = self.enforced.processes else {
            return Some(self.read("cgroup.threads")?.lines().count() as u64);
        };
        match self.refused_tasks() {
            0 => self.read("pids.current")?.trim().parse().ok(),
            1.. => Some(limit.saturating_add(1)),
        }
    }

    /// Returns how often the kernel refused a new task because of the limit.
    pub(crate) fn refused_tasks(&self) -> u64 {
        let events = self.enforced.processes.and_then(|_| self.read("pids.events"));
        events.and_then(|events| read_field(&events, "max")).unwrap_or(0)
    }

    /// Returns the peak of its memory, if the kernel killed it for lack of memory.
    pub(crate) fn out_of_memory(&self) -> Option<u64> {
        let limit = self.enforced.memory?;
        let kills = read_field(&self.read("memory.events")?, "oom_kill")?;
        // Kernels before 5.19 do not report the peak; it was the limit.
        let peak = self.read("memory.peak").and_then(|text| text.trim().parse().ok());
        (kills > 0).then(|| peak.unwrap_or(limit))
    }

    /// Returns the CPU time of everything that was ever in it; `None` if that was not this job
    /// alone.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        if self.history == CgroupHistory::OthersToo {
            return None;
        }
        parse_cpu_stat(&self.read("cpu.stat")?)
    }

    /// Reads with one call: this happens at the end of every job, and the file has two short lines.
    fn read_events(&self) -> io::Result<String> {
        let mut text = [0; 256];
        let length = File::open(self.dir.join("cgroup.events"))?.read(&mut text)?;
        Ok(String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned())
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.dir.join(file)).ok()
    }

    fn write(&self, file: &str, text: &str) -> bool {
        fs::write(self.dir.join(file), text).is_ok()
    }
}

impl Drop for JobCgroup {
    fn drop(&mut self) {
        if self.reaper.handover.is_set() {
            return;
        }
        let is_fit = *self.vacated.get_mut();
        let has_no_children =
            || fs::metadata(&self.dir).is_ok_and(|dir| dir.nlink() == LINKS_WITHOUT_CHILDREN);
        let pool = self.pool.take().filter(|_| is_fit && has_no_children());
        let dir = std::mem::take(&mut self.dir);
        let refused = match pool {
            Some(idle) => idle.keep(dir),
            None => Err(dir),
        };
        if let Err(dir) = refused {
            self.reaper.remove(dir);
        }
    }
}

/// Returns the directories in a directory, without symlinks.
pub(crate) fn directories_in(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|it| it.path())
}

/// Parses the CPU time in `cpu.stat`.
pub(crate) fn parse_cpu_stat(stat: &str) -> Option<Duration> {
    read_field(stat, "usage_usec").map(Duration::from_micros)
}

/// Returns the number after a name, in files with a name and a number on each line.
fn read_field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(found, _)| *found == name)?.1.trim().parse().ok()
}

// Cgroups that jobs have left, kept for others: creating one costs as much as a tenth of a process.

const MAX_IDLE: usize = 64;

/// Empty cgroups without limits.
#[derive(Debug, Default)]
pub(crate) struct IdleCgroups {
    dirs: Mutex<Vec<PathBuf>>,
}

impl IdleCgroups {
    pub(crate) fn take(&self) -> Option<PathBuf> {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a cgroup, or returns it if there are enough.
    pub(crate) fn keep(&self, dir: PathBuf) -> Result<(), PathBuf> {
        let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        if dirs.len() >= MAX_IDLE {
            return Err(dir);
        }
        dirs.push(dir);
        Ok(())
    }

    /// Forgets all of them: they are about to be removed.
    pub(crate) fn clear(&self) {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

// The removal of cgroups, which is possible only after the last process has left.

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Removes cgroups in the background while processes leave them. A clone is the same reaper.
#[derive(Debug, Clone, Default)]
pub(crate) struct CgroupReaper {
    pending: Arc<Mutex<PendingCgroups>>,
    /// The flag that is set once the next server takes over the jobs.
    handover: HandoverFlag,
}

#[derive(Debug, Default)]
struct PendingCgroups {
    dirs: Vec<PathBuf>,
    /// `true` while a thread works on them.
    has_worker: bool,
}

impl CgroupReaper {
    pub(crate) fn new(handover: HandoverFlag) -> Self {
        Self { pending: Arc::default(), handover }
    }

    /// Removes a cgroup with all below it: at once, or in the background while processes leave it.
    pub(crate) fn remove(&self, dir: PathBuf) {
        if try_remove_tree(&dir) {
            return;
        }
        let mut pending = self.lock_pending();
        pending.dirs.push(dir);
        if !pending.has_worker {
            let reaper = self.clone();
            let work = move || reaper.remove_pending();
            let thread = thread::Builder::new().name("cgroup-reaper".to_owned()).spawn(work);
            // Without a thread the next removal tries again.
            pending.has_worker = thread.is_ok();
        }
    }

    fn remove_pending(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
            let mut pending = self.lock_pending();
            pending.dirs.retain(|dir| !try_remove_tree(dir));
            if pending.dirs.is_empty() {
                pending.has_worker = false;
                return;
            }
        }
    }

    fn lock_pending(&self) -> MutexGuard<'_, PendingCgroups> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tries once to remove a cgroup with all below it. Returns `true` if it no longer exists.
pub(crate) fn try_remove_tree(dir: &Path) -> bool {
    if try_remove(dir) {
        return true;
    }
    for below in directories_in(dir) {
        try_remove_tree(&below);
    }
    try_remove(dir)
}

fn try_remove(dir: &Path) -> bool {
    match fs::remove_dir(dir) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::thread;
    use std::time::Instant;

    use super::*;
    use crate::cgroup::CgroupRoot;
    use crate::host::host;

    const LIMITS: ResourceLimits =
        ResourceLimits { memory: Some(1 << 30), processes: Some(64), ..ResourceLimits::NONE };

    /// A cgroup below a plain directory, where only our own writes can be seen.
    fn plain(name: &str, controllers: &[Controller]) -> (JobCgroup, PathBuf) {
        let (home, root) = plain_root(name, controllers);
        (root.create_job(&LIMITS).unwrap(), home)
    }

    fn plain_root(name: &str, controllers: &[Controller]) -> (PathBuf, CgroupRoot) {
        let home = std::env::temp_dir().join(format!("job-cgroup-{name}-{}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("cgroup.procs"), "").unwrap();
        let words: Vec<_> = controllers.iter().map(|it| it.word()).collect();
        fs::write(home.join("cgroup.controllers"), words.join(" ")).unwrap();
        let root = CgroupRoot::open(home.clone()).unwrap();
        (home, root)
    }

    #[test]
    fn limits_are_written_if_their_controllers_are_enabled() {
        let (cgroup, home) = plain("all", &Controller::ALL);
        for (file, text) in [
            ("memory.max", "1073741824"),
            ("memory.swap.max", "0"),
            ("memory.oom.group", "1"),
            ("pids.max", "64"),
        ] {
            assert_eq!(cgroup.read(file).as_deref(), Some(text), "{file}");
        }
        assert_eq!(cgroup.unenforced_limits(&LIMITS), ResourceLimits::NONE);
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn limits_without_a_controller_are_left_to_others() {
        let (cgroup, home) = plain("some", &[Controller::Pids]);
        let rest = ResourceLimits { processes: None, ..LIMITS };
        assert_eq!(cgroup.unenforced_limits(&LIMITS), rest);
        assert_eq!(cgroup.read("memory.max"), None);
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn only_an_out_of_memory_kill_is_reported_as_one() {
        let (cgroup, home) = plain("oom", &Controller::ALL);
        assert_eq!(cgroup.out_of_memory(), None);
        assert!(cgroup.write("memory.events", "low 0\nmax 9\noom 0\noom_kill 0\n"));
        assert_eq!(cgroup.out_of_memory(), None);
        assert!(cgroup.write("memory.events", "low 0\nmax 9\noom 1\noom_kill 3\n"));
        assert_eq!(cgroup.out_of_memory(), Some(1 << 30), "no peak is reported");
        assert!(cgroup.write("memory.peak", "1073000000\n"));
        assert_eq!(cgroup.out_of_memory(), Some(1_073_000_000));
        assert!(cgroup.write("cpu.stat", "usage_usec 2500000\nuser_usec 1\n"));
        assert_eq!(cgroup.cpu(), Some(Duration::from_millis(2500)));
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn a_task_that_the_kernel_refused_counts() {
        let (cgroup, home) = plain("refused", &[Controller::Pids]);
        assert_eq!((cgroup.tasks(), cgroup.refused_tasks()), (None, 0));
        assert!(cgroup.write("pids.current", "7\n") && cgroup.write("pids.events", "max 0\n"));
        assert_eq!((cgroup.tasks(), cgroup.refused_tasks()), (Some(7), 0));
        assert!(cgroup.write("pids.events", "max 3\n"));
        assert_eq!((cgroup.tasks(), cgroup.refused_tasks()), (Some(65), 3));
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn without_a_controller_threads_are_counted() {
        let (cgroup, home) = plain("threads", &[]);
        assert!(cgroup.write("cgroup.threads", "12\n14\n15\n"));
        assert_eq!((cgroup.tasks(), cgroup.refused_tasks()), (Some(3), 0));
        fs::remove_dir_all(home).unwrap();
    }

    /// Runs shell text in a cgroup, which the new process enters by itself.
    fn run_in(cgroup: &JobCgroup, text: &str) -> Child {
        let entrance = File::create(cgroup.dir.join("cgroup.procs")).unwrap();
        let text = format!("echo 0 >&0 && exec 0</dev/null; {text}");
        Command::new("bash").args(["-c", &text]).stdin(Stdio::from(entrance)).spawn().unwrap()
    }

    fn wait_until(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < deadline, "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills every process in a real cgroup.
    fn kill(cgroup: &JobCgroup) {
        assert!(cgroup.write("cgroup.kill", "1"));
    }

    fn is_vacated(cgroup: &JobCgroup) -> bool {
        cgroup.check_vacated();
        cgroup.vacated.load(Ordering::Relaxed)
    }

    fn members(dir: &Path) -> usize {
        fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default().lines().count()
    }

    /// Uses real cgroups, if this host lets us create any.
    #[test]
    fn a_real_cgroup_kills_all_members_and_is_removed() {
        // With a limit on CPU time none is reused: its statistics must cover this job alone.
        let Some(cgroup) = host()
            .cgroups()
            .create_job(&ResourceLimits { cpu: Some(Duration::from_secs(60)), ..LIMITS })
        else {
            let delegation = host().cgroups().delegation();
            assert!(
                matches!(delegation, crate::cgroup::Delegation::Nothing { .. }),
                "{delegation}"
            );
            return;
        };
        let dir = cgroup.dir.clone();
        let mut leader = run_in(&cgroup, "(setsid sleep 300 &) ; setsid sleep 300 & wait");
        wait_until("all three are in it", || members(&dir) == 3);
        assert!(cgroup.cpu().is_some_and(|cpu| !cpu.is_zero()));
        kill(&cgroup);
        wait_until("it is empty", || members(&dir) == 0);
        leader.wait().unwrap();
        drop(cgroup);
        wait_until("it is removed", || !dir.exists());
    }

    #[test]
    fn a_real_cgroup_with_members_is_removed_once_it_is_empty() {
        let Some(cgroup) = host().cgroups().create_job(&LIMITS) else { return };
        let dir = cgroup.dir.clone();
        let mut leader = run_in(&cgroup, "exec sleep 300");
        wait_until("it is in it", || members(&dir) == 1);
        drop(cgroup);
        assert!(dir.exists());
        leader.kill().unwrap();
        leader.wait().unwrap();
        wait_until("it is removed", || !dir.exists());
    }

    /// A real cgroup with its own pool, if this host lets us create any.
    fn reusable() -> Option<(JobCgroup, Arc<IdleCgroups>)> {
        let idle = Arc::<IdleCgroups>::default();
        let pool = Some(Arc::clone(&idle));
        let mut cgroup = host().cgroups().create_job(&ResourceLimits::NONE)?;
        cgroup.pool = pool;
        Some((cgroup, idle))
    }

    #[test]
    fn an_unchanged_cgroup_is_kept_for_another_job() {
        let Some((cgroup, idle)) = reusable() else { return };
        let dir = cgroup.dir.clone();
        run_in(&cgroup, "true").wait().unwrap();
        wait_until("it is left", || is_vacated(&cgroup));
        drop(cgroup);
        assert_eq!(idle.take(), Some(dir.clone()));
        assert_eq!(idle.take(), None, "and for one only");
        assert_eq!(members(&dir), 0);
        assert!(try_remove_tree(&dir));
    }

    #[test]
    fn a_cgroup_with_survivors_is_not_kept() {
        let Some((cgroup, idle)) = reusable() else { return };
        let dir = cgroup.dir.clone();
        run_in(&cgroup, "setsid sleep 300 >/dev/null 2>&1 & exit").wait().unwrap();
        assert!(!is_vacated(&cgroup));
        kill(&cgroup);
        drop(cgroup);
        assert_eq!(idle.take(), None);
        wait_until("it is removed", || !dir.exists());
    }

    #[test]
    fn a_cgroup_that_was_changed_or_not_checked_is_not_kept() {
        let changes: [fn(&JobCgroup); 3] = [
            |cgroup| fs::create_dir(cgroup.dir.join("below")).unwrap(),
            |cgroup| assert!(cgroup.write("cgroup.freeze", "1")),
            |_| {},
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let Some((cgroup, idle)) = reusable() else { return };
            let dir = cgroup.dir.clone();
            change(&cgroup);
            if number < 2 {
                cgroup.check_vacated();
            }
            drop(cgroup);
            assert_eq!(idle.take(), None, "change {number}");
            wait_until("it is removed", || !dir.exists());
        }
    }

    #[test]
    fn the_statistics_of_a_reused_cgroup_are_not_reported_for_a_job() {
        let (home, root) = plain_root("books", &[]);
        let dir = root.dir.join("job-0");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("cpu.stat"), "usage_usec 2500000\n").unwrap();
        root.idle.keep(dir.clone()).unwrap();
        let with_cpu = ResourceLimits { cpu: Some(Duration::from_secs(9)), ..LIMITS };
        let fresh = root.create_job(&with_cpu).unwrap();
        assert_ne!(fresh.dir, dir, "its CPU time is counted");
        let used = root.create_job(&LIMITS).unwrap();
        assert_eq!((&used.dir, used.cpu()), (&dir, None));
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn the_number_of_kept_cgroups_is_bounded() {
        let idle = IdleCgroups::default();
        let kept = (0..200).filter(|number| idle.keep(PathBuf::from(number.to_string())).is_ok());
        let kept = kept.count();
        assert!((1..200).contains(&kept), "{kept}");
        idle.clear();
        assert_eq!(idle.take(), None);
    }

    #[test]
    fn a_cgroup_that_is_in_use_is_removed_later() {
        let dir = std::env::temp_dir().join(format!("cgroup-reaper-{}", std::process::id()));
        fs::create_dir_all(dir.join("below")).unwrap();
        fs::write(dir.join("below/process"), "").unwrap();
        CgroupReaper::default().remove(dir.clone());
        assert!(dir.join("below").exists(), "a process is in it");
        fs::remove_file(dir.join("below/process")).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while dir.exists() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!dir.exists());
    }
}
