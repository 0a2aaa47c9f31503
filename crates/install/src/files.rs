//! Reading and replacing settings files: atomically, through symbolic links, with a backup.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::format::TextPlace;

/// No settings file is larger; Claude Code keeps a history in its own.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// The most backups of one file. The name of each has a number.
const MAX_BACKUPS: usize = 99;

const NEW_FILE_MODE: u32 = 0o644;

/// The most symbolic links that are followed one after the other, as in the kernel.
const MAX_LINKS: usize = 40;

/// The reason why a file was not read or written.
#[derive(Debug, Error)]
pub enum SettingsFileError {
    /// The file cannot be read.
    #[error("`{}` cannot be read", .path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is not text.
    #[error("`{}` is not valid UTF-8 at {place}", .path.display())]
    NotText {
        /// The path of the file.
        path: PathBuf,
        /// The first byte that is wrong.
        place: TextPlace,
    },
    /// The file cannot be written.
    #[error("`{}` cannot be written", .path.display())]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A symbolic link leads out of the project.
    #[error("`{}` leads out of the project to `{}`; remove that link", .path.display(), .target.display())]
    Outside {
        /// The path of the file.
        path: PathBuf,
        /// The file behind its links.
        target: PathBuf,
    },
    /// Another program has changed the file meanwhile.
    #[error("another program has changed `{}` meanwhile", .path.display())]
    Changed {
        /// The path of the file.
        path: PathBuf,
    },
}

impl SettingsFileError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Read { .. } => "settings_unreadable",
            Self::NotText { .. } => "settings_not_text",
            Self::Write { .. } => "settings_not_writable",
            Self::Outside { .. } => "settings_outside",
            Self::Changed { .. } => "settings_changed",
        }
    }
}

/// Reads a file; `None` if it does not exist.
///
/// # Errors
/// When it cannot be read, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<Option<String>, SettingsFileError> {
    let unreadable = |source| SettingsFileError::Read { path: path.into(), source };
    // A FIFO or a device would block.
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
        Ok(found) if !found.is_file() => {
            return Err(unreadable(io::Error::other("it is not a regular file")));
        }
        Ok(found) if found.len() > MAX_BYTES => {
            return Err(unreadable(io::Error::other("it is larger than 256 MB")));
        }
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(error.as_bytes());
        SettingsFileError::NotText { path: path.into(), place: TextPlace::of_byte(&text, valid) }
    })?;
    Ok(Some(text))
}

/// Replaces a file at once, or creates it with its directories. Owner, permissions and symbolic links
/// stay. `expected` is the text that was read.
///
/// # Errors
/// When the file has another text by now, or cannot be written.
pub fn write_text(
    path: &Path,
    text: &str,
    expected: Option<&str>,
) -> Result<(), SettingsFileError> {
    let unwritable = |source| SettingsFileError::Write { path: path.into(), source };
    let target = follow_links(path).map_err(unwritable)?;
    let dir = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(dir).map_err(unwritable)?;
    let mut temporary = tempfile::NamedTempFile::new_in(dir).map_err(unwritable)?;
    temporary.write_all(text.as_bytes()).map_err(unwritable)?;
    copy_attributes(&target, temporary.as_file(), temporary.path()).map_err(unwritable)?;
    temporary.as_file().sync_all().map_err(unwritable)?;
    check_unchanged(path, expected)?;
    temporary.persist(&target).map_err(|error| unwritable(error.error))?;
    // The rename is durable once the directory is. It has happened, so a failure here is not one of the
    // write.
    let _synced = File::open(dir).and_then(|dir| dir.sync_all()).is_ok();
    Ok(())
}

/// Checks that a file is in a directory, whatever links its path has: a project of others must not
/// lead to files of the user.
///
/// # Errors
/// When it is elsewhere, or that cannot be found out.
pub fn check_inside(path: &Path, directory: &Path) -> Result<(), SettingsFileError> {
    let unreadable = |source| SettingsFileError::Read { path: path.into(), source };
    let target = follow_links(path).map_err(unreadable)?;
    let existing = target.ancestors().find(|part| part.exists()).unwrap_or(Path::new("/"));
    let existing = existing.canonicalize().map_err(unreadable)?;
    let directory = directory.canonicalize().map_err(unreadable)?;
    if existing.starts_with(directory) {
        return Ok(());
    }
    Err(SettingsFileError::Outside { path: path.into(), target })
}

/// Deletes a file; of a symbolic link, the file behind it and the link.
///
/// # Errors
/// When the file has another text by now, or cannot be deleted.
pub fn delete_file(path: &Path, expected: &str) -> Result<(), SettingsFileError> {
    check_unchanged(path, Some(expected))?;
    let unwritable = |source| SettingsFileError::Write { path: path.into(), source };
    let target = follow_links(path).map_err(unwritable)?;
    fs::remove_file(&target).map_err(unwritable)?;
    if target != path {
        // A link to a file that is gone is no settings file either.
        let _removed = fs::remove_file(path).is_ok();
    }
    Ok(())
}

fn check_unchanged(path: &Path, expected: Option<&str>) -> Result<(), SettingsFileError> {
    if read_text(path)?.as_deref() == expected {
        Ok(())
    } else {
        Err(SettingsFileError::Changed { path: path.into() })
    }
}

/// The file behind a chain of symbolic links; it need not exist.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = std::path::absolute(path)?;
    for _ in 0..MAX_LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = target.parent().unwrap_or(Path::new("/")).join(next),
            // Neither a link nor there.
            Err(_) => return Ok(target),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

fn copy_attributes(target: &Path, file: &File, path: &Path) -> io::Result<()> {
    match fs::metadata(target) {
        Ok(old) => {
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
                chown(path, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            file.set_permissions(Permissions::from_mode(NEW_FILE_MODE))
        }
        Err(error) => Err(error),
    }
}

/// The names of backups, the first one first.
fn backup_names(path: &Path) -> impl Iterator<Item = PathBuf> {
    let base = path.as_os_str().to_owned();
    (1..=MAX_BACKUPS).map(move |number| {
        let mut name = base.clone();
        name.push(".shellyard-backup");
        if number > 1 {
            name.push(format!("-{number}"));
        }
        name.into()
    })
}

/// Returns the backups of a file with their texts, the newest first. One that cannot be read is left
/// out.
#[must_use]
pub fn list_backups(path: &Path) -> Vec<(PathBuf, String)> {
    let read = |path: PathBuf| Some((path.clone(), read_text(&path).ok().flatten()?));
    let mut backups: Vec<_> = backup_names(path).filter_map(read).collect();
    backups.reverse();
    backups
}

/// `true` if a backup of a file has this text.
#[must_use]
pub fn has_backup(path: &Path, text: &str) -> bool {
    list_backups(path).iter().any(|(_, backup)| backup == text)
}

/// Saves a text of a file beside it, and returns the path. A backup with the same text is used again,
/// and one with another text is never overwritten.
///
/// # Errors
/// When it cannot be written.
pub fn write_backup(path: &Path, text: &str) -> Result<PathBuf, SettingsFileError> {
    let unwritable = |source| SettingsFileError::Write { path: path.into(), source };
    if let Some((same, _)) = list_backups(path).into_iter().find(|(_, backup)| backup == text) {
        return Ok(same);
    }
    for name in backup_names(path) {
        let mut options = File::options();
        match options.write(true).create_new(true).open(&name) {
            Ok(mut file) => {
                // Before the text: the file may be closed to others.
                let written = follow_links(path)
                    .and_then(|target| copy_attributes(&target, &file, &name))
                    .and_then(|()| file.write_all(text.as_bytes()))
                    .and_then(|()| file.sync_all());
                if let Err(error) = written {
                    // Half a backup is worse than none.
                    let _removed = fs::remove_file(&name).is_ok();
                    return Err(unwritable(error));
                }
                return Ok(name);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unwritable(error)),
        }
    }
    Err(unwritable(io::Error::other(format!("it has {MAX_BACKUPS} backups; remove old ones"))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_out_of_a_project_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        fs::create_dir_all(project.join("own")).unwrap();
        symlink("../secret", project.join("out")).unwrap();
        symlink("own/file", project.join("in")).unwrap();
        symlink("..", project.join("up")).unwrap();
        for inside in ["in", "own/file", "new/deep/file"] {
            check_inside(&project.join(inside), &project).unwrap();
        }
        for outside in ["out", "up/file"] {
            let error = check_inside(&project.join(outside), &project).unwrap_err();
            assert_eq!(error.code(), "settings_outside", "{outside}");
        }
    }

    #[test]
    fn a_link_stays_a_link_and_the_mode_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("dotfiles/settings.json");
        let link = folder.path().join("settings.json");
        fs::create_dir(folder.path().join("dotfiles")).unwrap();
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        symlink("dotfiles/settings.json", &link).unwrap();
        write_text(&link, "new", Some("old")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        delete_file(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).is_err() && !file.exists());
    }

    #[test]
    fn a_link_to_nothing_gets_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("deep/file", &link).unwrap();
        assert_eq!(read_text(&link).unwrap(), None);
        write_text(&link, "new", None).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("deep/file")).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_file_that_changed_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "theirs").unwrap();
        for expected in [None, Some("old")] {
            let error = write_text(&file, "new", expected).unwrap_err();
            assert_eq!(error.code(), "settings_changed");
        }
        assert_eq!(delete_file(&file, "old").unwrap_err().code(), "settings_changed");
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn backups_are_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        let first = write_backup(&file, "one").unwrap();
        assert_eq!(write_backup(&file, "one").unwrap(), first);
        let second = write_backup(&file, "two").unwrap();
        assert!(second != first);
        assert_eq!(fs::read_to_string(&first).unwrap(), "one");
        let listed: Vec<String> = list_backups(&file).into_iter().map(|(_, text)| text).collect();
        assert_eq!(listed, ["two", "one"]);
    }

    #[test]
    fn other_bytes_are_refused_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, b"a\nb\xff").unwrap();
        let error = read_text(&file).unwrap_err();
        assert_eq!(error.code(), "settings_not_text");
        assert!(error.to_string().contains("line 2, column 2"), "{error}");
        assert_eq!(read_text(folder.path()).unwrap_err().code(), "settings_unreadable");
    }
}
