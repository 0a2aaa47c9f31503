//! The door of the supervisor room.

use std::time::{Duration, SystemTime};

use ractor::{Actor, ActorRef, SpawnErr, call};
use thiserror::Error;
use tokio::sync::watch;

use super::actor::{SupervisorActor, SupervisorMsg, SupervisorSettings};
use super::freed::{Freed, InWords};
use super::pressure::PressureWatch;
use super::queue::QueuePlace;
use super::refusal::Refusal;
use super::sampler::Sampler;
use crate::ids::{JobId, Tenant};
use crate::job::{JobHandle, StopWish};
#[cfg(test)]
use crate::output::Shortage;
use crate::process::OpenedDir;
use crate::spec::Spec;
use crate::telemetry::audit::rfc3339;

/// A handle on the supervisor. A cheap clone.
#[derive(Debug, Clone)]
pub struct Supervisor {
    pub(super) actor: ActorRef<SupervisorMsg>,
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
}

impl FindError {
    /// The stable word that clients may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_job",
            Self::Freed { .. } => "job_freed",
        }
    }

    /// The job that was asked for.
    #[must_use]
    pub const fn id(&self) -> JobId {
        match self {
            Self::Unknown { id } | Self::Freed { id, .. } => *id,
        }
    }
}

impl Supervisor {
    /// Starts the supervisor.
    ///
    /// # Errors
    /// When the actor could not be made.
    pub async fn start(settings: SupervisorSettings) -> Result<Self, SpawnErr> {
        let (actor, _) = Actor::spawn(None, SupervisorActor, settings).await?;
        Ok(Self { actor })
    }

    /// Accepts a job, or says why not.
    ///
    /// # Errors
    /// When a bound is reached or the server takes no new jobs.
    pub async fn submit(&self, admission: Admission) -> Result<JobHandle, Refusal> {
        call!(self.actor, SupervisorMsg::Submit, Box::new(admission))
            .unwrap_or(Err(Refusal::Closed))
    }

    /// The job with this number.
    ///
    /// # Errors
    /// When there is none, or no longer.
    pub async fn find(&self, id: JobId) -> Result<JobHandle, FindError> {
        call!(self.actor, SupervisorMsg::Find, id).unwrap_or(Err(FindError::Unknown { id }))
    }

    /// The tenant's job that was submitted under this key.
    pub async fn find_key(&self, tenant: Tenant, key: String) -> Option<JobHandle> {
        call!(self.actor, SupervisorMsg::FindKey, tenant, key).ok().flatten()
    }

    /// The jobs of a tenant that are known, or those of all, newest first.
    pub async fn list(&self, tenant: Option<Tenant>) -> Vec<JobHandle> {
        call!(self.actor, SupervisorMsg::List, tenant).unwrap_or_default()
    }

    /// Begins the end of a job, waiting or running.
    ///
    /// # Errors
    /// When there is no such job, or no longer.
    pub async fn stop(&self, id: JobId, wish: StopWish) -> Result<JobHandle, FindError> {
        call!(self.actor, SupervisorMsg::Stop, id, wish).unwrap_or(Err(FindError::Unknown { id }))
    }

    /// Where a waiting job stands; nothing once it has started.
    pub async fn place(&self, id: JobId) -> Option<QueuePlace> {
        call!(self.actor, SupervisorMsg::Place, id).ok().flatten()
    }

    /// Frees the oldest finished jobs that store anything, until they have given back so many
    /// bytes or there are none left. Does not wait for it.
    #[cfg(test)]
    pub(crate) fn sweep_for(&self, bytes: u64) {
        let (reply, _) = ractor::concurrency::oneshot();
        let shortages = vec![Shortage { tenant: None, bytes }];
        self.actor.cast(SupervisorMsg::MakeRoom(shortages, reply.into())).ok();
    }

    /// Watches the system's pressure from now on, and holds starts back by it.
    pub fn watch_pressure(&self, wishes: watch::Receiver<PressureWatch>) {
        tokio::spawn(Sampler::new(self.clone(), wishes).run());
    }

    /// From now on nothing is accepted, and what waits is ended. Gives the jobs that run, or
    /// left survivors.
    pub async fn close(&self) -> Vec<JobHandle> {
        call!(self.actor, SupervisorMsg::Close).unwrap_or_default()
    }
}
