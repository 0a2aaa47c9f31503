//! Jobs that wait for input: a call answers about a second after the prompt, with the prompt and the
//! next call.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Launch, Marker, Reply, TestServer, eventually};

/// The wait of each call: a call that waits for all of it has not seen the prompt.
const WAIT: Duration = Duration::from_secs(40);

/// Programs that ask, by how they wait for the answer, with the end of their prompt.
const PROGRAMS: [(&str, &str); 10] = [
    ("printf 'go? '; read x", "go?"),
    ("printf 'Do you want to continue? [Y/n] '; exec dd of=/dev/null", "[Y/n]"),
    ("exec python3 -q -i", ">>>"),
    ("exec python3 -c 'input(\"name? \")'", "name?"),
    ("exec python3 -W ignore -c 'import getpass; getpass.getpass(\"Password: \")'", "Password:"),
    (
        "exec python3 -c 'import select, sys; print(end=\"db=> \", flush=True); \
         select.select([sys.stdin], [], [])'",
        "db=>",
    ),
    (
        "exec python3 -c 'import select; print(end=\"(gdb) \", flush=True); \
         files = select.poll(); files.register(0, select.POLLIN); files.poll()'",
        "(gdb)",
    ),
    (
        "exec python3 -c 'import select; print(end=\"package name: \", flush=True); \
         files = select.epoll(); files.register(0, select.EPOLLIN); files.poll()'",
        "package name:",
    ),
    // Wakes now and then, as programs with a clock do.
    (
        "exec python3 -c 'import select\nprint(end=\"top: \", flush=True)\n\
         while not select.select([0], [], [], 0.05)[0]: pass'",
        "top:",
    ),
    // Another thread asks.
    (
        "exec python3 -c 'import threading; threading.Thread(target=input, args=(\"thread? \",))\
         .start()'",
        "thread?",
    ),
];

/// Programs that may be missing.
const INSTALLED: [(&str, &str, &str); 4] = [
    ("/bin/bash", "exec bash --norc -i", "bash-"),
    ("/usr/bin/gdb", "exec gdb -q -nx", "(gdb)"),
    ("/usr/bin/node", "exec node -i", ">"),
    ("/usr/bin/npm", "exec npm init", "package name:"),
];

/// Returns all programs that this machine has.
fn programs() -> Vec<(&'static str, &'static str)> {
    let installed = INSTALLED.iter().filter(|(file, ..)| Path::new(file).exists());
    PROGRAMS.into_iter().chain(installed.map(|(_, command, prompt)| (*command, *prompt))).collect()
}

/// Checks a reply about a job that waits for input.
#[track_caller]
fn check_prompt(server: &mut TestServer, command: &str, reply: &Reply, job: &Value, prompt: &str) {
    assert_eq!(job["state"], "running", "{command}: {job}");
    assert_eq!(job["waiting_for_input"], true, "{command}: {job}");
    let found = job["prompt"].as_str().unwrap_or_default();
    assert!(found.contains(prompt), "{command}: {job}");
    let hint = reply["hint"].as_str().unwrap_or_default();
    assert!(hint.starts_with(&format!("send_input(job={}, ", job["job"])), "{command}: {hint}");
    server.call("stop_jobs", json!({"jobs": [job["job"]], "grace_s": 0})).ok();
}

#[test]
fn a_prompt_in_a_terminal_ends_the_wait_of_its_call() {
    let mut server = Launch::stdio().structured().start();
    for (command, prompt) in programs() {
        let began = Instant::now();
        let arguments = json!({
            "command": command, "tty": true, "wait_s": WAIT.as_secs(),
        });
        let reply = server.call("run_command", arguments).ok();
        assert!(began.elapsed() < WAIT, "{command}: the wait was over");
        let job = reply.structured().clone();
        check_prompt(&mut server, command, &reply, &job, prompt);
    }
}

#[test]
fn a_prompt_on_a_pipe_ends_a_wait() {
    let mut server = Launch::http().structured().start();
    for (command, prompt) in programs() {
        let arguments = json!({"command": command, "wait_s": 0});
        let started = server.call("run_command", arguments).ok().job();
        let began = Instant::now();
        let arguments = json!({"jobs": [started], "wait_s": WAIT.as_secs(), "until": "never"});
        let reply = server.call("wait_jobs", arguments).ok();
        assert!(began.elapsed() < WAIT, "{command}: the wait was over");
        let job = reply.only_job().clone();
        check_prompt(&mut server, command, &reply, &job, prompt);
    }
}

#[test]
fn a_shell_prompt_is_in_the_text_of_the_reply() {
    let mut server = Launch::stdio().start();
    let arguments = json!({"command": "bash -c 'read -p \"Sure? \" x; echo got:$x'", "tty": true});
    let text = server.call("run_command", arguments).ok().text();
    let (verdict, rest) = text.split_once('\n').expect("more than a verdict");
    assert!(verdict.ends_with("waiting for input"), "{text}");
    assert!(rest.starts_with("Sure? \n→ send_input(job=1, text=\"…\\n\") answers it"), "{text}");
    // What the caller has seen is named again, so that no wait hides the question.
    let text = server.call("wait_jobs", json!({"jobs": [1]})).ok().text();
    assert!(text.contains("Sure?"), "{text}");
}

#[test]
fn a_job_that_waits_for_input_ends_a_wait_for_all_jobs() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let sleeps = server.start(&format!("sleep {marker}"));
    let asks = server.start("printf 'go? '; read x");
    let began = Instant::now();
    let arguments = json!({"jobs": [sleeps, asks], "mode": "all", "wait_s": WAIT.as_secs()});
    let reply = server.call("wait_jobs", arguments).ok();
    assert!(began.elapsed() < WAIT, "the wait was over: {}", reply.0);
    assert_eq!(reply["jobs"][1]["prompt"], "go?", "{}", reply.0);
    let hint = reply["hint"].as_str().unwrap_or_default();
    assert!(hint.starts_with(&format!("send_input(job={asks}, ")), "{hint}");
}

#[test]
fn a_job_that_does_something_else_does_not_wait_for_input() {
    let marker = Marker::new();
    const SERVER: &str = "exec python3 -c 'import select, socket; s = socket.socket(); \
        s.bind((\"127.0.0.1\", 0)); s.listen(); print(end=\"up\", flush=True); select.select([s], [], [])'";
    // Like ssh that runs a command: its last line is no prompt.
    const CLIENT: &str = "exec python3 -c 'import select, socket; s = socket.socket(); \
        s.bind((\"127.0.0.1\", 0)); s.listen(); print(\"up\", flush=True); select.select([0, s], [], [])'";
    // Like a test runner that takes keys while its tests run.
    const WORKER: &str = "(while :; do :; done) & exec python3 -c 'import select; \
        print(end=\"tests: \", flush=True); select.select([0], [], [])'";
    // Like `cargo watch`: a thread takes commands while another process builds.
    const BUILDER: &str = "exec python3 -c 'import subprocess, sys, threading; \
        threading.Thread(target=sys.stdin.read).start(); print(\"building\", flush=True); \
        subprocess.run([\"sh\", \"-c\", \"while :; do :; done\"])'";
    let mut server = Launch::stdio().structured().config("[queue]\nslots = 20\n").start();
    let sleep = format!("printf 'wait: '; sleep {marker}");
    let follow = "echo one >log; exec tail -f log";
    let computes = "printf 'build: '; while :; do :; done";
    let mut jobs = Vec::new();
    for command in [&*sleep, follow, computes, SERVER, CLIENT, WORKER, BUILDER] {
        for tty in [false, true] {
            let arguments = json!({"command": command, "tty": tty, "wait_s": 0});
            jobs.push(server.call("run_command", arguments).ok().job());
        }
    }
    // A program that gets no processor for a while looks as if it waited.
    let mut clean_replies = 0;
    eventually("none of them waits for input, in three replies in a row", || {
        let reply = server.call("wait_jobs", json!({"jobs": jobs, "wait_s": 3})).ok();
        for job in reply["jobs"].as_array().expect("jobs") {
            assert_eq!(job["state"], "running", "{job}");
        }
        let is_clean = !reply["hint"].as_str().unwrap_or_default().contains("send_input");
        clean_replies = if is_clean { clean_replies + 1 } else { 0 };
        clean_replies == 3
    });
}

#[test]
fn a_server_that_takes_commands_does_not_end_the_wait_for_its_line() {
    // Like `quarkus dev`: it is idle while it starts, and its last line is no prompt.
    const SERVER: &str = "exec python3 -c 'import sys, threading, time; \
        threading.Thread(target=sys.stdin.read).start(); print(\"starting\", flush=True); \
        time.sleep(4); print(\"ready\", flush=True); time.sleep(1000)'";
    let mut server = Launch::stdio().structured().start();
    for tty in [false, true] {
        let arguments =
            json!({"command": SERVER, "tty": tty, "until": "ready", "wait_s": WAIT.as_secs()});
        let reply = server.call("run_command", arguments).ok();
        let output = reply["output"].as_str().unwrap_or_default();
        assert!(output.contains("ready"), "tty={tty}: {}", reply.0);
    }
}

#[test]
fn a_silent_repl_on_a_pipe_is_advised_to_use_a_terminal() {
    let mut server = Launch::stdio().structured().start();
    let job = server.start("exec python3");
    let reply = server.call("wait_jobs", json!({"jobs": [job], "wait_s": WAIT.as_secs()})).ok();
    assert_eq!(reply.only_job()["waiting_for_input"], true, "{}", reply.0);
    assert!(reply["hint"].as_str().is_some_and(|hint| hint.contains("tty=true")), "{}", reply.0);
    let reply = server.call("send_input", json!({"job": job, "text": "1/0\n"})).ok();
    assert_eq!(reply["output"], "", "{}", reply.0);
    assert!(reply["hint"].as_str().is_some_and(|hint| hint.contains("tty=true")), "{}", reply.0);
    // In a terminal it needs no such advice.
    let reply = server.call("run_command", json!({"command": "exec python3 -q", "tty": true})).ok();
    assert!(!reply["hint"].as_str().is_some_and(|hint| hint.contains("tty=true")), "{}", reply.0);
    assert_eq!(reply["prompt"], ">>>", "{}", reply.0);
}
