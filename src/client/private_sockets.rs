//! The private sockets of servers on standard input and output: one for each, in the data directory.
//!
//! A socket file that nobody listens on is stale: its server was killed. Servers remove such files
//! when they start, and programs that meet one may do so, too.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::socket_address::SocketAddress;

/// The directory of the sockets, below the data directory.
const DIRECTORY: &str = "servers";

const ENDING: &str = "sock";

/// Returns the directory of the private sockets.
#[must_use]
pub fn private_socket_dir(data_dir: &Path) -> PathBuf {
    data_dir.join(DIRECTORY)
}

/// Returns the private socket of the server with this process id.
#[must_use]
pub fn private_socket(data_dir: &Path, pid: u32) -> PathBuf {
    private_socket_dir(data_dir).join(format!("{pid}.{ENDING}"))
}

/// Lists the private sockets, stale ones included, in the order of their process ids.
///
/// # Errors
/// If the directory cannot be read; a directory that does not exist is empty.
pub fn list_private_sockets(data_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(private_socket_dir(data_dir)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut sockets: Vec<(u32, PathBuf)> = Vec::new();
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if let Some(pid) = parse_pid(&path)
            && entry.file_type()?.is_socket()
        {
            sockets.push((pid, path));
        }
    }
    sockets.sort_unstable();
    Ok(sockets.into_iter().map(|(_, path)| path).collect())
}

fn parse_pid(path: &Path) -> Option<u32> {
    let is_socket_name = path.extension().is_some_and(|ending| ending == ENDING);
    path.file_stem().filter(|_| is_socket_name)?.to_str()?.parse().ok()
}

/// Removes the sockets that nobody listens on, and returns their number. Blocks for a short time.
///
/// # Errors
/// If the directory cannot be locked or read, or a file not removed.
pub fn remove_stale_sockets(data_dir: &Path) -> io::Result<usize> {
    let directory = match File::open(private_socket_dir(data_dir)) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    // A server that starts holds this lock until it listens: before that its socket looks stale.
    directory.lock()?;
    let mut removed = 0;
    for path in list_private_sockets(data_dir)? {
        if is_stale(&path) {
            match fs::remove_file(&path) {
                // Another process of the user has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => {
                    result?;
                    removed += 1;
                }
            }
        }
    }
    Ok(removed)
}

/// `true` if nobody listens on this socket. Does not block: a server that is too busy to accept lives.
fn is_stale(path: &Path) -> bool {
    let Ok(address) = SocketAddress::new(path) else { return false };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let connected =
        socket.and_then(|socket| connect(&socket, &SocketAddrUnix::new(address.path())?));
    connected == Err(Errno::CONNREFUSED)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_sockets_that_nobody_listens_on_are_removed() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        assert_eq!(list_private_sockets(data).unwrap(), Vec::<PathBuf>::new());
        assert_eq!(remove_stale_sockets(data).unwrap(), 0);
        fs::create_dir(private_socket_dir(data)).unwrap();
        let live = UnixListener::bind(private_socket(data, 20)).unwrap();
        let dead = UnixListener::bind(private_socket(data, 3)).unwrap();
        // A child process that another test is starting may hold a copy of the socket.
        rustix::net::shutdown(&dead, rustix::net::Shutdown::Both).unwrap();
        drop(dead);
        let other = private_socket_dir(data).join("7.sock");
        fs::write(&other, "a file").unwrap();
        let both = [private_socket(data, 3), private_socket(data, 20)];
        assert_eq!(list_private_sockets(data).unwrap(), both);
        assert_eq!(remove_stale_sockets(data).unwrap(), 1);
        assert_eq!(list_private_sockets(data).unwrap(), both[1..]);
        assert!(other.exists());
        drop(live);
    }
}
