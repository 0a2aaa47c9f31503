//! The activity of the processes of a tree: the resources that they use, their commands, and whether they
//! wait for input.
//!
//! A process waits for input if it is blocked in a system call that returns when its terminal or its
//! standard input has something to read. The kernel shows the call and its arguments in
//! /proc/PID/task/TID/syscall, to those who may trace the process. A process of another user (`sudo`),
//! or one that protects its memory, shows neither that nor its files; [`judge_hidden`] decides by what
//! is left.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::processes::{self, ProcStat, ProcessState, pid_number};

/// The activity of a tree at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeActivity {
    /// The number of its processes that are alive.
    pub processes: usize,
    /// CPU time of those and of the children that they waited for.
    pub cpu: Duration,
    /// Memory of those, with shared pages counted in each.
    pub rss_bytes: u64,
    /// The highest certainty that one of them waits for our input.
    pub input_wait: InputWait,
}

/// The part of a tree's activity that shows whether it waits for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InputActivity {
    /// The highest certainty that one of its processes waits for our input.
    pub input_wait: InputWait,
    /// CPU time of its processes and of the children that they waited for.
    pub cpu: Duration,
}

/// The resources that one tree uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeLoad {
    /// Processes and threads that are alive.
    pub tasks: u64,
    /// CPU time of its processes and of the children that they waited for.
    pub cpu: Duration,
    /// Memory of its processes, with shared pages counted in each.
    pub rss_bytes: u64,
    members: Vec<ProcStat>,
}

impl TreeLoad {
    /// Returns the memory of its processes, with shared pages counted once. Makes the kernel walk
    /// over all of it, so call it only if [`TreeLoad::rss_bytes`] is too much. Calls `has_time`
    /// before each process; `None` if there was no time left.
    #[must_use]
    pub fn proportional_bytes(&self, has_time: impl Fn() -> bool) -> Option<u64> {
        let bytes = |stat: &ProcStat| {
            // For another user's process only the plain figure can be read.
            let bytes = || processes::proportional_bytes(stat.pid);
            has_time().then(|| bytes().unwrap_or_else(|| stat.rss_bytes()))
        };
        self.members.iter().map(bytes).sum()
    }

    pub(crate) fn from_members(members: &[ProcStat]) -> Self {
        let mut load = Self::default();
        members.iter().for_each(|stat| load.add(stat));
        load
    }

    fn add(&mut self, stat: &ProcStat) {
        // The usage of a zombie is not counted in its parent until it is waited for.
        self.cpu += stat.cpu();
        if stat.is_alive() {
            self.tasks += stat.threads;
            self.rss_bytes += stat.rss_bytes();
            self.members.push(*stat);
        }
    }
}

/// Bytes of a command line that are read.
const COMMAND_BYTES: u64 = 1024;

/// One living process of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// The process id, as the server sees it.
    pub pid: u32,
    /// The process id of its parent; 0 if that is outside of the server's namespace.
    pub parent: u32,
    /// Its arguments, separated by blanks; the beginning of a long command. Empty if it has none or
    /// has ended meanwhile.
    pub command: String,
    /// CPU time of the process and of the children that it waited for.
    pub cpu: Duration,
    /// Its resident memory, shared pages included.
    pub rss_bytes: u64,
}

impl ProcessInfo {
    pub(crate) fn read(stat: &ProcStat) -> Self {
        let pid = pid_number(stat.pid);
        Self {
            pid,
            parent: u32::try_from(stat.parent).unwrap_or(0),
            command: read_command(pid),
            cpu: stat.cpu(),
            rss_bytes: stat.rss_bytes(),
        }
    }
}

fn read_command(pid: u32) -> String {
    let mut bytes = Vec::new();
    let file = File::open(format!("/proc/{pid}/cmdline"));
    // A process that has ended has no command any more.
    file.and_then(|file| file.take(COMMAND_BYTES).read_to_end(&mut bytes)).ok();
    format_command(&bytes)
}

/// Formats arguments that each end with a zero byte.
fn format_command(arguments: &[u8]) -> String {
    let text = String::from_utf8_lossy(arguments);
    text.trim_end_matches('\0').replace('\0', " ")
}

/// The certainty that a process waits for input, in increasing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum InputWait {
    /// It does something else.
    #[default]
    No,
    /// It sleeps in the foreground of the terminal, and the kernel does not show why.
    Hidden,
    /// It waits for input or for the network, like `ssh`: for which of them, only its output tells.
    InputOrNetwork,
    /// It polls its input, perhaps beside other files, or reads it with one of several threads.
    Polls,
    /// It reads its input with its only thread: nothing else ends this call, and it does nothing
    /// else.
    Reads,
}

/// The most threads of a process that are looked at.
const MAX_THREADS: usize = 64;

/// The most files of one call that are looked at.
const MAX_FILES: u64 = 1024;

/// Returns how certainly a process waits for one of `inputs`, the names of its input in
/// /proc/PID/fd.
pub(crate) fn read_input_wait(
    stat: &ProcStat,
    inputs: &[PathBuf],
    has_children: bool,
) -> InputWait {
    if inputs.is_empty() || stat.state != ProcessState::Active {
        return InputWait::No;
    }
    let threads = processes::threads_of(stat.pid);
    let activities = threads.into_iter().take(MAX_THREADS).map(|thread| {
        match fs::read_to_string(format!("/proc/{}/task/{thread}/syscall", stat.pid)) {
            Ok(call) if call.trim_end() == RUNNING => ThreadActivity::Runs,
            Ok(call) => ThreadActivity::Sleeps(
                BlockedCall::parse(&call)
                    .map_or(InputWait::No, |call| judge_call(stat.pid, call, inputs)),
            ),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let process = HiddenProcess::read(stat, inputs, has_children);
                ThreadActivity::Sleeps(judge_hidden(&process))
            }
            Err(_) => ThreadActivity::Sleeps(InputWait::No),
        }
    });
    judge_threads(&activities.collect::<Vec<_>>())
}

/// The content of /proc/PID/task/TID/syscall of a thread that is not blocked.
const RUNNING: &str = "running";

/// The activity of one thread of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThreadActivity {
    Runs,
    Sleeps(InputWait),
}

/// Judges a process by its threads. A program with several of them may take input with one while
/// another works, so a blocked read is certain only for a single thread.
fn judge_threads(threads: &[ThreadActivity]) -> InputWait {
    let mut found = InputWait::No;
    for thread in threads {
        match *thread {
            ThreadActivity::Runs => return InputWait::No,
            ThreadActivity::Sleeps(wait) => found = found.max(wait),
        }
    }
    if threads.len() > 1 { found.min(InputWait::Polls) } else { found }
}

/// Judges a blocked call by the files that it waits for.
fn judge_call(pid: Pid, call: BlockedCall, inputs: &[PathBuf]) -> InputWait {
    let files = call.read_files(pid);
    let is_input = |file: &u32| {
        processes::open_file_target(pid, *file).is_some_and(|target| inputs.contains(&target))
    };
    let (ours, others): (Vec<u32>, Vec<u32>) = files.into_iter().partition(is_input);
    match call {
        _ if ours.is_empty() => InputWait::No,
        BlockedCall::Read { .. } => InputWait::Reads,
        BlockedCall::Poll { .. } | BlockedCall::Select { .. } | BlockedCall::Epoll { .. } => {
            if others.iter().any(|file| is_network_socket(pid, *file)) {
                InputWait::InputOrNetwork
            } else {
                InputWait::Polls
            }
        }
    }
}

/// `true` if this file of a process is a socket that is not a Unix socket: event loops have one of
/// those to wake themselves.
fn is_network_socket(pid: Pid, file: u32) -> bool {
    let is_socket = |target: PathBuf| target.to_string_lossy().starts_with("socket:");
    if !processes::open_file_target(pid, file).is_some_and(is_socket) {
        return false;
    }
    let Ok(file) = i32::try_from(file) else { return false };
    let copy = pidfd_open(pid, PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, file, PidfdGetfdFlags::empty()));
    copy.and_then(socket_domain)
        .is_ok_and(|family| family == AddressFamily::INET || family == AddressFamily::INET6)
}

/// A system call in which a thread is blocked, with the arguments that tell for which files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockedCall {
    Read {
        file: u32,
    },
    /// `files` is the address of an array of `pollfd`.
    Poll {
        files: u64,
        count: u64,
    },
    /// `files` is the address of the set of files to read from.
    Select {
        count: u64,
        files: u64,
    },
    Epoll {
        file: u32,
    },
}

impl BlockedCall {
    /// Parses the content of /proc/PID/syscall; `None` if it is another call, or none.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let number: libc::c_long = words.next()?.parse().ok()?;
        let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let first = argument()?;
        let second = argument()?;
        let file = || u32::try_from(first).ok();
        #[cfg(target_arch = "x86_64")]
        match number {
            libc::SYS_poll => return Some(Self::Poll { files: first, count: second }),
            libc::SYS_select => return Some(Self::Select { count: first, files: second }),
            libc::SYS_epoll_wait => return Some(Self::Epoll { file: file()? }),
            _ => {}
        }
        match number {
            libc::SYS_read | libc::SYS_readv => Some(Self::Read { file: file()? }),
            libc::SYS_ppoll => Some(Self::Poll { files: first, count: second }),
            libc::SYS_pselect6 => Some(Self::Select { count: first, files: second }),
            libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Some(Self::Epoll { file: file()? }),
            _ => None,
        }
    }

    /// Returns the files for whose input the call waits; none if they cannot be read.
    fn read_files(self, pid: Pid) -> Vec<u32> {
        match self {
            Self::Read { file } => vec![file],
            Self::Poll { files, count } => {
                let bytes = read_memory(pid, files, count.min(MAX_FILES) * POLLFD_BYTES as u64);
                parse_polled(&bytes)
            }
            Self::Select { files: 0, .. } => Vec::new(),
            Self::Select { count, files } => {
                parse_selected(&read_memory(pid, files, count.min(MAX_FILES).div_ceil(8)), count)
            }
            Self::Epoll { file } => {
                let path = format!("/proc/{pid}/fdinfo/{file}");
                parse_epoll(&fs::read_to_string(path).unwrap_or_default())
            }
        }
    }
}

/// Reads memory of a process; nothing if that is not possible.
fn read_memory(pid: Pid, address: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let read = File::open(format!("/proc/{pid}/mem"))
        .and_then(|memory| memory.read_exact_at(&mut bytes, address));
    if read.is_ok() { bytes } else { Vec::new() }
}

/// The size of a `pollfd`: the file (4 bytes), the requested events (2), the reported ones (2).
const POLLFD_BYTES: usize = 8;

/// Returns the files of an array of `pollfd` that are polled for input.
fn parse_polled(bytes: &[u8]) -> Vec<u32> {
    let entries = bytes.chunks_exact(POLLFD_BYTES).filter_map(|entry| {
        let file = i32::from_ne_bytes(entry.get(..4)?.try_into().ok()?);
        let events = i16::from_ne_bytes(entry.get(4..6)?.try_into().ok()?);
        u32::try_from(file).ok().filter(|_| events & libc::POLLIN != 0)
    });
    entries.collect()
}

/// Returns the members of a set of the first `count` files.
fn parse_selected(set: &[u8], count: u64) -> Vec<u32> {
    // The set is an array of words, whose bytes are in this order on little-endian machines.
    let is_member =
        |file: &u32| set.get(*file as usize / 8).is_some_and(|byte| byte >> (file % 8) & 1 == 1);
    let count = u32::try_from(count.min(MAX_FILES)).unwrap_or(0);
    (0..count).filter(is_member).collect()
}

/// Returns the files that an epoll instance watches for input, by its /proc/PID/fdinfo.
fn parse_epoll(text: &str) -> Vec<u32> {
    let watched = text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
        let file = words.next()?.parse().ok()?;
        let events = words.find(|word| *word == "events:").and_then(|_| words.next())?;
        let events = u32::from_str_radix(events, 16).ok()?;
        (events & libc::EPOLLIN as u32 != 0).then_some(file)
    });
    watched.collect()
}

/// The facts about a process whose calls the kernel does not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HiddenProcess {
    is_asleep: bool,
    /// It belongs to the foreground process group of a terminal.
    is_in_foreground: bool,
    has_children: bool,
    /// Its standard input is the job's; `None` if its files are hidden as well.
    has_our_stdin: Option<bool>,
    /// The kernel function in which it sleeps; `None` if that is hidden as well.
    sleeps_in: Option<KernelSleep>,
}

/// The kind of kernel function in which a process sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KernelSleep {
    Read,
    Poll,
    Other,
}

impl HiddenProcess {
    fn read(stat: &ProcStat, inputs: &[PathBuf], has_children: bool) -> Self {
        let pid = stat.pid;
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let (is_asleep, is_in_foreground) = parse_foreground(&text).unwrap_or_default();
        let stdin = processes::open_file_target(pid, 0);
        let function = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        Self {
            is_asleep,
            is_in_foreground,
            has_children,
            has_our_stdin: stdin.map(|stdin| inputs.contains(&stdin)),
            sleeps_in: KernelSleep::parse(&function),
        }
    }
}

impl KernelSleep {
    /// Parses the content of /proc/PID/wchan, which is `0` or empty if the function is hidden.
    fn parse(function: &str) -> Option<Self> {
        const READS: [&str; 4] = ["wait_woken", "n_tty_read", "pipe_read", "pipe_wait"];
        const POLLS: [&str; 4] = ["poll", "select", "ep_poll", "epoll"];
        let has_any = |names: &[&str]| names.iter().any(|name| function.contains(name));
        match function {
            "" | "0" => None,
            _ if has_any(&READS) => Some(Self::Read),
            _ if has_any(&POLLS) => Some(Self::Poll),
            _ => Some(Self::Other),
        }
    }
}

/// Returns from /proc/PID/stat whether a process is asleep, and whether it is in the foreground of a
/// terminal.
fn parse_foreground(stat: &str) -> Option<(bool, bool)> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
    let [state, _parent, group, _session, terminal, foreground, ..] = fields[..] else {
        return None;
    };
    Some((state == "S", terminal != "0" && group == foreground))
}

/// Judges a process whose calls are hidden. One that started another process waits for that one:
/// `sudo` asks for the password before it starts the command.
const fn judge_hidden(process: &HiddenProcess) -> InputWait {
    let HiddenProcess { is_asleep, is_in_foreground, has_children, has_our_stdin, sleeps_in } =
        *process;
    if !is_asleep || has_children {
        return InputWait::No;
    }
    match (has_our_stdin, sleeps_in) {
        (_, Some(KernelSleep::Other)) => InputWait::No,
        (Some(true), Some(KernelSleep::Read)) => InputWait::Reads,
        (Some(true), Some(KernelSleep::Poll)) => InputWait::Hidden,
        (Some(true | false) | None, Some(KernelSleep::Read | KernelSleep::Poll) | None) => {
            if is_in_foreground {
                InputWait::Hidden
            } else {
                InputWait::No
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: libc::c_long, first: u64, second: u64) -> Option<BlockedCall> {
        BlockedCall::parse(&format!("{number} {first:#x} {second:#x} 0x3 0x4 0x5 0x6 0x7ff 0x7f1"))
    }

    #[test]
    fn calls_that_wait_for_files_are_recognised() {
        use BlockedCall::{Epoll, Poll, Read, Select};
        assert_eq!(call(libc::SYS_read, 31, 0x7f), Some(Read { file: 31 }));
        assert_eq!(call(libc::SYS_ppoll, 0x7ffd, 2), Some(Poll { files: 0x7ffd, count: 2 }));
        let select = Some(Select { count: 1, files: 0x7ffd });
        assert_eq!(call(libc::SYS_pselect6, 1, 0x7ffd), select);
        assert_eq!(call(libc::SYS_epoll_pwait, 14, 0x7ffd), Some(Epoll { file: 14 }));
        assert_eq!(call(libc::SYS_read, u64::MAX, 0), None);
        for number in [libc::SYS_futex, libc::SYS_nanosleep, libc::SYS_wait4, libc::SYS_write] {
            assert_eq!(call(number, 0, 0), None, "{number}");
        }
        for other in ["running", "-1 0x7ffd 0x7f", "0 0x0", "0 zero 0x1", ""] {
            assert_eq!(BlockedCall::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_read_is_certain_only_for_a_single_thread() {
        use InputWait::{Hidden, InputOrNetwork, No, Polls, Reads};
        use ThreadActivity::{Runs, Sleeps};
        for (threads, expected) in [
            (&[Sleeps(Reads)][..], Reads),
            (&[Sleeps(Polls)], Polls),
            (&[Runs], No),
            (&[], No),
            (&[Sleeps(No), Sleeps(Reads)], Polls),
            (&[Sleeps(Reads), Sleeps(Reads)], Polls),
            (&[Sleeps(No), Sleeps(InputOrNetwork)], InputOrNetwork),
            (&[Sleeps(Hidden), Sleeps(No)], Hidden),
            (&[Runs, Sleeps(Reads)], No),
            (&[Sleeps(No), Sleeps(Polls), Runs], No),
        ] {
            assert_eq!(judge_threads(threads), expected, "{threads:?}");
        }
    }

    fn pollfd(file: i32, events: i16) -> Vec<u8> {
        [&file.to_ne_bytes()[..], &events.to_ne_bytes(), &[0; 2]].concat()
    }

    #[test]
    fn only_files_that_are_polled_for_input_count() {
        let hung_up = libc::POLLHUP | libc::POLLERR;
        let set =
            [pollfd(0, libc::POLLIN | libc::POLLPRI), pollfd(1, hung_up), pollfd(2, libc::POLLOUT)];
        assert_eq!(parse_polled(&set.concat()), [0]);
        assert_eq!(
            parse_polled(&[pollfd(-1, libc::POLLIN), pollfd(9, libc::POLLIN)].concat()),
            [9]
        );
        assert_eq!(parse_polled(&[]), [0; 0]);
    }

    #[test]
    fn only_members_of_a_selected_set_count() {
        assert_eq!(parse_selected(&[0b1000_0001, 0b10], 10), [0, 7, 9]);
        assert_eq!(parse_selected(&[0b1000_0001, 0b10], 9), [0, 7], "beyond the count");
        assert_eq!(parse_selected(&[], 64), [0; 0], "the memory was not readable");
    }

    #[test]
    fn files_in_an_epoll_instance_are_found() {
        let text = "pos:\t0\nflags:\t02\nmnt_id:\t16\nino:\t1045\n\
                    tfd:        0 events: 80000019 data:                0  pos:0 ino:5 sdev:1\n\
                    tfd:       11 events:       1c data:                0  pos:0 ino:5 sdev:1\n\
                    tfd:        9 events:        1 data:                0  pos:0 ino:5 sdev:1\n";
        assert_eq!(parse_epoll(text), [0, 9]);
        assert_eq!(parse_epoll(""), [0; 0]);
    }

    #[test]
    fn the_foreground_of_a_terminal_is_read_from_stat() {
        let stat = |rest: &str| parse_foreground(&format!("12 (a) b) {rest}"));
        assert_eq!(stat("S 1 12 12 34816 12 4194304"), Some((true, true)));
        assert_eq!(stat("S 1 12 12 34816 13 4194304"), Some((true, false)), "in the background");
        assert_eq!(stat("R 1 12 12 0 -1 4194304"), Some((false, false)));
        assert_eq!(stat("S 1"), None);
    }

    #[test]
    fn a_hidden_process_is_judged_by_what_is_left() {
        use InputWait::{Hidden, No, Reads};
        use KernelSleep::{Other, Poll, Read};
        let asks = HiddenProcess {
            is_asleep: true,
            is_in_foreground: true,
            has_children: false,
            has_our_stdin: None,
            sleeps_in: None,
        };
        let background = HiddenProcess { is_in_foreground: false, ..asks };
        for (process, expected) in [
            (asks, Hidden),
            (HiddenProcess { sleeps_in: Some(Read), ..asks }, Hidden),
            (HiddenProcess { sleeps_in: Some(Poll), ..asks }, Hidden),
            (HiddenProcess { sleeps_in: Some(Other), ..asks }, No),
            (HiddenProcess { is_asleep: false, ..asks }, No),
            (HiddenProcess { has_children: true, ..asks }, No),
            (background, No),
            (
                HiddenProcess { has_our_stdin: Some(true), sleeps_in: Some(Read), ..background },
                Reads,
            ),
            (
                HiddenProcess { has_our_stdin: Some(true), sleeps_in: Some(Poll), ..background },
                Hidden,
            ),
            (HiddenProcess { has_our_stdin: Some(true), sleeps_in: Some(Other), ..asks }, No),
            (HiddenProcess { has_our_stdin: Some(false), sleeps_in: Some(Read), ..background }, No),
            (HiddenProcess { has_our_stdin: Some(true), ..background }, No),
        ] {
            assert_eq!(judge_hidden(&process), expected, "{process:?}");
        }
    }

    #[test]
    fn kernel_functions_are_grouped() {
        for (function, expected) in [
            ("wait_woken", Some(KernelSleep::Read)),
            ("anon_pipe_read", Some(KernelSleep::Read)),
            ("poll_schedule_timeout.constprop.0", Some(KernelSleep::Poll)),
            ("do_epoll_wait", Some(KernelSleep::Poll)),
            ("do_select", Some(KernelSleep::Poll)),
            ("hrtimer_nanosleep", Some(KernelSleep::Other)),
            ("futex_do_wait", Some(KernelSleep::Other)),
            ("0", None),
            ("", None),
        ] {
            assert_eq!(KernelSleep::parse(function), expected, "{function}");
        }
    }

    #[test]
    fn arguments_are_separated_by_blanks() {
        for (bytes, text) in [
            (&b"sleep\x0010\0"[..], "sleep 10"),
            (b"sh\0-c\0echo a b\0", "sh -c echo a b"),
            (b"", ""),
            (b"cut", "cut"),
        ] {
            assert_eq!(format_command(bytes), text);
        }
        assert!(!read_command(std::process::id()).is_empty());
        assert_eq!(read_command(u32::MAX), "");
    }
}
