//! Jobs that go on although their client gave up the call that started them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::submission::CallerContext;
use crate::ids::{CallerSession, JobId};

/// The most jobs that wait to be reported, of all callers; beyond that, the oldest are dropped.
const MAX_UNREPORTED: usize = 1000;

/// The sessions of a client in which it is told about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportTo {
    SameSession,
    /// Any session of the same client and tenant: that of the call is closed.
    AnySession,
}

/// Jobs whose calls were given up, until the client has been told about them.
#[derive(Debug, Default)]
pub(super) struct UnreportedJobs(Mutex<VecDeque<UnreportedJob>>);

#[derive(Debug)]
struct UnreportedJob {
    job: JobId,
    client: String,
    /// The session that is told; `None` = any.
    session: Option<CallerSession>,
}

impl UnreportedJob {
    fn is_for(&self, caller: &CallerContext) -> bool {
        let is_session = self.session.as_ref().is_none_or(|session| *session == caller.session);
        is_session && self.job.tenant() == caller.tenant && self.client == caller.client
    }
}

impl UnreportedJobs {
    /// Records that this caller gave up its call and does not know what becomes of the job.
    pub(super) fn add(&self, caller: &CallerContext, job: JobId, to: ReportTo) {
        let session = match to {
            ReportTo::SameSession => Some(caller.session.clone()),
            ReportTo::AnySession => None,
        };
        let unreported = UnreportedJob { job, client: caller.client.clone(), session };
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.len() >= MAX_UNREPORTED {
            jobs.pop_front();
        }
        jobs.push_back(unreported);
    }

    /// Removes the jobs that this caller is told about, and returns them in the order in which their
    /// calls were given up.
    pub(super) fn take(&self, caller: &CallerContext) -> Vec<JobId> {
        let mut taken = Vec::new();
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.retain(|unreported| {
            let is_taken = unreported.is_for(caller);
            taken.extend(is_taken.then_some(unreported.job));
            !is_taken
        });
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::super::tenancy::CallerRole;
    use super::*;
    use crate::ids::TenantId;
    use crate::trace::CallTrace;

    fn caller(client: &str, session: u64) -> CallerContext {
        CallerContext {
            tenant: TenantId::LOCAL,
            role: CallerRole::Run,
            client: client.to_owned(),
            session: CallerSession::Connection(session),
            trace: CallTrace::start(),
        }
    }

    fn add(jobs: &UnreportedJobs, number: u64, session: u64, to: ReportTo) {
        jobs.add(&caller("codex", session), JobId::local(number), to);
    }

    fn take(jobs: &UnreportedJobs, client: &str, session: u64) -> Vec<u64> {
        jobs.take(&caller(client, session)).into_iter().map(|job| job.number()).collect()
    }

    #[test]
    fn a_job_is_reported_once_to_the_session_of_its_call() {
        let jobs = UnreportedJobs::default();
        add(&jobs, 1, 7, ReportTo::SameSession);
        assert_eq!(take(&jobs, "codex", 8), [0_u64; 0], "another session");
        assert_eq!(take(&jobs, "gemini", 7), [0_u64; 0], "another client");
        assert_eq!(take(&jobs, "codex", 7), [1]);
        assert_eq!(take(&jobs, "codex", 7), [0_u64; 0], "once");
    }

    #[test]
    fn the_jobs_of_a_closed_session_are_reported_to_the_next_one_of_the_client() {
        let jobs = UnreportedJobs::default();
        add(&jobs, 1, 7, ReportTo::AnySession);
        add(&jobs, 2, 7, ReportTo::AnySession);
        assert_eq!(take(&jobs, "gemini", 8), [0_u64; 0], "another client");
        assert_eq!(take(&jobs, "codex", 8), [1, 2]);
    }

    #[test]
    fn their_number_is_bounded() {
        let jobs = UnreportedJobs::default();
        for number in 1..=MAX_UNREPORTED as u64 + 1 {
            add(&jobs, number, 7, ReportTo::AnySession);
        }
        let left = take(&jobs, "codex", 8);
        assert_eq!((left.len(), left[0]), (MAX_UNREPORTED, 2), "the oldest is dropped");
    }
}
