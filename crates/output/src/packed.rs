//! A closed log in less room: independent zstd frames, any of which can be read alone.
//!
//! The file is nothing but frames, one behind the other: `zstd -d` turns it into the log again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::frame_cache::{FrameCache, FrameKey};
use super::spill_dir::SpillFile;
use crate::counters::Counters;

/// Raw bytes of a frame: what a read at a random offset has to decode.
const FRAME_BYTES: u64 = 128 * 1024;
/// The largest frame that a very large log gets.
const MAX_FRAME_BYTES: u64 = 1024 * 1024;
/// Frames of one log: bounds the table of their ends to 512 KiB.
const MAX_FRAMES: u64 = 64 * 1024;
/// A higher one takes twice the time to make logs a hundredth smaller.
const LEVEL: i32 = 1;
/// Frames that are tried before all are, spread over the log.
const SAMPLES: u64 = 8;

/// The bytes of one closed log, compressed. Offsets are those of the raw log.
#[derive(Debug)]
pub(super) struct Packed {
    file: SpillFile,
    raw_bytes: u64,
    frame_bytes: u64,
    /// Where each frame ends in the file.
    ends: Vec<u64>,
    cache: Arc<FrameCache>,
    /// The number of this log in the cache.
    number: u64,
}

/// What is to be compressed.
#[derive(Debug)]
pub(super) struct Raw {
    /// Holds the log from its offset 0 on; nothing is added to it any more.
    pub(super) file: Arc<SpillFile>,
    /// How long the log is.
    pub(super) bytes: u64,
}

impl Raw {
    /// Compresses into an empty file, for as long as `wanted` holds. Gives nothing when that
    /// would not save a tenth at least, or is no longer wanted.
    pub(super) fn pack(
        &self,
        into: SpillFile,
        cache: &Arc<FrameCache>,
        wanted: impl Fn() -> bool,
    ) -> io::Result<Option<Packed>> {
        let Some(frame_bytes) = frame_bytes(self.bytes) else { return Ok(None) };
        let (raw, written) = (self.file.open()?, into.open()?);
        let mut frames = Frames::new(&raw, self.bytes, frame_bytes)?;
        if !frames.sample_shrinks()? {
            return Ok(None);
        }
        let mut ends = Vec::new();
        let mut end = 0;
        for number in 0..frames.count() {
            let frame = frames.compress(number)?;
            written.write_all_at(frame, end)?;
            end += frame.len() as u64;
            ends.push(end);
            if !wanted() || !is_worth_it(end, self.bytes) {
                return Ok(None);
            }
        }
        ends.shrink_to_fit();
        drop(written);
        into.end_writing();
        let (raw_bytes, number) = (self.bytes, cache.number_for_log());
        let cache = Arc::clone(cache);
        Ok(Some(Packed { file: into, raw_bytes, frame_bytes, ends, cache, number }))
    }
}

/// The size of all frames but the last, or nothing for a log too large for the table.
fn frame_bytes(raw_bytes: u64) -> Option<u64> {
    let doubled = |bytes: &u64| (*bytes < MAX_FRAME_BYTES).then_some(*bytes * 2);
    std::iter::successors(Some(FRAME_BYTES), doubled)
        .find(|bytes| raw_bytes.div_ceil(*bytes) <= MAX_FRAMES)
}

const fn is_worth_it(packed: u64, raw: u64) -> bool {
    packed < raw - raw / 10
}

/// A raw log, frame by frame.
struct Frames<'a> {
    raw: &'a File,
    raw_bytes: u64,
    frame_bytes: u64,
    compressor: Compressor<'static>,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl<'a> Frames<'a> {
    fn new(raw: &'a File, raw_bytes: u64, frame_bytes: u64) -> io::Result<Self> {
        let mut compressor = Compressor::new(LEVEL)?;
        // A disk that changes bytes is then an error of the read, not another log.
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        let output = Vec::with_capacity(zstd::zstd_safe::compress_bound(frame_bytes as usize));
        Ok(Self { raw, raw_bytes, frame_bytes, compressor, input: Vec::new(), output })
    }

    const fn count(&self) -> u64 {
        self.raw_bytes.div_ceil(self.frame_bytes)
    }

    fn compress(&mut self, number: u64) -> io::Result<&[u8]> {
        let start = number * self.frame_bytes;
        self.input.resize(self.frame_bytes.min(self.raw_bytes - start) as usize, 0);
        self.raw.read_exact_at(&mut self.input, start)?;
        self.output.clear();
        self.compressor.compress_to_buffer(&self.input, &mut self.output)?;
        Ok(&self.output)
    }

    /// Whether some frames get smaller, so that what cannot be compressed costs next to nothing.
    fn sample_shrinks(&mut self) -> io::Result<bool> {
        let (mut packed, mut raw) = (0, 0);
        for number in (0..self.count()).step_by(self.count().div_ceil(SAMPLES).max(1) as usize) {
            packed += self.compress(number)?.len() as u64;
            raw += self.input.len() as u64;
        }
        Ok(is_worth_it(packed, raw))
    }
}

impl Packed {
    /// The counts of failed operations on files.
    pub(super) fn counters(&self) -> &Counters {
        self.file.counters()
    }

    /// What it takes on the disk.
    #[must_use]
    pub(super) fn stored_bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Fills `buffer` with the frames as they are stored, from this offset of the file on.
    #[cfg(test)]
    pub(super) fn read_stored_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.open()?.read_exact_at(buffer, offset)
    }

    /// Fills `buffer` with the log's bytes at `offset`.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let frame = self.frame((at / self.frame_bytes) as usize)?;
            let bytes = frame.get((at % self.frame_bytes) as usize..).unwrap_or_default();
            let length = bytes.len().min(rest.len());
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let (filled, left) = rest.split_at_mut(length);
            filled.copy_from_slice(&bytes[..length]);
            at += length as u64;
            rest = left;
        }
        Ok(())
    }

    fn frame(&self, frame: usize) -> io::Result<Arc<Vec<u8>>> {
        let key = FrameKey { log: self.number, frame };
        if let Some(known) = self.cache.get(key) {
            return Ok(known);
        }
        let bytes = Arc::new(self.decode(frame)?);
        self.cache.put(key, &bytes);
        Ok(bytes)
    }

    fn decode(&self, frame: usize) -> io::Result<Vec<u8>> {
        let end = *self.ends.get(frame).ok_or(io::ErrorKind::UnexpectedEof)?;
        let start = frame.checked_sub(1).map_or(0, |before| self.ends[before]);
        let mut stored = vec![0; (end - start) as usize];
        self.file.open()?.read_exact_at(&mut stored, start)?;
        let raw_start = frame as u64 * self.frame_bytes;
        let length = self.frame_bytes.min(self.raw_bytes - raw_start) as usize;
        let bytes = zstd::bulk::decompress(&stored, length)?;
        if bytes.len() == length { Ok(bytes) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

#[cfg(test)]
#[path = "packed_tests.rs"]
mod tests;
