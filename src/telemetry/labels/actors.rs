//! Actors.

use super::words::words;

words! {
    /// A class of actors.
    pub enum Actor {
        /// The one that admits, starts and remembers jobs.
        Supervisor = "supervisor",
        /// Those that each run a job.
        Job = "job",
    }
}
