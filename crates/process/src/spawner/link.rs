//! Requests and answers over the socket between server and spawner.
//!
//! A request is its length, its bytes, and files beside the first of them.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, send, sendmsg,
};

use super::files::Role;
use super::note::Note;

/// More than any kernel takes as arguments and environment of a program.
pub(super) const MOST_BYTES: usize = 8 << 20;

const LENGTH_BYTES: usize = size_of::<u32>();
const ANCILLARY_BYTES: usize = cmsg_space!(ScmRights(Role::ALL.len()));

/// A request as it arrives.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) bytes: Vec<u8>,
    pub(super) files: Vec<OwnedFd>,
}

/// Sends a request. The bytes must be no more than [`MOST_BYTES`].
pub(super) fn send_request(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    files: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let length = u32::try_from(bytes.len()).map_err(|_| Errno::TOOBIG)?.to_le_bytes();
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(Errno::MFILE);
    }
    let first = [IoSlice::new(&length), IoSlice::new(bytes)];
    let sent = retry_on_intr(|| sendmsg(socket, &first, &mut ancillary, SendFlags::NOSIGNAL))?;
    // The length is never sent in parts: it is the first thing in an empty socket.
    let sent = sent.checked_sub(LENGTH_BYTES).ok_or(Errno::IO)?;
    send_all(socket, bytes.get(sent..).unwrap_or_default())
}

/// Waits for a request; nothing when the other side is gone.
pub(super) fn receive_request(socket: BorrowedFd<'_>) -> Result<Option<Parcel>, Errno> {
    let mut length = [0; LENGTH_BYTES];
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        let into = &mut [IoSliceMut::new(&mut length)];
        recvmsg(socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            files.extend(sent);
        }
    }
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(|_| Errno::TOOBIG)?;
    if received.bytes != LENGTH_BYTES || length > MOST_BYTES {
        return Err(Errno::PROTO);
    }
    let mut bytes = vec![0; length];
    receive_all(socket, &mut bytes)?;
    Ok(Some(Parcel { bytes, files }))
}

pub(super) fn send_answer(socket: BorrowedFd<'_>, answer: Note) -> Result<(), Errno> {
    send_all(socket, &answer.encode())
}

pub(super) fn receive_answer(socket: BorrowedFd<'_>) -> Result<Note, Errno> {
    let mut bytes = [0; Note::BYTES];
    receive_all(socket, &mut bytes)?;
    Note::decode(bytes).ok_or(Errno::PROTO)
}

fn send_all(socket: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let sent = retry_on_intr(|| send(socket, bytes, SendFlags::NOSIGNAL))?;
        bytes = bytes.get(sent..).unwrap_or_default();
    }
    Ok(())
}

fn receive_all(socket: BorrowedFd<'_>, mut bytes: &mut [u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let (received, _) = retry_on_intr(|| recv(socket, &mut *bytes, RecvFlags::WAITALL))?;
        if received == 0 {
            return Err(Errno::PIPE);
        }
        bytes = bytes.get_mut(received..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::thread;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn a_request_of_any_size_arrives_with_its_files() {
        let (ours, theirs) = pair();
        let serving = thread::spawn(move || {
            let receive = || receive_request(theirs.as_fd()).unwrap();
            std::iter::from_fn(receive).map(|it| (it.bytes, it.files.len())).collect::<Vec<_>>()
        });
        let sizes = [0, 1, 4096, 300_000, 2 << 20, 7];
        for (count, size) in sizes.into_iter().enumerate() {
            let files = vec![ours.as_fd(); count];
            send_request(ours.as_fd(), &vec![7; size], &files).unwrap();
        }
        drop(ours);
        // The files that were sent are the socket itself: it closes when they do.
        let got = serving.join().unwrap();
        let expected: Vec<_> =
            (0..).zip(sizes).map(|(count, size)| (vec![7; size], count)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn too_much_is_refused_and_a_torn_request_is_an_error() {
        let (ours, theirs) = pair();
        send_all(ours.as_fd(), &u32::MAX.to_le_bytes()).unwrap();
        assert_eq!(receive_request(theirs.as_fd()).unwrap_err(), Errno::PROTO);
        send_all(ours.as_fd(), &[9, 0, 0, 0, 1]).unwrap();
        drop(ours);
        assert_eq!(receive_request(theirs.as_fd()).unwrap_err(), Errno::PIPE);
    }
}
