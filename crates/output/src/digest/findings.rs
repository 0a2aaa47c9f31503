//! Lines of one kind as they are found: all counted, the first and the last remembered.

use std::collections::VecDeque;

/// So many of the first lines are remembered, and as many of the last.
const REMEMBERED_EACH: usize = 20;
/// A screen is not higher than this: so far back a line can be drawn anew.
const SCREEN_ROWS: usize = 200;

/// A line, or a part of an overlong one, by where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    /// The offset of the line's first byte.
    pub(super) offset: u64,
    /// The offset of what matters in it, where the line is long.
    pub(super) word: u64,
    /// The row of an endless screen that it is written to: what is drawn anew has the row of
    /// what it covers.
    pub(super) row: i64,
    /// Whether it is a whole line, or the rest of one.
    pub(super) piece: Piece,
}

/// How much of a line is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// All of it, or its beginning.
    Line,
    /// A later part of an overlong one.
    Rest,
}

/// Invariant: `last` only fills once `first` is full.
#[derive(Debug, Default)]
pub(super) struct Findings {
    count: u64,
    first: Vec<Spot>,
    last: VecDeque<Spot>,
    /// The newest rows, which may be drawn anew.
    rows: VecDeque<i64>,
    /// The highest of all rows, where there is one.
    highest: Option<i64>,
}

impl Findings {
    /// Notes a line. What is drawn again on the same row counts once, and so do the parts of an
    /// overlong line.
    pub(super) fn note(&mut self, spot: Spot) {
        let may_be_known = self.highest.is_some_and(|highest| spot.row <= highest);
        if may_be_known && self.rows.contains(&spot.row) {
            return self.draw_again(spot);
        }
        self.highest = self.highest.max(Some(spot.row));
        push_bounded(&mut self.rows, spot.row, SCREEN_ROWS);
        self.count += 1;
        if self.first.len() < REMEMBERED_EACH {
            self.first.push(spot);
        } else {
            push_bounded(&mut self.last, spot, REMEMBERED_EACH);
        }
    }

    /// What is on the screen in the end is what is shown.
    fn draw_again(&mut self, spot: Spot) {
        let mut remembered = self.first.iter_mut().chain(&mut self.last);
        if spot.piece == Piece::Line
            && let Some(known) = remembered.find(|known| known.row == spot.row)
        {
            *known = spot;
        }
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Those that are remembered, in order.
    pub(super) fn remembered(&self) -> Vec<Spot> {
        self.first.iter().chain(&self.last).copied().collect()
    }

    pub(super) fn first(&self) -> Option<Spot> {
        self.first.first().copied()
    }

    pub(super) fn last(&self) -> Option<Spot> {
        self.last.back().or(self.first.last()).copied()
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, value: T, most: usize) {
    if queue.len() == most {
        queue.pop_front();
    }
    queue.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(spots: impl IntoIterator<Item = (u64, i64, Piece)>) -> Findings {
        let mut findings = Findings::default();
        for (offset, row, piece) in spots {
            findings.note(Spot { offset, word: offset, row, piece });
        }
        findings
    }

    #[test]
    fn the_first_and_the_last_are_remembered() {
        let findings = noted((0..100).map(|number| (number, number as i64, Piece::Line)));
        assert_eq!(findings.count(), 100);
        let remembered: Vec<u64> = findings.remembered().iter().map(|spot| spot.offset).collect();
        assert_eq!(remembered, (0..20).chain(80..100).collect::<Vec<u64>>());
        let ends = [findings.first(), findings.last()].map(|spot| spot.unwrap().offset);
        assert_eq!(ends, [0, 99]);
    }

    #[test]
    fn a_row_that_is_drawn_again_counts_once_and_shows_its_last_state() {
        let redrawn = noted([(0, 1, Piece::Line), (10, 2, Piece::Line), (20, 1, Piece::Line)]);
        assert_eq!((redrawn.count(), redrawn.first().unwrap().offset), (2, 20));
        let overlong = noted([(0, 1, Piece::Line), (10, 1, Piece::Rest)]);
        assert_eq!((overlong.count(), overlong.first().unwrap().offset), (1, 0));
    }
}
