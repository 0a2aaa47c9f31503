//! Divides templates into groups, and finds the lines that are unlike the others.
//!
//! A cluster has the templates that differ only in a few words, such as the names in a listing. To find it, the
//! words of all templates are compared from left to right. At each position a word is either
//! part of the text (words that each occur in one line of a hundred make up four fifths of the
//! lines: a level, the owner of a file) and divides the templates, or it is a variable part (a
//! name). The search is a decision tree as in IPLoM, with words chosen by their frequency as in
//! SLCT.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::masking::{MASKED, MAX_WORDS, MaskedLine, PATH, mix};
use super::table::{NumberColumns, TemplateEntry};
use crate::summary::{LineGroup, LineGroups, NumberedLine};

/// The most groups that are reported.
const MAX_GROUPS: usize = 8;
/// The most rare lines that are reported.
const MAX_RARE: usize = 10;
/// In shorter outputs no line is rare, and no number is far beyond the others.
const MIN_LINES: u64 = 20;
/// A template that occurs more often is not rare.
const MAX_RARE_COUNT: u64 = 3;
/// A template that occurs this often is a group of its own, unless its cluster is tight.
const FREQUENT_COUNT: u64 = 20;
/// The most clusters that take in lines.
pub(super) const MAX_CLUSTERS: usize = 64;
/// The most groups that are compared to find those that differ in one word.
const MAX_JOINED: usize = 512;
/// Groups that differ in one word are one group if there are this many of them.
const MIN_VARIANTS: usize = 3;
/// The most words in which the lines of joined groups differ.
const MAX_JOINED_WORDS: usize = 3;

/// The templates of a table, divided into groups.
pub(super) struct Grouping<'a> {
    /// The entries of the table, then the merged clusters.
    entries: Vec<&'a TemplateEntry>,
    /// The words of each entry.
    items: Vec<ClusterItem>,
    pub(super) groups: Vec<TemplateGroup>,
    /// Lines that are not blank.
    lines: u64,
    /// Lines outside regular groups.
    irregular: u64,
}

/// Templates that are alike.
pub(super) struct TemplateGroup {
    /// Indices into the entries.
    pub(super) members: Vec<usize>,
    pattern: Pattern,
    lines: u64,
    pub(super) is_regular: bool,
}

impl TemplateGroup {
    /// `true` if other groups may have the pattern of this one.
    fn can_cover(&self) -> bool {
        let stable = self.pattern.stable_words();
        self.is_regular
            && self.pattern.is_tight()
            && (2..self.pattern.words.len()).contains(&stable)
    }

    /// `true` if the other group has the pattern of this one.
    fn covers(&self, other: &Self) -> bool {
        other.is_regular
            && !other.pattern.is_open
            && other.pattern.words.len() == self.pattern.words.len()
            && self.pattern.matches(&other.pattern.words)
    }
}

/// A group, seen without one of its words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Variant {
    position: usize,
    /// The hash of the other words.
    others: u64,
    is_regular: bool,
    group: usize,
}

impl Variant {
    /// `true` if the groups differ in the word at the position only.
    fn is_like(&self, other: &Self) -> bool {
        self.position == other.position
            && self.others == other.others
            && self.is_regular == other.is_regular
    }
}

impl<'a> Grouping<'a> {
    /// Divides the entries; `dropped` lines belong to none of them.
    pub(super) fn new(entries: Vec<&'a TemplateEntry>, dropped: u64) -> Self {
        let mut line = MaskedLine::default();
        let items = entries
            .iter()
            .map(|entry| ClusterItem { words: entry.words(&mut line), lines: entry.count });
        let items = items.collect();
        let filled = || entries.iter().filter(|entry| !entry.is_blank());
        let lines = dropped + filled().map(|entry| entry.count).sum::<u64>();
        let mut grouping = Self { entries, items, groups: Vec::new(), lines, irregular: 0 };
        grouping.divide();
        grouping.absorb_spaced_names();
        for _ in 0..MAX_JOINED_WORDS {
            grouping.join_variants();
        }
        grouping.join_covered();
        let regular = grouping.groups.iter().filter(|group| group.is_regular);
        grouping.irregular = lines - regular.map(|group| group.lines).sum::<u64>();
        grouping
    }

    /// Divides the templates into groups.
    fn divide(&mut self) {
        let all = (0..self.entries.len()).filter(|entry| !self.entries[*entry].is_blank());
        let (filled, bare): (Vec<usize>, Vec<usize>) =
            all.partition(|entry| !self.items[*entry].words.is_empty());
        // A line of punctuation is like no other line.
        bare.into_iter().for_each(|entry| self.push_template(entry));
        let mut rest = Vec::new();
        for cluster in self.find_clusters(filled) {
            if cluster.members.len() == 1 || cluster.pattern.is_tight() {
                self.push_group(cluster);
                continue;
            }
            for member in cluster.members {
                if self.entries[member].count >= FREQUENT_COUNT {
                    self.push_template(member);
                } else {
                    rest.push(member);
                }
            }
        }
        rest.sort_unstable();
        for cluster in self.find_clusters(rest) {
            self.push_group(cluster);
        }
        self.groups.sort_by_key(|group| Reverse(group.lines));
    }

    /// Adds lines with spaces in a name to the group of the lines without.
    fn absorb_spaced_names(&mut self) {
        let groups = std::mem::take(&mut self.groups);
        let (mut regular, irregular): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.is_regular);
        let mut rest = Vec::new();
        for group in irregular {
            let words = &self.items[group.members[0]].words;
            let near = regular.iter_mut().take(MAX_CLUSTERS);
            match near.into_iter().find(|other| other.pattern.matches_spaced_name(words)) {
                Some(other) => {
                    other.lines += group.lines;
                    other.members.extend(group.members);
                }
                None => rest.push(group),
            }
        }
        regular.extend(rest);
        self.groups = regular;
    }

    /// Joins groups that differ in one word, if there are at least three of them. Regular groups
    /// take in no others.
    fn join_variants(&mut self) {
        let mut variants: Vec<Variant> = Vec::new();
        for (index, group) in self.groups.iter().take(MAX_JOINED).enumerate() {
            if !group.pattern.is_open {
                let keys = group.pattern.keys_without_word();
                variants.extend(keys.map(|(position, others)| Variant {
                    position,
                    others,
                    is_regular: group.is_regular,
                    group: index,
                }));
            }
        }
        variants.sort_unstable();
        let mut sets: Vec<&[Variant]> = variants.chunk_by(Variant::is_like).collect();
        sets.sort_by_key(|set| Reverse(set.len()));
        let mut is_joined = vec![false; self.groups.len()];
        for set in sets {
            let free = set.iter().filter(|variant| !is_joined[variant.group]);
            let groups: Vec<usize> = free.map(|variant| variant.group).collect();
            if groups.len() >= MIN_VARIANTS {
                groups.iter().for_each(|group| is_joined[*group] = true);
                self.groups[groups[0]].pattern.words[set[0].position] = VARIABLE;
                self.join(&groups);
            }
        }
        self.groups.retain(|group| !group.members.is_empty());
        self.groups.sort_by_key(|group| Reverse(group.lines));
    }

    /// Joins regular groups with a group whose pattern, with its variable words, is theirs too.
    fn join_covered(&mut self) {
        let count = self.groups.len().min(MAX_CLUSTERS);
        for wide in 0..count {
            if !self.groups[wide].can_cover() {
                continue;
            }
            let covered = (0..count)
                .filter(|group| *group == wide || self.groups[wide].covers(&self.groups[*group]));
            let mut covered: Vec<usize> = covered.collect();
            if covered.len() > 1 {
                covered.sort_by_key(|group| *group != wide);
                self.join(&covered);
            }
        }
        self.groups.retain(|group| !group.members.is_empty());
        self.groups.sort_by_key(|group| Reverse(group.lines));
    }

    /// Joins groups; the pattern of the first one stays.
    fn join(&mut self, groups: &[usize]) {
        let mut lines = 0;
        let mut members = Vec::new();
        for &group in groups {
            members.append(&mut self.groups[group].members);
            lines += std::mem::take(&mut self.groups[group].lines);
        }
        members.sort_unstable();
        let joined = &mut self.groups[groups[0]];
        joined.is_regular |= lines > MAX_RARE_COUNT;
        joined.members = members;
        joined.lines = lines;
    }

    fn find_clusters(&self, members: Vec<usize>) -> Vec<Cluster> {
        find_clusters(&self.items, members)
    }

    fn push_template(&mut self, member: usize) {
        let pattern = match &self.entries[member].pattern {
            Some(pattern) => Pattern::clone(pattern),
            None => Pattern { words: self.items[member].words.clone(), is_open: false },
        };
        self.push_group(Cluster { members: vec![member], pattern });
    }

    /// Adds a cluster, or its templates one by one if they have nothing in common.
    fn push_group(&mut self, cluster: Cluster) {
        let Cluster { members, pattern } = cluster;
        let lines = members.iter().map(|member| self.entries[*member].count).sum();
        let variable_words = pattern.words.len() - pattern.stable_words();
        let min_lines = if members.len() == 1 || (pattern.is_tight() && variable_words <= 1) {
            MAX_RARE_COUNT + 1
        } else if pattern.is_tight() {
            (self.lines / 1000).max(MAX_RARE_COUNT + 1)
        } else if pattern.stable_words() > 0 {
            (self.lines / 50).max(10)
        } else {
            u64::MAX
        };
        let is_regular = lines >= min_lines;
        if is_regular || members.len() == 1 {
            self.groups.push(TemplateGroup { members, pattern, lines, is_regular });
        } else {
            for member in members {
                self.push_template(member);
            }
        }
    }

    /// `true` if a member was a cluster before.
    pub(super) fn has_merged_member(&self, group: &TemplateGroup) -> bool {
        group.members.iter().any(|member| self.entries[*member].pattern.is_some())
    }

    /// `true` if nearly all lines are alike, so that the others stand out.
    pub(super) fn has_rare_lines(&self) -> bool {
        self.lines >= MIN_LINES && self.irregular <= (self.lines / 50).max(3)
    }

    /// `true` if most lines belong to regular groups.
    pub(super) fn is_mostly_regular(&self) -> bool {
        self.irregular * 2 <= self.lines
    }

    pub(super) fn report(&self) -> LineGroups {
        let groups = self.groups.iter().filter(|group| group.lines > 1).take(MAX_GROUPS);
        let mut rare = self.find_outliers();
        rare.truncate(MAX_RARE / 2);
        if self.has_rare_lines() {
            let room = MAX_RARE.saturating_sub(rare.len());
            rare.extend(self.find_rare(room));
        }
        rare.sort_by_key(|line| line.number);
        rare.dedup_by_key(|line| line.number);
        LineGroups { groups: groups.map(|group| self.line_group(group)).collect(), rare }
    }

    fn line_group(&self, group: &TemplateGroup) -> LineGroup {
        let members = || group.members.iter().map(|member| self.entries[*member]);
        let first = members().map(|entry| &entry.first).min_by_key(|line| line.number);
        let last = members().map(TemplateEntry::last).max_by_key(|line| line.number);
        LineGroup {
            count: group.lines,
            first: first.cloned().unwrap_or_default(),
            last: last.cloned().unwrap_or_default(),
        }
    }

    /// The group as one entry.
    pub(super) fn merge(&self, group: &TemplateGroup) -> TemplateEntry {
        let LineGroup { count, first, last } = self.line_group(group);
        let columns = Some(Box::new(self.columns(group)));
        let pattern = Some(Box::new(group.pattern.clone()));
        TemplateEntry { count, first, last, columns, pattern, ..TemplateEntry::default() }
    }

    fn columns(&self, group: &TemplateGroup) -> NumberColumns {
        let mut columns = NumberColumns::default();
        for &member in &group.members {
            self.entries[member].add_numbers_to(&mut columns);
        }
        columns
    }

    /// The lines with a number far beyond all others.
    fn find_outliers(&self) -> Vec<NumberedLine> {
        let is_large = |group: &&TemplateGroup| {
            group.lines >= MIN_LINES && group.lines * 5 >= self.lines && group.is_regular
        };
        let large = self.groups.iter().filter(is_large);
        large.flat_map(|group| self.columns(group).find_outliers(group.lines)).collect()
    }

    /// The lines of rare templates. If there are too many, the first line stands for those that
    /// follow closely, and lines with the most words that no regular line has come first.
    fn find_rare(&self, room: usize) -> Vec<NumberedLine> {
        let irregular = self.groups.iter().filter(|group| !group.is_regular);
        let members = irregular.flat_map(|group| group.members.iter().copied());
        let mut rare: Vec<usize> =
            members.filter(|member| self.entries[*member].count <= MAX_RARE_COUNT).collect();
        let number = |member: usize| self.entries[member].first.number;
        rare.sort_by_key(|member| number(*member));
        if rare.len() > room {
            let mut previous = 0;
            rare.retain(|member| {
                let distance = number(*member) - previous;
                previous = number(*member);
                previous == distance || distance > 3
            });
        }
        if rare.len() > room {
            let known = self.regular_words();
            let new_words = |member: &usize| {
                let words = self.items[*member].words.iter();
                words.filter(|word| !known.contains(word)).count()
            };
            rare.sort_by_cached_key(|member| Reverse(new_words(member)));
            rare.truncate(room);
        }
        rare.into_iter().map(|member| self.entries[member].first.clone()).collect()
    }

    fn regular_words(&self) -> HashSet<u32> {
        let regular = self.groups.iter().filter(|group| group.is_regular);
        let members = regular.flat_map(|group| group.members.iter());
        members.flat_map(|member| self.items[*member].words.iter().copied()).collect()
    }
}

/// The word of a pattern that stands for any word.
const VARIABLE: u32 = 0;

/// The most words that a name with spaces has after the first one.
const MAX_NAME_WORDS: usize = 4;

/// The word behind the end of a line.
const END: u32 = 3;

/// A template, or several that were merged before.
#[derive(Debug)]
struct ClusterItem {
    /// The hashes of the words, or [`VARIABLE`].
    words: Vec<u32>,
    /// The number of lines.
    lines: u64,
}

/// Templates that have a pattern in common.
#[derive(Debug, PartialEq, Eq)]
struct Cluster {
    /// Indices into the items, in ascending order.
    members: Vec<usize>,
    /// The common pattern.
    pattern: Pattern,
}

/// The words that the lines of a cluster have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pattern {
    /// The words, or [`VARIABLE`].
    pub(super) words: Vec<u32>,
    /// `true` if free text of any length follows.
    pub(super) is_open: bool,
}

impl Pattern {
    /// The number of words that are the same in all lines.
    fn stable_words(&self) -> usize {
        self.words.iter().filter(|word| **word != VARIABLE).count()
    }

    /// `true` if the lines are alike in most words, or are one or two words each.
    fn is_tight(&self) -> bool {
        let variable = self.words.len() - self.stable_words();
        !self.is_open && (variable * 3 <= self.words.len() || variable <= 1)
    }

    /// The positions of the words, each with a hash of all other words. Positions are left out if
    /// the other words say little.
    fn keys_without_word(&self) -> impl Iterator<Item = (usize, u64)> {
        let length = self.words.len();
        let is_constant = |word: u32| !matches!(word, VARIABLE | MASKED | PATH);
        let constants = self.words.iter().filter(|word| is_constant(**word)).count();
        let stable = self.stable_words();
        let positions = self.words.iter().copied().enumerate().filter(move |(_, word)| {
            let is_stable = usize::from(*word != VARIABLE);
            constants > usize::from(is_constant(*word)) && stable - is_stable >= 2
        });
        positions.map(move |(position, _)| {
            let others = self.words.iter().enumerate().filter(move |(index, _)| *index != position);
            (position, others.fold(length as u64, |hash, (_, word)| mix(hash, u64::from(*word))))
        })
    }

    /// `true` if the pattern ends with a name, and a line with these words goes on for a few words
    /// there: names may contain spaces.
    fn matches_spaced_name(&self, words: &[u32]) -> bool {
        let ends_with_name = matches!(self.words.last(), Some(&(PATH | VARIABLE)));
        let extra = words.len().saturating_sub(self.words.len());
        ends_with_name
            && !self.is_open
            && self.stable_words() > 0
            && (1..=MAX_NAME_WORDS).contains(&extra)
            && self.words.iter().zip(words).all(|(own, word)| *own == VARIABLE || own == word)
    }

    /// `true` if a line with these words has the pattern.
    pub(super) fn matches(&self, words: &[u32]) -> bool {
        let can_be_longer =
            self.is_open || (self.words.last() == Some(&VARIABLE) && self.stable_words() >= 2);
        let has_length =
            words.len() == self.words.len() || (words.len() > self.words.len() && can_be_longer);
        has_length
            && self.words.iter().zip(words).all(|(own, word)| *own == VARIABLE || own == word)
    }
}

/// Divides the members, indices into the items in ascending order, into clusters. Each member
/// belongs to one of them.
fn find_clusters(items: &[ClusterItem], members: Vec<usize>) -> Vec<Cluster> {
    let mut clusters = Vec::new();
    let mut open = vec![ClusterNode { members, pattern: Pattern::default() }];
    while let Some(mut node) = open.pop() {
        loop {
            match node.examine(items) {
                ClusterStep::Extend(word) => node.pattern.words.push(word),
                ClusterStep::Close => break,
                ClusterStep::Open => {
                    node.pattern.is_open = true;
                    break;
                }
                ClusterStep::Split(mut parts) => {
                    node.members = parts.pop().unwrap_or_default();
                    open.extend(
                        parts
                            .into_iter()
                            .map(|members| ClusterNode { members, pattern: node.pattern.clone() }),
                    );
                }
            }
        }
        if !node.members.is_empty() {
            clusters.push(Cluster { members: node.members, pattern: node.pattern });
        }
    }
    clusters.sort_by_key(|cluster| cluster.members.first().copied());
    clusters
}

/// A set of items that have the first words in common.
struct ClusterNode {
    members: Vec<usize>,
    pattern: Pattern,
}

/// The next step for a [`ClusterNode`].
enum ClusterStep {
    /// All items have this word at the position, or it is variable.
    Extend(u32),
    /// All lines end here.
    Close,
    /// Free text begins here.
    Open,
    /// The word at the position divides the items.
    Split(Vec<Vec<usize>>),
}

impl ClusterNode {
    fn examine(&self, items: &[ClusterItem]) -> ClusterStep {
        let position = self.pattern.words.len();
        if position >= MAX_WORDS {
            return ClusterStep::Open;
        }
        let total = count_lines(items, &self.members);
        let ended: Vec<usize> = self.at_end(items, position);
        let ended_lines = count_lines(items, &ended);
        if ended_lines == total {
            return ClusterStep::Close;
        }
        let is_after_variable = self.pattern.words.last() == Some(&VARIABLE);
        if is_after_variable && ended_lines * 10 >= total * 9 {
            return ClusterStep::Close;
        }
        if is_after_variable && ended_lines * 20 >= total {
            return ClusterStep::Open;
        }
        // Single lines that end in free text say nothing about the words at this position.
        let skipped = if is_after_variable { ended } else { Vec::new() };
        self.divide(items, position, skipped)
    }

    fn at_end(&self, items: &[ClusterItem], position: usize) -> Vec<usize> {
        let members = self.members.iter().copied();
        members.filter(|member| items[*member].words.len() <= position).collect()
    }

    /// Divides the members by their words at `position` if few words make up nearly all lines.
    fn divide(&self, items: &[ClusterItem], position: usize, skipped: Vec<usize>) -> ClusterStep {
        let word_at = |member: usize| items[member].words.get(position).copied().unwrap_or(END);
        let members = self.members.iter().copied();
        let members = members.filter(|member| skipped.binary_search(member).is_err());
        let mut words: Vec<(u32, usize)> =
            members.map(|member| (word_at(member), member)).collect();
        words.sort_unstable();
        let total: u64 = words.iter().map(|(_, member)| items[*member].lines).sum();
        let min_lines = (total / 100).max(3).min(total);
        let mut common = Vec::new();
        let mut others = Vec::new();
        for part in words.chunk_by(|one, other| one.0 == other.0) {
            let members = part.iter().map(|(_, member)| *member);
            let lines: u64 = members.clone().map(|member| items[member].lines).sum();
            if lines >= min_lines && part[0].0 != VARIABLE {
                common.push((lines, members.collect::<Vec<usize>>()));
            } else {
                others.extend(members);
            }
        }
        let common_lines: u64 = common.iter().map(|(lines, _)| lines).sum();
        if common_lines * 5 < total * 4 {
            return ClusterStep::Extend(VARIABLE);
        }
        common.sort_by_key(|(lines, part)| (*lines, part[0]));
        let mut parts: Vec<Vec<usize>> = common.into_iter().map(|(_, part)| part).collect();
        if let [part] = parts.as_slice()
            && others.is_empty()
        {
            return ClusterStep::Extend(word_at(part[0]));
        }
        if let Some(largest) = parts.last_mut() {
            largest.extend(skipped);
            largest.sort_unstable();
        }
        if !others.is_empty() {
            others.sort_unstable();
            parts.insert(0, others);
        }
        ClusterStep::Split(parts)
    }
}

fn count_lines(items: &[ClusterItem], members: &[usize]) -> u64 {
    members.iter().map(|member| items[*member].lines).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn find(lines: &[&[u32]]) -> Vec<Cluster> {
        let items = lines.iter().map(|words| ClusterItem { words: words.to_vec(), lines: 1 });
        let items: Vec<ClusterItem> = items.collect();
        find_clusters(&items, (0..items.len()).collect())
    }

    #[test]
    fn a_word_that_differs_everywhere_is_variable() {
        let found = find(&[&[10, 21, 30], &[10, 22, 30], &[10, 23, 30], &[10, 24, 30]]);
        let pattern = Pattern { words: vec![10, VARIABLE, 30], is_open: false };
        assert_eq!(found, [Cluster { members: vec![0, 1, 2, 3], pattern }]);
        assert!(found[0].pattern.is_tight());
    }

    #[test]
    fn a_word_of_few_kinds_divides_the_lines() {
        let mut lines: Vec<&[u32]> = vec![&[1, 50], &[1, 51], &[1, 52], &[1, 53], &[1, 54]];
        lines.extend([&[2, 60, 70][..], &[2, 61, 70], &[2, 62, 70], &[2, 63, 70], &[9, 80]]);
        let found = find(&lines);
        let members: Vec<&[usize]> = found.iter().map(|found| found.members.as_slice()).collect();
        assert_eq!(members, [&[0, 1, 2, 3, 4][..], &[5, 6, 7, 8], &[9]]);
    }

    #[test]
    fn free_text_of_different_length_leaves_the_pattern_open() {
        let found = find(&[&[10, 20], &[10, 21, 22], &[10, 23, 24, 25], &[10, 26, 27]]);
        let pattern = Pattern { words: vec![10, VARIABLE], is_open: true };
        assert_eq!(found[0].pattern, pattern);
        assert!(pattern.matches(&[10, 99, 98, 97]) && !pattern.matches(&[11, 99]));
        assert!(!pattern.is_tight());
    }

    proptest! {
        #[test]
        fn each_item_is_in_one_cluster(
            lines in prop::collection::vec(prop::collection::vec(0_u32..6, 0..30), 0..60),
        ) {
            let lines: Vec<&[u32]> = lines.iter().map(Vec::as_slice).collect();
            let found = find(&lines);
            let mut members: Vec<usize> =
                found.into_iter().flat_map(|cluster| cluster.members).collect();
            members.sort_unstable();
            prop_assert_eq!(members, (0..lines.len()).collect::<Vec<_>>());
        }
    }
}
