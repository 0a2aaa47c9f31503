//! Entries that a table can describe: known options, and the files that are written.

use super::consequence::{Consequence, Doubt};
use super::options::{Arguments, Options, read};
use crate::command::{Shape, Word};

/// A program that starts nothing with its known options.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tool {
    /// The names of the program.
    pub(super) names: &'static [&'static str],
    /// Its harmless options.
    pub(super) options: Options,
    /// The options whose value is a file that the program writes.
    pub(super) writes: &'static [&'static str],
    /// The meaning of its operands.
    pub(super) operands: Operands,
}

/// The files among a program's operands that it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// None of them.
    Read,
    /// Each of them.
    Written,
    /// The second, if there is one (`uniq IN OUT`).
    SecondWritten,
}

/// Finds a program in a table, and judges its arguments.
pub(super) fn judge(
    tools: &[Tool],
    program: &str,
    args: &[Word],
) -> Option<Result<Vec<Consequence>, Doubt>> {
    let tool = tools.iter().find(|tool| tool.names.contains(&program))?;
    Some(read(args, &tool.options).map(|found| tool.written(&found)))
}

impl Tool {
    fn written(&self, found: &Arguments) -> Vec<Consequence> {
        let operands = match self.operands {
            Operands::Read => &[],
            Operands::Written => found.operands.as_slice(),
            // A word that becomes several shifts the others.
            Operands::SecondWritten if found.operands.iter().any(may_be_many) => {
                found.operands.as_slice()
            }
            Operands::SecondWritten => found.operands.get(1..).unwrap_or_default(),
        };
        written(found.values(self.writes).chain(operands))
    }
}

fn may_be_many(word: &Word) -> bool {
    matches!(word.shape, Shape::Many | Shape::Glob)
}

/// Reports files as written. `-` is the standard output; a process substitution is a pipe.
pub(super) fn written<'w>(words: impl Iterator<Item = &'w Word>) -> Vec<Consequence> {
    let files = words.filter(|word| !word.is("-") && word.shape != Shape::Process);
    files.cloned().map(Consequence::Writes).collect()
}

/// The path of a file in a directory.
pub(super) fn join(directory: &str, name: &str) -> Word {
    let slash = if directory.ends_with('/') || directory.is_empty() { "" } else { "/" };
    Word::literal(format!("{directory}{slash}{name}"))
}
