//! Mounts that are in no place yet.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use super::attributes::{self, Reach};

/// Something that can be seen in a place once it is put there. Dropped before that, it is gone.
#[derive(Debug)]
pub(super) struct Tree(OwnedFd);

impl Tree {
    /// What is to be seen here, with all that is mounted below it.
    pub(super) fn copy_of(place: &OwnedFd) -> Result<Self, Errno> {
        let (empty, below) = (AtFlags::EMPTY_PATH.bits(), libc::AT_RECURSIVE.cast_unsigned());
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::from_bits_retain(empty | below);
        open_tree(place, c"", flags).map(Self)
    }

    /// An empty directory in memory, with these options of a tmpfs.
    pub(super) fn in_memory(options: &[(&str, &str)]) -> Result<Self, Errno> {
        let no_devices = MountAttrFlags::MOUNT_ATTR_NODEV;
        Self::new("tmpfs", options, MountAttrFlags::MOUNT_ATTR_NOSUID | no_devices)
    }

    /// Terminals that only whoever sees this directory can open.
    pub(super) fn of_terminals() -> Result<Self, Errno> {
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

    /// Gives the kind of file that it is.
    pub(super) fn kind(&self) -> Result<FileType, Errno> {
        kind(&self.0)
    }

    /// Adds restrictions, before or after it was put in a place.
    pub(super) fn restrict(&self, what: MountAttrFlags, reach: Reach) -> Result<(), Errno> {
        attributes::restrict(self.0.as_fd(), what, reach)
    }

    /// Has it be seen instead of what is here, be that a symlink.
    pub(super) fn put_on(&self, place: &OwnedFd) -> Result<(), Errno> {
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&self.0, c"", place, c"", flags)
    }
}

/// Gives the kind of an open file.
pub(super) fn kind(file: &OwnedFd) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode))
}

/// What is here. The path must lead through no symlink: it had none when it was decided on, so that
/// one is a trick. At its end there may be one, which is then what is found.
pub(super) fn find(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}
