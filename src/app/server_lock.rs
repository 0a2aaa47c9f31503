//! The lock on a data directory.
//!
//! Only one `serve` at a time uses a data directory: two would use the same job numbers. It holds a lock
//! on `server.pid`, which also describes it to the next server. The keeper holds a copy of the lock, so
//! that no other server takes the directory between two servers of that keeper; it ends with both
//! processes, however they end. A server of one client (`stdio`) or of one command (`run`) stores no job
//! numbers: it needs no lock, and has a spill directory of its own (`crates/output/src/spill.rs`).

use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::process::parent_id;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::error::AppError;
use crate::private_files::{Symlinks, explain_symlink_error, read_text};
use crate::process::KeeperClient;
use crate::telemetry::events;

/// The file that describes the server of a data directory, and that is locked.
const PID_FILE: &str = "server.pid";

/// The name under which the keeper holds the locked file.
const HELD_LOCK: &str = "lock";

/// The longest wait for the lock: a shim that a killed keeper was forking keeps it until it closes the
/// files of the keeper.
const LOCK_TIME: Duration = Duration::from_secs(2);

/// The time between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The lock of a `serve` process. Dropping it leaves the lock to the keeper, if there is one.
#[derive(Debug)]
pub(super) struct ServerLock {
    /// `None` if there is no file to lock; a log line has said so.
    file: Option<File>,
    /// The process id of the keeper, which holds the lock as well.
    keeper: Option<u32>,
}

impl ServerLock {
    /// Locks the data directory for this server, or takes over the lock of the previous server of the
    /// same keeper.
    ///
    /// # Errors
    /// If another server holds the lock, or the lock file is not a regular file.
    pub(super) fn take(data_dir: &Path, keeper: Option<&KeeperClient>) -> Result<Self, AppError> {
        let held = keeper.and_then(|keeper| keeper.take_file(HELD_LOCK)).map(File::from);
        let mut lock = Self::lock(data_dir, held)?;
        lock.keeper = keeper.map(|_| parent_id());
        if let Some(keeper) = keeper {
            let kept = match &lock.file {
                Some(file) => keeper.hold_file(HELD_LOCK, file.as_fd()),
                None => keeper.drop_file(HELD_LOCK),
            };
            kept.map_err(AppError::Keeper)?;
        }
        lock.write(&[]);
        Ok(lock)
    }

    /// Locks the data directory, with the file that is held if that is the one there.
    fn lock(data_dir: &Path, held: Option<File>) -> Result<Self, AppError> {
        let path = data_dir.join(PID_FILE);
        let file = match open_lock_file(&path) {
            Ok(file) => held.filter(|held| is_same_file(held, &file)).unwrap_or(file),
            // Job numbers cannot be stored there either, so two servers would share nothing.
            Err(error) if is_unwritable(&error) => {
                events::data_dir_not_locked(&path, &error);
                return Ok(Self { file: None, keeper: None });
            }
            Err(error) => return Err(AppError::ServerLock { path, source: error }),
        };
        match lock_in_time(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = read_text(&path, Symlinks::Refuse).unwrap_or_default();
                return Err(AppError::DataDirInUse {
                    path: data_dir.to_owned(),
                    holder: describe_holder(&holder),
                });
            }
            Err(TryLockError::Error(error)) => {
                events::data_dir_not_locked(&path, &error);
                return Ok(Self { file: None, keeper: None });
            }
        }
        Ok(Self { file: Some(file), keeper: None })
    }

    /// Lets another server take the data directory, although the keeper still has the file open. A
    /// server that failed leaves the lock to the keeper, which may start the next one.
    pub(super) fn end(self, result: &Result<(), AppError>) {
        if let (Some(file), Ok(())) = (self.file, result) {
            // A lock that cannot be released ends with the processes that hold it.
            file.unlock().ok();
        }
    }

    /// Writes the addresses of this server into the lock file, for the error text of the next server.
    pub(super) fn write_listeners(&self, socket: Option<&Path>, address: Option<SocketAddr>) {
        let socket = socket.map(|path| format!("socket {}", path.display()));
        let address = address.map(|address| format!("address {address}"));
        let lines: Vec<String> = socket.into_iter().chain(address).collect();
        self.write(&lines);
    }

    /// Writes the process id as the first line, as pid files do, and then these lines.
    fn write(&self, lines: &[String]) {
        let Some(mut file) = self.file.as_ref() else { return };
        let mut text = format!("{}\n", std::process::id());
        let keeper = self.keeper.map(|pid| format!("keeper {pid}"));
        for line in keeper.iter().chain(lines) {
            text.push_str(line);
            text.push('\n');
        }
        // If this fails, the lock still holds; only the error text of the next server says less.
        file.set_len(0).and_then(|()| file.write_all(text.as_bytes())).ok();
    }
}

fn open_lock_file(path: &Path) -> io::Result<File> {
    let mut options = Symlinks::Refuse.options();
    let file = match options.read(true).append(true).create(true).mode(0o600).open(path) {
        // A file that can only be read can be locked all the same.
        Err(error) if is_unwritable(&error) => {
            Symlinks::Refuse.options().read(true).open(path).map_err(|_| error)
        }
        opened => opened,
    };
    let file = file.map_err(explain_symlink_error)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file; remove it"))
}

fn is_same_file(one: &File, other: &File) -> bool {
    let id = |file: &File| file.metadata().map(|file| (file.dev(), file.ino()));
    id(one).is_ok_and(|one| id(other).is_ok_and(|other| one == other))
}

/// Locks the file, and waits a little for a server that is just ending.
fn lock_in_time(file: &File) -> Result<(), TryLockError> {
    let deadline = Instant::now() + LOCK_TIME;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOCK_PAUSE),
            result => return result,
        }
    }
}

/// `true` if the directory cannot be written or does not exist.
fn is_unwritable(error: &io::Error) -> bool {
    use io::ErrorKind::{
        NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull,
    };
    let kinds = [NotFound, NotADirectory, PermissionDenied, ReadOnlyFilesystem, StorageFull];
    kinds.contains(&error.kind())
}

/// Describes the server that the text of a lock file names.
fn describe_holder(text: &str) -> String {
    let mut lines = text.lines();
    let pid = lines.next().filter(|pid| !pid.is_empty());
    let Some(pid) = pid else { return "another server".to_owned() };
    let listens: Vec<&str> = lines.collect();
    let listens =
        if listens.is_empty() { String::new() } else { format!(", {}", listens.join(", ")) };
    format!("another server (process {pid}{listens})")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_second_server_is_refused_and_its_error_describes_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = ServerLock::take(folder.path(), None).unwrap();
        first.write_listeners(Some(Path::new("/run/a.sock")), "127.0.0.1:7".parse().ok());
        let refused = ServerLock::take(folder.path(), None).unwrap_err().to_string();
        for word in [&std::process::id().to_string(), "/run/a.sock", "127.0.0.1:7", "--data-dir"] {
            assert!(refused.contains(word), "{word}: {refused}");
        }
        drop(first);
        let text = fs::read_to_string(folder.path().join(PID_FILE)).unwrap();
        assert!(text.contains("/run/a.sock"), "the text of an ended server stays: {text}");
        ServerLock::take(folder.path(), None).unwrap();
    }

    #[test]
    fn a_held_lock_is_taken_over_if_its_file_is_the_one_in_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let first = ServerLock::take(folder.path(), None).unwrap();
        let copy_of =
            |file: &Option<File>| file.as_ref().map(|file: &File| file.try_clone().unwrap());
        let [held, kept] = [copy_of(&first.file), copy_of(&first.file)];
        drop(first);
        assert!(ServerLock::take(folder.path(), None).is_err(), "the copies hold it");
        let second = ServerLock::lock(folder.path(), held).unwrap();
        second.end(&Err(AppError::KeeperDied));
        assert!(ServerLock::take(folder.path(), None).is_err(), "another copy holds it");
        let second = ServerLock::lock(folder.path(), copy_of(&kept)).unwrap();
        second.end(&Ok(()));
        drop(ServerLock::lock(folder.path(), None).unwrap());
        // A file that was removed locks nobody out.
        kept.as_ref().unwrap().lock().unwrap();
        fs::remove_file(folder.path().join(PID_FILE)).unwrap();
        let third = ServerLock::lock(folder.path(), kept).unwrap();
        assert!(ServerLock::take(folder.path(), None).is_err());
        drop(third);
    }

    #[test]
    fn only_a_regular_file_can_be_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(PID_FILE);
        let refused = || ServerLock::take(folder.path(), None).unwrap_err();
        symlink("/dev/null", &path).unwrap();
        assert!(matches!(refused(), AppError::ServerLock { .. }));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(refused(), AppError::ServerLock { .. }));
        // Two servers share nothing in a directory that does not exist.
        assert!(ServerLock::take(&folder.path().join("none"), None).unwrap().file.is_none());
    }

    #[test]
    fn a_server_is_described_by_what_it_wrote() {
        for (text, words) in [
            ("", "another server"),
            ("12\n", "another server (process 12)"),
            (
                "12\nsocket /s\naddress 127.0.0.1:7\n",
                "another server (process 12, socket /s, address 127.0.0.1:7)",
            ),
        ] {
            assert_eq!(describe_holder(text), words);
        }
    }
}
