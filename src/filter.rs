//! The words of a log filter: which lines are written.

use std::fmt;

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

use crate::did_you_mean::closest;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Below this likeness a suggestion would be a guess.
const ALIKE: f64 = 0.5;

/// A text that is no filter.
#[derive(Debug, Error)]
#[error(
    "`{filter}` is not a log filter: {flaw}; write one such as `info` or `warn,shellyard=debug`"
)]
pub struct FilterError {
    filter: String,
    flaw: Flaw,
}

/// What is wrong with it.
#[derive(Debug)]
enum Flaw {
    /// It says nothing.
    Empty,
    /// A word stands where a level should, and may have been meant for one.
    NoLevel { word: String, meant: Option<&'static str> },
    /// A part of it cannot be read.
    Unreadable(ParseError),
}

impl fmt::Display for Flaw {
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
    /// The stable word that programs may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "log_filter"
    }

    /// The level that was most likely meant.
    #[must_use]
    pub const fn meant(&self) -> Option<&'static str> {
        match self.flaw {
            Flaw::NoLevel { meant, .. } => meant,
            Flaw::Empty | Flaw::Unreadable(_) => None,
        }
    }
}

/// Reads a filter as in `RUST_LOG`, except that a lone word is a level or a part of this program:
/// any other would silence everything else, as a level does that is spelled wrong.
///
/// # Errors
/// When the text is no such filter.
pub fn parse(filter: &str) -> Result<EnvFilter, FilterError> {
    let bad = |flaw| FilterError { filter: filter.to_owned(), flaw };
    let parts: Vec<&str> =
        filter.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return Err(bad(Flaw::Empty));
    }
    parts.iter().try_for_each(|part| check_level(part)).map_err(bad)?;
    EnvFilter::builder().parse(parts.join(",")).map_err(|why| bad(Flaw::Unreadable(why)))
}

/// Whether the level of one part is one, where that can be told: what speaks of spans is left to
/// the library.
fn check_level(part: &str) -> Result<(), Flaw> {
    let word = match part.split_once('=') {
        _ if part.contains('[') => return Ok(()),
        Some((_, level)) => level,
        None if is_ours(part) => return Ok(()),
        None => part,
    };
    if !word.is_empty() && word.parse::<LevelFilter>().is_ok() {
        return Ok(());
    }
    let meant = closest(&word.to_ascii_lowercase(), LEVELS, ALIKE);
    Err(Flaw::NoLevel { word: word.to_owned(), meant })
}

fn is_ours(target: &str) -> bool {
    target.split("::").next() == Some(env!("CARGO_CRATE_NAME"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_read_part_by_part() {
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
    fn a_word_that_is_no_level_is_refused_with_the_one_that_was_meant() {
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
            assert_eq!((error.meant(), error.code()), (meant, "log_filter"), "{text}");
            let said = error.to_string();
            assert!(meant.is_none_or(|level| said.contains(&format!("did you mean `{level}`?"))));
            assert!(said.contains(text) && said.contains("shellyard=debug"), "{said}");
        }
    }

    #[test]
    fn what_says_nothing_or_cannot_be_read_is_refused() {
        for (text, why) in [("", "empty"), (" ,", "empty"), ("(x)=info", "invalid")] {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }
}
