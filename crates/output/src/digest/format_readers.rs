//! The formats of tools that take more than the start of a line to read: a function for each row of
//! the table in `formats.rs`.

use super::formats::{FormatState, OutputLine, RememberedLine, ToolCounts};

/// The number before a word: 3 for `passed` in `2 failed, 3 passed`.
pub(super) fn before(text: &str, wanted: &[&str]) -> Option<u64> {
    pairs(text).find(|(_, word)| wanted.contains(word)).and_then(|(number, _)| number.parse().ok())
}

/// The number after a word: 3 for `failures` in `failures=3, errors=1`.
fn after(text: &str, wanted: &str) -> Option<u64> {
    pairs(text).find(|(word, _)| *word == wanted).and_then(|(_, number)| number.parse().ok())
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = || text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words().zip(words().skip(1))
}

/// Adds to a count that may not have begun.
pub(super) fn add(count: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *count = Some(count.unwrap_or(0) + more);
    }
}

pub(super) fn read_cargo_build(seen: &mut FormatState, line: OutputLine<'_>) {
    let text = line.text;
    let warnings = || before(text, &["warning", "warnings"]);
    if text.starts_with("error: could not compile `") {
        add(&mut seen.counts.errors, before(text, &["previous"]).or(Some(1)));
        add(&mut seen.counts.warnings, warnings());
        seen.told = Some(line.keep());
        seen.is_settled = true;
    } else if text.starts_with("warning: `") && text.contains("` (") {
        add(&mut seen.counts.warnings, warnings());
    } else if text.trim_start().starts_with("Finished `")
        && text.contains("target(s) in ")
        && !seen.is_settled
    {
        seen.told = Some(line.keep());
    }
}

pub(super) fn read_cargo_test(seen: &mut FormatState, line: OutputLine<'_>) {
    let text = line.text;
    if let Some(name) = text.strip_prefix("test ").and_then(|it| it.strip_suffix(" ... FAILED")) {
        seen.failed(name);
    } else if let Some(rest) = text.strip_prefix("---- ") {
        seen.failed(rest.strip_suffix(" stdout ----").unwrap_or_default());
    } else if text.starts_with("test result: ") || text.trim_start().starts_with("Summary [") {
        add(&mut seen.counts.passed, before(text, &["passed"]));
        add(&mut seen.counts.failed, before(text, &["failed"]).or(Some(0)));
        add(&mut seen.counts.skipped, before(text, &["ignored", "skipped"]));
        seen.told = Some(line.keep());
    }
}

pub(super) fn read_panic(seen: &mut FormatState, line: OutputLine<'_>) {
    if let Some(RememberedLine { offset, text: place }) = seen.begun.take() {
        if line.text.is_empty() {
            seen.told = Some(RememberedLine { offset, text: format!("panicked at {place}") });
        } else {
            seen.told = Some(RememberedLine { offset, ..line.keep() });
            seen.place = Some(place);
        }
    }
    let place = line.text.strip_prefix("thread '").and_then(|rest| rest.split_once("' "));
    if let Some((_, place)) = place.and_then(|(_, rest)| rest.split_once("panicked at ")) {
        add(&mut seen.counts.errors, Some(1));
        if seen.told.is_none() {
            seen.begun = Some(line.keep_as(place.trim_end_matches(':')));
            seen.wants_next = true;
        }
    }
}

/// The words that a summary of pytest is made of.
const PYTEST_OUTCOMES: [&str; 11] = [
    "passed",
    "failed",
    "skipped",
    "error",
    "errors",
    "warning",
    "warnings",
    "xfailed",
    "xpassed",
    "deselected",
    "rerun",
];

pub(super) fn read_pytest(seen: &mut FormatState, line: OutputLine<'_>) {
    let name = line.text.strip_prefix("FAILED ").or(line.text.strip_prefix("ERROR "));
    if let Some(name) = name.filter(|name| name.contains(".py")) {
        return seen.failed(name.split(" - ").next().unwrap_or(name));
    }
    let said = line.text.trim_matches('=');
    let Some((outcomes, time)) = said.trim().rsplit_once(" in ") else { return };
    let is_time = time.starts_with(|c: char| c.is_ascii_digit()) && time.contains('s');
    let is_outcome = |part: &str| {
        let (number, word) = part.split_once(' ').unwrap_or_default();
        number.parse::<u64>().is_ok() && PYTEST_OUTCOMES.contains(&word)
    };
    if is_time && (outcomes == "no tests ran" || outcomes.split(", ").all(is_outcome)) {
        seen.read_test_counts(OutputLine { text: outcomes, ..line });
        seen.counts.errors = before(outcomes, &["error", "errors"]);
        seen.counts.warnings = before(outcomes, &["warning", "warnings"]);
        seen.told = Some(line.keep_as(said));
    }
}

pub(super) fn read_unittest(seen: &mut FormatState, line: OutputLine<'_>) {
    let text = line.text;
    let ran = |begun: &RememberedLine| before(&begun.text, &["test", "tests"]);
    // FAIL: test_adds (test_sum.Sums.test_adds)
    let failed = text.strip_prefix("FAIL: ").or(text.strip_prefix("ERROR: "));
    let failed = failed.and_then(|rest| rest.split_once(" ("));
    if let Some((name, _)) =
        failed.filter(|(name, place)| place.ends_with(')') && !name.contains(' '))
    {
        seen.failed(name);
    } else if text.starts_with("Ran ") && text.contains(" in ") {
        seen.begun = Some(line.keep());
    } else if (text == "OK" || line.starts_with_any(&["OK (", "FAILED ("]))
        && let Some(ran) = seen.begun.take_if(|begun| ran(begun).is_some()).as_ref().and_then(ran)
    {
        let of = |word| after(text, word).unwrap_or(0);
        let (failed, errors, skipped) = (of("failures"), of("errors"), of("skipped"));
        seen.counts = ToolCounts {
            passed: Some(ran.saturating_sub(failed + errors + skipped)),
            failed: Some(failed),
            skipped: Some(skipped).filter(|skipped| *skipped > 0),
            errors: Some(errors).filter(|errors| *errors > 0),
            warnings: None,
        };
        seen.told = Some(line.keep());
    }
}

pub(super) fn read_jest(seen: &mut FormatState, line: OutputLine<'_>) {
    if let Some(name) = line.text.strip_prefix("  ● ").filter(|name| *name != "Console") {
        seen.failed(name);
    } else if line.text.starts_with("Tests: ") && line.text.ends_with(" total") {
        seen.read_test_counts(line);
    }
}

pub(super) fn read_vitest(seen: &mut FormatState, line: OutputLine<'_>) {
    let text = line.text.trim();
    if let Some(name) = text.strip_prefix("FAIL  ").filter(|name| name.contains(" > ")) {
        seen.failed(name);
    } else if text.starts_with("Tests  ") && text.ends_with(')') {
        seen.read_test_counts(line);
    }
}

pub(super) fn read_mocha(seen: &mut FormatState, line: OutputLine<'_>) {
    let text = line.text.trim();
    let is_time = text.ends_with("s)") || text.ends_with("m)");
    if let Some(passed) = before(text, &["passing"]).filter(|_| is_time) {
        seen.counts = ToolCounts { passed: Some(passed), failed: Some(0), ..ToolCounts::default() };
        seen.told = Some(line.keep());
    } else if seen.told.is_some() && text.ends_with(" failing") {
        seen.counts.failed = before(text, &["failing"]);
    } else if seen.told.is_some() && text.ends_with(" pending") {
        seen.counts.skipped = before(text, &["pending"]);
    }
}

/// Lines of an npm failure that say less than its message.
const NPM_DETAILS: [&str; 7] =
    ["code ", "errno ", "syscall ", "path ", "command ", "dest ", "A complete log "];

/// Begun is the code of a failure, and settled once its message is known.
pub(super) fn read_npm(seen: &mut FormatState, line: OutputLine<'_>) {
    let failure = line.text.strip_prefix("npm error ").or(line.text.strip_prefix("npm ERR! "));
    if let Some(said) = failure.map(str::trim) {
        if let Some(code) = said.strip_prefix("code ") {
            seen.begun = Some(line.keep_as(code));
            seen.told.clone_from(&seen.begun);
            seen.is_settled = false;
        } else if !seen.is_settled
            && !said.is_empty()
            && !NPM_DETAILS.iter().any(|detail| said.starts_with(detail))
        {
            let message = line.keep_as(said);
            seen.told = Some(match &seen.begun {
                Some(RememberedLine { offset, text }) => {
                    RememberedLine { offset: *offset, text: format!("{text}: {}", message.text) }
                }
                None => message,
            });
            seen.is_settled = true;
        }
    } else if line.starts_with_any(&["added ", "changed ", "removed ", "up to date"])
        && line.text.contains("package")
        && seen.begun.is_none()
        && !seen.is_settled
    {
        seen.told = Some(line.keep());
    }
}

/// Begun is the last error, and settled once its innermost frame outside of node itself is known.
pub(super) fn read_node(seen: &mut FormatState, line: OutputLine<'_>) {
    // SyntaxError: …, Error [CODE]: …, Uncaught TypeError: …
    let error = line.text.strip_prefix("Uncaught ").unwrap_or(line.text);
    let error = error.split([':', ' ']).next().unwrap_or_default();
    if line.text.starts_with("Node.js v") {
        seen.told = seen.begun.clone().or(seen.told.take());
    } else if error.ends_with("Error") && error.chars().all(char::is_alphanumeric) {
        seen.begun = Some(line.keep());
        seen.is_settled = false;
    } else if let Some(begun) = seen.begun.as_mut().filter(|_| !seen.is_settled)
        && let Some(frame) = node_frame(line.text)
    {
        begun.text = format!("{} ({frame})", begun.text);
        seen.is_settled = true;
    }
}

/// `app.js:4:10` of `    at start (/src/app.js:4:10)`.
fn node_frame(text: &str) -> Option<&str> {
    let place = text.strip_prefix("    at ")?;
    let place = place.rsplit_once('(').map_or(place, |(_, place)| place.trim_end_matches(')'));
    let is_own = !place.starts_with("node:") && place.contains(':');
    is_own.then(|| place.rsplit('/').next().unwrap_or(place))
}

pub(super) fn read_tsc(seen: &mut FormatState, line: OutputLine<'_>) {
    let code = line.text.split_once("error TS").and_then(|(_, code)| code.split_once(':'));
    if code.is_some_and(|(code, _)| code.parse::<u32>().is_ok()) {
        seen.error(line);
    }
}

/// The last package that failed is told, else the last one; settled once one has failed.
pub(super) fn read_go_test(seen: &mut FormatState, line: OutputLine<'_>) {
    let text = line.text.trim_start();
    let test = text.strip_prefix("--- ").and_then(|test| test.split_once(": "));
    // A test counts with all that is nested in it.
    let count = Some(u64::from(text.len() == line.text.len())).filter(|count| *count > 0);
    match test {
        Some(("PASS", _)) => add(&mut seen.counts.passed, count),
        Some(("SKIP", _)) => add(&mut seen.counts.skipped, count),
        Some(("FAIL", name)) => {
            seen.failed(name.rsplit_once(" (").map_or(name, |(name, _)| name));
            add(&mut seen.counts.failed, count);
        }
        Some(_) | None => {}
    }
    let word = line.text.split_once('\t').map(|(word, _)| word);
    let has_failed = word == Some("FAIL");
    let is_ok = word.is_some_and(|word| word.trim() == "ok");
    if has_failed || (is_ok && !seen.is_settled) {
        seen.told = Some(line.keep_as(&line.text.replace('\t', " ")));
        seen.is_settled |= has_failed;
    }
}

/// C and C++ compilers, javac and the linker. The first error is told, else the first warning.
pub(super) fn read_compiler(seen: &mut FormatState, line: OutputLine<'_>) {
    const COMPLAINTS: [(&str, bool); 3] =
        [(": error: ", true), (": fatal error: ", true), (": warning: ", false)];
    let complaint = if line.text.contains(": undefined reference to `") {
        Some(("ld", true))
    } else {
        let mut complaints = COMPLAINTS.into_iter();
        let found =
            complaints.find_map(|(word, is_error)| Some((line.text.split_once(word)?.0, is_error)));
        found.and_then(|(place, is_error)| Some((compiler_of(place)?, is_error)))
    };
    let Some((tool, is_error)) = complaint else { return };
    seen.tool.get_or_insert(tool);
    if is_error && seen.counts.errors.unwrap_or(0) == 0 {
        seen.told = None;
    }
    add(&mut seen.counts.errors, Some(u64::from(is_error)));
    add(&mut seen.counts.warnings, Some(1).filter(|_| !is_error));
    seen.told.get_or_insert_with(|| line.keep());
}

/// The tool that reads the file of a place such as `file.ext:12` or `file.ext:12:5`.
fn compiler_of(place: &str) -> Option<&'static str> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (rest, number) = place.rsplit_once(':')?;
    let file = match rest.rsplit_once(':') {
        Some((file, line)) if is_number(line) => file,
        Some(_) | None => rest,
    };
    let (_, extension) = file.rsplit_once('.')?;
    if !is_number(number) || file.contains(char::is_whitespace) {
        return None;
    }
    match extension {
        "java" => Some("javac"),
        "c" | "h" | "cc" | "cpp" | "cxx" | "hpp" | "hh" | "m" | "mm" | "cu" | "S" => Some("cc"),
        _ => None,
    }
}

pub(super) fn read_make(seen: &mut FormatState, line: OutputLine<'_>) {
    let after_name = line.text.strip_prefix('g').unwrap_or(line.text).strip_prefix("make");
    let level = after_name.and_then(|rest| rest.split_once(": *** "));
    if level.is_some_and(|(level, _)| {
        level.is_empty() || (level.starts_with('[') && level.ends_with(']'))
    }) {
        seen.error(line);
    }
}

/// The first target that failed is told, once the build has stopped.
pub(super) fn read_ninja(seen: &mut FormatState, line: OutputLine<'_>) {
    let is_stop = line.text.starts_with("ninja: build stopped: ");
    let is_failure = seen.begun.is_none() && line.text.starts_with("FAILED: ");
    if is_failure {
        seen.begun = Some(line.keep());
    }
    if is_stop || (is_failure && seen.told.is_some()) {
        seen.told = Some(seen.begun.clone().unwrap_or_else(|| line.keep()));
    }
}

/// Begun is an exception whose frames are still to come.
pub(super) fn read_java(seen: &mut FormatState, line: OutputLine<'_>) {
    if let Some(exception) = java_exception(line.text) {
        let is_cause = line.text.starts_with("Caused by: ");
        seen.begun = Some(line.keep_as(if is_cause { line.text } else { exception }));
        return;
    }
    let frame = line.text.trim_start().strip_prefix("at ").and_then(|at| at.split_once('('));
    let Some((_, place)) = frame else { return };
    let Some(begun) = seen.begun.take().filter(|_| place.contains(':')) else { return };
    if let Some(cause) = begun.text.strip_prefix("Caused by: ") {
        seen.cause = Some(cause.to_owned());
        return;
    }
    add(&mut seen.counts.errors, Some(1));
    if seen.told.is_none() {
        seen.place = Some(place.trim_end_matches(')').to_owned());
        seen.told = Some(begun);
    }
}

/// The exception of a line: a class with a package, and perhaps a message.
fn java_exception(text: &str) -> Option<&str> {
    let text = match text.strip_prefix("Exception in thread \"") {
        Some(rest) => rest.split_once("\" ")?.1,
        None => text.strip_prefix("Caused by: ").unwrap_or(text),
    };
    let class = text.split(':').next().unwrap_or(text).trim_end();
    let is_class = class.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '$' | '_'));
    let is_thrown = ["Exception", "Error", "Throwable"].iter().any(|end| class.ends_with(end));
    (is_class && is_thrown && class.contains('.')).then_some(text)
}

pub(super) fn read_jvm_build(seen: &mut FormatState, line: OutputLine<'_>) {
    let text = line.text;
    if let Some(build) = text.strip_prefix("[INFO] BUILD ") {
        seen.tool = Some("maven");
        seen.told = Some(line.keep_as(&format!("BUILD {build}")));
    } else if line.starts_with_any(&["BUILD SUCCESSFUL in ", "BUILD FAILED in "]) {
        seen.tool = Some("gradle");
        seen.told = Some(line.keep());
    } else if let Some(run) = after(text, "run").filter(|_| text.contains("Tests run: ")) {
        let of = |word| after(text, word).unwrap_or(0);
        let (failed, errors, skipped) = (of("Failures"), of("Errors"), of("Skipped"));
        seen.counts = ToolCounts {
            passed: Some(run.saturating_sub(failed + errors + skipped)),
            failed: Some(failed),
            skipped: Some(skipped),
            errors: Some(errors),
            warnings: None,
        };
    }
}

pub(super) fn read_dd(seen: &mut FormatState, line: OutputLine<'_>) {
    if line.text.contains('+') && line.text.ends_with(" records out") {
        seen.begun = Some(line.keep());
    } else if line.text.contains(" copied, ") && seen.begun.take().is_some() {
        seen.told = Some(line.keep());
    }
}

/// How shells name the signals that end a program.
const SIGNALS: [&str; 8] = [
    "Segmentation fault",
    "Killed",
    "Aborted",
    "Bus error",
    "Illegal instruction",
    "Floating point exception",
    "Trace/breakpoint trap",
    "Terminated",
];

pub(super) fn read_signal(seen: &mut FormatState, line: OutputLine<'_>) {
    // A shell names its place and the process before the signal: both are there, or neither is.
    let after_place = line.text.split_once(": line ").and_then(|(_, rest)| rest.split_once(": "));
    let said = after_place.map_or(line.text, |(_, rest)| {
        rest.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start()
    });
    let is_placed = said.len() < line.text.len();
    let is_signal = |signal: &&str| {
        said.strip_prefix(signal).is_some_and(|rest| {
            rest.is_empty() || rest == " (core dumped)" || (is_placed && rest.starts_with(' '))
        })
    };
    if SIGNALS.iter().any(is_signal) {
        let words: Vec<&str> = said.split_whitespace().collect();
        seen.error(OutputLine { text: &words.join(" "), ..line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_before_or_after_their_words() {
        let text = "FAILED (failures=3, errors=1); 12 passed | 1 skipped (3)";
        assert_eq!(before(text, &["passed"]), Some(12));
        assert_eq!(before(text, &["skip", "skipped"]), Some(1));
        assert_eq!(after(text, "failures"), Some(3));
        assert_eq!(before(text, &["missing"]), None);
        assert_eq!(after(text, "FAILED"), None);
    }
}
