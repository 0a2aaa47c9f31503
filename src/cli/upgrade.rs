//! `upgrade`: replaces a running server by another version of it, while its jobs go on.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::server_request::{ConnectFlags, ServerRequestError, get, send_post};
use super::terminal::VerbOutput;
use crate::client::ServerClient;

/// The time between two requests for the state of the new server.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The longest wait for an answer of the new server, or of the old one if the upgrade was undone.
const UPGRADE_TIME: Duration = Duration::from_secs(120);

/// Flags of the verb `upgrade`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct UpgradeFlags {
    /// The new program; the default is the path that the server was started with.
    pub program: Option<PathBuf>,
    #[command(flatten)]
    pub server: ConnectFlags,
}

/// Upgrades the server, and waits until the new one answers.
pub(super) async fn run(
    flags: &UpgradeFlags,
    client: &ServerClient,
) -> Result<VerbOutput, ServerRequestError> {
    let program =
        flags.program.as_ref().map(|path| std::path::absolute(path).unwrap_or(path.clone()));
    let body = program.map_or_else(|| json!({}), |path| json!({ "program": path }));
    let old = send_post(client, "/api/v1/upgrade", &body).await?;
    let new = wait_for_successor(client, &old).await?;
    if let Some(why) = new["last_failure"].as_str() {
        let target = client.target().to_string();
        return Err(ServerRequestError::UpgradeUndone { target, why: why.to_owned() });
    }
    Ok(flags.server.success_output(&new, || {
        let (from, to) = (describe_server(&old), describe_server(&new));
        VerbOutput {
            stderr: format!("upgraded from {from} to {to}; jobs go on\n"),
            ..VerbOutput::default()
        }
    }))
}

/// Waits for the answer of a later server than `old`.
async fn wait_for_successor(
    client: &ServerClient,
    old: &Value,
) -> Result<Value, ServerRequestError> {
    let deadline = Instant::now() + UPGRADE_TIME;
    loop {
        sleep(POLL_INTERVAL).await;
        let answer = get(client, "/api/v1/upgrade").await;
        match answer {
            Ok(new) if new["generation"].as_u64() > old["generation"].as_u64() => return Ok(new),
            // The old server still answers, or none does.
            Ok(_) if Instant::now() < deadline => {}
            Err(_) if Instant::now() < deadline => {}
            Err(error) => return Err(error),
            Ok(_) => {
                let target = client.target().to_string();
                let why = "the old server still answers".to_owned();
                return Err(ServerRequestError::UpgradeUndone { target, why });
            }
        }
    }
}

fn describe_server(server: &Value) -> String {
    format!("version {} (process {})", server["version"].as_str().unwrap_or("?"), server["pid"])
}
