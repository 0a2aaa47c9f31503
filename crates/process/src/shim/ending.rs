//! The end of a shim's tree, as a pure function of orders and time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The reason why a tree was ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndCause {
    /// The deadline of the job has passed.
    Deadline,
    /// The server gave an order; this is the reason as the server wrote it.
    Order(String),
}

/// An ending as the server hears of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EndingNote {
    /// The first cause that was given before the job's first process ended; `None` if it ended by
    /// itself.
    pub cause: Option<EndCause>,
    /// The first signal; 0 if none was sent.
    pub first_signal: i32,
    /// The time from the first signal to SIGKILL, once that was sent.
    pub killed_after: Option<Duration>,
}

/// The state of an ending. Times are those since the start of the job's first process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ending {
    phase: Phase,
    /// The time at which the job is ended, while its first process lives.
    deadline: Option<Duration>,
    /// The grace period of the deadline.
    grace: Duration,
    note: EndingNote,
    began: Duration,
    is_leader_gone: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// A signal was sent; SIGKILL follows at this time.
    Asked {
        kill_at: Duration,
    },
    /// SIGKILL is sent until nothing is left.
    Killing,
}

/// An action of the shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Signal(i32),
    Kill,
}

impl Ending {
    pub(super) fn new(deadline: Option<Duration>, grace: Duration) -> Self {
        let note = EndingNote::default();
        let began = Duration::ZERO;
        Self { phase: Phase::Running, deadline, grace, note, began, is_leader_gone: false }
    }

    pub(super) const fn note(&self) -> &EndingNote {
        &self.note
    }

    /// `true` while everything that is left is to be killed.
    pub(super) fn is_killing(&self) -> bool {
        self.phase == Phase::Killing
    }

    /// Returns the time of the next call of [`Self::time_passed`].
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Running => self.deadline,
            Phase::Asked { kill_at } => Some(kill_at),
            Phase::Killing => None,
        }
    }

    /// Takes an order to end the tree.
    pub(super) fn stop(
        &mut self,
        signal: i32,
        grace: Duration,
        cause: EndCause,
        now: Duration,
    ) -> Action {
        if self.phase == Phase::Running {
            if !self.is_leader_gone {
                self.note.cause = Some(cause);
            }
            self.note.first_signal = signal;
            self.began = now;
        }
        if self.phase == Phase::Killing || signal == libc::SIGKILL {
            return self.kill(now);
        }
        self.phase = Phase::Asked { kill_at: now.saturating_add(grace) };
        Action::Signal(signal)
    }

    /// Takes the time that has passed since the start.
    pub(super) fn time_passed(&mut self, now: Duration) -> Option<Action> {
        match self.phase {
            Phase::Running => {
                self.deadline.filter(|deadline| now >= *deadline)?;
                Some(self.stop(libc::SIGTERM, self.grace, EndCause::Deadline, now))
            }
            Phase::Asked { kill_at } if now >= kill_at => Some(self.kill(now)),
            Phase::Asked { .. } | Phase::Killing => None,
        }
    }

    /// Notes the end of the first process: it has ended by itself, unless it was asked to. From now on
    /// there is no deadline, and no cause can be added.
    pub(super) fn leader_exited(&mut self) {
        self.deadline = None;
        self.is_leader_gone = true;
    }

    fn kill(&mut self, now: Duration) -> Action {
        if self.phase != Phase::Killing && self.note.first_signal != libc::SIGKILL {
            self.note.killed_after = Some(now.saturating_sub(self.began));
        }
        self.phase = Phase::Killing;
        Action::Kill
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn order(text: &str) -> EndCause {
        EndCause::Order(text.to_owned())
    }

    #[test]
    fn a_deadline_terminates_and_then_kills() {
        let mut ending = Ending::new(Some(s(10)), s(5));
        assert_eq!(ending.next_deadline(), Some(s(10)));
        assert_eq!(ending.time_passed(s(9)), None);
        assert_eq!(ending.time_passed(s(10)), Some(Action::Signal(libc::SIGTERM)));
        assert_eq!(ending.note().cause, Some(EndCause::Deadline));
        assert_eq!(ending.time_passed(s(14)), None);
        assert_eq!(ending.time_passed(s(15)), Some(Action::Kill));
        assert_eq!(ending.note().killed_after, Some(s(5)));
        assert!(ending.is_killing());
        assert_eq!(ending.next_deadline(), None);
    }

    #[test]
    fn the_first_cause_counts_and_the_last_grace_period() {
        let mut ending = Ending::new(Some(s(10)), s(5));
        let stopped = ending.stop(libc::SIGINT, s(60), order("a"), s(1));
        assert_eq!(stopped, Action::Signal(libc::SIGINT));
        // The deadline has passed, but the tree is being ended already.
        assert_eq!(ending.time_passed(s(20)), None);
        let again = ending.stop(libc::SIGTERM, s(2), order("b"), s(20));
        assert_eq!(again, Action::Signal(libc::SIGTERM));
        assert_eq!(ending.time_passed(s(22)), Some(Action::Kill));
        let note = ending.note();
        assert_eq!((note.cause.clone(), note.first_signal), (Some(order("a")), libc::SIGINT));
        assert_eq!(note.killed_after, Some(s(21)));
    }

    #[test]
    fn a_kill_is_at_once_and_has_no_other_signal() {
        let mut ending = Ending::new(None, s(5));
        assert_eq!(ending.stop(libc::SIGKILL, s(9), order("a"), s(1)), Action::Kill);
        assert_eq!(ending.note().killed_after, None);
        assert_eq!(ending.stop(libc::SIGTERM, s(9), order("b"), s(2)), Action::Kill);
        assert_eq!(ending.note().first_signal, libc::SIGKILL);
    }

    #[test]
    fn a_job_whose_first_process_has_ended_has_no_deadline() {
        let mut ending = Ending::new(Some(s(10)), s(5));
        ending.leader_exited();
        assert_eq!(ending.next_deadline(), None);
        assert_eq!(ending.time_passed(s(20)), None);
        let stopped = ending.stop(libc::SIGTERM, s(1), order("survivors"), s(30));
        assert_eq!(stopped, Action::Signal(libc::SIGTERM));
        assert_eq!(ending.note().cause, None, "its first process had ended by itself");
    }

    #[test]
    fn the_rest_of_the_grace_period_is_for_the_others() {
        let mut ending = Ending::new(Some(s(10)), s(5));
        ending.time_passed(s(10));
        ending.leader_exited();
        assert_eq!(ending.note().cause, Some(EndCause::Deadline));
        assert_eq!(ending.next_deadline(), Some(s(15)));
        assert_eq!(ending.time_passed(s(15)), Some(Action::Kill));
    }
}
