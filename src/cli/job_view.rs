//! A job as the API describes it, in words for people: state, times, client, and the exit code that a
//! shell would report. Exit codes are those of `timeout`, `env` and `sendmail`.

use std::time::Duration;

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::text_layout::{TableCell, Tone, escape_for_terminal};
use crate::outcome::signal_name;
use crate::setting_values::format_short_size;

/// A job in the form of the API.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobView<'a>(pub(super) &'a Value);

impl<'a> JobView<'a> {
    /// Returns a text field; empty if the job has none.
    pub(super) fn text(self, name: &str) -> &'a str {
        self.0[name].as_str().unwrap_or_default()
    }

    /// Returns a text field without characters that a terminal acts on.
    pub(super) fn safe_text(self, name: &str) -> String {
        escape_for_terminal(self.text(name))
    }

    pub(super) fn is_finished(self) -> bool {
        self.text("state") == "finished"
    }

    fn signal(self) -> Option<i32> {
        find_signal(self.text("signal"))
    }

    /// Returns the state of a job, or its outcome.
    pub(super) fn state_cell(self) -> TableCell {
        let (text, tone) = match self.text("outcome") {
            "" => match self.text("state") {
                "running" => ("running".to_owned(), Tone::Active),
                "queued" => ("queued".to_owned(), Tone::Faint),
                other => (other.to_owned(), Tone::Warning),
            },
            "exited" if self.0["exit_code"] == 0 => ("exit 0".to_owned(), Tone::Good),
            "exited" => (format!("exit {}", self.0["exit_code"]), Tone::Bad),
            "signaled" => (format!("killed by {}", self.text("signal")), Tone::Bad),
            "stopped" if self.0["not_run"] == true => ("not run".to_owned(), Tone::Warning),
            other @ ("stopped" | "timed_out") => (other.replace('_', " "), Tone::Warning),
            "limit" => (format!("limit: {}", self.text("limit").replace('_', " ")), Tone::Bad),
            other => (other.replace('_', " "), Tone::Bad),
        };
        let text = match self.0["background_pids"].as_array().map(Vec::len) {
            None => text,
            // They cannot be read.
            Some(0) => format!("{text}, processes may still be running"),
            Some(1) => format!("{text}, 1 process still running"),
            Some(processes) => format!("{text}, {processes} processes still running"),
        };
        TableCell::new(escape_for_terminal(&text), tone)
    }

    /// Returns the time that the job has run, `-` if it has not.
    pub(super) fn elapsed(self) -> String {
        let elapsed = self.0["elapsed_ms"].as_u64().map(Duration::from_millis);
        elapsed.map_or_else(|| "-".to_owned(), format_elapsed)
    }

    /// Returns the age of a time field, such as `3m ago`.
    pub(super) fn ago(self, name: &str, now: OffsetDateTime) -> Option<String> {
        parse_age(self.text(name), now).map(format_ago)
    }

    /// Returns the program that submitted a job, with its version if known: `codex 0.166`.
    pub(super) fn client(self) -> String {
        let words = [self.text("client"), self.text("client_version")];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        if words.is_empty() { "-".to_owned() } else { escape_for_terminal(&words.join(" ")) }
    }

    /// Returns the queue position as `2 of 5: 4/4 slots busy`, with the lane unless it is `default`.
    pub(super) fn queue_position(self) -> String {
        let Some(position) = self.0["queue_position"].as_u64() else { return "-".to_owned() };
        let lane = match self.text("lane") {
            "" | "default" => String::new(),
            lane => format!(" in {lane}"),
        };
        let reason = self.safe_text("waits_for");
        format!("{position} of {}{lane}: {reason}", self.0["queue_length"])
    }

    /// Returns the exit code that a shell would report for the command; `None` while it runs.
    pub(super) fn exit_code(self) -> Option<u8> {
        let code = match self.text("outcome") {
            "" => return None,
            "exited" => self.0["exit_code"].as_i64().map_or(OUR_FAILURE, command_exit_code),
            "signaled" => self.signal().map_or(OUR_FAILURE, signal_exit_code),
            "timed_out" => TIMED_OUT,
            "stopped" => {
                let signal = find_signal(self.text("kill_signal"));
                signal_exit_code(signal.unwrap_or(libc::SIGTERM))
            }
            "failed_to_start" => match self.text("error_code") {
                "not_found" => NOT_FOUND,
                "not_executable" => NOT_EXECUTABLE,
                _ => OUR_FAILURE,
            },
            _ => OUR_FAILURE,
        };
        Some(code)
    }

    /// Returns why a job ended that did not exit by itself; `None` if it did, or still runs.
    pub(super) fn explain_end(self) -> Option<String> {
        let killed = match self.text("killed") {
            "" => String::new(),
            how => format!("; {how}"),
        };
        let why = match self.text("outcome") {
            "" | "exited" => return None,
            "signaled" => {
                let meaning = self.signal().map_or("", explain_signal);
                return Some(format!("killed by {}{meaning}", self.safe_text("signal")));
            }
            "timed_out" => format!("timed out after {}", self.elapsed()),
            "stopped" if self.0["not_run"] == true => "stopped before it started".to_owned(),
            "stopped" => match self.text("stopped_by") {
                "" => "stopped".to_owned(),
                by => format!("stopped by {}", explain_stopper(by)),
            },
            "limit" => format!("ended: {}", self.explain_limit()),
            "failed_to_start" => format!("not started: {}", self.safe_text("error")),
            "lost" => format!("lost: {}", self.safe_text("error")),
            other => escape_for_terminal(&other.replace('_', " ")),
        };
        Some(format!("{why}{}", escape_for_terminal(&killed)))
    }

    fn explain_limit(self) -> String {
        match (self.text("limit"), self.0["peak_memory_bytes"].as_u64()) {
            ("memory", Some(peak)) => {
                format!("out of memory, peak {}", format_short_size(peak))
            }
            ("memory", None) => "out of memory".to_owned(),
            (limit, _) => {
                format!(
                    "its limit on {} was reached",
                    escape_for_terminal(&limit.replace('_', " "))
                )
            }
        }
    }
}

fn explain_stopper(word: &str) -> &str {
    match word {
        "client" => "a client",
        "operator" => "an operator",
        "cancel" => "a cancelled call",
        "shutdown" => "the end of the server",
        "no_slot" => "a lack of free slots",
        other => other,
    }
}

// Times.

/// Formats a time as `0.4s`, `12.0s`, `2m05s`, `1h02m` or `3d04h`.
pub(super) fn format_elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{}.{}s", seconds, time.subsec_millis() / 100),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        86_400.. => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Formats the distance of a moment from now, as `now`, `12s ago`, `5m ago`, `3h ago` or `2d ago`.
fn format_ago(age: Duration) -> String {
    match age.as_secs() {
        0 => "now".to_owned(),
        seconds @ 1..60 => format!("{seconds}s ago"),
        seconds @ 60..3600 => format!("{}m ago", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h ago", seconds / 3600),
        seconds @ 86_400.. => format!("{}d ago", seconds / 86_400),
    }
}

/// Returns the age of a moment in RFC 3339, `None` if the text is not one. A moment in the future,
/// by a clock that differs from ours, has the age 0.
fn parse_age(text: &str, now: OffsetDateTime) -> Option<Duration> {
    let then = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(Duration::try_from(now - then).unwrap_or_default())
}

// Exit codes.

pub(super) const TIMED_OUT: u8 = 124;
/// Shellyard itself failed, or ended the command because of a limit.
pub(super) const OUR_FAILURE: u8 = 125;
pub(super) const NOT_EXECUTABLE: u8 = 126;
pub(super) const NOT_FOUND: u8 = 127;
pub(super) const TRY_LATER: u8 = 75;
const SIGNAL_BASE: u8 = 128;

/// Returns the exit code of a command that a signal ended.
pub(super) fn signal_exit_code(signal: i32) -> u8 {
    u8::try_from(signal).map_or(OUR_FAILURE, |signal| SIGNAL_BASE.saturating_add(signal))
}

/// Returns the exit code of a command that exited with `code`.
pub(super) fn command_exit_code(code: i64) -> u8 {
    u8::try_from(code & 0xff).unwrap_or(OUR_FAILURE)
}

/// Returns the number of a signal by its name in replies, such as `SIGKILL` or `signal 40`.
fn find_signal(name: &str) -> Option<i32> {
    (1..=64).find(|number| signal_name(*number) == name)
}

/// Returns what a signal means for a person who sees it as the end of a job, if its name does not say
/// it.
pub(super) fn explain_signal(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV | libc::SIGBUS => " (it used memory that is not its own)",
        libc::SIGABRT => " (it ended itself, mostly after an internal error)",
        libc::SIGKILL => " (perhaps the system was out of memory)",
        libc::SIGXCPU => " (its limit on CPU time)",
        libc::SIGXFSZ => " (its limit on the size of files)",
        libc::SIGSYS => " (it used a system call that the sandbox forbids)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(job: Value, state: &str, tone: Tone, code: Option<u8>, why: Option<&str>) {
        let view = JobView(&job);
        let cell = view.state_cell();
        assert_eq!((cell.text.as_str(), cell.tone), (state, tone), "{job}");
        assert_eq!(view.exit_code(), code, "{job}");
        assert_eq!(view.explain_end().as_deref(), why, "{job}");
    }

    #[test]
    fn every_outcome_has_a_colour_an_exit_code_and_a_reason() {
        let ended = |outcome: &str, more: Value| {
            let mut job = json!({"state": "finished", "outcome": outcome});
            let fields = more.as_object().cloned().unwrap_or_default();
            job.as_object_mut().unwrap().extend(fields);
            job
        };
        check(json!({"state": "running"}), "running", Tone::Active, None, None);
        check(json!({"state": "queued"}), "queued", Tone::Faint, None, None);
        check(ended("exited", json!({"exit_code": 0})), "exit 0", Tone::Good, Some(0), None);
        check(ended("exited", json!({"exit_code": 3})), "exit 3", Tone::Bad, Some(3), None);
        let killed = ended("signaled", json!({"signal": "SIGTERM"}));
        check(killed, "killed by SIGTERM", Tone::Bad, Some(143), Some("killed by SIGTERM"));
        let timed_out =
            ended("timed_out", json!({"elapsed_ms": 1000, "killed": "tree ended (SIGTERM)"}));
        let why = "timed out after 1.0s; tree ended (SIGTERM)";
        check(timed_out, "timed out", Tone::Warning, Some(124), Some(why));
        let stopped = ended("stopped", json!({"stopped_by": "client"}));
        check(stopped, "stopped", Tone::Warning, Some(143), Some("stopped by a client"));
        for (signal, code) in [("SIGINT", 130), ("SIGKILL", 137)] {
            let stopped = ended("stopped", json!({"kill_signal": signal}));
            check(stopped, "stopped", Tone::Warning, Some(code), Some("stopped"));
        }
        let memory =
            ended("limit", json!({"limit": "memory", "peak_memory_bytes": 2_147_483_648_u64}));
        let why = "ended: out of memory, peak 2.0 GiB";
        check(memory, "limit: memory", Tone::Bad, Some(125), Some(why));
        let missing =
            ended("failed_to_start", json!({"error_code": "not_found", "error": "no x\u{1b}"}));
        let why = "not started: no x\\u{1b}";
        check(missing, "failed to start", Tone::Bad, Some(127), Some(why));
    }

    #[test]
    fn text_of_clients_cannot_write_on_the_terminal() {
        let job = json!({"client": "co\u{1b}[2Jdex", "client_version": "1", "waits_for": "x\ny",
                         "queue_position": 1, "queue_length": 2, "lane": "build"});
        assert_eq!(JobView(&job).client(), "co\\u{1b}[2Jdex 1");
        assert_eq!(JobView(&job).queue_position(), "1 of 2 in build: x\\ny");
    }

    #[test]
    fn longer_times_are_shown_with_less_precision() {
        for (millis, text) in [
            (449, "0.4s"),
            (59_999, "59.9s"),
            (60_000, "1m00s"),
            (3_720_000, "1h02m"),
            (100_000_000, "1d03h"),
        ] {
            assert_eq!(format_elapsed(Duration::from_millis(millis)), text);
        }
        for (seconds, text) in
            [(0, "now"), (59, "59s ago"), (61, "1m ago"), (7_300, "2h ago"), (200_000, "2d ago")]
        {
            assert_eq!(format_ago(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn the_age_of_a_moment_is_never_negative() {
        let now = OffsetDateTime::parse("2026-01-02T00:00:10Z", &Rfc3339).unwrap();
        let age = |text| parse_age(text, now);
        assert_eq!(age("2026-01-02T00:00:00.000Z"), Some(Duration::from_secs(10)));
        assert_eq!(age("2027-01-02T00:00:00Z"), Some(Duration::ZERO));
        assert_eq!(age("yesterday"), None);
    }

    #[test]
    fn signals_are_found_by_the_names_that_replies_give_them() {
        assert_eq!(find_signal("SIGKILL"), Some(9));
        assert_eq!(find_signal("signal 40"), Some(40));
        assert_eq!(find_signal("SIGNOTHING"), None);
        assert_eq!(signal_exit_code(9), 137);
        assert_eq!((command_exit_code(3), command_exit_code(259)), (3, 3));
    }
}
