//! UTF-16 and UTF-32: character sets whose units are wider than a byte.

use std::borrow::Cow;

/// A character set of wide units, and their byte order.
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

/// What a text may begin with to tell its byte order. It is no part of the text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The first of the two units that a rare character takes in UTF-16.
const FIRST_OF_PAIR: std::ops::RangeInclusive<u32> = 0xd800..=0xdbff;

impl Wide {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Utf16Le => "utf-16le",
            Self::Utf16Be => "utf-16be",
            Self::Utf32Le => "utf-32le",
            Self::Utf32Be => "utf-32be",
        }
    }

    pub(super) const fn unit(self) -> usize {
        match self {
            Self::Utf16Le | Self::Utf16Be => 2,
            Self::Utf32Le | Self::Utf32Be => 4,
        }
    }

    /// Text without byte order marks, and how many bytes were none.
    pub(super) fn decode(self, bytes: &[u8]) -> (Cow<'_, str>, usize) {
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

    /// Where each line ends, its newline included.
    pub(super) fn line_ends(self, bytes: &[u8]) -> impl Iterator<Item = usize> {
        let newlines = self.units(bytes).enumerate().filter(|(_, unit)| *unit == u32::from(b'\n'));
        newlines.map(move |(index, _)| (index + 1) * self.unit())
    }

    /// The length without a character that has begun but not ended.
    pub(super) fn whole_characters(self, bytes: &[u8]) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn halves_are_bad_at_the_end_and_held_back_before_it() {
        let bytes = utf16le("a😀");
        for (length, whole) in [(6, 6), (5, 2), (4, 2), (3, 2), (2, 2), (1, 0)] {
            assert_eq!(Wide::Utf16Le.whole_characters(&bytes[..length]), whole, "{length}");
        }
        assert_eq!(Wide::Utf16Le.decode(&bytes[..5]), (Cow::Borrowed("a\u{fffd}\u{fffd}"), 3));
    }

    #[test]
    fn a_newline_is_a_unit_and_no_byte() {
        // U+0A0A and U+010A have the byte of a newline in them.
        assert_eq!(Wide::Utf16Le.line_ends(&utf16le("\u{a0a}\u{10a}\nx")).collect::<Vec<_>>(), [6]);
    }
}
