//! `docs/metrics.md` is made from the names, and held to them.

use std::fmt::Write;
use std::path::Path;

use super::catalogue::FAMILIES;
use super::metric::{Kind, Labels, Metric};

const HEAD: &str = "\
# Metrics

Everything that `/metrics` tells, made from `src/telemetry/names/`. Label values come from closed sets: words of the
program, listed here, or names of configured lanes and tenants, 200 of each at the most, with everybody else as `other`.
However many jobs run, no further series appear. All series are there from the start, at zero.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for family in FAMILIES {
        write!(
            page,
            "\n## {}\n\n| metric | type | labels | tells |\n|---|---|---|---|\n",
            family.title
        )
        .unwrap();
        for (metric, kind) in family.metrics() {
            let Metric { name, help, .. } = metric;
            writeln!(page, "| `{name}` | {} | {} | {help} |", kind_of(kind), labels(metric.labels))
                .unwrap();
        }
    }
    page
}

fn kind_of(kind: Kind) -> String {
    match kind {
        Kind::Counter | Kind::Gauge => kind.word().to_owned(),
        Kind::Histogram(buckets) => {
            let [first, .., last] = buckets else { panic!("too few buckets") };
            format!("histogram, {} buckets from {first} to {last}", buckets.len())
        }
    }
}

fn labels(labels: Labels) -> String {
    match labels {
        Labels::Closed(labels) => {
            let one = |(key, values): &(&str, &[&str])| match values {
                [_] => format!("`{key}`"),
                _ => format!("`{key}`: {}", values.join(", ")),
            };
            labels.iter().map(one).collect::<Vec<_>>().join("; ")
        }
        Labels::Lane => "`lane`".to_owned(),
        Labels::Tenant => "`tenant`".to_owned(),
        Labels::Operation => {
            "`mcp_method_name`, `gen_ai_tool_name`, `class`: run, long_poll, ordinary; \
            `error_type`: tool_error, _OTHER, absent on success"
                .to_owned()
        }
    }
}

#[test]
fn the_page_is_what_the_names_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kept = std::fs::read_to_string(root.join("docs/metrics.md")).unwrap_or_default();
    let made = page();
    if kept != made {
        std::fs::create_dir_all(root.join("target")).unwrap();
        std::fs::write(root.join("target/metrics.md"), made).unwrap();
        panic!("docs/metrics.md is out of date: cp target/metrics.md docs/metrics.md");
    }
}
