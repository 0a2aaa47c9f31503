//! `--tenant` and `--all`: an operator sees and stops the jobs of others, and each act is audited.

use std::fs;

use serde_json::{Value, json};

use super::world::{Route, World};
use crate::harness::{Launch, Marker, eventually, output_of, run_program, text};

/// The notes of the audit log, `what: detail`.
fn audited(world: &World) -> Vec<String> {
    let lines = fs::read_to_string(world.sandbox().data().join("audit.jsonl")).unwrap_or_default();
    let entries = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let notes = entries.filter(|entry| entry["event"] == "note");
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    notes.map(|note| format!("{}: {}", word(&note["what"]), word(&note["detail"]))).collect()
}

#[track_caller]
fn new_token(world: &World, name: &str, role: &str) -> String {
    let data = world.sandbox().data().display().to_string();
    let words = ["token", "new", name, "--role", role, "--data-dir", &data];
    let made = run_program(world.sandbox(), &words);
    assert!(made.status.success(), "{made:?}");
    text(&made.stdout).trim().to_owned()
}

/// Runs a verb with a token.
fn run_as(world: &mut World, token: &str, words: &[&str]) -> (Option<i32>, String) {
    let mut command = world.command(words);
    command.env("SHELLYARD_TOKEN", token);
    let output = output_of(command, "");
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn an_operator_reads_and_stops_the_jobs_of_others_and_each_act_is_audited() {
    let mut world = World::start_with(Route::Tcp, Launch::http());
    let [alice, bob, admin] = [("alice", "run"), ("bob", "run"), ("ops", "admin")]
        .map(|(name, role)| new_token(&world, name, role));
    let words = ["run", "--queue", "sh", "-c", "echo hers; exit 3"];
    assert_eq!(run_as(&mut world, &alice, &words).0, Some(3));
    let marker = Marker::new();
    let seconds = marker.to_string();
    let words = ["run", "--queue", "--detach", "sleep", &seconds];
    assert_eq!(run_as(&mut world, &alice, &words).0, Some(0));
    marker.wait_alive();

    for (words, shows, note) in [
        (&["jobs", "--tenant", "alice"][..], "echo hers", "jobs_listed: jobs of alice"),
        (&["jobs", "--all"], "echo hers", "jobs_listed: jobs of all tenants"),
        (&["logs", "--tenant", "alice", "1"], "hers", "job_read: output of job 1 of alice"),
        (&["show", "--tenant", "alice", "1"], "exit 3", "job_read: state of job 1 of alice"),
        (&["top", "--tenant", "alice", "--json"], "sleep", "jobs_listed: jobs of alice"),
        (&["top", "--all", "--json"], "sleep", "jobs_listed: jobs of all tenants"),
        (&["stop", "--tenant", "alice", "2"], "stopped by", "job_stopped: job 2 of alice"),
    ] {
        for other in [&alice, &bob] {
            if words.contains(&"--tenant") && other == &alice {
                continue;
            }
            let (code, said) = run_as(&mut world, other, words);
            assert_eq!(code, Some(1), "{words:?}: {said}");
            assert!(said.contains("admin"), "the role is named: {words:?}: {said}");
        }
        let note = format!("{note} (by ops)");
        let (code, said) = run_as(&mut world, &admin, words);
        assert_eq!(code, Some(0), "{words:?}: {said}");
        assert!(said.contains(shows), "{words:?}: {said}");
        eventually(&note, || audited(&world).contains(&note));
    }
    eventually("the job is gone", || marker.alive().is_empty());
    let (_, shown) = run_as(&mut world, &alice, &["jobs", "--json"]);
    let listed: Value = serde_json::from_str(&shown).expect("JSON");
    let stopped = listed["jobs"].as_array().expect("a list").iter().find(|job| job["job"] == 2);
    assert_eq!(stopped.expect("her job")["stopped_by"], json!("operator"), "{shown}");
}
