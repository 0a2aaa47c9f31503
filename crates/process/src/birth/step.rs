//! The steps of a new process, and what it means when one fails.

use std::io;

use rustix::io::Errno;

/// One thing that a new process does. When it fails, there is no job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Request,
    Birth,
    Cgroup,
    Files,
    Directory,
    Namespaces,
    UserMap,
    Network,
    Mounts,
    Place,
    Session,
    Processes,
    Limits,
    Capabilities,
    Privileges,
    Landlock,
    Filter,
    Program,
}

impl Step {
    pub(crate) const ALL: [Self; 18] = [
        Self::Request,
        Self::Birth,
        Self::Cgroup,
        Self::Files,
        Self::Directory,
        Self::Namespaces,
        Self::UserMap,
        Self::Network,
        Self::Mounts,
        Self::Place,
        Self::Session,
        Self::Processes,
        Self::Limits,
        Self::Capabilities,
        Self::Privileges,
        Self::Landlock,
        Self::Filter,
        Self::Program,
    ];

    /// What could not be done, for people.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::Request => "the process that creates jobs did not answer",
            Self::Birth => "no process could be created",
            Self::Cgroup => "it could not enter its cgroup",
            Self::Files => "its standard files could not be opened",
            Self::Directory => "its directory could not be entered",
            Self::Namespaces => "namespaces could not be made",
            Self::UserMap => "its user could not be mapped into the namespace",
            Self::Network => "its own network could not be made",
            Self::Mounts => "its view of the file system could not be made",
            Self::Place => "its directory is not there in its view of the file system",
            Self::Session => "it got no session of its own",
            Self::Processes => "its own /proc could not be mounted",
            Self::Limits => "its limits could not be set",
            Self::Capabilities => "its privileges could not be given up",
            Self::Privileges => "it could not be kept from gaining privileges",
            Self::Landlock => "Landlock could not be applied",
            Self::Filter => "the filter of system calls could not be installed",
            Self::Program => "the program could not be executed",
        }
    }

    /// Turns an error of this step into a failed launch.
    pub(crate) fn failed(self, error: impl Into<io::Error>) -> Failure {
        let errno = Errno::from_io_error(&error.into()).unwrap_or(Errno::IO);
        Failure { step: self, errno }
    }
}

/// Why a launch came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) errno: Errno,
}
