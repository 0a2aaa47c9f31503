//! Submissions that need somebody's approval before they become jobs: asked for while the caller
//! waits, or parked under a job number of their own until the approval comes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::admission::Refused;
use super::approval::{Approval, Consent, Matter, NoConsent, OPEN_FOR, Question};
use super::submission::{Submission, SubmitError};
use super::tenant_client::Desk;
use crate::ids::{JobId, Tenant};
use crate::job::JobHandle;
use crate::telemetry::{ApprovalStep, events};

/// What became of a submission.
#[derive(Debug)]
pub enum Submitted {
    /// It is a job.
    Job(JobHandle),
    /// Somebody must be asked first. Nothing was run.
    Ask(Question),
}

impl Desk {
    /// Accepts a job as [`Desk::submit`] does. Where a rule wants somebody's yes, it opens a
    /// question instead of refusing.
    ///
    /// # Errors
    /// When the submission cannot be run as asked, or the queue is full.
    pub async fn submit_or_ask(&self, submission: Submission) -> Result<Submitted, SubmitError> {
        let command = submission.program.display();
        let accepted = self.admit(self.placed(submission), None).await;
        let Err(SubmitError::Rules(Refused::NeedsApproval { matter: Some(matter), .. })) =
            &accepted
        else {
            return self.noted(accepted).map(Submitted::Job);
        };
        let redactor = self.redactor();
        let rule = matter.rule.clone();
        let masked = |text: &str| redactor.mask_text(text).into_owned();
        let command = masked(&command);
        let cwd = masked(&matter.cwd.to_string_lossy());
        let asked = self.yard.gate.approvals.ask(self.caller.tenant, Matter::clone(matter));
        // Without random numbers nobody can be asked.
        let Ok(id) = asked else { return self.noted(accepted).map(Submitted::Job) };
        self.count_approval(ApprovalStep::Asked);
        Ok(Submitted::Ask(Question { id, command, cwd, rule }))
    }

    /// Accepts a job that somebody has agreed to, by the name of the question. It is judged anew.
    ///
    /// # Errors
    /// When the question was about something else or is not open, and as [`Desk::submit`] does.
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
        let approvals = &self.yard.gate.approvals;
        let Some(matter) = approvals.close(self.caller.tenant, question) else {
            self.count_approval(ApprovalStep::NotAsked);
            return self.noted(Err(not_asked("a rule").into()));
        };
        let approval = Approval { matter, consent, job };
        let accepted = match self.admit(self.placed(submission), Some(&approval)).await {
            Err(SubmitError::Rules(Refused::NeedsApproval { .. })) => {
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
        let gate = &self.yard.gate;
        let caller = &self.caller;
        let (step, refused) = match gate.approvals.close(caller.tenant, question) {
            Some(Matter { rule, .. }) => (why.counted(), Refused::NotApproved { rule, why }),
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

fn not_asked(rule: &str) -> Refused {
    Refused::NotApproved { rule: rule.to_owned(), why: NoConsent::NotAsked }
}

/// Parked submissions of one tenant, those that were refused included; the oldest makes room.
const MAX_PARKED: usize = 20;

/// How a parked submission stands.
#[derive(Debug, Clone)]
pub struct Parked {
    /// The job that it becomes.
    pub job: JobId,
    /// What somebody is asked.
    pub question: Question,
    /// Since when.
    pub since: Instant,
    /// Whether it may still become a job.
    pub fate: Fate,
    submission: Submission,
}

/// Whether a parked submission may still become a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
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
    tenants: Mutex<HashMap<Tenant, VecDeque<Parked>>>,
}

impl Lot {
    fn look<T>(&self, tenant: Tenant, look: impl FnOnce(&mut VecDeque<Parked>) -> T) -> T {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        look(tenants.entry(tenant).or_default())
    }

    fn settle(&self, job: JobId, fate: Fate) {
        self.look(job.tenant(), |parked| {
            if let Some(it) = parked.iter_mut().find(|it| it.job == job) {
                it.fate = fate;
            }
        });
    }
}

impl Desk {
    /// Parks a submission until its question is answered; the job that it may become.
    #[must_use]
    pub fn park(&self, submission: Submission, question: Question) -> Parked {
        let job = self.yard.tenancy.next_job(self.caller.tenant);
        // As it is asked for from here, wherever it is answered from.
        let since = Instant::now();
        let submission = self.placed(submission);
        let parked = Parked { job, question, since, fate: Fate::Open, submission };
        self.yard.lot.look(job.tenant(), |all| {
            if all.len() == MAX_PARKED {
                all.pop_front();
            }
            all.push_back(parked.clone());
        });
        parked
    }

    /// The submission that may become this job. One that nobody answers for too long is refused.
    #[must_use]
    pub fn parked(&self, job: JobId) -> Option<Parked> {
        let find = || {
            let is_it = |it: &&Parked| it.job == job;
            self.yard.lot.look(self.caller.tenant, |all| all.iter().find(is_it).cloned())
        };
        let found = find()?;
        if found.fate == Fate::Open && found.since.elapsed() >= OPEN_FOR {
            let error = self.decline(&found.question.id, NoConsent::NoAnswer);
            self.yard.lot.settle(job, Fate::Refused(error));
            return find();
        }
        Some(found)
    }

    /// What somebody said about a parked submission: it becomes its job, or is refused.
    pub async fn answer_parked(&self, parked: Parked, said: Result<Consent, NoConsent>) {
        let Parked { job, question, submission, .. } = parked;
        let accepted = match said {
            Ok(consent) => self.submit_as(Some(job), submission, (&question.id, consent)).await,
            Err(why) => Err(self.decline(&question.id, why)),
        };
        match accepted {
            Ok(_) => self.yard.lot.look(job.tenant(), |all| all.retain(|it| it.job != job)),
            Err(error) => self.yard.lot.settle(job, Fate::Refused(error)),
        }
    }

    /// A parked submission becomes no job any more.
    pub fn forget_parked(&self, parked: &Parked) {
        // The refusal is written down; whoever asks is told that it was cancelled.
        drop(self.decline(&parked.question.id, NoConsent::Withdrawn));
        self.yard.lot.settle(parked.job, Fate::Cancelled);
    }
}
