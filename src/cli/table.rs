//! Tables for people: aligned columns, and no character that moves a cursor.

/// Rows in columns that are as wide as they need to be; the last is as long as it is.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
    rows.iter().map(|row| line(row, &widths)).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
    format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
}

/// Text on one line that does nothing to a terminal: control characters, and those that turn the
/// direction of text or cannot be seen, are written out.
pub(super) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_unseen(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

const fn is_unseen(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Text that is at most so many characters long; what is cut ends in `…`.
pub(super) fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_without_blanks() {
        let rows = [["A", "BB", "C"], ["aaaa", "b", ""], ["é", "", "long text"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "A     BB  C\naaaa  b\né         long text\n");
        assert_eq!(table(&[]), "");
    }

    #[test]
    fn nothing_that_moves_a_cursor_is_shown() {
        assert_eq!(harmless("a\n\u{1b}[2Jb\r\t\u{9b}1m"), "a\\n\\u{1b}[2Jb\\r\\t\\u{9b}1m");
        assert_eq!(harmless("x\u{202e}y\u{200b}\u{feff}"), "x\\u{202e}y\\u{200b}\\u{feff}");
        assert_eq!(harmless("grep 'é' \\n \"日本\""), "grep 'é' \\n \"日本\"");
    }

    #[test]
    fn a_clipped_text_says_so_and_fits() {
        assert_eq!(clipped("éééé", 4), "éééé");
        assert_eq!(clipped("ééééé", 4), "ééé…");
        assert_eq!(clipped("abc", 1), "…");
    }
}
