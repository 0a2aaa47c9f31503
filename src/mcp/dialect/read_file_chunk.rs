//! `read_file_chunk`: reads spilled output in chunks, every byte as it was written; and the pages and
//! previews of a stream, which other tools of dialects return too.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::run::DialectReply;
use super::shell_exec_args::{
    ExecError, OutputFilter, SpillFormat, SpillUri, StdoutCursor, TextStyle,
};
use crate::mcp::args::{ArgKind, ArgSpec, Args};
use crate::mcp::resources::Cursor;
use crate::mcp::tools::ToolCall;
use crate::output::json::query_json;
use crate::output::pattern::LinePattern;
use crate::output::redaction::Redactor;
use crate::output::search::{ListingStyle, SearchContext, SearchRequest, Select, search};
use crate::output::{
    BlockingReader, PageEnd, PageRequest, ScanDeadline, log_offset, stream_offset, views,
};
use crate::service::JobHandle;
use crate::spec::Stream;

const DEFAULT_BYTES: usize = 65_536;
/// Memory per byte of a chunk: as written, as text, and in the reply.
const MEMORY_PER_BYTE: usize = 8;

const FIELDS: [ArgSpec; 3] = [
    ArgSpec::required("uri", ArgKind::Text, ""),
    ArgSpec::optional("cursor", ArgKind::Text, ""),
    ArgSpec::optional("limit_bytes", ArgKind::Whole, ""),
];

pub(in crate::mcp) const ABOUT: &str = "Reads paginated data from a spilled file. Accepts `cursor` and \
    `limit_bytes` to safely stream contents.";

pub(in crate::mcp) fn schema() -> Value {
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

pub(in crate::mcp) async fn call(call: ToolCall<'_>, arguments: JsonObject) -> DialectReply {
    match read_file_chunk(call, arguments).await {
        Ok(file_chunk) => DialectReply::fields(file_chunk.into_fields()),
        Err(error) => error.into(),
    }
}

async fn read_file_chunk(
    call: ToolCall<'_>,
    arguments: JsonObject,
) -> Result<FileChunk, ExecError> {
    let mut args = Args::strict(arguments, &FIELDS)?;
    let uri = args.text("uri")?.unwrap_or_default();
    let max = call.settings.max_page_bytes;
    let bytes = args.whole("limit_bytes", 4..=max as u64)?;
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.unwrap_or(DEFAULT_BYTES.min(max));
    let cursor = match args.text_or_number("cursor")? {
        Some(given) if !given.is_empty() => {
            Some(StdoutCursor::parse(&given).ok_or(ExecError::BadFileCursor { given })?)
        }
        Some(_) | None => None,
    };
    let unknown = || ExecError::UnknownUri { given: uri.chars().take(100).collect() };
    let spill_uri = SpillUri::parse(&uri).ok_or_else(unknown)?;
    // A URI of another tenant counts as unknown.
    let job = call.client.find_by_ticket(&spill_uri.ticket).await.ok_or_else(unknown)?;
    let start = match cursor {
        Some(cursor)
            if cursor.given.job.is_some_and(|named| call.client.job_id(named) != job.id()) =>
        {
            return Err(ExecError::OtherUri(cursor.given));
        }
        Some(cursor) => cursor.offset,
        None => 0,
    };
    let chunk = match spill_uri.format {
        SpillFormat::Plain => read_plain(call, &job, spill_uri, start, bytes).await?,
        SpillFormat::Gzip => read_gzip(call, &job, spill_uri, start, bytes).await?,
    };
    chunk.span.check_start(cursor)?;
    Ok(chunk)
}

/// A chunk of spilled output and its position.
struct FileChunk {
    data: Chunk,
    span: PageSpan,
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

async fn read_plain(
    call: ToolCall<'_>,
    job: &JobHandle,
    spill_uri: SpillUri,
    start: u64,
    bytes: usize,
) -> Result<FileChunk, ExecError> {
    let redactor = call.client.redactor();
    let memory = call.reserve(job.output(), MEMORY_PER_BYTE * bytes).await?;
    let read = move |log: &BlockingReader| {
        let page = read_stream_page(log, spill_uri.stream, start, PageLimits { bytes, lines: 0 })?;
        let data = Chunk::encode(page.bytes, TextStyle::AS_WRITTEN, &redactor);
        Ok((FileChunk { data, span: page.span, mime: detect_mime(log, spill_uri.stream)? }, memory))
    };
    let (chunk, _memory) = job.output().read_with(read).await?;
    Ok(chunk)
}

async fn read_gzip(
    call: ToolCall<'_>,
    job: &JobHandle,
    spill_uri: SpillUri,
    start: u64,
    bytes: usize,
) -> Result<FileChunk, ExecError> {
    let gzip = call.client.gzip_output(job, spill_uri.stream).await?;
    let _memory = call.reserve(job.output(), MEMORY_PER_BYTE * bytes).await?;
    let bytes = gzip.read(start, bytes).await?;
    let end = start + bytes.len() as u64;
    let total = gzip.total_bytes();
    let span = PageSpan { start, end, total, has_more: end < total };
    Ok(FileChunk { data: Chunk::base64(&bytes), span, mime: "application/gzip" })
}

/// Output bytes as they appear in a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Chunk {
    Text(String),
    Base64(String),
}

impl Chunk {
    /// Encodes bytes as text, or as base64 if they are not UTF-8. Text is masked later, with the
    /// whole reply; base64 hides secrets from that pass, so its bytes are masked here.
    pub(crate) fn encode(bytes: Vec<u8>, style: TextStyle, redactor: &Redactor) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(style.apply(text)),
            Err(error) => Self::base64(&redactor.mask_bytes(error.as_bytes())),
        }
    }

    /// Encodes bytes as base64.
    pub(crate) fn base64(bytes: &[u8]) -> Self {
        Self::Base64(STANDARD.encode(bytes))
    }

    /// The value of the `encoding` field; `None` for plain text.
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

/// The size limits of a page; the one that is reached first applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageLimits {
    pub(crate) bytes: usize,
    /// The value 0 means no limit.
    pub(crate) lines: usize,
}

/// A page of a stream's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputPage {
    pub(crate) bytes: Vec<u8>,
    pub(crate) span: PageSpan,
    /// Bytes of this page that could not be stored because the disk was full.
    pub(super) gap_bytes: u64,
    /// The number of matching lines from the page's start on, if lines were searched.
    pub(super) matches: Option<u64>,
}

/// The position of a page in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageSpan {
    /// The offset that the caller asked for.
    pub(crate) start: u64,
    /// The offset at which the next page starts.
    pub(crate) end: u64,
    /// The size of the whole stream, in bytes.
    pub(crate) total: u64,
    pub(crate) has_more: bool,
}

impl PageSpan {
    /// The offset of the last byte; for an empty page, its start.
    fn last(&self) -> u64 {
        self.end.saturating_sub(1).max(self.start)
    }

    /// Fails if the cursor that asked for this page lies past the end: no reply returned it.
    pub(super) const fn check_start(&self, cursor: Option<StdoutCursor>) -> Result<(), ExecError> {
        match cursor {
            Some(StdoutCursor { offset, given }) if offset > self.total => {
                Err(ExecError::PastEnd { given, total: self.total })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Adds the position to the fields of a reply.
    pub(crate) fn write(&self, fields: &mut JsonObject) {
        fields.insert("bytes_start".into(), self.start.into());
        fields.insert("bytes_end".into(), self.last().into());
        fields.insert("total_bytes".into(), self.total.into());
    }
}

impl OutputPage {
    /// The number of lines, including an unfinished last one.
    pub(super) fn lines(&self) -> usize {
        self.bytes.split_inclusive(|byte| *byte == b'\n').count()
    }

    /// Leaves a `\r` at the end to the next page: the line may end in CRLF.
    pub(super) fn without_trailing_cr(mut self) -> Self {
        if self.span.has_more && self.bytes.len() > 1 && self.bytes.ends_with(b"\r") {
            self.bytes.pop();
            self.span.end -= 1;
        }
        self
    }
}

/// Reads a page of stdout after the filter.
pub(super) fn read_filtered_page(
    log: &BlockingReader,
    filter: &OutputFilter,
    start: u64,
    limits: PageLimits,
    memory: usize,
    deadline: &ScanDeadline,
) -> Result<OutputPage, ExecError> {
    match filter {
        OutputFilter::None => Ok(read_stream_page(log, Stream::Stdout, start, limits)?),
        OutputFilter::Grep(pattern) => {
            Ok(find_matching_lines(log, pattern, start, limits, deadline)?)
        }
        OutputFilter::Query(expression) => {
            let result = query_json(log, Some(Stream::Stdout), expression, memory, deadline)?;
            Ok(cut_text_page(&result.text, start, limits.bytes))
        }
    }
}

/// Reads a page of one stream; offsets count only the bytes of that stream.
pub(crate) fn read_stream_page(
    log: &BlockingReader,
    stream: Stream,
    start: u64,
    limits: PageLimits,
) -> io::Result<OutputPage> {
    let from = log_offset(log, stream, start)?;
    let page = log.read_page(&PageRequest {
        from,
        to: u64::MAX,
        stream: Some(stream),
        max_bytes: limits.bytes,
        max_lines: limits.lines,
    })?;
    // Bytes that were removed from the middle of the log keep their offsets.
    let first = stream_offset(log, stream, page.start)?.max(start);
    let removed_bytes = first - start;
    let end = first + page.bytes.len() as u64;
    let has_more = page.end_kind == PageEnd::More;
    Ok(OutputPage {
        bytes: page.bytes,
        span: PageSpan { start, end, total: stream_len(log, stream), has_more },
        // The page counts the removed bytes from `from` on, which may lie behind them.
        gap_bytes: (page.gap_bytes + removed_bytes).saturating_sub(page.start.saturating_sub(from)),
        matches: None,
    })
}

/// The size of a stream in bytes.
pub(super) fn stream_len(log: &BlockingReader, stream: Stream) -> u64 {
    log.progress().bytes_of(Some(stream))
}

/// Reads a page of matching lines. Offsets count all bytes of stdout, so a page may skip many of
/// them.
fn find_matching_lines(
    log: &BlockingReader,
    pattern: &LinePattern,
    start: u64,
    limits: PageLimits,
    deadline: &ScanDeadline,
) -> io::Result<OutputPage> {
    let found = search(
        log,
        &SearchRequest {
            pattern,
            select: Select::Matching,
            stream: Some(Stream::Stdout),
            from: log_offset(log, Stream::Stdout, start)?,
            context: SearchContext::Lines(0),
            style: ListingStyle::Page,
            max_matches: limits.lines,
            max_bytes: limits.bytes,
        },
        deadline,
    )?;
    let total = stream_len(log, Stream::Stdout);
    let end = stream_offset(log, Stream::Stdout, found.resume)?.max(start);
    let mut bytes = Vec::new();
    for line in found.lines {
        bytes.extend(line.text);
        bytes.push(b'\n');
    }
    let span = PageSpan { start, end, total, has_more: found.next.is_some() };
    Ok(OutputPage { bytes, span, gap_bytes: 0, matches: Some(found.matches) })
}

/// Returns the part of `text` from `start` on that fits; it ends at a character boundary.
fn cut_text_page(text: &str, start: u64, max: usize) -> OutputPage {
    let from = usize::try_from(start).unwrap_or(usize::MAX).min(text.len());
    let end = text.floor_char_boundary(from.saturating_add(max)).max(from);
    let bytes = text.as_bytes()[from..end].to_vec();
    let span = PageSpan {
        start,
        end: start + bytes.len() as u64,
        total: text.len() as u64,
        has_more: end < text.len(),
    };
    OutputPage { bytes, span, gap_bytes: 0, matches: None }
}

/// The media type of larger output is detected from its beginning alone.
const MIME_WHOLE: u64 = 1024 * 1024;
const MIME_SAMPLE: PageLimits = PageLimits { bytes: 8 * 1024, lines: 0 };

/// Detects the media type of a stream.
pub(super) fn detect_mime(log: &BlockingReader, stream: Stream) -> io::Result<&'static str> {
    let limits = match stream_len(log, stream) {
        // One JSON value can only be recognised when its end is read.
        0..=MIME_WHOLE => PageLimits { bytes: MIME_WHOLE as usize, lines: 0 },
        _ => MIME_SAMPLE,
    };
    let sample = read_stream_page(log, stream, 0, limits)?;
    Ok(match views::mime(&sample.bytes) {
        // A whole value at the beginning, and more after it.
        "application/json" if sample.span.has_more => "application/x-ndjson",
        mime => mime,
    })
}

/// Detects the media type of stdout or, if it is filtered, of the page.
pub(super) fn detect_page_mime(
    log: &BlockingReader,
    page: &OutputPage,
    filter: &OutputFilter,
) -> io::Result<&'static str> {
    match filter {
        OutputFilter::None => detect_mime(log, Stream::Stdout),
        OutputFilter::Grep(_) => Ok(views::mime(&page.bytes)),
        OutputFilter::Query(_) => Ok("application/json"),
    }
}

/// The bytes and lines read for a preview. Secrets are masked before the preview is cut.
const PREVIEW_READ: PageLimits = PageLimits { bytes: 4096, lines: 10 };
/// Characters in a preview.
const PREVIEW_CHARS: usize = 500;

/// Returns the beginning of stdout as text in this style.
pub(super) fn read_head_preview(
    log: &BlockingReader,
    style: TextStyle,
    redactor: &Redactor,
) -> io::Result<String> {
    let page = read_stream_page(log, Stream::Stdout, 0, PREVIEW_READ)?.without_trailing_cr();
    let shown = format_preview(&page.bytes, style, redactor);
    let end = shown.char_indices().nth(PREVIEW_CHARS).map_or(shown.len(), |(at, _)| at);
    Ok(shown[..end].to_owned())
}

/// Returns the end of stdout as text in this style.
pub(super) fn read_tail_preview(
    log: &BlockingReader,
    style: TextStyle,
    redactor: &Redactor,
) -> io::Result<String> {
    let PageLimits { bytes, lines } = PREVIEW_READ;
    let from = log.tail_start(Some(Stream::Stdout), bytes, lines)?;
    let start = stream_offset(log, Stream::Stdout, from)?;
    let page = read_stream_page(log, Stream::Stdout, start, PREVIEW_READ)?;
    let shown = format_preview(&page.bytes, style, redactor);
    let from = shown.char_indices().rev().nth(PREVIEW_CHARS - 1).map_or(0, |(at, _)| at);
    Ok(shown[from..].to_owned())
}

/// Returns bytes as text in this style; empty if they are binary.
fn format_preview(bytes: &[u8], style: TextStyle, redactor: &Redactor) -> String {
    if str::from_utf8(bytes).is_err() && views::is_binary(bytes) {
        return String::new();
    }
    let text = style.apply(String::from_utf8_lossy(bytes).into_owned());
    redactor.mask_text(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::mcp::dialect::shell_exec_args::{Escapes, Newline};
    use crate::output::{LogStorage, open_log};

    #[track_caller]
    fn check(escapes: Escapes, newline: Newline, given: &str, expected: &str) {
        assert_eq!(TextStyle { escapes, newline }.apply(given.to_owned()), expected, "{given:?}");
    }

    #[test]
    fn text_style_strips_colours_and_converts_newlines() {
        let given = "\x1b[31mred\x1b[0m\r\nb\tc\rd\0\n";
        check(Escapes::Strip, Newline::Lf, "a\r\nb\0\rc\n", "a\nb\0\rc\n");
        check(Escapes::Keep, Newline::Keep, given, given);
        check(Escapes::Keep, Newline::CrLf, "a\r\nb\n", "a\r\nb\r\n");
        check(Escapes::Strip, Newline::Keep, "\x1b[31mred\x1b[0m\r\nb\n", "red\r\nb\n");
        check(Escapes::Strip, Newline::Lf, "a\x1b]0;no end\r\nb\n", "a\nb\n");
    }

    #[test]
    fn binary_output_is_base64_with_secrets_masked() {
        let redactor = Redactor::new(&["hush".to_owned()]).unwrap();
        let chunk = Chunk::encode(b"\xffhush".to_vec(), TextStyle::AS_WRITTEN, &redactor);
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

    fn read_page(
        log: &BlockingReader,
        filter: &OutputFilter,
        start: u64,
        limits: PageLimits,
    ) -> OutputPage {
        let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
        read_filtered_page(log, filter, start, limits, 1 << 20, &deadline).unwrap()
    }

    /// Returns the bytes of all pages, one after the other.
    fn all(log: &BlockingReader, filter: &OutputFilter, limits: PageLimits) -> Vec<u8> {
        let (mut start, mut bytes) = (0, Vec::new());
        loop {
            let page = read_page(log, filter, start, limits).without_trailing_cr();
            assert!(page.span.end > start, "no progress at {start}");
            start = page.span.end;
            bytes.extend(&page.bytes);
            if !page.span.has_more {
                assert_eq!(start, page.span.total);
                return bytes;
            }
        }
    }

    #[test]
    fn pages_have_every_byte_of_stdout_despite_interleaved_stderr() {
        let (mut stdout, mut writes) = (Vec::<u8>::new(), Vec::new());
        let lines: Vec<String> = (0..500).map(|line| format!("line {line} é\r\n")).collect();
        for line in &lines {
            writes.push((Stream::Stdout, line.as_bytes()));
            writes.push((Stream::Stderr, &b"noise\n"[..]));
            stdout.extend(line.as_bytes());
        }
        let log = log_of(&writes);
        for limits in [(4, 2000), (7, 1), (100, 3), (65_536, 2000)] {
            let limits = PageLimits { bytes: limits.0, lines: limits.1 };
            assert_eq!(all(&log, &OutputFilter::None, limits), stdout, "{limits:?}");
        }
        let grep = OutputFilter::Grep(LinePattern::new("line [0-9]*7 ").unwrap());
        let found = all(&log, &grep, PageLimits { bytes: 64, lines: 3 });
        assert_eq!(found.split(|byte| *byte == b'\n').count() - 1, 50);
    }

    #[test]
    fn a_query_result_is_paged_at_character_boundaries() {
        let log = log_of(&[(Stream::Stdout, r#"{"a": ["é", "€", "b"]}"#.as_bytes())]);
        let query = OutputFilter::Query("a".to_owned());
        let result = all(&log, &query, PageLimits { bytes: 4, lines: 1 });
        assert_eq!(result, r#"["é","€","b"]"#.as_bytes());
    }

    #[test]
    fn a_page_does_not_end_within_a_newline() {
        let log = log_of(&[(Stream::Stdout, b"abcdefg\r\nx\n")]);
        let first = |bytes| {
            let limits = PageLimits { bytes, lines: 0 };
            let page = read_page(&log, &OutputFilter::None, 0, limits).without_trailing_cr();
            (page.span.end, page.bytes.len())
        };
        assert_eq!((first(7), first(8), first(9)), ((7, 7), (7, 7), (9, 9)));
    }

    #[test]
    fn an_empty_page_ends_where_it_starts() {
        let log = log_of(&[]);
        for start in [0, 9] {
            let limits = PageLimits { bytes: 10, lines: 10 };
            let span = read_page(&log, &OutputFilter::None, start, limits).span;
            assert_eq!((span.start, span.last(), span.has_more), (start, start, false));
        }
    }
}
