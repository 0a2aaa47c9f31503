//! `self-test` on the host of these tests.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::harness::{Sandbox, output_of, text};

const CHECKS: [&str; 13] = [
    "start",
    "profile none",
    "profile default",
    "profile workspace-write",
    "profile read-only",
    "network off",
    "stop of a tree",
    "timeout",
    "output limit",
    "memory limit",
    "spill to disk",
    "policy deny",
    "policy ask",
];

fn self_test(sandbox: &Sandbox, temp_dir: &Path, arguments: &[&str]) -> Output {
    let mut command = sandbox.command();
    // A setting of the person must not reach the private server.
    command.env("TMPDIR", temp_dir).env("SHELLYARD_POLICY_DENY", "echo,touch,yes");
    command.arg("self-test").args(arguments);
    output_of(command, "")
}

#[test]
fn every_check_passes_or_says_what_the_host_lacks_and_nothing_is_left() {
    let sandbox = Sandbox::new();
    let temp_dir = sandbox.path().join("tmp");
    fs::create_dir_all(&temp_dir).expect("a directory of ours");
    let output = self_test(&sandbox, &temp_dir, &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = answer["checks"].as_array().expect("a list");
    let names: Vec<_> =
        checks.iter().map(|check| check["check"].as_str().expect("a name")).collect();
    assert_eq!(names, CHECKS);
    for check in checks {
        let can_lack = ["workspace-write", "read-only", "default", "network"];
        let may_lack = can_lack.iter().any(|part| check["check"].to_string().contains(part));
        let result = check["result"].as_str().expect("a word");
        assert!(result == "ok" || (may_lack && result == "not_available"), "{check}");
        assert!(check["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{check}");
    }
    let left: Vec<_> = fs::read_dir(&temp_dir).expect("it is there").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_host_without_a_usable_directory_fails() {
    let sandbox = Sandbox::new();
    let output = self_test(&sandbox, Path::new("/no/such/directory"), &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stdout);
    assert!(said.contains("start  failed  ") && said.contains("TMPDIR"), "{said}");
    assert!(said.contains("0 ok, 1 failed, 0 not available"), "{said}");
}

#[test]
fn a_check_that_does_not_hold_fails() {
    let sandbox = Sandbox::new();
    let temp_dir = sandbox.path().join("tmp");
    let tools = sandbox.path().join("tools");
    for folder in [&temp_dir, &tools] {
        fs::create_dir_all(folder).expect("a directory of ours");
    }
    // A `yes` that writes nothing: no job reaches its output limit.
    let fake = tools.join("yes");
    fs::write(&fake, "#!/bin/sh\nexit 0\n").expect("a file of ours");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&fake, mode).expect("a file of ours");
    let mut command = sandbox.command();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", tools.display());
    command.env("TMPDIR", &temp_dir).env("PATH", path).arg("self-test");
    let output = output_of(command, "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stdout);
    let row = said.lines().find(|line| line.starts_with("output limit")).expect("a row");
    assert!(row.contains("failed") && row.contains("\"outcome\":\"exited\""), "{said}");
    assert!(said.contains("1 failed"), "{said}");
}
