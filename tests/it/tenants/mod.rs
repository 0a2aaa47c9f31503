//! Authentication: the callers that are admitted, and their identities.

mod isolation;
mod issuer;
mod oauth;
pub(crate) mod tokens;

use serde_json::{Value, json};

use crate::harness::{Era, HttpConnection, HttpRequest, TestServer};

/// The response to a request.
#[derive(Debug, PartialEq, Eq)]
struct AuthResponse {
    status: u16,
    challenge: Option<String>,
    text: String,
}

/// Sends a request, with this token if there is one.
#[track_caller]
fn ask(server: &mut TestServer, request: HttpRequest, token: Option<&str>) -> AuthResponse {
    let request = match token {
        Some(token) => request.header("Authorization", &format!("Bearer {token}")),
        None => request,
    };
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&request);
    let answer = connection.answer();
    let challenge = answer.header("www-authenticate").map(str::to_owned);
    AuthResponse { status: answer.status, challenge, text: answer.text() }
}

/// A request of the modern era.
fn modern(method: &str, params: Value) -> HttpRequest {
    let message = Era::Modern.request(1, method, params);
    let mut request = HttpRequest::post("/mcp", &message);
    request.headers.extend(Era::Modern.headers(&message));
    request
}

fn tools_list() -> HttpRequest {
    modern("tools/list", json!({}))
}

fn call(tool: &str, arguments: Value) -> HttpRequest {
    modern("tools/call", json!({"name": tool, "arguments": arguments}))
}
