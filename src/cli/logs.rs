//! `logs`: the output of a job, all of it, its end, or as it is written. On a terminal the output is made
//! harmless: colours and text pass, everything else that a terminal would act on is shown as text.

use std::io;
use std::time::Duration;

use clap::Args;
use regex::bytes::Regex;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::signal::unix::{SignalKind, signal};

use super::flags::parse_time;
use super::job_connection::{
    BACK_MESSAGE, JobOutputEvents, LOST_MESSAGE, MissingOutput, OutputEvent,
};
use super::job_view::{JobView, signal_exit_code};
use super::server_request::ServerRequestError;
use super::server_set::{FoundJob, JobName, JobScopeFlags, ServerSet, parse_job_name};
use super::terminal::{Display, OutputSink, VerbOutput, print_message, with_spinner};
use super::text_layout::escape_for_terminal;
use crate::http::MAX_TAIL;

/// The longest line that `--grep` and `--json` take as one.
const MAX_LINE_BYTES: usize = 1024 * 1024;

/// Flags of the verb `logs`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct LogsFlags {
    /// The job: its number, or SERVER/NUMBER.
    #[arg(value_name = "JOB", value_parser = parse_job_name)]
    pub job: JobName,
    /// Follow the output until the job ends.
    #[arg(short, long)]
    pub follow: bool,
    /// Only the last N lines; with --since, of the output since then.
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_line_count)]
    pub tail: Option<usize>,
    /// Only output since then: a time ago, such as 5m, or a moment in RFC 3339.
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub since: Option<Since>,
    /// Only lines that match this regular expression.
    #[arg(short, long, value_name = "RE", value_parser = parse_pattern)]
    pub grep: Option<GrepPattern>,
    /// Only stderr, of a job whose streams are separate.
    #[arg(long)]
    pub stderr: bool,
    /// Write the bytes of the job to the terminal as they are; they may change its state.
    #[arg(long)]
    pub raw: bool,
    #[command(flatten)]
    pub jobs: JobScopeFlags,
}

/// The start of the wanted output in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Since {
    Ago(Duration),
    Moment(String),
}

fn parse_line_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|lines| *lines <= MAX_TAIL);
    count.ok_or_else(|| format!("give a number of lines from 0 to {MAX_TAIL}"))
}

fn parse_since(text: &str) -> Result<Since, String> {
    if let Ok(moment) = OffsetDateTime::parse(text, &Rfc3339) {
        return to_utc_text(moment).map(Since::Moment);
    }
    parse_time(text)
        .map(Since::Ago)
        .map_err(|why| format!("{why}, or a moment such as 2026-01-31T12:00:00Z"))
}

fn to_utc_text(moment: OffsetDateTime) -> Result<String, String> {
    moment.to_offset(time::UtcOffset::UTC).format(&Rfc3339).map_err(|error| error.to_string())
}

/// A regular expression for one line.
#[derive(Debug, Clone)]
pub struct GrepPattern(Regex);

impl PartialEq for GrepPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

fn parse_pattern(text: &str) -> Result<GrepPattern, String> {
    Regex::new(text).map(GrepPattern).map_err(|error| error.to_string())
}

/// Prints the output of a job.
pub(super) async fn run(
    flags: &LogsFlags,
    servers: &ServerSet,
    display: &Display,
) -> Result<VerbOutput, ServerRequestError> {
    let opening = async {
        let job = servers.find_job(&flags.job, flags.jobs.scope()).await?;
        let query = flags.query(OffsetDateTime::now_utc());
        let mut output = JobOutputEvents::open(&job, query).await?;
        // A job that is silent for long is no reason to show that something takes long.
        let first = if flags.follow { None } else { Some(output.next().await?) };
        Ok::<_, ServerRequestError>((job, output, first))
    };
    let (job, mut output, mut first) = with_spinner(display, "reading the output", opening).await?;
    let is_paged = !flags.follow && !flags.jobs.server.json && display.is_terminal;
    let sink = if is_paged { OutputSink::open(display) } else { OutputSink::Stdout };
    // While a pager runs, Ctrl-C is for the pager.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServerRequestError::Terminal)?;
    let mut printer = LogPrinter::new(flags, display, sink);
    let printed = loop {
        let next = async {
            match first.take() {
                Some(event) => Ok(event),
                None => output.next().await,
            }
        };
        tokio::select! {
            event = next => match event {
                Ok(OutputEvent::End(state)) => break Printed::All(state),
                Ok(event) => if printer.print(&event).is_err() { break Printed::ReaderGone },
                Err(error) => break Printed::Failed(error),
            },
            _ = interrupt.recv() => if !printer.sink.is_pager() { break Printed::Interrupted },
        }
    };
    let finished = printer.finish();
    match printed {
        Printed::All(state) if finished.is_ok() => Ok(describe_end(flags, display, &job, &state)),
        Printed::All(_) | Printed::ReaderGone => Ok(VerbOutput::default()),
        Printed::Failed(error) => Err(error),
        Printed::Interrupted => Ok(VerbOutput::exit_code(signal_exit_code(libc::SIGINT))),
    }
}

/// The way in which printing ended.
enum Printed {
    /// Everything was printed; the value is the job.
    All(Value),
    /// The user left the pager, or closed the pipe.
    ReaderGone,
    Failed(ServerRequestError),
    Interrupted,
}

/// Returns how the job ended, for a person who followed it, or why nothing was printed.
fn describe_end(flags: &LogsFlags, display: &Display, job: &FoundJob, state: &Value) -> VerbOutput {
    if !display.has_messages || flags.jobs.server.json {
        return VerbOutput::default();
    }
    let view = JobView(state);
    let stderr = if flags.follow {
        format!("job {}: {}, {}\n", job.name, view.state_cell().text, view.elapsed())
    } else if has_written_nothing(state) {
        format!("job {} has written nothing ({})\n", job.name, view.state_cell().text)
    } else {
        String::new()
    };
    VerbOutput { stderr, ..VerbOutput::default() }
}

/// `true` if the job wrote no byte. Output that was dropped was written too.
fn has_written_nothing(state: &Value) -> bool {
    state["total_bytes"] == 0 && state["dropped_bytes"].as_u64().unwrap_or(0) == 0
}

impl LogsFlags {
    fn query(&self, now: OffsetDateTime) -> Vec<(&'static str, String)> {
        let since = self.since.as_ref().and_then(|since| match since {
            Since::Ago(time) => to_utc_text(now - *time).ok(),
            Since::Moment(moment) => Some(moment.clone()),
        });
        let pairs = [
            ("follow", Some(u8::from(self.follow).to_string())),
            ("tail", self.tail.map(|lines| lines.to_string())),
            ("since", since),
            ("stream", self.stderr.then(|| "stderr".to_owned())),
        ];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Writes the bytes of a job in the wanted form.
struct LogPrinter<'a> {
    flags: &'a LogsFlags,
    sink: OutputSink,
    /// stdout is a terminal.
    is_shown: bool,
    /// Makes bytes harmless, if a terminal shows them.
    filter: Option<TerminalFilter>,
    /// The start of a line that is not complete.
    line: Vec<u8>,
    /// The last byte that was written ends a line, or nothing was written.
    is_at_line_start: bool,
}

impl<'a> LogPrinter<'a> {
    fn new(flags: &'a LogsFlags, display: &Display, sink: OutputSink) -> Self {
        let is_filtered = display.is_terminal && !flags.raw && !flags.jobs.server.json;
        let colors = if display.has_sequences { ColorRule::Pass } else { ColorRule::Remove };
        let filter = is_filtered.then(|| TerminalFilter::new(colors));
        let (is_shown, line) = (display.is_terminal, Vec::new());
        Self { flags, sink, is_shown, filter, line, is_at_line_start: true }
    }

    fn print(&mut self, event: &OutputEvent) -> io::Result<()> {
        match event {
            OutputEvent::Bytes(bytes) => self.push(bytes),
            OutputEvent::Missing(missing) => self.print_missing(missing),
            OutputEvent::ConnectionLost => {
                self.print_notice(LOST_MESSAGE);
                Ok(())
            }
            OutputEvent::ConnectionBack { was_announced: true } => {
                self.print_notice(BACK_MESSAGE);
                Ok(())
            }
            OutputEvent::ConnectionBack { was_announced: false } | OutputEvent::End(_) => Ok(()),
        }
    }

    /// Prints a message about the connection, unless it would overwrite the screen of a pager.
    fn print_notice(&self, message: &str) {
        if !self.sink.is_pager() {
            print_message(message);
        }
    }

    /// Says that bytes are missing: in their place if a person reads the output, otherwise on stderr.
    fn print_missing(&mut self, missing: &MissingOutput) -> io::Result<()> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        if self.flags.jobs.server.json {
            let object = json!({ "missing_bytes": missing.bytes, "why": missing.why });
            return self.sink.write(format!("{object}\n").as_bytes());
        }
        if self.is_shown {
            let gap = self.format_gap(missing);
            return self.write_shown(gap.as_bytes());
        }
        print_message(&missing.format());
        Ok(())
    }

    /// Formats the line in place of missing bytes. A character or a colour does not reach over it.
    fn format_gap(&mut self, missing: &MissingOutput) -> String {
        let rest = self.filter.as_mut().map(TerminalFilter::finish).unwrap_or_default();
        let shows_nothing = rest.is_empty() || rest == RESET_COLORS;
        let line_end = if self.is_at_line_start && shows_nothing { "" } else { "\n" };
        format!("{rest}{line_end}{}\n", missing.format())
    }

    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.flags.grep.is_none() && !self.flags.jobs.server.json {
            return self.write(bytes);
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") || self.line.len() >= MAX_LINE_BYTES {
                self.end_line()?;
            }
        }
        Ok(())
    }

    fn end_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if self.flags.grep.as_ref().is_some_and(|pattern| !pattern.0.is_match(text)) {
            return Ok(());
        }
        if self.flags.jobs.server.json {
            let object = json!({ "line": String::from_utf8_lossy(text) });
            return self.sink.write(format!("{object}\n").as_bytes());
        }
        self.write(&line)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.filter {
            Some(filter) => {
                let shown = filter.push(bytes);
                self.write_shown(shown.as_bytes())
            }
            None => self.write_shown(bytes),
        }
    }

    fn write_shown(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(last) = bytes.last() {
            self.is_at_line_start = *last == b'\n';
        }
        self.sink.write(bytes)
    }

    fn finish(mut self) -> io::Result<()> {
        let last = if self.line.is_empty() { Ok(()) } else { self.end_line() };
        let rest = self.filter.as_mut().map(TerminalFilter::finish).unwrap_or_default();
        let written = last.and_then(|()| self.sink.write(rest.as_bytes()));
        self.sink.close();
        written
    }
}

// Output on a terminal.

/// The longest sequence that may be a colour.
const MAX_SEQUENCE_CHARS: usize = 64;

/// The sequence that ends all colours.
const RESET_COLORS: &str = "\u{1b}[0m";

/// The treatment of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ColorRule {
    #[default]
    Pass,
    /// For a terminal that understands no sequences.
    Remove,
}

/// Filters a stream of bytes, in pieces of any size.
#[derive(Debug, Default)]
struct TerminalFilter {
    colors: ColorRule,
    /// The first bytes of a character that is not complete yet.
    partial: Vec<u8>,
    /// The sequence that has started and not ended, from its escape character on.
    sequence: String,
    has_colored: bool,
}

impl TerminalFilter {
    fn new(colors: ColorRule) -> Self {
        Self { colors, ..Self::default() }
    }

    /// Returns the harmless form of the next bytes, as far as they are complete.
    fn push(&mut self, bytes: &[u8]) -> String {
        self.partial.extend_from_slice(bytes);
        let held = count_incomplete(&self.partial);
        let rest = self.partial.split_off(self.partial.len() - held);
        let complete = std::mem::replace(&mut self.partial, rest);
        let mut shown = String::with_capacity(complete.len());
        for c in String::from_utf8_lossy(&complete).chars() {
            self.push_char(c, &mut shown);
        }
        shown
    }

    /// Returns the rest, and the sequence that ends all colours if there were any.
    fn finish(&mut self) -> String {
        let partial = std::mem::take(&mut self.partial);
        let mut shown = String::new();
        for c in String::from_utf8_lossy(&partial).chars() {
            self.push_char(c, &mut shown);
        }
        shown.push_str(&escape_for_terminal(&std::mem::take(&mut self.sequence)));
        if std::mem::take(&mut self.has_colored) {
            shown.push_str(RESET_COLORS);
        }
        shown
    }

    fn push_char(&mut self, c: char, shown: &mut String) {
        if self.sequence.is_empty() {
            match c {
                '\u{1b}' => self.sequence.push(c),
                '\n' | '\t' | '\r' => shown.push(c),
                c => shown.push_str(&escape_for_terminal(c.encode_utf8(&mut [0; 4]))),
            }
            return;
        }
        self.sequence.push(c);
        let body = &self.sequence[1..];
        let is_parameter = |c: char| c.is_ascii_digit() || c == ';' || c == ':';
        match body.strip_prefix('[') {
            Some(rest)
                if rest.ends_with('m') && rest[..rest.len() - 1].chars().all(is_parameter) =>
            {
                if self.colors == ColorRule::Pass {
                    shown.push_str(&self.sequence);
                    self.has_colored = true;
                }
                self.sequence.clear();
            }
            Some(rest) if rest.chars().all(is_parameter) && rest.len() < MAX_SEQUENCE_CHARS => {}
            Some(_) | None => {
                let mut refused = std::mem::take(&mut self.sequence);
                refused.pop();
                shown.push_str(&escape_for_terminal(&refused));
                // The last character may start a sequence of its own, or be a line end.
                self.push_char(c, shown);
            }
        }
    }
}

/// Returns the number of bytes at the end that are the start of a longer character.
fn count_incomplete(bytes: &[u8]) -> usize {
    let longest = bytes.len().min(3);
    (1..=longest)
        .find(|count| {
            let first = bytes[bytes.len() - count];
            let length = match first {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => 1,
            };
            length > *count
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn since_is_a_time_ago_or_a_moment() {
        assert_eq!(parse_since("5m"), Ok(Since::Ago(Duration::from_secs(300))));
        let moment = parse_since("2026-01-02T03:04:05+01:00").unwrap();
        assert_eq!(moment, Since::Moment("2026-01-02T02:04:05Z".into()));
        assert!(parse_since("yesterday").unwrap_err().contains("2026-01-31"));
    }

    #[test]
    fn dropped_output_was_written() {
        assert!(has_written_nothing(&json!({"total_bytes": 0})));
        assert!(!has_written_nothing(&json!({"total_bytes": 7})));
        assert!(!has_written_nothing(&json!({"total_bytes": 0, "dropped_bytes": 7})));
    }

    #[test]
    fn a_gap_ends_colours_and_has_a_line_of_its_own() {
        let flags = no_flags();
        let display = Display { is_terminal: true, has_sequences: true, ..Display::default() };
        let mut printer = LogPrinter::new(&flags, &display, OutputSink::Stdout);
        let missing = MissingOutput { bytes: 7, why: "disk_full".into() };
        let line = format!("{}\n", missing.format());
        assert_eq!(printer.format_gap(&missing), line, "no empty line at the beginning");
        printer.is_at_line_start = false;
        printer.filter.as_mut().unwrap().push(b"\x1b[31mred\xe6");
        assert_eq!(printer.format_gap(&missing), format!("\u{fffd}\u{1b}[0m\n{line}"));
        printer.is_at_line_start = true;
        printer.filter.as_mut().unwrap().push(b"\x1b[31mred\n");
        assert_eq!(printer.format_gap(&missing), format!("\u{1b}[0m{line}"));
    }

    fn no_flags() -> LogsFlags {
        LogsFlags {
            job: parse_job_name("3").unwrap(),
            follow: false,
            tail: None,
            since: None,
            grep: None,
            stderr: false,
            raw: false,
            jobs: JobScopeFlags::default(),
        }
    }

    #[test]
    fn the_request_has_what_the_flags_ask_for() {
        let mut flags = no_flags();
        let now = OffsetDateTime::UNIX_EPOCH + Duration::from_secs(600);
        assert_eq!(flags.query(now), [("follow", "0".to_owned())]);
        flags = LogsFlags { follow: true, tail: Some(7), stderr: true, ..flags };
        flags.since = Some(Since::Ago(Duration::from_secs(300)));
        let query: Vec<String> =
            flags.query(now).iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected = ["follow=1", "tail=7", "since=1970-01-01T00:05:00Z", "stream=stderr"];
        assert_eq!(query, expected);
    }

    fn filter(bytes: &[u8]) -> String {
        let mut filter = TerminalFilter::default();
        let mut shown = filter.push(bytes);
        shown.push_str(&filter.finish());
        shown
    }

    #[test]
    fn colours_pass_and_other_sequences_are_shown() {
        assert_eq!(filter(b"a\tb\r\nc"), "a\tb\r\nc");
        assert_eq!(filter(b"\x1b[1;31mred\x1b[0m"), "\x1b[1;31mred\x1b[0m\x1b[0m");
        assert_eq!(filter(b"\x1b[2Jx"), "\\u{1b}[2Jx");
        assert_eq!(filter(b"\x1b]0;title\x07x"), "\\u{1b}]0;title\\u{7}x");
        assert_eq!(filter(b"\x1b\x1b[31mx"), "\\u{1b}\x1b[31mx\x1b[0m");
        assert_eq!(filter(b"\x1b[3"), "\\u{1b}[3");
        assert_eq!(filter(b"\x1b\n"), "\\u{1b}\n");
        assert_eq!(filter("\u{9b}2Jé日本\u{202e}".as_bytes()), "\\u{9b}2Jé日本\\u{202e}");
        assert_eq!(filter(b"\xff\xe6\x97"), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_terminal_without_sequences_gets_no_colours() {
        let mut filter = TerminalFilter::new(ColorRule::Remove);
        assert_eq!(filter.push(b"\x1b[1;31mred\x1b[0m \x1b[2J"), "red \\u{1b}[2J");
        assert_eq!(filter.finish(), "");
    }

    proptest! {
        #[test]
        fn pieces_give_the_same_text_as_the_whole(
            text in "[a-c\u{1b}\\[0-9;mJ\u{e9}\u{65e5}\n]{0,60}",
            cut in 0_usize..200,
        ) {
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            let mut filter_state = TerminalFilter::default();
            let mut shown = filter_state.push(&bytes[..cut]);
            shown.push_str(&filter_state.push(&bytes[cut..]));
            shown.push_str(&filter_state.finish());
            prop_assert_eq!(shown, filter(bytes));
        }

        #[test]
        fn nothing_but_colours_reaches_the_terminal(bytes: Vec<u8>) {
            let shown = filter(&bytes);
            let plain = regex::Regex::new("\u{1b}\\[[0-9;:]*m").unwrap().replace_all(&shown, "").into_owned();
            prop_assert!(!plain.chars().any(|c| c.is_control() && !"\n\t\r".contains(c)), "{:?}", shown);
        }
    }
}
