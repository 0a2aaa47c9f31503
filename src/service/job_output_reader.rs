//! A job's output, read piece by piece while the job writes it.

use std::io;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::job::{JobHandle, StreamError};
use crate::output::{FollowedStreams, Hole, LogPiece, LogReader, LostBytes, StartAt};
use crate::spec::{Stream, StreamMode};

/// The time in which losses at one position are told together.
const LOSS_TIME: Duration = Duration::from_secs(1);

/// Reads the output of a job from a position on, until it is complete.
#[derive(Debug)]
pub struct JobOutputReader {
    log: LogReader,
    streams: FollowedStreams,
    position: u64,
    /// The bytes that were lost right before the position, as far as the caller knows of them.
    known_lost: u64,
}

/// The next part of a job's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputPiece {
    Bytes {
        /// The stream; `None` if the job's streams are merged.
        stream: Option<Stream>,
        bytes: Vec<u8>,
        /// `true` if later bytes may continue these.
        may_grow: bool,
    },
    /// Positions whose bytes were not kept.
    Missing(Hole),
    /// Bytes that were lost right before the position. They have no positions.
    Lost(LostBytes),
    /// Nothing more will come.
    End,
}

/// The reason why output cannot be followed from a place.
#[derive(Debug)]
pub enum FollowError {
    Stream(StreamError),
    /// The start is after the end of the output, which has this length.
    Outside {
        length: u64,
    },
    Read(io::Error),
}

impl JobOutputReader {
    /// Opens the output of a job, or one stream of it, at a place.
    ///
    /// # Errors
    /// If only one stream is asked for and the job's streams are merged, if the place is after the end,
    /// or if the output cannot be read.
    pub async fn open(
        job: &JobHandle,
        stream: Option<Stream>,
        start: StartAt,
    ) -> Result<Self, FollowError> {
        job.check_stream(stream).map_err(FollowError::Stream)?;
        let streams = match (stream, job.spec().streams) {
            (Some(stream), _) => FollowedStreams::One(stream),
            (None, StreamMode::Merged) => FollowedStreams::Merged,
            (None, StreamMode::Separate) => FollowedStreams::Apart,
        };
        let log = job.output().clone();
        let position = log.find_start(stream, start).await.map_err(FollowError::Read)?;
        let length = log.progress().bytes_of(stream);
        if position > length {
            return Err(FollowError::Outside { length });
        }
        Ok(Self { log, streams, position, known_lost: 0 })
    }

    /// The position of the next byte.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// The number of bytes that were lost right before the position, as far as the caller knows.
    #[must_use]
    pub const fn known_lost(&self) -> u64 {
        self.known_lost
    }

    /// The next bytes that were lost right before the position and of which the caller does not know.
    /// The stream of lost bytes is not known, so a reader of one stream finds none.
    #[must_use]
    pub fn find_loss(&self) -> Option<LostBytes> {
        match self.streams.only() {
            None => self.log.find_loss(self.position, self.known_lost),
            Some(_) => None,
        }
    }

    /// The length of the output now.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.log.progress().bytes_of(self.streams.only())
    }

    /// Lists the holes between the position and the present end of the output.
    ///
    /// # Errors
    /// If the output cannot be read.
    pub async fn find_holes(&self) -> io::Result<Vec<Hole>> {
        self.log.find_holes(self.streams.only(), self.position..self.length()).await
    }

    /// `true` if the output is complete, and nothing of it comes after the position.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        let progress = self.log.progress();
        progress.closed && self.position >= progress.bytes_of(self.streams.only())
    }

    /// Returns what stands at the position now, and waits for it if necessary. The position stays
    /// until [`advance`](Self::advance), and a loss is repeated until
    /// [`mark_loss_known`](Self::mark_loss_known). A loss that goes on is told once a second. Dropping
    /// the future loses nothing.
    ///
    /// # Errors
    /// If the output cannot be read.
    pub async fn peek(&self) -> io::Result<OutputPiece> {
        loop {
            let dropped = self.log.progress().dropped_bytes;
            match self.log.next_piece(self.streams, self.position, self.known_lost).await? {
                LogPiece::Bytes { stream, bytes, may_grow } => {
                    return Ok(OutputPiece::Bytes { stream, bytes, may_grow });
                }
                LogPiece::Missing(hole) => return Ok(OutputPiece::Missing(hole)),
                LogPiece::Lost(lost) => {
                    self.wait_while_losing().await;
                    return Ok(OutputPiece::Lost(self.find_loss().unwrap_or(lost)));
                }
                LogPiece::End => return Ok(OutputPiece::End),
                LogPiece::CaughtUp(total) => tokio::select! {
                    () = self.log.wait_past(total) => {}
                    () = self.wait_for_loss(dropped) => {}
                },
            }
        }
    }

    /// Waits after a loss, if the caller knows of an earlier one at the same position and nothing
    /// follows.
    async fn wait_while_losing(&self) {
        let progress = self.log.progress();
        let is_last = !progress.closed && self.position >= progress.total_bytes;
        if is_last && self.known_lost > 0 {
            timeout(LOSS_TIME, self.log.wait_past(progress.total_bytes)).await.ok();
        }
    }

    /// Waits until more than `dropped` bytes were lost, and a moment for those that follow.
    async fn wait_for_loss(&self, dropped: u64) {
        match self.streams.only() {
            None => {
                self.log.wait_for_loss(dropped).await;
                sleep(LOSS_TIME).await;
            }
            Some(_) => std::future::pending().await,
        }
    }

    /// Moves the position on, past bytes that were used.
    pub const fn advance(&mut self, bytes: u64) {
        self.position += bytes;
        self.known_lost = 0;
    }

    /// Moves on past bytes that were lost at the position.
    pub const fn mark_loss_known(&mut self, bytes: u64) {
        self.known_lost += bytes;
    }

    /// Waits until the output has grown after the bytes that [`peek`](Self::peek) has returned, or is
    /// complete.
    pub async fn wait_for_more(&self, peeked: u64) {
        let stands = self.position + peeked;
        loop {
            let progress = self.log.progress();
            if progress.closed || progress.bytes_of(self.streams.only()) > stands {
                return;
            }
            self.log.wait_past(progress.total_bytes).await;
        }
    }
}
