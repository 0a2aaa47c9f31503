use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use shellyard::ids::{JobNumber, TenantId};
use shellyard::journal::{
    Durability, FreedNote, Journal, JournalError, JournalHealth, JournalState, Record, StoredJson,
};

use crate::store::SmallDisk;

fn freed(number: u64) -> Record {
    let why = StoredJson::new(&"x".repeat(2000)).unwrap();
    Record::Freed(FreedNote {
        job: JobNumber::new(number).for_tenant(TenantId::LOCAL),
        at_ms: 1,
        why,
    })
}

/// Writes to a file until the disk is full.
fn fill(path: &Path) {
    let file = fs::File::create(path).unwrap();
    let mut size = 0;
    for piece in [1 << 20, 4096, 1] {
        while let Ok(count @ 1..) = file.write_at(&vec![1; piece], size) {
            size += count as u64;
        }
    }
}

async fn wait_for(journal: &Journal, expected: impl Fn(&JournalHealth) -> bool) {
    let mut health = journal.health();
    let found = tokio::time::timeout(Duration::from_secs(30), health.wait_for(expected)).await;
    assert!(matches!(found, Ok(Ok(_))), "{:?}", *journal.health().borrow());
}

#[tokio::test]
async fn a_full_disk_uses_up_the_reserve_and_then_degrades_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let _disk = SmallDisk::over(dir.path().to_owned(), "size=64m");
    let path = dir.path().join("journal");
    let (journal, _) = Journal::open(&path, Durability::Os).unwrap();
    journal.append(&freed(1)).written().await.unwrap();
    let reserve = path.join("reserve");
    for _ in 0..200 {
        if reserve.exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let ballast = dir.path().join("ballast");
    fill(&ballast);
    // The reserve makes room for some records.
    let mut number = 2;
    let error = loop {
        match journal.append(&freed(number)).written().await {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
        if number == 20 {
            wait_for(&journal, |health| *health == JournalHealth::LowSpace).await;
            assert!(!reserve.exists());
            fill(&dir.path().join("more"));
        }
    };
    assert!(number >= 20, "{number}");
    assert!(matches!(error, JournalError::Degraded { is_kept: true, .. }), "{error:?}");
    wait_for(&journal, |health| matches!(health, JournalHealth::Degraded { .. })).await;
    let while_degraded = journal.append(&freed(number + 1)).written().await;
    assert!(while_degraded.is_err());
    // With room, the journal writes what it kept, and has its reserve again.
    fs::remove_file(&ballast).unwrap();
    wait_for(&journal, |health| *health == JournalHealth::Healthy).await;
    assert!(reserve.exists());
    assert!(journal.close(Duration::from_secs(240)));
    let (_, state) = Journal::open(&path, Durability::Os).unwrap();
    assert_eq!(state, JournalState::replay((1..=number + 1).map(freed)));
}
