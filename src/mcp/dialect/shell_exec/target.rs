//! Which run a call is about: a new one, or the one that its cursor names.

use super::error::ExecError;
use super::wish::{Large, Place, Wish};
use crate::mcp::dialect::run::{submit, to_its_end};
use crate::mcp::reply::progress_line;
use crate::mcp::tools::Call;
use crate::mcp::turn::Turn;
use crate::mcp::wait::{WaitEnd, wait_for};
use crate::outcome::{Ending, Outcome, StopBy};
use crate::output::LogReader;
use crate::spec::Stream;
use crate::yard::{JobHandle, StopWish};

/// A run that has ended, and how.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) job: JobHandle,
    pub(super) ending: Ending,
}

/// The run that a call is about, at its end. Nothing is run where there is one already.
pub(super) async fn target(call: Call<'_>, wish: &Wish) -> Result<Run, ExecError> {
    match wish.cursor {
        None => run(call, wish).await,
        Some(place) => match earlier(call, wish, place).await? {
            Some(job) => {
                Turn::end(call.request);
                at_its_end(call, job).await
            }
            None => run(call, wish).await,
        },
    }
}

/// The run that a cursor reads on in. The very start of a command that never ran is where every
/// run begins, and names none.
async fn earlier(
    call: Call<'_>,
    wish: &Wish,
    Place { offset, given }: Place,
) -> Result<Option<JobHandle>, ExecError> {
    let mut same = call.desk.list_like(&wish.submission).await?.into_iter();
    match given.job {
        None => match same.find(has_run) {
            None if offset > 0 => Err(ExecError::NeverRan(given)),
            latest => Ok(latest),
        },
        Some(number) => {
            let id = call.desk.job(number);
            match same.find(|job| job.id() == id) {
                Some(job) => Ok(Some(job)),
                None if call.desk.find(id).await.is_ok() => Err(ExecError::OtherCommand(given)),
                None => Err(ExecError::UnknownRun(given)),
            }
        }
    }
}

/// Whether there is a run to read on in: one that could not start, or that its caller gave up, is
/// none.
fn has_run(job: &JobHandle) -> bool {
    job.status().ending().is_none_or(|ending| match ending.outcome {
        Outcome::FailedToStart(_) | Outcome::Stopped { by: StopBy::Cancel } => false,
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Stopped { by: StopBy::Client | StopBy::Shutdown }
        | Outcome::Limit { .. }
        | Outcome::Lost { .. } => true,
    })
}

async fn run(call: Call<'_>, wish: &Wish) -> Result<Run, ExecError> {
    let job = submit(call, wish.submission.clone()).await?;
    let ending = match wish.large {
        Large::Error => {
            let guard = stop_when_large(&job, wish.limits.bytes as u64);
            tokio::join!(to_its_end(call, &job), guard).0
        }
        Large::Spill | Large::SpillAlways | Large::Truncate => to_its_end(call, &job).await,
    };
    Ok(Run { job, ending })
}

/// Waits for a run that another call may still wait for: giving up does not end it.
async fn at_its_end(call: Call<'_>, job: JobHandle) -> Result<Run, ExecError> {
    let limit = call.desk.max_timeout();
    match wait_for(call, limit, job.finished(), || progress_line([&job])).await {
        WaitEnd::Done(ending) => Ok(Run { job, ending }),
        WaitEnd::Over => Err(ExecError::StillRuns(limit)),
        WaitEnd::Cancelled => Err(ExecError::Cancelled),
    }
}

/// Ends a job that writes more than it may; returns when the job has ended or is told to.
async fn stop_when_large(job: &JobHandle, limit: u64) {
    tokio::select! {
        _ = job.finished() => {}
        () = exceeded(job.output(), limit) => {
            job.stop(StopWish { by: StopBy::Client, signal: None, grace: None });
        }
    }
}

/// Whether either stream has more than `limit` bytes.
pub(super) fn is_large(log: &LogReader, limit: u64) -> bool {
    let progress = log.progress();
    [Stream::Stdout, Stream::Stderr].iter().any(|stream| progress.bytes_of(Some(*stream)) > limit)
}

/// Returns once either stream has more than `limit` bytes; never, if none ever has.
async fn exceeded(log: &LogReader, limit: u64) {
    loop {
        let progress = log.progress();
        if is_large(log, limit) {
            return;
        }
        if progress.closed {
            return std::future::pending().await;
        }
        log.wait_past(progress.total_bytes).await;
    }
}
