//! Readers of tool formats that take more than the start of a line: one function for each such row
//! of the table in `formats.rs`.

use super::formats::{FormatState, OutputLine, RememberedLine, ToolCounts};

/// The number before a word: 3 for `passed` in `2 failed, 3 passed`.
pub(super) fn number_before(text: &str, wanted: &[&str]) -> Option<u64> {
    pairs(text).find(|(_, word)| wanted.contains(word)).and_then(|(number, _)| number.parse().ok())
}

/// The number after a word: 3 for `failures` in `failures=3, errors=1`.
fn number_after(text: &str, wanted: &str) -> Option<u64> {
    pairs(text).find(|(word, _)| *word == wanted).and_then(|(_, number)| number.parse().ok())
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = || text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words().zip(words().skip(1))
}

/// Adds to a count that may not exist yet.
pub(super) fn add_count(count: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *count = Some(count.unwrap_or(0) + more);
    }
}

pub(super) fn read_cargo_build(state: &mut FormatState, line: OutputLine<'_>) {
    let text = line.text;
    let warnings = || number_before(text, &["warning", "warnings"]);
    if text.starts_with("error: could not compile `") {
        add_count(&mut state.counts.errors, number_before(text, &["previous"]).or(Some(1)));
        add_count(&mut state.counts.warnings, warnings());
        state.summary_line = Some(line.remember());
        state.is_final = true;
    } else if text.starts_with("warning: `") && text.contains("` (") {
        add_count(&mut state.counts.warnings, warnings());
    } else if text.trim_start().starts_with("Finished `")
        && text.contains("target(s) in ")
        && !state.is_final
    {
        state.summary_line = Some(line.remember());
    }
}

pub(super) fn read_cargo_test(state: &mut FormatState, line: OutputLine<'_>) {
    let text = line.text;
    if let Some(name) = text.strip_prefix("test ").and_then(|it| it.strip_suffix(" ... FAILED")) {
        state.add_failed(name);
    } else if let Some(rest) = text.strip_prefix("---- ") {
        state.add_failed(rest.strip_suffix(" stdout ----").unwrap_or_default());
    } else if text.starts_with("test result: ") || text.trim_start().starts_with("Summary [") {
        add_count(&mut state.counts.passed, number_before(text, &["passed"]));
        add_count(&mut state.counts.failed, number_before(text, &["failed"]).or(Some(0)));
        add_count(&mut state.counts.skipped, number_before(text, &["ignored", "skipped"]));
        state.summary_line = Some(line.remember());
    }
}

pub(super) fn read_panic(state: &mut FormatState, line: OutputLine<'_>) {
    if let Some(RememberedLine { offset, text: place }) = state.pending.take() {
        if line.text.is_empty() {
            state.summary_line =
                Some(RememberedLine { offset, text: format!("panicked at {place}") });
        } else {
            state.summary_line = Some(RememberedLine { offset, ..line.remember() });
            state.location = Some(place);
        }
    }
    let place = line.text.strip_prefix("thread '").and_then(|rest| rest.split_once("' "));
    if let Some((_, place)) = place.and_then(|(_, rest)| rest.split_once("panicked at ")) {
        add_count(&mut state.counts.errors, Some(1));
        if state.summary_line.is_none() {
            state.pending = Some(line.remember_as(place.trim_end_matches(':')));
            state.wants_next = true;
        }
    }
}

/// The words in a summary of pytest.
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

pub(super) fn read_pytest(state: &mut FormatState, line: OutputLine<'_>) {
    let name = line.text.strip_prefix("FAILED ").or(line.text.strip_prefix("ERROR "));
    if let Some(name) = name.filter(|name| name.contains(".py")) {
        return state.add_failed(name.split(" - ").next().unwrap_or(name));
    }
    let said = line.text.trim_matches('=');
    let Some((outcomes, time)) = said.trim().rsplit_once(" in ") else { return };
    let is_time = time.starts_with(|c: char| c.is_ascii_digit()) && time.contains('s');
    let is_outcome = |part: &str| {
        let (number, word) = part.split_once(' ').unwrap_or_default();
        number.parse::<u64>().is_ok() && PYTEST_OUTCOMES.contains(&word)
    };
    if is_time && (outcomes == "no tests ran" || outcomes.split(", ").all(is_outcome)) {
        state.read_test_counts(OutputLine { text: outcomes, ..line });
        state.counts.errors = number_before(outcomes, &["error", "errors"]);
        state.counts.warnings = number_before(outcomes, &["warning", "warnings"]);
        state.summary_line = Some(line.remember_as(said));
    }
}

pub(super) fn read_unittest(state: &mut FormatState, line: OutputLine<'_>) {
    let text = line.text;
    let ran = |begun: &RememberedLine| number_before(&begun.text, &["test", "tests"]);
    // FAIL: test_adds (test_sum.Sums.test_adds)
    let failed = text.strip_prefix("FAIL: ").or(text.strip_prefix("ERROR: "));
    let failed = failed.and_then(|rest| rest.split_once(" ("));
    if let Some((name, _)) =
        failed.filter(|(name, place)| place.ends_with(')') && !name.contains(' '))
    {
        state.add_failed(name);
    } else if text.starts_with("Ran ") && text.contains(" in ") {
        state.pending = Some(line.remember());
    } else if (text == "OK" || line.starts_with_any(&["OK (", "FAILED ("]))
        && let Some(ran) =
            state.pending.take_if(|begun| ran(begun).is_some()).as_ref().and_then(ran)
    {
        let count = |word| number_after(text, word).unwrap_or(0);
        let failed = count("failures");
        let errors = count("errors");
        let skipped = count("skipped");
        state.counts = ToolCounts {
            passed: Some(ran.saturating_sub(failed + errors + skipped)),
            failed: Some(failed),
            skipped: Some(skipped).filter(|skipped| *skipped > 0),
            errors: Some(errors).filter(|errors| *errors > 0),
            warnings: None,
        };
        state.summary_line = Some(line.remember());
    }
}

pub(super) fn read_jest(state: &mut FormatState, line: OutputLine<'_>) {
    if let Some(name) = line.text.strip_prefix("  ● ").filter(|name| *name != "Console") {
        state.add_failed(name);
    } else if line.text.starts_with("Tests: ") && line.text.ends_with(" total") {
        state.read_test_counts(line);
    }
}

pub(super) fn read_vitest(state: &mut FormatState, line: OutputLine<'_>) {
    let text = line.text.trim();
    if let Some(name) = text.strip_prefix("FAIL  ").filter(|name| name.contains(" > ")) {
        state.add_failed(name);
    } else if text.starts_with("Tests  ") && text.ends_with(')') {
        state.read_test_counts(line);
    }
}

pub(super) fn read_mocha(state: &mut FormatState, line: OutputLine<'_>) {
    let text = line.text.trim();
    let is_time = text.ends_with("s)") || text.ends_with("m)");
    if let Some(passed) = number_before(text, &["passing"]).filter(|_| is_time) {
        state.counts =
            ToolCounts { passed: Some(passed), failed: Some(0), ..ToolCounts::default() };
        state.summary_line = Some(line.remember());
    } else if state.summary_line.is_some() && text.ends_with(" failing") {
        state.counts.failed = number_before(text, &["failing"]);
    } else if state.summary_line.is_some() && text.ends_with(" pending") {
        state.counts.skipped = number_before(text, &["pending"]);
    }
}

/// Lines of an npm failure that are less informative than its message.
const NPM_DETAILS: [&str; 7] =
    ["code ", "errno ", "syscall ", "path ", "command ", "dest ", "A complete log "];

/// `pending` is the code of a failure; `is_final` once its message is known.
pub(super) fn read_npm(state: &mut FormatState, line: OutputLine<'_>) {
    let failure = line.text.strip_prefix("npm error ").or(line.text.strip_prefix("npm ERR! "));
    if let Some(said) = failure.map(str::trim) {
        if let Some(code) = said.strip_prefix("code ") {
            state.pending = Some(line.remember_as(code));
            state.summary_line.clone_from(&state.pending);
            state.is_final = false;
        } else if !state.is_final
            && !said.is_empty()
            && !NPM_DETAILS.iter().any(|detail| said.starts_with(detail))
        {
            let message = line.remember_as(said);
            state.summary_line = Some(match &state.pending {
                Some(RememberedLine { offset, text }) => {
                    RememberedLine { offset: *offset, text: format!("{text}: {}", message.text) }
                }
                None => message,
            });
            state.is_final = true;
        }
    } else if line.starts_with_any(&["added ", "changed ", "removed ", "up to date"])
        && line.text.contains("package")
        && state.pending.is_none()
        && !state.is_final
    {
        state.summary_line = Some(line.remember());
    }
}

/// `pending` is the last error; `is_final` once its innermost frame outside of node itself is
/// known.
pub(super) fn read_node(state: &mut FormatState, line: OutputLine<'_>) {
    // SyntaxError: …, Error [CODE]: …, Uncaught TypeError: …
    let error = line.text.strip_prefix("Uncaught ").unwrap_or(line.text);
    let error = error.split([':', ' ']).next().unwrap_or_default();
    if line.text.starts_with("Node.js v") {
        state.summary_line = state.pending.clone().or(state.summary_line.take());
    } else if error.ends_with("Error") && error.chars().all(char::is_alphanumeric) {
        state.pending = Some(line.remember());
        state.is_final = false;
    } else if let Some(begun) = state.pending.as_mut().filter(|_| !state.is_final)
        && let Some(frame) = node_frame(line.text)
    {
        begun.text = format!("{} ({frame})", begun.text);
        state.is_final = true;
    }
}

/// Returns `app.js:4:10` for `    at start (/src/app.js:4:10)`.
fn node_frame(text: &str) -> Option<&str> {
    let place = text.strip_prefix("    at ")?;
    let place = place.rsplit_once('(').map_or(place, |(_, place)| place.trim_end_matches(')'));
    let is_own = !place.starts_with("node:") && place.contains(':');
    is_own.then(|| place.rsplit('/').next().unwrap_or(place))
}

pub(super) fn read_tsc(state: &mut FormatState, line: OutputLine<'_>) {
    let code = line.text.split_once("error TS").and_then(|(_, code)| code.split_once(':'));
    if code.is_some_and(|(code, _)| code.parse::<u32>().is_ok()) {
        state.add_error(line);
    }
}

/// The summary is the last package that failed, else the last one; `is_final` once one has failed.
pub(super) fn read_go_test(state: &mut FormatState, line: OutputLine<'_>) {
    let text = line.text.trim_start();
    let test = text.strip_prefix("--- ").and_then(|test| test.split_once(": "));
    // Only outer tests count: they include all tests nested in them.
    let count = Some(u64::from(text.len() == line.text.len())).filter(|count| *count > 0);
    match test {
        Some(("PASS", _)) => add_count(&mut state.counts.passed, count),
        Some(("SKIP", _)) => add_count(&mut state.counts.skipped, count),
        Some(("FAIL", name)) => {
            state.add_failed(name.rsplit_once(" (").map_or(name, |(name, _)| name));
            add_count(&mut state.counts.failed, count);
        }
        Some(_) | None => {}
    }
    let word = line.text.split_once('\t').map(|(word, _)| word);
    let has_failed = word == Some("FAIL");
    let is_ok = word.is_some_and(|word| word.trim() == "ok");
    if has_failed || (is_ok && !state.is_final) {
        state.summary_line = Some(line.remember_as(&line.text.replace('\t', " ")));
        state.is_final |= has_failed;
    }
}

/// Reads messages of C and C++ compilers, javac and the linker. The summary is the first error,
/// else the first warning.
pub(super) fn read_compiler(state: &mut FormatState, line: OutputLine<'_>) {
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
    state.tool.get_or_insert(tool);
    if is_error && state.counts.errors.unwrap_or(0) == 0 {
        state.summary_line = None;
    }
    add_count(&mut state.counts.errors, Some(u64::from(is_error)));
    add_count(&mut state.counts.warnings, Some(1).filter(|_| !is_error));
    state.summary_line.get_or_insert_with(|| line.remember());
}

/// The compiler for the file in a location such as `file.ext:12` or `file.ext:12:5`.
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

pub(super) fn read_make(state: &mut FormatState, line: OutputLine<'_>) {
    let after_name = line.text.strip_prefix('g').unwrap_or(line.text).strip_prefix("make");
    let level = after_name.and_then(|rest| rest.split_once(": *** "));
    if level.is_some_and(|(level, _)| {
        level.is_empty() || (level.starts_with('[') && level.ends_with(']'))
    }) {
        state.add_error(line);
    }
}

/// The summary is the first target that failed, once the build has stopped.
pub(super) fn read_ninja(state: &mut FormatState, line: OutputLine<'_>) {
    let is_stop = line.text.starts_with("ninja: build stopped: ");
    let is_failure = state.pending.is_none() && line.text.starts_with("FAILED: ");
    if is_failure {
        state.pending = Some(line.remember());
    }
    if is_stop || (is_failure && state.summary_line.is_some()) {
        state.summary_line = Some(state.pending.clone().unwrap_or_else(|| line.remember()));
    }
}

/// `pending` is an exception whose frames are still to come.
pub(super) fn read_java(state: &mut FormatState, line: OutputLine<'_>) {
    if let Some(exception) = java_exception(line.text) {
        let is_cause = line.text.starts_with("Caused by: ");
        state.pending = Some(line.remember_as(if is_cause { line.text } else { exception }));
        return;
    }
    let frame = line.text.trim_start().strip_prefix("at ").and_then(|at| at.split_once('('));
    let Some((_, place)) = frame else { return };
    let Some(begun) = state.pending.take().filter(|_| place.contains(':')) else { return };
    if let Some(cause) = begun.text.strip_prefix("Caused by: ") {
        state.cause = Some(cause.to_owned());
        return;
    }
    add_count(&mut state.counts.errors, Some(1));
    if state.summary_line.is_none() {
        state.location = Some(place.trim_end_matches(')').to_owned());
        state.summary_line = Some(begun);
    }
}

/// The exception in a line: a class with a package, and optionally a message.
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

pub(super) fn read_jvm_build(state: &mut FormatState, line: OutputLine<'_>) {
    let text = line.text;
    if let Some(build) = text.strip_prefix("[INFO] BUILD ") {
        state.tool = Some("maven");
        state.summary_line = Some(line.remember_as(&format!("BUILD {build}")));
    } else if line.starts_with_any(&["BUILD SUCCESSFUL in ", "BUILD FAILED in "]) {
        state.tool = Some("gradle");
        state.summary_line = Some(line.remember());
    } else if let Some(run) = number_after(text, "run").filter(|_| text.contains("Tests run: ")) {
        let count = |word| number_after(text, word).unwrap_or(0);
        let failed = count("Failures");
        let errors = count("Errors");
        let skipped = count("Skipped");
        state.counts = ToolCounts {
            passed: Some(run.saturating_sub(failed + errors + skipped)),
            failed: Some(failed),
            skipped: Some(skipped),
            errors: Some(errors),
            warnings: None,
        };
    }
}

pub(super) fn read_dd(state: &mut FormatState, line: OutputLine<'_>) {
    if line.text.contains('+') && line.text.ends_with(" records out") {
        state.pending = Some(line.remember());
    } else if line.text.contains(" copied, ") && state.pending.take().is_some() {
        state.summary_line = Some(line.remember());
    }
}

/// The names that shells give to fatal signals.
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

pub(super) fn read_signal(state: &mut FormatState, line: OutputLine<'_>) {
    // A shell writes its location and the process before the signal: both, or neither.
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
        state.add_error(OutputLine { text: &words.join(" "), ..line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_before_or_after_their_words() {
        let text = "FAILED (failures=3, errors=1); 12 passed | 1 skipped (3)";
        assert_eq!(number_before(text, &["passed"]), Some(12));
        assert_eq!(number_before(text, &["skip", "skipped"]), Some(1));
        assert_eq!(number_after(text, "failures"), Some(3));
        assert_eq!(number_before(text, &["missing"]), None);
        assert_eq!(number_after(text, "FAILED"), None);
    }
}
