//! Messages to the service manager (`sd_notify`).

use std::os::unix::net::UnixDatagram;
use std::time::Instant;

use rustix::process::Signal;

use super::disturbance::upgrade;
use crate::harness::{DEADLINE, Launch, TestServer, private_dir};

/// The socket of a service manager.
#[derive(Debug)]
struct ServiceManager {
    socket: UnixDatagram,
    heard: String,
}

impl ServiceManager {
    /// Waits for a message with this line.
    #[track_caller]
    fn expect(&mut self, line: &str) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {line}: {:?}", self.heard);
            self.socket.set_read_timeout(Some(left)).expect("a socket of ours");
            let mut buffer = [0; 4096];
            let Ok(length) = self.socket.recv(&mut buffer) else { continue };
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            self.heard += &format!("{message}\n");
            if message.lines().any(|it| it == line) {
                return;
            }
        }
    }
}

/// Starts a server below a service manager.
#[track_caller]
fn start() -> (TestServer, ServiceManager, tempfile::TempDir) {
    let dir = private_dir();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket of ours");
    let mut manager = ServiceManager { socket, heard: String::new() };
    let launch = Launch::http().structured().env("NOTIFY_SOCKET", path.to_str().expect("a path"));
    let server = launch.env("WATCHDOG_USEC", "2000000").start();
    manager.expect("READY=1");
    (server, manager, dir)
}

#[test]
fn the_service_manager_hears_of_ready_reloading_watchdog_and_stopping() {
    let (mut server, mut manager, _dir) = start();
    manager.expect("WATCHDOG=1");
    upgrade(server.data());
    manager.expect("RELOADING=1");
    manager.expect("READY=1");
    manager.expect("WATCHDOG=1");
    server.signal(Signal::TERM);
    manager.expect("STOPPING=1");
    assert!(server.wait_exit().success());
}

#[test]
fn jobs_cannot_speak_to_the_service_manager() {
    let (mut server, _manager, _dir) = start();
    let reply = server.run("echo \"${NOTIFY_SOCKET-none}\"");
    assert_eq!(reply["output"], "none\n");
}
