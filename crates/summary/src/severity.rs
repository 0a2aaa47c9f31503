//! Recognises lines by their form. Errors and warnings have a level field, a prefix, or a known message at a
//! known position: a line that only contains the word is no error. Other lines tell how far a program has come.

use std::sync::LazyLock;

use regex::Regex;

use crate::summary::{FoundLines, LineGroup, NumberedLine};

/// The severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineSeverity {
    Error,
    Warning,
}

/// Level words in capitals, which stand as a field of their own.
const ERROR_LEVELS: &str = "ERROR|FATAL|CRITICAL|CRIT|SEVERE|PANIC|EMERG|ALERT|FAILURE";
const WARNING_LEVELS: &str = "WARNING|WARN";
/// Level words in any case, as the value of a field or before a colon.
const ERROR_WORDS: &str = "error|fatal|critical|crit|severe|panic|emerg|alert";
const WARNING_WORDS: &str = "warning|warn";

/// The fields before the level of a log line: at least one field with digits, such as a time, a
/// process id or a host name.
const FIELDS_BEFORE: &str =
    r"(?:[^ \t]+[ \t]+)?(?:[^ \t]*[0-9][^ \t]*[ \t]+)(?:[^ \t]+[ \t]+){0,4}?";
/// Levels of harmless lines: a level word after one of them is part of the message.
const OTHER_LEVELS: &[&str] = &["INFO", "DEBUG", "TRACE", "NOTICE"];

/// Forms of both severities; `LEVEL` and `WORD` stand for the words above.
const FORMS: &[&str] = &[
    // ERROR something, [ERROR] something, <error> something, error: something, fatal error: …
    r"[ \t]*[\[<(]?(?:LEVEL)(?:[\]>):][ \t]|[ \t]+[^ \t=]|[\]>)]$)",
    r"[ \t]*(?:[\[<(](?i:WORD)[\]>)]|(?:fatal |internal |compile |syntax )?(?i:WORD)(?:\[[A-Z0-9]+\])?:[ \t])",
    // CRITICAL:root:cannot open …, the form of Python's logging
    r"(?:LEVEL):[\w.]+:",
    // 2026-03-14T00:28:58.933Z FATAL …, 12:00:01,234 [main] ERROR …, Mar 14 host app[12]: ERROR …
    r"[\[(]?FIELDS[\[<(|]?(?:LEVEL)[\]>)|:]?(?:[ \t]|$)",
    r"[\[(]?FIELDS[\[<(](?i:WORD)[\]>)][ \t:]",
    // level=error msg=…, "level":"error"
    r#".*?\b(?i:level|lvl|severity|levelname|loglevel)"?[=:][ \t]*"?(?i:WORD)\b"#,
    // program: error: …, file.c:3: warning: …
    r"[^ \t:]+(?::[0-9]+){0,2}:[ \t](?:fatal )?(?i:WORD)(?:\[[A-Z0-9]+\])?:[ \t]",
];

/// Further forms of errors.
const ERROR_FORMS: &[&str] = &[
    // ValueError: …, java.lang.IllegalStateException: …, Uncaught TypeError: …
    r"[ \t]*(?:Uncaught |Unhandled |Caused by: |Exception in thread .* )?(?:[A-Za-z_$][\w$]*[.:]{1,2})*[A-Z][\w$]*(?:Error|Exception|Failure)(?::[ \t]|$)",
    r"Traceback \(most recent call last\):",
    r"thread '.*' .*panicked at |panic: |goroutine [0-9]+ \[running\]",
    // Messages of shells and of the C library, after the name of the program.
    r"[^ \t]+: .*\b(?:command not found|not found|No such file or directory|Permission denied|Is a directory|Not a directory|Operation not permitted|No space left on device|Connection refused|Read-only file system|Cannot allocate memory|cannot open|cannot access|cannot stat|unrecognized option|invalid option)\b",
    r"(?:.*: line [0-9]+: +[0-9]+ |.*: +[0-9]+ )?(?:Segmentation fault|Bus error|Illegal instruction|Floating point exception|Aborted|Killed)\b[ \t]*(?:\(core dumped\)|$)",
    r".*\b(?:Out of memory: Killed process|JavaScript heap out of memory|std::bad_alloc|undefined reference to )",
    // klog and glog: E0314 00:28:58.933 …
    r"[EF][0-9]{4} [0-9]{2}:[0-9]{2}:",
    // pino: "level":50
    r#"\{.*"level":[56]0\b"#,
];

const WARNING_FORMS: &[&str] =
    &[r"W[0-9]{4} [0-9]{2}:[0-9]{2}:", r#"\{.*"level":40\b"#, r".*\b[A-Z][A-Za-z]*Warning: "];

static ERRORS: LazyLock<Option<Regex>> =
    LazyLock::new(|| compile(ERROR_LEVELS, ERROR_WORDS, ERROR_FORMS));
static WARNINGS: LazyLock<Option<Regex>> =
    LazyLock::new(|| compile(WARNING_LEVELS, WARNING_WORDS, WARNING_FORMS));

fn compile(levels: &str, words: &str, others: &[&str]) -> Option<Regex> {
    let forms = FORMS.iter().map(|form| {
        form.replace("LEVEL", levels).replace("WORD", words).replace("FIELDS", FIELDS_BEFORE)
    });
    let all: Vec<String> = forms.chain(others.iter().map(|form| (*form).to_owned())).collect();
    let text = all.join("|").replace(r"\b", r"(?-u:\b)").replace(r"\w", "A-Za-z0-9_");
    Regex::new(&format!("^(?:{text})")).ok()
}

/// The severity of a line, if its form is that of an error or a warning.
pub(crate) fn find_severity(text: &str) -> Option<LineSeverity> {
    let matches = |pattern: &Option<Regex>| {
        let found = pattern.as_ref().and_then(|pattern| pattern.find(text));
        found.is_some_and(|found| !has_other_level(found.as_str()))
    };
    if matches(&WARNINGS) {
        return Some(LineSeverity::Warning);
    }
    matches(&ERRORS).then_some(LineSeverity::Error)
}

/// `true` if the form of a line is that of an error.
#[must_use]
pub fn is_error_line(text: &str) -> bool {
    find_severity(text) == Some(LineSeverity::Error)
}

/// `true` if the severity of a line may depend on a number: `E0314 …`, `{"level":50,…`.
pub(crate) fn has_numeric_level(text: &str) -> bool {
    match text.as_bytes() {
        [b'E' | b'F' | b'I' | b'W', b'0'..=b'9', ..] => true,
        [b'{', ..] => text.split_once("\"level\":").is_some_and(|(_, rest)| {
            rest.trim_start().starts_with(|char: char| char.is_ascii_digit())
        }),
        _ => false,
    }
}

/// `true` if the line has another level before the one that was found.
fn has_other_level(found: &str) -> bool {
    let mut fields = found.split(|char: char| !char.is_ascii_alphanumeric()).take(12);
    fields.any(|field| OTHER_LEVELS.contains(&field))
}

/// The most kinds of lines that are kept of each severity.
const MAX_KINDS: usize = 60;
/// The longest text that is kept of a line, in characters.
const LINE_CHARS: usize = 300;

/// Error and warning lines, grouped by their texts without numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeverityLines {
    errors: GroupedLines,
    warnings: GroupedLines,
}

#[derive(Debug, Clone, Default)]
struct GroupedLines {
    count: u64,
    kinds: Vec<(String, LineGroup)>,
}

impl SeverityLines {
    pub(crate) fn add(&mut self, severity: LineSeverity, number: u64, text: &str) {
        match severity {
            LineSeverity::Error => self.errors.add(number, text),
            LineSeverity::Warning => self.warnings.add(number, text),
        }
    }

    /// Adds a line unless one like it is known.
    pub(crate) fn add_unless_known(&mut self, severity: LineSeverity, number: u64, text: &str) {
        let lines = match severity {
            LineSeverity::Error => &self.errors,
            LineSeverity::Warning => &self.warnings,
        };
        if !lines.has_kind_of(text) {
            self.add(severity, number, text);
        }
    }

    pub(crate) fn list(&self, severity: LineSeverity) -> FoundLines {
        let lines = match severity {
            LineSeverity::Error => &self.errors,
            LineSeverity::Warning => &self.warnings,
        };
        let kinds = lines.kinds.iter().map(|(_, group)| group.clone()).collect();
        FoundLines { count: lines.count, kinds }
    }
}

impl GroupedLines {
    fn has_kind_of(&self, text: &str) -> bool {
        let text: String = text.trim().chars().take(LINE_CHARS).collect();
        let kind = line_kind(&text);
        self.kinds.iter().any(|(known, _)| *known == kind)
    }

    fn add(&mut self, number: u64, text: &str) {
        self.count += 1;
        let text: String = text.trim().chars().take(LINE_CHARS).collect();
        let key = line_kind(&text);
        let line = NumberedLine { number, text };
        if let Some((_, group)) = self.kinds.iter_mut().find(|(known, _)| *known == key) {
            group.count += 1;
            group.last = line;
        } else if self.kinds.len() < MAX_KINDS {
            self.kinds.push((key, LineGroup { count: 1, first: line.clone(), last: line }));
        }
    }
}

/// The text of a line without numbers.
fn line_kind(text: &str) -> String {
    text.chars().filter(|char| !char.is_ascii_digit()).collect()
}

/// Forms of progress: `[ 90/400]`, `(90/400)`, `45%`, `#9 … 12.3MB / 40MB`, `Step 3/7`.
const PROGRESS_FORMS: &[&str] = &[
    r"^[ \t]*[\[(][ \t]*[0-9]+[ \t]*(?:/|of)[ \t]*[0-9]+[ \t]*[\])]",
    r"(?:^|[ \t|\[(])[0-9]{1,3}(?:\.[0-9]+)?[ ]?%(?:$|[ \t|\])])",
    r"(?:^|[ \t|])[0-9]+(?:\.[0-9]+)?[kKMGT]?i?B?[ ]?/[ ]?[0-9]+(?:\.[0-9]+)?[kKMGT]?i?B?[ \t]*(?:\[|\||$|[A-Za-z])",
    r"^(?i:step|stage|task|epoch|batch|layer)[ \t][0-9]+[ \t]?/[ \t]?[0-9]+",
];

static PROGRESS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&PROGRESS_FORMS.join("|")).ok());

/// `true` if a line tells how far the program has come.
#[must_use]
pub fn is_progress_line(text: &str) -> bool {
    PROGRESS.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_error_or_a_warning_by_its_form() {
        use LineSeverity::{Error, Warning};
        for (text, severity) in [
            ("error: no", Some(Error)),
            ("ERROR no", Some(Error)),
            ("[ERROR] Failed to execute goal", Some(Error)),
            ("[error] no", Some(Error)),
            ("Error: listen EADDRINUSE", Some(Error)),
            ("fatal: not a git repository", Some(Error)),
            ("FATAL [raft-0] node-7 storage: WAL checksum mismatch", Some(Error)),
            ("2026-03-14T00:28:58.933Z FATAL [raft-0] node-7 storage: x", Some(Error)),
            ("2026-03-14 00:28:58,933 [main] ERROR c.a.Service - x", Some(Error)),
            ("Mar 14 00:28:58 host app[12]: ERROR x", Some(Error)),
            ("[2026-03-14 00:28:58] production.ERROR: x", None),
            ("time=1 level=error msg=x", Some(Error)),
            (r#"{"time":1,"level":"error","msg":"x"}"#, Some(Error)),
            (r#"{"level":50,"msg":"x"}"#, Some(Error)),
            (r#"{"level":30,"msg":"x"}"#, None),
            ("E0314 00:28:58.933 1 a.go:3] x", Some(Error)),
            ("main.c:3:5: error: expected ';'", Some(Error)),
            ("main.c:3:5: fatal error: x.h: No such file or directory", Some(Error)),
            ("ValueError: bad", Some(Error)),
            ("odd.module.TroubleError: bad", Some(Error)),
            ("bash: line 1: carg: command not found", Some(Error)),
            ("ls: cannot access 'x': No such file or directory", Some(Error)),
            ("Segmentation fault (core dumped)", Some(Error)),
            ("sh: line 1: 11370 Segmentation fault      (core dumped) ./app", Some(Error)),
            ("CRITICAL:root:cannot open db", Some(Error)),
            ("WARNING:app.db:slow", Some(Warning)),
            ("E1117 10:00:01.000 1 reflector.go:138] failed to list", Some(Error)),
            ("warning: unused", Some(Warning)),
            ("2026-03-14T00:28:58.933Z WARN [a] x", Some(Warning)),
            ("a.py:3: DeprecationWarning: x", Some(Warning)),
            ("0 errors, 0 warnings", None),
            ("test error_handling ... ok", None),
            ("the error handling guide", None),
            ("errors are handled: yes", None),
            ("Compiling thiserror v1.0", None),
            ("no error", None),
            ("INFO retry after error: timeout", None),
            ("2026-03-14T00:28:58.933Z INFO error rate is 0", None),
            ("failed=0", None),
            ("2026-03-14T00:28:58.933Z INFO state ERROR is over", None),
        ] {
            assert_eq!(find_severity(text), severity, "{text}");
        }
    }

    #[test]
    fn progress_is_recognised_by_its_form() {
        for text in [
            "[ 90/400] CXX obj/module_021/unit_090.o",
            "[ 12%] Building CXX object main.o",
            "model.safetensors:  45%|████      | 900/2000 [00:02<00:03, 412.03MB/s]",
            "   120K .......... .......... 45% 1.2M 3s",
            "Step 3/7 : RUN make",
            "Downloading 12.3MB / 40MB",
            "(3/20) Installing zlib",
            "Epoch 3/10",
        ] {
            assert!(is_progress_line(text), "{text}");
        }
        for text in [
            "listening on port 8080",
            "src/main.rs:3",
            "see https://example.org/a/1/2",
            "100% of the tests",
            "ready in 1187 ms",
        ] {
            assert_eq!(is_progress_line(text), text.starts_with("100%"), "{text}");
        }
    }
}
