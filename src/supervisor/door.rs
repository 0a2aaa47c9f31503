//! The door of the supervisor room.

use ractor::{Actor, ActorRef, SpawnErr, call};
use thiserror::Error;

use super::actor::{SupervisorActor, SupervisorMsg, SupervisorSettings};
use super::queue::QueuePlace;
use crate::ids::JobId;
use crate::job::{JobHandle, StopWish};
use crate::process::OpenedDir;
use crate::spec::Spec;

/// A handle on the supervisor. A cheap clone.
#[derive(Debug, Clone)]
pub struct Supervisor {
    actor: ActorRef<SupervisorMsg>,
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

/// Why a job was not accepted. Nothing of it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The queue is at its bound.
    #[error("the queue is full: {limit} jobs wait already; try again when some have finished")]
    QueueFull {
        /// How many may wait.
        limit: usize,
    },
    /// The server is on its way out.
    #[error("the server is shutting down and takes no new jobs; submit to another or try later")]
    Draining,
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
    /// When the queue is full or the server is draining.
    pub async fn submit(&self, admission: Admission) -> Result<JobHandle, Refusal> {
        call!(self.actor, SupervisorMsg::Submit, Box::new(admission))
            .unwrap_or(Err(Refusal::Draining))
    }

    /// The job with this number.
    pub async fn find(&self, id: JobId) -> Option<JobHandle> {
        call!(self.actor, SupervisorMsg::Find, id).ok().flatten()
    }

    /// The job that was submitted under this key.
    pub async fn find_key(&self, key: String) -> Option<JobHandle> {
        call!(self.actor, SupervisorMsg::FindKey, key).ok().flatten()
    }

    /// All jobs that are known, newest first.
    pub async fn list(&self) -> Vec<JobHandle> {
        call!(self.actor, SupervisorMsg::List).unwrap_or_default()
    }

    /// Begins the end of a job, waiting or running; nothing when there is no such job.
    pub async fn stop(&self, id: JobId, wish: StopWish) -> Option<JobHandle> {
        call!(self.actor, SupervisorMsg::Stop, id, wish).ok().flatten()
    }

    /// Where a waiting job stands; nothing once it has started.
    pub async fn place(&self, id: JobId) -> Option<QueuePlace> {
        call!(self.actor, SupervisorMsg::Place, id).ok().flatten()
    }

    /// From now on nothing is accepted, and what waits is ended. Gives the jobs that run, or
    /// left survivors.
    pub async fn close(&self) -> Vec<JobHandle> {
        call!(self.actor, SupervisorMsg::Close).unwrap_or_default()
    }
}
