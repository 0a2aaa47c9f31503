//! All metrics together.

use super::metric::{Counter, Gauge, Histogram, Kind, Metric};
use super::{actors, http, jobs, lanes, mcp, output, process, queue, tenants};

/// Metrics that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// What they are about.
    pub title: &'static str,
    /// Those that never go down.
    pub counters: &'static [Counter],
    /// Those that go up and down.
    pub gauges: &'static [Gauge],
    /// Those that sort values into buckets.
    pub histograms: &'static [Histogram],
}

/// Every family.
pub(in crate::telemetry) const FAMILIES: [Family; 9] = [
    jobs::FAMILY,
    queue::FAMILY,
    lanes::FAMILY,
    tenants::FAMILY,
    output::FAMILY,
    mcp::FAMILY,
    http::FAMILY,
    actors::FAMILY,
    process::FAMILY,
];

impl Family {
    /// Each with its kind.
    pub fn metrics(&self) -> impl Iterator<Item = (&'static Metric, Kind)> {
        let counters = self.counters.iter().map(|counter| (counter.metric(), Kind::Counter));
        let gauges = self.gauges.iter().map(|gauge| (gauge.metric(), Kind::Gauge));
        let histograms = self
            .histograms
            .iter()
            .map(|histogram| (histogram.metric(), Kind::Histogram(histogram.buckets())));
        counters.chain(gauges).chain(histograms)
    }
}

/// Every metric with its kind.
pub fn catalogue() -> impl Iterator<Item = (&'static Metric, Kind)> {
    FAMILIES.iter().flat_map(Family::metrics)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use metrics::Unit;

    use super::*;

    /// Names that are not ours.
    const FOREIGN: [&str; 2] = ["process_", "mcp_server_"];

    #[test]
    fn names_have_the_prefix_the_unit_and_total_where_it_belongs() {
        for (metric, kind) in catalogue() {
            let name = metric.name;
            let is_foreign = FOREIGN.iter().any(|prefix| name.starts_with(prefix));
            assert!(is_foreign || name.starts_with("shellyard_"), "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
            let base = name.trim_end_matches("_total");
            for (unit, ending) in [(Unit::Bytes, "_bytes"), (Unit::Seconds, "_seconds")] {
                assert_eq!(metric.unit == unit, base.ends_with(ending), "{name}");
            }
            assert!(metric.help.ends_with('.') && metric.help.len() < 130, "{name}");
        }
    }

    #[test]
    fn no_name_is_there_twice() {
        let mut seen = HashSet::new();
        for (metric, _) in catalogue() {
            assert!(seen.insert(metric.name), "{}", metric.name);
        }
    }

    #[test]
    fn buckets_rise() {
        for histogram in FAMILIES.iter().flat_map(|family| family.histograms) {
            let rise = |pair: &[f64]| pair[0] < pair[1];
            assert!(histogram.buckets().windows(2).all(rise), "{histogram:?}");
        }
    }

    #[test]
    fn every_limit_stands_beside_its_use() {
        let names: HashSet<&str> = catalogue().map(|(metric, _)| metric.name).collect();
        for limit in names.iter().filter(|name| name.contains("_limit")) {
            let used = limit.replace("_limit", "");
            assert!(names.contains(&*used), "{limit} bounds nothing that is measured");
        }
    }
}
