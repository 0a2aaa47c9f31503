//! The workspaces of a job: the directories that it may write to, and those that it has for itself.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use thiserror::Error;

use crate::confinement::SandboxPaths;
use crate::sandbox::mounts::BindMount;

/// A reason why a job has no workspace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkspaceError {
    /// No workspace is set, and the job's directory contains far more than one.
    #[error(
        "the job's directory `{}` is too wide to be its workspace: set confinement.workspace, or run the job in a directory below it",
        .0.display()
    )]
    TooWide(PathBuf),
    /// No workspace is set, and the job's directory is hidden from jobs.
    #[error(
        "the job's directory `{}` is hidden from confined jobs: set confinement.workspace, or run the job elsewhere",
        .0.display()
    )]
    Hidden(PathBuf),
    /// The workspace is `/`, which would confine nothing.
    #[error("`/` cannot be a workspace: set confinement.workspace to directories below it")]
    Everything,
    /// The workspace does not exist or is not a directory, and there is no other.
    #[error("the workspace `{}` cannot be used: {why}; create it or change confinement.workspace", path.display())]
    Unusable {
        /// The path of the workspace.
        path: PathBuf,
        /// The reason of the error.
        why: String,
    },
}

/// Returns the directories to which a job in `cwd` may write: full paths without symlinks, sorted,
/// without duplicates. One may contain another, since something between the two may be hidden.
///
/// These are the existing workspaces of the settings, or else `cwd`.
///
/// # Errors
/// If there is none, or if none is set and `cwd` cannot serve as one: `/`, the home directory,
/// `/tmp` or another shared directory, their ancestors, or a hidden directory.
pub(crate) fn writable_roots(
    places: &SandboxPaths,
    shared: &[SharedDir],
    cwd: &Path,
) -> Result<Vec<PathBuf>, WorkspaceError> {
    if places.workspace.is_empty() {
        let cwd = resolve_dir(cwd)?;
        let home = places.home.as_deref().map(resolve_if_possible);
        let wide: Vec<&Path> =
            home.as_deref().into_iter().chain(shared.iter().map(|it| it.path.as_path())).collect();
        let hidden: Vec<PathBuf> =
            places.hidden.iter().map(|path| resolve_if_possible(path)).collect();
        return check_unchosen(&cwd, &wide, &hidden).map(|()| vec![cwd]);
    }
    let found = places.workspace.iter().map(|path| resolve_dir(path));
    let (found, mut missing): (Vec<_>, Vec<_>) = found.partition(Result::is_ok);
    let found: BTreeSet<PathBuf> = found.into_iter().flatten().collect();
    if found.contains(Path::new("/")) {
        return Err(WorkspaceError::Everything);
    }
    if found.is_empty()
        && let Some(Err(error)) = missing.drain(..).next()
    {
        return Err(error);
    }
    Ok(found.into_iter().collect())
}

/// Returns the directories that a job in `cwd` sees although they are inside a directory of which
/// it has its own copy: the existing workspaces of the settings, and `cwd`.
///
/// # Errors
/// If `cwd` is such a directory itself and was not chosen: then the job would see all of the
/// host's.
pub(crate) fn readable_dirs(
    places: &SandboxPaths,
    shared: &[SharedDir],
    cwd: &Path,
) -> Result<Vec<PathBuf>, WorkspaceError> {
    let chosen = places.workspace.iter().filter_map(|path| resolve_dir(path).ok());
    let mut readable: BTreeSet<PathBuf> = chosen.collect();
    let cwd = resolve_dir(cwd)?;
    let is_chosen = readable.iter().any(|root| cwd.starts_with(root));
    if !is_chosen && shared.iter().any(|place| place.path == cwd) {
        return Err(WorkspaceError::TooWide(cwd));
    }
    if !is_chosen && is_inside_shared(shared, &cwd) {
        readable.insert(cwd);
    }
    Ok(readable.into_iter().collect())
}

/// Checks that the directory of a job can be its workspace without being chosen: it contains none
/// of these wide directories and is not hidden.
fn check_unchosen(cwd: &Path, wide: &[&Path], hidden: &[PathBuf]) -> Result<(), WorkspaceError> {
    let is_too_wide = cwd == Path::new("/") || wide.iter().any(|place| place.starts_with(cwd));
    if is_too_wide {
        return Err(WorkspaceError::TooWide(cwd.to_owned()));
    }
    if hidden.iter().any(|place| cwd.starts_with(place)) {
        return Err(WorkspaceError::Hidden(cwd.to_owned()));
    }
    Ok(())
}

fn resolve_dir(path: &Path) -> Result<PathBuf, WorkspaceError> {
    let unusable = |why: String| WorkspaceError::Unusable { path: path.to_owned(), why };
    match path.canonicalize() {
        Ok(found) if found.is_dir() => Ok(found),
        Ok(_) => Err(unusable("not a directory".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(unusable("no such directory".to_owned()))
        }
        Err(error) => Err(unusable(error.to_string())),
    }
}

/// Resolves a path, as far as possible.
fn resolve_if_possible(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

// Directories that the programs of one user share: temporary files, the sockets of services, the
// home directory. A job in a mount namespace has its own.
//
// A socket takes connections although its directory is read-only, so a job must not see it. New
// sockets appear in these directories at any time, and are not seen there. Sockets elsewhere are
// hidden one by one, if they exist when the job starts.

/// Directories of the host of which a job has its own, each with the name of the directory that it
/// sees there. Symlinks among them are followed.
const SHARED: [(&str, &str); 4] =
    [("/tmp", TEMPORARY), ("/var/tmp", TEMPORARY), ("/run", "run"), ("/var/run", "run")];

/// The name of a job's own directory for temporary files.
pub(crate) const TEMPORARY: &str = "tmp";
const OWN_HOME: &str = "home";

/// System directories that are the home directory of some service's user, or contain it. They are
/// never private: they contain programs.
const SYSTEM: [&str; 13] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/nix", "/opt", "/proc", "/sbin", "/sys",
    "/usr", "/var",
];
/// System directories that can contain a home directory.
const AROUND_HOMES: [&str; 2] = ["/opt", "/var"];

/// The file that says how to resolve host names. It may link into `/run`.
const RESOLVER: &str = "/etc/resolv.conf";

/// The table of unix sockets of this network namespace.
const SOCKETS: &str = "/proc/net/unix";

/// A directory of the host of which a job has its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedDir {
    /// The full path, without symlinks.
    pub(crate) path: PathBuf,
    /// The name of the job's directory.
    pub(crate) own: &'static str,
}

/// Finds the directories of this host that jobs do not share.
pub(crate) fn find_shared_dirs(home: Option<&Path>) -> Vec<SharedDir> {
    let home = home.and_then(|home| home.canonicalize().ok()).filter(|home| can_be_private(home));
    let home = home.map(|path| SharedDir { path, own: OWN_HOME });
    let usual = SHARED.iter().filter_map(|(path, own)| {
        let path = Path::new(path).canonicalize().ok().filter(|path| path.is_dir())?;
        Some(SharedDir { path, own })
    });
    let mut places: Vec<SharedDir> = usual.chain(home).collect();
    places.sort_by(|one, other| one.path.cmp(&other.path));
    places.dedup_by(|one, other| one.path == other.path);
    places
}

fn can_be_private(home: &Path) -> bool {
    let is_in = |places: &[&str]| places.iter().any(|place| home.starts_with(place));
    let is_system = home.parent().is_none() || SYSTEM.iter().any(|place| home == Path::new(place));
    home.is_dir() && !is_system && (!is_in(&SYSTEM) || is_in(&AROUND_HOMES))
}

/// `true` if a path is inside one of these directories, and is not the directory itself.
fn is_inside_shared(places: &[SharedDir], path: &Path) -> bool {
    places.iter().any(|place| path != place.path && path.starts_with(&place.path))
}

/// Returns the mounts of the named paths that a job still sees in these directories. A path that
/// leads through a symlink is seen at its name and at its target.
///
/// A directory that contains one of the shared directories is never shown: through it, the host's
/// would be seen.
pub(crate) fn visible_mounts<'a>(
    places: &[SharedDir],
    named: impl IntoIterator<Item = &'a Path>,
) -> Vec<BindMount> {
    let all = named.into_iter().chain([Path::new(RESOLVER)]);
    let mut shown: Vec<BindMount> = all.flat_map(|path| visible_mounts_of(places, path)).collect();
    shown.sort();
    shown.dedup();
    shown
}

fn visible_mounts_of(places: &[SharedDir], path: &Path) -> Vec<BindMount> {
    let (Ok(source), Some(around), Some(name)) =
        (path.canonicalize(), path.parent(), path.file_name())
    else {
        return Vec::new();
    };
    if places.iter().any(|place| place.path.starts_with(&source)) {
        return Vec::new();
    }
    let named = around.canonicalize().ok().map(|around| around.join(name));
    let seen =
        named.into_iter().chain([source.clone()]).filter(|place| is_inside_shared(places, place));
    seen.map(|place| BindMount { place, source: source.clone() }).collect()
}

/// Finds the sockets with a listener that a job would see: neither in a workspace, nor in a
/// directory of which it has its own, unless that is shown.
pub(crate) fn visible_sockets(
    places: &[SharedDir],
    shown: &[BindMount],
    roots: &[PathBuf],
) -> Vec<PathBuf> {
    let Ok(table) = fs::read(SOCKETS) else { return Vec::new() };
    let mut found: Vec<PathBuf> = Vec::new();
    for socket in table.split(|byte| *byte == b'\n').filter_map(socket_path) {
        let by_shown = shown.iter().filter_map(|it| {
            let rest = socket.strip_prefix(&it.source).ok()?;
            Some(it.place.join(rest))
        });
        let direct = Some(socket.clone()).filter(|path| !is_inside_shared(places, path));
        let seen = direct.into_iter().chain(by_shown);
        let is_chosen = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        found.extend(seen.filter(|path| !is_chosen(path)));
    }
    found.sort();
    found.dedup();
    found
}

/// Returns the real path of a socket from its line of the table, if the socket still exists.
fn socket_path(line: &[u8]) -> Option<PathBuf> {
    let start = line.iter().position(|byte| *byte == b'/')?;
    let path = Path::new(OsStr::from_bytes(line.get(start..)?));
    let path = path.parent()?.canonicalize().ok()?.join(path.file_name()?);
    path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()).then_some(path)
}

/// Returns the existing ones of these places, as full paths without symlinks, to be hidden.
pub(crate) fn resolve_hidden(places: &[PathBuf]) -> Vec<PathBuf> {
    places.iter().filter_map(|place| place.canonicalize().ok()).collect()
}

pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_directory_that_was_not_chosen_must_be_narrow_and_visible() {
        let home = &[Path::new("/home/me"), Path::new("/var/tmp")][..];
        let hidden = [PathBuf::from("/home/me/.ssh"), PathBuf::from("/srv/data")];
        let too_wide = |cwd: &str| Err(WorkspaceError::TooWide(cwd.into()));
        let out_of_sight = |cwd: &str| Err(WorkspaceError::Hidden(cwd.into()));
        for (cwd, home, expected) in [
            ("/", home, too_wide("/")),
            ("/", &[], too_wide("/")),
            ("/home", home, too_wide("/home")),
            ("/home/me", home, too_wide("/home/me")),
            ("/home/me", &[], Ok(())),
            ("/var/tmp", home, too_wide("/var/tmp")),
            ("/var", home, too_wide("/var")),
            ("/var/tmp/x", home, Ok(())),
            ("/home/me/work", home, Ok(())),
            ("/home/mend", home, Ok(())),
            ("/srv", home, Ok(())),
            ("/srv/data", home, out_of_sight("/srv/data")),
            ("/home/me/.ssh/deep", home, out_of_sight("/home/me/.ssh/deep")),
            ("/home/me/.sshd", home, Ok(())),
        ] {
            assert_eq!(check_unchosen(Path::new(cwd), home, &hidden), expected, "{cwd}");
        }
    }

    /// A home directory with a workspace, a file and a link to the workspace.
    fn home() -> (TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().canonicalize().unwrap();
        fs::create_dir_all(home.join("work/deep")).unwrap();
        fs::write(home.join("file"), "").unwrap();
        symlink("work", home.join("link")).unwrap();
        (root, home)
    }

    fn places(home: &Path, workspace: &[&str]) -> SandboxPaths {
        let workspace = workspace.iter().map(|name| home.join(name)).collect();
        SandboxPaths { workspace, home: Some(home.to_owned()), ..SandboxPaths::default() }
    }

    #[test]
    fn without_a_setting_the_directory_of_the_job_is_its_workspace() {
        let (_root, home) = home();
        let places = places(&home, &[]);
        assert_eq!(writable_roots(&places, &[], &home.join("link")), Ok(vec![home.join("work")]));
        assert_eq!(writable_roots(&places, &[], &home), Err(WorkspaceError::TooWide(home.clone())));
        let link = SandboxPaths { home: Some(home.join("link")), ..places };
        assert_eq!(
            writable_roots(&link, &[], &home.join("work")),
            Err(WorkspaceError::TooWide(home.join("work")))
        );
        let hidden = SandboxPaths { home: None, hidden: vec![home.join("link")], ..link };
        let deep = home.join("work/deep");
        assert_eq!(writable_roots(&hidden, &[], &deep), Err(WorkspaceError::Hidden(deep)));
    }

    #[test]
    fn existing_workspaces_of_the_settings_are_used() {
        let (_root, home) = home();
        let found = |names: &[&str]| writable_roots(&places(&home, names), &[], Path::new("/"));
        let nested = ["work", "work/deep"].map(|name| home.join(name)).to_vec();
        assert_eq!(found(&["work/deep", "none", "link", "work"]), Ok(nested));
        assert_eq!(found(&["."]), Ok(vec![home.clone()]));
        assert_eq!(found(&["work", "/"]), Err(WorkspaceError::Everything));
        for (names, why) in
            [(["none", "file"], "no such directory"), (["file", "none"], "not a directory")]
        {
            let text = found(&names).unwrap_err().to_string();
            assert!(text.contains(names[0]) && text.contains(why), "{text}");
        }
    }

    #[test]
    fn a_readable_directory_in_a_private_one_is_chosen_or_the_working_directory() {
        let (_root, home) = home();
        let shared = [SharedDir { path: home.clone(), own: "home" }];
        let [work, deep] = ["work", "work/deep"].map(|name| home.join(name));
        let readable =
            |names: &[&str], cwd: &Path| readable_dirs(&places(&home, names), &shared, cwd);
        assert_eq!(readable(&[], Path::new("/")), Ok(Vec::new()));
        assert_eq!(readable(&[], &home), Err(WorkspaceError::TooWide(home.clone())));
        assert_eq!(readable(&["."], &home), Ok(vec![home.clone()]));
        assert_eq!(readable(&[], &home.join("link")), Ok(vec![work.clone()]));
        assert_eq!(readable(&["work", "none"], &deep), Ok(vec![work.clone()]));
        assert_eq!(readable(&["work/deep"], &work), Ok(vec![work.clone(), deep]));
    }

    fn new_root() -> (TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        (root, path)
    }

    fn shared(path: &Path) -> SharedDir {
        SharedDir { path: path.to_owned(), own: OWN_HOME }
    }

    #[test]
    fn every_host_has_shared_directories_and_links_to_them_are_resolved() {
        let (_root, root) = new_root();
        fs::create_dir(root.join("me")).unwrap();
        symlink("me", root.join("link")).unwrap();
        let found = find_shared_dirs(Some(&root.join("link")));
        for path in ["/tmp", "/run"] {
            let real = Path::new(path).canonicalize().unwrap();
            assert!(found.iter().any(|place| place.path == real), "{path} in {found:?}");
        }
        assert!(found.contains(&shared(&root.join("me"))), "{found:?}");
        let mut paths: Vec<&Path> = found.iter().map(|place| place.path.as_path()).collect();
        paths.dedup();
        assert_eq!(paths.len(), found.len());
    }

    #[test]
    fn a_home_directory_with_programs_of_the_system_is_not_private() {
        let private = |home: &str| {
            find_shared_dirs(Some(Path::new(home))).iter().any(|it| it.own == OWN_HOME)
        };
        for home in ["/", "/usr", "/bin", "/usr/bin", "/var", "/nowhere/at/all", "/dev"] {
            assert!(!private(home), "{home}");
        }
        assert!(can_be_private(Path::new("/var/lib")), "of a service");
    }

    #[test]
    fn named_paths_are_shown_in_a_private_directory_and_its_ancestors_are_not() {
        let (_root, root) = new_root();
        for directory in ["me/.cargo", "elsewhere/tools"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        symlink("../elsewhere/tools", root.join("me/.tools")).unwrap();
        symlink(".cargo", root.join("me/other")).unwrap();
        symlink("/", root.join("me/all")).unwrap();
        let places = [shared(&root.join("me"))];
        let names = ["me/.cargo", "me/.tools", "me/other", "me/all", "me", "elsewhere", "none"];
        let named: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
        let shown = visible_mounts(&places, named.iter().map(PathBuf::as_path));
        let pair =
            |(place, source)| BindMount { place: root.join(place), source: root.join(source) };
        let expected = [
            ("me/.cargo", "me/.cargo"),
            ("me/.tools", "elsewhere/tools"),
            ("me/other", "me/.cargo"),
        ];
        assert_eq!(shown, expected.map(pair));
    }

    #[test]
    fn only_sockets_that_a_job_would_see_are_found() {
        let (_root, root) = new_root();
        for directory in ["me/tools", "work", "srv"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let names = ["me/hidden", "me/tools/shown", "work/own", "srv/service"];
        let _sockets = names.map(|name| UnixListener::bind(root.join(name)).unwrap());
        let stale = UnixListener::bind(root.join("srv/gone")).unwrap();
        fs::remove_file(root.join("srv/gone")).unwrap();
        let places = [shared(&root.join("me"))];
        let tools = root.join("me/tools");
        let shown = [BindMount { place: tools.clone(), source: tools }];
        let found = visible_sockets(&places, &shown, &[root.join("work")]);
        let found: Vec<&Path> = found.iter().filter_map(|it| it.strip_prefix(&root).ok()).collect();
        assert_eq!(found, ["me/tools/shown", "srv/service"].map(Path::new));
        drop(stale);
    }

    #[test]
    fn existing_hidden_places_are_resolved_and_missing_ones_skipped() {
        let (_root, root) = new_root();
        fs::create_dir(root.join("keys")).unwrap();
        symlink("keys", root.join(".ssh")).unwrap();
        assert_eq!(resolve_hidden(&[root.join(".ssh"), root.join(".aws")]), [root.join("keys")]);
    }
}
