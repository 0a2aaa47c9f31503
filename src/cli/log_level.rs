//! `log-level`: the log filter of a running server.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::server_request::{ConnectFlags, ServerRequestError, get, put};
use super::terminal::VerbOutput;
use super::token::parse_duration;
use crate::client::ServerClient;

const PATH: &str = "/api/v1/log-level";

/// Flags of `log-level`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct LogLevelFlags {
    /// Log filter to set, such as `debug` or `info,shellyard::http=trace`; without it, the current
    /// filter is printed.
    pub filter: Option<String>,
    /// Restore the configured filter after this time, such as 10m or 1h.
    #[arg(long = "for", value_name = "TIME", requires = "filter", value_parser = parse_time)]
    pub time: Option<Duration>,
    /// Restore the configured filter now.
    #[arg(long, conflicts_with = "filter")]
    pub reset: bool,
    #[command(flatten)]
    pub server: ConnectFlags,
}

/// Prints or changes the log filter.
pub(super) async fn run(
    flags: &LogLevelFlags,
    client: &ServerClient,
) -> Result<VerbOutput, ServerRequestError> {
    let answer = match (&flags.filter, flags.reset) {
        (Some(filter), _) => {
            let mut body = json!({ "filter": filter });
            if let Some(time) = flags.time {
                body["for_s"] = time.as_secs().into();
            }
            put(client, PATH, &body).await?
        }
        (None, true) => put(client, PATH, &json!({})).await?,
        (None, false) => get(client, PATH).await?,
    };
    Ok(flags.server.success_output(&answer, || filter_output(&answer)))
}

/// Prints the filter on stdout, and on stderr how long it is active.
fn filter_output(answer: &Value) -> VerbOutput {
    let filter = as_text(&answer["filter"]);
    let configured = as_text(&answer["configured"]);
    let stderr = match answer["for_s"].as_u64() {
        Some(seconds) => format!("for another {seconds} s, then {configured} again\n"),
        None if filter == configured => String::new(),
        None => format!(
            "until the server ends or log.filter changes; `shellyard log-level --reset` restores {configured}\n"
        ),
    };
    VerbOutput { stdout: format!("{filter}\n"), stderr, code: 0 }
}

fn as_text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "give a time such as 10m, 1h or 90s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_is_printed_with_its_end() {
        let printed = |answer: Value| {
            let VerbOutput { stdout, stderr, .. } = filter_output(&answer);
            (stdout, stderr)
        };
        let configured = printed(json!({"filter": "info", "configured": "info"}));
        assert_eq!(configured, ("info\n".to_owned(), String::new()));
        let (filter, end) = printed(json!({"filter": "debug", "configured": "info", "for_s": 600}));
        assert_eq!((&*filter, &*end), ("debug\n", "for another 600 s, then info again\n"));
        let (_, end) = printed(json!({"filter": "debug", "configured": "info"}));
        assert!(end.contains("--reset") && end.contains("info"), "{end}");
    }

    #[test]
    fn a_time_needs_a_unit() {
        assert_eq!(parse_time("10m"), Ok(Duration::from_secs(600)));
        for bad in ["10", "0s", "m", "soon"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
