//! npm, node and tsc.

use super::ending::{Counts, Ending, Kept, Recogniser, Sight, Wants};

pub(super) const SIGNS: &str = concat!(
    r"|(?-i:^npm ERR! |^(?:added|changed|removed) \d+ packages?\b|^up to date\b",
    r"|^    at .*:\d+:\d+\)?|^Node\.js v\d)",
);

/// Lines of an npm failure that say less than its message.
const NPM_DETAILS: [&str; 7] =
    ["code ", "errno ", "syscall ", "path ", "command ", "dest ", "A complete log "];

#[derive(Debug, Default)]
pub(super) struct Npm {
    code: Option<Kept>,
    message: Option<Kept>,
    done: Option<Kept>,
}

impl Npm {
    fn fail(&mut self, line: Sight<'_>, said: &str) {
        if let Some(code) = said.strip_prefix("code ") {
            self.code = Some(line.keep_as(code));
            self.message = None;
        } else if self.message.is_none()
            && !said.is_empty()
            && !NPM_DETAILS.iter().any(|detail| said.starts_with(detail))
        {
            self.message = Some(line.keep_as(said));
        }
    }
}

impl Recogniser for Npm {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        let failure = line.text.strip_prefix("npm error ").or(line.text.strip_prefix("npm ERR! "));
        if let Some(said) = failure {
            self.fail(line, said.trim());
        } else if (line.text.starts_with("added ")
            || line.text.starts_with("changed ")
            || line.text.starts_with("removed ")
            || line.text.starts_with("up to date"))
            && line.text.contains("package")
        {
            self.done = Some(line.keep());
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let failure = match (&self.code, &self.message) {
            (Some(code), Some(message)) => {
                Some(Kept { offset: code.offset, text: format!("{}: {}", code.text, message.text) })
            }
            (one, other) => one.clone().or(other.clone()),
        };
        failure.or(self.done.clone()).map(|line| Ending::told("npm", &line)).into_iter().collect()
    }
}

/// An exception that ended node: the error, its frames, and node's version in the last line.
#[derive(Debug, Default)]
pub(super) struct Node {
    error: Option<Kept>,
    /// The innermost frame that is no part of node itself.
    frame: Option<String>,
    crashed: Option<Ending>,
}

impl Node {
    fn ended(&self) -> Option<Ending> {
        let error = self.error.as_ref()?;
        let text = match &self.frame {
            Some(frame) => format!("{} ({frame})", error.text),
            None => error.text.clone(),
        };
        Some(Ending { text, ..Ending::told("node", error) })
    }
}

/// `SyntaxError: …`, `Error [CODE]: …`, `Uncaught TypeError: …`.
fn is_error(text: &str) -> bool {
    let text = text.strip_prefix("Uncaught ").unwrap_or(text);
    let name = text.split([':', ' ']).next().unwrap_or_default();
    name.ends_with("Error") && name.chars().all(char::is_alphanumeric)
}

/// `app.js:4:10` of `    at start (/src/app.js:4:10)`.
fn frame(text: &str) -> Option<String> {
    let place = text.strip_prefix("    at ")?;
    let place = place.rsplit_once('(').map_or(place, |(_, place)| place.trim_end_matches(')'));
    if place.starts_with("node:") || !place.contains(':') {
        return None;
    }
    Some(place.rsplit('/').next().unwrap_or(place).to_owned())
}

impl Recogniser for Node {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        if line.text.starts_with("Node.js v") {
            self.crashed = self.ended().or(self.crashed.take());
        } else if is_error(line.text) {
            self.error = Some(line.keep());
            self.frame = None;
        } else if self.frame.is_none() {
            self.frame = frame(line.text);
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        self.crashed.iter().cloned().collect()
    }
}

/// `app.ts(2,33): error TS2322: …`, or `app.ts:2:33 - error TS2322: …`.
#[derive(Debug, Default)]
pub(super) struct Tsc {
    first: Option<Kept>,
    count: u64,
}

impl Recogniser for Tsc {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        let code = line.text.split_once("error TS").and_then(|(_, code)| code.split_once(':'));
        if code.is_some_and(|(code, _)| code.parse::<u32>().is_ok()) {
            self.count += 1;
            self.first.get_or_insert_with(|| line.keep());
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let ending = |line| Ending::told("tsc", line).with_counts(Counts::errors(self.count));
        self.first.as_ref().map(ending).into_iter().collect()
    }
}
