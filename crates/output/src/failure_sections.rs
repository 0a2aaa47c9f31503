//! Sections that are about a failure: tests that failed, in the output of test runners; stack traces of
//! Python, Java, JavaScript, .NET, Ruby, PHP, Go and Rust; and the reports of sanitizers.

use crate::sections::{HeadLine, SectionLine, shorten};

/// The lines that the name of a test may take.
const MAX_NAME_LINES: usize = 3;

/// The marks before the name of a failed test.
const CROSSES: [&str; 3] = ["✖ ", "✗ ", "✕ "];

/// The output about one test.
#[derive(Debug)]
pub(crate) struct FailedTest {
    name: HeadLine,
    extent: TestExtent,
}

/// The lines that belong to a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestExtent {
    /// pytest: up to the next heading.
    Pytest,
    /// unittest: up to the next heading, or the count of tests.
    Unittest,
    /// Lines that are indented by more than the name, and empty ones.
    Indented(usize),
    /// TAP: as `Indented`, and comments.
    Tap(usize),
    /// mocha: up to the next number with the same indent. The name continues on the next lines.
    Mocha { indent: usize, name_lines: usize },
    /// `go test -v`: from the start of the test to its end.
    Go,
    /// `cargo test`: up to the next name, or the list of failed tests.
    Cargo,
    /// cargo-nextest: indented lines, up to the next status.
    Nextest,
    /// vitest: up to the next rule.
    Vitest,
    /// googletest: from the start of the test to its end.
    Googletest,
    /// PHPUnit: up to the next number, or the totals.
    Phpunit,
    /// minitest: the name is the next line.
    Minitest { has_name: bool },
    /// Maven: up to the next message of Maven.
    Maven,
}

/// The list of failures that the log is in: a number such as `1)` begins a test only there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FailureList {
    #[default]
    No,
    /// mocha: the name of a test may have several lines.
    Mocha,
    /// rspec.
    Rspec,
    Phpunit,
}

impl FailureList {
    pub(crate) fn add_line(&mut self, line: &SectionLine<'_>) {
        let text = line.text.trim();
        if text == "Failures:" {
            *self = Self::Rspec;
        } else if text.starts_with("There w") && text.ends_with(':') {
            *self = Self::Phpunit;
        } else if text.strip_suffix(" failing").is_some_and(is_number) {
            *self = Self::Mocha;
        } else if ["Finished in ", "Failed examples:", "FAILURES!", "ERRORS!"]
            .iter()
            .any(|start| text.starts_with(start))
        {
            *self = Self::No;
        }
    }
}

impl FailedTest {
    pub(crate) fn begin(line: &SectionLine<'_>, list: &FailureList) -> Option<Self> {
        let (name, extent) = by_first_word(line)
            .or_else(|| by_number(line, *list))
            .or_else(|| by_last_word(line))?;
        let name = HeadLine { offset: line.offset, text: shorten(name) };
        (!name.text.is_empty() || extent == TestExtent::Minitest { has_name: false })
            .then_some(Self { name, extent })
    }

    /// Adds the next line. Returns `true` if it belongs to the section.
    pub(crate) fn add_line(&mut self, line: &SectionLine<'_>) -> bool {
        let text = &*line.text;
        let trimmed = text.trim_start();
        match &mut self.extent {
            TestExtent::Pytest => !is_pytest_heading(text) && pytest_name(text).is_none(),
            TestExtent::Unittest => !is_rule(text, '=') && !text.starts_with("Ran "),
            // A test may have tests inside.
            TestExtent::Indented(indent) => {
                line.is_blank() || line.indent() > *indent && by_first_word(line).is_none()
            }
            TestExtent::Tap(indent) => {
                let is_comment = trimmed.starts_with('#') && !trimmed.starts_with("# Subtest: ");
                line.is_blank()
                    || line.indent() > *indent && by_first_word(line).is_none()
                    || is_comment
            }
            TestExtent::Mocha { indent, name_lines } => {
                let is_next = numbered(trimmed).is_some() && line.indent() <= *indent;
                if line.is_blank() {
                    *name_lines = MAX_NAME_LINES;
                } else if *name_lines < MAX_NAME_LINES && !is_next {
                    let more = text.trim();
                    let is_last = more.ends_with(':');
                    *name_lines = if is_last { MAX_NAME_LINES } else { *name_lines + 1 };
                    let name = format!("{} {}", self.name.text, more.trim_end_matches(':'));
                    self.name.text = shorten(&name);
                }
                !is_next
            }
            TestExtent::Go => !["=== ", "--- ", "PASS", "FAIL", "ok  \t"]
                .iter()
                .any(|start| trimmed.starts_with(start)),
            TestExtent::Cargo => {
                !["---- ", "failures:", "test result: "].iter().any(|start| text.starts_with(start))
            }
            TestExtent::Nextest => {
                line.is_blank() || line.indent() > 0 && !is_nextest_status(trimmed)
            }
            TestExtent::Vitest => !text.starts_with('⎯') && !text.starts_with(" FAIL "),
            TestExtent::Googletest => !text.starts_with('['),
            TestExtent::Phpunit => {
                numbered(text).is_none()
                    && text != "--"
                    && !["FAILURES!", "ERRORS!", "Tests: "]
                        .iter()
                        .any(|start| text.starts_with(start))
            }
            TestExtent::Minitest { has_name } => {
                if !*has_name {
                    *has_name = true;
                    let name = text.split(" [").next().unwrap_or(text);
                    self.name.text = shorten(name.trim_end_matches(':'));
                }
                numbered(trimmed).is_none() && !text.contains(" runs, ")
            }
            TestExtent::Maven => !line.is_blank() && !text.starts_with('['),
        }
    }

    pub(crate) fn head(&self) -> HeadLine {
        let name = &self.name.text;
        let says_test = name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("test"));
        let text = if says_test { name.clone() } else { format!("test {name}") };
        HeadLine { offset: self.name.offset, text }
    }
}

/// The name of a test in a line that begins with a word or mark of a test runner.
fn by_first_word<'l>(line: &'l SectionLine<'_>) -> Option<(&'l str, TestExtent)> {
    let text = &*line.text;
    let trimmed = text.trim_start();
    let indented = TestExtent::Indented(line.indent());
    if let Some(name) = pytest_name(text) {
        return Some((name, TestExtent::Pytest));
    }
    if let Some(rest) = trimmed.strip_prefix("--- FAIL: ") {
        return Some((rest.split(" (").next().unwrap_or(rest), indented));
    }
    if let Some(rest) = trimmed.strip_prefix("not ok ") {
        return Some((tap_name(rest), TestExtent::Tap(line.indent())));
    }
    if let Some(name) = trimmed.strip_prefix("● ").filter(|name| *name != "Console") {
        return Some((name, indented));
    }
    if let Some(rest) = CROSSES.iter().find_map(|cross| trimmed.strip_prefix(cross)) {
        // A linter ends with such a line, too.
        let is_name = !rest.contains(" problem") && rest != "failing tests:";
        return is_name.then(|| (without_time(rest), indented));
    }
    if let Some(rest) = trimmed.strip_prefix("FAIL [") {
        return nextest_name(rest).map(|name| (name, TestExtent::Nextest));
    }
    if let Some(rest) = text.strip_prefix("=== ") {
        let name = ["RUN ", "CONT ", "NAME "].iter().find_map(|word| rest.strip_prefix(word))?;
        return Some((name.trim(), TestExtent::Go));
    }
    if let Some(rest) = text.strip_prefix("---- ") {
        let name = rest.strip_suffix(" ----")?;
        let name = name.strip_suffix(" stdout").or_else(|| name.strip_suffix(" stderr"))?;
        return Some((name, TestExtent::Cargo));
    }
    if let Some(name) = text.strip_prefix("[ RUN      ] ") {
        return Some((name, TestExtent::Googletest));
    }
    if let Some(name) = text.strip_prefix("FAIL: ").or_else(|| text.strip_prefix("ERROR: ")) {
        let is_below_rule = line.previous().is_some_and(|rule| is_rule(&rule.text, '='));
        return is_below_rule.then_some((name, TestExtent::Unittest));
    }
    let name = text.strip_prefix(" FAIL ").map(str::trim)?;
    name.contains(" > ").then_some((name, TestExtent::Vitest))
}

/// The name of a test in a numbered line.
fn by_number<'l>(line: &'l SectionLine<'_>, list: FailureList) -> Option<(&'l str, TestExtent)> {
    let name = numbered(line.text.trim_start())?;
    if name == "Failure:" || name == "Error:" {
        return Some(("", TestExtent::Minitest { has_name: false }));
    }
    let indent = line.indent();
    match list {
        FailureList::Rspec => Some((name, TestExtent::Indented(indent))),
        FailureList::Mocha => Some((name, TestExtent::Mocha { indent, name_lines: 1 })),
        FailureList::Phpunit => Some((name, TestExtent::Phpunit)),
        // Playwright has no heading above its failures.
        FailureList::No if name.contains(" › ") => {
            Some((name.trim_end_matches([' ', '─']), TestExtent::Indented(indent)))
        }
        FailureList::No => None,
    }
}

/// The name of a test in a line that ends with the words of Maven or Gradle.
fn by_last_word<'l>(line: &'l SectionLine<'_>) -> Option<(&'l str, TestExtent)> {
    let text = line.text.trim_end();
    if let Some(name) =
        text.strip_suffix("<<< FAILURE!").or_else(|| text.strip_suffix("<<< ERROR!"))
    {
        let name = name.split("Time elapsed").next().unwrap_or(name).trim_end_matches([' ', '-']);
        let name = name.strip_prefix("[ERROR] ").unwrap_or(name);
        return (!name.starts_with("Tests run")).then_some((name, TestExtent::Maven));
    }
    let name = text.strip_suffix(" FAILED")?;
    name.contains(" > ").then(|| (name.trim_start(), TestExtent::Indented(line.indent())))
}

/// The name in `____ test_name ____`.
fn pytest_name(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('_')?.strip_suffix('_')?.trim_matches('_');
    let name = inner.strip_prefix(' ')?.strip_suffix(' ')?;
    let name = name.strip_prefix("ERROR at ").unwrap_or(name);
    name.contains(|c| c != '_' && c != ' ').then_some(name)
}

/// `true` for `==== FAILURES ====`.
fn is_pytest_heading(text: &str) -> bool {
    let inner = text.trim_matches('=');
    text.len() - inner.len() >= 6 && inner.starts_with(' ') && inner.ends_with(' ')
}

/// `true` for a line of at least 40 equal characters.
fn is_rule(text: &str, character: char) -> bool {
    text.len() >= 40 && text.chars().all(|c| c == character)
}

/// The name in `5 - name # time=1ms`.
fn tap_name(text: &str) -> &str {
    let text = text.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let text = text.strip_prefix("- ").unwrap_or(text);
    text.split(" # ").next().unwrap_or(text)
}

/// A name without the ` (1.2ms)` after it.
fn without_time(text: &str) -> &str {
    let (name, time) = text.rsplit_once(" (").unwrap_or((text, ""));
    if time.ends_with("s)") { name } else { text }
}

/// The name in `   0.005s] ( 1/12) package tests::name`.
fn nextest_name(text: &str) -> Option<&str> {
    let (_, name) = text.split_once("] ")?;
    let name = name.trim_start();
    Some(match name.strip_prefix('(') {
        Some(count) => count.split_once(") ").map_or(name, |(_, name)| name),
        None => name,
    })
}

/// `true` for `PASS [   0.005s] …` and the like.
fn is_nextest_status(text: &str) -> bool {
    let word = text.split(" [").next().unwrap_or(text);
    word.len() < text.len() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b' ')
        || text.starts_with("Summary [")
        || text.starts_with("Cancelling")
        || text.starts_with("Canceling")
}

/// The text after `12) `.
fn numbered(text: &str) -> Option<&str> {
    let (number, name) = text.split_once(") ")?;
    is_number(number).then(|| name.trim())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The first line of a Python traceback ends with this.
const TRACEBACK: &str = "Traceback (most recent call last):";
/// The lines before the first frame among which the head is searched.
const MAX_MESSAGE_LINES: usize = 20;

#[derive(Debug)]
pub(crate) struct Trace {
    head: HeadLine,
    form: TraceForm,
}

#[derive(Debug)]
enum TraceForm {
    /// Python: the exception comes after the frames.
    Traceback(Traceback),
    /// Frames that begin with `at` or `from`, below the exception.
    Frames,
    /// Frames that begin with `#0`, below the line `Stack trace:`.
    NumberedFrames,
    Go,
    /// Rust: the message is the first line after the head.
    Panic {
        has_message: bool,
    },
    Sanitizer {
        is_over: bool,
    },
}

#[derive(Debug)]
struct Traceback {
    indent: usize,
    /// The newest line that names a file.
    frame: Option<HeadLine>,
    /// The exception, once it is known.
    exception: Option<HeadLine>,
    /// `true` if the exception was added as a line.
    is_over: bool,
}

impl Trace {
    pub(crate) fn begin(line: &SectionLine<'_>) -> Option<Self> {
        let text = &*line.text;
        let trimmed = text.trim_start();
        let trace = |form| Some(Self { head: line.to_head(), form });
        if text.trim_end().ends_with(TRACEBACK) {
            let indent = margin(text);
            let traceback = Traceback { indent, frame: None, exception: None, is_over: false };
            return trace(TraceForm::Traceback(traceback));
        }
        if is_frame(line) {
            return Some(Self { head: find_exception(line)?, form: TraceForm::Frames });
        }
        if trimmed.starts_with("#0 ") {
            let mark = line.previous().filter(|mark| mark.text.trim() == "Stack trace:")?;
            let head = mark.previous().filter(|head| !head.is_blank())?.to_head();
            return Some(Self { head, form: TraceForm::NumberedFrames });
        }
        if text.starts_with("panic: ") || text.starts_with("fatal error: ") || is_goroutine(text) {
            return trace(TraceForm::Go);
        }
        if text.starts_with("thread '") && text.contains("panicked at") {
            return trace(TraceForm::Panic { has_message: false });
        }
        if text.starts_with("==") && text.contains("==ERROR: ") {
            return trace(TraceForm::Sanitizer { is_over: false });
        }
        None
    }

    /// Adds the next line. Returns `true` if it belongs to the section.
    pub(crate) fn add_line(&mut self, line: &SectionLine<'_>) -> bool {
        let text = &*line.text;
        match &mut self.form {
            TraceForm::Traceback(traceback) => traceback.add_line(line),
            TraceForm::Frames => {
                line.indent() > 0 && !line.is_blank()
                    || text.starts_with("Caused by: ")
                    || text.starts_with("Suppressed: ")
            }
            TraceForm::NumberedFrames => {
                text.trim_start().starts_with('#') || text.trim_start().starts_with("thrown in ")
            }
            TraceForm::Go => {
                line.is_blank()
                    || line.indent() > 0
                    || is_goroutine(text)
                    || text.ends_with(')')
                    || ["created by ", "[signal ", "runtime stack:"]
                        .iter()
                        .any(|start| text.starts_with(start))
            }
            TraceForm::Panic { has_message } => {
                if *has_message {
                    line.indent() > 0 && !line.is_blank()
                        || text.starts_with("stack backtrace:")
                        || text.starts_with("note: ")
                } else {
                    *has_message = true;
                    self.head.text = shorten(&format!("{} {}", self.head.text, text.trim()));
                    !line.is_blank()
                }
            }
            TraceForm::Sanitizer { is_over } => {
                let is_inside = !*is_over;
                *is_over = text.starts_with("SUMMARY: ");
                is_inside
            }
        }
    }

    /// The head, for the line at `offset`.
    pub(crate) fn head(&self, offset: u64) -> HeadLine {
        match &self.form {
            TraceForm::Traceback(traceback) => traceback.head(&self.head, offset),
            TraceForm::Frames
            | TraceForm::NumberedFrames
            | TraceForm::Go
            | TraceForm::Panic { .. }
            | TraceForm::Sanitizer { .. } => self.head.clone(),
        }
    }

    /// `true` if the line that says what the trace is about is still to come.
    pub(crate) const fn is_unexplained(&self) -> bool {
        match &self.form {
            TraceForm::Traceback(traceback) => traceback.exception.is_none(),
            TraceForm::Frames
            | TraceForm::NumberedFrames
            | TraceForm::Go
            | TraceForm::Panic { .. }
            | TraceForm::Sanitizer { .. } => false,
        }
    }

    /// Takes the exception from the lines that follow the newest line. They are added later.
    pub(crate) fn explain<'l>(&mut self, mut following: impl Iterator<Item = (u64, &'l str)>) {
        if let TraceForm::Traceback(traceback) = &mut self.form {
            let exception = following.find(|(_, text)| traceback.is_exception(text));
            traceback.exception = exception.map(|(offset, text)| read_exception(offset, text));
        }
    }
}

impl Traceback {
    fn add_line(&mut self, line: &SectionLine<'_>) -> bool {
        if self.is_over {
            return false;
        }
        if self.is_exception(&line.text) {
            self.exception = Some(read_exception(line.offset, &line.text));
            self.is_over = true;
        } else if without_margin(&line.text).starts_with("File \"") {
            self.frame = Some(HeadLine::new(line.offset, without_margin(&line.text)));
        }
        true
    }

    fn is_exception(&self, text: &str) -> bool {
        !without_margin(text).is_empty() && margin(text) <= self.indent
    }

    /// The exception; for the exception itself, the innermost frame.
    fn head(&self, first: &HeadLine, offset: u64) -> HeadLine {
        match (&self.exception, &self.frame) {
            (Some(exception), Some(frame)) if exception.offset == offset => frame.clone(),
            (Some(exception), _) if exception.offset != offset => HeadLine {
                offset: first.offset,
                text: shorten(&format!("Traceback: {}", exception.text)),
            },
            (Some(_) | None, _) => first.clone(),
        }
    }
}

fn read_exception(offset: u64, text: &str) -> HeadLine {
    HeadLine::new(offset, without_margin(text))
}

/// The width of the margin of a traceback: blanks, and the bars of exception groups.
fn margin(text: &str) -> usize {
    text.len() - without_margin(text).len()
}

fn without_margin(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '|', '+'])
}

/// `true` for a frame of Java, JavaScript, .NET or Ruby.
fn is_frame(line: &SectionLine<'_>) -> bool {
    let text = line.text.trim_start();
    let is_at = text.strip_prefix("at ").is_some_and(|place| place.contains(['(', ':']));
    let is_from = text.starts_with("from ") && text.contains(":in ");
    line.indent() > 0 && (is_at || is_from)
}

/// The exception above the first frame: the line above, or a line further up that has the form of an
/// exception, because a message may have several lines.
fn find_exception(frame: &SectionLine<'_>) -> Option<HeadLine> {
    let above = frame.previous().filter(|line| !line.is_blank() && !is_frame(line));
    if let Some(line) = &above
        && ["rror", "xception", "EXCEPTION"].iter().any(|word| line.text.contains(word))
    {
        return Some(line.to_head());
    }
    let mut before = frame.lines_before().take(MAX_MESSAGE_LINES);
    let named = before.find(|line| names_exception(&line.text));
    named.or(above).map(|line| line.to_head())
}

/// `true` if a word before the first colon, or the whole line, ends as the names of exceptions do.
fn names_exception(text: &str) -> bool {
    let name = text.split(": ").next().unwrap_or(text);
    let words = || name.split([' ', '(', '[']).take(6);
    let is_name = |word: &str| {
        let word = word.trim_end_matches([':', ')', ']']);
        ["Error", "Exception", "Throwable"].iter().any(|end| word.ends_with(end))
    };
    !text.starts_with([' ', '\t']) && words().any(is_name)
}

fn is_goroutine(text: &str) -> bool {
    text.starts_with("goroutine ") && text.trim_end().ends_with("]:")
}
