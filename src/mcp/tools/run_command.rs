//! `run_command`: runs a command, and answers when it ended or when the wait is over.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::call::{Call, Response, Turn, WaitEnd, wait_for};
use crate::confinement::SandboxProfile;
use crate::mcp::approvals::submit;
use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::{Answer, Shown, TokenBudget, ToolError, progress_line, reused_key, show};
use crate::mcp::schema::{Effect, Field, Kind, ToolSpec};
use crate::mcp::snapshot::Snapshot;
use crate::outcome::StopBy;
use crate::service::{
    Bound, ConfinementTerms, Input, JobHandle, LimitTerms, NetworkRule, StopWish, Submission,
    TenantClient,
};
use crate::spec::{JobProgram, LargeOutput, Priority, Stdin};

/// How long a job in the background gets to start before the call answers.
const START: Duration = Duration::from_secs(1);

/// What a job that is stopped with its call gets to end before the call answers: less than a
/// connection that ends waits for its last answers.
const LAST_LOOK: Duration = Duration::from_millis(200);

pub(in crate::mcp) const SPEC: ToolSpec = ToolSpec {
    name: "run_command",
    about: "Runs a shell command as a job. Answers when it ends, or after wait_s while it goes on \
            as a job; then use wait_jobs, do not poll. All output is kept: read_output. Standard \
            input is closed, unless stdin is given, tty is true, or wait_s is 0 (then send_input \
            works).",
    effect: Effect::Runs,
    fields: &[
        Field::required("command", Kind::Text, "Shell command line; with args: the program"),
        Field::optional("args", Kind::Texts, "Arguments, without a shell"),
        Field::optional("cwd", Kind::Text, "Working directory"),
        Field::optional("env", Kind::Pairs, "Variables"),
        Field::optional("stdin", Kind::Text, "Text for standard input"),
        Field::optional("wait_s", Kind::Seconds, "Wait at most (default 30); 0: in the background"),
        Field::optional("timeout_s", Kind::Seconds, "Deadline: then the process tree is killed"),
        Field::optional("description", Kind::Text, "Shown in lists"),
        Field::optional("lane", Kind::Text, "Queue lane"),
        Field::optional("priority", Kind::Choice(&["low", "normal", "high"]), ""),
        Field::optional("tty", Kind::Flag, "Run in a terminal"),
        Field::optional(
            "on_large_output",
            Kind::Choice(&["spill", "truncate", "error"]),
            "Keep all, keep both ends, or stop",
        ),
        Field::optional(
            "confinement",
            Kind::Choice(&["none", "default", "workspace-write", "read-only"]),
            "",
        ),
        Field::optional("network", Kind::Choice(&["on", "off"]), ""),
        Field::optional(
            "limits",
            Kind::Object,
            "memory (2 GB), cpu_s, processes, open_files, file_size, nice",
        ),
        Field::optional("key", Kind::Text, "Same key, same job: a retry runs nothing twice"),
        Field::optional("max_tokens", Kind::From(*TokenBudget::BOUNDS.start()), "Of the answer"),
    ],
};

pub(in crate::mcp) async fn call(call: Call<'_>, args: Args) -> Result<Response, ToolError> {
    let called = Instant::now();
    let Wish { submission, typed, wait } = Wish::read(args)?;
    let key = submission.key.clone();
    // A call that would not wait for longer needs no task.
    let task_after = call.task_after.filter(|grace| *grace < call.wait(wait));
    let call = Call { task_after, ..call };
    let job = match submit(call, submission).await? {
        ControlFlow::Continue(job) => job,
        ControlFlow::Break(response) => return Ok(response),
    };
    Turn::end(call.request);
    // A key may have given back a job that an earlier call started.
    let is_ours = job.status().submitted >= called;
    if let Some(text) = typed.filter(|_| is_ours) {
        tokio::spawn(type_in(job.clone(), text));
    }
    if task_after.is_some_and(|grace| grace.is_zero()) {
        return Ok(Response::Task(job));
    }
    // Whoever was asked has taken some of the client's patience.
    let limit = call.wait(wait).min(call.patience().saturating_sub(called.elapsed()));
    if limit.is_zero() {
        settle(call.client, &job).await;
    } else {
        let patience = task_after.map_or(limit, |grace| grace.min(limit));
        match wait_for(call, patience, job.finished(), || progress_line([&job])).await {
            WaitEnd::Over if task_after.is_some() => return Ok(Response::Task(job)),
            WaitEnd::Cancelled if is_ours && call.settings.cancel_stops_job => {
                let wish = StopWish { by: StopBy::Cancel, signal: None, grace: None };
                call.client.stop(job.id(), wish).await?;
                // Should anybody still read the answer, it tells of the end.
                tokio::time::timeout(LAST_LOOK, job.finished()).await.ok();
            }
            WaitEnd::Done(_) | WaitEnd::Over | WaitEnd::Cancelled => {}
        }
    }
    let reused = key.filter(|_| !is_ours);
    answer_about(call, &job, reused.as_deref()).await.map(Response::Answer)
}

/// What there is to say about a job now; `reused` is the key by which an earlier one was found.
pub(crate) async fn answer_about(
    call: Call<'_>,
    job: &JobHandle,
    reused: Option<&str>,
) -> Result<Answer, ToolError> {
    let now = call.look(job).await;
    let mut fit = call.fit(&call.about(&now, None));
    loop {
        let shown = show(&now, job.output(), fit.excerpt()).await?;
        let meant = match reused {
            Some(_) => None,
            None => did_you_mean(call.client, &now, shown.as_ref()).await,
        };
        let answer = call.about(&now, shown);
        let hint = reused.map(|key| reused_key(key, answer.hint())).or(meant);
        let answer = if hint.is_some() { answer.with_hint(hint) } else { answer };
        if let Some(answer) = fit.settle(answer) {
            return Ok(answer);
        }
    }
}

/// What a command that was not found may have meant.
async fn did_you_mean(
    client: &TenantClient,
    job: &Snapshot,
    shown: Option<&Shown>,
) -> Option<String> {
    let names = client.similar_commands(job.ending()?, shown.map_or("", Shown::text)).await;
    (!names.is_empty()).then(|| format!("did you mean {}?", names.join(", ")))
}

struct Wish {
    submission: Submission,
    /// Text for a job in a terminal.
    typed: Option<String>,
    wait: Option<Duration>,
}

impl Wish {
    fn read(mut args: Args) -> Result<Self, ArgError> {
        let command = args.text("command")?.unwrap_or_default();
        let wait = args.seconds("wait_s")?;
        let (stdin, typed) = stdin(args.text("stdin")?, args.flag("tty")?, wait);
        let program = match args.texts("args")? {
            None => JobProgram::Shell(command),
            Some(args) => JobProgram::Direct { program: command, args },
        };
        let submission = Submission {
            cwd: args.text("cwd")?.map(Into::into),
            env: args.pairs("env")?,
            stdin,
            timeout: args.seconds("timeout_s")?,
            on_large_output: args.choice("on_large_output", &LargeOutput::WORDS)?,
            description: args.text("description")?,
            lane: args.text("lane")?,
            priority: args.choice("priority", &Priority::WORDS)?,
            confinement: terms(&mut args)?,
            key: args.text("key")?,
            ..Submission::new(program)
        };
        Ok(Self { submission, typed, wait })
    }
}

/// What a job reads, and what is typed into its terminal. Only a job in the background keeps
/// its input open: one that is waited for would wait for input that nobody can send.
fn stdin(text: Option<String>, tty: bool, wait: Option<Duration>) -> (Stdin, Option<String>) {
    let in_background = wait.is_some_and(|wait| wait.is_zero());
    match text {
        text if tty => (Stdin::Terminal, text),
        Some(text) => (Stdin::Text(text), None),
        None if in_background => (Stdin::Open, None),
        None => (Stdin::Closed, None),
    }
}

/// Waits for what follows at once: the start of a job that need not queue, or its failure.
async fn settle(client: &TenantClient, job: &JobHandle) {
    if client.queue_position(job.id()).await.is_none() {
        // Where the host is too slow for that, the answer says that it is starting.
        tokio::time::timeout(START, job.started()).await.ok();
    }
}

/// Types `text` into a job's terminal once it runs.
async fn type_in(job: JobHandle, text: String) {
    job.started().await;
    let input = Input { bytes: text.into_bytes(), ..Input::default() };
    // A job that has ended by then needs no input.
    job.send_input(input).await.ok();
}

/// What `limits` may hold.
const LIMITS: [Field; 6] = [
    Field::optional("memory", Kind::Text, ""),
    Field::optional("cpu_s", Kind::Seconds, ""),
    Field::optional("processes", Kind::Whole, ""),
    Field::optional("open_files", Kind::Whole, ""),
    Field::optional("file_size", Kind::Text, ""),
    Field::optional("nice", Kind::Whole, ""),
];

/// Takes what a call says about its confinement.
pub(super) fn terms(args: &mut Args) -> Result<ConfinementTerms, ArgError> {
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
        memory: args.size("memory")?.map(Bound::AtMost),
        cpu: args.seconds("cpu_s")?.map(Bound::AtMost),
        processes: args.whole("processes", ANY)?.map(Bound::AtMost),
        open_files: args.whole("open_files", ANY)?.map(Bound::AtMost),
        file_size: args.size("file_size")?.map(Bound::AtMost),
        nice: args.whole("nice", 0..=19)?.and_then(|nice| u8::try_from(nice).ok()),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn wish(given: Value) -> Wish {
        Wish::read(Args::new(given.as_object().cloned(), SPEC.fields).unwrap()).unwrap()
    }

    #[test]
    fn standard_input_follows_from_what_was_asked() {
        for (given, expected, typed) in [
            (json!({"command": "x"}), Stdin::Closed, None),
            (json!({"command": "x", "wait_s": 5}), Stdin::Closed, None),
            (json!({"command": "x", "wait_s": 0}), Stdin::Open, None),
            (json!({"command": "x", "stdin": "hi"}), Stdin::Text("hi".into()), None),
            (json!({"command": "x", "stdin": "hi", "wait_s": 0}), Stdin::Text("hi".into()), None),
            (json!({"command": "x", "tty": true}), Stdin::Terminal, None),
            (json!({"command": "x", "tty": true, "stdin": "hi"}), Stdin::Terminal, Some("hi")),
        ] {
            let wish = wish(given.clone());
            assert_eq!(wish.submission.stdin, expected, "{given}");
            assert_eq!(wish.typed.as_deref(), typed, "{given}");
        }
    }

    #[test]
    fn arguments_of_their_own_mean_no_shell() {
        assert_eq!(
            wish(json!({"command": "ls -l"})).submission.program,
            JobProgram::Shell("ls -l".into())
        );
        assert_eq!(
            wish(json!({"command": "ls", "args": []})).submission.program,
            JobProgram::Direct { program: "ls".into(), args: vec![] }
        );
    }

    const FIELDS: [Field; 3] = [
        Field::optional("confinement", Kind::Text, ""),
        Field::optional("network", Kind::Text, ""),
        Field::optional("limits", Kind::Object, ""),
    ];

    fn read(given: &Value) -> Result<ConfinementTerms, ArgError> {
        terms(&mut Args::new(given.as_object().cloned(), &FIELDS).unwrap())
    }

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        let limits = json!({"memory": "2 GB", "file_size": 4096, "cpu_s": 1.5, "nice": "3"});
        let said = read(&json!({"confinement": "read-only", "limits": limits})).unwrap();
        let limits = LimitTerms {
            memory: Some(Bound::AtMost(2_000_000_000)),
            file_size: Some(Bound::AtMost(4096)),
            cpu: Some(Bound::AtMost(Duration::from_millis(1500))),
            nice: Some(3),
            ..LimitTerms::NOTHING
        };
        let profile = Some(SandboxProfile::ReadOnly);
        assert_eq!(said, ConfinementTerms { profile, network: None, limits });
        assert_eq!(read(&json!({})).unwrap(), ConfinementTerms::NOTHING);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (given, words) in [
            (json!({"confinement": "jail"}), "read-only"),
            (json!({"network": "auto"}), "one of on, off"),
            (json!({"limits": 5}), "limits"),
            (json!({"limits": {"memroy": 5}}), "`memory`"),
            (json!({"limits": {"memory": "lots"}}), "2 GB"),
            (json!({"limits": {"memory": 0}}), "memory"),
            (json!({"limits": {"processes": 0}}), "at least 1"),
            (json!({"limits": {"nice": 20}}), "from 0 to 19"),
        ] {
            let told = read(&given).unwrap_err().to_string();
            assert!(told.contains(words), "{given}: {told}");
        }
    }
}
