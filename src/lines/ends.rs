//! The reasons for which the service of a client ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// The reasons, beside the client itself, for which its service ends.
#[derive(Clone)]
pub struct Ends {
    /// Cancelled when the server ends, or wants this client to.
    pub shutdown: CancellationToken,
    /// The time for calls in flight at the end of input.
    pub patience: Duration,
    /// Returns `false` once the client has lost its right to be served. Asked before each message
    /// that is acted on, and before each that is sent, so it must be cheap.
    pub is_allowed: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ends").field("patience", &self.patience).finish_non_exhaustive()
    }
}
