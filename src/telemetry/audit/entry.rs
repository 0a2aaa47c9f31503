//! The entries of the audit log (decisions, endings and notes, each bounded in size) and the form of
//! their lines.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use time::{OffsetDateTime, PrimitiveDateTime};

use super::verify::AuditedJob;
use crate::confinement::GrantedConfinement;
use crate::ids::JobId;
use crate::outcome::{Outcome, format_not_run};
use crate::trace::TraceId;

/// Bytes of a command that are written; a longer command is cut, with its length and hash.
pub(super) const COMMAND_BYTES: usize = 4096;
/// Bytes of a path that are written; no usable path is longer.
const PATH_BYTES: usize = 4096;
/// Bytes of any other text that are written.
const TEXT_BYTES: usize = 1024;

/// The decision on a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditDecision {
    Allowed,
    /// The user was asked for approval.
    Asked,
    Refused,
}

impl AuditDecision {
    /// The word for the decision in the log.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Asked => "asked",
            Self::Refused => "refused",
        }
    }
}

/// An entry about a decision on a command.
#[derive(Debug, Clone, Copy)]
pub struct DecisionEntry<'a> {
    pub tenant: &'a str,
    /// The name that the client gave itself.
    pub client: &'a str,
    /// The job, if there is one.
    pub job: Option<JobId>,
    /// The command; the caller has masked secrets in it.
    pub command: &'a str,
    pub cwd: &'a str,
    pub confinement: GrantedConfinement,
    pub verdict: AuditDecision,
    /// The rule that decided, and its place in the configuration.
    pub rule: Option<&'a str>,
    /// The part of the command that the policy did not understand, although the command was allowed
    /// or the user was asked.
    pub uncertain: Option<&'a str>,
    /// The trace of the call.
    pub trace_id: TraceId,
}

/// An entry about the end of a job.
#[derive(Debug, Clone, Copy)]
pub struct EndingEntry<'a> {
    pub tenant: &'a str,
    /// The client that submitted the job.
    pub client: &'a str,
    pub job: JobId,
    pub outcome: &'a Outcome,
    pub elapsed: Duration,
    /// The trace of the call that submitted the job.
    pub trace_id: TraceId,
}

/// An event that concerns no single job, such as a reload of the settings.
#[derive(Debug, Clone, Copy)]
pub struct NoteEntry<'a> {
    /// A stable word, such as `settings_reloaded`.
    pub what: &'a str,
    /// The details, for people.
    pub detail: &'a str,
}

/// An entry as it is written. A field that does not apply is absent; no field is null.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum AuditRecord<'a> {
    Decision(DecisionRecord<'a>),
    Ending(EndingRecord<'a>),
    Note(NoteRecord<'a>),
}

#[derive(Debug, Serialize)]
pub(super) struct DecisionRecord<'a> {
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

/// The length and the hash of a command of which only the beginning is written.
#[derive(Debug, Serialize)]
struct CommandCut {
    command_bytes: usize,
    command_sha256: Sha256Hash,
}

#[derive(Debug, Serialize)]
pub(super) struct EndingRecord<'a> {
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
pub(super) struct NoteRecord<'a> {
    pub(super) what: Cow<'a, str>,
    pub(super) detail: Cow<'a, str>,
    #[serde(flatten)]
    pub(super) damage: Option<Damage>,
}

/// A half-written line, as it stands in the log before the note about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Damage {
    #[serde(rename = "damaged_bytes")]
    pub(super) bytes: u64,
    #[serde(rename = "damaged_sha256")]
    pub(super) sha256: Sha256Hash,
}

impl Damage {
    pub(super) fn from_line(line: &[u8]) -> Self {
        Self { bytes: line.len() as u64, sha256: Sha256Hash::hash(line) }
    }
}

impl<'a> From<&DecisionEntry<'a>> for AuditRecord<'a> {
    fn from(entry: &DecisionEntry<'a>) -> Self {
        Self::Decision(DecisionRecord {
            tenant: truncate(entry.tenant, TEXT_BYTES),
            client: truncate(entry.client, TEXT_BYTES),
            job: entry.job.map(JobId::number),
            command: truncate(entry.command, COMMAND_BYTES),
            command_cut: (entry.command.len() > COMMAND_BYTES).then(|| CommandCut {
                command_bytes: entry.command.len(),
                command_sha256: Sha256Hash::hash(entry.command.as_bytes()),
            }),
            cwd: truncate(entry.cwd, PATH_BYTES),
            profile: entry.confinement.effective.profile.word(),
            network: entry.confinement.effective.network.word(),
            backend: entry.confinement.backend.word(),
            verdict: entry.verdict.word(),
            rule: entry.rule.map(|rule| truncate(rule, TEXT_BYTES)),
            uncertain: entry.uncertain.map(|reason| truncate(reason, TEXT_BYTES)),
            trace_id: entry.trace_id.to_string(),
        })
    }
}

impl<'a> From<&EndingEntry<'a>> for AuditRecord<'a> {
    fn from(entry: &EndingEntry<'a>) -> Self {
        let (exit_code, signal) = exit_code_and_signal(entry.outcome);
        Self::Ending(EndingRecord {
            tenant: truncate(entry.tenant, TEXT_BYTES),
            client: truncate(entry.client, TEXT_BYTES),
            job: entry.job.number(),
            outcome: entry.outcome.word(),
            exit_code,
            signal,
            why: outcome_details(entry.outcome)
                .map(|text| truncate(&text, TEXT_BYTES).into_owned()),
            elapsed_ms: u64::try_from(entry.elapsed.as_millis()).unwrap_or(u64::MAX),
            trace_id: entry.trace_id.to_string(),
        })
    }
}

impl<'a> From<&NoteEntry<'a>> for AuditRecord<'a> {
    fn from(entry: &NoteEntry<'a>) -> Self {
        Self::Note(NoteRecord {
            what: truncate(entry.what, TEXT_BYTES),
            detail: truncate(entry.detail, TEXT_BYTES),
            damage: None,
        })
    }
}

/// Returns the exit code and the signal.
const fn exit_code_and_signal(outcome: &Outcome) -> (Option<i32>, Option<i32>) {
    match outcome {
        Outcome::Exited { code } => (Some(*code), None),
        Outcome::Signaled { signal, .. } => (None, Some(*signal)),
        Outcome::TimedOut { .. }
        | Outcome::Stopped { .. }
        | Outcome::NotRun { .. }
        | Outcome::Limit { .. }
        | Outcome::FailedToStart(_)
        | Outcome::Lost { .. } => (None, None),
    }
}

/// Returns the details that the word for the outcome does not contain.
fn outcome_details(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Exited { .. } | Outcome::Signaled { .. } => None,
        Outcome::TimedOut { after } => Some(format!("deadline of {after:?}")),
        Outcome::Stopped { by } => Some(by.word().to_owned()),
        Outcome::NotRun { by, waited } => {
            Some(format!("{}: {}", by.word(), format_not_run(*waited)))
        }
        Outcome::Limit { which } => Some(which.to_string()),
        Outcome::FailedToStart(error) => Some(error.to_string()),
        Outcome::Lost { why } => Some(why.clone()),
    }
}

/// Cuts a text to at most `limit` bytes of whole characters; `…` marks a cut.
fn truncate(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(limit)]))
}

// The line of an entry, and its link to the line before.

/// The end of the chain: the number and the hash of its last line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainLink {
    pub(super) seq: u64,
    pub(super) hash: Sha256Hash,
}

impl ChainLink {
    /// The link before the first line.
    pub(super) const START: Self = Self { seq: 0, hash: Sha256Hash::ZERO };

    /// The link at this line.
    pub(super) fn at(seq: u64, line: &[u8]) -> Self {
        Self { seq, hash: Sha256Hash::hash(line) }
    }
}

/// An entry that is not linked into the chain yet.
#[derive(Debug)]
pub(super) struct UnlinkedEntry {
    /// The fields between the number and the hash of the line before: `"time":…,"event":…`.
    fields: String,
}

impl UnlinkedEntry {
    pub(super) fn new(time: &str, record: &AuditRecord<'_>) -> io::Result<Self> {
        let object = escape_terminal_controls(serde_json::to_string(record)?);
        let fields = object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let fields = fields.ok_or_else(|| io::Error::other("an entry is a JSON object"))?;
        Ok(Self { fields: format!(r#""time":"{time}",{fields}"#) })
    }

    /// The memory that the entry takes in the queue.
    pub(super) const fn bytes(&self) -> usize {
        size_of::<Self>() + self.fields.capacity()
    }
}

/// Returns the line that follows `after`, without its newline, and the new link.
pub(super) fn compose_line(after: ChainLink, entry: &UnlinkedEntry) -> (String, ChainLink) {
    // A forged number must not panic the server; the chain is broken anyway.
    let seq = after.seq.saturating_add(1);
    let line = format!(r#"{{"seq":{seq},{},"prev":"{}"}}"#, entry.fields, after.hash);
    let link = ChainLink::at(seq, line.as_bytes());
    (line, link)
}

/// Escapes characters that JSON allows and that a terminal would act on. They occur only inside
/// strings, so the meaning of the line does not change.
fn escape_terminal_controls(line: String) -> String {
    // All of them are DEL or not ASCII.
    if line.bytes().all(|byte| byte < 0x7f) {
        return line;
    }
    let mut text = String::with_capacity(line.len());
    for character in line.chars() {
        if is_terminal_control(character) {
            // Writing to a `String` cannot fail.
            write!(text, "\\u{:04x}", u32::from(character)).ok();
        } else {
            text.push(character);
        }
    }
    text
}

/// `true` for DEL, the C1 controls, line separators, and characters that change the direction of
/// text.
const fn is_terminal_control(character: char) -> bool {
    matches!(character,
        '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The fields of a line that the verification of the chain needs.
#[derive(Debug, Deserialize)]
pub(super) struct ParsedLine {
    pub(super) seq: u64,
    pub(super) time: String,
    prev: Sha256Hash,
    event: String,
    what: Option<String>,
    damaged_bytes: Option<u64>,
    damaged_sha256: Option<Sha256Hash>,
    tenant: Option<String>,
    job: Option<u64>,
    verdict: Option<String>,
    trace_id: Option<String>,
    detail: Option<String>,
}

impl ParsedLine {
    pub(super) fn parse(line: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }

    /// `true` if `prev` is the hash of this link.
    pub(super) fn is_linked_to(&self, link: ChainLink) -> bool {
        self.prev == link.hash
    }

    pub(super) fn follows(&self, link: ChainLink) -> bool {
        self.is_linked_to(link) && link.seq.checked_add(1) == Some(self.seq)
    }

    pub(super) fn is_note(&self, what: &str) -> bool {
        self.event == "note" && self.what.as_deref() == Some(what)
    }

    /// Returns the job that this line allows.
    pub(super) fn allowed_job(&self) -> Option<AuditedJob> {
        let is_allowed = self.event == "decision" && self.verdict.as_deref() == Some("allowed");
        self.audited_job().filter(|_| is_allowed)
    }

    /// Returns the job whose end this line reports.
    pub(super) fn ended_job(&self) -> Option<AuditedJob> {
        self.audited_job().filter(|_| self.event == "ending")
    }

    fn audited_job(&self) -> Option<AuditedJob> {
        Some(AuditedJob {
            tenant: self.tenant.clone()?,
            number: self.job?,
            trace_id: self.trace_id.clone()?,
        })
    }

    /// Returns the tenant and the number of the job that was allowed and then not accepted, if this
    /// line is the note about one: its detail begins with `job 12 of local:`.
    pub(super) fn unaccepted_job(&self) -> Option<(&str, u64)> {
        let detail = self.detail.as_deref().filter(|_| self.is_note("not_accepted"))?;
        let (number, rest) = detail.strip_prefix("job ")?.split_once(" of ")?;
        let (tenant, _) = rest.split_once(": ")?;
        Some((tenant, number.parse().ok()?))
    }

    /// `true` if the line is the note about this half-written line.
    pub(super) fn reports_damage(&self, damage: Damage) -> bool {
        self.event == "note"
            && self.damaged_bytes == Some(damage.bytes)
            && self.damaged_sha256 == Some(damage.sha256)
    }
}

/// A SHA-256 hash, written in hex.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Sha256Hash([u8; 32]);

impl Sha256Hash {
    /// The `prev` of the first line.
    pub(super) const ZERO: Self = Self([0; 32]);

    pub(super) fn hash(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses exactly the form that [`fmt::Display`] writes: 64 lower-case hex digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut digest = Self::ZERO;
        if text.len() != 2 * digest.0.len() {
            return None;
        }
        HEXLOWER.decode_mut(text.as_bytes(), &mut digest.0).ok()?;
        Some(digest)
    }
}

impl fmt::Display for Sha256Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HEXLOWER.encode_display(&self.0).fmt(f)
    }
}

impl fmt::Debug for Sha256Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Sha256Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha256Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("a hash has 64 hex digits"))
    }
}

/// Formats a time as RFC 3339 in UTC with milliseconds, such as `2026-11-15T04:01:21.042Z`. A clock
/// before 1970 reads as 1970.
#[must_use]
pub fn format_rfc3339(moment: SystemTime) -> String {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanoseconds = i128::try_from(since.as_nanos()).unwrap_or(i128::MAX);
    let moment = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds)
        .unwrap_or(PrimitiveDateTime::MAX.assume_utc());
    let (year, month, day) = moment.to_calendar_date();
    let (hour, minute, second, millisecond) = moment.to_hms_milli();
    let month = u8::from(month);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::outcome::{LimitKind, StartError, StopBy};
    use crate::trace::TraceContext;

    fn ended(outcome: &Outcome) -> Value {
        let elapsed = Duration::from_millis(1_500);
        let tenant = "t";
        let client = "c";
        let job = JobId::local(3);
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace_id = TraceContext::parse(parent, None).unwrap().trace_id;
        let entry = EndingEntry { tenant, client, job, outcome, elapsed, trace_id };
        serde_json::to_value(AuditRecord::from(&entry)).unwrap()
    }

    #[test]
    fn an_ending_has_the_details_of_its_outcome() {
        let exited = ended(&Outcome::Exited { code: 2 });
        let expected = json!({ "event": "ending", "tenant": "t", "client": "c", "job": 3,
            "outcome": "exited", "exit_code": 2, "elapsed_ms": 1500,
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736" });
        assert_eq!(exited, expected);

        assert_eq!(ended(&Outcome::Signaled { signal: 9, core: false })["signal"], 9);
        let after = Duration::from_secs(300);
        assert_eq!(ended(&Outcome::TimedOut { after })["why"], "deadline of 300s");
        assert_eq!(ended(&Outcome::Stopped { by: StopBy::Client })["why"], "client");
        let not_run = ended(&Outcome::NotRun { by: StopBy::Cancel, waited: after });
        assert_eq!(not_run["outcome"], "stopped");
        assert_eq!(not_run["why"], "cancel: waited 300.0s for a slot and was not run");
        let limit = ended(&Outcome::Limit { which: LimitKind::OutputLines(7) });
        assert!(limit["why"].as_str().unwrap().contains("7 lines"), "{limit}");
        let start = Outcome::FailedToStart(StartError::NotFound { program: "carg".into() });
        assert!(ended(&start)["why"].as_str().unwrap().contains("`carg`"));
        let lost = Outcome::Lost { why: "x".repeat(5000) };
        assert_eq!(ended(&lost)["why"].as_str().unwrap().chars().count(), TEXT_BYTES + 1);
    }

    #[test]
    fn long_text_is_cut_between_characters_and_marked() {
        assert_eq!(truncate("abc", 3), "abc");
        assert_eq!(truncate("abcd", 3), "abc…");
        assert_eq!(truncate("éé", 3), "é…");
    }

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn decision(command: &str) -> DecisionEntry<'_> {
        DecisionEntry {
            tenant: "local",
            client: "codex",
            job: Some(JobId::local(12)),
            command,
            cwd: "/src",
            confinement: GrantedConfinement::NOTHING,
            verdict: AuditDecision::Allowed,
            rule: None,
            uncertain: None,
            trace_id: TraceContext::parse(PARENT, None).unwrap().trace_id,
        }
    }

    fn line(command: &str) -> String {
        let event = AuditRecord::from(&decision(command));
        let entry = UnlinkedEntry::new("2026-01-01T00:00:00.000Z", &event).unwrap();
        compose_line(ChainLink::START, &entry).0
    }

    #[test]
    fn the_order_of_the_fields_is_fixed() {
        let zeros = "0".repeat(64);
        let fields = r#"{"seq":1,"time":"2026-01-01T00:00:00.000Z","event":"decision","tenant":"local","client":"codex","job":12,"command":"true","cwd":"/src","profile":"none","network":"on","backend":"nothing","verdict":"allowed","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736""#;
        assert_eq!(line("true"), format!(r#"{fields},"prev":"{zeros}"}}"#));
    }

    #[test]
    fn no_command_can_break_a_line_or_colour_the_terminal() {
        let command = "a\nb\r\u{1b}[31m\0\u{7f}\u{9b}31m\u{2028}\u{202e}é";
        let line = line(command);
        assert!(!line.contains(|c: char| c.is_control() || is_terminal_control(c)), "{line}");
        assert!(line.contains("\\u009b31m\\u2028\\u202eé"), "{line}");
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["command"], command);
    }

    #[test]
    fn a_long_command_is_cut_with_its_length_and_hash() {
        let command = "é".repeat(5_000);
        let value: Value = serde_json::from_str(&line(&command)).unwrap();
        let kept = value["command"].as_str().unwrap();
        assert_eq!(kept.strip_suffix('…').unwrap(), "é".repeat(2_048));
        assert_eq!(value["command_bytes"], 10_000);
        assert_eq!(value["command_sha256"], Sha256Hash::hash(command.as_bytes()).to_string());
    }

    #[test]
    fn the_largest_entry_stays_small() {
        let worst = "\u{1}".repeat(100_000);
        let entry = DecisionEntry {
            tenant: &worst,
            client: &worst,
            cwd: &worst,
            confinement: GrantedConfinement::NOTHING,
            rule: Some(&worst),
            uncertain: Some(&worst),
            ..decision(&worst)
        };
        let (line, _) = compose_line(
            ChainLink::START,
            &UnlinkedEntry::new("", &AuditRecord::from(&entry)).unwrap(),
        );
        assert!(line.len() < 100 * 1024, "{}", line.len());
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let note = NoteEntry { what: "settings_reloaded", detail: "12 rules" };
        let entry = UnlinkedEntry::new("t", &AuditRecord::from(&note)).unwrap();
        let (first, link) = compose_line(ChainLink::START, &entry);
        let (second, _) = compose_line(link, &entry);
        let first = first.as_bytes();
        let second = second.as_bytes();
        assert!(ParsedLine::parse(first).unwrap().follows(ChainLink::START));
        assert!(ParsedLine::parse(second).unwrap().follows(link));
        assert!(!ParsedLine::parse(second).unwrap().follows(ChainLink::START));
        assert!(ParsedLine::parse(first).unwrap().is_note("settings_reloaded"));
    }

    #[test]
    fn the_hash_is_standard_sha256() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Sha256Hash::hash(b"abc").to_string(), abc);
        assert_eq!(Sha256Hash::parse(abc), Some(Sha256Hash::hash(b"abc")));
    }

    #[test]
    fn only_the_displayed_form_is_parsed() {
        let hex = Sha256Hash::hash(b"abc").to_string();
        for text in [&hex[1..], &hex[2..], &hex.to_uppercase(), &format!("{hex}0"), ""] {
            assert_eq!(Sha256Hash::parse(text), None, "{text}");
        }
    }

    #[track_caller]
    fn check(millis: u64, text: &str) {
        assert_eq!(format_rfc3339(UNIX_EPOCH + Duration::from_millis(millis)), text);
    }

    #[test]
    fn times_match_the_calendar() {
        check(0, "1970-01-01T00:00:00.000Z");
        check(86_399_999, "1970-01-01T23:59:59.999Z");
        check(68_169_600_000, "1972-02-29T00:00:00.000Z");
        check(951_782_399_000, "2000-02-28T23:59:59.000Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(951_868_800_000, "2000-03-01T00:00:00.000Z");
        check(978_307_199_001, "2000-12-31T23:59:59.001Z");
        check(1_234_567_890_123, "2009-02-13T23:31:30.123Z");
        check(1_709_164_800_000, "2024-02-29T00:00:00.000Z");
        check(1_709_251_200_000, "2024-03-01T00:00:00.000Z");
        check(1_794_715_281_042, "2026-11-15T04:01:21.042Z");
        check(4_107_542_399_000, "2100-02-28T23:59:59.000Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00.000Z");
        check(253_402_300_799_999, "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn a_clock_before_1970_reads_as_1970() {
        let moment = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(format_rfc3339(moment), "1970-01-01T00:00:00.000Z");
    }
}
