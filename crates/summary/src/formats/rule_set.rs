//! The table of all formats, and all their rules, compiled: the rules that match a line are found in one pass.

use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet, RegexSetBuilder};

use super::compiled::{GO_FORMATS, JVM_FORMATS, RUST_FORMATS};
use super::scripts::{PYTHON_FORMATS, RUBY_PHP_FORMATS};
use super::tools::{IMAGE_FORMATS, SHELL_FORMATS};
use super::{javascript, native, traces};
use crate::rules::{Effect, Format, FormatKind, Rule};

/// All formats, family by family.
pub(crate) const FORMATS: &[&[Format]] = &[
    PYTHON_FORMATS,
    javascript::FORMATS,
    JVM_FORMATS,
    RUBY_PHP_FORMATS,
    IMAGE_FORMATS,
    RUST_FORMATS,
    GO_FORMATS,
    SHELL_FORMATS,
    native::FORMATS,
    traces::FORMATS,
    javascript::COMMON_FORMATS,
];

/// The names that a [`ToolReport`](crate::ToolReport) can have, each once, in alphabetical order.
#[must_use]
pub fn tool_names() -> Vec<&'static str> {
    let formats = FORMATS.iter().copied().flatten();
    let tools = formats.filter(|format| !matches!(format.kind, FormatKind::Trace(_)));
    let mut names: Vec<&str> = tools.map(|format| format.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// One rule with its format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleRef {
    /// The index of the format.
    pub(crate) format: usize,
    /// The index of the rule among all rules of all formats.
    index: usize,
    pub(crate) effect: Effect,
}

/// All rules of all formats, compiled.
#[derive(Debug)]
pub(crate) struct RuleSet {
    /// Finds the rules that match a line, in one pass.
    set: RegexSet,
    /// The rules in the order of the set.
    refs: Vec<RuleRef>,
    /// The patterns with their groups, compiled when a line first matches.
    patterns: Vec<LazyPattern>,
}

type LazyPattern = LazyLock<Option<Regex>, Box<dyn Fn() -> Option<Regex> + Send + Sync>>;

/// The memory for the states of the combined pattern, per thread that uses it.
const STATES_BYTES: usize = 8 * 1024 * 1024;
/// The memory of the combined pattern.
const PROGRAM_BYTES: usize = 64 * 1024 * 1024;

static RULES: LazyLock<RuleSet> = LazyLock::new(|| RuleSet::new(FORMATS));

impl RuleSet {
    /// The rules of all formats.
    pub(crate) fn all() -> &'static Self {
        &RULES
    }

    fn new(formats: &[&[Format]]) -> Self {
        let formats = formats.iter().copied().flatten().enumerate();
        let rules: Vec<(usize, &Rule)> = formats
            .flat_map(|(format, it)| it.rules.iter().map(move |rule| (format, rule)))
            .collect();
        let texts: Vec<String> = rules.iter().map(|(_, rule)| ascii_pattern(rule.on)).collect();
        let set = RegexSetBuilder::new(&texts)
            .size_limit(PROGRAM_BYTES)
            .dfa_size_limit(STATES_BYTES)
            .build()
            .unwrap_or_else(|_| RegexSet::empty());
        let refs = rules.iter().enumerate();
        let refs =
            refs.map(|(index, &(format, rule))| RuleRef { format, index, effect: rule.then });
        Self { set, refs: refs.collect(), patterns: texts.into_iter().map(lazy_pattern).collect() }
    }

    /// The rules that match a line, in the order of the formats.
    pub(crate) fn matches<'a>(&'a self, line: &str) -> impl Iterator<Item = RuleRef> + use<'a> {
        self.set.matches(line).into_iter().filter_map(|index| self.refs.get(index).copied())
    }

    /// The groups of a rule that matches a line.
    pub(crate) fn captures<'l>(&self, rule: RuleRef, line: &'l str) -> Option<Captures<'l>> {
        self.patterns.get(rule.index)?.as_ref()?.captures(line)
    }
}

fn lazy_pattern(text: String) -> LazyPattern {
    LazyLock::new(Box::new(move || Regex::new(&text).ok()))
}

/// Anchors a pattern, and limits its classes to ASCII: the Unicode tables are large and slow.
fn ascii_pattern(pattern: &str) -> String {
    let mut ascii = String::with_capacity(pattern.len() + 16);
    ascii.push_str("^(?:");
    let mut in_class = false;
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        match (char, in_class) {
            ('\\', _) => {
                let escaped = chars.next().unwrap_or('\\');
                ascii.push_str(&match (escaped, in_class) {
                    ('d', true) => "0-9".to_owned(),
                    ('d', false) => "[0-9]".to_owned(),
                    ('w', true) => "A-Za-z0-9_".to_owned(),
                    ('w', false) => "[A-Za-z0-9_]".to_owned(),
                    ('s', true) => " \\t".to_owned(),
                    ('s', false) => "[ \\t]".to_owned(),
                    ('S', false) => "[^ \\t]".to_owned(),
                    ('b', false) => "(?-u:\\b)".to_owned(),
                    (other, _) => format!("\\{other}"),
                });
                continue;
            }
            ('[', false) => in_class = true,
            (']', true) if !ascii.ends_with('[') && !ascii.ends_with("[^") => in_class = false,
            _ => {}
        }
        ascii.push(char);
    }
    ascii.push(')');
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        for (index, pattern) in RuleSet::all().patterns.iter().enumerate() {
            let rule = FORMATS.iter().copied().flatten().flat_map(|it| it.rules).nth(index);
            assert!(pattern.is_some(), "{rule:?}");
        }
        assert_eq!(RuleSet::all().set.len(), RuleSet::all().patterns.len());
    }

    #[test]
    fn classes_are_ascii() {
        assert_eq!(
            ascii_pattern(r"a\d[\w.]\S\b[^\s]\["),
            r"^(?:a[0-9][A-Za-z0-9_.][^ \t](?-u:\b)[^ \t]\[)"
        );
    }
}
