//! Process trees: their members, their leaders, and the orphans that the server adopts.

mod activity;
mod handle;
pub(crate) mod members;
pub(crate) mod registry;

pub use activity::{
    InputActivity, InputWait, ProcessInfo, TreeActivity, TreeLoad, count_processes_by_session,
};
pub use handle::{ProcessTree, StoppedProcesses, measure_trees};
pub(crate) use members::watch_for_exit;
pub use members::{Exit, ExitKind, LeaderProcess, ResourceUsage};
