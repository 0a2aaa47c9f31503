//! Recognises the results of tools: a table of formats, each of which matches only lines with its
//! tool's own signature.

use super::format_readers::{
    add_count, number_before, read_cargo_build, read_cargo_test, read_compiler, read_dd,
    read_go_test, read_java, read_jest, read_jvm_build, read_make, read_mocha, read_ninja,
    read_node, read_npm, read_panic, read_pytest, read_signal, read_tsc, read_unittest,
    read_vitest,
};
use crate::views::cut_chars;

/// The length of a summary in characters.
pub(super) const TEXT_CHARS: usize = 200;
/// The most names of failed tests that are remembered.
const MOST_NAMES: usize = 20;
/// The length of a name in characters.
const NAME_CHARS: usize = 120;

/// The result of a tool, in its own words if possible.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSummary {
    /// The offset of the line with the result.
    pub offset: u64,
    /// The name of the tool.
    pub tool: &'static str,
    /// The most informative line, with its details; at most 200 characters.
    pub text: String,
    /// The counts of the tool, or our own counts of its lines.
    pub counts: ToolCounts,
    /// The names of the first failed tests.
    pub failed: Vec<String>,
}

/// The counts of a tool; `None` if the tool does not count them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolCounts {
    /// The number of tests that passed.
    pub passed: Option<u64>,
    /// The number of tests that failed.
    pub failed: Option<u64>,
    /// Tests that were skipped.
    pub skipped: Option<u64>,
    /// Errors that the tool reported.
    pub errors: Option<u64>,
    /// Warnings that the tool reported.
    pub warnings: Option<u64>,
}

/// A line as a screen shows it, without its newline. An empty line also marks skipped output.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputLine<'a> {
    pub(super) offset: u64,
    pub(super) text: &'a str,
}

impl OutputLine<'_> {
    pub(super) fn remember(self) -> RememberedLine {
        self.remember_as(self.text)
    }

    /// Remembers the line with another text.
    pub(super) fn remember_as(self, text: &str) -> RememberedLine {
        RememberedLine { offset: self.offset, text: cut_chars(text.trim(), TEXT_CHARS) }
    }

    pub(super) fn starts_with_any(self, starts: &[&str]) -> bool {
        starts.iter().any(|start| self.text.starts_with(start))
    }
}

#[derive(Debug, Clone)]
pub(super) struct RememberedLine {
    pub(super) offset: u64,
    pub(super) text: String,
}

/// The format of one tool, or of one kind of its messages.
#[derive(Debug)]
struct ToolFormat {
    tool: &'static str,
    /// Alternatives of a pattern for the lines of this format that contain no error or warning
    /// word.
    signs: &'static str,
    reads: FormatReader,
}

/// The way in which a format reads lines.
#[derive(Debug)]
enum FormatReader {
    /// Lines with one of `starts` and none of `except` are errors. They are counted, and the first
    /// one is the summary.
    Errors { starts: &'static [&'static str], except: &'static [&'static str] },
    /// The first line that contains one of these is the summary.
    First { contains: &'static [&'static str] },
    /// The last line that starts with one of these is the summary.
    Last { starts: &'static [&'static str] },
    /// A function reads the lines.
    By(fn(&mut FormatState, OutputLine<'_>)),
}

use FormatReader::{By, Errors, First, Last};

const GO_TEST: &str = "go test";
const CARGO: &str = "cargo";
const CARGO_TEST: &str = "cargo test";

/// Every format, with examples of its lines.
const FORMATS: &[ToolFormat] = &[
    // error: could not compile `x` (lib) due to 2 previous errors; 1 warning emitted
    ToolFormat { tool: CARGO, signs: "^ +Finished `", reads: By(read_cargo_build) },
    // test result: FAILED. 3 passed; 1 failed; 0 ignored
    ToolFormat {
        tool: CARGO_TEST,
        signs: r"^test result: |^---- .* stdout ----|^ +Summary \[",
        reads: By(read_cargo_test),
    },
    // thread 'main' panicked at src/main.rs:3:37:, and the message in the line after it
    ToolFormat { tool: "panic", signs: "", reads: By(read_panic) },
    // 2 failed, 3 passed in 0.05s, within `=` or alone
    ToolFormat {
        tool: "pytest",
        signs: r"^=+ .* in [0-9.]+s|^\d+ (?:passed|skipped|deselected|xfailed)\b.* in [0-9.]+s|^ERROR \S+\.py",
        reads: By(read_pytest),
    },
    // Ran 4 tests in 0.001s, and a line later OK or FAILED (failures=1, errors=1)
    ToolFormat { tool: "unittest", signs: r"^Ran \d+ tests? in |^OK\b", reads: By(read_unittest) },
    // A bare `ERROR:` may come from any program.
    ToolFormat {
        tool: "pip",
        signs: "^Successfully installed ",
        reads: Last {
            starts: &[
                "ERROR: Could not find a version",
                "ERROR: No matching distribution",
                "ERROR: Could not install packages",
                "ERROR: Failed building wheel",
                "ERROR: Failed to build installable wheels",
                "error: externally-managed-environment",
                "error: subprocess-exited-with-error",
                "Successfully installed ",
            ],
        },
    },
    // Tests:       2 failed, 1 skipped, 2 passed, 5 total
    ToolFormat { tool: "jest", signs: r"^Tests: +\d|^  ● ", reads: By(read_jest) },
    //       Tests  1 failed | 1 passed | 1 skipped (3)
    ToolFormat { tool: "vitest", signs: r"^ +Tests  \d| FAIL  \S", reads: By(read_vitest) },
    //   3 passing (12ms), then 1 pending, 1 failing
    ToolFormat {
        tool: "mocha",
        signs: r"^ +\d+ (?:passing|failing|pending)\b",
        reads: By(read_mocha),
    },
    // npm error code ENOENT, npm error no package.json
    ToolFormat {
        tool: "npm",
        signs: r"^npm ERR! |^(?:added|changed|removed) \d+ packages?\b|^up to date\b",
        reads: By(read_npm),
    },
    // An exception that ended node: the error, its frames, and node's version in the last line.
    ToolFormat {
        tool: "node",
        signs: r"^    at .*:\d+:\d+\)?|^Node\.js v\d",
        reads: By(read_node),
    },
    // app.ts(2,33): error TS2322: …, or app.ts:2:33 - error TS2322: …
    ToolFormat { tool: "tsc", signs: "", reads: By(read_tsc) },
    // --- FAIL: TestStore (0.00s), FAIL\tapp\t0.002s, ok  \tapp/ok\t0.002s
    ToolFormat {
        tool: GO_TEST,
        signs: r"^ *--- (?:PASS|SKIP): |^ok[ \t]+\S+\t",
        reads: By(read_go_test),
    },
    // main.c:3:5: error: expected ';'
    ToolFormat { tool: "cc", signs: "", reads: By(read_compiler) },
    // make[1]: *** [Makefile:3: main.o] Error 1
    ToolFormat { tool: "make", signs: r"^g?make(?:\[\d+\])?: \*\*\* ", reads: By(read_make) },
    // FAILED: main.o, then ninja: build stopped: subcommand failed.
    ToolFormat { tool: "ninja", signs: "^ninja: build stopped: ", reads: By(read_ninja) },
    ToolFormat {
        tool: "cmake",
        signs: "",
        reads: Errors { starts: &["CMake Error at ", "CMake Error: "], except: &[] },
    },
    // java.lang.IllegalStateException: …, its frames, and Caused by: …
    ToolFormat {
        tool: "java",
        signs: r"^[ \t]+at [\w.$/<>]+\([\w$]+\.(?:java|kt|scala|groovy):\d+\)|^Caused by: ",
        reads: By(read_java),
    },
    // [INFO] BUILD FAILURE, BUILD FAILED in 3s, and Tests run: 3, Failures: 1, …
    ToolFormat {
        tool: "maven",
        signs: r"^\[INFO\] BUILD |^BUILD SUCCESSFUL in |\bTests run: \d",
        reads: By(read_jvm_build),
    },
    ToolFormat {
        tool: "git",
        signs: r"^ ! \[(?:remote )?rejected\]",
        reads: Errors {
            starts: &["fatal: ", "CONFLICT (", " ! [rejected]", " ! [remote rejected]"],
            except: &[],
        },
    },
    // The last message of tar names no cause, so the first one is the summary.
    ToolFormat {
        tool: "tar",
        signs: "^tar: ",
        reads: Errors {
            starts: &["tar: "],
            except: &["tar: Removing leading ", "tar: Record size "],
        },
    },
    // 3000+0 records out, and the line about bytes and speed after it
    ToolFormat {
        tool: "dd",
        signs: r"^\d+\+\d+ records out|^\d+ bytes .*copied, ",
        reads: By(read_dd),
    },
    ToolFormat { tool: "dd", signs: "^dd: ", reads: Last { starts: &["dd: "] } },
    // bash: line 1: 11370 Segmentation fault      ./app, or the words alone
    ToolFormat {
        tool: "signal",
        signs: r"^(?:\S+: line \d+: +\d+ )?(?:Bus error|Illegal instruction|Floating point exception|Terminated|Trace/breakpoint trap)\b",
        reads: By(read_signal),
    },
    // The messages of the kernel, node, Java and C++ about a lack of memory.
    ToolFormat {
        tool: "memory",
        signs: "oom-kill",
        reads: First {
            contains: &[
                "Out of memory: Killed process",
                "oom-kill:",
                "JavaScript heap out of memory",
                "java.lang.OutOfMemoryError",
                "std::bad_alloc",
                "Cannot allocate memory",
            ],
        },
    },
];

/// The signatures of all formats, as further alternatives of a pattern.
pub(super) fn signs() -> String {
    let signs = FORMATS.iter().filter(|format| !format.signs.is_empty());
    signs.map(|format| format!("|(?-i:{})", format.signs)).collect()
}

/// The state of one format, in bounded memory.
#[derive(Debug, Default)]
pub(super) struct FormatState {
    /// The summary line, once the format was recognised.
    pub(super) summary_line: Option<RememberedLine>,
    /// A location, shown in brackets after the summary.
    pub(super) location: Option<String>,
    pub(super) cause: Option<String>,
    pub(super) counts: ToolCounts,
    pub(super) failed: Vec<String>,
    /// The tool, if the lines tell which one it is.
    pub(super) tool: Option<&'static str>,
    /// A line that matters only if another one follows.
    pub(super) pending: Option<RememberedLine>,
    /// `true` if no later line is more informative than `summary_line`, or `pending`.
    pub(super) is_final: bool,
    /// `true` if the very next line matters, whatever it says.
    pub(super) wants_next: bool,
}

impl FormatState {
    fn read(&mut self, reads: &FormatReader, line: OutputLine<'_>) {
        self.wants_next = false;
        match reads {
            Errors { starts, except } => {
                if line.starts_with_any(starts) && !line.starts_with_any(except) {
                    self.add_error(line);
                }
            }
            First { contains } => {
                if self.summary_line.is_none()
                    && contains.iter().any(|part| line.text.contains(part))
                {
                    self.summary_line = Some(line.remember());
                }
            }
            Last { starts } => {
                if line.starts_with_any(starts) {
                    self.summary_line = Some(line.remember());
                }
            }
            By(read) => read(self, line),
        }
    }

    /// Counts an error. The first one is the summary.
    pub(super) fn add_error(&mut self, line: OutputLine<'_>) {
        add_count(&mut self.counts.errors, Some(1));
        self.summary_line.get_or_insert_with(|| line.remember());
    }

    /// Reads the numbers before the words passed, failed and skipped.
    pub(super) fn read_test_counts(&mut self, line: OutputLine<'_>) {
        self.counts = ToolCounts {
            passed: number_before(line.text, &["passed"]).or(Some(0)),
            failed: number_before(line.text, &["failed"]).or(Some(0)),
            skipped: number_before(line.text, &["skipped"]),
            ..ToolCounts::default()
        };
        self.summary_line = Some(line.remember());
    }

    /// Adds the name of a failed test, each name once.
    pub(super) fn add_failed(&mut self, name: &str) {
        let name = name.trim();
        let is_new = !self.failed.iter().any(|known| known == name);
        if is_new && self.failed.len() < MOST_NAMES && !name.is_empty() {
            self.failed.push(name.chars().take(NAME_CHARS).collect());
        }
    }

    fn summary(&self, tool: &'static str) -> Option<ToolSummary> {
        let RememberedLine { offset, text } = self.summary_line.as_ref()?;
        let mut text = text.clone();
        if let Some(place) = &self.location {
            text = format!("{text} ({place})");
        }
        if let Some(cause) = &self.cause {
            text = format!("{text}, caused by {cause}");
        }
        let tool = self.tool.unwrap_or(tool);
        let failed = self.failed.iter().filter(|name| tool != GO_TEST || !self.is_outer(name));
        Some(ToolSummary {
            offset: *offset,
            tool,
            text: cut_chars(&text, TEXT_CHARS),
            counts: self.counts,
            failed: failed.cloned().collect(),
        })
    }

    /// `true` if another name is nested in this one: `TestStore` if there is `TestStore/loads`.
    fn is_outer(&self, name: &str) -> bool {
        let is_inner =
            |other: &String| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
        self.failed.iter().any(is_inner)
    }
}

/// The states of all formats.
#[derive(Debug)]
pub(super) struct Formats(Vec<FormatState>);

impl Formats {
    pub(super) fn new() -> Self {
        Self(FORMATS.iter().map(|_| FormatState::default()).collect())
    }

    /// Passes the next line to all formats. Returns `true` if one of them needs the very next line.
    pub(super) fn read(&mut self, line: OutputLine<'_>) -> bool {
        let mut wants_next = false;
        for (state, format) in self.0.iter_mut().zip(FORMATS) {
            state.read(&format.reads, line);
            wants_next |= state.wants_next;
        }
        wants_next
    }

    pub(super) fn summaries(&self) -> Vec<ToolSummary> {
        let state = || self.0.iter().zip(FORMATS);
        let has_tests = state()
            .any(|(state, format)| format.tool == CARGO_TEST && state.summary_line.is_some());
        // If tests ran, the build succeeded.
        let is_reported = |state: &FormatState, tool| tool != CARGO || state.is_final || !has_tests;
        let told = state().filter(|(state, format)| is_reported(state, format.tool));
        told.filter_map(|(state, format)| state.summary(format.tool)).collect()
    }
}
