//! Output in another character set, turned into UTF-8 as it is read: line by line, so that each
//! line keeps the offset at which it starts in the log.

use std::ops::Range;

use super::view::Charset;

/// A line that has not ended is held back up to this length.
const HELD_BYTES: usize = 64 * 1024;
/// A longer line is decoded in parts, so that places inside of it are known too.
const PART_BYTES: usize = 4 * 1024;

/// Decodes pieces that follow each other. Of a line that has not ended nothing is given, unless
/// it is over 64 KiB, before [`Decoding::end`].
#[derive(Debug)]
pub(super) struct Decoding {
    charset: Charset,
    /// What has not been given yet.
    held: Vec<u8>,
    /// Where it starts in the log.
    held_at: u64,
}

/// A line, or a part of a long one: where it is in the log, and what it says with its newline.
pub(super) type Decoded = (Range<u64>, String);

impl Decoding {
    /// None for UTF-8, which is read as it is.
    pub(super) fn of(charset: Charset) -> Option<Self> {
        match charset {
            Charset::Utf8 => None,
            Charset::Legacy(_) | Charset::Wide(_) => {
                Some(Self { charset, held: Vec::new(), held_at: 0 })
            }
        }
    }

    /// Adds the bytes that the log, or the stream that is read, has at `offset`.
    pub(super) fn add(&mut self, offset: u64, piece: &[u8]) -> Vec<Decoded> {
        let before = self.held.len();
        if before == 0 {
            self.held_at = offset;
        }
        self.held.extend_from_slice(piece);
        let whole = match self.charset.last_line_end(&self.held) {
            Some(end) => end,
            None if self.held.len() >= HELD_BYTES => self.charset.whole_characters(&self.held),
            None => 0,
        };
        // What is held may lie apart from the piece.
        let start = self.held_at;
        let offset_at = |index: usize| match index.checked_sub(before) {
            Some(in_piece) => offset + in_piece as u64,
            None => start + index as u64,
        };
        let decoded = decode(self.charset, &self.held[..whole], offset_at);
        self.held.drain(..whole);
        self.held_at = offset_at(whole);
        decoded
    }

    /// What is held back: nothing follows that belongs to it.
    pub(super) fn end(&mut self) -> Vec<Decoded> {
        let held = std::mem::take(&mut self.held);
        decode(self.charset, &held, |index| self.held_at + index as u64)
    }
}

fn decode(charset: Charset, bytes: &[u8], offset_at: impl Fn(usize) -> u64) -> Vec<Decoded> {
    let ends = charset.line_ends(bytes).chain(std::iter::once(bytes.len()));
    let mut decoded = Vec::new();
    let mut at = 0;
    for end in ends {
        while at < end {
            let part = &bytes[at..end.min(at + PART_BYTES)];
            let is_last = at + part.len() == end;
            let length = if is_last { part.len() } else { charset.whole_characters(part) };
            let text = charset.decode(&part[..length]).0.into_owned();
            // The end is that of the last byte: the next one may lie apart.
            decoded.push((offset_at(at)..offset_at(at + length - 1) + 1, text));
            at += length;
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::super::view::Wide;
    use super::*;

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn lines_are_whole_wherever_the_pieces_are_cut() {
        let bytes = utf16("\u{feff}one\nzwölf 😀\nrest");
        for cut in 0..bytes.len() {
            let mut decoding = Decoding::of(Charset::Wide(Wide::Utf16Le)).unwrap();
            let (first, second) = bytes.split_at(cut);
            let mut lines = decoding.add(0, first);
            // As if another stream had written 100 bytes in between.
            lines.extend(decoding.add(cut as u64 + 100, second));
            lines.extend(decoding.end());
            let texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(texts, ["one\n", "zwölf 😀\n", "rest"], "{cut}");
            let apart = |offset: u64| if offset < cut as u64 { offset } else { offset + 100 };
            assert_eq!(lines[1].0.start, apart(10), "{cut}");
        }
    }

    #[test]
    fn a_line_that_never_ends_is_given_in_parts() {
        let bytes = utf16(&"😀".repeat(40_000));
        let mut decoding = Decoding::of(Charset::Wide(Wide::Utf16Le)).unwrap();
        let parts = decoding.add(0, &bytes);
        assert!(parts.windows(2).all(|pair| pair[0].0.end == pair[1].0.start));
        let text: String = parts.into_iter().map(|(_, text)| text).collect();
        assert_eq!(text, "😀".repeat(40_000));
    }
}
