//! Which lines tell of trouble: a guess by words, made to hide no real error at the price of
//! some false ones.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memchr2;
use regex::bytes::Regex;

use crate::output::view::{decode, on_screen};

/// Words of trouble. A name that only contains one of them (`thiserror`) is none.
pub(super) const TROUBLE: &str = concat!(
    r"\berrors?\b|(?-i:[a-z](?:Error|Exception)\b)|\berr!|",
    r"\bfail(?:s|ed|ure|ures|ing)?\b|\bpanic(?:s|ked)?\b|\bfatal\b|",
    r"\bexceptions?\b|\btraceback\b|\bassert(?:ion|ions)?\b|\bsegfault|\bsegmentation fault\b|",
    r"\bcore dumped\b|\bkilled\b|\baborted\b|\bcannot\b|\bcan't\b|\bcould not\b|\bcouldn't\b|",
    r"\bunable to\b|\bnot found\b|\bno such file\b|\bundefined (?:reference|symbol)|",
    r"\bunresolved\b|\bpermission denied\b|\baccess denied\b|\bout of memory\b|",
    r"\bconnection refused\b|\btimed out\b|^conflict \(|\bunexpected end of file\b",
);

/// Words of warning.
pub(super) const WARNING: &str = r"\bwarn(?:ings?)?\b|(?-i:[a-z]Warning\b)|\bdeprecated\b";

/// Where a word of trouble or warning tells of none: counts of zero, names of files, flags, tests
/// that passed, advice, source code that is quoted, headings.
const HARMLESS: &str = concat!(
    r"\b(?:0|no|zero|without)(?: \w+)? (?:errors?|fail(?:ed|ures?|s)?|exceptions?|warnings?)\b|",
    r"\b(?:errors|failed|failures|exceptions|warnings)\b[ \t]*[:=][ \t]*0\b|",
    r"\b(?:errors?|fail(?:ures?)?|exceptions?|assert|warn(?:ings?)?)[./-]\w+|",
    r"(?:^|[ \t])-{1,2}\w[\w-]*\b|",
    r"#\[\w+\((?:[\w:]+)\)\]|",
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

/// How such a pattern is read: no case, no Unicode, each line by itself.
pub(super) const FLAGS: &str = "(?im-u)";

static TROUBLE_RE: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(TROUBLE));
static WARNING_RE: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(WARNING));
static HARMLESS_RE: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(HARMLESS));
static CALLED_WARNING_RE: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(CALLED_WARNING));

/// The patterns are constants; a mistake in one fails the first test that runs.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(&format!("{FLAGS}{text}")).ok()
}

/// What a line tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    Error,
    Warning,
}

/// Whether a line (without its newline) looks like an error to a person who skims the output.
#[must_use]
pub fn looks_like_error(line: &[u8]) -> bool {
    trouble_in(readable(line).as_bytes()) == Some(Trouble::Error)
}

/// A line as a screen shows it in the end: escape codes touch the words that they colour, and
/// what a progress bar wrote over is gone.
pub(super) fn readable(line: &[u8]) -> Cow<'_, str> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (text, _) = decode(line);
    match memchr2(0x1b, b'\r', line) {
        Some(_) => Cow::Owned(on_screen(&text).into_owned()),
        None => text,
    }
}

/// What a readable line tells of, if of any trouble.
pub(super) fn trouble_in(line: &[u8]) -> Option<Trouble> {
    let (Some(trouble), Some(warning)) = (&*TROUBLE_RE, &*WARNING_RE) else { return None };
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
            Some(Trouble::Warning)
        }
        (Some(_), _) => Some(Trouble::Error),
        (None, Some(_)) => Some(Trouble::Warning),
        (None, None) => None,
    }
}

fn calls_itself_warning(line: &[u8]) -> bool {
    CALLED_WARNING_RE.as_ref().is_some_and(|pattern| pattern.is_match(line))
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
    fn lines_of_trouble_are_found() {
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
            ],
            true,
        );
    }

    #[test]
    fn harmless_lines_are_left_alone() {
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
            ],
            false,
        );
    }

    #[test]
    fn what_calls_itself_a_warning_is_one_whatever_it_warns_of() {
        for (line, expected) in [
            ("warning: unused variable: `error`", Some(Trouble::Warning)),
            ("npm warn deprecated request@2.88.2: failed to be fixed", Some(Trouble::Warning)),
            (
                "2026-11-15T06:00:00Z  WARN app: connection refused, retrying",
                Some(Trouble::Warning),
            ),
            ("main.c:5:18: warning: cannot convert [-Wint-conversion]", Some(Trouble::Warning)),
            ("app.py:6: DeprecationWarning: load is slow", Some(Trouble::Warning)),
            ("5 warnings and 3 errors generated.", Some(Trouble::Error)),
            ("cc1: some warnings being treated as errors", Some(Trouble::Error)),
            ("error: denied by the lint level of warning: x", Some(Trouble::Error)),
            ("0 warnings", None),
            ("  = note: `#[warn(unused_variables)]` on by default", None),
            ("   |         ^^^^^^ not found in this scope", None),
            ("For more information about this error, try `rustc --explain E0308`.", None),
            ("\tat java.lang.NumberFormatException.forInputString(N.java:67)", None),
            ("=================== FAILURES ===================", None),
        ] {
            assert_eq!(trouble_in(line.as_bytes()), expected, "{line:?}");
        }
    }
}
