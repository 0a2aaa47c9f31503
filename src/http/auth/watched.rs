//! A file that is read again when it changed.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::bounded_read::{BoundedReadError, read_blocking};
use crate::in_place::in_place;
use crate::private_files::Links;

/// Files that changed less than this ago may change again without looking different: the
/// system's clock for files is coarse.
const UNSETTLED: Duration = Duration::from_millis(100);

/// The time that a request waits for a look at the file. After it, the server goes on with what it
/// read before, and takes what the look finds when it comes.
const LOOK_TIME: Duration = Duration::from_secs(1);
/// The part of that time in which nothing is done to let the runtime go on meanwhile: a disk that
/// answers takes some microseconds.
const SHORT_TIME: Duration = Duration::from_millis(1);

/// The text of a file that changed, or the reason why there is none.
type Changed = Result<String, BoundedReadError>;

/// A file that a thread of its own looks at, whenever somebody asks: no thread of the runtime waits
/// for a file system that does not answer.
#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    links: Links,
    /// Started with the first look.
    looker: Option<Looker>,
}

/// The thread that looks at a file. It ends with its sender, or when its file system answers.
#[derive(Debug)]
struct Looker {
    asks: Sender<()>,
    answers: Receiver<Option<Changed>>,
    /// `true` while an answer is awaited that did not come in time. Nothing is asked meanwhile.
    is_late: bool,
}

impl Watched {
    /// A file that was not read yet.
    pub(super) const fn new(path: PathBuf, links: Links) -> Self {
        Self { path, links, looker: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what is in it, unless that is what was there the last time. A look that takes too
    /// long is told of once.
    pub(super) fn changed(&mut self) -> Option<Changed> {
        let looker = match &mut self.looker {
            Some(looker) => looker,
            None => match Looker::start(self.path.clone(), self.links) {
                Ok(looker) => self.looker.insert(looker),
                // Without a thread the file is read here: that can be slow, but not a FIFO.
                Err(_) => return WatchedFile::new(self.path.clone(), self.links).changed(),
            },
        };
        let answer = looker.ask();
        if let Err(RecvTimeoutError::Disconnected) = answer {
            // The next look has another thread.
            self.looker = None;
        }
        match answer {
            Ok(changed) => changed,
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Err(io::Error::other("the thread that reads it has failed").into()))
            }
        }
    }
}

impl Looker {
    fn start(path: PathBuf, links: Links) -> io::Result<Self> {
        let (asks, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let look = move || {
            let mut file = WatchedFile::new(path, links);
            // Ends when nobody asks any more.
            asked.iter().try_for_each(|()| answer.send(file.changed())).ok();
        };
        thread::Builder::new().name("watched-file".to_owned()).spawn(look)?;
        Ok(Self { asks, answers, is_late: false })
    }

    /// Asks for a look and waits for its answer. Where that does not come, an error is told once,
    /// and later calls get `Timeout` until it comes.
    fn ask(&mut self) -> Result<Option<Changed>, RecvTimeoutError> {
        if self.is_late {
            let changed = self.answers.recv_timeout(Duration::ZERO)?;
            self.is_late = false;
            return Ok(changed);
        }
        self.asks.send(()).map_err(|_| RecvTimeoutError::Disconnected)?;
        let answer = self.answers.recv_timeout(SHORT_TIME).or_else(|error| match error {
            RecvTimeoutError::Timeout => in_place(|| self.answers.recv_timeout(LOOK_TIME)),
            RecvTimeoutError::Disconnected => Err(error),
        });
        self.is_late = matches!(answer, Err(RecvTimeoutError::Timeout));
        if self.is_late { Ok(Some(Err(BoundedReadError::timeout()))) } else { answer }
    }
}

/// A file, and what it looked like when it was read last.
#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    links: Links,
    seen: Option<Seen>,
    /// Somebody holds a lease on the file, which was told.
    is_leased: bool,
}

/// The metadata by which a changed file is recognised without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    File { device: u64, inode: u64, size: u64, changed: (i64, i64), modified: (i64, i64) },
    Failure(io::ErrorKind),
}

impl WatchedFile {
    const fn new(path: PathBuf, links: Links) -> Self {
        Self { path, links, seen: None, is_leased: false }
    }

    /// Returns what is in it, unless that is what was there the last time. Blocks while the file
    /// system does.
    fn changed(&mut self) -> Option<Changed> {
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

    fn read(&mut self) -> Option<Changed> {
        let read = read_blocking(&self.path, self.links);
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
