//! Parsing and formatting of sizes such as `64 KiB`, `10 GB` and `512`.

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

/// Parses a size such as `64 KiB`, `64kib` or `65536` into bytes; `None` if it is not one.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    let factor = match unit {
        "" => 1,
        _ => UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
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
            ("1.5 GiB", None),
            ("64 K", None),
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

    proptest! {
        #[test]
        fn a_formatted_size_parses_to_the_same_size(bytes: u64) {
            prop_assert_eq!(parse(&format(bytes)), Some(bytes));
        }
    }
}
