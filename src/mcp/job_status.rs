//! The state of jobs for callers that do not speak MCP: the structured form of replies, with
//! secrets masked.

use rmcp::model::JsonObject;
use serde_json::Value;

use super::handler::Handler;
use super::reply::{Answer, Part};
use super::settings::ResultFormat;
use super::snapshot::Snapshot;
use crate::ids::JobNumber;
use crate::service::{Desk, FindError, Identity, JobHandle, Phase, Role};

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It waits for a slot.
    Queued,
    /// It runs.
    Running,
    /// It is being ended.
    Stopping,
    /// It has ended.
    Finished,
}

impl JobState {
    const fn of(phase: &Phase) -> Self {
        match phase {
            Phase::Queued => Self::Queued,
            Phase::Running => Self::Running,
            Phase::Stopping => Self::Stopping,
            Phase::Finished(_) => Self::Finished,
        }
    }
}

impl Handler {
    /// How one job stands: the fields of a structured reply, without output.
    ///
    /// # Errors
    /// When there is no such job.
    pub async fn job(&self, caller: Identity, job: JobNumber) -> Result<Value, FindError> {
        let desk = self.desk_of(caller);
        let job = desk.find(desk.job(job)).await?;
        let now = Snapshot::take(&desk, &job).await;
        let bare = Answer::about(&now, None, ResultFormat::Structured);
        let answer =
            names(&job).into_iter().fold(bare, |answer, (name, it)| answer.with_field(&name, it));
        Ok(structured(&desk, answer))
    }

    /// The newest jobs in this state, or in any, newest first: `{"jobs": [ … ]}`.
    pub async fn jobs(&self, caller: Identity, state: Option<JobState>, limit: usize) -> Value {
        let desk = self.desk_of(caller);
        let jobs = desk.list().await;
        let is_wanted =
            |job: &&JobHandle| state.is_none_or(|state| state == JobState::of(&job.status().phase));
        let mut parts = Vec::new();
        for job in jobs.iter().filter(is_wanted).take(limit) {
            let now = Snapshot::take(&desk, job).await;
            parts.push(Part::listed(&now, String::new(), names(job)));
        }
        structured(&desk, Answer::several(Some(String::new()), parts))
    }

    /// The same of all tenants, each job with its own: for an operator.
    pub async fn all_jobs(&self, state: Option<JobState>, limit: usize) -> Value {
        let jobs = self.all().await;
        let is_wanted =
            |job: &&JobHandle| state.is_none_or(|state| state == JobState::of(&job.status().phase));
        let mut parts = Vec::new();
        for job in jobs.iter().filter(is_wanted).take(limit) {
            let tenant = job.id().tenant();
            let desk = self.desk_of(Identity { tenant, role: Role::Read });
            let now = Snapshot::take(&desk, job).await;
            let mut names = names(job);
            names.insert("tenant".into(), tenant.name().into());
            parts.push(Part::listed(&now, String::new(), names));
        }
        let desk = self.desk_of(Identity::LOCAL);
        structured(&desk, Answer::several(Some(String::new()), parts))
    }
}

fn structured(desk: &Desk, answer: Answer) -> Value {
    let masked = answer.with_hint(None).masked(&desk.redactor());
    masked.into_result(ResultFormat::Structured).structured_content.unwrap_or_default()
}

/// What tells a job from others, and where to find more about it.
fn names(job: &JobHandle) -> JsonObject {
    let spec = job.spec();
    let mut names = JsonObject::new();
    names.insert("command".into(), spec.program.display().into());
    if let Some(description) = &spec.description {
        names.insert("description".into(), description.as_str().into());
    }
    names.insert("trace_id".into(), spec.trace.context.trace_id.to_string().into());
    names
}
