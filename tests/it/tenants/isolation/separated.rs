//! A server whose tenants have directories and users of their own.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::world::{DIALECTS, TenantSession};
use crate::harness::{Launch, Reply, TestServer};
use crate::tenants::tokens::create_token;

/// A user of every host, with its number.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostUser {
    pub(super) name: &'static str,
    pub(super) uid: u32,
}

pub(super) const DAEMON: HostUser = HostUser { name: "daemon", uid: 1 };
pub(super) const SYS: HostUser = HostUser { name: "sys", uid: 3 };

/// Directories of alice and bob, each with a file `secret`, outside of the places of which sandboxed
/// jobs have their own.
pub(super) struct TenantDirs {
    root: TempDir,
}

impl TenantDirs {
    pub(super) fn new() -> Self {
        let root = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory");
        let dirs = Self { root };
        // Other users must reach what is in it.
        fs::set_permissions(dirs.root.path(), Permissions::from_mode(0o755)).expect("it is ours");
        for name in ["alice", "alice/sub", "bob", "more"] {
            fs::create_dir(dirs.at(name)).expect("a directory of ours");
        }
        for name in ["alice", "bob"] {
            fs::write(dirs.at(name).join("secret"), format!("{name} knows\n")).expect("our file");
        }
        dirs
    }

    /// Gives the directories to the users, for them alone.
    pub(super) fn give(&self, owners: [(&str, HostUser); 2]) {
        for (name, user) in owners {
            fs::set_permissions(self.at(name), Permissions::from_mode(0o700)).expect("it is ours");
            for path in [self.at(name), self.at(name).join("secret")] {
                chown(path, Some(user.uid), None).expect("we are root");
            }
        }
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().expect("it is there").join(name)
    }

    /// The sections of both tenants with a workspace each, and this in both.
    pub(super) fn config(&self, common: &str) -> String {
        let [alice, bob] = ["alice", "bob"].map(|name| self.at(name));
        let section =
            |name: &str, dir: &Path| format!("[tenants.{name}]\nworkspace = {dir:?}\n{common}\n");
        section("alice", &alice) + &section("bob", &bob)
    }

    /// The same, with a user each.
    pub(super) fn config_with_users(&self, common: &str) -> String {
        self.give([("alice", DAEMON), ("bob", SYS)]);
        let named = |config: &str, tenant: &str, user: HostUser| {
            let head = format!("[tenants.{tenant}]\n");
            config.replace(&head, &format!("{head}user = {:?}\n", user.name))
        };
        named(&named(&self.config(common), "alice", DAEMON), "bob", SYS)
    }
}

/// A server with these settings that offers the tools of all dialects.
#[track_caller]
pub(super) fn start_server(config: &str) -> TestServer {
    let launch = Launch::http().args(&["--dialect", DIALECTS, "--result-format", "both"]);
    launch.config(config).start_silent()
}

/// A client of this tenant.
#[track_caller]
pub(super) fn client_of(server: &mut TestServer, tenant: &str) -> TenantSession {
    let token = create_token(server.sandbox(), &[tenant]).0;
    TenantSession::open(server.http().address(), &token)
}

/// Runs a command to its end; its exit code and its output.
#[track_caller]
pub(super) fn run(client: &mut TenantSession, command: &str) -> (Value, String) {
    let reply = run_with(client, json!({"command": command}));
    (reply["exit_code"].clone(), reply["output"].as_str().unwrap_or_default().to_owned())
}

/// Runs a command that must work; its output without the last newline.
#[track_caller]
pub(super) fn output(client: &mut TenantSession, command: &str) -> String {
    let (code, text) = run(client, command);
    assert_eq!(code, 0, "{command}: {text}");
    text.trim_end().to_owned()
}

/// Checks that a command does not work, and does not show these words.
#[track_caller]
pub(super) fn fails(client: &mut TenantSession, command: &str, words: &str) {
    let (code, text) = run(client, command);
    assert!(code != 0 && !text.contains(words), "{command}: {code}, {text}");
}

#[track_caller]
pub(super) fn run_with(client: &mut TenantSession, mut arguments: Value) -> Reply {
    arguments["wait_s"] = 40.into();
    client.call("run_command", arguments)
}

/// `true` if this process can run a server that switches users; tells otherwise that a test is left out.
pub(super) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("not tried: needs root");
    }
    is_root
}
