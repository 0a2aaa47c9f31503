//! The shim: one small process for each job, the parent of everything that the job starts.
//!
//! The keeper forks it; it executes no other program. It starts the job's first process in its sandbox,
//! reaps every process of the job, carries out stops and the deadline, and sends the input. It is a child
//! subreaper, or the first process of the job's pid namespace, so every process of the job stays below it,
//! whatever that process does. **The tree is over when the kernel says so:** when waiting for a child
//! fails because there is none.
//!
//! The server can end at any time. Orders that it has sent are carried out, and the next server asks each
//! shim for its state.

mod ending;
mod gate;
mod input;
mod leader;
mod members;
mod namespaces;
mod plan;
mod process;
mod protocol;

pub use ending::{EndCause, EndingNote};
pub use gate::{StartCounts, StartQuestion};
pub(crate) use namespaces::{ForkResult, Isolation, KeeperIds, MappedIds, fork};
pub(crate) use plan::{ShimPlan, memory_file};
pub(crate) use process::{ShimFiles, run_shim};
pub use protocol::EchoMode;
pub(crate) use protocol::{LeaderExit, Order, Report, Role, ShimState, Stage};
