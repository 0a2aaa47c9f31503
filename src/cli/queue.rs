//! `queue`: the queue by lane and tenant, and what holds starts back.

use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};

use super::job_view::format_elapsed;
use super::server_request::{ConnectFlags, ServerRequestError, get};
use super::terminal::{VerbOutput, read_width};
use super::text_layout::{format_list_within, format_table_within};
use crate::client::ServerClient;

/// Flags of the verb `queue`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct QueueFlags {
    #[command(flatten)]
    pub server: ConnectFlags,
}

/// Prints the state of the queue.
pub(super) async fn run(
    flags: &QueueFlags,
    client: &ServerClient,
) -> Result<VerbOutput, ServerRequestError> {
    let queue = get(client, "/api/v1/queue").await?;
    Ok(flags.server.success_output(&queue, || VerbOutput {
        stdout: format_queue(&queue, read_width(&std::io::stdout())),
        ..VerbOutput::default()
    }))
}

fn format_queue(queue: &Value, width: Option<usize>) -> String {
    let parts = [
        format_list_within(&summary_rows(queue), width),
        format_table_within(&format_lanes(queue), width),
        format_table_within(&format_tenants(queue), width),
    ];
    parts.join("\n")
}

fn summary_rows(queue: &Value) -> Vec<Vec<String>> {
    let pressure = queue["pressure"].as_str().unwrap_or("none");
    let mut rows = vec![
        to_row(["starts", format_start_state(queue)]),
        to_row(["running", &format_running(queue)]),
        to_row([
            "queued",
            &format!(
                "{}{}",
                format_usage(&queue["queued"], &queue["max_queued"]),
                format_wait_reasons(queue)
            ),
        ]),
        to_row(["pressure", pressure]),
    ];
    if let Some(wait) = queue["estimate_ms"].as_u64() {
        rows.push(to_row([
            "a new job",
            &format!("waits about {}", format_elapsed(Duration::from_millis(wait))),
        ]));
    }
    rows
}

/// Formats the running jobs, as `3 of 4`; idle ones hold no slot and follow, as `, and 1 idle`.
fn format_running(queue: &Value) -> String {
    let [running, idle] = ["running", "idle"].map(|name| queue[name].as_u64().unwrap_or_default());
    let busy = format_usage(&json!(running.saturating_sub(idle)), &queue["slots"]);
    if idle == 0 { busy } else { format!("{busy}, and {idle} idle") }
}

/// Returns whether new jobs are accepted and queued jobs start.
fn format_start_state(queue: &Value) -> &'static str {
    match (queue["draining"] == true, queue["paused"] == true) {
        (false, false) => "open",
        (false, true) => "paused",
        (true, false) => "draining: no new jobs are accepted",
        (true, true) => "paused, and draining: no new jobs are accepted",
    }
}

/// Returns the reasons why jobs wait, limit frequent first.
fn format_wait_reasons(queue: &Value) -> String {
    let mut reasons: Vec<(&String, u64)> = object_fields(&queue["waiting"])
        .filter_map(|(reason, jobs)| Some((reason, jobs.as_u64()?)))
        .filter(|(_, jobs)| *jobs > 0)
        .collect();
    reasons.sort_by_key(|(_, jobs)| std::cmp::Reverse(*jobs));
    let words: Vec<String> = reasons
        .iter()
        .map(|(reason, jobs)| format!("{} {jobs}", reason.replace('_', " ")))
        .collect();
    if words.is_empty() { String::new() } else { format!(", for: {}", words.join(", ")) }
}

fn format_lanes(queue: &Value) -> Vec<Vec<String>> {
    let lane = |(name, lane): (&String, &Value)| {
        let starts = if lane["paused"] == true { "paused" } else { "open" };
        to_row([
            name,
            &format_usage(&lane["running"], &lane["slots"]),
            &format_usage(&lane["queued"], &lane["max_queued"]),
            starts,
        ])
    };
    let head = to_row(["LANE", "RUNNING", "QUEUED", "STARTS"]);
    std::iter::once(head).chain(object_fields(&queue["lanes"]).map(lane)).collect()
}

fn format_tenants(queue: &Value) -> Vec<Vec<String>> {
    let tenant = |(name, own): (&String, &Value)| {
        to_row([
            name,
            &own["weight"].to_string(),
            &format_usage(&own["running"], &own["max_running"]),
            &format_usage(&own["queued"], &own["max_queued"]),
            &format_limit(&own["starts_per_minute"]),
            &format_cpu(own),
        ])
    };
    let head = to_row(["TENANT", "WEIGHT", "RUNNING", "QUEUED", "STARTS/MIN", "CPU S/HOUR"]);
    std::iter::once(head).chain(object_fields(&queue["tenants"]).map(tenant)).collect()
}

/// Formats the CPU time of a tenant, which is counted only if the tenant has a limit on it.
fn format_cpu(tenant: &Value) -> String {
    let limit = &tenant["cpu_s_per_hour"];
    if limit.is_null() { "-".to_owned() } else { format_usage(&tenant["cpu_s"], limit) }
}

/// Formats `2 of 4`, or only the number if there is no limit.
fn format_usage(used: &Value, limit: &Value) -> String {
    if limit.is_null() { used.to_string() } else { format!("{used} of {limit}") }
}

fn format_limit(limit: &Value) -> String {
    if limit.is_null() { "-".to_owned() } else { limit.to_string() }
}

fn object_fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn to_row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overview_shows_usage_beside_its_limit() {
        let queue = json!({
            "slots": 4, "running": 5, "idle": 2, "queued": 2, "max_queued": 100, "paused": false,
            "draining": true, "pressure": "memory pressure 38 %", "estimate_ms": 2500,
            "waiting": {"slots": 0, "lane_paused": 2},
            "lanes": {"build": {"running": 1, "slots": 2, "queued": 2, "paused": true}},
            "tenants": {"ci": {"weight": 2, "running": 1, "max_running": 4, "queued": 2,
                               "cpu_s": 7, "cpu_s_per_hour": 60}},
        });
        let expected = "\
starts     draining: no new jobs are accepted
running    3 of 4, and 2 idle
queued     2 of 100, for: lane paused 2
pressure   memory pressure 38 %
a new job  waits about 2.5s

LANE   RUNNING  QUEUED  STARTS
build  1 of 2   2       paused

TENANT  WEIGHT  RUNNING  QUEUED  STARTS/MIN  CPU S/HOUR
ci      2       1 of 4   2       -           7 of 60
";
        assert_eq!(format_queue(&queue, None), expected);
    }
}
