//! What the text says about its variables and functions, all places taken together.
//!
//! Arithmetic evaluates the *contents* of variables, array subscripts with command substitutions
//! included: `x='a[$(cmd)]'; echo $((x))` runs `cmd`. So each variable that arithmetic reads is
//! followed, through copies, to every value that the text gives it anywhere. Order is ignored:
//! that can only find more.

use std::collections::{HashMap, HashSet};

use super::cursor::{in_name, starts_name};
use crate::command::{Assignment, Reach, Value};

/// Variables that the shell fills with text from outside.
const FILLED: [&str; 14] = [
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
];

#[derive(Debug, Default)]
pub(super) struct Scope {
    values: HashMap<String, Vec<Value>>,
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
    /// `$HOME` or `$PWD` was taken to be an absolute path.
    rooted: bool,
    /// Programs whose output was taken to be a number.
    counted_on: Vec<String>,
}

impl Scope {
    pub(super) fn assign(&mut self, name: &str, value: Value) {
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
                    Value::Unknown | Value::File => return true,
                    Value::Text(text) if holds_code(text) => return true,
                    Value::Text(text) => open.extend(names(text)),
                    Value::Copy(other) => open.push(other),
                    Value::Number => {}
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
        let values = self.values.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut settled = if values.is_empty() { Settled::Open } else { Settled::Plain };
        for value in values {
            match value {
                Value::Number => {}
                Value::Text(text) if is_plain(text) => {}
                Value::File if settled != Settled::Open => settled = Settled::File,
                Value::Text(_) | Value::File | Value::Copy(_) | Value::Unknown => {
                    return Settled::Open;
                }
            }
        }
        settled
    }

    /// `$HOME` and `$PWD` are taken to be absolute paths: nothing may set them.
    pub(super) const fn rely_on_roots(&mut self) {
        self.rooted = true;
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
        let splits = !self.relied_on.is_empty() && self.values.contains_key("IFS");
        splits
            || self.relied_on.iter().any(|name| self.looks(name) == Settled::Open)
            || self.counted_on.iter().any(|name| self.all_functions.contains(name))
            || self.rooted && ["HOME", "PWD"].iter().any(|name| self.values.contains_key(*name))
    }

    /// Each variable that arithmetic may have set.
    pub(super) fn set_in_arithmetic(&self) -> impl Iterator<Item = Assignment> {
        self.touched.iter().map(|name| Assignment {
            name: name.clone(),
            value: Value::Number,
            reach: Reach::Shell,
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

/// Whether arithmetic on this text could run a command.
fn holds_code(text: &str) -> bool {
    text.contains(['[', '$', '`'])
}

/// The names in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii() || !in_name(c as u8))
        .filter(|word| word.bytes().next().is_some_and(starts_name))
}
