//! The file system of a job in its own mount namespace.
//!
//! Everything is read-only except for the workspace and a few directories of which the job has its
//! own, such as `/tmp`. [`plan_mounts`] decides, in the server; [`apply_mounts`] does it, in a new
//! process with fresh user and mount namespaces. What stays writable is copied before everything
//! becomes read-only, so that each copied mount keeps the host's restrictions: nothing is ever made
//! looser, which the kernel would not allow.
//!
//! Linux 5.12 is needed, for `mount_setattr`: an older one answers with `ENOSYS`.
#![expect(unsafe_code, reason = "mount_setattr has no safe wrapper")]

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount, mount_change,
    move_mount, open_tree,
};
use rustix::process::fchdir;
use rustix::stdio::stdin;
use serde::{Deserialize, Serialize};

use crate::confinement::SandboxProfile;
use crate::wire::path_bytes;

// The decision what a job sees and where it may write.

/// One change to what a job sees. A later one covers an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mount {
    /// This directory, with everything below it, is writable.
    Writable(#[serde(with = "path_bytes")] PathBuf),
    /// A writable directory inside a writable one: it cannot be renamed, removed or replaced.
    Pinned(#[serde(with = "path_bytes")] PathBuf),
    /// This file or directory cannot be written, renamed, removed or replaced, although its parent
    /// is writable.
    ReadOnly(#[serde(with = "path_bytes")] PathBuf),
    /// An empty directory or file covers this one.
    Hidden(#[serde(with = "path_bytes")] PathBuf),
    /// A directory of the job's own replaces the host's. It is writable.
    Private(BindMount),
    /// A file or directory of the host is readable inside a directory that is the job's own.
    Shown(BindMount),
}

/// A path, and the file or directory of the host that a job sees there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct BindMount {
    #[serde(with = "path_bytes")]
    pub(crate) place: PathBuf,
    #[serde(with = "path_bytes")]
    pub(crate) source: PathBuf,
}

impl Mount {
    /// Returns the path that changes.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Writable(path)
            | Self::Pinned(path)
            | Self::ReadOnly(path)
            | Self::Hidden(path)
            | Self::Private(BindMount { place: path, .. })
            | Self::Shown(BindMount { place: path, .. }) => path,
        }
    }
}

/// The input of a plan. All paths are full and without symlinks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MountView<'a> {
    pub(crate) profile: SandboxProfile,
    /// The workspaces ([`super::workspace::writable_roots`]). In a read-only view they are
    /// readable.
    pub(crate) roots: &'a [PathBuf],
    /// The directories of which the job gets its own, with the job's directories.
    pub(crate) private: &'a [BindMount],
    /// The parts of those directories that are still visible.
    pub(crate) shown: &'a [BindMount],
    /// The files in the workspaces that must not change
    /// ([`super::protected_files::ProtectedFiles::names`]).
    pub(crate) protected_files: &'a [PathBuf],
    /// Paths that do not exist, in directories that must stay where they are
    /// ([`super::protected_files::ProtectedFiles::missing_paths`]).
    pub(crate) missing_files: &'a [PathBuf],
    /// The paths that cannot be read ([`super::workspace::resolve_hidden`]).
    pub(crate) hidden: &'a [PathBuf],
    /// The job's own temporary directory on the host, if it is not seen in a private directory.
    pub(crate) temporary: Option<&'a Path>,
}

/// Returns the changes, in order: none for a profile that does not limit files.
///
/// The innermost named path decides. A workspace in a hidden directory is visible there, alone; a
/// hidden directory in a workspace is hidden; a path that is both is a workspace, since it was
/// chosen. Nothing else of a hidden directory is visible.
pub(crate) fn plan_mounts(view: &MountView<'_>) -> Vec<Mount> {
    let chosen: fn(PathBuf) -> Mount = match view.profile {
        SandboxProfile::None | SandboxProfile::Default => return Vec::new(),
        SandboxProfile::WorkspaceWrite => Mount::Writable,
        SandboxProfile::ReadOnly => {
            |path| Mount::Shown(BindMount { place: path.clone(), source: path })
        }
    };
    let pinned = view
        .protected_files
        .iter()
        .chain(view.missing_files)
        .flat_map(|name| pinned_dirs(name, view.roots))
        .map(Mount::Pinned);
    let read_only = view.protected_files.iter().cloned().map(Mount::ReadOnly);
    // Inside a workspace that was chosen, a directory is that of the host.
    let is_chosen = |path: &Path| view.roots.iter().any(|root| path.starts_with(root));
    let private = view.private.iter().filter(|it| !is_chosen(&it.place));
    let private = private.cloned().map(Mount::Private);
    let is_hidden = |path: &Path| view.hidden.iter().any(|hidden| path.starts_with(hidden));
    let shown = view.shown.iter().filter(|it| !is_hidden(&it.place) && !is_hidden(&it.source));
    let shown = shown.cloned().map(Mount::Shown);
    let hidden = view.hidden.iter().cloned().map(Mount::Hidden);
    let own = view.temporary.map(Path::to_owned).map(Mount::Writable);
    // Of several mounts for the same path the last is kept. Paths compare by their components: a
    // parent comes before its children.
    let places: BTreeMap<PathBuf, Mount> = pinned
        .chain(read_only)
        .chain(private)
        .chain(shown)
        .chain(hidden)
        .chain(view.roots.iter().cloned().map(chosen))
        .chain(own)
        .map(|mount| (mount.path().to_owned(), mount))
        .collect();
    effective_mounts(places.into_values())
}

/// Returns the directories between a path and its workspace. If one of them could be renamed, the
/// path could be created anew.
fn pinned_dirs<'a>(name: &'a Path, roots: &'a [PathBuf]) -> impl Iterator<Item = PathBuf> + 'a {
    let root = roots.iter().filter(|root| name.starts_with(root)).max();
    let between =
        move |path: &&Path| root.is_some_and(|root| path.starts_with(root) && path != root);
    name.ancestors().skip(1).take_while(between).map(Path::to_owned)
}

/// Returns the mounts that change something, given their surroundings.
fn effective_mounts(mounts: impl Iterator<Item = Mount>) -> Vec<Mount> {
    let mut kept: Vec<Mount> = Vec::new();
    for mount in mounts {
        let around = kept.iter().rev().find(|outer| mount.path().starts_with(outer.path()));
        if changes_view(&mount, around) {
            kept.push(mount);
        }
    }
    kept
}

/// `true` if a mount differs from its surroundings, which are read-only by default.
fn changes_view(mount: &Mount, around: Option<&Mount>) -> bool {
    let is_writable = matches!(around, Some(Mount::Writable(_) | Mount::Pinned(_)));
    let is_empty = matches!(around, Some(Mount::Hidden(_) | Mount::Private(_)));
    match mount {
        // One inside another cannot be renamed either.
        Mount::Writable(_) | Mount::Private(_) => true,
        Mount::Pinned(_) | Mount::ReadOnly(_) => is_writable,
        Mount::Shown(_) => is_empty,
        Mount::Hidden(_) => !is_empty,
    }
}

// The changes to what this process sees.

const READ_ONLY: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY;
const NO_SETUID: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID;
const NO_DEVICES: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NODEV;
/// A file that reads as empty and discards what is written to it.
const NULL: &str = "/dev/null";

/// Makes everything read-only in this mount namespace, then applies these changes, in this order.
/// Afterwards `/dev` is the namespace's own, and no set-user-id program gains privileges.
///
/// Call it once, in fresh user and mount namespaces. Open files and directories still refer to the
/// host: the current directory must be entered anew ([`enter_directory`]).
///
/// # Errors
/// If the system refuses one of them. The file system is then in an intermediate state, and the
/// process must end.
pub(crate) fn apply_mounts(mounts: &[Mount]) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let taken = mounts.iter().map(copy_source).collect::<io::Result<Vec<_>>>()?;
    let devices = DevMounts::collect()?;
    let everything = open_without_symlinks(Path::new("/"))?;
    restrict_mount(everything.as_fd(), READ_ONLY | NO_SETUID, MountScope::Recursive)?;
    devices.mount()?;
    let mut covers = Vec::new();
    for (mount, taken) in mounts.iter().zip(taken) {
        match taken {
            Some(tree) => attach(&tree, mount.path())?,
            None => covers.extend(cover(mount.path())?),
        }
    }
    // Only now: the mount points of what is visible inside them were created in them.
    covers
        .iter()
        .try_for_each(|cover_mount| Ok(cover_mount.restrict(READ_ONLY, MountScope::Single)?))
}

/// Mounts the `/proc` of this process's own pid namespace.
///
/// It is read-only: to the kernel, root in a user namespace that maps it to itself owns the host's
/// settings in it. Processes lose nothing that they need to change about themselves.
///
/// # Errors
/// If the system refuses, as it does if parts of the host's own are covered.
pub(crate) fn mount_proc() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    Ok(mount(c"proc", c"/proc", c"proc", flags, None)?)
}

/// Copies what is to be seen there; `None` for a hidden path.
fn copy_source(mount: &Mount) -> io::Result<Option<DetachedMount>> {
    let (tree, restrictions) = match mount {
        Mount::Hidden(_) => return Ok(None),
        Mount::Writable(path) | Mount::Pinned(path) => {
            (DetachedMount::clone_from(&open_without_symlinks(path)?)?, NO_SETUID)
        }
        Mount::ReadOnly(path) => {
            (DetachedMount::clone_from(&open_read_only_source(path)?)?, NO_SETUID | READ_ONLY)
        }
        Mount::Private(own) => (
            DetachedMount::clone_from(&open_without_symlinks(&own.source)?)?,
            NO_SETUID | NO_DEVICES,
        ),
        Mount::Shown(theirs) => (
            DetachedMount::clone_from(&open_without_symlinks(&theirs.source)?)?,
            NO_SETUID | READ_ONLY,
        ),
    };
    tree.restrict(restrictions, MountScope::Recursive)?;
    Ok(Some(tree))
}

/// Opens what is seen at a read-only path. For a symlink it is the target file, or an empty file if
/// there is none: only files can be mounted over a symlink.
fn open_read_only_source(path: &Path) -> io::Result<OwnedFd> {
    let found = open_without_symlinks(path)?;
    if file_kind(&found)? != FileType::Symlink {
        return Ok(found);
    }
    match path.canonicalize() {
        Ok(target) if !target.is_dir() => Ok(open_without_symlinks(&target)?),
        Ok(_) | Err(_) => Ok(open_without_symlinks(Path::new(NULL))?),
    }
}

fn attach(tree: &DetachedMount, path: &Path) -> io::Result<()> {
    let place = match open_without_symlinks(path) {
        // Its hidden or private parent is empty, and can still be written.
        Err(Errno::NOENT) => {
            create_mount_point(path, tree.kind()?)?;
            open_without_symlinks(path)?
        }
        found => found?,
    };
    Ok(tree.attach_to(&place)?)
}

/// Creates an empty file or directory as a mount point.
fn create_mount_point(path: &Path, kind: FileType) -> io::Result<()> {
    if kind == FileType::Directory {
        return fs::create_dir_all(path);
    }
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    File::create_new(path).map(drop)
}

/// Covers a path. Returns the directory that is seen instead, if it is one.
fn cover(path: &Path) -> io::Result<Option<DetachedMount>> {
    let place = match open_without_symlinks(path) {
        // A path that does not exist, or that is out of reach with all privileges of the namespace,
        // cannot be read by a job either.
        Err(Errno::NOENT | Errno::ACCESS) => return Ok(None),
        found => found?,
    };
    if file_kind(&place)? == FileType::Directory {
        let cover_mount = DetachedMount::new_tmpfs(&[("mode", "0755")])?;
        cover_mount.attach_to(&place)?;
        return Ok(Some(cover_mount));
    }
    DetachedMount::clone_from(&open_without_symlinks(Path::new(NULL))?)?.attach_to(&place)?;
    Ok(None)
}

// Mounts that are not attached yet.

/// A mount that is visible once it is attached. Dropped before that, it is gone.
#[derive(Debug)]
struct DetachedMount(OwnedFd);

impl DetachedMount {
    /// Clones the mount at this place, with everything that is mounted below it.
    fn clone_from(place: &OwnedFd) -> Result<Self, Errno> {
        let empty = AtFlags::EMPTY_PATH.bits();
        let below = libc::AT_RECURSIVE.cast_unsigned();
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::from_bits_retain(empty | below);
        open_tree(place, c"", flags).map(Self)
    }

    /// Creates an empty tmpfs with these options.
    fn new_tmpfs(options: &[(&str, &str)]) -> Result<Self, Errno> {
        let no_devices = MountAttrFlags::MOUNT_ATTR_NODEV;
        Self::new("tmpfs", options, MountAttrFlags::MOUNT_ATTR_NOSUID | no_devices)
    }

    /// Creates a devpts: its terminals can only be opened by processes that see this directory.
    fn new_devpts() -> Result<Self, Errno> {
        let no_programs = MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let options = [("mode", "0600"), ("ptmxmode", "0666")];
        Self::new("devpts", &options, MountAttrFlags::MOUNT_ATTR_NOSUID | no_programs)
    }

    fn new(
        kind: &str,
        options: &[(&str, &str)],
        restrictions: MountAttrFlags,
    ) -> Result<Self, Errno> {
        let files = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, value) in options {
            fsconfig_set_string(&files, *key, *value)?;
        }
        fsconfig_create(&files)?;
        fsmount(files, FsMountFlags::FSMOUNT_CLOEXEC, restrictions).map(Self)
    }

    fn kind(&self) -> Result<FileType, Errno> {
        file_kind(&self.0)
    }

    /// Adds restrictions, before or after it was attached.
    fn restrict(&self, what: MountAttrFlags, reach: MountScope) -> Result<(), Errno> {
        restrict_mount(self.0.as_fd(), what, reach)
    }

    /// Attaches the mount over this place, even over a symlink.
    fn attach_to(&self, place: &OwnedFd) -> Result<(), Errno> {
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&self.0, c"", place, c"", flags)
    }
}

fn file_kind(file: &OwnedFd) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode))
}

/// Opens a path without following symlinks: it had none when it was decided on, so one on the way
/// is an attack. A symlink at its end is opened itself.
fn open_without_symlinks(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

// `mount_setattr`, which has no safe wrapper.

/// The mounts that a restriction applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MountScope {
    Single,
    /// This mount and all below it.
    Recursive,
}

/// `struct mount_attr` of the kernel.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Adds restrictions to the mount whose root this file is. Existing ones stay.
fn restrict_mount(
    mount: BorrowedFd<'_>,
    restrictions: MountAttrFlags,
    reach: MountScope,
) -> Result<(), Errno> {
    let flags = match reach {
        MountScope::Single => libc::AT_EMPTY_PATH,
        MountScope::Recursive => libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
    };
    let set = u64::from(restrictions.bits());
    let attr = MountAttr { set, clear: 0, propagation: 0, user_namespace: 0 };
    // SAFETY: the path is an empty C string, and the kernel reads only the given number of bytes of
    // `attr`; both live through the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

// A small `/dev` of a job's own.

/// The devices of the host that a job gets, as far as they exist.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// The name under which a job finds its terminal: that terminal is not in the job's own devpts, so
/// it would have no name otherwise.
const TERMINAL: &str = "console";

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Options of one job's shared memory.
const SHARED_MEMORY: [(&str, &str); 2] = [("mode", "1777"), ("size", "1g")];

/// The devices of the host that a job gets.
#[derive(Debug)]
struct DevMounts(Vec<(&'static str, DetachedMount)>);

impl DevMounts {
    /// Copies them from the host's `/dev`.
    fn collect() -> Result<Self, Errno> {
        let mut taken = Vec::with_capacity(DEVICES.len() + 1);
        for name in DEVICES {
            // The host's device may be a link to one in another directory.
            let Ok(path) = Path::new("/dev").join(name).canonicalize() else { continue };
            taken.push((name, DetachedMount::clone_from(&open_without_symlinks(&path)?)?));
        }
        taken.extend(stdin_terminal().map(|terminal| (TERMINAL, terminal)));
        // They can still be used; only their owner and mode cannot be changed.
        let restrictions = MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID;
        taken
            .iter()
            .try_for_each(|(_, device)| device.restrict(restrictions, MountScope::Single))?;
        Ok(Self(taken))
    }

    /// Mounts a new `/dev` with them, and with private terminals and shared memory.
    fn mount(self) -> io::Result<()> {
        let dev = Path::new("/dev");
        let around = DetachedMount::new_tmpfs(&[("mode", "0755")])?;
        around.attach_to(&open_without_symlinks(dev)?)?;
        for (name, device) in self.0 {
            let place = dev.join(name);
            File::create_new(&place)?;
            device.attach_to(&open_without_symlinks(&place)?)?;
        }
        for (name, to) in LINKS {
            symlink(to, dev.join(name))?;
        }
        for (name, tree) in [
            ("pts", DetachedMount::new_devpts()?),
            ("shm", DetachedMount::new_tmpfs(&SHARED_MEMORY)?),
        ] {
            let place = dev.join(name);
            fs::create_dir(&place)?;
            tree.attach_to(&open_without_symlinks(&place)?)?;
        }
        Ok(around.restrict(MountAttrFlags::MOUNT_ATTR_RDONLY, MountScope::Single)?)
    }
}

/// Returns the terminal from which this process reads, if it is one of the host's.
fn stdin_terminal() -> Option<DetachedMount> {
    let path = fs::read_link("/proc/self/fd/0").ok()?;
    let found = open_without_symlinks(&path).ok().filter(|_| path.starts_with("/dev/pts"))?;
    let named = fstat(&found).ok()?;
    let used = fstat(stdin()).ok()?;
    // Another devpts may have a terminal of the same name.
    let is_same = (named.st_dev, named.st_ino) == (used.st_dev, used.st_ino);
    is_same.then(|| DetachedMount::clone_from(&found).ok())?
}

// The working directory as it is seen in the namespace.

/// Makes `path` the current directory, after [`apply_mounts`]. It is a full path without symlinks.
///
/// A directory that was opened before must not be entered: through it everything is still seen and
/// written as on the host. It only verifies that the path leads to the intended directory.
///
/// # Errors
/// `ESTALE` if the path leads elsewhere: it was moved meanwhile, or is hidden from the job.
pub(crate) fn enter_directory(meant: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let found = open_without_symlinks(path)?;
    let there = fstat(&found)?;
    let expected = fstat(meant)?;
    if (there.st_dev, there.st_ino) != (expected.st_dev, expected.st_ino) {
        return Err(Errno::STALE.into());
    }
    Ok(fchdir(found)?)
}

#[cfg(test)]
mod tests {
    //! Tests of plans, and in real namespaces: there this program is run once more, in place of a job.

    use std::collections::BTreeMap;
    use std::fs::{self, File};
    use std::io::{self, Read as _, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::time::{Duration, Instant};

    use Mount::{Hidden, Pinned, ReadOnly, Writable};
    use proptest::prelude::*;
    use rustix::fs::{CWD, RenameFlags, StatVfsMountFlags, renameat_with, statvfs};
    use rustix::io::Errno;
    use rustix::mount::{MountFlags, mount};
    use rustix::process::geteuid;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use tempfile::TempDir;

    use super::*;
    use crate::confinement::{SandboxPaths, SandboxProfile};
    use crate::sandbox::protected_files::{ProtectedFiles, find_protected_files};
    use crate::sandbox::scratch::{Scratch, ScratchReaper, ScratchRoot};
    use crate::sandbox::workspace::{self, SharedDir, visible_mounts, writable_roots};

    type PlannedMount = (fn(PathBuf) -> Mount, &'static str);

    fn paths(texts: &[&str]) -> Vec<PathBuf> {
        texts.iter().map(PathBuf::from).collect()
    }

    /// Returns the plan of a job with `/tmp/s/job` as its temporary directory, and nothing private.
    fn planned(
        profile: SandboxProfile,
        roots: &[&str],
        protected_files: &[&str],
        hidden: &[&str],
    ) -> Vec<Mount> {
        let roots = paths(roots);
        let protected_files = paths(protected_files);
        let hidden = paths(&[hidden, &["/tmp/s"]].concat());
        plan_mounts(&view(profile, &roots, &protected_files, &hidden))
    }

    fn view<'a>(
        profile: SandboxProfile,
        roots: &'a [PathBuf],
        protected_files: &'a [PathBuf],
        hidden: &'a [PathBuf],
    ) -> MountView<'a> {
        let temporary = Some(Path::new("/tmp/s/job"));
        MountView {
            profile,
            roots,
            private: &[],
            shown: &[],
            protected_files,
            missing_files: &[],
            hidden,
            temporary,
        }
    }

    fn substitutes(pairs: &[(&str, &str)]) -> Vec<BindMount> {
        let substitute = |(place, source): &(&str, &str)| BindMount {
            place: place.into(),
            source: source.into(),
        };
        pairs.iter().map(substitute).collect()
    }

    #[track_caller]
    fn check(roots: &[&str], protected_files: &[&str], hidden: &[&str], expected: &[PlannedMount]) {
        let expected: Vec<_> = expected.iter().map(|(kind, path)| kind(path.into())).collect();
        assert_eq!(
            planned(SandboxProfile::WorkspaceWrite, roots, protected_files, hidden),
            expected
        );
    }

    const SCRATCH: [PlannedMount; 2] = [(Hidden, "/tmp/s"), (Writable, "/tmp/s/job")];

    #[test]
    fn the_innermost_path_decides() {
        let [others, own] = SCRATCH;
        check(&[], &[], &[], &SCRATCH);
        check(&["/w"], &[], &["/h"], &[(Hidden, "/h"), others, own, (Writable, "/w")]);
        // A workspace that contains the temporary directory.
        check(&["/tmp"], &[], &[], &[(Writable, "/tmp"), others, own]);
        // A hidden path in a workspace, and a workspace in a hidden path.
        check(&["/u"], &[], &["/u/k"], &[others, own, (Writable, "/u"), (Hidden, "/u/k")]);
        check(&["/u/k"], &[], &["/u"], &[others, own, (Hidden, "/u"), (Writable, "/u/k")]);
        check(&["/u"], &[], &["/u"], &[others, own, (Writable, "/u")]);
        // Everything in a hidden path is hidden; a workspace in another one cannot be renamed.
        check(
            &["/u", "/u/v"],
            &[],
            &["/h", "/h/i"],
            &[(Hidden, "/h"), others, own, (Writable, "/u"), (Writable, "/u/v")],
        );
        // The temporary directory in a hidden path.
        check(&[], &[], &["/tmp"], &[(Hidden, "/tmp"), own]);
    }

    #[test]
    fn a_protected_file_cannot_be_recreated_in_another_directory_of_the_same_name() {
        let [others, own] = SCRATCH;
        let (roots, missing) = (paths(&["/w"]), paths(&["/w/.git/hooks", "/w/.envrc"]));
        let view = view(SandboxProfile::WorkspaceWrite, &roots, &[], &[]);
        let plan = plan_mounts(&MountView { temporary: None, missing_files: &missing, ..view });
        assert_eq!(plan, [Writable("/w".into()), Pinned("/w/.git".into())]);
        check(
            &["/w"],
            &["/w/.git/hooks", "/w/.mcp.json", "/elsewhere/x"],
            &[],
            &[
                others,
                own,
                (Writable, "/w"),
                (Pinned, "/w/.git"),
                (ReadOnly, "/w/.git/hooks"),
                (ReadOnly, "/w/.mcp.json"),
            ],
        );
    }

    #[test]
    fn only_the_temporary_directory_is_writable_in_a_read_only_view() {
        let plan = planned(SandboxProfile::ReadOnly, &["/w"], &["/w/.mcp.json"], &["/w/k"]);
        let [(_, others), (_, own)] = SCRATCH;
        assert_eq!(plan, [Hidden(others.into()), Writable(own.into()), Hidden("/w/k".into())]);
        for profile in [SandboxProfile::None, SandboxProfile::Default] {
            assert_eq!(planned(profile, &["/w"], &[], &["/h"]), []);
        }
    }

    #[test]
    fn only_the_shown_parts_of_a_private_directory_are_visible() {
        let private =
            substitutes(&[("/home/me", "/s/home"), ("/tmp", "/s/tmp"), ("/run", "/s/run")]);
        let shown = substitutes(&[
            ("/home/me/.cargo", "/home/me/.cargo"),
            ("/home/me/.ssh/config", "/home/me/.ssh/config"),
            ("/home/me/keys", "/home/me/.ssh"),
            ("/home/me/work/bin", "/home/me/work/bin"),
            ("/usr/bin", "/usr/bin"),
        ]);
        let hidden = paths(&["/home/me/.ssh", "/home/me/.cargo/credentials", "/tmp/data"]);
        let roots = paths(&["/home/me/work"]);
        let view = MountView {
            private: &private,
            shown: &shown,
            temporary: None,
            ..view(SandboxProfile::WorkspaceWrite, &roots, &[], &hidden)
        };
        let [home, tmp, run] = [0, 1, 2].map(|at| Mount::Private(private[at].clone()));
        let cargo = Mount::Shown(shown[0].clone());
        let credentials = Hidden("/home/me/.cargo/credentials".into());
        let work = Writable("/home/me/work".into());
        let expected = vec![home, cargo, credentials, work, run, tmp];
        assert_eq!(plan_mounts(&view), expected);
        // The same in a read-only view, where a workspace is only readable.
        let seen = plan_mounts(&MountView { profile: SandboxProfile::ReadOnly, ..view });
        let work = substitutes(&[("/home/me/work", "/home/me/work")]).remove(0);
        assert_eq!(seen[3], Mount::Shown(work));
    }

    #[test]
    fn a_shared_directory_inside_a_chosen_workspace_is_not_private() {
        let private = substitutes(&[("/home/me", "/s/home"), ("/var/tmp", "/s/tmp")]);
        for profile in [SandboxProfile::WorkspaceWrite, SandboxProfile::ReadOnly] {
            let roots = paths(&["/home/me", "/var"]);
            let view =
                MountView { private: &private, temporary: None, ..view(profile, &roots, &[], &[]) };
            let seen = plan_mounts(&view);
            assert!(!seen.iter().any(|mount| matches!(mount, Mount::Private(_))), "{seen:?}");
        }
    }

    /// A few paths from few names, so that many contain one another.
    fn some_paths() -> impl Strategy<Value = Vec<PathBuf>> {
        prop::collection::vec("(/[ab]){1,4}".prop_map(PathBuf::from), 0..5)
    }

    proptest! {
        #[test]
        fn each_path_is_treated_as_its_innermost_named_parent(
            (roots, protected_files, hidden) in (some_paths(), some_paths(), some_paths()),
            asked in "(/[ab]){1,5}".prop_map(PathBuf::from),
        ) {
            let plan = plan_mounts(&view(SandboxProfile::WorkspaceWrite, &roots, &protected_files, &hidden));
            let seen = plan.iter().rev().find(|mount| asked.starts_with(mount.path()));
            let innermost = |names: &[PathBuf]| {
                let depths = names.iter().filter(|name| asked.starts_with(name));
                depths.map(|name| name.components().count()).max().unwrap_or(0)
            };
            let root = innermost(&roots);
            let guard = innermost(&protected_files);
            let veil = innermost(&hidden);
            // A protected file in a hidden path is not visible either.
            let is_hidden = veil > root;
            let is_writable = root > 0 && root >= veil && root >= guard;
            prop_assert_eq!(matches!(seen, Some(Hidden(_))), is_hidden, "{:?}", plan);
            let writes = matches!(seen, Some(Writable(_) | Pinned(_)));
            prop_assert_eq!(writes, is_writable, "{:?}", plan);
        }

        #[test]
        fn parents_come_first_and_no_path_comes_twice(
            (roots, protected_files, hidden) in (some_paths(), some_paths(), some_paths()),
        ) {
            let own = Some(Path::new("/a/b"));
            let view = view(SandboxProfile::WorkspaceWrite, &roots, &protected_files, &hidden);
            let plan = plan_mounts(&MountView { temporary: own, ..view });
            prop_assert!(plan.is_sorted_by(|one, next| one.path() < next.path()), "{:?}", plan);
        }
    }

    const THIS: &str = "sandbox::mounts::tests";
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

    /// A small host: a home directory with a workspace, secrets, and something beside it.
    struct TestHost {
        _folder: TempDir,
        base: PathBuf,
        scratch_root: Option<ScratchRoot>,
        scratch: Option<Scratch>,
    }

    impl TestHost {
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
            for name in ["tmp", "home/work/disc"] {
                fs::create_dir(base.join(name)).unwrap();
            }
            Self { _folder: folder, base, scratch_root: None, scratch: None }
        }

        /// Runs a test as a job, and checks that the host is unchanged afterwards.
        fn run(mut self, test: &str) {
            let before = snapshot(&self.base);
            let reaper = ScratchReaper::default();
            let root = ScratchRoot::create(&self.base.join("tmp"), &reaper).unwrap();
            let _other = Scratch::create(root.path(), &reaper).unwrap();
            let scratch = Scratch::create(root.path(), &reaper).unwrap();
            scratch.directory("own", None).unwrap();
            fs::write(self.base.join("tmp/scratch"), scratch.path().to_str().unwrap()).unwrap();
            (self.scratch_root, self.scratch) = (Some(root), Some(scratch));
            run_in_namespaces(&self.base, test);
            drop((self.scratch.take(), _other));
            // A thread removes them; it must be done before the server's own directory is removed.
            let root = self.scratch_root.take().unwrap();
            let deadline = Instant::now() + Duration::from_secs(30);
            while fs::read_dir(root.path()).unwrap().count() > 0 {
                assert!(Instant::now() < deadline, "{:?}", snapshot(root.path()));
                std::thread::yield_now();
            }
            drop(root);
            fs::remove_file(self.base.join("tmp/scratch")).unwrap();
            assert_eq!(snapshot(&self.base), before);
        }
    }

    /// Returns the workspaces below the home directory, and the protected files in them.
    fn find_workspaces(base: &Path, workspace: &[&str]) -> (Vec<PathBuf>, ProtectedFiles) {
        let home = base.join("home");
        let places = SandboxPaths {
            workspace: workspace.iter().map(|name| home.join(name)).collect(),
            protected: PROTECTED.map(PathBuf::from).to_vec(),
            home: Some(home),
            ..SandboxPaths::default()
        };
        let roots = writable_roots(&places, &[], Path::new("/")).unwrap();
        let protected_files = find_protected_files(&places, &roots).unwrap();
        (roots, protected_files)
    }

    /// Returns every path with its kind, mode and content.
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

    /// Opens this program for standard input, so that users who cannot reach its path can run it.
    fn this_program() -> File {
        File::open("/proc/self/exe").unwrap()
    }

    #[track_caller]
    fn check_passed(command: &mut Command) {
        let output = command.stdin(this_program()).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let has_run = !stdout.contains(" 0 passed") && stdout.contains(" passed");
        assert!(output.status.success() && has_run, "{command:?}: {stdout}\n{stderr}");
    }

    #[track_caller]
    fn run_in_namespaces(base: &Path, test: &str) {
        let namespaces =
            ["--user", "--map-current-user", "--keep-caps", "--mount", "--pid", "--fork"];
        let test = format!("{THIS}::{test}");
        let mut command = Command::new("unshare");
        command.args(namespaces).arg("/proc/self/fd/0").arg(test).args(["--exact", "--ignored"]);
        check_passed(command.current_dir(base));
    }

    /// The job's side: created in namespaces, by a test that [`run_in_namespaces`] runs.
    struct JobSide {
        base: PathBuf,
        scratch: PathBuf,
    }

    impl JobSide {
        fn new(profile: SandboxProfile, workspace: &[&str]) -> Self {
            Self::with_private(profile, workspace, &[], &[])
        }

        /// Creates it with private directories, and with what is visible in them.
        fn with_private(
            profile: SandboxProfile,
            workspace: &[&str],
            own: &[&str],
            seen: &[&str],
        ) -> Self {
            let map = fs::read_to_string("/proc/self/uid_map").unwrap();
            let count = map.split_whitespace().nth(2);
            assert_eq!(count, Some("1"), "must run in its own namespaces, not on the host");
            let base = std::env::current_dir().unwrap();
            let scratch = PathBuf::from(fs::read_to_string(base.join("tmp/scratch")).unwrap());
            let (roots, protected_files) = find_workspaces(&base, workspace);
            let secret =
                [".ssh", ".netrc", "data", ".aws"].map(|name| base.join("home").join(name));
            let mut hidden = workspace::resolve_hidden(&secret);
            hidden.extend(scratch.parent().map(Path::to_owned));
            let shared: Vec<SharedDir> =
                own.iter().map(|path| SharedDir { path: base.join(path), own: "own" }).collect();
            let own_directory = scratch.join("own");
            let private: Vec<BindMount> = shared
                .iter()
                .map(|it| BindMount { place: it.path.clone(), source: own_directory.clone() })
                .collect();
            let named: Vec<PathBuf> = seen.iter().map(|path| base.join(path)).collect();
            let view = MountView {
                profile,
                roots: &roots,
                private: &private,
                shown: &visible_mounts(&shared, named.iter().map(PathBuf::as_path)),
                protected_files: &protected_files.names,
                missing_files: &protected_files.missing_paths(),
                hidden: &hidden,
                temporary: Some(&scratch),
            };
            apply_mounts(&plan_mounts(&view)).unwrap();
            mount_proc().unwrap();
            Self { base, scratch }
        }

        fn at(&self, path: &str) -> PathBuf {
            self.base.join(path)
        }

        #[track_caller]
        fn check_writable(&self, directory: &str) {
            check_writable(&self.at(directory));
        }

        /// Checks that every attempt leaves what is there unchanged.
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
            check_errno(
                fs::set_permissions(&path, PermissionsExt::from_mode(0o777)),
                &[Errno::ROFS],
            );
        }

        /// Checks that nothing can remove it or replace it.
        #[track_caller]
        fn check_irreplaceable(&self, path: &str) {
            let busy = [Errno::BUSY, Errno::NOTDIR, Errno::ISDIR, Errno::XDEV];
            let path = self.at(path);
            let around = path.parent().unwrap();
            let file = around.join("new-file");
            let folder = around.join("new-folder");
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
        let new = directory.join("new");
        let other = directory.join("other");
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
    fn a_job_can_write_only_to_its_workspace() {
        TestHost::new().run("inside_a_workspace");
    }

    #[test]
    #[ignore = "run in namespaces by the test above"]
    fn inside_a_workspace() {
        let work = find_on_host("home/work");
        let outside = find_on_host("outside");
        let forbidden = MountFlags::RDONLY | MountFlags::NOEXEC;
        mount("none", "home/work/disc", "tmpfs", forbidden, None).unwrap();
        let inside = JobSide::new(SandboxProfile::WorkspaceWrite, &["work"]);
        // The host's restrictions on a mount in the workspace stay.
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
        for protected_files in ["home/work/.git/hooks", "home/work/.git"] {
            inside.check_irreplaceable(protected_files);
        }
        let moved = fs::rename(inside.at("outside/file"), inside.at("home/work/taken"));
        check_errno(moved, &[Errno::XDEV, Errno::ROFS]);
        let linked = fs::hard_link(inside.at("outside/file"), inside.at("home/work/taken"));
        check_errno(linked, &[Errno::XDEV]);
        symlink(inside.at("outside/file"), inside.at("home/work/way")).unwrap();
        check_errno(fs::write(inside.at("home/work/way"), "new"), &[Errno::ROFS]);
        fs::remove_file(inside.at("home/work/way")).unwrap();
        // The directory of the job is that of the workspace, not the one that was opened on the
        // host.
        check_errno(enter_directory(outside.as_fd(), &inside.at("home/work")), &[Errno::STALE]);
        enter_directory(work.as_fd(), &inside.at("home/work")).unwrap();
        check_writable(Path::new("."));
        check_errno(fs::write("../new", "new"), &[Errno::ROFS]);
    }

    fn find_on_host(path: &str) -> File {
        File::open(std::env::current_dir().unwrap().join(path)).unwrap()
    }

    #[test]
    fn a_job_does_not_see_hidden_paths() {
        TestHost::new().run("inside_without_secrets");
    }

    #[test]
    #[ignore = "run in namespaces by the test above"]
    fn inside_without_secrets() {
        let data = find_on_host("home/data");
        let inside = JobSide::new(SandboxProfile::WorkspaceWrite, &["work"]);
        for directory in ["home/.ssh", "home/data"] {
            assert_eq!(names(&inside.at(directory)), [""; 0]);
            inside.check_read_only(directory);
        }
        assert_eq!(fs::read_to_string(inside.at("home/.netrc")).unwrap(), "");
        let own = inside.scratch.file_name().unwrap().to_str().unwrap();
        assert_eq!(names(inside.scratch.parent().unwrap()), [own]);
        check_errno(enter_directory(data.as_fd(), &inside.at("home/data")), &[Errno::STALE]);
    }

    #[test]
    fn a_job_has_its_own_devices_and_processes() {
        TestHost::new().run("inside_a_small_system");
    }

    #[test]
    #[ignore = "run in namespaces by the test above"]
    fn inside_a_small_system() {
        let given = terminal();
        rustix::stdio::dup2_stdin(&given).unwrap();
        let _inside = JobSide::new(SandboxProfile::WorkspaceWrite, &["work"]);
        let expected =
            "console fd full null ptmx pts random shm stderr stdin stdout tty urandom zero";
        assert_eq!(names(Path::new("/dev")).join(" "), expected);
        File::options().write(true).open("/dev/null").unwrap().write_all(b"x").unwrap();
        let mut zeroes = [1; 4];
        File::open("/dev/zero").unwrap().read_exact(&mut zeroes).unwrap();
        assert_eq!(zeroes, [0; 4]);
        assert_eq!(names(Path::new("/dev/shm")), [""; 0]);
        check_writable(Path::new("/dev/shm"));
        check_errno(fs::write("/dev/new", "x"), &[Errno::ROFS]);
        check_errno(
            fs::set_permissions("/dev/null", PermissionsExt::from_mode(0o000)),
            &[Errno::ROFS],
        );
        // Its own terminal has a name, and those of others have none.
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
            assert!(
                flags.contains(StatVfsMountFlags::RDONLY | StatVfsMountFlags::NOSUID),
                "{path}"
            );
        }
    }

    /// Opens a new terminal. Its other end stays open, or it would hang up.
    fn terminal() -> File {
        let other = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&other).unwrap();
        unlockpt(&other).unwrap();
        let name = ptsname(&other, Vec::new()).unwrap();
        std::mem::forget(other);
        File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap()
    }

    #[test]
    fn a_job_cannot_change_shell_start_up_files_if_its_home_is_its_workspace() {
        TestHost::new().run("inside_a_home");
    }

    #[test]
    #[ignore = "run in namespaces by the test above"]
    fn inside_a_home() {
        let inside = JobSide::new(SandboxProfile::WorkspaceWrite, &["", "data/ws"]);
        for writable in ["home", "home/dots", "home/.config", "home/work", "home/data/ws"] {
            inside.check_writable(writable);
        }
        // The target of a link is seen in its place, and is as constant as the link.
        for link in ["home/.bashrc", "home/dots/bashrc"] {
            assert_eq!(fs::read_to_string(inside.at(link)).unwrap(), "old");
            inside.check_read_only(link);
            inside.check_irreplaceable(link);
        }
        for name in ["home/dots", "home/.zshenv", "home/.config", "home/.ssh"] {
            inside.check_irreplaceable(name);
        }
        inside.check_read_only("home/.ssh");
        // A workspace in a hidden directory, and nothing beside it.
        assert_eq!(names(&inside.at("home/data")), ["ws"]);
        assert_eq!(fs::read_to_string(inside.at("home/data/ws/file")).unwrap(), "old");
        inside.check_read_only("home/data");
    }

    #[test]
    fn a_read_only_job_can_write_only_to_its_temporary_directory() {
        TestHost::new().run("inside_read_only");
    }

    #[test]
    #[ignore = "run in namespaces by the test above"]
    fn inside_read_only() {
        let inside = JobSide::new(SandboxProfile::ReadOnly, &["bare"]);
        check_writable(&inside.scratch);
        for read_only in ["home/bare", "home/bare/.git", "home/bare/.git/config", "home/work"] {
            inside.check_read_only(read_only);
        }
        assert_eq!(names(&inside.at("home/.ssh")), [""; 0]);
    }

    #[test]
    fn a_job_cannot_replace_the_directory_around_a_missing_file() {
        TestHost::new().run("inside_without_hooks");
    }

    #[test]
    #[ignore = "run in namespaces by the test above"]
    fn inside_without_hooks() {
        let inside = JobSide::new(SandboxProfile::WorkspaceWrite, &["bare"]);
        inside.check_irreplaceable("home/bare/.git");
        inside.check_writable("home/bare/.git");
    }

    #[test]
    fn a_job_has_private_directories_with_only_the_shown_parts_of_the_host() {
        TestHost::new().run("inside_places_of_its_own");
    }

    #[test]
    #[ignore = "run in namespaces by the test above"]
    fn inside_places_of_its_own() {
        let seen = ["home/dots", "home/.bashrc", "home/.ssh/id", "outside"];
        let inside = JobSide::with_private(
            SandboxProfile::WorkspaceWrite,
            &["work"],
            &["home", "outside"],
            &seen,
        );
        // The same directory is seen at both paths here, with the mount points of the others.
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
        // The host's files are unchanged afterwards.
        fs::write(inside.at("home/.profile"), "gone").unwrap();
        fs::write(inside.at("outside/file"), "gone").unwrap();
    }

    /// Runs everything above once more as an unprivileged user, if the tests are run by root.
    #[test]
    fn the_same_holds_for_an_unprivileged_user() {
        if !geteuid().is_root() {
            return; // then such a user has already run everything above
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "/proc/self/fd/0"]);
        check_passed(command.arg(format!("{THIS}::a_")).current_dir("/"));
    }
}
