//! What stays of a job for those who come back for its output: its ticket, and its packed form.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::desk::Desk;
use super::submission::{Submission, SubmitError};
use super::ticket::Tickets;
use crate::ids::JobId;
use crate::job::JobHandle;
use crate::output::{GzipError, Gzipped, SpillDir, gzip};
use crate::spec::Stream;

/// Gzipped forms that are kept; an older one is made anew when it is asked for again.
const MAX_PACKED: usize = 8;

/// Tickets, and the newest packed forms.
#[derive(Debug)]
pub(super) struct Spilled {
    tickets: Tickets,
    /// Where packed forms go.
    dir: SpillDir,
    /// The newest last. The lock is never held while something is packed.
    packed: Mutex<VecDeque<Kept>>,
}

#[derive(Debug, Clone)]
struct Kept {
    job: JobId,
    stream: Stream,
    packed: Arc<Gzipped>,
}

impl Spilled {
    pub(super) fn new(dir: SpillDir) -> Result<Self, getrandom::Error> {
        Ok(Self { tickets: Tickets::new()?, dir, packed: Mutex::default() })
    }

    /// What is packed was masked by the rules of its time.
    pub(super) fn forget_packed(&self) {
        self.packed.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn kept(&self, job: JobId, stream: Stream) -> Option<Arc<Gzipped>> {
        let packed = self.packed.lock().unwrap_or_else(PoisonError::into_inner);
        let found = packed.iter().find(|kept| kept.job == job && kept.stream == stream);
        found.map(|kept| Arc::clone(&kept.packed))
    }

    fn keep(&self, kept: Kept) {
        let mut packed = self.packed.lock().unwrap_or_else(PoisonError::into_inner);
        if packed.len() == MAX_PACKED {
            packed.pop_front();
        }
        packed.push_back(kept);
    }
}

impl Desk {
    /// A name for a job that nobody can guess: digits, a `-` and hexadecimal digits. It holds as
    /// long as this server runs and the job is kept.
    #[must_use]
    pub fn ticket(&self, job: JobId) -> String {
        self.yard.spilled.tickets.of(job)
    }

    /// The job that a ticket names, if it is still kept.
    pub async fn redeem(&self, ticket: &str) -> Option<JobHandle> {
        self.find(self.yard.spilled.tickets.job_of(self.caller.tenant, ticket)?).await.ok()
    }

    /// The same with two numbers that travel along.
    #[must_use]
    pub fn ticket_carrying(&self, job: JobId, numbers: [u64; 2]) -> String {
        self.yard.spilled.tickets.carrying(job, numbers)
    }

    /// The job that such a ticket names, whether it is kept or not, and the numbers.
    #[must_use]
    pub fn carried(&self, ticket: &str) -> Option<(JobId, [u64; 2])> {
        self.yard.spilled.tickets.carried(self.caller.tenant, ticket)
    }

    /// The jobs that were asked for with the same words (program, directory and
    /// variables), newest first.
    ///
    /// # Errors
    /// When the submission could not be run at all.
    pub async fn list_like(&self, submission: &Submission) -> Result<Vec<JobHandle>, SubmitError> {
        let wanted =
            self.placed(submission.clone()).complete(&self.yard.defaults(), &self.caller)?;
        let is_same = |job: &JobHandle| {
            let spec = job.spec();
            (&spec.program, &spec.cwd, &spec.env) == (&wanted.program, &wanted.cwd, &wanted.env)
        };
        Ok(self.list().await.into_iter().filter(is_same).collect())
    }

    /// What a job wrote to a stream, as gzip data with its secrets masked.
    ///
    /// # Errors
    /// When there is too much of it, or a file could not be read or written.
    pub async fn packed(&self, job: &JobHandle, stream: Stream) -> Result<Arc<Gzipped>, GzipError> {
        if let Some(packed) = self.yard.spilled.kept(job.id(), stream) {
            return Ok(packed);
        }
        let (redactor, dir) = (self.redactor(), &self.yard.spilled.dir);
        let packed = Arc::new(gzip(job.output(), stream, &redactor, dir).await?);
        self.yard.spilled.keep(Kept { job: job.id(), stream, packed: Arc::clone(&packed) });
        Ok(packed)
    }
}
