//! Waiting for a line of output that matches.

use std::io;

use crate::output::pattern::Pattern;
use crate::output::{LogReader, PageEnd, PageRequest, view};

/// How much output is looked at in one step.
const STEP_BYTES: usize = 64 * 1024;

/// Returns the number of the first line from `from` on that matches, as soon as it is
/// written; `None` when the log is closed without one. Lines are matched as they are shown,
/// an unfinished last one too: a prompt has no newline. Cancel-safe.
pub(super) async fn first_match(
    log: &LogReader,
    mut from: u64,
    pattern: &Pattern,
) -> io::Result<Option<u64>> {
    loop {
        let request = PageRequest { from, stream: None, max_bytes: STEP_BYTES, max_lines: 0 };
        let page = log.page(&request)?;
        if let Some(index) = matching_line(&page.bytes, pattern) {
            return Ok(Some(log.line_at(from)? + index));
        }
        match page.end_kind {
            PageEnd::More => {
                from = page.end;
                // A long log must not keep others waiting.
                tokio::task::yield_now().await;
            }
            PageEnd::Complete => return Ok(None),
            PageEnd::CaughtUp => {
                // The unfinished last line is looked at again when more of it is there.
                let unfinished = page.bytes.rsplit(|byte| *byte == b'\n').next();
                from = page.end - unfinished.map_or(0, |line| line.len() as u64);
                log.wait_past(page.total_bytes).await;
            }
        }
    }
}

fn matching_line(bytes: &[u8], pattern: &Pattern) -> Option<u64> {
    let options = view::ViewOptions {
        ansi: view::Ansi::StripLines,
        fold: view::Fold::Off,
        long: view::Long::Keep,
    };
    let shown = view::text(bytes, options);
    let index = shown.text.lines().position(|line| pattern.is_match(line.as_bytes()))?;
    Some(index as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{LogSettings, LogWriter, open};
    use crate::spec::Stream;

    fn log() -> (LogWriter, LogReader) {
        open(&LogSettings { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir() })
    }

    #[tokio::test]
    async fn a_line_is_found_when_its_last_part_arrives() {
        let (mut writer, reader) = log();
        writer.append(Stream::Stdout, b"one\nReady on ");
        let pattern = Pattern::new("Ready on port").unwrap();
        let waiting = tokio::spawn(async move { first_match(&reader, 0, &pattern).await.unwrap() });
        tokio::task::yield_now().await;
        writer.append(Stream::Stdout, b"port 80");
        assert_eq!(waiting.await.unwrap(), Some(2));
    }

    #[tokio::test]
    async fn what_was_written_before_does_not_count() {
        let (mut writer, reader) = log();
        let seen = writer.append(Stream::Stdout, b"ready\n").total_bytes;
        writer.close();
        let pattern = Pattern::new("ready").unwrap();
        assert_eq!(first_match(&reader, seen, &pattern).await.unwrap(), None);
        assert_eq!(first_match(&reader, 0, &pattern).await.unwrap(), Some(1));
    }

    #[tokio::test]
    async fn a_match_far_inside_a_long_line_counts() {
        let (mut writer, reader) = log();
        writer.append(Stream::Stdout, format!("{}ready\n", "x".repeat(5000)).as_bytes());
        let pattern = Pattern::new("ready$").unwrap();
        assert_eq!(first_match(&reader, 0, &pattern).await.unwrap(), Some(1));
    }

    #[tokio::test]
    async fn colours_do_not_hide_a_match() {
        let (mut writer, reader) = log();
        writer.append(Stream::Stdout, b"a\nb\n\x1b[32mserver\x1b[0m up\n");
        let pattern = Pattern::new("^server up$").unwrap();
        assert_eq!(first_match(&reader, 0, &pattern).await.unwrap(), Some(3));
    }
}
