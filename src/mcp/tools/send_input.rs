//! `send_input`: sends text, a key press or the end of input to a running job.

use std::future::pending;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::call::{ToolCall, WaitEnd, wait_for};
use super::job_wait::{MatchedLine, UNTIL, WaitConditions, find_first_match};
use super::typed_echo::{ECHO_BYTES, TypedEcho, remove_lines};
use crate::ids::JobNumber;
use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::{
    AnswerReason, EventSign, TimedOutWait, ToolError, ToolReply, hint_after_job, hint_silent_input,
    progress_line, show_from,
};
use crate::mcp::schema::{ArgKind, ArgSpec, ToolEffect, ToolSpec};
use crate::mcp::snapshot::read_last_line;
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
            let is_silent = shown.text().trim().is_empty();
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
}
