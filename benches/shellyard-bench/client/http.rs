//! One kept connection, bytes out, bytes in.

use std::borrow::Cow;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use memchr::memmem;
use rustix::buffer::spare_capacity;
use serde_json::{Value, json};

use super::Call;

const READ_BYTES: usize = 256 << 10;

/// A connection that calls tools, and the API of HTTP.
#[derive(Debug)]
pub(crate) struct HttpClient {
    stream: TcpStream,
    /// Bytes of the next answer that have arrived.
    buffer: Vec<u8>,
    /// A header line for each request, or nothing.
    authorization: String,
}

impl HttpClient {
    /// Connects to the server.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a TCP socket");
        Self { stream, buffer: Vec::new(), authorization: String::new() }
    }

    /// The same, with this token on each request.
    pub(crate) fn with_token(self, token: &str) -> Self {
        Self { authorization: format!("Authorization: Bearer {token}\r\n"), ..self }
    }

    /// Sends a call; its answer is to be read before the next.
    pub(crate) fn send(&mut self, call: &Call) {
        let request = call.request(&self.authorization);
        self.stream.write_all(&request).expect("the server reads");
    }

    /// Reads once, which waits unless something has come: the body of the answer, once it is whole.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        self.buffer.reserve(READ_BYTES);
        let count = rustix::io::read(&self.stream, spare_capacity(&mut self.buffer));
        assert_ne!(count.expect("the server answers in time"), 0, "the server hung up");
        let (body, end) = answer(&self.buffer)?;
        assert_eq!(end, self.buffer.len(), "one answer to one request");
        let body = body.into_owned();
        self.buffer.clear();
        Some(body)
    }

    /// Sends a call and waits for its answer.
    pub(crate) fn call(&mut self, call: &Call) -> Vec<u8> {
        self.send(call);
        self.await_answer()
    }

    /// The structured form of a call's answer.
    pub(crate) fn structured(&mut self, tool: &str, arguments: &Value) -> Value {
        self.result(tool, arguments)["structuredContent"].take()
    }

    /// The result of a call.
    fn result(&mut self, tool: &str, arguments: &Value) -> Value {
        let text = String::from_utf8(self.call(&Call::new(tool, arguments))).expect("text");
        let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let mut messages = events
            .chain([text.as_str()])
            .filter_map(|message| serde_json::from_str::<Value>(message).ok());
        let answer = messages.find(|message| message.get("result").is_some());
        assert!(answer.is_some(), "{tool} was answered with {text}");
        answer.unwrap_or_default()["result"].take()
    }

    /// Runs a command without waiting for it: the number of its job.
    pub(crate) fn run(&mut self, command: &str) -> u64 {
        let status = self.structured("run_command", &json!({"command": command, "wait_s": 0}));
        status["job"].as_u64().expect("a job")
    }

    /// The same, of a server that answers with text.
    pub(crate) fn run_by_text(&mut self, command: &str) -> u64 {
        let result = self.result("run_command", &json!({"command": command, "wait_s": 0}));
        let text = result["content"][0]["text"].as_str().expect("a text");
        let words: Vec<&str> = text.split_whitespace().collect();
        let job =
            words.windows(2).find_map(|pair| pair[1].parse().ok().filter(|_| pair[0] == "job"));
        job.expect("a job")
    }

    /// Waits for the end of a job: what it was.
    pub(crate) fn await_end(&mut self, job: u64) -> Value {
        let wait = json!({"jobs": [job], "wait_s": 45});
        loop {
            let status = self.structured("wait_jobs", &wait)["jobs"][0].clone();
            if status["state"] == "finished" {
                return status;
            }
        }
    }

    /// Returns the numbers of running and queued jobs.
    pub(crate) fn running_and_queued(&mut self) -> [u64; 2] {
        let queue: Value = serde_json::from_slice(&self.get("/api/v1/queue")).expect("JSON");
        ["running", "queued"].map(|field| queue[field].as_u64().expect("a number"))
    }

    /// Gets what is at this path.
    pub(crate) fn get(&mut self, path: &str) -> Vec<u8> {
        self.exchange(&format!("GET {path} HTTP/1.1\r\n"), "")
    }

    /// Posts an empty object to this path.
    pub(crate) fn post(&mut self, path: &str) -> Vec<u8> {
        let head = format!("POST {path} HTTP/1.1\r\nContent-Type: application/json\r\n");
        self.exchange(&head, "{}")
    }

    fn exchange(&mut self, head: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        let common = format!("{}Host: localhost\r\nContent-Length: {length}", self.authorization);
        let request = format!("{head}{common}\r\n\r\n{body}");
        self.stream.write_all(request.as_bytes()).expect("the server reads");
        self.await_answer()
    }

    fn await_answer(&mut self) -> Vec<u8> {
        loop {
            if let Some(body) = self.receive() {
                return body;
            }
        }
    }
}

impl AsFd for HttpClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The body of the answer that these bytes begin with, and where it ends; nothing until all of it
/// is there.
fn answer(bytes: &[u8]) -> Option<(Cow<'_, [u8]>, usize)> {
    const LENGTH: &[u8] = b"content-length: ";
    let start = memmem::find(bytes, b"\r\n\r\n")? + 4;
    let head = &bytes[..start];
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(bytes));
    let Some(at) = memmem::find(head, LENGTH) else { return chunked(bytes, start) };
    let end = start + number(&head[at + LENGTH.len()..], 10);
    Some((bytes.get(start..end)?.into(), end))
}

fn chunked(bytes: &[u8], start: usize) -> Option<(Cow<'_, [u8]>, usize)> {
    let (mut body, mut at) = (Vec::new(), start);
    loop {
        let data = at + memmem::find(bytes.get(at..)?, b"\r\n")? + 2;
        let size = number(&bytes[at..], 16);
        body.extend_from_slice(bytes.get(data..data + size)?);
        at = data + size + 2;
        if size == 0 {
            return (at <= bytes.len()).then_some((body.into(), at));
        }
    }
}

/// The number that the line begins with.
fn number(line: &[u8], radix: u32) -> usize {
    let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
    let digits: String = line.iter().take_while(is_digit).copied().map(char::from).collect();
    usize::from_str_radix(&digits, radix).expect("a length")
}
