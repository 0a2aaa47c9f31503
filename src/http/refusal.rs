//! Refusals at the MCP endpoint, as its clients read them: as JSON-RPC errors.
//!
//! The gate and rmcp refuse in plain text. A client that gets text where it looks for a message
//! shows its user a parse error instead of the reason.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rmcp::model::{ErrorData, RequestId};
use serde_json::{Value, json};

use crate::lines::{Decoded, decode_message};

/// The longest refusal that is read; ours and rmcp's are a line.
const MAX_BYTES: usize = 64 * 1024;

/// Has messages to the endpoint refused in JSON-RPC, also before anybody has read them: the id is
/// null then.
pub(super) async fn at_endpoint(
    State(path): State<Arc<str>>,
    request: Request,
    next: Next,
) -> Response {
    let is_message = request.method() == Method::POST && request.uri().path() == &*path;
    let response = next.run(request).await;
    if is_message { in_json_rpc(response, None).await } else { response }
}

/// The answer to a request with this id. A refusal becomes an error that names it, unless it is
/// one already; its status and headers stay.
pub(super) async fn in_json_rpc(response: Response, id: Option<RequestId>) -> Response {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let said = axum::body::to_bytes(body, MAX_BYTES).await.unwrap_or_default();
    let told = match serde_json::from_slice(&said) {
        Ok(Value::Object(mut told)) if told.contains_key("error") => {
            // rmcp leaves the id out where there is none; JSON-RPC wants null.
            told.entry("id").or_insert(Value::Null);
            Value::Object(told)
        }
        Ok(_) | Err(_) => message(error(status, &said), id),
    };
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(parts, Body::from(told.to_string()))
}

/// What is wrong with a body that is no JSON-RPC message.
pub(super) fn unreadable(body: &Bytes) -> Response {
    let (error, id) = match decode_message(body) {
        Decoded::Faulty(error, id) => (error, id),
        Decoded::Message(_) | Decoded::Nothing => {
            (ErrorData::invalid_request("this is not a JSON-RPC 2.0 message", None), None)
        }
    };
    let headers = [(CONTENT_TYPE, "application/json")];
    (StatusCode::BAD_REQUEST, headers, message(error, id).to_string()).into_response()
}

fn error(status: StatusCode, said: &[u8]) -> ErrorData {
    let said = String::from_utf8_lossy(said);
    let why = match said.trim() {
        "" => status.canonical_reason().unwrap_or("refused").to_owned(),
        said => said.to_owned(),
    };
    if status.is_server_error() {
        ErrorData::internal_error(why, None)
    } else {
        ErrorData::invalid_request(why, None)
    }
}

fn message(error: ErrorData, id: Option<RequestId>) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn told(response: Response, id: Option<RequestId>) -> (StatusCode, Value) {
        let response = in_json_rpc(response, id).await;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), MAX_BYTES).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    #[tokio::test]
    async fn text_becomes_an_error_with_the_id() {
        for (status, code) in [(StatusCode::NOT_FOUND, -32600), (StatusCode::BAD_GATEWAY, -32603)] {
            let response = (status, "not here\n").into_response();
            let expected = json!({"jsonrpc": "2.0", "id": 7,
                "error": {"code": code, "message": "not here"}});
            assert_eq!(told(response, Some(RequestId::Number(7))).await, (status, expected));
        }
        let (_, empty) = told(StatusCode::CONFLICT.into_response(), None).await;
        assert_eq!((&empty["id"], &empty["error"]["message"]), (&Value::Null, &json!("Conflict")));
    }

    #[tokio::test]
    async fn an_error_stays_as_it_is_but_for_an_id_that_was_left_out() {
        let error = json!({"jsonrpc": "2.0", "id": 8, "error": {"code": -32020, "message": "x"}});
        let response = (StatusCode::BAD_REQUEST, error.to_string()).into_response();
        assert_eq!(told(response, None).await.1, error);
        let without = r#"{"jsonrpc":"2.0","error":{}}"#;
        let response = (StatusCode::BAD_REQUEST, without).into_response();
        assert_eq!(told(response, None).await.1.get("id"), Some(&Value::Null));
    }

    #[tokio::test]
    async fn what_is_no_refusal_is_not_read() {
        let response = in_json_rpc((StatusCode::ACCEPTED, "as it is").into_response(), None).await;
        let body = axum::body::to_bytes(response.into_body(), MAX_BYTES).await.unwrap();
        assert_eq!(body, "as it is");
    }
}
