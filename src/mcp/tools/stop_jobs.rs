//! `stop_jobs`: ends the whole tree of each job, and tells what came of it.

use std::future::ready;
use std::time::Duration;

use futures_util::future::join_all;

use super::call::Call;
use super::call::wait_for;
use crate::ids::JobId;
use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::{Answer, Part, ToolError, wait_for_jobs};
use crate::mcp::schema::{Effect, Field, Kind, ToolSpec};
use crate::outcome::{StopBy, signal_name};
use crate::service::{FindError, JobHandle, StopWish};

/// What the end of a tree may take after SIGKILL.
const AFTER_KILL: Duration = Duration::from_secs(2);

/// How often a job that is over is asked whether its last processes are gone.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(in crate::mcp) const SPEC: ToolSpec = ToolSpec {
    name: "stop_jobs",
    about: "Ends jobs with their whole process trees: the signal, then SIGKILL after grace_s. \
            Answers with what became of each. Their output stays readable.",
    effect: Effect::Ends,
    fields: &[
        Field::required("jobs", Kind::Jobs, ""),
        Field::optional("signal", Kind::Text, "First signal (default SIGTERM)"),
        Field::optional("grace_s", Kind::Seconds, ""),
    ],
};

pub(in crate::mcp) async fn call(call: Call<'_>, mut args: Args) -> Result<Answer, ToolError> {
    let jobs = args.jobs("jobs")?;
    if jobs.is_empty() {
        return Err(ArgError::Conflict("`jobs` is empty; name at least one, such as [12]").into());
    }
    let signal = args.text_or_number("signal")?.as_deref().map(signal).transpose()?;
    let wish = StopWish { by: StopBy::Client, signal, grace: args.seconds("grace_s")? };
    let mut stopped = Vec::new();
    let mut missing = Vec::new();
    for job in jobs {
        match stop(call, call.client.job(job), wish).await {
            Ok(job) => stopped.push(job),
            Err(unknown) => missing.push(Part::missing(&unknown)),
        }
    }
    if stopped.is_empty() {
        return Ok(Answer::several(None, missing).failed());
    }
    let grace = stopped.iter().map(|it| wish.grace.unwrap_or(it.job.spec().limits.grace)).max();
    let limit = call.wait(Some(grace.unwrap_or_default() + AFTER_KILL));
    let all_gone = join_all(stopped.iter().map(|it| gone(&it.job)));
    wait_for(call, limit, all_gone, || ready("stopping".to_owned())).await;
    let mut parts = Vec::new();
    let mut open = Vec::new();
    for Stopped { job, lingering } in &stopped {
        let now = call.look(job).await;
        if now.ending().is_none() {
            open.push(now.job);
        }
        let ended = lingering.saturating_sub(now.survivors.len());
        parts.push(Part::job(&now, None).with_ended(ended));
    }
    parts.extend(missing);
    Ok(Answer::several(None, parts).with_hint(wait_for_jobs(&open)))
}

/// A job whose end was asked for.
struct Stopped {
    job: JobHandle,
    /// Processes that had outlived it by then.
    lingering: usize,
}

async fn stop(call: Call<'_>, job: JobId, wish: StopWish) -> Result<Stopped, FindError> {
    // Before the stop: afterwards they may be gone.
    let lingering = call.client.find(job).await?.survivors().len();
    Ok(Stopped { job: call.client.stop(job, wish).await?, lingering })
}

/// Returns once the job has ended and nothing of its tree is left.
async fn gone(job: &JobHandle) {
    job.finished().await;
    while !job.survivors().is_empty() {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// A signal by its number, or by its name with or without `SIG`.
fn signal(given: &str) -> Result<i32, ArgError> {
    const LAST: i32 = 64;
    let wanted = given.trim().to_ascii_uppercase();
    let named = |number: &i32| {
        let name = signal_name(*number);
        name == wanted || name.strip_prefix("SIG") == Some(wanted.as_str())
    };
    let number = wanted.parse().ok().filter(|number| (1..=LAST).contains(number));
    number.or_else(|| (1..=LAST).find(named)).ok_or_else(|| ArgError::NotAllowed {
        name: "signal",
        allowed: "a signal such as SIGINT, TERM or 9".to_owned(),
        given: format!("{:?}", given.chars().take(40).collect::<String>()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_named_in_any_usual_way() {
        for (given, number) in [
            ("SIGINT", 2),
            ("INT", 2),
            ("int", 2),
            ("2", 2),
            ("sigkill", 9),
            ("64", 64),
            (" TERM ", 15),
        ] {
            assert_eq!(signal(given).unwrap(), number, "{given}");
        }
        for given in ["", "0", "65", "-9", "SIGWHAT", "SIG"] {
            assert!(signal(given).is_err(), "{given}");
        }
    }
}
