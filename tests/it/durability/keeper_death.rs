//! The keeper is killed, alone or together with the server.

use rustix::process::Signal;

use super::client::DurableClient;
use super::disturbance::crash;
use crate::harness::{
    HttpConnection, HttpRequest, Launch, Marker, TestServer, eventually, is_alive, private_dir,
    signal,
};

/// Starts a job whose processes left its session.
#[track_caller]
fn start_detached(server: &mut TestServer, marker: &Marker) -> u64 {
    let command = format!("setsid sleep {marker} & (setsid sleep {marker} &); sleep {marker}");
    let job = server.start(&command);
    eventually("all three sleep", || marker.sleeping() >= 3);
    job
}

/// Checks what the next server says of a job that ended with its keeper.
#[track_caller]
fn check_next(server: &mut TestServer, ended: u64, outcomes: &[&str], finished: u64) {
    let mut client = DurableClient::new(server.http().address());
    let status = client.status(ended);
    let outcome = status["outcome"].as_str().expect("it has ended");
    assert!(outcomes.contains(&outcome), "{status}");
    assert_eq!(client.read_all(finished).1, b"kept\n");
    server.assert_alive();
}

#[test]
fn a_keeper_that_is_killed_takes_the_server_and_all_jobs_along() {
    for has_crashed in [false, true] {
        let (data, marker) = (private_dir(), Marker::new());
        let mut server = Launch::http().structured().data(data.path()).start();
        let finished = server.run("echo kept").job();
        let job = start_detached(&mut server, &marker);
        if has_crashed {
            // The jobs are those of an earlier server then.
            crash(&server);
        }
        let inner = server.server_pid();
        assert_ne!(inner, server.pid(), "the keeper is a process of its own");
        server.signal(Signal::KILL);
        server.wait_exit();
        marker.wait_gone();
        eventually("the server ends itself", || !is_alive(inner));
        let mut next = Launch::http().structured().data(data.path()).start();
        // The server may have had the time to record what it did.
        check_next(&mut next, job, &["stopped", "lost"], finished);
    }
}

#[test]
fn all_jobs_end_when_both_are_killed_and_the_next_server_says_so() {
    for has_crashed in [false, true] {
        let (data, marker) = (private_dir(), Marker::new());
        let mut server = Launch::http().structured().data(data.path()).start();
        let finished = server.run("echo kept").job();
        let job = start_detached(&mut server, &marker);
        if has_crashed {
            crash(&server);
        }
        server.kill_with_keeper();
        marker.wait_gone();
        let mut next = Launch::http().structured().data(data.path()).start();
        check_next(&mut next, job, &["lost"], finished);
    }
}

#[test]
fn signals_that_the_keeper_does_not_use_end_nothing_and_sigterm_drains() {
    let mut server = Launch::http().structured().config("[server]\ndrain_s = 200\n").start();
    let job = server.start("echo up; while [ ! -e gate ]; do sleep 0.05; done; exit 5");
    server.wait_written(job, 3);
    let inner = server.server_pid();
    let unused = [
        Signal::USR1,
        Signal::ALARM,
        Signal::IO,
        Signal::VTALARM,
        Signal::PROF,
        Signal::XCPU,
        Signal::XFSZ,
        Signal::SYS,
        Signal::PIPE,
        Signal::TTIN,
        Signal::TSTP,
        Signal::WINCH,
    ];
    for wanted in unused {
        server.signal(wanted);
        assert_eq!(server.run(&format!("echo after {wanted:?}"))["exit_code"], 0);
    }
    assert_eq!(server.server_pid(), inner, "the server is the same");
    server.signal(Signal::TERM);
    eventually("it drains", || {
        let mut connection = HttpConnection::open(server.http().address());
        connection.send(&HttpRequest::get("/readyz"));
        connection.answer().status == 503
    });
    let mut client = DurableClient::new(server.http().address());
    assert_eq!(client.status(job)["state"], "running", "it has its time");
    std::fs::write(server.work().join("gate"), "").expect("the gate opens");
    assert!(server.wait_exit().success());
}

#[test]
fn a_server_without_a_journal_ends_with_its_keeper() {
    let marker = Marker::new();
    let config = "[server]\ndurability = \"off\"\n";
    let mut server = Launch::http().structured().config(config).start();
    start_detached(&mut server, &marker);
    let keeper = server.own_keeper_pid();
    assert_eq!(server.server_pid(), server.pid(), "the keeper is its child");
    signal(i32::try_from(keeper).expect("a pid fits"), Signal::KILL);
    server.expect_log("was killed; all jobs were ended");
    assert!(!server.wait_exit().success(), "its service manager starts it again");
    marker.wait_gone();
}
