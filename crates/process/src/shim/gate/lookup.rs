//! Resolution of a path as a waiting task would resolve it: from its root and its directory.
//!
//! A path that leads through `/proc/self` means other files to the shim than to the task, and an absolute
//! link starts at the root of the process that follows it. So links are followed here, one by one.

use std::collections::VecDeque;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, FsWord, Mode, OFlags, ResolveFlags, fstat, fstatfs, open, openat, openat2,
    readlinkat, statat,
};
use rustix::io::Errno;
use rustix::process::Pid;

/// The most links in one path, and its greatest length: the kernel's limits.
const MOST_LINKS: u32 = 40;
const MOST_PATH_BYTES: usize = 4096;

const PROC: FsWord = 0x9fa0;

const FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// The places from which a task resolves paths.
#[derive(Debug)]
pub(super) struct TaskView {
    pub(super) task: Pid,
    pub(super) process: Pid,
    pub(super) root: OwnedFd,
    /// The directory from which relative paths start.
    pub(super) directory: OwnedFd,
}

/// Opens a link in `/proc/TID`: the root, the directory, or an open file of a task.
pub(super) fn open_link(task: Pid, name: &str) -> Result<OwnedFd, Errno> {
    open(format!("/proc/{task}/{name}"), FLAGS, Mode::empty())
}

impl TaskView {
    /// Opens the file at this path, without reading from it. The last link is followed as well, unless
    /// `follows_last` says otherwise.
    ///
    /// # Errors
    /// The errors that the task would get.
    pub(super) fn open(&self, path: &[u8], follows_last: bool) -> Result<OwnedFd, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        if path.len() >= MOST_PATH_BYTES {
            return Err(Errno::NAMETOOLONG);
        }
        // Most paths have no links, and one call is enough.
        let relative =
            path.iter().position(|byte| *byte != b'/').and_then(|start| path.get(start..));
        let direct = openat2(
            self.start_of(path),
            relative.unwrap_or(b"."),
            FLAGS,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS,
        );
        match direct {
            // There is a link, or the call is missing or forbidden.
            Err(Errno::LOOP | Errno::NOSYS | Errno::PERM) => {
                Walk::new(self, path)?.run(follows_last)
            }
            done => done,
        }
    }

    fn start_of(&self, path: &[u8]) -> BorrowedFd<'_> {
        if path.starts_with(b"/") { self.root.as_fd() } else { self.directory.as_fd() }
    }
}

/// A path that is being resolved, part by part.
struct Walk<'a> {
    view: &'a TaskView,
    here: OwnedFd,
    parts: VecDeque<Vec<u8>>,
    links: u32,
}

impl<'a> Walk<'a> {
    fn new(view: &'a TaskView, path: &[u8]) -> Result<Self, Errno> {
        let here = view.start_of(path).try_clone_to_owned().map_err(|_| Errno::MFILE)?;
        Ok(Self { view, here, parts: split(path).collect(), links: 0 })
    }

    fn run(mut self, follows_last: bool) -> Result<OwnedFd, Errno> {
        while let Some(part) = self.parts.pop_front() {
            let next =
                openat(&self.here, part.as_slice(), FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
            let kind = FileType::from_raw_mode(fstat(&next)?.st_mode);
            if kind != FileType::Symlink {
                self.here = next;
                continue;
            }
            if self.parts.is_empty() && !follows_last {
                return Err(Errno::LOOP);
            }
            self.links += 1;
            if self.links > MOST_LINKS {
                return Err(Errno::LOOP);
            }
            self.follow(&part, next.as_fd())?;
        }
        Ok(self.here)
    }

    fn follow(&mut self, part: &[u8], link: BorrowedFd<'_>) -> Result<(), Errno> {
        let target = if is_on_proc(link) {
            let TaskView { task, process, .. } = self.view;
            match part {
                b"self" => format!("{process}").into_bytes(),
                b"thread-self" => format!("{process}/task/{task}").into_bytes(),
                // Its text is only a description of the file that it leads to.
                _ => {
                    self.here = openat(&self.here, part, FLAGS, Mode::empty())?;
                    return Ok(());
                }
            }
        } else {
            read_link(link)?.into_bytes()
        };
        if target.starts_with(b"/") {
            self.here = self.view.root.try_clone().map_err(|_| Errno::MFILE)?;
        }
        for part in split(&target).collect::<Vec<_>>().into_iter().rev() {
            self.parts.push_front(part);
        }
        Ok(())
    }
}

/// Splits a path. A slash at its end asks for a directory, as `.` does.
fn split(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let is_directory = path.ends_with(b"/");
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    parts.map(<[u8]>::to_vec).chain(is_directory.then(|| b".".to_vec()))
}

fn is_on_proc(file: impl AsFd) -> bool {
    fstatfs(file).is_ok_and(|system| system.f_type == PROC)
}

fn read_link(link: BorrowedFd<'_>) -> Result<CString, Errno> {
    readlinkat(link, c"", Vec::new())
}

/// The identity of a root directory and the mounts below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RootIdentity {
    root: (u64, u64),
    mounts: u64,
}

impl RootIdentity {
    /// Reads those of a task. Paths mean the same to all tasks with the same identity.
    pub(super) fn read(task: Pid, root: impl AsFd) -> Result<Self, Errno> {
        let root = fstat(root)?;
        let mounts = statat(rustix::fs::CWD, format!("/proc/{task}/ns/mnt"), AtFlags::empty())?;
        Ok(Self { root: (root.st_dev, root.st_ino), mounts: mounts.st_ino })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, Stat};
    use rustix::process::getpid;

    use super::*;

    fn own_view(directory: &std::path::Path) -> TaskView {
        let open = |path: &std::path::Path| open(path, FLAGS, Mode::empty()).unwrap();
        let (task, process) = (getpid(), getpid());
        TaskView { task, process, root: open("/".as_ref()), directory: open(directory) }
    }

    fn identity(found: Result<Stat, Errno>) -> Result<(u64, u64), Errno> {
        found.map(|stat| (stat.st_dev, stat.st_ino))
    }

    #[test]
    fn a_path_leads_where_the_kernel_leads_it() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/file"), "").unwrap();
        for (target, name) in [
            ("a", "link"),
            ("../file", "a/b/up"),
            ("nowhere", "dangling"),
            ("loop", "loop"),
            ("/bin/sh", "absolute"),
            ("/proc/self/exe", "own"),
            ("link/b/../b/up", "chain"),
        ] {
            symlink(target, at(name)).unwrap();
        }
        let view = own_view(place.path());
        for path in [
            "a/file",
            "link/file",
            "link/b/up",
            "chain",
            "./link/../a/file",
            "absolute",
            "own",
            "dangling",
            "loop",
            "none",
            "a/file/",
            "a/file/x",
            "link/",
            "a//b///up",
            ".",
            "..",
            "/",
            "//bin/sh",
            "/bin/sh",
            "/proc/self/exe",
            "/proc/thread-self/exe",
            "/dev/stdin",
            "/proc/self/root/bin/sh",
            "/proc/self/fd/../exe",
            "/../../bin/sh",
        ] {
            let expected = match path {
                // Its directory is not that of this process.
                relative if !relative.starts_with('/') => {
                    identity(statat(&view.directory, path, AtFlags::empty()))
                }
                _ => identity(statat(CWD, path, AtFlags::empty())),
            };
            let found = view.open(path.as_bytes(), true).and_then(fstat);
            assert_eq!(identity(found), expected, "{path}");
            let walked = Walk::new(&view, path.as_bytes()).unwrap().run(true).and_then(fstat);
            assert_eq!(identity(walked), expected, "walking {path}");
        }
        assert_eq!(view.open(b"", true).map(drop), Err(Errno::NOENT));
        assert_eq!(view.open(b"absolute", false).map(drop), Err(Errno::LOOP));
        assert_eq!(view.open(&[b'x'; 5000], true).map(drop), Err(Errno::NAMETOOLONG));
    }

    #[test]
    fn the_own_directory_in_proc_is_that_of_the_task() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let task = Pid::from_child(&child);
        let view = TaskView { task, process: task, ..own_view("/".as_ref()) };
        let sleep = identity(statat(CWD, format!("/proc/{task}/exe"), AtFlags::empty()));
        for path in ["/proc/self/exe", "/proc/thread-self/exe", "/proc/self/task/../exe"] {
            let found = view.open(path.as_bytes(), true).and_then(fstat);
            assert_eq!(identity(found), sleep, "{path}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
