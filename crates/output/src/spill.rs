//! Spill files: the files that hold output which memory does not.
//!
//! A file stays open while it is written. A finished file is opened when it is read, and a few stay
//! open after that, so that the number of kept logs is not limited by the number of descriptors.
//!
//! Every server has its own directory in the spill directory, with a lock on it: the next server
//! removes the files of a server that was killed. All names are looked up in the directory that was
//! opened when it was created, whatever is put in its place later.
//!
//! A durable directory has named files instead, which the next server finds again. The lock of the
//! data directory guards it. Files without a name in it are removed by the next server.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::counters::{Counters, SpillOperation};
use crate::read_memory::{ClosedMemory, FrameCache, ReleaseMemory};
use crate::removal::Removal;
use crate::server_dir::{
    DirKind, DiskWatch, FileId, FilePart, LogName, ServerDir, SpillFileName, is_absent,
    is_read_only, unnamed_file,
};
use crate::unstored::{UnstoredBytes, UnstoredNote};

/// Finished files that stay open after they were read.
const OPEN_FILES: usize = 16;
/// Threads that may wait for the disk to write output at the same time.
const WRITERS: usize = 16;
/// Threads that may wait for the disk to read output at the same time.
const READERS: usize = 32;
/// The time that the disk has to answer. Pages and excerpts take a small part of it.
const DISK_TIME: Duration = Duration::from_secs(30);
/// The time that the disk has to answer an optional read.
const SHORT_DISK_TIME: Duration = Duration::from_secs(1);

/// The directory for output that memory does not hold. Cheap to clone; all clones share the open
/// files.
///
/// Nothing is created before the first file.
#[derive(Debug, Clone)]
pub struct SpillDir {
    store: Arc<SpillStore>,
}

#[derive(Debug)]
struct SpillStore {
    root: PathBuf,
    kind: DirKind,
    /// Created with the first file, and again if somebody has removed it.
    server_dir: Mutex<Option<Arc<ServerDir>>>,
    /// The number of the first file.
    first_number: u64,
    last_number: AtomicU64,
    recent: Mutex<RecentFiles>,
    cleaner: Mutex<Option<Sender<Removal>>>,
    /// The time that the disk has to answer a read.
    disk_time: Duration,
    writers: Arc<Semaphore>,
    readers: Arc<Semaphore>,
    frames: Arc<FrameCache>,
    /// The memory of durable logs that were closed recently.
    closed: Mutex<ClosedMemory>,
    /// The writes of durable logs.
    disk: DiskWatch,
    /// The bytes of durable logs that are in no file yet, if the next server is told of them.
    unstored: Option<UnstoredBytes>,
    counters: Arc<Counters>,
}

/// The finished files that were read recently, the newest at the back.
type RecentFiles = VecDeque<(u64, Arc<File>)>;

impl SpillDir {
    /// Creates files in a directory below `root`. Failed operations are counted.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, counters: Arc<Counters>) -> Self {
        let store = SpillStore::new(root.into(), DirKind::PerServer, counters);
        Self { store: Arc::new(store) }
    }

    /// Creates files in `root` itself. Files of durable logs stay there when the server ends. The
    /// caller holds a lock that keeps other servers out of the directory. While `disk` is stuck,
    /// memory takes the bytes of durable logs. `unstored` tells the next server of bytes that no file
    /// has when this one is killed.
    #[must_use]
    pub fn open_durable(
        root: impl Into<PathBuf>,
        counters: Arc<Counters>,
        disk: DiskWatch,
        unstored: Option<UnstoredBytes>,
    ) -> Self {
        let store = SpillStore::new(root.into(), DirKind::Durable, counters);
        Self { store: Arc::new(SpillStore { disk, unstored, ..store }) }
    }

    /// The note about bytes of a durable log that are in no file yet.
    pub(crate) fn unstored_note(&self, log: &LogName) -> Option<UnstoredNote> {
        self.store.unstored.as_ref().map(|unstored| unstored.note_of(log))
    }

    /// The directory that holds the directories of all servers.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.store.root
    }

    /// The watch over the disk of durable logs.
    pub(crate) fn disk(&self) -> &DiskWatch {
        &self.store.disk
    }

    /// The counters, which include failed operations on files.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.store.counters
    }

    /// Checks that a file can be created in the spill directory and written. Blocks for as long as
    /// the disk does.
    ///
    /// # Errors
    /// The system's error.
    pub fn check(&self) -> io::Result<()> {
        let _operation = self.disk().begin();
        self.create_unnamed()?.write_all_at(b"x", 0)
    }

    /// `true` if the files of durable logs stay when the server ends.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.store.kind == DirKind::Durable
    }

    /// Removes the files of servers that were killed. Does not wait for it. Removes nothing from a
    /// durable directory.
    pub fn remove_leftovers(&self) {
        if self.store.kind == DirKind::PerServer {
            self.store.remove(Removal::Leftovers { root: self.store.root.clone() });
        }
    }

    /// Removes the files of a durable directory that belong to none of the known logs, and
    /// uncompressed files that a crash left beside their compressed form. Waits until the directory
    /// was read, but not for the removal.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn remove_unknown_logs(&self, known: &HashSet<LogName>) -> io::Result<()> {
        let dir = self.store.server_dir()?;
        let names = dir.find_leftovers(known, self.store.first_number)?;
        self.store.remove(Removal::Names { dir, names });
        Ok(())
    }

    /// Removes all files of this server, and waits for that at most `time`. The next server removes
    /// the rest. The files of durable logs stay.
    pub fn remove_everything(&self, time: Duration) {
        let Some(dir) = lock(&self.store.server_dir).take() else { return };
        let (_done, is_done) = mpsc::channel();
        self.store.remove(Removal::Everything { dir, _done });
        is_done.recv_timeout(time).ok();
    }

    /// The decoded frames of all compressed logs in this directory.
    pub(crate) fn frame_cache(&self) -> &Arc<FrameCache> {
        &self.store.frames
    }

    /// Keeps this many bytes of a closed log in memory, in exchange for those of older logs.
    pub(crate) fn keep_closed_memory(&self, bytes: usize, release: ReleaseMemory) {
        let released = lock(&self.store.closed).add(bytes, release);
        released.into_iter().for_each(|release| release());
    }

    /// Waits for a permit to write. `None` if the semaphore is closed.
    pub(crate) async fn write_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.store.writers).acquire_owned().await.ok()
    }

    /// Reads from the disk on a thread that may block. The number of such threads is bounded;
    /// further calls wait without a thread. The work beside the disk may take `time`.
    ///
    /// # Errors
    /// The error of `read`; `TimedOut` if the disk did not answer in time.
    pub(crate) async fn read_with<T: Send + 'static>(
        &self,
        time: Duration,
        read: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let apart = async {
            let permit = Arc::clone(&self.store.readers).acquire_owned().await;
            read_on_blocking_thread(permit.map_err(io::Error::other)?, read).await
        };
        timeout(self.store.disk_time.saturating_add(time), apart).await.unwrap_or_else(|_| {
            let why = "the disk that holds the output did not answer in time";
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        })
    }

    /// Reads optional information from the disk. Returns `None` if the maximum number of threads
    /// read already, or if the disk is slow.
    pub(crate) async fn read_if_idle_with<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Option<T> {
        let permit = Arc::clone(&self.store.readers).try_acquire_owned().ok()?;
        timeout(SHORT_DISK_TIME, read_on_blocking_thread(permit, read)).await.ok()?.ok()
    }

    /// Creates a file (mode 0600) that is open for writing until [`SpillFile::end_writing`].
    pub(crate) fn create_file(&self) -> io::Result<SpillFile> {
        let number = self.store.next_number();
        let name = SpillFileName::Temporary(number);
        self.store.counters.checked(SpillOperation::Create, self.create_with_name(number, name))
    }

    /// Creates a file (mode 0600) of a durable log. A file that already has the name is replaced.
    pub(crate) fn create_named(&self, log: &LogName, part: FilePart) -> io::Result<SpillFile> {
        let number = self.store.next_number();
        let name = SpillFileName::of_log(log, part);
        self.store.counters.checked(SpillOperation::Create, self.create_with_name(number, name))
    }

    /// The file of a durable log, which is opened when it is needed.
    pub(crate) fn named_file(&self, log: &LogName, part: FilePart) -> SpillFile {
        let number = self.store.next_number();
        SpillFile::new(&self.store, number, SpillFileName::of_log(log, part), OpenState::default())
    }

    /// Opens the file of a durable log to write on. `None` if there is no such file. A file that can only be
    /// read now is opened for writing when it is written.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn reopen_named(
        &self,
        log: &LogName,
        part: FilePart,
    ) -> io::Result<Option<SpillFile>> {
        let name = SpillFileName::of_log(log, part);
        let dir = self.store.server_dir()?;
        let opened = match dir.open_file(&name, OFlags::RDWR, Mode::empty()) {
            Err(error) if is_read_only(&error) => {
                dir.open_file(&name, OFlags::RDONLY, Mode::empty()).map(|file| (file, false))
            }
            opened => opened.map(|file| (file, true)),
        };
        let (file, can_write) = match opened {
            Err(error) if is_absent(&error) => return Ok(None),
            opened => opened?,
        };
        let id = FileId::from_regular_file(&file)?;
        let writing = can_write.then(|| Arc::new(file));
        let open = OpenState { writing, id: Some(Box::new(id)) };
        Ok(Some(SpillFile::new(&self.store, self.store.next_number(), name, open)))
    }

    fn create_with_name(&self, number: u64, name: SpillFileName) -> io::Result<SpillFile> {
        let dir = self.store.server_dir()?;
        let (dir, file) = match dir.create_file(&name) {
            // Somebody has removed the directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let dir = self.store.replace_server_dir(&dir)?;
                let file = dir.create_file(&name)?;
                (dir, file)
            }
            made => (dir, made?),
        };
        let id = FileId::from_regular_file(&file)?;
        let open = OpenState { writing: Some(Arc::new(file)), id: Some(Box::new(id)) };
        let mut file = SpillFile::new(&self.store, number, name, open);
        // The directory of a server may be replaced: its files stay in the one they were created in.
        file.dir = (self.store.kind == DirKind::PerServer).then_some(dir);
        Ok(file)
    }

    /// Creates an unnamed file (mode 0600), which is gone once its last reader is.
    pub(crate) fn create_unnamed(&self) -> io::Result<File> {
        self.store.counters.checked(SpillOperation::Create, unnamed_file(&self.store.root))
    }

    /// Closes an unnamed file, off the runtime.
    pub(crate) fn remove_unnamed(&self, file: Arc<File>) {
        self.store.remove(Removal::Unnamed { _open: file });
    }
}

impl From<PathBuf> for SpillDir {
    fn from(root: PathBuf) -> Self {
        Self::new(root, Arc::default())
    }
}

/// Runs a read on a thread that may block. The thread holds the permit for as long as the read
/// takes.
async fn read_on_blocking_thread<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let act = move || {
        let _permit = permit;
        read()
    };
    spawn_blocking(act).await.map_err(io::Error::other)?
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SpillStore {
    fn new(root: PathBuf, kind: DirKind, counters: Arc<Counters>) -> Self {
        let first_number = match kind {
            DirKind::PerServer => 0,
            // Higher than any number of an earlier server in the same directory.
            DirKind::Durable => UNIX_EPOCH.elapsed().map_or(0, |time| time.as_micros() as u64),
        };
        Self {
            root,
            kind,
            first_number,
            server_dir: Mutex::default(),
            last_number: AtomicU64::new(first_number),
            recent: Mutex::default(),
            cleaner: Mutex::default(),
            disk_time: DISK_TIME,
            writers: Arc::new(Semaphore::new(WRITERS)),
            readers: Arc::new(Semaphore::new(READERS)),
            frames: Arc::default(),
            closed: Mutex::default(),
            disk: DiskWatch::default(),
            unstored: None,
            counters,
        }
    }

    fn server_dir(&self) -> io::Result<Arc<ServerDir>> {
        let mut known = lock(&self.server_dir);
        match &*known {
            Some(dir) => Ok(Arc::clone(dir)),
            None => {
                let dir = match self.kind {
                    DirKind::PerServer => ServerDir::create(&self.root)?,
                    DirKind::Durable => ServerDir::open_durable(&self.root)?,
                };
                Ok(Arc::clone(known.insert(Arc::new(dir))))
            }
        }
    }

    fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Creates another directory in place of one that is gone, unless another thread just did.
    fn replace_server_dir(&self, gone: &Arc<ServerDir>) -> io::Result<Arc<ServerDir>> {
        let mut known = lock(&self.server_dir);
        if known.as_ref().is_some_and(|dir| Arc::ptr_eq(dir, gone)) {
            *known = None;
        }
        drop(known);
        self.server_dir()
    }

    fn recent_file(&self, number: u64) -> Option<Arc<File>> {
        let mut recent = lock(&self.recent);
        let at = recent.iter().rposition(|(known, _)| *known == number)?;
        let found = recent.remove(at)?;
        let file = Arc::clone(&found.1);
        recent.push_back(found);
        Some(file)
    }

    fn keep_open(&self, number: u64, file: Arc<File>) {
        let mut recent = lock(&self.recent);
        // Two readers may have opened it at the same time.
        recent.retain(|(known, _)| *known != number);
        recent.push_back((number, file));
        let oldest = (recent.len() > OPEN_FILES).then(|| recent.pop_front()).flatten();
        drop(recent);
        // Dropped after the lock is released: on some file systems a close waits.
        drop(oldest);
    }

    /// Removes the file from the recent files. Returns it if it was there.
    fn take_recent(&self, number: u64) -> Option<Arc<File>> {
        let mut recent = lock(&self.recent);
        let at = recent.iter().position(|(known, _)| *known == number)?;
        recent.remove(at).map(|(_, file)| file)
    }

    /// Carries out a removal on the cleaner thread, because a log may be dropped by a thread of the
    /// runtime.
    fn remove(&self, removal: Removal) {
        let mut cleaner = lock(&self.cleaner);
        if cleaner.is_none() {
            let (sender, removals) = mpsc::channel();
            let counters = Arc::clone(&self.counters);
            let clean = move || {
                removals.iter().for_each(|removal: Removal| removal.carry_out(&counters));
            };
            let thread = thread::Builder::new().name("spill-cleaner".to_owned()).spawn(clean);
            *cleaner = thread.is_ok().then_some(sender);
        }
        let unsent = match &*cleaner {
            Some(sender) => sender.send(removal).err().map(|unsent| unsent.0),
            None => Some(removal),
        };
        drop(cleaner);
        if let Some(removal) = unsent {
            removal.carry_out(&self.counters);
        }
    }
}

/// A spill file; a reader holds it while it reads. Dropping it removes the file, unless the file
/// belongs to a durable log that is still wanted.
#[derive(Debug)]
pub(crate) struct SpillFile {
    store: Arc<SpillStore>,
    /// The directory that holds the file; `None` for the durable directory.
    dir: Option<Arc<ServerDir>>,
    number: u64,
    name: SpillFileName,
    is_removed_on_drop: AtomicBool,
    open: Mutex<OpenState>,
}

#[derive(Debug, Default)]
struct OpenState {
    /// Open for as long as something may be written.
    writing: Option<Arc<File>>,
    /// The identity of the file, once it was created or opened.
    id: Option<Box<FileId>>,
}

impl SpillFile {
    fn new(store: &Arc<SpillStore>, number: u64, name: SpillFileName, open: OpenState) -> Self {
        let is_temporary = match &name {
            SpillFileName::Temporary(_) => true,
            SpillFileName::OfLog { .. } => false,
        };
        Self {
            store: Arc::clone(store),
            dir: None,
            number,
            name,
            is_removed_on_drop: AtomicBool::new(is_temporary),
            open: Mutex::new(open),
        }
    }

    /// Returns the file, open for reading, and for writing until [`SpillFile::end_writing`].
    ///
    /// # Errors
    /// `NotFound` if somebody has removed or replaced it; else the system's error.
    pub(crate) fn open(&self) -> io::Result<Arc<File>> {
        if let Some(file) = &lock(&self.open).writing {
            return Ok(Arc::clone(file));
        }
        if let Some(file) = self.store.recent_file(self.number) {
            return Ok(file);
        }
        let file = self.open_with(OFlags::RDONLY)?;
        self.store.keep_open(self.number, Arc::clone(&file));
        Ok(file)
    }

    /// Returns the file, open for writing also if that was not possible when its log was opened.
    ///
    /// # Errors
    /// As [`SpillFile::open`].
    pub(crate) fn open_to_write(&self) -> io::Result<Arc<File>> {
        if let Some(file) = &lock(&self.open).writing {
            return Ok(Arc::clone(file));
        }
        let file = self.open_with(OFlags::RDWR)?;
        lock(&self.open).writing = Some(Arc::clone(&file));
        Ok(file)
    }

    fn open_with(&self, flags: OFlags) -> io::Result<Arc<File>> {
        let file = match self.dir()?.open_file(&self.name, flags, Mode::empty()) {
            Err(error) if is_absent(&error) => return Err(io::ErrorKind::NotFound.into()),
            opened => opened?,
        };
        let id = FileId::from_regular_file(&file)?;
        if **lock(&self.open).id.get_or_insert_with(|| Box::new(id)) != id {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Arc::new(file))
    }

    fn dir(&self) -> io::Result<Arc<ServerDir>> {
        self.dir.as_ref().map_or_else(|| self.store.server_dir(), |dir| Ok(Arc::clone(dir)))
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.store.counters
    }

    /// The length of the file; 0 if somebody has removed it.
    pub(crate) fn length(&self) -> io::Result<u64> {
        match self.open() {
            Ok(file) => Ok(file.metadata()?.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Ends writing: from now on the file is opened when it is read.
    pub(crate) fn end_writing(&self) {
        let mut open = lock(&self.open);
        // Without a name the file could not be opened again, so it stays open.
        let has_name =
            |file: &Arc<File>| file.metadata().is_ok_and(|metadata| metadata.nlink() > 0);
        let ended = open.writing.take_if(|file| has_name(file));
        drop(open);
        if let Some(file) = ended {
            // The next reply often reads it.
            self.store.keep_open(self.number, file);
        }
    }

    /// The directory of the file.
    pub(crate) fn dir_handle(&self) -> SpillDir {
        SpillDir { store: Arc::clone(&self.store) }
    }

    /// The log and the part that the file belongs to, if the log is durable.
    pub(crate) const fn log_part(&self) -> Option<(&LogName, FilePart)> {
        match &self.name {
            SpillFileName::Temporary(_) => None,
            SpillFileName::OfLog { log, part } => Some((log, *part)),
        }
    }

    /// The file of the same segment in its compressed form, if the log is durable.
    pub(crate) fn compressed_form(&self) -> Option<Self> {
        let (log, part) = self.log_part()?;
        Some(self.dir_handle().named_file(log, part.compressed()?))
    }

    /// Removes the file as soon as nobody reads it any more.
    pub(crate) fn remove_on_drop(&self) {
        self.is_removed_on_drop.store(true, Ordering::Relaxed);
    }

    /// `true` if the file is removed as soon as nobody reads it any more.
    pub(crate) fn is_removed_on_drop(&self) -> bool {
        self.is_removed_on_drop.load(Ordering::Relaxed)
    }

    /// Writes the file to the disk and gives it the name of a part of a durable log. A file that
    /// has the name is replaced.
    pub(crate) fn rename(mut self, log: &LogName, part: FilePart) -> io::Result<Self> {
        self.open()?.sync_data()?;
        let name = SpillFileName::of_log(log, part);
        self.dir()?.rename_file(&self.name, &name)?;
        self.name = name;
        self.is_removed_on_drop = AtomicBool::new(false);
        Ok(self)
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        let open = [self.store.take_recent(self.number), lock(&self.open).writing.take()];
        if self.is_removed_on_drop()
            && let Ok(dir) = self.dir()
        {
            let name = self.name.clone();
            self.store.remove(Removal::File { dir, name, _open: open });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;
    use std::time::Instant;

    use rustix::fs::mkfifoat;
    use rustix::process::{Resource, getrlimit};

    use super::*;
    use crate::{LogReader, LogStorage, PageRequest, Stream, open_log};

    const LONG: Duration = Duration::from_secs(60);

    #[track_caller]
    fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() < LONG, "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// All files below a directory.
    fn files_below(dir: &Path) -> Vec<PathBuf> {
        let dirs = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        dirs.flat_map(|dir| std::fs::read_dir(dir).unwrap())
            .map(|entry| entry.unwrap().path())
            .collect()
    }

    /// The number of files below a directory that this process holds open.
    fn open_below(dir: &Path) -> usize {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(dir))).count()
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    fn content(number: usize) -> Vec<u8> {
        format!("log {number}\n").repeat(300).into_bytes()
    }

    fn closed_log(settings: &LogStorage, number: usize) -> LogReader {
        let (mut writer, reader) = open_log(settings);
        writer.append(Stream::Stdout, &content(number));
        reader
    }

    fn bytes_of(reader: &LogReader) -> Vec<u8> {
        let request =
            PageRequest { from: 0, to: u64::MAX, stream: None, max_bytes: 1 << 20, max_lines: 0 };
        reader.blocking().read_page(&request).unwrap().bytes
    }

    /// Runs a test of this file again, in a process with a hard limit on open files.
    #[track_caller]
    fn run_limited(test: &str, files: u64) {
        let mut child = Command::new("prlimit");
        child.arg(format!("--nofile={files}:{files}")).arg(std::env::current_exe().unwrap());
        let test = format!("spill::tests::{test}");
        let output = child.args(["--exact", &test, "--nocapture"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn five_thousand_finished_logs_can_be_read_under_a_limit_of_256_files() {
        if getrlimit(Resource::Nofile).maximum != Some(256) {
            let test = "five_thousand_finished_logs_can_be_read_under_a_limit_of_256_files";
            return run_limited(test, 256);
        }
        let dir = tempfile::tempdir().unwrap();
        let settings =
            LogStorage { memory_bytes: 1000, spill_dir: SpillDir::new(dir.path(), Arc::default()) };
        let logs: Vec<LogReader> = (0..5_000).map(|number| closed_log(&settings, number)).collect();
        // The directory itself is open, too.
        assert!(open_below(dir.path()) <= OPEN_FILES + 1, "{}", open_below(dir.path()));
        for number in (0..20).chain(2_490..2_510).chain(4_980..5_000).chain(0..20) {
            assert!(bytes_of(&logs[number]) == content(number), "{number}");
        }
        assert!(open_below(dir.path()) <= OPEN_FILES + 1);
        drop(logs);
        eventually("all files are removed", || files_below(dir.path()).is_empty());
        drop(settings);
        eventually("the directory too", || std::fs::read_dir(dir.path()).unwrap().count() == 0);
    }

    #[test]
    fn a_file_and_its_directories_are_for_their_owner_alone() {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("a/b");
        let spill = SpillDir::new(&root, Arc::default());
        let file = spill.create_file().unwrap();
        assert_eq!((mode(&parent.path().join("a")), mode(&root)), (0o700, 0o700));
        let [path] = files_below(&root).try_into().unwrap();
        assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
        let nameless = spill.create_unnamed().unwrap();
        assert_eq!(nameless.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(files_below(&root), [path]);
        drop(file);
    }

    #[tokio::test]
    async fn a_reader_of_a_freed_log_can_finish() {
        let dir = tempfile::tempdir().unwrap();
        let settings =
            LogStorage { memory_bytes: 1000, spill_dir: SpillDir::new(dir.path(), Arc::default()) };
        let reader = closed_log(&settings, 7);
        let mut raw = reader.raw_reader(None, 0..content(7).len() as u64).await.unwrap();
        drop(reader);
        // The other files push this one out of the recent files.
        let others: Vec<LogReader> = (0..40).map(|number| closed_log(&settings, number)).collect();
        assert!(raw.next_block().await.unwrap().unwrap() == content(7));
        drop((raw, others));
        eventually("all files are removed", || files_below(dir.path()).is_empty());
    }

    #[test]
    fn a_replaced_file_is_never_read_or_waited_for() {
        type Replace = fn(&Path);
        let replacements: [Replace; 4] = [
            |_| {},
            |path| std::fs::write(path, content(1)).unwrap(),
            |path| symlink("/etc/passwd", path).unwrap(),
            |path| mkfifoat(rustix::fs::CWD, path, Mode::RUSR | Mode::WUSR).unwrap(),
        ];
        for (case, replace) in replacements.into_iter().enumerate() {
            let dir = tempfile::tempdir().unwrap();
            let settings = LogStorage {
                memory_bytes: 1000,
                spill_dir: SpillDir::new(dir.path(), Arc::default()),
            };
            let reader = closed_log(&settings, 7);
            let [path] = files_below(dir.path()).try_into().unwrap();
            let others: Vec<LogReader> =
                (0..40).map(|number| closed_log(&settings, number)).collect();
            // Renamed, not removed, so that its inode is not used again.
            std::fs::rename(&path, dir.path().join("moved")).unwrap();
            replace(&path);
            let request = PageRequest {
                from: 0,
                to: u64::MAX,
                stream: None,
                max_bytes: 1 << 20,
                max_lines: 0,
            };
            let page = reader.blocking().read_page(&request).unwrap();
            let lost = content(7).len() as u64;
            assert_eq!((page.bytes.len(), page.gap_bytes), (0, lost), "case {case}");
            assert_eq!(reader.progress().cut_bytes, lost);
            assert!(bytes_of(&others[3]) == content(3));
        }
    }

    #[test]
    fn a_file_that_is_removed_while_it_is_written_stays_readable() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("spill");
        let settings =
            LogStorage { memory_bytes: 1000, spill_dir: SpillDir::new(&root, Arc::default()) };
        let (mut writer, reader) = open_log(&settings);
        writer.append(Stream::Stdout, &content(1));
        std::fs::remove_dir_all(&root).unwrap();
        writer.append(Stream::Stdout, &content(2));
        drop(writer);
        let others: Vec<LogReader> = (0..40).map(|number| closed_log(&settings, number)).collect();
        assert!(bytes_of(&reader) == [content(1), content(2)].concat());
        assert!(bytes_of(&others[5]) == content(5), "the directory is made again");
    }

    #[test]
    fn only_files_of_dead_servers_are_leftovers() {
        let dir = tempfile::tempdir().unwrap();
        let alive = SpillDir::new(dir.path(), Arc::default());
        let file = alive.create_file().unwrap();
        let leftover = dir.path().join("run-gone");
        let foreign = dir.path().join("other");
        for made in [&leftover, &foreign] {
            std::fs::create_dir(made).unwrap();
            std::fs::write(made.join("1"), "x").unwrap();
        }
        symlink(&foreign, dir.path().join("run-link")).unwrap();
        SpillDir::new(dir.path(), Arc::default()).remove_leftovers();
        eventually("the leftover is removed", || !leftover.exists());
        assert!(foreign.join("1").exists());
        assert_eq!(file.length().unwrap(), 0);
        assert!(file.dir().unwrap().path.join("0").exists());
    }

    #[test]
    fn all_files_are_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let spill = SpillDir::new(dir.path(), Arc::default());
        let files: Vec<SpillFile> = (0..3).map(|_| spill.create_file().unwrap()).collect();
        spill.remove_everything(LONG);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        drop(files);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_read_that_the_disk_does_not_answer_fails_and_keeps_its_permit() {
        let dir = tempfile::tempdir().unwrap();
        let time = Duration::from_millis(50);
        let store = SpillStore::new(dir.path().into(), DirKind::PerServer, Arc::default());
        let spill = SpillDir { store: Arc::new(SpillStore { disk_time: time, ..store }) };
        let (answer, answered) = mpsc::channel::<()>();
        let answered = Arc::new(Mutex::new(answered));
        for _ in 0..READERS {
            let answered = Arc::clone(&answered);
            // Ends when the sender is dropped.
            let stuck = move || lock(&answered).recv().map_err(io::Error::other);
            let error = spill.read_with(Duration::ZERO, stuck).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(error.to_string().contains("disk"), "{error}");
        }
        // All permits are in use: the next read is not even started.
        let error = spill.read_with(time, || Ok(())).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(spill.read_if_idle_with(|| Ok(())).await, None);
        drop(answer);
        assert!(spill.read_with(LONG, || Ok(7)).await.is_ok_and(|read| read == 7));
    }
}
