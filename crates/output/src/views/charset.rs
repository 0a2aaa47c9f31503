//! The kind of a log's bytes: detects its character set and decodes them, also line by line; or
//! detects binary content and media types, and formats hexdumps.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{DecoderResult, Encoding, UTF_8};
use infer::MatcherType;
use memchr::{memchr, memchr_iter, memmem, memrchr};
use serde::de::IgnoredAny;

/// The bytes at the start of a log that decide about its character set.
pub(crate) const SAMPLE_BYTES: usize = 16 * 1024;

/// The longest character of any character set, in bytes.
const MAX_CHARACTER: usize = 4;

/// The character set of a log. It is decided once for the whole log, so that all pages agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charset {
    /// UTF-8, and everything that is not recognised: invalid bytes are shown as `�`.
    Utf8,
    /// A character set that includes ASCII, such as Shift_JIS, GBK or windows-1251.
    Legacy(&'static Encoding),
    /// UTF-16 or UTF-32, in either byte order.
    Wide(Wide),
}

impl Charset {
    /// The name in lower case; `None` for UTF-8, which needs no mention.
    #[must_use]
    pub fn name(self) -> Option<String> {
        match self {
            Self::Utf8 => None,
            Self::Legacy(encoding) => Some(encoding.name().to_ascii_lowercase()),
            Self::Wide(wide) => Some(wide.name().to_owned()),
        }
    }

    /// The size of the smallest unit in bytes; text starts on a multiple of it.
    pub(crate) const fn unit(self) -> usize {
        match self {
            Self::Utf8 | Self::Legacy(_) => 1,
            Self::Wide(wide) => wide.unit(),
        }
    }

    /// Decodes text with visible NULs. Returns the number of bytes that are no text.
    pub(crate) fn decode(self, bytes: &[u8]) -> (Cow<'_, str>, usize) {
        let (text, bad_bytes) = match self {
            Self::Utf8 => utf8(bytes),
            Self::Legacy(encoding) => legacy(bytes, encoding),
            Self::Wide(wide) => wide.decode(bytes),
        };
        match memchr_iter(0, text.as_bytes()).count() {
            0 => (text, bad_bytes),
            nuls => (Cow::Owned(text.replace('\0', "␀")), bad_bytes + nuls * self.unit()),
        }
    }

    /// The end of each line, its newline included. Bytes after the last newline are not a line.
    pub(crate) fn line_ends(self, bytes: &[u8]) -> Box<dyn Iterator<Item = usize> + '_> {
        match self {
            Self::Utf8 | Self::Legacy(_) => Box::new(memchr_iter(b'\n', bytes).map(|at| at + 1)),
            Self::Wide(wide) => Box::new(wide.line_ends(bytes)),
        }
    }

    /// The end of the last whole line.
    pub(crate) fn last_line_end(self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Utf8 | Self::Legacy(_) => memrchr(b'\n', bytes).map(|newline| newline + 1),
            Self::Wide(wide) => wide.line_ends(bytes).last(),
        }
    }

    /// All lines with their newlines, an unfinished last one included.
    pub(super) fn lines(self, bytes: &[u8]) -> Vec<&[u8]> {
        let mut lines = Vec::new();
        let mut start = 0;
        for end in self.line_ends(bytes) {
            lines.push(&bytes[start..end]);
            start = end;
        }
        if start < bytes.len() {
            lines.push(&bytes[start..]);
        }
        lines
    }

    /// The length without an unfinished character at the end. The bytes must begin with a whole
    /// character.
    pub(crate) fn whole_characters(self, bytes: &[u8]) -> usize {
        match self {
            Self::Utf8 => whole_utf8(bytes),
            Self::Legacy(encoding) => {
                let shorter = (0..=bytes.len().min(MAX_CHARACTER - 1))
                    .find(|begun| !ends_inside(&bytes[..bytes.len() - begun], encoding));
                bytes.len() - shorter.unwrap_or(0)
            }
            Self::Wide(wide) => wide.whole_characters(bytes),
        }
    }

    /// The number of bytes to skip to the start of a character; 0 if it is not known.
    pub(crate) fn to_character_start(self, offset: u64, bytes: &[u8]) -> usize {
        match self {
            Self::Utf8 => {
                let skip = bytes.iter().take(4).take_while(|byte| is_continuation(**byte)).count();
                if skip < 4 { skip } else { 0 }
            }
            Self::Legacy(_) => 0,
            Self::Wide(_) => (self.aligned(offset) - offset) as usize,
        }
    }

    /// The first offset at or after `offset` at which a unit starts.
    #[must_use]
    pub fn aligned(self, offset: u64) -> u64 {
        offset.next_multiple_of(self.unit() as u64)
    }
}

fn utf8(bytes: &[u8]) -> (Cow<'_, str>, usize) {
    let text = String::from_utf8_lossy(bytes);
    let bad_bytes = match &text {
        Cow::Borrowed(_) => 0,
        Cow::Owned(_) => bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum(),
    };
    (text, bad_bytes)
}

fn legacy<'a>(bytes: &'a [u8], encoding: &'static Encoding) -> (Cow<'a, str>, usize) {
    if let Some(text) = encoding.decode_without_bom_handling_and_without_replacement(bytes) {
        return (text, 0);
    }
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let mut text = String::with_capacity(bytes.len() * 3);
    let mut at = 0;
    let mut bad_bytes = 0;
    loop {
        let (result, read) =
            decoder.decode_to_string_without_replacement(&bytes[at..], &mut text, true);
        at += read;
        match result {
            DecoderResult::InputEmpty => return (Cow::Owned(text), bad_bytes),
            DecoderResult::OutputFull => text.reserve(bytes.len() - at + MAX_CHARACTER),
            DecoderResult::Malformed(length, _) => {
                bad_bytes += usize::from(length);
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }
}

/// `true` if the last character is incomplete: only the end of input makes it invalid.
fn ends_inside(bytes: &[u8], encoding: &'static Encoding) -> bool {
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let mut text = String::with_capacity(bytes.len() * 3 + MAX_CHARACTER);
    let (_, _, _) = decoder.decode_to_string(bytes, &mut text, false);
    text.clear();
    let (_, _, is_bad) = decoder.decode_to_string(b"", &mut text, true);
    is_bad
}

fn whole_utf8(bytes: &[u8]) -> usize {
    for begun in 1..=bytes.len().min(3) {
        let tail = &bytes[bytes.len() - begun..];
        if is_continuation(tail[0]) {
            continue;
        }
        let incomplete = matches!(str::from_utf8(tail), Err(error) if error.error_len().is_none());
        return if incomplete { bytes.len() - begun } else { bytes.len() };
    }
    bytes.len()
}

const fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// A character set whose units are wider than a byte, with their byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wide {
    /// UTF-16, low byte first.
    Utf16Le,
    /// UTF-16, high byte first.
    Utf16Be,
    /// UTF-32, low byte first.
    Utf32Le,
    /// UTF-32, high byte first.
    Utf32Be,
}

/// The mark at the beginning of a text that tells its byte order. It is not part of the text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The first of the two UTF-16 units of a rare character.
const FIRST_OF_PAIR: std::ops::RangeInclusive<u32> = 0xd800..=0xdbff;

impl Wide {
    const fn name(self) -> &'static str {
        match self {
            Self::Utf16Le => "utf-16le",
            Self::Utf16Be => "utf-16be",
            Self::Utf32Le => "utf-32le",
            Self::Utf32Be => "utf-32be",
        }
    }

    const fn unit(self) -> usize {
        match self {
            Self::Utf16Le | Self::Utf16Be => 2,
            Self::Utf32Le | Self::Utf32Be => 4,
        }
    }

    /// Decodes text without byte order marks. Returns the number of bytes that are no text.
    fn decode(self, bytes: &[u8]) -> (Cow<'_, str>, usize) {
        let mut bad_bytes = bytes.len() % self.unit();
        let mut bad = |count: usize| {
            bad_bytes += count;
            char::REPLACEMENT_CHARACTER
        };
        let mut text: String = match self {
            Self::Utf16Le | Self::Utf16Be => {
                // The units have 16 bits: nothing is lost.
                let units = self.units(bytes).map(|unit| unit as u16);
                char::decode_utf16(units).map(|it| it.unwrap_or_else(|_| bad(2))).collect()
            }
            Self::Utf32Le | Self::Utf32Be => self
                .units(bytes)
                .map(|unit| char::from_u32(unit).unwrap_or_else(|| bad(4)))
                .collect(),
        };
        text.retain(|character| character != BYTE_ORDER_MARK);
        if !bytes.len().is_multiple_of(self.unit()) {
            text.push(char::REPLACEMENT_CHARACTER);
        }
        (Cow::Owned(text), bad_bytes)
    }

    /// The end of each line, its newline included.
    fn line_ends(self, bytes: &[u8]) -> impl Iterator<Item = usize> {
        let newlines = self.units(bytes).enumerate().filter(|(_, unit)| *unit == u32::from(b'\n'));
        newlines.map(move |(index, _)| (index + 1) * self.unit())
    }

    /// The length without an unfinished character at the end.
    fn whole_characters(self, bytes: &[u8]) -> usize {
        let length = bytes.len() - bytes.len() % self.unit();
        let last = self.units(&bytes[length.saturating_sub(self.unit())..length]).next();
        let is_half = self.unit() == 2 && last.is_some_and(|unit| FIRST_OF_PAIR.contains(&unit));
        if is_half { length - self.unit() } else { length }
    }

    fn units(self, bytes: &[u8]) -> impl Iterator<Item = u32> {
        bytes.chunks_exact(self.unit()).map(move |unit| {
            let add = |number: u32, byte: &u8| number << 8 | u32::from(*byte);
            match self {
                Self::Utf16Be | Self::Utf32Be => unit.iter().fold(0, add),
                Self::Utf16Le | Self::Utf32Le => unit.iter().rev().fold(0, add),
            }
        })
    }
}

/// Fewer invalid bytes than this are an error in UTF-8, not another character set.
const EVIDENCE: usize = 4;

/// The byte order marks of UTF-16 and UTF-32. Longer marks come first, because one of them begins
/// like a shorter one.
const BYTE_ORDER_MARKS: [(&[u8], Wide); 4] = [
    (b"\xff\xfe\0\0", Wide::Utf32Le),
    (b"\0\0\xfe\xff", Wide::Utf32Be),
    (b"\xff\xfe", Wide::Utf16Le),
    (b"\xfe\xff", Wide::Utf16Be),
];

impl Charset {
    /// Detects the character set from the first bytes of a log. Bytes that may be UTF-8 count as
    /// UTF-8, and so do bytes that are no text at all.
    #[must_use]
    pub fn detect(head: &[u8]) -> Self {
        let head = &head[..head.len().min(SAMPLE_BYTES)];
        if let Some((_, wide)) = BYTE_ORDER_MARKS.iter().find(|(mark, _)| head.starts_with(mark)) {
            return Charset::Wide(*wide);
        }
        // A character that the end of the sample cuts in two is not a bad one.
        let head = &head[..whole_utf8(head)];
        let bad: usize = head.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
        let good = head.iter().filter(|byte| !byte.is_ascii()).count() - bad;
        // 7-bit Japanese switches between alphabets by escape codes.
        let is_switched = bad == 0 && memmem::find(head, b"\x1b$").is_some();
        // UTF-8 text with some errors has more valid than invalid characters.
        let is_legacy = is_switched || (bad >= EVIDENCE && bad > good);
        if !is_legacy || memchr(0, head).is_some() {
            return Charset::Utf8;
        }
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
        detector.feed(head, false);
        let guess = detector.guess(None, Utf8Detection::Allow);
        let charset = if guess == UTF_8 { Charset::Utf8 } else { Charset::Legacy(guess) };
        if is_text(charset, head) { charset } else { Charset::Utf8 }
    }
}

/// `true` if nearly all bytes decode, and most characters beyond ASCII are letters.
fn is_text(charset: Charset, head: &[u8]) -> bool {
    let (text, bad_bytes) = charset.decode(&head[..charset.whole_characters(head)]);
    let beyond = || text.chars().filter(|character| !character.is_ascii());
    let letters = beyond().filter(|character| character.is_alphabetic()).count();
    let controls = beyond().filter(|character| character.is_control()).count();
    bad_bytes * 50 <= head.len() && controls == 0 && letters * 3 >= beyond().count() * 2
}

/// The bytes of the content that are examined.
const SAMPLE: usize = 8 * 1024;
/// The least content that is judged by the share of its invalid bytes.
const JUDGED_FROM: usize = 64;
/// The largest JSON that is recognised, because all of it has to be parsed.
const MAX_JSON: usize = 1024 * 1024;

/// `true` if the content is no text: more than three tenths of it are invalid UTF-8, NUL bytes or
/// other control characters that do not occur in text; or it has a known signature and some of it
/// is no text. The first 8 KiB decide. Fewer than 64 bytes without a signature are always text: a
/// name in Latin-1 is more useful with a replacement character than as a hexdump.
#[must_use]
pub fn is_binary(content: &[u8]) -> bool {
    let sample = &content[..content.len().min(SAMPLE)];
    let (_, bad_bytes) = Charset::Utf8.decode(sample);
    // A character that the end of the sample splits is not invalid.
    let bad_bytes =
        if sample.len() < content.len() { bad_bytes.saturating_sub(3) } else { bad_bytes };
    let no_text = bad_bytes + sample.iter().filter(|byte| is_odd_control(**byte)).count();
    (sample.len() >= JUDGED_FROM && no_text * 10 > sample.len() * 3)
        || (bad_bytes > 0
            && infer::get(sample).is_some_and(|kind| kind.matcher_type() != MatcherType::Text))
}

/// Does the same for a log in this character set: if it is not UTF-8, the content is binary if more
/// than three tenths of it are not valid in the character set.
#[must_use]
pub fn is_binary_in(content: &[u8], charset: Charset) -> bool {
    match charset {
        Charset::Utf8 => is_binary(content),
        Charset::Legacy(_) | Charset::Wide(_) => charset.decode(content).1 * 10 > content.len() * 3,
    }
}

/// `true` for a control character that neither lays out text nor colours it. NUL is counted
/// elsewhere.
const fn is_odd_control(byte: u8) -> bool {
    matches!(byte, 1..=6 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f)
}

/// The media type of the content: a known binary format, `application/json`, `application/x-ndjson`
/// for JSON lines, a known text format, `text/plain`, or `application/octet-stream`.
#[must_use]
pub fn mime(content: &[u8]) -> &'static str {
    let kind = infer::get(content);
    if is_binary(content) {
        return kind.map_or("application/octet-stream", |kind| kind.mime_type());
    }
    if let Some(json) = json_mime(content) {
        return json;
    }
    // Text that merely begins like a binary format ("BM…") is still text.
    kind.filter(|kind| kind.matcher_type() == MatcherType::Text)
        .map_or("text/plain", |kind| kind.mime_type())
}

/// The media type of JSON that is an object, an array, or lines with one of them each.
fn json_mime(content: &[u8]) -> Option<&'static str> {
    let content = content.trim_ascii();
    if content.len() > MAX_JSON || !is_json_container(content.first().copied()) {
        return None;
    }
    if is_json_value(content) {
        return Some("application/json");
    }
    let mut lines =
        content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|it| !it.is_empty());
    let has_value = |line: &[u8]| is_json_container(line.first().copied()) && is_json_value(line);
    lines.all(has_value).then_some("application/x-ndjson")
}

const fn is_json_container(first: Option<u8>) -> bool {
    matches!(first, Some(b'{' | b'['))
}

fn is_json_value(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// Bytes in one row of a hexdump.
const ROW: usize = 16;

/// Formats bytes like `hexdump -C`, without squeezing equal rows, counted from 0.
#[must_use]
pub fn hexdump(bytes: &[u8]) -> String {
    hexdump_extents(&[(0, bytes)])
}

/// Formats contiguous ranges of a log like `hexdump -C`, each from its own offset on. The last row
/// is the offset after them. Each range starts a new row, so that every row's offset is correct.
#[must_use]
pub fn hexdump_extents(stretches: &[(u64, impl AsRef<[u8]>)]) -> String {
    let mut dump = String::new();
    let mut end = None;
    for (start, bytes) in stretches {
        let mut offset = *start;
        for row in bytes.as_ref().chunks(ROW) {
            let hex: String = (0..ROW).map(|column| hex_cell(row, column)).collect();
            let ascii: String = row.iter().map(|byte| printable(*byte)).collect();
            // Writing to a string cannot fail.
            writeln!(dump, "{offset:08x} {hex} |{ascii}|").ok();
            offset += row.len() as u64;
            end = Some(offset);
        }
    }
    if let Some(end) = end {
        writeln!(dump, "{end:08x}").ok();
    }
    dump
}

fn hex_cell(row: &[u8], column: usize) -> String {
    let gap = if column.is_multiple_of(8) { " " } else { "" };
    row.get(column).map_or_else(|| format!("{gap}   "), |byte| format!("{gap}{byte:02x} "))
}

fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }
}

/// The length up to which an unfinished line is held back.
const HELD_BYTES: usize = 64 * 1024;
/// A longer line is decoded in parts, so that offsets inside it are known too.
const PART_BYTES: usize = 4 * 1024;

/// Decodes output in another character set to UTF-8, line by line, so that each line keeps its
/// offset in the log. An unfinished line is held back until [`LineDecoder::end`], unless it is over
/// 64 KiB.
#[derive(Debug)]
pub(crate) struct LineDecoder {
    charset: Charset,
    /// The bytes that are held back.
    held: Vec<u8>,
    /// The offset of the held bytes in the log.
    held_at: u64,
}

/// A line, or a part of a long line: its range in the log, and its text with the newline.
pub(crate) type DecodedPart = (Range<u64>, String);

impl LineDecoder {
    /// Returns `None` for UTF-8, which needs no decoder.
    pub(crate) fn for_charset(charset: Charset) -> Option<Self> {
        match charset {
            Charset::Utf8 => None,
            Charset::Legacy(_) | Charset::Wide(_) => {
                Some(Self { charset, held: Vec::new(), held_at: 0 })
            }
        }
    }

    /// Adds the bytes at `offset` of the log, or of the stream that is read.
    pub(crate) fn add(&mut self, offset: u64, chunk: &[u8]) -> Vec<DecodedPart> {
        let before = self.held.len();
        if before == 0 {
            self.held_at = offset;
        }
        self.held.extend_from_slice(chunk);
        let whole = match self.charset.last_line_end(&self.held) {
            Some(end) => end,
            None if self.held.len() >= HELD_BYTES => self.charset.whole_characters(&self.held),
            None => 0,
        };
        // The held bytes may not be adjacent to the chunk.
        let start = self.held_at;
        let offset_at = |index: usize| match index.checked_sub(before) {
            Some(in_piece) => offset + in_piece as u64,
            None => start + index as u64,
        };
        let decoded = decode_parts(self.charset, &self.held[..whole], offset_at);
        self.held.drain(..whole);
        self.held_at = offset_at(whole);
        decoded
    }

    /// Decodes the held bytes: nothing follows that belongs to them.
    pub(crate) fn end(&mut self) -> Vec<DecodedPart> {
        let held = std::mem::take(&mut self.held);
        decode_parts(self.charset, &held, |index| self.held_at + index as u64)
    }
}

fn decode_parts(
    charset: Charset,
    bytes: &[u8],
    offset_at: impl Fn(usize) -> u64,
) -> Vec<DecodedPart> {
    let ends = charset.line_ends(bytes).chain(std::iter::once(bytes.len()));
    let mut decoded = Vec::new();
    let mut at = 0;
    for end in ends {
        while at < end {
            let part = &bytes[at..end.min(at + PART_BYTES)];
            let is_last = at + part.len() == end;
            let length = if is_last { part.len() } else { charset.whole_characters(part) };
            let text = charset.decode(&part[..length]).0.into_owned();
            // The offset after the last byte: the next byte may not be adjacent.
            decoded.push((offset_at(at)..offset_at(at + length - 1) + 1, text));
            at += length;
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use encoding_rs::{
        BIG5, EUC_JP, EUC_KR, GB18030, GBK, ISO_2022_JP, ISO_8859_2, KOI8_R, KOI8_U, SHIFT_JIS,
        WINDOWS_1251, WINDOWS_1252, WINDOWS_1253,
    };
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unfinished_characters_are_recognised_in_every_charset() {
        let text = "日本語の字、中文汉字漢字";
        for encoding in [SHIFT_JIS, EUC_JP, GBK, GB18030, BIG5, EUC_KR] {
            let kept: String =
                text.chars().filter(|c| !encoding.encode(&c.to_string()).2).collect();
            let (bytes, _, _) = encoding.encode(&kept);
            let charset = Charset::Legacy(encoding);
            let mut starts = vec![0];
            for character in kept.chars() {
                starts.push(
                    starts[starts.len() - 1] + encoding.encode(&character.to_string()).0.len(),
                );
            }
            for length in 0..=bytes.len() {
                let whole = *starts.iter().rfind(|start| **start <= length).unwrap();
                assert_eq!(charset.whole_characters(&bytes[..length]), whole, "{encoding:?}");
            }
        }
    }

    #[test]
    fn invalid_bytes_of_a_charset_are_counted() {
        let charset = Charset::Legacy(SHIFT_JIS);
        let (text, bad_bytes) = charset.decode(b"\x93\xfa\xff\0ok");
        assert_eq!((text.as_ref(), bad_bytes), ("日\u{fffd}␀ok", 2));
        assert_eq!(Charset::Legacy(WINDOWS_1251).decode(b"\xcf\xf0").0, "Пр");
    }

    #[test]
    fn a_charset_has_its_usual_name() {
        assert_eq!(Charset::Legacy(SHIFT_JIS).name().as_deref(), Some("shift_jis"));
        assert_eq!(Charset::Wide(Wide::Utf16Le).name().as_deref(), Some("utf-16le"));
        assert_eq!(Charset::Utf8.name(), None);
    }

    fn any_charset() -> impl Strategy<Value = Charset> {
        prop_oneof![
            Just(Charset::Utf8),
            Just(Charset::Legacy(SHIFT_JIS)),
            Just(Charset::Legacy(GB18030)),
            Just(Charset::Legacy(WINDOWS_1251)),
            Just(Charset::Wide(Wide::Utf16Le)),
            Just(Charset::Wide(Wide::Utf32Be)),
        ]
    }

    proptest! {
        #[test]
        fn any_bytes_are_text_in_any_charset(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            charset in any_charset(),
        ) {
            let (_, bad_bytes) = charset.decode(&bytes);
            prop_assert!(bad_bytes <= bytes.len());
            let whole = charset.whole_characters(&bytes);
            prop_assert!(whole <= bytes.len() && bytes.len() - whole < MAX_CHARACTER);
            prop_assert_eq!(charset.lines(&bytes).concat(), bytes);
        }
    }

    fn utf16le(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn each_order_and_width_is_decoded() {
        for (wide, bytes) in [
            (Wide::Utf16Le, utf16le("\u{feff}é😀\n")),
            (Wide::Utf16Be, "é😀\n".encode_utf16().flat_map(u16::to_be_bytes).collect()),
            (Wide::Utf32Le, "é😀\n".chars().flat_map(|c| u32::from(c).to_le_bytes()).collect()),
            (Wide::Utf32Be, "é😀\n".chars().flat_map(|c| u32::from(c).to_be_bytes()).collect()),
        ] {
            assert_eq!(wide.decode(&bytes), (Cow::Borrowed("é😀\n"), 0), "{wide:?}");
            assert_eq!(wide.line_ends(&bytes).collect::<Vec<_>>(), [bytes.len()], "{wide:?}");
        }
    }

    #[test]
    fn half_a_character_is_held_back_and_invalid_at_the_end() {
        let bytes = utf16le("a😀");
        for (length, whole) in [(6, 6), (5, 2), (4, 2), (3, 2), (2, 2), (1, 0)] {
            assert_eq!(Wide::Utf16Le.whole_characters(&bytes[..length]), whole, "{length}");
        }
        assert_eq!(Wide::Utf16Le.decode(&bytes[..5]), (Cow::Borrowed("a\u{fffd}\u{fffd}"), 3));
    }

    #[test]
    fn a_newline_is_a_whole_unit() {
        // U+0A0A and U+010A contain the byte of a newline.
        assert_eq!(Wide::Utf16Le.line_ends(&utf16le("\u{a0a}\u{10a}\nx")).collect::<Vec<_>>(), [6]);
    }

    const JAPANESE: &str = "エラー: ファイルが見つかりません。設定を確認してください。\n";
    const CHINESE: &str = "错误：找不到文件。请检查您的配置，然后重试。\n";
    const TAIWANESE: &str = "錯誤：找不到檔案。請檢查您的設定，然後再試一次。\n";
    const KOREAN: &str = "오류: 파일을 찾을 수 없습니다. 설정을 확인하십시오.\n";
    const RUSSIAN: &str = "Ошибка: файл не найден. Проверьте настройки и повторите попытку.\n";
    const GREEK: &str = "Σφάλμα: το αρχείο δεν βρέθηκε. Ελέγξτε τις ρυθμίσεις σας.\n";
    const GERMAN: &str = "Fehler: Übergrößenträger für Straße nicht gefunden, später prüfen.\n";
    const CZECH: &str = "Chyba: příliš žluťoučký kůň úpěl ďábelské ódy, zkontrolujte nastavení.\n";

    #[track_caller]
    fn check(text: &str, encoding: &'static Encoding, others: &[&'static Encoding]) {
        let (bytes, _, unmappable) = encoding.encode(text);
        assert!(!unmappable);
        let Charset::Legacy(found) = Charset::detect(&bytes) else {
            panic!("{encoding:?} taken for UTF-8")
        };
        assert!(found == encoding || others.contains(&found), "{found:?} for {encoding:?}");
        assert_eq!(Charset::Legacy(found).decode(&bytes), (text.into(), 0));
    }

    #[test]
    fn legacy_character_sets_are_recognised_by_a_line_of_text() {
        check(JAPANESE, SHIFT_JIS, &[]);
        check(JAPANESE, EUC_JP, &[]);
        check(CHINESE, GBK, &[]);
        check(TAIWANESE, BIG5, &[]);
        check(KOREAN, EUC_KR, &[]);
        check(RUSSIAN, WINDOWS_1251, &[]);
        check(RUSSIAN, KOI8_R, &[KOI8_U]);
        check(GREEK, WINDOWS_1253, &[encoding_rs::ISO_8859_7]);
        check(GERMAN, WINDOWS_1252, &[]);
        check(CZECH, ISO_8859_2, &[]);
    }

    #[test]
    fn wide_character_sets_are_recognised_by_their_mark() {
        let le = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let be = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
        for (bytes, wide) in [
            (le("\u{feff}日本語"), Wide::Utf16Le),
            (be("\u{feff}日本語"), Wide::Utf16Be),
            (le("\u{feff}dir listing\r\n"), Wide::Utf16Le),
            (be("\u{feff}dir listing\r\n"), Wide::Utf16Be),
            (le("\u{feff}größer und später\r\n"), Wide::Utf16Le),
            (b"\xff\xfe\0\0h\0\0\0i\0\0\0".to_vec(), Wide::Utf32Le),
            (b"\0\0\xfe\xff\0\0\0h\0\0\0i".to_vec(), Wide::Utf32Be),
        ] {
            assert_eq!(Charset::detect(&bytes), Charset::Wide(wide), "{bytes:?}");
        }
    }

    #[test]
    fn utf8_with_errors_and_binary_data_count_as_utf8() {
        let flawed = [GERMAN.repeat(3).as_bytes(), b"\xff\xfe\xfd\xfc\n"].concat();
        let cut = &"ä".repeat(SAMPLE_BYTES).into_bytes()[..SAMPLE_BYTES - 1];
        let png =
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
        let noise: Vec<u8> =
            (0..2000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for bytes in [
            b"".as_slice(),
            b"plain\n",
            b"here\xffand\xfemore\n",
            b"a cut caf\xc3\n",
            b"nothing beside it: \xe9\n",
            b"too short to tell: caf\xe9\n",
            b"n\0o\0 \0m\0a\0r\0k\0\n\0",
            b"\x1b[31mred\x1b[0m costs \x1b$B\n",
            &flawed,
            cut,
            png,
            b"./a\0./b\0./c\0./d\0",
            &[0; 100],
            &noise,
            b"a\xff\0b\n\xfe\0",
            &[0x80; 40],
        ] {
            assert_eq!(
                Charset::detect(bytes),
                Charset::Utf8,
                "{:?}",
                &bytes[..bytes.len().min(40)]
            );
        }
    }

    #[test]
    fn short_texts_are_recognised_too() {
        check("cafés à thé glacé\n", WINDOWS_1252, &[]);
        check("señor, mañana, años, niño\n", WINDOWS_1252, &[]);
        check("エラー: 失敗しました\n", EUC_JP, &[]);
        check("エラー: ファイルが見つかりません\n", EUC_JP, &[]);
        check("오류: 파일 없음\n", EUC_KR, &[]);
        check("빌드 실패\n", EUC_KR, &[]);
        check(JAPANESE, ISO_2022_JP, &[]);
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_charset(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let charset = Charset::detect(&bytes);
            prop_assert!(charset.decode(&bytes).1 <= bytes.len());
        }
    }

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";

    #[track_caller]
    fn check_mime(content: &[u8], expected: &str) {
        assert_eq!(mime(content), expected, "{content:?}");
    }

    #[test]
    fn media_types_are_told_apart() {
        check_mime(b"", "text/plain");
        check_mime(b"hello\n", "text/plain");
        check_mime(b"BM is no bitmap\n", "text/plain");
        check_mime(b" {\"a\": [1, 2]}\n", "application/json");
        check_mime(b"{\"a\":1}\n{\"a\":2}\n", "application/x-ndjson");
        check_mime(b"{\"a\":1}\r\n\r\n[2]\r\n", "application/x-ndjson");
        check_mime(b"{\n\"a\":1\n}\n{\n\"a\":2\n}\n", "text/plain");
        check_mime(b"{\"a\":1}\nand more\n", "text/plain");
        check_mime(b"[INFO] started [pid 1]\n", "text/plain");
        check_mime(PNG, "image/png");
        check_mime(b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "application/gzip");
        check_mime(&[0; 64], "application/octet-stream");
        check_mime(b"a\0b", "text/plain");
    }

    #[test]
    fn text_in_other_languages_is_not_binary() {
        assert!(!is_binary("grüße, 世界 😀\n".repeat(2000).as_bytes()));
        assert!(!is_binary(b"one bad byte \xff in a longer line of text\n"));
        assert!(is_binary(PNG));
        assert!(!is_binary(b""));
    }

    #[test]
    fn a_few_invalid_bytes_or_nuls_are_not_binary() {
        for text in [&b"caf\xe9\n"[..], b"a\xffb", b"\xff\0abc\n", b"./src/a.rs\0./src/b.rs\0"] {
            assert!(!is_binary(text), "{text:?}");
        }
        assert!(!is_binary(&b"./src/main.rs\0".repeat(500)), "find -print0");
        assert!(!is_binary(&[&b"line\n".repeat(500)[..], b"\0"].concat()));
        assert!(!is_binary(&b"\x1b[31mred\x1b[0m\r\n".repeat(500)));
    }

    #[test]
    fn many_bytes_that_are_no_text_are_binary() {
        assert!(is_binary(&[0; 100]));
        assert!(is_binary(&b"h\0i\0".repeat(50)), "UTF-16");
        assert!(is_binary(&[0xff, 0xfe, 0xfd, b'a'].repeat(50)));
        assert!(is_binary(&[1, 2, 3, b'a'].repeat(50)));
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_kind(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(mime(&bytes).contains('/'));
        }
    }

    #[test]
    fn a_hexdump_has_the_classic_form() {
        let expected = "\
00000000  89 50 4e 47 0d 0a 1a 0a  00 00 00 0d 49 48 44 52  |.PNG........IHDR|
00000010  00 00 00 01 00 00 00 01  08 06 00 00 00           |.............|
0000001d
";
        assert_eq!(hexdump(PNG), expected);
        assert_eq!(hexdump(b""), "");
    }

    #[test]
    fn a_hexdump_has_the_offsets_of_the_log() {
        let dumped =
            hexdump_extents(&[(5, b"abc".as_slice()), (0x1_0000_0000, b"0123456789abcdefg")]);
        let offsets: Vec<&str> =
            dumped.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(offsets, ["00000005", "100000000", "100000010", "100000011"]);
    }

    #[test]
    fn decoded_lines_are_whole_for_any_chunks() {
        let bytes = utf16le("\u{feff}one\nzwölf 😀\nrest");
        for cut in 0..bytes.len() {
            let mut decoder = LineDecoder::for_charset(Charset::Wide(Wide::Utf16Le)).unwrap();
            let (first, second) = bytes.split_at(cut);
            let mut lines = decoder.add(0, first);
            // Simulates another stream that wrote 100 bytes in between.
            lines.extend(decoder.add(cut as u64 + 100, second));
            lines.extend(decoder.end());
            let texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(texts, ["one\n", "zwölf 😀\n", "rest"], "{cut}");
            let apart = |offset: u64| if offset < cut as u64 { offset } else { offset + 100 };
            assert_eq!(lines[1].0.start, apart(10), "{cut}");
        }
    }

    #[test]
    fn an_endless_line_is_decoded_in_parts() {
        let bytes = utf16le(&"😀".repeat(40_000));
        let mut decoder = LineDecoder::for_charset(Charset::Wide(Wide::Utf16Le)).unwrap();
        let parts = decoder.add(0, &bytes);
        assert!(parts.windows(2).all(|pair| pair[0].0.end == pair[1].0.start));
        let text: String = parts.into_iter().map(|(_, text)| text).collect();
        assert_eq!(text, "😀".repeat(40_000));
    }
}
