//! A failure while its lines are being read: its message, its place, and the frames of its trace.

use regex::Captures;

use crate::rules::{Effect, FormatKind, FrameOrder};
use crate::summary::{Failure, ToolReport};

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

/// Frames that are kept of a trace, and of each cause.
const FRAMES: usize = 3;
/// Beginnings of frames that belong to a language or to a common library.
const LIBRARY_STARTS: &[&str] = &[
    "java.",
    "javax.",
    "jdk.",
    "sun.",
    "kotlin.",
    "kotlinx.",
    "scala.",
    "groovy.",
    "System.",
    "Microsoft.",
    "org.springframework.",
    "org.hibernate.",
    "org.apache.",
    "org.postgresql.",
    "com.mysql.",
    "com.zaxxer.",
    "io.netty.",
    "reactor.",
];
/// Parts of the paths of libraries.
const LIBRARY_PARTS: &[&str] = &[
    "site-packages/",
    "dist-packages/",
    "/lib/python",
    "<frozen ",
    "node_modules/",
    "node:",
    "(<anonymous>)",
    "/gems/",
    "/vendor/",
];

/// The first frames of a part of a trace, the innermost first. If they all belong to libraries, the
/// innermost frame of the program itself is kept too.
#[derive(Debug, Clone, Default)]
struct FrameSection {
    frames: Vec<String>,
    own: Option<String>,
}

impl FrameSection {
    /// Adds a frame that called the frames before it.
    fn push_outer(&mut self, frame: String) {
        if self.frames.len() < FRAMES {
            self.frames.push(frame);
        } else if self.own.is_none() && !is_library(&frame) {
            self.own = Some(frame);
        }
    }

    /// Adds a frame that the frames before it called.
    fn push_inner(&mut self, frame: String) {
        self.frames.insert(0, frame);
        if self.frames.len() > FRAMES
            && let Some(outer) = self.frames.pop()
            && !is_library(&outer)
        {
            self.own = Some(outer);
        }
    }

    /// Takes the frames, and leaves none.
    fn take(&mut self) -> Vec<String> {
        let Self { mut frames, own } = std::mem::take(self);
        if frames.iter().all(|frame| is_library(frame)) {
            frames.extend(own);
        }
        frames
    }
}

fn is_library(frame: &str) -> bool {
    LIBRARY_STARTS.iter().any(|start| frame.starts_with(start))
        || LIBRARY_PARTS.iter().any(|part| frame.contains(part))
}

/// The rank of a frame as the place of a failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum PlaceRank {
    /// There is no frame yet.
    #[default]
    None,
    AnyFile,
    /// A file of tests, by its name.
    TestFile,
    /// The file that the tool named for the failure.
    SameFile,
}

impl PlaceRank {
    /// The rank of a frame for a failure whose place is the frame of rank `known`.
    fn of_frame(frame: &str, failure: &Failure, known: Self) -> Self {
        match &failure.file {
            Some(file) if known == Self::None && is_same_file(frame, file) => Self::SameFile,
            Some(_) if known == Self::None => Self::None,
            _ if is_test_file(frame) => Self::TestFile,
            _ => Self::AnyFile,
        }
    }
}

/// Removes the traces of failures that tools report: a frame is at the place of the failure. Such a
/// trace is the message of a failure that has none.
pub(crate) fn join_traces(tools: &mut [ToolReport], traces: &mut Vec<Failure>) {
    traces.retain(|trace| {
        let mut failures = tools.iter_mut().flat_map(|tool| &mut tool.failures);
        let Some(failure) = failures.find(|failure| is_in_trace(failure, trace)) else {
            return true;
        };
        if failure.message.is_none() {
            failure.message.clone_from(&trace.message);
        }
        false
    });
}

fn is_in_trace(failure: &Failure, trace: &Failure) -> bool {
    let (Some(file), Some(line)) = (&failure.file, failure.line) else { return false };
    let place = format!("{}:{line}", file.trim_start_matches("./"));
    let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.');
    trace.frames.iter().any(|frame| {
        frame.match_indices(&place).any(|(at, _)| {
            let rest = &frame[at + place.len()..];
            !frame[..at].ends_with(is_part) && !rest.starts_with(|char: char| char.is_ascii_digit())
        })
    })
}

/// `true` if one path is the end of the other.
fn is_same_file(one: &str, other: &str) -> bool {
    let one = one.trim_start_matches("./");
    let other = other.trim_start_matches("./");
    let ends_with = |path: &str, end: &str| {
        path.strip_suffix(end).is_some_and(|start| start.is_empty() || start.ends_with('/'))
    };
    ends_with(one, other) || ends_with(other, one)
}

/// `true` if the name or the folder of a file is that of tests.
fn is_test_file(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_test_folder =
        |folder: &str| matches!(folder, "test" | "tests" | "__tests__" | "spec" | "specs" | "e2e");
    let name = name.to_ascii_lowercase();
    name.contains("test") || name.contains("spec") || folders.split('/').any(is_test_folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(frames: &[&str]) -> Vec<String> {
        frames.iter().map(|&frame| frame.to_owned()).collect()
    }

    #[test]
    fn the_first_frame_of_the_program_is_kept_below_those_of_libraries() {
        let mut section = FrameSection::default();
        for frame in
            ["java.a(A.java:1)", "java.b(B.java:2)", "java.c(C.java:3)", "java.d", "app.e", "app.f"]
        {
            section.push_outer(frame.to_owned());
        }
        let expected = ["java.a(A.java:1)", "java.b(B.java:2)", "java.c(C.java:3)", "app.e"];
        assert_eq!(section.take(), names(&expected));
        assert_eq!(section.take(), names(&[]));
    }

    #[test]
    fn three_innermost_frames_are_kept_of_a_trace_that_begins_with_the_outermost() {
        let mut section = FrameSection::default();
        for frame in [
            "app.py:1",
            "app.py:2",
            "site-packages/a.py:3",
            "site-packages/b.py:4",
            "site-packages/c.py:5",
        ] {
            section.push_inner(frame.to_owned());
        }
        let expected =
            ["site-packages/c.py:5", "site-packages/b.py:4", "site-packages/a.py:3", "app.py:2"];
        assert_eq!(section.take(), names(&expected));
        for frame in ["app.py:1", "app.py:2", "app.py:3", "app.py:4"] {
            section.push_inner(frame.to_owned());
        }
        assert_eq!(section.take(), names(&["app.py:4", "app.py:3", "app.py:2"]));
    }

    #[test]
    fn a_frame_in_the_file_of_the_test_is_the_best_place() {
        use PlaceRank::{AnyFile, None, SameFile, TestFile};
        let known = Failure { file: Some("./test/a.test.js".into()), ..Failure::default() };
        let unknown = Failure::default();
        for (failure, frame, rank) in [
            (&known, "/srv/app/test/a.test.js", SameFile),
            (&known, "test/a.test.js", SameFile),
            (&known, "latest/a.test.js", None),
            (&known, "src/a.js", None),
            (&unknown, "src/a.js", AnyFile),
            (&unknown, "src/a_test.py", TestFile),
            (&unknown, "tests/a.py", TestFile),
            (&unknown, "/srv/contest/a.py", AnyFile),
        ] {
            assert_eq!(PlaceRank::of_frame(frame, failure, None), rank, "{frame}");
        }
    }
}
