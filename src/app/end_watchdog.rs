//! A thread that ends the process when its orderly end hangs.
//!
//! The orderly end needs the runtime's threads, and any of them can be stuck in a system call: a
//! file system that does not answer is enough. So one thread, with a runtime of its own, listens
//! to the same signals and does nothing else.

use std::io;
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::Notify;

use super::signals::Signals;
use crate::process::guardian;
use crate::telemetry::events;

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
    pub(super) fn start(jobs: Duration) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _inside = runtime.enter();
            Signals::listen()?
        };
        let begun = Arc::new(Notify::new());
        let (limit, begins) = (jobs + LAST_STEPS, Arc::clone(&begun));
        let watch = move || {
            runtime.block_on(outlast(signals, begins, limit));
            force_end(limit);
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

fn force_end(limit: Duration) {
    events::end_forced(limit);
    // A thread in a system call that nothing interrupts keeps our files open after the exit.
    guardian::let_go();
    thread::sleep(LAST_LINE);
    process::exit(FORCED);
}
