//! Finds templates that differ only in a few words, such as the names in a listing.
//!
//! The words of all templates are compared from left to right. At each position a word is either
//! part of the text (words that each occur in one line of a hundred make up four fifths of the
//! lines: a level, the owner of a file) and divides the templates, or it is a variable part (a
//! name). The search is a decision tree as in IPLoM, with words chosen by their frequency as in
//! SLCT.

use super::masking::{MASKED, MAX_WORDS, PATH, mix};

/// The word of a pattern that stands for any word.
pub(super) const VARIABLE: u32 = 0;

/// The most words that a name with spaces has after the first one.
const MAX_NAME_WORDS: usize = 4;

/// The word behind the end of a line.
const END: u32 = 3;

/// A template, or several that were merged before.
#[derive(Debug)]
pub(super) struct ClusterItem {
    /// The hashes of the words, or [`VARIABLE`].
    pub(super) words: Vec<u32>,
    /// The number of lines.
    pub(super) lines: u64,
}

/// Templates that have a pattern in common.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cluster {
    /// Indices into the items, in ascending order.
    pub(super) members: Vec<usize>,
    /// The common pattern.
    pub(super) pattern: Pattern,
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
    pub(super) fn stable_words(&self) -> usize {
        self.words.iter().filter(|word| **word != VARIABLE).count()
    }

    /// `true` if the lines are alike in most words, or are one or two words each.
    pub(super) fn is_tight(&self) -> bool {
        let variable = self.words.len() - self.stable_words();
        !self.is_open && (variable * 3 <= self.words.len() || variable <= 1)
    }

    /// The positions of the words, each with a hash of all other words. Positions are left out if
    /// the other words say little.
    pub(super) fn keys_without_word(&self) -> impl Iterator<Item = (usize, u64)> {
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
    pub(super) fn matches_spaced_name(&self, words: &[u32]) -> bool {
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
pub(super) fn find_clusters(items: &[ClusterItem], members: Vec<usize>) -> Vec<Cluster> {
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
