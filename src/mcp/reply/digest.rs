//! The error and warning summary of a log, as text and as fields.

use serde_json::{Map, Value, json};

use super::format::count;
use crate::output::digest::{
    Digest, DigestLines, LineInContext, NumberedLine, ToolCounts, ToolSummary, ToolSummaryLine,
};

/// The longest one-line form, in bytes.
const SHORT_BYTES: usize = 600;
/// The longest text of an ending in the text form and in the one-line form, in bytes.
const ENDING_BYTES: usize = 320;
const SHORT_ENDING_BYTES: usize = 200;
/// The most names of failed tests in the text form and in the one-line form.
const NAMES: usize = 10;
const SHORT_NAMES: usize = 3;

/// Renders a digest: endings first, then counts, then the first and the last error.
pub(super) fn render(digest: &Digest, detail: DigestDetail) -> String {
    let left_out = digest.tool_summaries.len().saturating_sub(detail.endings);
    let endings = digest.tool_summaries.iter().skip(left_out).map(|line| {
        let names = detail.names.min(NAMES);
        let text = cut(ending_text(&line.summary, names), detail.ending_bytes.min(ENDING_BYTES));
        format!("{text} (line {})", line.line)
    });
    let errors = tally(&digest.errors, ("error", "errors"), detail);
    let warnings = tally(&digest.warnings, ("warning", "warnings"), detail);
    let first = digest.first_error.iter().take(detail.errors);
    let first = first.flat_map(|error| with_context("first error:", error, detail));
    let is_separate =
        |last: &&LineInContext| detail.errors > 1 && !is_already_shown(last, digest, detail);
    let last = digest.last_error.iter().filter(is_separate);
    let last = last.flat_map(|error| with_context("last error:", error, detail));
    let lines = endings.chain([format!("{errors}; {warnings}")]).chain(first).chain(last);
    lines.map(|line| line + "\n").collect()
}

/// Returns the most detailed text that fits.
#[cfg(test)]
pub(super) fn text(digest: &Digest, max_bytes: usize) -> String {
    let texts = DETAILS.into_iter().map(|detail| render(digest, detail));
    texts.into_iter().find(|text| text.len() <= max_bytes).unwrap_or_default()
}

/// `true` if the lines after the first error already show the last one.
fn is_already_shown(last: &LineInContext, digest: &Digest, detail: DigestDetail) -> bool {
    let after = digest.first_error.iter().flat_map(|first| first.after.iter().take(detail.around));
    after.into_iter().any(|line| *line == last.line)
}

/// Formats counts, as `75 errors: lines 22, 31, 40, 52, 60 … 1030, 1031`.
fn tally(tally: &DigestLines, (one, many): (&str, &str), detail: DigestDetail) -> String {
    let counted = count(tally.count, one, many);
    if tally.count == 0 {
        return format!("no {many}");
    }
    let (first, last) = both_ends(&tally.numbers, detail.numbers);
    if first.is_empty() {
        return counted;
    }
    let listed = (first.len() + last.len()) as u64;
    let gap = if tally.count > listed { " … " } else { ", " };
    let join = |part: &[u64]| part.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let parts: Vec<String> =
        [first, last].into_iter().filter(|part| !part.is_empty()).map(join).collect();
    let word = if tally.count == 1 { "line" } else { "lines" };
    format!("{counted}: {word} {}", parts.join(gap))
}

/// Returns the first `each` and the last `each` elements.
pub(super) fn both_ends<T>(all: &[T], each: usize) -> (&[T], &[T]) {
    if all.len() <= each * 2 {
        return all.split_at(all.len().div_ceil(2));
    }
    (&all[..each], &all[all.len() - each..])
}

/// Returns a heading, and the line with its neighbours in the format of a search.
fn with_context(heading: &str, error: &LineInContext, detail: DigestDetail) -> Vec<String> {
    let numbered = |mark: char| {
        move |line: &NumberedLine| {
            let text = cut(line.text.clone(), detail.text_bytes);
            format!("{}{mark} {text}", line.line).trim_end().to_owned()
        }
    };
    let left_out = error.before.len().saturating_sub(detail.around);
    let mut lines = vec![heading.to_owned()];
    lines.extend(error.before.iter().skip(left_out).map(numbered('-')));
    lines.push(numbered(':')(&error.line));
    lines.extend(error.after.iter().take(detail.around).map(numbered('-')));
    lines
}

/// Formats an ending, as `cargo test: 37 passed, 1 failed: tests::a`.
fn ending_text(ending: &ToolSummary, names: usize) -> String {
    let counts = count_texts(&ending.counts);
    let is_test = ending.counts.passed.is_some() || ending.counts.failed.is_some();
    let mut parts = Vec::from_iter((!counts.is_empty()).then(|| counts.join(", ")));
    if !is_test || parts.is_empty() {
        parts.push(ending.text.clone());
    }
    let text = parts.join(" · ");
    // Many tools start their lines with their own name.
    let is_named = text.strip_prefix(ending.tool).is_some_and(|rest| rest.starts_with([':', '[']));
    let mut text = if is_named { text } else { format!("{}: {text}", ending.tool) };
    if !ending.failed.is_empty() {
        let more = if ending.failed.len() > names { ", …" } else { "" };
        let named: Vec<&str> = ending.failed.iter().take(names).map(String::as_str).collect();
        let names = if named.is_empty() { "…".to_owned() } else { named.join(", ") + more };
        text.push_str(&format!(": {names}"));
    }
    text
}

/// Formats the non-zero counts, but always those of passed and failed tests. A single error alone
/// needs no number.
fn count_texts(counts: &ToolCounts) -> Vec<String> {
    if *counts == (ToolCounts { errors: Some(1), ..ToolCounts::default() }) {
        return Vec::new();
    }
    let tests = [(counts.passed, "passed"), (counts.failed, "failed"), (counts.skipped, "skipped")];
    let tests = tests.into_iter().filter_map(|(number, word)| Some(count(number?, word, word)));
    let found = [(counts.errors, "error", "errors"), (counts.warnings, "warning", "warnings")];
    let found = found.into_iter().filter_map(|(number, one, many)| {
        Some(count(number.filter(|number| *number > 0)?, one, many))
    });
    tests.chain(found).collect()
}

/// Formats the digest on one line: `75 errors (22 … 1030), 3 warnings · cargo test: 37 passed, 1
/// failed: tests::a`. Returns `None` if there is nothing to report.
pub(super) fn one_line_digest(digest: &Digest) -> Option<String> {
    let kinds = [(&digest.errors, "error", "errors"), (&digest.warnings, "warning", "warnings")];
    let found: Vec<String> = kinds
        .into_iter()
        .filter(|(tally, ..)| tally.count > 0)
        .map(|(tally, one, many)| count(tally.count, one, many) + &span(tally))
        .collect();
    let mut parts = Vec::from_iter((!found.is_empty()).then(|| found.join(", ")));
    parts.extend(
        digest
            .tool_summaries
            .iter()
            .map(|line| cut(ending_text(&line.summary, SHORT_NAMES), SHORT_ENDING_BYTES)),
    );
    (!parts.is_empty()).then(|| cut(parts.join(" · "), SHORT_BYTES))
}

/// Formats the first and the last line of a kind, as ` (22 … 1030)`.
fn span(tally: &DigestLines) -> String {
    match tally.numbers.as_slice() {
        [] => String::new(),
        [only] => format!(" ({only})"),
        [first, .., last] => format!(" ({first} … {last})"),
    }
}

/// Cuts a text to at most `max_bytes` at a character boundary.
pub(super) fn cut(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes.saturating_sub('…'.len_utf8())));
        text.push('…');
    }
    text
}

/// The level of detail of a digest. A lower level shows no more of anything than a higher one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DigestDetail {
    /// The number of endings, counted from the last.
    pub(super) endings: usize,
    pub(super) ending_bytes: usize,
    /// Names of failed tests per ending.
    pub(super) names: usize,
    /// 2: the first and the last error; 1: the first; 0: none.
    pub(super) errors: usize,
    /// Context lines before and after each error.
    pub(super) around: usize,
    /// Line numbers of one kind, from each end of the list.
    pub(super) numbers: usize,
    /// Lines of one kind with their texts, from each end of the list.
    pub(super) listed: usize,
    /// The longest text of a line, in bytes.
    pub(super) text_bytes: usize,
}

const ALL: DigestDetail = DigestDetail {
    endings: 12,
    ending_bytes: 820,
    names: 20,
    errors: 2,
    around: 3,
    numbers: 20,
    listed: 5,
    text_bytes: 900,
};
const SOME: DigestDetail =
    DigestDetail { numbers: 5, ending_bytes: 320, names: 10, text_bytes: 300, ..ALL };
const FEW: DigestDetail =
    DigestDetail { around: 0, numbers: 3, ending_bytes: 200, names: 3, text_bytes: 120, ..SOME };
const BRIEF: DigestDetail = DigestDetail {
    endings: 6,
    ending_bytes: 120,
    names: 2,
    numbers: 1,
    listed: 0,
    text_bytes: 80,
    ..FEW
};

/// The lowest level: counts only.
pub(super) const COUNTS: DigestDetail = DigestDetail {
    endings: 0,
    ending_bytes: 0,
    names: 0,
    errors: 0,
    numbers: 0,
    text_bytes: 0,
    ..BRIEF
};

/// All levels, from the highest to the lowest.
pub(super) const DETAILS: [DigestDetail; 18] = [
    ALL,
    DigestDetail { numbers: 10, names: 10, ..ALL },
    DigestDetail { numbers: 10, names: 10, ending_bytes: 320, ..ALL },
    DigestDetail { numbers: 10, names: 10, ending_bytes: 320, text_bytes: 450, ..ALL },
    SOME,
    DigestDetail { text_bytes: 200, ..SOME },
    DigestDetail { around: 1, text_bytes: 160, ..SOME },
    DigestDetail { around: 0, text_bytes: 160, ..SOME },
    DigestDetail { listed: 3, ..FEW },
    DigestDetail { listed: 1, ..FEW },
    DigestDetail { listed: 0, ..FEW },
    DigestDetail { endings: 12, ..BRIEF },
    BRIEF,
    DigestDetail { errors: 1, ..BRIEF },
    DigestDetail { errors: 0, ..BRIEF },
    DigestDetail { errors: 0, endings: 3, ending_bytes: 80, names: 1, ..BRIEF },
    DigestDetail { errors: 0, endings: 1, ending_bytes: 60, names: 0, ..BRIEF },
    COUNTS,
];

/// The largest short form in bytes, unless its counts alone are larger.
const SHORT_FIELDS_BYTES: usize = 2000;

/// Returns the structured form of a digest.
pub(super) fn fields(digest: &Digest, detail: DigestDetail) -> Value {
    let mut fields = Map::new();
    fields.insert("lines".into(), digest.lines.into());
    fields.insert("errors".into(), digest.errors.count.into());
    fields.insert("warnings".into(), digest.warnings.count.into());
    for (kind, tally) in [("error", &digest.errors), ("warning", &digest.warnings)] {
        fields.insert(format!("{kind}_lines"), listed(tally, detail));
        if tally.numbers.len() > listed_count(tally, detail) && detail.numbers > 0 {
            fields.insert(format!("{kind}_line_numbers"), numbers(tally, detail));
        }
    }
    let errors = [("first_error", &digest.first_error), ("last_error", &digest.last_error)];
    for (name, error) in errors.into_iter().take(detail.errors) {
        if let Some(error) = error {
            fields.insert(name.into(), context_fields(error, detail));
        }
    }
    fields.insert("endings".into(), endings(digest, detail));
    fields.insert("scanned_bytes".into(), digest.scanned_bytes.into());
    fields.insert("complete".into(), digest.complete.into());
    Value::Object(fields)
}

/// Returns the short structured form for a reply that is cut; `hidden_errors` lists its lines.
pub(super) fn short_fields(digest: &Digest) -> Value {
    let short = |detail: DigestDetail| {
        json!({
            "errors": digest.errors.count,
            "warnings": digest.warnings.count,
            "endings": endings(digest, detail),
            "complete": digest.complete,
        })
    };
    let mut forms = DETAILS.into_iter().map(short);
    forms.find(|form| form.to_string().len() <= SHORT_FIELDS_BYTES).unwrap_or_else(|| short(COUNTS))
}

fn listed(tally: &DigestLines, detail: DigestDetail) -> Value {
    let (first, last) = both_ends(&tally.listed, detail.listed);
    let line = |line: &NumberedLine| json!({"line": line.line, "text": cut(line.text.clone(), detail.text_bytes)});
    first.iter().chain(last).map(line).collect()
}

fn listed_count(tally: &DigestLines, detail: DigestDetail) -> usize {
    tally.listed.len().min(detail.listed * 2)
}

fn numbers(tally: &DigestLines, detail: DigestDetail) -> Value {
    let (first, last) = both_ends(&tally.numbers, detail.numbers);
    first.iter().chain(last).copied().collect()
}

fn context_fields(error: &LineInContext, detail: DigestDetail) -> Value {
    let text = |line: &NumberedLine| cut(line.text.clone(), detail.text_bytes);
    let left_out = error.before.len().saturating_sub(detail.around);
    json!({
        "line": error.line.line,
        "text": text(&error.line),
        "before": error.before.iter().skip(left_out).map(text).collect::<Vec<_>>(),
        "after": error.after.iter().take(detail.around).map(text).collect::<Vec<_>>(),
    })
}

/// Returns the last endings.
fn endings(digest: &Digest, detail: DigestDetail) -> Value {
    let left_out = digest.tool_summaries.len().saturating_sub(detail.endings);
    digest.tool_summaries.iter().skip(left_out).map(|line| ending_fields(line, detail)).collect()
}

fn ending_fields(line: &ToolSummaryLine, detail: DigestDetail) -> Value {
    let ToolSummaryLine { line, summary: ending } = line;
    let mut fields = Map::new();
    fields.insert("tool".into(), ending.tool.into());
    fields.insert("line".into(), (*line).into());
    fields.insert("text".into(), cut(ending.text.clone(), detail.ending_bytes).into());
    let counts = &ending.counts;
    for (name, number) in [
        ("passed", counts.passed),
        ("failed", counts.failed),
        ("skipped", counts.skipped),
        ("errors", counts.errors),
        ("warnings", counts.warnings),
    ] {
        if let Some(number) = number {
            fields.insert(name.into(), number.into());
        }
    }
    let names: Vec<String> = ending.failed.iter().take(detail.names).cloned().collect();
    if !names.is_empty() {
        fields.insert("failed_names".into(), names.into());
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::output::digest::{DigestLimits, DigestRequest, digest};
    use crate::output::{LogStorage, open_log};
    use crate::spec::Stream;

    #[test]
    fn each_level_of_detail_shows_at_least_as_much_as_the_next() {
        let parts = |it: DigestDetail| {
            let ending = [it.endings, it.ending_bytes, it.names];
            (ending, [it.errors, it.around, it.numbers, it.listed, it.text_bytes])
        };
        for pair in DETAILS.windows(2) {
            let ((ending, rest), (less_ending, less_rest)) = (parts(pair[0]), parts(pair[1]));
            let more = ending.iter().chain(&rest);
            let less = less_ending.iter().chain(&less_rest);
            assert!(more.zip(less).all(|(more, less)| more >= less), "{pair:?}");
            assert_ne!(pair[0], pair[1]);
        }
    }

    fn digest_of(bytes: &[u8]) -> Digest {
        let (mut writer, reader) =
            open_log(&LogStorage { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() });
        writer.append(Stream::Stdout, bytes);
        writer.close();
        digest(
            &reader.blocking(),
            &DigestRequest { stream: None, from: 0, limits: DigestLimits::default() },
        )
        .unwrap()
    }

    /// Returns the text that an agent would read about a log.
    fn digest_text(bytes: &[u8]) -> String {
        let digest = digest_of(bytes);
        let short = one_line_digest(&digest).unwrap_or_else(|| "nothing to tell".to_owned());
        let lines = count(digest.lines, "line", "lines");
        format!("digest of {lines}\n{}in short: {short}\n", text(&digest, 3000))
    }

    /// Returns the logs that `tests/logs/make.sh` created.
    fn logs() -> Vec<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs");
        let mut logs: Vec<PathBuf> = fs::read_dir(folder)
            .expect("the log directory exists")
            .map(|entry| entry.expect("a readable directory entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
            .collect();
        logs.sort();
        logs
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the person who runs the tests sets it in the environment"
    )]
    fn each_log_of_the_corpus_has_its_stored_digest() {
        let logs = logs();
        assert!(logs.len() >= 30, "{} logs", logs.len());
        let mut wrong = Vec::new();
        for path in logs {
            let text = digest_text(&fs::read(&path).expect("a log"));
            let expected = path.with_extension("digest");
            if std::env::var_os("UPDATE_DIGESTS").is_some() {
                fs::write(&expected, &text).expect("the log directory is writable");
            }
            let written = fs::read_to_string(&expected).unwrap_or_default();
            if text != written {
                wrong.push(format!("{}:\n{text}", expected.display()));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn both_forms_stay_within_their_limits_for_any_log() {
        let wide = "€".repeat(5000);
        let noisy: String = (0..300)
            .map(|number| format!("test error_{number}_{wide} ... FAILED\nerror: {wide}\n"))
            .collect();
        let digest =
            digest_of(format!("{noisy}test result: FAILED. 1 passed; 300 failed;\n").as_bytes());
        assert_eq!(digest.errors.count, 601);
        for most in [0, 10, 500, 3000] {
            assert!(text(&digest, most).len() <= most);
        }
        let short = one_line_digest(&digest).unwrap();
        assert!(short.len() <= 600, "{}", short.len());
        assert!(
            short.starts_with("601 errors (1 … 601) · cargo test: 1 passed, 300 failed: "),
            "{short}"
        );
    }

    #[test]
    fn numbers_of_lines_are_listed_with_a_gap_where_some_are_missing() {
        let all = text(&digest_of(b"error: a\nfine\nerror: b\n"), 3000);
        assert!(all.starts_with("2 errors: lines 1, 3; no warnings\n"), "{all}");
        let many = text(&digest_of("warning: x\n".repeat(50).as_bytes()), 3000);
        let numbers = |range: std::ops::RangeInclusive<u32>| {
            range.map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
        };
        let listed = format!("{} … {}", numbers(1..=20), numbers(31..=50));
        assert_eq!(many, format!("no errors; 50 warnings: lines {listed}\n"));
    }

    #[test]
    fn with_more_room_a_digest_shows_no_less() {
        let wide = "漢".repeat(5000);
        let log: String =
            (0..200).map(|number| format!("error: number {number} {wide}\n")).collect();
        let digest = digest_of(format!("{log}fatal: the end\n").as_bytes());
        let texts: Vec<String> = (0..400).map(|step| text(&digest, step * 10)).collect();
        assert!(texts.windows(2).all(|pair| pair[0].len() <= pair[1].len()));
        for (room, text) in texts.iter().enumerate().skip(30) {
            assert!(
                text.starts_with("git: fatal: the end (line 201)\n201 errors: "),
                "{room}: {text}"
            );
            assert!(!text.ends_with("error:\n"), "{room}: {text}");
        }
        assert!(texts[60].contains("\nfirst error:\n1: error: number 0 漢"), "{}", texts[60]);
        assert!(texts[60].contains("\nlast error:\n201: fatal: the end\n"), "{}", texts[60]);
    }

    #[test]
    fn the_short_form_of_a_digest_is_bounded_in_both_forms() {
        let name = "n".repeat(110);
        let failed: String =
            (0..30).map(|number| format!("test {name}{number} ... FAILED\n")).collect();
        let digest =
            digest_of(format!("{failed}test result: FAILED. 1 passed; 30 failed;\n").as_bytes());
        let short = short_fields(&digest);
        assert!(short.to_string().len() <= 2000, "{short}");
        assert_eq!((&short["errors"], &short["endings"][0]["failed"]), (&31.into(), &30.into()));
    }
}
