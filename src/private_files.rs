//! Files that belong to the server's user alone.
//!
//! The data directory holds tokens, the audit log and the socket. Whoever may create files in it can
//! put a link in the place of one of them, so that the server reads or writes another file with its
//! own rights, and can read what it holds. So the directory must be closed to others, and the files
//! in it are opened without following links.

use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Uid, geteuid};
use thiserror::Error;

/// The rights of everybody but the owner.
const OTHERS: u32 = 0o077;

/// The treatment of a symbolic link that stands where a file is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symlinks {
    /// The file that it leads to is used: for files that an operator names.
    Follow,
    /// It is an error: for files in the data directory.
    Refuse,
}

impl Symlinks {
    /// Options that open a file so; what it is opened for is still to be added. A FIFO that stands
    /// in its place does not block the opening.
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

    /// The metadata of a file.
    ///
    /// # Errors
    /// When there is none, or a link that is not followed.
    pub fn metadata(self, path: &Path) -> io::Result<Metadata> {
        match self {
            Self::Follow => fs::metadata(path),
            Self::Refuse => {
                let found = fs::symlink_metadata(path)?;
                if found.is_symlink() { Err(refused_link()) } else { Ok(found) }
            }
        }
    }
}

/// The error in words, where a link was not followed: the system speaks of too many levels.
pub fn explain_symlink_error(error: io::Error) -> io::Error {
    if Errno::from_io_error(&error) == Some(Errno::LOOP) { refused_link() } else { error }
}

fn refused_link() -> io::Error {
    let text = "it is a symbolic link, and links are not followed there; put the file itself there";
    io::Error::new(ErrorKind::InvalidInput, text)
}

/// Why a directory cannot hold what only the server's user may see. Each text has the next command.
#[derive(Debug, Error)]
pub enum PrivateDirError {
    /// It is not there and cannot be made, or cannot be examined.
    #[error("the data directory `{}` cannot be used; give another one with --data-dir DIR", .path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// The system's own words.
        source: io::Error,
    },
    /// Another user owns it, and can change everything in it.
    #[error(
        "the data directory `{}` belongs to user {owner}, and this runs as user {user}; give it over with `chown {user} {}`, or use another one with --data-dir DIR",
        .path.display(), .path.display()
    )]
    OtherOwner {
        /// The directory.
        path: PathBuf,
        /// The user who owns it.
        owner: u32,
        /// The user who should.
        user: u32,
    },
    /// Others than its owner have rights in it.
    #[error(
        "the data directory `{}` is open to other users (mode {mode:04o}); close it with `chmod 700 {}`, or use another one with --data-dir DIR",
        .path.display(), .path.display()
    )]
    OpenToOthers {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Another user has put a link in its place.
    #[error(
        "the data directory `{}` is a symbolic link that belongs to user {owner}; remove it with `rm {}`, or use another one with --data-dir DIR",
        .path.display(), .path.display()
    )]
    ForeignLink {
        /// The link.
        path: PathBuf,
        /// The user who made it.
        owner: u32,
    },
}

impl PrivateDirError {
    /// The stable word that callers may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unusable { .. } => "data_dir_unusable",
            Self::OtherOwner { .. } => "data_dir_of_other_user",
            Self::OpenToOthers { .. } => "data_dir_open_to_others",
            Self::ForeignLink { .. } => "data_dir_is_foreign_link",
        }
    }
}

/// Makes a directory for its owner alone (mode 0700), or makes sure that an existing one is that.
///
/// A symbolic link is followed if this user or root made it; then the directory behind it counts.
///
/// # Errors
/// When it belongs to somebody else, others have rights in it, or it cannot be used at all.
pub fn ensure_private_dir(path: &Path) -> Result<(), PrivateDirError> {
    check(path, geteuid())
}

fn check(path: &Path, user: Uid) -> Result<(), PrivateDirError> {
    let unusable = |source| PrivateDirError::Unusable { path: path.into(), source };
    let user = user.as_raw();
    // Of a link this makes the directory behind it.
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
    let itself = fs::symlink_metadata(path).map_err(unusable)?;
    let owner = itself.uid();
    if itself.is_symlink() && owner != user && owner != Uid::ROOT.as_raw() {
        return Err(PrivateDirError::ForeignLink { path: path.into(), owner });
    }
    let directory = fs::metadata(path).map_err(unusable)?;
    let (owner, mode) = (directory.uid(), directory.mode() & 0o7777);
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
    fn a_new_directory_is_for_its_owner_alone_and_an_open_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/deep");
        ensure_private_dir(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        ensure_private_dir(&path).unwrap();
        for mode in [0o755, 0o770, 0o701] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let refused = ensure_private_dir(&path).unwrap_err();
            assert_eq!(refused.code(), "data_dir_open_to_others");
            let said = refused.to_string();
            assert!(said.contains("chmod 700") && said.contains(&format!("{mode:04o}")), "{said}");
        }
    }

    #[test]
    fn the_directory_of_another_user_is_refused_and_so_is_a_link_of_theirs() {
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
    fn a_link_is_followed_only_where_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
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
