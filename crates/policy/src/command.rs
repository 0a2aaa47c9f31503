//! The words of this room: what a shell line would run, as far as the text alone can tell.

use std::fmt;

use thiserror::Error;

/// The shell whose reading of the text counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shell {
    /// `bash --noprofile --norc -c`.
    #[default]
    Bash,
    /// Any POSIX shell: what is not POSIX means different things to different shells, so it is
    /// uncertain.
    Posix,
}

/// How much of a word is known before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// All of it.
    Literal,
    /// It becomes exactly one word, of unknown value.
    One,
    /// It becomes any number of words, of unknown value.
    Many,
    /// It becomes the file names that a pattern matches, or stays as it is.
    Glob,
    /// It becomes the path of a pipe to a process substitution.
    Process,
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The value of a literal word; of any other, what comes before its first unknown part.
    pub text: String,
    /// How much of it is known.
    pub shape: Shape,
    /// Set when the word is nothing but one variable's value. `#` stands for any number.
    pub variable: Option<String>,
    /// Whether some part of it was quoted.
    pub quoted: bool,
    /// Whether it is known to be no option and at most one word, whatever its value.
    pub plain: bool,
    /// The word as written; empty for a literal word.
    pub source: String,
}

impl Word {
    /// A word whose value is known.
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

    /// A word that is unknown beyond the given start.
    #[must_use]
    pub fn unknown(prefix: impl Into<String>, shape: Shape) -> Self {
        let text = prefix.into();
        let source = format!("{text}…");
        Self { text, shape, variable: None, quoted: true, plain: false, source }
    }

    /// The value, where all of it is known.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        (self.shape == Shape::Literal).then_some(self.text.as_str())
    }

    /// Whether the word is exactly this text.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        self.value() == Some(text)
    }

    /// Whether it could turn out to be an option when it runs, although it does not look like one.
    #[must_use]
    pub fn may_become_option(&self) -> bool {
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

/// What is known of a value that a variable gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// This text.
    Text(String),
    /// The value of another variable.
    Copy(String),
    /// Some number.
    Number,
    /// The name of a file that a pattern matched.
    File,
    /// Nothing is known of it.
    Unknown,
}

impl From<&Word> for Value {
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

/// Where an assignment takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// In the shell itself: programs see it only if the name was exported before.
    Shell,
    /// In the environment of the programs that are started.
    Environment,
}

/// A variable that the text sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The variable, without a subscript.
    pub name: String,
    /// What it gets.
    pub value: Value,
    /// Who sees it.
    pub reach: Reach,
}

/// What a redirection does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redirect {
    /// Opens a file for reading.
    Read(Word),
    /// Opens a file for writing, creating it.
    Write(Word),
    /// Copies or closes a descriptor.
    Duplicate,
    /// Feeds text to the command; the text where it is known.
    Text(Option<String>),
    /// Feeds the here-document that starts after this line.
    Heredoc,
}

/// How a command was reached from the text that contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Via {
    /// `$( )`.
    Substitution,
    /// Backticks.
    Backticks,
    /// `<( )` or `>( )`.
    ProcessSubstitution,
    /// The body of a function of this name.
    Function(String),
    /// Started by this program.
    Wrapper(String),
    /// In shell text that this program is given.
    Script(String),
}

impl fmt::Display for Via {
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

/// How the shell looks a program's name up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// Functions, builtins, then PATH.
    Shell,
    /// A function that is certainly defined by the text at this point.
    Function,
    /// PATH only: another program starts it.
    Path,
}

/// A program with its arguments, as the text would start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The program, or a builtin or function.
    pub program: Word,
    /// Its arguments.
    pub args: Vec<Word>,
    /// Variables set for this command alone.
    pub assignments: Vec<Assignment>,
    /// Its own redirections.
    pub redirects: Vec<Redirect>,
    /// The constructs and programs around it, outermost first.
    pub path: Vec<Via>,
    /// How its name is looked up.
    pub lookup: Lookup,
}

impl SimpleCommand {
    /// A command of these words and nothing else; `None` without words.
    #[must_use]
    pub fn of(words: Vec<Word>) -> Option<Self> {
        let mut words = words.into_iter();
        let program = words.next()?;
        Some(Self {
            program,
            args: words.collect(),
            assignments: Vec::new(),
            redirects: Vec::new(),
            path: Vec::new(),
            lookup: Lookup::Path,
        })
    }

    /// The program's name without directories, where it is known.
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

/// The last part of a path.
#[must_use]
pub fn base_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// Why the text cannot be judged by reading it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Reason {
    /// Over the bound on size.
    #[error("the text is longer than {limit} bytes")]
    TooLong {
        /// The bound.
        limit: usize,
    },
    /// Over the bound on depth.
    #[error("more than {limit} constructs are nested")]
    TooDeep {
        /// The bound.
        limit: usize,
    },
    /// Over the bound on count.
    #[error("the text holds more than {limit} commands")]
    TooMany {
        /// The bound.
        limit: usize,
    },
    /// The text does not parse, or only by luck.
    #[error("it does not parse: {0}")]
    Syntax(&'static str),
    /// Shells disagree on it.
    #[error("shells disagree on {0}")]
    Dialect(&'static str),
    /// Its value is known only when it runs.
    #[error("{0} is known only when it runs")]
    Dynamic(&'static str),
    /// Bash opens a connection by itself, with no program that a list could name.
    #[error("a redirection to /dev/tcp or /dev/udp opens a connection")]
    Connection,
    /// Data may be run as code.
    #[error("{0} may run text as code")]
    Code(&'static str),
    /// The closed subset that allow lists accept does not have it.
    #[error("{construct} is not certain enough for an allow list")]
    Unproven {
        /// The construct, as the reader of a refusal knows it.
        construct: String,
    },
    /// Nobody has said what the program does with its arguments.
    #[error(
        "`{program}` is not a program that is known to start no others; to allow it with any \
         arguments, list it as \"{program} *\""
    )]
    UnknownProgram {
        /// The program.
        program: String,
    },
    /// A variable that the shell, the loader or a common tool gives a meaning.
    #[error("setting {name} may change what runs")]
    Variable {
        /// The variable.
        name: String,
    },
    /// A program that runs others was given something that is not understood.
    #[error("`{program}` may start programs or write files, and {what} is not understood")]
    Launcher {
        /// The program.
        program: String,
        /// What was not understood.
        what: String,
    },
}

/// A place where reading the text was not enough.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Uncertain {
    /// Why.
    pub reason: Reason,
    /// The byte at which reading stood, in the text or in the innermost text within it.
    pub at: usize,
}

impl Uncertain {
    /// Advice for the author of the text, as the end of a sentence.
    pub(crate) const fn advice(&self) -> &'static str {
        match self.reason {
            // The reason says it itself.
            Reason::UnknownProgram { .. } => "",
            Reason::TooLong { .. }
            | Reason::TooDeep { .. }
            | Reason::TooMany { .. }
            | Reason::Syntax(_)
            | Reason::Dialect(_)
            | Reason::Dynamic(_)
            | Reason::Code(_)
            | Reason::Connection
            | Reason::Unproven { .. }
            | Reason::Variable { .. }
            | Reason::Launcher { .. } => "; write the command so that it can be read",
        }
    }
}

/// Everything that a text could run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extraction {
    /// Each command found, whether it would be reached or not.
    pub commands: Vec<SimpleCommand>,
    /// Variables that the text sets outside of single commands.
    pub assignments: Vec<Assignment>,
    /// Redirections that belong to no single command.
    pub redirects: Vec<Redirect>,
    /// Files that commands write by their arguments, where the text was proven.
    pub writes: Vec<Word>,
    /// The first place that could not be judged; then `commands` may miss some.
    pub uncertain: Option<Uncertain>,
}
