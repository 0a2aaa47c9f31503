//! Finds the process at the other end of a connection.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, geteuid};
use tokio::net::UnixStream;

use super::ancestry::{Ancestry, ancestry_of, has_job_processes};
use super::socket_table::{self, Lookup, SocketEntry};
use crate::{orphans, proc_scan, raw};

/// Clients that are looked at first: most connections come from a process that came before.
const MAX_RECENT: usize = 16;

/// Tells connections of this server's jobs from those of other processes.
#[derive(Debug, Default)]
pub struct Callers {
    /// Processes that lately held the other end of a connection and were no job's. Only a hint:
    /// each is examined again.
    recent: Mutex<VecDeque<Pid>>,
}

impl Callers {
    /// Returns `true` if a job opened the connection at whose other end this socket is. A process
    /// that ended since counts as a job's: nobody can say that it was not.
    #[must_use]
    pub fn is_job_on_unix(&self, stream: &UnixStream) -> bool {
        match connector_of(stream) {
            Ok(Connector::Process(pid, handle)) => {
                let found = ancestry_of(pid);
                // The number may be another process's by now, unless this one still has it.
                let is_certain = handle.is_none_or(|handle| pid_of(&handle) == Some(pid));
                found != Ancestry::Outside || !is_certain
            }
            Ok(Connector::OtherNamespace) => false,
            Err(_) => true,
        }
    }

    /// Returns `true` if a job holds the other end of a connection that came from `peer` and was
    /// accepted at `server`, or if that cannot be ruled out while jobs have processes.
    ///
    /// Reads /proc, which takes up to some milliseconds on a machine with many processes.
    #[must_use]
    pub fn is_job_on_tcp(&self, server: SocketAddr, peer: SocketAddr) -> bool {
        // Asked before the socket is: a job that holds it now may be over once its holder was looked for.
        let had_trees = orphans::has_open_trees();
        match socket_table::find(peer, server) {
            Ok(Lookup::Found(entry)) => self.is_jobs_socket(entry, had_trees),
            // The other end was closed before it could be examined, or is on another machine.
            Ok(Lookup::Missing) => {
                let (server, peer) = (server.ip().to_canonical(), peer.ip().to_canonical());
                peer.is_loopback() || peer == server
            }
            // Refusing here would shut out every client of such a host, not only jobs.
            Ok(Lookup::Unsupported) => false,
            Err(_) => has_job_processes(),
        }
    }

    fn is_jobs_socket(&self, socket: SocketEntry, had_trees: bool) -> bool {
        if socket.inode == 0 {
            return true;
        }
        // Jobs cannot become another user, unless they are root's.
        let own = geteuid();
        if !own.is_root() && socket.uid != own.as_raw() {
            return false;
        }
        !self.is_held_outside(socket) && (had_trees || has_job_processes())
    }

    /// Returns `true` if a process that is no job's holds this socket. Likely ones come first: those
    /// that held one lately, then those of the socket's own user, the newest first.
    fn is_held_outside(&self, socket: SocketEntry) -> bool {
        let link = PathBuf::from(format!("socket:[{}]", socket.inode));
        let recent: Vec<Pid> = self.lock_recent().iter().copied().collect();
        if let Some(pid) = recent.into_iter().find(|pid| holds_outside(*pid, &link)) {
            self.remember(pid);
            return true;
        }
        let mut pids = proc_scan::all_pids();
        pids.sort_unstable_by_key(|pid| std::cmp::Reverse(pid.as_raw_nonzero()));
        let is_of_user = |pid: &Pid| {
            fs::symlink_metadata(format!("/proc/{pid}")).is_ok_and(|it| it.uid() == socket.uid)
        };
        let (likely, others): (Vec<Pid>, Vec<Pid>) = pids.into_iter().partition(is_of_user);
        let holder = likely.into_iter().chain(others).find(|pid| holds_outside(*pid, &link));
        holder.map(|pid| self.remember(pid)).is_some()
    }

    fn remember(&self, pid: Pid) {
        let mut recent = self.lock_recent();
        recent.retain(|known| *known != pid);
        recent.push_front(pid);
        recent.truncate(MAX_RECENT);
    }

    fn lock_recent(&self) -> std::sync::MutexGuard<'_, VecDeque<Pid>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The process that called `connect`.
enum Connector {
    /// This process, and what holds on to it where the kernel gives that.
    Process(Pid, Option<OwnedFd>),
    /// A process that our process namespace does not contain, as all of our descendants are.
    OtherNamespace,
}

fn connector_of(stream: &UnixStream) -> io::Result<Connector> {
    let handle = match raw::peer_pidfd(stream.as_fd()) {
        Ok(handle) => Some(handle),
        // Linux before 6.5.
        Err(Errno::NOPROTOOPT | Errno::OPNOTSUPP) => None,
        Err(error) => return Err(error.into()),
    };
    match stream.peer_cred()?.pid() {
        Some(0) => Ok(Connector::OtherNamespace),
        number => match number.and_then(Pid::from_raw) {
            Some(pid) => Ok(Connector::Process(pid, handle)),
            None => Err(io::ErrorKind::NotFound.into()),
        },
    }
}

/// The number of the process that a pidfd is for; `None` once that process was reaped.
fn pid_of(handle: &OwnedFd) -> Option<Pid> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd())).ok()?;
    let number = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    Pid::from_raw(number.trim().parse().ok().filter(|number| *number > 0)?)
}

/// Returns `true` if this process holds the file that `link` names, and is no job's.
fn holds_outside(pid: Pid, link: &Path) -> bool {
    let is_it = |file: &Path| fs::read_link(file).is_ok_and(|target| target == link);
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let held = files.map(|entry| entry.path()).find(|file| is_it(file));
    // Looked at once more: the number may have become another process's in between.
    held.is_some_and(|file| ancestry_of(pid) == Ancestry::Outside && is_it(&file))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    use super::*;

    /// A child that connects to `port` and stays for as long as its input is open.
    fn client(port: u16) -> std::process::Child {
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read");
        let mut command = Command::new("bash");
        command.args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn a_child_is_a_job_over_tcp_also_when_it_is_gone_and_we_are_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let callers = Callers::default();
        for _ in 0..2 {
            let ours = TcpStream::connect(server).unwrap();
            let (_, peer) = listener.accept().unwrap();
            assert!(!callers.is_job_on_tcp(server, peer));
            drop(ours);
            assert!(callers.is_job_on_tcp(server, peer), "nobody can say whose it was");
        }
        let mut child = client(server.port());
        let (_, peer) = listener.accept().unwrap();
        assert!(callers.is_job_on_tcp(server, peer));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(callers.is_job_on_tcp(server, peer));
        let elsewhere = "192.0.2.7:7".parse().unwrap();
        assert!(!callers.is_job_on_tcp(server, elsewhere));
    }

    #[test]
    fn a_socket_whose_holder_ended_while_it_was_looked_for_is_a_jobs_if_there_was_one() {
        let ended = SocketEntry { inode: u32::MAX.into(), uid: geteuid().as_raw() };
        assert!(Callers::default().is_jobs_socket(ended, true));
    }

    #[tokio::test]
    async fn a_child_is_a_job_over_a_socket_also_when_it_is_gone_and_we_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let callers = Callers::default();
        let ours = UnixStream::connect(&path).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        assert!(!callers.is_job_on_unix(&stream));
        drop(ours);
        assert!(!callers.is_job_on_unix(&stream), "we are still there");
        let script = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); \
                      sys.stdin.read()";
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(&path).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        assert!(callers.is_job_on_unix(&stream));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(callers.is_job_on_unix(&stream));
    }
}
