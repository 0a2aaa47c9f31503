//! Finds numbers that are far beyond all others at their position in similar lines.

use super::masking::LineNumber;
use crate::summary::NumberedLine;

/// A number is far beyond another one if it is this many times as large.
const FAR_FACTOR: f64 = 8.0;

/// The most positions that are compared.
const MAX_COLUMNS: usize = 12;

/// The most lines that are kept, and that are reported.
const MAX_LINES: usize = 4;

/// The share of lines with a number at a position, in percent, that makes the position a column.
const MIN_SHARE: u64 = 90;

/// The largest numbers at each position of similar lines.
#[derive(Debug, Clone, Default)]
pub(super) struct NumberColumns {
    columns: Vec<Column>,
    /// Lines with a number that was far beyond the others when it was read.
    lines: Vec<NumberedLine>,
}

/// The numbers at one position.
#[derive(Debug, Clone, Copy)]
struct Column {
    /// The column of the number, see [`LineNumber::column`].
    position: u16,
    seen: u64,
    /// The largest numbers, in descending order. The last one shows the size of all the others.
    top: [TopNumber; 3],
}

/// A number with its line.
#[derive(Debug, Clone, Copy, Default)]
struct TopNumber {
    value: f64,
    line: u64,
}

impl NumberColumns {
    /// Adds the numbers of a line.
    ///
    /// The text is kept only if a number is far beyond the third largest one. As that one never
    /// becomes smaller, no line is missed.
    pub(super) fn add(&mut self, line: u64, text: &str, numbers: &[LineNumber]) {
        let mut is_far_line = false;
        for (index, number) in numbers.iter().enumerate() {
            if let Some(column) = self.column(index, number.column) {
                column.seen += 1;
                is_far_line |= column.insert(TopNumber { value: number.value, line });
            }
        }
        if is_far_line {
            self.keep_line(line, text);
        }
    }

    /// Adds the numbers of other lines.
    pub(super) fn merge(&mut self, other: &Self) {
        for (index, theirs) in other.columns.iter().enumerate() {
            if let Some(column) = self.column(index, theirs.position) {
                column.seen += theirs.seen;
                for number in theirs.top {
                    column.insert(number);
                }
            }
        }
        for line in &other.lines {
            self.keep_line(line.number, &line.text);
        }
    }

    /// Returns the lines with a number that is far beyond all others, or two of them.
    pub(super) fn find_outliers(&self, lines: u64) -> Vec<NumberedLine> {
        let columns = self.columns.iter();
        let columns = columns.filter(|column| column.seen * 100 >= lines * MIN_SHARE);
        let numbers: Vec<u64> = columns.flat_map(|column| column.outliers()).collect();
        let outliers = self.lines.iter().filter(|line| numbers.contains(&line.number));
        outliers.cloned().collect()
    }

    fn column(&mut self, index: usize, position: u16) -> Option<&mut Column> {
        let is_at_index = self.columns.get(index).is_some_and(|column| column.position == position);
        let found = if is_at_index {
            Some(index)
        } else {
            self.columns.iter().position(|column| column.position == position)
        };
        let index = match found {
            Some(index) => index,
            None if self.columns.len() < MAX_COLUMNS => {
                self.columns.push(Column { position, seen: 0, top: [TopNumber::default(); 3] });
                self.columns.len() - 1
            }
            None => return None,
        };
        self.columns.get_mut(index)
    }

    fn keep_line(&mut self, number: u64, text: &str) {
        if self.lines.iter().any(|line| line.number == number) {
            return;
        }
        if self.lines.len() >= MAX_LINES {
            let columns = &self.columns;
            self.lines.retain(|line| columns.iter().any(|column| column.is_far_line(line.number)));
        }
        if self.lines.len() < MAX_LINES {
            self.lines.push(NumberedLine { number, text: text.to_owned() });
        }
    }
}

impl Column {
    /// Adds a number. Returns `true` if it is far beyond the third largest one.
    fn insert(&mut self, number: TopNumber) -> bool {
        if number.value <= self.top[2].value {
            return false;
        }
        let rank = self.top.iter().position(|top| number.value > top.value).unwrap_or(2);
        self.top[rank..].rotate_right(1);
        self.top[rank] = number;
        rank < 2 && is_far(number.value, self.top[2].value)
    }

    fn is_far_line(&self, line: u64) -> bool {
        let is_far = |top: &&TopNumber| is_far(top.value, self.top[2].value);
        self.top[..2].iter().filter(is_far).any(|top| top.line == line)
    }

    /// The lines of the largest number, or of the two largest, if there is a gap behind them.
    fn outliers(&self) -> impl Iterator<Item = u64> {
        let count = if is_far(self.top[0].value, self.top[1].value) {
            1
        } else if is_far(self.top[1].value, self.top[2].value) {
            2
        } else {
            0
        };
        self.top.into_iter().take(count).map(|top| top.line)
    }
}

/// Small numbers, such as one among zeros, are not far from each other.
fn is_far(value: f64, reference: f64) -> bool {
    value >= FAR_FACTOR * reference.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads one number per line and returns the lines that are reported.
    fn outliers(values: &[f64]) -> Vec<u64> {
        let mut columns = NumberColumns::default();
        for (line, value) in (1..).zip(values) {
            columns.add(line, "text", &[LineNumber { column: 0, value: *value }]);
        }
        let found = columns.find_outliers(values.len() as u64);
        found.into_iter().map(|line| line.number).collect()
    }

    #[test]
    fn one_or_two_numbers_far_beyond_the_others_are_outliers() {
        assert_eq!(outliers(&[10.0, 12.0, 900.0, 11.0]), [3]);
        assert_eq!(outliers(&[900.0, 12.0, 800.0, 11.0, 10.0]), [1, 3]);
        assert_eq!(outliers(&[0.0, 0.0, 0.0, 40.0]), [4]);
    }

    #[test]
    fn numbers_that_grow_or_spread_are_no_outliers() {
        assert_eq!(outliers(&[1.0, 2.0, 3.0, 4.0, 5.0]), [0; 0]);
        assert_eq!(outliers(&[1.0, 4.0, 16.0, 64.0, 256.0]), [0; 0]);
        assert_eq!(outliers(&[900.0, 800.0, 700.0, 1.0, 2.0]), [0; 0]);
        assert_eq!(outliers(&[0.0, 1.0, 3.0]), [0; 0]);
    }

    #[test]
    fn an_outlier_is_found_in_merged_columns() {
        let read = |line: u64, values: &[f64]| {
            let mut columns = NumberColumns::default();
            for (line, value) in (line..).zip(values) {
                columns.add(line, "text", &[LineNumber { column: 7, value: *value }]);
            }
            columns
        };
        let mut all = read(1, &[5.0, 6.0, 7.0]);
        all.merge(&read(10, &[8.0, 700.0, 9.0]));
        let found = all.find_outliers(6);
        assert_eq!(found, [NumberedLine { number: 11, text: "text".to_owned() }]);
        assert_eq!(all.find_outliers(20), [], "most lines have no number there");
    }
}
