//! Notices a disk that does not answer, before everybody waits for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// An operation that takes longer than this makes others wait for its end: the disk may be stuck.
const SLOW: Duration = Duration::from_millis(250);
/// An operation that takes longer than this means that the disk is stuck.
const STUCK: Duration = Duration::from_secs(2);
/// The interval between two checks of a disk that may be stuck.
const INTERVAL: Duration = Duration::from_millis(20);

/// The operations that wait for a disk. Clones are cheap and share them.
#[derive(Debug, Clone, Default)]
pub struct DiskWatch {
    operations: Arc<Mutex<Operations>>,
}

#[derive(Debug, Default)]
struct Operations {
    /// The operations that have begun and not ended, the oldest first.
    running: Vec<(u64, Instant)>,
    last_number: u64,
}

/// An operation on the disk, from its creation until it is dropped.
#[derive(Debug)]
pub struct DiskOperation {
    watch: DiskWatch,
    number: u64,
}

impl DiskWatch {
    /// Begins an operation.
    #[must_use]
    pub fn begin(&self) -> DiskOperation {
        self.begin_at(Instant::now())
    }

    fn begin_at(&self, now: Instant) -> DiskOperation {
        let mut operations = self.lock();
        operations.last_number += 1;
        let number = operations.last_number;
        operations.running.push((number, now));
        drop(operations);
        DiskOperation { watch: self.clone(), number }
    }

    /// `true` if an operation has waited so long that the disk does not answer.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.age() > STUCK
    }

    /// Waits while the disk may be stuck, until it has answered or is known to be stuck.
    pub async fn wait_until_known(&self) {
        while self.age() > SLOW && !self.is_stuck() {
            sleep(INTERVAL).await;
        }
    }

    /// Waits until the disk is not stuck any more.
    pub async fn wait_until_it_answers(&self) {
        while self.is_stuck() {
            sleep(SLOW).await;
        }
    }

    /// The time that the oldest operation has taken so far.
    fn age(&self) -> Duration {
        self.lock().running.first().map_or(Duration::ZERO, |(_, begun)| begun.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Operations> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DiskOperation {
    fn drop(&mut self) {
        self.watch.lock().running.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_disk_is_stuck_while_one_operation_does_not_end() {
        let disk = DiskWatch::default();
        let long_ago = Instant::now().checked_sub(2 * STUCK).unwrap();
        let [stuck, other] = [disk.begin_at(long_ago), disk.begin()];
        assert!(disk.is_stuck());
        drop(other);
        assert!(disk.clone().is_stuck(), "the older one has not ended");
        disk.wait_until_known().await;
        drop(stuck);
        assert!(!disk.is_stuck());
        disk.wait_until_it_answers().await;
    }

    #[tokio::test]
    async fn a_slow_operation_is_waited_for_until_it_ends() {
        let disk = DiskWatch::default();
        let slow = disk.begin_at(Instant::now().checked_sub(2 * SLOW).unwrap());
        let waiting = tokio::spawn({
            let disk = disk.clone();
            async move { disk.wait_until_known().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(slow);
        waiting.await.unwrap();
        assert!(!disk.is_stuck());
    }
}
