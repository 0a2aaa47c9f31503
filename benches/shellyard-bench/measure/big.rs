//! M: whether a start costs more where the server is big.

use super::latency::echo;
use crate::bench::{Bench, UNCOMPRESSED};
use crate::client::{Call, HttpClient};
use crate::report::{Goal, Measured, Row};
use crate::stats::{block, median};

/// Memory for the output of one job: the most that the settings allow.
const EACH_MIB: usize = 64;

/// `echo hi` with a server that keeps the output of finished jobs in memory, lots of it, beside one
/// that has none.
pub(crate) fn measure(bench: &Bench) -> Measured {
    let memory = format!("{EACH_MIB} MiB");
    // A durable server writes output to files from the first byte.
    let settings = [UNCOMPRESSED, ("output_memory", &memory), ("server_durability", "off")];
    let (small, big) = (bench.http(&settings), bench.http(&settings));
    let (mut beside, mut client) = (small.client(), big.client());
    fill(&mut client, bench.scale.held_mib);
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds {
        floor.extend(block(bench.scale.block, || echo(&mut beside)));
        ours.extend(block(bench.scale.block, || echo(&mut client)));
    }
    let [big, small] = [&big, &small].map(|server| server.usage().rss_kb() / 1e3);
    assert!(big - small > 0.9 * bench.scale.held_mib as f64, "it is in memory: {big} MB");
    let what = format!("`echo hi` at {big:.0} MB of server memory beside {small:.0}, p50");
    // As fast, but for the noise of two servers on one machine.
    vec![Row::new(what, "ms", median(&ours)).beside(median(&floor)).goal(Goal::RatioAtMost(1.1))]
        .into()
}

fn fill(client: &mut HttpClient, mib: usize) {
    for _ in 0..mib.div_ceil(EACH_MIB) {
        let bytes = mib.min(EACH_MIB) << 20;
        let command = format!("head -c {bytes} /dev/zero | tr '\\0' x");
        let arguments = serde_json::json!({"command": command, "wait_s": 45});
        let answer = client.call(&Call::new("run_command", &arguments));
        let is_done = memchr::memmem::find(&answer, b"exit 0").is_some();
        assert!(is_done, "{}", String::from_utf8_lossy(&answer));
    }
}
