//! A client that costs little: one kept connection, bytes out, bytes in.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

const VERSION: &str = "2026-07-28";

/// A kept connection that calls tools.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// A header line for each request, or nothing.
    authorization: String,
}

/// A tool call, ready to be sent any number of times.
#[derive(Debug)]
pub(crate) struct Call {
    /// The first line.
    line: &'static str,
    rest: Vec<u8>,
}

impl Call {
    /// A `tools/call` of the modern era with its headers.
    pub(crate) fn new(tool: &str, arguments: &Value) -> Self {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
            .to_string();
        let head = format!(
            "Host: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {VERSION}\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Self { line: "POST /mcp HTTP/1.1\r\n", rest: (head + &body).into_bytes() }
    }
}

impl Client {
    /// Connects.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a TCP socket");
        Self { stream, buffer: Vec::with_capacity(1 << 16), authorization: String::new() }
    }

    /// The same, with this token on each request.
    pub(crate) fn with_token(self, token: &str) -> Self {
        Self { authorization: format!("Authorization: Bearer {token}\r\n"), ..self }
    }

    /// Posts JSON to a path of the API.
    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Vec<u8> {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\n{}Host: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.authorization,
            body.len()
        );
        self.exchange(request.as_bytes())
    }

    /// Sends a call and reads the whole answer: its body, as it came.
    pub(crate) fn send(&mut self, call: &Call) -> Vec<u8> {
        let head = [call.line, &self.authorization].concat();
        self.exchange(&[head.as_bytes(), &call.rest].concat())
    }

    fn exchange(&mut self, request: &[u8]) -> Vec<u8> {
        self.stream.write_all(request).expect("the server reads");
        let head_end = self.await_text(0, b"\r\n\r\n") + 4;
        let head = String::from_utf8_lossy(&self.buffer[..head_end]).to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{head}");
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let (body, end) = match length {
            Some(length) => self.plain_body(head_end, length.trim().parse().expect("a length")),
            None => self.chunked_body(head_end),
        };
        self.buffer.drain(..end);
        body
    }

    /// How many jobs run, wait, and have finished.
    pub(crate) fn counts(&mut self) -> [usize; 3] {
        let result = self.result("list_jobs", &json!({"limit": 1}));
        let text = result["content"][0]["text"].as_str().expect("a headline");
        let mut numbers = text.split([' ', ',']).filter_map(|word| word.parse().ok());
        std::array::from_fn(|_| numbers.next().expect("three numbers"))
    }

    /// The structured form of a call's answer.
    pub(crate) fn structured(&mut self, tool: &str, arguments: &Value) -> Value {
        self.result(tool, arguments)["structuredContent"].clone()
    }

    fn result(&mut self, tool: &str, arguments: &Value) -> Value {
        let body = self.send(&Call::new(tool, arguments));
        let text = String::from_utf8(body).expect("text");
        let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let messages = events.chain([text.as_str()]);
        let answer = messages
            .filter_map(|message| serde_json::from_str::<Value>(message).ok())
            .find(|message| message.get("result").is_some());
        assert!(answer.is_some(), "{tool} was answered with {text}");
        let answer = answer.unwrap_or_default();
        answer["result"].clone()
    }

    fn plain_body(&mut self, start: usize, length: usize) -> (Vec<u8>, usize) {
        let end = start + length;
        self.fill_to(end);
        (self.buffer[start..end].to_vec(), end)
    }

    fn chunked_body(&mut self, start: usize) -> (Vec<u8>, usize) {
        let mut body = Vec::new();
        let mut at = start;
        loop {
            let line_end = self.await_text(at, b"\r\n");
            let line = String::from_utf8_lossy(&self.buffer[at..line_end]).into_owned();
            let size = usize::from_str_radix(line.trim(), 16).expect("the size of a chunk");
            let data = line_end + 2;
            self.fill_to(data + size + 2);
            body.extend_from_slice(&self.buffer[data..data + size]);
            at = data + size + 2;
            if size == 0 {
                return (body, at);
            }
        }
    }

    /// Where `wanted` stands at or after `from`, once it has arrived.
    fn await_text(&mut self, from: usize, wanted: &[u8]) -> usize {
        loop {
            let found = self.buffer.get(from..).and_then(|rest| memchr::memmem::find(rest, wanted));
            if let Some(index) = found {
                return from + index;
            }
            self.fill();
        }
    }

    fn fill_to(&mut self, length: usize) {
        while self.buffer.len() < length {
            self.fill();
        }
    }

    fn fill(&mut self) {
        let mut chunk = [0; 1 << 16];
        let count = self.stream.read(&mut chunk).expect("the server answers in time");
        assert_ne!(count, 0, "the server hung up");
        self.buffer.extend_from_slice(&chunk[..count]);
    }
}
