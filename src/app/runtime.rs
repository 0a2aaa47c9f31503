//! The threads that the server works with. They are made at its start and stay, so that a limit on
//! processes that is reached later ends neither calls nor the server.

use std::num::NonZero;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use std::{fs, io, process, thread};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use super::error::AppError;
use crate::config::Environment;
use crate::process::{Host, limit_retained_memory};
use crate::telemetry::events;

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
    limit_retained_memory();
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

// The signals that a server listens to.

/// The system's and the terminal's wish that we end.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Returns at the next wish to end.
    pub(super) async fn wish_to_end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Does this, for ever, whenever SIGHUP arrives.
pub(super) fn on_hangup<F: Future<Output = ()> + Send>(
    act: impl Fn() -> F + Send,
) -> io::Result<impl Future<Output = ()> + Send> {
    let mut hangups = signal(SignalKind::hangup())?;
    Ok(async move {
        while hangups.recv().await.is_some() {
            act().await;
        }
    })
}

// A thread that ends the process when its orderly end hangs.
//
// The orderly end needs the runtime's threads, and any of them can be stuck in a system call: a
// file system that does not answer is enough. So one thread, with a runtime of its own, listens
// to the same signals and does nothing else.

/// The time, beyond what jobs get, in which an orderly end is over: it verifies that every tree is
/// gone and says its last words to clients.
const LAST_STEPS: Duration = Duration::from_secs(10);

/// The time in which the last log line is written.
const LAST_LINE: Duration = Duration::from_millis(200);

/// Exit code of a server whose end was forced.
const FORCED: i32 = 1;

/// The handle of the thread. Ending the process otherwise ends it too.
#[derive(Debug)]
pub(super) struct EndWatchdog {
    begun: Arc<Notify>,
}

impl EndWatchdog {
    /// Starts the thread. It lets an end in which jobs get `jobs` take a little longer than that.
    pub(super) fn start(host: Arc<Host>, jobs: Duration) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _inside = runtime.enter();
            Signals::listen()?
        };
        let begun = Arc::new(Notify::new());
        let limit = jobs + LAST_STEPS;
        let begins = Arc::clone(&begun);
        let watch = move || {
            runtime.block_on(outlast(signals, begins, limit));
            force_end(&host, limit);
        };
        thread::Builder::new().name("end-watchdog".to_owned()).spawn(watch)?;
        Ok(Self { begun })
    }

    /// Tells the thread of an end that no signal asked for.
    pub(super) fn begin(&self) {
        self.begun.notify_one();
    }
}

/// Returns when an end has begun and the process is still there after `limit`.
async fn outlast(mut signals: Signals, begins: Arc<Notify>, limit: Duration) {
    tokio::select! {
        () = signals.wish_to_end() => {}
        () = begins.notified() => {}
    }
    tokio::time::sleep(limit).await;
}

fn force_end(host: &Host, limit: Duration) {
    events::shutdown_forced(limit);
    // A thread in a system call that nothing interrupts keeps our files open after the exit.
    host.guardian().trigger();
    thread::sleep(LAST_LINE);
    process::exit(FORCED);
}
