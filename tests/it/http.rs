//! The HTTP server: who may call, how much, and what it tells.

use std::io::Read as _;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{
    Era, HttpConnection, HttpRequest, Launch, Marker, Sandbox, TestServer, eventually, free_port,
    token,
};

const ROUTES: [&str; 5] = ["/mcp", "/metrics", "/healthz", "/readyz", "/runbooks/ShellyardDown.md"];

/// A request that a friendly client would send to this route.
fn friendly(route: &str) -> HttpRequest {
    if route == "/mcp" {
        let message = Era::Modern.request(1, "tools/list", json!({}));
        let mut request = HttpRequest::post("/mcp", &message);
        request.headers.extend(Era::Modern.headers(&message));
        request
    } else {
        HttpRequest::get(route)
    }
}

#[track_caller]
fn status_of(server: &mut TestServer, request: &HttpRequest) -> u16 {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(request);
    connection.answer().status
}

#[track_caller]
fn get(server: &mut TestServer, path: &str) -> String {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get(path));
    let answer = connection.answer();
    assert_eq!(answer.status, 200, "GET {path}");
    answer.text()
}

#[test]
fn every_route_answers_a_friendly_client() {
    let mut server = Launch::http().start();
    for route in ROUTES {
        assert_eq!(status_of(&mut server, &friendly(route)), 200, "{route}");
    }
}

#[test]
fn a_runbook_needs_no_token() {
    let mut server = Launch::http().guarded().start_silent();
    for (path, status) in [("/runbooks/ShellyardDown.md", 200), ("/runbooks/other.md", 401)] {
        assert_eq!(status_of(&mut server, &HttpRequest::get(path)), status, "{path}");
    }
}

#[test]
fn every_route_refuses_a_foreign_host() {
    let mut server = Launch::http().start();
    for route in ROUTES {
        for host in ["evil.example", "evil.example:8000", "127.0.0.1.evil.example"] {
            let status = status_of(&mut server, &friendly(route).header("Host", host));
            assert_eq!(status, 403, "{route} for {host}");
        }
    }
}

#[test]
fn a_request_without_a_host_is_refused() {
    let mut server = Launch::http().start();
    for head in ["GET /healthz HTTP/1.1\r\n\r\n", "GET /healthz HTTP/1.0\r\n\r\n"] {
        let mut connection = HttpConnection::open(server.http().address());
        connection.send_bytes(head.as_bytes());
        let status = connection.answer().status;
        assert!(status == 400 || status == 403, "HTTP {status} for {head:?}");
    }
}

#[test]
fn every_request_of_a_keep_alive_connection_is_checked() {
    let mut server = Launch::http().start();
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get("/healthz"));
    let first = connection.answer();
    assert_eq!(first.status, 200);
    first.text();
    connection.send(&HttpRequest::get("/healthz").header("Host", "evil.example"));
    assert_eq!(connection.answer().status, 403);
}

#[test]
fn every_route_refuses_a_foreign_origin() {
    let mut server = Launch::http().start();
    for route in ROUTES {
        for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
            let status = status_of(&mut server, &friendly(route).header("Origin", origin));
            assert_eq!(status, 403, "{route} from {origin}");
        }
    }
}

#[test]
fn loopback_names_are_allowed_by_default() {
    let mut server = Launch::http().start();
    let port = server.http().address().split(':').nth(1).expect("a port").to_owned();
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let request = HttpRequest::get("/healthz").header("Host", &format!("{host}:{port}"));
        assert_eq!(status_of(&mut server, &request), 200, "{host}");
    }
}

#[test]
fn a_refusal_runs_nothing() {
    let mut server = Launch::http().start();
    let params = json!({"name": "run_command", "arguments": {"command": "touch broke-in"}});
    let message = Era::Modern.request(1, "tools/call", params);
    let mut request = HttpRequest::post("/mcp", &message).header("Origin", "https://evil.example");
    request.headers.extend(Era::Modern.headers(&message));
    assert_eq!(status_of(&mut server, &request), 403);
    server.assert_alive();
    assert!(!server.work().join("broke-in").exists());
}

#[test]
fn configured_hosts_and_origins_are_allowed() {
    let config = "[http]\nallowed_hosts = [\"build.example.org\"]\nallowed_origins = [\"https://app.example.org\"]\n";
    let mut server = Launch::http().config(config).start();
    for route in ROUTES {
        let request = friendly(route)
            .header("Host", "build.example.org")
            .header("Origin", "https://app.example.org");
        assert_eq!(status_of(&mut server, &request), 200, "{route}");
    }
}

/// Runs `serve` with these arguments until it has refused to start; what it said.
#[track_caller]
fn refused_start(arguments: &[&str]) -> String {
    let sandbox = Sandbox::new();
    let mut child = sandbox
        .command()
        .arg("serve")
        .args(arguments)
        .arg("--data-dir")
        .arg(sandbox.data())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stderr = child.stderr.take().expect("it was piped");
    let reader = thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).map(|_| text)
    });
    let mut ended = None;
    eventually("it refuses to start", || {
        ended = child.try_wait().expect("a child of ours");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|status| status.success().then_some(())), None, "it must fail");
    reader.join().expect("a reader").expect("text")
}

#[test]
fn a_public_address_without_a_token_is_refused_at_start() {
    let port = free_port();
    for address in [format!("0.0.0.0:{port}"), format!("[::]:{port}")] {
        let said = refused_start(&["--bind", &address]);
        assert!(said.contains("token"), "it says what to do: {said}");
        assert!(said.contains(&port.to_string()), "it names the address: {said}");
    }
}

#[test]
fn an_address_in_use_is_refused_at_start() {
    let mut server = Launch::http().start();
    let address = server.http().address().to_owned();
    let said = refused_start(&["--bind", &address]);
    assert!(said.contains(&address), "{said}");
}

#[test]
fn a_token_is_enforced_where_one_is_configured() {
    let mut server = Launch::http().era(Era::Modern).guarded().start();
    for route in ["/mcp", "/metrics"] {
        let request = friendly(route);
        assert_eq!(status_of(&mut server, &request), 401, "{route} without a token");
        let wrong = request.clone().header("Authorization", "Bearer wrong");
        assert_eq!(status_of(&mut server, &wrong), 401, "{route} with a wrong token");
        let basic = request.clone().header("Authorization", &format!("Basic {}", token()));
        assert_eq!(status_of(&mut server, &basic), 401, "{route} with another scheme");
        let right = request.header("Authorization", &format!("Bearer {}", token()));
        assert_eq!(status_of(&mut server, &right), 200, "{route} with the token");
    }
    server.http().use_token(token());
    server.assert_alive();
    assert!(!server.log_text().contains(token()), "a token never reaches the log");
}

#[test]
fn an_empty_token_file_is_refused_at_start() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("tokens", "\n  \n");
    let config = format!("[http]\ntoken_file = {:?}\n", file.display().to_string());
    let config = sandbox.write("guarded.toml", &config);
    let said = refused_start(&["--config", config.to_str().expect("a path")]);
    assert!(said.contains("token"), "{said}");
}

#[test]
fn a_body_over_the_limit_is_refused_whatever_it_claims() {
    let mut server = Launch::http().config("[http]\nmax_body = \"64 KiB\"\n").start();
    let body = vec![b' '; 100 * 1024];
    assert_eq!(status_of(&mut server, &HttpRequest::post_bytes("/mcp", body)), 413);
    let mut connection = HttpConnection::open(server.http().address());
    connection.send_bytes(
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    for _ in 0..100 {
        connection.send_bytes(format!("400\r\n{}\r\n", " ".repeat(1024)).as_bytes());
    }
    connection.send_bytes(b"0\r\n\r\n");
    assert_eq!(connection.answer().status, 413);
    server.assert_alive();
}

#[test]
fn headers_over_the_limit_are_refused() {
    let mut server = Launch::http().start();
    let request = HttpRequest::get("/healthz").header("X-Long", &"x".repeat(40 * 1024));
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&request);
    assert_eq!(connection.answer().status, 431);
    let mut many = HttpRequest::get("/healthz");
    for number in 0..1000 {
        many = many.header(&format!("X-{number}"), "x");
    }
    assert_eq!(status_of(&mut server, &many), 431);
    server.assert_alive();
}

#[test]
fn a_client_that_sends_its_head_slowly_is_disconnected() {
    let mut server = Launch::http().config("[http]\nheader_timeout_s = 5\n").start();
    let mut connection = HttpConnection::open(server.http().address());
    connection.send_bytes(b"GET /healthz HTTP/1.1\r\nHost: loc");
    let rest = connection.rest();
    assert!(!rest.contains("200"), "{rest}");
    server.assert_alive();
}

#[test]
fn connections_over_the_limit_do_not_break_the_others() {
    let mut server = Launch::http().config("[http]\nmax_connections = 4\n").start();
    let address = server.http().address().to_owned();
    let held: Vec<HttpConnection> = (0..8).map(|_| HttpConnection::open(&address)).collect();
    thread::sleep(Duration::from_millis(200));
    drop(held);
    eventually("it answers again", || status_of_maybe(&address) == Some(200));
    server.assert_alive();
}

fn status_of_maybe(address: &str) -> Option<u16> {
    let mut connection = HttpConnection::open(address);
    connection.send(&HttpRequest::get("/healthz"));
    connection.try_status()
}

#[test]
fn unknown_routes_and_methods_are_refused() {
    let mut server = Launch::http().start();
    assert_eq!(status_of(&mut server, &HttpRequest::get("/no/such/page")), 404);
    let mut post = HttpRequest::post("/healthz", &json!({}));
    assert_eq!(status_of(&mut server, &post), 405);
    post.method = "BREW";
    assert!((400..500).contains(&status_of(&mut server, &post)));
    server.assert_alive();
}

#[test]
fn sigterm_answers_calls_in_flight_before_the_server_ends() {
    let mut server = Launch::http().structured().era(Era::Modern).start();
    let params = json!({
        "name": "run_command",
        "arguments": {"command": "echo begun; touch begun; sleep 1; echo over"},
    });
    let mut connection = server.http().post(&Era::Modern.request(7, "tools/call", params));
    let begun = server.work().join("begun");
    eventually("the job runs", || begun.exists());
    server.signal(Signal::TERM);
    let mut answer = connection.answer();
    let message = std::iter::from_fn(|| answer.message()).find(|message| message["id"] == 7);
    let message = message.expect("the call is answered");
    assert!(message.to_string().contains("over"), "{message}");
    assert!(server.wait_exit().success());
}

#[test]
fn an_idle_connection_does_not_delay_the_shutdown() {
    let marker = Marker::new();
    let mut server = Launch::http().config("[server]\ndrain_s = 0.2\n").start();
    server.start(&format!("sleep {marker}"));
    marker.wait_alive();
    let idle = HttpConnection::open(server.http().address());
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    assert_eq!(marker.alive(), Vec::<i32>::new());
    drop(idle);
}

/// The sum of all samples of one metric.
fn metric(text: &str, name: &str) -> f64 {
    let samples = text
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn metrics_are_histograms_and_change() {
    let mut server = Launch::http().start();
    let before = get(&mut server, "/metrics");
    assert!(before.contains("shellyard_"), "{before}");
    let finished = "shellyard_jobs_finished_total";
    assert_eq!(metric(&before, finished), 0.0, "{before}");
    assert!(before.contains(&format!("{finished}{{")), "every outcome is there from the start");
    for number in 0..5 {
        server.run(&format!("echo {number}"));
    }
    let after = get(&mut server, "/metrics");
    assert_eq!(metric(&after, finished), 5.0, "{after}");
    let histograms = after.lines().filter(|line| line.ends_with(" histogram")).count();
    assert!(histograms > 0, "no histogram in {after}");
    assert!(!after.contains(" summary\n"), "summaries cannot be summed: {after}");
    assert!(after.contains("_bucket{") && after.contains("le=\"+Inf\""), "{after}");
}

#[test]
fn metrics_have_no_labels_from_users() {
    let mut server = Launch::http().start();
    server.run("echo a-secret-word");
    server.call("no_such_tool", json!({}));
    let text = get(&mut server, "/metrics");
    for word in ["a-secret-word", "no_such_tool", "echo"] {
        assert!(!text.contains(word), "`{word}` in {text}");
    }
}

#[test]
fn the_gauge_of_running_jobs_goes_up_and_down() {
    let marker = Marker::new();
    let mut server = Launch::http().structured().start();
    let job = server.start(&format!("sleep {marker}"));
    server.wait_running(job);
    let running = "shellyard_jobs_running";
    assert_eq!(metric(&get(&mut server, "/metrics"), running), 1.0);
    server.call("stop_jobs", json!({"jobs": [job]})).ok();
    server.wait_finished(job);
    eventually("the gauge is back at zero", || {
        metric(&get(&mut server, "/metrics"), running) == 0.0
    });
}

#[test]
fn another_path_can_be_configured() {
    let mut server = Launch::http().args(&["--path", "/tools"]).start_silent();
    let message = Era::Modern.request(1, "tools/list", json!({}));
    let mut request = HttpRequest::post("/tools", &message);
    request.headers.extend(Era::Modern.headers(&message));
    assert_eq!(status_of(&mut server, &request), 200);
    request.path = "/mcp".to_owned();
    assert_eq!(status_of(&mut server, &request), 404);
}
