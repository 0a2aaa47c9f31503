//! The table of the frames of a compressed log, at the end of its file: the seek table of the zstd
//! seekable format, in a frame that decoders skip.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The first bytes of the skipped frame, and its last bytes.
const SKIPPED_FRAME: u32 = 0x184D_2A5E;
const SEEKABLE: u32 = 0x8F92_EAB1;
/// Magic number and length before the entries; count, flags and magic number after them.
const HEADER_BYTES: usize = 8;
const FOOTER_BYTES: usize = 9;
/// Two numbers for each frame: its bytes in the file and in the log.
const ENTRY_BYTES: usize = 8;

/// The frames of one compressed log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FrameTable {
    /// Uncompressed bytes of every frame but the last.
    pub(crate) frame_bytes: u64,
    /// The end of each frame in the file.
    pub(crate) ends: Vec<u64>,
}

impl FrameTable {
    /// The table as it is stored after the frames of a log of `raw_bytes`.
    pub(crate) fn encode(&self, raw_bytes: u64) -> Vec<u8> {
        let count = self.ends.len();
        let content = count * ENTRY_BYTES + FOOTER_BYTES;
        let mut encoded = Vec::with_capacity(HEADER_BYTES + content);
        encoded.extend(SKIPPED_FRAME.to_le_bytes());
        encoded.extend((content as u32).to_le_bytes());
        let mut start = 0;
        for (number, end) in (0..).zip(&self.ends) {
            let raw = self.frame_bytes.min(raw_bytes.saturating_sub(number * self.frame_bytes));
            encoded.extend(((*end - start) as u32).to_le_bytes());
            encoded.extend((raw as u32).to_le_bytes());
            start = *end;
        }
        encoded.extend((count as u32).to_le_bytes());
        encoded.push(0);
        encoded.extend(SEEKABLE.to_le_bytes());
        encoded
    }

    /// Reads the stored table from a file of this length.
    ///
    /// # Errors
    /// `InvalidData` if there is no table; else the system's error.
    pub(crate) fn read_encoded(file: &File, stored_bytes: u64) -> io::Result<Vec<u8>> {
        let mut footer = [0; FOOTER_BYTES];
        let before = stored_bytes.checked_sub(FOOTER_BYTES as u64).ok_or_else(no_table)?;
        file.read_exact_at(&mut footer, before)?;
        let count = number_at(&footer, 0).filter(|_| number_at(&footer, 5) == Some(SEEKABLE));
        let count = count.ok_or_else(no_table)? as usize;
        let bytes = HEADER_BYTES + count * ENTRY_BYTES + FOOTER_BYTES;
        let start = stored_bytes.checked_sub(bytes as u64).ok_or_else(no_table)?;
        let mut encoded = vec![0; bytes];
        file.read_exact_at(&mut encoded, start)?;
        Ok(encoded)
    }

    /// The table of a log of `raw_bytes` in a file of `stored_bytes`.
    ///
    /// # Errors
    /// `InvalidData` if the table does not fit the file and the log.
    pub(crate) fn decode(encoded: &[u8], raw_bytes: u64, stored_bytes: u64) -> io::Result<Self> {
        let content = encoded.len().checked_sub(HEADER_BYTES + FOOTER_BYTES);
        let entries = content.and_then(|length| encoded[HEADER_BYTES..].get(..length));
        let entries = entries.filter(|_| {
            number_at(encoded, 0) == Some(SKIPPED_FRAME)
                && number_at(encoded, 4) == u32::try_from(encoded.len() - HEADER_BYTES).ok()
        });
        let mut table = Self { frame_bytes: 0, ends: Vec::new() };
        let mut end = 0;
        let mut raw_end = 0;
        for entry in entries.ok_or_else(no_table)?.chunks_exact(ENTRY_BYTES) {
            let stored = number_at(entry, 0).ok_or_else(no_table)?;
            let raw = number_at(entry, 4).ok_or_else(no_table)?;
            if table.ends.is_empty() {
                table.frame_bytes = u64::from(raw);
            }
            // Only the last frame may be shorter.
            if raw_end != table.ends.len() as u64 * table.frame_bytes {
                return Err(no_table());
            }
            end += u64::from(stored);
            raw_end += u64::from(raw);
            table.ends.push(end);
        }
        let is_whole = end + encoded.len() as u64 == stored_bytes && raw_end == raw_bytes;
        if is_whole && table.frame_bytes > 0 { Ok(table) } else { Err(no_table()) }
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    let number = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*number))
}

fn no_table() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the compressed output has no table of its frames")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_survives_its_file_and_any_change_is_noticed() {
        let table = FrameTable { frame_bytes: 100, ends: vec![10, 25, 30] };
        let encoded = table.encode(250);
        let stored = 30 + encoded.len() as u64;
        assert_eq!(FrameTable::decode(&encoded, 250, stored).unwrap(), table);
        assert!(FrameTable::decode(&encoded, 251, stored).is_err());
        assert!(FrameTable::decode(&encoded, 250, stored + 1).is_err());
        for length in 0..encoded.len() {
            assert!(FrameTable::decode(&encoded[..length], 250, stored).is_err(), "{length}");
        }
        for entry in (HEADER_BYTES..encoded.len() - FOOTER_BYTES).step_by(4) {
            let mut changed = encoded.clone();
            changed[entry] ^= 1;
            assert!(FrameTable::decode(&changed, 250, stored).is_err(), "{entry}");
        }
    }
}
