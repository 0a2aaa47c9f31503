//! Plays lines on a screen whose cursor also moves up, as the progress displays of docker, npm and
//! pip do.
//!
//! Rows that the cursor came back to form a block. A block stands for all source lines that wrote
//! on it, since a later line may have written on its first row. A block ends where a newline leaves
//! its last row, and is split where its rows are independent of each other.

use std::borrow::Cow;
use std::sync::LazyLock;

use anstream::adapter::strip_str;
use memchr::{memchr, memchr3};
use regex::Regex;
use shellyard_summary::is_progress_line;

/// Rows that the cursor can reach. Real screens are smaller: rows further up have scrolled away.
const HEIGHT: usize = 100;
/// A block with more rows is not extended, so that the work stays bounded.
const MAX_ROWS: usize = 2 * HEIGHT;

/// One line of the source, without its newline.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScreenLine<'a> {
    pub(super) text: &'a str,
    pub(super) newline: &'a str,
}

/// Rows as the screen finally shows them, and the number of source lines that they stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScreenRows {
    /// The rows, each with its newline; the last one only if the source has one.
    pub(super) text: String,
    pub(super) lines: usize,
}

/// Plays lines on a screen. The blocks stand for all lines, in order. Takes linear time in the
/// text; the work for each code is bounded, whatever its numbers are.
pub(super) fn play<'a>(sources: impl Iterator<Item = ScreenLine<'a>>) -> Vec<ScreenRows> {
    let mut screen = Screen::default();
    let mut last_newline = "";
    for (number, source) in sources.enumerate() {
        screen.number = number;
        screen.write(source.text);
        last_newline = source.newline;
        if !source.newline.is_empty() {
            screen.newline();
        }
    }
    screen.finish(last_newline)
}

/// A row, and the source lines whose text is on it.
#[derive(Debug, Default, Clone)]
struct ScreenRow {
    row: RowText,
    /// The first source line that may still be visible.
    first: usize,
    /// The last source line that changed the row.
    last: usize,
    /// `true` for a row that was invented because the cursor went above all known rows.
    is_above: bool,
}

impl ScreenRow {
    fn touch(&mut self, number: usize) {
        if self.row.is_empty() {
            self.first = number;
        }
        self.last = number;
    }
}

/// Rows that belong together, and the source lines from `start` to before `end`.
#[derive(Debug, Default)]
struct RowBlock {
    lines: Vec<ScreenRow>,
    start: usize,
    end: usize,
}

impl RowBlock {
    fn starting_at(number: usize) -> Self {
        let line = ScreenRow { first: number, last: number, ..ScreenRow::default() };
        Self { lines: vec![line], start: number, end: number }
    }

    fn append(&mut self, later: Self) {
        self.lines.extend(later.lines);
        self.end = later.end;
    }

    /// Splits the block where all rows above were last written before all visible text below.
    fn split(mut self) -> Vec<Self> {
        self.lines.retain(|line| !line.is_above || !line.row.is_empty());
        let mut parts = Vec::new();
        let mut earliest = usize::MAX;
        let last_before: Vec<usize> = self
            .lines
            .iter()
            .scan(0, |last, line| {
                *last = line.last.max(*last);
                Some(*last)
            })
            .collect();
        for index in (1..self.lines.len()).rev() {
            if !self.lines[index].row.is_empty() {
                earliest = earliest.min(self.lines[index].first);
            }
            if last_before[index - 1] < earliest && earliest < self.end {
                let lines = self.lines.split_off(index);
                parts.push(Self { lines, start: earliest, end: self.end });
                self.end = earliest;
            }
        }
        parts.push(self);
        parts.reverse();
        parts
    }

    fn render(&self, newline: &str) -> ScreenRows {
        let mut text = match self.lines.as_slice() {
            [line] => line.row.text(),
            lines => join_rows(lines),
        };
        if !text.ends_with('\n') {
            text.push_str(newline);
        }
        ScreenRows { text, lines: self.end - self.start }
    }
}

/// Joins the rows of a block as a reader wants them. A program that draws a screen leaves empty rows
/// and spaces behind that say nothing: empty rows at the start and spaces at the end of rows are
/// left out, and several empty rows become one. Of empty rows at the end, a newline is left.
fn join_rows(lines: &[ScreenRow]) -> String {
    let mut text = String::new();
    let mut separator = "";
    for line in lines {
        let row = line.row.text();
        match row.trim_end_matches(' ') {
            "" if text.is_empty() => {}
            "" => separator = "\n\n",
            row => {
                text.push_str(separator);
                text.push_str(row);
                separator = "\n";
            }
        }
    }
    if separator == "\n\n" {
        text.push('\n');
    }
    text
}

/// Invariant: the blocks stand for all source lines so far, in order; `above` is the number of rows
/// in the closed blocks.
#[derive(Debug)]
struct Screen {
    closed: Vec<RowBlock>,
    above: usize,
    /// The block with the cursor. It has at least one row.
    block: RowBlock,
    row: usize,
    column: usize,
    /// The first row of the screen, counted in all rows. Known once a code went to the top.
    home: Option<usize>,
    /// The source line that is being written.
    number: usize,
}

impl Default for Screen {
    fn default() -> Self {
        let block = RowBlock::starting_at(0);
        Self { closed: Vec::new(), above: 0, block, row: 0, column: 0, home: None, number: 0 }
    }
}

impl Screen {
    fn write(&mut self, text: &str) {
        // A line that ends in CRLF needs no carriage return.
        for code in codes(text.trim_end_matches('\r')) {
            match code {
                TerminalCode::Up(count) | TerminalCode::StartUp(count) => self.up(count),
                TerminalCode::Down(count) | TerminalCode::StartDown(count) => self.down(count),
                TerminalCode::Place(row, _) => self.place(row),
                TerminalCode::EraseScreen(extent) => self.erase(extent),
                TerminalCode::Text(_)
                | TerminalCode::Return
                | TerminalCode::Left(_)
                | TerminalCode::Right(_)
                | TerminalCode::Column(_)
                | TerminalCode::EraseRow(_) => {}
            }
            self.apply(code);
        }
        self.block.end = self.number + 1;
    }

    /// Applies the effect of a code on the current row.
    fn apply(&mut self, code: TerminalCode<'_>) {
        let line = &mut self.block.lines[self.row];
        if matches!(
            code,
            TerminalCode::Text(_) | TerminalCode::EraseRow(_) | TerminalCode::EraseScreen(_)
        ) {
            line.touch(self.number);
        }
        self.column = line.row.apply(self.column, code);
    }

    fn newline(&mut self) {
        self.column = 0;
        self.row += 1;
        if self.row < self.block.lines.len() {
            return;
        }
        let next = RowBlock::starting_at(self.number + 1);
        let parts = std::mem::replace(&mut self.block, next).split();
        let kept: usize = parts.iter().map(|block| block.lines.len()).sum();
        if kept < self.row {
            // Invented rows were removed, so the row count up to `home` is no longer valid.
            self.home = None;
        }
        self.above += kept;
        self.closed.extend(parts);
        self.row = 0;
    }

    const fn bottom(&self) -> usize {
        self.block.lines.len() - 1
    }

    fn up(&mut self, count: usize) {
        let reach = (HEIGHT - 1).saturating_sub(self.bottom() - self.row);
        let count = count.min(reach);
        if count > self.row {
            self.take_in(count - self.row);
        }
        self.row -= count;
    }

    /// Adds this many rows above the block to it. If there are not enough, invents rows: text that
    /// belongs further up must not overwrite existing rows.
    fn take_in(&mut self, count: usize) {
        let mut taken = 0;
        let mut first = self.closed.len();
        while taken < count && first > 0 && self.closed[first - 1].lines.len() < MAX_ROWS {
            first -= 1;
            taken += self.closed[first].lines.len();
        }
        let later = std::mem::take(&mut self.block);
        let mut joined = self.closed.drain(first..).chain([later]);
        self.block = joined.next().unwrap_or_default();
        joined.for_each(|block| self.block.append(block));
        let missing = count.saturating_sub(taken);
        let made_up =
            std::iter::repeat_n(ScreenRow { is_above: true, ..ScreenRow::default() }, missing);
        self.block.lines.splice(0..0, made_up);
        self.above -= taken;
        self.row += taken + missing;
        self.home = self.home.map(|home| if home < self.above { home } else { home + missing });
    }

    fn down(&mut self, count: usize) {
        self.row = (self.row + count).min(self.bottom());
    }

    /// Moves to a row of the screen. The first time, the top of the screen is not known: then it is
    /// here, and nothing is overwritten.
    fn place(&mut self, row: usize) {
        if !self.go_home() {
            if self.column > 0 || self.row < self.bottom() {
                self.add_row();
            }
            self.home = Some(self.above + self.row);
        }
        for _ in 0..row.min(HEIGHT - 1) {
            if self.row == self.bottom() {
                self.add_row();
            } else {
                self.row += 1;
            }
        }
    }

    /// Moves to the first row of the screen, if it is known and within reach. Returns `false` if
    /// not.
    fn go_home(&mut self) -> bool {
        let bottom = self.above + self.bottom();
        let Some(home) = self.home.filter(|home| *home <= bottom && bottom - home < HEIGHT) else {
            return false;
        };
        self.up((self.above + self.row).saturating_sub(home));
        // Invented rows may have moved it.
        self.row = self.home.map_or(self.row, |home| home.saturating_sub(self.above));
        true
    }

    /// Adds a row below the last row of the block, for the cursor.
    fn add_row(&mut self) {
        let line = ScreenRow { first: self.number, last: self.number, ..ScreenRow::default() };
        self.block.lines.push(line);
        self.row = self.bottom();
    }

    fn erase(&mut self, extent: EraseExtent) {
        match extent {
            EraseExtent::ToEnd => self.block.lines.truncate(self.row + 1),
            // The top of the screen is not known: text is better shown than lost.
            EraseExtent::ToStart => {}
            EraseExtent::All => {
                let from_bottom = self.bottom() - self.row;
                if self.go_home() {
                    for line in &mut self.block.lines[self.row..] {
                        line.touch(self.number);
                        line.row.clear();
                    }
                    self.row = self.bottom() - from_bottom;
                }
            }
        }
    }

    fn finish(mut self, newline: &str) -> Vec<ScreenRows> {
        let is_seen = |line: &ScreenRow| !line.row.is_empty();
        let seen = self.block.lines.iter().rposition(is_seen).map_or(0, |last| last + 1);
        self.block.lines.truncate(seen.max(self.row + 1));
        if self.block.start < self.block.end {
            self.closed.extend(self.block.split());
        }
        let count = self.closed.len();
        let newline_after = |index: usize| if index + 1 < count { "\n" } else { newline };
        let blocks = self.closed.iter().enumerate();
        blocks.map(|(index, block)| block.render(newline_after(index))).collect()
    }
}

/// The columns that the cursor can move past the end of a row.
const WIDTH: usize = 200;

/// The text of one row, as wide as necessary.
#[derive(Debug, Default, Clone)]
struct RowText {
    cells: Vec<char>,
}

impl RowText {
    /// Applies the effect of a code on this row, from `column` on. Returns the new column. Of codes
    /// that leave the row, only the effect on the column.
    fn apply(&mut self, column: usize, code: TerminalCode<'_>) -> usize {
        match code {
            TerminalCode::Text(text) => self.write(column, text),
            TerminalCode::Return | TerminalCode::StartUp(_) | TerminalCode::StartDown(_) => 0,
            TerminalCode::Left(count) => column.saturating_sub(count),
            TerminalCode::Right(count) => self.within(column + count),
            TerminalCode::Column(column) | TerminalCode::Place(_, column) => self.within(column),
            TerminalCode::EraseRow(extent) => self.erase(column, extent),
            TerminalCode::EraseScreen(EraseExtent::ToEnd) => self.erase(column, EraseExtent::ToEnd),
            TerminalCode::Up(_)
            | TerminalCode::Down(_)
            | TerminalCode::EraseScreen(EraseExtent::ToStart | EraseExtent::All) => column,
        }
    }

    fn clear(&mut self) {
        self.cells.clear();
    }

    const fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    fn text(&self) -> String {
        self.cells.iter().collect()
    }

    fn within(&self, column: usize) -> usize {
        column.min(self.cells.len().max(WIDTH))
    }

    fn write(&mut self, mut column: usize, text: &str) -> usize {
        for character in strip_str(text).flat_map(str::chars) {
            if self.cells.len() < column {
                self.cells.resize(column, ' ');
            }
            match self.cells.get_mut(column) {
                Some(cell) => *cell = character,
                None => self.cells.push(character),
            }
            column += 1;
        }
        column
    }

    fn erase(&mut self, column: usize, extent: EraseExtent) -> usize {
        match extent {
            EraseExtent::ToEnd => self.cells.truncate(column),
            EraseExtent::ToStart => {
                let erased = self.cells.len().min(column + 1);
                self.cells[..erased].fill(' ');
            }
            EraseExtent::All => self.cells.clear(),
        }
        column
    }
}

/// The largest number in an escape code; larger ones are reduced to it.
const MAX_NUMBER: usize = 9999;

/// A piece of a line: text, or a code that moves the cursor or clears something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TerminalCode<'a> {
    /// Text, including codes without an effect on positions: colours, titles.
    Text(&'a str),
    /// Move to the start of the row.
    Return,
    /// Move left by this many columns.
    Left(usize),
    /// Move right by this many columns.
    Right(usize),
    /// Move to this column, counted from 0.
    Column(usize),
    /// Move up by this many rows.
    Up(usize),
    /// Move down by this many rows.
    Down(usize),
    /// Move up by this many rows, to the start of the row.
    StartUp(usize),
    /// Move down by this many rows, to the start of the row.
    StartDown(usize),
    /// Move to this row and column of the screen, counted from 0.
    Place(usize, usize),
    /// Clear a part of the row.
    EraseRow(EraseExtent),
    /// Clear a part of the screen.
    EraseScreen(EraseExtent),
}

/// The part to clear, relative to the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EraseExtent {
    ToEnd,
    ToStart,
    All,
}

impl TerminalCode<'_> {
    /// `true` if the code affects other rows than the current one.
    const fn leaves_row(self) -> bool {
        match self {
            Self::Up(_)
            | Self::Down(_)
            | Self::StartUp(_)
            | Self::StartDown(_)
            | Self::Place(..)
            | Self::EraseScreen(_) => true,
            Self::Text(_)
            | Self::Return
            | Self::Left(_)
            | Self::Right(_)
            | Self::Column(_)
            | Self::EraseRow(_) => false,
        }
    }
}

/// The pieces of one line, in order.
fn codes(line: &str) -> impl Iterator<Item = TerminalCode<'_>> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let (at, code, length) = match next_code(rest) {
            Some(found) => found,
            None if rest.is_empty() => return None,
            None => (rest.len(), TerminalCode::Text(rest), 0),
        };
        if at > 0 {
            let (text, after) = rest.split_at(at);
            rest = after;
            return Some(TerminalCode::Text(text));
        }
        rest = &rest[length..];
        Some(code)
    })
}

/// `true` if the line has a code that affects other rows.
pub(super) fn leaves_row(line: &str) -> bool {
    memchr(0x1b, line.as_bytes()).is_some() && codes(line).any(TerminalCode::leaves_row)
}

/// The first code, its position and its length.
fn next_code(text: &str) -> Option<(usize, TerminalCode<'_>, usize)> {
    let bytes = text.as_bytes();
    let mut from = 0;
    loop {
        let at = from + memchr3(b'\r', 0x08, 0x1b, &bytes[from..])?;
        let found = match bytes[at] {
            b'\r' => Some((TerminalCode::Return, 1)),
            0x08 => Some((TerminalCode::Left(1), 1)),
            _ => escape(&text[at..]),
        };
        match found {
            Some((code, length)) => return Some((at, code, length)),
            None => from = at + 1,
        }
    }
}

/// The code at the start of the text, if it moves the cursor or clears something.
fn escape(text: &str) -> Option<(TerminalCode<'_>, usize)> {
    let code = text.strip_prefix("\x1b[")?;
    let digits = code.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b';')).count();
    let (numbers, rest) = code.split_at(digits);
    let mut numbers = numbers.split(';').map(number);
    let first = numbers.next().flatten();
    let second = numbers.next().flatten();
    let count = first.unwrap_or(1).max(1);
    let code = match rest.bytes().next()? {
        b'A' => TerminalCode::Up(count),
        b'B' => TerminalCode::Down(count),
        b'C' => TerminalCode::Right(count),
        b'D' => TerminalCode::Left(count),
        b'E' => TerminalCode::StartDown(count),
        b'F' => TerminalCode::StartUp(count),
        b'G' => TerminalCode::Column(count - 1),
        b'H' | b'f' => TerminalCode::Place(count - 1, second.unwrap_or(1).max(1) - 1),
        b'J' => TerminalCode::EraseScreen(extent(first)?),
        b'K' => TerminalCode::EraseRow(extent(first)?),
        _ => return None,
    };
    Some((code, "\x1b[".len() + digits + 1))
}

fn number(digits: &str) -> Option<usize> {
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(MAX_NUMBER).min(MAX_NUMBER))
}

const fn extent(number: Option<usize>) -> Option<EraseExtent> {
    match number {
        None | Some(0) => Some(EraseExtent::ToEnd),
        Some(1) => Some(EraseExtent::ToStart),
        Some(2 | 3) => Some(EraseExtent::All),
        Some(_) => None,
    }
}

/// Renders one line, without its newline, as a screen finally shows it: escape codes are applied or
/// removed, text after a `\r` overwrites from the start of the line, and the rest of a longer
/// earlier text stays. Codes that affect other rows are ignored.
pub(crate) fn on_screen(line: &str) -> Cow<'_, str> {
    // A line that ends in CRLF needs no screen.
    let line = line.trim_end_matches('\r');
    if !line.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Cow::Borrowed(line);
    }
    if codes(line).all(|code| matches!(code, TerminalCode::Text(_))) {
        return Cow::Owned(strip_str(line).to_string());
    }
    if let Some((bar, message)) = split_after_progress(line) {
        return Cow::Owned(format!("{}\n{}", on_screen(bar), on_screen(message)));
    }
    let mut row = RowText::default();
    codes(line).fold(0, |column, code| row.apply(column, code));
    Cow::Owned(split_glued(row.text()))
}

/// The end of a progress bar to which a message is glued: `100%|████| 2000/2000saved model`.
static GLUED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(.*(?:[0-9]%|[0-9]/[0-9]+|s\]|=[0-9.]+\]))([A-Za-z][a-z]{3,}[ :].*)$").ok()
});

/// Puts a message that was written directly behind a progress bar on a row of its own.
fn split_glued(row: String) -> String {
    let found = GLUED.as_ref().and_then(|pattern| pattern.captures(&row));
    match found.map(|groups| groups.extract()) {
        Some((_, [bar, message])) if is_progress_line(bar) => format!("{bar}\n{message}"),
        _ => row,
    }
}

/// Splits a line whose last text, after a `\r`, overwrote a progress bar without being one. A
/// screen shows the rest of the bar behind a short message; a reader needs both, one by one.
fn split_after_progress(line: &str) -> Option<(&str, &str)> {
    let (before, message) = line.rsplit_once('\r')?;
    let bar = before.rsplit('\r').find(|state| !state.trim().is_empty())?;
    let is_progress = |text: &str| is_progress_line(&strip_str(text).to_string());
    let has_text = !strip_str(message).to_string().trim().is_empty();
    (has_text && !is_progress(message) && is_progress(bar)).then_some((before, message))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::{ScreenLine, ScreenRows, on_screen, play};

    fn played(text: &str) -> Vec<ScreenRows> {
        let lines = text.split_inclusive('\n').map(|line| match line.strip_suffix('\n') {
            Some(text) => ScreenLine { text, newline: "\n" },
            None => ScreenLine { text: line, newline: "" },
        });
        play(lines)
    }

    fn joined(text: &str) -> String {
        played(text).iter().map(|rows| rows.text.as_str()).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(joined(text), expected, "{text:?}");
    }

    #[test]
    fn a_message_after_a_progress_bar_stands_on_a_row_of_its_own() {
        let bar = "\r 50%|███   | 1/2\r100%|██████| 2/2";
        assert_eq!(on_screen(&format!("{bar}\rsaved x")), "100%|██████| 2/2\nsaved x");
        assert_eq!(on_screen(bar), "100%|██████| 2/2");
        assert_eq!(on_screen(&format!("{bar}\r\u{1b}[K")), "");
        assert_eq!(on_screen(&format!("{bar}saved model x")), "100%|██████| 2/2\nsaved model x");
        assert_eq!(on_screen("1%\r50% 3/6MB done"), "50% 3/6MB done");
        assert_eq!(on_screen("abc\rx"), "xbc");
    }

    #[test]
    fn frames_that_go_up_by_their_height_show_the_last_one() {
        let frame = |percent: u32| format!("a: {percent}%\x1b[K\nb: {percent}%\x1b[K\n");
        let text = format!("start\n{}\x1b[2A{}\x1b[2F{}end\n", frame(1), frame(50), frame(100));
        check(&text, "start\na: 100%\nb: 100%\nend\n");
        let lines: Vec<usize> = played(&text).iter().map(|rows| rows.lines).collect();
        assert_eq!(lines.iter().sum::<usize>(), 8);
        assert_eq!(lines[0], 1, "what was not written on again stands for itself");
    }

    /// The output of `docker pull`: each update goes up to its layer's row and back down, without a
    /// newline.
    #[test]
    fn layers_that_are_updated_in_place_show_their_last_state() {
        let mut text =
            "latest: Pulling from library/x\naaa: Pulling fs layer\r\nbbb: Pulling fs layer\r\n"
                .to_owned();
        for percent in 0..100 {
            text += &format!("\x1b[2A\x1b[2K\raaa: Downloading {percent}%\r\x1b[2B");
            text += &format!("\x1b[1A\x1b[2K\rbbb: Downloading {percent}%\r\x1b[1B");
        }
        text += "\x1b[2A\x1b[2K\raaa: Pull complete\r\x1b[2B\x1b[1A\x1b[2K\rbbb: Pull complete\r\x1b[1B";
        text += "Digest: sha256:1\r\n";
        check(
            &text,
            "latest: Pulling from library/x\naaa: Pull complete\nbbb: Pull complete\nDigest: sha256:1\n",
        );
    }

    /// The output of pnpm and yarn: finished lines scroll up, the last row is the progress.
    #[test]
    fn lines_above_a_row_of_progress_stay() {
        let mut text = "progress 0\n".to_owned();
        for step in 1..=300 {
            text += &format!("\x1b[1A\x1b[2K\rdone {step}\nprogress {step}\n");
        }
        let rows = played(&text);
        assert_eq!(rows.len(), 301, "one for each row");
        assert_eq!(rows[0], ScreenRows { text: "done 1\n".to_owned(), lines: 2 });
        assert_eq!(rows[299], ScreenRows { text: "done 300\n".to_owned(), lines: 2 });
        assert_eq!(rows[300], ScreenRows { text: "progress 300\n".to_owned(), lines: 1 });
        assert_eq!(rows.iter().map(|rows| rows.lines).sum::<usize>(), 601);
    }

    #[test]
    fn a_row_that_was_not_overwritten_is_never_lost() {
        check("one\ntwo\nerror: three\n\x1b[3Anew\n", "new\ntwo\nerror: three\n");
        check("error: first\n\x1b[9Afar above\n\n\n", "far above\nerror: first\n");
        check("a\nb\x1b[1A\x1b[1Gc", "c\nb");
        check("error: kept\n\x1b[2J\x1b[Hframe\n", "error: kept\nframe\n");
        check("error: kept\n\x1b[1J\x1b[1Ax\x1b[1Jy\n", "xyror: kept\n");
    }

    #[test]
    fn a_screen_that_is_redrawn_from_its_top_shows_the_last_state() {
        let frame = |n: u32| format!("\x1b[Htick {n}\x1b[K\nload {n}\x1b[K\n\x1b[J");
        check(&format!("before\n{}{}{}", frame(1), frame(2), frame(3)), "before\ntick 3\nload 3\n");
        let cleared = |n: u32| format!("\x1b[2J\x1b[Htick {n}\nload {n}\n");
        let shown = joined(&format!("before\n{}{}{}", cleared(1), cleared(2), cleared(3)));
        assert_eq!(shown, "before\ntick 3\nload 3\n");
        check("\x1b[H\x1b[3;5Hx\x1b[1;1Hy", "y\n\n    x");
    }

    #[test]
    fn empty_rows_and_spaces_that_were_never_text_are_left_out() {
        check("\x1b[2J\x1b[20;10Hhello\n", "         hello\n");
        check("top\x1b[20;1Hbottom   \x1b[30;1H", "top\n\nbottom\n");
        check("\x1b[2;1H~   \x1b[3;1H~   \n", "~\n~\n");
        check("one \n\n\ntwo\n", "one \n\n\ntwo\n");
    }

    #[test]
    fn clearing_below_removes_the_rows() {
        check("a\nb\nc\n\x1b[3A\x1b[Jdone\n", "done\n");
        check("a\nb\nc\n\x1b[2A\x1b[0Jx\ny\n", "a\nx\ny\n");
    }

    #[test]
    fn a_huge_number_in_a_code_costs_no_more_than_a_small_one() {
        let text = "x\n\x1b[9999A\x1b[J\x1b[9999;9999Hy\n".repeat(3_000);
        let rows = played(&text);
        assert_eq!(rows.iter().map(|rows| rows.lines).sum::<usize>(), 6_000);
    }

    fn any_lines() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            "[ab ]{0,4}",
            Just("\n".to_owned()),
            Just("\r\n".to_owned()),
            (0..6_u32, "[ABCDEFG]").prop_map(|(count, code)| format!("\x1b[{count}{code}")),
            (0..4_u32, "[JK]").prop_map(|(count, code)| format!("\x1b[{count}{code}")),
            (0..150_u32, 0..300_u32).prop_map(|(row, column)| format!("\x1b[{row};{column}H")),
            Just("\x1b[9999A".to_owned()),
            Just("\x08".to_owned()),
        ];
        vec(part, 0..80).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

        #[test]
        fn any_codes_are_played_and_all_lines_accounted_for(text in any_lines()) {
            let rows = played(&text);
            let lines: usize = rows.iter().map(|rows| rows.lines).sum();
            prop_assert_eq!(lines, text.split_inclusive('\n').count());
            prop_assert!(rows.iter().all(|rows| rows.lines > 0));
            let shown = joined(&text);
            prop_assert!(!shown.contains(['\x1b', '\r', '\x08']));
            prop_assert!(!text.ends_with('\n') || shown.ends_with('\n'));
        }

        #[test]
        fn without_cursor_up_every_row_is_a_line(lines in vec("[a-z \t]{0,9}", 0..30)) {
            let text = lines.join("\n");
            prop_assert_eq!(joined(&text), text);
        }

        /// A row is only lost if something was written or cleared on it.
        #[test]
        fn rows_that_the_cursor_only_visits_stay(lines in vec("[a-z]{1,9}", 1..150), up in 0..200_usize) {
            let text = lines.join("\n");
            let looked_at = format!("{text}\x1b[{up}A\x1b[{up}B");
            prop_assert_eq!(joined(&looked_at), text);
        }
    }
}

#[cfg(test)]
mod codes_tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[TerminalCode<'_>]) {
        assert_eq!(codes(line).collect::<Vec<_>>(), expected, "{line:?}");
    }

    #[test]
    fn a_line_is_split_at_codes_that_move_or_clear() {
        check("", &[]);
        check("plain", &[TerminalCode::Text("plain")]);
        check(
            "a\rb\x08c",
            &[
                TerminalCode::Text("a"),
                TerminalCode::Return,
                TerminalCode::Text("b"),
                TerminalCode::Left(1),
                TerminalCode::Text("c"),
            ],
        );
        check(
            "\x1b[A\x1b[0A\x1b[12A",
            &[TerminalCode::Up(1), TerminalCode::Up(1), TerminalCode::Up(12)],
        );
        check("\x1b[3;5H\x1b[H", &[TerminalCode::Place(2, 4), TerminalCode::Place(0, 0)]);
        check(
            "\x1b[2K\x1b[J",
            &[
                TerminalCode::EraseRow(EraseExtent::All),
                TerminalCode::EraseScreen(EraseExtent::ToEnd),
            ],
        );
        check("\x1b[99999999999999999999A", &[TerminalCode::Up(MAX_NUMBER)]);
    }

    #[test]
    fn other_codes_stay_in_the_text() {
        for text in
            ["\x1b[31mred\x1b[0m", "\x1b[?25l", "\x1b]0;title\x07", "\x1b[", "\x1b[3", "\x1b"]
        {
            check(text, &[TerminalCode::Text(text)]);
            assert!(!leaves_row(text));
        }
        assert!(leaves_row("a\x1b[1Fb") && !leaves_row("a\x1b[1Gb"));
    }
}

#[cfg(test)]
mod screen_tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(on_screen(line), expected, "{line:?}");
    }

    #[test]
    fn later_text_overwrites_and_a_longer_tail_remains() {
        check("10%\r20%\r100%", "100%");
        check("downloading\rdone", "doneloading");
        check("abc\r", "abc");
        check("\rabc", "abc");
        check("a\r\rb", "b");
    }

    #[test]
    fn erase_codes_clear_what_was_there() {
        check("downloading\r\x1b[Kdone", "done");
        check("downloading\r\x1b[2Kdone", "done");
        check("abcdef\rxy\x1b[0K", "xy");
        check("long text\x1b[2K\rnew", "new");
        check("abcdef\x1b[3D\x1b[1K", "    ef");
        check("abcdef\r\x1b[Jxy", "xy");
    }

    #[test]
    fn cursor_codes_move_within_the_row() {
        check("abc\x08\x08X", "aXc");
        check("abc\x08 \x08", "ab ");
        check("50%\x1b[1G60%", "60%");
        check("ab\x1b[3Cc", "ab   c");
        check("ab\x1b[Dc", "ac");
        assert!(on_screen("\x1b[9999Cx").len() < 300, "no screen is endless");
    }

    #[test]
    fn escape_codes_are_removed_and_tabs_stay() {
        check("\x1b[1;31merror\x1b[0m: a\tb", "error: a\tb");
        check("\x1b]0;title\x07text", "text");
        check("plain", "plain");
        check("crlf\r", "crlf");
    }

    #[test]
    fn an_unfinished_escape_code_ends_with_its_line() {
        check("before\x1b]0;never ended", "before");
        check("\x1b[31", "");
    }
}
