//! The file calls of the service.

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
use super::place::Place;
use crate::confinement::{GrantedConfinement, SandboxProfile};
use crate::outcome::StartError;
use crate::policy::{Policy, PolicyEvaluation, PolicyRequest, RequestedCommand};
use crate::process::OpenedDir;
use crate::service::admission::{Gate, Note, check_link, decide, opened, resolve, roots};

/// How long a file system may take to answer; a dead network drive never does.
const PATIENCE: Duration = Duration::from_secs(30);

impl TenantClient {
    /// At most `most` bytes of a file beneath the working directory, from `from` on.
    ///
    /// # Errors
    /// When a rule says no, or there is no such file beneath the working directory.
    pub async fn read_file(
        &self,
        path: &str,
        from: u64,
        most: usize,
    ) -> Result<FilePage, FileError> {
        let act = move |place: &Place| page(place, from, most);
        self.with_file(["read_file", path], |_, _, _| Ok(()), act).await
    }

    /// Gives a file beneath the working directory this content, in one step. Its directory must
    /// be there.
    ///
    /// # Errors
    /// When a rule says no, or no regular file can be at this path.
    pub async fn write_file(&self, path: &str, content: String) -> Result<WriteOutcome, FileError> {
        let act = move |place: &Place| replace(place, content.as_bytes());
        self.with_file([WRITE_FILE, path], Self::may_write, act).await
    }

    /// At most `most` things in a directory: the working directory, or one beneath it.
    ///
    /// # Errors
    /// When a rule says no, or there is no such directory beneath the working directory.
    pub async fn list_directory(
        &self,
        path: &str,
        most: usize,
    ) -> Result<DirectoryListing, FileError> {
        let act = move |place: &Place| list(place, most);
        self.with_file(["list_directory", path], |_, _, _| Ok(()), act).await
    }

    /// Refuses to write a file that a job of this caller may not write.
    fn may_write(&self, root: &Path, path: &str) -> Result<(), AdmissionError> {
        let tenant = self.caller.tenant;
        let profile = self.service.defaults().confining.confinement(tenant, DEFAULT_LANE).profile;
        let workspace = &self.service.places.workspace;
        let is_protected = || {
            let file = resolve(&root.join(path));
            let is_here = |place: &Path| self.service.places.protects(place, &file);
            is_here(root) || workspace.iter().any(|place| is_here(place))
        };
        let refused = match profile {
            SandboxProfile::None | SandboxProfile::Default => None,
            SandboxProfile::WorkspaceWrite => {
                let is_inside = workspace.iter().any(|place| root.starts_with(place));
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

    /// Passes the gate and acts, on a thread that may block.
    async fn with_file<T: Send + 'static>(
        &self,
        [tool, path]: [&str; 2],
        confined: fn(&Self, &Path, &str) -> Result<(), AdmissionError>,
        act: impl FnOnce(&Place) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let client = self.clone();
        let tool = tool.to_owned();
        let given = path.to_owned();
        let work = move || {
            let cwd = &client.service.defaults().cwd;
            let confined = |root: &Path| confined(&client, root, &given);
            let root = pass(&client.service.gate, [&tool, &given], cwd, &client.caller, confined)?;
            act(&Place::new(root, cwd, &given)?)
        };
        let path = path.to_owned();
        match timeout(PATIENCE, spawn_blocking(work)).await {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => Err(FileError::System { path, source: panic.into() }),
            Err(_) => Err(FileError::Slow { path, patience: PATIENCE }),
        }
    }
}

// Admission of a file call.

/// The tool that writes.
pub(super) const WRITE_FILE: &str = "write_file";

/// Lets a file call pass as the command `TOOL PATH`, or says why not; either way it is written
/// down first. An allow list speaks of commands, and none is run: what is denied, or must be asked
/// for, holds here, and what `confined` says of that directory. A file that a line beside an allow
/// list may not write is not written by this tool either. Gives the working directory that was
/// judged. For a thread of the runtime that may block.
pub(super) fn pass(
    gate: &Gate,
    [tool, path]: [&str; 2],
    cwd: &Path,
    caller: &CallerContext,
    confined: impl FnOnce(&Path) -> Result<(), AdmissionError>,
) -> Result<OpenedDir, AdmissionError> {
    let all_rules = gate.rules();
    let policy = Policy { allow: None, ..all_rules.policy.clone() };
    let rules = AdmissionRules { policy, ..(*all_rules).clone() };
    let decided = opened(&gate.host, &rules, cwd).and_then(|root| {
        confined(root.path())?;
        let request = PolicyRequest {
            command: RequestedCommand::Direct { program: tool, args: &[path.to_owned()] },
            environment: &[],
            cwd: &root.path().to_string_lossy(),
            writable: &roots(&rules),
            tenant: caller.tenant.name(),
            lane: DEFAULT_LANE,
            shell: None,
        };
        let reading = PolicyEvaluation::new(&rules.policy, &request);
        let passed = decide(&reading, rules.policy.uncertain, None)?;
        if tool == WRITE_FILE {
            let reading = PolicyEvaluation::new(&all_rules.policy, &request);
            check_link(&reading, &root.path().join(path))?;
        }
        Ok((root, passed))
    });
    let command = format!("{tool} {path}");
    let cwd = cwd.to_string_lossy();
    let note = Note {
        caller,
        job: None,
        command: &rules.redactor.mask_text(&command),
        cwd: &rules.redactor.mask_text(&cwd),
        // The server does it itself.
        confinement: GrantedConfinement::NOTHING,
    };
    let writing = gate.write_decision(&note, decided.as_ref().map(|(_, passed)| passed));
    let written = Handle::current().block_on(writing);
    let (root, _) = decided?;
    written.map(|()| root)
}

// A part of a file.

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePage {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether the file goes on behind them.
    pub is_cut: bool,
    /// The size of the file.
    pub size: u64,
}

/// At most `most` bytes from `from` on; none beyond the end.
pub(super) fn page(place: &Place, from: u64, most: usize) -> Result<FilePage, FileError> {
    let (file, stat) = place.file()?;
    let mut bytes = part(file, from, most).map_err(|error| place.io_error(error))?;
    let is_cut = bytes.len() > most;
    bytes.truncate(most);
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    Ok(FilePage { bytes, is_cut, size })
}

/// One byte more than wanted tells whether anything is cut.
fn part(mut file: impl Read + Seek, from: u64, most: usize) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

// A file, replaced as a whole or not at all.

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// There was none before.
    Created,
    /// It has new content, and its mode.
    Replaced,
}

/// Permissions that stay; whoever changes a program's text takes its set-user-id bit from it.
const KEPT_MODE: u32 = 0o777;

/// Writes a file of this content. Whoever reads it meanwhile sees the old content or the new one.
/// A link is never written through, and never replaced.
pub(super) fn replace(place: &Place, content: &[u8]) -> Result<WriteOutcome, FileError> {
    let (parent, name) = place.parent()?;
    let before = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(place.error(errno)),
        Ok(stat) => {
            place.expect(&stat, FileType::RegularFile)?;
            // The new file takes the name of the old one: nobody else would ask.
            accessat(&parent, name, Access::WRITE_OK, AtFlags::empty())
                .map_err(|errno| place.error(errno))?;
            Some(Mode::from_raw_mode(stat.st_mode & KEPT_MODE))
        }
    };
    let draft = Draft::create(&parent).map_err(|errno| place.error(errno))?;
    draft.fill(content, before).map_err(|error| place.io_error(error))?;
    draft.become_file(name).map_err(|errno| place.error(errno))?;
    Ok(if before.is_some() { WriteOutcome::Replaced } else { WriteOutcome::Created })
}

/// The new content under a name of its own; gone when it is dropped before it became the file.
struct Draft<'p> {
    parent: &'p OwnedFd,
    name: String,
    file: File,
}

impl<'p> Draft<'p> {
    fn create(parent: &'p OwnedFd) -> Result<Self, Errno> {
        // Nobody can be there already, by chance or on purpose.
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
        // Else a crash could leave an empty file in the place of a full one.
        file.sync_data()
    }

    fn become_file(self, name: &OsStr) -> Result<(), Errno> {
        renameat(self.parent, &self.name, self.parent, name)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // Once it became the file there is nothing of this name.
        unlinkat(self.parent, &self.name, AtFlags::empty()).ok();
    }
}

// What is in a directory.

/// What is in a directory, in the order of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryListing {
    /// What is in it.
    pub entries: Vec<DirectoryEntry>,
    /// Whether there is more in it.
    pub is_cut: bool,
}

/// One thing in a directory. Links are not followed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// Its name; what is no UTF-8 reads as `�`.
    pub name: String,
    /// What it is.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
}

/// What something in a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device.
    Special,
}

impl FileKind {
    /// The stable word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Link => "symlink",
            Self::Special => "special",
        }
    }

    /// The same in a sentence.
    pub(super) const fn phrase(self) -> &'static str {
        match self {
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Special => "a FIFO, a socket or a device",
        }
    }

    pub(super) const fn of(kind: FileType) -> Self {
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

/// At most `most` things; of a larger directory, any.
pub(super) fn list(place: &Place, most: usize) -> Result<DirectoryListing, FileError> {
    let directory = place.directory()?;
    entries(&directory, most).map_err(|errno| place.error(errno))
}

fn entries(directory: impl AsFd, most: usize) -> Result<DirectoryListing, Errno> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entries.len() == most {
            entries.sort();
            return Ok(DirectoryListing { entries, is_cut: true });
        }
        match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => entries.push(DirectoryEntry {
                name: name.to_string_lossy().into_owned(),
                kind: FileKind::of(FileType::from_raw_mode(stat.st_mode)),
                size: u64::try_from(stat.st_size).unwrap_or_default(),
            }),
            // Removed since it was named.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    entries.sort();
    Ok(DirectoryListing { entries, is_cut: false })
}

// Why a file was not read, written or listed.

/// Why a file was not read, written or listed. Nothing was changed.
#[derive(Debug, Error)]
pub enum FileError {
    /// A rule says no.
    #[error("denied by security policy: {0}")]
    Rules(AdmissionError),
    /// The working directory itself cannot be used.
    #[error("the working directory cannot be used: {0}")]
    Root(StartError),
    /// Something that is no path.
    #[error("`{path}` is no path of a file; give one such as \"src/main.rs\"")]
    BadPath {
        /// As it was given.
        path: String,
    },
    /// It is outside, by itself, by `..` or by a link.
    #[error("`{path}` leads out of the working directory `{}`; give a path below it", .root.display())]
    Outside {
        /// As it was given.
        path: String,
        /// The working directory.
        root: PathBuf,
    },
    /// There is nothing.
    #[error("there is no `{path}`; list_directory shows what there is")]
    Missing {
        /// As it was given.
        path: String,
    },
    /// It is not of the kind that the call is for.
    #[error("`{path}` is {found}, not {wanted}")]
    WrongKind {
        /// As it was given.
        path: String,
        /// What it is.
        found: &'static str,
        /// What it would have to be.
        wanted: &'static str,
    },
    /// The system's permissions say no.
    #[error("permission denied for `{path}`; the server's user may not do that")]
    Permission {
        /// As it was given.
        path: String,
    },
    /// The system does not answer.
    #[error("`{path}` did not answer within {}s; try again, or another file", .patience.as_secs())]
    Slow {
        /// As it was given.
        path: String,
        /// How long it was waited for.
        patience: Duration,
    },
    /// Anything else that the system said.
    #[error("`{path}` cannot be used: {source}")]
    System {
        /// As it was given.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

impl FileError {
    /// The stable word that clients may match on.
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
