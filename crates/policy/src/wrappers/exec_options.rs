//! Programs of which some options run another program.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::effect::{Effect, SH};
use crate::command::{Redirect, SimpleCommand, Word};
use crate::options::OptionSet;
use crate::tables::Table;

/// What the options of such a program lead to; `None` for any other program.
pub(super) fn effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let program = PROGRAMS.get(name)?;
    let mut effects = Vec::new();
    let mut words = command.args.iter().peekable();
    let (mut first, mut closed) = (true, false);
    while let Some(word) = words.next() {
        // `--` may be the value of an option that is not known here, so words behind it still
        // count if they are options as written.
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
            Found::Runs(option, attached) => {
                let value = match attached {
                    Some(text) => Some(Word { text, ..word.clone() }),
                    None => words.next().cloned(),
                };
                effects.extend(run(name, option, value));
            }
            Found::Unclear => effects.push(Effect::unclear(name, format!("the word {word}"))),
            Found::TakesNext => {
                words.next();
            }
            Found::Other => {}
        }
    }
    effects.extend(markers(name, command));
    Some(effects)
}

/// What a word is to a program.
enum Found<'p> {
    /// An option that runs something, with its value if it is part of the word.
    Runs(&'p ExecOption, Option<String>),
    /// An option that runs something, with a value that stands elsewhere.
    Unclear,
    /// An option whose value is the next word.
    TakesNext,
    /// Nothing that matters.
    Other,
}

fn find_option<'p>(program: &'p ExecProgram, text: &str, bundle: bool) -> Found<'p> {
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        // GNU programs take any beginning of an option's name.
        let runs = program.runs.iter().find(|option| {
            !name.is_empty() && option.name.len() > 2 && option.name.starts_with(name)
        });
        return match runs {
            Some(option) => Found::Runs(option, value),
            None if value.is_none() && program.takes_next(&format!("--{name}")) => Found::TakesNext,
            None => Found::Other,
        };
    }
    match text.strip_prefix('-') {
        Some(cluster) => in_cluster(program, cluster),
        None if bundle => in_bundle(program, text),
        None => Found::Other,
    }
}

fn in_cluster<'p>(program: &'p ExecProgram, cluster: &str) -> Found<'p> {
    for (index, letter) in cluster.char_indices() {
        let here = cluster.get(index..).unwrap_or_default();
        let two = program.runs.iter().filter(|option| option.name.len() == 2);
        if let Some((option, rest)) =
            two.filter_map(|it| here.strip_prefix(it.name).map(|rest| (it, rest))).next()
        {
            return Found::Runs(option, (!rest.is_empty()).then(|| rest.to_owned()));
        }
        let rest = cluster.get(index + letter.len_utf8()..).unwrap_or_default();
        let named =
            |option: &&ExecOption| option.name.len() == 1 && option.name.starts_with(letter);
        if let Some(option) = program.runs.iter().find(named) {
            return Found::Runs(option, (!rest.is_empty()).then(|| rest.to_owned()));
        }
        if program.takes_next(&format!("-{letter}")) {
            return if rest.is_empty() { Found::TakesNext } else { Found::Other };
        }
    }
    Found::Other
}

/// `tar xIf PROGRAM FILE`: values follow in the order of the letters, so this one is unclear.
fn in_bundle<'p>(program: &'p ExecProgram, letters: &str) -> Found<'p> {
    let named = |option: &&ExecOption| option.name.len() == 1 && letters.contains(option.name);
    match program.runs.iter().find(named) {
        Some(_) => Found::Unclear,
        None => Found::Other,
    }
}

fn run(name: &str, option: &ExecOption, value: Option<Word>) -> Option<Effect> {
    let unclear = || Some(Effect::unclear(name, format!("the option {}", option.name)));
    let Some(value) = value else {
        return unclear();
    };
    match (option.how, value.value()) {
        (How::Text, _) => Some(Effect::script(&value, SH)),
        (How::Action, Some(text)) if !text.contains("exec") => None,
        (How::Action, Some(text)) => match text.strip_prefix("exec=") {
            Some(code) => Some(Effect::Script { text: code.to_owned(), reader: SH }),
            None => unclear(),
        },
        (How::Action, None) | (How::Unclear, _) => unclear(),
    }
}

/// Words that run a shell in the language of an interpreter; none for any other program.
fn shell_words(name: &str) -> &'static [&'static str] {
    match name {
        "psql" | "mysql" | "mariadb" => &["\\!", "program", "system"],
        "sqlite3" => &[".shell", ".system", "|", "edit(", "load_extension"],
        "dc" => &["!"],
        _ => &[],
    }
}

/// `true` if this command would run a shell because of what it is fed.
pub(crate) fn runs_shell_for(command: &SimpleCommand, input: &str) -> bool {
    let input = input.to_ascii_lowercase();
    let name = command.name().unwrap_or_default();
    shell_words(name).iter().any(|marker| input.contains(marker))
}

/// Interpreters of their own little languages, in which some words run a shell.
fn markers(name: &str, command: &SimpleCommand) -> Option<Effect> {
    let markers = shell_words(name);
    if markers.is_empty() {
        return None;
    }
    let fed = |redirect: &Redirect| match redirect {
        Redirect::Text(Some(text)) => runs_shell_for(command, text),
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

/// The value of an option that runs something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// `runs`: a command line.
    Text,
    /// `runs_action`: `exec=` and a command line, or something harmless.
    Action,
    /// `unclear`: something that is not followed.
    Unclear,
}

/// An option that runs something: one letter, two letters behind one dash, or a long name.
#[derive(Debug)]
struct ExecOption {
    name: &'static str,
    how: How,
}

/// A program with such options.
#[derive(Debug)]
struct ExecProgram {
    runs: Vec<ExecOption>,
    /// Other options that take a value.
    options: OptionSet,
    /// The first word may hold options without a dash.
    bundles: bool,
}

impl ExecProgram {
    fn takes_next(&self, option: &str) -> bool {
        self.options.takes_next(option) == Some(true)
    }
}

static PROGRAMS: LazyLock<HashMap<&'static str, Arc<ExecProgram>>> = LazyLock::new(|| {
    let mut all = HashMap::new();
    for block in Table::parse(include_str!("../../tables/exec_options.txt")).programs {
        let kinds = [("runs", How::Text), ("runs_action", How::Action), ("unclear", How::Unclear)];
        let runs = kinds.iter().flat_map(|(key, how)| {
            let names = block.words(key).iter().map(|name| name.trim_start_matches('-'));
            names.map(|name| ExecOption { name, how: *how })
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
    fn every_line_of_the_table_is_understood() {
        let table = Table::parse(include_str!("../../tables/exec_options.txt"));
        let keys = ["runs", "runs_action", "unclear", "options", "bundles"];
        assert_eq!(table.find_faults(&keys), Vec::<String>::new());
    }
}
