//! The resources that are created for a job before it starts, and released when it is over.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, getpgid, getpgrp, getpid};
use serde::{Deserialize, Serialize};

use super::mounts::{self, BindMount, Mount, MountView};
use super::scratch::{Scratch, ScratchReaper};
use super::seccomp::SocketRules;
use super::workspace::{self, ProtectedFiles, SharedDir, TEMPORARY};
use crate::cgroup::Cgroups;
use crate::child_steps::SandboxRules;
use crate::children::Children;
use crate::confinement::{Backend, SandboxProfile};
use crate::job_cgroup::{JobCgroup, SavedCgroup};
use crate::keeper::{FileRole, SavedPath, restore_paths};
use crate::launch::{ProcessLaunch, SandboxSpec, StartError};
use crate::processes::{self, pid_number};
use crate::spawner::{PidNamespace, RestoredInit};

/// The cgroup and the directories of one job. Dropped when no process of the job is left.
#[derive(Debug, Default)]
pub(crate) struct SandboxResources {
    cgroup: Option<JobCgroup>,
    files: Option<SandboxFiles>,
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

    /// Opens the directory of its cgroup, if it has one.
    pub(crate) fn open_cgroup(&self) -> Result<Option<OwnedFd>, Errno> {
        self.cgroup.as_ref().map(JobCgroup::open).transpose()
    }
}

#[cfg(test)]
impl From<JobCgroup> for SandboxResources {
    fn from(cgroup: JobCgroup) -> Self {
        Self { cgroup: Some(cgroup), files: None }
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
        let protected_files =
            workspace::protect_files(places, roots, scratch.path(), scratch.handover());
        let protected_files = protected_files.map_err(|error| {
            confinement_error(
                "what must not be changed in its workspace could not be protected",
                &error,
            )
        })?;
        let seen = if roots.is_empty() { readable } else { roots.to_vec() };
        Ok(Self { roots: seen, private, shown, hidden, protected_files })
    }

    /// Creates the view of a job that already runs: what is mounted in it is no longer needed.
    const fn without_mounts(protected_files: ProtectedFiles) -> Self {
        Self {
            roots: Vec::new(),
            private: Vec::new(),
            shown: Vec::new(),
            hidden: Vec::new(),
            protected_files,
        }
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

/// Returns the processes that no job may signal: this server and its helpers, with their groups.
///
/// The result is sorted, so that the same processes give the same filter.
pub(crate) fn protected_pids(helpers: &[Option<Pid>]) -> Vec<i32> {
    let number = |pid: Pid| pid.as_raw_nonzero().get();
    let helpers: Vec<Pid> = helpers.iter().copied().flatten().collect();
    let pids = || helpers.iter().copied().map(number);
    let alone = own_thread_ids().into_iter().chain([number(getpid())]).chain(pids());
    // The keeper is in the group that it was started in; a helper that is gone has none.
    let helper_groups = helpers.iter().filter_map(|pid| getpgid(Some(*pid)).ok()).map(number);
    let groups = [number(getpgrp())].into_iter().chain(pids()).chain(helper_groups);
    let all: BTreeSet<i32> = alone.chain(groups.map(|group| -group)).collect();
    all.into_iter().collect()
}

/// Returns the ids of our threads: a signal to any of them reaches the whole process.
fn own_thread_ids() -> Vec<i32> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok()).collect()
}

// The resources that are held for as long as a job has processes.

/// The resources of a job that go when its last process is gone. The namespace goes first: it ends
/// every process that might still use the rest.
#[derive(Debug)]
pub(crate) struct JobResources {
    namespace: Option<PidNamespace>,
    sandbox: SandboxResources,
}

/// The description of a job's resources that lets the next server take them over. Their files are
/// held beside it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct SavedResources {
    /// The first process of the job's pid namespace.
    init: Option<i32>,
    cgroup: Option<SavedCgroup>,
    pub(crate) scratch: Option<SavedPath>,
    /// The placeholders in each workspace that has a guard.
    placeholders: Vec<Vec<SavedPath>>,
}

impl SavedResources {
    pub(crate) const fn cgroup(&self) -> Option<&SavedCgroup> {
        self.cgroup.as_ref()
    }
}

impl JobResources {
    /// Describes the resources for the next server.
    pub(crate) fn save(&self) -> SavedResources {
        let files = self.sandbox.files.as_ref();
        let view = files.and_then(|files| files.view.as_ref());
        SavedResources {
            init: self.init().map(|pid| pid.as_raw_nonzero().get()),
            cgroup: self.cgroup().map(JobCgroup::save),
            scratch: files.map(|files| files.scratch.path().into()),
            placeholders: view.map(|view| view.protected_files.save()).unwrap_or_default(),
        }
    }

    /// Returns the files that the keeper holds for the resources. A new pidfd of the namespace's
    /// init is put into `init`.
    pub(crate) fn files<'a>(
        &'a self,
        init: &'a mut Option<OwnedFd>,
    ) -> Result<Vec<(FileRole, BorrowedFd<'a>)>, Errno> {
        let mut all = Vec::new();
        if let Some(namespace) = &self.namespace {
            all.push((FileRole::Lifeline, namespace.lifeline()));
            let init: &'a OwnedFd = init.insert(namespace.open_init()?);
            all.push((FileRole::Init, init.as_fd()));
        }
        let files = self.sandbox.files.as_ref();
        if let Some(view) = files.and_then(|files| files.view.as_ref()) {
            let roots = view.protected_files.locked_roots();
            all.extend(roots.map(|root| (FileRole::Workspace, root)));
        }
        Ok(all)
    }

    /// Takes over the resources of a job that an earlier server started. `take_file` returns the
    /// next file with a role. `None` if a file is missing.
    pub(crate) fn restore(
        saved: SavedResources,
        mut take_file: impl FnMut(FileRole) -> Option<OwnedFd>,
        children: &Arc<Children>,
        cgroups: &Cgroups,
        reaper: &ScratchReaper,
    ) -> Option<Self> {
        let namespace = match saved.init {
            None => None,
            Some(init) => {
                let init = Pid::from_raw(init).filter(|_| init > 0)?;
                let pidfd = take_file(FileRole::Init)?;
                let restored = RestoredInit { pidfd, _child: children.own_keeper_child(init) };
                let lifeline = take_file(FileRole::Lifeline)?;
                let handover = reaper.handover().clone();
                Some(PidNamespace::restore(init, restored, lifeline, handover))
            }
        };
        let cgroup = saved.cgroup.map(|cgroup| cgroups.restore_job(cgroup));
        let guards = saved.placeholders.into_iter().map(|placeholders| {
            let root = take_file(FileRole::Workspace)?;
            Some((root, restore_paths(placeholders)))
        });
        let guards = guards.collect::<Option<Vec<_>>>()?;
        let protected_files = ProtectedFiles::restore(guards, reaper.handover());
        let files = saved.scratch.map(|path| SandboxFiles {
            roots: Vec::new(),
            temporary: PathBuf::new(),
            view: Some(PrivateView::without_mounts(protected_files)),
            scratch: Scratch::restore(path.into(), reaper),
        });
        Some(Self { namespace, sandbox: SandboxResources { cgroup, files } })
    }
}

/// The pid that stands for processes that cannot be found by a number: they are not seen from this pid
/// namespace, hand over to others faster than they are found, or cannot be read now.
pub(crate) const HIDDEN_PID: u32 = 0;

/// The presence of processes in a job's pid namespace, apart from its init, or in its cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occupancy {
    Empty,
    /// There are processes, or they cannot be read now.
    Occupied,
    /// The job has neither, or the kernel gives no certain answer.
    Unknown,
}

impl JobResources {
    pub(crate) const fn new(namespace: Option<PidNamespace>, sandbox: SandboxResources) -> Self {
        Self { namespace, sandbox }
    }

    /// Returns the first process of the job's pid namespace, to which its orphans pass.
    pub(crate) fn init(&self) -> Option<Pid> {
        self.namespace.as_ref().map(PidNamespace::init)
    }

    /// Returns the cgroup that the leader started in, if it got one of its own.
    pub(crate) const fn cgroup(&self) -> Option<&JobCgroup> {
        self.sandbox.cgroup()
    }

    /// Checks if any process is left. Correct only after the leader was reaped: before that, it
    /// lives in the namespace and is not a child of the init.
    pub(crate) fn occupancy(&self) -> Occupancy {
        match (self.init().map(processes::children_of), self.cgroup()) {
            (Some(Ok(children)), _) if children.is_empty() => Occupancy::Empty,
            (Some(Ok(_)), _) => Occupancy::Occupied,
            (Some(Err(error)), _) if processes::is_shortage(&error) => Occupancy::Occupied,
            (None, Some(cgroup)) if cgroup.check_vacated() => Occupancy::Empty,
            (None, Some(_)) => Occupancy::Occupied,
            (Some(Err(_)) | None, _) => Occupancy::Unknown,
        }
    }

    /// Returns the processes that the kernel lists in the job's cgroup, without the namespace's
    /// init; empty once the kernel says that the cgroup is empty. Call it after the leader was
    /// reaped.
    ///
    /// These processes exist although /proc may not show them, to this user or in this namespace.
    /// [`HIDDEN_PID`] stands for those that have no pid here.
    pub(crate) fn listed_processes(&self) -> Vec<u32> {
        let Some(cgroup) = self.cgroup().filter(|cgroup| !cgroup.check_vacated()) else {
            return Vec::new();
        };
        let init = self.init();
        let pids = cgroup.member_pids().into_iter().filter(|pid| Some(*pid) != init);
        let listed: Vec<u32> = pids.map(pid_number).collect();
        // With an init in it a cgroup is never empty. The last other process may have ended by now.
        if listed.is_empty() && init.is_none() && !cgroup.check_vacated() {
            return vec![HIDDEN_PID];
        }
        listed
    }

    /// Kills every process by the method that reaches all of them at once, if there is one, and
    /// returns the method.
    pub(crate) fn kill_processes(&self) -> KillMethod {
        if self.cgroup().is_some_and(|cgroup| cgroup.kill()) {
            return KillMethod::Cgroup;
        }
        let Some(namespace) = &self.namespace else { return KillMethod::Walk };
        namespace.end();
        KillMethod::Namespace
    }

    pub(crate) const fn kill_method(&self) -> KillMethod {
        match (self.cgroup(), &self.namespace) {
            (Some(_), _) => KillMethod::Cgroup,
            (None, Some(_)) => KillMethod::Namespace,
            (None, None) => KillMethod::Walk,
        }
    }
}

/// The method that ends all processes of a tree at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillMethod {
    /// The kill file of its cgroup.
    Cgroup,
    /// The end of its pid namespace.
    Namespace,
    /// A walk through all processes, which ends them one by one.
    Walk,
}

impl KillMethod {
    /// Returns the name of the method.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Namespace => "namespace",
            Self::Walk => "walk",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::thread::gettid;

    use super::*;

    #[test]
    fn each_of_our_threads_is_protected_from_signals() {
        let own = || gettid().as_raw_nonzero().get();
        let (all, other) = thread::spawn(move || (protected_pids(&[]), own())).join().unwrap();
        assert!(all.contains(&other) && all.contains(&own()), "{all:?}");
        assert!(all.contains(&-getpgrp().as_raw_nonzero().get()), "{all:?}");
        assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");
    }
}
