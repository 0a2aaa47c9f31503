//! How fast the policy decides. Reading alone: nothing is run, so there is no floor.

use std::hint::black_box;
use std::time::Instant;

use shellyard::policy::rules::patterns;
use shellyard::policy::{Call, Decision, Policy, Request, decide};

use crate::report::{Row, median};

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

/// Decisions per second on ordinary lines, and the time that hostile text takes.
pub(crate) fn measure(rounds: usize, decisions: usize) -> Vec<Row> {
    let policy = Policy {
        deny: patterns("policy.deny", ["rm -rf", "sudo", "curl", "dd"]).expect("good rules"),
        ..Policy::default()
    };
    let rates = (0..rounds).map(|_| rate(&policy, decisions)).collect();
    let nested = "$(".repeat(1 << 19);
    let times = (0..rounds).map(|_| refusal_ms(&policy, &nested)).collect();
    vec![
        Row {
            what: "policy: ordinary lines".into(),
            unit: "1/s",
            ours: median(rates),
            floor: None,
        },
        Row { what: "policy: 1 MB of `$(`".into(), unit: "ms", ours: median(times), floor: None },
    ]
}

fn rate(policy: &Policy, decisions: usize) -> f64 {
    let started = Instant::now();
    for text in ORDINARY.iter().cycle().take(decisions) {
        black_box(decide(policy, &request(black_box(text))));
    }
    decisions as f64 / started.elapsed().as_secs_f64()
}

fn refusal_ms(policy: &Policy, text: &str) -> f64 {
    let started = Instant::now();
    let decision = decide(policy, &request(text));
    assert!(matches!(decision, Decision::Deny(_)), "hostile text was let pass");
    started.elapsed().as_secs_f64() * 1000.0
}

const fn request(text: &str) -> Request<'_> {
    Request {
        call: Call::Shell(text),
        environment: &[],
        cwd: "/srv",
        writable: &[],
        tenant: "local",
        lane: "default",
        shell: None,
    }
}
