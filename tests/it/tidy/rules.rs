//! Names that a module must not use, and the shape of files.

use super::source::SourceFile;

/// Words that must not stand in a module's code. A trailing `::` or `!` is part of the word.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("http", &["ractor", "tokio::process", "std::process"]),
    ("proxy", &["ractor", "axum", "tokio::process", "std::process"]),
    ("lines", &["ractor", "axum", "tokio::process", "std::process"]),
    ("client", &["ractor", "rmcp", "axum"]),
    (
        "mcp",
        &["ractor", "tokio::process", "std::process", "std::fs", "tokio::fs", "Mutex", "RwLock"],
    ),
    ("service", &["rmcp", "axum"]),
    ("supervisor", &["LogWriter", "LogReader", "Page", "std::fs", "tokio::fs", "rmcp", "axum"]),
    ("job", &["rmcp", "serde_json", "axum"]),
    ("telemetry", &["ractor", "rmcp", "axum"]),
    ("config", &["ractor", "rmcp", "axum", "tokio"]),
];

const MAX_LINES: usize = 600;

/// The folder whose files spell names of metrics.
const METRIC_HOME: &str = "telemetry/names.rs";

/// Names that say nothing about what is inside.
const VAGUE: [&str; 4] = ["utils.rs", "util.rs", "helpers.rs", "common.rs"];

/// Calls for tests alone: `LogReader::blocking` reads on whatever thread calls it.
const ONLY_IN_TESTS: [&str; 1] = [".blocking()"];

/// Everything that is wrong with one file of the product, imports aside.
pub(super) fn violations(file: &SourceFile) -> Vec<String> {
    let rules = [words, only_in_tests, unsafe_code, metric_names];
    let own = rules.iter().flat_map(|rule| rule(file)).map(|why| format!("{}: {why}", file.path));
    own.chain(shape(file)).collect()
}

/// Everything that is wrong with the shape of a file, in any crate.
pub(super) fn shape(file: &SourceFile) -> Vec<String> {
    let rules = [size, logic_in_mod_file, documented, vague_name];
    rules.iter().flat_map(|rule| rule(file)).map(|why| format!("{}: {why}", file.path)).collect()
}

fn words(file: &SourceFile) -> Vec<String> {
    let forbidden = FORBIDDEN.iter().find(|(module, _)| *module == file.module());
    let words = forbidden.map_or(&[][..], |(_, words)| words);
    words
        .iter()
        .filter(|word| has_word(&file.code, word))
        .map(|word| format!("`{}` must not touch `{word}`", file.module()))
        .collect()
}

fn only_in_tests(file: &SourceFile) -> Vec<String> {
    let calls = ONLY_IN_TESTS.iter().filter(|call| file.code.contains(*call));
    calls.map(|call| format!("`{call}` is for tests")).collect()
}

/// `true` if `word` stands in `code` as a word of its own.
fn has_word(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(index, _)| {
        let before = code[..index].chars().next_back().is_some_and(is_part);
        let after = code[index + word.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })
}

fn unsafe_code(file: &SourceFile) -> Vec<String> {
    let is_unsafe = has_word(&file.code, "unsafe");
    is_unsafe.then(|| "`unsafe` is for crates/process only".to_owned()).into_iter().collect()
}

fn size(file: &SourceFile) -> Vec<String> {
    let lines = file.text.lines().count();
    let is_large = lines > MAX_LINES;
    is_large
        .then(|| format!("{lines} lines without tests; {MAX_LINES} at most"))
        .into_iter()
        .collect()
}

/// A `mod.rs` has docs, modules and re-exports: nothing that does something.
fn logic_in_mod_file(file: &SourceFile) -> Vec<String> {
    if !file.path.ends_with("mod.rs") {
        return Vec::new();
    }
    let items = file.code.split(';').map(without_attributes).filter(|item| !item.is_empty());
    items
        .filter(|item| !is_mod_or_use(item))
        .map(|item| format!("logic in a mod.rs: `{}`", item.lines().next().unwrap_or_default()))
        .collect()
}

fn without_attributes(item: &str) -> &str {
    let mut rest = item.trim();
    while rest.starts_with('#') {
        let Some(end) = rest.find(']') else { return rest };
        rest = rest[end + 1..].trim_start();
    }
    rest
}

fn is_mod_or_use(item: &str) -> bool {
    let public = item.strip_prefix("pub").map_or(item, |rest| {
        let after = rest.strip_prefix('(').and_then(|scope| scope.split_once(')'));
        after.map_or(rest, |(_, rest)| rest)
    });
    let item = public.trim_start();
    item.starts_with("mod ") || item.starts_with("use ")
}

fn documented(file: &SourceFile) -> Vec<String> {
    let has_docs = file.text.trim_start().starts_with("//!");
    (!has_docs).then(|| "no `//!` at its head".to_owned()).into_iter().collect()
}

fn metric_names(file: &SourceFile) -> Vec<String> {
    let is_home = file.path.starts_with(METRIC_HOME);
    let spells_one = file
        .text
        .lines()
        .any(|line| !line.trim_start().starts_with("//") && line.contains("\"shellyard_"));
    (spells_one && !is_home)
        .then(|| "a metric is spelled outside telemetry/names.rs".to_owned())
        .into_iter()
        .collect()
}

fn vague_name(file: &SourceFile) -> Vec<String> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    VAGUE.contains(&name).then(|| "a name that says nothing".to_owned()).into_iter().collect()
}

#[track_caller]
fn check(path: &str, text: &str, expected: &[&str]) {
    let found = violations(&SourceFile::new(path, text));
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn a_good_file_has_no_violation() {
    check("mcp/run.rs", "//! Docs about ractor and Mutex.\nfn f() { log(\"Mutex\"); }\n", &[]);
    let text =
        "//! Docs.\n\nmod a;\n#[cfg(unix)]\nmod b;\npub(crate) use a::{A,\n  B};\npub use b::C;\n";
    check("job/mod.rs", text, &[]);
    check("job/state.rs", "//! Docs.\n#[cfg(test)]\nmod tests { unsafe {} }\n", &[]);
}

#[test]
fn forbidden_words_are_caught() {
    check("mcp/run.rs", "//! D.\nuse std::sync::Mutex;", &["`Mutex`"]);
    check("mcp/run.rs", "//! D.\nstd::fs::read(x);", &["`std::fs`"]);
    check("job/a.rs", "//! D.\nuse serde_json::json;", &["`serde_json`"]);
    check("job/a.rs", "//! D.\nunsafe { x }", &["crates/process only"]);
}

#[test]
fn misshaped_files_are_caught() {
    check("job/a.rs", "fn f() {}", &["no `//!`"]);
    check("job/a.rs", &format!("//! D.\n{}", "\n".repeat(MAX_LINES)), &["lines without tests"]);
    check("job/mod.rs", "//! D.\nmod a;\nfn f() { g(); }\n", &["logic in a mod.rs", "logic"]);
    check("job/mod.rs", "//! D.\npub struct X;\n", &["logic in a mod.rs"]);
    check("http/m.rs", "//! D.\nlet name = \"shellyard_x_total\";", &["a metric"]);
    check("http/utils.rs", "//! D.\n", &["says nothing"]);
}
