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
    pub(crate) was_shown_running: bool,
    pub(crate) bytes_seen: u8,
    pub(crate) ending_seen: Option<ModelEnding>,
}

/// The phase of a job in the memory of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ModelPhase {
    Accepting,
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
    pub(crate) server_crashes: u8,
    pub(crate) keeper_crashes: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelStep {
    Receive(u8),
    WriteAccepted(Number),
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

    fn is_recorded(&self, wanted: ModelRecord) -> bool {
        self.journal.contains(&wanted)
    }

    fn is_accepted(&self, number: Number) -> bool {
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

    /// Every step that can be next.
    pub(crate) fn steps(&self, design: &Design) -> Vec<ModelStep> {
        let mut steps = Vec::new();
        for number in self.jobs.keys().copied() {
            self.steps_outside(design, number, &mut steps);
            self.server_steps(design, number, &mut steps);
        }
        self.request_steps(design, &mut steps);
        self.crash_steps(design, &mut steps);
        steps
    }

    /// The steps of a job's own processes, and of the keeper for that job.
    fn steps_outside(&self, design: &Design, number: Number, steps: &mut Vec<ModelStep>) {
        let job = &self.jobs[&number];
        if job.process == Some(ModelProcess::Running) {
            if job.written < design.bytes {
                steps.push(ModelStep::JobWrites(number));
            } else {
                steps.push(ModelStep::JobExits(number));
            }
        }
        let Some(keeper) = &self.keeper else { return };
        let held = keeper.held.get(&number);
        if !job.is_child_of_server
            && held == Some(&None)
            && job.process == Some(ModelProcess::Zombie)
        {
            steps.push(ModelStep::KeeperReaps(number));
        }
        let is_alive = matches!(job.process, Some(ModelProcess::Running | ModelProcess::Zombie));
        let is_unknown = self.server.is_none() && held.is_none() && is_alive;
        if is_unknown && !design.breaks(BrokenRule::LeaveUnregistered) {
            steps.push(ModelStep::KeeperEndsUnknown(number));
        }
    }

    fn server_steps(&self, design: &Design, number: Number, steps: &mut Vec<ModelStep>) {
        let Some(phase) = self.phase(number) else { return };
        match phase {
            ModelPhase::Accepting => {
                let is_next = (1..number).all(|earlier| self.is_accepted(earlier));
                if is_next {
                    steps.push(ModelStep::WriteAccepted(number));
                }
            }
            ModelPhase::Queued if self.is_next_in_queue(number) => {
                steps.push(if design.breaks(BrokenRule::CreateBeforeStarting) {
                    ModelStep::Create(number)
                } else {
                    ModelStep::WriteStarting(number)
                });
            }
            ModelPhase::Queued => {}
            ModelPhase::Starting => steps.push(ModelStep::Create(number)),
            ModelPhase::Created if !self.is_recorded(ModelRecord::Starting(number)) => {
                steps.push(ModelStep::WriteStarting(number));
            }
            ModelPhase::Created => {
                if self.keeper.is_some() {
                    steps.push(ModelStep::Register(number));
                }
                if design.breaks(BrokenRule::ShowBeforeRegister) {
                    steps.push(ModelStep::ShowRunning(number));
                }
            }
            ModelPhase::Registered => steps.push(ModelStep::WriteStarted(number)),
            ModelPhase::Running { taken, exit } => {
                self.running_steps(design, number, taken, exit, steps);
            }
            ModelPhase::Ended { ending, is_released } => {
                self.ended_steps(design, number, ending, is_released, steps);
            }
            ModelPhase::Freed => {
                if !self.jobs[&number].is_file_removed {
                    steps.push(ModelStep::RemoveFile(number));
                }
            }
        }
        self.client_steps(number, phase, steps);
    }

    fn running_steps(
        &self,
        design: &Design,
        number: Number,
        taken: u8,
        exit: Option<u8>,
        steps: &mut Vec<ModelStep>,
    ) {
        let job = &self.jobs[&number];
        let does_read = design.breaks(BrokenRule::ReadThenWrite)
            || design.breaks(BrokenRule::PublishBeforeFile);
        if job.pipe > 0 {
            steps.push(if does_read { ModelStep::Read(number) } else { ModelStep::Splice(number) });
        }
        if taken > 0 {
            steps.push(ModelStep::WriteFile(number));
        }
        if exit.is_none() && self.status(design, number).is_some() {
            steps.push(ModelStep::PeekStatus(number));
        }
        let is_drained = job.pipe == 0 && taken == 0;
        if exit.is_some() && (is_drained || design.breaks(BrokenRule::EndBeforePipeIsEmpty)) {
            steps.push(ModelStep::WriteEnded(number));
        }
        if exit.is_some() && self.is_held(number) && design.breaks(BrokenRule::ReleaseBeforeEnded) {
            steps.push(ModelStep::Release(number));
        }
    }

    /// The exit code that the server can find out now: by `waitid` without reaping for its own
    /// child, from the keeper for a child of an earlier server.
    fn status(&self, design: &Design, number: Number) -> Option<u8> {
        let stored = self.keeper.as_ref().and_then(|keeper| *keeper.held.get(&number)?);
        let job = &self.jobs[&number];
        let can_peek = job.is_child_of_server && job.process == Some(ModelProcess::Zombie);
        let peeked = can_peek.then(|| true_code(number));
        let has_ended = !matches!(job.process, Some(ModelProcess::Running) | None);
        let guessed = (design.breaks(BrokenRule::GuessStatus) && has_ended).then_some(0);
        peeked.or(guessed).or(stored)
    }

    fn ended_steps(
        &self,
        design: &Design,
        number: Number,
        ending: ModelEnding,
        is_released: bool,
        steps: &mut Vec<ModelStep>,
    ) {
        if !is_released {
            steps.push(ModelStep::Release(number));
        }
        let request = self.requests[usize::from(self.jobs[&number].request)];
        if request.acked == Some(number) && request.ending_seen != Some(ending) {
            steps.push(ModelStep::ShowEnding(number));
        }
        // Retention; the second job stays, so that kept jobs are examined too.
        if is_released && request.ending_seen.is_some() && number == 1 {
            let removes_first = design.breaks(BrokenRule::RemoveBeforeFreed);
            if removes_first && !self.jobs[&number].is_file_removed {
                steps.push(ModelStep::RemoveFile(number));
            } else {
                steps.push(ModelStep::WriteFreed(number));
            }
        }
    }

    /// The replies that a client may get about its job.
    fn client_steps(&self, number: Number, phase: ModelPhase, steps: &mut Vec<ModelStep>) {
        let job = &self.jobs[&number];
        let request = self.requests[usize::from(job.request)];
        if request.acked != Some(number) {
            return;
        }
        let taken = if let ModelPhase::Running { taken, .. } = phase { taken } else { 0 };
        if !job.is_file_removed && job.file + taken > request.bytes_seen {
            steps.push(ModelStep::Publish(number));
        }
        if matches!(phase, ModelPhase::Running { .. }) && !request.was_shown_running {
            steps.push(ModelStep::ShowRunning(number));
        }
    }

    /// The oldest queued job may start once no other job has the only slot.
    fn is_next_in_queue(&self, number: Number) -> bool {
        let Some(server) = &self.server else { return false };
        let has_slot = |phase: &ModelPhase| {
            matches!(
                phase,
                ModelPhase::Starting
                    | ModelPhase::Created
                    | ModelPhase::Registered
                    | ModelPhase::Running { .. }
            )
        };
        !server.jobs.values().any(has_slot) && server.queue.first() == Some(&number)
    }

    fn request_steps(&self, design: &Design, steps: &mut Vec<ModelStep>) {
        if self.server.is_none() {
            return;
        }
        for (index, request) in (0..design.requests).zip(&self.requests) {
            match (request.acked, request.in_flight) {
                (Some(_), _) => {}
                (None, None) => steps.push(ModelStep::Receive(index)),
                (None, Some(number)) => {
                    if self.is_accepted(number) || design.breaks(BrokenRule::AckBeforeAccepted) {
                        steps.push(ModelStep::Ack(index));
                    }
                }
            }
        }
    }

    fn crash_steps(&self, design: &Design, steps: &mut Vec<ModelStep>) {
        match (&self.keeper, &self.server) {
            (Some(_), None) => steps.push(ModelStep::KeeperRestartsServer),
            (None, Some(_)) if !design.breaks(BrokenRule::OutliveKeeper) => {
                steps.push(ModelStep::ServerEndsWithKeeper);
            }
            (None, None) => steps.push(ModelStep::NextStart),
            (None | Some(_), Some(_)) => {}
        }
        if self.server.is_some() && self.server_crashes < design.server_crashes {
            steps.push(ModelStep::ServerCrash);
        }
        if self.keeper.is_some() && self.keeper_crashes < design.keeper_crashes {
            steps.push(ModelStep::KeeperCrash);
        }
    }

    pub(crate) fn apply(&mut self, design: &Design, step: ModelStep) {
        match step {
            ModelStep::Receive(index) => self.receive(index),
            ModelStep::Ack(index) => {
                let request = &mut self.requests[usize::from(index)];
                request.acked = request.in_flight.take();
            }
            ModelStep::JobWrites(number) => {
                let job = self.job_mut(number);
                job.written += 1;
                job.pipe += 1;
            }
            ModelStep::JobExits(number) => {
                self.job_mut(number).process = Some(ModelProcess::Zombie)
            }
            ModelStep::Splice(number) => {
                let job = self.job_mut(number);
                job.pipe -= 1;
                job.file += 1;
            }
            ModelStep::Publish(number) => self.publish(design, number),
            ModelStep::ShowRunning(number) => self.request_mut(number).was_shown_running = true,
            ModelStep::ShowEnding(number) => {
                if let Some(ModelPhase::Ended { ending, .. }) = self.phase(number) {
                    self.request_mut(number).ending_seen = Some(ending);
                }
            }
            ModelStep::RemoveFile(number) => self.job_mut(number).is_file_removed = true,
            ModelStep::WriteAccepted(_)
            | ModelStep::WriteStarting(_)
            | ModelStep::WriteStarted(_)
            | ModelStep::WriteEnded(_)
            | ModelStep::WriteFreed(_) => self.write_record(design, step),
            ModelStep::Create(_)
            | ModelStep::Register(_)
            | ModelStep::Read(_)
            | ModelStep::WriteFile(_)
            | ModelStep::PeekStatus(_)
            | ModelStep::Release(_) => self.act(design, step),
            ModelStep::KeeperReaps(number) => {
                self.job_mut(number).process = Some(ModelProcess::Reaped);
                if let Some(keeper) = &mut self.keeper {
                    keeper.held.insert(number, Some(true_code(number)));
                }
            }
            ModelStep::KeeperEndsUnknown(number) => self.kill(number),
            ModelStep::ServerCrash => self.crash_server(),
            ModelStep::KeeperCrash => {
                self.keeper = None;
                self.keeper_crashes += 1;
            }
            ModelStep::ServerEndsWithKeeper => {
                self.kill_all();
                self.drop_server();
            }
            ModelStep::KeeperRestartsServer => {
                if !design.breaks(BrokenRule::LeaveUnregistered) {
                    self.kill_unregistered();
                }
                self.start_server(design);
            }
            ModelStep::NextStart => {
                if !design.breaks(BrokenRule::NoSweep) {
                    self.kill_all();
                }
                self.keeper = Some(ModelKeeper::default());
                self.start_server(design);
            }
        }
    }

    /// Takes a request: a known key leads to the known job.
    fn receive(&mut self, index: u8) {
        let known = self.journal.iter().find_map(|record| match record {
            ModelRecord::Accepted { number, key: Some(key) } if *key == index => Some(*number),
            ModelRecord::Accepted { .. }
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
            let job = ModelJob {
                request: index,
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

    fn write_record(&mut self, design: &Design, step: ModelStep) {
        match step {
            ModelStep::WriteAccepted(number) => {
                let key = self.jobs[&number].request;
                let key = (!design.breaks(BrokenRule::KeyNotRecorded)).then_some(key);
                self.journal.push(ModelRecord::Accepted { number, key });
                self.set_phase(number, ModelPhase::Queued);
            }
            ModelStep::WriteStarting(number) => {
                self.journal.push(ModelRecord::Starting(number));
                if self.phase(number) == Some(ModelPhase::Queued) {
                    self.set_phase(number, ModelPhase::Starting);
                }
            }
            ModelStep::WriteStarted(number) => {
                self.journal.push(ModelRecord::Started(number));
                self.set_phase(number, ModelPhase::Running { taken: 0, exit: None });
            }
            ModelStep::WriteEnded(number) => {
                if let Some(ModelPhase::Running { exit: Some(code), .. }) = self.phase(number) {
                    self.record_ending(number, ModelEnding::Code(code));
                }
            }
            ModelStep::WriteFreed(number) => {
                self.journal.push(ModelRecord::Freed(number));
                self.set_phase(number, ModelPhase::Freed);
            }
            _ => unreachable!("not a record: {step:?}"),
        }
    }

    fn record_ending(&mut self, number: Number, ending: ModelEnding) {
        let bytes = self.jobs[&number].file;
        self.journal.push(ModelRecord::Ended { number, ending, bytes });
        let is_released = !self.is_held(number);
        self.set_phase(number, ModelPhase::Ended { ending, is_released });
    }

    fn act(&mut self, design: &Design, step: ModelStep) {
        match step {
            ModelStep::Create(number) => {
                let request = self.jobs[&number].request;
                self.created.push(request);
                let job = self.job_mut(number);
                job.process = Some(ModelProcess::Running);
                job.is_child_of_server = true;
                self.set_phase(number, ModelPhase::Created);
            }
            ModelStep::Register(number) => {
                if let Some(keeper) = &mut self.keeper {
                    keeper.held.insert(number, None);
                }
                self.set_phase(number, ModelPhase::Registered);
            }
            ModelStep::Read(number) | ModelStep::WriteFile(number) => self.move_bytes(step, number),
            ModelStep::PeekStatus(number) => {
                let code = self.status(design, number);
                if let Some(ModelPhase::Running { taken, .. }) = self.phase(number) {
                    self.set_phase(number, ModelPhase::Running { taken, exit: code });
                }
            }
            ModelStep::Release(number) => self.release(number),
            _ => unreachable!("not an action of the server: {step:?}"),
        }
    }

    fn move_bytes(&mut self, step: ModelStep, number: Number) {
        let Some(ModelPhase::Running { taken, exit }) = self.phase(number) else { return };
        let is_read = matches!(step, ModelStep::Read(_));
        let job = self.job_mut(number);
        let taken = if is_read {
            job.pipe -= 1;
            taken + 1
        } else {
            job.file += 1;
            taken - 1
        };
        self.set_phase(number, ModelPhase::Running { taken, exit });
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

    fn kill_unregistered(&mut self) {
        for number in self.jobs.keys().copied().collect::<Vec<_>>() {
            if !self.is_held(number) {
                self.kill(number);
            }
        }
    }

    fn crash_server(&mut self) {
        self.server_crashes += 1;
        self.drop_server();
    }

    /// Ends the server: its memory is gone, and its clients have no answer.
    fn drop_server(&mut self) {
        self.server = None;
        for request in &mut self.requests {
            request.in_flight = None;
        }
        // A number that nobody heard of and that is not in the journal is free again.
        let accepted: Vec<Number> = self.journal.iter().map(number_of).collect();
        let acked: Vec<Number> = self.requests.iter().filter_map(|it| it.acked).collect();
        self.jobs.retain(|number, _| accepted.contains(number) || acked.contains(number));
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
    }
}

pub(crate) const fn number_of(record: &ModelRecord) -> Number {
    match record {
        ModelRecord::Accepted { number, .. }
        | ModelRecord::Starting(number)
        | ModelRecord::Started(number)
        | ModelRecord::Ended { number, .. }
        | ModelRecord::Freed(number) => *number,
    }
}
