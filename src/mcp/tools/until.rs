//! Waiting for a line of output that matches.

use std::io;
use std::ops::Range;

use crate::output::pattern::Pattern;
use crate::output::{BlockingReader, LogReader, PageEnd, PageRequest, view};

/// How much output is looked at in one step.
const STEP_BYTES: usize = 64 * 1024;

/// A line that matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Matched {
    /// Its number, from 1.
    pub(super) line: u64,
    /// Where it ends, as far as it is written.
    pub(super) end: u64,
}

/// Returns the first line that matches and has bytes from `from` on, as soon as it is written;
/// `None` when the log is closed without one. Lines are matched as they are shown, and whole, also
/// where `from` is inside of one; an unfinished last one too: a prompt has no newline. Cancel-safe.
pub(super) async fn first_match(
    log: &LogReader,
    from: u64,
    pattern: &Pattern,
) -> io::Result<Option<Matched>> {
    let mut at = log.read_with(move |log| line_start(log, from)).await?;
    loop {
        let request = PageRequest { from: at, stream: None, max_bytes: STEP_BYTES, max_lines: 0 };
        let page = log.read_with(move |log| log.page(&request)).await?;
        let known = usize::try_from(from.saturating_sub(at)).unwrap_or(usize::MAX);
        if let Some((index, end)) = matching_line(&page.bytes, known, pattern) {
            let end = at.saturating_add(end as u64).min(page.end);
            let line = log.read_with(move |log| log.line_at(at)).await? + index;
            return Ok(Some(Matched { line, end }));
        }
        match page.end_kind {
            PageEnd::More => {
                at = page.end;
                // A long log must not keep others waiting.
                tokio::task::yield_now().await;
            }
            PageEnd::Complete => return Ok(None),
            PageEnd::CaughtUp => {
                // The unfinished last line is looked at again when more of it is there.
                let unfinished = page.bytes.rsplit(|byte| *byte == b'\n').next();
                at = page.end - unfinished.map_or(0, |line| line.len() as u64);
                log.wait_past(page.total_bytes).await;
            }
        }
    }
}

/// The start of the line that the byte at `from` belongs to, or will belong to; no further away
/// than one step.
fn line_start(log: &BlockingReader, from: u64) -> io::Result<u64> {
    let start = log.offset_of_line(log.line_at(from)?)?.unwrap_or(from);
    Ok(start.clamp(from.saturating_sub(STEP_BYTES as u64), from))
}

/// The index of the first line that matches and has bytes after those that are known, and where in
/// the bytes it ends.
fn matching_line(bytes: &[u8], known: usize, pattern: &Pattern) -> Option<(u64, usize)> {
    let options = view::ViewOptions {
        ansi: view::Ansi::StripLines,
        fold: view::Fold::Off,
        long: view::Long::Keep,
    };
    let shown = view::text(bytes, options);
    let places = bytes.split(|byte| *byte == b'\n').scan(0, |next, line| {
        let place = *next..*next + line.len();
        *next = place.end + 1;
        Some(place)
    });
    // Of a line that was seen up to its end, the newline alone is no news.
    let is_news = |place: &Range<usize>| place.start >= known || place.end > known;
    let mut lines = shown.text.lines().zip(places).zip(0..);
    lines.find_map(|((line, place), index)| {
        (is_news(&place) && pattern.is_match(line.as_bytes())).then_some((index, place.end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{LogSettings, LogWriter, open};
    use crate::spec::Stream;

    fn log() -> (LogWriter, LogReader) {
        open(&LogSettings { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() })
    }

    async fn line_of(log: &LogReader, from: u64, pattern: &Pattern) -> Option<u64> {
        first_match(log, from, pattern).await.unwrap().map(|matched| matched.line)
    }

    #[tokio::test]
    async fn a_line_is_found_when_its_last_part_arrives() {
        let (mut writer, reader) = log();
        writer.append(Stream::Stdout, b"one\nReady on ");
        let pattern = Pattern::new("Ready on port").unwrap();
        let waiting = tokio::spawn(async move { first_match(&reader, 0, &pattern).await.unwrap() });
        tokio::task::yield_now().await;
        writer.append(Stream::Stdout, b"port 80");
        assert_eq!(waiting.await.unwrap(), Some(Matched { line: 2, end: 20 }));
    }

    #[tokio::test]
    async fn what_was_written_before_does_not_count() {
        let (mut writer, reader) = log();
        let seen = writer.append(Stream::Stdout, b"ready\n").total_bytes;
        writer.close();
        let pattern = Pattern::new("ready").unwrap();
        assert_eq!(first_match(&reader, seen, &pattern).await.unwrap(), None);
        assert_eq!(line_of(&reader, 0, &pattern).await, Some(1));
    }

    #[tokio::test]
    async fn a_line_that_was_seen_in_part_counts_once_more_of_it_is_there() {
        let (mut writer, reader) = log();
        let seen = writer.append(Stream::Stdout, b"one\nReady? ").total_bytes;
        let pattern = Pattern::new("^Ready").unwrap();
        let late = reader.clone();
        let waiting = tokio::spawn(async move { line_of(&late, seen, &pattern).await });
        tokio::task::yield_now().await;
        // That it ends is no news.
        writer.append(Stream::Stdout, b"\nmore\nReady again\n");
        assert_eq!(waiting.await.unwrap(), Some(4));
        let pattern = Pattern::new("gain$").unwrap();
        let inside = reader.progress().total_bytes - 3;
        assert_eq!(line_of(&reader, inside, &pattern).await, Some(4));
        writer.append(Stream::Stdout, b"\n");
        let end = reader.progress().total_bytes - 1;
        assert_eq!(line_of(&reader, end, &Pattern::new("^$").unwrap()).await, Some(5));
    }

    #[tokio::test]
    async fn a_match_far_inside_a_long_line_counts() {
        let (mut writer, reader) = log();
        writer.append(Stream::Stdout, format!("{}ready\n", "x".repeat(5000)).as_bytes());
        let pattern = Pattern::new("ready$").unwrap();
        assert_eq!(line_of(&reader, 0, &pattern).await, Some(1));
    }

    #[tokio::test]
    async fn colours_do_not_hide_a_match() {
        let (mut writer, reader) = log();
        writer.append(Stream::Stdout, b"a\nb\n\x1b[32mserver\x1b[0m up\n");
        let pattern = Pattern::new("^server up$").unwrap();
        assert_eq!(line_of(&reader, 0, &pattern).await, Some(3));
    }
}
