//! A small process that outlives the server, and holds what the jobs need meanwhile.
//!
//! `shellyard serve` is the keeper; the server is its child. The keeper holds copies of the files
//! of every running job. When the server dies, its children pass to the keeper, which takes the
//! exit statuses of the jobs and starts the server again. The next server gets the files, the
//! statuses and a description of each job, and goes on with all of them.

mod client;
mod held_state;
mod process;
mod protocol;
mod supervision;
#[cfg(test)]
mod tests;

pub(crate) use client::{CGROUP_FILE, HandoverFlag, KeptFile, KeptJob, SCRATCH_FILE};
pub use client::{KeeperClient, KeeperNotice};
pub use process::{KeeperLaunch, run_keeper};
pub(crate) use protocol::{
    FileRole, ReceivedJob, SavedPath, ServerIdentity, restore_paths, save_paths,
};
pub use supervision::UPGRADE_EXIT_CODE;
