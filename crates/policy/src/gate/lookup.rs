//! The names and directories that the server looks up to fill [`GateRules::files`].

use std::collections::BTreeSet;

use super::called::{ENV, SHELLS, multi_call_names};
use super::helper_table::{HelperDirectory, helper_directories, helper_names, parents};
use super::rules::{GateRule, GateRules};
use crate::command::base_name;
use crate::rules::{PolicyRule, matches_wildcard};

/// Interpreters that `#!/usr/bin/env` names in scripts.
const INTERPRETERS: [&str; 16] = [
    "python", "python3", "python2", "node", "ruby", "perl", "php", "lua", "deno", "bun", "tclsh",
    "Rscript", "java", "fish", "ksh", "pwsh",
];

/// The programs to look up in every directory of the server's PATH, links followed. Each file that
/// is found becomes one `KnownFile` with all its names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ProgramLookup {
    /// The names to look up, without wildcards.
    pub names: BTreeSet<String>,
    /// Names with wildcards: all programs that match are looked up.
    pub patterns: BTreeSet<String>,
    /// `true` if every program in PATH must be known, because a regular expression may match it.
    pub all: bool,
    /// Directories outside PATH: their files are known as `NAME/FILE`.
    pub directories: Vec<HelperDirectory>,
}

impl ProgramLookup {
    /// `true` if the server must look up a program of this name.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.all
            || self.names.contains(name)
            || self.patterns.iter().any(|pattern| matches_wildcard(pattern, name))
    }

    /// `true` if the server must read the directories of PATH instead of looking up single names.
    #[must_use]
    pub fn needs_listing(&self) -> bool {
        self.all || !self.patterns.is_empty()
    }

    fn add_rule(&mut self, rule: &GateRule) {
        let Ok(parsed) = PolicyRule::from_gate_text(&rule.text, &rule.location) else { return };
        match parsed.words() {
            None => self.all = true,
            // Everything matches, known or not.
            Some(("*", _)) => {}
            Some((program, _)) if program.contains('/') => {}
            Some((program, _)) if program.contains(['*', '?']) => {
                self.patterns.insert(program.to_owned());
            }
            Some((program, _)) => {
                self.names.insert(program.to_owned());
            }
        }
    }

    /// Adds the helpers of each program that may be started, and theirs in turn.
    fn add_helpers(&mut self) {
        let mut waiting: Vec<String> =
            parents().filter(|name| self.wants(name)).map(str::to_owned).collect();
        let mut done = BTreeSet::new();
        while let Some(program) = waiting.pop() {
            if !done.insert(program.clone()) {
                continue;
            }
            self.directories.extend(helper_directories(&program));
            for helper in helper_names(&program) {
                self.names.insert(helper.to_owned());
                waiting.push(helper.to_owned());
            }
        }
        // Scripts in the directories have rows of their own.
        let in_directories: Vec<&str> =
            parents().filter(|name| self.is_in_directory(name)).collect();
        let helpers = in_directories.into_iter().flat_map(helper_names).map(str::to_owned);
        self.names.extend(helpers);
    }

    fn is_in_directory(&self, parent: &str) -> bool {
        self.directories.iter().any(|directory| {
            parent.strip_prefix(&directory.program).is_some_and(|rest| rest.starts_with('-'))
        })
    }
}

impl GateRules {
    /// Returns the programs that must be known before the rules can be compiled.
    #[must_use]
    pub fn lookup(&self) -> ProgramLookup {
        let mut lookup = ProgramLookup::default();
        let allow = self.allow.iter().flatten();
        allow.chain(&self.deny).chain(&self.ask).for_each(|rule| lookup.add_rule(rule));
        if self.allow.is_some() {
            lookup.add_helpers();
        }
        let fixed = SHELLS.into_iter().chain([ENV]).chain(multi_call_names()).chain(INTERPRETERS);
        lookup.names.extend(fixed.map(str::to_owned));
        lookup
    }
}

/// Returns the program that `env` looks for if a script begins with `#!/usr/bin/env NAME`. The
/// server looks it up for each script among the known files.
#[must_use]
pub fn find_env_interpreter(script: &[u8]) -> Option<String> {
    let line = script.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    words.next().filter(|path| base_name(path) == ENV)?;
    let is_program = |word: &&str| !word.starts_with('-') && !word.contains('=');
    words.find(is_program).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_that_env_looks_for_is_found() {
        for (script, expected) in [
            ("#!/usr/bin/env python3\nx", Some("python3")),
            ("#! /usr/bin/env -S A=b node --x", Some("node")),
            ("#!/bin/sh\n", None),
            ("\x7fELF", None),
            ("#!/usr/bin/env", None),
        ] {
            assert_eq!(find_env_interpreter(script.as_bytes()).as_deref(), expected, "{script}");
        }
    }
}
