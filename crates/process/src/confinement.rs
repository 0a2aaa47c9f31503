//! Sandbox profiles, backends and resource limits: the types that every module shares.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The rights of a job on its host. Loosest first: a later profile allows nothing that an earlier
/// one forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxProfile {
    /// Everything that the server's user may do.
    None,
    /// Everything that the server's user may do, except for system calls that reach into other
    /// processes or into the kernel, and without any way to gain privileges.
    Default,
    /// Writing is limited to the workspace and to a temporary directory of the job's own.
    WorkspaceWrite,
    /// Writing is limited to a temporary directory of the job's own.
    ReadOnly,
}

impl SandboxProfile {
    /// All profiles with their names in settings and on the wire.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("none", Self::None),
        ("default", Self::Default),
        ("workspace-write", Self::WorkspaceWrite),
        ("read-only", Self::ReadOnly),
    ];

    /// Returns the name in settings and on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Default => "default",
            Self::WorkspaceWrite => "workspace-write",
            Self::ReadOnly => "read-only",
        }
    }

    /// `true` if the profile limits where a job may write.
    #[must_use]
    pub const fn restricts_files(self) -> bool {
        match self {
            Self::None | Self::Default => false,
            Self::WorkspaceWrite | Self::ReadOnly => true,
        }
    }

    /// Returns the network access of jobs with this profile if no setting says otherwise.
    #[must_use]
    pub const fn default_network(self) -> NetworkAccess {
        if self.restricts_files() { NetworkAccess::Off } else { NetworkAccess::On }
    }
}

/// The permission to reach other hosts, and programs on this host by their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkAccess {
    /// The network of the host.
    On,
    /// No network. With its own network namespace a job can reach its own servers. Unix sockets are
    /// not limited by this.
    Off,
}

impl NetworkAccess {
    /// Both values with their names in settings and on the wire.
    pub const WORDS: [(&'static str, Self); 2] = [("on", Self::On), ("off", Self::Off)];

    /// Returns the name in settings and on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// The confinement of a job: a profile and network access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Confinement {
    /// The profile of the sandbox.
    pub profile: SandboxProfile,
    /// The access to the network.
    pub network: NetworkAccess,
}

impl Confinement {
    /// The confinement of an unrestricted job.
    pub const NONE: Self = Self { profile: SandboxProfile::None, network: NetworkAccess::On };

    /// `true` if this confinement allows nothing that `other` forbids.
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

/// The mechanism that enforces a confinement, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The job's own namespaces (users, processes, mounts, network), and everything that the other
    /// backends do.
    Namespaces,
    /// Landlock and a seccomp filter.
    Landlock,
    /// A seccomp filter and resource limits.
    Seccomp,
    /// Nothing enforces it.
    Nothing,
}

impl Backend {
    /// All backends with their names.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("namespaces", Self::Namespaces),
        ("landlock", Self::Landlock),
        ("seccomp", Self::Seccomp),
        ("nothing", Self::Nothing),
    ];

    /// Returns the name in settings and on the wire.
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

/// The confinement of a job: requested, in effect, and the backend that enforces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GrantedConfinement {
    /// The confinement that the settings or the call request.
    pub requested: Confinement,
    /// The confinement that is in effect: the requested one, or less if the host cannot do it and a
    /// setting allows that.
    pub effective: Confinement,
    /// The backend that enforces it.
    pub backend: Backend,
}

impl GrantedConfinement {
    /// No confinement, enforced by nothing.
    pub const NOTHING: Self = Self {
        requested: Confinement::NONE,
        effective: Confinement::NONE,
        backend: Backend::Nothing,
    };

    /// `true` if the host could not provide all of the requested confinement.
    #[must_use]
    pub fn is_degraded(self) -> bool {
        self.requested != self.effective
    }
}

/// The resource limits of one job. `None` means no limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
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
    /// The niceness of its processes, 0 to 19.
    pub nice: u8,
}

impl ResourceLimits {
    /// The absence of all limits.
    pub const NONE: Self = Self {
        memory: None,
        cpu: None,
        processes: None,
        open_files: None,
        file_size: None,
        nice: 0,
    };

    /// Returns the tighter limit of each pair.
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

/// The paths that sandboxes refer to: the same for all jobs of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxPaths {
    /// The workspaces, as full paths; if empty, the directory in which a job runs.
    pub workspace: Vec<PathBuf>,
    /// The home directory of the server's user.
    pub home: Option<PathBuf>,
    /// Full paths that jobs with limited files cannot read.
    pub hidden: Vec<PathBuf>,
    /// Full paths that such jobs still see in the home directory and in other directories of which
    /// they get a private copy.
    pub shown: Vec<PathBuf>,
    /// Files that jobs cannot write in a workspace: names below it, or below the home directory if
    /// they begin with `~`.
    pub protected: Vec<PathBuf>,
    /// The directory for the temporary directories of jobs; it exists and belongs to this server
    /// alone.
    pub scratch: PathBuf,
}

impl SandboxPaths {
    /// `true` if a job that writes to this workspace must not write the file. Both are full paths
    /// without symlinks.
    #[must_use]
    pub fn protects(&self, workspace: &Path, file: &Path) -> bool {
        self.protected.iter().any(|name| match (name.strip_prefix("~"), &self.home) {
            (Ok(name), Some(home)) => is_at_or_below(file, &home.join(name)),
            (Ok(_), None) => false,
            (Err(_), _) => is_at_or_below(file, &workspace.join(name)),
        })
    }
}

/// `true` if a file is at `place` or below it; a component `*` of `place` matches any name.
fn is_at_or_below(file: &Path, place: &Path) -> bool {
    let mut parts = file.components();
    place.components().all(|wanted| {
        parts.next().is_some_and(|found| wanted.as_os_str() == "*" || wanted == found)
    })
}

/// A file that a job, or somebody else meanwhile, created under a protected name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAsideFile {
    /// The protected path, or the part of it that led elsewhere.
    pub path: PathBuf,
    /// The path that it has now; `None` if it could not be renamed.
    pub renamed_to: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_protected_in_the_workspace_or_the_home_directory() {
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
