//! The unix socket: for the server's own user, and gone when the server is.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::time::timeout;

use super::arrival::Peer;
use super::error::SocketError;
use super::job_detection::JobDetection;
use crate::telemetry::{Refusal, events};

/// What the kernel takes, without the byte that ends it.
const MAX_PATH_BYTES: usize = 107;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// How long a server may take to accept before it counts as busy, which is alive.
const KNOCK: Duration = Duration::from_secs(1);

/// Root may do everything anyway.
const ROOT: u32 = 0;

/// A socket that is listened on; its file is removed on drop.
#[derive(Debug)]
pub(super) struct SocketListener {
    listener: UnixListener,
    file: SocketFile,
    job_detection: JobDetection,
}

impl SocketListener {
    /// Listens at `path`. What is left of a server that is gone is replaced.
    pub(super) async fn bind(
        path: &Path,
        job_detection: JobDetection,
    ) -> Result<Self, SocketError> {
        if path.as_os_str().len() > MAX_PATH_BYTES {
            return Err(SocketError::TooLong { path: path.into(), most: MAX_PATH_BYTES });
        }
        let failed = |source| SocketError::Io { path: path.into(), source };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or_else(|| Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        // Of two servers that start at once, neither may take the other's for left over.
        let lock = File::open(directory).map_err(failed)?;
        lock.lock().map_err(failed)?;
        remove_if_stale(path).await?;
        let listener = listen(path).map_err(failed)?;
        let file = SocketFile::of(path).map_err(failed)?;
        Ok(Self { listener, file, job_detection })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    /// The next connection of our own user or root, and what kind of process it comes from.
    pub(super) async fn accept(&self) -> io::Result<(UnixStream, Peer)> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            let uid = stream.peer_cred()?.uid();
            if uid == geteuid().as_raw() || uid == ROOT {
                let peer = self.job_detection.peer_on_unix(&stream);
                return Ok((stream, peer));
            }
            events::connection_refused(Refusal::Peer);
        }
    }
}

/// Nobody can connect before `listen`, and by then only our own user may.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    socket.listen(BACKLOG)
}

/// Makes way for a socket: nothing but a socket that nobody listens on is removed.
async fn remove_if_stale(path: &Path) -> Result<(), SocketError> {
    let failed = |source| SocketError::Io { path: path.into(), source };
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::NotASocket { path: path.into() });
    }
    match timeout(KNOCK, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Ok(_) | Err(_) => Err(SocketError::InUse { path: path.into() }),
    }
}

/// The file of a socket of ours.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.into(), id: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have put another one there.
        if identity(&self.path).is_ok_and(|id| id == self.id) {
            fs::remove_file(&self.path).ok();
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn a_socket_is_for_its_user_alone_and_goes_with_its_server() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("new/deep/yard.sock");
        let socket = SocketListener::bind(&path, JobDetection::off()).await.unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let _client = UnixStream::connect(&path).await.unwrap();
        assert_eq!(socket.accept().await.unwrap().1, Peer::User);
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_live_socket_is_left_alone_and_a_dead_one_replaced() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("yard.sock");
        let live = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let refused = SocketListener::bind(&path, JobDetection::off()).await.unwrap_err();
        assert_eq!(refused.code(), "socket_in_use");
        // A child of another test that is being born may hold a copy.
        rustix::net::shutdown(&live, rustix::net::Shutdown::Both).unwrap();
        drop(live);
        assert!(path.exists(), "std leaves the file");
        let socket = SocketListener::bind(&path, JobDetection::off()).await.unwrap();
        UnixStream::connect(&path).await.unwrap();
        // Whoever takes the place of the file keeps it.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "mine").unwrap();
        drop(socket);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[tokio::test]
    async fn what_is_no_socket_is_never_removed() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("precious");
        fs::write(&path, "data").unwrap();
        let refused = SocketListener::bind(&path, JobDetection::off()).await.unwrap_err();
        assert_eq!(refused.code(), "socket_not_a_socket");
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
    }

    #[tokio::test]
    async fn a_path_that_no_socket_can_have_is_refused_in_words() {
        let path = Path::new("/tmp").join("x".repeat(200));
        let refused = SocketListener::bind(&path, JobDetection::off()).await.unwrap_err();
        assert_eq!(refused.code(), "socket_path_too_long");
        assert!(refused.to_string().contains("http.socket"), "{refused}");
    }
}
