//! The files in a workspace that a job must not write, because other programs execute them later,
//! outside of any job. A setting lists them.
//!
//! A file that exists is mounted over itself, read-only. No mount keeps a missing file from being
//! created in a directory that stays writable, and nothing is created in its place. So its name is
//! recorded before the job starts ([`ProtectedFiles::record`]), and what has appeared there is renamed
//! when no process of the job is left ([`set_aside_recorded`]): by the server, or, after a server that
//! was killed, by whoever cleans up after it. What is missing for a job is missing for every job that
//! starts while it runs, also under other servers of the same user, since it may have created it.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, chmod, fstat, lstat, openat,
    openat2, renameat, renameat_with, stat, statat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::confinement::{SandboxPaths, SetAsideFile};

/// The name component that matches every existing directory.
const ANY: &str = "*";
/// The home directory, at the start of a name.
const HOME_PREFIX: &str = "~";
/// The directory in which a repository keeps its settings. A job may create a repository if there
/// is none.
const REPOSITORY: &str = ".git";

/// The name of the record.
const RECORD: &str = "missing-files";

/// The end of the name that a file gets instead of its own. No program looks for such a file.
const SET_ASIDE: &str = ".set-aside";
/// The number of names that are tried.
const ATTEMPTS: usize = 100;

/// The files that must not change while a job runs, and those that must not appear.
#[derive(Debug, Default)]
pub(crate) struct ProtectedFiles {
    /// The protected paths that exist: files, directories and symlinks. The target of a symlink is
    /// included, since a link is only as constant as its target.
    pub(crate) names: Vec<PathBuf>,
    missing: Vec<MissingFile>,
}

/// A protected file that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct MissingFile {
    /// The existing directory, a full path without symlinks.
    around: PathBuf,
    /// The path below it. Its first component does not exist.
    name: PathBuf,
}

impl MissingFile {
    fn from_path(path: &Path) -> Option<Self> {
        Some(Self { around: path.parent()?.to_owned(), name: path.file_name()?.into() })
    }

    fn path(&self) -> PathBuf {
        self.around.join(&self.name)
    }

    /// `true` if a job with these workspaces can create it.
    fn can_appear(&self, roots: &[PathBuf]) -> bool {
        innermost_root(roots, &self.around).is_some()
            && self.around.canonicalize().is_ok_and(|found| found == self.around)
    }
}

impl ProtectedFiles {
    /// Returns the missing paths, up to their first missing component.
    pub(crate) fn missing_paths(&self) -> Vec<PathBuf> {
        let first =
            |file: &MissingFile| file.name.components().next().map(|it| file.around.join(it));
        self.missing.iter().filter_map(first).collect()
    }

    /// Records the missing files in this directory, to which no job can write.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub(crate) fn record(&self, directory: &Path) -> io::Result<()> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let paths = self.missing.iter().flat_map(|file| [&file.around, &file.name]);
        let paths: Vec<&[u8]> = paths.map(|path| path.as_os_str().as_bytes()).collect();
        fs::write(directory.join(RECORD), paths.join(&0))
    }
}

/// Finds the files of the settings in these workspaces, full paths without symlinks.
///
/// Names in the directory of a repository apply if there is a repository, and only in the workspace
/// itself: a job may create its own repositories, which nobody has used before.
///
/// # Errors
/// If it cannot be seen whether a file exists that a job could write: in a directory of ours that is
/// closed at the moment.
pub(crate) fn find_protected_files(
    places: &SandboxPaths,
    roots: &[PathBuf],
) -> io::Result<ProtectedFiles> {
    let home = places.home.as_ref().and_then(|home| home.canonicalize().ok());
    let mut found = NameSearch { roots, found: ProtectedFiles::default() };
    for root in roots {
        for name in &places.protected {
            match (name.strip_prefix(HOME_PREFIX), &home) {
                (Err(_), _) => found.search(root.clone(), name)?,
                (Ok(name), Some(home)) if innermost_root(roots, home) == Some(root) => {
                    found.search(home.clone(), name)?;
                }
                (Ok(_), _) => {}
            }
        }
    }
    let ProtectedFiles { mut names, mut missing } = found.found;
    // Read after the search: what it found was created by a job whose record is still there, or was
    // renamed meanwhile.
    let recorded = recorded_by_jobs(&places.scratch);
    missing.extend(recorded.into_iter().filter(|file| file.can_appear(roots)));
    names.retain(|name| !missing.iter().any(|file| name.starts_with(file.path())));
    let (mut names, gone): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| lstat(name).is_ok());
    missing.extend(gone.iter().filter_map(|path| MissingFile::from_path(path)));
    names.sort();
    names.dedup();
    missing.sort_by_key(MissingFile::path);
    missing.dedup();
    Ok(ProtectedFiles { names, missing })
}

fn innermost_root<'a>(roots: &'a [PathBuf], path: &Path) -> Option<&'a PathBuf> {
    roots.iter().filter(|root| path.starts_with(root)).max()
}

/// A search for the protected names.
#[derive(Debug)]
struct NameSearch<'a> {
    roots: &'a [PathBuf],
    found: ProtectedFiles,
}

impl NameSearch<'_> {
    /// Searches for `name` below `base`, or for the first missing directory on the way to it.
    ///
    /// A symlink on the way is followed and can still be replaced: nothing can be mounted on a
    /// symlink through which a directory is seen.
    fn search(&mut self, base: PathBuf, name: &Path) -> io::Result<()> {
        let mut path = base;
        let mut parts = name.components();
        loop {
            let around = path.clone();
            let from_here = parts.as_path().to_owned();
            let Some(part) = parts.next() else { break };
            let rest = parts.as_path();
            if part.as_os_str() == ANY {
                return subdirectories(&path).into_iter().try_for_each(|it| self.search(it, rest));
            }
            path.push(part);
            let found = match lstat(&path) {
                Ok(found) => found,
                Err(Errno::NOENT) if part.as_os_str() == REPOSITORY => return Ok(()),
                Err(Errno::NOENT) => {
                    self.found.missing.push(MissingFile { around, name: from_here });
                    return Ok(());
                }
                Err(errno) if is_out_of_reach(&path, errno) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            };
            let is_last = rest.as_os_str().is_empty();
            match (FileType::from_raw_mode(found.st_mode), path.canonicalize()) {
                (FileType::Directory, _) => {}
                (FileType::Symlink, Ok(target)) if !is_last && target.is_dir() => path = target,
                (FileType::Symlink, Ok(target)) if is_last => self.found.names.push(target),
                _ => break,
            }
            if innermost_root(self.roots, &path).is_none() {
                return Ok(());
            }
        }
        self.found.names.push(path);
        Ok(())
    }
}

/// Returns what is missing for the jobs of all servers with directories beside this one, which belongs
/// to a server.
fn recorded_by_jobs(scratch: &Path) -> Vec<MissingFile> {
    let servers = scratch.parent().map(subdirectories).unwrap_or_default();
    let jobs = servers.iter().flat_map(|server| subdirectories(server));
    jobs.flat_map(|job| read_record(&job)).collect()
}

fn read_record(directory: &Path) -> Vec<MissingFile> {
    let text = fs::read(directory.join(RECORD)).unwrap_or_default();
    let paths: Vec<&[u8]> = text.split(|byte| *byte == 0).collect();
    let to_path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    let pairs = paths.chunks_exact(2);
    pairs.map(|pair| MissingFile { around: to_path(pair[0]), name: to_path(pair[1]) }).collect()
}

/// Returns the directories in a directory, without symlinks.
fn subdirectories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path()).collect()
}

/// `true` if a job cannot put anything there either. In a directory of our own it can: it would
/// make the directory accessible first.
fn is_out_of_reach(path: &Path, errno: Errno) -> bool {
    let is_of_others = || {
        let around = path.parent().map(stat);
        around.is_some_and(|found| found.is_ok_and(|found| found.st_uid != geteuid().as_raw()))
    };
    errno == Errno::ACCESS && is_of_others()
}

// What has appeared under a protected name while a job ran.
//
// Other jobs may change the same directories at the same time. So each step is taken from an open
// directory, and follows no symlink.

/// Renames what has appeared under the names in the record of this directory. The record is used up.
pub(crate) fn set_aside_recorded(directory: &Path) -> Vec<SetAsideFile> {
    let missing = read_record(directory);
    let found: Vec<SetAsideFile> =
        missing.iter().filter_map(|file| set_aside(&file.around, &file.name)).collect();
    for SetAsideFile { path, renamed_to } in &found {
        match renamed_to {
            Some(now) => {
                tracing::warn!(
                    ?path,
                    ?now,
                    "a protected file appeared while a job ran; renamed it"
                );
            }
            None => tracing::error!(?path, "a protected file appeared while a job ran, and stays"),
        }
    }
    fs::remove_file(directory.join(RECORD)).ok();
    found
}

/// Renames what is found at `name` below `around`, or the symlink that is found on the way.
fn set_aside(around: &Path, name: &Path) -> Option<SetAsideFile> {
    const DIRECTORY: OFlags =
        OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    let resolve = ResolveFlags::NO_SYMLINKS;
    let mut directory = openat2(CWD, around, DIRECTORY, Mode::empty(), resolve).ok()?;
    let mut path = around.to_owned();
    let mut parts = name.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(part) = part else { return None };
        path.push(part);
        let look = || statat(&directory, part, AtFlags::SYMLINK_NOFOLLOW);
        let found = with_access(&directory, look).ok()?;
        let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
        if is_link || parts.peek().is_none() {
            let renamed = with_access(&directory, || rename_aside(&directory, part));
            let renamed_to = renamed.ok().map(|new| path.with_file_name(new));
            return Some(SetAsideFile { path, renamed_to });
        }
        // A file that is no directory stands in the way of the protected one.
        let open = || openat(&directory, part, DIRECTORY, Mode::empty());
        directory = with_access(&directory, open).ok()?;
    }
    None
}

/// Gives a file in this directory a name that is free. Returns the name.
fn rename_aside(directory: &OwnedFd, name: &OsStr) -> Result<OsString, Errno> {
    for number in 1..=ATTEMPTS {
        let mut new = name.to_owned();
        new.push(SET_ASIDE);
        if number > 1 {
            new.push(format!("-{number}"));
        }
        match rename_to_free_name(directory, name, &new) {
            Ok(()) => return Ok(new),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

fn rename_to_free_name(directory: &OwnedFd, name: &OsStr, new: &OsStr) -> Result<(), Errno> {
    match renameat_with(directory, name, directory, new, RenameFlags::NOREPLACE) {
        // Not all file systems can do it at once.
        Err(Errno::INVAL | Errno::NOSYS) => match statat(directory, new, AtFlags::SYMLINK_NOFOLLOW)
        {
            Err(Errno::NOENT) => renameat(directory, name, directory, new),
            Ok(_) => Err(Errno::EXIST),
            Err(errno) => Err(errno),
        },
        renamed => renamed,
    }
}

/// Does something in a directory, which a job may have closed to its owner.
fn with_access<T>(directory: &OwnedFd, act: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match act() {
        Err(Errno::ACCESS) => {
            let mode = Mode::from_raw_mode(fstat(directory)?.st_mode);
            let opened = format!("/proc/self/fd/{}", directory.as_raw_fd());
            chmod(&opened, mode | Mode::RWXU)?;
            let done = act();
            chmod(&opened, mode)?;
            done
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use tempfile::TempDir;

    use super::*;

    fn new_root() -> (TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        (root, path)
    }

    /// Returns everything below a directory, as sorted paths.
    fn all(path: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let below = |path: PathBuf| {
            let deeper = if path.is_dir() && !path.is_symlink() { all(&path) } else { Vec::new() };
            [path].into_iter().chain(deeper)
        };
        let mut found: Vec<PathBuf> = entries.flat_map(below).collect();
        found.sort();
        found
    }

    fn relative(paths: &[PathBuf], root: &Path) -> Vec<String> {
        let paths = paths.iter().map(|path| path.strip_prefix(root).unwrap());
        paths.map(|path| path.display().to_string()).collect()
    }

    const NAMES: [&str; 8] = [
        ".git/hooks",
        ".git/config",
        ".git/modules/*/config",
        ".mcp.json",
        ".github/workflows",
        "~/.bashrc",
        "~/.zshrc",
        "~/.config/fish",
    ];

    /// Finds the protected files, and checks that nothing was created.
    fn find(roots: &[PathBuf], home: Option<&Path>) -> ProtectedFiles {
        let protected = NAMES.map(PathBuf::from).to_vec();
        let home = home.map(Path::to_owned);
        let places = SandboxPaths { protected, home, ..SandboxPaths::default() };
        let before: Vec<_> = roots.iter().flat_map(|root| all(root)).collect();
        let found = find_protected_files(&places, roots).unwrap();
        assert_eq!(roots.iter().flat_map(|root| all(root)).collect::<Vec<_>>(), before);
        found
    }

    /// Returns what exists and what is missing.
    fn found_in(root: &Path) -> (Vec<String>, Vec<String>) {
        let found = find(&[root.to_owned()], None);
        (relative(&found.names, root), relative(&found.missing_paths(), root))
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn a_repository_is_protected_if_there_is_one_and_other_names_always() {
        let (_root, root) = new_root();
        let missing = texts(&[".github", ".mcp.json"]);
        assert_eq!(found_in(&root), (Vec::new(), missing.clone()));
        // The `.git` file of another repository, whose directory is elsewhere.
        fs::write(root.join(".git"), "gitdir: elsewhere").unwrap();
        assert_eq!(found_in(&root), (texts(&[".git"]), missing));
        fs::remove_file(root.join(".git")).unwrap();
        fs::create_dir_all(root.join(".git/modules/lib")).unwrap();
        fs::create_dir_all(root.join(".github/workflows")).unwrap();
        fs::write(root.join(".git/config"), "mine").unwrap();
        let expected = (
            texts(&[".git/config", ".github/workflows"]),
            texts(&[".git/hooks", ".git/modules/lib/config", ".mcp.json"]),
        );
        assert_eq!(found_in(&root), expected);
    }

    #[test]
    fn shell_start_up_files_are_protected_if_the_home_directory_is_writable() {
        let (_root, above) = new_root();
        let home = above.join("me");
        fs::create_dir_all(home.join("work")).unwrap();
        fs::create_dir(home.join(".config")).unwrap();
        fs::write(home.join(".bashrc"), "mine").unwrap();
        for root in [&home, &above] {
            let found = find(std::slice::from_ref(root), Some(&home));
            assert_eq!(found.names, [home.join(".bashrc")]);
            for name in [".zshrc", ".config/fish"] {
                assert!(found.missing_paths().contains(&home.join(name)), "{name}");
            }
        }
        let work = find(&[home.join("work")], Some(&home));
        assert_eq!(work.names, [] as [PathBuf; 0]);
        assert_eq!(relative(&work.missing_paths(), &home), ["work/.github", "work/.mcp.json"]);
    }

    #[test]
    fn a_symlink_is_protected_with_its_target() {
        let (_root, root) = new_root();
        fs::create_dir_all(root.join("dots")).unwrap();
        fs::create_dir(root.join("settings")).unwrap();
        fs::write(root.join("settings/mcp"), "{}").unwrap();
        symlink("settings/mcp", root.join(".mcp.json")).unwrap();
        symlink("dots", root.join(".config")).unwrap();
        symlink("nowhere", root.join(".zshrc")).unwrap();
        let found = find(std::slice::from_ref(&root), Some(&root));
        assert_eq!(relative(&found.names, &root), [".mcp.json", ".zshrc", "settings/mcp"]);
        assert!(found.missing_paths().contains(&root.join("dots/fish")), "{found:?}");
    }

    #[test]
    fn what_is_outside_of_the_workspace_is_not_looked_for() {
        let (_root, root) = new_root();
        let work = root.join("work");
        fs::create_dir_all(root.join("outside")).unwrap();
        fs::create_dir(&work).unwrap();
        symlink("../outside", work.join(".config")).unwrap();
        let found = find(std::slice::from_ref(&work), Some(&work));
        let expected = [".bashrc", ".github", ".mcp.json", ".zshrc"];
        let mut missing = relative(&found.missing_paths(), &work);
        missing.sort();
        assert_eq!((found.names, missing), (Vec::new(), texts(&expected)));
    }

    /// Records what is missing, does this in place of a job, and returns the renamed files, with the
    /// names that they have now.
    fn plant(root: &Path, plant: impl FnOnce()) -> Vec<(String, Option<String>)> {
        let record = tempfile::tempdir().unwrap();
        find(&[root.to_owned()], None).record(record.path()).unwrap();
        plant();
        let name = |path: &Path| path.strip_prefix(root).unwrap().display().to_string();
        let found = set_aside_recorded(record.path());
        assert_eq!(set_aside_recorded(record.path()), [], "the record is used up");
        found.iter().map(|it| (name(&it.path), it.renamed_to.as_deref().map(name))).collect()
    }

    fn renamed(path: &str, now: &str) -> (String, Option<String>) {
        (path.to_owned(), Some(now.to_owned()))
    }

    #[test]
    fn what_appeared_under_a_protected_name_is_renamed_and_nothing_else() {
        let (_root, root) = new_root();
        fs::create_dir(root.join(".git")).unwrap();
        fs::write(root.join(".mcp.json.set-aside"), "mine").unwrap();
        let found = plant(&root, || {
            fs::create_dir_all(root.join(".git/hooks")).unwrap();
            fs::write(root.join(".git/hooks/pre-commit"), "evil").unwrap();
            fs::create_dir_all(root.join(".github")).unwrap();
            fs::write(root.join(".github/dependabot.yml"), "good").unwrap();
            symlink("nowhere", root.join(".github/workflows")).unwrap();
            fs::write(root.join(".mcp.json"), "evil").unwrap();
            fs::write(root.join("other"), "good").unwrap();
        });
        let expected = [
            renamed(".git/hooks", ".git/hooks.set-aside"),
            renamed(".github/workflows", ".github/workflows.set-aside"),
            renamed(".mcp.json", ".mcp.json.set-aside-2"),
        ];
        assert_eq!(found, expected);
        let left = [
            ".git",
            ".git/hooks.set-aside",
            ".git/hooks.set-aside/pre-commit",
            ".github",
            ".github/dependabot.yml",
            ".github/workflows.set-aside",
            ".mcp.json.set-aside",
            ".mcp.json.set-aside-2",
            "other",
        ];
        assert_eq!(relative(&all(&root), &root), left);
        assert_eq!(plant(&root, || ()), []);
    }

    #[test]
    fn what_a_running_job_created_is_missing_for_the_next_one_too() {
        let (_scratch, scratch) = new_root();
        let [server, other] = ["scratch-1", "scratch-2"].map(|name| scratch.join(name));
        let [one, two] = [server.join("one"), other.join("two")];
        for job in [&one, &two] {
            fs::create_dir_all(job).unwrap();
        }
        let (_root, root) = new_root();
        let protected = NAMES.map(PathBuf::from).to_vec();
        let places = SandboxPaths { protected, scratch: other, ..SandboxPaths::default() };
        let roots = std::slice::from_ref(&root);
        find_protected_files(&places, roots).unwrap().record(&one).unwrap();
        fs::create_dir_all(root.join("own/workflows")).unwrap();
        symlink("own", root.join(".github")).unwrap();
        fs::write(root.join(".mcp.json"), "evil").unwrap();
        let found = find_protected_files(&places, roots).unwrap();
        assert_eq!(relative(&found.names, &root), ["own/workflows"]);
        assert_eq!(relative(&found.missing_paths(), &root), [".github", ".mcp.json"]);
        found.record(&two).unwrap();
        assert_eq!(set_aside_recorded(&one).len(), 2);
        // The second job can create them now.
        fs::write(root.join(".mcp.json"), "evil").unwrap();
        fs::create_dir_all(root.join(".github/workflows")).unwrap();
        assert_eq!(set_aside_recorded(&two).len(), 2);
        let found = find_protected_files(&places, roots).unwrap();
        assert_eq!(relative(&found.missing_paths(), &root), [".github/workflows", ".mcp.json"]);
        assert_eq!(found.names, [] as [PathBuf; 0]);
    }

    #[test]
    fn a_link_on_the_way_to_a_protected_name_is_renamed_and_not_followed() {
        let (_other, other) = new_root();
        fs::create_dir(other.join("workflows")).unwrap();
        let (_root, root) = new_root();
        let found = plant(&root, || symlink(&other, root.join(".github")).unwrap());
        assert_eq!(found, [renamed(".github", ".github.set-aside")]);
        assert!(other.join("workflows").exists());
        // The directory around a name was replaced by a link meanwhile.
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir(other.join("hooks")).unwrap();
        let found = plant(&root, || {
            fs::remove_dir(root.join(".git")).unwrap();
            symlink(&other, root.join(".git")).unwrap();
        });
        assert_eq!(found, []);
        assert!(other.join("hooks").exists());
    }

    #[test]
    fn a_directory_that_a_job_closed_to_its_owner_is_no_hindrance() {
        let (_root, root) = new_root();
        fs::create_dir(root.join(".git")).unwrap();
        let closed = |mode| fs::Permissions::from_mode(mode);
        let found = plant(&root, || {
            fs::create_dir(root.join(".git/hooks")).unwrap();
            fs::set_permissions(root.join(".git"), closed(0)).unwrap();
        });
        assert_eq!(found, [renamed(".git/hooks", ".git/hooks.set-aside")]);
        assert_eq!(root.join(".git").metadata().unwrap().permissions().mode() & 0o777, 0);
        fs::set_permissions(root.join(".git"), closed(0o700)).unwrap();
    }
}
