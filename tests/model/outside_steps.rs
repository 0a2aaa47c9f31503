//! The effects of the steps of keepers, shims and jobs.

use super::design::{BrokenRule, Design};
use super::world::{
    ModelCause, ModelKill, ModelLeader, ModelShim, ModelStage, Number, OutsideStep, World,
};

impl World {
    pub(super) fn apply_outside_step(&mut self, design: &Design, step: OutsideStep) {
        match step {
            OutsideStep::KeeperForks(number) => self.fork(design, number),
            OutsideStep::KeeperKillsStrays(number) => self.kill(number),
            OutsideStep::ShimStartsLeader(number) => self.start_leader(design, number),
            OutsideStep::ShimFailsToStart(number) => {
                self.shim_mut(number).stage = ModelStage::Failed;
            }
            OutsideStep::ShimTakesStop(number) => self.take_stop(design, number),
            OutsideStep::ShimKills(number) => {
                self.shim_mut(number).kill = ModelKill::Killed;
                self.kill(number);
            }
            OutsideStep::TimeIsUp(number) => {
                self.job_mut(number).is_late = true;
                if !design.breaks(BrokenRule::ServerKeepsDeadline) {
                    self.shim_mut(number).begin_ending(ModelCause::Deadline);
                }
            }
            OutsideStep::JobReads(number) => {
                self.shim_mut(number).input -= 1;
                self.job_mut(number).read += 1;
            }
            OutsideStep::JobWrites(number) => {
                let job = self.job_mut(number);
                job.written += 1;
                job.pipe += 1;
            }
            OutsideStep::LeaderExits(number) => self.job_mut(number).leader = ModelLeader::Exited,
            OutsideStep::LeftoverExits(number) => self.job_mut(number).has_leftover = false,
        }
    }

    /// The keeper holds the connection of a shim before it forks the shim. Only a job that may fail to start
    /// is examined before its leader exists.
    fn fork(&mut self, design: &Design, number: Number) {
        if let Some(keeper) = &mut self.keeper {
            keeper.held.insert(number);
        }
        self.shim_mut(number).stage = ModelStage::Forked;
        if !design.may_fail(self.jobs[&number].request) {
            self.start_leader(design, number);
        }
    }

    fn start_leader(&mut self, design: &Design, number: Number) {
        self.shim_mut(number).stage = ModelStage::Started;
        let job = self.job_mut(number);
        job.leader = ModelLeader::Alive;
        job.has_leftover = design.has_leftover(job.request);
    }

    /// The shim reads a stop. A tree that is over ignores it.
    fn take_stop(&mut self, design: &Design, number: Number) {
        let is_over = self.jobs[&number].is_over(design);
        let is_leader_alive = self.jobs[&number].leader == ModelLeader::Alive;
        let shim = self.shim_mut(number);
        shim.has_order = false;
        if is_over || shim.kill == ModelKill::Killed {
            return;
        }
        shim.stop_signals += 1;
        if is_leader_alive {
            shim.begin_ending(ModelCause::Stop);
        } else {
            // The leader has ended by itself; its rest is ended without a cause.
            shim.kill = ModelKill::Grace;
        }
    }

    /// Kills every process of a job.
    pub(super) fn kill(&mut self, number: Number) {
        let job = self.job_mut(number);
        job.has_leftover = false;
        if job.leader == ModelLeader::Alive {
            job.leader = ModelLeader::Killed;
        }
    }
}

impl ModelShim {
    /// Sends the first signal of an ending, or another one. The first cause counts.
    pub(super) fn begin_ending(&mut self, cause: ModelCause) {
        if self.kill == ModelKill::NotBegun {
            self.cause = Some(cause);
        }
        self.kill = ModelKill::Grace;
    }
}
