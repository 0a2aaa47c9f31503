//! Start, drain, reap: what a command costs at the least.

use std::io;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use super::{FloorFigures, shell};
use crate::server::Usage;

/// Runs a text by a shell, reads both pipes, waits for it, and returns its output.
pub(crate) fn output_of(text: &str) -> Vec<u8> {
    let output = shell(text).stdin(Stdio::null()).output().expect("a shell");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    output.stdout
}

/// Runs one `echo hi` and checks its output.
pub(crate) fn echo() {
    assert_eq!(output_of("echo hi"), b"hi\n");
}

/// So many of them on so many threads, in a process of its own.
pub(crate) fn run(threads: usize, calls: usize) -> FloorFigures {
    FloorFigures::by(&["spawn", &threads.to_string(), &calls.to_string()])
}

pub(crate) fn play(threads: usize, calls: usize) -> io::Result<()> {
    let left = AtomicUsize::new(calls);
    let take = |count: usize| count.checked_sub(1);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                    echo();
                }
            });
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    let usage = Usage::own();
    let [cpu_ms, own_cpu_ms] = [usage.cpu_with_children_ms(), usage.cpu_ms()];
    FloorFigures { seconds, cpu_ms, own_cpu_ms }.tell()
}
