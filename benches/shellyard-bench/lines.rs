//! Numbered lines, so that a byte in the wrong place is noticed wherever it stands.

use std::io::{self, Write as _};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a line: fifteen digits and its end.
const WIDTH: usize = 16;
const BLOCK_LINES: usize = 4096;

/// A decimal number that counts up as text, which is much faster than to format each.
#[derive(Debug)]
pub(crate) struct DecimalCounter {
    digits: Vec<u8>,
}

impl DecimalCounter {
    /// Creates a counter that begins at this number.
    pub(crate) fn from(text: String) -> Self {
        Self { digits: text.into_bytes() }
    }

    /// Appends the number as a line, and counts.
    pub(crate) fn append(&mut self, lines: &mut Vec<u8>) {
        lines.extend_from_slice(&self.digits);
        lines.push(b'\n');
        for digit in self.digits.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        self.digits.insert(0, b'1');
    }
}

/// The text that the helper `write` writes, from this offset on.
pub(crate) fn at(offset: u64, length: usize) -> Vec<u8> {
    let first = offset / WIDTH as u64;
    let skip = (offset % WIDTH as u64) as usize;
    let mut counter = DecimalCounter::from(format!("{first:015}"));
    let mut lines = Vec::with_capacity(skip + length + WIDTH);
    while lines.len() < skip + length {
        counter.append(&mut lines);
    }
    lines.drain(..skip);
    lines.truncate(length);
    lines
}

/// The command of a job that writes so many bytes of lines; without a rate as fast as it can.
pub(crate) fn command(bytes: u64, mb_per_second: Option<u64>) -> String {
    let program = std::env::current_exe().expect("this very program");
    let rate = mb_per_second.map_or(String::new(), |rate| format!(" {rate}"));
    format!("exec '{}' write {bytes}{rate}", program.display())
}

/// Runs as the job that writes these lines.
pub(crate) fn play(bytes: u64, mb_per_second: Option<u64>) -> io::Result<()> {
    let start = Instant::now();
    let mut output = io::stdout().lock();
    let mut counter = DecimalCounter::from(format!("{:015}", 0));
    let mut block = Vec::with_capacity(BLOCK_LINES * WIDTH);
    let mut written = 0;
    while written < bytes {
        block.clear();
        (0..BLOCK_LINES).for_each(|_| counter.append(&mut block));
        block.truncate(usize::try_from(bytes - written).unwrap_or(usize::MAX));
        output.write_all(&block)?;
        written += block.len() as u64;
        if let Some(rate) = mb_per_second {
            let due = Duration::from_micros(written / rate);
            thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }
    Ok(())
}
