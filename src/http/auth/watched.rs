//! A file that is read again when it changed.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::bounded_read::{BoundedReadError, PendingRead};
use crate::in_place::in_place;
use crate::private_files::Links;

/// Files that changed less than this ago may change again without looking different: the
/// system's clock for files is coarse.
const UNSETTLED: Duration = Duration::from_millis(100);

/// The time that a request waits for the text of a file that changed. After it, the server goes on
/// with what it read before, and takes the text when it comes.
const READ_TIME: Duration = Duration::from_secs(1);

/// A file, and what it looked like when it was read last.
#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    links: Links,
    seen: Option<Seen>,
    /// A read that did not come in time. There is never more than one.
    pending: Option<PendingRead>,
    /// Somebody holds a lease on the file, which was told.
    is_leased: bool,
}

/// What a file looks like without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    File { device: u64, inode: u64, size: u64, changed: (i64, i64), modified: (i64, i64) },
    Failure(io::ErrorKind),
}

impl Watched {
    /// A file that was not read yet.
    pub(super) const fn new(path: PathBuf, links: Links) -> Self {
        Self { path, links, seen: None, pending: None, is_leased: false }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it, unless that is what was there the last time.
    pub(super) fn changed(&mut self) -> Option<Result<String, BoundedReadError>> {
        if let Some(pending) = &self.pending {
            let read = pending.wait(Duration::ZERO)?;
            self.pending = None;
            return Some(read);
        }
        // Before it is read: what changes in between is then seen by the next look.
        let found = self.links.metadata(&self.path);
        let now = found.as_ref().map_or_else(|error| Seen::Failure(error.kind()), Seen::of);
        if self.seen.as_ref() == Some(&now) {
            return None;
        }
        self.seen = found.as_ref().map_or(true, is_settled).then_some(now);
        match found {
            Ok(_) => self.read(),
            Err(error) => Some(Err(error.into())),
        }
    }

    fn read(&mut self) -> Option<Result<String, BoundedReadError>> {
        let reading = PendingRead::start(&self.path, self.links);
        let Some(read) = in_place(|| reading.wait(READ_TIME)) else {
            self.pending = Some(reading);
            return Some(Err(BoundedReadError::Timeout));
        };
        let was_leased = self.is_leased;
        self.is_leased = read.as_ref().is_err_and(BoundedReadError::is_leased);
        if self.is_leased {
            // The file is tried again at the next look, and told of once.
            self.seen = None;
        }
        (!(was_leased && self.is_leased)).then_some(read)
    }
}

impl Seen {
    fn of(found: &Metadata) -> Self {
        Self::File {
            device: found.dev(),
            inode: found.ino(),
            size: found.len(),
            changed: (found.ctime(), found.ctime_nsec()),
            modified: (found.mtime(), found.mtime_nsec()),
        }
    }
}

fn is_settled(found: &Metadata) -> bool {
    // What is not a file is not read, so that its content does not matter.
    if !found.is_file() {
        return true;
    }
    let age = found.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > UNSETTLED)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Makes a file look as if nobody had touched it for long.
    fn settle(path: &Path) {
        let past = SystemTime::now() - Duration::from_secs(60);
        fs::File::options().write(true).open(path).unwrap().set_modified(past).unwrap();
    }

    #[test]
    fn a_file_is_read_when_it_changed_and_not_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut watched = Watched::new(path.clone(), Links::Refuse);
        assert!(watched.changed().unwrap().unwrap_err().is_missing());
        assert!(watched.changed().is_none(), "still not there");
        fs::write(&path, "one").unwrap();
        settle(&path);
        assert_eq!(watched.changed().unwrap().unwrap(), "one");
        assert!(watched.changed().is_none());
        // The same size, the same time of change: another file.
        let other = folder.path().join("other");
        fs::write(&other, "two").unwrap();
        settle(&other);
        fs::rename(&other, &path).unwrap();
        assert_eq!(watched.changed().unwrap().unwrap(), "two");
        fs::remove_file(&path).unwrap();
        assert!(watched.changed().unwrap().is_err());
    }

    #[test]
    fn a_file_that_was_just_written_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut watched = Watched::new(path.clone(), Links::Refuse);
        let soon = SystemTime::now() + Duration::from_secs(60);
        fs::write(&path, "one").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(soon).unwrap();
        assert!(watched.changed().is_some() && watched.changed().is_some());
    }
}
