//! Text that fits a terminal: lines are wrapped between words.
//!
//! Paths and commands stay whole, so that people can copy them: a text between backquotes is one word,
//! and a word that is wider than the terminal stands on a line of its own.

use unicode_width::UnicodeWidthStr as _;

use super::terminal::format_table;

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
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
    };
    (0..columns.saturating_sub(1)).map(|column| widest(column) + GAP).sum()
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
}
