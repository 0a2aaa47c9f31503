//! Journals that were cut off, and journals whose times are wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Crc;
use rustix::process::Signal;
use serde_json::{Value, json};
use shellyard::journal::{Durability, Journal, JournalState};

use super::client::DurableClient;
use super::load::listed_jobs;
use crate::harness::{Launch, TestServer, eventually, private_dir};

/// The length of the checksum and the space after it.
const PREFIX: usize = 9;

#[track_caller]
fn start(data: &Path, config: &str) -> TestServer {
    Launch::http().structured().data(data).config(config).start()
}

/// A data directory with three finished jobs; its server has ended.
#[track_caller]
fn stopped_data_dir() -> tempfile::TempDir {
    let data = private_dir();
    let mut server = start(data.path(), "");
    for number in 1..=3 {
        server.run(&format!("echo output-{number}; exit {number}"));
    }
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    data
}

#[track_caller]
fn copy_of(data: &Path) -> tempfile::TempDir {
    let copy = private_dir();
    let copied = Command::new("cp").arg("-a").arg(data.join(".")).arg(copy.path()).status();
    assert!(copied.expect("cp runs").success());
    copy
}

/// The newest segment of the journal.
#[track_caller]
fn last_segment(data: &Path) -> PathBuf {
    let entries = fs::read_dir(data.join("journal")).expect("a journal").flatten();
    let segments =
        entries.map(|it| it.path()).filter(|it| it.extension().is_some_and(|it| it == "jsonl"));
    segments.max().expect("a segment")
}

/// The place of the last record that belongs to a job, and the end of its line.
#[track_caller]
fn last_ended(bytes: &[u8]) -> (usize, usize) {
    let mut start = 0;
    let mut last = None;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = start + line.len();
        if line.get(PREFIX..).is_some_and(|json| json.starts_with(b"{\"ended\"")) {
            last = Some((start, end));
        }
        start = end;
    }
    last.expect("an ending")
}

#[track_caller]
fn replayed(data: &Path) -> JournalState {
    let (journal, state) = Journal::open(&data.join("journal"), Durability::Os).expect("it opens");
    drop(journal);
    state
}

#[test]
fn a_journal_that_is_torn_at_any_byte_of_its_last_record_loses_that_record_alone() {
    let data = stopped_data_dir();
    let segment = last_segment(data.path());
    let bytes = fs::read(&segment).expect("a segment");
    let (start_of_last, end_of_last) = last_ended(&bytes);
    let torn = copy_of(data.path());
    let torn_segment = torn.path().join("journal").join(segment.file_name().expect("a name"));
    for end in start_of_last..=end_of_last {
        fs::write(&torn_segment, &bytes[..end]).expect("ours");
        let state = replayed(torn.path());
        let is_whole = end == end_of_last;
        let counts = (state.finished.len(), state.unfinished.len());
        assert_eq!(counts, if is_whole { (3, 0) } else { (2, 1) }, "cut at {end}");
    }
    // The same with the real program, at some of them.
    let step = (end_of_last - start_of_last) / 5;
    for end in (start_of_last..=end_of_last).step_by(step) {
        let torn = copy_of(data.path());
        let torn_segment = torn.path().join("journal").join(segment.file_name().expect("a name"));
        fs::write(&torn_segment, &bytes[..end]).expect("ours");
        let mut server = start(torn.path(), "");
        let mut client = DurableClient::new(server.http().address());
        assert_eq!(listed_jobs(torn.path()).len(), 3, "cut at {end}");
        for job in 1..=2 {
            let (page, bytes) = client.read_all(job);
            assert_eq!(page["exit_code"], json!(job), "cut at {end}");
            assert_eq!(bytes, format!("output-{job}\n").into_bytes(), "cut at {end}");
        }
        let third = client.status(3);
        let outcome = if end == end_of_last { "exited" } else { "lost" };
        assert_eq!(third["outcome"], outcome, "cut at {end}");
        assert!(server.run("true").job() > 3, "cut at {end}: no number is given out twice");
    }
}

#[test]
fn a_damaged_record_in_the_middle_costs_that_record_alone() {
    let data = stopped_data_dir();
    let segment = last_segment(data.path());
    let mut bytes = fs::read(&segment).expect("a segment");
    let (start_of_last, _) = last_ended(&bytes);
    let (place, _) = last_ended(&bytes[..start_of_last]);
    bytes[place + 40] ^= 0x20;
    fs::write(&segment, &bytes).expect("ours");
    let mut server = start(data.path(), "");
    let mut client = DurableClient::new(server.http().address());
    let outcomes = [1, 2, 3].map(|job| client.status(job)["outcome"].clone());
    assert_eq!(outcomes, [json!("exited"), json!("lost"), json!("exited")]);
}

#[test]
fn a_journal_of_a_later_version_is_refused_by_name() {
    let data = stopped_data_dir();
    let segment = last_segment(data.path());
    change_lines(&segment, |line| {
        if let Some(header) = line.get_mut("header") {
            header["format"] = json!(4711);
        }
    });
    let before = fs::read(&segment).expect("a segment");
    let (sandbox, data) = (crate::harness::Sandbox::new(), data.path().display().to_string());
    let words = ["serve", "--bind", "127.0.0.1:0", "--data-dir", &data];
    let output = crate::harness::run_program(&sandbox, &words);
    let said = crate::harness::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("4711"), "it names the version: {said}");
    assert_eq!(fs::read(&segment).expect("a segment"), before, "and leaves the journal alone");
}

/// Changes the JSON of each line, with a true checksum.
#[track_caller]
fn change_lines(segment: &Path, change: impl Fn(&mut Value)) {
    let text = fs::read_to_string(segment).expect("a segment");
    let mut changed = String::new();
    for line in text.lines() {
        let mut value: Value = serde_json::from_str(&line[PREFIX..]).expect("JSON");
        change(&mut value);
        let json = value.to_string();
        let mut crc = Crc::new();
        crc.update(json.as_bytes());
        changed += &format!("{:08x} {json}\n", crc.sum());
    }
    fs::write(segment, changed).expect("ours");
}

/// Moves every time in a value.
fn shift_times(value: &mut Value, by_ms: i64) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_i64() {
                    Some(time) if name.ends_with("at_ms") => *field = json!(time + by_ms),
                    Some(_) | None => shift_times(field, by_ms),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shift_times(item, by_ms)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

const TEN_YEARS_MS: i64 = 10 * 365 * 24 * 3600 * 1000;

#[test]
fn a_clock_that_jumped_frees_nothing_by_mistake_and_keeps_nothing_for_ever() {
    for by_ms in [-TEN_YEARS_MS, TEN_YEARS_MS] {
        let data = stopped_data_dir();
        change_lines(&last_segment(data.path()), |line| shift_times(line, by_ms));
        // No limit of age: everything is there.
        let mut server = start(data.path(), "[retention]\nmax_age_s = 0\n");
        let mut client = DurableClient::new(server.http().address());
        for job in 1..=3 {
            let (page, bytes) = client.read_all(job);
            assert_eq!(page["exit_code"], json!(job), "{by_ms}");
            assert_eq!(bytes, format!("output-{job}\n").into_bytes(), "{by_ms}");
        }
        assert!(server.run("true").job() > 3);
        server.signal(Signal::TERM);
        assert!(server.wait_exit().success());
        // A short one: they go, also those from the future.
        let server = start(data.path(), "[retention]\nmax_age_s = 1\n");
        eventually("all are freed", || listed_jobs(server.data()).is_empty());
    }
}
