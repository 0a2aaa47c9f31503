//! What the processes of a launch tell the server.

use rustix::io::Errno;
use rustix::process::Pid;

use crate::birth::{Failure, Step};

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
            Self::Failed(failure) => (b'f', number(failure.step), failure.errno.raw_os_error()),
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

/// A step by its place among all of them.
fn number(step: Step) -> u8 {
    let place = Step::ALL.iter().position(|known| *known == step);
    place.and_then(|place| u8::try_from(place).ok()).unwrap_or_default()
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
