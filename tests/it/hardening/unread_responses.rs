//! Clients that never read: their responses are limited in memory and in time.

use serde_json::json;

use crate::harness::{HttpConnection, HttpRequest, Launch, TestServer, eventually, rss_kib};

use super::refused;

const CONFIG: &str = "[http]\nwrite_timeout_s = 1\n";

/// The size of a page, larger than what a socket buffers unread.
const PAGE_BYTES: u64 = 1024 * 1024;

const OUTPUT_BYTES: &str = "shellyard_output_bytes_total{stream=\"merged\"}";

fn over_socket(yard: &TestServer) -> HttpConnection {
    HttpConnection::open_unix(&yard.sandbox().data().join("shellyard.sock"))
}

#[track_caller]
fn all_are_dropped(yard: &mut TestServer, count: f64) {
    eventually("all are dropped", || refused(yard, "unread") >= count);
    eventually("their connections are closed", || yard.metric("shellyard_http_connections") < 3.0);
    yard.assert_alive();
}

/// Starts a job that has written a lot and continues to write.
#[track_caller]
fn busy_job(yard: &mut TestServer) -> u64 {
    let job = yard.start("while :; do head -c 200000 /dev/urandom | base64; done");
    eventually("it has written a lot", || yard.metric(OUTPUT_BYTES) > 4e6);
    job
}

/// Asks for a large page of the job, as an event stream, and does not read it.
#[track_caller]
fn unread_page(yard: &mut TestServer, job: u64) -> HttpConnection {
    let arguments = json!({"job": job, "view": "raw", "cursor": "0", "max_bytes": PAGE_BYTES});
    let params = json!({"name": "read_output", "arguments": arguments});
    let id = yard.fresh_id();
    let message = yard.http().era().request(id, "tools/call", params);
    let mut connection = over_socket(yard);
    connection.send(&yard.http().request(&message));
    connection
}

#[test]
fn pages_that_are_never_read_are_limited_and_dropped() {
    let mut yard = Launch::http().config(CONFIG).structured().start();
    let job = busy_job(&mut yard);
    let before = rss_kib(yard.pid());
    let unread: Vec<_> = (0..24).map(|_| unread_page(&mut yard, job)).collect();
    all_are_dropped(&mut yard, 24.0);
    let grown = rss_kib(yard.pid()).saturating_sub(before);
    assert!(grown < 96 * 1024, "{grown} KiB");
    drop(unread);
}

#[test]
fn unread_bytes_of_all_clients_together_are_limited() {
    let config = "[http]\nwrite_timeout_s = 300\nmax_unread = \"5 MiB\"\n";
    let mut yard = Launch::http().config(config).structured().start();
    let job = busy_job(&mut yard);
    let unread: Vec<_> = (0..24).map(|_| unread_page(&mut yard, job)).collect();
    eventually("the first ones are dropped long before their time", || {
        refused(&mut yard, "unread") >= 18.0
    });
    let status = unread.into_iter().next_back().expect("one of them").answer().status;
    assert_eq!(status, 200, "the last one can still be read");
    yard.assert_alive();
}

#[test]
fn a_session_whose_stream_is_never_read_loses_the_stream_and_continues() {
    let mut yard = Launch::http().config(CONFIG).start();
    yard.run("true");
    let mut unread = over_socket(&yard);
    let request = HttpRequest::get("/mcp").header("Accept", "text/event-stream");
    let request = request.header("Mcp-Session-Id", yard.http().session());
    unread.send(&request);
    let before = rss_kib(yard.pid());
    // Each subscription sends one notification at once, since the job has ended.
    eventually("the stream is full, and dropped", || {
        for _ in 0..50 {
            yard.rpc("resources/subscribe", json!({"uri": "shellyard://jobs/1/output"}));
        }
        refused(&mut yard, "unread") >= 1.0
    });
    let grown = rss_kib(yard.pid()).saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB of notices that nobody read");
    yard.assert_alive();
    drop(unread);
}

#[test]
fn a_download_that_is_never_read_is_limited_and_dropped() {
    let mut yard = Launch::http().config(CONFIG).structured().start();
    yard.run("head -c 100000000 /dev/zero");
    let before = rss_kib(yard.pid());
    let request = HttpRequest::get("/api/v1/jobs/1/output");
    let mut unread: Vec<_> = (0..4).map(|_| over_socket(&yard)).collect();
    unread.extend((0..4).map(|_| HttpConnection::open(yard.http().address())));
    for connection in &mut unread {
        connection.send(&request);
    }
    all_are_dropped(&mut yard, 8.0);
    let grown = rss_kib(yard.pid()).saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB");
}
