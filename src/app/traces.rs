//! Where spans go.

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
use crate::config::{Loaded, ValueOrigin};
use crate::telemetry::{events, otlp, spans};

/// Spans that are handed over as long as this lives; what is left is when it ends, within a bound.
#[derive(Debug, Default)]
#[must_use = "dropping it ends the export"]
pub(super) struct Traces {
    #[cfg(feature = "otlp")]
    _export: Option<otlp::SpanExport>,
}

/// Begins to export, where the settings say so. Drop what it returns before `runtime`, which
/// carries the last spans.
pub(super) fn start(loaded: &Loaded, runtime: &Handle) -> Result<Traces, AppError> {
    let settings = &loaded.settings.trace;
    spans::set_sample_ratio(settings.sample);
    match (&settings.otlp_endpoint, loaded.origin("trace.otlp_endpoint")) {
        // It may well be meant for other programs.
        (Some(endpoint), Some(ValueOrigin::Variable(name))) if !CAN_EXPORT && name == STANDARD => {
            events::span_export_not_built(endpoint);
            Ok(Traces::default())
        }
        (Some(endpoint), _) => export(endpoint, runtime),
        (None, _) => Ok(Traces::default()),
    }
}

const CAN_EXPORT: bool = cfg!(feature = "otlp");

/// The variable by which all programs are told where a collector is.
const STANDARD: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

#[cfg(feature = "otlp")]
fn export(endpoint: &str, runtime: &Handle) -> Result<Traces, AppError> {
    Ok(Traces { _export: Some(export_to(endpoint, runtime)?) })
}

#[cfg(not(feature = "otlp"))]
fn export(endpoint: &str, _: &Handle) -> Result<Traces, AppError> {
    Err(AppError::NoOtlp { endpoint: endpoint.to_owned() })
}

// The transport of spans to a collector: our own client, on the server's runtime.

/// What a collector gets to take one batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Carries batches to a collector, and tells once that it does not take them.
#[derive(Debug)]
struct Courier {
    client: ServerClient,
    runtime: Handle,
    is_failing: AtomicBool,
}

/// From now on every sampled span that ends is handed to the collector there.
pub(super) fn export_to(endpoint: &str, runtime: &Handle) -> Result<otlp::SpanExport, AppError> {
    let target = ServerTarget::parse(&otlp::traces_url(endpoint), "/")?;
    let client = ServerClient::new(target, None)?;
    let courier = Courier { client, runtime: runtime.clone(), is_failing: AtomicBool::new(false) };
    Ok(otlp::start(endpoint, courier)?)
}

impl HttpClient for Courier {
    // As the trait's macro spells an asynchronous function.
    fn send_bytes<'life0, 'async_trait>(
        &'life0 self,
        request: Request<Bytes>,
    ) -> BoxFuture<'async_trait, Result<Response<Bytes>, HttpError>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async {
            // The exporter's thread has no runtime, and sockets need one.
            let sending = self.runtime.spawn(send(self.client.clone(), request));
            let answer = sending.await.unwrap_or_else(|stopped| Err(stopped.into()));
            self.tell(&answer);
            answer
        })
    }
}

impl Courier {
    fn tell(&self, answer: &Result<Response<Bytes>, HttpError>) {
        let failure = match answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answered {}", answer.status())),
            Err(error) => Some(terminal::root_cause(error.as_ref())),
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
        let target = ServerTarget::parse(&otlp::traces_url(&endpoint), "/").unwrap();
        let courier = Courier {
            client: ServerClient::new(target, None).unwrap(),
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
}
