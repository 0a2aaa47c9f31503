//! Orders that the shim of a job has: input, stops and deadlines go on while the server is killed or
//! replaced.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::client::DurableClient;
use super::disturbance::{Disturbance, Victim};
use super::random::Random;
use crate::harness::{Launch, Marker, TestServer, eventually, signal};

const BOTH: [Disturbance; 2] = [Disturbance::Kill, Disturbance::Upgrade];

/// The keeper gives up when a server fails five times in a minute.
const CRASHES_PER_KEEPER: u64 = 4;

/// Waits for a file of this name, in the words of the shell.
fn wait_for(gate: &str) -> String {
    format!("while [ ! -e {gate} ]; do sleep 0.05; done")
}

#[track_caller]
fn open_gate(server: &TestServer, name: &str) {
    fs::write(server.work().join(name), "").expect("the gate opens");
}

#[test]
fn input_that_a_slow_reader_has_not_taken_is_read_to_its_end() {
    let text: String = (1..=36_000).map(|number| format!("{number}\n")).collect();
    // Three pipes full.
    assert!(text.len() > 200_000);
    let part = 12 * 4096;
    let command = format!(
        "{}; dd bs=4096 count=12 iflag=fullblock 2>/dev/null; {}; exec cat",
        wait_for("first"),
        wait_for("second")
    );
    for how in BOTH {
        for is_sent_later in [false, true] {
            let mut server = Launch::http().structured().start();
            let victim = Victim::new(&server);
            let mut arguments = json!({"command": command, "wait_s": 0});
            if !is_sent_later {
                arguments["stdin"] = json!(text);
            }
            let job = server.call("run_command", arguments).ok().job();
            if is_sent_later {
                let input = json!({"job": job, "text": text, "eof": true, "wait_s": 0});
                server.call("send_input", input).ok();
            }
            server.wait_running(job);
            victim.end_once(how);
            let mut client = DurableClient::new(server.http().address());
            open_gate(&server, "first");
            eventually("it has read a part", || client.read_all(job).1.len() == part);
            victim.end_once(how);
            open_gate(&server, "second");
            let status = client.wait_finished(job);
            assert_eq!((&status["outcome"], &status["exit_code"]), (&json!("exited"), &json!(0)));
            let (page, bytes) = client.read_all(job);
            assert!(bytes == text.as_bytes(), "{how:?}: {} bytes: {page}", bytes.len());
        }
    }
}

/// Settings with a grace period that is over long before those that the tests ask for.
const SHORT_GRACE: &str = "[job]\ngrace_s = 0.2\n";

#[test]
fn a_stop_keeps_its_grace_period_and_sends_one_signal() {
    for how in BOTH {
        let mut server = Launch::http().structured().config(SHORT_GRACE).start();
        let command = format!(
            "exec 2>/dev/null; trap 'echo term' TERM; echo ready; {}; echo clean; exit 3",
            wait_for("gate")
        );
        let job = server.start(&command);
        server.wait_written(job, 6);
        let mut client = DurableClient::new(server.http().address());
        client.stop(job, 600.0);
        eventually("it has its signal", || client.read_all(job).1 == b"ready\nterm\n");
        Victim::new(&server).end_once(how);
        // Longer than the grace period that the next server would give.
        let other = json!({"command": "sleep 1", "key": "other"});
        client.call("run_command", &other).ok();
        assert_eq!(client.status(job)["state"], "stopping", "{how:?}");
        open_gate(&server, "gate");
        let status = client.wait_finished(job);
        let cause = (&status["outcome"], &status["stopped_by"], &status["killed"]);
        assert_eq!(cause, (&json!("stopped"), &json!("client"), &json!("tree ended (SIGTERM)")));
        assert_eq!(client.read_all(job).1, b"ready\nterm\nclean\n", "{how:?}");
    }
}

#[test]
fn the_grace_period_of_a_stop_ends_although_the_server_was_ended() {
    for how in BOTH {
        let marker = Marker::new();
        let mut server = Launch::http().structured().config(SHORT_GRACE).start();
        let job = server.start(&format!("trap '' TERM; echo ready; sleep {marker}"));
        server.wait_written(job, 6);
        let mut client = DurableClient::new(server.http().address());
        client.stop(job, 4.0);
        Victim::new(&server).end_once(how);
        let status = client.wait_finished(job);
        let killed = status["killed"].as_str().expect("it was killed");
        let after = killed.strip_prefix("tree killed (SIGTERM, then SIGKILL after ");
        let after = after.and_then(|after| after.strip_suffix("s)")?.parse::<f64>().ok());
        assert!(after.is_some_and(|after| after >= 4.0), "{how:?}: {status}");
        assert_eq!(status["outcome"], "stopped", "{how:?}: {status}");
        assert_eq!(marker.alive(), Vec::<i32>::new(), "{how:?}");
    }
}

#[test]
fn a_stop_that_was_answered_is_carried_out_although_the_server_is_killed_at_once() {
    let mut random = Random::from_environment();
    let mut server = Launch::http().structured().config(SHORT_GRACE).start();
    for _ in 0..CRASHES_PER_KEEPER {
        let marker = Marker::new();
        let command =
            format!("setsid sleep {marker} & trap '' TERM; sleep {marker}; sleep {marker}");
        let mut client = DurableClient::new(server.http().address());
        let arguments = json!({"command": command, "key": marker.to_string(), "wait_s": 0});
        let job = client.call("run_command", &arguments).ok().job();
        eventually("both sleep", || marker.sleeping() >= 2);
        let inner = i32::try_from(server.server_pid()).expect("a pid fits");
        client.stop(job, 1.0);
        thread::sleep(Duration::from_micros(random.below(3_000)));
        signal(inner, Signal::KILL);
        let status = client.wait_finished(job);
        let cause = (&status["outcome"], &status["stopped_by"]);
        assert_eq!(cause, (&json!("stopped"), &json!("client")), "{status}");
        assert_eq!(marker.alive(), Vec::<i32>::new());
    }
    server.assert_alive();
}

#[test]
fn a_job_that_exits_with_0_at_its_deadline_reads_as_timed_out_although_the_server_is_killed() {
    const JOBS: u64 = 16;
    const TIMEOUT: Duration = Duration::from_millis(2_500);
    let mut random = Random::from_environment();
    let marker = Marker::new();
    let config = "[queue]\nslots = 32\n";
    let mut server = Launch::http().structured().config(config).start();
    let mut client = DurableClient::new(server.http().address());
    let command = format!("trap 'kill $!; exit 0' TERM; sleep {marker} & wait");
    for round in 0..CRASHES_PER_KEEPER {
        let inner = i32::try_from(server.server_pid()).expect("a pid fits");
        let began = Instant::now();
        let submit = |number: u64| {
            // All deadlines are at nearly the same time.
            let left = TIMEOUT.saturating_sub(began.elapsed()).max(Duration::from_millis(200));
            let key = format!("{round}-{number}");
            let timeout_s = left.as_secs_f64();
            let arguments =
                json!({"command": command, "key": key, "timeout_s": timeout_s, "wait_s": 0});
            client.call("run_command", &arguments).ok().job()
        };
        let jobs: Vec<u64> = (0..JOBS).map(submit).collect();
        let kill_at = TIMEOUT + random.millis(0, 90);
        thread::sleep((kill_at - Duration::from_millis(45)).saturating_sub(began.elapsed()));
        signal(inner, Signal::KILL);
        for job in jobs {
            let status = client.wait_finished(job);
            assert_eq!(status["outcome"], "timed_out", "round {round}: {status}");
        }
    }
    marker.wait_gone();
}
