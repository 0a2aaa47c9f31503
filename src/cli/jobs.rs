//! `jobs`: a table of the jobs of a running server.

use std::io;
use std::time::Duration;

use clap::Args;
use rustix::termios::tcgetwinsize;
use serde_json::Value;

use super::server_request::{ConnectFlags, ServerRequestError, get};
use super::terminal::{VerbOutput, escape_for_terminal, format_table, truncate};
use crate::client::ServerClient;
use crate::ids::TenantId;

/// The width of a table if stdout is not a terminal.
const DEFAULT_WIDTH: usize = 120;
/// The width of the command column on a narrow terminal.
const MIN_COMMAND_WIDTH: usize = 20;
/// The widest name and version of a client.
const MAX_CLIENT_WIDTH: usize = 24;
/// The widest directory of a client.
const MAX_DIRECTORY_WIDTH: usize = 24;

/// Flags of the verb `jobs`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct JobsFlags {
    /// List the jobs of all tenants; needs the role admin.
    #[arg(long, conflicts_with = "tenant")]
    pub all: bool,
    /// List only jobs in this state.
    #[arg(long, value_name = "STATE", default_value = "all")]
    #[arg(value_parser = ["queued", "running", "stopping", "finished", "all"])]
    pub state: String,
    /// Number of jobs to list, newest first.
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=200))]
    pub limit: u16,
    /// List the jobs of this tenant; needs the role admin.
    #[arg(long, value_name = "NAME", value_parser = parse_tenant)]
    pub tenant: Option<TenantId>,
    #[command(flatten)]
    pub server: ConnectFlags,
}

fn parse_tenant(text: &str) -> Result<TenantId, String> {
    TenantId::parse(text).map_err(|error| error.to_string())
}

/// Lists the requested jobs.
pub(super) async fn run(
    flags: &JobsFlags,
    client: &ServerClient,
) -> Result<VerbOutput, ServerRequestError> {
    let answer = get(client, &jobs_url(flags)).await?;
    Ok(flags.server.success_output(&answer, || {
        let jobs = answer["jobs"].as_array().map_or(&[][..], Vec::as_slice);
        VerbOutput {
            stdout: format_jobs(jobs, choose_tenant_column(flags), read_terminal_width()),
            stderr: format_headline(jobs, flags.limit.into()),
            code: 0,
        }
    }))
}

fn jobs_url(flags: &JobsFlags) -> String {
    let filter = match (flags.all, flags.tenant) {
        (true, _) => "&all=1".to_owned(),
        // A tenant's name needs no escapes in a URL.
        (false, Some(tenant)) => format!("&tenant={}", tenant.name()),
        (false, None) => String::new(),
    };
    format!("/api/v1/jobs?state={}&limit={}{filter}", flags.state, flags.limit)
}

/// The content of the tenant column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TenantColumn {
    Hidden,
    FromJob,
    Fixed(TenantId),
}

const fn choose_tenant_column(flags: &JobsFlags) -> TenantColumn {
    match (flags.all, flags.tenant) {
        (true, _) => TenantColumn::FromJob,
        (false, Some(tenant)) => TenantColumn::Fixed(tenant),
        (false, None) => TenantColumn::Hidden,
    }
}

fn read_terminal_width() -> usize {
    let size = tcgetwinsize(io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(DEFAULT_WIDTH)
}

fn format_jobs(jobs: &[Value], column: TenantColumn, width: usize) -> String {
    if jobs.is_empty() {
        return String::new();
    }
    let head = ["TENANT", "JOB", "STATE", "ELAPSED", "WAITS FOR", "LINES", "CLIENT"];
    let head = head.map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    rows.extend(jobs.iter().map(|job| format_job_cells(job, column)));
    if column == TenantColumn::Hidden {
        rows.iter_mut().for_each(|row| drop(row.remove(0)));
    }
    let before =
        format_table(&rows).lines().map(|line| line.chars().count()).max().unwrap_or(0) + 2;
    let room = width.saturating_sub(before).max(MIN_COMMAND_WIDTH);
    let commands =
        jobs.iter().map(|job| truncate(&escape_for_terminal(text_field(job, "command")), room));
    for (row, command) in rows.iter_mut().zip(std::iter::once("COMMAND".to_owned()).chain(commands))
    {
        row.push(command);
    }
    format_table(&rows)
}

fn format_job_cells(job: &Value, column: TenantColumn) -> Vec<String> {
    let tenant = match column {
        TenantColumn::Hidden => String::new(),
        TenantColumn::FromJob => text_field(job, "tenant").to_owned(),
        TenantColumn::Fixed(tenant) => tenant.name().to_owned(),
    };
    let elapsed =
        job["elapsed_ms"].as_u64().map(|time| format_elapsed(Duration::from_millis(time)));
    vec![
        tenant,
        job["job"].to_string(),
        format_state(job),
        elapsed.unwrap_or_else(|| "-".to_owned()),
        format_queue_position(job),
        job["lines"].as_u64().unwrap_or_default().to_string(),
        format_client(job),
    ]
}

/// Formats the program that submitted a job as `codex 0.166 in ~/app`, with its version and
/// directory as far as they are known.
fn format_client(job: &Value) -> String {
    let name = text_field(job, "client");
    let mut words: Vec<&str> = vec![if name.is_empty() { "-" } else { name }];
    words.extend(Some(text_field(job, "client_version")).filter(|version| !version.is_empty()));
    let client = truncate(&escape_for_terminal(&words.join(" ")), MAX_CLIENT_WIDTH);
    match text_field(job, "client_directory") {
        "" => client,
        directory => format!("{client} in {}", shorten_directory(&escape_for_terminal(directory))),
    }
}

/// Keeps the end of a long path, which says most.
fn shorten_directory(path: &str) -> String {
    let length = path.chars().count();
    if length <= MAX_DIRECTORY_WIDTH {
        return path.to_owned();
    }
    let end: String = path.chars().skip(length + 1 - MAX_DIRECTORY_WIDTH).collect();
    format!("…{end}")
}

/// Formats the state of a job, or its outcome.
fn format_state(job: &Value) -> String {
    let state = match text_field(job, "outcome") {
        "" => text_field(job, "state").to_owned(),
        "exited" => format!("exit {}", job["exit_code"]),
        "signaled" => format!("killed by {}", text_field(job, "signal")),
        other => other.replace('_', " "),
    };
    match job["background_pids"].as_array().map_or(0, Vec::len) {
        0 => state,
        1 => format!("{state}, 1 process still running"),
        processes => format!("{state}, {processes} processes still running"),
    }
}

/// Formats the queue position as `2 of 5: 4/4 slots busy`, with the lane unless it is `default`.
fn format_queue_position(job: &Value) -> String {
    let Some(position) = job["queue_position"].as_u64() else { return "-".to_owned() };
    let lane = match text_field(job, "lane") {
        "" | "default" => String::new(),
        lane => format!(" in {lane}"),
    };
    format!("{position} of {}{lane}: {}", job["queue_length"], text_field(job, "waits_for"))
}

/// Formats a time as `0.4s`, `12.0s`, `2m05s` or `1h02m`.
pub(super) fn format_elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{}.{}s", seconds, time.subsec_millis() / 100),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600.. => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

fn format_headline(jobs: &[Value], limit: usize) -> String {
    let in_state =
        |state: &str| jobs.iter().filter(|job| text_field(job, "state") == state).count();
    if jobs.is_empty() {
        return "no jobs\n".to_owned();
    }
    let running = in_state("running") + in_state("stopping");
    let counts = format!(
        "{running} running, {} queued, {} finished",
        in_state("queued"),
        in_state("finished")
    );
    if jobs.len() < limit {
        return format!("{counts}\n");
    }
    format!("{counts} among the newest {limit}; --limit N shows more, up to 200\n")
}

fn text_field<'a>(job: &'a Value, name: &str) -> &'a str {
    job[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn jobs() -> Vec<Value> {
        vec![
            json!({"tenant": "ci", "job": 3, "state": "queued", "queue_position": 1,
                   "queue_length": 2, "lane": "build", "waits_for": "lane build is paused",
                   "lines": 0, "command": "make\n\u{1b}[31mall", "client": "codex",
                   "client_version": "0.166", "client_directory": "/home/someone/src/shop/app"}),
            json!({"tenant": "a", "job": 12, "state": "running", "elapsed_ms": 125_000,
                   "lines": 7, "command": "x".repeat(200)}),
            json!({"tenant": "ci", "job": 1, "state": "finished", "outcome": "signaled",
                   "signal": "SIGKILL", "elapsed_ms": 400, "lines": 1, "command": "true"}),
        ]
    }

    #[test]
    fn the_table_has_a_line_for_each_job_and_fits_the_terminal() {
        let table = format_jobs(&jobs(), TenantColumn::FromJob, 150);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[1],
            "ci      3    queued             -        1 of 2 in build: lane build is paused  0      codex 0.166 in …me/someone/src/shop/app  make\\n\\u{1b}[31mall"
        );
        assert!(lines[0].starts_with("TENANT  JOB  STATE"), "{table}");
        assert!(lines[2].starts_with("a       12   running            2m05s    -"), "{table}");
        assert!(lines[3].contains("killed by SIGKILL  0.4s") && lines[3].ends_with("true"));
        assert!(lines[2].ends_with("xx…"), "{table}");
        assert!(lines.iter().all(|line| line.chars().count() <= 150), "{table}");
        let own = format_jobs(&jobs(), TenantColumn::Hidden, 400);
        assert!(own.starts_with("JOB") && !own.contains("ci"), "{own}");
        assert!(own.contains(&"x".repeat(200)), "there is room");
        assert_eq!(format_jobs(&[], TenantColumn::FromJob, 100), "");
    }

    #[test]
    fn longer_times_are_shown_with_less_precision() {
        for (millis, text) in
            [(449, "0.4s"), (59_999, "59.9s"), (60_000, "1m00s"), (3_720_000, "1h02m")]
        {
            assert_eq!(format_elapsed(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn a_truncated_list_says_so() {
        assert_eq!(format_headline(&jobs(), 20), "1 running, 1 queued, 1 finished\n");
        assert!(format_headline(&jobs(), 3).contains("newest 3; --limit N"));
    }
}
