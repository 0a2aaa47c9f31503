//! Places within one stream: offsets that count its bytes alone, while a log counts both.

use std::io;

use super::reader::LogReader;
use crate::spec::Stream;

/// The log's offset of the byte that has `position` bytes of its stream before it; past the
/// stream's end, the end of the log. Looks at the index alone.
pub fn log_offset(reader: &LogReader, stream: Stream, position: u64) -> io::Result<u64> {
    let progress = reader.progress();
    if progress.bytes_of(Some(stream)) == progress.total_bytes {
        return Ok(position.min(progress.total_bytes));
    }
    let mut left = position;
    let mut runs = reader.pieces(Some(stream), 0, progress.total_bytes);
    while let Some(run) = runs.next_range()? {
        let length = run.end - run.start;
        if left < length {
            return Ok(run.start + left);
        }
        left -= length;
    }
    Ok(progress.total_bytes)
}

/// How many bytes of a stream come before an offset of the log.
pub fn stream_offset(reader: &LogReader, stream: Stream, offset: u64) -> io::Result<u64> {
    let progress = reader.progress();
    let end = offset.min(progress.total_bytes);
    if progress.bytes_of(Some(stream)) == progress.total_bytes {
        return Ok(end);
    }
    let mut before = 0;
    let mut runs = reader.pieces(Some(stream), 0, end);
    while let Some(run) = runs.next_range()? {
        before += run.end - run.start;
    }
    Ok(before)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::output::{LogSettings, open};

    fn any_stream() -> impl Strategy<Value = Stream> {
        prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)]
    }

    proptest! {
        #[test]
        fn every_byte_of_a_stream_is_found_and_counted(
            writes in vec((any_stream(), 1_usize..9), 0..40),
            wanted in any_stream(),
        ) {
            let settings = LogSettings { memory_bytes: 1 << 16, spill_dir: std::env::temp_dir() };
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
                prop_assert_eq!(log_offset(&reader, wanted, position).unwrap(), *offset);
                prop_assert_eq!(stream_offset(&reader, wanted, *offset).unwrap(), position);
            }
            let all = places.len() as u64;
            prop_assert_eq!(log_offset(&reader, wanted, all + 3).unwrap(), total);
            prop_assert_eq!(stream_offset(&reader, wanted, total + 3).unwrap(), all);
        }
    }
}
