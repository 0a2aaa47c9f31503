//! Jobs that go on although their client gave up the call that started them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::submission::CallerContext;
use super::tenant_client::TenantClient;
use crate::ids::{CallerSession, JobId};
use crate::job::JobHandle;

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
    fn add(&self, unreported: UnreportedJob) {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.len() >= MAX_UNREPORTED {
            jobs.pop_front();
        }
        jobs.push_back(unreported);
    }

    /// Removes the jobs that this caller is told about, and returns them in the order in which their
    /// calls were given up.
    fn take(&self, caller: &CallerContext) -> Vec<JobId> {
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

impl TenantClient {
    /// Records that this caller gave up its call and does not know what becomes of the job.
    pub fn report_later(&self, job: JobId, to: ReportTo) {
        let session = match to {
            ReportTo::SameSession => Some(self.caller.session.clone()),
            ReportTo::AnySession => None,
        };
        let client = self.caller.client.clone();
        self.service.unreported.add(UnreportedJob { job, client, session });
    }

    /// Returns the jobs that [`TenantClient::report_later`] recorded for this caller and that are
    /// still kept; each is returned once.
    pub async fn take_unreported(&self) -> Vec<JobHandle> {
        let mut known = Vec::new();
        for job in self.service.unreported.take(&self.caller) {
            known.extend(self.service.supervisor.find(job).await);
        }
        known
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

    fn unreported(number: u64, session: Option<u64>) -> UnreportedJob {
        let session = session.map(CallerSession::Connection);
        UnreportedJob { job: JobId::local(number), client: "codex".to_owned(), session }
    }

    fn take(jobs: &UnreportedJobs, client: &str, session: u64) -> Vec<u64> {
        jobs.take(&caller(client, session)).into_iter().map(|job| job.number()).collect()
    }

    #[test]
    fn a_job_is_reported_once_to_the_session_of_its_call() {
        let jobs = UnreportedJobs::default();
        jobs.add(unreported(1, Some(7)));
        assert_eq!(take(&jobs, "codex", 8), [0_u64; 0], "another session");
        assert_eq!(take(&jobs, "gemini", 7), [0_u64; 0], "another client");
        assert_eq!(take(&jobs, "codex", 7), [1]);
        assert_eq!(take(&jobs, "codex", 7), [0_u64; 0], "once");
    }

    #[test]
    fn the_jobs_of_a_closed_session_are_reported_to_the_next_one_of_the_client() {
        let jobs = UnreportedJobs::default();
        jobs.add(unreported(1, None));
        jobs.add(unreported(2, None));
        assert_eq!(take(&jobs, "gemini", 8), [0_u64; 0], "another client");
        assert_eq!(take(&jobs, "codex", 8), [1, 2]);
    }

    #[test]
    fn their_number_is_bounded() {
        let jobs = UnreportedJobs::default();
        for number in 1..=MAX_UNREPORTED as u64 + 1 {
            jobs.add(unreported(number, None));
        }
        let left = take(&jobs, "codex", 8);
        assert_eq!((left.len(), left[0]), (MAX_UNREPORTED, 2), "the oldest is dropped");
    }
}
