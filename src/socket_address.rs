//! Addresses of unix sockets whose paths are longer than the kernel takes.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

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
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // The parent of a bare name is empty.
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(parent)?;
        let mut short = OsString::from(format!("/proc/self/fd/{}/", directory.as_raw_fd()));
        short.push(name);
        if short.len() > MAX_PATH_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
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
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

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
            assert_eq!(SocketAddress::new(&long).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
