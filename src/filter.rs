//! Parsing of log filters, which select the log lines that are written.

use std::fmt;

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

use crate::did_you_mean::find_closest;

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
pub fn parse(filter: &str) -> Result<EnvFilter, FilterError> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(parse(text).unwrap().to_string(), read, "{text}");
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
            let error = parse(text).unwrap_err();
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
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(why), "{message}");
        }
    }
}
