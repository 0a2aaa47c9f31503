//! Arguments in rules: exact beginnings to allow, meaning to deny.

use super::glob::fits;
use super::rule::Match;
use crate::command::{Shape, SimpleCommand, Word};
use crate::wrappers::git_operands;

/// Whether the command's arguments start with the rule's, word for word.
pub(super) fn start_with(rule: &[String], args: &[Word]) -> Match {
    for (index, wanted) in rule.iter().enumerate() {
        if wanted == "*" && index + 1 == rule.len() {
            return Match::Yes;
        }
        match args.get(index).map(Word::value) {
            Some(Some(text)) if fits(wanted, text) => {}
            Some(Some(_)) | None => return Match::No,
            Some(None) => return Match::Maybe,
        }
    }
    Match::Yes
}

/// Whether the command does what the rule's arguments say, in any order of its options.
///
/// The rule's operands must be the command's first ones; its options must all be given, in any
/// spelling: `-rf` is `-r -f`, `-fR`, `--recursive --force`.
pub(super) fn mean(rule: &[String], command: &SimpleCommand) -> Match {
    let words = match command.name() {
        Some("git") => git_operands(&command.args),
        Some(_) | None => &command.args,
    };
    let given = Given::of(words);
    let (options, operands): (Vec<&String>, Vec<&String>) =
        rule.iter().partition(|word| word.starts_with('-') && word.len() > 1);
    let options = options.iter().map(|option| given.has(option));
    let operands = given.starts_with(&operands);
    options.fold(operands, Match::and)
}

/// The arguments of a command, sorted.
#[derive(Debug, Default)]
struct Given<'w> {
    options: Vec<&'w str>,
    /// Each with whether it follows an option, whose value it may be.
    operands: Vec<(&'w Word, bool)>,
    /// Some word may turn out to be an option.
    open: bool,
}

impl<'w> Given<'w> {
    fn of(words: &'w [Word]) -> Self {
        let mut given = Self::default();
        let mut after_option = false;
        let mut closed = false;
        for word in words {
            let option = !closed && word.text.starts_with('-') && word.text.len() > 1;
            if word.is("--") {
                closed = true;
            } else if option {
                given.options.push(&word.text);
                given.open |= word.shape != Shape::Literal;
            } else {
                // A file could be called `-rf`, but nobody writes a pattern for that.
                given.open |= !closed && word.shape != Shape::Glob && word.may_become_option();
                given.operands.push((word, after_option));
            }
            after_option = option && !word.text.contains('=');
        }
        given
    }

    fn has(&self, wanted: &str) -> Match {
        let exact = self.options.contains(&wanted);
        let found = exact
            || match wanted.strip_prefix("--") {
                Some(name) => self.has_long(name),
                None => wanted.chars().skip(1).all(|letter| self.has_letter(letter)),
            };
        match (found, self.open) {
            (true, _) => Match::Yes,
            (false, true) => Match::Maybe,
            (false, false) => Match::No,
        }
    }

    fn has_letter(&self, letter: char) -> bool {
        let same = |other: char| fold(other) == fold(letter);
        self.options.iter().any(|option| match option.strip_prefix("--") {
            Some(long) => long_name(letter).is_some_and(|name| is_short_for(long, name)),
            None => option.chars().skip(1).any(same),
        })
    }

    fn has_long(&self, name: &str) -> bool {
        let letter = ['r', 'f'].into_iter().find(|letter| long_name(*letter) == Some(name));
        self.options.iter().any(|option| match option.strip_prefix("--") {
            Some(long) => is_short_for(long, name),
            None => letter.is_some_and(|letter| option.chars().skip(1).any(|c| fold(c) == letter)),
        })
    }

    /// The wanted operands stand first, or first behind what may be values of options.
    fn starts_with(&self, wanted: &[&String]) -> Match {
        let starts = self.operands.iter().take_while(|(_, after_option)| *after_option).count();
        (0..=starts).map(|start| self.starts_with_at(start, wanted)).fold(Match::No, Match::or)
    }

    fn starts_with_at(&self, start: usize, wanted: &[&String]) -> Match {
        let operands = self.operands.get(start..).unwrap_or_default();
        let mut result = Match::Yes;
        for (index, wanted) in wanted.iter().enumerate() {
            let one = match operands.get(index) {
                Some((word, _)) => match word.value() {
                    Some(text) if fits(wanted, text) => Match::Yes,
                    Some(_) => Match::No,
                    None if word.shape == Shape::Many || wanted.starts_with(&word.text) => {
                        return result.and(Match::Maybe);
                    }
                    None => Match::No,
                },
                None => Match::No,
            };
            result = result.and(one);
        }
        result
    }
}

/// `-R` and `-r` mean the same to every program that has both and that rules are written for.
const fn fold(letter: char) -> char {
    if letter == 'R' { 'r' } else { letter }
}

const fn long_name(letter: char) -> Option<&'static str> {
    match fold(letter) {
        'r' => Some("recursive"),
        'f' => Some("force"),
        _ => None,
    }
}

/// GNU programs take any beginning of a long option's name.
fn is_short_for(given: &str, name: &str) -> bool {
    let given = given.split('=').next().unwrap_or(given);
    !given.is_empty() && name.starts_with(given)
}
