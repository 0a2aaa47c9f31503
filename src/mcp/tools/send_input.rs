//! `send_input`: sends text, a key press or the end of input to a running job, and shows what follows
//! without the echo of the text.
//!
//! A terminal echoes text as soon as it is typed. A line editor does so itself, line by line, each
//! after its prompt and with terminal codes between. So lines are compared by their visible
//! characters, in the order in which they were typed.

use std::future::pending;
use std::ops::Range;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::call::{ToolCall, WaitEnd, wait_for};
use super::search::{MatchedLine, find_first_match};
use super::wait_jobs::{UNTIL, WaitConditions};
use crate::ids::JobNumber;
use crate::mcp::args::{ArgError, ArgKind, ArgSpec, Args, ToolEffect, ToolSpec};
use crate::mcp::reply::{
    AnswerReason, EventSign, TimedOutWait, ToolError, ToolReply, hint_after_job, hint_silent_input,
    progress_line, read_last_line, show_from,
};
use crate::output::pattern::LinePattern;
use crate::output::{LogReader, PageRequest};
use crate::service::{EchoMode, JobHandle, JobInput, KeyPress, PromptRule, StdinEnd};

/// The time without output after which a program has reacted to its input.
const QUIET: Duration = Duration::from_millis(150);

/// The interval at which a quiet program is checked for another wait for input.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

const KEYS: [&str; 12] = [
    "ctrl_c",
    "ctrl_d",
    "ctrl_z",
    "ctrl_backslash",
    "enter",
    "tab",
    "escape",
    "up",
    "down",
    "left",
    "right",
    "backspace",
];

pub(in crate::mcp) const SPEC: ToolSpec = ToolSpec {
    name: "send_input",
    about: "Sends text (add \\n for Enter), then key, then eof (the end of input), to a job with \
            tty=true, or without stdin and with wait_s=0, until, port or quiet_s. Answers with the \
            output that follows, once the job is quiet, waits for input again, or ends.",
    effect: ToolEffect::Runs,
    fields: &[
        ArgSpec::required("job", ArgKind::Whole, ""),
        ArgSpec::optional("text", ArgKind::Text, ""),
        ArgSpec::optional("key", ArgKind::Choice(&KEYS), ""),
        ArgSpec::optional("eof", ArgKind::Flag, ""),
        UNTIL,
        ArgSpec::with_empty("wait_s", ArgKind::Seconds, ""),
    ],
};

pub(in crate::mcp) async fn call(call: ToolCall<'_>, args: Args) -> Result<ToolReply, ToolError> {
    let SendInputArgs { job, input, until, wait } = SendInputArgs::read(args)?;
    let job = call.client.find(call.client.job_id(job)).await?;
    let called = Instant::now();
    let limit = call.wait_limit(wait);
    let from = job.output().progress().total_bytes;
    let prompt = read_prompt(job.output()).await;
    let typed = input.typed_bytes();
    let receipt = job.send_input(input).await?;
    let message = || progress_line([&job]);
    let echo_mode = match wait_for(call, limit, receipt.written(), message).await {
        WaitEnd::Done(mode) => mode,
        WaitEnd::Over | WaitEnd::Cancelled(_) => EchoMode::Off,
    };
    let reaction = Reaction {
        job: &job,
        from,
        written: Instant::now(),
        echo: TypedEcho::new(&typed, echo_mode, &prompt),
    };
    let rest = limit.saturating_sub(called.elapsed());
    let end = wait_for(call, rest, reaction.wait(until.as_ref()), message).await;
    let (matched, reason) = match end {
        WaitEnd::Done(Some(line)) => (Some(line), AnswerReason::Ready(Some(job.id()))),
        WaitEnd::Done(None) | WaitEnd::Cancelled(_) => (None, AnswerReason::JobState),
        WaitEnd::Over => {
            let conditions = WaitConditions { until, ..WaitConditions::default() }.arguments();
            let cut = call.cut_wait(wait);
            let over = TimedOutWait { cut, conditions, ..TimedOutWait::default() };
            (None, AnswerReason::WaitOver(over))
        }
    };
    reaction.reply(call, matched, &reason).await
}

/// Reads the unfinished last line of the output, at which the input is typed.
async fn read_prompt(log: &LogReader) -> String {
    if !log.progress().open_line {
        return String::new();
    }
    read_last_line(log).await.unwrap_or_default()
}

/// The reaction of a job to its input.
struct Reaction<'a> {
    job: &'a JobHandle,
    /// The offset of the output after the input.
    from: u64,
    /// The time at which the job was given the input.
    written: Instant,
    echo: TypedEcho,
}

impl Reaction<'_> {
    /// Waits for a line that matches `until`, or without one until the job has reacted; in any case
    /// at most until it ends or has waited for input for about a second. Returns the line.
    async fn wait(&self, until: Option<&LinePattern>) -> Option<MatchedLine> {
        let Some(pattern) = until else {
            tokio::select! {
                biased;
                _ = self.job.finished() => {}
                () = self.wait_until_quiet() => {}
            }
            return None;
        };
        tokio::select! {
            biased;
            line = self.wait_for_line(pattern) => Some(line),
            _ = self.job.finished() => None,
            () = self.job.waited_for_input(PromptRule::Required) => None,
        }
    }

    /// Returns when the job has been quiet for a moment, after it wrote something or while it waits
    /// for more input.
    async fn wait_until_quiet(&self) {
        let log = self.job.output();
        loop {
            let progress = log.progress();
            let last = progress.last_output.map_or(self.written, |at| at.max(self.written));
            if let Some(rest) = QUIET.checked_sub(last.elapsed()).filter(|rest| !rest.is_zero()) {
                sleep(rest).await;
                continue;
            }
            if self.has_output().await || self.is_waiting_for_input().await {
                return;
            }
            tokio::select! {
                () = log.wait_past(progress.total_bytes) => {}
                () = sleep(CHECK_INTERVAL) => {}
            }
        }
    }

    /// `true` if the job has written more than the echo of its input.
    async fn has_output(&self) -> bool {
        let written = self.job.output().progress().total_bytes.saturating_sub(self.from);
        // A log that cannot be read says so in the reply.
        let has_more = |output: Vec<u8>| self.echo.has_more_in(&String::from_utf8_lossy(&output));
        written > ECHO_BYTES as u64 || written > 0 && self.read(u64::MAX).await.is_none_or(has_more)
    }

    async fn is_waiting_for_input(&self) -> bool {
        let job = self.job.clone();
        tokio::task::spawn_blocking(move || job.is_waiting_for_input()).await.unwrap_or(false)
    }

    /// Returns the first matching line that is not the echo; never, if there is none.
    async fn wait_for_line(&self, pattern: &LinePattern) -> MatchedLine {
        let mut from = self.from;
        while let Ok(Some(line)) = find_first_match(self.job.output(), from, pattern).await {
            let output = self.read(line.end).await;
            let is_echo = |output: Vec<u8>| self.echo.ends(&String::from_utf8_lossy(&output));
            if line.end <= from || !output.is_some_and(is_echo) {
                return line;
            }
            from = line.end;
        }
        pending().await
    }

    /// Reads the output after the input up to `end`, as far as the echo may reach.
    async fn read(&self, end: u64) -> Option<Vec<u8>> {
        let from = self.from;
        let most = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
        let request = PageRequest {
            from,
            to: u64::MAX,
            stream: None,
            max_bytes: most.min(ECHO_BYTES),
            max_lines: 0,
        };
        let page = self.job.output().read_with(move |log| log.read_page(&request)).await.ok()?;
        Some(page.bytes)
    }

    /// Builds the reply: the output after the input without its echo.
    async fn reply(
        &self,
        call: ToolCall<'_>,
        matched: Option<MatchedLine>,
        reason: &AnswerReason,
    ) -> Result<ToolReply, ToolError> {
        let now = call.snapshot(self.job).await;
        let output = self.read(u64::MAX).await.unwrap_or_default();
        let echo = self.echo.locate(&output);
        let start = self.from + echo.leading_bytes as u64;
        let mut fitter = call.fitter(&call.job_reply(&now, None));
        loop {
            let budget = fitter.excerpt_budget();
            let mut shown = show_from(&now, self.job.output(), start, budget).await?;
            if shown.is_all_output() {
                shown.text = remove_lines(&shown.text, &echo.later_lines);
                // All that followed the input is shown.
                shown.spans.clear();
            }
            let is_silent = shown.text.trim().is_empty();
            let hint = if is_silent && now.waits_for_input() && !now.has_terminal {
                Some(hint_silent_input(now.job))
            } else {
                hint_after_job(&now, Some(&shown), reason)
            };
            let mut seen = shown.seen_ranges();
            seen.ranges.insert(0, self.from..shown.start);
            let sign = matched.map(|matched| EventSign::matched_line(matched.line));
            let reply = call.job_reply(&now, Some(shown)).with_sign(sign).with_hint(hint);
            if let Some(reply) = fitter.accept(reply) {
                call.mark_shown(now.job, seen);
                if let Some(matched) = matched {
                    call.skip_search(now.job, matched.end);
                }
                return Ok(reply);
            }
        }
    }
}

struct SendInputArgs {
    job: JobNumber,
    input: JobInput,
    until: Option<LinePattern>,
    wait: Option<Duration>,
}

impl SendInputArgs {
    fn read(mut args: Args) -> Result<Self, ToolError> {
        Ok(Self {
            job: args.job("job")?.ok_or(ArgError::Conflict("`job` is needed"))?,
            until: args.text("until")?.as_deref().map(LinePattern::new).transpose()?,
            wait: args.seconds("wait_s")?,
            input: parse_input(args)?,
        })
    }
}

fn parse_input(mut args: Args) -> Result<JobInput, ArgError> {
    let text = args.text("text")?;
    let key = args.choice("key", &KEYS.map(|name| (name, KeyPress::from_name(name))))?.flatten();
    let end = if args.flag("eof")? { StdinEnd::Close } else { StdinEnd::KeepOpen };
    if text.is_none() && key.is_none() && end == StdinEnd::KeepOpen {
        return Err(ArgError::Conflict("nothing to send: give text, key or eof=true"));
    }
    Ok(JobInput { bytes: text.unwrap_or_default().into_bytes(), key, end })
}

/// Prompts for the next line of an unfinished statement, in shells and REPLs.
const CONTINUATIONS: [&str; 6] = ["...", ">", "...:", "...>", "->", "|"];

/// The most output after the input in which its echo is looked for.
const ECHO_BYTES: usize = 64 * 1024;

/// The most typed lines whose echo is looked for: each may be compared with each line of output.
const MAX_TYPED_LINES: usize = 200;

/// The echo to expect after some text was typed.
#[derive(Debug, Default)]
struct TypedEcho {
    mode: EchoMode,
    /// The visible characters of the lines that were typed with a newline.
    lines: Vec<String>,
    /// The visible characters of the text after the last newline.
    unfinished: String,
    /// The visible characters of the prompt at which the text was typed.
    prompt: String,
}

impl TypedEcho {
    /// Creates the echo of `typed`. `prompt` is the unfinished line of output before it. The echo of
    /// very long text is not looked for.
    pub(super) fn new(typed: &[u8], mode: EchoMode, prompt: &str) -> Self {
        if mode == EchoMode::Off || typed.len() > ECHO_BYTES {
            return Self::default();
        }
        let text = String::from_utf8_lossy(typed);
        let mut lines: Vec<String> = text.split(['\n', '\r']).map(visible_keys).collect();
        if lines.len() > MAX_TYPED_LINES {
            return Self::default();
        }
        let unfinished = lines.pop().unwrap_or_default();
        Self { mode, lines, unfinished, prompt: visible(prompt) }
    }

    /// Finds the echo in the output that followed when the text was typed.
    fn locate(&self, output: &[u8]) -> LocatedEcho {
        let output = decode(output);
        let found = self.find_in(output);
        let leading_bytes =
            found.iter().fold(0, |end, echo| if echo.start == end { echo.end } else { end });
        let later = found.into_iter().filter(|echo| echo.start >= leading_bytes);
        let later_lines = later.map(|echo| visible(&output[echo])).collect();
        LocatedEcho { leading_bytes, later_lines }
    }

    /// `true` if there is more in the output than the echo.
    fn has_more_in(&self, output: &str) -> bool {
        let mut at = 0;
        let mut places = self.find_in(output);
        places.push(output.len()..output.len());
        places.into_iter().any(|echo| {
            let between = &output[at..echo.start];
            at = echo.end;
            !visible(between).is_empty()
        })
    }

    /// `true` if the last line of the output, finished or not, is part of the echo.
    pub(super) fn ends(&self, output: &str) -> bool {
        let found = self.find_in(&format!("{output}\n"));
        if found.last().is_some_and(|echo| echo.end > output.len()) {
            return true;
        }
        // A part of the next line to be echoed.
        let next = self.lines.get(found.len()).unwrap_or(&self.unfinished);
        let last = visible(output.rsplit('\n').next().unwrap_or_default());
        let is_part = |part: &str| !part.is_empty() && next.starts_with(part);
        let mut prompts = CONTINUATIONS.into_iter().chain([self.prompt.as_str()]);
        is_part(&last) || prompts.any(|prompt| last.strip_prefix(prompt).is_some_and(is_part))
    }

    /// Returns the places of the echo, in order: whole lines, and the unfinished text at the end.
    fn find_in(&self, output: &str) -> Vec<Range<usize>> {
        if self.lines.is_empty() && self.unfinished.is_empty() {
            return Vec::new();
        }
        let last = visible(output.rsplit('\n').next().unwrap_or_default());
        let prompts = [self.prompt.as_str(), last.as_str()];
        let lines = finished_lines(output);
        let mut rest = lines.as_slice();
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        for (index, typed) in self.lines.iter().enumerate() {
            // The terminal echoes everything at once; a line editor shows its prompt between.
            let can_be_alone = self.mode == EchoMode::Terminal || index == 0;
            let line = take_line(&mut rest, |line| {
                line.place.start == at && can_be_alone && line.text == *typed
                    || is_prompted(&line.text, typed, &prompts)
            });
            if let Some(line) = line {
                at = line.end;
                found.push(line);
            }
        }
        if self.mode == EchoMode::Terminal {
            found.extend(self.find_again(rest, &prompts));
        }
        let is_complete = found.last().is_none_or(|line| line.end == at);
        if is_complete && !self.unfinished.is_empty() {
            found.extend(self.find_unfinished(output, at));
        }
        found
    }

    /// Returns the places of lines that a line editor echoes after the terminal has: they were typed
    /// before it was ready.
    fn find_again(&self, mut rest: &[EchoCandidate], prompts: &[&str]) -> Vec<Range<usize>> {
        let typed = self.lines.iter().filter(|typed| !typed.is_empty());
        let found = typed.filter_map(|typed| {
            take_line(&mut rest, |line| is_prompted(&line.text, typed, prompts))
        });
        found.collect()
    }

    /// Returns the place of the text after the last newline. A program that shows other text after
    /// a key has not echoed the key.
    fn find_unfinished(&self, output: &str, at: usize) -> Option<Range<usize>> {
        let rest = output.get(at..)?;
        let mut shown = visible_chars(rest);
        let mut end = 0;
        for typed in self.unfinished.chars() {
            end = shown.next().filter(|found| found.char == typed)?.end;
        }
        let line = rest.split('\n').next().unwrap_or_default();
        let is_echo = self.mode == EchoMode::Terminal || visible(line) == self.unfinished;
        is_echo.then_some(at..at + end)
    }
}

/// The echo in some output.
#[derive(Debug, Default, PartialEq, Eq)]
struct LocatedEcho {
    /// The length of the echo with which the output begins.
    leading_bytes: usize,
    /// The visible characters of the lines of the echo that come after other output.
    later_lines: Vec<String>,
}

/// Returns the output as text, without an incomplete last character; nothing if it has another
/// encoding than UTF-8, because places in converted text are no places in the output.
fn decode(output: &[u8]) -> &str {
    let valid = match str::from_utf8(output) {
        Ok(text) => return text,
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => 0,
    };
    str::from_utf8(&output[..valid]).unwrap_or_default()
}

/// Returns the text without these lines, given by their visible characters in order.
fn remove_lines(text: &str, lines: &[String]) -> String {
    let mut lines = lines.iter().peekable();
    let kept = text
        .split_inclusive('\n')
        .filter(|line| lines.next_if(|echo| !echo.is_empty() && **echo == visible(line)).is_none());
    kept.collect()
}

/// `true` if a line is a prompt and this text.
fn is_prompted(line: &str, typed: &str, prompts: &[&str]) -> bool {
    let is_known = |found: &str| {
        let is_like = |prompt: &&str| {
            // Prompts may contain a number, or other signs for an unfinished statement.
            let has_letters = letters(prompt).next().is_some();
            *prompt == found || has_letters && letters(prompt).eq(letters(found))
        };
        !found.is_empty() && (CONTINUATIONS.contains(&found) || prompts.iter().any(is_like))
    };
    line.strip_suffix(typed).is_some_and(is_known)
}

/// A finished line of output, which may be an echo.
#[derive(Debug)]
struct EchoCandidate {
    /// The place of the line with its newline.
    place: Range<usize>,
    /// The visible characters of the line.
    text: String,
}

fn finished_lines(output: &str) -> Vec<EchoCandidate> {
    let mut end = 0;
    let lines = output.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(|line| {
        let start = end;
        end += line.len();
        EchoCandidate { place: start..end, text: visible(line) }
    });
    lines.collect()
}

/// Returns the place of the first line that is selected, and leaves the lines after it. Leaves all
/// of them if none is.
fn take_line(
    lines: &mut &[EchoCandidate],
    is_selected: impl Fn(&EchoCandidate) -> bool,
) -> Option<Range<usize>> {
    let index = lines.iter().position(is_selected)?;
    let place = lines[index].place.clone();
    *lines = &lines[index + 1..];
    Some(place)
}

/// Returns the visible characters of typed keys: a terminal shows a control key as `^C`.
fn visible_keys(typed: &str) -> String {
    let mut shown = String::new();
    for key in typed.chars() {
        match key {
            // The end of input and erased characters leave nothing.
            '\u{4}' | '\u{7f}' | '\t' => {}
            '\u{1}'..='\u{1f}' => {
                shown.push('^');
                shown.extend(char::from_u32(u32::from(key) + 0x40));
            }
            key if key.is_whitespace() => {}
            key => shown.push(key),
        }
    }
    shown
}

/// Returns the visible characters of output, without spaces: a line editor adds some where a line
/// is full.
fn visible(output: &str) -> String {
    visible_chars(output).map(|found| found.char).collect()
}

/// A visible character of output.
#[derive(Debug)]
struct VisibleChar {
    char: char,
    /// The offset after the character.
    end: usize,
}

fn visible_chars(output: &str) -> impl Iterator<Item = VisibleChar> {
    let mut rest = output;
    std::iter::from_fn(move || {
        loop {
            let mut chars = rest.chars();
            let next = chars.next()?;
            rest = chars.as_str();
            if next == '\u{1b}' {
                rest = skip_code(rest);
            } else if !next.is_whitespace() && !next.is_control() {
                return Some(VisibleChar { char: next, end: output.len() - rest.len() });
            }
        }
    })
}

/// Returns the text after a terminal code. `text` begins after the escape character of the code.
fn skip_code(text: &str) -> &str {
    let mut chars = text.chars();
    match chars.next() {
        Some('[') => {
            chars.find(|code| matches!(code, '@'..='~'));
        }
        // A title or a link: a bell or another code ends it, usually `ESC \`.
        Some(']') => {
            let is_part = |code| !matches!(code, '\u{7}' | '\u{1b}');
            return chars.as_str().trim_start_matches(is_part);
        }
        // A code of three characters, like `ESC ( B` for a character set.
        Some(' '..='/') => {
            chars.find(|code| !matches!(code, ' '..='/'));
        }
        Some(_) | None => {}
    }
    chars.as_str()
}

fn letters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|found| found.is_alphabetic())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(mut given: Value) -> Result<JobInput, ArgError> {
        given["job"] = 1.into();
        let mut args = Args::new(given.as_object().cloned(), SPEC.fields).unwrap();
        args.job("job").unwrap();
        parse_input(args)
    }

    #[test]
    fn the_schema_lists_all_keys() {
        assert_eq!(KEYS, KeyPress::names());
    }

    #[test]
    fn input_is_text_or_a_key_or_the_end_or_all_of_them() {
        let all = read(json!({"text": "y\n", "key": "enter", "eof": true})).unwrap();
        assert_eq!(all.bytes, b"y\n");
        assert_eq!((all.key, all.end), (Some(KeyPress::Enter), StdinEnd::Close));
        assert_eq!(read(json!({"key": "ctrl_c"})).unwrap().key, Some(KeyPress::CtrlC));
        assert!(read(json!({})).is_err());
        assert!(read(json!({"eof": false})).is_err());
        assert!(read(json!({"key": "ctrl_q"})).unwrap_err().to_string().contains("ctrl_c"));
    }

    #[test]
    fn the_echo_is_removed_and_nothing_else() {
        use EchoMode::{Off, Program, Terminal};
        for (mode, typed, prompt, output, expected) in [
            (Program, "1/0\n", ">>> ", "1/0\r\nTraceback\r\n>>> ", "Traceback\r\n>>> "),
            (Terminal, "hello\n", "", "hello\r\nhello\r\n", "hello\r\n"),
            (Terminal, "a\nb\n", "", "a\r\nb\r\na\r\nb\r\n", "a\r\nb\r\n"),
            (Terminal, "5\n", "Enter: ", "5\r\nYou entered: 5\r\n", "You entered: 5\r\n"),
            (Program, "5\n5\n", ">>> ", "5\r\n5\r\n>>> 5\r\n5\r\n>>> ", "5\r\n5\r\n>>> "),
            (
                Program,
                "5\n5\n",
                "(1)> ",
                "5\r\n=> 5\r\n(2)> 5\r\n=> 5\r\n(2)> ",
                "=> 5\r\n=> 5\r\n(2)> ",
            ),
            // A block, with prompts of its own.
            (
                Program,
                "for i in range(2):\n    print(i)\n\n",
                ">>> ",
                "for i in range(2):\r\n...     print(i)\r\n... \r\n0\r\n1\r\n>>> ",
                "0\r\n1\r\n>>> ",
            ),
            // Output between the lines.
            (
                Program,
                "print(7)\nprint(8)\n",
                ">>> ",
                "print(7)\r\n7\r\n>>> print(8)\r\n8\r\n>>> ",
                "7\r\n8\r\n>>> ",
            ),
            // The prompt is written again with each key.
            (Program, "1+1\n", "> ", "\u{1b}[1G\u{1b}[0J> 1+1\u{1b}[6G\r\n2\r\n> ", "2\r\n> "),
            (Program, "ls\n", "root@vm:/# ", "ls\r\n\u{1b}[?2004l\ra\r\n", "\u{1b}[?2004l\ra\r\n"),
            // Typed ahead: the terminal echoes, and then the line editor.
            (Terminal, "ls\n", "", "ls\r\nvm# ls\r\na\r\nvm# ", "a\r\nvm# "),
            // A line editor wraps a long line.
            (Program, "aaaa bbbb\n", "> ", "aaaa \rbbbb\r\nok\r\n", "ok\r\n"),
            (Terminal, "\u{3}", "", "^Ccaught\r\n", "caught\r\n"),
            (Program, "y", "Sure? ", "y\r\nDone\r\n", "\r\nDone\r\n"),
            (Program, "y", "Sure? ", "yes\r\n", "yes\r\n"),
            (Terminal, "\n", "", "\r\nnext\r\n", "next\r\n"),
            (Program, "print(5)\n\n", ">>> ", "print(5)\r\n5\r\n>>> \r\n>>> ", "5\r\n>>> "),
            (Program, "q", "", "other\r\n", "other\r\n"),
            (Off, "hello\n", "", "hello\r\n", "hello\r\n"),
        ] {
            let echo = TypedEcho::new(typed.as_bytes(), mode, prompt);
            let located = echo.locate(output.as_bytes());
            let rest = remove_lines(&output[located.leading_bytes..], &located.later_lines);
            assert_eq!(rest, expected, "{typed:?} {output:?}");
        }
    }

    #[test]
    fn the_leading_echo_has_a_length() {
        let echo = TypedEcho::new(b"a\nb\n", EchoMode::Terminal, "");
        for (output, expected) in
            [("a\r\nb\r\nrest", 6), ("a\r\nother\r\n> b\r\n", 3), ("other\r\n", 0)]
        {
            assert_eq!(echo.locate(output.as_bytes()).leading_bytes, expected, "{output:?}");
        }
    }

    #[test]
    fn places_are_those_of_bytes() {
        let echo = TypedEcho::new(b"x\n", EchoMode::Program, "Pr\u{e9}nom: ");
        let utf8 = "\rPr\u{e9}nom: x\r\nfin \u{e9}".as_bytes();
        assert_eq!(echo.locate(utf8).leading_bytes, 13);
        assert_eq!(echo.locate(&utf8[..utf8.len() - 1]).leading_bytes, 13, "half a character");
        let echo = TypedEcho::new(b"x\n", EchoMode::Program, "Pr\u{fffd}nom: ");
        assert_eq!(echo.locate(b"\rPr\xe9nom: x\r\nfin"), LocatedEcho::default());
    }

    #[test]
    fn terminal_codes_are_not_visible() {
        for (output, expected) in [
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}$ ", "$"),
            ("\u{1b}]0;title\u{1b}\\$ ", "$"),
            ("\u{1b}]8;;http://a.b\u{1b}\\link\u{1b}]8;;\u{1b}\\ end", "linkend"),
            ("\u{1b}]0;title\u{1b}[1mbold", "bold"),
            ("\u{1b}]0;unfinished", ""),
            ("\u{1b}(B\u{1b}[mtext", "text"),
            ("\u{1b})0text", "text"),
            ("\u{1b}=\u{1b}>text", "text"),
            ("\u{1b}(", ""),
            ("\u{1b}", ""),
            ("a \u{8}b\r\n", "ab"),
        ] {
            assert_eq!(visible(output), expected, "{output:?}");
        }
    }

    #[test]
    fn the_echo_of_very_long_text_is_not_looked_for() {
        let lines = |count: usize| "a\r\n".repeat(count);
        for (typed, expected) in [
            ("a\n".repeat(MAX_TYPED_LINES - 1), 3 * (MAX_TYPED_LINES - 1)),
            ("a\n".repeat(MAX_TYPED_LINES), 0),
            ("a".repeat(ECHO_BYTES + 1), 0),
        ] {
            let echo = TypedEcho::new(typed.as_bytes(), EchoMode::Terminal, "");
            let located = echo.locate(lines(MAX_TYPED_LINES - 1).as_bytes());
            assert_eq!(located.leading_bytes, expected, "{} bytes", typed.len());
        }
    }

    #[test]
    fn the_cost_of_a_search_is_that_of_a_few_passes_over_the_output() {
        use std::time::{Duration, Instant};
        // The fastest of a few runs: other work of the machine makes some of them slower.
        fn measure(run: impl Fn()) -> Duration {
            let runs = (0..4).map(|_| {
                let began = Instant::now();
                run();
                began.elapsed()
            });
            runs.min().unwrap_or_default()
        }
        let output = format!("{}\n", "y".repeat(120)).repeat(ECHO_BYTES / 121);
        let pass = measure(|| assert!(!visible(&output).is_empty()));
        let absent: String = (1..MAX_TYPED_LINES).map(|line| format!("x{line}\n")).collect();
        let unfinished = "y".repeat(output.len() - output.len() / 50);
        for typed in [absent, unfinished] {
            let echo = TypedEcho::new(typed.as_bytes(), EchoMode::Terminal, "> ");
            let search = measure(|| assert!(echo.has_more_in(&output)));
            assert!(search < 60 * pass, "{search:?} for a search, {pass:?} for a pass");
        }
    }

    #[test]
    fn only_more_than_the_echo_is_a_reaction() {
        let echo = TypedEcho::new(b"sleep 1\n", EchoMode::Program, "$ ");
        assert!(!echo.has_more_in("sleep 1\r\n\u{1b}[?2004l\r"));
        assert!(echo.has_more_in("sleep 1\r\n\u{1b}[?2004l\r$ "));
        assert!(TypedEcho::default().has_more_in("x"));
    }

    #[test]
    fn a_line_that_is_echoed_is_recognised_before_it_is_complete() {
        let echo = TypedEcho::new(b"print('ready')\n", EchoMode::Program, ">>> ");
        for output in ["p", "print('rea", "print('ready')", "print('ready')\r"] {
            assert!(echo.ends(output), "{output}");
        }
        for output in ["", "other", "print('ready')\r\nready", "print('ready')\r\nprint('ready')"] {
            assert!(!echo.ends(output), "{output}");
        }
    }
}
