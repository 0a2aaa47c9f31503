//! Rules: what a value may be, in words and in code.

use std::net::SocketAddr;

use toml::Value;

use super::error;
use crate::{filter, size};

/// What a value may be.
#[derive(Debug, Clone, Copy)]
pub(super) enum ValueRule {
    /// An IP address (or `localhost`) and a port.
    Address,
    /// The path of the MCP endpoint.
    Route,
    /// Text in one line.
    Text,
    /// An http or https URL, or empty for none.
    Url,
    /// A list of host names, each with or without a port.
    Hosts,
    /// A list of web origins.
    Origins,
    /// A list of texts, none of them empty.
    Texts,
    /// A list of absolute directories.
    Directories,
    /// A list of absolute paths, or of such below the home directory (`~/`).
    HomePaths,
    /// A list of names below a workspace, or below the home directory (`~/`).
    Names,
    /// A list of variables, `NAME=VALUE`.
    Variables,
    /// A path, or empty for none.
    Path,
    /// `auto` or the full path of a shell.
    Shell,
    /// Bytes.
    Size { min: u64, max: u64 },
    /// Seconds, fractions allowed.
    Seconds { min: f64, max: f64 },
    /// A whole number.
    Count { min: u64, max: u64 },
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or what keeps the other rule.
    Or(&'static [&'static str], &'static Self),
    /// A list of at least one of these words.
    Words(&'static [&'static str]),
    /// The name of a variable, or empty for none.
    Name,
    /// True or false.
    Switch,
    /// A filter for log lines.
    Filter,
    /// A part of a whole.
    Share,
}

/// Routes of the server that MCP cannot be served on.
const TAKEN_ROUTES: [&str; 5] = ["/metrics", "/healthz", "/readyz", "/api", "/.well-known"];

impl ValueRule {
    /// The value in its one canonical form (sizes as integers, seconds as floats), or
    /// `None` when it breaks the rule.
    pub(super) fn check(self, value: &Value) -> Option<Value> {
        match self {
            Self::Address => address(value.as_str()?).map(Value::String),
            Self::Text => text_that(value, |text| !text.contains(['\0', '\n'])),
            Self::Url => text_that(value, |text| text.is_empty() || is_url(text)),
            Self::Route => text_that(value, is_route),
            Self::Hosts => texts_that(value, is_host),
            Self::Origins => texts_that(value, is_origin),
            Self::Texts => texts_that(value, |text| !text.trim().is_empty()),
            Self::Directories => texts_that(value, |text| text.starts_with('/')),
            Self::HomePaths => texts_that(value, is_home_path),
            Self::Names => texts_that(value, is_name_below),
            Self::Variables => texts_that(value, is_variable),
            Self::Path => text_that(value, |text| !text.starts_with('~') && !text.contains('\0')),
            Self::Shell => text_that(value, |text| text == "auto" || text.starts_with('/')),
            Self::Size { min, max } => whole(size_of(value)?, min, max),
            Self::Seconds { min, max } => {
                number(value).filter(|n| (min..=max).contains(n)).map(Value::Float)
            }
            Self::Count { min, max } => whole(value.as_integer()?.try_into().ok()?, min, max),
            Self::Word(words) => text_that(value, |text| words.contains(&text)),
            Self::Or(words, other) => {
                text_that(value, |text| words.contains(&text)).or_else(|| other.check(value))
            }
            Self::Words(words) => texts_that(value, |text| words.contains(&text))
                .filter(|list| list.as_array().is_some_and(|list| !list.is_empty())),
            Self::Name => text_that(value, |text| text.is_empty() || is_name(text)),
            Self::Switch => value.as_bool().map(Value::Boolean),
            Self::Filter => text_that(value, |text| filter::parse(text).is_ok()),
            Self::Share => {
                number(value).filter(|part| (0.0..=1.0).contains(part)).map(Value::Float)
            }
        }
    }

    /// The text of a variable or flag as the TOML value that it stands for. Text that
    /// does not fit stays text, which the check then refuses.
    pub(super) fn value_of_text(self, text: &str) -> Value {
        let parsed = match self {
            Self::Count { .. } => text.trim().parse().ok().map(Value::Integer),
            Self::Seconds { .. } | Self::Share => text.trim().parse().ok().map(Value::Float),
            Self::Switch => switch(text).map(Value::Boolean),
            Self::Or(_, other) => Some(other.value_of_text(text)),
            Self::Hosts
            | Self::Origins
            | Self::Texts
            | Self::Directories
            | Self::HomePaths
            | Self::Names
            | Self::Variables
            | Self::Words(_) => Some(list_of(text)),
            Self::Address
            | Self::Text
            | Self::Url
            | Self::Route
            | Self::Path
            | Self::Shell
            | Self::Size { .. }
            | Self::Word(_)
            | Self::Name
            | Self::Filter => None,
        };
        parsed.unwrap_or_else(|| Value::String(text.to_owned()))
    }

    /// What a value that breaks the rule was most likely meant to say.
    pub(super) fn meant(self, value: &Value) -> Option<&'static str> {
        match self {
            Self::Filter => filter::parse(value.as_str()?).err()?.suggested_level(),
            Self::Word(words) | Self::Or(words, _) => error::for_word(value.as_str()?, words),
            Self::Address
            | Self::Route
            | Self::Text
            | Self::Url
            | Self::Hosts
            | Self::Origins
            | Self::Texts
            | Self::Directories
            | Self::HomePaths
            | Self::Names
            | Self::Variables
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

    /// What is allowed, as the end of the sentence "it must be …".
    pub(super) fn allowed(self) -> String {
        match self {
            Self::Address => {
                "an address and port such as \"127.0.0.1:8000\" or \"[::1]:8000\", or \"none\""
                    .into()
            }
            Self::Text => "text in one line".into(),
            Self::Url => "a URL such as \"https://id.example.org\", or \"\"".into(),
            Self::Route => format!(
                "a path such as \"/mcp\": segments of letters, digits, `-`, `_` and `.`, none of {}",
                TAKEN_ROUTES.join(", ")
            ),
            Self::Hosts => "a list of host names such as [\"build.example.org\"]".into(),
            Self::Origins => "a list of origins such as [\"https://app.example.org\"]".into(),
            Self::Texts => "a list of texts, none of them empty, such as [\"git status\"]".into(),
            Self::Directories => "a list of full paths such as [\"/srv/project\"]".into(),
            Self::HomePaths => {
                "a list of full paths, or of such in the home directory: [\"~/.cargo\"]".into()
            }
            Self::Names => {
                "a list of names below a workspace such as [\".envrc\", \"~/.bashrc\"]".into()
            }
            Self::Variables => "a list of variables such as [\"CI=1\"]".into(),
            Self::Path => "a path as text, written out (`~` is not expanded), or \"\"".into(),
            Self::Shell => "\"auto\" or the full path of a shell such as \"/bin/bash\"".into(),
            Self::Size { min, max } => format!(
                "a size such as 65536 or \"64 KiB\", from {} to {}",
                size::display(min),
                size::display(max)
            ),
            Self::Seconds { min, max } => format!("a number of seconds from {min} to {max}"),
            Self::Count { min, max } => format!("a whole number from {min} to {max}"),
            Self::Word(words) => format!("one of \"{}\"", words.join("\", \"")),
            Self::Or(words, other) => {
                format!("{}, or \"{}\"", other.allowed(), words.join("\" or \""))
            }
            Self::Words(words) => format!("a list of some of \"{}\"", words.join("\", \"")),
            Self::Name => "the name of a variable such as \"CI\", or \"\"".into(),
            Self::Switch => "true or false".into(),
            Self::Share => "a number from 0 to 1".into(),
            Self::Filter => "a log filter such as \"info\" or \"warn,shellyard=debug\"".into(),
        }
    }
}

/// Variables are set to 1 as often as to true.
fn switch(text: &str) -> Option<bool> {
    match text.trim() {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// `localhost` is taken for the IPv4 loopback, which is what it nearly always means.
fn address(text: &str) -> Option<String> {
    if text == "none" {
        return Some(String::new());
    }
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse::<SocketAddr>().ok().map(|address| address.to_string())
}

fn text_that(value: &Value, keeps_rule: impl Fn(&str) -> bool) -> Option<Value> {
    value.as_str().filter(|text| keeps_rule(text)).map(Value::from)
}

fn texts_that(value: &Value, keeps_rule: impl Fn(&str) -> bool) -> Option<Value> {
    let texts = value.as_array()?;
    let good = texts.iter().all(|text| text.as_str().is_some_and(&keeps_rule));
    good.then(|| value.clone())
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
        && !TAKEN_ROUTES.iter().any(within)
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

fn is_home_path(text: &str) -> bool {
    (text.starts_with('/') || text.starts_with("~/")) && !climbs(text)
}

/// Only a `*` alone, for a whole directory, has a meaning in a pattern.
fn is_name_below(text: &str) -> bool {
    let has_pattern = text.split('/').any(|part| part != "*" && part.contains('*'));
    !text.is_empty() && !text.starts_with('/') && !climbs(text) && !has_pattern
}

fn climbs(text: &str) -> bool {
    text.split('/').any(|part| part == "..") || text.contains('\0')
}

fn is_variable(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| !name.is_empty())
}

fn is_name(text: &str) -> bool {
    !text.contains(['=', '\0'])
}

fn size_of(value: &Value) -> Option<u64> {
    match value.as_str() {
        Some(text) => size::parse(text),
        None => value.as_integer()?.try_into().ok(),
    }
}

fn whole(number: u64, min: u64, max: u64) -> Option<Value> {
    let number = Some(number).filter(|n| (min..=max).contains(n))?;
    i64::try_from(number).ok().map(Value::Integer)
}

/// The value as a number. Those of settings are far below 2^53, so that the cast is exact.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

fn list_of(text: &str) -> Value {
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
    fn values_that_keep_their_rule_come_back_canonical() {
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
    fn values_that_break_their_rule_are_refused() {
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
    fn a_route_may_only_look_like_a_taken_one() {
        check(ValueRule::Route, r#""/apiary""#, Some(r#""/apiary""#));
    }

    #[test]
    fn text_becomes_the_type_that_its_rule_wants() {
        let count = ValueRule::Count { min: 0, max: 9 };
        assert_eq!(count.value_of_text("8"), Value::Integer(8));
        assert_eq!(count.value_of_text("many"), Value::from("many"));
        assert_eq!(ValueRule::Switch.value_of_text("true"), Value::Boolean(true));
        let bound = ValueRule::Or(&["none"], &ValueRule::Count { min: 0, max: 9 });
        assert_eq!(bound.value_of_text("8"), Value::Integer(8));
        assert_eq!(bound.value_of_text("none"), Value::from("none"));
        let hosts = ValueRule::Hosts.value_of_text("a, b,");
        assert_eq!(hosts, Value::Array(vec![Value::from("a"), Value::from("b")]));
    }
}
