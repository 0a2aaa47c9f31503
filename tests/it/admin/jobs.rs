//! `jobs` and `queue`: what is seen, and by whom.

use serde_json::{Value, json};

use super::{Hosted, OPERATORS, Who};
use crate::harness::{Sandbox, run_program, text};

/// The message of an empty list.
const NO_JOBS: &str =
    "no jobs; `shellyard run --queue COMMAND` submits one, and --all shows those of all tenants\n";

/// Two jobs of alice, one of bob; alice speaks again afterwards.
fn with_jobs() -> Hosted {
    let mut hosted = Hosted::start("");
    hosted.server.run("echo one; echo two");
    hosted.server.run("exit 3");
    let (alice, bob) = (hosted.alice.clone(), hosted.bob.clone());
    hosted.server.http().use_token(&bob);
    hosted.server.run("echo of bob");
    hosted.server.http().use_token(&alice);
    hosted
}

/// Tenant and number of each job, as listed.
fn listed(answer: &Value) -> Vec<(Value, Value)> {
    let jobs = answer["jobs"].as_array().expect("a list");
    jobs.iter().map(|job| (job["tenant"].clone(), job["job"].clone())).collect()
}

/// The cells of a table's rows, split at two blanks or more.
fn rows(table: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect()
    };
    table.lines().filter(|line| !line.is_empty()).map(cells).collect()
}

#[test]
fn an_operator_sees_the_jobs_of_all_tenants_with_their_numbers() {
    let mut hosted = with_jobs();
    for who in OPERATORS {
        let (table, headline) = hosted.ask_for_text(who, &["jobs", "--all"]);
        let rows = rows(&table);
        assert_eq!(
            rows[0],
            ["TENANT", "JOB", "STATE", "STARTED", "ELAPSED", "LINES", "CLIENT", "COMMAND"]
        );
        let found: Vec<[&str; 5]> = rows[1..]
            .iter()
            .map(|row| [&row[0], &row[1], &row[2], &row[5], &row[7]].map(String::as_str))
            .collect();
        let expected = [
            ["bob", "1", "exit 0", "1", "echo of bob"],
            ["alice", "2", "exit 3", "0", "exit 3"],
            ["alice", "1", "exit 0", "2", "echo one; echo two"],
        ];
        assert_eq!(found, expected, "newest first");
        assert_eq!(headline, "0 running, 0 queued, 3 finished\n");
        let told = hosted.json(who, &["jobs", "--all"]);
        let expected = [("bob", 1), ("alice", 2), ("alice", 1)];
        assert_eq!(listed(&told), expected.map(|(tenant, job)| (json!(tenant), json!(job))));
        let one = hosted.ask_for_text(who, &["jobs", "--tenant", "bob"]).0;
        assert!(one.contains("bob") && !one.contains("alice"), "{one}");
    }
}

#[test]
fn everybody_else_sees_the_own_jobs_alone() {
    let mut hosted = with_jobs();
    for who in [Who::Alice, Who::Reader] {
        let (table, _) = hosted.ask_for_text(who, &["jobs"]);
        let rows = rows(&table);
        assert_eq!(rows[0][0], "JOB");
        assert_eq!((rows.len(), &*rows[1][0], &*rows[2][0]), (3, "2", "1"), "{table}");
        assert!(!table.contains("bob"), "{table}");
        let told = hosted.json(who, &["jobs"]);
        assert_eq!(listed(&told), [(Value::Null, json!(2)), (Value::Null, json!(1))]);
        for foreign in [&["jobs", "--all"][..], &["jobs", "--tenant", "bob"]] {
            let refused = hosted.ask(who, foreign);
            assert_eq!(refused.status.code(), Some(1), "{refused:?}");
            assert_eq!(text(&refused.stdout), "");
            assert!(text(&refused.stderr).contains("the role admin"), "{refused:?}");
        }
    }
    let (nothing, log_text) = hosted.ask_for_text(Who::Admin, &["jobs"]);
    assert_eq!((&*nothing, &*log_text), ("", NO_JOBS), "the operator's own tenant has none");
}

#[test]
fn a_list_is_narrowed_by_state_and_number() {
    let mut hosted = with_jobs();
    let (running, _marker) = hosted.holder();
    let found = hosted.json(Who::Alice, &["jobs", "--state", "running"]);
    assert_eq!(listed(&found), [(Value::Null, running["job"].clone())]);
    let (table, log_text) = hosted.ask_for_text(Who::Alice, &["jobs", "--limit", "1"]);
    assert_eq!(rows(&table).len(), 2, "{table}");
    assert!(log_text.contains("newest 1; --limit N"), "{log_text}");
    for odd in [
        &["jobs", "--state", "odd"][..],
        &["jobs", "--limit", "0"],
        &["jobs", "--limit", "201"],
        &["jobs", "--tenant", "a b"],
        &["jobs", "--all", "--tenant", "bob"],
        &["drain", "--undo", "--exit"],
        &["pause", "--lane"],
    ] {
        assert_eq!(hosted.ask(Who::Admin, odd).status.code(), Some(2), "{odd:?}");
    }
}

#[test]
fn a_running_job_is_listed_however_many_have_finished_since() {
    let mut hosted = Hosted::start("");
    let (running, _marker) = hosted.holder();
    for _ in 0..3 {
        hosted.server.run("true");
    }
    for words in [&["jobs", "--limit", "2"][..], &["jobs", "--all", "--limit", "2"]] {
        let who = if words.contains(&"--all") { Who::Admin } else { Who::Alice };
        let found = listed(&hosted.json(who, words));
        let numbers: Vec<&Value> = found.iter().map(|(_, number)| number).collect();
        assert_eq!(numbers, [&json!(4), &running["job"]], "newest first: {found:?}");
    }
}

#[test]
fn a_command_cannot_write_on_the_operators_terminal() {
    let mut hosted = Hosted::start("");
    hosted.server.run(&format!("true '\u{1b}[2J\r\n\u{202e}' {}", "x".repeat(300)));
    let (table, _) = hosted.ask_for_text(Who::Socket, &["jobs", "--all"]);
    assert!(table.contains("\\u{1b}[2J\\r\\n\\u{202e}"), "{table}");
    assert!(!table.contains(['\u{1b}', '\r', '\u{202e}']), "{table}");
    assert_eq!(table.lines().count(), 2, "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 120), "{table}");
    assert!(table.trim_end().ends_with('…'), "{table}");
}

#[test]
fn an_overview_of_the_queue_tells_use_and_limits() {
    let config = "[queue]\nslots = 1\n[tenants.alice]\nmax_running = 3\nweight = 2\n";
    let mut hosted = Hosted::start(config);
    let (_, _marker) = hosted.holder();
    hosted.submit("echo later", "build");
    for who in OPERATORS {
        let (told, _) = hosted.ask_for_text(who, &["queue"]);
        let rows = rows(&told);
        assert!(rows.contains(&vec!["starts".into(), "open".into()]), "{told}");
        assert!(rows.contains(&vec!["running".into(), "1 of 1".into()]), "{told}");
        assert!(told.contains("1 of 10000, for: slots 1"), "{told}");
        let of = |name: &str| rows.iter().find(|row| row[0] == name).expect("a row").clone();
        assert_eq!(of("build"), ["build", "0 of 2", "1", "open"]);
        assert_eq!(of("alice"), ["alice", "2", "1 of 3", "1 of 1000", "-", "-"]);
        let json = hosted.json(who, &["queue"]);
        assert_eq!((&json["running"], &json["slots"]), (&json!(1), &json!(1)));
        assert_eq!(json["tenants"]["alice"]["max_running"], 3);
    }
}

#[test]
fn without_a_server_the_place_and_the_next_command_are_named() {
    let sandbox = Sandbox::new();
    let data = sandbox.data();
    let data = data.to_str().expect("a path");
    let socket = format!("{data}/shellyard.sock");
    for verb in [
        &["jobs"][..],
        &["queue"],
        &["pause"],
        &["resume"],
        &["drain", "--wait"],
        &["config", "reload"],
    ] {
        let output = run_program(&sandbox, &[verb, &["--data-dir", data]].concat());
        assert_eq!(output.status.code(), Some(1), "{verb:?}");
        let said = text(&output.stderr);
        assert!(said.contains(&socket) && said.contains("`shellyard serve`"), "{said}");
        assert!(!said.contains("--ensure-server"), "there is no such flag: {said}");
        let output = run_program(&sandbox, &[verb, &["--json", "--connect", &socket]].concat());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), String::new()));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((&answer["ok"], &answer["code"]), (&json!(false), &json!("no_server")));
    }
}
