//! One row of a screen that is as wide as need be.

use anstream::adapter::strip_str;

use super::codes::{Code, Extent};

/// A cursor moves at most so far to the right of what is written: no screen is endless.
const WIDTH: usize = 200;

/// One row of a screen.
#[derive(Debug, Default, Clone)]
pub(super) struct Row {
    cells: Vec<char>,
}

impl Row {
    /// Carries out what concerns this row alone, from `column` on; gives the new column.
    /// Of codes that leave the row, only what they do to the column.
    pub(super) fn apply(&mut self, column: usize, code: Code<'_>) -> usize {
        match code {
            Code::Text(text) => self.write(column, text),
            Code::Return | Code::StartUp(_) | Code::StartDown(_) => 0,
            Code::Left(count) => column.saturating_sub(count),
            Code::Right(count) => self.within(column + count),
            Code::Column(column) | Code::Place(_, column) => self.within(column),
            Code::EraseRow(extent) => self.erase(column, extent),
            Code::EraseScreen(Extent::ToEnd) => self.erase(column, Extent::ToEnd),
            Code::Up(_) | Code::Down(_) | Code::EraseScreen(Extent::ToStart | Extent::All) => {
                column
            }
        }
    }

    /// Clears all of it.
    pub(super) fn clear(&mut self) {
        self.cells.clear();
    }

    /// Whether nothing is on it.
    pub(super) const fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// What is on it.
    pub(super) fn text(&self) -> String {
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

    fn erase(&mut self, column: usize, extent: Extent) -> usize {
        match extent {
            Extent::ToEnd => self.cells.truncate(column),
            Extent::ToStart => {
                let erased = self.cells.len().min(column + 1);
                self.cells[..erased].fill(' ');
            }
            Extent::All => self.cells.clear(),
        }
        column
    }
}
