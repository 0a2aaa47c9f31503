//! The first process of a tree: waiting for its end, and taking its status.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use super::members::TreeIdentity;
use crate::children::{Child, Children};
use crate::keeper::KeptJob;
use crate::syscalls::{self, ChildExit};
use crate::vfork_spawn::SpawnedChild;

/// The end of a process, and the resources that it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code or signal.
    pub status: ExitKind,
    /// The resources that it and the children that it waited for used. `max_rss_bytes` is 0 if it
    /// is not known: the kernel starts a child's peak at the server's own, so a smaller one cannot
    /// be seen.
    pub usage: ResourceUsage,
}

/// CPU time and memory of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct ResourceUsage {
    /// User and system time.
    pub cpu: Duration,
    /// The largest resident set of any one process.
    pub max_rss_bytes: u64,
}

/// The way in which a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// An exit with this code.
    Code(i32),
    /// An end by this signal.
    Signal {
        /// The number of the signal.
        signal: i32,
        /// `true` if it left a core dump.
        core: bool,
    },
}

/// The first process of a tree.
///
/// If it is dropped without [`LeaderProcess::wait`], it keeps running and is reaped like an orphan.
#[derive(Debug)]
pub struct LeaderProcess {
    exit: LeaderExit,
    identity: Arc<TreeIdentity>,
}

/// The source of the status of a leader.
#[derive(Debug)]
enum LeaderExit {
    /// A child of this process, with its pidfd.
    Child(Child, AsyncFd<OwnedFd>),
    /// A child of the keeper, which will report its end.
    Kept(oneshot::Receiver<ChildExit>),
    /// A process that ended before this server took it over.
    Known(ChildExit),
}

/// Registers a new child with the runtime, which reports its end. After an error the child is gone.
pub(crate) fn watch_for_exit(spawned: SpawnedChild) -> io::Result<(Child, AsyncFd<OwnedFd>)> {
    let SpawnedChild { child, pidfd } = spawned;
    match syscalls::register(pidfd, Interest::READABLE) {
        Ok(pidfd) => Ok((child, pidfd)),
        Err(error) => {
            child.kill_and_reap();
            Err(error)
        }
    }
}

impl LeaderProcess {
    pub(crate) fn new(child: Child, pidfd: AsyncFd<OwnedFd>, identity: Arc<TreeIdentity>) -> Self {
        Self { exit: LeaderExit::Child(child, pidfd), identity }
    }

    /// Creates the leader of a tree that an earlier server started; `exit` is its status if it has
    /// ended.
    pub(crate) fn restore(
        exit: Option<ChildExit>,
        kept: &KeptJob,
        identity: Arc<TreeIdentity>,
    ) -> Self {
        let exit = match exit {
            Some(exit) => LeaderExit::Known(exit),
            None => LeaderExit::Kept(kept.wait_for_exit()),
        };
        Self { exit, identity }
    }

    /// Returns when the process has ended, and reaps it. Its descendants may live on.
    ///
    /// If the keeper holds the process, the keeper knows the status before the process is reaped.
    ///
    /// # Errors
    /// If another caller took the status, if the runtime shuts down, or if the keeper that would
    /// report it is gone.
    pub async fn wait(self) -> io::Result<Exit> {
        let identity = self.identity;
        let ended = match self.exit {
            LeaderExit::Child(child, pidfd) => {
                let ended = wait_for_child(child, pidfd, identity.kept_job()).await?;
                identity.mark_leader_reaped();
                ended
            }
            LeaderExit::Kept(receiver) => {
                let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the keeper is gone");
                let ended = receiver.await.map_err(gone)?;
                identity.mark_leader_reaped();
                if let Some(kept) = identity.kept_job() {
                    kept.reap_leader();
                }
                ended
            }
            LeaderExit::Known(ended) => ended,
        };
        Ok(exit_from(ended, &identity.trees().children))
    }
}

/// Waits for a child of this process, and reaps it.
async fn wait_for_child(
    mut child: Child,
    pidfd: AsyncFd<OwnedFd>,
    kept: Option<&Arc<KeptJob>>,
) -> io::Result<ChildExit> {
    loop {
        let mut ready = pidfd.readable().await?;
        if let Some(kept) = kept
            && let Some(ended) = child.peek_exit()?
        {
            kept.report_exit(ended);
        }
        if let Some(ended) = child.try_reap()? {
            return Ok(ended);
        }
        ready.clear_ready();
    }
}

fn exit_from(ended: ChildExit, children: &Children) -> Exit {
    // A spawned child starts with the server's memory: a peak up to ours may be ours.
    let is_its_own = children.is_above_own_peak(ended.max_rss_bytes);
    let max_rss_bytes = if is_its_own { ended.max_rss_bytes } else { 0 };
    Exit {
        status: decode_status(ended.status),
        usage: ResourceUsage { cpu: ended.cpu, max_rss_bytes },
    }
}

const fn decode_status(status: i32) -> ExitKind {
    if libc::WIFSIGNALED(status) {
        ExitKind::Signal { signal: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) }
    } else {
        ExitKind::Code(libc::WEXITSTATUS(status))
    }
}
