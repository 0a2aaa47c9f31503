//! `config init`: a file with all settings, commented out.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Sandbox, run_program, text};

/// The value of every setting.
#[track_caller]
fn values(sandbox: &Sandbox, file: &Path) -> BTreeMap<String, Value> {
    let path = file.to_str().expect("a path");
    let checked = run_program(sandbox, &["config", "check", path]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let shown = run_program(sandbox, &["config", "show", "--json", "--config", path]);
    let answer: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let settings = answer["settings"].as_object().expect("settings").clone();
    settings.into_iter().map(|(key, entry)| (key, entry["value"].clone())).collect()
}

#[test]
fn a_new_file_changes_nothing_and_neither_do_its_settings() {
    let sandbox = Sandbox::new();
    let written = run_program(&sandbox, &["config", "init"]);
    assert_eq!(written.status.code(), Some(0), "{written:?}");
    let path = text(&written.stdout).trim().to_owned();
    let file = std::fs::read_to_string(&path).expect("the file");
    assert_eq!(file, text(&run_program(&sandbox, &["config", "init", "--stdout"]).stdout));
    let defaults = values(&sandbox, &sandbox.write("empty.toml", ""));
    assert_eq!(values(&sandbox, Path::new(&path)), defaults);
    // Every setting is there: without its comment sign each has its default.
    let is_setting = |text: &str| !text.is_empty() && !text.starts_with(' ');
    let lines = file.lines().map(|line| {
        let setting = line.trim_start().strip_prefix('#').filter(|text| is_setting(text));
        setting.unwrap_or(line)
    });
    let all: String = lines.flat_map(|line| [line, "\n"]).collect();
    let uncommented = sandbox.write("all.toml", &all);
    assert_eq!(values(&sandbox, &uncommented), defaults);
    let shown = run_program(
        &sandbox,
        &["config", "show", "--config", uncommented.to_str().expect("a path")],
    );
    for line in text(&shown.stdout).lines() {
        // The harness sets one by a variable.
        let is_known = line.contains("all.toml:") || line.ends_with("# SHELLYARD_QUEUE_IDLE_S");
        assert!(is_known, "not in the file: {line}");
    }
    // One of them, changed as a person would.
    let changed = file.replacen("#slots = 0\n", "slots = 3\n", 1);
    assert_ne!(changed, file);
    let changed = values(&sandbox, &sandbox.write("changed.toml", &changed));
    assert_eq!(changed["queue.slots"], 3);
}
