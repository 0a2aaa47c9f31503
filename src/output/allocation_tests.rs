//! What it costs in memory to keep output.

use super::{Allowance, Keep, LogBounds, LogReader, LogSettings, LogWriter, open, open_bounded};
use crate::allocation_tests::allocated;
use crate::spec::Stream;

const BLOCK: usize = 64 * 1024;

fn log(memory_bytes: usize) -> (LogWriter, LogReader, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let settings = LogSettings { memory_bytes, spill_dir: folder.path().to_owned().into() };
    let (writer, reader) = open(&settings);
    (writer, reader, folder)
}

/// How often memory is taken to keep a hundred blocks of this, once the log is in a file.
fn times_of_a_flood(line: &[u8]) -> usize {
    let (mut writer, reader, _folder) = log(BLOCK);
    let block = line.repeat(BLOCK / line.len());
    writer.append(Stream::Stdout, &block);
    writer.append(Stream::Stdout, &block);
    let (seen, ()) = allocated(|| {
        for _ in 0..100 {
            writer.append(Stream::Stdout, &block);
        }
    });
    assert_eq!(reader.progress().total_bytes, 102 * BLOCK as u64);
    seen.times
}

#[test]
fn no_line_costs_an_allocation() {
    let of_long_lines = times_of_a_flood(&[b"x".repeat(BLOCK - 1), b"\n".to_vec()].concat());
    let of_empty_lines = times_of_a_flood(b"\n");
    assert_eq!(of_long_lines, of_empty_lines);
    assert!(of_empty_lines < 200, "{of_empty_lines}: of each block only its counts");
}

#[test]
fn bytes_are_not_copied_on_their_way_to_a_file() {
    let (mut writer, _reader, _folder) = log(0);
    let block = vec![b'x'; 16 * BLOCK];
    writer.append(Stream::Stdout, &block);
    let (seen, _) = allocated(|| writer.append(Stream::Stdout, &block));
    assert!(seen.bytes < BLOCK / 8, "{seen:?}");
}

#[test]
fn a_short_output_takes_little_more_than_itself() {
    let folder = tempfile::tempdir().unwrap();
    let settings = LogSettings { memory_bytes: BLOCK, spill_dir: folder.path().to_owned().into() };
    // All logs of a server share one quota. The first of all registers what is counted.
    let bounds = LogBounds { keep: Keep::All, allowance: Allowance::unlimited() };
    open_bounded(&settings, bounds.clone()).0.append(Stream::Stdout, b"hi\n");
    let (seen, _log) = allocated(|| {
        let (mut writer, reader) = open_bounded(&settings, bounds.clone());
        writer.append(Stream::Stdout, b"hi\n");
        writer.close();
        reader
    });
    assert!(seen.bytes < 1536, "{seen:?}");
}
