//! One rule: what it matches, for whom, and where it was written.

use regex::{Regex, RegexBuilder};

use super::error::RuleError;
use super::{args, program};
use crate::command::SimpleCommand;

/// A compiled expression may not take more memory than this.
const REGEX_BYTES: usize = 256 * 1024;

/// Whether a match lets something run or keeps it from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// When in doubt, the rule does not match.
    Allow,
    /// When in doubt, the rule may match.
    Deny,
}

/// Whether a rule matches a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    No,
    /// It depends on a value that is known only when the command runs.
    Maybe,
    Yes,
}

impl Match {
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Maybe, _) | (_, Self::Maybe) => Self::Maybe,
            (Self::Yes, Self::Yes) => Self::Yes,
        }
    }

    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::Maybe, _) | (_, Self::Maybe) => Self::Maybe,
            (Self::No, Self::No) => Self::No,
        }
    }
}

/// What no program's name has.
const SHELL_ONLY: [char; 12] = [';', '|', '&', '<', '>', '(', ')', '$', '`', '"', '\'', '\n'];
/// What joins commands to a line, wherever it stands.
const SHELL_LINE: [char; 4] = [';', '|', '&', '\n'];

/// For whom a rule holds. Empty lists mean everybody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// The tenants.
    pub tenants: Vec<String>,
    /// The lanes.
    pub lanes: Vec<String>,
}

impl Scope {
    /// The scope at the beginning of a written rule, and what follows it.
    fn read<'t>(text: &'t str, place: &str) -> Result<(Self, &'t str), RuleError> {
        let text = text.trim();
        let malformed =
            |found: &str| RuleError::Scope { place: place.to_owned(), found: found.to_owned() };
        // `[` alone is a command too.
        let Some(scoped) = text.strip_prefix('[').filter(|rest| rest.contains('=')) else {
            return Ok((Self::default(), text));
        };
        let (inside, rest) = scoped.split_once(']').ok_or_else(|| malformed(text))?;
        let mut scope = Self::default();
        for part in inside.split_whitespace() {
            let (key, list) = part.split_once('=').ok_or_else(|| malformed(part))?;
            let names: Vec<String> = list.split(',').map(str::to_owned).collect();
            match key {
                _ if names.iter().any(String::is_empty) => return Err(malformed(part)),
                "lane" | "lanes" => scope.lanes = names,
                "tenant" | "tenants" => scope.tenants = names,
                _ => return Err(malformed(part)),
            }
        }
        Ok((scope, rest.trim()))
    }

    fn covers(&self, tenant: &str, lane: &str) -> bool {
        let in_list = |list: &[String], name| list.is_empty() || list.iter().any(|it| it == name);
        in_list(&self.tenants, tenant) && in_list(&self.lanes, lane)
    }
}

#[derive(Debug, Clone)]
enum Matcher {
    /// A program, by name or path with wildcards, and the beginning of its arguments.
    Words { program: String, args: Vec<String> },
    /// An expression on the command as one line, its program without directories.
    Line(Regex),
}

/// One rule on commands.
#[derive(Debug, Clone)]
pub struct Rule {
    matcher: Matcher,
    text: String,
    place: String,
    scope: Scope,
}

impl Rule {
    /// A rule as a configuration writes it: a pattern, or `re:` and a regular expression, with
    /// `[lane=a,b tenant=c]` before it where it holds for those only.
    ///
    /// # Errors
    /// When it says nothing, its expression does not compile, or its scope cannot be read.
    pub fn parse(text: &str, place: impl Into<String>) -> Result<Self, RuleError> {
        let place = place.into();
        let (scope, rest) = Scope::read(text, &place)?;
        let rule = match rest.strip_prefix("re:") {
            Some(expression) if expression.trim().is_empty() => {
                return Err(RuleError::Empty { place });
            }
            Some(expression) => Self::regex(expression.trim(), place)?,
            None => Self::pattern(rest, place)?,
        };
        Ok(rule.for_scope(scope))
    }

    /// A program's name or path, wildcards allowed, and the arguments that it starts with.
    ///
    /// # Errors
    /// An empty pattern is refused.
    pub fn pattern(text: &str, place: impl Into<String>) -> Result<Self, RuleError> {
        let place = place.into();
        let mut words = text.split_whitespace().map(str::to_owned);
        let Some(program) = words.next() else {
            return Err(RuleError::Empty { place });
        };
        // A rule is about one command with its quotes removed; what only a shell line has would
        // never match.
        if program.contains(SHELL_ONLY) || text.contains(SHELL_LINE) {
            return Err(RuleError::ShellLine { place, found: text.trim().to_owned() });
        }
        let matcher = Matcher::Words { program, args: words.collect() };
        Ok(Self { matcher, text: text.trim().to_owned(), place, scope: Scope::default() })
    }

    /// A regular expression on the whole command: the program's name, then its arguments, with
    /// one blank between words.
    ///
    /// # Errors
    /// An expression that does not compile, or only into something huge, is refused.
    pub fn regex(text: &str, place: impl Into<String>) -> Result<Self, RuleError> {
        let place = place.into();
        let compiled = RegexBuilder::new(text).size_limit(REGEX_BYTES).build();
        match compiled {
            Ok(regex) => Ok(Self {
                matcher: Matcher::Line(regex),
                text: text.to_owned(),
                place,
                scope: Scope::default(),
            }),
            Err(source) => {
                let pattern = text.to_owned();
                Err(RuleError::Regex { place, pattern, source: Box::new(source) })
            }
        }
    }

    /// The same rule, for these tenants and lanes only.
    #[must_use]
    pub fn for_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// The rule as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where it was written: `policy.deny[2]`.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// For whom it holds.
    #[must_use]
    pub const fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Whether it holds for this tenant and lane.
    #[must_use]
    pub fn covers(&self, tenant: &str, lane: &str) -> bool {
        self.scope.covers(tenant, lane)
    }

    /// Whether it matches a command.
    pub(crate) fn matches(&self, command: &SimpleCommand, side: Side) -> Match {
        let Some(name) = command.program.value() else {
            return Match::Maybe;
        };
        match &self.matcher {
            Matcher::Words { program, .. } if !program::is_meant(program, name, side) => Match::No,
            Matcher::Words { args, .. } if args.is_empty() => Match::Yes,
            Matcher::Words { args, .. } => match side {
                Side::Allow => args::start_with(args, &command.args),
                Side::Deny => args::mean(args, command),
            },
            Matcher::Line(regex) => line(regex, command, name, side),
        }
    }
}

/// An allowed line must be known in full; a denied one is matched as far as it is known.
fn line(regex: &Regex, command: &SimpleCommand, program: &str, side: Side) -> Match {
    let known = command.args.iter().all(|word| word.value().is_some());
    if side == Side::Allow && !(known && program::is_meant(base(program), program, side)) {
        return Match::No;
    }
    let mut line = base(program).to_owned();
    for word in &command.args {
        line.push(' ');
        line.push_str(&word.text);
    }
    if regex.is_match(&line) { Match::Yes } else { Match::No }
}

fn base(program: &str) -> &str {
    crate::command::base_name(program)
}
