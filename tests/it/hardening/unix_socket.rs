//! The unix socket: for programs of the same user, with no token and no port.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::{
    HttpConnection, HttpRequest, Launch, Sandbox, TestServer, eventually, run_program, text,
};

use super::run_command;

fn usual(server: &TestServer) -> PathBuf {
    server.sandbox().data().join("shellyard.sock")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[track_caller]
fn status_of(path: &Path, request: &HttpRequest) -> u16 {
    let mut connection = HttpConnection::open_unix(path);
    connection.send(request);
    connection.answer().status
}

/// A server that listens only on a unix socket. Killed on drop.
struct SocketServer(Child);

impl Drop for SocketServer {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn serve_on_socket(sandbox: &Sandbox) -> SocketServer {
    let mut command = sandbox.command();
    command.args(["serve", "--bind", "none", "--data-dir"]).arg(sandbox.data());
    command.stdin(Stdio::null()).stderr(Stdio::null());
    SocketServer(command.spawn().expect("the binary starts"))
}

#[test]
fn the_socket_is_private_and_removed_with_the_server() {
    let mut server = Launch::http().start();
    let path = usual(&server);
    assert_eq!(mode(&path), 0o600);
    assert!(server.log_text().contains("shellyard.sock"), "the log says where it is");
    assert_eq!(status_of(&path, &HttpRequest::get("/healthz")), 200);
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    assert!(!path.exists());
}

#[test]
fn the_socket_needs_no_token_and_accepts_any_host() {
    let mut server = Launch::http().guarded().start_silent();
    let path = usual(&server);
    let mut connection = HttpConnection::open_unix(&path);
    connection.send(&run_command("echo over-the-socket").header("Host", "whatever.example"));
    let mut answer = connection.answer();
    assert_eq!(answer.status, 200);
    assert!(answer.message().expect("an answer").to_string().contains("over-the-socket"));
    let wrong = HttpRequest::get("/metrics").header("Authorization", "Bearer wrong");
    assert_eq!(status_of(&path, &wrong), 401, "who shows a token shows a right one");
    let page = HttpRequest::get("/metrics").header("Origin", "https://evil.example");
    assert_eq!(status_of(&path, &page), 403);
    assert_eq!(
        super::status_of(&mut server, &HttpRequest::get("/metrics")),
        401,
        "the port is guarded"
    );
}

#[test]
fn the_socket_of_a_killed_server_is_replaced() {
    let sandbox = Sandbox::new();
    let path = sandbox.data().join("shellyard.sock");
    for _ in 0..2 {
        let server = serve_on_socket(&sandbox);
        eventually("it answers", || std::os::unix::net::UnixStream::connect(&path).is_ok());
        assert_eq!(status_of(&path, &HttpRequest::get("/readyz")), 200);
        drop(server);
        assert!(path.exists(), "SIGKILL leaves the file");
        // A process that the server was just creating holds its files a moment longer.
        eventually("nobody listens", || std::os::unix::net::UnixStream::connect(&path).is_err());
    }
}

#[test]
fn the_socket_of_a_running_server_is_not_replaced() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("mine.sock");
    let config = format!("[http]\nsocket = {path:?}\n");
    let _first = Launch::http().config(&config).start();
    let sandbox = Sandbox::new();
    let file = sandbox.write("second.toml", &config).display().to_string();
    let data = sandbox.data().display().to_string();
    let serve = ["serve", "--bind", "127.0.0.1:0", "--data-dir", &data, "--config", &file];
    let output = run_program(&sandbox, &serve);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("mine.sock") && said.contains("http.socket"), "{said}");
    assert_eq!(status_of(&path, &HttpRequest::get("/healthz")), 200, "the first one goes on");
}

#[test]
fn a_second_server_starts_without_the_default_socket_and_logs_it() {
    let sandbox = Sandbox::new();
    let _live = UnixListener::bind(sandbox.data().join("shellyard.sock")).expect("a socket");
    let mut command = sandbox.command();
    command.args(["serve", "--bind", "127.0.0.1:0", "--data-dir"]).arg(sandbox.data());
    let log = sandbox.path().join("log");
    command.stdin(Stdio::null()).stderr(fs::File::create(&log).expect("a file of ours"));
    let _server = SocketServer(command.spawn().expect("the binary starts"));
    eventually("it has started", || {
        fs::read_to_string(&log).is_ok_and(|said| said.contains("server started"))
    });
    let said = fs::read_to_string(&log).expect("a log");
    assert!(said.contains("unix socket not available"), "{said}");
}

#[test]
fn a_server_may_listen_only_on_a_socket_but_must_listen_somewhere() {
    let sandbox = Sandbox::new();
    let off = sandbox.write("off.toml", "[http]\nsocket = \"none\"\n").display().to_string();
    let data = sandbox.data().display().to_string();
    let serve = ["serve", "--bind", "none", "--data-dir", &data, "--config", &off];
    let output = run_program(&sandbox, &serve);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("nowhere to listen"), "{}", text(&output.stderr));
    let server = Launch::http().config("[http]\nsocket = \"none\"\n").start();
    assert!(!usual(&server).exists());
}
