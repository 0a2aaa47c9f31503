//! Changing what this process sees.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MountFlags, MountPropagationFlags, mount, mount_change};

use super::attributes::{self, Reach};
use super::devices::Devices;
use super::plan::Mount;
use super::tree::{Tree, find, kind};

const READ_ONLY: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY;
const NO_SETUID: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID;
const NO_DEVICES: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NODEV;
/// A file that reads as empty and forgets what is written to it.
const NULL: &str = "/dev/null";

/// Makes everything read-only for this mount namespace, then these changes, in this order; `/dev`
/// is the namespace's own afterwards, and no program gains privileges by being set-user-id.
///
/// To be called once, in fresh user and mount namespaces. Files and directories that are open
/// keep seeing the host: the current directory must be entered anew ([`super::enter`]).
///
/// # Errors
/// When the system refuses one of them. What is seen is then neither the one nor the other, and the
/// process must end.
pub(crate) fn apply(mounts: &[Mount]) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let taken = mounts.iter().map(take).collect::<io::Result<Vec<_>>>()?;
    let devices = Devices::take()?;
    let everything = find(Path::new("/"))?;
    attributes::restrict(everything.as_fd(), READ_ONLY | NO_SETUID, Reach::Below)?;
    devices.put()?;
    let mut curtains = Vec::new();
    for (mount, taken) in mounts.iter().zip(taken) {
        match taken {
            Some(tree) => put(&tree, mount.path())?,
            None => curtains.extend(hide(mount.path())?),
        }
    }
    // Only now: the places of what is seen in front of them were made in them.
    curtains.iter().try_for_each(|curtain| Ok(curtain.restrict(READ_ONLY, Reach::Alone)?))
}

/// Mounts the `/proc` of this process's own process namespace.
///
/// It is read-only: to the kernel, root in a user namespace that maps it to itself owns the
/// host's settings in it. Processes lose nothing that they need to change about themselves.
///
/// # Errors
/// When the system refuses, as it does where parts of the host's own are covered.
pub(crate) fn own_proc() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    Ok(mount(c"proc", c"/proc", c"proc", flags, None)?)
}

/// A copy of what shall be seen there; none where nothing shall.
fn take(mount: &Mount) -> io::Result<Option<Tree>> {
    let (tree, restrictions) = match mount {
        Mount::Hidden(_) => return Ok(None),
        Mount::Writable(path) | Mount::Pinned(path) => (Tree::copy_of(&find(path)?)?, NO_SETUID),
        Mount::ReadOnly(path) => (Tree::copy_of(&shown(path)?)?, NO_SETUID | READ_ONLY),
        Mount::Private(own) => (Tree::copy_of(&find(&own.source)?)?, NO_SETUID | NO_DEVICES),
        Mount::Shown(theirs) => (Tree::copy_of(&find(&theirs.source)?)?, NO_SETUID | READ_ONLY),
    };
    tree.restrict(restrictions, Reach::Below)?;
    Ok(Some(tree))
}

/// What is seen in a place that cannot be changed. In that of a symlink it is the file to which that
/// leads, and nothing where it leads to no file: only files can be put over a symlink.
fn shown(path: &Path) -> io::Result<OwnedFd> {
    let found = find(path)?;
    if kind(&found)? != FileType::Symlink {
        return Ok(found);
    }
    match path.canonicalize() {
        Ok(target) if !target.is_dir() => Ok(find(&target)?),
        Ok(_) | Err(_) => Ok(find(Path::new(NULL))?),
    }
}

fn put(tree: &Tree, path: &Path) -> io::Result<()> {
    let place = match find(path) {
        // What is hidden or private around it is empty, and can still be written.
        Err(Errno::NOENT) => {
            make_place(path, tree.kind()?)?;
            find(path)?
        }
        found => found?,
    };
    Ok(tree.put_on(&place)?)
}

/// Makes an empty file or directory on which something can be mounted.
fn make_place(path: &Path, kind: FileType) -> io::Result<()> {
    if kind == FileType::Directory {
        return fs::create_dir_all(path);
    }
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    File::create_new(path).map(drop)
}

/// Covers a place. Gives the directory that is seen instead, if it is one.
fn hide(path: &Path) -> io::Result<Option<Tree>> {
    let place = match find(path) {
        // What is not there, or out of reach of one who has all privileges of the namespace, cannot
        // be read by a job either.
        Err(Errno::NOENT | Errno::ACCESS) => return Ok(None),
        found => found?,
    };
    if kind(&place)? == FileType::Directory {
        let curtain = Tree::in_memory(&[("mode", "0755")])?;
        curtain.put_on(&place)?;
        return Ok(Some(curtain));
    }
    Tree::copy_of(&find(Path::new(NULL))?)?.put_on(&place)?;
    Ok(None)
}
