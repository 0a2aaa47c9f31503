//! A client that goes on when its server goes away.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{DEADLINE, Era, HttpLink, HttpRequest, Reply, bytes_of};

/// The pause before a call is repeated.
const PAUSE: Duration = Duration::from_millis(30);

/// The code words of errors after which a client sends the same request again.
const RETRYABLE: [&str; 5] =
    ["server_lost", "server_unreachable", "interrupted", "draining", "shutting_down"];

/// The address of a server. It changes when another keeper starts.
#[derive(Debug, Clone)]
pub(super) struct ServerAddress(Arc<Mutex<String>>);

impl ServerAddress {
    pub(super) fn new(address: &str) -> Self {
        Self(Arc::new(Mutex::new(address.to_owned())))
    }

    pub(super) fn set(&self, address: &str) {
        address.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A client of an HTTP server that may die at any moment.
#[derive(Debug, Clone)]
pub(super) struct DurableClient {
    link: HttpLink,
    address: ServerAddress,
    next_id: u64,
    /// Calls that got no answer, or an error that asks for a repetition.
    pub(super) repeated: u64,
}

impl DurableClient {
    pub(super) fn new(address: &str) -> Self {
        Self::following(&ServerAddress::new(address))
    }

    /// Creates a client that finds the server where this says, at any time.
    pub(super) fn following(address: &ServerAddress) -> Self {
        let (link, address) = (HttpLink::new(Era::Modern), address.clone());
        Self { link, address, next_id: 0, repeated: 0 }
    }

    /// Calls a tool once; an error means that nobody knows whether the call had an effect.
    pub(super) fn try_call(&mut self, tool: &str, arguments: &Value) -> io::Result<Reply> {
        self.next_id += 1;
        let params = json!({"name": tool, "arguments": arguments});
        let message = Era::Modern.request(self.next_id, "tools/call", params);
        find_answer(&self.exchange(&self.link.request(&message))?, self.next_id).map(Reply)
    }

    /// Sends a request once, and returns the whole answer as text.
    fn exchange(&self, request: &HttpRequest) -> io::Result<String> {
        let (method, path) = (request.method, &request.path);
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        for (name, value) in &request.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Connection: close\r\nContent-Length: {}\r\n\r\n", request.body.len());
        let mut stream = TcpStream::connect(self.address.get())?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.write_all(&[head.as_bytes(), &request.body].concat())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Sends a request to the API until a server answers it with this status; returns the body. The
    /// request must be one that can be repeated.
    #[track_caller]
    pub(super) fn request_api(&mut self, request: &HttpRequest, status: u16) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let answer = self.exchange(request);
            match answer.as_deref().map(parse_api_answer) {
                Ok(Some((found, body))) if found == status => return body,
                // The server ends, or ended before it could answer.
                Ok(None | Some((503, _))) | Err(_) => {}
                Ok(Some(other)) => panic!("{} {}: {other:?}", request.method, request.path),
            }
            assert!(Instant::now() < deadline, "{} {}: {answer:?}", request.method, request.path);
            self.repeated += 1;
            thread::sleep(PAUSE);
        }
    }

    /// Stops a job over the API, which answers once the stop has begun.
    #[track_caller]
    pub(super) fn stop(&mut self, job: u64, grace_s: f64) -> Value {
        let path = format!("/api/v1/jobs/{job}/stop");
        self.request_api(&HttpRequest::post(&path, &json!({"grace_s": grace_s})), 200)
    }

    /// Calls a tool until there is an answer. The call must be one that can be repeated.
    #[track_caller]
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Reply {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.try_call(tool, arguments) {
                Ok(reply) if !is_retryable(&reply) => return reply,
                other => {
                    assert!(Instant::now() < deadline, "{tool} {arguments}: {other:?}");
                    self.repeated += 1;
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    /// One raw page of a log; its structured form and its bytes.
    #[track_caller]
    pub(super) fn read_raw(&mut self, job: u64, from: u64) -> (Value, Vec<u8>) {
        let arguments = json!({
            "job": job, "view": "raw", "cursor": format!("bytes:{from}"), "max_bytes": 256 * 1024,
        });
        let mut reply = self.call("read_output", &arguments);
        // The ending of such a job is an error of every call about it.
        if reply["outcome"] != "failed_to_start" {
            reply = reply.ok();
        }
        let page = reply.structured().clone();
        let bytes = bytes_of(&page);
        (page, bytes)
    }

    /// The whole log of a job, read from its start, and the last page of it.
    #[track_caller]
    pub(super) fn read_all(&mut self, job: u64) -> (Value, Vec<u8>) {
        let mut bytes = Vec::new();
        let mut from = 0;
        loop {
            let (page, more) = self.read_raw(job, from);
            bytes.extend(more);
            from = page["bytes_end"].as_u64().expect("a page has an end");
            if page["end"] != "more" {
                return (page, bytes);
            }
        }
    }

    /// The state of a job without its output.
    #[track_caller]
    pub(super) fn status(&mut self, job: u64) -> Value {
        let reply = self.call("wait_jobs", &json!({"jobs": [job], "wait_s": 0})).ok();
        reply.only_job().clone()
    }

    /// Waits for the end of a job, through any number of restarts.
    #[track_caller]
    pub(super) fn wait_finished(&mut self, job: u64) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let reply = self.call("wait_jobs", &json!({"jobs": [job], "wait_s": 5})).ok();
            let status = reply.only_job().clone();
            if status["state"] == "finished" {
                return status;
            }
            assert!(Instant::now() < deadline, "job {job} does not end: {status}");
        }
    }
}

/// `true` if the server asks for a repetition.
fn is_retryable(reply: &Reply) -> bool {
    let error = &reply.0["error"];
    let structured = &reply.0["result"]["structuredContent"];
    let code = error["data"]["code"].as_str().or_else(|| structured["error_code"].as_str());
    let is_marked = error["data"]["retryable"] == true || structured["retryable"] == true;
    is_marked || (reply.is_error() && code.is_some_and(|code| RETRYABLE.contains(&code)))
}

/// Parses the status and the JSON of an answer of the API; `None` if it is not complete.
fn parse_api_answer(answer: &str) -> Option<(u16, Value)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}

/// Finds the JSON-RPC answer in an HTTP response: a JSON body, or events.
fn find_answer(response: &str, id: u64) -> io::Result<Value> {
    let lines = response.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    let mut values = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_answer =
        |value: &Value| value["id"] == id || (value["id"].is_null() && value["error"].is_object());
    let found = values.find(|value| value.is_object() && is_answer(value));
    found.ok_or_else(|| io::Error::other(format!("no answer in {response:?}")))
}
