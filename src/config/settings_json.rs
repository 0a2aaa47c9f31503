//! `settings.json` of the program that the tool `run_shell_command` comes from: its lists of commands
//! become `policy.coreTools` and `policy.excludeTools`, and everything else in it is ignored.

use std::path::Path;

use serde_json::{Map, Value};

use super::error::ProblemKind;
use super::layers::{Layers, ValueOrigin};
use crate::did_you_mean::find_closest;

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
const MIN_SIMILARITY: f64 = 0.75;

/// `true` if the file has the format of `settings.json` instead of TOML.
pub(super) fn is_settings_json(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"))
}

/// Adds the lists of a file to `layers`. Returns the keys that were ignored.
pub(super) fn add_settings_json(layers: &mut Layers, text: &str, path: &Path) -> Vec<String> {
    let text = blank_comments(text);
    let origin_at = |line| ValueOrigin::File { path: path.to_owned(), line };
    let root: Map<String, Value> = match serde_json::from_str(&text) {
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
fn flatten_tools(root: Map<String, Value>) -> Vec<(String, Value)> {
    let mut pairs = Vec::new();
    for (key, value) in root {
        match (key.as_str(), value) {
            ("tools", Value::Object(inner)) => {
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
    values: &[(String, Value)],
    origin_of: &dyn Fn(&str) -> ValueOrigin,
) {
    let mut joined = toml::value::Array::new();
    let mut origin = None;
    for (key, value) in list.keys.iter().flat_map(|key| values.iter().find(|(it, _)| it == key)) {
        match toml::Value::try_from(value) {
            Ok(toml::Value::Array(entries)) if !entries.is_empty() => {
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
        layers.set(list.setting, toml::Value::Array(joined), origin);
    }
}

/// Returns the list that a key misspells, if it does.
fn find_misspelled_list(key: &str) -> Option<&'static str> {
    let given = key.replace(['_', '-'], "").to_lowercase();
    let keys = || LISTS.iter().flat_map(|list| list.keys);
    let same_letters = keys().find(|known| known.to_lowercase() == given);
    same_letters.or_else(|| find_closest(key, keys(), MIN_SIMILARITY))
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
            .finish()
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
}
