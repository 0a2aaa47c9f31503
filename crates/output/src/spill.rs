//! Where a log's bytes are: in memory while they are few, then in one spill file, in the end
//! in a compressed one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::packed::Packed;
use super::spill_dir::SpillFile;
use crate::counters::{Counters, DropReason, SpillOperation, Tier};

/// The bytes of one log. Offsets into it are the log's own.
#[derive(Debug)]
pub(super) enum Store {
    /// All bytes, from offset 0.
    Memory(Vec<u8>),
    /// All bytes, from offset 0, none left in memory.
    Spilled(Arc<SpillFile>),
    /// The same in less room, once nothing is added any more.
    Packed(Arc<Packed>),
}

impl Store {
    /// Where that is.
    pub(super) const fn tier(&self) -> Tier {
        match self {
            Self::Memory(_) => Tier::Memory,
            Self::Spilled(_) => Tier::Disk,
            Self::Packed(_) => Tier::Compressed,
        }
    }
}

/// Adds to a memory store without growing its buffer past `limit`, as doubling alone would.
pub(super) fn push_bounded(memory: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let needed = memory.len() + bytes.len();
    if needed > memory.capacity() {
        let capacity = (needed * 2).min(limit).max(needed);
        memory.reserve_exact(capacity - memory.len());
    }
    memory.extend_from_slice(bytes);
}

/// How many bytes were taken, from the first on, and why not all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) bytes: usize,
    pub(super) lost: Option<DropReason>,
}

impl Taken {
    /// All of them.
    pub(super) const fn all(bytes: usize) -> Self {
        Self { bytes, lost: None }
    }

    /// So many, and no more because of this.
    pub(super) const fn only(bytes: usize, why: DropReason) -> Self {
        Self { bytes, lost: Some(why) }
    }
}

/// What an error of the system means for the bytes that were to be written.
pub(super) fn reason(error: &io::Error) -> DropReason {
    let is_full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    );
    if is_full { DropReason::DiskFull } else { DropReason::IoError }
}

/// Writes as much as the file takes: a full disk keeps a prefix.
pub(super) fn write_prefix(file: &File, bytes: &[u8], position: u64, counters: &Counters) -> Taken {
    let failed = |written, error: io::Error| {
        counters.add_spill_error(SpillOperation::Write, &error);
        Taken::only(written, reason(&error))
    };
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], position + written as u64) {
            Ok(0) => return failed(written, io::ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return failed(written, error),
        }
    }
    Taken::all(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_store_never_reserves_more_than_its_limit() {
        let mut memory = Vec::new();
        for _ in 0..100 {
            push_bounded(&mut memory, &[7; 10], 1000);
            assert!(memory.capacity() <= 1000, "{}", memory.capacity());
        }
        assert_eq!(memory, vec![7; 1000]);
    }

    #[test]
    fn what_cannot_be_written_has_a_reason() {
        let counters = Counters::default();
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(
            write_prefix(&full, b"bytes", 0, &counters),
            Taken::only(0, DropReason::DiskFull)
        );
        let unwritable = File::open("/dev/null").unwrap();
        assert_eq!(
            write_prefix(&unwritable, b"bytes", 0, &counters),
            Taken::only(0, DropReason::IoError)
        );
        for (error, expected) in [
            (libc::EDQUOT, DropReason::DiskFull),
            (libc::EFBIG, DropReason::DiskFull),
            (libc::EIO, DropReason::IoError),
            (libc::EROFS, DropReason::IoError),
            (libc::EMFILE, DropReason::IoError),
        ] {
            assert_eq!(reason(&io::Error::from_raw_os_error(error)), expected, "{error}");
        }
    }
}
