//! The token budget of a reply, and the cutting of replies that exceed it.

use std::io;
use std::ops::RangeInclusive;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::format::{count, size};

/// A token stands for two and a half bytes.
const BYTES_OF_TWO_TOKENS: u64 = 5;
/// The most that JSON makes of one byte: `\u0000`.
const WORST_ESCAPE: u64 = 6;

/// How much an answer may take of its reader's context, estimated in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenBudget {
    tokens: u64,
    origin: Origin,
}

/// Who set a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Call,
    Settings,
}

impl TokenBudget {
    /// The argument by which a call asks for another budget than the configured one.
    pub(crate) const ARGUMENT: &'static str = "max_tokens";

    /// What it may ask for: a verdict and a hint always fit.
    pub(crate) const BOUNDS: RangeInclusive<u64> = 500..=400_000;

    /// What a call asks for, if that can be had, else what is configured.
    pub(crate) fn asked(arguments: Option<&JsonObject>, configured: u64) -> Self {
        let number = |value: &Value| match value {
            Value::String(digits) => digits.trim().parse().ok(),
            Value::Number(number) => number.as_u64(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let asked = arguments.and_then(|arguments| number(arguments.get(Self::ARGUMENT)?));
        match asked.filter(|tokens| Self::BOUNDS.contains(tokens)) {
            Some(tokens) => Self { tokens, origin: Origin::Call },
            None => Self { tokens: configured, origin: Origin::Settings },
        }
    }

    /// One that also holds a page of so many bytes in any form, unless the call set its own.
    pub(crate) fn holding(self, page_bytes: usize) -> Self {
        match self.origin {
            Origin::Call => self,
            Origin::Settings => {
                let bytes = (page_bytes as u64).saturating_mul(WORST_ESCAPE);
                let tokens = bytes.saturating_mul(2).div_ceil(BYTES_OF_TWO_TOKENS);
                Self { tokens: self.tokens.saturating_add(tokens), ..self }
            }
        }
    }

    /// One that a call was given earlier.
    pub(crate) const fn given(tokens: u64) -> Self {
        Self { tokens, origin: Origin::Call }
    }

    /// Its size in tokens.
    pub(crate) const fn tokens(self) -> u64 {
        self.tokens
    }

    /// The bytes that it stands for.
    pub(crate) fn bytes(self) -> usize {
        usize::try_from(self.tokens.saturating_mul(BYTES_OF_TWO_TOKENS) / 2).unwrap_or(usize::MAX)
    }
}

/// How much output to try next: a little less than in proportion, so that it soon fits.
pub(super) fn less(size: usize, limit: usize, takes: usize, bare: usize) -> usize {
    let room = limit.saturating_sub(bare) as u64;
    let taken = takes.saturating_sub(bare).max(1) as u64;
    let scaled = (size as u64).saturating_mul(room) / taken;
    usize::try_from(scaled / 16 * 15).unwrap_or(usize::MAX).min(size - size.div_ceil(16))
}

/// How to share room between outputs that want so much: small ones get all, the rest equal parts.
pub(crate) fn shares(wants: &[usize], room: usize) -> Vec<usize> {
    let mut by_size: Vec<usize> = (0..wants.len()).collect();
    by_size.sort_unstable_by_key(|index| wants[*index]);
    let mut shares = vec![0; wants.len()];
    let mut left = room;
    for (done, index) in by_size.into_iter().enumerate() {
        shares[index] = wants[index].min(left / (wants.len() - done));
        left -= shares[index];
    }
    shares
}

/// The bytes of a text inside a JSON string.
pub(super) fn escaped_len(text: &str) -> usize {
    text.bytes().map(|byte| usize::from(ESCAPED[usize::from(byte)])).sum()
}

/// What each byte takes there. Looked up: a page has a million of them.
static ESCAPED: [u8; 256] = {
    let mut escaped = [1; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escaped[byte] = match byte as u8 {
            b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
            _ => 6,
        };
        byte += 1;
    }
    escaped[b'"' as usize] = 2;
    escaped[b'\\' as usize] = 2;
    escaped
};

/// Texts of the structured form are cut to so many bytes.
const TEXT_BYTES: usize = 120;
/// Lists of numbers are cut to so many.
const LISTED: usize = 8;
/// The field that says how many jobs are left out of `jobs`.
const LEFT_OUT: &str = "jobs_left_out";

/// At most `limit` bytes of a text, cut after a whole line where there is one, and how much is
/// missing.
pub(super) fn trim_text(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mark = |kept: usize| {
        let cut = size((text.len() - kept) as u64);
        format!("\n[… {cut} cut to keep the reply in its token budget]")
    };
    let room = limit.saturating_sub(mark(0).len());
    let end = text.floor_char_boundary(room);
    let end = text[..end].rfind('\n').unwrap_or(end);
    let whole = format!("{}{}", &text[..end], mark(end));
    whole[..whole.floor_char_boundary(limit)].to_owned()
}

/// Cuts the structured form until it takes at most `limit` bytes. How tools ended goes first; then
/// output, as a whole, so that the bytes it stands for stay true; then the errors that were hidden
/// in it; then long texts and lists; then jobs.
pub(super) fn trim_fields(fields: &mut JsonObject, limit: usize) {
    let steps: [fn(&mut JsonObject); 4] =
        [without_endings, without_output, without_hidden_errors, shortened];
    for step in steps {
        if json_size(fields) <= limit {
            return;
        }
        each_job(fields, step);
    }
    let mut left_out = 0_u64;
    while json_size(fields) > limit {
        let Some(Value::Array(jobs)) = fields.get_mut("jobs") else { return };
        // Some at a time where there are many: each look at the size costs a walk.
        let fewer = jobs.len() - jobs.len().div_ceil(8);
        left_out += (jobs.len() - fewer) as u64;
        if fewer == jobs.len() {
            return;
        }
        jobs.truncate(fewer);
        fields.insert(LEFT_OUT.to_owned(), left_out.into());
        let hint = format!("{} left out: ask about fewer", count(left_out, "job is", "jobs are"));
        fields.insert("hint".to_owned(), hint.into());
    }
}

/// The bytes of the structured form.
pub(super) fn json_size(fields: &JsonObject) -> usize {
    let mut counted = Counted(0);
    serde_json::to_writer(&mut counted, fields).map_or(usize::MAX, |()| counted.0)
}

/// Counts what is written, and keeps nothing of it.
struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn each_job(fields: &mut JsonObject, step: fn(&mut JsonObject)) {
    if let Some(Value::Array(jobs)) = fields.get_mut("jobs") {
        jobs.iter_mut().filter_map(Value::as_object_mut).for_each(step);
    }
    step(fields);
}

fn without_endings(fields: &mut JsonObject) {
    if let Some(Value::Object(digest)) = fields.get_mut("digest") {
        digest.remove("endings");
    }
}

/// Their number stays.
fn without_hidden_errors(fields: &mut JsonObject) {
    fields.remove("hidden_errors");
}

/// Takes output out: reading starts again where it would have started.
fn without_output(fields: &mut JsonObject) {
    let shown = ["output", "stdout", "stderr"].into_iter().find(|name| fields.contains_key(*name));
    let (Some(shown), Some(start)) = (shown, fields.get("bytes_start").cloned()) else { return };
    for name in ["tail", "tail_bytes_start"] {
        fields.remove(name);
    }
    let cursor = format!("bytes:{start}");
    for (name, value) in [
        (shown, json!("")),
        ("bytes_end", start),
        ("next_cursor", json!(cursor)),
        ("end", json!("more")),
        ("truncated", json!(true)),
    ] {
        fields.insert(name.to_owned(), value);
    }
}

fn shortened(fields: &mut JsonObject) {
    let mut is_cut = false;
    for value in fields.values_mut() {
        match value {
            Value::String(text) if text.len() > TEXT_BYTES => {
                let kept = text.floor_char_boundary(TEXT_BYTES);
                *text = format!("{}… [+{}]", &text[..kept], size((text.len() - kept) as u64));
            }
            Value::Array(items) if items.len() > LISTED && items.iter().all(Value::is_number) => {
                items.truncate(LISTED);
                is_cut = true;
            }
            Value::String(_)
            | Value::Array(_)
            | Value::Object(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_) => {}
        }
    }
    if is_cut {
        fields.insert("truncated".to_owned(), true.into());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn asked(arguments: Value) -> TokenBudget {
        TokenBudget::asked(arguments.as_object(), 8000)
    }

    #[test]
    fn a_token_stands_for_two_and_a_half_bytes() {
        assert_eq!(asked(json!({})).bytes(), 20_000);
        assert_eq!(asked(json!({"max_tokens": 501})).bytes(), 1252);
        assert_eq!(asked(json!({"max_tokens": "1000"})).bytes(), 2500);
        assert_eq!(asked(json!({"max_tokens": 1})).bytes(), 20_000, "refused later");
    }

    #[test]
    fn only_a_call_that_sets_no_budget_may_take_more_for_its_page() {
        assert!(asked(json!({})).holding(1 << 20).bytes() >= 6 << 20);
        assert_eq!(asked(json!({"max_tokens": 1000})).holding(1 << 20).bytes(), 2500);
    }

    #[test]
    fn small_outputs_are_shown_whole_and_the_rest_share_evenly() {
        assert_eq!(shares(&[10, 5000, 20, 9000], 2030), [10, 1000, 20, 1000]);
        assert_eq!(shares(&[10, 20], 1000), [10, 20]);
        assert_eq!(shares(&[], 1000), Vec::<usize>::new());
        assert_eq!(shares(&[7, 7], 0), [0, 0]);
    }

    proptest! {
        #[test]
        fn shares_are_within_the_room_and_within_what_is_wanted(
            wants in proptest::collection::vec(0..5000_usize, 0..20),
            room in 0..20_000_usize,
        ) {
            let shares = shares(&wants, room);
            prop_assert!(shares.iter().sum::<usize>() <= room);
            prop_assert!(shares.iter().zip(&wants).all(|(share, want)| share <= want));
        }

        #[test]
        fn the_escaped_length_is_that_of_json(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(escaped_len(&text) + 2, json.len());
        }

        #[test]
        fn the_next_try_is_always_smaller(
            size in 1..1_000_000_usize,
            limit in 1..100_000_usize,
            over in 1..1_000_000_usize,
            bare in 0..50_000_usize,
        ) {
            prop_assert!(less(size, limit, limit + over, bare) < size);
        }
    }

    fn object(value: Value) -> JsonObject {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_text_is_cut_after_a_whole_line_and_says_how_much_is_missing() {
        let text = "line\n".repeat(100);
        let cut = trim_text(&text, 100);
        assert!(cut.len() <= 100 && cut.starts_with("line\nline"), "{cut}");
        assert!(
            cut.ends_with("line\n[… 461 bytes cut to keep the reply in its token budget]"),
            "{cut}"
        );
        assert_eq!(trim_text("short", 5), "short");
    }

    #[test]
    fn without_its_output_an_answer_says_where_reading_starts() {
        let mut fields = object(json!({
            "job": 1, "output": "x".repeat(500), "tail": "y", "tail_bytes_start": 600,
            "bytes_start": 7, "bytes_end": 507, "end": "complete",
        }));
        trim_fields(&mut fields, 200);
        assert_eq!(
            Value::Object(fields),
            json!({
                "job": 1, "output": "", "bytes_start": 7, "bytes_end": 7, "end": "more",
                "next_cursor": "bytes:7", "truncated": true,
            })
        );
    }

    #[test]
    fn jobs_that_have_no_room_are_counted() {
        let job = json!({"job": 1, "command": "x".repeat(5000), "background_pids": vec![1; 50]});
        let mut fields = object(json!({"jobs": vec![job; 100]}));
        trim_fields(&mut fields, 3000);
        assert!(json_size(&fields) <= 3000);
        let shown = fields["jobs"].as_array().unwrap().len() as u64;
        assert!(shown > 3 && fields["jobs_left_out"] == 100 - shown, "{shown}");
        assert_eq!(fields["jobs"][0]["background_pids"].as_array().unwrap().len(), 8);
    }

    proptest! {
        #[test]
        fn any_text_is_within_its_limit(text in any::<String>(), limit in 0..200_usize) {
            prop_assert!(trim_text(&text, limit).len() <= limit);
        }
    }
}
