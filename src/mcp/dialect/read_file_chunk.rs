//! `read_file_chunk`: spilled output, a chunk at a time, every byte as it was written; and the pages
//! of output that it shares with `shell_exec`.

use std::time::Duration;
use std::{fmt, io};

use anstream::adapter::strip_str;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::JsonObject;
use serde_json::{Value, json};
use thiserror::Error;

use super::run::DialectReply;
use crate::TaskLimit;
use crate::ids::JobId;
use crate::mcp::args::{ArgError, Args};
use crate::mcp::cursor::{Cursor, CursorError, ParsedCursor};
use crate::mcp::schema::{Field, Kind};
use crate::mcp::tools::Call;
use crate::outcome::StartError;
use crate::output::ScanDeadline;
use crate::output::json::{QueryError, query_json};
use crate::output::pattern::{LinePattern, PatternError};
use crate::output::redaction::Redactor;
use crate::output::search::{SearchRequest, Select, search};
use crate::output::views;
use crate::output::{
    BlockingReader, GzipError, PageEnd, PageRequest, ReadBusy, log_offset, stream_offset,
};
use crate::service::{JobHandle, SubmitError};
use crate::spec::Stream;

const DEFAULT_BYTES: usize = 65_536;
/// The memory for each byte of a chunk: as it was written, as text and in a reply.
const MEMORY_PER_BYTE: usize = 8;

const FIELDS: [Field; 3] = [
    Field::required("uri", Kind::Text, ""),
    Field::optional("cursor", Kind::Text, ""),
    Field::optional("limit_bytes", Kind::Whole, ""),
];

pub(super) const ABOUT: &str = "Reads paginated data from a spilled file. Accepts `cursor` and \
    `limit_bytes` to safely stream contents.";

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "uri": {"type": "string", "description": "A spill_uri"},
            "cursor": {"type": "string", "description": "A next_cursor", "default": "bytes:0"},
            "limit_bytes": {"type": "integer", "minimum": 4, "default": DEFAULT_BYTES}
        },
        "required": ["uri"]
    })
}

pub(super) async fn call(call: Call<'_>, arguments: JsonObject) -> DialectReply {
    match read_file_chunk(call, arguments).await {
        Ok(file_chunk) => DialectReply::fields(file_chunk.into_fields()),
        Err(error) => error.into(),
    }
}

async fn read_file_chunk(call: Call<'_>, arguments: JsonObject) -> Result<FileChunk, ExecError> {
    let mut args = Args::strict(arguments, &FIELDS)?;
    let uri = args.text("uri")?.unwrap_or_default();
    let max = call.settings.max_page_bytes;
    let bytes = args.whole("limit_bytes", 4..=max as u64)?;
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.unwrap_or(DEFAULT_BYTES.min(max));
    let cursor = args.text_or_number("cursor")?.map(|cursor| place(&cursor)).transpose()?;
    let unknown = || ExecError::UnknownUri { given: uri.chars().take(100).collect() };
    let address = Address::parse(&uri).ok_or_else(unknown)?;
    // An address that another tenant was given is none.
    let job = call.client.find_by_ticket(&address.ticket).await.ok_or_else(unknown)?;
    let start = match cursor {
        Some(place) if place.given.job.is_some_and(|named| call.client.job(named) != job.id()) => {
            return Err(ExecError::OtherCommand(place.given));
        }
        Some(place) => place.offset,
        None => 0,
    };
    match address.packing {
        Packing::Plain => plain(call, &job, address, start, bytes).await,
        Packing::Gzip => gzip_output(call, &job, address, start, bytes).await,
    }
}

/// A chunk of a file, and where it is.
struct FileChunk {
    data: Chunk,
    span: Span,
    mime: &'static str,
}

impl FileChunk {
    fn into_fields(self) -> JsonObject {
        let Self { data, span, mime } = self;
        let mut fields = JsonObject::new();
        if let Some(encoding) = data.encoding() {
            fields.insert("encoding".into(), encoding.into());
        }
        if span.has_more {
            fields.insert("next_cursor".into(), Cursor::Bytes(span.end).to_string().into());
        }
        fields.insert("data".into(), data.into_text().into());
        span.write(&mut fields);
        fields.insert("mime".into(), mime.into());
        fields
    }
}

async fn plain(
    call: Call<'_>,
    job: &JobHandle,
    address: Address,
    start: u64,
    bytes: usize,
) -> Result<FileChunk, ExecError> {
    let redactor = call.client.redactor();
    let memory = call.reserve(job.output(), MEMORY_PER_BYTE * bytes).await?;
    let read = move |log: &BlockingReader| {
        let piece = stream_piece(log, address.stream, start, Limits { bytes, lines: 0 })?;
        let data = Chunk::of(piece.bytes, Style::AS_WRITTEN, &redactor);
        Ok((FileChunk { data, span: piece.span, mime: mime_of(log, address.stream)? }, memory))
    };
    let (chunk, _memory) = job.output().read_with(read).await?;
    Ok(chunk)
}

async fn gzip_output(
    call: Call<'_>,
    job: &JobHandle,
    address: Address,
    start: u64,
    bytes: usize,
) -> Result<FileChunk, ExecError> {
    let packed = call.client.gzip_output(job, address.stream).await?;
    let _memory = call.reserve(job.output(), MEMORY_PER_BYTE * bytes).await?;
    let bytes = packed.read(start, bytes).await?;
    let end = start + bytes.len() as u64;
    let total = packed.total_bytes();
    let span = Span { start, end, total, has_more: end < total };
    Ok(FileChunk { data: Chunk::base64(&bytes), span, mime: "application/gzip" })
}

const PREFIX: &str = "mcp://tmp/exec-";

/// In which form spilled output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// As it was written.
    Plain,
    /// As gzip data.
    Gzip,
}

/// The address of what a run wrote to a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) ticket: String,
    pub(crate) stream: Stream,
    pub(crate) packing: Packing,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = match self.stream {
            Stream::Stdout => "out",
            Stream::Stderr => "err",
        };
        let packing = match self.packing {
            Packing::Plain => "",
            Packing::Gzip => ".gz",
        };
        write!(f, "{PREFIX}{}.{stream}{packing}", self.ticket)
    }
}

impl Address {
    /// Reads an address; nothing where it is none. It names a run by its ticket, and no path.
    pub(crate) fn parse(uri: &str) -> Option<Self> {
        let name = uri.strip_prefix(PREFIX)?;
        let (name, packing) = match name.strip_suffix(".gz") {
            Some(name) => (name, Packing::Gzip),
            None => (name, Packing::Plain),
        };
        let (ticket, stream) = match name.rsplit_once('.')? {
            (ticket, "out") => (ticket.to_owned(), Stream::Stdout),
            (ticket, "err") => (ticket.to_owned(), Stream::Stderr),
            _ => return None,
        };
        Some(Self { ticket, stream, packing })
    }
}

/// How text is changed on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) escapes: Escapes,
    pub(crate) newline: Newline,
}

/// What becomes of escape codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escapes {
    Strip,
    Keep,
}

/// How lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Newline {
    Lf,
    CrLf,
    Keep,
}

impl Style {
    /// Every byte as it was written.
    pub(crate) const AS_WRITTEN: Self = Self { escapes: Escapes::Keep, newline: Newline::Keep };

    fn apply(self, text: String) -> String {
        let text = match self.escapes {
            Escapes::Strip if text.contains('\x1b') => without_escapes(&text),
            Escapes::Strip | Escapes::Keep => text,
        };
        match self.newline {
            Newline::Lf if text.contains('\r') => text.replace("\r\n", "\n"),
            Newline::CrLf => text.replace("\r\n", "\n").replace('\n', "\r\n"),
            Newline::Lf | Newline::Keep => text,
        }
    }
}

/// Bytes as a reply holds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Chunk {
    Text(String),
    Base64(String),
}

impl Chunk {
    /// Text is masked with the whole reply; what is hidden by base64 is masked here.
    pub(crate) fn of(bytes: Vec<u8>, style: Style, redactor: &Redactor) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(style.apply(text)),
            Err(error) => Self::base64(&redactor.mask_bytes(error.as_bytes())),
        }
    }

    /// Bytes that are no text.
    pub(crate) fn base64(bytes: &[u8]) -> Self {
        Self::Base64(STANDARD.encode(bytes))
    }

    /// The word for it, where it is not simply text.
    pub(crate) const fn encoding(&self) -> Option<&'static str> {
        match self {
            Self::Text(_) => None,
            Self::Base64(_) => Some("base64"),
        }
    }

    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Base64(text) => text,
        }
    }
}

/// Text without its escape codes. By line: a code that never ends must not hide what follows.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches(['\r', '\n']);
        plain.extend(strip_str(content));
        plain.push_str(&line[content.len()..]);
    }
    plain
}

/// Why a call gave no page. Its words are the reply.
#[derive(Debug, Error)]
pub(crate) enum ExecError {
    #[error(transparent)]
    Args(#[from] ArgError),
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    Query(QueryError),
    #[error(transparent)]
    Cursor(#[from] CursorError),
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    NotStarted(StartError),
    #[error(transparent)]
    Pack(#[from] GzipError),
    #[error("a cursor here counts bytes; use a next_cursor as it was returned, or `bytes:N`")]
    CountsLines,
    #[error(
        "cursor `{}` has nothing to read: no run of this command is kept; call without page.cursor to run it", .0.place_first()
    )]
    NeverRan(ParsedCursor),
    #[error(
        "cursor `{}` names a run that is not known or no longer kept; nothing was run; call without page.cursor to run the command", .0.place_first()
    )]
    UnknownRun(ParsedCursor),
    #[error(
        "cursor `{}` belongs to another command; nothing was run; send it with the same cmd, args, cwd and env as the call that returned it", .0.place_first()
    )]
    OtherCommand(ParsedCursor),
    #[error(
        "`{given}` is not the address of any kept output; use a spill_uri as it was returned, while its run is kept"
    )]
    UnknownUri { given: String },
    #[error(
        "the output is larger than a page of {} bytes and {} lines (on_large_output is \"error\"); what there is of it is kept: the same call with on_large_output \"spill\" and page.cursor \"bytes:0@{job}\" reads it and runs nothing", .limits.bytes, .limits.lines
    )]
    TooLarge { limits: Limits, job: JobId },
    #[error("the command was lost: {why}; what it wrote is kept")]
    Lost { why: String },
    #[error("the command still runs after {}s; call again with the same cursor", .0.as_secs())]
    StillRuns(Duration),
    #[error("the call was cancelled")]
    Cancelled,
    #[error(transparent)]
    Busy(#[from] ReadBusy),
    #[error("the output could not be read: {0}; try again")]
    Read(#[from] io::Error),
}

impl From<QueryError> for ExecError {
    fn from(error: QueryError) -> Self {
        Self::Query(error.explain_no_thread(TaskLimit::explain))
    }
}

impl From<ExecError> for DialectReply {
    fn from(error: ExecError) -> Self {
        Self::failure(error.to_string())
    }
}

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
    None,
    /// Only the lines that match.
    Grep(LinePattern),
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
    start: u64,
    limits: Limits,
    memory: usize,
    patience: &ScanDeadline,
) -> Result<Piece, ExecError> {
    match filter {
        Filter::None => Ok(stream_piece(log, Stream::Stdout, start, limits)?),
        Filter::Grep(pattern) => Ok(matching_lines(log, pattern, start, limits, patience)?),
        Filter::Query(expression) => {
            let result = query_json(log, Some(Stream::Stdout), expression, memory, patience)?;
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
    let page = log.read_page(&PageRequest {
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
    pattern: &LinePattern,
    start: u64,
    limits: Limits,
    patience: &ScanDeadline,
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

/// A place in stdout, and the cursor that said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) given: ParsedCursor,
}

/// The place that a cursor stands for.
pub(super) fn place(cursor: &str) -> Result<Place, ExecError> {
    let given: ParsedCursor = cursor.parse()?;
    match given.cursor {
        Cursor::Bytes(offset) => Ok(Place { offset, given }),
        Cursor::Line(_) => Err(ExecError::CountsLines),
    }
}

/// Larger output is told by its beginning alone.
const MIME_WHOLE: u64 = 1024 * 1024;
/// That beginning.
const MIME_SAMPLE: Limits = Limits { bytes: 8 * 1024, lines: 0 };

/// The media type of what a stream holds.
pub(super) fn mime_of(log: &BlockingReader, stream: Stream) -> io::Result<&'static str> {
    let limits = match total(log, stream) {
        // Whether it is JSON is known at the end only.
        0..=MIME_WHOLE => Limits { bytes: MIME_WHOLE as usize, lines: 0 },
        _ => MIME_SAMPLE,
    };
    Ok(views::mime(&stream_piece(log, stream, 0, limits)?.bytes))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::output::{LogStorage, open_log};

    #[test]
    fn what_is_written_is_read_back_and_nothing_else() {
        for stream in [Stream::Stdout, Stream::Stderr] {
            for packing in [Packing::Plain, Packing::Gzip] {
                let address = Address { ticket: "7-ab".to_owned(), stream, packing };
                assert_eq!(Address::parse(&address.to_string()), Some(address));
            }
        }
        for uri in ["", "mcp://tmp/exec-7-ab", "mcp://tmp/../etc/passwd", "file:///x.out", "7.out"]
        {
            assert_eq!(Address::parse(uri), None, "{uri}");
        }
    }

    #[track_caller]
    fn check(escapes: Escapes, newline: Newline, given: &str, expected: &str) {
        assert_eq!(Style { escapes, newline }.apply(given.to_owned()), expected, "{given:?}");
    }

    #[test]
    fn colours_go_and_lines_end_as_wished() {
        let given = "\x1b[31mred\x1b[0m\r\nb\tc\rd\0\n";
        check(Escapes::Strip, Newline::Lf, "a\r\nb\0\rc\n", "a\nb\0\rc\n");
        check(Escapes::Keep, Newline::Keep, given, given);
        check(Escapes::Keep, Newline::CrLf, "a\r\nb\n", "a\r\nb\r\n");
        check(Escapes::Strip, Newline::Keep, "\x1b[31mred\x1b[0m\r\nb\n", "red\r\nb\n");
        check(Escapes::Strip, Newline::Lf, "a\x1b]0;no end\r\nb\n", "a\nb\n");
    }

    #[test]
    fn what_is_no_text_is_base64_without_its_secrets() {
        let redactor = Redactor::new(&["hush".to_owned()]).unwrap();
        let chunk = Chunk::of(b"\xffhush".to_vec(), Style::AS_WRITTEN, &redactor);
        assert_eq!(chunk, Chunk::base64(b"\xff[redacted]"));
        assert_eq!(chunk.encoding(), Some("base64"));
    }

    fn log_of(writes: &[(Stream, &[u8])]) -> BlockingReader {
        let settings = LogStorage { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() };
        let (mut writer, reader) = open_log(&settings);
        for (stream, bytes) in writes {
            writer.append(*stream, bytes);
        }
        writer.close();
        reader.blocking()
    }

    fn look(log: &BlockingReader, filter: &Filter, start: u64, limits: Limits) -> Piece {
        let (patience, _leash) = ScanDeadline::start(Duration::from_secs(3600));
        piece(log, filter, start, limits, 1 << 20, &patience).unwrap()
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
        let grep = Filter::Grep(LinePattern::new("line [0-9]*7 ").unwrap());
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
