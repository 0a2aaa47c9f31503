//! One thing that was looked at, and how it is told.

use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// What was looked at, in a word.
    pub(super) what: &'static str,
    /// What was found.
    pub(super) detail: String,
    /// What to do about it, or how to change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

/// How a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Something is missing that jobs can do without.
    Warn,
    /// Something does not work.
    Fail,
}

impl Level {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl Finding {
    pub(super) fn ok(what: &'static str, detail: impl Into<String>) -> Self {
        Self { level: Level::Ok, what, detail: detail.into(), fix: None }
    }

    pub(super) fn warn(what: &'static str, detail: impl Into<String>, fix: &str) -> Self {
        Self { level: Level::Warn, what, detail: detail.into(), fix: Some(fix.to_owned()) }
    }

    pub(super) fn fail(what: &'static str, detail: impl Into<String>, fix: &str) -> Self {
        Self { level: Level::Fail, ..Self::warn(what, detail, fix) }
    }
}

/// A line for each, with what else there is to say below it.
pub(super) fn as_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { level, what, detail, fix } in findings {
        let lines = detail.lines().chain(fix.as_deref());
        for (number, line) in lines.enumerate() {
            match number {
                0 => text.push_str(&format!("{:<5} {what}: {line}\n", level.word())),
                _ => text.push_str(&format!("      {line}\n")),
            }
        }
    }
    text
}
