//! Feeds a job's standard input from a task of its own, so that a job that does not
//! read blocks nobody.

use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::process::InputPipe;

/// How many pieces of input may wait for a job that does not read.
const BACKLOG: usize = 64;

/// The writing side of a job's standard input. Dropping it is the end of input.
#[derive(Debug)]
pub(super) struct Feed {
    pieces: mpsc::Sender<Vec<u8>>,
}

/// Why a piece was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FeedError {
    /// Earlier pieces still wait.
    Full,
    /// The job closed its input.
    Closed,
}

impl Feed {
    /// Starts feeding this pipe.
    pub(super) fn start(pipe: InputPipe) -> Self {
        let (pieces, queue) = mpsc::channel(BACKLOG);
        tokio::spawn(feed(pipe, queue));
        Self { pieces }
    }

    /// Hands over one piece; it is written when the job reads.
    pub(super) fn push(&self, piece: Vec<u8>) -> Result<(), FeedError> {
        self.pieces.try_send(piece).map_err(|refused| match refused {
            TrySendError::Full(_) => FeedError::Full,
            TrySendError::Closed(_) => FeedError::Closed,
        })
    }
}

/// Ends when the last piece is written, or when the job no longer reads.
async fn feed(mut pipe: InputPipe, mut queue: mpsc::Receiver<Vec<u8>>) {
    while let Some(piece) = queue.recv().await {
        if pipe.write_all(&piece).await.is_err() {
            return;
        }
    }
}
