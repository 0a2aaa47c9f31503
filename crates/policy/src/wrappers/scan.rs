//! The reader of options before a command. It accepts more than the programs do.

use std::sync::LazyLock;

use crate::command::{Shape, Word};
use crate::options::OptionSet;
use crate::tables::ProgramTable;

static OPTIONS: LazyLock<ProgramTable> =
    LazyLock::new(|| ProgramTable::parse(include_str!("../../tables/wide_options.txt")));

/// Returns a list of options by its name in the table.
pub(super) fn option_set(name: &str) -> OptionSet {
    let tokens = OPTIONS.sets.get(name).map(Vec::as_slice).unwrap_or_default();
    OptionSet::from_tokens(tokens.iter().copied())
}

/// One option of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScannedOption {
    /// The option's name without dashes.
    pub(super) name: String,
    pub(super) value: Option<Word>,
}

/// The options of a command line, and the index of the first word after them.
#[derive(Debug, Default)]
pub(super) struct ScannedOptions {
    pub(super) options: Vec<ScannedOption>,
    pub(super) rest: usize,
}

impl ScannedOptions {
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|option| names.contains(&option.name.as_str()))
    }

    /// Returns the values of all options with these names.
    pub(super) fn values(&self, names: &[&str]) -> impl Iterator<Item = &Word> {
        let named = self.options.iter().filter(|option| names.contains(&option.name.as_str()));
        named.filter_map(|option| option.value.as_ref())
    }

    pub(super) fn value(&self, names: &[&str]) -> Option<&Word> {
        let named = self.options.iter().rfind(|option| names.contains(&option.name.as_str()));
        named.and_then(|option| option.value.as_ref())
    }
}

/// The option or word that is not understood, as part of a sentence.
pub(super) type NotUnderstood = String;

/// Reads options up to the first word that is not an option.
pub(super) fn scan_options(
    args: &[Word],
    options: &OptionSet,
) -> Result<ScannedOptions, NotUnderstood> {
    let mut scan = ScannedOptions::default();
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
        let used = match word.text.strip_prefix("--") {
            Some(long) => read_long_option(word, long, next, options, &mut scan.options)?,
            None => read_short_options(word, next, options, &mut scan.options)?,
        };
        scan.rest += used;
    }
    Ok(scan)
}

/// Reads a long option. Returns the number of further words that it uses.
fn read_long_option(
    word: &Word,
    long: &str,
    next: Option<&Word>,
    options: &OptionSet,
    given: &mut Vec<ScannedOption>,
) -> Result<usize, NotUnderstood> {
    let (name, attached) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value_in_word(word, value))),
        None if word.shape == Shape::Literal => (long, None),
        None => return Err(format!("the word {word}")),
    };
    // A program may accept `--flag=value` although its help does not say so.
    let takes = options.takes_next(&format!("--{name}")).filter(|_| !name.is_empty());
    let Some(takes) = takes else {
        return Err(format!("the option --{name}"));
    };
    let (value, used) = match attached {
        Some(value) => (Some(value), 0),
        None if takes => (Some(require_one_word(next)?), 1),
        None => (None, 0),
    };
    given.push(ScannedOption { name: name.to_owned(), value });
    Ok(used)
}

/// Reads a cluster of short options. Returns the number of further words that it uses.
fn read_short_options(
    word: &Word,
    next: Option<&Word>,
    options: &OptionSet,
    given: &mut Vec<ScannedOption>,
) -> Result<usize, NotUnderstood> {
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
                given.push(ScannedOption { name, value: None });
                continue;
            }
            None => return Err(format!("the option -{letter}")),
        }
        let rest = cluster.get(index + letter.len_utf8()..).unwrap_or_default();
        if rest.is_empty() && word.shape == Shape::Literal {
            given.push(ScannedOption { name, value: Some(require_one_word(next)?) });
            return Ok(1);
        }
        given.push(ScannedOption { name, value: Some(value_in_word(word, rest)) });
        return Ok(0);
    }
    if word.shape == Shape::Literal { Ok(0) } else { Err(format!("the word {word}")) }
}

/// Returns the part of a word after an option's name.
fn value_in_word(word: &Word, rest: &str) -> Word {
    Word { text: rest.to_owned(), variable: None, plain: false, ..word.clone() }
}

/// Returns the value of an option. It must be one word: an empty or split value would shift all
/// words after it.
fn require_one_word(word: Option<&Word>) -> Result<Word, NotUnderstood> {
    match word {
        Some(word) if is_one_word(word) => Ok(word.clone()),
        Some(word) => Err(format!("the word {word}")),
        None => Err("an option without its value".to_owned()),
    }
}

/// `true` if a word stays exactly one word when it is expanded.
pub(super) fn is_one_word(word: &Word) -> bool {
    match word.shape {
        Shape::Literal | Shape::One | Shape::Process => true,
        // An unquoted word could also expand to nothing.
        Shape::Many | Shape::Glob => false,
    }
}

/// Accepts a file of code, which is opaque. Fails if the path may lead to the command's own input.
pub(super) fn check_opaque_file(word: &Word) -> Result<(), NotUnderstood> {
    match word.value() {
        Some(path)
            if path != "-" && !path.is_empty() && !path.split('/').any(may_lead_to_open_file) =>
        {
            Ok(())
        }
        Some(_) | None => Err(format!("the file {word}")),
    }
}

/// `true` if a part of a path could lead to an open file of the command, from any directory.
fn may_lead_to_open_file(part: &str) -> bool {
    matches!(part, ".." | "dev" | "proc" | "self" | "fd" | "stdin")
        || !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_option_lists_is_valid() {
        assert_eq!(OPTIONS.find_faults(&[]), Vec::<String>::new());
        let tokens = OPTIONS.sets.values().flatten();
        let odd: Vec<_> = tokens.filter(|token| !OptionSet::is_token(token)).collect();
        assert!(odd.is_empty(), "{odd:?}");
    }
}
