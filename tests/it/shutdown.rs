//! Nothing outlives the server, however it ends.

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Launch, Marker, Yard, eventually};

/// Starts a job whose processes left its group, its session and its parent, and ignore SIGTERM.
#[track_caller]
fn start_stubborn(yard: &mut Yard, marker: &Marker) -> u64 {
    let job = yard.start(&format!(
        "trap '' TERM HUP; setsid sleep {marker} & (setsid sh -c 'sleep {marker}' &); sleep {marker}"
    ));
    marker.wait_alive();
    eventually("all three sleep", || marker.alive().len() >= 4);
    job
}

#[test]
fn end_of_input_ends_the_server_and_every_process() {
    let marker = Marker::new();
    let mut yard = Launch::stdio().start();
    start_stubborn(&mut yard, &marker);
    yard.stdio().hang_up();
    assert!(yard.wait_exit().success(), "hanging up is a normal end");
    assert_eq!(marker.alive(), Vec::<i32>::new(), "nothing is left once the server is gone");
}

#[test]
fn end_of_input_with_a_call_in_flight_ends_everything_too() {
    let marker = Marker::new();
    let mut yard = Launch::stdio().start();
    yard.begin("run_command", json!({"command": format!("sleep {marker}")}));
    marker.wait_alive();
    yard.stdio().hang_up();
    assert!(yard.wait_exit().success(), "hanging up is a normal end");
    assert_eq!(marker.alive(), Vec::<i32>::new(), "nothing is left once the server is gone");
}

#[test]
fn sigterm_ends_the_server_and_every_process() {
    for launch in Launch::both() {
        let marker = Marker::new();
        let mut yard = launch.start();
        start_stubborn(&mut yard, &marker);
        yard.signal(Signal::TERM);
        let status = yard.wait_exit();
        assert!(status.success(), "a wished end is no failure: {status}");
        assert_eq!(marker.alive(), Vec::<i32>::new(), "nothing is left once the server is gone");
    }
}

#[test]
fn ctrl_c_ends_the_server_and_every_process() {
    let marker = Marker::new();
    let mut yard = Launch::http().start();
    start_stubborn(&mut yard, &marker);
    yard.signal(Signal::INT);
    yard.wait_exit();
    assert_eq!(marker.alive(), Vec::<i32>::new(), "nothing is left once the server is gone");
}

#[test]
fn sigkill_of_the_server_takes_its_jobs_along() {
    for launch in Launch::both() {
        let marker = Marker::new();
        let mut yard = launch.start();
        start_stubborn(&mut yard, &marker);
        yard.signal(Signal::KILL);
        yard.wait_exit();
        marker.wait_gone();
    }
}

#[test]
fn a_survivor_of_a_finished_job_ends_with_the_server() {
    let marker = Marker::new();
    let mut yard = Launch::stdio().start();
    yard.run(&format!("setsid sleep {marker} & echo done"));
    marker.wait_alive();
    yard.stdio().hang_up();
    yard.wait_exit();
    assert_eq!(marker.alive(), Vec::<i32>::new(), "nothing is left once the server is gone");
}
