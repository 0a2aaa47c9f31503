//! Tasks (`io.modelcontextprotocol/tasks`): calls that continue after their reply.
//!
//! ```text
//! tools/call run_command ─ still runs after wait_s ─▶ CreateTaskResult (the id is a ticket)
//! tasks/get     ticket → job → status, last line; at the end, the reply that the call would have
//! tasks/cancel  ticket → job → ends the whole process tree
//! tasks/update  the answer to an approval question; until then there is no job
//! ```
//!
//! Only clients of the modern era that declare the extension get tasks, and only from
//! `run_command`: the tools of dialects reply as their documents say. The server stores nothing for
//! a task: a task is its job, or the parked submission that becomes the job after approval, named
//! by a ticket. Nobody can guess a ticket, and it is valid for one tenant. So a task lives as long
//! as its job is kept, and any connection of its tenant may use it.

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

use super::approvals::{find_answer, has_answer, parked_status_line, question_requests};
use super::handler::is_modern;
use super::reply::{JobSnapshot, State, TokenBudget, ToolError, millis, status_line};
use super::settings::McpSettings;
use super::tools::{CallFacts, LongRuns, ToolCall, reply_about_job, reply_or_failure};
use crate::ids::JobId;
use crate::outcome::{Outcome, StopBy};
use crate::service::{
    CallerRole, JobHandle, ParkedState, ParkedSubmission, StopRequest, TenantClient,
};
use crate::telemetry::audit::format_rfc3339;

/// Returns the reply to long runs that the client of this request supports.
pub(super) fn choose_long_runs(context: &RequestContext<RoleServer>) -> LongRuns {
    let has_tasks = context.client_capabilities().is_some_and(|it| it.supports_tasks());
    if has_tasks && is_modern(context) { LongRuns::BecomeTasks } else { LongRuns::AnswerNow }
}

/// Returns the state of a task.
///
/// # Errors
/// Fails if the caller has no such task, or no longer has it.
pub(super) async fn get(
    client: &TenantClient,
    settings: &McpSettings,
    request: &RequestContext<RoleServer>,
    id: &str,
) -> Result<GetTaskResult, ErrorData> {
    let (target, TaskKey { budget, created, .. }) = find_task(client, id).await?;
    let long_runs = LongRuns::AnswerNow;
    let call = ToolCall { client, settings, request, budget, long_runs, approval: None };
    Ok(match target {
        TaskTarget::Job(job) => build_job_task_result(call, &job, created).await,
        TaskTarget::Parked(parked) => build_parked_task_result(call, &parked),
    })
}

/// Stops the process tree of a task; one that is over stays as it is.
///
/// # Errors
/// Fails if the caller has no such task, no longer has it, or may only read.
pub(super) async fn cancel(client: &TenantClient, id: &str) -> Result<(), ErrorData> {
    let (target, _) = find_task(client, id).await?;
    require_run_role(client)?;
    match target {
        TaskTarget::Job(job) if job.status().ending().is_none() => {
            let stop_request = StopRequest { by: StopBy::Cancel, signal: None, grace: None };
            // A job that was freed in between has ended.
            client.stop(job.id(), stop_request).await.ok();
        }
        TaskTarget::Parked(parked) if parked.state == ParkedState::Open => {
            client.cancel_parked(&parked)
        }
        TaskTarget::Job(_) | TaskTarget::Parked(_) => {}
    }
    Ok(())
}

/// Accepts the answer that a task asked for; other input is ignored.
///
/// # Errors
/// Fails if the caller has no such task, no longer has it, or may only read.
pub(super) async fn update(
    client: &TenantClient,
    id: &str,
    responses: &InputResponses,
) -> Result<(), ErrorData> {
    let (target, _) = find_task(client, id).await?;
    require_run_role(client)?;
    match target {
        TaskTarget::Parked(parked)
            if parked.state == ParkedState::Open && has_answer(responses) =>
        {
            client.answer_parked(*parked, find_answer(responses)).await;
        }
        TaskTarget::Parked(_) | TaskTarget::Job(_) => {}
    }
    Ok(())
}

/// The content of a task id. It stays the same for the life of the task, also when a parked
/// submission becomes a job.
#[derive(Debug, Clone, Copy)]
struct TaskKey {
    job: JobId,
    /// The budget of the reply.
    budget: TokenBudget,
    /// The time of the call.
    created: TaskTime,
}

impl TaskKey {
    /// The start of each id. The number of the job follows: some clients show their model nothing of
    /// a task but its id, and the tools take that number.
    const PREFIX: &str = "job-";

    fn to_id(self, client: &TenantClient) -> String {
        let numbers = [self.budget.tokens(), self.created.0];
        format!("{}{}", Self::PREFIX, client.ticket_with_numbers(self.job, numbers))
    }

    fn parse(client: &TenantClient, id: &str) -> Option<Self> {
        let ticket = id.strip_prefix(Self::PREFIX)?;
        let (job, [tokens, created]) = client.read_ticket_with_numbers(ticket)?;
        Some(Self { job, budget: TokenBudget::from_tokens(tokens), created: TaskTime(created) })
    }
}

/// The target of a task id.
enum TaskTarget {
    Job(JobHandle),
    /// A submission that becomes a job after approval.
    Parked(Box<ParkedSubmission>),
}

/// Finds the target of a task id. Every invalid id gives the same error, so that it reveals nothing
/// about other tenants.
async fn find_task(client: &TenantClient, id: &str) -> Result<(TaskTarget, TaskKey), ErrorData> {
    let unknown = || {
        let message =
            "no such task: the id is wrong, or its job was freed; list_jobs shows what is kept";
        ErrorData::invalid_params(message, None)
    };
    let key = TaskKey::parse(client, id).ok_or_else(unknown)?;
    let target = match client.find(key.job).await {
        Ok(job) => TaskTarget::Job(job),
        Err(_) => {
            let parked = client.find_parked(key.job).ok_or_else(unknown)?;
            TaskTarget::Parked(Box::new(parked))
        }
    };
    Ok((target, key))
}

fn require_run_role(client: &TenantClient) -> Result<(), ErrorData> {
    if client.caller().role >= CallerRole::Run {
        return Ok(());
    }
    let message = "refused, nothing was done: this token may only look at jobs (role read-only); a task is changed by one with the role run";
    Err(ErrorData::invalid_request(message, None))
}

/// The shortest suggested poll interval.
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The longest suggested poll interval.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Returns the result of a call that continues as a task.
pub(super) async fn create(call: ToolCall<'_>, job: &JobHandle) -> CreateTaskResult {
    let now = call.snapshot(job).await;
    let created = TaskTime::from_instant(job.status().submitted);
    CreateTaskResult::new(build_job_task(call, job, &now, created).await)
}

/// Returns the state of a job's task; once it is over, with the reply that its call would have had.
async fn build_job_task_result(
    call: ToolCall<'_>,
    job: &JobHandle,
    created: TaskTime,
) -> GetTaskResult {
    let now = call.snapshot(job).await;
    let task = build_job_task(call, job, &now, created).await;
    let payload = match TaskPhase::from_state(&now.state) {
        TaskPhase::Working => TaskPayload::Working,
        TaskPhase::Cancelled => TaskPayload::Cancelled,
        TaskPhase::Lost => {
            let why = task.status_message.clone().unwrap_or_default();
            let error = to_object(&ErrorData::new(ErrorCode::INTERNAL_ERROR, why, None));
            TaskPayload::Failed { error }
        }
        TaskPhase::Over => {
            let reply =
                reply_or_failure("run_command", reply_about_job(call, job, &CallFacts::default()))
                    .await;
            TaskPayload::Completed { result: to_object(&call.result(reply)) }
        }
    };
    GetTaskResult::new(DetailedTask::new(task, payload))
}

/// The phase of a task's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskPhase {
    Working,
    /// A cancellation ended it.
    Cancelled,
    /// The server does not know how it ended.
    Lost,
    /// The job ran to its end, whatever the outcome.
    Over,
}

impl TaskPhase {
    const fn from_state(state: &State) -> Self {
        match state {
            State::Queued(_) | State::Running(_) | State::Stopping => Self::Working,
            State::Finished(ending) => match ending.outcome {
                Outcome::Stopped { by: StopBy::Cancel }
                | Outcome::NotRun { by: StopBy::Cancel, .. } => Self::Cancelled,
                Outcome::Lost { .. } => Self::Lost,
                Outcome::Stopped {
                    by: StopBy::Client | StopBy::Operator | StopBy::Shutdown | StopBy::NoSlot,
                }
                | Outcome::NotRun {
                    by: StopBy::Client | StopBy::Operator | StopBy::Shutdown | StopBy::NoSlot,
                    ..
                }
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

async fn build_job_task(
    call: ToolCall<'_>,
    job: &JobHandle,
    now: &JobSnapshot,
    created: TaskTime,
) -> Task {
    let id = TaskKey { job: job.id(), budget: call.budget, created }.to_id(call.client);
    let phase = TaskPhase::from_state(&now.state);
    let status = job.status();
    let ended = now.ending().map(|ending| ending.at);
    let moments = [status.started, now.output.last_output, ended];
    let changed = moments.into_iter().flatten().fold(status.submitted, Instant::max);
    let changed = TaskTime::from_instant(changed);
    let age = ended.unwrap_or_else(Instant::now).duration_since(status.submitted);
    let message = call.client.redactor().mask_text(&status_line(now, job).await).into_owned();
    let created = created.to_string();
    let changed = changed.to_string();
    let mut task = Task::new(id, phase.status(), created, changed).with_status_message(message);
    task.ttl_ms = call.client.max_finished_age().map(millis);
    task.poll_interval_ms = (phase == TaskPhase::Working).then(|| millis(poll_interval(age)));
    task
}

/// Returns the poll interval for a task of this age: a long-running task is unlikely to end soon.
fn poll_interval(age: Duration) -> Duration {
    (age / 10).clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
}

/// Serializes a result or an error, which are objects.
fn to_object(value: &impl Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        Ok(_) | Err(_) => JsonObject::new(),
    }
}

/// Returns the result of a call that continues as a task and waits for approval.
pub(super) fn create_parked(call: ToolCall<'_>, parked: &ParkedSubmission) -> CreateTaskResult {
    let mut task = build_parked_task(call, parked);
    task.status = TaskStatus::InputRequired;
    CreateTaskResult::new(task)
}

/// Returns the state of a parked task: its question, or that nothing will run.
fn build_parked_task_result(call: ToolCall<'_>, parked: &ParkedSubmission) -> GetTaskResult {
    let payload = match &parked.state {
        ParkedState::Open => {
            TaskPayload::InputRequired { input_requests: question_requests(&parked.question) }
        }
        ParkedState::Refused(error) => {
            let reply = ToolError::Submit(error.clone()).into_reply();
            TaskPayload::Completed { result: to_object(&call.result(reply)) }
        }
        ParkedState::Cancelled => TaskPayload::Cancelled,
    };
    GetTaskResult::new(DetailedTask::new(build_parked_task(call, parked), payload))
}

fn build_parked_task(call: ToolCall<'_>, parked: &ParkedSubmission) -> Task {
    let created = TaskTime::from_instant(parked.since);
    let id = TaskKey { job: parked.job, budget: call.budget, created }.to_id(call.client);
    let since = created.to_string();
    let message = call.client.redactor().mask_text(&parked_status_line(parked)).into_owned();
    let mut task = Task::new(id, TaskStatus::Working, since.clone(), since);
    task.status_message = Some(message);
    task.ttl_ms = call.client.max_finished_age().map(millis);
    task.poll_interval_ms = (parked.state == ParkedState::Open).then(|| millis(MIN_POLL_INTERVAL));
    task
}

/// One moment by both clocks, taken once, so that an `Instant` always converts to the same time,
/// even after the system clock was set.
static CLOCK_REFERENCE: LazyLock<(Instant, SystemTime)> =
    LazyLock::new(|| (Instant::now(), SystemTime::now()));

/// A time in milliseconds since 1970, displayed as `2026-11-15T04:01:21.042Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TaskTime(u64);

impl TaskTime {
    /// Converts an instant to calendar time.
    fn from_instant(at: Instant) -> Self {
        let (instant, calendar) = *CLOCK_REFERENCE;
        let moment = match at.checked_duration_since(instant) {
            Some(later) => calendar.checked_add(later),
            None => calendar.checked_sub(instant.duration_since(at)),
        };
        let since = moment.unwrap_or(calendar).duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(millis(since))
    }
}

impl fmt::Display for TaskTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = UNIX_EPOCH.checked_add(Duration::from_millis(self.0));
        f.write_str(&format_rfc3339(at.unwrap_or(UNIX_EPOCH)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::JobEnding;

    #[test]
    fn a_task_that_ran_to_its_end_is_completed() {
        let over =
            |outcome| TaskPhase::from_state(&State::Finished(JobEnding::unmeasured(outcome)));
        let stopped = |by| over(Outcome::Stopped { by });
        assert_eq!(over(Outcome::Exited { code: 3 }), TaskPhase::Over);
        assert_eq!(over(Outcome::TimedOut { after: MIN_POLL_INTERVAL }), TaskPhase::Over);
        assert_eq!(stopped(StopBy::Client), TaskPhase::Over, "stop_jobs is not tasks/cancel");
        assert_eq!(stopped(StopBy::Shutdown), TaskPhase::Over);
        assert_eq!(stopped(StopBy::Cancel), TaskPhase::Cancelled);
        assert_eq!(over(Outcome::Lost { why: String::new() }).status(), TaskStatus::Failed);
        assert_eq!(TaskPhase::from_state(&State::Stopping), TaskPhase::Working);
        assert_eq!(TaskPhase::from_state(&State::Queued(None)), TaskPhase::Working);
    }

    #[test]
    fn the_poll_interval_grows_with_the_age_of_a_task() {
        for (age, wanted) in [(0, 1000), (10, 1000), (45, 4500), (86_400, 10_000)] {
            assert_eq!(millis(poll_interval(Duration::from_secs(age))), wanted, "{age}");
        }
    }

    #[test]
    fn a_task_time_is_stable_and_ordered() {
        let early = Instant::now();
        let first = TaskTime::from_instant(early);
        let late = TaskTime::from_instant(early + Duration::from_secs(90));
        assert!(late > first && late.to_string() > first.to_string());
        assert_eq!(TaskTime::from_instant(early), first);
        assert_eq!(TaskTime(1_795_000_000_042).to_string(), "2026-11-18T11:06:40.042Z");
    }
}
