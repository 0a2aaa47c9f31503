//! Jobs that go on although their client gave up the call that started them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use super::submission::CallerContext;
use crate::ids::{CallerSession, JobId, TenantId};

/// The most jobs that wait to be reported, of all callers; beyond that, the tenant that has most
/// loses its oldest.
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

#[derive(Debug, PartialEq, Eq)]
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
        // Several calls may have waited for the same job.
        jobs.retain(|known| *known != unreported);
        if jobs.len() >= MAX_UNREPORTED {
            drop_oldest(&mut jobs);
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

/// Removes the oldest job of the tenant that has most, so that no tenant takes the room of others.
fn drop_oldest(jobs: &mut VecDeque<UnreportedJob>) {
    let mut counts: HashMap<TenantId, usize> = HashMap::new();
    for unreported in &*jobs {
        *counts.entry(unreported.job.tenant()).or_default() += 1;
    }
    let most = counts.values().max().copied();
    let oldest = jobs.iter().position(|it| counts.get(&it.job.tenant()).copied() == most);
    oldest.and_then(|index| jobs.remove(index));
}

#[cfg(test)]
mod tests {
    use super::super::tenancy::CallerRole;
    use super::*;
    use crate::ids::JobNumber;
    use crate::trace::CallTrace;

    fn caller(client: &str, session: u64) -> CallerContext {
        CallerContext {
            tenant: TenantId::LOCAL,
            role: CallerRole::Run,
            client: client.to_owned(),
            client_version: None,
            directory: None,
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

    #[test]
    fn a_tenant_with_many_takes_the_room_of_no_other() {
        let jobs = UnreportedJobs::default();
        let other = TenantId::parse("unreported-other").unwrap();
        let quiet = CallerContext { tenant: other, ..caller("codex", 1) };
        jobs.add(&quiet, JobNumber::new(1).for_tenant(other), ReportTo::AnySession);
        for number in 1..=2 * MAX_UNREPORTED as u64 {
            add(&jobs, number, 7, ReportTo::AnySession);
        }
        assert_eq!(jobs.take(&quiet).len(), 1, "the oldest of all, but of another tenant");
        assert_eq!(take(&jobs, "codex", 8).len(), MAX_UNREPORTED - 1);
    }

    #[test]
    fn a_job_that_several_calls_waited_for_is_reported_once() {
        let jobs = UnreportedJobs::default();
        for number in [1, 2, 1] {
            add(&jobs, number, 7, ReportTo::SameSession);
        }
        assert_eq!(take(&jobs, "codex", 7), [2, 1]);
    }
}
