//! Bytes as hexadecimal digits.

use std::fmt;

/// Bytes that are shown as lower-case hexadecimal digits, two for each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// As many as are written at once: one call for a hash, instead of one for each byte.
const AT_ONCE: usize = 32;

/// The digits of as many bytes as half of them stand for.
pub(crate) fn digits<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut text = [b'0'; N];
    let (pairs, _) = text.as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(bytes) {
        *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    }
    text
}

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for bytes in self.0.chunks(AT_ONCE) {
            let text: [u8; 2 * AT_ONCE] = digits(bytes);
            f.write_str(str::from_utf8(&text[..2 * bytes.len()]).map_err(|_| fmt::Error)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_byte_is_two_digits(bytes: Vec<u8>) {
            let one_by_one: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            prop_assert_eq!(Hex(&bytes).to_string(), one_by_one);
        }
    }
}
