//! Tests that failed, in the output of test runners.

use super::section_line::{HeadLine, Membership, SectionLine, shorten};

/// The lines that the name of a test may take.
const MAX_NAME_LINES: usize = 3;

/// The marks before the name of a failed test.
const CROSSES: [&str; 3] = ["✖ ", "✗ ", "✕ "];

/// The output about one test.
#[derive(Debug)]
pub(super) struct FailedTest {
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
pub(super) enum FailureList {
    #[default]
    No,
    /// mocha: the name of a test may have several lines.
    Mocha,
    /// rspec.
    Rspec,
    Phpunit,
}

impl FailureList {
    pub(super) fn add_line(&mut self, line: &SectionLine<'_>) {
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
    pub(super) fn begin(line: &SectionLine<'_>, list: &FailureList) -> Option<Self> {
        let (name, extent) = by_first_word(line)
            .or_else(|| by_number(line, *list))
            .or_else(|| by_last_word(line))?;
        let name = HeadLine { offset: line.offset, text: shorten(name) };
        (!name.text.is_empty() || extent == TestExtent::Minitest { has_name: false })
            .then_some(Self { name, extent })
    }

    pub(super) fn add_line(&mut self, line: &SectionLine<'_>) -> Membership {
        let text = &*line.text;
        let trimmed = text.trim_start();
        Membership::inside_if(match &mut self.extent {
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
        })
    }

    pub(super) fn head(&self) -> HeadLine {
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
