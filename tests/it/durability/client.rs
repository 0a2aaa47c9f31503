//! A client that goes on when its server goes away.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{DEADLINE, Era, HttpLink, Reply, bytes_of};

/// The pause before a call is repeated.
const PAUSE: Duration = Duration::from_millis(30);

/// The code words of errors after which a client sends the same request again.
const RETRYABLE: [&str; 5] =
    ["server_lost", "server_unreachable", "interrupted", "draining", "shutting_down"];

/// A client of an HTTP server that may die at any moment.
#[derive(Debug, Clone)]
pub(super) struct DurableClient {
    link: HttpLink,
    next_id: u64,
    /// Calls that got no answer, or an error that asks for a repetition.
    pub(super) repeated: u64,
}

impl DurableClient {
    pub(super) fn new(address: &str) -> Self {
        let mut link = HttpLink::new(Era::Modern);
        link.connect_to(address.to_owned());
        Self { link, next_id: 0, repeated: 0 }
    }

    /// Calls a tool once; an error means that nobody knows whether the call had an effect.
    pub(super) fn try_call(&mut self, tool: &str, arguments: &Value) -> io::Result<Reply> {
        self.next_id += 1;
        let params = json!({"name": tool, "arguments": arguments});
        let message = Era::Modern.request(self.next_id, "tools/call", params);
        let request = self.link.request(&message);
        let mut head = format!("POST {} HTTP/1.1\r\nHost: localhost\r\n", request.path);
        for (name, value) in &request.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Connection: close\r\nContent-Length: {}\r\n\r\n", request.body.len());
        let mut stream = TcpStream::connect(self.link.address())?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.write_all(&[head.as_bytes(), &request.body].concat())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        find_answer(&String::from_utf8_lossy(&answer), self.next_id).map(Reply)
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
        let page = self.call("read_output", &arguments).ok().structured().clone();
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

/// Finds the JSON-RPC answer in an HTTP response: a JSON body, or events.
fn find_answer(response: &str, id: u64) -> io::Result<Value> {
    let lines = response.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    let mut values = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_answer =
        |value: &Value| value["id"] == id || (value["id"].is_null() && value["error"].is_object());
    let found = values.find(|value| value.is_object() && is_answer(value));
    found.ok_or_else(|| io::Error::other(format!("no answer in {response:?}")))
}
