//! Masks secrets in text. Pure.
//!
//! Patterns are matched within single lines, without line ends, so that a text, a page of it and a
//! stream of it are masked alike, and the number of lines stays the same. Only private keys are
//! followed over several lines.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use thiserror::Error;

use crate::secret_detection::{FORMS, PRIVATE_KEY, any_form, find_secrets};

/// The text that replaces a secret.
const MASK: &str = "[redacted]";

/// The memory that a compiled pattern may take.
const PATTERN_BYTES: usize = 1024 * 1024;
/// The memory that the set of all patterns may take in addition.
const ALL_PATTERNS_BYTES: usize = 16 * 1024 * 1024;
/// The bytes of an unfinished line that a stream holds back at most.
const LINE_BYTES: usize = 64 * 1024;
/// The bytes of an overlong line that are scanned again with the next part: a secret of this size
/// is found at any position.
const OVERLAP_BYTES: usize = 4 * 1024;

/// Masks secrets. Cheap for text without secrets: it is returned as it is, and nothing is
/// allocated.
#[derive(Debug)]
pub struct Redactor {
    known_secrets: KnownSecrets,
    patterns: Vec<RedactPattern>,
    /// The set of all configured patterns, if there are any: an engine for none would cost memory.
    any_pattern: Option<RegexSet>,
}

/// The treatment of secrets that are known by their form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownSecrets {
    Show,
    Mask,
}

#[derive(Debug)]
struct RedactPattern {
    regex: Regex,
    /// The number of the group named `secret`.
    group: Option<usize>,
}

/// The position of a line relative to private keys, by the lines before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyState {
    Outside,
    InPrivateKey,
}

impl Redactor {
    /// Creates a redactor for these patterns. It masks a whole match, or only the group named
    /// `secret` if the pattern has one. `\b` is a Unicode word boundary, which is slow on lines
    /// that are not ASCII; `(?-u:\b)` is not.
    ///
    /// # Errors
    /// The first pattern that cannot be used.
    pub fn new(patterns: &[String]) -> Result<Self, RedactError> {
        Self::build(KnownSecrets::Show, patterns)
    }

    /// Creates a redactor for private keys, tokens and passwords that are known by their form, and
    /// for these patterns.
    ///
    /// # Errors
    /// The first pattern that cannot be used.
    pub fn with_known_secrets(patterns: &[String]) -> Result<Self, RedactError> {
        Self::build(KnownSecrets::Mask, patterns)
    }

    fn build(known: KnownSecrets, texts: &[String]) -> Result<Self, RedactError> {
        let given = texts.iter().enumerate();
        let given = given.map(|(index, text)| RedactPattern::compile(index, text));
        let given = given.collect::<Result<_, _>>()?;
        let any = texts.last().map(|last| {
            let built = RegexSetBuilder::new(texts).size_limit(ALL_PATTERNS_BYTES).build();
            built.map_err(|error| RedactError::new(texts.len() - 1, last, &error))
        });
        Ok(Self { known_secrets: known, patterns: given, any_pattern: any.transpose()? })
    }

    /// Returns the text with every secret masked.
    #[must_use]
    pub fn mask_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.mask_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // A pattern for bytes may have masked half a character.
            Cow::Owned(masked) => Cow::Owned(String::from_utf8_lossy(&masked).into_owned()),
        }
    }

    /// Returns the bytes with every secret masked.
    #[must_use]
    pub fn mask_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.may_mask(bytes) {
            return Cow::Borrowed(bytes);
        }
        let mut key_state = KeyState::Outside;
        let mut spans = Vec::new();
        let mut start = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let found = self.spans(line, &mut key_state).into_iter();
            spans.extend(found.map(|span| start + span.start..start + span.end));
            start += line.len();
        }
        if spans.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut masked = Vec::with_capacity(bytes.len());
        write_masked(bytes, &spans, &mut masked);
        Cow::Owned(masked)
    }

    /// `true` if one of the lines may hold a secret: one scan of all lines costs a fraction of a
    /// scan of each line. A known form that matches a line also matches a text that contains the
    /// line. This does not hold for configured patterns, which may be anchored to the ends of a
    /// line.
    fn may_mask(&self, bytes: &[u8]) -> bool {
        let is_known = || match self.known_secrets {
            KnownSecrets::Mask => any_form().is_none_or(|any| any.is_match(bytes)),
            KnownSecrets::Show => false,
        };
        self.any_pattern.is_some() || is_known()
    }

    /// The secrets of one line: in order, not overlapping, not empty.
    fn spans(&self, line: &[u8], key_state: &mut KeyState) -> Vec<Range<usize>> {
        let line = without_end(line);
        let mut spans = Vec::new();
        if *key_state == KeyState::InPrivateKey {
            let rest = rest_of_key(line);
            let is_blank = line.trim_ascii().is_empty();
            if memmem::find(line, KEY_END).is_some() || (rest.is_none() && !is_blank) {
                *key_state = KeyState::Outside;
            }
            spans.extend(rest);
        }
        match self.known_secrets {
            KnownSecrets::Mask => add_known_secrets(line, key_state, &mut spans),
            KnownSecrets::Show => {}
        }
        if let Some(any) = self.any_pattern.as_ref().filter(|any| any.is_match(line)) {
            for index in &any.matches(line) {
                self.patterns[index].add_spans(line, &mut spans);
            }
        }
        merge_spans(spans)
    }
}

/// Adds the secrets that are known by their form. In doubt the whole line is a secret.
fn add_known_secrets(line: &[u8], key_state: &mut KeyState, spans: &mut Vec<Range<usize>>) {
    let Some(any) = any_form() else { return spans.push(0..line.len()) };
    if !any.is_match(line) {
        return;
    }
    for index in &any.matches(line) {
        match find_secrets(index, line) {
            Some(found) => spans.extend(found),
            None => spans.push(0..line.len()),
        }
        if FORMS[index].kind == PRIVATE_KEY && is_left_open(line) {
            *key_state = KeyState::InPrivateKey;
        }
    }
}

/// `true` if a private key begins on this line and does not end there.
fn is_left_open(line: &[u8]) -> bool {
    memmem::rfind(line, KEY_BEGIN) > memmem::rfind(line, KEY_END)
}

impl RedactPattern {
    fn compile(index: usize, text: &str) -> Result<Self, RedactError> {
        if text.is_empty() {
            return Err(RedactError::empty(index));
        }
        let built = RegexBuilder::new(text).size_limit(PATTERN_BYTES).build();
        let regex = built.map_err(|error| RedactError::new(index, text, &error))?;
        let group = regex.capture_names().position(|name| name == Some("secret"));
        Ok(Self { regex, group })
    }

    fn add_spans(&self, line: &[u8], spans: &mut Vec<Range<usize>>) {
        match self.group {
            None => spans.extend(self.regex.find_iter(line).map(|found| found.range())),
            // A match without the group, by another branch of the pattern, is masked as a whole.
            Some(group) => spans.extend(self.regex.captures_iter(line).filter_map(|found| {
                found.get(group).or_else(|| found.get(0)).map(|part| part.range())
            })),
        }
    }
}

const KEY_BEGIN: &[u8] = b"-----BEGIN ";
const KEY_END: &[u8] = b"-----END ";
/// The headers that a key may have besides base64.
const KEY_HEADERS: [&[u8]; 5] = [b"Proc-Type:", b"DEK-Info:", b"Version:", b"Comment:", b"Hash:"];

/// The range to mask in a line key_state a private key, if the line can be part of a key. Any other
/// line ends the key: a beginning without an end must not hide everything after it.
fn rest_of_key(line: &[u8]) -> Option<Range<usize>> {
    let length = memmem::find(line, KEY_END).unwrap_or(line.len());
    let body = line.get(..length)?;
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let bare = trim(body, |byte| byte.is_ascii_whitespace() || b"\"'\\,".contains(&byte));
    let is_part = bare.iter().all(is_base64) || KEY_HEADERS.iter().any(|h| bare.starts_with(h));
    (!bare.is_empty() && is_part).then_some(0..length)
}

fn trim(mut bytes: &[u8], is_edge: impl Fn(u8) -> bool) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_edge(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_edge(*last)
    {
        bytes = rest;
    }
    bytes
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Sorts the spans, merges those that overlap or touch, and removes empty ones.
fn merge_spans(mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    spans.retain(|span| !span.is_empty());
    spans.sort_unstable_by_key(|span| span.start);
    spans.dedup_by(|later, earlier| {
        let joined = later.start <= earlier.end;
        if joined {
            earlier.end = earlier.end.max(later.end);
        }
        joined
    });
    spans
}

fn write_masked(bytes: &[u8], spans: &[Range<usize>], out: &mut Vec<u8>) {
    let mut shown = 0;
    for span in spans {
        out.extend_from_slice(&bytes[shown..span.start]);
        out.extend_from_slice(MASK.as_bytes());
        shown = span.end;
    }
    out.extend_from_slice(&bytes[shown..]);
}

/// Masks a stream while it is written, for any chunks.
///
/// The result depends only on the bytes, not on the chunks. At most 64 KiB of an unfinished line
/// are held back; in a longer line, secrets up to 4 KiB are found at any position.
#[derive(Debug)]
pub struct LineMasker {
    redactor: Arc<Redactor>,
    /// The beginning of a line: without a newline, at most [`LINE_BYTES`].
    held: Vec<u8>,
    key_state: KeyState,
}

impl LineMasker {
    /// Creates a masker for the beginning of a stream.
    #[must_use]
    pub const fn new(redactor: Arc<Redactor>) -> Self {
        Self { redactor, held: Vec::new(), key_state: KeyState::Outside }
    }

    /// Takes the next bytes. Returns the bytes that can be written now.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(chunk.len() + self.held.len());
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.take(piece, &mut out);
        }
        out
    }

    /// `true` if the beginning of a line is held back.
    #[must_use]
    pub const fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns the number of bytes that are held back.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Returns the bytes that are held back: at the end of the stream, or if they must be visible
    /// now. A secret that this splits is not found.
    pub fn flush(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.release_line(&mut out);
        out
    }

    /// Takes bytes of one line, up to and including its newline.
    fn take(&mut self, mut piece: &[u8], out: &mut Vec<u8>) {
        while self.held.len() + piece.len() > LINE_BYTES {
            let (fitting, rest) = piece.split_at(LINE_BYTES - self.held.len());
            self.held.extend_from_slice(fitting);
            self.release_part(out);
            piece = rest;
        }
        self.held.extend_from_slice(piece);
        if piece.ends_with(b"\n") {
            self.release_line(out);
        }
    }

    fn release_line(&mut self, out: &mut Vec<u8>) {
        let spans = self.redactor.spans(&self.held, &mut self.key_state);
        write_masked(&self.held, &spans, out);
        self.held.clear();
    }

    /// Releases the beginning of an overlong line, without splitting a secret.
    fn release_part(&mut self, out: &mut Vec<u8>) {
        let mut spans = self.redactor.spans(&self.held, &mut self.key_state);
        let cut = cut_before(LINE_BYTES - OVERLAP_BYTES, &spans);
        spans.retain(|span| span.end <= cut);
        write_masked(&self.held[..cut], &spans, out);
        self.held.drain(..cut);
    }
}

/// The position to split at: `wanted`, or the start of the secret at that position; the end of the
/// secret if nothing is before it.
fn cut_before(wanted: usize, spans: &[Range<usize>]) -> usize {
    match spans.iter().find(|span| span.start < wanted && wanted < span.end) {
        Some(span) if span.start > 0 => span.start,
        Some(span) => span.end,
        None => wanted,
    }
}

/// A pattern that cannot be used for masking.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("redact pattern {index} `{pattern}` cannot be used: {message}; {suggestion}")]
pub struct RedactError {
    /// The index in the list, counted from 0.
    pub index: usize,
    /// The beginning of the pattern.
    pub pattern: String,
    /// The problem with the pattern.
    pub message: String,
    /// Advice on how to fix it.
    pub suggestion: &'static str,
}

impl RedactError {
    fn new(index: usize, pattern: &str, error: &regex::Error) -> Self {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        let message = last.trim_start_matches("error: ").to_owned();
        let suggestion = if message.contains("look-around") || message.contains("backreference") {
            "name the part to mask instead, as in `password=(?P<secret>\\S+)`"
        } else if matches!(error, regex::Error::CompiledTooBig(_)) {
            "use smaller repetitions, or fewer patterns"
        } else {
            "escape special characters with a backslash"
        };
        Self { index, pattern: pattern.chars().take(100).collect(), message, suggestion }
    }

    fn empty(index: usize) -> Self {
        Self {
            index,
            pattern: String::new(),
            message: "it is empty".to_owned(),
            suggestion: "write a regular expression, or remove it",
        }
    }

    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_redact_pattern"
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    fn with_patterns(patterns: &[&str]) -> Redactor {
        let patterns: Vec<_> = patterns.iter().map(|text| (*text).to_owned()).collect();
        Redactor::new(&patterns).unwrap()
    }

    fn with_known_forms() -> Redactor {
        Redactor::with_known_secrets(&[]).unwrap()
    }

    #[track_caller]
    fn check(redactor: &Redactor, text: &str, expected: &str) {
        let masked = redactor.mask_text(text);
        assert_eq!(masked, expected);
        assert_eq!(matches!(masked, Cow::Borrowed(_)), text == expected, "{text}");
    }

    #[test]
    fn all_of_a_match_or_only_its_secret_is_masked() {
        check(
            &with_patterns(&["hunter[0-9]"]),
            "a hunter2 b hunter3\n",
            "a [redacted] b [redacted]\n",
        );
        check(&with_patterns(&[r"pw=(?P<secret>\w+)"]), "pw=abc; x", "pw=[redacted]; x");
        check(
            &with_patterns(&[r"pw=(?P<secret>\w+)|zz\d"]),
            "zz1 pw=a",
            "[redacted] pw=[redacted]",
        );
        check(&with_patterns(&[]), "pw=abc", "pw=abc");
        check(&with_patterns(&["zzz"]), "pw=abc", "pw=abc");
    }

    #[test]
    fn matches_that_overlap_or_touch_are_masked_once() {
        check(&with_patterns(&["abc", "bcd", "e"]), "xabcdex", "x[redacted]x");
        check(&with_patterns(&["ab", "ab"]), "abab-ab", "[redacted]-[redacted]");
    }

    #[test]
    fn each_line_is_matched_separately() {
        check(&with_patterns(&["^a+$"]), "aa\r\nba\naa", "[redacted]\r\nba\n[redacted]");
        check(&with_patterns(&["(?s)a.b"]), "a\nb", "a\nb");
        check(&with_patterns(&["x*"]), "yy xx y", "yy [redacted] y");
    }

    #[test]
    fn known_secrets_are_masked() {
        let github = format!("ghp_{}", "a".repeat(36));
        check(&with_known_forms(), &format!("token {github}, ok"), "token [redacted], ok");
        check(
            &with_known_forms(),
            "git clone https://me:pw@host/x",
            "git clone https://me:[redacted]@host/x",
        );
        check(
            &with_known_forms(),
            "Authorization: Bearer abcdefgh",
            "Authorization: Bearer [redacted]",
        );
        let both = Redactor::with_known_secrets(&["blue".to_owned()]).unwrap();
        check(&both, &format!("blue {github}"), "[redacted] [redacted]");
        check(&with_patterns(&["blue"]), &github, &github);
    }

    #[test]
    fn a_secret_is_found_in_a_text_as_it_is_in_its_line() {
        let token = format!("ghp_{}", "a".repeat(36));
        for (before, after) in
            [("", ""), ("one\n", "\ntwo"), ("one\r\n", "\r\ntwo\r\n"), ("\n", "\n")]
        {
            let expected = format!("{before}[redacted]{after}");
            check(&with_known_forms(), &format!("{before}{token}{after}"), &expected);
        }
        // A form that depends on the ends of its line could be missed in a text.
        for form in &FORMS {
            let pattern = form.pattern.replace("[^", "[");
            let is_about_ends = ["^", "$", r"\A", r"\z", r"\n", "(?s"];
            assert!(!is_about_ends.iter().any(|it| pattern.contains(it)), "{pattern}");
        }
    }

    #[test]
    fn a_private_key_is_masked_to_its_end() {
        let begin = "-----BEGIN RSA PRIVATE KEY-----";
        let end = "-----END RSA PRIVATE KEY-----";
        check(
            &with_known_forms(),
            &format!("a\n{begin}\nProc-Type: 4\n\nMIIE+/=\n  abc\r\n{end}\nabc\n"),
            &format!("a\n[redacted]\n[redacted]\n\n[redacted]\n[redacted]\r\n{end}\nabc\n"),
        );
        check(
            &with_known_forms(),
            &format!("k: \"{begin}\\nMIIE\\n{end}\\n\"\nabc"),
            "k: \"[redacted]\\n\"\nabc",
        );
        check(
            &with_known_forms(),
            &format!("{begin}\nabc{end}\nabc"),
            &format!("[redacted]\n[redacted]{end}\nabc"),
        );
    }

    #[test]
    fn text_after_the_end_of_a_key_is_checked_too() {
        let text = "-----BEGIN PRIVATE KEY-----\nabc-----END PRIVATE KEY----- ://me:pw@h\n";
        check(
            &with_known_forms(),
            text,
            "[redacted]\n[redacted]-----END PRIVATE KEY----- ://me:[redacted]@h\n",
        );
    }

    #[test]
    fn a_key_without_an_end_does_not_hide_what_follows() {
        let text = "grep -----BEGIN PRIVATE KEY----- x\nno such file\nabc\n";
        check(&with_known_forms(), text, "grep [redacted]\nno such file\nabc\n");
    }

    #[test]
    fn half_a_character_does_not_break_the_text() {
        check(&with_patterns(&["(?-u:\\xc3)"]), "\u{e9}", "[redacted]\u{fffd}");
        assert_eq!(&*with_patterns(&["b"]).mask_bytes(b"\xffb\xfe"), b"\xff[redacted]\xfe");
    }

    #[test]
    fn an_error_names_the_bad_pattern() {
        for (pattern, word, help) in [
            ("(a", "unclosed group", "backslash"),
            ("a(?=b)", "look-around", "secret"),
            ("(?:a{1000}){1000}", "size limit", "smaller"),
            ("", "empty", "remove"),
        ] {
            let error = Redactor::new(&["ok".to_owned(), pattern.to_owned()]).unwrap_err();
            assert_eq!((error.index, error.pattern.as_str()), (1, pattern));
            assert!(error.message.contains(word) && error.suggestion.contains(help), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    fn masker(redactor: Redactor) -> LineMasker {
        LineMasker::new(Arc::new(redactor))
    }

    /// Compiled once, because hundreds of cases use it.
    static KNOWN_AND_CONFIGURED: LazyLock<Arc<Redactor>> =
        LazyLock::new(|| Arc::new(Redactor::with_known_secrets(&["hunter2".to_owned()]).unwrap()));

    #[test]
    fn whole_lines_are_released_at_once_and_the_rest_at_the_end() {
        let mut masker = masker(with_patterns(&["hunter2"]));
        assert_eq!(masker.push(b"a\nhun"), b"a\n");
        assert_eq!(masker.push(b"ter2 b"), b"");
        assert_eq!(masker.push(b"\nc"), b"[redacted] b\n");
        assert_eq!(masker.flush(), b"c");
        assert_eq!(masker.flush(), b"");
    }

    #[test]
    fn a_long_line_is_not_held_back_and_hides_no_secret() {
        for before in [0, 1, 59_000, 61_430, 61_440, 65_530, 65_536, 126_000] {
            let mut masker = masker(with_patterns(&["s[0-9]{3000}t"]));
            let secret = format!("s{}t", "1".repeat(3000));
            let text = format!("{}{secret}{}", "a".repeat(before), "b".repeat(100_000));
            let mut masked = Vec::new();
            for chunk in text.as_bytes().chunks(1000) {
                masked.extend(masker.push(chunk));
                assert!(masker.held.len() <= LINE_BYTES);
            }
            masked.extend(masker.flush());
            let expected = format!("{}{MASK}{}", "a".repeat(before), "b".repeat(100_000));
            assert!(masked == expected.as_bytes(), "after {before} bytes");
        }
    }

    #[test]
    fn a_secret_without_end_is_masked_as_it_comes() {
        let mut masker = masker(with_patterns(&["1+"]));
        let mut masked = masker.push(&[b'1'; 200_000]);
        masked.extend(masker.flush());
        assert_eq!(masked, MASK.repeat(4).as_bytes());
    }

    /// Bytes with many matches and line ends.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let github = format!("ghp_{}", "a".repeat(36));
        let words = vec![
            "\n".to_owned(),
            "\r\n".to_owned(),
            "hunter2".to_owned(),
            "hun".to_owned(),
            "ter2".to_owned(),
            "://me:pw@h".to_owned(),
            "-----BEGIN PRIVATE KEY-----".to_owned(),
            "-----END PRIVATE KEY-----".to_owned(),
            github,
            "plain ".to_owned(),
            "x".repeat(30_000),
        ];
        let word = prop_oneof![
            9 => prop::sample::select(words).prop_map(String::into_bytes),
            2 => prop::collection::vec(any::<u8>(), 0..20),
        ];
        prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
    }

    fn in_chunks(redactor: &Arc<Redactor>, bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<u8> {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.push(bytes.len());
        cuts.sort_unstable();
        let mut masker = LineMasker::new(Arc::clone(redactor));
        let mut masked = Vec::new();
        let mut start = 0;
        for cut in cuts {
            masked.extend(masker.push(&bytes[start..cut]));
            start = cut;
        }
        masked.extend(masker.flush());
        masked
    }

    fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
        prop::collection::vec(any::<prop::sample::Index>(), 0..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn chunks_do_not_matter(bytes in stream(), cuts in cuts()) {
            let masked = in_chunks(&KNOWN_AND_CONFIGURED, &bytes, &cuts);
            prop_assert!(masked == in_chunks(&KNOWN_AND_CONFIGURED, &bytes, &[]));
            let longest = bytes.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap_or(0);
            if longest < LINE_BYTES {
                prop_assert!(masked == *KNOWN_AND_CONFIGURED.mask_bytes(&bytes));
            }
            prop_assert!(memmem::find(&masked, b"hunter2").is_none());
        }

        #[test]
        fn nothing_is_lost_where_nothing_matches(bytes in stream(), cuts in cuts()) {
            let redactor = Arc::new(with_patterns(&["no such text"]));
            prop_assert!(in_chunks(&redactor, &bytes, &cuts) == bytes);
            prop_assert!(matches!(redactor.mask_bytes(&bytes), Cow::Borrowed(_)));
        }

        #[test]
        fn any_text_can_be_masked(text in ".*", pattern in "[a-c.*+|()?]{0,8}") {
            prop_assert_eq!(KNOWN_AND_CONFIGURED.mask_text(&text).lines().count(), text.lines().count());
            if let Ok(redactor) = Redactor::new(&[pattern]) {
                prop_assert_eq!(redactor.mask_text(&text).lines().count(), text.lines().count());
            }
        }
    }
}

#[cfg(test)]
mod forms_tests {
    use super::*;

    /// A sample of one form: the text before the secret, the secret, the text after it, and a near
    /// miss.
    struct SecretSample {
        before: &'static str,
        secret: String,
        after: &'static str,
        near_miss: &'static str,
    }

    fn case(
        before: &'static str,
        secret: impl Into<String>,
        after: &'static str,
        near_miss: &'static str,
    ) -> SecretSample {
        SecretSample { before, secret: secret.into(), after, near_miss }
    }

    /// Builds a secret at run time, so that no scanner takes this file for a leak.
    fn filled(prefix: &str, alphabet: &str, length: usize) -> String {
        let letters = alphabet.chars().cycle().skip(1).step_by(5).take(length);
        prefix.chars().chain(letters).collect()
    }

    fn mixed(prefix: &str, length: usize) -> String {
        filled(prefix, "a1B2c3D4e5F6g7H8i9J0kLmNoPqRs", length)
    }

    fn hex(prefix: &str, length: usize) -> String {
        filled(prefix, "0123456789abcdef", length)
    }

    fn capitals(prefix: &str, length: usize) -> String {
        filled(prefix, "A1B2C3D4E5F6G7H8I9", length)
    }

    /// Tokens that are known by their own text.
    fn tokens() -> Vec<SecretSample> {
        let jwt = mixed("eyJ", 20);
        let slack = "https://hooks.slack.com/services/";
        vec![
            case("token: ", mixed("sy_", 43), "", "sy_load sy_config_file"),
            case("a ", mixed("ghp_", 36), " b", "ghp_short"),
            case("a ", mixed("gho_", 36), ",", "gho_"),
            case("a ", mixed("ghs_", 36), ".", "ghs_x"),
            case("a ", mixed("ghu_", 36), "", "ghu_1"),
            case("a ", mixed("ghr_", 36), "", "bghr_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
            case("", mixed("github_pat_", 40), " x", "github_pat_name"),
            case("", mixed("glpat-", 20), "", "glpat-name"),
            case("", mixed("glrt-", 20), "", "glrt-x"),
            case("id ", capitals("AKIA", 16), "", "AKIAB"),
            case("", mixed("xoxb-", 24), "", "xoxb-1"),
            case("", mixed("xapp-1-", 24), "", "xapp-name-of-a-program"),
            case(slack, capitals("T", 30), "", "hooks.slack.com/services/"),
            case(
                "https://discord.com/api/webhooks/12345/",
                mixed("", 68),
                "",
                "/api/webhooks/12345/x",
            ),
            case("", mixed("sk-ant-api03-", 40), "", "sk-ant-x"),
            case("", mixed("sk-proj-", 40), "", "sk-project"),
            case("", mixed("sk-", 48), "", "task-aaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
            case("", mixed("gsk_", 52), "", "gsk_widget_new"),
            case("", mixed("sk_live_", 24), "", "sk_live_x"),
            case("", mixed("rk_live_", 24), "", "rk_live_"),
            case("", mixed("whsec_", 32), "", "whsec_x"),
            case("", mixed("AIza", 35), "", "AIzaB"),
            case("", mixed("ya29.", 40), "", "ya29.x"),
            case("", mixed("GOCSPX-", 28), "", "GOCSPX-x"),
            case("", mixed("npm_", 36), "", "npm_config_registry npm_package_version"),
            case("", mixed("pypi-AgEI", 60), "", "pypi-server"),
            case("", mixed("hf_", 34), "", "hf_hub_download hf_home"),
            case("", format!("{}.{}", mixed("SG.", 22), mixed("", 43)), "", "SG.x.y"),
            case("", format!("{jwt}.{jwt}.{jwt}"), "", "eyJ.a.b"),
            case("", mixed("hvs.", 24), "", "hvs.rs"),
            case("", mixed("hvb.", 24), "", "hvb.x"),
            case("", hex("dop_v1_", 64), "", "dop_v1_x"),
            case("", mixed("dckr_pat_", 27), "", "dckr_pat_x"),
            case("", hex("SK", 32), "", "SK1 SKIP ACCESS ACdeadbeef"),
            case("sid ", hex("AC", 32), "", "AC"),
            case("", hex("key-", 32), "", "key-value key-0123abcd"),
            case("", hex("shpat_", 32), "", "shpat_x"),
            case("", mixed("ATATT3", 80), "", "ATATT"),
            case("", mixed("lin_api_", 40), "", "lin_api_url"),
            case("", mixed("glsa_", 41), "", "glsa_x"),
            case("", hex("dapi", 32), "", "dapi-server"),
            case("12345678:", mixed("AA", 33), "", "12:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
            case(
                "",
                "-----BEGIN EC PRIVATE KEY----- x -----END EC PRIVATE KEY-----",
                "",
                "-----BEGIN CERTIFICATE-----",
            ),
        ]
    }

    /// Keys of cloud accounts that are known by their names.
    fn cloud_keys() -> Vec<SecretSample> {
        let aws = format!("{}/{}", mixed("w", 19), mixed("", 19));
        let azure = format!("{}==", mixed("", 86));
        vec![
            case("aws_secret_access_key=", aws.clone(), "", "aws_secret_access_key=$SECRET"),
            case(
                "aws_secret_access_key = ",
                aws.clone(),
                "",
                "aws_secret_access_key = load_secret_from_env1()",
            ),
            case("AWS_SECRET_ACCESS_KEY=", aws.clone(), " aws s3 ls", "AWS_SECRET_ACCESS_KEY= aws"),
            case("  \"SecretAccessKey\": \"", aws, "\",", "\"SecretAccessKey\": \"string\","),
            case(
                "\"SessionToken\": \"",
                mixed("", 60),
                "\"",
                "session_token = session.token_v2_current_1",
            ),
            case("AccountName=a;AccountKey=", azure, ";EndpointSuffix=x", "AccountKey=...;"),
            case("SharedAccessKey=", format!("{}=", mixed("", 43)), "", "SharedAccessKey=<key>"),
        ]
    }

    /// Passwords that are known by the text around them.
    fn passwords() -> Vec<SecretSample> {
        vec![
            case(
                "password=",
                "hunter2",
                "",
                "password=$1 password=\"$PW\" password=${PW} password=$(cat f)",
            ),
            case("password=", "correcthorse", " next", "password=None, password=getpass()"),
            case(
                "db.connect(password='",
                "hunter2",
                "')",
                "db.connect(password=password, passwd=pw)",
            ),
            case("PGPASSWORD=", "hunter2", " psql", "PWD=/home/me OLDPWD=/srv"),
            case("PASSWORD=\"", "hunter2", "\"", "password = getpass()"),
            case("password = \"", "hunter2", "\"  # for now", "password = args.password"),
            case("password = ", "hunter2", "", "password = input1 + salt"),
            case("passwd=", "s3cret!", "&x=1", "password_hash=0a1b2c3d4e password_file=/run/x"),
            case("Server=x;Uid=y;Pwd=", "hunter2", ";", "pwd=$(pwd) pwd=/srv/app"),
            case(
                "password: ",
                "hunter2",
                "",
                "password: String, password: &str) password: str = None",
            ),
            case(
                "  \"password\": \"",
                "hunter2",
                "\",",
                "\"password\": \"Passwort\", \"password\": \"string\"",
            ),
            case("{\\\"password\\\":\\\"", "hunter2", "\\\"}", "{\\\"password\\\":\\\"\\\"}"),
            case("password => '", "hunter2", "',", "if password == other1: password != x1"),
            case("--password=", "hunter2", " x", "--password-file=/run/x1 --password-stdin"),
            case("--password ", "hunter2", " x", "--password-file secret1.txt --password PASSWORD"),
            case(
                "passphrase: \"",
                "hunter2",
                "\"",
                "passphrase: \"Enter your passphrase 2 times\"",
            ),
        ]
    }

    /// Keys, tokens and passwords in headers, settings, files and commands.
    fn in_places() -> Vec<SecretSample> {
        vec![
            case("x-api-key: ", mixed("", 32), "", "x-api-key: $KEY"),
            case("X-Api-Key: ", hex("", 32), "\"", "X-Api-Key: YOUR_API_KEY_HERE_1"),
            case("api_key=\"", mixed("", 24), "\"", "api_key=settings.api_key_v2_default"),
            case("?apikey=", mixed("", 24), "&q=1", "?apikey=demo"),
            case("PRIVATE-TOKEN: ", mixed("", 20), "", "PRIVATE-TOKEN: <your_access_token_1>"),
            case("access_token=", mixed("", 40), "&x", "access_token=get_access_token_v2_now()"),
            case("client_secret: ", mixed("", 32), "", "client_secret: client_secret_from_vault_2"),
            case("//registry.npmjs.org/:_authToken=", mixed("", 36), "", "_authToken=${NPM_TOKEN}"),
            case("Authorization: Basic ", "bWU6aHVudGVyMg==", "", "Authorization: Basic x"),
            case("authorization: bearer ", mixed("", 32), "'", "Authorization: Bearer $TOKEN"),
            case("\"Authorization\": \"Bearer ", mixed("", 32), "\"", "Authorization: required"),
            case("postgres://me:", "hunter2", "@db/x", "postgres://me@db:5432/x"),
            case("redis://:", "hunter2", "@cache", "http://host:80/a@b"),
            case(
                "machine h login me password ",
                "hunter2",
                "",
                "enter your password again or log in",
            ),
            case("  password ", "hunter2", "", "password must have 8 characters"),
            case(
                "db.local:5432:app:me:",
                "hunter2",
                "",
                "127.0.0.1:5432:5432 0.0.0.0:5432->5432/tcp",
            ),
            case(
                "curl -s -u me:",
                "hunter2",
                " https://x",
                "docker run -u 1000:1000 x; curl -u \"$U:$P\" x",
            ),
            case("mysql -u root -p", "hunter2", " app", "mysql -u root -p app; mysql -P3306"),
            case("sshpass -p ", "hunter2", " ssh h", "sshpass -p \"$PW\" ssh h"),
        ]
    }

    fn all() -> Vec<SecretSample> {
        [tokens(), cloud_keys(), passwords(), in_places()].into_iter().flatten().collect()
    }

    #[test]
    fn of_every_form_the_secret_alone_is_masked_and_a_near_miss_is_not() {
        let redactor = Redactor::with_known_secrets(&[]).unwrap();
        let cases = all();
        assert!(cases.len() >= 80, "{}", cases.len());
        let mut wrong = Vec::new();
        for SecretSample { before, secret, after, near_miss } in &cases {
            let (line, expected) =
                (format!("{before}{secret}{after}"), format!("{before}{MASK}{after}"));
            let masked = redactor.mask_text(&line);
            if masked != expected {
                wrong.push(format!("{line}\n  → {masked}"));
            }
            let shown = redactor.mask_text(near_miss);
            if shown != *near_miss {
                wrong.push(format!("near miss {near_miss}\n  → {shown}"));
            }
            assert_eq!(redactor.mask_text(&masked), masked, "masking twice changes nothing");
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_form_has_a_case() {
        let cases = all();
        for (index, form) in FORMS.iter().enumerate() {
            let is_met = |case: &SecretSample| {
                let line = format!("{}{}{}", case.before, case.secret, case.after);
                find_secrets(index, line.as_bytes()).is_some_and(|found| !found.is_empty())
            };
            assert!(cases.iter().any(is_met), "{} {}", form.kind, form.pattern);
        }
    }

    #[test]
    fn a_secret_is_found_however_its_line_was_cut() {
        let redactor = Arc::new(Redactor::with_known_secrets(&[]).unwrap());
        for SecretSample { before, secret, after, .. } in all() {
            let line = format!("{before}{secret}{after}\n");
            for cut in 0..line.len() {
                let mut masker = LineMasker::new(Arc::clone(&redactor));
                let mut masked = masker.push(&line.as_bytes()[..cut]);
                masked.extend(masker.push(&line.as_bytes()[cut..]));
                masked.extend(masker.flush());
                let expected = format!("{before}{MASK}{after}\n");
                assert_eq!(String::from_utf8_lossy(&masked), expected, "cut at {cut}");
            }
        }
    }

    /// Source code, help texts and messages that contain names of secrets.
    const READABLE: &[&str] = &[
        "def login(user, password=None, *, api_key: str = \"\") -> Token:",
        "    self.password = password",
        "    password = os.environ[\"DB_PASSWORD\"]",
        "    password = os.environ.get('DB_PASSWORD', '')",
        "    password = config.db.password2",
        "    password = generate_password_hash(password1)",
        "    conn = connect(host=host1, password=password, port=5432)",
        "let password = rpassword::prompt_password(\"Password: \")?;",
        "pub struct Login { pub user: String, pub password: String }",
        "    password: Option<String>,",
        "    pub api_key: Option<SecretString>,",
        "const password = req.body.password;",
        "const { password, api_key } = process.env;",
        "  password: process.env.DB_PASSWORD,",
        "  password: { type: String, required: true, minlength: 8 },",
        "<input type=\"password\" name=\"password\" id=\"password1\">",
        "if (password.length < 8) throw new Error('password: too short');",
        "password=\"$1\"; export PGPASSWORD=\"$password\"",
        "read -s -p 'Password: ' password",
        "      --password string     Password for the registry",
        "      --password-stdin      Take the password from stdin",
        "error: invalid password for user 'me1'",
        "sudo: a password is required",
        "%wheel ALL=(ALL) NOPASSWD: ALL",
        "root:x:0:0:root:/root:/bin/bash",
        "PWD=/home/me",
        "bash: pwd: command not found",
        "ALTER ROLE app WITH PASSWORD NULL;",
        "password_encryption = scram-sha-256",
        "access_token = client.fetch_access_token(code1)",
        "token_type=bearer&expires_in=3600",
        "key-value pairs, sk-learn, task-1, hf_hub",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    ];

    #[test]
    fn code_help_and_messages_stay_readable() {
        let redactor = Redactor::with_known_secrets(&[]).unwrap();
        for line in READABLE {
            assert_eq!(redactor.mask_text(line), *line);
        }
    }
}
