//! The text view: rendered lines, and the source lines that they stand for.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

use super::charset::Charset;
use super::screen::{ScreenLine, leaves_row, on_screen, play};

/// Longer lines, in characters, are cut, unless they are wanted whole.
pub(crate) const LINE_CHARS: usize = 1000;
/// Fewer equal lines than this are not folded: a pair is not noise.
const FOLD_FROM: usize = 3;

/// The treatment of escape codes and `\r`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ansi {
    /// Show the lines as a screen finally shows them: overwritten text is gone.
    #[default]
    Strip,
    /// Do the same for each line separately, so that there are as many lines as in the source.
    StripLines,
    /// Leave them in. Only CRLF becomes LF.
    Keep,
}

/// The treatment of consecutive equal lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fold {
    /// Fold three or more into one, with their number: `line (×57)`.
    #[default]
    Repeats,
    /// Show each line, repeated or not.
    Off,
}

/// The treatment of overlong lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LongLines {
    /// Cut out the middle, and tell how much is missing.
    #[default]
    Cut,
    /// Show the first line whole, because the reader asked for it. Cut the others.
    KeepFirst,
    /// Show each line whole.
    Keep,
}

impl LongLines {
    /// The number of lines that are shown whole, from the first on.
    const fn whole_lines(self) -> usize {
        match self {
            Self::Cut => 0,
            Self::KeepFirst => 1,
            Self::Keep => usize::MAX,
        }
    }
}

/// Options for rendering bytes as text. The default is for excerpts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewOptions {
    /// The treatment of escape codes and `\r`.
    pub ansi: Ansi,
    /// The treatment of repeated lines.
    pub fold: Fold,
    /// The treatment of overlong lines.
    pub long: LongLines,
}

/// Bytes rendered as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextView {
    /// The text. It ends with a newline if the bytes do.
    pub text: String,
    /// Bytes that are no text: invalid UTF-8 (each run is shown as `�`), or NUL (shown as `␀`).
    pub bad_bytes: usize,
    /// Source lines, an unfinished last one included.
    pub lines: usize,
}

/// Renders bytes as UTF-8 text. Never fails, whatever the bytes are.
#[must_use]
pub fn render_text(bytes: &[u8], options: ViewOptions) -> TextView {
    render_text_in(bytes, Charset::Utf8, options)
}

/// Renders bytes of a log in this character set as text. Never fails, whatever the bytes are. Owned
/// plain text is not copied.
#[must_use]
pub fn render_text_in<'a>(
    bytes: impl Into<Cow<'a, [u8]>>,
    charset: Charset,
    options: ViewOptions,
) -> TextView {
    let bytes = bytes.into();
    if charset != Charset::Utf8 || !is_plain(&bytes) {
        return render_by_line(&bytes, charset, options);
    }
    match String::from_utf8(bytes.into_owned()) {
        Ok(text) => render_plain(text, options),
        Err(error) => render_by_line(error.as_bytes(), charset, options),
    }
}

fn render_by_line(bytes: &[u8], charset: Charset, options: ViewOptions) -> TextView {
    let lines = render_lines(bytes, charset, options);
    TextView {
        text: lines.iter().map(|line| &*line.text).collect(),
        bad_bytes: lines.iter().map(|line| line.bad_bytes).sum(),
        lines: lines.iter().map(|line| line.lines).sum(),
    }
}

/// A rendered line, and the part of the source that it stands for. Several source lines are one
/// rendered line if the cursor went back and forth between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RenderedLine<'a> {
    /// The text, with a newline if the source has one. Unchanged text is not copied.
    pub(crate) text: Cow<'a, str>,
    /// Source lines: more than one if repeats were folded or lines overwritten.
    pub(crate) lines: usize,
    /// Source bytes, newlines included.
    pub(crate) bytes: usize,
    /// Source bytes that are no text.
    pub(crate) bad_bytes: usize,
}

impl RenderedLine<'_> {
    /// The number of lines in the text.
    pub(crate) fn rows(&self) -> usize {
        1 + memchr_iter(b'\n', content(&self.text).as_bytes()).count()
    }

    /// Cuts the middle out of overlong lines, and tells how much is missing.
    fn cut(&mut self, max: usize) {
        if self.text.len() > max {
            let newline = &self.text[content(&self.text).len()..];
            let rows: Vec<String> =
                content(&self.text).split('\n').map(|row| cut_middle(row, max)).collect();
            self.text = Cow::Owned(rows.join("\n") + newline);
        }
    }

    /// Appends the number of equal lines that this line stands for.
    fn count(&mut self, lines: usize) {
        let content = content(&self.text);
        let gap = if content.is_empty() { "" } else { " " };
        let newline = &self.text[content.len()..];
        self.text = Cow::Owned(format!("{content}{gap}(×{}){newline}", with_commas(lines)));
    }

    /// Merges this line with the lines before it, which it stands for as well.
    fn merge_after(self, before: &Self) -> Self {
        Self {
            lines: before.lines + self.lines,
            bytes: before.bytes + self.bytes,
            bad_bytes: before.bad_bytes + self.bad_bytes,
            ..self
        }
    }
}

/// Renders bytes line by line. The source bytes of all lines add up to all bytes.
pub(crate) fn render_lines(
    bytes: &[u8],
    charset: Charset,
    options: ViewOptions,
) -> Vec<RenderedLine<'_>> {
    let lines = charset.lines(bytes).into_iter().map(|line| SourceLine::new(line, charset));
    let lines = apply_screen(lines.collect(), options.ansi);
    let mut shown = match options.fold {
        Fold::Repeats => fold_repeats(lines),
        Fold::Off => lines.into_iter().map(|line| (line, 1)).collect(),
    };
    let whole = options.long.whole_lines();
    for (index, (line, repeats)) in shown.iter_mut().enumerate() {
        if index >= whole {
            line.cut(LINE_CHARS);
        }
        // After the cut, which would remove the number.
        if *repeats > 1 {
            line.count(*repeats);
        }
    }
    shown.into_iter().map(|(line, _)| line).collect()
}

/// Folds consecutive equal lines: each line if there are few, else one, with its number of repeats.
fn fold_repeats(lines: Vec<RenderedLine<'_>>) -> Vec<(RenderedLine<'_>, usize)> {
    let same = |one: &RenderedLine<'_>, next: &RenderedLine<'_>| {
        content(&one.text) == content(&next.text) && one.rows() == 1
    };
    let groups: Vec<usize> = lines.chunk_by(same).map(<[_]>::len).collect();
    let mut folded = Vec::with_capacity(groups.len());
    let mut lines = lines.into_iter();
    for count in groups {
        let group = lines.by_ref().take(count);
        if count < FOLD_FROM {
            folded.extend(group.map(|line| (line, 1)));
        } else {
            let one = group.reduce(|before, line| line.merge_after(&before));
            folded.extend(one.map(|one| (one, count)));
        }
    }
    folded
}

/// One source line as text, in full length, with all terminal codes.
struct SourceLine<'a> {
    /// The text, with a newline if the line has one.
    text: Cow<'a, str>,
    bytes: usize,
    bad_bytes: usize,
}

fn apply_screen(lines: Vec<SourceLine<'_>>, ansi: Ansi) -> Vec<RenderedLine<'_>> {
    match ansi {
        Ansi::Strip if lines.iter().any(|line| leaves_row(content(&line.text))) => {
            play_on_screen(&lines)
        }
        Ansi::Strip | Ansi::StripLines => {
            lines.into_iter().map(|line| line.render(on_screen)).collect()
        }
        Ansi::Keep => lines.into_iter().map(|line| line.render(without_return)).collect(),
    }
}

/// A line with all codes, without the `\r` of a CRLF.
fn without_return(line: &str) -> Cow<'_, str> {
    Cow::Borrowed(line.strip_suffix('\r').unwrap_or(line))
}

impl<'a> SourceLine<'a> {
    fn new(line: &'a [u8], charset: Charset) -> Self {
        let (text, bad_bytes) = charset.decode(line);
        Self { text, bytes: line.len(), bad_bytes }
    }

    fn newline(&self) -> &'static str {
        if self.text.ends_with('\n') { "\n" } else { "" }
    }

    /// Renders the line with `show`, whose result may borrow from its argument.
    fn render(self, show: impl Fn(&str) -> Cow<'_, str>) -> RenderedLine<'a> {
        let content = content(&self.text);
        let other = match show(content) {
            Cow::Borrowed(same) if same.len() == content.len() => None,
            other @ (Cow::Borrowed(_) | Cow::Owned(_)) => Some(other.into_owned() + self.newline()),
        };
        let Self { text, bytes, bad_bytes } = self;
        RenderedLine { text: other.map_or(text, Cow::Owned), lines: 1, bytes, bad_bytes }
    }
}

/// Plays all lines on one screen. Each block of rows stands for some of them, in order.
fn play_on_screen(lines: &[SourceLine<'_>]) -> Vec<RenderedLine<'static>> {
    let mut rest = lines;
    let mut shown = Vec::new();
    let sources =
        lines.iter().map(|line| ScreenLine { text: content(&line.text), newline: line.newline() });
    for rows in play(sources) {
        let (these, after) = rest.split_at(rows.lines.min(rest.len()));
        rest = after;
        shown.push(RenderedLine {
            text: Cow::Owned(rows.text),
            lines: these.len(),
            bytes: these.iter().map(|line| line.bytes).sum(),
            bad_bytes: these.iter().map(|line| line.bad_bytes).sum(),
        });
    }
    shown
}

/// Returns at most `max` characters of a line, half of them from its end, because a long line often
/// has its result there. The number of missing characters is between the halves.
fn cut_middle(line: &str, max: usize) -> String {
    let length = line.chars().count();
    let missing = length.saturating_sub(max);
    if missing == 0 {
        return line.to_owned();
    }
    let place = |chars: usize| line.char_indices().nth(chars).map_or(line.len(), |(at, _)| at);
    let head = max.div_ceil(2);
    let start = &line[..place(head)];
    let end = &line[place(head + missing)..];
    format!("{start}… [+{} chars] …{end}", with_commas(missing))
}

/// Formats `12345` as `12,345`.
fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Bytes that are checked together.
const STEP: usize = 4096;

/// `true` if no byte acts on a screen. Most output is such plain text.
fn is_plain(bytes: &[u8]) -> bool {
    let acts = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\n' | b'\t');
    // A loop without an early exit checks many bytes at once.
    bytes.chunks(STEP).all(|step| !step.iter().fold(false, |found, byte| found | acts(byte)))
}

/// The text view of plain text, without splitting it into lines. If nothing is folded or cut, the
/// text is returned as it is.
fn render_plain(text: String, options: ViewOptions) -> TextView {
    let whole = options.long.whole_lines();
    let mut edited = String::new();
    let mut at = 0;
    let mut copied = 0;
    let mut entries = 0;
    let mut lines = 0;
    while let Some(entry) = FoldedLine::first_of(&text[at..], options.fold) {
        let is_long = entry.line.len() > LINE_CHARS && entries >= whole;
        if entry.repeats > 1 || is_long {
            edited.push_str(&text[copied..at]);
            edited.push_str(&entry.render(is_long.then_some(LINE_CHARS)));
            copied = at + entry.bytes;
        }
        at += entry.bytes;
        entries += 1;
        lines += entry.repeats;
    }
    let text = if copied == 0 { text } else { edited + &text[copied..] };
    TextView { text, bad_bytes: 0, lines }
}

/// A line, or several equal lines that are shown as one.
struct FoldedLine<'a> {
    /// The last of the equal lines, with its newline.
    line: &'a str,
    repeats: usize,
    /// The bytes of all equal lines.
    bytes: usize,
}

impl<'a> FoldedLine<'a> {
    fn first_of(text: &'a str, fold: Fold) -> Option<Self> {
        let first = first_line(text)?;
        let mut entry = Self { line: first, repeats: 1, bytes: first.len() };
        if fold == Fold::Repeats {
            while let Some(next) = first_line(&text[entry.bytes..])
                && content(next) == content(first)
            {
                let repeats = entry.repeats + 1;
                let bytes = entry.bytes + next.len();
                entry = Self { line: next, repeats, bytes };
            }
        }
        let is_alone = entry.repeats < FOLD_FROM;
        Some(if is_alone { Self { line: first, repeats: 1, bytes: first.len() } } else { entry })
    }

    /// Renders the line, cut to `max` characters.
    fn render(&self, max: Option<usize>) -> String {
        let text = self.line.into();
        let mut shown = RenderedLine { text, lines: self.repeats, bytes: 0, bad_bytes: 0 };
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
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        assert_eq!(render_text(bytes, ViewOptions::default()).text, expected);
    }

    #[test]
    fn bytes_that_are_no_text_are_counted_and_marked() {
        let shown = render_text(b"a\xff\xfeb\xe2\x82\nc", ViewOptions::default());
        assert_eq!(
            shown,
            TextView { text: "a\u{fffd}\u{fffd}b\u{fffd}\nc".into(), bad_bytes: 4, lines: 2 }
        );
    }

    #[test]
    fn a_nul_in_text_is_made_visible_and_counted() {
        let shown = render_text(b"./a\0./b\0", ViewOptions::default());
        assert_eq!(shown, TextView { text: "./a␀./b␀".into(), bad_bytes: 2, lines: 1 });
        assert_eq!(render_text(b"a\xff\0", ViewOptions::default()).bad_bytes, 2);
    }

    #[test]
    fn a_long_line_is_shown_whole_on_request() {
        let long = "x".repeat(LINE_CHARS + 1);
        let two = format!("{long}\n{long}y\n");
        let with =
            |long| render_text(two.as_bytes(), ViewOptions { long, ..ViewOptions::default() }).text;
        let half = "x".repeat(LINE_CHARS / 2);
        let cut = format!("{half}… [+2 chars] …{}y\n", &half[1..]);
        assert_eq!(with(LongLines::KeepFirst), format!("{long}\n{cut}"));
        assert_eq!(with(LongLines::Keep), two);
    }

    #[test]
    fn three_equal_lines_are_folded_and_two_are_not() {
        check(b"a\na\nb\nb\nb\nc\n", "a\na\nb (×3)\nc\n");
        check(b"x\nx\nx", "x (×3)");
        check(b"\n\n\n\n", "(×4)\n");
        check(b"  x\n  x\n  x\n", "  x (×3)\n");
        check("same\n".repeat(12_345).as_bytes(), "same (×12,345)\n");
        check(b"\x1b[1mok\x1b[0m\nok\r\nok\n", "ok (×3)\n");
        let off = ViewOptions { fold: Fold::Off, ..ViewOptions::default() };
        assert_eq!(render_text(b"b\nb\nb\n", off).text, "b\nb\nb\n");
    }

    #[test]
    fn a_long_line_loses_its_middle_and_the_cut_has_a_count() {
        let half = "é".repeat(LINE_CHARS / 2);
        let line = "é".repeat(LINE_CHARS + 12_342) + "end";
        let end = &half["end".len() * 2..];
        check(line.as_bytes(), &format!("{half}… [+12,345 chars] …{end}end"));
        check("é".repeat(LINE_CHARS).as_bytes(), &"é".repeat(LINE_CHARS));
        let same_start = ["1\n", "2\n", "3\n"].map(|end| "x".repeat(LINE_CHARS) + end).concat();
        assert_eq!(
            render_text(same_start.as_bytes(), ViewOptions::default()).text.lines().count(),
            3
        );
    }

    #[test]
    fn escape_codes_stay_on_request_and_crlf_is_a_newline_anyway() {
        let keep = ViewOptions { ansi: Ansi::Keep, ..ViewOptions::default() };
        assert_eq!(render_text(b"\x1b[1ma\rb\x1b[0m\r\n", keep).text, "\x1b[1ma\rb\x1b[0m\n");
        check(b"\x1b[1ma\rb\x1b[0m\r\n", "b\n");
    }

    #[test]
    fn overwritten_lines_count_and_each_can_be_shown_separately() {
        let bytes = b"a 1%\nb 1%\n\x1b[2Aa 9%\nb 9%\n";
        assert_eq!(render_text(bytes, ViewOptions::default()).text, "a 9%\nb 9%\n");
        assert_eq!(render_text(bytes, ViewOptions::default()).lines, 4);
        let each = ViewOptions { ansi: Ansi::StripLines, ..ViewOptions::default() };
        assert_eq!(render_text(bytes, each).text, "a 1%\nb 1%\na 9%\nb 9%\n");
    }

    #[test]
    fn a_folded_line_counts_visible_lines_only() {
        let over = "\x1b[1A\x1b[2Ksame\nmore\n".repeat(3);
        check(format!("more\n{over}").as_bytes(), "same (×3)\nmore\n");
    }

    /// Words, controls, escape codes, repeats and rubbish.
    fn any_output() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            "[ab\r\n\t€]{0,8}".prop_map(String::into_bytes),
            Just(b"\x1b[31m".to_vec()),
            Just(b"\x1b[K".to_vec()),
            Just(b"\x1b[2A".to_vec()),
            Just(b"\x1b]0;".to_vec()),
            Just(b"same\n".repeat(4)),
            vec(any::<u8>(), 0..8),
        ];
        vec(part, 0..20).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_shown_and_are_accounted_for(
            bytes in any_output(),
            ansi in prop_oneof![Just(Ansi::Strip), Just(Ansi::StripLines), Just(Ansi::Keep)],
            fold in prop_oneof![Just(Fold::Repeats), Just(Fold::Off)],
        ) {
            let options = ViewOptions { ansi, fold, ..ViewOptions::default() };
            let lines = render_lines(&bytes, Charset::Utf8, options);
            prop_assert_eq!(lines.iter().map(|line| line.bytes).sum::<usize>(), bytes.len());
            let source_lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
            prop_assert_eq!(lines.iter().map(|line| line.lines).sum::<usize>(), source_lines);
            let bad: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
            let bad = bad + bytes.iter().filter(|byte| **byte == 0).count();
            prop_assert_eq!(lines.iter().map(|line| line.bad_bytes).sum::<usize>(), bad);
            // On a screen, the rows of one block are shown together.
            for line in lines.iter().filter(|_| ansi != Ansi::Strip) {
                let newlines = line.text.matches('\n').count();
                prop_assert!(newlines == 0 || (newlines == 1 && line.text.ends_with('\n')));
            }
        }

        #[test]
        fn rendering_rendered_text_changes_nothing(bytes in any_output()) {
            let options = ViewOptions { fold: Fold::Off, ..ViewOptions::default() };
            let once = render_text(&bytes, options).text;
            prop_assert!(!once.contains(['\x1b', '\r']));
            prop_assert_eq!(render_text(once.as_bytes(), options).text, once);
        }

        #[test]
        fn plain_text_is_shown_as_it_is(lines in vec("[a-zA-Z0-9 \t€]{0,30}", 0..20)) {
            let plain = lines.join("\n");
            let options = ViewOptions { fold: Fold::Off, ..ViewOptions::default() };
            prop_assert_eq!(render_text(plain.as_bytes(), options).text, plain);
        }
    }
}

#[cfg(test)]
mod plain_tests {
    use proptest::prelude::*;

    use super::super::{Ansi, Charset};
    use super::*;
    use super::{render_lines, render_text_in};

    #[test]
    fn text_that_acts_on_a_screen_is_not_plain() {
        assert!(is_plain("tabs\t, lines\n and € are".as_bytes()));
        for acts in ["\r\n", "\x1b[1m", "\x08", "\0", "\x7f"] {
            let text = "x".repeat(STEP + 10) + acts;
            assert!(!is_plain(text.as_bytes()), "{acts:?}");
        }
    }

    #[test]
    fn unchanged_text_is_not_copied() {
        let text: String = (0..1000).map(|line| format!("line {line}\n")).collect();
        let bytes = text.clone().into_bytes();
        let place = text.len();
        let address = bytes.as_ptr();
        let shown = render_text_in(bytes, Charset::Utf8, ViewOptions::default());
        assert_eq!((shown.text.as_ptr(), shown.text.len(), shown.lines), (address, place, 1000));
    }

    proptest! {
        #[test]
        fn plain_text_is_rendered_like_other_text(
            words in prop::collection::vec("[ab\t€\u{9b}]{0,2}\n|[ab]{0,2}", 0..30),
            long in 0..30_usize,
            keep in prop_oneof![Just(LongLines::Cut), Just(LongLines::KeepFirst), Just(LongLines::Keep)],
            fold in prop_oneof![Just(Fold::Repeats), Just(Fold::Off)],
            ansi in prop_oneof![Just(Ansi::Strip), Just(Ansi::StripLines), Just(Ansi::Keep)],
        ) {
            let mut words = words;
            let long_line = "é".repeat(LINE_CHARS + 7) + "\n";
            words.splice(long.min(words.len())..long.min(words.len()), vec![long_line; long % 5]);
            let text = words.concat();
            let options = ViewOptions { ansi, fold, long: keep };
            let apart = render_lines(text.as_bytes(), Charset::Utf8, options);
            let lines = apart.iter().map(|line| line.lines).sum();
            let apart = apart.iter().map(|line| &*line.text).collect();
            prop_assert!(is_plain(text.as_bytes()));
            prop_assert_eq!(render_plain(text, options), TextView { text: apart, bad_bytes: 0, lines });
        }
    }
}
