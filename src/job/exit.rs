//! How the end of a leader reads. Pure.

use crate::outcome::{LimitKind, Outcome, SIGKILL, SIGXCPU, SIGXFSZ};
use crate::process::ExitKind;
use crate::spec::{Program, Spec};

/// What a shell adds to the number of the signal that ended its last command.
const BY_SIGNAL: i32 = 128;

/// How the end of a leader reads: as the limit that the kernel ended it for, if it did. Given is
/// the most memory that the job had, where it was ended for want of more, and whether the kernel
/// refused it a process: a job that fails after that failed because of it.
pub(super) fn outcome(
    exit: ExitKind,
    spec: &Spec,
    out_of_memory: Option<u64>,
    was_refused_tasks: bool,
) -> Outcome {
    let is_refused = was_refused_tasks && exit != ExitKind::Code(0);
    let processes = spec.resources.processes.filter(|_| is_refused).map(LimitKind::Processes);
    match limit(exit, spec, out_of_memory).or(processes) {
        Some(which) => Outcome::Limit { which },
        None => match exit {
            ExitKind::Code(code) => Outcome::Exited { code },
            ExitKind::Signal { signal, core } => Outcome::Signaled { signal, core },
        },
    }
}

/// `true` if those who outlived the leader are as many as the job may have: with the leader they
/// were too many. Not every kernel limit tells that it refused a process.
pub(super) fn survivors_reach_limit(spec: &Spec, survivors: &[u32]) -> bool {
    spec.resources.processes.is_some_and(|most| survivors.len() as u64 >= most)
}

fn limit(exit: ExitKind, spec: &Spec, out_of_memory: Option<u64>) -> Option<LimitKind> {
    let limits = &spec.resources;
    match signal(exit, &spec.program)? {
        SIGKILL => {
            let peak = out_of_memory?;
            limits.memory.map(|limit| LimitKind::Memory { limit, peak })
        }
        SIGXCPU => limits.cpu.map(LimitKind::Cpu),
        SIGXFSZ => limits.file_size.map(LimitKind::FileSize),
        _ => None,
    }
}

/// The signal that ended the leader or, where that is a shell, its last command.
fn signal(exit: ExitKind, program: &Program) -> Option<i32> {
    match (exit, program) {
        (ExitKind::Signal { signal, .. }, _) => Some(signal),
        (ExitKind::Code(code), Program::Shell(_)) => Some(code - BY_SIGNAL),
        (ExitKind::Code(_), Program::Direct { .. }) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::confinement::ResourceLimits;
    use crate::job::tests::spec;

    const LIMITS: ResourceLimits = ResourceLimits {
        memory: Some(100),
        cpu: Some(Duration::from_secs(3)),
        file_size: Some(50),
        ..ResourceLimits::NONE
    };

    const fn by(signal: i32) -> ExitKind {
        ExitKind::Signal { signal, core: false }
    }

    fn limited(exit: ExitKind, out_of_memory: Option<u64>) -> Outcome {
        outcome(exit, &Spec { resources: LIMITS, ..spec("true") }, out_of_memory, false)
    }

    #[test]
    fn a_failure_after_a_refused_process_reads_as_the_limit() {
        let resources = ResourceLimits { processes: Some(7), ..LIMITS };
        let refused = |exit| outcome(exit, &Spec { resources, ..spec("true") }, None, true);
        let limit = Outcome::Limit { which: LimitKind::Processes(7) };
        assert_eq!([refused(ExitKind::Code(2)), refused(by(SIGKILL))], [limit.clone(), limit]);
        assert_eq!(refused(ExitKind::Code(0)), Outcome::Exited { code: 0 }, "it coped");
    }

    #[test]
    fn as_many_survivors_as_the_limit_tell_of_a_refused_process() {
        let resources = ResourceLimits { processes: Some(2), ..LIMITS };
        let spec = Spec { resources, ..spec("true") };
        assert_eq!(
            [&[7][..], &[7, 8]].map(|left| survivors_reach_limit(&spec, left)),
            [false, true]
        );
        assert!(!survivors_reach_limit(&Spec { resources: LIMITS, ..spec }, &[7, 8, 9]));
    }

    #[test]
    fn what_the_kernel_ended_for_a_limit_reads_as_that() {
        let is = |exit, oom, which| assert_eq!(limited(exit, oom), Outcome::Limit { which });
        is(by(SIGKILL), Some(99), LimitKind::Memory { limit: 100, peak: 99 });
        is(ExitKind::Code(137), Some(99), LimitKind::Memory { limit: 100, peak: 99 });
        for exit in [by(SIGXCPU), ExitKind::Code(152)] {
            is(exit, None, LimitKind::Cpu(Duration::from_secs(3)));
        }
        for exit in [by(SIGXFSZ), ExitKind::Code(153)] {
            is(exit, None, LimitKind::FileSize(50));
        }
    }

    #[test]
    fn everything_else_reads_as_it_is() {
        assert_eq!(limited(by(SIGKILL), None), Outcome::Signaled { signal: 9, core: false });
        for code in [0, 1, 137, 143] {
            assert_eq!(limited(ExitKind::Code(code), None), Outcome::Exited { code });
        }
        let free = spec("true");
        for code in [152, 153] {
            let exit = ExitKind::Code(code);
            assert_eq!(outcome(exit, &free, None, false), Outcome::Exited { code });
            let program = Program::Direct { program: "x".to_owned(), args: Vec::new() };
            let direct = Spec { resources: LIMITS, program, ..spec("") };
            assert_eq!(
                outcome(exit, &direct, None, false),
                Outcome::Exited { code },
                "its own code"
            );
        }
    }
}
