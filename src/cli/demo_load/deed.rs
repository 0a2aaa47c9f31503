//! What an agent can do, and the calls that it takes.

use serde_json::{Value, json};

/// Jobs run here, and write nothing.
const DIRECTORY: &str = "/tmp";

/// How long a call waits for the end of its command, and a long poll for that of others. Both are
/// well below what a client waits for an answer.
const RUN_WAIT_S: u64 = 15;
const LONG_POLL_S: u64 = 4;

/// One thing that an agent does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    /// Runs a command and waits for its end.
    Run(Work),
    /// Starts a command in the background.
    Start(Work),
    /// Starts many at once.
    Burst(Vec<Work>),
    /// Starts a command that asks for a line, and types one.
    Talk,
    /// Waits for a job in the background.
    Wait(u64),
    /// Reads the last of what a job wrote.
    Read(u64),
    /// Looks for something in what a job wrote.
    Search(u64),
    /// Lists the own jobs.
    List,
    /// Ends a job.
    Stop(u64),
    /// Asks which tools there are.
    LookAround,
    /// Ends the session and begins another.
    Reconnect,
}

/// A command, and how it is to be run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Work {
    pub(super) command: String,
    pub(super) lane: Option<String>,
    pub(super) timeout_s: Option<u64>,
}

impl Work {
    /// In no lane, and with the usual deadline.
    pub(super) fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), ..Self::default() }
    }

    /// Asks for a line. Where none comes, as to a job that was typed to before it started, the
    /// deadline ends it: it must not hold a slot.
    fn conversation() -> Self {
        let command = "read -r word; printf 'heard %s\\n' \"$word\"";
        Self { timeout_s: Some(3), ..Self::new(command) }
    }

    fn call(&self, wait_s: u64) -> Call {
        let mut arguments = json!({ "command": self.command, "cwd": DIRECTORY, "wait_s": wait_s, "max_tokens": 500 });
        if let Some(lane) = &self.lane {
            arguments["lane"] = json!(lane);
        }
        if let Some(seconds) = self.timeout_s {
            arguments["timeout_s"] = json!(seconds);
        }
        Call::new("run_command", arguments)
    }
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
}

impl Call {
    const fn new(tool: &'static str, arguments: Value) -> Self {
        Self { tool, arguments }
    }

    /// Types a line into a job.
    pub(super) fn typing(job: u64) -> Self {
        Self::new("send_input", json!({ "job": job, "text": "hello\n" }))
    }

    /// Ends jobs.
    pub(super) fn stop(jobs: &[u64]) -> Self {
        Self::new("stop_jobs", json!({ "jobs": jobs, "grace_s": 1 }))
    }
}

impl Deed {
    /// The calls that it begins with, all at the same time.
    pub(super) fn calls(&self) -> Vec<Call> {
        match self {
            Self::Run(work) => vec![work.call(RUN_WAIT_S)],
            Self::Start(work) => vec![work.call(0)],
            Self::Burst(works) => works.iter().map(|work| work.call(0)).collect(),
            Self::Talk => vec![Work::conversation().call(0)],
            Self::Wait(job) => {
                vec![Call::new("wait_jobs", json!({ "jobs": [job], "wait_s": LONG_POLL_S }))]
            }
            Self::Read(job) => {
                vec![Call::new("read_output", json!({ "job": job, "view": "tail" }))]
            }
            Self::Search(job) => {
                vec![Call::new("read_output", json!({ "job": job, "grep": "line|y" }))]
            }
            Self::List => vec![Call::new("list_jobs", json!({ "limit": 20 }))],
            Self::Stop(job) => vec![Call::stop(&[*job])],
            Self::LookAround | Self::Reconnect => Vec::new(),
        }
    }

    /// What it is called in the summary.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Start(_) => "start",
            Self::Burst(_) => "burst",
            Self::Talk => "talk",
            Self::Wait(_) => "wait",
            Self::Read(_) => "read",
            Self::Search(_) => "search",
            Self::List => "list",
            Self::Stop(_) => "stop",
            Self::LookAround => "look around",
            Self::Reconnect => "reconnect",
        }
    }
}
