//! One pipe of a job, until its end, and the memory that pipes are read through.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::process::{OutputPipe, UnwatchedPipe};

/// What one read takes at the most. While it lasts the job cannot write, so more is not faster.
const BLOCK_BYTES: usize = 128 * 1024;
/// How long a flood is left alone: its pipe takes what comes meanwhile. That is the next tick of the
/// runtime's clock, about a millisecond away; a whole one would mostly become two.
const PAUSE: Duration = Duration::from_micros(1);

thread_local! {
    static BLOCK: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends the calling thread's block, empty. Pipes are read without waiting, so that a thread needs
/// one, however many jobs it serves: no job has a buffer of its own, and what is read by one is
/// still in the cache when the next reads.
pub(super) fn with_block<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut block = BLOCK.take();
    block.clear();
    block.reserve_exact(BLOCK_BYTES);
    let done = work(&mut block);
    BLOCK.set(block);
    done
}

/// One pipe, until its end.
#[derive(Debug)]
pub(super) enum Tap {
    /// The runtime tells when there is something to read.
    Watched(OutputPipe),
    /// A flood, looked at from time to time. To be told of each of its writes would cost more than
    /// to carry them. Its pipe is a larger one.
    Flood {
        pipe: UnwatchedPipe,
        next: Instant,
    },
    Closed,
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// Bytes, and there may be more.
    Bytes,
    /// Nothing for now.
    Nothing,
    /// Nothing, for ever.
    End,
}

/// When to read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// As soon as others had their turn.
    AtOnce,
    /// After a pause, where the pipe is large enough for one.
    Later,
    /// When there is something.
    WhenTold,
}

impl Tap {
    pub(super) const fn is_open(&self) -> bool {
        match self {
            Self::Watched(_) | Self::Flood { .. } => true,
            Self::Closed => false,
        }
    }

    /// Returns when it is time to read; never for a closed one. Cancel-safe.
    pub(super) async fn ready(&self) {
        match self {
            // An error shows again in the read that follows.
            Self::Watched(pipe) => drop(pipe.readable().await),
            Self::Flood { next, .. } => sleep_until(*next).await,
            Self::Closed => std::future::pending().await,
        }
    }

    /// Reads what is there into the block, in place of what it held. A pipe that has come to its end
    /// is closed.
    pub(super) fn read(&mut self, block: &mut Vec<u8>) -> Read {
        block.clear();
        let read = match self {
            Self::Watched(pipe) => pipe.try_read(block),
            Self::Flood { pipe, .. } => pipe.try_read(block),
            Self::Closed => Ok(0),
        };
        match read {
            Ok(1..) => return Read::Bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Read::Nothing,
            // A pipe that cannot be read any more has ended, whatever the reason.
            Ok(0) | Err(_) => {}
        }
        *self = Self::Closed;
        Read::End
    }

    /// Says when to read again.
    pub(super) fn wait(&mut self, next: Next) {
        let at =
            |next: Next| Instant::now() + if next == Next::Later { PAUSE } else { Duration::ZERO };
        *self = match (std::mem::replace(self, Self::Closed), next) {
            (Self::Watched(pipe), Next::AtOnce | Next::Later) if pipe.has_grown() => {
                Self::Flood { pipe: pipe.unwatched(), next: at(next) }
            }
            (Self::Flood { pipe, .. }, Next::AtOnce | Next::Later) => {
                Self::Flood { pipe, next: at(next) }
            }
            (Self::Flood { pipe, .. }, Next::WhenTold) => match pipe.watched() {
                Ok(pipe) => Self::Watched(pipe),
                Err(pipe) => Self::Flood { pipe, next: at(Next::Later) },
            },
            (Self::Watched(pipe), Next::AtOnce | Next::Later | Next::WhenTold) => {
                Self::Watched(pipe)
            }
            (Self::Closed, _) => Self::Closed,
        };
    }

    /// Gives a flooding process a larger pipe.
    pub(super) fn grow(&self) {
        match self {
            Self::Watched(pipe) => pipe.grow(),
            Self::Flood { .. } | Self::Closed => {}
        }
    }
}
