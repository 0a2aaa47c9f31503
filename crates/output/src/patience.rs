//! How long a search may go on: until its time is over, or nobody waits for it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a search may go on. Clones share one end.
#[derive(Debug, Clone)]
pub struct Patience {
    until: Instant,
    given_up: Arc<AtomicBool>,
}

/// Whoever waits for a search holds this: dropping it ends the search soon.
#[must_use = "dropping the leash ends the search"]
#[derive(Debug)]
pub struct Leash(Arc<AtomicBool>);

impl Patience {
    /// From now on, for so long; until the leash is dropped at the latest.
    pub fn start(time: Duration) -> (Self, Leash) {
        let given_up = Arc::new(AtomicBool::new(false));
        let leash = Leash(Arc::clone(&given_up));
        (Self { until: Instant::now() + time, given_up }, leash)
    }

    /// Whether to stop now.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) || Instant::now() >= self.until
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_its_time_or_with_its_leash() {
        let (patience, _leash) = Patience::start(Duration::ZERO);
        assert!(patience.is_over());
        let (patience, leash) = Patience::start(Duration::from_secs(3600));
        assert!(!patience.is_over());
        drop(leash);
        assert!(patience.clone().is_over());
    }
}
