//! The resources that are created for a job before it starts, and released when it is over.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, getpgid, getpgrp, getpid};
use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroups;
use crate::confinement::{Backend, SandboxProfile, SetAsideFile};
use crate::handover::SavedPath;
use crate::job_cgroup::{JobCgroup, SavedCgroup};
use crate::launch::{ProcessLaunch, SandboxSpec};
use crate::sandbox::mounts::{self, BindMount, Mount, MountView};
use crate::sandbox::protected_files::{ProtectedFiles, find_protected_files};
use crate::sandbox::scratch::{Scratch, ScratchReaper};
use crate::sandbox::seccomp::SocketRules;
use crate::sandbox::workspace::{self, SharedDir, TEMPORARY};
use crate::spawn_request::SandboxRules;
use crate::start_error::StartError;

/// The cgroup and the directories of one job. Dropped when no process of the job is left.
#[derive(Debug, Default)]
pub(crate) struct SandboxResources {
    cgroup: Option<JobCgroup>,
    files: Option<SandboxFiles>,
}

/// The description of a job's resources that lets the next server take them over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct SavedResources {
    cgroup: Option<SavedCgroup>,
    pub(crate) scratch: Option<SavedPath>,
}

impl SavedResources {
    pub(crate) const fn cgroup(&self) -> Option<&SavedCgroup> {
        self.cgroup.as_ref()
    }
}

/// The files that a job with limited files sees, and those that it may write.
#[derive(Debug)]
struct SandboxFiles {
    /// The directories that it may write to, on the host.
    roots: Vec<PathBuf>,
    /// The directory for temporary files, as the job names it.
    temporary: PathBuf,
    /// The job's view of the files, if it has its own namespaces.
    view: Option<PrivateView>,
    scratch: Scratch,
}

/// The view of the files in a job's own mount namespace.
#[derive(Debug)]
struct PrivateView {
    /// The workspaces, and other directories that it sees inside shared directories.
    roots: Vec<PathBuf>,
    private: Vec<BindMount>,
    shown: Vec<BindMount>,
    hidden: Vec<PathBuf>,
    protected_files: ProtectedFiles,
}

impl SandboxResources {
    /// Creates what this launch needs.
    pub(crate) fn create(
        launch: &ProcessLaunch,
        cgroups: &Cgroups,
        reaper: &ScratchReaper,
    ) -> Result<Self, StartError> {
        let spec = &launch.sandbox;
        if spec.is_none() {
            return Ok(Self::default());
        }
        let files = if spec.granted.effective.profile.restricts_files() {
            Some(SandboxFiles::create(launch, reaper)?)
        } else {
            None
        };
        Ok(Self { cgroup: cgroups.create_job(&spec.limits), files })
    }

    /// Returns the rules that the new process applies to itself: with this version of Landlock, if
    /// it is used, and without signals to the protected processes.
    pub(crate) fn sandbox_rules(
        &self,
        spec: &SandboxSpec,
        landlock: Option<u32>,
        protected_pids: Vec<i32>,
    ) -> SandboxRules {
        let confinement = spec.granted.effective;
        let backend = spec.granted.backend;
        let files = self.files.as_ref();
        SandboxRules {
            confinement,
            backend,
            sockets: SocketRules::new(confinement, backend, landlock),
            limits: spec.limits,
            mounts: files.map(|files| files.mount_plan(confinement.profile)).unwrap_or_default(),
            writable: files.filter(|_| landlock.is_some()).map(SandboxFiles::writable_paths),
            protected_pids,
        }
    }

    /// Returns its own temporary directory, if it has one, as the job names it.
    pub(crate) fn temporary(&self) -> Option<&Path> {
        self.files.as_ref().map(|files| files.temporary.as_path())
    }

    pub(crate) const fn cgroup(&self) -> Option<&JobCgroup> {
        self.cgroup.as_ref()
    }

    /// Describes the resources for the next server.
    pub(crate) fn save(&self) -> SavedResources {
        SavedResources {
            cgroup: self.cgroup().map(JobCgroup::save),
            scratch: self.files.as_ref().map(|files| files.scratch.path().into()),
        }
    }

    /// Takes over the resources of a job that an earlier server started.
    pub(crate) fn restore(
        saved: SavedResources,
        cgroups: &Cgroups,
        reaper: &ScratchReaper,
    ) -> Self {
        let scratch = saved.scratch.map(|path| Scratch::restore(path.into(), reaper));
        let files = scratch.map(SandboxFiles::without_view);
        Self { cgroup: saved.cgroup.map(|saved| cgroups.restore_job(saved)), files }
    }

    /// Releases the resources when no process is left. Returns the files that appeared under
    /// protected names.
    pub(crate) fn release(self) -> Vec<SetAsideFile> {
        self.files.map(|files| files.scratch.set_aside_files()).unwrap_or_default()
    }

    /// Lets another job use the cgroup, if the job has left it unchanged. Call it only for a job that
    /// has ended by itself.
    pub(crate) fn allow_reuse(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.check_vacated();
        }
    }

    /// Opens the directory of its cgroup, if it has one.
    pub(crate) fn open_cgroup(&self) -> Result<Option<OwnedFd>, Errno> {
        self.cgroup.as_ref().map(JobCgroup::open).transpose()
    }
}

impl SandboxFiles {
    fn create(launch: &ProcessLaunch, reaper: &ScratchReaper) -> Result<Self, StartError> {
        let spec = &launch.sandbox;
        let places = &spec.paths;
        let profile = spec.granted.effective.profile;
        let has_view = spec.granted.backend == Backend::Namespaces;
        let user = launch.user.as_ref();
        let shared =
            if has_view { workspace::find_shared_dirs(places.home.as_deref()) } else { Vec::new() };
        let no_workspace =
            |error: workspace::WorkspaceError| StartError::NoWorkspace { why: error.to_string() };
        let roots = match profile {
            SandboxProfile::WorkspaceWrite => {
                workspace::writable_roots(places, &shared, launch.cwd.path())
            }
            SandboxProfile::None | SandboxProfile::Default | SandboxProfile::ReadOnly => {
                Ok(Vec::new())
            }
        };
        let roots = roots.map_err(no_workspace)?;
        let scratch = Scratch::create(&places.scratch, reaper);
        let own = scratch.and_then(|scratch| Ok((scratch.directory(TEMPORARY, user)?, scratch)));
        let (own, scratch) = own.map_err(|error| {
            confinement_error("no temporary directory of its own could be made", &error)
        })?;
        if !has_view {
            // It has no other path than ours.
            user.map_or(Ok(()), |_| scratch.open_way()).map_err(|error| {
                confinement_error("its temporary directory could not be opened to it", &error)
            })?;
            return Ok(Self { roots, temporary: own, view: None, scratch });
        }
        let readable = workspace::readable_dirs(places, &shared, launch.cwd.path());
        let readable = readable.map_err(no_workspace)?;
        let view = PrivateView::create(launch, &shared, &roots, readable, &scratch)?;
        let temporary = view.temporary().unwrap_or(&own).to_owned();
        Ok(Self { roots, temporary, view: Some(view), scratch })
    }

    /// Describes the files of a job that already runs: only its directory is still needed.
    fn without_view(scratch: Scratch) -> Self {
        Self { roots: Vec::new(), temporary: PathBuf::new(), view: None, scratch }
    }

    fn mount_plan(&self, profile: SandboxProfile) -> Vec<Mount> {
        let Some(view) = &self.view else { return Vec::new() };
        // Directories of other jobs are beside its own.
        let others = self.scratch.path().parent().map(Path::to_owned);
        let hidden: Vec<PathBuf> = view.hidden.iter().cloned().chain(others).collect();
        let is_seen_elsewhere = view.temporary().is_some();
        mounts::plan_mounts(&MountView {
            profile,
            roots: &view.roots,
            private: &view.private,
            shown: &view.shown,
            protected_files: &view.protected_files.names,
            missing_files: &view.protected_files.missing_paths(),
            hidden: &hidden,
            temporary: Some(self.temporary.as_path()).filter(|_| !is_seen_elsewhere),
        })
    }

    /// Returns the directories that Landlock lets it write to, in its own view.
    fn writable_paths(&self) -> Vec<PathBuf> {
        let private = self.view.iter().flat_map(|view| view.private_dirs());
        let roots = self.roots.iter().map(PathBuf::as_path);
        roots.chain(private).chain([self.temporary.as_path()]).map(Path::to_owned).collect()
    }
}

impl PrivateView {
    fn create(
        launch: &ProcessLaunch,
        shared: &[SharedDir],
        roots: &[PathBuf],
        readable: Vec<PathBuf>,
        scratch: &Scratch,
    ) -> Result<Self, StartError> {
        let places = &launch.sandbox.paths;
        let private = shared.iter().map(|place| {
            let source = scratch.directory(place.own, launch.user.as_ref())?;
            Ok(BindMount { place: place.path.clone(), source })
        });
        let private = private.collect::<io::Result<Vec<_>>>().map_err(|error| {
            confinement_error(
                "no directory of its own could be made in the place of a shared one",
                &error,
            )
        })?;
        let programs = program_paths(launch);
        let named = places.shown.iter().chain(&programs).chain(&readable).map(PathBuf::as_path);
        let shown = workspace::visible_mounts(shared, named);
        let mut hidden = workspace::resolve_hidden(&places.hidden);
        hidden.extend(workspace::visible_sockets(shared, &shown, &readable));
        let protected_files = find_protected_files(places, roots).and_then(|found| {
            found.record(scratch.path())?;
            Ok(found)
        });
        let protected_files = protected_files.map_err(|error| {
            confinement_error(
                "what must not be changed in its workspace could not be protected",
                &error,
            )
        })?;
        let seen = if roots.is_empty() { readable } else { roots.to_vec() };
        Ok(Self { roots: seen, private, shown, hidden, protected_files })
    }

    /// Returns the path at which the job sees its own temporary directory, unless the host's was
    /// chosen as a workspace.
    fn temporary(&self) -> Option<&Path> {
        let mut own = self.private.iter().filter(|it| it.source.ends_with(TEMPORARY));
        own.find(|it| !self.is_chosen(&it.place)).map(|it| it.place.as_path())
    }

    /// Returns the shared directories of which it has its own copy.
    fn private_dirs(&self) -> impl Iterator<Item = &Path> {
        let places = self.private.iter().map(|it| it.place.as_path());
        places.filter(|place| !self.is_chosen(place))
    }

    fn is_chosen(&self, place: &Path) -> bool {
        self.roots.iter().any(|root| place.starts_with(root))
    }
}

/// Returns the program of a launch, if it is a full path, and the directories of its PATH: a job
/// must see what it executes.
///
/// Programs in a directory `bin` find their own files beside it, as in a virtual environment, so
/// its parent is included; `~/.local` is not, since it contains much else.
fn program_paths(launch: &ProcessLaunch) -> Vec<PathBuf> {
    let path = launch.env.iter().rev().find(|variable| variable.name() == "PATH");
    let path = path.map_or(OsStr::new(""), |variable| variable.value());
    let with_prefix = |directory: PathBuf| {
        let around = directory.parent().filter(|_| directory.ends_with("bin"));
        let around = around.filter(|around| !around.ends_with(".local")).map(Path::to_owned);
        [directory].into_iter().chain(around)
    };
    let own = Path::new(&launch.command.program).to_owned();
    let all = std::env::split_paths(path).flat_map(with_prefix).chain([own]);
    all.filter(|path| path.is_absolute()).collect()
}

fn confinement_error(what: &str, error: &io::Error) -> StartError {
    StartError::from_open_file_limit(error).unwrap_or_else(|| StartError::Confinement {
        what: what.to_owned(),
        why: error.to_string(),
    })
}

/// Returns the processes that no job may signal: this server and its keeper, with their groups.
///
/// The result is sorted, so that the same processes give the same filter.
pub(crate) fn protected_pids(keeper: Pid) -> Vec<i32> {
    let number = |pid: Pid| pid.as_raw_nonzero().get();
    let pids = own_thread_ids().into_iter().chain([getpid(), keeper].map(number));
    // The keeper of a durable server is in the group that it was started in; one that is gone has none.
    let keeper_group = getpgid(Some(keeper)).ok();
    let groups = [getpgrp(), keeper].into_iter().chain(keeper_group).map(number);
    let all: BTreeSet<i32> = pids.chain(groups.map(|group| -group)).collect();
    all.into_iter().collect()
}

/// Returns the ids of our threads: a signal to any of them reaches the whole process.
fn own_thread_ids() -> Vec<i32> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::thread::gettid;

    use super::*;

    #[test]
    fn each_of_our_threads_is_protected_from_signals() {
        let own = || gettid().as_raw_nonzero().get();
        let (all, other) = thread::spawn(move || (protected_pids(getpid()), own())).join().unwrap();
        assert!(all.contains(&other) && all.contains(&own()), "{all:?}");
        assert!(all.contains(&-getpgrp().as_raw_nonzero().get()), "{all:?}");
        assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");
    }
}
