//! Tables for people: plain, and as Markdown.

use super::{Row, Table};

/// The columns behind the name; the last is there only where times are judged.
const COLUMNS: [&str; 5] = ["ours", "floor", "ratio", "goal", ""];

/// For a terminal, with this many of the columns.
pub(super) fn plain(table: &Table, columns: usize) -> String {
    let mut text = format!("\n{:<73}", table.heading());
    text.extend(COLUMNS.iter().take(columns).map(|column| format!(" {column:>9}")));
    for (letter, row) in &table.rows {
        let name = format!("{} {}", letter.unwrap_or(' '), name_with_unit(row));
        text += &format!("\n{name:<73}");
        text.extend(row.cells().iter().take(columns).map(|cell| format!(" {cell:>9}")));
    }
    text + "\n"
}

/// For the documentation.
pub(super) fn markdown(table: &Table) -> String {
    let mut text = format!("| | | {} |\n|---|---|--:|--:|--:|--:|---|\n", COLUMNS.join(" | "));
    for (letter, row) in &table.rows {
        let letter = letter.map_or(String::new(), String::from);
        text += &format!("| {letter} | {} | {} |\n", name_with_unit(row), row.cells().join(" | "));
    }
    text
}

fn name_with_unit(row: &Row) -> String {
    format!("{} ({})", row.what, row.unit)
}
