//! A file in a place that must stay empty while jobs run: what exists can be mounted over, and what
//! is mounted over cannot be replaced.
//!
//! It is a socket that nobody listens on. Git leaves sockets out of what it lists, adds and cleans;
//! whoever opens one gets an error. Where a file system has no sockets it is a directory.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, linkat, lstat, mkdir, mknodat, open, rmdir, stat,
    unlink,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// A sticky file that nobody may write: nothing else makes such.
const SOCKET: Mode = Mode::SVTX;
const READABLE: Mode = Mode::RUSR.union(Mode::SVTX);
const DIRECTORY: Mode = Mode::RUSR.union(Mode::XUSR).union(Mode::SVTX);

/// The file with which a repository says that its settings are in another one. Git reads it wherever
/// it is, so that it must have a content: the repository itself.
const COMMON_DIRECTORY: &str = "commondir";
const ITSELF: &[u8] = b".\n";

/// Puts a placeholder in this place.
///
/// # Errors
/// `EXIST` where something is there, or what the file system says.
pub(super) fn make(path: &Path) -> Result<(), Errno> {
    if path.file_name() == Some(OsStr::new(COMMON_DIRECTORY)) {
        return make_common_directory(path);
    }
    match mknodat(CWD, path, FileType::Socket, SOCKET, 0) {
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => mkdir(path, DIRECTORY),
        made => made,
    }
}

/// Complete at once, so that git never reads half of it.
fn make_common_directory(path: &Path) -> Result<(), Errno> {
    let around = path.parent().ok_or(Errno::INVAL)?;
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut file = fs::File::from(open(around, flags, READABLE)?);
    file.write_all(ITSELF).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, unnamed.as_str(), CWD, path, AtFlags::SYMLINK_FOLLOW)
}

/// Removes the placeholder that is in this place. What is none stays.
pub(super) fn remove(path: &Path) {
    let Ok(found) = lstat(path) else { return };
    if is_placeholder(path, &found) {
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        // A directory is not empty where somebody else has put something there: then it is theirs.
        let removed = if is_directory { rmdir(path) } else { unlink(path) };
        removed.ok();
    }
}

/// `true` if what was found in this place is a placeholder.
pub(super) fn is_placeholder(path: &Path, found: &Stat) -> bool {
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
/// make that writable first.
pub(super) fn is_out_of_reach(path: &Path, errno: Errno) -> bool {
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
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_placeholder_is_known_and_goes() {
        let root = tempfile::tempdir().unwrap();
        for name in [".envrc", COMMON_DIRECTORY] {
            let path = root.path().join(name);
            make(&path).unwrap();
            assert!(is_placeholder(&path, &lstat(&path).unwrap()), "{name}");
            assert_eq!(make(&path), Err(Errno::EXIST), "{name}");
            remove(&path);
            assert!(path.symlink_metadata().is_err(), "{name}");
        }
        let path = root.path().join("directory");
        mkdir(&path, DIRECTORY).unwrap();
        remove(&path);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_the_users_own_stays() {
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
            remove(path);
            assert!(path.symlink_metadata().is_ok(), "{path:?}");
        }
        fs::set_permissions(&used, fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn only_where_nobody_can_write_none_is_needed() {
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
