//! The file calls of the service: reading, writing and listing.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    Access, AtFlags, Dir, FileType, Mode, OFlags, accessat, fchmod, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::super::{AdmissionError, AdmissionRules, CallerContext, DEFAULT_LANE, TenantClient};
use super::rooted_path::RootedPath;
use crate::confinement::{GrantedConfinement, SandboxProfile};
use crate::outcome::StartError;
use crate::policy::{Policy, PolicyEvaluation, PolicyRequest, RequestedCommand};
use crate::process::OpenedDir;
use crate::service::admission::{
    AdmissionControl, AuditedRequest, check_link, decide, list_allowed_roots, open_allowed_dir,
    resolve_links,
};

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
        self.with_file("read_file", path, |_, _, _| Ok(()), act).await
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
        let workspace = &self.service.places.workspace;
        let is_protected = || {
            let file = resolve_links(&root.join(path));
            let protects = |dir: &Path| self.service.places.protects(dir, &file);
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
            let cwd = &client.service.defaults().cwd;
            let check = |root: &Path| check(&client, root, &given);
            let call = FileCall { tool: &tool, path: &given };
            let root = admit_call(&client.service.admission, call, cwd, &client.caller, check)?;
            act(&RootedPath::new(root, cwd, &given)?)
        };
        let path = path.to_owned();
        match timeout(FILE_CALL_TIME, spawn_blocking(work)).await {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => Err(FileError::System { path, source: panic.into() }),
            Err(_) => Err(FileError::Slow { path, patience: FILE_CALL_TIME }),
        }
    }
}

/// The name of the tool that writes.
const WRITE_FILE: &str = "write_file";

/// A file call as the policy sees it: the command `TOOL PATH`.
#[derive(Clone, Copy)]
struct FileCall<'a> {
    tool: &'a str,
    path: &'a str,
}

/// Admits a file call or refuses it; either way the decision is written to the audit log first.
///
/// Deny and ask rules apply, and so does `check`. The allow list does not: it is about commands, and no
/// command is run. But a file that commands may not write under the allow list is not written by this
/// tool either. Returns the working directory that was checked, opened. Call it on a thread of the
/// runtime that may block.
fn admit_call(
    admission: &AdmissionControl,
    FileCall { tool, path }: FileCall<'_>,
    cwd: &Path,
    caller: &CallerContext,
    check: impl FnOnce(&Path) -> Result<(), AdmissionError>,
) -> Result<OpenedDir, AdmissionError> {
    let all_rules = admission.rules();
    let policy = Policy { allow: None, ..all_rules.policy.clone() };
    let rules = AdmissionRules { policy, ..(*all_rules).clone() };
    let decided = open_allowed_dir(&admission.host, &rules, cwd).and_then(|root| {
        check(root.path())?;
        let request = PolicyRequest {
            command: RequestedCommand::Direct { program: tool, args: &[path.to_owned()] },
            environment: &[],
            cwd: &root.path().to_string_lossy(),
            writable: &list_allowed_roots(&rules),
            tenant: caller.tenant.name(),
            lane: DEFAULT_LANE,
            shell: None,
        };
        let reading = PolicyEvaluation::new(&rules.policy, &request);
        let grant = decide(&reading, rules.policy.uncertain, None)?;
        if tool == WRITE_FILE {
            let reading = PolicyEvaluation::new(&all_rules.policy, &request);
            check_link(&reading, &root.path().join(path))?;
        }
        Ok((root, grant))
    });
    let command = format!("{tool} {path}");
    let cwd = cwd.to_string_lossy();
    let audited = AuditedRequest {
        caller,
        job: None,
        command: &rules.redactor.mask_text(&command),
        cwd: &rules.redactor.mask_text(&cwd),
        // The server itself reads or writes the file.
        confinement: GrantedConfinement::NOTHING,
    };
    let writing = admission.write_decision(&audited, decided.as_ref().map(|(_, grant)| grant));
    let written = Handle::current().block_on(writing);
    let (root, _) = decided?;
    written.map(|()| root)
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
pub(super) fn read_page(
    path: &RootedPath,
    from: u64,
    max_bytes: usize,
) -> Result<FilePage, FileError> {
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
pub(super) fn replace_file(path: &RootedPath, content: &[u8]) -> Result<WriteOutcome, FileError> {
    let (parent, name) = path.open_parent()?;
    let before = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(path.convert_errno(errno)),
        Ok(stat) => {
            path.check_kind(&stat, FileType::RegularFile)?;
            // A rename does not check whether the old file is writable.
            accessat(&parent, name, Access::WRITE_OK, AtFlags::empty())
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
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Special => "a FIFO, a socket or a device",
        }
    }

    pub(super) const fn from_file_type(kind: FileType) -> Self {
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
pub(super) fn list_entries(
    path: &RootedPath,
    max_entries: usize,
) -> Result<DirectoryListing, FileError> {
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
    #[error("permission denied for `{path}`; the server's user may not do that")]
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
            | AdmissionError::OutsideRoot { .. }
            | AdmissionError::Confined { .. }
            | AdmissionError::NoAudit { .. } => Self::Rules(refused),
        }
    }
}
