//! MCP over standard input and output, until the input ends: one client of [`crate::lines`].

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::stdio_pipes;
use tokio_util::sync::CancellationToken;

use crate::lines::{Ends, serve_on};
use crate::mcp::{Handler, Network};
use crate::telemetry::{Transport, events};

/// Serves one client on standard input and output until it goes away or `shutdown` is
/// cancelled. Calls in flight then have a moment to answer before they are cancelled: at the end
/// of input `patience`, else less than two seconds.
pub async fn serve(handler: Handler, shutdown: CancellationToken, patience: Duration) {
    let _session = events::session_opened(Transport::Stdio);
    let handler = handler.watched(Network::Pipe);
    // Whoever holds our standard input needs no token.
    let ends = Ends { shutdown, patience, is_allowed: Arc::new(|| true) };
    Box::pin(serve_on(handler, stdio_pipes(), ends, pending())).await;
}
