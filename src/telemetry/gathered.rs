//! Lines that are written together.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

/// Whoever has written lets those gather that come in this time: as long as he does not wait for the
/// next one, who logs it need not wake him.
const GATHERING: Duration = Duration::from_millis(10);

/// As much is written at once.
const AT_ONCE: usize = 16 * 1024;

/// Holds lines back until it is flushed, which takes a moment after some were written.
#[derive(Debug)]
pub(super) struct Gathered<W> {
    sink: W,
    lines: Vec<u8>,
}

impl<W: Write> Gathered<W> {
    pub(super) const fn new(sink: W) -> Self {
        Self { sink, lines: Vec::new() }
    }

    fn write_out(&mut self) -> io::Result<()> {
        let written = self.sink.write_all(&self.lines);
        // What could not be written then could not be later.
        self.lines.clear();
        written
    }
}

impl<W: Write> Write for Gathered<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.extend_from_slice(bytes);
        if self.lines.len() >= AT_ONCE {
            self.write_out()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.lines.is_empty() {
            return self.sink.flush();
        }
        self.write_out()?;
        self.sink.flush()?;
        thread::sleep(GATHERING);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every write by itself.
    #[derive(Default)]
    struct Writes(Vec<Vec<u8>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_between_two_flushes_are_one_write() {
        let mut log = Gathered::new(Writes::default());
        for line in ["a\n", "b\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(log.sink.0.len(), 0);
        log.flush().unwrap();
        log.flush().unwrap();
        assert_eq!(log.sink.0, [b"a\nb\n"]);
    }

    #[test]
    fn what_is_held_back_is_bounded() {
        let mut log = Gathered::new(Writes::default());
        for _ in 0..100 {
            log.write_all(&[b'x'; 1024]).unwrap();
            assert!(log.lines.len() < AT_ONCE);
        }
        assert_eq!(log.sink.0.iter().map(Vec::len).sum::<usize>() + log.lines.len(), 100 * 1024);
    }
}
