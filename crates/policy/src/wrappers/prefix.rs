//! Everyday programs that take a whole command as their last arguments: `env`, `sudo`, `timeout`; and
//! the reader of the options before a command, which accepts more than the programs do.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::command::{Assignment, Effect, Shape, SimpleCommand, VariableValue, Word};
use crate::options::{Block, OptionSet, ProgramTable, stays_one_word};

/// Returns the effects of a program that takes a command; `None` for any other program.
pub(super) fn prefix_effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let prefix = PREFIXES.get(name)?;
    Some(
        following_command_effects(name, command, prefix)
            .unwrap_or_else(|odd| vec![Effect::unclear(name, odd)]),
    )
}

fn following_command_effects(
    name: &str,
    command: &SimpleCommand,
    prefix: &Prefix,
) -> Result<Vec<Effect>, String> {
    let mut args = command.args.as_slice();
    if name == "env" && args.first().is_some_and(|word| word.is("-")) {
        args = args.get(1..).unwrap_or_default();
    }
    let scan = scan_options(args, &prefix.options)?;
    if let Some(option) = scan.options.iter().find(|option| prefix.lists("unclear", option)) {
        return Err(format!("the option {}", option.name));
    }
    if scan.options.iter().any(|option| prefix.lists("inert", option)) {
        return Ok(Vec::new());
    }
    let rest = args.get(scan.rest..).unwrap_or_default();
    let rest = skip_operands(rest, prefix.operands)?;
    let (assignments, rest) = split_assignments(rest, prefix)?;
    if rest.first().is_some_and(|word| word.is("--") && prefix.operands > 0) {
        return Err("a second --".to_owned());
    }
    let command = SimpleCommand::from_words(rest.to_vec());
    let runs = command.map(|command| SimpleCommand { assignments, ..command });
    Ok(runs.map(|command| Effect::Runs(Box::new(command))).into_iter().collect())
}

/// Skips words before the command: a duration, a mask, a directory.
fn skip_operands(words: &[Word], count: usize) -> Result<&[Word], String> {
    let (operands, rest) = words.split_at(count.min(words.len()));
    match operands.iter().find(|word| !stays_one_word(word)) {
        Some(word) => Err(format!("the word {word}")),
        None => Ok(rest),
    }
}

fn split_assignments<'w>(
    words: &'w [Word],
    prefix: &Prefix,
) -> Result<(Vec<Assignment>, &'w [Word]), String> {
    let mut assignments = Vec::new();
    let mut rest = words;
    while prefix.block.has("assigns")
        && let Some((first, others)) = rest.split_first()
    {
        let Some((name, value)) = first.text.split_once('=') else {
            if first.value().is_none() && first.text.is_empty() {
                return Err(format!("the word {first}"));
            }
            break;
        };
        if !stays_one_word(first) {
            return Err(format!("the word {first}"));
        }
        let value =
            first.value().map_or(VariableValue::Unknown, |_| VariableValue::Text(value.to_owned()));
        let name = name.to_owned();
        assignments.push(Assignment { name, value });
        rest = others;
    }
    Ok((assignments, rest))
}

/// A program that takes a whole command as its last arguments. The keys of its block:
///
/// - `options`: the options of the program.
/// - `before`: the number of words between the options and the command.
/// - `assigns`: `NAME=value` may come before the command.
/// - `inert`: options with which the program runs no command.
/// - `unclear`: options with which the program runs a command that is not in its arguments.
#[derive(Debug)]
struct Prefix {
    options: OptionSet,
    operands: usize,
    block: Block,
}

static PREFIXES: LazyLock<HashMap<&'static str, Arc<Prefix>>> = LazyLock::new(|| {
    let mut all = HashMap::new();
    for block in ProgramTable::parse(include_str!("../../tables/prefixes.txt")).programs {
        let operands = block.words("before").first().and_then(|count| count.parse().ok());
        let prefix = Arc::new(Prefix {
            options: OptionSet::from_tokens(block.words("options").iter().copied()),
            operands: operands.unwrap_or_default(),
            block,
        });
        all.extend(prefix.block.names.iter().map(|name| (*name, Arc::clone(&prefix))));
    }
    all
});

impl Prefix {
    /// `true` if the key lists the option, whose name is without dashes.
    fn lists(&self, key: &str, option: &ScannedOption) -> bool {
        self.block.words(key).iter().any(|name| name.trim_start_matches('-') == option.name)
    }
}

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
        Some(word) if stays_one_word(word) => Ok(word.clone()),
        Some(word) => Err(format!("the word {word}")),
        None => Err("an option without its value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_tables_is_valid() {
        let table = ProgramTable::parse(include_str!("../../tables/prefixes.txt"));
        assert_eq!(table.faults, Vec::<&str>::new());
        let keys = ["options", "before", "assigns", "inert", "unclear"];
        let fields = table.programs.iter().flat_map(|block| &block.fields);
        let odd: Vec<_> = fields.filter(|(key, _)| !keys.contains(key)).collect();
        assert!(odd.is_empty(), "{odd:?}");
        assert_eq!(OPTIONS.faults, Vec::<&str>::new());
    }
}
