//! Cgroups that jobs have left, kept for others: to make one costs as much as a tenth of a process.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

const MOST: usize = 64;

/// Cgroups that hold nobody and nothing.
#[derive(Debug, Default)]
pub(super) struct Idle {
    dirs: Mutex<Vec<PathBuf>>,
}

impl Idle {
    pub(super) fn take(&self) -> Option<PathBuf> {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps one, or gives it back where there are enough.
    pub(super) fn keep(&self, dir: PathBuf) -> Result<(), PathBuf> {
        let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        if dirs.len() >= MOST {
            return Err(dir);
        }
        dirs.push(dir);
        Ok(())
    }

    /// Forgets all of them: they are about to be removed.
    pub(super) fn forget(&self) {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
