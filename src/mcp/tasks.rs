//! Tasks (`io.modelcontextprotocol/tasks`): a call that goes on after its answer.
//!
//! ```text
//! tools/call run_command ─ not over after the grace ─▶ CreateTaskResult (the id is a ticket of the job)
//! tasks/get     ticket → job → status, last line; once it is over, what the call would have answered
//! tasks/cancel  ticket → job → its whole tree is ended
//! tasks/update  the yes or no to a command that a rule wants to be asked; until then there is no job
//! ```
//!
//! Only clients of the modern era that declare the extension get one, and only from `run_command`:
//! the tools of other documents answer as those say. Nothing is kept for a task: it is its job,
//! or what becomes that job when somebody agrees, seen through a ticket that nobody can guess and that is good for one tenant alone. So it lives
//! as long as the job is kept, and any connection of its tenant may ask for it.

use std::fmt;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rmcp::model::{
    CreateTaskResult, DetailedTask, ErrorCode, GetTaskResult, InputResponses, JsonObject, Task,
    TaskPayload, TaskStatus,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde::Serialize;
use serde_json::Value;

use super::approvals::{consent_among, is_answered, parked_line, question_requests};
use super::handler::is_modern;
use super::reply::{TokenBudget, ToolError, status_line};
use super::settings::McpSettings;
use super::snapshot::{Snapshot, State};
use super::tools::{Call, answer_about, answer_of};
use crate::ids::JobId;
use crate::outcome::{Outcome, StopBy};
use crate::service::{
    CallerRole, JobHandle, NoConsent, ParkedState, ParkedSubmission, StopWish, TenantClient,
};
use crate::telemetry::audit::rfc3339;

/// Whether the client of this request can be answered with a task.
pub(super) fn are_known_to(context: &RequestContext<RoleServer>) -> bool {
    is_modern(context) && context.client_capabilities().is_some_and(|it| it.supports_tasks())
}

/// How a task stands.
///
/// # Errors
/// When the caller has no such task, or no longer.
pub(super) async fn get(
    client: &TenantClient,
    settings: &McpSettings,
    request: &RequestContext<RoleServer>,
    id: &str,
) -> Result<GetTaskResult, ErrorData> {
    let (found, Named { budget, created, .. }) = find(client, id).await?;
    let call = Call { client, settings, request, budget, task_after: None, answered: None };
    Ok(match found {
        Found::Job(job) => looked_at(call, &job, created).await,
        Found::Parked(parked) => parked_status(call, &parked),
    })
}

/// Ends the tree of a task that is not over; one that is stays as it is.
///
/// # Errors
/// When the caller has no such task, or no longer, or may only read.
pub(super) async fn cancel(client: &TenantClient, id: &str) -> Result<(), ErrorData> {
    let (found, _) = find(client, id).await?;
    may_change(client)?;
    match found {
        Found::Job(job) if job.status().ending().is_none() => {
            let wish = StopWish { by: StopBy::Cancel, signal: None, grace: None };
            // What was freed in between has ended.
            client.stop(job.id(), wish).await.ok();
        }
        Found::Parked(parked) if parked.fate == ParkedState::Open => client.cancel_parked(&parked),
        Found::Job(_) | Found::Parked(_) => {}
    }
    Ok(())
}

/// Takes what a task has asked for; what nobody asked for is let go.
///
/// # Errors
/// When the caller has no such task, or no longer, or may only read.
pub(super) async fn update(
    client: &TenantClient,
    id: &str,
    responses: &InputResponses,
) -> Result<(), ErrorData> {
    let (found, _) = find(client, id).await?;
    may_change(client)?;
    match found {
        Found::Parked(parked) if parked.fate == ParkedState::Open && is_answered(responses) => {
            let said = consent_among(responses).ok_or(NoConsent::Declined);
            client.answer_parked(*parked, said).await;
        }
        Found::Parked(_) | Found::Job(_) => {}
    }
    Ok(())
}

/// What the id of a task says: the same for as long as there is the task, also when what asked
/// first has become a job.
#[derive(Debug, Clone, Copy)]
struct Named {
    job: JobId,
    /// How much the answer may take.
    budget: TokenBudget,
    /// When the call came.
    created: Moment,
}

impl Named {
    fn id(self, client: &TenantClient) -> String {
        client.ticket_with_numbers(self.job, [self.budget.tokens(), self.created.0])
    }

    fn by(client: &TenantClient, id: &str) -> Option<Self> {
        let (job, [tokens, created]) = client.read_ticket_with_numbers(id)?;
        Some(Self { job, budget: TokenBudget::given(tokens), created: Moment(created) })
    }
}

/// What an id names.
enum Found {
    Job(JobHandle),
    /// What becomes a job when somebody agrees.
    Parked(Box<ParkedSubmission>),
}

/// What an id names, and what it says. Whatever is wrong with it, the answer is the same: nothing
/// about others can be read from it.
async fn find(client: &TenantClient, id: &str) -> Result<(Found, Named), ErrorData> {
    let unknown = || {
        let message =
            "no such task: the id is wrong, or its job was freed; list_jobs shows what is kept";
        ErrorData::invalid_params(message, None)
    };
    let named = Named::by(client, id).ok_or_else(unknown)?;
    let found = match client.find(named.job).await {
        Ok(job) => Found::Job(job),
        Err(_) => {
            let parked = client.parked(named.job).ok_or_else(unknown)?;
            Found::Parked(Box::new(parked))
        }
    };
    Ok((found, named))
}

fn may_change(client: &TenantClient) -> Result<(), ErrorData> {
    if client.caller().role >= CallerRole::Run {
        return Ok(());
    }
    let message = "refused, nothing was done: this token may only look at jobs (role read-only); a task is changed by one with the role run";
    Err(ErrorData::invalid_request(message, None))
}

/// A client that looks again sooner learns little.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// Nobody waits longer for news than this.
const LAST_LOOK: Duration = Duration::from_secs(10);

/// The answer to a call that goes on as a task.
pub(super) async fn created(call: Call<'_>, job: &JobHandle) -> CreateTaskResult {
    let now = call.look(job).await;
    let created = Moment::of(job.status().submitted);
    CreateTaskResult::new(task(call, job, &now, created).await)
}

/// How a task of that age stands; once it is over, with what its call would have answered.
async fn looked_at(call: Call<'_>, job: &JobHandle, created: Moment) -> GetTaskResult {
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
            TaskPayload::Completed { result: object(&call.result(answer)) }
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
    let id = Named { job: job.id(), budget: call.budget, created }.id(call.client);
    let standing = Standing::of(&now.state);
    let status = job.status();
    let ended = now.ending().map(|ending| ending.at);
    let moments = [status.started, now.output.last_output, ended];
    let changed = moments.into_iter().flatten().fold(status.submitted, Instant::max);
    let changed = Moment::of(changed);
    let age = ended.unwrap_or_else(Instant::now).duration_since(status.submitted);
    let message = call.client.redactor().mask_text(&status_line(now, job).await).into_owned();
    let created = created.to_string();
    let changed = changed.to_string();
    let mut task = Task::new(id, standing.status(), created, changed).with_status_message(message);
    task.ttl_ms = call.client.max_finished_age().map(millis);
    task.poll_interval_ms = (standing == Standing::Working).then(|| millis(next_look(age)));
    task
}

/// When to look at a task of this age again: what has run for long will not be over at once.
fn next_look(age: Duration) -> Duration {
    (age / 10).clamp(FIRST_LOOK, LAST_LOOK)
}

/// Results and errors are objects.
fn object(value: &impl Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        Ok(_) | Err(_) => JsonObject::new(),
    }
}

/// The answer to a call that goes on as a task which asks somebody first.
pub(super) fn created_parked(call: Call<'_>, parked: &ParkedSubmission) -> CreateTaskResult {
    let mut task = parked_task(call, parked);
    task.status = TaskStatus::InputRequired;
    CreateTaskResult::new(task)
}

/// How such a task stands: what it asks, or that nothing will be run.
fn parked_status(call: Call<'_>, parked: &ParkedSubmission) -> GetTaskResult {
    let payload = match &parked.fate {
        ParkedState::Open => {
            TaskPayload::InputRequired { input_requests: question_requests(&parked.question) }
        }
        ParkedState::Refused(error) => {
            let answer = ToolError::Submit(error.clone()).into_answer();
            TaskPayload::Completed { result: object(&call.result(answer)) }
        }
        ParkedState::Cancelled => TaskPayload::Cancelled,
    };
    GetTaskResult::new(DetailedTask::new(parked_task(call, parked), payload))
}

fn parked_task(call: Call<'_>, parked: &ParkedSubmission) -> Task {
    let created = Moment::of(parked.since);
    let id = Named { job: parked.job, budget: call.budget, created }.id(call.client);
    let since = created.to_string();
    let message = call.client.redactor().mask_text(&parked_line(parked)).into_owned();
    let mut task = Task::new(id, TaskStatus::Working, since.clone(), since);
    task.status_message = Some(message);
    task.ttl_ms = call.client.max_finished_age().map(millis);
    task.poll_interval_ms = (parked.fate == ParkedState::Open).then(|| millis(FIRST_LOOK));
    task
}

/// One moment by both clocks. It is taken once, so that a moment always reads the same, also after
/// somebody has set the calendar's clock.
static MOMENT: LazyLock<(Instant, SystemTime)> =
    LazyLock::new(|| (Instant::now(), SystemTime::now()));

/// A moment: milliseconds since 1970. It is written as `2026-11-15T04:01:21.042Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(u64);

impl Moment {
    /// When that was.
    fn of(at: Instant) -> Self {
        let (instant, calendar) = *MOMENT;
        let moment = match at.checked_duration_since(instant) {
            Some(later) => calendar.checked_add(later),
            None => calendar.checked_sub(instant.duration_since(at)),
        };
        let since = moment.unwrap_or(calendar).duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(millis(since))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = UNIX_EPOCH.checked_add(Duration::from_millis(self.0));
        f.write_str(&rfc3339(at.unwrap_or(UNIX_EPOCH)))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::JobEnding;

    #[test]
    fn whatever_ran_to_its_end_is_completed() {
        let over = |outcome| Standing::of(&State::Finished(JobEnding::unmeasured(outcome)));
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

    #[test]
    fn a_moment_always_reads_the_same_and_later_ones_read_later() {
        let early = Instant::now();
        let (first, late) = (Moment::of(early), Moment::of(early + Duration::from_secs(90)));
        assert!(late > first && late.to_string() > first.to_string());
        assert_eq!(Moment::of(early), first);
        assert_eq!(Moment(1_795_000_000_042).to_string(), "2026-11-18T11:06:40.042Z");
    }
}
