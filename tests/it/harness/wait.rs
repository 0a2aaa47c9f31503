//! Waiting for a condition, with a deadline that is generous on a busy machine.

use std::thread;
use std::time::{Duration, Instant};

/// The time after which a test calls anything a hang.
pub(crate) const DEADLINE: Duration = Duration::from_secs(240);

/// The pauses between two attempts. They grow with the time that has passed: a condition that takes
/// long is not looked at so often that looking slows down what is waited for.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Returns once `condition` holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    eventually_some(what, || condition().then_some(()));
}

/// Returns the first value that `attempt` gives.
#[track_caller]
pub(crate) fn eventually_some<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        let waited = start.elapsed();
        assert!(waited < DEADLINE, "never came true: {what}");
        thread::sleep((waited / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
    }
}
