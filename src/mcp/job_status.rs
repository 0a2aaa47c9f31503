//! The state of jobs for callers that do not speak MCP: the structured form of replies, with
//! secrets masked.

use rmcp::model::JsonObject;
use serde_json::Value;

use super::handler::Handler;
use super::reply::{Answer, Part};
use super::settings::ResultFormat;
use super::snapshot::Snapshot;
use crate::ids::JobNumber;
use crate::service::{CallerIdentity, CallerRole, FindError, JobHandle, Phase, TenantClient};

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
    pub async fn job(&self, caller: CallerIdentity, job: JobNumber) -> Result<Value, FindError> {
        let client = self.desk_of(caller);
        let job = client.find(client.job(job)).await?;
        let now = Snapshot::take(&client, &job).await;
        let bare = Answer::about(&now, None, ResultFormat::Structured);
        let answer =
            names(&job).into_iter().fold(bare, |answer, (name, it)| answer.with_field(&name, it));
        Ok(structured(&client, answer))
    }

    /// The newest jobs in this state, or in any, newest first: `{"jobs": [ … ]}`.
    pub async fn jobs(
        &self,
        caller: CallerIdentity,
        state: Option<JobState>,
        limit: usize,
    ) -> Value {
        let client = self.desk_of(caller);
        let jobs = client.list().await;
        let is_wanted =
            |job: &&JobHandle| state.is_none_or(|state| state == JobState::of(&job.status().phase));
        let mut parts = Vec::new();
        for job in jobs.iter().filter(is_wanted).take(limit) {
            let now = Snapshot::take(&client, job).await;
            parts.push(Part::listed(&now, String::new(), names(job)));
        }
        structured(&client, Answer::several(Some(String::new()), parts))
    }

    /// The same of all tenants, each job with its own: for an operator.
    pub async fn all_jobs(&self, state: Option<JobState>, limit: usize) -> Value {
        let jobs = self.all().await;
        let is_wanted =
            |job: &&JobHandle| state.is_none_or(|state| state == JobState::of(&job.status().phase));
        let mut parts = Vec::new();
        for job in jobs.iter().filter(is_wanted).take(limit) {
            let tenant = job.id().tenant();
            let client = self.desk_of(CallerIdentity { tenant, role: CallerRole::Read });
            let now = Snapshot::take(&client, job).await;
            let mut names = names(job);
            names.insert("tenant".into(), tenant.name().into());
            parts.push(Part::listed(&now, String::new(), names));
        }
        let client = self.desk_of(CallerIdentity::LOCAL);
        structured(&client, Answer::several(Some(String::new()), parts))
    }
}

fn structured(client: &TenantClient, answer: Answer) -> Value {
    let masked = answer.with_hint(None).masked(&client.redactor());
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
