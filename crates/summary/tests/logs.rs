//! Summaries of real logs. `tests/logs/TOOL/CASE.log` is the output of a tool as it was captured,
//! `CASE.summary` the expected text of its summary. `UPDATE_SUMMARIES=1` writes the expected texts
//! anew; read them before they are committed.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "the files are part of the tests, and a variable of the shell chooses to write them"
)]

use std::path::{Path, PathBuf};
use std::{env, fs};

use shellyard_summary::Summarizer;

/// The room for the text of a summary, in bytes.
const MAX_BYTES: usize = 20_000;

#[test]
fn the_summary_of_each_captured_log_is_the_expected_one() {
    let mut wrong = Vec::new();
    for log in captured_logs() {
        let text = summary_text(&fs::read(&log).unwrap());
        let expected = log.with_extension("summary");
        if env::var_os("UPDATE_SUMMARIES").is_some() {
            fs::write(&expected, &text).unwrap();
        } else if fs::read_to_string(&expected).ok().as_ref() != Some(&text) {
            wrong.push(format!("{}:\n{text}", log.display()));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn headings_are_read_after_a_list_of_paths() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs/eslint/fail.log");
    let list: String = (0..9).map(|number| format!("docs/page{number}.md\n")).collect();
    let log = [list.into_bytes(), fs::read(log).unwrap()].concat();
    let text = summary_text(&log);
    let failure = text.lines().nth(1).unwrap();
    assert!(text.starts_with("eslint: ") && failure.contains(".js:"), "{text}");
}

fn captured_logs() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let files = folders.filter(|path| path.is_dir()).flat_map(|folder| {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    });
    let mut logs: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|it| it == "log")).collect();
    logs.sort();
    logs
}

fn summary_text(log: &[u8]) -> String {
    let mut summarizer = Summarizer::new();
    for (index, line) in String::from_utf8_lossy(log).lines().enumerate() {
        summarizer.read(index as u64 + 1, &visible_text(line));
    }
    let summary = summarizer.summary();
    let text = summary.text(MAX_BYTES);
    let lines: String = text.lines.iter().map(|line| format!("{line}\n")).collect();
    if summary.explains_outcome() { lines } else { format!("{lines}[and the last lines]\n") }
}

/// A line without escape sequences, in its last state: as the log's reader passes it on.
fn visible_text(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let last = line.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default();
    let mut text = String::new();
    let mut chars = last.chars();
    while let Some(char) = chars.next() {
        if char != '\u{1b}' {
            text.push(char);
            continue;
        }
        match chars.next() {
            Some('[') => {
                chars.by_ref().find(|char| ('@'..='~').contains(char));
            }
            Some(']') => {
                chars.by_ref().find(|char| *char == '\u{7}' || *char == '\\');
            }
            Some('(' | ')') => {
                chars.next();
            }
            _ => {}
        }
    }
    text
}
