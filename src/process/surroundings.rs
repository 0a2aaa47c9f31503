//! What is made around a job before it starts, and goes when it is gone.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{getpgrp, getpid};

use super::birth::Shut;
use super::confine::cgroup::JobCgroup;
use super::confine::mounts::{self, Mount, View};
use super::confine::protected::{self, Guarded};
use super::confine::scratch::Scratch;
use super::confine::seccomp::SocketRules;
use super::confine::{probe, workspace};
use super::guardian;
use super::launch::{Confine, Launch};
use super::spawner;
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
    guarded: Option<Guarded>,
    scratch: Scratch,
}

impl Surroundings {
    /// Makes what this launch needs.
    pub(super) fn make(launch: &Launch) -> Result<Self, StartError> {
        let confine = &launch.confine;
        if confine.is_not() {
            return Ok(Self::default());
        }
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
            sockets: SocketRules::new(confinement, backend, landlock_version(backend)),
            limits: confine.limits,
            mounts: planned
                .map(|files| files.plan(confinement.profile, &confine.places.hidden))
                .unwrap_or_default(),
            writable: files
                .filter(|_| landlock_version(backend).is_some())
                .map(FilePlaces::writable),
            untouchable: untouchable_behind(backend),
        }
    }

    /// The temporary directory of its own, where it has one.
    pub(super) fn scratch(&self) -> Option<&Path> {
        self.files.as_ref().map(|files| files.scratch.path())
    }

    pub(super) const fn cgroup(&self) -> Option<&JobCgroup> {
        self.cgroup.as_ref()
    }

    /// The directory of its cgroup, where it has one.
    pub(super) fn open_cgroup(&self) -> Result<Option<OwnedFd>, Errno> {
        self.cgroup.as_ref().map(JobCgroup::open).transpose()
    }
}

impl FilePlaces {
    fn make(confine: &Confine, cwd: &Path) -> Result<Self, StartError> {
        let places = &confine.places;
        let roots = match confine.granted.given.profile {
            Profile::WorkspaceWrite => workspace::roots(places, cwd)
                .map_err(|error| StartError::NoWorkspace { why: error.to_string() })?,
            Profile::None | Profile::Default | Profile::ReadOnly => Vec::new(),
        };
        let guarded = match confine.granted.backend {
            Backend::Namespaces => Some(protected::guard(&roots, places.home.as_deref())),
            Backend::Landlock | Backend::Seccomp | Backend::Nothing => None,
        };
        let guarded = guarded.transpose().map_err(|error| {
            failed("what must not be changed in its workspace could not be protected", &error)
        })?;
        let scratch = Scratch::make(&places.scratch)
            .map_err(|error| failed("no temporary directory of its own could be made", &error))?;
        Ok(Self { roots, guarded, scratch })
    }

    fn plan(&self, profile: Profile, hidden: &[PathBuf]) -> Vec<Mount> {
        mounts::plan(&View {
            profile,
            roots: &self.roots,
            scratch: self.scratch.path(),
            guarded: self.guarded.as_ref().map_or(&[], Guarded::names),
            hidden: &protected::hidden(hidden),
        })
    }

    fn writable(&self) -> Vec<PathBuf> {
        let roots = self.roots.iter().map(PathBuf::as_path);
        roots.chain([self.scratch.path()]).map(Path::to_owned).collect()
    }
}

fn failed(what: &str, error: &io::Error) -> StartError {
    StartError::Confinement { what: what.to_owned(), why: error.to_string() }
}

/// The version of Landlock that holds a job, where Landlock does. Namespaces hold by themselves;
/// where the kernel has Landlock too, there are two walls.
fn landlock_version(backend: Backend) -> Option<u32> {
    match backend {
        Backend::Namespaces | Backend::Landlock => probe::landlock().as_ref().ok().copied(),
        Backend::Seccomp | Backend::Nothing => None,
    }
}

/// Whom a filter keeps a job from signalling. In a process namespace of its own it has no number for
/// any of us.
fn untouchable_behind(backend: Backend) -> Vec<i32> {
    match backend {
        Backend::Landlock | Backend::Seccomp => untouchable(),
        Backend::Namespaces | Backend::Nothing => Vec::new(),
    }
}

/// Whom no job may signal: this server with its group, its guardian and its spawner.
///
/// In order, so that the same ones give the same filter.
fn untouchable() -> Vec<i32> {
    if spawner::pid().is_none() {
        // A filter lasts as long as its job, and must know a spawner that is needed only later. Where
        // none can be started now, there is nobody to keep it from.
        spawner::start().ok();
    }
    let number = |pid: rustix::process::Pid| pid.as_raw_nonzero().get();
    let helpers: Vec<i32> =
        [guardian::pid(), spawner::pid()].into_iter().flatten().map(number).collect();
    let alone = own_threads().into_iter().chain([number(getpid())]).chain(helpers.iter().copied());
    let groups = [number(getpgrp())].into_iter().chain(helpers.iter().copied());
    let all: BTreeSet<i32> = alone.chain(groups.map(|group| -group)).collect();
    all.into_iter().collect()
}

/// The numbers of our threads: a signal to any of them is one to all of us.
fn own_threads() -> Vec<i32> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::thread::gettid;

    use super::*;

    #[test]
    fn each_of_our_threads_is_untouchable() {
        let own = || gettid().as_raw_nonzero().get();
        let (all, other) = thread::spawn(move || (untouchable(), own())).join().unwrap();
        assert!(all.contains(&other) && all.contains(&own()), "{all:?}");
        assert!(all.contains(&-getpgrp().as_raw_nonzero().get()), "{all:?}");
        assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");
    }
}
