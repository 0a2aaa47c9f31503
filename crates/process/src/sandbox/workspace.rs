//! The workspaces of a job: the directories that it may write to, those that it has for itself, and the
//! files in a workspace that it must not write.
//!
//! Other programs execute such files later, outside of any job. A setting lists them. A missing file
//! gets a placeholder for as long as a job runs. Each job holds a shared lock on the workspace's
//! directory; the last job, of whichever server, gets it exclusively and removes the placeholders. They
//! are recorded before they are created ([`remove_recorded_placeholders`]), so that they can be removed
//! after a server was killed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat, flock, linkat, lstat, mkdir,
    mknodat, open, rmdir, stat, unlink,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use thiserror::Error;

use crate::confinement::SandboxPaths;
use crate::keeper::{HandoverFlag, SavedPath, save_paths};
use crate::sandbox::mounts::BindMount;

/// A reason why a job has no workspace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkspaceError {
    /// No workspace is set, and the job's directory contains far more than one.
    #[error(
        "the job's directory `{}` is too wide to be its workspace: set confinement.workspace, or run the job in a directory below it",
        .0.display()
    )]
    TooWide(PathBuf),
    /// No workspace is set, and the job's directory is hidden from jobs.
    #[error(
        "the job's directory `{}` is hidden from confined jobs: set confinement.workspace, or run the job elsewhere",
        .0.display()
    )]
    Hidden(PathBuf),
    /// The workspace is `/`, which would confine nothing.
    #[error("`/` cannot be a workspace: set confinement.workspace to directories below it")]
    Everything,
    /// The workspace does not exist or is not a directory, and there is no other.
    #[error("the workspace `{}` cannot be used: {why}; create it or change confinement.workspace", path.display())]
    Unusable {
        /// The path of the workspace.
        path: PathBuf,
        /// The reason of the error.
        why: String,
    },
}

/// Returns the directories to which a job in `cwd` may write: full paths without symlinks, sorted,
/// without duplicates. One may contain another, since something between the two may be hidden.
///
/// These are the existing workspaces of the settings, or else `cwd`.
///
/// # Errors
/// If there is none, or if none is set and `cwd` cannot serve as one: `/`, the home directory,
/// `/tmp` or another shared directory, their ancestors, or a hidden directory.
pub(crate) fn writable_roots(
    places: &SandboxPaths,
    shared: &[SharedDir],
    cwd: &Path,
) -> Result<Vec<PathBuf>, WorkspaceError> {
    if places.workspace.is_empty() {
        let cwd = resolve_dir(cwd)?;
        let home = places.home.as_deref().map(resolve_if_possible);
        let wide: Vec<&Path> =
            home.as_deref().into_iter().chain(shared.iter().map(|it| it.path.as_path())).collect();
        let hidden: Vec<PathBuf> =
            places.hidden.iter().map(|path| resolve_if_possible(path)).collect();
        return check_unchosen(&cwd, &wide, &hidden).map(|()| vec![cwd]);
    }
    let found = places.workspace.iter().map(|path| resolve_dir(path));
    let (found, mut missing): (Vec<_>, Vec<_>) = found.partition(Result::is_ok);
    let found: BTreeSet<PathBuf> = found.into_iter().flatten().collect();
    if found.contains(Path::new("/")) {
        return Err(WorkspaceError::Everything);
    }
    if found.is_empty()
        && let Some(Err(error)) = missing.drain(..).next()
    {
        return Err(error);
    }
    Ok(found.into_iter().collect())
}

/// Returns the directories that a job in `cwd` sees although they are inside a directory of which
/// it has its own copy: the existing workspaces of the settings, and `cwd`.
///
/// # Errors
/// If `cwd` is such a directory itself and was not chosen: then the job would see all of the
/// host's.
pub(crate) fn readable_dirs(
    places: &SandboxPaths,
    shared: &[SharedDir],
    cwd: &Path,
) -> Result<Vec<PathBuf>, WorkspaceError> {
    let chosen = places.workspace.iter().filter_map(|path| resolve_dir(path).ok());
    let mut readable: BTreeSet<PathBuf> = chosen.collect();
    let cwd = resolve_dir(cwd)?;
    let is_chosen = readable.iter().any(|root| cwd.starts_with(root));
    if !is_chosen && shared.iter().any(|place| place.path == cwd) {
        return Err(WorkspaceError::TooWide(cwd));
    }
    if !is_chosen && is_inside_shared(shared, &cwd) {
        readable.insert(cwd);
    }
    Ok(readable.into_iter().collect())
}

/// Checks that the directory of a job can be its workspace without being chosen: it contains none
/// of these wide directories and is not hidden.
fn check_unchosen(cwd: &Path, wide: &[&Path], hidden: &[PathBuf]) -> Result<(), WorkspaceError> {
    let is_too_wide = cwd == Path::new("/") || wide.iter().any(|place| place.starts_with(cwd));
    if is_too_wide {
        return Err(WorkspaceError::TooWide(cwd.to_owned()));
    }
    if hidden.iter().any(|place| cwd.starts_with(place)) {
        return Err(WorkspaceError::Hidden(cwd.to_owned()));
    }
    Ok(())
}

fn resolve_dir(path: &Path) -> Result<PathBuf, WorkspaceError> {
    let unusable = |why: String| WorkspaceError::Unusable { path: path.to_owned(), why };
    match path.canonicalize() {
        Ok(found) if found.is_dir() => Ok(found),
        Ok(_) => Err(unusable("not a directory".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(unusable("no such directory".to_owned()))
        }
        Err(error) => Err(unusable(error.to_string())),
    }
}

/// Resolves a path, as far as possible.
fn resolve_if_possible(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

// Directories that the programs of one user share: temporary files, the sockets of services, the
// home directory. A job in a mount namespace has its own.
//
// A socket takes connections although its directory is read-only, so a job must not see it. New
// sockets appear in these directories at any time, and are not seen there. Sockets elsewhere are
// hidden one by one, if they exist when the job starts.

/// Directories of the host of which a job has its own, each with the name of the directory that it
/// sees there. Symlinks among them are followed.
const SHARED: [(&str, &str); 4] =
    [("/tmp", TEMPORARY), ("/var/tmp", TEMPORARY), ("/run", "run"), ("/var/run", "run")];

/// The name of a job's own directory for temporary files.
pub(crate) const TEMPORARY: &str = "tmp";
const OWN_HOME: &str = "home";

/// System directories that are the home directory of some service's user, or contain it. They are
/// never private: they contain programs.
const SYSTEM: [&str; 13] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/nix", "/opt", "/proc", "/sbin", "/sys",
    "/usr", "/var",
];
/// System directories that can contain a home directory.
const AROUND_HOMES: [&str; 2] = ["/opt", "/var"];

/// The file that says how to resolve host names. It may link into `/run`.
const RESOLVER: &str = "/etc/resolv.conf";

/// The table of unix sockets of this network namespace.
const SOCKETS: &str = "/proc/net/unix";

/// A directory of the host of which a job has its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedDir {
    /// The full path, without symlinks.
    pub(crate) path: PathBuf,
    /// The name of the job's directory.
    pub(crate) own: &'static str,
}

/// Finds the directories of this host that jobs do not share.
pub(crate) fn find_shared_dirs(home: Option<&Path>) -> Vec<SharedDir> {
    let home = home.and_then(|home| home.canonicalize().ok()).filter(|home| can_be_private(home));
    let home = home.map(|path| SharedDir { path, own: OWN_HOME });
    let usual = SHARED.iter().filter_map(|(path, own)| {
        let path = Path::new(path).canonicalize().ok().filter(|path| path.is_dir())?;
        Some(SharedDir { path, own })
    });
    let mut places: Vec<SharedDir> = usual.chain(home).collect();
    places.sort_by(|one, other| one.path.cmp(&other.path));
    places.dedup_by(|one, other| one.path == other.path);
    places
}

fn can_be_private(home: &Path) -> bool {
    let is_in = |places: &[&str]| places.iter().any(|place| home.starts_with(place));
    let is_system = home.parent().is_none() || SYSTEM.iter().any(|place| home == Path::new(place));
    home.is_dir() && !is_system && (!is_in(&SYSTEM) || is_in(&AROUND_HOMES))
}

/// `true` if a path is inside one of these directories, and is not the directory itself.
fn is_inside_shared(places: &[SharedDir], path: &Path) -> bool {
    places.iter().any(|place| path != place.path && path.starts_with(&place.path))
}

/// Returns the mounts of the named paths that a job still sees in these directories. A path that
/// leads through a symlink is seen at its name and at its target.
///
/// A directory that contains one of the shared directories is never shown: through it, the host's
/// would be seen.
pub(crate) fn visible_mounts<'a>(
    places: &[SharedDir],
    named: impl IntoIterator<Item = &'a Path>,
) -> Vec<BindMount> {
    let all = named.into_iter().chain([Path::new(RESOLVER)]);
    let mut shown: Vec<BindMount> = all.flat_map(|path| visible_mounts_of(places, path)).collect();
    shown.sort();
    shown.dedup();
    shown
}

fn visible_mounts_of(places: &[SharedDir], path: &Path) -> Vec<BindMount> {
    let (Ok(source), Some(around), Some(name)) =
        (path.canonicalize(), path.parent(), path.file_name())
    else {
        return Vec::new();
    };
    if places.iter().any(|place| place.path.starts_with(&source)) {
        return Vec::new();
    }
    let named = around.canonicalize().ok().map(|around| around.join(name));
    let seen =
        named.into_iter().chain([source.clone()]).filter(|place| is_inside_shared(places, place));
    seen.map(|place| BindMount { place, source: source.clone() }).collect()
}

/// Finds the sockets with a listener that a job would see: neither in a workspace, nor in a
/// directory of which it has its own, unless that is shown.
pub(crate) fn visible_sockets(
    places: &[SharedDir],
    shown: &[BindMount],
    roots: &[PathBuf],
) -> Vec<PathBuf> {
    let Ok(table) = fs::read(SOCKETS) else { return Vec::new() };
    let mut found: Vec<PathBuf> = Vec::new();
    for socket in table.split(|byte| *byte == b'\n').filter_map(socket_path) {
        let by_shown = shown.iter().filter_map(|it| {
            let rest = socket.strip_prefix(&it.source).ok()?;
            Some(it.place.join(rest))
        });
        let direct = Some(socket.clone()).filter(|path| !is_inside_shared(places, path));
        let seen = direct.into_iter().chain(by_shown);
        let is_chosen = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        found.extend(seen.filter(|path| !is_chosen(path)));
    }
    found.sort();
    found.dedup();
    found
}

/// Returns the real path of a socket from its line of the table, if the socket still exists.
fn socket_path(line: &[u8]) -> Option<PathBuf> {
    let start = line.iter().position(|byte| *byte == b'/')?;
    let path = Path::new(OsStr::from_bytes(line.get(start..)?));
    let path = path.parent()?.canonicalize().ok()?.join(path.file_name()?);
    path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()).then_some(path)
}

/// The time that a start waits for another job that removes the placeholders of the same workspace.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);

/// The name component that matches every existing directory.
const ANY: &str = "*";
/// The home directory, at the start of a name.
const HOME_PREFIX: &str = "~";
/// The directory in which a repository keeps its settings. A job may create a repository if there
/// is none.
const REPOSITORY: &str = ".git";

/// The prefix of the names of records.
const RECORD: &str = "placeholders-";

/// The files that must not change while a job runs.
#[derive(Debug)]
pub(crate) struct ProtectedFiles {
    /// The protected paths: files, directories, symlinks and placeholders, which all exist. The
    /// target of a symlink is included, since a link is only as constant as its target.
    pub(crate) names: Vec<PathBuf>,
    /// Only held: placeholders are removed when this is dropped.
    workspaces: Vec<WorkspaceGuard>,
}

impl ProtectedFiles {
    /// Returns the placeholders of each workspace.
    pub(crate) fn save(&self) -> Vec<Vec<SavedPath>> {
        self.workspaces.iter().map(|guard| save_paths(&guard.placeholders)).collect()
    }

    /// Returns the workspaces, in the same order, with the locks that are on them.
    pub(crate) fn locked_roots(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.workspaces.iter().map(|guard| guard.root.as_fd())
    }

    /// Takes over locked workspaces with their placeholders.
    pub(crate) fn restore(
        workspaces: Vec<(OwnedFd, Vec<PathBuf>)>,
        handover: &HandoverFlag,
    ) -> Self {
        let restore_one = |(root, placeholders)| WorkspaceGuard {
            root,
            placeholders,
            handover: handover.clone(),
        };
        Self { names: Vec::new(), workspaces: workspaces.into_iter().map(restore_one).collect() }
    }
}

/// Protects the existing files of the settings in these workspaces, full paths without symlinks, and
/// prevents missing ones from being created. No job can write the directory `records`, in which
/// placeholders are recorded; `handover` is set once the next server takes over the jobs.
///
/// Names in the directory of a repository apply if there is a repository, and only in the workspace
/// itself: a job may create its own repositories, which nobody has used before.
///
/// # Errors
/// If something is missing, could be created by a job, and we cannot prevent it: a full disk, or a
/// directory of ours that is not writable at the moment.
pub(crate) fn protect_files(
    places: &SandboxPaths,
    roots: &[PathBuf],
    records: &Path,
    handover: &HandoverFlag,
) -> io::Result<ProtectedFiles> {
    let home = places.home.as_ref().and_then(|home| home.canonicalize().ok());
    let mut protected = ProtectedFiles { names: Vec::new(), workspaces: Vec::new() };
    for (number, root) in roots.iter().enumerate() {
        let mut workspace = WorkspaceGuard::lock(root, handover)?;
        let mut found = NameSearch { roots, names: Vec::new(), missing: Vec::new() };
        for name in &places.protected {
            match (name.strip_prefix(HOME_PREFIX), &home) {
                (Err(_), _) => found.search(root.clone(), name)?,
                (Ok(name), Some(home)) if innermost_root(roots, home) == Some(root) => {
                    found.search(home.clone(), name)?;
                }
                (Ok(_), _) => {}
            }
        }
        let record = records.join(format!("{RECORD}{number}"));
        workspace.create_placeholders(found.missing, root, &record)?;
        protected.names.extend(found.names);
        protected.names.extend(workspace.placeholders.iter().cloned());
        protected.workspaces.push(workspace);
    }
    protected.names.sort();
    protected.names.dedup();
    Ok(protected)
}

/// Returns the existing ones of these places, as full paths without symlinks, to be hidden.
pub(crate) fn resolve_hidden(places: &[PathBuf]) -> Vec<PathBuf> {
    places.iter().filter_map(|place| place.canonicalize().ok()).collect()
}

/// Removes the placeholders in the records of this directory, except if another server has jobs in
/// the same workspace: its last job removes them.
pub(crate) fn remove_recorded_placeholders(records: &Path) {
    for entry in fs::read_dir(records).into_iter().flatten().flatten() {
        if !entry.file_name().as_bytes().starts_with(RECORD.as_bytes()) {
            continue;
        }
        let Ok(text) = fs::read(entry.path()) else { continue };
        let mut paths =
            text.split(|byte| *byte == 0).map(|path| PathBuf::from(OsStr::from_bytes(path)));
        let root = paths.next().and_then(|root| open_directory(&root).ok());
        if let Some(root) = root {
            let handover = HandoverFlag::default();
            drop(WorkspaceGuard { root, placeholders: paths.collect(), handover });
        }
    }
}

fn innermost_root<'a>(roots: &'a [PathBuf], path: &Path) -> Option<&'a PathBuf> {
    roots.iter().filter(|root| path.starts_with(root)).max()
}

/// A workspace in which placeholders are needed. The last guard to be dropped removes them.
#[derive(Debug)]
struct WorkspaceGuard {
    root: OwnedFd,
    placeholders: Vec<PathBuf>,
    handover: HandoverFlag,
}

impl WorkspaceGuard {
    /// Takes a shared lock on a workspace. Nobody removes its placeholders from here on.
    fn lock(root: &Path, handover: &HandoverFlag) -> io::Result<Self> {
        let directory = open_directory(root)?;
        let deadline = Instant::now() + PATIENCE;
        // The exclusive lock is held only while a few files are removed.
        while let Err(errno) = flock(&directory, FlockOperation::NonBlockingLockShared) {
            if errno != Errno::WOULDBLOCK || Instant::now() > deadline {
                return Err(errno.into());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(Self { root: directory, placeholders: Vec::new(), handover: handover.clone() })
    }

    /// Creates a placeholder for every missing file, after recording it.
    fn create_placeholders(
        &mut self,
        missing: Vec<PathBuf>,
        root: &Path,
        record: &Path,
    ) -> io::Result<()> {
        if missing.is_empty() {
            return Ok(());
        }
        let paths = [root].into_iter().chain(missing.iter().map(PathBuf::as_path));
        let paths: Vec<&[u8]> = paths.map(|path| path.as_os_str().as_bytes()).collect();
        fs::write(record, paths.join(&0))?;
        for path in missing {
            match create_placeholder(&path) {
                // Another job has created it meanwhile, or somebody created the real file.
                Ok(()) | Err(Errno::EXIST) => self.placeholders.push(path),
                Err(errno) if is_out_of_reach(&path, errno) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

impl Drop for WorkspaceGuard {
    fn drop(&mut self) {
        if self.handover.is_set() {
            return;
        }
        if flock(&self.root, FlockOperation::NonBlockingLockExclusive).is_ok() {
            self.placeholders.iter().for_each(|path| remove_placeholder(path));
        }
        // Closing is not enough: the keeper or a process in creation may hold a copy of the lock.
        flock(&self.root, FlockOperation::Unlock).ok();
    }
}

pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}

/// The files that were found for the protected names.
#[derive(Debug)]
struct NameSearch<'a> {
    roots: &'a [PathBuf],
    names: Vec<PathBuf>,
    missing: Vec<PathBuf>,
}

impl NameSearch<'_> {
    /// Searches for `name` below `base`, or for the first missing directory on the way to it.
    ///
    /// A symlink on the way is followed and can still be replaced: nothing can be mounted on a
    /// symlink through which a directory is seen.
    fn search(&mut self, base: PathBuf, name: &Path) -> io::Result<()> {
        let mut path = base;
        let mut parts = name.components();
        while let Some(part) = parts.next() {
            let part = part.as_os_str();
            let rest = parts.as_path();
            if part == ANY {
                return subdirectories(&path).into_iter().try_for_each(|it| self.search(it, rest));
            }
            path.push(part);
            let found = match lstat(&path) {
                Ok(found) if !is_placeholder(&path, &found) => found,
                Err(Errno::NOENT) if part == REPOSITORY => return Ok(()),
                Ok(_) | Err(Errno::NOENT) => {
                    self.missing.push(path);
                    return Ok(());
                }
                Err(errno) if is_out_of_reach(&path, errno) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            };
            let is_last = rest.as_os_str().is_empty();
            match (FileType::from_raw_mode(found.st_mode), path.canonicalize()) {
                (FileType::Directory, _) => {}
                (FileType::Symlink, Ok(target)) if !is_last && target.is_dir() => path = target,
                (FileType::Symlink, Ok(target)) if is_last => self.names.push(target),
                _ => break,
            }
            if innermost_root(self.roots, &path).is_none() {
                return Ok(());
            }
        }
        self.names.push(path);
        Ok(())
    }
}

/// Returns the directories in a directory, without symlinks.
fn subdirectories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path()).collect()
}

// A placeholder: a file in a place that must stay empty while jobs run. What exists can be mounted
// over, and what is mounted over cannot be replaced.
//
// It is a socket without a listener. Git leaves sockets out of what it lists, adds and cleans;
// opening one is an error. On a file system without sockets it is a directory.

/// A sticky file that nobody may write: nothing else creates such a file.
const SOCKET: Mode = Mode::SVTX;
const READABLE: Mode = Mode::RUSR.union(Mode::SVTX);
const DIRECTORY: Mode = Mode::RUSR.union(Mode::XUSR).union(Mode::SVTX);

/// The file with which a repository says that its settings are in another one. Git reads it
/// wherever it is, so that it must have a content: the repository itself.
const COMMON_DIRECTORY: &str = "commondir";
const ITSELF: &[u8] = b".\n";

/// Creates a placeholder at this path.
///
/// # Errors
/// `EXIST` if something is there, or the error of the file system.
fn create_placeholder(path: &Path) -> Result<(), Errno> {
    if path.file_name() == Some(OsStr::new(COMMON_DIRECTORY)) {
        return create_common_directory_file(path);
    }
    match mknodat(CWD, path, FileType::Socket, SOCKET, 0) {
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => mkdir(path, DIRECTORY),
        made => made,
    }
}

/// Creates the file with its content atomically, so that git never reads half of it.
fn create_common_directory_file(path: &Path) -> Result<(), Errno> {
    let around = path.parent().ok_or(Errno::INVAL)?;
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut file = fs::File::from(open(around, flags, READABLE)?);
    file.write_all(ITSELF).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, unnamed.as_str(), CWD, path, AtFlags::SYMLINK_FOLLOW)
}

/// Removes the placeholder at this path. Anything else stays.
fn remove_placeholder(path: &Path) {
    let Ok(found) = lstat(path) else { return };
    if is_placeholder(path, &found) {
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        // A directory is not empty if somebody else has put something there: then it is theirs.
        let removed = if is_directory { rmdir(path) } else { unlink(path) };
        removed.ok();
    }
}

/// `true` if the file found at this path is a placeholder.
fn is_placeholder(path: &Path, found: &Stat) -> bool {
    let mode = Mode::from_raw_mode(found.st_mode);
    let permissions = mode & (Mode::RWXU | Mode::RWXG | Mode::RWXO | Mode::SVTX);
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Socket => permissions == SOCKET,
        FileType::Directory => permissions == DIRECTORY,
        FileType::RegularFile => {
            permissions == READABLE && fs::read(path).is_ok_and(|text| text == ITSELF)
        }
        FileType::Symlink
        | FileType::Fifo
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => false,
    }
}

/// `true` if a job cannot put anything there either. In a directory of our own it can: it would
/// make the directory writable first.
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
    use std::os::unix::net::UnixListener;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_directory_that_was_not_chosen_must_be_narrow_and_visible() {
        let home = &[Path::new("/home/me"), Path::new("/var/tmp")][..];
        let hidden = [PathBuf::from("/home/me/.ssh"), PathBuf::from("/srv/data")];
        let too_wide = |cwd: &str| Err(WorkspaceError::TooWide(cwd.into()));
        let out_of_sight = |cwd: &str| Err(WorkspaceError::Hidden(cwd.into()));
        for (cwd, home, expected) in [
            ("/", home, too_wide("/")),
            ("/", &[], too_wide("/")),
            ("/home", home, too_wide("/home")),
            ("/home/me", home, too_wide("/home/me")),
            ("/home/me", &[], Ok(())),
            ("/var/tmp", home, too_wide("/var/tmp")),
            ("/var", home, too_wide("/var")),
            ("/var/tmp/x", home, Ok(())),
            ("/home/me/work", home, Ok(())),
            ("/home/mend", home, Ok(())),
            ("/srv", home, Ok(())),
            ("/srv/data", home, out_of_sight("/srv/data")),
            ("/home/me/.ssh/deep", home, out_of_sight("/home/me/.ssh/deep")),
            ("/home/me/.sshd", home, Ok(())),
        ] {
            assert_eq!(check_unchosen(Path::new(cwd), home, &hidden), expected, "{cwd}");
        }
    }

    /// A home directory with a workspace, a file and a link to the workspace.
    fn home() -> (TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().canonicalize().unwrap();
        fs::create_dir_all(home.join("work/deep")).unwrap();
        fs::write(home.join("file"), "").unwrap();
        symlink("work", home.join("link")).unwrap();
        (root, home)
    }

    fn places(home: &Path, workspace: &[&str]) -> SandboxPaths {
        let workspace = workspace.iter().map(|name| home.join(name)).collect();
        SandboxPaths { workspace, home: Some(home.to_owned()), ..SandboxPaths::default() }
    }

    #[test]
    fn without_a_setting_the_directory_of_the_job_is_its_workspace() {
        let (_root, home) = home();
        let places = places(&home, &[]);
        assert_eq!(writable_roots(&places, &[], &home.join("link")), Ok(vec![home.join("work")]));
        assert_eq!(writable_roots(&places, &[], &home), Err(WorkspaceError::TooWide(home.clone())));
        let link = SandboxPaths { home: Some(home.join("link")), ..places };
        assert_eq!(
            writable_roots(&link, &[], &home.join("work")),
            Err(WorkspaceError::TooWide(home.join("work")))
        );
        let hidden = SandboxPaths { home: None, hidden: vec![home.join("link")], ..link };
        let deep = home.join("work/deep");
        assert_eq!(writable_roots(&hidden, &[], &deep), Err(WorkspaceError::Hidden(deep)));
    }

    #[test]
    fn existing_workspaces_of_the_settings_are_used() {
        let (_root, home) = home();
        let found = |names: &[&str]| writable_roots(&places(&home, names), &[], Path::new("/"));
        let nested = ["work", "work/deep"].map(|name| home.join(name)).to_vec();
        assert_eq!(found(&["work/deep", "none", "link", "work"]), Ok(nested));
        assert_eq!(found(&["."]), Ok(vec![home.clone()]));
        assert_eq!(found(&["work", "/"]), Err(WorkspaceError::Everything));
        for (names, why) in
            [(["none", "file"], "no such directory"), (["file", "none"], "not a directory")]
        {
            let text = found(&names).unwrap_err().to_string();
            assert!(text.contains(names[0]) && text.contains(why), "{text}");
        }
    }

    #[test]
    fn a_readable_directory_in_a_private_one_is_chosen_or_the_working_directory() {
        let (_root, home) = home();
        let shared = [SharedDir { path: home.clone(), own: "home" }];
        let [work, deep] = ["work", "work/deep"].map(|name| home.join(name));
        let readable =
            |names: &[&str], cwd: &Path| readable_dirs(&places(&home, names), &shared, cwd);
        assert_eq!(readable(&[], Path::new("/")), Ok(Vec::new()));
        assert_eq!(readable(&[], &home), Err(WorkspaceError::TooWide(home.clone())));
        assert_eq!(readable(&["."], &home), Ok(vec![home.clone()]));
        assert_eq!(readable(&[], &home.join("link")), Ok(vec![work.clone()]));
        assert_eq!(readable(&["work", "none"], &deep), Ok(vec![work.clone()]));
        assert_eq!(readable(&["work/deep"], &work), Ok(vec![work.clone(), deep]));
    }

    fn new_root() -> (TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        (root, path)
    }

    fn shared(path: &Path) -> SharedDir {
        SharedDir { path: path.to_owned(), own: OWN_HOME }
    }

    #[test]
    fn every_host_has_shared_directories_and_links_to_them_are_resolved() {
        let (_root, root) = new_root();
        fs::create_dir(root.join("me")).unwrap();
        symlink("me", root.join("link")).unwrap();
        let found = find_shared_dirs(Some(&root.join("link")));
        for path in ["/tmp", "/run"] {
            let real = Path::new(path).canonicalize().unwrap();
            assert!(found.iter().any(|place| place.path == real), "{path} in {found:?}");
        }
        assert!(found.contains(&shared(&root.join("me"))), "{found:?}");
        let mut paths: Vec<&Path> = found.iter().map(|place| place.path.as_path()).collect();
        paths.dedup();
        assert_eq!(paths.len(), found.len());
    }

    #[test]
    fn a_home_directory_with_programs_of_the_system_is_not_private() {
        let private = |home: &str| {
            find_shared_dirs(Some(Path::new(home))).iter().any(|it| it.own == OWN_HOME)
        };
        for home in ["/", "/usr", "/bin", "/usr/bin", "/var", "/nowhere/at/all", "/dev"] {
            assert!(!private(home), "{home}");
        }
        assert!(can_be_private(Path::new("/var/lib")), "of a service");
    }

    #[test]
    fn named_paths_are_shown_in_a_private_directory_and_its_ancestors_are_not() {
        let (_root, root) = new_root();
        for directory in ["me/.cargo", "elsewhere/tools"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        symlink("../elsewhere/tools", root.join("me/.tools")).unwrap();
        symlink(".cargo", root.join("me/other")).unwrap();
        symlink("/", root.join("me/all")).unwrap();
        let places = [shared(&root.join("me"))];
        let names = ["me/.cargo", "me/.tools", "me/other", "me/all", "me", "elsewhere", "none"];
        let named: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
        let shown = visible_mounts(&places, named.iter().map(PathBuf::as_path));
        let pair =
            |(place, source)| BindMount { place: root.join(place), source: root.join(source) };
        let expected = [
            ("me/.cargo", "me/.cargo"),
            ("me/.tools", "elsewhere/tools"),
            ("me/other", "me/.cargo"),
        ];
        assert_eq!(shown, expected.map(pair));
    }

    #[test]
    fn only_sockets_that_a_job_would_see_are_found() {
        let (_root, root) = new_root();
        for directory in ["me/tools", "work", "srv"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let names = ["me/hidden", "me/tools/shown", "work/own", "srv/service"];
        let _sockets = names.map(|name| UnixListener::bind(root.join(name)).unwrap());
        let stale = UnixListener::bind(root.join("srv/gone")).unwrap();
        fs::remove_file(root.join("srv/gone")).unwrap();
        let places = [shared(&root.join("me"))];
        let tools = root.join("me/tools");
        let shown = [BindMount { place: tools.clone(), source: tools }];
        let found = visible_sockets(&places, &shown, &[root.join("work")]);
        let found: Vec<&Path> = found.iter().filter_map(|it| it.strip_prefix(&root).ok()).collect();
        assert_eq!(found, ["me/tools/shown", "srv/service"].map(Path::new));
        drop(stale);
    }

    /// Returns everything below a directory, as sorted paths.
    fn all(path: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let below = |path: PathBuf| {
            let deeper = if path.is_dir() && !path.is_symlink() { all(&path) } else { Vec::new() };
            [path].into_iter().chain(deeper)
        };
        let mut found: Vec<PathBuf> = entries.flat_map(below).collect();
        found.sort();
        found
    }

    fn names(protected: &ProtectedFiles, root: &Path) -> Vec<String> {
        let names = protected.names.iter().map(|name| name.strip_prefix(root).unwrap());
        names.map(|name| name.display().to_string()).collect()
    }

    const NAMES: [&str; 8] = [
        ".git/hooks",
        ".git/config",
        ".git/modules/*/config",
        ".mcp.json",
        ".github/workflows",
        "~/.bashrc",
        "~/.zshrc",
        "~/.config/fish",
    ];

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    /// Protects these roots, with records beside them.
    fn protecting(roots: &[PathBuf], home: Option<&Path>, records: &Path) -> ProtectedFiles {
        let protected = paths(&NAMES);
        let home = home.map(Path::to_owned);
        let places = SandboxPaths { protected, home, ..SandboxPaths::default() };
        let handover = &HandoverFlag::default();
        protect_files(&places, roots, records, handover).unwrap()
    }

    #[test]
    fn a_repository_is_protected_if_there_is_one_and_other_names_always() {
        let records = tempfile::tempdir().unwrap();
        let (_root, root) = new_root();
        let protect = || protecting(std::slice::from_ref(&root), None, records.path());
        assert_eq!(names(&protect(), &root), [".github", ".mcp.json"]);
        // The `.git` file of another repository, whose directory is elsewhere.
        fs::write(root.join(".git"), "gitdir: elsewhere").unwrap();
        assert_eq!(names(&protect(), &root), [".git", ".github", ".mcp.json"]);
        fs::remove_file(root.join(".git")).unwrap();
        fs::create_dir_all(root.join(".git/modules/lib")).unwrap();
        fs::create_dir_all(root.join(".github/workflows")).unwrap();
        fs::write(root.join(".git/config"), "mine").unwrap();
        let before = all(&root);
        let protected = protect();
        let expected = [
            ".git/config",
            ".git/hooks",
            ".git/modules/lib/config",
            ".github/workflows",
            ".mcp.json",
        ];
        assert_eq!(names(&protected, &root), expected);
        assert!(protected.names.iter().all(|name| name.symlink_metadata().is_ok()));
        drop(protected);
        assert_eq!(all(&root), before);
    }

    #[test]
    fn shell_start_up_files_are_protected_if_the_home_directory_is_writable() {
        let records = tempfile::tempdir().unwrap();
        let (_root, above) = new_root();
        let home = above.join("me");
        fs::create_dir_all(home.join("work")).unwrap();
        fs::create_dir(home.join(".config")).unwrap();
        fs::write(home.join(".bashrc"), "mine").unwrap();
        let before = all(&above);
        for root in [&home, &above] {
            let protected = protecting(std::slice::from_ref(root), Some(&home), records.path());
            for name in [".bashrc", ".zshrc", ".config/fish"] {
                assert!(protected.names.contains(&home.join(name)), "{name}");
            }
            assert_eq!(fs::read_to_string(home.join(".bashrc")).unwrap(), "mine");
            drop(protected);
            assert_eq!(all(&above), before);
        }
        let work = protecting(&[home.join("work")], Some(&home), records.path());
        assert_eq!(names(&work, &home), ["work/.github", "work/.mcp.json"]);
    }

    #[test]
    fn a_symlink_is_protected_with_its_target() {
        let records = tempfile::tempdir().unwrap();
        let (_root, root) = new_root();
        fs::create_dir_all(root.join("dots")).unwrap();
        fs::create_dir(root.join("settings")).unwrap();
        fs::write(root.join("settings/mcp"), "{}").unwrap();
        symlink("settings/mcp", root.join(".mcp.json")).unwrap();
        symlink("dots", root.join(".config")).unwrap();
        symlink("nowhere", root.join(".zshrc")).unwrap();
        let before = all(&root);
        let protected = protecting(std::slice::from_ref(&root), Some(&root), records.path());
        for name in [".mcp.json", "settings/mcp", ".zshrc", "dots/fish"] {
            assert!(protected.names.contains(&root.join(name)), "{name}: {protected:?}");
        }
        drop(protected);
        assert_eq!(all(&root), before);
    }

    #[test]
    fn no_placeholder_is_created_outside_of_the_workspace() {
        let records = tempfile::tempdir().unwrap();
        let (_root, root) = new_root();
        let work = root.join("work");
        fs::create_dir_all(root.join("outside")).unwrap();
        fs::create_dir(&work).unwrap();
        symlink("../outside", work.join(".config")).unwrap();
        let protected = protecting(std::slice::from_ref(&work), Some(&work), records.path());
        assert_eq!(all(&root.join("outside")), [] as [PathBuf; 0]);
        drop(protected);
    }

    #[test]
    fn the_last_job_removes_the_placeholders() {
        let (records, other, (_root, root)) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), new_root());
        let roots = std::slice::from_ref(&root);
        let one = protecting(roots, None, records.path());
        let two = protecting(roots, None, other.path());
        drop(one);
        assert_eq!(names(&two, &root), [".github", ".mcp.json"]);
        assert_eq!(all(&root), two.names);
        // The record of a running job is no reason to remove anything.
        remove_recorded_placeholders(other.path());
        assert_eq!(all(&root), two.names);
        drop(two);
        assert_eq!(all(&root), [] as [PathBuf; 0]);
    }

    #[test]
    fn no_lock_stays_with_a_copy_of_the_descriptor() {
        let (records, other, (_root, root)) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), new_root());
        let roots = std::slice::from_ref(&root);
        let one = protecting(roots, None, records.path());
        let two = protecting(roots, None, other.path());
        let held: Vec<OwnedFd> = [&one, &two]
            .into_iter()
            .flat_map(ProtectedFiles::locked_roots)
            .map(|root| root.try_clone_to_owned().unwrap())
            .collect();
        drop(one);
        drop(two);
        assert_eq!(all(&root), [] as [PathBuf; 0], "the second job was the last one");
        let directory = open_directory(&root).unwrap();
        flock(&directory, FlockOperation::NonBlockingLockExclusive).unwrap();
        drop(held);
    }

    #[test]
    fn placeholders_of_a_killed_server_are_removed_by_its_record() {
        let records = tempfile::tempdir().unwrap();
        let (_root, root) = new_root();
        let killed = protecting(std::slice::from_ref(&root), None, records.path());
        let placeholders = all(&root);
        // A lock ends with its process, and nothing is dropped there.
        let locks: Vec<OwnedFd> =
            killed.workspaces.iter().map(|workspace| workspace.root.try_clone().unwrap()).collect();
        std::mem::forget(killed);
        for lock in &locks {
            flock(lock, FlockOperation::Unlock).unwrap();
        }
        assert_eq!(placeholders.len(), 2);
        fs::write(root.join("mine"), "text").unwrap();
        remove_recorded_placeholders(records.path());
        assert_eq!(all(&root), [root.join("mine")]);
    }

    #[test]
    fn concurrent_jobs_always_find_all_placeholders() {
        let (_root, root) = new_root();
        let come_and_go = || {
            let records = tempfile::tempdir().unwrap();
            for _ in 0..200 {
                let protected = protecting(std::slice::from_ref(&root), None, records.path());
                let is_there = |name: &PathBuf| name.symlink_metadata().is_ok();
                assert!(protected.names.len() == 2 && protected.names.iter().all(is_there));
            }
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(come_and_go)).collect();
            all.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert_eq!(all(&root), [] as [PathBuf; 0]);
    }

    #[test]
    fn existing_hidden_places_are_resolved_and_missing_ones_skipped() {
        let (_root, root) = new_root();
        fs::create_dir(root.join("keys")).unwrap();
        symlink("keys", root.join(".ssh")).unwrap();
        assert_eq!(resolve_hidden(&[root.join(".ssh"), root.join(".aws")]), [root.join("keys")]);
    }

    #[test]
    fn a_placeholder_is_recognised_and_removed() {
        let root = tempfile::tempdir().unwrap();
        for name in [".envrc", COMMON_DIRECTORY] {
            let path = root.path().join(name);
            create_placeholder(&path).unwrap();
            assert!(is_placeholder(&path, &lstat(&path).unwrap()), "{name}");
            assert_eq!(create_placeholder(&path), Err(Errno::EXIST), "{name}");
            remove_placeholder(&path);
            assert!(path.symlink_metadata().is_err(), "{name}");
        }
        let path = root.path().join("directory");
        mkdir(&path, DIRECTORY).unwrap();
        remove_placeholder(&path);
        assert!(!path.exists());
    }

    #[test]
    fn files_of_the_user_are_not_removed() {
        let root = tempfile::tempdir().unwrap();
        let [file, empty, link, socket, used, common] =
            ["file", "empty", "link", "socket", "used", COMMON_DIRECTORY]
                .map(|name| root.path().join(name));
        fs::write(&file, "mine").unwrap();
        fs::write(&common, "../elsewhere\n").unwrap();
        fs::set_permissions(&common, fs::Permissions::from_mode(0o1400)).unwrap();
        fs::create_dir(&empty).unwrap();
        symlink("nowhere", &link).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        mkdir(&used, Mode::RWXU).unwrap();
        fs::write(used.join("file"), "mine").unwrap();
        fs::set_permissions(&used, fs::Permissions::from_mode(0o1500)).unwrap();
        for path in [&file, &empty, &link, &socket, &used, &common] {
            remove_placeholder(path);
            assert!(path.symlink_metadata().is_ok(), "{path:?}");
        }
        fs::set_permissions(&used, fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn no_placeholder_is_needed_only_if_a_job_cannot_write_there() {
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
