//! Walks over a part of a log, piece by piece, in either direction, in bounded memory.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::Stream;
use crate::index::{RUN_BYTES, Run};
use crate::part::{Joint, Shared, Stretch};
use crate::parts::Kept;

/// Records that are fetched at once.
const RUNS_AT_ONCE: u64 = 256;
/// Bytes that are fetched at least, so that many tiny runs cost few reads.
const READ_AT_LEAST: u64 = 16 * 1024;

/// Which end of the range comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Toward {
    /// The lowest offset first.
    End,
    /// The highest offset first; each piece still reads forward.
    Start,
}

/// The bytes of a range that belong to one stream, or all of them, as far as they are there.
///
/// No piece is longer than 64 KiB; neighbours may or may not touch.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// The first is the one that is walked over.
    legs: VecDeque<Leg>,
}

/// What comes next in a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A piece.
    Piece,
    /// A hole, or a place where bytes were lost: what comes after it does not follow on what came before.
    Hole,
    /// Nothing.
    End,
}

impl Pieces {
    /// Starts a walk over a range that has been published.
    pub(crate) fn new(
        kept: &Kept,
        stream: Option<Stream>,
        range: Range<u64>,
        toward: Toward,
    ) -> Self {
        let leg = |stretch: &Stretch| {
            let range = stretch.range.start.max(range.start)..stretch.range.end.min(range.end);
            (!range.is_empty()).then(|| Leg::new(stretch, stream, range, toward))
        };
        let legs = kept.stretches.iter().filter_map(leg);
        let legs = match toward {
            Toward::End => legs.collect(),
            Toward::Start => legs.rev().collect(),
        };
        Self { legs }
    }

    /// The next piece and the offset of its first byte. Holes are skipped.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        while self.step()? == Step::Hole {}
        Ok(self.piece())
    }

    /// Moves on: to the next piece, or over a hole.
    pub(crate) fn step(&mut self) -> io::Result<Step> {
        while let Some(leg) = self.legs.front_mut() {
            if leg.advance()? {
                return Ok(Step::Piece);
            }
            if self.leaves_hole() {
                return Ok(Step::Hole);
            }
        }
        Ok(Step::End)
    }

    /// Moves on, and writes the next piece into `buffer` at `position`, growing it where it is
    /// too short; the offsets that the piece has.
    pub(crate) fn step_into(
        &mut self,
        buffer: &mut Vec<u8>,
        position: usize,
    ) -> io::Result<(Step, Range<u64>)> {
        while let Some(leg) = self.legs.front_mut() {
            if let Some(piece) = leg.advance_into(buffer, position)? {
                return Ok((Step::Piece, piece));
            }
            if self.leaves_hole() {
                return Ok((Step::Hole, 0..0));
            }
        }
        Ok((Step::End, 0..0))
    }

    /// The offsets of the next piece, which is not read.
    pub(crate) fn next_range(&mut self) -> io::Result<Option<Range<u64>>> {
        while let Some(leg) = self.legs.front_mut() {
            if let Some(range) = leg.next_range()? {
                return Ok(Some(range));
            }
            self.legs.pop_front();
        }
        Ok(None)
    }

    /// Leaves a stretch that is passed; whether a hole comes after it, or bytes were lost there.
    fn leaves_hole(&mut self) -> bool {
        let left = self.legs.pop_front();
        match (left, self.legs.front()) {
            (Some(left), Some(next)) => !left.touches(next),
            (Some(_) | None, _) => false,
        }
    }

    /// The piece that the last step led to.
    pub(crate) fn piece(&self) -> Option<(u64, &[u8])> {
        self.legs.front().map(|leg| (leg.piece.start, leg.window.get(&leg.piece)))
    }
}

/// A walk over one stretch.
#[derive(Debug)]
struct Leg {
    shared: Arc<Shared>,
    joint: Joint,
    stream: Option<Stream>,
    toward: Toward,
    /// What is still to come.
    range: Range<u64>,
    runs: Option<Runs>,
    window: Window,
    /// Where it is now: a part of the window.
    piece: Range<u64>,
}

impl Leg {
    fn new(stretch: &Stretch, stream: Option<Stream>, range: Range<u64>, toward: Toward) -> Self {
        let start = range.start;
        let window = Window { start, bytes: Vec::new(), bounds: range.clone(), toward };
        let shared = Arc::clone(&stretch.shared);
        let joint = stretch.joint;
        Self { shared, joint, stream, toward, range, runs: None, window, piece: start..start }
    }

    /// Whether the next leg goes on where this one ends.
    fn touches(&self, next: &Self) -> bool {
        let (before, after) = match self.toward {
            Toward::End => (self, next),
            Toward::Start => (next, self),
        };
        let is_seamless = after.joint == Joint::Seamless;
        is_seamless && before.window.bounds.end == after.window.bounds.start
    }

    /// Moves on to the next piece, if there is one.
    fn advance(&mut self) -> io::Result<bool> {
        let Some(piece) = self.next_range()? else { return Ok(false) };
        self.window.cover(&self.shared, &piece)?;
        self.piece = piece;
        Ok(true)
    }

    /// Writes the next piece into `buffer`; its offsets.
    fn advance_into(
        &mut self,
        buffer: &mut Vec<u8>,
        position: usize,
    ) -> io::Result<Option<Range<u64>>> {
        let Some(piece) = self.next_range()? else { return Ok(None) };
        let end = position + (piece.end - piece.start) as usize;
        if buffer.len() < end {
            buffer.resize(end, 0);
        }
        let target = &mut buffer[position..end];
        match self.stream {
            None => self.shared.read_at(piece.start, target)?,
            // Runs may be tiny: what is read is shared between them.
            Some(_) => {
                self.window.cover(&self.shared, &piece)?;
                target.copy_from_slice(self.window.get(&piece));
            }
        }
        Ok(Some(piece))
    }

    /// Where the next piece is; its bytes are not read.
    pub(crate) fn next_range(&mut self) -> io::Result<Option<Range<u64>>> {
        if self.range.is_empty() {
            return Ok(None);
        }
        let piece = match self.stream {
            None => block_of(&self.range, self.toward),
            Some(stream) => match self.next_run(stream)? {
                Some(run) => run,
                None => return Ok(None),
            },
        };
        match self.toward {
            Toward::End => self.range.start = piece.end,
            Toward::Start => self.range.end = piece.start,
        }
        Ok(Some(piece))
    }

    /// The next run of the stream, cut to the range.
    fn next_run(&mut self, stream: Stream) -> io::Result<Option<Range<u64>>> {
        let runs = match &mut self.runs {
            Some(runs) => runs,
            None => self.runs.insert(Runs::new(&self.shared, &self.range, self.toward)?),
        };
        while let Some(run) = runs.next(&self.shared)? {
            let piece = run.offset.max(self.range.start)..run.end().min(self.range.end);
            if run.offset >= self.range.end || run.end() <= self.range.start {
                return Ok(None);
            }
            if run.stream == stream {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

fn block_of(range: &Range<u64>, toward: Toward) -> Range<u64> {
    let length = (range.end - range.start).min(RUN_BYTES as u64);
    match toward {
        Toward::End => range.start..range.start + length,
        Toward::Start => range.end - length..range.end,
    }
}

/// The records of a range, fetched some at a time.
#[derive(Debug)]
struct Runs {
    /// The next one is at the end.
    fetched: Vec<Run>,
    /// Where to go on fetching: the next number upwards, or the one after it downwards.
    number: u64,
    toward: Toward,
}

impl Runs {
    fn new(shared: &Shared, range: &Range<u64>, toward: Toward) -> io::Result<Self> {
        let number = match toward {
            Toward::End => number_at(shared, range.start)?.unwrap_or(0),
            Toward::Start => number_at(shared, range.end - 1)?.map_or(0, |number| number + 1),
        };
        Ok(Self { fetched: Vec::new(), number, toward })
    }

    fn next(&mut self, shared: &Shared) -> io::Result<Option<Run>> {
        if self.fetched.is_empty() {
            self.fetch(shared)?;
        }
        Ok(self.fetched.pop())
    }

    fn fetch(&mut self, shared: &Shared) -> io::Result<()> {
        match self.toward {
            Toward::End => {
                self.fetched = shared.runs(self.number..self.number + RUNS_AT_ONCE)?;
                self.number += self.fetched.len() as u64;
                self.fetched.reverse();
            }
            Toward::Start => {
                let first = self.number.saturating_sub(RUNS_AT_ONCE);
                self.fetched = shared.runs(first..self.number)?;
                self.number = first;
            }
        }
        Ok(())
    }
}

fn number_at(shared: &Shared, offset: u64) -> io::Result<Option<u64>> {
    Ok(shared.find_run(|run| run.offset <= offset)?.map(|(number, _)| number))
}

/// A part of the log that was read a little further than asked for.
#[derive(Debug)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
    /// Never reads outside of this.
    bounds: Range<u64>,
    toward: Toward,
}

impl Window {
    /// Makes sure that a range is in the window.
    fn cover(&mut self, shared: &Shared, range: &Range<u64>) -> io::Result<()> {
        let is_outside =
            range.start < self.start || range.end > self.start + self.bytes.len() as u64;
        if is_outside { self.load(shared, range) } else { Ok(()) }
    }

    /// The bytes of a range that is covered.
    fn get(&self, range: &Range<u64>) -> &[u8] {
        let from = (range.start - self.start) as usize;
        &self.bytes[from..from + (range.end - range.start) as usize]
    }

    fn load(&mut self, shared: &Shared, range: &Range<u64>) -> io::Result<()> {
        let length = (range.end - range.start).max(READ_AT_LEAST);
        let (start, end) = match self.toward {
            Toward::End => (range.start, range.start.saturating_add(length)),
            Toward::Start => (range.end.saturating_sub(length), range.end),
        };
        let start = start.max(self.bounds.start);
        let end = end.min(self.bounds.end);
        self.bytes.resize((end - start) as usize, 0);
        self.start = start;
        shared.read_at(start, &mut self.bytes)
    }
}
