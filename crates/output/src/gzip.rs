//! A stream as gzip data, for those who fetch much of it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use thiserror::Error;

use super::blocking_reader::BlockingReader;
use super::page::{PageEnd, PageRequest};
use super::reader::LogReader;
use super::redact::{LineMasker, Redactor};
use super::spill_dir::SpillDir;
use crate::Stream;

/// More output is not packed: it would take minutes, and as much disk again.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// What is packed at a time.
const BLOCK: usize = 256 * 1024;
/// Blocks that are packed in one step.
const STEP_BLOCKS: usize = 16;

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
    #[error("the output could not be packed ({0}); try again, or read it without zip")]
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
    dir: SpillDir,
    file: Arc<File>,
    bytes: u64,
}

impl Gzipped {
    /// How many bytes there are.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads at most `max` bytes from `from` on; none past the end.
    ///
    /// # Errors
    /// The error of the system; `TimedOut` where the disk did not answer in time.
    pub async fn read(&self, from: u64, max: usize) -> io::Result<Vec<u8>> {
        let length = self.bytes.saturating_sub(from).min(max as u64);
        let file = Arc::clone(&self.file);
        let read = move || {
            let mut bytes = vec![0; length as usize];
            file.read_exact_at(&mut bytes, from)?;
            Ok(bytes)
        };
        self.dir.read_with(Duration::ZERO, read).await
    }
}

impl Drop for Gzipped {
    fn drop(&mut self) {
        self.dir.remove_nameless(Arc::clone(&self.file));
    }
}

/// Packs what one stream has so far, with its secrets masked, into a file in `dir`. The same
/// bytes always give the same data. Takes bounded memory, and a thread for one step at a time.
///
/// # Errors
/// When there is too much of it, or a file could not be read or written.
pub async fn gzip(
    reader: &LogReader,
    stream: Stream,
    redactor: &Arc<Redactor>,
    dir: &SpillDir,
) -> Result<Gzipped, GzipError> {
    let bytes = reader.progress().total_bytes;
    if bytes > MAX_BYTES {
        return Err(GzipError::TooLarge { bytes });
    }
    let (redactor, dir_of_file) = (Arc::clone(redactor), dir.clone());
    let begin = move |log: &BlockingReader| Gzipping::begin(log, stream, redactor, &dir_of_file);
    let mut step = reader.read_apart_with(begin).await?;
    loop {
        match step {
            Step::Going(gzipping) => {
                step = reader.read_apart_with(move |log| gzipping.go_on(log)).await?;
            }
            Step::Done { file, bytes } => {
                return Ok(Gzipped { dir: dir.clone(), file: Arc::new(file), bytes });
            }
        }
    }
}

/// A stream that is packed in part.
struct Gzipping {
    encoder: GzEncoder<BufWriter<File>>,
    masker: LineMasker,
    stream: Stream,
    from: u64,
}

enum Step {
    Going(Box<Gzipping>),
    Done { file: File, bytes: u64 },
}

impl Gzipping {
    fn begin(
        log: &BlockingReader,
        stream: Stream,
        redactor: Arc<Redactor>,
        dir: &SpillDir,
    ) -> io::Result<Step> {
        let buffered = BufWriter::new(dir.create_nameless()?);
        let encoder = GzEncoder::new(buffered, Compression::default());
        let masker = LineMasker::new(redactor);
        Box::new(Self { encoder, masker, stream, from: 0 }).go_on(log)
    }

    /// Packs the next blocks. The disk has to answer once for each step, however long all of them
    /// take.
    fn go_on(mut self: Box<Self>, log: &BlockingReader) -> io::Result<Step> {
        for _ in 0..STEP_BLOCKS {
            let request = PageRequest {
                from: self.from,
                stream: Some(self.stream),
                max_bytes: BLOCK,
                max_lines: 0,
            };
            let page = log.page(&request)?;
            self.encoder.write_all(&self.masker.push(&page.bytes))?;
            self.from = page.end;
            match page.end_kind {
                PageEnd::More => {}
                PageEnd::CaughtUp | PageEnd::Complete => return self.finish(),
            }
        }
        Ok(Step::Going(self))
    }

    fn finish(mut self) -> io::Result<Step> {
        self.encoder.write_all(&self.masker.flush())?;
        let file = self.encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        let bytes = file.metadata()?.len();
        Ok(Step::Done { file, bytes })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::{LogSettings, open};

    #[tokio::test]
    async fn what_is_packed_unpacks_to_the_stream_without_its_secrets() {
        let dir = SpillDir::new(std::env::temp_dir(), Arc::default());
        let settings = LogSettings { memory_bytes: 1 << 16, spill_dir: dir.clone() };
        let (mut writer, reader) = open(&settings);
        let line = b"a line of output, hush-123\n".repeat(400_000);
        writer.append(Stream::Stdout, &line);
        writer.append(Stream::Stderr, b"not this\n");
        writer.close();
        let redactor = Arc::new(Redactor::new(&["hush-[0-9]+".to_owned()]).unwrap());
        let packed = gzip(&reader, Stream::Stdout, &redactor, &dir).await.unwrap();
        assert!(packed.total_bytes() < line.len() as u64 / 10);
        let mut data = Vec::new();
        while (data.len() as u64) < packed.total_bytes() {
            data.extend(packed.read(data.len() as u64, 1000).await.unwrap());
        }
        assert_eq!(packed.read(packed.total_bytes() + 5, 1000).await.unwrap(), b"");
        let mut unpacked = Vec::new();
        GzDecoder::new(&data[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, b"a line of output, [redacted]\n".repeat(400_000));
        let again = gzip(&reader, Stream::Stdout, &redactor, &dir).await.unwrap();
        assert_eq!(again.read(0, data.len()).await.unwrap(), data);
    }
}
