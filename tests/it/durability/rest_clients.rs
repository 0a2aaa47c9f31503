//! Clients of the HTTP API that go on submitting jobs while the server is upgraded.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use super::client::DurableClient;
use super::disturbance::{Disturbance, Victim};
use super::random::number_from_environment;
use crate::harness::{HttpRequest, Launch, Sandbox, eventually};

const CLIENTS: usize = 8;
/// The jobs that a client leaves unchecked, so that many start while the server is replaced.
const MOST_UNCHECKED: usize = 16;

/// A job that was acknowledged.
#[derive(Debug, Clone, Copy)]
struct Submission {
    number: u64,
    job: u64,
}

impl Submission {
    /// Submits the job with this number. Every second one has no input, the others have an open one.
    #[track_caller]
    fn submit(client: &mut DurableClient, number: u64, runs: &Path) -> Self {
        let code = number % 100;
        let command =
            format!("echo {number} >> {}; echo token-{number}; exit {code}", runs.display());
        let mut request = json!({"command": command, "key": format!("rest-{number}")});
        if number.is_multiple_of(2) {
            request["stdin"] = json!("");
        }
        let state = client.request_api(&HttpRequest::post("/api/v1/jobs", &request), 202);
        Self { number, job: state["job"].as_u64().expect("a number") }
    }

    /// Waits until the job has finished, and checks its ending and its output.
    #[track_caller]
    fn check(self, client: &mut DurableClient) {
        let path = format!("/api/v1/jobs/{}?wait_s=20", self.job);
        let mut state = Value::Null;
        eventually("the job has finished", || {
            state = client.request_api(&HttpRequest::get(&path), 200);
            state["state"] == "finished"
        });
        let ending = (&state["outcome"], &state["exit_code"]);
        assert_eq!(ending, (&json!("exited"), &json!(self.number % 100)), "{self:?}: {state}");
        let output = client.read_all(self.job).1;
        assert_eq!(String::from_utf8_lossy(&output), format!("token-{}\n", self.number));
    }
}

#[test]
fn no_submission_over_the_api_is_lost_by_upgrades_in_a_row() {
    let times = number_from_environment("SHELLYARD_UPGRADES").unwrap_or(20);
    let total = number_from_environment("SHELLYARD_SUBMISSIONS").unwrap_or(400);
    let sandbox = Sandbox::new();
    let runs = sandbox.path().join("runs");
    let config = format!("[retention]\nmax_finished = {}\n", total + 1);
    let mut server = Launch::http().structured().config(&config).start();
    let (victim, address) = (Victim::new(&server), server.http().address().to_owned());
    let (next, began) = (AtomicU64::new(0), Instant::now());
    let all: Vec<Submission> = thread::scope(|scope| {
        let work = || {
            let mut client = DurableClient::new(&address);
            let mut done: Vec<Submission> = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= total {
                    return (done, client.repeated);
                }
                done.push(Submission::submit(&mut client, number, &runs));
                if done.len().is_multiple_of(MOST_UNCHECKED) {
                    let unchecked = &done[done.len() - MOST_UNCHECKED..];
                    unchecked.iter().for_each(|submission| submission.check(&mut client));
                }
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(work)).collect();
        for upgrade in 1..=times {
            let from = upgrade * total / (times + 1);
            eventually("the next upgrade is due", || {
                let is_over = clients.iter().any(thread::ScopedJoinHandle::is_finished);
                next.load(Ordering::Relaxed) >= from || is_over
            });
            victim.end_once(Disturbance::Upgrade);
        }
        let ended = clients.into_iter().map(|client| client.join().expect("each call is answered"));
        let (done, repeated): (Vec<_>, Vec<_>) = ended.unzip();
        let repeated: u64 = repeated.iter().sum();
        let seconds = began.elapsed().as_secs();
        println!("{times} upgrades in {seconds} s: {total} submissions, {repeated} calls repeated");
        done.concat()
    });
    let mut client = DurableClient::new(&address);
    all.iter().for_each(|submission| submission.check(&mut client));
    let numbers: BTreeSet<u64> = all.iter().map(|submission| submission.job).collect();
    assert_eq!(numbers.len() as u64, total, "every job has a number of its own");
    let mut ran = vec![0; usize::try_from(total).expect("it fits")];
    for line in fs::read_to_string(&runs).expect("they ran").lines() {
        ran[line.parse::<usize>().expect("a number")] += 1;
    }
    let wrong: Vec<_> = ran.iter().enumerate().filter(|(_, times)| **times != 1).collect();
    assert!(wrong.is_empty(), "every job runs once; number and count of the others: {wrong:?}");
}
