//! The threads that the server works with. They are made at its start and stay, so that a limit on
//! processes that is reached later ends neither calls nor the server.

use std::fs;
use std::num::NonZero;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use super::error::AppError;
use crate::config::Environment;
use crate::process::bound_free_memory;

/// Threads of the runtime that may block. Work that finds no other thread waits for one of these.
const RESERVED: usize = 4;
/// The most of them. They stay once they were needed, and jobs need threads too; work beyond that waits.
const MAX_BLOCKING: usize = 128;
/// The threads beside the runtime's own that a server starts sooner or later and that stay.
const BESIDE: [&str; 14] = [
    "log",
    "spans",
    "children",
    "end watchdog",
    "job watchdog",
    "process creation",
    "job numbers",
    "audit log",
    "spill files",
    "scratch directories",
    "cgroups",
    "token file",
    "OAuth key file",
    // Queries, compression and reads of settings have one while they last.
    "short work",
];

/// Threads that have ended are counted by the kernel for a moment longer.
const END_PATIENCE: Duration = Duration::from_secs(1);
const END_PAUSE: Duration = Duration::from_micros(200);

/// Checks that the system gives this process all threads that a server needs: those who make them
/// later panic where there are none.
///
/// # Errors
/// Names the limit that is reached.
pub(super) fn check_threads(environment: &Environment) -> Result<(), AppError> {
    try_threads(worker_threads(environment) + RESERVED + BESIDE.len())
}

/// The same for a program that only talks to a server, and has a thread for its log.
pub(super) fn check_log_thread() -> Result<(), AppError> {
    try_threads(1)
}

/// The runtime of a server, after [`check_threads`].
pub(super) fn server_runtime(environment: &Environment) -> Result<Runtime, AppError> {
    bound_free_memory();
    let mut builder = Builder::new_multi_thread();
    // tokio panics when it has no thread that may block and gets none. Threads that stay are
    // always there: work waits for them.
    builder.worker_threads(worker_threads(environment)).thread_keep_alive(Duration::MAX);
    builder.max_blocking_threads(MAX_BLOCKING);
    let runtime = builder.enable_all().build().map_err(AppError::Runtime)?;
    reserve_threads(&runtime);
    Ok(runtime)
}

/// The runtime of a program that only talks to a server.
pub(super) fn client_runtime() -> Result<Runtime, AppError> {
    Builder::new_current_thread().enable_all().build().map_err(AppError::Runtime)
}

/// Half of the processors are for the server's own threads: jobs need them too, and each thread more
/// costs every call some waking and waiting. Whoever sets tokio's own variable wants another number.
fn worker_threads(environment: &Environment) -> usize {
    environment.worker_threads().map_or_else(
        || {
            let processors = thread::available_parallelism().map_or(1, NonZero::get);
            (processors / 2).max(1)
        },
        NonZero::get,
    )
}

/// Has the runtime make its reserved threads: each task keeps its own until all are there.
fn reserve_threads(runtime: &Runtime) {
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..RESERVED {
        let gate = Arc::clone(&gate);
        drop(runtime.spawn_blocking(move || drop(gate.read())));
    }
    drop(closed);
}

/// Has so many threads at one time, and none of them when it returns. The limit that is reached is
/// looked for while they exist: without them there may be room again.
fn try_threads(count: usize) -> Result<(), AppError> {
    let before = count_threads();
    let gate = RwLock::new(());
    let made = thread::scope(|scope| {
        let _closed = gate.write().unwrap_or_else(PoisonError::into_inner);
        let made = (0..count).try_for_each(|_| {
            thread::Builder::new().spawn_scoped(scope, || drop(gate.read())).map(drop)
        });
        made.map_err(AppError::no_thread)
    });
    let deadline = Instant::now() + END_PATIENCE;
    while count_threads() > before && Instant::now() < deadline {
        thread::sleep(END_PAUSE);
    }
    made
}

fn count_threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
