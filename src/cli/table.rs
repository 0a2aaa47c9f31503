//! Tables for people: aligned columns that fit the terminal, coloured by meaning.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The blanks between two columns.
const GAP: usize = 2;
/// The width that the last column gets at least, before other columns are left out for it.
const MIN_LAST_WIDTH: usize = 12;

/// The meaning of a text, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Tone {
    #[default]
    Plain,
    /// Something that went well.
    Good,
    /// Something that failed by itself.
    Bad,
    /// It was ended before it was done.
    Warning,
    /// Something that is going on.
    Active,
    /// Less important than the rest.
    Faint,
    Title,
}

impl Tone {
    /// Returns the sequence that selects the colour, or nothing for plain text.
    const fn sequence(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\u{1b}[32m",
            Self::Bad => "\u{1b}[31m",
            Self::Warning => "\u{1b}[33m",
            Self::Active => "\u{1b}[36m",
            Self::Faint => "\u{1b}[2m",
            Self::Title => "\u{1b}[1m",
        }
    }

    /// Returns the text in this colour, if colours are wanted.
    pub(super) fn paint(self, text: &str, has_colors: bool) -> String {
        match self.sequence() {
            sequence if has_colors && !sequence.is_empty() && !text.is_empty() => {
                format!("{sequence}{text}\u{1b}[0m")
            }
            _ => text.to_owned(),
        }
    }
}

/// A text with its meaning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TableCell {
    pub(super) text: String,
    pub(super) tone: Tone,
}

impl TableCell {
    pub(super) const fn new(text: String, tone: Tone) -> Self {
        Self { text, tone }
    }
}

impl From<String> for TableCell {
    fn from(text: String) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// A column of a table, and its room on narrow terminals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableColumn {
    pub(super) title: &'static str,
    /// Columns with the highest value are left out first on a narrow terminal; 0 = always shown.
    pub(super) drop_order: u8,
    /// Longer cells are truncated.
    pub(super) max_width: usize,
}

/// The room for a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableRoom {
    /// A terminal of this width: columns are left out where they do not fit.
    Terminal(usize),
    /// Not a terminal: all columns, and lines of about this width.
    Lines(usize),
}

/// Formats rows below their titles; the last column takes the rest of the width. Every row has a
/// cell for each column.
pub(super) fn format_columns(
    columns: &[TableColumn],
    rows: &[Vec<TableCell>],
    room: TableRoom,
    has_colors: bool,
) -> String {
    let shown = choose_columns(columns, rows, room);
    let Some((last, others)) = shown.split_last() else { return String::new() };
    let before: usize = others.iter().map(|index| column_width(columns, rows, *index) + GAP).sum();
    let width = match room {
        TableRoom::Terminal(width) => width,
        TableRoom::Lines(width) => width.max(before + MIN_LAST_WIDTH),
    };
    let titles = columns.iter().map(|column| TableCell::new(column.title.into(), Tone::Title));
    let titles: Vec<TableCell> = titles.collect();
    let mut table = String::new();
    for row in std::iter::once(&titles).chain(rows) {
        let mut line = String::new();
        let mut used = 0;
        for index in others {
            let room = width.saturating_sub(used);
            let cell_width = column_width(columns, rows, *index).min(room);
            push_cell(&mut line, row.get(*index), cell_width, has_colors);
            used += cell_width;
            let gap = GAP.min(width.saturating_sub(used));
            line.push_str(&" ".repeat(gap));
            used += gap;
        }
        if let Some(cell) = row.get(*last) {
            let text = truncate_to_width(&cell.text, width.saturating_sub(used));
            line.push_str(&cell.tone.paint(&text, has_colors));
        }
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}

fn push_cell(line: &mut String, cell: Option<&TableCell>, width: usize, has_colors: bool) {
    let (text, tone) = cell.map_or(("", Tone::Plain), |cell| (cell.text.as_str(), cell.tone));
    let text = truncate_to_width(text, width);
    line.push_str(&tone.paint(&text, has_colors));
    line.push_str(&" ".repeat(width.saturating_sub(text.width())));
}

/// Returns the indices of the columns that fit; the last column is always shown.
fn choose_columns(columns: &[TableColumn], rows: &[Vec<TableCell>], room: TableRoom) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let TableRoom::Terminal(width) = room else { return shown };
    loop {
        let (_, others) = shown.split_last().unwrap_or((&0, &[]));
        let needed: usize =
            others.iter().map(|index| column_width(columns, rows, *index) + GAP).sum();
        if needed + MIN_LAST_WIDTH <= width {
            return shown;
        }
        let droppable = others.iter().filter(|index| columns[**index].drop_order > 0);
        let Some(dropped) = droppable.max_by_key(|index| columns[**index].drop_order).copied()
        else {
            return shown;
        };
        shown.retain(|index| *index != dropped);
    }
}

fn column_width(columns: &[TableColumn], rows: &[Vec<TableCell>], index: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.text.width());
    let widest = cells.max().unwrap_or(0);
    let column = columns[index];
    widest.min(column.max_width).max(column.title.width())
}

/// Truncates a text to a number of terminal columns; a truncated text ends in `…`. A wide character
/// that does not fit is left out whole.
pub(super) fn truncate_to_width(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let Some(room) = width.checked_sub(1) else { return String::new() };
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= room
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{kept}…")
}

/// Keeps the end of a long text, which says most in a path.
pub(super) fn keep_end(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let mut kept: Vec<char> = Vec::new();
    for c in text.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [TableColumn; 4] = [
        TableColumn { title: "JOB", drop_order: 0, max_width: 20 },
        TableColumn { title: "STATE", drop_order: 0, max_width: 8 },
        TableColumn { title: "CLIENT", drop_order: 1, max_width: 20 },
        TableColumn { title: "COMMAND", drop_order: 0, max_width: 100 },
    ];

    fn rows() -> Vec<Vec<TableCell>> {
        let row = |cells: [&str; 4]| cells.map(|text| text.to_owned().into()).to_vec();
        vec![row(["1", "exit 0", "日本語", "echo 日本"]), row(["22", "killed by", "x", "true"])]
    }

    #[test]
    fn columns_are_aligned_also_with_wide_characters() {
        let table = format_columns(&COLUMNS, &rows(), TableRoom::Terminal(80), false);
        assert_eq!(
            table,
            "JOB  STATE     CLIENT  COMMAND\n\
             1    exit 0    日本語  echo 日本\n\
             22   killed …  x       true\n"
        );
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns_and_no_line_is_too_long() {
        let table = format_columns(&COLUMNS, &rows(), TableRoom::Terminal(30), false);
        assert!(!table.contains("CLIENT") && table.contains("COMMAND"), "{table}");
        for width in [1, 5, 10, 16, 20, 30, 40] {
            let table = format_columns(&COLUMNS, &rows(), TableRoom::Terminal(width), false);
            assert!(table.lines().all(|line| line.width() <= width), "{width}: {table}");
        }
        let table = format_columns(&COLUMNS, &rows(), TableRoom::Lines(10), false);
        assert!(table.contains("CLIENT"), "a file gets every column: {table}");
    }

    #[test]
    fn colours_do_not_change_the_alignment() {
        let mut rows = rows();
        rows[0][1].tone = Tone::Good;
        let table = format_columns(&COLUMNS, &rows, TableRoom::Terminal(80), true);
        assert!(table.contains("\u{1b}[32mexit 0\u{1b}[0m    日本語"), "{table:?}");
        let plain = format_columns(&COLUMNS, &rows, TableRoom::Terminal(80), false);
        assert!(!plain.contains('\u{1b}'), "{plain:?}");
    }

    #[test]
    fn a_truncated_text_is_marked_and_fits() {
        assert_eq!(truncate_to_width("éééé", 4), "éééé");
        assert_eq!(truncate_to_width("ééééé", 4), "ééé…");
        assert_eq!(truncate_to_width("日本語", 4), "日…");
        assert_eq!(truncate_to_width("abc", 1), "…");
        assert_eq!(truncate_to_width("abc", 0), "");
        assert_eq!(keep_end("/home/someone/app", 8), "…one/app");
        assert_eq!(keep_end("/app", 8), "/app");
    }
}
