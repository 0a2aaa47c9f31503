//! Waiting for a condition, with a deadline that is generous on a busy machine.

use std::thread;
use std::time::{Duration, Instant};

/// The time after which a test calls anything a hang.
pub(crate) const DEADLINE: Duration = Duration::from_secs(240);

const PAUSE: Duration = Duration::from_millis(20);

/// Returns once `condition` holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    eventually_some(what, || condition().then_some(()));
}

/// Returns the first value that `attempt` gives.
#[track_caller]
pub(crate) fn eventually_some<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "never came true: {what}");
        thread::sleep(PAUSE);
    }
}
