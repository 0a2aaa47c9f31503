//! The keeper: a small process with one thread, the parent of the shims of all jobs of a server.
//!
//! `shellyard serve` is the keeper; the server is its child, and is started again when it dies. The
//! keeper of a server for one client or one command is a child of that server, and ends with it. The
//! keeper forks a shim for each job, holds the server's end of the shim's connection for the next server,
//! and holds listening sockets. When the keeper ends, all shims end their trees.

mod client;
mod held_state;
mod process;
mod protocol;
mod shims;
mod supervision;
#[cfg(test)]
mod tests;

pub(crate) use client::HeldShim;
pub use client::{KeeperClient, KeeperNotice};
pub(crate) use process::keeper_main;
pub use process::{KeeperLaunch, run_keeper};
#[cfg(test)]
pub(crate) use protocol::{Hello, KeeperIdentity, KeeperMessage, ServerMessage};
pub use supervision::UPGRADE_EXIT_CODE;
