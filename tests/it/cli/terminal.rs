//! `attach`, `top` and `run` in a terminal: keys reach the job, and the terminal is restored.

use rustix::process::Signal;
use serde_json::json;

use super::world::{ROUTES, Route, World};
use crate::harness::{
    Marker, Sandbox, TerminalProgram, assert_fits, eventually, in_terminal, output_of, text,
};

/// A shell in a terminal, which says the size of its terminal when it changes.
const SHELL: &str = "trap 'stty size' WINCH; echo ready; while read line; do echo \"got $line\"; \
                     test \"$line\" = end && exit 7; done";

#[test]
fn attach_types_into_a_job_and_returns_its_exit_code() {
    for way in ROUTES {
        let mut world = World::start(way);
        let job = world.running_job(&json!({"command": SHELL, "terminal": true}));
        let mut attached = world.start_in_terminal(&["attach", &job], 80);
        attached.wait_for("ready");
        eventually("keys go to the job", || attached.is_raw());
        attached.send(b"hello\r");
        attached.wait_for("got hello");
        attached.send(b"end\r");
        let (code, shown) = attached.finish();
        assert_eq!(code, Some(7), "{way:?}: {shown}");
        assert!(!attached.is_raw(), "{way:?}: the terminal is restored");
    }
}

#[test]
fn attach_detaches_with_keys_and_the_job_goes_on() {
    let mut world = World::start(Route::Socket);
    let job = world.running_job(&json!({"command": SHELL, "terminal": true}));
    for (flags, keys) in [(&[][..], &b"\x10\x11"[..]), (&["--detach-keys", "ctrl-]"], b"\x1d")] {
        let words = [&["attach"], flags, &[&job]].concat();
        let mut attached = world.start_in_terminal(&words, 80);
        attached.wait_for("ready");
        eventually("keys go to the job", || attached.is_raw());
        attached.send(keys);
        let (code, shown) = attached.finish();
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains("detached from job"), "{shown}");
        assert!(!attached.is_raw());
    }
    assert_eq!(world.job(&job)["state"], "running");
}

#[test]
fn attach_passes_the_size_of_the_terminal_on() {
    let mut world = World::start(Route::Socket);
    let job = world.running_job(&json!({"command": SHELL, "terminal": true}));
    let mut attached = world.start_in_terminal(&["attach", &job], 40);
    attached.wait_for("ready");
    for (rows, columns) in [(24, 40), (30, 100)] {
        // It has the first of them from its start.
        attached.resize(rows, columns);
        eventually("the size arrives", || {
            // The shell runs its trap after the next line, and the size may come after a line.
            attached.send(b"x\r");
            attached.text().contains(&format!("{rows} {columns}"))
        });
    }
}

#[test]
fn a_signal_ends_attach_and_restores_the_terminal() {
    let mut world = World::start(Route::Socket);
    let job = world.running_job(&json!({"command": SHELL, "terminal": true}));
    let mut attached = world.start_in_terminal(&["attach", &job], 80);
    eventually("keys go to the job", || attached.is_raw());
    attached.signal(Signal::TERM);
    assert_eq!(attached.finish().0, Some(143));
    assert!(!attached.is_raw());
    assert_eq!(world.job(&job)["state"], "running");
}

#[test]
fn attach_without_a_terminal_passes_lines_on() {
    let mut world = World::start(Route::Socket);
    let job = world.running_job(&json!({"command": "while read x; do echo \"got $x\"; done"}));
    let command = world.command(&["attach", &job]);
    let output = output_of(command, "one\ntwo\n");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stdout), "got one\ngot two\n", "{output:?}");
    let output = world.run(&["attach", &job]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(&format!("`shellyard logs {job}`")), "{output:?}");
}

#[test]
fn top_shows_stops_and_reads_jobs_in_80_and_40_columns() {
    for (way, columns) in [(Route::Socket, 80), (Route::Tls, 40)] {
        let mut world = World::start(way);
        let marker = Marker::new();
        let command = format!("echo from the log; sleep {marker}");
        let job = world.running_job(&json!({"command": command}));
        let mut top = world.start_in_terminal(&["top"], columns);
        top.wait_for("running 1");
        top.wait_for("echo");
        assert!(top.is_raw());
        top.send(b"l");
        top.wait_for("from the log");
        top.wait_for(&format!("output of {job}"));
        top.send(b"q/nothing\r");
        top.wait_for("no job matches");
        top.send(b"\x1bs");
        top.wait_for("sort: active");
        top.send(b"x");
        top.wait_for(&format!("stop job {job}? y/n"));
        assert!(!marker.alive().is_empty(), "not yet confirmed");
        top.send(b"y");
        eventually("the job is stopped", || marker.alive().is_empty());
        top.send(b"q");
        let (code, shown) = top.finish();
        assert_eq!(code, Some(0), "{shown:?}");
        assert_fits(&shown, columns.into());
        assert!(shown.contains("\u{1b}[?1049h") && shown.trim_end().ends_with("\u{1b}[?1049l"));
        assert!(!top.is_raw(), "the terminal is restored");
    }
}

#[test]
fn a_signal_ends_top_and_restores_the_terminal() {
    let mut world = World::start(Route::Socket);
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut top = world.start_in_terminal(&["top"], 80);
        top.wait_for("no jobs");
        top.signal(signal);
        let (ended, shown) = top.finish();
        assert_eq!(ended, Some(code), "{shown:?}");
        assert!(shown.trim_end().ends_with("\u{1b}[?1049l"), "{shown:?}");
        assert!(!top.is_raw());
    }
    let piped = world.run(&["top"]);
    assert_eq!(piped.status.code(), Some(1));
    assert!(text(&piped.stderr).contains("needs a terminal"), "{piped:?}");
}

/// Starts `shellyard run …` in a terminal, without a server.
fn run_in_terminal(sandbox: &Sandbox, words: &[&str]) -> TerminalProgram {
    let mut command = sandbox.command_through(in_terminal());
    command.env("TERM", "xterm").args(words);
    TerminalProgram::start(command, 33, 77)
}

#[test]
fn run_gives_the_program_a_terminal_that_gets_the_same_size() {
    let sandbox = Sandbox::new();
    let data = sandbox.data().display().to_string();
    let script = "test -t 0 && test -t 1 && echo the size is $(stty size); read line; \
                  echo \"got $line\"; exit 5";
    let mut run = run_in_terminal(&sandbox, &["run", "--data-dir", &data, "sh", "-c", script]);
    run.wait_for("the size is 33 77");
    run.send(b"typed\r");
    let (code, shown) = run.finish();
    assert_eq!(code, Some(5), "{shown}");
    assert!(shown.contains("got typed"), "{shown}");
    assert!(!run.is_raw(), "the terminal is restored");
    let words =
        ["run", "--data-dir", &data, "--no-terminal", "sh", "-c", "test -t 1 || echo plain"];
    assert!(run_in_terminal(&sandbox, &words).finish().1.contains("plain"));
}

#[test]
fn run_passes_ctrl_c_on_and_says_what_killed_the_command() {
    let sandbox = Sandbox::new();
    let data = sandbox.data().display().to_string();
    let words = ["run", "--data-dir", &data, "sh", "-c", "echo ready; exec sleep 600"];
    let mut run = run_in_terminal(&sandbox, &words);
    run.wait_for("ready");
    eventually("keys go to the command", || run.is_raw());
    run.send(b"\x03");
    let (code, shown) = run.finish();
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("killed by SIGINT"), "{shown}");
}

#[test]
fn ctrl_c_ends_a_run_whose_job_is_queued() {
    let mut world = World::start(Route::Socket);
    assert!(world.run(&["pause"]).status.success());
    let mut run = world.start_in_terminal(&["run", "--queue", "touch", "made"], 80);
    run.wait_for("is queued");
    assert!(!run.is_raw(), "keys are still those of the user's terminal");
    run.send(b"\x03");
    let (code, shown) = run.finish();
    assert_ne!(code, Some(0), "{shown}");
    assert!(world.run(&["resume"]).status.success());
    assert_eq!(world.job("1")["outcome"], "stopped");
    assert!(!world.sandbox().work().join("made").exists());
}

#[test]
fn a_queued_run_has_a_terminal_and_is_stopped_by_a_signal() {
    for way in ROUTES {
        let mut world = World::start(way);
        let script = "test -t 1 && echo the size is $(stty size); read line; \
                      echo \"got $line\"; exit 6";
        let words = ["run", "--queue", "--lane", "build", "sh", "-c", script];
        let mut run = world.start_in_terminal(&words, 80);
        run.wait_for("the size is 24 80");
        run.send(b"typed\r");
        let (code, shown) = run.finish();
        assert_eq!(code, Some(6), "{way:?}: {shown}");
        assert!(shown.contains("got typed"), "{shown}");
    }
    let mut world = World::start(Route::Socket);
    let marker = Marker::new();
    let seconds = marker.to_string();
    let mut run = world.start_in_terminal(&["run", "-q", "sleep", &seconds], 80);
    marker.wait_alive();
    run.signal(Signal::TERM);
    let (code, shown) = run.finish();
    assert_eq!(code, Some(143), "{shown}");
    assert!(shown.contains("stopped by"), "{shown}");
    eventually("the command is gone", || marker.alive().is_empty());
}

#[test]
fn a_queued_run_takes_input_keys_and_detaches() {
    let mut world = World::start(Route::Socket);
    let output = output_of(world.command(&["run", "-q", "cat"]), "piped\n");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "piped\n".to_owned()));
    let words = ["run", "-q", "-d", "--key", "once", "sh", "-c", "echo x >> ran; exit 2"];
    let [first, second] = [(); 2].map(|()| text(&world.run(&words).stdout));
    assert_eq!(first, second, "the same key is the same job");
    assert_eq!(world.run(&["wait", first.trim()]).status.code(), Some(2));
    let ran = std::fs::read_to_string(world.sandbox().work().join("ran"));
    assert_eq!(ran.expect("it ran here"), "x\n");
}
