//! The messages between keeper and server.

use rustix::process::Rlimit;
use serde::{Deserialize, Serialize};

use crate::processes::{ProcessKey, parse_pid};
use crate::shim::{Isolation, MappedIds};

/// The variable that tells the server the number of its socket.
pub(crate) const KEEPER_VARIABLE: &str = "SHELLYARD_KEEPER";

/// The first argument that makes the program the keeper of the server at the other end of its standard
/// input.
pub(super) const KEEPER_ARG: &str = "__keeper";

/// A message from the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Fork a shim in these namespaces. Beside this message are its end of the connection, and the
    /// other end, which is held for the next server under this name.
    StartShim {
        shim: u64,
        name: String,
        isolation: Isolation,
        mapped: Option<MappedIds>,
    },
    /// The next server need not hear of this shim.
    ForgetShim {
        shim: u64,
    },
    /// The server is about to exit; this program is the next server.
    Upgrade {
        program: Vec<u8>,
    },
    /// The server is ending: end all jobs.
    EndShims,
}

/// A message from the keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeeperMessage {
    Hello(Hello),
    /// The file beside this message was held.
    File {
        name: String,
        note: String,
    },
    /// A shim that an earlier server started, with the server's end of its connection.
    Shim {
        shim: u64,
        name: String,
    },
    /// There are no more files and shims.
    Complete,
}

/// A message of the keeper that waits to be sent. The files that go with it are still held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutgoingMessage {
    Hello(Hello),
    File(String),
    Shim(u64),
    Complete,
}

/// The first message of the keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The number of servers so far, with this one.
    pub(crate) generation: u64,
    pub(crate) identity: KeeperIdentity,
    /// The reason why the previous server, or an upgrade, ended.
    pub(crate) last_failure: Option<String>,
}

/// The keeper, by which all its servers name their directories and cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeeperIdentity {
    pub(crate) pid: i32,
    pub(crate) started: u64,
    /// The soft and the hard limit on open files that jobs get.
    pub(crate) open_files: (Option<u64>, Option<u64>),
}

impl KeeperIdentity {
    /// Returns the key of the keeper; `None` if the pid is not valid.
    pub(crate) fn key(&self) -> Option<ProcessKey> {
        Some((parse_pid(self.pid)?, self.started))
    }

    pub(crate) const fn open_file_limit(&self) -> Rlimit {
        Rlimit { current: self.open_files.0, maximum: self.open_files.1 }
    }
}
