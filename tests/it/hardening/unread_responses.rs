//! Clients that never read: their responses are limited in memory and in time.

use serde_json::json;

use crate::harness::{HttpConnection, HttpRequest, Launch, TestServer, eventually, rss_kib};

use super::refused;

const CONFIG: &str = "[http]\nwrite_timeout_s = 1\n";

/// The size of a page, larger than what a socket buffers unread.
const PAGE_BYTES: u64 = 1024 * 1024;

const OUTPUT_BYTES: &str = "shellyard_output_bytes_total{stream=\"merged\"}";

fn over_socket(server: &TestServer) -> HttpConnection {
    HttpConnection::open_unix(&server.sandbox().data().join("shellyard.sock"))
}

#[track_caller]
fn all_are_dropped(server: &mut TestServer, count: f64) {
    eventually("all are dropped", || refused(server, "unread") >= count);
    eventually("their connections are closed", || {
        server.metric("shellyard_http_connections") < 3.0
    });
    server.assert_alive();
}

/// Starts a job that has written a lot and continues to write.
#[track_caller]
fn busy_job(server: &mut TestServer) -> u64 {
    let job = server.start("while :; do head -c 200000 /dev/urandom | base64; done");
    eventually("it has written a lot", || server.metric(OUTPUT_BYTES) > 4e6);
    job
}

/// Asks for a large page of the job, as an event stream, and does not read it.
#[track_caller]
fn unread_page(server: &mut TestServer, job: u64) -> HttpConnection {
    let arguments = json!({"job": job, "view": "raw", "cursor": "0", "max_bytes": PAGE_BYTES});
    let params = json!({"name": "read_output", "arguments": arguments});
    let id = server.fresh_id();
    let message = server.http().era().request(id, "tools/call", params);
    let mut connection = over_socket(server);
    connection.send(&server.http().request(&message));
    connection
}

#[test]
fn pages_that_are_never_read_are_limited_and_dropped() {
    let mut server = Launch::http().config(CONFIG).structured().start();
    let job = busy_job(&mut server);
    let before = rss_kib(server.server_pid());
    let unread: Vec<_> = (0..24).map(|_| unread_page(&mut server, job)).collect();
    all_are_dropped(&mut server, 24.0);
    let grown = rss_kib(server.server_pid()).saturating_sub(before);
    assert!(grown < 96 * 1024, "{grown} KiB");
    drop(unread);
}

#[test]
fn unread_bytes_of_all_clients_together_are_limited() {
    let config = "[http]\nwrite_timeout_s = 300\nmax_unread = \"5 MiB\"\n";
    let mut server = Launch::http().config(config).structured().start();
    let job = busy_job(&mut server);
    let unread: Vec<_> = (0..24).map(|_| unread_page(&mut server, job)).collect();
    eventually("the first ones are dropped long before their time", || {
        refused(&mut server, "unread") >= 18.0
    });
    let status = unread.into_iter().next_back().expect("one of them").answer().status;
    assert_eq!(status, 200, "the last one can still be read");
    server.assert_alive();
}

#[test]
fn a_session_whose_stream_is_never_read_loses_the_stream_and_continues() {
    let mut server = Launch::http().config(CONFIG).start();
    server.run("true");
    let mut unread = over_socket(&server);
    let request = HttpRequest::get("/mcp").header("Accept", "text/event-stream");
    let request = request.header("Mcp-Session-Id", server.http().session());
    unread.send(&request);
    let before = rss_kib(server.server_pid());
    // Each subscription sends one notification at once, since the job has ended.
    eventually("the stream is full, and dropped", || {
        for _ in 0..50 {
            server.rpc("resources/subscribe", json!({"uri": "shellyard://jobs/1/output"}));
        }
        refused(&mut server, "unread") >= 1.0
    });
    let grown = rss_kib(server.server_pid()).saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB of notices that nobody read");
    server.assert_alive();
    drop(unread);
}

#[test]
fn a_download_that_is_never_read_is_limited_and_dropped() {
    let mut server = Launch::http().config(CONFIG).structured().start();
    server.run("head -c 100000000 /dev/zero");
    let before = rss_kib(server.server_pid());
    let request = HttpRequest::get("/api/v1/jobs/1/output");
    let mut unread: Vec<_> = (0..4).map(|_| over_socket(&server)).collect();
    unread.extend((0..4).map(|_| HttpConnection::open(server.http().address())));
    for connection in &mut unread {
        connection.send(&request);
    }
    all_are_dropped(&mut server, 8.0);
    let grown = rss_kib(server.server_pid()).saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB");
}
