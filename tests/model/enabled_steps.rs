//! The steps that can be next in a state.

use super::design::{BrokenRule, Design};
use super::world::{
    ModelEnding, ModelPhase, ModelProcess, ModelRecord, ModelStep, Number, World, true_code,
};

impl World {
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
                // Records are written in the order of the requests.
                let is_written = |earlier: Number| {
                    self.is_accepted(earlier) && !self.lacks_queued_record(earlier)
                };
                if (1..number).all(is_written) {
                    steps.push(ModelStep::WriteAccepted(number));
                }
                self.steps_beside_records(design, number, steps);
            }
            ModelPhase::Accepted if self.jobs[&number].starts_at_once => {
                steps.push(ModelStep::WriteStarting(number));
                self.steps_beside_records(design, number, steps);
            }
            ModelPhase::Accepted => steps.push(ModelStep::WriteQueued(number)),
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

    /// The steps of a new job that do not wait for its records.
    fn steps_beside_records(&self, design: &Design, number: Number, steps: &mut Vec<ModelStep>) {
        let job = &self.jobs[&number];
        let is_repeated =
            design.has_key(job.request) && !design.breaks(BrokenRule::StartBesideWithKey);
        if job.process.is_none() && job.starts_at_once && !is_repeated {
            steps.push(ModelStep::Create(number));
        }
        if job.process.is_some() && self.keeper.is_some() && !self.is_held(number) {
            steps.push(ModelStep::Register(number));
        }
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
    pub(super) fn status(&self, design: &Design, number: Number) -> Option<u8> {
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
        self.has_free_slot() && server.queue.first() == Some(&number)
    }

    /// `true` if no job has the only slot.
    pub(super) fn has_free_slot(&self) -> bool {
        let has_slot = |(number, phase): (&Number, &ModelPhase)| match phase {
            ModelPhase::Accepting | ModelPhase::Accepted => self.jobs[number].starts_at_once,
            ModelPhase::Starting
            | ModelPhase::Created
            | ModelPhase::Registered
            | ModelPhase::Running { .. } => true,
            ModelPhase::Queued | ModelPhase::Ended { .. } | ModelPhase::Freed => false,
        };
        self.server.as_ref().is_some_and(|server| !server.jobs.iter().any(has_slot))
    }

    fn request_steps(&self, design: &Design, steps: &mut Vec<ModelStep>) {
        if self.server.is_none() {
            return;
        }
        for (index, request) in (0..design.requests).zip(&self.requests) {
            match (request.acked, request.in_flight) {
                (Some(_), _) => {}
                (None, None) if request.is_given_up => {}
                (None, None) => steps.push(ModelStep::Receive(index)),
                (None, Some(number)) => {
                    if self.can_ack(design, number) {
                        steps.push(ModelStep::Ack(index));
                    }
                }
            }
        }
    }

    /// The caller hears of a job once its records are in the journal.
    fn can_ack(&self, design: &Design, number: Number) -> bool {
        let is_early =
            self.lacks_queued_record(number) && !design.breaks(BrokenRule::AckBeforeQueued);
        design.breaks(BrokenRule::AckBeforeAccepted) || self.is_accepted(number) && !is_early
    }

    /// `true` if the job waits for a slot, and `queued` is not in the journal yet.
    fn lacks_queued_record(&self, number: Number) -> bool {
        self.phase(number) == Some(ModelPhase::Accepted) && !self.jobs[&number].starts_at_once
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
}
