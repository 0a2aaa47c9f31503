//! More connections than the limits allow.

use std::fs;

use crate::harness::{HttpConnection, HttpRequest, Launch, eventually, raise_open_files, rss_kib};

use super::{refused, run_command, status_of};

const OPEN: &str = "shellyard_http_connections";

/// The memory limit per idle connection, generous: a debug build, and its share of the memory that
/// the allocator keeps.
const KIB_PER_CONNECTION: u64 = 24;

#[test]
fn two_thousand_idle_connections_block_nobody_and_cost_little() {
    raise_open_files();
    let config = "[http]\nmax_connections = 4000\nmax_connections_per_address = 4000\n\
                  header_timeout_s = 300\n";
    let mut server = Launch::http().config(config).start();
    server.assert_alive();
    let before = rss_kib(server.server_pid());
    let address = server.http().address().to_owned();
    let idle: Vec<_> = (0..2000).map(|_| HttpConnection::open(&address)).collect();
    eventually("all are let in", || server.metric(OPEN) > 2000.0);
    server.assert_alive();
    let grown = rss_kib(server.server_pid()).saturating_sub(before);
    assert!(grown < 2000 * KIB_PER_CONNECTION, "{grown} KiB for 2,000 connections");
    assert_eq!(refused(&mut server, "connections"), 0.0);
    drop(idle);
    eventually("all are gone", || server.metric(OPEN) < 3.0);
}

#[test]
fn two_thousand_connections_stay_within_the_limits() {
    raise_open_files();
    let config = "[http]\nmax_connections = 1024\nmax_connections_per_address = 512\n";
    let mut server = Launch::http().config(config).start();
    let address = server.http().address().to_owned();
    let idle: Vec<_> = (0..2000).map(|_| HttpConnection::open(&address)).collect();
    assert_eq!(status_of(&mut server, &HttpRequest::get("/healthz")), 200, "a newcomer is served");
    eventually("the rest was closed", || refused(&mut server, "connections") > 1400.0);
    assert!(server.metric(OPEN) <= 512.0, "all come from one address");
    assert_eq!(server.metric("shellyard_http_connections_limit"), 1024.0);
    drop(idle);
}

#[test]
fn bodies_that_never_arrive_lock_nobody_out() {
    let config = "[http]\nmax_connections_per_address = 8\nbody_timeout_s = 300\n";
    let mut server = Launch::http().config(config).start();
    let address = server.http().address().to_owned();
    let slow: Vec<_> = (0..20)
        .map(|number| {
            let mut connection = HttpConnection::open(&address);
            let path = if number % 2 == 0 { "/healthz" } else { "/mcp" };
            let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n");
            // The server may have closed it for the next one.
            connection.try_send(format!("{head}Content-Length: 1000\r\n\r\nx").as_bytes()).ok();
            connection
        })
        .collect();
    assert_eq!(status_of(&mut server, &HttpRequest::get("/healthz")), 200);
    server.assert_alive();
    drop(slow);
}

#[test]
fn an_idle_connection_is_closed_for_a_new_one() {
    let mut server = Launch::http().config("[http]\nmax_connections_per_address = 3\n").start();
    let address = server.http().address().to_owned();
    let mut open: Vec<_> = (0..3).map(|_| used(&address)).collect();
    let mut newest = used(&address);
    let is_open = |connection: &mut HttpConnection| {
        connection.send(&HttpRequest::get("/healthz"));
        connection.try_status() == Some(200)
    };
    assert!(is_open(&mut newest));
    // Only the server knows which of them was idle longest.
    let still_open: Vec<bool> = open.iter_mut().map(is_open).collect();
    // Two are left; one less if the server had not yet seen the end of an earlier one.
    let left = still_open.iter().filter(|is_open| **is_open).count();
    assert!((1..=2).contains(&left), "{still_open:?}");
    assert!(refused(&mut server, "connections") >= 1.0);
}

/// A connection that has been answered once.
#[track_caller]
fn used(address: &str) -> HttpConnection {
    let mut connection = HttpConnection::open(address);
    connection.send(&HttpRequest::get("/healthz"));
    assert_eq!(connection.answer().text(), "ok\n");
    connection
}

#[test]
fn a_busy_connection_is_not_closed_for_a_new_one() {
    // No handshake: the server may see the end of an earlier connection late, so that its place is
    // not free yet.
    let mut server = Launch::http().config("[http]\nmax_connections = 2\n").start_silent();
    let address = server.http().address().to_owned();
    let (begun, done) = (server.work().join("begun"), server.work().join("done"));
    let wait = "echo x >> begun; until [ -e done ]; do sleep 0.05; done; echo waited";
    let mut served: Vec<_> = (0..2).map(|_| HttpConnection::open(&address)).collect();
    for connection in &mut served {
        connection.send(&run_command(wait));
    }
    eventually("both commands run", || fs::read(&begun).is_ok_and(|text| text.len() == 4));
    let mut late = HttpConnection::open(&address);
    late.send(&HttpRequest::get("/healthz"));
    assert_eq!(late.try_status(), None, "there is no room, and it is told so at once");
    fs::write(done, "").expect("a file of ours");
    for connection in &mut served {
        assert!(connection.answer().text().contains("waited"));
    }
    assert_eq!(status_of(&mut server, &HttpRequest::get("/healthz")), 200);
}
