//! Counts over a whole stream.

use std::io;

use memchr::memchr_iter;

use super::blocking_reader::BlockingReader;
use super::digest::looks_like_error;
use super::page::{PageEnd, PageRequest};
use crate::Stream;

/// What is read at a time.
const BLOCK: usize = 256 * 1024;

/// What a stream has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Lines, an unfinished last one included.
    pub lines: u64,
    /// Those that look like errors. A line over 256 KiB is looked at in parts.
    pub errors: u64,
}

/// Counts the lines of one stream alone, which is much faster.
pub fn count_lines(reader: &BlockingReader, stream: Stream) -> io::Result<u64> {
    let mut pieces = reader.pieces(Some(stream), 0, reader.progress().total_bytes);
    let (mut lines, mut is_line_open) = (0, false);
    while let Some((_, piece)) = pieces.next()? {
        lines += memchr_iter(b'\n', piece).count() as u64;
        is_line_open = !piece.ends_with(b"\n");
    }
    Ok(lines + u64::from(is_line_open))
}

/// Counts what one stream has so far, in bounded memory.
pub fn tally(reader: &BlockingReader, stream: Stream) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let mut from = 0;
    let mut is_line_open = false;
    loop {
        let request = PageRequest { from, stream: Some(stream), max_bytes: BLOCK, max_lines: 0 };
        let page = reader.page(&request)?;
        for line in page.bytes.split_inclusive(|byte| *byte == b'\n') {
            tally.lines += u64::from(!is_line_open);
            is_line_open = !line.ends_with(b"\n");
            tally.errors += u64::from(looks_like_error(line.strip_suffix(b"\n").unwrap_or(line)));
        }
        from = page.end;
        match page.end_kind {
            PageEnd::More => {}
            PageEnd::CaughtUp | PageEnd::Complete => return Ok(tally),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogSettings, open};

    #[test]
    fn lines_and_errors_of_one_stream_are_counted() {
        let settings =
            LogSettings { memory_bytes: 1 << 16, spill_dir: std::env::temp_dir().into() };
        let (mut writer, reader) = open(&settings);
        writer.append(Stream::Stdout, b"one\nerror: two\nthr");
        writer.append(Stream::Stderr, b"fatal: no\n");
        writer.append(Stream::Stdout, b"ee");
        assert_eq!(
            tally(&reader.blocking(), Stream::Stdout).unwrap(),
            Tally { lines: 3, errors: 1 }
        );
        assert_eq!(
            tally(&reader.blocking(), Stream::Stderr).unwrap(),
            Tally { lines: 1, errors: 1 }
        );
        assert_eq!(count_lines(&reader.blocking(), Stream::Stdout).unwrap(), 3);
        assert_eq!(count_lines(&reader.blocking(), Stream::Stderr).unwrap(), 1);
        writer.append(Stream::Stdout, &vec![b'x'; 3 * BLOCK]);
        writer.close();
        assert_eq!(
            tally(&reader.blocking(), Stream::Stdout).unwrap().lines,
            3,
            "a long line is one"
        );
    }
}
