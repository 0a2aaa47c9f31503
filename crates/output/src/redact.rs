//! Masking secrets in text. Pure.
//!
//! Patterns are matched within single lines, without their line ends, so that a text, a page of it
//! and a stream of it are masked alike, and the number of lines stays true. Only private keys are
//! followed over several lines.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

pub use super::redact_error::RedactError;
use super::secrets::{FORMS, PRIVATE_KEY, any_form, secrets_of};

/// What stands where a secret was.
pub const MASK: &str = "[redacted]";

/// A compiled pattern may take so much memory.
const PATTERN_BYTES: usize = 1024 * 1024;
/// All of them together may take so much, once more.
const ALL_PATTERNS_BYTES: usize = 16 * 1024 * 1024;
/// A stream holds back no more than this of a line that does not end.
const LINE_BYTES: usize = 64 * 1024;
/// Of a longer line so much is looked at again with what follows: a secret of this size is found
/// wherever it stands.
const OVERLAP_BYTES: usize = 4 * 1024;

/// Masks secrets. Cheap to ask: a text without any is given back as it is, nothing is allocated.
#[derive(Debug)]
pub struct Redactor {
    known: Known,
    given: Vec<Pattern>,
    /// Any of those that were given, if any were: an engine for none of them would cost memory.
    any: Option<RegexSet>,
}

/// What becomes of secrets that are known by their form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Shown,
    Masked,
}

#[derive(Debug)]
struct Pattern {
    regex: Regex,
    /// The number of the group named `secret`.
    group: Option<usize>,
}

/// What a line stands in, told by the lines before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    PrivateKey,
}

impl Redactor {
    /// Masks what these patterns match: all of a match, or of a pattern with a group named
    /// `secret` only that group. A `\b` is that of Unicode, which is slow on lines that are not
    /// ASCII; `(?-u:\b)` is not.
    ///
    /// # Errors
    /// The first pattern that cannot be used.
    pub fn new(patterns: &[String]) -> Result<Self, RedactError> {
        Self::build(Known::Shown, patterns)
    }

    /// Masks private keys, tokens and passwords that are known by their form, and what these
    /// patterns match.
    ///
    /// # Errors
    /// The first pattern that cannot be used.
    pub fn with_known_secrets(patterns: &[String]) -> Result<Self, RedactError> {
        Self::build(Known::Masked, patterns)
    }

    fn build(known: Known, texts: &[String]) -> Result<Self, RedactError> {
        let given = texts.iter().enumerate();
        let given = given.map(|(index, text)| Pattern::compile(index, text));
        let given = given.collect::<Result<_, _>>()?;
        let any = texts.last().map(|last| {
            let built = RegexSetBuilder::new(texts).size_limit(ALL_PATTERNS_BYTES).build();
            built.map_err(|error| RedactError::new(texts.len() - 1, last, &error))
        });
        Ok(Self { known, given, any: any.transpose()? })
    }

    /// The text with every secret masked.
    #[must_use]
    pub fn mask_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.mask_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // A pattern for bytes may have masked half a character.
            Cow::Owned(masked) => Cow::Owned(String::from_utf8_lossy(&masked).into_owned()),
        }
    }

    /// The bytes with every secret masked.
    #[must_use]
    pub fn mask_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.may_mask(bytes) {
            return Cow::Borrowed(bytes);
        }
        let mut inside = Inside::Nothing;
        let mut spans = Vec::new();
        let mut start = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let found = self.spans(line, &mut inside).into_iter();
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

    /// Whether a line of these may hold a secret: one look at all of them costs a fraction of a look at
    /// each line. A known form that matches a line matches a text with that line in it; of a pattern
    /// that was given, which may be about the ends of a line, that is not known.
    fn may_mask(&self, bytes: &[u8]) -> bool {
        let is_known = || match self.known {
            Known::Masked => any_form().is_none_or(|any| any.is_match(bytes)),
            Known::Shown => false,
        };
        self.any.is_some() || is_known()
    }

    /// The secrets of one line: in order, apart from each other, none empty.
    fn spans(&self, line: &[u8], inside: &mut Inside) -> Vec<Range<usize>> {
        let line = without_end(line);
        let mut spans = Vec::new();
        if *inside == Inside::PrivateKey {
            let rest = rest_of_key(line);
            let is_blank = line.trim_ascii().is_empty();
            if memmem::find(line, KEY_END).is_some() || (rest.is_none() && !is_blank) {
                *inside = Inside::Nothing;
            }
            spans.extend(rest);
        }
        match self.known {
            Known::Masked => add_known(line, inside, &mut spans),
            Known::Shown => {}
        }
        if let Some(any) = self.any.as_ref().filter(|any| any.is_match(line)) {
            for index in &any.matches(line) {
                self.given[index].add_spans(line, &mut spans);
            }
        }
        merged(spans)
    }
}

/// Adds the secrets that are known by their form. In doubt all of the line is one.
fn add_known(line: &[u8], inside: &mut Inside, spans: &mut Vec<Range<usize>>) {
    let Some(any) = any_form() else { return spans.push(0..line.len()) };
    if !any.is_match(line) {
        return;
    }
    for index in &any.matches(line) {
        match secrets_of(index, line) {
            Some(found) => spans.extend(found),
            None => spans.push(0..line.len()),
        }
        if FORMS[index].kind == PRIVATE_KEY && is_left_open(line) {
            *inside = Inside::PrivateKey;
        }
    }
}

/// `true` if a private key begins on this line and does not end there.
fn is_left_open(line: &[u8]) -> bool {
    memmem::rfind(line, KEY_BEGIN) > memmem::rfind(line, KEY_END)
}

impl Pattern {
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
            // A match by another branch, without the group, is masked as a whole.
            Some(group) => spans.extend(self.regex.captures_iter(line).filter_map(|found| {
                found.get(group).or_else(|| found.get(0)).map(|part| part.range())
            })),
        }
    }
}

const KEY_BEGIN: &[u8] = b"-----BEGIN ";
const KEY_END: &[u8] = b"-----END ";
/// What may stand in a key besides base64.
const KEY_HEADERS: [&[u8]; 5] = [b"Proc-Type:", b"DEK-Info:", b"Version:", b"Comment:", b"Hash:"];

/// What to mask of a line inside of a private key, if it can be part of one. Anything else ends it:
/// a beginning without an end must not hide all that follows.
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

/// The same places in order; those that overlap or touch are one. Empty ones hide nothing.
fn merged(mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
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

/// Masks a stream while it is written, whatever the chunks that it comes in.
///
/// The result depends on the bytes only, not on how they were cut. At most 64 KiB are held back,
/// of a line that has not ended; of a longer line, secrets up to 4 KiB are found anywhere.
#[derive(Debug)]
pub struct LineMasker {
    redactor: Arc<Redactor>,
    /// The beginning of a line: no newline in it, at most [`LINE_BYTES`].
    held: Vec<u8>,
    inside: Inside,
}

impl LineMasker {
    /// A masker at the beginning of a stream.
    #[must_use]
    pub const fn new(redactor: Arc<Redactor>) -> Self {
        Self { redactor, held: Vec::new(), inside: Inside::Nothing }
    }

    /// Takes the next bytes, and gives those that can be written now.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(chunk.len() + self.held.len());
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.take(piece, &mut out);
        }
        out
    }

    /// Whether the beginning of a line is held back.
    #[must_use]
    pub const fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Gives what was held back: at the end of the stream, or when it has to be seen now. A secret
    /// that is cut by this is not found.
    pub fn flush(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.release_line(&mut out);
        out
    }

    /// Takes bytes of one line, up to its newline at most.
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
        let spans = self.redactor.spans(&self.held, &mut self.inside);
        write_masked(&self.held, &spans, out);
        self.held.clear();
    }

    /// Makes room in a line that is too long, without a cut through a secret.
    fn release_part(&mut self, out: &mut Vec<u8>) {
        let mut spans = self.redactor.spans(&self.held, &mut self.inside);
        let cut = cut_before(LINE_BYTES - OVERLAP_BYTES, &spans);
        spans.retain(|span| span.end <= cut);
        write_masked(&self.held[..cut], &spans, out);
        self.held.drain(..cut);
    }
}

/// Where to cut: at `wanted`, or else where the secret that is there begins; after it, if there is
/// nothing before.
fn cut_before(wanted: usize, spans: &[Range<usize>]) -> usize {
    match spans.iter().find(|span| span.start < wanted && wanted < span.end) {
        Some(span) if span.start > 0 => span.start,
        Some(span) => span.end,
        None => wanted,
    }
}

#[cfg(test)]
#[path = "redact_forms_tests.rs"]
mod forms_tests;
#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
