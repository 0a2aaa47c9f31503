//! Asking a running server: where it is, who asks, and what its answers mean.

use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use thiserror::Error;

use super::terminal::{self, VerbOutput};
use crate::client::{ClientError, ServerClient, ServerResponse};
use crate::config::FlagValue;

/// So much of an answer that is not ours is repeated.
const MAX_QUOTED_CHARS: usize = 300;

/// Flags of every verb that asks a running server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ConnectFlags {
    /// The server, by its URL or unix socket; without it the usual socket in the data directory.
    #[arg(long, value_name = "URL|SOCKET", num_args = 0..=1)]
    pub connect: Option<Option<String>>,
    /// File with the bearer token to show; else the variable SHELLYARD_TOKEN.
    #[arg(long, value_name = "FILE")]
    pub token: Option<PathBuf>,
    /// Configuration file that says where the server is, instead of the usual places.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the server keeps its data, and its socket.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Answer in JSON.
    #[arg(long)]
    pub json: bool,
}

impl ConnectFlags {
    /// The settings that these flags stand for.
    #[must_use]
    pub fn values(&self) -> Vec<FlagValue> {
        set("server.data_dir", "--data-dir", self.data_dir.as_ref()).into_iter().collect()
    }

    /// What is said where something went wrong, in the form that was asked for.
    pub(super) fn failure(&self, error: &ServerRequestError) -> VerbOutput {
        let message = terminal::message_with_causes(error);
        if self.json {
            let answer = json!({ "ok": false, "code": error.code(), "message": message });
            return VerbOutput {
                stdout: format!("{answer:#}\n"),
                code: 1,
                ..VerbOutput::default()
            };
        }
        VerbOutput { stderr: format!("shellyard: {message}\n"), code: 1, ..VerbOutput::default() }
    }

    /// What is said where it was done: the server's answer as it is, or words about it.
    pub(super) fn success(&self, answer: &Value, words: impl FnOnce() -> VerbOutput) -> VerbOutput {
        if self.json {
            return VerbOutput { stdout: format!("{answer:#}\n"), ..VerbOutput::default() };
        }
        words()
    }
}

/// A setting, where its flag was given.
pub(super) fn set(
    key: &'static str,
    flag: &'static str,
    value: Option<&impl ToString>,
) -> Option<FlagValue> {
    value.map(|value| FlagValue { key, flag, value: value.to_string() })
}

/// Why a server did not do what it was asked for.
#[derive(Debug, Error)]
pub(super) enum ServerRequestError {
    #[error(
        "no server answers at {target}; start one with `shellyard serve`, or say where it is with --connect URL|SOCKET"
    )]
    Nobody { target: String, source: std::io::Error },
    #[error(transparent)]
    Client(ClientError),
    #[error("{message}{}", next(.code))]
    Refused { code: String, message: String },
    #[error(
        "{target} answered {status}, and not as a Shellyard server of this version: {text}; check the address"
    )]
    Foreign { target: String, status: StatusCode, text: String },
    #[error("{target} was told to take new jobs again before it was empty; drain it again")]
    Undone { target: String },
}

impl ServerRequestError {
    /// The stable word that callers may match on.
    pub(super) fn code(&self) -> &str {
        match self {
            Self::Nobody { .. } => "no_server",
            Self::Client(error) => error.code(),
            Self::Refused { code, .. } => code,
            Self::Foreign { .. } => "foreign_answer",
            Self::Undone { .. } => "drain_undone",
        }
    }

    /// Whether it says that the server is gone, or went while it was asked.
    pub(super) const fn is_gone(&self) -> bool {
        match self {
            Self::Nobody { .. } | Self::Client(ClientError::Broken { .. }) => true,
            Self::Client(
                ClientError::Nobody { .. }
                | ClientError::Connect { .. }
                | ClientError::TimedOut { .. }
                | ClientError::Tls { .. }
                | ClientError::Unusable { .. }
                | ClientError::OtherUser { .. }
                | ClientError::CallerIsJob { .. }
                | ClientError::Refused { .. },
            )
            | Self::Refused { .. }
            | Self::Foreign { .. }
            | Self::Undone { .. } => false,
        }
    }
}

impl From<ClientError> for ServerRequestError {
    fn from(error: ClientError) -> Self {
        match error {
            // A proxy can start a server; whoever asks one cannot.
            ClientError::Nobody { target, source, .. } => Self::Nobody { target, source },
            ClientError::Connect { .. }
            | ClientError::TimedOut { .. }
            | ClientError::Tls { .. }
            | ClientError::Unusable { .. }
            | ClientError::Broken { .. }
            | ClientError::OtherUser { .. }
            | ClientError::CallerIsJob { .. }
            | ClientError::Refused { .. } => Self::Client(error),
        }
    }
}

/// What to do about a refusal of the server, where its own words do not say.
fn next(code: &str) -> &'static str {
    match code {
        "forbidden" => {
            "; make one with `shellyard token new NAME --role admin` and give it with --token FILE or SHELLYARD_TOKEN"
        }
        "unauthorized" => {
            "; give a token that the server knows with --token FILE or SHELLYARD_TOKEN"
        }
        "not_reloaded" => {
            "\ncorrect the file, check it with `shellyard config check`, and reload again"
        }
        _ => "",
    }
}

/// What the server answers there.
pub(super) async fn get(client: &ServerClient, path: &str) -> Result<Value, ServerRequestError> {
    ask(client, (Method::GET, path), Bytes::new()).await
}

/// What the server answers to this wish.
pub(super) async fn post(
    client: &ServerClient,
    path: &str,
    wish: &Value,
) -> Result<Value, ServerRequestError> {
    ask(client, (Method::POST, path), wish.to_string().into()).await
}

/// What the server answers to this choice.
pub(super) async fn put(
    client: &ServerClient,
    path: &str,
    choice: &Value,
) -> Result<Value, ServerRequestError> {
    ask(client, (Method::PUT, path), choice.to_string().into()).await
}

async fn ask(
    client: &ServerClient,
    to: (Method, &str),
    body: Bytes,
) -> Result<Value, ServerRequestError> {
    let kind = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let answer = client.request(to.0, to.1, HeaderMap::from_iter([kind]), body).await?;
    read(&answer, client)
}

/// The JSON of an answer that says yes; else the server's own words.
fn read(answer: &ServerResponse, client: &ServerClient) -> Result<Value, ServerRequestError> {
    let json: Option<Value> = serde_json::from_slice(&answer.body).ok();
    if let Some(json) = &json
        && let (Some(code), Some(message)) =
            (json["error"]["code"].as_str(), json["error"]["message"].as_str())
    {
        return Err(ServerRequestError::Refused {
            code: code.to_owned(),
            message: message.to_owned(),
        });
    }
    let text = || {
        let text = String::from_utf8_lossy(&answer.body);
        text.trim().chars().take(MAX_QUOTED_CHARS).collect::<String>()
    };
    // What is turned away before it reaches a route is told in plain words.
    let code = match answer.status {
        StatusCode::UNAUTHORIZED => Some("unauthorized"),
        StatusCode::FORBIDDEN => Some("turned_away"),
        _ => None,
    };
    if let Some(code) = code {
        return Err(ServerRequestError::Refused { code: code.to_owned(), message: text() });
    }
    json.filter(|_| answer.status.is_success()).ok_or_else(|| ServerRequestError::Foreign {
        target: client.target().to_string(),
        status: answer.status,
        text: text(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ServerTarget;

    fn said(status: u16, body: &'static str) -> Result<Value, ServerRequestError> {
        let client = ServerClient::new(ServerTarget::socket("/s".into(), "/mcp"), None).unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        read(&ServerResponse { status, headers: HeaderMap::new(), body: body.into() }, &client)
    }

    #[test]
    fn an_answer_is_the_servers_yes_or_its_own_words() {
        assert_eq!(said(200, "{\"jobs\":[]}").unwrap(), json!({"jobs": []}));
        let body = "{\"error\":{\"code\":\"forbidden\",\"message\":\"takes an admin\"}}";
        let error = said(403, body).unwrap_err();
        assert_eq!(error.code(), "forbidden");
        let text = error.to_string();
        assert!(text.starts_with("takes an admin; ") && text.contains("--role admin"), "{text}");
        let error = said(401, "a token is needed").unwrap_err();
        assert_eq!(error.code(), "unauthorized");
        assert!(error.to_string().contains("SHELLYARD_TOKEN"), "{error}");
        let error = said(403, "this Host is not allowed").unwrap_err();
        assert_eq!(
            (error.code(), error.to_string()),
            ("turned_away", "this Host is not allowed".into())
        );
        for (status, body) in [(200, "<html>"), (502, "{}"), (404, "nothing")] {
            let error = said(status, body).unwrap_err();
            assert_eq!(error.code(), "foreign_answer", "{status}");
            assert!(error.to_string().contains(body), "{error}");
        }
    }
}
