//! Programs that write as fast as they can, and what they must have written.

use crate::lines::DecimalCounter;

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    Yes,
    Tr,
    Seq,
}

impl Source {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Yes, Self::Tr, Self::Seq];

    /// Its program.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Tr => "tr",
            Self::Seq => "seq",
        }
    }

    /// A command that writes about so many bytes, and how many these are.
    pub(crate) fn command(self, bytes: u64) -> (String, u64) {
        match self {
            Self::Yes => (format!("yes | head -c {bytes}"), bytes),
            Self::Tr => (format!("head -c {bytes} /dev/zero | tr '\\0' x"), bytes),
            Self::Seq => {
                let (last, bytes) = seq_of(bytes);
                (format!("seq {last}"), bytes)
            }
        }
    }

    /// What it writes, from the start.
    pub(crate) fn expected(self) -> Expected {
        Expected { source: self, counter: DecimalCounter::from("1".to_owned()), ahead: Vec::new() }
    }
}

/// The last number of a `seq` of at least so many bytes, and how many these are.
fn seq_of(wanted: u64) -> (u64, u64) {
    let (mut last, mut bytes, mut digits) = (0, 0, 1);
    loop {
        let numbers = 9 * 10_u64.pow(digits - 1);
        let width = u64::from(digits) + 1;
        if bytes + numbers * width >= wanted {
            let rest = (wanted - bytes).div_ceil(width);
            return (last + rest, bytes + rest * width);
        }
        last += numbers;
        bytes += numbers * width;
        digits += 1;
    }
}

/// The stream, made anew piece by piece.
#[derive(Debug)]
pub(crate) struct Expected {
    source: Source,
    counter: DecimalCounter,
    /// What was made and not taken.
    ahead: Vec<u8>,
}

impl Expected {
    /// The next bytes of it.
    pub(crate) fn take(&mut self, length: usize) -> Vec<u8> {
        while self.ahead.len() < length {
            match self.source {
                Source::Yes => self.ahead.extend_from_slice(b"y\n"),
                Source::Tr => self.ahead.push(b'x'),
                Source::Seq => self.counter.append(&mut self.ahead),
            }
        }
        let rest = self.ahead.split_off(length);
        std::mem::replace(&mut self.ahead, rest)
    }
}
