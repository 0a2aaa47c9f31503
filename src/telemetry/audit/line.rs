//! One line of the log: how it is written, and what the chain needs to read of it.

use std::fmt::{self, Write as _};
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use time::{OffsetDateTime, PrimitiveDateTime};

use super::entry::{Damage, Event};

/// The point that the chain has reached: its last line's number and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) seq: u64,
    pub(super) hash: Digest,
}

impl Link {
    /// Before the first line.
    pub(super) const START: Self = Self { seq: 0, hash: Digest::ZERO };

    /// At this line.
    pub(super) fn at(seq: u64, line: &[u8]) -> Self {
        Self { seq, hash: Digest::of(line) }
    }
}

/// An entry that has no place in the chain yet.
#[derive(Debug)]
pub(super) struct Unlinked {
    /// Everything between the number and the link to the line before: `"time":…,"event":…`.
    fields: String,
}

impl Unlinked {
    /// The entry of an event at this time.
    pub(super) fn new(time: &str, event: &Event<'_>) -> io::Result<Self> {
        let object = inert(serde_json::to_string(event)?);
        let fields = object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let fields = fields.ok_or_else(|| io::Error::other("an entry is a JSON object"))?;
        Ok(Self { fields: format!(r#""time":"{time}",{fields}"#) })
    }

    /// The memory that it takes while it waits.
    pub(super) const fn bytes(&self) -> usize {
        size_of::<Self>() + self.fields.capacity()
    }
}

/// The line that follows `after`, without its newline, and the link that it makes.
pub(super) fn compose(after: Link, entry: &Unlinked) -> (String, Link) {
    // A forged number must not end the server; its chain is broken anyway.
    let seq = after.seq.saturating_add(1);
    let line = format!(r#"{{"seq":{seq},{},"prev":"{}"}}"#, entry.fields, after.hash);
    let link = Link::at(seq, line.as_bytes());
    (line, link)
}

/// Escapes what JSON lets through and a terminal would act on. Such characters stand
/// inside strings only, so the line means the same as before.
fn inert(line: String) -> String {
    // All of them are DEL or beyond ASCII.
    if line.bytes().all(|byte| byte < 0x7f) {
        return line;
    }
    let mut text = String::with_capacity(line.len());
    for character in line.chars() {
        if acts_on_a_terminal(character) {
            // Writing to a String cannot fail.
            write!(text, "\\u{:04x}", u32::from(character)).ok();
        } else {
            text.push(character);
        }
    }
    text
}

/// DEL, the C1 controls, line separators, and what turns the direction of text.
const fn acts_on_a_terminal(character: char) -> bool {
    matches!(character,
        '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What the chain needs to know of a line.
#[derive(Debug, Deserialize)]
pub(super) struct Read {
    pub(super) seq: u64,
    pub(super) time: String,
    prev: Digest,
    event: String,
    what: Option<String>,
    damaged_bytes: Option<u64>,
    damaged_sha256: Option<Digest>,
}

impl Read {
    pub(super) fn parse(line: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }

    /// Whether it says that the line before it is this one.
    pub(super) fn is_linked_to(&self, link: Link) -> bool {
        self.prev == link.hash
    }

    pub(super) fn follows(&self, link: Link) -> bool {
        self.is_linked_to(link) && link.seq.checked_add(1) == Some(self.seq)
    }

    pub(super) fn is_note(&self, what: &str) -> bool {
        self.event == "note" && self.what.as_deref() == Some(what)
    }

    /// Whether it is the note that was written on a half-written line.
    pub(super) fn tells_of(&self, damage: Damage) -> bool {
        self.event == "note"
            && self.damaged_bytes == Some(damage.bytes)
            && self.damaged_sha256 == Some(damage.sha256)
    }
}

// A SHA-256, written in hex.

/// The SHA-256 of some bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    /// What stands for the line before the first.
    pub(super) const ZERO: Self = Self([0; 32]);

    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads exactly what [`fmt::Display`] writes: 64 lower-case hex digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut digest = Self::ZERO;
        if text.len() != 2 * digest.0.len() {
            return None;
        }
        HEXLOWER.decode_mut(text.as_bytes(), &mut digest.0).ok()?;
        Some(digest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HEXLOWER.encode_display(&self.0).fmt(f)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("a hash has 64 hex digits"))
    }
}

// A moment as RFC 3339 writes it.

/// `2026-11-15T04:01:21.042Z`: UTC, with milliseconds. A clock before 1970 reads as 1970.
#[must_use]
pub fn rfc3339(moment: SystemTime) -> String {
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
    use super::super::entry::{AuditVerdict, DecisionEntry, NoteEntry};
    use super::*;
    use crate::confinement::GrantedConfinement;
    use crate::ids::JobId;
    use crate::trace::TraceContext;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn decision(command: &str) -> DecisionEntry<'_> {
        DecisionEntry {
            tenant: "local",
            client: "codex",
            job: Some(JobId::local(12)),
            command,
            cwd: "/src",
            confinement: GrantedConfinement::NOTHING,
            verdict: AuditVerdict::Allowed,
            rule: None,
            uncertain: None,
            trace_id: TraceContext::parse(PARENT, None).unwrap().trace_id,
        }
    }

    fn line(command: &str) -> String {
        let event = Event::from(&decision(command));
        let entry = Unlinked::new("2026-01-01T00:00:00.000Z", &event).unwrap();
        compose(Link::START, &entry).0
    }

    #[test]
    fn the_order_of_the_fields_is_fixed() {
        let zeros = "0".repeat(64);
        let fields = r#"{"seq":1,"time":"2026-01-01T00:00:00.000Z","event":"decision","tenant":"local","client":"codex","job":12,"command":"true","cwd":"/src","profile":"none","network":"on","backend":"nothing","verdict":"allowed","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736""#;
        assert_eq!(line("true"), format!(r#"{fields},"prev":"{zeros}"}}"#));
    }

    #[test]
    fn no_command_can_break_or_colour_the_line() {
        let command = "a\nb\r\u{1b}[31m\0\u{7f}\u{9b}31m\u{2028}\u{202e}é";
        let line = line(command);
        assert!(!line.contains(|c: char| c.is_control() || acts_on_a_terminal(c)), "{line}");
        assert!(line.contains("\\u009b31m\\u2028\\u202eé"), "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["command"], command);
    }

    #[test]
    fn a_long_command_is_cut_with_its_length_and_hash() {
        let command = "é".repeat(5_000);
        let value: serde_json::Value = serde_json::from_str(&line(&command)).unwrap();
        let kept = value["command"].as_str().unwrap();
        assert_eq!(kept.strip_suffix('…').unwrap(), "é".repeat(2_048));
        assert_eq!(value["command_bytes"], 10_000);
        assert_eq!(value["command_sha256"], Digest::of(command.as_bytes()).to_string());
    }

    #[test]
    fn the_worst_entry_stays_small() {
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
        let (line, _) = compose(Link::START, &Unlinked::new("", &Event::from(&entry)).unwrap());
        assert!(line.len() < 100 * 1024, "{}", line.len());
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let note = NoteEntry { what: "settings_reloaded", detail: "12 rules" };
        let entry = Unlinked::new("t", &Event::from(&note)).unwrap();
        let (first, link) = compose(Link::START, &entry);
        let (second, _) = compose(link, &entry);
        let (first, second) = (first.as_bytes(), second.as_bytes());
        assert!(Read::parse(first).unwrap().follows(Link::START));
        assert!(Read::parse(second).unwrap().follows(link));
        assert!(!Read::parse(second).unwrap().follows(Link::START));
        assert!(Read::parse(first).unwrap().is_note("settings_reloaded"));
    }
}

#[cfg(test)]
mod digest_tests {
    use super::*;

    #[test]
    fn it_is_the_sha256_that_everybody_computes() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), abc);
        assert_eq!(Digest::parse(abc), Some(Digest::of(b"abc")));
    }

    #[test]
    fn only_its_own_form_is_read() {
        let hex = Digest::of(b"abc").to_string();
        for text in [&hex[1..], &hex[2..], &hex.to_uppercase(), &format!("{hex}0"), ""] {
            assert_eq!(Digest::parse(text), None, "{text}");
        }
    }
}

#[cfg(test)]
mod clock_tests {
    use std::time::Duration;

    use super::*;

    #[track_caller]
    fn check(millis: u64, text: &str) {
        assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_millis(millis)), text);
    }

    #[test]
    fn moments_read_as_the_calendar_has_them() {
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
        assert_eq!(rfc3339(moment), "1970-01-01T00:00:00.000Z");
    }
}
