//! The server at the other end: reached, or started and then reached.

use std::mem;
use std::time::Duration;

use thiserror::Error;

use super::starter::{ServerLaunch, StartError};
use crate::client::{Client, ClientError, Upgraded};
use crate::lines::PROTOCOL;

/// What requests wait for a server that is gone, from when it went: a restart takes less.
const HOLD: Duration = Duration::from_secs(5);

/// The same where we start the server ourselves.
const HOLD_FOR_START: Duration = Duration::from_secs(30);

/// The pauses between attempts: the first comes at once, and each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The pause after a server could not be started: the next one will most likely fail too.
const START_PAUSE: Duration = Duration::from_secs(10);

/// The server at the other end.
#[derive(Debug)]
pub struct Upstream {
    /// Who asks it.
    pub client: Client,
    /// How it is started where nobody listens; `None` = that is not ours to do.
    pub launch: Option<ServerLaunch>,
}

/// Why the server was not reached.
#[derive(Debug, Error)]
pub(super) enum OpenError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Whether the next attempt may go better by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hope {
    /// A restart ends that way: it is worth waiting for.
    Soon,
    /// Somebody must do something first.
    None,
}

impl OpenError {
    pub(super) const fn hope(&self) -> Hope {
        match self {
            Self::Client(
                ClientError::Nobody { .. }
                | ClientError::Connect { .. }
                | ClientError::TimedOut { .. }
                | ClientError::Broken { .. },
            ) => Hope::Soon,
            Self::Client(ClientError::Tls { .. } | ClientError::Refused { .. })
            | Self::Start(_) => Hope::None,
        }
    }
}

impl Upstream {
    /// Reaches the server, starting it where that was asked for.
    pub(super) async fn open(&self) -> Result<Upgraded, OpenError> {
        match (self.client.upgrade(PROTOCOL).await, &self.launch) {
            (Err(ClientError::Nobody { .. }), Some(launch)) => {
                Ok(launch.start_and_reach(&self.client).await?)
            }
            (reached, _) => Ok(reached?),
        }
    }

    /// What requests wait from when the server went.
    pub(super) const fn hold(&self) -> Duration {
        if self.launch.is_some() { HOLD_FOR_START } else { HOLD }
    }
}

/// How long to wait after a connection that lived for so long: not at all, unless the server takes
/// connections only to drop them.
pub(super) const fn pause_after(lived: Duration) -> Duration {
    if lived.as_millis() < LONGEST_PAUSE.as_millis() { LONGEST_PAUSE } else { Duration::ZERO }
}

/// How long to wait before the next attempt.
#[derive(Debug)]
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) const fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    /// The pause after an attempt that failed so.
    pub(super) fn after(&mut self, error: &OpenError) -> Duration {
        let next = (self.0 * 2).min(LONGEST_PAUSE);
        match error {
            OpenError::Client(_) => mem::replace(&mut self.0, next),
            OpenError::Start(_) => START_PAUSE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_a_failed_start_waits_longer() {
        let nobody = OpenError::Client(ClientError::Nobody {
            target: "t".into(),
            source: std::io::ErrorKind::NotFound.into(),
        });
        let mut pauses = Pauses::new();
        let given: Vec<Duration> = (0..8).map(|_| pauses.after(&nobody)).collect();
        assert_eq!(given[0], FIRST_PAUSE);
        assert!(given.is_sorted() && given[7] == LONGEST_PAUSE, "{given:?}");
        let unstarted = StartError::Spawn(std::io::ErrorKind::OutOfMemory.into());
        assert_eq!(pauses.after(&OpenError::Start(unstarted)), START_PAUSE);
    }
}
