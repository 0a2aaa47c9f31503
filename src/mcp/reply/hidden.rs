//! What is said in the place of output that is left out, with the errors in it.

use super::digest::{cut, in_short};
use super::words::size;
use crate::output::excerpt::{ErrorLine, Hidden};

/// The texts of error lines are cut to fewer and fewer bytes before lines are left out.
const TEXT_BYTES: [usize; 6] = [1000, 400, 200, 120, 80, 60];

/// Shortens the texts of error lines, then leaves lines out from the middle of the list, until it
/// has room. One is always listed, and their number stays.
pub(super) fn list_what_fits(hidden: &mut Hidden, room: usize, cost: fn(&str) -> usize) {
    let cost_of = |error: &ErrorLine| cost(&error.text) + "  123456: \n".len();
    for text_bytes in TEXT_BYTES {
        if hidden.errors.iter().map(cost_of).sum::<usize>() <= room {
            return;
        }
        for error in &mut hidden.errors {
            error.text = cut(std::mem::take(&mut error.text), text_bytes);
        }
    }
    while hidden.errors.len() > 1 && hidden.errors.iter().map(cost_of).sum::<usize>() > room {
        // The first half is the larger one, so that there is always a first.
        hidden.errors.remove(hidden.errors.len() / 2);
    }
}

/// `[… lines 16-1032 hidden; 75 look like errors:`, those lines, the digest in short, and `]`.
pub(super) fn mark(hidden: &Hidden) -> String {
    let what = place(hidden);
    let digest = in_short(&hidden.digest).map(|digest| format!("  digest: {digest}\n"));
    if hidden.errors_count == 0 {
        return match digest {
            Some(digest) => format!("[… {what}:\n{digest}]\n"),
            None => format!("[… {what}]\n"),
        };
    }
    let many = if hidden.scanned_all { "" } else { "at least " };
    let verb = if hidden.errors_count == 1 { "looks like an error" } else { "look like errors" };
    let title = format!("[… {what}; {many}{} {verb}:\n", hidden.errors_count);
    title + &errors(hidden) + &digest.unwrap_or_default() + "]\n"
}

/// `lines 16-1032 hidden (16 in part)`.
fn place(hidden: &Hidden) -> String {
    let Hidden { first_line, last_line, .. } = hidden;
    let (what, in_part) = if first_line == last_line {
        (format!("{} of line {first_line}", size(hidden.bytes)), String::new())
    } else {
        (format!("lines {first_line}-{last_line}"), in_part(&hidden.in_part))
    };
    match hidden.missing_bytes {
        0 => format!("{what} hidden{in_part}"),
        missing => format!("{what} hidden{in_part}, {} of it not kept", size(missing)),
    }
}

fn in_part(lines: &[u64]) -> String {
    match lines {
        [] => String::new(),
        [line] => format!(" ({line} in part)"),
        [first, .., last] => format!(" ({first} and {last} in part)"),
    }
}

/// Those that are listed, and between the first and the last of them how many are not.
fn errors(hidden: &Hidden) -> String {
    let line = |error: &ErrorLine| format!("  {}: {}\n", error.line, error.text);
    let (first, last) = hidden.errors.split_at(hidden.errors.len().div_ceil(2));
    let skipped = hidden.errors_count.saturating_sub(hidden.errors.len() as u64);
    let gap = (skipped > 0).then(|| format!("  … {skipped} more\n"));
    first.iter().map(line).chain(gap).chain(last.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::digest::Digest;

    fn hidden(errors_count: u64, listed: &[u64]) -> Hidden {
        let error = |line: &u64| ErrorLine { line: *line, text: "AssertionError: no".to_owned() };
        Hidden {
            first_line: 16,
            last_line: 1032,
            in_part: Vec::new(),
            bytes: 30_000,
            missing_bytes: 0,
            errors_count,
            errors: listed.iter().map(error).collect(),
            scanned_all: true,
            digest: Digest::default(),
        }
    }

    #[test]
    fn what_is_hidden_is_named_with_the_errors_in_it() {
        assert_eq!(mark(&hidden(0, &[])), "[… lines 16-1032 hidden]\n");
        assert_eq!(
            mark(&hidden(1, &[22])),
            "[… lines 16-1032 hidden; 1 looks like an error:\n  22: AssertionError: no\n]\n"
        );
        let some = mark(&hidden(75, &[22, 900]));
        assert!(
            some.starts_with("[… lines 16-1032 hidden; 75 look like errors:\n  22: "),
            "{some}"
        );
        assert!(some.contains("\n  … 73 more\n  900: "), "{some}");
        let one_line = Hidden { last_line: 16, ..hidden(0, &[]) };
        assert_eq!(mark(&one_line), "[… 30 KB of line 16 hidden]\n");
        let holed = Hidden { missing_bytes: 20_000, ..hidden(0, &[]) };
        assert_eq!(mark(&holed), "[… lines 16-1032 hidden, 20 KB of it not kept]\n");
        let unsure = Hidden { scanned_all: false, ..hidden(2, &[20, 21]) };
        assert!(mark(&unsure).contains("hidden; at least 2 look like errors"));
        let begun = Hidden { in_part: vec![16, 1032], ..hidden(0, &[]) };
        assert_eq!(mark(&begun), "[… lines 16-1032 hidden (16 and 1032 in part)]\n");
    }

    #[test]
    fn what_is_left_out_of_the_list_is_named_where_it_is_missing() {
        let listed: Vec<u64> = (1..=5).chain(796..=800).collect();
        for room in (0..400).rev() {
            let mut some = hidden(800, &listed);
            list_what_fits(&mut some, room, str::len);
            let lines: Vec<u64> = some.errors.iter().map(|error| error.line).collect();
            let is_first = |line: &&u64| **line <= 5;
            let first = lines.iter().filter(is_first).count();
            assert!(first == lines.len().div_ceil(2) && lines.is_sorted(), "{lines:?}");
            let gap = format!("  {}: AssertionError: no\n  … {} more\n", first, 800 - lines.len());
            assert!(mark(&some).contains(&gap), "{}", mark(&some));
        }
    }

    #[test]
    fn long_texts_are_shortened_before_lines_are_left_out() {
        let mut long = hidden(10, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        for error in &mut long.errors {
            error.text = "漢".repeat(200);
        }
        list_what_fits(&mut long, 1000, str::len);
        assert_eq!(long.errors.len(), 10);
        list_what_fits(&mut long, 0, str::len);
        assert_eq!((long.errors.len(), long.errors[0].line), (1, 1));
        assert!(long.errors[0].text.starts_with("漢漢") && long.errors[0].text.len() <= 60);
    }
}
