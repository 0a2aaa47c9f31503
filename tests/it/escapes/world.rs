//! A server whose jobs try to escape.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Launch, Reply, TestServer};

/// The sandbox of one job. The server itself asks for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SandboxCase {
    Open,
    Default,
    Workspace,
    ReadOnly,
}

impl SandboxCase {
    /// All that keep jobs from the server and from other processes.
    pub(super) const GUARDED: [Self; 3] = [Self::Default, Self::Workspace, Self::ReadOnly];
    /// The profiles that limit files.
    pub(super) const FILES: [Self; 2] = [Self::Workspace, Self::ReadOnly];

    const fn word(self) -> &'static str {
        match self {
            Self::Open => "none",
            Self::Default => "default",
            Self::Workspace => "workspace-write",
            Self::ReadOnly => "read-only",
        }
    }
}

/// The kernel feature that limits files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    Namespaces,
    Landlock,
}

impl Means {
    pub(super) const BOTH: [Self; 2] = [Self::Namespaces, Self::Landlock];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
        }
    }
}

/// The ordinary user, for messages.
const NOBODY: &str = "nobody";

/// A server, and by what it limits files.
pub(super) struct EscapeWorld {
    pub(super) server: TestServer,
    pub(super) means: Means,
    /// For messages of failed tests.
    user: &'static str,
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) code: Option<i64>,
    pub(super) output: String,
}

impl Attempt {
    pub(super) fn worked(&self) -> bool {
        self.code == Some(0)
    }
}

impl EscapeWorld {
    /// One for each user and each means.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Means::BOTH.into_iter().flat_map(|means| Self::each_user(means, ""))
    }

    /// The directory of the test worlds: outside the places of which sandboxed jobs have their own,
    /// so that files beside a workspace are those of the host.
    pub(super) fn place() -> &'static Path {
        Path::new(env!("CARGO_TARGET_TMPDIR"))
    }

    /// One for each user, with this in the section of its settings that is about confinement.
    pub(super) fn each_user(means: Means, settings: &str) -> impl Iterator<Item = Self> {
        let config = format!(
            "[confinement]\nprofile = \"none\"\nbackend = \"{}\"\n{settings}",
            means.word()
        );
        let users = [("own user", Launch::stdio()), (NOBODY, Launch::stdio().unprivileged())];
        users.into_iter().map(move |(user, launch)| {
            let launch = launch.within(Self::place()).structured();
            let server = launch.config(&config).start();
            Self { server, means, user }
        })
    }

    /// A server with a keeper.
    pub(super) fn durable(means: Means) -> Self {
        let config = format!("[confinement]\nprofile = \"none\"\nbackend = \"{}\"\n", means.word());
        let launch = Launch::http().within(Self::place()).structured();
        Self { server: launch.config(&config).start(), means, user: "own user" }
    }

    /// A program that is run as the user of this world, outside of any job.
    pub(super) fn outside(&self, program: &str) -> Command {
        let home = self.server.sandbox().path().join("home");
        let mut command = match (self.user, rustix::process::geteuid().is_root()) {
            (NOBODY, true) => {
                let mut command = Command::new("setpriv");
                let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
                command.args(user).arg(program);
                command
            }
            (_, _) => Command::new(program),
        };
        // Without it, tmux takes the user's own shell, and that of nobody refuses to run anything.
        command.env("SHELL", "/bin/sh");
        command.env("HOME", home).env_remove("TMUX").current_dir(self.server.work());
        command.stdin(Stdio::null());
        command
    }

    pub(super) fn name(&self, shut: SandboxCase) -> String {
        format!("{} by {}, {}", shut.word(), self.means.word(), self.user)
    }

    #[track_caller]
    pub(super) fn attempt(&mut self, shut: SandboxCase, command: &str) -> Attempt {
        self.attempt_with(shut, command, json!({}))
    }

    /// Runs it to its end, with these arguments as well.
    #[track_caller]
    pub(super) fn attempt_with(
        &mut self,
        shut: SandboxCase,
        command: &str,
        more: Value,
    ) -> Attempt {
        let reply = self.call(shut, command, more);
        assert_eq!(reply["confinement"]["degraded"], false, "{}", reply.0);
        let output = reply["output"].as_str().unwrap_or_default().to_owned();
        Attempt { code: reply["exit_code"].as_i64(), output }
    }

    /// The same; the whole answer.
    #[track_caller]
    pub(super) fn call(&mut self, shut: SandboxCase, command: &str, more: Value) -> Reply {
        let mut arguments = more;
        arguments["command"] = command.into();
        arguments["confinement"] = shut.word().into();
        self.server.call("run_command", arguments)
    }

    /// Does what an attempt needs, without confinement.
    #[track_caller]
    pub(super) fn prepare(&mut self, command: &str) {
        let done = self.attempt(SandboxCase::Open, command);
        assert!(done.worked(), "{command}: {done:?}");
    }
}

/// A job that runs Python with access to any system call: `check(result)` ends it with the error
/// of a call that failed, and `libc` has the calls.
pub(super) fn python(text: &str) -> String {
    assert!(!text.contains('\''), "it stands in single quotes");
    format!(
        "python3 -c 'import ctypes, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0: sys.exit(ctypes.get_errno())
{text}'"
    )
}
