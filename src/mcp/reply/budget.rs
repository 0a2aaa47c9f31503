//! The token budget of a reply, its number of lines, and fitting replies into both: by showing less
//! output, or else by cutting.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::format::{count, size, thousands};
use super::tool_reply::ToolReply;
use crate::mcp::settings::ResultFormat;
use crate::output::excerpt::Budget;
use crate::output::redaction::Redactor;

/// Bytes per two tokens: a token is estimated as two and a half bytes.
const BYTES_OF_TWO_TOKENS: u64 = 5;
/// The longest JSON escape of one byte, `\u0000`.
const WORST_ESCAPE: u64 = 6;

/// The most lines of a reply, whatever its budget: some clients show only the first 2,000.
pub(crate) const MAX_LINES: usize = 1900;

/// The size limit of a reply in its reader's context, in estimated tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenBudget {
    tokens: u64,
    origin: BudgetOrigin,
}

/// The origin of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BudgetOrigin {
    Call,
    Settings,
}

impl TokenBudget {
    /// The argument with which a call sets its own budget.
    pub(crate) const ARGUMENT: &'static str = "max_tokens";

    /// The allowed values; a verdict and a hint always fit.
    pub(crate) const BOUNDS: RangeInclusive<u64> = 500..=400_000;

    /// Returns the budget that a call asks for, if it is valid, else the configured one.
    pub(crate) fn from_call(arguments: Option<&JsonObject>, configured: u64) -> Self {
        let number = |value: &Value| match value {
            Value::String(digits) => digits.trim().parse().ok(),
            Value::Number(number) => number.as_u64(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let requested = arguments.and_then(|arguments| number(arguments.get(Self::ARGUMENT)?));
        match requested.filter(|tokens| Self::BOUNDS.contains(tokens)) {
            Some(tokens) => Self { tokens, origin: BudgetOrigin::Call },
            None => Self { tokens: configured, origin: BudgetOrigin::Settings },
        }
    }

    /// Adds room for a page of so many bytes in any encoding, unless the call set its own budget.
    fn with_page(self, page_bytes: usize) -> Self {
        match self.origin {
            BudgetOrigin::Call => self,
            BudgetOrigin::Settings => {
                let bytes = (page_bytes as u64).saturating_mul(WORST_ESCAPE);
                let tokens = bytes.saturating_mul(2).div_ceil(BYTES_OF_TWO_TOKENS);
                Self { tokens: self.tokens.saturating_add(tokens), ..self }
            }
        }
    }

    /// Restores the budget of an earlier call.
    pub(crate) const fn from_tokens(tokens: u64) -> Self {
        Self { tokens, origin: BudgetOrigin::Call }
    }

    pub(crate) const fn tokens(self) -> u64 {
        self.tokens
    }

    /// The number of bytes that the budget allows.
    pub(crate) fn bytes(self) -> usize {
        usize::try_from(self.tokens.saturating_mul(BYTES_OF_TWO_TOKENS) / 2).unwrap_or(usize::MAX)
    }
}

/// Returns how much output to try next: a little less than in proportion, so that it soon fits.
fn next_size(size: usize, limit: usize, takes: usize, bare: usize) -> usize {
    let room = limit.saturating_sub(bare) as u64;
    let taken = takes.saturating_sub(bare).max(1) as u64;
    let scaled = (size as u64).saturating_mul(room) / taken;
    usize::try_from(scaled / 16 * 15).unwrap_or(usize::MAX).min(size - size.div_ceil(16))
}

/// Divides room between outputs: small ones get all they want, the rest equal parts.
pub(crate) fn fair_shares(wants: &[usize], room: usize) -> Vec<usize> {
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

/// Returns the length of a text inside a JSON string, in bytes.
pub(super) fn escaped_len(text: &str) -> usize {
    text.bytes().map(|byte| usize::from(ESCAPED[usize::from(byte)])).sum()
}

/// The escaped length of each byte. A table, because a page has a million bytes.
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

/// The length to which texts of the structured form are cut, in bytes.
const TEXT_BYTES: usize = 120;
/// The length to which lists of numbers are cut.
const LISTED: usize = 8;
/// The field that says how many jobs are left out of `jobs`.
const LEFT_OUT: &str = "jobs_left_out";

/// Returns at most `limit` bytes of a text, cut after a whole line if there is one, with a note of
/// how much is missing.
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

/// Returns at most `limit` lines of a text, with a note of how many are missing.
pub(crate) fn trim_lines(text: &str, limit: usize) -> String {
    let lines = text.lines().count();
    if lines <= limit {
        return text.to_owned();
    }
    let kept: Vec<&str> = text.lines().take(limit.saturating_sub(1)).collect();
    let cut = thousands((lines - kept.len()) as u64);
    let most = thousands(MAX_LINES as u64);
    let mark = format!("[… {cut} lines cut: a reply has at most {most}]");
    kept.into_iter().chain([mark.as_str()]).collect::<Vec<_>>().join("\n")
}

/// Cuts the structured form until it takes at most `limit` bytes. Output goes
/// first, as a whole, so that the byte ranges stay true; then the facts; then long texts and lists;
/// then jobs.
pub(super) fn trim_fields(fields: &mut JsonObject, limit: usize) {
    let steps: [fn(&mut JsonObject); 3] = [remove_output, remove_digest, shorten_values];
    for step in steps {
        if json_size(fields) <= limit {
            return;
        }
        each_job(fields, step);
    }
    let mut left_out = 0_u64;
    while json_size(fields) > limit {
        let Some(Value::Array(jobs)) = fields.get_mut("jobs") else { return };
        // Several at a time if there are many, because measuring the size walks all fields.
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

/// Returns the size of the structured form in bytes.
pub(super) fn json_size(fields: &JsonObject) -> usize {
    let mut counted = ByteCounter(0);
    serde_json::to_writer(&mut counted, fields).map_or(usize::MAX, |()| counted.0)
}

/// A writer that only counts bytes.
struct ByteCounter(usize);

impl io::Write for ByteCounter {
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

/// Removes the facts of the output.
fn remove_digest(fields: &mut JsonObject) {
    fields.remove("digest");
}

/// Removes the output; the cursor then points to where it started.
fn remove_output(fields: &mut JsonObject) {
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

fn shorten_values(fields: &mut JsonObject) {
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

/// The estimated size of fields and hints about shown output: its position, and how to continue.
const ABOUT_OUTPUT: usize = 400;
/// The most lines about one shown output: the mark of a hidden part with its errors, and notes.
const LINES_ABOUT_OUTPUT: usize = 20;
/// The number of attempts with less and less output before a reply gets none.
const TRIES: usize = 8;

/// Fits a reply into its budget: the caller rebuilds it with less and less output until it fits.
#[derive(Debug)]
pub(crate) struct ReplyFitter {
    budget: TokenBudget,
    format: ResultFormat,
    redactor: Arc<Redactor>,
    /// The size of the reply without output.
    bare: usize,
    /// The lines of the reply without output.
    bare_lines: usize,
    /// The amount of output for the next attempt, in bytes.
    size: usize,
    /// `true` if an attempt had too many lines.
    had_excess_lines: bool,
    tries: usize,
}

impl ReplyFitter {
    /// Creates a fitter for replies that consist of `bare` and output.
    pub(crate) fn new(
        budget: TokenBudget,
        format: ResultFormat,
        redactor: Arc<Redactor>,
        bare: &ToolReply,
    ) -> Self {
        let bare_lines = bare.text_lines(format);
        let bare = bare.size(format) + ABOUT_OUTPUT;
        let size = budget.bytes().saturating_sub(bare);
        Self { budget, format, redactor, bare, bare_lines, size, had_excess_lines: false, tries: 0 }
    }

    /// Sets the size of a page in log bytes. A program that reads structured replies gets the page
    /// that it asks for.
    pub(crate) fn for_page(mut self, requested: Option<usize>, default: usize) -> Self {
        if let (Some(bytes), ResultFormat::Structured) = (requested, self.format) {
            self.budget = self.budget.with_page(bytes);
        }
        self.size = requested.unwrap_or(default);
        self
    }

    /// The amount of output for the next attempt, in bytes.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Limits the amount of output for the next attempt.
    pub(crate) fn limit_size(&mut self, bytes: usize) {
        self.size = self.size.min(bytes);
    }

    /// The lines that one shown output may have. Structured replies have no limit, because their
    /// text is the verdict alone.
    pub(crate) fn max_lines(&self) -> usize {
        self.max_lines_of(1)
    }

    /// The lines of the log to read for the next attempt, 0 for any number; `requested` is the
    /// caller's limit. The first attempt has no other limit, because a page may show many equal
    /// lines as one.
    pub(crate) fn page_lines(&self, requested: usize) -> usize {
        match (self.had_excess_lines, requested) {
            (false, requested) => requested,
            (true, 0) => self.max_lines(),
            (true, requested) => requested.min(self.max_lines()),
        }
    }

    /// The lines that so many shown outputs may have together, at least one each.
    fn max_lines_of(&self, outputs: usize) -> usize {
        match self.format {
            ResultFormat::Structured => usize::MAX,
            ResultFormat::Text | ResultFormat::Both => {
                let others = self.bare_lines + outputs * LINES_ABOUT_OUTPUT;
                MAX_LINES.saturating_sub(others).max(outputs)
            }
        }
    }

    /// The budget of one excerpt that gets all the room.
    pub(crate) fn excerpt_budget(&self) -> Budget {
        self.excerpt_budget_of(self.size, self.max_lines())
    }

    /// The budgets of several excerpts: the bytes and the lines that each of them may have, if it
    /// wants so many.
    pub(crate) fn excerpt_budgets(&self, bytes: &[usize], lines: &[usize]) -> Vec<Budget> {
        let shown = lines.iter().filter(|lines| **lines > 0).count();
        let bytes = fair_shares(bytes, self.size);
        let lines = fair_shares(lines, self.max_lines_of(shown));
        bytes.into_iter().zip(lines).map(|it| self.excerpt_budget_of(it.0, it.1)).collect()
    }

    fn excerpt_budget_of(&self, max_bytes: usize, max_lines: usize) -> Budget {
        let cost = match self.format {
            ResultFormat::Text => str::len,
            ResultFormat::Structured | ResultFormat::Both => escaped_len,
        };
        // Zero would mean any number of lines.
        Budget { max_bytes, cost, max_lines: max_lines.max(1) }
    }

    /// Masks a reply and sets its budget, whether it fits or not.
    pub(crate) fn prepare(&self, reply: ToolReply) -> ToolReply {
        reply.masked(&self.redactor).with_budget(self.budget)
    }

    /// `true` if a reply fits.
    pub(crate) fn fits(&self, reply: &ToolReply) -> bool {
        reply.fits(self.budget.bytes(), self.format)
    }

    /// Returns the masked reply if it fits, or if it already shows no output; else shrinks the size
    /// for the next attempt.
    pub(crate) fn accept(&mut self, reply: ToolReply) -> Option<ToolReply> {
        let reply = reply.masked(&self.redactor);
        if self.size == 0 || self.fits(&reply) {
            return Some(reply.with_budget(self.budget));
        }
        self.tries += 1;
        self.size = if self.tries < TRIES { self.next_size(&reply) } else { 0 };
        self.had_excess_lines |= reply.text_lines(self.format) > MAX_LINES;
        None
    }

    /// Returns how much output to try next, after a reply with too many bytes or lines. Fewer bytes
    /// are tried for fewer lines only if a limit on the lines of the page did not help.
    fn next_size(&self, reply: &ToolReply) -> usize {
        let bytes = (reply.size(self.format), self.budget.bytes(), self.bare);
        let lines = (reply.text_lines(self.format), MAX_LINES, self.bare_lines);
        let next = |(takes, limit, bare)| match takes > limit {
            true => next_size(self.size, limit, takes, bare),
            false => self.size,
        };
        let by_lines = if self.had_excess_lines { next(lines) } else { self.size };
        next(bytes).min(by_lines)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn budget(arguments: Value) -> TokenBudget {
        TokenBudget::from_call(arguments.as_object(), 8000)
    }

    #[test]
    fn a_token_stands_for_two_and_a_half_bytes() {
        assert_eq!(budget(json!({})).bytes(), 20_000);
        assert_eq!(budget(json!({"max_tokens": 501})).bytes(), 1252);
        assert_eq!(budget(json!({"max_tokens": "1000"})).bytes(), 2500);
        assert_eq!(
            budget(json!({"max_tokens": 1})).bytes(),
            20_000,
            "an invalid value is refused later"
        );
    }

    #[test]
    fn only_a_call_without_its_own_budget_gets_room_for_its_page() {
        assert!(budget(json!({})).with_page(1 << 20).bytes() >= 6 << 20);
        assert_eq!(budget(json!({"max_tokens": 1000})).with_page(1 << 20).bytes(), 2500);
    }

    #[test]
    fn small_outputs_are_shown_whole_and_the_rest_share_evenly() {
        assert_eq!(fair_shares(&[10, 5000, 20, 9000], 2030), [10, 1000, 20, 1000]);
        assert_eq!(fair_shares(&[10, 20], 1000), [10, 20]);
        assert_eq!(fair_shares(&[], 1000), Vec::<usize>::new());
        assert_eq!(fair_shares(&[7, 7], 0), [0, 0]);
    }

    proptest! {
        #[test]
        fn shares_exceed_neither_the_room_nor_the_wanted_size(
            wants in proptest::collection::vec(0..5000_usize, 0..20),
            room in 0..20_000_usize,
        ) {
            let shares = fair_shares(&wants, room);
            prop_assert!(shares.iter().sum::<usize>() <= room);
            prop_assert!(shares.iter().zip(&wants).all(|(share, want)| share <= want));
        }

        #[test]
        fn the_escaped_length_is_that_of_json(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(escaped_len(&text) + 2, json.len());
        }

        #[test]
        fn the_next_attempt_is_always_smaller(
            size in 1..1_000_000_usize,
            limit in 1..100_000_usize,
            over in 1..1_000_000_usize,
            bare in 0..50_000_usize,
        ) {
            prop_assert!(next_size(size, limit, limit + over, bare) < size);
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
    fn lines_that_are_cut_are_counted() {
        let text = "line\n".repeat(5);
        assert_eq!(trim_lines(&text, 5), text);
        assert_eq!(trim_lines(&text, 3), "line\nline\n[… 3 lines cut: a reply has at most 1,900]");
    }

    #[test]
    fn without_its_output_a_reply_says_where_reading_starts() {
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

    fn fitter(format: ResultFormat) -> ReplyFitter {
        let redactor = Arc::new(Redactor::with_known_secrets(&[]).unwrap());
        let bare = ToolReply::for_jobs(Some("verdict".to_owned()), Vec::new());
        ReplyFitter::new(TokenBudget::from_tokens(400_000), format, redactor, &bare)
    }

    fn reply_of(lines: usize) -> ToolReply {
        ToolReply::for_jobs(Some("verdict".to_owned()), Vec::new()).with_body("x\n".repeat(lines))
    }

    #[test]
    fn a_reply_with_too_many_lines_is_tried_with_fewer_lines_and_then_with_fewer_bytes() {
        for format in [ResultFormat::Text, ResultFormat::Both] {
            let mut fitter = fitter(format);
            let size = fitter.size();
            assert_eq!((fitter.page_lines(0), fitter.page_lines(7)), (0, 7));
            assert!(fitter.accept(reply_of(MAX_LINES)).is_none());
            assert_eq!((fitter.page_lines(0), fitter.page_lines(7)), (fitter.max_lines(), 7));
            assert_eq!(fitter.page_lines(MAX_LINES), fitter.max_lines());
            assert_eq!(fitter.size(), size);
            assert!(fitter.accept(reply_of(MAX_LINES)).is_none());
            assert!(fitter.size() < size);
            assert!(fitter.accept(reply_of(fitter.max_lines())).is_some());
        }
    }

    #[test]
    fn a_structured_reply_may_have_any_number_of_lines() {
        let mut fitter = fitter(ResultFormat::Structured);
        assert_eq!(fitter.max_lines(), usize::MAX);
        assert!(fitter.accept(reply_of(10 * MAX_LINES)).is_some());
    }

    #[test]
    fn several_outputs_share_the_lines() {
        let fitter = fitter(ResultFormat::Text);
        let budgets = fitter.excerpt_budgets(&[10, 500_000, 500_000], &[3, 5000, 0]);
        let lines: Vec<usize> = budgets.iter().map(|budget| budget.max_lines).collect();
        assert_eq!(lines[0], 3);
        assert!(lines[1] > MAX_LINES - 100 && lines[1] < MAX_LINES, "{lines:?}");
    }
}
