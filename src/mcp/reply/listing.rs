//! Lists of jobs: one line each.

use super::verdict::{ended, position, why_queued};
use super::words::{count, exact, rough, size, thousands};
use crate::mcp::snapshot::{Snapshot, State};
use crate::outcome::Outcome;

/// Characters of a command that a list shows.
const COMMAND_CHARS: usize = 100;
/// Characters of a command that the structured form of a list shows.
const NAME_CHARS: usize = 500;

/// How many jobs there are of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) queued: usize,
    pub(crate) running: usize,
    pub(crate) finished: usize,
}

/// The first line of a list: how many there are, and how many of those asked for are shown.
pub(crate) fn list_headline(counts: Counts, shown: usize, matching: usize) -> String {
    let Counts { queued, running, finished } = counts;
    let mut line = format!(
        "{} running, {} queued, {} finished",
        thousands(running as u64),
        thousands(queued as u64),
        thousands(finished as u64)
    );
    if matching < queued + running + finished {
        line.push_str(&format!(" · {}", count(matching as u64, "match", "matches")));
    }
    if shown < matching {
        line.push_str(&format!(" · showing the newest {}", thousands(shown as u64)));
    }
    line
}

/// A job in a list.
pub(crate) fn list_line(job: &Snapshot, command: &str, description: Option<&str>) -> String {
    let mut parts = state(job);
    let lost = job.output.lost_bytes();
    parts.extend((lost > 0).then(|| format!("{} of output lost", size(lost))));
    parts.extend(description.map(one_line));
    parts.push(one_line(command));
    format!("{} {}", job.job, parts.join(" · "))
}

fn state(job: &Snapshot) -> Vec<String> {
    match &job.state {
        State::Queued(None) => vec!["starting".to_owned()],
        State::Queued(Some(place)) => {
            let mut parts = vec!["queued".to_owned(), position(place)];
            parts.extend(why_queued(place));
            parts
        }
        State::Running(_) => open("running", job),
        State::Stopping => open("stopping, ran", job),
        State::Finished(ending) => {
            let mut parts = vec![ended(job, ending)];
            if !matches!(ending.outcome, Outcome::TimedOut { .. }) && !job.never_started() {
                parts.push(exact(job.elapsed));
            }
            parts.push(count(job.lines(), "line", "lines"));
            parts
        }
    }
}

fn open(word: &str, job: &Snapshot) -> Vec<String> {
    let mut parts = vec![format!("{word} {}", rough(job.elapsed))];
    parts.push(match job.quiet_for {
        Some(quiet) => format!("last output {} ago", rough(quiet)),
        None => "no output yet".to_owned(),
    });
    if job.waits_for_input() {
        parts.push("waiting for input".to_owned());
    }
    parts
}

/// A name as the structured form of a list has it: cut where it is huge.
pub(crate) fn clipped(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS) {
        None => name.to_owned(),
        Some((end, _)) => {
            let missing = name[end..].chars().count() as u64;
            format!("{}… [+{} chars]", &name[..end], thousands(missing))
        }
    }
}

/// Text on one line, cut where it is long.
pub(super) fn one_line(text: &str) -> String {
    let flat: String = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(COMMAND_CHARS)
        .collect();
    if text.trim().chars().nth(COMMAND_CHARS).is_some() { flat + "…" } else { flat }
}
