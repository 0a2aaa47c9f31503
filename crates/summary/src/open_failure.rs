//! A failure while its lines are being read.

use regex::Captures;

use crate::frames::FrameSection;
use crate::place::PlaceRank;
use crate::rules::{Effect, FormatKind, FrameOrder};
use crate::summary::Failure;

/// The longest name, message or frame, in characters.
const TEXT_CHARS: usize = 300;
/// The most frames and causes of one trace.
const MAX_FRAMES: usize = 24;
/// Texts that are added to a message.
const MAX_APPENDED: usize = 4;

/// A failure whose lines are being read.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenFailure {
    pub(crate) failure: Failure,
    pub(crate) is_warning: bool,
    /// `true` if the failure counts only once the tool says that the test failed.
    pub(crate) is_watched: bool,
    /// `true` if the next line is the message.
    pub(crate) awaits_message: bool,
    /// `true` if the message is one of the next lines: the first that no rule reads.
    pub(crate) awaits_other: bool,
    /// `true` if the tool does not count the failure.
    pub(crate) is_uncounted: bool,
    /// The rank of the frame that is the place of the failure.
    place_rank: PlaceRank,
    /// `true` once a line stood above the message.
    has_headline: bool,
    /// `true` if nothing is added to the message any more.
    has_whole_message: bool,
    /// The source whose lines fill the failure.
    pub(crate) source: String,
    /// `true` after the last line of the failure.
    pub(crate) is_complete: bool,
    /// `true` if a place was read, below the message.
    is_message_over: bool,
    /// `true` if the lines belong to a cause.
    is_in_cause: bool,
    /// `true` if the lines tell the failure once more.
    is_told_again: bool,
    /// `true` if the message of that cause is known.
    has_cause_name: bool,
    /// Lines since the last one that a rule applied to.
    pub(crate) lines: u64,
    /// The number of texts that were added to the message.
    appended: usize,
    /// The frames of the present part of a trace.
    section: FrameSection,
    /// Parts of the trace that caused the present one.
    causes: Vec<String>,
}

impl OpenFailure {
    /// Begins a failure that lines of a source fill.
    pub(crate) fn new(failure: Failure, source: &str, is_warning: bool) -> Self {
        Self { failure, source: source.to_owned(), is_warning, ..Self::default() }
    }

    /// Reads a line that matches no rule.
    pub(crate) fn read_other(&mut self, text: &str) {
        if self.awaits_other && !text.trim().is_empty() {
            self.awaits_other = false;
            self.failure.message.get_or_insert_with(|| clip(text.trim()));
        }
    }

    /// Adds the fields of a line that tells more of a watched test.
    pub(crate) fn continue_with(mut self, groups: &Captures<'_>) -> Self {
        fill_fields(&mut self.failure, groups, Effect::Refill);
        self
    }

    pub(crate) fn fill(&mut self, effect: Effect, groups: &Captures<'_>) {
        self.is_complete = effect == Effect::FillLast;
        if effect == Effect::Locate {
            self.locate(groups);
            return;
        }
        let is_empty = groups.name("message").is_some_and(|text| text.is_empty());
        if effect == Effect::Refill && is_empty {
            self.forget_message();
            return;
        }
        let message = group(groups, "message");
        if self.is_in_cause {
            self.name_cause(message);
            return;
        }
        if effect == Effect::FillAbove {
            self.has_whole_message = self.has_headline;
            if !self.has_headline {
                self.failure.message = None;
                self.appended = 0;
                self.has_headline = true;
                self.awaits_message = true;
            }
        }
        if !matches!(effect, Effect::Append | Effect::Continue | Effect::Explain) {
            fill_fields(&mut self.failure, groups, effect);
            self.is_message_over |= groups.name("line").is_some();
            if effect == Effect::Refill && message.is_some() {
                self.appended = 0;
            }
            let awaits_other = self.awaits_other || effect == Effect::FillAwaiting;
            self.awaits_other = awaits_other && self.failure.message.is_none();
            return;
        }
        if let Some(more) = message {
            self.add_text(effect, more);
        }
    }

    /// Adds a text to the message.
    fn add_text(&mut self, effect: Effect, mut more: String) {
        if effect == Effect::Append {
            more = more.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        let is_known = effect == Effect::Append
            && self.failure.message.as_ref().is_some_and(|known| known.contains(&more));
        let is_over = effect == Effect::Continue && self.is_message_over;
        if is_over || self.appended == MAX_APPENDED || self.has_whole_message || is_known {
            return;
        }
        match &mut self.failure.message {
            Some(message) => {
                message.push_str(match (self.appended, effect) {
                    (_, Effect::Continue) | (1.., Effect::Explain) => " ",
                    (0, _) if message.ends_with([':', '.']) => " ",
                    (0, _) => ": ",
                    _ => ", ",
                });
                message.push_str(&more);
                *message = clip(message);
                self.appended += 1;
            }
            None => {
                self.failure.message = Some(more);
                self.appended += usize::from(effect == Effect::Append);
            }
        }
    }

    /// Removes the message, and the place that a frame told: another exception follows.
    fn forget_message(&mut self) {
        self.failure.message = None;
        if matches!(self.place_rank, PlaceRank::AnyFile | PlaceRank::TestFile) {
            self.failure.file = None;
            self.failure.line = None;
        }
        self.place_rank = PlaceRank::None;
    }

    /// Takes the place of a frame if no better one is known.
    fn locate(&mut self, groups: &Captures<'_>) {
        let Some(file) = group(groups, "file") else { return };
        let rank = PlaceRank::of_frame(&file, &self.failure, self.place_rank);
        if rank > self.place_rank {
            self.place_rank = rank;
            self.failure.line = number(groups, "line");
            if rank != PlaceRank::SameFile {
                self.failure.file = Some(file);
            }
        }
    }

    /// Notes the message of a cause, if the cause has none yet.
    fn name_cause(&mut self, message: Option<String>) {
        let Some(message) = message.filter(|_| !self.has_cause_name) else { return };
        self.has_cause_name = true;
        self.push_frame(format!("caused by {message}"));
    }

    pub(crate) fn read_trace(&mut self, effect: Effect, kind: FormatKind, groups: &Captures<'_>) {
        if effect == Effect::CauseBelow {
            self.begin_cause(groups);
        } else if effect == Effect::CauseAbove {
            self.turn_into_cause(groups);
        } else if self.is_told_again {
            // These frames are known.
        } else if kind == FormatKind::Trace(FrameOrder::InnermostLast) {
            self.section.push_inner(frame_text(groups));
        } else {
            self.section.push_outer(frame_text(groups));
        }
    }

    /// Begins the part of a cause, which follows.
    fn begin_cause(&mut self, groups: &Captures<'_>) {
        self.end_section();
        // The same message again is no cause: Ruby tells the error of a thread twice.
        let message = group(groups, "message");
        self.is_told_again = message.is_some() && message == self.failure.message;
        if self.is_told_again {
            return;
        }
        self.is_in_cause = true;
        self.has_cause_name = false;
        if let Some(divider) = group(groups, "frame") {
            self.push_frame(divider);
            self.has_cause_name = true;
        }
        self.name_cause(message);
        if groups.name("file").is_some() {
            self.section.push_outer(frame_text(groups));
        }
    }

    /// Makes all that was read the cause of the failure that follows.
    fn turn_into_cause(&mut self, groups: &Captures<'_>) {
        let failure = std::mem::take(&mut self.failure);
        let frames = self.section.take();
        if self.causes.len() < MAX_FRAMES {
            let mut parts = vec![format!("caused by {}", failure.message.unwrap_or_default())];
            if let (Some(file), Some(line)) = (failure.file, failure.line) {
                parts.push(format!("{file}:{line}"));
            }
            parts.extend(frames);
            self.causes.splice(0..0, parts);
        }
        self.is_complete = false;
        self.failure.log_line = failure.log_line;
        fill_fields(&mut self.failure, groups, Effect::Refill);
    }

    fn push_frame(&mut self, frame: String) {
        if self.failure.frames.len() < MAX_FRAMES {
            self.failure.frames.push(frame);
        }
    }

    fn end_section(&mut self) {
        for frame in self.section.take() {
            self.push_frame(frame);
        }
    }

    pub(crate) fn into_failure(mut self) -> Failure {
        self.end_section();
        for cause in std::mem::take(&mut self.causes) {
            self.push_frame(cause);
        }
        self.failure
    }
}

/// The text of a frame: the group `frame`, or `file:line in name`.
fn frame_text(groups: &Captures<'_>) -> String {
    if let Some(frame) = group(groups, "frame") {
        return frame;
    }
    let mut text = group(groups, "file").unwrap_or_default();
    if let Some(line) = group(groups, "line") {
        text = format!("{text}:{line}");
    }
    match group(groups, "name") {
        Some(name) if text.is_empty() => name,
        Some(name) => format!("{text} in {name}"),
        None => text,
    }
}

/// Sets the fields of a failure from the groups of a match; with `Fill` only the empty ones.
pub(crate) fn fill_fields(failure: &mut Failure, groups: &Captures<'_>, effect: Effect) {
    let replaces = effect == Effect::Refill;
    let fill_text = |field: &mut Option<String>, name| {
        if let Some(text) = group(groups, name)
            && (replaces || field.is_none())
        {
            *field = Some(text);
        }
    };
    fill_text(&mut failure.name, "name");
    fill_text(&mut failure.message, "message");
    // A place is replaced as a whole: a line belongs to its file.
    let has_place = failure.line.is_some();
    fill_text(&mut failure.file, "file");
    if (replaces || !has_place) && groups.name("line").is_some() {
        failure.line = number(groups, "line");
        failure.column = number(groups, "column");
    }
}

/// The number that a group matched.
pub(crate) fn number(groups: &Captures<'_>, name: &str) -> Option<u64> {
    groups.name(name)?.as_str().parse().ok()
}

/// The text of a group, if it matched something.
pub(crate) fn group(groups: &Captures<'_>, name: &str) -> Option<String> {
    let text = groups.name(name)?.as_str().trim();
    (!text.is_empty()).then(|| clip(text))
}

pub(crate) fn clip(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
