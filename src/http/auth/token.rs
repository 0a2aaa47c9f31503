//! A bearer token, the hash that is kept of it, and the name that it is revoked by.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::hex::Hex;

/// What every token of ours begins with, so that scanners and people know one when they see it.
const PREFIX: &str = "sy_";

/// A token as it is handed out, once. It never shows in logs.
pub struct Secret(String);

impl Secret {
    /// A new one: 256 random bits.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bits = [0; 32];
        getrandom::fill(&mut bits)?;
        Ok(Self(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bits))))
    }

    /// Its text, for the one who asked for it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The SHA-256 of a whole token.
///
/// A token has 256 random bits, so that there is nothing to guess: neither salt nor stretching
/// would make it harder to find from its hash.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a token's text.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Whether both are the same; how long it takes tells nothing.
    pub(super) fn equals(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }

    pub(super) fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let is_hex = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        is_hex.then_some(Self(bytes))
    }

    pub(super) fn to_hex(self) -> String {
        Hex(&self.0).to_string()
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other).into()
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

/// What a token is listed and revoked by: 8 hex digits that have nothing to do with its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenId(u32);

impl TokenId {
    /// A random one.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn random() -> Result<Self, getrandom::Error> {
        getrandom::u32().map(Self)
    }
}

impl FromStr for TokenId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hex = text.len() == 8 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = if is_hex { u32::from_str_radix(text, 16).ok() } else { None };
        number.map(Self).ok_or("give the 8 hex digits that `shellyard token list` shows")
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_new_each_time_and_never_shown() {
        let [a, b] = [(); 2].map(|()| Secret::random().unwrap());
        assert_ne!(a.reveal(), b.reveal());
        assert_eq!(a.reveal().len(), "sy_".len() + 43);
        let url_safe = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        assert!(a.reveal().bytes().all(url_safe), "{}", a.reveal());
        assert!(!format!("{a:?} {:?}", a.hash()).contains(&a.reveal()[3..10]));
    }

    #[test]
    fn a_hash_is_that_of_the_whole_text() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(TokenHash::of("abc").to_hex(), abc);
        assert_eq!(TokenHash::from_hex(abc), Some(TokenHash::of("abc")));
        assert_ne!(TokenHash::of("abc"), TokenHash::of("abd"));
        for odd in ["", &abc[1..], &format!("{abc}00"), &abc.replace('b', "g"), &"é".repeat(32)] {
            assert_eq!(TokenHash::from_hex(odd), None, "{odd}");
        }
    }

    #[test]
    fn an_id_reads_as_it_was_written() {
        let id = TokenId::random().unwrap();
        assert_eq!(id.to_string().parse(), Ok(id));
        for odd in ["", "1", "123456789", "+1234567", "xyzxyzxy"] {
            assert!(odd.parse::<TokenId>().is_err(), "{odd}");
        }
    }
}
