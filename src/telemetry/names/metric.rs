//! What a metric is.
#![expect(clippy::disallowed_macros, reason = "the one file that counts")]

use metrics::Unit;

/// A label and every value that it can have.
pub type LabelSet = (&'static str, &'static [&'static str]);

/// A label and its value.
pub(in crate::telemetry) type LabelPair = (&'static str, &'static str);

/// Where the values of a metric's labels come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricLabels {
    /// They are words of the program; every combination is there from the start.
    Closed(&'static [LabelSet]),
    /// `lane`: the name of a configured lane, or `other`.
    Lane,
    /// `tenant`: the name of a configured tenant, or `other`.
    Tenant,
    /// Method, class, tool and error of an MCP operation, for the tools that are offered.
    Operation,
}

/// What Prometheus and people are told of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// The name in Prometheus.
    pub name: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// What it does.
    pub kind: MetricKind,
    /// Its labels.
    pub labels: MetricLabels,
}

impl Metric {
    /// The unit that its name ends with.
    #[must_use]
    pub fn unit(&self) -> Unit {
        let base = self.name.trim_end_matches("_total");
        if base.ends_with("_bytes") {
            Unit::Bytes
        } else if base.ends_with("_seconds") {
            Unit::Seconds
        } else {
            Unit::Count
        }
    }
}

/// What a metric does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricKind {
    /// It never goes down.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It sorts values into buckets with these upper bounds.
    Histogram(&'static [f64]),
}

impl MetricKind {
    /// The word for it in Prometheus.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// Something that is counted and never goes down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counter(pub(super) Metric);

/// Something that goes up and down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gauge(pub(super) Metric);

/// Something of which the distribution matters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Histogram(pub(super) Metric);

impl Counter {
    /// What is known of it.
    #[must_use]
    pub const fn metric(&self) -> &Metric {
        &self.0
    }

    /// Its one series.
    pub(in crate::telemetry) fn unlabeled(&self) -> metrics::Counter {
        metrics::counter!(self.0.name)
    }

    /// Its series with this label.
    pub(in crate::telemetry) fn with_label(&self, label: LabelPair) -> metrics::Counter {
        metrics::counter!(self.0.name, &[label])
    }

    /// Its series with these labels.
    pub(in crate::telemetry) fn with_labels(&self, labels: &[LabelPair]) -> metrics::Counter {
        metrics::counter!(self.0.name, labels)
    }

    /// Its series of one lane or tenant.
    pub(in crate::telemetry) fn with_name(
        &self,
        key: &'static str,
        name: &str,
    ) -> metrics::Counter {
        metrics::counter!(self.0.name, key => name.to_owned())
    }
}

impl Gauge {
    /// What is known of it.
    #[must_use]
    pub const fn metric(&self) -> &Metric {
        &self.0
    }

    /// Its one series.
    pub(in crate::telemetry) fn unlabeled(&self) -> metrics::Gauge {
        metrics::gauge!(self.0.name)
    }

    /// Its series with this label.
    pub(in crate::telemetry) fn with_label(&self, label: LabelPair) -> metrics::Gauge {
        metrics::gauge!(self.0.name, &[label])
    }

    /// Its series of one lane or tenant.
    pub(in crate::telemetry) fn with_name(&self, key: &'static str, name: &str) -> metrics::Gauge {
        metrics::gauge!(self.0.name, key => name.to_owned())
    }

    /// Sets its one series to a count.
    pub(in crate::telemetry) fn set_count(&self, count: usize) {
        self.unlabeled().set(count as f64);
    }

    /// Sets its one series to 1 or 0.
    pub(in crate::telemetry) fn set_flag(&self, holds: bool) {
        self.unlabeled().set(f64::from(u8::from(holds)));
    }
}

impl Histogram {
    /// What is known of it.
    #[must_use]
    pub const fn metric(&self) -> &Metric {
        &self.0
    }

    /// Its one series.
    pub(in crate::telemetry) fn unlabeled(&self) -> metrics::Histogram {
        metrics::histogram!(self.0.name)
    }

    /// Its series with these labels.
    pub(in crate::telemetry) fn with_labels(&self, labels: &[LabelPair]) -> metrics::Histogram {
        metrics::histogram!(self.0.name, labels)
    }
}

/// Steps of 1, 2.5 and 5: coarser ones make quantiles lie.
pub(super) const SECONDS: [f64; 25] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0,
    100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 25_000.0, 50_000.0, 100_000.0,
];

/// From 1 KiB to 64 GiB, in steps of 4.
pub(super) const BYTES: [f64; 14] = [
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
    268_435_456.0,
    1_073_741_824.0,
    4_294_967_296.0,
    17_179_869_184.0,
    68_719_476_736.0,
];

/// The buckets that OpenTelemetry's conventions for MCP advise.
pub(super) const OPERATION_SECONDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
