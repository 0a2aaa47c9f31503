//! Messages between the server, its keeper and the shims of its jobs.
//!
//! Each message is one packet of a `SOCK_SEQPACKET` socket: a version byte, the message as `postcard`
//! writes it, and files beside it. A message never changes: a changed one is a new variant at the end of
//! its enum, so that a program understands what the release before it sent.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The first byte of each packet. It grows when an older side would misunderstand a message.
const VERSION: u8 = 1;

/// The most files beside one message; the kernel allows 253.
const MOST_FILES: usize = 16;
/// The longest message: less than the buffer that every socket has.
const MOST_BYTES: usize = 16 << 10;
const ANCILLARY_BYTES: usize = cmsg_space!(ScmRights(MOST_FILES));

/// A packet as received, with its files.
#[derive(Debug)]
pub(crate) enum Received<M> {
    Message(M, Vec<OwnedFd>),
    /// A packet of a program that speaks another version.
    Unknown,
    /// The other side is gone.
    End,
}

/// Creates the two ends of a connection.
pub(crate) fn connection() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends one message.
///
/// # Errors
/// `MSGSIZE` if it is too long, `WOULDBLOCK` or a timeout if the other side does not read, `PIPE`
/// if it is gone.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    message: &impl Serialize,
    files: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), Errno> {
    let packet = postcard::to_extend(message, vec![VERSION]).map_err(|_| Errno::INVAL)?;
    if packet.len() > MOST_BYTES || files.len() > MOST_FILES {
        return Err(Errno::MSGSIZE);
    }
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(Errno::MSGSIZE);
    }
    let flags = flags | SendFlags::NOSIGNAL;
    retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&packet)], &mut ancillary, flags)).map(drop)
}

/// The result of an attempt to send all messages that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendProgress {
    Done,
    /// The other side has to read first.
    Full,
    /// The system has no room for now, and does not tell when it has.
    OutOfRoom,
}

/// The pause before a message is sent again for which the system had no room.
pub(crate) const SEND_PAUSE: Duration = Duration::from_millis(20);

/// Sends messages in order until one cannot be sent now. That one stays: without it, a job would be
/// lost or never end for the server.
pub(crate) fn send_in_order<M>(
    outgoing: &mut VecDeque<M>,
    mut send: impl FnMut(&M) -> Result<(), Errno>,
) -> SendProgress {
    while let Some(next) = outgoing.front() {
        match send(next) {
            Err(Errno::WOULDBLOCK) => return SendProgress::Full,
            // That the other side is gone is noticed elsewhere. The last two never get better.
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET | Errno::MSGSIZE | Errno::INVAL) => {
                drop(outgoing.pop_front());
            }
            Err(_) => return SendProgress::OutOfRoom,
        }
    }
    SendProgress::Done
}

/// Receives the next packet.
///
/// # Errors
/// `WOULDBLOCK` if there is none and `flags` say not to wait.
pub(crate) fn receive<M: DeserializeOwned>(
    socket: BorrowedFd<'_>,
    flags: RecvFlags,
) -> Result<Received<M>, Errno> {
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let (packet, length) = loop {
        // Most packets are short, and the pages of a buffer for the longest one would be copied in every
        // process that was just forked.
        let mut packet = vec![0; packet_length(socket, flags)?];
        let mut parts = [IoSliceMut::new(&mut packet)];
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        match retry_on_intr(|| recvmsg(socket, &mut parts, &mut ancillary, flags)) {
            // As below: the other side ended after the look at the length.
            Err(Errno::CONNRESET) => {}
            received => {
                let length = received?.bytes;
                break (packet, length);
            }
        }
    };
    let mut files: Vec<OwnedFd> = Vec::new();
    for beside in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = beside {
            files.extend(received);
        }
    }
    Ok(match packet.get(..length) {
        None | Some([]) => Received::End,
        Some([VERSION, body @ ..]) => match postcard::from_bytes(body) {
            Ok(message) => Received::Message(message, files),
            Err(_) => Received::Unknown,
        },
        Some(_) => Received::Unknown,
    })
}

/// Returns the length of the next packet, which stays there; 0 at the end.
fn packet_length(socket: BorrowedFd<'_>, flags: RecvFlags) -> Result<usize, Errno> {
    let flags = flags | RecvFlags::PEEK | RecvFlags::TRUNC;
    loop {
        let mut nothing = RecvAncillaryBuffer::default();
        match retry_on_intr(|| recvmsg(socket, &mut [], &mut nothing, flags)) {
            // The other side ended with messages of ours unread. The system reports that once,
            // before the last messages of the other side.
            Err(Errno::CONNRESET) => {}
            received => return Ok(received?.bytes.min(MOST_BYTES)),
        }
    }
}

/// Serializes paths as bytes: `serde` takes those alone that are UTF-8.
pub(crate) mod path_bytes {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        path: impl AsRef<Path>,
        output: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_ref().as_os_str().as_bytes().serialize(output)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<PathBuf, D::Error> {
        Ok(OsString::from_vec(Vec::deserialize(input)?).into())
    }
}

/// Serializes an optional list of paths in the same way.
pub(crate) mod path_list_bytes {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    use std::path::PathBuf;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        paths: &Option<Vec<PathBuf>>,
        output: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
        let paths = paths.as_ref().map(|paths| paths.iter().map(bytes).collect::<Vec<_>>());
        paths.serialize(output)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Option<Vec<PathBuf>>, D::Error> {
        let paths = Option::<Vec<Vec<u8>>>::deserialize(input)?;
        let path = |bytes| PathBuf::from(OsString::from_vec(bytes));
        Ok(paths.map(|paths| paths.into_iter().map(path).collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::os::fd::AsFd as _;

    use rustix::fs::fstat;
    use rustix::pipe::pipe;
    use shellyard_policy::gate::{StartRefusal, StartRefusalReason};

    use super::*;
    use crate::confinement::NetworkAccess;
    use crate::keeper::{Hello, KeeperIdentity, KeeperMessage, ServerMessage};
    use crate::shim::{
        EchoMode, EndCause, EndingNote, Isolation, LeaderExit, Order, Report, Role, ShimState,
        Stage, StartCounts,
    };
    use crate::spawn_request::SpawnStep;
    use crate::syscalls::ChildExit;

    fn inode(file: impl std::os::fd::AsFd) -> u64 {
        fstat(file).unwrap().st_ino
    }

    /// Sends all messages at once, with 0, 1, 2 … files, and receives them.
    #[track_caller]
    fn check<M: Serialize + DeserializeOwned + Debug + PartialEq>(messages: &[M]) {
        let (one, other) = connection().unwrap();
        let pipes: Vec<_> = (0..MOST_FILES / 2).map(|_| pipe().unwrap()).collect();
        let files: Vec<BorrowedFd<'_>> =
            pipes.iter().flat_map(|(reader, writer)| [reader.as_fd(), writer.as_fd()]).collect();
        let beside = |number: usize| &files[..number % (MOST_FILES + 1)];
        for (number, message) in messages.iter().enumerate() {
            send(one.as_fd(), message, beside(number), SendFlags::DONTWAIT).unwrap();
        }
        drop(one);
        for (number, expected) in messages.iter().enumerate() {
            let received = receive::<M>(other.as_fd(), RecvFlags::DONTWAIT).unwrap();
            let Received::Message(message, files) = received else { panic!("{received:?}") };
            assert_eq!(message, *expected);
            let inodes: Vec<u64> = files.iter().map(inode).collect();
            assert_eq!(inodes, beside(number).iter().map(inode).collect::<Vec<_>>());
        }
        let last = receive::<M>(other.as_fd(), RecvFlags::DONTWAIT);
        assert!(matches!(last, Ok(Received::End)), "{last:?}");
    }

    #[test]
    fn messages_of_server_and_keeper_arrive_as_sent() {
        let name = || "name".to_owned();
        let start = |isolation| ServerMessage::StartShim {
            shim: 1 << 40,
            name: name(),
            isolation,
            mapped: None,
        };
        check(&[
            ServerMessage::Ready,
            ServerMessage::Notify { text: "STOPPING=1".to_owned() },
            ServerMessage::HoldFile { name: name(), note: "\u{e9}".to_owned() },
            ServerMessage::DropFile { name: name() },
            start(Isolation::None),
            start(Isolation::Namespaces(NetworkAccess::On)),
            start(Isolation::Namespaces(NetworkAccess::Off)),
            ServerMessage::ForgetShim { shim: u64::MAX },
            ServerMessage::Upgrade { program: b"/a\xff".to_vec() },
            ServerMessage::EndShims,
        ]);
        let identity = KeeperIdentity { pid: 7, started: u64::MAX, open_files: (Some(1024), None) };
        let hello = |last_failure| Hello { generation: 3, identity, last_failure };
        check(&[
            KeeperMessage::Hello(hello(None)),
            KeeperMessage::Hello(hello(Some("gone".to_owned()))),
            KeeperMessage::File { name: name(), note: String::new() },
            KeeperMessage::Shim { shim: 4, name: name() },
            KeeperMessage::Complete,
        ]);
    }

    const ROLES: [Role; 12] = [
        Role::Directory,
        Role::Stdin,
        Role::Stdout,
        Role::Stderr,
        Role::StdoutReader,
        Role::StderrReader,
        Role::StdinWriter,
        Role::Report,
        Role::Input,
        Role::Cgroup,
        Role::ShimProcess,
        Role::LeaderProcess,
    ];

    #[test]
    fn orders_and_reports_arrive_as_sent() {
        let grace = Duration::from_millis(1500);
        check(&[
            Order::Launch { roles: ROLES.to_vec() },
            Order::Attach,
            Order::Stop { signal: 15, grace, cause: "why".to_owned() },
            Order::Signal(-1),
            Order::Input { bytes: b"in\xff".to_vec() },
            Order::EndInput,
            Order::Close(Role::StderrReader),
            Order::Release,
            Order::InputFile,
            Order::LaunchGated { roles: ROLES.to_vec() },
            Order::Answer { id: 1 << 40, is_allowed: true },
        ]);
        let failure = SpawnStep::Landlock.failed(Errno::NOSYS);
        let note = EndingNote {
            cause: Some(EndCause::Order("a".to_owned())),
            first_signal: 2,
            killed_after: Some(grace),
        };
        let exit = ChildExit { status: 9, cpu: grace, max_rss_bytes: 1 << 40 };
        let exit = LeaderExit { exit, peak_rss_bytes: 5, is_over: true };
        let state = |stage| {
            Report::State(Box::new(ShimState {
                saved: "{}".to_owned(),
                stage,
                note: EndingNote { cause: Some(EndCause::Deadline), ..EndingNote::default() },
                input: (1 << 33, 7),
                is_input_open: true,
                roles: ROLES.to_vec(),
            }))
        };
        check(&[
            Report::Started(None),
            Report::Started(Some((7, i32::MAX))),
            Report::Failed(failure),
            Report::Ending(note.clone()),
            Report::LeaderExited(exit, note),
            Report::Over(EndingNote::default()),
            Report::InputWritten { total: u64::MAX, echo: EchoMode::Program },
            state(Stage::Starting),
            state(Stage::Failed(failure)),
            state(Stage::Running),
            state(Stage::Exited(exit)),
            Report::InputClosed,
            Report::Refused(StartRefusal::new(
                &[b"touch".to_vec(), b"a b".to_vec()],
                None,
                StartRefusalReason::NotListed,
            )),
            Report::Asks { id: 7 },
            Report::AskOver { id: u64::MAX },
            Report::Starts(StartCounts { judged: 1 << 40, refused: 3 }),
        ]);
    }

    #[test]
    fn a_packet_of_another_version_or_with_unknown_content_is_unknown() {
        let (one, other) = connection().unwrap();
        let (reader, _writer) = pipe().unwrap();
        for packet in [&[VERSION + 1, 0][..], &[0], &[VERSION], &[VERSION, 255, 255, 3]] {
            rustix::net::send(&one, packet, SendFlags::DONTWAIT).unwrap();
            let received = receive::<Order>(other.as_fd(), RecvFlags::DONTWAIT).unwrap();
            assert!(matches!(received, Received::Unknown), "{packet:?}: {received:?}");
        }
        // The connection goes on.
        send(one.as_fd(), &Order::Attach, &[reader.as_fd()], SendFlags::DONTWAIT).unwrap();
        let received = receive::<Order>(other.as_fd(), RecvFlags::DONTWAIT).unwrap();
        let Received::Message(Order::Attach, files) = received else { panic!("{received:?}") };
        assert_eq!(files.iter().map(inode).collect::<Vec<_>>(), [inode(&reader)]);
        let empty = receive::<Order>(other.as_fd(), RecvFlags::DONTWAIT);
        assert_eq!(empty.map(|_| ()), Err(Errno::WOULDBLOCK));
    }

    #[test]
    fn a_message_is_dropped_only_if_it_can_never_be_sent() {
        let (kept, dropped) = (SendProgress::OutOfRoom, SendProgress::Done);
        for (errno, expected) in [
            (Errno::WOULDBLOCK, SendProgress::Full),
            (Errno::TOOMANYREFS, kept),
            (Errno::NOBUFS, kept),
            (Errno::NOMEM, kept),
            (Errno::PIPE, dropped),
            (Errno::CONNRESET, dropped),
            (Errno::MSGSIZE, dropped),
        ] {
            let mut outgoing: VecDeque<_> = [1, 2, 3].into();
            let mut sent = Vec::new();
            let mut errors = vec![errno];
            let mut send = |message: &i32| {
                if *message == 2
                    && let Some(errno) = errors.pop()
                {
                    return Err(errno);
                }
                sent.push(*message);
                Ok(())
            };
            assert_eq!(send_in_order(&mut outgoing, &mut send), expected, "{errno}");
            let is_kept = expected != dropped;
            assert_eq!(outgoing.len(), if is_kept { 2 } else { 0 }, "{errno}");
            assert_eq!(send_in_order(&mut outgoing, &mut send), SendProgress::Done, "{errno}");
            assert_eq!(sent, if is_kept { vec![1, 2, 3] } else { vec![1, 3] }, "{errno}");
        }
    }

    #[test]
    fn bytes_after_a_message_are_ignored() {
        let (one, other) = connection().unwrap();
        let mut packet = postcard::to_extend(&Order::Signal(15), vec![VERSION]).unwrap();
        packet.extend([1, 2, 3]);
        rustix::net::send(&one, &packet, SendFlags::DONTWAIT).unwrap();
        let received = receive::<Order>(other.as_fd(), RecvFlags::DONTWAIT).unwrap();
        assert!(matches!(received, Received::Message(Order::Signal(15), _)), "{received:?}");
    }

    #[test]
    fn what_is_too_long_or_has_too_many_files_is_refused() {
        let (one, other) = connection().unwrap();
        let notify = |length: usize| ServerMessage::Notify { text: "x".repeat(length) };
        let (longest, longer) = (MOST_BYTES - 5, MOST_BYTES + 1);
        let send_to = |length, files: usize| {
            let files = vec![other.as_fd(); files];
            send(one.as_fd(), &notify(length), &files, SendFlags::DONTWAIT)
        };
        assert_eq!(send_to(longer, 0), Err(Errno::MSGSIZE));
        assert_eq!(send_to(1, MOST_FILES + 1), Err(Errno::MSGSIZE));
        assert_eq!(send_to(longest, MOST_FILES), Ok(()));
        let received = receive::<ServerMessage>(other.as_fd(), RecvFlags::DONTWAIT).unwrap();
        let Received::Message(message, files) = received else { panic!("{received:?}") };
        assert_eq!((message, files.len()), (notify(longest), MOST_FILES));
    }

    #[test]
    fn the_last_messages_of_a_side_that_left_ours_unread_are_received() {
        let (one, other) = connection().unwrap();
        send(other.as_fd(), &Order::Attach, &[], SendFlags::DONTWAIT).unwrap();
        send(one.as_fd(), &Order::Release, &[], SendFlags::DONTWAIT).unwrap();
        drop(one);
        let received = receive::<Order>(other.as_fd(), RecvFlags::DONTWAIT).unwrap();
        assert!(matches!(received, Received::Message(Order::Release, _)), "{received:?}");
        let received = receive::<Order>(other.as_fd(), RecvFlags::DONTWAIT).unwrap();
        assert!(matches!(received, Received::End), "{received:?}");
        let sent = send(other.as_fd(), &Order::Attach, &[], SendFlags::DONTWAIT);
        assert_eq!(sent, Err(Errno::PIPE));
    }
}
