//! The facts that a summary reports.

/// The facts of an output, or of its beginning while the program still runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// The tools that were recognised, in the order of the log. A tool that ran several times has
    /// one entry with the counts of all runs.
    pub tools: Vec<ToolReport>,
    /// Stack traces outside the failures of tools.
    pub traces: Vec<Failure>,
    /// Error lines, by their form, outside the failures of tools.
    pub errors: FoundLines,
    /// Warning lines, by their form, outside the reports of tools.
    pub warnings: FoundLines,
    /// Groups of similar lines, and the lines that are unlike all others.
    pub groups: LineGroups,
    /// The number of lines that were read.
    pub lines: u64,
    /// The number of the last line that belongs to the report of a tool, or to a trace; 0 if there
    /// is none.
    pub explained_to: u64,
}

/// The report of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolReport {
    /// The name of the tool, as a reader calls it: `pytest`, `cargo test`, `tsc`.
    pub tool: &'static str,
    /// The number of the last line that belongs to the report, counted from 1.
    pub line: u64,
    /// The counts that the tool itself printed. Of a test runner that prints none, `failed` is the
    /// number of failures that were read.
    pub counts: Counts,
    /// The closing words of a tool that prints no counts: `BUILD FAILURE`.
    pub result: Option<String>,
    /// The failures, at most [`MAX_FAILURES`], in the order of the log.
    pub failures: Vec<Failure>,
    /// The number of failures that were read; more than `failures` holds if there are very many.
    pub failure_count: u64,
    /// The warnings, at most [`MAX_FAILURES`].
    pub warnings: Vec<Failure>,
    /// The number of warnings that were read.
    pub warning_count: u64,
    /// `true` if the number of failures that were read is the number that the tool printed, or if
    /// the tool printed none.
    pub is_consistent: bool,
}

impl ToolReport {
    /// `true` if something failed by the tool's own account.
    #[must_use]
    pub fn has_failures(&self) -> bool {
        self.failure_count > 0
            || self.counts.failed.is_some_and(|failed| failed > 0)
            || self.counts.errors.is_some_and(|errors| errors > 0)
    }
}

/// The most failures of one tool that are kept.
pub const MAX_FAILURES: usize = 200;

/// The counts that a tool printed; `None` if it does not count them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub passed: Option<u64>,
    /// Tests that failed, errors in tests included.
    pub failed: Option<u64>,
    /// Tests that were skipped.
    pub skipped: Option<u64>,
    /// Errors of a compiler or a linter.
    pub errors: Option<u64>,
    /// Warnings of a compiler or a linter.
    pub warnings: Option<u64>,
}

/// A failed test, an error of a compiler, a failed step, or a stack trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// The file, as the tool wrote it.
    pub file: Option<String>,
    /// The line in the file.
    pub line: Option<u64>,
    /// The column in that line.
    pub column: Option<u64>,
    /// The name of the test, the target or the step.
    pub name: Option<String>,
    /// The message, on one line.
    pub message: Option<String>,
    /// The first frames of a stack trace, and those of each cause.
    pub frames: Vec<String>,
    /// The number of the line in the log at which the failure begins, counted from 1.
    pub log_line: u64,
}

/// Lines of one severity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundLines {
    /// The number of lines.
    pub count: u64,
    /// Groups of lines that differ only in numbers, in the order of their first lines. Beyond a
    /// bound, further groups are only counted in `count`.
    pub kinds: Vec<LineGroup>,
}

/// A line of a log with its number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NumberedLine {
    /// The number in the log, counted from 1.
    pub number: u64,
    /// The text as a screen shows it.
    pub text: String,
}

/// The structure of an output that no format explains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineGroups {
    /// Groups of lines that differ only in numbers, times, hexadecimal values, paths or ids; the
    /// largest first.
    pub groups: Vec<LineGroup>,
    /// Lines that are unlike the others, in the order of the log.
    pub rare: Vec<NumberedLine>,
}

/// Lines that differ only in their variable parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineGroup {
    /// The number of lines.
    pub count: u64,
    /// The first line.
    pub first: NumberedLine,
    /// The last line.
    pub last: NumberedLine,
}
