//! Resources that ended jobs could leave behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The name of the keeper's process.
const KEEPER: &str = "shellyard-keep";
const CGROUPS: &str = "/sys/fs/cgroup";

/// The amounts of each resource that jobs of this process could leave behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Remains {
    /// In the view of this process.
    mounts: usize,
    /// In which this process or a descendant is, or which it holds open.
    namespaces: usize,
    /// Below that of this process.
    cgroups: usize,
    /// Descendants of this process, dead ones included.
    processes: usize,
    /// That this process and the keeper have open, as far as we may know.
    open_files: usize,
    /// In the place of the jobs.
    files: usize,
    /// The memory of the keeper.
    pub(crate) keeper_kib: usize,
}

impl Remains {
    /// Looks at this process, its descendants, and the place of its jobs.
    pub(crate) fn find(place: &Path) -> Self {
        let family = family();
        let keeper = family.iter().find(|pid| name(**pid).is_some_and(|name| name == KEEPER));
        let keeper = *keeper.expect("a keeper");
        let namespaces: BTreeSet<_> = family.iter().flat_map(|pid| namespaces(*pid)).collect();
        Self {
            mounts: lines("/proc/self/mountinfo"),
            namespaces: namespaces.len(),
            cgroups: cgroups(),
            processes: family.len(),
            open_files: entries(Path::new("/proc/self/fd")).len() + open_files(keeper),
            files: below(place),
            keeper_kib: resident_kib(keeper),
        }
    }

    /// Returns the growth of each resource except memory.
    pub(crate) const fn beyond(&self, before: &Self) -> usize {
        let of_kernel = self.mounts.saturating_sub(before.mounts)
            + self.namespaces.saturating_sub(before.namespaces)
            + self.cgroups.saturating_sub(before.cgroups);
        of_kernel
            + self.processes.saturating_sub(before.processes)
            + self.open_files.saturating_sub(before.open_files)
            + self.files.saturating_sub(before.files)
    }
}

/// This process and its descendants.
fn family() -> BTreeSet<u32> {
    let numbers = entries(Path::new("/proc")).into_iter();
    let numbers = numbers.filter_map(|path| path.file_name()?.to_str()?.parse().ok());
    let with_parents: Vec<(u32, u32)> =
        numbers.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut family = BTreeSet::from([std::process::id()]);
    loop {
        let known = family.len();
        let children = with_parents.iter().filter(|(_, parent)| family.contains(parent));
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        family.extend(children);
        if family.len() == known {
            return family;
        }
    }
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn name(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// Returns the descriptors of a process, and the descriptors that it holds open.
fn namespaces(pid: u32) -> impl Iterator<Item = PathBuf> {
    let links = ["ns", "fd"].map(|kind| entries(&PathBuf::from(format!("/proc/{pid}/{kind}"))));
    let targets = links.into_iter().flatten().filter_map(|link| fs::read_link(link).ok());
    targets.filter(|target| {
        let text = target.to_string_lossy();
        ["mnt:", "pid:", "user:", "net:", "ipc:", "uts:"].iter().any(|kind| text.starts_with(kind))
    })
}

/// The directories of jobs of this process, in whatever hierarchy.
fn cgroups() -> usize {
    let own = format!("shellyard-{}-", std::process::id());
    let mut open = vec![PathBuf::from(CGROUPS)];
    let mut found = 0;
    while let Some(dir) = open.pop() {
        let dirs: Vec<_> = entries(&dir).into_iter().filter(|path| path.is_dir()).collect();
        found += dirs.iter().filter(|dir| dir.to_string_lossy().contains(&own)).count();
        open.extend(dirs.into_iter().filter(|dir| !dir.is_symlink()));
    }
    found
}

fn open_files(pid: u32) -> usize {
    entries(&PathBuf::from(format!("/proc/{pid}/fd"))).len()
}

fn resident_kib(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is alive");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("Linux tells it");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

fn below(dir: &Path) -> usize {
    let found = entries(dir);
    let dirs = found.iter().filter(|path| path.is_dir() && !path.is_symlink());
    found.len() + dirs.map(|dir| below(dir)).sum::<usize>()
}

fn lines(path: &str) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

/// Returns the entries of a directory; none if it cannot be read or does not exist.
fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
