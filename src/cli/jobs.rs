//! `jobs`: a table of the jobs of all servers of this user, or of one server.

use std::io::{self, Write as _};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::job_view::JobView;
use super::server_request::ServerRequestError;
use super::server_set::{
    FoundServer, JobScopeFlags, ServerAnswers, ServerLabel, ServerSet, TenantScope,
};
use super::terminal::{Display, VerbOutput, format_with_causes, print, read_terminal_size};
use super::text_layout::{
    TableCell, TableColumn, TableRoom, Tone, escape_for_terminal, format_columns, keep_end,
    truncate_to_width,
};

/// The time between two looks of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// The widest directory of a client.
const MAX_DIRECTORY_WIDTH: usize = 24;

/// Flags of the verb `jobs`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct JobsFlags {
    /// Show the list again every second, until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,
    /// List only jobs in this state.
    #[arg(long, value_name = "STATE", default_value = "all")]
    #[arg(value_parser = ["queued", "running", "stopping", "finished", "all"])]
    pub state: String,
    /// Number of jobs to list, newest first; finished jobs are left out before others.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=200))]
    pub limit: u16,
    #[command(flatten)]
    pub jobs: JobScopeFlags,
}

/// Lists the requested jobs, once or until the user ends it.
pub(super) async fn run(
    flags: &JobsFlags,
    servers: &ServerSet,
    display: &Display,
) -> Result<VerbOutput, ServerRequestError> {
    if !flags.watch {
        return list_once(flags, servers, display).await;
    }
    let mut shown = String::new();
    loop {
        let VerbOutput { stdout, stderr, .. } = list_once(flags, servers, display).await?;
        let is_json = flags.jobs.server.json;
        let text = match display.table_room() {
            _ if is_json => stdout,
            TableRoom::Terminal(width) => format!("{stdout}{}", fit_lines(&stderr, width)),
            TableRoom::Lines(_) => format!("{stdout}{stderr}\n"),
        };
        let frame = if display.has_sequences && !is_json {
            Some(format_frame(&text, read_terminal_size().rows.into()))
        } else {
            // A file gets each change once.
            (text != shown).then(|| text.clone())
        };
        if let Some(frame) = frame {
            let messages = if is_json { stderr.as_bytes() } else { &[] };
            // Without its stderr a program has no place for messages.
            io::stderr().write_all(messages).ok();
            if print(frame.as_bytes()).is_err() {
                return Ok(VerbOutput::exit_code(1));
            }
        }
        shown = text;
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// Truncates each line to the width of the terminal: a wrapped line would move the screen.
fn fit_lines(text: &str, width: usize) -> String {
    text.lines().map(|line| format!("{}\n", truncate_to_width(line, width))).collect()
}

/// Returns the sequences that replace the screen by the first lines of a text.
fn format_frame(text: &str, rows: usize) -> String {
    let lines: Vec<&str> = text.lines().take(rows.saturating_sub(1)).collect();
    format!("\u{1b}[H{}\u{1b}[K\r\n\u{1b}[J", lines.join("\u{1b}[K\r\n"))
}

async fn list_once(
    flags: &JobsFlags,
    servers: &ServerSet,
    display: &Display,
) -> Result<VerbOutput, ServerRequestError> {
    let answers = servers.get_all(&jobs_url(flags)).await?;
    let listed = ListedJobs::collect(&answers, flags.limit.into());
    let failures: String = answers.failures.iter().map(format_failure).collect();
    let code = u8::from(!answers.failures.is_empty());
    if flags.jobs.server.json {
        let jobs: Vec<Value> = listed.jobs.iter().map(|(_, job)| job.clone()).collect();
        let list = json!({ "jobs": jobs });
        // Repeated lists are one line each, so that a program can tell them apart.
        let stdout = if flags.watch { format!("{list}\n") } else { format!("{list:#}\n") };
        return Ok(VerbOutput { stdout, stderr: failures, code });
    }
    let now = OffsetDateTime::now_utc();
    let stdout = listed.format(flags.jobs.scope(), display.table_room(), display.has_colors, now);
    let headline = listed.format_headline(flags);
    Ok(VerbOutput { stdout, stderr: format!("{failures}{headline}"), code })
}

fn format_failure((name, error): &(ServerLabel, ServerRequestError)) -> String {
    format!("shellyard: server {name}: {}\n", format_with_causes(error))
}

fn jobs_url(flags: &JobsFlags) -> String {
    let filter = flags.jobs.scope().list_filter();
    format!("/api/v1/jobs?state={}&limit={}{filter}", flags.state, flags.limit)
}

/// The jobs of one or several servers, newest first, each with its name.
#[derive(Debug)]
pub(super) struct ListedJobs {
    pub(super) jobs: Vec<(String, Value)>,
}

impl ListedJobs {
    /// Merges the lists of all servers. Jobs of one server keep their order.
    pub(super) fn collect(answers: &ServerAnswers, limit: usize) -> Self {
        let lists: Vec<(&FoundServer, &[Value])> = answers
            .answers
            .iter()
            .map(|(server, answer)| {
                (server, answer["jobs"].as_array().map_or(&[][..], Vec::as_slice))
            })
            .collect();
        let has_servers = lists.len() > 1
            || lists.iter().any(|(server, _)| matches!(server.name, ServerLabel::Stdio(_)));
        let mut jobs: Vec<(String, Value)> = lists
            .iter()
            .flat_map(|(server, jobs)| jobs.iter().map(move |job| (server, job)))
            .map(|(server, job)| name_job(server, job, has_servers))
            .collect();
        if lists.len() > 1 {
            // RFC 3339 in UTC sorts as text; a stable sort keeps the order of each server.
            jobs.sort_by(|(_, a), (_, b)| submitted_at(b).cmp(submitted_at(a)));
        }
        jobs.truncate(limit);
        Self { jobs }
    }

    pub(super) fn format(
        &self,
        scope: TenantScope,
        room: TableRoom,
        has_colors: bool,
        now: OffsetDateTime,
    ) -> String {
        if self.jobs.is_empty() {
            return String::new();
        }
        let rows: Vec<Vec<TableCell>> =
            self.jobs.iter().map(|(name, job)| job_cells(name, JobView(job), scope, now)).collect();
        let is_shown = |index: usize| {
            let is_optional = matches!(COLUMNS[index].title, "TENANT" | "WAITS FOR" | "DIRECTORY");
            !is_optional || rows.iter().any(|row| !["", "-"].contains(&row[index].text.as_str()))
        };
        let shown: Vec<usize> = (0..COLUMNS.len()).filter(|index| is_shown(*index)).collect();
        let columns: Vec<TableColumn> = shown.iter().map(|index| COLUMNS[*index]).collect();
        let pick = |row: &Vec<TableCell>| shown.iter().map(|index| row[*index].clone()).collect();
        let rows: Vec<Vec<TableCell>> = rows.iter().map(pick).collect();
        format_columns(&columns, &rows, room, has_colors)
    }

    fn format_headline(&self, flags: &JobsFlags) -> String {
        if self.jobs.is_empty() {
            return format_no_jobs(flags);
        }
        let counts = match flags.state.as_str() {
            "all" => self.format_counts(),
            state => format!("{} {state}", self.jobs.len()),
        };
        let limit = usize::from(flags.limit);
        if self.jobs.len() < limit {
            return format!("{counts}\n");
        }
        format!("{counts} among the newest {limit}; --limit N shows more, up to 200\n")
    }

    fn format_counts(&self) -> String {
        let in_state = |state: &str| {
            self.jobs.iter().filter(|(_, job)| JobView(job).text("state") == state).count()
        };
        let running = in_state("running") + in_state("stopping");
        let (queued, finished) = (in_state("queued"), in_state("finished"));
        format!("{running} running, {queued} queued, {finished} finished")
    }
}

/// Returns what an empty list means, and what to do next.
fn format_no_jobs(flags: &JobsFlags) -> String {
    if flags.state != "all" {
        return format!("no {} jobs; `shellyard jobs` lists those in other states\n", flags.state);
    }
    let next = match flags.jobs.scope() {
        TenantScope::Own => {
            "`shellyard run --queue COMMAND` submits one, and --all shows those of all tenants"
        }
        TenantScope::One(_) => "--all shows those of all tenants",
        TenantScope::All => "`shellyard run --queue COMMAND` submits one",
    };
    format!("no jobs; {next}\n")
}

fn name_job(server: &FoundServer, job: &Value, has_servers: bool) -> (String, Value) {
    let number = job["job"].to_string();
    if !has_servers {
        return (number, job.clone());
    }
    let mut job = job.clone();
    job["server"] = json!(server.name.to_string());
    (format!("{}/{number}", server.name), job)
}

fn submitted_at(job: &Value) -> &str {
    JobView(job).text("submitted_at")
}

const COLUMNS: [TableColumn; 10] = [
    TableColumn { title: "TENANT", drop_order: 2, max_width: 20 },
    TableColumn { title: "JOB", drop_order: 0, max_width: 24 },
    TableColumn { title: "STATE", drop_order: 0, max_width: 40 },
    TableColumn { title: "STARTED", drop_order: 3, max_width: 12 },
    TableColumn { title: "ELAPSED", drop_order: 1, max_width: 10 },
    TableColumn { title: "WAITS FOR", drop_order: 4, max_width: 48 },
    TableColumn { title: "LINES", drop_order: 5, max_width: 12 },
    TableColumn { title: "CLIENT", drop_order: 4, max_width: 24 },
    TableColumn { title: "DIRECTORY", drop_order: 6, max_width: MAX_DIRECTORY_WIDTH },
    TableColumn { title: "COMMAND", drop_order: 0, max_width: 1000 },
];

fn job_cells(
    name: &str,
    job: JobView<'_>,
    scope: TenantScope,
    now: OffsetDateTime,
) -> Vec<TableCell> {
    let tenant = match scope {
        TenantScope::Own => String::new(),
        TenantScope::All => job.safe_text("tenant"),
        TenantScope::One(tenant) => tenant.name().to_owned(),
    };
    let faint = |text: String| TableCell::new(text, Tone::Faint);
    vec![
        tenant.into(),
        name.to_owned().into(),
        job.state_cell(),
        faint(job.ago("started_at", now).unwrap_or_else(|| "-".to_owned())),
        job.elapsed().into(),
        job.queue_position().into(),
        job.0["lines"].as_u64().unwrap_or_default().to_string().into(),
        faint(job.client()),
        faint(keep_end(&job.safe_text("client_directory"), MAX_DIRECTORY_WIDTH)),
        escape_for_terminal(job.text("command")).into(),
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use time::format_description::well_known::Rfc3339;
    use unicode_width::UnicodeWidthStr as _;

    use super::super::text_layout::wrap_text;
    use super::super::{Cli, Command, JobVerb};
    use super::*;

    fn listed() -> ListedJobs {
        let jobs = [
            json!({"tenant": "ci", "job": 3, "state": "queued", "queue_position": 1,
                   "queue_length": 2, "lane": "build", "waits_for": "lane build is paused",
                   "lines": 0, "command": "make\n\u{1b}[31mall", "client": "codex",
                   "client_version": "0.166", "client_directory": "/home/someone/src/shop/app"}),
            json!({"tenant": "a", "job": 12, "state": "running", "elapsed_ms": 125_000,
                   "started_at": "2026-01-02T00:00:00.000Z", "lines": 7,
                   "command": "日本".repeat(100)}),
            json!({"tenant": "ci", "job": 1, "state": "finished", "outcome": "signaled",
                   "signal": "SIGKILL", "elapsed_ms": 400, "lines": 1, "command": "true"}),
        ];
        let jobs = jobs.into_iter().map(|job| (format!("s4321/{}", job["job"]), job)).collect();
        ListedJobs { jobs }
    }

    fn format(scope: TenantScope, room: TableRoom) -> String {
        let now = OffsetDateTime::parse("2026-01-02T00:02:05Z", &Rfc3339).unwrap();
        listed().format(scope, room, false, now)
    }

    #[test]
    fn the_table_has_a_line_for_each_job_and_fits_the_terminal() {
        for width in [40, 80, 120, 200] {
            let table = format(TenantScope::All, TableRoom::Terminal(width));
            assert_eq!(table.lines().count(), 4, "{table}");
            assert!(table.lines().all(|line| line.width() <= width), "{width}:\n{table}");
            for word in ["JOB", "STATE", "COMMAND", "s4321/12", "running", "killed by SIGKILL"] {
                let word = if width == 40 { &word[..word.len().min(8)] } else { word };
                assert!(table.contains(word), "{width}: {word}\n{table}");
            }
            assert!(!table.contains('\u{1b}'), "{table}");
        }
        let table = format(TenantScope::All, TableRoom::Lines(120));
        for word in ["TENANT", "2m ago", "2m05s", "1 of 2 in build: lane", "codex 0.166", "…me/s"]
        {
            assert!(table.contains(word), "{word}\n{table}");
        }
        let own = format(TenantScope::Own, TableRoom::Terminal(700));
        assert!(own.starts_with("JOB") && !own.contains("ci"), "{own}");
        assert!(own.contains(&"日本".repeat(100)), "there is room");
    }

    #[test]
    fn the_headline_is_about_the_jobs_in_the_list_and_fits_the_terminal() {
        let headline = |line: &str, listed: &ListedJobs| {
            let words = format!("shellyard jobs {line}");
            let command = Cli::try_parse_from(words.split_whitespace()).unwrap().command;
            let Command::Job(JobVerb::Jobs(flags)) = command else { panic!("not jobs") };
            listed.format_headline(&flags)
        };
        assert_eq!(headline("", &listed()), "1 running, 1 queued, 1 finished\n");
        assert_eq!(headline("--state running", &listed()), "3 running\n");
        let full = wrap_text(&headline("--limit 3", &listed()), Some(40));
        assert!(full.contains("newest 3") && full.contains("--limit N"), "{full}");
        assert!(full.lines().count() > 1 && full.lines().all(|line| line.width() <= 40), "{full}");
        let none = ListedJobs { jobs: Vec::new() };
        assert!(headline("--state queued", &none).starts_with("no queued jobs; "));
        assert!(headline("", &none).contains("run --queue"));
    }

    #[test]
    fn a_frame_replaces_the_screen_and_does_not_scroll_it() {
        assert_eq!(format_frame("a\nb\nc\n", 3), "\u{1b}[Ha\u{1b}[K\r\nb\u{1b}[K\r\n\u{1b}[J");
    }
}
