//! `read_file_chunk`: spilled output, a chunk at a time, every byte as it was written.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::shell_exec::{Address, Chunk, ExecError, Limits, Packing, Span, Style};
use super::shell_exec::{mime_of, place, stream_piece};
use crate::mcp::args::Args;
use crate::mcp::reply::Foreign;
use crate::mcp::schema::{Field, Kind};
use crate::mcp::tools::Call;
use crate::output::{BlockingReader, Cursor};
use crate::yard::JobHandle;

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

pub(super) async fn call(call: Call<'_>, arguments: JsonObject) -> Foreign {
    match read_file_chunk(call, arguments).await {
        Ok(file_chunk) => Foreign::fields(file_chunk.into_fields()),
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
    let job = call.desk.redeem(&address.ticket).await.ok_or_else(unknown)?;
    let start = match cursor {
        Some(place) if place.given.job.is_some_and(|named| call.desk.job(named) != job.id()) => {
            return Err(ExecError::OtherCommand(place.given));
        }
        Some(place) => place.offset,
        None => 0,
    };
    match address.packing {
        Packing::Plain => plain(call, &job, address, (start, bytes)).await,
        Packing::Gzip => packed(call, &job, address, (start, bytes)).await,
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
    (start, bytes): (u64, usize),
) -> Result<FileChunk, ExecError> {
    let redactor = call.desk.redactor();
    let memory = call.reserve(job.output(), MEMORY_PER_BYTE * bytes).await?;
    let read = move |log: &BlockingReader| {
        let piece = stream_piece(log, address.stream, start, Limits { bytes, lines: 0 })?;
        let data = Chunk::of(piece.bytes, Style::AS_WRITTEN, &redactor);
        Ok((FileChunk { data, span: piece.span, mime: mime_of(log, address.stream)? }, memory))
    };
    let (chunk, _memory) = job.output().read_with(read).await?;
    Ok(chunk)
}

async fn packed(
    call: Call<'_>,
    job: &JobHandle,
    address: Address,
    (start, bytes): (u64, usize),
) -> Result<FileChunk, ExecError> {
    let packed = call.desk.packed(job, address.stream).await?;
    let _memory = call.reserve(job.output(), MEMORY_PER_BYTE * bytes).await?;
    let bytes = packed.read(start, bytes).await?;
    let end = start + bytes.len() as u64;
    let total = packed.total_bytes();
    let span = Span { start, end, total, has_more: end < total };
    Ok(FileChunk { data: Chunk::base64(&bytes), span, mime: "application/gzip" })
}
