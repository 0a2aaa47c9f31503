//! One pipe of a job, until its end, and the memory that pipes are read through.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use tokio::time::sleep;

use crate::process::OutputPipe;

/// What one read takes at the most: no more than a core keeps at hand until it is written.
const BLOCK_BYTES: usize = 64 * 1024;
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
pub(super) enum Tap {
    Open(OutputPipe),
    Closed,
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// Bytes, and there may be more.
    Bytes,
    /// Bytes, and no more for now.
    Last,
    /// Nothing for now.
    Nothing,
    /// Nothing, for ever.
    End,
}

impl Tap {
    pub(super) const fn is_open(&self) -> bool {
        match self {
            Self::Open(_) => true,
            Self::Closed => false,
        }
    }

    /// Returns when it is time to read; never for a closed one. Cancel-safe.
    pub(super) async fn ready(&self) {
        match self {
            // An error shows again in the read that follows.
            Self::Open(pipe) if pipe.is_watched() => drop(pipe.readable().await),
            Self::Open(_) => sleep(SOON).await,
            Self::Closed => std::future::pending().await,
        }
    }

    /// Reads what is there into the block, in place of what it held. A pipe that has come to its end
    /// is closed.
    pub(super) fn read(&mut self, block: &mut Vec<u8>) -> Read {
        self.read_by(block, OutputPipe::try_read)
    }

    /// The same, whether or not the runtime has told that something is there.
    pub(super) fn read_untold(&mut self, block: &mut Vec<u8>) -> Read {
        self.read_by(block, OutputPipe::read_untold)
    }

    fn read_by(
        &mut self,
        block: &mut Vec<u8>,
        read: fn(&OutputPipe, &mut Vec<u8>) -> io::Result<usize>,
    ) -> Read {
        block.clear();
        let read = match self {
            Self::Open(pipe) => read(pipe, block),
            Self::Closed => Ok(0),
        };
        match read {
            Ok(1..) if self.has_emptied(block) => return Read::Last,
            Ok(1..) => return Read::Bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Read::Nothing,
            // A pipe that cannot be read any more has ended, whatever the reason.
            Ok(0) | Err(_) => {}
        }
        *self = Self::Closed;
        Read::End
    }

    /// Whether a read that brought this has left nothing. The runtime has to see a read that brings
    /// nothing before it tells of the next bytes.
    fn has_emptied(&self, block: &Vec<u8>) -> bool {
        self.unwatched().is_some() && block.len() < block.capacity()
    }

    /// The pipe, where the runtime tells nothing of it.
    pub(super) fn unwatched(&self) -> Option<&OutputPipe> {
        match self {
            Self::Open(pipe) => Some(pipe).filter(|pipe| !pipe.is_watched()),
            Self::Closed => None,
        }
    }

    /// Has the runtime tell no longer when there is something to read.
    pub(super) fn unwatch(&mut self) {
        if let Self::Open(pipe) = self {
            pipe.unwatch();
        }
    }

    /// Has the runtime tell, where it can.
    pub(super) fn watch(&mut self) {
        if let Self::Open(pipe) = self {
            // One that it cannot tell of is looked at now and then.
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
