//! Benchmarks of reading a finished log: pages, offsets, an excerpt, a summary, a search.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Bencher, Criterion, Throughput};
use shellyard::output::ScanDeadline;
use shellyard::output::excerpt::{Budget, excerpt};
use shellyard::output::pattern::LinePattern;
use shellyard::output::search::{ListingStyle, SearchContext, SearchRequest, Select, search};
use shellyard::output::{
    BlockingReader, LogReader, LogStorage, LogWriter, PageRequest, SummaryLimits, SummaryRequest,
    open_log, summarize,
};
use shellyard::spec::Stream;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const LINES: u64 = 100_000;

pub(crate) fn bench(criterion: &mut Criterion) {
    let log = FilledLog::write();
    places(criterion, &log.reader);
    passes(criterion, &log.reader);
}

/// A log that has spilled.
struct FilledLog {
    reader: LogReader,
    /// Dropping it would close the log, dropping the folder would remove it.
    _open: (LogWriter, TempDir),
}

impl FilledLog {
    fn write() -> Self {
        let folder = TempDir::new().expect("a temporary directory");
        let spill_dir = folder.path().to_owned();
        let (mut writer, reader) =
            open_log(&LogStorage { memory_bytes: 64 << 10, spill_dir: spill_dir.into() });
        for number in 0..LINES {
            let level = if number % 997 == 0 { "error: connection" } else { "info: request" };
            let line = format!("{number:09} {level} took {} us\n", number * 7919 % 10_007);
            writer.append(Stream::Stdout, line.as_bytes());
        }
        Self { reader, _open: (writer, folder) }
    }
}

/// Measures a read on the thread where it is made: how it gets there is not measured.
fn measure<T: 'static>(
    bencher: &mut Bencher<'_>,
    reader: &LogReader,
    read: impl Fn(&BlockingReader) -> T + Copy + Send + 'static,
) {
    let runtime = Runtime::new().expect("a runtime");
    bencher.iter_custom(|times| {
        let repeat = move |log: &BlockingReader| {
            let start = Instant::now();
            (0..times).for_each(|_| drop(black_box(read(log))));
            Ok(start.elapsed())
        };
        runtime.block_on(reader.read_with(repeat)).expect("the log can be read")
    });
}

/// Reads whose cost does not depend on the offset.
fn places(criterion: &mut Criterion, reader: &LogReader) {
    let middle = reader.progress().total_bytes / 2;
    let request =
        PageRequest { from: middle, to: u64::MAX, stream: None, max_bytes: 16 << 10, max_lines: 0 };
    let mut group = criterion.benchmark_group("a log of 100,000 lines");
    group.bench_function("page of 16 KiB in the middle", |bencher| {
        measure(bencher, reader, move |log| log.read_page(black_box(&request)));
    });
    group.bench_function("offset of a line", |bencher| {
        measure(bencher, reader, |log| log.offset_of_line(black_box(LINES / 2)));
    });
    group.bench_function("line at an offset", |bencher| {
        measure(bencher, reader, move |log| log.line_at(black_box(middle)));
    });
    group.bench_function("excerpt of 16 KiB", |bencher| {
        measure(bencher, reader, |log| excerpt(log, 0, Budget::of_bytes(16 << 10)));
    });
    group.finish();
}

/// Reads that look at each byte.
fn passes(criterion: &mut Criterion, reader: &LogReader) {
    let mut group = criterion.benchmark_group("all of 100,000 lines");
    group.sample_size(10).throughput(Throughput::Bytes(reader.progress().total_bytes));
    let request = SummaryRequest { stream: None, from: 0, limits: SummaryLimits::default() };
    group.bench_function("summary", |bencher| {
        measure(bencher, reader, move |log| summarize(log, &request));
    });
    let pattern = Box::leak(Box::new(LinePattern::new("error: [a-z]+").expect("a good pattern")));
    let request = SearchRequest {
        pattern,
        select: Select::Matching,
        stream: None,
        from: 0,
        context: SearchContext::Lines(0),
        style: ListingStyle::Page,
        max_matches: 10,
        max_bytes: 16 << 10,
    };
    let overview = SearchRequest {
        context: SearchContext::Section,
        style: ListingStyle::Overview,
        max_matches: usize::MAX,
        ..request
    };
    for (name, request) in [("search", request), ("search with sections", overview)] {
        group.bench_function(name, |bencher| {
            measure(bencher, reader, move |log| {
                let (patience, _leash) = ScanDeadline::start(Duration::from_hours(1));
                search(log, &request, &patience)
            });
        });
    }
    group.finish();
}
