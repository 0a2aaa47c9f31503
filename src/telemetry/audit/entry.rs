//! What is written down: decisions, endings and notes, each within a bound.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;

use super::line::Digest;
use crate::confinement::GrantedConfinement;
use crate::ids::JobId;
use crate::outcome::Outcome;
use crate::trace::TraceId;

/// Bytes of a command that are written; of a longer one its length and hash are told.
pub(super) const COMMAND_BYTES: usize = 4096;
/// Bytes of a path that are written: no path that works is longer.
const PATH_BYTES: usize = 4096;
/// Bytes of any other text that are written.
const TEXT_BYTES: usize = 1024;

/// What was decided on a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditVerdict {
    /// It may run.
    Allowed,
    /// A person was asked.
    Asked,
    /// Nothing was run.
    Refused,
}

impl AuditVerdict {
    /// The stable word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Asked => "asked",
            Self::Refused => "refused",
        }
    }
}

/// One decision on one command.
#[derive(Debug, Clone, Copy)]
pub struct DecisionEntry<'a> {
    /// Whose job it is.
    pub tenant: &'a str,
    /// The client that asked, as it calls itself.
    pub client: &'a str,
    /// The job, where there is one.
    pub job: Option<JobId>,
    /// The command; masked by the caller where it may hold secrets.
    pub command: &'a str,
    /// Where it would run.
    pub cwd: &'a str,
    /// The confinement that it would run in.
    pub confinement: GrantedConfinement,
    /// What was decided.
    pub verdict: AuditVerdict,
    /// The rule that decided, and its place in the configuration.
    pub rule: Option<&'a str>,
    /// What could not be understood, although it was let through or asked about.
    pub uncertain: Option<&'a str>,
    /// The trace of the call that asked for it.
    pub trace_id: TraceId,
}

/// One job's end.
#[derive(Debug, Clone, Copy)]
pub struct EndingEntry<'a> {
    /// Whose job it was.
    pub tenant: &'a str,
    /// The client that had asked for it.
    pub client: &'a str,
    /// The job.
    pub job: JobId,
    /// How it ended.
    pub outcome: &'a Outcome,
    /// How long it ran.
    pub elapsed: Duration,
    /// The trace of the call that had asked for it.
    pub trace_id: TraceId,
}

/// Something that concerns no single job: a policy was reloaded, for instance.
#[derive(Debug, Clone, Copy)]
pub struct NoteEntry<'a> {
    /// A stable word, such as `settings_reloaded`.
    pub what: &'a str,
    /// The rest, for people.
    pub detail: &'a str,
}

/// An entry as it is written. Absent means not applicable; nothing is null.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Event<'a> {
    Decision(Decision<'a>),
    Ending(Ended<'a>),
    Note(Note<'a>),
}

#[derive(Debug, Serialize)]
pub(super) struct Decision<'a> {
    tenant: Cow<'a, str>,
    client: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<u64>,
    command: Cow<'a, str>,
    #[serde(flatten)]
    command_cut: Option<CommandCut>,
    cwd: Cow<'a, str>,
    profile: &'static str,
    network: &'static str,
    backend: &'static str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uncertain: Option<Cow<'a, str>>,
    trace_id: String,
}

/// What the whole command was, where only its beginning is written.
#[derive(Debug, Serialize)]
struct CommandCut {
    command_bytes: usize,
    command_sha256: Digest,
}

#[derive(Debug, Serialize)]
pub(super) struct Ended<'a> {
    tenant: Cow<'a, str>,
    client: Cow<'a, str>,
    job: u64,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    elapsed_ms: u64,
    trace_id: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Note<'a> {
    pub(super) what: Cow<'a, str>,
    pub(super) detail: Cow<'a, str>,
    #[serde(flatten)]
    pub(super) damage: Option<Damage>,
}

/// A line that was found half written, as it stands in the log before the note on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Damage {
    #[serde(rename = "damaged_bytes")]
    pub(super) bytes: u64,
    #[serde(rename = "damaged_sha256")]
    pub(super) sha256: Digest,
}

impl Damage {
    pub(super) fn of(line: &[u8]) -> Self {
        Self { bytes: line.len() as u64, sha256: Digest::of(line) }
    }
}

impl<'a> From<&DecisionEntry<'a>> for Event<'a> {
    fn from(entry: &DecisionEntry<'a>) -> Self {
        Self::Decision(Decision {
            tenant: cut(entry.tenant, TEXT_BYTES),
            client: cut(entry.client, TEXT_BYTES),
            job: entry.job.map(JobId::number),
            command: cut(entry.command, COMMAND_BYTES),
            command_cut: (entry.command.len() > COMMAND_BYTES).then(|| CommandCut {
                command_bytes: entry.command.len(),
                command_sha256: Digest::of(entry.command.as_bytes()),
            }),
            cwd: cut(entry.cwd, PATH_BYTES),
            profile: entry.confinement.effective.profile.word(),
            network: entry.confinement.effective.network.word(),
            backend: entry.confinement.backend.word(),
            verdict: entry.verdict.word(),
            rule: entry.rule.map(|rule| cut(rule, TEXT_BYTES)),
            uncertain: entry.uncertain.map(|reason| cut(reason, TEXT_BYTES)),
            trace_id: entry.trace_id.to_string(),
        })
    }
}

impl<'a> From<&EndingEntry<'a>> for Event<'a> {
    fn from(entry: &EndingEntry<'a>) -> Self {
        let (exit_code, signal) = codes(entry.outcome);
        Self::Ending(Ended {
            tenant: cut(entry.tenant, TEXT_BYTES),
            client: cut(entry.client, TEXT_BYTES),
            job: entry.job.number(),
            outcome: entry.outcome.word(),
            exit_code,
            signal,
            why: why(entry.outcome).map(|text| cut(&text, TEXT_BYTES).into_owned()),
            elapsed_ms: u64::try_from(entry.elapsed.as_millis()).unwrap_or(u64::MAX),
            trace_id: entry.trace_id.to_string(),
        })
    }
}

impl<'a> From<&NoteEntry<'a>> for Event<'a> {
    fn from(entry: &NoteEntry<'a>) -> Self {
        Self::Note(Note {
            what: cut(entry.what, TEXT_BYTES),
            detail: cut(entry.detail, TEXT_BYTES),
            damage: None,
        })
    }
}

/// Exit code and signal.
const fn codes(outcome: &Outcome) -> (Option<i32>, Option<i32>) {
    match outcome {
        Outcome::Exited { code } => (Some(*code), None),
        Outcome::Signaled { signal, .. } => (None, Some(*signal)),
        Outcome::TimedOut { .. }
        | Outcome::Stopped { .. }
        | Outcome::Limit { .. }
        | Outcome::FailedToStart(_)
        | Outcome::Lost { .. } => (None, None),
    }
}

/// What the outcome's word does not say.
fn why(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Exited { .. } | Outcome::Signaled { .. } => None,
        Outcome::TimedOut { after } => Some(format!("deadline of {after:?}")),
        Outcome::Stopped { by } => Some(by.word().to_owned()),
        Outcome::Limit { which } => Some(which.to_string()),
        Outcome::FailedToStart(error) => Some(error.to_string()),
        Outcome::Lost { why } => Some(why.clone()),
    }
}

/// At most so many bytes of it, in whole characters; `…` marks what was cut.
fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(limit)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{LimitKind, StartError, StopBy};
    use crate::trace::TraceContext;
    use serde_json::{Value, json};

    fn ended(outcome: &Outcome) -> Value {
        let elapsed = Duration::from_millis(1_500);
        let (tenant, client, job) = ("t", "c", JobId::local(3));
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace_id = TraceContext::parse(parent, None).unwrap().trace_id;
        let entry = EndingEntry { tenant, client, job, outcome, elapsed, trace_id };
        serde_json::to_value(Event::from(&entry)).unwrap()
    }

    #[test]
    fn an_ending_says_what_its_word_does_not() {
        let exited = ended(&Outcome::Exited { code: 2 });
        let expected = json!({ "event": "ending", "tenant": "t", "client": "c", "job": 3,
            "outcome": "exited", "exit_code": 2, "elapsed_ms": 1500,
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736" });
        assert_eq!(exited, expected);

        assert_eq!(ended(&Outcome::Signaled { signal: 9, core: false })["signal"], 9);
        let after = Duration::from_secs(300);
        assert_eq!(ended(&Outcome::TimedOut { after })["why"], "deadline of 300s");
        assert_eq!(ended(&Outcome::Stopped { by: StopBy::Client })["why"], "client");
        let limit = ended(&Outcome::Limit { which: LimitKind::OutputLines(7) });
        assert!(limit["why"].as_str().unwrap().contains("7 lines"), "{limit}");
        let start = Outcome::FailedToStart(StartError::NotFound { program: "carg".into() });
        assert!(ended(&start)["why"].as_str().unwrap().contains("`carg`"));
        let lost = Outcome::Lost { why: "x".repeat(5000) };
        assert_eq!(ended(&lost)["why"].as_str().unwrap().chars().count(), TEXT_BYTES + 1);
    }

    #[test]
    fn text_is_cut_between_characters_and_marked() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "abc…");
        assert_eq!(cut("éé", 3), "é…");
    }
}
