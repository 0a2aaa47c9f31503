//! The verbs with which an operator controls a running server: `queue`, `pause`, `resume`, `drain`,
//! `upgrade` and `log-level`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::config::{self, ReloadFlags};
use super::flags::parse_duration;
use super::job_view::format_elapsed;
use super::server_request::{ConnectFlags, ServerRequestError, get, put, send_post};
use super::terminal::{ASKING, Display, VerbOutput, read_width, with_spinner};
use super::text_layout::{format_list_within, format_table_within};
use crate::client::ServerClient;

/// A verb that sends a request to a running server.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum OperatorVerb {
    /// Show the queue: running and queued jobs by lane and tenant, and what holds starts back.
    Queue(QueueFlags),
    /// Hold queued jobs back, in one lane or in all; running jobs continue.
    Pause(LaneFlags),
    /// Start queued jobs again after `pause`, in one lane or in all.
    Resume(LaneFlags),
    /// Refuse new jobs; queued and running jobs finish.
    Drain(DrainFlags),
    /// Replace a running server by another version of it; its jobs go on.
    Upgrade(UpgradeFlags),
    /// Show or change the log filter of a running server.
    LogLevel(LogLevelFlags),
    /// Reload the settings; those that need no restart apply at once.
    #[command(skip)]
    Reload(ReloadFlags),
}

impl OperatorVerb {
    /// Returns the flags that name the server and the caller's token.
    #[must_use]
    pub const fn server(&self) -> &ConnectFlags {
        match self {
            Self::Queue(flags) => &flags.server,
            Self::Pause(flags) | Self::Resume(flags) => &flags.server,
            Self::Drain(flags) => &flags.server,
            Self::Upgrade(flags) => &flags.server,
            Self::LogLevel(flags) => &flags.server,
            Self::Reload(flags) => &flags.server,
        }
    }

    /// Sends the request, prints the result, and returns the exit code: 0, or 1 if the request was
    /// refused or failed.
    pub async fn run(&self, client: &ServerClient, display: &Display) -> u8 {
        let done = match self {
            // It prints a message before it waits, and shows itself that it waits.
            Self::Drain(flags) => drain(flags, client, display).await,
            Self::Upgrade(flags) => {
                with_spinner(display, "upgrading the server", upgrade(flags, client)).await
            }
            Self::Queue(flags) => with_spinner(display, ASKING, show_queue(flags, client)).await,
            Self::Pause(flags) => with_spinner(display, ASKING, pause(flags, client)).await,
            Self::Resume(flags) => with_spinner(display, ASKING, resume(flags, client)).await,
            Self::LogLevel(flags) => with_spinner(display, ASKING, log_level(flags, client)).await,
            Self::Reload(flags) => {
                with_spinner(display, ASKING, config::reload_settings(flags, client)).await
            }
        };
        done.unwrap_or_else(|error| self.server().failure_output(&error)).print()
    }
}

// `queue`: the queue by lane and tenant, and what holds starts back.

/// Flags of the verb `queue`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct QueueFlags {
    #[command(flatten)]
    pub server: ConnectFlags,
}

/// Prints the state of the queue.
async fn show_queue(
    flags: &QueueFlags,
    client: &ServerClient,
) -> Result<VerbOutput, ServerRequestError> {
    let queue = get(client, "/api/v1/queue").await?;
    Ok(flags.server.success_output(&queue, || {
        VerbOutput::result(format_queue(&queue, read_width(&std::io::stdout())))
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

// `pause` and `resume`: hold queued jobs back, in one lane or in all, and start them again.

/// Flags of `pause` and `resume`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct LaneFlags {
    /// Only this lane; jobs that name no lane are in `default`.
    #[arg(long, value_name = "LANE")]
    pub lane: Option<String>,
    #[command(flatten)]
    pub server: ConnectFlags,
}

impl LaneFlags {
    fn request_body(&self) -> Value {
        self.lane.as_ref().map_or_else(|| json!({}), |lane| json!({ "lane": lane }))
    }

    /// Returns the part of the queue that the flags select, with its own counts.
    fn counts<'q>(&self, queue: &'q Value) -> &'q Value {
        self.lane.as_ref().map_or(queue, |lane| &queue["lanes"][lane])
    }

    /// Returns the name of the paused part of the queue, and the flag that selects it.
    fn target(&self) -> (String, String) {
        match &self.lane {
            None => ("the queue".to_owned(), String::new()),
            Some(lane) => (format!("lane {lane}"), format!(" --lane {lane}")),
        }
    }
}

/// Holds queued jobs back.
async fn pause(flags: &LaneFlags, client: &ServerClient) -> Result<VerbOutput, ServerRequestError> {
    let queue = send_post(client, "/api/v1/queue/pause", &flags.request_body()).await?;
    let (target, flag) = flags.target();
    let advice = format!("running jobs continue; `shellyard resume{flag}` starts jobs again");
    let done = format!("{target} is paused");
    Ok(flags.server.success_output(&queue, || queue_message(&done, flags.counts(&queue), &advice)))
}

/// Starts queued jobs again.
async fn resume(
    flags: &LaneFlags,
    client: &ServerClient,
) -> Result<VerbOutput, ServerRequestError> {
    let queue = send_post(client, "/api/v1/queue/resume", &flags.request_body()).await?;
    let (target, _) = flags.target();
    let advice = describe_remaining_pause(&queue).unwrap_or_else(|| "jobs start again".to_owned());
    let done = format!("{target} is resumed");
    Ok(flags.server.success_output(&queue, || queue_message(&done, flags.counts(&queue), &advice)))
}

/// Returns which part of the queue is still paused and the command that resumes it.
fn describe_remaining_pause(queue: &Value) -> Option<String> {
    if queue["paused"] == true {
        return Some("the queue is still paused: `shellyard resume`".to_owned());
    }
    let lanes = queue["lanes"].as_object()?;
    let (lane, _) = lanes.iter().find(|(_, lane)| lane["paused"] == true)?;
    Some(format!("lane {lane} is still paused: `shellyard resume --lane {lane}`"))
}

fn queue_message(done: &str, counts: &Value, advice: &str) -> VerbOutput {
    VerbOutput::message(&format!("{done} ({}); {advice}", format_counts(counts)))
}

/// Formats the counts of the queue or of a lane as `1 running, 2 queued`.
fn format_counts(counts: &Value) -> String {
    format!("{} running, {} queued", counts["running"], counts["queued"])
}

// `drain`: the server refuses new jobs and finishes the accepted ones.

/// The time between two requests for the state of a draining server.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Flags of the verb `drain`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct DrainFlags {
    /// Accept new jobs again.
    #[arg(long, conflicts_with_all = ["exit", "wait"])]
    pub undo: bool,
    /// End the server when no job is queued or running.
    #[arg(long)]
    pub exit: bool,
    /// Return when no job is queued or running; with --exit, when the server has ended.
    #[arg(long)]
    pub wait: bool,
    #[command(flatten)]
    pub server: ConnectFlags,
}

/// Drains the server, or undoes a drain.
async fn drain(
    flags: &DrainFlags,
    client: &ServerClient,
    display: &Display,
) -> Result<VerbOutput, ServerRequestError> {
    let body = json!({ "undo": flags.undo, "exit": flags.exit });
    let answer = send_post(client, "/api/v1/drain", &body);
    let queue = with_spinner(display, ASKING, answer).await?;
    if !flags.wait {
        return Ok(flags
            .server
            .success_output(&queue, || VerbOutput::message(&format_first_message(flags, &queue))));
    }
    if !flags.server.json {
        // The wait may be long, so the first message is printed at once.
        VerbOutput::message(&format_first_message(flags, &queue)).print();
    }
    let waiting =
        with_spinner(display, "waiting for the last job", wait_until_drained(flags, client, queue));
    let (last, words) = match waiting.await? {
        DrainEnd::Empty(queue) => (queue, "no job is queued or running any more"),
        DrainEnd::ServerGone(queue) => (queue, "the server has ended"),
    };
    Ok(flags.server.success_output(&last, || VerbOutput::message(words)))
}

/// The end of the wait, with the last state of the queue.
enum DrainEnd {
    Empty(Value),
    ServerGone(Value),
}

async fn wait_until_drained(
    flags: &DrainFlags,
    client: &ServerClient,
    mut queue: Value,
) -> Result<DrainEnd, ServerRequestError> {
    loop {
        if queue["draining"] != true {
            return Err(ServerRequestError::DrainUndone { target: client.target().to_string() });
        }
        if !flags.exit && queue["running"] == 0 && queue["queued"] == 0 {
            return Ok(DrainEnd::Empty(queue));
        }
        sleep(DRAIN_POLL_INTERVAL).await;
        queue = match get(client, "/api/v1/queue").await {
            Ok(queue) => queue,
            Err(error) if flags.exit && error.is_gone() => return Ok(DrainEnd::ServerGone(queue)),
            Err(error) => return Err(error),
        };
    }
}

fn format_first_message(flags: &DrainFlags, queue: &Value) -> String {
    let counts = format_counts(queue);
    if flags.undo {
        return format!("new jobs are accepted again ({counts})");
    }
    let mut message = format!("new jobs are refused ({counts})");
    if flags.exit {
        message.push_str("; the server ends when no job is queued or running");
    }
    if queue["queued"] != 0
        && let Some(paused) = describe_remaining_pause(queue)
    {
        message.push_str(&format!("; {paused}"));
    }
    format!("{message}; `shellyard drain --undo` undoes the drain")
}

// `upgrade`: replaces a running server by another version of it, while its jobs go on.

/// The time between two requests for the state of the new server.
const UPGRADE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The longest wait for an answer of the new server, or of the old one if the upgrade was undone.
const UPGRADE_TIME: Duration = Duration::from_secs(120);

/// The time without a listener after which the server counts as ended.
const ABSENCE_TIME: Duration = Duration::from_secs(1);

/// Flags of the verb `upgrade`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct UpgradeFlags {
    /// The new program; the default is the path that the server was started with.
    pub program: Option<PathBuf>,
    #[command(flatten)]
    pub server: ConnectFlags,
}

/// Upgrades the server, and waits until the new one answers.
async fn upgrade(
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
        VerbOutput::message(&format!("upgraded from {from} to {to}; jobs go on"))
    }))
}

/// Waits for the answer of a later server than `old`.
async fn wait_for_successor(
    client: &ServerClient,
    old: &Value,
) -> Result<Value, ServerRequestError> {
    let started = Instant::now();
    let mut wait = SuccessorWait::new(client.target().to_string(), old);
    loop {
        sleep(UPGRADE_POLL_INTERVAL).await;
        let answer = get(client, "/api/v1/upgrade").await;
        if let Some(end) = wait.judge_answer(answer, started.elapsed()) {
            return end;
        }
    }
}

/// The wait for a later server than the one that was to be replaced.
#[derive(Debug)]
struct SuccessorWait<'a> {
    target: String,
    old: &'a Value,
    /// The time since which nothing listens.
    absent_since: Option<Duration>,
}

impl<'a> SuccessorWait<'a> {
    const fn new(target: String, old: &'a Value) -> Self {
        Self { target, old, absent_since: None }
    }

    /// Returns the result of the upgrade if this answer, at this time of the wait, decides it.
    fn judge_answer(
        &mut self,
        answer: Result<Value, ServerRequestError>,
        waited: Duration,
    ) -> Option<Result<Value, ServerRequestError>> {
        let is_late = waited >= UPGRADE_TIME;
        if let Err(error @ ServerRequestError::NoServer { .. }) = answer {
            // The keeper holds the listeners while no server runs, so it has ended as well.
            let since = *self.absent_since.get_or_insert(waited);
            return (waited.saturating_sub(since) >= ABSENCE_TIME).then_some(Err(error));
        }
        self.absent_since = None;
        let generation = |server: &Value| server["generation"].as_u64();
        let target = self.target.clone();
        match answer {
            Ok(new) if generation(&new) > generation(self.old) => Some(Ok(new)),
            Ok(new) if new["pid"] != self.old["pid"] => {
                let pid = new["pid"].to_string();
                Some(Err(ServerRequestError::UpgradeLost { target, pid }))
            }
            Ok(_) if is_late => {
                let why = "the old server still answers".to_owned();
                Some(Err(ServerRequestError::UpgradeUndone { target, why }))
            }
            Err(error) if is_late => Some(Err(error)),
            Ok(_) | Err(_) => None,
        }
    }
}

fn describe_server(server: &Value) -> String {
    format!("version {} (process {})", server["version"].as_str().unwrap_or("?"), server["pid"])
}

// `log-level`: the log filter of a running server.

const LOG_LEVEL_PATH: &str = "/api/v1/log-level";

/// Flags of `log-level`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct LogLevelFlags {
    /// Log filter to set, such as `debug` or `info,shellyard::http=trace`; without it, the current
    /// filter is printed.
    pub filter: Option<String>,
    /// Restore the configured filter after this time, such as 10m or 1h.
    #[arg(long = "for", value_name = "TIME", requires = "filter", value_parser = parse_log_time)]
    pub time: Option<Duration>,
    /// Restore the configured filter now.
    #[arg(long, conflicts_with = "filter")]
    pub reset: bool,
    #[command(flatten)]
    pub server: ConnectFlags,
}

/// Prints or changes the log filter.
async fn log_level(
    flags: &LogLevelFlags,
    client: &ServerClient,
) -> Result<VerbOutput, ServerRequestError> {
    let answer = match (&flags.filter, flags.reset) {
        (Some(filter), _) => {
            let mut body = json!({ "filter": filter });
            if let Some(time) = flags.time {
                body["for_s"] = time.as_secs().into();
            }
            put(client, LOG_LEVEL_PATH, &body).await?
        }
        (None, true) => put(client, LOG_LEVEL_PATH, &json!({})).await?,
        (None, false) => get(client, LOG_LEVEL_PATH).await?,
    };
    Ok(flags.server.success_output(&answer, || filter_output(&answer)))
}

/// Prints the filter on stdout, and on stderr how long it is active.
fn filter_output(answer: &Value) -> VerbOutput {
    let filter = field_text(&answer["filter"]);
    let configured = field_text(&answer["configured"]);
    let stderr = match answer["for_s"].as_u64() {
        Some(seconds) => format!("for another {seconds} s, then {configured} again\n"),
        None if filter == configured => String::new(),
        None => format!(
            "until the server ends or log.filter changes; `shellyard log-level --reset` restores {configured}\n"
        ),
    };
    VerbOutput { stdout: format!("{filter}\n"), stderr, code: 0 }
}

fn field_text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn parse_log_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "give a time such as 10m, 1h or 90s".to_owned())
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

    #[test]
    fn a_part_that_is_still_paused_is_named_with_the_command_that_resumes_it() {
        let queue = |all: bool, build: bool| {
            let lanes = json!({"build": {"paused": build}, "default": {"paused": false}});
            json!({"paused": all, "lanes": lanes})
        };
        assert_eq!(describe_remaining_pause(&queue(false, false)), None);
        assert!(describe_remaining_pause(&queue(true, true)).unwrap().contains("the queue"));
        assert!(
            describe_remaining_pause(&queue(false, true)).unwrap().contains("resume --lane build")
        );
    }

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
    fn an_upgrade_ends_with_a_later_server_or_with_the_end_of_all_of_its_keeper() {
        let old = json!({"generation": 2, "pid": 7});
        let answer = |generation, pid| Ok(json!({"generation": generation, "pid": pid}));
        let absent = || {
            let source = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            Err(ServerRequestError::NoServer { target: String::new(), source })
        };
        let busy = || Err(ServerRequestError::NoAnswer { target: String::new() });
        let mut wait = SuccessorWait::new("here".to_owned(), &old);
        let mut end_at = |millis, answer| {
            let end = wait.judge_answer(answer, Duration::from_millis(millis));
            end.map(|end| end.map_or_else(|error| error.code().to_owned(), |new| new.to_string()))
        };
        assert_eq!(end_at(0, answer(2, 7)), None, "the old server");
        assert_eq!(end_at(100, absent()), None);
        assert_eq!(end_at(1_000, busy()), None, "it was absent only for a moment");
        assert_eq!(end_at(1_500, absent()), None);
        assert_eq!(end_at(2_499, absent()), None);
        assert_eq!(end_at(2_500, absent()).unwrap(), "no_server");
        assert_eq!(end_at(3_000, answer(2, 8)).unwrap(), "other_server");
        assert_eq!(end_at(3_000, answer(1, 8)).unwrap(), "other_server");
        assert!(end_at(3_000, answer(3, 8)).unwrap().contains("\"generation\":3"));
        assert_eq!(end_at(120_000, answer(2, 7)).unwrap(), "not_upgraded");
        assert_eq!(end_at(120_000, busy()).unwrap(), "no_answer");
    }

    #[test]
    fn a_time_needs_a_unit() {
        assert_eq!(parse_log_time("10m"), Ok(Duration::from_secs(600)));
        for bad in ["10", "0s", "m", "soon"] {
            assert!(parse_log_time(bad).is_err(), "{bad}");
        }
    }
}
