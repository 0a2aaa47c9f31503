//! What MCP clients ask for, and for how long they stay.

use std::time::Instant;

use super::values::millis;
use crate::telemetry::labels::{self, CallClass, ErrorType, OTHER, TOOL_CALL, Transport, key};
use crate::telemetry::names::mcp;

/// These tools are offered: from now on each has its series, at zero.
pub fn tools_offered(tools: impl Iterator<Item = &'static str>) {
    for labels in mcp::tool_operations(tools) {
        // A series is there once somebody holds it.
        drop(mcp::OPERATION.of(&labels));
    }
}

/// A client asked for something. Of a tool that is not offered the name is not told.
#[must_use = "dropping the guard counts the operation as cut short"]
pub fn operation_started(method: &str, tool: Option<&'static str>) -> ActiveOperation {
    let method = labels::method(method);
    // Params that do not fit name no tool.
    let tool = tool.or((method == TOOL_CALL).then_some(OTHER));
    let operation = ActiveOperation { method, tool, started: Instant::now(), error: CUT_SHORT };
    operation.in_flight().increment(1);
    operation
}

/// What an operation reads as that nobody finished.
const CUT_SHORT: Option<ErrorType> = Some(ErrorType::Other);

/// An operation that is being answered. Dropping it counts it as over, on every way out.
#[derive(Debug)]
pub struct ActiveOperation {
    method: &'static str,
    tool: Option<&'static str>,
    started: Instant,
    error: Option<ErrorType>,
}

impl ActiveOperation {
    /// It was answered. Without this it counts as cut short.
    pub fn finish(mut self, error: Option<ErrorType>) {
        self.error = error;
    }

    /// The word for what was asked for, from a closed set.
    #[must_use]
    pub const fn method(&self) -> &'static str {
        self.method
    }

    /// The word for the tool that was called, from a closed set.
    #[must_use]
    pub const fn tool(&self) -> Option<&'static str> {
        self.tool
    }

    fn in_flight(&self) -> metrics::Gauge {
        let class = CallClass::of(self.method, self.tool);
        mcp::IN_FLIGHT.with((key::CLASS, class.word()))
    }
}

impl Drop for ActiveOperation {
    fn drop(&mut self) {
        let Self { method, tool, error, .. } = *self;
        let (elapsed, error_type) = (self.started.elapsed(), error.map(ErrorType::word));
        tracing::debug!(method, tool, error_type, elapsed_ms = millis(elapsed), "request answered");
        self.in_flight().decrement(1);
        mcp::OPERATION.of(&mcp::operation(method, tool, error)).record(elapsed);
    }
}

/// So many sessions may be open over HTTP.
pub fn session_limit_known(most: usize) {
    mcp::SESSIONS_LIMIT.set_to(most);
}

/// A client came, and stays.
#[must_use = "dropping the guard counts the session as over"]
pub fn session_opened(transport: Transport) -> OpenSession {
    mcp::SESSIONS.with((key::TRANSPORT, transport.word())).increment(1);
    OpenSession { transport, opened: Instant::now() }
}

/// A session that is open. Dropping it counts it as over.
#[derive(Debug)]
pub struct OpenSession {
    transport: Transport,
    opened: Instant,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        let label = (key::TRANSPORT, self.transport.word());
        mcp::SESSIONS.with(label).decrement(1);
        mcp::SESSION.of(&[label]).record(self.opened.elapsed());
    }
}
