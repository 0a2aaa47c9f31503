//! Pages: a log read in pieces of any size is the log.

use shellyard_output::{
    BlockingReader, LogPage, LogStorage, PageEnd, PageRequest, SpillDir, Stream, open_log,
};
use tempfile::TempDir;

use super::mutation::{Plan, Seeds};

/// The bytes of a log with the stream of each piece.
type Pieces = Vec<(Stream, Vec<u8>)>;

/// Cuts content into pieces of two streams.
fn cut(content: &[u8], plan: &mut Plan<'_>) -> Pieces {
    let mut pieces = Vec::new();
    let mut rest = content;
    while !rest.is_empty() {
        let length = 1 + plan.below(rest.len().min(5_000));
        let stream = if plan.byte().is_multiple_of(3) { Stream::Stderr } else { Stream::Stdout };
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push((stream, piece.to_vec()));
        // What is left when the plan is over comes at once.
        if plan.is_over() && !after.is_empty() {
            pieces.push((Stream::Stdout, after.to_vec()));
            break;
        }
        rest = after;
    }
    pieces
}

fn bytes_of(pieces: &Pieces, stream: Option<Stream>) -> Vec<u8> {
    let wanted = pieces.iter().filter(|(of, _)| stream.is_none_or(|stream| stream == *of));
    wanted.flat_map(|(_, bytes)| bytes.iter().copied()).collect()
}

/// Reads a log page by page.
fn read_pages(reader: &BlockingReader, request: PageRequest) -> Vec<LogPage> {
    let mut pages = Vec::new();
    let mut from = 0;
    loop {
        let page = reader.read_page(&PageRequest { from, ..request }).expect("a page");
        assert_eq!(page.start, from, "{request:?}");
        assert!(page.bytes.len() <= request.max_bytes.max(4), "{request:?}: {page:?}");
        let is_over = page.end_kind != PageEnd::More;
        assert!(is_over || page.end > from, "no progress at {from}: {request:?}");
        from = page.end;
        pages.push(page);
        if is_over {
            return pages;
        }
    }
}

fn check(content: &[u8], plan: &mut Plan<'_>, dir: &TempDir) {
    let memory_bytes = [0, 100, 64 * 1024][plan.below(3)];
    let spill_dir = SpillDir::new(dir.path(), Default::default());
    let max_bytes = 1 + plan.below(3_000);
    let max_lines = plan.below(20);
    let stream = [None, Some(Stream::Stdout), Some(Stream::Stderr)][plan.below(3)];
    let pieces = cut(content, plan);
    let (mut writer, reader) = open_log(&LogStorage { memory_bytes, spill_dir });
    for (stream, bytes) in &pieces {
        writer.append(*stream, bytes);
    }
    writer.close();
    let reader = reader.blocking();
    let request = PageRequest { from: 0, to: u64::MAX, stream, max_bytes, max_lines };
    let pages = read_pages(&reader, request);
    let read: Vec<u8> = pages.iter().flat_map(|page| page.bytes.iter().copied()).collect();
    assert_eq!(read, bytes_of(&pieces, stream), "{request:?}");
    let last = pages.last().expect("one at least");
    assert_eq!((last.end, last.end_kind), (content.len() as u64, PageEnd::Complete));
    if max_lines > 0 {
        let newlines = |page: &LogPage| page.bytes.iter().filter(|byte| **byte == b'\n').count();
        assert!(pages.iter().all(|page| newlines(page) <= max_lines), "{request:?}");
    }
    check_lines(content, &reader);
}

/// Lines are found by number and by offset.
fn check_lines(content: &[u8], reader: &BlockingReader) {
    let mut offset = 0;
    for (line, text) in (1..).zip(content.split_inclusive(|byte| *byte == b'\n')).take(50) {
        assert_eq!(reader.offset_of_line(line).expect("a line"), Some(offset), "line {line}");
        assert_eq!(reader.line_at(offset).expect("a line"), line, "offset {offset}");
        offset += text.len() as u64;
    }
}

#[test]
fn the_pages_of_a_log_are_the_log() {
    let dir = TempDir::new().expect("a temporary directory");
    let seeds = Seeds::load("page");
    for seed in seeds.iter() {
        check(seed, &mut Plan::new(&[]), &dir);
    }
    bolero::check!().with_iterations(1_500).for_each(|plan: &[u8]| {
        let mut plan = Plan::new(plan);
        let content = seeds.mutate(&mut plan);
        check(&content, &mut plan, &dir);
    });
}
