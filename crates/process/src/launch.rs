//! The description of a process to start, and its working directory.
//!
//! The directory is opened once, so that the directory that is checked is the one that is used.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, fstat, fstatfs, open, stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use shellyard_policy::gate::GateRules;

use crate::confinement::{Backend, GrantedConfinement, ResourceLimits, SandboxPaths};
use crate::env_variable::EnvVariable;
use crate::job_user::JobUser;
use crate::start_error::StartError;
use crate::syscalls::block_in_place;

/// A process to start, complete: it inherits nothing from the server but its limits, and its user
/// unless it names another.
#[derive(Debug, Clone)]
pub struct ProcessLaunch {
    /// The program with its arguments.
    pub command: CommandLine,
    /// The whole environment.
    pub env: Vec<EnvVariable>,
    /// The working directory.
    pub cwd: Cwd,
    /// The source of its standard input.
    pub stdin: LaunchStdin,
    /// The pipes of its output. A terminal merges both streams in any case.
    pub streams: StreamMode,
    /// The sandbox and the resource limits.
    pub sandbox: SandboxSpec,
    /// The user that it runs as; `None` = the server's.
    pub user: Option<JobUser>,
    /// The name under which the next server finds the process.
    pub keep_as: Option<String>,
    /// The time after which it is ended, if there is one.
    pub deadline: Option<Deadline>,
    /// The rules by which each start of a program is judged, if any.
    pub gate: Option<Arc<GateRules>>,
}

/// The time after which a job is ended, from the start of its first process, and the time from SIGTERM
/// to SIGKILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    /// The time from the start of the first process.
    pub timeout: Duration,
    /// The time from SIGTERM to SIGKILL.
    pub grace: Duration,
}

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// A path (relative to the working directory), or a name that is looked up in the PATH of the
    /// process.
    pub program: OsString,
    /// The name that the program uses for itself in its messages; `None` = `program`.
    pub arg0: Option<OsString>,
    /// The arguments, without the name.
    pub args: Vec<OsString>,
    /// The reporting of the exit codes of a shell's last pipeline.
    pub report: ReportMode,
}

impl CommandLine {
    /// Creates the command line of a program that is started without a shell.
    #[must_use]
    pub fn new_direct(
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self { program: program.into(), arg0: None, args, report: ReportMode::None }
    }
}

/// The sandbox and the resource limits of a process and everything that it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSpec {
    /// The confinement and the backend that enforces it.
    pub granted: GrantedConfinement,
    /// The limits on its resources.
    pub limits: ResourceLimits,
    /// The paths that it may write, and those that are hidden from it.
    pub paths: Arc<SandboxPaths>,
}

impl SandboxSpec {
    /// Returns a specification without sandbox and limits.
    #[must_use]
    pub fn none() -> Self {
        let granted = GrantedConfinement::NOTHING;
        let limits = ResourceLimits::NONE;
        Self { granted, limits, paths: Arc::default() }
    }

    /// `true` if there is neither a sandbox nor a limit.
    pub(crate) fn is_none(&self) -> bool {
        self.granted.backend == Backend::Nothing && self.limits == ResourceLimits::NONE
    }
}

/// The standard input of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchStdin {
    /// No input: the first read finds the end.
    Null,
    /// These bytes, and then the end.
    Text(Vec<u8>),
    /// A pipe from the server.
    Pipe,
    /// The standard input of the server itself.
    Inherited,
    /// A new terminal of this size, which is also its output and its controlling terminal.
    Terminal(TerminalSize),
}

impl LaunchStdin {
    /// Returns the input that is there from the start, if there is any.
    pub(crate) fn first_input(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text.as_slice()).filter(|text| !text.is_empty()),
            Self::Null | Self::Pipe | Self::Inherited | Self::Terminal(_) => None,
        }
    }
}

/// The pipes of a process's standard output and standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamMode {
    /// Both are the same pipe: the order in which the process writes to them is kept.
    Merged,
    /// Each is a pipe of its own. Bytes that wait in both pipes are read in any order.
    Separate,
}

impl StreamMode {
    /// Each value with its wire name.
    pub const WORDS: [(&'static str, Self); 2] =
        [("merged", Self::Merged), ("separate", Self::Separate)];
}

/// The reporting of the exit codes of a process's last pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportMode {
    /// The codes are not reported.
    None,
    /// The codes are reported: [`super::shell::build_invocation`] has wrapped the text.
    Pipeline,
}

/// The file descriptor under which the shell finds the file for its report. High, so that it is in
/// nobody's way; programs that the shell runs inherit it.
pub(crate) const REPORT_FD: i32 = 61;

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct TerminalSize {
    /// The number of lines that fit.
    pub rows: u16,
    /// The number of characters in a line.
    pub columns: u16,
}

impl TerminalSize {
    /// The most rows or columns that a caller may ask for.
    pub const MAX: u16 = 10_000;
    /// The size of a terminal that nobody looks at.
    pub const DEFAULT: Self = Self { rows: 40, columns: 120 };
}

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
        Self::open_with_cache(path, &LocalDirs::default())
    }

    /// Opens a directory; costs less for one that is known to be on a local disk.
    pub(crate) fn open_with_cache(path: &Path, local: &LocalDirs) -> Result<Self, StartError> {
        // On any other file system this may block forever.
        if local.contains(path) {
            Self::open_now(path, local)
        } else {
            block_in_place(|| Self::open_now(path, local))
        }
    }

    fn open_now(path: &Path, local: &LocalDirs) -> Result<Self, StartError> {
        let directory = open_directory(path, local)?;
        let resolved = resolve_path(&directory).map_err(|errno| bad_cwd(path, errno))?;
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
    local.remember_if_local(path, &directory);
    Ok(directory)
}

/// Returns the path of an open directory.
///
/// The kernel's link in /proc alone is not enough: for a directory that was removed, or that is in
/// another mount namespace, it gives a text that may be the path of something else.
pub(crate) fn resolve_path(directory: &OwnedFd) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let path =
        std::fs::read_link(link).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    let opened = fstat(directory)?;
    let named = stat(&path)?;
    let is_same = (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino);
    if is_same && path.is_absolute() { Ok(path) } else { Err(Errno::STALE) }
}

pub(crate) fn bad_cwd(path: &Path, errno: Errno) -> StartError {
    if let Some(error) = StartError::from_open_file_limit(&errno.into()) {
        return error;
    }
    let why = match errno {
        Errno::NOENT => "no such directory".to_owned(),
        Errno::NOTDIR => "not a directory".to_owned(),
        Errno::ACCESS => "permission denied".to_owned(),
        Errno::STALE => "it was moved or removed meanwhile".to_owned(),
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

const MAX_LOCAL_DIRS: usize = 256;

impl LocalDirs {
    /// `true` if this path was found to be a directory on a local disk.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.lock_known().contains(path)
    }

    /// Remembers the path if the open directory is on a local disk. The check is made once per
    /// path: a path seldom moves to another disk.
    fn remember_if_local(&self, path: &Path, directory: impl AsFd) {
        if self.contains(path)
            || !fstatfs(directory).is_ok_and(|system| is_local_file_system(system.f_type as u64))
        {
            return;
        }
        let mut known = self.lock_known();
        if known.len() >= MAX_LOCAL_DIRS {
            known.clear();
        }
        known.insert(path.to_owned());
    }

    fn lock_known(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `true` for a file system type (as in `statfs`) that is always local. Any other may be a network
/// file system.
const fn is_local_file_system(kind: u64) -> bool {
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
    use std::fs::File;
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
                fs::create_dir(place.path(name)).unwrap();
                fs::write(place.path(name).join(name), "").unwrap();
            }
            symlink(place.path("inside"), place.path("link")).unwrap();
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.root.path().canonicalize().unwrap().join(name)
        }

        /// Points the link elsewhere, atomically.
        fn swap(&self, to: &str) {
            symlink(self.path(to), self.path("new")).unwrap();
            rename(self.path("new"), self.path("link")).unwrap();
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
        fs::create_dir(place.path("inside/deep")).unwrap();
        symlink("link/deep", place.path("chain")).unwrap();
        for (given, expected) in [
            ("inside", "inside"),
            ("link", "inside"),
            ("link/", "inside"),
            ("link/deep", "inside/deep"),
            ("chain", "inside/deep"),
            ("link/deep/../../outside", "outside"),
        ] {
            let opened = OpenedDir::open(&place.path(given)).unwrap();
            assert_eq!(opened.path(), place.path(expected), "{given}");
        }
    }

    #[test]
    fn each_error_names_its_cause() {
        let place = TestDir::new();
        symlink("nowhere", place.path("dangling")).unwrap();
        symlink("loop", place.path("loop")).unwrap();
        check_refused(&place.path("none"), "no such directory");
        check_refused(&place.path("dangling"), "no such directory");
        check_refused(&place.path("inside/inside"), "not a directory");
        check_refused(&place.path("inside/inside/below"), "not a directory");
        for errno in [Errno::MFILE, Errno::NFILE] {
            assert_eq!(bad_cwd(&place.path("inside"), errno).code(), "out_of_files");
        }
        check_refused(&place.path("loop"), &io::Error::from(Errno::LOOP).to_string());
        let nul = OpenedDir::open(Path::new("/a\0b")).map(drop);
        assert_eq!(nul, Err(StartError::NulByte { what: "cwd" }));
    }

    #[test]
    fn a_removed_directory_is_not_confused_with_a_new_one_of_the_same_name() {
        let place = TestDir::new();
        let open = open_directory(&place.path("inside"), &LocalDirs::default()).unwrap();
        fs::remove_dir_all(place.path("inside")).unwrap();
        assert_eq!(resolve_path(&open), Err(Errno::NOENT));
        fs::create_dir(place.path("inside (deleted)")).unwrap();
        assert_eq!(resolve_path(&open), Err(Errno::STALE));
        check_refused(&place.path("link"), "no such directory");
    }

    #[test]
    fn a_link_that_is_swapped_before_or_after_the_check_changes_nothing() {
        let place = TestDir::new();
        let open = open_directory(&place.path("link"), &LocalDirs::default()).unwrap();
        place.swap("outside");
        assert_eq!(resolve_path(&open), Ok(place.path("inside")));
        place.swap("inside");
        let opened = OpenedDir::open(&place.path("link")).unwrap();
        place.swap("outside");
        assert!(holds(&opened, "inside") && !holds(&opened, "outside"));
        assert_eq!(OpenedDir::open(&place.path("link")).unwrap().path(), place.path("outside"));
    }

    #[test]
    fn no_race_makes_the_path_differ_from_the_directory() {
        let place = TestDir::new();
        let link = place.path("link");
        let inside = place.path("inside");
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

    #[test]
    fn a_directory_is_remembered_once_seen_and_only_on_a_local_disk() {
        let local = LocalDirs::default();
        let dir = tempfile::tempdir().unwrap();
        assert!(!local.contains(dir.path()));
        local.remember_if_local(dir.path(), File::open(dir.path()).unwrap());
        assert!(local.contains(dir.path()));
        let odd = Path::new("/proc");
        local.remember_if_local(odd, File::open(odd).unwrap());
        assert!(!local.contains(odd));
    }
}
