//! The lines about jobs whose calls their client gave up, with which its next reply begins.

use super::format::{shorten_to_line, thousands};
use super::verdict::ending_text;
use crate::ids::JobId;
use crate::mcp::settings::ToolDialect;
use crate::mcp::snapshot::{JobSnapshot, State};

/// The most jobs with a line of their own.
const MAX_LINES_OF_JOBS: usize = 3;
/// The most further jobs that are named by their numbers.
const MAX_NUMBERS: usize = 20;

/// The call that follows a line about a job: one that the server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextCall {
    /// The native tools.
    Native,
    /// `read_shell_output`, beside `run_shell_command`.
    ReadShellOutput,
    /// The server offers no tool that takes the number of a job.
    Hidden,
}

impl NextCall {
    pub(crate) fn for_dialects(dialects: &[ToolDialect]) -> Self {
        if dialects.contains(&ToolDialect::Native) {
            Self::Native
        } else if dialects.contains(&ToolDialect::RunShellCommand) {
            Self::ReadShellOutput
        } else {
            Self::Hidden
        }
    }

    /// Returns the call about one job.
    fn for_job(self, job: &JobSnapshot) -> Option<String> {
        let id = job.job;
        match (self, &job.state) {
            (Self::Native, State::Finished(_)) => Some(format!("read_output(job={id})")),
            (Self::Native, State::Queued(_) | State::Running(_) | State::Stopping) => {
                Some(format!("wait_jobs(jobs=[{id}])"))
            }
            (Self::ReadShellOutput, _) => Some(format!("read_shell_output(job={id})")),
            (Self::Hidden, _) => None,
        }
    }

    /// Returns the call about several jobs.
    const fn for_jobs(self) -> Option<&'static str> {
        match self {
            Self::Native => Some("list_jobs()"),
            Self::ReadShellOutput => Some("read_shell_output(job=…)"),
            Self::Hidden => None,
        }
    }
}

/// Formats one line for each job, with the command that it runs; beyond a few, the last line has the
/// numbers of the others. `None` if there is no job.
pub(crate) fn format_unreported(jobs: &[(JobSnapshot, String)], next: NextCall) -> Option<String> {
    let (first, others) = jobs.split_at(jobs.len().min(MAX_LINES_OF_JOBS));
    let mut lines: Vec<String> =
        first.iter().map(|(job, command)| format_unreported_job(job, command, next)).collect();
    if !others.is_empty() {
        let others: Vec<JobId> = others.iter().map(|(job, _)| job.job).collect();
        let line = format!("{}, whose calls were given up too", format_numbers(&others));
        lines.push(append_call(line, next.for_jobs()));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn format_unreported_job(job: &JobSnapshot, command: &str, next: NextCall) -> String {
    let state = match &job.state {
        State::Queued(None) => "is starting".to_owned(),
        State::Queued(Some(_)) => "is still queued".to_owned(),
        State::Running(_) => "is still running".to_owned(),
        State::Stopping => "is being stopped".to_owned(),
        State::Finished(ending) => format!("has ended, {}", ending_text(job, ending)),
    };
    let line = format!("job {} ({}) {state}", job.job, shorten_to_line(command));
    append_call(line, next.for_job(job).as_deref())
}

fn append_call(line: String, call: Option<&str>) -> String {
    match call {
        Some(call) => format!("{line}: {call}"),
        None => line,
    }
}

/// Formats the numbers of jobs, such as `and jobs 4, 5`; beyond a bound they are counted.
fn format_numbers(jobs: &[JobId]) -> String {
    let numbers: Vec<String> = jobs.iter().take(MAX_NUMBERS).map(JobId::to_string).collect();
    let word = if jobs.len() == 1 { "job" } else { "jobs" };
    let others = match jobs.len().saturating_sub(MAX_NUMBERS) {
        0 => String::new(),
        others => format!(" and {} more", thousands(others as u64)),
    };
    format!("and {word} {}{others}", numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_jobs_are_named_by_their_numbers_up_to_a_bound() {
        let jobs: Vec<JobId> = (4..30).map(JobId::local).collect();
        assert_eq!(format_numbers(&jobs[..1]), "and job 4");
        assert_eq!(format_numbers(&jobs[..2]), "and jobs 4, 5");
        assert!(format_numbers(&jobs).ends_with("22, 23 and 6 more"), "{}", format_numbers(&jobs));
    }

    #[test]
    fn the_next_call_is_one_that_the_server_offers() {
        use ToolDialect::{Execute, Native, RunShellCommand};
        for (dialects, expected) in [
            (&[Native][..], NextCall::Native),
            (&[RunShellCommand, Native][..], NextCall::Native),
            (&[Execute, RunShellCommand][..], NextCall::ReadShellOutput),
            (&[Execute][..], NextCall::Hidden),
        ] {
            assert_eq!(NextCall::for_dialects(dialects), expected, "{dialects:?}");
        }
    }
}
