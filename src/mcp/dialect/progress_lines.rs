//! The lines that a job writes, as progress messages while the call waits for it.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::mcp::reply::progress_line;
use crate::output::views::{self, Ansi, Fold, LongLines, ViewOptions};
use crate::output::{LogPage, PageEnd, PageRequest};
use crate::service::JobHandle;

/// The shortest time between two messages with lines: a fast command sends many lines in one.
const PAUSE: Duration = Duration::from_millis(100);
/// The most bytes of output in one message; the rest follows in the next one.
const MESSAGE_BYTES: usize = 16 * 1024;

/// Every line once, without escape codes.
const VIEW: ViewOptions =
    ViewOptions { ansi: Ansi::StripLines, fold: Fold::Off, long: LongLines::Keep };

/// The new lines of a job's output, in the order of writing. While there are none, the feed gives
/// the job's status at intervals.
pub(super) struct ProgressLines<'a> {
    job: &'a JobHandle,
    /// The time between two messages without new lines.
    status_every: Duration,
    status_at: Instant,
    /// The earliest time of the next message with lines.
    lines_at: Instant,
    /// The offset of the first byte that is in no message.
    next: u64,
    /// The bytes of the log that were read, also those of an unfinished line.
    seen: u64,
    /// The offset from which on nothing is sent.
    end: u64,
}

impl<'a> ProgressLines<'a> {
    /// Creates a feed of the first `max_bytes` bytes of the output.
    pub(super) fn new(job: &'a JobHandle, status_every: Duration, max_bytes: usize) -> Self {
        let now = Instant::now();
        Self {
            job,
            status_every,
            status_at: now + status_every,
            // A command that is over at once needs no progress.
            lines_at: now + PAUSE,
            next: 0,
            seen: 0,
            end: max_bytes as u64,
        }
    }

    /// Waits for new lines, or until it is time for a status. Dropping the future loses nothing.
    pub(super) async fn next_message(&mut self) -> String {
        loop {
            let has_output = tokio::select! {
                () = wait_for_output(self.job, self.seen, self.lines_at), if self.next < self.end => true,
                () = sleep_until(self.status_at) => false,
            };
            let lines = if has_output { self.read_lines(LinePart::Whole).await } else { None };
            if lines.is_some() || !has_output {
                let now = Instant::now();
                self.status_at = now + self.status_every;
                self.lines_at = now + PAUSE;
            }
            match lines {
                Some(lines) => return lines,
                None if !has_output => return progress_line([self.job]).await,
                None => {}
            }
        }
    }

    /// Returns the lines that came after the last message, if there was one: a command that was
    /// over before the first message needs no progress.
    pub(super) async fn last_lines(&mut self) -> Option<String> {
        if self.next == 0 || self.next >= self.end {
            return None;
        }
        self.read_lines(LinePart::Any).await
    }

    /// Reads the next lines; `None` if there are none, or the log cannot be read.
    async fn read_lines(&mut self, part: LinePart) -> Option<String> {
        let max_bytes =
            MESSAGE_BYTES.min(usize::try_from(self.end - self.next).unwrap_or(usize::MAX));
        let request =
            PageRequest { from: self.next, to: u64::MAX, stream: None, max_bytes, max_lines: 0 };
        let read = self.job.output().read_with(move |log| log.read_page(&request)).await;
        let Ok(page) = read else {
            // The reply will say why; no more lines until then.
            self.end = self.next;
            return None;
        };
        self.seen = page.total_bytes;
        if page.end_kind == PageEnd::More {
            // What is left over is read without waiting for more.
            self.seen = page.end;
        }
        let length = measure_message(&page, part);
        self.next = page.end - (page.bytes.len() - length) as u64;
        let bytes = &page.bytes[..length];
        if bytes.is_empty() || views::is_binary(bytes) {
            return None;
        }
        let mut text = views::render_text(bytes, VIEW).text;
        text.truncate(text.trim_end_matches(['\n', '\r']).len());
        Some(text)
    }
}

/// The part of an unfinished line that a message takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinePart {
    /// Only whole lines.
    Whole,
    /// Also an unfinished line.
    Any,
}

/// Returns how many bytes of a page go into a message: whole lines, or part of a line that is
/// longer than a message.
fn measure_message(page: &LogPage, part: LinePart) -> usize {
    let all = page.bytes.len();
    match page.end_kind {
        PageEnd::More | PageEnd::Complete => all,
        PageEnd::CaughtUp if part == LinePart::Any => all,
        PageEnd::CaughtUp => {
            page.bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
        }
    }
}

/// Waits until the log of a job has more than `seen` bytes, but at least until `from`.
async fn wait_for_output(job: &JobHandle, seen: u64, from: Instant) {
    job.output().wait_past(seen).await;
    if job.output().progress().total_bytes <= seen {
        // The log is closed: the end of the job is what comes next.
        return std::future::pending().await;
    }
    sleep_until(from).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: &[u8], end_kind: PageEnd) -> LogPage {
        let end = bytes.len() as u64;
        LogPage { bytes: bytes.to_vec(), start: 0, end, end_kind, gap_bytes: 0, total_bytes: end }
    }

    #[test]
    fn a_message_has_whole_lines_unless_one_is_too_long() {
        for (bytes, end_kind, part, expected) in [
            ("one\ntwo\nthr", PageEnd::CaughtUp, LinePart::Whole, 8),
            ("one\ntwo\nthr", PageEnd::CaughtUp, LinePart::Any, 11),
            ("thr", PageEnd::CaughtUp, LinePart::Whole, 0),
            ("very long", PageEnd::More, LinePart::Whole, 9),
            ("last", PageEnd::Complete, LinePart::Whole, 4),
        ] {
            let length = measure_message(&page(bytes.as_bytes(), end_kind), part);
            assert_eq!(length, expected, "{bytes:?} {end_kind:?} {part:?}");
        }
    }
}
