//! The private server of `self-test`: this program as `stdio`, in a temporary directory of its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use serde_json::{Value, json};
use tempfile::TempDir;
use thiserror::Error;

use super::stdio_probe::{ProbeError, StdioProbe};

/// The longest wait for a reply: a loaded host is slow, a broken one must not hang the test.
const REPLY_TIME: Duration = Duration::from_secs(60);
/// The prefix of variables that would change the settings of the private server.
const SETTING_PREFIX: &str = "SHELLYARD_";

/// The settings of the private server. Jobs begin without a sandbox, so that each call can choose a
/// profile; the limits are small, so that the checks are fast.
const CONFIG: &str = "\
[mcp]
result_format = \"structured\"
[confinement]
profile = \"none\"
on_unavailable = \"refuse\"
[job]
max_output = \"4 MiB\"
[output]
memory = \"64 KiB\"
compress_from = 0
[policy]
deny = [\"shellyard-denied\"]
ask = [\"shellyard-asked\"]
";

/// A failure of the private server itself.
#[derive(Debug, Error)]
pub(super) enum SelfTestError {
    #[error("the temporary directory cannot be used; set TMPDIR to a writable directory")]
    Directory(#[source] io::Error),
    #[error("the server cannot be started")]
    Start(#[source] io::Error),
    #[error("the server does not work")]
    NoAnswer(#[from] ProbeError),
}

/// A running private server. Dropping it ends it with all its jobs, and removes its directory.
#[derive(Debug)]
pub(super) struct PrivateServer {
    // Before the directory: fields are dropped in order, and the server uses it to its end.
    probe: StdioProbe,
    folder: TempDir,
}

impl PrivateServer {
    /// Starts the server and shakes hands with it.
    pub(super) fn start() -> Result<Self, SelfTestError> {
        let folder = tempfile::Builder::new().prefix("shellyard-self-test-").tempdir();
        let folder = folder.map_err(SelfTestError::Directory)?;
        prepare_folder(folder.path()).map_err(SelfTestError::Directory)?;
        let probe = start_server(folder.path()).map_err(SelfTestError::Start)?;
        let mut server = Self { probe, folder };
        server.probe.initialize("shellyard-self-test")?;
        Ok(server)
    }

    /// The working directory of jobs.
    pub(super) fn workspace(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A directory outside of the workspace.
    pub(super) fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    /// The data directory of the server.
    pub(super) fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Calls a tool and returns the structured content of its reply.
    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, SelfTestError> {
        let params = json!({ "name": tool, "arguments": arguments });
        let reply = self.probe.request("tools/call", params)?;
        Ok(reply["structuredContent"].clone())
    }
}

/// Creates the directories and the settings.
fn prepare_folder(folder: &Path) -> io::Result<()> {
    for name in ["work", "outside"] {
        fs::create_dir(folder.join(name))?;
    }
    fs::write(folder.join("config.toml"), CONFIG)
}

fn start_server(folder: &Path) -> io::Result<StdioProbe> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([OsStr::new("stdio"), OsStr::new("--config"), folder.join("config.toml").as_os_str()])
        .args([OsStr::new("--data-dir"), folder.join("data").as_os_str()])
        .current_dir(folder.join("work"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with(SETTING_PREFIX) {
            command.env_remove(name);
        }
    }
    StdioProbe::start(&mut command, REPLY_TIME)
}
