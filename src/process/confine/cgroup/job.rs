//! The cgroup of one job.

use std::fs::{self, File};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::broom;
use super::delegation::Controller;
use super::yard::{self, Yard};
use crate::confinement::ResourceLimits;

static LAST: AtomicU64 = AtomicU64::new(0);

/// The cgroup of one job; removed when dropped, as soon as nobody is in it any more.
#[derive(Debug)]
pub(in crate::process) struct JobCgroup {
    dir: PathBuf,
    directory: File,
    /// Those limits that the kernel holds by it.
    held: ResourceLimits,
}

impl JobCgroup {
    /// A new one with these limits; none where the host does not let us.
    pub(in crate::process) fn create(limits: &ResourceLimits) -> Option<Self> {
        Self::create_in(yard::shared().ok()?, limits)
    }

    fn create_in(yard: &Yard, limits: &ResourceLimits) -> Option<Self> {
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let dir = yard.dir.join(format!("job-{number}"));
        fs::create_dir(&dir).ok()?;
        let Ok(directory) = File::open(&dir) else {
            broom::remove(dir);
            return None;
        };
        let mut cgroup = Self { dir, directory, held: ResourceLimits::NONE };
        for controller in yard.controllers.iter().flatten() {
            cgroup.hold(*controller, limits);
        }
        Some(cgroup)
    }

    fn hold(&mut self, controller: Controller, limits: &ResourceLimits) {
        match (controller, limits.memory, limits.processes) {
            (Controller::Memory, Some(bytes), _) => {
                let is_set = self.write("memory.max", &bytes.to_string());
                self.held.memory = is_set.then_some(bytes);
                // Where the kernel has no such files, a job may swap, or lose only a part of itself.
                self.write("memory.swap.max", "0");
                self.write("memory.oom.group", "1");
            }
            (Controller::Pids, _, Some(tasks)) => {
                let is_set = self.write("pids.max", &tasks.to_string());
                self.held.processes = is_set.then_some(tasks);
            }
            (Controller::Memory | Controller::Pids | Controller::Cpu, _, _) => {}
        }
    }

    /// Where a process is born as a member, or becomes one by writing `0` to `cgroup.procs` there.
    pub(in crate::process) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Ends every process in it at once. False where the host cannot.
    pub(in crate::process) fn kill(&self) -> bool {
        self.write("cgroup.kill", "1")
    }

    /// Those of these limits that it does not hold.
    pub(in crate::process) fn unheld(&self, limits: &ResourceLimits) -> ResourceLimits {
        ResourceLimits {
            memory: limits.memory.filter(|_| self.held.memory.is_none()),
            processes: limits.processes.filter(|_| self.held.processes.is_none()),
            ..*limits
        }
    }

    /// The most memory that was used in it, where the kernel ended it for want of more.
    pub(in crate::process) fn out_of_memory(&self) -> Option<u64> {
        let limit = self.held.memory?;
        let kills = field(&self.read("memory.events")?, "oom_kill")?;
        // Kernels before 5.19 do not tell the peak; it was the limit.
        let peak = self.read("memory.peak").and_then(|text| text.trim().parse().ok());
        (kills > 0).then(|| peak.unwrap_or(limit))
    }

    /// CPU time of all that was ever in it.
    pub(in crate::process) fn cpu(&self) -> Option<Duration> {
        field(&self.read("cpu.stat")?, "usage_usec").map(Duration::from_micros)
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.dir.join(file)).ok()
    }

    fn write(&self, file: &str, text: &str) -> bool {
        fs::write(self.dir.join(file), text).is_ok()
    }
}

impl Drop for JobCgroup {
    fn drop(&mut self) {
        broom::remove(self.dir.clone());
    }
}

/// The number that stands behind a name, in files with a name and a number on each line.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(found, _)| *found == name)?.1.trim().parse().ok()
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
