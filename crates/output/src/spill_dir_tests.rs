//! Spill files by name: how many are open, what others may do to them, and what is left of them.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Instant;

use rustix::fs::mkfifoat;
use rustix::process::{Resource, getrlimit};

use super::super::{LogReader, LogSettings, PageRequest, open};
use super::*;
use crate::Stream;

const LONG: Duration = Duration::from_secs(60);

#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LONG, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// All files below a directory.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let dirs = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    dirs.flat_map(|dir| std::fs::read_dir(dir).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect()
}

/// How many files below a directory this process holds open.
fn open_below(dir: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(dir))).count()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn content(number: usize) -> Vec<u8> {
    format!("log {number}\n").repeat(300).into_bytes()
}

fn closed_log(settings: &LogSettings, number: usize) -> LogReader {
    let (mut writer, reader) = open(settings);
    writer.append(Stream::Stdout, &content(number));
    reader
}

fn bytes_of(reader: &LogReader) -> Vec<u8> {
    let request = PageRequest { from: 0, stream: None, max_bytes: 1 << 20, max_lines: 0 };
    reader.blocking().page(&request).unwrap().bytes
}

/// Runs a test of this file again, in a process that may open so many files and never more.
#[track_caller]
fn run_limited(test: &str, files: u64) {
    let mut child = Command::new("prlimit");
    child.arg(format!("--nofile={files}:{files}")).arg(std::env::current_exe().unwrap());
    let test = format!("output::spill_dir::tests::{test}");
    let output = child.args(["--exact", &test, "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn five_thousand_finished_logs_can_be_read_under_a_limit_of_256_files() {
    if getrlimit(Resource::Nofile).maximum != Some(256) {
        let test = "five_thousand_finished_logs_can_be_read_under_a_limit_of_256_files";
        return run_limited(test, 256);
    }
    let dir = tempfile::tempdir().unwrap();
    let settings =
        LogSettings { memory_bytes: 1000, spill_dir: SpillDir::new(dir.path(), Arc::default()) };
    let logs: Vec<LogReader> = (0..5_000).map(|number| closed_log(&settings, number)).collect();
    // The directory itself is open, too.
    assert!(open_below(dir.path()) <= OPEN_FILES + 1, "{}", open_below(dir.path()));
    for number in (0..20).chain(2_490..2_510).chain(4_980..5_000).chain(0..20) {
        assert!(bytes_of(&logs[number]) == content(number), "{number}");
    }
    assert!(open_below(dir.path()) <= OPEN_FILES + 1);
    drop(logs);
    eventually("all files are removed", || files_below(dir.path()).is_empty());
    drop(settings);
    eventually("the directory too", || std::fs::read_dir(dir.path()).unwrap().count() == 0);
}

#[test]
fn a_file_and_its_directories_are_for_their_owner_alone() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("a/b");
    let spill = SpillDir::new(&root, Arc::default());
    let file = spill.create_file().unwrap();
    assert_eq!((mode(&parent.path().join("a")), mode(&root)), (0o700, 0o700));
    let [path] = files_below(&root).try_into().unwrap();
    assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
    let nameless = spill.create_nameless().unwrap();
    assert_eq!(nameless.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(files_below(&root), [path]);
    drop(file);
}

#[tokio::test]
async fn whoever_reads_a_log_that_is_freed_reads_on() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        LogSettings { memory_bytes: 1000, spill_dir: SpillDir::new(dir.path(), Arc::default()) };
    let reader = closed_log(&settings, 7);
    let mut raw = reader.raw(None, 0..content(7).len() as u64).await.unwrap();
    drop(reader);
    // Others push it out of the files that are open.
    let others: Vec<LogReader> = (0..40).map(|number| closed_log(&settings, number)).collect();
    assert!(raw.next_block().await.unwrap().unwrap() == content(7));
    drop((raw, others));
    eventually("all files are removed", || files_below(dir.path()).is_empty());
}

#[test]
fn a_file_that_somebody_replaced_is_gone_and_never_read_or_waited_for() {
    type Replace = fn(&Path);
    let replacements: [Replace; 4] = [
        |_| {},
        |path| std::fs::write(path, content(1)).unwrap(),
        |path| symlink("/etc/passwd", path).unwrap(),
        |path| mkfifoat(rustix::fs::CWD, path, Mode::RUSR | Mode::WUSR).unwrap(),
    ];
    for (case, replace) in replacements.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let settings = LogSettings {
            memory_bytes: 1000,
            spill_dir: SpillDir::new(dir.path(), Arc::default()),
        };
        let reader = closed_log(&settings, 7);
        let [path] = files_below(dir.path()).try_into().unwrap();
        let others: Vec<LogReader> = (0..40).map(|number| closed_log(&settings, number)).collect();
        // Beside it, so that its inode is not used again.
        std::fs::rename(&path, dir.path().join("moved")).unwrap();
        replace(&path);
        let request = PageRequest { from: 0, stream: None, max_bytes: 1 << 20, max_lines: 0 };
        let page = reader.blocking().page(&request).unwrap();
        let lost = content(7).len() as u64;
        assert_eq!((page.bytes.len(), page.gap_bytes), (0, lost), "case {case}");
        assert_eq!(reader.progress().cut_bytes, lost);
        assert!(bytes_of(&others[3]) == content(3));
    }
}

#[test]
fn a_file_that_is_removed_while_it_is_written_stays_readable() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("spill");
    let settings =
        LogSettings { memory_bytes: 1000, spill_dir: SpillDir::new(&root, Arc::default()) };
    let (mut writer, reader) = open(&settings);
    writer.append(Stream::Stdout, &content(1));
    std::fs::remove_dir_all(&root).unwrap();
    writer.append(Stream::Stdout, &content(2));
    drop(writer);
    let others: Vec<LogReader> = (0..40).map(|number| closed_log(&settings, number)).collect();
    assert!(bytes_of(&reader) == [content(1), content(2)].concat());
    assert!(bytes_of(&others[5]) == content(5), "the directory is made again");
}

#[test]
fn only_the_files_of_servers_that_are_gone_are_left_over() {
    let dir = tempfile::tempdir().unwrap();
    let alive = SpillDir::new(dir.path(), Arc::default());
    let file = alive.create_file().unwrap();
    let leftover = dir.path().join("run-gone");
    let foreign = dir.path().join("other");
    for made in [&leftover, &foreign] {
        std::fs::create_dir(made).unwrap();
        std::fs::write(made.join("1"), "x").unwrap();
    }
    symlink(&foreign, dir.path().join("run-link")).unwrap();
    SpillDir::new(dir.path(), Arc::default()).remove_leftovers();
    eventually("the leftover is removed", || !leftover.exists());
    assert!(foreign.join("1").exists());
    assert_eq!(file.length().unwrap(), 0);
    assert!(file.dir.path.join("0").exists());
}

#[test]
fn at_the_end_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let spill = SpillDir::new(dir.path(), Arc::default());
    let files: Vec<SpillFile> = (0..3).map(|_| spill.create_file().unwrap()).collect();
    spill.remove_everything(LONG);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    drop(files);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_the_disk_does_not_answer_fails_and_keeps_its_permit() {
    let dir = tempfile::tempdir().unwrap();
    let time = Duration::from_millis(50);
    let spill = SpillDir::with_disk_time(dir.path(), Arc::default(), time);
    let (answer, answered) = mpsc::channel::<()>();
    let answered = Arc::new(Mutex::new(answered));
    for _ in 0..READERS {
        let answered = Arc::clone(&answered);
        // Ends when there is nobody left to answer.
        let stuck = move || lock(&answered).recv().map_err(io::Error::other);
        let error = spill.read_with(Duration::ZERO, stuck).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("disk"), "{error}");
    }
    // All threads that may wait for the disk do: the next one is not even begun.
    let error = spill.read_with(time, || Ok(())).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(spill.read_if_idle_with(|| Ok(())).await, None);
    drop(answer);
    assert!(spill.read_with(LONG, || Ok(7)).await.is_ok_and(|read| read == 7));
}
