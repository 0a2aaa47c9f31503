//! What a new process does before it becomes its program, and how it tells of it.

use std::io;

use rustix::io::Errno;
use rustix::process::Pid;

/// One thing that a new process does. When it fails, there is no job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::process) enum Step {
    Request,
    Birth,
    Cgroup,
    Files,
    Directory,
    Namespaces,
    UserMap,
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
    const ALL: [Self; 17] = [
        Self::Request,
        Self::Birth,
        Self::Cgroup,
        Self::Files,
        Self::Directory,
        Self::Namespaces,
        Self::UserMap,
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
    pub(in crate::process) const fn what(self) -> &'static str {
        match self {
            Self::Request => "the process that creates jobs did not answer",
            Self::Birth => "no process could be created",
            Self::Cgroup => "it could not enter its cgroup",
            Self::Files => "its standard files could not be opened",
            Self::Directory => "its directory could not be entered",
            Self::Namespaces => "namespaces could not be made",
            Self::UserMap => "its user could not be mapped into the namespace",
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
    pub(super) fn failed(self, error: impl Into<io::Error>) -> Failure {
        let errno = Errno::from_io_error(&error.into()).unwrap_or(Errno::IO);
        Failure { step: self, errno }
    }

    fn number(self) -> u8 {
        let place = Self::ALL.iter().position(|step| *step == self);
        place.and_then(|place| u8::try_from(place).ok()).unwrap_or_default()
    }
}

/// Why a launch came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::process) struct Failure {
    pub(in crate::process) step: Step,
    pub(in crate::process) errno: Errno,
}

/// What the server is told of a launch, in a few bytes that are written at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Note {
    /// The process that makes namespaces; it ends when the leader is born.
    Maker(Pid),
    /// The first process of the process namespace.
    Init(Pid),
    /// The job's leader.
    Leader(Pid),
    /// It came to nothing.
    Failed(Failure),
}

impl Note {
    pub(super) const BYTES: usize = 6;

    pub(super) fn encode(self) -> [u8; Self::BYTES] {
        let (kind, step, value) = match self {
            Self::Maker(pid) => (b'm', 0, pid.as_raw_nonzero().get()),
            Self::Init(pid) => (b'i', 0, pid.as_raw_nonzero().get()),
            Self::Leader(pid) => (b'l', 0, pid.as_raw_nonzero().get()),
            Self::Failed(failure) => (b'f', failure.step.number(), failure.errno.raw_os_error()),
        };
        let [a, b, c, d] = value.to_le_bytes();
        [kind, step, a, b, c, d]
    }

    pub(super) fn decode(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let [kind, step, a, b, c, d] = bytes;
        let value = i32::from_le_bytes([a, b, c, d]);
        let pid = || Some(value).filter(|value| *value > 0).and_then(Pid::from_raw);
        match kind {
            b'm' => pid().map(Self::Maker),
            b'i' => pid().map(Self::Init),
            b'l' => pid().map(Self::Leader),
            b'f' => {
                let step = *Step::ALL.get(usize::from(step))?;
                let errno = (1..4096).contains(&value).then(|| Errno::from_raw_os_error(value))?;
                Some(Self::Failed(Failure { step, errno }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_step_crosses_the_pipe() {
        for step in Step::ALL {
            let note = Note::Failed(step.failed(Errno::ACCESS));
            assert_eq!(Note::decode(note.encode()), Some(note), "{step:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_told_is_understood(pid in 1..i32::MAX) {
            let pid = Pid::from_raw(pid).unwrap();
            for note in [Note::Maker(pid), Note::Init(pid), Note::Leader(pid)] {
                prop_assert_eq!(Note::decode(note.encode()), Some(note));
            }
        }

        #[test]
        fn noise_is_no_other_note(bytes: [u8; Note::BYTES]) {
            if let Some(note) = Note::decode(bytes) {
                prop_assert_eq!(Note::decode(note.encode()), Some(note));
            }
        }
    }
}
