//! Files that would block a reader delay neither the start, nor a reload, nor a call, nor the end
//! of the server.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::process::Signal;

use crate::harness::{
    HttpConnection, HttpRequest, Launch, Sandbox, TestServer, make_fifo, run_program, text, token,
};

/// Starts a server with settings that it must refuse, and returns its error output.
#[track_caller]
fn refused_start(sandbox: &Sandbox, settings: &str) -> String {
    let config = sandbox.write("config.toml", settings);
    let (config, data) = (config.display().to_string(), sandbox.data().display().to_string());
    let serve = ["serve", "--bind", "127.0.0.1:0", "--data-dir", &data, "--config", &config];
    let output = run_program(sandbox, &serve);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    text(&output.stderr)
}

#[track_caller]
fn assert_names(said: &str, path: &Path, kind: &str) {
    assert!(said.contains(&path.display().to_string()) && said.contains(kind), "{kind}: {said}");
}

#[test]
fn a_server_refuses_to_start_with_a_blocking_file_and_names_it() {
    let sandbox = Sandbox::new();
    let fifo = sandbox.path().join("fifo");
    make_fifo(&fifo);
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a pair");
    let cert = sandbox.write("cert.pem", &made.cert.pem());
    for settings in [
        format!("[http]\ntoken_file = {fifo:?}\n"),
        format!("[http]\ntls_cert = {fifo:?}\ntls_key = {fifo:?}\n"),
        format!("[http]\ntls_cert = {cert:?}\ntls_key = {fifo:?}\n"),
        format!("[oauth]\nissuer = \"https://id.example\"\naudience = \"a\"\njwks = {fifo:?}\n"),
    ] {
        assert_names(&refused_start(&sandbox, &settings), &fifo, "FIFO");
    }
    let (socket, device) = (sandbox.path().join("socket"), sandbox.path().join("device"));
    let _listener = UnixListener::bind(&socket).expect("a socket");
    symlink("/dev/zero", &device).expect("a link of ours");
    for (path, kind) in [(&socket, "socket"), (&device, "character device")] {
        let said = refused_start(&sandbox, &format!("[http]\ntoken_file = {path:?}\n"));
        assert_names(&said, path, kind);
    }
    make_fifo(&sandbox.data().join("tokens"));
    assert_names(&refused_start(&sandbox, ""), &sandbox.data().join("tokens"), "FIFO");
}

#[test]
fn a_configuration_must_be_a_regular_file() {
    let sandbox = Sandbox::new();
    let (fifo, link) = (sandbox.path().join("fifo"), sandbox.path().join("link"));
    make_fifo(&fifo);
    let check = |path: &Path| {
        run_program(&sandbox, &["config", "check", path.to_str().expect("a path of ours")])
    };
    // `--config <(…)` and a pipe on /dev/stdin look like this.
    for path in [fifo.as_path(), Path::new("/dev/stdin")] {
        let output = check(path);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_names(&text(&output.stderr), path, "FIFO");
    }
    symlink(sandbox.write("config.toml", "[queue]\nslots = 3\n"), &link).expect("a link");
    assert!(check(&link).status.success(), "a link to a regular file is fine");
}

#[track_caller]
fn status(server: &mut TestServer, route: &str, token: &str) -> u16 {
    let mut connection = HttpConnection::open(server.http().address());
    let bearer = format!("Bearer {token}");
    connection.send(&HttpRequest::get(route).header("Authorization", &bearer));
    connection.answer().status
}

/// Atomically replaces a file with a FIFO.
fn replace_by_fifo(path: &Path) {
    let beside = path.with_extension("fifo");
    make_fifo(&beside);
    fs::rename(beside, path).expect("ours to move");
}

#[test]
fn tokens_stay_valid_while_a_fifo_replaces_their_file() {
    let mut server = Launch::http().guarded().start_silent();
    assert_eq!(status(&mut server, "/metrics", token()), 200);
    let file = server.sandbox().path().join("tokens");
    replace_by_fifo(&file);
    for _ in 0..3 {
        assert_eq!(status(&mut server, "/metrics", token()), 200, "the last tokens hold");
        assert_eq!(status(&mut server, "/metrics", "another"), 401);
    }
    assert_eq!(status(&mut server, "/healthz", "none"), 200);
    let told = "the tokens read before stay valid";
    server.expect_log(told);
    assert_eq!(
        server.log_text().matches(told).count(),
        1,
        "it is told once: {}",
        server.log_text()
    );
    let next = server.sandbox().write("next", "it-token-next-0f6a1b7c8d9e\n");
    fs::rename(next, &file).expect("ours to move");
    assert_eq!(status(&mut server, "/metrics", token()), 401);
    assert_eq!(status(&mut server, "/metrics", "it-token-next-0f6a1b7c8d9e"), 200);
    replace_by_fifo(&file);
    assert_eq!(status(&mut server, "/healthz", "none"), 200);
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
}

#[test]
fn settings_stay_in_force_while_a_fifo_replaces_their_file() {
    let mut server = Launch::http().config("[policy]\ndeny = [\"rm\"]\n").start();
    replace_by_fifo(&server.sandbox().path().join("config.toml"));
    server.signal(Signal::HUP);
    server.expect_log("reload refused, the old settings stay in force");
    assert!(server.log_text().contains("FIFO"), "{}", server.log_text());
    server.assert_alive();
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
}
