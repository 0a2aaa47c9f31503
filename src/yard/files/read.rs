//! A part of a file.

use std::io::{self, Read, Seek, SeekFrom};

use super::error::FileError;
use super::place::Place;

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePage {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether the file goes on behind them.
    pub is_cut: bool,
    /// The size of the file.
    pub size: u64,
}

/// At most `most` bytes from `from` on; none beyond the end.
pub(super) fn page(place: &Place, from: u64, most: usize) -> Result<FilePage, FileError> {
    let (file, stat) = place.file()?;
    let mut bytes = part(file, from, most).map_err(|error| place.io_error(error))?;
    let is_cut = bytes.len() > most;
    bytes.truncate(most);
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    Ok(FilePage { bytes, is_cut, size })
}

/// One byte more than wanted tells whether anything is cut.
fn part(mut file: impl Read + Seek, from: u64, most: usize) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
