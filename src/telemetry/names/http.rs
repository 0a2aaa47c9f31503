//! The HTTP door.

use metrics::Unit;

use super::catalogue::Family;
use super::metric::{Counter, Gauge, Labels, Metric, PLAIN};
use crate::telemetry::labels::{Refusal, key};

/// HTTP requests and connections turned away, by reason.
pub const REFUSED: Counter = Counter(Metric {
    name: "shellyard_http_refused_total",
    help: "HTTP requests and connections turned away, by reason.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::REASON, &Refusal::WORDS)]),
});

/// HTTP connections that are open now.
pub const CONNECTIONS: Gauge = Gauge(Metric {
    name: "shellyard_http_connections",
    help: "HTTP connections that are open now.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// HTTP connections that may be open at one time.
pub const CONNECTIONS_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_http_connections_limit",
    help: "HTTP connections that may be open at one time.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// All of them.
pub(super) const FAMILY: Family = Family {
    title: "The HTTP door",
    counters: &[REFUSED],
    gauges: &[CONNECTIONS, CONNECTIONS_LIMIT],
    histograms: &[],
};
