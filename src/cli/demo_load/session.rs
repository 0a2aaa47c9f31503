//! One MCP session over HTTP, as a client of 2025-11-25 has it.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::deed::Call;
use crate::cli::ask::AskError;
use crate::client::{Answer, Client};

const REVISION: &str = "2025-11-25";
const SESSION: &str = "mcp-session-id";

/// One MCP session. Calls may be in flight side by side.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    headers: HeaderMap,
    ids: AtomicU64,
}

impl Session {
    /// Shakes hands.
    pub(super) async fn open(client: &Client) -> Result<Self, AskError> {
        let mut session =
            Self { client: client.clone(), headers: headers(), ids: AtomicU64::new(1) };
        let hello = json!({
            "protocolVersion": REVISION,
            "capabilities": {},
            "clientInfo": { "name": "shellyard-demo-load", "version": env!("CARGO_PKG_VERSION") },
        });
        let answer = session.post(&session.request("initialize", &hello)).await?;
        session.read(&answer)?;
        if let Some(id) = answer.headers.get(SESSION) {
            session.headers.insert(SESSION, id.clone());
        }
        session.headers.insert("mcp-protocol-version", HeaderValue::from_static(REVISION));
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        session.post(&ready).await?;
        Ok(session)
    }

    /// The result of a tool; one that says no is a result as well.
    pub(super) async fn call(&self, call: &Call) -> Result<Value, AskError> {
        let wish = json!({ "name": call.tool, "arguments": call.arguments });
        self.ask("tools/call", &wish).await
    }

    /// The result of a method.
    pub(super) async fn ask(&self, method: &str, params: &Value) -> Result<Value, AskError> {
        let answer = self.post(&self.request(method, params)).await?;
        self.read(&answer)
    }

    /// Says goodbye. What the server thinks of that changes nothing.
    pub(super) async fn close(self) {
        let path = self.client.target().path();
        self.client.request(Method::DELETE, path, self.headers, Bytes::new()).await.ok();
    }

    fn request(&self, method: &str, params: &Value) -> Value {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    async fn post(&self, message: &Value) -> Result<Answer, AskError> {
        let path = self.client.target().path();
        let body = message.to_string().into();
        Ok(self.client.request(Method::POST, path, self.headers.clone(), body).await?)
    }

    fn read(&self, answer: &Answer) -> Result<Value, AskError> {
        let text = String::from_utf8_lossy(&answer.body);
        let message = response_in(&text).ok_or_else(|| self.no_response(answer.status, &text))?;
        match (message.get("result"), message["error"]["message"].as_str()) {
            (Some(result), _) => Ok(result.clone()),
            (None, Some(said)) if answer.status == StatusCode::UNAUTHORIZED => {
                Err(unauthorized(said.to_owned()))
            }
            (None, Some(said)) => Err(AskError::Refused {
                code: "json_rpc_error".to_owned(),
                message: format!("{said} ({})", message["error"]["code"]),
            }),
            (None, None) => Err(self.no_response(answer.status, &text)),
        }
    }

    /// What an answer means that is no response: it is nobody's of ours.
    fn no_response(&self, status: StatusCode, text: &str) -> AskError {
        let text = text.trim().chars().take(300).collect();
        AskError::Foreign { target: self.client.target().to_string(), status, text }
    }
}

fn unauthorized(message: String) -> AskError {
    AskError::Refused { code: "unauthorized".to_owned(), message }
}

fn headers() -> HeaderMap {
    HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
    ])
}

/// The response in a body that is one JSON message, or a stream of events that ends with it.
fn response_in(text: &str) -> Option<Value> {
    let whole = serde_json::from_str(text).ok();
    let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let mut responses = events
        .filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok())
        .filter(|message| message.get("id").is_some() && message.get("method").is_none());
    whole.or_else(|| responses.next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_found_alone_and_at_the_end_of_a_stream() {
        let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
        assert_eq!(response_in(&response.to_string()), Some(response.clone()));
        let note = json!({"jsonrpc": "2.0", "method": "notifications/progress"});
        let stream = format!(": ping\n\nid: 0\ndata:\n\ndata: {note}\n\ndata: {response}\n\n");
        assert_eq!(response_in(&stream), Some(response));
        assert_eq!(response_in("nothing of the kind"), None);
    }
}
