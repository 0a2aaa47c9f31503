//! File calls: reading, writing and listing below the working directory, and nowhere else.
//!
//! A file call goes through admission like the command `TOOL PATH`: rules apply to it, and the decision
//! is in the audit log. Then the kernel resolves the path and refuses to leave the directory, so that
//! no link, no `..` and no race leads out of it.
//!
//! **Invariant:** only regular files and directories are opened. The kind of a file is checked before
//! it is opened, so a FIFO or a device can neither block a call nor notice it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    Access, AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, accessat, fchmod, fstat,
    open, openat, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use thiserror::Error;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::admission_error::AdmissionError;
use super::file_admission::{FileCall, READ_FILE, WRITE_FILE, admit_call, is_file_tool_listed};
use super::tenant_client::TenantClient;
use crate::confinement::SandboxProfile;
use crate::outcome::StartError;
use crate::process::OpenedDir;
use crate::spec::DEFAULT_LANE;

/// The time limit of a file call: a dead network file system never answers.
const FILE_CALL_TIME: Duration = Duration::from_secs(30);

impl TenantClient {
    /// Reads at most `max_bytes` bytes of a file below the working directory, starting at offset `from`.
    ///
    /// # Errors
    /// If a rule forbids it, or there is no such file below the working directory.
    pub async fn read_file(
        &self,
        path: &str,
        from: u64,
        max_bytes: usize,
    ) -> Result<FilePage, FileError> {
        let act = move |path: &RootedPath| read_page(path, from, max_bytes);
        self.with_file(READ_FILE, path, |_, _, _| Ok(()), act).await
    }

    /// Replaces the content of a file below the working directory atomically. The file's directory must
    /// exist.
    ///
    /// # Errors
    /// If a rule forbids it, or the path cannot be that of a regular file.
    pub async fn write_file(&self, path: &str, content: String) -> Result<WriteOutcome, FileError> {
        let act = move |path: &RootedPath| replace_file(path, content.as_bytes());
        self.with_file(WRITE_FILE, path, Self::check_writable, act).await
    }

    /// `false` for a tool that reads or writes files if there is an allow list that does not name it.
    #[must_use]
    pub fn offers_file_tool(&self, tool: &str) -> bool {
        let rules = self.service.admission.rules();
        is_file_tool_listed(&rules.policy, tool, self.caller.tenant)
    }

    /// Lists at most `max_entries` entries of the working directory or of a directory below it.
    ///
    /// # Errors
    /// If a rule forbids it, or there is no such directory below the working directory.
    pub async fn list_directory(
        &self,
        path: &str,
        max_entries: usize,
    ) -> Result<DirectoryListing, FileError> {
        let act = move |path: &RootedPath| list_entries(path, max_entries);
        self.with_file("list_directory", path, |_, _, _| Ok(()), act).await
    }

    /// Refuses to write a file that a job of this caller may not write.
    fn check_writable(&self, root: &Path, path: &str) -> Result<(), AdmissionError> {
        let tenant = self.caller.tenant;
        let profile =
            self.service.defaults().confinement_rules.confinement(tenant, DEFAULT_LANE).profile;
        let area = self.area();
        let workspace = self.list_workspaces(area.as_deref());
        let is_protected = || {
            let file = resolve_links(&root.join(path));
            let places = self.sandbox_paths(area.as_deref());
            let protects = |dir: &Path| places.protects(dir, &file);
            protects(root) || workspace.iter().any(|dir| protects(dir))
        };
        let refused = match profile {
            SandboxProfile::None | SandboxProfile::Default => None,
            SandboxProfile::WorkspaceWrite => {
                let is_inside = workspace.iter().any(|dir| root.starts_with(dir));
                if !workspace.is_empty() && !is_inside {
                    Some(root.to_owned())
                } else {
                    is_protected().then(|| root.join(path))
                }
            }
            SandboxProfile::ReadOnly => Some(root.to_owned()),
        };
        refused.map_or(Ok(()), |path| Err(AdmissionError::Confined { tenant, profile, path }))
    }

    /// Admits a file call and runs it, on a thread that may block. `check` is an extra check of the
    /// working directory and the path.
    async fn with_file<T: Send + 'static>(
        &self,
        tool: &str,
        path: &str,
        check: fn(&Self, &Path, &str) -> Result<(), AdmissionError>,
        act: impl FnOnce(&RootedPath) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let client = self.clone();
        let tool = tool.to_owned();
        let given = path.to_owned();
        let work = move || {
            let area = client.area();
            let cwd = &client.start_directory();
            let check = |root: &Path| check(&client, root, &given);
            let call = FileCall { tool: &tool, path: &given };
            let root = admit_call(&client.service.admission, call, cwd, &client.caller, check)?;
            let path = RootedPath::new(root, cwd, &given)?;
            match area.and_then(|area| area.user.clone()) {
                Some(user) => user.act_as(|| act(&path)).map_err(|e| path.convert_io_error(e))?,
                None => act(&path),
            }
        };
        let path = path.to_owned();
        match timeout(FILE_CALL_TIME, spawn_blocking(work)).await {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => Err(FileError::System { path, source: panic.into() }),
            Err(_) => Err(FileError::Slow { path, patience: FILE_CALL_TIME }),
        }
    }
}

/// Returns the path with its symbolic links followed, as far as it exists.
fn resolve_links(path: &Path) -> PathBuf {
    if let Ok(canonical) = path.canonicalize() {
        return canonical;
    }
    // A write through a dangling link creates its target.
    if let Ok(target) = path.read_link() {
        let target = path.parent().unwrap_or(path).join(target);
        return match (target.parent().and_then(|it| it.canonicalize().ok()), target.file_name()) {
            (Some(parent), Some(name)) => parent.join(name),
            _ => target,
        };
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolve_links(parent).join(name),
        _ => path.to_owned(),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePage {
    pub bytes: Vec<u8>,
    /// `true` if the file has more bytes after these.
    pub is_truncated: bool,
    /// The size of the whole file, in bytes.
    pub size: u64,
}

/// Reads at most `max_bytes` bytes, starting at offset `from`; none beyond the end.
fn read_page(path: &RootedPath, from: u64, max_bytes: usize) -> Result<FilePage, FileError> {
    let (file, stat) = path.open_file()?;
    let mut bytes =
        read_from(file, from, max_bytes).map_err(|error| path.convert_io_error(error))?;
    let is_truncated = bytes.len() > max_bytes;
    bytes.truncate(max_bytes);
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    Ok(FilePage { bytes, is_truncated, size })
}

/// Reads one byte more than wanted, which shows whether the file goes on.
fn read_from(mut file: impl Read + Seek, from: u64, max_bytes: usize) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(max_bytes as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    Created,
    /// The file has new content and its old permissions.
    Replaced,
}

/// The permission bits that a replaced file keeps. The set-user-id bit is not among them: a program
/// with new content must not keep it.
const KEPT_MODE: u32 = 0o777;

/// Writes a file atomically: a reader sees the old content or the new one. A symbolic link is neither
/// followed nor replaced.
fn replace_file(path: &RootedPath, content: &[u8]) -> Result<WriteOutcome, FileError> {
    let (parent, name) = path.open_parent()?;
    let before = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(path.convert_errno(errno)),
        Ok(stat) => {
            path.check_kind(&stat, FileType::RegularFile)?;
            // A rename does not check whether the old file is writable.
            accessat(&parent, name, Access::WRITE_OK, AtFlags::EACCESS)
                .map_err(|errno| path.convert_errno(errno))?;
            Some(Mode::from_raw_mode(stat.st_mode & KEPT_MODE))
        }
    };
    let temp = TempFile::create(&parent).map_err(|errno| path.convert_errno(errno))?;
    temp.fill(content, before).map_err(|error| path.convert_io_error(error))?;
    temp.rename_to(name).map_err(|errno| path.convert_errno(errno))?;
    Ok(if before.is_some() { WriteOutcome::Replaced } else { WriteOutcome::Created })
}

/// The new content under a temporary name; dropping it removes the temporary file.
struct TempFile<'p> {
    parent: &'p OwnedFd,
    name: String,
    file: File,
}

impl<'p> TempFile<'p> {
    fn create(parent: &'p OwnedFd) -> Result<Self, Errno> {
        // Random, so that no other file has this name, by chance or on purpose.
        let number = getrandom::u64().map_err(|_| Errno::IO)?;
        let name = format!(".shellyard-{number:016x}.tmp");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(parent, &name, flags, Mode::from_raw_mode(0o666))?;
        Ok(Self { parent, name, file: file.into() })
    }

    fn fill(&self, content: &[u8], mode: Option<Mode>) -> io::Result<()> {
        if let Some(mode) = mode {
            fchmod(&self.file, mode)?;
        }
        let mut file = &self.file;
        file.write_all(content)?;
        // Otherwise a crash could leave an empty file after the rename.
        file.sync_data()
    }

    fn rename_to(self, name: &OsStr) -> Result<(), Errno> {
        renameat(self.parent, &self.name, self.parent, name)
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        // After the rename there is no file of this name.
        unlinkat(self.parent, &self.name, AtFlags::empty()).ok();
    }
}

/// The entries of a directory, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryListing {
    pub entries: Vec<DirectoryEntry>,
    /// `true` if the directory has more entries.
    pub is_truncated: bool,
}

/// An entry of a directory. Links are not followed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// The name; bytes that are not UTF-8 are shown as `�`.
    pub name: String,
    pub kind: FileKind,
    pub size: u64,
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    File,
    Directory,
    Link,
    /// A FIFO, a socket or a device.
    Special,
}

impl FileKind {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Link => "symlink",
            Self::Special => "special",
        }
    }

    /// The kind in an error text, with its article.
    const fn describe(self) -> &'static str {
        match self {
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Special => "a FIFO, a socket or a device",
        }
    }

    const fn from_file_type(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Self::Special,
        }
    }
}

/// Lists at most `max_entries` entries; of a larger directory, an arbitrary selection.
fn list_entries(path: &RootedPath, max_entries: usize) -> Result<DirectoryListing, FileError> {
    let directory = path.open_dir()?;
    read_entries(&directory, max_entries).map_err(|errno| path.convert_errno(errno))
}

fn read_entries(directory: impl AsFd, max_entries: usize) -> Result<DirectoryListing, Errno> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entries.len() == max_entries {
            entries.sort();
            return Ok(DirectoryListing { entries, is_truncated: true });
        }
        match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => entries.push(DirectoryEntry {
                name: name.to_string_lossy().into_owned(),
                kind: FileKind::from_file_type(FileType::from_raw_mode(stat.st_mode)),
                size: u64::try_from(stat.st_size).unwrap_or_default(),
            }),
            // Removed since the directory was read.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    entries.sort();
    Ok(DirectoryListing { entries, is_truncated: false })
}

/// The reason why a file was not read, written or listed. Nothing was changed.
///
/// `path` is the path as the caller gave it.
#[derive(Debug, Error)]
pub enum FileError {
    #[error("denied by security policy: {0}")]
    Rules(AdmissionError),
    /// The working directory itself cannot be used.
    #[error("the working directory cannot be used: {0}")]
    Root(StartError),
    #[error("`{path}` is no path of a file; give one such as \"src/main.rs\"")]
    BadPath { path: String },
    /// The path leads out of the working directory: by itself, by `..` or by a link.
    #[error("`{path}` leads out of the working directory `{}`; give a path below it", .root.display())]
    Outside { path: String, root: PathBuf },
    #[error("there is no `{path}`; list_directory shows what there is")]
    Missing { path: String },
    /// The path leads to the wrong kind of file for this call.
    #[error("`{path}` is {found}, not {wanted}")]
    WrongKind { path: String, found: &'static str, wanted: &'static str },
    #[error("permission denied for `{path}`; the user that jobs run as may not do that")]
    Permission { path: String },
    /// The file system does not answer.
    #[error("`{path}` did not answer within {}s; try again, or another file", .patience.as_secs())]
    Slow { path: String, patience: Duration },
    /// Any other error of the system.
    #[error("`{path}` cannot be used: {source}")]
    System { path: String, source: io::Error },
}

impl FileError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Rules(refused) => refused.code(),
            Self::Root(error) => error.code(),
            Self::BadPath { .. } => "bad_path",
            Self::Outside { .. } => "outside_directory",
            Self::Missing { .. } => "no_such_file",
            Self::WrongKind { .. } => "wrong_kind",
            Self::Permission { .. } => "permission_denied",
            Self::Slow { .. } => "slow",
            Self::System { .. } => "system",
        }
    }
}

impl From<AdmissionError> for FileError {
    fn from(refused: AdmissionError) -> Self {
        match refused {
            AdmissionError::Unreadable(error) => Self::Root(error),
            AdmissionError::ByPolicy(_)
            | AdmissionError::NeedsApproval { .. }
            | AdmissionError::NotApproved { .. }
            | AdmissionError::Directory { .. }
            | AdmissionError::Redirected { .. }
            | AdmissionError::OutsideRoot { .. }
            | AdmissionError::Confined { .. }
            | AdmissionError::NoGate { .. }
            | AdmissionError::ByVariable(_)
            | AdmissionError::NotPlain { .. }
            | AdmissionError::NoAudit { .. } => Self::Rules(refused),
        }
    }
}

// Paths below an open directory, which the kernel resolves without leaving it.

/// A path below the working directory that is not resolved yet.
#[derive(Debug)]
struct RootedPath {
    root: OpenedDir,
    /// The path relative to `root`.
    below: PathBuf,
    /// The path as the caller gave it, for error texts.
    given: String,
}

impl RootedPath {
    /// Takes a path of a caller. An absolute path must start with the working directory, as it is
    /// configured or with all links resolved.
    fn new(root: OpenedDir, configured: &Path, given: &str) -> Result<Self, FileError> {
        if given.trim().is_empty() || given.contains('\0') {
            return Err(FileError::BadPath { path: given.escape_debug().to_string() });
        }
        let below = match Path::new(given) {
            relative if relative.is_relative() => Some(relative),
            absolute => [root.path(), configured]
                .into_iter()
                .find_map(|prefix| absolute.strip_prefix(prefix).ok()),
        };
        let Some(below) = below.map(Path::to_owned) else {
            let root = root.path().to_owned();
            return Err(FileError::Outside { path: given.to_owned(), root });
        };
        let below = if below.as_os_str().is_empty() { ".".into() } else { below };
        Ok(Self { root, below, given: given.to_owned() })
    }

    /// Opens a regular file for reading.
    fn open_file(&self) -> Result<(File, Stat), FileError> {
        let (found, stat) = self.resolve(&self.below)?;
        self.check_kind(&stat, FileType::RegularFile)?;
        let file = reopen(&found, OFlags::empty()).map_err(|errno| self.convert_errno(errno))?;
        Ok((file.into(), stat))
    }

    /// Opens a directory for reading.
    fn open_dir(&self) -> Result<OwnedFd, FileError> {
        let (found, stat) = self.resolve(&self.below)?;
        self.check_kind(&stat, FileType::Directory)?;
        reopen(&found, OFlags::DIRECTORY).map_err(|errno| self.convert_errno(errno))
    }

    /// Opens the parent directory of the path, and returns it with the last component.
    fn open_parent(&self) -> Result<(OwnedFd, &OsStr), FileError> {
        let is_directory = self.given.ends_with('/') || self.given.ends_with("/.");
        let Some(name) = self.below.file_name().filter(|_| !is_directory) else {
            return Err(FileError::BadPath { path: self.given.clone() });
        };
        let parent = self.below.parent().filter(|parent| !parent.as_os_str().is_empty());
        let (found, stat) = self.resolve(parent.unwrap_or(Path::new(".")))?;
        self.check_kind(&stat, FileType::Directory)?;
        Ok((found, name))
    }

    /// Fails if a file is not of the wanted kind.
    fn check_kind(&self, stat: &Stat, wanted: FileType) -> Result<(), FileError> {
        let found = FileType::from_raw_mode(stat.st_mode);
        if found == wanted {
            return Ok(());
        }
        let found = FileKind::from_file_type(found).describe();
        let wanted = FileKind::from_file_type(wanted).describe();
        Err(FileError::WrongKind { path: self.given.clone(), found, wanted })
    }

    fn resolve(&self, path: &Path) -> Result<(OwnedFd, Stat), FileError> {
        let resolve = || {
            let found = resolve_beneath(&self.root, path)?;
            let stat = fstat(&found)?;
            Ok((found, stat))
        };
        resolve().map_err(|errno| self.convert_errno(errno))
    }

    /// Converts a system error.
    fn convert_errno(&self, errno: Errno) -> FileError {
        let path = self.given.clone();
        match errno {
            Errno::XDEV => FileError::Outside { path, root: self.root.path().to_owned() },
            Errno::NOENT => FileError::Missing { path },
            Errno::ACCESS | Errno::PERM => FileError::Permission { path },
            other => FileError::System { path, source: other.into() },
        }
    }

    /// Converts an error of the standard library.
    fn convert_io_error(&self, source: io::Error) -> FileError {
        FileError::System { path: self.given.clone(), source }
    }
}

/// The number of attempts to resolve a path that another process keeps changing.
const MAX_TRIES: usize = 32;

/// Resolves a relative path without opening its target (`O_PATH`). Links are followed as long as they
/// stay below the directory; a link or `..` that leads out of it fails with `XDEV`.
fn resolve_beneath(directory: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..MAX_TRIES {
        match openat2(&directory, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS) => return resolve_stepwise(directory, path),
            found => return found,
        }
    }
    Err(Errno::AGAIN)
}

/// Resolves a path on kernels before 5.6, which lack `openat2`: one component after the other, and
/// without following any link.
fn resolve_stepwise(directory: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut found = openat(directory, ".", flags | OFlags::DIRECTORY, Mode::empty())?;
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => found = openat(&found, name, flags, Mode::empty())?,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Errno::XDEV);
            }
        }
    }
    Ok(found)
}

/// Opens a resolved file for reading: the same file, wherever its path leads by now.
fn reopen(found: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let link = format!("/proc/self/fd/{}", found.as_raw_fd());
    // Non-blocking: some files of the kernel make a reader wait.
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(link, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    //! File calls in real directories, with every way that could lead out of them.

    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use proptest::prelude::*;
    use rustix::fs::mknodat;
    use tempfile::TempDir;

    use super::*;

    /// A working directory with a secret next to it, and links that lead out.
    struct FilesFixture {
        top: TempDir,
    }

    impl FilesFixture {
        fn new() -> Self {
            let files = Self { top: tempfile::tempdir().unwrap() };
            for directory in ["work/sub", "outside"] {
                fs::create_dir_all(files.at(directory)).unwrap();
            }
            fs::write(files.at("outside/secret"), "secret").unwrap();
            fs::write(files.at("work/file"), "content").unwrap();
            fs::write(files.at("work/sub/deep"), "deep").unwrap();
            for (to, link) in [
                ("../outside/secret", "relative"),
                ("../outside", "way"),
                ("sub/deep", "inside"),
                ("sub/../file", "detour"),
                ("loop", "loop"),
                ("/proc/self/root/etc/passwd", "magic"),
            ] {
                symlink(to, files.at("work").join(link)).unwrap();
            }
            symlink(files.at("outside/secret"), files.at("work/absolute")).unwrap();
            files
        }

        fn at(&self, path: &str) -> PathBuf {
            self.top.path().canonicalize().unwrap().join(path)
        }

        fn root(&self) -> OpenedDir {
            OpenedDir::open(&self.at("work")).unwrap()
        }

        fn rooted(&self, path: &str) -> Result<RootedPath, FileError> {
            RootedPath::new(self.root(), &self.at("work"), path)
        }

        fn read(&self, path: &str) -> Result<FilePage, FileError> {
            read_page(&self.rooted(path)?, 0, 100)
        }

        fn write(&self, path: &str, content: &str) -> Result<WriteOutcome, FileError> {
            replace_file(&self.rooted(path)?, content.as_bytes())
        }

        fn names(&self, path: &str) -> Vec<String> {
            let listing = list_entries(&self.rooted(path).unwrap(), 100).unwrap();
            listing.entries.into_iter().map(|entry| entry.name).collect()
        }

        fn content(&self, path: &str) -> String {
            fs::read_to_string(self.at(path)).unwrap()
        }
    }

    /// Paths that lead out of the working directory.
    fn ways_out(files: &FilesFixture) -> Vec<String> {
        let mut ways: Vec<String> = [
            "../outside/secret",
            "sub/../../outside/secret",
            "./../outside/secret",
            "relative",
            "absolute",
            "way/secret",
            "magic",
            "/etc/passwd",
            "/proc/self/cwd/../outside/secret",
        ]
        .map(str::to_owned)
        .into();
        ways.push(files.at("outside/secret").display().to_string());
        ways.push(format!("{}/../outside/secret", files.at("work").display()));
        // Not below the directory, although the path starts with the same characters.
        ways.push(format!("{}2/secret", files.at("work").display()));
        ways
    }

    #[track_caller]
    fn code<T>(result: Result<T, FileError>) -> &'static str {
        result.err().expect("an error").code()
    }

    #[test]
    fn a_file_below_the_directory_is_read_by_any_of_its_paths() {
        let files = FilesFixture::new();
        let absolute = files.at("work/file").display().to_string();
        for (path, expected) in [
            ("file", "content"),
            ("./file", "content"),
            ("sub/../file", "content"),
            ("detour", "content"),
            ("inside", "deep"),
            (absolute.as_str(), "content"),
        ] {
            assert_eq!(files.read(path).unwrap().bytes, expected.as_bytes(), "{path}");
        }
    }

    #[test]
    fn no_path_in_the_list_leads_out() {
        let files = FilesFixture::new();
        for path in ways_out(&files) {
            assert_eq!(code(files.read(&path)), "outside_directory", "read {path}");
            assert_eq!(
                code(files.rooted(&path).and_then(|it| list_entries(&it, 9))),
                "outside_directory"
            );
            assert!(files.write(&path, "changed").is_err(), "write {path}");
        }
        assert_eq!(code(files.write("way/new", "x")), "outside_directory");
        assert_eq!(files.content("outside/secret"), "secret");
        assert_eq!(fs::read_dir(files.at("outside")).unwrap().count(), 1);
    }

    #[test]
    fn the_resolution_for_old_kernels_does_not_lead_out_either() {
        let files = FilesFixture::new();
        let resolve = |path: &str| resolve_stepwise(files.root(), Path::new(path));
        for path in [".", "file", "./sub/deep"] {
            assert!(resolve(path).is_ok(), "{path}");
        }
        for path in ["../outside", "sub/../file", "way/secret", "/etc", "inside/x"] {
            assert!(resolve(path).is_err(), "{path}");
        }
        // This resolves to the link itself, which is not a regular file.
        let found = fstat(resolve("relative").unwrap()).unwrap();
        assert_eq!(FileType::from_raw_mode(found.st_mode), FileType::Symlink);
    }

    #[test]
    fn a_configured_directory_may_be_a_link_itself() {
        let files = FilesFixture::new();
        symlink(files.at("work"), files.at("alias")).unwrap();
        let alias = files.at("alias");
        let given = alias.join("file").display().to_string();
        let path = RootedPath::new(OpenedDir::open(&alias).unwrap(), &alias, &given).unwrap();
        assert_eq!(read_page(&path, 0, 100).unwrap().bytes, b"content");
    }

    #[test]
    fn only_regular_files_are_opened() {
        let files = FilesFixture::new();
        let mode = Mode::from_raw_mode(0o600);
        mknodat(files.root(), "fifo", FileType::Fifo, mode, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(files.at("work/socket")).unwrap();
        for path in ["fifo", "socket", "sub", "."] {
            // No call waits for a process at the other end.
            assert_eq!(code(files.read(path)), "wrong_kind", "{path}");
        }
        for path in ["fifo", "socket", "sub", "inside", "relative"] {
            assert_eq!(code(files.write(path, "x")), "wrong_kind", "{path}");
        }
        assert_eq!(code(files.rooted("file").and_then(|it| list_entries(&it, 9))), "wrong_kind");
        assert_eq!(files.content("work/sub/deep"), "deep");
    }

    #[test]
    fn invalid_and_missing_paths_have_their_own_errors() {
        let files = FilesFixture::new();
        for path in ["", "  ", "a\0b"] {
            assert_eq!(code(files.read(path)), "bad_path", "{path:?}");
        }
        for path in [".", "..", "sub/..", "new/", "sub/new/."] {
            assert_eq!(code(files.write(path, "x")), "bad_path", "{path:?}");
        }
        assert_eq!(code(files.read("none")), "no_such_file");
        assert_eq!(code(files.write("none/new", "x")), "no_such_file");
        assert_eq!(code(files.read("file/below")), "system");
        assert_eq!(code(files.read("loop")), "system");
        assert_eq!(code(files.read(&"x".repeat(5000))), "system");
    }

    #[test]
    fn a_page_ends_at_its_limit() {
        let files = FilesFixture::new();
        let path = files.rooted("file").unwrap();
        for (from, most, expected, is_truncated) in [
            (0, 7, "content", false),
            (0, 6, "conten", true),
            (3, 2, "te", true),
            (99, 5, "", false),
        ] {
            let found = read_page(&path, from, most).unwrap();
            assert_eq!(found.bytes, expected.as_bytes());
            assert_eq!((found.is_truncated, found.size), (is_truncated, 7));
        }
    }

    #[test]
    fn a_write_creates_or_replaces_the_file_and_leaves_no_other() {
        let files = FilesFixture::new();
        assert_eq!(files.write("sub/new", "one").unwrap(), WriteOutcome::Created);
        let mode = fs::Permissions::from_mode(0o4751);
        fs::set_permissions(files.at("work/sub/new"), mode).unwrap();
        let before = fs::metadata(files.at("work/sub/new")).unwrap().ino();
        assert_eq!(files.write("sub/new", "two").unwrap(), WriteOutcome::Replaced);
        let after = fs::metadata(files.at("work/sub/new")).unwrap();
        assert_eq!(files.content("work/sub/new"), "two");
        // A new file with the old permissions, but without the set-user-id bit.
        assert_ne!(after.ino(), before);
        assert_eq!(after.permissions().mode() & 0o7777, 0o751);
        assert_eq!(files.names("sub"), ["deep", "new"]);
    }

    #[test]
    fn a_listing_follows_no_link_and_keeps_its_limit() {
        let files = FilesFixture::new();
        fs::remove_file(files.at("work/loop")).unwrap();
        let path = files.rooted(".").unwrap();
        let listing = list_entries(&path, 100).unwrap();
        assert!(!listing.is_truncated && listing.entries.is_sorted());
        let entry = |name: &str| listing.entries.iter().find(|entry| entry.name == name).unwrap();
        let file = DirectoryEntry { name: "file".to_owned(), kind: FileKind::File, size: 7 };
        assert_eq!(entry("file"), &file);
        assert_eq!((entry("sub").kind, entry("way").kind), (FileKind::Directory, FileKind::Link));
        let all = listing.entries.len();
        assert!(!list_entries(&path, all).unwrap().is_truncated);
        let cut = list_entries(&path, all - 1).unwrap();
        assert!(cut.is_truncated && cut.entries.len() == all - 1);
    }

    #[test]
    fn no_race_with_a_rename_leads_out() {
        let files = FilesFixture::new();
        fs::create_dir(files.at("work/turn")).unwrap();
        fs::write(files.at("work/turn/secret"), "harmless").unwrap();
        let turn = files.at("work/turn");
        let kept = files.at("work/kept");
        let over = AtomicBool::new(false);
        let deadline = Instant::now() + Duration::from_secs(240);
        let mut inside = 0;
        let mut refused = 0;
        let mut led_out = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    fs::rename(&turn, &kept).unwrap();
                    symlink("../outside", &turn).unwrap();
                    fs::remove_file(&turn).unwrap();
                    fs::rename(&kept, &turn).unwrap();
                }
            });
            while (inside < 200 || refused < 200) && Instant::now() < deadline {
                match files.read("turn/secret") {
                    Ok(found) if found.bytes == b"harmless" => inside += 1,
                    Ok(_) => led_out += 1,
                    Err(_) => refused += 1,
                }
                files.write("turn/written", "x").ok();
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(led_out, 0);
        assert!(
            inside >= 200 && refused >= 200,
            "too few races: {inside} inside, {refused} refused"
        );
        assert_eq!(fs::read_dir(files.at("outside")).unwrap().count(), 1);
    }

    /// Any path of components that exist, lead out, or do not exist.
    fn any_path() -> impl Strategy<Value = String> {
        let parts =
            ["..", ".", "", "sub", "file", "way", "inside", "absolute", "outside", "secret"];
        let paths = prop::collection::vec(prop::sample::select(parts.to_vec()), 1..7);
        paths.prop_map(|parts| parts.join("/"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn no_path_leads_out(paths in prop::collection::vec(any_path(), 20)) {
            let files = FilesFixture::new();
            for path in paths {
                if let Ok(found) = files.read(&path) {
                    prop_assert_ne!(found.bytes, b"secret", "{}", path);
                }
                files.write(&path, "changed").ok();
            }
            prop_assert_eq!(files.content("outside/secret"), "secret");
            prop_assert_eq!(fs::read_dir(files.at("outside")).unwrap().count(), 1);
            prop_assert_eq!(fs::read_dir(files.top.path()).unwrap().count(), 2);
        }
    }
}
