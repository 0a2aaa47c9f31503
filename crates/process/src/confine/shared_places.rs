//! The places in which programs of one user meet: temporary files, the sockets of services, the
//! home directory. A job in a mount namespace has its own.
//!
//! A socket takes connections although its place is read-only, so a job must not see it. New sockets
//! appear in these places at any time, and are not seen there. Sockets elsewhere are hidden one by
//! one, if they are there when the job starts.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use super::mounts::Substitute;

/// Places of the host of which a job has its own, each with the name of the directory that it sees
/// there. Links among them are followed.
const SHARED: [(&str, &str); 4] =
    [("/tmp", TEMPORARY), ("/var/tmp", TEMPORARY), ("/run", "run"), ("/var/run", "run")];

/// The name of a job's own directory for temporary files.
pub(crate) const TEMPORARY: &str = "tmp";
const HOME: &str = "home";

/// Directories of the system that are the home of some service's user, or are around it. They are
/// never private: programs are in them.
const SYSTEM: [&str; 13] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/nix", "/opt", "/proc", "/sbin", "/sys",
    "/usr", "/var",
];
/// The places in which a home directory can be.
const AROUND_HOMES: [&str; 2] = ["/opt", "/var"];

/// The file that says how to resolve names of hosts. It may lead into `/run`.
const RESOLVER: &str = "/etc/resolv.conf";

/// The table of unix sockets of this network namespace.
const SOCKETS: &str = "/proc/net/unix";

/// A place of the host of which a job has its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedPlace {
    /// Full and without symlinks.
    pub(crate) path: PathBuf,
    /// The name of the job's directory.
    pub(crate) own: &'static str,
}

/// Finds the places of this host that jobs do not share.
pub(crate) fn find(home: Option<&Path>) -> Vec<SharedPlace> {
    let home = home.and_then(|home| home.canonicalize().ok()).filter(|home| can_be_private(home));
    let home = home.map(|path| SharedPlace { path, own: HOME });
    let usual = SHARED.iter().filter_map(|(path, own)| {
        let path = Path::new(path).canonicalize().ok().filter(|path| path.is_dir())?;
        Some(SharedPlace { path, own })
    });
    let mut places: Vec<SharedPlace> = usual.chain(home).collect();
    places.sort_by(|one, other| one.path.cmp(&other.path));
    places.dedup_by(|one, other| one.path == other.path);
    places
}

fn can_be_private(home: &Path) -> bool {
    let is_in = |places: &[&str]| places.iter().any(|place| home.starts_with(place));
    let is_system = home.parent().is_none() || SYSTEM.iter().any(|place| home == Path::new(place));
    home.is_dir() && !is_system && (!is_in(&SYSTEM) || is_in(&AROUND_HOMES))
}

/// `true` if a path lies in one of these places, and is not the place itself.
pub(crate) fn holds(places: &[SharedPlace], path: &Path) -> bool {
    places.iter().any(|place| path != place.path && path.starts_with(&place.path))
}

/// Finds what a job still sees in these places, of the paths that somebody named. A path that leads
/// through a symlink is seen where it is named and where it is.
///
/// A directory that one of the places is in is never shown: with it, the host's would be seen.
pub(crate) fn shown<'a>(
    places: &[SharedPlace],
    named: impl IntoIterator<Item = &'a Path>,
) -> Vec<Substitute> {
    let all = named.into_iter().chain([Path::new(RESOLVER)]);
    let mut shown: Vec<Substitute> = all.flat_map(|path| show(places, path)).collect();
    shown.sort();
    shown.dedup();
    shown
}

fn show(places: &[SharedPlace], path: &Path) -> Vec<Substitute> {
    let (Ok(source), Some(around), Some(name)) =
        (path.canonicalize(), path.parent(), path.file_name())
    else {
        return Vec::new();
    };
    if places.iter().any(|place| place.path.starts_with(&source)) {
        return Vec::new();
    }
    let named = around.canonicalize().ok().map(|around| around.join(name));
    let seen = named.into_iter().chain([source.clone()]).filter(|place| holds(places, place));
    seen.map(|place| Substitute { place, source: source.clone() }).collect()
}

/// Finds the sockets that programs listen on now and that a job would see: neither in a workspace,
/// nor in a place of which it has its own, unless that is shown.
pub(crate) fn sockets_in_sight(
    places: &[SharedPlace],
    shown: &[Substitute],
    roots: &[PathBuf],
) -> Vec<PathBuf> {
    let Ok(table) = fs::read(SOCKETS) else { return Vec::new() };
    let mut found: Vec<PathBuf> = Vec::new();
    for socket in table.split(|byte| *byte == b'\n').filter_map(socket_path) {
        let by_shown = shown.iter().filter_map(|it| {
            let rest = socket.strip_prefix(&it.source).ok()?;
            Some(it.place.join(rest))
        });
        let direct = Some(socket.clone()).filter(|path| !holds(places, path));
        let seen = direct.into_iter().chain(by_shown);
        let is_chosen = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        found.extend(seen.filter(|path| !is_chosen(path)));
    }
    found.sort();
    found.dedup();
    found
}

/// The path of a socket, from its line of the table: where it really is, if it is still there.
fn socket_path(line: &[u8]) -> Option<PathBuf> {
    let start = line.iter().position(|byte| *byte == b'/')?;
    let path = Path::new(std::ffi::OsStr::from_bytes(line.get(start..)?));
    let path = path.parent()?.canonicalize().ok()?.join(path.file_name()?);
    path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()).then_some(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use tempfile::TempDir;

    use super::*;

    fn place() -> (TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        (root, path)
    }

    fn shared(path: &Path) -> SharedPlace {
        SharedPlace { path: path.to_owned(), own: HOME }
    }

    #[test]
    fn every_host_has_places_that_are_shared_and_a_link_to_one_is_the_same() {
        let (_root, root) = place();
        fs::create_dir(root.join("me")).unwrap();
        symlink("me", root.join("link")).unwrap();
        let found = find(Some(&root.join("link")));
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
    fn a_home_that_holds_programs_of_the_system_stays_as_it_is() {
        let private = |home: &str| find(Some(Path::new(home))).iter().any(|it| it.own == HOME);
        for home in ["/", "/usr", "/bin", "/usr/bin", "/var", "/nowhere/at/all", "/dev"] {
            assert!(!private(home), "{home}");
        }
        assert!(can_be_private(Path::new("/var/lib")), "of a service");
    }

    #[test]
    fn what_is_named_is_shown_in_a_private_place_and_what_is_around_one_is_not() {
        let (_root, root) = place();
        for directory in ["me/.cargo", "elsewhere/tools"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        symlink("../elsewhere/tools", root.join("me/.tools")).unwrap();
        symlink(".cargo", root.join("me/other")).unwrap();
        symlink("/", root.join("me/all")).unwrap();
        let places = [shared(&root.join("me"))];
        let names = ["me/.cargo", "me/.tools", "me/other", "me/all", "me", "elsewhere", "none"];
        let named: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
        let shown = shown(&places, named.iter().map(PathBuf::as_path));
        let pair =
            |(place, source)| Substitute { place: root.join(place), source: root.join(source) };
        let expected = [
            ("me/.cargo", "me/.cargo"),
            ("me/.tools", "elsewhere/tools"),
            ("me/other", "me/.cargo"),
        ];
        assert_eq!(shown, expected.map(pair));
    }

    #[test]
    fn sockets_are_found_where_a_job_would_see_them() {
        let (_root, root) = place();
        for directory in ["me/tools", "work", "srv"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let names = ["me/hidden", "me/tools/shown", "work/own", "srv/service"];
        let _sockets = names.map(|name| UnixListener::bind(root.join(name)).unwrap());
        let stale = UnixListener::bind(root.join("srv/gone")).unwrap();
        fs::remove_file(root.join("srv/gone")).unwrap();
        let places = [shared(&root.join("me"))];
        let tools = root.join("me/tools");
        let shown = [Substitute { place: tools.clone(), source: tools }];
        let found = sockets_in_sight(&places, &shown, &[root.join("work")]);
        let found: Vec<&Path> = found.iter().filter_map(|it| it.strip_prefix(&root).ok()).collect();
        assert_eq!(found, ["me/tools/shown", "srv/service"].map(Path::new));
        drop(stale);
    }
}
