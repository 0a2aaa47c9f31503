//! `policy test` and `policy explain`: what the rules make of a command, without running it.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};

use crate::harness::{Sandbox, output_of, run_program, text};

const RULES: &str = "[policy]\nallow = [\"git status\", \"ls\", \"echo\"]\ndeny = [\"rm*\"]\n";

fn recorded() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/policy_cases.jsonl"))
}

/// Asks a verb of `policy`, under this configuration.
#[track_caller]
fn ask(config: &str, arguments: &[&str], input: &str) -> Output {
    let sandbox = Sandbox::new();
    let file = sandbox.write("config.toml", config);
    let mut command = sandbox.command();
    command.arg("policy").args(arguments).arg("--config").arg(file);
    output_of(command, input)
}

/// The lines on stdout, of a run that ended with this code.
#[track_caller]
fn lines(output: &Output, code: i32) -> Vec<String> {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn all_recorded_decisions_hold() {
    let cases = recorded();
    let cases = cases.to_str().expect("a path of ours");
    let output = run_program(&Sandbox::new(), &["policy", "test", "--cases", cases]);
    assert_eq!(lines(&output, 0), ["152 passed, 0 failed"]);
}

#[test]
fn a_recorded_decision_that_differs_is_named() {
    let sandbox = Sandbox::new();
    let wrong = json!({"command": "ls; rm x", "deny": ["rm*"], "expected": "allow"});
    let right = json!({"command": "ls", "allow": ["ls"], "expected": "allow"});
    let file = sandbox.write("cases.jsonl", &format!("{right}\n{wrong}\n"));
    let file = file.to_str().expect("a path of ours");
    let output = run_program(&sandbox, &["policy", "test", "--cases", file]);
    let lines = lines(&output, 1);
    assert_eq!(lines.last().map(String::as_str), Some("1 passed, 1 failed"));
    let told = &lines[0];
    assert!(told.starts_with("2: ") && told.contains("ls; rm x"), "{told}");
    assert!(told.contains("expected allow") && told.contains("deny rule \"rm*\""), "{told}");
}

#[test]
fn cases_that_cannot_be_read_are_no_success() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("cases.jsonl", "{\"command\": \"ls\", \"expected\": \"allow\"}\n{\n");
    let file = file.to_str().expect("a path of ours");
    let output = run_program(&sandbox, &["policy", "test", "--cases", file]);
    let lines = lines(&output, 1);
    assert!(lines[0].starts_with("2: not a recorded decision: "), "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("1 passed, 1 failed"));
    let missing = run_program(&sandbox, &["policy", "test", "--cases", "/no/such/cases"]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    assert!(text(&missing.stderr).contains("/no/such/cases"), "{missing:?}");
}

#[test]
fn a_command_that_may_not_run_is_exit_1_with_the_rule() {
    let refused = ask(RULES, &["test", "ls; rm x"], "");
    let told = "refused: `rm` matches deny rule \"rm*\" (policy.deny[0])";
    assert_eq!(lines(&refused, 1), [told]);
    let refused = ask(RULES, &["test", "--json", "ls; rm x"], "");
    let answer: Value = serde_json::from_slice(&refused.stdout).expect("JSON");
    assert_eq!(answer, json!({"decision": "deny", "reason": told}));
    assert_eq!(lines(&ask(RULES, &["test", "ls -l; git status -s"], ""), 0), ["allowed"]);
    let unlisted = lines(&ask(RULES, &["test", "ls | wc"], ""), 1);
    assert_eq!(unlisted, ["refused: `wc` is not on the allow list"]);
}

#[test]
fn explain_shows_what_is_nested_and_behind_wrappers() {
    let line = "echo \"$(sudo -u x rm -r y)\" | xargs ls; find . -exec curl {} +";
    let output = ask(RULES, &["explain", line], "");
    let told = lines(&output, 0);
    let of = |program: &str| {
        let found = told.iter().find(|line| line.starts_with(program));
        found.unwrap_or_else(|| panic!("no `{program}` in {told:#?}")).clone()
    };
    assert!(of("echo").ends_with("allowed by \"echo\" (policy.allow[2])"), "{told:#?}");
    let rm = of("rm -r y");
    assert!(rm.contains("sudo") && rm.ends_with("denied by \"rm*\" (policy.deny[0])"), "{rm}");
    assert!(of("ls").contains("(in xargs"), "{told:#?}");
    let curl = of("curl");
    assert!(curl.contains("find") && curl.ends_with("not on the allow list"), "{curl}");
    let last = told.last().expect("a decision");
    assert_eq!(last, "→ refused: `rm` matches deny rule \"rm*\" (policy.deny[0])");
}

#[test]
fn explain_answers_each_line_of_json_with_one_object() {
    let questions = ["ls; rm x", "$CMD", "env A=b git status", "", "echo 'unclosed"];
    let input: String = questions.iter().map(|text| format!("{}\n", json!(text))).collect();
    let output = ask("", &["explain", "--json", "-"], &input);
    let answers: Vec<Value> = lines(&output, 0)
        .iter()
        .map(|line| serde_json::from_str(line).expect("an object per line"))
        .collect();
    assert_eq!(answers.len(), questions.len(), "{answers:?}");
    for answer in &answers {
        let keys: Vec<_> = answer.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["programs", "uncertain"]);
    }
    assert_eq!(answers[0], json!({"programs": ["ls", "rm"], "uncertain": null}));
    assert!(answers[1]["uncertain"].is_string(), "{answers:?}");
    assert_eq!(answers[2], json!({"programs": ["env", "git"], "uncertain": null}));
    assert_eq!(answers[3], json!({"programs": [], "uncertain": null}));
    assert!(answers[4]["uncertain"].is_string(), "{answers:?}");
}

#[test]
fn explain_answers_for_any_depth() {
    let deep = format!("{}rm x{}", "echo $(".repeat(200), ")".repeat(200));
    let output = ask("", &["explain", "--json", "-"], &format!("{}\n", json!(deep)));
    let told = lines(&output, 0);
    assert_eq!(told.len(), 1);
    let answer: Value = serde_json::from_str(&told[0]).expect("JSON");
    // Either all of it was read, or it says that it was not.
    let programs = answer["programs"].as_array().expect("a list");
    let is_found = programs.iter().any(|program| program == "rm");
    assert!(is_found || answer["uncertain"].is_string(), "{answer}");
    let refused = ask("[policy]\ndeny = [\"rm*\"]\n", &["test", &deep], "");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

#[test]
fn nothing_is_run_by_asking() {
    let sandbox = Sandbox::new();
    for verb in ["test", "explain"] {
        run_program(&sandbox, &["policy", verb, "touch made; $(touch made)"]);
    }
    let made = fs::read_dir(sandbox.work()).expect("a directory of ours").count();
    assert_eq!(made, 0);
}
