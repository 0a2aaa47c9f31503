//! Everything that the keeper holds for the next server: files, and the connections with shims.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::SendFlags;

use super::protocol::{KeeperMessage, OutgoingMessage};
use crate::wire;

/// Everything that is held for the next server.
#[derive(Debug, Default)]
pub(crate) struct HeldState {
    files: BTreeMap<String, NotedFile>,
    shims: BTreeMap<u64, HeldShim>,
}

#[derive(Debug)]
struct NotedFile {
    note: String,
    file: OwnedFd,
}

#[derive(Debug)]
struct HeldShim {
    name: String,
    /// The server's end of its connection: reports that nobody has read yet wait there.
    socket: OwnedFd,
}

impl HeldState {
    /// Returns the messages about everything that is held, for a server that has just started.
    pub(crate) fn describe(&self) -> impl Iterator<Item = OutgoingMessage> + '_ {
        let files = self.files.keys().cloned().map(OutgoingMessage::File);
        files.chain(self.shims.keys().copied().map(OutgoingMessage::Shim))
    }

    /// Returns the note about the file that is held under this name.
    pub(crate) fn note(&self, name: &str) -> Option<&str> {
        self.files.get(name).map(|held| held.note.as_str())
    }

    pub(crate) fn hold_file(&mut self, name: String, note: String, file: OwnedFd) {
        self.files.insert(name, NotedFile { note, file });
    }

    pub(crate) fn drop_file(&mut self, name: &str) {
        self.files.remove(name);
    }

    pub(crate) fn hold_shim(&mut self, shim: u64, name: String, socket: OwnedFd) {
        self.shims.insert(shim, HeldShim { name, socket });
    }

    pub(crate) fn forget_shim(&mut self, shim: u64) {
        self.shims.remove(&shim);
    }

    /// Drops all files and connections.
    pub(crate) fn clear(&mut self) {
        self.files.clear();
        self.shims.clear();
    }

    /// Sends one message to the server, with its files. A shim or a file that is no longer held is left
    /// out.
    pub(crate) fn send(
        &self,
        message: &OutgoingMessage,
        socket: BorrowedFd<'_>,
    ) -> Result<(), Errno> {
        let mut file = None;
        let message = match message {
            OutgoingMessage::Hello(hello) => KeeperMessage::Hello(hello.clone()),
            OutgoingMessage::Complete => KeeperMessage::Complete,
            OutgoingMessage::File(name) => {
                let Some(held) = self.files.get(name) else { return Ok(()) };
                file = Some(held.file.as_fd());
                KeeperMessage::File { name: name.clone(), note: held.note.clone() }
            }
            OutgoingMessage::Shim(shim) => {
                let Some(held) = self.shims.get(shim) else { return Ok(()) };
                file = Some(held.socket.as_fd());
                KeeperMessage::Shim { shim: *shim, name: held.name.clone() }
            }
        };
        wire::send(socket, &message, file.as_slice(), SendFlags::DONTWAIT)
    }
}
