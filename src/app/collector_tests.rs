use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::*;

/// Takes one request and answers it with this status.
fn receive(listener: &TcpListener, status: &str) {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    for line in reader.by_ref().lines().map(Result::unwrap) {
        match line.to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            None if line.is_empty() => break,
            Some(_) | None => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    write!(reader.get_mut(), "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    (listener, endpoint)
}

/// A log that can be looked into.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_collector_that_does_not_take_spans_is_told_of_once() {
    let (listener, endpoint) = listener();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let target = Target::parse(&otlp::traces_url(&endpoint), "/").unwrap();
    let courier = Courier {
        client: Client::new(target, None).unwrap(),
        runtime: runtime.handle().clone(),
        is_failing: AtomicBool::new(false),
    };
    let answers = ["503 Busy", "503 Busy", "200 OK", "200 OK"];
    let receiving = thread::spawn(move || {
        for status in answers {
            receive(&listener, status);
        }
        // A child of another test that is being born may hold a copy.
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
    });
    let log = Log::default();
    let lines = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || lines.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        let send = || runtime.block_on(courier.send_bytes(Request::new(Bytes::from("batch"))));
        for status in answers {
            assert!(status.starts_with(send().unwrap().status().as_str()));
        }
        receiving.join().unwrap();
        for _ in 0..2 {
            assert!(send().is_err(), "nobody listens any more");
        }
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(log.matches("spans are lost").count(), 2, "{log}");
    assert_eq!(log.matches("takes spans again").count(), 1, "{log}");
    assert!(log.contains("it answered 503") && log.contains("Connection refused"), "{log}");
}
