//! What a job wrote, as bytes for those who carry them elsewhere.

use std::io;
use std::ops::Range;

use super::desk::Desk;
use crate::ids::JobId;
use crate::output::view::{is_binary, mime};
use crate::output::{LogReader, Progress, RawReader};
use crate::spec::Stream;
use crate::supervisor::FindError;

/// How much decides what kind of content it is.
const SAMPLE: u64 = 8 * 1024;

/// What a job had written at one moment: both streams as they came, or one of them. It stays
/// readable for as long as this is held.
#[derive(Debug, Clone)]
pub struct JobOutput {
    log: LogReader,
    stream: Option<Stream>,
    then: Progress,
}

/// What kind of content an output is, by its first 8 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentKind {
    /// UTF-8 text.
    Text,
    /// A known binary format, by its media type.
    Known(&'static str),
    /// Anything else.
    Bytes,
}

impl Desk {
    /// What a job has written until now. The bytes are as stored: nothing in them is masked but
    /// what `redact.at_write` masked.
    ///
    /// # Errors
    /// When there is no such job.
    pub async fn output(&self, id: JobId, stream: Option<Stream>) -> Result<JobOutput, FindError> {
        let log = self.find(id).await?.output().clone();
        let then = log.progress();
        Ok(JobOutput { log, stream, then })
    }
}

impl JobOutput {
    /// How many bytes there are.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.then.bytes_of(self.stream)
    }

    /// Whether nothing will follow.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.then.closed
    }

    /// Returns what kind of content it is, by its first bytes that are there.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn kind(&self) -> io::Result<ContentKind> {
        let start = match self.first_hole(0..self.length()).await? {
            Some(hole) if hole.start == 0 => hole.end,
            Some(_) | None => 0,
        };
        let end = self.length().min(start + SAMPLE);
        let end = self.first_hole(start..end).await?.map_or(end, |hole| hole.start);
        Ok(kind_of(&self.read(start..end).await?.next_block().await?.unwrap_or_default()))
    }

    /// Returns the first bytes of a range that were not kept, where there are such; positions
    /// count its own bytes.
    ///
    /// # Errors
    /// When that cannot be read.
    pub async fn first_hole(&self, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        let stream = self.stream;
        self.log.read_with(move |log| log.first_hole(stream, range)).await
    }

    /// Bytes of the job, of either stream, that could not be kept. They have no positions.
    #[must_use]
    pub const fn dropped_bytes(&self) -> u64 {
        self.then.dropped_bytes
    }

    /// Starts to read a range of it; positions count its own bytes, from 0.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn read(&self, range: Range<u64>) -> io::Result<RawReader> {
        self.log.raw(self.stream, range).await
    }
}

fn kind_of(sample: &[u8]) -> ContentKind {
    // A character that the sample's end cuts in two is still text.
    let is_utf8 = match str::from_utf8(sample) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && sample.len() as u64 == SAMPLE,
    };
    match (is_binary(sample), is_utf8) {
        (false, true) => ContentKind::Text,
        (true, _) => match mime(sample) {
            "application/octet-stream" => ContentKind::Bytes,
            known => ContentKind::Known(known),
        },
        (false, false) => ContentKind::Bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_utf8_is_called_text() {
        let cut = [&b"x".repeat(SAMPLE as usize - 1)[..], b"\xc3"].concat();
        for (sample, expected) in [
            (&b""[..], ContentKind::Text),
            ("grüße\n".as_bytes(), ContentKind::Text),
            (b"<html><script>alert(1)</script></html>", ContentKind::Text),
            (&cut, ContentKind::Text),
            (b"caf\xe9\n", ContentKind::Bytes),
            (&[0; 100], ContentKind::Bytes),
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01", ContentKind::Known("image/png")),
        ] {
            assert_eq!(kind_of(sample), expected, "{sample:?}");
        }
    }
}
