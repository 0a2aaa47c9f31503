//! Processes as /proc shows them: their state, their tags, and signals to them. A process that /proc does
//! not show counts as gone. `read_stat` and `may_be_alive` tell it from one that cannot be read for lack of
//! descriptors or memory; the other functions do not.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getpid, getrlimit, kill_process, pidfd_open,
    pidfd_send_signal, prlimit,
};

use crate::syscalls;

/// One process, as /proc/PID/stat shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcStat {
    pub(crate) pid: Pid,
    /// 0 if the parent is outside of our pid namespace.
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    pub(crate) state: ProcessState,
    /// `true` if its first thread uses a processor, or waits for one.
    pub(crate) is_running: bool,
    /// Clock ticks after boot. Together with the pid it identifies a process forever.
    pub(crate) started: u64,
    /// CPU time of the process and of the children that it has waited for.
    pub(crate) cpu_ticks: u64,
    pub(crate) threads: u64,
    pub(crate) rss_pages: u64,
}

/// The state of a process, as far as ending it is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessState {
    /// Running, or asleep and interruptible by a signal.
    Active,
    /// In the kernel, where no signal but SIGKILL reaches it.
    Uninterruptible,
    Stopped,
    /// A zombie, or about to be gone.
    Dead,
}

/// The permanent identity of a process: its pid and its start time.
pub(crate) type ProcessKey = (Pid, u64);

impl ProcStat {
    pub(crate) const fn key(&self) -> ProcessKey {
        (self.pid, self.started)
    }

    pub(crate) const fn is_alive(&self) -> bool {
        !matches!(self.state, ProcessState::Dead)
    }

    pub(crate) fn cpu(&self) -> Duration {
        Duration::from_millis(self.cpu_ticks.saturating_mul(1000 / syscalls::TICKS_PER_SECOND))
    }

    pub(crate) fn rss_bytes(&self) -> u64 {
        self.rss_pages.saturating_mul(syscalls::page_size())
    }

    /// Parses one line of /proc/PID/stat. The name, in parentheses, may contain anything.
    fn parse(line: &str) -> Option<Self> {
        let (pid, rest) = line.split_once(" (")?;
        let (_name, rest) = rest.rsplit_once(") ")?;
        // Field 3 of proc(5), the state, is field 0 here.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<i64>().ok();
        let count = |field: usize| number(field).map(|value| u64::try_from(value).unwrap_or(0));
        let id = |field: usize| number(field).and_then(|value| i32::try_from(value).ok());
        let threads = count(20)?;
        Some(Self {
            pid: Pid::from_raw(pid.parse().ok()?)?,
            parent: id(4)?,
            group: id(5)?,
            session: id(6)?,
            state: ProcessState::from_code(fields.first()?, threads),
            is_running: *fields.first()? == "R",
            started: count(22)?,
            cpu_ticks: count(14)? + count(15)? + count(16)? + count(17)?,
            threads,
            rss_pages: count(24)?,
        })
    }
}

impl ProcessState {
    /// Returns the state for its letter in /proc. A process whose first thread has ended reads as a zombie
    /// while its other threads run on.
    fn from_code(letter: &str, threads: u64) -> Self {
        match letter {
            "Z" if threads > 1 => Self::Active,
            "Z" | "X" | "x" => Self::Dead,
            "T" | "t" => Self::Stopped,
            "D" => Self::Uninterruptible,
            _ => Self::Active,
        }
    }
}

/// Reads the current state of one process; `None` if it is gone or cannot be read now.
pub(crate) fn stat(pid: Pid) -> Option<ProcStat> {
    read_stat(pid).ok().flatten()
}

/// Reads the current state of one process; `None` if it is gone.
///
/// # Errors
/// If there is no file descriptor or no memory for the reading: nothing is known of the process.
pub(crate) fn read_stat(pid: Pid) -> io::Result<Option<ProcStat>> {
    // A line is about 350 bytes; 52 numbers of 20 digits would still fit.
    let mut line = [0; 1536];
    let read = File::open(proc_file(pid, "stat")).and_then(|mut file| file.read(&mut line));
    match read {
        Ok(length) => Ok(ProcStat::parse(&String::from_utf8_lossy(&line[..length]))),
        Err(error) if is_shortage(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// `true` if a file could not be opened for lack of file descriptors or memory.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM].iter().any(|it| code == Some(it.raw_os_error()))
}

/// Returns the pid and the start time of this process.
///
/// # Errors
/// If /proc does not show it.
pub(crate) fn own_key() -> io::Result<ProcessKey> {
    let own = stat(getpid()).map(|stat| stat.key());
    own.ok_or_else(|| io::Error::other("/proc does not show this process"))
}

/// `true` if this very process exists and is not a zombie, or if it cannot be read now.
pub(crate) fn may_be_alive(key: ProcessKey) -> bool {
    match read_stat(key.0) {
        Ok(stat) => stat.is_some_and(|stat| stat.key() == key && stat.is_alive()),
        Err(_) => true,
    }
}

/// Returns the largest resident set that this process itself has had. The value of `getrusage` may
/// be that of the process that started us.
pub(crate) fn own_peak_bytes() -> Option<u64> {
    parse_kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// Returns the memory of a process, each shared page divided by the number of processes that share
/// it. Makes the kernel walk over all of it.
pub(crate) fn proportional_bytes(pid: Pid) -> Option<u64> {
    parse_kilobytes(&fs::read_to_string(proc_file(pid, "smaps_rollup")).ok()?, "Pss:")
}

/// Parses the line of this name, such as `MemTotal:       24567890 kB`. Returns bytes.
pub(crate) fn parse_kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// All visible processes, read one after the other and not at one instant.
#[derive(Debug)]
pub(crate) struct ProcessSnapshot {
    stats: HashMap<Pid, ProcStat>,
    /// `false` if /proc or a process in it could not be read for lack of file descriptors or memory.
    is_complete: bool,
}

impl ProcessSnapshot {
    pub(crate) fn take() -> Self {
        let pids = pids_in_dir("/proc");
        let mut snapshot = Self { stats: HashMap::new(), is_complete: pids.is_ok() };
        for pid in pids.into_iter().flatten() {
            match read_stat(pid) {
                Ok(stat) => snapshot.stats.extend(stat.map(|stat| (stat.pid, stat))),
                Err(_) => snapshot.is_complete = false,
            }
        }
        snapshot.reread_orphans();
        snapshot
    }

    /// Returns the snapshot, or `None` if a process may be missing that was there all the time.
    pub(crate) fn take_complete() -> Option<Self> {
        Some(Self::take()).filter(Self::is_complete)
    }

    /// `true` if no process is missing that was there all the time.
    pub(crate) const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Reads again the processes whose parent ended during the snapshot: they have a new parent by
    /// now.
    fn reread_orphans(&mut self) {
        let has_parent = |stat: &&ProcStat| {
            let parent = Pid::from_raw(stat.parent);
            parent.is_none_or(|pid| self.stats.get(&pid).is_some_and(ProcStat::is_alive))
        };
        let torn: Vec<_> =
            self.stats.values().filter(|stat| !has_parent(stat)).map(|stat| stat.pid).collect();
        for pid in torn {
            match read_stat(pid) {
                Ok(Some(stat)) => drop(self.stats.insert(pid, stat)),
                Ok(None) => drop(self.stats.remove(&pid)),
                Err(_) => self.is_complete = false,
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ProcStat> {
        self.stats.values()
    }

    pub(crate) fn get(&self, pid: Pid) -> Option<&ProcStat> {
        self.stats.get(&pid)
    }

    /// Groups the processes by the pid of their parent.
    pub(crate) fn by_parent(&self) -> HashMap<i32, Vec<&ProcStat>> {
        let mut children: HashMap<i32, Vec<&ProcStat>> = HashMap::new();
        for stat in self.iter() {
            children.entry(stat.parent).or_default().push(stat);
        }
        children
    }

    /// Returns the processes for which `is_root` is true, and all their descendants.
    pub(crate) fn with_descendants(&self, is_root: impl Fn(&ProcStat) -> bool) -> Vec<ProcStat> {
        let mut children = self.by_parent();
        let mut todo: Vec<&ProcStat> = self.iter().filter(|stat| is_root(stat)).collect();
        let mut found = HashSet::new();
        while let Some(stat) = todo.pop() {
            if found.insert(stat.pid) {
                let below = children.remove(&stat.pid.as_raw_nonzero().get());
                todo.extend(below.into_iter().flatten());
            }
        }
        found.into_iter().filter_map(|pid| self.get(pid).copied()).collect()
    }
}

#[cfg(test)]
impl FromIterator<ProcStat> for ProcessSnapshot {
    fn from_iter<I: IntoIterator<Item = ProcStat>>(stats: I) -> Self {
        let stats = stats.into_iter().map(|stat| (stat.pid, stat)).collect();
        Self { stats, is_complete: true }
    }
}

/// Returns the pids of all visible processes.
pub(crate) fn all_pids() -> Vec<Pid> {
    pids_in_dir("/proc").unwrap_or_default()
}

/// Opens the list of the children of a process's main thread.
pub(crate) fn open_child_list(pid: Pid) -> io::Result<File> {
    File::open(child_list_path(pid))
}

/// Reads such a list from its start.
pub(crate) fn read_child_list(list: &File) -> io::Result<Vec<Pid>> {
    let mut text = Vec::new();
    let mut piece = [MaybeUninit::uninit(); 4096];
    loop {
        match rustix::io::pread(list, &mut piece, text.len() as u64)? {
            ([], _) => return Ok(pids_in(&String::from_utf8_lossy(&text))),
            (read, _) => text.extend_from_slice(read),
        }
    }
}

/// Returns the children of a process's main thread: all its children, if it has one thread. An
/// empty list means that there are none.
pub(crate) fn children_of(pid: Pid) -> io::Result<Vec<Pid>> {
    fs::read_to_string(child_list_path(pid)).map(|list| pids_in(&list))
}

fn child_list_path(pid: Pid) -> String {
    format!("/proc/{pid}/task/{pid}/children")
}

fn pids_in(list: &str) -> Vec<Pid> {
    list.split_ascii_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect()
}

/// Returns all children of this process, by a scan of all processes.
pub(crate) fn all_children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get();
    ProcessSnapshot::take().iter().filter(|stat| stat.parent == own).map(|stat| stat.pid).collect()
}

/// `true` if the environment of a process has a variable for which `matches` is true.
pub(crate) fn has_environment_variable(pid: Pid, matches: impl Fn(&[u8]) -> bool) -> bool {
    fs::read(proc_file(pid, "environ")).is_ok_and(|all| all.split(|byte| *byte == 0).any(matches))
}

/// Returns the soft limit on real-time CPU use, which holds the tag.
fn realtime_limit(pid: Pid) -> Option<u64> {
    parse_realtime_limit(&fs::read_to_string(proc_file(pid, "limits")).ok()?)
}

fn parse_realtime_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the path of a process's version 2 cgroup, as the kernel names it.
pub(crate) fn cgroup_path(pid: Pid) -> Option<PathBuf> {
    let cgroups = fs::read_to_string(proc_file(pid, "cgroup")).ok()?;
    cgroups.lines().find_map(|line| line.strip_prefix("0::")).map(PathBuf::from)
}

/// Returns the target of an open file of a process: a path, or a text such as `pipe:[123]`.
pub(crate) fn open_file_target(pid: Pid, number: u32) -> Option<PathBuf> {
    fs::read_link(proc_file(pid, &format!("fd/{number}"))).ok()
}

/// Returns the threads of a process, the first one first.
pub(crate) fn threads_of(pid: Pid) -> Vec<Pid> {
    pids_in_dir(&proc_file(pid, "task")).unwrap_or_default()
}

/// Returns the children that this thread of a process started, and those that passed to it.
pub(crate) fn children_of_thread(pid: Pid, thread: Pid) -> io::Result<Vec<Pid>> {
    let path = proc_file(pid, &format!("task/{thread}/children"));
    fs::read_to_string(path).map(|list| pids_in(&list))
}

fn proc_file(pid: Pid, name: &str) -> String {
    format!("/proc/{pid}/{name}")
}

fn pids_in_dir(directory: &str) -> io::Result<Vec<Pid>> {
    let names = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.file_name()));
    let names: Vec<_> = names.collect::<io::Result<_>>()?;
    let pid = |name: &OsString| Pid::from_raw(name.to_str()?.parse().ok()?);
    Ok(names.iter().filter_map(pid).collect())
}

/// The result of one scan of all trees.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TreeScan {
    /// Every process of every tree, and every orphan that may belong to one.
    pub(crate) processes: HashSet<ProcessKey>,
    /// Orphans without an owner that were ended since the last scan.
    pub ended_orphans: usize,
    /// `true` if every orphan has an owner: unless a new process starts, the next scan finds
    /// nothing new.
    pub is_conclusive: bool,
}

// Signals to processes that were looked up, and the reliable ending of many.

const FREEZE_ROUNDS: u32 = 50;

/// Sends a signal to the very process that was seen, never to a later one with its pid.
pub(crate) fn send_signal(target: &ProcStat, signal: Signal) -> Result<(), Errno> {
    if target.pid == getpid() || target.pid == Pid::INIT {
        return Err(Errno::PERM);
    }
    // The descriptor holds on to one process; if that is the one that was seen, it stays so.
    let process = pidfd_open(target.pid, PidfdFlags::empty())?;
    let now = read_stat(target.pid);
    match now.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))? {
        Some(now) if now.started == target.started => pidfd_send_signal(process, signal),
        Some(_) | None => Err(Errno::SRCH),
    }
}

/// Resumes a stopped process, also without a free file descriptor. In that case the signal goes to the
/// pid, so it may reach a later process that has the same number; SIGCONT does it no harm.
pub(crate) fn resume(target: &ProcStat) -> Result<(), Errno> {
    match send_signal(target, Signal::CONT) {
        Err(error) if is_shortage(&error.into()) => kill_process(target.pid, Signal::CONT),
        sent => sent,
    }
}

/// Stops all processes, in rounds, until a scan finds none that still runs.
pub(crate) fn freeze(find: &impl Fn() -> Vec<ProcStat>) {
    for _ in 0..FREEZE_ROUNDS {
        let found = find();
        let moving = found.iter().filter(|stat| stat.state == ProcessState::Active);
        if moving.filter(|stat| send_signal(stat, Signal::STOP).is_ok()).count() == 0 {
            return;
        }
    }
}

/// Returns the pid with this number, from a message; `None` if it is not valid.
pub(crate) fn parse_pid(number: i32) -> Option<Pid> {
    Some(number).filter(|number| *number > 0).and_then(Pid::from_raw)
}

/// Returns a pid as the unsigned number that other modules use.
pub(crate) fn pid_number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

// Reading of the short files that the kernel prints anew for each reader.

/// More bytes than any of these files has.
const MOST_BYTES: usize = 4096;

/// Reads such a file with one system call: the kernel returns all of it at once. This is called ten
/// times a second, and a file of unknown length would take several calls.
pub(crate) fn read_short_file(path: impl AsRef<Path>) -> io::Result<String> {
    let mut bytes = [MaybeUninit::uninit(); MOST_BYTES];
    let (text, _) = rustix::io::read(File::open(path)?, &mut bytes)?;
    Ok(str::from_utf8(text).map_err(io::Error::other)?.to_owned())
}

/// A number that a tree carries in an inherited resource limit: a server (upper bits) and one of its
/// children (lower bits).
///
/// The soft limit on real-time CPU use (RLIMIT_RTTIME, in microseconds) means nothing to ordinary
/// processes, survives `fork`, `exec`, `setsid` and `env -i`, and can be read for any process. A
/// value of millions of years means nothing to real-time processes either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessTag(u64);

const CHILD_BITS: u32 = 24;
/// A number far above any limit that somebody would set, and below the range of signed readers.
const BASE: u64 = 1 << 62;

impl ProcessTag {
    /// Creates the server's own tag from a random number.
    pub(crate) const fn for_server(random: u64) -> Self {
        Self(BASE | ((random << CHILD_BITS) & (BASE - 1)))
    }

    /// Returns the tag of the server's child with this serial number.
    pub(crate) const fn for_child(self, serial: u32) -> Self {
        let low = (1 << CHILD_BITS) - 1;
        Self((self.0 & !low) | (serial as u64 & low))
    }

    /// Returns the serial number of the child, 0 for the server itself.
    pub(crate) const fn child_serial(self) -> u32 {
        // The mask leaves 24 bits.
        (self.0 & ((1 << CHILD_BITS) - 1)) as u32
    }

    pub(crate) const fn is_server_tag(self) -> bool {
        self.0.trailing_zeros() >= CHILD_BITS
    }

    pub(crate) const fn is_same_server(self, other: Self) -> bool {
        self.0 >> CHILD_BITS == other.0 >> CHILD_BITS
    }

    /// Returns the number that the guardian's command line and the record use.
    pub(crate) const fn to_number(self) -> u64 {
        self.0
    }

    /// Returns the tag with this number, or `None` if the number is not a tag.
    pub(crate) const fn from_number(number: u64) -> Option<Self> {
        if number >> 62 == 1 { Some(Self(number)) } else { None }
    }

    /// Reads the tag that a process carries.
    pub(crate) fn read(pid: Pid) -> Option<Self> {
        realtime_limit(pid).and_then(Self::from_number)
    }

    /// Sets the tag on a process; `None` is this process. Returns `false` if the host does not
    /// allow it.
    pub(crate) fn put_on(self, pid: Option<Pid>) -> bool {
        let maximum = getrlimit(Resource::Rttime).maximum;
        prlimit(pid, Resource::Rttime, Rlimit { current: Some(self.0), maximum }).is_ok()
    }
}

/// The most generations that are examined.
const MAX_DEPTH: usize = 1000;

/// The beginning of the names of all our processes.
const OWN_NAME: &str = "shellyard";

/// The most walks that are tried while ancestors end during one.
const ATTEMPTS: usize = 16;

/// `true` if a process belongs to a job of another server of this program: an ancestor of it runs this
/// program and is not an ancestor of this server, too. A process whose ancestors cannot be read counts
/// as one.
///
/// A server adopts whatever its jobs leave behind, so that a process of a job has the server among its
/// ancestors, also after `setsid` or a double fork. Neither the program nor the name of a server can be
/// changed by its jobs. The program of another server can be read by root alone, since servers cannot
/// be inspected; everybody can read the name.
pub(crate) fn descends_from_program(pid: Pid) -> bool {
    let own = list_ancestors(getpid()).unwrap_or_default();
    let (program, name) = (identify_program("self"), read_name("self"));
    let is_other_server = |ancestor: &Pid| {
        let ancestor = ancestor.to_string();
        let ancestor_name = read_name(&ancestor);
        identify_program(&ancestor).is_some_and(|other| Some(other) == program)
            || ancestor_name.is_some_and(|other| other.starts_with(OWN_NAME) || Some(other) == name)
    };
    let ancestors = (0..ATTEMPTS).find_map(|_| list_ancestors(pid));
    ancestors.is_none_or(|ancestors| {
        ancestors.iter().take_while(|ancestor| !own.contains(ancestor)).any(is_other_server)
    })
}

/// Lists the ancestors of a process, the parent first; `None` if one of them ended meanwhile.
fn list_ancestors(pid: Pid) -> Option<Vec<Pid>> {
    let mut ancestors = Vec::new();
    let mut current = stat(pid)?;
    while current.parent > 1 && ancestors.len() < MAX_DEPTH {
        let parent = stat(Pid::from_raw(current.parent)?)?;
        ancestors.push(parent.pid);
        current = parent;
    }
    Some(ancestors)
}

/// Returns the file name of the program that a process runs, without the sign of a replaced file:
/// another version of this program is this program, too.
fn identify_program(process: &str) -> Option<String> {
    let path = fs::read_link(format!("/proc/{process}/exe")).ok()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(name.trim_end_matches(" (deleted)").to_owned())
}

/// Returns the name of a process, which is that of its program unless the process changed it.
fn read_name(process: &str) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TAIL: &str = "S 7 40 41 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 9911 5000 250 18446744073709551615 1 1";

    #[track_caller]
    fn check_name(name: &str) {
        let stat = ProcStat::parse(&format!("42 ({name}) {TAIL}")).unwrap();
        assert_eq!((stat.pid.as_raw_nonzero().get(), stat.parent), (42, 7), "{name}");
        assert_eq!((stat.group, stat.session, stat.started), (40, 41, 9911), "{name}");
        assert_eq!((stat.cpu_ticks, stat.threads, stat.rss_pages), (100, 1, 250), "{name}");
    }

    #[test]
    fn a_process_name_may_contain_anything() {
        for name in ["cat", "a b", ") Z 1 1", "((", "", "x) R 1 (y", "tab\tnew\nline"] {
            check_name(name);
        }
    }

    #[test]
    fn a_process_is_alive_while_any_of_its_threads_runs() {
        for (threads, lives) in [(1, false), (2, true)] {
            let tail =
                TAIL.replace("S 7", "Z 7").replace(" 1 0 9911", &format!(" {threads} 0 9911"));
            assert_eq!(
                ProcStat::parse(&format!("42 (x) {tail}")).unwrap().is_alive(),
                lives,
                "{threads}"
            );
        }
    }

    #[test]
    fn a_truncated_line_is_not_a_process() {
        for line in ["", "42", "42 (cat", "42 (cat) S 1 2", "x (cat) S 1 2 3", "0 (cat) S"] {
            assert_eq!(ProcStat::parse(line), None, "{line}");
        }
    }

    #[test]
    fn this_process_is_seen_alive() {
        let own = stat(getpid()).unwrap();
        assert!(own.is_alive() && own.rss_pages > 0);
        assert!(ProcessSnapshot::take().iter().any(|stat| stat.pid == own.pid));
    }

    #[test]
    fn shared_memory_is_divided() {
        let rollup =
            "5581f000-7ffd ---p 0 00:00 0 [rollup]\nRss:  900 kB\nPss:  300 kB\nPss_Anon: 7 kB\n";
        assert_eq!(parse_kilobytes(rollup, "Pss:"), Some(300 * 1024));
        assert_eq!(parse_kilobytes("Rss: 900 kB\n", "Pss:"), None);
        assert!(proportional_bytes(getpid()).is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn the_tag_is_found_among_the_limits() {
        let limits = "Limit  Soft  Hard  Units\nMax realtime priority  0  0\nMax realtime timeout      4611686018427387905  unlimited            us\n";
        assert_eq!(parse_realtime_limit(limits), Some(4_611_686_018_427_387_905));
        assert_eq!(parse_realtime_limit("Max realtime timeout  unlimited unlimited us\n"), None);
    }

    #[test]
    fn a_whole_file_is_read_by_one_call() {
        for path in ["/proc/meminfo", "/proc/loadavg"] {
            let (short, whole) =
                (read_short_file(path).unwrap(), fs::read_to_string(path).unwrap());
            assert_eq!(short.lines().count(), whole.lines().count(), "{path}");
            assert!(short.ends_with('\n'), "{short}");
        }
        assert_eq!(read_short_file("/proc/none").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    proptest! {
        #[test]
        fn children_share_their_server_and_nothing_else(random: u64, a in 1_u32..1 << 24, b in 1_u32..1 << 24) {
            let server = ProcessTag::for_server(random);
            let first = server.for_child(a);
            let second = server.for_child(b);
            prop_assert!(server.is_server_tag() && !first.is_server_tag());
            prop_assert!(first.is_same_server(second) && first.is_same_server(server));
            prop_assert_eq!(first == second, a == b);
            prop_assert_eq!(ProcessTag::from_number(first.to_number()), Some(first));
        }
    }

    #[test]
    fn an_ordinary_limit_is_not_a_tag() {
        for number in [0, 1, 200_000, 1 << 50, u64::MAX] {
            assert_eq!(ProcessTag::from_number(number), None, "{number}");
        }
    }

    #[test]
    fn ancestors_of_this_process_are_listed_from_the_parent_on() {
        let ancestors = list_ancestors(getpid()).unwrap();
        let parent = rustix::process::getppid().filter(|parent| !parent.is_init());
        assert_eq!(ancestors.first().copied(), parent);
        assert!(identify_program("self").is_some());
        assert_eq!(identify_program("0"), None);
    }

    #[test]
    fn a_child_of_this_program_counts_as_a_job_and_its_ancestors_do_not() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(descends_from_program(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        for ancestor in list_ancestors(getpid()).unwrap() {
            assert!(!descends_from_program(ancestor), "{ancestor}");
        }
    }
}
