//! What MCP clients ask for, under the names that OpenTelemetry has for it where it has one.

use metrics::Unit;

use super::catalogue::Family;
use super::metric::{Gauge, Histogram, Labels, Metric, PLAIN, Pair};
use crate::telemetry::labels::{CallClass, ErrorType, METHODS, OTHER, TOOL_CALL, Transport, key};

/// The buckets that OpenTelemetry's conventions for MCP advise.
const OPERATION_SECONDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// How long operations took, by method, tool, class and error.
pub const OPERATION: Histogram = Histogram(
    Metric {
        name: "mcp_server_operation_duration_seconds",
        help: "How long MCP operations took, by method and tool; class tells calls that wait for a job from those that do not.",
        unit: Unit::Seconds,
        labels: Labels::Operation,
    },
    &OPERATION_SECONDS,
);

/// How long sessions lasted, by transport.
pub const SESSION: Histogram = Histogram(
    Metric {
        name: "mcp_server_session_duration_seconds",
        help: "How long MCP sessions lasted, by transport.",
        unit: Unit::Seconds,
        labels: Labels::Closed(&[(key::TRANSPORT, &Transport::WORDS)]),
    },
    &OPERATION_SECONDS,
);

/// Operations that are being answered now, by class.
pub const IN_FLIGHT: Gauge = Gauge(Metric {
    name: "shellyard_mcp_operations_in_flight",
    help: "MCP operations that are being answered now, by class.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::CLASS, &CallClass::WORDS)]),
});

/// Sessions that are open now, by transport.
pub const SESSIONS: Gauge = Gauge(Metric {
    name: "shellyard_mcp_sessions",
    help: "MCP sessions that are open now, by transport; modern HTTP clients have none.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::TRANSPORT, &Transport::WORDS)]),
});

/// Sessions that may be open over HTTP.
pub const SESSIONS_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_mcp_sessions_limit",
    help: "MCP sessions that may be open over HTTP at one time.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Outputs that clients follow now.
pub const SUBSCRIPTIONS: Gauge = Gauge(Metric {
    name: "shellyard_mcp_subscriptions",
    help: "Outputs that clients follow now, by subscription.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// All of them.
pub(super) const FAMILY: Family = Family {
    title: "MCP",
    counters: &[],
    gauges: &[IN_FLIGHT, SESSIONS, SESSIONS_LIMIT, SUBSCRIPTIONS],
    histograms: &[OPERATION, SESSION],
};

/// The labels of an operation. A success has no error.
#[must_use]
pub(in crate::telemetry) fn operation(
    method: &'static str,
    tool: Option<&'static str>,
    error: Option<ErrorType>,
) -> Vec<Pair> {
    let tool_label = tool.map(|tool| (key::TOOL, tool));
    let error = error.map(|error| (key::ERROR, error.word()));
    let class = CallClass::of(method, tool).word();
    [(key::METHOD, method), (key::CLASS, class)]
        .into_iter()
        .chain(tool_label)
        .chain(error)
        .collect()
}

/// The labels of every operation that there can be, whichever tools are offered.
pub(in crate::telemetry) fn operations() -> impl Iterator<Item = Vec<Pair>> {
    let of_methods = METHODS.into_iter().filter(|method| *method != TOOL_CALL).flat_map(|method| {
        [None, Some(ErrorType::Other)].map(|error| operation(method, None, error))
    });
    of_methods.chain(tool_operations([OTHER].into_iter()))
}

/// The labels of every call that there can be of these tools.
pub(in crate::telemetry) fn tool_operations(
    tools: impl Iterator<Item = &'static str>,
) -> impl Iterator<Item = Vec<Pair>> {
    tools.flat_map(|tool| {
        [None, Some(ErrorType::Tool), Some(ErrorType::Other)]
            .map(|error| operation(TOOL_CALL, Some(tool), error))
    })
}
