//! Divides templates into groups, and finds the lines that are unlike the others.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::clusters::{Cluster, ClusterItem, Pattern, VARIABLE, find_clusters};
use super::entry::TemplateEntry;
use super::masking::MaskedLine;
use super::outliers::NumberColumns;
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
