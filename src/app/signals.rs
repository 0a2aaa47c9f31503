//! The signals that a server listens to.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

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
