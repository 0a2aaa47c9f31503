//! A version 2 cgroup for each job, if the host lets us create any.
//!
//! ```text
//! our own cgroup               the cgroup that the server was started in
//! └─ shellyard-PID-START       locked while the server lives
//!    ├─ server                 the server itself, if controllers need that
//!    └─ job-N                  a job and everything that it starts
//! ```
//! Only a cgroup without processes can delegate a controller to its children. So the server moves
//! itself down, if no other process is in its cgroup; otherwise jobs are only grouped, which is
//! enough to kill them all at once. Some hosts have the controllers in version 1 hierarchies: those
//! are not used.

mod job;
mod root;

pub(crate) use job::{JobCgroup, SavedCgroup};
pub(crate) use root::kill_jobs_of;
pub use root::{Cgroups, Controller, Delegation};
