//! Submissions that need somebody's approval before they become jobs: asked for while the caller
//! waits, or parked under a job number of their own until the approval comes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::admission::AdmissionError;
use super::approval::{Approval, ApprovalQuestion, ApprovalSubject, Consent, NoConsent, OPEN_FOR};
use super::submission::{Submission, SubmitError};
use super::tenant_client::TenantClient;
use crate::ids::{JobId, TenantId};
use crate::job::JobHandle;
use crate::telemetry::{ApprovalStep, events};

/// What became of a submission.
#[derive(Debug)]
pub enum SubmitOutcome {
    /// It is a job.
    Job(JobHandle),
    /// Somebody must be asked first. Nothing was run.
    Ask(ApprovalQuestion),
}

impl TenantClient {
    /// Accepts a job as [`TenantClient::submit`] does. Where a rule wants somebody's yes, it opens a
    /// question instead of refusing.
    ///
    /// # Errors
    /// When the submission cannot be run as asked, or the queue is full.
    pub async fn submit_or_ask(
        &self,
        submission: Submission,
    ) -> Result<SubmitOutcome, SubmitError> {
        let command = submission.program.display();
        let accepted = self.admit(self.placed(submission), None).await;
        let Err(SubmitError::Rules(AdmissionError::NeedsApproval { matter: Some(matter), .. })) =
            &accepted
        else {
            return self.noted(accepted).map(SubmitOutcome::Job);
        };
        let redactor = self.redactor();
        let rule = matter.rule.clone();
        let masked = |text: &str| redactor.mask_text(text).into_owned();
        let command = masked(&command);
        let cwd = masked(&matter.cwd.to_string_lossy());
        let asked =
            self.service.gate.approvals.ask(self.caller.tenant, ApprovalSubject::clone(matter));
        // Without random numbers nobody can be asked.
        let Ok(id) = asked else { return self.noted(accepted).map(SubmitOutcome::Job) };
        self.count_approval(ApprovalStep::Asked);
        Ok(SubmitOutcome::Ask(ApprovalQuestion { id, command, cwd, rule }))
    }

    /// Accepts a job that somebody has agreed to, by the name of the question. It is judged anew.
    ///
    /// # Errors
    /// When the question was about something else or is not open, and as [`TenantClient::submit`] does.
    pub async fn submit_approved(
        &self,
        submission: Submission,
        question: &str,
        consent: Consent,
    ) -> Result<JobHandle, SubmitError> {
        self.submit_as(None, submission, (question, consent)).await
    }

    /// The same, as a job that has its number already.
    pub(super) async fn submit_as(
        &self,
        job: Option<JobId>,
        submission: Submission,
        (question, consent): (&str, Consent),
    ) -> Result<JobHandle, SubmitError> {
        let approvals = &self.service.gate.approvals;
        let Some(matter) = approvals.close(self.caller.tenant, question) else {
            self.count_approval(ApprovalStep::NotAsked);
            return self.noted(Err(not_asked("a rule").into()));
        };
        let approval = Approval { matter, consent, job };
        let accepted = match self.admit(self.placed(submission), Some(&approval)).await {
            Err(SubmitError::Rules(AdmissionError::NeedsApproval { .. })) => {
                self.count_approval(ApprovalStep::NotAsked);
                Err(not_asked(&approval.matter.rule).into())
            }
            accepted => {
                self.count_approval(consent.counted());
                accepted
            }
        };
        if accepted.is_ok() && consent == Consent::Tenant {
            approvals.keep(self.caller.tenant, approval.matter);
        }
        self.noted(accepted)
    }

    /// Closes a question that nobody said yes to; the refusal that says so. It is written down.
    #[must_use]
    pub fn decline(&self, question: &str, why: NoConsent) -> SubmitError {
        let gate = &self.service.gate;
        let caller = &self.caller;
        let (step, refused) = match gate.approvals.close(caller.tenant, question) {
            Some(ApprovalSubject { rule, .. }) => {
                (why.counted(), AdmissionError::NotApproved { rule, why })
            }
            None => (ApprovalStep::NotAsked, not_asked("a rule")),
        };
        self.count_approval(step);
        gate.note(
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

fn not_asked(rule: &str) -> AdmissionError {
    AdmissionError::NotApproved { rule: rule.to_owned(), why: NoConsent::NotAsked }
}

/// Parked submissions of one tenant, those that were refused included; the oldest makes room.
const MAX_PARKED: usize = 20;

/// How a parked submission stands.
#[derive(Debug, Clone)]
pub struct ParkedSubmission {
    /// The job that it becomes.
    pub job: JobId,
    /// What somebody is asked.
    pub question: ApprovalQuestion,
    /// Since when.
    pub since: Instant,
    /// Whether it may still become a job.
    pub fate: ParkedState,
    submission: Submission,
}

/// Whether a parked submission may still become a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParkedState {
    /// Nobody has answered yet.
    Open,
    /// It was refused, and nothing was run.
    Refused(SubmitError),
    /// Whoever wanted it wants it no longer.
    Cancelled,
}

/// All that are parked, by tenant; the oldest first.
#[derive(Debug, Default)]
pub(super) struct Lot {
    tenants: Mutex<HashMap<TenantId, VecDeque<ParkedSubmission>>>,
}

impl Lot {
    fn look<T>(
        &self,
        tenant: TenantId,
        look: impl FnOnce(&mut VecDeque<ParkedSubmission>) -> T,
    ) -> T {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        look(tenants.entry(tenant).or_default())
    }

    fn settle(&self, job: JobId, fate: ParkedState) {
        self.look(job.tenant(), |parked| {
            if let Some(it) = parked.iter_mut().find(|it| it.job == job) {
                it.fate = fate;
            }
        });
    }
}

impl TenantClient {
    /// Parks a submission until its question is answered; the job that it may become.
    #[must_use]
    pub fn park(&self, submission: Submission, question: ApprovalQuestion) -> ParkedSubmission {
        let job = self.service.tenancy.next_job(self.caller.tenant);
        // As it is asked for from here, wherever it is answered from.
        let since = Instant::now();
        let submission = self.placed(submission);
        let parked = ParkedSubmission { job, question, since, fate: ParkedState::Open, submission };
        self.service.lot.look(job.tenant(), |all| {
            if all.len() == MAX_PARKED {
                all.pop_front();
            }
            all.push_back(parked.clone());
        });
        parked
    }

    /// The submission that may become this job. One that nobody answers for too long is refused.
    #[must_use]
    pub fn parked(&self, job: JobId) -> Option<ParkedSubmission> {
        let find = || {
            let is_it = |it: &&ParkedSubmission| it.job == job;
            self.service.lot.look(self.caller.tenant, |all| all.iter().find(is_it).cloned())
        };
        let found = find()?;
        if found.fate == ParkedState::Open && found.since.elapsed() >= OPEN_FOR {
            let error = self.decline(&found.question.id, NoConsent::NoAnswer);
            self.service.lot.settle(job, ParkedState::Refused(error));
            return find();
        }
        Some(found)
    }

    /// What somebody said about a parked submission: it becomes its job, or is refused.
    pub async fn answer_parked(&self, parked: ParkedSubmission, said: Result<Consent, NoConsent>) {
        let ParkedSubmission { job, question, submission, .. } = parked;
        let accepted = match said {
            Ok(consent) => self.submit_as(Some(job), submission, (&question.id, consent)).await,
            Err(why) => Err(self.decline(&question.id, why)),
        };
        match accepted {
            Ok(_) => self.service.lot.look(job.tenant(), |all| all.retain(|it| it.job != job)),
            Err(error) => self.service.lot.settle(job, ParkedState::Refused(error)),
        }
    }

    /// A parked submission becomes no job any more.
    pub fn cancel_parked(&self, parked: &ParkedSubmission) {
        // The refusal is written down; whoever asks is told that it was cancelled.
        drop(self.decline(&parked.question.id, NoConsent::Withdrawn));
        self.service.lot.settle(parked.job, ParkedState::Cancelled);
    }
}
