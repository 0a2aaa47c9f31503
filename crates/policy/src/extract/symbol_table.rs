//! The variables and functions of a text, with every value that the text gives them anywhere.
//!
//! Arithmetic evaluates the *contents* of variables, including command substitutions in array
//! subscripts: `x='a[$(cmd)]'; echo $((x))` runs `cmd`. So each variable that arithmetic reads is
//! followed, through copies, to every value that the text gives it anywhere. The order of
//! assignments is ignored, which can only find more.

use std::collections::{HashMap, HashSet};

use crate::command::VariableValue;
use crate::options::has_word;

/// Variables that the shell sets to text from outside.
const EXTERNAL: &str = "@ * _ REPLY OPTARG MAPFILE BASH_REMATCH PWD OLDPWD DIRSTACK BASH_ARGV BASH_ARGV0 \
    BASH_COMMAND BASH_EXECUTION_STRING FUNCNAME BASH_SOURCE COMP_WORDS COMP_LINE READLINE_LINE \
    READLINE_ARGUMENT";

/// Variables with bash's integer attribute: bash evaluates the values that they are set to.
const INTEGERS: &str = "RANDOM SRANDOM SECONDS LINENO OPTIND HISTCMD BASHPID BASH_SUBSHELL EPOCHSECONDS \
    EPOCHREALTIME BASH_MONOSECONDS";

/// Variables with absolute paths: `~`, `~+`, `~-` and `~1` expand to them, and a word that starts
/// with one counts as a path.
const PATH_VARIABLES: [&str; 4] = ["HOME", "PWD", "OLDPWD", "DIRSTACK"];

#[derive(Debug, Default)]
pub(super) struct SymbolTable {
    values: HashMap<String, Vec<VariableValue>>,
    evaluated: Vec<String>,
    /// Functions that are certainly defined at this point of the text.
    functions: HashSet<String>,
    /// Functions that are defined anywhere in the text.
    all_functions: HashSet<String>,
    functions_removed: bool,
    /// Variables that were assumed to be plain words, judging by the text read until then.
    assumed_plain: Vec<String>,
    /// `true` if `$HOME`, `$PWD` or an expanded `~` was assumed to be an absolute path.
    assumed_path_variables: bool,
    /// Variables that are arrays somewhere in the text.
    arrays: HashSet<String>,
    /// Variables that a declaring builtin sets to an unknown value, from which bash reads an array.
    declared: Vec<String>,
    /// `true` if a redirection goes to a file that is known only when the text runs.
    has_unknown_redirect: bool,
    /// `true` if a word that is not an assigned value could become a network address to redirect
    /// to.
    has_address_word: bool,
    /// Programs whose output was assumed to be a number.
    assumed_number_output: Vec<String>,
}

impl SymbolTable {
    pub(super) fn assign(&mut self, name: &str, value: VariableValue) {
        if has_word(INTEGERS, name) {
            self.note_evaluated(name);
        }
        self.values.entry(name.to_owned()).or_default().push(value);
    }

    /// Notes that arithmetic reads this variable, or that a value names it.
    pub(super) fn note_evaluated(&mut self, name: &str) {
        self.evaluated.push(name.to_owned());
    }

    /// Notes that arithmetic reads this text. Returns `false` if the text itself contains code.
    pub(super) fn note_evaluated_text(&mut self, text: &str) -> bool {
        if may_contain_code(text) {
            return false;
        }
        variable_names(text).for_each(|name| self.note_evaluated(name));
        true
    }

    pub(super) fn define_function(&mut self, name: String) {
        self.functions.insert(name);
    }

    pub(super) fn defines(&self, name: &str) -> bool {
        self.functions.contains(name)
    }

    /// Removes and returns the functions, for text that another shell reads.
    pub(super) fn hide_functions(&mut self) -> HashSet<String> {
        std::mem::take(&mut self.functions)
    }

    pub(super) fn restore_functions(&mut self, functions: HashSet<String>) {
        self.functions = functions;
    }

    pub(super) fn remove_functions(&mut self) {
        self.functions_removed = true;
    }

    pub(super) const fn functions_removed(&self) -> bool {
        self.functions_removed
    }

    /// `true` if some variable that arithmetic reads may contain code.
    pub(super) fn may_evaluate_code(&self) -> bool {
        let mut seen = HashSet::new();
        let mut open: Vec<&str> = self.evaluated.iter().map(String::as_str).collect();
        while let Some(name) = open.pop() {
            if is_external(name) {
                return true;
            }
            if !seen.insert(name) {
                continue;
            }
            for value in self.values.get(name).into_iter().flatten() {
                match value {
                    VariableValue::Unknown | VariableValue::File => return true,
                    VariableValue::Text(text) if may_contain_code(text) => return true,
                    VariableValue::Text(text) => open.extend(variable_names(text)),
                    VariableValue::Copy(other) => open.push(other),
                    VariableValue::Number => {}
                }
            }
        }
        false
    }

    /// Returns the shape that all values of a variable so far have in common, and remembers that
    /// the caller relies on it.
    pub(super) fn assume_shape(&mut self, name: &str) -> VariableShape {
        let shape = self.variable_shape(name);
        if shape != VariableShape::Unknown {
            self.assumed_plain.push(name.to_owned());
        }
        shape
    }

    fn variable_shape(&self, name: &str) -> VariableShape {
        if is_external(name) {
            return VariableShape::Unknown;
        }
        let values = self.values.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut shape =
            if values.is_empty() { VariableShape::Unknown } else { VariableShape::Plain };
        for value in values {
            match value {
                VariableValue::Number => {}
                VariableValue::Text(text) if is_plain(text) => {}
                VariableValue::File if shape != VariableShape::Unknown => {
                    shape = VariableShape::File
                }
                VariableValue::Text(_)
                | VariableValue::File
                | VariableValue::Copy(_)
                | VariableValue::Unknown => {
                    return VariableShape::Unknown;
                }
            }
        }
        shape
    }

    /// Notes the assumption that `$HOME`, `$PWD` and an expanded `~` are absolute paths: the text
    /// may not set them to anything else.
    pub(super) const fn assume_path_variables(&mut self) {
        self.assumed_path_variables = true;
    }

    /// Notes the assumption that this program prints a number: no function may replace it.
    pub(super) fn assume_number_output(&mut self, program: &str) {
        self.assumed_number_output.push(program.to_owned());
    }

    pub(super) fn note_function(&mut self, name: &str) {
        self.all_functions.insert(name.to_owned());
    }

    /// `true` if the whole text contradicts an assumption that was made while reading it.
    pub(super) fn has_broken_assumption(&self) -> bool {
        let splits = !self.assumed_plain.is_empty() && self.values.contains_key("IFS");
        splits
            || self
                .assumed_plain
                .iter()
                .any(|name| self.variable_shape(name) == VariableShape::Unknown)
            || self.assumed_number_output.iter().any(|name| self.all_functions.contains(name))
            || self.assumed_path_variables
                && PATH_VARIABLES.iter().any(|name| !self.is_absolute_path(name))
    }

    /// `true` if every value that the text gives to a variable is an absolute path of one word.
    fn is_absolute_path(&self, name: &str) -> bool {
        let is_absolute = |value: &VariableValue| match value {
            VariableValue::Text(text) => text.starts_with('/') && is_plain(text),
            VariableValue::Copy(other) => PATH_VARIABLES.contains(&other.as_str()),
            VariableValue::Number | VariableValue::File | VariableValue::Unknown => false,
        };
        self.values.get(name).is_none_or(|values| values.iter().all(is_absolute))
    }

    pub(super) fn note_array(&mut self, name: &str) {
        self.arrays.insert(name.to_owned());
    }

    /// Notes that a declaring builtin sets a variable to a value that is known only when it runs.
    pub(super) fn note_declared(&mut self, name: &str) {
        self.declared.push(name.to_owned());
    }

    /// `true` if bash may read array elements from a value, including expansions in it.
    pub(super) fn may_read_array_from_value(&self) -> bool {
        self.declared
            .iter()
            .any(|name| self.arrays.contains(name) || PATH_VARIABLES.contains(&name.as_str()))
    }

    /// Notes a redirection to a file that is known only when the text runs.
    pub(super) const fn note_unknown_redirect(&mut self) {
        self.has_unknown_redirect = true;
    }

    /// Notes a literal word, which a parameter or a default value could carry to a redirection.
    pub(super) fn note_word(&mut self, text: &str) {
        self.has_address_word |= is_address(text);
    }

    /// `true` if a redirection may open a connection because a variable contains its address.
    pub(super) fn may_connect(&self) -> bool {
        let value_may_be_address = || {
            self.values.values().flatten().any(|value| match value {
                VariableValue::Text(text) => may_be_address(text),
                VariableValue::Copy(_)
                | VariableValue::Number
                | VariableValue::File
                | VariableValue::Unknown => false,
            })
        };
        self.has_unknown_redirect && (self.has_address_word || value_may_be_address())
    }
}

/// The shape of a variable's value as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VariableShape {
    /// The value is at most one word, and not an option.
    Plain,
    /// The name of some file.
    File,
    Unknown,
}

/// `true` if a value is one word even when unquoted, and not an option.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && !text.contains([' ', '\t', '\n', '*', '?', '['])
}

fn is_external(name: &str) -> bool {
    has_word(EXTERNAL, name) || name.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
}

/// `true` if bash opens a connection when a redirection names this file.
pub(super) fn is_address(text: &str) -> bool {
    text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/")
}

/// `true` if a value is the name of a network connection or could be a part of one.
fn may_be_address(text: &str) -> bool {
    let part = |it: &str| matches!(it, "tcp" | "udp");
    let device = text.starts_with("/dev")
        && !matches!(text, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin" | "/dev/tty");
    device || text.trim_matches('/').split('/').next().is_some_and(part)
}

/// `true` if arithmetic on this text could run a command.
fn may_contain_code(text: &str) -> bool {
    text.contains(['[', '$', '`'])
}

/// Returns the variable names in an arithmetic expression.
fn variable_names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii() || !is_name_byte(c as u8))
        .filter(|word| word.bytes().next().is_some_and(is_name_start))
}

pub(super) const fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

pub(super) const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// `true` if a text is a valid variable name.
pub(super) fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(is_name_start) && text.bytes().all(is_name_byte)
}

/// `true` if shells run the value of a variable with this name, or read it as settings.
pub(super) fn is_code_variable(name: &str) -> bool {
    const CODE: &str = "PS0 PS1 PS2 PS4 PROMPT_COMMAND BASH_ENV ENV SHELLOPTS BASHOPTS BASH_CMDS BASH_ALIASES \
        BASH_LOADABLES_PATH BASH_COMPAT POSIXLY_CORRECT TEXTDOMAIN TEXTDOMAINDIR";
    has_word(CODE, name) || name.starts_with("BASH_FUNC_")
}
