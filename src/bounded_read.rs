//! Reads small text files that others can replace: settings, tokens, certificates, keys.
//!
//! Someone can put a FIFO, a device or a socket in the place of such a file, or its file system can
//! hang. The reader must not wait for that. So the file must be regular, is opened without
//! blocking, is limited in size, and is read by a separate thread with a deadline.

use std::fs::Metadata;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::fs::makedev;
use thiserror::Error;

use crate::private_files::{Symlinks, explain_symlink_error};

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

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::sync::{Arc, Mutex};

    use rustix::fs::{CWD, Mode};

    use super::*;

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
}
