//! What an operator can ask of the server as a whole, and only the app can do.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::yard::Identity;

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
    exit: CancellationToken,
}

impl Operations {
    /// `reload` reads the settings again, and says what came of it; `exit` is cancelled by the
    /// wish that the server ends once it has drained.
    #[must_use]
    pub fn new(
        reload: impl Fn(Identity) -> BoxFuture<'static, Result<Reloaded, String>>
        + Send
        + Sync
        + 'static,
        exit: CancellationToken,
    ) -> Self {
        Self { reload: Arc::new(reload), exit }
    }

    pub(super) async fn reload(&self, by: Identity) -> Result<Reloaded, String> {
        (self.reload)(by).await
    }

    pub(super) fn exit_when_drained(&self) {
        self.exit.cancel();
    }
}

impl fmt::Debug for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operations").finish_non_exhaustive()
    }
}
