//! The effects of a command's arguments, and helpers to report them.

use crate::command::{Shape, ShellSyntax, Word};
use crate::options::{Arguments, Doubt, stays_one_word};

/// One effect of a command's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// The command starts another one: its program and arguments.
    Runs(Vec<Word>),
    /// A shell reads this text as commands.
    Script { text: String, shell: ShellSyntax },
    /// The command sets this variable in the environment of what it starts.
    Sets {
        name: String,
        /// The value, if it is known.
        value: Option<String>,
    },
    /// The command creates, changes or removes this file.
    Writes(Word),
    /// The command may create, change or remove this file, or any file beneath it if it is a
    /// directory: the names come from an archive, a source directory or a pattern.
    WritesBeneath(Word),
    /// The command fills this directory with files of a repository: their content and their names
    /// come from its history, not from the line.
    ChecksOut(Word),
    /// The command runs the content of this file as code: a script, a makefile, a configuration.
    ReadsCode(Word),
    /// The command runs its standard input as code.
    ReadsCodeFromInput,
    /// The command is an interpreter or a build tool: the code that it runs is not read.
    Opaque,
}

/// The effects of a command's arguments, or the argument that is in doubt.
pub(super) type Judged = Result<Vec<Consequence>, Doubt>;

/// Reports files as written. `-` is the standard output; a process substitution is a pipe.
pub(super) fn written<'w>(words: impl IntoIterator<Item = &'w Word>) -> Vec<Consequence> {
    let files = words.into_iter().filter(|word| !word.is("-") && word.shape != Shape::Process);
    files.cloned().map(Consequence::Writes).collect()
}

/// Returns the path of a file in a directory.
pub(super) fn join(directory: &str, name: &str) -> Word {
    let slash = if directory.ends_with('/') || directory.is_empty() { "" } else { "/" };
    Word::literal(format!("{directory}{slash}{name}"))
}

/// Returns the words after the first `count`. Each of those must stay one word: otherwise a different
/// word would be the command.
pub(super) fn behind(words: &[Word], count: usize) -> Result<&[Word], Doubt> {
    let (before, rest) = words.split_at(count.min(words.len()));
    refuse(before, |word| !stays_one_word(word))?;
    Ok(rest)
}

/// Reports files with unknown names and new content in a directory, or as this file. Unlike files that
/// are only moved or formatted, they may be code that the same line runs.
pub(super) fn download_into(target: Word) -> [Consequence; 2] {
    [Consequence::WritesBeneath(target.clone()), Consequence::Writes(target)]
}

/// Returns the command that the words form, without a leading `--`.
pub(super) fn command_of(words: &[Word]) -> Option<Consequence> {
    let words = match words.split_first() {
        Some((first, rest)) if first.is("--") => rest,
        Some(_) | None => words,
    };
    (!words.is_empty()).then(|| Consequence::Runs(words.to_vec()))
}

/// `true` for a text of letters, digits and `_ . / : + , @ % -`, which has no special meaning to a
/// shell or a build tool that puts it into a command line.
pub(super) fn is_plain_text(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_./:+,@%-".contains(letter))
}

/// Refuses the first word for which `is_bad` holds.
///
/// # Errors
/// The first such word.
pub(super) fn refuse<'w>(
    words: impl IntoIterator<Item = &'w Word>,
    is_bad: impl Fn(&Word) -> bool,
) -> Result<(), Doubt> {
    match words.into_iter().find(|word| is_bad(word)) {
        Some(word) => Err(format!("the word {word}")),
        None => Ok(()),
    }
}

/// Refuses `@file`, which contains further options.
///
/// # Errors
/// The first such file.
pub(super) fn refuse_argument_files(found: &Arguments) -> Result<(), Doubt> {
    let values = found.options.iter().filter_map(|given| given.value.as_ref());
    refuse(found.operands.iter().chain(values), |word| word.text.starts_with('@'))
}

/// `true` for a path that is the command's input rather than a file: `-`, a pipe, `/dev/stdin`.
pub(crate) fn is_standard_input(word: &Word) -> bool {
    let is_input =
        |path: &str| path == "-" || path.starts_with("/dev/") || path.starts_with("/proc/");
    word.shape == Shape::Process || word.value().is_some_and(is_input)
}
