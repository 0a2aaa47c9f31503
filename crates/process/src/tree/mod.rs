//! Process trees: their members, their leaders, and the orphans that the server adopts.

mod handle;
mod leader;
pub(crate) mod members;
pub(crate) mod orphans;
mod process_info;

pub use handle::{InputActivity, ProcessTree, TreeActivity};
pub(crate) use leader::watch_for_exit;
pub use leader::{Exit, ExitKind, LeaderProcess, ResourceUsage};
pub use members::{StoppedProcesses, TreeLoad, count_processes_by_session, measure_trees};
pub use process_info::ProcessInfo;
