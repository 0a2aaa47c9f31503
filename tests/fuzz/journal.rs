//! The journal, as the next server reads it.

use flate2::Crc;
use shellyard::journal::replay_bytes;

use super::mutation::{Plan, Seeds};

/// The length of the checksum and the space after it.
const PREFIX: usize = 9;

/// Writes the true checksum before each line, so that what is behind it is read.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut repaired = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let json = line.get(PREFIX..).unwrap_or_default();
        let json = json.strip_suffix(b"\n").unwrap_or(json);
        let mut crc = Crc::new();
        crc.update(json);
        repaired.extend_from_slice(format!("{:08x} ", crc.sum()).as_bytes());
        repaired.extend_from_slice(json);
        repaired.push(b'\n');
    }
    repaired
}

fn check(bytes: &[u8]) {
    let report = replay_bytes(bytes);
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert!(report.records + report.damaged + report.unknown <= lines + 1, "{report:?}");
    assert!(report.torn_bytes <= bytes.len() as u64, "{report:?}");
    assert!(report.unfinished + report.finished <= report.records, "{report:?}");
}

#[test]
fn any_bytes_are_read_as_a_journal() {
    let seeds = Seeds::load("journal");
    for seed in seeds.iter() {
        check(seed);
        assert_eq!(with_checksums(seed), seed, "a seed has true checksums");
        assert_eq!(replay_bytes(seed).damaged, 0, "a seed is sound");
    }
    bolero::check!().with_iterations(6_000).for_each(|plan: &[u8]| {
        let mut plan = Plan::new(plan);
        let is_repaired = plan.byte().is_multiple_of(2);
        let bytes = seeds.mutate(&mut plan);
        check(&if is_repaired { with_checksums(&bytes) } else { bytes });
    });
}
