//! The threads of the server: those of the runtime, and the one that ends a shutdown that hangs.
//!
//! They are created at the start and kept, so that a limit on processes that is reached later breaks neither
//! calls nor the server.

use std::num::NonZero;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use std::{fs, io, process, thread};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Mutex, Notify};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout_at;

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
const OTHER_THREADS: [&str; 14] = [
    "log",
    "keeper",
    "journal",
    "spans",
    "end watchdog",
    "job watchdog",
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

/// Limits the memory that the threads of this process keep. Call it before there are any.
pub(super) fn limit_memory(environment: &Environment) {
    limit_retained_memory(count_worker_threads(environment));
}

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

/// A slot for blocking work on files. Work whose file system does not answer keeps the slot, so it
/// blocks one thread, however often it is tried again. Clones share the slot.
#[derive(Debug, Clone, Default)]
pub(super) struct BlockingSlot(Arc<Mutex<()>>);

/// The reason why blocking work has no result.
#[derive(Debug)]
pub(super) enum BlockingError {
    /// Earlier work kept the slot for the whole time.
    SlotBusy,
    NotInTime,
    Failed(JoinError),
}

impl BlockingSlot {
    /// Runs `work` on a blocking thread once the slot is free. Waits for the slot and for the result for
    /// at most `time`; work that takes longer goes on without a reader of its result.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        time: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BlockingError> {
        let deadline = tokio::time::Instant::now() + time;
        let free = timeout_at(deadline, Arc::clone(&self.0).lock_owned()).await;
        let slot = free.map_err(|_| BlockingError::SlotBusy)?;
        let running = spawn_blocking(move || {
            let _slot = slot;
            work()
        });
        let done = timeout_at(deadline, running).await.map_err(|_| BlockingError::NotInTime)?;
        done.map_err(BlockingError::Failed)
    }
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

/// Returns a future that runs `act` at each signal of this kind, and never ends.
pub(super) fn run_on_signal<F: Future<Output = ()> + Send>(
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

/// The longest grace period of jobs whose client has hung up: clients send SIGKILL soon after.
const HUNG_UP_GRACE: Duration = Duration::from_secs(1);

/// The time for the last log line to be written.
const LOG_FLUSH_TIME: Duration = Duration::from_millis(200);

/// The exit code of a server that did not shut down in time.
const FORCED_EXIT_CODE: i32 = 1;

/// The signals that end a running server, and a thread that exits the process if the orderly shutdown
/// hangs.
///
/// An orderly shutdown needs the runtime's threads, and any of them can be stuck in a system call, for
/// example because a file system does not answer. So the thread has a runtime of its own, listens to the
/// same signals, and does nothing else.
#[derive(Debug)]
pub(super) struct ShutdownTrigger {
    pub(super) signals: Signals,
    shutdown_begun: Arc<Notify>,
}

impl ShutdownTrigger {
    /// Starts to listen to signals. At the end, running jobs get the time `drain`, and then at most
    /// `grace` between SIGTERM and SIGKILL.
    pub(super) fn listen(
        host: Arc<Host>,
        grace: Duration,
        drain: Duration,
    ) -> Result<Self, AppError> {
        let limit = drain + shutdown_grace(grace, drain) + SHUTDOWN_MARGIN;
        let shutdown_begun = start_watchdog(host, limit).map_err(AppError::from_thread_error)?;
        Ok(Self { signals: Signals::listen()?, shutdown_begun })
    }

    /// Tells the thread that a shutdown without a signal has begun.
    pub(super) fn begin(&self) {
        self.shutdown_begun.notify_one();
    }
}

/// Returns the time between SIGTERM and SIGKILL in a shutdown that first gives jobs the time `drain`.
pub(super) fn shutdown_grace(configured: Duration, drain: Duration) -> Duration {
    if drain.is_zero() { configured.min(HUNG_UP_GRACE) } else { configured }
}

/// Starts the thread that exits the process if a shutdown takes longer than `limit`.
fn start_watchdog(host: Arc<Host>, limit: Duration) -> io::Result<Arc<Notify>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let signals = {
        let _inside = runtime.enter();
        Signals::listen()?
    };
    let shutdown_begun = Arc::new(Notify::new());
    let begun = Arc::clone(&shutdown_begun);
    let watch = move || {
        runtime.block_on(wait_for_timeout(signals, begun, limit));
        force_exit(&host, limit);
    };
    thread::Builder::new().name("end-watchdog".to_owned()).spawn(watch)?;
    Ok(shutdown_begun)
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
    host.keeper().end_shims();
    thread::sleep(LOG_FLUSH_TIME);
    process::exit(FORCED_EXIT_CODE);
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[tokio::test]
    async fn work_that_does_not_return_keeps_its_slot_and_blocks_no_other_thread() {
        let slot = BlockingSlot::default();
        assert_eq!(slot.run(ms(60_000), || 1).await.unwrap(), 1);
        let (release, stuck) = std::sync::mpsc::channel::<()>();
        let late = slot.run(ms(20), move || stuck.recv().is_err()).await;
        assert!(matches!(late, Err(BlockingError::NotInTime)), "{late:?}");
        let next = slot.clone().run(ms(20), || panic!("the slot is not free")).await;
        assert!(matches!(next, Err(BlockingError::SlotBusy)), "{next:?}");
        drop(release);
        assert_eq!(slot.run(ms(60_000), || 2).await.unwrap(), 2, "the slot is free again");
    }
}
