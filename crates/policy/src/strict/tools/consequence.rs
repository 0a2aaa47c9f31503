//! The effects of a command beyond its own process.

use crate::command::{Shell, Word};

/// One effect of a command's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// The command starts another one: its program and arguments.
    Runs(Vec<Word>),
    /// A shell reads this text as commands.
    Script {
        /// The commands.
        text: String,
        /// The shell that reads them.
        shell: Shell,
    },
    /// The command sets this variable in the environment of what it starts.
    Sets {
        /// The variable.
        name: String,
        /// Its value, where that is known.
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
    /// The command is an interpreter or a build tool: the code that it is given is not looked into.
    Opaque,
}

/// The argument that is not known to be harmless, as a refusal names it:
/// "the option --use-compress-program", "the subcommand foreach", "the word $x".
pub(crate) type Doubt = String;
