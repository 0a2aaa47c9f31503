//! A server that ends, and one that comes back.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use super::{BOTH_ERAS, data_of, proxy_to, server, socket_in};
use crate::harness::{
    Era, HttpConnection, HttpRequest, Marker, TestServer, eventually, peak_rss_kib, private_dir,
};

/// Ends a server without a word.
#[track_caller]
fn kill(mut server: TestServer) {
    server.kill_with_keeper();
}

#[test]
fn a_restart_costs_the_calls_in_flight_and_nothing_else() {
    for era in BOTH_ERAS {
        let data = private_dir();
        let first = server().data(data.path()).start();
        let mut proxy = proxy_to(data.path()).era(era).start();
        let marker = Marker::new();
        let running = proxy.begin("run_command", json!({"command": format!("sleep {marker}")}));
        marker.wait_alive();
        kill(first);
        let lost = proxy.finish(running);
        assert_eq!(lost.0["error"]["data"]["code"], "server_lost", "{}", lost.0);
        let said = lost.error_text();
        assert!(said.contains("look at list_jobs before running it again"), "{said}");
        // Asked while there is no server: it waits for the next one.
        let asked = proxy.begin("run_command", json!({"command": "echo back"}));
        let _second = server().data(data.path()).start();
        assert_eq!(proxy.finish(asked).ok()["output"], "back\n");
        proxy.assert_alive();
        let rest = proxy.stdio().take_all();
        assert!(rest.is_empty(), "the client hears of nothing else: {rest:?}");
    }
}

#[test]
fn subscriptions_of_a_legacy_client_survive_a_restart() {
    let data = private_dir();
    let first = server().data(data.path()).start();
    let mut proxy = proxy_to(data.path()).start();
    proxy.rpc("resources/list", json!({}));
    kill(first);
    let mut second = server().data(data.path()).start();
    eventually("it is connected again", || proxy.log_text().matches("connected to").count() == 2);
    proxy.run("true");
    second.run("true");
    proxy
        .stdio()
        .receive("a notice", |message| message["method"] == "notifications/resources/list_changed");
}

#[test]
fn without_a_server_calls_are_told_how_to_start_one() {
    let data = private_dir();
    let first = server().data(data.path()).start();
    let mut proxy = proxy_to(data.path()).start();
    proxy.run("true");
    kill(first);
    for _ in 0..2 {
        let answer = proxy.rpc("tools/list", json!({}));
        assert_eq!(answer["error"]["data"]["code"], "server_unreachable", "{answer}");
        let message = answer["error"]["message"].as_str().expect("words");
        let command = format!("`shellyard serve --data-dir {}`", data.path().display());
        assert!(message.contains(&command), "{message}");
        assert!(message.contains(&*socket_in(data.path()).to_string_lossy()), "{message}");
    }
    let _second = server().data(data.path()).start();
    // Who asks is not told what was true a while ago.
    proxy.run("true");
}

#[test]
fn calls_to_a_draining_server_run_on_the_next_one() {
    for era in BOTH_ERAS {
        let data = private_dir();
        let mut first = server().data(data.path()).config("[server]\ndrain_s = 60\n").start();
        let mut proxy = proxy_to(data.path()).era(era).start();
        let command = "echo begun > begun; while [ ! -e gate ]; do sleep 0.05; done; echo done";
        let running = proxy.begin("run_command", json!({"command": command}));
        let work = proxy.work().to_owned();
        eventually("it runs", || work.join("begun").exists());
        first.signal(Signal::TERM);
        eventually("the server drains", || is_draining(&mut first));
        let asked = proxy.begin("run_command", json!({"command": "echo next"}));
        fs::write(work.join("gate"), "").expect("the gate opens");
        assert_eq!(proxy.finish(running).ok()["output"], "done\n");
        assert!(first.wait_exit().success());
        let _second = server().data(data.path()).start();
        assert_eq!(proxy.finish(asked).ok()["output"], "next\n");
        let rest = proxy.stdio().take_all();
        assert!(rest.is_empty(), "the client hears of nothing else: {rest:?}");
    }
}

#[track_caller]
fn is_draining(server: &mut TestServer) -> bool {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get("/readyz"));
    connection.answer().status == 503
}

#[test]
fn a_proxy_without_a_server_answers_the_handshake_with_the_reason() {
    let data = private_dir();
    let mut proxy = proxy_to(data.path()).start_silent();
    let answer = proxy.rpc("initialize", json!({}));
    assert!(answer["error"]["message"].to_string().contains("--ensure-server"), "{answer}");
    let _server = server().data(data.path()).start();
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "it", "version": "1"},
    });
    let answer = proxy.rpc("initialize", params);
    assert!(answer.get("result").is_some(), "it works as soon as there is one: {answer}");
}

#[test]
fn requests_that_wait_for_a_server_are_limited() {
    let data = private_dir();
    let mut proxy = proxy_to(data.path()).start_silent();
    let text = "x".repeat(1024 * 1024);
    let ids: Vec<u64> =
        (0..200).map(|_| proxy.begin("run_command", json!({"command": text}))).collect();
    for id in ids {
        assert!(proxy.finish(id).is_error());
    }
    let peak = peak_rss_kib(proxy.pid());
    assert!(peak < 120 * 1024, "{peak} KiB for 200 MiB of requests");
}

/// The calls that a server has finished so far.
#[track_caller]
fn finished_calls(server: &mut TestServer) -> u64 {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get("/metrics"));
    let text = connection.answer().text();
    let calls = "mcp_server_operation_duration_seconds_count{mcp_method_name=\"tools/call\"";
    let of_calls = text.lines().filter(|line| line.starts_with(calls));
    of_calls.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn unread_responses_do_not_pile_up() {
    const CALLS: u64 = 60;
    let mut server = server().era(Era::Modern).start();
    let job = server.start("head -c 2000000 /dev/zero");
    server.wait_finished(job);
    let before = finished_calls(&mut server);
    let mut command = server.sandbox().command();
    command.arg("stdio").arg("--connect").arg("--data-dir").arg(data_of(&server));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut proxy = command.spawn().expect("the binary starts");
    let mut input = proxy.stdin.take().expect("it was piped");
    let page = json!({"job": job, "view": "raw", "max_bytes": 1024 * 1024, "cursor": "bytes:0"});
    for id in 1..=CALLS {
        let params = json!({"name": "read_output", "arguments": page});
        let call = Era::Modern.request(id, "tools/call", params);
        writeln!(input, "{call}").expect("it reads its stdin");
    }
    // The server answers no more than it may have unwritten.
    eventually("some are answered", || finished_calls(&mut server) > before);
    let peak = peak_rss_kib(proxy.id());
    assert!(peak < 64 * 1024, "{peak} KiB for {CALLS} answers of 1.4 MB each");
    let output = BufReader::new(proxy.stdout.take().expect("it was piped"));
    let answers = output.lines().take(usize::try_from(CALLS).expect("it fits"));
    assert_eq!(answers.map_while(Result::ok).filter(|line| line.len() > 1_000_000).count(), 60);
    drop(input);
    assert!(proxy.wait().expect("a child of ours").success());
}
