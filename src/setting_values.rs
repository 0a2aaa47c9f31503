//! Values as users write them: sizes such as `64 KiB`, log filters, suggestions for misspelled words ("did you
//! mean …?"), and the TOML forms of settings.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

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
pub fn parse_size(text: &str) -> Option<u64> {
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
pub fn format_short_size(bytes: u64) -> String {
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
pub fn format_size(bytes: u64) -> String {
    let exact = |&&(name, factor): &&(&str, u64)| {
        (name.ends_with("iB") || factor == 1) && bytes >= factor && bytes.is_multiple_of(factor)
    };
    let (name, factor) = UNITS.iter().find(exact).unwrap_or(&("B", 1));
    format!("{} {name}", bytes / factor)
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The least similarity of a suggestion; below it, it would be a guess.
const MIN_SIMILARITY: f64 = 0.5;

/// A text that is not a valid filter.
#[derive(Debug, Error)]
#[error(
    "`{filter}` is not a log filter: {flaw}; write one such as `info` or `warn,shellyard=debug`"
)]
pub struct FilterError {
    filter: String,
    flaw: FilterFlaw,
}

/// The mistake in a filter.
#[derive(Debug)]
enum FilterFlaw {
    Empty,
    /// A word that is not a level stands in the place of one; `meant` is the level that it resembles.
    NoLevel {
        word: String,
        meant: Option<&'static str>,
    },
    Unreadable(ParseError),
}

impl fmt::Display for FilterFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "it is empty"),
            Self::NoLevel { word, meant: Some(level) } => {
                write!(f, "`{word}` is no level (did you mean `{level}`?)")
            }
            Self::NoLevel { word, meant: None } => {
                write!(f, "`{word}` is no level (they are {})", LEVELS.join(", "))
            }
            Self::Unreadable(why) => write!(f, "{why}"),
        }
    }
}

impl FilterError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "log_filter"
    }

    /// The level that was most likely meant.
    #[must_use]
    pub const fn suggested_level(&self) -> Option<&'static str> {
        match self.flaw {
            FilterFlaw::NoLevel { meant, .. } => meant,
            FilterFlaw::Empty | FilterFlaw::Unreadable(_) => None,
        }
    }
}

/// Parses a filter in the syntax of `RUST_LOG`, except that a single word must be a level or a module
/// of this program. `RUST_LOG` takes any other word, such as a misspelled level, for the name of a
/// module, and silences everything else.
///
/// # Errors
/// If the text is not such a filter.
pub fn parse_filter(filter: &str) -> Result<EnvFilter, FilterError> {
    let bad = |flaw| FilterError { filter: filter.to_owned(), flaw };
    let parts: Vec<&str> =
        filter.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return Err(bad(FilterFlaw::Empty));
    }
    parts.iter().try_for_each(|part| check_level(part)).map_err(bad)?;
    EnvFilter::builder().parse(parts.join(",")).map_err(|why| bad(FilterFlaw::Unreadable(why)))
}

/// Checks the level of one directive. Directives about spans are left to the library.
fn check_level(part: &str) -> Result<(), FilterFlaw> {
    let word = match part.split_once('=') {
        _ if part.contains('[') => return Ok(()),
        Some((_, level)) => level,
        None if is_own_module(part) => return Ok(()),
        None => part,
    };
    if !word.is_empty() && word.parse::<LevelFilter>().is_ok() {
        return Ok(());
    }
    let meant = find_closest(&word.to_ascii_lowercase(), LEVELS, MIN_SIMILARITY);
    Err(FilterFlaw::NoLevel { word: word.to_owned(), meant })
}

fn is_own_module(target: &str) -> bool {
    target.split("::").next() == Some(env!("CARGO_CRATE_NAME"))
}

/// Returns the known word with the highest similarity (0 to 1), if that is at least `least`: below it
/// a suggestion would be a guess.
pub(crate) fn find_most_alike<'a>(
    known: impl IntoIterator<Item = &'a str>,
    similarity: impl Fn(&str) -> f64,
    least: f64,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (similarity(word), word))
        .filter(|(similarity, _)| *similarity >= least)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, word)| word)
}

/// Returns the known word that `given` most likely misspells, by edit distance relative to length.
pub(crate) fn find_closest<'a>(
    given: &str,
    known: impl IntoIterator<Item = &'a str>,
    least: f64,
) -> Option<&'a str> {
    find_most_alike(known, |word| strsim::normalized_damerau_levenshtein(given, word), least)
}

// Functions for serde's `deserialize_with`, for settings whose type in the code differs from TOML's.

pub(crate) fn deserialize_seconds<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(input)?).map_err(D::Error::custom)
}

pub(crate) fn deserialize_milliseconds<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Duration, D::Error> {
    u64::deserialize(input).map(Duration::from_millis)
}

pub(crate) fn deserialize_some_seconds<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Duration>, D::Error> {
    deserialize_seconds(input).map(Some)
}

pub(crate) fn deserialize_zero_as_none<'de, D, T>(input: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default + PartialEq,
{
    Ok(Some(T::deserialize(input)?).filter(|number| *number != T::default()))
}

pub(crate) fn deserialize_zero_seconds_as_none<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Duration>, D::Error> {
    Ok(Some(deserialize_seconds(input)?).filter(|time| !time.is_zero()))
}

pub(crate) fn deserialize_path_or_none<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<PathBuf>, D::Error> {
    Ok(deserialize_text_or_none(input)?.map(PathBuf::from))
}

pub(crate) fn deserialize_text_or_none<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(input)?).filter(|text| !text.is_empty()))
}

pub(crate) fn deserialize_address_or_none<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<SocketAddr>, D::Error> {
    deserialize_text_or_none(input)?.map(|text| text.parse()).transpose().map_err(D::Error::custom)
}

/// Reads one of these words, and returns its value.
pub(crate) fn deserialize_word<'de, D: Deserializer<'de>, T: Copy>(
    input: D,
    words: &[(&str, T)],
) -> Result<T, D::Error> {
    let text = String::deserialize(input)?;
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| D::Error::custom(format!("unknown word {text:?}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            assert_eq!(parse_size(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_size_is_formatted_in_its_largest_exact_unit() {
        assert_eq!(format_size(65536), "64 KiB");
        assert_eq!(format_size(1_000_000), "1000000 B");
        assert_eq!(format_size(0), "0 B");
    }

    #[test]
    fn a_size_for_people_has_one_decimal() {
        for (bytes, text) in [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2 << 30, "2.0 GiB")]
        {
            assert_eq!(format_short_size(bytes), text);
        }
    }

    proptest! {
        #[test]
        fn a_formatted_size_parses_to_the_same_size(bytes: u64) {
            prop_assert_eq!(parse_size(&format_size(bytes)), Some(bytes));
        }
    }

    #[test]
    fn a_filter_is_parsed_directive_by_directive() {
        for (text, read) in [
            ("info", "info"),
            ("DEBUG", "debug"),
            ("0", "off"),
            ("warn, shellyard=debug,", "shellyard=debug,warn"),
            ("shellyard", "shellyard=trace"),
            ("off,shellyard::http", "shellyard::http=trace,off"),
            ("[span{job}]=debug", "[span{job}]=debug"),
        ] {
            assert_eq!(parse_filter(text).unwrap().to_string(), read, "{text}");
        }
    }

    #[test]
    fn an_unknown_level_is_refused_with_a_suggestion() {
        for (text, meant) in [
            ("debgu", Some("debug")),
            ("warning", Some("warn")),
            ("Eror", Some("error")),
            ("info,dbg", Some("debug")),
            ("shellyard=tarce", Some("trace")),
            ("shellyard=loud", None),
            ("shellyard=", None),
            ("hyper", None),
            ("7", None),
            ("a=b=c", None),
        ] {
            let error = parse_filter(text).unwrap_err();
            assert_eq!((error.suggested_level(), error.code()), (meant, "log_filter"), "{text}");
            let message = error.to_string();
            assert!(
                meant.is_none_or(|level| message.contains(&format!("did you mean `{level}`?")))
            );
            assert!(message.contains(text) && message.contains("shellyard=debug"), "{message}");
        }
    }

    #[test]
    fn an_empty_or_malformed_filter_is_refused() {
        for (text, why) in [("", "empty"), (" ,", "empty"), ("(x)=info", "invalid")] {
            let message = parse_filter(text).unwrap_err().to_string();
            assert!(message.contains(why), "{message}");
        }
    }

    #[test]
    fn a_typo_finds_its_word_and_an_unrelated_word_finds_none() {
        let known = ["error", "warn", "info", "debug"];
        assert_eq!(find_closest("eror", known, 0.5), Some("error"));
        assert_eq!(find_closest("wran", known, 0.5), Some("warn"));
        assert_eq!(find_closest("xyzzy", known, 0.5), None);
        assert_eq!(
            find_most_alike(known, |word| word.len() as f64, 5.0),
            Some("debug"),
            "the last of equals wins"
        );
    }
}
