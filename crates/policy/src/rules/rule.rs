//! One rule: what it matches, for whom, where it was written, and the forms that configurations
//! write it in.

use regex::{Regex, RegexBuilder};
use thiserror::Error;

use super::matching;
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
            Matcher::Words { program, .. } if !matching::is_meant(program, name, side) => Match::No,
            Matcher::Words { args, .. } if args.is_empty() => Match::Yes,
            Matcher::Words { args, .. } => match side {
                Side::Allow => matching::start_with(args, &command.args),
                Side::Deny => matching::mean(args, command),
            },
            Matcher::Line(regex) => line(regex, command, name, side),
        }
    }
}

/// An allowed line must be known in full; a denied one is matched as far as it is known.
fn line(regex: &Regex, command: &SimpleCommand, program: &str, side: Side) -> Match {
    let known = command.args.iter().all(|word| word.value().is_some());
    if side == Side::Allow && !(known && matching::is_meant(base(program), program, side)) {
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

// The forms in which configurations and flags write rules, all compiled into the same ones.

/// The shell tool, under the names that tool lists use for it.
const SHELL_TOOLS: [&str; 2] = ["run_shell_command", "ShellTool"];
/// How alike a name must be to be taken for a mistyped one.
const ALIKE: f64 = 0.85;

/// A list of patterns; each place is `NAME[index]`.
///
/// # Errors
/// The first pattern that makes no sense.
pub fn patterns<'p>(
    name: &str,
    list: impl IntoIterator<Item = &'p str>,
) -> Result<Vec<Rule>, RuleError> {
    list.into_iter()
        .enumerate()
        .map(|(index, text)| Rule::pattern(text, format!("{name}[{index}]")))
        .collect()
}

/// `--allow "ls*,cat*"` and `--deny`: patterns on the program, separated by commas.
///
/// # Errors
/// An empty pattern between two commas.
pub fn wildcards(flag: &str, list: &str) -> Result<Vec<Rule>, RuleError> {
    patterns(flag, list.split(','))
}

/// `blocked_commands`: a program, or a program with the arguments that make it dangerous.
///
/// # Errors
/// An empty entry.
pub fn blocked_commands<'p>(
    key: &str,
    list: impl IntoIterator<Item = &'p str>,
) -> Result<Vec<Rule>, RuleError> {
    patterns(key, list)
}

/// What a `coreTools` list says about the shell tool.
#[derive(Debug, Clone)]
pub enum CoreTools {
    /// The tool is listed without a restriction.
    Everything,
    /// Only commands that start like this; nothing at all if the list is empty.
    Only(Vec<Rule>),
}

/// `coreTools`: `run_shell_command(PREFIX)` allows a prefix, `run_shell_command` everything.
///
/// A list without the shell tool leaves it out, so nothing is allowed.
///
/// # Errors
/// An entry that is malformed, or almost the shell tool.
pub fn core_tools<'p>(list: impl IntoIterator<Item = &'p str>) -> Result<CoreTools, RuleError> {
    let mut rules = Vec::new();
    let mut everything = false;
    for entry in tool_entries("policy.coreTools", list) {
        match entry? {
            (_, Some("")) => everything = true,
            (place, Some(prefix)) => rules.push(Rule::pattern(prefix, place)?),
            (_, None) => {}
        }
    }
    Ok(if everything { CoreTools::Everything } else { CoreTools::Only(rules) })
}

/// `excludeTools`: `run_shell_command(PREFIX)` denies a prefix, `run_shell_command` everything.
///
/// # Errors
/// An entry that is malformed, or almost the shell tool.
pub fn exclude_tools<'p>(list: impl IntoIterator<Item = &'p str>) -> Result<Vec<Rule>, RuleError> {
    let mut rules = Vec::new();
    for entry in tool_entries("policy.excludeTools", list) {
        match entry? {
            (place, Some("")) => rules.push(Rule::pattern("*", place)?),
            (place, Some(prefix)) => rules.push(Rule::pattern(prefix, place)?),
            (_, None) => {}
        }
    }
    Ok(rules)
}

/// The place and the prefix of an entry: empty for the bare tool, none for another tool.
type Entry<'p> = Result<(String, Option<&'p str>), RuleError>;

fn tool_entries<'p>(
    name: &str,
    list: impl IntoIterator<Item = &'p str>,
) -> impl Iterator<Item = Entry<'p>> {
    list.into_iter().enumerate().map(move |(index, entry)| {
        let place = format!("{name}[{index}]");
        let entry = entry.trim();
        let (tool, prefix) = match entry.split_once('(') {
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(prefix) if !prefix.trim().is_empty() => (tool.trim(), prefix.trim()),
                Some(_) | None => {
                    return Err(RuleError::Shape { place, found: entry.to_owned() });
                }
            },
            None => (entry, ""),
        };
        if SHELL_TOOLS.contains(&tool) {
            return Ok((place, Some(prefix)));
        }
        match SHELL_TOOLS.into_iter().find(|known| strsim::jaro_winkler(known, tool) > ALIKE) {
            Some(meant) => Err(RuleError::Tool { place, found: tool.to_owned(), meant }),
            None => Ok((place, None)),
        }
    })
}

// Why a rule was not accepted.

/// A rule that does not make sense. No policy is built from a list that holds one.
#[derive(Debug, Error)]
pub enum RuleError {
    /// The rule says nothing.
    #[error("{place} is empty; write a program's name, or remove it")]
    Empty {
        /// Where it stands.
        place: String,
    },
    /// The regular expression does not compile.
    #[error("{place} is not a regular expression; correct {pattern:?}")]
    Regex {
        /// Where it stands.
        place: String,
        /// What was written.
        pattern: String,
        /// What is wrong with it.
        source: Box<regex::Error>,
    },
    /// A tool restriction that is almost, but not quite, one on the shell tool.
    #[error("{place} restricts {found:?}, which is no tool; did you mean {meant:?}?")]
    Tool {
        /// Where it stands.
        place: String,
        /// What was written.
        found: String,
        /// The nearest tool.
        meant: &'static str,
    },
    /// A shell line where one command is wanted.
    #[error(
        "{place} is {found:?}, which is a shell line; write one command, without quotes, and one rule for each"
    )]
    ShellLine {
        /// Where it stands.
        place: String,
        /// What was written.
        found: String,
    },
    /// A lane that there is not.
    #[error("{place} is for lane {lane:?}, which there is not; the lanes are {}", .known.join(", "))]
    UnknownLane {
        /// Where it stands.
        place: String,
        /// What was written.
        lane: String,
        /// The lanes there are.
        known: Vec<String>,
    },
    /// A scope that is none.
    #[error(
        "{place} begins with {found:?}; write [lane=NAME,…] or [tenant=NAME,…] before the rule"
    )]
    Scope {
        /// Where it stands.
        place: String,
        /// What was written.
        found: String,
    },
    /// A tool restriction whose parentheses do not match.
    #[error("{place} is {found:?}; write run_shell_command(PREFIX)")]
    Shape {
        /// Where it stands.
        place: String,
        /// What was written.
        found: String,
    },
}

impl RuleError {
    /// Where the rule stands: `policy.deny[2]`.
    #[must_use]
    pub fn place(&self) -> &str {
        match self {
            Self::Empty { place }
            | Self::Regex { place, .. }
            | Self::Tool { place, .. }
            | Self::ShellLine { place, .. }
            | Self::UnknownLane { place, .. }
            | Self::Scope { place, .. }
            | Self::Shape { place, .. } => place,
        }
    }

    /// The stable word that programs may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty { .. } => "rule_empty",
            Self::Regex { .. } => "rule_regex",
            Self::Tool { .. } => "rule_unknown_tool",
            Self::ShellLine { .. } => "rule_shell_line",
            Self::UnknownLane { .. } => "rule_unknown_lane",
            Self::Scope { .. } => "rule_scope",
            Self::Shape { .. } => "rule_malformed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Word;

    fn command(text: &str) -> SimpleCommand {
        SimpleCommand::of(text.split_whitespace().map(Word::literal).collect()).unwrap()
    }

    fn texts(rules: &[Rule]) -> Vec<(&str, &str)> {
        rules.iter().map(|rule| (rule.text(), rule.place())).collect()
    }

    #[test]
    fn wildcards_are_separated_by_commas() {
        let rules = wildcards("--deny", "rm*, sudo*,chmod").unwrap();
        assert_eq!(
            texts(&rules),
            [("rm*", "--deny[0]"), ("sudo*", "--deny[1]"), ("chmod", "--deny[2]")]
        );
        assert_eq!(rules[0].matches(&command("rmdir x"), Side::Deny), Match::Yes);
        assert_eq!(rules[2].matches(&command("chmodx"), Side::Deny), Match::No);
        assert_eq!(wildcards("--deny", "rm,,sudo").unwrap_err().code(), "rule_empty");
    }

    #[test]
    fn blocked_commands_may_have_arguments() {
        let rules =
            blocked_commands("policy.blocked_commands", ["rm -rf", "format", "dd"]).unwrap();
        assert_eq!(rules[0].matches(&command("rm -f -r x"), Side::Deny), Match::Yes);
        assert_eq!(rules[0].matches(&command("rm x"), Side::Deny), Match::No);
        assert_eq!(rules[0].place(), "policy.blocked_commands[0]");
    }

    #[test]
    fn core_tools_restrict_the_shell_tool_and_ignore_others() {
        let CoreTools::Only(rules) =
            core_tools(["read_file", "run_shell_command(git status)", "ShellTool(npm)"]).unwrap()
        else {
            panic!("a restricted tool")
        };
        assert_eq!(
            texts(&rules),
            [("git status", "policy.coreTools[1]"), ("npm", "policy.coreTools[2]")]
        );
        assert!(matches!(core_tools(["run_shell_command"]).unwrap(), CoreTools::Everything));
        let CoreTools::Only(none) = core_tools(["read_file"]).unwrap() else { panic!("left out") };
        assert!(none.is_empty());
    }

    #[test]
    fn exclude_tools_deny_prefixes_or_everything() {
        let rules = exclude_tools(["run_shell_command(git push)", "run_shell_command"]).unwrap();
        assert_eq!(rules[0].matches(&command("git push origin"), Side::Deny), Match::Yes);
        assert_eq!(rules[0].matches(&command("git status"), Side::Deny), Match::No);
        assert_eq!(rules[1].matches(&command("anything"), Side::Deny), Match::Yes);
    }

    #[test]
    fn a_mistyped_or_malformed_tool_is_an_error_with_a_suggestion() {
        let mistyped = exclude_tools(["run_shel_command(rm)"]).unwrap_err();
        assert_eq!(mistyped.code(), "rule_unknown_tool");
        assert!(mistyped.to_string().contains("run_shell_command"), "{mistyped}");
        for entry in ["run_shell_command(rm", "run_shell_command()"] {
            assert_eq!(exclude_tools([entry]).unwrap_err().code(), "rule_malformed", "{entry}");
        }
    }

    #[test]
    fn an_expression_sees_the_command_as_one_line() {
        let rule = Rule::regex("^curl .*evil", "policy.deny[0]").unwrap();
        assert_eq!(rule.matches(&command("/usr/bin/curl -s http://evil"), Side::Deny), Match::Yes);
        assert_eq!(rule.matches(&command("curl http://good"), Side::Deny), Match::No);
        assert_eq!(rule.matches(&command("./curl http://evil"), Side::Allow), Match::No);
        assert_eq!(Rule::regex("(", "policy.deny[1]").unwrap_err().code(), "rule_regex");
    }
}
