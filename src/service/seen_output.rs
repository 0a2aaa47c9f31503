//! The output that each caller has been shown, so that no reply shows it to that caller again.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::ids::{CallerSession, JobId};
use crate::spec::Stream;

/// The most ranges that are remembered of one output; beyond that, the smallest is forgotten, and
/// counts as unseen again.
const MAX_RANGES: usize = 16;

/// The most outputs that are remembered; beyond that, all of them count as unseen again.
const MAX_OUTPUTS: usize = 10_000;

/// The parts of one job's output that one caller has been shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenOutput {
    /// The shown bytes, in order, with a gap between any two ranges.
    ranges: Vec<Range<u64>>,
    /// The end of the output that a wait for a line need not search again.
    searched: u64,
}

impl SeenOutput {
    /// Adds bytes that were shown.
    pub fn add(&mut self, shown: Range<u64>) {
        if shown.is_empty() {
            return;
        }
        let touches = |range: &Range<u64>| range.start <= shown.end && shown.start <= range.end;
        let touched: Vec<Range<u64>> = self.ranges.extract_if(.., |range| touches(range)).collect();
        let start = touched.first().map_or(shown.start, |first| first.start.min(shown.start));
        let end = touched.last().map_or(shown.end, |last| last.end.max(shown.end));
        let index = self.ranges.partition_point(|range| range.end < start);
        self.ranges.insert(index, start..end);
        if self.ranges.len() > MAX_RANGES {
            self.forget_smallest(index);
        }
    }

    /// Forgets the smallest range except the one at `added`, and never the last one, because waits
    /// show what comes after it.
    fn forget_smallest(&mut self, added: usize) {
        let older = self.ranges[..self.ranges.len() - 1].iter().enumerate();
        let others = older.filter(|(index, _)| *index != added);
        if let Some((index, _)) = others.min_by_key(|(_, range)| range.end - range.start) {
            self.ranges.remove(index);
        }
    }

    /// Records that a wait for a line need not search the output before `end` again, nor what was
    /// shown from there on without a gap.
    fn skip_search(&mut self, end: u64) {
        let searched = self.searched.max(end);
        let shown = self.ranges.iter().rfind(|range| range.start <= searched);
        self.searched = searched.max(shown.map_or(0, |range| range.end));
    }

    /// The first bytes that were not shown; the range ends where shown bytes follow, and at
    /// `u64::MAX` if none do.
    #[must_use]
    pub fn first_unseen(&self) -> Range<u64> {
        match self.ranges.as_slice() {
            [first, ..] if first.start > 0 => 0..first.start,
            [first, second, ..] => first.end..second.start,
            [first] => first.end..u64::MAX,
            [] => 0..u64::MAX,
        }
    }

    /// The end of the last bytes that were shown: everything after it is new.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.ranges.last().map_or(0, |last| last.end)
    }

    /// The offset from which a wait looks for a line.
    #[must_use]
    pub const fn search_start(&self) -> u64 {
        self.searched
    }
}

/// An output as one caller sees it: the job, and the stream if only one was read.
type SeenKey<'a> = (&'a CallerSession, JobId, Option<Stream>);

/// The output that callers have been shown, by session and job.
#[derive(Debug, Default)]
pub(super) struct SeenOutputs {
    /// Values by a hash of their key: the session may be a text of any size.
    rows: Mutex<HashMap<u64, SeenOutput>>,
    hasher: RandomState,
}

impl SeenOutputs {
    /// Records that these bytes were shown: of all output, or of one stream alone, because the bytes
    /// of the other one lie in between.
    pub(super) fn add(&self, key: SeenKey<'_>, shown: impl Iterator<Item = Range<u64>>) {
        self.change(key, |seen| shown.for_each(|shown| seen.add(shown)));
    }

    /// Records that the caller need not be told of lines before `end` any more, nor of those that
    /// were shown after it without a gap.
    pub(super) fn skip_search(&self, key: SeenKey<'_>, end: u64) {
        self.change(key, |seen| seen.skip_search(end));
    }

    /// Returns what the caller has been shown of the output, or of one stream.
    pub(super) fn find(&self, (session, job, stream): SeenKey<'_>) -> SeenOutput {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let row = |stream| rows.get(&self.row((session, job, stream))).cloned().unwrap_or_default();
        let mut seen = row(None);
        if stream.is_some() {
            row(stream).ranges.into_iter().for_each(|range| seen.add(range));
        }
        seen
    }

    fn change(&self, key: SeenKey<'_>, change: impl FnOnce(&mut SeenOutput)) {
        let row = self.row(key);
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.len() >= MAX_OUTPUTS && !rows.contains_key(&row) {
            rows.clear();
        }
        change(rows.entry(row).or_default());
    }

    fn row(&self, key: SeenKey<'_>) -> u64 {
        self.hasher.hash_one(key)
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn show_ranges(shown: &[(u64, u64)]) -> SeenOutput {
        let mut seen = SeenOutput::default();
        shown.iter().for_each(|(start, end)| seen.add(*start..*end));
        seen
    }

    #[test]
    fn the_first_gap_is_unseen_and_everything_after_the_last_range_is_new() {
        for (seen, unseen, end) in [
            (show_ranges(&[]), 0..u64::MAX, 0),
            (show_ranges(&[(0, 10)]), 10..u64::MAX, 10),
            (show_ranges(&[(20, 30)]), 0..20, 30),
            (show_ranges(&[(0, 10), (20, 30)]), 10..20, 30),
            (show_ranges(&[(0, 10), (20, 30), (10, 15)]), 15..20, 30),
            (show_ranges(&[(0, 10), (20, 30), (10, 20)]), 30..u64::MAX, 30),
            (show_ranges(&[(0, 10), (5, 8), (8, 12)]), 12..u64::MAX, 12),
            (show_ranges(&[(0, 10), (12, 12)]), 10..u64::MAX, 10),
        ] {
            assert_eq!((seen.first_unseen(), seen.end()), (unseen, end), "{seen:?}");
        }
    }

    #[test]
    fn a_search_skips_what_was_shown_without_a_gap_once_a_wait_or_read_has_said_so() {
        let mut output = show_ranges(&[(0, 10), (20, 30)]);
        assert_eq!(output.search_start(), 0, "how much a first reply shows is a matter of timing");
        output.skip_search(0);
        assert_eq!(output.search_start(), 10, "what is in the gap is searched");
        output.skip_search(25);
        assert_eq!(output.search_start(), 30);
        output.skip_search(0);
        assert_eq!(output.search_start(), 30);
    }

    #[test]
    fn callers_jobs_and_streams_are_told_apart() {
        let seen = SeenOutputs::default();
        let one = CallerSession::Connection(1);
        let other = CallerSession::Connection(2);
        let job = JobId::local(1);
        seen.add((&one, job, None), iter::once(0..10));
        seen.add((&one, job, Some(Stream::Stderr)), iter::once(10..20));
        let end = |key| seen.find(key).end();
        assert_eq!(end((&one, job, None)), 10);
        assert_eq!(end((&one, job, Some(Stream::Stderr))), 20);
        assert_eq!(end((&one, job, Some(Stream::Stdout))), 10);
        assert_eq!((end((&other, job, None)), end((&one, JobId::local(2), None))), (0, 0));
    }

    #[test]
    fn rows_are_bounded() {
        let seen = SeenOutputs::default();
        let session = CallerSession::Connection(1);
        for number in 1..=3 * MAX_OUTPUTS as u64 {
            seen.add((&session, JobId::local(number), None), iter::once(0..1));
        }
        assert!(seen.rows.lock().unwrap().len() <= MAX_OUTPUTS);
    }

    proptest! {
        #[test]
        fn nothing_counts_as_seen_that_was_not_shown(
            shown in vec((0..200_u64, 0..20_u64), 0..60),
        ) {
            let mut seen = SeenOutput::default();
            let mut bytes = vec![false; 300];
            let mut end = 0;
            for (start, length) in shown {
                seen.add(start..start + length);
                (start..start + length).for_each(|byte| bytes[byte as usize] = true);
                end = if length > 0 { end.max(start + length) } else { end };
            }
            prop_assert_eq!(seen.end(), end);
            prop_assert!(seen.ranges.len() <= MAX_RANGES);
            prop_assert!(seen.ranges.is_sorted_by(|one, next| one.end < next.start));
            for range in &seen.ranges {
                prop_assert!(range.clone().all(|byte| bytes[byte as usize]), "{range:?}");
            }
        }

        #[test]
        fn reading_what_is_unseen_ends_with_everything_seen(
            shown in vec((0..200_u64, 1..20_u64), 0..60),
            page in 1..50_u64,
        ) {
            let mut seen = SeenOutput::default();
            shown.into_iter().for_each(|(start, length)| seen.add(start..start + length));
            let mut at = 0;
            while seen.first_unseen().start < 300 {
                let unseen = seen.first_unseen();
                prop_assert!(unseen.start >= at && unseen.start < unseen.end, "in order: {unseen:?}");
                at = unseen.end.min(unseen.start + page);
                seen.add(unseen.start..at);
            }
        }
    }
}
