//! Makes the output of jobs harmless on a terminal: colours and text pass, everything else that a
//! terminal would act on is shown as text.

use super::terminal::escape_for_terminal;

/// The longest sequence that may be a colour.
const MAX_SEQUENCE_CHARS: usize = 64;

/// The sequence that ends all colours.
pub(super) const RESET_COLORS: &str = "\u{1b}[0m";

/// The treatment of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ColorRule {
    #[default]
    Pass,
    /// For a terminal that understands no sequences.
    Remove,
}

/// Filters a stream of bytes, in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct TerminalFilter {
    colors: ColorRule,
    /// The first bytes of a character that is not complete yet.
    partial: Vec<u8>,
    /// The sequence that has started and not ended, from its escape character on.
    sequence: String,
    has_colored: bool,
}

impl TerminalFilter {
    pub(super) fn new(colors: ColorRule) -> Self {
        Self { colors, ..Self::default() }
    }

    /// Returns the harmless form of the next bytes, as far as they are complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.partial.extend_from_slice(bytes);
        let held = count_incomplete(&self.partial);
        let rest = self.partial.split_off(self.partial.len() - held);
        let complete = std::mem::replace(&mut self.partial, rest);
        let mut shown = String::with_capacity(complete.len());
        for c in String::from_utf8_lossy(&complete).chars() {
            self.push_char(c, &mut shown);
        }
        shown
    }

    /// Returns the rest, and the sequence that ends all colours if there were any.
    pub(super) fn finish(&mut self) -> String {
        let partial = std::mem::take(&mut self.partial);
        let mut shown = String::new();
        for c in String::from_utf8_lossy(&partial).chars() {
            self.push_char(c, &mut shown);
        }
        shown.push_str(&escape_for_terminal(&std::mem::take(&mut self.sequence)));
        if std::mem::take(&mut self.has_colored) {
            shown.push_str(RESET_COLORS);
        }
        shown
    }

    fn push_char(&mut self, c: char, shown: &mut String) {
        if self.sequence.is_empty() {
            match c {
                '\u{1b}' => self.sequence.push(c),
                '\n' | '\t' | '\r' => shown.push(c),
                c => shown.push_str(&escape_for_terminal(c.encode_utf8(&mut [0; 4]))),
            }
            return;
        }
        self.sequence.push(c);
        let body = &self.sequence[1..];
        let is_parameter = |c: char| c.is_ascii_digit() || c == ';' || c == ':';
        match body.strip_prefix('[') {
            Some(rest)
                if rest.ends_with('m') && rest[..rest.len() - 1].chars().all(is_parameter) =>
            {
                if self.colors == ColorRule::Pass {
                    shown.push_str(&self.sequence);
                    self.has_colored = true;
                }
                self.sequence.clear();
            }
            Some(rest) if rest.chars().all(is_parameter) && rest.len() < MAX_SEQUENCE_CHARS => {}
            Some(_) | None => {
                let mut refused = std::mem::take(&mut self.sequence);
                refused.pop();
                shown.push_str(&escape_for_terminal(&refused));
                // The last character may start a sequence of its own, or be a line end.
                self.push_char(c, shown);
            }
        }
    }
}

/// Returns the number of bytes at the end that are the start of a longer character.
fn count_incomplete(bytes: &[u8]) -> usize {
    let longest = bytes.len().min(3);
    (1..=longest)
        .find(|count| {
            let first = bytes[bytes.len() - count];
            let length = match first {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => 1,
            };
            length > *count
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(bytes: &[u8]) -> String {
        let mut filter = TerminalFilter::default();
        let mut shown = filter.push(bytes);
        shown.push_str(&filter.finish());
        shown
    }

    #[test]
    fn colours_pass_and_other_sequences_are_shown() {
        assert_eq!(filter(b"a\tb\r\nc"), "a\tb\r\nc");
        assert_eq!(filter(b"\x1b[1;31mred\x1b[0m"), "\x1b[1;31mred\x1b[0m\x1b[0m");
        assert_eq!(filter(b"\x1b[2Jx"), "\\u{1b}[2Jx");
        assert_eq!(filter(b"\x1b]0;title\x07x"), "\\u{1b}]0;title\\u{7}x");
        assert_eq!(filter(b"\x1b\x1b[31mx"), "\\u{1b}\x1b[31mx\x1b[0m");
        assert_eq!(filter(b"\x1b[3"), "\\u{1b}[3");
        assert_eq!(filter(b"\x1b\n"), "\\u{1b}\n");
        assert_eq!(filter("\u{9b}2Jé日本\u{202e}".as_bytes()), "\\u{9b}2Jé日本\\u{202e}");
        assert_eq!(filter(b"\xff\xe6\x97"), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_terminal_without_sequences_gets_no_colours() {
        let mut filter = TerminalFilter::new(ColorRule::Remove);
        assert_eq!(filter.push(b"\x1b[1;31mred\x1b[0m \x1b[2J"), "red \\u{1b}[2J");
        assert_eq!(filter.finish(), "");
    }

    proptest! {
        #[test]
        fn pieces_give_the_same_text_as_the_whole(
            text in "[a-c\u{1b}\\[0-9;mJ\u{e9}\u{65e5}\n]{0,60}",
            cut in 0_usize..200,
        ) {
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            let mut filter_state = TerminalFilter::default();
            let mut shown = filter_state.push(&bytes[..cut]);
            shown.push_str(&filter_state.push(&bytes[cut..]));
            shown.push_str(&filter_state.finish());
            prop_assert_eq!(shown, filter(bytes));
        }

        #[test]
        fn nothing_but_colours_reaches_the_terminal(bytes: Vec<u8>) {
            let shown = filter(&bytes);
            let plain = regex::Regex::new("\u{1b}\\[[0-9;:]*m").unwrap().replace_all(&shown, "").into_owned();
            prop_assert!(!plain.chars().any(|c| c.is_control() && !"\n\t\r".contains(c)), "{:?}", shown);
        }
    }
}
