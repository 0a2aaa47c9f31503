//! Starting the real binary in a world of its own: home, data and working directory.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, Mode};
use tempfile::TempDir;

use super::link::{HttpLink, ServerLink};
use super::server::TestServer;
use super::stdio::StdioLink;
use super::wire::Era;

/// A token that is long enough to be taken for a real one.
pub(crate) const fn token() -> &'static str {
    "it-token-5b1c0e4f9a7d43e2b6c8"
}

/// A port that was free a moment ago, and is none that the kernel gives to others.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let step = std::process::id() * 97 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + u16::try_from(step % 12_000).expect("a port");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The program under test: the one of this build, or the one in `SHELLYARD_TEST_PROGRAM`.
#[expect(clippy::disallowed_methods, reason = "a setting of the tests, not of the product")]
pub(crate) fn tested_program() -> PathBuf {
    let named = std::env::var_os("SHELLYARD_TEST_PROGRAM");
    named.map_or_else(|| env!("CARGO_BIN_EXE_shellyard").into(), PathBuf::from)
}

/// A temporary directory that can be a data directory: for its owner alone.
pub(crate) fn private_dir() -> TempDir {
    let mut builder = tempfile::Builder::new();
    builder.permissions(Permissions::from_mode(0o700));
    builder.tempdir().expect("a temporary directory")
}

/// Makes a FIFO for its owner: whoever opens or reads it without care waits for somebody else.
pub(crate) fn make_fifo(path: &Path) {
    rustix::fs::mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("a FIFO of ours");
}

/// A directory that holds everything one server touches; removed on drop.
#[derive(Debug)]
pub(crate) struct Sandbox {
    root: TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// An empty one in this directory.
    pub(crate) fn within(directory: &Path) -> Self {
        let root = TempDir::new_in(directory).expect("a temporary directory");
        for name in ["home", "data", "work"] {
            let mut make = DirBuilder::new();
            // A data directory that others can read is refused.
            make.mode(if name == "data" { 0o700 } else { 0o755 });
            make.create(root.path().join(name)).expect("a directory of ours");
        }
        Self { root }
    }

    /// The default working directory of jobs.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// The data directory of the server.
    pub(crate) fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    /// Writes a file and gives back its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.path().join(name);
        fs::write(&path, text).expect("a file of ours");
        path
    }

    /// The program, blind to the settings of whoever runs the tests.
    pub(crate) fn command(&self) -> Command {
        self.command_through(&[] as &[&str])
    }

    /// The same, started by a program with these words before it.
    pub(crate) fn command_through(&self, words: &[impl AsRef<OsStr>]) -> Command {
        let home = self.root.path().join("home");
        let program = tested_program();
        let mut words = words.iter().map(AsRef::as_ref).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().expect("the program at least"));
        command.args(words);
        command.env_clear().env("HOME", &home).env("XDG_CONFIG_HOME", home.join("config"));
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("LANG", "C.UTF-8").current_dir(self.work());
        // Tests hold slots with jobs that sleep.
        command.env("SHELLYARD_QUEUE_IDLE_S", "0");
        command
    }

    /// Gives everything in it to another user.
    pub(crate) fn give_to(&self, user: u32) {
        let whose = format!("{user}:{user}");
        let given = Command::new("chown").args(["-R", &whose]).arg(self.path()).status();
        assert!(given.expect("chown runs").success());
    }

    /// The directory itself.
    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }
}

/// The settings for starting a server.
#[derive(Debug)]
pub(crate) struct Launch {
    over: Over,
    era: Era,
    args: Vec<String>,
    env: Vec<(String, String)>,
    config: Option<String>,
    data: Option<PathBuf>,
    is_guarded: bool,
    through: Vec<String>,
    user: Option<u32>,
    within: PathBuf,
}

/// A user that owns nothing.
const NOBODY: u32 = 65534;

/// The words before a program that run it as this user, where we are root.
pub(crate) fn without_privileges() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() {
        &["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    } else {
        &[]
    }
}

#[derive(Debug, Clone, Copy)]
enum Over {
    Stdio,
    Http,
    ServerShell,
}

impl Launch {
    /// Over stdin and stdout, speaking 2025-11-25.
    pub(crate) fn stdio() -> Self {
        Self::over(Over::Stdio)
    }

    /// Over HTTP on a loopback port, speaking 2025-11-25.
    pub(crate) fn http() -> Self {
        Self::over(Over::Http)
    }

    /// `server shell`, over stdin and stdout, speaking 2024-11-05.
    pub(crate) fn server_shell() -> Self {
        Self::over(Over::ServerShell).era(Era::Legacy("2024-11-05"))
    }

    /// One of each, so that a test can hold for both.
    pub(crate) fn both() -> [Self; 2] {
        [Self::stdio(), Self::http()]
    }

    fn over(over: Over) -> Self {
        let era = Era::Legacy("2025-11-25");
        let (args, env) = (Vec::new(), Vec::new());
        let (config, data, through, user) = (None, None, Vec::new(), None);
        let within = std::env::temp_dir();
        Self { over, era, args, env, config, data, is_guarded: false, through, user, within }
    }

    /// Speaks another revision of the protocol.
    pub(crate) const fn era(mut self, era: Era) -> Self {
        self.era = era;
        self
    }

    /// Answers with structured content.
    pub(crate) fn structured(self) -> Self {
        self.args(&["--result-format", "structured"])
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Adds a variable to the server's environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it with a configuration file of this text.
    pub(crate) fn config(mut self, text: &str) -> Self {
        self.config = Some(text.to_owned());
        self
    }

    /// Creates its sandbox in another directory than the temporary one.
    pub(crate) fn within(mut self, directory: &Path) -> Self {
        directory.clone_into(&mut self.within);
        self
    }

    /// Uses a data directory that others use as well.
    pub(crate) fn data(mut self, dir: &Path) -> Self {
        self.data = Some(dir.to_owned());
        self
    }

    /// Requires the bearer token [`token`] from clients.
    pub(crate) const fn guarded(mut self) -> Self {
        self.is_guarded = true;
        self
    }

    /// Starts the server through another program with these arguments.
    pub(crate) fn through(mut self, words: &[&str]) -> Self {
        self.through.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// Runs the server unprivileged: as nobody if the test runs as root.
    pub(crate) fn unprivileged(mut self) -> Self {
        let words = without_privileges();
        self.user = (!words.is_empty()).then_some(NOBODY);
        self.through(words)
    }

    /// Starts the server and does the handshake.
    #[track_caller]
    pub(crate) fn start(self) -> TestServer {
        let mut server = self.start_silent();
        server.handshake();
        server
    }

    /// Starts the server without a handshake.
    #[track_caller]
    pub(crate) fn start_silent(self) -> TestServer {
        let sandbox = Sandbox::within(&self.within);
        let mut command = sandbox.command_through(&self.through);
        match self.over {
            Over::Stdio => command.arg("stdio").stdin(Stdio::piped()).stdout(Stdio::piped()),
            Over::ServerShell => {
                command.args(["server", "shell"]).stdin(Stdio::piped()).stdout(Stdio::piped())
            }
            Over::Http => command.args(["serve", "--bind", "127.0.0.1:0"]).stdin(Stdio::null()),
        };
        let data = self.data.unwrap_or_else(|| sandbox.data());
        command.arg("--data-dir").arg(&data).args(&self.args);
        if let Some(text) = &self.config {
            command.arg("--config").arg(sandbox.write("config.toml", text));
        }
        if self.is_guarded {
            let file = sandbox.write("tokens", &format!("{}\n", token()));
            command.env("SHELLYARD_HTTP_TOKEN_FILE", file);
        }
        if let Some(user) = self.user {
            sandbox.give_to(user);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
        let link = match self.over {
            Over::Stdio | Over::ServerShell => ServerLink::Stdio(stdio_link(&mut child)),
            Over::Http => ServerLink::Http(HttpLink::new(self.era)),
        };
        TestServer::new(child, sandbox, data, link, self.era)
    }
}

fn stdio_link(child: &mut Child) -> StdioLink {
    let stdin = child.stdin.take().expect("it was piped");
    let stdout = child.stdout.take().expect("it was piped");
    StdioLink::new(stdin, stdout)
}
