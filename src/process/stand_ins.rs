//! What stands here until the files of the same names in [`super::confine`] do it.

/// Stands for `confine::scratch`.
pub(super) mod scratch {
    use std::io;
    use std::path::Path;

    use tempfile::TempDir;

    /// A temporary directory of one job; removed when dropped.
    #[derive(Debug)]
    pub(in crate::process) struct Scratch(TempDir);

    impl Scratch {
        /// A new one below this directory.
        pub(in crate::process) fn create(below: &Path) -> io::Result<Self> {
            tempfile::Builder::new().prefix("job-").tempdir_in(below).map(Self)
        }

        pub(in crate::process) fn path(&self) -> &Path {
            self.0.path()
        }
    }
}

/// Stands for `confine::workspace`.
pub(super) mod workspace {
    use std::path::{Path, PathBuf};

    use crate::confinement::ConfinedPlaces;

    /// The directories that a job which runs here may write to, or why there is none.
    pub(in crate::process) fn roots(
        places: &ConfinedPlaces,
        cwd: &Path,
    ) -> Result<Vec<PathBuf>, String> {
        let configured = places.workspace.clone();
        Ok(if configured.is_empty() { vec![cwd.to_owned()] } else { configured })
    }
}

/// Stands for `confine::protected`.
pub(super) mod protected {
    use std::path::{Path, PathBuf};

    /// What is protected inside workspaces for as long as this is held.
    #[derive(Debug, Default)]
    pub(in crate::process) struct Guarded {
        paths: Vec<PathBuf>,
    }

    impl Guarded {
        pub(in crate::process) fn paths(&self) -> &[PathBuf] {
            &self.paths
        }
    }

    /// Protects what must not be changed below these directories.
    pub(in crate::process) fn guard(_roots: &[PathBuf], _home: Option<&Path>) -> Guarded {
        Guarded::default()
    }
}

/// Stands for what `confine::mounts` lacks.
pub(super) mod mounts {
    use std::io;
    use std::path::{Path, PathBuf};

    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

    use crate::confinement::Profile;
    use crate::process::confine::mounts::Mount;

    /// What a job of this profile sees, given its places.
    pub(in crate::process) fn plan(
        profile: Profile,
        roots: &[PathBuf],
        scratch: &Path,
        guarded: &[PathBuf],
        hidden: &[PathBuf],
    ) -> Vec<Mount> {
        let written = if profile == Profile::ReadOnly { &[] } else { roots };
        let written = written.iter().map(PathBuf::as_path).chain([scratch]);
        let written = written.map(|path| Mount::Writable(path.to_owned()));
        let guarded = guarded.iter().cloned().map(Mount::ReadOnly);
        written.chain(guarded).chain(hidden.iter().cloned().map(Mount::Hidden)).collect()
    }

    /// Shows the processes of our own namespace in /proc.
    pub(in crate::process) fn own_proc() -> io::Result<()> {
        // Else the real /proc of the host would be covered too.
        mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        Ok(mount("proc", "/proc", "proc", flags, None)?)
    }
}
