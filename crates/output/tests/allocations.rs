//! The memory cost of keeping output.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use std::sync::Arc;

use shellyard_output::{
    DiskWatch, KeepOutput, LogBounds, LogName, LogReader, LogStorage, LogWriter, SpillDir, Stream,
    TenantQuota, open_bounded_log, open_closed_log, open_durable_log, open_log,
};

const BLOCK: usize = 64 * 1024;

fn log(memory_bytes: usize) -> (LogWriter, LogReader, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a directory");
    let settings = LogStorage { memory_bytes, spill_dir: folder.path().to_owned().into() };
    let (writer, reader) = open_log(&settings);
    (writer, reader, folder)
}

/// Counts the allocations for a hundred blocks of this line, once the log is in a file.
fn allocations_for_blocks(line: &[u8]) -> usize {
    let (mut writer, reader, _folder) = log(BLOCK);
    let block = line.repeat(BLOCK / line.len());
    writer.append(Stream::Stdout, &block);
    writer.append(Stream::Stdout, &block);
    let (seen, ()) = allocated(|| {
        for _ in 0..100 {
            writer.append(Stream::Stdout, &block);
        }
    });
    assert_eq!(reader.progress().total_bytes, 102 * BLOCK as u64);
    seen.times
}

#[test]
fn lines_cost_no_allocations() {
    let of_long_lines = allocations_for_blocks(&[b"x".repeat(BLOCK - 1), b"\n".to_vec()].concat());
    let of_empty_lines = allocations_for_blocks(b"\n");
    assert_eq!(of_long_lines, of_empty_lines);
    assert!(of_empty_lines < 200, "{of_empty_lines}: only a few allocations per block");
}

#[test]
fn bytes_are_not_copied_on_their_way_to_a_file() {
    let (mut writer, _reader, _folder) = log(0);
    let block = vec![b'x'; 16 * BLOCK];
    writer.append(Stream::Stdout, &block);
    let (seen, _) = allocated(|| writer.append(Stream::Stdout, &block));
    assert!(seen.bytes < BLOCK / 8, "{seen:?}");
}

#[test]
fn a_short_output_takes_little_more_than_itself() {
    let folder = tempfile::tempdir().unwrap();
    let settings = LogStorage { memory_bytes: BLOCK, spill_dir: folder.path().to_owned().into() };
    // All logs of a server share one quota. The first log registers the counters.
    let bounds = LogBounds { keep: KeepOutput::All, quota: TenantQuota::unlimited() };
    open_bounded_log(&settings, bounds.clone()).0.append(Stream::Stdout, b"hi\n");
    let (seen, _log) = allocated(|| {
        let (mut writer, reader) = open_bounded_log(&settings, bounds.clone());
        writer.append(Stream::Stdout, b"hi\n");
        writer.close();
        reader
    });
    assert!(seen.bytes < 1536, "{seen:?}");
}

/// The memory that a kept log may take once it is closed and nobody reads it.
const FINISHED_LOG: usize = 500;

#[test]
fn a_finished_durable_log_takes_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let spill_dir =
        SpillDir::open_durable(folder.path(), Arc::default(), DiskWatch::default(), None);
    let settings = LogStorage { memory_bytes: BLOCK, spill_dir };
    let bounds = LogBounds { keep: KeepOutput::All, quota: TenantQuota::unlimited() };
    let write = |number: usize, stream: Stream, bytes: &[u8]| {
        let name = LogName::new(&format!("t-local-{number}")).unwrap();
        let (mut writer, reader) = open_durable_log(&settings, bounds.clone(), name);
        writer.append(stream, bytes);
        reader
    };
    write(0, Stream::Stdout, b"hi\n");
    let before = LIVE.get();
    let logs: Vec<LogReader> =
        (1..=1000).map(|number| write(number, Stream::Stdout, b"some output\n")).collect();
    // Newer logs take the place of these in memory.
    let block = vec![b'x'; BLOCK];
    drop((2000..2100).map(|number| write(number, Stream::Stdout, &block)).collect::<Vec<_>>());
    assert!(!logs[999].is_cheap_to_read());
    let written = (LIVE.get() - before) as usize / logs.len();
    let states: Vec<_> = logs.iter().map(|log| log.closed_state().unwrap()).collect();
    drop(logs);
    let before = LIVE.get();
    let opened: Vec<LogReader> = (1..)
        .zip(&states)
        .map(|(number, state)| {
            let name = LogName::new(&format!("t-local-{number}")).unwrap();
            open_closed_log(&settings, &bounds, &name, state)
        })
        .collect();
    let reopened = (LIVE.get() - before) as usize / opened.len();
    assert!(reopened <= FINISHED_LOG, "{reopened} after a restart, {written} before");
    // This includes the files that are open and the memory of recent logs.
    assert!(written <= FINISHED_LOG + 150, "{written}");
}

thread_local! {
    /// The bytes that this thread has allocated and not released.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static SEEN: Cell<OutputAllocations> = const { Cell::new(OutputAllocations { times: 0, bytes: 0 }) };
}

/// The memory that was allocated, released or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OutputAllocations {
    times: usize,
    bytes: usize,
}

/// Runs `work`, and returns the memory that this thread allocated in it.
fn allocated<T>(work: impl FnOnce() -> T) -> (OutputAllocations, T) {
    let before = SEEN.get();
    let done = work();
    let after = SEEN.get();
    let (times, bytes) = (after.times - before.times, after.bytes - before.bytes);
    (OutputAllocations { times, bytes }, done)
}

struct OutputCountingAllocator;

#[global_allocator]
static COUNTING: OutputCountingAllocator = OutputCountingAllocator;

fn count(bytes: usize) {
    let OutputAllocations { times, bytes: before } = SEEN.get();
    SEEN.set(OutputAllocations { times: times + 1, bytes: before + bytes });
}

fn count_live(bytes: usize, released: usize) {
    LIVE.set(LIVE.get() + bytes as isize - released as isize);
}

#[expect(
    unsafe_code,
    reason = "the allocator trait is unsafe; every call is passed on to the system allocator"
)]
// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for OutputCountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        count_live(layout.size(), 0);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        count_live(layout.size(), 0);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.saturating_sub(layout.size()));
        count_live(size, layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count_live(0, layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[test]
fn allocations_are_counted() {
    let (seen, memory) = allocated(|| Vec::<u8>::with_capacity(1000));
    assert_eq!((seen, memory.capacity()), (OutputAllocations { times: 1, bytes: 1000 }, 1000));
}
