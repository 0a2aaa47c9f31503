//! The state of jobs for callers outside MCP: the structured form of replies, with secrets masked.

use serde_json::Value;

use super::handler::Handler;
use super::job_fields::{process_fields, request_fields};
use super::reply::{
    DigestError, MAX_LISTED, ReplyPart, ToolReply, mask_value, read_summary, summary_fields,
};
use super::settings::ResultFormat;
use super::snapshot::{JobSnapshot, State};
use crate::ids::JobNumber;
use crate::service::{CallerIdentity, CallerRole, JobHandle, JobPhase, TenantClient};

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

/// The jobs that a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobFilter {
    /// Only jobs in this state.
    pub state: Option<JobState>,
    /// Only jobs with this number: each tenant may have one.
    pub number: Option<JobNumber>,
    /// The most jobs.
    pub limit: usize,
}

impl JobFilter {
    /// Selects from jobs that are listed newest first. If there are more than the limit, those that
    /// have not finished come before newer ones that have.
    fn select(&self, mut jobs: Vec<JobHandle>) -> Vec<JobHandle> {
        jobs.retain(|job| {
            self.number.is_none_or(|number| job.id().job_number() == number)
                && self.state.is_none_or(|state| state.includes(job))
        });
        let has_finished = |job: &JobHandle| job.status().ending().is_some();
        let active = jobs.iter().filter(|job| !has_finished(job)).count();
        let mut room = self.limit.saturating_sub(active);
        jobs.retain(|job| {
            let is_kept = !has_finished(job) || room > 0;
            room -= usize::from(has_finished(job) && room > 0);
            is_kept
        });
        jobs.truncate(self.limit);
        jobs
    }
}

/// The parts of a job's state that a caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobDetail {
    /// The fields that lists have.
    Summary,
    /// These, and the processes of a running job.
    WithProcesses,
}

impl Handler {
    /// Returns the state of one job: the fields of a structured reply, without output, and those of
    /// its request.
    pub async fn describe_job(
        &self,
        caller: CallerIdentity,
        job: &JobHandle,
        detail: JobDetail,
    ) -> Value {
        let client = self.client_for(caller);
        let now = JobSnapshot::take(&client, job).await;
        let mut fields = request_fields(job, &now.state);
        if let (JobDetail::WithProcesses, State::Running(_) | State::Stopping) =
            (detail, &now.state)
        {
            let job = job.clone();
            let listed = tokio::task::spawn_blocking(move || job.list_processes()).await;
            fields.insert("processes".into(), process_fields(listed.unwrap_or_default()));
        }
        let bare = ToolReply::for_job(&now, None, ResultFormat::Structured);
        let add = |reply: ToolReply, (name, value): (String, Value)| reply.with_field(&name, value);
        to_structured(&client, fields.into_iter().fold(bare, add))
    }

    /// Returns the facts of a job's output, with secrets masked.
    ///
    /// # Errors
    /// Fails if the output cannot be read.
    pub async fn digest_job(
        &self,
        caller: CallerIdentity,
        job: &JobHandle,
    ) -> Result<Value, DigestError> {
        let client = self.client_for(caller);
        let mut fields = summary_fields(&*read_summary(job.output()).await?, MAX_LISTED);
        mask_value(&mut fields, &client.redactor());
        Ok(fields)
    }

    /// Returns the caller's jobs that a filter selects, newest first: `{"jobs": [ … ]}`.
    pub async fn list_jobs(&self, caller: CallerIdentity, filter: JobFilter) -> Value {
        let client = self.client_for(caller);
        let jobs = client.list().await;
        let mut parts = Vec::new();
        for job in &filter.select(jobs) {
            let now = JobSnapshot::take(&client, job).await;
            parts.push(ReplyPart::for_list(&now, String::new(), request_fields(job, &now.state)));
        }
        to_structured(&client, ToolReply::for_jobs(Some(String::new()), parts))
    }

    /// Returns the jobs of all tenants that a filter selects, each with its tenant's name: for an
    /// operator.
    pub async fn list_all_jobs(&self, filter: JobFilter) -> Value {
        let jobs = self.shared.service.list_all().await;
        let mut parts = Vec::new();
        for job in &filter.select(jobs) {
            let tenant = job.id().tenant();
            let client = self.client_for(CallerIdentity { tenant, role: CallerRole::Read });
            let now = JobSnapshot::take(&client, job).await;
            let mut fields = request_fields(job, &now.state);
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
