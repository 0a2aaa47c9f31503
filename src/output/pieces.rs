//! Walks over a part of a log, piece by piece, in either direction, in bounded memory.

use std::io;
use std::ops::Range;

use super::index::{RUN_BYTES, Run};
use super::shared::Shared;
use crate::spec::Stream;

/// Records that are fetched at once.
const RUNS_AT_ONCE: u64 = 256;
/// Bytes that are fetched at least, so that many tiny runs cost few reads.
const READ_AT_LEAST: u64 = 16 * 1024;

/// Which end of the range comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Toward {
    /// The lowest offset first.
    End,
    /// The highest offset first; each piece still reads forward.
    Start,
}

/// The bytes of a range that belong to one stream, or all of them.
///
/// No piece is longer than 64 KiB; neighbours may or may not touch.
#[derive(Debug)]
pub(super) struct Pieces<'a> {
    shared: &'a Shared,
    stream: Option<Stream>,
    toward: Toward,
    /// What is still to come.
    range: Range<u64>,
    runs: Option<Runs>,
    window: Window,
}

impl<'a> Pieces<'a> {
    /// Starts a walk over a range that has been published.
    pub(super) fn new(
        shared: &'a Shared,
        stream: Option<Stream>,
        range: Range<u64>,
        toward: Toward,
    ) -> Self {
        let window = Window { start: 0, bytes: Vec::new(), bounds: range.clone(), toward };
        Self { shared, stream, toward, range, runs: None, window }
    }

    /// The next piece and the offset of its first byte.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        let Some(piece) = self.next_range()? else { return Ok(None) };
        let bytes = self.window.get(self.shared, piece.clone())?;
        Ok(Some((piece.start, bytes)))
    }

    fn next_range(&mut self) -> io::Result<Option<Range<u64>>> {
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
            None => self.runs.insert(Runs::new(self.shared, &self.range, self.toward)?),
        };
        while let Some(run) = runs.next(self.shared)? {
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
    fn get(&mut self, shared: &Shared, range: Range<u64>) -> io::Result<&[u8]> {
        if range.start < self.start || range.end > self.start + self.bytes.len() as u64 {
            self.load(shared, &range)?;
        }
        let from = (range.start - self.start) as usize;
        Ok(&self.bytes[from..from + (range.end - range.start) as usize])
    }

    fn load(&mut self, shared: &Shared, range: &Range<u64>) -> io::Result<()> {
        let length = (range.end - range.start).max(READ_AT_LEAST);
        let (start, end) = match self.toward {
            Toward::End => (range.start, range.start.saturating_add(length)),
            Toward::Start => (range.end.saturating_sub(length), range.end),
        };
        let (start, end) = (start.max(self.bounds.start), end.min(self.bounds.end));
        self.bytes.resize((end - start) as usize, 0);
        self.start = start;
        shared.read_at(start, &mut self.bytes)
    }
}
