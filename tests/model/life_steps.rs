//! The effects of crashes, hand-overs and starts.

use super::design::{BrokenRule, Design};
use super::recovery::{self, RecoveredJob};
use super::world::{
    LifeStep, ModelEnding, ModelKeeper, ModelPhase, ModelServer, ModelStage, ModelStop, Number,
    World, number_of,
};

impl World {
    pub(super) fn apply_life_step(&mut self, design: &Design, step: LifeStep) {
        match step {
            LifeStep::ShimCrash(number) => {
                self.shim_crashes += 1;
                self.shim_mut(number).stage = ModelStage::Killed;
            }
            LifeStep::ServerCrash => {
                self.server_crashes += 1;
                self.drop_server(design);
            }
            LifeStep::KeeperCrash => self.crash_keeper(),
            LifeStep::ShimsEndWithKeeper => self.end_orphans(),
            LifeStep::BeginHandOver => {
                self.upgrades += 1;
                if let Some(server) = &mut self.server {
                    server.is_handing_over = true;
                }
            }
            LifeStep::HandOver | LifeStep::ServerEndsWithKeeper => self.drop_server(design),
            LifeStep::KeeperRestartsServer => self.start_server(design),
            LifeStep::NextStart => {
                self.keeper = Some(ModelKeeper::default());
                self.start_server(design);
            }
        }
    }

    /// Ends the keeper: a shim that it has not forked will never exist, and the others see the end of
    /// their lifeline.
    fn crash_keeper(&mut self) {
        self.keeper = None;
        self.keeper_crashes += 1;
        for shim in self.jobs.values_mut().filter_map(|job| job.shim.as_mut()) {
            match shim.stage {
                ModelStage::Asked | ModelStage::Failed => shim.stage = ModelStage::Gone,
                ModelStage::Forked | ModelStage::Started => shim.is_orphan = true,
                ModelStage::Killed | ModelStage::Gone => {}
            }
        }
    }

    /// Every shim sees that its keeper is gone, kills its tree, and exits. Their order makes no difference.
    fn end_orphans(&mut self) {
        let is_orphan = |number: &Number| {
            self.jobs[number].shim.is_some_and(|shim| shim.is_orphan && shim.is_there())
        };
        let orphans: Vec<Number> = self.jobs.keys().copied().filter(is_orphan).collect();
        for number in orphans {
            self.shim_mut(number).stage = ModelStage::Gone;
            self.kill(number);
        }
    }

    /// Ends the server: its memory is gone, and its clients have no answer.
    fn drop_server(&mut self, design: &Design) {
        self.server = None;
        for (index, request) in (0..).zip(&mut self.requests) {
            let was_in_flight = request.in_flight.take().is_some();
            request.is_given_up |= was_in_flight && !design.has_key(index);
            if request.stop == ModelStop::Sent {
                request.stop = ModelStop::GivenUp;
            }
        }
        // A number that nobody heard of and that is not in the journal is free again.
        let accepted: Vec<Number> = self.journal.iter().map(number_of).collect();
        let acked: Vec<Number> = self.requests.iter().filter_map(|it| it.acked).collect();
        let is_known = |number: &Number| accepted.contains(number) || acked.contains(number);
        let is_asked = |number: &Number| self.jobs[number].stage() == Some(ModelStage::Asked);
        let unknown = self.jobs.keys().copied().filter(|number| !is_known(number));
        let asked: Vec<Number> = unknown.filter(is_asked).collect();
        if design.breaks(BrokenRule::RestartBeforeMessages) {
            self.has_stray |= !asked.is_empty();
        } else if let Some(keeper) = &mut self.keeper {
            // The keeper still forks their shims.
            keeper.held.extend(asked);
        }
        self.jobs.retain(|number, _| is_known(number));
    }

    /// Starts the next server: it reads the journal, and asks the shims that the keeper holds.
    fn start_server(&mut self, design: &Design) {
        self.server = Some(ModelServer::default());
        let recovered = recovery::recover(design, &self.journal, |number| self.is_held(number));
        for (number, job) in recovered {
            match job {
                RecoveredJob::Queued => {
                    self.job_mut(number).shim = None;
                    self.set_phase(number, ModelPhase::Queued);
                }
                RecoveredJob::Kept => self.attach(design, number),
                RecoveredJob::Lost => {
                    let ending = ModelEnding::Lost;
                    self.record_ending(number, ending);
                    // The server has no connection with a shim.
                    self.set_phase(number, ModelPhase::Ended { ending, is_released: true });
                }
                RecoveredJob::Finished(ending) => {
                    self.forget_killed_shim(number);
                    let is_released = !self.is_held(number);
                    self.set_phase(number, ModelPhase::Ended { ending, is_released });
                    let job = &self.jobs[&number];
                    let is_missed = design.has_leftover(job.request) && job.is_over(design);
                    if is_missed && design.breaks(BrokenRule::MissLateEnd) {
                        self.become_deaf(number);
                    }
                }
                RecoveredJob::Freed => self.set_phase(number, ModelPhase::Freed),
            }
        }
        self.end_unrecorded(design);
    }

    /// Goes on with a job whose shim the keeper holds.
    fn attach(&mut self, design: &Design, number: Number) {
        if self.forget_killed_shim(number) {
            return self.record_ending(number, ModelEnding::Lost);
        }
        self.set_phase(number, ModelPhase::Running { taken: 0, ending: None });
        let may_live = self.jobs[&number].may_live();
        let shim = self.shim_mut(number);
        let is_starting = shim.stage == ModelStage::Forked;
        if shim.stop_signals > 0 && design.breaks(BrokenRule::StopAgain) {
            shim.has_order |= may_live;
        }
        if design.breaks(BrokenRule::InputAgain) {
            shim.input = design.input;
        }
        if is_starting && design.breaks(BrokenRule::MissLateFailure) {
            self.become_deaf(number);
        }
    }

    /// A shim that was killed does not answer: returns `true`, and the keeper forgets it.
    fn forget_killed_shim(&mut self, number: Number) -> bool {
        let is_killed = self.jobs[&number].stage() == Some(ModelStage::Killed);
        if let Some(keeper) = self.keeper.as_mut().filter(|_| is_killed) {
            keeper.held.remove(&number);
        }
        is_killed
    }

    fn become_deaf(&mut self, number: Number) {
        if let Some(server) = &mut self.server {
            server.deaf.insert(number);
        }
    }

    /// Ends the shims that the keeper holds for jobs without a record.
    fn end_unrecorded(&mut self, design: &Design) {
        let recorded: Vec<Number> = self.journal.iter().map(number_of).collect();
        let Some(keeper) = &mut self.keeper else { return };
        let held = keeper.held.len();
        keeper.held.retain(|number| recorded.contains(number));
        if design.breaks(BrokenRule::KeepUnrecorded) {
            self.has_stray |= keeper.held.len() < held;
        }
    }
}
