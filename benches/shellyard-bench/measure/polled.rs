//! The calls that pollers make, and what their answers must hold: every byte is compared.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::bench::{STRUCTURED, Setting};
use crate::client::{Call, HttpClient, Page, page_call};

const LARGEST_PAGE: u64 = 1 << 20;

/// The two kinds of polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// For the next page, and nothing else said.
    Default,
    /// For pages of 1 MiB in the view `raw`. Ten of them in a second are less than the job writes, so
    /// that pollers stay behind it, and read on when it ended.
    Largest,
}

/// The checked answer to a poll.
#[derive(Debug)]
pub(crate) struct Polled {
    /// The offset at which the next poll continues.
    pub(crate) end: u64,
    /// `true` if nothing can follow.
    pub(crate) is_last: bool,
}

impl Way {
    /// The name of the kind in the report.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Default => "default pages",
            Self::Largest => "1 MiB raw, all bytes each",
        }
    }

    /// The settings of the server.
    pub(crate) const fn settings(self) -> &'static [Setting<'static>] {
        match self {
            Self::Default => &[],
            Self::Largest => &[STRUCTURED],
        }
    }

    /// Starts the job that is polled.
    pub(crate) fn run(self, client: &mut HttpClient, command: &str) -> u64 {
        match self {
            Self::Default => client.run_by_text(command),
            Self::Largest => client.run(command),
        }
    }

    /// The request of the next poll.
    pub(crate) fn call(self, job: u64, offset: u64) -> Call {
        let cursor = format!("bytes:{offset}");
        match self {
            Self::Default => Call::new("read_output", &json!({"job": job, "cursor": cursor})),
            Self::Largest => page_call(job, offset, LARGEST_PAGE),
        }
    }

    /// Compares all that it brought.
    pub(crate) fn check(self, written: &Written, offset: u64, answer: &[u8]) -> Polled {
        match self {
            Self::Default => written.check_text(offset, answer),
            Self::Largest => {
                let page = Page::parse(answer);
                written.check_base64(offset, page.end, page.encoded);
                Polled { end: page.end, is_last: page.is_last }
            }
        }
    }
}

/// The text that the job writes, plain and as base64 from any of its offsets on: a comparison
/// encodes nothing.
#[derive(Debug)]
pub(crate) struct Written {
    text: Vec<u8>,
    /// Encoded from the offsets 0, 1 and 2 on: with one of them, every offset is at the start of
    /// four digits.
    from: [Vec<u8>; 3],
}

impl Written {
    pub(crate) fn new(text: Vec<u8>) -> Self {
        let from = [0, 1, 2].map(|skip| STANDARD.encode(&text[skip..]).into_bytes());
        Self { text, from }
    }

    /// Length of the text in bytes.
    pub(crate) const fn length(&self) -> u64 {
        self.text.len() as u64
    }

    /// Asserts that the lines of this answer, between the verdict and the hint, are the text from
    /// `offset` on.
    fn check_text(&self, offset: u64, answer: &[u8]) -> Polled {
        // One that took long comes as an event.
        let events = answer.split(|byte| *byte == b'\n').map(|line| line.strip_prefix(b"data:"));
        let mut messages = events.flatten().chain([answer]);
        let is_answer = |message: &Value| message.get("result").is_some();
        let answer = messages.find_map(|it| serde_json::from_slice(it).ok().filter(is_answer));
        let answer: Value = answer.expect("an answer");
        let text = answer["result"]["content"][0]["text"].as_str().expect("a text");
        let (_, rest) = text.split_once('\n').expect("a first line");
        let rest = format!("\n{rest}");
        let (lines, hint) = rest.rsplit_once("\n\u{2192} ").unwrap_or((&rest, ""));
        let lines = lines.strip_prefix('\n').map_or(String::new(), |lines| format!("{lines}\n"));
        let from = &self.text[offset as usize..];
        assert!(from.starts_with(lines.as_bytes()), "other bytes from {offset} on");
        let end = offset + lines.len() as u64;
        let is_last = hint.is_empty();
        // A page that has caught up with the job names no cursor, but a wait.
        let is_next = hint.starts_with("so far all") || hint.contains(&format!("\"bytes:{end}\""));
        assert!(is_last || is_next, "{end}: {hint}");
        Polled { end, is_last }
    }

    /// Asserts that this base64 is the text from `offset` to `end`. The last digits of a page stand
    /// for less than three bytes.
    fn check_base64(&self, offset: u64, end: u64, encoded: &[u8]) {
        let start = (offset / 3 * 4) as usize;
        let whole = ((end - offset) / 3 * 4) as usize;
        let expected = &self.from[(offset % 3) as usize][start..];
        assert!(encoded[..whole] == expected[..whole], "other bytes from {offset} on");
        let [found, wanted] = [&encoded[whole..], &expected[whole..expected.len().min(whole + 4)]];
        let rest = ((end - offset) % 3) as usize;
        assert_eq!(first_bytes(found, rest), first_bytes(wanted, rest), "the last before {end}");
    }
}

fn first_bytes(encoded: &[u8], count: usize) -> Vec<u8> {
    let mut bytes = STANDARD.decode(encoded).expect("base64");
    bytes.truncate(count);
    bytes
}
