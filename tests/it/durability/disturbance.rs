//! The ends of a server that its jobs survive.

use std::path::{Path, PathBuf};
use std::thread;

use rustix::process::Signal;

use super::random::Random;
use crate::harness::{
    Sandbox, TestServer, children_of, eventually, eventually_some, is_alive, output_of, pid_in,
    signal, text,
};

/// A way to end the server while it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disturbance {
    /// SIGKILL of the server; its keeper starts it again.
    Kill,
    /// `shellyard upgrade`, with the same program.
    Upgrade,
}

/// The server that is ended again and again.
#[derive(Debug, Clone)]
pub(super) struct Victim {
    data: PathBuf,
}

impl Victim {
    pub(super) fn new(server: &TestServer) -> Self {
        Self { data: server.data().to_owned() }
    }

    /// Ends the server so many times, at random moments.
    #[track_caller]
    pub(super) fn disturb(&self, how: Disturbance, times: u64, random: &mut Random) {
        for _ in 0..times {
            thread::sleep(random.millis(100, 1_800));
            self.end_once(how);
        }
    }

    /// Ends the server and waits for the next one.
    #[track_caller]
    pub(super) fn end_once(&self, how: Disturbance) {
        let before = self.server_pid();
        match how {
            Disturbance::Kill => signal(before, Signal::KILL),
            Disturbance::Upgrade => upgrade(&self.data),
        }
        eventually_some("the keeper starts the next server", || {
            pid_in(&self.data).filter(|pid| i32::try_from(*pid) != Ok(before))
        });
    }

    #[track_caller]
    fn server_pid(&self) -> i32 {
        let pid = eventually_some("a server runs", || pid_in(&self.data));
        i32::try_from(pid).expect("a pid fits")
    }
}

/// Runs `shellyard upgrade`, which must work.
#[track_caller]
pub(super) fn upgrade(data: &Path) {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command();
    command.args(["upgrade", "--data-dir"]).arg(data);
    let output = output_of(command, "");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// Kills the keeper, half of the times right after a crash of its server, and waits until both and all
/// shims have ended.
#[track_caller]
pub(super) fn kill_keeper(mut server: TestServer, random: &mut Random) {
    let mut below = children_of(server.pid());
    if random.below(2) == 0 {
        let inner = i32::try_from(server.server_pid()).expect("a pid fits");
        signal(inner, Signal::KILL);
        thread::sleep(random.millis(0, 60));
        // It cannot start another server between these two.
        server.signal(Signal::STOP);
        below = children_of(server.pid());
    }
    server.signal(Signal::KILL);
    server.wait_exit();
    for pid in below {
        eventually("everything below the keeper has ended", || !is_alive(pid));
    }
}

/// Kills the server and waits for the next one.
#[track_caller]
pub(super) fn crash(server: &TestServer) {
    Victim::new(server).end_once(Disturbance::Kill);
}
