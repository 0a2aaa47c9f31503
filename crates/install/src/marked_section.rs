//! A section between two marks in a text file that belongs to somebody else.

use crate::error::{EditError, TextPlace};

const BEGIN: &str = "<!-- shellyard:begin, written by `shellyard install --agent-rules` -->";
const BEGIN_WORD: &str = "<!-- shellyard:begin";
const END: &str = "<!-- shellyard:end -->";

/// The lines that make a model use the tools of the server.
pub const AGENT_RULES: &str = include_str!("agent_rules.md");

/// Appends the section, or replaces the one that is there.
pub(crate) fn insert(text: &str, lines: &str) -> Result<String, EditError> {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let section = format!("{BEGIN}\n{}\n{END}\n", lines.trim_end()).replace('\n', newline);
    if let Some(range) = find(text)? {
        return Ok(format!("{}{section}{}", &text[..range.start], &text[range.end..]));
    }
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
    let gap = if text.is_empty() { "" } else { newline };
    Ok(format!("{text}{end}{gap}{section}"))
}

/// Removes the section and the empty line before it.
pub(crate) fn remove(text: &str) -> Result<String, EditError> {
    let Some(range) = find(text)? else { return Ok(text.to_owned()) };
    let before = &text[..range.start];
    let before = match before.strip_suffix("\r\n").or_else(|| before.strip_suffix('\n')) {
        Some(line) if line.ends_with('\n') => line,
        Some(_) | None => before,
    };
    Ok(format!("{before}{}", &text[range.end..]))
}

/// The range of the section with its marks, up to the end of the line.
pub(crate) fn find(text: &str) -> Result<Option<std::ops::Range<usize>>, EditError> {
    let Some(start) = text.find(BEGIN_WORD) else { return Ok(None) };
    let Some(end) = text[start..].find(END).map(|end| start + end + END.len()) else {
        let why = format!("the section of shellyard begins here, but its end `{END}` is missing");
        return Err(EditError::Syntax { place: TextPlace::of_byte(text, start), why });
    };
    let rest = &text[end..];
    let line_end = ["\r\n", "\n"].into_iter().find(|newline| rest.starts_with(newline));
    Ok(Some(start..end + line_end.map_or(0, str::len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_comes_goes_and_is_replaced() {
        for before in ["", "# Mine\n", "# Mine\r\n\r\ntext\r\n"] {
            let after = insert(before, "one\ntwo").unwrap();
            assert!(after.starts_with(before) && after.contains("one"), "{after}");
            assert_eq!(insert(&after, "one\ntwo\n").unwrap(), after);
            let changed = insert(&format!("{after}\nmore\n"), "three").unwrap();
            assert!(changed.contains("three") && !changed.contains("one"), "{changed}");
            assert!(changed.ends_with("\nmore\n"), "{changed}");
            assert_eq!(remove(&after).unwrap(), before);
        }
        assert_eq!(remove("nothing").unwrap(), "nothing");
    }

    #[test]
    fn a_section_without_an_end_is_left_alone() {
        let error = insert("a\n<!-- shellyard:begin -->\nb\n", "x").unwrap_err();
        assert!(error.to_string().starts_with("line 2, column 1"), "{error}");
    }
}
