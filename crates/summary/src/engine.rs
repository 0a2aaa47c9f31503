//! Reads lines, and applies the rules of all formats to them.

use regex::Captures;

use crate::failures::{FailureList, Run};
use crate::formats::FORMATS;
use crate::open_failure::{OpenFailure, clip, fill_fields, group, number};
use crate::place::join_traces;
use crate::recent::{RecentLine, RecentLines};
use crate::rules::{BlockEnd, Effect, Format, FormatKind, RuleSet};
use crate::severity::{LineSeverity, SeverityLines, find_severity};
use crate::source::{SourcePrefix, find_source};
use crate::summary::{Failure, Summary, ToolReport};

/// Tests that have not ended whose lines are remembered.
const MAX_WATCHED: usize = 64;
/// Lines from one line with counts to the next one: a blank line may stand between them.
const COUNTS_GAP: u64 = 2;
/// Sources whose failures are read at the same time.
const MAX_PARKED: usize = 16;
/// A failure that no rule ended is over after this many lines.
const MAX_BLOCK_LINES: u64 = 400;

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
        let is_claimed = self.apply_rules(number, text, prefix);
        if is_claimed {
            self.explained_to = number;
        }
        let severity = find_severity(text);
        if let Some(severity) = severity {
            self.all.add(severity, number, text);
        }
        let free = &mut self.free;
        let line = self.recent.push(number, text, prefix, |settled| add_free(free, settled));
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
        for line in self.recent.iter() {
            add_free(&mut free, line);
        }
        let found = if tools.iter().all(|tool| tool.is_consistent) { &free } else { &self.all };
        Summary {
            tools,
            traces,
            errors: found.list(LineSeverity::Error),
            warnings: found.list(LineSeverity::Warning),
            lines: self.lines,
            explained_to: self.explained_to,
            ..Summary::default()
        }
    }

    /// Applies the rules of all formats. Returns `true` if a format claims the line.
    fn apply_rules(&mut self, number: u64, text: &str, prefix: Option<SourcePrefix<'_>>) -> bool {
        let follows_blank = self.recent.iter().last().is_some_and(RecentLine::is_blank);
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
fn add_free(free: &mut SeverityLines, line: &RecentLine) {
    if let Some(severity) = line.severity
        && !line.is_claimed
    {
        if line.is_repeated() {
            free.add_unless_known(severity, line.number, line.told_text());
        } else {
            free.add(severity, line.number, line.told_text());
        }
    }
}

/// A line as the rules read it.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    number: u64,
    text: &'a str,
    /// The step or the container that wrote the line; empty if the log has one source.
    source: &'a str,
    /// `true` if the line above is blank.
    follows_blank: bool,
}

/// The state of one format.
#[derive(Debug)]
struct FormatState {
    format: &'static Format,
    /// The file of the following failures.
    file: Option<String>,
    /// The line of the following failures.
    line: Option<u64>,
    /// The name of the following failures.
    name: Option<String>,
    /// `true` if the lines list failures.
    is_listing: bool,
    /// `true` if the lines are output of a test.
    is_quoting: bool,
    /// The number of the last line with counts.
    counts_line: u64,
    open: Option<OpenFailure>,
    /// Failures that lines of other sources fill.
    parked: Vec<OpenFailure>,
    /// Failures of tests that have not ended, the oldest first.
    watched: Vec<OpenFailure>,
    /// The runs before the present one, as one report.
    earlier: Option<ToolReport>,
    run: Run,
}

impl FormatState {
    fn new(format: &'static Format) -> Self {
        Self {
            format,
            file: None,
            line: None,
            name: None,
            is_listing: false,
            is_quoting: false,
            counts_line: 0,
            open: None,
            parked: Vec::new(),
            watched: Vec::new(),
            earlier: None,
            run: Run::default(),
        }
    }

    /// `true` if all lines belong to the failure that has begun.
    fn owns_lines(&self) -> bool {
        let is_open = self.open.as_ref().is_some_and(|open| !open.is_watched);
        let is_certain = self.run.is_confirmed(self.format);
        is_open && is_certain && self.format.kind == FormatKind::Tests
    }

    /// Takes a line as the message of the failure that has begun, if the failure awaits it.
    fn take_message(&mut self, line: Line<'_>) -> bool {
        let awaits = |open: &OpenFailure| open.awaits_message && open.source == line.source;
        let Some(open) = self.open.as_mut().filter(|open| awaits(open)) else { return false };
        let text = line.text.trim();
        if !text.is_empty() {
            // carts differ:
            open.awaits_message = text.ends_with(':') && open.failure.message.is_none();
            let head = open.failure.message.take().map_or_else(String::new, |head| head + " ");
            open.failure.message = Some(clip(&(head + text)));
            self.run.last_line = line.number;
        }
        !text.is_empty()
    }

    /// `true` if a failure has begun, of any source.
    fn has_open(&self) -> bool {
        self.open.is_some() || !self.parked.is_empty()
    }

    /// Puts aside the failure of another source, and takes up that of this source.
    fn switch_source(&mut self, source: &str) {
        self.parked.extend(self.open.take_if(|open| open.source != source));
        if self.open.is_none()
            && let Some(index) = self.parked.iter().position(|open| open.source == source)
        {
            self.open = Some(self.parked.remove(index));
        }
        if self.parked.len() > MAX_PARKED {
            let oldest = self.parked.remove(0);
            let present = self.open.replace(oldest);
            self.close();
            self.open = present;
        }
    }

    /// `true` if error lines of the source are part of the failure that has begun. A step does not
    /// tell the errors that its program prints.
    fn claims_lines(&self, source: &str) -> bool {
        self.format.kind != FormatKind::Steps
            && self.run.is_confirmed(self.format)
            && self.open.as_ref().is_some_and(|open| !open.is_watched && open.source == source)
    }

    /// `true` if a failure has begun whose lines come from the source.
    fn is_reading(&self, source: &str) -> bool {
        self.open.as_ref().is_some_and(|open| !open.is_complete && open.source == source)
    }

    fn can_apply(&self, effect: Effect, line: Line<'_>) -> bool {
        if self.is_quoting && !effect.ends_quote() {
            return false;
        }
        if matches!(effect, Effect::EndCounts | Effect::MoreCounts) {
            let ends_failure = effect == Effect::EndCounts && self.is_reading(line.source);
            let follows_counts =
                self.counts_line > 0 && self.counts_line + COUNTS_GAP >= line.number;
            return ends_failure || follows_counts;
        }
        if effect == Effect::CauseAbove {
            return self.open.as_ref().is_some_and(|open| open.source == line.source);
        }
        let needs_list = matches!(effect, Effect::BeginListed | Effect::ListCounts);
        let is_listed = !needs_list || self.is_listing;
        let is_apart = effect != Effect::ApartCounts || line.follows_blank;
        is_listed && is_apart && (!effect.needs_open() || self.is_reading(line.source))
    }

    /// Notes a line that no rule of the format applies to.
    fn pass_line(&mut self, source: &str, text: &str) {
        let Some(open) = &mut self.open else { return };
        if self.is_quoting {
            return;
        }
        if open.source == source {
            open.read_other(text);
        }
        let is_blank = text.trim().is_empty();
        open.lines += 1;
        let is_over = open.is_complete || self.format.block == BlockEnd::FirstOther;
        let is_over = is_over && open.source == source && !(open.is_complete && is_blank);
        if is_over || open.lines > MAX_BLOCK_LINES {
            self.close();
        }
    }

    /// Begins a failure whose message stands above. Returns `false` if there is no such message.
    fn begin_below(
        &mut self,
        groups: &Captures<'_>,
        line: Line<'_>,
        recent: &mut RecentLines,
    ) -> bool {
        let Some(head) = recent.find_head(line.source) else { return false };
        let is_trace = matches!(self.format.kind, FormatKind::Trace(_));
        let is_warning = head.severity == Some(LineSeverity::Warning);
        if is_trace && is_warning {
            return false;
        }
        self.close();
        let mut failure = Failure::default();
        if !is_trace {
            failure = self.new_failure(groups, line.number);
        }
        failure.log_line = head.number;
        failure.message = Some(clip(head.inner().trim()));
        let mut open = OpenFailure::new(failure, line.source, is_warning);
        if is_trace {
            open.read_trace(Effect::Frame, self.format.kind, groups);
        }
        self.open = Some(open);
        self.run.last_line = line.number;
        let number = head.number;
        recent.claim_from(number, line.source);
        true
    }

    fn apply(&mut self, effect: Effect, groups: &Captures<'_>, line: Line<'_>) {
        self.is_quoting = effect == Effect::Quote;
        if let Some(open) = &mut self.open {
            open.lines = 0;
        }
        match effect {
            Effect::Failure
            | Effect::Warning
            | Effect::Begin
            | Effect::BeginAbove
            | Effect::BeginAwaiting
            | Effect::BeginUncounted
            | Effect::BeginListed
            | Effect::BeginWarning
            | Effect::Watch
            | Effect::Repeat => self.create(effect, groups, line),
            Effect::Fill
            | Effect::FillAbove
            | Effect::FillAwaiting
            | Effect::Locate
            | Effect::FillLast
            | Effect::Refill
            | Effect::Append
            | Effect::Continue
            | Effect::Explain => {
                if let Some(open) = &mut self.open {
                    open.fill(effect, groups);
                }
            }
            Effect::Frame | Effect::BeginBelow | Effect::CauseBelow | Effect::CauseAbove => {
                if let Some(open) = &mut self.open {
                    open.read_trace(effect, self.format.kind, groups);
                }
            }
            Effect::End | Effect::Heading => self.close(),
            Effect::Drop => self.open = None,
            Effect::File
            | Effect::Name
            | Effect::Counts
            | Effect::PartCounts
            | Effect::EndCounts
            | Effect::ListCounts
            | Effect::MoreCounts
            | Effect::ApartCounts
            | Effect::ListStart
            | Effect::ListEnd
            | Effect::Run => self.apply_between(effect, groups, line),
            Effect::Result => self.run.result = group(groups, "message"),
            Effect::Keep | Effect::Quote | Effect::Sign => {}
            Effect::Skip => return,
        }
        self.run.last_line = line.number;
        self.run.is_signed |= effect.signs();
    }

    /// Adds or begins a failure.
    fn create(&mut self, effect: Effect, groups: &Captures<'_>, line: Line<'_>) {
        // A failure without a name is one of the test that is watched.
        let is_nameless = groups.name("name").is_none();
        let watched = self.open.take_if(|open| open.is_watched && is_nameless);
        self.close();
        if effect == Effect::Repeat {
            let mut failure = self.new_failure(groups, line.number);
            self.complete(&mut failure);
            self.run.repeat(failure);
            return;
        }
        let mut open = match watched {
            Some(open) => open.continue_with(groups),
            None => self.new_open(groups, line),
        };
        open.is_warning = matches!(effect, Effect::Warning | Effect::BeginWarning);
        open.is_watched = effect == Effect::Watch;
        open.awaits_message = effect == Effect::BeginAbove;
        open.awaits_other = matches!(effect, Effect::BeginAwaiting | Effect::BeginUncounted);
        open.is_uncounted = effect == Effect::BeginUncounted;
        self.open = Some(open);
        if matches!(effect, Effect::Failure | Effect::Warning) {
            self.close();
        }
    }

    /// A failure that begins with a line, together with what the watched test of its name said.
    fn new_open(&mut self, groups: &Captures<'_>, line: Line<'_>) -> OpenFailure {
        let failure = self.new_failure(groups, line.number);
        let is_same = |open: &OpenFailure| open.failure.name == failure.name;
        let Some(index) = self.watched.iter().position(is_same) else {
            return OpenFailure::new(failure, line.source, false);
        };
        self.watched.remove(index).continue_with(groups)
    }

    /// Applies an effect of a line that stands between failures.
    fn apply_between(&mut self, effect: Effect, groups: &Captures<'_>, line: Line<'_>) {
        self.close();
        if effect == Effect::File {
            self.file = group(groups, "file");
            self.line = number(groups, "line");
        } else if effect == Effect::Name {
            self.name = group(groups, "name");
        } else {
            self.is_listing = effect == Effect::ListStart;
        }
        if effect == Effect::Run {
            self.watched.clear();
            self.file = None;
            self.line = None;
            self.name = None;
            self.end_run();
            self.run.is_started = true;
        } else if effect == Effect::PartCounts {
            let read = Self::read_counts(groups);
            self.run.add_part(group(groups, "name"), read.counts);
        } else if effect.reads_counts() {
            self.counts_line = line.number;
            let read = Self::read_counts(groups);
            self.add_counts(&read);
        }
    }

    fn new_failure(&self, groups: &Captures<'_>, number: u64) -> Failure {
        let mut failure = Failure { log_line: number, ..Failure::default() };
        fill_fields(&mut failure, groups, Effect::Refill);
        if failure.file.is_none() {
            failure.file.clone_from(&self.file);
            failure.line = failure.line.or(self.line);
        }
        if failure.name.is_none() {
            failure.name.clone_from(&self.name);
        }
        failure
    }

    fn read_counts(groups: &Captures<'_>) -> Run {
        let number = |name| {
            let digits = groups.name(name)?.as_str().replace([',', '_'], "");
            digits.parse::<u64>().ok()
        };
        let mut read = Run::default();
        read.counts.passed = number("passed");
        read.counts.skipped = number("skipped");
        read.counts.warnings = number("warnings");
        let others = number("incomplete").unwrap_or(0) + number("risky").unwrap_or(0);
        read.total = number("total").map(|total| total.saturating_sub(others));
        read.ran = number("ran");
        read.counts.failed = number("failed");
        read.counts.errors = number("errors");
        read.uncounted = number("uncounted").unwrap_or(0);
        read
    }

    fn add_counts(&mut self, read: &Run) {
        let is_uncertain =
            self.format.kind == FormatKind::Diagnostics || !self.run.is_confirmed(self.format);
        if is_uncertain && self.run.is_empty() && read.claims_failures(self.format.kind) {
            // Counts of another tool that prints them in the same form, or output of a test.
            return;
        }
        let is_conflict = self.run.conflicts_with(read);
        if is_conflict && self.run.is_started && !self.run.has_claimed_failures(self.format.kind) {
            // Counts in the middle of a run, without the failures that they count, are output of a
            // test.
            self.run.forget_counts();
        } else if is_conflict {
            let next = self.run.split_off(self.format.kind);
            self.end_run();
            self.run = next;
        }
        self.run.add_counts(read);
        self.run.is_signed = true;
    }

    /// Ends all failures that have begun.
    fn close_all(&mut self) {
        self.close();
        while let Some(open) = self.parked.pop() {
            self.open = Some(open);
            self.close();
        }
    }

    /// Ends the failure that has begun.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        if open.is_watched {
            if self.watched.len() == MAX_WATCHED {
                self.watched.remove(0);
            }
            self.watched.push(open);
            return;
        }
        let is_warning = open.is_warning;
        let is_uncounted = open.is_uncounted;
        let known = self.run.failure_count();
        self.add(open.into_failure(), is_warning);
        if is_uncounted && self.run.failure_count() > known {
            self.run.uncounted += 1;
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
        let open = self.parked.iter().chain(&self.open).filter(|open| !open.is_watched);
        for open in open.cloned() {
            let is_warning = open.is_warning;
            run.uncounted += u64::from(open.is_uncounted);
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
