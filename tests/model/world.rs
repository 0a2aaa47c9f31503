//! The state of the model, and the steps that change it.

use std::collections::BTreeMap;

use super::design::{BrokenRule, Design};
use super::recovery::{self, RecoveredJob};

/// The number of a job, from 1.
pub(crate) type Number = u8;

/// The ending of a job as the journal has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ModelEnding {
    Code(u8),
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

/// The leader of a job and everything that descends from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ModelProcess {
    Running,
    /// Ended by itself; its parent has not asked for the status yet.
    Zombie,
    /// Ended by itself, and its status was taken.
    Reaped,
    /// Killed by the keeper, the server or the next start.
    Killed,
}

/// Everything of a job that exists outside the memory of server and keeper.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ModelJob {
    /// The request that it came from.
    pub(crate) request: u8,
    /// It got a slot when the server took the request; otherwise it waits for one.
    pub(crate) starts_at_once: bool,
    pub(crate) process: Option<ModelProcess>,
    /// The present server created the process; a process of an earlier one is the keeper's child.
    pub(crate) is_child_of_server: bool,
    pub(crate) written: u8,
    pub(crate) pipe: u8,
    pub(crate) file: u8,
    pub(crate) is_file_removed: bool,
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
    /// `starting` is in the journal.
    Starting,
    /// The process exists; the keeper does not know it.
    Created,
    Registered,
    /// `started` is in the journal; `taken` bytes are in the memory of the server alone.
    Running {
        taken: u8,
        exit: Option<u8>,
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
}

/// The keeper: per held job the exit status, once the keeper has reaped its leader.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct ModelKeeper {
    pub(crate) held: BTreeMap<Number, Option<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) requests: Vec<ModelRequest>,
    pub(crate) jobs: BTreeMap<Number, ModelJob>,
    pub(crate) journal: Vec<ModelRecord>,
    pub(crate) server: Option<ModelServer>,
    pub(crate) keeper: Option<ModelKeeper>,
    /// Requests in the order in which their processes were created.
    pub(crate) created: Vec<u8>,
    /// A process runs for a job of which the journal has no record.
    pub(crate) has_stray: bool,
    pub(crate) server_crashes: u8,
    pub(crate) keeper_crashes: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelStep {
    Receive(u8),
    WriteAccepted(Number),
    WriteQueued(Number),
    Ack(u8),
    WriteStarting(Number),
    Create(Number),
    Register(Number),
    WriteStarted(Number),
    ShowRunning(Number),
    JobWrites(Number),
    JobExits(Number),
    Splice(Number),
    Read(Number),
    WriteFile(Number),
    Publish(Number),
    PeekStatus(Number),
    WriteEnded(Number),
    ShowEnding(Number),
    Release(Number),
    WriteFreed(Number),
    RemoveFile(Number),
    KeeperReaps(Number),
    KeeperEndsUnknown(Number),
    ServerCrash,
    KeeperCrash,
    ServerEndsWithKeeper,
    KeeperRestartsServer,
    NextStart,
}

/// The exit code with which the process of a job really ends.
pub(crate) const fn true_code(number: Number) -> u8 {
    10 + number
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
        }
    }

    /// The phase of a job in the server, if there is a server that knows it.
    pub(crate) fn phase(&self, number: Number) -> Option<ModelPhase> {
        self.server.as_ref()?.jobs.get(&number).copied()
    }

    pub(crate) fn is_held(&self, number: Number) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.held.contains_key(&number))
    }

    pub(super) fn is_recorded(&self, wanted: ModelRecord) -> bool {
        self.journal.contains(&wanted)
    }

    pub(super) fn is_accepted(&self, number: Number) -> bool {
        self.journal.iter().any(
            |record| matches!(record, ModelRecord::Accepted { number: known, .. } if *known == number),
        )
    }

    fn set_phase(&mut self, number: Number, phase: ModelPhase) {
        let Some(server) = &mut self.server else { return };
        server.jobs.insert(number, phase);
        let is_queued = server.queue.contains(&number);
        if phase == ModelPhase::Queued && !is_queued {
            server.queue.push(number);
        } else if phase != ModelPhase::Queued && is_queued {
            server.queue.retain(|queued| *queued != number);
        }
    }

    fn job_mut(&mut self, number: Number) -> &mut ModelJob {
        self.jobs.get_mut(&number).expect("the job exists")
    }

    fn request_mut(&mut self, number: Number) -> &mut ModelRequest {
        let request = usize::from(self.jobs[&number].request);
        &mut self.requests[request]
    }

    pub(crate) fn apply(&mut self, design: &Design, step: ModelStep) {
        match step {
            ModelStep::Receive(index) => self.receive(design, index),
            ModelStep::WriteAccepted(number) => self.write_accepted(design, number),
            ModelStep::WriteQueued(number) => self.write_queued(number),
            ModelStep::Ack(index) => self.ack(index),
            ModelStep::WriteStarting(number) => self.write_starting(number),
            ModelStep::Create(number) => self.create(number),
            ModelStep::Register(number) => self.register(number),
            ModelStep::WriteStarted(number) => self.write_started(number),
            ModelStep::ShowRunning(number) => self.request_mut(number).was_shown_running = true,
            ModelStep::JobWrites(number) => self.write_byte(number),
            ModelStep::JobExits(number) => {
                self.job_mut(number).process = Some(ModelProcess::Zombie)
            }
            ModelStep::Splice(number) => self.splice(number),
            ModelStep::Read(number) => self.read(number),
            ModelStep::WriteFile(number) => self.write_file(number),
            ModelStep::Publish(number) => self.publish(design, number),
            ModelStep::PeekStatus(number) => self.peek_status(design, number),
            ModelStep::WriteEnded(number) => self.write_ended(number),
            ModelStep::ShowEnding(number) => self.show_ending(number),
            ModelStep::Release(number) => self.release(number),
            ModelStep::WriteFreed(number) => self.write_freed(number),
            ModelStep::RemoveFile(number) => self.job_mut(number).is_file_removed = true,
            ModelStep::KeeperReaps(number) => self.reap(number),
            ModelStep::KeeperEndsUnknown(number) => self.kill(number),
            ModelStep::ServerCrash => self.crash_server(design),
            ModelStep::KeeperCrash => self.crash_keeper(),
            ModelStep::ServerEndsWithKeeper => {
                self.kill_all();
                self.drop_server(design);
            }
            ModelStep::KeeperRestartsServer => self.restart_server(design),
            ModelStep::NextStart => self.start_both(design),
        }
    }

    /// Takes a request: a known key leads to the known job.
    fn receive(&mut self, design: &Design, index: u8) {
        let known = self.journal.iter().find_map(|record| match record {
            ModelRecord::Accepted { number, key: Some(key) } if *key == index => Some(*number),
            ModelRecord::Accepted { .. }
            | ModelRecord::Queued(_)
            | ModelRecord::Starting(_)
            | ModelRecord::Started(_)
            | ModelRecord::Ended { .. }
            | ModelRecord::Freed(_) => None,
        });
        let known = known.or_else(|| {
            let server = self.server.as_ref()?;
            let is_it = |number: &Number| self.jobs[number].request == index;
            server.jobs.keys().copied().filter(|number| !self.is_accepted(*number)).find(is_it)
        });
        let number = known.unwrap_or_else(|| {
            let recorded = self.journal.iter().map(number_of).max();
            let in_memory = self.server.as_ref().and_then(|it| it.jobs.keys().max().copied());
            let number = 1 + recorded.max(in_memory).unwrap_or(0);
            let has_queue = self.server.as_ref().is_some_and(|server| !server.queue.is_empty());
            let job = ModelJob {
                request: index,
                starts_at_once: self.has_free_slot() && !has_queue && !design.is_busy,
                process: None,
                is_child_of_server: false,
                written: 0,
                pipe: 0,
                file: 0,
                is_file_removed: false,
            };
            self.jobs.insert(number, job);
            self.set_phase(number, ModelPhase::Accepting);
            number
        });
        self.requests[usize::from(index)].in_flight = Some(number);
    }

    fn publish(&mut self, design: &Design, number: Number) {
        let taken = match self.phase(number) {
            Some(ModelPhase::Running { taken, .. })
                if design.breaks(BrokenRule::PublishBeforeFile) =>
            {
                taken
            }
            Some(_) | None => 0,
        };
        let bytes = self.jobs[&number].file + taken;
        let request = self.request_mut(number);
        request.bytes_seen = request.bytes_seen.max(bytes);
    }

    fn ack(&mut self, index: u8) {
        let request = &mut self.requests[usize::from(index)];
        request.acked = request.in_flight.take();
        let acked = request.acked;
        let waits = |number: Number| {
            let phase = self.phase(number);
            matches!(phase, Some(ModelPhase::Accepted | ModelPhase::Queued))
                && !self.jobs[&number].starts_at_once
        };
        self.requests[usize::from(index)].heard_of_wait = acked.is_some_and(waits);
    }

    fn write_byte(&mut self, number: Number) {
        let job = self.job_mut(number);
        job.written += 1;
        job.pipe += 1;
    }

    fn splice(&mut self, number: Number) {
        let job = self.job_mut(number);
        job.pipe -= 1;
        job.file += 1;
    }

    fn show_ending(&mut self, number: Number) {
        if let Some(ModelPhase::Ended { ending, .. }) = self.phase(number) {
            self.request_mut(number).ending_seen = Some(ending);
        }
    }

    fn write_accepted(&mut self, design: &Design, number: Number) {
        let key = self.jobs[&number].request;
        let is_recorded = design.has_key(key) && !design.breaks(BrokenRule::KeyNotRecorded);
        let key = is_recorded.then_some(key);
        self.journal.push(ModelRecord::Accepted { number, key });
        self.set_phase(number, ModelPhase::Accepted);
    }

    fn write_queued(&mut self, number: Number) {
        self.journal.push(ModelRecord::Queued(number));
        self.set_phase(number, ModelPhase::Queued);
    }

    fn write_starting(&mut self, number: Number) {
        self.journal.push(ModelRecord::Starting(number));
        let phase = match (self.jobs[&number].is_child_of_server, self.is_held(number)) {
            (false, _) => ModelPhase::Starting,
            (true, false) => ModelPhase::Created,
            (true, true) => ModelPhase::Registered,
        };
        self.set_phase(number, phase);
    }

    fn write_started(&mut self, number: Number) {
        self.journal.push(ModelRecord::Started(number));
        self.set_phase(number, ModelPhase::Running { taken: 0, exit: None });
    }

    fn write_ended(&mut self, number: Number) {
        if let Some(ModelPhase::Running { exit: Some(code), .. }) = self.phase(number) {
            self.record_ending(number, ModelEnding::Code(code));
        }
    }

    fn write_freed(&mut self, number: Number) {
        self.journal.push(ModelRecord::Freed(number));
        self.set_phase(number, ModelPhase::Freed);
    }

    fn record_ending(&mut self, number: Number, ending: ModelEnding) {
        let bytes = self.jobs[&number].file;
        self.journal.push(ModelRecord::Ended { number, ending, bytes });
        let is_released = !self.is_held(number);
        self.set_phase(number, ModelPhase::Ended { ending, is_released });
    }

    fn create(&mut self, number: Number) {
        let request = self.jobs[&number].request;
        self.created.push(request);
        let job = self.job_mut(number);
        job.process = Some(ModelProcess::Running);
        job.is_child_of_server = true;
        if matches!(self.phase(number), Some(ModelPhase::Queued | ModelPhase::Starting)) {
            self.set_phase(number, ModelPhase::Created);
        }
    }

    fn register(&mut self, number: Number) {
        if let Some(keeper) = &mut self.keeper {
            keeper.held.insert(number, None);
        }
        if self.phase(number) == Some(ModelPhase::Created) {
            self.set_phase(number, ModelPhase::Registered);
        }
    }

    fn peek_status(&mut self, design: &Design, number: Number) {
        let exit = self.status(design, number);
        if let Some(ModelPhase::Running { taken, .. }) = self.phase(number) {
            self.set_phase(number, ModelPhase::Running { taken, exit });
        }
    }

    fn read(&mut self, number: Number) {
        if let Some(ModelPhase::Running { taken, exit }) = self.phase(number) {
            self.job_mut(number).pipe -= 1;
            self.set_phase(number, ModelPhase::Running { taken: taken + 1, exit });
        }
    }

    fn write_file(&mut self, number: Number) {
        if let Some(ModelPhase::Running { taken, exit }) = self.phase(number) {
            self.job_mut(number).file += 1;
            self.set_phase(number, ModelPhase::Running { taken: taken - 1, exit });
        }
    }

    fn reap(&mut self, number: Number) {
        self.job_mut(number).process = Some(ModelProcess::Reaped);
        if let Some(keeper) = &mut self.keeper {
            keeper.held.insert(number, Some(true_code(number)));
        }
    }

    fn release(&mut self, number: Number) {
        if let Some(keeper) = &mut self.keeper {
            keeper.held.remove(&number);
        }
        let job = self.job_mut(number);
        if job.process == Some(ModelProcess::Zombie) {
            job.process = Some(ModelProcess::Reaped);
        }
        if let Some(ModelPhase::Ended { ending, .. }) = self.phase(number) {
            self.set_phase(number, ModelPhase::Ended { ending, is_released: true });
        }
    }

    fn kill(&mut self, number: Number) {
        let job = self.job_mut(number);
        if matches!(job.process, Some(ModelProcess::Running | ModelProcess::Zombie)) {
            job.process = Some(ModelProcess::Killed);
        }
    }

    fn kill_all(&mut self) {
        for number in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.kill(number);
        }
    }

    /// The keeper starts the next server and ends what it adopted without knowing it.
    fn restart_server(&mut self, design: &Design) {
        let unknown = self.jobs.keys().copied().filter(|number| !self.is_held(*number));
        let unknown: Vec<Number> = unknown.collect();
        if !design.breaks(BrokenRule::LeaveUnregistered) {
            unknown.into_iter().for_each(|number| self.kill(number));
            self.has_stray = false;
        }
        self.start_server(design);
    }

    /// Somebody starts a keeper and a server after both have died.
    fn start_both(&mut self, design: &Design) {
        if !design.breaks(BrokenRule::NoSweep) {
            self.kill_all();
            self.has_stray = false;
        }
        self.keeper = Some(ModelKeeper::default());
        self.start_server(design);
    }

    fn crash_keeper(&mut self) {
        self.keeper = None;
        self.keeper_crashes += 1;
    }

    fn crash_server(&mut self, design: &Design) {
        self.server_crashes += 1;
        self.drop_server(design);
    }

    /// Ends the server: its memory is gone, and its clients have no answer.
    fn drop_server(&mut self, design: &Design) {
        self.server = None;
        for (index, request) in (0..).zip(&mut self.requests) {
            let was_in_flight = request.in_flight.take().is_some();
            request.is_given_up |= was_in_flight && !design.has_key(index);
        }
        // A number that nobody heard of and that is not in the journal is free again.
        let accepted: Vec<Number> = self.journal.iter().map(number_of).collect();
        let acked: Vec<Number> = self.requests.iter().filter_map(|it| it.acked).collect();
        let is_known = |number: &Number| accepted.contains(number) || acked.contains(number);
        let is_stray = |(number, job): (&Number, &ModelJob)| {
            job.process == Some(ModelProcess::Running)
                && !is_known(number)
                && !self.is_held(*number)
        };
        self.has_stray |= self.jobs.iter().any(is_stray);
        self.jobs.retain(|number, _| is_known(number));
        for job in self.jobs.values_mut() {
            job.is_child_of_server = false;
        }
    }

    /// Starts the next server: it reads the journal and asks the keeper for the jobs it holds.
    fn start_server(&mut self, design: &Design) {
        self.server = Some(ModelServer::default());
        let recovered = recovery::recover(design, &self.journal, |number| self.is_held(number));
        for (number, job) in recovered {
            match job {
                RecoveredJob::Queued => self.set_phase(number, ModelPhase::Queued),
                RecoveredJob::Kept => {
                    self.set_phase(number, ModelPhase::Running { taken: 0, exit: None });
                }
                RecoveredJob::Lost => self.record_ending(number, ModelEnding::Lost),
                RecoveredJob::Finished(ending) => {
                    let is_released = !self.is_held(number);
                    self.set_phase(number, ModelPhase::Ended { ending, is_released });
                }
                RecoveredJob::Freed => self.set_phase(number, ModelPhase::Freed),
            }
        }
        self.end_unrecorded(design);
    }

    /// Ends the processes that the keeper holds for jobs without a record.
    fn end_unrecorded(&mut self, design: &Design) {
        let recorded: Vec<Number> = self.journal.iter().map(number_of).collect();
        let Some(keeper) = &mut self.keeper else { return };
        let held = keeper.held.len();
        keeper.held.retain(|number, _| recorded.contains(number));
        if design.breaks(BrokenRule::KeepUnrecorded) {
            self.has_stray |= keeper.held.len() < held;
        }
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
