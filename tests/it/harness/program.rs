//! Runs the program until it exits.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;

use rustix::process::Signal;

use super::launch::Sandbox;
use super::proc::signal;
use super::wait::DEADLINE;

/// Runs the program to its end, within the deadline.
#[track_caller]
pub(crate) fn run_program(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let mut command = sandbox.command();
    command.args(arguments);
    output_of(command, "")
}

/// Runs a command with this input to its end, within the deadline.
#[track_caller]
pub(crate) fn output_of(mut command: Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let pid = i32::try_from(child.id()).expect("a pid fits");
    child.stdin.take().expect("it was piped").write_all(input.as_bytes()).ok();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(DEADLINE) {
        Ok(output) => output.expect("a child of ours"),
        Err(error) => {
            signal(pid, Signal::KILL);
            panic!("it does not end: {error}");
        }
    }
}

/// Converts the output of a program to text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
