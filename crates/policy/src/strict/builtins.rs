//! Builtins of the shell whose effect is certain, and the arguments with which it is.

use crate::command::{Shape, Word};
use crate::options::has_word;
use crate::strict::reader::is_name;

/// Every other builtin of bash and dash. Some run text (`eval`, `trap`), some change how the rest
/// is read (`alias`, `shopt`), some evaluate names with subscripts (`declare`, `let`, `getopts`).
const REFUSED: &str = ". alias bind builtin caller chdir compgen complete compopt declare enable eval exec fc \
    getopts hash help history let local logout mapfile readarray readonly shopt source suspend \
    trap typeset ulimit unalias vared";

/// The effect of a builtin and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Builtin {
    /// Starts no program and exports nothing. The recogniser notes the variables that it assigns.
    Harmless,
    /// Exports these variables, each with its value if that is known, to programs that start later.
    Exports(Vec<(String, Option<String>)>),
    /// Runs another command.
    Runs(Vec<Word>),
}

/// Looks at a command that the shell runs itself; `None` for a program.
///
/// # Errors
/// Names the builtin, or the argument, whose effect is not certain.
pub(super) fn look_up(name: &str, args: &[Word]) -> Option<Result<Builtin, String>> {
    let result = match name {
        // Their arguments are text, paths and plain numbers; none is evaluated.
        ":" | "true" | "false" | "echo" | "pwd" | "cd" | "type" | "kill" | "exit" | "return"
        | "break" | "continue" => Ok(Builtin::Harmless),
        "printf" => printf(args),
        "test" | "[" => test(args),
        "read" => read(args),
        "export" => export(args),
        "unset" => unset(args),
        "set" => set(args),
        "wait" => wait(args),
        "umask" | "times" | "shift" => all_literal(name, args).map(|()| Builtin::Harmless),
        "pushd" | "popd" | "dirs" | "jobs" | "fg" | "bg" | "disown" => {
            let is_plain = args.iter().all(|word| word.value().is_some_and(is_operand));
            if is_plain { Ok(Builtin::Harmless) } else { Err(format!("an argument of `{name}`")) }
        }
        "command" => command(args),
        _ if has_word(REFUSED, name) => Err(format!("the builtin `{name}`")),
        _ => return None,
    };
    Some(result)
}

/// `true` for builtins that assign, and so must stand where the recogniser sees them.
pub(super) fn assigns(name: &str) -> bool {
    matches!(name, "read" | "export" | "unset" | "set")
}

fn is_operand(text: &str) -> bool {
    !text.starts_with('-') && !text.contains('[')
}

fn all_literal(name: &str, args: &[Word]) -> Result<(), String> {
    let odd = args.iter().find(|word| word.value().is_none());
    odd.map_or(Ok(()), |word| Err(format!("the word {word} of `{name}`")))
}

/// `printf FORMAT …`: with `-v` or `%n` it would assign. A format alone has nothing to assign to.
fn printf(args: &[Word]) -> Result<Builtin, String> {
    let [format, _, ..] = args else {
        return match args.first() {
            Some(word) if matches!(word.shape, Shape::Many | Shape::Glob) => {
                Err(format!("the format {word} of `printf`"))
            }
            Some(_) | None => Ok(Builtin::Harmless),
        };
    };
    match format.value() {
        Some(text) if !text.starts_with('-') && !has_assigning_directive(text) => {
            Ok(Builtin::Harmless)
        }
        Some(_) | None => Err(format!("the format {format} of `printf`")),
    }
}

/// `true` if a format has `%n`, with whatever flags and width.
fn has_assigning_directive(format: &str) -> bool {
    let mut rest = format;
    while let Some((_, after)) = rest.split_once('%') {
        let directive = after.trim_start_matches(|c: char| !c.is_ascii_alphabetic() && c != '%');
        let directive = directive.trim_start_matches(['h', 'l', 'L', 'j', 'z', 't', '.']);
        if directive.starts_with('n') {
            return true;
        }
        rest = directive.get(1..).unwrap_or_default();
    }
    false
}

/// `true` if the word is an option, or may become one.
fn may_be_option(word: &Word) -> bool {
    match word.shape {
        Shape::Literal => word.text.starts_with('-') && word.text.len() > 1,
        Shape::Process => false,
        Shape::One | Shape::Glob => {
            !word.plain && (word.text.is_empty() || word.text.starts_with('-'))
        }
        Shape::Many => true,
    }
}

/// `test -v NAME` and `test -R NAME` evaluate a subscript in NAME. So no word that may be such an
/// operator comes before a word that may have a subscript, and no word becomes several.
fn test(args: &[Word]) -> Result<Builtin, String> {
    if let Some(word) = args.iter().find(|word| word.shape == Shape::Many) {
        return Err(format!("{word} without quotes in a test"));
    }
    let is_operator = |word: &Word| match word.value() {
        Some(text) => text == "-v" || text == "-R",
        None => may_be_option(word),
    };
    let has_subscript = |word: &Word| word.value().is_none_or(|text| text.contains('['));
    let pairs = args.iter().zip(args.iter().skip(1));
    for (first, second) in pairs {
        if is_operator(first) && has_subscript(second) {
            return Err(format!("the words {first} {second} in a test"));
        }
    }
    let globs = args.iter().find(|word| word.shape == Shape::Glob && !word.plain);
    globs.map_or(Ok(Builtin::Harmless), |word| Err(format!("the pattern {word} in a test")))
}

/// `read` into plain names. What is read is unknown to every later use of the name.
fn read(args: &[Word]) -> Result<Builtin, String> {
    let odd = |word: &Word| Err(format!("the word {word} of `read`"));
    let mut words = args.iter();
    let mut names = 0;
    while let Some(word) = words.next() {
        match word.value() {
            Some("-r" | "-s" | "-e" | "-rs" | "-sr") if names == 0 => {}
            Some("-p" | "-d" | "-n" | "-t" | "-u" | "-N" | "-rp" | "-rd" | "-rn" | "-rt")
                if names == 0 =>
            {
                match words.next() {
                    Some(value) if value.value().is_some() => {}
                    _ => return odd(word),
                }
            }
            Some(name) if is_name(name) => names += 1,
            Some(_) | None => return odd(word),
        }
    }
    if names == 0 { Err("`read` without a name".to_owned()) } else { Ok(Builtin::Harmless) }
}

/// `export NAME` and `export NAME=value`, without options.
fn export(args: &[Word]) -> Result<Builtin, String> {
    let name = |word: &Word| {
        let name = word.text.split('=').next().unwrap_or_default();
        let is_whole = word.value().is_some() || word.text.contains('=');
        if is_whole && is_name(name) && word.shape != Shape::Many && word.shape != Shape::Glob {
            let value = word.value().and_then(|text| text.split_once('='));
            Ok((name.to_owned(), value.map(|(_, value)| value.to_owned())))
        } else {
            Err(format!("the word {word} of `export`"))
        }
    };
    args.iter().map(name).collect::<Result<_, _>>().map(Builtin::Exports)
}

fn unset(args: &[Word]) -> Result<Builtin, String> {
    match args.iter().find(|word| !word.value().is_some_and(is_name)) {
        Some(word) => Err(format!("the word {word} of `unset`")),
        None => Ok(Builtin::Harmless),
    }
}

/// Options that stop at errors or print commands. None changes how text is read.
fn set(args: &[Word]) -> Result<Builtin, String> {
    let is_known = |word: &Word| {
        let text = word.value().unwrap_or_default();
        let letters = text.strip_prefix(['-', '+']).unwrap_or_default();
        let is_cluster = !letters.is_empty() && letters.chars().all(|c| "euxo".contains(c));
        is_cluster || matches!(text, "pipefail" | "errexit" | "nounset" | "xtrace")
    };
    let odd = args.iter().find(|word| !is_known(word));
    // Any other word would set positional parameters, and is refused here.
    odd.map_or(Ok(Builtin::Harmless), |word| Err(format!("the word {word} of `set`")))
}

/// `wait` for numbers of processes or jobs; with `-p` it would assign.
fn wait(args: &[Word]) -> Result<Builtin, String> {
    let is_number = |word: &Word| match word.value() {
        Some(text) => is_operand(text),
        None => word.source == "$!" || word.source == "\"$!\"",
    };
    match args.iter().find(|word| !is_number(word)) {
        Some(word) => Err(format!("the word {word} of `wait`")),
        None => Ok(Builtin::Harmless),
    }
}

/// `command -v NAME` looks a name up; `command PROGRAM …` runs it.
fn command(args: &[Word]) -> Result<Builtin, String> {
    match args.first().map(|word| (word, word.value())) {
        Some((_, Some("-v" | "-V"))) => Ok(Builtin::Harmless),
        Some((_, Some(text))) if !text.starts_with('-') => Ok(Builtin::Runs(args.to_vec())),
        Some((word, _)) => Err(format!("the word {word} of `command`")),
        None => Ok(Builtin::Harmless),
    }
}
