//! Searches against a naive model.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::patience::Patience;
use super::pattern::Pattern;
use super::search::{Found, SearchRequest, Select};
use super::view::on_screen;
use super::{LogReader, LogSettings, LogWriter, PageEnd, open};
use crate::Stream;

fn log(writes: &[(Stream, &[u8])]) -> (LogWriter, LogReader, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, reader) =
        open(&LogSettings { memory_bytes: 100, spill_dir: dir.path().to_owned().into() });
    for (stream, bytes) in writes {
        writer.append(*stream, bytes);
    }
    (writer, reader, dir)
}

fn compile(pattern: &str) -> Pattern {
    Pattern::new(pattern).unwrap()
}

fn request(pattern: &Pattern) -> SearchRequest<'_> {
    SearchRequest {
        pattern,
        select: Select::Matching,
        stream: None,
        from: 0,
        context: 0,
        max_matches: 100,
        max_bytes: 100_000,
    }
}

fn search(reader: &LogReader, request: &SearchRequest<'_>) -> std::io::Result<Found> {
    let (patience, _leash) = Patience::start(Duration::from_secs(3600));
    super::search::search(&reader.blocking(), request, &patience)
}

fn listed(found: &Found) -> Vec<String> {
    let line = |line: &super::search::FoundLine| {
        let sign = if line.is_match { ':' } else { '-' };
        format!("{}{sign}{}", line.number, String::from_utf8_lossy(&line.text))
    };
    found.lines.iter().map(line).collect()
}

#[test]
fn matches_come_with_their_context_and_each_line_once() {
    let (mut writer, reader, _dir) = log(&[(Stream::Stdout, b"a\nb\nX1\nX2\nc\nd\ne\nf\nX3")]);
    let pattern = compile("^X");
    let with_context = SearchRequest { context: 1, ..request(&pattern) };
    let found = search(&reader, &with_context).unwrap();
    assert_eq!(listed(&found), ["2-b", "3:X1", "4:X2", "5-c", "8-f", "9:X3"]);
    assert_eq!((found.matches, found.next, found.end_kind), (3, None, PageEnd::CaughtUp));
    writer.close();
    assert_eq!(search(&reader, &with_context).unwrap().end_kind, PageEnd::Complete);
}

#[test]
fn what_is_not_listed_is_counted_and_can_be_reached() {
    let content = "match\nother\n".repeat(10);
    let (_writer, reader, _dir) = log(&[(Stream::Stdout, content.as_bytes())]);
    let pattern = compile("match");
    let mut at = SearchRequest { max_matches: 4, ..request(&pattern) };
    let mut numbers = Vec::new();
    loop {
        let found = search(&reader, &at).unwrap();
        numbers.extend(found.lines.iter().map(|line| line.number));
        let Some(next) = found.next else { break };
        assert_eq!(found.end_kind, PageEnd::More);
        at.from = next;
    }
    assert_eq!(numbers, (0..10).map(|index| index * 2 + 1).collect::<Vec<_>>());
    assert_eq!(
        search(&reader, &SearchRequest { max_bytes: 0, ..request(&pattern) }).unwrap().matches,
        10
    );
}

#[test]
fn one_stream_is_searched_as_if_it_were_alone() {
    let writes: [(Stream, &[u8]); 4] = [
        (Stream::Stdout, b"out ma"),
        (Stream::Stderr, b"noise match\n"),
        (Stream::Stdout, b"tch\n"),
        (Stream::Stderr, b"more\n"),
    ];
    let (_writer, reader, _dir) = log(&writes);
    let pattern = compile("match");
    let stdout = SearchRequest { stream: Some(Stream::Stdout), ..request(&pattern) };
    assert_eq!(listed(&search(&reader, &stdout).unwrap()), ["1:out match"]);
}

#[test]
fn colours_and_carriage_returns_do_not_hide_a_match() {
    let (_writer, reader, _dir) = log(&[(Stream::Stdout, b"\x1b[31mer\x1b[1mror\x1b[0m\r\n")]);
    let found = search(&reader, &request(&compile("^error$"))).unwrap();
    assert_eq!(listed(&found), ["1:error"]);
}

#[test]
fn a_line_that_was_written_over_is_found_as_it_looks_in_the_end() {
    let states: String = (0..300).map(|percent| format!("\rprogress {percent}%")).collect();
    let content = format!("{states}\nerror: disk\rall is good\nprogress\n");
    let (_writer, reader, _dir) = log(&[(Stream::Stdout, content.as_bytes())]);
    for (pattern, expected) in [
        ("^progress", &["1:progress 299%", "3:progress"][..]),
        ("^progress 299%$", &["1:progress 299%"]),
        ("error|progress 7%", &[]),
        ("good", &["2:all is good"]),
    ] {
        let found = search(&reader, &request(&compile(pattern))).unwrap();
        assert_eq!(listed(&found), expected, "{pattern}");
    }
}

#[test]
fn a_line_that_grows_into_a_match_is_found_by_going_on_and_a_listed_one_not_again() {
    let (mut writer, reader, _dir) = log(&[(Stream::Stdout, b"one\nERR")]);
    writer.append(Stream::Stderr, b"note");
    let pattern = compile("ERROR");
    let mut at = SearchRequest { stream: Some(Stream::Stdout), ..request(&pattern) };
    let found = search(&reader, &at).unwrap();
    assert_eq!((found.matches, found.next, found.resume), (0, None, 4));
    at.from = found.resume;
    writer.append(Stream::Stdout, b"OR: foo");
    let found = search(&reader, &at).unwrap();
    assert_eq!((listed(&found), found.resume), (vec!["2:ERROR: foo".to_owned()], 18));
    at.from = found.resume;
    writer.append(Stream::Stdout, b" and more\nlast\n");
    let found = search(&reader, &at).unwrap();
    assert_eq!((found.matches, found.resume), (0, 33));
    writer.append(Stream::Stdout, b"end");
    writer.close();
    assert_eq!(search(&reader, &at).unwrap().resume, 36, "nothing can grow any more");
}

#[test]
fn a_long_line_that_has_not_ended_is_gone_on_with_from_its_start() {
    let content = ["first\n", &"x".repeat(300_000), "NEE"].concat();
    let (mut writer, reader, _dir) = log(&[(Stream::Stdout, content.as_bytes())]);
    let pattern = compile("NEEDLE|^first");
    let found = search(&reader, &request(&pattern)).unwrap();
    assert_eq!((found.matches, found.resume), (1, 6));
    writer.append(Stream::Stdout, b"DLE");
    let found = search(&reader, &SearchRequest { from: 6, ..request(&pattern) }).unwrap();
    assert_eq!((found.matches, found.resume), (1, content.len() as u64 + 3));
}

#[test]
fn lines_are_counted_that_were_searched() {
    let writes: [(Stream, &[u8]); 3] =
        [(Stream::Stdout, b"a\nb\nc\n"), (Stream::Stderr, b"x\ny\n"), (Stream::Stdout, b"d")];
    let (_writer, reader, _dir) = log(&writes);
    let pattern = compile("none");
    for (stream, from, expected) in [
        (None, 0, 6),
        (None, 2, 5),
        (None, 3, 5),
        (None, 10, 1),
        (None, 11, 0),
        (None, u64::MAX, 0),
        (Some(Stream::Stderr), 0, 2),
        (Some(Stream::Stdout), 4, 2),
    ] {
        let found = search(&reader, &SearchRequest { stream, from, ..request(&pattern) }).unwrap();
        assert_eq!(found.searched_lines, expected, "{stream:?} from {from}");
        assert!(found.searched_to <= 11 && found.resume <= 11);
    }
}

/// A line of text in a character set, written again and again with a number.
fn encoded(charset: &str, line: &str) -> Vec<u8> {
    let text: String = (0..3000).map(|number| format!("{line} {number}\n")).collect();
    match charset {
        "utf-16le" => "\u{feff}"
            .encode_utf16()
            .chain(text.encode_utf16())
            .flat_map(u16::to_le_bytes)
            .collect(),
        "utf-16be" => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        label => encoding_rs::Encoding::for_label(label.as_bytes()).unwrap().encode(&text).0.into(),
    }
}

#[test]
fn other_character_sets_are_searched_as_they_are_shown() {
    for (charset, line, wanted) in [
        ("utf-16le", "error: größer", "größer 29[0-9]{2}$"),
        ("utf-16be", "error: broken", "^error: broken 29[0-9]{2}$"),
        ("shift_jis", "エラー: ファイルが見つかりません", "^エラー.*29[0-9]{2}"),
        ("euc-jp", "エラー: ファイルが見つかりません", "^エラー.*29[0-9]{2}"),
        ("windows-1251", "Ошибка: файл не найден", "ошибка|файл не найден 29[0-9]{2}$"),
        ("iso-2022-jp", "エラー: ファイルが見つかりません", "^エラー.*29[0-9]{2}"),
    ] {
        let bytes = encoded(charset, line);
        let (_writer, reader, _dir) = log(&[(Stream::Stdout, &bytes)]);
        let pattern = compile(wanted);
        let mut at = SearchRequest { max_matches: 7, ..request(&pattern) };
        let mut lines = Vec::new();
        loop {
            let found = search(&reader, &at).unwrap();
            lines.extend(listed(&found));
            let Some(next) = found.next else { break };
            at.from = next;
        }
        let expected = (2900..3000).map(|number| format!("{}:{line} {number}", number + 1));
        assert_eq!(lines, expected.collect::<Vec<_>>(), "{charset}");
        let whole = search(&reader, &request(&compile("none"))).unwrap();
        assert_eq!((whole.matches, whole.searched_lines), (0, 3000), "{charset}");
    }
}

#[test]
fn a_search_in_another_character_set_whose_time_is_over_gets_on_and_loses_nothing() {
    let bytes = encoded("utf-16le", &"漢字".repeat(60));
    let (_writer, reader, _dir) = log(&[(Stream::Stdout, &bytes)]);
    let (over, _leash) = Patience::start(Duration::ZERO);
    let pattern = compile("漢字 [0-9]+$");
    let mut at = SearchRequest { max_matches: 5000, max_bytes: 1 << 30, ..request(&pattern) };
    let mut numbers = Vec::new();
    loop {
        let found = super::search::search(&reader.blocking(), &at, &over).unwrap();
        numbers.extend(found.lines.iter().map(|line| line.number));
        let Some(next) = found.next else { break };
        assert!(next > at.from);
        at.from = next;
    }
    assert_eq!(numbers, (1..=3000).collect::<Vec<u64>>());
}

#[test]
fn a_match_deep_inside_an_endless_line_is_shown_and_counted_once() {
    let mut content = vec![b'x'; 500_000];
    content.extend_from_slice(b"NEEDLE and NEEDLE");
    content.extend(vec![b'x'; 300_000]);
    content.extend_from_slice(b"NEEDLE\nlast NEEDLE\n");
    let (_writer, reader, _dir) = log(&[(Stream::Stdout, &content)]);
    let found = search(&reader, &request(&compile("NEEDLE"))).unwrap();
    assert_eq!(found.matches, 2);
    assert!(found.lines[0].text.windows(6).any(|window| window == b"NEEDLE"));
    assert!(found.lines.iter().all(|line| line.text.len() <= 2000));
    assert_eq!(found.lines[1].number, 2);
}

#[test]
fn what_does_not_match_can_be_asked_for() {
    let (_writer, reader, _dir) = log(&[(Stream::Stdout, b"a\nX\nb\nc\nX")]);
    let pattern = compile("X");
    let others = SearchRequest { select: Select::Others, ..request(&pattern) };
    let found = search(&reader, &others).unwrap();
    assert_eq!(
        (listed(&found), found.matches),
        (vec!["1:a".into(), "3:b".into(), "4:c".into()], 3)
    );
    let with_context = SearchRequest { context: 1, max_matches: 1, ..others };
    let found = search(&reader, &with_context).unwrap();
    assert_eq!(listed(&found), ["1:a", "2-X"]);
    assert_eq!((found.matches, found.next, found.end_kind), (3, Some(4), PageEnd::More));
}

#[test]
fn a_search_whose_time_is_over_tells_how_far_it_came_and_goes_on_from_there() {
    let content = "match\n".repeat(100_000);
    let (_writer, reader, _dir) = log(&[(Stream::Stdout, content.as_bytes())]);
    let pattern = compile("match");
    let (over, _leash) = Patience::start(Duration::ZERO);
    let mut at =
        SearchRequest { max_matches: usize::MAX, max_bytes: usize::MAX, ..request(&pattern) };
    let (mut matches, mut rounds) = (0, 0);
    loop {
        let found = super::search::search(&reader.blocking(), &at, &over).unwrap();
        assert_eq!(found.matches as usize, found.lines.len());
        matches += found.matches;
        rounds += 1;
        let Some(next) = found.next else { break };
        assert!(found.time_over && next == found.searched_to && next > at.from);
        at.from = next;
    }
    assert_eq!(matches, 100_000);
    assert!(rounds > 5, "{rounds}");
}

#[test]
fn patterns_that_ruin_other_engines_take_linear_time_or_are_refused() {
    let content = "x".repeat(50_000) + "\n" + &"a".repeat(50_000) + "\n";
    let (_writer, reader, _dir) = log(&[(Stream::Stdout, content.as_bytes())]);
    for pattern in ["(a*)*b", "(x+x+)+y", "(a|aa)+$", "(.*)(.*)(.*)(.*)z"] {
        let pattern = compile(pattern);
        search(&reader, &request(&pattern)).unwrap();
    }
}

/// Text with colours, `\r`, empty lines and unfinished ones.
fn any_write() -> impl Strategy<Value = (Stream, String)> {
    let stream = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
    let text = prop_oneof![
        6 => "[ab ]{0,4}\n",
        2 => "[ab\r]{0,3}",
        1 => "[ab]{0,3}\r\n",
        1 => Just("a\u{1b}[31mb\u{1b}[0m\n".to_owned()),
        1 => Just("\u{1b}[1mb".to_owned()),
    ];
    (stream, text)
}

fn any_pattern() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "ab", "^a", "b$", "^$", "", r"a\s*b", "[^a]b", r"\bb", r"\Aa", r"b\z", "(?i)AB", "a|^b$",
        r"^[^b]*$", r"\r",
    ])
}

/// What a line by line search finds: texts of lines.
fn naive(text: &str, pattern: &str, select: Select) -> Vec<String> {
    let pattern = regex::Regex::new(pattern).unwrap();
    let shown = |line: &str| on_screen(line).into_owned();
    let lines = text.split_terminator('\n').map(shown);
    lines.filter(|line| pattern.is_match(line) == (select == Select::Matching)).collect()
}

proptest! {
    #[test]
    fn a_search_finds_what_a_naive_one_finds_and_each_of_it_once(
        writes in vec(any_write(), 0..40),
        stream in proptest::option::of(prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)]),
        pattern in any_pattern(),
        select in prop_oneof![Just(Select::Matching), Just(Select::Others)],
        context in 0..3_usize,
        max_matches in 1..5_usize,
        max_bytes in 0..60_usize,
    ) {
        let bytes: Vec<(Stream, &[u8])> = writes.iter().map(|(of, text)| (*of, text.as_bytes())).collect();
        let (_writer, reader, _dir) = log(&bytes);
        let wanted = writes.iter().filter(|(of, _)| stream.is_none_or(|stream| stream == *of));
        let text: String = wanted.map(|(_, text)| text.as_str()).collect();
        let expected = naive(&text, pattern, select);
        let pattern = compile(pattern);
        let mut request =
            SearchRequest { stream, select, context, max_matches, max_bytes, ..request(&pattern) };
        let mut matches = Vec::new();
        loop {
            let found = search(&reader, &request).unwrap();
            prop_assert_eq!(found.matches as usize, expected.len() - matches.len());
            let of_page = found.lines.iter().filter(|line| line.is_match);
            matches.extend(of_page.map(|line| String::from_utf8(line.text.clone()).unwrap()));
            prop_assert!(found.lines.windows(2).all(|pair| pair[0].offset < pair[1].offset));
            for line in &found.lines {
                prop_assert_eq!(line.number, reader.blocking().line_at(line.offset).unwrap());
            }
            let Some(next) = found.next else { break };
            prop_assert!(next > request.from);
            request.from = next;
        }
        prop_assert_eq!(matches, expected);
    }
}
