//! Every stored byte is counted in the tier that it is in, and in none once it is gone.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::shared::Shared;
use super::{
    Keep, LogBounds, LogReader, LogSettings, LogWriter, Quota, QuotaLimits, SpillDir, open_bounded,
};
use crate::Stream;
use crate::counters::{Counters, Tier};

/// What becomes of a log.
#[derive(Debug, Clone)]
enum Deed {
    Write(usize),
    /// So many runs that some of them move to a file.
    Chatter,
    /// Nothing more is written, and what is in a file is compressed.
    Compress,
    Free,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (1..6_000_usize).prop_map(Deed::Write),
        1 => Just(Deed::Chatter),
        2 => Just(Deed::Compress),
        2 => Just(Deed::Free),
    ]
}

struct Log {
    writer: LogWriter,
    reader: LogReader,
}

impl Log {
    fn new(quota: &Arc<Quota>, keep: Keep, spill_dir: &Path) -> Self {
        let settings = LogSettings { memory_bytes: 2_000, spill_dir: spill_dir.to_owned().into() };
        let bounds = LogBounds { keep, allowance: quota.allowance("tiers") };
        let (writer, reader) = open_bounded(&settings, bounds);
        Self { writer, reader }
    }

    fn write(&mut self, bytes: usize) {
        self.writer.append(Stream::Stdout, &vec![b'x'; bytes]);
    }

    fn chatter(&mut self) {
        for number in 0..1_500 {
            let stream = if number % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
            self.writer.append(stream, b"y");
        }
    }

    fn compress(&mut self) {
        self.writer.close();
        for part in self.reader.parts().all() {
            let Some(raw) = part.spilled() else { continue };
            let file = SpillDir::new(std::env::temp_dir(), Arc::default()).create_file().unwrap();
            if let Some(packed) = raw.pack(file, &Arc::default(), || true).unwrap() {
                part.replace_spilled(raw.bytes, packed);
            }
        }
    }
}

/// What a part holds, where its store is; the rest is its index, on the disk.
fn held(part: &Shared) -> [u64; 3] {
    let stored = part.stored_bytes();
    let inner = part.lock();
    let (tier, held) = (inner.store.tier(), Tier::ALL.map(|tier| inner.charge.held().of(tier)));
    for (found, bytes) in Tier::ALL.into_iter().zip(held) {
        match (found == tier, found) {
            (true, Tier::Disk) => assert!(bytes >= stored, "{held:?}"),
            (true, Tier::Memory | Tier::Compressed) => assert_eq!(bytes, stored, "{held:?}"),
            (false, Tier::Disk) => {}
            (false, Tier::Memory | Tier::Compressed) => assert_eq!(bytes, 0, "{held:?}"),
        }
    }
    held
}

/// The bytes of each tier, as they were counted.
fn counted(counters: &Counters) -> [u64; 3] {
    counters.stored().map(|(_, bytes)| bytes)
}

fn sum_of(logs: &[Log]) -> [u64; 3] {
    let parts = logs.iter().flat_map(|log| log.reader.parts().all());
    parts.fold([0; 3], |sum, part| {
        let held = held(&part);
        [0, 1, 2].map(|tier| sum[tier] + held[tier])
    })
}

/// Three logs: one whole, one that keeps its ends, one that cannot spill.
fn logs(quota: &Arc<Quota>, dir: &Path) -> [Log; 3] {
    let blocked = dir.join("file");
    fs::write(&blocked, "").unwrap();
    [(Keep::All, dir), (Keep::Ends(8_000), dir), (Keep::All, &*blocked)]
        .map(|(keep, dir)| Log::new(quota, keep, dir))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn tiers_add_up_to_what_is_stored_and_end_at_zero(
        deeds in prop::collection::vec((0..3_usize, deed()), 0..40),
        cap in 10_000..200_000_u64,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (store_bytes, tenants) = (cap, [].into());
        let limits = QuotaLimits { store_bytes, tenant_bytes: cap, tenants };
        let counters = Arc::new(Counters::default());
        let quota = Quota::new(limits, 1 << 20, Arc::clone(&counters));
        let mut all = Vec::from(logs(&quota, dir.path()));
        for (which, deed) in deeds {
            match deed {
                Deed::Write(bytes) => all[which].write(bytes),
                Deed::Chatter => all[which].chatter(),
                Deed::Compress => all[which].compress(),
                Deed::Free => {
                    all[which] = logs(&quota, dir.path()).into_iter().nth(which).unwrap();
                }
            }
            assert_eq!(counted(&counters), sum_of(&all));
        }
        all.clear();
        assert_eq!((counted(&counters), quota.used()), ([0; 3], 0));
    }
}
