//! Differences between two texts, for people.

/// Lines around a change that are shown.
const CONTEXT: usize = 3;

/// Formats the difference between two texts as one hunk in the unified form; empty if there is none.
#[must_use]
pub fn format_diff(name: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
    let same_start = count_equal(old_lines.iter(), new_lines.iter());
    let rest = old_lines.len().min(new_lines.len()) - same_start;
    let same_end = count_equal(old_lines.iter().rev(), new_lines.iter().rev()).min(rest);
    let from = same_start.saturating_sub(CONTEXT);
    let old_end = old_lines.len() - same_end;
    let new_end = new_lines.len() - same_end;
    let after = CONTEXT.min(same_end);
    let mut shown = format!(
        "--- {name}\n+++ {name}\n@@ -{},{} +{},{} @@\n",
        from + usize::from(!old.is_empty()),
        old_end + after - from,
        from + 1,
        new_end + after - from,
    );
    let parts = [
        (' ', &old_lines[from..same_start]),
        ('-', &old_lines[same_start..old_end]),
        ('+', &new_lines[same_start..new_end]),
        (' ', &old_lines[old_end..old_end + after]),
    ];
    for (sign, lines) in parts {
        lines.iter().for_each(|line| push_line(&mut shown, sign, line));
    }
    shown
}

fn push_line(shown: &mut String, sign: char, line: &str) {
    shown.push(sign);
    shown.push_str(line.trim_end_matches(['\r', '\n']));
    shown.push('\n');
    if !line.ends_with('\n') {
        shown.push_str("\\ No newline at end of file\n");
    }
}

fn count_equal<'a>(
    left: impl Iterator<Item = &'a &'a str>,
    right: impl Iterator<Item = &'a &'a str>,
) -> usize {
    left.zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_the_lines_around_it() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n";
        let new = "1\n2\n3\n4\nnew\n5\n6\n7\n8\n";
        let expected = "--- f\n+++ f\n@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+new\n 5\n 6\n 7\n";
        assert_eq!(format_diff("f", old, new), expected);
        assert_eq!(format_diff("f", old, old), "");
        assert_eq!(format_diff("f", "", "a\n"), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
        let last = format_diff("f", "a", "b\n");
        assert_eq!(last, "--- f\n+++ f\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+b\n");
    }
}
