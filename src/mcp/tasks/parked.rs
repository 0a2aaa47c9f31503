//! A task that has no job yet: somebody must agree first.

use rmcp::model::{CreateTaskResult, DetailedTask, GetTaskResult, Task, TaskPayload, TaskStatus};

use super::clock::{Moment, millis};
use super::look::{FIRST_LOOK, object};
use super::serve::Named;
use crate::mcp::answering::sent;
use crate::mcp::reply::{ToolError, parked_line, question_requests};
use crate::mcp::tools::Call;
use crate::yard::{Fate, Parked};

/// The answer to a call that goes on as a task which asks somebody first.
pub(in crate::mcp) fn created_parked(call: Call<'_>, parked: &Parked) -> CreateTaskResult {
    let mut task = task(call, parked);
    task.status = TaskStatus::InputRequired;
    CreateTaskResult::new(task)
}

/// How such a task stands: what it asks, or that nothing will be run.
pub(super) fn looked_at(call: Call<'_>, parked: &Parked) -> GetTaskResult {
    let payload = match &parked.fate {
        Fate::Open => {
            TaskPayload::InputRequired { input_requests: question_requests(&parked.question) }
        }
        Fate::Refused(error) => {
            let answer = ToolError::Submit(error.clone()).into_answer();
            TaskPayload::Completed { result: object(&sent(call, answer)) }
        }
        Fate::Cancelled => TaskPayload::Cancelled,
    };
    GetTaskResult::new(DetailedTask::new(task(call, parked), payload))
}

fn task(call: Call<'_>, parked: &Parked) -> Task {
    let created = Moment::of(parked.since);
    let id = Named { job: parked.job, budget: call.budget, created }.id(call.desk);
    let since = created.to_string();
    let message = call.desk.redactor().mask_text(&parked_line(parked)).into_owned();
    let mut task = Task::new(id, TaskStatus::Working, since.clone(), since);
    task.status_message = Some(message);
    task.ttl_ms = call.desk.kept_for().map(millis);
    task.poll_interval_ms = (parked.fate == Fate::Open).then(|| millis(FIRST_LOOK));
    task
}
