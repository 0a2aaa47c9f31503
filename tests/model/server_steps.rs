//! The effects of the steps of the server and its clients.

use super::design::{BrokenRule, Design};
use super::world::{
    ModelCause, ModelEnding, ModelJob, ModelLeader, ModelPhase, ModelRecord, ModelShim, ModelStage,
    ModelStep, ModelStop, Number, ServerStep, World, number_of,
};

impl World {
    pub(crate) fn apply(&mut self, design: &Design, step: ModelStep) {
        match step {
            ModelStep::Server(step) => self.apply_server_step(design, step),
            ModelStep::Outside(step) => self.apply_outside_step(design, step),
            ModelStep::Life(step) => self.apply_life_step(design, step),
        }
    }

    fn apply_server_step(&mut self, design: &Design, step: ServerStep) {
        match step {
            ServerStep::Receive(index) => self.receive(design, index),
            ServerStep::WriteAccepted(number) => self.write_accepted(design, number),
            ServerStep::WriteQueued(number) => self.write_queued(number),
            ServerStep::Ack(index) => self.ack(index),
            ServerStep::WriteStarting(number) => self.write_starting(number),
            ServerStep::AskForShim(number) => self.ask_for_shim(design, number),
            ServerStep::RefuseStart(number) => self.set_phase(number, ModelPhase::Refused),
            ServerStep::HearStart(number) => self.hear_start(number),
            ServerStep::HearFailure(number) => self.hear(number, ModelEnding::FailedToStart),
            ServerStep::ShowRunning(number) => self.request_mut(number).was_shown_running = true,
            ServerStep::SendInput(number) => self.send_input(number),
            ServerStep::Splice(number) => self.splice(number),
            ServerStep::Read(number) => self.read(number),
            ServerStep::WriteFile(number) => self.write_file(number),
            ServerStep::Publish(number) => self.publish(design, number),
            ServerStep::HearEnd(number) => self.hear_end(design, number),
            ServerStep::HearShimLost(number) => self.hear(number, ModelEnding::Lost),
            ServerStep::StopLate(number) => {
                self.shim_mut(number).begin_ending(ModelCause::Deadline);
            }
            ServerStep::WriteEnded(number) => self.write_ended(number),
            ServerStep::ShowEnding(number) => self.show_ending(number),
            ServerStep::Release(number) => self.release(number),
            ServerStep::WriteFreed(number) => self.write_freed(number),
            ServerStep::RemoveFile(number) => self.job_mut(number).is_file_removed = true,
            ServerStep::SendStop(index) => self.send_stop(index),
            ServerStep::GiveStop(number) => self.give_stop(design, number),
            ServerStep::AckStop(index) => {
                self.requests[usize::from(index)].stop = ModelStop::Acked;
            }
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
        let number = known.unwrap_or_else(|| self.accept(design, index));
        self.requests[usize::from(index)].in_flight = Some(number);
    }

    fn accept(&mut self, design: &Design, index: u8) -> Number {
        let recorded = self.journal.iter().map(number_of).max();
        let in_memory = self.server.as_ref().and_then(|it| it.jobs.keys().max().copied());
        let number = 1 + recorded.max(in_memory).unwrap_or(0);
        let has_queue = self.server.as_ref().is_some_and(|server| !server.queue.is_empty());
        let job = ModelJob {
            request: index,
            starts_at_once: self.has_free_slot() && !has_queue && !design.is_busy,
            shim: None,
            leader: ModelLeader::NotStarted,
            has_leftover: false,
            is_late: false,
            read: 0,
            written: 0,
            pipe: 0,
            file: 0,
            is_file_removed: false,
        };
        self.jobs.insert(number, job);
        self.set_phase(number, ModelPhase::Accepting);
        number
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

    fn write_starting(&mut self, number: Number) {
        self.journal.push(ModelRecord::Starting(number));
        let has_shim = self.jobs[&number].shim.is_some();
        let phase = if has_shim { ModelPhase::Asked } else { ModelPhase::Starting };
        self.set_phase(number, phase);
    }

    /// Asks the keeper for the shim of a job. The job starts from now on, whatever happens to the server.
    fn ask_for_shim(&mut self, design: &Design, number: Number) {
        self.created.push(self.jobs[&number].request);
        let mut input = design.input;
        if design.breaks(BrokenRule::InputInServer)
            && let Some(server) = &mut self.server
        {
            server.input.insert(number, input);
            input = 0;
        }
        self.job_mut(number).shim = Some(ModelShim::new_asked(input));
        if matches!(self.phase(number), Some(ModelPhase::Queued | ModelPhase::Starting)) {
            self.set_phase(number, ModelPhase::Asked);
        }
    }

    /// The record is written later in the product. Nothing depends on it: a shim that is held says more.
    fn hear_start(&mut self, number: Number) {
        self.journal.push(ModelRecord::Started(number));
        self.set_phase(number, ModelPhase::Running { taken: 0, ending: None });
    }

    fn send_input(&mut self, number: Number) {
        if let Some(input) = self.server.as_mut().and_then(|server| server.input.get_mut(&number)) {
            *input -= 1;
            self.shim_mut(number).input += 1;
        }
    }

    fn hear_end(&mut self, design: &Design, number: Number) {
        if let Some(ending) = self.jobs[&number].reported_ending(design, number) {
            self.hear(number, ending);
        }
    }

    fn hear(&mut self, number: Number, ending: ModelEnding) {
        let taken = self.bytes_in_memory(number);
        self.set_phase(number, ModelPhase::Running { taken, ending: Some(ending) });
    }

    /// The bytes of a job that are in the memory of the server alone.
    pub(super) fn bytes_in_memory(&self, number: Number) -> u8 {
        match self.phase(number) {
            Some(ModelPhase::Running { taken, .. }) => taken,
            Some(_) | None => 0,
        }
    }

    fn splice(&mut self, number: Number) {
        let job = self.job_mut(number);
        job.pipe -= 1;
        job.file += 1;
    }

    fn read(&mut self, number: Number) {
        if let Some(ModelPhase::Running { taken, ending }) = self.phase(number) {
            self.job_mut(number).pipe -= 1;
            self.set_phase(number, ModelPhase::Running { taken: taken + 1, ending });
        }
    }

    fn write_file(&mut self, number: Number) {
        if let Some(ModelPhase::Running { taken, ending }) = self.phase(number) {
            self.job_mut(number).file += 1;
            self.set_phase(number, ModelPhase::Running { taken: taken - 1, ending });
        }
    }

    fn publish(&mut self, design: &Design, number: Number) {
        let is_early = design.breaks(BrokenRule::PublishBeforeFile);
        let taken = if is_early { self.bytes_in_memory(number) } else { 0 };
        let bytes = self.jobs[&number].file + taken;
        let request = self.request_mut(number);
        request.bytes_seen = request.bytes_seen.max(bytes);
    }

    fn write_ended(&mut self, number: Number) {
        let ending = match self.phase(number) {
            Some(ModelPhase::Running { ending: Some(ending), .. }) => ending,
            Some(_) | None => ModelEnding::FailedToStart,
        };
        self.record_ending(number, ending);
    }

    pub(super) fn record_ending(&mut self, number: Number, ending: ModelEnding) {
        let bytes = self.jobs[&number].file;
        self.journal.push(ModelRecord::Ended { number, ending, bytes });
        let is_asked = self.jobs[&number].stage() == Some(ModelStage::Asked);
        let is_released = !self.is_held(number) && !is_asked;
        self.set_phase(number, ModelPhase::Ended { ending, is_released });
    }

    fn show_ending(&mut self, number: Number) {
        if let Some(
            ModelPhase::Ended { ending, .. } | ModelPhase::Running { ending: Some(ending), .. },
        ) = self.phase(number)
        {
            self.request_mut(number).ending_seen = Some(ending);
        }
    }

    /// Lets a shim exit, and the keeper forget it.
    fn release(&mut self, number: Number) {
        if let Some(keeper) = &mut self.keeper {
            keeper.held.remove(&number);
        }
        let shim = self.shim_mut(number);
        if shim.is_there() {
            shim.stage = ModelStage::Gone;
        }
        if let Some(ModelPhase::Ended { ending, .. }) = self.phase(number) {
            self.set_phase(number, ModelPhase::Ended { ending, is_released: true });
        }
    }

    fn write_freed(&mut self, number: Number) {
        self.journal.push(ModelRecord::Freed(number));
        self.set_phase(number, ModelPhase::Freed);
    }

    fn send_stop(&mut self, index: u8) {
        let request = &mut self.requests[usize::from(index)];
        request.stop = ModelStop::Sent;
        let number = request.acked;
        if let Some(server) = &mut self.server {
            server.stops.extend(number);
        }
    }

    /// Makes a stop certain: the shim has the order, or the ending of a job without a shim is in the
    /// journal.
    fn give_stop(&mut self, design: &Design, number: Number) {
        let phase = self.phase(number);
        if design.breaks(BrokenRule::EndBeforeOrder) && phase == Some(ModelPhase::Asked) {
            // The order comes with the next step.
            return self.record_ending(number, ModelEnding::Stopped);
        }
        if let Some(server) = &mut self.server {
            server.stops.remove(&number);
        }
        let job = &self.jobs[&number];
        match (phase, job.shim) {
            (Some(ModelPhase::Ended { .. } | ModelPhase::Freed), None) | (None, None) => {}
            (Some(_), None) if job.starts_at_once => {
                self.record_ending(number, ModelEnding::Stopped);
            }
            (Some(_), None) => self.record_ending(number, ModelEnding::NotRun),
            (_, Some(shim)) => {
                let has_order = shim.is_there() && self.jobs[&number].may_live();
                self.shim_mut(number).has_order = has_order;
            }
        }
    }
}
