//! The order of calls on one connection: what came first starts first.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::service::RequestContext;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A call's turn to start. A transport that reads calls one after the other sends it along with
/// each, in its extensions, and hands on the next one when the turn is over: once the call has
/// started its work, or was dropped.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    over: CancellationToken,
    _over_when_dropped: Arc<DropGuard>,
}

impl Turn {
    /// A turn, and what is cancelled when it is over.
    pub(crate) fn new() -> (Self, CancellationToken) {
        let over = CancellationToken::new();
        let guard = Arc::new(over.clone().drop_guard());
        (Self { over: over.clone(), _over_when_dropped: guard }, over)
    }

    /// Lets the call after this one start, where it waits for that.
    pub(crate) fn end(context: &RequestContext<RoleServer>) {
        if let Some(turn) = context.extensions.get::<Self>() {
            turn.over.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_over_when_its_last_clone_is_gone() {
        let (turn, over) = Turn::new();
        let clone = turn.clone();
        drop(turn);
        assert!(!over.is_cancelled());
        drop(clone);
        assert!(over.is_cancelled());
    }
}
