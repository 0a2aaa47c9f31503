//! A server process with its folder.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Usage;

/// The program that is measured.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_shellyard");

/// A server that runs. On drop it is killed, and everything that it started is waited for: what is
/// measured next shall not run beside the ends of that.
#[derive(Debug)]
pub(crate) struct Running {
    pub(super) child: Child,
    folder: TempDir,
}

impl Running {
    /// Starts it in a folder of its own.
    pub(super) fn start(
        command: &[&str],
        stdio: fn() -> Stdio,
        settings: &[(String, String)],
    ) -> Self {
        let folder = TempDir::new().expect("a temporary directory");
        let child = Command::new(BINARY)
            .args(command)
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .env("XDG_CONFIG_HOME", folder.path())
            // Of `cargo bench`: with it, every program starts more slowly.
            .env_remove("LD_LIBRARY_PATH")
            .envs(settings.iter().map(|(name, value)| (name, value)))
            .stdin(stdio())
            .stdout(stdio())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        Self { child, folder }
    }

    /// The resource usage of the server's own process: of the child of the keeper, if it has one.
    pub(crate) fn usage(&self) -> Usage {
        let pid_file = self.folder.path().join("data/server.pid");
        let text = std::fs::read_to_string(pid_file).unwrap_or_default();
        let pid = text.lines().next().and_then(|line| line.parse().ok());
        Usage::new(pid.unwrap_or_else(|| self.child.id()))
    }

    /// The processes of the server: itself, its keeper, and those of the jobs that run.
    pub(crate) fn processes(&self) -> Vec<Usage> {
        Usage::new(self.child.id()).with_descendants()
    }

    /// The file system that it spills to.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut left = self.processes();
        self.child.kill().ok();
        self.child.wait().ok();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !left.is_empty() && Instant::now() < deadline {
            left.retain(Usage::is_alive);
            thread::sleep(Duration::from_millis(5));
        }
    }
}
