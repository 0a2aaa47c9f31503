//! Text that tells a terminal nothing, which is most of it: shown without being taken apart.

use memchr::memchr;

use super::shown::{FOLD_FROM, Fold, LINE_CHARS, Long, Shown, Text, ViewOptions};

/// Looked at before the next look whether to go on.
const STEP: usize = 4096;

/// Whether nothing in these bytes acts on a screen.
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    let acts = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\n' | b'\t');
    // Without an end in the middle, many bytes are looked at together.
    bytes.chunks(STEP).all(|step| !step.iter().fold(false, |found, byte| found | acts(byte)))
}

/// The text view of plain text. Where nothing is folded or cut, it is the very text.
pub(super) fn plain(text: String, options: ViewOptions) -> Text {
    let whole = match options.long {
        Long::Cut => 0,
        Long::KeepFirst => 1,
        Long::Keep => usize::MAX,
    };
    let mut edited = String::new();
    let (mut at, mut copied, mut entries, mut lines) = (0, 0, 0, 0);
    while let Some(entry) = Entry::first_of(&text[at..], options.fold) {
        let is_long = entry.line.len() > LINE_CHARS && entries >= whole;
        if entry.repeats > 1 || is_long {
            edited.push_str(&text[copied..at]);
            edited.push_str(&entry.shown(is_long.then_some(LINE_CHARS)));
            copied = at + entry.bytes;
        }
        at += entry.bytes;
        entries += 1;
        lines += entry.repeats;
    }
    let text = if copied == 0 { text } else { edited + &text[copied..] };
    Text { text, bad_bytes: 0, lines }
}

/// A line, or equal ones that are shown as one.
struct Entry<'a> {
    /// The last of them, with its newline.
    line: &'a str,
    repeats: usize,
    /// What all of them take.
    bytes: usize,
}

impl<'a> Entry<'a> {
    fn first_of(text: &'a str, fold: Fold) -> Option<Self> {
        let first = first_line(text)?;
        let mut entry = Self { line: first, repeats: 1, bytes: first.len() };
        if fold == Fold::Repeats {
            while let Some(next) = first_line(&text[entry.bytes..])
                && content(next) == content(first)
            {
                let (repeats, bytes) = (entry.repeats + 1, entry.bytes + next.len());
                entry = Self { line: next, repeats, bytes };
            }
        }
        let is_alone = entry.repeats < FOLD_FROM;
        Some(if is_alone { Self { line: first, repeats: 1, bytes: first.len() } } else { entry })
    }

    /// What is shown of it, cut to so many characters.
    fn shown(&self, max: Option<usize>) -> String {
        let text = self.line.into();
        let mut shown = Shown { text, lines: self.repeats, bytes: 0, bad_bytes: 0 };
        if let Some(max) = max {
            shown.cut(max);
        }
        if self.repeats > 1 {
            shown.count(self.repeats);
        }
        shown.text.into_owned()
    }
}

fn first_line(text: &str) -> Option<&str> {
    let end = memchr(b'\n', text.as_bytes()).map_or(text.len(), |newline| newline + 1);
    Some(&text[..end]).filter(|line| !line.is_empty())
}

fn content(line: &str) -> &str {
    line.strip_suffix('\n').unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::shown::{shown, text_in};
    use super::super::{Ansi, Charset};
    use super::*;

    #[test]
    fn what_acts_on_a_screen_is_not_plain() {
        assert!(is_plain("tabs\t, lines\n and € are".as_bytes()));
        for acts in ["\r\n", "\x1b[1m", "\x08", "\0", "\x7f"] {
            let text = "x".repeat(STEP + 10) + acts;
            assert!(!is_plain(text.as_bytes()), "{acts:?}");
        }
    }

    #[test]
    fn text_that_is_shown_as_it_is_is_not_copied() {
        let text: String = (0..1000).map(|line| format!("line {line}\n")).collect();
        let (bytes, place) = (text.clone().into_bytes(), text.len());
        let address = bytes.as_ptr();
        let shown = text_in(bytes, Charset::Utf8, ViewOptions::default());
        assert_eq!((shown.text.as_ptr(), shown.text.len(), shown.lines), (address, place, 1000));
    }

    proptest! {
        #[test]
        fn it_is_shown_as_if_it_were_taken_apart(
            words in prop::collection::vec("[ab\t€\u{9b}]{0,2}\n|[ab]{0,2}", 0..30),
            long in 0..30_usize,
            keep in prop_oneof![Just(Long::Cut), Just(Long::KeepFirst), Just(Long::Keep)],
            fold in prop_oneof![Just(Fold::Repeats), Just(Fold::Off)],
            ansi in prop_oneof![Just(Ansi::Strip), Just(Ansi::StripLines), Just(Ansi::Keep)],
        ) {
            let mut words = words;
            let long_line = "é".repeat(LINE_CHARS + 7) + "\n";
            words.splice(long.min(words.len())..long.min(words.len()), vec![long_line; long % 5]);
            let text = words.concat();
            let options = ViewOptions { ansi, fold, long: keep };
            let apart = shown(text.as_bytes(), Charset::Utf8, options);
            let lines = apart.iter().map(|line| line.lines).sum();
            let apart = apart.iter().map(|line| &*line.text).collect();
            prop_assert!(is_plain(text.as_bytes()));
            prop_assert_eq!(plain(text, options), Text { text: apart, bad_bytes: 0, lines });
        }
    }
}
