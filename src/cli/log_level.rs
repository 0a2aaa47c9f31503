//! `log-level`: which log lines a running server writes.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::server_request::{ConnectFlags, ServerRequestError, get, put};
use super::terminal::VerbOutput;
use super::token::duration;
use crate::client::ServerClient;

const PATH: &str = "/api/v1/log-level";

/// Flags of `log-level`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct LogLevelFlags {
    /// What to log from now on, such as `debug` or `info,shellyard::http=trace`; without it the
    /// server tells what it logs.
    pub filter: Option<String>,
    /// After this time, such as 10m or 1h, what the settings say holds again.
    #[arg(long = "for", value_name = "TIME", requires = "filter", value_parser = time)]
    pub time: Option<Duration>,
    /// Log what the settings say.
    #[arg(long, conflicts_with = "filter")]
    pub reset: bool,
    /// Which server is asked.
    #[command(flatten)]
    pub server: ConnectFlags,
}

/// Shows or changes what is logged.
pub(super) async fn run(
    flags: &LogLevelFlags,
    client: &ServerClient,
) -> Result<VerbOutput, ServerRequestError> {
    let answer = match (&flags.filter, flags.reset) {
        (Some(filter), _) => {
            let mut wish = json!({ "filter": filter });
            if let Some(time) = flags.time {
                wish["for_s"] = time.as_secs().into();
            }
            put(client, PATH, &wish).await?
        }
        (None, true) => put(client, PATH, &json!({})).await?,
        (None, false) => get(client, PATH).await?,
    };
    Ok(flags.server.success(&answer, || told(&answer)))
}

/// The filter is data; until when it holds is terminal.
fn told(answer: &Value) -> VerbOutput {
    let filter = words(&answer["filter"]);
    let configured = words(&answer["configured"]);
    let stderr = match answer["for_s"].as_u64() {
        Some(seconds) => format!("for {seconds} s more, then {configured} holds again\n"),
        None if filter == configured => String::new(),
        None => format!(
            "until the server ends or log.filter changes; `shellyard log-level --reset` takes {configured} back\n"
        ),
    };
    VerbOutput { stdout: format!("{filter}\n"), stderr, code: 0 }
}

fn words(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn time(text: &str) -> Result<Duration, String> {
    let time = duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "give a time such as 10m, 1h or 90s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_is_told_with_its_end() {
        let told = |answer: Value| {
            let VerbOutput { stdout, stderr, .. } = told(&answer);
            (stdout, stderr)
        };
        let configured = told(json!({"filter": "info", "configured": "info"}));
        assert_eq!(configured, ("info\n".to_owned(), String::new()));
        let (filter, end) = told(json!({"filter": "debug", "configured": "info", "for_s": 600}));
        assert_eq!((&*filter, &*end), ("debug\n", "for 600 s more, then info holds again\n"));
        let (_, end) = told(json!({"filter": "debug", "configured": "info"}));
        assert!(end.contains("--reset") && end.contains("info"), "{end}");
    }

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(time("10m"), Ok(Duration::from_secs(600)));
        for bad in ["10", "0s", "m", "soon"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
