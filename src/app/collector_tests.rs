use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

use super::*;
use crate::telemetry::spans::{Span, SpanKind};
use crate::trace::TraceContext;

/// Takes one request, answers it with this status, and gives its path and body.
fn receive(listener: &TcpListener, status: &str) -> (String, Vec<u8>) {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream);
    let (mut path, mut length) = (String::new(), 0);
    for line in reader.by_ref().lines().map(Result::unwrap) {
        match line.to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None if line.is_empty() => break,
            None => path = line,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    write!(reader.get_mut(), "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
    (path, body)
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    (listener, endpoint)
}

/// The only test that exports what spans this process makes: the first export stays.
#[test]
fn spans_reach_the_collector_at_the_end_at_the_latest() {
    let (listener, endpoint) = listener();
    let receiving = thread::spawn(move || receive(&listener, "200 OK"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let export = export_to(&endpoint, runtime.handle()).unwrap();
    let parent = TraceContext::root();
    let mut call = Span::begin(SpanKind::Server, "tools/call".to_owned(), Some(&parent));
    let job = Span::begin(SpanKind::Internal, "job".to_owned(), Some(call.context()));
    let (call_id, job_id) = (call.context().span_id.bytes(), job.context().span_id.bytes());
    call.note("tool", "run_command");
    drop(job);
    drop(call);
    let unsampled = TraceContext { is_sampled: false, ..parent.clone() };
    drop(Span::begin(SpanKind::Internal, "unwanted".to_owned(), Some(&unsampled)));
    drop(export);
    let (path, body) = receiving.join().unwrap();
    assert_eq!(path, "POST /v1/traces HTTP/1.1");
    let sent = ExportTraceServiceRequest::decode(&*body).unwrap().resource_spans;
    let resource = sent[0].resource.as_ref().unwrap();
    let names: Vec<_> = resource.attributes.iter().map(|pair| pair.key.as_str()).collect();
    for known in ["service.name", "service.version", "host.name", "process.pid"] {
        assert!(names.contains(&known), "{known} in {names:?}");
    }
    // Other tests of this process may have spans of their own.
    let ours = sent.iter().flat_map(|it| &it.scope_spans).flat_map(|it| &it.spans);
    let mut spans: Vec<_> = ours.filter(|it| it.trace_id == parent.trace_id.bytes()).collect();
    spans.sort_by_key(|span| span.name.clone());
    assert_eq!(spans.len(), 2, "{spans:?}");
    assert_eq!((&*spans[0].name, &*spans[0].span_id), ("job", &job_id[..]));
    assert_eq!(spans[0].parent_span_id, call_id);
    assert_eq!((&*spans[1].name, &*spans[1].span_id), ("tools/call", &call_id[..]));
    assert_eq!(spans[1].parent_span_id, parent.span_id.bytes());
    assert_eq!(spans[1].attributes[0].key, "tool");
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
