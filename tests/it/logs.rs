//! Log lines: their form, which are written, and what becomes of those that nobody reads.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{
    HttpConnection, HttpRequest, Launch, Sandbox, TestServer, eventually, eventually_some,
    run_program,
};

/// Returns the log filter, as the server reports it.
#[track_caller]
fn level(server: &TestServer) -> String {
    let data = server.sandbox().data();
    let data = data.to_str().expect("a path");
    let told = run_program(server.sandbox(), &["log-level", "--data-dir", data]);
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    String::from_utf8(told.stdout).expect("text").trim_end().to_owned()
}

/// Has this server log that.
#[track_caller]
fn choose(server: &TestServer, filter: &str) {
    let data = server.sandbox().data();
    let data = data.to_str().expect("a path");
    let told = run_program(server.sandbox(), &["log-level", filter, "--data-dir", data]);
    assert_eq!(told.status.code(), Some(0), "{told:?}");
}

#[test]
fn json_lines_are_flat_objects_that_no_command_can_forge() {
    for launch in Launch::both() {
        let mut server = launch.args(&["--log-format", "json"]).start();
        let forged = "{\\\"level\\\":\\\"ERROR\\\"}";
        server.call("run_command", json!({"command": format!("echo 'a\n{forged}\u{1b}[31m'")}));
        server.expect_log("job finished");
        for line in server.log_text().lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|why| {
                panic!("{why}: {line}");
            });
            let fields = line.as_object().expect("an object");
            for own in ["timestamp", "level", "target", "message"] {
                assert!(fields[own].is_string(), "{own}: {line}");
            }
            assert!(fields.values().all(|it| !it.is_object() && !it.is_array()), "{line}");
            assert_eq!(line["level"], "INFO", "{line}");
        }
    }
}

#[test]
fn a_filter_that_changes_in_the_file_holds_without_a_restart() {
    let mut server = Launch::http().config("[log]\nfilter = \"info\"\n").start();
    choose(&server, "error");
    server.sandbox().write("config.toml", "[log]\nfilter = \"info\"\n[queue]\nslots = 3\n");
    server.signal(Signal::HUP);
    let audit = server.sandbox().data().join("audit.jsonl");
    eventually("the reload is written down", || {
        std::fs::read_to_string(&audit).is_ok_and(|log| log.contains("queue.slots (by local)"))
    });
    assert_eq!(level(&server), "error", "what was chosen stays");

    server.sandbox().write("config.toml", "[log]\nfilter = \"debug\"\n[queue]\nslots = 3\n");
    server.signal(Signal::HUP);
    eventually("the new filter holds", || level(&server) == "debug");
    server.run("true");
    server.expect_log("DEBUG shellyard::");

    server.sandbox().write("config.toml", "[log]\nfilter = \"debgu\"\n");
    server.signal(Signal::HUP);
    server.expect_log("reload refused, the old settings stay in force");
    server.expect_log("did you mean `debug`?");
    assert_eq!(level(&server), "debug");
}

#[test]
fn at_trace_the_libraries_still_print_no_request() {
    const SECRET: &str = "hunter2-in-a-variable";
    let mut server = Launch::http().start();
    choose(&server, "trace,rmcp=trace,rmcp::service=trace,hyper=trace,hyper_util=trace");
    let wish = json!({"command": "echo hi", "env": {"NAME": SECRET}, "stdin": SECRET});
    server.call("run_command", wish);
    server.expect_log("job finished");
    server.expect_log("DEBUG shellyard::");
    let log_text = server.log_text();
    assert!(!log_text.contains(SECRET), "{log_text}");
    for library in ["TRACE rmcp", "DEBUG rmcp", "INFO rmcp", "TRACE hyper", "DEBUG hyper"] {
        assert!(!log_text.contains(library), "{library}: {log_text}");
    }
}

#[test]
fn lines_that_nobody_reads_are_counted() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command();
    command.args(["serve", "--bind", "127.0.0.1:0", "--data-dir"]).arg(sandbox.data());
    let mut server = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
    let stderr = server.stderr.take().expect("it was piped");
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let started = lines.find(|line| line.contains("server started")).expect("it starts");
    let (_, rest) = started.split_once("address=").expect("it says where");
    let address = rest.split(' ').next().expect("an address");

    // From here on nobody reads, and each of these is a line.
    let refused = HttpRequest::get("/healthz").header("Host", "elsewhere.example");
    let dropped = eventually_some("lines are dropped", || {
        let mut connection = HttpConnection::open(address);
        for _ in 0..500 {
            connection.send(&refused);
            let answer = connection.answer();
            assert_eq!(answer.status, 403);
            answer.text();
        }
        let mut connection = HttpConnection::open(address);
        connection.send(&HttpRequest::get("/metrics"));
        let metrics = connection.answer().text();
        let name = "shellyard_log_lines_dropped_total ";
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
        value.filter(|count| *count > 0)
    });
    server.kill().expect("a child of ours");
    server.wait().expect("a child of ours");
    assert!(dropped > 0);
}
