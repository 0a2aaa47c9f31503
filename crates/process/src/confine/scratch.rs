//! Temporary directories: one for each job, in one of the server.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat, lstat, mkdir, open, rmdir};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::clearing::clear;
use super::protected;
use crate::left_behind;

/// What the names of servers' directories begin with.
const PREFIX: &str = "scratch-";
/// How often another name is tried.
const ATTEMPTS: usize = 100;

/// The directory of this server in which jobs get theirs. Removed when dropped.
///
/// It is locked for as long as the server lives, however that ends: what is not locked was left
/// by a server that was killed.
#[derive(Debug)]
pub struct ScratchRoot {
    path: PathBuf,
    _lock: OwnedFd,
}

impl ScratchRoot {
    /// Makes one below this directory for temporary files, which may be everybody's, and removes
    /// what servers of the same user that are gone have left there: first the processes that they
    /// recorded, then the files. Blocks while such processes end.
    ///
    /// # Errors
    /// When it cannot be made, or when something that is not ours alone is in its place.
    pub fn make(temporary: &Path) -> io::Result<Self> {
        let user = geteuid().as_raw();
        let around = temporary.canonicalize()?.join(format!("shellyard-{user}"));
        remove_left(&around);
        for _ in 0..ATTEMPTS {
            make_ours(&around)?;
            let path = around.join(format!("{PREFIX}{}", random_name()?));
            match mkdir(&path, Mode::RWXU) {
                // The last server that was there has just removed what is around.
                Err(Errno::NOENT) => continue,
                made => made?,
            }
            // Another server may take it for left before we have locked it.
            if let Some(lock) = lock(&path) {
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(Errno::BUSY.into())
    }

    /// Where it is: a full path without symlinks.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchRoot {
    fn drop(&mut self) {
        // What cannot be removed now is tried again by the next server.
        remove(&self.path).ok();
        // Where it was the last one.
        self.path.parent().map(rmdir);
    }
}

/// The directories of one job's own, and what the server notes about it beside them. Removed when
/// dropped, with everything in it.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes one in the directory of this server.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn make(root: &Path) -> io::Result<Self> {
        let path = root.join(random_name()?);
        mkdir(&path, Mode::RWXU)?;
        Ok(Self(path))
    }

    /// The directory. The job itself sees only directories in it.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes a directory in it for the job, if it is not there, and gives its path.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn directory(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        match mkdir(&path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(path),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        Left { path: std::mem::take(&mut self.0), _lock: None }.remove_later();
    }
}

/// A directory that nobody needs any more.
struct Left {
    path: PathBuf,
    /// Where it is a server's, it stays locked until it is removed: its name could be taken.
    _lock: Option<OwnedFd>,
}

impl Left {
    /// Has the cleaner remove it. Without one, whoever calls this has to wait.
    fn remove_later(self) {
        let unsent = match &*CLEANER {
            Some(cleaner) => cleaner.send(self).map_err(|unsent| unsent.0),
            None => Err(self),
        };
        unsent.or_else(|left| remove(&left.path)).ok();
    }
}

/// One thread that removes what was left, one after another: that may take long, and whoever drops
/// it may be a thread of a runtime. What is not done when the server ends goes with the server's
/// own directory, or is tried again by the next server.
static CLEANER: LazyLock<Option<Sender<Left>>> = LazyLock::new(|| {
    let (sender, all) = channel::<Left>();
    let clean = move || all.into_iter().for_each(|left| drop(remove(&left.path)));
    let thread = std::thread::Builder::new().name("scratch".to_owned()).spawn(clean);
    thread.is_ok().then_some(sender)
});

/// Removes what servers left that are gone: those that hold no lock.
fn remove_left(around: &Path) {
    for entry in fs::read_dir(around).into_iter().flatten().flatten() {
        let is_one = entry.file_name().as_bytes().starts_with(PREFIX.as_bytes());
        let path = entry.path();
        if let (true, Some(lock)) = (is_one, lock(&path)) {
            if !left_behind::end_recorded(&path).is_empty() {
                // While one of them lives, what keeps it from writing stays.
                continue;
            }
            release_placeholders(&path);
            Left { path, _lock: Some(lock) }.remove_later();
        }
    }
}

/// Cleans up after a server that was killed, and whose processes are gone: removes the placeholders
/// of its jobs from their workspaces, and its directory.
///
/// # Errors
/// When the directory cannot be removed. The next server tries again.
pub(crate) fn clean_after(root: &Path) -> io::Result<()> {
    release_placeholders(root);
    remove(root)?;
    root.parent().map(rmdir);
    Ok(())
}

/// Removes what the records of a server's jobs name.
fn release_placeholders(root: &Path) {
    for job in fs::read_dir(root).into_iter().flatten().flatten() {
        protected::release(&job.path());
    }
}

/// Removes a directory, of which the one around it is ours alone.
fn remove(path: &Path) -> io::Result<()> {
    let (Some(around), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL.into());
    };
    let around = open_directory(around)?;
    clear(around.as_fd(), &CString::new(name.as_bytes())?)
}

/// Locks a directory. None when somebody else has it, or when it is no longer there.
fn lock(path: &Path) -> Option<OwnedFd> {
    let directory = open_directory(path).ok()?;
    flock(&directory, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (locked, named) = (fstat(&directory).ok()?, lstat(path).ok()?);
    ((locked.st_dev, locked.st_ino) == (named.st_dev, named.st_ino)).then_some(directory)
}

fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}

/// Makes a directory that nobody else can write to or look into, if it is not there.
fn make_ours(path: &Path) -> io::Result<()> {
    match mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let found = lstat(path)?;
    let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    let is_open = Mode::from_raw_mode(found.st_mode).intersects(Mode::RWXG | Mode::RWXO);
    if is_directory && !is_open && found.st_uid == geteuid().as_raw() {
        return Ok(());
    }
    let why = format!("`{}` is not a directory of this user alone: remove it", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// A name that nobody can foresee.
fn random_name() -> io::Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::time::{Duration, Instant};

    use tempfile::TempDir;

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().permissions().mode() & 0o7777
    }

    fn around(temporary: &TempDir) -> PathBuf {
        let name = format!("shellyard-{}", geteuid().as_raw());
        temporary.path().canonicalize().unwrap().join(name)
    }

    #[track_caller]
    fn wait_until(condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !condition() {
            assert!(Instant::now() < deadline, "it did not come true");
            std::thread::yield_now();
        }
    }

    #[test]
    fn each_job_has_its_own_which_goes_with_it() {
        let temporary = tempfile::tempdir().unwrap();
        let root = ScratchRoot::make(temporary.path()).unwrap();
        let (one, other) =
            (Scratch::make(root.path()).unwrap(), Scratch::make(root.path()).unwrap());
        for path in [root.path().parent().unwrap(), root.path(), one.path(), other.path()] {
            assert_eq!(mode(path), 0o700, "{path:?}");
        }
        let full = other.path();
        fs::create_dir_all(full.join("a/b")).unwrap();
        fs::set_permissions(full.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
        drop(one);
        drop(other);
        wait_until(|| fs::read_dir(root.path()).unwrap().count() == 0);
    }

    #[test]
    fn at_the_end_nothing_is_left_of_a_server_and_its_jobs() {
        let temporary = tempfile::tempdir().unwrap();
        let root = ScratchRoot::make(temporary.path()).unwrap();
        let job = Scratch::make(root.path()).unwrap();
        fs::write(job.path().join("file"), "x").unwrap();
        drop(root);
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
        drop(job);
    }

    #[test]
    fn what_a_killed_server_left_is_removed_and_nothing_else() {
        let temporary = tempfile::tempdir().unwrap();
        let alive = ScratchRoot::make(temporary.path()).unwrap();
        let left = around(&temporary).join("scratch-left");
        let other = around(&temporary).join("data");
        for path in [&left, &other] {
            fs::create_dir_all(path.join("deep")).unwrap();
        }
        let next = ScratchRoot::make(temporary.path()).unwrap();
        wait_until(|| !left.exists());
        assert!(alive.path().exists() && next.path().exists() && other.exists());
        assert_ne!(alive.path(), next.path());
    }

    #[test]
    fn what_others_put_in_its_place_is_not_used() {
        let temporary = tempfile::tempdir().unwrap();
        let place = around(&temporary);
        let refused = || ScratchRoot::make(temporary.path()).unwrap_err().to_string();
        fs::create_dir(&place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(refused().contains("not a directory of this user alone"), "{}", refused());
        fs::remove_dir(&place).unwrap();
        let own = tempfile::tempdir().unwrap();
        symlink(own.path(), &place).unwrap();
        assert!(refused().contains(&place.display().to_string()), "{}", refused());
        assert_eq!(fs::read_dir(own.path()).unwrap().count(), 0);
    }

    #[test]
    fn servers_that_start_at_once_do_not_take_each_others() {
        let temporary = tempfile::tempdir().unwrap();
        let start = || ScratchRoot::make(temporary.path()).unwrap();
        let roots: Vec<ScratchRoot> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(roots.iter().all(|root| root.path().is_dir()));
        let mut paths: Vec<&Path> = roots.iter().map(ScratchRoot::path).collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), roots.len());
    }
}
