//! Temporary directories: one for each job, inside one of the server.

use std::collections::{HashSet, VecDeque};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::{fs, io};

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, lstat, mkdir, openat,
    renameat, rmdir, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::confinement::SetAsideFile;
use crate::handover::{HandoverFlag, SavedPath};
use crate::job_user::JobUser;
use crate::sandbox::protected_files::set_aside_recorded;
use crate::sandbox::workspace::open_directory;

/// The prefix of the names of servers' directories.
const PREFIX: &str = "scratch-";
/// The prefix of the names of users' directories in a server's directory.
const USER_PREFIX: &str = "user-";
/// The permissions that no directory of ours gives to other users. They may pass through it.
const OPEN: Mode = Mode::RGRP.union(Mode::WGRP).union(Mode::ROTH).union(Mode::WOTH);
/// The number of names that are tried.
const ATTEMPTS: usize = 100;

/// The directory of this server in which jobs get theirs. Removed on drop.
///
/// It is locked for as long as the server lives, however that ends: a directory without a lock was
/// left by a server that was killed.
#[derive(Debug)]
pub struct ScratchRoot {
    path: PathBuf,
    lock: OwnedFd,
    handover: HandoverFlag,
}

impl ScratchRoot {
    /// Creates the directory below `temporary`, which may be shared by all users, and removes what
    /// dead servers of the same user left there.
    ///
    /// # Errors
    /// If it cannot be created, or if something in its place is not ours alone.
    pub(crate) fn create(temporary: &Path, reaper: &ScratchReaper) -> io::Result<Self> {
        let user = geteuid().as_raw();
        let around = temporary.canonicalize()?.join(format!("shellyard-{user}"));
        remove_leftovers(&around, reaper);
        for _ in 0..ATTEMPTS {
            create_private_dir(&around)?;
            let path = around.join(format!("{PREFIX}{}", random_name()?));
            match mkdir(&path, Mode::RWXU) {
                // The last server that used it has just removed the parent.
                Err(Errno::NOENT) => continue,
                made => made?,
            }
            // Another server may take it for a leftover before we have locked it.
            if let Some(lock) = lock(&path) {
                return Ok(Self { path, lock, handover: reaper.handover.clone() });
            }
        }
        Err(Errno::BUSY.into())
    }

    /// Takes over the directory of an earlier server, of which the keeper has held this note and lock.
    pub(crate) fn restore(note: &str, lock: OwnedFd, reaper: &ScratchReaper) -> Option<Self> {
        let path = parse_kept_root(note)?;
        is_named(&lock, &path).then(|| Self { path, lock, handover: reaper.handover.clone() })
    }

    /// Returns the note about it for the next server, and its lock.
    pub(crate) fn describe(&self) -> io::Result<(String, BorrowedFd<'_>)> {
        Ok((serde_json::to_string(&SavedPath::from(self.path()))?, self.lock.as_fd()))
    }

    /// Returns its full path without symlinks.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchRoot {
    fn drop(&mut self) {
        if self.handover.is_set() {
            return;
        }
        // The next server tries again to remove what cannot be removed now.
        remove_dir(&self.path).ok();
        // Removes the parent if this was the last directory in it.
        self.path.parent().map(rmdir);
    }
}

/// The directories of one job, and the server's records about it beside them. Removed on drop, with
/// everything in it.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    reaper: ScratchReaper,
}

impl Scratch {
    /// Creates one in the directory of this server.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn create(root: &Path, reaper: &ScratchReaper) -> io::Result<Self> {
        let path = root.join(random_name()?);
        mkdir(&path, Mode::RWXU)?;
        Ok(Self { path, reaper: reaper.clone() })
    }

    /// Takes over the directory of a job that an earlier server started.
    pub(crate) fn restore(path: PathBuf, reaper: &ScratchReaper) -> Self {
        Self { path, reaper: reaper.clone() }
    }

    /// Renames what has appeared in a workspace under the protected names that are recorded here. No
    /// process of the job must be left.
    pub(crate) fn set_aside_files(&self) -> Vec<SetAsideFile> {
        if self.reaper.handover.is_set() { Vec::new() } else { set_aside_recorded(&self.path) }
    }

    /// Returns the directory. The job itself sees only directories in it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a directory in it for the job, if it does not exist, and returns its path. It belongs
    /// to the user of the job alone; `None` = the server's.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn directory(&self, name: &str, owner: Option<&JobUser>) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        match mkdir(&path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        owner.map_or(Ok(()), |owner| owner.give_path(&path))?;
        Ok(path)
    }

    /// Lets other users reach the directories in it by their paths, but not list it.
    ///
    /// # Errors
    /// If its permissions cannot be changed.
    pub(crate) fn open_way(&self) -> io::Result<()> {
        // The server's directory and the one around it are above.
        open_way_to(&self.path, 3)
    }
}

/// Returns the directory for temporary files of a user's jobs that have none of their own, in the
/// server's directory `root`. It is created if it does not exist, belongs to the user alone, and
/// stays until the server ends.
///
/// # Errors
/// If it cannot be created.
pub(crate) fn user_directory(root: &Path, user: &JobUser) -> io::Result<PathBuf> {
    let path = root.join(format!("{USER_PREFIX}{}", user.uid));
    match mkdir(&path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    open_way_to(root, 2)?;
    user.give_path(&path)?;
    Ok(path)
}

/// Lets other users pass through a directory of ours, and through those around it, `count` in all.
/// None of them can be listed.
fn open_way_to(path: &Path, count: usize) -> io::Result<()> {
    let pass = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o711));
    path.ancestors().take(count).try_for_each(pass)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.reaper.handover.is_set() {
            return;
        }
        self.set_aside_files();
        self.reaper.remove(LeftoverDir { path: std::mem::take(&mut self.path), _lock: None });
    }
}

/// A directory that is no longer needed.
#[derive(Debug)]
struct LeftoverDir {
    path: PathBuf,
    /// The lock of a server's directory, held until it is removed, since its name could be reused.
    _lock: Option<OwnedFd>,
}

/// A thread that removes leftover directories one after another: that may take long, and a thread
/// of the runtime may drop them. Directories that are left when the server ends go with the
/// server's own directory, or the next server tries again. A clone is the same reaper.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScratchReaper {
    /// The channel to the thread, which the first directory starts; `None` if there is no thread.
    thread: Arc<OnceLock<Option<Sender<LeftoverDir>>>>,
    /// The flag that is set once the next server takes over the jobs.
    handover: HandoverFlag,
}

impl ScratchReaper {
    pub(crate) fn new(handover: HandoverFlag) -> Self {
        Self { thread: Arc::default(), handover }
    }

    /// Removes the directories of jobs in the server's directory `root`, except for those in `kept`:
    /// an earlier server left them.
    pub(crate) fn remove_jobs_except(&self, root: &Path, kept: &HashSet<PathBuf>) {
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_users = entry.file_name().as_bytes().starts_with(USER_PREFIX.as_bytes());
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_dir && !is_users && !kept.contains(&path) {
                set_aside_recorded(&path);
                self.remove(LeftoverDir { path, _lock: None });
            }
        }
    }

    /// Sends the directory to the thread. Without a thread, removes it and blocks.
    fn remove(&self, left: LeftoverDir) {
        let unsent = match self.thread.get_or_init(Self::start) {
            Some(thread) => thread.send(left).map_err(|unsent| unsent.0),
            None => Err(left),
        };
        unsent.or_else(|left| remove_dir(&left.path)).ok();
    }

    fn start() -> Option<Sender<LeftoverDir>> {
        let (sender, all) = channel::<LeftoverDir>();
        let clean = move || all.into_iter().for_each(|left| drop(remove_dir(&left.path)));
        let thread = std::thread::Builder::new().name("scratch".to_owned()).spawn(clean);
        thread.is_ok().then_some(sender)
    }
}

/// Removes the directories of dead servers: those without a lock.
fn remove_leftovers(around: &Path, reaper: &ScratchReaper) {
    for entry in fs::read_dir(around).into_iter().flatten().flatten() {
        let is_one = entry.file_name().as_bytes().starts_with(PREFIX.as_bytes());
        let path = entry.path();
        if let (true, Some(lock)) = (is_one, lock(&path)) {
            set_aside_all(&path);
            reaper.remove(LeftoverDir { path, _lock: Some(lock) });
        }
    }
}

/// Cleans up after a server that was killed and whose processes are gone: renames what has appeared
/// under protected names in the workspaces of its jobs, and removes its directory.
///
/// # Errors
/// If the directory cannot be removed. The next server tries again.
pub(crate) fn clean_up_after(root: &Path) -> io::Result<()> {
    set_aside_all(root);
    remove_dir(root)?;
    root.parent().map(rmdir);
    Ok(())
}

/// Renames what has appeared under the names in the records of a server's jobs.
fn set_aside_all(root: &Path) {
    for job in fs::read_dir(root).into_iter().flatten().flatten() {
        set_aside_recorded(&job.path());
    }
}

/// Removes a directory whose parent is ours alone.
fn remove_dir(path: &Path) -> io::Result<()> {
    let (Some(around), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL.into());
    };
    let around = open_directory(around)?;
    remove_tree(around.as_fd(), &CString::new(name.as_bytes())?)
}

/// Parses the note about the directory of an earlier server of the same keeper.
pub(crate) fn parse_kept_root(note: &str) -> Option<PathBuf> {
    serde_json::from_str::<SavedPath>(note).ok().map(PathBuf::from)
}

/// `true` if this path still names the directory.
fn is_named(directory: &OwnedFd, path: &Path) -> bool {
    let (Ok(opened), Ok(named)) = (fstat(directory), lstat(path)) else { return false };
    (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)
}

/// Locks a directory. `None` if another process has the lock, or if it no longer exists.
fn lock(path: &Path) -> Option<OwnedFd> {
    let directory = open_directory(path).ok()?;
    flock(&directory, FlockOperation::NonBlockingLockExclusive).ok()?;
    is_named(&directory, path).then_some(directory)
}

/// Creates a directory that no other user can write to or read, if it does not exist.
fn create_private_dir(path: &Path) -> io::Result<()> {
    match mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let found = lstat(path)?;
    let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    let is_open = Mode::from_raw_mode(found.st_mode).intersects(OPEN);
    if is_directory && !is_open && found.st_uid == geteuid().as_raw() {
        return Ok(());
    }
    let why = format!("`{}` is not a directory of this user alone: remove it", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Returns an unpredictable name.
fn random_name() -> io::Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

// The removal of whatever a job has left in its temporary directory.

/// Removes the directory `name` of `around`, with everything in it.
///
/// Does not follow symlinks, and restores missing permissions first. Uses three open files and no
/// stack, however deep the directories are: each non-empty directory is moved up to `around`, which
/// must therefore be ours alone, before it is removed.
///
/// # Errors
/// The first error; everything that could be removed is removed.
fn remove_tree(around: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let mut removal =
        DirRemoval { around, name, moved: 0, waiting: VecDeque::from([name.to_owned()]) };
    let mut outcome = Ok(());
    while let Some(next) = removal.waiting.pop_front() {
        let done = removal.empty_dir(&next).and_then(|()| remove_directory(around, &next));
        match done {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => outcome = outcome.and(Err(errno.into())),
        }
    }
    outcome
}

struct DirRemoval<'a> {
    around: BorrowedFd<'a>,
    name: &'a CStr,
    /// The number of directories that were moved up, for their names.
    moved: u64,
    /// Directories in `around` that are to be emptied and removed.
    waiting: VecDeque<CString>,
}

impl DirRemoval<'_> {
    /// Empties a directory, once those that were moved up are gone as well.
    fn empty_dir(&mut self, directory: &CStr) -> Result<(), Errno> {
        let opened = open_with_permissions(self.around, directory)?;
        let mut outcome = Ok(());
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                outcome = outcome.and(self.remove(opened.as_fd(), name));
            }
        }
        outcome
    }

    fn remove(&mut self, from: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        match unlinkat(from, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR) => {}
            Err(errno) => return Err(errno),
        }
        let removed = match remove_directory(from, name) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => self.move_up(from, name),
            done => done,
        };
        // Another process may have removed it meanwhile.
        if removed == Err(Errno::NOENT) { Ok(()) } else { removed }
    }

    fn move_up(&mut self, from: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        // Moving a directory requires write permission on it.
        open_with_permissions(from, name)?;
        self.moved += 1;
        let mut new = self.name.to_bytes().to_vec();
        new.extend_from_slice(format!(".{}", self.moved).as_bytes());
        let new = CString::new(new).map_err(|_| Errno::INVAL)?;
        renameat(from, name, self.around, &new)?;
        self.waiting.push_back(new);
        Ok(())
    }
}

fn remove_directory(from: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    unlinkat(from, name, AtFlags::REMOVEDIR)
}

/// Opens a directory, after giving us all permissions.
fn open_with_permissions(from: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = openat(from, name, flags | OFlags::PATH, Mode::empty())?;
    if !Mode::from_raw_mode(fstat(&place)?.st_mode).contains(Mode::RWXU) {
        // Done through the open file, since a name could lead elsewhere by now.
        let path = format!("/proc/self/fd/{}", place.as_raw_fd());
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    }
    openat(&place, c".", flags | OFlags::RDONLY, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};

    use rustix::fs::{CWD, mkdirat, open};
    use tempfile::TempDir;

    use super::*;

    fn make_root(temporary: &Path) -> io::Result<ScratchRoot> {
        ScratchRoot::create(temporary, &ScratchReaper::default())
    }

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
    fn each_job_has_its_own_directory_which_is_removed_with_it() {
        let temporary = tempfile::tempdir().unwrap();
        let root = make_root(temporary.path()).unwrap();
        let (one, other) = (
            Scratch::create(root.path(), &ScratchReaper::default()).unwrap(),
            Scratch::create(root.path(), &ScratchReaper::default()).unwrap(),
        );
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
    fn nothing_is_left_of_a_server_and_its_jobs_at_the_end() {
        let temporary = tempfile::tempdir().unwrap();
        let root = make_root(temporary.path()).unwrap();
        let job = Scratch::create(root.path(), &ScratchReaper::default()).unwrap();
        fs::write(job.path().join("file"), "x").unwrap();
        drop(root);
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
        drop(job);
    }

    #[test]
    fn leftovers_of_a_killed_server_are_removed_and_nothing_else() {
        let temporary = tempfile::tempdir().unwrap();
        let alive = make_root(temporary.path()).unwrap();
        let left = around(&temporary).join("scratch-left");
        let other = around(&temporary).join("data");
        for path in [&left, &other] {
            fs::create_dir_all(path.join("deep")).unwrap();
        }
        let next = make_root(temporary.path()).unwrap();
        wait_until(|| !left.exists());
        assert!(alive.path().exists() && next.path().exists() && other.exists());
        assert_ne!(alive.path(), next.path());
    }

    #[test]
    fn a_directory_that_others_can_write_is_not_used() {
        let temporary = tempfile::tempdir().unwrap();
        let place = around(&temporary);
        let refused = || make_root(temporary.path()).unwrap_err().to_string();
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
    fn servers_that_start_at_once_do_not_share_a_directory() {
        let temporary = tempfile::tempdir().unwrap();
        let start = || make_root(temporary.path()).unwrap();
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

    struct FullDir {
        around: TempDir,
        full: PathBuf,
    }

    impl FullDir {
        fn new() -> Self {
            Self::within(tempfile::tempdir().unwrap())
        }

        fn within(around: TempDir) -> Self {
            let full = around.path().join("full");
            fs::create_dir(&full).unwrap();
            Self { around, full }
        }

        fn clear(&self) -> io::Result<()> {
            remove_tree(directory(self.around.path()).as_fd(), c"full")
        }

        #[track_caller]
        fn check_cleared(&self) {
            self.clear().unwrap();
            assert_eq!(fs::read_dir(self.around.path()).unwrap().count(), 0);
        }
    }

    fn directory(path: &Path) -> OwnedFd {
        open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    fn forbid(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn files_without_permissions_are_removed() {
        let place = FullDir::new();
        let deep = place.full.join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "x").unwrap();
        forbid(&deep.join("file"), 0o400);
        fs::create_dir(place.full.join("shut")).unwrap();
        forbid(&place.full.join("shut"), 0);
        for path in [deep.as_path(), &place.full.join("a/b"), &place.full.join("a"), &place.full] {
            forbid(path, 0);
        }
        place.check_cleared();
    }

    #[test]
    fn the_target_of_a_symlink_is_not_removed() {
        let place = FullDir::new();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("mine"), "x").unwrap();
        forbid(outside.path(), 0o500);
        symlink(outside.path(), place.full.join("directory")).unwrap();
        symlink(outside.path().join("mine"), place.full.join("file")).unwrap();
        symlink("nowhere", place.full.join("dangling")).unwrap();
        place.check_cleared();
        assert_eq!(fs::read_to_string(outside.path().join("mine")).unwrap(), "x");
        assert_eq!(outside.path().metadata().unwrap().permissions().mode() & 0o777, 0o500);
        // Neither is a link in place of the directory itself followed.
        symlink(outside.path(), &place.full).unwrap();
        place.clear().unwrap_err();
        assert!(outside.path().join("mine").exists());
        forbid(outside.path(), 0o700);
    }

    #[test]
    fn removal_needs_no_stack_however_deep_the_directories_are() {
        const DEPTH: usize = 5000;
        // In memory if possible: some disks take milliseconds for each directory.
        let around = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let place = FullDir::within(around);
        let mut at = directory(&place.full);
        for _ in 0..DEPTH {
            mkdirat(&at, c"d", Mode::RWXU).unwrap();
            mkdirat(&at, c"other", Mode::RWXU).unwrap();
            at = openat(&at, c"d", OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        place.check_cleared();
    }

    #[test]
    fn files_of_every_kind_and_name_are_removed() {
        let place = FullDir::new();
        let odd = std::ffi::OsStr::from_bytes(b"\xff\n *");
        fs::create_dir_all(place.full.join(odd).join("full.1")).unwrap();
        fs::write(place.full.join(odd).join("full.1/x"), "").unwrap();
        rustix::fs::mkfifoat(CWD, place.full.join("fifo"), Mode::RWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place.full.join("socket")).unwrap();
        for number in 0..3000 {
            fs::write(place.full.join(format!("{number}")), "").unwrap();
        }
        place.check_cleared();
    }
}
