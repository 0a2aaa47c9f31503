//! The failures and counts of the runs of a tool.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::rules::{Format, FormatKind};
use crate::summary::{Counts, Failure, MAX_FAILURES, ToolReport};

/// The most failures whose identity is remembered, so that none is counted twice.
const MAX_KNOWN: usize = 10_000;

/// Failures of the same name or message that are compared with a further one.
const MAX_ALIKE: usize = 32;

/// Distinct failures, in the order of the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailureList {
    kept: Vec<KeptFailure>,
    /// The index of each known failure, by its name or its place.
    known: HashMap<String, Vec<usize>>,
    count: u64,
}

#[derive(Debug, Clone)]
struct KeptFailure {
    failure: Failure,
    /// `true` once the tool told the failure a second time.
    is_repeated: bool,
}

impl FailureList {
    /// Adds a failure, or completes the same one.
    pub(crate) fn add(&mut self, failure: Failure) {
        let same = |kept: &KeptFailure| is_same(&kept.failure, &failure);
        match self.find(&failure, same) {
            Some(kept) => complete(&mut kept.failure, failure),
            None => self.push(failure, false),
        }
    }

    /// Completes the failure of the same name that the tool tells again, or adds it.
    fn repeat(&mut self, failure: Failure) {
        let is_exact = |kept: &KeptFailure| !kept.is_repeated && kept.failure.file == failure.file;
        let is_open = |kept: &KeptFailure| !kept.is_repeated;
        let found = if self.find(&failure, is_exact).is_some() {
            self.find(&failure, is_exact)
        } else {
            self.find(&failure, is_open)
        };
        match found {
            Some(kept) => {
                kept.is_repeated = true;
                complete(&mut kept.failure, failure);
            }
            None => self.push(failure, true),
        }
    }

    fn find(
        &mut self,
        failure: &Failure,
        accepts: impl Fn(&KeptFailure) -> bool,
    ) -> Option<&mut KeptFailure> {
        let indexes = self.known.get(&identity(failure))?;
        let index = *indexes.iter().find(|index| self.kept.get(**index).is_some_and(&accepts))?;
        self.kept.get_mut(index)
    }

    fn push(&mut self, failure: Failure, is_repeated: bool) {
        self.count += 1;
        if self.kept.len() < MAX_KNOWN {
            let alike = self.known.entry(identity(&failure)).or_default();
            if alike.len() < MAX_ALIKE {
                alike.push(self.kept.len());
            }
            self.kept.push(KeptFailure { failure, is_repeated });
        }
    }

    fn extend(&mut self, other: Self) {
        let unknown = other.count - other.kept.len() as u64;
        for kept in other.kept {
            self.add(kept.failure);
        }
        self.count += unknown;
    }

    /// Removes the failures without a message of tests that contain a failed test.
    fn remove_outer(&mut self, nested_by: &str) {
        let names = self.kept.iter().filter_map(|kept| kept.failure.name.as_deref());
        let mut outer: HashSet<String> = HashSet::new();
        for name in names {
            let ends = name.match_indices(nested_by).map(|(end, _)| end);
            outer.extend(ends.filter_map(|end| name.get(..end)).map(str::to_owned));
        }
        let all = self.kept.len();
        self.kept.retain(|kept| {
            let name = kept.failure.name.as_ref();
            kept.failure.message.is_some() || !name.is_some_and(|name| outer.contains(name))
        });
        self.count -= (all - self.kept.len()) as u64;
    }

    fn into_failures(self) -> (Vec<Failure>, u64) {
        let kept = self.kept.into_iter().take(MAX_FAILURES).map(|kept| kept.failure);
        (kept.collect(), self.count)
    }
}

/// The text by which the same failure is found again: its name, else its place and message.
fn identity(failure: &Failure) -> String {
    match (&failure.name, &failure.file) {
        (Some(name), _) => name.clone(),
        (None, Some(file)) => {
            let message = failure.message.as_deref().unwrap_or_default();
            format!("{file}:{:?}:{:?} {message}", failure.line, failure.column)
        }
        (None, None) => failure.message.clone().unwrap_or_default(),
    }
}

/// `true` if two failures of the same identity are one.
fn is_same(one: &Failure, other: &Failure) -> bool {
    let has_one_file = one.file.is_none() || other.file.is_none() || one.file == other.file;
    let has_one_line = one.line.is_none() || other.line.is_none() || one.line == other.line;
    has_one_file && has_one_line && one.frames == other.frames
}

/// Adds what the failure does not say yet.
fn complete(failure: &mut Failure, more: Failure) {
    if failure.line.is_none() && more.line.is_some() {
        failure.file = more.file.or(failure.file.take());
        failure.line = more.line;
        failure.column = more.column;
    } else if failure.file.is_none() {
        failure.file = more.file;
    }
    failure.message = failure.message.take().or(more.message);
}

/// One run of a tool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Run {
    pub(crate) counts: Counts,
    /// The counts of parts of the run, by the names of the parts.
    parts: BTreeMap<String, Counts>,
    /// The number of all tests, of a tool that does not count those that passed.
    pub(crate) total: Option<u64>,
    /// The number of tests, of a tool whose failures are not whole tests.
    pub(crate) ran: Option<u64>,
    pub(crate) result: Option<String>,
    /// Failures before the counts.
    before: FailureList,
    /// Failures after the counts: of this run, or of the next one.
    after: FailureList,
    pub(crate) warnings: FailureList,
    /// The number of failures that the tool does not count.
    pub(crate) uncounted: u64,
    /// `true` if the run began with a `Run` rule.
    pub(crate) is_started: bool,
    /// `true` if a rule confirmed the run.
    pub(crate) is_signed: bool,
    /// The number of the last line that belongs to the run.
    pub(crate) last_line: u64,
}

impl Run {
    pub(crate) fn add(&mut self, failure: Failure) {
        self.failures_mut().add(failure);
    }

    /// Puts the name of the part of the program that was tested before the names of its failures.
    pub(crate) fn prefix_names(&mut self, part: &str) {
        for list in [&mut self.before, &mut self.after] {
            for kept in &mut list.kept {
                if let Some(name) = &mut kept.failure.name {
                    *name = format!("{part}.{name}");
                }
            }
        }
    }

    pub(crate) fn failures_mut(&mut self) -> &mut FailureList {
        if self.has_counts() { &mut self.after } else { &mut self.before }
    }

    /// Adds a failure that the tool tells again, perhaps after its counts.
    pub(crate) fn repeat(&mut self, failure: Failure) {
        let is_open = |kept: &KeptFailure| !kept.is_repeated;
        if self.has_counts() && self.before.find(&failure, is_open).is_none() {
            self.after.repeat(failure);
        } else {
            self.before.repeat(failure);
        }
    }

    pub(crate) fn failure_count(&self) -> u64 {
        self.before.count + self.after.count
    }

    /// `true` if no failure and no warning was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.failure_count() == 0 && self.warnings.count == 0
    }

    /// `true` if the tool counted failures.
    pub(crate) fn claims_failures(&self, kind: FormatKind) -> bool {
        claimed_failures(kind, &self.counts).is_some_and(|claimed| claimed > 0)
    }

    /// `true` if the failures that the counts claim were read.
    pub(crate) fn has_claimed_failures(&self, kind: FormatKind) -> bool {
        let claimed = claimed_failures(kind, &self.counts).unwrap_or(0);
        claimed + self.uncounted == self.failure_count()
    }

    /// `true` if the run is one of the tool for certain.
    pub(crate) const fn is_confirmed(&self, format: &Format) -> bool {
        !format.needs_sign || self.is_started || self.is_signed
    }

    fn has_counts(&self) -> bool {
        self.counts != Counts::default() || self.total.is_some() || self.ran.is_some()
    }

    /// `true` if both have the same count: the tool has run again.
    pub(crate) fn conflicts_with(&self, other: &Self) -> bool {
        let fields = |run: &Self| {
            let Counts { passed, failed, skipped, errors, warnings } = run.counts;
            [passed, failed, skipped, errors, warnings, run.total, run.ran]
        };
        fields(self).iter().zip(fields(other)).any(|(one, other)| one.is_some() && other.is_some())
    }

    pub(crate) fn add_counts(&mut self, read: &Self) {
        let Counts { passed, failed, skipped, errors, warnings } = read.counts;
        self.counts.passed = self.counts.passed.or(passed);
        self.counts.failed = self.counts.failed.or(failed);
        self.counts.skipped = self.counts.skipped.or(skipped);
        self.counts.errors = self.counts.errors.or(errors);
        self.counts.warnings = self.counts.warnings.or(warnings);
        self.total = self.total.or(read.total);
        self.ran = self.ran.or(read.ran);
        self.uncounted += read.uncounted;
    }

    /// Removes the counts that were read.
    pub(crate) fn forget_counts(&mut self) {
        self.counts = Counts::default();
        self.total = None;
        self.ran = None;
        let after = std::mem::take(&mut self.after);
        self.before.extend(after);
    }

    /// Adds the counts of a part of the run; a part without a name is like no other.
    pub(crate) fn add_part(&mut self, name: Option<String>, counts: Counts) {
        let name = name.unwrap_or_else(|| self.parts.len().to_string());
        if self.parts.len() < MAX_KNOWN {
            let known = self.parts.entry(name).or_default();
            *known = known.zip(counts, u64::max);
        }
    }

    /// Splits off the run whose counts were read now. The failures since the last counts belong to
    /// it, unless the finished run lacks them.
    pub(crate) fn split_off(&mut self, kind: FormatKind) -> Self {
        let claimed = claimed_failures(kind, &self.counts);
        let lacks_them = claimed.is_some_and(|claimed| self.before.count < claimed);
        let mut next = Self::default();
        if !lacks_them {
            next.before = std::mem::take(&mut self.after);
        }
        next
    }

    pub(crate) fn into_report(self, format: &Format) -> ToolReport {
        if !self.is_confirmed(format) {
            return ToolReport { tool: format.name, is_consistent: true, ..ToolReport::default() };
        }
        let Self { mut counts, parts, total, ran, result, mut before, after, warnings, .. } = self;
        counts = parts.into_values().fold(counts, |sum, part| sum.zip(part, |a, b| a + b));
        before.extend(after);
        if let Some(nested_by) = format.nested_by {
            before.remove_outer(nested_by);
        }
        let (failures, failure_count) = before.into_failures();
        let (warnings, warning_count) = warnings.into_failures();
        if format.kind == FormatKind::Tests {
            counts.failed = claimed_failures(format.kind, &counts);
            counts.errors = None;
        }
        if let (None, Some(total)) = (counts.passed, total) {
            let others = counts.failed.unwrap_or(0) + counts.skipped.unwrap_or(0);
            counts.passed = Some(total.saturating_sub(others));
        }
        if let (None, Some(ran), 0) = (counts.passed, ran, counts.failed.unwrap_or(0)) {
            counts.passed = Some(ran.saturating_sub(counts.skipped.unwrap_or(0)));
        }
        let has_verdict = counts.failed.or(counts.passed).is_some() || failure_count == 0;
        if format.kind == FormatKind::Tests && !has_verdict {
            counts.failed = Some(failure_count);
        }
        let claimed = claimed_failures(format.kind, &counts);
        ToolReport {
            tool: format.name,
            line: self.last_line,
            counts,
            result,
            failures,
            failure_count,
            warnings,
            warning_count,
            is_consistent: claimed.is_none_or(|claimed| {
                let listed = failure_count.saturating_sub(self.uncounted);
                let has_some = claimed == 0 || failure_count > 0;
                listed == claimed || (format.counts_groups && has_some && listed < claimed)
            }),
        }
    }
}

/// The number of failures that a tool printed.
fn claimed_failures(kind: FormatKind, counts: &Counts) -> Option<u64> {
    match kind {
        FormatKind::Tests => match (counts.failed, counts.errors) {
            (Some(failed), Some(errors)) => Some(failed + errors),
            (failed, errors) => failed.or(errors),
        },
        FormatKind::Diagnostics => counts.errors,
        FormatKind::Steps | FormatKind::Trace(_) => None,
    }
}

impl Counts {
    /// Combines each count with the other one, where both are known.
    fn zip(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let zip = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(combine(one, other)),
            (one, other) => one.or(other),
        };
        Self {
            passed: zip(self.passed, other.passed),
            failed: zip(self.failed, other.failed),
            skipped: zip(self.skipped, other.skipped),
            errors: zip(self.errors, other.errors),
            warnings: zip(self.warnings, other.warnings),
        }
    }
}

impl ToolReport {
    /// `true` if the report has any content.
    pub(crate) fn says_something(&self) -> bool {
        self.counts != Counts::default()
            || self.result.is_some()
            || self.failure_count > 0
            || self.warning_count > 0
    }

    /// Joins the reports of two runs.
    pub(crate) fn merge(mut self, later: Self) -> Self {
        self.counts = self.counts.zip(later.counts, |one, other| one + other);
        self.line = later.line;
        self.result = later.result.or(self.result);
        self.failures.extend(later.failures);
        self.failures.truncate(MAX_FAILURES);
        self.failure_count += later.failure_count;
        self.warnings.extend(later.warnings);
        self.warnings.truncate(MAX_FAILURES);
        self.warning_count += later.warning_count;
        self.is_consistent &= later.is_consistent;
        self
    }
}
