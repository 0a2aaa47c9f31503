//! A process to start, as the server describes it to a shim: its program, its sandbox, and the step at
//! which a start failed.

use std::ffi::CString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::confinement::{Backend, Confinement, NetworkAccess, ResourceLimits};
use crate::env_variable::EnvVariable;
use crate::job_user::JobUser;
use crate::sandbox::mounts::Mount;
use crate::sandbox::restrictions::FileRules;
use crate::sandbox::seccomp::{self, NetworkSockets, SeccompRules, SocketRules};
use crate::sandbox::seccomp_filter::SeccompFilter;
use crate::wire::path_list_bytes;

/// One step of a new process. If it fails, there is no job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SpawnStep {
    Clone,
    Cgroup,
    Files,
    Directory,
    Namespaces,
    UserMap,
    Network,
    Mounts,
    EnterDirectory,
    Session,
    Processes,
    Limits,
    User,
    Capabilities,
    Privileges,
    Landlock,
    Filter,
    Program,
    Gate,
    Refused,
}

impl SpawnStep {
    /// Returns the message for users if the step fails.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Clone => "no process could be created",
            Self::Cgroup => "it could not enter its cgroup",
            Self::Files => "its standard files could not be opened",
            Self::Directory => "its directory could not be entered",
            Self::Namespaces => "namespaces could not be made",
            Self::UserMap => "its user could not be mapped into the namespace",
            Self::Network => "its own network could not be made",
            Self::Mounts => "its view of the file system could not be made",
            Self::EnterDirectory => "its directory is not there in its view of the file system",
            Self::Session => "it got no session of its own",
            Self::Processes => "its own /proc could not be mounted",
            Self::Limits => "its limits could not be set",
            Self::User => "it could not become the user of its tenant",
            Self::Capabilities => "its privileges could not be given up",
            Self::Privileges => "it could not be kept from gaining privileges",
            Self::Landlock => "Landlock could not be applied",
            Self::Filter => "the filter of system calls could not be installed",
            Self::Program => "the program could not be executed",
            Self::Gate => "the starts of its programs could not be watched",
            Self::Refused => "its start was refused",
        }
    }

    /// Converts an error of this step into a failed launch.
    pub(crate) fn failed(self, error: impl Into<io::Error>) -> SpawnFailure {
        let errno = Errno::from_io_error(&error.into()).unwrap_or(Errno::IO);
        SpawnFailure { step: self, errno }
    }
}

/// The step that failed and its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpawnFailure {
    pub(crate) step: SpawnStep,
    #[serde(with = "errno_number")]
    pub(crate) errno: Errno,
}

impl SpawnFailure {
    /// Returns the step and the system's word for the error.
    pub(crate) fn describe(&self) -> String {
        format!("{}: {}", self.step.description(), io::Error::from(self.errno))
    }
}

/// Serializes an error of the system as its number.
mod errno_number {
    use super::{Deserialize as _, Deserializer, Errno, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(errno: &Errno, output: S) -> Result<S::Ok, S::Error> {
        errno.raw_os_error().serialize(output)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Errno, D::Error> {
        i32::deserialize(input).map(Errno::from_raw_os_error)
    }
}

/// A process to create, without its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpawnRequest {
    pub(crate) path: CString,
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<EnvVariable>,
    /// The terminal that is its standard files, if it has one.
    pub(crate) terminal: Option<CString>,
    /// The user that it becomes, if it is another one.
    pub(crate) user: Option<JobUser>,
    pub(crate) sandbox: SandboxRules,
}

/// The sandbox and the limits that a new process applies to itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxRules {
    pub(crate) confinement: Confinement,
    pub(crate) backend: Backend,
    pub(crate) sockets: SocketRules,
    pub(crate) limits: ResourceLimits,
    pub(crate) mounts: Vec<Mount>,
    /// The paths that Landlock lets it write; `None` if Landlock is not used.
    #[serde(with = "path_list_bytes")]
    pub(crate) writable: Option<Vec<PathBuf>>,
    /// Processes and groups (as negative numbers) that it must not signal. Empty in a pid
    /// namespace, where its numbers mean other processes.
    pub(crate) protected_pids: Vec<i32>,
}

impl SandboxRules {
    /// Returns the rules for Landlock, if it is used.
    pub(crate) fn file_rules(&self) -> Option<FileRules> {
        // In its own network namespace a job's servers may listen.
        let network = match self.sockets.network {
            NetworkSockets::Any | NetworkSockets::OwnNamespace => NetworkAccess::On,
            NetworkSockets::Refused => NetworkAccess::Off,
        };
        self.writable.clone().map(|writable| FileRules { writable, network })
    }

    /// Returns the rules of its seccomp filter, if it has one.
    pub(crate) fn call_rules(&self) -> Option<SeccompRules> {
        match self.backend {
            Backend::Nothing => None,
            Backend::Namespaces | Backend::Landlock | Backend::Seccomp => Some(SeccompRules {
                profile: self.confinement.profile,
                sockets: self.sockets,
                protected_pids: self.protected_pids.clone(),
            }),
        }
    }
}

/// Compiled filters with their rules, the latest last.
#[derive(Debug, Default)]
pub(crate) struct FilterCache {
    known: Mutex<Vec<(SeccompRules, Arc<SeccompFilter>)>>,
}

/// The most filters that are kept: one for each confinement in use, times a few sets of our
/// threads.
const MOST_FILTERS: usize = 32;

impl FilterCache {
    /// Returns the filter with these rules.
    pub(crate) fn get(&self, rules: SeccompRules) -> io::Result<Arc<SeccompFilter>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, filters)) = known.iter().rev().find(|(known, _)| *known == rules) {
            return Ok(Arc::clone(filters));
        }
        let filters = Arc::new(seccomp::compile(&rules)?);
        if known.len() >= MOST_FILTERS {
            known.clear();
        }
        known.push((rules, Arc::clone(&filters)));
        Ok(filters)
    }
}
