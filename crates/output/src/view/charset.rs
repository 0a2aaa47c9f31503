//! In which character set a log is written, and how its bytes become text.

use std::borrow::Cow;

use encoding_rs::{DecoderResult, Encoding};
use memchr::{memchr_iter, memrchr};

use super::detect::detect;
use super::wide::Wide;

/// How much of a log's start decides about its character set.
pub(crate) const SAMPLE_BYTES: usize = 16 * 1024;

/// The longest character in any of them.
const MAX_CHARACTER: usize = 4;

/// The character set of a log. One decision for the whole log, so that all pages agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charset {
    /// UTF-8, and everything that is nothing else: bad bytes are shown as `�`.
    Utf8,
    /// One that has ASCII in it: Shift_JIS, GBK, windows-1251 and the like.
    Legacy(&'static Encoding),
    /// UTF-16 or UTF-32.
    Wide(Wide),
}

impl Charset {
    /// Decides by the first bytes of a log. Where UTF-8 is possible, it is UTF-8; so is what
    /// is no text at all.
    #[must_use]
    pub fn of(head: &[u8]) -> Self {
        detect(head)
    }

    /// Its name in lower case; none for UTF-8, which needs no mention.
    #[must_use]
    pub fn name(self) -> Option<String> {
        match self {
            Self::Utf8 => None,
            Self::Legacy(encoding) => Some(encoding.name().to_ascii_lowercase()),
            Self::Wide(wide) => Some(wide.name().to_owned()),
        }
    }

    /// The bytes of its smallest unit; text starts on a multiple of it.
    pub(crate) const fn unit(self) -> usize {
        match self {
            Self::Utf8 | Self::Legacy(_) => 1,
            Self::Wide(wide) => wide.unit(),
        }
    }

    /// Text with visible NULs, and how many bytes were none.
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

    /// Where each line ends, its newline included; bytes after the last newline are no line.
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

    /// The length without a character that has begun but not ended. The bytes begin with a
    /// whole one.
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

    /// How many bytes to skip to get to the start of a character; 0 where that cannot be told.
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

    /// The first place from `offset` on where a unit starts.
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
    let (mut at, mut bad_bytes) = (0, 0);
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

/// Whether the last character lacks a part: only the end of input makes it a bad one.
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

#[cfg(test)]
mod tests {
    use encoding_rs::{BIG5, EUC_JP, EUC_KR, GB18030, GBK, SHIFT_JIS, WINDOWS_1251};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_begun_character_is_told_from_a_whole_one_in_every_charset() {
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
    fn what_is_no_character_of_a_charset_is_counted() {
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
}
