//! `run_command`: runs a command and replies when it has ended or the wait is over.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::call::{
    CallTurn, CancelEffect, CancelIntent, LongRuns, ToolCall, ToolResponse, WaitEnd,
};
use super::wait_jobs::{
    JobWait, PORT, QUIET, UNTIL, WaitConditions, WaitEvent, WaitMode, wait_for_jobs,
};
use crate::confinement::SandboxProfile;
use crate::mcp::approvals::submit;
use crate::mcp::args::{ArgError, ArgKind, ArgSpec, Args, ToolEffect, ToolSpec};
use crate::mcp::reply::{
    AnswerReason, JobSnapshot, NewOutput, PortStatus, ShownOutput, TimedOutWait, TokenBudget,
    ToolError, ToolReply, hint_after_job, hint_missing_command, hint_reused_key, show,
};
use crate::outcome::StopBy;
use crate::service::{
    Bound, ConfinementTerms, JobHandle, JobInput, LimitTerms, NetworkRule, StopRequest, Submission,
    TenantClient,
};
use crate::spec::{CallMode, JobProgram, LargeOutput, Priority, Stdin, StreamMode};

/// The wait for a background job to start.
const START_WAIT: Duration = Duration::from_secs(1);

/// The wait for the end of a job that is stopped with its call: shorter than the time that a
/// closing connection waits for its last replies.
const STOP_WAIT: Duration = Duration::from_millis(200);

pub(in crate::mcp) const SPEC: ToolSpec = ToolSpec {
    name: "run_command",
    about: "Runs a shell command as a job; each call starts in the default directory with a \
            fresh environment. Answers when it ends or waits for input; when a line matches \
            until, the TCP port listens, or quiet_s pass without output (servers); or after \
            wait_s: then use wait_jobs, do not poll. Standard input is closed, except with stdin, \
            tty, until, port, quiet_s or wait_s=0.",
    effect: ToolEffect::Runs,
    fields: &[
        ArgSpec::required("command", ArgKind::Text, "Shell command line; with args: the program"),
        ArgSpec::optional("args", ArgKind::Texts, "Arguments, without a shell"),
        ArgSpec::optional("cwd", ArgKind::Text, ""),
        ArgSpec::optional("env", ArgKind::Pairs, ""),
        ArgSpec::with_empty("stdin", ArgKind::Text, ""),
        ArgSpec::with_empty(
            "wait_s",
            ArgKind::Seconds,
            "Wait at most (default 30); 0: in the background",
        ),
        UNTIL,
        PORT,
        QUIET,
        ArgSpec::optional("timeout_s", ArgKind::Seconds, "Then the process tree is killed"),
        ArgSpec::optional("description", ArgKind::Text, "Shown in lists"),
        ArgSpec::optional("lane", ArgKind::Text, "Queue lane"),
        ArgSpec::optional("priority", ArgKind::Choice(&["low", "normal", "high"]), ""),
        ArgSpec::optional("tty", ArgKind::Flag, "Run in a terminal"),
        ArgSpec::optional(
            "streams",
            ArgKind::Choice(&["merged", "separate"]),
            "separate: stdout and stderr apart, not in order",
        ),
        ArgSpec::optional(
            "on_large_output",
            ArgKind::Choice(&["spill", "truncate", "error"]),
            "Keep all, keep both ends, or stop",
        ),
        ArgSpec::optional(
            "confinement",
            ArgKind::Choice(&["none", "default", "workspace-write", "read-only"]),
            "",
        ),
        ArgSpec::optional("network", ArgKind::Choice(&["on", "off"]), ""),
        ArgSpec::optional(
            "limits",
            ArgKind::Object,
            "memory (2 GB), cpu_s, processes, open_files, file_size, nice",
        ),
        ArgSpec::optional("key", ArgKind::Text, "Same key, same job: a retry runs nothing twice"),
        ArgSpec::optional(TokenBudget::ARGUMENT, ArgKind::Whole, "Of the answer, from 500"),
    ],
};

pub(in crate::mcp) async fn call(
    call: ToolCall<'_>,
    args: Args,
) -> Result<ToolResponse, ToolError> {
    let called = Instant::now();
    let RunCommandArgs { submission, typed, wait, conditions } = RunCommandArgs::read(args)?;
    let key = submission.key.clone();
    // Checked before the job exists: afterwards it might be the job that listens.
    let port = conditions.check_port(call.client).await;
    // A call that does not wait wants to know the number of its job, and nothing more.
    let waits_for_job = !call.wait_limit(wait).is_zero();
    let long_runs = if waits_for_job { call.long_runs } else { LongRuns::AnswerNow };
    let call = ToolCall { long_runs, ..call };
    let job = match submit(call, submission).await? {
        ControlFlow::Continue(job) => job,
        ControlFlow::Break(response) => return Ok(response),
    };
    CallTurn::end(call.request);
    // The key may have returned a job that an earlier call started.
    let is_ours = job.status().submitted >= called;
    if let Some(text) = typed.filter(|_| is_ours) {
        tokio::spawn(type_in(job.clone(), text));
    }
    // Approval may have used up part of the wait.
    let limit = call.wait_limit(wait).min(call.max_wait().saturating_sub(called.elapsed()));
    if limit.is_zero() || port == Some(PortStatus::Already) {
        wait_for_start(call.client, &job).await;
    }
    let waits = [JobWait::for_started(&job)];
    let ended = wait_for_jobs(call, &waits, WaitMode::Any, &conditions, port, limit).await;
    match ended.end {
        WaitEnd::Over if call.long_runs == LongRuns::BecomeTasks => {
            return Ok(ToolResponse::Task(job));
        }
        WaitEnd::Cancelled(intent) if is_ours && waits_for_job => {
            end_call(call, &job, intent).await?;
        }
        WaitEnd::Done(_) | WaitEnd::Over | WaitEnd::Cancelled(_) => {}
    }
    let reason = match ended.end {
        WaitEnd::Over => AnswerReason::WaitOver(TimedOutWait {
            cut: call.cut_wait(wait),
            conditions: conditions.arguments(),
            ..TimedOutWait::default()
        }),
        // The job did not exist when the port was taken.
        WaitEnd::Done(_) if port == Some(PortStatus::Already) => AnswerReason::JobState,
        WaitEnd::Done(_) | WaitEnd::Cancelled(_) => ended.reason(&waits),
    };
    let facts = CallFacts {
        reused_key: key.filter(|_| !is_ours),
        event: ended.event(0),
        port: conditions.port.zip(ended.port),
        reason,
    };
    reply_about_job(call, &job, &facts).await.map(ToolResponse::Reply)
}

/// The facts about a call that its reply states beside the state of its job.
#[derive(Debug, Default)]
pub(crate) struct CallFacts {
    /// The key that named a job of an earlier call.
    reused_key: Option<String>,
    /// The event that ended the wait.
    event: Option<WaitEvent>,
    /// The port that the call named.
    port: Option<(u16, PortStatus)>,
    reason: AnswerReason,
}

/// Stops the job of a cancelled call, unless the job goes on without the call.
async fn end_call(
    call: ToolCall<'_>,
    job: &JobHandle,
    intent: CancelIntent,
) -> Result<(), ToolError> {
    match call.cancel_effect(intent, job) {
        CancelEffect::JobGoesOn => {}
        CancelEffect::JobEnds => {
            let stop_request = StopRequest { by: StopBy::Cancel, signal: None, grace: None };
            call.client.stop(job.id(), stop_request).await?;
            // If the client still reads the reply, it shows the end of the job.
            tokio::time::timeout(STOP_WAIT, job.finished()).await.ok();
        }
    }
    Ok(())
}

/// Builds the reply about a job now. It shows the output from the start: whoever calls again with
/// the same key has probably not got the first reply.
pub(crate) async fn reply_about_job(
    call: ToolCall<'_>,
    job: &JobHandle,
    facts: &CallFacts,
) -> Result<ToolReply, ToolError> {
    let now = call.snapshot(job).await;
    let reused = facts.reused_key.as_deref();
    let matched_line = facts.event.and_then(WaitEvent::line);
    let complete = |reply: ToolReply| {
        reply.with_sign(facts.event.and_then(WaitEvent::sign)).with_port(facts.port)
    };
    let mut fitter = call.fitter(&complete(call.job_reply(&now, None)));
    loop {
        let new = NewOutput { from: 0, matched_line };
        let shown = show(&now, job.output(), new, fitter.excerpt_budget()).await?;
        let suggestion = match reused {
            Some(_) => None,
            None => hint_if_not_found(call.client, job, &now, shown.as_ref()).await,
        };
        let seen = shown.as_ref().map(ShownOutput::seen_ranges);
        let next = suggestion.or_else(|| hint_after_job(&now, shown.as_ref(), &facts.reason));
        let hint = match reused {
            Some(key) => Some(hint_reused_key(key, next.as_deref())),
            None => next,
        };
        let reply = call.job_reply(&now, shown).with_hint(hint);
        if let Some(reply) = fitter.accept(complete(reply)) {
            if let Some(seen) = seen {
                call.mark_shown(now.job, seen);
            }
            if let Some(WaitEvent::Line(matched)) = facts.event {
                call.skip_search(now.job, matched.end);
            }
            return Ok(reply);
        }
    }
}

/// Explains why the command was not found, if that is how the job ended.
async fn hint_if_not_found(
    client: &TenantClient,
    job: &JobHandle,
    now: &JobSnapshot,
    shown: Option<&ShownOutput>,
) -> Option<String> {
    let output = shown.map_or("", |shown| &shown.text);
    let missing = client.explain_missing_command(job, now.ending()?, output).await?;
    Some(hint_missing_command(&missing))
}

struct RunCommandArgs {
    submission: Submission,
    /// Text to type into the terminal.
    typed: Option<String>,
    wait: Option<Duration>,
    conditions: WaitConditions,
}

impl RunCommandArgs {
    fn read(mut args: Args) -> Result<Self, ToolError> {
        let command = args.text("command")?.unwrap_or_default();
        let wait = args.seconds("wait_s")?;
        let conditions = WaitConditions::read(&mut args)?;
        let job = match wait {
            Some(Duration::ZERO) => AfterReply::GoesOn,
            Some(_) | None if conditions.is_empty() => AfterReply::HasEnded,
            Some(_) | None => AfterReply::GoesOn,
        };
        let (stdin, typed) = choose_stdin(args.text("stdin")?, args.flag("tty")?, job);
        let streams = args.choice("streams", &StreamMode::WORDS)?;
        if stdin == Stdin::Terminal && streams == Some(StreamMode::Separate) {
            return Err(ArgError::Conflict(
                "a terminal has only one stream; leave `tty` or `streams` out",
            )
            .into());
        }
        let program = match args.texts("args")? {
            None => JobProgram::Shell(command),
            Some(args) => JobProgram::Direct { program: command, args },
        };
        let submission = Submission {
            cwd: args.text("cwd")?.map(Into::into),
            env: args.pairs("env")?,
            stdin,
            streams,
            timeout: args.seconds("timeout_s")?,
            on_large_output: args.choice("on_large_output", &LargeOutput::WORDS)?,
            description: args.text("description")?,
            lane: args.text("lane")?,
            priority: args.choice("priority", &Priority::WORDS)?,
            call_mode: match wait {
                Some(Duration::ZERO) => CallMode::Background,
                Some(_) | None => CallMode::Foreground,
            },
            confinement: read_terms(&mut args)?,
            key: args.text("key")?,
            ..Submission::new(program)
        };
        Ok(Self { submission, typed, wait, conditions })
    }
}

/// The state of a job after the reply to its call, as far as the arguments tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterReply {
    HasEnded,
    /// The call does not wait, or it waits for something else than the end of the job.
    GoesOn,
}

/// Returns the job's standard input, and the text to type into its terminal. Only a job that goes
/// on after the reply keeps its input open: a job that the call waits for would wait for input that
/// nobody can send.
fn choose_stdin(text: Option<String>, tty: bool, job: AfterReply) -> (Stdin, Option<String>) {
    match (text, job) {
        (text, _) if tty => (Stdin::Terminal, text),
        (Some(text), _) => (Stdin::Text(text), None),
        (None, AfterReply::GoesOn) => (Stdin::Open, None),
        (None, AfterReply::HasEnded) => (Stdin::Closed, None),
    }
}

/// If the job is not in the queue, waits at most `START_WAIT` until it runs or has ended.
async fn wait_for_start(client: &TenantClient, job: &JobHandle) {
    if client.queue_position(job.id()).await.is_none() {
        // If the host is too slow, the reply says that the job is starting.
        tokio::time::timeout(START_WAIT, job.started()).await.ok();
    }
}

/// Types `text` into a job's terminal once it runs.
pub(in crate::mcp) async fn type_in(job: JobHandle, text: String) {
    job.started().await;
    let input = JobInput { bytes: text.into_bytes(), ..JobInput::default() };
    // A job that has already ended needs no input.
    job.send_input(input).await.ok();
}

/// The fields of `limits`. A limit of zero is an error, or the value that was meant (`nice`).
const LIMITS: [ArgSpec; 6] = [
    ArgSpec::optional("memory", ArgKind::Text, ""),
    ArgSpec::with_empty("cpu_s", ArgKind::Seconds, ""),
    ArgSpec::with_empty("processes", ArgKind::Whole, ""),
    ArgSpec::with_empty("open_files", ArgKind::Whole, ""),
    ArgSpec::optional("file_size", ArgKind::Text, ""),
    ArgSpec::with_empty("nice", ArgKind::Whole, ""),
];

/// Reads the arguments about the sandbox.
pub(in crate::mcp) fn read_terms(args: &mut Args) -> Result<ConfinementTerms, ArgError> {
    Ok(ConfinementTerms {
        profile: args.choice("confinement", &SandboxProfile::WORDS)?,
        network: args.choice("network", &NetworkRule::WORDS)?,
        limits: match args.object("limits")? {
            None => LimitTerms::NOTHING,
            Some(limits) => read_limits(Args::new(Some(limits), &LIMITS)?)?,
        },
    })
}

fn read_limits(mut args: Args) -> Result<LimitTerms, ArgError> {
    const ANY: std::ops::RangeInclusive<u64> = 1..=u64::MAX;
    Ok(LimitTerms {
        memory: read_memory(&mut args)?.map(Bound::AtMost),
        cpu: args.seconds("cpu_s")?.map(Bound::AtMost),
        processes: args.whole("processes", ANY)?.map(Bound::AtMost),
        open_files: args.whole("open_files", ANY)?.map(Bound::AtMost),
        file_size: args.size("file_size")?.map(Bound::AtMost),
        nice: args.whole("nice", 0..=19)?.and_then(|nice| u8::try_from(nice).ok()),
    })
}

/// No program runs with less memory: a smaller number was written without its unit.
const MIN_MEMORY: u64 = 1 << 20;

fn read_memory(args: &mut Args) -> Result<Option<u64>, ArgError> {
    match args.size("memory")? {
        Some(bytes) if bytes < MIN_MEMORY => Err(ArgError::NotAllowed {
            name: "memory",
            allowed: "a size with its unit, such as \"200 MB\"".to_owned(),
            given: format!("{bytes} bytes"),
        }),
        memory => Ok(memory),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn parse_args(given: Value) -> RunCommandArgs {
        RunCommandArgs::read(Args::new(given.as_object().cloned(), SPEC.fields).unwrap()).unwrap()
    }

    #[test]
    fn standard_input_depends_on_the_arguments() {
        for (given, expected, typed) in [
            (json!({"command": "x"}), Stdin::Closed, None),
            (json!({"command": "x", "wait_s": 5}), Stdin::Closed, None),
            (json!({"command": "x", "wait_s": 0}), Stdin::Open, None),
            (json!({"command": "x", "until": "ready"}), Stdin::Open, None),
            (json!({"command": "x", "port": 80}), Stdin::Open, None),
            (json!({"command": "x", "quiet_s": 1, "stdin": "hi"}), Stdin::Text("hi".into()), None),
            (json!({"command": "x", "stdin": "hi"}), Stdin::Text("hi".into()), None),
            (json!({"command": "x", "stdin": "hi", "wait_s": 0}), Stdin::Text("hi".into()), None),
            (json!({"command": "x", "tty": true}), Stdin::Terminal, None),
            (json!({"command": "x", "tty": true, "stdin": "hi"}), Stdin::Terminal, Some("hi")),
        ] {
            let args = parse_args(given.clone());
            assert_eq!(args.submission.stdin, expected, "{given}");
            assert_eq!(args.typed.as_deref(), typed, "{given}");
        }
    }

    #[test]
    fn a_command_with_args_runs_without_a_shell() {
        assert_eq!(
            parse_args(json!({"command": "ls -l"})).submission.program,
            JobProgram::Shell("ls -l".into())
        );
        assert_eq!(
            parse_args(json!({"command": "ls", "args": ["-l"]})).submission.program,
            JobProgram::Direct { program: "ls".into(), args: vec!["-l".into()] }
        );
    }

    #[test]
    fn empty_arguments_change_nothing() {
        let plain = parse_args(json!({"command": "echo a; echo b"}));
        let filled = parse_args(json!({
            "command": "echo a; echo b", "args": [], "cwd": "", "env": {}, "timeout_s": 0,
            "description": "", "lane": "", "priority": "", "tty": false, "on_large_output": "",
            "confinement": "", "network": "", "limits": {}, "key": "", "max_tokens": 0,
        }));
        assert_eq!(format!("{:?}", filled.submission), format!("{:?}", plain.submission));
        assert_eq!((filled.typed, filled.wait), (plain.typed, plain.wait));
    }

    const FIELDS: [ArgSpec; 3] = [
        ArgSpec::optional("confinement", ArgKind::Text, ""),
        ArgSpec::optional("network", ArgKind::Text, ""),
        ArgSpec::optional("limits", ArgKind::Object, ""),
    ];

    fn read(given: &Value) -> Result<ConfinementTerms, ArgError> {
        read_terms(&mut Args::new(given.as_object().cloned(), &FIELDS).unwrap())
    }

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        let limits = json!({"memory": "2 GB", "file_size": 4096, "cpu_s": 1.5, "nice": "3"});
        let terms = read(&json!({"confinement": "read-only", "limits": limits})).unwrap();
        let limits = LimitTerms {
            memory: Some(Bound::AtMost(2_000_000_000)),
            file_size: Some(Bound::AtMost(4096)),
            cpu: Some(Bound::AtMost(Duration::from_millis(1500))),
            nice: Some(3),
            ..LimitTerms::NOTHING
        };
        let profile = Some(SandboxProfile::ReadOnly);
        assert_eq!(terms, ConfinementTerms { profile, network: None, limits });
        assert_eq!(read(&json!({})).unwrap(), ConfinementTerms::NOTHING);
    }

    #[test]
    fn an_invalid_limit_is_refused_by_name() {
        for (given, words) in [
            (json!({"confinement": "jail"}), "read-only"),
            (json!({"network": "auto"}), "one of on, off"),
            (json!({"limits": 5}), "limits"),
            (json!({"limits": {"memroy": 5}}), "`memory`"),
            (json!({"limits": {"memory": "lots"}}), "2 GB"),
            (json!({"limits": {"memory": 0}}), "memory"),
            (json!({"limits": {"memory": 200}}), "\"200 MB\""),
            (json!({"limits": {"processes": 0}}), "at least 1"),
            (json!({"limits": {"nice": 20}}), "from 0 to 19"),
        ] {
            let error = read(&given).unwrap_err().to_string();
            assert!(error.contains(words), "{given}: {error}");
        }
    }
}
