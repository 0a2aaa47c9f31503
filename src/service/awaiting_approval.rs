//! Submissions that need the user's approval before they become jobs: the client asks while the caller
//! waits, or the submission is parked under a job number until the answer comes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::admission_error::AdmissionError;
use super::approval::{
    Approval, ApprovalQuestion, ApprovalSubject, ClosedQuestion, Consent, NoConsent, OPEN_FOR,
};
use super::submission::{Submission, SubmitError};
use super::tenant_client::TenantClient;
use crate::ids::{JobId, TenantId};
use crate::job::JobHandle;
use crate::telemetry::{ApprovalStep, events};

/// The result of [`TenantClient::submit_or_ask`].
#[derive(Debug)]
pub enum SubmitOutcome {
    Job(JobHandle),
    /// The user must approve first. Nothing was run.
    Ask(ApprovalQuestion),
}

impl TenantClient {
    /// Accepts a job like [`TenantClient::submit`], but if an `ask` rule matches, opens a question
    /// instead of refusing.
    ///
    /// # Errors
    /// If the submission cannot be run as asked, or the queue is full.
    pub async fn submit_or_ask(
        &self,
        submission: Submission,
    ) -> Result<SubmitOutcome, SubmitError> {
        let command = submission.program.display();
        let accepted = self.admit(submission, None).await;
        let Err(SubmitError::Rules(AdmissionError::NeedsApproval {
            subject: Some(subject), ..
        })) = &accepted
        else {
            return self.record_result(accepted).map(SubmitOutcome::Job);
        };
        let redactor = self.redactor();
        let rule = subject.rule.clone();
        let masked = |text: &str| redactor.mask_text(text).into_owned();
        let command = masked(&command);
        let cwd = masked(&subject.cwd.to_string_lossy());
        let asked = self
            .service
            .admission
            .approvals
            .open_question(self.caller.tenant, ApprovalSubject::clone(subject));
        // Without random numbers there is no unguessable id, so nobody can be asked.
        let Ok(id) = asked else { return self.record_result(accepted).map(SubmitOutcome::Job) };
        self.count_approval(ApprovalStep::Asked);
        Ok(SubmitOutcome::Ask(ApprovalQuestion { id, command, cwd, rule }))
    }

    /// Accepts a job that the user has approved; `question` is the id of the question. The policy
    /// judges the command again.
    ///
    /// # Errors
    /// If the question was about another run or is not open, and as for [`TenantClient::submit`].
    pub async fn submit_approved(
        &self,
        submission: Submission,
        question: &str,
        consent: Consent,
    ) -> Result<JobHandle, SubmitError> {
        self.submit_answered(None, submission, question, consent).await
    }

    /// Submits with an answered question; `job` is the id that a parked submission already has.
    async fn submit_answered(
        &self,
        job: Option<JobId>,
        submission: Submission,
        question: &str,
        consent: Consent,
    ) -> Result<JobHandle, SubmitError> {
        let approvals = &self.service.admission.approvals;
        let Some(closed) = approvals.close_question(self.caller.tenant, question) else {
            self.count_approval(ApprovalStep::NotAsked);
            return self.record_result(Err(not_asked_error("a rule").into()));
        };
        let approval = Approval { subject: closed.subject, consent, job };
        let accepted = match self.admit(submission, Some(&approval)).await {
            Err(SubmitError::Rules(AdmissionError::NeedsApproval { .. })) => {
                self.count_approval(ApprovalStep::NotAsked);
                Err(not_asked_error(&approval.subject.rule).into())
            }
            accepted => {
                self.count_approval(consent.metric_step());
                accepted
            }
        };
        if accepted.is_ok() && consent == Consent::Tenant {
            approvals.approve_lasting(self.caller.tenant, approval.subject);
        }
        self.record_result(accepted)
    }

    /// Closes a question that was not approved, writes that to the audit log, and returns the error
    /// for the caller.
    #[must_use]
    pub fn decline(&self, question: &str, why: NoConsent) -> SubmitError {
        let admission = &self.service.admission;
        let caller = &self.caller;
        let (step, refused) = match admission.approvals.close_question(caller.tenant, question) {
            Some(ClosedQuestion { subject, open_for }) => {
                let rule = subject.rule;
                let why = why.after(open_for);
                (why.metric_step(), AdmissionError::NotApproved { rule, why })
            }
            None => (ApprovalStep::NotAsked, not_asked_error("a rule")),
        };
        self.count_approval(step);
        admission.write_note(
            "not_approved",
            &format!("{refused} ({} through {})", caller.tenant, caller.client),
        );
        let error = SubmitError::from(refused);
        self.count_rejected(&error);
        error
    }

    fn count_approval(&self, step: ApprovalStep) {
        events::approval_step(self.caller.tenant, step);
    }
}

fn not_asked_error(rule: &str) -> AdmissionError {
    AdmissionError::NotApproved { rule: rule.to_owned(), why: NoConsent::NotAsked }
}

/// The most parked submissions of one tenant, refused ones included; a new one replaces the oldest.
const MAX_PARKED: usize = 20;

/// A submission that waits for approval.
#[derive(Debug, Clone)]
pub struct ParkedSubmission {
    /// The job that the submission becomes if it is approved.
    pub job: JobId,
    pub question: ApprovalQuestion,
    pub since: Instant,
    pub state: ParkedState,
    submission: Submission,
}

/// The state of a parked submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParkedState {
    /// The user has not answered yet.
    Open,
    Refused(SubmitError),
    /// The caller has cancelled the submission.
    Cancelled,
}

/// The parked submissions of each tenant, oldest first.
#[derive(Debug, Default)]
pub(super) struct ParkedSubmissions {
    tenants: Mutex<HashMap<TenantId, VecDeque<ParkedSubmission>>>,
}

impl ParkedSubmissions {
    fn with_tenant<T>(
        &self,
        tenant: TenantId,
        act: impl FnOnce(&mut VecDeque<ParkedSubmission>) -> T,
    ) -> T {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        act(tenants.entry(tenant).or_default())
    }

    fn set_state(&self, job: JobId, state: ParkedState) {
        self.with_tenant(job.tenant(), |parked| {
            if let Some(it) = parked.iter_mut().find(|it| it.job == job) {
                it.state = state;
            }
        });
    }
}

impl TenantClient {
    /// Parks a submission until its question is answered.
    #[must_use]
    pub fn park(&self, mut submission: Submission, question: ApprovalQuestion) -> ParkedSubmission {
        let job = self.service.job_numbers.next_job(self.caller.tenant);
        let since = Instant::now();
        // Resolved now: the answer may come from a caller with another directory.
        let given = self.resolve_directory(submission.cwd, submission.within);
        let start = self.start_directory();
        submission.cwd = Some(given.map_or_else(|| start.clone(), |path| start.join(path)));
        let parked =
            ParkedSubmission { job, question, since, state: ParkedState::Open, submission };
        self.service.parked.with_tenant(job.tenant(), |all| {
            if all.len() == MAX_PARKED {
                all.pop_front();
            }
            all.push_back(parked.clone());
        });
        parked
    }

    /// Returns the parked submission with this job id. One whose question has expired is refused.
    #[must_use]
    pub fn find_parked(&self, job: JobId) -> Option<ParkedSubmission> {
        let find = || {
            let is_it = |it: &&ParkedSubmission| it.job == job;
            self.service
                .parked
                .with_tenant(self.caller.tenant, |all| all.iter().find(is_it).cloned())
        };
        let found = find()?;
        if found.state == ParkedState::Open && found.since.elapsed() >= OPEN_FOR {
            let error = self.decline(&found.question.id, NoConsent::NoAnswer);
            self.service.parked.set_state(job, ParkedState::Refused(error));
            return find();
        }
        Some(found)
    }

    /// Applies the user's answer: the parked submission becomes its job, or is refused.
    pub async fn answer_parked(
        &self,
        parked: ParkedSubmission,
        answer: Result<Consent, NoConsent>,
    ) {
        let ParkedSubmission { job, question, submission, .. } = parked;
        let accepted = match answer {
            Ok(consent) => self.submit_answered(Some(job), submission, &question.id, consent).await,
            Err(why) => Err(self.decline(&question.id, why)),
        };
        match accepted {
            Ok(_) => {
                self.service.parked.with_tenant(job.tenant(), |all| all.retain(|it| it.job != job))
            }
            Err(error) => self.service.parked.set_state(job, ParkedState::Refused(error)),
        }
    }

    /// Cancels a parked submission.
    pub fn cancel_parked(&self, parked: &ParkedSubmission) {
        // The audit log gets the refusal; callers see that the submission was cancelled.
        drop(self.decline(&parked.question.id, NoConsent::Withdrawn));
        self.service.parked.set_state(parked.job, ParkedState::Cancelled);
    }
}
