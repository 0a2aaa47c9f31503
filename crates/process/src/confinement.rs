//! How far a job is shut in, and what it may use up: the words that every room shares.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a job may do to its surroundings. Loosest first: a later one allows nothing that an
/// earlier one forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SandboxProfile {
    /// Whatever the server's user may.
    None,
    /// The same, without the system calls that reach into other processes or into the kernel, and
    /// without any way to gain privileges.
    Default,
    /// It writes to its workspace and to a temporary directory of its own, and nowhere else.
    WorkspaceWrite,
    /// It writes to a temporary directory of its own, and nowhere else.
    ReadOnly,
}

impl SandboxProfile {
    /// Each with the word for it in settings and on the wire.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("none", Self::None),
        ("default", Self::Default),
        ("workspace-write", Self::WorkspaceWrite),
        ("read-only", Self::ReadOnly),
    ];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Default => "default",
            Self::WorkspaceWrite => "workspace-write",
            Self::ReadOnly => "read-only",
        }
    }

    /// Whether it says where a job may write.
    #[must_use]
    pub const fn limits_files(self) -> bool {
        match self {
            Self::None | Self::Default => false,
            Self::WorkspaceWrite | Self::ReadOnly => true,
        }
    }

    /// The network that a job gets where nobody says.
    #[must_use]
    pub const fn default_network(self) -> NetworkAccess {
        if self.limits_files() { NetworkAccess::Off } else { NetworkAccess::On }
    }
}

/// Whether a job reaches other hosts, and programs on this one by their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkAccess {
    /// It does.
    On,
    /// It does not. In a network namespace of its own it reaches its own servers; unix sockets
    /// are not limited by this.
    Off,
}

impl NetworkAccess {
    /// Each with the word for it in settings and on the wire.
    pub const WORDS: [(&'static str, Self); 2] = [("on", Self::On), ("off", Self::Off)];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Confinement {
    /// What the job may do to its surroundings.
    pub profile: SandboxProfile,
    /// Whether it has a network.
    pub network: NetworkAccess,
}

impl Confinement {
    /// None at all.
    pub const NONE: Self = Self { profile: SandboxProfile::None, network: NetworkAccess::On };

    /// Whether it allows nothing that the other forbids.
    #[must_use]
    pub fn is_as_tight_as(self, other: Self) -> bool {
        self.profile >= other.profile && self.network >= other.network
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, network {}", self.profile.word(), self.network.word())
    }
}

/// What enforces it, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Namespaces of its own (users, processes, mounts, network), with all that the others do.
    Namespaces,
    /// Landlock and a filter of system calls.
    Landlock,
    /// A filter of system calls and resource limits.
    Seccomp,
    /// Nothing.
    Nothing,
}

impl Backend {
    /// Each with the word for it.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("namespaces", Self::Namespaces),
        ("landlock", Self::Landlock),
        ("seccomp", Self::Seccomp),
        ("nothing", Self::Nothing),
    ];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Nothing => "nothing",
        }
    }
}

/// What a job gets: what was asked for, who enforces it, and what of it this host could not give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GrantedConfinement {
    /// What was asked for.
    pub requested: Confinement,
    /// What holds: the same, or less where the host cannot do it and a setting allows that.
    pub effective: Confinement,
    /// What enforces it.
    pub backend: Backend,
}

impl GrantedConfinement {
    /// No confinement at all.
    pub const NOTHING: Self = Self {
        requested: Confinement::NONE,
        effective: Confinement::NONE,
        backend: Backend::Nothing,
    };

    /// Whether the host could not give all of it.
    #[must_use]
    pub fn is_degraded(self) -> bool {
        self.requested != self.effective
    }
}

/// What one job may use up. `None`: no bound of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceLimits {
    /// Memory of all its processes together, in bytes.
    pub memory: Option<u64>,
    /// CPU time of all its processes together.
    pub cpu: Option<Duration>,
    /// Processes and threads at one time.
    pub processes: Option<u64>,
    /// Open files of each process.
    pub open_files: Option<u64>,
    /// The size of each file that it writes, in bytes.
    pub file_size: Option<u64>,
    /// How much it gives way to others, 0 to 19.
    pub nice: u8,
}

impl ResourceLimits {
    /// None at all.
    pub const NONE: Self = Self {
        memory: None,
        cpu: None,
        processes: None,
        open_files: None,
        file_size: None,
        nice: 0,
    };

    /// The tighter of each.
    #[must_use]
    pub fn tightened(self, other: Self) -> Self {
        Self {
            memory: tighter(self.memory, other.memory),
            cpu: tighter(self.cpu, other.cpu),
            processes: tighter(self.processes, other.processes),
            open_files: tighter(self.open_files, other.open_files),
            file_size: tighter(self.file_size, other.file_size),
            nice: self.nice.max(other.nice),
        }
    }
}

fn tighter<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Where things are that confinement is about: the same for all jobs of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxPaths {
    /// The workspaces, as full paths; empty: the directory in which a job runs.
    pub workspace: Vec<PathBuf>,
    /// The home directory of the server's user.
    pub home: Option<PathBuf>,
    /// What jobs whose files are limited shall not even read, as full paths.
    pub hidden: Vec<PathBuf>,
    /// The part that such jobs still see of the home directory and of other places of which they have their
    /// own, as full paths.
    pub shown: Vec<PathBuf>,
    /// The files that they must not write in a workspace: names below it, or below the home directory where
    /// they begin with `~`.
    pub protected: Vec<PathBuf>,
    /// Where temporary directories of jobs are made; it exists and is ours alone.
    pub scratch: PathBuf,
}

impl SandboxPaths {
    /// `true` if a job that writes to this workspace must not write the file. Both are full paths
    /// with links followed.
    #[must_use]
    pub fn protects(&self, workspace: &Path, file: &Path) -> bool {
        self.protected.iter().any(|name| match (name.strip_prefix("~"), &self.home) {
            (Ok(name), Some(home)) => is_at_or_below(file, &home.join(name)),
            (Ok(_), None) => false,
            (Err(_), _) => is_at_or_below(file, &workspace.join(name)),
        })
    }
}

/// `true` if a file is at a place or below it; a part `*` of the place stands for any name.
fn is_at_or_below(file: &Path, place: &Path) -> bool {
    let mut parts = file.components();
    place.components().all(|wanted| {
        parts.next().is_some_and(|found| wanted.as_os_str() == "*" || wanted == found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_protected_in_the_workspace_or_the_home() {
        let places = SandboxPaths {
            home: Some("/h".into()),
            protected: [".git/config", ".git/modules/*/config", ".vscode", "~/.bashrc"]
                .map(PathBuf::from)
                .to_vec(),
            ..SandboxPaths::default()
        };
        let protects = |file: &str| places.protects(Path::new("/w"), Path::new(file));
        for file in ["/w/.git/config", "/w/.git/modules/a/config", "/w/.vscode/x", "/h/.bashrc"] {
            assert!(protects(file), "{file}");
        }
        for file in ["/w/.git/index", "/w/sub/.vscode/x", "/w/.bashrc", "/h/x"] {
            assert!(!protects(file), "{file}");
        }
    }

    #[test]
    fn a_later_profile_is_tighter() {
        let order = SandboxProfile::WORDS.map(|(_, profile)| profile);
        assert!(order.is_sorted());
        for (word, profile) in SandboxProfile::WORDS {
            assert_eq!(word, profile.word());
        }
    }

    #[test]
    fn tighter_in_one_respect_and_looser_in_another_is_not_as_tight() {
        let loose = Confinement { profile: SandboxProfile::Default, network: NetworkAccess::Off };
        let tight = Confinement { profile: SandboxProfile::ReadOnly, network: NetworkAccess::On };
        assert!(!tight.is_as_tight_as(loose) && !loose.is_as_tight_as(tight));
        assert!(loose.is_as_tight_as(Confinement::NONE) && loose.is_as_tight_as(loose));
    }

    #[test]
    fn of_two_limits_the_tighter_holds() {
        let one = ResourceLimits { memory: Some(5), processes: Some(9), ..ResourceLimits::NONE };
        let other = ResourceLimits { memory: Some(7), nice: 3, ..ResourceLimits::NONE };
        let both = ResourceLimits { memory: Some(5), processes: Some(9), nice: 3, ..other };
        assert_eq!(one.tightened(other), both);
        assert_eq!(other.tightened(one), both);
    }
}
