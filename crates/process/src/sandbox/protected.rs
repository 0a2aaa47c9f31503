//! Files in a workspace that other programs execute later, outside of any job: a job must not write
//! them. A setting lists them.
//!
//! A missing file gets a placeholder for as long as a job runs. Each job holds a shared lock on the
//! workspace's directory; the last job, of whichever server, gets it exclusively and removes the
//! placeholders. They are recorded before they are created ([`remove_recorded_placeholders`]), so
//! that they can be removed after a server was killed.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat, flock, linkat, lstat, mkdir,
    mknodat, open, rmdir, stat, unlink,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::keeper::{HandoverFlag, SavedPath, save_paths};

/// The time that a start waits for another job that removes the placeholders of the same workspace.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);

/// The name component that matches every existing directory.
const ANY: &str = "*";
/// The home directory, at the start of a name.
const HOME: &str = "~";
/// The directory in which a repository keeps its settings. A job may create a repository if there
/// is none.
const REPOSITORY: &str = ".git";

/// The prefix of the names of records.
const RECORD: &str = "placeholders-";

/// The files that must not change while a job runs.
#[derive(Debug)]
pub(crate) struct ProtectedFiles {
    names: Vec<PathBuf>,
    /// Only held: placeholders are removed when this is dropped.
    workspaces: Vec<WorkspaceGuard>,
}

impl ProtectedFiles {
    /// Returns all of them: files, directories, symlinks and placeholders, which all exist.
    ///
    /// The target of a symlink is included, since a link is only as constant as its target.
    pub(crate) fn names(&self) -> &[PathBuf] {
        &self.names
    }

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

/// The names to protect, and the workspaces that they are in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProtectedNames<'a> {
    /// The workspaces, as full paths without symlinks.
    pub(crate) roots: &'a [PathBuf],
    /// Names below each workspace, or below the home directory if they begin with `~`.
    pub(crate) names: &'a [PathBuf],
    /// The home directory of the server's user.
    pub(crate) home: Option<&'a Path>,
    /// The directory for the records of placeholders, which no job can write.
    pub(crate) records: &'a Path,
    /// The flag that is set once the next server takes over the jobs.
    pub(crate) handover: &'a HandoverFlag,
}

/// Protects existing files, and prevents missing ones from being created.
///
/// Names in the directory of a repository apply if there is a repository, and only in the workspace
/// itself: a job may create its own repositories, which nobody has used before.
///
/// # Errors
/// If something is missing, could be created by a job, and we cannot prevent it: a full disk, or a
/// directory of ours that is not writable at the moment.
pub(crate) fn protect_files(protection: &ProtectedNames<'_>) -> io::Result<ProtectedFiles> {
    let home = protection.home.and_then(|home| home.canonicalize().ok());
    let mut protected = ProtectedFiles { names: Vec::new(), workspaces: Vec::new() };
    for (number, root) in protection.roots.iter().enumerate() {
        let mut workspace = WorkspaceGuard::lock(root, protection.handover)?;
        let mut found =
            NameSearch { roots: protection.roots, names: Vec::new(), missing: Vec::new() };
        for name in protection.names {
            match (name.strip_prefix(HOME), &home) {
                (Err(_), _) => found.search(root.clone(), name)?,
                (Ok(name), Some(home)) if innermost_root(protection.roots, home) == Some(root) => {
                    found.search(home.clone(), name)?;
                }
                (Ok(_), _) => {}
            }
        }
        let record = protection.records.join(format!("{RECORD}{number}"));
        workspace.create_placeholders(found.missing, root, &record)?;
        protected.names.extend(found.names);
        protected.names.extend(workspace.placeholders.iter().cloned());
        protected.workspaces.push(workspace);
    }
    protected.names.sort();
    protected.names.dedup();
    Ok(protected)
}

/// Returns the existing ones of these places, as full paths without symlinks: [`super::mounts`]
/// hides them.
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
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
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
pub(crate) fn create_placeholder(path: &Path) -> Result<(), Errno> {
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
pub(crate) fn remove_placeholder(path: &Path) {
    let Ok(found) = lstat(path) else { return };
    if is_placeholder(path, &found) {
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        // A directory is not empty if somebody else has put something there: then it is theirs.
        let removed = if is_directory { rmdir(path) } else { unlink(path) };
        removed.ok();
    }
}

/// `true` if the file found at this path is a placeholder.
pub(crate) fn is_placeholder(path: &Path, found: &Stat) -> bool {
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
pub(crate) fn is_out_of_reach(path: &Path, errno: Errno) -> bool {
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
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    fn new_root() -> (TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        (root, path)
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
        let names = protected.names().iter().map(|name| name.strip_prefix(root).unwrap());
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
        let names = &paths(&NAMES);
        let handover = &HandoverFlag::default();
        protect_files(&ProtectedNames { roots, names, home, records, handover }).unwrap()
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
        assert!(protected.names().iter().all(|name| name.symlink_metadata().is_ok()));
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
                assert!(protected.names().contains(&home.join(name)), "{name}");
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
            assert!(protected.names().contains(&root.join(name)), "{name}: {protected:?}");
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
        assert_eq!(all(&root), two.names());
        // The record of a running job is no reason to remove anything.
        remove_recorded_placeholders(other.path());
        assert_eq!(all(&root), two.names());
        drop(two);
        assert_eq!(all(&root), [] as [PathBuf; 0]);
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
                assert!(protected.names().len() == 2 && protected.names().iter().all(is_there));
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
}

#[cfg(test)]
mod placeholder_tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

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
