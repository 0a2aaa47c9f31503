//! The steps that can be next in a state.

use super::design::{BrokenRule, Design};
use super::world::{
    LifeStep, ModelEnding, ModelJob, ModelKill, ModelLeader, ModelPhase, ModelRecord, ModelShim,
    ModelStage, ModelStep, ModelStop, Number, OutsideStep, ServerStep, World,
};

impl World {
    /// Every step that can be next.
    pub(crate) fn steps(&self, design: &Design) -> Vec<ModelStep> {
        let mut outside = Vec::new();
        let mut server = Vec::new();
        for (number, job) in &self.jobs {
            self.outside_steps(design, *number, job, &mut outside);
            self.server_steps(design, *number, &mut server);
            self.stop_steps(design, *number, &mut server);
        }
        self.request_steps(design, &mut server);
        let life = self.life_steps(design).into_iter().map(ModelStep::Life);
        let outside = outside.into_iter().map(ModelStep::Outside);
        outside.chain(server.into_iter().map(ModelStep::Server)).chain(life).collect()
    }

    /// The steps of the keeper, of a shim and of its job.
    fn outside_steps(
        &self,
        design: &Design,
        number: Number,
        job: &ModelJob,
        steps: &mut Vec<OutsideStep>,
    ) {
        let Some(shim) = job.shim else { return };
        match shim.stage {
            ModelStage::Asked => steps.push(OutsideStep::KeeperForks(number)),
            ModelStage::Forked => {
                steps.push(OutsideStep::ShimStartsLeader(number));
                steps.push(OutsideStep::ShimFailsToStart(number));
            }
            ModelStage::Started => started_steps(design, number, job, shim, steps),
            ModelStage::Killed | ModelStage::Gone => {
                let is_left_alone = design.breaks(BrokenRule::LeaveStrays);
                if job.is_alive() && !shim.is_orphan && self.keeper.is_some() && !is_left_alone {
                    steps.push(OutsideStep::KeeperKillsStrays(number));
                }
            }
            ModelStage::Failed => {}
        }
        if job.leader == ModelLeader::Alive {
            leader_steps(design, number, job, shim, steps);
        }
    }

    fn server_steps(&self, design: &Design, number: Number, steps: &mut Vec<ServerStep>) {
        let Some(phase) = self.phase(number) else { return };
        match phase {
            ModelPhase::Accepting => {
                // Records are written in the order of the requests.
                let is_written = |earlier: Number| {
                    self.is_accepted(earlier) && !self.lacks_queued_record(earlier)
                };
                if (1..number).all(is_written) {
                    steps.push(ServerStep::WriteAccepted(number));
                }
                self.start_steps(design, number, steps);
            }
            ModelPhase::Accepted if self.jobs[&number].starts_at_once => {
                steps.push(ServerStep::WriteStarting(number));
                self.start_steps(design, number, steps);
            }
            ModelPhase::Accepted => steps.push(ServerStep::WriteQueued(number)),
            ModelPhase::Queued if self.is_next_in_queue(number) => {
                steps.push(if design.breaks(BrokenRule::AskBeforeStarting) {
                    ServerStep::AskForShim(number)
                } else {
                    ServerStep::WriteStarting(number)
                });
            }
            ModelPhase::Queued => {}
            ModelPhase::Starting => self.start_steps(design, number, steps),
            ModelPhase::Refused => {
                let is_late = self.is_handing_over();
                if !is_late || !design.breaks(BrokenRule::HandOverUnrecordedFailure) {
                    steps.push(ServerStep::WriteEnded(number));
                }
            }
            ModelPhase::Asked => self.asked_steps(number, steps),
            ModelPhase::Running { taken, ending } => {
                self.running_steps(design, number, taken, ending, steps);
            }
            ModelPhase::Ended { ending, is_released } => {
                self.ended_steps(design, number, ending, is_released, steps);
            }
            ModelPhase::Freed => {
                if !self.jobs[&number].is_file_removed {
                    steps.push(ServerStep::RemoveFile(number));
                }
            }
        }
        self.client_steps(design, number, phase, steps);
    }

    /// The start of a job. A new job without a key does not wait for its records.
    fn start_steps(&self, design: &Design, number: Number, steps: &mut Vec<ServerStep>) {
        let job = &self.jobs[&number];
        let is_recorded = self.phase(number) == Some(ModelPhase::Starting);
        let may_be_beside =
            !design.has_key(job.request) || design.breaks(BrokenRule::StartBesideWithKey);
        let may_start = is_recorded || job.starts_at_once && may_be_beside;
        if job.shim.is_some() || !may_start {
            return;
        }
        if self.keeper.is_some() {
            steps.push(ServerStep::AskForShim(number));
        }
        if is_recorded && design.may_fail(job.request) {
            steps.push(ServerStep::RefuseStart(number));
        }
    }

    fn asked_steps(&self, number: Number, steps: &mut Vec<ServerStep>) {
        if !self.is_recorded(ModelRecord::Starting(number)) {
            steps.push(ServerStep::WriteStarting(number));
            return;
        }
        match self.jobs[&number].stage() {
            Some(ModelStage::Started) => steps.push(ServerStep::HearStart(number)),
            Some(ModelStage::Failed) => steps.push(ServerStep::HearFailure(number)),
            Some(ModelStage::Killed) => steps.push(ServerStep::HearShimLost(number)),
            Some(ModelStage::Asked | ModelStage::Forked | ModelStage::Gone) | None => {}
        }
    }

    fn running_steps(
        &self,
        design: &Design,
        number: Number,
        taken: u8,
        ending: Option<ModelEnding>,
        steps: &mut Vec<ServerStep>,
    ) {
        let job = &self.jobs[&number];
        let does_read = design.breaks(BrokenRule::ReadThenWrite)
            || design.breaks(BrokenRule::PublishBeforeFile);
        if job.pipe > 0 {
            steps.push(if does_read {
                ServerStep::Read(number)
            } else {
                ServerStep::Splice(number)
            });
        }
        if taken > 0 {
            steps.push(ServerStep::WriteFile(number));
        }
        match ending {
            None => self.report_steps(design, number, steps),
            Some(ending) => {
                if self.can_record(design, number, ending) {
                    steps.push(ServerStep::WriteEnded(number));
                }
                if job.is_over(design) && design.breaks(BrokenRule::ReleaseBeforeEnded) {
                    steps.push(ServerStep::Release(number));
                }
            }
        }
    }

    /// Adds what the server can hear from the shim of a running job.
    fn report_steps(&self, design: &Design, number: Number, steps: &mut Vec<ServerStep>) {
        let job = &self.jobs[&number];
        match job.stage() {
            Some(ModelStage::Failed) if !self.is_deaf(number) => {
                steps.push(ServerStep::HearFailure(number));
            }
            Some(ModelStage::Killed) => steps.push(ServerStep::HearShimLost(number)),
            Some(_) | None => {}
        }
        if job.reported_ending(design, number).is_some() {
            steps.push(ServerStep::HearEnd(number));
        }
        let has_input = self.server.as_ref().and_then(|server| server.input.get(&number));
        if has_input.is_some_and(|input| *input > 0) {
            steps.push(ServerStep::SendInput(number));
        }
        let is_late = job.is_late && job.leader == ModelLeader::Alive;
        let is_running = job.shim.is_some_and(|shim| shim.kill == ModelKill::NotBegun);
        if is_late && is_running && design.breaks(BrokenRule::ServerKeepsDeadline) {
            steps.push(ServerStep::StopLate(number));
        }
    }

    /// A job that ended by itself has its ending once its output is stored, although processes of it may
    /// be left. One that is being ended has it once its tree is over.
    fn can_record(&self, design: &Design, number: Number, ending: ModelEnding) -> bool {
        let job = &self.jobs[&number];
        let is_drained = job.pipe == 0 && self.bytes_in_memory(number) == 0
            || design.breaks(BrokenRule::EndBeforePipeIsEmpty);
        match ending {
            ModelEnding::Stopped | ModelEnding::TimedOut => is_drained && job.is_over(design),
            ModelEnding::Code(_) | ModelEnding::Signaled | ModelEnding::FailedToStart => is_drained,
            ModelEnding::NotRun | ModelEnding::Lost => true,
        }
    }

    fn ended_steps(
        &self,
        design: &Design,
        number: Number,
        ending: ModelEnding,
        is_released: bool,
        steps: &mut Vec<ServerStep>,
    ) {
        let job = &self.jobs[&number];
        let is_killed = job.stage() == Some(ModelStage::Killed);
        let is_over = job.is_over(design) && !self.is_deaf(number);
        if !is_released && (is_over || is_killed) {
            steps.push(ServerStep::Release(number));
        }
        let request = self.request_of(number);
        if request.acked == Some(number) && request.ending_seen != Some(ending) {
            steps.push(ServerStep::ShowEnding(number));
        }
        // Retention; the second job stays, so that kept jobs are examined too.
        if is_released && request.ending_seen.is_some() && number == 1 {
            let removes_first = design.breaks(BrokenRule::RemoveBeforeFreed);
            if removes_first && !job.is_file_removed {
                steps.push(ServerStep::RemoveFile(number));
            } else {
                steps.push(ServerStep::WriteFreed(number));
            }
        }
    }

    /// The replies that a client may get about its job.
    fn client_steps(
        &self,
        design: &Design,
        number: Number,
        phase: ModelPhase,
        steps: &mut Vec<ServerStep>,
    ) {
        let job = &self.jobs[&number];
        let request = self.request_of(number);
        if request.acked != Some(number) {
            return;
        }
        if !job.is_file_removed && job.file + self.bytes_in_memory(number) > request.bytes_seen {
            steps.push(ServerStep::Publish(number));
        }
        let is_early = phase == ModelPhase::Starting && design.breaks(BrokenRule::ShowBeforeShim);
        let is_running = matches!(phase, ModelPhase::Running { .. }) || is_early;
        if is_running && !request.was_shown_running {
            steps.push(ServerStep::ShowRunning(number));
        }
        // The shim could tell such an ending again, so nobody waits for its record.
        if let ModelPhase::Running {
            ending: Some(ending @ (ModelEnding::Code(_) | ModelEnding::Signaled)),
            ..
        } = phase
            && self.can_record(design, number, ending)
            && request.ending_seen.is_none()
        {
            steps.push(ServerStep::ShowEnding(number));
        }
    }

    /// The oldest queued job may start once no other job has the only slot.
    fn is_next_in_queue(&self, number: Number) -> bool {
        let Some(server) = &self.server else { return false };
        self.has_free_slot() && server.queue.first() == Some(&number) && !server.is_handing_over
    }

    fn is_handing_over(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.is_handing_over)
    }

    fn is_deaf(&self, number: Number) -> bool {
        self.server.as_ref().is_some_and(|server| server.deaf.contains(&number))
    }

    fn request_steps(&self, design: &Design, steps: &mut Vec<ServerStep>) {
        if self.server.is_none() {
            return;
        }
        for (index, request) in (0..design.requests).zip(&self.requests) {
            match (request.acked, request.in_flight) {
                (Some(_), _) => {}
                (None, None) if request.is_given_up || self.is_handing_over() => {}
                (None, None) => steps.push(ServerStep::Receive(index)),
                (None, Some(number)) => {
                    if self.can_ack(design, number) {
                        steps.push(ServerStep::Ack(index));
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

    /// The stop of a job: its client sends it, the server gives it to the shim, and answers.
    fn stop_steps(&self, design: &Design, number: Number, steps: &mut Vec<ServerStep>) {
        let Some(phase) = self.phase(number) else { return };
        let job = &self.jobs[&number];
        let request = self.request_of(number);
        let is_given = self.server.as_ref().is_none_or(|server| !server.stops.contains(&number));
        if !is_given {
            steps.push(ServerStep::GiveStop(number));
        }
        match request.stop {
            ModelStop::NotSent => {
                let is_ended = matches!(phase, ModelPhase::Ended { .. } | ModelPhase::Freed);
                let can_stop = job.may_live() || !is_ended;
                let is_stopped = job.request < design.stops && request.acked == Some(number);
                if is_stopped && can_stop && !self.is_handing_over() {
                    steps.push(ServerStep::SendStop(job.request));
                }
            }
            ModelStop::Sent => {
                let is_early = if job.shim.is_some() {
                    design.breaks(BrokenRule::AckStopBeforeOrder)
                        || design.breaks(BrokenRule::EndBeforeOrder)
                            && self.has_ended_record(number)
                } else {
                    design.breaks(BrokenRule::AckStopBeforeEnded)
                };
                if is_given || is_early {
                    steps.push(ServerStep::AckStop(job.request));
                }
            }
            ModelStop::Acked | ModelStop::GivenUp => {}
        }
    }

    fn life_steps(&self, design: &Design) -> Vec<LifeStep> {
        let mut steps = self.end_steps(design);
        match (&self.keeper, &self.server) {
            (Some(_), None) => {
                let is_asked = |job: &ModelJob| job.stage() == Some(ModelStage::Asked);
                let has_messages = self.jobs.values().any(is_asked);
                if !has_messages || design.breaks(BrokenRule::RestartBeforeMessages) {
                    steps.push(LifeStep::KeeperRestartsServer);
                }
            }
            (None, Some(_)) if !design.breaks(BrokenRule::OutliveKeeper) => {
                steps.push(LifeStep::ServerEndsWithKeeper);
            }
            (None, None) => steps.push(LifeStep::NextStart),
            (Some(_), Some(server)) if server.is_handing_over => {
                if self.can_hand_over(design) {
                    steps.push(LifeStep::HandOver);
                }
            }
            (Some(_), Some(_)) if self.upgrades < design.upgrades => {
                steps.push(LifeStep::BeginHandOver);
            }
            (None | Some(_), Some(_)) => {}
        }
        steps
    }

    /// The crashes, and the end of shims whose keeper has crashed.
    fn end_steps(&self, design: &Design) -> Vec<LifeStep> {
        let mut steps = Vec::new();
        let is_orphan = |shim: &ModelShim| shim.is_orphan && shim.is_there();
        let has_orphan = self.jobs.values().any(|job| job.shim.as_ref().is_some_and(is_orphan));
        if has_orphan && !design.breaks(BrokenRule::ShimOutlivesKeeper) {
            steps.push(LifeStep::ShimsEndWithKeeper);
        }
        if self.server.is_some() && self.server_crashes < design.server_crashes {
            steps.push(LifeStep::ServerCrash);
        }
        if self.keeper.is_some() && self.keeper_crashes < design.keeper_crashes {
            steps.push(LifeStep::KeeperCrash);
        }
        if self.shim_crashes < design.shim_crashes {
            let can_be_killed = |job: &ModelJob| match job.stage() {
                Some(ModelStage::Forked) => true,
                Some(ModelStage::Started) => job.leader == ModelLeader::Alive,
                Some(_) | None => false,
            };
            let killed = self.jobs.iter().filter(|(_, job)| can_be_killed(job));
            steps.extend(killed.map(|(number, _)| LifeStep::ShimCrash(*number)));
        }
        steps
    }

    /// The server leaves once every call is answered, no job is half started, and the pumps have stopped.
    fn can_hand_over(&self, design: &Design) -> bool {
        let Some(server) = &self.server else { return false };
        let is_answered = |index: usize| {
            let request = &self.requests[index];
            request.in_flight.is_none() && request.stop != ModelStop::Sent
        };
        let is_ready = |(number, phase): (&Number, &ModelPhase)| match phase {
            ModelPhase::Accepting | ModelPhase::Accepted | ModelPhase::Starting => {
                let job = &self.jobs[number];
                let is_waiting = *phase != ModelPhase::Starting && !job.starts_at_once;
                is_waiting || job.shim.is_some() || design.breaks(BrokenRule::HandOverHalfStarted)
            }
            ModelPhase::Refused => design.breaks(BrokenRule::HandOverUnrecordedFailure),
            ModelPhase::Running { taken, .. } => *taken == 0,
            ModelPhase::Queued
            | ModelPhase::Asked
            | ModelPhase::Ended { .. }
            | ModelPhase::Freed => true,
        };
        (0..self.requests.len()).all(is_answered)
            && server.stops.is_empty()
            && server.jobs.iter().all(is_ready)
    }
}

/// The steps of a shim that has started the leader, and of the time.
fn started_steps(
    design: &Design,
    number: Number,
    job: &ModelJob,
    shim: ModelShim,
    steps: &mut Vec<OutsideStep>,
) {
    if shim.has_order {
        steps.push(OutsideStep::ShimTakesStop(number));
    }
    if shim.kill == ModelKill::Grace && job.is_alive() {
        steps.push(OutsideStep::ShimKills(number));
    }
    let is_leader_alive = job.leader == ModelLeader::Alive;
    let has_deadline = job.request < design.deadlines && shim.kill == ModelKill::NotBegun;
    if is_leader_alive && has_deadline && !job.is_late {
        steps.push(OutsideStep::TimeIsUp(number));
    }
    if !is_leader_alive && job.has_leftover {
        steps.push(OutsideStep::LeftoverExits(number));
    }
    if is_leader_alive && shim.input > 0 {
        steps.push(OutsideStep::JobReads(number));
    }
}

/// The steps of a leader that is alive. A signal may end it at any time.
fn leader_steps(
    design: &Design,
    number: Number,
    job: &ModelJob,
    shim: ModelShim,
    steps: &mut Vec<OutsideStep>,
) {
    let is_done = job.written == design.bytes && job.read >= design.input;
    let has_signal = shim.kill != ModelKill::NotBegun;
    if job.written < design.bytes {
        steps.push(OutsideStep::JobWrites(number));
    }
    if has_signal || is_done && !design.is_endless(job.request) {
        steps.push(OutsideStep::LeaderExits(number));
    }
}
