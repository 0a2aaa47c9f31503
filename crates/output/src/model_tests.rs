//! The log against a naive model: any writes, any pages, in memory and in the spill file.

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::index::RUNS_IN_MEMORY;
use super::*;
use crate::Stream;

type Write = (Stream, Vec<u8>);

fn settings(memory_bytes: usize) -> (LogSettings, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let spill_dir = dir.path().join("spill");
    (LogSettings { memory_bytes, spill_dir: spill_dir.into() }, dir)
}

fn any_stream() -> impl Strategy<Value = Stream> {
    prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)]
}

/// Text with newlines and wide characters, and bytes that are no text at all.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => "[a-c\n€😀]{0,12}".prop_map(String::into_bytes),
        1 => vec(prop_oneof![Just(b'\n'), Just(0), Just(0xff), Just(0xe2), any::<u8>()], 0..12),
    ]
}

fn any_writes() -> impl Strategy<Value = Vec<Write>> {
    vec((any_stream(), any_bytes()), 0..40)
}

fn any_limits() -> impl Strategy<Value = (usize, usize)> {
    (0..40_usize, 0..5_usize)
}

/// The bytes of the model that a reader of `stream` should get, from `from` on.
fn expected(writes: &[Write], stream: Option<Stream>, from: usize) -> Vec<u8> {
    let each = writes.iter().flat_map(|(of, bytes)| bytes.iter().map(move |byte| (*of, *byte)));
    let wanted = each.skip(from).filter(|(of, _)| stream.is_none_or(|stream| stream == *of));
    wanted.map(|(_, byte)| byte).collect()
}

fn request(from: u64, stream: Option<Stream>, limits: (usize, usize)) -> PageRequest {
    PageRequest { from, stream, max_bytes: limits.0, max_lines: limits.1 }
}

/// Reads on from `from` until nothing is left at once; gives the bytes and the last page's end.
fn read_on(
    reader: &LogReader,
    from: u64,
    stream: Option<Stream>,
    limits: (usize, usize),
) -> (Vec<u8>, u64, PageEnd) {
    let (mut bytes, mut at) = (Vec::new(), from);
    loop {
        let page = reader.blocking().page(&request(at, stream, limits)).unwrap();
        assert_eq!(page.start, at);
        assert!(page.bytes.len() <= limits.0.max(4));
        let lines = page.bytes.iter().filter(|byte| **byte == b'\n').count();
        assert!(limits.1 == 0 || lines <= limits.1);
        bytes.extend_from_slice(&page.bytes);
        if page.end_kind != PageEnd::More {
            return (bytes, page.end, page.end_kind);
        }
        assert!(page.end > at && !page.bytes.is_empty(), "no progress at {at}");
        at = page.end;
    }
}

fn line_starts(all: &[u8]) -> Vec<usize> {
    let after_newlines = all.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let starts = std::iter::once(0).chain(after_newlines.map(|(newline, _)| newline + 1));
    starts.filter(|start| *start < all.len()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_comes_back_whatever_the_writes_and_the_pages(
        writes in any_writes(),
        memory_bytes in prop_oneof![Just(0_usize), 1..60_usize, Just(100_000)],
        stream in proptest::option::of(any_stream()),
        limits in any_limits(),
        from in 0..100_usize,
    ) {
        let (settings, _dir) = settings(memory_bytes);
        let (mut writer, reader) = open(&settings);
        // One reader follows the writes, one reads everything at the end.
        let (mut followed, mut at) = (Vec::new(), 0);
        for (stream_of_write, bytes) in &writes {
            writer.append(*stream_of_write, bytes);
            let (bytes, end, kind) = read_on(&reader, at, stream, limits);
            prop_assert_eq!(kind, PageEnd::CaughtUp);
            followed.extend(bytes);
            at = end;
        }
        writer.close();
        let (rest, end, kind) = read_on(&reader, at, stream, limits);
        followed.extend(rest);
        prop_assert_eq!(kind, PageEnd::Complete);
        prop_assert_eq!(end, reader.progress().total_bytes);
        prop_assert_eq!(followed, expected(&writes, stream, 0));
        let (later, ..) = read_on(&reader, from as u64, stream, limits);
        prop_assert_eq!(later, expected(&writes, stream, from));
    }

    #[test]
    fn seeks_and_counts_agree_with_a_naive_model(writes in any_writes(), memory_bytes in 0..200_usize) {
        let (settings, _dir) = settings(memory_bytes);
        let (mut writer, reader) = open(&settings);
        for (stream, bytes) in &writes {
            writer.append(*stream, bytes);
        }
        let all = expected(&writes, None, 0);
        let starts = line_starts(&all);
        let progress = reader.progress();
        let newlines = all.iter().filter(|byte| **byte == b'\n').count();
        prop_assert_eq!(progress.total_bytes, all.len() as u64);
        prop_assert_eq!(progress.lines, newlines as u64);
        prop_assert_eq!(progress.open_line, all.last().is_some_and(|byte| *byte != b'\n'));
        prop_assert_eq!(progress.stderr_bytes, expected(&writes, Some(Stream::Stderr), 0).len() as u64);
        for line in 0..starts.len() + 3 {
            let expected = line.checked_sub(1).and_then(|index| starts.get(index));
            let found = reader.blocking().offset_of_line(line as u64).unwrap();
            prop_assert_eq!(found, expected.map(|offset| *offset as u64), "line {}", line);
        }
        for offset in 0..all.len() + 2 {
            let before = all[..offset.min(all.len())].iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(reader.blocking().line_at(offset as u64).unwrap(), before as u64 + 1);
        }
    }

    #[test]
    fn the_tail_is_the_most_whole_lines_that_fit(
        writes in any_writes(),
        memory_bytes in 0..200_usize,
        stream in proptest::option::of(any_stream()),
        limits in any_limits(),
    ) {
        let (settings, _dir) = settings(memory_bytes);
        let (mut writer, reader) = open(&settings);
        for (stream, bytes) in &writes {
            writer.append(*stream, bytes);
        }
        writer.close();
        let start = reader.blocking().tail_start(stream, limits.0, limits.1).unwrap();
        let tail = expected(&writes, stream, start as usize);
        let all = expected(&writes, stream, 0);
        let fits = |from: &usize| {
            all.len() - from <= limits.0
                && (limits.1 == 0 || line_starts(&all[*from..]).len() <= limits.1)
        };
        match line_starts(&all).into_iter().find(fits) {
            Some(from) => prop_assert_eq!(tail, &all[from..]),
            // No whole line fits: a part of the last one, less the character that was cut.
            None => {
                prop_assert!(all.ends_with(&tail) && tail.len() <= limits.0);
                prop_assert!(tail.len() + 3 >= limits.0.min(all.len()));
            }
        }
    }
}

#[test]
fn a_page_past_the_end_is_empty_and_stays_where_it_was_asked_for() {
    let (settings, _dir) = settings(100);
    let (mut writer, reader) = open(&settings);
    writer.append(Stream::Stdout, b"abc");
    for stream in [None, Some(Stream::Stdout)] {
        let page = reader.blocking().page(&request(u64::MAX, stream, (10, 0))).unwrap();
        assert_eq!((page.start, page.end, page.end_kind), (u64::MAX, u64::MAX, PageEnd::CaughtUp));
    }
    writer.close();
    let page = reader.blocking().page(&request(99, None, (10, 0))).unwrap();
    assert_eq!((page.bytes.len(), page.end, page.end_kind), (0, 99, PageEnd::Complete));
}

#[test]
fn a_stream_that_wrote_nothing_ends_with_the_log() {
    let (settings, _dir) = settings(0);
    let (mut writer, reader) = open(&settings);
    writer.append(Stream::Stdout, &[b'x'; 300_000]);
    let page = reader.blocking().page(&request(0, Some(Stream::Stderr), (10, 0))).unwrap();
    assert_eq!((page.bytes.len(), page.end, page.end_kind), (0, 300_000, PageEnd::CaughtUp));
}

#[test]
fn a_cursor_taken_before_the_spill_reads_the_same_bytes_after() {
    let (settings, _dir) = settings(64 * 1024);
    let (mut writer, reader) = open(&settings);
    writer.append(Stream::Stdout, b"first\nsecond\n");
    let before = reader.blocking().page(&request(6, None, (7, 0))).unwrap();
    writer.append(Stream::Stderr, &vec![b'x'; 200_000]);
    assert_eq!(memory_of(&reader).0, 0, "spilled");
    writer.close();
    let after = reader.blocking().page(&request(6, None, (7, 0))).unwrap();
    assert_eq!(before.bytes, b"second\n");
    assert_eq!(before.bytes, after.bytes);
}

#[test]
fn what_the_disk_does_not_take_is_counted_and_later_writes_are_kept() {
    let (settings, dir) = settings(8);
    // A file where the directory should be: no spill file can be made.
    std::fs::write(settings.spill_dir.root(), b"").unwrap();
    let (mut writer, reader) = open(&settings);
    assert_eq!(writer.append(Stream::Stdout, b"0123").dropped_bytes, 0);
    let progress = writer.append(Stream::Stdout, b"456789");
    assert_eq!((progress.total_bytes, progress.dropped_bytes), (8, 2));
    assert_eq!(writer.append(Stream::Stderr, b"lost").dropped_bytes, 6);
    std::fs::remove_file(dir.path().join("spill")).unwrap();
    assert_eq!(writer.append(Stream::Stderr, b"kept").dropped_bytes, 6);
    writer.close();
    let page = reader.blocking().page(&request(0, None, (100, 0))).unwrap();
    assert_eq!((page.bytes.as_slice(), page.gap_bytes), (b"01234567".as_slice(), 0));
    assert_eq!((page.end, page.end_kind), (8, PageEnd::More), "a page ends where bytes were lost");
    let page = reader.blocking().page(&request(8, None, (100, 0))).unwrap();
    assert_eq!((page.bytes.as_slice(), page.gap_bytes), (b"kept".as_slice(), 6));
    assert_eq!(page.end_kind, PageEnd::Complete);
}

#[test]
fn nothing_is_added_after_the_close() {
    let (settings, _dir) = settings(100);
    let (mut writer, reader) = open(&settings);
    writer.append(Stream::Stdout, b"a");
    writer.close();
    let progress = writer.append(Stream::Stdout, b"bc");
    assert_eq!((progress.total_bytes, progress.dropped_bytes, progress.closed), (1, 2, true));
    assert_eq!(reader.progress(), progress);
}

/// Bytes of content and of index that a log holds in memory.
fn memory_of(reader: &LogReader) -> (usize, usize) {
    let of_part = |part: &Arc<shared::Shared>| {
        let inner = part.lock();
        let store = match &inner.store {
            spill::Store::Memory(memory) => memory.capacity(),
            spill::Store::Spilled(_) | spill::Store::Packed(_) => 0,
        };
        (store, inner.index.memory_bytes())
    };
    let parts = reader.parts().all();
    parts.iter().map(of_part).fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
}

#[test]
fn an_endless_line_and_streams_that_take_turns_keep_memory_bounded() {
    const BOUND: usize = 2 * RUNS_IN_MEMORY * size_of::<index::Run>();
    let (settings, _dir) = settings(4096);
    let (mut writer, reader) = open(&settings);
    for _ in 0..20_000 {
        writer.append(Stream::Stdout, b"o");
        writer.append(Stream::Stderr, b"e");
        let (store, index) = memory_of(&reader);
        assert!(store <= 4096 && index <= BOUND, "{store} {index}");
    }
    let (out, ..) = read_on(&reader, 0, Some(Stream::Stdout), (1000, 0));
    assert_eq!(out, [b'o'; 20_000]);
    assert_eq!(reader.blocking().tail_start(Some(Stream::Stderr), 15_000, 0).unwrap(), 10_001);
    writer.append(Stream::Stdout, &vec![b'x'; 80 * 1024 * 1024]);
    let (store, index) = memory_of(&reader);
    assert!(store == 0 && index <= BOUND, "{store} {index}");
    assert_eq!(reader.blocking().line_at(80_000_000).unwrap(), 1);
}

#[test]
fn seeks_find_their_way_through_an_index_that_is_in_its_file() {
    let (settings, _dir) = settings(0);
    let (mut writer, reader) = open(&settings);
    let mut starts = Vec::new();
    for number in 0..4 * RUNS_IN_MEMORY {
        let stream = if number % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
        starts.push(reader.progress().total_bytes);
        writer.append(stream, format!("{number}\n").as_bytes());
    }
    for (index, start) in starts.iter().enumerate() {
        let line = index as u64 + 1;
        assert_eq!(reader.blocking().offset_of_line(line).unwrap(), Some(*start));
        assert_eq!(reader.blocking().line_at(*start).unwrap(), line);
    }
    let page = reader.blocking().page(&request(starts[100], Some(Stream::Stderr), (8, 0))).unwrap();
    assert_eq!((page.bytes.as_slice(), page.end), (b"101\n103\n".as_slice(), starts[104]));
}

#[test]
fn an_empty_log_is_small() {
    let (settings, _dir) = settings(64 * 1024);
    let (_writer, reader) = open(&settings);
    assert_eq!(memory_of(&reader), (0, 0));
    assert!(size_of::<shared::Shared>() + size_of::<LogWriter>() < 512);
}

#[test]
fn a_spill_directory_is_only_made_when_it_is_needed() {
    let (settings, _dir) = settings(10);
    let (mut writer, _reader) = open(&settings);
    writer.append(Stream::Stdout, b"0123456789");
    assert!(!settings.spill_dir.root().exists());
    writer.append(Stream::Stdout, b"!");
    assert!(settings.spill_dir.root().exists());
}

/// Follows a log to its end as a client would: a page, then a wait for more.
async fn follow(reader: LogReader, stream: Option<Stream>, max_bytes: usize) -> Vec<u8> {
    let (mut bytes, mut at) = (Vec::new(), 0);
    loop {
        let page = reader.blocking().page(&request(at, stream, (max_bytes, 0))).unwrap();
        bytes.extend_from_slice(&page.bytes);
        at = page.end;
        match page.end_kind {
            PageEnd::More => {}
            PageEnd::CaughtUp => reader.wait_past(page.total_bytes).await,
            PageEnd::Complete => return bytes,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_of_a_log_that_is_being_written_get_every_byte_and_never_hang() {
    for round in 0..20 {
        let (settings, _dir) = settings(1000);
        let (mut writer, reader) = open(&settings);
        let readers = [(None, 7), (None, 5000), (Some(Stream::Stderr), 100)]
            .map(|(stream, size)| (stream, tokio::spawn(follow(reader.clone(), stream, size))));
        let writes: Vec<Write> = (0..500_usize)
            .map(|number| {
                let stream = if number % 3 == 0 { Stream::Stderr } else { Stream::Stdout };
                (stream, format!("€{number}\n").repeat(round % 4 + 1).into_bytes())
            })
            .collect();
        let written = writes.clone();
        let writing = tokio::task::spawn_blocking(move || {
            for (stream, bytes) in &writes {
                writer.append(*stream, bytes);
            }
        });
        for (stream, following) in readers {
            let read = tokio::time::timeout(Duration::from_secs(60), following).await;
            assert!(read.expect("no hang").unwrap() == expected(&written, stream, 0));
        }
        writing.await.unwrap();
    }
}
