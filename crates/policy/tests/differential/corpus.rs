//! Recorded decisions: attacks, everyday lines, and scripts that were found unsound once.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use shellyard_policy::command::{ShellSyntax, base_name};
use shellyard_policy::rules::parse_patterns;
use shellyard_policy::{Policy, PolicyDecision, decide};

use super::check::{ScriptDecision, ask, list_everything, request, unnamed};
use crate::check::run_unnamed;
use crate::jail::Jail;
use crate::workers::{Worker, announce, run, texts};

const CASES: &str = include_str!("../../../../tests/policy_cases.jsonl");
const ATTACKS: &str = include_str!("../../../../tests/policy_attacks.jsonl");
const EVERYDAY: &str = include_str!("../../../../tests/policy_everyday.jsonl");
/// Scripts that started a program past an allow list once, one JSON string in each line.
const REGRESSIONS: &str = include_str!("regressions.jsonl");

/// One recorded decision.
#[derive(Debug)]
struct CorpusCase {
    command: String,
    /// Runs before the command, outside the policy.
    set_up: String,
    policy: Policy,
    expected: String,
}

impl CorpusCase {
    fn parse(line: &str) -> Self {
        let value: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let list = |name: &str| -> Vec<String> {
            let names = value[name].as_array().into_iter().flatten();
            names.map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        let (allow, deny) = (list("allow"), list("deny"));
        let rules = |place: &str, names: &[String]| {
            parse_patterns(place, names.iter().map(String::as_str)).unwrap()
        };
        let policy = Policy {
            allow: (!allow.is_empty()).then(|| rules("policy.allow", &allow)),
            deny: rules("policy.deny", &deny),
            ..Policy::default()
        };
        Self { command: text("command"), set_up: text("setup"), policy, expected: text("expected") }
    }
}

fn cases(text: &str) -> impl Iterator<Item = CorpusCase> {
    text.lines().map(CorpusCase::parse)
}

/// Checks every line of a file; the names of those that differ are shown together.
#[track_caller]
fn check(text: &str, count: usize) {
    let decided =
        |case: &CorpusCase| decide(&case.policy, &request(Path::new("/srv"), &case.command));
    let is_right = |case: &CorpusCase| match decided(case) {
        PolicyDecision::Allow => case.expected == "allow",
        PolicyDecision::Ask { .. } => case.expected == "ask",
        PolicyDecision::Confine { .. } => case.expected == "confine",
        PolicyDecision::Deny(_) => case.expected == "deny",
    };
    let show = |case: CorpusCase| format!("{:?}: {:?}", case.command, decided(&case));
    let wrong: Vec<String> = cases(text).filter(|case| !is_right(case)).map(show).collect();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(cases(text).count(), count);
}

#[test]
fn recorded_decisions_hold() {
    check(CASES, 189);
}

#[test]
fn recorded_attacks_are_refused() {
    check(ATTACKS, 17);
}

#[test]
fn everyday_lines_are_allowed() {
    check(EVERYDAY, 36);
}

/// The attacks are real: each starts a program that it should not. The tracer sees it, and the
/// decision on the same line refused it.
#[test]
fn recorded_attacks_run_what_they_claim_and_are_caught() {
    let test = "corpus::recorded_attacks_run_what_they_claim_and_are_caught";
    let work = |worker: &Worker| {
        let attacks = cases(ATTACKS).filter(|case| has_program(&worker.jail, &case.command));
        json!({ "faults": attacks.flat_map(|case| run_attack(&worker.jail, &case)).collect::<Vec<_>>() })
    };
    let Some(reports) = run(test, 1, work) else { return };
    let faults = texts(&reports, "faults");
    assert!(faults.is_empty(), "{faults}");
}

/// Some machines do not have the tool of an attack; that is said, not passed over.
fn has_program(jail: &Jail, command: &str) -> bool {
    let needed = ["zip", "sqlite3"].into_iter().find(|name| command.starts_with(name));
    let missing = needed.filter(|name| !jail.has(name));
    if let Some(name) = missing {
        announce(&format!(
            "NOT RUN, {name} is missing (Debian: apt-get install {name}): {command}"
        ));
    }
    missing.is_none()
}

fn run_attack(jail: &Jail, case: &CorpusCase) -> Vec<String> {
    let run = jail.run_after(&case.set_up, ShellSyntax::Bash, &case.command);
    let mut faults = Vec::new();
    if !run.execs.iter().any(|exec| base_name(&exec.path) == "touch") {
        faults.push(format!("{:?} did not run `touch`: {:?}", case.command, run.execs));
    }
    if let ScriptDecision::Allowed(names) = ask(&case.policy, &jail.cwd(), &case.command) {
        let unnamed = unnamed(jail, &run.execs, &names);
        faults.push(format!("{:?} is allowed and ran {unnamed:?} unnamed", case.command));
    }
    faults
}

#[test]
fn scripts_that_were_unsound_once_are_sound() {
    let test = "corpus::scripts_that_were_unsound_once_are_sound";
    let work = |worker: &Worker| {
        let policy = list_everything(&worker.jail);
        let fault = |line: &str| {
            let script: String = serde_json::from_str(line).unwrap();
            let unnamed = run_unnamed(&worker.jail, &policy, &script);
            (!unnamed.is_empty()).then(|| format!("{script:?} ran {unnamed:?} unnamed"))
        };
        json!({ "faults": REGRESSIONS.lines().filter_map(fault).collect::<Vec<_>>() })
    };
    let Some(reports) = run(test, 1, work) else { return };
    let faults = texts(&reports, "faults");
    assert!(faults.is_empty(), "{faults}");
}

/// The tracer sees pipes, background commands, wrappers, and real tools that start others.
#[test]
fn the_tracer_records_every_program() {
    let test = "corpus::the_tracer_records_every_program";
    let work = |worker: &Worker| {
        let script = "zqa | zqb; (zqc &); env nice zqd; find . -maxdepth 0 -exec zqe \\;; \
                      awk 'BEGIN { system(\"zqf\") }'; nosuch; echo \"$(./run.sh)\"";
        let run = worker.jail.run(ShellSyntax::Bash, script);
        let names: BTreeSet<&str> = run.execs.iter().map(|it| base_name(&it.path)).collect();
        json!({ "names": names, "clean": run.clean })
    };
    let Some(reports) = run(test, 1, work) else { return };
    let expected = [
        "awk", "env", "find", "nice", "run.sh", "sh", "zqa", "zqb", "zqc", "zqd", "zqe", "zqf",
        "zqopaque",
    ];
    assert_eq!(reports, [json!({ "names": expected, "clean": false })]);
}

/// Nothing outlives a script, and nothing outside its directory is written.
#[test]
fn the_jail_holds_scripts() {
    let test = "corpus::the_jail_holds_scripts";
    let work = |worker: &Worker| {
        let run = |script: &str| worker.jail.run(ShellSyntax::Bash, script);
        json!({
            "harmless": run("echo x > inside; sleep 0.1 & wait").clean,
            "endless": run("setsid sleep 60 & sleep 60").cut_short,
            "bomb": run("while :; do zqa & done").cut_short,
            "outside": worker.is_isolated && run("echo x > ../../outside").clean,
        })
    };
    let Some(reports) = run(test, 1, work) else { return };
    let expected = json!({ "harmless": true, "endless": true, "bomb": true, "outside": false });
    assert_eq!(reports, [expected]);
}
