//! Spans of calls and of their jobs, as a collector gets them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message;
use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Launch, Sandbox, TestServer, eventually_some, output_of};

const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
const CALLER: u64 = 0x00f0_67aa_0ba9_02b7;

/// A collector that keeps what it is sent.
struct Collector {
    endpoint: String,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        // By its name: where the server listens is told by address.
        let port = listener.local_addr().expect("it is bound").port();
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bodies);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(stream);
                let body = body_of(&mut reader);
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(body);
                // Not before: whoever has its answer may end.
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                reader.get_mut().write_all(answer).expect("it waits");
            }
        });
        Self { endpoint: format!("http://localhost:{port}"), bodies }
    }

    /// All that was sent so far, by whoever sent it.
    fn sent(&self) -> Vec<ResourceSpans> {
        let bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        bodies
            .iter()
            .map(|body| ExportTraceServiceRequest::decode(&**body).expect("a batch of spans"))
            .flat_map(|batch| batch.resource_spans)
            .collect()
    }

    fn all_spans(&self) -> Vec<Span> {
        let scopes = self.sent().into_iter().flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// All spans of the caller's trace so far.
    fn spans(&self) -> Vec<Span> {
        let mut spans = self.all_spans();
        spans.retain(|span| span.trace_id == TRACE.to_be_bytes());
        spans
    }
}

/// The body of one request.
fn body_of(reader: &mut BufReader<TcpStream>) -> Vec<u8> {
    let mut length = 0;
    for line in reader.by_ref().lines().map_while(Result::ok) {
        match line.to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().expect("a length"),
            Some(_) => {}
            None if line.is_empty() => break,
            None => assert!(line.starts_with("POST /v1/traces "), "{line}"),
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a whole body");
    body
}

#[track_caller]
fn run(server: &mut TestServer, flags: &str) {
    let meta = json!({"traceparent": format!("00-{TRACE:032x}-{CALLER:016x}-{flags}")});
    let arguments = json!({"command": "echo hunter2"});
    server.rpc("tools/call", json!({"name": "run_command", "arguments": arguments, "_meta": meta}));
}

#[test]
fn a_call_and_its_job_are_spans_of_the_callers_trace_and_tell_no_command() {
    for launch in Launch::both() {
        let collector = Collector::start();
        let mut server = launch.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint).start();
        run(&mut server, "01");
        let spans = eventually_some("a call and a job arrive", || {
            Some(collector.spans()).filter(|spans| spans.len() >= 2)
        });
        let call = spans.iter().find(|span| span.parent_span_id == CALLER.to_be_bytes());
        let call = call.unwrap_or_else(|| panic!("no child of the caller's span in {spans:#?}"));
        let job = spans.iter().find(|span| span.parent_span_id == call.span_id);
        let job = job.unwrap_or_else(|| panic!("no child of {call:#?} in {spans:#?}"));
        assert!(call.start_time_unix_nano <= job.start_time_unix_nano, "{spans:#?}");
        assert!(!format!("{spans:?}").contains("hunter2"), "{spans:#?}");
    }
}

#[test]
fn the_last_spans_are_sent_before_the_end_and_what_the_caller_does_not_sample_never() {
    let collector = Collector::start();
    let launch = Launch::http().env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint);
    let mut server = launch.start();
    run(&mut server, "00");
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    assert_eq!(collector.spans(), []);
    let mut server = Launch::http().env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint).start();
    run(&mut server, "01");
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    assert!(collector.spans().len() >= 2, "{:#?}", collector.spans());
}

#[test]
fn a_list_is_about_no_job() {
    let collector = Collector::start();
    let launch = Launch::stdio().env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint);
    let mut server = launch.args(&["--slots", "1"]).start();
    server.start("sleep 60");
    server.start("sleep 60");
    server.call("list_jobs", json!({}));
    let list = eventually_some("the call arrives", || {
        collector.all_spans().into_iter().find(|span| span.name == "tools/call list_jobs")
    });
    assert!(list.attributes.iter().all(|it| it.key != "shellyard.job"), "{list:#?}");
}

#[test]
fn a_single_run_is_a_trace_of_its_own_under_the_name_that_is_wished_for() {
    let collector = Collector::start();
    let run = |share: &str| {
        let sandbox = Sandbox::new();
        let mut command = sandbox.command();
        command
            .args(["run", "--", "true"])
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint)
            .env("OTEL_SERVICE_NAME", "yard-of-mine")
            .env("SHELLYARD_TRACE_SAMPLE", share);
        assert!(output_of(command, "").status.success());
    };
    run("0");
    assert_eq!(collector.all_spans(), []);
    run("1");
    let spans = collector.all_spans();
    let root = spans.iter().find(|span| span.parent_span_id.is_empty());
    let root = root.unwrap_or_else(|| panic!("no beginning in {spans:#?}"));
    let job = spans.iter().find(|span| span.name == "job").expect("a job");
    assert_eq!(job.parent_span_id, root.span_id, "{spans:#?}");
    let sent = format!("{:?}", collector.sent());
    assert!(sent.contains("yard-of-mine"), "{sent}");
}
