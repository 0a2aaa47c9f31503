//! Parsing and formatting of sizes such as `64 KiB`, `10 GB`, `2G` and `512`.

/// Units from large to small, so that the first one that divides a size is the best.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

/// Letters that stand for binary units, as in other programs that limit memory.
const LETTERS: [(&str, u64); 4] = [("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];

/// The number of digits after a decimal point that count.
const MAX_DECIMALS: u32 = 6;

/// Parses a size such as `64 KiB`, `64kib`, `2G`, `1.5 GiB` or `65536` into bytes; `None` if it is not
/// one.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let is_number = |c: &u8| c.is_ascii_digit() || *c == b'.';
    let digits = text.bytes().take_while(is_number).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    let named = |(name, _): &&(&str, u64)| name.eq_ignore_ascii_case(unit);
    let factor = match unit {
        "" => 1,
        _ => UNITS.iter().chain(&LETTERS).find(named)?.1,
    };
    match number.split_once('.') {
        None => number.parse::<u64>().ok()?.checked_mul(factor),
        // A fraction of a byte is a mistake.
        Some((whole, decimals)) if factor > 1 => {
            let places =
                u32::try_from(decimals.len()).ok().filter(|n| (1..=MAX_DECIMALS).contains(n))?;
            let part = decimals.parse::<u64>().ok()?.checked_mul(factor)? / 10_u64.pow(places);
            whole.parse::<u64>().ok()?.checked_mul(factor)?.checked_add(part)
        }
        Some(_) => None,
    }
}

/// Formats a size for people, in the largest binary unit and with one decimal: `2.0 GiB`.
#[must_use]
pub fn format_short(bytes: u64) -> String {
    let binary = UNITS.iter().filter(|(name, _)| name.ends_with("iB"));
    match binary.into_iter().find(|(_, factor)| bytes >= *factor) {
        Some((name, factor)) => {
            let tenths = bytes / (factor / 10).max(1);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

/// Formats a size in the largest binary unit that represents it exactly.
#[must_use]
pub fn format(bytes: u64) -> String {
    let exact = |&&(name, factor): &&(&str, u64)| {
        (name.ends_with("iB") || factor == 1) && bytes >= factor && bytes.is_multiple_of(factor)
    };
    let (name, factor) = UNITS.iter().find(exact).unwrap_or(&("B", 1));
    format!("{} {name}", bytes / factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_parsed_with_and_without_units() {
        let cases = [
            ("0", Some(0)),
            ("65536", Some(65536)),
            ("64 KiB", Some(65536)),
            ("64kib", Some(65536)),
            (" 10 GB ", Some(10_000_000_000)),
            ("7 B", Some(7)),
            ("", None),
            ("KiB", None),
            ("-1", None),
            ("1.5 GiB", Some(1_610_612_736)),
            ("0.25m", Some(262_144)),
            ("2G", Some(2 << 30)),
            ("64 K", Some(65536)),
            ("1.5", None),
            ("1.5 B", None),
            ("1. GiB", None),
            (".5 GiB", None),
            ("1.2.3 GiB", None),
            ("99999999 TiB", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_size_is_formatted_in_its_largest_exact_unit() {
        assert_eq!(format(65536), "64 KiB");
        assert_eq!(format(1_000_000), "1000000 B");
        assert_eq!(format(0), "0 B");
    }

    #[test]
    fn a_size_for_people_has_one_decimal() {
        for (bytes, text) in [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2 << 30, "2.0 GiB")]
        {
            assert_eq!(format_short(bytes), text);
        }
    }

    proptest! {
        #[test]
        fn a_formatted_size_parses_to_the_same_size(bytes: u64) {
            prop_assert_eq!(parse(&format(bytes)), Some(bytes));
        }
    }
}
