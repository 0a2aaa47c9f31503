//! Each verb: over the socket, TCP and TLS, in terminals of 80 and 40 columns, without a server, and
//! with a wrong token.

use serde_json::{Value, json};

use super::world::{ROUTES, Route, World};
use crate::harness::{Launch, Sandbox, assert_fits, eventually, run_program, text};

/// A verb, and its result on a server with jobs.
struct Case {
    /// Words with the numbers of jobs as `{done}`, `{sleeper}` and `{shell}`.
    words: &'static [&'static str],
    code: i32,
    /// A text in the output.
    shows: &'static str,
}

const fn case(words: &'static [&'static str], code: i32, shows: &'static str) -> Case {
    Case { words, code, shows }
}

/// Every verb that asks a server, in an order in which none disturbs the next.
const CASES: [Case; 17] = [
    case(&["jobs"], 0, "echo first"),
    case(&["jobs", "--json"], 0, "\"command\""),
    case(&["logs", "{done}"], 0, "first"),
    case(&["logs", "--tail", "1", "{done}"], 0, "second"),
    case(&["logs", "--grep", "^sec", "{done}"], 0, "second"),
    case(&["logs", "-f", "{done}"], 0, "first"),
    case(&["show", "{done}"], 0, "exit 3"),
    case(&["wait", "{done}"], 3, "exit 3"),
    case(&["wait", "--timeout", "1ms", "{sleeper}"], 124, "still running"),
    case(&["top", "--json"], 0, "\"jobs\""),
    case(&["run", "--queue", "sh", "-c", "echo of the queue; exit 4"], 4, "of the queue"),
    case(&["queue"], 0, "LANE"),
    case(&["pause", "--lane", "default"], 0, "paused"),
    case(&["resume", "--lane", "default"], 0, "lane default"),
    case(&["log-level"], 0, "info"),
    case(&["config", "reload"], 0, ""),
    case(&["stop", "{sleeper}"], 0, "stopped by a client"),
];

/// A server with a finished and a running job, and the numbers of both.
struct Jobs {
    world: World,
    done: String,
    sleeper: String,
}

impl Jobs {
    #[track_caller]
    fn start(way: Route) -> Self {
        let world = World::start(way);
        let done = world.finished_job("echo first; echo second; exit 3");
        let sleeper = world.running_job(&json!({"program": "sleep", "args": ["600"]}));
        Self { world, done, sleeper }
    }

    fn words(&self, case: &Case) -> Vec<String> {
        let fill =
            |word: &&str| word.replace("{done}", &self.done).replace("{sleeper}", &self.sleeper);
        case.words.iter().map(fill).collect()
    }
}

#[test]
fn every_verb_works_over_socket_tcp_and_tls() {
    for way in ROUTES {
        let mut jobs = Jobs::start(way);
        for case in &CASES {
            let words = jobs.words(case);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let output = jobs.world.run(&words);
            let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.code(), Some(case.code), "{way:?} {words:?}: {shown}");
            assert!(shown.contains(case.shows), "{way:?} {words:?}: {shown}");
            assert!(!shown.contains('\u{1b}'), "no colours in a pipe: {words:?}: {shown:?}");
            if words.contains(&"--json") {
                let parsed: Result<Value, _> = serde_json::from_slice(&output.stdout);
                assert!(parsed.is_ok(), "{words:?}: {shown}");
            }
        }
    }
}

#[test]
fn every_verb_fits_terminals_of_80_and_of_40_columns() {
    for columns in [80, 40] {
        let mut jobs = Jobs::start(Route::Socket);
        for case in &CASES {
            let words = jobs.words(case);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (code, shown) = jobs.world.start_in_terminal(&words, columns).finish();
            assert_eq!(code, Some(case.code), "{columns} {words:?}: {shown}");
            // Long texts are cut, and commands stand last.
            let start: String = case.shows.chars().take(4).collect();
            assert!(shown.contains(&start), "{columns} {words:?}: {shown}");
            let is_table = ["jobs", "show"].contains(&words[0]) && !words.contains(&"--json");
            if is_table {
                assert_fits(&shown, columns.into());
                assert!(shown.contains("\u{1b}[31m"), "a failed job is red: {shown:?}");
            }
        }
    }
}

#[test]
fn without_a_server_every_verb_says_how_to_start_one() {
    let sandbox = Sandbox::new();
    let data = sandbox.data().display().to_string();
    let others = [case(&["attach", "1"], 1, ""), case(&["stop", "1", "2"], 1, "")];
    for case in CASES.iter().chain(&others) {
        let mut words = case.words.to_vec();
        words.retain(|word| *word != "--json");
        let words: Vec<String> = words
            .iter()
            .map(|word| word.replace("{done}", "1").replace("{sleeper}", "2"))
            .collect();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        let position = if words[0] == "config" { 2 } else { 1 };
        words.splice(position..position, ["--data-dir", &data]);
        let output = run_program(&sandbox, &words);
        let code = if words[0] == "run" { 125 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        assert_eq!(text(&output.stdout), "", "{words:?}");
        let said = text(&output.stderr);
        assert!(said.contains("`shellyard serve`"), "{words:?}: {said}");
    }
}

#[test]
fn with_a_wrong_token_every_verb_says_which_one_is_needed() {
    let mut world = World::start_with(Route::Tcp, Launch::http().guarded());
    for case in &CASES {
        let words: Vec<String> = case
            .words
            .iter()
            .filter(|word| **word != "--json")
            .map(|word| word.replace("{done}", "1").replace("{sleeper}", "2"))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = world.command(&words);
        command.env("SHELLYARD_TOKEN", "a-wrong-token-of-some-length");
        let output = crate::harness::output_of(command, "");
        let code = if words[0] == "run" { 125 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("SHELLYARD_TOKEN"), "{words:?}: {said}");
        assert!(!said.contains("a-wrong-token"), "{words:?}: {said}");
    }
}

#[test]
fn an_empty_list_is_not_an_error_and_says_what_to_do() {
    let mut world = World::start(Route::Socket);
    let output = world.run(&["jobs"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()));
    let said = text(&output.stderr);
    assert!(said.contains("no jobs") && said.contains("run --queue"), "{said}");
    let output = world.run(&["logs", "7"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("there is no job 7") && said.contains("`shellyard jobs`"), "{said}");
}

#[test]
fn logs_follows_a_job_to_its_end() {
    for way in ROUTES {
        let mut world = World::start(way);
        let command = "echo one; while test ! -e go; do sleep 0.05; done; echo two >&2; echo three";
        let directory = world.sandbox().work().display().to_string();
        let job = world.running_job(
            &json!({"command": command, "directory": directory, "streams": "separate"}),
        );
        let mut following = world.start_in_terminal(&["logs", "-f", &job], 80);
        following.wait_for("one");
        std::fs::write(world.sandbox().work().join("go"), "").expect("a file of ours");
        let (code, shown) = following.finish();
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains("three") && shown.contains("exit 0"), "{way:?}: {shown}");
        let stderr = world.run(&["logs", "--stderr", &job]);
        assert_eq!(text(&stderr.stdout), "two\n", "{way:?}: {stderr:?}");
    }
}

#[test]
fn the_output_of_a_job_cannot_act_on_the_terminal() {
    let mut world = World::start(Route::Socket);
    let job = world.finished_job(r"printf 'a\033[31mred\033[0m\033[2Jb\033]0;title\007\n'");
    let (_, shown) = world.start_in_terminal(&["logs", &job], 80).finish();
    assert!(shown.contains("\u{1b}[31mred\u{1b}[0m"), "colours pass: {shown:?}");
    assert!(!shown.contains("\u{1b}[2J") && !shown.contains("\u{1b}]"), "{shown:?}");
    assert!(shown.contains("\\u{1b}[2Jb"), "{shown:?}");
    let (_, raw) = world.start_in_terminal(&["logs", "--raw", &job], 80).finish();
    assert!(raw.contains("\u{1b}[2J"), "{raw:?}");
    let piped = world.run(&["logs", &job]);
    assert!(text(&piped.stdout).contains("\u{1b}[2J"), "a pipe gets every byte: {piped:?}");
}

#[test]
fn no_color_and_a_dumb_terminal_get_no_colours() {
    let mut world = World::start(Route::Socket);
    world.finished_job("exit 3");
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let mut command = world.command(&["jobs"]);
        command.env(name, value);
        let (code, shown) = crate::harness::TerminalProgram::start(command, 24, 80).finish();
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains("exit 3") && !shown.contains('\u{1b}'), "{name}: {shown:?}");
    }
}

#[test]
fn a_long_log_goes_through_the_pager_of_the_user() {
    let mut world = World::start(Route::Socket);
    let job = world.finished_job("seq 1 500");
    let mut command = world.command(&["logs", &job]);
    command.env("PAGER", "sed 's/^/paged /'");
    let (code, shown) = crate::harness::TerminalProgram::start(command, 24, 80).finish();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("paged 1\r\n") && shown.contains("paged 500"), "{shown}");
    let piped = world.run(&["logs", &job]);
    assert!(!text(&piped.stdout).contains("paged"));
}

#[test]
fn watching_jobs_shows_what_changes() {
    let mut world = World::start(Route::Socket);
    let mut watching = world.start_in_terminal(&["jobs", "--watch"], 80);
    watching.wait_for("no jobs");
    world.finished_job("echo watched");
    let shown = watching.wait_for("echo watched");
    assert_fits(&shown, 80);
    watching.send(b"\x03");
    assert_eq!(watching.finish().0, None, "Ctrl-C ends it");
}

#[test]
fn wait_returns_the_first_code_that_is_not_0() {
    let mut world = World::start(Route::Socket);
    let [good, bad, worse] = ["true", "exit 5", "exit 6"].map(|text| world.finished_job(text));
    let output = world.run(&["wait", &good, &bad, &worse]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert_eq!(text(&output.stdout).lines().count(), 3);
    assert_eq!(world.run(&["wait", &good]).status.code(), Some(0));
    let killed = world.finished_job("kill -KILL $$");
    assert_eq!(world.run(&["wait", &killed]).status.code(), Some(137));
}

#[test]
fn stop_ends_the_tree_with_the_signal_that_was_asked_for() {
    let mut world = World::start(Route::Socket);
    let marker = crate::harness::Marker::new();
    let command = format!("trap 'echo got hup; exit 9' HUP; sleep {marker} & wait");
    let job = world.running_job(&json!({"command": command}));
    marker.wait_alive();
    let output = world.run(&["stop", "--signal", "HUP", &job]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    eventually("the tree is gone", || marker.alive().is_empty());
    assert!(text(&world.run(&["logs", &job]).stdout).contains("got hup"));
    let again = world.run(&["stop", &job]);
    assert!(text(&again.stdout).contains("had already finished"), "{again:?}");
    let odd = world.run(&["stop", "--signal", "NOTHING", &job]);
    assert_eq!(odd.status.code(), Some(1), "{odd:?}");
}
