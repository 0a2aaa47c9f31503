//! Text and tables that fit a terminal: lines are wrapped between words, columns are aligned and
//! coloured by meaning. `escape_for_terminal` shows characters that a terminal would act on as text;
//! callers apply it to text of others.
//!
//! Paths and commands stay whole, so that people can copy them: a text between backquotes is one word,
//! and a word that is wider than the terminal stands on a line of its own.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The blanks between two columns of a table.
const GAP: usize = 2;
/// The indentation of cells below the first one, where a row takes several lines.
const STACKED_INDENT: usize = 2;
/// The sign before a command that people can type next. Such a line is never wrapped.
const NEXT_COMMAND: &str = "→ shellyard ";

/// Wraps each line of a text to `width` columns; `None` is not a terminal, and changes nothing.
/// Continued lines have the indentation of the line that they continue.
pub(super) fn wrap_text(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let wrap = |line: &str| {
        let (content, end) = line.strip_suffix('\n').map_or((line, ""), |content| (content, "\n"));
        wrap_line(content, width, indentation(content)) + end
    };
    text.split_inclusive('\n').map(wrap).collect()
}

/// Wraps one line to `width` columns. Continued lines begin with `indent` blanks.
pub(super) fn wrap_line(line: &str, width: usize, indent: usize) -> String {
    if line.width() <= width || line.starts_with(NEXT_COMMAND) {
        return line.to_owned();
    }
    let start = indentation(line);
    // Half of a narrow terminal is for the text at least.
    let indent = indent.min(width / 2);
    let mut wrapped = " ".repeat(start);
    let mut used = start;
    let mut is_line_empty = true;
    for word in split_words(&line[start..]) {
        let blanks = word.blanks;
        if !is_line_empty && used + blanks + word.text.width() > width {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            used = indent;
        } else if !is_line_empty {
            wrapped.push_str(&" ".repeat(blanks));
            used += blanks;
        }
        wrapped.push_str(word.text);
        used += word.text.width();
        is_line_empty = false;
    }
    wrapped
}

/// A word of a line, and the number of blanks before it.
struct LineWord<'t> {
    blanks: usize,
    text: &'t str,
}

/// Splits a line at blanks that are not between backquotes.
fn split_words(line: &str) -> Vec<LineWord<'_>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return words;
        }
        let end = find_word_end(rest);
        words.push(LineWord { blanks, text: &rest[..end] });
        rest = &rest[end..];
    }
}

fn find_word_end(text: &str) -> usize {
    let mut is_quoted = false;
    for (index, c) in text.char_indices() {
        match c {
            // A backquote without a second one does not begin a command.
            '`' => is_quoted = !is_quoted && text[index + 1..].contains('`'),
            ' ' if !is_quoted => return index,
            _ => {}
        }
    }
    text.len()
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Formats rows below a heading in aligned columns, as wide as they are or within `width` columns. The
/// last column is wrapped if at least half of the width is left for it. Otherwise each row takes
/// several lines, and its cells have the heading as labels.
pub(super) fn format_table_within(rows: &[Vec<String>], width: Option<usize>) -> String {
    let table = format_table(rows);
    let Some(width) = width.filter(|width| table.lines().any(|line| line.width() > *width)) else {
        return table;
    };
    let before = width_before_last_column(rows);
    let fits_beside = |row: &Vec<String>| {
        let last = row.last().map(String::as_str).unwrap_or_default();
        split_words(last).iter().all(|word| before + word.text.width() <= width)
    };
    if before <= width / 2 && rows.iter().all(fits_beside) {
        return table.lines().map(|line| wrap_line(line, width, before) + "\n").collect();
    }
    let Some((heading, rows)) = rows.split_first() else { return table };
    rows.iter().map(|row| stack_cells(heading, row, width)).collect()
}

/// Formats rows without a heading, such as commands and what they do.
pub(super) fn format_list_within(rows: &[Vec<String>], width: Option<usize>) -> String {
    let heading = std::iter::once(Vec::new());
    let rows: Vec<Vec<String>> = heading.chain(rows.iter().cloned()).collect();
    let text = format_table_within(&rows, width);
    text.strip_prefix('\n').unwrap_or(&text).to_owned()
}

fn width_before_last_column(rows: &[Vec<String>]) -> usize {
    let widths = column_widths(rows);
    widths.iter().rev().skip(1).map(|width| width + GAP).sum()
}

/// Returns the width of the widest cell of each column.
fn column_widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
    };
    (0..columns).map(widest).collect()
}

/// Formats one row as lines: cells stand side by side as long as they fit.
fn stack_cells(heading: &[String], row: &[String], width: usize) -> String {
    let Some((first, others)) = row.split_first() else { return String::new() };
    let indent = indentation(first) + STACKED_INDENT;
    let mut lines = vec![first.clone()];
    for (index, cell) in others.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
        let labelled = match heading.get(index + 1) {
            Some(title) => format!("{}: {cell}", title.to_lowercase()),
            None => cell.clone(),
        };
        match lines.last_mut().filter(|line| line.width() + GAP + labelled.width() <= width) {
            Some(line) => line.push_str(&format!("{}{labelled}", " ".repeat(GAP))),
            None => lines.push(format!("{}{labelled}", " ".repeat(indent))),
        }
    }
    lines.iter().map(|line| wrap_line(line, width, indent) + "\n").collect()
}

/// Formats rows in aligned columns; the last column is not padded.
fn format_table(rows: &[Vec<String>]) -> String {
    let widths = column_widths(rows);
    let pad = |cell: &str, width: usize| " ".repeat(width.saturating_sub(cell.width()));
    let format_row = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| format!("{cell}{}", pad(cell, *width)));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(format_row).collect()
}

/// Escapes control characters, invisible characters and those that change the direction of text, so
/// that the text stays on one line and a terminal does not act on it.
pub(super) fn escape_for_terminal(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

// Tables with tones and columns that may be left out.

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

    #[test]
    fn words_are_wrapped_and_lines_keep_their_indentation() {
        let text = "one two three\n  four five six seven\n\nshort\n";
        assert_eq!(
            wrap_text(text, Some(12)),
            "one two\nthree\n  four five\n  six seven\n\nshort\n"
        );
        assert_eq!(wrap_text(text, None), text);
        assert_eq!(wrap_line("fail  store: it is full", 18, 6), "fail  store: it is\n      full");
        assert_eq!(wrap_line("日本 日本 日本", 9, 0), "日本 日本\n日本");
    }

    #[test]
    fn commands_and_paths_stay_whole() {
        let text = "run `shellyard serve --bind x` first";
        assert_eq!(wrap_line(text, 14, 0), "run\n`shellyard serve --bind x`\nfirst");
        let path = "see `/a b/c`, then /a/very/long/path/of/mine";
        assert_eq!(wrap_line(path, 14, 0), "see `/a b/c`,\nthen\n/a/very/long/path/of/mine");
        assert_eq!(
            wrap_line("a lone ` sign is no command", 12, 0),
            "a lone `\nsign is no\ncommand"
        );
        let next = "→ shellyard install cursor zed";
        assert_eq!(wrap_line(next, 12, 0), next);
    }

    fn rows(cells: &[[&str; 3]]) -> Vec<Vec<String>> {
        cells.iter().map(|row| row.map(str::to_owned).to_vec()).collect()
    }

    #[test]
    fn a_table_wraps_its_last_column_or_stacks_its_cells() {
        let table = rows(&[["A", "B", "WHAT"], ["a", "b", "many short words here"]]);
        assert_eq!(format_table_within(&table, None), format_table(&table));
        assert_eq!(
            format_table_within(&table, Some(20)),
            "A  B  WHAT\na  b  many short\n      words here\n"
        );
        let wide = rows(&[["NAME", "RESULT", "WHY"], ["a long name", "ok", "some words of it"]]);
        assert_eq!(
            format_table_within(&wide, Some(16)),
            "a long name\n  result: ok\n  why: some\n  words of it\n"
        );
        let path = rows(&[["A", "B", "WHERE"], ["a", "b", "/a/long/path/of/mine"]]);
        assert_eq!(
            format_table_within(&path, Some(20)),
            "a  b: b\n  where:\n  /a/long/path/of/mine\n"
        );
        assert_eq!(format_list_within(&wide[1..], Some(80)), format_table(&wide[1..]));
        assert_eq!(
            format_list_within(&wide[1..], Some(16)),
            "a long name  ok\n  some words of\n  it\n"
        );
    }

    #[test]
    fn columns_are_aligned_and_lines_have_no_trailing_spaces() {
        let rows = [["A", "BB", "C"], ["aaaa", "b", ""], ["é", "", "long text"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(format_table(&rows), "A     BB  C\naaaa  b\né         long text\n");
        assert_eq!(format_table(&[]), "");
    }

    #[test]
    fn characters_that_a_terminal_acts_on_are_escaped() {
        assert_eq!(
            escape_for_terminal("a\n\u{1b}[2Jb\r\t\u{9b}1m"),
            "a\\n\\u{1b}[2Jb\\r\\t\\u{9b}1m"
        );
        assert_eq!(
            escape_for_terminal("x\u{202e}y\u{200b}\u{feff}"),
            "x\\u{202e}y\\u{200b}\\u{feff}"
        );
        assert_eq!(escape_for_terminal("grep 'é' \\n \"日本\""), "grep 'é' \\n \"日本\"");
    }

    const COLUMNS: [TableColumn; 4] = [
        TableColumn { title: "JOB", drop_order: 0, max_width: 20 },
        TableColumn { title: "STATE", drop_order: 0, max_width: 8 },
        TableColumn { title: "CLIENT", drop_order: 1, max_width: 20 },
        TableColumn { title: "COMMAND", drop_order: 0, max_width: 100 },
    ];

    fn cell_rows() -> Vec<Vec<TableCell>> {
        let row = |cells: [&str; 4]| cells.map(|text| text.to_owned().into()).to_vec();
        vec![row(["1", "exit 0", "日本語", "echo 日本"]), row(["22", "killed by", "x", "true"])]
    }

    #[test]
    fn columns_are_aligned_also_with_wide_characters() {
        let table = format_columns(&COLUMNS, &cell_rows(), TableRoom::Terminal(80), false);
        assert_eq!(
            table,
            "JOB  STATE     CLIENT  COMMAND\n\
             1    exit 0    日本語  echo 日本\n\
             22   killed …  x       true\n"
        );
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns_and_no_line_is_too_long() {
        let table = format_columns(&COLUMNS, &cell_rows(), TableRoom::Terminal(30), false);
        assert!(!table.contains("CLIENT") && table.contains("COMMAND"), "{table}");
        for width in [1, 5, 10, 16, 20, 30, 40] {
            let table = format_columns(&COLUMNS, &cell_rows(), TableRoom::Terminal(width), false);
            assert!(table.lines().all(|line| line.width() <= width), "{width}: {table}");
        }
        let table = format_columns(&COLUMNS, &cell_rows(), TableRoom::Lines(10), false);
        assert!(table.contains("CLIENT"), "a file gets every column: {table}");
    }

    #[test]
    fn colours_do_not_change_the_alignment() {
        let mut rows = cell_rows();
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
