//! Lines of the keeper for the operator, written without ever waiting.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, retry_on_intr, write};
use rustix::net::{SendFlags, send};

/// Writes a line to the standard error, or drops it if nobody reads there: the server waits for the
/// keeper, and may be the one whose output fills the pipe. The server logs the same when it runs
/// again.
pub(crate) fn report(text: &str) {
    let line = format!("shellyard: {text}\n");
    // Without a standard error nobody reads it.
    write_without_waiting(io::stderr().as_fd(), line.as_bytes()).ok();
}

/// Writes to a file that other processes may share, so that its mode has to stay as it is.
fn write_without_waiting(file: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    match FileType::from_raw_mode(fstat(file)?.st_mode) {
        FileType::Socket => {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            retry_on_intr(|| send(file, bytes, flags)).map(drop)
        }
        FileType::Fifo | FileType::CharacterDevice => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            match open(path, flags, Mode::empty()) {
                Ok(own) => retry_on_intr(|| write(&own, bytes)).map(drop),
                // It belongs to another user, for example.
                Err(_) => write_if_ready(file, bytes),
            }
        }
        // A disk does not wait for a reader.
        FileType::RegularFile
        | FileType::Directory
        | FileType::Symlink
        | FileType::BlockDevice
        | FileType::Unknown => retry_on_intr(|| write(file, bytes)).map(drop),
    }
}

/// Writes if there is room now. Only another writer at the same moment could make it wait.
fn write_if_ready(file: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    let mut polled = [PollFd::from_borrowed_fd(file, PollFlags::OUT)];
    retry_on_intr(|| poll(&mut polled, Some(&Timespec::default())))?;
    if polled.iter().all(|file| file.revents() == PollFlags::OUT) {
        return retry_on_intr(|| write(file, bytes)).map(drop);
    }
    Err(Errno::AGAIN)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::{Read as _, Write as _};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use rustix::fs::{fcntl_getfl, fcntl_setfl};
    use rustix::pipe::pipe;

    use super::*;

    /// Writes until there is no more room, and leaves the file in the mode in which a writer waits.
    fn fill(file: &OwnedFd) {
        let before = fcntl_getfl(file).unwrap();
        fcntl_setfl(file, before | OFlags::NONBLOCK).unwrap();
        for size in [4096, 1] {
            while write(file, &vec![b'x'; size]).is_ok() {}
        }
        fcntl_setfl(file, before).unwrap();
    }

    #[test]
    fn a_line_for_which_there_is_no_room_is_dropped() {
        let (reader, writer) = pipe().unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        let all: [(OwnedFd, OwnedFd); 2] = [(reader, writer), (one.into(), other.into())];
        for (reader, writer) in all {
            fill(&writer);
            let mode = fcntl_getfl(&writer).unwrap();
            assert_eq!(write_without_waiting(writer.as_fd(), b"line\n"), Err(Errno::AGAIN));
            assert_eq!(write_if_ready(writer.as_fd(), b"line\n"), Err(Errno::AGAIN));
            assert_eq!(fcntl_getfl(&writer).unwrap(), mode);
            let mut reader = File::from(reader);
            let mut start = vec![0; 1 << 20];
            assert!(reader.read(&mut start).unwrap() >= 4096, "there is no room for the line");
            write_without_waiting(writer.as_fd(), b"line\n").unwrap();
            drop(writer);
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).unwrap();
            assert!(rest.ends_with(b"line\n"));
        }
    }

    #[test]
    fn a_line_without_a_reader_is_dropped() {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        assert!(write_if_ready(writer.as_fd(), b"line\n").is_err());
    }

    #[test]
    fn a_line_goes_to_the_end_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"first\n").unwrap();
        write_without_waiting(file.as_fd(), b"second\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\n");
    }
}
