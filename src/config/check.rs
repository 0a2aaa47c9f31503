//! The rules for values of settings: checks, and the texts that describe them.

use std::net::SocketAddr;

use toml::Value;

use super::layers::suggest_word;
use crate::mcp::ClientLimit;
use crate::setting_values::{format_size, parse_filter, parse_size};

/// The rule for the value of a setting.
#[derive(Debug, Clone, Copy)]
pub(super) enum ValueRule {
    /// An IP address (or `localhost`) and a port.
    Address,
    /// The path of the MCP endpoint.
    Route,
    Text,
    /// An http or https URL, or empty.
    Url,
    /// A list of host names, each with or without a port.
    Hosts,
    /// A list of web origins.
    Origins,
    /// A list of non-empty texts.
    Texts,
    /// An absolute directory, or empty.
    Directory,
    /// A list of absolute directories.
    Directories,
    /// A list of absolute paths, or of paths below the home directory (`~/`).
    HomePaths,
    /// A list of paths below a workspace, or below the home directory (`~/`).
    Names,
    /// A list of variables, `NAME=VALUE`.
    Variables,
    /// A list of clients with the longest call of each, `NAME=SECONDS`.
    ClientLimits,
    /// A path, or empty.
    Path,
    /// `auto` or the full path of a shell.
    Shell,
    /// A number of bytes.
    Size {
        min: u64,
        max: u64,
    },
    /// A number of seconds; fractions are allowed.
    Seconds {
        min: f64,
        max: f64,
    },
    Count {
        min: u64,
        max: u64,
    },
    Word(&'static [&'static str]),
    /// One of these words, or a value of the other rule.
    Or(&'static [&'static str], &'static Self),
    /// A list of at least one of these words.
    Words(&'static [&'static str]),
    /// The name of an environment variable, or empty.
    Name,
    Switch,
    Filter,
    /// A number from 0 to 1.
    Share,
}

/// The server's own routes, which cannot be the path of the MCP endpoint.
const RESERVED_ROUTES: [&str; 5] = ["/metrics", "/healthz", "/readyz", "/api", "/.well-known"];

impl ValueRule {
    /// Returns the value in its canonical form (sizes as integers, seconds as floats), or `None` if it
    /// breaks the rule.
    pub(super) fn check(self, value: &Value) -> Option<Value> {
        match self {
            Self::Address => parse_address(value.as_str()?).map(Value::String),
            Self::Text => check_text(value, |text| !text.contains(['\0', '\n'])),
            Self::Url => check_text(value, |text| text.is_empty() || is_url(text)),
            Self::Route => check_text(value, is_route),
            Self::Hosts => check_texts(value, is_host),
            Self::Origins => check_texts(value, is_origin),
            Self::Texts => check_texts(value, |text| !text.trim().is_empty()),
            Self::Directory => check_text(value, |text| text.is_empty() || text.starts_with('/')),
            Self::Directories => check_texts(value, |text| text.starts_with('/')),
            Self::HomePaths => check_texts(value, is_absolute_or_home_path),
            Self::Names => check_texts(value, is_workspace_path),
            Self::Variables => check_texts(value, is_variable),
            Self::ClientLimits => check_texts(value, |text| ClientLimit::parse(text).is_some()),
            Self::Path => check_text(value, |text| !text.starts_with('~') && !text.contains('\0')),
            Self::Shell => check_text(value, |text| text == "auto" || text.starts_with('/')),
            Self::Size { min, max } => check_range(read_size(value)?, min, max),
            Self::Seconds { min, max } => {
                parse_number(value).filter(|n| (min..=max).contains(n)).map(Value::Float)
            }
            Self::Count { min, max } => check_range(value.as_integer()?.try_into().ok()?, min, max),
            Self::Word(words) => check_text(value, |text| words.contains(&text)),
            Self::Or(words, other) => {
                check_text(value, |text| words.contains(&text)).or_else(|| other.check(value))
            }
            Self::Words(words) => check_texts(value, |text| words.contains(&text))
                .filter(|list| list.as_array().is_some_and(|list| !list.is_empty())),
            Self::Name => check_text(value, |text| text.is_empty() || is_name(text)),
            Self::Switch => value.as_bool().map(Value::Boolean),
            Self::Filter => check_text(value, |text| parse_filter(text).is_ok()),
            Self::Share => {
                parse_number(value).filter(|part| (0.0..=1.0).contains(part)).map(Value::Float)
            }
        }
    }

    /// Converts the text of a variable or flag into a TOML value. Text of the wrong form stays text,
    /// which the check then refuses.
    pub(super) fn parse_text(self, text: &str) -> Value {
        let parsed = match self {
            Self::Count { .. } => text.trim().parse().ok().map(Value::Integer),
            Self::Seconds { .. } | Self::Share => text.trim().parse().ok().map(Value::Float),
            Self::Switch => parse_switch(text).map(Value::Boolean),
            Self::Or(_, other) => Some(other.parse_text(text)),
            Self::Hosts
            | Self::Origins
            | Self::Texts
            | Self::Directories
            | Self::HomePaths
            | Self::Names
            | Self::Variables
            | Self::ClientLimits
            | Self::Words(_) => Some(parse_list(text)),
            Self::Address
            | Self::Text
            | Self::Url
            | Self::Route
            | Self::Directory
            | Self::Path
            | Self::Shell
            | Self::Size { .. }
            | Self::Word(_)
            | Self::Name
            | Self::Filter => None,
        };
        parsed.unwrap_or_else(|| Value::String(text.to_owned()))
    }

    /// Suggests a value in place of one that breaks the rule.
    pub(super) fn suggest(self, value: &Value) -> Option<&'static str> {
        match self {
            Self::Filter => parse_filter(value.as_str()?).err()?.suggested_level(),
            Self::Word(words) | Self::Or(words, _) => suggest_word(value.as_str()?, words),
            Self::Address
            | Self::Route
            | Self::Text
            | Self::Url
            | Self::Hosts
            | Self::Origins
            | Self::Texts
            | Self::Directory
            | Self::Directories
            | Self::HomePaths
            | Self::Names
            | Self::Variables
            | Self::ClientLimits
            | Self::Path
            | Self::Shell
            | Self::Size { .. }
            | Self::Seconds { .. }
            | Self::Count { .. }
            | Self::Words(_)
            | Self::Name
            | Self::Switch
            | Self::Share => None,
        }
    }

    /// Describes the allowed values, as the end of the sentence "it must be …".
    pub(super) fn describe(self) -> String {
        match self {
            Self::Address => {
                "an address and port such as \"127.0.0.1:8000\" or \"[::1]:8000\", or \"none\""
                    .into()
            }
            Self::Text => "text in one line".into(),
            Self::Url => "a URL such as \"https://id.example.org\", or \"\"".into(),
            Self::Route => format!(
                "a path such as \"/mcp\": segments of letters, digits, `-`, `_` and `.`, none of {}",
                RESERVED_ROUTES.join(", ")
            ),
            Self::Hosts => "a list of host names such as [\"build.example.org\"]".into(),
            Self::Origins => "a list of origins such as [\"https://app.example.org\"]".into(),
            Self::Texts => "a list of texts, none of them empty, such as [\"git status\"]".into(),
            Self::Directory => "a full path such as \"/srv/project\", or \"\"".into(),
            Self::Directories => "a list of full paths such as [\"/srv/project\"]".into(),
            Self::HomePaths => {
                "a list of full paths, or of paths in the home directory, such as [\"~/.cargo\"]".into()
            }
            Self::Names => {
                "a list of paths below a workspace, or below ~/, such as [\".envrc\", \"~/.bashrc\"]".into()
            }
            Self::Variables => "a list of variables such as [\"CI=1\"]".into(),
            Self::ClientLimits => {
                "a list of clients and seconds such as [\"codex-mcp-client=300\"]".into()
            }
            Self::Path => "a path as text, written out (`~` is not expanded), or \"\"".into(),
            Self::Shell => "\"auto\" or the full path of a shell such as \"/bin/bash\"".into(),
            Self::Size { min, max } => format!(
                "a size such as 65536 or \"64 KiB\", from {} to {}",
                format_size(min),
                format_size(max)
            ),
            Self::Seconds { min, max } => format!("a number of seconds from {min} to {max}"),
            Self::Count { min, max } => format!("a whole number from {min} to {max}"),
            Self::Word(words) => format!("one of \"{}\"", words.join("\", \"")),
            Self::Or(words, other) => {
                format!("{}, or \"{}\"", other.describe(), words.join("\" or \""))
            }
            Self::Words(words) => format!("a list of one or more of \"{}\"", words.join("\", \"")),
            Self::Name => "the name of a variable such as \"CI\", or \"\"".into(),
            Self::Switch => "true or false".into(),
            Self::Share => "a number from 0 to 1".into(),
            Self::Filter => "a log filter such as \"info\" or \"warn,shellyard=debug\"".into(),
        }
    }
}

/// Parses a switch; 1 and 0 are common in environment variables.
fn parse_switch(text: &str) -> Option<bool> {
    match text.trim() {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// Parses an address. `localhost` means the IPv4 loopback, as it nearly always does.
fn parse_address(text: &str) -> Option<String> {
    if text == "none" {
        return Some(String::new());
    }
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse::<SocketAddr>().ok().map(|address| address.to_string())
}

fn check_text(value: &Value, is_valid: impl Fn(&str) -> bool) -> Option<Value> {
    value.as_str().filter(|text| is_valid(text)).map(Value::from)
}

fn check_texts(value: &Value, is_valid: impl Fn(&str) -> bool) -> Option<Value> {
    let texts = value.as_array()?;
    let all_valid = texts.iter().all(|text| text.as_str().is_some_and(&is_valid));
    all_valid.then(|| value.clone())
}

fn is_route(text: &str) -> bool {
    let segment = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    let within = |route: &&str| {
        text.strip_prefix(*route).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    text.strip_prefix('/').is_some_and(|rest| rest.split('/').all(segment))
        && !RESERVED_ROUTES.iter().any(within)
}

fn is_host(text: &str) -> bool {
    let allowed =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b':' | b'[' | b']');
    !text.is_empty() && text.bytes().all(allowed)
}

fn is_origin(text: &str) -> bool {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    authority.is_some_and(is_host)
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let authority = rest.and_then(|rest| rest.split('/').next());
    authority.is_some_and(is_host) && !text.contains(['#', '?', ' '])
}

fn is_absolute_or_home_path(text: &str) -> bool {
    (text.starts_with('/') || text.starts_with("~/")) && !has_forbidden_part(text)
}

/// `true` for a relative path without `..`. `*` can only stand for a whole component.
fn is_workspace_path(text: &str) -> bool {
    let has_partial_wildcard = text.split('/').any(|part| part != "*" && part.contains('*'));
    !text.is_empty() && !text.starts_with('/') && !has_forbidden_part(text) && !has_partial_wildcard
}

fn has_forbidden_part(text: &str) -> bool {
    text.split('/').any(|part| part == "..") || text.contains('\0')
}

fn is_variable(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| !name.is_empty())
}

fn is_name(text: &str) -> bool {
    !text.contains(['=', '\0'])
}

fn read_size(value: &Value) -> Option<u64> {
    match value.as_str() {
        Some(text) => parse_size(text),
        None => value.as_integer()?.try_into().ok(),
    }
}

fn check_range(number: u64, min: u64, max: u64) -> Option<Value> {
    let number = Some(number).filter(|n| (min..=max).contains(n))?;
    i64::try_from(number).ok().map(Value::Integer)
}

/// Returns the value as a number. Numbers of settings are far below 2^53, so the cast is exact.
pub(super) fn parse_number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

fn parse_list(text: &str) -> Value {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    Value::Array(words.map(Value::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: ValueRule = ValueRule::Or(&["none"], &ValueRule::Size { min: 0, max: 4096 });

    #[track_caller]
    fn check(rule: ValueRule, text: &str, expected: Option<&str>) {
        let parse = |text: &str| {
            let table: toml::Table = toml::from_str(&format!("v = {text}")).unwrap();
            table["v"].clone()
        };
        assert_eq!(rule.check(&parse(text)), expected.map(parse), "{rule:?} of {text}");
    }

    #[test]
    fn valid_values_are_returned_in_canonical_form() {
        check(ValueRule::Address, r#""localhost:80""#, Some(r#""127.0.0.1:80""#));
        check(ValueRule::Address, r#""[::1]:80""#, Some(r#""[::1]:80""#));
        check(ValueRule::Route, r#""/v1/mcp""#, Some(r#""/v1/mcp""#));
        check(ValueRule::Hosts, r#"["a.example:80"]"#, Some(r#"["a.example:80"]"#));
        check(ValueRule::Origins, r#"["http://a:1"]"#, Some(r#"["http://a:1"]"#));
        check(ValueRule::Size { min: 0, max: 4096 }, r#""4 KiB""#, Some("4096"));
        check(ValueRule::Size { min: 0, max: 4096 }, "7", Some("7"));
        check(ValueRule::Seconds { min: 0.0, max: 9.0 }, "2", Some("2.0"));
        check(ValueRule::Seconds { min: 0.0, max: 9.0 }, "0.5", Some("0.5"));
        check(ValueRule::Filter, r#""warn,shellyard=debug""#, Some(r#""warn,shellyard=debug""#));
        check(ValueRule::Share, "1", Some("1.0"));
        check(ValueRule::Share, "0.25", Some("0.25"));
        check(ValueRule::Shell, r#""auto""#, Some(r#""auto""#));
        check(ValueRule::Path, r#""""#, Some(r#""""#));
        check(BOUND, r#""none""#, Some(r#""none""#));
        check(BOUND, r#""4 KiB""#, Some("4096"));
    }

    #[test]
    fn invalid_values_are_refused() {
        check(ValueRule::Address, r#""8000""#, None);
        check(ValueRule::Address, r#""example.org:80""#, None);
        for route in ["mcp", "/", "/mcp/", "/a b", "/{id}", "/metrics", "/api/v1"] {
            check(ValueRule::Route, &format!("{route:?}"), None);
        }
        check(ValueRule::Hosts, r#""a""#, None);
        check(ValueRule::Hosts, r#"["a b"]"#, None);
        check(ValueRule::Origins, r#"["a.example"]"#, None);
        check(ValueRule::Origins, r#"["https://a.example/"]"#, None);
        check(ValueRule::Path, r#""~/tokens""#, None);
        check(ValueRule::Shell, r#""bash""#, None);
        check(ValueRule::Size { min: 8, max: 4096 }, "7", None);
        check(ValueRule::Size { min: 0, max: 4096 }, "-1", None);
        check(ValueRule::Seconds { min: 0.0, max: 9.0 }, "nan", None);
        check(ValueRule::Seconds { min: 0.0, max: 9.0 }, "inf", None);
        check(ValueRule::Seconds { min: 0.0, max: 9.0 }, r#""2""#, None);
        check(ValueRule::Count { min: 0, max: 9 }, "1.0", None);
        check(ValueRule::Count { min: 0, max: 9 }, "10", None);
        check(ValueRule::Word(&["a", "b"]), r#""c""#, None);
        check(ValueRule::Switch, "1", None);
        for filter in ["shellyard=loud", "debgu", ""] {
            check(ValueRule::Filter, &format!("{filter:?}"), None);
        }
        check(BOUND, r#""nothing""#, None);
        check(BOUND, "4097", None);
        check(ValueRule::Share, "1.1", None);
        check(ValueRule::Share, "nan", None);
    }

    #[test]
    fn a_route_may_start_with_the_text_of_a_reserved_one() {
        check(ValueRule::Route, r#""/apiary""#, Some(r#""/apiary""#));
    }

    #[test]
    fn text_is_parsed_by_the_rule_of_its_setting() {
        let count = ValueRule::Count { min: 0, max: 9 };
        assert_eq!(count.parse_text("8"), Value::Integer(8));
        assert_eq!(count.parse_text("many"), Value::from("many"));
        assert_eq!(ValueRule::Switch.parse_text("true"), Value::Boolean(true));
        let bound = ValueRule::Or(&["none"], &ValueRule::Count { min: 0, max: 9 });
        assert_eq!(bound.parse_text("8"), Value::Integer(8));
        assert_eq!(bound.parse_text("none"), Value::from("none"));
        let hosts = ValueRule::Hosts.parse_text("a, b,");
        assert_eq!(hosts, Value::Array(vec![Value::from("a"), Value::from("b")]));
    }
}
