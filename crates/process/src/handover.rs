//! The handover of jobs from one server to the next: the flag that says so, the files that this crate
//! leaves with the keeper, and paths in descriptions for the next server.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

/// The names of the files that this crate itself leaves with the keeper: the locks of the directory with
/// the jobs' temporary files, and of the cgroup with the jobs' cgroups.
pub(crate) const SCRATCH_FILE: &str = "process/scratch";
pub(crate) const CGROUP_FILE: &str = "process/cgroup";
/// The prefix of these names.
pub(crate) const INTERNAL_PREFIX: &str = "process/";

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

/// A path in a form that JSON can hold: text, or bytes if it is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum SavedPath {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&Path> for SavedPath {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl From<SavedPath> for PathBuf {
    fn from(saved: SavedPath) -> Self {
        match saved {
            SavedPath::Text(text) => text.into(),
            SavedPath::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }
    }
}

/// Returns paths as they are saved.
pub(crate) fn save_paths(paths: &[PathBuf]) -> Vec<SavedPath> {
    paths.iter().map(|path| SavedPath::from(path.as_path())).collect()
}

/// Returns the paths that were saved.
pub(crate) fn restore_paths(saved: Vec<SavedPath>) -> Vec<PathBuf> {
    saved.into_iter().map(PathBuf::from).collect()
}
