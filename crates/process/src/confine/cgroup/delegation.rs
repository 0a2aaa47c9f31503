//! How much of cgroups a host lets us have, in words.

use std::fmt;
use std::path::PathBuf;

/// A controller that jobs profit from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// Bounds memory.
    Memory,
    /// Bounds the number of tasks.
    Pids,
    /// Gives each job, and the server, the same share of the processors.
    Cpu,
}

impl Controller {
    pub(super) const ALL: [Self; 3] = [Self::Memory, Self::Pids, Self::Cpu];

    /// The kernel's name for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }

    /// Those that a file such as `cgroup.controllers` names.
    pub(super) fn named_in(list: &str) -> Vec<Self> {
        let is_named = |it: &Self| list.split_ascii_whitespace().any(|word| word == it.word());
        Self::ALL.into_iter().filter(is_named).collect()
    }
}

/// What a host lets us do with cgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delegation {
    /// Each job gets one of its own, and these are at work in it.
    Controllers {
        /// Never empty.
        controllers: Vec<Controller>,
        /// Below which directory.
        below: PathBuf,
    },
    /// Each job gets one of its own, by which it is ended at once; nothing is bounded by it.
    Grouping {
        /// Why not more.
        why: String,
        /// Below which directory.
        below: PathBuf,
    },
    /// None at all.
    Nothing {
        /// Why.
        why: String,
    },
}

impl Delegation {
    /// What can be done to get more; nothing where there is nothing more to get.
    #[must_use]
    pub fn fix(&self) -> Option<&'static str> {
        let holds = |controllers: &[Controller], it| controllers.contains(&it);
        match self {
            Self::Controllers { controllers, .. }
                if holds(controllers, Controller::Memory)
                    && holds(controllers, Controller::Pids) =>
            {
                None
            }
            Self::Controllers { .. } | Self::Grouping { .. } => Some(
                "start the server alone in a cgroup with delegated controllers: as a systemd service with Delegate=yes, or by `systemd-run --user --scope -p Delegate=yes shellyard serve`",
            ),
            Self::Nothing { .. } => Some(
                "give the server a cgroup of version 2 that its user may write to: a systemd service with Delegate=yes, or a container with a writable /sys/fs/cgroup",
            ),
        }
    }
}

impl fmt::Display for Delegation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controllers { controllers, below } => {
                let words: Vec<_> = controllers.iter().map(|it| it.word()).collect();
                write!(f, "{} delegated at {}", words.join(", "), below.display())
            }
            Self::Grouping { why, below } => {
                write!(f, "jobs are grouped below {} but not bounded: {why}", below.display())
            }
            Self::Nothing { why } => write!(f, "not delegated: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_controllers_of_use_are_taken() {
        let named = Controller::named_in("cpuset cpu io memory hugetlb pids rdma misc\n");
        assert_eq!(named, Controller::ALL);
        assert_eq!(Controller::named_in("cpuset memory.x\n"), []);
    }

    #[test]
    fn whoever_lacks_something_is_told_what_to_do() {
        let below = PathBuf::from("/x");
        let with = |controllers| Delegation::Controllers { controllers, below: below.clone() };
        assert_eq!(with(vec![Controller::Memory, Controller::Pids]).fix(), None);
        assert!(with(vec![Controller::Pids]).fix().is_some());
        let why = "because".to_owned();
        let grouping = Delegation::Grouping { why: why.clone(), below };
        assert!(grouping.to_string().contains("because") && grouping.fix().is_some());
        let nothing = Delegation::Nothing { why };
        assert!(nothing.to_string().contains("because") && nothing.fix().is_some());
    }
}
