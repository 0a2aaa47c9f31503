//! An empty directory in a place that must stay empty, for as long as somebody needs it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, lstat, mkdir, open, rmdir, stat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// How often we look again when others make or remove the same one at the same time.
const ATTEMPTS: usize = 100;

/// One that exists and is held by us; released when dropped.
///
/// Whoever needs it holds a shared lock on it, be it another job of this server or another server:
/// the last one removes it. A server that is killed holds none, so that whoever comes next takes over
/// what it left. A sticky directory in which nobody may write is taken for one: nothing else makes such.
#[derive(Debug)]
pub(super) struct Placeholder {
    path: PathBuf,
    directory: OwnedFd,
}

/// What is found in a place.
#[derive(Debug)]
pub(super) enum Place {
    /// Something of the user's own.
    Taken(Stat),
    /// Nothing but a placeholder.
    Kept(Placeholder),
    /// Nothing, and nobody with our rights can put anything there.
    OutOfReach,
}

impl Place {
    /// Looks, and makes a placeholder where nothing is.
    ///
    /// # Errors
    /// When one is needed and cannot be made.
    pub(super) fn look(path: &Path) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let found = match lstat(path) {
                Ok(found) if !is_placeholder(&found) => return Ok(Self::Taken(found)),
                Ok(_) => Ok(()),
                Err(Errno::NOENT) => make(path),
                Err(errno) => Err(errno),
            };
            match found {
                Ok(()) => {}
                Err(Errno::EXIST) => continue,
                Err(errno) if is_out_of_reach(path, errno) => return Ok(Self::OutOfReach),
                Err(errno) => return Err(errno.into()),
            }
            if let Some(held) = Placeholder::hold(path)? {
                return Ok(Self::Kept(held));
            }
        }
        Err(Errno::BUSY.into())
    }
}

impl Placeholder {
    /// Takes a share in one. None when it is being removed, or is gone.
    fn hold(path: &Path) -> Result<Option<Self>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        match flock(&directory, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => {
                std::thread::yield_now();
                return Ok(None);
            }
            locked => locked?,
        }
        let held = Self { path: path.to_owned(), directory };
        Ok(held.is_in_place().then_some(held))
    }

    /// Whether its path still leads to it.
    fn is_in_place(&self) -> bool {
        match (fstat(&self.directory), lstat(&self.path)) {
            (Ok(held), Ok(named)) => (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino),
            (Err(_), _) | (_, Err(_)) => false,
        }
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        let is_last = flock(&self.directory, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_last && self.is_in_place() {
            // It is not empty where somebody else has put something there: then it is theirs.
            rmdir(&self.path).ok();
        }
    }
}

fn make(path: &Path) -> Result<(), Errno> {
    mkdir(path, Mode::RUSR | Mode::XUSR | Mode::SVTX)
}

fn is_placeholder(found: &Stat) -> bool {
    let mode = Mode::from_raw_mode(found.st_mode);
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
        && mode.contains(Mode::SVTX)
        && !mode.intersects(Mode::WUSR | Mode::WGRP | Mode::WOTH)
}

/// Whether a job cannot put anything there either. In a directory of our own it can: it would
/// make that writable first.
fn is_out_of_reach(path: &Path, errno: Errno) -> bool {
    let is_of_others = || {
        let around = path.parent().map(stat);
        around.is_some_and(|found| found.is_ok_and(|found| found.st_uid != geteuid().as_raw()))
    };
    match errno {
        Errno::ROFS | Errno::PERM => true,
        Errno::ACCESS => is_of_others(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[track_caller]
    fn kept(path: &Path) -> Placeholder {
        match Place::look(path).unwrap() {
            Place::Kept(held) => held,
            other @ (Place::Taken(_) | Place::OutOfReach) => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_last_one_who_needs_it_removes_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(".mcp.json");
        let (one, other) = (kept(&path), kept(&path));
        drop(one);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        drop(other);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_server_left_is_taken_over() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("left");
        make(&path).unwrap();
        drop(kept(&path));
        assert!(!path.exists());
    }

    #[test]
    fn what_is_the_users_own_stays() {
        let root = tempfile::tempdir().unwrap();
        let [file, empty, link, used] =
            ["file", "empty", "link", "used"].map(|name| root.path().join(name));
        fs::write(&file, "mine").unwrap();
        fs::create_dir(&empty).unwrap();
        symlink("nowhere", &link).unwrap();
        for path in [&file, &empty, &link] {
            assert!(matches!(Place::look(path).unwrap(), Place::Taken(_)), "{path:?}");
            assert!(path.symlink_metadata().is_ok(), "{path:?}");
        }
        let held = kept(&used);
        fs::set_permissions(&used, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(used.join("file"), "mine").unwrap();
        drop(held);
        assert!(used.join("file").exists());
        // Somebody else's directory in its place.
        let held = kept(&root.path().join("swapped"));
        fs::remove_dir(&held.path).unwrap();
        fs::create_dir(&held.path).unwrap();
        drop(held);
        assert!(root.path().join("swapped").exists());
    }

    #[test]
    fn it_is_there_for_each_of_many_who_come_and_go() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("busy");
        let missed = AtomicUsize::new(0);
        let come_and_go = || {
            for _ in 0..500 {
                let held = kept(&path);
                missed.fetch_add(usize::from(!held.is_in_place()), Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(come_and_go))));
        assert_eq!(missed.load(Ordering::Relaxed), 0);
        assert!(!path.exists());
    }

    #[test]
    fn only_where_nobody_can_write_none_is_needed() {
        let own = tempfile::tempdir().unwrap();
        let within = own.path().join("name");
        let others = Path::new("/none/name");
        for (path, errno, expected) in [
            (within.as_path(), Errno::ROFS, true),
            (&within, Errno::PERM, true),
            (&within, Errno::ACCESS, false),
            (&within, Errno::NOSPC, false),
            (others, Errno::ACCESS, false),
        ] {
            assert_eq!(is_out_of_reach(path, errno), expected, "{path:?} {errno}");
        }
    }
}
