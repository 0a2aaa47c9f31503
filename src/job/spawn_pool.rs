//! Threads that wait for the creation of processes, and for nothing else.
//!
//! At most one spawn per processor runs at a time; more would not finish sooner. A spawn that is
//! held up, for example by a disk that does not answer, is not counted, and another thread takes
//! its place.
//!
//! The threads never end: the kernel would reparent the children of an ended thread to the main
//! thread, among the adopted orphans, and every search for orphans would have to look at every job.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

type SpawnTask = Box<dyn FnOnce() + Send>;

/// A spawn that takes longer is held up by something.
pub(super) const PATIENCE: Duration = Duration::from_millis(20);

static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get));
static SPAWN_QUEUE: Mutex<SpawnQueue> =
    Mutex::new(SpawnQueue { waiting: VecDeque::new(), begun: Vec::new() });
/// Signals that a spawn is waiting.
static WORK_AVAILABLE: Condvar = Condvar::new();

struct SpawnQueue {
    waiting: VecDeque<SpawnTask>,
    /// The time at which each worker started its current spawn, if it has one.
    begun: Vec<Option<Instant>>,
}

impl SpawnQueue {
    /// `true` if there is a thread for every waiting start.
    fn has_enough(&self) -> bool {
        self.waiting.len() <= self.begun.iter().filter(|begun| begun.is_none()).count()
    }

    /// `true` if one more thread would find work.
    fn needs_another_thread(&self, now: Instant, processors: usize) -> bool {
        let is_held_up = |begun: &&Instant| now.saturating_duration_since(**begun) >= PATIENCE;
        let held_up = self.begun.iter().flatten().filter(is_held_up).count();
        !self.has_enough() && self.begun.len() - held_up < processors
    }

    fn add_thread_if_needed(&mut self) -> io::Result<()> {
        if self.needs_another_thread(Instant::now(), *PROCESSORS) {
            let number = self.begun.len();
            thread::Builder::new()
                .name("spawn-pool".to_owned())
                .spawn(move || run_worker(number))?;
            self.begun.push(None);
        }
        Ok(())
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

fn lock_spawn_queue() -> MutexGuard<'static, SpawnQueue> {
    SPAWN_QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The demand for threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backlog {
    Empty,
    Waiting,
}

/// Queues a spawn for a pool thread. A caller that still waits after [`PATIENCE`] must call
/// [`replace_stuck_thread`].
///
/// # Errors
/// If the system provides no thread at all.
pub(super) fn call(task: SpawnTask) -> io::Result<()> {
    let mut queue = lock_spawn_queue();
    queue.waiting.push_back(task);
    if queue.has_enough() {
        WORK_AVAILABLE.notify_one();
        return Ok(());
    }
    let added = queue.add_thread_if_needed();
    if queue.begun.is_empty() {
        queue.waiting.pop_back();
        return added;
    }
    // Existing threads will take the spawn.
    Ok(())
}

/// Adds a thread if one is held up while another spawn waits.
pub(super) fn replace_stuck_thread() -> Backlog {
    let mut queue = lock_spawn_queue();
    // If the system provides no thread, the waiting caller asks again.
    queue.add_thread_if_needed().ok();
    if queue.waiting.is_empty() { Backlog::Empty } else { Backlog::Waiting }
}

fn run_worker(number: usize) {
    let mut queue = lock_spawn_queue();
    loop {
        if let Some(task) = queue.take(number) {
            drop(queue);
            task();
            queue = lock_spawn_queue();
        } else {
            queue = WORK_AVAILABLE.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn those_that_come_to_no_end_hold_up_nobody() {
        let stuck: Vec<_> = (0..2 * *PROCESSORS + 1)
            .map(|_| {
                let (go, stuck) = channel::<()>();
                call(Box::new(move || stuck.recv().unwrap_or_default())).unwrap();
                go
            })
            .collect();
        let (tell, told) = channel();
        call(Box::new(move || tell.send(thread::current().name().map(str::to_owned)).unwrap()))
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let name = loop {
            match told.recv_timeout(PATIENCE) {
                Ok(name) => break name,
                Err(_) => replace_stuck_thread(),
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
        let late = Some(now + PATIENCE);
        let wants = |waiting: usize, begun: &[Option<Instant>], at: Instant| {
            let waiting = (0..waiting).map(|_| -> SpawnTask { Box::new(|| ()) }).collect();
            SpawnQueue { waiting, begun: begun.to_vec() }.needs_another_thread(at, 2)
        };
        assert!(wants(1, &[], now) && wants(1, &[early], now));
        assert!(!wants(0, &[early], now), "nobody waits");
        assert!(!wants(1, &[early, None], now), "one is free");
        assert!(wants(2, &[None], now), "another waits as well");
        assert!(!wants(1, &[early, early], now + PATIENCE / 2), "they are at it");
        assert!(wants(1, &[early, early], now + PATIENCE));
        assert!(wants(1, &[early, early, late], now + PATIENCE), "one is at it");
        assert!(!wants(1, &[early, late, late], now + PATIENCE), "two are");
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
