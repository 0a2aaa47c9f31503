//! A job as a task: where it stands, and what it has to say.

use std::time::{Duration, Instant};

use rmcp::model::{
    CreateTaskResult, DetailedTask, ErrorCode, ErrorData, GetTaskResult, JsonObject, Task,
    TaskPayload, TaskStatus,
};
use serde::Serialize;
use serde_json::Value;

use super::clock::{Moment, millis};
use super::serve::Named;
use crate::mcp::answering::{answer_of, sent};
use crate::mcp::reply::status_line;
use crate::mcp::snapshot::{Snapshot, State};
use crate::mcp::tools::{Call, answer_about};
use crate::outcome::{Outcome, StopBy};
use crate::yard::JobHandle;

/// A client that looks again sooner learns little.
pub(super) const FIRST_LOOK: Duration = Duration::from_secs(1);
/// Nobody waits longer for news than this.
const LAST_LOOK: Duration = Duration::from_secs(10);

/// The answer to a call that goes on as a task.
pub(in crate::mcp) async fn created(call: Call<'_>, job: &JobHandle) -> CreateTaskResult {
    let now = call.look(job).await;
    let created = Moment::of(job.status().submitted);
    CreateTaskResult::new(task(call, job, &now, created).await)
}

/// How a task of that age stands; once it is over, with what its call would have answered.
pub(super) async fn looked_at(call: Call<'_>, job: &JobHandle, created: Moment) -> GetTaskResult {
    let now = call.look(job).await;
    let task = task(call, job, &now, created).await;
    let payload = match Standing::of(&now.state) {
        Standing::Working => TaskPayload::Working,
        Standing::Cancelled => TaskPayload::Cancelled,
        Standing::Lost => {
            let why = task.status_message.clone().unwrap_or_default();
            let error = object(&ErrorData::new(ErrorCode::INTERNAL_ERROR, why, None));
            TaskPayload::Failed { error }
        }
        Standing::Over => {
            let answer = answer_of("run_command", answer_about(call, job, None)).await;
            TaskPayload::Completed { result: object(&sent(call, answer)) }
        }
    };
    GetTaskResult::new(DetailedTask::new(task, payload))
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is not over.
    Working,
    /// It was cancelled, and that ended it.
    Cancelled,
    /// We do not know how it ended.
    Lost,
    /// It ran to its end, whatever that was.
    Over,
}

impl Standing {
    const fn of(state: &State) -> Self {
        match state {
            State::Queued(_) | State::Running(_) | State::Stopping => Self::Working,
            State::Finished(ending) => match ending.outcome {
                Outcome::Stopped { by: StopBy::Cancel } => Self::Cancelled,
                Outcome::Lost { .. } => Self::Lost,
                Outcome::Stopped { by: StopBy::Client | StopBy::Shutdown }
                | Outcome::Exited { .. }
                | Outcome::Signaled { .. }
                | Outcome::TimedOut { .. }
                | Outcome::Limit { .. }
                | Outcome::FailedToStart(_) => Self::Over,
            },
        }
    }

    const fn status(self) -> TaskStatus {
        match self {
            Self::Working => TaskStatus::Working,
            Self::Cancelled => TaskStatus::Cancelled,
            Self::Lost => TaskStatus::Failed,
            Self::Over => TaskStatus::Completed,
        }
    }
}

async fn task(call: Call<'_>, job: &JobHandle, now: &Snapshot, created: Moment) -> Task {
    let id = Named { job: job.id(), budget: call.budget, created }.id(call.desk);
    let (standing, status) = (Standing::of(&now.state), job.status());
    let ended = now.ending().map(|ending| ending.at);
    let moments = [status.started, now.output.last_output, ended];
    let changed = moments.into_iter().flatten().fold(status.submitted, Instant::max);
    let changed = Moment::of(changed);
    let age = ended.unwrap_or_else(Instant::now).duration_since(status.submitted);
    let message = call.desk.redactor().mask_text(&status_line(now, job).await).into_owned();
    let (created, changed) = (created.to_string(), changed.to_string());
    let mut task = Task::new(id, standing.status(), created, changed).with_status_message(message);
    task.ttl_ms = call.desk.kept_for().map(millis);
    task.poll_interval_ms = (standing == Standing::Working).then(|| millis(next_look(age)));
    task
}

/// When to look at a task of this age again: what has run for long will not be over at once.
fn next_look(age: Duration) -> Duration {
    (age / 10).clamp(FIRST_LOOK, LAST_LOOK)
}

/// Results and errors are objects.
pub(super) fn object(value: &impl Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        Ok(_) | Err(_) => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Ending;

    #[test]
    fn whatever_ran_to_its_end_is_completed() {
        let over = |outcome| Standing::of(&State::Finished(Ending::without_process(outcome)));
        let stopped = |by| over(Outcome::Stopped { by });
        assert_eq!(over(Outcome::Exited { code: 3 }), Standing::Over);
        assert_eq!(over(Outcome::TimedOut { after: FIRST_LOOK }), Standing::Over);
        assert_eq!(stopped(StopBy::Client), Standing::Over, "stop_jobs is no tasks/cancel");
        assert_eq!(stopped(StopBy::Shutdown), Standing::Over);
        assert_eq!(stopped(StopBy::Cancel), Standing::Cancelled);
        assert_eq!(over(Outcome::Lost { why: String::new() }).status(), TaskStatus::Failed);
        assert_eq!(Standing::of(&State::Stopping), Standing::Working);
        assert_eq!(Standing::of(&State::Queued(None)), Standing::Working);
    }

    #[test]
    fn the_longer_it_runs_the_rarer_one_looks() {
        for (age, wanted) in [(0, 1000), (10, 1000), (45, 4500), (86_400, 10_000)] {
            assert_eq!(millis(next_look(Duration::from_secs(age))), wanted, "{age}");
        }
    }
}
