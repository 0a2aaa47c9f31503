//! Places within one stream: offsets that count its bytes alone, while a log counts both.

use std::io;
use std::ops::Range;

use super::blocking_reader::BlockingReader;
use super::kept::Kept;
use super::pieces::{Pieces, Toward};
use super::shared::Stretch;
use crate::Stream;

/// The log's offset of the byte that has `position` bytes of its stream before it; of one that is
/// not there, where the log goes on; past the stream's end, the end of the log. Looks at the
/// index alone.
pub fn log_offset(reader: &BlockingReader, stream: Stream, position: u64) -> io::Result<u64> {
    let kept = reader.kept();
    if kept.progress.bytes_of(Some(stream)) == kept.total() {
        return Ok(position.min(kept.total()));
    }
    let later = kept.stretches.partition_point(|stretch| stretch.before(stream) <= position);
    let (passed, later) = kept.stretches.split_at(later);
    let resumes = later.first().map_or(kept.total(), |next| next.range.start);
    let Some(stretch) = passed.last() else { return Ok(resumes) };
    let mut left = position - stretch.before(stream);
    let mut runs = Pieces::new(&kept, Some(stream), stretch.range.clone(), Toward::End);
    while let Some(run) = runs.next_range()? {
        let length = run.end - run.start;
        if left < length {
            return Ok(run.start + left);
        }
        left -= length;
    }
    Ok(resumes)
}

/// How many bytes of a stream come before an offset of the log; before one that is not there:
/// how many before the next that is.
pub fn stream_offset(reader: &BlockingReader, stream: Stream, offset: u64) -> io::Result<u64> {
    let kept = reader.kept();
    let all = kept.progress.bytes_of(Some(stream));
    if all == kept.total() {
        return Ok(offset.min(all));
    }
    match kept.stretch_from(offset) {
        None => Ok(all),
        Some(stretch) => {
            let within = stretch.range.start..offset.max(stretch.range.start);
            Ok(stretch.before(stream) + count(&kept, stream, within)?)
        }
    }
}

/// The first hole in a range of positions in a stream, where there is one.
pub(super) fn first_hole(
    kept: &Kept,
    stream: Stream,
    range: Range<u64>,
) -> io::Result<Option<Range<u64>>> {
    let all = kept.progress.bytes_of(Some(stream));
    let overlaps = |hole: &Range<u64>| hole.start.max(range.start) < hole.end.min(range.end);
    let mut end = 0;
    for (number, stretch) in kept.stretches.iter().enumerate() {
        let hole = end..stretch.before(stream);
        if overlaps(&hole) {
            return Ok(Some(hole));
        }
        // Where the next one touches, it tells how many there are in this one.
        end = match kept.stretches.get(number + 1) {
            Some(next) if next.range.start == stretch.range.end => next.before(stream),
            Some(_) | None => hole.end + count(kept, stream, stretch.range.clone())?,
        };
    }
    Ok(Some(end..all).filter(overlaps))
}

/// How many bytes of a stream there are in a range without holes.
fn count(kept: &Kept, stream: Stream, range: Range<u64>) -> io::Result<u64> {
    let mut bytes = 0;
    let mut runs = Pieces::new(kept, Some(stream), range, Toward::End);
    while let Some(run) = runs.next_range()? {
        bytes += run.end - run.start;
    }
    Ok(bytes)
}

impl Stretch {
    /// Bytes of a stream in the log before it.
    const fn before(&self, stream: Stream) -> u64 {
        match stream {
            Stream::Stdout => self.range.start - self.stderr_bytes,
            Stream::Stderr => self.stderr_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::{LogSettings, open};

    fn any_stream() -> impl Strategy<Value = Stream> {
        prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)]
    }

    proptest! {
        #[test]
        fn every_byte_of_a_stream_is_found_and_counted(
            writes in vec((any_stream(), 1_usize..9), 0..40),
            wanted in any_stream(),
        ) {
            let settings = LogSettings { memory_bytes: 1 << 16, spill_dir: std::env::temp_dir().into() };
            let (mut writer, reader) = open(&settings);
            let mut origin = Vec::new();
            for (stream, length) in writes {
                writer.append(stream, &vec![b'x'; length]);
                origin.extend(vec![stream; length]);
            }
            let total = origin.len() as u64;
            let places = (0..).zip(&origin).filter(|(_, stream)| **stream == wanted);
            let places: Vec<u64> = places.map(|(offset, _)| offset).collect();
            for (position, offset) in (0..).zip(&places) {
                prop_assert_eq!(log_offset(&reader.blocking(), wanted, position).unwrap(), *offset);
                prop_assert_eq!(stream_offset(&reader.blocking(), wanted, *offset).unwrap(), position);
            }
            let all = places.len() as u64;
            prop_assert_eq!(log_offset(&reader.blocking(), wanted, all + 3).unwrap(), total);
            prop_assert_eq!(stream_offset(&reader.blocking(), wanted, total + 3).unwrap(), all);
        }
    }
}
