//! Everything that the keeper holds for the next server: files, and the jobs with their statuses.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::Pid;

use super::protocol::{KeeperMessage, OutgoingMessage, ServerMessage, send_message};
use crate::syscalls::{self, ChildExit};

/// Everything that is held for the next server.
#[derive(Debug, Default)]
pub(crate) struct HeldState {
    files: BTreeMap<String, NotedFile>,
    jobs: BTreeMap<u64, HeldJob>,
}

#[derive(Debug)]
struct NotedFile {
    note: String,
    file: OwnedFd,
}

#[derive(Debug)]
struct HeldJob {
    name: String,
    leader: i32,
    files: Vec<(String, OwnedFd)>,
    state: String,
    status: LeaderStatus,
}

/// The knowledge about the end of a job's first process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaderStatus {
    Unknown,
    /// A server reported it and reaped the process.
    Reported(ChildExit),
    /// The process is a child of the keeper and waits to be reaped.
    Unreaped(ChildExit),
    /// The keeper has reaped it.
    Reaped(ChildExit),
}

impl LeaderStatus {
    const fn exit(self) -> Option<ChildExit> {
        match self {
            Self::Unknown => None,
            Self::Reported(exit) | Self::Unreaped(exit) | Self::Reaped(exit) => Some(exit),
        }
    }
}

impl HeldState {
    /// Returns the messages about everything that is held, for a server that has just started.
    pub(crate) fn describe(&self) -> impl Iterator<Item = OutgoingMessage> + '_ {
        let files = self.files.keys().cloned().map(OutgoingMessage::File);
        files.chain(self.jobs.keys().copied().map(OutgoingMessage::Job))
    }

    /// Returns the note about the file that is held under this name.
    pub(crate) fn note(&self, name: &str) -> Option<&str> {
        self.files.get(name).map(|held| held.note.as_str())
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.files.clear();
        self.jobs.clear();
    }

    /// Takes the statuses of those children of this process that have ended: reaps orphans, and
    /// keeps the first processes of jobs until the server has finished with their pids. Returns the
    /// jobs whose first processes have ended.
    pub(crate) fn take_statuses(&mut self, children: impl Iterator<Item = Pid>) -> Vec<u64> {
        let mut children = children.peekable();
        if children.peek().is_none() {
            return Vec::new();
        }
        let open_jobs = self.jobs.iter().filter_map(|(job, held)| match held.status {
            LeaderStatus::Unknown | LeaderStatus::Unreaped(_) => Some((held.leader, *job)),
            LeaderStatus::Reported(_) | LeaderStatus::Reaped(_) => None,
        });
        let leaders: HashMap<i32, u64> = open_jobs.collect();
        let mut ended = Vec::new();
        for pid in children {
            match leaders.get(&pid.as_raw_nonzero().get()) {
                Some(job) => ended.extend(self.check_leader(*job, pid)),
                // An orphan that runs, or that is reaped by this.
                None => drop(syscalls::try_wait(pid)),
            }
        }
        ended
    }

    /// Returns the job if its first process has ended since the last check.
    fn check_leader(&mut self, job: u64, pid: Pid) -> Option<u64> {
        let held = self.jobs.get_mut(&job)?;
        if held.status != LeaderStatus::Unknown {
            return None;
        }
        let exit = syscalls::peek_exit(pid).ok()??;
        held.status = LeaderStatus::Unreaped(exit);
        Some(job)
    }

    /// Applies a message of the server. Other messages change nothing.
    pub(crate) fn apply(&mut self, message: ServerMessage, files: Vec<OwnedFd>) {
        match message {
            ServerMessage::HoldFile { name, note } => {
                if let Some(file) = files.into_iter().next() {
                    self.files.insert(name, NotedFile { note, file });
                }
            }
            ServerMessage::DropFile { name } => drop(self.files.remove(&name)),
            ServerMessage::Register { job, name, leader, roles, state } => {
                // If the system had no room for all files, the job is held without any: the next
                // server ends it and says so.
                let is_complete = roles.len() == files.len();
                let files = roles.into_iter().zip(files).filter(|_| is_complete).collect();
                let status = LeaderStatus::Unknown;
                self.jobs.insert(job, HeldJob { name, leader, files, state, status });
            }
            ServerMessage::CloseFile { job, role } => {
                if let Some(held) = self.jobs.get_mut(&job) {
                    held.files.retain(|(word, _)| *word != role);
                }
            }
            ServerMessage::Ended { job, exit } => {
                if let Some(held) = self.jobs.get_mut(&job) {
                    held.status = LeaderStatus::Reported(exit);
                }
            }
            ServerMessage::Reap { job } => {
                if let Some(held) = self.jobs.get_mut(&job) {
                    held.reap();
                }
            }
            ServerMessage::Release { job } => {
                if let Some(mut held) = self.jobs.remove(&job) {
                    held.reap();
                }
            }
            ServerMessage::Ready
            | ServerMessage::Notify { .. }
            | ServerMessage::Upgrade { .. }
            | ServerMessage::Unknown => {}
        }
    }

    /// Sends one message to the server, with its files. A job or a file that is no longer held is
    /// left out.
    pub(crate) fn send(
        &self,
        message: &OutgoingMessage,
        socket: BorrowedFd<'_>,
    ) -> Result<(), Errno> {
        let mut files: Vec<BorrowedFd<'_>> = Vec::new();
        let message = match message {
            OutgoingMessage::Hello(hello) => KeeperMessage::Hello(hello.clone()),
            OutgoingMessage::Complete => KeeperMessage::Complete,
            OutgoingMessage::File(name) => {
                let Some(held) = self.files.get(name) else { return Ok(()) };
                files.push(held.file.as_fd());
                KeeperMessage::File { name: name.clone(), note: held.note.clone() }
            }
            OutgoingMessage::Job(job) => {
                let Some(held) = self.jobs.get(job) else { return Ok(()) };
                files.extend(held.files.iter().map(|(_, file)| file.as_fd()));
                held.describe(*job)
            }
            OutgoingMessage::Ended(job) => {
                let exit = self.jobs.get(job).and_then(|held| held.status.exit());
                let Some(exit) = exit else { return Ok(()) };
                KeeperMessage::Ended { job: *job, exit }
            }
        };
        send_message(socket, &message, &files, SendFlags::DONTWAIT)
    }
}

impl HeldJob {
    fn reap(&mut self) {
        if let LeaderStatus::Unreaped(exit) = self.status {
            self.status = LeaderStatus::Reaped(exit);
            if let Some(pid) = Pid::from_raw(self.leader) {
                // It is a zombie of ours.
                syscalls::try_wait(pid).ok();
            }
        }
    }

    fn describe(&self, job: u64) -> KeeperMessage {
        KeeperMessage::Job {
            job,
            name: self.name.clone(),
            leader: self.leader,
            roles: self.files.iter().map(|(role, _)| role.clone()).collect(),
            state: self.state.clone(),
            exit: self.status.exit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use rustix::pipe::pipe;

    use super::*;

    const EXIT: ChildExit = ChildExit { status: 0, cpu: Duration::ZERO, max_rss_bytes: 0 };

    fn register(job: u64, leader: i32, roles: &[&str]) -> ServerMessage {
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        ServerMessage::Register { job, name: "n".into(), leader, roles, state: "s".into() }
    }

    fn roles(state: &HeldState, job: u64) -> Vec<String> {
        state.jobs[&job].files.iter().map(|(role, _)| role.clone()).collect()
    }

    #[test]
    fn a_job_is_held_with_its_files_until_it_is_released() {
        let mut state = HeldState::default();
        let (one, other) = pipe().unwrap();
        state.apply(register(1, i32::MAX, &["stdin", "stdout"]), vec![other, one]);
        assert_eq!(roles(&state, 1), ["stdin", "stdout"]);
        state.apply(ServerMessage::CloseFile { job: 1, role: "stdin".into() }, Vec::new());
        assert_eq!(roles(&state, 1), ["stdout"]);
        state.apply(ServerMessage::Ended { job: 1, exit: EXIT }, Vec::new());
        assert_eq!(state.jobs[&1].status, LeaderStatus::Reported(EXIT));
        // Messages about other jobs change nothing.
        state.apply(ServerMessage::Release { job: 2 }, Vec::new());
        state.apply(ServerMessage::Unknown, Vec::new());
        assert_eq!(state.describe().count(), 1);
        state.apply(ServerMessage::Release { job: 1 }, Vec::new());
        assert_eq!(state.describe().count(), 0);
    }

    #[test]
    fn a_job_without_all_its_files_is_held_without_any() {
        let mut state = HeldState::default();
        let (one, _) = pipe().unwrap();
        state.apply(register(1, i32::MAX, &["stdin", "stdout"]), vec![one]);
        assert_eq!(roles(&state, 1), [""; 0]);
    }

    #[test]
    fn a_file_is_replaced_by_one_with_the_same_name() {
        let mut state = HeldState::default();
        for note in ["a", "b"] {
            let (file, _) = pipe().unwrap();
            let hold = ServerMessage::HoldFile { name: "f".into(), note: note.into() };
            state.apply(hold, vec![file]);
        }
        assert_eq!(state.note("f"), Some("b"));
        state.apply(ServerMessage::DropFile { name: "f".into() }, Vec::new());
        assert_eq!((state.note("f"), state.describe().count()), (None, 0));
    }

    #[test]
    fn a_leader_stays_a_zombie_until_the_server_has_finished_with_it() {
        let mut state = HeldState::default();
        let mut child = Command::new("sh").args(["-c", "exit 5"]).spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        state.apply(register(1, pid.as_raw_nonzero().get(), &[]), Vec::new());
        let deadline = Instant::now() + Duration::from_secs(30);
        while state.take_statuses([pid].into_iter()).is_empty() {
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::yield_now();
        }
        let exit = state.jobs[&1].status.exit().unwrap();
        assert_eq!(libc::WEXITSTATUS(exit.status), 5);
        assert_eq!(state.take_statuses([pid].into_iter()), [0; 0], "it is reported once");
        let again = syscalls::peek_exit(pid).unwrap().unwrap();
        assert_eq!(again.status, exit.status, "it is still there");
        state.apply(ServerMessage::Reap { job: 1 }, Vec::new());
        assert_eq!(state.jobs[&1].status, LeaderStatus::Reaped(exit));
        assert!(child.wait().is_err(), "it was reaped");
    }
}
