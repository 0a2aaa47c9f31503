//! Classifies lines as errors and warnings by their words. A guess: it should miss no real error,
//! at the price of some false ones.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::{memchr, memchr2};
use regex::bytes::Regex;

use super::collector::{LinePiece, LineSpot};
use super::formats::{TEXT_CHARS, ToolCounts, ToolSummary};
use crate::views::cut_chars;
use crate::views::{decode, on_screen};

/// Words of errors. A name that only contains such a word (`thiserror`) does not match.
pub(super) const ERROR_WORDS: &str = concat!(
    r"\berrors?\b|(?-i:[a-z](?:Error|Exception)\b)|\berr!|",
    r"\bfail(?:s|ed|ure|ures|ing)?\b|\bpanic(?:s|ked)?\b|\bfatal\b|",
    r"\bexceptions?\b|\btraceback\b|\bassert(?:ion|ions)?\b|\bsegfault|\bsegmentation fault\b|",
    r"\bcore dumped\b|\bkilled\b|\baborted\b|\bcannot\b|\bcan't\b|\bcould not\b|\bcouldn't\b|",
    r"\bunable to\b|\bnot found\b|\bno such file\b|\bundefined (?:reference|symbol)|",
    r"\bunresolved\b|\bpermission denied\b|\baccess denied\b|\bout of memory\b|",
    r"\bconnection refused\b|\btimed out\b|^conflict \(|\bunexpected end of file\b",
);

pub(super) const WARNING_WORDS: &str = r"\bwarn(?:ings?)?\b|(?-i:[a-z]Warning\b)|\bdeprecated\b";

/// Text in which an error or warning word is harmless: counts of zero, names of files, flags,
/// passed tests, advice, quoted source code, headings.
const HARMLESS: &str = concat!(
    r"\b(?:0|no|zero|without)(?: \w+)? (?:errors?|fail(?:ed|ures?|s)?|exceptions?|warnings?)\b|",
    r"\b(?:errors|failed|failures|exceptions|warnings)\b[ \t]*[:=][ \t]*0\b|",
    r"\b(?:errors?|fail(?:ures?)?|exceptions?|assert|warn(?:ings?)?)[./-]\w+|",
    r"(?:^|[ \t])-{1,2}\w[\w-]*\b|",
    r"#\[\w+\((?:[\w:]+)\)\]|",
    r"\b(?:errors?|exceptions?|failures?)[ -](?:handling|handlers?|reporting|recovery)",
    r"(?: (?:docs?|documentation|guides?|chapters?|code|logic|examples?|modules?|tests?)\b|[ \t]*$)|",
    r"^.*\.\.\. ok[ \t]*$|^.*\bPASSED\b[ \t]*(?:\[.*)?$|^--- PASS: .*$|",
    r"^[ >]*\d+ ?\| .*$|^[ \t]+\| .*$|",
    r"^(?:Some errors have detailed explanations|For more information about (?:this|an) error).*$|",
    r"^[ \t]*= (?:note|help): .*$|^[ \t]+at [\w$./<>-]+\(.*$|^[ \t]+at .*:\d+\)?$|",
    r"^(?:The above|During handling of the above) exception.*$|^[ >\t]+raise \w.*$|",
    r"^=+ (?:ERRORS|FAILURES|warnings summary) =+$|^failures:$",
);

/// A line that calls itself a warning, whatever it warns of.
const CALLED_WARNING: &str =
    r"^(?:\S+[ \t]+){0,4}\S*?(?:\bwarn(?:ing)?\b[\]:)>\s]|(?-i:[a-z]Warning: ))";

/// The flags of these patterns: ignore case, no Unicode, each line separately.
pub(super) const FLAGS: &str = "(?im-u)";

static ERROR_RE: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(ERROR_WORDS));
static WARNING_RE: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(WARNING_WORDS));
static HARMLESS_RE: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(HARMLESS));
static CALLED_WARNING_RE: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(CALLED_WARNING));

/// Compiles a pattern. The patterns are constants; a mistake in one fails the first test that runs.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(&format!("{FLAGS}{text}")).ok()
}

/// The severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineSeverity {
    Error,
    Warning,
}

/// `true` if a line (without its newline) looks like an error to a person who skims the output.
#[must_use]
pub(crate) fn looks_like_error(line: &[u8]) -> bool {
    classify_line(line).severity == Some(LineSeverity::Error)
}

/// A line with its severity.
#[derive(Debug)]
pub(super) struct ClassifiedLine<'a> {
    /// The text, as a screen shows it finally or showed it before.
    pub(super) text: Cow<'a, str>,
    /// The severity, if it is an error or a warning.
    pub(super) severity: Option<LineSeverity>,
    /// The position of the error or warning word in the text.
    pub(super) at: usize,
}

/// Classifies a line by the text that a screen finally shows, else by overwritten text. An error
/// counts even if it was visible only for a moment.
pub(super) fn classify_line(line: &[u8]) -> ClassifiedLine<'_> {
    let last = classify_text(readable(line));
    if last.severity == Some(LineSeverity::Error) || !is_written_over(line) {
        return last;
    }
    let mut earlier = states(line).rev().map(|state| classify_text(readable(state)));
    earlier.find(|told| told.severity == Some(LineSeverity::Error)).unwrap_or(last)
}

fn classify_text(text: Cow<'_, str>) -> ClassifiedLine<'_> {
    let found = find_severity(text.as_bytes());
    let at = found.map_or(0, |(_, at)| at);
    ClassifiedLine { text, severity: found.map(|(trouble, _)| trouble), at }
}

/// `true` if text after a `\r` overwrote a part of the line.
fn is_written_over(line: &[u8]) -> bool {
    memchr(b'\r', line.strip_suffix(b"\r").unwrap_or(line)).is_some()
}

/// The successive states of a line that was overwritten.
fn states(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    line.split(|byte| *byte == b'\r').filter(|state| !state.is_empty())
}

/// `true` if a screen ever shows text in the line that the pattern matches.
pub(super) fn ever_shows(line: &[u8], pattern: &Regex) -> bool {
    let shows = |line: &[u8]| pattern.is_match(readable(line).as_bytes());
    shows(line) || (is_written_over(line) && states(line).any(shows))
}

/// The text of a line as a screen finally shows it, without escape codes and overwritten text.
pub(super) fn readable(line: &[u8]) -> Cow<'_, str> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (text, _) = decode(line);
    match memchr2(0x1b, b'\r', line) {
        Some(_) => Cow::Owned(on_screen(&text).into_owned()),
        None => text,
    }
}

/// The severity of a readable line and the position of its word, if it is an error or a warning.
pub(super) fn find_severity(line: &[u8]) -> Option<(LineSeverity, usize)> {
    let (Some(trouble), Some(warning)) = (&*ERROR_RE, &*WARNING_RE) else { return None };
    if !trouble.is_match(line) && !warning.is_match(line) {
        return None;
    }
    let harmless = HARMLESS_RE.as_ref()?;
    let excuses: Vec<_> = harmless.find_iter(line).map(|found| found.range()).collect();
    let first = |words: &Regex| {
        let mut starts = words.find_iter(line).map(|word| word.start());
        starts.find(|start| !excuses.iter().any(|excuse| excuse.contains(start)))
    };
    match (first(trouble), first(warning)) {
        (Some(error), Some(warning)) if warning < error && calls_itself_warning(line) => {
            Some((LineSeverity::Warning, warning))
        }
        (Some(error), _) => Some((LineSeverity::Error, error)),
        (None, Some(warning)) => Some((LineSeverity::Warning, warning)),
        (None, None) => None,
    }
}

fn calls_itself_warning(line: &[u8]) -> bool {
    CALLED_WARNING_RE.as_ref().is_some_and(|pattern| pattern.is_match(line))
}

/// The longest traceback that is followed to its end.
const MOST_TRACEBACK_LINES: usize = 5000;

/// Follows Python tracebacks: `Traceback (most recent call last):`, frames, and the exception in
/// the first line after them that is not indented. Each counts as one error, however many of its
/// lines look like one.
#[derive(Debug, Default)]
pub(super) struct Tracebacks {
    open: Option<OpenTraceback>,
    last: Option<ToolSummary>,
}

#[derive(Debug)]
struct OpenTraceback {
    indent: usize,
    /// The row of the first line.
    row: i64,
    /// The innermost frame so far.
    frame: Option<String>,
    lines: usize,
}

/// The role of a line in a traceback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TracebackRole {
    /// The first line of a traceback, or a line outside of it.
    Outside,
    /// A frame, or its source line.
    Frame,
    /// The exception that ends the traceback.
    Exception {
        /// The row of the traceback's first line. The exception is listed in its place.
        row: i64,
    },
}

impl Tracebacks {
    /// `true` if the next line belongs to a traceback.
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Drops a traceback whose end was skipped.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// The summary of the last complete traceback, with the number of all.
    pub(super) fn last_summary(&self) -> Option<ToolSummary> {
        self.last.clone()
    }

    /// Follows the next line. While a traceback is open, every line must be passed.
    pub(super) fn follow(&mut self, text: &str, spot: LineSpot) -> TracebackRole {
        let Some(mut open) = self.open.take() else {
            let start = text.trim_start();
            if start == "Traceback (most recent call last):" && spot.piece == LinePiece::Start {
                let indent = text.len() - start.len();
                self.open = Some(OpenTraceback { indent, row: spot.row, frame: None, lines: 0 });
            }
            return TracebackRole::Outside;
        };
        let inner = text.get(open.indent..).unwrap_or_default();
        open.lines += u32::from(spot.piece == LinePiece::Start) as usize;
        if (inner.starts_with(' ') || spot.piece == LinePiece::Rest)
            && open.lines < MOST_TRACEBACK_LINES
        {
            open.frame = python_frame(inner).or(open.frame);
            self.open = Some(open);
            return TracebackRole::Frame;
        }
        if inner.is_empty() {
            return TracebackRole::Outside;
        }
        if let Some(frame) = open.frame.filter(|_| inner.starts_with(char::is_alphabetic)) {
            let errors = self.last.as_ref().and_then(|last| last.counts.errors).unwrap_or(0) + 1;
            self.last = Some(ToolSummary {
                offset: spot.offset,
                tool: "python",
                text: cut_chars(&format!("{} ({frame})", inner.trim()), TEXT_CHARS),
                counts: ToolCounts { errors: Some(errors), ..ToolCounts::default() },
                failed: Vec::new(),
            });
        }
        TracebackRole::Exception { row: open.row }
    }
}

/// Returns `app.py:12 in main` for `  File "/src/app.py", line 12, in main`.
fn python_frame(text: &str) -> Option<String> {
    let (path, rest) = text.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
    let (line, function) = rest.split_once(", in ").unwrap_or((rest, ""));
    let file = path.rsplit('/').next().unwrap_or(path);
    Some(format!("{file}:{line} in {function}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lines: &[&str], expected: bool) {
        for line in lines {
            assert_eq!(looks_like_error(line.as_bytes()), expected, "{line:?}");
        }
    }

    #[test]
    fn errors_are_recognised() {
        check(
            &[
                "error[E0308]: mismatched types",
                "src/main.c:3:5: error: expected ';'",
                "AssertionError: 1 != 2",
                "java.lang.NullPointerException: x",
                "npm ERR! code ENOENT",
                "--- FAIL: TestThing (0.00s)",
                "FAILED (failures=40)",
                "test a::b ... FAILED",
                "thread 'main' panicked at src/main.rs:2:5:",
                "fatal: not a git repository",
                "Traceback (most recent call last):",
                "Segmentation fault (core dumped)",
                "Killed",
                "sh: 1: carg: not found",
                "cat: x: No such file or directory",
                "ld: undefined reference to `foo'",
                "10 errors generated",
                "3 passed, 2 failed, 0 errors",
                "error: 0 is not a valid port",
                "\u{1b}[1;31merror\u{1b}[0m: coloured",
                "rm: cannot remove 'x': Permission denied",
                "make: *** [all] Error 2",
                "error: disk exploded\rall good",
                "1%\r\u{1b}[31mfailed\u{1b}[0m to get it, again\r\u{1b}[2K100%\r",
                "Error handling request /x",
                "error handling docs failed",
            ],
            true,
        );
    }

    #[test]
    fn harmless_lines_are_not_errors() {
        check(
            &[
                "",
                "hello",
                "0 errors, 0 warnings",
                "test result: ok. 5 passed; 0 failed; 0 ignored",
                "Errors: 0",
                "failures=0",
                "no errors found",
                "Finished without error",
                "   Compiling thiserror v2.0.21",
                "   Compiling src/error.rs",
                "gcc -Werror -O2 -c x.c",
                "cargo test --no-fail-fast",
                "test output::error::works ... ok",
                "tests/test_error.py::test_error PASSED [ 50%]",
                "mirror terror",
                "Error handling docs",
                "   Documenting error-handling guide",
                "- add error handling",
            ],
            false,
        );
    }

    #[test]
    fn overwritten_text_is_classified_with_its_original_text() {
        let told = classify_line(b"10%\rwarning: slow\r  error: disk exploded\r90%\r");
        assert_eq!((told.text.as_ref(), told.at), ("  error: disk exploded", 2));
        assert_eq!(classify_line(b"error 1%\rerror 50%").text, "error 50%");
        assert_eq!(classify_line(b"error 1%\rwarning: x y").text, "error 1%");
    }

    #[test]
    fn a_line_that_calls_itself_a_warning_is_one() {
        for (line, expected) in [
            ("warning: unused variable: `error`", Some(LineSeverity::Warning)),
            ("npm warn deprecated request@2.88.2: failed to be fixed", Some(LineSeverity::Warning)),
            (
                "2026-11-15T06:00:00Z  WARN app: connection refused, retrying",
                Some(LineSeverity::Warning),
            ),
            (
                "main.c:5:18: warning: cannot convert [-Wint-conversion]",
                Some(LineSeverity::Warning),
            ),
            ("app.py:6: DeprecationWarning: load is slow", Some(LineSeverity::Warning)),
            ("5 warnings and 3 errors generated.", Some(LineSeverity::Error)),
            ("cc1: some warnings being treated as errors", Some(LineSeverity::Error)),
            ("error: denied by the lint level of warning: x", Some(LineSeverity::Error)),
            ("0 warnings", None),
            ("  = note: `#[warn(unused_variables)]` on by default", None),
            ("   |         ^^^^^^ not found in this scope", None),
            ("For more information about this error, try `rustc --explain E0308`.", None),
            ("\tat java.lang.NumberFormatException.forInputString(N.java:67)", None),
            ("=================== FAILURES ===================", None),
        ] {
            assert_eq!(classify_line(line.as_bytes()).severity, expected, "{line:?}");
        }
    }
}
