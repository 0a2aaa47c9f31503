//! The files that the names in rules stand for, looked up along a PATH.
//!
//! A name means the files that it leads to now, in every directory of the PATH and with all links
//! followed. What a job puts under the same name later is another file.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use shellyard_policy::gate::KnownFile;
use shellyard_policy::rules::matches_wildcard;

/// The most directories of a PATH, and the most entries of all, that are read for wildcards.
const MOST_DIRECTORIES: usize = 64;
const MOST_ENTRIES: usize = 40_000;

/// The directories in which packages keep the helpers of their programs: `git-core/git-remote-https` is
/// a path below one of them.
const HELPER_ROOTS: [&str; 8] = [
    "/usr/lib",
    "/usr/libexec",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/libexec",
    "/lib",
    "/usr/share",
    "/run/current-system/sw/libexec",
];

/// Finds the executable files that these names stand for, one entry for each file. A name is
///
/// - a word: a file in any directory of `path`;
/// - a relative path such as `git-core/git-remote-https`: a helper, below one of the directories where
///   packages keep them;
/// - an absolute path.
///
/// The last part may have wildcards (`*`, `?`). Files with a path or a name that is not UTF-8 are left
/// out, and so are relative directories of the PATH: they mean something else for each job. Blocks.
pub fn find_known_files<'a>(
    names: impl IntoIterator<Item = &'a str>,
    path: &OsStr,
) -> Vec<KnownFile> {
    let directories = std::env::split_paths(path).filter(|directory| directory.is_absolute());
    let mut search = FileSearch {
        directories: directories.take(MOST_DIRECTORIES).collect(),
        listings: HashMap::new(),
        entries_left: MOST_ENTRIES,
        found: Vec::new(),
        places: HashMap::new(),
    };
    names.into_iter().for_each(|name| search.add(name));
    search.found
}

/// Resolves the path of a rule from this directory, with links followed up to the first part with
/// wildcards. A file that does not exist yet keeps its name. `None` if its directory does not exist, or if
/// the result is not UTF-8.
#[must_use]
pub fn resolve_rule_path(path: &str, directory: &Path) -> Option<PathBuf> {
    let path = directory.join(path);
    let is_literal = |part: &Component<'_>| !has_wildcard(&part.as_os_str().to_string_lossy());
    let literal: PathBuf = path.components().take_while(is_literal).collect();
    let rest = path.strip_prefix(&literal).ok()?;
    let resolved = match literal.canonicalize() {
        Ok(resolved) => resolved,
        Err(_) if rest.as_os_str().is_empty() => {
            literal.parent()?.canonicalize().ok()?.join(literal.file_name()?)
        }
        Err(_) => return None,
    };
    // An empty rest would add a slash.
    let whole = if rest.as_os_str().is_empty() { resolved } else { resolved.join(rest) };
    whole.to_str().is_some().then_some(whole)
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// A search for many names, which reads each directory once.
struct FileSearch {
    directories: Vec<PathBuf>,
    listings: HashMap<PathBuf, Vec<OsString>>,
    entries_left: usize,
    found: Vec<KnownFile>,
    /// The place of each file in the list, by its device and inode.
    places: HashMap<(u64, u64), usize>,
}

impl FileSearch {
    fn add(&mut self, name: &str) {
        let (below, last) = match name.rsplit_once('/') {
            Some((below, last)) => (Path::new(below), last),
            None => (Path::new(""), name),
        };
        let prefix = if name.starts_with('/') { Path::new("") } else { below };
        let directories: Vec<PathBuf> = if name.starts_with('/') {
            vec![Path::new("/").join(below)]
        } else if name.contains('/') {
            HELPER_ROOTS.iter().map(|root| Path::new(root).join(below)).collect()
        } else {
            self.directories.clone()
        };
        for directory in directories {
            if !has_wildcard(last) {
                self.add_file(&directory.join(last), &prefix.join(last));
                continue;
            }
            for entry in self.list(&directory) {
                if entry.to_str().is_some_and(|entry| matches_wildcard(last, entry)) {
                    self.add_file(&directory.join(&entry), &prefix.join(&entry));
                }
            }
        }
    }

    fn list(&mut self, directory: &Path) -> Vec<OsString> {
        if let Some(known) = self.listings.get(directory) {
            return known.clone();
        }
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let names: Vec<OsString> =
            entries.take(self.entries_left).map(|entry| entry.file_name()).collect();
        self.entries_left -= names.len();
        self.listings.insert(directory.to_owned(), names.clone());
        names
    }

    /// Adds a file under this name, if it exists and can be executed.
    fn add_file(&mut self, path: &Path, name: &Path) {
        let Ok(resolved) = path.canonicalize() else { return };
        let Some(name) = name.to_str().map(str::to_owned) else { return };
        let stat = match fs::metadata(&resolved) {
            Ok(stat) if is_executable(&stat) && resolved.to_str().is_some() => stat,
            Ok(_) | Err(_) => return,
        };
        let place = *self.places.entry((stat.dev(), stat.ino())).or_insert_with(|| {
            let (device, inode) = (stat.dev(), stat.ino());
            let changed = (stat.ctime(), stat.ctime_nsec());
            let names = Vec::new();
            self.found.push(KnownFile { path: resolved, device, inode, changed, names });
            self.found.len() - 1
        });
        if let Some(file) = self.found.get_mut(place).filter(|file| !file.names.contains(&name)) {
            file.names.push(name);
        }
    }
}

fn is_executable(stat: &Metadata) -> bool {
    stat.is_file() && stat.mode() & 0o111 != 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn write(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_name_stands_for_the_files_that_it_leads_to() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        write(&at("one/tool"), 0o755);
        write(&at("two/tool"), 0o755);
        write(&at("two/tool.txt"), 0o644);
        write(&at("real/awk.1"), 0o755);
        fs::create_dir(at("two/tools")).unwrap();
        symlink("../real/awk.1", at("one/awk")).unwrap();
        symlink("../real/awk.1", at("two/mawk")).unwrap();
        symlink("gone", at("two/dangling")).unwrap();
        let path = std::env::join_paths([at("one"), at("two"), "relative".into()]).unwrap();
        let find = |names: &[&str]| {
            let found = find_known_files(names.iter().copied(), &path);
            let show = |file: KnownFile| {
                (file.path.strip_prefix(&root).unwrap().to_owned(), file.names.join(" "))
            };
            found.into_iter().map(show).collect::<Vec<_>>()
        };
        let expected = |files: &[(&str, &str)]| {
            files.iter().map(|(path, names)| (path.into(), (*names).to_owned())).collect::<Vec<_>>()
        };
        for (names, files) in [
            (&["tool"][..], &[("one/tool", "tool"), ("two/tool", "tool")][..]),
            (&["awk", "mawk", "awk"], &[("real/awk.1", "awk mawk")]),
            (&["*awk"], &[("real/awk.1", "awk mawk")]),
            (&["tool?", "tool.*", "dangling", "none", "../one/tool", ""], &[]),
        ] {
            assert_eq!(find(names), expected(files), "{names:?}");
        }
        let own = at("one/awk").to_str().unwrap().to_owned();
        assert_eq!(find(&[&own]), expected(&[("real/awk.1", "awk")]));
        let stat = fs::metadata(at("one/tool")).unwrap();
        let found = find_known_files(["tool"], &path).swap_remove(0);
        assert_eq!((found.device, found.inode), (stat.dev(), stat.ino()));
        assert_eq!(found.changed, (stat.ctime(), stat.ctime_nsec()));
    }

    #[test]
    fn the_path_of_a_rule_is_resolved_up_to_its_wildcards() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        write(&root.join("real/build.sh"), 0o755);
        symlink("real", root.join("link")).unwrap();
        for (rule, expected) in [
            ("./link/build.sh", Some("real/build.sh")),
            ("link/later.sh", Some("real/later.sh")),
            ("link/*.sh", Some("real/*.sh")),
            ("link/../real/x?/y", Some("real/x?/y")),
            ("gone/later.sh", None),
            ("gone/*.sh", None),
        ] {
            let expected = expected.map(|path| root.join(path));
            assert_eq!(resolve_rule_path(rule, &root), expected, "{rule}");
        }
        let absolute = root.join("link/build.sh");
        let resolved = resolve_rule_path(absolute.to_str().unwrap(), Path::new("/"));
        assert_eq!(resolved, Some(root.join("real/build.sh")));
    }
}
