//! Threads that wait for births, and for nothing else.
//!
//! There are as many as processors: more births at one time are not sooner over. Only where those wait
//! for a disk that does not answer, further ones are hired.
//!
//! They stay: the kernel would hand the children of one that ends to the main thread, among those that
//! we adopt, and whoever looks for orphans would have to look at every job.

use std::collections::VecDeque;
use std::io;
use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

type Birth = Box<dyn FnOnce() + Send>;

/// For so long nobody takes a birth that waits: then those at work are held up.
pub(super) const PATIENCE: Duration = Duration::from_millis(20);

static DESK: Mutex<Desk> = Mutex::new(Desk::new());
/// That there is something to do.
static BELL: Condvar = Condvar::new();

struct Desk {
    waiting: VecDeque<Birth>,
    hired: usize,
    idle: usize,
    /// When a birth was taken, or somebody hired, for the last time.
    moved: Option<Instant>,
}

impl Desk {
    const fn new() -> Self {
        Self { waiting: VecDeque::new(), hired: 0, idle: 0, moved: None }
    }

    /// Whether one that waits would wait for a thread that comes to no end.
    fn is_held_up(&self, now: Instant) -> bool {
        let since = self.moved.map_or(Duration::MAX, |moved| now.saturating_duration_since(moved));
        self.waiting.len() > self.idle && since >= PATIENCE
    }

    fn hire(&mut self) -> io::Result<()> {
        thread::Builder::new().name("births".to_owned()).spawn(work)?;
        self.hired += 1;
        self.moved = Some(Instant::now());
        Ok(())
    }
}

fn desk() -> MutexGuard<'static, Desk> {
    DESK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has one of them do this, in turn. Who still waits for it after [`PATIENCE`] is to
/// [`relieve`] them.
///
/// # Errors
/// When the system gives us no thread at all.
pub(super) fn call(birth: Birth) -> io::Result<()> {
    let mut desk = desk();
    desk.waiting.push_back(birth);
    if desk.waiting.len() <= desk.idle {
        BELL.notify_one();
    } else if desk.hired < thread::available_parallelism().map_or(1, NonZero::get) {
        let hired = desk.hire();
        if desk.hired == 0 {
            desk.waiting.pop_back();
            return hired;
        }
    }
    Ok(())
}

/// Hires one more if those that there are come to no end.
pub(super) fn relieve() {
    let mut desk = desk();
    if desk.is_held_up(Instant::now()) {
        // Who asked asks again.
        desk.hire().ok();
    }
}

fn work() {
    let mut desk = desk();
    loop {
        if let Some(birth) = desk.waiting.pop_front() {
            desk.moved = Some(Instant::now());
            drop(desk);
            birth();
            desk = self::desk();
        } else {
            desk.idle += 1;
            desk = BELL.wait(desk).unwrap_or_else(PoisonError::into_inner);
            desk.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn those_that_come_to_no_end_hold_up_nobody() {
        let stuck: Vec<_> = (0..thread::available_parallelism().unwrap().get() + 1)
            .map(|_| {
                let (go, stuck) = channel::<()>();
                call(Box::new(move || stuck.recv().unwrap_or_default())).unwrap();
                go
            })
            .collect();
        for _ in 0..3 {
            let (tell, told) = channel();
            call(Box::new(move || tell.send(thread::current().name().map(str::to_owned)).unwrap()))
                .unwrap();
            let name = loop {
                match told.recv_timeout(PATIENCE) {
                    Ok(name) => break name,
                    Err(_) => relieve(),
                }
            };
            assert_eq!(name.as_deref(), Some("births"));
        }
        drop(stuck);
    }

    #[test]
    fn nobody_is_hired_while_births_go_on() {
        let now = Instant::now();
        let mut desk = Desk { moved: Some(now), ..Desk::new() };
        assert!(!desk.is_held_up(now + 2 * PATIENCE), "nobody waits");
        desk.waiting.push_back(Box::new(|| ()));
        assert!(!desk.is_held_up(now + PATIENCE / 2) && desk.is_held_up(now + PATIENCE));
        desk.idle = 1;
        assert!(!desk.is_held_up(now + PATIENCE), "somebody is on the way");
    }
}
