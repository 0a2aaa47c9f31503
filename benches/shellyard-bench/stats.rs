//! From many times to one figure.

use std::time::{Duration, Instant};

/// The middle of some measurements.
pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

/// The measurement that this share of them does not exceed.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    assert!(!values.is_empty(), "something was measured");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() as f64 * share) as usize).min(sorted.len() - 1)]
}

/// The exponent of the power law that fits the points best: the slope of a straight line
/// through their logarithms.
pub(crate) fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / count;
    let shared = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    shared / logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>()
}

/// Returns the result of the task and the milliseconds it took.
pub(crate) fn timed<T>(task: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = task();
    (result, milliseconds(start.elapsed()))
}

/// Milliseconds, with their fractions.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// So many runs in a row, in milliseconds each, after a few that are not counted: whoever ran
/// before has taken the caches.
pub(crate) fn block(runs: usize, mut task: impl FnMut()) -> Vec<f64> {
    const SETTLE: usize = 3;
    (0..SETTLE).for_each(|_| task());
    (0..runs).map(|_| timed(&mut task).1).collect()
}
