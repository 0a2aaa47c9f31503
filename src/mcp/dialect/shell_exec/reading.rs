//! Everything that a reply says about a run's output, read at once.

use std::io;

use super::chunk::Chunk;
use super::error::ExecError;
use super::piece::{Filter, Limits, Piece, piece, stream_piece, total};
use super::wish::Wish;
use crate::output::patience::Patience;
use crate::output::query;
use crate::output::redact::Redactor;
use crate::output::view::{self, ViewOptions};
use crate::output::{BlockingReader, LogReader, Tally, count_lines, stream_offset, tally};
use crate::spec::Stream;

/// The memory for each byte of a page: as it was written, as text and in a reply.
const MEMORY_PER_BYTE: usize = 8;
/// The memory of everything beside the pages.
const BASE_MEMORY: usize = 4 * 1024 * 1024;
/// What is read for a preview. Its secrets are masked before it is cut.
const PREVIEW_READ: Limits = Limits { bytes: 4096, lines: 10 };
/// What a preview shows.
const PREVIEW_CHARS: usize = 500;
/// Larger output is told by its beginning alone.
const MIME_WHOLE: u64 = 1024 * 1024;
/// That beginning.
const MIME_SAMPLE: Limits = Limits { bytes: 8 * 1024, lines: 0 };

/// What a reply says about a run's output.
#[derive(Debug)]
pub(super) struct Reading {
    /// The page of stdout.
    pub(super) page: Piece,
    /// The first page of stderr; empty on later ones.
    pub(super) stderr: Piece,
    /// Lines of stderr in all.
    pub(super) stderr_lines: u64,
    pub(super) mime: Option<&'static str>,
    /// Of stdout and of stderr.
    pub(super) summary: Option<(Tally, Tally)>,
    pub(super) head: String,
    pub(super) tail: String,
}

impl Reading {
    /// The memory that it takes to read it all.
    pub(super) fn memory_of(log: &LogReader, wish: &Wish) -> usize {
        let pages = BASE_MEMORY + 2 * MEMORY_PER_BYTE * wish.limits.bytes;
        match wish.filter {
            Filter::None | Filter::Grep(_) => pages,
            Filter::Query(_) => pages + query::memory_of(log, Some(Stream::Stdout)),
        }
    }

    /// Reads it all. A query takes at most `memory` bytes.
    pub(super) fn of(
        log: &BlockingReader,
        wish: &Wish,
        redactor: &Redactor,
        (memory, patience): (usize, &Patience),
    ) -> Result<Self, ExecError> {
        let start = wish.start();
        let page = piece(log, &wish.filter, (start, wish.limits), (memory, patience))?
            .without_half_newline();
        // Later pages leave stderr to the first one.
        let stderr_from = if start == 0 { 0 } else { total(log, Stream::Stderr) };
        let summary = wish
            .wants_summary
            .then(|| io::Result::Ok((tally(log, Stream::Stdout)?, tally(log, Stream::Stderr)?)));
        Ok(Self {
            page,
            stderr: stream_piece(log, Stream::Stderr, stderr_from, wish.limits)?,
            stderr_lines: count_lines(log, Stream::Stderr)?,
            mime: wish.wants_mime.then(|| mime_of(log, Stream::Stdout)).transpose()?,
            summary: summary.transpose()?,
            head: head(log, redactor)?,
            tail: tail(log, redactor)?,
        })
    }

    /// The page and stderr as the reply holds them.
    pub(super) fn chunks(&self, wish: &Wish, redactor: &Redactor) -> (Chunk, Chunk) {
        let chunk = |piece: &Piece| Chunk::of(piece.bytes.clone(), wish.style, redactor);
        (chunk(&self.page), chunk(&self.stderr))
    }
}

/// The media type of what a stream holds.
pub(crate) fn mime_of(log: &BlockingReader, stream: Stream) -> io::Result<&'static str> {
    let limits = match total(log, stream) {
        // Whether it is JSON is known at the end only.
        0..=MIME_WHOLE => Limits { bytes: MIME_WHOLE as usize, lines: 0 },
        _ => MIME_SAMPLE,
    };
    Ok(view::mime(&stream_piece(log, stream, 0, limits)?.bytes))
}

fn head(log: &BlockingReader, redactor: &Redactor) -> io::Result<String> {
    let shown = preview(&stream_piece(log, Stream::Stdout, 0, PREVIEW_READ)?.bytes, redactor);
    let end = shown.char_indices().nth(PREVIEW_CHARS).map_or(shown.len(), |(at, _)| at);
    Ok(shown[..end].to_owned())
}

fn tail(log: &BlockingReader, redactor: &Redactor) -> io::Result<String> {
    let Limits { bytes, lines } = PREVIEW_READ;
    let from = log.tail_start(Some(Stream::Stdout), bytes, lines)?;
    let start = stream_offset(log, Stream::Stdout, from)?;
    let shown = preview(&stream_piece(log, Stream::Stdout, start, PREVIEW_READ)?.bytes, redactor);
    let from = shown.char_indices().rev().nth(PREVIEW_CHARS - 1).map_or(0, |(at, _)| at);
    Ok(shown[from..].to_owned())
}

/// Bytes as a person would look at them; nothing where they are no text.
fn preview(bytes: &[u8], redactor: &Redactor) -> String {
    if view::is_binary(bytes) {
        return String::new();
    }
    view::text(&redactor.mask_bytes(bytes), ViewOptions::default()).text
}
