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
    /// Nobody is there, and nobody wanted a start.
    #[error("no server runs; the next call starts one")]
    NotWanted,
}

/// Whether anybody waits for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    /// A server that was stopped is left alone.
    Idle,
    /// A request does.
    Waiting,
}

/// Whether the next attempt may go better by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hope {
    /// The next attempt will start a server for whoever waits.
    Start,
    /// A restart ends that way: it is worth waiting for.
    Soon,
    /// Somebody must do something first.
    None,
}

impl OpenError {
    pub(super) fn hope(&self) -> Hope {
        match self {
            Self::NotWanted => Hope::Start,
            Self::Client(error) | Self::Start(StartError::Client(error)) if error.is_passing() => {
                Hope::Soon
            }
            Self::Client(_) | Self::Start(_) => Hope::None,
        }
    }
}

impl Upstream {
    /// Reaches the server; starts it where that was asked for and somebody waits.
    pub(super) async fn open(&self, demand: Demand) -> Result<Upgraded, OpenError> {
        match (self.client.upgrade(PROTOCOL).await, &self.launch, demand) {
            (Err(ClientError::Nobody { .. }), Some(launch), Demand::Waiting) => {
                Ok(launch.start_and_reach(&self.client).await?)
            }
            (Err(ClientError::Nobody { .. }), Some(_), Demand::Idle) => Err(OpenError::NotWanted),
            (reached, _, _) => Ok(reached?),
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

    /// The next one.
    pub(super) fn next(&mut self) -> Duration {
        let longer = (self.0 * 2).min(LONGEST_PAUSE);
        mem::replace(&mut self.0, longer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_starts_or_ends_is_worth_waiting_for_and_a_wrong_place_is_not() {
        let source = || std::io::ErrorKind::Other.into();
        let passing = || ClientError::Connect { target: "t".into(), source: source() };
        let lasting = || ClientError::Tls { target: "t".into(), source: source() };
        for (error, hope) in [
            (OpenError::Client(passing()), Hope::Soon),
            (OpenError::Start(StartError::Client(passing())), Hope::Soon),
            (OpenError::Client(lasting()), Hope::None),
            (OpenError::Start(StartError::Client(lasting())), Hope::None),
            (OpenError::Start(StartError::Spawn(source())), Hope::None),
            (OpenError::NotWanted, Hope::Start),
        ] {
            assert_eq!(error.hope(), hope, "{error:?}");
        }
    }

    #[test]
    fn pauses_grow_to_a_bound() {
        let mut pauses = Pauses::new();
        let given: Vec<Duration> = (0..8).map(|_| pauses.next()).collect();
        assert_eq!(given[0], FIRST_PAUSE);
        assert!(given.is_sorted() && given[7] == LONGEST_PAUSE, "{given:?}");
    }
}
