//! The state of the model.

use std::collections::{BTreeMap, BTreeSet};

use super::design::{BrokenRule, Design};

/// The number of a job, from 1.
pub(crate) type Number = u8;

/// The ending of a job as the journal has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ModelEnding {
    Code(u8),
    /// Killed, and the shim gave no cause.
    Signaled,
    Stopped,
    TimedOut,
    /// Stopped while it waited for a slot.
    NotRun,
    FailedToStart,
    Lost,
}

/// One record of the journal. A crash in the middle of a write leaves no record: the next start
/// cuts a torn one off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ModelRecord {
    Accepted { number: Number, key: Option<u8> },
    Queued(Number),
    Starting(Number),
    Started(Number),
    Ended { number: Number, ending: ModelEnding, bytes: u8 },
    Freed(Number),
}

/// The first process of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ModelLeader {
    NotStarted,
    Alive,
    /// Ended by itself, or by the signal that asked it to.
    Exited,
    Killed,
}

/// The shim of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ModelStage {
    /// The keeper was asked for the shim. The message, and the plan of the job, wait in their connections.
    Asked,
    /// The shim exists, and the keeper holds the server's end of its connection.
    Forked,
    /// The leader could not be started.
    Failed,
    /// The leader was started.
    Started,
    /// The shim was killed.
    Killed,
    /// The shim has exited: it was released, or its keeper is gone.
    Gone,
}

/// The reason for which a shim ends its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ModelCause {
    Stop,
    Deadline,
}

/// The progress of an ending in a shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ModelKill {
    NotBegun,
    /// A signal was sent, and SIGKILL follows.
    Grace,
    Killed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ModelShim {
    pub(crate) stage: ModelStage,
    /// A stop that waits in the connection.
    pub(crate) has_order: bool,
    pub(crate) kill: ModelKill,
    /// The first cause that came before the leader had ended.
    pub(crate) cause: Option<ModelCause>,
    /// The input that the job has not read.
    pub(crate) input: u8,
    /// The number of signals that were sent because of a stop.
    pub(crate) stop_signals: u8,
    /// The keeper that forked it is gone.
    pub(crate) is_orphan: bool,
}

/// Everything of a job that exists outside the memory of the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ModelJob {
    /// The request that it came from.
    pub(crate) request: u8,
    /// It got a slot when the server took the request; otherwise it waits for one.
    pub(crate) starts_at_once: bool,
    pub(crate) shim: Option<ModelShim>,
    pub(crate) leader: ModelLeader,
    /// A process of the job that outlives the leader is alive.
    pub(crate) has_leftover: bool,
    /// The deadline came while the leader was alive, and nothing was ending it.
    pub(crate) is_late: bool,
    /// The number of bytes of input that the job has read.
    pub(crate) read: u8,
    pub(crate) written: u8,
    pub(crate) pipe: u8,
    pub(crate) file: u8,
    pub(crate) is_file_removed: bool,
}

/// The progress of a client's request to stop its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum ModelStop {
    #[default]
    NotSent,
    /// The server has not answered. A crash ends that, and the client gives up.
    Sent,
    Acked,
    GivenUp,
}

/// The client's knowledge of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct ModelRequest {
    /// The server has the request and has not answered it. A crash ends that, and the client sends
    /// the request again, with the same key.
    pub(crate) in_flight: Option<Number>,
    pub(crate) acked: Option<Number>,
    /// The reply said that the job waits for a slot.
    pub(crate) heard_of_wait: bool,
    /// A crash came before the answer, and the request has no key to repeat it by.
    pub(crate) is_given_up: bool,
    pub(crate) was_shown_running: bool,
    pub(crate) stop: ModelStop,
    pub(crate) bytes_seen: u8,
    pub(crate) ending_seen: Option<ModelEnding>,
}

/// The phase of a job in the memory of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ModelPhase {
    Accepting,
    /// `accepted` is in the journal.
    Accepted,
    /// `queued` is in the journal.
    Queued,
    /// `starting` is in the journal, and the keeper was not asked for the shim.
    Starting,
    /// The start failed before the keeper was asked for the shim.
    Refused,
    /// `starting` is in the journal, and the server waits for the shim's word.
    Asked,
    /// The shim has started the leader; `taken` bytes are in the memory of the server alone. `ending` is
    /// what the shim says of the leader's end.
    Running {
        taken: u8,
        ending: Option<ModelEnding>,
    },
    /// `ended` is in the journal.
    Ended {
        ending: ModelEnding,
        is_released: bool,
    },
    Freed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct ModelServer {
    pub(crate) jobs: BTreeMap<Number, ModelPhase>,
    /// The jobs that wait for a slot, the next one first.
    pub(crate) queue: Vec<Number>,
    /// The stops that were neither ordered nor recorded as an ending.
    pub(crate) stops: BTreeSet<Number>,
    /// The input that a broken design has not given to the shim.
    pub(crate) input: BTreeMap<Number, u8>,
    /// The jobs of which a broken design misses the shim's next word.
    pub(crate) deaf: BTreeSet<Number>,
    /// Another server is to take over: no job is accepted, started or stopped.
    pub(crate) is_handing_over: bool,
}

/// The keeper: the jobs whose shims it holds for the next server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct ModelKeeper {
    pub(crate) held: BTreeSet<Number>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) requests: Vec<ModelRequest>,
    pub(crate) jobs: BTreeMap<Number, ModelJob>,
    pub(crate) journal: Vec<ModelRecord>,
    pub(crate) server: Option<ModelServer>,
    pub(crate) keeper: Option<ModelKeeper>,
    /// Requests in the order in which the keeper was asked for their shims.
    pub(crate) created: Vec<u8>,
    /// A shim lives on for a job that no server knows.
    pub(crate) has_stray: bool,
    pub(crate) server_crashes: u8,
    pub(crate) keeper_crashes: u8,
    pub(crate) shim_crashes: u8,
    pub(crate) upgrades: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelStep {
    Server(ServerStep),
    Outside(OutsideStep),
    Life(LifeStep),
}

/// A step of the server, or of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerStep {
    Receive(u8),
    WriteAccepted(Number),
    WriteQueued(Number),
    Ack(u8),
    WriteStarting(Number),
    AskForShim(Number),
    RefuseStart(Number),
    HearStart(Number),
    HearFailure(Number),
    ShowRunning(Number),
    SendInput(Number),
    Splice(Number),
    Read(Number),
    WriteFile(Number),
    Publish(Number),
    HearEnd(Number),
    HearShimLost(Number),
    StopLate(Number),
    WriteEnded(Number),
    ShowEnding(Number),
    Release(Number),
    WriteFreed(Number),
    RemoveFile(Number),
    SendStop(u8),
    GiveStop(Number),
    AckStop(u8),
}

/// A step of the keeper, of a shim or of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutsideStep {
    KeeperForks(Number),
    KeeperKillsStrays(Number),
    ShimStartsLeader(Number),
    ShimFailsToStart(Number),
    ShimTakesStop(Number),
    ShimKills(Number),
    TimeIsUp(Number),
    JobReads(Number),
    JobWrites(Number),
    LeaderExits(Number),
    LeftoverExits(Number),
}

/// The start or the end of a server, a keeper or a shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LifeStep {
    ShimCrash(Number),
    ServerCrash,
    KeeperCrash,
    ShimsEndWithKeeper,
    BeginHandOver,
    HandOver,
    ServerEndsWithKeeper,
    KeeperRestartsServer,
    NextStart,
}

/// The exit code with which the leader of a job really ends.
pub(crate) const fn true_code(number: Number) -> u8 {
    10 + number
}

impl ModelShim {
    /// Returns a shim that the keeper was asked for, with this much input.
    pub(super) const fn new_asked(input: u8) -> Self {
        Self {
            stage: ModelStage::Asked,
            has_order: false,
            kill: ModelKill::NotBegun,
            cause: None,
            input,
            stop_signals: 0,
            is_orphan: false,
        }
    }

    /// `true` if the shim carries out orders, or will.
    pub(super) const fn is_there(&self) -> bool {
        match self.stage {
            ModelStage::Asked | ModelStage::Forked | ModelStage::Failed | ModelStage::Started => {
                true
            }
            ModelStage::Killed | ModelStage::Gone => false,
        }
    }
}

impl ModelJob {
    pub(super) fn stage(&self) -> Option<ModelStage> {
        self.shim.map(|shim| shim.stage)
    }

    /// `true` if a process of the job is alive.
    pub(crate) fn is_alive(&self) -> bool {
        self.leader == ModelLeader::Alive || self.has_leftover
    }

    /// `true` if a process of the job is alive, or will be.
    pub(crate) fn may_live(&self) -> bool {
        let may_start = matches!(self.stage(), Some(ModelStage::Asked | ModelStage::Forked));
        may_start || self.is_alive()
    }

    /// `true` if the shim says that the tree is over.
    pub(super) fn is_over(&self, design: &Design) -> bool {
        let is_left = self.has_leftover && !design.breaks(BrokenRule::EndBeforeEchild);
        match self.stage() {
            Some(ModelStage::Failed) => true,
            Some(ModelStage::Started) => self.leader != ModelLeader::Alive && !is_left,
            Some(
                ModelStage::Asked | ModelStage::Forked | ModelStage::Killed | ModelStage::Gone,
            )
            | None => false,
        }
    }

    /// Returns what the shim says of the leader's end; `None` while the leader has not ended.
    pub(super) fn reported_ending(&self, design: &Design, number: Number) -> Option<ModelEnding> {
        if design.breaks(BrokenRule::GuessStatus) && self.leader == ModelLeader::Exited {
            return Some(ModelEnding::Code(0));
        }
        let shim = self.shim.filter(|shim| shim.stage == ModelStage::Started)?;
        let by_itself = match self.leader {
            ModelLeader::NotStarted | ModelLeader::Alive => return None,
            ModelLeader::Exited => ModelEnding::Code(true_code(number)),
            ModelLeader::Killed => ModelEnding::Signaled,
        };
        let cause = shim.cause.filter(|_| !design.breaks(BrokenRule::ForgetCause));
        Some(cause.map_or(by_itself, |cause| match cause {
            ModelCause::Stop => ModelEnding::Stopped,
            ModelCause::Deadline => ModelEnding::TimedOut,
        }))
    }
}

impl World {
    pub(crate) fn new(design: &Design) -> Self {
        Self {
            requests: vec![ModelRequest::default(); usize::from(design.requests)],
            jobs: BTreeMap::new(),
            journal: Vec::new(),
            server: Some(ModelServer::default()),
            keeper: Some(ModelKeeper::default()),
            created: Vec::new(),
            has_stray: false,
            server_crashes: 0,
            keeper_crashes: 0,
            shim_crashes: 0,
            upgrades: 0,
        }
    }

    /// The phase of a job in the server, if there is a server that knows it.
    pub(crate) fn phase(&self, number: Number) -> Option<ModelPhase> {
        self.server.as_ref()?.jobs.get(&number).copied()
    }

    pub(crate) fn is_held(&self, number: Number) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.held.contains(&number))
    }

    pub(super) fn is_recorded(&self, wanted: ModelRecord) -> bool {
        self.journal.contains(&wanted)
    }

    pub(super) fn is_accepted(&self, number: Number) -> bool {
        self.journal.iter().any(
            |record| matches!(record, ModelRecord::Accepted { number: known, .. } if *known == number),
        )
    }

    pub(super) fn has_ended_record(&self, number: Number) -> bool {
        self.journal.iter().any(
            |record| matches!(record, ModelRecord::Ended { number: known, .. } if *known == number),
        )
    }

    pub(super) fn set_phase(&mut self, number: Number, phase: ModelPhase) {
        let Some(server) = &mut self.server else { return };
        server.jobs.insert(number, phase);
        let is_queued = server.queue.contains(&number);
        if phase == ModelPhase::Queued && !is_queued {
            server.queue.push(number);
        } else if phase != ModelPhase::Queued && is_queued {
            server.queue.retain(|queued| *queued != number);
        }
    }

    pub(super) fn job_mut(&mut self, number: Number) -> &mut ModelJob {
        self.jobs.get_mut(&number).expect("the job exists")
    }

    pub(super) fn shim_mut(&mut self, number: Number) -> &mut ModelShim {
        self.job_mut(number).shim.as_mut().expect("the shim was asked for")
    }

    pub(super) fn request_of(&self, number: Number) -> ModelRequest {
        self.requests[usize::from(self.jobs[&number].request)]
    }

    pub(super) fn request_mut(&mut self, number: Number) -> &mut ModelRequest {
        let request = usize::from(self.jobs[&number].request);
        &mut self.requests[request]
    }

    /// `true` if no job has the only slot.
    pub(super) fn has_free_slot(&self) -> bool {
        let has_slot = |(number, phase): (&Number, &ModelPhase)| match phase {
            ModelPhase::Accepting | ModelPhase::Accepted => self.jobs[number].starts_at_once,
            ModelPhase::Starting
            | ModelPhase::Refused
            | ModelPhase::Asked
            | ModelPhase::Running { .. } => true,
            ModelPhase::Queued | ModelPhase::Ended { .. } | ModelPhase::Freed => false,
        };
        self.server.as_ref().is_some_and(|server| !server.jobs.iter().any(has_slot))
    }
}

pub(crate) const fn number_of(record: &ModelRecord) -> Number {
    match record {
        ModelRecord::Accepted { number, .. }
        | ModelRecord::Queued(number)
        | ModelRecord::Starting(number)
        | ModelRecord::Started(number)
        | ModelRecord::Ended { number, .. }
        | ModelRecord::Freed(number) => *number,
    }
}
