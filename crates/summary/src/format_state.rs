//! The reading of one format: the failure that has begun, the run and its counts.

use regex::Captures;

use crate::engine::RecentLines;
use crate::failures::{FailureList, Run};
use crate::open_failure::{OpenFailure, clip, fill_fields, group, number};
use crate::rules::{BlockEnd, Effect, Format, FormatKind};
use crate::severity::LineSeverity;
use crate::summary::{Failure, ToolReport};

/// Tests that have not ended whose lines are remembered.
const MAX_WATCHED: usize = 64;
/// Lines from one line with counts to the next one: a blank line may stand between them.
const COUNTS_GAP: u64 = 2;
/// Sources whose failures are read at the same time.
const MAX_PARKED: usize = 16;
/// The largest count that a tool can mean.
const MAX_COUNT: u64 = 1_000_000_000;
/// A failure that no rule ended is over after this many lines.
const MAX_BLOCK_LINES: u64 = 400;

/// A line as the rules read it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) number: u64,
    pub(crate) text: &'a str,
    /// The step or the container that wrote the line; empty if the log has one source.
    pub(crate) source: &'a str,
    /// `true` if the line above is blank.
    pub(crate) follows_blank: bool,
}

/// The state of one format.
#[derive(Debug)]
pub(crate) struct FormatState {
    pub(crate) format: &'static Format,
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
    pub(crate) run: Run,
}

impl FormatState {
    pub(crate) fn new(format: &'static Format) -> Self {
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

    /// `true` if the effect of the next line depends on those before it.
    pub(crate) fn awaits_lines(&self) -> bool {
        self.open.is_some()
            || self.is_listing
            || self.is_quoting
            || !self.watched.is_empty()
            || !self.parked.is_empty()
    }

    /// `true` if all lines belong to the failure that has begun.
    pub(crate) fn owns_lines(&self) -> bool {
        let is_open = self.open.as_ref().is_some_and(|open| !open.is_watched);
        let is_certain = self.run.is_confirmed(self.format);
        is_open && is_certain && self.format.kind == FormatKind::Tests
    }

    /// Takes a line as the message of the failure that has begun, if the failure awaits it.
    pub(crate) fn take_message(&mut self, line: Line<'_>) -> bool {
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
    pub(crate) fn has_open(&self) -> bool {
        self.open.is_some() || !self.parked.is_empty()
    }

    /// Puts aside the failure of another source, and takes up that of this source.
    pub(crate) fn switch_source(&mut self, source: &str) {
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
    pub(crate) fn claims_lines(&self, source: &str) -> bool {
        self.format.kind != FormatKind::Steps
            && self.run.is_confirmed(self.format)
            && self.open.as_ref().is_some_and(|open| !open.is_watched && open.source == source)
    }

    /// `true` if a failure has begun whose lines come from the source.
    pub(crate) fn is_reading(&self, source: &str) -> bool {
        self.open.as_ref().is_some_and(|open| !open.is_complete && open.source == source)
    }

    pub(crate) fn can_apply(&self, effect: Effect, line: Line<'_>) -> bool {
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
    pub(crate) fn pass_line(&mut self, source: &str, text: &str) {
        let Some(open) = &mut self.open else { return };
        open.lines += 1;
        if self.is_quoting && open.lines <= MAX_BLOCK_LINES {
            return;
        }
        if open.source == source && !self.is_quoting {
            open.read_other(text);
        }
        self.is_quoting = false;
        let is_blank = text.trim().is_empty();
        let is_over = open.is_complete || self.format.block == BlockEnd::FirstOther;
        let is_over = is_over && open.source == source && !(open.is_complete && is_blank);
        if is_over || open.lines > MAX_BLOCK_LINES {
            self.close();
        }
    }

    /// Begins a failure whose message stands above. Returns `false` if there is no such message.
    pub(crate) fn begin_below(
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

    pub(crate) fn apply(&mut self, effect: Effect, groups: &Captures<'_>, line: Line<'_>) {
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
            Effect::Confirm => {
                if let Some(open) = &mut self.open {
                    open.is_watched = false;
                    open.fill(Effect::Fill, groups);
                }
                self.close();
            }
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
            if let Some(part) = group(groups, "name") {
                self.run.prefix_names(&part);
            }
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
            digits.parse::<u64>().ok().filter(|number| *number <= MAX_COUNT)
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
    pub(crate) fn close_all(&mut self) {
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
    pub(crate) fn report(&self) -> ToolReport {
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
