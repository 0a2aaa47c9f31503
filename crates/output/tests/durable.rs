//! Durable logs across restarts: an uninterrupted log in memory is the model of each.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails like the test itself")]

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use rustix::pipe::{PipeFlags, pipe_with};
use shellyard_output::{
    AppendFrom, ClosedLog, DiskWatch, DropReason, KeepOutput, LogBounds, LogCompressor, LogName,
    LogProgress, LogReader, LogStorage, LogWriter, PageEnd, PageRequest, Quota, QuotaLimits,
    SpillDir, Stream, TenantQuota, open_bounded_log, open_closed_log, open_durable_log, reopen_log,
};

const LONG: Duration = Duration::from_secs(60);

#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A data directory, and the server that uses it now.
struct Store {
    dir: tempfile::TempDir,
    settings: LogStorage,
}

impl Store {
    fn new(memory_bytes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = storage(dir.path(), memory_bytes);
        Self { dir, settings }
    }

    /// Replaces the server by the next one.
    fn restart(&mut self) {
        self.settings = storage(self.dir.path(), self.settings.memory_bytes);
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join("output").join(file)
    }

    fn files(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path("")) else { return Vec::new() };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

fn storage(dir: &Path, memory_bytes: usize) -> LogStorage {
    let spill_dir =
        SpillDir::open_durable(dir.join("output"), Arc::default(), DiskWatch::default(), None);
    LogStorage { memory_bytes, spill_dir }
}

fn name() -> LogName {
    LogName::new("t-local-12").unwrap()
}

fn bounds(keep: KeepOutput) -> LogBounds {
    LogBounds { keep, quota: TenantQuota::unlimited() }
}

fn everything() -> LogBounds {
    bounds(KeepOutput::All)
}

fn read_stream(reader: &LogReader, stream: Option<Stream>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut from = 0;
    loop {
        let request = PageRequest { from, to: u64::MAX, stream, max_bytes: 1 << 20, max_lines: 0 };
        let page = reader.blocking().read_page(&request).unwrap();
        bytes.extend(page.bytes);
        if page.end_kind != PageEnd::More {
            return bytes;
        }
        from = page.end;
    }
}

fn read(reader: &LogReader) -> Vec<u8> {
    read_stream(reader, None)
}

/// The progress without its time.
fn counts(progress: LogProgress) -> LogProgress {
    LogProgress { last_output: None, ..progress }
}

/// Checks everything that a reader can see against a log that was never interrupted.
#[track_caller]
fn assert_same(reader: &LogReader, model: &LogReader) {
    let progress = counts(reader.progress());
    assert_eq!(progress, LogProgress { closed: progress.closed, ..counts(model.progress()) });
    for stream in [None, Some(Stream::Stdout), Some(Stream::Stderr)] {
        assert_eq!(read_stream(reader, stream), read_stream(model, stream), "{stream:?}");
    }
    let (reader, model) = (reader.blocking(), model.blocking());
    for line in 0..progress.lines + 3 {
        assert_eq!(
            reader.offset_of_line(line).unwrap(),
            model.offset_of_line(line).unwrap(),
            "{line}"
        );
    }
    for offset in 0..progress.total_bytes + 2 {
        assert_eq!(reader.line_at(offset).unwrap(), model.line_at(offset).unwrap(), "{offset}");
    }
    let all = 0..progress.total_bytes + 1;
    assert_eq!(reader.missing_bytes(all.clone()), model.missing_bytes(all));
}

/// One step in the life of a log.
#[derive(Debug, Clone)]
enum LogStep {
    Write(Stream, Vec<u8>),
    Gap(u64),
    /// The server is killed, and the next one goes on.
    Crash,
}

fn any_step() -> impl Strategy<Value = LogStep> {
    let stream = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
    let bytes = "[a-c\n]{0,12}".prop_map(String::into_bytes);
    prop_oneof![
        6 => (stream, bytes).prop_map(|(stream, bytes)| LogStep::Write(stream, bytes)),
        1 => (1..100_u64).prop_map(LogStep::Gap),
        2 => Just(LogStep::Crash),
    ]
}

fn closed_copy(state: &ClosedLog) -> ClosedLog {
    serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap()
}

/// The state without the time of the last output, which is converted between two clocks.
fn without_time(state: &ClosedLog) -> serde_json::Value {
    let mut state = serde_json::to_value(state).unwrap();
    state.as_object_mut().unwrap().remove("last_output");
    state
}

#[test]
fn memory_takes_the_bytes_while_the_disk_is_stuck() {
    let mut store = Store::new(100);
    let disk = DiskWatch::default();
    store.settings.spill_dir =
        SpillDir::open_durable(store.path(""), Arc::default(), disk.clone(), None);
    let (mut writer, reader) = open_durable_log(&store.settings, everything(), name());
    assert!(writer.is_on_disk() && !writer.fits_memory(1));
    let stuck = disk.begin();
    while !disk.is_stuck() {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!writer.is_on_disk() && writer.fits_memory(100) && !writer.fits_memory(101));
    writer.append(Stream::Stdout, b"out\n");
    writer.append(Stream::Stderr, b"err\n");
    writer.close();
    assert!(writer.has_unstored());
    assert_eq!((store.files(), read(&reader)), (Vec::new(), b"out\nerr\n".to_vec()));
    drop(stuck);
    writer.store_rest();
    assert!(!writer.has_unstored());
    let (_, again) = reopen_log(&storage(store.dir.path(), 100), everything(), name()).unwrap();
    assert_same(&again, &reader);
}

#[test]
fn bytes_of_full_segments_are_stored_once_the_disk_answers() {
    let mut store = Store::new(100);
    let disk = DiskWatch::default();
    store.settings.spill_dir =
        SpillDir::open_durable(store.path(""), Arc::default(), disk.clone(), None);
    let ends = bounds(KeepOutput::Ends(20));
    let (mut writer, reader) = open_durable_log(&store.settings, ends, name());
    writer.append(Stream::Stdout, b"first");
    let stuck = disk.begin();
    eventually("the disk is stuck", || disk.is_stuck());
    // The head takes ten bytes, each segment after it five.
    writer.append(Stream::Stdout, b" head; second; t");
    assert!(writer.has_unstored());
    drop(stuck);
    writer.store_rest();
    assert!(!writer.has_unstored());
    writer.append(Stream::Stdout, b"hird");
    writer.close();
    let ends = bounds(KeepOutput::Ends(20));
    let (_, again) = reopen_log(&storage(store.dir.path(), 100), ends, name()).unwrap();
    assert_same(&again, &reader);
    assert_eq!(read(&again), b"first head; second; third");
}

/// Writes so many logs that no other file stays open by chance, while the result exists.
fn write_other_logs(settings: &LogStorage) -> Vec<LogReader> {
    let write = |number: u32| {
        let name = LogName::new(&format!("other-{number}")).unwrap();
        let (mut writer, reader) = open_durable_log(settings, everything(), name);
        writer.append(Stream::Stdout, b"x");
        writer.close();
        reader
    };
    (0..20).map(write).collect()
}

#[test]
fn positions_can_be_written_after_full_segments_and_many_other_files() {
    let mut store = Store::new(0);
    let (mut writer, _) = open_durable_log(&store.settings, bounds(KeepOutput::Ends(20)), name());
    let write = |writer: &mut LogWriter| {
        // The streams alternate, so that positions are written.
        for stream in [Stream::Stdout, Stream::Stderr].into_iter().cycle().take(20) {
            writer.append(stream, b"abc");
        }
        assert_eq!(writer.append(Stream::Stdout, b"d").dropped_bytes, 0);
    };
    write(&mut writer);
    let others = write_other_logs(&store.settings);
    write(&mut writer);
    drop((writer, others));
    store.restart();
    let ends = bounds(KeepOutput::Ends(20));
    let (mut writer, reader) = reopen_log(&store.settings, ends, name()).unwrap();
    let _others = write_other_logs(&store.settings);
    write(&mut writer);
    assert_eq!(reader.progress().dropped_bytes, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_log_goes_on_after_any_crash_as_if_there_had_been_none(
        steps in vec(any_step(), 0..30),
        memory_bytes in prop_oneof![Just(0_usize), 1..60_usize, Just(100_000)],
        keep in prop_oneof![Just(KeepOutput::All), (1..60_u64).prop_map(KeepOutput::Ends)],
    ) {
        let mut store = Store::new(memory_bytes);
        let (mut model_writer, model) = open_bounded_log(
            &LogStorage { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() },
            bounds(keep),
        );
        let (mut writer, mut reader) = open_durable_log(&store.settings, bounds(keep), name());
        for step in &steps {
            match step {
                LogStep::Write(stream, bytes) => {
                    writer.append(*stream, bytes);
                    model_writer.append(*stream, bytes);
                }
                LogStep::Gap(bytes) => {
                    writer.mark_crash_gap(*bytes);
                    model_writer.mark_crash_gap(*bytes);
                }
                LogStep::Crash => {
                    drop((writer, reader));
                    store.restart();
                    (writer, reader) = reopen_log(&store.settings, bounds(keep), name()).unwrap();
                    assert_same(&reader, &model);
                }
            }
        }
        assert_same(&reader, &model);
        writer.close();
        model_writer.close();
        let state = reader.closed_state().unwrap();
        drop((writer, reader));
        store.restart();
        let closed = open_closed_log(&store.settings, &bounds(keep), &name(), &closed_copy(&state));
        assert_same(&closed, &model);
        prop_assert!(closed.progress().closed);
        let again = closed.closed_state().unwrap();
        prop_assert_eq!(without_time(&again), without_time(&state));
    }
}

#[test]
fn positions_that_were_cut_anywhere_lose_no_byte() {
    let mut store = Store::new(1 << 16);
    let (mut writer, reader) = open_durable_log(&store.settings, everything(), name());
    for number in 0..6 {
        writer.append(Stream::Stdout, format!("out {number}\n").as_bytes());
        writer.append(Stream::Stderr, format!("err {number}\n").as_bytes());
    }
    let all = read(&reader);
    drop((writer, reader));
    let positions = fs::read(store.path("t-local-12.idx")).unwrap();
    for length in 0..=positions.len() {
        fs::write(store.path("t-local-12.log"), &all).unwrap();
        fs::write(store.path("t-local-12.idx"), &positions[..length]).unwrap();
        store.restart();
        let (mut writer, reader) = reopen_log(&store.settings, everything(), name()).unwrap();
        assert_eq!(read(&reader), all, "{length}");
        // Each whole record is one change of the stream, after six bytes.
        let changes = length / (positions.len() / 11);
        let whole = (changes + 1) * 6;
        let expected: Vec<u8> = (0..whole).filter(|at| at / 6 % 2 == 1).map(|at| all[at]).collect();
        let stderr = read_stream(&reader, Some(Stream::Stderr));
        assert!(stderr.starts_with(&expected), "{length}: {expected:?} {stderr:?}");
        // What comes now is attributed, also after another crash.
        let before = stderr.len();
        writer.append(Stream::Stderr, b"more\n");
        writer.append(Stream::Stdout, b"last\n");
        drop((writer, reader));
        store.restart();
        let (_writer, reader) = reopen_log(&store.settings, everything(), name()).unwrap();
        assert_eq!(read(&reader), [&all[..], b"more\nlast\n"].concat(), "{length}");
        assert_eq!(&read_stream(&reader, Some(Stream::Stderr))[before..], b"more\n", "{length}");
    }
}

#[test]
fn a_changed_byte_ends_the_positions_there() {
    let mut store = Store::new(0);
    let (mut writer, _) = open_durable_log(&store.settings, everything(), name());
    for _ in 0..3 {
        writer.append(Stream::Stdout, b"o");
        writer.append(Stream::Stderr, b"e");
    }
    drop(writer);
    let positions = fs::read(store.path("t-local-12.idx")).unwrap();
    let record_bytes = positions.len() / 5;
    for at in 0..positions.len() {
        let mut changed = positions.clone();
        changed[at] ^= 1;
        fs::write(store.path("t-local-12.idx"), &changed).unwrap();
        store.restart();
        let (_writer, reader) = reopen_log(&store.settings, everything(), name()).unwrap();
        assert_eq!(read(&reader), b"oeoeoe");
        // The streams are known up to the change that was damaged.
        let known = at / record_bytes;
        let is_stderr = |offset: &usize| (*offset).min(known) % 2 == 1;
        let expected: Vec<u8> = (0..6).filter(is_stderr).map(|offset| b"oeoeoe"[offset]).collect();
        assert_eq!(read_stream(&reader, Some(Stream::Stderr)), expected, "{at}");
    }
}

#[test]
fn positions_past_the_end_of_the_file_do_not_count() {
    let mut store = Store::new(0);
    let (mut writer, _) = open_durable_log(&store.settings, everything(), name());
    for _ in 0..3 {
        writer.append(Stream::Stdout, b"o");
        writer.append(Stream::Stderr, b"e");
    }
    drop(writer);
    // As after a power failure.
    let path = store.path("t-local-12.log");
    fs::File::options().write(true).open(&path).unwrap().set_len(1).unwrap();
    store.restart();
    let (mut writer, _) = reopen_log(&store.settings, everything(), name()).unwrap();
    writer.append(Stream::Stdout, b"ooo");
    writer.append(Stream::Stderr, b"eee");
    drop(writer);
    store.restart();
    let (_writer, reader) = reopen_log(&store.settings, everything(), name()).unwrap();
    assert_eq!(read(&reader), b"ooooeee");
    assert_eq!(read_stream(&reader, Some(Stream::Stderr)), b"eee");
}

/// A pipe whose ends do not block.
fn new_pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap()
}

fn append_from(
    writer: &mut LogWriter,
    stream: Stream,
    pipe: &OwnedFd,
    max: usize,
) -> io::Result<AppendFrom> {
    let mut block = Vec::with_capacity(64 * 1024);
    writer.append_from(stream, pipe.as_fd(), max, &mut block)
}

/// Moves all that is in the pipe. Returns the number of bytes and the last result.
fn append_all(
    writer: &mut LogWriter,
    stream: Stream,
    pipe: &OwnedFd,
) -> (usize, io::Result<AppendFrom>) {
    let mut moved = 0;
    loop {
        match append_from(writer, stream, pipe, usize::MAX) {
            Ok(AppendFrom::Moved { bytes, .. }) => moved += bytes,
            last => return (moved, last),
        }
    }
}

#[test]
fn bytes_move_from_pipes_to_the_log() {
    let mut store = Store::new(1000);
    let (mut writer, reader) = open_durable_log(&store.settings, everything(), name());
    let (out, out_end) = new_pipe();
    let (err, err_end) = new_pipe();
    let empty = append_from(&mut writer, Stream::Stdout, &out, 100).unwrap_err();
    assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
    assert!(store.files().is_empty(), "no file before the first byte");
    let mut expected = Vec::new();
    for number in 0..300 {
        let line = format!("line {number}\n");
        rustix::io::write(&out_end, line.as_bytes()).unwrap();
        rustix::io::write(&err_end, b"e").unwrap();
        // A part of it first.
        let moved = append_from(&mut writer, Stream::Stdout, &out, 3).unwrap();
        assert!(matches!(moved, AppendFrom::Moved { bytes: 3, .. }), "{moved:?}");
        assert_eq!(append_all(&mut writer, Stream::Stderr, &err).0, 1);
        let (rest, last) = append_all(&mut writer, Stream::Stdout, &out);
        assert_eq!(rest, line.len() - 3);
        assert_eq!(last.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        expected.extend([&line.as_bytes()[..3], b"e", &line.as_bytes()[3..]].concat());
        assert_eq!(reader.progress().total_bytes, expected.len() as u64);
        assert_eq!(reader.progress().lines, number + 1);
    }
    assert_eq!(read(&reader), expected);
    rustix::io::write(&out_end, b"last").unwrap();
    drop((out_end, err_end));
    assert!(matches!(append_all(&mut writer, Stream::Stdout, &out), (4, Ok(AppendFrom::End))));
    assert!(matches!(append_all(&mut writer, Stream::Stderr, &err), (0, Ok(AppendFrom::End))));
    expected.extend(b"last");
    drop((writer, reader));
    store.restart();
    let (_writer, reader) = reopen_log(&store.settings, everything(), name()).unwrap();
    assert_eq!(read(&reader), expected);
    assert_eq!(read_stream(&reader, Some(Stream::Stderr)), vec![b'e'; 300]);
}

/// A file in the directory of a process that writes until it is killed.
const VICTIM: &str = "victim";

/// Moves bytes from the standard input to the log, and never ends by itself.
fn write_until_killed() {
    let settings = storage(Path::new("."), 1000);
    let (mut writer, _reader) = reopen_log(&settings, everything(), name()).unwrap();
    let mut block = Vec::with_capacity(64 * 1024);
    loop {
        // Small parts, so that a kill hits any moment of a write.
        match writer.append_from(Stream::Stderr, io::stdin().as_fd(), 700, &mut block) {
            Ok(AppendFrom::Moved { .. }) => {}
            other => assert_eq!(other.unwrap_err().kind(), io::ErrorKind::WouldBlock),
        }
    }
}

#[test]
fn no_byte_is_lost_whenever_the_writer_is_killed() {
    if Path::new(VICTIM).exists() {
        return write_until_killed();
    }
    let store = Store::new(1000);
    fs::write(store.dir.path().join(VICTIM), "").unwrap();
    let (pipe, end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    rustix::io::ioctl_fionbio(&pipe, true).unwrap();
    let writes = std::thread::spawn(move || {
        let mut end = fs::File::from(end);
        let mut written = Vec::new();
        for number in 0..200_000 {
            let line = format!("{number} {}\n", "x".repeat(number % 90));
            end.write_all(line.as_bytes()).unwrap();
            written.extend(line.into_bytes());
        }
        written
    });
    for time in (0..40).map(|number| Duration::from_millis(number * 7 % 31)) {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "no_byte_is_lost_whenever_the_writer_is_killed"])
            .current_dir(store.dir.path())
            .stdin(pipe.try_clone().unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(time);
        victim.kill().unwrap();
        let ended = victim.wait().unwrap();
        assert_eq!(ended.signal(), Some(libc::SIGKILL), "it went on until it was killed");
    }
    let settings = storage(store.dir.path(), 1000);
    let (mut writer, reader) = reopen_log(&settings, everything(), name()).unwrap();
    assert!(reader.progress().total_bytes > 0, "no process has written anything");
    loop {
        match append_all(&mut writer, Stream::Stderr, &pipe).1 {
            Ok(AppendFrom::End) => break,
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    let written = writes.join().unwrap();
    assert!(read_stream(&reader, Some(Stream::Stderr)) == written);
    assert_eq!(reader.progress().lines, 200_000);
    assert_eq!(reader.progress().stderr_bytes, written.len() as u64);
}

#[test]
fn bytes_stay_in_the_pipe_if_they_cannot_be_moved() {
    let store = Store::new(1000);
    let limits =
        QuotaLimits { store_bytes: 5000, tenant_bytes: u64::MAX, tenants: Default::default() };
    let quota = Quota::new(limits, 1 << 20, Arc::default()).tenant_quota("t");
    let full = LogBounds { keep: KeepOutput::All, quota };
    let (mut writer, reader) = open_durable_log(&store.settings, full, name());
    let (pipe, end) = new_pipe();
    rustix::io::write(&end, &[b'x'; 4000]).unwrap();
    assert_eq!(append_all(&mut writer, Stream::Stdout, &pipe).0, 4000);
    rustix::io::write(&end, &[b'y'; 2000]).unwrap();
    let refused = append_from(&mut writer, Stream::Stdout, &pipe, usize::MAX).unwrap();
    assert_eq!(refused, AppendFrom::ReadInstead);
    assert_eq!(
        append_from(&mut writer, Stream::Stdout, &pipe, 0).unwrap(),
        AppendFrom::ReadInstead
    );
    let mut bytes = [0; 3000];
    assert_eq!(rustix::io::read(&pipe, &mut bytes).unwrap(), 2000);
    let progress = writer.append(Stream::Stdout, &bytes[..2000]);
    assert_eq!((progress.total_bytes, progress.dropped_bytes), (4000, 2000));
    assert_eq!(reader.progress().dropped_why, Some(DropReason::StoreFull));

    // A log that is not durable, and something that is not a pipe.
    let (mut writer, _) = open_bounded_log(&store.settings, everything());
    assert_eq!(
        append_from(&mut writer, Stream::Stdout, &pipe, 9).unwrap(),
        AppendFrom::ReadInstead
    );
    let (mut writer, _) = open_durable_log(&store.settings, everything(), name());
    let file = OwnedFd::from(fs::File::open(std::env::current_exe().unwrap()).unwrap());
    assert_eq!(
        append_from(&mut writer, Stream::Stdout, &file, 9).unwrap(),
        AppendFrom::ReadInstead
    );
}

#[test]
fn a_crash_gap_has_a_reason_of_its_own() {
    let mut store = Store::new(1000);
    let (mut writer, _) = open_durable_log(&store.settings, everything(), name());
    writer.append(Stream::Stdout, b"before");
    drop(writer);
    store.restart();
    let limits =
        QuotaLimits { store_bytes: 5000, tenant_bytes: u64::MAX, tenants: Default::default() };
    let quota = Quota::new(limits, 1 << 20, Arc::default()).tenant_quota("t");
    let small = LogBounds { keep: KeepOutput::All, quota };
    let (mut writer, reader) = reopen_log(&store.settings, small, name()).unwrap();
    writer.mark_crash_gap(4096);
    writer.append(Stream::Stdout, b"after\n");
    let progress = reader.progress();
    assert_eq!((progress.dropped_bytes, progress.lines), (4096, 2));
    assert_eq!(progress.dropped_why, Some(DropReason::ServerCrash));
    let request = PageRequest { from: 6, to: u64::MAX, stream: None, max_bytes: 100, max_lines: 0 };
    let page = reader.blocking().read_page(&request).unwrap();
    assert_eq!((page.bytes.as_slice(), page.gap_bytes), (&b"after\n"[..], 4096));

    // A later loss for another reason changes nothing about the first, also in the next server.
    writer.append(Stream::Stdout, &[b'x'; 9000]);
    drop(writer);
    let progress = reader.progress();
    let late = progress.dropped_bytes - 4096;
    assert!(late > 0 && progress.dropped_why == Some(DropReason::StoreFull), "{progress:?}");
    let check_reasons = |reader: &LogReader| {
        let why = |offset| reader.find_loss(offset, 0).map(|lost| (lost.bytes, lost.why));
        assert_eq!(why(6), Some((4096, DropReason::ServerCrash)));
        assert_eq!(why(progress.total_bytes), Some((late, DropReason::StoreFull)));
    };
    check_reasons(&reader);
    let state = reader.closed_state().unwrap();
    store.restart();
    check_reasons(&open_closed_log(&store.settings, &everything(), &name(), &state));
    check_reasons(&reopen_log(&store.settings, everything(), name()).unwrap().1);
}

fn text(bytes: usize) -> Vec<u8> {
    let lines = (0..).flat_map(|number: u64| format!("line {number} of many\n").into_bytes());
    lines.take(bytes).collect()
}

fn closed_log(store: &Store, bytes: &[u8]) -> (LogReader, ClosedLog) {
    let (mut writer, reader) = open_durable_log(&store.settings, everything(), name());
    writer.append(Stream::Stdout, bytes);
    writer.close();
    let state = reader.closed_state().unwrap();
    (reader, state)
}

#[test]
fn a_missing_or_short_file_is_reported_as_cut() {
    for left in [None, Some(0), Some(700)] {
        let mut store = Store::new(0);
        let bytes = text(1000);
        let (reader, state) = closed_log(&store, &bytes);
        drop(reader);
        let path = store.path("t-local-12.log");
        match left {
            None => fs::remove_file(&path).unwrap(),
            Some(length) => {
                fs::File::options().write(true).open(&path).unwrap().set_len(length).unwrap()
            }
        }
        store.restart();
        let reader = open_closed_log(&store.settings, &everything(), &name(), &state);
        let there = left.unwrap_or(0);
        assert_eq!(reader.progress().total_bytes, 1000);
        assert_eq!(read(&reader), bytes[..there as usize], "{left:?}");
        assert_eq!(read_stream(&reader, Some(Stream::Stdout)), bytes[..there as usize]);
        assert_eq!(reader.progress().cut_bytes, 1000 - there);
    }
}

#[tokio::test]
async fn a_compressed_log_is_found_again() {
    let mut store = Store::new(0);
    let bytes = text(700_000);
    let (reader, raw_state) = closed_log(&store, &bytes);
    let raw_file = fs::read(store.path("t-local-12.log")).unwrap();
    let compressor = LogCompressor::new(1, store.settings.spill_dir.clone());
    reader.compression_task(&compressor).unwrap().run().await;
    let state = reader.closed_state().unwrap();
    assert_ne!(state, raw_state);
    assert!(reader.stored_bytes() < 200_000);
    assert_eq!(read(&reader), bytes);
    eventually("the uncompressed file is removed", || store.files() == ["t-local-12.zst"]);
    drop(reader);
    let mut decoded = Vec::new();
    let file = fs::File::open(store.path("t-local-12.zst")).unwrap();
    zstd::stream::read::Decoder::new(file).unwrap().read_to_end(&mut decoded).unwrap();
    assert_eq!(decoded, bytes, "any decoder reads it");

    // The server may have ended before the new state was recorded.
    for state in [&state, &raw_state] {
        store.restart();
        let reader = open_closed_log(&store.settings, &everything(), &name(), &closed_copy(state));
        let line = reader.blocking().offset_of_line(2000).unwrap().unwrap() as usize;
        assert_eq!(&bytes[line..line + 10], b"line 1999 ");
        assert_eq!(read(&reader), bytes);
        assert_eq!(reader.progress().cut_bytes, 0);
        assert!(reader.stored_bytes() < 200_000);
    }

    // Or before the uncompressed file was removed.
    fs::write(store.path("t-local-12.log"), raw_file).unwrap();
    store.restart();
    store.settings.spill_dir.remove_unknown_logs(&HashSet::from([name()])).unwrap();
    eventually("the uncompressed file is removed", || store.files() == ["t-local-12.zst"]);

    // A damaged file is not taken for the log.
    let path = store.path("t-local-12.zst");
    let length = path.metadata().unwrap().len();
    fs::File::options().write(true).open(&path).unwrap().set_len(length - 1).unwrap();
    for state in [&state, &raw_state] {
        store.restart();
        let reader = open_closed_log(&store.settings, &everything(), &name(), state);
        assert_eq!(read(&reader), b"");
        assert_eq!(reader.progress().cut_bytes, 700_000);
    }
}

#[tokio::test]
async fn a_log_that_is_freed_before_it_is_compressed_leaves_no_file() {
    let store = Store::new(0);
    let (reader, _) = closed_log(&store, &text(700_000));
    let compressor = LogCompressor::new(1, store.settings.spill_dir.clone());
    let compression = reader.compression_task(&compressor).unwrap();
    reader.remove_files();
    compression.run().await;
    assert_eq!(read(&reader), text(700_000), "an open reader goes on");
    drop(reader);
    eventually("all files are removed", || store.files().is_empty());
}

#[test]
fn only_files_of_unknown_logs_are_leftovers() {
    let store = Store::new(0);
    let keep = ["t-a.log", "t-a.70.log", "t-a.idx", "t-b.zst", "README", "t-x.txt"];
    let leftovers = ["17", "t-c.log", "t-c.idx", "t-c.5.zst", "t-b.log"];
    fs::create_dir_all(store.path("")).unwrap();
    for name in keep.iter().chain(&leftovers) {
        fs::write(store.path(name), "x").unwrap();
    }
    let known = ["t-a", "t-b", "t-gone"].map(|name| LogName::new(name).unwrap());
    store.settings.spill_dir.remove_unknown_logs(&HashSet::from(known)).unwrap();
    let mut expected = keep.to_vec();
    expected.sort_unstable();
    eventually("leftovers are removed", || store.files() == expected);
}

#[test]
fn files_stay_until_they_are_removed_by_request() {
    let mut store = Store::new(0);
    let (mut writer, reader) = open_durable_log(&store.settings, everything(), name());
    writer.append(Stream::Stderr, b"error\n");
    drop((writer, reader));
    store.settings.spill_dir.remove_everything(LONG);
    store.restart();
    assert_eq!(store.files(), ["t-local-12.idx", "t-local-12.log"]);
    let (writer, reader) = reopen_log(&store.settings, everything(), name()).unwrap();
    reader.remove_files();
    assert_eq!(read(&reader), b"error\n", "an open reader goes on");
    drop((writer, reader));
    eventually("the files are removed", || store.files().is_empty());
}

#[test]
fn removed_segments_leave_no_files() {
    let store = Store::new(0);
    let keep = bounds(KeepOutput::Ends(400));
    let (mut writer, reader) = open_durable_log(&store.settings, keep, name());
    for _ in 0..100 {
        writer.append(Stream::Stdout, &[b'x'; 50]);
    }
    // The head, three segments at most, and the positions.
    eventually("old segments are removed", || store.files().len() == 5);
    drop((writer, reader));
}

#[test]
fn memory_keeps_what_files_do_not_take_until_they_do() {
    for blocked in ["t-local-12.log", "t-local-12.idx"] {
        let mut store = Store::new(100);
        // A directory is in the place of a file.
        fs::create_dir_all(store.path(blocked)).unwrap();
        let (mut writer, reader) = open_durable_log(&store.settings, everything(), name());
        writer.append(Stream::Stdout, b"one\n");
        writer.append(Stream::Stderr, b"two\n");
        let kept = writer.append(Stream::Stdout, b"three\n");
        assert_eq!((kept.total_bytes, kept.dropped_bytes), (14, 0), "{blocked}");
        let full = writer.append(Stream::Stdout, &[b'x'; 100]);
        assert_eq!((full.total_bytes, full.dropped_bytes), (100, 14), "{blocked}");
        assert_eq!(full.dropped_why, Some(DropReason::IoError));
        let before = read(&reader);
        fs::remove_dir(store.path(blocked)).unwrap();
        writer.append(Stream::Stderr, b"four\n");
        let stderr = b"two\nfour\n";
        assert_eq!(read_stream(&reader, Some(Stream::Stderr)), stderr);
        drop((writer, reader));
        store.restart();
        let (_writer, reader) = reopen_log(&store.settings, everything(), name()).unwrap();
        assert_eq!(read(&reader), [&before[..], b"four\n"].concat(), "{blocked}");
        assert_eq!(read_stream(&reader, Some(Stream::Stderr)), stderr);
        assert_eq!(reader.progress().dropped_bytes, 14);
    }
}

#[test]
fn a_directory_that_is_removed_is_made_again() {
    let store = Store::new(0);
    let (mut writer, reader) = open_durable_log(&store.settings, everything(), name());
    writer.append(Stream::Stdout, b"one\n");
    fs::remove_dir_all(store.path("")).unwrap();
    writer.append(Stream::Stdout, b"two\n");
    assert_eq!(read(&reader), b"one\ntwo\n");
    let other = LogName::new("t-local-13").unwrap();
    let (mut writer, reader) = open_durable_log(&store.settings, everything(), other);
    writer.append(Stream::Stdout, b"three\n");
    assert_eq!(read(&reader), b"three\n");
    assert_eq!(store.files(), ["t-local-13.log"]);
}

#[test]
fn a_file_that_somebody_truncates_has_a_hole_also_after_a_crash() {
    let mut store = Store::new(0);
    let (mut writer, reader) = open_durable_log(&store.settings, everything(), name());
    writer.append(Stream::Stdout, b"one\ntwo\nthree\n");
    let path = store.path("t-local-12.log");
    fs::File::options().write(true).open(&path).unwrap().set_len(4).unwrap();
    writer.append(Stream::Stdout, b"four\n");
    assert_eq!(read(&reader), b"one\nfour\n");
    assert_eq!(reader.progress().cut_bytes, 10);
    drop((writer, reader));
    store.restart();
    let (mut writer, reader) = reopen_log(&store.settings, everything(), name()).unwrap();
    assert_eq!(read(&reader), b"one\nfour\n");
    assert_eq!(reader.progress().cut_bytes, 10);
    assert_eq!(reader.blocking().line_at(14).unwrap(), 4);
    assert_eq!(reader.progress().lines, 4);
    writer.close();
    let state = reader.closed_state().unwrap();
    let closed = open_closed_log(&store.settings, &everything(), &name(), &closed_copy(&state));
    assert_eq!(read(&closed), b"one\nfour\n");
    assert_eq!(closed.blocking().line_at(14).unwrap(), 4);
}

#[test]
fn a_truncated_file_is_completed_from_memory() {
    let store = Store::new(1000);
    let (mut writer, reader) = open_durable_log(&store.settings, everything(), name());
    writer.append(Stream::Stdout, b"one\ntwo\n");
    let path = store.path("t-local-12.log");
    fs::File::options().write(true).open(&path).unwrap().set_len(3).unwrap();
    writer.append(Stream::Stdout, b"three\n");
    assert_eq!(read(&reader), b"one\ntwo\nthree\n");
    assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\nthree\n");
}

#[test]
fn short_logs_are_read_without_a_file_until_newer_ones_need_the_memory() {
    let store = Store::new(64 * 1024);
    let (reader, _) = closed_log(&store, b"short\n");
    assert!(reader.is_cheap_to_read());
    let block = vec![b'x'; 60_000];
    let others: Vec<LogReader> = (0..100)
        .map(|number| {
            let name = LogName::new(&format!("t-{number}")).unwrap();
            let (mut writer, reader) = open_durable_log(&store.settings, everything(), name);
            writer.append(Stream::Stdout, &block);
            reader
        })
        .collect();
    let cheap = others.iter().filter(|log| log.is_cheap_to_read()).count();
    assert!((20..80).contains(&cheap), "{cheap}");
    assert!(others[99].is_cheap_to_read() && !reader.is_cheap_to_read());
    assert_eq!(read(&reader), b"short\n");
    assert_eq!(read(&others[0]), block);
}

#[test]
fn quota_is_charged_again() {
    let store = Store::new(0);
    let (_, state) = closed_log(&store, &text(5000));
    let limits =
        QuotaLimits { store_bytes: 1000, tenant_bytes: u64::MAX, tenants: Default::default() };
    let quota = Quota::new(limits, 1 << 20, Arc::default());
    let bounds = LogBounds { keep: KeepOutput::All, quota: quota.tenant_quota("t") };
    let reader = open_closed_log(&store.settings, &bounds, &name(), &state);
    assert_eq!((quota.used(), quota.tenant_usage("t").used), (5000, 5000));
    assert_eq!(read(&reader), text(5000));
    drop(reader);
    assert_eq!(quota.used(), 0);
}

#[test]
fn opening_finished_logs_touches_no_file() {
    let store = Store::new(0);
    let (_, state) = closed_log(&store, b"x\n");
    fs::remove_dir_all(store.path("")).unwrap();
    let reader = open_closed_log(&store.settings, &everything(), &name(), &state);
    assert_eq!(reader.progress().total_bytes, 2);
    assert!(reader.closed_state().is_some());
    assert!(!store.path("").exists());
    assert!(serde_json::from_str::<ClosedLog>(r#"{"v":2,"end":[0,0,0]}"#).is_err());
    let small = serde_json::to_string(&state).unwrap();
    assert!(small.len() < 80, "{small}");
}
