//! The directories in which jobs may run. Pure: the caller passes paths of opened directories.

use std::path::{Component, Path, PathBuf};

use thiserror::Error;

/// The directories in which jobs may run, each with everything below it.
///
/// An empty list allows nothing; without a limit there is no list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedDirectories {
    /// Absolute paths without `.`, `..` and repeated slashes.
    roots: Vec<PathBuf>,
}

impl AllowedDirectories {
    /// Takes directories whose symlinks are resolved: a path that leads through a symlink would
    /// never contain anything.
    ///
    /// # Errors
    /// A path is relative, or contains `..`.
    pub fn new(list: impl IntoIterator<Item = PathBuf>) -> Result<Self, DirectoryError> {
        let root = |path: PathBuf| {
            if is_resolved(&path) {
                Ok(path.components().collect())
            } else {
                Err(DirectoryError { path })
            }
        };
        Ok(Self { roots: list.into_iter().map(root).collect::<Result<_, _>>()? })
    }

    /// `true` if a directory is one of the allowed directories or below one of them.
    ///
    /// Whole components are compared: `/srv/app2` is not in `/srv/app`. The path must be that of an
    /// opened directory. A path that is relative or contains `..` is in none of them.
    #[must_use]
    pub fn contains(&self, resolved: &Path) -> bool {
        is_resolved(resolved) && self.roots.iter().any(|root| resolved.starts_with(root))
    }

    /// Returns the allowed directories, for error messages.
    #[must_use]
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }
}

fn is_resolved(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

/// A path that cannot be an allowed directory.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{}` cannot be an allowed directory; give an absolute path without `..`", path.display())]
pub struct DirectoryError {
    /// The path as configured.
    pub path: PathBuf,
}

impl DirectoryError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_allowed_directory"
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allowed(list: &[&str]) -> AllowedDirectories {
        AllowedDirectories::new(list.iter().map(PathBuf::from)).unwrap()
    }

    #[test]
    fn whole_components_are_compared() {
        let allowed = allowed(&["/srv/app/", "/home//me/./work"]);
        for (path, expected) in [
            ("/srv/app", true),
            ("/srv/app/", true),
            ("/srv/app/a/b", true),
            ("/home/me/work/x", true),
            ("/srv/app2", false),
            ("/srv", false),
            ("/", false),
            ("/srv/app/../etc", false),
            ("/srv/app/..", false),
            ("srv/app", false),
            ("", false),
        ] {
            assert_eq!(allowed.contains(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn the_root_contains_everything_and_an_empty_list_nothing() {
        assert!(allowed(&["/"]).contains(Path::new("/etc")));
        assert!(!allowed(&[]).contains(Path::new("/")));
    }

    #[test]
    fn a_directory_that_is_not_resolved_is_refused() {
        for path in ["", "app", "./app", "/srv/../etc"] {
            let refused = AllowedDirectories::new([PathBuf::from(path)]);
            assert_eq!(refused, Err(DirectoryError { path: path.into() }));
        }
    }

    proptest! {
        #[test]
        fn only_paths_below_a_root_are_contained(
            root in "(/[a-c]{1,2}){1,3}",
            path in "(/[a-c.]{1,2}){0,5}",
        ) {
            let below = format!("{path}/").starts_with(&format!("{root}/"));
            let resolved = !path.split('/').any(|part| part == ".." || part == ".");
            prop_assume!(resolved);
            prop_assert_eq!(allowed(&[&root]).contains(Path::new(&path)), below);
        }
    }
}
