//! Requests that are too large.

use crate::harness::{HttpConnection, HttpRequest, Launch, rss_kib};

use super::{refused, status_of};

#[test]
fn a_head_that_never_ends_is_refused() {
    let mut server = Launch::http().config("[http]\nmax_headers = \"16 KiB\"\n").start();
    let mut connection = HttpConnection::open(server.http().address());
    connection.send_bytes(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: ");
    for _ in 0..1024 {
        if connection.try_send(&[b'x'; 1024]).is_err() {
            break;
        }
    }
    let rest = connection.rest();
    assert!(rest.is_empty() || rest.contains("431"), "{rest}");
    let large = HttpRequest::get("/healthz").header("X-Long", &"x".repeat(15 * 1024));
    assert_eq!(status_of(&mut server, &large), 200);
    let larger = HttpRequest::get("/healthz").header("X-Long", &"x".repeat(17 * 1024));
    assert_eq!(status_of(&mut server, &larger), 431);
}

#[test]
fn a_body_that_declares_too_many_bytes_is_refused_before_it_is_sent() {
    let mut server = Launch::http().config("[http]\nmax_body = \"64 KiB\"\n").start();
    let mut connection = HttpConnection::open(server.http().address());
    connection.send_bytes(
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n",
    );
    assert_eq!(connection.answer().status, 413, "and not 100");
}

#[test]
fn a_body_that_never_ends_is_refused_and_not_kept() {
    let mut server = Launch::http().config("[http]\nmax_body = \"64 KiB\"\n").start();
    let before = rss_kib(server.server_pid());
    let mut connection = HttpConnection::open(server.http().address());
    connection.send_bytes(
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n",
    );
    let chunk = vec![b' '; 64 * 1024];
    // A part of it is thrown away, so that a client may read why.
    let sent = (0..8192).take_while(|_| connection.try_send(&chunk).is_ok()).count();
    assert!(sent < 8192, "512 MiB were taken");
    let grown = rss_kib(server.server_pid()).saturating_sub(before);
    assert!(grown < 16 * 1024, "{grown} KiB for a body of which 64 KiB may be kept");
    assert_eq!(refused(&mut server, "body"), 1.0);
    server.assert_alive();
}
