//! The programs that run in a job, as far as the gate has let them start.

use std::collections::HashMap;

use rustix::process::Pid;
use shellyard_policy::gate::RunningProgram;

use crate::processes::{self, ProcStat, ProcessKey, parse_pid};

/// The number of entries from which on those of dead processes are removed.
const FIRST_SWEEP: usize = 256;
/// The most programs that are known. A process without an entry counts as a part of its nearest ancestor
/// that has one, which allows it no more.
const MOST_PROGRAMS: usize = 32_768;
/// The most generations that are walked through.
const MOST_ANCESTORS: usize = 256;

/// The known programs, by process. A process that has started no program yet has no entry of its own: it
/// still runs the program of its parent.
#[derive(Debug)]
pub(super) struct RunningPrograms {
    known: HashMap<ProcessKey, RunningProgram>,
    sweep_at: usize,
}

impl RunningPrograms {
    pub(super) fn new() -> Self {
        Self { known: HashMap::new(), sweep_at: FIRST_SWEEP }
    }

    /// Returns the program that a process runs: its own, or that of its nearest known ancestor. `None` if
    /// there is none, for example because a parent has ended: then it is not known what started it.
    pub(super) fn find(&self, process: Pid) -> Option<&RunningProgram> {
        let mut stat = processes::stat(process)?;
        for _ in 0..MOST_ANCESTORS {
            if let Some(program) = self.known.get(&stat.key()) {
                return Some(program);
            }
            let parent = parse_pid(stat.parent).and_then(processes::stat)?;
            // Another process may have got the number of a parent that has ended.
            if parent.started > stat.started {
                return None;
            }
            stat = parent;
        }
        None
    }

    /// Notes that a process runs this program from now on.
    pub(super) fn insert(&mut self, process: Pid, program: RunningProgram) {
        let Some(key) = processes::stat(process).as_ref().map(ProcStat::key) else { return };
        if self.known.len() >= self.sweep_at {
            self.sweep();
        }
        if self.known.len() < MOST_PROGRAMS || self.known.contains_key(&key) {
            self.known.insert(key, program);
        } else {
            // An entry of the program before would be wrong.
            self.known.remove(&key);
        }
    }

    fn sweep(&mut self) {
        self.known.retain(|key, _| {
            processes::stat(key.0).is_some_and(|stat| stat.is_alive() && stat.key() == *key)
        });
        self.sweep_at = (self.known.len() * 2).clamp(FIRST_SWEEP, MOST_PROGRAMS);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use rustix::process::getpid;
    use shellyard_policy::gate::ProgramKind;

    use super::*;

    fn program(name: &str) -> RunningProgram {
        RunningProgram {
            name: name.to_owned(),
            kind: ProgramKind::Judged,
            rule: None,
            helpers_of: None,
            awaits: None,
        }
    }

    fn sleep() -> Child {
        Command::new("sleep").arg("1000").spawn().unwrap()
    }

    #[test]
    fn a_process_without_a_program_of_its_own_runs_that_of_its_nearest_ancestor() {
        let mut child = sleep();
        let pid = Pid::from_child(&child);
        let mut running = RunningPrograms::new();
        assert_eq!(running.find(pid), None);
        running.insert(getpid(), program("parent"));
        assert_eq!(running.find(pid), Some(&program("parent")));
        running.insert(pid, program("child"));
        assert_eq!(running.find(pid), Some(&program("child")));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(running.find(pid), None);
    }

    #[test]
    fn programs_of_dead_processes_are_forgotten() {
        let mut running = RunningPrograms::new();
        let own = processes::own_key().unwrap();
        for number in 0..FIRST_SWEEP as u64 {
            running.known.insert((own.0, own.1 + 1 + number), program("dead"));
        }
        running.insert(own.0, program("own"));
        assert_eq!(running.known.len(), 1);
        assert_eq!(running.find(own.0), Some(&program("own")));
    }
}
