//! The signals that a server listens to.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::process::{guardian, host, spawner};
use crate::telemetry::events;

/// Ends of children that come close together are dealt with together.
const REAP_PAUSE: Duration = Duration::from_millis(250);

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

/// Reaps, for ever, what jobs left behind and we have adopted, and replaces a guardian or
/// a spawner that died.
pub(super) fn follow_children() -> io::Result<impl Future<Output = ()> + Send> {
    let mut children = signal(SignalKind::child())?;
    Ok(async move {
        while children.recv().await.is_some() {
            tokio::time::sleep(REAP_PAUSE).await;
            let reaped = host::reap_orphans();
            if reaped > 0 {
                events::orphans_reaped(reaped as u64);
            }
            match guardian::renew() {
                Ok(false) => {}
                Ok(true) => events::guardian_renewed(),
                Err(error) => events::guardian_missing(&error),
            }
            match spawner::renew() {
                Ok(false) => {}
                Ok(true) => events::spawner_renewed(),
                // The next launch tries again, and says so if it fails.
                Err(error) => events::spawner_missing(&error),
            }
        }
    })
}
