//! The names of spill files.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest name of a log: with the ending of a part, it fits into a file name.
const MAX_NAME: usize = 220;

/// The end of the names of segments, as they were written and compressed.
pub(crate) const RAW_ENDING: &str = ".log";
pub(crate) const COMPRESSED_ENDING: &str = ".zst";

/// The name of a durable log, from which the names of its files are made. Letters, digits, `-` and
/// `_`; not only digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LogName(Arc<str>);

/// The text is not a valid name of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a log: up to 220 letters, digits, `-` and `_`, not only digits")]
pub struct InvalidLogName(String);

impl LogName {
    /// Takes a valid name.
    ///
    /// # Errors
    /// If the text is not a valid name.
    pub fn new(name: &str) -> Result<Self, InvalidLogName> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_valid = (1..=MAX_NAME).contains(&name.len())
            && name.bytes().all(is_allowed)
            && !name.bytes().all(|byte| byte.is_ascii_digit());
        if is_valid { Ok(Self(name.into())) } else { Err(InvalidLogName(name.to_owned())) }
    }

    /// Makes a name of any text: `_` and two hexadecimal digits stand for each byte that is not a
    /// letter, a digit or `-`. A text that is too long is cut, with a hash of the whole text at its
    /// end. Different texts have different names.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let mut name = String::with_capacity(text.len());
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => name.push(char::from(byte)),
                _ => name.push_str(&format!("_{byte:02x}")),
            }
        }
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            name.push('_');
        }
        if name.len() > MAX_NAME {
            name.truncate(MAX_NAME - 33);
            name.push_str(&format!("_{:032x}", hash(text.as_bytes())));
        }
        Self(name.into())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The FNV-1a hash of 128 bits, which stays the same in all versions of this program.
fn hash(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

impl Borrow<str> for LogName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LogName {
    type Error = InvalidLogName;

    fn try_from(name: String) -> Result<Self, InvalidLogName> {
        Self::new(&name)
    }
}

impl From<LogName> for String {
    fn from(name: LogName) -> Self {
        name.as_str().to_owned()
    }
}

/// A part of a durable log that has a file of its own. Segments are named by their start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FilePart {
    Segment(u64),
    /// A segment, compressed.
    Compressed(u64),
    /// Streams, gaps and segments by offset.
    Positions,
}

impl FilePart {
    /// The compressed form of a segment.
    pub(crate) const fn compressed(self) -> Option<Self> {
        match self {
            Self::Segment(start) => Some(Self::Compressed(start)),
            Self::Compressed(_) | Self::Positions => None,
        }
    }
}

/// The name of a file in a spill directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SpillFileName {
    /// A file of this server alone.
    Temporary(u64),
    /// A file of a durable log.
    OfLog { log: LogName, part: FilePart },
}

impl SpillFileName {
    pub(crate) fn of_log(log: &LogName, part: FilePart) -> Self {
        Self::OfLog { log: log.clone(), part }
    }

    /// The name of a file that this crate has created; `None` for any other.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let parsed = match name.split_once('.') {
            None => Self::Temporary(name.parse().ok()?),
            Some((log, ending)) => {
                Self::OfLog { log: LogName::new(log).ok()?, part: parse_ending(ending)? }
            }
        };
        // There is one form of each name: no leading zeros or signs.
        (parsed.to_string() == name).then_some(parsed)
    }
}

fn parse_ending(ending: &str) -> Option<FilePart> {
    let (start, kind) = match ending.split_once('.') {
        Some((start, kind)) => (start.parse().ok()?, kind),
        None => (0, ending),
    };
    match kind {
        "log" => Some(FilePart::Segment(start)),
        "zst" => Some(FilePart::Compressed(start)),
        "idx" => Some(FilePart::Positions),
        _ => None,
    }
}

impl fmt::Display for SpillFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Temporary(number) => write!(f, "{number}"),
            Self::OfLog { log, part } => match part {
                FilePart::Segment(0) => write!(f, "{}{RAW_ENDING}", log.0),
                FilePart::Segment(start) => write!(f, "{}.{start}{RAW_ENDING}", log.0),
                FilePart::Compressed(0) => write!(f, "{}{COMPRESSED_ENDING}", log.0),
                FilePart::Compressed(start) => write!(f, "{}.{start}{COMPRESSED_ENDING}", log.0),
                FilePart::Positions => write!(f, "{}.idx", log.0),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        let log = LogName::new("t-local-12").unwrap();
        let parts = [
            (FilePart::Segment(0), "t-local-12.log"),
            (FilePart::Segment(70_000), "t-local-12.70000.log"),
            (FilePart::Compressed(0), "t-local-12.zst"),
            (FilePart::Compressed(7), "t-local-12.7.zst"),
            (FilePart::Positions, "t-local-12.idx"),
        ];
        for (part, text) in parts {
            let name = SpillFileName::of_log(&log, part);
            assert_eq!(name.to_string(), text);
            assert_eq!(SpillFileName::parse(text), Some(name));
        }
        assert_eq!(SpillFileName::parse("17"), Some(SpillFileName::Temporary(17)));
    }

    #[test]
    fn other_names_are_not_ours() {
        for name in ["", "a", "a.", "a.txt", "a.0.log", "a.07.log", "a.+7.log", "a.1.idx", "007"] {
            assert_eq!(SpillFileName::parse(name), None, "{name}");
        }
        assert_eq!(LogName::from_text("t.a_b/c@d-1").as_str(), "t_2ea_5fb_2fc_40d-1");
        assert_eq!(LogName::from_text("12").as_str(), "12_");
        let long = |last: char| LogName::from_text(&format!("{}{last}", "/".repeat(100)));
        assert_ne!(long('1'), long('2'));
        assert_eq!(LogName::new(long('1').as_str()), Ok(long('1')));
        for name in ["", "12", "a/b", "..", "a.b", "ä", &"a".repeat(221)] {
            assert!(LogName::new(name).is_err(), "{name}");
        }
    }
}
