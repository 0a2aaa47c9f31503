//! The threads of the server. They are created at the start and kept, so that a limit on processes that
//! is reached later breaks neither calls nor the server.

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

/// The number of blocking threads that always exist. Blocking work waits for one of them if no more
/// threads can be created.
const RESERVED_BLOCKING_THREADS: usize = 4;
/// The most blocking threads. They stay once created, and jobs need threads too; more work waits.
const MAX_BLOCKING: usize = 128;
/// The threads besides the runtime's own that a server starts sooner or later, and that stay.
const OTHER_THREADS: [&str; 17] = [
    "log",
    "keeper",
    "keeper watch",
    "journal",
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
    // Queries, compression and reads of settings use one for a short time.
    "short work",
];

/// The longest wait for ended threads: the kernel counts them for a moment longer.
const THREAD_END_TIME: Duration = Duration::from_secs(1);
const THREAD_END_PAUSE: Duration = Duration::from_micros(200);

/// Checks that this process can create all threads that a server needs: the code that creates them
/// later panics on a failure.
///
/// # Errors
/// Names the limit that is reached.
pub(super) fn check_threads(environment: &Environment) -> Result<(), AppError> {
    try_threads(count_worker_threads(environment) + RESERVED_BLOCKING_THREADS + OTHER_THREADS.len())
}

/// Checks that a client program can create the thread for its log.
pub(super) fn check_log_thread() -> Result<(), AppError> {
    try_threads(1)
}

/// Creates the runtime of a server. Call [`check_threads`] first.
pub(super) fn build_server_runtime(environment: &Environment) -> Result<Runtime, AppError> {
    limit_retained_memory();
    let mut builder = Builder::new_multi_thread();
    // tokio panics if it has no blocking thread and cannot create one. With threads that never end,
    // work waits for one of them instead.
    builder.worker_threads(count_worker_threads(environment)).thread_keep_alive(Duration::MAX);
    builder.max_blocking_threads(MAX_BLOCKING);
    let runtime = builder.enable_all().build().map_err(AppError::Runtime)?;
    reserve_threads(&runtime);
    Ok(runtime)
}

/// Creates the runtime of a program that only talks to a server.
pub(super) fn build_client_runtime() -> Result<Runtime, AppError> {
    Builder::new_current_thread().enable_all().build().map_err(AppError::Runtime)
}

/// Returns the number of worker threads: half of the processors, since jobs need processors too and
/// each additional thread adds wake-ups to every call. `TOKIO_WORKER_THREADS` overrides it.
fn count_worker_threads(environment: &Environment) -> usize {
    environment.worker_threads().map_or_else(
        || {
            let processors = thread::available_parallelism().map_or(1, NonZero::get);
            (processors / 2).max(1)
        },
        NonZero::get,
    )
}

/// Makes the runtime create its reserved threads: each task occupies one until all exist.
fn reserve_threads(runtime: &Runtime) {
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..RESERVED_BLOCKING_THREADS {
        let gate = Arc::clone(&gate);
        drop(runtime.spawn_blocking(move || drop(gate.read())));
    }
    drop(closed);
}

/// Creates this many threads at the same time, and ends them again. If one cannot be created, the
/// reached limit is determined while the others exist: after their end it may not be reached any more.
fn try_threads(count: usize) -> Result<(), AppError> {
    let before = count_threads();
    let gate = RwLock::new(());
    let result = thread::scope(|scope| {
        let _closed = gate.write().unwrap_or_else(PoisonError::into_inner);
        let created = (0..count).try_for_each(|_| {
            thread::Builder::new().spawn_scoped(scope, || drop(gate.read())).map(drop)
        });
        created.map_err(AppError::from_thread_error)
    });
    let deadline = Instant::now() + THREAD_END_TIME;
    while count_threads() > before && Instant::now() < deadline {
        thread::sleep(THREAD_END_PAUSE);
    }
    result
}

fn count_threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// The signals that ask the program to end: SIGTERM and SIGINT.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next of these signals.
    pub(super) async fn wait_for_end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Returns a future that runs `act` at each SIGHUP, and never ends.
pub(super) fn run_on_hangup<F: Future<Output = ()> + Send>(
    act: impl Fn() -> F + Send,
) -> io::Result<impl Future<Output = ()> + Send> {
    run_on_signal(SignalKind::hangup(), act)
}

/// Returns a future that runs `act` at each SIGUSR2, and never ends.
pub(super) fn run_on_user_signal<F: Future<Output = ()> + Send>(
    act: impl Fn() -> F + Send,
) -> io::Result<impl Future<Output = ()> + Send> {
    run_on_signal(SignalKind::user_defined2(), act)
}

fn run_on_signal<F: Future<Output = ()> + Send>(
    kind: SignalKind,
    act: impl Fn() -> F + Send,
) -> io::Result<impl Future<Output = ()> + Send> {
    let mut signals = signal(kind)?;
    Ok(async move {
        while signals.recv().await.is_some() {
            act().await;
        }
    })
}

/// Exits at once: the jobs of this server must go on, and dropping what follows them would end them.
pub(super) fn exit_without_cleanup(code: u8) -> ! {
    // The last log lines.
    thread::sleep(LOG_FLUSH_TIME);
    process::exit(i32::from(code))
}

/// The time that an orderly shutdown may take beyond the time for jobs: to verify that every process
/// tree has ended, and to send the last replies.
const SHUTDOWN_MARGIN: Duration = Duration::from_secs(10);

/// The time for the last log line to be written.
const LOG_FLUSH_TIME: Duration = Duration::from_millis(200);

/// The exit code of a server that did not shut down in time.
const FORCED_EXIT_CODE: i32 = 1;

/// The handle of a thread that exits the process if an orderly shutdown hangs.
///
/// An orderly shutdown needs the runtime's threads, and any of them can be stuck in a system call, for
/// example because a file system does not answer. So one thread with a runtime of its own listens to the
/// same signals, and does nothing else.
#[derive(Debug)]
pub(super) struct ShutdownWatchdog {
    shutdown_begun: Arc<Notify>,
}

impl ShutdownWatchdog {
    /// Starts the thread. The shutdown may take `job_time`, which is the time for jobs, and a little more.
    pub(super) fn start(host: Arc<Host>, job_time: Duration) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _inside = runtime.enter();
            Signals::listen()?
        };
        let shutdown_begun = Arc::new(Notify::new());
        let limit = job_time + SHUTDOWN_MARGIN;
        let begun = Arc::clone(&shutdown_begun);
        let watch = move || {
            runtime.block_on(wait_for_timeout(signals, begun, limit));
            force_exit(&host, limit);
        };
        thread::Builder::new().name("end-watchdog".to_owned()).spawn(watch)?;
        Ok(Self { shutdown_begun })
    }

    /// Tells the thread that a shutdown without a signal has begun.
    pub(super) fn begin(&self) {
        self.shutdown_begun.notify_one();
    }
}

/// Waits for the beginning of a shutdown, and then for `limit`.
async fn wait_for_timeout(mut signals: Signals, begun: Arc<Notify>, limit: Duration) {
    tokio::select! {
        () = signals.wait_for_end() => {}
        () = begun.notified() => {}
    }
    tokio::time::sleep(limit).await;
}

fn force_exit(host: &Host, limit: Duration) {
    events::shutdown_forced(limit);
    // A thread in an uninterruptible system call keeps the process's files open after the exit.
    host.guardian().trigger();
    thread::sleep(LOG_FLUSH_TIME);
    process::exit(FORCED_EXIT_CODE);
}
