//! `/server`: the server that answers.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde_json::json;

use super::request::{ApiError, ApiState, QueryParams, json_response};
use crate::spec::JobClient;
use crate::telemetry::audit::format_rfc3339;

/// The process that serves the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiProcess {
    pub kind: ServerKind,
    pub pid: u32,
    pub started: SystemTime,
}

/// The way in which a server was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// A server of many clients.
    Serve,
    /// The server of one client, on its standard input and output.
    Stdio,
}

impl ServerKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Stdio => "stdio",
        }
    }
}

/// Describes the server, and the client of a server that has only one.
pub(in crate::http) async fn describe_server(
    State(api): State<Arc<ApiState>>,
    uri: Uri,
) -> Result<Response, ApiError> {
    QueryParams::parse(uri.query(), &[])?;
    let ApiProcess { kind, pid, started } = api.process;
    let mut fields = json!({
        "kind": kind.word(),
        "pid": pid,
        "version": env!("CARGO_PKG_VERSION"),
        "started_at": format_rfc3339(started),
        "directory": api.service.default_directory().to_string_lossy(),
    });
    let client = match kind {
        ServerKind::Serve => None,
        ServerKind::Stdio => api.handler.first_client(),
    };
    if let Some(JobClient { name, version, .. }) = client {
        fields["client"] = json!(name);
        if let Some(version) = version {
            fields["client_version"] = json!(version);
        }
    }
    Ok(json_response(&fields))
}
