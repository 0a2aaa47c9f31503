//! Go: test runs, the compiler and vet, panics and races.

use crate::rules::Effect::{
    Append, Begin, CauseBelow, End, Failure, Fill, Frame, Keep, Refill, Run, Skip, Watch,
};
use crate::rules::{BlockEnd, Format, FormatKind, FrameOrder, Rule};
use crate::summary;

pub(crate) const FORMATS: &[Format] = &[GO_TEST, GO, PANIC, RACE];

const GO_TEST: Format = Format {
    name: "go test",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r"=== (?:RUN|CONT|NAME)\s+(?P<name>\S+)$", then: Watch },
        Rule { on: r"=== PAUSE |\s*--- (?:PASS|SKIP): ", then: End },
        Rule { on: r"\s*--- FAIL: (?P<name>\S+) \([\d.]+s\)$", then: Begin },
        Rule { on: r"(?P<message>panic: test timed out after \S+)$", then: Begin },
        // The last message is the most telling: logged lines stand above it.
        Rule { on: r"\s+(?P<file>[\w./-]+\.go):(?P<line>\d+): (?P<message>\S.*)$", then: Refill },
        Rule { on: r"\s+(?P<file>[\w./-]+\.go):(?P<line>\d+):\s*$", then: Refill },
        // testify
        Rule { on: r"\s+Error:\s+(?P<message>\S.*)$", then: Refill },
        Rule { on: r"\s+(?P<message>(?:expected|actual) *: .+)$", then: Append },
        Rule { on: r"\s+(?:Error Trace|Test|Messages):", then: Keep },
        Rule { on: r"(?P<message>panic: .*?)(?: \[recovered[^\]]*\])?$", then: Append },
        Rule { on: r"\t(?P<name>(?:Test|Example|Fuzz)\S*) \(\S+\)$", then: Fill },
        Rule { on: r"\S+\.(?P<name>(?:Test|Example|Fuzz)\w*)\(", then: Fill },
        Rule { on: STD_FRAME, then: Keep },
        Rule { on: r"\t(?P<file>\S+\.go):(?P<line>\d+)(?: \+0x[0-9a-f]+)?$", then: Fill },
        Rule { on: r"    {4,}(?P<message>\S.*)$", then: Append },
        Rule { on: r"(?:FAIL|PASS|exit status \d+)$", then: End },
        Rule { on: r"FAIL\t(?P<name>\S+) \[(?P<message>(?:build|setup) failed)\]$", then: Failure },
        Rule { on: r"FAIL\t(?:\S*/)?(?P<name>[^\s/]+)\t[\d.]+s", then: Run },
        Rule { on: r"ok  \t\S+\t(?:\(cached\)|[\d.]+s)", then: Run },
        // go test -json
        Rule {
            on: r#"\{"Time":"[^"]+","Action":"output","Package":"[^"]+","Test":"(?P<name>[^"]+)","Output":"\s*(?P<file>[\w./-]+\.go):(?P<line>\d+): (?P<message>.*?)(?:\\n)?"(?:,"OutputType":"[^"]*")?\}$"#,
            then: Watch,
        },
        Rule {
            on: r#"\{"Time":"[^"]+","Action":"fail","Package":"[^"]+","Test":"(?P<name>[^"]+)""#,
            then: Failure,
        },
        Rule {
            on: r#"\{"Time":"[^"]+","Action":"fail","Package":"(?P<name>[^"]+)",.*"FailedBuild":"#,
            then: Failure,
        },
        Rule {
            on: r#"\{"Time":"[^"]+","Action":"fail","Package":"(?:[^"]*/)?(?P<name>[^"/]+)","Elapsed"#,
            then: Run,
        },
        Rule {
            on: r#"\{"Time":"[^"]+","Action":"(?:pass|skip)","Package":"[^"]+","Elapsed"#,
            then: Run,
        },
    ],
    nested_by: Some("/"),
    complete: Some(unescape),
    ..Format::DEFAULT
};

/// Frames of the standard library.
const STD_FRAME: &str =
    r"\s+(?:\S*/go(?:-[\d.]+)?/src/(?:testing|runtime|internal|time|sync|reflect)/|_testmain\.go)";

/// Removes the escapes of a JSON text.
fn unescape(failure: &mut summary::Failure) {
    if let Some(message) = &mut failure.message {
        for (escaped, char) in [("\\\"", "\""), ("\\u003c", "<"), ("\\u003e", ">"), ("\\t", " ")] {
            *message = message.replace(escaped, char);
        }
    }
}

/// The compiler, vet and the go command.
const GO: Format = Format {
    name: "go",
    rules: &[
        Rule {
            on: r"(?:vet: )?(?P<file>[^\s:]+\.go):(?P<line>\d+):(?P<column>\d+): (?P<message>.+)$",
            then: Begin,
        },
        Rule { on: r"\t(?P<message>(?:have|want) .+)$", then: Append },
        Rule {
            on: r#"\{"ImportPath":"[^"]*","Action":"build-output","Output":"(?P<file>[^\s:"]+\.go):(?P<line>\d+):(?P<column>\d+): (?P<message>.*?)(?:\\n)?"\}$"#,
            then: Failure,
        },
        Rule {
            on: r"go: (?P<message>(?:.*: )?(?:cannot find|module lookup|no required module|missing go\.sum|unknown revision|go\.mod file not found|updates to go\.mod|errors parsing|no such tool|unknown command).*)$",
            then: Failure,
        },
        Rule { on: r"[^\s:]+\.go:\d+:\d+: too many errors$|too many errors$", then: Skip },
    ],
    block: BlockEnd::FirstOther,
    complete: Some(unescape),
    ..Format::DEFAULT
};

const PANIC: Format = Format {
    name: "Go",
    kind: FormatKind::Trace(FrameOrder::InnermostFirst),
    rules: &[
        Rule { on: r"(?P<message>panic: .*?)(?: \[recovered[^\]]*\])?$", then: Begin },
        Rule {
            on: r"(?P<message>fatal error: (?:all goroutines are asleep|concurrent map|stack overflow|unexpected signal|out of memory|sync: ).*)$",
            then: Begin,
        },
        Rule { on: r"\t(?P<message>panic: .+)$", then: Append },
        Rule { on: STD_FRAME, then: Keep },
        Rule { on: r"\t(?P<file>\S+\.go):(?P<line>\d+)(?: \+0x[0-9a-f]+)?$", then: Frame },
        Rule {
            on: r"\[signal |goroutine \d+ |created by |\S+\(.*\)$|runtime stack:|\s*$",
            then: Keep,
        },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};

/// Reports of the race detector.
const RACE: Format = Format {
    name: "Go race",
    kind: FormatKind::Trace(FrameOrder::InnermostFirst),
    rules: &[
        Rule { on: r"WARNING: (?P<message>DATA RACE)$", then: Begin },
        Rule { on: r"(?P<frame>Previous (?:atomic )?(?:read|write)) at 0x", then: CauseBelow },
        Rule { on: r"Goroutine \d+ \(.*\) created at:$|=+$", then: End },
        Rule { on: STD_FRAME, then: Keep },
        Rule { on: r"\s+(?P<file>\S+\.go):(?P<line>\d+) \+0x[0-9a-f]+$", then: Frame },
    ],
    ..Format::DEFAULT
};
