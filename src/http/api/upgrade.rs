//! `/upgrade`: replaces the running server by another version of it, while its jobs go on.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::request::{ApiError, ApiState, OperatorRequest, json_response};
use crate::http::auth::Credential;

/// The running server among those that its keeper has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerGeneration {
    /// Counts the servers of one keeper from 1.
    pub number: u64,
    pub pid: u32,
    /// The reason why the server before this one ended, or why an upgrade was undone.
    pub last_failure: Option<String>,
}

type UpgradeFn = dyn Fn(Option<PathBuf>) -> Result<(), String> + Send + Sync;

/// The upgrade of a server that has a keeper. Clones are cheap.
#[derive(Clone)]
pub struct UpgradeControl {
    generation: ServerGeneration,
    begin: Arc<UpgradeFn>,
}

impl UpgradeControl {
    /// Creates the control. `begin` checks the program (`None` = the one that was started) and
    /// begins the upgrade, or says why not.
    #[must_use]
    pub fn new(
        generation: ServerGeneration,
        begin: impl Fn(Option<PathBuf>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { generation, begin: Arc::new(begin) }
    }

    fn response(&self) -> Response {
        let mut fields = json!({
            "generation": self.generation.number,
            "pid": self.generation.pid,
            "version": env!("CARGO_PKG_VERSION"),
        });
        if let Some(why) = &self.generation.last_failure {
            fields["last_failure"] = json!(why);
        }
        json_response(&fields)
    }
}

impl fmt::Debug for UpgradeControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpgradeControl")
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

/// The body of an upgrade request.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct UpgradeArgs {
    /// The path of the new program; `None`: the path that the server was started with.
    #[serde(default)]
    program: Option<PathBuf>,
}

/// Answers with the generation of the running server.
pub(in crate::http) async fn generation(
    State(api): State<Arc<ApiState>>,
    _: OperatorRequest,
) -> Result<Response, ApiError> {
    Ok(find_control(&api)?.response())
}

/// Begins an upgrade. The response describes the server that is replaced.
pub(in crate::http) async fn upgrade(
    State(api): State<Arc<ApiState>>,
    Extension(credential): Extension<Credential>,
    OperatorRequest { caller, body }: OperatorRequest<UpgradeArgs>,
) -> Result<Response, ApiError> {
    let control = find_control(&api)?;
    // A token must not be enough to run any file of this machine outside of jobs and their rules.
    if body.program.is_some() && !credential.is_own_user() {
        let why = "only the server's own user can name another program, through the unix socket";
        return Err(ApiError::Upgrade(why.to_owned()));
    }
    (control.begin)(body.program).map_err(ApiError::Upgrade)?;
    api.service.record_upgrade(caller);
    Ok(control.response())
}

fn find_control(api: &ApiState) -> Result<&UpgradeControl, ApiError> {
    let why =
        "this server has no keeper, because `server.durability` is \"off\"; restart it instead";
    api.control.upgrade().ok_or_else(|| ApiError::Upgrade(why.to_owned()))
}
