//! Removing whatever a job has left in its temporary directory.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Removes the directory `name` of `around`, with everything in it.
///
/// Symlinks are not followed, and whatever permissions were taken away is given back first. It takes
/// three open files and no stack, however deep the directories are: each that is not empty is moved up
/// to `around`, which must therefore be ours alone, before its turn comes.
///
/// # Errors
/// The first one; what could be removed is.
pub(super) fn clear(around: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let mut work = Work { around, name, moved: 0, waiting: VecDeque::from([name.to_owned()]) };
    let mut outcome = Ok(());
    while let Some(next) = work.waiting.pop_front() {
        let done = work.empty(&next).and_then(|()| remove_directory(around, &next));
        match done {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => outcome = outcome.and(Err(errno.into())),
        }
    }
    outcome
}

struct Work<'a> {
    around: BorrowedFd<'a>,
    name: &'a CStr,
    /// How many were moved up, for their names.
    moved: u64,
    /// Directories in `around` that are to be emptied and removed.
    waiting: VecDeque<CString>,
}

impl Work<'_> {
    /// Leaves nothing in a directory, once those that were moved up are gone as well.
    fn empty(&mut self, directory: &CStr) -> Result<(), Errno> {
        let opened = open_anyhow(self.around, directory)?;
        let mut outcome = Ok(());
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                outcome = outcome.and(self.remove(opened.as_fd(), name));
            }
        }
        outcome
    }

    fn remove(&mut self, from: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        match unlinkat(from, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR) => {}
            Err(errno) => return Err(errno),
        }
        let removed = match remove_directory(from, name) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => self.move_up(from, name),
            done => done,
        };
        // Somebody else may have removed it meanwhile.
        if removed == Err(Errno::NOENT) { Ok(()) } else { removed }
    }

    fn move_up(&mut self, from: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        // To move a directory one must be allowed to write to it.
        open_anyhow(from, name)?;
        self.moved += 1;
        let mut new = self.name.to_bytes().to_vec();
        new.extend_from_slice(format!(".{}", self.moved).as_bytes());
        let new = CString::new(new).map_err(|_| Errno::INVAL)?;
        renameat(from, name, self.around, &new)?;
        self.waiting.push_back(new);
        Ok(())
    }
}

fn remove_directory(from: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    unlinkat(from, name, AtFlags::REMOVEDIR)
}

/// Opens a directory, with all permissions for us.
fn open_anyhow(from: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = openat(from, name, flags | OFlags::PATH, Mode::empty())?;
    if !Mode::from_raw_mode(fstat(&place)?.st_mode).contains(Mode::RWXU) {
        // By way of the open file, since a name could lead elsewhere by now.
        let path = format!("/proc/self/fd/{}", place.as_raw_fd());
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    }
    openat(&place, c".", flags | OFlags::RDONLY, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    use rustix::fs::{CWD, mkdirat, open};
    use tempfile::TempDir;

    use super::*;

    struct Place {
        around: TempDir,
        full: PathBuf,
    }

    impl Place {
        fn new() -> Self {
            Self::within(tempfile::tempdir().unwrap())
        }

        fn within(around: TempDir) -> Self {
            let full = around.path().join("full");
            fs::create_dir(&full).unwrap();
            Self { around, full }
        }

        fn clear(&self) -> io::Result<()> {
            clear(directory(self.around.path()).as_fd(), c"full")
        }

        #[track_caller]
        fn check_cleared(&self) {
            self.clear().unwrap();
            assert_eq!(fs::read_dir(self.around.path()).unwrap().count(), 0);
        }
    }

    fn directory(path: &Path) -> OwnedFd {
        open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    fn forbid(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_has_no_permissions_is_removed_all_the_same() {
        let place = Place::new();
        let deep = place.full.join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "x").unwrap();
        forbid(&deep.join("file"), 0o400);
        fs::create_dir(place.full.join("shut")).unwrap();
        forbid(&place.full.join("shut"), 0);
        for path in [deep.as_path(), &place.full.join("a/b"), &place.full.join("a"), &place.full] {
            forbid(path, 0);
        }
        place.check_cleared();
    }

    #[test]
    fn what_a_symlink_leads_to_stays() {
        let place = Place::new();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("mine"), "x").unwrap();
        forbid(outside.path(), 0o500);
        symlink(outside.path(), place.full.join("directory")).unwrap();
        symlink(outside.path().join("mine"), place.full.join("file")).unwrap();
        symlink("nowhere", place.full.join("dangling")).unwrap();
        place.check_cleared();
        assert_eq!(fs::read_to_string(outside.path().join("mine")).unwrap(), "x");
        assert_eq!(outside.path().metadata().unwrap().permissions().mode() & 0o777, 0o500);
        // Neither is one in the place of the directory itself.
        symlink(outside.path(), &place.full).unwrap();
        place.clear().unwrap_err();
        assert!(outside.path().join("mine").exists());
        forbid(outside.path(), 0o700);
    }

    #[test]
    fn it_takes_no_stack_however_deep_it_is() {
        const DEPTH: usize = 5000;
        // In memory where there is such a place: some disks take milliseconds for each directory.
        let around = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let place = Place::within(around);
        let mut at = directory(&place.full);
        for _ in 0..DEPTH {
            mkdirat(&at, c"d", Mode::RWXU).unwrap();
            mkdirat(&at, c"other", Mode::RWXU).unwrap();
            at = openat(&at, c"d", OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        place.check_cleared();
    }

    #[test]
    fn every_kind_and_name_goes() {
        let place = Place::new();
        let odd = std::ffi::OsStr::from_bytes(b"\xff\n *");
        fs::create_dir_all(place.full.join(odd).join("full.1")).unwrap();
        fs::write(place.full.join(odd).join("full.1/x"), "").unwrap();
        rustix::fs::mkfifoat(CWD, place.full.join("fifo"), Mode::RWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place.full.join("socket")).unwrap();
        for number in 0..3000 {
            fs::write(place.full.join(format!("{number}")), "").unwrap();
        }
        place.check_cleared();
    }
}
