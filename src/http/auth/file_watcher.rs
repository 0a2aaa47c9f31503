//! A watched file: a thread checks it when the kernel reports a change of it, or of a directory above
//! it.

use std::fs::Metadata;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::inotify::{self, WatchFlags};
use rustix::io::Errno;

use crate::block_in_place;
use crate::private_files::{BoundedReadError, Symlinks, read_blocking};

/// The age below which a file may change again without a new timestamp: the clock of the file
/// system is coarse.
const MTIME_GRANULARITY: Duration = Duration::from_millis(100);

/// The time that a request waits for a check of the file. After it, the server goes on with the
/// previous content and takes the result of the check when it comes.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);
/// The first part of that time, during which the runtime is not told that the thread blocks: a disk
/// that answers takes some microseconds.
const SHORT_WAIT: Duration = Duration::from_millis(1);

/// The age up to which a check stays valid without a notice. The kernel gives no notice of some
/// changes, such as those that another host makes on a network file system.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The text of a changed file, or the reason why it could not be read.
type FileReadResult = Result<String, BoundedReadError>;

/// Watches a file from a dedicated thread on demand, so that no thread of the runtime waits for a
/// file system that does not answer.
#[derive(Debug)]
pub(super) struct FileWatcher {
    path: PathBuf,
    links: Symlinks,
    /// Started by the first check.
    thread: Option<WatcherThread>,
    /// The last check, if the kernel gives notice of later changes.
    last_check: Option<WatchedCheck>,
}

/// A check, and the notices of changes since.
#[derive(Debug)]
struct WatchedCheck {
    at: Instant,
    notices: Arc<ChangeNotices>,
}

/// The thread that checks a file. It ends when its sender is dropped or, if blocked, when its file
/// system answers.
#[derive(Debug)]
struct WatcherThread {
    requests: Sender<()>,
    results: Receiver<FileCheck>,
    /// `true` while a result is overdue. No further check is requested meanwhile.
    is_overdue: bool,
}

/// The result of a check.
#[derive(Debug)]
struct FileCheck {
    /// The content if it has changed since the check before.
    changed: Option<FileReadResult>,
    /// The notices of later changes; `None` if there may be changes without a notice.
    notices: Option<Arc<ChangeNotices>>,
}

impl FileWatcher {
    pub(super) const fn new(path: PathBuf, links: Symlinks) -> Self {
        Self { path, links, thread: None, last_check: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the content if it has changed since the last call. A check that takes too long is
    /// reported once.
    pub(super) fn read_if_changed(&mut self) -> Option<FileReadResult> {
        if let Some(WatchedCheck { at, notices }) = &self.last_check
            && at.elapsed() < CHECK_INTERVAL
            && !notices.drain()
        {
            return None;
        }
        self.last_check = None;
        let thread = match &mut self.thread {
            Some(thread) => thread,
            None => match WatcherThread::start(self.path.clone(), self.links) {
                Ok(thread) => self.thread.insert(thread),
                // Without a thread the file is read here: that can be slow, but a FIFO is never
                // opened.
                Err(_) => return WatchedFile::new(self.path.clone(), self.links).read_if_changed(),
            },
        };
        let at = Instant::now();
        match thread.check_file() {
            Ok(FileCheck { changed, notices }) => {
                self.last_check = notices.map(|notices| WatchedCheck { at, notices });
                changed
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                // The next check starts another thread.
                self.thread = None;
                Some(Err(io::Error::other("the thread that reads it has failed").into()))
            }
        }
    }
}

impl WatcherThread {
    fn start(path: PathBuf, links: Symlinks) -> io::Result<Self> {
        let (requests, requested) = mpsc::channel();
        let (answer, results) = mpsc::channel();
        let look = move || {
            let mut file = WatchedFile::new(path, links);
            // Ends when the sender is dropped.
            requested.iter().try_for_each(|()| answer.send(file.check())).ok();
        };
        thread::Builder::new().name("watched-file".to_owned()).spawn(look)?;
        Ok(Self { requests, results, is_overdue: false })
    }

    /// Requests a check and waits for its result. A check that does not finish in time yields an
    /// error once; later calls get `Timeout` until the result comes.
    fn check_file(&mut self) -> Result<FileCheck, RecvTimeoutError> {
        if self.is_overdue {
            let check = self.results.recv_timeout(Duration::ZERO)?;
            self.is_overdue = false;
            // The check may have ended long ago.
            return Ok(FileCheck { notices: None, ..check });
        }
        self.requests.send(()).map_err(|_| RecvTimeoutError::Disconnected)?;
        let answer = self.results.recv_timeout(SHORT_WAIT).or_else(|error| match error {
            RecvTimeoutError::Timeout => {
                block_in_place(|| self.results.recv_timeout(CHECK_TIMEOUT))
            }
            RecvTimeoutError::Disconnected => Err(error),
        });
        self.is_overdue = matches!(answer, Err(RecvTimeoutError::Timeout));
        if self.is_overdue {
            let overdue = Some(Err(BoundedReadError::new_timeout()));
            return Ok(FileCheck { changed: overdue, notices: None });
        }
        answer
    }
}

/// Notices of the kernel (inotify) about changes of a file and of the directories above it. Taking
/// them never blocks, whatever the file system does.
#[derive(Debug)]
struct ChangeNotices(OwnedFd);

impl ChangeNotices {
    fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?))
    }

    /// Watches the file, if there is one, and every directory above it. Adds the watches to
    /// `watches`. Blocks while the file system does.
    ///
    /// # Errors
    /// If a change could remain without a notice: below a symlink, for example.
    fn watch(&self, path: &Path, watches: &mut Vec<i32>) -> io::Result<()> {
        let path = path::absolute(path)?;
        let itself = WatchFlags::ATTRIB | WatchFlags::DONT_FOLLOW;
        let moved = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
        let mut names = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
        for directory in path.ancestors().skip(1) {
            watches.push(inotify::add_watch(&self.0, directory, itself | moved | names)?);
            // Only the names beside the file matter.
            names = WatchFlags::empty();
        }
        match inotify::add_watch(&self.0, &path, itself | WatchFlags::MODIFY) {
            Ok(watch) => watches.push(watch),
            // The watch of the directory gives notice of its creation.
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if path.symlink_metadata()?.is_symlink() {
            return Err(io::Error::other("the target of a symlink is not watched"));
        }
        Ok(())
    }

    /// Ends watches of what is no longer on the path.
    fn unwatch(&self, watches: impl Iterator<Item = i32>) {
        for watch in watches {
            // The kernel may have ended it already.
            inotify::remove_watch(&self.0, watch).ok();
        }
    }

    /// Takes all notices. Returns `true` if there were any.
    fn drain(&self) -> bool {
        let mut buffer = [0; 4096];
        let mut any = false;
        loop {
            match rustix::io::read(&self.0, &mut buffer) {
                Ok(_) => any = true,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return any,
                Err(_) => return true,
            }
        }
    }
}

/// A file and its metadata at the last read.
#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    links: Symlinks,
    last_stamp: Option<FileStamp>,
    /// `true` if another process holds a lease on the file and that was reported.
    is_leased: bool,
    /// Created by the first check; `None` if the kernel refuses.
    notices: Option<Arc<ChangeNotices>>,
    /// The watches that the last check set.
    watches: Vec<i32>,
}

/// The metadata that shows that a file has changed without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FileStamp {
    File { device: u64, inode: u64, size: u64, changed: (i64, i64), modified: (i64, i64) },
    Failure(io::ErrorKind),
}

impl WatchedFile {
    const fn new(path: PathBuf, links: Symlinks) -> Self {
        Self { path, links, last_stamp: None, is_leased: false, notices: None, watches: Vec::new() }
    }

    /// Checks the file. Blocks while the file system does.
    fn check(&mut self) -> FileCheck {
        // The watch starts before the read, so there is a notice of a change in between.
        let notices = self.watch();
        let changed = self.read_if_changed();
        // Without a stamp the next check must read the file again.
        FileCheck { changed, notices: notices.filter(|_| self.last_stamp.is_some()) }
    }

    /// Makes the kernel give notice of changes; `None` if it cannot.
    fn watch(&mut self) -> Option<Arc<ChangeNotices>> {
        if self.notices.is_none() {
            self.notices = ChangeNotices::new().ok().map(Arc::new);
        }
        let notices = self.notices.clone()?;
        let mut watches = Vec::new();
        let result = notices.watch(&self.path, &mut watches);
        notices.unwatch(self.watches.drain(..).filter(|watch| !watches.contains(watch)));
        self.watches = watches;
        result.is_ok().then_some(notices)
    }

    /// Returns the content if it has changed since the last call. Blocks while the file system
    /// does.
    fn read_if_changed(&mut self) -> Option<FileReadResult> {
        // Taken before the file is read: the next check then sees a change in between.
        let found = self.links.metadata(&self.path);
        let now = found
            .as_ref()
            .map_or_else(|error| FileStamp::Failure(error.kind()), FileStamp::from_metadata);
        if self.last_stamp.as_ref() == Some(&now) {
            return None;
        }
        self.last_stamp = found.as_ref().map_or(true, is_older_than_granularity).then_some(now);
        match found {
            Ok(_) => self.read(),
            Err(error) => Some(Err(error.into())),
        }
    }

    fn read(&mut self) -> Option<FileReadResult> {
        let read = read_blocking(&self.path, self.links);
        let was_leased = self.is_leased;
        self.is_leased = read.as_ref().is_err_and(BoundedReadError::is_leased);
        if self.is_leased {
            // The file is read again at the next check; the lease is reported once.
            self.last_stamp = None;
        }
        (!(was_leased && self.is_leased)).then_some(read)
    }
}

impl FileStamp {
    fn from_metadata(found: &Metadata) -> Self {
        Self::File {
            device: found.dev(),
            inode: found.ino(),
            size: found.len(),
            changed: (found.ctime(), found.ctime_nsec()),
            modified: (found.mtime(), found.mtime_nsec()),
        }
    }
}

fn is_older_than_granularity(found: &Metadata) -> bool {
    // Only regular files are read, so the content of anything else does not matter.
    if !found.is_file() {
        return true;
    }
    let age = found.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > MTIME_GRANULARITY)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Makes a file look as if it had not been changed for long.
    fn age_file(path: &Path) {
        let past = SystemTime::now() - Duration::from_secs(60);
        File::options().write(true).open(path).unwrap().set_modified(past).unwrap();
    }

    #[test]
    fn a_file_is_read_only_when_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut watcher = FileWatcher::new(path.clone(), Symlinks::Refuse);
        assert!(watcher.read_if_changed().unwrap().unwrap_err().is_missing());
        assert!(watcher.read_if_changed().is_none(), "still not there");
        fs::write(&path, "one").unwrap();
        age_file(&path);
        assert_eq!(watcher.read_if_changed().unwrap().unwrap(), "one");
        assert!(watcher.read_if_changed().is_none());
        // The same size and modification time, but another file.
        let other = folder.path().join("other");
        fs::write(&other, "two").unwrap();
        age_file(&other);
        fs::rename(&other, &path).unwrap();
        assert_eq!(watcher.read_if_changed().unwrap().unwrap(), "two");
        fs::remove_file(&path).unwrap();
        assert!(watcher.read_if_changed().unwrap().is_err());
    }

    #[test]
    fn the_kernel_gives_notice_of_every_change_on_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let directory = folder.join("upper/lower");
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("file");
        let notices = ChangeNotices::new().unwrap();
        let changed_by = |change: &dyn Fn()| {
            notices.watch(&path, &mut Vec::new()).unwrap();
            notices.drain();
            assert!(!notices.drain());
            change();
            notices.drain()
        };
        let replace = || {
            fs::write(folder.join("other"), "two").unwrap();
            fs::rename(folder.join("other"), &path).unwrap();
        };
        let close = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
        let rename_above = || {
            fs::create_dir_all(folder.join("new/lower")).unwrap();
            fs::rename(folder.join("upper"), folder.join("old")).unwrap();
            fs::rename(folder.join("new"), folder.join("upper")).unwrap();
        };
        assert!(changed_by(&|| fs::write(&path, "one").unwrap()), "created");
        assert!(changed_by(&|| fs::write(&path, "two").unwrap()), "written");
        assert!(changed_by(&replace), "replaced");
        assert!(changed_by(&|| close(&path)), "closed");
        assert!(changed_by(&|| close(&directory)), "directory closed");
        assert!(changed_by(&|| fs::remove_file(&path).unwrap()), "removed");
        assert!(changed_by(&rename_above), "renamed above");
        assert!(changed_by(&|| fs::remove_dir_all(&directory).unwrap()), "directory removed");
        assert!(notices.watch(&path, &mut Vec::new()).is_err(), "no directory to watch");
    }

    #[test]
    fn a_path_through_a_symlink_is_checked_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        for (name, text) in [("one", "first"), ("two", "second")] {
            fs::create_dir(folder.join(name)).unwrap();
            fs::write(folder.join(name).join("file"), text).unwrap();
            age_file(&folder.join(name).join("file"));
        }
        let link_to = |target: &str, link: &str| {
            symlink(folder.join(target), folder.join("new")).unwrap();
            fs::rename(folder.join("new"), folder.join(link)).unwrap();
        };
        link_to("one", "directory");
        link_to("one/file", "link");
        for (path, link, target) in
            [("directory/file", "directory", "two"), ("link", "link", "two/file")]
        {
            let mut watcher = FileWatcher::new(folder.join(path), Symlinks::Follow);
            assert_eq!(watcher.read_if_changed().unwrap().unwrap(), "first", "{path}");
            assert!(watcher.last_check.is_none(), "{path}");
            link_to(target, link);
            assert_eq!(watcher.read_if_changed().unwrap().unwrap(), "second", "{path}");
        }
    }

    #[test]
    fn a_file_that_was_read_is_checked_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("file");
        fs::write(&path, "one").unwrap();
        age_file(&path);
        let mut watcher = FileWatcher::new(path.clone(), Symlinks::Refuse);
        assert_eq!(watcher.read_if_changed().unwrap().unwrap(), "one");
        let check = watcher.last_check.as_ref().unwrap();
        assert!(!check.notices.drain());
        fs::write(&path, "two").unwrap();
        assert_eq!(watcher.read_if_changed().unwrap().unwrap(), "two");
        assert!(watcher.last_check.is_none(), "it may change again at the same time");
    }

    #[test]
    fn what_left_the_path_is_no_longer_watched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("file");
        let mut file = WatchedFile::new(path.clone(), Symlinks::Refuse);
        let mut counts = Vec::new();
        for number in 0..3 {
            fs::write(&path, "text").unwrap();
            age_file(&path);
            drop(file.check());
            counts.push(file.watches.len());
            fs::rename(&path, path.with_extension(number.to_string())).unwrap();
        }
        drop(file.check());
        assert_eq!(counts, [counts[0]; 3]);
        file.notices.as_ref().unwrap().drain();
        fs::write(path.with_extension("0"), "other").unwrap();
        assert!(!file.notices.as_ref().unwrap().drain());
    }

    #[test]
    fn a_file_that_was_just_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut watcher = FileWatcher::new(path.clone(), Symlinks::Refuse);
        let soon = SystemTime::now() + Duration::from_secs(60);
        fs::write(&path, "one").unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(soon).unwrap();
        assert!(watcher.read_if_changed().is_some() && watcher.read_if_changed().is_some());
    }
}
