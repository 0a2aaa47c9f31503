//! Submissions that need somebody's yes.

use super::approval::{Approval, Consent, Matter, NoConsent, Question};
use super::desk::Desk;
use super::refused::Refused;
use super::submission::{Submission, SubmitError};
use crate::ids::JobId;
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
        let (redactor, rule) = (self.redactor(), matter.rule.clone());
        let masked = |text: &str| redactor.mask_text(text).into_owned();
        let (command, cwd) = (masked(&command), masked(&matter.cwd.to_string_lossy()));
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
        let (gate, caller) = (&self.yard.gate, &self.caller);
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
        events::approval(self.caller.tenant, step);
    }
}

fn not_asked(rule: &str) -> Refused {
    Refused::NotApproved { rule: rule.to_owned(), why: NoConsent::NotAsked }
}
