//! What is made around a job before it starts, and goes when it is gone.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use rustix::process::{getpgrp, getpid};

use super::confine::cgroup::JobCgroup;
use super::confine::mounts::Mount;
use super::confine::probe;
use super::guardian;
use super::launch::{Confine, Launch};
use super::spawner::Shut;
use super::stand_ins::protected::{self, Guarded};
use super::stand_ins::scratch::Scratch;
use super::stand_ins::{mounts, workspace};
use crate::confinement::{Backend, Profile};
use crate::outcome::StartError;

/// What one job has around it. Dropped when no process of it is left.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    cgroup: Option<JobCgroup>,
    files: Option<FilePlaces>,
}

/// Where a job whose files are limited may write.
#[derive(Debug)]
struct FilePlaces {
    roots: Vec<PathBuf>,
    guarded: Guarded,
    scratch: Scratch,
}

impl Surroundings {
    /// Makes what this launch needs.
    pub(super) fn make(launch: &Launch) -> Result<Self, StartError> {
        let confine = &launch.confine;
        let files = if confine.granted.given.profile.limits_files() {
            Some(FilePlaces::make(confine, launch.cwd.path())?)
        } else {
            None
        };
        Ok(Self { cgroup: JobCgroup::create(&confine.limits), files })
    }

    /// What the new process does to itself.
    pub(super) fn shut(&self, confine: &Confine) -> Shut {
        let (confinement, backend) = (confine.granted.given, confine.granted.backend);
        let files = self.files.as_ref();
        let planned = files.filter(|_| backend == Backend::Namespaces);
        Shut {
            confinement,
            backend,
            limits: confine.limits,
            mounts: planned
                .map(|files| files.plan(confinement.profile, &confine.places.hidden))
                .unwrap_or_default(),
            writable: files
                .filter(|_| uses_landlock(backend))
                .map(|files| files.writable(confinement.profile)),
            untouchable: untouchable(),
        }
    }

    /// The temporary directory of its own, where it has one.
    pub(super) fn scratch(&self) -> Option<&Path> {
        self.files.as_ref().map(|files| files.scratch.path())
    }

    pub(super) const fn cgroup(&self) -> Option<&JobCgroup> {
        self.cgroup.as_ref()
    }

    pub(super) fn cgroup_door(&self) -> Option<BorrowedFd<'_>> {
        self.cgroup.as_ref().map(JobCgroup::entrance)
    }
}

impl FilePlaces {
    fn make(confine: &Confine, cwd: &Path) -> Result<Self, StartError> {
        let places = &confine.places;
        let roots = workspace::roots(places, cwd).map_err(|why| StartError::NoWorkspace { why })?;
        let guarded = match confine.granted.backend {
            Backend::Namespaces => protected::guard(&roots, places.home.as_deref()),
            Backend::Landlock | Backend::Seccomp | Backend::Nothing => Guarded::default(),
        };
        let scratch = Scratch::create(&places.scratch).map_err(|error| {
            let what = "no temporary directory of its own could be made".to_owned();
            StartError::Confinement { what, why: error.to_string() }
        })?;
        Ok(Self { roots, guarded, scratch })
    }

    fn plan(&self, profile: Profile, hidden: &[PathBuf]) -> Vec<Mount> {
        mounts::plan(profile, &self.roots, self.scratch.path(), self.guarded.paths(), hidden)
    }

    fn writable(&self, profile: Profile) -> Vec<PathBuf> {
        let roots = if profile == Profile::ReadOnly { &[] } else { &*self.roots };
        roots
            .iter()
            .map(PathBuf::as_path)
            .chain([self.scratch.path()])
            .map(Path::to_owned)
            .collect()
    }
}

/// Namespaces hold by themselves; where the kernel has Landlock too, there are two walls.
fn uses_landlock(backend: Backend) -> bool {
    match backend {
        Backend::Namespaces => probe::landlock().is_ok(),
        Backend::Landlock => true,
        Backend::Seccomp | Backend::Nothing => false,
    }
}

/// Whom no job may signal: this server with its group, and its guardian. The spawner adds itself.
fn untouchable() -> Vec<i32> {
    let number = |pid: rustix::process::Pid| pid.as_raw_nonzero().get();
    let guardian = guardian::pid().map(number);
    let alone = [number(getpid())].into_iter().chain(guardian);
    let groups = [number(getpgrp())].into_iter().chain(guardian);
    alone.chain(groups.map(|group| -group)).collect()
}
