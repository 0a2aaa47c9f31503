//! The commands, words, assignments and redirections that a shell text contains, and the effects of a
//! command.

use std::fmt;

use thiserror::Error;

/// The syntax by which a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShellSyntax {
    /// The syntax of `bash --noprofile --norc -c`.
    #[default]
    Bash,
    /// The syntax of any POSIX shell. Constructs that are not in POSIX mean different things to
    /// different shells, so they are uncertain.
    Posix,
}

/// The part of a word that is known before it is expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The whole word is known.
    Literal,
    /// The word becomes exactly one word of unknown value.
    One,
    /// The word becomes any number of words of unknown value.
    Many,
    /// The word is a file name pattern: it becomes the names that match, or stays as it is.
    Glob,
    /// The word becomes the path of a pipe to a process substitution.
    Process,
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The value of a literal word; of any other word, the text before its first unknown part.
    pub text: String,
    /// The part of the word that is known.
    pub shape: Shape,
    /// The variable, if the word is nothing but one variable's value. `#` stands for any number.
    pub variable: Option<String>,
    /// `true` if some part of the word was quoted.
    pub quoted: bool,
    /// `true` if the word is at most one word and not an option, for every possible value.
    pub plain: bool,
    /// The word as written; empty for a literal word.
    pub source: String,
}

impl Word {
    /// Creates a word whose value is known.
    #[must_use]
    pub fn literal(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            shape: Shape::Literal,
            variable: None,
            quoted: false,
            plain: false,
            source: String::new(),
        }
    }

    /// Creates a word of which only a prefix is known.
    #[must_use]
    pub fn unknown(prefix: impl Into<String>, shape: Shape) -> Self {
        let text = prefix.into();
        let source = format!("{text}…");
        Self { text, shape, variable: None, quoted: true, plain: false, source }
    }

    /// Returns the value if the whole word is known.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        (self.shape == Shape::Literal).then_some(self.text.as_str())
    }

    /// `true` if the word is known and equal to this text.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        self.value() == Some(text)
    }

    /// `true` if the word could become an option when it is expanded, although it does not look
    /// like one.
    pub(crate) fn may_become_option(&self) -> bool {
        match self.shape {
            Shape::Literal | Shape::Process => false,
            Shape::One | Shape::Many | Shape::Glob if self.plain => false,
            Shape::One | Shape::Many | Shape::Glob => {
                self.text.is_empty() || self.text.starts_with('-') || self.shape == Shape::Many
            }
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.shape == Shape::Literal { &self.text } else { &self.source })
    }
}

/// The value that a variable gets, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VariableValue {
    /// A text that is known.
    Text(String),
    /// The value of another variable.
    Copy(String),
    /// A number of unknown value.
    Number,
    /// The name of a file that a pattern matched.
    File,
    /// A value of which nothing is known.
    Unknown,
}

impl From<&Word> for VariableValue {
    fn from(word: &Word) -> Self {
        match (&word.variable, word.shape) {
            (_, Shape::Literal) => Self::Text(word.text.clone()),
            (Some(name), _) if name == "#" => Self::Number,
            (Some(name), _) => Self::Copy(name.clone()),
            (None, Shape::Glob) => Self::File,
            (None, Shape::One | Shape::Many | Shape::Process) => Self::Unknown,
        }
    }
}

/// A variable that the text sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The variable's name without a subscript.
    pub name: String,
    /// The value that the variable gets.
    pub value: VariableValue,
}

/// A redirection of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redirect {
    /// Opens a file for reading.
    Read(Word),
    /// Opens a file for writing, creating it.
    Write(Word),
    /// Copies or closes a descriptor.
    Duplicate,
    /// Feeds text to the command: the text, if it is known.
    Text(Option<String>),
    /// Feeds the here-document that starts after this line.
    Heredoc,
}

/// A construct or program that contains or starts a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandContext {
    /// A command substitution: `$( )`.
    Substitution,
    /// A command substitution with backticks.
    Backticks,
    /// A process substitution: `<( )` or `>( )`.
    ProcessSubstitution,
    /// The body of the function with this name.
    Function(String),
    /// A program that starts the command.
    Wrapper(String),
    /// A program that runs the shell text with the command.
    Script(String),
}

impl fmt::Display for CommandContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Substitution => f.write_str("$( )"),
            Self::Backticks => f.write_str("backticks"),
            Self::ProcessSubstitution => f.write_str("process substitution"),
            Self::Function(name) => write!(f, "function {name}"),
            Self::Wrapper(name) => f.write_str(name),
            Self::Script(name) => write!(f, "text for {name}"),
        }
    }
}

/// The way in which a program's name is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandLookup {
    /// The shell looks for functions, builtins, then programs in PATH.
    Shell,
    /// The shell finds a function that the text has certainly defined before.
    Function,
    /// Another program starts the command and searches PATH only.
    Path,
}

/// A program with its arguments, as a text would start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The program, builtin or function.
    pub program: Word,
    /// The arguments, without the program's name.
    pub args: Vec<Word>,
    /// Variables set for this command alone.
    pub assignments: Vec<Assignment>,
    /// Redirections of this command alone.
    pub redirects: Vec<Redirect>,
    /// The constructs and programs around the command, outermost first.
    pub path: Vec<CommandContext>,
    /// The way in which the program's name is looked up.
    pub lookup: CommandLookup,
}

impl SimpleCommand {
    /// Creates a command from its words; `None` if there are none. The program is looked up in
    /// PATH.
    pub(crate) fn from_words(words: Vec<Word>) -> Option<Self> {
        let mut words = words.into_iter();
        let program = words.next()?;
        Some(Self {
            program,
            args: words.collect(),
            assignments: Vec::new(),
            redirects: Vec::new(),
            path: Vec::new(),
            lookup: CommandLookup::Path,
        })
    }

    /// Returns the program's name without directories, if it is known.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.program.value().map(base_name)
    }
}

impl fmt::Display for SimpleCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

/// Returns the last component of a path.
#[must_use]
pub fn base_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// The reason why a text cannot be judged by reading it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UncertainReason {
    /// The text is over the limit on its size.
    #[error("the text is longer than {limit} bytes")]
    TooLong {
        /// The limit in bytes of the text.
        limit: usize,
    },
    /// The text is over the limit on nested constructs.
    #[error("more than {limit} constructs are nested")]
    TooDeep {
        /// The limit on the depth.
        limit: usize,
    },
    /// The text is over the limit on commands.
    #[error("the text holds more than {limit} commands")]
    TooMany {
        /// The limit on the number of commands.
        limit: usize,
    },
    /// The text does not parse, or not in every shell.
    #[error("it does not parse: {0}")]
    Syntax(&'static str),
    /// Shells interpret a construct differently.
    #[error("shells disagree on {0}")]
    Dialect(&'static str),
    /// A value is known only when the text runs.
    #[error("{0} is known only when it runs")]
    Dynamic(&'static str),
    /// Bash opens a connection itself, without a program that a list could name.
    #[error("a redirection to /dev/tcp or /dev/udp opens a connection")]
    Connection,
    /// A construct may run data as code.
    #[error("{0} may run text as code")]
    Code(&'static str),
    /// A program that runs others has an argument that is not understood.
    #[error("`{program}` may start programs or write files, and {what} is not understood")]
    Launcher {
        /// The name of the program.
        program: String,
        /// The argument that is not understood, as part of a sentence.
        what: String,
    },
}

/// A position in a text that cannot be judged, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Uncertainty {
    /// The reason why the text cannot be judged.
    pub reason: UncertainReason,
    /// The byte offset of the reader, in the text or in the innermost text within it.
    pub at: usize,
}

impl From<UncertainReason> for Uncertainty {
    /// Takes a doubt about the text as a whole.
    fn from(reason: UncertainReason) -> Self {
        Self { reason, at: 0 }
    }
}

/// Everything that a text could run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extraction {
    /// Every command in the text, including those that may never be reached.
    pub commands: Vec<SimpleCommand>,
    /// The first position that could not be judged, if any; then `commands` may be incomplete.
    pub uncertain: Option<Uncertainty>,
}

/// One effect of a command: a command that it starts, a text that it runs, a variable that it sets.
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
    },
    /// Evaluates this word, as arithmetic or as a name with a subscript.
    Evaluates(Word),
    /// Makes this variable an array.
    IsArray(String),
    /// Sets this variable to a value that is known only when the command runs. If the variable is
    /// an array, bash reads elements from the value and expands them.
    Declares(String),
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
pub(crate) const SH: ScriptReader = ScriptReader::Other(ShellSyntax::Posix);

impl Effect {
    /// Creates the effect of running these words as a command; nothing if there are none.
    pub(crate) fn runs(words: &[Word]) -> Vec<Self> {
        let command = SimpleCommand::from_words(words.to_vec());
        command.map(|command| Self::Runs(Box::new(command))).into_iter().collect()
    }

    /// Creates the effect of running a word as commands; a doubt if the word is not known.
    pub(crate) fn script(word: &Word, reader: ScriptReader) -> Self {
        match word.value() {
            Some(text) => Self::Script { text: text.to_owned(), reader },
            None => Self::Unclear(UncertainReason::Dynamic("text that is run as commands")),
        }
    }

    pub(crate) fn unclear(program: &str, what: impl Into<String>) -> Self {
        Self::Unclear(UncertainReason::Launcher { program: program.to_owned(), what: what.into() })
    }
}
