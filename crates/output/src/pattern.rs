//! The pattern of a search: a regex that is matched against single lines, many lines at a time.

use std::borrow::Cow;
use std::ops::Range;

use anstream::adapter::strip_bytes;
use grep_matcher::{LineMatchKind, Matcher};
use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use memchr::{memchr, memrchr};
use thiserror::Error;

use crate::views::on_screen;

/// The longest pattern, and the memory that it may take when compiled.
const PATTERN_BYTES: usize = 1024 * 1024;
/// The memory for the matcher's cache, large enough to look at each byte once.
const CACHE_BYTES: usize = 4 * 1024 * 1024;

/// Advice for each kind of pattern error.
const ADVICE_ON_SYNTAX: &str = "the syntax is that of Rust's regex crate (no look-around, no back-references), escape special characters with a backslash";
const ADVICE_ON_SIZE: &str = "use a shorter one, or smaller numbers in {…}";
const ADVICE_ON_LINES: &str = "each line is searched by itself: leave the newline out, and use context to see the lines around a match";

/// A pattern that cannot be searched for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` cannot be used as a regular expression: {why}; {advice}")]
pub struct PatternError {
    given: String,
    why: String,
    advice: &'static str,
}

impl PatternError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_regex"
    }
}

/// A regex that never matches across the end of a line. Matching takes linear time, whatever the
/// pattern.
#[derive(Debug, Clone)]
pub struct LinePattern {
    text: Box<str>,
    matcher: RegexMatcher,
    reach: MatchScope,
}

/// The amount of text that a pattern can be matched against at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatchScope {
    /// Any number of lines: the first match is in the first matching line.
    Lines,
    /// One line, because `\A` and `\z` stand for the ends of the whole text.
    Line,
}

impl LinePattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// If it is not a regex, matches a newline, or would take too much memory.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let given = || pattern.chars().take(100).collect();
        if pattern.len() > PATTERN_BYTES {
            let why = "it is larger than 1 MiB".to_owned();
            return Err(PatternError { given: given(), why, advice: ADVICE_ON_SIZE });
        }
        let built = RegexMatcherBuilder::new()
            .multi_line(true)
            .line_terminator(Some(b'\n'))
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(CACHE_BYTES)
            .build(pattern);
        let matcher = built.map_err(|error| {
            let (why, advice) = explain_error(pattern, &error);
            PatternError { given: given(), why, advice }
        })?;
        let reach = match matcher.line_terminator() {
            Some(_) => MatchScope::Lines,
            None => MatchScope::Line,
        };
        Ok(Self { text: pattern.into(), matcher, reach })
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// `true` if a line, without its newline, matches as it is.
    #[must_use]
    pub fn is_match(&self, line: &[u8]) -> bool {
        // The error type of this matcher has no values, so it cannot fail here or below.
        self.matcher.is_match(line).unwrap_or(false)
    }

    /// The position of the first match in a line.
    pub(crate) fn find(&self, line: &[u8]) -> Option<usize> {
        self.matcher.find(line).ok().flatten().map(|found| found.start())
    }

    /// Finds the first matching line, with its newline. The lines are matched as they are: see
    /// [`searchable_text`].
    pub(crate) fn find_line(&self, lines: &[u8]) -> Option<Range<usize>> {
        let mut at = 0;
        while at < lines.len() {
            let (line, certain) = self.next_candidate(lines, at)?;
            if certain || self.is_match(without_newline(&lines[line.clone()])) {
                return Some(line);
            }
            at = line.end;
        }
        None
    }

    /// The next line at or after `at` that may match, and whether it certainly does.
    fn next_candidate(&self, lines: &[u8], at: usize) -> Option<(Range<usize>, bool)> {
        if self.reach == MatchScope::Line {
            return Some((line_around(lines, at), false));
        }
        let found = self.matcher.find_candidate_line(&lines[at..]).ok().flatten();
        let (position, certain) = match found? {
            LineMatchKind::Confirmed(position) => (position, true),
            LineMatchKind::Candidate(position) => (position, false),
        };
        // After the last newline there is no line, although an empty match is found there.
        Some((line_around(lines, at + position), certain)).filter(|(line, _)| !line.is_empty())
    }
}

/// The line that contains a position, with its newline.
pub(crate) fn line_around(lines: &[u8], position: usize) -> Range<usize> {
    let start = memrchr(b'\n', &lines[..position]).map_or(0, |newline| newline + 1);
    let end = memchr(b'\n', &lines[position..]).map_or(lines.len(), |end| position + end + 1);
    start..end
}

pub(crate) fn without_newline(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// The text of a line as a person would search it: without the newline, a `\r` before it, and
/// escape codes. A line that a `\r` overwrote is the text that a terminal finally shows.
pub(crate) fn searchable_text(line: &[u8]) -> Cow<'_, [u8]> {
    let line = without_newline(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if memchr(b'\r', line).is_some() {
        let text = String::from_utf8_lossy(line);
        return Cow::Owned(on_screen(&text).into_owned().into_bytes());
    }
    match memchr(0x1b, line) {
        Some(_) => Cow::Owned(strip_bytes(line).into_vec()),
        None => Cow::Borrowed(line),
    }
}

/// Explains an error, in terms of the original pattern if possible, and gives advice.
fn explain_error(pattern: &str, error: &grep_regex::Error) -> (String, &'static str) {
    if let Err(error @ regex::Error::Syntax(_)) = regex::bytes::Regex::new(pattern) {
        return (error.to_string(), ADVICE_ON_SYNTAX);
    }
    // A valid regex fails here if it matches a newline or is too large.
    let asks_for_newline = matches!(error.kind(), ErrorKind::NotAllowed(_));
    let advice = if asks_for_newline { ADVICE_ON_LINES } else { ADVICE_ON_SIZE };
    (error.to_string(), advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn first(pattern: &str, lines: &str) -> Option<String> {
        let found = LinePattern::new(pattern).unwrap().find_line(lines.as_bytes());
        found.map(|line| lines[line].to_owned())
    }

    #[test]
    fn a_match_stays_inside_its_line() {
        assert_eq!(first(r"a\s+b", "a\nb\na b\n").as_deref(), Some("a b\n"));
        assert_eq!(first("a[^x]b", "a\nb\na-b").as_deref(), Some("a-b"));
        assert_eq!(first("(?s)a.b", "a\nb\n"), None);
        assert_eq!(first("^b$", "ab\nb\nbc\n").as_deref(), Some("b\n"));
        for anchored in [r"\Ab\z", "(?-m)^b$"] {
            assert_eq!(first(anchored, "ab\nb\nbc\n").as_deref(), Some("b\n"), "{anchored}");
        }
    }

    #[test]
    fn an_empty_match_needs_a_line() {
        assert_eq!(first("^$", "a\n"), None);
        assert_eq!(first("^$", "a\n\nb\n").as_deref(), Some("\n"));
        assert_eq!(first("", "a\nb").as_deref(), Some("a\n"));
        assert_eq!(first("x*$", "").as_deref(), None);
    }

    #[test]
    fn a_line_is_searched_as_a_screen_finally_shows_it() {
        for (line, shown) in [
            ("plain\r\n", "plain"),
            ("progress 1%\rprogress 2%\n", "progress 2%"),
            ("long text\r\x1b[Kdone\r\r\n", "done"),
            ("\x1b[1mbold\x1b[0m", "bold"),
        ] {
            assert_eq!(searchable_text(line.as_bytes()), shown.as_bytes(), "{line:?}");
        }
    }

    #[test]
    fn a_bad_pattern_says_what_is_wrong() {
        for pattern in ["(", "[z-a]", "a{99999}{99999}", "a{1000}{1000}", "(?<=x)y", r"a\nb"] {
            let error = LinePattern::new(pattern).unwrap_err();
            assert_eq!(error.code(), "bad_regex");
            assert!(error.to_string().contains("regular expression"), "{error}");
            assert!(!error.to_string().contains("(?:"), "{error}");
        }
        for (pattern, advice) in [
            ("(", "backslash"),
            ("a{1000}{1000}", "smaller numbers"),
            (r"a\nb", "each line is searched by itself"),
        ] {
            let error = LinePattern::new(pattern).unwrap_err().to_string();
            assert!(error.contains(advice), "{error}");
            assert_eq!(error.contains("backslash"), pattern == "(", "{error}");
        }
        assert!(LinePattern::new(&"x".repeat(20_000_000)).unwrap_err().to_string().len() < 1000);
    }
}
