//! `top`: load, queue and jobs on the whole screen, with keys to sort, filter, stop and read logs.

use std::time::Duration;

use clap::Args;
use hyper::HeaderMap;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::time::{MissedTickBehavior, interval};

use super::job_view::{JobView, signal_exit_code};
use super::jobs::ListedJobs;
use super::server_request::{ServerRequestError, open_stream, send_post};
use super::server_set::{FoundJob, JobScopeFlags, ServerSet, TenantScope, parse_job_name};
use super::terminal::{
    ASKING, Display, RawTerminal, TerminalSignal, TerminalSignals, VerbOutput, format_with_causes,
    print, read_keys, read_terminal_size, with_spinner,
};
use super::text_layout::escape_for_terminal;
use super::top_view::{
    TopData, TopEffect, TopMode, TopScreen, TopState, list_keys, page_lines, parse_keys, render,
    split_key,
};
use crate::ids::TenantId;

/// The time between two looks at the servers.
const INTERVAL: Duration = Duration::from_secs(1);
/// The number of jobs that are shown.
const MAX_JOBS: usize = 200;
/// The number of lines of a log that can be scrolled through.
const LOG_LINES: u32 = 1000;
/// The fixed-point unit of load averages.
const LOAD_UNIT: f64 = 65_536.0;

/// Flags of the verb `top`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct TopFlags {
    #[command(flatten)]
    pub jobs: JobScopeFlags,
}

/// Shows the screen until the user quits; with `--json`, prints its content once.
pub(super) async fn run(
    flags: &TopFlags,
    servers: &ServerSet,
    display: &Display,
) -> Result<VerbOutput, ServerRequestError> {
    let top = Top { flags, servers, display };
    let state = TopState::default();
    let first = with_spinner(display, ASKING, top.read_servers(&state)).await?;
    if flags.jobs.server.json {
        let jobs: Vec<&Value> = first.jobs.jobs.iter().map(|(_, job)| job).collect();
        return Ok(VerbOutput::json(&json!({ "overview": first.overview, "jobs": jobs }), 0));
    }
    if !display.has_sequences || !display.has_keyboard {
        let advice = "top needs a terminal that can move its cursor; `shellyard jobs` lists jobs without one";
        return Err(ServerRequestError::Unusable(advice.to_owned()));
    }
    top.show(first).await
}

/// The parts that a running `top` needs all the time.
struct Top<'a> {
    flags: &'a TopFlags,
    servers: &'a ServerSet,
    display: &'a Display,
}

impl Top<'_> {
    /// Draws the screen after each change, until the user quits. The terminal is restored when this
    /// function returns or panics.
    async fn show(&self, first: TopData) -> Result<VerbOutput, ServerRequestError> {
        let failed = ServerRequestError::Terminal;
        let mut signals = TerminalSignals::listen().map_err(failed)?;
        let _screen = RawTerminal::enter_full_screen().map_err(failed)?;
        let mut keys = read_keys().map_err(failed)?;
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut state = TopState::default();
        let mut data = first;
        loop {
            self.draw(&state, &data).map_err(failed)?;
            tokio::select! {
                typed = keys.recv() => {
                    let Some(bytes) = typed else { return Ok(VerbOutput::default()) };
                    for key in parse_keys(&bytes) {
                        let shown = state.select_jobs(&data.jobs);
                        let page = page_lines(read_terminal_size());
                        state.message.clear();
                        match state.apply(key, &list_keys(&shown), page) {
                            TopEffect::None => {}
                            TopEffect::Quit => return Ok(VerbOutput::default()),
                            TopEffect::Stop(job) => state.message = self.stop(&job).await,
                            TopEffect::OpenLog(_) => data.log = self.read_log(&state).await,
                        }
                    }
                }
                _ = ticks.tick() => match self.read_servers(&state).await {
                    Ok(new) => data = new,
                    Err(error) => state.message = format_error(&error),
                },
                signal = signals.next() => match signal {
                    TerminalSignal::Resized => {}
                    TerminalSignal::End(signal) => {
                        let code = signal_exit_code(signal);
                        return Ok(VerbOutput::exit_code(code));
                    }
                },
            }
        }
    }

    fn draw(&self, state: &TopState, data: &TopData) -> std::io::Result<()> {
        let screen = TopScreen {
            size: read_terminal_size(),
            scope: self.flags.jobs.scope(),
            has_colors: self.display.has_colors,
            now: OffsetDateTime::now_utc(),
        };
        let lines = render(state, data, &state.select_jobs(&data.jobs), &screen);
        let frame = format!("\u{1b}[H{}\u{1b}[K\u{1b}[J", lines.join("\u{1b}[K\r\n"));
        print(frame.as_bytes())
    }

    /// Asks the servers for everything that the screen shows.
    async fn read_servers(&self, state: &TopState) -> Result<TopData, ServerRequestError> {
        let filter = self.flags.jobs.scope().list_filter();
        let path = format!("/api/v1/jobs?limit={MAX_JOBS}{filter}");
        let answers = self.servers.get_all(&path).await?;
        let jobs = ListedJobs::collect(&answers, MAX_JOBS);
        // Who may not see the queue still sees jobs.
        let queues = self.servers.get_all("/api/v1/queue").await;
        let queues = queues.map(|queues| queues.answers).unwrap_or_default();
        let queues: Vec<&Value> = queues.iter().map(|(_, queue)| queue).collect();
        let is_local = answers.answers.iter().all(|(server, _)| server.client.target().is_local());
        let load = is_local.then(read_load);
        let overview = [format_servers(answers.answers.len(), load), format_queues(&queues, &jobs)];
        Ok(TopData { overview, jobs, log: self.read_log(state).await })
    }

    /// Returns the end of the open log, or why it cannot be read; nothing if none is open.
    async fn read_log(&self, state: &TopState) -> Vec<String> {
        let TopMode::Log { job, .. } = &state.mode else { return Vec::new() };
        match self.try_read_log(job).await {
            Ok(bytes) => format_log(&bytes),
            Err(error) => vec![format_error(&error)],
        }
    }

    async fn try_read_log(&self, job: &str) -> Result<Vec<u8>, ServerRequestError> {
        let job = self.find_job(job).await?;
        let url = job.url("/output", &[("tail", LOG_LINES.to_string())]);
        let stream = open_stream(&job.server.client, &url, HeaderMap::new()).await?;
        Ok(stream.read_rest().await?.body.to_vec())
    }

    async fn find_job(&self, key: &str) -> Result<FoundJob, ServerRequestError> {
        let (name, tenant) = split_key(key);
        let name = parse_job_name(name).map_err(ServerRequestError::Unusable)?;
        let tenant = tenant.and_then(|tenant| TenantId::parse(tenant).ok());
        let scope = tenant.map_or_else(|| self.flags.jobs.scope(), TenantScope::One);
        self.servers.find_job(&name, scope).await
    }

    /// Stops a job, and returns the result for the last line.
    async fn stop(&self, job: &str) -> String {
        match self.try_stop(job).await {
            Ok(state) => format!("job {job}: {}", JobView(&state).state_cell().text),
            Err(error) => format_error(&error),
        }
    }

    async fn try_stop(&self, job: &str) -> Result<Value, ServerRequestError> {
        let job = self.find_job(job).await?;
        send_post(&job.server.client, &job.url("/stop", &[]), &json!({})).await
    }
}

fn format_error(error: &ServerRequestError) -> String {
    escape_for_terminal(&format_with_causes(error))
}

/// Returns the lines of a log without colours and other sequences.
fn format_log(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let plain = anstream::adapter::strip_str(&text).to_string();
    let format_line = |line: &str| {
        // A progress bar overwrites its line.
        let line = line.trim_end_matches('\r');
        let last = line.rsplit('\r').next().unwrap_or(line);
        escape_for_terminal(&last.replace('\t', "    "))
    };
    plain.lines().map(format_line).collect()
}

fn read_load() -> [f64; 3] {
    // A load has far fewer digits than a double.
    #[expect(clippy::cast_precision_loss, reason = "a load average is a small number")]
    rustix::system::sysinfo().loads.map(|load| load as f64 / LOAD_UNIT)
}

fn format_servers(servers: usize, load: Option<[f64; 3]>) -> String {
    let load = load.map(|[one, five, fifteen]| format!("load {one:.2} {five:.2} {fifteen:.2}  "));
    let servers = if servers == 1 { "1 server".to_owned() } else { format!("{servers} servers") };
    format!("shellyard  {}{servers}", load.unwrap_or_default())
}

/// Formats the queues of all servers together, or the counts of the list if none can be seen.
fn format_queues(queues: &[&Value], jobs: &ListedJobs) -> String {
    let count = |state: &str| {
        jobs.jobs.iter().filter(|(_, job)| JobView(job).text("state") == state).count()
    };
    if queues.is_empty() {
        return format!("running {}  queued {}", count("running"), count("queued"));
    }
    let sum = |name: &str| queues.iter().filter_map(|queue| queue[name].as_u64()).sum::<u64>();
    let mut line =
        format!("running {} of {}  queued {}", sum("running"), sum("slots"), sum("queued"));
    let pressure = queues.iter().find_map(|queue| queue["pressure"].as_str());
    if let Some(pressure) = pressure.filter(|pressure| *pressure != "none") {
        line.push_str(&format!("  {}", escape_for_terminal(pressure)));
    }
    for word in ["paused", "draining"] {
        if queues.iter().any(|queue| queue[word] == true) {
            line.push_str(&format!("  {word}"));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overview_adds_up_all_servers() {
        let jobs = ListedJobs { jobs: vec![("1".into(), json!({"state": "running"}))] };
        assert_eq!(format_queues(&[], &jobs), "running 1  queued 0");
        let queue = json!({"running": 1, "slots": 4, "queued": 2, "paused": true});
        let other = json!({"running": 0, "slots": 2, "queued": 0, "pressure": "memory"});
        let line = format_queues(&[&queue, &other], &jobs);
        assert_eq!(line, "running 1 of 6  queued 2  memory  paused");
        let line = format_servers(2, Some([0.5, 0.25, 1.0]));
        assert_eq!(line, "shellyard  load 0.50 0.25 1.00  2 servers");
    }

    #[test]
    fn a_log_is_shown_without_sequences() {
        let lines = format_log(b"\x1b[31mred\x1b[0m\n10%\r20%\r\na\tb\n\x9b2J\x07");
        assert_eq!(lines[..3], ["red", "20%", "a    b"]);
        assert!(!lines[3].contains('\u{7}'), "{lines:?}");
    }
}
