//! Programs with options that run another program.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::effect::{Effect, SH};
use crate::command::{Redirect, SimpleCommand, Word};
use crate::options::OptionSet;
use crate::tables::ProgramTable;

/// Returns the effects of the options of a program in the table; `None` for any other program.
pub(super) fn exec_option_effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let program = PROGRAMS.get(name)?;
    let mut effects = Vec::new();
    let mut words = command.args.iter().peekable();
    let mut first = true;
    let mut closed = false;
    while let Some(word) = words.next() {
        // `--` may be the value of an unknown option, so words after it still count if they look
        // like options.
        if word.is("--") {
            closed = true;
            continue;
        }
        if closed && word.value().is_none() {
            continue;
        }
        if word.may_become_option() {
            effects.push(Effect::unclear(name, format!("the word {word}")));
            continue;
        }
        let bundle = first && program.bundles && !word.text.starts_with('-');
        first = false;
        match find_option(program, &word.text, bundle) {
            OptionMatch::Runs(option, attached) => {
                let value = match attached {
                    Some(text) => Some(Word { text, ..word.clone() }),
                    None => words.next().cloned(),
                };
                effects.extend(option_effect(name, option, value));
            }
            OptionMatch::Unclear => effects.push(Effect::unclear(name, format!("the word {word}"))),
            OptionMatch::TakesNext => {
                words.next();
            }
            OptionMatch::Other => {}
        }
    }
    effects.extend(shell_word_effect(name, command));
    Some(effects)
}

/// The meaning of a word to a program.
enum OptionMatch<'p> {
    /// An option that runs a command, with its value if that is part of the word.
    Runs(&'p ExecOption, Option<String>),
    /// An option that runs a command, with a value in an unknown word.
    Unclear,
    /// An option whose value is the next word.
    TakesNext,
    Other,
}

fn find_option<'p>(program: &'p ExecProgram, text: &str, bundle: bool) -> OptionMatch<'p> {
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        // GNU programs accept abbreviations of long options.
        let runs = program.runs.iter().find(|option| {
            !name.is_empty() && option.name.len() > 2 && option.name.starts_with(name)
        });
        return match runs {
            Some(option) => OptionMatch::Runs(option, value),
            None if value.is_none() && program.takes_next(&format!("--{name}")) => {
                OptionMatch::TakesNext
            }
            None => OptionMatch::Other,
        };
    }
    match text.strip_prefix('-') {
        Some(cluster) => find_in_cluster(program, cluster),
        None if bundle => find_in_bundle(program, text),
        None => OptionMatch::Other,
    }
}

fn find_in_cluster<'p>(program: &'p ExecProgram, cluster: &str) -> OptionMatch<'p> {
    for (index, letter) in cluster.char_indices() {
        let here = cluster.get(index..).unwrap_or_default();
        let two = program.runs.iter().filter(|option| option.name.len() == 2);
        if let Some((option, rest)) =
            two.filter_map(|it| here.strip_prefix(it.name).map(|rest| (it, rest))).next()
        {
            return OptionMatch::Runs(option, (!rest.is_empty()).then(|| rest.to_owned()));
        }
        let rest = cluster.get(index + letter.len_utf8()..).unwrap_or_default();
        let named =
            |option: &&ExecOption| option.name.len() == 1 && option.name.starts_with(letter);
        if let Some(option) = program.runs.iter().find(named) {
            return OptionMatch::Runs(option, (!rest.is_empty()).then(|| rest.to_owned()));
        }
        if program.takes_next(&format!("-{letter}")) {
            return if rest.is_empty() { OptionMatch::TakesNext } else { OptionMatch::Other };
        }
    }
    OptionMatch::Other
}

/// Finds an option in a bundle such as `tar xIf PROGRAM FILE`. The values follow in the order of
/// the letters, so the option's value is unclear.
fn find_in_bundle<'p>(program: &'p ExecProgram, letters: &str) -> OptionMatch<'p> {
    let named = |option: &&ExecOption| option.name.len() == 1 && letters.contains(option.name);
    match program.runs.iter().find(named) {
        Some(_) => OptionMatch::Unclear,
        None => OptionMatch::Other,
    }
}

fn option_effect(name: &str, option: &ExecOption, value: Option<Word>) -> Option<Effect> {
    let unclear = || Some(Effect::unclear(name, format!("the option {}", option.name)));
    let Some(value) = value else {
        return unclear();
    };
    match (option.kind, value.value()) {
        (ExecValueKind::Text, _) => Some(Effect::script(&value, SH)),
        (ExecValueKind::Action, Some(text)) if !text.contains("exec") => None,
        (ExecValueKind::Action, Some(text)) => match text.strip_prefix("exec=") {
            Some(code) => Some(Effect::Script { text: code.to_owned(), reader: SH }),
            None => unclear(),
        },
        (ExecValueKind::Action, None) | (ExecValueKind::Unclear, _) => unclear(),
    }
}

/// Returns the words that run a shell in the language of an interpreter; empty for other programs.
fn shell_words(name: &str) -> &'static [&'static str] {
    match name {
        "psql" | "mysql" | "mariadb" => &["\\!", "program", "system"],
        "sqlite3" => &[".shell", ".system", "|", "edit(", "load_extension"],
        "dc" => &["!"],
        _ => &[],
    }
}

/// `true` if a command would run a shell when it reads this input.
pub(crate) fn runs_shell_on_input(command: &SimpleCommand, input: &str) -> bool {
    let input = input.to_ascii_lowercase();
    let name = command.name().unwrap_or_default();
    shell_words(name).iter().any(|marker| input.contains(marker))
}

/// Returns a doubt if the arguments or the input of an interpreter may run a shell.
fn shell_word_effect(name: &str, command: &SimpleCommand) -> Option<Effect> {
    let markers = shell_words(name);
    if markers.is_empty() {
        return None;
    }
    let fed = |redirect: &Redirect| match redirect {
        Redirect::Text(Some(text)) => runs_shell_on_input(command, text),
        Redirect::Text(None) => true,
        Redirect::Read(_) | Redirect::Write(_) | Redirect::Duplicate | Redirect::Heredoc => false,
    };
    if command.redirects.iter().any(fed) {
        return Some(Effect::unclear(name, "what it is fed"));
    }
    let args = command.args.iter().map(|word| (word, word.text.to_ascii_lowercase()));
    let found = args.filter(|(word, text)| {
        word.value().is_none() || markers.iter().any(|marker| text.contains(marker))
    });
    found.map(|(word, _)| Effect::unclear(name, format!("the word {word}"))).next()
}

/// The kind of value of an option that runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExecValueKind {
    /// `runs`: a command line.
    Text,
    /// `runs_action`: `exec=` and a command line, or something harmless.
    Action,
    /// `unclear`: a value that is not followed.
    Unclear,
}

/// An option that runs a command: one letter, two letters after one dash, or a long name.
#[derive(Debug)]
struct ExecOption {
    name: &'static str,
    kind: ExecValueKind,
}

/// A program with options that run commands.
#[derive(Debug)]
struct ExecProgram {
    runs: Vec<ExecOption>,
    /// Other options that take a value.
    options: OptionSet,
    /// `true` if the first word may contain options without a dash.
    bundles: bool,
}

impl ExecProgram {
    fn takes_next(&self, option: &str) -> bool {
        self.options.takes_next(option) == Some(true)
    }
}

static PROGRAMS: LazyLock<HashMap<&'static str, Arc<ExecProgram>>> = LazyLock::new(|| {
    let mut all = HashMap::new();
    for block in ProgramTable::parse(include_str!("../../tables/exec_options.txt")).programs {
        let kinds = [
            ("runs", ExecValueKind::Text),
            ("runs_action", ExecValueKind::Action),
            ("unclear", ExecValueKind::Unclear),
        ];
        let runs = kinds.iter().flat_map(|(key, kind)| {
            let names = block.words(key).iter().map(|name| name.trim_start_matches('-'));
            names.map(|name| ExecOption { name, kind: *kind })
        });
        let program = Arc::new(ExecProgram {
            runs: runs.collect(),
            options: OptionSet::from_tokens(block.words("options").iter().copied()),
            bundles: block.has("bundles"),
        });
        all.extend(block.names.iter().map(|name| (*name, Arc::clone(&program))));
    }
    all
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_exec_options_table_is_valid() {
        let table = ProgramTable::parse(include_str!("../../tables/exec_options.txt"));
        let keys = ["runs", "runs_action", "unclear", "options", "bundles"];
        assert_eq!(table.find_faults(&keys), Vec::<String>::new());
    }
}
