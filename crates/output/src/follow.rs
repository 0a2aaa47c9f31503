//! Reads a log, or one of its streams, piece by piece while it grows.
//!
//! Positions count the bytes of the log or, for one stream, only its own.

use std::io;
use std::ops::Range;
use std::time::Instant;

use crate::Stream;
use crate::export::Hole;
use crate::index::LostBytes;
use crate::reader::{BlockingReader, LogReader, stream_offset};
use crate::shared_log::LogProgress;

/// The most bytes of one piece.
const PIECE: u64 = 64 * 1024;

/// The next part of a log for a reader at some position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogPiece {
    /// Bytes of one stream, or of both if they are not told apart.
    Bytes {
        /// The stream; `None` if both are read as one.
        stream: Option<Stream>,
        /// The bytes at the position, at least one.
        bytes: Vec<u8>,
        /// `true` if later bytes may continue these: they are the last, and the log is open.
        may_grow: bool,
    },
    /// Positions whose bytes are not stored any more.
    Missing(Hole),
    /// Bytes that were lost right before the position and have none of their own.
    Lost(LostBytes),
    /// Nothing yet; the value is the length of the whole log, for [`LogReader::wait_past`].
    CaughtUp(u64),
    /// Nothing more will come.
    End,
}

/// The streams that a reader follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowedStreams {
    /// Both streams, read as one.
    Merged,
    /// Both, each piece from one of them.
    Apart,
    One(Stream),
}

impl FollowedStreams {
    /// The only stream, if there is one.
    #[must_use]
    pub const fn only(self) -> Option<Stream> {
        match self {
            Self::Merged | Self::Apart => None,
            Self::One(stream) => Some(stream),
        }
    }
}

/// The place at which a reader starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    Position(u64),
    /// The first of the last lines.
    LastLines(usize),
    /// The first byte that was written at this time or later. Some bytes before it may be included.
    Time(Instant),
    /// The first of the last lines, or of the bytes since a time, if that is later.
    LastLinesSince {
        /// The most lines.
        lines: usize,
        /// The time.
        since: Instant,
    },
}

impl LogReader {
    /// Reads the piece at a position. `known_lost` is the number of bytes of which the reader knows
    /// that they were lost right before it. Dropping the future loses nothing.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn next_piece(
        &self,
        streams: FollowedStreams,
        from: u64,
        known_lost: u64,
    ) -> io::Result<LogPiece> {
        self.read_with(move |log| log.next_piece(streams, from, known_lost)).await
    }

    /// Waits until more than `seen` bytes were lost, or the log is closed. Dropping the future loses
    /// nothing.
    pub async fn wait_for_loss(&self, seen: u64) {
        let Some(mut progress) = self.shared_log().watch_progress() else { return };
        let is_past = |now: &LogProgress| now.closed || now.dropped_bytes > seen;
        // An error means that the writer is gone, which ends the wait as well.
        progress.wait_for(is_past).await.ok();
    }

    /// The next bytes that were lost right before an offset, after the first `known` of them.
    #[must_use]
    pub fn find_loss(&self, offset: u64, known: u64) -> Option<LostBytes> {
        self.shared_log().find_loss(offset, known)
    }

    /// Returns the position of a start now.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn find_start(&self, stream: Option<Stream>, start: StartAt) -> io::Result<u64> {
        self.read_with(move |log| log.find_start(stream, start)).await
    }
}

impl BlockingReader {
    fn next_piece(
        &self,
        streams: FollowedStreams,
        from: u64,
        known_lost: u64,
    ) -> io::Result<LogPiece> {
        // One snapshot: a log that is closed after its length was read may have more bytes.
        let log = self.freeze();
        let progress = log.progress();
        let only = streams.only();
        let total = progress.bytes_of(only);
        // The stream of lost bytes is not known.
        if only.is_none()
            && let Some(lost) = log.find_loss(from, known_lost)
        {
            return Ok(LogPiece::Lost(lost));
        }
        if from >= total {
            let end = LogPiece::CaughtUp(progress.total_bytes);
            return Ok(if progress.closed { LogPiece::End } else { end });
        }
        let wanted = from..total.min(from.saturating_add(PIECE));
        let end = match log.find_holes(only, from..total)?.into_iter().next() {
            Some(hole) if hole.range.start == from => return Ok(LogPiece::Missing(hole)),
            Some(hole) => wanted.end.min(hole.range.start),
            None => wanted.end,
        };
        // A piece ends where bytes were lost, so that the loss is told there.
        let end = if only.is_none() { end.min(log.snapshot().contiguous_end(from)) } else { end };
        let (stream, end) = match streams {
            FollowedStreams::Merged | FollowedStreams::One(_) => (only, end),
            FollowedStreams::Apart => {
                let (stream, end) = log.run_at(from..end)?;
                (Some(stream), end)
            }
        };
        let bytes = log.read_positions(only, from..end)?;
        Ok(LogPiece::Bytes { stream, bytes, may_grow: end == total && !progress.closed })
    }

    /// Returns the stream of the first byte of a range, and the end of its run within the range.
    fn run_at(&self, range: Range<u64>) -> io::Result<(Stream, u64)> {
        let mut stdout = self.chunks(Some(Stream::Stdout), range.start, range.end);
        match stdout.next_range()? {
            Some(run) if run.start == range.start => Ok((Stream::Stdout, run.end.min(range.end))),
            Some(run) => Ok((Stream::Stderr, run.start)),
            None => Ok((Stream::Stderr, range.end)),
        }
    }

    fn find_start(&self, stream: Option<Stream>, start: StartAt) -> io::Result<u64> {
        let log = self.freeze();
        let offset = match start {
            StartAt::Position(position) => return Ok(position),
            StartAt::LastLines(lines) => log.last_lines_start(stream, lines)?,
            StartAt::Time(since) => log.time_start(since),
            StartAt::LastLinesSince { lines, since } => {
                log.last_lines_start(stream, lines)?.max(log.time_start(since))
            }
        };
        match stream {
            None => Ok(offset),
            Some(stream) => stream_offset(&log, stream, offset),
        }
    }

    fn last_lines_start(&self, stream: Option<Stream>, lines: usize) -> io::Result<u64> {
        match lines {
            0 => Ok(self.progress().total_bytes),
            _ => self.tail_start(stream, usize::MAX, lines),
        }
    }

    /// Returns the offset of the first byte that was written at a time or later, or one before it.
    fn time_start(&self, since: Instant) -> u64 {
        let progress = self.progress();
        let total = progress.total_bytes;
        if progress.last_output.is_none_or(|last| last < since) {
            return total;
        }
        self.offset_written_at(since).unwrap_or(total).min(total)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{DropReason, LogStorage, open_log};

    fn storage() -> LogStorage {
        LogStorage { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() }
    }

    /// Reads everything from a position on, with the stream of each piece.
    fn follow(
        log: &LogReader,
        streams: FollowedStreams,
        mut from: u64,
    ) -> Vec<(Option<Stream>, Vec<u8>)> {
        let mut pieces = Vec::new();
        loop {
            match log.blocking().next_piece(streams, from, 0).unwrap() {
                LogPiece::Bytes { stream, bytes, .. } => {
                    from += bytes.len() as u64;
                    pieces.push((stream, bytes));
                }
                LogPiece::Missing(hole) => from = hole.range.end,
                LogPiece::Lost(_) => panic!("nothing was lost"),
                LogPiece::CaughtUp(_) | LogPiece::End => return pieces,
            }
        }
    }

    #[test]
    fn pieces_are_all_bytes_in_order_from_any_position() {
        let (mut writer, log) = open_log(&storage());
        for (stream, text) in [
            (Stream::Stdout, "one "),
            (Stream::Stderr, "two "),
            (Stream::Stderr, "three "),
            (Stream::Stdout, "four"),
        ] {
            writer.append(stream, text.as_bytes());
        }
        let text = b"one two three four";
        for from in 0..=text.len() {
            let pieces = follow(&log, FollowedStreams::Apart, from as u64);
            let bytes: Vec<u8> = pieces.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
            assert_eq!(bytes, text[from..], "{from}");
            let mut at = from;
            for (stream, bytes) in pieces {
                let is_stderr = (4..14).contains(&at);
                assert_eq!(stream == Some(Stream::Stderr), is_stderr, "{from}: {bytes:?} at {at}");
                at += bytes.len();
            }
        }
        let merged = follow(&log, FollowedStreams::Merged, 0);
        assert_eq!(merged, [(None, text.to_vec())]);
        let errors = follow(&log, FollowedStreams::One(Stream::Stderr), 4);
        assert_eq!(errors, [(Some(Stream::Stderr), b"three ".to_vec())]);
    }

    #[test]
    fn the_end_is_told_from_a_pause() {
        let (mut writer, log) = open_log(&storage());
        let next = |from| log.blocking().next_piece(FollowedStreams::Merged, from, 0).unwrap();
        assert_eq!(next(0), LogPiece::CaughtUp(0));
        writer.append(Stream::Stdout, b"ab");
        let bytes = b"ab".to_vec();
        assert_eq!(next(0), LogPiece::Bytes { stream: None, bytes: bytes.clone(), may_grow: true });
        assert_eq!(next(2), LogPiece::CaughtUp(2));
        drop(writer);
        assert_eq!(next(0), LogPiece::Bytes { stream: None, bytes, may_grow: false });
        assert_eq!(next(2), LogPiece::End);
    }

    #[test]
    fn lost_bytes_are_told_once_where_they_are_missing() {
        let (mut writer, log) = open_log(&storage());
        writer.append(Stream::Stdout, b"one");
        writer.mark_crash_gap(7);
        let streams = FollowedStreams::Merged;
        let next = |from, known| log.blocking().next_piece(streams, from, known).unwrap();
        let why = DropReason::ServerCrash;
        let lost = |bytes| LogPiece::Lost(LostBytes { bytes, why });
        assert_eq!(next(3, 0), lost(7));
        assert_eq!(next(3, 7), LogPiece::CaughtUp(3));
        writer.mark_crash_gap(2);
        assert_eq!(next(3, 7), lost(2), "the loss has grown");
        writer.append(Stream::Stdout, b"two");
        let bytes = |bytes: &[u8], may_grow| LogPiece::Bytes {
            stream: None,
            bytes: bytes.to_vec(),
            may_grow,
        };
        assert_eq!(next(0, 0), bytes(b"one", false), "the piece ends at the loss");
        assert_eq!(next(3, 9), bytes(b"two", true));
        let one = FollowedStreams::One(Stream::Stdout);
        let whole = log.blocking().next_piece(one, 0, 0).unwrap();
        assert!(matches!(whole, LogPiece::Bytes { bytes, .. } if bytes == b"onetwo"));
    }

    #[test]
    fn a_reader_starts_at_lines_or_at_a_time() {
        let (mut writer, log) = open_log(&storage());
        let before = Instant::now();
        writer.append(Stream::Stdout, b"one\n");
        writer.append(Stream::Stderr, b"two\nthree\n");
        let start = |stream, start| log.blocking().find_start(stream, start).unwrap();
        assert_eq!(start(None, StartAt::LastLines(0)), 14);
        assert_eq!(start(None, StartAt::LastLines(1)), 8);
        assert_eq!(start(None, StartAt::LastLines(9)), 0);
        assert_eq!(start(Some(Stream::Stderr), StartAt::LastLines(1)), 4);
        assert_eq!(start(None, StartAt::Time(before)), 0);
        let later = Instant::now() + Duration::from_secs(1);
        assert_eq!(start(None, StartAt::Time(later)), 14);
        assert_eq!(start(Some(Stream::Stdout), StartAt::Time(later)), 4);
        assert_eq!(start(None, StartAt::Position(7)), 7);
        let both = |lines, since| start(None, StartAt::LastLinesSince { lines, since });
        assert_eq!(both(1, before), 8, "the lines are later");
        assert_eq!(both(9, before), 0, "there are no more lines");
        assert_eq!(both(1, later), 14, "the time is later");
        assert_eq!(both(0, before), 14);
    }
}
