//! Pages of output, read without a parser of JSON.

use memchr::memmem;
use serde_json::json;

use super::Call;

/// A page in the view `raw`, as a structured answer has it.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    pub(crate) encoded: &'a [u8],
    /// The offset at which the page ends in the log.
    pub(crate) end: u64,
    /// `true` if nothing can follow the page.
    pub(crate) is_last: bool,
}

/// Requests a page of a log.
pub(crate) fn page_call(job: u64, offset: u64, max_bytes: u64) -> Call {
    let cursor = format!("bytes:{offset}");
    let arguments = json!({"job": job, "view": "raw", "cursor": cursor, "max_bytes": max_bytes});
    Call::new("read_output", &arguments)
}

impl<'a> Page<'a> {
    /// The page that an answer holds.
    pub(crate) fn parse(answer: &'a [u8]) -> Self {
        let digits = after(answer, br#""bytes_end":"#).iter().take_while(|b| b.is_ascii_digit());
        let end = digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
        let output = after(answer, br#""output":""#);
        let length = memchr::memchr(b'"', output).expect("an end");
        let is_last = memmem::find(answer, br#""end":"complete""#).is_some();
        Self { encoded: &output[..length], end, is_last }
    }
}

fn after<'a>(answer: &'a [u8], field: &[u8]) -> &'a [u8] {
    let at = memmem::find(answer, field);
    assert!(at.is_some(), "no page: {}", String::from_utf8_lossy(answer));
    &answer[at.unwrap_or_default() + field.len()..]
}
