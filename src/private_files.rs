//! Files that other users must not read, replace or block, and the addresses of sockets.
//!
//! The data directory holds tokens, the audit log and the socket. A user who may create files in it
//! could replace one of them with a symlink, so that the server reads or writes another file with
//! its own rights, and could read its content. So the directory must be closed to others, and the
//! files in it are opened without following symlinks.
//!
//! Small text files (settings, tokens, certificates, keys) may be elsewhere, where others can replace them.
//! Someone can put a FIFO, a device or a socket in the place of such a file, or its file system can
//! hang. The reader must not wait for that. So the file must be regular, is opened without
//! blocking, is limited in size, and is read by a separate thread with a deadline.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::fs::{OFlags, makedev};
use rustix::io::Errno;
use rustix::process::{Uid, geteuid};
use thiserror::Error;

/// The permission bits of everyone but the owner.
const OTHERS: u32 = 0o077;

/// The treatment of a symlink where a file is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symlinks {
    /// Use the file that it points to: for files that an operator names.
    Follow,
    /// Fail: for files in the data directory.
    Refuse,
}

impl Symlinks {
    /// Returns options that open a file this way; the caller adds the access mode. A FIFO in its
    /// place does not block the open.
    #[must_use]
    pub fn options(self) -> OpenOptions {
        let flags = match self {
            Self::Follow => OFlags::NONBLOCK | OFlags::NOCTTY,
            Self::Refuse => OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW,
        };
        let mut options = OpenOptions::new();
        options.custom_flags(flags.bits().cast_signed());
        options
    }

    /// Returns the metadata of a file.
    ///
    /// # Errors
    /// When the file does not exist, or is a symlink that must not be followed.
    pub fn metadata(self, path: &Path) -> io::Result<Metadata> {
        match self {
            Self::Follow => fs::metadata(path),
            Self::Refuse => {
                let found = fs::symlink_metadata(path)?;
                if found.is_symlink() { Err(refused_link_error()) } else { Ok(found) }
            }
        }
    }
}

/// Replaces the error of a symlink that was not followed by a clear one: the system reports too
/// many levels.
pub fn explain_symlink_error(error: io::Error) -> io::Error {
    if Errno::from_io_error(&error) == Some(Errno::LOOP) { refused_link_error() } else { error }
}

fn refused_link_error() -> io::Error {
    let text = "it is a symbolic link, and links are not followed there; put the file itself there";
    io::Error::new(ErrorKind::InvalidInput, text)
}

/// The reason why a directory is not private. Each text contains the next command.
#[derive(Debug, Error)]
pub enum PrivateDirError {
    #[error("the data directory `{}` cannot be used; give another one with --data-dir DIR", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error(
        "the data directory `{}` belongs to user {owner}, and this runs as user {user}; give it over with `chown {user} {}`, or use another one with --data-dir DIR",
        .path.display(), .path.display()
    )]
    OtherOwner { path: PathBuf, owner: u32, user: u32 },
    #[error(
        "the data directory `{}` is open to other users (mode {mode:04o}); close it with `chmod 700 {}`, or use another one with --data-dir DIR",
        .path.display(), .path.display()
    )]
    OpenToOthers { path: PathBuf, mode: u32 },
    #[error(
        "the data directory `{}` is a symbolic link that belongs to user {owner}; remove it with `rm {}`, or use another one with --data-dir DIR",
        .path.display(), .path.display()
    )]
    ForeignLink { path: PathBuf, owner: u32 },
}

impl PrivateDirError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unusable { .. } => "spill_dir_unusable",
            Self::OtherOwner { .. } => "data_dir_of_other_user",
            Self::OpenToOthers { .. } => "data_dir_open_to_others",
            Self::ForeignLink { .. } => "data_dir_is_foreign_link",
        }
    }
}

/// Creates a directory for its owner alone (mode 0700), or checks that an existing one is private.
///
/// A symlink is followed if this user or root created it; then the directory behind it counts.
///
/// # Errors
/// When it belongs to another user, others have rights in it, or it cannot be used at all.
pub fn ensure_private_dir(path: &Path) -> Result<(), PrivateDirError> {
    check_owner(path, geteuid())
}

fn check_owner(path: &Path, user: Uid) -> Result<(), PrivateDirError> {
    let unusable = |source| PrivateDirError::Unusable { path: path.into(), source };
    let user = user.as_raw();
    // For a symlink this creates the directory behind it.
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
    let itself = fs::symlink_metadata(path).map_err(unusable)?;
    let owner = itself.uid();
    if itself.is_symlink() && owner != user && owner != Uid::ROOT.as_raw() {
        return Err(PrivateDirError::ForeignLink { path: path.into(), owner });
    }
    let directory = fs::metadata(path).map_err(unusable)?;
    let owner = directory.uid();
    let mode = directory.mode() & 0o7777;
    if owner != user {
        return Err(PrivateDirError::OtherOwner { path: path.into(), owner, user });
    }
    if mode & OTHERS != 0 {
        return Err(PrivateDirError::OpenToOthers { path: path.into(), mode });
    }
    Ok(())
}

/// The size limit of a file.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The time limit for a file system: a local one takes less than a millisecond.
pub const FILE_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for the disk of the spill files, after which a server starts without it.
pub const SPILL_CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The numbers of `/dev/null`, which reads as an empty file and never blocks.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// The reason why a file was not read.
#[derive(Debug, Error)]
pub enum BoundedReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is not regular: reading it could block or is meaningless.
    #[error("it is {kind}, and only a regular file is read there; write the content to a file")]
    NotRegular {
        /// The kind of file, with its article.
        kind: &'static str,
    },
    #[error("it is larger than {MAX_BYTES} bytes")]
    TooLarge,
}

impl BoundedReadError {
    /// `true` if there is no such file.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == ErrorKind::NotFound)
    }

    /// `true` if another process holds a lease on the file. Leases end by themselves, so a later
    /// attempt may work.
    #[must_use]
    pub fn is_leased(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Creates the error of a file system that has not answered in time.
    #[must_use]
    pub fn new_timeout() -> Self {
        no_answer_error().into()
    }

    /// `true` if the file would have blocked a reader that waits for it.
    #[must_use]
    pub fn would_block(&self) -> bool {
        match self {
            Self::NotRegular { .. } => true,
            Self::Io(error) => {
                matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
            }
            Self::TooLarge => false,
        }
    }
}

/// Reads a whole text file. Blocks for at most ten seconds.
///
/// # Errors
/// When the file cannot be read, is not regular, is too large, or is not read in time.
pub fn read_text(path: &Path, links: Symlinks) -> Result<String, BoundedReadError> {
    let path = path.to_owned();
    run_with_timeout(FILE_READ_TIMEOUT, move || read_blocking(&path, links))
        .unwrap_or_else(|no_result| Err(no_result.into()))
}

/// Runs work on files on a separate thread and waits at most `time` for its result. A thread that
/// hangs ends when its file system answers.
///
/// # Errors
/// `TimedOut` if the file system does not answer.
pub fn run_with_timeout<T: Send + 'static>(
    time: Duration,
    work: impl FnOnce() -> T + Clone + Send + 'static,
) -> io::Result<T> {
    let (sender, result) = mpsc::sync_channel(1);
    let apart = work.clone();
    // The receiver may be gone: then nobody needs the result any more.
    let run = move || drop(sender.send(apart()));
    if thread::Builder::new().name("read-file".to_owned()).spawn(run).is_err() {
        // Without another thread the work runs here: it can be slow, but it opens no FIFO.
        return Ok(work());
    }
    result.recv_timeout(time).map_err(|error| match error {
        RecvTimeoutError::Timeout => no_answer_error(),
        RecvTimeoutError::Disconnected => io::Error::other("the thread that reads it has failed"),
    })
}

fn no_answer_error() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "its file system does not answer; check that mount")
}

/// Reads a whole text file. Blocks as long as its file system does.
///
/// # Errors
/// When the file cannot be read, is not regular, or is too large.
pub fn read_blocking(path: &Path, links: Symlinks) -> Result<String, BoundedReadError> {
    // Checked before the file is opened: opening a device can have an effect.
    check_kind(&links.metadata(path)?)?;
    let file = links.options().read(true).open(path).map_err(explain_symlink_error)?;
    // Checked again: another file may have replaced it.
    check_kind(&file.metadata()?)?;
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES { Err(BoundedReadError::TooLarge) } else { Ok(text) }
}

fn check_kind(found: &Metadata) -> Result<(), BoundedReadError> {
    let device = found.rdev();
    let found = found.file_type();
    if found.is_char_device() && device == makedev(NULL_DEVICE.0, NULL_DEVICE.1) {
        return Ok(());
    }
    let kinds = [
        (found.is_fifo(), "a FIFO or pipe"),
        (found.is_socket(), "a socket"),
        (found.is_char_device(), "a character device"),
        (found.is_block_device(), "a block device"),
        (found.is_dir(), "a directory"),
    ];
    match kinds.into_iter().find(|(is_it, _)| *is_it) {
        Some((_, kind)) => Err(BoundedReadError::NotRegular { kind }),
        None => Ok(()),
    }
}

/// The longest socket path that the kernel accepts, without its terminating zero byte.
pub const MAX_PATH_BYTES: usize = 107;

/// A path by which the kernel finds a socket: its own one or, if that is too long, one through the open
/// directory of the socket. It is valid in this process, while the value exists.
#[derive(Debug)]
pub struct SocketAddress {
    path: PathBuf,
    /// Held open, because the path leads through it.
    _directory: Option<File>,
}

impl SocketAddress {
    /// Returns the address of the socket at a path, whose directory must exist.
    ///
    /// # Errors
    /// `InvalidInput` if the name of the file alone is too long; else the system's error.
    pub fn new(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() <= MAX_PATH_BYTES {
            return Ok(Self { path: path.to_owned(), _directory: None });
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        // The parent of a bare name is empty.
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(parent)?;
        let mut short = OsString::from(format!("/proc/self/fd/{}/", directory.as_raw_fd()));
        short.push(name);
        if short.len() > MAX_PATH_BYTES {
            return Err(ErrorKind::InvalidInput.into());
        }
        Ok(Self { path: short.into(), _directory: Some(directory) })
    }

    /// The path to bind or to connect to.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// `true` if a socket that was bound to an address of this or an earlier process may be the one at a
/// path: an address through a directory has only the name of the file in common with the path.
#[must_use]
pub fn is_bound_to(bound: &Path, path: &Path) -> bool {
    let is_long = path.as_os_str().len() > MAX_PATH_BYTES;
    bound == path
        || (is_long && bound.starts_with("/proc/self/fd") && bound.file_name() == path.file_name())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::{Arc, Mutex};

    use rustix::fs::{CWD, Mode};

    use super::*;

    #[test]
    fn a_new_directory_is_private_and_an_open_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/deep");
        ensure_private_dir(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        ensure_private_dir(&path).unwrap();
        for mode in [0o755, 0o770, 0o701] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let refused = ensure_private_dir(&path).unwrap_err();
            assert_eq!(refused.code(), "data_dir_open_to_others");
            let message = refused.to_string();
            assert!(
                message.contains("chmod 700") && message.contains(&format!("{mode:04o}")),
                "{message}"
            );
        }
    }

    #[test]
    fn a_directory_or_symlink_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let other = Uid::from_raw(geteuid().as_raw() + 1);
        let path = folder.path().join("data");
        ensure_private_dir(&path).unwrap();
        let refused = check_owner(&path, other).unwrap_err();
        assert_eq!(refused.code(), "data_dir_of_other_user");
        assert!(refused.to_string().contains("chown"), "{refused}");
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        ensure_private_dir(&link).unwrap();
        if !geteuid().is_root() {
            assert_eq!(check_owner(&link, other).unwrap_err().code(), "data_dir_is_foreign_link");
        }
    }

    #[test]
    fn a_symlink_is_followed_only_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let link = folder.path().join("link");
        fs::write(&file, "text").unwrap();
        symlink(&file, &link).unwrap();
        assert!(
            Symlinks::Follow.metadata(&link).is_ok() && Symlinks::Refuse.metadata(&file).is_ok()
        );
        let refused = Symlinks::Refuse.metadata(&link).unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        assert!(Symlinks::Refuse.options().append(true).create(true).open(&link).is_err());
    }

    #[test]
    fn a_file_that_could_block_is_refused_with_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        rustix::fs::mkfifoat(CWD, at("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        symlink(at("fifo"), at("link")).unwrap();
        for (path, kind) in [
            (at("fifo"), "FIFO"),
            (at("socket"), "socket"),
            (at("directory"), "directory"),
            (at("link"), "FIFO"),
            ("/dev/zero".into(), "character device"),
        ] {
            let refused = read_text(&path, Symlinks::Follow).unwrap_err();
            assert!(refused.to_string().contains(kind) && refused.would_block(), "{refused}");
        }
    }

    #[test]
    fn a_regular_file_is_read_also_through_a_symlink_that_may_be_followed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let link = folder.path().join("link");
        fs::write(&file, "text").unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(read_text(&file, Symlinks::Refuse).unwrap(), "text");
        assert_eq!(read_text(&link, Symlinks::Follow).unwrap(), "text");
        assert_eq!(read_text(Path::new("/dev/null"), Symlinks::Follow).unwrap(), "");
        let refused = read_text(&link, Symlinks::Refuse).unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        assert!(!refused.would_block() && !refused.is_missing());
        assert!(read_text(&folder.path().join("none"), Symlinks::Follow).unwrap_err().is_missing());
    }

    #[test]
    fn work_that_hangs_times_out() {
        let (answer, answered) = mpsc::channel::<()>();
        let answered = Arc::new(Mutex::new(answered));
        let hang = move || answered.lock().unwrap().recv().is_ok();
        let error = run_with_timeout(Duration::from_millis(20), hang).unwrap_err();
        assert!(BoundedReadError::from(error).would_block());
        drop(answer);
        assert_eq!(run_with_timeout(FILE_READ_TIMEOUT, || 7).unwrap(), 7);
    }

    #[test]
    fn a_huge_file_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        File::options().write(true).open(file.path()).unwrap().set_len(MAX_BYTES + 1).unwrap();
        let refused = read_text(file.path(), Symlinks::Follow).unwrap_err();
        assert!(matches!(refused, BoundedReadError::TooLarge), "{refused}");
    }

    #[test]
    fn a_socket_with_a_long_path_is_bound_and_found() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(90)).join("e".repeat(90));
        std::fs::create_dir_all(&deep).unwrap();
        let path = deep.join("yard.sock");
        let listener = {
            let address = SocketAddress::new(&path).unwrap();
            UnixListener::bind(address.path()).unwrap()
        };
        assert!(path.exists());
        let address = SocketAddress::new(&path).unwrap();
        UnixStream::connect(address.path()).unwrap();
        let bound = listener.local_addr().unwrap();
        assert!(is_bound_to(bound.as_pathname().unwrap(), &path));
        assert!(!is_bound_to(bound.as_pathname().unwrap(), &deep.join("other.sock")));
        assert!(!is_bound_to(bound.as_pathname().unwrap(), Path::new("/run/yard.sock")));
    }

    #[test]
    fn a_short_path_is_its_own_address_and_a_long_name_has_none() {
        let short = SocketAddress::new(Path::new("/no/such/yard.sock")).unwrap();
        assert_eq!(short.path(), Path::new("/no/such/yard.sock"));
        let name = PathBuf::from("x".repeat(200));
        for long in [Path::new("/tmp").join(&name), name] {
            assert_eq!(SocketAddress::new(&long).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }
}
