//! The forms in which configurations and flags write rules, all compiled into the same ones.

use super::error::RuleError;
use super::rule::Rule;

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
