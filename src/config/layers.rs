//! Layers of values: later layers override earlier ones, each value remembers its origin, and all problems
//! are collected, with suggestions for misspelled keys.
//!
//! A file is TOML, or `settings.json` of the program that the tool `run_shell_command` comes from: its lists of
//! commands become `policy.coreTools` and `policy.excludeTools`, and everything else in it is ignored.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use thiserror::Error;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Table, Value};

use super::check::{self, ValueRule};
use super::schema::{self, KeyMeaning};
use crate::private_files::BoundedReadError;
use crate::setting_values::find_closest;

/// The current value of a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigEntry {
    /// The value as it was written.
    pub given: Value,
    pub origin: ValueOrigin,
    /// The value in canonical form, from which [`super::Settings`] is read.
    pub(super) canonical: Value,
}

/// The layers so far, and all problems in them.
#[derive(Debug, Default)]
pub(super) struct Layers {
    entries: BTreeMap<String, ConfigEntry>,
    problems: Vec<Problem>,
}

impl Layers {
    /// Sets a value, if it is valid; it overrides the value of an earlier layer.
    pub(super) fn set(&mut self, key: &str, given: Value, origin: ValueOrigin) {
        let key = &schema::expand_short_key(key);
        match schema::look_up(key) {
            KeyMeaning::Value(rule) => self.set_checked(key, *rule, given, origin),
            KeyMeaning::Section => {
                self.report(origin, ProblemKind::SectionExpected { section: key.to_owned() });
            }
            KeyMeaning::BadName => {
                self.report(origin, ProblemKind::InvalidName { key: key.to_owned() })
            }
            KeyMeaning::Unknown => {
                let suggestion = suggest_key(key);
                self.report(origin, ProblemKind::UnknownKey { key: key.to_owned(), suggestion });
            }
        }
    }

    /// Sets a value that was given as text, see [`Layers::set`].
    pub(super) fn set_text(&mut self, key: &str, text: &str, origin: ValueOrigin) {
        let given = match schema::look_up(&schema::expand_short_key(key)) {
            KeyMeaning::Value(rule) => rule.parse_text(text),
            KeyMeaning::Section | KeyMeaning::BadName | KeyMeaning::Unknown => Value::from(text),
        };
        self.set(key, given, origin);
    }

    /// Records a problem. Loading goes on, so that all problems are found.
    pub(super) fn report(&mut self, origin: ValueOrigin, kind: ProblemKind) {
        self.problems.push(Problem { origin, kind });
    }

    /// Returns the current values, or all problems.
    pub(super) fn finish(
        mut self,
        unknown_names: UnknownNames,
    ) -> Result<BTreeMap<String, ConfigEntry>, Vec<Problem>> {
        for &(key, bound) in schema::ORDERED {
            self.check_order(key, bound);
        }
        if unknown_names == UnknownNames::LeftOut {
            self.problems.retain(|problem| !problem.kind.is_unknown_name());
        }
        if self.problems.is_empty() { Ok(self.entries) } else { Err(self.problems) }
    }

    fn set_checked(&mut self, key: &str, rule: ValueRule, given: Value, origin: ValueOrigin) {
        match rule.check(&given) {
            Some(canonical) => {
                self.entries.insert(key.to_owned(), ConfigEntry { given, origin, canonical });
            }
            None => {
                let allowed = rule.describe();
                let meant = rule.suggest(&given);
                let key = key.to_owned();
                let given = given.to_string();
                self.report(origin, ProblemKind::NotAllowed { key, given, allowed, meant });
            }
        }
    }

    fn check_order(&mut self, key: &'static str, bound: &'static str) {
        let (Some(low), Some(high)) = (self.entries.get(key), self.entries.get(bound)) else {
            return;
        };
        // Both have the same kind of rule, so their numbers can be compared.
        if check::parse_number(&low.canonical) <= check::parse_number(&high.canonical) {
            return;
        }
        // Blames the value that the user has set: a default cannot be corrected.
        let origin = if low.origin == ValueOrigin::Default { &high.origin } else { &low.origin };
        let kind = ProblemKind::OutOfOrder {
            key,
            value: low.given.to_string(),
            bound,
            bound_value: high.given.to_string(),
            bound_origin: Box::new(high.origin.clone()),
        };
        self.report(origin.clone(), kind);
    }
}

/// The handling of keys and variables that this version does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownNames {
    Refused,
    /// Another version may know them.
    LeftOut,
}

/// Returns the canonical values as one nested table.
pub(super) fn to_table(entries: &BTreeMap<String, ConfigEntry>) -> Table {
    let mut root = Table::new();
    for (key, entry) in entries {
        insert(&mut root, key, entry.canonical.clone());
    }
    root
}

fn insert(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((section, rest)) => {
            let inner = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// The origin of a value, precise enough to find and change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin {
    /// `config/default.toml`, compiled in.
    Default,
    /// A line of a configuration file, counted from 1.
    File { path: PathBuf, line: usize },
    /// An environment variable.
    Variable(String),
    /// A flag, such as `--bind`.
    Flag(&'static str),
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// The reason why the settings could not be loaded.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("cannot read the configuration file `{}`; check its path, kind and permissions", path.display())]
    Unreadable { path: PathBuf, source: BoundedReadError },
    /// The configuration has mistakes; all of them are listed.
    #[error("{}", format_problems(problems))]
    Invalid {
        /// All problems of all layers, in the order of the layers.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "config_unreadable",
            Self::Invalid { .. } => "config_invalid",
        }
    }
}

fn format_problems(problems: &[Problem]) -> String {
    let mut text = "the configuration is not valid; correct:".to_owned();
    for problem in problems {
        text.push_str(&format!("\n  {problem}"));
    }
    text
}

/// A mistake in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}: {kind}")]
pub struct Problem {
    pub origin: ValueOrigin,
    pub kind: ProblemKind,
}

/// The kind of a mistake.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProblemKind {
    #[error("not valid TOML: {0}")]
    Syntax(String),
    #[error("not valid JSON: {0}")]
    Json(String),
    #[error("unknown key `{key}`{}", format_suggestion(suggestion.as_deref()))]
    UnknownKey {
        /// The key as it was written, with its section.
        key: String,
        suggestion: Option<String>,
    },
    #[error(
        "no setting has this variable{}",
        format_suggestion(suggestion.as_deref())
    )]
    UnknownVariable { suggestion: Option<String> },
    #[error("the value for `{key}` is not UTF-8 text")]
    NotText { key: String },
    /// A section has a value instead of keys.
    #[error("`{section}` is a section, not a value; write [{section}] and its keys below")]
    SectionExpected { section: String },
    /// The name of a lane or a tenant is not valid.
    #[error(
        "`{key}`: a lane's name is 1 to 32 of a-z, 0-9, `_` and `-`; a tenant's 1 to 64 of those and A-Z"
    )]
    InvalidName { key: String },
    /// The value has the wrong type, or is out of range.
    #[error("`{key}` cannot be {given}; it must be {allowed}{}", format_meant(*meant))]
    NotAllowed {
        key: String,
        /// The value as it was written.
        given: String,
        /// The description of the allowed values.
        allowed: String,
        meant: Option<&'static str>,
    },
    /// Two settings contradict each other.
    #[error("`{key}` ({value}) must not be larger than `{bound}` ({bound_value}, {bound_origin})")]
    OutOfOrder {
        /// The setting that is too large.
        key: &'static str,
        value: String,
        /// The setting that limits it.
        bound: &'static str,
        bound_value: String,
        bound_origin: Box<ValueOrigin>,
    },
}

impl ProblemKind {
    /// `true` if this version does not know the key or the variable.
    const fn is_unknown_name(&self) -> bool {
        match self {
            Self::UnknownKey { .. } | Self::UnknownVariable { .. } => true,
            Self::Syntax(_)
            | Self::Json(_)
            | Self::NotText { .. }
            | Self::SectionExpected { .. }
            | Self::InvalidName { .. }
            | Self::NotAllowed { .. }
            | Self::OutOfOrder { .. } => false,
        }
    }
}

fn format_meant(meant: Option<&str>) -> String {
    meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}

fn format_suggestion(suggestion: Option<&str>) -> impl fmt::Display {
    match suggestion {
        Some(suggestion) => format!("; did you mean `{suggestion}`?"),
        None => "; `shellyard config init --stdout` lists all that exist".to_owned(),
    }
}

/// The least similarity of a suggestion; below it, it would be a guess.
const MIN_SIMILARITY: f64 = 0.65;

/// Suggests a known key or section in place of `key`.
fn suggest_key(key: &str) -> Option<String> {
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned);
    let keys = || schema::SETTINGS.iter().map(|setting| setting.key);
    // The right name in the wrong section is the most likely mistake.
    let moved = keys().find(|known| last(known) == last(key));
    moved.map(str::to_owned).or_else(|| suggest_key_of_named(key)).or_else(|| {
        find_closest(key, keys().chain(schema::list_sections()), MIN_SIMILARITY).map(str::to_owned)
    })
}

/// Suggests a key of a lane or a tenant. The name of the lane or tenant does not count as similarity.
fn suggest_key_of_named(key: &str) -> Option<String> {
    let (inner, known) = schema::split_named_key(key)?;
    let meant = find_closest(inner, known, MIN_SIMILARITY)?;
    Some(format!("{}{meant}", key.strip_suffix(inner)?))
}

/// Suggests a known variable in place of `name`.
pub(super) fn suggest_variable(name: &str) -> Option<String> {
    // The prefix is always right, so it does not count as similarity.
    let bare = |name: &str| name.trim_start_matches(schema::VARIABLE_PREFIX).to_owned();
    let known: Vec<_> =
        schema::SETTINGS.iter().map(|setting| bare(&schema::variable_name(setting.key))).collect();
    let found = find_closest(&bare(name), known.iter().map(String::as_str), MIN_SIMILARITY)?;
    Some(format!("{}{found}", schema::VARIABLE_PREFIX))
}

/// Suggests one of `words` in place of `given`.
pub(super) fn suggest_word(given: &str, words: &[&'static str]) -> Option<&'static str> {
    find_closest(&given.to_lowercase(), words.iter().copied(), MIN_SIMILARITY)
}

/// Adds the values of a file. Returns the keys that were ignored.
pub(super) fn add_file(layers: &mut Layers, path: &Path, text: &str) -> Vec<String> {
    // The format of `settings.json` instead of TOML.
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json")) {
        return add_settings_json(layers, text, path);
    }
    add_toml(layers, text, &|line| ValueOrigin::File { path: path.to_owned(), line });
    Vec::new()
}

/// Adds every value of the TOML `text` to `layers`. `origin_of` makes an origin from a line number.
pub(super) fn add_toml(layers: &mut Layers, text: &str, origin_of: &dyn Fn(usize) -> ValueOrigin) {
    let (root, mut errors) = DeTable::parse_recoverable(text);
    errors.sort_by_key(|error| error.span().map(|span| span.start));
    let lines = LineEnds::find(text);
    let origin_at = |span: Range<usize>| origin_of(lines.find_line(span.start));
    if errors.is_empty() {
        TableWalk { layers, origin_at: &origin_at }.add_table("", root.into_inner());
    }
    for error in errors {
        let origin = origin_at(error.span().unwrap_or_default());
        layers.report(origin, ProblemKind::Syntax(error.message().to_owned()));
    }
}

struct TableWalk<'a> {
    layers: &'a mut Layers,
    origin_at: &'a dyn Fn(Range<usize>) -> ValueOrigin,
}

impl TableWalk<'_> {
    fn add_table(&mut self, prefix: &str, table: DeTable<'_>) {
        // Sorted by position, so that problems are in the order of the lines.
        let mut pairs: Vec<_> = table.into_iter().collect();
        pairs.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in pairs {
            let origin = (self.origin_at)(name.span());
            let name = name.into_inner();
            let key = if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
            self.add_pair(&key, value, origin);
        }
    }

    fn add_pair(&mut self, key: &str, value: Spanned<DeValue<'_>>, origin: ValueOrigin) {
        if matches!(schema::look_up(key), KeyMeaning::Section) && value.get_ref().is_table() {
            if let DeValue::Table(inner) = value.into_inner() {
                self.add_table(key, inner);
            }
            return;
        }
        match Value::deserialize(ValueDeserializer::from(value)) {
            Ok(value) => self.layers.set(key, value, origin),
            Err(error) => {
                self.layers.report(origin, ProblemKind::Syntax(error.message().to_owned()))
            }
        }
    }
}

/// The offsets of the line ends of a text: found once, and not again for each value.
struct LineEnds {
    ends: Vec<usize>,
}

impl LineEnds {
    fn find(text: &str) -> Self {
        Self { ends: memchr::memchr_iter(b'\n', text.as_bytes()).collect() }
    }

    /// Returns the line of a byte offset, counted from 1.
    fn find_line(&self, byte: usize) -> usize {
        1 + self.ends.partition_point(|end| *end < byte)
    }
}

/// A list of `settings.json`: its key in each version of the format, and the setting that it fills.
struct ToolList {
    keys: [&'static str; 2],
    setting: &'static str,
}

const LISTS: [ToolList; 2] = [
    ToolList { keys: ["coreTools", "tools.core"], setting: "policy.coreTools" },
    ToolList { keys: ["excludeTools", "tools.exclude"], setting: "policy.excludeTools" },
];

/// The least similarity at which a key counts as a misspelled list. A list that is not read would
/// restrict nothing.
const MIN_LIST_SIMILARITY: f64 = 0.75;

/// Adds the lists of a file to `layers`. Returns the keys that were ignored.
fn add_settings_json(layers: &mut Layers, text: &str, path: &Path) -> Vec<String> {
    let text = blank_comments(text);
    let origin_at = |line| ValueOrigin::File { path: path.to_owned(), line };
    let root: Map<String, Json> = match serde_json::from_str(&text) {
        Ok(root) => root,
        Err(error) => {
            layers.report(origin_at(error.line()), ProblemKind::Json(error.to_string()));
            return Vec::new();
        }
    };
    let values = flatten_tools(root);
    for list in &LISTS {
        add_list(layers, list, &values, &|key| origin_at(find_line(&text, key)));
    }
    let is_list = |key: &&String| LISTS.iter().any(|list| list.keys.contains(&key.as_str()));
    let (_, ignored): (Vec<_>, Vec<_>) = values.iter().map(|(key, _)| key).partition(is_list);
    for key in &ignored {
        if let Some(meant) = find_misspelled_list(key) {
            let suggestion = Some(meant.to_owned());
            let kind = ProblemKind::UnknownKey { key: (*key).clone(), suggestion };
            layers.report(origin_at(find_line(&text, key)), kind);
        }
    }
    ignored.into_iter().cloned().collect()
}

/// Returns the pairs of the file, with those of the section `tools` as `tools.NAME`.
fn flatten_tools(root: Map<String, Json>) -> Vec<(String, Json)> {
    let mut pairs = Vec::new();
    for (key, value) in root {
        match (key.as_str(), value) {
            ("tools", Json::Object(inner)) => {
                let inner = inner.into_iter();
                pairs.extend(inner.map(|(name, value)| (format!("tools.{name}"), value)));
            }
            (_, value) => pairs.push((key, value)),
        }
    }
    pairs
}

/// Adds one list, joined from all keys that it is written under.
fn add_list(
    layers: &mut Layers,
    list: &ToolList,
    values: &[(String, Json)],
    origin_of: &dyn Fn(&str) -> ValueOrigin,
) {
    let mut joined = Vec::new();
    let mut origin = None;
    for (key, value) in list.keys.iter().flat_map(|key| values.iter().find(|(it, _)| it == key)) {
        match Value::try_from(value) {
            Ok(Value::Array(entries)) if !entries.is_empty() => {
                joined.extend(entries);
                origin = origin.or_else(|| Some(origin_of(key)));
            }
            // In that program an empty `coreTools` allows nothing. Here an empty list counts as no
            // list, which allows everything.
            Ok(_) | Err(_) => layers.report(
                origin_of(key),
                ProblemKind::NotAllowed {
                    key: key.clone(),
                    given: value.to_string(),
                    allowed:
                        "a list with at least one text, such as [\"run_shell_command(git)\"]; \
                        to block every command, write \"excludeTools\": [\"run_shell_command\"]"
                            .to_owned(),
                    meant: None,
                },
            ),
        }
    }
    if let Some(origin) = origin {
        layers.set(list.setting, Value::Array(joined), origin);
    }
}

/// Returns the list that a key misspells, if it does.
fn find_misspelled_list(key: &str) -> Option<&'static str> {
    let given = key.replace(['_', '-'], "").to_lowercase();
    let keys = || LISTS.iter().flat_map(|list| list.keys);
    let same_letters = keys().find(|known| known.to_lowercase() == given);
    same_letters.or_else(|| find_closest(key, keys(), MIN_LIST_SIMILARITY))
}

/// Returns the line of a key, counted from 1.
fn find_line(text: &str, key: &str) -> usize {
    let name = format!("\"{}\"", key.rsplit('.').next().unwrap_or(key));
    let is_key = |at: &usize| text[at + name.len()..].trim_start().starts_with(':');
    let at = text.match_indices(&name).map(|(at, _)| at).find(is_key).unwrap_or_default();
    1 + text[..at].matches('\n').count()
}

/// Replaces comments by blanks: that program accepts them. Line numbers stay as they are.
fn blank_comments(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, is_comment) = match first {
            '"' => (measure_string(rest), false),
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), true),
            '/' if rest.starts_with("/*") => {
                (rest.find("*/").map_or(rest.len(), |at| at + 2), true)
            }
            other => (other.len_utf8(), false),
        };
        let (part, after) = rest.split_at(length);
        if is_comment {
            result.extend(part.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            result.push_str(part);
        }
        rest = after;
    }
    result
}

/// Returns the length of the JSON string at the start of a text, with its quotes.
fn measure_string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(text: &str) -> (Result<Vec<String>, Vec<String>>, Vec<String>) {
        let mut layers = Layers::default();
        let ignored = add_settings_json(&mut layers, text, Path::new("s.json"));
        let settings = layers
            .finish(UnknownNames::Refused)
            .map(|entries| entries.iter().map(|(key, it)| format!("{key}={}", it.given)).collect())
            .map_err(|problems| problems.iter().map(ToString::to_string).collect());
        (settings, ignored)
    }

    #[test]
    fn the_lists_are_read_and_other_keys_are_ignored() {
        let (settings, ignored) = added(
            r#"{ // comment with "coreTools": 1
                "theme": "dark", /* "excludeTools": [] */
                "coreTools": ["run_shell_command(git // x)"],
                "tools": {"exclude": ["run_shell_command(rm)"], "sandbox": true},
                "excludeTools": ["ShellTool(sudo)"]
            }"#,
        );
        assert_eq!(
            settings.unwrap(),
            [
                r#"policy.coreTools=["run_shell_command(git // x)"]"#,
                r#"policy.excludeTools=["ShellTool(sudo)", "run_shell_command(rm)"]"#
            ]
        );
        assert_eq!(ignored, ["theme", "tools.sandbox"]);
    }

    #[test]
    fn a_mistake_is_reported_with_its_line() {
        for (text, said) in [
            (
                "{\n \"coretools\": []\n}",
                "s.json:2: unknown key `coretools`; did you mean `coreTools`",
            ),
            ("{\n\n \"exclude_tools\": []}", "s.json:3: unknown key `exclude_tools`; did you mean"),
            ("{\"coreTools\": []}", "s.json:1: `coreTools` cannot be []; it must be a list with"),
            ("{\"coreTools\": \"git\"}", "s.json:1: `coreTools` cannot be \"git\""),
            ("{\n\"coreTools\": [1]}", "s.json:2: `policy.coreTools` cannot be [1]"),
            ("{\n\n,}", "s.json:3: not valid JSON"),
            ("[]", "s.json:1: not valid JSON"),
        ] {
            let problems = added(text).0.unwrap_err();
            assert!(problems[0].starts_with(said), "{text}: {problems:?}");
        }
    }

    #[test]
    fn an_unrelated_key_is_not_taken_for_a_list() {
        for key in ["mcpServers", "tools.allowed", "tools.callCommand", "allowedTools", "context"] {
            assert_eq!(find_misspelled_list(key), None, "{key}");
        }
    }

    #[test]
    fn typos_in_keys_and_variables_get_a_suggestion() {
        let cases = [
            ("http.bnid", Some("http.bind")),
            ("htpp", Some("http")),
            ("queue.slot", Some("queue.slots")),
            ("http.slots", Some("queue.slots")),
            ("slots", Some("queue.slots")),
            ("queue.lane", Some("queue.lanes")),
            ("tenants.ci.confinment", Some("tenants.ci.confinement")),
            ("queue.lanes.gpu.open_file", Some("queue.lanes.gpu.open_files")),
            ("tenants.a-long-name.xyz", None),
            ("colour.scheme", None),
        ];
        for (given, expected) in cases {
            assert_eq!(suggest_key(given).as_deref(), expected, "{given}");
        }
        assert_eq!(
            suggest_variable("SHELLYARD_QUEUE_SLOT").as_deref(),
            Some("SHELLYARD_QUEUE_SLOTS")
        );
        assert_eq!(suggest_variable("SHELLYARD_XYZZY"), None);
    }

    #[test]
    fn typos_in_words_get_a_suggestion() {
        let words = ["none", "default", "workspace-write", "read-only"];
        for (given, expected) in [
            ("readonly", Some("read-only")),
            ("Workspace_Write", Some("workspace-write")),
            ("sandbox", None),
        ] {
            assert_eq!(suggest_word(given, &words), expected, "{given}");
        }
    }
}
