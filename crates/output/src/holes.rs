//! Ranges of a log whose bytes cannot be read, with the reason.

use std::io;
use std::ops::Range;

use crate::Stream;
use crate::index::FileCut;
use crate::reader::{BlockingReader, LogReader};

/// A range of positions without readable bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// The positions: of the log, or of one stream.
    pub range: Range<u64>,
    /// The reason why the bytes are missing.
    pub why: HoleReason,
}

/// The reason why stored bytes cannot be read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoleReason {
    /// The log keeps only its beginning and its end.
    Truncated,
    /// The file does not have the bytes: another program cut it, or the server crashed before it
    /// wrote them.
    Cut,
}

impl HoleReason {
    /// The stable word of the reason.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Cut => "cut",
        }
    }
}

impl LogReader {
    /// Lists the holes in a range of the log or of one stream, in order. There are few: a log has at
    /// most one between each two of its segments, and one inside each.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub async fn find_holes(
        &self,
        stream: Option<Stream>,
        range: Range<u64>,
    ) -> io::Result<Vec<Hole>> {
        self.read_with(move |log| log.freeze().find_holes(stream, range)).await
    }
}

impl BlockingReader {
    /// Lists the parts of a range that are holes. Of one stream, range and holes are positions within
    /// the stream.
    pub(crate) fn find_holes(
        &self,
        stream: Option<Stream>,
        range: Range<u64>,
    ) -> io::Result<Vec<Hole>> {
        let cuts = self.file_cuts();
        let mut holes = Vec::new();
        let mut from = range.start;
        while let Some(found) = self.first_hole(stream, from..range.end)? {
            let part = found.start.max(from)..found.end.min(range.end);
            from = part.end;
            let is_cut = cuts.iter().any(|cut| overlaps(cut, stream, &found));
            let why = if is_cut { HoleReason::Cut } else { HoleReason::Truncated };
            holes.push(Hole { range: part, why });
        }
        Ok(holes)
    }
}

/// `true` if a hole of the log, or of one stream, has bytes of a cut.
fn overlaps(cut: &FileCut, stream: Option<Stream>, hole: &Range<u64>) -> bool {
    // The number of a stream's bytes is known at the end of a cut alone.
    let end = match stream {
        None => return cut.from < hole.end && hole.start < cut.to.offset,
        Some(Stream::Stdout) => cut.to.offset - cut.to.stderr_bytes,
        Some(Stream::Stderr) => cut.to.stderr_bytes,
    };
    hole.start < end && end <= hole.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeepOutput, LogBounds, LogStorage, TenantQuota, open_bounded_log};

    #[tokio::test]
    async fn holes_are_listed_with_their_positions_in_the_log_and_in_a_stream() {
        let folder = tempfile::tempdir().unwrap();
        let settings =
            LogStorage { memory_bytes: 1 << 16, spill_dir: folder.path().to_owned().into() };
        let bounds = LogBounds { keep: KeepOutput::Ends(40), quota: TenantQuota::unlimited() };
        let (mut writer, log) = open_bounded_log(&settings, bounds);
        for number in 0..20 {
            let stream = if number % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
            writer.append(stream, b"ten bytes\n");
        }
        let total = log.progress().total_bytes;
        let all = log.find_holes(None, 0..total).await.unwrap();
        let [hole] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((hole.range.start, hole.why), (20, HoleReason::Truncated));
        let missing = hole.range.end - hole.range.start;
        assert_eq!(missing, log.progress().removed_bytes);
        let inside = log.find_holes(None, 30..40).await.unwrap();
        assert_eq!(inside, [Hole { range: 30..40, why: HoleReason::Truncated }]);
        assert_eq!(log.find_holes(None, 0..20).await.unwrap(), []);
        let mut both = 0;
        for stream in [Stream::Stdout, Stream::Stderr] {
            let holes = log.find_holes(Some(stream), 0..100).await.unwrap();
            assert_eq!(holes.len(), 1, "{holes:?}");
            assert_eq!(holes[0].range.start, 10);
            both += holes[0].range.end - holes[0].range.start;
        }
        assert_eq!(both, missing);
    }

    #[tokio::test]
    async fn bytes_that_are_not_in_their_file_are_another_kind_of_hole() {
        let folder = tempfile::tempdir().unwrap();
        let settings = LogStorage { memory_bytes: 0, spill_dir: folder.path().to_owned().into() };
        let (mut writer, log) = crate::open_log(&settings);
        writer.append(Stream::Stdout, &[b'x'; 100]);
        let file = std::fs::read_dir(folder.path()).unwrap().flatten().find_map(|entry| {
            let inside = std::fs::read_dir(entry.path()).ok()?.flatten().next()?;
            Some(inside.path())
        });
        let file = std::fs::File::options().write(true).open(file.unwrap()).unwrap();
        file.set_len(30).unwrap();
        let holes = log.find_holes(None, 0..100).await.unwrap();
        assert_eq!(holes, [Hole { range: 30..100, why: HoleReason::Cut }]);
        let stdout = Some(Stream::Stdout);
        assert_eq!(log.find_holes(stdout, 0..100).await.unwrap(), holes, "all bytes are stdout");
        let inside = log.find_holes(stdout, 40..50).await.unwrap();
        assert_eq!(inside, [Hole { range: 40..50, why: HoleReason::Cut }]);
        writer.append(Stream::Stderr, b"later");
        assert_eq!(log.find_holes(stdout, 0..100).await.unwrap(), holes, "both streams");
        assert_eq!(log.find_holes(Some(Stream::Stderr), 0..5).await.unwrap(), []);
    }
}
