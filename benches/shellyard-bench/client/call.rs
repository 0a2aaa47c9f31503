//! JSON-RPC requests as prepared bytes.

use memchr::memmem;
use serde_json::{Value, json};

const VERSION: &str = "2026-07-28";

/// A `tools/call` of the modern era, ready to be sent any number of times.
#[derive(Debug)]
pub(crate) struct Call {
    tool: String,
    /// The bytes after the id.
    rest: String,
}

impl Call {
    pub(crate) fn new(tool: &str, arguments: &Value) -> Self {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let rest = format!(r#","method":"tools/call","params":{params}}}"#);
        Self { tool: tool.to_owned(), rest }
    }

    /// The call that most is measured with.
    pub(crate) fn echo() -> Self {
        Self::new("run_command", &json!({"command": "echo hi"}))
    }

    pub(crate) fn body(&self, id: u64) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id}{}"#, self.rest)
    }

    /// As a request of HTTP, with this header line or none.
    pub(crate) fn request(&self, authorization: &str) -> Vec<u8> {
        let body = self.body(1);
        let head = format!(
            "POST /mcp HTTP/1.1\r\n{authorization}Host: localhost\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: {VERSION}\r\nMcp-Method: tools/call\r\nMcp-Name: {}\r\n\
             Content-Length: {}\r\n\r\n",
            self.tool,
            body.len()
        );
        (head + &body).into_bytes()
    }
}

/// The answer to [`Call::echo`] must tell its end and its output, as text.
pub(crate) fn check_echo(answer: &[u8]) {
    let is_right =
        memmem::find(answer, b"exit 0").is_some() && memmem::find(answer, br#"\nhi""#).is_some();
    assert!(is_right, "{}", String::from_utf8_lossy(answer));
}
