//! The shims of a keeper: forking them, reaping them, and ending what a shim that was killed has left.

use std::collections::HashSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getgid, getpid, getuid, kill_process, wait,
};

use crate::own_process::OwnScore;
use crate::processes;
use crate::shim::{ForkResult, Isolation, KeeperIds, MappedIds, Report, ShimFiles, fork, run_shim};
use crate::spawn_request::SpawnStep;
use crate::wire;

/// The longest wait at the end for shims, whose processes may be stuck in the kernel.
const END_LIMIT: Duration = Duration::from_secs(60);
const END_PAUSE: Duration = Duration::from_millis(5);

/// The shims of a keeper.
#[derive(Debug)]
pub(super) struct Shims {
    ids: KeeperIds,
    /// Read by every shim: it has an end once the keeper is gone.
    lifeline: OwnedFd,
    /// Only held, by the keeper alone.
    lifeline_writer: Option<OwnedFd>,
    score: Option<OwnScore>,
    running: HashSet<Pid>,
}

impl Shims {
    pub(super) fn new(score: Option<OwnScore>) -> io::Result<Self> {
        let (lifeline, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let ids = KeeperIds { user: getuid().as_raw(), group: getgid().as_raw() };
        let running = HashSet::new();
        Ok(Self { ids, lifeline, lifeline_writer: Some(writer), score, running })
    }

    /// Forks a shim with this end of its connection. If there is no room for a process, the server hears
    /// of it through that connection.
    pub(super) fn start(
        &mut self,
        isolation: Isolation,
        mapped: Option<&MappedIds>,
        socket: &OwnedFd,
    ) {
        let forked = match &self.score {
            Some(score) => score.with_job_score(|| self.fork(isolation, socket)),
            None => self.fork(isolation, socket),
        };
        match forked {
            Ok(pid) => {
                self.running.insert(pid);
                if let (Isolation::Namespaces(_), Some(mapped)) = (isolation, mapped) {
                    // A shim that waits in vain says so.
                    mapped.map_into(pid, self.ids).ok();
                }
            }
            Err(errno) => Self::refuse(isolation, socket, errno),
        }
    }

    /// Tells the server that there is no shim, through the shim's end of the connection.
    pub(super) fn refuse(isolation: Isolation, socket: &OwnedFd, errno: Errno) {
        let step = match isolation {
            Isolation::None => SpawnStep::Clone,
            Isolation::Namespaces(_) => SpawnStep::Namespaces,
        };
        let report = Report::Failed(step.failed(errno));
        // A server that is gone asks nobody.
        wire::send(socket.as_fd(), &report, &[], SendFlags::DONTWAIT).ok();
    }

    fn fork(&self, isolation: Isolation, socket: &OwnedFd) -> Result<Pid, Errno> {
        match fork(isolation)? {
            ForkResult::Parent(pid) => Ok(pid),
            ForkResult::Child => {
                let files = ShimFiles { socket: socket.as_fd(), lifeline: self.lifeline.as_fd() };
                run_shim(&files, self.ids)
            }
        }
    }

    /// Reaps everything that has ended; returns the end of the server, if it has. Kills every child that
    /// is neither the server nor a shim: a shim that was killed has left it. Continues a shim that was
    /// stopped: a job must not escape its deadline by that.
    pub(super) fn reap(&mut self, server: Option<Pid>) -> Option<WaitStatus> {
        let mut server_end = None;
        let mut may_have_strays = false;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if status.stopped() {
                if self.running.contains(&pid) {
                    kill_process(pid, Signal::CONT).ok();
                }
                continue;
            }
            if Some(pid) == server {
                server_end = Some(status);
            }
            // A shim that ends by itself has no child left.
            let was_over = self.running.remove(&pid) && status.exit_status() == Some(0);
            may_have_strays |= !was_over;
        }
        if may_have_strays {
            self.kill_strays(server);
        }
        server_end
    }

    fn kill_strays(&self, server: Option<Pid>) {
        for child in processes::children_of(getpid()) {
            if Some(child) != server && !self.running.contains(&child) {
                // It is not reaped yet, so the number is its own.
                kill_process(child, Signal::KILL).ok();
            }
        }
    }

    /// Begins to end all jobs, also those that are started from now on.
    pub(super) fn begin_end(&mut self) {
        self.lifeline_writer = None;
    }

    /// Lets jobs start again, for the next server, if the last one had all jobs ended.
    pub(super) fn allow_starts(&mut self) -> Result<(), Errno> {
        if self.lifeline_writer.is_none() {
            let (lifeline, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            (self.lifeline, self.lifeline_writer) = (lifeline, Some(writer));
        }
        Ok(())
    }

    /// Ends all jobs, and waits for it. Returns `false` if a shim is left.
    pub(super) fn end(&mut self) -> bool {
        self.begin_end();
        let deadline = Instant::now() + END_LIMIT;
        loop {
            self.reap(None);
            let is_over = self.running.is_empty() && processes::children_of(getpid()).is_empty();
            if is_over || Instant::now() >= deadline {
                return is_over;
            }
            thread::sleep(END_PAUSE);
        }
    }
}
