//! SIGKILL of the server and of the keeper at random moments, under load.

use std::path::Path;

use rustix::process::Signal;

use super::disturbance::{Disturbance, Victim};
use super::load::{Load, listed_jobs};
use super::random::{Random, number_from_environment};
use crate::harness::{Era, Launch, Sandbox, TestServer, private_dir, run_program, text};

/// The keeper gives up when a server fails five times in a minute.
const CRASHES_PER_KEEPER: u64 = 4;
/// The servers that use one data directory, one after another.
const SERVERS_PER_DIRECTORY: u64 = 3;
/// The keepers that die during one run of the load, and the runs on one data directory.
const KEEPER_KILLS_PER_RUN: u64 = 3;
const RUNS_PER_DIRECTORY: u64 = 3;

/// Starts a server with few slots, so that jobs queue.
#[track_caller]
pub(super) fn start_loaded(data: &Path) -> TestServer {
    let config = "[queue]\nslots = 6\n[server]\ndrain_s = 1\n[job]\ngrace_s = 0.2\n";
    Launch::http().era(Era::Modern).structured().data(data).config(config).start()
}

/// Ends a server with SIGTERM and checks that nothing of the load is left.
#[track_caller]
pub(super) fn end_server(mut server: TestServer, load: &mut Load) {
    server.signal(Signal::TERM);
    let status = server.wait_exit();
    assert!(status.success(), "{status}: {}", server.log_text());
    load.check_ended();
}

/// Checks the load against the server of this data directory.
#[track_caller]
pub(super) fn check_server(server: &mut TestServer, load: &Load) {
    load.check_all(server.http().address());
    load.check_list(&listed_jobs(server.data()));
}

#[track_caller]
fn check_audit_log(data: &Path) {
    let log = data.join("audit.jsonl");
    let words = ["audit", "verify", log.to_str().expect("a path of ours")];
    let output = run_program(&Sandbox::new(), &words);
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("without an ending"), "the next start writes missing endings: {said}");
}

#[test]
fn a_keeper_that_is_killed_again_and_again_loses_only_what_ran_and_says_so() {
    let mut left = number_from_environment("SHELLYARD_KEEPER_KILLS").unwrap_or(3);
    let mut random = Random::from_environment();
    while left > 0 {
        let data = private_dir();
        let mut load = Load::new(Random::new(random.next()));
        let before = left;
        for _ in 0..RUNS_PER_DIRECTORY {
            let times = left.min(KEEPER_KILLS_PER_RUN);
            left -= times;
            let server = start_loaded(data.path());
            let mut last = load.run_without_keepers(server, times, || start_loaded(data.path()));
            check_server(&mut last, &load);
            end_server(last, &mut load);
        }
        let mut last = start_loaded(data.path());
        check_server(&mut last, &load);
        end_server(last, &mut load);
        check_audit_log(data.path());
        load.report(&format!("{} dead keepers", before - left));
        assert!(load.lost() <= before - left, "a crash catches at most the job that it starts");
    }
}

#[test]
fn no_job_and_no_byte_is_lost_when_the_server_is_killed_again_and_again() {
    let mut left = number_from_environment("SHELLYARD_CRASHES").unwrap_or(30);
    let mut random = Random::from_environment();
    while left > 0 {
        let data = private_dir();
        let mut load = Load::new(Random::new(random.next()));
        let before = left;
        for _ in 0..SERVERS_PER_DIRECTORY {
            let times = left.min(CRASHES_PER_KEEPER);
            left -= times;
            let mut server = start_loaded(data.path());
            let victim = Victim::new(&server);
            load.run(server.http().address(), &victim, Disturbance::Kill, times);
            check_server(&mut server, &load);
            end_server(server, &mut load);
        }
        let mut last = start_loaded(data.path());
        check_server(&mut last, &load);
        end_server(last, &mut load);
        check_audit_log(data.path());
        load.report(&format!("{} crashes", before - left));
        assert!(load.lost() <= before - left, "a crash catches at most the job that it starts");
    }
}
