//! The verdict on one program start.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::rules::RuleReference;

/// The power of a running program over the programs that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ProgramKind {
    /// Starts only listed programs and its own helpers.
    Judged,
    /// Starts what it likes, except what a deny or ask rule names.
    Opens,
    /// A shell: it may start, and each program below it is judged.
    Shell,
}

/// A program that the gate let start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningProgram {
    /// The name for messages.
    pub name: String,
    /// The power over the programs that it starts.
    pub kind: ProgramKind,
    /// The location of the allow rule that let it start; `None` for shells, helpers and programs
    /// below one that opens.
    pub rule: Option<String>,
    /// The program whose helpers it may start. A shell has those of the program that started it.
    pub helpers_of: Option<String>,
    /// The next start of this process, if the process is `env` that looks for the interpreter of a
    /// script.
    pub awaits: Option<AwaitedInterpreter>,
}

/// The interpreter that `#!/usr/bin/env X` starts for a script that may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitedInterpreter {
    /// The names that the script's path can end with.
    pub script_names: Vec<String>,
    /// The arguments of the script.
    pub args: Vec<Vec<u8>>,
}

/// The answer to one start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartVerdict {
    /// The program may start and is then this running program.
    Allow(RunningProgram),
    /// The program may start if somebody approves it.
    Ask {
        /// The ask rules that match.
        rules: Vec<RuleReference>,
        /// The running program after an approval.
        then: RunningProgram,
    },
    /// The program may not start.
    Refuse(StartRefusal),
}

/// A start that was refused. Its message names the command, the reason and the starter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRefusal {
    /// The command, quoted and shortened.
    pub command: String,
    /// The name of the program that wanted to start it.
    pub started_by: Option<String>,
    /// The reason for which it may not start.
    pub why: StartRefusalReason,
}

/// The reason why a start was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartRefusalReason {
    /// An allow list is set and no rule on it matches.
    NotListed,
    /// The program matches this deny rule.
    Denied(RuleReference),
    /// The listed file has changed since the rules were read.
    Changed,
    /// A rule names a program of this name, and it is another file.
    OtherFile {
        /// The file that was to start.
        path: PathBuf,
        /// The file that the rule means.
        listed: PathBuf,
    },
    /// A variable that the server did not give can run code in the program.
    Variable {
        /// The name of the variable.
        name: String,
    },
    /// The kernel loaded another program than the one that was judged.
    Mismatch,
    /// The facts of the start could not be read.
    Unreadable {
        /// The fact that is missing, as part of a sentence.
        what: String,
    },
}

impl StartRefusalReason {
    /// Returns the stable code word of the reason.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotListed => "not_allowed",
            Self::Denied(_) => "denied",
            Self::Changed => "program_changed",
            Self::OtherFile { .. } => "other_program",
            Self::Variable { .. } => "variable",
            Self::Mismatch => "program_mismatch",
            Self::Unreadable { .. } => "program_unreadable",
        }
    }
}

impl fmt::Display for StartRefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotListed => f.write_str("not on the allow list"),
            Self::Denied(rule) => write!(f, "matches deny rule {rule}"),
            Self::Changed => f.write_str(
                "changed since the rules were read; `shellyard config reload` accepts it",
            ),
            Self::OtherFile { path, listed } => {
                write!(
                    f,
                    "{} is not the listed {}; a rule with its path allows it",
                    path.display(),
                    listed.display()
                )
            }
            Self::Variable { name } => write!(f, "{name} is set and may change what it runs"),
            Self::Mismatch => f.write_str("another program was loaded than the one judged"),
            Self::Unreadable { what } => write!(f, "{what} could not be read"),
        }
    }
}

impl StartRefusal {
    /// Describes a refused start.
    #[must_use]
    pub fn new(
        argv: &[Vec<u8>],
        started_by: Option<&RunningProgram>,
        why: StartRefusalReason,
    ) -> Self {
        Self {
            command: quote_command(argv),
            started_by: started_by.map(|program| program.name.clone()),
            why,
        }
    }

    /// Returns the stable code word of the refusal.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.why.code()
    }
}

impl fmt::Display for StartRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.command, self.why)?;
        if let Some(program) = &self.started_by {
            write!(f, ", started by {program}")?;
        }
        f.write_str(")")
    }
}

/// The most characters of a command that a message quotes.
const MAX_COMMAND: usize = 120;

/// Quotes words as a shell would read them, without control characters, and shortens the line.
fn quote_command(argv: &[Vec<u8>]) -> String {
    let words: Vec<String> = argv.iter().map(|word| quote_word(word)).collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_COMMAND) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn quote_word(word: &[u8]) -> String {
    let text = String::from_utf8_lossy(word);
    let is_plain = |c: char| {
        c.is_alphanumeric() || "%+,-./:=@_^~".contains(c) || c == char::REPLACEMENT_CHARACTER
    };
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    let is_hidden = |c: char| c.is_control() || HIDDEN.iter().any(|range| range.contains(&c));
    if text.contains(is_hidden) {
        let escaped: String = text
            .chars()
            .map(|c| match c {
                '\'' | '\\' => format!("\\{c}"),
                '\n' | '\t' | '\r' => c.escape_default().to_string(),
                c if is_hidden(c) => format!("\\u{:04x}", u32::from(c)),
                c => c.to_string(),
            })
            .collect();
        return format!("$'{escaped}'");
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Characters that are not visible or turn the direction of the text.
const HIDDEN: [std::ops::RangeInclusive<char>; 5] = [
    '\u{ad}'..='\u{ad}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_was_refused_and_why() {
        let starter = RunningProgram {
            name: "find".to_owned(),
            kind: ProgramKind::Judged,
            rule: None,
            helpers_of: None,
            awaits: None,
        };
        for (argv, expected) in [
            (&["touch", "pwned"][..], "touch pwned (not on the allow list, started by find)"),
            (&["rm", "a b", ""], "rm 'a b' '' (not on the allow list, started by find)"),
            (&["x", "it's"], r"x 'it'\''s' (not on the allow list, started by find)"),
            (&["x", "a\nb\u{202e}"], r"x $'a\nb\u202e' (not on the allow list, started by find)"),
        ] {
            let argv: Vec<Vec<u8>> = argv.iter().map(|word| word.as_bytes().to_vec()).collect();
            let refusal = StartRefusal::new(&argv, Some(&starter), StartRefusalReason::NotListed);
            assert_eq!(refusal.to_string(), expected);
        }
    }

    #[test]
    fn a_long_command_is_shortened() {
        let argv = vec![vec![b'a'; 500]];
        let refusal = StartRefusal::new(&argv, None, StartRefusalReason::Mismatch);
        assert_eq!(refusal.command.chars().count(), MAX_COMMAND + 1);
    }
}
