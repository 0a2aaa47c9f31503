//! JavaScript and TypeScript: test runners, checkers and npm; and TAP, which others print too.

use crate::rules::Effect::{
    ApartCounts, Append, Begin, BeginAwaiting, BeginUncounted, Counts, Drop, End, Failure, File,
    Fill, FillAwaiting, Keep, ListEnd, Locate, MoreCounts, Refill, Result, Run, Sign, Skip,
    Warning,
};
use crate::rules::{BlockEnd, Format, FormatKind, Rule};
use crate::summary;

pub(crate) const FORMATS: &[Format] =
    &[NODE_TEST, JEST, VITEST, PLAYWRIGHT, MOCHA, ESLINT, TSC, NPM];

/// Formats that many tools print: those of the tools come first.
pub(crate) const COMMON_FORMATS: &[Format] = &[TAP];

/// The list of failing tests of the reporter `spec`.
const NODE_TEST: Format = Format {
    name: "node test",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r"ℹ tests \d+$", then: Counts },
        // A group whose preparation fails is listed, and not counted among the tests.
        Rule { on: r"ℹ suites (?P<uncounted>\d+)$", then: MoreCounts },
        Rule { on: r"ℹ pass (?P<passed>\d+)$", then: MoreCounts },
        Rule { on: r"ℹ fail (?P<failed>\d+)$", then: MoreCounts },
        Rule { on: r"ℹ cancelled (?P<errors>\d+)$", then: MoreCounts },
        Rule { on: r"ℹ skipped (?P<skipped>\d+)$", then: MoreCounts },
        Rule { on: r"ℹ (?:todo|duration_ms) [\d.]+$", then: MoreCounts },
        // test at test/cart.test.js:9:5
        Rule { on: r"test at (?P<file>\S.*?):(?P<line>\d+):\d+$", then: Begin },
        Rule { on: r"✖ (?P<name>\S.*?)(?: \([\d.]+ms\))?$", then: FillAwaiting },
        // The failure of the group is listed too.
        Rule { on: r"  'test did not finish before its parent and was cancelled'$", then: Drop },
        Rule { on: r"  AssertionError \[ERR_ASSERTION\]: (?P<message>\S.*?):?$", then: Fill },
        Rule { on: r"  (?P<message>\S.* !==? .+)$", then: Refill },
        Rule { on: r"  \+ actual - expected", then: Keep },
        Rule { on: r"  (?P<message>[-+] +\S.*?),?$", then: Append },
        Rule { on: r"  (?P<message>'.*')$", then: Append },
        Rule { on: r"    (?P<message>assert\b.*\(.*)$", then: Append },
        Rule { on: r"      at .*node:", then: Keep },
        Rule {
            on: r"      at (?:.*\()?(?P<file>[^\s()]+):(?P<line>\d+):\d+\)?(?: \{)?$",
            then: Locate,
        },
        Rule { on: r"  \}$", then: End },
    ],
    complete: Some(complete_node_test),
    counts_groups: true,
    ..Format::DEFAULT
};

/// Removes the message of a file that cannot be loaded: its trace tells more.
fn complete_node_test(failure: &mut summary::Failure) {
    failure.message.take_if(|message| message == "'test failed'");
    shorten_comparison(failure);
}

/// Writes the comparison of two values as older versions of Node.js do: `'a' !== 'b'`.
fn shorten_comparison(failure: &mut summary::Failure) {
    let Some(message) = &mut failure.message else { return };
    let values = message.strip_prefix("Expected values to be strictly equal: + ");
    if let Some((actual, expected)) = values.and_then(|values| values.split_once(", - ")) {
        *message = format!("{actual} !== {expected}");
    }
}

/// The Test Anything Protocol, with the details that Node.js, mocha, tap, Perl and bats add.
const TAP: Format = Format {
    name: "TAP",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r"TAP version \d+$", then: Run },
        Rule { on: r"\d+\.\.\d+$", then: Sign },
        Rule { on: r"\s*(?:not )?ok \d+\b.*# (?i:todo|skip)\b", then: ListEnd },
        Rule { on: r"\s*ok \d+\b", then: ListEnd },
        Rule {
            on: r"\s*not ok \d+ (?:- )?(?P<name>\S.*?)(?: +# time=.*| in \d+\w+)?$",
            then: Begin,
        },
        Rule { on: r"\s*not ok (?P<name>\d+)$", then: Begin },
        // Node.js: the failure of a group tells nothing that its parts do not tell.
        Rule { on: r"\s+failureType: '(?:subtestsFailed|cancelledByParent)'$", then: Drop },
        Rule { on: r"\s+location: '(?P<file>.*):(?P<line>\d+):\d+'$", then: Fill },
        Rule {
            on: r"\s+error: '(?:\d+ subtests? failed|test did not finish before its parent .*)'$",
            then: Skip,
        },
        Rule { on: r"\s+error: '(?P<message>.*)'$", then: Fill },
        Rule { on: r"\s+(?P<message>'.*')$", then: Append },
        Rule { on: r"\s+(?P<message>assert\b.*\(.*)$", then: Append },
        Rule { on: r"\s+error: [|>]-?$", then: FillAwaiting },
        Rule { on: r"\s+stack: [|>]-?$", then: Keep },
        Rule { on: r"\s+(?P<message>Expected values to be .*?):$", then: Fill },
        Rule { on: r"\s+(?P<message>\S.* !==? .+)$", then: Refill },
        Rule { on: r"\s+\+ actual - expected", then: Keep },
        Rule { on: r"\s+(?:---|\+\+\+) ", then: Keep },
        Rule { on: r"\s+(?P<message>[-+] *[^-+\s].*?),?$", then: Append },
        Rule { on: r"\s+(?:at )?(?:.*\()?node:", then: Keep },
        Rule {
            on: r"\s+(?:at )?(?:.*\()?(?P<file>[^\s()]+\.\w+):(?P<line>\d+):\d+\)?$",
            then: Locate,
        },
        // tap: the place in lines of their own.
        Rule { on: r"\s+fileName: (?P<file>\S+)$", then: Fill },
        Rule { on: r"\s+lineNumber: (?P<line>\d+)$", then: Fill },
        // mocha
        Rule { on: r"  AssertionError(?: \[\w+\])?: (?P<message>.*?):?$", then: Fill },
        Rule { on: r"  (?P<message>\w*Error(?: \[\w+\])?: .*)$", then: Fill },
        // Perl
        Rule { on: r"#   Failed \(TODO\) test ", then: ListEnd },
        Rule { on: r"#   Failed test '(?P<name>.*)'$", then: Begin },
        Rule { on: r"#   (?:Failed test )?at (?P<file>\S.*?) line (?P<line>\d+)\.$", then: Fill },
        Rule { on: r"# +(?P<message>(?:got|expected): .*)$", then: Append },
        Rule { on: r"# +(?P<message>\$(?:got|expected)\S* = .*)$", then: Append },
        Rule { on: r"# Looks like you failed (?P<failed>\d+) tests? of \d+\.$", then: Counts },
        Rule { on: r"Result: (?P<message>PASS|FAIL|NOTESTS)$", then: Result },
        // bats
        Rule {
            on: r"# +\((?:in|from) .*?(?:test )?file (?P<file>\S+), line (?P<line>\d+)[),]",
            then: Fill,
        },
        Rule { on: r"# +(?P<message>`.*' failed.*)$", then: Fill },
        Rule {
            on: r"# (?P<file>\S+): line (?P<line>\d+): (?P<message>syntax error.*)$",
            then: Fill,
        },
        Rule { on: r"\s*\.\.\.$", then: End },
        Rule { on: r"# tests \d+$", then: Counts },
        Rule { on: r"# suites (?P<uncounted>\d+)$", then: MoreCounts },
        Rule { on: r"# pass (?P<passed>\d+)$", then: MoreCounts },
        Rule { on: r"# fail (?P<failed>\d+)$", then: MoreCounts },
        Rule { on: r"# cancelled (?P<errors>\d+)$", then: MoreCounts },
        Rule { on: r"# skipped (?P<skipped>\d+)$", then: MoreCounts },
    ],
    complete: Some(shorten_comparison),
    counts_groups: true,
    needs_sign: true,
    ..Format::DEFAULT
};

const JEST: Format = Format {
    name: "jest",
    kind: FormatKind::Tests,
    rules: &[
        Rule {
            on: r" ?FAIL +(?:\S.* )?(?P<file>\S+\.[cm]?[jt]sx?)(?: \([\d.]+ m?s\))?$",
            then: File,
        },
        Rule { on: r" ?PASS +\S", then: ListEnd },
        Rule { on: r"Summary of all failing tests$", then: ListEnd },
        Rule { on: r"  ● Console$", then: ListEnd },
        Rule { on: r" › \d+ snapshots? ", then: ListEnd },
        Rule { on: r"  ● (?P<name>Test suite failed to run)$", then: BeginUncounted },
        Rule { on: r"  ● (?P<name>\S.*)$", then: BeginAwaiting },
        Rule { on: r"    (?P<message>expect\(.*?)(?: // .*)?$", then: Fill },
        Rule { on: r"    (?P<message>SyntaxError: .*)$", then: Refill },
        Rule { on: r"    Snapshot name: ", then: Keep },
        Rule { on: r"    (?P<message>(?:Expected|Received|Snapshot)(?: \w+)?: .*)$", then: Append },
        Rule { on: r"    (?P<message>Received function did not throw)$", then: Append },
        Rule { on: r"    [-+] (?:Expected|Received|Snapshot)  [-+] \d+$", then: Keep },
        Rule { on: r"    (?P<message>[-+] +\S.*?),?$", then: Append },
        Rule { on: r" +at .*node_modules/", then: Keep },
        Rule { on: r" +at (?:.*\()?(?P<file>[^\s()]+):(?P<line>\d+):\d+\)?$", then: Locate },
        Rule { on: r"(?P<message>No tests found), exiting with code ", then: Result },
        Rule { on: r"Test Suites: +.*\btotal$", then: Counts },
        Rule {
            on: r"Tests: +(?:(?P<failed>\d+) failed, )?(?:(?P<skipped>\d+) skipped, )?(?:\d+ todo, )?(?:(?P<passed>\d+) passed, )?\d+ total$",
            then: MoreCounts,
        },
    ],
    complete: Some(complete_jest),
    needs_sign: true,
    ..Format::DEFAULT
};

/// A heading outside the report of a file is text of another program.
fn complete_jest(failure: &mut summary::Failure) {
    if failure.file.is_none() {
        *failure = summary::Failure::default();
    }
}

const VITEST: Format = Format {
    name: "vitest",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r" (?:RUN|DEV)  v\d", then: Run },
        // Files that cannot be loaded, and groups whose preparation fails.
        Rule { on: r"⎯+ Failed Suites (?P<uncounted>\d+) ⎯+$", then: Counts },
        Rule { on: r" FAIL  (?:\|.*\| )?(?P<name>(?P<file>\S+)) \[ \S+ \]$", then: BeginAwaiting },
        Rule { on: r" FAIL  (?:\|.*\| )?(?P<file>\S+) > (?P<name>\S.*)$", then: BeginAwaiting },
        Rule { on: r"AssertionError: (?P<message>\S.*?)(?: // .*)?$", then: Fill },
        // Only the changed parts of objects: short values are in the message.
        Rule { on: r"(?P<message>[-+]  +\S.*?),?$", then: Append },
        Rule { on: r" ❯ .*node_modules/", then: Keep },
        Rule { on: r" ❯ (?:.* )?(?P<file>\S+):(?P<line>\d+):\d+$", then: Locate },
        Rule { on: r"⎯+\[\d+/\d+\]⎯", then: End },
        Rule { on: r" +Test Files  .*\(\d+\)$", then: Counts },
        Rule {
            on: r" +Tests  (?:(?P<failed>\d+) failed)?(?: \| )?(?:(?P<passed>\d+) passed)?(?: \| )?(?:(?P<skipped>\d+) skipped)?(?: \| )?(?:\d+ todo)? \(\d+\)$",
            then: MoreCounts,
        },
        Rule { on: r" +Tests  no tests$", then: MoreCounts },
        Rule { on: r"(?P<message>No test files found), exiting", then: Result },
    ],
    ..Format::DEFAULT
};

const MOCHA: Format = Format {
    name: "mocha",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r"  (?P<passed>\d+) passing(?: \(\w+\))?$", then: ApartCounts },
        Rule { on: r"  (?P<skipped>\d+) pending$", then: MoreCounts },
        Rule { on: r"  (?P<failed>\d+) failing$", then: MoreCounts },
        // The heading of a test outside a group, or of the outermost group.
        Rule { on: r"  \d+\) (?P<name>\S.*):$", then: BeginAwaiting },
        Rule { on: r"  \d+\) \S", then: Begin },
        Rule { on: r" {7,}(?P<name>\S.*):$", then: FillAwaiting },
        Rule {
            on: r" {5,}(?P<message>Error: Timeout of \S+ exceeded)\. .*\((?P<file>\S+)\)$",
            then: Fill,
        },
        Rule { on: r" {5,}AssertionError(?: \[\w+\])?: (?P<message>\S.*?):?$", then: Fill },
        Rule { on: r"(?P<message>\S.* !==? .+)$", then: Refill },
        Rule { on: r"\s*\+ (?:actual - expected|expected - actual)", then: Keep },
        Rule { on: r"(?P<message>[-+] +\S.*?),?$", then: Append },
        Rule { on: r" +at .*(?:node:|node_modules/)", then: Keep },
        Rule { on: r" +at (?:.*\()?(?P<file>[^\s()]+):(?P<line>\d+):\d+\)?$", then: Locate },
    ],
    complete: Some(complete_mocha),
    needs_sign: true,
    ..Format::DEFAULT
};

/// A heading without a message stands in the list of all tests, not in that of failures.
fn complete_mocha(failure: &mut summary::Failure) {
    if failure.message.is_none() {
        failure.name = None;
    }
    shorten_comparison(failure);
}

const PLAYWRIGHT: Format = Format {
    name: "playwright",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r"Running \d+ tests? using \d+ workers?$", then: Run },
        // 1) [chromium] › tests/cart.spec.ts:9:5 › cart › adds prices ──────
        Rule {
            on: r"  \d+\) (?P<name>(?:\[.*?\] › )?(?P<file>[^\s›]\S*?):(?P<line>\d+):\d+ › \S.*?) ─*$",
            then: BeginAwaiting,
        },
        Rule { on: r"    Error: (?P<message>expect\(.*?)(?: // .*)?$", then: Fill },
        Rule { on: r"    (?P<message>(?:Expected|Received)(?: \w+)?: .*)$", then: Append },
        Rule { on: r"    [-+] (?:Expected|Received)  [-+] \d+$", then: Keep },
        Rule { on: r"    (?P<message>[-+] +\S.*?),?$", then: Append },
        Rule { on: r" +at .*node_modules/", then: Keep },
        Rule { on: r" +at (?:.*\()?(?P<file>[^\s()]+):(?P<line>\d+):\d+\)?$", then: Locate },
        Rule { on: r"    (?:Retry #\d+ |Error Context: )", then: Keep },
        Rule { on: r"  (?P<failed>\d+) failed$", then: Counts },
        Rule { on: r"  (?P<uncounted>\d+) flaky$", then: Counts },
        Rule { on: r"  (?P<skipped>\d+) skipped$", then: Counts },
        Rule { on: r"  (?P<passed>\d+) passed(?: \([\d.]+m?s\))?$", then: Counts },
    ],
    complete: Some(complete_playwright),
    ..Format::DEFAULT
};

/// Removes the place from a name. A heading without a message is text that a test printed.
fn complete_playwright(failure: &mut summary::Failure) {
    let name = failure.name.take().filter(|_| failure.message.is_some());
    let file = failure.file.as_deref().unwrap_or_default();
    failure.name = name.map(|name| {
        let parts = name.split(" › ").filter(|part| !part.starts_with(file));
        parts.collect::<Vec<_>>().join(" › ")
    });
}

const ESLINT: Format = Format {
    name: "eslint",
    rules: &[
        Rule {
            on: r"(?P<file>(?:/|[A-Za-z]:\\)\S.*\.(?:[cm]?[jt]sx?|vue|svelte|astro|json|html|css|md))$",
            then: File,
        },
        Rule { on: r" +(?P<line>\d+):(?P<column>\d+)  +error  +(?P<message>\S.*)$", then: Failure },
        Rule {
            on: r" +(?P<line>\d+):(?P<column>\d+)  +warning  +(?P<message>\S.*)$",
            then: Warning,
        },
        // The formats `unix` and `compact`.
        Rule {
            on: r"(?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+): (?P<message>\S.*) \[Error(?:/.*)?\]$",
            then: Failure,
        },
        Rule {
            on: r"(?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+): (?P<message>\S.*) \[Warning(?:/.*)?\]$",
            then: Warning,
        },
        Rule {
            on: r"(?P<file>[^\s:]+): line (?P<line>\d+), col (?P<column>\d+), Error - (?P<message>\S.*)$",
            then: Failure,
        },
        Rule {
            on: r"(?P<file>[^\s:]+): line (?P<line>\d+), col (?P<column>\d+), Warning - (?P<message>\S.*)$",
            then: Warning,
        },
        Rule {
            on: r"✖ \d+ problems? \((?P<errors>\d+) errors?, (?P<warnings>\d+) warnings?\)$",
            then: Counts,
        },
        Rule { on: r"  \d+ errors? and \d+ warnings? potentially fixable", then: Skip },
    ],
    complete: Some(complete_eslint),
    ..Format::DEFAULT
};

/// Writes the rule, which stands in a column of its own, in brackets.
fn complete_eslint(failure: &mut summary::Failure) {
    if failure.file.is_none() {
        failure.message = None;
    }
    let Some(message) = &mut failure.message else { return };
    if let Some((text, rule)) = message.rsplit_once("  ")
        && !rule.contains(' ')
    {
        *message = format!("{} ({rule})", text.trim_end());
    }
}

const TSC: Format = Format {
    name: "tsc",
    rules: &[
        Rule {
            on: r"(?P<file>[^\s(].*?)\((?P<line>\d+),(?P<column>\d+)\): error (?P<message>TS\d+: .*?)\.?$",
            then: Begin,
        },
        Rule {
            on: r"(?P<file>[^\s:].*?):(?P<line>\d+):(?P<column>\d+) - error (?P<message>TS\d+: .*?)\.?$",
            then: Begin,
        },
        Rule { on: r"error (?P<message>TS\d+: .*?)\.?$", then: Failure },
        // The reasons of an error are indented below it.
        Rule { on: r"  +(?P<message>[A-Z]\S* .*?)\.?$", then: Append },
        Rule {
            on: r"Found (?P<errors>\d+) errors?(?: in (?:\d+ files?\.|the same file, starting at: .*|\S+:\d+)|\. Watching for file changes\.)$",
            then: Counts,
        },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};

const NPM: Format = Format {
    name: "npm",
    kind: FormatKind::Steps,
    rules: &[
        Rule { on: r"npm (?:ERR!|error) code (?P<message>E\w+)$", then: Append },
        Rule { on: r"npm (?:ERR!|error) (?P<message>code \d+)$", then: Append },
        Rule { on: r"npm (?:ERR!|error) (?P<message>command (?:sh|bash|cmd) .*)$", then: Append },
        Rule { on: r"npm (?:ERR!|error) workspace (?P<message>\S.*)$", then: Append },
        Rule {
            on: r"npm (?:ERR!|error) (?P<message>\d+ Not Found .*|notarget No matching .*|enoent Could not .*|JSON\.parse Invalid .*|Exit status \d+|Failed at the .* script|Found: .*|peer .*|.*EBADENGINE.*|request to .*|The `npm .*|this command with --force .*)$",
            then: Append,
        },
        Rule { on: r"npm (?:ERR!|error)", then: Keep },
        Rule { on: r"npm (?:ERR!|error) code (?P<message>E\w+)$", then: Begin },
        Rule { on: r"npm (?:ERR!|error) (?P<message>code \d+)$", then: Begin },
        Rule { on: r"npm (?:ERR!|error) (?P<message>Lifecycle script .* failed).*$", then: Begin },
        Rule { on: r"npm (?:ERR!|error) (?P<message>Missing script: .*)$", then: Begin },
        Rule { on: r"npm (?:ERR!|error) (?P<message>Test failed\.).*$", then: Begin },
        Rule { on: r"npm (?:WARN|warn) EBADENGINE (?:  |\})", then: Skip },
        // The rest of a warning of several lines.
        Rule {
            on: r"npm (?:WARN|warn)\s+(?:While resolving|Found|Could not resolve|Conflicting|peer |node_modules/|\d+ more \()",
            then: Skip,
        },
        Rule { on: r"npm (?:WARN|warn) (?P<message>\S.*)$", then: Warning },
        Rule {
            on: r"(?P<message>(?:added|removed|changed|up to date)\b.* packages?\b.* in \d+m?s)$",
            then: Result,
        },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};
