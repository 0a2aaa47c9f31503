//! The flag that tells the owners of jobs' resources to leave them to the next server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that is set once the next server takes over the jobs: from then on, dropping what
/// belongs to a job leaves the job as it is. A clone is the same flag.
#[derive(Debug, Clone, Default)]
pub(crate) struct HandoverFlag(Arc<AtomicBool>);

impl HandoverFlag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
