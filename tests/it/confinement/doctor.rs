//! `shellyard doctor`: what this host gives, line by line.

use std::fs;

use serde_json::Value;

use crate::harness::{Sandbox, output_of, text};

/// All findings with this configuration, and the exit code.
fn doctor(sandbox: &Sandbox, config: &str) -> (Vec<Value>, Option<i32>) {
    let file = sandbox.write("config.toml", config);
    let mut command = sandbox.command();
    command.args(["doctor", "--json", "--config"]).arg(file).env("SHELL", "/bin/sh");
    let output = output_of(command, "");
    let answer: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    let findings = answer["findings"].as_array().expect("a list").clone();
    (findings, output.status.code())
}

#[track_caller]
fn finding<'a>(findings: &'a [Value], what: &str) -> &'a Value {
    let found = findings.iter().find(|finding| finding["what"] == what);
    found.unwrap_or_else(|| panic!("no {what} in {findings:?}"))
}

#[test]
fn each_thing_has_a_line_with_its_level_and_a_fix_where_it_is_not_right() {
    let (findings, code) = doctor(&Sandbox::new(), "");
    assert_eq!(code, Some(0), "{findings:?}");
    for what in [
        "environment",
        "shell",
        "path",
        "store",
        "temp",
        "pressure",
        "limits",
        "namespaces",
        "landlock",
        "seccomp",
        "kernel settings",
        "cgroup",
        "confinement",
    ] {
        let finding = finding(&findings, what);
        let level = finding["level"].as_str().expect("a level");
        assert!(["ok", "warn"].contains(&level), "{finding}");
        assert!(finding["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{finding}");
        assert!(level == "ok" || finding["fix"].is_string(), "{finding}");
    }
    let detail = finding(&findings, "confinement")["detail"].as_str().expect("text").to_owned();
    assert!(detail.starts_with("jobs get default, network on, by seccomp; at most "), "{detail}");
    assert!(detail.contains(" processes, 4096 open files, 8 GiB in a file"), "{detail}");
    let words: Vec<&str> = detail.split([' ', ',']).collect();
    let at = words.iter().position(|word| *word == "processes").expect("the limit");
    let processes: u64 = words[at - 1].parse().expect("a number");
    assert!(processes >= 4096, "ordinary builds have room: {detail}");
}

#[test]
fn the_effective_profile_is_told_when_it_cannot_be_given() {
    let sandbox = Sandbox::new();
    let config = "[confinement]\nprofile = \"read-only\"\nbackend = \"none\"\n";
    let (findings, code) = doctor(&sandbox, config);
    assert_eq!(code, Some(1), "{findings:?}");
    let failed = finding(&findings, "confinement");
    assert_eq!(failed["level"], "fail", "{failed}");
    assert!(failed["fix"].as_str().is_some_and(|fix| fix.contains("degrade")), "{failed}");
    let config = format!("{config}on_unavailable = \"degrade\"\n");
    let (findings, code) = doctor(&sandbox, &config);
    assert_eq!(code, Some(0), "{findings:?}");
    let warned = finding(&findings, "confinement");
    assert_eq!(warned["level"], "warn", "{warned}");
    assert!(warned["detail"].as_str().is_some_and(|it| it.contains("by nothing")), "{warned}");
}

#[test]
fn tools_that_only_the_login_shell_finds_are_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new();
    let home = sandbox.path().join("home");
    let tools = home.join("tools");
    fs::create_dir_all(&tools).expect("a directory of ours");
    for name in ["kubectl", "deno", "pnpm"] {
        fs::write(tools.join(name), "#!/bin/sh\n").expect("a file of ours");
        fs::set_permissions(tools.join(name), fs::Permissions::from_mode(0o755)).expect("ours");
    }
    fs::write(home.join(".profile"), "PATH=$HOME/tools:$PATH\n").expect("a file of ours");
    let (findings, _) = doctor(&sandbox, "");
    let path = finding(&findings, "path");
    assert_eq!(path["level"], "warn", "{path}");
    let detail = path["detail"].as_str().expect("text");
    let named = detail.rsplit_once("by the login shell: ").expect("a list").1;
    assert!(["deno", "kubectl", "pnpm"].iter().any(|tool| named.contains(tool)), "{path}");
    assert!(path["fix"].as_str().is_some_and(|fix| fix.contains("environment.set")), "{path}");
}
