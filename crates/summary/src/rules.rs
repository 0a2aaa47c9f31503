//! The rules by which a tool's lines are read. A format is data: patterns, and the effect of a line
//! that matches one of them.

use crate::summary::Failure;

/// The output format of one tool.
#[derive(Debug)]
pub(crate) struct Format {
    /// The name of the tool, as a reader calls it.
    pub(crate) name: &'static str,
    pub(crate) kind: FormatKind,
    pub(crate) rules: &'static [Rule],
    /// The end of a failure that has begun.
    pub(crate) block: BlockEnd,
    /// Completes a failure after its last line, for what rules cannot say. A failure without a name
    /// and a message is dropped.
    pub(crate) complete: Option<fn(&mut Failure)>,
    /// The text between the name of a test and that of a test inside it, if a test fails because of
    /// the tests inside it: it is not reported unless it has a message of its own.
    pub(crate) nested_by: Option<&'static str>,
    /// `true` if the tool also counts a test that failed only because a part of it failed: then
    /// it counts more failures than it lists.
    pub(crate) counts_groups: bool,
    /// `true` if failures are reported only of a run that a `Run`, `Sign`, `Heading`, `File`,
    /// `Result` or `Counts` rule confirms: the line that begins a failure may be text of any program.
    pub(crate) needs_sign: bool,
}

impl Format {
    /// The common part of formats, for struct update syntax.
    pub(crate) const DEFAULT: Self = Self {
        name: "",
        kind: FormatKind::Diagnostics,
        rules: &[],
        block: BlockEnd::Rule,
        complete: None,
        nested_by: None,
        counts_groups: false,
        needs_sign: false,
    };
}

/// The kind of a tool. It decides what the counts mean and which failures are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormatKind {
    /// A test runner. Failures with the same name are one failure; `failed` and `errors` are counts
    /// of tests. Traces and diagnostics inside a failure belong to it.
    Tests,
    /// A compiler or a linter: errors and warnings at places in files.
    Diagnostics,
    /// A tool that runs others: make, npm, docker. Its failures name the failed step.
    Steps,
    /// A stack trace.
    Trace(FrameOrder),
}

/// The order of the frames of a stack trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameOrder {
    /// The frame that failed comes first.
    InnermostFirst,
    /// The frame that failed comes last, as in Python.
    InnermostLast,
}

/// The end of a failure that a `Begin` rule began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockEnd {
    /// A rule of the format: `End`, the next `Begin`, `Counts`, `Run`.
    Rule,
    /// The first line that matches no rule of the format.
    FirstOther,
}

/// A pattern and its effect. Of all rules of a format, the first that matches and can be applied is
/// applied.
#[derive(Debug)]
pub(crate) struct Rule {
    /// A regular expression, matched at the beginning of the line. `\d`, `\w` and `\s` are ASCII.
    ///
    /// Groups named `file`, `line`, `column`, `name`, `message` fill a failure; `frame` is a frame;
    /// `passed`, `failed`, `errors`, `skipped`, `warnings`, `total` are counts, `incomplete` and
    /// `risky` those of tests that count as none of them. `ran` is the number of tests of a tool
    /// whose failures are not whole tests, and `uncounted` the number of listed failures that are
    /// not among the failed tests. A pattern must not
    /// depend on the value of a number: of lines that differ only in numbers, the first few decide
    /// whether the others are examined.
    pub(crate) on: &'static str,
    pub(crate) then: Effect,
}

/// The effect of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The line is a whole failure.
    Failure,
    /// The line is a whole warning.
    Warning,
    /// A failure begins; the following lines fill it.
    Begin,
    /// A failure begins; the next line that is not empty is its message.
    BeginAbove,
    /// A test starts or goes on. The following lines fill a failure of that name, which counts only
    /// if a later line says that the test failed.
    Watch,
    /// A failure or a warning begins, if a line shortly above is an error or a warning by its form:
    /// that line is the message. In a trace the line itself is a frame.
    BeginBelow,
    /// A failure begins; the next line that is not empty, and that no rule reads, is its message.
    BeginAwaiting,
    /// Like `BeginAwaiting`, for a failure that the tool does not count among the failed tests.
    BeginUncounted,
    /// A warning begins; the following lines fill it.
    BeginWarning,
    /// Fills the empty fields of the failure that has begun.
    Fill,
    /// Fills the empty fields; the next line that is not empty is the message. A second such line
    /// ends the message.
    FillAbove,
    /// Replaces the fields of the failure that has begun. An empty `message` removes the message
    /// and the place of its frames.
    Refill,
    /// Fills the empty fields; the next line that is not empty, and that no rule reads, is the
    /// message if there is none yet.
    FillAwaiting,
    /// A frame: the first one in the file of the failure is its place. If the file is not known, it
    /// is the first frame in a file of tests, else the first frame.
    Locate,
    /// Fills the empty fields with the last line of the failure: only the part that the failure
    /// caused can follow.
    FillLast,
    /// Adds to the message of the failure that has begun.
    Append,
    /// Adds the next line of a message, unless a place stood below the message.
    Continue,
    /// Adds an explanation of several lines to the message.
    Explain,
    /// Adds a frame to the failure that has begun: `frame`, or `file:line in name`.
    Frame,
    /// The message of a cause, whose frames follow.
    CauseBelow,
    /// The part of the trace that was read so far is the cause of the part that follows.
    CauseAbove,
    /// The following lines are output of the test: only effects that end a quote (`ends_quote`) are
    /// applied to them.
    Quote,
    /// Ends the failure that has begun, if there is one, and the output of a test. No later rule of
    /// the format reads the line.
    Heading,
    /// Ends the failure that has begun.
    End,
    /// The program ends in the watched test, which has failed.
    Confirm,
    /// Drops the failure that has begun: the line shows that nothing failed.
    Drop,
    /// Fills the failure of the same name that was not repeated yet; adds one if there is none.
    Repeat,
    /// Sets the file, and the line if it has one, for the following failures.
    File,
    /// Sets the name for the following failures.
    Name,
    /// Counts that the tool printed.
    Counts,
    /// Counts of a part of the run, called `name`. The counts of all parts add up; of several counts
    /// of the same part the highest is taken.
    PartCounts,
    /// Counts in a form that other tools use too: they end a failure that has begun, or follow
    /// other counts.
    EndCounts,
    /// Counts at the end of a list of failures only.
    ListCounts,
    /// Counts that belong to the tool only if they follow other counts.
    MoreCounts,
    /// Counts that belong to the tool only if they follow a blank line.
    ApartCounts,
    /// The following lines list failures.
    ListStart,
    /// The following lines list something else: skipped tests.
    ListEnd,
    /// A failure begins, in a list of failures only.
    BeginListed,
    /// The closing words of the tool, in `message`.
    Result,
    /// A new run of the tool starts, after one of the part `name` of the program.
    Run,
    /// The line confirms that the run is one of the tool.
    Sign,
    /// The line belongs to the format and has no effect: it keeps a block open.
    Keep,
    /// The line belongs to the format and tells nothing new, inside a block or outside.
    Skip,
}

impl Effect {
    /// `true` if the effect needs a failure that has begun.
    pub(crate) const fn needs_open(self) -> bool {
        matches!(
            self,
            Self::Fill
                | Self::FillAbove
                | Self::FillAwaiting
                | Self::Locate
                | Self::FillLast
                | Self::Refill
                | Self::Append
                | Self::Continue
                | Self::Explain
                | Self::Frame
                | Self::CauseBelow
                | Self::CauseAbove
                | Self::Confirm
                | Self::End
                | Self::Drop
                | Self::Keep
        )
    }

    /// `true` if the effect confirms that the run is one of the tool. Counts do so too.
    pub(crate) const fn signs(self) -> bool {
        matches!(self, Self::Sign | Self::Heading | Self::File | Self::Result)
    }

    /// `true` if the line has counts of the whole run.
    pub(crate) const fn reads_counts(self) -> bool {
        matches!(
            self,
            Self::Counts
                | Self::EndCounts
                | Self::ListCounts
                | Self::MoreCounts
                | Self::ApartCounts
        )
    }

    /// `true` if the line is read inside the output of a test.
    pub(crate) const fn ends_quote(self) -> bool {
        matches!(
            self,
            Self::Begin | Self::BeginAwaiting | Self::BeginUncounted | Self::Heading | Self::Run
        )
    }

    /// `true` if the effect creates a failure or a warning.
    pub(crate) const fn creates(self) -> bool {
        matches!(
            self,
            Self::Failure
                | Self::Warning
                | Self::Begin
                | Self::BeginListed
                | Self::BeginAbove
                | Self::BeginAwaiting
                | Self::BeginUncounted
                | Self::BeginBelow
                | Self::BeginWarning
        )
    }
}
