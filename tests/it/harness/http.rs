//! A small HTTP/1.1 client that can also misbehave.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use super::channel::{Channel, Trust};
use super::wait::DEADLINE;

/// A request; nothing is sent that is not listed here.
#[derive(Debug, Clone)]
pub(crate) struct HttpRequest {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpRequest {
    pub(crate) fn get(path: &str) -> Self {
        Self { method: "GET", path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    /// A JSON-RPC message as MCP posts it.
    pub(crate) fn post(path: &str, message: &Value) -> Self {
        Self::post_bytes(path, message.to_string().into_bytes())
    }

    /// The same, with any bytes as the body.
    pub(crate) fn post_bytes(path: &str, body: Vec<u8>) -> Self {
        Self { method: "POST", path: path.to_owned(), headers: Vec::new(), body }
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn head(&self, host: &str) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        let own_host = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
        if !own_host {
            head += &format!("Host: {host}\r\n");
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if ["POST", "PUT"].contains(&self.method) {
            head += &format!("Content-Length: {}\r\n", self.body.len());
        }
        head + "\r\n"
    }
}

/// One connection to the server.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    reader: BufReader<Channel>,
    host: String,
    deadline: Instant,
}

impl HttpConnection {
    /// Connects; everything on this connection must be over within the deadline.
    #[track_caller]
    pub(crate) fn open(address: &str) -> Self {
        Self::over(Channel::tcp(address), address)
    }

    /// The same over the unix socket at this path.
    #[track_caller]
    pub(crate) fn open_unix(path: &Path) -> Self {
        Self::over(Channel::unix(path), "localhost")
    }

    /// The same over TLS; `None` if the handshake fails or the server is not trusted.
    pub(crate) fn open_tls(address: &str, trust: &Trust) -> Option<Self> {
        Some(Self::over(Channel::tls(address, trust)?, address))
    }

    fn over(channel: Channel, host: &str) -> Self {
        let deadline = Instant::now() + DEADLINE;
        Self { reader: BufReader::new(channel), host: host.to_owned(), deadline }
    }

    /// Sends a whole request. A server that hangs up early is not an error here.
    pub(crate) fn send(&mut self, request: &HttpRequest) {
        let mut bytes = request.head(&self.host).into_bytes();
        bytes.extend_from_slice(&request.body);
        self.send_bytes(&bytes);
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.try_send(bytes).ok();
    }

    /// Sends any bytes, unless the server has hung up.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Ends our side of the connection, and only that.
    #[track_caller]
    pub(crate) fn end_input(&mut self) {
        self.reader.get_mut().end_input().expect("the connection is open");
    }

    /// Reads the status line and the headers.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> HttpAnswer<'_> {
        let status_line = self.line().expect("a status line");
        let status = status_line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.unwrap_or_else(|| panic!("not a status line: {status_line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line().expect("a header line");
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
        let body = BodyLeft::from_headers(status, &headers);
        HttpAnswer { status, headers, body: BufReader::new(Body { connection: self, left: body }) }
    }

    /// The status of a response; `None` if the server closed the connection instead.
    pub(crate) fn try_status(&mut self) -> Option<u16> {
        self.line().ok()?.split(' ').nth(1)?.parse().ok()
    }

    /// Reads everything until the server closes the connection.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        let mut buffer = [0; 1024];
        loop {
            match self.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) if is_hang_up(&error) => break,
                Err(error) => panic!("the server does not hang up: {error}"),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn line(&mut self) -> io::Result<String> {
        self.arm()?;
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    fn arm(&self) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.reader.get_ref().set_read_timeout(Some(left))
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.arm()?;
        self.reader.read(buffer)
    }
}

/// `true` if the server closed the connection; a TLS server does so without `close_notify`.
fn is_hang_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof)
}

/// The head of a response; its body is still to be read.
#[derive(Debug)]
pub(crate) struct HttpAnswer<'a> {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<Body<'a>>,
}

impl HttpAnswer<'_> {
    /// A header's value, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All headers, their names in lower case.
    pub(crate) fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The rest of the body as text.
    #[track_caller]
    pub(crate) fn text(self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// The rest of the body.
    #[track_caller]
    pub(crate) fn bytes(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.body.read_to_end(&mut bytes).expect("a whole body");
        bytes
    }

    /// The body, to be read in pieces.
    pub(crate) fn body(&mut self) -> &mut impl Read {
        &mut self.body
    }

    /// The next JSON-RPC message, whether the body is one JSON value or a stream of events.
    #[track_caller]
    pub(crate) fn message(&mut self) -> Option<Value> {
        let is_stream =
            self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        if is_stream { self.event() } else { self.json() }
    }

    fn json(&mut self) -> Option<Value> {
        let mut text = String::new();
        self.body.read_to_string(&mut text).expect("a whole body");
        if text.is_empty() { None } else { Some(serde_json::from_str(&text).expect("JSON")) }
    }

    fn event(&mut self) -> Option<Value> {
        let mut data = String::new();
        loop {
            let mut line = String::new();
            if self.body.read_line(&mut line).expect("a whole event") == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(rest) = line.strip_prefix("data:") {
                data.push_str(rest.trim_start());
            } else if line.is_empty() && !data.is_empty() {
                return Some(serde_json::from_str(&data).expect("JSON in an event"));
            }
        }
    }
}

#[derive(Debug)]
struct Body<'a> {
    connection: &'a mut HttpConnection,
    left: BodyLeft,
}

#[derive(Debug, Clone, Copy)]
enum BodyLeft {
    Length(usize),
    /// Bytes left in the current chunk; the next read at zero starts a chunk.
    Chunked(usize),
    UntilClose,
    Over,
}

impl BodyLeft {
    fn from_headers(status: u16, headers: &[(String, String)]) -> Self {
        let find = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, v)| v);
        if status == 204 || status == 304 {
            Self::Over
        } else if find("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            Self::Chunked(0)
        } else if let Some(length) = find("content-length") {
            Self::Length(length.parse().expect("a content length"))
        } else {
            Self::UntilClose
        }
    }
}

impl Body<'_> {
    /// Reads the size line of the next chunk; zero ends the body.
    fn start_chunk(&mut self) -> io::Result<usize> {
        let line = self.connection.line()?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)
            .map_err(io::Error::other)?;
        if size == 0 {
            self.connection.line()?;
            self.left = BodyLeft::Over;
        } else {
            self.left = BodyLeft::Chunked(size);
        }
        Ok(size)
    }

    fn read_up_to(&mut self, limit: usize, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(limit);
        self.connection.read(&mut buffer[..wanted])
    }
}

impl Read for Body<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.left {
            BodyLeft::Over | BodyLeft::Length(0) => Ok(0),
            BodyLeft::UntilClose => self.connection.read(buffer),
            BodyLeft::Length(left) => {
                let count = self.read_up_to(left, buffer)?;
                self.left = BodyLeft::Length(left - count);
                Ok(count)
            }
            BodyLeft::Chunked(0) => match self.start_chunk()? {
                0 => Ok(0),
                _ => self.read(buffer),
            },
            BodyLeft::Chunked(left) => {
                let count = self.read_up_to(left, buffer)?;
                if count == left {
                    self.connection.line()?;
                }
                self.left = BodyLeft::Chunked(left - count);
                Ok(count)
            }
        }
    }
}
