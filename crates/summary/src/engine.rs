//! Reads lines, and applies the rules of all formats to them. The last lines are kept: the message of a trace
//! stands above its first frame.

use std::collections::VecDeque;

use crate::format_state::{FormatState, Line};
use crate::formats::{FORMATS, RuleSet};
use crate::open_failure::join_traces;
use crate::rules::{Effect, FormatKind};
use crate::severity::{LineSeverity, SeverityLines, find_severity, has_numeric_level};
use crate::summary::Summary;
use crate::templates::TemplateTable;

/// Lines of a template that are examined. If no rule matches any of them, the others are only
/// counted.
const EXAMINED_LINES: u8 = 3;

/// Reads the output of a program line by line, in bounded memory.
#[derive(Debug, Default)]
pub struct Summarizer {
    formats: Vec<FormatState>,
    /// The formats that read a failure now.
    open: Vec<usize>,
    recent: RecentLines,
    /// Error and warning lines that no tool claims, without the recent ones.
    free: SeverityLines,
    /// All error and warning lines.
    all: SeverityLines,
    lines: u64,
    explained_to: u64,
    templates: TemplateTable,
    /// `true` if an image builder wrote lines: it tells the errors of a failed step twice.
    has_steps: bool,
    /// `true` if a rule that needs no failure before it matches the present line.
    has_match: bool,
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
        let prefix = find_source(text);
        let entry = self.templates.count(number, text);
        let marks = entry.marks;
        let is_known = marks.examined == EXAMINED_LINES;
        let severity =
            if is_known && !has_numeric_level(text) { marks.severity } else { find_severity(text) };
        entry.marks.severity = severity;
        let is_bare_path = self.templates.is_bare_path();
        let is_examined = !is_known || marks.is_relevant || is_bare_path;
        let entry = self.templates.last_entry();
        if is_examined {
            entry.marks.examined = EXAMINED_LINES.min(marks.examined + 1);
        }
        let mut is_claimed = false;
        if is_examined || self.formats.iter().any(FormatState::awaits_lines) {
            self.has_match = false;
            is_claimed = self.apply_rules(number, text, prefix);
            if is_examined && self.has_match {
                self.templates.last_entry().marks.is_relevant = true;
            }
        }
        if is_claimed {
            self.explained_to = number;
        }
        if let Some(severity) = severity {
            self.all.add(severity, number, text);
        }
        self.has_steps |= prefix.is_some() && text.starts_with('#');
        let free = &mut self.free;
        let has_steps = self.has_steps;
        let line =
            self.recent.push(number, text, prefix, |settled| add_free(free, settled, has_steps));
        line.severity = severity;
        line.is_claimed = is_claimed;
    }

    /// Reads a text that the program overwrote in the line of this number.
    pub fn read_overwritten(&mut self, number: u64, text: &str) {
        if let Some(severity) = find_severity(text) {
            self.all.add(severity, number, text);
            self.free.add(severity, number, text);
        }
    }

    /// Notes that lines are skipped: those before and after do not belong together.
    pub fn skip(&mut self) {
        for state in &mut self.formats {
            state.close_all();
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
        join_traces(&mut tools, &mut traces);
        let mut free = self.free.clone();
        for line in &self.recent.lines {
            add_free(&mut free, line, self.has_steps);
        }
        let found = if tools.iter().all(|tool| tool.is_consistent) { &free } else { &self.all };
        Summary {
            tools,
            traces,
            errors: found.list(LineSeverity::Error),
            warnings: found.list(LineSeverity::Warning),
            lines: self.lines,
            groups: self.templates.groups(),
            explained_to: self.explained_to,
        }
    }

    /// Applies the rules of all formats. Returns `true` if a format claims the line.
    fn apply_rules(&mut self, number: u64, text: &str, prefix: Option<SourcePrefix<'_>>) -> bool {
        let follows_blank = self.recent.lines.back().is_some_and(RecentLine::is_blank);
        let line = Line { number, text, source: "", follows_blank };
        self.switch_source("");
        let mut applied = self.apply_matches(line);
        let mut source = "";
        let mut inner = text;
        if let Some(prefix) = prefix {
            source = prefix.source;
            inner = text.get(prefix.bytes..).unwrap_or_default();
            self.switch_source(source);
            applied.extend(self.apply_matches(Line { text: inner, source, ..line }));
        }
        let mut is_claimed = !applied.is_empty();
        for &index in &self.open {
            let Some(state) = self.formats.get_mut(index) else { continue };
            if !applied.contains(&index) {
                state.pass_line(source, inner);
            }
            is_claimed |= state.claims_lines(source);
        }
        self.note_open(&[]);
        is_claimed
    }

    /// Applies the rules that match a line. Returns the formats of the rules.
    fn apply_matches(&mut self, line: Line<'_>) -> Vec<usize> {
        let rules = RuleSet::all();
        let owns_lines =
            |index: &usize| self.formats.get(*index).is_some_and(FormatState::owns_lines);
        let owner = self.open.iter().copied().filter(owns_lines).min();
        let mut takers = self.open.clone();
        takers.retain(|index| {
            self.formats.get_mut(*index).is_some_and(|state| state.take_message(line))
        });
        let mut applied = takers.clone();
        let mut has_created = false;
        for rule in rules.matches(line.text) {
            self.has_match |= !rule.effect.needs_open();
            let is_foreign =
                owner.is_some_and(|owner| owner != rule.format) || takers.contains(&rule.format);
            let is_taken = has_created && rule.effect.creates();
            let Some(state) = self.formats.get_mut(rule.format) else { continue };
            let is_done = applied.last() == Some(&rule.format);
            if is_foreign || is_taken || is_done || !state.can_apply(rule.effect, line) {
                continue;
            }
            let Some(groups) = rules.captures(rule, line.text) else { continue };
            let begins_below = rule.effect == Effect::BeginBelow && !state.is_reading(line.source);
            if begins_below && !state.begin_below(&groups, line, &mut self.recent) {
                continue;
            }
            if !begins_below {
                state.apply(rule.effect, &groups, line);
            }
            has_created |= rule.effect.creates() && state.run.is_confirmed(state.format);
            applied.push(rule.format);
        }
        self.note_open(&applied);
        applied
    }

    /// Takes up the failures of a source where its last line left them.
    fn switch_source(&mut self, source: &str) {
        for &index in &self.open {
            if let Some(state) = self.formats.get_mut(index) {
                state.switch_source(source);
            }
        }
    }

    /// Notes which formats read a failure, after rules of some formats were applied.
    fn note_open(&mut self, applied: &[usize]) {
        for index in applied {
            if !self.open.contains(index) {
                self.open.push(*index);
            }
        }
        let formats = &self.formats;
        self.open.retain(|index| formats.get(*index).is_some_and(FormatState::has_open));
    }
}

/// Adds an error or a warning that no tool claims.
fn add_free(free: &mut SeverityLines, line: &RecentLine, has_steps: bool) {
    if let Some(severity) = line.severity
        && !line.is_claimed
    {
        if has_steps && line.is_repeated() {
            free.add_unless_known(severity, line.number, line.told_text());
        } else {
            free.add(severity, line.number, line.told_text());
        }
    }
}

/// The lines of a source among which the message of a trace is searched.
const HEAD_LINES: usize = 8;
/// The lines that are kept, of all sources.
const RECENT_LINES: usize = 24;
/// The longest text that is kept of a line, in bytes.
const LINE_BYTES: usize = 1200;
/// Words of a message that no level marks as an error.
const ERROR_NAMES: &[&str] = &["Error", "Exception", "Failure", "Throwable", "Rejection"];

/// A line whose severity is not reported yet: a trace may still claim it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecentLine {
    pub(crate) number: u64,
    text: String,
    pub(crate) severity: Option<LineSeverity>,
    is_claimed: bool,
    /// The length of the name of the source, which begins the text.
    source: usize,
    /// The length of the whole prefix: the source and what follows it.
    prefix: usize,
}

impl RecentLine {
    /// `true` if the line has no text.
    fn is_blank(&self) -> bool {
        self.inner().trim().is_empty()
    }

    /// The text without the prefix that names its source.
    pub(crate) fn inner(&self) -> &str {
        self.text.get(self.prefix..).unwrap_or_default()
    }

    /// The text without the time that an image builder puts before it.
    fn told_text(&self) -> &str {
        let is_timed = self.text.starts_with(|char: char| char == '#' || char.is_ascii_digit());
        if is_timed { self.inner() } else { &self.text }
    }

    /// `true` if an image builder tells the line of a step again.
    fn is_repeated(&self) -> bool {
        self.source == 0 && self.prefix > 0
    }

    fn is_from(&self, source: &str) -> bool {
        self.text.get(..self.source) == Some(source)
    }

    fn names_error(&self) -> bool {
        self.severity.is_some() || ERROR_NAMES.iter().any(|name| self.inner().contains(name))
    }
}

/// The last few lines.
#[derive(Debug, Default)]
pub(crate) struct RecentLines {
    lines: VecDeque<RecentLine>,
}

impl RecentLines {
    /// Adds a line. Passes the line that is no longer recent to `settle`.
    fn push(
        &mut self,
        number: u64,
        text: &str,
        prefix: Option<SourcePrefix<'_>>,
        settle: impl FnOnce(&RecentLine),
    ) -> &mut RecentLine {
        let is_full = self.lines.len() >= RECENT_LINES;
        let mut line = if is_full { self.lines.pop_front() } else { None }.unwrap_or_default();
        if is_full {
            settle(&line);
        }
        line.number = number;
        line.text.clear();
        line.text.push_str(&text[..text.floor_char_boundary(LINE_BYTES)]);
        line.source = prefix.map_or(0, |prefix| prefix.source.len());
        line.prefix = prefix.map_or(0, |prefix| prefix.bytes);
        self.lines.push_back_mut(line)
    }

    /// The nearest line of a source that names an error or a warning and that nothing claims.
    pub(crate) fn find_head(&self, source: &str) -> Option<&RecentLine> {
        let lines = self.lines.iter().rev().filter(|line| line.is_from(source));
        lines.take(HEAD_LINES).find(|line| !line.is_claimed && line.names_error())
    }

    /// Claims all lines of a source from a line on.
    pub(crate) fn claim_from(&mut self, number: u64, source: &str) {
        for line in &mut self.lines {
            line.is_claimed |= line.number >= number && line.is_from(source);
        }
    }
}

/// The prefix of a line that names its source.
#[derive(Debug, Clone, Copy)]
struct SourcePrefix<'a> {
    source: &'a str,
    /// The length of the prefix.
    bytes: usize,
}

/// Finds the prefix that an image builder puts before each line of a step (`#9 12.34 `, or `12.34 `
/// where it tells the step again), or that docker compose puts before each line of a container
/// (`web-1  | `).
fn find_source(text: &str) -> Option<SourcePrefix<'_>> {
    let (source, rest) = text.split_once(' ')?;
    let prefix = |source, inner: &'_ str| SourcePrefix { source, bytes: text.len() - inner.len() };
    if let Some(step) = source.strip_prefix('#') {
        let (seconds, inner) = rest.split_once(' ')?;
        let is_step = is_digits(step) && is_seconds(seconds);
        return is_step.then(|| prefix(source, inner));
    }
    if is_seconds(source) {
        return Some(prefix("", rest));
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let (_, number) = source.rsplit_once(['-', '_'])?;
    let after = rest.trim_start_matches(' ').strip_prefix('|')?;
    let is_container = source.bytes().all(is_name) && is_digits(number);
    is_container.then(|| prefix(source, after.strip_prefix(' ').unwrap_or(after)))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `true` for a time as BuildKit writes it: `12.34`.
fn is_seconds(text: &str) -> bool {
    text.split_once('.').is_some_and(|(whole, part)| is_digits(whole) && is_digits(part))
}
