//! The facts that a summary reports, and their text: one line per fact, the decisive ones first.

use std::collections::HashMap;

/// The facts of an output, or of its beginning while the program still runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// The tools that were recognised, in the order of the log. A tool that ran several times has
    /// one entry with the counts of all runs.
    pub tools: Vec<ToolReport>,
    /// Stack traces outside the failures of tools.
    pub traces: Vec<Failure>,
    /// Error lines, by their form, outside the failures of tools.
    pub errors: FoundLines,
    /// Warning lines, by their form, outside the reports of tools.
    pub warnings: FoundLines,
    /// Groups of similar lines, and the lines that are unlike all others.
    pub groups: LineGroups,
    /// The number of lines that were read.
    pub lines: u64,
    /// The number of the last line that belongs to the report of a tool, or to a trace; 0 if there
    /// is none.
    pub explained_to: u64,
}

/// The report of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolReport {
    /// The name of the tool, as a reader calls it: `pytest`, `cargo test`, `tsc`.
    pub tool: &'static str,
    /// The number of the last line that belongs to the report, counted from 1.
    pub line: u64,
    /// The counts that the tool itself printed. Of a test runner that prints none, `failed` is the
    /// number of failures that were read.
    pub counts: Counts,
    /// The closing words of a tool that prints no counts: `BUILD FAILURE`.
    pub result: Option<String>,
    /// The failures, at most [`MAX_FAILURES`], in the order of the log.
    pub failures: Vec<Failure>,
    /// The number of failures that were read; more than `failures` holds if there are very many.
    pub failure_count: u64,
    /// The warnings, at most [`MAX_FAILURES`].
    pub warnings: Vec<Failure>,
    /// The number of warnings that were read.
    pub warning_count: u64,
    /// `true` if the number of failures that were read is the number that the tool printed, or if
    /// the tool printed none.
    pub is_consistent: bool,
}

impl ToolReport {
    /// `true` if something failed by the tool's own account.
    #[must_use]
    pub fn has_failures(&self) -> bool {
        self.failure_count > 0
            || self.counts.failed.is_some_and(|failed| failed > 0)
            || self.counts.errors.is_some_and(|errors| errors > 0)
    }
}

/// The most failures of one tool that are kept.
pub const MAX_FAILURES: usize = 200;

/// The counts that a tool printed; `None` if it does not count them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub passed: Option<u64>,
    /// Tests that failed, errors in tests included.
    pub failed: Option<u64>,
    /// Tests that were skipped.
    pub skipped: Option<u64>,
    /// Errors of a compiler or a linter.
    pub errors: Option<u64>,
    /// Warnings of a compiler or a linter.
    pub warnings: Option<u64>,
}

/// A failed test, an error of a compiler, a failed step, or a stack trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// The file, as the tool wrote it.
    pub file: Option<String>,
    /// The line in the file.
    pub line: Option<u64>,
    /// The column in that line.
    pub column: Option<u64>,
    /// The name of the test, the target or the step.
    pub name: Option<String>,
    /// The message, on one line.
    pub message: Option<String>,
    /// The first frames of a stack trace, and those of each cause.
    pub frames: Vec<String>,
    /// The number of the line in the log at which the failure begins, counted from 1.
    pub log_line: u64,
}

/// Lines of one severity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundLines {
    /// The number of lines.
    pub count: u64,
    /// Groups of lines that differ only in numbers, in the order of their first lines. Beyond a
    /// bound, further groups are only counted in `count`.
    pub kinds: Vec<LineGroup>,
}

/// A line of a log with its number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NumberedLine {
    /// The number in the log, counted from 1.
    pub number: u64,
    /// The text as a screen shows it.
    pub text: String,
}

/// The structure of an output that no format explains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineGroups {
    /// Groups of lines that differ only in numbers, times, hexadecimal values, paths or ids; the
    /// largest first.
    pub groups: Vec<LineGroup>,
    /// Lines that are unlike the others, in the order of the log.
    pub rare: Vec<NumberedLine>,
}

/// Lines that differ only in their variable parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineGroup {
    /// The number of lines.
    pub count: u64,
    /// The first line.
    pub first: NumberedLine,
    /// The last line.
    pub last: NumberedLine,
}

/// Places that are listed for one kind of warning.
const WARNING_PLACES: usize = 8;
/// Error lines that are listed of one log.
const ERROR_LINES: usize = 20;

/// The text form of a summary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SummaryText {
    /// Lines, the decisive ones first.
    pub lines: Vec<String>,
    /// `true` if facts are missing for lack of room.
    pub is_cut: bool,
}

impl Summary {
    /// `true` if the tools and traces that were recognised tell the outcome, and the reports agree
    /// with the tools' own counts.
    #[must_use]
    pub fn explains_outcome(&self) -> bool {
        let has_result = self.tools.iter().any(|tool| {
            tool.failure_count > 0 || tool.counts != Counts::default() || tool.result.is_some()
        });
        (has_result || !self.traces.is_empty()) && self.tools.iter().all(|tool| tool.is_consistent)
    }

    /// `true` if something failed by the account of a tool, a trace or an error line.
    #[must_use]
    pub fn has_failures(&self) -> bool {
        self.tools.iter().any(ToolReport::has_failures)
            || !self.traces.is_empty()
            || self.errors.count > 0
    }

    /// The first line of each tool's report.
    #[must_use]
    pub fn headlines(&self) -> Vec<String> {
        self.tools.iter().filter(|tool| tool.is_consistent).map(headline).collect()
    }

    /// Renders the facts in at most `max_bytes`.
    #[must_use]
    pub fn text(&self, max_bytes: usize) -> SummaryText {
        let is_unknown = self.tools.is_empty() && self.traces.is_empty();
        let mut page = self.render(self.tools.iter().collect(), max_bytes, is_unknown);
        if page.lines.is_empty() && self.tools.is_empty() {
            page.push_groups(self);
        }
        SummaryText { lines: page.lines, is_cut: page.is_cut }
    }

    /// Renders the facts in at most `max_bytes`, for a program that failed although no tool, trace
    /// or error line says so: one of the lines that are unlike all others may tell the cause.
    #[must_use]
    pub fn clues(&self, max_bytes: usize) -> SummaryText {
        let page = self.render(self.tools.iter().collect(), max_bytes, true);
        SummaryText { lines: page.lines, is_cut: page.is_cut }
    }

    /// Renders what has failed so far, in at most `max_bytes`, for a program that still runs.
    #[must_use]
    pub fn problems(&self, max_bytes: usize) -> SummaryText {
        let failed = |tool: &&ToolReport| tool.failure_count > 0;
        let is_unknown = self.tools.is_empty() && self.traces.is_empty();
        let page = self.render(self.tools.iter().filter(failed).collect(), max_bytes, is_unknown);
        SummaryText { lines: page.lines, is_cut: page.is_cut }
    }

    fn render(&self, tools: Vec<&ToolReport>, max_bytes: usize, shows_rare: bool) -> Page {
        let mut page = Page { lines: Vec::new(), left: max_bytes, is_cut: false };
        // Of a report that contradicts itself, nothing is known for certain.
        let tools: Vec<&ToolReport> = tools.into_iter().filter(|tool| tool.is_consistent).collect();
        for tool in &tools {
            page.push(headline(tool));
        }
        page.push_all_failures(&tools);
        for trace in &self.traces {
            page.push(failure_line(trace));
            for frame in &trace.frames {
                page.push(format!("  {frame}"));
            }
        }
        page.push_found(&self.errors);
        if shows_rare {
            page.push_rare(self);
        }
        if self.has_failures() {
            page.push_warnings(&tools);
        } else {
            page.push_each_warning(&tools, &self.warnings);
        }
        page
    }
}

/// Lines within a budget.
#[derive(Debug)]
struct Page {
    lines: Vec<String>,
    left: usize,
    is_cut: bool,
}

impl Page {
    /// Adds a line if there is room. Returns `false` if there is none.
    fn push(&mut self, line: String) -> bool {
        let fits = !self.is_cut && line.len() < self.left;
        if fits {
            self.left -= line.len() + 1;
            self.lines.push(line);
        } else {
            self.is_cut = true;
        }
        fits
    }

    /// Adds the failures of all tools, those of tests first. Each tool has its share of the room.
    fn push_all_failures(&mut self, tools: &[&ToolReport]) {
        let mut failed: Vec<&ToolReport> =
            tools.iter().copied().filter(|tool| tool.failure_count > 0).collect();
        failed.sort_by_key(|tool| tool.counts.failed.is_none());
        let mut is_cut = self.is_cut;
        for (index, tool) in failed.iter().enumerate() {
            let kept = self.left - self.left / (failed.len() - index);
            self.left -= kept;
            self.is_cut = false;
            self.push_failures(tool);
            self.left += kept;
            is_cut |= self.is_cut;
        }
        self.is_cut = is_cut;
    }

    fn push_failures(&mut self, tool: &ToolReport) {
        // Room for the line that counts the missing ones.
        let reserve = 40.min(self.left);
        self.left -= reserve;
        let mut shown = 0;
        for alike in group_failures(&tool.failures) {
            if !self.push(failures_line(&alike)) {
                break;
            }
            shown += alike.len() as u64;
            for frame in alike.iter().flat_map(|failure| &failure.frames) {
                self.push(format!("  {frame}"));
            }
        }
        self.left += reserve;
        if shown < tool.failure_count {
            self.is_cut = false;
            self.push(format!("[{} more failures]", tool.failure_count - shown));
            self.is_cut = true;
        }
    }

    fn push_found(&mut self, errors: &FoundLines) {
        for group in errors.kinds.iter().take(ERROR_LINES) {
            self.push(group_line(group));
        }
        let listed: u64 = errors.kinds.iter().take(ERROR_LINES).map(|group| group.count).sum();
        if errors.count > listed {
            self.push(format!("[{} more error lines]", errors.count - listed));
        }
    }

    /// Adds the lines that are unlike all others, and the groups beside which they are.
    fn push_rare(&mut self, summary: &Summary) {
        let LineGroups { groups, rare } = &summary.groups;
        let kinds = summary.errors.kinds.iter().chain(&summary.warnings.kinds);
        let known: Vec<u64> =
            kinds.flat_map(|group| [group.first.number, group.last.number]).collect();
        let unknown: Vec<&NumberedLine> =
            rare.iter().filter(|line| !known.contains(&line.number)).collect();
        if summary.errors.count == 0 && !unknown.is_empty() {
            self.push_largest(groups, 1);
        }
        for line in unknown {
            self.push(format!("{}: {}", line.number, clip(&line.text)));
        }
    }

    /// Adds the groups of an output that consists of few of them.
    fn push_groups(&mut self, summary: &Summary) {
        let groups = &summary.groups.groups;
        let shown = groups.iter().take(SHOWN_GROUPS);
        let covered: u64 = shown.filter(|group| group.count > 1).map(|group| group.count).sum();
        let is_long = summary.lines >= MIN_GROUPED_LINES;
        if is_long && covered * 100 >= summary.lines * COVERED_PERCENT {
            self.push_largest(groups, SHOWN_GROUPS);
        }
    }

    fn push_largest(&mut self, groups: &[LineGroup], most: usize) {
        let mut shown: Vec<&LineGroup> =
            groups.iter().filter(|group| group.count > 1).take(most).collect();
        shown.sort_by_key(|group| group.first.number);
        for group in shown {
            self.push(group_line(group));
        }
    }

    /// Adds the warnings of all tools in one line.
    fn push_warnings(&mut self, tools: &[&ToolReport]) {
        let texts = warning_texts(tools);
        if texts.is_empty() {
            return;
        }
        let mut line = format!("warnings: {}", texts.join("; "));
        if line.len() > MAX_WARNINGS_BYTES {
            line.truncate(line.floor_char_boundary(MAX_WARNINGS_BYTES));
            line.push('…');
        }
        self.push(line);
    }

    /// Adds a line for each kind of warning, of an output without failures.
    fn push_each_warning(&mut self, tools: &[&ToolReport], found: &FoundLines) {
        for text in warning_texts(tools).into_iter().take(SHOWN_WARNINGS) {
            self.push(format!("warning: {text}"));
        }
        for group in found.kinds.iter().take(SHOWN_WARNINGS) {
            self.push(group_line(group));
        }
    }
}

/// The warnings of tools, one text for each kind.
fn warning_texts(tools: &[&ToolReport]) -> Vec<String> {
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    for tool in tools.iter().filter(|tool| is_counted(tool)) {
        for warning in &tool.warnings {
            let message = warning.message.clone().unwrap_or_default();
            let place = place(warning).unwrap_or_default();
            match kinds.iter_mut().find(|(known, _)| *known == message) {
                Some((_, places)) => places.push(place),
                None => kinds.push((message, vec![place])),
            }
        }
    }
    kinds.into_iter().map(warning_text).collect()
}

/// Groups that are listed of an output without other facts.
const SHOWN_GROUPS: usize = 4;
/// The share of the lines that these groups must have.
const COVERED_PERCENT: u64 = 60;
/// The fewest lines that are told by groups: of a shorter list, its head and tail say more.
const MIN_GROUPED_LINES: u64 = 300;
/// Kinds of warnings that are listed of an output without failures.
const SHOWN_WARNINGS: usize = 8;
/// The longest text of one line of the log, in characters.
const LINE_CHARS: usize = 240;

/// A line of a group, and the number of lines like it.
fn group_line(group: &LineGroup) -> String {
    format!("{}: {}{}", group.first.number, clip(&group.first.text), more_of(group))
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(LINE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Failures with the same message that are told in one line, if there are at least this many.
const MIN_ALIKE: usize = 4;

/// Groups the failures that have no name and differ only in their places.
fn group_failures(failures: &[Failure]) -> Vec<Vec<&Failure>> {
    let mut by_message: HashMap<&str, Vec<&Failure>> = HashMap::new();
    for failure in failures {
        if let Some(message) = common_message(failure) {
            by_message.entry(message).or_default().push(failure);
        }
    }
    let mut groups = Vec::new();
    for failure in failures {
        let alike = common_message(failure).and_then(|message| by_message.get(message));
        match alike.filter(|alike| alike.len() >= MIN_ALIKE) {
            Some(alike) if alike.first().is_some_and(|first| std::ptr::eq(*first, failure)) => {
                groups.push(alike.clone());
            }
            Some(_) => {}
            None => groups.push(vec![failure]),
        }
    }
    groups
}

/// The message of a failure that says nothing but its place and its message.
fn common_message(failure: &Failure) -> Option<&str> {
    let is_plain = failure.name.is_none() && failure.frames.is_empty() && failure.file.is_some();
    failure.message.as_deref().filter(|_| is_plain)
}

/// One failure, or several with the same message: `3 × no such type: a.ts:1:2, b.ts:3:4, c.ts:5:6`.
fn failures_line(alike: &[&Failure]) -> String {
    match alike {
        [failure] => failure_line(failure),
        _ => {
            let places: Vec<String> = alike.iter().filter_map(|failure| place(failure)).collect();
            let message = alike.first().and_then(|failure| failure.message.as_deref());
            format!("{} × {}: {}", alike.len(), message.unwrap_or_default(), places.join(", "))
        }
    }
}

/// The longest line of warnings, in bytes.
const MAX_WARNINGS_BYTES: usize = 400;

fn warning_text((message, places): (String, Vec<String>)) -> String {
    let more = places.len().saturating_sub(WARNING_PLACES);
    let shown = places.iter().take(WARNING_PLACES).filter(|place| !place.is_empty());
    let shown: Vec<&str> = shown.map(String::as_str).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{message} {}{more}", shown.join(", ")).trim_end().to_owned()
}

/// `true` if the warnings that were read are all that the tool counted.
fn is_counted(tool: &ToolReport) -> bool {
    tool.counts.warnings.is_none_or(|warnings| warnings == tool.warning_count)
}

fn more_of(group: &LineGroup) -> String {
    match group.count {
        0 | 1 => String::new(),
        2 => format!(" [1 more like it: {}]", group.last.number),
        count => format!(" [{} more like it, to {}]", count - 1, group.last.number),
    }
}

/// The first line of a report: `pytest: 7 failed, 293 passed`.
fn headline(tool: &ToolReport) -> String {
    let counts = count_texts(tool);
    match (&tool.result, counts.is_empty()) {
        (None, true) => tool.tool.to_owned(),
        (None, false) => format!("{}: {}", tool.tool, counts.join(", ")),
        (Some(result), true) => format!("{}: {result}", tool.tool),
        (Some(result), false) => format!("{}: {}; {result}", tool.tool, counts.join(", ")),
    }
}

fn count_texts(tool: &ToolReport) -> Vec<String> {
    let Counts { passed, failed, skipped, errors, warnings } = tool.counts;
    let is_diagnosis = failed.is_none() && passed.is_none();
    let errors = errors.or((is_diagnosis && tool.failure_count > 0).then_some(tool.failure_count));
    let warnings = warnings.or((tool.warning_count > 0).then_some(tool.warning_count));
    let words = [
        (failed.filter(|count| *count > 0), "failed", "failed"),
        (errors, "error", "errors"),
        (passed, "passed", "passed"),
        (skipped.filter(|count| *count > 0), "skipped", "skipped"),
        (warnings.filter(|count| *count > 0), "warning", "warnings"),
    ];
    let is_counted = tool.counts.failed.is_some() || tool.counts.passed.is_some();
    let others = tool.failure_count.saturating_sub(tool.counts.failed.unwrap_or(0));
    let others = (is_counted && tool.is_consistent && others > 0).then_some(others);
    let words = words.into_iter().chain([(others, "other failure", "other failures")]);
    let texts = words.filter_map(|(count, one, many)| {
        let count = count?;
        Some(format!("{count} {}", if count == 1 { one } else { many }))
    });
    texts.collect()
}

/// The place of a failure: `src/main.rs:11:22`.
fn place(failure: &Failure) -> Option<String> {
    let mut text = failure.file.clone()?;
    for number in [failure.line, failure.line.and(failure.column)].into_iter().flatten() {
        text = format!("{text}:{number}");
    }
    Some(text)
}

/// A failure on one line: `tests/test_billing.py:41 test_total: assert 15 == 99`.
fn failure_line(failure: &Failure) -> String {
    let mut line = place(failure).unwrap_or_default();
    if let Some(name) = &failure.name.as_ref().filter(|name| Some(*name) != failure.file.as_ref()) {
        line = format!("{line} {name}");
        if failure.message.is_some() {
            line.push(':');
        }
    }
    if let Some(message) = &failure.message {
        line = format!("{line} {message}");
    }
    line.trim_start().to_owned()
}
