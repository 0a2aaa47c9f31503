//! What matters in an output: the lines that tell of trouble.

use std::borrow::Cow;
use std::sync::LazyLock;

use anstream::adapter::strip_bytes;
use memchr::memchr;
use regex::bytes::Regex;

/// Words of trouble. A name that only contains one of them (`thiserror`) is none.
const TROUBLE: &str = concat!(
    r"(?i-u)\berrors?\b|(?-i:[a-z](?:Error|Exception)\b)|\berr!|",
    r"\bfail(?:s|ed|ure|ures|ing)?\b|\bpanic(?:s|ked)?\b|\bfatal\b|",
    r"\bexceptions?\b|\btraceback\b|\bassert(?:ion|ions)?\b|\bsegfault|\bsegmentation fault\b|",
    r"\bcore dumped\b|\bkilled\b|\baborted\b|\bcannot\b|\bcan't\b|\bcould not\b|\bcouldn't\b|",
    r"\bunable to\b|\bnot found\b|\bno such file\b|\bundefined (?:reference|symbol)|",
    r"\bunresolved\b|\bpermission denied\b|\baccess denied\b|\bout of memory\b|",
    r"\bconnection refused\b|\btimed out\b",
);

/// Where such a word tells of none: counts of zero, names of files, flags, tests that passed.
const HARMLESS: &str = concat!(
    r"(?i-u)\b(?:0|no|zero|without)(?: \w+)? (?:errors?|fail(?:ed|ures?|s)?|exceptions?)\b|",
    r"\b(?:errors|failed|failures|exceptions)\b\s*[:=]\s*0\b|",
    r"\b(?:errors?|fail(?:ures?)?|exceptions?|assert)[./-]\w+|",
    r"(?:^|\s)-{1,2}\w[\w-]*\b|",
    r"^.*\.\.\. ok\s*$|^.*\bPASSED\b\s*(?:\[.*)?$",
);

/// The patterns are constants; a mistake in one fails the first test that runs.
static TROUBLE_RE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(TROUBLE).ok());
static HARMLESS_RE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(HARMLESS).ok());

/// Whether a line (without its newline) looks like an error to a person who skims the output.
/// A guess, made to hide no real error at the price of some false ones.
#[must_use]
pub fn looks_like_error(line: &[u8]) -> bool {
    let (Some(trouble), Some(harmless)) = (&*TROUBLE_RE, &*HARMLESS_RE) else { return false };
    // Escape codes touch the words that they colour.
    let line = match memchr(0x1b, line) {
        Some(_) => Cow::Owned(strip_bytes(line).into_vec()),
        None => Cow::Borrowed(line),
    };
    if !trouble.is_match(&line) {
        return false;
    }
    let excuses: Vec<_> = harmless.find_iter(&line).map(|found| found.range()).collect();
    trouble
        .find_iter(&line)
        .any(|word| !excuses.iter().any(|excuse| excuse.contains(&word.start())))
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
}
