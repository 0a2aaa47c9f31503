//! `config reload`: new settings for a server that runs.

use clap::Args;
use serde_json::{Value, json};

use super::ask::{AskError, AskFlags, post};
use super::reply::Reply;
use super::table::table;
use crate::client::Client;

/// Flags of `config reload`. The server reads the files that it was started with.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ReloadFlags {
    /// Which server is asked.
    #[command(flatten)]
    pub server: AskFlags,
}

/// Has the server read its settings again.
pub(super) async fn run(flags: &ReloadFlags, client: &Client) -> Result<Reply, AskError> {
    let answer = post(client, "/api/v1/reload", &json!({})).await?;
    Ok(flags.server.success(&answer, || told(&answer)))
}

/// One line for each setting that changed, and what its new value takes.
fn told(answer: &Value) -> Reply {
    let keys = |name: &str| answer[name].as_array().map_or(&[][..], Vec::as_slice);
    let row = |key: &Value, what: &str| {
        vec![key.as_str().unwrap_or_default().to_owned(), what.to_owned()]
    };
    let live = keys("applied").iter().map(|key| row(key, "holds now"));
    let restart = keys("needs_restart").iter().map(|key| row(key, "takes a restart"));
    let rows: Vec<Vec<String>> = live.chain(restart).collect();
    let stderr = if rows.is_empty() { "nothing changed\n" } else { "" };
    Reply { stdout: table(&rows), stderr: stderr.to_owned(), code: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_says_what_it_takes() {
        let answer = json!({"applied": ["queue.slots"], "needs_restart": ["http.path"]});
        assert_eq!(told(&answer).stdout, "queue.slots  holds now\nhttp.path    takes a restart\n");
        let nothing = told(&json!({"applied": [], "needs_restart": []}));
        assert_eq!((nothing.stdout.as_str(), nothing.stderr.as_str()), ("", "nothing changed\n"));
    }
}
