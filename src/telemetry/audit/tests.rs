//! The audit log as callers and attackers see it: real files, real processes.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, thread};

use proptest::prelude::*;
use tempfile::TempDir;

use super::log_files::path_with_suffix;
use super::*;
use crate::confinement::GrantedConfinement;
use crate::ids::JobId;
use crate::outcome::Outcome;
use crate::trace::TraceContext;

const LARGE: u64 = 1 << 30;

/// A log in its own temporary directory.
struct TestLog {
    folder: TempDir,
    settings: AuditLogSettings,
}

impl TestLog {
    fn new(max_bytes: u64, keep: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        Self { folder, settings: AuditLogSettings { path, max_bytes, keep, max_queued: 1 << 20 } }
    }

    /// A log with so many entries, decisions and endings in turn.
    fn with_entries(entries: u64) -> Self {
        let log = Self::new(LARGE, 1);
        write(&log.open(), entries);
        log
    }

    fn open(&self) -> AuditLog {
        AuditLog::open(self.settings.clone()).unwrap()
    }

    fn path(&self) -> &Path {
        &self.settings.path
    }

    fn rotated(&self, number: u32) -> PathBuf {
        path_with_suffix(self.path(), &number.to_string())
    }

    fn head(&self) -> PathBuf {
        path_with_suffix(self.path(), "head")
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn put(&self, lines: &[String]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.path(), text).unwrap();
    }

    fn append_raw(&self, text: &str) {
        fs::write(self.path(), fs::read_to_string(self.path()).unwrap() + text).unwrap();
    }

    /// Returns the words of the notes, in order.
    fn notes(&self) -> Vec<String> {
        let what = |line: &String| {
            let value: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(value["what"].as_str()?.to_owned())
        };
        self.lines().iter().filter_map(what).collect()
    }

    fn verify(&self) -> Result<VerifyReport, VerifyError> {
        verify(self.path())
    }

    #[track_caller]
    fn check_holds(&self, lines: u64) -> VerifyReport {
        let verified = self.verify().unwrap();
        assert_eq!(verified.lines, lines);
        verified
    }

    #[track_caller]
    fn check_found(&self, code: &str, line: u64) {
        let error = self.verify().unwrap_err();
        let line_found = error.location().map(|location| location.line);
        assert_eq!((error.code(), line_found), (code, Some(line)), "{error}");
    }
}

fn decision(command: &str) -> DecisionEntry<'_> {
    DecisionEntry {
        tenant: "local",
        client: "codex",
        job: Some(JobId::local(7)),
        command,
        cwd: "/src",
        confinement: GrantedConfinement::NOTHING,
        verdict: AuditDecision::Refused,
        rule: Some("policy.deny[2]"),
        uncertain: None,
        trace_id: TraceContext::root().trace_id,
    }
}

/// Writes a decision as a call does.
fn decide(audit: &AuditLog, command: &str) -> Result<(), Arc<AuditError>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(audit.record_decision(&decision(command)))
}

fn write(audit: &AuditLog, entries: u64) {
    let outcome = Outcome::Exited { code: 0 };
    let elapsed = Duration::from_millis(12);
    for number in 0..entries {
        let job = JobId::local(number + 1);
        let tenant = "local";
        let client = "codex";
        let trace_id = TraceContext::root().trace_id;
        let ending = EndingEntry { tenant, client, job, outcome: &outcome, elapsed, trace_id };
        if number % 2 == 0 {
            decide(audit, "rm -rf /\n").unwrap();
        } else {
            audit.record_ending(&ending);
        }
    }
    audit.finish();
}

#[test]
fn a_written_log_passes_the_verification() {
    let log = TestLog::with_entries(20);
    let verified = log.check_holds(20);
    let first = verified.first.unwrap();
    let last = verified.last.unwrap();
    assert_eq!((verified.files, first.seq, last.seq), (1, 1, 20));
    assert_eq!(verified.damaged, []);
    assert_eq!(log.lines().len(), 20);
}

#[test]
fn a_reopened_log_continues_its_chain() {
    let log = TestLog::with_entries(3);
    write(&log.open(), 3);
    log.check_holds(6);
}

#[test]
fn only_the_owner_may_look() {
    let log = TestLog::new(LARGE, 1);
    let path = log.folder.path().join("deep/er/audit.jsonl");
    let audit = AuditLog::open(AuditLogSettings { path: path.clone(), ..log.settings }).unwrap();
    write(&audit, 1);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&path_with_suffix(&path, "head")), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_changed_byte_is_found(place in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let log = TestLog::with_entries(6);
        let mut bytes = fs::read(log.path()).unwrap();
        let place = place.index(bytes.len());
        bytes[place] ^= flip;
        fs::write(log.path(), bytes).unwrap();
        prop_assert!(log.verify().is_err(), "byte {place} ^ {flip}");
    }

    #[test]
    fn any_changed_byte_of_the_head_is_found(place in 0..107_usize, flip in 1..=255_u8) {
        let log = TestLog::with_entries(2);
        let mut bytes = fs::read(log.head()).unwrap();
        bytes[place] ^= flip;
        fs::write(log.head(), bytes).unwrap();
        prop_assert!(log.verify().is_err(), "byte {place} ^ {flip}");
    }

    #[test]
    fn any_cut_is_found(start in any::<prop::sample::Index>(), end in any::<prop::sample::Index>()) {
        let log = TestLog::with_entries(6);
        let mut bytes = fs::read(log.path()).unwrap();
        let a = start.index(bytes.len());
        let b = end.index(bytes.len());
        bytes.drain(a.min(b)..=a.max(b));
        fs::write(log.path(), bytes).unwrap();
        prop_assert!(log.verify().is_err(), "{a} {b}");
    }

    #[test]
    fn any_other_order_is_found(order in Just([0, 1, 2, 3, 4, 5]).prop_shuffle()) {
        prop_assume!(!order.is_sorted());
        let log = TestLog::with_entries(6);
        let lines = log.lines();
        log.put(&order.map(|index| lines[index].clone()));
        prop_assert!(log.verify().is_err(), "{order:?}");
    }
}

#[test]
fn every_removed_repeated_or_swapped_line_is_found_where_it_is() {
    for index in 0..6_usize {
        let log = TestLog::with_entries(6);
        let lines = log.lines();
        let place = index as u64 + 1;

        let mut removed = lines.clone();
        removed.remove(index);
        log.put(&removed);
        match index {
            0 => log.check_found("no_beginning", 1),
            5 => log.check_found("cut_tail", 5),
            _ => log.check_found("cut", place),
        }

        let mut repeated = lines.clone();
        repeated.insert(index, lines[index].clone());
        log.put(&repeated);
        log.check_found("reordered", place + 1);

        let mut swapped = lines.clone();
        swapped.swap(index, (index + 1) % 6);
        log.put(&swapped);
        match index {
            0 | 5 => log.check_found("no_beginning", 1),
            _ => log.check_found("reordered", place),
        }
    }
}

#[test]
fn an_added_line_is_found_even_if_it_fits_the_line_before() {
    let log = TestLog::with_entries(4);
    let lines = log.lines();
    let fitting = lines[2].replace("rm -rf", "ls -la");
    log.put(&[&lines[..2], &[fitting], &lines[2..]].concat());
    log.check_found("reordered", 4);
    log.put(&[&lines[..2], &["{}".to_owned()], &lines[2..]].concat());
    log.check_found("not_an_entry", 3);
    log.put(&[&lines[..2], &[String::new()], &lines[2..]].concat());
    log.check_found("not_an_entry", 3);
}

#[test]
fn a_cut_tail_is_found_and_stays_found() {
    let log = TestLog::with_entries(6);
    log.put(&log.lines()[..3]);
    log.check_found("cut_tail", 3);
    write(&log.open(), 2);
    assert_eq!(log.notes(), ["log_cut"]);
    log.check_found("cut", 4);
}

#[test]
fn an_emptied_or_removed_log_is_found_and_stays_found() {
    let log = TestLog::with_entries(6);
    log.put(&[]);
    log.check_found("cut_tail", 0);
    fs::remove_file(log.path()).unwrap();
    assert_eq!(log.verify().unwrap_err().code(), "unreadable");
    write(&log.open(), 2);
    assert_eq!(log.notes(), ["log_missing"]);
    log.check_found("no_beginning", 1);
}

#[test]
fn a_missing_head_is_found_and_noted_in_the_log() {
    let log = TestLog::with_entries(6);
    fs::remove_file(log.head()).unwrap();
    assert_eq!(log.verify().unwrap_err().code(), "no_head");
    write(&log.open(), 1);
    assert_eq!(log.notes(), ["head_missing"]);
    log.check_holds(8);
}

#[test]
fn rotation_keeps_the_chain_and_the_number_of_files() {
    let log = TestLog::new(2_000, 2);
    let audit = log.open();
    write(&audit, 10);
    let verified = log.verify().unwrap();
    assert!(verified.files > 1 && verified.damaged.is_empty(), "{verified:?}");
    assert_eq!(verified.first.unwrap().seq, 1);

    write(&audit, 90);
    let verified = log.verify().unwrap();
    let first = verified.first.unwrap().seq;
    assert_eq!((verified.files, first > 1), (3, true));
    assert_eq!(verified.lines, verified.last.unwrap().seq - first + 1);
    assert!(!log.rotated(3).exists());
    for path in [log.path().to_owned(), log.rotated(1), log.rotated(2)] {
        let bytes = fs::metadata(&path).unwrap().len();
        assert!(bytes < 3_000, "{}: {bytes}", path.display());
        assert!(fs::read_to_string(path).unwrap().lines().next().unwrap().contains("log_rotated"));
    }
}

#[test]
fn a_missing_or_changed_rotated_file_is_found() {
    let log = TestLog::new(2_000, 3);
    write(&log.open(), 40);
    fs::rename(log.rotated(2), log.folder.path().join("away")).unwrap();
    let error = log.verify().unwrap_err();
    assert_eq!(error.code(), "broken_between_files");
    assert!(error.to_string().contains("audit.jsonl.3"), "{error}");
    fs::rename(log.folder.path().join("away"), log.rotated(2)).unwrap();
    log.verify().unwrap();

    let text = fs::read_to_string(log.rotated(1)).unwrap();
    let cut = text.split_once('\n').unwrap().1.to_owned();
    fs::write(log.rotated(1), cut).unwrap();
    assert_eq!(log.verify().unwrap_err().code(), "broken_between_files");
    fs::write(log.rotated(1), text.trim_end().rsplit_once('\n').unwrap().0.to_owned() + "\n")
        .unwrap();
    assert_eq!(log.verify().unwrap_err().code(), "broken_between_files");
}

#[test]
fn a_crash_during_rotation_leaves_a_valid_log() {
    let log = TestLog::with_entries(6);
    fs::rename(log.path(), log.rotated(1)).unwrap();
    log.check_holds(6);
    write(&log.open(), 1);
    assert_eq!(log.check_holds(8).files, 2);
    assert_eq!(log.notes(), ["log_rotated"]);
}

#[test]
fn half_a_line_is_damage_that_is_ended_and_noted() {
    let log = TestLog::with_entries(3);
    log.append_raw("{\"seq\":4,\"time\":\"20");
    log.check_found("half_line", 4);
    let audit = log.open();
    assert_eq!(log.notes(), ["half_line"]);
    write(&audit, 2);
    let verified = log.check_holds(6);
    assert_eq!(verified.damaged, [LineLocation { file: log.path().to_owned(), line: 4 }]);

    // Noted damage is still part of the chain.
    let text = fs::read_to_string(log.path()).unwrap();
    fs::write(log.path(), text.replace("\"time\":\"20\n", "\"time\":\"21\n")).unwrap();
    log.check_found("not_an_entry", 4);
}

#[test]
fn half_a_line_as_the_very_first_line_does_not_end_the_log() {
    let log = TestLog::new(LARGE, 1);
    fs::write(log.path(), "{\"seq\":1").unwrap();
    write(&log.open(), 1);
    assert_eq!(log.notes(), ["half_line", "head_missing"]);
    assert_eq!(log.check_holds(3).damaged.len(), 1);
}

#[test]
fn an_entry_that_the_head_missed_is_found_then_sealed() {
    let log = TestLog::with_entries(3);
    let head = fs::read(log.head()).unwrap();
    write(&log.open(), 1);
    fs::write(log.head(), head).unwrap();
    log.check_found("unsealed", 4);
    write(&log.open(), 1);
    assert_eq!(log.notes(), ["entries_unsealed"]);
    log.check_holds(6);
}

#[test]
fn a_forged_end_is_found_and_stays_found() {
    let log = TestLog::with_entries(3);
    let forged = log.lines()[2].replace("\"seq\":3", "\"seq\":4") + "\n";
    log.append_raw(&forged);
    log.check_found("changed", 3);
    write(&log.open(), 1);
    assert_eq!(log.notes(), ["strange_lines"]);
    assert!(log.verify().is_err());
}

#[test]
fn an_endless_line_is_read_within_bounds() {
    let log = TestLog::with_entries(3);
    log.append_raw(&"x".repeat(3 << 20));
    log.check_found("not_an_entry", 4);
    write(&log.open(), 1);
    log.check_found("not_an_entry", 4);
}

#[test]
fn a_full_disk_is_an_error_and_a_later_entry_continues() {
    let log = TestLog::new(LARGE, 1);
    let audit = log.open();
    fs::remove_file(log.path()).unwrap();
    symlink("/dev/full", log.path()).unwrap();
    let error = decide(&audit, "true").unwrap_err();
    assert_eq!(error.code(), "audit_write");
    assert!(error.to_string().contains("free space"), "{error}");
    fs::remove_file(log.path()).unwrap();
    write(&audit, 2);
    log.check_holds(2);
}

#[test]
fn a_directory_that_cannot_be_created_is_an_error() {
    let log = TestLog::new(LARGE, 1);
    fs::write(log.path(), "").unwrap();
    let settings =
        AuditLogSettings { path: log.path().join("under/a/file"), ..log.settings.clone() };
    assert_eq!(AuditLog::open(settings).unwrap_err().code(), "audit_folder");
}

#[test]
fn an_ending_waits_for_the_lock_of_another_process_and_blocks_no_caller() {
    let log = TestLog::new(1 << 20, 1);
    let audit = log.open();
    let trace_id = decision("x").trace_id;
    let outcome = Outcome::Exited { code: 0 };
    let elapsed = Duration::ZERO;
    let tenant = "local";
    let client = "codex";
    let job = JobId::local(1);
    let ending = EndingEntry { tenant, client, job, outcome: &outcome, elapsed, trace_id };
    let held = fs::File::open(log.head()).unwrap();
    held.lock().unwrap();
    audit.record_ending(&ending);
    assert_eq!(log.lines(), [""; 0], "another process has the lock");
    held.unlock().unwrap();
    wait_for_lines(&log, 1);
    audit.record_ending(&ending);
    audit.finish();
    log.check_holds(2);
}

#[track_caller]
fn wait_for_lines(log: &TestLog, lines: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while log.lines().len() < lines {
        assert!(Instant::now() < deadline, "{:?}", log.lines());
        thread::sleep(Duration::from_millis(5));
    }
}

fn commands(log: &TestLog) -> Vec<String> {
    let entry = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap();
    log.lines().iter().map(|line| entry(line)["command"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn queued_entries_are_written_in_order_and_before_later_ones() {
    let log = TestLog::new(LARGE, 1);
    let audit = log.open();
    let held = fs::File::open(log.head()).unwrap();
    held.lock().unwrap();
    // More than one batch.
    let long: Vec<String> =
        (0..60).map(|number| format!("{number} {}", "x".repeat(4_000))).collect();
    for command in &long {
        decide(&audit, command).unwrap();
    }
    assert_eq!(log.lines(), [""; 0]);
    held.unlock().unwrap();
    decide(&audit, "last").unwrap();
    wait_for_lines(&log, 61);
    log.check_holds(61);
    assert_eq!(commands(&log), [long.as_slice(), &["last".to_owned()]].concat());
}

#[test]
fn the_queue_is_bounded_and_is_written_at_the_end() {
    let mut log = TestLog::new(LARGE, 1);
    log.settings.max_queued = 10_000;
    let audit = log.open();
    let held = fs::File::open(log.head()).unwrap();
    held.lock().unwrap();
    let command = "x".repeat(2_000);
    for _ in 0..4 {
        decide(&audit, &command).unwrap();
    }
    let refused = decide(&audit, &command).unwrap_err();
    assert_eq!(refused.code(), "audit_queue_full");
    assert!(refused.to_string().contains("audit.max_queued"), "{refused}");
    held.unlock().unwrap();
    drop(audit);
    wait_for_lines(&log, 4);
    log.check_holds(4);
}

#[test]
fn a_fifo_is_not_a_log() {
    let log = TestLog::new(LARGE, 1);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, log.path(), mode).unwrap();
    assert_eq!(AuditLog::open(log.settings.clone()).unwrap_err().code(), "audit_write");
}

#[test]
fn threads_and_handles_share_one_chain() {
    let log = TestLog::new(20_000, 50);
    let shared = log.open();
    thread::scope(|scope| {
        for _ in 0..4 {
            let audit = shared.clone();
            scope.spawn(move || write(&audit, 50));
            scope.spawn(|| write(&log.open(), 50));
        }
        scope.spawn(|| {
            for _ in 0..50 {
                log.verify().unwrap();
            }
        });
    });
    let verified = log.verify().unwrap();
    assert!(verified.files > 1, "{verified:?}");
    assert_eq!(verified.lines, 400 + verified.files as u64 - 1);
}

/// Runs the named test of this file in another process, in `folder`. A file called `begin` there
/// makes the test do its work.
fn run_in_child_process(name: &str, folder: &Path) -> std::process::Child {
    fs::write(folder.join("begin"), "").unwrap();
    // The shell turns an exceeded file size into an error instead of a fatal signal.
    Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" --exact \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(format!("telemetry::audit::tests::{name}"))
        .current_dir(folder)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap()
}

#[track_caller]
fn assert_passed(child: std::process::Child) {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn own_settings(max_bytes: u64) -> Option<AuditLogSettings> {
    let begun = Path::new("begin").exists();
    begun.then(|| AuditLogSettings {
        path: "audit.jsonl".into(),
        max_bytes,
        keep: 50,
        max_queued: 1 << 20,
    })
}

#[test]
fn one_of_several_writers() {
    if let Some(settings) = own_settings(20_000) {
        write(&AuditLog::open(settings).unwrap(), 100);
    }
}

#[test]
fn processes_share_one_chain() {
    let log = TestLog::new(20_000, 50);
    let start = |_| run_in_child_process("one_of_several_writers", log.folder.path());
    let writers: Vec<_> = (0..3).map(start).collect();
    writers.into_iter().for_each(assert_passed);
    let verified = log.verify().unwrap();
    assert!(verified.files > 1, "{verified:?}");
    assert_eq!(verified.lines, 300 + verified.files as u64 - 1);
}

#[test]
fn a_writer_without_room() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Some(settings) = own_settings(LARGE) else { return };
    let audit = AuditLog::open(settings).unwrap();
    write(&audit, 3);
    let before = fs::metadata("audit.jsonl").unwrap().len();
    let unlimited = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(before + 100), ..unlimited }).unwrap();
    assert_eq!(decide(&audit, "true").unwrap_err().code(), "audit_write");
    assert_eq!(fs::metadata("audit.jsonl").unwrap().len(), before);
    setrlimit(Resource::Fsize, unlimited).unwrap();
    write(&audit, 1);
}

#[test]
fn a_write_that_fails_half_way_leaves_nothing() {
    let log = TestLog::new(LARGE, 1);
    assert_passed(run_in_child_process("a_writer_without_room", log.folder.path()));
    assert_eq!(log.check_holds(4).damaged, []);
}
