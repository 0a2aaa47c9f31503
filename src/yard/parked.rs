//! Submissions that wait for somebody's yes while nobody waits for them: each has its job's number
//! already, and becomes that job when the yes comes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::approval::{Consent, NoConsent, OPEN_FOR, Question};
use super::desk::Desk;
use super::submission::{Submission, SubmitError};
use crate::ids::{JobId, Tenant};

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
        let (since, submission) = (Instant::now(), self.placed(submission));
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
