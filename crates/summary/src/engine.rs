//! Reads lines, and applies the rules of all formats to them.

use regex::Captures;

use crate::failures::{FailureList, Run};
use crate::formats::FORMATS;
use crate::rules::{BlockEnd, Effect, Format, FormatKind, FrameOrder, RuleRef, RuleSet};
use crate::severity::{LineSeverity, SeverityLines, find_severity};
use crate::summary::{Failure, Summary, ToolReport};

/// The longest name, message or frame, in characters.
const TEXT_CHARS: usize = 300;
/// Frames that are kept of a trace, and of each cause.
const FRAMES: usize = 3;
/// The most frames and causes of one trace.
const MAX_FRAMES: usize = 24;
/// A failure that no rule ended is over after this many lines.
const MAX_BLOCK_LINES: u64 = 400;

/// Reads the output of a program line by line, in bounded memory.
#[derive(Debug, Default)]
pub struct Summarizer {
    formats: Vec<FormatState>,
    /// Error and warning lines that no tool claims.
    free: SeverityLines,
    /// All error and warning lines.
    all: SeverityLines,
    lines: u64,
}

impl Summarizer {
    /// Creates a summarizer that has read nothing.
    #[must_use]
    pub fn new() -> Self {
        let formats = FORMATS.iter().copied().flatten().map(FormatState::new).collect();
        Self { formats, ..Self::default() }
    }

    /// Reads the next line: its number in the log, counted from 1, and its text as a screen shows
    /// it, without the newline.
    pub fn read(&mut self, number: u64, text: &str) {
        self.lines += 1;
        let is_claimed = self.apply_rules(number, text);
        if let Some(severity) = find_severity(text) {
            self.all.add(severity, number, text);
            if !is_claimed {
                self.free.add(severity, number, text);
            }
        }
    }

    /// Reports what was read so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let mut tools = Vec::new();
        let mut traces = Vec::new();
        for state in &self.formats {
            let report = state.report();
            match state.format.kind {
                FormatKind::Trace(_) => traces.extend(report.failures),
                FormatKind::Tests | FormatKind::Diagnostics | FormatKind::Steps => {
                    tools.extend(report.says_something().then_some(report));
                }
            }
        }
        tools.sort_by_key(|report| report.line);
        traces.sort_by_key(|trace| trace.log_line);
        let found =
            if tools.iter().all(|tool| tool.is_consistent) { &self.free } else { &self.all };
        Summary {
            tools,
            traces,
            errors: found.list(LineSeverity::Error),
            warnings: found.list(LineSeverity::Warning),
            lines: self.lines,
            ..Summary::default()
        }
    }

    /// Applies the rules of all formats. Returns `true` if a format claims the line.
    fn apply_rules(&mut self, number: u64, text: &str) -> bool {
        let rules = RuleSet::all();
        let mut is_claimed = self.apply_matches(rules, number, text);
        if let Some(inner) = strip_builder_prefix(text) {
            is_claimed |= self.apply_matches(rules, number, inner);
        }
        is_claimed
    }

    fn apply_matches(&mut self, rules: &RuleSet, number: u64, text: &str) -> bool {
        let owner = self.formats.iter().position(FormatState::owns_lines);
        let mut applied: Vec<usize> = Vec::new();
        let mut has_created = false;
        for rule in rules.matches(text) {
            let is_foreign = owner.is_some_and(|owner| owner != rule.format);
            let is_taken = has_created && rule.effect.creates();
            let Some(state) = self.formats.get_mut(rule.format) else { continue };
            let is_done = applied.last() == Some(&rule.format);
            if is_foreign || is_taken || is_done || !state.can_apply(rule.effect) {
                continue;
            }
            let Some(groups) = rules.captures(rule, text) else { continue };
            state.apply(rule, &groups, number);
            has_created |= rule.effect.creates();
            applied.push(rule.format);
        }
        for (index, state) in self.formats.iter_mut().enumerate() {
            if state.open.is_some() && !applied.contains(&index) {
                state.pass_line();
            }
        }
        let is_inside = |state: &FormatState| state.open.is_some();
        !applied.is_empty() || self.formats.iter().any(is_inside)
    }
}

/// Removes the prefix that an image builder puts before each line of a step: `#9 12.34 `.
fn strip_builder_prefix(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('#')?;
    let (step, rest) = rest.split_once(' ')?;
    let (seconds, rest) = rest.split_once(' ')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (is_number(step) && is_number(seconds)).then_some(rest)
}

/// The state of one format.
#[derive(Debug)]
struct FormatState {
    format: &'static Format,
    /// The file of the following failures.
    file: Option<String>,
    open: Option<OpenFailure>,
    /// The runs before the present one, as one report.
    earlier: Option<ToolReport>,
    run: Run,
}

/// A failure whose lines are being read.
#[derive(Debug, Clone, Default)]
struct OpenFailure {
    failure: Failure,
    is_warning: bool,
    /// Lines since the last one that a rule applied to.
    lines: u64,
    /// The number of texts that were added to the message.
    appended: usize,
    /// The frames of the present part of a trace.
    section: Vec<String>,
    /// Parts of the trace that caused the present one.
    causes: Vec<String>,
}

impl FormatState {
    fn new(format: &'static Format) -> Self {
        Self { format, file: None, open: None, earlier: None, run: Run::default() }
    }

    /// `true` if all lines belong to the failure that has begun.
    fn owns_lines(&self) -> bool {
        self.open.is_some() && self.format.kind == FormatKind::Tests
    }

    fn can_apply(&self, effect: Effect) -> bool {
        self.open.is_some() || !effect.needs_open()
    }

    /// Notes a line that no rule of the format applies to.
    fn pass_line(&mut self) {
        let Some(open) = &mut self.open else { return };
        open.lines += 1;
        if self.format.block == BlockEnd::FirstOther || open.lines > MAX_BLOCK_LINES {
            self.close();
        }
    }

    fn apply(&mut self, rule: RuleRef, groups: &Captures<'_>, number: u64) {
        if let Some(open) = &mut self.open {
            open.lines = 0;
        }
        match rule.effect {
            Effect::Failure | Effect::Warning => {
                self.close();
                let failure = self.new_failure(groups, number);
                self.add(failure, rule.effect == Effect::Warning);
            }
            Effect::Begin | Effect::BeginWarning => {
                self.close();
                self.open = Some(OpenFailure {
                    failure: self.new_failure(groups, number),
                    is_warning: rule.effect == Effect::BeginWarning,
                    ..OpenFailure::default()
                });
            }
            Effect::Repeat => {
                self.close();
                let mut failure = self.new_failure(groups, number);
                self.complete(&mut failure);
                self.run.repeat(failure);
            }
            Effect::Fill | Effect::Refill | Effect::Append => self.fill(rule.effect, groups),
            Effect::Frame | Effect::CauseBelow | Effect::CauseAbove => {
                let kind = self.format.kind;
                if let Some(open) = &mut self.open {
                    open.read_trace(rule.effect, kind, groups);
                }
            }
            Effect::End => self.close(),
            Effect::Drop => self.open = None,
            Effect::File => {
                self.close();
                self.file = group(groups, "file");
            }
            Effect::Counts => {
                self.close();
                self.read_counts(groups);
            }
            Effect::Result => self.run.result = group(groups, "message"),
            Effect::Run => {
                self.close();
                self.file = None;
                self.end_run();
            }
            Effect::Keep => {}
        }
        self.run.last_line = number;
    }

    fn new_failure(&self, groups: &Captures<'_>, number: u64) -> Failure {
        let mut failure = Failure { log_line: number, ..Failure::default() };
        fill_fields(&mut failure, groups, Effect::Refill);
        if failure.file.is_none() {
            failure.file.clone_from(&self.file);
        }
        failure
    }

    fn fill(&mut self, effect: Effect, groups: &Captures<'_>) {
        let Some(open) = &mut self.open else { return };
        if effect != Effect::Append {
            fill_fields(&mut open.failure, groups, effect);
            return;
        }
        let Some(more) = group(groups, "message") else { return };
        match &mut open.failure.message {
            Some(message) => {
                message.push_str(if open.appended == 0 { ": " } else { ", " });
                message.push_str(&more);
                *message = clip(message);
                open.appended += 1;
            }
            None => open.failure.message = Some(more),
        }
    }

    fn read_counts(&mut self, groups: &Captures<'_>) {
        let number = |name| {
            let digits = groups.name(name)?.as_str().replace([',', '_'], "");
            digits.parse::<u64>().ok()
        };
        let mut read = Run::default();
        read.counts.passed = number("passed");
        read.counts.skipped = number("skipped");
        read.counts.warnings = number("warnings");
        read.total = number("total");
        let failed = number("failed");
        let errors = number("errors");
        match self.format.kind {
            FormatKind::Tests if errors.is_some() => {
                read.counts.failed = Some(failed.unwrap_or(0) + errors.unwrap_or(0));
            }
            FormatKind::Tests => read.counts.failed = failed,
            FormatKind::Diagnostics | FormatKind::Steps | FormatKind::Trace(_) => {
                read.counts.failed = failed;
                read.counts.errors = errors;
            }
        }
        if self.run.conflicts_with(&read) {
            let next = self.run.split_off(self.format.kind);
            self.end_run();
            self.run = next;
        }
        self.run.add_counts(&read);
    }

    /// Ends the failure that has begun.
    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            let is_warning = open.is_warning;
            self.add(open.into_failure(), is_warning);
        }
    }

    fn complete(&self, failure: &mut Failure) {
        if let Some(complete) = self.format.complete {
            complete(failure);
        }
    }

    fn add(&mut self, mut failure: Failure, is_warning: bool) {
        self.complete(&mut failure);
        if failure.message.is_none() && failure.name.is_none() && failure.frames.is_empty() {
            return;
        }
        if is_warning { self.run.warnings.add(failure) } else { self.run.add(failure) }
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        let report = run.into_report(self.format);
        let ends = report.says_something().then_some(report);
        self.earlier = match (self.earlier.take(), ends) {
            (Some(earlier), Some(report)) => Some(earlier.merge(report)),
            (earlier, report) => earlier.or(report),
        };
    }

    /// The report of all runs, an unfinished failure included.
    fn report(&self) -> ToolReport {
        let mut run = self.run.clone();
        if let Some(open) = self.open.clone() {
            let is_warning = open.is_warning;
            let mut failure = open.into_failure();
            self.complete(&mut failure);
            if failure.message.is_some() || failure.name.is_some() || !failure.frames.is_empty() {
                let list: &mut FailureList =
                    if is_warning { &mut run.warnings } else { run.failures_mut() };
                list.add(failure);
            }
        }
        let report = run.into_report(self.format);
        match &self.earlier {
            Some(earlier) if report.says_something() => earlier.clone().merge(report),
            Some(earlier) => earlier.clone(),
            None => report,
        }
    }
}

impl OpenFailure {
    fn read_trace(&mut self, effect: Effect, kind: FormatKind, groups: &Captures<'_>) {
        match effect {
            Effect::CauseBelow => {
                self.end_section();
                let cause = group(groups, "message").unwrap_or_default();
                self.push_frame(format!("caused by {cause}"));
            }
            Effect::CauseAbove => {
                let message = self.failure.message.take().unwrap_or_default();
                let frames = std::mem::take(&mut self.section);
                if self.causes.len() < MAX_FRAMES {
                    self.causes.push(format!("caused by {message}"));
                    self.causes.extend(frames);
                }
            }
            _ => {
                let frame = frame_text(groups);
                match kind {
                    FormatKind::Trace(FrameOrder::InnermostLast) => {
                        self.section.insert(0, frame);
                        self.section.truncate(FRAMES);
                    }
                    _ if self.section.len() < FRAMES => self.section.push(frame),
                    _ => {}
                }
            }
        }
    }

    fn push_frame(&mut self, frame: String) {
        if self.failure.frames.len() < MAX_FRAMES {
            self.failure.frames.push(frame);
        }
    }

    fn end_section(&mut self) {
        for frame in std::mem::take(&mut self.section) {
            self.push_frame(frame);
        }
    }

    fn into_failure(mut self) -> Failure {
        self.end_section();
        for cause in std::mem::take(&mut self.causes) {
            self.push_frame(cause);
        }
        self.failure
    }
}

/// The text of a frame: the group `frame`, or `file:line in name`.
fn frame_text(groups: &Captures<'_>) -> String {
    if let Some(frame) = group(groups, "frame") {
        return frame;
    }
    let mut text = group(groups, "file").unwrap_or_default();
    if let Some(line) = group(groups, "line") {
        text = format!("{text}:{line}");
    }
    match group(groups, "name") {
        Some(name) if text.is_empty() => name,
        Some(name) => format!("{text} in {name}"),
        None => text,
    }
}

/// Sets the fields of a failure from the groups of a match; with `Fill` only the empty ones.
fn fill_fields(failure: &mut Failure, groups: &Captures<'_>, effect: Effect) {
    let replaces = effect == Effect::Refill;
    let fill_text = |field: &mut Option<String>, name| {
        if let Some(text) = group(groups, name)
            && (replaces || field.is_none())
        {
            *field = Some(text);
        }
    };
    fill_text(&mut failure.name, "name");
    fill_text(&mut failure.message, "message");
    // A place is replaced as a whole: a line belongs to its file.
    let has_place = failure.line.is_some();
    fill_text(&mut failure.file, "file");
    let number = |name| groups.name(name).and_then(|digits| digits.as_str().parse().ok());
    if (replaces || !has_place) && groups.name("line").is_some() {
        failure.line = number("line");
        failure.column = number("column");
    }
}

/// The text of a group, if it matched something.
fn group(groups: &Captures<'_>, name: &str) -> Option<String> {
    let text = groups.name(name)?.as_str().trim();
    (!text.is_empty()).then(|| clip(text))
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
