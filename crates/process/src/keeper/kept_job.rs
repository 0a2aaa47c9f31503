//! A job that the keeper holds, as the server sees it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::process::Pid;
use tokio::sync::oneshot;

use super::client::KeeperClient;
use super::protocol::{FileRole, ServerMessage};
use crate::syscalls::ChildExit;

/// A job that the keeper holds.
///
/// Messages about it that cannot be sent are dropped: then the keeper is gone, and the server ends
/// all jobs.
#[derive(Debug)]
pub(crate) struct KeptJob {
    keeper: KeeperClient,
    id: u64,
    released: AtomicBool,
    /// `true` once no process of the job is left.
    is_tree_over: AtomicBool,
}

impl KeptJob {
    /// Gives a new job of this server a number.
    pub(crate) fn create(keeper: &KeeperClient) -> Arc<Self> {
        Self::restore(keeper, keeper.new_job_id())
    }

    /// Continues a job of an earlier server.
    pub(crate) fn restore(keeper: &KeeperClient, id: u64) -> Arc<Self> {
        let released = AtomicBool::new(false);
        let is_tree_over = AtomicBool::new(false);
        Arc::new(Self { keeper: keeper.clone(), id, released, is_tree_over })
    }

    /// Sends the job with its files to the keeper.
    pub(crate) fn register(
        &self,
        name: &str,
        leader: Pid,
        state: String,
        files: &[(FileRole, BorrowedFd<'_>)],
    ) -> Result<(), Errno> {
        let (roles, files): (Vec<_>, Vec<_>) =
            files.iter().map(|(role, file)| (role.word().to_owned(), *file)).unzip();
        let leader = leader.as_raw_nonzero().get();
        let name = name.to_owned();
        let message = ServerMessage::Register { job: self.id, name, leader, roles, state };
        self.keeper.send(&message, &files)
    }

    /// Reports the status of its first process, which is a child of this server. Call it before the
    /// process is reaped, so that the status is never lost.
    pub(crate) fn report_exit(&self, exit: ChildExit) {
        self.send(&ServerMessage::Ended { job: self.id, exit });
    }

    /// Lets the keeper reap its first process, which is a child of the keeper.
    pub(crate) fn reap_leader(&self) {
        self.send(&ServerMessage::Reap { job: self.id });
    }

    /// Registers for the end of its first process, which is a child of the keeper.
    pub(crate) fn wait_for_exit(&self) -> oneshot::Receiver<ChildExit> {
        self.keeper.wait_for_exit(self.id)
    }

    /// Notes that no process of the job is left. Nobody then waits for the end of the input, which
    /// the keeper may hold until the job is released.
    pub(crate) fn mark_tree_over(&self) {
        self.is_tree_over.store(true, Ordering::Relaxed);
    }

    /// Makes the keeper forget the job and close its files.
    pub(crate) fn release(&self) {
        if !self.released.swap(true, Ordering::AcqRel) {
            self.send(&ServerMessage::Release { job: self.id });
        }
    }

    fn send(&self, message: &ServerMessage) {
        self.keeper.send(message, &[]).ok();
    }
}

impl Drop for KeptJob {
    fn drop(&mut self) {
        if !self.keeper.handover().is_set() {
            self.release();
        }
    }
}

/// The keeper's copy of a file of a job. On drop the keeper closes it, unless the next server takes
/// over the job.
#[derive(Debug)]
pub(crate) struct KeptFile {
    job: Arc<KeptJob>,
    role: FileRole,
    /// `true` if it makes no difference that the keeper holds the file until the job is released.
    is_over: AtomicBool,
}

impl KeptFile {
    pub(crate) fn new(job: &Arc<KeptJob>, role: FileRole) -> Self {
        Self { job: Arc::clone(job), role, is_over: AtomicBool::new(false) }
    }

    /// Leaves the file to the keeper: no process has its other end open.
    pub(crate) fn mark_over(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        if self.needs_close() {
            let role = self.role.word().to_owned();
            self.job.send(&ServerMessage::CloseFile { job: self.job.id, role });
        }
    }
}

impl KeptFile {
    /// `true` if a process may notice that the keeper still holds the file. If this is the last
    /// owner of the job, the job is released right after.
    fn needs_close(&self) -> bool {
        let is_read_by_nobody =
            self.role == FileRole::Stdin && self.job.is_tree_over.load(Ordering::Relaxed);
        !self.is_over.load(Ordering::Relaxed)
            && !is_read_by_nobody
            && !self.job.released.load(Ordering::Acquire)
            && Arc::strong_count(&self.job) > 1
            && !self.job.keeper.handover().is_set()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd as _, OwnedFd};

    use rustix::net::RecvFlags;

    use super::*;
    use crate::keeper::client::tests::connect;
    use crate::keeper::protocol::{MessageReader, Received};

    fn messages(keeper: &OwnedFd) -> Vec<ServerMessage> {
        let mut reader = MessageReader::default();
        let next = || match reader.receive(keeper.as_fd(), RecvFlags::DONTWAIT) {
            Ok(Received::Message(message, _)) => Some(message),
            Ok(Received::End) | Err(_) => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_file_is_closed_at_the_keeper_while_a_process_may_notice() {
        let (client, keeper) = connect();
        let job = KeptJob::create(&client);
        let id = job.id;
        for role in [FileRole::Stdin, FileRole::Stdout] {
            drop(KeptFile::new(&job, role));
            let role = role.word().to_owned();
            assert_eq!(messages(&keeper), [ServerMessage::CloseFile { job: id, role }]);
        }
        job.mark_tree_over();
        drop(KeptFile::new(&job, FileRole::Stdin));
        assert_eq!(messages(&keeper), []);
        // A process that is not of the job may still write.
        drop(KeptFile::new(&job, FileRole::Stdout));
        assert_eq!(messages(&keeper).len(), 1);
        job.release();
        drop(KeptFile::new(&job, FileRole::Stdout));
        drop(job);
        assert_eq!(messages(&keeper), [ServerMessage::Release { job: id }]);
    }

    #[test]
    fn the_last_file_of_a_dropped_job_goes_with_its_release() {
        let (client, keeper) = connect();
        let job = KeptJob::create(&client);
        let id = job.id;
        let file = KeptFile::new(&job, FileRole::Stdin);
        drop(job);
        assert_eq!(messages(&keeper), []);
        drop(file);
        assert_eq!(messages(&keeper), [ServerMessage::Release { job: id }]);
    }
}
