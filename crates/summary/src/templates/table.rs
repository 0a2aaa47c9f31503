//! The table of templates.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::entry::TemplateEntry;
use super::grouping::{Grouping, MAX_CLUSTERS};
use super::masking::MaskedLine;
use crate::summary::LineGroups;

/// The most templates that are counted one by one.
const MAX_TEMPLATES: usize = 8192;

/// Counts lines by template, in bounded memory.
#[derive(Debug, Default)]
pub struct TemplateTable {
    /// Indices into `entries` by the hash of the masked line.
    index: HashMap<u64, usize, BuildHasherDefault<KnownHash>>,
    entries: Vec<TemplateEntry>,
    /// Clusters that were merged when the table was full.
    merged: Vec<TemplateEntry>,
    /// Lines whose templates were dropped.
    dropped: u64,
    /// The line that is being counted.
    line: MaskedLine,
    /// The entry of a line that was counted by a merged cluster.
    transient: TemplateEntry,
}

impl TemplateTable {
    /// Creates an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a line, and returns the template that it belongs to.
    ///
    /// `text` is a line without its newline. The entry is a new one, with a count of 1, for each
    /// line that is not counted by its own template: lines of a merged cluster may differ in more
    /// than numbers.
    pub fn count(&mut self, number: u64, text: &str) -> &mut TemplateEntry {
        self.line.read(text);
        let hash = self.line.hash;
        if let Some(&index) = self.index.get(&hash) {
            let entry = &mut self.entries[index];
            entry.add(number, text, &self.line);
            return entry;
        }
        let words = self.line.words();
        if let Some(cluster) = self.merged.iter_mut().find(|entry| entry.has_pattern_of(words)) {
            cluster.add(number, text, &self.line);
            self.transient = TemplateEntry::transient();
            return &mut self.transient;
        }
        if self.entries.len() >= MAX_TEMPLATES {
            self.compact();
            return self.count(number, text);
        }
        let index = self.entries.len();
        self.index.insert(hash, index);
        self.entries.push(TemplateEntry::new(hash, number, text));
        &mut self.entries[index]
    }

    /// Reports the largest groups of similar lines, and the lines that are unlike the others.
    #[must_use]
    pub fn groups(&self) -> LineGroups {
        self.grouping().report()
    }

    fn grouping(&self) -> Grouping<'_> {
        Grouping::new(self.entries.iter().chain(&self.merged).collect(), self.dropped)
    }

    /// Replaces the members of each regular cluster by the cluster.
    fn compact(&mut self) {
        let grouping = self.grouping();
        let has_rare_lines = grouping.has_rare_lines();
        let mut merged = Vec::new();
        let entry_count = self.entries.len();
        let mut is_member = vec![false; entry_count];
        for group in &grouping.groups {
            let is_merged = grouping.has_merged_member(group);
            let is_new = group.is_regular && group.members.len() > 1;
            if merged.len() == MAX_CLUSTERS || !(is_merged || is_new) {
                continue;
            }
            merged.push(grouping.merge(group));
            let own_members = group.members.iter().filter(|member| **member < entry_count);
            own_members.for_each(|member| is_member[*member] = true);
        }
        let entries = std::mem::take(&mut self.entries);
        let own: u64 = entries.iter().map(|entry| entry.count).sum();
        let before: u64 = own + self.merged.iter().map(|entry| entry.count).sum::<u64>();
        let mut kept: Vec<TemplateEntry> = entries
            .into_iter()
            .zip(is_member)
            .filter(|(entry, is_member)| !is_member && (has_rare_lines || entry.count > 1))
            .map(|(entry, _)| entry)
            .collect();
        // A stable sort: of templates that occur equally often, the earlier ones are kept.
        kept.sort_by_key(|entry| Reverse(entry.count));
        kept.truncate(MAX_TEMPLATES / 2);
        kept.sort_by_key(|entry| entry.first.number);
        let after: u64 = kept.iter().chain(&merged).map(|entry| entry.count).sum();
        self.dropped += before - after;
        self.index = kept.iter().enumerate().map(|(index, entry)| (entry.hash, index)).collect();
        self.entries = kept;
        self.merged = merged;
    }
}

/// Passes a hash through unchanged.
#[derive(Debug, Default)]
struct KnownHash(u64);

impl Hasher for KnownHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
