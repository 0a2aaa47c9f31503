//! Excerpts against a naive model.

use proptest::collection::vec;
use proptest::prelude::*;

use super::excerpt::{Budget, Excerpt, excerpt, tail};
use super::{LogReader, LogSettings, LogWriter, open};
use crate::Stream;

/// A log with this content; the directory goes when the test ends.
fn log(content: &[u8]) -> (LogWriter, LogReader, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, reader) =
        open(&LogSettings { memory_bytes: 1000, spill_dir: dir.path().to_owned().into() });
    writer.append(Stream::Stdout, content);
    (writer, reader, dir)
}

fn numbered(lines: usize) -> String {
    (1..=lines).map(|number| format!("line {number}\n")).collect()
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Sections and the hidden part cover everything, and their line numbers are those of the log.
#[track_caller]
fn check_cover(shown: &Excerpt, content: &[u8]) {
    let line_of = |offset: u64| newlines(&content[..offset as usize]) + 1;
    let mut at = shown.from;
    let hidden_at = shown.hidden.as_ref().map(|hidden| {
        assert_eq!(
            hidden.bytes,
            shown.end - shown.from - shown.sections.iter().map(|s| s.end - s.start).sum::<u64>()
        );
        let last_start = shown.sections.last().map_or(shown.end, |section| section.start);
        let start = last_start - hidden.bytes;
        assert_eq!(
            (hidden.first_line, hidden.last_line),
            (line_of(start), line_of(last_start - 1))
        );
        start..last_start
    });
    for section in &shown.sections {
        if let Some(hidden) = hidden_at.as_ref().filter(|hidden| hidden.start == at) {
            at = hidden.end;
        }
        assert_eq!(section.start, at);
        assert_eq!(section.first_line, line_of(section.start));
        assert_eq!(section.last_line, line_of(section.end - 1));
        at = section.end;
    }
    assert!(at == shown.end || shown.sections.is_empty());
}

#[test]
fn what_fits_is_shown_in_one_section() {
    let (_writer, reader, _dir) = log(b"a\nb\nc");
    let shown = excerpt(&reader.blocking(), 0, Budget::of_bytes(100)).unwrap();
    assert_eq!(shown.sections.len(), 1);
    assert_eq!(shown.sections[0].text, "a\nb\nc");
    assert_eq!((shown.sections[0].first_line, shown.sections[0].last_line), (1, 3));
    assert_eq!((shown.hidden, shown.lines, shown.end), (None, 3, 5));
}

#[test]
fn an_empty_rest_has_no_sections() {
    let (mut writer, reader, _dir) = log(b"abc\n");
    for from in [4, 99] {
        let shown = excerpt(&reader.blocking(), from, Budget::of_bytes(100)).unwrap();
        assert_eq!((shown.sections.len(), shown.hidden, shown.end), (0, None, from));
    }
    writer.close();
    assert_eq!(tail(&reader.blocking(), Budget::of_bytes(0)).unwrap().sections.len(), 0);
}

#[test]
fn a_cut_names_its_lines_and_the_errors_in_it() {
    let mut content = numbered(500);
    content.push_str("AssertionError: 1 != 2\n");
    content += &numbered(499);
    for number in 0..75 {
        content.push_str(&format!("\x1b[31merror\x1b[0m: number {number}\n"));
    }
    content += &numbered(500);
    let (_writer, reader, _dir) = log(content.as_bytes());
    let shown =
        excerpt(&reader.blocking(), 0, Budget { max_lines: 100, ..Budget::of_bytes(100_000) })
            .unwrap();
    check_cover(&shown, content.as_bytes());
    let [head, tail] = shown.sections.as_slice() else { panic!("{:?}", shown.sections) };
    assert_eq!((head.first_line, head.last_line), (1, 20));
    assert_eq!(tail.last_line - tail.first_line + 1, 80);
    assert!(tail.text.ends_with("line 500\n"));
    let hidden = shown.hidden.unwrap();
    assert_eq!((hidden.first_line, hidden.last_line), (21, tail.first_line - 1));
    assert_eq!((hidden.errors_count, hidden.errors.len(), hidden.scanned_all), (76, 10, true));
    assert_eq!(
        (hidden.errors[0].line, hidden.errors[0].text.as_str()),
        (501, "AssertionError: 1 != 2")
    );
    assert_eq!((hidden.errors[9].line, hidden.errors[9].text.as_str()), (1075, "error: number 74"));
}

#[test]
fn a_long_progress_bar_is_one_short_line() {
    let bar: String = (0..=100).map(|percent| format!("\rdownloading {percent:3}%")).collect();
    let content = format!("start\n{bar}\nend\n");
    let (_writer, reader, _dir) = log(content.as_bytes());
    let shown = excerpt(&reader.blocking(), 0, Budget::of_bytes(400)).unwrap();
    assert_eq!(shown.sections.len(), 1);
    assert_eq!(shown.sections[0].text, "start\ndownloading 100%\nend\n");
}

#[test]
fn an_endless_line_is_shown_by_its_two_ends() {
    let content = vec![b'x'; 3 * 1024 * 1024];
    let (_writer, reader, _dir) = log(&content);
    let budget = Budget { max_lines: 100, ..Budget::of_bytes(10_000) };
    let shown = excerpt(&reader.blocking(), 0, budget).unwrap();
    check_cover(&shown, &content);
    assert_eq!(shown.sections.len(), 2);
    assert!(shown.sections.iter().all(|section| section.text.len() <= 1000));
    let hidden = shown.hidden.unwrap();
    assert_eq!((hidden.first_line, hidden.last_line, hidden.errors_count), (1, 1, 0));
    assert_eq!(tail(&reader.blocking(), budget).unwrap().sections[0].text.len(), 1000);
}

#[test]
fn a_long_line_is_whole_where_it_fits_and_cut_only_in_the_tail() {
    let long = "x".repeat(3000);
    let content = format!("one\n{long}\ntwo\n");
    let (_writer, reader, _dir) = log(content.as_bytes());
    let roomy = excerpt(&reader.blocking(), 0, Budget::of_bytes(4000)).unwrap();
    assert_eq!((roomy.sections.len(), roomy.sections[0].text.as_str()), (1, content.as_str()));
    let tight = excerpt(&reader.blocking(), 0, Budget::of_bytes(2000)).unwrap();
    check_cover(&tight, content.as_bytes());
    let [head, tail] = tight.sections.as_slice() else { panic!("{:?}", tight.sections) };
    assert_eq!((head.text.as_str(), tight.hidden), ("one\n", None));
    let half = "x".repeat(500);
    assert_eq!(tail.text, format!("{half}… [+2,000 chars] …{half}\ntwo\n"));
}

#[test]
fn a_long_last_line_shows_its_end_however_long_it_is() {
    for filler in [2_000, 10_000, 40_000, 1_000_000] {
        for newline in ["", "\n"] {
            let content = format!("BEGIN{}ENDE{newline}", "é".repeat(filler));
            let (_writer, reader, _dir) = log(content.as_bytes());
            let budget = Budget::of_bytes(4_000);
            let excerpts = [
                excerpt(&reader.blocking(), 0, budget).unwrap(),
                tail(&reader.blocking(), budget).unwrap(),
            ];
            for excerpt in excerpts {
                let last = &excerpt.sections.last().expect("something").text;
                assert!(last.ends_with(&format!("éENDE{newline}")), "{filler} {newline:?}: {last}");
                assert!(!last.contains('\u{fffd}'), "characters are whole");
            }
        }
    }
}

#[test]
fn the_tail_of_a_running_job_holds_a_begun_character_back() {
    let (mut writer, reader, _dir) = log("one\ntwo €".as_bytes());
    writer.append(Stream::Stdout, &"€".as_bytes()[..2]);
    let shown = tail(&reader.blocking(), Budget { max_lines: 1, ..Budget::of_bytes(100) }).unwrap();
    assert_eq!(shown.sections[0].text, "two €");
    assert_eq!((shown.from, shown.end, shown.total_bytes), (4, 11, 13));
    writer.close();
    assert_eq!(
        tail(&reader.blocking(), Budget { max_lines: 1, ..Budget::of_bytes(100) }).unwrap().end,
        13
    );
}

fn any_content() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        "[a-z ]{0,20}\n".prop_map(String::into_bytes),
        Just(b"same\n".repeat(5)),
        Just(b"error: here\n".to_vec()),
        Just("wide €😀\r\n".as_bytes().to_vec()),
        (0..3000_usize).prop_map(|length| vec![b'l'; length]),
        vec(any::<u8>(), 0..40),
    ];
    vec(line, 0..60).prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn an_excerpt_keeps_its_budget_and_its_line_numbers_are_real(
        content in any_content(),
        from in 0..200_usize,
        max_bytes in 0..3000_usize,
        max_lines in 0..60_usize,
    ) {
        let (mut writer, reader, _dir) = log(&content);
        writer.close();
        let from = from.min(content.len());
        let budget = Budget { max_lines, ..Budget::of_bytes(max_bytes) };
        let shown = excerpt(&reader.blocking(), from as u64, budget).unwrap();
        check_cover(&shown, &content);
        prop_assert_eq!(shown.end, content.len() as u64);
        for sections in [&shown.sections, &tail(&reader.blocking(), budget).unwrap().sections] {
            let text: String = sections.iter().map(|section| section.text.as_str()).collect();
            prop_assert!(text.len() <= max_bytes);
            prop_assert!(max_lines == 0 || text.lines().count() <= max_lines);
        }
        if let Some(hidden) = &shown.hidden {
            let end = shown.sections.last().map_or(shown.end, |section| section.start) as usize;
            let part = &content[end - hidden.bytes as usize..end];
            let errors = part.split(|byte| *byte == b'\n').filter(|line| super::digest::looks_like_error(line));
            prop_assert_eq!(hidden.errors_count, errors.count() as u64);
        }
    }
}
