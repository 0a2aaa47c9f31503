//! The working directory of a process: opened once, so that the directory that is checked is the
//! one that is used.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, fstat, fstatfs, open, stat};
use rustix::io::Errno;

use super::start_error::out_of_files;
use super::syscalls::block_in_place;
use crate::start_error::StartError;

/// The working directory of a new process.
#[derive(Debug, Clone)]
pub enum Cwd {
    /// The directory at this path when the process is started.
    Path(PathBuf),
    /// A directory that was opened before: later changes to paths do not affect it.
    Opened(Arc<OpenedDir>),
}

impl Cwd {
    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Path(path) => path,
            Self::Opened(directory) => &directory.path,
        }
    }
}

impl<P: Into<PathBuf>> From<P> for Cwd {
    fn from(path: P) -> Self {
        Self::Path(path.into())
    }
}

/// An open directory, with the path of what was really opened.
///
/// Checking the path and then starting a process in the directory leaves no race: the process
/// enters the open directory, not the path.
#[derive(Debug)]
pub struct OpenedDir {
    directory: OwnedFd,
    path: PathBuf,
}

impl OpenedDir {
    /// Opens a directory. The kernel resolves the path once, while it opens it.
    ///
    /// # Errors
    /// [`StartError::BadCwd`] if it is missing, not a directory, out of reach, or was moved
    /// meanwhile; [`StartError::NulByte`].
    pub fn open(path: &Path) -> Result<Self, StartError> {
        Self::open_knowing(path, &LocalDirs::default())
    }

    /// Opens a directory; costs less for one that is known to be on a local disk.
    pub(crate) fn open_knowing(path: &Path, local: &LocalDirs) -> Result<Self, StartError> {
        // On any other file system this may block forever.
        if local.has(path) {
            Self::open_now(path, local)
        } else {
            block_in_place(|| Self::open_now(path, local))
        }
    }

    fn open_now(path: &Path, local: &LocalDirs) -> Result<Self, StartError> {
        let directory = open_directory(path, local)?;
        let resolved = path_of(&directory).map_err(|errno| bad_cwd(path, errno))?;
        Ok(Self { directory, path: resolved })
    }

    /// Returns the absolute path of the directory, without symlinks.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for OpenedDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

pub(crate) fn open_directory(path: &Path, local: &LocalDirs) -> Result<OwnedFd, StartError> {
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(StartError::NulByte { what: "cwd" });
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(path, flags, Mode::empty()).map_err(|errno| bad_cwd(path, errno))?;
    local.note(path, &directory);
    Ok(directory)
}

/// Returns the path of an open directory.
///
/// The kernel's link in /proc alone is not enough: for a directory that was removed, or that is in
/// another mount namespace, it gives a text that may be the path of something else.
fn path_of(directory: &OwnedFd) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let path =
        std::fs::read_link(link).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    let (opened, named) = (fstat(directory)?, stat(&path)?);
    let is_same = (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino);
    if is_same && path.is_absolute() { Ok(path) } else { Err(Errno::STALE) }
}

pub(crate) fn bad_cwd(path: &Path, errno: Errno) -> StartError {
    let why = match errno {
        Errno::NOENT => "no such directory".to_owned(),
        Errno::NOTDIR => "not a directory".to_owned(),
        Errno::ACCESS => "permission denied".to_owned(),
        Errno::STALE => "it was moved or removed meanwhile".to_owned(),
        Errno::MFILE => out_of_files(),
        other => io::Error::from(other).to_string(),
    };
    StartError::BadCwd { cwd: path.display().to_string(), why }
}

/// Directories that are known to be on local disks: opening one never takes long. Opening one on a
/// network file system may block forever.
#[derive(Debug, Default)]
pub(crate) struct LocalDirs {
    known: Mutex<HashSet<PathBuf>>,
}

const MOST: usize = 256;

impl LocalDirs {
    /// `true` if this path was found to be a directory on a local disk.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.known().contains(path)
    }

    /// Remembers the path if the open directory is on a local disk. The check is made once per
    /// path: a path seldom moves to another disk.
    pub(crate) fn note(&self, path: &Path, directory: impl AsFd) {
        if self.has(path)
            || !fstatfs(directory).is_ok_and(|system| is_of_this_host(system.f_type as u64))
        {
            return;
        }
        let mut known = self.known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(path.to_owned());
    }

    fn known(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `true` for a file system type (as in `statfs`) that is always local. Any other may be a network
/// file system.
const fn is_of_this_host(kind: u64) -> bool {
    const BTRFS: u64 = 0x9123_683e;
    const EXT: u64 = 0xef53;
    const F2FS: u64 = 0xf2f5_2010;
    const OVERLAY: u64 = 0x794c_7630;
    const TMPFS: u64 = 0x0102_1994;
    const XFS: u64 = 0x5846_5342;
    const ZFS: u64 = 0x2fc1_2fc1;
    matches!(kind, BTRFS | EXT | F2FS | OVERLAY | TMPFS | XFS | ZFS)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use rustix::fs::{Access, AtFlags, accessat, rename};
    use tempfile::TempDir;

    use super::*;

    /// Two directories, each with a file of its own name, and a link to the first.
    struct TestDir {
        root: TempDir,
    }

    impl TestDir {
        fn new() -> Self {
            let place = Self { root: tempfile::tempdir().unwrap() };
            for name in ["inside", "outside"] {
                fs::create_dir(place.at(name)).unwrap();
                fs::write(place.at(name).join(name), "").unwrap();
            }
            symlink(place.at("inside"), place.at("link")).unwrap();
            place
        }

        fn at(&self, name: &str) -> PathBuf {
            self.root.path().canonicalize().unwrap().join(name)
        }

        /// Points the link elsewhere, atomically.
        fn swap(&self, to: &str) {
            symlink(self.at(to), self.at("new")).unwrap();
            rename(self.at("new"), self.at("link")).unwrap();
        }
    }

    fn holds(directory: &OpenedDir, name: &str) -> bool {
        accessat(directory, name, Access::EXISTS, AtFlags::empty()).is_ok()
    }

    #[track_caller]
    fn check_refused(path: &Path, expected: &str) {
        match OpenedDir::open(path) {
            Err(StartError::BadCwd { why, .. }) => assert_eq!(why, expected),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_path_is_that_of_the_opened_directory() {
        let place = TestDir::new();
        fs::create_dir(place.at("inside/deep")).unwrap();
        symlink("link/deep", place.at("chain")).unwrap();
        for (given, expected) in [
            ("inside", "inside"),
            ("link", "inside"),
            ("link/", "inside"),
            ("link/deep", "inside/deep"),
            ("chain", "inside/deep"),
            ("link/deep/../../outside", "outside"),
        ] {
            let opened = OpenedDir::open(&place.at(given)).unwrap();
            assert_eq!(opened.path(), place.at(expected), "{given}");
        }
    }

    #[test]
    fn each_error_names_its_cause() {
        let place = TestDir::new();
        symlink("nowhere", place.at("dangling")).unwrap();
        symlink("loop", place.at("loop")).unwrap();
        check_refused(&place.at("none"), "no such directory");
        check_refused(&place.at("dangling"), "no such directory");
        check_refused(&place.at("inside/inside"), "not a directory");
        check_refused(&place.at("inside/inside/below"), "not a directory");
        check_refused(&place.at("loop"), &io::Error::from(Errno::LOOP).to_string());
        let nul = OpenedDir::open(Path::new("/a\0b")).map(drop);
        assert_eq!(nul, Err(StartError::NulByte { what: "cwd" }));
    }

    #[test]
    fn a_removed_directory_is_not_confused_with_a_new_one_of_the_same_name() {
        let place = TestDir::new();
        let open = open_directory(&place.at("inside"), &LocalDirs::default()).unwrap();
        fs::remove_dir_all(place.at("inside")).unwrap();
        assert_eq!(path_of(&open), Err(Errno::NOENT));
        fs::create_dir(place.at("inside (deleted)")).unwrap();
        assert_eq!(path_of(&open), Err(Errno::STALE));
        check_refused(&place.at("link"), "no such directory");
    }

    #[test]
    fn a_link_that_is_swapped_before_or_after_the_check_changes_nothing() {
        let place = TestDir::new();
        let open = open_directory(&place.at("link"), &LocalDirs::default()).unwrap();
        place.swap("outside");
        assert_eq!(path_of(&open), Ok(place.at("inside")));
        place.swap("inside");
        let opened = OpenedDir::open(&place.at("link")).unwrap();
        place.swap("outside");
        assert!(holds(&opened, "inside") && !holds(&opened, "outside"));
        assert_eq!(OpenedDir::open(&place.at("link")).unwrap().path(), place.at("outside"));
    }

    #[test]
    fn no_race_makes_the_path_differ_from_the_directory() {
        let place = TestDir::new();
        let (link, inside) = (place.at("link"), place.at("inside"));
        let deadline = Instant::now() + Duration::from_secs(30);
        let over = AtomicBool::new(false);
        // The number of times that the link led inside, and outside.
        let mut seen = [0, 0];
        let mut lies = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    place.swap("outside");
                    place.swap("inside");
                }
            });
            while seen.iter().any(|times| *times < 5000) && Instant::now() < deadline {
                let Ok(opened) = OpenedDir::open(&link) else { continue };
                let is_inside = opened.path() == inside;
                seen[usize::from(!is_inside)] += 1;
                lies += usize::from(holds(&opened, "inside") != is_inside);
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(lies, 0);
        assert!(seen.iter().all(|times| *times >= 5000), "the link was hardly swapped: {seen:?}");
    }
}

#[cfg(test)]
mod local_dirs_tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_directory_is_remembered_once_seen_and_only_on_a_local_disk() {
        let local = LocalDirs::default();
        let dir = tempfile::tempdir().unwrap();
        assert!(!local.has(dir.path()));
        local.note(dir.path(), File::open(dir.path()).unwrap());
        assert!(local.has(dir.path()));
        let odd = Path::new("/proc");
        local.note(odd, File::open(odd).unwrap());
        assert!(!local.has(odd));
    }
}
