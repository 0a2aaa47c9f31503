//! Files that belong to the server's user alone.
//!
//! The data directory holds tokens, the audit log and the socket. A user who may create files in it
//! could replace one of them with a symlink, so that the server reads or writes another file with
//! its own rights, and could read its content. So the directory must be closed to others, and the
//! files in it are opened without following symlinks.

use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Uid, geteuid};
use thiserror::Error;

/// The permission bits of everyone but the owner.
const OTHERS: u32 = 0o077;

/// The treatment of a symlink where a file is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symlinks {
    /// Use the file that it points to: for files that an operator names.
    Follow,
    /// Fail: for files in the data directory.
    Refuse,
}

impl Symlinks {
    /// Returns options that open a file this way; the caller adds the access mode. A FIFO in its
    /// place does not block the open.
    #[must_use]
    pub fn options(self) -> OpenOptions {
        let flags = match self {
            Self::Follow => OFlags::NONBLOCK | OFlags::NOCTTY,
            Self::Refuse => OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW,
        };
        let mut options = OpenOptions::new();
        options.custom_flags(flags.bits().cast_signed());
        options
    }

    /// Returns the metadata of a file.
    ///
    /// # Errors
    /// When the file does not exist, or is a symlink that must not be followed.
    pub fn metadata(self, path: &Path) -> io::Result<Metadata> {
        match self {
            Self::Follow => fs::metadata(path),
            Self::Refuse => {
                let found = fs::symlink_metadata(path)?;
                if found.is_symlink() { Err(refused_link_error()) } else { Ok(found) }
            }
        }
    }
}

/// Replaces the error of a symlink that was not followed by a clear one: the system reports too
/// many levels.
pub fn explain_symlink_error(error: io::Error) -> io::Error {
    if Errno::from_io_error(&error) == Some(Errno::LOOP) { refused_link_error() } else { error }
}

fn refused_link_error() -> io::Error {
    let text = "it is a symbolic link, and links are not followed there; put the file itself there";
    io::Error::new(ErrorKind::InvalidInput, text)
}

/// The reason why a directory is not private. Each text contains the next command.
#[derive(Debug, Error)]
pub enum PrivateDirError {
    #[error("the data directory `{}` cannot be used; give another one with --data-dir DIR", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error(
        "the data directory `{}` belongs to user {owner}, and this runs as user {user}; give it over with `chown {user} {}`, or use another one with --data-dir DIR",
        .path.display(), .path.display()
    )]
    OtherOwner { path: PathBuf, owner: u32, user: u32 },
    #[error(
        "the data directory `{}` is open to other users (mode {mode:04o}); close it with `chmod 700 {}`, or use another one with --data-dir DIR",
        .path.display(), .path.display()
    )]
    OpenToOthers { path: PathBuf, mode: u32 },
    #[error(
        "the data directory `{}` is a symbolic link that belongs to user {owner}; remove it with `rm {}`, or use another one with --data-dir DIR",
        .path.display(), .path.display()
    )]
    ForeignLink { path: PathBuf, owner: u32 },
}

impl PrivateDirError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unusable { .. } => "spill_dir_unusable",
            Self::OtherOwner { .. } => "data_dir_of_other_user",
            Self::OpenToOthers { .. } => "data_dir_open_to_others",
            Self::ForeignLink { .. } => "data_dir_is_foreign_link",
        }
    }
}

/// Creates a directory for its owner alone (mode 0700), or checks that an existing one is private.
///
/// A symlink is followed if this user or root created it; then the directory behind it counts.
///
/// # Errors
/// When it belongs to another user, others have rights in it, or it cannot be used at all.
pub fn ensure_private_dir(path: &Path) -> Result<(), PrivateDirError> {
    check(path, geteuid())
}

fn check(path: &Path, user: Uid) -> Result<(), PrivateDirError> {
    let unusable = |source| PrivateDirError::Unusable { path: path.into(), source };
    let user = user.as_raw();
    // For a symlink this creates the directory behind it.
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
    let itself = fs::symlink_metadata(path).map_err(unusable)?;
    let owner = itself.uid();
    if itself.is_symlink() && owner != user && owner != Uid::ROOT.as_raw() {
        return Err(PrivateDirError::ForeignLink { path: path.into(), owner });
    }
    let directory = fs::metadata(path).map_err(unusable)?;
    let owner = directory.uid();
    let mode = directory.mode() & 0o7777;
    if owner != user {
        return Err(PrivateDirError::OtherOwner { path: path.into(), owner, user });
    }
    if mode & OTHERS != 0 {
        return Err(PrivateDirError::OpenToOthers { path: path.into(), mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_new_directory_is_private_and_an_open_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/deep");
        ensure_private_dir(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        ensure_private_dir(&path).unwrap();
        for mode in [0o755, 0o770, 0o701] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let refused = ensure_private_dir(&path).unwrap_err();
            assert_eq!(refused.code(), "data_dir_open_to_others");
            let message = refused.to_string();
            assert!(
                message.contains("chmod 700") && message.contains(&format!("{mode:04o}")),
                "{message}"
            );
        }
    }

    #[test]
    fn a_directory_or_symlink_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let other = Uid::from_raw(geteuid().as_raw() + 1);
        let path = folder.path().join("data");
        ensure_private_dir(&path).unwrap();
        let refused = check(&path, other).unwrap_err();
        assert_eq!(refused.code(), "data_dir_of_other_user");
        assert!(refused.to_string().contains("chown"), "{refused}");
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        ensure_private_dir(&link).unwrap();
        if !geteuid().is_root() {
            assert_eq!(check(&link, other).unwrap_err().code(), "data_dir_is_foreign_link");
        }
    }

    #[test]
    fn a_symlink_is_followed_only_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let link = folder.path().join("link");
        fs::write(&file, "text").unwrap();
        symlink(&file, &link).unwrap();
        assert!(
            Symlinks::Follow.metadata(&link).is_ok() && Symlinks::Refuse.metadata(&file).is_ok()
        );
        let refused = Symlinks::Refuse.metadata(&link).unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        assert!(Symlinks::Refuse.options().append(true).create(true).open(&link).is_err());
    }
}
