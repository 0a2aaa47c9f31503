//! What an operator can ask of the server as a whole, and only the app can do.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::telemetry::LogFilter;
use crate::yard::{AfterDrain, Identity};

/// Settings that changed: those that hold from now on, and those that take a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Keys whose new values hold.
    pub live: Vec<String>,
    /// Keys whose new values take a restart.
    pub restart: Vec<String>,
}

type Reload = dyn Fn(Identity) -> BoxFuture<'static, Result<Reloaded, String>> + Send + Sync;

/// What an operator can ask of the server as a whole. A cheap clone.
#[derive(Clone)]
pub struct Operations {
    reload: Arc<Reload>,
    after_drain: watch::Sender<AfterDrain>,
    log: LogFilter,
}

impl Operations {
    /// `reload` reads the settings again, and says what came of it; `after_drain` is told
    /// what becomes of the server once it has drained; `log` is which log lines are written.
    #[must_use]
    pub fn new(
        reload: impl Fn(Identity) -> BoxFuture<'static, Result<Reloaded, String>>
        + Send
        + Sync
        + 'static,
        after_drain: watch::Sender<AfterDrain>,
        log: LogFilter,
    ) -> Self {
        Self { reload: Arc::new(reload), after_drain, log }
    }

    pub(super) async fn reload(&self, by: Identity) -> Result<Reloaded, String> {
        (self.reload)(by).await
    }

    pub(super) const fn log(&self) -> &LogFilter {
        &self.log
    }

    pub(super) fn wish_after_drain(&self, wish: AfterDrain) {
        self.after_drain.send_replace(wish);
    }
}

impl fmt::Debug for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operations").finish_non_exhaustive()
    }
}
