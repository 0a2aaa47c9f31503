//! In real namespaces: this program is run once more, in the place of a job.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, StatVfsMountFlags, renameat_with, statvfs};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::process::geteuid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

use super::super::protected::{self, Guarded, Protection, guard};
use super::super::scratch::{Scratch, ScratchRoot};
use super::super::shared_places::{SharedPlace, shown};
use super::super::workspace::roots;
use super::*;
use crate::confinement::{ConfinedPlaces, Profile};

const THIS: &str = "process::confine::mounts::tests";
const SECRET: &str = "secret";

const PROTECTED: [&str; 8] = [
    ".git/hooks",
    ".mcp.json",
    "~/.bashrc",
    "~/.profile",
    "~/.zshenv",
    "~/.zshrc",
    "~/.config/fish/config.fish",
    "~/.config/fish/conf.d",
];

/// A host in small: a home with a workspace, secrets, and something beside it.
struct Host {
    _folder: TempDir,
    base: PathBuf,
    scratch_root: Option<ScratchRoot>,
    scratch: Option<Scratch>,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for (path, text) in [
            ("outside/file", "old"),
            ("home/.ssh/id", SECRET),
            ("home/.netrc", SECRET),
            ("home/data/tokens", SECRET),
            ("home/data/ws/file", "old"),
            ("home/dots/bashrc", "old"),
            ("home/.config/some", "old"),
            ("home/work/file", "old"),
            ("home/work/.git/config", "old"),
            ("home/work/.git/hooks/pre-commit", "old"),
            ("home/bare/.git/config", "old"),
        ] {
            let path = base.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        symlink("dots/bashrc", base.join("home/.bashrc")).unwrap();
        symlink("nowhere", base.join("home/.zshenv")).unwrap();
        for name in ["tmp", "records", "home/work/disc"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        Self { _folder: folder, base, scratch_root: None, scratch: None }
    }

    /// Runs a test as a job, and checks that the host is afterwards as it was before.
    fn run(mut self, workspace: &[&str], test: &str) {
        let before = snapshot(&self.base);
        let root = ScratchRoot::make(&self.base.join("tmp")).unwrap();
        let _other = Scratch::make(root.path()).unwrap();
        let scratch = Scratch::make(root.path()).unwrap();
        scratch.directory("own").unwrap();
        fs::write(self.base.join("tmp/scratch"), scratch.path().to_str().unwrap()).unwrap();
        (self.scratch_root, self.scratch) = (Some(root), Some(scratch));
        // The server guards for as long as the job runs.
        let (_, guarded) = prepared(&self.base, workspace);
        in_namespaces(&self.base, test);
        assert!(guarded.names().iter().all(|name| name.symlink_metadata().is_ok()));
        drop((guarded, self.scratch.take(), _other));
        // A thread removes them, which must not meet the end of the server's own directory.
        let root = self.scratch_root.take().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while fs::read_dir(root.path()).unwrap().count() > 0 {
            assert!(Instant::now() < deadline, "{:?}", snapshot(root.path()));
            std::thread::yield_now();
        }
        drop(root);
        fs::remove_file(self.base.join("tmp/scratch")).unwrap();
        for record in fs::read_dir(self.base.join("records")).unwrap() {
            fs::remove_file(record.unwrap().path()).unwrap();
        }
        assert_eq!(snapshot(&self.base), before);
    }
}

/// The workspaces below the home, and what is guarded in them.
fn prepared(base: &Path, workspace: &[&str]) -> (Vec<PathBuf>, Guarded) {
    let home = base.join("home");
    let places = ConfinedPlaces {
        workspace: workspace.iter().map(|name| home.join(name)).collect(),
        home: Some(home.clone()),
        ..ConfinedPlaces::default()
    };
    let roots = roots(&places, &[], Path::new("/")).unwrap();
    let names = PROTECTED.map(PathBuf::from);
    let records = &base.join("records");
    let protection = Protection { roots: &roots, names: &names, home: Some(&home), records };
    let guarded = guard(&protection).unwrap();
    (roots, guarded)
}

/// Every path with its kind, mode and content.
fn snapshot(path: &Path) -> BTreeMap<PathBuf, (u32, String)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        let text = metadata.is_file().then(|| fs::read_to_string(&path).unwrap());
        if metadata.is_dir() {
            found.append(&mut snapshot(&path));
        }
        found.insert(path, (metadata.mode(), text.unwrap_or_default()));
    }
    found
}

/// This program, given as standard input: it is found so by users who cannot reach its path.
fn this_program() -> File {
    File::open("/proc/self/exe").unwrap()
}

#[track_caller]
fn check_passed(command: &mut Command) {
    let output = command.stdin(this_program()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    let has_run = !told.contains(" 0 passed") && told.contains(" passed");
    assert!(output.status.success() && has_run, "{command:?}: {told}\n{complaint}");
}

#[track_caller]
fn in_namespaces(base: &Path, test: &str) {
    let namespaces = ["--user", "--map-current-user", "--keep-caps", "--mount", "--pid", "--fork"];
    let test = format!("{THIS}::{test}");
    let mut command = Command::new("unshare");
    command.args(namespaces).arg("/proc/self/fd/0").arg(test).args(["--exact", "--ignored"]);
    check_passed(command.current_dir(base));
}

/// What a job finds: to be made in namespaces, by a test that [`in_namespaces`] runs.
struct Inside {
    base: PathBuf,
    scratch: PathBuf,
}

impl Inside {
    fn new(profile: Profile, workspace: &[&str]) -> Self {
        Self::with_private(profile, workspace, &[], &[])
    }

    /// The same with places of its own, and what is shown in them.
    fn with_private(profile: Profile, workspace: &[&str], own: &[&str], seen: &[&str]) -> Self {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap();
        let count = map.split_whitespace().nth(2);
        assert_eq!(count, Some("1"), "to be run in namespaces of its own, not on the host");
        let base = std::env::current_dir().unwrap();
        let scratch = PathBuf::from(fs::read_to_string(base.join("tmp/scratch")).unwrap());
        let (roots, guarded) = prepared(&base, workspace);
        let secret = [".ssh", ".netrc", "data", ".aws"].map(|name| base.join("home").join(name));
        let mut hidden = protected::hidden(&secret);
        hidden.extend(scratch.parent().map(Path::to_owned));
        let shared: Vec<SharedPlace> =
            own.iter().map(|path| SharedPlace { path: base.join(path), own: "own" }).collect();
        let own_directory = scratch.join("own");
        let private: Vec<Substitute> = shared
            .iter()
            .map(|it| Substitute { place: it.path.clone(), source: own_directory.clone() })
            .collect();
        let named: Vec<PathBuf> = seen.iter().map(|path| base.join(path)).collect();
        let view = View {
            profile,
            roots: &roots,
            private: &private,
            shown: &shown(&shared, named.iter().map(PathBuf::as_path)),
            guarded: guarded.names(),
            hidden: &hidden,
            temporary: Some(&scratch),
        };
        apply(&plan(&view)).unwrap();
        own_proc().unwrap();
        Self { base, scratch }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.base.join(path)
    }

    #[track_caller]
    fn check_writable(&self, directory: &str) {
        check_writable(&self.at(directory));
    }

    /// Whatever one tries, all that is there stays as it is.
    #[track_caller]
    fn check_read_only(&self, path: &str) {
        let path = self.at(path);
        let new = path.join("new");
        if path.is_dir() {
            check_errno(fs::write(&new, "new"), &[Errno::ROFS]);
            check_errno(fs::create_dir(&new), &[Errno::ROFS]);
            check_errno(symlink("x", &new), &[Errno::ROFS]);
        } else {
            check_errno(fs::write(&path, "new"), &[Errno::ROFS]);
        }
        check_errno(fs::set_permissions(&path, PermissionsExt::from_mode(0o777)), &[Errno::ROFS]);
    }

    /// Nothing is there, and nothing can be put there.
    #[track_caller]
    fn check_empty(&self, path: &str) {
        let path = self.at(path);
        check_errno(fs::write(&path, "new"), &[Errno::NXIO]);
        check_errno(fs::create_dir(&path), &[Errno::EXIST]);
        check_errno(fs::set_permissions(&path, PermissionsExt::from_mode(0o777)), &[Errno::ROFS]);
    }

    /// Neither by any means that takes it away or puts something else in its place.
    #[track_caller]
    fn check_irreplaceable(&self, path: &str) {
        let busy = [Errno::BUSY, Errno::NOTDIR, Errno::ISDIR, Errno::XDEV];
        let path = self.at(path);
        let around = path.parent().unwrap();
        let (file, folder) = (around.join("new-file"), around.join("new-folder"));
        fs::write(&file, "new").unwrap();
        fs::create_dir(&folder).unwrap();
        for new in [&file, &folder] {
            check_errno(fs::rename(new, &path), &busy);
            check_errno(exchange(new, &path), &[Errno::BUSY]);
        }
        check_errno(fs::rename(&path, around.join("away")), &[Errno::BUSY]);
        check_errno(fs::remove_file(&path), &[Errno::BUSY, Errno::ISDIR]);
        check_errno(fs::remove_dir(&path), &[Errno::BUSY, Errno::NOTDIR]);
        check_errno(fs::hard_link(&path, around.join("other")), &[Errno::XDEV, Errno::PERM]);
        fs::remove_file(file).unwrap();
        fs::remove_dir(folder).unwrap();
    }
}

fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[track_caller]
fn check_writable(directory: &Path) {
    let (new, other) = (directory.join("new"), directory.join("other"));
    fs::write(&new, "new").unwrap();
    fs::rename(&new, &other).unwrap();
    fs::set_permissions(&other, PermissionsExt::from_mode(0o400)).unwrap();
    fs::remove_file(&other).unwrap();
}

#[track_caller]
fn check_errno(outcome: io::Result<()>, expected: &[Errno]) {
    let errno = Errno::from_io_error(&outcome.unwrap_err()).unwrap();
    assert!(expected.contains(&errno), "{errno:?} is none of {expected:?}");
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_job_writes_to_its_workspace_alone() {
    Host::new().run(&["work"], "inside_a_workspace");
}

#[test]
#[ignore = "run in namespaces by the test above"]
fn inside_a_workspace() {
    let work = find_on_host("home/work");
    let outside = find_on_host("outside");
    let forbidden = MountFlags::RDONLY | MountFlags::NOEXEC;
    mount("none", "home/work/disc", "tmpfs", forbidden, None).unwrap();
    let inside = Inside::new(Profile::WorkspaceWrite, &["work"]);
    // What the host forbids on what is mounted in the workspace stays forbidden.
    inside.check_read_only("home/work/disc");
    let flags = statvfs(inside.at("home/work/disc")).unwrap().f_flag;
    assert!(flags.contains(StatVfsMountFlags::NOEXEC | StatVfsMountFlags::NOSUID), "{flags:?}");
    for writable in ["home/work", "home/work/.git"] {
        inside.check_writable(writable);
    }
    check_writable(&inside.scratch);
    for read_only in ["outside", "outside/file", "home", "tmp", "home/work/.git/hooks"] {
        inside.check_read_only(read_only);
    }
    inside.check_read_only("home/work/.git/hooks/pre-commit");
    for guarded in ["home/work/.mcp.json", "home/work/.git/hooks", "home/work/.git"] {
        inside.check_irreplaceable(guarded);
    }
    check_errno(fs::write(inside.at("home/work/.mcp.json"), "new"), &[Errno::NXIO]);
    check_errno(fs::create_dir(inside.at("home/work/.mcp.json/x")), &[Errno::NOTDIR]);
    let moved = fs::rename(inside.at("outside/file"), inside.at("home/work/taken"));
    check_errno(moved, &[Errno::XDEV, Errno::ROFS]);
    let linked = fs::hard_link(inside.at("outside/file"), inside.at("home/work/taken"));
    check_errno(linked, &[Errno::XDEV]);
    symlink(inside.at("outside/file"), inside.at("home/work/way")).unwrap();
    check_errno(fs::write(inside.at("home/work/way"), "new"), &[Errno::ROFS]);
    fs::remove_file(inside.at("home/work/way")).unwrap();
    // The directory of the job is that of the workspace, not the one that was opened on the host.
    check_errno(enter(outside.as_fd(), &inside.at("home/work")), &[Errno::STALE]);
    enter(work.as_fd(), &inside.at("home/work")).unwrap();
    check_writable(Path::new("."));
    check_errno(fs::write("../new", "new"), &[Errno::ROFS]);
}

fn find_on_host(path: &str) -> File {
    File::open(std::env::current_dir().unwrap().join(path)).unwrap()
}

#[test]
fn a_job_does_not_see_what_is_hidden() {
    Host::new().run(&["work"], "inside_without_secrets");
}

#[test]
#[ignore = "run in namespaces by the test above"]
fn inside_without_secrets() {
    let data = find_on_host("home/data");
    let inside = Inside::new(Profile::WorkspaceWrite, &["work"]);
    for directory in ["home/.ssh", "home/data"] {
        assert_eq!(names(&inside.at(directory)), [""; 0]);
        inside.check_read_only(directory);
    }
    assert_eq!(fs::read_to_string(inside.at("home/.netrc")).unwrap(), "");
    let own = inside.scratch.file_name().unwrap().to_str().unwrap();
    assert_eq!(names(inside.scratch.parent().unwrap()), [own]);
    check_errno(enter(data.as_fd(), &inside.at("home/data")), &[Errno::STALE]);
}

#[test]
fn a_job_has_devices_and_processes_of_its_own() {
    Host::new().run(&["work"], "inside_a_small_system");
}

#[test]
#[ignore = "run in namespaces by the test above"]
fn inside_a_small_system() {
    let given = terminal();
    rustix::stdio::dup2_stdin(&given).unwrap();
    let _inside = Inside::new(Profile::WorkspaceWrite, &["work"]);
    let expected = "console fd full null ptmx pts random shm stderr stdin stdout tty urandom zero";
    assert_eq!(names(Path::new("/dev")).join(" "), expected);
    File::options().write(true).open("/dev/null").unwrap().write_all(b"x").unwrap();
    let mut zeroes = [1; 4];
    File::open("/dev/zero").unwrap().read_exact(&mut zeroes).unwrap();
    assert_eq!(zeroes, [0; 4]);
    assert_eq!(names(Path::new("/dev/shm")), [""; 0]);
    check_writable(Path::new("/dev/shm"));
    check_errno(fs::write("/dev/new", "x"), &[Errno::ROFS]);
    check_errno(fs::set_permissions("/dev/null", PermissionsExt::from_mode(0o000)), &[Errno::ROFS]);
    // The terminal that it was given has a name, and those of others have none.
    let rdev = |file: &File| file.metadata().unwrap().rdev();
    assert_eq!(rdev(&File::open("/dev/console").unwrap()), rdev(&given));
    assert_eq!(names(Path::new("/dev/pts")), ["ptmx"]);
    let own = terminal();
    assert_eq!(names(Path::new("/dev/pts")), ["0", "ptmx"]);
    drop(own);
    // This program is the first process of its namespace.
    assert_eq!(fs::read_link("/proc/self").unwrap(), Path::new("1"));
    check_errno(fs::write("/proc/self/comm", "x"), &[Errno::ROFS]);
    check_errno(fs::write("/proc/sys/kernel/core_pattern", "x"), &[Errno::ROFS, Errno::ACCESS]);
    for path in ["/", "/sys", "/proc"] {
        let flags = statvfs(path).unwrap().f_flag;
        assert!(flags.contains(StatVfsMountFlags::RDONLY | StatVfsMountFlags::NOSUID), "{path}");
    }
}

/// A new terminal. Its other end is left open: it would hang up.
fn terminal() -> File {
    let other = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&other).unwrap();
    unlockpt(&other).unwrap();
    let name = ptsname(&other, Vec::new()).unwrap();
    std::mem::forget(other);
    File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap()
}

#[test]
fn a_job_cannot_change_what_shells_read_where_its_home_is_its_workspace() {
    Host::new().run(&["", "data/ws"], "inside_a_home");
}

#[test]
#[ignore = "run in namespaces by the test above"]
fn inside_a_home() {
    let inside = Inside::new(Profile::WorkspaceWrite, &["", "data/ws"]);
    for writable in ["home", "home/dots", "home/.config", "home/work", "home/data/ws"] {
        inside.check_writable(writable);
    }
    // What a link leads to is seen in its place, and is as constant as the link.
    for link in ["home/.bashrc", "home/dots/bashrc"] {
        assert_eq!(fs::read_to_string(inside.at(link)).unwrap(), "old");
        inside.check_read_only(link);
        inside.check_irreplaceable(link);
    }
    for name in ["home/dots", "home/.zshenv", "home/.zshrc", "home/.config", "home/.ssh"] {
        inside.check_irreplaceable(name);
    }
    inside.check_read_only("home/.ssh");
    for name in ["home/.zshrc", "home/.profile", "home/.config/fish"] {
        inside.check_empty(name);
    }
    // A workspace in what is hidden, and nothing beside it.
    assert_eq!(names(&inside.at("home/data")), ["ws"]);
    assert_eq!(fs::read_to_string(inside.at("home/data/ws/file")).unwrap(), "old");
    inside.check_read_only("home/data");
}

#[test]
fn a_job_that_only_reads_writes_to_its_temporary_directory_alone() {
    Host::new().run(&["bare"], "inside_read_only");
}

#[test]
#[ignore = "run in namespaces by the test above"]
fn inside_read_only() {
    let inside = Inside::new(Profile::ReadOnly, &["bare"]);
    check_writable(&inside.scratch);
    for read_only in ["home/bare", "home/bare/.git", "home/bare/.git/config", "home/work"] {
        inside.check_read_only(read_only);
    }
    assert_eq!(names(&inside.at("home/.ssh")), [""; 0]);
}

#[test]
fn a_missing_directory_of_hooks_is_not_made_by_a_job() {
    Host::new().run(&["bare"], "inside_without_hooks");
}

#[test]
#[ignore = "run in namespaces by the test above"]
fn inside_without_hooks() {
    let inside = Inside::new(Profile::WorkspaceWrite, &["bare"]);
    inside.check_empty("home/bare/.git/hooks");
    inside.check_irreplaceable("home/bare/.git/hooks");
    inside.check_irreplaceable("home/bare/.git");
}

#[test]
fn a_job_has_places_of_its_own_in_which_only_what_is_shown_is_the_hosts() {
    Host::new().run(&["work"], "inside_places_of_its_own");
}

#[test]
#[ignore = "run in namespaces by the test above"]
fn inside_places_of_its_own() {
    let seen = ["home/dots", "home/.bashrc", "home/.ssh/id", "outside"];
    let inside =
        Inside::with_private(Profile::WorkspaceWrite, &["work"], &["home", "outside"], &seen);
    // The one is seen in both places here, and with what was put there for the others.
    inside.check_writable("home");
    inside.check_writable("outside");
    assert_eq!(names(&inside.at("home")), [".bashrc", "dots", "work"]);
    inside.check_writable("home/work");
    for (path, text) in
        [("home/dots/bashrc", "old"), ("home/.bashrc", "old"), ("home/work/file", "old")]
    {
        assert_eq!(fs::read_to_string(inside.at(path)).unwrap(), text, "{path}");
    }
    inside.check_read_only("home/dots");
    inside.check_read_only("home/.bashrc");
    // It is as it was on the host afterwards.
    fs::write(inside.at("home/.profile"), "gone").unwrap();
    fs::write(inside.at("outside/file"), "gone").unwrap();
}

/// Everything above once more as a user without privileges, where the tests are run by root.
#[test]
fn all_of_it_holds_for_an_unprivileged_user() {
    if !geteuid().is_root() {
        return; // then it is such a user who has run what is above
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "/proc/self/fd/0"]);
    check_passed(command.arg(format!("{THIS}::a_")).current_dir("/"));
}
