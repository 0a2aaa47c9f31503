//! Known metrics: those of the server, and those that Prometheus adds.

use std::collections::BTreeMap;

use shellyard::telemetry::labels::{CallClass, ErrorType, METHODS, Transport, key};
use shellyard::telemetry::names::{Metric, MetricKind, MetricLabels, catalogue};

/// Labels that Prometheus gives to whatever it scrapes.
const TARGET: [&str; 2] = ["job", "instance"];
/// Labels of what Prometheus tells of alerts.
const ALERT: [&str; 5] = ["alertname", "alertstate", "severity", "job", "instance"];

/// The values that a label can have; `None` = names that somebody configured.
type Values = Option<&'static [&'static str]>;

/// A series that a query can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Series {
    /// The metric it belongs to; `None` where it is Prometheus's own.
    pub(super) metric: Option<&'static str>,
    pub(super) labels: BTreeMap<&'static str, Values>,
}

/// Every name that a query may use.
pub(super) fn series() -> BTreeMap<String, Series> {
    let ours = catalogue().flat_map(of_metric);
    let theirs = [("up", &TARGET[..]), ("ALERTS", &ALERT)].map(|(name, labels)| {
        let labels = labels.iter().map(|label| (*label, None)).collect();
        (name.to_owned(), Series { metric: None, labels })
    });
    ours.chain(theirs).collect()
}

fn of_metric(metric: &'static Metric) -> Vec<(String, Series)> {
    let target = TARGET.map(|label| (label, None));
    let labels: BTreeMap<_, _> = target.into_iter().chain(own_labels(metric.labels)).collect();
    let name = metric.name;
    let of = |labels| Series { metric: Some(name), labels };
    match metric.kind {
        MetricKind::Counter | MetricKind::Gauge => vec![(name.to_owned(), of(labels))],
        MetricKind::Histogram(_) => {
            let mut of_buckets = labels.clone();
            of_buckets.insert("le", None);
            vec![
                (format!("{name}_bucket"), of(of_buckets)),
                (format!("{name}_sum"), of(labels.clone())),
                (format!("{name}_count"), of(labels)),
            ]
        }
    }
}

fn own_labels(labels: MetricLabels) -> Vec<(&'static str, Values)> {
    match labels {
        MetricLabels::Closed(sets) => {
            sets.iter().map(|(label, words)| (*label, Some(*words))).collect()
        }
        MetricLabels::Lane => vec![(key::LANE, None)],
        MetricLabels::Tenant => vec![(key::TENANT, None)],
        MetricLabels::Session => vec![(key::TRANSPORT, Some(&Transport::WORDS))],
        MetricLabels::Report => {
            vec![(key::REPORTED_TOOL, None), (key::RESULT, Some(&["passed", "failed"]))]
        }
        MetricLabels::Operation => vec![
            (key::METHOD, Some(&METHODS)),
            (key::TOOL, None),
            (key::CLASS, Some(&CallClass::WORDS)),
            (key::ERROR, Some(&ErrorType::WORDS)),
        ],
    }
}
