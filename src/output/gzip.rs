//! A stream as gzip data, for those who fetch much of it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use thiserror::Error;

use super::page::{PageEnd, PageRequest};
use super::reader::LogReader;
use super::redact::{LineMasker, Redactor};
use super::spill_dir::SpillDir;
use crate::spec::Stream;

/// More output is not packed: it would take minutes, and as much disk again.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// What is packed at a time.
const BLOCK: usize = 256 * 1024;

/// Why output was not packed.
#[derive(Debug, Error)]
pub enum GzipError {
    /// There is too much of it.
    #[error(
        "the output has {bytes} bytes, and at most {MAX_BYTES} are packed; read it without zip"
    )]
    TooLarge {
        /// How much there is.
        bytes: u64,
    },
    /// It could not be read, or the packed form could not be written.
    #[error("the output could not be packed; try again, or read it without zip")]
    Io(#[from] io::Error),
}

impl GzipError {
    /// The stable word that clients may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Io(_) => "pack_failed",
        }
    }
}

/// Gzip data in a file without a name, which is gone once its last reader is.
#[derive(Debug)]
pub struct Gzipped {
    file: File,
    bytes: u64,
}

impl Gzipped {
    /// How many bytes there are.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        self.bytes
    }

    /// At most `max` bytes from `from` on; none past the end.
    pub fn read(&self, from: u64, max: usize) -> io::Result<Vec<u8>> {
        let length = self.bytes.saturating_sub(from).min(max as u64);
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, from)?;
        Ok(bytes)
    }
}

/// Packs what one stream has so far, with its secrets masked, into a file in `dir`. The same
/// bytes always give the same data. Takes bounded memory, and blocks while it works.
///
/// # Errors
/// When there is too much of it, or a file could not be read or written.
pub fn gzip(
    reader: &LogReader,
    stream: Stream,
    redactor: &Arc<Redactor>,
    dir: &SpillDir,
) -> Result<Gzipped, GzipError> {
    let bytes = reader.progress().total_bytes;
    if bytes > MAX_BYTES {
        return Err(GzipError::TooLarge { bytes });
    }
    let buffered = BufWriter::new(dir.create_nameless()?);
    let mut gzip = GzEncoder::new(buffered, Compression::default());
    let mut masker = LineMasker::new(Arc::clone(redactor));
    let mut from = 0;
    loop {
        let request = PageRequest { from, stream: Some(stream), max_bytes: BLOCK, max_lines: 0 };
        let page = reader.page(&request)?;
        gzip.write_all(&masker.push(&page.bytes))?;
        from = page.end;
        match page.end_kind {
            PageEnd::More => {}
            PageEnd::CaughtUp | PageEnd::Complete => break,
        }
    }
    gzip.write_all(&masker.flush())?;
    let file = gzip.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    let bytes = file.metadata()?.len();
    Ok(Gzipped { file, bytes })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::output::{LogSettings, open};

    #[test]
    fn what_is_packed_unpacks_to_the_stream_without_its_secrets() {
        let dir = SpillDir::new(std::env::temp_dir());
        let settings = LogSettings { memory_bytes: 1 << 16, spill_dir: dir.clone() };
        let (mut writer, reader) = open(&settings);
        let line = b"a line of output, hush-123\n".repeat(40_000);
        writer.append(Stream::Stdout, &line);
        writer.append(Stream::Stderr, b"not this\n");
        writer.close();
        let redactor = Arc::new(Redactor::new(&["hush-[0-9]+".to_owned()]).unwrap());
        let packed = gzip(&reader, Stream::Stdout, &redactor, &dir).unwrap();
        assert!(packed.total_bytes() < line.len() as u64 / 10);
        let mut data = Vec::new();
        while (data.len() as u64) < packed.total_bytes() {
            data.extend(packed.read(data.len() as u64, 1000).unwrap());
        }
        assert_eq!(packed.read(packed.total_bytes() + 5, 1000).unwrap(), b"");
        let mut unpacked = Vec::new();
        GzDecoder::new(&data[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, b"a line of output, [redacted]\n".repeat(40_000));
        let again = gzip(&reader, Stream::Stdout, &redactor, &dir).unwrap();
        assert_eq!(again.read(0, data.len()).unwrap(), data);
    }
}
