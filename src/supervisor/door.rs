//! The door of the supervisor room.

use std::fmt;
use std::time::{Duration, SystemTime};

use ractor::{Actor, SpawnErr};
use thiserror::Error;
use tokio::sync::watch;

use super::actor::{SupervisorMsg, SupervisorSettings};
use super::address::Post;
use super::freed::{Freed, InWords};
use super::pressure::PressureWatch;
use super::queue::QueuePlace;
use super::refusal::Refusal;
use super::sampler::Sampler;
use super::warden::Warden;
use crate::ids::{JobId, Tenant};
use crate::job::{JobHandle, StopWish};
use crate::outcome::Ending;
#[cfg(test)]
use crate::output::Shortage;
use crate::process::OpenedDir;
use crate::spec::Spec;
use crate::telemetry::audit::rfc3339;

/// A handle on the supervisor. A cheap clone.
#[derive(Debug, Clone)]
pub struct Supervisor {
    pub(super) post: Post,
}

/// A job that asks to be accepted.
#[derive(Debug)]
pub struct Admission {
    /// The number that it shall have.
    pub id: JobId,
    /// What to run.
    pub spec: Spec,
    /// The directory to run it in, where that is open already.
    pub cwd: Option<OpenedDir>,
    /// A name for this wish: the same key never runs twice.
    pub key: Option<String>,
    /// The command as it may be logged.
    pub logged: String,
    /// What is to be done when it has ended.
    pub at_end: Option<AtEnd>,
}

/// What is to be done when a job has ended, by whoever wanted it to run. It takes but a moment.
pub struct AtEnd(Box<Act>);

type Act = dyn FnOnce(&JobHandle, &Ending) + Send;

impl AtEnd {
    /// This.
    #[must_use]
    pub fn new(act: impl FnOnce(&JobHandle, &Ending) + Send + 'static) -> Self {
        Self(Box::new(act))
    }

    pub(super) fn carry_out(self, job: &JobHandle, ending: &Ending) {
        (self.0)(job, ending);
    }
}

impl fmt::Debug for AtEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AtEnd")
    }
}

/// Why a job cannot be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FindError {
    /// There never was such a job, or it was freed so long ago that nobody remembers.
    #[error("there is no job {id}; list_jobs shows the jobs there are")]
    Unknown {
        /// What was asked for.
        id: JobId,
    },
    /// It had finished and is gone, with its output.
    #[error(
        "job {id} was freed {} ago ({}): {why}; run it again if it is still needed",
        InWords(Duration::from_secs(ago.as_secs())),
        rfc3339(*at)
    )]
    Freed {
        /// What was asked for.
        id: JobId,
        /// When it was freed.
        at: SystemTime,
        /// How long ago that is.
        ago: Duration,
        /// Why.
        why: Freed,
    },
    /// The supervisor fails, so that nobody can tell.
    #[error("nobody can tell about job {id}: the server's supervisor failed; restart the server")]
    Unavailable {
        /// What was asked for.
        id: JobId,
    },
}

impl FindError {
    /// The stable word that clients may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_job",
            Self::Freed { .. } => "job_freed",
            Self::Unavailable { .. } => "unavailable",
        }
    }

    /// The job that was asked for.
    #[must_use]
    pub const fn id(&self) -> JobId {
        match self {
            Self::Unknown { id } | Self::Freed { id, .. } | Self::Unavailable { id } => *id,
        }
    }
}

impl Supervisor {
    /// Starts the supervisor. Should it fail, it is started again, a few times.
    ///
    /// # Errors
    /// When the actor could not be made.
    pub async fn start(settings: SupervisorSettings) -> Result<Self, SpawnErr> {
        let (appoint, post) = Post::open();
        Actor::spawn(None, Warden, (settings, appoint, post.clone())).await?;
        Ok(Self { post })
    }

    /// Returns once the supervisor has failed so often that it is not started any more.
    pub async fn given_up(&self) {
        self.post.given_up().await;
    }

    /// Accepts a job, or says why not.
    ///
    /// # Errors
    /// When a bound is reached or the server takes no new jobs.
    pub async fn submit(&self, admission: Admission) -> Result<JobHandle, Refusal> {
        let (id, admission) = (admission.id, Box::new(admission));
        let accepted = self.post.ask_once(|reply| SupervisorMsg::Submit(admission, reply)).await;
        match accepted {
            Some(accepted) => accepted,
            // Where it was accepted before the failure, it is known, as lost.
            None => self.find(id).await.map_err(|_| Refusal::Interrupted),
        }
    }

    /// The job with this number.
    ///
    /// # Errors
    /// When there is none, or no longer.
    pub async fn find(&self, id: JobId) -> Result<JobHandle, FindError> {
        let found = self.post.ask(|reply| SupervisorMsg::Find(id, reply)).await;
        found.unwrap_or(Err(FindError::Unavailable { id }))
    }

    /// The tenant's job that was submitted under this key.
    pub async fn find_key(&self, tenant: Tenant, key: String) -> Option<JobHandle> {
        let find = |reply| SupervisorMsg::FindKey(tenant, key.clone(), reply);
        self.post.ask(find).await.flatten()
    }

    /// The jobs of a tenant that are known, or those of all, newest first.
    pub async fn list(&self, tenant: Option<Tenant>) -> Vec<JobHandle> {
        self.post.ask(|reply| SupervisorMsg::List(tenant, reply)).await.unwrap_or_default()
    }

    /// Begins the end of a job, waiting or running.
    ///
    /// # Errors
    /// When there is no such job, or no longer.
    pub async fn stop(&self, id: JobId, wish: StopWish) -> Result<JobHandle, FindError> {
        let stopped = self.post.ask(|reply| SupervisorMsg::Stop(id, wish, reply)).await;
        stopped.unwrap_or(Err(FindError::Unavailable { id }))
    }

    /// Where a waiting job stands; nothing once it has started.
    pub async fn place(&self, id: JobId) -> Option<QueuePlace> {
        self.post.ask(|reply| SupervisorMsg::Place(id, reply)).await.flatten()
    }

    /// Frees the oldest finished jobs that store anything, until they have given back so many
    /// bytes or there are none left. Does not wait for it.
    #[cfg(test)]
    pub(crate) fn sweep_for(&self, bytes: u64) {
        let (reply, _) = ractor::concurrency::oneshot();
        let shortages = vec![Shortage { tenant: None, bytes }];
        self.post.mention(SupervisorMsg::MakeRoom(shortages, reply.into()));
    }

    /// Watches the system's pressure from now on, and holds starts back by it.
    pub fn watch_pressure(&self, wishes: watch::Receiver<PressureWatch>) {
        tokio::spawn(Sampler::new(self.clone(), wishes).run());
    }

    /// From now on nothing is accepted, and what waits is ended. Gives the jobs that run, or
    /// left survivors.
    pub async fn close(&self) -> Vec<JobHandle> {
        self.post.ask(SupervisorMsg::Close).await.unwrap_or_default()
    }
}
