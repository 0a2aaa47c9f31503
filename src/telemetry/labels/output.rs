//! What jobs write.

use super::words::words;

/// Values of [`key::STREAM`](super::key::STREAM).
pub(in crate::telemetry) const STREAMS: [&str; 2] = ["stdout", "stderr"];

/// Why bytes that a job wrote could not be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The disk, or a limit on files, has no room.
    DiskFull,
    /// The file could not be made or written.
    IoError,
    /// All logs together are at their cap.
    StoreFull,
    /// The tenant's logs are at the cap that every tenant has.
    TenantFull,
    /// The tenant's logs are at the cap that is this tenant's own.
    OwnFull,
    /// It was kept, and somebody else cut it off its file.
    Cut,
}

impl DropReason {
    /// The label value, and the word for it on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::DiskFull => "disk_full",
            Self::IoError => "io_error",
            Self::StoreFull => "store_full",
            Self::TenantFull | Self::OwnFull => "tenant_full",
            Self::Cut => "cut",
        }
    }

    /// Every word that [`DropReason::word`] can give.
    pub const WORDS: [&'static str; 5] =
        ["disk_full", "io_error", "store_full", "tenant_full", "cut"];
}

words! {
    /// Why a finished job was freed.
    pub enum FreedReason {
        /// It had ended too long ago.
        Age = "age",
        /// Finished jobs stored too much.
        Bytes = "bytes",
        /// Too many had finished.
        Count = "count",
        /// Room was needed for what jobs write now.
        Room = "room",
    }
}

words! {
    /// Where output is held.
    pub enum Tier {
        /// In the server's memory.
        Memory = "memory",
        /// In a spill file, as it was written.
        Disk = "disk",
        /// In a file, compressed.
        Compressed = "compressed",
    }
}

words! {
    /// What was tried with a file that holds output.
    pub enum SpillOperation {
        /// It was to be made.
        Create = "create",
        /// Output was to be written to it.
        Write = "write",
        /// Output was to be read from it.
        Read = "read",
        /// It was to be compressed.
        Compress = "compress",
        /// It was to be removed.
        Remove = "remove",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Stream;

    #[test]
    fn the_lists_hold_exactly_the_words() {
        let drops = [
            DropReason::DiskFull,
            DropReason::IoError,
            DropReason::StoreFull,
            DropReason::TenantFull,
            DropReason::Cut,
        ];
        assert_eq!(drops.map(DropReason::word), DropReason::WORDS);
        assert_eq!(DropReason::OwnFull.word(), DropReason::TenantFull.word());
        assert_eq!([Stream::Stdout, Stream::Stderr].map(Stream::name), STREAMS);
    }
}
