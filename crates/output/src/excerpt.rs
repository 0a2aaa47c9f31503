//! Excerpts: the part of a log that a reply shows. All of it if it fits, else its head and its
//! tail.

use std::io;
use std::ops::Range;

use crate::page::whole_text_length;
use crate::reader::BlockingReader;
use crate::shared_log::LogProgress;
use crate::summary_scan::read_last_states;
use crate::views::{
    Ansi, Charset, Fold, LINE_CHARS, LongLines, RenderedLine, ViewOptions, render_lines,
};

/// Raw bytes that are read for each byte of text: views make text shorter, and a progress bar of
/// many kilobytes is one line.
const RAW_PER_TEXT: usize = 8;
/// The head gets one part in this many of the budget, the tail the rest.
const HEAD_SHARE: usize = 5;

/// The options for a whole excerpt and for a head: lines are not cut, so a reader that continues
/// after them misses nothing. In a tail, which is for a quick look, overlong lines are cut.
const WHOLE_LINES: ViewOptions =
    ViewOptions { ansi: Ansi::Strip, fold: Fold::Repeats, long: LongLines::Keep };

/// The most bytes that are read to find the last states of a few lines.
const MAX_OVERWRITTEN_BYTES: u64 = 32 * 1024 * 1024;

/// The bytes at the end that are checked for an unfinished character.
const LAST_BYTES: u64 = 256;

/// The size limits of an excerpt.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// The limit on the cost of all sections together.
    pub max_bytes: usize,
    /// The cost of a text: its bytes, or its bytes in the encoding in which it is sent.
    pub cost: fn(&str) -> usize,
    /// Lines of text in all sections together; 0 means any number.
    pub max_lines: usize,
}

impl Budget {
    /// A budget of this many bytes of text, with any number of lines.
    #[must_use]
    pub const fn of_bytes(max_bytes: usize) -> Self {
        Self { max_bytes, cost: str::len, max_lines: 0 }
    }
}

/// The shown part of a log. Sections and the hidden part follow each other and cover everything
/// from `from` to `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// One section, or a head and a tail; none if there is nothing to show. Only a tail has cut
    /// lines.
    pub sections: Vec<Section>,
    /// The part before the last section that is not shown.
    pub hidden: Option<HiddenPart>,
    /// The part before `from`, if only the tail was requested.
    pub before: Option<HiddenPart>,
    /// The start of the excerpt: the requested offset, or the next readable byte after it.
    pub from: u64,
    /// Missing bytes between the requested offset and `from`.
    pub gap_bytes: u64,
    /// The end of the excerpt: a read from here on continues after it.
    pub end: u64,
    /// The bytes of the log at the time of the excerpt.
    pub total_bytes: u64,
    /// The lines of the log at the time of the excerpt, an unfinished last one included.
    pub lines: u64,
    /// The character set of the log.
    pub charset: Charset,
}

/// Consecutive bytes of a log, shown as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The number of the first line in the log, counted from 1.
    pub first_line: u64,
    /// The number of the last line.
    pub last_line: u64,
    /// The offset of the first byte.
    pub start: u64,
    /// The offset after the last byte.
    pub end: u64,
    /// The text. It ends with a newline if the bytes do.
    pub text: String,
    /// Bytes that are no text: invalid UTF-8, or NUL.
    pub bad_bytes: usize,
}

/// Shows the log from `from` on: all of it if it fits, else one fifth of the budget from its head
/// and the rest from its tail, on whole lines if they fit.
pub fn excerpt(reader: &BlockingReader, from: u64, budget: Budget) -> io::Result<Excerpt> {
    let reader = &reader.freeze();
    let frame = ExcerptSource::new(reader, from)?;
    let room = RemainingBudget::new(budget);
    if let Some(part) = frame.whole(room)? {
        return frame.finish(None, part);
    }
    let head = frame.head(room.head())?;
    let tail = frame.tail(head.range.end, room.tail())?;
    frame.finish(Some(head), tail)
}

/// Shows the last lines from `from` on that fit the budget, with the extent of the part before them.
pub fn tail(reader: &BlockingReader, from: u64, budget: Budget) -> io::Result<Excerpt> {
    let reader = &reader.freeze();
    let mut frame = ExcerptSource::new(reader, from)?;
    let part = frame.tail(frame.from, RemainingBudget::new(budget))?;
    let before = frame.from..part.range.start;
    let before = (!before.is_empty()).then(|| hidden_part(reader, before));
    // A log that ends in a hole has no tail.
    let gap_bytes = if part.range.is_empty() { reader.missing_bytes(from..frame.end) } else { 0 };
    (frame.from, frame.gap_bytes) = (part.range.start, gap_bytes);
    Ok(Excerpt { before: before.transpose()?, ..frame.finish(None, part)? })
}

/// The rest of a budget.
#[derive(Debug, Clone, Copy)]
struct RemainingBudget {
    bytes: usize,
    cost: fn(&str) -> usize,
    lines: usize,
}

impl RemainingBudget {
    fn new(budget: Budget) -> Self {
        let lines = if budget.max_lines == 0 { usize::MAX } else { budget.max_lines };
        Self { bytes: budget.max_bytes, cost: budget.cost, lines }
    }

    fn head(self) -> Self {
        Self { bytes: self.bytes / HEAD_SHARE, lines: self.lines / HEAD_SHARE, ..self }
    }

    fn tail(self) -> Self {
        let head = self.head();
        Self { bytes: self.bytes - head.bytes, lines: self.lines - head.lines, ..self }
    }

    fn raw_bytes(self) -> u64 {
        self.bytes.saturating_mul(RAW_PER_TEXT) as u64
    }

    /// Bytes of one overlong line that fit in any case: an invalid byte is shown as three bytes.
    fn part_of_line(self) -> usize {
        if self.lines == 0 { 0 } else { (self.bytes / 3).min(LINE_CHARS) }
    }

    /// The number of lines that fit, from the first on.
    fn take<'a>(mut self, lines: impl Iterator<Item = &'a RenderedLine<'a>>) -> usize {
        lines.take_while(|line| self.takes(line)).count()
    }

    fn takes(&mut self, line: &RenderedLine<'_>) -> bool {
        let rows = line.rows();
        let cost = (self.cost)(&line.text);
        let fits = rows <= self.lines && cost <= self.bytes;
        if fits {
            self.lines -= rows;
            self.bytes -= cost;
        }
        fits
    }
}

/// A range of the log and its text.
#[derive(Debug)]
struct ExcerptPart {
    range: Range<u64>,
    text: String,
    lines: usize,
    bad_bytes: usize,
}

impl ExcerptPart {
    fn starting_at(start: u64, shown: &[RenderedLine<'_>]) -> Self {
        let sum = |of: fn(&RenderedLine<'_>) -> usize| shown.iter().map(of).sum::<usize>();
        let mut text = String::with_capacity(sum(|line| line.text.len()));
        text.extend(shown.iter().map(|line| &*line.text));
        Self {
            range: start..start + sum(|line| line.bytes) as u64,
            text,
            lines: sum(|line| line.lines),
            bad_bytes: sum(|line| line.bad_bytes),
        }
    }

    fn ending_at(end: u64, shown: &[RenderedLine<'_>]) -> Self {
        let bytes: usize = shown.iter().map(|line| line.bytes).sum();
        Self::starting_at(end - bytes as u64, shown)
    }
}

/// The range of the log that an excerpt is made of, as it was at one moment.
#[derive(Debug)]
struct ExcerptSource<'a> {
    reader: &'a BlockingReader,
    progress: LogProgress,
    from: u64,
    gap_bytes: u64,
    /// The end of the log, without an unfinished character.
    end: u64,
    charset: Charset,
}

impl<'a> ExcerptSource<'a> {
    fn new(reader: &'a BlockingReader, from: u64) -> io::Result<Self> {
        let progress = reader.progress();
        let charset = reader.charset()?;
        let from = charset.aligned(from);
        let total = progress.total_bytes;
        let asked = from;
        let from = reader.next_readable(from);
        let tail = reader.contiguous_around(from..total).start.max(from);
        let begun =
            if progress.closed { 0 } else { unfinished_bytes(reader, tail, total, charset)? };
        let end = (total - begun).max(from);
        Ok(Self { reader, progress, from, gap_bytes: from - asked, end, charset })
    }

    /// The whole range, if it fits.
    fn whole(&self, room: RemainingBudget) -> io::Result<Option<ExcerptPart>> {
        let has_hole = self.contiguous().end < self.end;
        if has_hole {
            return Ok(None);
        }
        if self.end - self.from > room.raw_bytes() {
            return self.last_states(room);
        }
        let bytes = self.reader.read(self.from..self.end)?;
        let lines = self.render(&bytes, WHOLE_LINES);
        let all_fit = room.take(lines.iter()) == lines.len();
        Ok(all_fit.then(|| ExcerptPart::starting_at(self.from, &lines)))
    }

    /// The whole range with each line in its last state, if that fits.
    fn last_states(&self, room: RemainingBudget) -> io::Result<Option<ExcerptPart>> {
        let range = self.from..self.end;
        let total = self.progress.lines + u64::from(self.progress.open_line);
        let lines = total.saturating_sub(self.reader.line_at(self.from)?.saturating_sub(1));
        let is_small = self.end - self.from <= MAX_OVERWRITTEN_BYTES;
        if !is_small || lines > room.lines as u64 {
            return Ok(None);
        }
        let Some(lines) = read_last_states(self.reader, range.clone(), self.charset, room.lines)?
        else {
            return Ok(None);
        };
        let count = lines.len();
        let text = lines.concat();
        let fits = text.lines().count() <= room.lines && (room.cost)(&text) <= room.bytes;
        Ok(fits.then_some(ExcerptPart { range, text, lines: count, bad_bytes: 0 }))
    }

    /// The contiguous bytes: up to the first hole, and from the end of the last one.
    fn contiguous(&self) -> Range<u64> {
        self.reader.contiguous_around(self.from..self.end)
    }

    /// The first whole lines that fit, else the beginning of the first line.
    fn head(&self, room: RemainingBudget) -> io::Result<ExcerptPart> {
        let end = self.end.min(self.contiguous().end);
        let window = self.from..end.min(self.from.saturating_add(room.raw_bytes()));
        let bytes = self.reader.read(window)?;
        let whole_lines = &bytes[..self.charset.last_line_end(&bytes).unwrap_or(0)];
        let mut lines =
            self.render_fitting(whole_lines, WHOLE_LINES, |lines| room.take(lines.iter()) > 0);
        lines.truncate(room.take(lines.iter()));
        if lines.is_empty() {
            lines = self.beginning(&bytes[..self.line_length(&bytes)], room);
        }
        Ok(ExcerptPart::starting_at(self.from, &lines))
    }

    /// The last whole lines that fit, else the end of the last line; nothing before `from`.
    fn tail(&self, from: u64, room: RemainingBudget) -> io::Result<ExcerptPart> {
        let from = from.max(self.contiguous().start);
        let start = self.charset.aligned(from.max(self.end.saturating_sub(room.raw_bytes())));
        let bytes = self.reader.read(start.min(self.end)..self.end)?;
        let first_line = if start == from { 0 } else { self.line_length(&bytes) };
        let fits = |lines: &[RenderedLine<'_>]| room.take(lines.iter().rev()) > 0;
        let mut lines = self.render_fitting(&bytes[first_line..], ViewOptions::default(), fits);
        let kept = room.take(lines.iter().rev());
        let mut lines = lines.split_off(lines.len() - kept);
        if lines.is_empty() {
            lines = self.ending(&bytes, room);
        }
        Ok(ExcerptPart::ending_at(self.end, &lines))
    }

    /// Renders as much of the beginning of a line as fits.
    fn beginning<'b>(&self, line: &'b [u8], room: RemainingBudget) -> Vec<RenderedLine<'b>> {
        let mut length = room.part_of_line().min(line.len());
        loop {
            length = whole_text_length(&line[..length], self.charset);
            let lines = self.render(&line[..length], ViewOptions::default());
            if length == 0 || room.take(lines.iter()) == lines.len() {
                return lines;
            }
            length /= 2;
        }
    }

    /// Renders as much of the end as fits.
    fn ending<'b>(&self, bytes: &'b [u8], room: RemainingBudget) -> Vec<RenderedLine<'b>> {
        let mut length = room.part_of_line().min(bytes.len());
        loop {
            let part = &bytes[bytes.len() - length..];
            let skip = self.charset.to_character_start(self.end - length as u64, part);
            let lines = self.render(&part[skip.min(length)..], ViewOptions::default());
            if length == 0 || room.take(lines.iter()) == lines.len() {
                return lines;
            }
            length /= 2;
        }
    }

    fn render<'b>(&self, bytes: &'b [u8], options: ViewOptions) -> Vec<RenderedLine<'b>> {
        render_lines(bytes, self.charset, options)
    }

    /// Renders the bytes as one screen; if nothing of that fits, each line separately.
    fn render_fitting<'b>(
        &self,
        bytes: &'b [u8],
        options: ViewOptions,
        fits: impl Fn(&[RenderedLine<'_>]) -> bool,
    ) -> Vec<RenderedLine<'b>> {
        let lines = self.render(bytes, options);
        if fits(&lines) || lines.iter().all(|line| line.rows() == 1) {
            return lines;
        }
        self.render(bytes, ViewOptions { ansi: Ansi::StripLines, ..options })
    }

    /// The length of the first line, with its newline.
    fn line_length(&self, bytes: &[u8]) -> usize {
        self.charset.line_ends(bytes).next().unwrap_or(bytes.len())
    }

    fn finish(&self, head: Option<ExcerptPart>, last: ExcerptPart) -> io::Result<Excerpt> {
        let hidden_range = head.as_ref().map_or(self.from, |head| head.range.end)..last.range.start;
        let hidden = if hidden_range.is_empty() {
            None
        } else {
            Some(hidden_part(self.reader, hidden_range)?)
        };
        let shown_parts = head.into_iter().chain([last]).filter(|part| !part.range.is_empty());
        Ok(Excerpt {
            sections: shown_parts.map(|part| self.section(part)).collect::<io::Result<_>>()?,
            hidden,
            before: None,
            from: self.from,
            gap_bytes: self.gap_bytes,
            end: self.end,
            total_bytes: self.progress.total_bytes,
            lines: self.progress.lines + u64::from(self.progress.open_line),
            charset: self.charset,
        })
    }

    fn section(&self, part: ExcerptPart) -> io::Result<Section> {
        let first_line = self.reader.line_at(part.range.start)?;
        Ok(Section {
            first_line,
            last_line: first_line + part.lines.saturating_sub(1) as u64,
            start: part.range.start,
            end: part.range.end,
            text: part.text,
            bad_bytes: part.bad_bytes,
        })
    }
}

/// The number of bytes at the end that are an unfinished character.
fn unfinished_bytes(
    reader: &BlockingReader,
    from: u64,
    total: u64,
    charset: Charset,
) -> io::Result<u64> {
    let start = charset.aligned(total.saturating_sub(LAST_BYTES).max(from)).min(total);
    let last = reader.read(start..total)?;
    let line = &last[charset.last_line_end(&last).unwrap_or(0)..];
    Ok((line.len() - charset.whole_characters(line)) as u64)
}

/// A part of a log that is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenPart {
    /// The number of the first line, counted from 1. A section before it may show the beginning of
    /// that line, if the line is too long to show.
    pub first_line: u64,
    /// The number of the last line.
    pub last_line: u64,
    /// The lines of these two that are hidden only in part.
    pub in_part: Vec<u64>,
    /// The size of the part in bytes.
    pub bytes: u64,
    /// Missing bytes in this part.
    pub missing_bytes: u64,
}

/// Describes a hidden part that is not empty.
fn hidden_part(reader: &BlockingReader, hidden: Range<u64>) -> io::Result<HiddenPart> {
    // A newline is a whole unit of the character set: in a wide character set, a single byte of a
    // unit may look like a newline.
    let unit = reader.charset()?.unit() as u64;
    let line_at = |offset| reader.line_at(offset);
    let first_line = line_at(hidden.start)?;
    let last_line = line_at(hidden.end.saturating_sub(unit).max(hidden.start))?;
    let before = hidden.start.checked_sub(unit).map(line_at).transpose()?;
    let is_last = hidden.end >= reader.progress().total_bytes;
    let after = (!is_last).then(|| line_at(hidden.end)).transpose()?;
    let mut in_part = Vec::from_iter(before.filter(|line| *line == first_line));
    in_part.extend(after.filter(|line| *line == last_line && !in_part.contains(line)));
    let bytes = hidden.end - hidden.start;
    let missing_bytes = reader.missing_bytes(hidden);
    Ok(HiddenPart { first_line, last_line, in_part, bytes, missing_bytes })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use crate::Stream;
    use crate::excerpt::{Budget, Excerpt, excerpt, tail};
    use crate::{LogReader, LogStorage, LogWriter, open_log};

    /// A log with this content. The directory is removed when the test ends.
    fn log(content: &[u8]) -> (LogWriter, LogReader, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) =
            open_log(&LogStorage { memory_bytes: 1000, spill_dir: dir.path().to_owned().into() });
        writer.append(Stream::Stdout, content);
        (writer, reader, dir)
    }

    fn numbered(lines: usize) -> String {
        (1..=lines).map(|number| format!("line {number}\n")).collect()
    }

    fn newlines(bytes: &[u8]) -> u64 {
        bytes.iter().filter(|byte| **byte == b'\n').count() as u64
    }

    /// Checks that sections and the hidden part cover everything, with the line numbers of the log.
    #[track_caller]
    fn check_cover(shown: &Excerpt, content: &[u8]) {
        let line_of = |offset: u64| newlines(&content[..offset as usize]) + 1;
        let mut at = shown.from;
        let hidden_at = shown.hidden.as_ref().map(|hidden| {
            assert_eq!(
                hidden.bytes,
                shown.end
                    - shown.from
                    - shown.sections.iter().map(|s| s.end - s.start).sum::<u64>()
            );
            let last_start = shown.sections.last().map_or(shown.end, |section| section.start);
            let start = last_start - hidden.bytes;
            assert_eq!(
                (hidden.first_line, hidden.last_line),
                (line_of(start), line_of(last_start - 1))
            );
            start..last_start
        });
        for section in &shown.sections {
            if let Some(hidden) = hidden_at.as_ref().filter(|hidden| hidden.start == at) {
                at = hidden.end;
            }
            assert_eq!(section.start, at);
            assert_eq!(section.first_line, line_of(section.start));
            assert_eq!(section.last_line, line_of(section.end - 1));
            at = section.end;
        }
        assert!(at == shown.end || shown.sections.is_empty());
    }

    #[test]
    fn a_log_that_fits_is_one_section() {
        let (_writer, reader, _dir) = log(b"a\nb\nc");
        let shown = excerpt(&reader.blocking(), 0, Budget::of_bytes(100)).unwrap();
        assert_eq!(shown.sections.len(), 1);
        assert_eq!(shown.sections[0].text, "a\nb\nc");
        assert_eq!((shown.sections[0].first_line, shown.sections[0].last_line), (1, 3));
        assert_eq!((shown.hidden, shown.lines, shown.end), (None, 3, 5));
    }

    #[test]
    fn an_empty_rest_has_no_sections() {
        let (mut writer, reader, _dir) = log(b"abc\n");
        for from in [4, 99] {
            let shown = excerpt(&reader.blocking(), from, Budget::of_bytes(100)).unwrap();
            assert_eq!((shown.sections.len(), shown.hidden, shown.end), (0, None, from));
        }
        writer.close();
        assert_eq!(tail(&reader.blocking(), 0, Budget::of_bytes(0)).unwrap().sections.len(), 0);
    }

    #[test]
    fn a_hidden_part_lists_its_lines() {
        let content = numbered(1575) + &numbered(500);
        let (_writer, reader, _dir) = log(content.as_bytes());
        let shown =
            excerpt(&reader.blocking(), 0, Budget { max_lines: 100, ..Budget::of_bytes(100_000) })
                .unwrap();
        check_cover(&shown, content.as_bytes());
        let [head, tail] = shown.sections.as_slice() else { panic!("{:?}", shown.sections) };
        assert_eq!((head.first_line, head.last_line), (1, 20));
        assert_eq!(tail.last_line - tail.first_line + 1, 80);
        assert!(tail.text.ends_with("line 500\n"));
        let hidden = shown.hidden.unwrap();
        assert_eq!((hidden.first_line, hidden.last_line), (21, tail.first_line - 1));
    }

    #[test]
    fn a_long_progress_bar_is_one_short_line() {
        let bar: String = (0..=100).map(|percent| format!("\rdownloading {percent:3}%")).collect();
        let content = format!("start\n{bar}\nend\n");
        let (_writer, reader, _dir) = log(content.as_bytes());
        let shown = excerpt(&reader.blocking(), 0, Budget::of_bytes(400)).unwrap();
        assert_eq!(shown.sections.len(), 1);
        assert_eq!(shown.sections[0].text, "start\ndownloading 100%\nend\n");
    }

    #[test]
    fn an_endless_line_is_shown_by_its_two_ends() {
        let content = vec![b'x'; 3 * 1024 * 1024];
        let (_writer, reader, _dir) = log(&content);
        let budget = Budget { max_lines: 100, ..Budget::of_bytes(10_000) };
        let shown = excerpt(&reader.blocking(), 0, budget).unwrap();
        check_cover(&shown, &content);
        assert_eq!(shown.sections.len(), 2);
        assert!(shown.sections.iter().all(|section| section.text.len() <= 1000));
        let hidden = shown.hidden.unwrap();
        assert_eq!((hidden.first_line, hidden.last_line), (1, 1));
        assert_eq!(tail(&reader.blocking(), 0, budget).unwrap().sections[0].text.len(), 1000);
    }

    #[test]
    fn a_long_line_is_cut_only_in_the_tail() {
        let long = "x".repeat(3000);
        let content = format!("one\n{long}\ntwo\n");
        let (_writer, reader, _dir) = log(content.as_bytes());
        let roomy = excerpt(&reader.blocking(), 0, Budget::of_bytes(4000)).unwrap();
        assert_eq!((roomy.sections.len(), roomy.sections[0].text.as_str()), (1, content.as_str()));
        let tight = excerpt(&reader.blocking(), 0, Budget::of_bytes(2000)).unwrap();
        check_cover(&tight, content.as_bytes());
        let [head, tail] = tight.sections.as_slice() else { panic!("{:?}", tight.sections) };
        assert_eq!((head.text.as_str(), tight.hidden), ("one\n", None));
        let half = "x".repeat(500);
        assert_eq!(tail.text, format!("{half}… [+2,000 chars] …{half}\ntwo\n"));
    }

    #[test]
    fn a_long_last_line_shows_its_end_however_long_it_is() {
        for filler in [2_000, 10_000, 40_000, 1_000_000] {
            for newline in ["", "\n"] {
                let content = format!("BEGIN{}ENDE{newline}", "é".repeat(filler));
                let (_writer, reader, _dir) = log(content.as_bytes());
                let budget = Budget::of_bytes(4_000);
                let excerpts = [
                    excerpt(&reader.blocking(), 0, budget).unwrap(),
                    tail(&reader.blocking(), 0, budget).unwrap(),
                ];
                for excerpt in excerpts {
                    let last = &excerpt.sections.last().expect("something").text;
                    assert!(
                        last.ends_with(&format!("éENDE{newline}")),
                        "{filler} {newline:?}: {last}"
                    );
                    assert!(!last.contains('\u{fffd}'), "characters are whole");
                }
            }
        }
    }

    #[test]
    fn the_tail_of_a_running_job_holds_back_an_unfinished_character() {
        let (mut writer, reader, _dir) = log("one\ntwo €".as_bytes());
        writer.append(Stream::Stdout, &"€".as_bytes()[..2]);
        let shown =
            tail(&reader.blocking(), 0, Budget { max_lines: 1, ..Budget::of_bytes(100) }).unwrap();
        assert_eq!(shown.sections[0].text, "two €");
        assert_eq!((shown.from, shown.end, shown.total_bytes), (4, 11, 13));
        writer.close();
        assert_eq!(
            tail(&reader.blocking(), 0, Budget { max_lines: 1, ..Budget::of_bytes(100) })
                .unwrap()
                .end,
            13
        );
    }

    fn any_content() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            "[a-z ]{0,20}\n".prop_map(String::into_bytes),
            Just(b"same\n".repeat(5)),
            Just(b"error: here\n".to_vec()),
            Just("wide €😀\r\n".as_bytes().to_vec()),
            (0..3000_usize).prop_map(|length| vec![b'l'; length]),
            vec(any::<u8>(), 0..40),
        ];
        vec(line, 0..60).prop_map(|lines| lines.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        #[test]
        fn an_excerpt_keeps_its_budget_and_its_line_numbers_are_real(
            content in any_content(),
            from in 0..200_usize,
            max_bytes in 0..3000_usize,
            max_lines in 0..60_usize,
        ) {
            let (mut writer, reader, _dir) = log(&content);
            writer.close();
            let from = from.min(content.len());
            let budget = Budget { max_lines, ..Budget::of_bytes(max_bytes) };
            let shown = excerpt(&reader.blocking(), from as u64, budget).unwrap();
            check_cover(&shown, &content);
            prop_assert_eq!(shown.end, content.len() as u64);
            for sections in [&shown.sections, &tail(&reader.blocking(), 0, budget).unwrap().sections] {
                let text: String = sections.iter().map(|section| section.text.as_str()).collect();
                prop_assert!(text.len() <= max_bytes);
                prop_assert!(max_lines == 0 || text.lines().count() <= max_lines);
            }
            if let Some(hidden) = &shown.hidden {
                let end = shown.sections.last().map_or(shown.end, |section| section.start);
                prop_assert!(hidden.bytes <= end);
            }
        }
    }
}
