//! One pipe of a job, until its end, and the memory that pipes are read through.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use tokio::time::sleep;

use crate::process::OutputPipe;

/// The size of one read: no more than fits into a core's cache until it is written.
const BLOCK_BYTES: usize = 64 * 1024;
/// The most bytes of a job that were read and are not in its log yet.
pub(super) const MAX_UNWRITTEN: u64 = BLOCK_BYTES as u64;
/// Between two looks at a pipe that the runtime could not be told of.
const SOON: Duration = Duration::from_millis(10);

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
pub(super) enum PipeReader {
    Open(OutputPipe),
    Closed,
}

/// The condition for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadMode {
    /// The runtime has reported that there is something to read.
    Announced,
    /// The runtime may have reported nothing yet.
    Unannounced,
}

/// The result of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipeRead {
    /// Bytes, and there may be more.
    Bytes,
    /// Bytes, and no more for now.
    Last,
    Nothing,
    End,
}

impl PipeReader {
    pub(super) const fn is_open(&self) -> bool {
        match self {
            Self::Open(_) => true,
            Self::Closed => false,
        }
    }

    /// Returns when it is time to read; never for a closed one. Cancel-safe.
    pub(super) async fn wait_until_readable(&self) {
        match self {
            // An error shows again in the read that follows.
            Self::Open(pipe) if pipe.is_watched() => drop(pipe.readable().await),
            Self::Open(_) => sleep(SOON).await,
            Self::Closed => std::future::pending().await,
        }
    }

    /// Replaces the content of the block by what is in the pipe. A pipe that has come to its end is
    /// closed.
    pub(super) fn read(&mut self, mode: ReadMode, block: &mut Vec<u8>) -> PipeRead {
        block.clear();
        let read = match (&*self, mode) {
            (Self::Open(pipe), ReadMode::Announced) => pipe.try_read(block),
            (Self::Open(pipe), ReadMode::Unannounced) => pipe.try_read_now(block),
            (Self::Closed, _) => Ok(0),
        };
        match read {
            Ok(1..) if self.has_emptied(block) => return PipeRead::Last,
            Ok(1..) => return PipeRead::Bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return PipeRead::Nothing,
            // A pipe that cannot be read any more has ended, whatever the reason.
            Ok(0) | Err(_) => {}
        }
        *self = Self::Closed;
        PipeRead::End
    }

    /// `true` if a read with this result has emptied the pipe. Never true for a pipe that the
    /// runtime watches: the runtime must see a read that would block before it reports further
    /// bytes.
    pub(super) fn has_emptied(&self, block: &Vec<u8>) -> bool {
        self.unwatched_pipe().is_some() && block.len() < block.capacity()
    }

    /// The pipe, if it is open and the runtime does not watch it.
    pub(super) fn unwatched_pipe(&self) -> Option<&OutputPipe> {
        match self {
            Self::Open(pipe) => Some(pipe).filter(|pipe| !pipe.is_watched()),
            Self::Closed => None,
        }
    }

    /// Makes the runtime stop watching the pipe for something to read.
    pub(super) fn unwatch(&mut self) {
        if let Self::Open(pipe) = self {
            pipe.unwatch();
        }
    }

    /// Makes the runtime watch the pipe, if it can.
    pub(super) fn watch(&mut self) {
        if let Self::Open(pipe) = self {
            // A pipe that the runtime cannot watch is read at intervals.
            pipe.watch().ok();
        }
    }

    /// Gives a flooding process a larger pipe.
    pub(super) fn grow(&self) {
        if let Self::Open(pipe) = self {
            pipe.grow();
        }
    }
}
