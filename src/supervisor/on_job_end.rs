//! The action of the submitter when a job has ended.

use std::fmt;

use crate::job::JobHandle;
use crate::outcome::JobEnding;

/// An action of the submitter when a job has ended. It must be short.
pub struct OnJobEnd(Box<EndAction>);

type EndAction = dyn FnOnce(&JobHandle, &JobEnding) + Send;

impl OnJobEnd {
    #[must_use]
    pub fn new(act: impl FnOnce(&JobHandle, &JobEnding) + Send + 'static) -> Self {
        Self(Box::new(act))
    }

    pub(super) fn run(self, job: &JobHandle, ending: &JobEnding) {
        (self.0)(job, ending);
    }
}

impl fmt::Debug for OnJobEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnJobEnd")
    }
}
