//! The real binary, started for one measurement.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A server on a port of its own. Killed on drop.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    folder: TempDir,
}

impl Server {
    /// Starts it with these variables, and returns once it listens.
    pub(crate) fn start(variables: &[(&str, &str)]) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("it is bound");
        drop(free);
        let folder = TempDir::new().expect("a temporary directory");
        let child = Command::new(env!("CARGO_BIN_EXE_shellyard"))
            .args(["serve", "--bind", &address.to_string(), "--data-dir"])
            .arg(folder.path())
            .env("XDG_CONFIG_HOME", folder.path())
            .env("SHELLYARD_LOG_FILTER", "warn")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let server = Self { child, address, folder };
        server.await_listening();
        server
    }

    fn await_listening(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(self.address).is_err() {
            assert!(Instant::now() < deadline, "the server never listened");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file system that it spills to.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The largest file that it has open.
    pub(crate) fn largest_file(&self) -> PathBuf {
        let open = fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("the server runs");
        let files = open.flatten().map(|entry| entry.path());
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |file| file.len());
        files.max_by_key(size).expect("it has files open")
    }

    /// The most memory that it ever held.
    pub(crate) fn peak_rss_mib(&self) -> f64 {
        self.status("VmHWM:") / 1024.0
    }

    /// The memory that it holds.
    pub(crate) fn rss_kib(&self) -> f64 {
        self.status("VmRSS:")
    }

    fn status(&self, field: &str) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("the server runs");
        let line = status.lines().find(|line| line.starts_with(field)).expect("Linux tells it");
        let digits: String = line.chars().filter(char::is_ascii_digit).collect();
        digits.parse().expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
