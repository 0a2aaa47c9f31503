//! Paths in the descriptions that the keeper holds for the next server.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

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

/// Returns saved paths.
pub(crate) fn restore_paths(saved: Vec<SavedPath>) -> Vec<PathBuf> {
    saved.into_iter().map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_survives() {
        let odd = PathBuf::from(OsString::from_vec(b"/a\xff\n".to_vec()));
        let paths = vec![PathBuf::from("/a b/\u{e9}\""), odd, PathBuf::new()];
        let text = serde_json::to_string(&save_paths(&paths)).unwrap();
        assert_eq!(restore_paths(serde_json::from_str(&text).unwrap()), paths, "{text}");
    }
}
