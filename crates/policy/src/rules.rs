//! Policy rules: their parsing, their scope, and the forms in which configurations write them; and the
//! directories in which jobs may run. Pure: the caller passes paths of opened directories.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::command::{SimpleCommand, base_name};
use crate::matching;

pub use crate::matching::{PLAIN_LOCALES, matches_wildcard};

/// The beginning of a rule that is a regular expression.
const REGEX_MARK: &str = "re:";
/// The memory limit of a compiled regular expression.
const REGEX_BYTES: usize = 256 * 1024;

/// The kind of list that a rule stands in. It decides how a doubtful match counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// An allow list: a doubtful match does not count.
    Allow,
    /// A deny or ask list: a doubtful match counts as [`RuleMatch::Maybe`].
    Deny,
}

/// The result of matching a command against a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleMatch {
    No,
    /// The match depends on a value that is known only when the command runs.
    Maybe,
    Yes,
}

impl RuleMatch {
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Maybe, _) | (_, Self::Maybe) => Self::Maybe,
            (Self::Yes, Self::Yes) => Self::Yes,
        }
    }

    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::Maybe, _) | (_, Self::Maybe) => Self::Maybe,
            (Self::No, Self::No) => Self::No,
        }
    }
}

/// Characters that no program name in a rule may contain.
const SHELL_ONLY: [char; 12] = [';', '|', '&', '<', '>', '(', ')', '$', '`', '"', '\'', '\n'];
/// Characters that join commands to a line. They may not occur anywhere in a rule.
const SHELL_LINE: [char; 4] = [';', '|', '&', '\n'];

/// The tenants and lanes that a rule applies to. An empty list means all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleScope {
    /// The names of the tenants.
    pub tenants: Vec<String>,
    /// The names of the lanes.
    pub lanes: Vec<String>,
}

impl RuleScope {
    /// Splits a written rule into the scope at its beginning and the rest.
    fn parse<'t>(text: &'t str, location: &str) -> Result<(Self, &'t str), RuleError> {
        let text = text.trim();
        let malformed = |found: &str| RuleError::Scope {
            location: location.to_owned(),
            found: found.to_owned(),
        };
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
}

#[derive(Debug, Clone)]
enum RuleMatcher {
    /// A program, by name or path with wildcards, and the beginning of its arguments.
    Words { program: String, args: Vec<String> },
    /// An expression on the command as one line, its program without directories.
    Line(Regex),
}

/// One rule on commands.
#[derive(Debug, Clone)]
pub struct PolicyRule {
    matcher: RuleMatcher,
    text: String,
    location: String,
    scope: RuleScope,
}

impl PolicyRule {
    /// Parses a rule as a configuration writes it: a pattern, or `re:` and a regular expression.
    /// `[lane=a,b tenant=c]` before it limits the rule to those lanes and tenants.
    ///
    /// # Errors
    /// The rule is empty, its expression does not compile, or its scope cannot be parsed.
    pub fn parse(text: &str, location: impl Into<String>) -> Result<Self, RuleError> {
        let location = location.into();
        let (scope, rest) = RuleScope::parse(text, &location)?;
        let rule = match rest.strip_prefix(REGEX_MARK) {
            Some(expression) if expression.trim().is_empty() => {
                return Err(RuleError::Empty { location });
            }
            Some(expression) => Self::from_regex(expression.trim(), location)?,
            None => Self::from_pattern(rest, location)?,
        };
        Ok(Self { scope, ..rule })
    }

    /// Parses a pattern: a program's name or path, with wildcards, and its leading arguments.
    fn from_pattern(text: &str, location: impl Into<String>) -> Result<Self, RuleError> {
        let location = location.into();
        let mut words = text.split_whitespace().map(str::to_owned);
        let Some(program) = words.next() else {
            return Err(RuleError::Empty { location });
        };
        // A rule is matched against one command with its quotes removed, so shell operators would
        // never match.
        if program.contains(SHELL_ONLY) || text.contains(SHELL_LINE) {
            return Err(RuleError::ShellLine { location, found: text.trim().to_owned() });
        }
        let matcher = RuleMatcher::Words { program, args: words.collect() };
        Ok(Self { matcher, text: text.trim().to_owned(), location, scope: RuleScope::default() })
    }

    /// Parses a rule as the gate gets it: without a scope.
    pub(crate) fn from_gate_text(text: &str, location: &str) -> Result<Self, RuleError> {
        match text.strip_prefix(REGEX_MARK) {
            Some(expression) => Self::from_regex(expression, location),
            None => Self::from_pattern(text, location),
        }
    }

    /// Returns the rule as [`PolicyRule::from_gate_text`] reads it.
    pub(crate) fn gate_text(&self) -> String {
        match &self.matcher {
            RuleMatcher::Words { .. } => self.text.clone(),
            RuleMatcher::Line(_) => format!("{REGEX_MARK}{}", self.text),
        }
    }

    /// Returns the pattern of the program and the leading arguments; `None` for a regular
    /// expression.
    pub(crate) fn words(&self) -> Option<(&str, &[String])> {
        match &self.matcher {
            RuleMatcher::Words { program, args } => Some((program, args)),
            RuleMatcher::Line(_) => None,
        }
    }

    /// Compiles a regular expression that is matched against the whole command: the program's name,
    /// then its arguments, with one blank between words.
    fn from_regex(text: &str, location: impl Into<String>) -> Result<Self, RuleError> {
        let location = location.into();
        let compiled = RegexBuilder::new(text).size_limit(REGEX_BYTES).build();
        match compiled {
            Ok(regex) => Ok(Self {
                matcher: RuleMatcher::Line(regex),
                text: text.to_owned(),
                location,
                scope: RuleScope::default(),
            }),
            Err(source) => {
                let pattern = text.to_owned();
                Err(RuleError::Regex { location, pattern, source: Box::new(source) })
            }
        }
    }

    /// Returns the rule as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the rule's position in the configuration: `policy.deny[2]`.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Returns the tenants and lanes that the rule applies to.
    #[must_use]
    pub const fn scope(&self) -> &RuleScope {
        &self.scope
    }

    /// `true` if the rule applies to this tenant and lane.
    #[must_use]
    pub fn covers(&self, tenant: &str, lane: &str) -> bool {
        let in_list = |list: &[String], name| list.is_empty() || list.iter().any(|it| it == name);
        in_list(&self.scope.tenants, tenant) && in_list(&self.scope.lanes, lane)
    }

    pub(crate) fn matches(&self, command: &SimpleCommand, list: ListKind) -> RuleMatch {
        let Some(name) = command.program.value() else {
            return RuleMatch::Maybe;
        };
        match &self.matcher {
            RuleMatcher::Words { program, .. }
                if !matching::program_matches(program, name, list) =>
            {
                RuleMatch::No
            }
            RuleMatcher::Words { args, .. } if args.is_empty() => RuleMatch::Yes,
            RuleMatcher::Words { args, .. } => match list {
                ListKind::Allow => matching::match_leading_args(args, &command.args),
                ListKind::Deny => matching::match_args_by_meaning(args, command),
            },
            RuleMatcher::Line(regex) => match_line(regex, command, name, list),
        }
    }
}

/// Matches a command as one line. An allow rule needs every word to be known; a deny rule matches
/// the known parts.
fn match_line(regex: &Regex, command: &SimpleCommand, program: &str, list: ListKind) -> RuleMatch {
    let known = command.args.iter().all(|word| word.value().is_some());
    if list == ListKind::Allow
        && !(known && matching::program_matches(base_name(program), program, list))
    {
        return RuleMatch::No;
    }
    let mut line = base_name(program).to_owned();
    for word in &command.args {
        line.push(' ');
        line.push_str(&word.text);
    }
    if regex.is_match(&line) { RuleMatch::Yes } else { RuleMatch::No }
}

/// A rule as messages quote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleReference {
    /// The rule's text as written.
    pub text: String,
    /// The rule's position in the configuration: `policy.deny[2]`.
    pub location: String,
}

impl From<&PolicyRule> for RuleReference {
    fn from(rule: &PolicyRule) -> Self {
        Self { text: rule.text().to_owned(), location: rule.location().to_owned() }
    }
}

impl RuleReference {
    /// Lists ask rules in one line.
    #[must_use]
    pub fn join_ask_rules(rules: &[Self]) -> String {
        rules.iter().map(|rule| format!("ask rule {rule}")).collect::<Vec<_>>().join(" and ")
    }
}

impl fmt::Display for RuleReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" ({})", self.text, self.location)
    }
}

// The forms in which configurations and flags write rules. All of them become `PolicyRule`s.

/// The names of the shell tool in `coreTools` and `excludeTools`.
const SHELL_TOOLS: [&str; 2] = ["run_shell_command", "ShellTool"];
/// The least similarity at which a tool's name counts as a typing error for the shell tool.
const MIN_SIMILARITY: f64 = 0.85;

/// Parses a list of patterns; the location of each rule is `KEY[index]`.
///
/// # Errors
/// The first pattern that is not valid.
pub fn parse_patterns<'p>(
    key: &str,
    list: impl IntoIterator<Item = &'p str>,
) -> Result<Vec<PolicyRule>, RuleError> {
    list.into_iter()
        .enumerate()
        .map(|(index, text)| PolicyRule::from_pattern(text, format!("{key}[{index}]")))
        .collect()
}

/// The commands that a `coreTools` list allows.
#[derive(Debug, Clone)]
pub enum CoreTools {
    /// All commands: the shell tool is listed without a prefix.
    Everything,
    /// Commands that match one of these rules; none if the list is empty.
    Only(Vec<PolicyRule>),
}

/// Parses `coreTools`: `run_shell_command(PREFIX)` allows a prefix, `run_shell_command` everything.
///
/// A list without the shell tool allows nothing.
///
/// # Errors
/// An entry is malformed, or its tool looks like a mistyped shell tool.
pub fn parse_core_tools<'p>(
    list: impl IntoIterator<Item = &'p str>,
) -> Result<CoreTools, RuleError> {
    let mut rules = Vec::new();
    let mut everything = false;
    for entry in parse_tool_entries("policy.coreTools", list) {
        match entry? {
            (_, Some("")) => everything = true,
            (location, Some(prefix)) => rules.push(PolicyRule::from_pattern(prefix, location)?),
            (_, None) => {}
        }
    }
    Ok(if everything { CoreTools::Everything } else { CoreTools::Only(rules) })
}

/// Parses `excludeTools`: `run_shell_command(PREFIX)` denies a prefix, `run_shell_command`
/// everything.
///
/// # Errors
/// An entry is malformed, or its tool looks like a mistyped shell tool.
pub fn parse_exclude_tools<'p>(
    list: impl IntoIterator<Item = &'p str>,
) -> Result<Vec<PolicyRule>, RuleError> {
    let mut rules = Vec::new();
    for entry in parse_tool_entries("policy.excludeTools", list) {
        match entry? {
            (location, Some("")) => rules.push(PolicyRule::from_pattern("*", location)?),
            (location, Some(prefix)) => rules.push(PolicyRule::from_pattern(prefix, location)?),
            (_, None) => {}
        }
    }
    Ok(rules)
}

/// The location and the prefix of an entry. The prefix is empty for the shell tool without
/// parentheses and `None` for another tool.
type ToolEntry<'p> = Result<(String, Option<&'p str>), RuleError>;

fn parse_tool_entries<'p>(
    name: &str,
    list: impl IntoIterator<Item = &'p str>,
) -> impl Iterator<Item = ToolEntry<'p>> {
    list.into_iter().enumerate().map(move |(index, entry)| {
        let location = format!("{name}[{index}]");
        let entry = entry.trim();
        let (tool, prefix) = match entry.split_once('(') {
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(prefix) if !prefix.trim().is_empty() => (tool.trim(), prefix.trim()),
                Some(_) | None => {
                    return Err(RuleError::Shape { location, found: entry.to_owned() });
                }
            },
            None => (entry, ""),
        };
        if SHELL_TOOLS.contains(&tool) {
            return Ok((location, Some(prefix)));
        }
        match SHELL_TOOLS
            .into_iter()
            .find(|known| strsim::jaro_winkler(known, tool) > MIN_SIMILARITY)
        {
            Some(meant) => Err(RuleError::Tool { location, found: tool.to_owned(), meant }),
            None => Ok((location, None)),
        }
    })
}

/// An error in a written rule. No policy is built from a list that contains one.
#[derive(Debug, Error)]
pub enum RuleError {
    /// The rule contains no text.
    #[error("{location} is empty; write a program's name, or remove it")]
    Empty {
        /// The rule's position in the configuration.
        location: String,
    },
    /// The regular expression does not compile.
    #[error("{location} is not a regular expression; correct {pattern:?}")]
    Regex {
        /// The rule's position in the configuration.
        location: String,
        /// The text in the configuration.
        pattern: String,
        /// The error of the regular expression compiler.
        source: Box<regex::Error>,
    },
    /// A tool restriction names a tool that looks like a mistyped shell tool.
    #[error("{location} restricts {found:?}, which is no tool; did you mean {meant:?}?")]
    Tool {
        /// The rule's position in the configuration.
        location: String,
        /// The text in the configuration.
        found: String,
        /// The name that was probably meant.
        meant: &'static str,
    },
    /// The rule is a shell line instead of one command.
    #[error(
        "{location} is {found:?}, which is a shell line; write one command, without quotes, and one rule for each"
    )]
    ShellLine {
        /// The rule's position in the configuration.
        location: String,
        /// The text in the configuration.
        found: String,
    },
    /// The rule's scope names a lane that does not exist.
    #[error("{location} is for lane {lane:?}, which there is not; the lanes are {}", .known.join(", "))]
    UnknownLane {
        /// The rule's position in the configuration.
        location: String,
        /// The lane in the configuration.
        lane: String,
        /// The configured lanes.
        known: Vec<String>,
    },
    /// The scope before the rule is malformed.
    #[error(
        "{location} begins with {found:?}; write [lane=NAME,…] or [tenant=NAME,…] before the rule"
    )]
    Scope {
        /// The rule's position in the configuration.
        location: String,
        /// The text in the configuration.
        found: String,
    },
    /// The parentheses of a tool restriction do not match or are empty.
    #[error("{location} is {found:?}; write run_shell_command(PREFIX)")]
    Shape {
        /// The rule's position in the configuration.
        location: String,
        /// The text in the configuration.
        found: String,
    },
}

impl RuleError {
    /// Returns the rule's position in the configuration: `policy.deny[2]`.
    #[must_use]
    pub fn location(&self) -> &str {
        match self {
            Self::Empty { location }
            | Self::Regex { location, .. }
            | Self::Tool { location, .. }
            | Self::ShellLine { location, .. }
            | Self::UnknownLane { location, .. }
            | Self::Scope { location, .. }
            | Self::Shape { location, .. } => location,
        }
    }

    /// Returns the stable code word of the error.
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

/// The directories in which jobs may run, each with everything below it.
///
/// An empty list allows nothing; without a limit there is no list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedDirectories {
    /// Absolute paths without `.`, `..` and repeated slashes.
    roots: Vec<PathBuf>,
}

impl AllowedDirectories {
    /// Takes directories whose symlinks are resolved: a path that leads through a symlink would
    /// never contain anything.
    ///
    /// # Errors
    /// A path is relative, or contains `..`.
    pub fn new(list: impl IntoIterator<Item = PathBuf>) -> Result<Self, DirectoryError> {
        let root = |path: PathBuf| {
            if is_resolved(&path) {
                Ok(path.components().collect())
            } else {
                Err(DirectoryError { path })
            }
        };
        Ok(Self { roots: list.into_iter().map(root).collect::<Result<_, _>>()? })
    }

    /// `true` if a directory is one of the allowed directories or below one of them.
    ///
    /// Whole components are compared: `/srv/app2` is not in `/srv/app`. The path must be that of an
    /// opened directory. A path that is relative or contains `..` is in none of them.
    #[must_use]
    pub fn contains(&self, resolved: &Path) -> bool {
        is_resolved(resolved) && self.roots.iter().any(|root| resolved.starts_with(root))
    }

    /// Returns the allowed directories, for error messages.
    #[must_use]
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }
}

fn is_resolved(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

/// A path that cannot be an allowed directory.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{}` cannot be an allowed directory; give an absolute path without `..`", path.display())]
pub struct DirectoryError {
    /// The path as configured.
    pub path: PathBuf,
}

impl DirectoryError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_allowed_directory"
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::command::Word;

    fn command(text: &str) -> SimpleCommand {
        SimpleCommand::from_words(text.split_whitespace().map(Word::literal).collect()).unwrap()
    }

    fn texts(rules: &[PolicyRule]) -> Vec<(&str, &str)> {
        rules.iter().map(|rule| (rule.text(), rule.location())).collect()
    }

    #[test]
    fn patterns_may_have_wildcards_and_arguments() {
        let rules = parse_patterns("deny", ["rm*", "chmod", "rm -rf"]).unwrap();
        assert_eq!(
            texts(&rules),
            [("rm*", "deny[0]"), ("chmod", "deny[1]"), ("rm -rf", "deny[2]")]
        );
        assert_eq!(rules[0].matches(&command("rmdir x"), ListKind::Deny), RuleMatch::Yes);
        assert_eq!(rules[1].matches(&command("chmodx"), ListKind::Deny), RuleMatch::No);
        assert_eq!(rules[2].matches(&command("rm -f -r x"), ListKind::Deny), RuleMatch::Yes);
        assert_eq!(rules[2].matches(&command("rm x"), ListKind::Deny), RuleMatch::No);
        assert_eq!(parse_patterns("deny", ["rm", "", "sudo"]).unwrap_err().code(), "rule_empty");
    }

    #[test]
    fn core_tools_restrict_the_shell_tool_and_ignore_others() {
        let CoreTools::Only(rules) =
            parse_core_tools(["read_file", "run_shell_command(git status)", "ShellTool(npm)"])
                .unwrap()
        else {
            panic!("the shell tool is restricted")
        };
        assert_eq!(
            texts(&rules),
            [("git status", "policy.coreTools[1]"), ("npm", "policy.coreTools[2]")]
        );
        assert!(matches!(parse_core_tools(["run_shell_command"]).unwrap(), CoreTools::Everything));
        let CoreTools::Only(none) = parse_core_tools(["read_file"]).unwrap() else {
            panic!("the shell tool is not listed")
        };
        assert!(none.is_empty());
    }

    #[test]
    fn exclude_tools_deny_prefixes_or_everything() {
        let rules =
            parse_exclude_tools(["run_shell_command(git push)", "run_shell_command"]).unwrap();
        assert_eq!(rules[0].matches(&command("git push origin"), ListKind::Deny), RuleMatch::Yes);
        assert_eq!(rules[0].matches(&command("git status"), ListKind::Deny), RuleMatch::No);
        assert_eq!(rules[1].matches(&command("anything"), ListKind::Deny), RuleMatch::Yes);
    }

    #[test]
    fn a_mistyped_or_malformed_tool_is_an_error_with_a_suggestion() {
        let mistyped = parse_exclude_tools(["run_shel_command(rm)"]).unwrap_err();
        assert_eq!(mistyped.code(), "rule_unknown_tool");
        assert!(mistyped.to_string().contains("run_shell_command"), "{mistyped}");
        for entry in ["run_shell_command(rm", "run_shell_command()"] {
            assert_eq!(
                parse_exclude_tools([entry]).unwrap_err().code(),
                "rule_malformed",
                "{entry}"
            );
        }
    }

    #[test]
    fn a_regular_expression_is_matched_against_the_command_as_one_line() {
        let rule = PolicyRule::from_regex("^curl .*evil", "policy.deny[0]").unwrap();
        assert_eq!(
            rule.matches(&command("/usr/bin/curl -s http://evil"), ListKind::Deny),
            RuleMatch::Yes
        );
        assert_eq!(rule.matches(&command("curl http://good"), ListKind::Deny), RuleMatch::No);
        assert_eq!(rule.matches(&command("./curl http://evil"), ListKind::Allow), RuleMatch::No);
        assert_eq!(PolicyRule::from_regex("(", "policy.deny[1]").unwrap_err().code(), "rule_regex");
    }

    fn allowed(list: &[&str]) -> AllowedDirectories {
        AllowedDirectories::new(list.iter().map(PathBuf::from)).unwrap()
    }

    #[test]
    fn whole_components_are_compared() {
        let allowed = allowed(&["/srv/app/", "/home//me/./work"]);
        for (path, expected) in [
            ("/srv/app", true),
            ("/srv/app/", true),
            ("/srv/app/a/b", true),
            ("/home/me/work/x", true),
            ("/srv/app2", false),
            ("/srv", false),
            ("/", false),
            ("/srv/app/../etc", false),
            ("/srv/app/..", false),
            ("srv/app", false),
            ("", false),
        ] {
            assert_eq!(allowed.contains(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn the_root_contains_everything_and_an_empty_list_nothing() {
        assert!(allowed(&["/"]).contains(Path::new("/etc")));
        assert!(!allowed(&[]).contains(Path::new("/")));
    }

    #[test]
    fn a_directory_that_is_not_resolved_is_refused() {
        for path in ["", "app", "./app", "/srv/../etc"] {
            let refused = AllowedDirectories::new([PathBuf::from(path)]);
            assert_eq!(refused, Err(DirectoryError { path: path.into() }));
        }
    }

    proptest! {
        #[test]
        fn only_paths_below_a_root_are_contained(
            root in "(/[a-c]{1,2}){1,3}",
            path in "(/[a-c.]{1,2}){0,5}",
        ) {
            let below = format!("{path}/").starts_with(&format!("{root}/"));
            let resolved = !path.split('/').any(|part| part == ".." || part == ".");
            prop_assume!(resolved);
            prop_assert_eq!(allowed(&[&root]).contains(Path::new(&path)), below);
        }
    }
}
