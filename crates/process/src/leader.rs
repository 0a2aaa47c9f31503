//! The first process of a tree: waiting for its end, and taking its status.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::birth::Newborn;
use super::children::Child;
use super::members::Identity;
use super::proc_scan;
use super::raw::{self, Ended};

/// How a process ended, and what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// How.
    pub status: ExitKind,
    /// What it and the children that it waited for used. `max_rss_bytes` is 0 where it is not
    /// known: the kernel starts a child's peak at the server's own, so a smaller one cannot be seen.
    pub usage: Usage,
}

/// CPU time and memory of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// User and system time.
    pub cpu: Duration,
    /// The largest resident set of any one process.
    pub max_rss_bytes: u64,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal {
        /// The signal's number.
        signal: i32,
        /// Whether it left a core dump.
        core: bool,
    },
}

/// The first process of a tree.
///
/// Dropped without [`Leader::wait`], it is neither ended nor lost: it is reaped as an orphan is.
#[derive(Debug)]
pub struct Leader {
    child: Child,
    pidfd: AsyncFd<OwnedFd>,
    identity: Arc<Identity>,
}

/// A new child, of whose end the runtime will tell. After an error it is gone.
pub(super) fn watch(newborn: Newborn) -> io::Result<(Child, AsyncFd<OwnedFd>)> {
    let Newborn { child, pidfd } = newborn;
    match raw::register(pidfd, Interest::READABLE) {
        Ok(pidfd) => Ok((child, pidfd)),
        Err(error) => {
            child.kill_and_reap();
            Err(error)
        }
    }
}

impl Leader {
    pub(super) fn new(child: Child, pidfd: AsyncFd<OwnedFd>, identity: Arc<Identity>) -> Self {
        Self { child, pidfd, identity }
    }

    /// Returns when the process has ended, and reaps it. Its descendants may live on.
    ///
    /// # Errors
    /// When somebody else took the status, or when the runtime shuts down.
    pub async fn wait(mut self) -> io::Result<Exit> {
        loop {
            let mut ready = self.pidfd.readable().await?;
            if let Some(ended) = self.child.try_reap()? {
                self.identity.leader_was_reaped();
                return Ok(exit(ended));
            }
            ready.clear_ready();
        }
    }
}

fn exit(ended: Ended) -> Exit {
    // A spawned child begins with the server's memory: a peak up to ours may be ours.
    let is_its_own = is_above_our_peak(ended.max_rss_bytes);
    let max_rss_bytes = if is_its_own { ended.max_rss_bytes } else { 0 };
    Exit { status: decode(ended.status), usage: Usage { cpu: ended.cpu, max_rss_bytes } }
}

/// `true` if this is more than the server itself ever had, as far as the kernel tells.
fn is_above_our_peak(bytes: u64) -> bool {
    /// The highest peak that was read: it only grows, so most jobs need no reading.
    static OURS: AtomicU64 = AtomicU64::new(0);
    if is_within(bytes, OURS.load(Ordering::Relaxed)) {
        return false;
    }
    let ours = proc_scan::own_peak_bytes();
    OURS.fetch_max(ours.unwrap_or(0), Ordering::Relaxed);
    ours.is_some_and(|ours| !is_within(bytes, ours))
}

/// `true` if a peak that a child began with may be this one. The kernel adds up the pages of a process
/// from counters of each processor, so two readings of one peak differ a little.
const fn is_within(bytes: u64, peak: u64) -> bool {
    bytes <= peak.saturating_add(peak / 8)
}

const fn decode(status: i32) -> ExitKind {
    if libc::WIFSIGNALED(status) {
        ExitKind::Signal { signal: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) }
    } else {
        ExitKind::Code(libc::WEXITSTATUS(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_that_differs_a_little_from_ours_may_be_ours() {
        let [same, close, above] = [100, 112, 113].map(|bytes| is_within(bytes, 100));
        assert!(same && close && !above);
    }
}
