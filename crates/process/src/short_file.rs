//! Reads the short files that the kernel prints anew for each reader.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;

/// More than any of them has.
const MOST_BYTES: usize = 4096;

/// The text of such a file, in one read: the kernel gives all of it at once, and whoever asks ten
/// times in a second has no use for the several that a file of unknown length takes.
pub(super) fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let mut bytes = [MaybeUninit::uninit(); MOST_BYTES];
    let (text, _) = rustix::io::read(File::open(path)?, &mut bytes)?;
    Ok(str::from_utf8(text).map_err(io::Error::other)?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_file_comes_in_one_read() {
        for path in ["/proc/meminfo", "/proc/loadavg"] {
            let (short, whole) = (read(path).unwrap(), std::fs::read_to_string(path).unwrap());
            assert_eq!(short.lines().count(), whole.lines().count(), "{path}");
            assert!(short.ends_with('\n'), "{short}");
        }
        assert_eq!(read("/proc/none").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
