//! Slow clients: each has a time limit.

use std::thread;
use std::time::Duration;

use crate::harness::{HttpConnection, HttpRequest, Launch, eventually};

use super::status_of;

const DRIP: Duration = Duration::from_millis(250);

/// Sends a head byte by byte until the server hangs up.
fn drip(connection: &mut HttpConnection) {
    let head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    for byte in head.iter().chain(std::iter::repeat(&b'x')) {
        if connection.try_send(&[*byte]).is_err() {
            return;
        }
        thread::sleep(DRIP);
    }
}

#[test]
fn slow_heads_are_disconnected_while_others_are_served() {
    let mut server = Launch::http().config("[http]\nheader_timeout_s = 30\n").start();
    let address = server.http().address().to_owned();
    let slow: Vec<_> = (0..100)
        .map(|_| {
            let mut connection = HttpConnection::open(&address);
            thread::spawn(move || drip(&mut connection))
        })
        .collect();
    eventually("they are all connected", || server.metric("shellyard_http_connections") > 100.0);
    assert_eq!(status_of(&mut server, &HttpRequest::get("/healthz")), 200);
    server.assert_alive();
    for client in slow {
        client.join().expect("the server hangs up on it");
    }
    eventually("nothing of them is left", || server.metric("shellyard_http_connections") < 3.0);
}

#[test]
fn a_silent_keep_alive_connection_is_closed() {
    let mut server = Launch::http().config("[http]\nheader_timeout_s = 5\n").start();
    let mut silent = HttpConnection::open(server.http().address());
    let mut kept = HttpConnection::open(server.http().address());
    for _ in 0..2 {
        kept.send(&HttpRequest::get("/healthz"));
        assert_eq!(kept.answer().text(), "ok\n");
    }
    assert_eq!(kept.rest(), "");
    assert_eq!(silent.rest(), "");
}

#[test]
fn a_body_that_does_not_arrive_times_out() {
    let config = "[http]\nbody_timeout_s = 0.5\n";
    let mut server = Launch::http().config(config).start();
    let mut connection = HttpConnection::open(server.http().address());
    connection.send_bytes(
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
    );
    let rest = connection.rest();
    assert!(rest.starts_with("HTTP/1.1 408"), "{rest}");
    server.assert_alive();
}
