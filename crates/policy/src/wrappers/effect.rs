//! The effects of a command besides itself.

use crate::command::{
    AssignedValue, Assignment, AssignmentScope, ShellSyntax, SimpleCommand, UncertainReason, Word,
};

/// What a command leads to besides itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It starts this command.
    Runs(Box<SimpleCommand>),
    /// It has this text read as commands.
    Script {
        /// The commands.
        text: String,
        /// Who reads them.
        reader: Reader,
    },
    /// It sets `NAME` or `NAME[subscript]`.
    Assigns {
        /// The name, with the subscript.
        name: String,
        /// What it gets.
        value: AssignedValue,
        /// Who sees it.
        scope: AssignmentScope,
    },
    /// It evaluates this word: as arithmetic, or as a name with a subscript.
    Evaluates(Word),
    /// It makes this variable an array.
    IsArray(String),
    /// It gives this variable a value that is known only when it runs. If the variable is an
    /// array, bash reads elements from the value and expands them.
    Declares(String),
    /// The unquoted values of these variables, and what `pwd` and `id` print, were taken for one
    /// word each.
    ReliesOnOneWord(Vec<String>),
    /// It can remove functions.
    RemovesFunctions,
    /// What it leads to cannot be told.
    Unclear(UncertainReason),
}

/// Who reads a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The shell that reads the text around it.
    Same,
    /// Another one.
    Other(ShellSyntax),
}

/// Whatever `sh` is.
pub(super) const SH: Reader = Reader::Other(ShellSyntax::Posix);

impl Effect {
    /// These words are run as a command; nothing if there are none.
    pub(super) fn runs(words: &[Word], assignments: Vec<Assignment>) -> Option<Self> {
        let mut command = SimpleCommand::from_words(words.to_vec())?;
        command.assignments = assignments;
        Some(Self::Runs(Box::new(command)))
    }

    /// This word is read as commands; a doubt if it is not known.
    pub(super) fn script(word: &Word, reader: Reader) -> Self {
        match word.value() {
            Some(text) => Self::Script { text: text.to_owned(), reader },
            None => Self::Unclear(UncertainReason::Dynamic("text that is run as commands")),
        }
    }

    pub(super) fn unclear(program: &str, what: impl Into<String>) -> Self {
        Self::Unclear(UncertainReason::Launcher { program: program.to_owned(), what: what.into() })
    }
}
