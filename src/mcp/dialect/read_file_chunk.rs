//! `read_file_chunk`: reads spilled output in chunks, every byte as it was written.

use std::fmt;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::exec_error::{ExecError, StdoutCursor};
use super::output_pages::{Chunk, PageLimits, PageSpan, TextStyle, detect_mime, read_stream_page};
use super::run::DialectReply;
use crate::mcp::args::{ArgKind, ArgSpec, Args};
use crate::mcp::resources::Cursor;
use crate::mcp::tools::ToolCall;
use crate::output::BlockingReader;
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

const PREFIX: &str = "mcp://tmp/exec-";

/// The form in which spilled output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpillFormat {
    Plain,
    Gzip,
}

/// The URI of the spilled output of one stream of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpillUri {
    pub(crate) ticket: String,
    pub(crate) stream: Stream,
    pub(crate) format: SpillFormat,
}

impl fmt::Display for SpillUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = match self.stream {
            Stream::Stdout => "out",
            Stream::Stderr => "err",
        };
        let format = match self.format {
            SpillFormat::Plain => "",
            SpillFormat::Gzip => ".gz",
        };
        write!(f, "{PREFIX}{}.{stream}{format}", self.ticket)
    }
}

impl SpillUri {
    /// Parses a spill URI. It names a run by its ticket and never a path.
    pub(crate) fn parse(uri: &str) -> Option<Self> {
        let name = uri.strip_prefix(PREFIX)?;
        let (name, format) = match name.strip_suffix(".gz") {
            Some(name) => (name, SpillFormat::Gzip),
            None => (name, SpillFormat::Plain),
        };
        let (ticket, stream) = match name.rsplit_once('.')? {
            (ticket, "out") => (ticket.to_owned(), Stream::Stdout),
            (ticket, "err") => (ticket.to_owned(), Stream::Stderr),
            _ => return None,
        };
        Some(Self { ticket, stream, format })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_written_spill_uri_parses() {
        for stream in [Stream::Stdout, Stream::Stderr] {
            for format in [SpillFormat::Plain, SpillFormat::Gzip] {
                let spill_uri = SpillUri { ticket: "7-ab".to_owned(), stream, format };
                assert_eq!(SpillUri::parse(&spill_uri.to_string()), Some(spill_uri));
            }
        }
        for uri in ["", "mcp://tmp/exec-7-ab", "mcp://tmp/../etc/passwd", "file:///x.out", "7.out"]
        {
            assert_eq!(SpillUri::parse(uri), None, "{uri}");
        }
    }
}
