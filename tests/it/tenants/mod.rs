//! Who may come in, and as whom.

mod isolation;
mod issuer;
mod oauth;
pub(crate) mod tokens;

use serde_json::{Value, json};

use crate::harness::{Era, HttpConnection, Request, Yard};

/// What a request was answered with.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    status: u16,
    challenge: Option<String>,
    text: String,
}

/// Sends a request, with this token if there is one.
#[track_caller]
fn ask(yard: &mut Yard, request: Request, token: Option<&str>) -> Said {
    let request = match token {
        Some(token) => request.header("Authorization", &format!("Bearer {token}")),
        None => request,
    };
    let mut connection = HttpConnection::open(yard.http().address());
    connection.send(&request);
    let answer = connection.answer();
    let challenge = answer.header("www-authenticate").map(str::to_owned);
    Said { status: answer.status, challenge, text: answer.text() }
}

/// A request of the modern era.
fn modern(method: &str, params: Value) -> Request {
    let message = Era::Modern.request(1, method, params);
    let mut request = Request::post("/mcp", &message);
    request.headers.extend(Era::Modern.headers(&message));
    request
}

fn tools_list() -> Request {
    modern("tools/list", json!({}))
}

fn call(tool: &str, arguments: Value) -> Request {
    modern("tools/call", json!({"name": tool, "arguments": arguments}))
}
