//! Rust: cargo and rustc, test runners, panics.

use crate::rules::Effect::{
    Append, Begin, BeginAbove, BeginBelow, Counts, End, Failure, Fill, FillAbove, Frame, Keep,
    PartCounts, Skip, Warning,
};
use crate::rules::{BlockEnd, Format, FormatKind, FrameOrder, Rule};
use crate::summary;

pub(crate) const FORMATS: &[Format] = &[NEXTEST, CARGO_TEST, CARGO, PANIC];

/// The build commands of cargo, and rustc and clippy, which they run.
const CARGO: Format = Format {
    name: "cargo",
    rules: &[
        // Cargo shows an error of a library and of its tests once, but counts it twice.
        Rule {
            on: r"error: could not compile (?P<name>`[^`]+`(?: \([^)]*?)?)(?: test)?\)? due to (?:(?P<errors>\d+) )?previous errors?(?:; (?P<warnings>\d+) warnings? emitted)?",
            then: PartCounts,
        },
        Rule {
            on: r"warning: (?P<name>`[^`]+`(?: \([^)]*?)?)(?: test)?\)? generated (?P<warnings>\d+) warnings?",
            then: PartCounts,
        },
        Rule {
            on: r"error: aborting due to (?P<errors>\d+) previous errors?(?:; (?P<warnings>\d+) warnings? emitted)?",
            then: PartCounts,
        },
        Rule { on: r"warning: (?P<warnings>\d+) warnings? emitted", then: PartCounts },
        Rule { on: r"(?:warning|error): build failed|error: command `\S*cargo ", then: Skip },
        Rule { on: r"(?P<message>error\[E\d+\]: .+)$", then: Begin },
        Rule { on: r"(?P<message>error: linking with .+)$", then: Begin },
        Rule { on: r"\s*--> (?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+)$", then: Fill },
        Rule {
            on: r"\s*--> (?P<file>[^\s:]+\.(?:rs|toml)):(?P<line>\d+):(?P<column>\d+)$",
            then: BeginBelow,
        },
        // The label of the error's place, unless it repeats the message.
        Rule { on: r"\s*\|[\s|_-]*\^+ (?:not found|method not found|help: |unknown )", then: Keep },
        Rule { on: r"\s*\|[\s|_-]*\^+ (?P<message>[^\s^-].*)$", then: Append },
        Rule { on: r"\s|$|\d+ +[|+~-]|\.\.\.|(?:help|note): ", then: Keep },
        // src/main.rs:11:20: error[E0308]: mismatched types: expected `u32`, found `i64`
        Rule {
            on: r"(?P<file>[^\s:]+\.rs):(?P<line>\d+):(?P<column>\d+): (?P<message>error(?:\[E\d+\])?: .+)$",
            then: Failure,
        },
        Rule {
            on: r"(?P<file>[^\s:]+\.rs):(?P<line>\d+):(?P<column>\d+): (?P<message>warning: .+)$",
            then: Warning,
        },
    ],
    block: BlockEnd::FirstOther,
    complete: Some(shorten_warning),
    ..Format::DEFAULT
};

/// Removes the level and the name at the end of a warning, so that warnings of one kind are alike.
fn shorten_warning(failure: &mut summary::Failure) {
    if let Some(text) = failure.message.as_deref().and_then(|it| it.strip_prefix("warning: ")) {
        let kind = text.split_once(": `").map_or(text, |(kind, _)| kind);
        failure.message = Some(kind.to_owned());
    }
}

const CARGO_TEST: Format = Format {
    name: "cargo test",
    kind: FormatKind::Tests,
    rules: &[
        // A test may print lines like those of the runner.
        Rule { on: r"test result: |test .+ \.\.\. ", then: Keep },
        Rule { on: r"failures:$", then: End },
        Rule {
            on: r"---- (?P<file>\S+) - (?P<name>(?:.+ )?\(line (?P<line>\d+)\)) stdout ----$",
            then: Begin,
        },
        Rule { on: r"---- (?P<name>\S.*?) stdout ----$", then: Begin },
        Rule { on: PANICKED_AT, then: FillAbove },
        Rule { on: PANICKED_WITH, then: Fill },
        Rule { on: r"\s*(?P<message>(?:left|right): .+)$", then: Append },
        Rule {
            on: r"note: (?P<message>test did not panic as expected)(?: at (?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+))?$",
            then: Fill,
        },
        Rule { on: r"note: (?P<message>panic did not contain expected string)", then: Append },
        Rule { on: r"(?P<message>(?:Error|error(?:\[E\d+\])?): .+)$", then: Fill },
        Rule {
            on: r"test (?P<file>\S+) - (?P<name>(?:.+ )?\(line (?P<line>\d+)\))(?: - .+?)? \.\.\. FAILED(?: <.+>)?$",
            then: Failure,
        },
        Rule {
            on: r"test (?P<name>\S+)(?: - should panic)? \.\.\. FAILED(?: <.+>)?$",
            then: Failure,
        },
        // Quiet runs.
        Rule {
            on: r"(?P<file>\S+) - (?P<name>(?:.+ )?\(line (?P<line>\d+)\))(?: - .+?)? --- FAILED$",
            then: Failure,
        },
        Rule { on: r"(?P<name>\S+)(?: - should panic)? --- FAILED$", then: Failure },
        Rule {
            on: r"  process didn't exit successfully: `(?P<name>[^`]*/deps/[^`]+)` \((?P<message>signal: .+)\)$",
            then: Failure,
        },
        Rule {
            on: r"test result: (?:ok|FAILED)\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<skipped>\d+) ignored;",
            then: Counts,
        },
        Rule {
            on: r"error: (?:doc)?test failed, to rerun pass |error: \d+ targets? failed:",
            then: Skip,
        },
    ],
    ..Format::DEFAULT
};

const NEXTEST: Format = Format {
    name: "nextest",
    kind: FormatKind::Tests,
    rules: &[
        // A failure is told when it happens, and again after the counts.
        Rule {
            on: r"\s+(?:TRY \d+ )?FAIL \[ *[\d.]+s\](?: \( *\d+/\d+\))? (?P<name>\S+ +\S.*)$",
            then: Begin,
        },
        Rule {
            on: r"\s+(?:TRY \d+ )?(?P<message>SIG[A-Z]+|ABORT|TIMEOUT|LEAK-FAIL|XFAIL) \[ *[\d.]+s\](?: \( *\d+/\d+\))? (?P<name>\S+ +\S.*)$",
            then: Begin,
        },
        Rule {
            on: r"\s+(?:TRY \d+ )?(?:PASS|SLOW|SKIP) \[|─{8,}$|error: test run failed",
            then: End,
        },
        Rule { on: PANICKED_AT, then: FillAbove },
        Rule { on: PANICKED_WITH, then: Fill },
        Rule { on: r"\s+(?P<message>(?:left|right): .+)$", then: Append },
        Rule {
            on: r"\s+(?P<message>thread '[^']*' (?:\(\d+\) )?has overflowed its stack)$",
            then: Append,
        },
        Rule {
            on: r"\s*note: (?P<message>test did not panic as expected)(?: at (?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+))?$",
            then: Fill,
        },
        Rule { on: r"\s*(?P<message>Error: .+)$", then: Fill },
        Rule {
            on: r"\s+Summary \[ *[\d.]+s\] \d+(?:/\d+)? tests? run: (?P<passed>\d+) passed(?: \([^)]*\))?(?:, (?P<failed>\d+) failed)?(?:, (?P<errors>\d+) (?:exec failed|timed out))?(?:, (?P<skipped>\d+) skipped)?",
            then: Counts,
        },
        Rule { on: r"error: test run failed", then: Skip },
    ],
    ..Format::DEFAULT
};

const PANICKED_AT: &str =
    r"\s*thread '[^']*' (?:\(\d+\) )?panicked at (?P<file>[^:]+):(?P<line>\d+):(?P<column>\d+):$";
/// The form before Rust 1.73.
const PANICKED_WITH: &str = r"\s*thread '[^']*' panicked at '(?P<message>.*)', (?P<file>[^:]+):(?P<line>\d+):(?P<column>\d+)$";

const PANIC: Format = Format {
    name: "Rust",
    kind: FormatKind::Trace(FrameOrder::InnermostFirst),
    rules: &[
        Rule { on: PANICKED_AT, then: BeginAbove },
        Rule { on: PANICKED_WITH, then: Begin },
        Rule {
            on: r"\s*(?P<message>thread '[^']*' (?:\(\d+\) )?has overflowed its stack)$",
            then: Failure,
        },
        Rule { on: r"\s*(?P<message>(?:left|right): .+)$", then: Append },
        // Frames of the standard library and of dependencies.
        Rule {
            on: r"\s+at (?:/rustc/|\S*/(?:registry/src|git/checkouts|rustlib/src)/)",
            then: Keep,
        },
        Rule { on: r"\s+at (?:\./)?(?P<file>[^\s:]+):(?P<line>\d+)(?::\d+)?$", then: Frame },
        Rule { on: r"\s|stack backtrace:|note: ", then: Keep },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};
