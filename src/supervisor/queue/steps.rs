//! Counts what the queue does, for the test that holds its cost.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// So many comparisons were made, or blocks counted.
pub(super) fn count(steps: usize) {
    STEPS.set(STEPS.get() + steps);
}

/// What was counted on this thread since the last call.
pub(super) fn take() -> usize {
    STEPS.take()
}
