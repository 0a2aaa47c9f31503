//! The state of jobs for callers outside MCP: the structured form of replies, with secrets masked.

use rmcp::model::JsonObject;
use serde_json::Value;

use super::handler::Handler;
use super::reply::{
    DigestError, MAX_LISTED, ReplyPart, ToolReply, client_fields, mask_value, read_summary,
    summary_fields,
};
use super::settings::ResultFormat;
use super::snapshot::JobSnapshot;
use crate::ids::JobNumber;
use crate::service::{CallerIdentity, CallerRole, FindError, JobHandle, JobPhase, TenantClient};

/// The phase of a job's life, as a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    Queued,
    Running,
    Stopping,
    Finished,
}

impl JobState {
    /// `true` if the job is in this state. A finished job of which processes still run is running,
    /// too.
    fn includes(self, job: &JobHandle) -> bool {
        match (&job.status().phase, self) {
            (JobPhase::Queued, Self::Queued)
            | (JobPhase::Running, Self::Running)
            | (JobPhase::Stopping, Self::Stopping)
            | (JobPhase::Finished(_), Self::Finished) => true,
            (JobPhase::Finished(_), Self::Running) => job.has_survivors(),
            (
                JobPhase::Queued | JobPhase::Running | JobPhase::Stopping | JobPhase::Finished(_),
                _,
            ) => false,
        }
    }
}

impl Handler {
    /// Returns the state of one job: the fields of a structured reply, without output.
    ///
    /// # Errors
    /// Fails if there is no such job.
    pub async fn describe_job(
        &self,
        caller: CallerIdentity,
        job: JobNumber,
    ) -> Result<Value, FindError> {
        let client = self.client_for(caller);
        let job = client.find(client.job_id(job)).await?;
        let now = JobSnapshot::take(&client, &job).await;
        let bare = ToolReply::for_job(&now, None, ResultFormat::Structured);
        let reply = name_fields(&job)
            .into_iter()
            .fold(bare, |reply, (name, it)| reply.with_field(&name, it));
        Ok(to_structured(&client, reply))
    }

    /// Returns the facts of a job's output, with secrets masked.
    ///
    /// # Errors
    /// Fails if there is no such job, or if its output cannot be read.
    pub async fn digest_job(
        &self,
        caller: CallerIdentity,
        job: JobNumber,
    ) -> Result<Value, DigestError> {
        let client = self.client_for(caller);
        let job = client.find(client.job_id(job)).await?;
        let mut fields = summary_fields(&*read_summary(job.output()).await?, MAX_LISTED);
        mask_value(&mut fields, &client.redactor());
        Ok(fields)
    }

    /// Returns the newest jobs in this state, or in any, newest first: `{"jobs": [ … ]}`.
    pub async fn list_jobs(
        &self,
        caller: CallerIdentity,
        state: Option<JobState>,
        limit: usize,
    ) -> Value {
        let client = self.client_for(caller);
        let jobs = client.list().await;
        let is_selected = |job: &&JobHandle| state.is_none_or(|state| state.includes(job));
        let mut parts = Vec::new();
        for job in jobs.iter().filter(is_selected).take(limit) {
            let now = JobSnapshot::take(&client, job).await;
            parts.push(ReplyPart::for_list(&now, String::new(), name_fields(job)));
        }
        to_structured(&client, ToolReply::for_jobs(Some(String::new()), parts))
    }

    /// Returns the newest jobs of all tenants, each with its tenant's name: for an operator.
    pub async fn list_all_jobs(&self, state: Option<JobState>, limit: usize) -> Value {
        let jobs = self.shared.service.list_all().await;
        let is_selected = |job: &&JobHandle| state.is_none_or(|state| state.includes(job));
        let mut parts = Vec::new();
        for job in jobs.iter().filter(is_selected).take(limit) {
            let tenant = job.id().tenant();
            let client = self.client_for(CallerIdentity { tenant, role: CallerRole::Read });
            let now = JobSnapshot::take(&client, job).await;
            let mut fields = name_fields(job);
            fields.insert("tenant".into(), tenant.name().into());
            parts.push(ReplyPart::for_list(&now, String::new(), fields));
        }
        let client = self.client_for(CallerIdentity::LOCAL);
        to_structured(&client, ToolReply::for_jobs(Some(String::new()), parts))
    }
}

fn to_structured(client: &TenantClient, reply: ToolReply) -> Value {
    let masked = reply.with_hint(None).masked(&client.redactor());
    masked.into_result(ResultFormat::Structured).structured_content.unwrap_or_default()
}

/// The fields that identify a job beside its number.
fn name_fields(job: &JobHandle) -> JsonObject {
    let spec = job.spec();
    let mut fields = JsonObject::new();
    fields.insert("command".into(), spec.program.display().into());
    if let Some(description) = &spec.description {
        fields.insert("description".into(), description.as_str().into());
    }
    fields.insert("trace_id".into(), spec.trace.context.trace_id.to_string().into());
    fields.extend(client_fields(&spec.client));
    fields
}
