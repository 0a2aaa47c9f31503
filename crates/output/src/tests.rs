//! Tests of whole logs, against simple models.

mod model {
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use crate::Stream;
    use crate::index::RUNS_IN_MEMORY;
    use crate::*;

    type Write = (Stream, Vec<u8>);

    fn settings(memory_bytes: usize) -> (LogStorage, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let spill_dir = dir.path().join("spill");
        (LogStorage { memory_bytes, spill_dir: spill_dir.into() }, dir)
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

    /// The expected bytes for a reader of `stream`, from `from` on.
    fn expected(writes: &[Write], stream: Option<Stream>, from: usize) -> Vec<u8> {
        let each = writes.iter().flat_map(|(of, bytes)| bytes.iter().map(move |byte| (*of, *byte)));
        let wanted = each.skip(from).filter(|(of, _)| stream.is_none_or(|stream| stream == *of));
        wanted.map(|(_, byte)| byte).collect()
    }

    fn request(from: u64, stream: Option<Stream>, limits: (usize, usize)) -> PageRequest {
        PageRequest { from, to: u64::MAX, stream, max_bytes: limits.0, max_lines: limits.1 }
    }

    /// Reads pages from `from` until nothing more can be read at once. Returns the bytes and the
    /// last page's end.
    fn read_on(
        reader: &LogReader,
        from: u64,
        stream: Option<Stream>,
        limits: (usize, usize),
    ) -> (Vec<u8>, u64, PageEnd) {
        let mut bytes = Vec::new();
        let mut at = from;
        loop {
            let page = reader.blocking().read_page(&request(at, stream, limits)).unwrap();
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
            let (mut writer, reader) = open_log(&settings);
            // One reader follows the writes, one reads everything at the end.
            let mut followed = Vec::new();
            let mut at = 0;
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
            let (mut writer, reader) = open_log(&settings);
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
            let (mut writer, reader) = open_log(&settings);
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
                // No whole line fits: the result is a part of the last line, without a split
                // character.
                None => {
                    prop_assert!(all.ends_with(&tail) && tail.len() <= limits.0);
                    prop_assert!(tail.len() + 3 >= limits.0.min(all.len()));
                }
            }
        }
    }

    #[test]
    fn a_page_past_the_end_is_empty_at_the_requested_offset() {
        let (settings, _dir) = settings(100);
        let (mut writer, reader) = open_log(&settings);
        writer.append(Stream::Stdout, b"abc");
        for stream in [None, Some(Stream::Stdout)] {
            let page = reader.blocking().read_page(&request(u64::MAX, stream, (10, 0))).unwrap();
            assert_eq!(
                (page.start, page.end, page.end_kind),
                (u64::MAX, u64::MAX, PageEnd::CaughtUp)
            );
        }
        writer.close();
        let page = reader.blocking().read_page(&request(99, None, (10, 0))).unwrap();
        assert_eq!((page.bytes.len(), page.end, page.end_kind), (0, 99, PageEnd::Complete));
    }

    #[test]
    fn a_stream_that_wrote_nothing_ends_with_the_log() {
        let (settings, _dir) = settings(0);
        let (mut writer, reader) = open_log(&settings);
        writer.append(Stream::Stdout, &[b'x'; 300_000]);
        let page = reader.blocking().read_page(&request(0, Some(Stream::Stderr), (10, 0))).unwrap();
        assert_eq!((page.bytes.len(), page.end, page.end_kind), (0, 300_000, PageEnd::CaughtUp));
    }

    #[test]
    fn a_cursor_taken_before_the_spill_reads_the_same_bytes_after() {
        let (settings, _dir) = settings(64 * 1024);
        let (mut writer, reader) = open_log(&settings);
        writer.append(Stream::Stdout, b"first\nsecond\n");
        let before = reader.blocking().read_page(&request(6, None, (7, 0))).unwrap();
        writer.append(Stream::Stderr, &vec![b'x'; 200_000]);
        assert_eq!(memory_of(&reader).0, 0, "spilled");
        writer.close();
        let after = reader.blocking().read_page(&request(6, None, (7, 0))).unwrap();
        assert_eq!(before.bytes, b"second\n");
        assert_eq!(before.bytes, after.bytes);
    }

    #[test]
    fn bytes_that_the_disk_refuses_are_counted_and_later_writes_are_kept() {
        let (settings, dir) = settings(8);
        // A file in the place of the directory: no spill file can be created.
        std::fs::write(settings.spill_dir.root(), b"").unwrap();
        let (mut writer, reader) = open_log(&settings);
        assert_eq!(writer.append(Stream::Stdout, b"0123").dropped_bytes, 0);
        let progress = writer.append(Stream::Stdout, b"456789");
        assert_eq!((progress.total_bytes, progress.dropped_bytes), (8, 2));
        assert_eq!(writer.append(Stream::Stderr, b"lost").dropped_bytes, 6);
        std::fs::remove_file(dir.path().join("spill")).unwrap();
        assert_eq!(writer.append(Stream::Stderr, b"kept").dropped_bytes, 6);
        writer.close();
        let page = reader.blocking().read_page(&request(0, None, (100, 0))).unwrap();
        assert_eq!((page.bytes.as_slice(), page.gap_bytes), (b"01234567".as_slice(), 0));
        assert_eq!(
            (page.end, page.end_kind),
            (8, PageEnd::More),
            "a page ends where bytes were lost"
        );
        let page = reader.blocking().read_page(&request(8, None, (100, 0))).unwrap();
        assert_eq!((page.bytes.as_slice(), page.gap_bytes), (b"kept".as_slice(), 6));
        assert_eq!(page.end_kind, PageEnd::Complete);
    }

    #[test]
    fn nothing_is_added_after_the_close() {
        let (settings, _dir) = settings(100);
        let (mut writer, reader) = open_log(&settings);
        writer.append(Stream::Stdout, b"a");
        writer.close();
        let progress = writer.append(Stream::Stdout, b"bc");
        assert_eq!((progress.total_bytes, progress.dropped_bytes, progress.closed), (1, 2, true));
        assert_eq!(reader.progress(), progress);
    }

    /// Bytes of content and of index that a log holds in memory.
    fn memory_of(reader: &LogReader) -> (usize, usize) {
        let of_part = |part: &Arc<segment::LogSegment>| {
            let mut inner = part.lock();
            let store = match &inner.store {
                segment::SegmentStore::Memory(memory) => memory.capacity(),
                segment::SegmentStore::Spilled(_)
                | segment::SegmentStore::Durable(_)
                | segment::SegmentStore::Compressed(_) => 0,
            };
            (store, inner.index_mut().memory_bytes())
        };
        let parts = reader.shared_log().segments();
        parts.iter().map(of_part).fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    }

    #[test]
    fn memory_is_bounded_for_endless_lines_and_alternating_streams() {
        const BOUND: usize = 2 * RUNS_IN_MEMORY * size_of::<index::StreamRun>();
        let (settings, _dir) = settings(4096);
        let (mut writer, reader) = open_log(&settings);
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
    fn seeks_work_with_an_index_in_a_file() {
        let (settings, _dir) = settings(0);
        let (mut writer, reader) = open_log(&settings);
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
        let page = reader
            .blocking()
            .read_page(&request(starts[100], Some(Stream::Stderr), (8, 0)))
            .unwrap();
        assert_eq!((page.bytes.as_slice(), page.end), (b"101\n103\n".as_slice(), starts[104]));
    }

    #[test]
    fn an_empty_log_is_small() {
        let (settings, _dir) = settings(64 * 1024);
        let (_writer, reader) = open_log(&settings);
        assert_eq!(memory_of(&reader), (0, 0));
        assert!(size_of::<segment::LogSegment>() + size_of::<LogWriter>() < 512);
    }

    #[test]
    fn a_spill_directory_is_only_created_when_it_is_needed() {
        let (settings, _dir) = settings(10);
        let (mut writer, _reader) = open_log(&settings);
        writer.append(Stream::Stdout, b"0123456789");
        assert!(!settings.spill_dir.root().exists());
        writer.append(Stream::Stdout, b"!");
        assert!(settings.spill_dir.root().exists());
    }

    /// Follows a log to its end as a client would: a page, then a wait for more.
    async fn follow(reader: LogReader, stream: Option<Stream>, max_bytes: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut at = 0;
        loop {
            let page = reader.blocking().read_page(&request(at, stream, (max_bytes, 0))).unwrap();
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
            let (mut writer, reader) = open_log(&settings);
            let readers = [(None, 7), (None, 5000), (Some(Stream::Stderr), 100)]
                .map(|(stream, size)| (stream, tokio::spawn(follow(reader.clone(), stream, size))));
            let streams = [Stream::Stderr, Stream::Stdout, Stream::Stdout].into_iter().cycle();
            let texts = (0..500).map(|number| format!("€{number}\n").repeat(round % 4 + 1));
            let writes: Vec<Write> = streams.zip(texts.map(String::into_bytes)).collect();
            let written = writes.clone();
            let writing = tokio::task::spawn_blocking(move || {
                writes.iter().map(|(stream, bytes)| writer.append(*stream, bytes)).last()
            });
            for (stream, following) in readers {
                let read = tokio::time::timeout(Duration::from_secs(60), following).await;
                assert!(read.expect("no hang").unwrap() == expected(&written, stream, 0));
            }
            writing.await.unwrap();
        }
    }
}

mod bounds {
    use std::collections::HashMap;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::line_scan::ScanDeadline;
    use super::super::segment::SegmentStore;
    use crate::Stream;
    use crate::counters::DropReason;
    use crate::excerpt::{Budget, excerpt, tail};
    use crate::pattern::LinePattern;
    use crate::search::{ListingStyle, SearchContext, SearchRequest, Select, search};
    use crate::*;

    type Model = Vec<(Stream, u8)>;

    struct BoundedLog {
        writer: LogWriter,
        reader: LogReader,
        quota: Arc<Quota>,
        /// Every byte that has an offset.
        model: Model,
        /// The end of each line: after its newline, or where bytes were dropped.
        line_ends: Vec<usize>,
        dir: tempfile::TempDir,
    }

    impl BoundedLog {
        fn new(memory_bytes: usize, keep: KeepOutput, store_bytes: u64) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let settings = LogStorage { memory_bytes, spill_dir: dir.path().join("spill").into() };
            let tenant_bytes = u64::MAX;
            let tenants = HashMap::new();
            let limits = QuotaLimits { store_bytes, tenant_bytes, tenants };
            let quota = Quota::new(limits, 1 << 20, Arc::default());
            let bounds = LogBounds { keep, quota: quota.tenant_quota("me") };
            let (writer, reader) = open_bounded_log(&settings, bounds);
            Self { writer, reader, quota, model: Vec::new(), line_ends: Vec::new(), dir }
        }

        /// Appends bytes, and checks that each byte either got an offset or was counted as dropped.
        fn append(&mut self, stream: Stream, bytes: &[u8]) -> LogProgress {
            let before = self.reader.progress();
            let after = self.writer.append(stream, bytes);
            let kept = (after.total_bytes - before.total_bytes) as usize;
            let dropped = (after.dropped_bytes - before.dropped_bytes) as usize;
            assert_eq!(kept + dropped, bytes.len());
            assert_eq!(dropped > 0 || before.dropped_why.is_some(), after.dropped_why.is_some());
            for byte in &bytes[..kept] {
                self.model.push((stream, *byte));
                if *byte == b'\n' {
                    self.line_ends.push(self.model.len());
                }
            }
            if dropped > 0 && self.line_ends.last().copied().unwrap_or(0) < self.model.len() {
                self.line_ends.push(self.model.len());
            }
            assert_eq!(after.total_bytes, self.model.len() as u64);
            assert_eq!(after.lines, self.newlines(self.model.len()));
            after
        }

        fn newlines(&self, before: usize) -> u64 {
            self.line_ends.iter().filter(|end| **end <= before).count() as u64
        }

        fn expected(&self, stream: Option<Stream>, from: u64, to: u64) -> Vec<u8> {
            let range = &self.model[from as usize..to as usize];
            let wanted = range.iter().filter(|(of, _)| stream.is_none_or(|stream| stream == *of));
            wanted.map(|(_, byte)| *byte).collect()
        }

        fn page(&self, from: u64, stream: Option<Stream>, max_bytes: usize) -> LogPage {
            self.reader
                .blocking()
                .read_page(&PageRequest { from, to: u64::MAX, stream, max_bytes, max_lines: 0 })
                .unwrap()
        }

        /// Reads pages from `from` and checks each. Returns the readable ranges, the bytes that are
        /// reported as missing, and the end.
        fn read_on(
            &self,
            mut from: u64,
            stream: Option<Stream>,
            max_bytes: usize,
        ) -> (Vec<(u64, u64)>, u64, u64) {
            let mut there = Vec::new();
            let mut missing = 0;
            loop {
                let page = self.page(from, stream, max_bytes);
                assert_eq!(page.bytes, self.expected(stream, page.start, page.end), "{from}");
                assert!(page.gap_bytes >= page.start - from);
                there.push((page.start, page.end));
                missing += page.gap_bytes;
                assert!(page.end > from || page.end_kind != PageEnd::More, "no progress at {from}");
                from = page.end;
                if page.end_kind != PageEnd::More {
                    return (there, missing, from);
                }
            }
        }

        /// Checks that all readable bytes can be found by line, counted, searched and shown.
        fn check_lines(&self) {
            let (there, ..) = self.read_on(0, None, 1 << 20);
            let starts = std::iter::once(0).chain(self.line_ends.iter().copied());
            let starts: Vec<u64> = starts.map(|start| start as u64).collect();
            let is_there =
                |offset: &u64| there.iter().any(|(from, to)| (*from..*to).contains(offset));
            for offset in (0..self.model.len() as u64).filter(is_there) {
                let line = self.newlines(offset as usize) + 1;
                assert_eq!(
                    self.reader.blocking().line_at(offset).unwrap(),
                    line,
                    "{offset} in {there:?}"
                );
                if let Ok(index) = starts.binary_search(&offset) {
                    let found = self.reader.blocking().offset_of_line(index as u64 + 1).unwrap();
                    let lies_before_hole = offset > 0 && !is_there(&(offset - 1));
                    assert!(
                        found == Some(offset) || lies_before_hole,
                        "line {} {found:?}",
                        index + 1
                    );
                }
            }
            self.check_streams(is_there);
            self.check_search(&starts);
            self.check_excerpts();
        }

        /// Checks that every readable byte of a stream, and no other, is found by its position.
        fn check_streams(&self, is_there: impl Fn(&u64) -> bool) {
            for stream in [Stream::Stdout, Stream::Stderr] {
                let places = (0..).zip(&self.model).filter(|(_, (of, _))| *of == stream);
                for (position, (offset, _)) in (0..).zip(places) {
                    self.check_byte(stream, position, offset, is_there(&offset));
                }
            }
        }

        fn check_byte(&self, stream: Stream, position: u64, offset: u64, is_there: bool) {
            let reader = self.reader.blocking();
            let hole = reader.first_hole(Some(stream), position..position + 1).unwrap();
            assert_eq!(hole.is_none(), is_there, "{position} at {offset}");
            if is_there {
                assert_eq!(log_offset(&reader, stream, position).unwrap(), offset);
                assert_eq!(stream_offset(&reader, stream, offset).unwrap(), position);
                let end = Some(position + 1);
                let stream = Some(stream);
                let byte = LogRangeRequest { stream, start: position, end, max_bytes: 1 };
                let byte = reader.read_range(&byte).unwrap();
                assert_eq!(byte.bytes, self.expected(None, offset, offset + 1));
            }
        }

        fn check_search(&self, starts: &[u64]) {
            let pattern = LinePattern::new("a").unwrap();
            let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
            let request = SearchRequest {
                pattern: &pattern,
                select: Select::Matching,
                stream: None,
                from: 0,
                context: SearchContext::Lines(0),
                style: ListingStyle::Page,
                max_matches: usize::MAX,
                max_bytes: usize::MAX,
            };
            let found = search(&self.reader.blocking(), &request, &deadline).unwrap();
            assert_eq!(found.lines.len() as u64, found.matches);
            for line in found.lines {
                let end = line.offset + line.text.len() as u64;
                assert_eq!(line.text, self.expected(None, line.offset, end));
                let start = starts[line.number as usize - 1];
                assert!(start <= line.offset && !line.text.contains(&b'\n'));
                let crosses = |start: &u64| line.offset < *start && *start < end;
                assert!(!starts.iter().any(crosses), "a line ends where bytes were lost");
            }
        }

        fn check_excerpts(&self) {
            let budget = Budget::of_bytes(30);
            for from in [0, self.model.len() as u64 / 2] {
                let shown = excerpt(&self.reader.blocking(), from, budget).unwrap();
                assert!(shown.from >= from && shown.gap_bytes == shown.from - from);
                for section in &shown.sections {
                    let line = self.newlines(section.start as usize) + 1;
                    assert_eq!(section.first_line, line);
                }
            }
            let shown = tail(&self.reader.blocking(), 0, budget).unwrap();
            assert!(shown.hidden.is_none() && (shown.gap_bytes == 0 || shown.sections.is_empty()));
            let start = self.reader.blocking().tail_start(None, 20, 0).unwrap();
            let page = self.page(start, None, 1 << 20);
            assert_eq!(page.end, page.total_bytes, "a tail crosses no hole");
            assert!(page.start == start || page.bytes.is_empty() && page.gap_bytes > 0);
        }

        /// The files that hold the log's bytes now, open for writing.
        fn files(&self) -> Vec<File> {
            let parts = self.reader.shared_log().segments();
            let file = |part: &Arc<segment::LogSegment>| match &part.lock().store {
                SegmentStore::Spilled(file) => Some(writable(&file.open().unwrap())),
                SegmentStore::Memory(_)
                | SegmentStore::Durable(_)
                | SegmentStore::Compressed(_) => None,
            };
            parts.iter().filter_map(file).collect()
        }
    }

    /// Opens a file again, as another program would.
    fn writable(file: &File) -> File {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        File::options().write(true).open(path).unwrap()
    }

    fn any_stream() -> impl Strategy<Value = Stream> {
        prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)]
    }

    fn any_keep() -> impl Strategy<Value = KeepOutput> {
        prop_oneof![Just(KeepOutput::All), (0..120_u64).prop_map(KeepOutput::Ends)]
    }

    /// An event in the life of a log.
    #[derive(Debug, Clone)]
    enum LogEvent {
        Append(Stream, Vec<u8>),
        Cut(u64),
        Read(Option<Stream>, usize),
    }

    fn any_log_event() -> impl Strategy<Value = LogEvent> {
        let append = || (any_stream(), "[a-c\n]{0,30}");
        prop_oneof![
            8 => append().prop_map(|(stream, text)| LogEvent::Append(stream, text.into_bytes())),
            1 => (0..100_u64).prop_map(LogEvent::Cut),
            3 => (proptest::option::of(any_stream()), 0..40_usize)
                .prop_map(|(stream, size)| LogEvent::Read(stream, size)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

        #[test]
        fn missing_bytes_are_reported_and_the_others_are_correct(
            events in vec(any_log_event(), 0..40),
            keep in any_keep(),
            memory_bytes in 0..100_usize,
            store_bytes in prop_oneof![Just(u64::MAX), 0..300_u64],
        ) {
            let mut log = BoundedLog::new(memory_bytes, keep, store_bytes);
            let mut followed = 0;
            for event in events {
                match event {
                    LogEvent::Append(stream, bytes) => drop(log.append(stream, &bytes)),
                    LogEvent::Cut(length) => {
                        if let Some(file) = log.files().first() {
                            let length = length.min(file.metadata().unwrap().len());
                            file.set_len(length).unwrap();
                        }
                    }
                    LogEvent::Read(stream, size) => (_, _, followed) = log.read_on(followed, stream, size),
                }
                prop_assert!(log.quota.used() <= store_bytes);
            }
            log.writer.close();
            log.read_on(followed, None, 50);
            let (there, missing, end) = log.read_on(0, None, 17);
            let read: u64 = there.iter().map(|(from, to)| to - from).sum();
            let progress = log.reader.progress();
            prop_assert_eq!(end, progress.total_bytes);
            prop_assert_eq!(missing, progress.total_bytes - read + progress.dropped_bytes);
            log.check_lines();
            let BoundedLog { writer, reader, quota, .. } = log;
            drop((writer, reader));
            prop_assert_eq!(quota.used(), 0, "all room came back");
        }

        #[test]
        fn both_ends_are_kept_and_no_more_than_a_quarter_beside_them(
            writes in vec((any_stream(), "[a-c\n]{0,60}"), 0..60),
            large in 0..400_u64,
            memory_bytes in 0..100_usize,
        ) {
            let mut log = BoundedLog::new(memory_bytes, KeepOutput::Ends(large), u64::MAX);
            for (stream, text) in &writes {
                let progress = log.append(*stream, text.as_bytes());
                let (there, missing, total) = log.read_on(0, None, 1 << 20);
                let half = large.div_ceil(2);
                let first = there[0].1;
                let last = there.last().unwrap();
                prop_assert!(first >= half.min(total));
                prop_assert!(last.1 == total && (first == total || last.0 <= total.saturating_sub(half)));
                prop_assert_eq!(progress.removed_bytes, missing);
                prop_assert!(total - missing <= large + large / 4 + 4, "{} of {}", total - missing, large);
                prop_assert_eq!(progress.dropped_bytes, 0);
            }
            log.writer.close();
            log.check_lines();
        }
    }

    #[test]
    fn a_hole_is_reported_once_and_reading_continues_after_it() {
        let mut log = BoundedLog::new(0, KeepOutput::Ends(40), u64::MAX);
        for number in 0..100 {
            log.append(Stream::Stdout, format!("line {number:03}\n").as_bytes());
        }
        log.writer.close();
        let head = log.page(0, None, 1000);
        assert_eq!(
            (head.start, head.end, head.gap_bytes, head.end_kind),
            (0, 20, 0, PageEnd::More)
        );
        let rest = log.page(20, None, 1000);
        assert_eq!((rest.gap_bytes, rest.end_kind), (rest.start - 20, PageEnd::Complete));
        assert!(rest.start > 800 && rest.bytes.ends_with(b"line 098\nline 099\n"));
        assert_eq!(log.reader.blocking().line_at(890).unwrap(), 99);
        assert_eq!(log.reader.blocking().offset_of_line(99).unwrap(), Some(882));
        assert_eq!(
            log.reader.blocking().offset_of_line(50).unwrap(),
            Some(20),
            "where the hole starts"
        );
        let budget = Budget::of_bytes(10_000);
        let shown = excerpt(&log.reader.blocking(), 0, budget).unwrap();
        let hidden = shown.hidden.unwrap();
        assert_eq!(shown.sections.len(), 2);
        // The first section ends with a whole line, and the hole begins inside that line.
        assert_eq!(hidden.missing_bytes, rest.start - 20);
        assert_eq!((shown.sections[0].last_line, hidden.first_line), (2, 3));
        assert!(hidden.last_line + 1 >= shown.sections[1].first_line);
    }

    #[test]
    fn a_page_ends_at_its_last_offset_before_other_bytes_and_within_a_hole() {
        let mut log = BoundedLog::new(0, KeepOutput::Ends(40), u64::MAX);
        for number in 0..50 {
            log.append(Stream::Stdout, format!("out {number:03}\n").as_bytes());
            log.append(Stream::Stderr, format!("err {number:03}\n").as_bytes());
        }
        log.writer.close();
        let kept = log.page(20, None, 1000).start;
        let total = log.reader.progress().total_bytes;
        let end = total - 4;
        for (from, to, stream, expected) in [
            (0, 11, None, (0, 11, &b"out 000\nerr"[..])),
            (0, 10, Some(Stream::Stderr), (0, 10, b"er")),
            (0, 8, Some(Stream::Stderr), (0, 8, b"")),
            (20, kept + 2, None, (kept, kept + 2, &log.page(kept, None, 1000).bytes[..2])),
            (20, kept - 1, None, (kept - 1, kept - 1, b"")),
            (total - 8, end, None, (total - 8, end, b"err ")),
            (total, total - 8, None, (total, total, b"")),
        ] {
            let request = PageRequest { from, to, stream, max_bytes: 1000, max_lines: 0 };
            let page = log.reader.blocking().read_page(&request).unwrap();
            assert_eq!((page.start, page.end, &page.bytes[..]), expected, "{request:?}");
            let is_last = page.end == total;
            assert_eq!(page.end_kind == PageEnd::Complete, is_last, "{request:?}");
        }
    }

    #[test]
    fn disk_and_memory_stay_bounded_however_much_is_written() {
        const LARGE: u64 = 1 << 20;
        let mut log = BoundedLog::new(64 * 1024, KeepOutput::Ends(LARGE), u64::MAX);
        let chunk = vec![b'x'; 100_000];
        for _ in 0..200 {
            log.writer.append(Stream::Stdout, &chunk);
            let on_disk: u64 = log.files().iter().map(|file| file.metadata().unwrap().len()).sum();
            assert!(on_disk <= LARGE + LARGE / 4 && log.quota.used() <= 2 * LARGE, "{on_disk}");
        }
        let progress = log.reader.progress();
        assert_eq!(progress.total_bytes, 20_000_000);
        assert!(progress.removed_bytes > 18_000_000);
    }

    #[test]
    fn the_index_of_removed_bytes_is_removed_too() {
        let mut log = BoundedLog::new(0, KeepOutput::Ends(4096), u64::MAX);
        for _ in 0..100_000 {
            log.writer.append(Stream::Stdout, b"o");
            log.writer.append(Stream::Stderr, b"e");
        }
        // At worst, a record of 32 bytes for each kept byte.
        assert!(log.quota.used() < 40 * 6000, "{}", log.quota.used());
    }

    #[test]
    fn a_truncated_file_has_a_hole_and_continues_after_it() {
        for writes_on in [false, true] {
            let mut log = BoundedLog::new(10, KeepOutput::All, u64::MAX);
            for number in 0..100 {
                log.append(Stream::Stdout, format!("line {number:03}\n").as_bytes());
            }
            log.files()[0].set_len(300).unwrap();
            if writes_on {
                log.append(Stream::Stderr, b"later\n");
            }
            assert_eq!(log.page(0, None, 1000).end, 300);
            let rest = log.page(300, None, 1000);
            assert_eq!((rest.start, rest.gap_bytes), (900, 600));
            assert_eq!(rest.bytes, if writes_on { b"later\n".as_slice() } else { b"" });
            log.append(Stream::Stdout, b"last\n");
            log.writer.close();
            log.check_lines();
        }
    }

    #[test]
    fn each_drop_reason_is_reported_and_freed_room_is_used() {
        let mut log = BoundedLog::new(8, KeepOutput::All, 100);
        log.append(Stream::Stdout, &[b'x'; 90]);
        let full = log.append(Stream::Stdout, &[b'y'; 20]);
        assert_eq!((full.dropped_bytes, full.dropped_why), (20, Some(DropReason::StoreFull)));
        let mut log = BoundedLog::new(8, KeepOutput::All, u64::MAX);
        std::fs::write(log.dir.path().join("spill"), b"").unwrap();
        let blocked = log.append(Stream::Stdout, b"0123456789");
        assert_eq!((blocked.dropped_bytes, blocked.dropped_why), (2, Some(DropReason::IoError)));
        std::fs::remove_file(log.dir.path().join("spill")).unwrap();
        assert_eq!(log.append(Stream::Stdout, b"kept").dropped_bytes, 2);
        // The directory may disappear at any time: an open file does not need it, and a new file
        // creates it again.
        std::fs::remove_dir_all(log.dir.path()).unwrap();
        assert_eq!(log.append(Stream::Stdout, b"kept").dropped_bytes, 2);
    }

    /// The expected bytes at each offset: numbered lines of 8 bytes.
    fn numbered(from: u64, length: usize) -> Vec<u8> {
        let lines = (from / 8..).map(|number| format!("{number:07}\n"));
        let bytes = lines.flat_map(String::into_bytes);
        bytes.skip((from % 8) as usize).take(length).collect()
    }

    /// Reads to the end. Returns the end and the number of missing bytes.
    async fn follow_numbers(reader: LogReader, max_bytes: usize) -> (u64, u64) {
        let mut from = 0;
        let mut missing = 0;
        loop {
            let request = PageRequest { from, to: u64::MAX, stream: None, max_bytes, max_lines: 0 };
            let page = reader.blocking().read_page(&request).unwrap();
            assert!(page.bytes == numbered(page.start, page.bytes.len()), "{}", page.start);
            assert_eq!((page.end - page.start) as usize, page.bytes.len());
            missing += page.gap_bytes;
            from = page.end;
            let shown = excerpt(&reader.blocking(), 0, Budget::of_bytes(1000)).unwrap();
            for section in shown.sections {
                let length = (section.end - section.start) as usize;
                assert_eq!(section.text.into_bytes(), numbered(section.start, length));
            }
            match page.end_kind {
                PageEnd::More => {}
                PageEnd::CaughtUp => reader.wait_past(page.total_bytes).await,
                PageEnd::Complete => return (from, missing),
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn readers_never_get_a_wrong_byte_while_the_middle_is_removed() {
        const TOTAL: u64 = 8_000_000;
        let BoundedLog { mut writer, reader, dir: _dir, .. } =
            BoundedLog::new(1000, KeepOutput::Ends(40_000), u64::MAX);
        let readers =
            [100, 5000, 100_000].map(|size| tokio::spawn(follow_numbers(reader.clone(), size)));
        let writing = tokio::task::spawn_blocking(move || {
            for from in (0..TOTAL).step_by(1000) {
                writer.append(Stream::Stdout, &numbered(from, 1000));
            }
        });
        for following in readers {
            let read = tokio::time::timeout(Duration::from_secs(60), following).await;
            let (end, missing) = read.expect("no hang").unwrap();
            assert!(end == TOTAL && missing < TOTAL);
        }
        writing.await.unwrap();
    }
}

mod tiers {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::segment::LogSegment;
    use crate::Stream;
    use crate::counters::{Counters, Tier};
    use crate::{
        KeepOutput, LogBounds, LogReader, LogStorage, LogWriter, Quota, QuotaLimits, SpillDir,
        open_bounded_log,
    };

    #[derive(Debug, Clone)]
    enum LogAction {
        Write(usize),
        /// Writes so many runs that some of them move to a file.
        Chatter,
        /// Closes the log and compresses its files.
        Compress,
        Free,
    }

    fn log_action() -> impl Strategy<Value = LogAction> {
        prop_oneof![
            6 => (1..6_000_usize).prop_map(LogAction::Write),
            1 => Just(LogAction::Chatter),
            2 => Just(LogAction::Compress),
            2 => Just(LogAction::Free),
        ]
    }

    struct TieredLog {
        writer: LogWriter,
        reader: LogReader,
    }

    impl TieredLog {
        fn new(quota: &Arc<Quota>, keep: KeepOutput, spill_dir: &Path) -> Self {
            let settings =
                LogStorage { memory_bytes: 2_000, spill_dir: spill_dir.to_owned().into() };
            let bounds = LogBounds { keep, quota: quota.tenant_quota("tiers") };
            let (writer, reader) = open_bounded_log(&settings, bounds);
            Self { writer, reader }
        }

        fn write(&mut self, bytes: usize) {
            self.writer.append(Stream::Stdout, &vec![b'x'; bytes]);
        }

        fn chatter(&mut self) {
            for number in 0..1_500 {
                let stream = if number % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
                self.writer.append(stream, b"y");
            }
        }

        fn compress(&mut self) {
            self.writer.close();
            for part in self.reader.shared_log().segments() {
                let Some(raw) = part.uncompressed_log() else { continue };
                let file =
                    SpillDir::new(std::env::temp_dir(), Arc::default()).create_file().unwrap();
                if let Some(packed) = raw.compress(file, &Arc::default(), || true).unwrap() {
                    part.replace_spilled(raw.bytes, packed);
                }
            }
        }
    }

    /// The bytes that a segment holds by tier: its store in one tier, its index on the disk.
    fn held(part: &LogSegment) -> [u64; 3] {
        let stored = part.stored_bytes();
        let inner = part.lock();
        let (tier, held) =
            (inner.store.tier(), Tier::ALL.map(|tier| inner.charge.held().bytes_in(tier)));
        for (found, bytes) in Tier::ALL.into_iter().zip(held) {
            match (found == tier, found) {
                (true, Tier::Disk) => assert!(bytes >= stored, "{held:?}"),
                (true, Tier::Memory | Tier::Compressed) => assert_eq!(bytes, stored, "{held:?}"),
                (false, Tier::Disk) => {}
                (false, Tier::Memory | Tier::Compressed) => assert_eq!(bytes, 0, "{held:?}"),
            }
        }
        held
    }

    /// The counted bytes of each tier.
    fn counted(counters: &Counters) -> [u64; 3] {
        counters.stored().map(|(_, bytes)| bytes)
    }

    fn sum_of(logs: &[TieredLog]) -> [u64; 3] {
        let parts = logs.iter().flat_map(|log| log.reader.shared_log().segments());
        parts.fold([0; 3], |sum, part| {
            let held = held(&part);
            [0, 1, 2].map(|tier| sum[tier] + held[tier])
        })
    }

    /// Three logs: one whole, one that keeps its ends, one that cannot spill.
    fn logs(quota: &Arc<Quota>, dir: &Path) -> [TieredLog; 3] {
        let blocked = dir.join("file");
        fs::write(&blocked, "").unwrap();
        [(KeepOutput::All, dir), (KeepOutput::Ends(8_000), dir), (KeepOutput::All, &*blocked)]
            .map(|(keep, dir)| TieredLog::new(quota, keep, dir))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn tiers_add_up_to_what_is_stored_and_end_at_zero(
            actions in prop::collection::vec((0..3_usize, log_action()), 0..40),
            cap in 10_000..200_000_u64,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let store_bytes = cap;
            let tenants = [].into();
            let limits = QuotaLimits { store_bytes, tenant_bytes: cap, tenants };
            let counters = Arc::new(Counters::default());
            let quota = Quota::new(limits, 1 << 20, Arc::clone(&counters));
            let mut all = Vec::from(logs(&quota, dir.path()));
            for (which, log_action) in actions {
                match log_action {
                    LogAction::Write(bytes) => all[which].write(bytes),
                    LogAction::Chatter => all[which].chatter(),
                    LogAction::Compress => all[which].compress(),
                    LogAction::Free => {
                        all[which] = logs(&quota, dir.path()).into_iter().nth(which).unwrap();
                    }
                }
                assert_eq!(counted(&counters), sum_of(&all));
            }
            all.clear();
            assert_eq!((counted(&counters), quota.used()), ([0; 3], 0));
        }
    }
}
