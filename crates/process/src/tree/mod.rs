//! Process trees: their members, their leaders, and the orphans that the server adopts.

mod handle;
pub(crate) mod members;
pub(crate) mod orphans;

pub(crate) use handle::watch_for_exit;
pub use handle::{
    Exit, ExitKind, InputActivity, LeaderProcess, ProcessTree, ResourceUsage, TreeActivity,
};
pub use members::{StoppedProcesses, TreeLoad, count_processes_by_session, measure_trees};
