//! The server's own children, the threads that create them, and the reaping of all others.
//!
//! A subreaper gets the orphans of all its jobs and must reap them, but must never take the exit
//! status of a child that somebody waits for. So every child that we create is registered here, and
//! orphans are reaped by number, only while no child is being created.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::num::NonZero;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process};

use crate::keeper::{HandoverFlag, KeeperClient};
use crate::processes::{self, ProcStat};
use crate::syscalls::{self, ChildExit};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// The children of this process. The kernel keeps one list of them for the whole process, so all
/// hosts of a process share this value.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// The lock is held for reading from before a child exists until it is registered, and for
    /// writing while orphans are reaped. Otherwise a child that ends at once would be taken for an
    /// orphan.
    creating: RwLock<()>,
    registry: Mutex<ChildRegistry>,
    last_serial: AtomicU32,
    /// The file with the main thread's children, opened when it was first read.
    list: Mutex<Option<File>>,
    /// The keeper of this server. It is the parent of all processes that earlier servers left.
    keeper: Option<KeeperClient>,
    /// The file with the keeper's children, opened when it was first read.
    keeper_list: Mutex<Option<File>>,
    /// The highest memory peak of this process that was read. It only grows, so most jobs need no
    /// reading.
    own_peak: AtomicU64,
}

#[derive(Debug, Default)]
struct ChildRegistry {
    /// Process id to serial number. The serial distinguishes a child from a later one with the same
    /// id.
    owned: HashMap<Pid, u32>,
    /// Children whose owner was dropped: nobody waits for them any more.
    abandoned: Vec<Pid>,
    /// Helper processes that are not counted as orphans.
    discarded: Vec<Pid>,
    /// The numbers of the creations in progress.
    creations: BTreeSet<u64>,
    next_creation: u64,
}

/// A creation of children in progress: the permission to register them.
#[derive(Debug)]
pub(crate) struct Creation<'a> {
    children: &'a Arc<Children>,
    _creating: RwLockReadGuard<'a, ()>,
    number: u64,
}

impl Drop for Creation<'_> {
    fn drop(&mut self) {
        self.children.registry().creations.remove(&self.number);
    }
}

impl Creation<'_> {
    pub(crate) fn register(&self, pid: Pid) -> Child {
        let serial = self.children.new_serial();
        self.children.registry().owned.insert(pid, serial);
        Child { children: Arc::clone(self.children), pid, serial, state: ReapState::Due }
    }
}

/// A child that we created, and that only its owner may reap.
///
/// If it is dropped unreaped, [`Children::reap_orphans`] reaps it once it ends.
#[derive(Debug)]
pub(crate) struct Child {
    children: Arc<Children>,
    pid: Pid,
    serial: u32,
    state: ReapState,
}

/// A child of the keeper that a job owns, so that it is not taken for an orphan. The keeper reaps it.
#[derive(Debug)]
pub(crate) struct KeeperChild {
    children: Arc<Children>,
    pid: Pid,
    serial: u32,
}

impl Drop for KeeperChild {
    fn drop(&mut self) {
        self.children.registry().forget(self.pid, self.serial);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReapState {
    Due,
    Done,
}

impl Child {
    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the exit status if the child has ended, without reaping it; `None` while it runs.
    pub(crate) fn peek_exit(&self) -> io::Result<Option<ChildExit>> {
        Ok(syscalls::peek_exit(self.pid)?)
    }

    /// Takes the exit status if the child has ended; `None` while it runs.
    pub(crate) fn try_reap(&mut self) -> io::Result<Option<ChildExit>> {
        let ended = syscalls::try_wait(self.pid)?;
        if ended.is_some() {
            self.mark_reaped();
        }
        Ok(ended)
    }

    /// Kills and reaps a child that no caller has seen yet.
    pub(crate) fn kill_and_reap(mut self) {
        // Neither call can fail for an unreaped child of ours; if one does, drop hands the child
        // over.
        if kill_process(self.pid, Signal::KILL).is_ok() && syscalls::wait_blocking(self.pid).is_ok()
        {
            self.mark_reaped();
        }
    }

    /// Blocks until the child ends, and ignores its status.
    pub(crate) fn wait_for_exit(mut self) {
        if syscalls::wait_blocking(self.pid).is_ok() {
            self.mark_reaped();
        }
    }

    /// Gives up a child that is ending and was not a job's: it is reaped without being counted.
    pub(crate) fn discard(mut self) {
        self.state = ReapState::Done;
        self.children.registry().discarded.push(self.pid);
    }

    fn mark_reaped(&mut self) {
        self.state = ReapState::Done;
        self.children.registry().forget(self.pid, self.serial);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.state == ReapState::Due {
            self.children.registry().abandoned.push(self.pid);
        }
    }
}

impl ChildRegistry {
    fn begin_creation(&mut self) -> u64 {
        let number = self.next_creation;
        self.next_creation += 1;
        self.creations.insert(number);
        number
    }

    /// Removes a reaped child, unless its number already belongs to a newer one.
    fn forget(&mut self, pid: Pid, serial: u32) {
        if self.owned.get(&pid) == Some(&serial) {
            self.owned.remove(&pid);
        }
    }

    /// Reaps the children that have ended and that nobody waits for; returns how many of them
    /// count.
    fn reap_abandoned(&mut self) -> usize {
        let before = self.abandoned.len();
        let owned = &mut self.owned;
        let mut is_running = |pid: &Pid| {
            let running = matches!(syscalls::try_wait(*pid), Ok(None));
            if !running {
                owned.remove(pid);
            }
            running
        };
        self.abandoned.retain(&mut is_running);
        self.discarded.retain(is_running);
        before - self.abandoned.len()
    }
}

impl Children {
    /// Creates the list of a server that this keeper has started.
    pub(crate) fn new_kept(keeper: KeeperClient) -> Self {
        let own_peak = AtomicU64::new(keeper.server_peak_bytes());
        Self { keeper: Some(keeper), own_peak, ..Self::default() }
    }

    /// Returns the processes from which all jobs descend: this one, and its keeper.
    pub(crate) fn roots(&self) -> Vec<Pid> {
        [getpid()].into_iter().chain(self.keeper.as_ref().map(KeeperClient::keeper)).collect()
    }

    pub(crate) fn keeper(&self) -> Option<&KeeperClient> {
        self.keeper.as_ref()
    }

    /// Returns the flag that is set once the next server takes over the jobs.
    pub(crate) fn handover(&self) -> HandoverFlag {
        self.keeper.as_ref().map(|keeper| keeper.handover().clone()).unwrap_or_default()
    }

    fn is_handing_over(&self) -> bool {
        self.keeper.as_ref().is_some_and(KeeperClient::is_handing_over)
    }

    /// Makes sure that no new serial number is this one or lower.
    pub(crate) fn skip_serials(&self, last: u32) {
        self.last_serial.fetch_max(last, Ordering::Relaxed);
    }

    /// Creates children with `create`, which registers each of them before anybody could reap it.
    /// Must not be called recursively.
    pub(crate) fn with_creation<T>(self: &Arc<Self>, create: impl FnOnce(&Creation<'_>) -> T) -> T {
        let _creating = self.creating.read().unwrap_or_else(PoisonError::into_inner);
        let number = self.registry().begin_creation();
        create(&Creation { children: self, _creating, number })
    }

    /// Creates one child with `create`, and registers it before anybody could reap it.
    pub(crate) fn create(
        self: &Arc<Self>,
        create: impl FnOnce() -> Result<Pid, Errno>,
    ) -> Result<Child, Errno> {
        self.with_creation(|creation| create().map(|pid| creation.register(pid)))
    }

    /// Registers a child of the keeper as owned by a job, until the returned value is dropped.
    pub(crate) fn own_keeper_child(self: &Arc<Self>, pid: Pid) -> KeeperChild {
        let serial = self.new_serial();
        self.registry().owned.insert(pid, serial);
        KeeperChild { children: Arc::clone(self), pid, serial }
    }

    /// Returns a number that was not returned before (it wraps after four billion).
    pub(crate) fn new_serial(&self) -> u32 {
        self.last_serial.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// `true` for a child that we created ourselves, or took over from an earlier server, and that
    /// was not reaped yet.
    pub(crate) fn is_owned(&self, pid: Pid) -> bool {
        self.registry().owned.contains_key(&pid)
    }

    /// Returns the number of the next creation: a process that exists now does not come from a
    /// creation with this or a higher number.
    pub(crate) fn next_creation(&self) -> u64 {
        self.registry().next_creation
    }

    /// `true` if we did not create this child, which existed before the creation with this number.
    /// Also `false` while an earlier creation is in progress: the child may come from it and not be
    /// registered yet. Does not wait, since a creation may take long.
    pub(crate) fn is_surely_adopted(&self, pid: Pid, number: u64) -> bool {
        let registry = self.registry();
        let is_open = registry.creations.first().is_some_and(|first| *first < number);
        !is_open && !registry.owned.contains_key(&pid)
    }

    /// Reaps every ended child that nobody waits for; returns how many there were.
    pub(crate) fn reap_orphans(&self) -> usize {
        if self.is_handing_over() {
            // The keeper takes the statuses of all of them.
            return 0;
        }
        let abandoned = self.registry().reap_abandoned();
        let mut strangers =
            self.main_thread_children().unwrap_or_else(|_| processes::all_children());
        strangers.retain(|pid| !self.is_owned(*pid));
        abandoned + self.reap_adopted(&strangers)
    }

    /// Reaps the processes among `pids` that are ended children of ours and that nobody waits for.
    /// Does nothing while a child is being created: that may take long, and waiting here would hold
    /// up everything behind it.
    pub(crate) fn reap_adopted(&self, pids: &[Pid]) -> usize {
        if pids.is_empty() || self.is_handing_over() {
            return 0;
        }
        // From here on every child that we created is registered.
        let Ok(_all_registered) = self.creating.try_write() else { return 0 };
        let adopted = pids.iter().filter(|pid| !self.is_owned(**pid));
        adopted.filter(|pid| matches!(syscalls::try_wait(**pid), Ok(Some(_)))).count()
    }

    /// Returns the children of this process's main thread, where the kernel puts the orphans that a
    /// subreaper adopts; children that other threads created are not among them.
    ///
    /// Called at the end of every job, so the file stays open.
    fn main_thread_children(&self) -> io::Result<Vec<Pid>> {
        read_open_child_list(&self.list, getpid())
    }

    /// Returns the same children, and those of the keeper: the processes that an earlier server
    /// left, and orphans that came from them.
    pub(crate) fn adopted_candidates(&self) -> io::Result<Vec<Pid>> {
        let mut children = self.main_thread_children()?;
        if let Some(keeper) = &self.keeper {
            let others = match read_open_child_list(&self.keeper_list, keeper.keeper()) {
                Err(error) if processes::is_shortage(&error) => return Err(error),
                // Without a keeper the server is about to end.
                others => others,
            };
            children.extend(others.unwrap_or_default().into_iter().filter(|pid| *pid != getpid()));
        }
        Ok(children)
    }

    /// `true` if this is more memory than the process itself ever had, as far as the kernel
    /// reports.
    pub(crate) fn is_above_own_peak(&self, bytes: u64) -> bool {
        if is_within_peak(bytes, self.own_peak.load(Ordering::Relaxed)) {
            return false;
        }
        let own = processes::own_peak_bytes();
        self.own_peak.fetch_max(own.unwrap_or(0), Ordering::Relaxed);
        own.is_some_and(|own| !is_within_peak(bytes, own))
    }

    /// Ends every process that `find` returns, and whatever those start meanwhile. Blocks.
    ///
    /// They are stopped first, until no new process turns up: a stopped process cannot start
    /// others. Returns the processes that a last scan finds alive after none has ended for `limit`.
    pub(crate) fn end_all(&self, find: impl Fn() -> Vec<ProcStat>, limit: Duration) -> Vec<u32> {
        processes::freeze(&find);
        let mut deadline = Instant::now() + limit;
        let mut fewest = usize::MAX;
        let mut pause = FIRST_PAUSE;
        let mut empty_scans = 0;
        loop {
            let found = find();
            self.reap_dead(&found);
            let alive: Vec<_> = found.iter().filter(|stat| stat.is_alive()).collect();
            // One scan may miss a process that was just handed from a dying parent to us.
            empty_scans = if alive.is_empty() { empty_scans + 1 } else { 0 };
            // The thousands of processes of a fork bomb take time to end.
            if alive.len() < fewest {
                fewest = alive.len();
                deadline = Instant::now() + limit;
            }
            if empty_scans == 2 || Instant::now() >= deadline {
                return alive.iter().map(|stat| processes::pid_number(stat.pid)).collect();
            }
            for stat in &alive {
                // It is gone already, not ours to signal, or there is no free descriptor; the next
                // scan shows which.
                processes::send_signal(stat, Signal::KILL).ok();
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Reaps the dead among the adopted processes, so that they do not fill the process table.
    fn reap_dead(&self, found: &[ProcStat]) {
        let own = getpid().as_raw_nonzero().get();
        let dead = found.iter().filter(|stat| !stat.is_alive() && stat.parent == own);
        self.reap_adopted(&dead.map(|stat| stat.pid).collect::<Vec<_>>());
    }

    fn registry(&self) -> MutexGuard<'_, ChildRegistry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the list of the children of a process's main thread from a file that stays open.
fn read_open_child_list(file: &Mutex<Option<File>>, pid: Pid) -> io::Result<Vec<Pid>> {
    // One reader at a time: the kernel continues where the last read ended.
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    let file = match &mut *file {
        Some(file) => file,
        none => none.insert(processes::open_child_list(pid)?),
    };
    processes::read_child_list(file)
}

/// `true` if `bytes` may be the peak that a child started with. The kernel adds up the pages of a
/// process from per-processor counters, so two readings of one peak differ a little.
const fn is_within_peak(bytes: u64, peak: u64) -> bool {
    bytes <= peak.saturating_add(peak / 8)
}

type SpawnTask = Box<dyn FnOnce() + Send>;

/// The time after which a spawn counts as held up by something.
pub const SPAWN_PATIENCE: Duration = Duration::from_millis(20);

/// The threads of one process that create its children, and do nothing else. Clones are cheap and
/// share the threads.
///
/// At most one spawn per processor runs at a time; more would not finish sooner. A spawn that is
/// held up, for example by a disk that does not answer, is not counted, and another thread takes
/// its place.
///
/// The threads never end: the kernel would reparent the children of an ended thread to the main
/// thread, among the adopted orphans, and every search for orphans would have to look at every job.
#[derive(Clone, Debug)]
pub struct SpawnPool {
    shared: Arc<SharedPool>,
}

#[derive(Debug)]
struct SharedPool {
    queue: Mutex<SpawnQueue>,
    /// Signals that a spawn is waiting.
    work_available: Condvar,
    processors: usize,
}

struct SpawnQueue {
    waiting: VecDeque<SpawnTask>,
    /// The time at which each worker started its current spawn, if it has one.
    begun: Vec<Option<Instant>>,
}

impl fmt::Debug for SpawnQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.waiting.len();
        f.debug_struct("SpawnQueue").field("waiting", &waiting).field("begun", &self.begun).finish()
    }
}

impl SpawnQueue {
    /// `true` if there is a thread for every waiting start.
    fn has_enough(&self) -> bool {
        self.waiting.len() <= self.begun.iter().filter(|begun| begun.is_none()).count()
    }

    /// `true` if one more thread would find work.
    fn needs_another_thread(&self, now: Instant, processors: usize) -> bool {
        let is_held_up =
            |begun: &&Instant| now.saturating_duration_since(**begun) >= SPAWN_PATIENCE;
        let held_up = self.begun.iter().flatten().filter(is_held_up).count();
        !self.has_enough() && self.begun.len() - held_up < processors
    }

    /// Takes the next spawn for this thread and records its start; marks the thread free if nothing
    /// waits.
    fn take(&mut self, number: usize) -> Option<SpawnTask> {
        let task = self.waiting.pop_front();
        if let Some(begun) = self.begun.get_mut(number) {
            *begun = task.as_ref().map(|_| Instant::now());
        }
        task
    }
}

/// The demand for threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpawnBacklog {
    /// No spawn waits for a thread.
    Empty,
    /// At least one spawn waits for a thread.
    Waiting,
}

impl Default for SpawnPool {
    fn default() -> Self {
        let queue = SpawnQueue { waiting: VecDeque::new(), begun: Vec::new() };
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let shared =
            SharedPool { queue: Mutex::new(queue), work_available: Condvar::new(), processors };
        Self { shared: Arc::new(shared) }
    }
}

impl SpawnPool {
    /// Queues a spawn for a thread of the pool. A caller that still waits after [`SPAWN_PATIENCE`]
    /// must call [`replace_stuck_thread`](Self::replace_stuck_thread).
    ///
    /// # Errors
    /// If the system provides no thread at all.
    pub fn call(&self, task: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut queue = self.shared.lock();
        queue.waiting.push_back(Box::new(task));
        if queue.has_enough() {
            self.shared.work_available.notify_one();
            return Ok(());
        }
        let added = self.add_thread_if_needed(&mut queue);
        if queue.begun.is_empty() {
            queue.waiting.pop_back();
            return added;
        }
        // Existing threads will take the spawn.
        Ok(())
    }

    /// Adds a thread if one is held up while another spawn waits.
    #[must_use]
    pub fn replace_stuck_thread(&self) -> SpawnBacklog {
        let mut queue = self.shared.lock();
        // If the system provides no thread, the waiting caller asks again.
        self.add_thread_if_needed(&mut queue).ok();
        if queue.waiting.is_empty() { SpawnBacklog::Empty } else { SpawnBacklog::Waiting }
    }

    fn add_thread_if_needed(&self, queue: &mut SpawnQueue) -> io::Result<()> {
        if queue.needs_another_thread(Instant::now(), self.shared.processors) {
            let number = queue.begun.len();
            let shared = Arc::clone(&self.shared);
            thread::Builder::new()
                .name("spawn-pool".to_owned())
                .spawn(move || shared.run_worker(number))?;
            queue.begun.push(None);
        }
        Ok(())
    }
}

impl SharedPool {
    fn lock(&self) -> MutexGuard<'_, SpawnQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_worker(&self, number: usize) {
        let mut queue = self.lock();
        loop {
            if let Some(task) = queue.take(number) {
                drop(queue);
                task();
                queue = self.lock();
            } else {
                queue = self.work_available.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_peak_that_differs_a_little_from_ours_may_be_ours() {
        let [same, close, above] = [100, 112, 113].map(|bytes| is_within_peak(bytes, 100));
        assert!(same && close && !above);
    }

    #[test]
    fn those_that_come_to_no_end_hold_up_nobody() {
        let pool = SpawnPool::default();
        let stuck: Vec<_> = (0..2 * pool.shared.processors + 1)
            .map(|_| {
                let (go, stuck) = channel::<()>();
                pool.call(move || stuck.recv().unwrap_or_default()).unwrap();
                go
            })
            .collect();
        let (tell, told) = channel();
        pool.call(move || tell.send(thread::current().name().map(str::to_owned)).unwrap()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let name = loop {
            match told.recv_timeout(SPAWN_PATIENCE) {
                Ok(name) => break name,
                Err(_) => pool.replace_stuck_thread(),
            };
            assert!(Instant::now() < deadline, "nobody came");
        };
        assert_eq!(name.as_deref(), Some("spawn-pool"));
        drop(stuck);
    }

    #[test]
    fn there_are_as_many_as_processors_and_one_for_each_that_is_held_up() {
        let now = Instant::now();
        let early = Some(now);
        let late = Some(now + SPAWN_PATIENCE);
        let wants = |waiting: usize, begun: &[Option<Instant>], at: Instant| {
            let waiting = (0..waiting).map(|_| -> SpawnTask { Box::new(|| ()) }).collect();
            SpawnQueue { waiting, begun: begun.to_vec() }.needs_another_thread(at, 2)
        };
        assert!(wants(1, &[], now) && wants(1, &[early], now));
        assert!(!wants(0, &[early], now), "nobody waits");
        assert!(!wants(1, &[early, None], now), "one is free");
        assert!(wants(2, &[None], now), "another waits as well");
        assert!(!wants(1, &[early, early], now + SPAWN_PATIENCE / 2), "they are at it");
        assert!(wants(1, &[early, early], now + SPAWN_PATIENCE));
        assert!(wants(1, &[early, early, late], now + SPAWN_PATIENCE), "one is at it");
        assert!(!wants(1, &[early, late, late], now + SPAWN_PATIENCE), "two are");
    }

    #[test]
    fn each_is_taken_in_turn() {
        let (tell, told) = channel();
        let task = |number| -> SpawnTask {
            let tell = tell.clone();
            Box::new(move || tell.send(number).unwrap())
        };
        let mut queue =
            SpawnQueue { waiting: VecDeque::from([task(1), task(2)]), begun: vec![None] };
        while let Some(task) = queue.take(0) {
            assert!(queue.begun[0].is_some());
            task();
        }
        assert_eq!((told.try_iter().collect::<Vec<_>>(), queue.begun[0]), (vec![1, 2], None));
    }
}
