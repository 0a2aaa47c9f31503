//! The HTTP client that sends spans to a collector.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::error::AppError;
use crate::cli::terminal;
use crate::client::{ServerClient, ServerTarget};
use crate::telemetry::{events, otlp};

/// The time limit for sending one batch to a collector.
const BATCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends batches to a collector with the product's own HTTP client, on the server's runtime. Logs once
/// when the collector starts to refuse them, and once when it takes them again.
#[derive(Debug)]
struct SpanSender {
    client: ServerClient,
    runtime: Handle,
    is_failing: AtomicBool,
}

/// Starts to send every sampled span that ends to the collector at `endpoint`.
pub(super) fn export_to(endpoint: &str, runtime: &Handle) -> Result<otlp::SpanExport, AppError> {
    let target = ServerTarget::parse(&otlp::traces_url(endpoint), "/")?;
    let client = ServerClient::new(target, None)?;
    let sender =
        SpanSender { client, runtime: runtime.clone(), is_failing: AtomicBool::new(false) };
    Ok(otlp::start(endpoint, sender)?)
}

impl HttpClient for SpanSender {
    // The signature that the trait's `async_trait` macro generates.
    fn send_bytes<'life0, 'async_trait>(
        &'life0 self,
        request: Request<Bytes>,
    ) -> BoxFuture<'async_trait, Result<Response<Bytes>, HttpError>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async {
            // The exporter's thread has no runtime, which sockets need.
            let sending = self.runtime.spawn(send(self.client.clone(), request));
            let result = sending.await.unwrap_or_else(|stopped| Err(stopped.into()));
            self.log_change(&result);
            result
        })
    }
}

impl SpanSender {
    fn log_change(&self, result: &Result<Response<Bytes>, HttpError>) {
        let failure = match result {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("it answered {}", response.status())),
            Err(error) => Some(terminal::format_root_cause(error.as_ref())),
        };
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(why) if !was_failing => events::span_export_failed(&why),
            None if was_failing => events::span_export_recovered(),
            Some(_) | None => {}
        }
    }
}

async fn send(client: ServerClient, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (head, body) = request.into_parts();
    let exchange = client.request(head.method, head.uri.path(), head.headers, body);
    let answer = timeout(BATCH_TIMEOUT, exchange).await??;
    let mut response = Response::new(answer.body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::io::{BufRead, BufReader, Read, Write};
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

    #[derive(Clone, Default)]
    struct SpanLog(Arc<Mutex<Vec<u8>>>);

    impl Write for SpanLog {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_failing_collector_is_logged_once() {
        let (listener, endpoint) = listener();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let target = ServerTarget::parse(&otlp::traces_url(&endpoint), "/").unwrap();
        let sender = SpanSender {
            client: ServerClient::new(target, None).unwrap(),
            runtime: runtime.handle().clone(),
            is_failing: AtomicBool::new(false),
        };
        let answers = ["503 Busy", "503 Busy", "200 OK", "200 OK"];
        let receiving = thread::spawn(move || {
            for status in answers {
                receive(&listener, status);
            }
            // A process that another test is just creating may hold a copy of the socket.
            rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        });
        let log = SpanLog::default();
        let lines = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || lines.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            let send = || runtime.block_on(sender.send_bytes(Request::new(Bytes::from("batch"))));
            for status in answers {
                assert!(status.starts_with(send().unwrap().status().as_str()));
            }
            receiving.join().unwrap();
            for _ in 0..2 {
                assert!(send().is_err(), "the listener is closed");
            }
        });
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(log.matches("spans lost").count(), 2, "{log}");
        assert_eq!(log.matches("accepts spans again").count(), 1, "{log}");
        assert!(log.contains("it answered 503") && log.contains("Connection refused"), "{log}");
    }
}
