//! A reload: either all new rules hold, or the old ones go on.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Launch, TestServer, eventually};

const NO_TOUCH: &str = "[policy]\ndeny = [\"touch\"]\n";

fn reload(server: &TestServer, config: &str) {
    fs::write(server.sandbox().path().join("config.toml"), config).expect("a file of ours");
    server.signal(Signal::HUP);
}

fn notes(server: &TestServer, what: &str) -> Vec<Value> {
    let log = fs::read_to_string(server.sandbox().data().join("audit.jsonl")).unwrap_or_default();
    let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    entries.filter(|entry| entry["event"] == "note" && entry["what"] == what).collect()
}

fn is_refused(server: &mut TestServer, command: &str) -> bool {
    server.call("run_command", serde_json::json!({"command": command})).is_error()
}

#[test]
fn a_good_file_takes_effect() {
    for launch in Launch::both() {
        let mut server = launch.structured().config(NO_TOUCH).start();
        assert!(is_refused(&mut server, "touch made") && !is_refused(&mut server, "mkdir new"));
        reload(&server, "[policy]\ndeny = [\"mkdir\"]\n");
        eventually("the reload is written down", || notes(&server, "settings_reloaded").len() == 1);
        assert!(!is_refused(&mut server, "touch made"));
        assert!(is_refused(&mut server, "mkdir other"));
        assert!(!server.work().join("other").exists());
    }
}

#[test]
fn a_bad_file_keeps_the_old_rules_and_says_so() {
    let bad = [
        "[policy]\ndeny = [\"re:(\"]\n",
        "[policy]\nalow = [\"touch\"]\n",
        "[policy\n",
        "[policy]\nallowed_directories = [\"/no/such/place\"]\n",
        "[redact]\npatterns = [\"(\"]\n",
    ];
    let mut server = Launch::http().structured().config(NO_TOUCH).start();
    for (done, config) in bad.iter().enumerate() {
        reload(&server, config);
        eventually("the refusal is written down", || {
            notes(&server, "reload_refused").len() == done + 1
        });
        assert!(is_refused(&mut server, "touch made"), "after {config:?}");
        assert!(!server.work().join("made").exists(), "after {config:?}");
    }
    let notes = notes(&server, "reload_refused");
    let detail = notes[0]["detail"].as_str().expect("a text");
    assert!(detail.contains("config.toml:2") && detail.contains("policy.deny[0]"), "{detail}");
    eventually("it is said on stderr", || server.log_text().contains("config.toml:2"));
    let log_text = server.log_text();
    assert!(log_text.contains("old") && log_text.contains("policy.deny[0]"), "{log_text}");
}
