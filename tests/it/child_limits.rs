//! Limits and scores that a job gets from its server.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::harness::{Launch, Marker, TestServer, eventually, eventually_some, oom_score_of};

/// The difference between the out-of-memory scores of a job and of its server.
const MORE: i32 = 300;

/// The highest score that the kernel takes.
const HIGHEST: i32 = 1000;

/// Lets calls choose among all profiles, and all jobs of a test run at one time.
const UNCONFINED: &str = "[confinement]\nprofile = \"none\"\n[queue]\nslots = 64\n";

/// The score that jobs of a server should have which these tests start.
fn expected_score() -> i32 {
    let own = oom_score_of(std::process::id());
    (own.expect("the kernel has scores") + MORE).min(HIGHEST)
}

#[test]
fn every_job_has_a_higher_score_than_its_server_when_memory_is_short() {
    const JOBS: usize = 20;
    let expected = expected_score();
    for launch in [Launch::http(), Launch::http().unprivileged()] {
        let mut server = launch.structured().config(UNCONFINED).start();
        for profile in ["none", "default", "workspace-write"] {
            let marker = Marker::new();
            let command = format!("exec sleep {marker}");
            let arguments = json!({"command": command, "confinement": profile, "wait_s": 0});
            let mut start = || server.call("run_command", arguments.clone()).ok().job();
            let jobs: Vec<u64> = (0..JOBS).map(|_| start()).collect();
            eventually("every job sleeps", || marker.sleeping() == JOBS);
            let sleeping = marker.alive().into_iter();
            let scores: Vec<_> = sleeping.map(|pid| oom_score_of(pid.unsigned_abs())).collect();
            assert_eq!(scores, [Some(expected); JOBS], "{profile}");
            server.call("stop_jobs", json!({"jobs": jobs, "grace_s": 0})).ok();
            marker.wait_gone();
        }
    }
}

#[test]
fn every_job_has_its_score_from_its_first_instruction_on() {
    const ROUNDS: usize = 6;
    const PARALLEL: usize = 6;
    // The shell itself, and a child that it forks at once.
    let commands = [
        "read -r score </proc/self/oom_score_adj; echo $score",
        "cat /proc/self/oom_score_adj & wait",
    ];
    let expected = format!("{}\n", expected_score());
    for launch in [Launch::stdio(), Launch::stdio().unprivileged()] {
        let mut shellyard = launch.structured().config(UNCONFINED).start();
        let ours = [shellyard.server_pid(), shellyard.keeper_pid()];
        let own = ours.map(oom_score_of);
        for profile in ["none", "default", "workspace-write"] {
            for (command, calls) in commands.into_iter().flat_map(|it| [(it, 1), (it, PARALLEL)]) {
                let arguments = json!({"command": command, "confinement": profile});
                for _ in 0..ROUNDS {
                    let outputs = outputs_of(&mut shellyard, &arguments, calls);
                    assert_eq!(outputs, vec![expected.clone(); calls], "{profile}: {command}");
                    assert_eq!(ours.map(oom_score_of), own, "server and keeper are as before");
                }
            }
        }
    }
}

/// The outputs of so many jobs that are started at one time.
fn outputs_of(server: &mut TestServer, arguments: &Value, calls: usize) -> Vec<String> {
    let begin = |_| server.begin("run_command", arguments.clone());
    let calls: Vec<u64> = (0..calls).map(begin).collect();
    let output = |call| server.finish(call).ok()["output"].as_str().unwrap_or_default().to_owned();
    calls.into_iter().map(output).collect()
}

#[test]
fn a_hard_limit_that_is_lowered_while_the_server_runs_holds_for_its_jobs() {
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let same_user: &[&str] = if geteuid().is_root() { &nobody } else { &[] };
    for (launch, user) in [(Launch::stdio(), &[][..]), (Launch::stdio().unprivileged(), same_user)]
    {
        let mut shellyard = launch.structured().config(UNCONFINED).start();
        for most in ["200", "150"] {
            let (limit, server) =
                (format!("--nofile={most}:{most}"), shellyard.server_pid().to_string());
            let words = user.iter().copied().chain(["prlimit", &limit, "--pid", &server]);
            let lowered = Command::new("env").args(words).status().expect("env runs");
            assert!(lowered.success());
            for profile in ["none", "default", "workspace-write"] {
                let command = "ulimit -Sn; ulimit -Hn";
                let arguments = json!({"command": command, "confinement": profile});
                let reply = shellyard.call("run_command", arguments).ok();
                let output = reply["output"].as_str().unwrap_or_default();
                assert_eq!(output, format!("{most}\n{most}\n"), "{profile}: {}", reply.0);
            }
        }
    }
}

#[test]
fn a_pipeline_runs_under_a_limit_below_the_number_of_its_report() {
    let mut shellyard = Launch::stdio().structured().config(UNCONFINED).start();
    set_open_files(&shellyard, "60:60");
    let reply =
        shellyard.call("run_command", json!({"command": "ulimit -Hn; echo a | cat; (exit 3)"}));
    assert_eq!(
        (&reply["output"], &reply["exit_code"]),
        (&json!("60\na\n"), &json!(3)),
        "{}",
        reply.0
    );
}

/// Changes the soft and the hard limit of a server that runs.
fn set_open_files(server: &TestServer, limits: &str) {
    let (limits, server) = (format!("--nofile={limits}"), server.server_pid().to_string());
    let changed = Command::new("prlimit").args([&limits, "--pid", &server]).status();
    assert!(changed.expect("prlimit runs").success(), "{limits}");
}

/// More jobs than a server that may have 64 open files can run at one time.
const TOO_MANY: usize = 20;

/// Starts jobs that run until the returned file exists, more than a low limit has descriptors for.
/// Returns those that wait for descriptors, too.
fn start_too_many(server: &mut TestServer) -> (PathBuf, Vec<u64>, Vec<u64>) {
    let gate = server.work().join("gate");
    let mut jobs = Vec::new();
    let mut waiting = Vec::new();
    for number in 0..TOO_MANY {
        let command =
            format!("until [ -e {} ]; do sleep 0.1; done; echo end {number}", gate.display());
        let reply = server.call("run_command", json!({"command": command, "wait_s": 0})).ok();
        jobs.push(reply.job());
        if reply.verdict().contains("the server is short of file descriptors") {
            waiting.push(reply.job());
        }
    }
    assert!(!waiting.is_empty() && waiting.len() < jobs.len(), "{waiting:?} of {jobs:?} wait");
    (gate, jobs, waiting)
}

/// Waits until each of these jobs has ended as it should.
#[track_caller]
fn expect_ends(server: &mut TestServer, jobs: &[u64]) {
    for (number, job) in jobs.iter().enumerate() {
        let wait = json!({"jobs": [job], "wait_s": 20, "cursor": "bytes:0"});
        let text = eventually_some("the job ends", || {
            let text = server.call("wait_jobs", wait.clone()).ok().text();
            (!text.starts_with("queued") && !text.starts_with("running")).then_some(text)
        });
        let is_as_expected = text.contains("exit 0") && text.contains(&format!("end {number}"));
        assert!(is_as_expected, "job {job}: {text}");
    }
}

#[test]
fn jobs_wait_while_the_server_is_short_of_descriptors() {
    const POLICY: &str = "[policy]\ndeny = [\"touch\"]\n";
    for policy in ["", POLICY] {
        for launch in Launch::both() {
            let config = format!("{UNCONFINED}{policy}");
            let mut server = launch.config(&config).start();
            assert!(server.run("echo before").verdict().contains("exit 0"));
            set_open_files(&server, "64:64");
            let (gate, jobs, _) = start_too_many(&mut server);
            let listed = server.call("list_jobs", json!({"state": "queued"})).ok().text();
            assert!(listed.contains("short of file descriptors"), "{listed}");
            fs::write(&gate, "").expect("it is written");
            expect_ends(&mut server, &jobs);
            let after = server.run("echo after");
            assert!(after.verdict().contains("exit 0"), "{}", after.text());
        }
    }
}

#[test]
fn a_job_that_would_wait_for_descriptors_is_refused_in_a_lane_where_none_may_wait() {
    let marker = Marker::new();
    let config = format!("{UNCONFINED}[queue.lanes.now]\nmax_queued = 0\n");
    let mut server = Launch::stdio().config(&config).start();
    set_open_files(&server, "64:");
    let arguments = json!({"command": format!("sleep {marker}"), "lane": "now", "wait_s": 0});
    let refused = (0..TOO_MANY).find_map(|_| {
        let reply = server.call("run_command", arguments.clone());
        if reply.is_error() {
            return Some(reply.error_text());
        }
        assert!(!reply.verdict().starts_with("queued"), "{}", reply.text());
        None
    });
    let said = refused.expect("there are not descriptors for all");
    assert!(said.contains("lane now is full (queue.lanes.now.max_queued)"), "{said}");
}

#[test]
fn jobs_that_wait_for_descriptors_start_when_the_limit_is_raised() {
    let mut server = Launch::stdio().config(UNCONFINED).start();
    set_open_files(&server, "64:");
    let (gate, jobs, _) = start_too_many(&mut server);
    set_open_files(&server, "1024:");
    eventually("all run, although none has ended", || {
        let listed = server.call("list_jobs", json!({})).ok().verdict();
        listed.contains(&format!("{TOO_MANY} running")) && listed.contains("0 queued")
    });
    fs::write(&gate, "").expect("it is written");
    expect_ends(&mut server, &jobs);
}
