//! Processes as /proc shows them: their state, their children and their ancestors. A process that /proc
//! does not show counts as gone. `read_stat` tells it from one that cannot be read for lack of descriptors
//! or memory; the other functions do not.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, getpid};

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

/// Returns the pids of all visible processes.
pub(crate) fn all_pids() -> Vec<Pid> {
    pids_in_dir("/proc").unwrap_or_default()
}

/// Returns the children that a process has now, whichever of its threads started them, and those that
/// passed to it.
pub(crate) fn children_of(pid: Pid) -> Vec<Pid> {
    let list = |thread: Pid| fs::read_to_string(proc_file(pid, &format!("task/{thread}/children")));
    let lists: Vec<_> = threads_of(pid).into_iter().map(list).collect();
    // Some kernels are built without these lists.
    let is_missing = |list: &io::Result<String>| {
        list.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    if !lists.is_empty() && lists.iter().all(is_missing) {
        return find_children(pid);
    }
    lists.into_iter().flatten().flat_map(|list| pids_in(&list)).collect()
}

/// Finds the children of a process by their parent, among all processes.
fn find_children(pid: Pid) -> Vec<Pid> {
    let is_child =
        |child: &Pid| stat(*child).is_some_and(|stat| stat.parent == pid.as_raw_nonzero().get());
    all_pids().into_iter().filter(is_child).collect()
}

fn pids_in(list: &str) -> Vec<Pid> {
    list.split_ascii_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect()
}

/// Returns the target of an open file of a process: a path, or a text such as `pipe:[123]`.
pub(crate) fn open_file_target(pid: Pid, number: u32) -> Option<PathBuf> {
    fs::read_link(proc_file(pid, &format!("fd/{number}"))).ok()
}

/// Returns the threads of a process, the first one first.
pub(crate) fn threads_of(pid: Pid) -> Vec<Pid> {
    pids_in_dir(&proc_file(pid, "task")).unwrap_or_default()
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

/// The most generations that are examined.
const MAX_DEPTH: usize = 1000;

/// The beginning of the names of all our processes.
const OWN_NAME: &str = "shellyard";

/// The most walks that are tried while ancestors end during one.
const ATTEMPTS: usize = 16;

/// `true` if a process belongs to a job of any server of this program: an ancestor of it runs this
/// program and is not an ancestor of this server, too. A process whose ancestors cannot be read counts
/// as one.
///
/// A process of a job has its shim and the keeper among its ancestors, also after `setsid` or a double
/// fork. No job can change their program or their names. Their program can be read by root alone, since
/// they cannot be inspected; everybody can read the name.
pub(crate) fn descends_from_program(pid: Pid) -> bool {
    let own = list_ancestors(getpid()).unwrap_or_default();
    let (program, name) = (identify_program("self"), read_name("self"));
    let is_this_program = |ancestor: &Pid| {
        let ancestor = ancestor.to_string();
        let ancestor_name = read_name(&ancestor);
        identify_program(&ancestor).is_some_and(|other| Some(other) == program)
            || ancestor_name.is_some_and(|other| other.starts_with(OWN_NAME) || Some(other) == name)
    };
    let ancestors = (0..ATTEMPTS).find_map(|_| list_ancestors(pid));
    ancestors.is_none_or(|ancestors| {
        ancestors.iter().take_while(|ancestor| !own.contains(ancestor)).any(is_this_program)
    })
}

/// Lists the ancestors of a process, the parent first; `None` if one of them ended meanwhile.
pub(crate) fn list_ancestors(pid: Pid) -> Option<Vec<Pid>> {
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
        assert!(all_pids().contains(&own.pid));
        assert_eq!(own_key().unwrap(), own.key());
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
    fn a_whole_file_is_read_by_one_call() {
        for path in ["/proc/meminfo", "/proc/loadavg"] {
            let (short, whole) =
                (read_short_file(path).unwrap(), fs::read_to_string(path).unwrap());
            assert_eq!(short.lines().count(), whole.lines().count(), "{path}");
            assert!(short.ends_with('\n'), "{short}");
        }
        assert_eq!(read_short_file("/proc/none").unwrap_err().kind(), ErrorKind::NotFound);
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
    fn children_are_found_with_and_without_lists_of_the_kernel() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(children_of(getpid()).contains(&pid));
        assert!(find_children(getpid()).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
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
