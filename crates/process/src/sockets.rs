//! Recognises connections that a job of this server opened.
//!
//! A job that could call its own server would start further jobs on looser terms than its own. The
//! two kinds of connections leave different evidence:
//!
//! - **Unix sockets** name the process that called `connect`
//!   ([`JobConnectionDetector::is_job_on_unix`]). The kernel keeps that name, so passing the
//!   connected file on does not change it.
//! - **TCP** names no process. The kernel reports the inode of the peer's socket (`find_socket`),
//!   and the process that holds this inode is searched for in /proc
//!   ([`JobConnectionDetector::is_job_on_tcp`]).
//!
//! The ancestors of a process show if it belongs to a job (`find_ancestry`): whatever a job starts stays
//! a descendant of its shim, even after `setsid`, a double fork, and in its own namespaces, and the shim
//! is a child of the keeper.
//!
//! **Invariant:** a connection over TCP counts as an outsider's only with evidence for that. A file
//! that is in flight between two processes, hidden in a thread's own file table, or closed right
//! after the request was sent is found nowhere, and counts as a job's while any job has processes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};
use rustix::process::{Pid, geteuid, getpid};
use tokio::net::UnixStream;

use crate::host::Host;
use crate::processes::{self, ProcStat, descends_from_program};
use crate::syscalls;

// The process at the other end of a connection.

/// The number of recent clients that are examined first: most connections come from a process that
/// connected before.
const MAX_RECENT: usize = 16;

/// The check that distinguishes connections of this server's jobs from those of other processes.
#[derive(Debug)]
pub struct JobConnectionDetector {
    host: Arc<Host>,
    /// Processes that lately held the other end of a connection and did not belong to a job. Only a
    /// hint: each is examined again.
    recent: Mutex<VecDeque<Pid>>,
}

impl JobConnectionDetector {
    /// Creates a detector for the jobs of this host.
    #[must_use]
    pub fn new(host: Arc<Host>) -> Self {
        Self { host, recent: Mutex::default() }
    }

    /// `true` if a job opened the connection at whose other end this socket is. A process that
    /// ended since counts as a job's, because the opposite cannot be shown.
    #[must_use]
    pub fn is_job_on_unix(&self, stream: &UnixStream) -> bool {
        match find_connector(stream) {
            Ok(PeerProcess::Process(pid, handle)) => {
                let found = find_ancestry(pid, &self.job_ancestors());
                // The pid may belong to another process by now, unless this one still has it.
                let is_certain = handle.is_none_or(|handle| read_pidfd_pid(&handle) == Some(pid));
                found != Ancestry::Outside || !is_certain
            }
            Ok(PeerProcess::OtherNamespace) => false,
            Err(_) => true,
        }
    }

    /// `true` if a job of this server or of any other server opened the connection: jobs of several
    /// servers of one user can reach each other's private sockets. A process that descends from
    /// another process of this program counts as a job, unless this server itself descends from it.
    #[must_use]
    pub fn is_any_job_on_unix(&self, stream: &UnixStream) -> bool {
        let connector = find_connector(stream);
        self.is_job_on_unix(stream)
            || match connector {
                Ok(PeerProcess::Process(pid, _)) => descends_from_program(pid),
                // A job of another server may be in a namespace of its own.
                Ok(PeerProcess::OtherNamespace) | Err(_) => true,
            }
    }

    /// `true` if a job holds the other end of a connection that came from `peer` and was accepted
    /// at `server`, or if that cannot be ruled out while jobs have processes.
    ///
    /// Reads /proc, which takes up to some milliseconds on a machine with many processes.
    #[must_use]
    pub fn is_job_on_tcp(&self, server: SocketAddr, peer: SocketAddr) -> bool {
        // Read before the socket: a job that holds it now may be over once its holder was searched
        // for.
        let had_trees = self.has_job_processes();
        match find_socket(peer, server) {
            Ok(SocketLookup::Found(entry)) => self.is_jobs_socket(entry, had_trees),
            // The other end was closed before it could be examined, or is on another machine.
            Ok(SocketLookup::Missing) => {
                let server = server.ip().to_canonical();
                let peer = peer.ip().to_canonical();
                peer.is_loopback() || peer == server
            }
            // A refusal here would lock out every client of such a host, not only jobs.
            Ok(SocketLookup::Unsupported) => false,
            Err(_) => self.has_job_processes(),
        }
    }

    fn is_jobs_socket(&self, socket: SocketEntry, had_trees: bool) -> bool {
        if socket.inode == 0 {
            return true;
        }
        // Jobs cannot become another user, unless they run as root.
        let own = geteuid();
        if !own.is_root() && socket.uid != own.as_raw() {
            return false;
        }
        !self.is_held_outside(socket) && (had_trees || self.has_job_processes())
    }

    /// `true` if a process outside of all jobs holds this socket. Likely ones come first: recent
    /// holders, then processes of the socket's own user, the newest first.
    fn is_held_outside(&self, socket: SocketEntry) -> bool {
        let link = PathBuf::from(format!("socket:[{}]", socket.inode));
        let ours = self.job_ancestors();
        let recent: Vec<Pid> = self.lock_recent().iter().copied().collect();
        if let Some(pid) = recent.into_iter().find(|pid| holds_outside(*pid, &link, &ours)) {
            self.remember(pid);
            return true;
        }
        let mut pids = processes::all_pids();
        pids.sort_unstable_by_key(|pid| std::cmp::Reverse(pid.as_raw_nonzero()));
        let is_of_user = |pid: &Pid| {
            fs::symlink_metadata(format!("/proc/{pid}")).is_ok_and(|it| it.uid() == socket.uid)
        };
        let (likely, others): (Vec<Pid>, Vec<Pid>) = pids.into_iter().partition(is_of_user);
        let holder = likely.into_iter().chain(others).find(|pid| holds_outside(*pid, &link, &ours));
        holder.map(|pid| self.remember(pid)).is_some()
    }

    fn remember(&self, pid: Pid) {
        let mut recent = self.lock_recent();
        recent.retain(|known| *known != pid);
        recent.push_front(pid);
        recent.truncate(MAX_RECENT);
    }

    /// `true` while any process of any job is alive, including processes that outlived their job.
    fn has_job_processes(&self) -> bool {
        let keeper = self.host.keeper().keeper();
        processes::children_of(keeper).into_iter().any(|pid| pid != getpid())
    }

    fn job_ancestors(&self) -> JobAncestors {
        JobAncestors { keeper: self.host.keeper().keeper() }
    }

    fn lock_recent(&self) -> std::sync::MutexGuard<'_, VecDeque<Pid>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The process that called `connect`.
enum PeerProcess {
    /// A process of our pid namespace, with its pidfd if the kernel provides one.
    Process(Pid, Option<OwnedFd>),
    /// A process outside of our pid namespace, which contains all of our descendants.
    OtherNamespace,
}

fn find_connector(stream: &UnixStream) -> io::Result<PeerProcess> {
    let handle = match syscalls::peer_pidfd(stream.as_fd()) {
        Ok(handle) => Some(handle),
        // Linux before 6.5.
        Err(Errno::NOPROTOOPT | Errno::OPNOTSUPP) => None,
        Err(error) => return Err(error.into()),
    };
    match stream.peer_cred()?.pid() {
        Some(0) => Ok(PeerProcess::OtherNamespace),
        number => match number.and_then(Pid::from_raw) {
            Some(pid) => Ok(PeerProcess::Process(pid, handle)),
            None => Err(ErrorKind::NotFound.into()),
        },
    }
}

/// Returns the pid of the process that a pidfd refers to; `None` once that process was reaped.
fn read_pidfd_pid(handle: &OwnedFd) -> Option<Pid> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd())).ok()?;
    let number = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    Pid::from_raw(number.trim().parse().ok().filter(|number| *number > 0)?)
}

/// `true` if this process holds the file that `link` names, and does not belong to a job.
fn holds_outside(pid: Pid, link: &Path, ours: &JobAncestors) -> bool {
    let is_it = |file: &Path| fs::read_link(file).is_ok_and(|target| target == link);
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let held = files.map(|entry| entry.path()).find(|file| is_it(file));
    // Read once more: the pid may have become another process's in between.
    held.is_some_and(|file| find_ancestry(pid, ours) == Ancestry::Outside && is_it(&file))
}

// The check whether a process descends from this server or from its keeper.

/// The process from which all jobs descend: the shims are children of the keeper.
#[derive(Debug)]
struct JobAncestors {
    keeper: Pid,
}

impl JobAncestors {
    fn is_parent(&self, number: i32) -> bool {
        self.keeper.as_raw_pid() == number
    }
}

/// The most generations that are examined; a process further down counts as ours.
const MAX_DEPTH: usize = 1000;

/// The most walks that are tried while ancestors end during one.
const ATTEMPTS: usize = 16;

/// The relation of a process to this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ancestry {
    /// A shim, or a process of a job.
    Ours,
    /// Any other process.
    Outside,
    /// The process is gone, or its ancestors cannot be read.
    Unknown,
}

/// Classifies a process by walking up its ancestors.
fn find_ancestry(pid: Pid, ours: &JobAncestors) -> Ancestry {
    if pid == getpid() {
        return Ancestry::Outside;
    }
    (0..ATTEMPTS).find_map(|_| walk_up(pid, ours)).unwrap_or(Ancestry::Unknown)
}

/// Walks up once. Returns `None` if an ancestor ended meanwhile, which moved its children
/// elsewhere.
fn walk_up(pid: Pid, ours: &JobAncestors) -> Option<Ancestry> {
    let Some(mut current) = processes::stat(pid) else { return Some(Ancestry::Unknown) };
    for _ in 0..MAX_DEPTH {
        if ours.is_parent(current.parent) {
            return Some(Ancestry::Ours);
        }
        // 0 is a parent outside of our pid namespace, where no descendant of ours can be.
        if current.parent <= 1 {
            return Some(Ancestry::Outside);
        }
        let parent = processes::stat(Pid::from_raw(current.parent)?);
        // A pid belongs to the parent for as long as the child names it. Checked afterwards, so
        // that a pid which was given to another process meanwhile is not taken for the parent.
        let is_same =
            |now: ProcStat| (now.parent, now.started) == (current.parent, current.started);
        if !processes::stat(current.pid).is_some_and(is_same) {
            return None;
        }
        match parent {
            Some(parent) => current = parent,
            None => return Some(classify_behind_hidden_parent(current.parent)),
        }
    }
    Some(Ancestry::Ours)
}

/// Classifies a process with a living ancestor that /proc does not show. Mounted with `hidepid`,
/// /proc shows no processes of other users, which are ancestors of every ordinary client there. The
/// shim of a job is a process of the server's own user, so it is shown.
fn classify_behind_hidden_parent(parent: i32) -> Ancestry {
    let is_hidden = |pid: i32| {
        // Needs no file descriptor, so that it does not fail if there are none left.
        fs::symlink_metadata(format!("/proc/{pid}")).is_err_and(|e| e.kind() == ErrorKind::NotFound)
    };
    if is_hidden(1) && is_hidden(parent) { Ancestry::Outside } else { Ancestry::Unknown }
}

// The kernel's table of TCP sockets: the owner of the socket at the other end of a connection.
//
// `sock_diag` answers for one pair of addresses at once, however many sockets there are. If the
// kernel does not offer it, the tables in /proc/net are read from the beginning.

/// A socket, as the kernel lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SocketEntry {
    /// The user that created the socket.
    uid: u32,
    /// The inode of the socket; 0 once its last holder has closed it.
    inode: u64,
}

/// The kernel's answer about a pair of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SocketLookup {
    /// The socket with these addresses.
    Found(SocketEntry),
    /// No socket of this machine has them.
    Missing,
    /// The kernel offers no table at all.
    Unsupported,
}

/// Finds the socket that is bound to `local` and connected to `remote`.
///
/// # Errors
/// If the system is short of file descriptors or memory: then nothing is known.
fn find_socket(local: SocketAddr, remote: SocketAddr) -> io::Result<SocketLookup> {
    let local = canonical(local);
    let remote = canonical(remote);
    match query_sock_diag(local, remote) {
        Ok(Some(entry)) => Ok(SocketLookup::Found(entry)),
        // A kernel without the module for TCP gives the same answer.
        Ok(None) if may_be_local(local, remote) => find_in_tables(local, remote),
        Ok(None) => Ok(SocketLookup::Missing),
        Err(Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT | Errno::OPNOTSUPP) => {
            find_in_tables(local, remote)
        }
        Err(Errno::PERM | Errno::ACCESS) => find_in_tables(local, remote),
        Err(error) => Err(error.into()),
    }
}

fn may_be_local(local: SocketAddr, remote: SocketAddr) -> bool {
    local.ip().is_loopback() || local.ip() == remote.ip()
}

/// Converts an IPv4 address that is written as an IPv6 one: both name the same socket.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Sizes and values of `linux/netlink.h`, `linux/sock_diag.h` and `linux/inet_diag.h`.
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const TCP: u8 = 6;
const LISTEN: u8 = 10;
/// Offsets in the answer: `inet_diag_msg` begins with family and state, and ends with these.
const UID_AT: usize = HEADER_BYTES + 64;
const INODE_AT: usize = HEADER_BYTES + 68;

/// Asks `sock_diag` for exactly one socket.
fn query_sock_diag(local: SocketAddr, remote: SocketAddr) -> Result<Option<SocketEntry>, Errno> {
    let netlink = AddressFamily::NETLINK;
    let socket = socket_with(netlink, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &encode_request(local, remote), SendFlags::empty(), &kernel)?;
    let mut answer = [0_u8; 4096];
    // The kernel answers during the send.
    let (_, length) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    decode_answer(answer.get(..length).unwrap_or_default())
}

fn encode_request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend((REQUEST_BYTES as u32).to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence and port: there is one question and one answer.
    bytes.extend([0; 8]);
    bytes.extend([family.as_raw().to_le_bytes()[0], TCP, 0, 0]);
    // Every state.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(remote.port().to_be_bytes());
    for address in [local, remote] {
        match address.ip() {
            IpAddr::V4(ip) => {
                bytes.extend(ip.octets());
                bytes.extend([0; 12]);
            }
            IpAddr::V6(ip) => bytes.extend(ip.octets()),
        }
    }
    // Any interface, and no cookie.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

fn decode_answer(answer: &[u8]) -> Result<Option<SocketEntry>, Errno> {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    match kind {
        Some(NLMSG_ERROR) => {
            let code = word_at(answer, HEADER_BYTES).unwrap_or_default().cast_signed();
            match Errno::from_raw_os_error(code.wrapping_neg()) {
                Errno::NOENT => Ok(None),
                error => Err(error),
            }
        }
        Some(SOCK_DIAG_BY_FAMILY) => {
            let state = answer.get(HEADER_BYTES + 1).copied();
            let entry = word_at(answer, UID_AT).zip(word_at(answer, INODE_AT));
            let entry = entry.map(|(uid, inode)| SocketEntry { uid, inode: inode.into() });
            // If no connection has the addresses, the kernel returns the listening socket.
            Ok(entry.filter(|_| state != Some(LISTEN)))
        }
        Some(_) | None => Err(Errno::BADMSG),
    }
}

fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

/// The kernel's tables of TCP sockets of both families. Both may list a connection between two IPv4
/// addresses, depending on the socket's family.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

fn find_in_tables(local: SocketAddr, remote: SocketAddr) -> io::Result<SocketLookup> {
    let mut found = SocketLookup::Unsupported;
    for table in TABLES {
        let file = match File::open(table) {
            Ok(file) => file,
            Err(error) if is_missing(&error) => continue,
            Err(error) => return Err(error),
        };
        match find_in_table(BufReader::new(file), local, remote)? {
            Some(entry) => return Ok(SocketLookup::Found(entry)),
            None => found = SocketLookup::Missing,
        }
    }
    Ok(found)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
}

fn find_in_table(
    table: impl BufRead,
    local: SocketAddr,
    remote: SocketAddr,
) -> io::Result<Option<SocketEntry>> {
    for line in table.lines().skip(1) {
        if let Some((addresses, entry)) = parse_row(&line?)
            && addresses == (local, remote)
        {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

fn parse_row(row: &str) -> Option<((SocketAddr, SocketAddr), SocketEntry)> {
    let words: Vec<&str> = row.split_ascii_whitespace().collect();
    let addresses = (parse_address(words.get(1)?)?, parse_address(words.get(2)?)?);
    let entry =
        SocketEntry { uid: words.get(7)?.parse().ok()?, inode: words.get(9)?.parse().ok()? };
    Some((addresses, entry))
}

/// Parses an address as /proc writes it: words of four bytes in the byte order of the machine.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let words = (0..ip.len() / 8).map(|n| u32::from_str_radix(ip.get(n * 8..n * 8 + 8)?, 16).ok());
    let bytes: Vec<u8> =
        words.collect::<Option<Vec<_>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let ip = match *bytes.as_slice() {
        [a, b, c, d] => IpAddr::from([a, b, c, d]),
        _ => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    };
    Some(canonical(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?)))
}

// TCP ports of this host that have a listener.

/// The state of a listening socket in a table.
const LISTENS: &str = "0A";

/// `true` if a process on this host listens on this TCP port, on any address. Reads tables and
/// connects to nothing: a connection would be served, logged, or taken for the one client that
/// somebody waits for. Blocks while the kernel lists the listening sockets.
#[must_use]
pub fn is_listened_on(port: u16) -> bool {
    let lists_it = |file| lists_port(BufReader::new(file), port);
    TABLES.iter().any(|table| File::open(table).is_ok_and(lists_it))
}

fn lists_port(table: impl BufRead, port: u16) -> bool {
    // Listening sockets precede all connections, so that no connection is read.
    let sockets = table.lines().skip(1).map_while(Result::ok);
    sockets.map_while(|socket| listening_port(&socket)).any(|listening| listening == port)
}

/// Returns the port of a listening socket; `None` for any other.
fn listening_port(socket: &str) -> Option<u16> {
    let mut words = socket.split_ascii_whitespace().skip(1);
    let local = words.next()?;
    let _remote = words.next()?;
    let state = words.next()?;
    let (_, port) = local.rsplit_once(':').filter(|_| state == LISTENS)?;
    u16::from_str_radix(port, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;
    use std::process::Command;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::host::{host, sh};
    use crate::{CommandLine, EnvVariable, Process, ProcessLaunch};

    /// A job that connects to `port` and stays until it is killed.
    fn client(port: u16) -> Process {
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; exec sleep 1000");
        let command = CommandLine::new_direct("/bin/bash", ["-c", &script]);
        let path = EnvVariable::new("PATH", "/usr/bin:/bin").unwrap();
        host().spawn(&ProcessLaunch { command, env: vec![path], ..sh("") }).unwrap()
    }

    #[tokio::test]
    async fn a_job_is_known_over_tcp_even_when_gone_and_this_process_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let callers = JobConnectionDetector::new(Arc::clone(host()));
        for _ in 0..2 {
            let ours = TcpStream::connect(server).unwrap();
            let (_, peer) = listener.accept().unwrap();
            assert!(!callers.is_job_on_tcp(server, peer));
            drop(ours);
            assert!(callers.is_job_on_tcp(server, peer), "its owner is unknown");
        }
        let job = client(server.port());
        let (_, peer) = listener.accept().unwrap();
        assert!(callers.is_job_on_tcp(server, peer));
        assert!(job.tree.kill());
        assert!(callers.is_job_on_tcp(server, peer));
        let elsewhere = "192.0.2.7:7".parse().unwrap();
        assert!(!callers.is_job_on_tcp(server, elsewhere));
    }

    #[test]
    fn a_socket_whose_holder_ended_during_the_search_counts_as_a_jobs_if_there_was_one() {
        let ended = SocketEntry { inode: u32::MAX.into(), uid: geteuid().as_raw() };
        assert!(JobConnectionDetector::new(Arc::clone(host())).is_jobs_socket(ended, true));
    }

    #[tokio::test]
    async fn a_job_is_known_over_a_unix_socket_even_when_gone_and_this_process_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let callers = JobConnectionDetector::new(Arc::clone(host()));
        let ours = UnixStream::connect(&path).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        assert!(!callers.is_job_on_unix(&stream));
        drop(ours);
        assert!(!callers.is_job_on_unix(&stream), "this process still runs");
        let script = "import socket,sys,time; s=socket.socket(socket.AF_UNIX); \
                      s.connect(sys.argv[1]); time.sleep(1000)";
        let args = ["-c", script, path.to_str().unwrap()];
        let command = CommandLine::new_direct("python3", args);
        let job = host().spawn(&ProcessLaunch { command, ..sh("") }).unwrap();
        let accepted = tokio::time::timeout(Duration::from_secs(60), listener.accept()).await;
        let (stream, _) = accepted.unwrap().unwrap();
        assert!(callers.is_job_on_unix(&stream));
        assert!(job.tree.kill());
        assert!(callers.is_job_on_unix(&stream));
    }

    #[tokio::test]
    async fn a_process_of_a_job_descends_from_the_keeper_and_others_do_not() {
        let ours = JobAncestors { keeper: host().keeper().keeper() };
        let text = "(setsid sleep 1000 &); exec sleep 1000";
        let job = host().spawn(&sh(text)).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while job.tree.living_pids().len() < 2 {
            assert!(Instant::now() < deadline, "it does not start");
            thread::sleep(Duration::from_millis(5));
        }
        for pid in job.tree.living_pids() {
            let pid = Pid::from_raw(pid.cast_signed()).unwrap();
            assert_eq!(find_ancestry(pid, &ours), Ancestry::Ours);
        }
        assert!(JobConnectionDetector::new(Arc::clone(host())).has_job_processes());
        assert!(job.tree.kill());
        for outside in [getpid(), ours.keeper, rustix::process::getppid().unwrap()] {
            assert_eq!(find_ancestry(outside, &ours), Ancestry::Outside);
        }
        assert_eq!(find_ancestry(Pid::from_raw(i32::MAX).unwrap(), &ours), Ancestry::Unknown);
    }

    #[test]
    fn in_serve_the_server_is_no_job_although_it_is_a_child_of_the_keeper() {
        let ours = JobAncestors { keeper: rustix::process::getppid().unwrap() };
        assert_eq!(find_ancestry(getpid(), &ours), Ancestry::Outside);
        let child = Command::new("sleep").arg("60").spawn();
        let mut child = child.unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        assert_eq!(find_ancestry(pid, &ours), Ancestry::Ours);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn inode_of(stream: &TcpStream) -> u64 {
        let link = fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap();
        let text = link.to_string_lossy().into_owned();
        text.trim_start_matches("socket:[").trim_end_matches(']').parse().unwrap()
    }

    #[test]
    fn the_socket_at_the_other_end_is_found_in_both_families_and_both_ways() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let local = server.local_addr().unwrap();
            let expected = SocketEntry { uid: geteuid().as_raw(), inode: inode_of(&client) };
            assert_eq!(
                find_socket(peer, local).unwrap(),
                SocketLookup::Found(expected),
                "{address}"
            );
            let peer = canonical(peer);
            let local = canonical(local);
            assert_eq!(
                find_in_tables(peer, local).unwrap(),
                SocketLookup::Found(expected),
                "{address}"
            );
            // A process that closes its end while the other is open holds nothing any more. A child
            // that another test is just creating may hold a copy for a moment longer.
            drop(client);
            let deadline = Instant::now() + Duration::from_secs(10);
            let is_closed = || match find_socket(peer, local).unwrap() {
                SocketLookup::Found(entry) => entry.inode == 0,
                SocketLookup::Missing => true,
                SocketLookup::Unsupported => panic!("{address}"),
            };
            while !is_closed() {
                assert!(Instant::now() < deadline, "{address}");
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn a_listening_socket_is_not_the_other_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody = "127.0.0.1:1".parse().unwrap();
        assert_eq!(
            find_socket(listener.local_addr().unwrap(), nobody).unwrap(),
            SocketLookup::Missing
        );
        let elsewhere = "192.0.2.1:7".parse().unwrap();
        assert_eq!(
            find_socket(elsewhere, listener.local_addr().unwrap()).unwrap(),
            SocketLookup::Missing
        );
    }

    #[test]
    fn a_truncated_answer_is_an_error() {
        assert_eq!(decode_answer(&[]), Err(Errno::BADMSG));
        assert_eq!(decode_answer(&[0; 16]), Err(Errno::BADMSG));
    }

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2
   2: 0100007F:0050 0100007F:C000 01 00000000:00000000 00:00000000 00000000     0        0 3
";

    #[test]
    fn only_listening_sockets_count() {
        for (port, expected) in [(8080, true), (22, true), (80, false), (8081, false)] {
            assert_eq!(lists_port(TABLE.as_bytes(), port), expected, "{port}");
        }
    }

    #[test]
    fn a_port_is_listened_on_from_the_bind_to_the_close_in_both_families() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            assert!(is_listened_on(port), "{address}");
            // A child that another test is creating may hold a copy.
            rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
            drop(listener);
            assert!(!is_listened_on(port), "{address}");
        }
    }
}
