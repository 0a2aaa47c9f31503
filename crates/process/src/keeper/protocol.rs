//! The messages between keeper and server.
//!
//! Each message is one packet of JSON with its files beside it. A side ignores messages and fields
//! that it does not know, so that a server can be newer or older than its keeper.

use std::ffi::OsString;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::Rlimit;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::processes::{ProcessKey, parse_pid};
use crate::syscalls::ChildExit;

/// The version of the messages. It grows when an older side would misunderstand a message.
pub(crate) const PROTOCOL_VERSION: u32 = 1;

/// The variable that tells the server the number of its socket.
pub(crate) const KEEPER_VARIABLE: &str = "SHELLYARD_KEEPER";

/// The most files beside one message; the kernel allows 253.
const MOST_FILES: usize = 250;
/// The longest message: less than the buffer that every socket has.
const MOST_BYTES: usize = 128 << 10;
const ANCILLARY_BYTES: usize = cmsg_space!(ScmRights(MOST_FILES));

/// A message from the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ServerMessage {
    /// The server serves requests.
    Ready,
    /// A text for the service manager.
    Notify {
        text: String,
    },
    /// The file beside this message is held for the next server, under this name.
    HoldFile {
        name: String,
        note: String,
    },
    DropFile {
        name: String,
    },
    /// A process was started. The files beside this message have these roles.
    Register {
        job: u64,
        name: String,
        leader: i32,
        roles: Vec<String>,
        state: String,
    },
    /// The server closed its own copy of a job's file.
    CloseFile {
        job: u64,
        role: String,
    },
    /// The server is about to reap its child, the first process of a job.
    Ended {
        job: u64,
        exit: ChildExit,
    },
    /// The server no longer uses the pid of a job's first process, which the keeper has to reap.
    Reap {
        job: u64,
    },
    /// Everything about a job is over and recorded.
    Release {
        job: u64,
    },
    /// The server is about to exit; this program is the next server.
    Upgrade {
        program: Vec<u8>,
    },
    #[serde(other)]
    Unknown,
}

/// A message of the keeper that waits to be sent. The files that go with it are still held.
#[derive(Debug)]
pub(crate) enum OutgoingMessage {
    Hello(Hello),
    File(String),
    Job(u64),
    Complete,
    Ended(u64),
}

/// A message from the keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum KeeperMessage {
    Hello(Hello),
    /// The file beside this message was held.
    File {
        name: String,
        note: String,
    },
    /// A job of an earlier server, with its files beside this message.
    Job {
        job: u64,
        name: String,
        leader: i32,
        roles: Vec<String>,
        state: String,
        exit: Option<ChildExit>,
    },
    /// There are no more files and jobs.
    Complete,
    /// The first process of a job of an earlier server has ended.
    Ended {
        job: u64,
        exit: ChildExit,
    },
    #[serde(other)]
    Unknown,
}

/// The first message of the keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) version: u32,
    /// The number of servers so far, with this one.
    pub(crate) generation: u64,
    pub(crate) identity: ServerIdentity,
    /// The reason why the previous server, or an upgrade, ended.
    pub(crate) last_failure: Option<String>,
    /// The largest resident set of all earlier servers.
    pub(crate) server_peak_bytes: u64,
}

/// The identity under which the processes of all servers of one keeper are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerIdentity {
    pub(crate) tag: u64,
    /// `true` if descendants inherit the tag in a resource limit.
    pub(crate) is_tag_inherited: bool,
    pub(crate) pid: i32,
    pub(crate) started: u64,
    /// The soft and the hard limit on open files that jobs get.
    pub(crate) open_files: (Option<u64>, Option<u64>),
}

impl ServerIdentity {
    /// Returns the key of the keeper; `None` if the pid is not valid.
    pub(crate) fn key(&self) -> Option<ProcessKey> {
        Some((parse_pid(self.pid)?, self.started))
    }

    pub(crate) const fn open_file_limit(&self) -> Rlimit {
        Rlimit { current: self.open_files.0, maximum: self.open_files.1 }
    }
}

/// The role of a file that the keeper holds for a job. The keeper itself does not interpret it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileRole {
    /// The read end of the output, or our side of the terminal.
    Stdout,
    Stderr,
    /// The write end of an open input. For a terminal a copy of our side.
    Stdin,
    /// The file with the exit codes of the last pipeline.
    Report,
    /// The pipe that keeps the job's pid namespace alive.
    Lifeline,
    /// A pidfd of the first process of the job's pid namespace.
    Init,
}

impl FileRole {
    const WORDS: [(&'static str, Self); 6] = [
        ("stdout", Self::Stdout),
        ("stderr", Self::Stderr),
        ("stdin", Self::Stdin),
        ("report", Self::Report),
        ("lifeline", Self::Lifeline),
        ("init", Self::Init),
    ];

    pub(crate) fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, role)| *role == self).map_or("", |(word, _)| word)
    }
}

/// A job of an earlier server, as the keeper describes it.
#[derive(Debug)]
pub(crate) struct ReceivedJob {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) leader: i32,
    pub(crate) state: String,
    pub(crate) exit: Option<ChildExit>,
    files: Vec<(String, OwnedFd)>,
}

impl ReceivedJob {
    /// Converts a message about a job; `None` for any other message.
    pub(crate) fn from_message(message: KeeperMessage, files: Vec<OwnedFd>) -> Option<Self> {
        let KeeperMessage::Job { job, name, leader, roles, state, exit } = message else {
            return None;
        };
        // If a file is missing, later roles would be wrong. The job then lacks all of them.
        let files = if roles.len() == files.len() {
            roles.into_iter().zip(files).collect()
        } else {
            Vec::new()
        };
        Some(Self { id: job, name, leader, state, exit, files })
    }

    /// Takes the first file with this role.
    pub(crate) fn take_file(&mut self, role: FileRole) -> Option<OwnedFd> {
        let place = self.files.iter().position(|(word, _)| word == role.word())?;
        Some(self.files.remove(place).1)
    }
}

/// A message as received, with its files.
#[derive(Debug)]
pub(crate) enum Received<M> {
    Message(M, Vec<OwnedFd>),
    /// The other side is gone.
    End,
}

/// Sends one message.
///
/// # Errors
/// `MSGSIZE` if it is too long, `WOULDBLOCK` or a timeout if the other side does not read, `PIPE`
/// if it is gone.
pub(crate) fn send_message(
    socket: BorrowedFd<'_>,
    message: &impl Serialize,
    files: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), Errno> {
    let bytes = serde_json::to_vec(message).map_err(|_| Errno::INVAL)?;
    if bytes.len() > MOST_BYTES || files.len() > MOST_FILES {
        return Err(Errno::MSGSIZE);
    }
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(Errno::MSGSIZE);
    }
    let flags = flags | SendFlags::NOSIGNAL;
    retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, flags)).map(drop)
}

/// Receives messages over one socket.
#[derive(Debug)]
pub(crate) struct MessageReader {
    buffer: Vec<u8>,
}

impl Default for MessageReader {
    fn default() -> Self {
        Self { buffer: vec![0; MOST_BYTES] }
    }
}

impl MessageReader {
    /// Receives the next message that can be understood.
    ///
    /// # Errors
    /// `WOULDBLOCK` if there is none and `flags` say not to wait.
    pub(crate) fn receive<M: DeserializeOwned>(
        &mut self,
        socket: BorrowedFd<'_>,
        flags: RecvFlags,
    ) -> Result<Received<M>, Errno> {
        loop {
            let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let flags = flags | RecvFlags::CMSG_CLOEXEC;
            let received = retry_on_intr(|| {
                recvmsg(socket, &mut [IoSliceMut::new(&mut self.buffer)], &mut ancillary, flags)
            });
            let length = match received {
                // The other side ended with messages of ours unread. The system reports that once,
                // before the last messages of the other side.
                Err(Errno::CONNRESET) => continue,
                received => received?.bytes,
            };
            if length == 0 {
                return Ok(Received::End);
            }
            let mut files: Vec<OwnedFd> = Vec::new();
            for beside in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = beside {
                    files.extend(received);
                }
            }
            let bytes = self.buffer.get(..length).unwrap_or_default();
            if let Ok(message) = serde_json::from_slice(bytes) {
                return Ok(Received::Message(message, files));
            }
        }
    }
}

/// A path in a form that JSON can hold: text, or bytes if it is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum SavedPath {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&Path> for SavedPath {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl From<SavedPath> for PathBuf {
    fn from(saved: SavedPath) -> Self {
        match saved {
            SavedPath::Text(text) => text.into(),
            SavedPath::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }
    }
}

/// Returns paths as they are saved.
pub(crate) fn save_paths(paths: &[PathBuf]) -> Vec<SavedPath> {
    paths.iter().map(|path| SavedPath::from(path.as_path())).collect()
}

/// Returns saved paths.
pub(crate) fn restore_paths(saved: Vec<SavedPath>) -> Vec<PathBuf> {
    saved.into_iter().map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;
    use std::time::Duration;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, send, socketpair};
    use rustix::pipe::pipe;

    use super::*;

    fn sockets() -> (OwnedFd, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
    }

    fn receive<M: DeserializeOwned>(socket: &OwnedFd) -> Received<M> {
        MessageReader::default().receive(socket.as_fd(), RecvFlags::DONTWAIT).unwrap()
    }

    fn exit() -> ChildExit {
        ChildExit { status: 256, cpu: Duration::from_micros(1_500_001), max_rss_bytes: 1 << 33 }
    }

    #[test]
    fn every_message_of_the_server_arrives_as_it_was_sent() {
        let text = || "a \"b\"\n\u{e9}".to_owned();
        let roles = vec!["stdout".to_owned(), "from a newer server".to_owned()];
        let all = [
            ServerMessage::Ready,
            ServerMessage::Notify { text: text() },
            ServerMessage::HoldFile { name: text(), note: text() },
            ServerMessage::DropFile { name: text() },
            ServerMessage::Register {
                job: u64::MAX,
                name: text(),
                leader: 7,
                roles,
                state: text(),
            },
            ServerMessage::CloseFile { job: 1, role: "stdin".to_owned() },
            ServerMessage::Ended { job: 1, exit: exit() },
            ServerMessage::Reap { job: 1 },
            ServerMessage::Release { job: 1 },
            ServerMessage::Upgrade { program: b"/a\xff".to_vec() },
        ];
        let (one, other) = sockets();
        for message in all {
            send_message(one.as_fd(), &message, &[], SendFlags::DONTWAIT).unwrap();
            match receive::<ServerMessage>(&other) {
                Received::Message(received, files) => {
                    assert_eq!(received, message);
                    assert_eq!(files.len(), 0);
                }
                Received::End => panic!("{message:?}"),
            }
        }
        drop(one);
        // A child that another test is just creating may hold the socket for a moment.
        let end = MessageReader::default().receive(other.as_fd(), RecvFlags::empty()).unwrap();
        assert!(matches!(end, Received::<ServerMessage>::End));
    }

    #[test]
    fn messages_of_the_keeper_arrive_with_their_files_in_order() {
        let identity = ServerIdentity {
            tag: 1 << 62,
            is_tag_inherited: true,
            pid: 9,
            started: 90,
            open_files: (Some(1024), None),
        };
        let hello = KeeperMessage::Hello(Hello {
            version: PROTOCOL_VERSION,
            generation: 3,
            identity,
            last_failure: Some("x".to_owned()),
            server_peak_bytes: 5,
        });
        let roles = vec!["stdin".to_owned(), "stdout".to_owned()];
        let (name, state) = ("local/1".to_owned(), "{}".to_owned());
        let job = KeeperMessage::Job { job: 4, name, leader: 8, roles, state, exit: Some(exit()) };
        let (one, other) = sockets();
        let (reader, writer) = pipe().unwrap();
        let all =
            [hello, job, KeeperMessage::Complete, KeeperMessage::Ended { job: 4, exit: exit() }];
        for message in all {
            let both = [writer.as_fd(), reader.as_fd()];
            let is_job = matches!(message, KeeperMessage::Job { .. });
            let files = if is_job { both.as_slice() } else { &[] };
            send_message(one.as_fd(), &message, files, SendFlags::DONTWAIT).unwrap();
            let Received::Message(received, files) = receive(&other) else { panic!("{message:?}") };
            assert_eq!(received, message);
            let Some(mut job) = ReceivedJob::from_message(received, files) else { continue };
            let mut input = std::fs::File::from(job.take_file(FileRole::Stdin).unwrap());
            let mut output = std::fs::File::from(job.take_file(FileRole::Stdout).unwrap());
            assert!(job.take_file(FileRole::Stdout).is_none());
            input.write_all(b"x").unwrap();
            let mut byte = [0];
            output.read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"x");
        }
    }

    #[test]
    fn a_newer_message_and_newer_fields_are_ignored() {
        let (one, other) = sockets();
        for text in [r#"{"type":"from_the_future","job":1}"#, r#"{"type":"ready","level":9}"#] {
            send(&one, text.as_bytes(), SendFlags::DONTWAIT).unwrap();
        }
        // A message that is not understood at all is skipped.
        send(&one, b"\xff", SendFlags::DONTWAIT).unwrap();
        send(&one, br#"{"type":"reap","job":2}"#, SendFlags::DONTWAIT).unwrap();
        let expected =
            [ServerMessage::Unknown, ServerMessage::Ready, ServerMessage::Reap { job: 2 }];
        for expected in expected {
            let Received::Message(message, _) = receive::<ServerMessage>(&other) else {
                panic!("{expected:?}");
            };
            assert_eq!(message, expected);
        }
        send(&one, br#"{"type":"from_the_future"}"#, SendFlags::DONTWAIT).unwrap();
        let received = receive::<KeeperMessage>(&other);
        assert!(matches!(received, Received::Message(KeeperMessage::Unknown, _)));
    }

    #[test]
    fn the_last_messages_arrive_although_the_other_side_left_ours_unread() {
        let (one, other) = sockets();
        send_message(other.as_fd(), &KeeperMessage::Complete, &[], SendFlags::DONTWAIT).unwrap();
        for job in [1, 2] {
            let message = ServerMessage::Release { job };
            send_message(one.as_fd(), &message, &[], SendFlags::DONTWAIT).unwrap();
        }
        drop(one);
        let mut reader = MessageReader::default();
        // A child that another test is just creating may hold the socket for a moment.
        let mut next = || reader.receive(other.as_fd(), RecvFlags::empty()).unwrap();
        for job in [1, 2] {
            let received: Received<ServerMessage> = next();
            let Received::Message(message, _) = received else { panic!("{job}: {received:?}") };
            assert_eq!(message, ServerMessage::Release { job });
        }
        assert!(matches!(next(), Received::End));
    }

    #[test]
    fn a_message_that_is_too_long_is_not_sent() {
        let (one, _other) = sockets();
        let message = ServerMessage::Notify { text: "x".repeat(MOST_BYTES) };
        let sent = send_message(one.as_fd(), &message, &[], SendFlags::DONTWAIT);
        assert_eq!(sent, Err(Errno::MSGSIZE));
        let message = ServerMessage::Notify { text: "x".repeat(MOST_BYTES - 100) };
        send_message(one.as_fd(), &message, &[], SendFlags::DONTWAIT).unwrap();
    }

    #[test]
    fn a_job_without_all_its_files_has_none() {
        let (name, state) = (String::new(), String::new());
        let roles = vec!["stdout".to_owned(), "stdin".to_owned()];
        let message = KeeperMessage::Job { job: 1, name, leader: 1, roles, state, exit: None };
        let (file, _) = pipe().unwrap();
        let mut job = ReceivedJob::from_message(message, vec![file]).unwrap();
        assert!(job.take_file(FileRole::Stdout).is_none());
    }

    #[test]
    fn every_path_survives() {
        let odd = PathBuf::from(OsString::from_vec(b"/a\xff\n".to_vec()));
        let paths = vec![PathBuf::from("/a b/\u{e9}\""), odd, PathBuf::new()];
        let text = serde_json::to_string(&save_paths(&paths)).unwrap();
        assert_eq!(restore_paths(serde_json::from_str(&text).unwrap()), paths, "{text}");
    }
}
