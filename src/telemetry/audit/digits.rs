//! Numbers of one width: every entry writes several.

/// Fills this place with the last digits of a number, and zeros before them.
pub(super) fn put(number: u64, place: &mut [u8]) {
    let mut left = number;
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_fills_its_place_from_the_right() {
        for (number, text) in [(0, "000"), (7, "007"), (42, "042"), (999, "999"), (1234, "234")] {
            let mut place = *b"xxx";
            put(number, &mut place);
            assert_eq!(place, text.as_bytes());
        }
        let mut widest = [0; 20];
        put(u64::MAX, &mut widest);
        assert_eq!(widest, u64::MAX.to_string().as_bytes());
    }
}
