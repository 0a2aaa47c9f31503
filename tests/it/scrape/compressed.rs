//! The size of a scrape: few series on an idle server, and compressed for clients that accept it.

use std::io::Read;

use super::scraped;
use crate::harness::{Era, HttpConnection, HttpRequest, Launch};

#[test]
fn metrics_are_compressed_for_clients_that_accept_it_on_the_socket_too() {
    let mut server = Launch::http().era(Era::Modern).start();
    let socket = server.sandbox().data().join("shellyard.sock");
    let address = server.http().address().to_owned();
    let plain = scraped(&mut server);
    let connections = [HttpConnection::open(&address), HttpConnection::open_unix(&socket)];
    for (mut connection, coding) in connections.into_iter().zip(["gzip", "zstd"]) {
        let accepted = format!("{coding};q=1, identity;q=0.5");
        connection.send(&HttpRequest::get("/metrics").header("Accept-Encoding", &accepted));
        let answer = connection.answer();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-encoding"), Some(coding));
        assert_eq!(answer.header("vary"), Some("accept-encoding"));
        let kind = answer.header("content-type").expect("a type").to_owned();
        assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
        let body = answer.bytes();
        assert!(body.len() < plain.len() / 3, "{} of {} bytes", body.len(), plain.len());
        let mut text = String::new();
        let read = match coding {
            "gzip" => flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut text),
            _ => zstd::Decoder::new(&body[..]).expect("zstd").read_to_string(&mut text),
        };
        read.expect("text");
        assert!(text.contains("\nshellyard_jobs_submitted_total 0\n"), "{text}");
    }
}

#[test]
fn an_idle_server_has_few_series() {
    let mut server = Launch::http().era(Era::Modern).start_silent();
    let text = scraped(&mut server);
    let samples = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let zeros = samples.clone().filter(|line| line.ends_with(" 0")).count();
    let samples = samples.count();
    assert!(samples < 450, "{samples} samples, {zeros} of them zero: {text}");
}
