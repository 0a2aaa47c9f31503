//! Threads that wait for the creation of processes, and for nothing else.
//!
//! At most one spawn per processor runs at a time; more would not finish sooner. A spawn that is
//! held up, for example by a disk that does not answer, is not counted, and another thread takes
//! its place.
//!
//! The threads never end: the kernel would reparent the children of an ended thread to the main
//! thread, among the adopted orphans, and every search for orphans would have to look at every job.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

type SpawnTask = Box<dyn FnOnce() + Send>;

/// The time after which a spawn counts as held up by something.
pub const SPAWN_PATIENCE: Duration = Duration::from_millis(20);

/// The threads of one process that create its children. Clones are cheap and share the threads.
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
