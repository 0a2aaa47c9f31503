//! A process to create, complete.

use std::ffi::CString;
use std::path::PathBuf;

use crate::confinement::{Backend, Confinement, Network, ResourceLimits};
use crate::process::confine::landlock::FileRules;
use crate::process::confine::mounts::Mount;
use crate::process::confine::seccomp::{NetworkSockets, SocketRules};
use crate::process::tag::Tag;
use crate::process::variable::Variable;

/// A process to create: all but its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::process) struct Order {
    pub(in crate::process) path: CString,
    pub(in crate::process) argv: Vec<CString>,
    pub(in crate::process) env: Vec<Variable>,
    /// The terminal that is its standard files, where it has one.
    pub(in crate::process) terminal: Option<CString>,
    /// What tells all that comes out of it from others; on it before it can start any.
    pub(in crate::process) tag: Option<Tag>,
    pub(in crate::process) shut: Shut,
}

/// How a process is shut in and limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::process) struct Shut {
    pub(in crate::process) confinement: Confinement,
    pub(in crate::process) backend: Backend,
    pub(in crate::process) sockets: SocketRules,
    pub(in crate::process) limits: ResourceLimits,
    pub(in crate::process) mounts: Vec<Mount>,
    /// Where Landlock lets it write; nothing where Landlock is not used.
    pub(in crate::process) writable: Option<Vec<PathBuf>>,
    /// Processes and groups (as negative numbers) that it must not signal. Nobody where its numbers
    /// mean others, in a namespace of processes.
    pub(in crate::process) untouchable: Vec<i32>,
}

impl Shut {
    /// What Landlock is to allow, where it is used.
    pub(in crate::process) fn file_rules(&self) -> Option<FileRules> {
        // In a network namespace of its own a job's servers may listen.
        let network = match self.sockets.network {
            NetworkSockets::Any | NetworkSockets::OwnNamespace => Network::On,
            NetworkSockets::Refused => Network::Off,
        };
        self.writable.clone().map(|writable| FileRules { writable, network })
    }
}
