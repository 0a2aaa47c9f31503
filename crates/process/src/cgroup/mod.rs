//! A cgroup (version 2) for each job, where the host lets us make some.
//!
//! ```text
//! our own cgroup               what the server was started in
//! └─ shellyard-PID-START       locked while the server lives
//!    ├─ server                 the server itself, where controllers need that
//!    └─ job-N                  a job and all that comes out of it
//! ```
//! A controller can be handed down only by a cgroup without processes. So the server moves down
//! itself, if nobody else is in its cgroup; else jobs are only grouped, which is enough to end
//! them all at once. Some hosts have the controllers in hierarchies of version 1: those are not
//! used.

mod job;
mod reaper;
mod root;

pub(crate) use job::JobCgroup;
pub(crate) use root::kill_jobs_of;
pub use root::{Cgroups, Controller, Delegation};
