//! Benchmarks of policy decisions about a text.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use shellyard::policy::rules::parse_patterns;
use shellyard::policy::{Policy, PolicyDecision, PolicyRequest, RequestedCommand, decide};

/// Lines as agents write them.
const ORDINARY: [&str; 8] = [
    "git status",
    "cargo test --lib policy:: -- --nocapture",
    "cd src && grep -rn \"fn main\" . | head -20",
    "for f in *.rs; do wc -l \"$f\"; done",
    "npm run build 2>&1 | tee build.log",
    "FOO=bar python3 -c 'print(1)' || echo failed",
    "find . -name '*.py' -exec grep -l deprecated {} +",
    "test -f Cargo.toml && cat Cargo.toml | sed -n '1,20p'",
];

/// Ordinary lines, and hostile text.
pub(crate) fn bench(criterion: &mut Criterion) {
    let policy = Policy {
        deny: parse_patterns("policy.deny", ["rm -rf", "sudo", "curl", "dd"]).expect("good rules"),
        ..Policy::default()
    };
    let mut group = criterion.benchmark_group("policy");
    group.throughput(Throughput::Elements(ORDINARY.len() as u64));
    group.bench_function("ordinary lines", |bencher| {
        bencher.iter(|| ORDINARY.map(|text| decide(&policy, &request(black_box(text)))));
    });
    let nested = "$(".repeat(1 << 19);
    group.throughput(Throughput::Bytes(nested.len() as u64));
    group.sample_size(10).bench_function("1 MB of `$(`", |bencher| {
        bencher.iter(|| {
            let decision = decide(&policy, &request(black_box(&nested)));
            assert!(matches!(decision, PolicyDecision::Deny(_)), "hostile text was let pass");
        });
    });
    group.finish();
}

const fn request(text: &str) -> PolicyRequest<'_> {
    PolicyRequest {
        command: RequestedCommand::Shell(text),
        environment: &[],
        tenant: "local",
        lane: "default",
        shell: None,
    }
}
