//! The effects of a command: the commands that it starts, the text that it runs, the variables that
//! it sets.

use crate::command::{
    Assignment, AssignmentScope, ShellSyntax, SimpleCommand, UncertainReason, VariableValue, Word,
};

/// One effect of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Starts another command.
    Runs(Box<SimpleCommand>),
    /// Runs this text as commands.
    Script { text: String, reader: ScriptReader },
    /// Sets `NAME` or `NAME[subscript]`.
    Assigns {
        /// The name, with the subscript.
        name: String,
        value: VariableValue,
        scope: AssignmentScope,
    },
    /// Evaluates this word, as arithmetic or as a name with a subscript.
    Evaluates(Word),
    /// Makes this variable an array.
    IsArray(String),
    /// Sets this variable to a value that is known only when the command runs. If the variable is
    /// an array, bash reads elements from the value and expands them.
    Declares(String),
    /// Assumes that the unquoted values of these variables, and the output of `pwd` and `id`, are
    /// one word each.
    ReliesOnOneWord(Vec<String>),
    /// Can remove functions.
    RemovesFunctions,
    /// Has effects that the text does not determine.
    Unclear(UncertainReason),
}

/// The shell that reads a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptReader {
    /// The shell that reads the text around the script.
    Same,
    Other(ShellSyntax),
}

/// The shell that is installed as `sh`.
pub(super) const SH: ScriptReader = ScriptReader::Other(ShellSyntax::Posix);

impl Effect {
    /// Creates the effect of running these words as a command; `None` if there are none.
    pub(super) fn runs(words: &[Word], assignments: Vec<Assignment>) -> Option<Self> {
        let mut command = SimpleCommand::from_words(words.to_vec())?;
        command.assignments = assignments;
        Some(Self::Runs(Box::new(command)))
    }

    /// Creates the effect of running a word as commands; a doubt if the word is not known.
    pub(super) fn script(word: &Word, reader: ScriptReader) -> Self {
        match word.value() {
            Some(text) => Self::Script { text: text.to_owned(), reader },
            None => Self::Unclear(UncertainReason::Dynamic("text that is run as commands")),
        }
    }

    pub(super) fn unclear(program: &str, what: impl Into<String>) -> Self {
        Self::Unclear(UncertainReason::Launcher { program: program.to_owned(), what: what.into() })
    }
}
