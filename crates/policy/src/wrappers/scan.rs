//! Reading the options in front of a command, where more is accepted than a program does.

use std::sync::LazyLock;

use crate::command::{Shape, Word};
use crate::options::OptionSet;
use crate::tables::Table;

static OPTIONS: LazyLock<Table> =
    LazyLock::new(|| Table::parse(include_str!("../../tables/wide_options.txt")));

/// The options of a program, by the name of the list.
pub(super) fn option_set(name: &str) -> OptionSet {
    let tokens = OPTIONS.sets.get(name).map(Vec::as_slice).unwrap_or_default();
    OptionSet::from_tokens(tokens.iter().copied())
}

/// One option that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    /// Its name without dashes.
    pub(super) name: String,
    /// Its value, if it has one.
    pub(super) value: Option<Word>,
}

/// The options, and where the rest of the words starts.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) given: Vec<Given>,
    pub(super) rest: usize,
}

impl Scan {
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|given| names.contains(&given.name.as_str()))
    }

    /// Every option of these names that has a value.
    pub(super) fn values(&self, names: &[&str]) -> impl Iterator<Item = &Word> {
        let named = self.given.iter().filter(|given| names.contains(&given.name.as_str()));
        named.filter_map(|given| given.value.as_ref())
    }

    pub(super) fn value(&self, names: &[&str]) -> Option<&Word> {
        let named = self.given.iter().rfind(|given| names.contains(&given.name.as_str()));
        named.and_then(|given| given.value.as_ref())
    }
}

/// What of an option was not understood.
pub(super) type Odd = String;

/// Reads options up to the first word that is none.
pub(super) fn scan(args: &[Word], options: &OptionSet) -> Result<Scan, Odd> {
    let mut scan = Scan::default();
    while let Some(word) = args.get(scan.rest) {
        if word.may_become_option() && !word.text.starts_with('-') {
            return Err(format!("the word {word}"));
        }
        if word.is("--") {
            scan.rest += 1;
            break;
        }
        if !word.text.starts_with('-') || word.is("-") {
            break;
        }
        scan.rest += 1;
        let next = args.get(scan.rest);
        let taken = match word.text.strip_prefix("--") {
            Some(long) => long_option(word, long, next, options, &mut scan.given)?,
            None => short_options(word, next, options, &mut scan.given)?,
        };
        scan.rest += taken;
    }
    Ok(scan)
}

/// Takes a long option; the number of further words that it used.
fn long_option(
    word: &Word,
    long: &str,
    next: Option<&Word>,
    options: &OptionSet,
    given: &mut Vec<Given>,
) -> Result<usize, Odd> {
    let (name, attached) = match long.split_once('=') {
        Some((name, value)) => (name, Some(rest_of(word, value))),
        None if word.shape == Shape::Literal => (long, None),
        None => return Err(format!("the word {word}")),
    };
    // A program may take `--flag=value` although its help does not say so.
    let takes = options.takes_next(&format!("--{name}")).filter(|_| !name.is_empty());
    let Some(takes) = takes else {
        return Err(format!("the option --{name}"));
    };
    let (value, used) = match attached {
        Some(value) => (Some(value), 0),
        None if takes => (Some(one_word(next)?), 1),
        None => (None, 0),
    };
    given.push(Given { name: name.to_owned(), value });
    Ok(used)
}

/// Takes a cluster of short options; the number of further words that it used.
fn short_options(
    word: &Word,
    next: Option<&Word>,
    options: &OptionSet,
    given: &mut Vec<Given>,
) -> Result<usize, Odd> {
    let cluster = word.text.get(1..).unwrap_or_default();
    let is_number = !cluster.is_empty() && cluster.bytes().all(|b| b.is_ascii_digit());
    if is_number && options.has_numbers() {
        return Ok(0);
    }
    for (index, letter) in cluster.char_indices() {
        let name = letter.to_string();
        match options.takes_next(&format!("-{letter}")) {
            Some(true) => {}
            Some(false) => {
                given.push(Given { name, value: None });
                continue;
            }
            None => return Err(format!("the option -{letter}")),
        }
        let rest = cluster.get(index + letter.len_utf8()..).unwrap_or_default();
        if rest.is_empty() && word.shape == Shape::Literal {
            given.push(Given { name, value: Some(one_word(next)?) });
            return Ok(1);
        }
        given.push(Given { name, value: Some(rest_of(word, rest)) });
        return Ok(0);
    }
    if word.shape == Shape::Literal { Ok(0) } else { Err(format!("the word {word}")) }
}

/// The part of a word after an option's name.
fn rest_of(word: &Word, rest: &str) -> Word {
    Word { text: rest.to_owned(), variable: None, plain: false, ..word.clone() }
}

/// A value must be one word: an empty or a split one would shift all that follows.
fn one_word(word: Option<&Word>) -> Result<Word, Odd> {
    match word {
        Some(word) if is_one(word) => Ok(word.clone()),
        Some(word) => Err(format!("the word {word}")),
        None => Err("an option without its value".to_owned()),
    }
}

/// Whether a word stays exactly one word.
pub(super) fn is_one(word: &Word) -> bool {
    match word.shape {
        Shape::Literal | Shape::One | Shape::Process => true,
        // Unquoted, it could also vanish.
        Shape::Many | Shape::Glob => false,
    }
}

/// A file of code is opaque, unless it is no file but text that the command is fed.
pub(super) fn opaque_file(word: &Word) -> Result<(), Odd> {
    match word.value() {
        Some(path) if path != "-" && !path.is_empty() && !path.split('/').any(may_be_fed) => Ok(()),
        Some(_) | None => Err(format!("the file {word}")),
    }
}

/// Whether a part of a path could lead to an open file of the command, from any directory.
fn may_be_fed(part: &str) -> bool {
    matches!(part, ".." | "dev" | "proc" | "self" | "fd" | "stdin")
        || !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_lists_is_understood() {
        assert_eq!(OPTIONS.find_faults(&[]), Vec::<String>::new());
        let tokens = OPTIONS.sets.values().flatten();
        let odd: Vec<_> = tokens.filter(|token| !OptionSet::is_token(token)).collect();
        assert!(odd.is_empty(), "{odd:?}");
    }
}
