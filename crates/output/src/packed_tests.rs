//! Compressed logs against their raw bytes.

use proptest::prelude::*;

use super::super::{LogReader, LogSettings, Packer, PageEnd, PageRequest, SpillDir, open};
use super::*;
use crate::Stream;

/// Text that compresses, with lines of many lengths.
fn text(bytes: usize) -> Vec<u8> {
    let lines = (0..)
        .map(|number: u64| format!("line {number} {}\n", "ab€".repeat((number * 7 % 23) as usize)));
    let mut text: Vec<u8> = lines
        .scan(0, |sum, line| {
            let before = *sum;
            *sum += line.len();
            (before < bytes).then_some(line)
        })
        .flat_map(String::into_bytes)
        .collect();
    text.truncate(bytes);
    text
}

/// Bytes that do not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

fn new_file() -> SpillFile {
    SpillDir::new(std::env::temp_dir(), Arc::default()).create_file().unwrap()
}

fn raw(bytes: &[u8]) -> Raw {
    let file = new_file();
    file.open().unwrap().write_all_at(bytes, 0).unwrap();
    Raw { file: Arc::new(file), bytes: bytes.len() as u64 }
}

fn pack(bytes: &[u8]) -> Option<Packed> {
    raw(bytes).pack(new_file(), &Arc::default(), || true).unwrap()
}

/// A closed log in a spill file, both streams taking turns.
fn closed_log(bytes: &[u8], dir: &std::path::Path) -> LogReader {
    let (mut writer, reader) =
        open(&LogSettings { memory_bytes: 1000, spill_dir: dir.to_owned().into() });
    for (number, part) in bytes.chunks(7001).enumerate() {
        let stream = if number % 3 == 0 { Stream::Stderr } else { Stream::Stdout };
        writer.append(stream, part);
    }
    reader
}

/// Everything that a reader can learn of a log.
fn everything(reader: &LogReader) -> Vec<(Vec<u8>, u64)> {
    let mut seen = Vec::new();
    for stream in [None, Some(Stream::Stdout), Some(Stream::Stderr)] {
        let mut from = 0;
        loop {
            let request = PageRequest { from, stream, max_bytes: 50_000, max_lines: 0 };
            let page = reader.blocking().page(&request).unwrap();
            let is_last = page.end_kind == PageEnd::Complete;
            from = page.end;
            seen.push((page.bytes, page.end));
            if is_last {
                break;
            }
        }
        seen.push((Vec::new(), reader.blocking().tail_start(stream, 10_000, 20).unwrap()));
    }
    for line in (1..reader.progress().lines).step_by(997) {
        let offset = reader.blocking().offset_of_line(line).unwrap().unwrap();
        assert_eq!(reader.blocking().line_at(offset).unwrap(), line);
        seen.push((Vec::new(), offset));
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_range_reads_as_it_did_raw(
        length in 1..700_000_usize,
        ranges in prop::collection::vec((any::<prop::sample::Index>(), 0..300_000_usize), 1..20),
    ) {
        let bytes = text(length);
        let Some(packed) = pack(&bytes) else {
            // Only what is too short to gain anything stays raw.
            prop_assert!(length < 100);
            return Ok(());
        };
        for (start, wanted) in ranges {
            let start = start.index(length);
            let mut buffer = vec![0; wanted.min(length - start)];
            packed.read_at(start as u64, &mut buffer).unwrap();
            prop_assert!(buffer == bytes[start..start + buffer.len()], "{} + {}", start, wanted);
        }
        let beyond = packed.read_at(length as u64 - 1, &mut [0; 2]).unwrap_err();
        prop_assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn the_file_is_plain_zstd_from_its_start_to_its_end() {
    let bytes = text(1_000_000);
    let packed = pack(&bytes).unwrap();
    let mut stored = vec![0; packed.stored_bytes() as usize];
    packed.read_stored_at(0, &mut stored).unwrap();
    assert_eq!(packed.file.length().unwrap(), stored.len() as u64);
    assert!(stored.len() * 3 < bytes.len(), "{}", stored.len());
    assert!(zstd::decode_all(stored.as_slice()).unwrap() == bytes);
}

#[test]
fn what_does_not_get_smaller_stays_raw() {
    assert!(pack(&noise(1_000_000)).is_none());
    let mixed = [text(100_000), noise(3_000_000)].concat();
    assert!(pack(&mixed).is_none());
    assert!(pack(b"").is_none());
}

#[test]
fn what_is_no_longer_wanted_is_left() {
    let asked = std::cell::Cell::new(0);
    let wanted = || {
        asked.set(asked.get() + 1);
        asked.get() < 3
    };
    assert!(raw(&text(2_000_000)).pack(new_file(), &Arc::default(), wanted).unwrap().is_none());
    assert_eq!(asked.get(), 3);
}

#[test]
fn a_changed_byte_on_the_disk_is_an_error_and_never_another_log() {
    let packed = pack(&text(500_000)).unwrap();
    let middle = packed.ends[0] + (packed.ends[1] - packed.ends[0]) / 2;
    let mut byte = [0];
    packed.read_stored_at(middle, &mut byte).unwrap();
    packed.file.open().unwrap().write_all_at(&[byte[0] ^ 0x40], middle).unwrap();
    let mut buffer = [0; 10];
    assert!(packed.read_at(FRAME_BYTES, &mut buffer).is_err());
    packed.read_at(0, &mut buffer).unwrap();
    packed.file.open().unwrap().set_len(middle).unwrap();
    assert!(packed.read_at(3 * FRAME_BYTES, &mut buffer).is_err());
}

#[test]
fn frames_grow_with_the_log_so_that_their_table_does_not() {
    for (raw, frame) in [(0, 128), (8 << 30, 128), (10 << 30, 256), (64 << 30, 1024)] {
        assert_eq!(frame_bytes(raw), Some(frame * 1024), "{raw}");
    }
    assert_eq!(frame_bytes((64 << 30) + 1), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_reads_the_same_before_during_and_after() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = text(2_000_000);
    let reader = closed_log(&bytes, dir.path());
    let before = everything(&reader);
    let packer = Packer::new(1_000_000, SpillDir::new(dir.path(), Arc::default()));
    let packing = packer.consider(&reader).expect("large enough");
    let others: Vec<_> = (0..3)
        .map(|_| {
            let (reader, before) = (reader.clone(), before.clone());
            tokio::task::spawn_blocking(move || {
                let mut rounds_after = 0;
                while rounds_after < 2 {
                    rounds_after += usize::from(reader.packed().is_some());
                    assert!(everything(&reader) == before);
                }
            })
        })
        .collect();
    packing.run().await;
    assert!(reader.stored_bytes() * 3 < bytes.len() as u64, "{}", reader.stored_bytes());
    for other in others {
        other.await.unwrap();
    }
    assert!(everything(&reader) == before);
    assert!(packer.consider(&reader).is_none(), "nothing is left to do");
}

#[tokio::test]
async fn only_large_closed_spills_are_considered_and_a_freed_log_is_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let settings = LogSettings { memory_bytes: 1000, spill_dir: dir.path().to_owned().into() };
    let packer = Packer::new(100_000, SpillDir::new(dir.path(), Arc::default()));
    let (mut writer, reader) = open(&settings);
    writer.append(Stream::Stdout, &text(200_000));
    assert!(packer.consider(&reader).is_none(), "still open");
    writer.close();
    let packing = packer.consider(&reader).expect("closed and large");
    assert!(packer.consider(&closed_log(&text(90_000), dir.path())).is_none(), "small");
    let log = Arc::downgrade(&reader.parts().all()[0]);
    drop((writer, reader));
    assert_eq!(log.strong_count(), 0, "waiting for its turn holds nothing");
    packing.run().await;
}

#[tokio::test]
async fn a_log_stays_readable_where_there_is_no_room_for_a_compressed_one() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = text(300_000);
    let reader = closed_log(&bytes, dir.path());
    // A file stands where the directory should be.
    let blocked = dir.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    Packer::new(1, SpillDir::new(blocked, Arc::default()))
        .consider(&reader)
        .expect("large enough")
        .run()
        .await;
    assert!(reader.packed().is_none());
    assert!(reader.blocking().read(0..bytes.len() as u64).unwrap() == bytes);
}
