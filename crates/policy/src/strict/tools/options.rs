//! Reading arguments by a list of known options.

use super::consequence::Doubt;
use crate::command::{Shape, Word};

/// The options of a program that are known to be harmless. Names are exact: an abbreviation, which
/// GNU programs accept, is an unknown option here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    /// Short options without a value.
    pub(super) flags: &'static str,
    /// Short options with a value, in the same word or the next.
    pub(super) values: &'static str,
    /// Short options whose value, if any, is in the same word (`sed -i.bak`).
    pub(super) attached: &'static str,
    /// Long options without a value.
    pub(super) long_flags: &'static [&'static str],
    /// Long options with a value, after `=` or in the next word.
    pub(super) long_values: &'static [&'static str],
    /// Long options whose value, if any, stands after `=` (`--color=auto`).
    pub(super) long_attached: &'static [&'static str],
    /// Further long options in one text, separated by white space: `name`, `name=` with a value
    /// after `=` or in the next word, `name=?` with a value, if any, after `=`.
    pub(super) long: &'static str,
    /// Every known long option `--name` has a form `--no-name`, as in git.
    pub(super) negated: bool,
    /// No option of the program does harm, also none that is not listed, so a word that may become
    /// an option is taken as an operand. Options that are written out are still checked.
    pub(super) tolerant: bool,
    /// A value in a word of its own may not begin with a dash. For programs with several option
    /// parsers, which may not agree on whether an option takes the next word.
    pub(super) undashed_values: bool,
    /// `-20` is an option.
    pub(super) numbers: bool,
    /// The place of options among the words.
    pub(super) order: Order,
}

/// The place of options among the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Anywhere before `--`, as GNU programs read them.
    Anywhere,
    /// Only before the first operand: what follows belongs to another command.
    First,
}

/// A program without options.
pub(super) const NO_OPTIONS: Options = Options {
    flags: "",
    values: "",
    attached: "",
    long_flags: &[],
    long_values: &[],
    long_attached: &[],
    long: "",
    negated: false,
    tolerant: false,
    undashed_values: false,
    numbers: false,
    order: Order::Anywhere,
};

/// One option that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    /// Its name without dashes.
    pub(super) name: String,
    /// Its value, if it has one.
    pub(super) value: Option<Word>,
}

/// Arguments, sorted into options and operands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) options: Vec<Given>,
    pub(super) operands: Vec<Word>,
}

impl Arguments {
    /// `true` if one of these options was given.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|given| names.contains(&given.name.as_str()))
    }

    /// The values of all options of these names.
    pub(super) fn values<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'a Word> {
        let named = self.options.iter().filter(|given| names.contains(&given.name.as_str()));
        named.filter_map(|given| given.value.as_ref())
    }
}

impl Options {
    /// Finds out how a long option takes its value; `None` for an option that is not known.
    fn find_long(&self, name: &str) -> Option<Takes> {
        let is = |takes: Takes, names: &[&str]| names.contains(&name).then_some(takes);
        is(Takes::Nothing, self.long_flags)
            .or_else(|| is(Takes::Value, self.long_values))
            .or_else(|| is(Takes::Attached, self.long_attached))
            .or_else(|| self.long.split_whitespace().find_map(|entry| read_entry(entry, name)))
            .or_else(|| {
                let positive = name.strip_prefix("no-").filter(|_| self.negated)?;
                self.find_long(positive).map(|_| Takes::Nothing)
            })
    }
}

/// The form in which an option takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    Attached,
}

/// Reads one entry of [`Options::long`]; `None` if it is another option.
fn read_entry(entry: &str, name: &str) -> Option<Takes> {
    match entry.strip_prefix(name)? {
        "" => Some(Takes::Nothing),
        "=" => Some(Takes::Value),
        "=?" => Some(Takes::Attached),
        _ => None,
    }
}

/// The value of a word that must be known.
///
/// # Errors
/// Names the word.
pub(super) fn known(word: &Word) -> Result<&str, Doubt> {
    word.value().ok_or_else(|| format!("the word {word}"))
}

/// Sorts arguments by the options that are known.
///
/// # Errors
/// Names the first word that is no known option and may be one when it runs.
pub(super) fn read(args: &[Word], known: &Options) -> Result<Arguments, Doubt> {
    let mut found = Arguments::default();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        if word.is("--") {
            found.operands.extend(words.cloned());
            break;
        }
        let is_operand = match is_operand(word) {
            Err(_) if known.tolerant => true,
            other => other?,
        };
        if is_operand {
            found.operands.push(word.clone());
            if known.order == Order::First {
                found.operands.extend(words.cloned());
                break;
            }
            continue;
        }
        let needs_value = match word.text.strip_prefix("--") {
            Some(long) => read_long(word, long, known, &mut found.options)?,
            None => read_cluster(word, known, &mut found.options)?,
        };
        if let Some(name) = needs_value {
            let value = words.next().ok_or_else(|| format!("the option {name} without a value"))?;
            // A word that may vanish or split would make the next word an option or an operand.
            let is_dashed = known.undashed_values && value.text.starts_with('-');
            if !stays_one_word(value) || is_dashed {
                return Err(format!("the word {value}"));
            }
            if let Some(given) = found.options.last_mut() {
                given.value = Some(value.clone());
            }
        }
    }
    Ok(found)
}

/// `true` for a word that can be no option, whatever its unknown part is.
///
/// # Errors
/// The word may be an option or an operand.
pub(super) fn is_operand(word: &Word) -> Result<bool, Doubt> {
    let is_plain = !word.text.starts_with('-');
    match word.shape {
        Shape::Literal => Ok(is_plain || word.text == "-"),
        Shape::Process => Ok(true),
        Shape::One | Shape::Glob | Shape::Many if word.plain && is_plain => Ok(true),
        Shape::One | Shape::Glob if !word.text.is_empty() && is_plain => Ok(true),
        Shape::One if word.text.len() > 1 => Ok(false),
        Shape::One | Shape::Glob | Shape::Many => Err(format!("the word {word}")),
    }
}

/// `true` if the word becomes exactly one word.
pub(super) fn stays_one_word(word: &Word) -> bool {
    match word.shape {
        Shape::Literal | Shape::One | Shape::Process => true,
        Shape::Many | Shape::Glob => false,
    }
}

/// Reads `--name` or `--name=value`; returns the name if the next word is its value.
fn read_long(
    word: &Word,
    long: &str,
    known: &Options,
    given: &mut Vec<Given>,
) -> Result<Option<String>, Doubt> {
    let unknown = || Err(format!("the option {}", shown(word)));
    let (name, value) = match long.split_once('=') {
        Some((name, value)) => (name, Some(rest_of(word, value))),
        None if word.shape == Shape::Literal => (long, None),
        None => return unknown(),
    };
    let needs_next = match known.find_long(name) {
        Some(Takes::Nothing) if value.is_none() => false,
        Some(Takes::Value) => value.is_none(),
        Some(Takes::Attached) => false,
        Some(Takes::Nothing) | None => return unknown(),
    };
    given.push(Given { name: name.to_owned(), value });
    Ok(needs_next.then(|| format!("--{name}")))
}

/// Reads `-abc`; returns the last option if the next word is its value.
fn read_cluster(
    word: &Word,
    known: &Options,
    given: &mut Vec<Given>,
) -> Result<Option<String>, Doubt> {
    let cluster = word.text.get(1..).unwrap_or_default();
    let is_literal = word.shape == Shape::Literal;
    if known.numbers && is_literal && cluster.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    for (index, letter) in cluster.char_indices() {
        let name = letter.to_string();
        let rest = cluster.get(index + letter.len_utf8()..).unwrap_or_default();
        if known.flags.contains(letter) {
            given.push(Given { name, value: None });
        } else if known.attached.contains(letter) {
            let value = (!rest.is_empty() || !is_literal).then(|| rest_of(word, rest));
            given.push(Given { name, value });
            return Ok(None);
        } else if known.values.contains(letter) {
            let is_here = !rest.is_empty();
            // `-n$x`: an empty value would take the next word instead.
            if !is_here && !is_literal {
                return Err(format!("the word {word}"));
            }
            given.push(Given { name, value: is_here.then(|| rest_of(word, rest)) });
            return Ok((!is_here).then(|| format!("-{letter}")));
        } else {
            return Err(format!("the option -{letter}"));
        }
    }
    if is_literal { Ok(None) } else { Err(format!("the word {word}")) }
}

/// An option as a refusal names it: without its value.
fn shown(word: &Word) -> &str {
    word.text.split('=').next().unwrap_or(&word.text)
}

/// The part of a word behind an option's name.
fn rest_of(word: &Word, rest: &str) -> Word {
    let source = if word.shape == Shape::Literal { String::new() } else { word.source.clone() };
    Word { text: rest.to_owned(), source, variable: None, ..word.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Options = Options {
        flags: "qv",
        values: "o",
        attached: "i",
        long_flags: &["quiet"],
        long: "output= color=? verbose",
        numbers: true,
        ..NO_OPTIONS
    };

    /// Literal words, split at spaces; `$x` is a word of unknown value.
    fn words(line: &str) -> Vec<Word> {
        line.split(' ').map(word).collect()
    }

    fn word(text: &str) -> Word {
        match text.split_once('$') {
            Some((prefix, _)) => Word::unknown(prefix, Shape::One),
            None => Word::literal(text),
        }
    }

    #[track_caller]
    fn operands(line: &str, known: &Options) -> Result<Vec<String>, Doubt> {
        let found = read(&words(line), known)?;
        Ok(found.operands.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn known_options_are_read_in_all_their_forms() {
        for line in [
            "-qv a",
            "-qo out a",
            "-oout a",
            "-i a",
            "-i.bak a",
            "-20 a",
            "--quiet a",
            "--output out a",
            "--output=out a",
            "--output -- a",
            "--color a",
            "--color=auto a",
            "--output=$x a",
            "-o$x a",
            "-o $x a",
        ] {
            let expected = if line == "-o$x a" { None } else { Some(vec!["a".to_owned()]) };
            assert_eq!(operands(line, &KNOWN).ok(), expected, "{line}");
        }
    }

    #[test]
    fn an_unknown_option_is_named() {
        for (line, doubt) in [
            ("-qx a", "the option -x"),
            ("--quie a", "the option --quie"),
            ("--quiet=1 a", "the option --quiet"),
            ("--no-quiet a", "the option --no-quiet"),
            ("--$x a", "the option --"),
            ("$x", "the word …"),
            ("-$x", "the word -…"),
            ("-o", "the option -o without a value"),
        ] {
            assert_eq!(operands(line, &KNOWN), Err(doubt.to_owned()), "{line}");
        }
    }

    #[test]
    fn two_dashes_end_options_unless_they_are_a_value() {
        assert_eq!(operands("-- -x", &KNOWN), Ok(vec!["-x".to_owned()]));
        assert_eq!(operands("-o -- -x", &KNOWN), Err("the option -x".to_owned()));
    }

    #[test]
    fn a_value_may_have_to_begin_without_a_dash() {
        let undashed = Options { undashed_values: true, ..KNOWN };
        assert_eq!(operands("-o -- a", &undashed), Err("the word --".to_owned()));
        assert_eq!(operands("-o x a", &undashed), Ok(vec!["a".to_owned()]));
    }

    #[test]
    fn a_tolerant_program_takes_unknown_words_and_still_refuses_unknown_options() {
        let tolerant = Options { tolerant: true, negated: true, ..KNOWN };
        assert_eq!(operands("$x --no-quiet", &tolerant), Ok(vec!["…".to_owned()]));
        assert_eq!(operands("$x --other", &tolerant), Err("the option --other".to_owned()));
    }
}
