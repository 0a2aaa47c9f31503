//! What the text says about its variables and functions, all places taken together.
//!
//! Arithmetic evaluates the *contents* of variables, array subscripts with command substitutions
//! included: `x='a[$(cmd)]'; echo $((x))` runs `cmd`. So each variable that arithmetic reads is
//! followed, through copies, to every value that the text gives it anywhere. Order is ignored:
//! that can only find more.

use std::collections::{HashMap, HashSet};

use crate::command::{AssignedValue, Assignment, AssignmentScope};

/// Variables that the shell fills with text from outside.
const FILLED: [&str; 20] = [
    "@",
    "*",
    "_",
    "REPLY",
    "OPTARG",
    "MAPFILE",
    "BASH_REMATCH",
    "PWD",
    "OLDPWD",
    "DIRSTACK",
    "BASH_ARGV",
    "BASH_ARGV0",
    "BASH_COMMAND",
    "BASH_EXECUTION_STRING",
    "FUNCNAME",
    "BASH_SOURCE",
    "COMP_WORDS",
    "COMP_LINE",
    "READLINE_LINE",
    "READLINE_ARGUMENT",
];

/// Variables that bash gives the integer attribute: it evaluates what they are set to.
const INTEGERS: [&str; 11] = [
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "LINENO",
    "OPTIND",
    "HISTCMD",
    "BASHPID",
    "BASH_SUBSHELL",
    "EPOCHSECONDS",
    "EPOCHREALTIME",
    "BASH_MONOSECONDS",
];

/// Variables that stand behind `~`, `~+`, `~-` and `~1`, or that words are taken to be paths by.
const ROOTS: [&str; 4] = ["HOME", "PWD", "OLDPWD", "DIRSTACK"];

#[derive(Debug, Default)]
pub(super) struct Scope {
    values: HashMap<String, Vec<AssignedValue>>,
    evaluated: Vec<String>,
    /// Names that an expression may set.
    touched: Vec<String>,
    /// Certainly defined, at this point of the text.
    functions: HashSet<String>,
    /// Defined anywhere.
    all_functions: HashSet<String>,
    functions_removed: bool,
    /// Variables that were taken to be plain words, by what the text said up to then.
    relied_on: Vec<String>,
    /// `$HOME`, `$PWD` or what `~` stands for was taken to be an absolute path.
    rooted: bool,
    /// Variables whose unquoted value was taken for one word.
    one_words: Vec<String>,
    /// Variables that are arrays somewhere in the text.
    arrays: HashSet<String>,
    /// Variables that a declaring builtin gives an unknown value: an array is read from it.
    declared: Vec<String>,
    /// A redirection goes to a file that is known only when it runs.
    redirected: bool,
    /// Words of the text besides assigned values that could become the target of a redirection.
    addresses: bool,
    /// Programs whose output was taken to be a number.
    counted_on: Vec<String>,
}

impl Scope {
    pub(super) fn assign(&mut self, name: &str, value: AssignedValue) {
        if INTEGERS.contains(&name) {
            self.evaluate(name);
        }
        self.values.entry(name.to_owned()).or_default().push(value);
    }

    /// Arithmetic reads this variable, or a value names it.
    pub(super) fn evaluate(&mut self, name: &str) {
        self.evaluated.push(name.to_owned());
    }

    /// Arithmetic reads this variable, or sets it.
    pub(super) fn touch(&mut self, name: &str) {
        self.evaluate(name);
        self.touched.push(name.to_owned());
    }

    /// Arithmetic reads this text. `false` where the text itself holds code.
    pub(super) fn evaluate_text(&mut self, text: &str) -> bool {
        if holds_code(text) {
            return false;
        }
        names(text).for_each(|name| self.touch(name));
        true
    }

    pub(super) fn define_function(&mut self, name: String) {
        self.functions.insert(name);
    }

    pub(super) fn defines(&self, name: &str) -> bool {
        self.functions.contains(name)
    }

    /// Takes the functions away, for text that another shell reads.
    pub(super) fn hide_functions(&mut self) -> HashSet<String> {
        std::mem::take(&mut self.functions)
    }

    pub(super) fn show_functions(&mut self, functions: HashSet<String>) {
        self.functions = functions;
    }

    pub(super) fn remove_functions(&mut self) {
        self.functions_removed = true;
    }

    pub(super) const fn functions_removed(&self) -> bool {
        self.functions_removed
    }

    /// Whether some variable that arithmetic reads may hold code.
    pub(super) fn reaches_code(&self) -> bool {
        let mut seen = HashSet::new();
        let mut open: Vec<&str> = self.evaluated.iter().map(String::as_str).collect();
        while let Some(name) = open.pop() {
            if is_filled(name) {
                return true;
            }
            if !seen.insert(name) {
                continue;
            }
            for value in self.values.get(name).into_iter().flatten() {
                match value {
                    AssignedValue::Unknown | AssignedValue::File => return true,
                    AssignedValue::Text(text) if holds_code(text) => return true,
                    AssignedValue::Text(text) => open.extend(names(text)),
                    AssignedValue::Copy(other) => open.push(other),
                    AssignedValue::Number => {}
                }
            }
        }
        false
    }

    /// What a variable's value looks like as a word, as far as every value in the text is known.
    pub(super) fn settle(&mut self, name: &str) -> Settled {
        let settled = self.looks(name);
        if settled != Settled::Open {
            self.relied_on.push(name.to_owned());
        }
        settled
    }

    fn looks(&self, name: &str) -> Settled {
        if is_filled(name) {
            return Settled::Open;
        }
        let values = self.values.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut settled = if values.is_empty() { Settled::Open } else { Settled::Plain };
        for value in values {
            match value {
                AssignedValue::Number => {}
                AssignedValue::Text(text) if is_plain(text) => {}
                AssignedValue::File if settled != Settled::Open => settled = Settled::File,
                AssignedValue::Text(_)
                | AssignedValue::File
                | AssignedValue::Copy(_)
                | AssignedValue::Unknown => {
                    return Settled::Open;
                }
            }
        }
        settled
    }

    /// `$HOME`, `$PWD` and what `~` stands for are taken to be absolute paths: nothing may set
    /// them to anything else.
    pub(super) const fn rely_on_roots(&mut self) {
        self.rooted = true;
    }

    /// The unquoted values of these variables are taken for one word each, as far as the text does
    /// not say otherwise, and so is what `pwd` and `id` print.
    pub(super) fn rely_on_one_word(&mut self, names: Vec<String>) {
        self.one_words.extend(names);
        self.count_on("pwd");
        self.count_on("id");
    }

    /// This program's output is taken for a number: no function may stand in for it.
    pub(super) fn count_on(&mut self, program: &str) {
        self.counted_on.push(program.to_owned());
    }

    pub(super) fn note_function(&mut self, name: &str) {
        self.all_functions.insert(name.to_owned());
    }

    /// Whether something was relied on that the rest of the text took back.
    pub(super) fn is_broken(&self) -> bool {
        let whole = !self.one_words.is_empty() || !self.relied_on.is_empty();
        let splits = whole && self.values.contains_key("IFS");
        splits
            || self.relied_on.iter().any(|name| self.looks(name) == Settled::Open)
            || self.counted_on.iter().any(|name| self.all_functions.contains(name))
            || self.one_words.iter().any(|name| !self.is_one_word(name))
            || self.rooted && ROOTS.iter().any(|name| !self.is_rooted(name))
    }

    /// `true` if every value that the text gives to a variable is an absolute path of one word.
    fn is_rooted(&self, name: &str) -> bool {
        let rooted = |value: &AssignedValue| match value {
            AssignedValue::Text(text) => text.starts_with('/') && is_plain(text),
            AssignedValue::Copy(other) => ROOTS.contains(&other.as_str()),
            AssignedValue::Number | AssignedValue::File | AssignedValue::Unknown => false,
        };
        self.values.get(name).is_none_or(|values| values.iter().all(rooted))
    }

    /// `true` if the text gives a variable no value that could be split or be an option.
    fn is_one_word(&self, name: &str) -> bool {
        if ROOTS.contains(&name) {
            return self.is_rooted(name);
        }
        let whole = |value: &AssignedValue| match value {
            AssignedValue::Text(text) => is_plain(text),
            AssignedValue::Number => true,
            AssignedValue::Copy(_) | AssignedValue::File | AssignedValue::Unknown => false,
        };
        !is_filled(name) && self.values.get(name).is_none_or(|values| values.iter().all(whole))
    }

    /// Notes that a variable is an array.
    pub(super) fn note_array(&mut self, name: &str) {
        self.arrays.insert(name.to_owned());
    }

    /// Notes that a declaring builtin gives a variable a value that is known only when it runs.
    pub(super) fn note_declared(&mut self, name: &str) {
        self.declared.push(name.to_owned());
    }

    /// `true` if bash may read the elements of an array from a value, expansions included.
    pub(super) fn fills_array(&self) -> bool {
        self.declared
            .iter()
            .any(|name| self.arrays.contains(name) || ROOTS.contains(&name.as_str()))
    }

    /// Notes a redirection to a file that is known only when it runs.
    pub(super) const fn note_redirect(&mut self) {
        self.redirected = true;
    }

    /// Notes a literal word, which a parameter or a default value could carry elsewhere.
    pub(super) fn note_word(&mut self, text: &str) {
        self.addresses |= is_address(text);
    }

    /// `true` if a redirection may open a connection by a name that a variable holds.
    pub(super) fn may_connect(&self) -> bool {
        let held = || {
            self.values.values().flatten().any(|value| match value {
                AssignedValue::Text(text) => may_be_address(text),
                AssignedValue::Copy(_)
                | AssignedValue::Number
                | AssignedValue::File
                | AssignedValue::Unknown => false,
            })
        };
        self.redirected && (self.addresses || held())
    }

    /// Each variable that arithmetic may have set.
    pub(super) fn set_in_arithmetic(&self) -> impl Iterator<Item = Assignment> {
        self.touched.iter().map(|name| Assignment {
            name: name.clone(),
            value: AssignedValue::Number,
            scope: AssignmentScope::Shell,
        })
    }
}

/// What is known of a variable's value as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// At most one word, and no option.
    Plain,
    /// The name of some file.
    File,
    /// Nothing.
    Open,
}

/// Whether a value stays one word, unquoted too, and is no option.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && !text.contains([' ', '\t', '\n', '*', '?', '['])
}

fn is_filled(name: &str) -> bool {
    FILLED.contains(&name) || name.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
}

/// `true` if bash opens a connection where a redirection names this file.
pub(super) fn is_address(text: &str) -> bool {
    text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/")
}

/// `true` if a value is such a name or could be a part of one.
fn may_be_address(text: &str) -> bool {
    let part = |it: &str| matches!(it, "tcp" | "udp");
    let device = text.starts_with("/dev")
        && !matches!(text, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin" | "/dev/tty");
    device || text.trim_matches('/').split('/').next().is_some_and(part)
}

/// Whether arithmetic on this text could run a command.
fn holds_code(text: &str) -> bool {
    text.contains(['[', '$', '`'])
}

/// The names in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii() || !in_name(c as u8))
        .filter(|word| word.bytes().next().is_some_and(starts_name))
}

pub(super) const fn starts_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

pub(super) const fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// `true` if this can name a variable.
pub(super) fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(starts_name) && text.bytes().all(in_name)
}

/// `true` if shells run or read what a variable of this name holds.
pub(super) fn is_code(name: &str) -> bool {
    const CODE: [&str; 16] = [
        "PS0",
        "PS1",
        "PS2",
        "PS4",
        "PROMPT_COMMAND",
        "BASH_ENV",
        "ENV",
        "SHELLOPTS",
        "BASHOPTS",
        "BASH_CMDS",
        "BASH_ALIASES",
        "BASH_LOADABLES_PATH",
        "BASH_COMPAT",
        "POSIXLY_CORRECT",
        "TEXTDOMAIN",
        "TEXTDOMAINDIR",
    ];
    CODE.contains(&name) || name.starts_with("BASH_FUNC_")
}
