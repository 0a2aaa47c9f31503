//! The private socket of each server on standard input and output.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::json;

use super::{ApiAddress, ApiCaller};
use crate::harness::{
    HttpRequest, Launch, Marker, TestServer, eventually, output_of, private_dir, text,
    without_privileges,
};

fn socket_of(server: &TestServer) -> PathBuf {
    server.data().join(format!("servers/{}.sock", server.pid()))
}

/// A caller of the server's own user, once the socket is there.
#[track_caller]
fn caller(server: &TestServer) -> ApiCaller {
    let path = socket_of(server);
    eventually("the socket is there", || std::os::unix::net::UnixStream::connect(&path).is_ok());
    ApiCaller::new(ApiAddress::Unix(path))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

fn sockets(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data.join("servers")).expect("a directory");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn the_own_user_sees_and_stops_the_jobs_of_an_editor() {
    let mut server = Launch::stdio().structured().start();
    let caller = caller(&server);
    assert_eq!(mode(&socket_of(&server)), 0o600);
    assert_eq!(mode(&server.data().join("servers")), 0o700);
    let (status, described) = caller.get("/server");
    assert_eq!((status, &described["kind"]), (200, &json!("stdio")));
    assert_eq!(described["pid"], server.pid());
    assert_eq!(described["directory"], server.work().to_str().expect("a path"));
    assert_eq!(
        (&described["client"], &described["client_version"]),
        (&json!("it"), &json!("1.0.0"))
    );
    let marker = Marker::new();
    let job = server.start(&format!("echo begun; sleep {marker}"));
    marker.wait_alive();
    assert_eq!(caller.get("/jobs").1["jobs"][0]["job"], job);
    assert_eq!(caller.read(&format!("/jobs/{job}/output?tail=1")), "begun\n");
    assert_eq!(caller.post(&format!("/jobs/{job}/stop"), &json!({})).0, 200);
    marker.wait_gone();
    assert_eq!(caller.wait_finished(job)["outcome"], "stopped");
    for path in ["/healthz", "/readyz"] {
        assert_eq!(caller.send(HttpRequest::get(path)).0, 200, "{path}");
    }
    for path in ["/mcp", "/metrics", "/.well-known/oauth-protected-resource"] {
        assert_eq!(caller.send(HttpRequest::get(path)).0, 404, "{path}");
    }
}

#[test]
fn a_socket_goes_with_its_server_and_a_stale_one_with_the_next() {
    let data = private_dir();
    let launch = || Launch::stdio().data(data.path());
    let mut first = launch().start();
    let mut second = launch().start();
    caller(&first);
    caller(&second);
    assert_eq!(sockets(data.path()).len(), 2);
    let gone = socket_of(&first);
    first.stdio().hang_up();
    first.wait_exit();
    assert!(!gone.exists(), "it is removed at the end");
    let stale = socket_of(&second);
    second.signal(Signal::KILL);
    second.wait_exit();
    assert!(stale.exists(), "nobody could remove it");
    let third = launch().start();
    caller(&third);
    eventually("the stale one is removed", || !stale.exists());
    assert_eq!(sockets(data.path()), [socket_of(&third)]);
    let live = socket_of(&third);
    third.signal(Signal::KILL);
    drop(third);
    assert!(live.exists());
    let _shared = Launch::http().data(data.path()).start();
    eventually("a shared server removes it, too", || !live.exists());
}

/// Runs a verb of the command line as the user of the server.
#[track_caller]
fn run_as_user(server: &TestServer, words: &[&str], arguments: &[&str]) -> String {
    let mut command = server.sandbox().command_through(words);
    command.args(arguments).arg("--data-dir").arg(server.data());
    let output = output_of(command, "");
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[test]
fn a_long_path_of_the_data_directory_hides_no_jobs() {
    let data = private_dir();
    let deep = data.path().join("d".repeat(70)).join("e".repeat(70));
    fs::create_dir_all(&deep).expect("a directory of ours");
    fs::set_permissions(&deep, fs::Permissions::from_mode(0o700)).expect("our own");
    let mut server = Launch::stdio().structured().data(&deep).start();
    let job = server.start("echo deep; read line");
    eventually("the socket is there", || socket_of(&server).exists());
    assert!(socket_of(&server).as_os_str().len() > 107);
    eventually("it listens", || {
        run_as_user(&server, &[], &["jobs"]).contains("echo deep; read line")
    });
    let log = || run_as_user(&server, &[], &["logs", &job.to_string()]);
    eventually("its output is there", || log() == "deep\n");
    server.signal(Signal::KILL);
    server.wait_exit();
    let stale = socket_of(&server);
    assert!(stale.exists());
    let next = Launch::stdio().data(&deep).start();
    eventually("the stale one is removed", || !stale.exists());
    assert!(run_as_user(&next, &[], &["jobs"]).is_empty());
}

#[test]
fn an_unprivileged_user_reaches_the_socket_and_a_job_of_that_user_does_not() {
    let config = "[confinement]\nprofile = \"none\"\n";
    let mut server = Launch::stdio().structured().config(config).unprivileged().start();
    let words = without_privileges();
    let job = server.start("read line");
    eventually("the socket is there", || socket_of(&server).exists());
    eventually("the user sees the job", || {
        run_as_user(&server, words, &["jobs"]).contains("read line")
    });
    let command = script(&socket_of(&server));
    for command in [command.clone(), format!("setsid --wait env -i PATH=$PATH {command}")] {
        let answer = server.run(&command).0.to_string();
        assert!(answer.contains("403") && answer.contains("caller_is_job"), "{answer}");
    }
    let mut direct = server.sandbox().command_through(words);
    direct.args(["show", &job.to_string(), "--json", "--data-dir"]).arg(server.data());
    let shown = output_of(direct, "");
    assert!(text(&shown.stdout).contains("\"running\""), "{}", text(&shown.stderr));
    run_as_user(&server, words, &["stop", &job.to_string()]);
    let ended = server.call("wait_jobs", json!({"jobs": [job]})).ok().0.to_string();
    assert!(ended.contains("stopped"), "{ended}");
}

#[test]
fn a_server_starts_without_its_socket() {
    let data = private_dir();
    fs::write(data.path().join("servers"), "in the way").expect("a file of ours");
    let mut server = Launch::stdio().data(data.path()).start();
    server.assert_alive();
    server.expect_log("private socket not available");
    assert_eq!(fs::read_to_string(data.path().join("servers")).expect("a file"), "in the way");
}

/// Prints the answer of a server to a request over its socket.
fn script(socket: &Path) -> String {
    format!(
        "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{}'); \
         s.sendall(b'GET /api/v1/jobs HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n'); \
         print(s.makefile().read())\"",
        socket.display()
    )
}

#[test]
fn no_job_reaches_the_socket_of_its_own_or_of_another_server() {
    let data = private_dir();
    let launch =
        || Launch::stdio().data(data.path()).config("[confinement]\nprofile = \"none\"\n").start();
    let (mut first, second) = (launch(), launch());
    caller(&first);
    caller(&second);
    for socket in [socket_of(&first), socket_of(&second)] {
        for command in [
            script(&socket),
            format!(
                "setsid env -i PATH=$PATH sh -c '({} > answer 2>&1 &)'; \
                     until grep -q HTTP answer; do sleep 0.05; done; cat answer; rm answer",
                script(&socket).replace('\'', "'\\''")
            ),
        ] {
            let answer = first.run(&command).0.to_string();
            assert!(answer.contains("403") && answer.contains("caller_is_job"), "{answer}");
        }
    }
}
