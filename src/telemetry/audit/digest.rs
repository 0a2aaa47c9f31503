//! A SHA-256, written in hex.

use std::fmt;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::hex;

/// The SHA-256 of some bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    /// What stands for the line before the first.
    pub(super) const ZERO: Self = Self([0; 32]);

    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Its digits.
    pub(super) fn hex(&self) -> [u8; 64] {
        hex::digits(&self.0)
    }

    /// Reads exactly what [`fmt::Display`] writes: 64 lower-case hex digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut digest = Self::ZERO;
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != digest.0.len() || !rest.is_empty() {
            return None;
        }
        for (byte, [high, low]) in digest.0.iter_mut().zip(pairs) {
            *byte = nibble(*high)? << 4 | nibble(*low)?;
        }
        Some(digest)
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.hex()).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(str::from_utf8(&self.hex()).map_err(S::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("a hash has 64 hex digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_sha256_that_everybody_computes() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), abc);
        assert_eq!(Digest::parse(abc), Some(Digest::of(b"abc")));
    }

    #[test]
    fn only_its_own_form_is_read() {
        let hex = Digest::of(b"abc").to_string();
        for text in [&hex[1..], &hex[2..], &hex.to_uppercase(), &format!("{hex}0"), ""] {
            assert_eq!(Digest::parse(text), None, "{text}");
        }
    }
}
