//! Shell: bats, checkers, package managers; bazel.

use crate::rules::Effect::{
    Append, Begin, BeginAbove, Counts, EndCounts, Failure, File, Fill, Keep, Result, Skip, Warning,
    Watch,
};
use crate::rules::{BlockEnd, Format, FormatKind, Rule};

pub(crate) const FORMATS: &[Format] = &[BATS_PRETTY, SHELLCHECK, BAZEL_TEST, BAZEL, APT];

/// Output of bats for a terminal.
const BATS_PRETTY: Format = Format {
    name: "bats",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r".*✗ (?P<name>\S.*)$", then: Watch },
        // Other tools mark failures like bats, but only bats has test files.
        Rule { on: r"\s+\(?in test file (?P<file>\S+), line (?P<line>\d+)\)$", then: Begin },
        Rule { on: r"     (?P<message>`.*' failed.*)$", then: Fill },
        Rule { on: r"   |\s*$", then: Keep },
        Rule {
            on: r"(?P<total>\d+) tests?, (?P<failed>\d+) failures?(?:, (?P<skipped>\d+) skipped)?",
            then: EndCounts,
        },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};

const SHELLCHECK: Format = Format {
    name: "shellcheck",
    rules: &[
        Rule { on: r"In (?P<file>\S+) line (?P<line>\d+):$", then: File },
        Rule { on: r"\s*\^-*\^? (?P<message>SC\d+ \(error\): .+)$", then: Failure },
        Rule {
            on: r"\s*\^-*\^? (?P<message>SC\d+ \((?:warning|info|style)\): .+)$",
            then: Warning,
        },
        // shellcheck -f gcc
        Rule {
            on: r"(?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+): (?P<message>error: .+ \[SC\d+\])$",
            then: Failure,
        },
        Rule {
            on: r"(?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+): (?P<message>(?:warning|note): .+ \[SC\d+\])$",
            then: Warning,
        },
        Rule { on: r"(?P<file>[^\s:]+): [^\s:]+: (?P<message>openBinaryFile: .+)$", then: Failure },
    ],
    ..Format::DEFAULT
};

const BAZEL_TEST: Format = Format {
    name: "bazel test",
    kind: FormatKind::Tests,
    rules: &[
        // //app:bad_test                                                FAILED in 0.1s
        Rule {
            on: r"(?P<name>//\S+)\s+(?:\(cached\) )?(?P<message>FAILED TO BUILD|TIMEOUT|FAILED)(?: in .*)?$",
            then: Failure,
        },
        Rule {
            on: r"Executed \d+ out of \d+ tests?: (?:(?P<passed>\d+) tests? pass(?:es)?)?(?:(?:,? and |, )?(?P<errors>\d+) fails? to build)?(?:(?:,? and |, )?(?P<failed>\d+) fails? (?:locally|remotely))?(?:(?:,? and |, )?(?P<skipped>\d+) (?:was|were) skipped)?\.?$",
            then: Counts,
        },
        Rule { on: r"(?:FAIL|TIMEOUT): //\S+ \(see ", then: Skip },
    ],
    ..Format::DEFAULT
};

const BAZEL: Format = Format {
    name: "bazel",
    kind: FormatKind::Steps,
    rules: &[
        Rule {
            on: r"ERROR: (?P<file>\S*/(?:BUILD|WORKSPACE|MODULE)(?:\.bazel)?|\S+\.bzl):(?P<line>\d+):(?P<column>\d+): (?P<message>.+?)(?:: error executing .*)?$",
            then: Failure,
        },
        Rule {
            on: r"ERROR: (?P<message>(?:Skipping '//|no such (?:package|target) ').+)$",
            then: Failure,
        },
        Rule { on: r"ERROR: (?:Analysis of target '//|Couldn't start the build)", then: Skip },
        Rule {
            on: r"(?:FAILED|ERROR): (?P<message>Build did NOT complete successfully)",
            then: Result,
        },
        Rule {
            on: r"INFO: (?P<message>Build completed.*?)(?:, \d+ total actions?)?$",
            then: Result,
        },
    ],
    ..Format::DEFAULT
};

const APT: Format = Format {
    name: "apt",
    kind: FormatKind::Steps,
    rules: &[
        Rule { on: r"E: (?P<message>.+)$", then: Failure },
        Rule { on: r"W: (?P<message>.+)$", then: Warning },
        Rule {
            on: r"dpkg: error processing (?:package|archive) (?P<name>\S+) \(--\S+\):$",
            then: BeginAbove,
        },
        Rule { on: r" (?P<name>\S+) : (?P<message>(?:Pre)?Depends: .+ but .+)$", then: Begin },
        Rule { on: r"\s+(?P<message>(?:Pre)?Depends: .+ but .+)$", then: Append },
        Rule {
            on: r"(?P<message>\d+ upgraded, \d+ newly installed, \d+ to remove.*?)\.?$",
            then: Result,
        },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};
