//! The children of the server that somebody waits for, and the reaping of all others.
//!
//! A subreaper gets the orphans of all its jobs and must reap them, but must never take the exit
//! status of a child that somebody waits for. So every child that we create is registered here, and
//! orphans are reaped by number, only while no child is being created.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError, RwLock, RwLockReadGuard};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use super::processes;
use super::syscalls;
use super::syscalls::Ended;
use super::tree::orphans::Orphans;

/// The lock that is held for reading from before a child exists until it is registered, and for
/// writing while orphans are reaped. Otherwise a child that ends at once would pass for an orphan.
static CREATING: RwLock<()> = RwLock::new(());
static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);
static LAST_SERIAL: AtomicU32 = AtomicU32::new(0);

#[derive(Debug, Default)]
struct Registry {
    /// Process id to serial number. The serial tells a child from a later one with the same id.
    owned: HashMap<Pid, u32>,
    /// Children whose owner is gone: nobody waits for them any more.
    abandoned: Vec<Pid>,
    /// Children that were never more than a means of ours: nobody counts them.
    dismissed: Vec<Pid>,
    /// The orphans that fell to us.
    orphans: Orphans,
    /// The numbers of the creations that are under way.
    creations: BTreeSet<u64>,
    /// The number of the next creation.
    next_creation: u64,
}

/// The permission to register children while they are being created.
#[derive(Debug)]
pub(crate) struct Desk {
    _creating: RwLockReadGuard<'static, ()>,
    number: u64,
}

impl Drop for Desk {
    fn drop(&mut self) {
        with_registry(|registry| registry.creations.remove(&self.number));
    }
}

impl Desk {
    pub(crate) fn register(&self, pid: Pid) -> Child {
        let serial = new_serial();
        with_registry(|registry| registry.owned.insert(pid, serial));
        Child { pid, serial, state: Reaping::Due }
    }
}

/// A number that was not given before (it wraps after four billion).
pub(crate) fn new_serial() -> u32 {
    LAST_SERIAL.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

/// Creates children by `create`, which registers each before anybody could reap it. Not to be
/// called inside itself.
pub(crate) fn creating<T>(create: impl FnOnce(&Desk) -> T) -> T {
    let _creating = CREATING.read().unwrap_or_else(PoisonError::into_inner);
    let number = with_registry(Registry::begin_creation);
    create(&Desk { _creating, number })
}

/// A child that we created, and that only its owner may reap.
///
/// Dropped unreaped, it is reaped by [`reap_orphans`] once it ends.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    serial: u32,
    state: Reaping,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reaping {
    Due,
    Done,
}

impl Child {
    /// Creates a child by `create` and registers it before anybody could reap it.
    pub(crate) fn create(create: impl FnOnce() -> Result<Pid, Errno>) -> Result<Self, Errno> {
        creating(|desk| create().map(|pid| desk.register(pid)))
    }

    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }

    /// Takes the exit status if the child has ended; `None` while it runs.
    pub(crate) fn try_reap(&mut self) -> io::Result<Option<Ended>> {
        let ended = syscalls::try_wait(self.pid)?;
        if ended.is_some() {
            self.settle();
        }
        Ok(ended)
    }

    /// Ends a child that nobody has been told of.
    pub(crate) fn kill_and_reap(mut self) {
        // Neither can fail for an unreaped child of ours; if they do, drop hands it over.
        if kill_process(self.pid, Signal::KILL).is_ok() && syscalls::wait_blocking(self.pid).is_ok()
        {
            self.settle();
        }
    }

    /// Waits for the end of a child whose status nobody wants to know.
    pub(crate) fn outlive(mut self) {
        if syscalls::wait_blocking(self.pid).is_ok() {
            self.settle();
        }
    }

    /// Gives up a child that is ending, and that was no job's: it is reaped without being counted.
    pub(crate) fn dismiss(mut self) {
        self.state = Reaping::Done;
        with_registry(|registry| registry.dismissed.push(self.pid));
    }

    fn settle(&mut self) {
        self.state = Reaping::Done;
        with_registry(|registry| registry.forget(self.pid, self.serial));
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.state == Reaping::Due {
            with_registry(|registry| registry.abandoned.push(self.pid));
        }
    }
}

impl Registry {
    fn begin_creation(&mut self) -> u64 {
        let number = self.next_creation;
        self.next_creation += 1;
        self.creations.insert(number);
        number
    }

    /// Forgets a reaped child, unless its number is already that of a newer one.
    fn forget(&mut self, pid: Pid, serial: u32) {
        if self.owned.get(&pid) == Some(&serial) {
            self.owned.remove(&pid);
        }
    }

    /// Reaps the ended among those that nobody waits for, and says how many of them count.
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
        self.dismissed.retain(is_running);
        before - self.abandoned.len()
    }
}

/// Returns `true` for a child that we created ourselves and that was not reaped yet.
pub(crate) fn is_owned(pid: Pid) -> bool {
    with_registry(|registry| registry.owned.contains_key(&pid))
}

/// The number of the next creation: a process that is there by now comes from none that has it or a
/// higher one.
pub(crate) fn next_creation() -> u64 {
    with_registry(|registry| registry.next_creation)
}

/// Returns `true` if we did not create this child, which was there before the creation of this number.
/// `false` as well while an earlier creation is under way: the child may be of that, and not be
/// registered yet. Nobody is waited for: a creation may take long.
pub(crate) fn is_surely_adopted(pid: Pid, number: u64) -> bool {
    with_registry(|registry| {
        let is_open = registry.creations.first().is_some_and(|first| *first < number);
        !is_open && !registry.owned.contains_key(&pid)
    })
}

/// Does something with what is known of orphans. Not to be called inside itself.
pub(crate) fn with_orphans<T>(act: impl FnOnce(&mut Orphans) -> T) -> T {
    with_registry(|registry| act(&mut registry.orphans))
}

/// Reaps every ended child that nobody waits for, and says how many there were.
pub(crate) fn reap_orphans() -> usize {
    let abandoned = with_registry(Registry::reap_abandoned);
    let strangers: Vec<_> =
        processes::adopted_children().into_iter().filter(|pid| !is_owned(*pid)).collect();
    abandoned + reap_adopted(&strangers)
}

/// Reaps those of these that are ended children of ours and that nobody waits for; none while a
/// child is being created, which may take long: whoever waited here would hold up all that come after.
pub(crate) fn reap_adopted(pids: &[Pid]) -> usize {
    if pids.is_empty() {
        return 0;
    }
    // From here on every child that we created is registered.
    let Ok(_all_registered) = CREATING.try_write() else { return 0 };
    let adopted = pids.iter().filter(|pid| !is_owned(**pid));
    adopted.filter(|pid| matches!(syscalls::try_wait(**pid), Ok(Some(_)))).count()
}

fn with_registry<T>(act: impl FnOnce(&mut Registry) -> T) -> T {
    act(&mut REGISTRY.lock().unwrap_or_else(PoisonError::into_inner))
}
