//! Actors and their mailboxes.

use metrics::Unit;

use super::catalogue::Family;
use super::metric::{Counter, Gauge, Labels, Metric};
use crate::telemetry::labels::{Actor, key};

/// Actors that are alive now, by class.
pub const ALIVE: Gauge = Gauge(Metric {
    name: "shellyard_actors",
    help: "Actors that are alive now, by class.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::ACTOR, &Actor::WORDS)]),
});

/// Messages that wait in mailboxes now, by class of actor.
pub const MAILBOX: Gauge = Gauge(Metric {
    name: "shellyard_actor_mailbox_messages",
    help: "Messages that wait in mailboxes now, by class of actor.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::ACTOR, &Actor::WORDS)]),
});

/// Actors that failed; what they ran reads as lost.
pub const FAILURES: Counter = Counter(Metric {
    name: "shellyard_actor_failures_total",
    help: "Actors that failed; what they ran reads as lost.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::ACTOR, &Actor::WORDS)]),
});

/// Actors that were started again after a failure. Jobs never are: nothing runs twice.
pub const RESTARTS: Counter = Counter(Metric {
    name: "shellyard_actor_restarts_total",
    help: "Actors that were started again after a failure. Jobs never are: nothing runs twice.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::ACTOR, &Actor::WORDS)]),
});

/// All of them.
pub(super) const FAMILY: Family = Family {
    title: "Actors and their mailboxes",
    counters: &[FAILURES, RESTARTS],
    gauges: &[ALIVE, MAILBOX],
    histograms: &[],
};
