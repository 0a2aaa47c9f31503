//! Requests to a running server: its address, the caller's token, and the meaning of its replies.

use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::Value;
use thiserror::Error;

use super::flags::flag_value;
use super::terminal::{VerbOutput, format_with_causes};
use super::text_layout::escape_for_terminal;
use crate::client::{ClientError, ResponseStream, ServerClient, ServerResponse};
use crate::config::FlagValue;

/// The number of characters of an unexpected reply that are quoted.
const MAX_QUOTED_CHARS: usize = 300;

/// Flags of every verb that sends a request to a running server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ConnectFlags {
    /// URL or unix socket of the server; the default is the socket in its data directory.
    #[arg(long, value_name = "URL|SOCKET", num_args = 0..=1)]
    pub connect: Option<Option<String>>,
    /// File with the bearer token to send; the default is the variable SHELLYARD_TOKEN.
    #[arg(long, value_name = "FILE")]
    pub token: Option<PathBuf>,
    /// Configuration file with the address of the server, instead of the default locations.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data directory of the server, which holds its socket.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

impl ConnectFlags {
    /// Returns the settings that these flags set.
    #[must_use]
    pub fn values(&self) -> Vec<FlagValue> {
        flag_value("server.data_dir", "--data-dir", self.data_dir.as_ref()).into_iter().collect()
    }

    /// The output for a failed request, in the requested format.
    pub(super) fn failure_output(&self, error: &ServerRequestError) -> VerbOutput {
        let message = format_with_causes(error);
        if self.json {
            return VerbOutput::json_failure(error.code(), &message);
        }
        let lines: Vec<String> = message.lines().map(escape_for_terminal).collect();
        VerbOutput::failure(&lines.join("\n"))
    }

    /// The output for a successful request: the server's reply as JSON, or `text` for people.
    pub(super) fn success_output(
        &self,
        answer: &Value,
        text: impl FnOnce() -> VerbOutput,
    ) -> VerbOutput {
        if self.json { VerbOutput::json(answer, 0) } else { text() }
    }
}

/// The error of a request to a running server.
#[derive(Debug, Error)]
pub(super) enum ServerRequestError {
    #[error(
        "no server answers at {target}; start one with `shellyard serve`, or say where it is with --connect URL|SOCKET"
    )]
    NoServer { target: String, source: std::io::Error },
    /// There is neither a shared server nor one of a client.
    #[error(
        "no server runs; start one with `shellyard serve`, or say where it is with --connect URL|SOCKET"
    )]
    NoServers,
    #[error("there is no job {job}; `shellyard jobs` lists the jobs that can be seen")]
    UnknownJob { job: String },
    #[error("there is no server {name}; `shellyard jobs` lists the jobs of all servers")]
    UnknownServer { name: String },
    #[error("there are several jobs {job}; name one of them:\n  {}", .candidates.join("\n  "))]
    AmbiguousJob { job: String, candidates: Vec<String> },
    #[error("{0}")]
    Unusable(String),
    #[error("{target} does not answer; its process may be suspended")]
    NoAnswer { target: String },
    #[error("cannot use the terminal")]
    Terminal(#[source] std::io::Error),
    #[error(transparent)]
    Client(ClientError),
    #[error("{message}{}", advise_on_refusal(.code))]
    Refused { code: String, message: String, status: StatusCode },
    #[error(
        "the server of job {job}, {target}, did not come back within {seconds} s; the job may go on: start the server again with `shellyard serve`, then use `shellyard logs -f {job}`"
    )]
    ServerLost { job: String, target: String, seconds: u64 },
    #[error("the server of job {job} has ended ({target}), and its jobs ended with it")]
    ServerEnded { job: String, target: String },
    #[error(
        "{target} was started anew and does not have this job {job} any more; `shellyard jobs` lists the jobs that it has"
    )]
    OtherServer { job: String, target: String },
    #[error(
        "{target} answered {status}, which is not a reply of a Shellyard server of this version: {text}; check the address"
    )]
    UnexpectedReply { target: String, status: StatusCode, text: String },
    #[error(
        "{target} accepts new jobs again, because its drain was undone before it was empty; drain it again"
    )]
    DrainUndone { target: String },
    #[error("{target} was not upgraded and runs as before: {why}")]
    UpgradeUndone { target: String, why: String },
    #[error(
        "{target} was not upgraded: its server has ended, and another one (process {pid}) answers there now; `shellyard jobs` lists the jobs that it has"
    )]
    UpgradeLost { target: String, pid: String },
}

impl ServerRequestError {
    /// Returns the stable code word of the error.
    pub(super) fn code(&self) -> &str {
        match self {
            Self::NoServer { .. } | Self::NoServers => "no_server",
            Self::UnknownJob { .. } => "unknown_job",
            Self::UnknownServer { .. } => "unknown_server",
            Self::AmbiguousJob { .. } => "ambiguous_job",
            Self::Unusable(_) => "not_possible",
            Self::NoAnswer { .. } => "no_answer",
            Self::Terminal(_) => "terminal_failed",
            Self::Client(error) => error.code(),
            Self::Refused { code, .. } => code,
            Self::ServerLost { .. } => "server_lost",
            Self::ServerEnded { .. } => "server_ended",
            Self::OtherServer { .. } | Self::UpgradeLost { .. } => "other_server",
            Self::UnexpectedReply { .. } => "foreign_answer",
            Self::DrainUndone { .. } => "drain_undone",
            Self::UpgradeUndone { .. } => "not_upgraded",
        }
    }

    /// `true` if the server is gone or went away during the request.
    pub(super) const fn is_gone(&self) -> bool {
        match self {
            Self::NoServer { .. } | Self::Client(ClientError::Broken { .. }) => true,
            Self::Client(
                ClientError::NotListening { .. }
                | ClientError::Connect { .. }
                | ClientError::TimedOut { .. }
                | ClientError::Tls { .. }
                | ClientError::Unusable { .. }
                | ClientError::OtherUser { .. }
                | ClientError::CallerIsJob { .. }
                | ClientError::Refused { .. },
            )
            | Self::NoServers
            | Self::UnknownJob { .. }
            | Self::UnknownServer { .. }
            | Self::AmbiguousJob { .. }
            | Self::Unusable(_)
            | Self::NoAnswer { .. }
            | Self::Terminal(_)
            | Self::Refused { .. }
            | Self::ServerLost { .. }
            | Self::ServerEnded { .. }
            | Self::OtherServer { .. }
            | Self::UnexpectedReply { .. }
            | Self::DrainUndone { .. }
            | Self::UpgradeUndone { .. }
            | Self::UpgradeLost { .. } => false,
        }
    }
}

impl ServerRequestError {
    /// `true` if a later attempt may succeed: a server that is restarted or upgraded looks like this.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::NoServer { .. } | Self::NoAnswer { .. } => true,
            Self::Client(error) => error.is_transient(),
            Self::Refused { status, .. } | Self::UnexpectedReply { status, .. } => {
                [StatusCode::SERVICE_UNAVAILABLE, StatusCode::BAD_GATEWAY].contains(status)
            }
            Self::NoServers
            | Self::UnknownJob { .. }
            | Self::UnknownServer { .. }
            | Self::AmbiguousJob { .. }
            | Self::Unusable(_)
            | Self::Terminal(_)
            | Self::ServerLost { .. }
            | Self::ServerEnded { .. }
            | Self::OtherServer { .. }
            | Self::DrainUndone { .. }
            | Self::UpgradeUndone { .. }
            | Self::UpgradeLost { .. } => false,
        }
    }

    /// `true` if the request may have had an effect although there was no answer to it.
    pub(super) const fn may_have_arrived(&self) -> bool {
        matches!(
            self,
            Self::NoAnswer { .. }
                | Self::Client(ClientError::Broken { .. } | ClientError::TimedOut { .. })
        )
    }
}

impl From<ClientError> for ServerRequestError {
    fn from(error: ClientError) -> Self {
        match error {
            // The client's own text names `--ensure-server`, which only the proxy has.
            ClientError::NotListening { target, source, .. } => Self::NoServer { target, source },
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

/// Returns advice for a refusal whose message has none.
fn advise_on_refusal(code: &str) -> &'static str {
    match code {
        "forbidden" => {
            "; make one with `shellyard token new NAME --role ROLE` and give it with --token FILE or SHELLYARD_TOKEN"
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

pub(super) async fn get(client: &ServerClient, path: &str) -> Result<Value, ServerRequestError> {
    send(client, Method::GET, path, Bytes::new()).await
}

pub(super) async fn send_post(
    client: &ServerClient,
    path: &str,
    body: &Value,
) -> Result<Value, ServerRequestError> {
    send(client, Method::POST, path, body.to_string().into()).await
}

pub(super) async fn put(
    client: &ServerClient,
    path: &str,
    body: &Value,
) -> Result<Value, ServerRequestError> {
    send(client, Method::PUT, path, body.to_string().into()).await
}

async fn send(
    client: &ServerClient,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<Value, ServerRequestError> {
    let content_type = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let headers = HeaderMap::from_iter([content_type]);
    let answer = client.request(method, path, headers, body).await?;
    parse_reply(&answer, client)
}

/// Sends a GET request whose answer is read in pieces.
pub(super) async fn open_stream(
    client: &ServerClient,
    path: &str,
    headers: HeaderMap,
) -> Result<ResponseStream, ServerRequestError> {
    let stream = client.open_stream(Method::GET, path, headers).await?;
    if stream.status().is_success() {
        return Ok(stream);
    }
    let answer = stream.read_rest().await?;
    let unexpected = || ServerRequestError::UnexpectedReply {
        target: client.target().to_string(),
        status: answer.status,
        text: String::new(),
    };
    Err(parse_reply(&answer, client).err().unwrap_or_else(unexpected))
}

/// Returns the JSON of a successful reply, or the server's own error message.
fn parse_reply(
    answer: &ServerResponse,
    client: &ServerClient,
) -> Result<Value, ServerRequestError> {
    let json: Option<Value> = serde_json::from_slice(&answer.body).ok();
    if let Some(json) = &json
        && let (Some(code), Some(message)) =
            (json["error"]["code"].as_str(), json["error"]["message"].as_str())
    {
        return Err(ServerRequestError::Refused {
            code: code.to_owned(),
            message: message.to_owned(),
            status: answer.status,
        });
    }
    let text = || {
        let text = String::from_utf8_lossy(&answer.body);
        text.trim().chars().take(MAX_QUOTED_CHARS).collect::<String>()
    };
    // A request that is refused before it reaches a route gets a plain text reply.
    let code = match answer.status {
        StatusCode::UNAUTHORIZED => Some("unauthorized"),
        StatusCode::FORBIDDEN => Some("turned_away"),
        _ => None,
    };
    if let Some(code) = code {
        return Err(ServerRequestError::Refused {
            code: code.to_owned(),
            message: text(),
            status: answer.status,
        });
    }
    json.filter(|_| answer.status.is_success()).ok_or_else(|| ServerRequestError::UnexpectedReply {
        target: client.target().to_string(),
        status: answer.status,
        text: text(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::client::ServerTarget;

    fn reply_to(status: u16, body: &'static str) -> Result<Value, ServerRequestError> {
        let client = ServerClient::new(ServerTarget::socket("/s".into(), "/mcp"), None).unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        parse_reply(
            &ServerResponse { status, headers: HeaderMap::new(), body: body.into() },
            &client,
        )
    }

    #[test]
    fn a_reply_is_the_servers_json_or_its_error_message() {
        assert_eq!(reply_to(200, "{\"jobs\":[]}").unwrap(), json!({"jobs": []}));
        let body = "{\"error\":{\"code\":\"forbidden\",\"message\":\"takes an admin\"}}";
        let error = reply_to(403, body).unwrap_err();
        assert_eq!(error.code(), "forbidden");
        let text = error.to_string();
        assert!(text.starts_with("takes an admin; ") && text.contains("--role ROLE"), "{text}");
        let error = reply_to(401, "a token is needed").unwrap_err();
        assert_eq!(error.code(), "unauthorized");
        assert!(error.to_string().contains("SHELLYARD_TOKEN"), "{error}");
        let error = reply_to(403, "this Host is not allowed").unwrap_err();
        assert_eq!(
            (error.code(), error.to_string()),
            ("turned_away", "this Host is not allowed".into())
        );
        for (status, body) in [(200, "<html>"), (502, "{}"), (404, "nothing")] {
            let error = reply_to(status, body).unwrap_err();
            assert_eq!(error.code(), "foreign_answer", "{status}");
            assert!(error.to_string().contains(body), "{error}");
        }
    }
}
