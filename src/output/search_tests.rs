//! Searches against a naive model.

use proptest::collection::vec;
use proptest::prelude::*;
use regex::bytes::Regex;

use super::search::{Found, SearchRequest, compile, search};
use super::{LogReader, LogSettings, LogWriter, PageEnd, open};
use crate::spec::Stream;

fn log(writes: &[(Stream, &[u8])]) -> (LogWriter, LogReader, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, reader) =
        open(&LogSettings { memory_bytes: 100, spill_dir: dir.path().to_owned() });
    for (stream, bytes) in writes {
        writer.append(*stream, bytes);
    }
    (writer, reader, dir)
}

fn request(pattern: &Regex) -> SearchRequest<'_> {
    let (max_matches, max_bytes) = (100, 100_000);
    SearchRequest { pattern, stream: None, from: 0, context: 0, max_matches, max_bytes }
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
    let pattern = compile("^X").unwrap();
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
    let pattern = compile("match").unwrap();
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
    let pattern = compile("match").unwrap();
    let stdout = SearchRequest { stream: Some(Stream::Stdout), ..request(&pattern) };
    assert_eq!(listed(&search(&reader, &stdout).unwrap()), ["1:out match"]);
}

#[test]
fn colours_and_carriage_returns_do_not_hide_a_match() {
    let (_writer, reader, _dir) = log(&[(Stream::Stdout, b"\x1b[31mer\x1b[1mror\x1b[0m\r\n")]);
    let found = search(&reader, &request(&compile("^error$").unwrap())).unwrap();
    assert_eq!(listed(&found), ["1:error"]);
}

#[test]
fn a_match_deep_inside_an_endless_line_is_shown_and_counted_once() {
    let mut content = vec![b'x'; 500_000];
    content.extend_from_slice(b"NEEDLE and NEEDLE");
    content.extend(vec![b'x'; 300_000]);
    content.extend_from_slice(b"NEEDLE\nlast NEEDLE\n");
    let (_writer, reader, _dir) = log(&[(Stream::Stdout, &content)]);
    let found = search(&reader, &request(&compile("NEEDLE").unwrap())).unwrap();
    assert_eq!(found.matches, 2);
    assert!(found.lines[0].text.windows(6).any(|window| window == b"NEEDLE"));
    assert!(found.lines.iter().all(|line| line.text.len() <= 2000));
    assert_eq!(found.lines[1].number, 2);
}

#[test]
fn a_bad_pattern_says_what_is_wrong() {
    for pattern in ["(", "[z-a]", "a{99999}{99999}", "(?<=x)y"] {
        let error = compile(pattern).unwrap_err();
        assert_eq!(error.code(), "bad_regex");
        assert!(error.to_string().contains("regular expression"), "{error}");
    }
    assert!(compile(&"x".repeat(20_000_000)).unwrap_err().to_string().len() < 1000);
}

fn any_line() -> impl Strategy<Value = (Stream, String)> {
    let stream = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
    (stream, prop_oneof![3 => "[ab]{0,4}\n", 1 => "[ab]{0,3}"])
}

proptest! {
    #[test]
    fn a_search_finds_what_a_naive_one_finds(
        writes in vec(any_line(), 0..40),
        stream in proptest::option::of(prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)]),
        context in 0..3_usize,
        max_matches in 1..5_usize,
        max_bytes in 0..60_usize,
    ) {
        let bytes: Vec<(Stream, &[u8])> = writes.iter().map(|(of, text)| (*of, text.as_bytes())).collect();
        let (_writer, reader, _dir) = log(&bytes);
        let wanted = writes.iter().filter(|(of, _)| stream.is_none_or(|stream| stream == *of));
        let text: String = wanted.map(|(_, text)| text.as_str()).collect();
        let expected: Vec<&str> = text.lines().filter(|line| line.contains("ab")).collect();
        let pattern = compile("ab").unwrap();
        let mut request = SearchRequest { stream, context, max_matches, max_bytes, ..request(&pattern) };
        let mut matches = Vec::new();
        loop {
            let found = search(&reader, &request).unwrap();
            prop_assert_eq!(found.matches as usize, expected.len() - matches.len());
            let of_page = found.lines.iter().filter(|line| line.is_match);
            matches.extend(of_page.map(|line| String::from_utf8(line.text.clone()).unwrap()));
            prop_assert!(found.lines.windows(2).all(|pair| pair[0].offset < pair[1].offset));
            let Some(next) = found.next else { break };
            prop_assert!(next > request.from);
            request.from = next;
        }
        prop_assert_eq!(matches, expected);
    }
}
