//! Lists, logs, waits and stops of jobs: what they print, and what they return.

use serde_json::{Value, json};

use super::world::{ROUTES, Route, World};
use crate::harness::{
    Launch, Sandbox, SuspendedProcess, assert_fits, eventually, run_program, text,
};

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
    let colored = world.finished_job(r"printf '\033[31mred\033[0m\n'");
    for words in [&["logs", &colored][..], &["run", "--queue", "echo", "red"]] {
        let mut command = world.command(words);
        command.env("TERM", "dumb");
        let (code, shown) = crate::harness::TerminalProgram::start(command, 24, 80).finish();
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains("red") && !shown.contains('\u{1b}'), "{words:?}: {shown:?}");
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
fn watching_jobs_as_json_writes_one_line_for_each_list() {
    let mut world = World::start(Route::Socket);
    world.finished_job("echo watched");
    let mut watching = world.start_in_terminal(&["jobs", "--watch", "--json"], 80);
    let shown = watching.wait_for("]}\r\n");
    let list: Value = serde_json::from_str(shown.lines().next().expect("a line")).expect("JSON");
    assert_eq!(list["jobs"][0]["command"], "echo watched", "{shown}");
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
}

#[test]
fn a_stopped_job_has_the_exit_code_of_the_signal_that_ended_it() {
    let mut world = World::start(Route::Socket);
    for (command, flags, code) in [
        ("exec sleep 600", &[][..], 143),
        ("exec sleep 600", &["--signal", "INT"], 130),
        ("trap '' TERM; echo ready; while :; do sleep 0.1; done", &["--grace", "0.2s"], 137),
    ] {
        let job = world.running_job(&json!({"command": command}));
        if command.contains("ready") {
            eventually("the trap is set", || world.job(&job)["lines"] == 1);
        }
        let stopped = world.run(&[&["stop"], flags, &[&job]].concat());
        assert_eq!(stopped.status.code(), Some(0), "{stopped:?}");
        let waited = world.run(&["wait", &job]);
        assert_eq!(waited.status.code(), Some(code), "{command} {flags:?}: {waited:?}");
    }
}

#[test]
fn values_that_mean_nothing_are_refused_before_a_server_is_asked() {
    let sandbox = Sandbox::new();
    for words in [
        &["logs", "--tail", "2000000", "1"][..],
        &["logs", "--since", "yesterday", "1"],
        &["stop", "--signal", "FOO", "1"],
        &["run", "--queue", "--memory", "10X", "true"],
        &["run", "--processes", "few", "true"],
    ] {
        let output = run_program(&sandbox, words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        let said = text(&output.stderr);
        assert!(said.contains(": give "), "{words:?}: {said}");
    }
}

#[test]
fn output_with_a_hole_is_shown_with_a_line_about_it() {
    let mut world = World::start(Route::Socket);
    let fields = json!({"command": "seq 1 2000000", "on_large_output": "truncate", "stdin": ""});
    let job = world.submit(&fields);
    eventually("the job ends", || world.job(&job)["state"] == "finished");
    for words in [&["logs", &job][..], &["logs", "-f", &job]] {
        let output = world.run(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {:?}", output.status);
        let shown = text(&output.stdout);
        assert!(shown.starts_with("1\n2\n") && shown.ends_with("\n2000000\n"), "{words:?}");
        let said = text(&output.stderr);
        let total = world.job(&job)["total_bytes"].as_u64().expect("a number");
        let digits: String = said.chars().filter(char::is_ascii_digit).collect();
        assert_eq!(digits, (total - output.stdout.len() as u64).to_string(), "{said}");
        assert!(said.contains("bytes are missing"), "{said}");
    }
}

#[test]
fn the_last_lines_can_be_chosen_among_those_since_a_time() {
    let mut world = World::start(Route::Socket);
    let job = world.finished_job("seq 1 9");
    let output = world.run(&["logs", "--tail", "2", "--since", "1h", &job]);
    assert_eq!(text(&output.stdout), "8\n9\n", "{output:?}");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let output = world.run(&["logs", "--tail", "2", "--since", "1ms", &job]);
    assert_eq!(text(&output.stdout), "", "{output:?}");
}

#[test]
fn logs_without_following_ends_while_the_job_runs() {
    let mut world = World::start(Route::Socket);
    let job = world.running_job(&json!({"command": "echo so far; sleep 600"}));
    eventually("it has written", || world.job(&job)["lines"] == 1);
    let output = world.run(&["logs", &job]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "so far\n".to_owned()));
}

#[test]
fn a_slow_answer_is_announced_on_a_terminal() {
    let mut world = World::start(Route::Socket);
    let job = world.finished_job("echo done");
    let server = world.server.server_pid();
    for words in [&["queue"][..], &["show", &job], &["logs", &job]] {
        let suspended = SuspendedProcess::new(server);
        let mut waiting = world.start_in_terminal(words, 80);
        let label =
            if words[0] == "logs" { "reading the output" } else { "waiting for the server" };
        waiting.wait_for(label);
        drop(suspended);
        let (code, shown) = waiting.finish();
        assert_eq!(code, Some(0), "{words:?}: {shown}");
    }
}

#[test]
fn the_token_of_the_environment_does_not_go_to_the_users_own_socket() {
    let mut world = World::start_with(Route::Socket, Launch::http().guarded());
    let mut command = world.command(&["queue"]);
    command.env("SHELLYARD_TOKEN", "a-wrong-token-of-some-length");
    let output = crate::harness::output_of(command, "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
