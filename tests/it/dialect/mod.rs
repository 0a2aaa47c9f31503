//! The tools that documents describe, called as the documents say, over both transports.

mod choice;
mod execute;
mod execute_command;
mod file_tools;
mod run_shell_command;
mod server_shell;
mod shell;
mod shell_exec;
mod waiting_for_slot;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Launch, TestServer};

/// A server over each transport that offers only this dialect.
fn speaking(dialect: &str) -> [Launch; 2] {
    Launch::both().map(|launch| launch.args(&["--dialect", dialect]))
}

fn listed(server: &mut TestServer) -> Vec<Value> {
    let answer = server.rpc("tools/list", json!({}));
    answer["result"]["tools"].as_array().cloned().expect("a list of tools")
}

/// The names of the tools that are offered.
fn names(server: &mut TestServer) -> Vec<String> {
    listed(server).iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}

/// Compares `tools/list` with what was written down in `listed/`. With UPDATE=1 it is written
/// down anew, to be looked at before it is committed.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a switch for whoever runs the tests")]
fn check_listed(dialect: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/dialect/listed")
        .join(format!("{dialect}.json"));
    for launch in speaking(dialect) {
        let found = format!("{:#}\n", Value::Array(listed(&mut launch.start())));
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &found).expect("a file of ours");
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(found, expected, "{} differs; UPDATE=1 writes it anew", path.display());
    }
}
