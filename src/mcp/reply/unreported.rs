//! The lines about jobs whose calls their client gave up, with which its next reply begins.

use super::format::shorten_to_line;
use super::verdict::ending_text;
use crate::ids::JobId;
use crate::mcp::snapshot::{JobSnapshot, State};

/// The most jobs that are named.
const MAX_NAMED: usize = 3;

/// The native call that follows a line about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextCall {
    Shown,
    /// The server does not offer the native tools.
    Hidden,
}

/// Formats one line for each job, with the command that it runs; beyond a few, the last line counts
/// the others. `None` if there is no job.
pub(crate) fn unreported_lines(jobs: &[(JobSnapshot, String)], next: NextCall) -> Option<String> {
    let named =
        jobs.iter().take(MAX_NAMED).map(|(job, command)| unreported_line(job, command, next));
    let mut lines: Vec<String> = named.collect();
    let others = jobs.len().saturating_sub(MAX_NAMED);
    if others > 0 {
        let call = match next {
            NextCall::Shown => ": list_jobs()",
            NextCall::Hidden => "",
        };
        lines.push(format!("and {others} more, whose calls were given up too{call}"));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn unreported_line(job: &JobSnapshot, command: &str, next: NextCall) -> String {
    let (state, call) = match &job.state {
        State::Queued(None) => ("is starting".to_owned(), wait_call(job.job)),
        State::Queued(Some(_)) => ("is still queued".to_owned(), wait_call(job.job)),
        State::Running(_) => ("is still running".to_owned(), wait_call(job.job)),
        State::Stopping => ("is being stopped".to_owned(), wait_call(job.job)),
        State::Finished(ending) => {
            let state = format!("has ended, {}", ending_text(job, ending));
            (state, format!("read_output(job={})", job.job))
        }
    };
    let line = format!("job {} ({}) {state}", job.job, shorten_to_line(command));
    match next {
        NextCall::Shown => format!("{line}: {call}"),
        NextCall::Hidden => line,
    }
}

fn wait_call(job: JobId) -> String {
    format!("wait_jobs(jobs=[{job}])")
}
