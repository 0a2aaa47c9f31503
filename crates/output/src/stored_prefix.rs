//! Writes that may take only a part of their bytes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::counters::{Counters, DropReason, SpillOperation};

/// The number of bytes that were stored, from the first on, and the reason why the others were not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredPrefix {
    pub(crate) bytes: usize,
    pub(crate) lost: Option<DropReason>,
}

impl StoredPrefix {
    pub(crate) const fn all(bytes: usize) -> Self {
        Self { bytes, lost: None }
    }

    pub(crate) const fn partial(bytes: usize, why: DropReason) -> Self {
        Self { bytes, lost: Some(why) }
    }
}

/// Classifies an I/O error by its meaning for the bytes that were to be written.
pub(crate) fn drop_reason(error: &io::Error) -> DropReason {
    let is_full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    );
    if is_full { DropReason::DiskFull } else { DropReason::IoError }
}

/// Writes as much as the file takes: on a full disk, a prefix.
pub(crate) fn write_prefix(
    file: &File,
    bytes: &[u8],
    position: u64,
    counters: &Counters,
) -> StoredPrefix {
    let failed = |written, error: io::Error| {
        counters.add_spill_error(SpillOperation::Write, &error);
        StoredPrefix::partial(written, drop_reason(&error))
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
    StoredPrefix::all(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_write_error_has_a_drop_reason() {
        let counters = Counters::default();
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(
            write_prefix(&full, b"bytes", 0, &counters),
            StoredPrefix::partial(0, DropReason::DiskFull)
        );
        let unwritable = File::open("/dev/null").unwrap();
        assert_eq!(
            write_prefix(&unwritable, b"bytes", 0, &counters),
            StoredPrefix::partial(0, DropReason::IoError)
        );
        for (error, expected) in [
            (libc::EDQUOT, DropReason::DiskFull),
            (libc::EFBIG, DropReason::DiskFull),
            (libc::EIO, DropReason::IoError),
            (libc::EROFS, DropReason::IoError),
            (libc::EMFILE, DropReason::IoError),
        ] {
            assert_eq!(drop_reason(&io::Error::from_raw_os_error(error)), expected, "{error}");
        }
    }
}
