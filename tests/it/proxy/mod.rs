//! `stdio --connect`: many clients, one server.

mod connecting;
mod ends;
mod environments;
mod features;
mod on_demand;
mod restart;
mod tls;

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tokio::net::UnixStream;

use crate::harness::{Era, Launch, TestServer, keeper_in, private_dir, signal};

/// Both eras of the protocol.
const BOTH_ERAS: [Era; 2] = [Era::Legacy("2025-11-25"), Era::Modern];

/// The socket of a server with this data directory.
fn socket_in(data: &Path) -> PathBuf {
    data.join("shellyard.sock")
}

/// A server that answers in the structured form.
fn server() -> Launch {
    Launch::http().structured()
}

/// Prepares a proxy to the server with this data directory.
fn proxy_to(data: &Path) -> Launch {
    Launch::stdio().data(data).args(&["--connect"])
}

fn data_of(server: &TestServer) -> PathBuf {
    server.sandbox().data()
}

/// The pid of the process that listens on a socket; `None` if there is none.
fn listener_of(socket: &Path) -> Option<i32> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async { UnixStream::connect(socket).await.ok()?.peer_cred().ok()?.pid() })
}

/// A data directory with a server that a proxy starts on demand; dropping it kills the server.
struct OnDemand {
    dir: tempfile::TempDir,
}

impl OnDemand {
    fn new() -> Self {
        Self { dir: private_dir() }
    }

    fn data(&self) -> &Path {
        self.dir.path()
    }

    /// Prepares a proxy that starts the server if there is none.
    fn proxy(&self) -> Launch {
        proxy_to(self.data()).args(&["--ensure-server"]).config(STRUCTURED)
    }

    #[track_caller]
    fn server(&self) -> i32 {
        listener_of(&socket_in(self.data())).expect("a server listens")
    }
}

const STRUCTURED: &str = "[mcp]\nresult_format = \"structured\"\n";

impl Drop for OnDemand {
    fn drop(&mut self) {
        if let Some(keeper) = keeper_in(self.data()) {
            signal(keeper, Signal::KILL);
        }
    }
}
