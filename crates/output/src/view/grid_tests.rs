//! Screens of real programs, and what holds for any codes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::grid::{Rows, Source, play};

fn played(text: &str) -> Vec<Rows> {
    let lines = text.split_inclusive('\n').map(|line| match line.strip_suffix('\n') {
        Some(text) => Source { text, newline: "\n" },
        None => Source { text: line, newline: "" },
    });
    play(lines)
}

fn joined(text: &str) -> String {
    played(text).iter().map(|rows| rows.text.as_str()).collect()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(joined(text), expected, "{text:?}");
}

#[test]
fn frames_that_go_up_by_their_height_show_the_last_one() {
    let frame = |percent: u32| format!("a: {percent}%\x1b[K\nb: {percent}%\x1b[K\n");
    let text = format!("start\n{}\x1b[2A{}\x1b[2F{}end\n", frame(1), frame(50), frame(100));
    check(&text, "start\na: 100%\nb: 100%\nend\n");
    let lines: Vec<usize> = played(&text).iter().map(|rows| rows.lines).collect();
    assert_eq!(lines.iter().sum::<usize>(), 8);
    assert_eq!(lines[0], 1, "what was not written on again stands for itself");
}

/// `docker pull`: each update goes up to its layer's row and back down, without a newline.
#[test]
fn layers_that_are_updated_in_place_show_their_last_state() {
    let mut text =
        "latest: Pulling from library/x\naaa: Pulling fs layer\r\nbbb: Pulling fs layer\r\n"
            .to_owned();
    for percent in 0..100 {
        text += &format!("\x1b[2A\x1b[2K\raaa: Downloading {percent}%\r\x1b[2B");
        text += &format!("\x1b[1A\x1b[2K\rbbb: Downloading {percent}%\r\x1b[1B");
    }
    text +=
        "\x1b[2A\x1b[2K\raaa: Pull complete\r\x1b[2B\x1b[1A\x1b[2K\rbbb: Pull complete\r\x1b[1B";
    text += "Digest: sha256:1\r\n";
    check(
        &text,
        "latest: Pulling from library/x\naaa: Pull complete\nbbb: Pull complete\nDigest: sha256:1\n",
    );
}

/// pnpm and yarn: finished lines scroll up, the last row is the progress.
#[test]
fn lines_above_a_row_of_progress_stand_for_themselves() {
    let mut text = "progress 0\n".to_owned();
    for step in 1..=300 {
        text += &format!("\x1b[1A\x1b[2K\rdone {step}\nprogress {step}\n");
    }
    let rows = played(&text);
    assert_eq!(rows.len(), 301, "one for each row");
    assert_eq!(rows[0], Rows { text: "done 1\n".to_owned(), lines: 2 });
    assert_eq!(rows[299], Rows { text: "done 300\n".to_owned(), lines: 2 });
    assert_eq!(rows[300], Rows { text: "progress 300\n".to_owned(), lines: 1 });
    assert_eq!(rows.iter().map(|rows| rows.lines).sum::<usize>(), 601);
}

#[test]
fn a_row_that_was_not_written_on_again_is_never_lost() {
    check("one\ntwo\nerror: three\n\x1b[3Anew\n", "new\ntwo\nerror: three\n");
    check("error: first\n\x1b[9Afar above\n\n\n", "far above\nerror: first\n");
    check("a\nb\x1b[1A\x1b[1Gc", "c\nb");
    check("error: kept\n\x1b[2J\x1b[Hframe\n", "error: kept\nframe\n");
    check("error: kept\n\x1b[1J\x1b[1Ax\x1b[1Jy\n", "xyror: kept\n");
}

#[test]
fn a_screen_that_is_drawn_again_from_its_top_shows_the_last_drawing() {
    let frame = |n: u32| format!("\x1b[Htick {n}\x1b[K\nload {n}\x1b[K\n\x1b[J");
    check(&format!("before\n{}{}{}", frame(1), frame(2), frame(3)), "before\ntick 3\nload 3\n");
    let cleared = |n: u32| format!("\x1b[2J\x1b[Htick {n}\nload {n}\n");
    let shown = joined(&format!("before\n{}{}{}", cleared(1), cleared(2), cleared(3)));
    assert_eq!(shown, "before\ntick 3\nload 3\n");
    check("\x1b[H\x1b[3;5Hx\x1b[1;1Hy", "y\n\n    x");
}

#[test]
fn clearing_below_takes_the_rows_away() {
    check("a\nb\nc\n\x1b[3A\x1b[Jdone\n", "done\n");
    check("a\nb\nc\n\x1b[2A\x1b[0Jx\ny\n", "a\nx\ny\n");
}

#[test]
fn a_huge_number_in_a_code_costs_no_more_than_a_small_one() {
    let text = "x\n\x1b[9999A\x1b[J\x1b[9999;9999Hy\n".repeat(3_000);
    let rows = played(&text);
    assert_eq!(rows.iter().map(|rows| rows.lines).sum::<usize>(), 6_000);
}

fn any_lines() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[ab ]{0,4}",
        Just("\n".to_owned()),
        Just("\r\n".to_owned()),
        (0..6_u32, "[ABCDEFG]").prop_map(|(count, code)| format!("\x1b[{count}{code}")),
        (0..4_u32, "[JK]").prop_map(|(count, code)| format!("\x1b[{count}{code}")),
        (0..150_u32, 0..300_u32).prop_map(|(row, column)| format!("\x1b[{row};{column}H")),
        Just("\x1b[9999A".to_owned()),
        Just("\x08".to_owned()),
    ];
    vec(part, 0..80).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_codes_are_played_and_all_lines_accounted_for(text in any_lines()) {
        let rows = played(&text);
        let lines: usize = rows.iter().map(|rows| rows.lines).sum();
        prop_assert_eq!(lines, text.split_inclusive('\n').count());
        prop_assert!(rows.iter().all(|rows| rows.lines > 0));
        let shown = joined(&text);
        prop_assert!(!shown.contains(['\x1b', '\r', '\x08']));
        prop_assert!(!text.ends_with('\n') || shown.ends_with('\n'));
    }

    #[test]
    fn without_a_way_up_every_row_is_a_line(lines in vec("[a-z \t]{0,9}", 0..30)) {
        let text = lines.join("\n");
        prop_assert_eq!(joined(&text), text);
    }

    /// A row is only lost when something was written or cleared on it.
    #[test]
    fn what_is_only_looked_at_stays(lines in vec("[a-z]{1,9}", 1..150), up in 0..200_usize) {
        let text = lines.join("\n");
        let looked_at = format!("{text}\x1b[{up}A\x1b[{up}B");
        prop_assert_eq!(joined(&looked_at), text);
    }
}
