//! A process to create, complete.

use std::ffi::CString;
use std::path::PathBuf;

use crate::confine::landlock::FileRules;
use crate::confine::mounts::Mount;
use crate::confine::seccomp::{NetworkSockets, SocketRules};
use crate::confinement::{Backend, Confinement, Network, ResourceLimits};
use crate::tag::Tag;
use crate::variable::Variable;

/// A process to create: all but its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) path: CString,
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<Variable>,
    /// The terminal that is its standard files, where it has one.
    pub(crate) terminal: Option<CString>,
    /// What tells all that comes out of it from others; on it before it can start any.
    pub(crate) tag: Option<Tag>,
    pub(crate) shut: Shut,
}

/// How a process is shut in and limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shut {
    pub(crate) confinement: Confinement,
    pub(crate) backend: Backend,
    pub(crate) sockets: SocketRules,
    pub(crate) limits: ResourceLimits,
    pub(crate) mounts: Vec<Mount>,
    /// Where Landlock lets it write; nothing where Landlock is not used.
    pub(crate) writable: Option<Vec<PathBuf>>,
    /// Processes and groups (as negative numbers) that it must not signal. Nobody where its numbers
    /// mean others, in a namespace of processes.
    pub(crate) untouchable: Vec<i32>,
}

impl Shut {
    /// What Landlock is to allow, where it is used.
    pub(crate) fn file_rules(&self) -> Option<FileRules> {
        // In a network namespace of its own a job's servers may listen.
        let network = match self.sockets.network {
            NetworkSockets::Any | NetworkSockets::OwnNamespace => Network::On,
            NetworkSockets::Refused => Network::Off,
        };
        self.writable.clone().map(|writable| FileRules { writable, network })
    }
}
