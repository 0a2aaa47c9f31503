//! `show`: everything that the server knows about one job.

use clap::Args;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use unicode_width::UnicodeWidthChar as _;

use super::job_view::{JobView, format_elapsed};
use super::server_request::{ServerRequestError, get};
use super::server_set::{FoundJob, JobName, JobScopeFlags, ServerLabel, ServerSet, parse_job_name};
use super::terminal::{ASKING, Display, OutputSink, VerbOutput, with_spinner};
use super::text_layout::{TableRoom, Tone, escape_for_terminal};
use crate::setting_values::format_short_size;

/// The width of the labels.
const LABEL_WIDTH: usize = 13;
/// The width that a value gets at least.
const MIN_VALUE_WIDTH: usize = 16;
/// The number of processes that are listed.
const MAX_PROCESSES: usize = 20;

/// Flags of the verb `show`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ShowJobFlags {
    /// The job: its number, or SERVER/NUMBER.
    #[arg(value_name = "JOB", value_parser = parse_job_name)]
    pub job: JobName,
    #[command(flatten)]
    pub jobs: JobScopeFlags,
}

/// Prints everything that is known about the job.
pub(super) async fn run(
    flags: &ShowJobFlags,
    servers: &ServerSet,
    display: &Display,
) -> Result<VerbOutput, ServerRequestError> {
    let asking = async {
        let mut job = servers.find_job(&flags.job, flags.jobs.scope()).await?;
        // A job that was found in a list has not all fields.
        job.state = get(&job.server.client, &job.url("", &[])).await?;
        Ok::<_, ServerRequestError>(job)
    };
    // Without the pager, which the user may leave open.
    let job = with_spinner(display, ASKING, asking).await?;
    if flags.jobs.server.json {
        return Ok(VerbOutput::json(&job.state, 0));
    }
    let width = match display.table_room() {
        TableRoom::Terminal(width) => Some(width),
        TableRoom::Lines(_) => None,
    };
    let facts = list_facts(&job, OffsetDateTime::now_utc());
    let mut sink = OutputSink::open(display);
    // A write fails if the reader is gone.
    sink.write(format_facts(&facts, width, display.has_colors).as_bytes()).ok();
    sink.close();
    Ok(VerbOutput::default())
}

/// One line about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
struct JobFact {
    label: &'static str,
    value: String,
    tone: Tone,
}

fn list_facts(job: &FoundJob, now: OffsetDateTime) -> Vec<JobFact> {
    let view = JobView(&job.state);
    let state = view.state_cell();
    let plain = |label, value: String| JobFact { label, value, tone: Tone::Plain };
    let server = match job.server.name {
        ServerLabel::Given | ServerLabel::Shared => job.server.target(),
        ServerLabel::Stdio(pid) => format!("stdio, process {pid}"),
    };
    let mut facts = vec![
        plain("job", job.name.clone()),
        JobFact { label: "state", value: state.text, tone: state.tone },
        plain("reason", view.explain_end().unwrap_or_default()),
        plain("command", view.safe_text("command")),
        plain("description", view.safe_text("description")),
        plain("directory", view.safe_text("directory")),
        plain("client", view.client()),
        plain("of directory", view.safe_text("client_directory")),
        plain("tenant", job.tenant.clone().unwrap_or_else(|| view.safe_text("tenant"))),
        plain("server", escape_for_terminal(&server)),
        plain("submitted", format_moment(view, "submitted_at", now)),
        plain("started", format_moment(view, "started_at", now)),
        plain("finished", format_moment(view, "finished_at", now)),
        plain("ran for", view.elapsed()),
        plain("waits for", view.queue_position()),
        plain("lane", view.safe_text("lane")),
        plain("key", view.safe_text("key")),
        plain("output", format_output(view)),
        plain("usage", format_usage(view)),
        plain("limits", format_limits(&job.state["limits"])),
        plain("sandbox", format_sandbox(&job.state["confinement"])),
        plain("terminal", if job.state["terminal"] == true { "yes".into() } else { String::new() }),
        plain("pid", format_number(&job.state["pid"])),
    ];
    facts.extend(format_processes(&job.state).into_iter().map(|line| plain("processes", line)));
    facts.retain(|fact| !["", "-"].contains(&fact.value.as_str()));
    facts
}

/// Formats a time field as `2026-01-02T03:04:05.000Z (3m ago)`.
fn format_moment(job: JobView<'_>, name: &str, now: OffsetDateTime) -> String {
    match job.ago(name, now) {
        Some(ago) => format!("{} ({ago})", job.safe_text(name)),
        None => String::new(),
    }
}

fn format_output(job: JobView<'_>) -> String {
    let bytes = job.0["total_bytes"].as_u64().unwrap_or_default();
    let lines = job.0["lines"].as_u64().unwrap_or_default();
    let unit = if lines == 1 { "line" } else { "lines" };
    let dropped = match job.0["dropped_bytes"].as_u64() {
        Some(dropped) if dropped > 0 => {
            let at_most = if job.0["dropped_at_most"] == true { "up to " } else { "" };
            format!(", {at_most}{} not kept", format_short_size(dropped))
        }
        Some(_) | None => String::new(),
    };
    format!("{lines} {unit}, {}{dropped}", format_short_size(bytes))
}

fn format_usage(job: JobView<'_>) -> String {
    let cpu = job.0["cpu_ms"].as_u64().map(|time| {
        let time = std::time::Duration::from_millis(time);
        format!("CPU {}", format_elapsed(time))
    });
    let memory = job.0["max_rss_bytes"].as_u64();
    let memory = memory.map(|bytes| format!("memory {}", format_short_size(bytes)));
    cpu.into_iter().chain(memory).collect::<Vec<_>>().join(", ")
}

/// Formats limits as `timeout 60 s, output 10.0 MiB, …`.
fn format_limits(limits: &Value) -> String {
    let fields = limits.as_object().into_iter().flat_map(Map::iter);
    let limits = fields.map(|(name, value)| {
        let is_size = name.ends_with("_bytes") || ["memory", "file_size"].contains(&name.as_str());
        let value = match value.as_u64() {
            Some(bytes) if is_size => format_short_size(bytes),
            _ => escape_for_terminal(&format_number(value)),
        };
        match name.strip_suffix("_s") {
            Some(name) => format!("{} {value} s", name.replace('_', " ")),
            None => format!("{} {value}", name.trim_end_matches("_bytes").replace('_', " ")),
        }
    });
    limits.collect::<Vec<_>>().join(", ")
}

fn format_sandbox(confinement: &Value) -> String {
    let field = |name: &str| confinement[name].as_str().unwrap_or_default();
    if confinement.is_null() {
        return String::new();
    }
    let weaker = if confinement["degraded"] == true { ", weaker than requested" } else { "" };
    escape_for_terminal(&format!("{}, network {}{weaker}", field("profile"), field("network")))
}

fn format_processes(job: &Value) -> Vec<String> {
    let processes = job["processes"].as_array().map_or(&[][..], Vec::as_slice);
    let mut lines: Vec<String> = processes
        .iter()
        .take(MAX_PROCESSES)
        .map(|process| format!("{} {}", process["pid"], JobView(process).safe_text("command")))
        .collect();
    if let Some(more) = processes.len().checked_sub(MAX_PROCESSES).filter(|more| *more > 0) {
        lines.push(format!("and {more} more"));
    }
    lines
}

fn format_number(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// Formats facts with their labels on the left; values are wrapped to a terminal of this width.
fn format_facts(facts: &[JobFact], width: Option<usize>, has_colors: bool) -> String {
    let room = width.map(|width| width.saturating_sub(LABEL_WIDTH).max(MIN_VALUE_WIDTH));
    let mut text = String::new();
    let mut previous = "";
    for fact in facts {
        let lines = match room {
            Some(room) => split_lines(&fact.value, room),
            None => vec![fact.value.clone()],
        };
        for (index, line) in lines.iter().enumerate() {
            let label = if index == 0 && fact.label != previous { fact.label } else { "" };
            let padding = " ".repeat(LABEL_WIDTH - label.len());
            let label = Tone::Faint.paint(label, has_colors);
            text.push_str(&format!("{label}{padding}{}\n", fact.tone.paint(line, has_colors)));
        }
        previous = fact.label;
    }
    text
}

/// Splits a text into lines of at most this width, at blanks where there are some.
fn split_lines(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for c in text.chars() {
        let char_width = c.width().unwrap_or(0);
        if used + char_width > width {
            let rest = match line.rfind(' ') {
                Some(blank) if blank > 0 => {
                    let rest = line[blank + 1..].to_owned();
                    line.truncate(blank);
                    rest
                }
                Some(_) | None => String::new(),
            };
            lines.push(std::mem::replace(&mut line, rest));
            used = line.chars().map(|c| c.width().unwrap_or(0)).sum();
        }
        line.push(c);
        used += char_width;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    #[test]
    fn long_values_are_wrapped_at_blanks_and_lose_nothing() {
        assert_eq!(split_lines("one two three", 8), ["one two", "three"]);
        assert_eq!(split_lines("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(split_lines("日本語", 4), ["日本", "語"]);
        assert_eq!(split_lines("", 4), [""]);
        let facts = [JobFact { label: "command", value: "x ".repeat(100), tone: Tone::Plain }];
        let text = format_facts(&facts, Some(40), false);
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
        assert_eq!(text.matches('x').count(), 100);
    }

    #[test]
    fn limits_and_sizes_are_in_units_of_people() {
        let limits = json!({"timeout_s": 60, "output_bytes": 10_485_760, "output_lines": 7});
        assert_eq!(format_limits(&limits), "output 10.0 MiB, output lines 7, timeout 60 s");
        assert_eq!(format_limits(&Value::Null), "");
        let job = json!({"total_bytes": 5, "lines": 1, "cpu_ms": 1200, "max_rss_bytes": 2048});
        assert_eq!(format_output(JobView(&job)), "1 line, 5 B");
        assert_eq!(format_usage(JobView(&job)), "CPU 1.2s, memory 2.0 KiB");
    }
}
