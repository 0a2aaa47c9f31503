//! One page of a run's stdout, of what a filter leaves of it, or of another stream.

use std::io;

use rmcp::model::JsonObject;

use super::error::ExecError;
use crate::output::patience::Patience;
use crate::output::pattern::Pattern;
use crate::output::query::query;
use crate::output::search::{SearchRequest, Select, search};
use crate::output::{BlockingReader, PageEnd, PageRequest, log_offset, stream_offset};
use crate::spec::Stream;

/// How much a page holds, whichever is hit first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) bytes: usize,
    /// 0 means any number.
    pub(crate) lines: usize,
}

/// What is wanted of stdout.
#[derive(Debug, Clone)]
pub(super) enum Filter {
    /// All of it.
    None,
    /// Only the lines that match.
    Grep(Pattern),
    /// Only what this JMESPath expression selects.
    Query(String),
}

/// A part of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    pub(crate) span: Span,
    /// Bytes in it that the disk had no room for.
    pub(super) gap_bytes: u64,
    /// Lines that match from its start on, where lines were searched.
    pub(super) matches: Option<u64>,
}

/// Where a part of something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Where it starts: what was asked for.
    pub(crate) start: u64,
    /// Where the next one starts.
    pub(crate) end: u64,
    /// Bytes there are in all.
    pub(crate) total: u64,
    pub(crate) has_more: bool,
}

impl Span {
    /// The offset of its last byte; of an empty one, where it starts.
    fn last(&self) -> u64 {
        self.end.saturating_sub(1).max(self.start)
    }

    /// As a reply says it.
    pub(crate) fn write(&self, fields: &mut JsonObject) {
        fields.insert("bytes_start".into(), self.start.into());
        fields.insert("bytes_end".into(), self.last().into());
        fields.insert("total_bytes".into(), self.total.into());
    }
}

impl Piece {
    /// Its lines, an unfinished last one included.
    pub(super) fn lines(&self) -> usize {
        self.bytes.split_inclusive(|byte| *byte == b'\n').count()
    }

    /// Leaves a `\r` at its end to the next piece: a line that ends there may end in CRLF.
    pub(super) fn without_half_newline(mut self) -> Self {
        if self.span.has_more && self.bytes.len() > 1 && self.bytes.ends_with(b"\r") {
            self.bytes.pop();
            self.span.end -= 1;
        }
        self
    }
}

/// A page of what a filter leaves of stdout.
pub(super) fn piece(
    log: &BlockingReader,
    filter: &Filter,
    (start, limits): (u64, Limits),
    (memory, patience): (usize, &Patience),
) -> Result<Piece, ExecError> {
    match filter {
        Filter::None => Ok(stream_piece(log, Stream::Stdout, start, limits)?),
        Filter::Grep(pattern) => Ok(matching_lines(log, pattern, (start, limits), patience)?),
        Filter::Query(expression) => {
            let result = query(log, Some(Stream::Stdout), expression, memory, patience)?;
            Ok(part_of(&result.text, start, limits.bytes))
        }
    }
}

/// A page of a stream; offsets count the bytes of that stream alone.
pub(crate) fn stream_piece(
    log: &BlockingReader,
    stream: Stream,
    start: u64,
    limits: Limits,
) -> io::Result<Piece> {
    let page = log.page(&PageRequest {
        from: log_offset(log, stream, start)?,
        stream: Some(stream),
        max_bytes: limits.bytes,
        max_lines: limits.lines,
    })?;
    let end = start + page.bytes.len() as u64;
    let has_more = page.end_kind == PageEnd::More;
    Ok(Piece {
        bytes: page.bytes,
        span: Span { start, end, total: total(log, stream), has_more },
        gap_bytes: page.gap_bytes,
        matches: None,
    })
}

/// How much a stream holds.
pub(super) fn total(log: &BlockingReader, stream: Stream) -> u64 {
    log.progress().bytes_of(Some(stream))
}

/// The lines that match; offsets are those of stdout, of which a page passes over much.
fn matching_lines(
    log: &BlockingReader,
    pattern: &Pattern,
    (start, limits): (u64, Limits),
    patience: &Patience,
) -> io::Result<Piece> {
    let found = search(
        log,
        &SearchRequest {
            pattern,
            select: Select::Matching,
            stream: Some(Stream::Stdout),
            from: log_offset(log, Stream::Stdout, start)?,
            context: 0,
            max_matches: limits.lines,
            max_bytes: limits.bytes,
        },
        patience,
    )?;
    let total = total(log, Stream::Stdout);
    let end = stream_offset(log, Stream::Stdout, found.resume)?.max(start);
    let mut bytes = Vec::new();
    for line in found.lines {
        bytes.extend(line.text);
        bytes.push(b'\n');
    }
    let span = Span { start, end, total, has_more: found.next.is_some() };
    Ok(Piece { bytes, span, gap_bytes: 0, matches: Some(found.matches) })
}

/// A part of a text that fits, and ends on a whole character.
fn part_of(text: &str, start: u64, max: usize) -> Piece {
    let from = usize::try_from(start).unwrap_or(usize::MAX).min(text.len());
    let end = text.floor_char_boundary(from.saturating_add(max)).max(from);
    let bytes = text.as_bytes()[from..end].to_vec();
    let span = Span {
        start,
        end: start + bytes.len() as u64,
        total: text.len() as u64,
        has_more: end < text.len(),
    };
    Piece { bytes, span, gap_bytes: 0, matches: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::output::{LogSettings, open};

    fn log_of(writes: &[(Stream, &[u8])]) -> BlockingReader {
        let settings =
            LogSettings { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() };
        let (mut writer, reader) = open(&settings);
        for (stream, bytes) in writes {
            writer.append(*stream, bytes);
        }
        writer.close();
        reader.blocking_for_test()
    }

    fn look(log: &BlockingReader, filter: &Filter, start: u64, limits: Limits) -> Piece {
        let (patience, _leash) = Patience::start(Duration::from_secs(3600));
        piece(log, filter, (start, limits), (1 << 20, &patience)).unwrap()
    }

    /// Everything that the pieces give, one after the other.
    fn all(log: &BlockingReader, filter: &Filter, limits: Limits) -> Vec<u8> {
        let (mut start, mut bytes) = (0, Vec::new());
        loop {
            let piece = look(log, filter, start, limits).without_half_newline();
            assert!(piece.span.end > start, "no progress at {start}");
            start = piece.span.end;
            bytes.extend(&piece.bytes);
            if !piece.span.has_more {
                assert_eq!(start, piece.span.total);
                return bytes;
            }
        }
    }

    #[test]
    fn pieces_give_every_byte_of_stdout_whatever_stderr_has_between() {
        let (mut stdout, mut writes) = (Vec::<u8>::new(), Vec::new());
        let lines: Vec<String> = (0..500).map(|line| format!("line {line} é\r\n")).collect();
        for line in &lines {
            writes.push((Stream::Stdout, line.as_bytes()));
            writes.push((Stream::Stderr, &b"noise\n"[..]));
            stdout.extend(line.as_bytes());
        }
        let log = log_of(&writes);
        for limits in [(4, 2000), (7, 1), (100, 3), (65_536, 2000)] {
            let limits = Limits { bytes: limits.0, lines: limits.1 };
            assert_eq!(all(&log, &Filter::None, limits), stdout, "{limits:?}");
        }
        let grep = Filter::Grep(Pattern::new("line [0-9]*7 ").unwrap());
        let found = all(&log, &grep, Limits { bytes: 64, lines: 3 });
        assert_eq!(found.split(|byte| *byte == b'\n').count() - 1, 50);
    }

    #[test]
    fn a_query_comes_in_pieces_of_whole_characters() {
        let log = log_of(&[(Stream::Stdout, r#"{"a": ["é", "€", "b"]}"#.as_bytes())]);
        let query = Filter::Query("a".to_owned());
        let result = all(&log, &query, Limits { bytes: 4, lines: 1 });
        assert_eq!(result, r#"["é","€","b"]"#.as_bytes());
    }

    #[test]
    fn a_piece_does_not_end_within_a_newline() {
        let log = log_of(&[(Stream::Stdout, b"abcdefg\r\nx\n")]);
        let first = |bytes| {
            let limits = Limits { bytes, lines: 0 };
            let piece = look(&log, &Filter::None, 0, limits).without_half_newline();
            (piece.span.end, piece.bytes.len())
        };
        assert_eq!((first(7), first(8), first(9)), ((7, 7), (7, 7), (9, 9)));
    }

    #[test]
    fn an_empty_piece_ends_where_it_starts() {
        let log = log_of(&[]);
        for start in [0, 9] {
            let limits = Limits { bytes: 10, lines: 10 };
            let span = look(&log, &Filter::None, start, limits).span;
            assert_eq!((span.start, span.last(), span.has_more), (start, start, false));
        }
    }
}
