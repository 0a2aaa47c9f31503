//! What a client may do with a task.

use rmcp::model::{GetTaskResult, InputResponses};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::clock::Moment;
use super::look::looked_at;
use super::parked;
use crate::ids::JobId;
use crate::mcp::reply::{TokenBudget, consent_among, is_answered};
use crate::mcp::settings::McpSettings;
use crate::mcp::stamp::is_modern;
use crate::mcp::tools::Call;
use crate::outcome::StopBy;
use crate::yard::{Desk, Fate, JobHandle, NoConsent, Parked, Role, StopWish};

/// Whether the client of this request can be answered with a task.
pub(in crate::mcp) fn are_known_to(context: &RequestContext<RoleServer>) -> bool {
    is_modern(context) && context.client_capabilities().is_some_and(|it| it.supports_tasks())
}

/// How a task stands.
///
/// # Errors
/// When the caller has no such task, or no longer.
pub(in crate::mcp) async fn get(
    desk: &Desk,
    settings: &McpSettings,
    request: &RequestContext<RoleServer>,
    id: &str,
) -> Result<GetTaskResult, ErrorData> {
    let (found, Named { budget, created, .. }) = find(desk, id).await?;
    let call = Call { desk, settings, request, budget, task_after: None, answered: None };
    Ok(match found {
        Found::Job(job) => looked_at(call, &job, created).await,
        Found::Parked(parked) => parked::looked_at(call, &parked),
    })
}

/// Ends the tree of a task that is not over; one that is stays as it is.
///
/// # Errors
/// When the caller has no such task, or no longer, or may only read.
pub(in crate::mcp) async fn cancel(desk: &Desk, id: &str) -> Result<(), ErrorData> {
    let (found, _) = find(desk, id).await?;
    may_change(desk)?;
    match found {
        Found::Job(job) if job.status().ending().is_none() => {
            let wish = StopWish { by: StopBy::Cancel, signal: None, grace: None };
            // What was freed in between has ended.
            desk.stop(job.id(), wish).await.ok();
        }
        Found::Parked(parked) if parked.fate == Fate::Open => desk.forget_parked(&parked),
        Found::Job(_) | Found::Parked(_) => {}
    }
    Ok(())
}

/// Takes what a task has asked for; what nobody asked for is let go.
///
/// # Errors
/// When the caller has no such task, or no longer, or may only read.
pub(in crate::mcp) async fn update(
    desk: &Desk,
    id: &str,
    responses: &InputResponses,
) -> Result<(), ErrorData> {
    let (found, _) = find(desk, id).await?;
    may_change(desk)?;
    match found {
        Found::Parked(parked) if parked.fate == Fate::Open && is_answered(responses) => {
            let said = consent_among(responses).ok_or(NoConsent::Declined);
            desk.answer_parked(*parked, said).await;
        }
        Found::Parked(_) | Found::Job(_) => {}
    }
    Ok(())
}

/// What the id of a task says: the same for as long as there is the task, also when what asked
/// first has become a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named {
    pub(super) job: JobId,
    /// How much the answer may take.
    pub(super) budget: TokenBudget,
    /// When the call came.
    pub(super) created: Moment,
}

impl Named {
    pub(super) fn id(self, desk: &Desk) -> String {
        desk.ticket_carrying(self.job, [self.budget.tokens(), self.created.0])
    }

    fn by(desk: &Desk, id: &str) -> Option<Self> {
        let (job, [tokens, created]) = desk.carried(id)?;
        Some(Self { job, budget: TokenBudget::given(tokens), created: Moment(created) })
    }
}

/// What an id names.
enum Found {
    Job(JobHandle),
    /// What becomes a job when somebody agrees.
    Parked(Box<Parked>),
}

/// What an id names, and what it says. Whatever is wrong with it, the answer is the same: nothing
/// about others can be read from it.
async fn find(desk: &Desk, id: &str) -> Result<(Found, Named), ErrorData> {
    let unknown = || {
        let message =
            "no such task: the id is wrong, or its job was freed; list_jobs shows what is kept";
        ErrorData::invalid_params(message, None)
    };
    let named = Named::by(desk, id).ok_or_else(unknown)?;
    let found = match desk.find(named.job).await {
        Ok(job) => Found::Job(job),
        Err(_) => {
            let parked = desk.parked(named.job).ok_or_else(unknown)?;
            Found::Parked(Box::new(parked))
        }
    };
    Ok((found, named))
}

fn may_change(desk: &Desk) -> Result<(), ErrorData> {
    if desk.caller().role >= Role::Run {
        return Ok(());
    }
    let message = "refused, nothing was done: this token may only look at jobs (role read-only); a task is changed by one with the role run";
    Err(ErrorData::invalid_request(message, None))
}
