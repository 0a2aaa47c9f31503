//! What lines look like on a screen whose cursor also goes up: the progress of docker, npm, pip
//! and their like.
//!
//! Rows that a cursor came back to form a block: it stands for all source lines that wrote
//! on it, since a later one may have written on the first row. A block ends where a newline leaves
//! its last row, and falls apart where its rows have nothing to do with each other.

use super::codes::{Code, Extent, codes};
use super::row::Row;

/// Rows that a cursor can reach. Screens are smaller; what is further up has left every one.
const HEIGHT: usize = 100;
/// A block with more rows takes no further ones in, so that work stays bounded.
const MAX_ROWS: usize = 2 * HEIGHT;

/// One line of the source, without its newline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) newline: &'a str,
}

/// Rows as a screen shows them in the end, and how many source lines they stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rows {
    /// The rows, each with its newline, the last one only where the source has one.
    pub(super) text: String,
    pub(super) lines: usize,
}

/// Plays the lines on a screen. The lines that all blocks stand for are all lines, in order.
/// Linear in the text, with a bound for each code that does not depend on what it says.
pub(super) fn play<'a>(sources: impl Iterator<Item = Source<'a>>) -> Vec<Rows> {
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
struct Line {
    row: Row,
    /// The first source line that may still be seen on it.
    first: usize,
    /// The last source line that changed it.
    last: usize,
    /// Made up, because the cursor went above all that is known.
    is_above: bool,
}

impl Line {
    fn touch(&mut self, number: usize) {
        if self.row.is_empty() {
            self.first = number;
        }
        self.last = number;
    }
}

/// Rows that belong together, and the source lines from `start` to before `end`.
#[derive(Debug, Default)]
struct Block {
    lines: Vec<Line>,
    start: usize,
    end: usize,
}

impl Block {
    fn starting_at(number: usize) -> Self {
        let line = Line { first: number, last: number, ..Line::default() };
        Self { lines: vec![line], start: number, end: number }
    }

    fn append(&mut self, later: Self) {
        self.lines.extend(later.lines);
        self.end = later.end;
    }

    /// Splits it where all rows above were last written before all that is seen below.
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

    fn shown(&self, newline: &str) -> Rows {
        let rows: Vec<String> = self.lines.iter().map(|line| line.row.text()).collect();
        let mut text = rows.join("\n");
        if !text.ends_with('\n') {
            text.push_str(newline);
        }
        Rows { text, lines: self.end - self.start }
    }
}

/// Invariant: the blocks stand for all source lines so far, in order; `above` is the number of rows
/// in those that are closed.
#[derive(Debug)]
struct Screen {
    closed: Vec<Block>,
    above: usize,
    /// The one that has the cursor. It has at least one row.
    block: Block,
    row: usize,
    column: usize,
    /// Where the screen begins, counted in all rows: known once something went to its top.
    home: Option<usize>,
    /// The source line that is being written.
    number: usize,
}

impl Default for Screen {
    fn default() -> Self {
        let block = Block::starting_at(0);
        Self { closed: Vec::new(), above: 0, block, row: 0, column: 0, home: None, number: 0 }
    }
}

impl Screen {
    fn write(&mut self, text: &str) {
        // A line that ends in CRLF needs no return.
        for code in codes(text.trim_end_matches('\r')) {
            match code {
                Code::Up(count) | Code::StartUp(count) => self.up(count),
                Code::Down(count) | Code::StartDown(count) => self.down(count),
                Code::Place(row, _) => self.place(row),
                Code::EraseScreen(extent) => self.erase(extent),
                Code::Text(_)
                | Code::Return
                | Code::Left(_)
                | Code::Right(_)
                | Code::Column(_)
                | Code::EraseRow(_) => {}
            }
            self.apply(code);
        }
        self.block.end = self.number + 1;
    }

    /// Carries out what concerns the row alone.
    fn apply(&mut self, code: Code<'_>) {
        let line = &mut self.block.lines[self.row];
        if matches!(code, Code::Text(_) | Code::EraseRow(_) | Code::EraseScreen(_)) {
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
        let next = Block::starting_at(self.number + 1);
        let parts = std::mem::replace(&mut self.block, next).split();
        let kept: usize = parts.iter().map(|block| block.lines.len()).sum();
        if kept < self.row {
            // Made up rows are gone, and with them the count up to it.
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

    /// Takes so many rows above the block into it; where there are none, makes some up: what
    /// is there is not overwritten by what belongs further up.
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
        let made_up = std::iter::repeat_n(Line { is_above: true, ..Line::default() }, missing);
        self.block.lines.splice(0..0, made_up);
        self.above -= taken;
        self.row += taken + missing;
        self.home = self.home.map(|home| if home < self.above { home } else { home + missing });
    }

    fn down(&mut self, count: usize) {
        self.row = (self.row + count).min(self.bottom());
    }

    /// To a row of the screen. Where it begins is unknown the first time: then it begins here,
    /// and nothing is overwritten.
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

    /// To the first row of the screen, if it is known and within reach.
    fn go_home(&mut self) -> bool {
        let bottom = self.above + self.bottom();
        let Some(home) = self.home.filter(|home| *home <= bottom && bottom - home < HEIGHT) else {
            return false;
        };
        self.up((self.above + self.row).saturating_sub(home));
        // Made up rows may have moved it.
        self.row = self.home.map_or(self.row, |home| home.saturating_sub(self.above));
        true
    }

    /// One more row below the block's last, for the cursor.
    fn add_row(&mut self) {
        let line = Line { first: self.number, last: self.number, ..Line::default() };
        self.block.lines.push(line);
        self.row = self.bottom();
    }

    fn erase(&mut self, extent: Extent) {
        match extent {
            Extent::ToEnd => self.block.lines.truncate(self.row + 1),
            // How far up the screen goes is unknown: better shown than lost.
            Extent::ToStart => {}
            Extent::All => {
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

    fn finish(mut self, newline: &str) -> Vec<Rows> {
        let is_seen = |line: &Line| !line.row.is_empty();
        let seen = self.block.lines.iter().rposition(is_seen).map_or(0, |last| last + 1);
        self.block.lines.truncate(seen.max(self.row + 1));
        if self.block.start < self.block.end {
            self.closed.extend(self.block.split());
        }
        let count = self.closed.len();
        let newline_after = |index: usize| if index + 1 < count { "\n" } else { newline };
        let blocks = self.closed.iter().enumerate();
        blocks.map(|(index, block)| block.shown(newline_after(index))).collect()
    }
}
