//! The table of templates: the lines of each, and the numbers that are far beyond all others at their position
//! in similar lines.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::grouping::{Grouping, MAX_CLUSTERS, Pattern};
use super::masking::{BLANK, LineNumber, MaskedLine, PATH};
use crate::severity::LineSeverity;
use crate::summary::{LineGroups, NumberedLine};

/// A full table is sampled with one template in this many.
const SAMPLE_STEP: usize = 8;
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
    /// All lines.
    lines: u64,
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
        self.lines += 1;
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
            self.lines -= 1;
            return self.count(number, text);
        }
        let index = self.entries.len();
        self.index.insert(hash, index);
        self.entries.push(TemplateEntry::new(hash, number, text));
        &mut self.entries[index]
    }

    /// `true` if the line that was counted last is nothing but a path, such as the heading of a
    /// linter: all paths have one template.
    pub(crate) fn is_bare_path(&self) -> bool {
        self.line.words() == [PATH]
    }

    /// The entry of the line that was counted last.
    pub(crate) fn last_entry(&mut self) -> &mut TemplateEntry {
        match self.index.get(&self.line.hash) {
            Some(&index) => &mut self.entries[index],
            None => &mut self.transient,
        }
    }

    /// Reports the largest groups of similar lines, and the lines that are unlike the others.
    #[must_use]
    pub fn groups(&self) -> LineGroups {
        self.grouping().report()
    }

    /// The number of lines whose templates were dropped.
    fn dropped(&self) -> u64 {
        let kept = self.entries.iter().chain(&self.merged).map(|entry| entry.count);
        self.lines - kept.sum::<u64>()
    }

    fn grouping(&self) -> Grouping<'_> {
        Grouping::new(self.entries.iter().chain(&self.merged).collect(), self.dropped())
    }

    /// Makes room: replaces the members of each regular cluster by the cluster, and drops templates
    /// that occurred once. A sample tells if there are clusters at all.
    fn compact(&mut self) {
        let sample = self.entries.iter().step_by(SAMPLE_STEP).collect();
        if !Grouping::new(sample, 0).is_mostly_regular() {
            let entries = std::mem::take(&mut self.entries);
            self.keep_entries(entries.into_iter().filter(|entry| entry.count > 1).collect());
            return;
        }
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
        let entries = std::mem::take(&mut self.entries).into_iter().zip(is_member);
        let others =
            entries.filter(|(entry, is_member)| !is_member && (has_rare_lines || entry.count > 1));
        let others = others.map(|(entry, _)| entry).collect();
        self.merged = merged;
        self.keep_entries(others);
    }

    /// Sets the entries to the most frequent of these, at most half of what the table can hold.
    fn keep_entries(&mut self, mut entries: Vec<TemplateEntry>) {
        // A stable sort: of templates that occur equally often, the earlier ones are kept.
        entries.sort_by_key(|entry| Reverse(entry.count));
        entries.truncate(MAX_TEMPLATES / 2);
        entries.sort_by_key(|entry| entry.first.number);
        self.index = entries.iter().enumerate().map(|(index, entry)| (entry.hash, index)).collect();
        self.entries = entries;
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

/// The longest text that is kept of a line, in bytes.
const MAX_TEXT_BYTES: usize = 400;

/// The lines of one template.
#[derive(Debug, Default)]
pub struct TemplateEntry {
    pub(super) hash: u64,
    pub(super) count: u64,
    pub(super) first: NumberedLine,
    /// Empty while `count` is 1.
    pub(super) last: NumberedLine,
    /// `None` while `first` and `last` are all lines.
    pub(super) columns: Option<Box<NumberColumns>>,
    /// The pattern of a merged cluster.
    pub(super) pattern: Option<Box<Pattern>>,
    /// Notes of the reader about lines of this template.
    pub(crate) marks: LineMarks,
}

/// Notes about the lines of a template.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LineMarks {
    /// The number of lines that were examined.
    pub(crate) examined: u8,
    /// `true` if a rule applied to one of them.
    pub(crate) is_relevant: bool,
    /// The severity of the last line.
    pub(crate) severity: Option<LineSeverity>,
}

impl TemplateEntry {
    pub(super) fn new(hash: u64, number: u64, text: &str) -> Self {
        let first = NumberedLine { number, text: clip(text).to_owned() };
        Self { hash, count: 1, first, ..Self::default() }
    }

    /// An entry for one line that is counted elsewhere.
    fn transient() -> Self {
        Self { count: 1, ..Self::default() }
    }

    /// `true` if a line with these words belongs to the merged cluster.
    fn has_pattern_of(&self, words: &[u32]) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.matches(words))
    }

    /// The number of lines so far.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn add(&mut self, number: u64, text: &str, line: &MaskedLine) {
        if self.count == 2 && self.columns.is_none() && !line.numbers().is_empty() {
            let mut columns = NumberColumns::default();
            self.add_numbers_to(&mut columns);
            self.columns = Some(Box::new(columns));
        }
        self.count += 1;
        if let Some(columns) = &mut self.columns {
            columns.add(number, clip(text), line.numbers());
        }
        self.last.number = number;
        self.last.text.clear();
        self.last.text.push_str(clip(text));
    }

    /// Adds the numbers of all lines.
    pub(super) fn add_numbers_to(&self, columns: &mut NumberColumns) {
        if let Some(own) = &self.columns {
            columns.merge(own);
        } else if self.count <= 2 {
            let mut line = MaskedLine::default();
            let samples = if self.count == 1 { 1 } else { 2 };
            for sample in [&self.first, &self.last].into_iter().take(samples) {
                line.read(&sample.text);
                columns.add(sample.number, &sample.text, line.numbers());
            }
        }
    }

    pub(super) const fn last(&self) -> &NumberedLine {
        if self.count == 1 { &self.first } else { &self.last }
    }

    pub(super) fn is_blank(&self) -> bool {
        self.pattern.is_none() && self.hash == BLANK
    }

    /// The words that are compared with those of other templates.
    pub(super) fn words(&self, line: &mut MaskedLine) -> Vec<u32> {
        if let Some(pattern) = &self.pattern {
            return pattern.words.clone();
        }
        line.read(&self.first.text);
        line.words().to_vec()
    }
}

/// Cuts a text that is too long to keep.
fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}

/// A number is far beyond another one if it is this many times as large.
const FAR_FACTOR: f64 = 8.0;

/// The most positions that are compared.
const MAX_COLUMNS: usize = 12;

/// The most lines that are kept, and that are reported.
const MAX_LINES: usize = 4;

/// The share of lines with a number at a position, in percent, that makes the position a column.
const MIN_SHARE: u64 = 90;

/// The largest numbers at each position of similar lines.
#[derive(Debug, Clone, Default)]
pub(super) struct NumberColumns {
    columns: Vec<Column>,
    /// Lines with a number that was far beyond the others when it was read.
    lines: Vec<NumberedLine>,
}

/// The numbers at one position.
#[derive(Debug, Clone, Copy)]
struct Column {
    /// The column of the number, see [`LineNumber::column`].
    position: u16,
    seen: u64,
    /// The largest numbers, in descending order. The last one shows the size of all the others.
    top: [TopNumber; 3],
}

/// A number with its line.
#[derive(Debug, Clone, Copy, Default)]
struct TopNumber {
    value: f64,
    line: u64,
}

impl NumberColumns {
    /// Adds the numbers of a line.
    ///
    /// The text is kept only if a number is far beyond the third largest one. As that one never
    /// becomes smaller, no line is missed.
    pub(super) fn add(&mut self, line: u64, text: &str, numbers: &[LineNumber]) {
        let mut is_far_line = false;
        for (index, number) in numbers.iter().enumerate() {
            if let Some(column) = self.column(index, number.column) {
                column.seen += 1;
                is_far_line |= column.insert(TopNumber { value: number.value, line });
            }
        }
        if is_far_line {
            self.keep_line(line, text);
        }
    }

    /// Adds the numbers of other lines.
    pub(super) fn merge(&mut self, other: &Self) {
        for (index, theirs) in other.columns.iter().enumerate() {
            if let Some(column) = self.column(index, theirs.position) {
                column.seen += theirs.seen;
                for number in theirs.top {
                    column.insert(number);
                }
            }
        }
        for line in &other.lines {
            self.keep_line(line.number, &line.text);
        }
    }

    /// Returns the lines with a number that is far beyond all others, or two of them.
    pub(super) fn find_outliers(&self, lines: u64) -> Vec<NumberedLine> {
        let columns = self.columns.iter();
        let columns = columns.filter(|column| column.seen * 100 >= lines * MIN_SHARE);
        let numbers: Vec<u64> = columns.flat_map(|column| column.outliers()).collect();
        let outliers = self.lines.iter().filter(|line| numbers.contains(&line.number));
        outliers.cloned().collect()
    }

    fn column(&mut self, index: usize, position: u16) -> Option<&mut Column> {
        let is_at_index = self.columns.get(index).is_some_and(|column| column.position == position);
        let found = if is_at_index {
            Some(index)
        } else {
            self.columns.iter().position(|column| column.position == position)
        };
        let index = match found {
            Some(index) => index,
            None if self.columns.len() < MAX_COLUMNS => {
                self.columns.push(Column { position, seen: 0, top: [TopNumber::default(); 3] });
                self.columns.len() - 1
            }
            None => return None,
        };
        self.columns.get_mut(index)
    }

    fn keep_line(&mut self, number: u64, text: &str) {
        if self.lines.iter().any(|line| line.number == number) {
            return;
        }
        if self.lines.len() >= MAX_LINES {
            let columns = &self.columns;
            self.lines.retain(|line| columns.iter().any(|column| column.is_far_line(line.number)));
        }
        if self.lines.len() < MAX_LINES {
            self.lines.push(NumberedLine { number, text: text.to_owned() });
        }
    }
}

impl Column {
    /// Adds a number. Returns `true` if it is far beyond the third largest one.
    fn insert(&mut self, number: TopNumber) -> bool {
        if number.value <= self.top[2].value {
            return false;
        }
        let rank = self.top.iter().position(|top| number.value > top.value).unwrap_or(2);
        self.top[rank..].rotate_right(1);
        self.top[rank] = number;
        rank < 2 && is_far(number.value, self.top[2].value)
    }

    fn is_far_line(&self, line: u64) -> bool {
        let is_far = |top: &&TopNumber| is_far(top.value, self.top[2].value);
        self.top[..2].iter().filter(is_far).any(|top| top.line == line)
    }

    /// The lines of the largest number, or of the two largest, if there is a gap behind them.
    fn outliers(&self) -> impl Iterator<Item = u64> {
        let count = if is_far(self.top[0].value, self.top[1].value) {
            1
        } else if is_far(self.top[1].value, self.top[2].value) {
            2
        } else {
            0
        };
        self.top.into_iter().take(count).map(|top| top.line)
    }
}

/// Small numbers, such as one among zeros, are not far from each other.
fn is_far(value: f64, reference: f64) -> bool {
    value >= FAR_FACTOR * reference.max(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::summary::LineGroups;

    fn read(lines: impl IntoIterator<Item = String>) -> LineGroups {
        let mut table = TemplateTable::new();
        for (number, line) in (1..).zip(lines) {
            table.count(number, &line);
        }
        table.groups()
    }

    fn counts(groups: &LineGroups) -> Vec<u64> {
        groups.groups.iter().map(|group| group.count).collect()
    }

    fn rare(groups: &LineGroups) -> Vec<u64> {
        groups.rare.iter().map(|line| line.number).collect()
    }

    /// Reads the lines and checks the sizes of the largest groups and the numbers of rare lines.
    #[track_caller]
    fn check(lines: impl IntoIterator<Item = String>, largest: &[u64], rare_lines: &[u64]) {
        let groups = read(lines);
        let found = counts(&groups);
        let largest_found = &found[..largest.len().min(found.len())];
        assert_eq!((largest_found, rare(&groups).as_slice()), (largest, rare_lines), "{groups:#?}");
    }

    /// Names without digits, each one different.
    fn name(number: u64) -> String {
        let letters = [number / 676, number / 26 % 26, number % 26];
        let letter = |index: u64| char::from(b'a' + u8::try_from(index % 26).unwrap());
        letters.map(|index| format!("{}o", letter(index))).concat()
    }

    /// Numbers that look random and are the same in each run.
    fn noise(number: u64, below: u64) -> u64 {
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % below
    }

    fn service_line(number: u64) -> String {
        let time = format!("2026-03-14T00:28:{:02}.{:03}Z", number / 1000 % 60, number % 1000);
        let worker = noise(number, 8);
        match number % 10 {
            0..=5 => format!(
                "{time} INFO  [http-{worker}] node-3 http: GET /api/users/{number} status=200 took {}ms",
                noise(number, 900)
            ),
            6..=8 => format!(
                "{time} DEBUG [raft-{worker}] node-1 raft: appended {} entries to segment {number:06}",
                noise(number, 90)
            ),
            _ => format!("{time} INFO  [auth-{worker}] node-2 auth: session {number:08x} renewed"),
        }
    }

    #[test]
    fn one_fatal_line_among_very_many_is_rare() {
        let fatal = "2026-03-14T00:28:58.933Z FATAL [raft-0] node-7 storage: WAL checksum mismatch \
                     at segment 004182 offset 90112 (expected 0x9f3c11aa, got 0x00000000)";
        let line = |number| if number == 4_501 { fatal.to_owned() } else { service_line(number) };
        let groups = read((1..=10_000).map(line));
        assert_eq!(counts(&groups)[..3], [5_999, 3_000, 1_000]);
        assert_eq!(groups.rare.len(), 1, "{groups:#?}");
        assert_eq!(groups.rare[0].text, fatal);
        assert_eq!(groups.groups[0].first.number, 1);
        assert_eq!(groups.groups[0].last.number, 10_000);
    }

    #[test]
    fn a_level_alone_makes_a_line_rare() {
        let line = |number| {
            let level = match number {
                777 => "FATAL",
                number if number % 3 == 0 => "WARN",
                number if number % 7 == 0 => "DEBUG",
                _ => "INFO",
            };
            format!("12:00:{:02} {level} heartbeat ok", number % 60)
        };
        let groups = read((1..=1000).map(line));
        assert_eq!(rare(&groups), [777], "{groups:#?}");
    }

    #[test]
    fn logs_of_services_form_few_groups() {
        let nginx = |number: u64| {
            let method = ["GET", "GET", "POST"][usize::try_from(number % 3).unwrap()];
            format!(
                "10.0.{}.{} - - [14/Mar/2026:10:{:02}:00 +0000] \"{method} /shop/{} HTTP/1.1\" 200 {} \"-\" \"curl/8.5.0\"",
                noise(number, 250),
                noise(number + 1, 250),
                number % 60,
                name(number),
                noise(number, 9000),
            )
        };
        check((1..=600).map(nginx), &[400, 200], &[]);
        let kubernetes = |number: u64| {
            format!(
                r#"{{"ts":"2026-03-14T10:00:{:02}Z","level":"info","msg":"pod started","pod":"web-{:x}-{}","node":"n{}"}}"#,
                number % 60,
                noise(number, 99_999),
                name(number),
                number % 7,
            )
        };
        check((1..=500).map(kubernetes), &[500], &[]);
        let syslog = |number: u64| match number {
            300 => {
                "Mar 14 10:05:00 host kernel: Out of memory: Killed process 4242 (java)".to_owned()
            }
            number if number % 4 == 0 => {
                format!(
                    "Mar 14 10:05:00 host CRON[{number}]: (root) CMD (run-parts /etc/cron.hourly)"
                )
            }
            number => format!(
                "Mar 14 10:05:00 host sshd[{number}]: Accepted publickey for {} from 10.1.2.{} port {number} ssh2",
                name(number),
                number % 250,
            ),
        };
        check((1..=400).map(syslog), &[300, 99], &[300]);
        let java = |number: u64| {
            format!(
                "2026-03-14 10:00:00,{:03} [pool-{}-thread-{}] INFO  com.example.shop.OrderService - Order {number} of {} shipped",
                number % 1000,
                number % 3,
                number % 9,
                name(number),
            )
        };
        check((1..=300).map(java), &[300], &[]);
    }

    #[test]
    fn progress_lines_form_one_group() {
        let ninja = |number: u64| match number {
            187 => "../src/net/tls.cc:88:14: warning: 'SSL_library_init' is deprecated".to_owned(),
            402 => "Build finished: dist/app.bin 14.2 MB, 1 warning".to_owned(),
            number => format!("[{number:3}/400] CXX obj/module_{}/unit_{number}.o", number % 30),
        };
        check((1..=402).map(ninja), &[400], &[187, 402]);
        let pip = |number: u64| {
            format!(
                "Downloading {}-{}.{}.0-py3-none-any.whl ({}.{} {})",
                name(number),
                number % 5,
                number % 17,
                number % 900,
                number % 10,
                if number.is_multiple_of(4) { "MB" } else { "kB" },
            )
        };
        check((1..=60).map(pip), &[60], &[]);
    }

    /// One huge file among many, by size column.
    #[track_caller]
    fn check_listing(line: impl Fn(u64, &str, u64) -> String) {
        for (names, count) in [(false, 2_000), (true, 2_000), (true, 30)] {
            let listing = (1..=count).map(|number| {
                let name = if names { name(number) } else { format!("file-{number}.txt") };
                let size = if number == count / 3 { 4_300_000_000 } else { noise(number, 90_000) };
                line(number, &name, size)
            });
            check(listing, &[count], &[count / 3]);
        }
    }

    #[test]
    fn a_huge_file_in_a_listing_is_rare() {
        check_listing(|number, name, size| {
            format!("-rw-r--r--  1 app app {size:>10} Mar {:>2} 10:00 {name}", number % 28 + 1)
        });
        check_listing(|_, name, size| format!("{}\t./data/{name}", size / 1024));
        check_listing(|_, name, size| format!("{}\t{name}", size / 1024));
        check_listing(|_, name, size| format!("{size} /srv/app/data/{name}.json"));
        check_listing(|_, name, size| match size {
            0..1_000 => format!("{size}\t{name}"),
            1_000..1_000_000 => format!("{}K\t{name}", size / 1000),
            _ => format!("{:.1}G\t{name}", size as f64 / 1e9),
        });
    }

    #[test]
    fn a_listing_without_outliers_has_no_rare_lines() {
        let listing = |number: u64| format!("{}\t./{}", noise(number, 90_000), name(number));
        check((1..=1_000).map(listing), &[1_000], &[]);
        let names = |number: u64| format!("{}.txt", name(number));
        check((1..=1_000).map(names), &[1_000], &[]);
        let spaced = |number: u64| match number % 50 {
            0 => format!("{}\t./My {} files.txt", number % 70 + 10, name(number)),
            _ => format!("{}\t./{}.txt", number % 70 + 10, name(number)),
        };
        check((1..=500).map(spaced), &[490, 10], &[]);
    }

    #[test]
    fn processes_and_commits_form_groups() {
        let ps = |number: u64| {
            let user = ["root", "app", "www"][usize::try_from(number % 3).unwrap()];
            format!(
                "{user:8} {number:6}  0.{}  0.{} {:6} {:5} ?        Ss   10:0{}   0:00 /usr/bin/{} --flag",
                number % 9,
                number % 7,
                noise(number, 90_000),
                noise(number, 9_000),
                number % 10,
                name(number),
            )
        };
        check((1..=120).map(ps), &[120], &[]);
        let subjects =
            ["Fix the build", "Add a test for names", "Remove dead code", "Say why", "Bump"];
        let oneline = |number: u64| {
            let subject = subjects[usize::try_from(noise(number, 5)).unwrap()];
            format!("{:07x} {subject} {}", noise(number, 0xfff_ffff), name(number))
        };
        let groups = read((1..=200).map(oneline));
        assert_eq!(groups.rare, [], "{groups:#?}");
    }

    #[test]
    fn nothing_is_rare_where_everything_differs() {
        let source = include_str!("grouping.rs");
        assert_eq!(read(source.lines().map(str::to_owned)).rare, []);
        let patch = source.lines().enumerate().map(|(index, line)| match index % 3 {
            0 => format!("-{line}"),
            1 => format!("+{line}"),
            _ => format!(" {line}"),
        });
        assert_eq!(read(patch).rare, []);
        let prose = include_str!("mod.rs").split_whitespace().collect::<Vec<_>>();
        let prose = prose.chunks(9).map(|words| words.join(" "));
        assert_eq!(read(prose).rare, []);
        let json = |number: u64| match number % 5 {
            0 => "  {".to_owned(),
            1 => format!("    \"name\": \"{}\",", name(number)),
            2 => format!("    \"{}\": [{number}, {}],", name(number), number * 2),
            3 => format!("    \"{} {}\": null", name(number), name(number + 1)),
            _ => "  },".to_owned(),
        };
        assert_eq!(read((0..300).map(json)).rare, []);
    }

    #[test]
    fn short_outputs_have_no_rare_lines() {
        let lines = ["one", "two 2", "two 3", "two 4", "three: x"].map(str::to_owned);
        assert_eq!(read(lines).rare, []);
        assert_eq!(read([]), LineGroups::default());
    }

    #[test]
    fn a_full_table_still_finds_the_outlier() {
        let count = 2 * MAX_TEMPLATES as u64;
        let outlier = count - 5;
        let line = |number: u64| {
            let size = if number == outlier { 9_000_000_000 } else { noise(number, 90_000) };
            format!(
                "-rw-r--r-- 1 app app {size} Mar 14 10:00 {}{}",
                name(number),
                name(number / 17_576)
            )
        };
        check((1..=count).map(line), &[count], &[outlier]);
    }

    #[test]
    fn a_full_table_keeps_its_bound() {
        let mut table = TemplateTable::new();
        let count = 2 * MAX_TEMPLATES as u64;
        for number in 1..=count {
            let words = (0..number % 13 + 1).map(|index| name(noise(number * 31 + index, 17_576)));
            table.count(number, &words.collect::<Vec<_>>().join(" "));
            assert!(table.entries.len() <= MAX_TEMPLATES);
        }
        let entries: u64 = table.entries.iter().chain(&table.merged).map(|entry| entry.count).sum();
        assert_eq!(entries + table.dropped(), count);
        assert_eq!(table.lines, count);
        assert_eq!(table.groups().rare, []);
    }

    #[test]
    fn marks_belong_to_the_template() {
        let mut table = TemplateTable::new();
        table.count(1, "took 5 ms").marks.examined = 7;
        let entry = table.count(2, "took 60 ms");
        assert_eq!((entry.count(), entry.marks.examined), (2, 7));
        assert_eq!(table.count(3, "something else").marks.examined, 0);
    }

    #[test]
    fn long_lines_are_kept_in_part() {
        let line = |number: u64| format!("{number} {}", "é".repeat(2_000));
        let groups = read((1..=30).map(line));
        assert_eq!(counts(&groups), [30]);
        assert!(groups.groups[0].last.text.len() <= 400);
    }

    proptest! {
        #[test]
        fn every_line_is_counted_once(lines in prop::collection::vec("[ab 0-9/.:-]{0,9}|.{0,40}", 0..200)) {
            let mut table = TemplateTable::new();
            for (number, line) in (1..).zip(&lines) {
                table.count(number, line);
            }
            let sum: u64 = table.entries.iter().map(|entry| entry.count).sum();
            prop_assert_eq!(sum, lines.len() as u64);
            let groups = table.groups();
            prop_assert_eq!(&groups, &table.groups());
            prop_assert!(counts(&groups).iter().sum::<u64>() <= lines.len() as u64);
            prop_assert!(groups.groups.len() <= 8 && groups.rare.len() <= 10);
            for line in groups.rare {
                let index = usize::try_from(line.number).unwrap() - 1;
                prop_assert_eq!(&line.text, &lines[index]);
            }
        }

        #[test]
        fn lines_that_differ_only_in_digits_are_one_group(
            line in "[a-z]{1,8}( [a-z0-9]{1,6}){0,6}",
            numbers in prop::collection::vec(0_u64..1_000_000, 2..40),
        ) {
            let groups = read(numbers.iter().map(|number| format!("{line} {number} end")));
            prop_assert_eq!(counts(&groups), [numbers.len() as u64]);
        }
    }

    /// Reads one number per line and returns the lines that are reported.
    fn outliers(values: &[f64]) -> Vec<u64> {
        let mut columns = NumberColumns::default();
        for (line, value) in (1..).zip(values) {
            columns.add(line, "text", &[LineNumber { column: 0, value: *value }]);
        }
        let found = columns.find_outliers(values.len() as u64);
        found.into_iter().map(|line| line.number).collect()
    }

    #[test]
    fn one_or_two_numbers_far_beyond_the_others_are_outliers() {
        assert_eq!(outliers(&[10.0, 12.0, 900.0, 11.0]), [3]);
        assert_eq!(outliers(&[900.0, 12.0, 800.0, 11.0, 10.0]), [1, 3]);
        assert_eq!(outliers(&[0.0, 0.0, 0.0, 40.0]), [4]);
    }

    #[test]
    fn numbers_that_grow_or_spread_are_no_outliers() {
        assert_eq!(outliers(&[1.0, 2.0, 3.0, 4.0, 5.0]), [0; 0]);
        assert_eq!(outliers(&[1.0, 4.0, 16.0, 64.0, 256.0]), [0; 0]);
        assert_eq!(outliers(&[900.0, 800.0, 700.0, 1.0, 2.0]), [0; 0]);
        assert_eq!(outliers(&[0.0, 1.0, 3.0]), [0; 0]);
    }

    #[test]
    fn an_outlier_is_found_in_merged_columns() {
        let read = |line: u64, values: &[f64]| {
            let mut columns = NumberColumns::default();
            for (line, value) in (line..).zip(values) {
                columns.add(line, "text", &[LineNumber { column: 7, value: *value }]);
            }
            columns
        };
        let mut all = read(1, &[5.0, 6.0, 7.0]);
        all.merge(&read(10, &[8.0, 700.0, 9.0]));
        let found = all.find_outliers(6);
        assert_eq!(found, [NumberedLine { number: 11, text: "text".to_owned() }]);
        assert_eq!(all.find_outliers(20), [], "most lines have no number there");
    }
}
