//! Which bytes a `Range` header asks for (RFC 9110, section 14).

use std::ops::Range;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// Everything: no range was given, or one that is to be ignored.
    Whole,
    /// These bytes; never none.
    Part(Range<u64>),
    /// Bytes that are not there.
    Outside,
}

/// What a `Range` header asks for of `length` bytes. A header that makes no sense is ignored, as
/// the RFC has it, and so are several ranges at once: their answer would be a format of its own
/// that no client of a log needs.
pub(super) fn asked(header: Option<&str>, length: u64) -> Asked {
    let Some((first, last)) = header.and_then(positions) else { return Asked::Whole };
    match (first, last) {
        (Some(first), Some(last)) if last < first => Asked::Whole,
        (Some(first), _) if first >= length => Asked::Outside,
        (Some(first), last) => {
            let end = last.map_or(length, |last| last.saturating_add(1).min(length));
            Asked::Part(first..end)
        }
        (None, Some(0)) => Asked::Outside,
        // The last bytes of nothing are nothing, for which there is no range.
        (None, Some(_)) if length == 0 => Asked::Whole,
        (None, Some(suffix)) => Asked::Part(length.saturating_sub(suffix)..length),
        (None, None) => Asked::Whole,
    }
}

/// The two numbers of `bytes=a-b`, of which one may be missing.
fn positions(header: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (unit, spec) = header.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = spec.trim().split_once('-')?;
    Some((position(first)?, position(last)?))
}

/// A number, or none where nothing is written. One too large to count is as good as infinite.
fn position(text: &str) -> Option<Option<u64>> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text {
        "" => Some(None),
        digits if is_number => Some(Some(digits.parse().unwrap_or(u64::MAX))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(header: &str, length: u64, expected: Asked) {
        assert_eq!(asked(Some(header), length), expected, "{header} of {length}");
    }

    #[test]
    fn a_range_is_what_the_rfc_says() {
        assert_eq!(asked(None, 100), Asked::Whole);
        check("bytes=0-0", 100, Asked::Part(0..1));
        check("bytes=10-19", 100, Asked::Part(10..20));
        check("Bytes = 10-", 100, Asked::Part(10..100));
        check("bytes=-30", 100, Asked::Part(70..100));
        check("bytes=90-1000", 100, Asked::Part(90..100));
        check("bytes=-1000", 100, Asked::Part(0..100));
        check("bytes=0-99999999999999999999999", 100, Asked::Part(0..100));
    }

    #[test]
    fn what_is_not_there_is_outside() {
        for header in ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=99999999999999999999999-"]
        {
            check(header, 100, Asked::Outside);
        }
        check("bytes=0-", 0, Asked::Outside);
        check("bytes=-5", 0, Asked::Whole);
    }

    #[test]
    fn what_makes_no_sense_is_ignored() {
        for header in
            ["", "bytes", "bytes=", "bytes=-", "bytes=5-1", "bytes=a-b", "lines=1-2", "bytes=+1-2"]
        {
            check(header, 100, Asked::Whole);
        }
        check("bytes=0-1,5-6", 100, Asked::Whole);
    }

    proptest! {
        #[test]
        fn a_part_is_never_empty_and_always_inside(header in "bytes=[0-9]{0,4}-[0-9]{0,4}", length in 0..9000u64) {
            if let Asked::Part(range) = asked(Some(&header), length) {
                prop_assert!(range.start < range.end && range.end <= length);
            }
        }
    }
}
