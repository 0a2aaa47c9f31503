//! MCP over standard input and output, until the input ends: one client of [`crate::lines`].

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::stdio_pipes;
use tokio_util::sync::CancellationToken;

use crate::lines::{StopConditions, serve_streams};
use crate::mcp::{Handler, NetworkTransport};
use crate::telemetry::{Transport, events};

/// Serves one client on standard input and output until it goes away or `shutdown` is cancelled.
/// Calls in flight then have a moment to answer before they are cancelled: at the end of input
/// `input_end_grace`, else less than two seconds.
pub async fn serve(handler: Handler, shutdown: CancellationToken, input_end_grace: Duration) {
    let _session = events::session_opened(Transport::Stdio);
    let methods = handler.offered_methods();
    let handler = handler.instrumented(NetworkTransport::Pipe);
    // A process that holds our standard input needs no token.
    let ends = StopConditions { shutdown, input_end_grace, is_allowed: Arc::new(|| true) };
    Box::pin(serve_streams(handler, methods, stdio_pipes(), ends, pending())).await;
}
