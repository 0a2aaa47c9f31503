//! Compiled languages but C and C++. Java and Kotlin: compilers, maven and gradle. Rust: cargo and rustc, test
//! runners, panics. Go: test runs, the compiler and vet, panics and races.

use crate::rules::Effect::{
    Append, Begin, BeginAbove, BeginBelow, BeginWarning, CauseBelow, Continue, Counts, Drop, End,
    EndCounts, Failure, Fill, FillAbove, Frame, Keep, ListCounts, ListStart, PartCounts, Refill,
    Result, Run, Skip, Warning, Watch,
};
use crate::rules::{BlockEnd, Format, FormatKind, FrameOrder, Rule};
use crate::summary;

pub(crate) const JVM_FORMATS: &[Format] = &[MAVEN, MAVEN_GOAL, GRADLE, GRADLE_TASK, JAVAC, KOTLINC];

/// Tests that surefire or failsafe runs, and the result of the whole build.
const MAVEN: Format = Format {
    name: "maven",
    kind: FormatKind::Tests,
    rules: &[
        // [ERROR] Tests run: 5, Failures: 1, …, Time elapsed: 0.1 s <<< FAILURE! - in shop.CartTest
        Rule { on: r"(?:\[\w+\] +)?Tests run: \d+, .*Time elapsed: ", then: Skip },
        // [ERROR] addsPrices(shop.CartTest)  Time elapsed: 0 s  <<< FAILURE!
        // [ERROR] shop.CartTest.addsPrices -- Time elapsed: 0.012 s <<< ERROR!
        Rule {
            on: r"(?:\[ERROR\] )?(?P<name>[^\s\[].*?)(?: --)? +Time elapsed: [\d.,]+ s(?:ec)? +<<< (?:FAILURE|ERROR)!",
            then: Begin,
        },
        Rule { on: r"(?:\[INFO\] )?Results ?: *$", then: ListStart },
        Rule { on: MAVEN_COUNTS, then: ListCounts },
        Rule { on: r"(?:\[INFO\] )?Running [\w.$]+$", then: End },
        // With `-q` the counts follow the last failure.
        Rule {
            on: r"\[ERROR\] +Tests run: (?P<total>\d+), Failures: (?P<failed>\d+), Errors: (?P<errors>\d+), Skipped: (?P<skipped>\d+)$",
            then: EndCounts,
        },
        Rule { on: r"\[INFO\] +(?P<message>BUILD (?:SUCCESS|FAILURE))$", then: Result },
        // The list of failures before the counts, and the help after the result.
        Rule {
            on: r"\[(?:ERROR|WARNING)\] *(?:$|Failures: *$|Errors: *$|Flakes: *$|Tests in error: *$|-> \[Help|\[Help \d+\]|To see the full stack trace|Re-run Maven|For more information about|After correcting the problems|  mvn <args>|Please refer to |See .* for the individual test results|See dump files |There are test failures|Errors?:$)",
            then: Skip,
        },
        Rule { on: r"\[ERROR\]   (?:\S+[.>:]\S+|Run \d+: )", then: Skip },
        Rule { on: r"\[(?:INFO|WARNING|ERROR|DEBUG)\] ", then: End },
        Rule { on: JAVA_CAUSE, then: CauseBelow },
        Rule { on: LIBRARY_FRAME, then: Keep },
        Rule { on: TEST_FRAME, then: Refill },
        Rule { on: JAVA_FRAME, then: Fill },
        Rule { on: r"(?:[a-z_]\w*\.)+(?P<message>[A-Z][\w$.]*(?::.*)?)$", then: Fill },
        Rule { on: r"[ \t]*(?:at |\.\.\. )", then: Keep },
        Rule { on: r"[ \t]*(?P<message>\S.*)$", then: Continue },
    ],
    complete: Some(shorten_maven_name),
    ..Format::DEFAULT
};

const MAVEN_COUNTS: &str = r"(?:\[\w+\] +)?Tests run: (?P<total>\d+), Failures: (?P<failed>\d+), Errors: (?P<errors>\d+), Skipped: (?P<skipped>\d+)$";
/// The first cause, in the form of the JVM.
const JAVA_CAUSE: &str = r"Caused by: (?P<message>\S.*)$";
/// A frame of a test library or of the JVM: not the place of a failure.
const LIBRARY_FRAME: &str = r"\s+at (?:[\w.@-]*/+)?(?:java|javax|jdk|sun|junit|org\.junit|org\.opentest4j|org\.assertj|org\.hamcrest|org\.mockito|org\.testng|org\.apache\.maven|org\.gradle|org\.spockframework|org\.codehaus\.groovy|groovy\.lang|kotlin|kotlinx|io\.kotest|com\.google\.common\.truth|worker\.org\.gradle)\.";
/// A frame in a file of tests, perhaps after a progress bar.
const TEST_FRAME: &str = r"(?:<[=-].*)?\s+at \S+\((?P<file>\w*(?:Tests?|TestCase|IT|ITCase|Spec|Specification)\.(?:java|kt|groovy|scala)):(?P<line>\d+)\)";
const JAVA_FRAME: &str = r"\s+at \S+\((?P<file>[\w$]+\.\w+):(?P<line>\d+)\)";

/// Writes a test as `CartTest.addsPrices`, from `addsPrices(shop.CartTest)` or
/// `shop.CartTest.addsPrices`.
fn shorten_maven_name(failure: &mut summary::Failure) {
    let Some(name) = failure.name.take() else { return };
    let simple = |class: &str| class.rsplit('.').next().unwrap_or_default().to_owned();
    let is_class = |text: &str| text.contains('.') && !text.contains([' ', ',']);
    let short = match name.strip_suffix(')').and_then(|name| name.rsplit_once('(')) {
        Some((test, class)) if is_class(class) => format!("{}.{test}", simple(class)),
        Some(_) => name,
        None => match name.rsplit_once('.') {
            Some((class, test)) if is_class(class) => format!("{}.{test}", simple(class)),
            _ => name,
        },
    };
    failure.name = Some(short);
}

/// Goals of maven that failed for other reasons than tests and compile errors.
const MAVEN_GOAL: Format = Format {
    name: "maven goal",
    kind: FormatKind::Steps,
    rules: &[
        Rule {
            on: r"\[ERROR\] Failed to execute goal .*: (?:There are test failures\.|There was a timeout.*|Compilation failure.*)$",
            then: Skip,
        },
        Rule {
            on: r"\[ERROR\] Failed to execute goal (?P<name>[^\s:]+:[^\s:]+:[^\s:]+:[^\s:]+)(?: \([\w-]+\))? on project \S+: (?P<message>.*?)(?: -> \[Help \d+\])?$",
            then: Failure,
        },
        Rule {
            on: r"\[ERROR\] Failed to execute goal on project (?P<name>[^\s:]+): (?P<message>.*?)(?: -> \[Help \d+\])?$",
            then: Failure,
        },
        // [ERROR] The build could not read 1 project
        Rule {
            on: r"\[ERROR\] +(?P<message>(?:Non-parseable|Non-resolvable|Malformed) POM .*?)(?: -> \[Help \d+\])?$",
            then: Failure,
        },
    ],
    ..Format::DEFAULT
};

/// Tests that gradle runs, and the result of the whole build.
const GRADLE: Format = Format {
    name: "gradle",
    kind: FormatKind::Tests,
    rules: &[
        // shop.CartTest > addsPrices FAILED
        Rule { on: r"(?P<name>[A-Za-z_][\w.$]*(?: > \S.*)+) FAILED$", then: Begin },
        Rule {
            on: r"(?P<total>\d+) tests? completed, (?P<failed>\d+) failed(?:, (?P<skipped>\d+) skipped)?$",
            then: Counts,
        },
        Rule { on: r"(?P<message>BUILD (?:SUCCESSFUL|FAILED)) in ", then: Result },
        Rule {
            on: r"FAILURE: Build (?:failed with an exception\.|completed with \d+ failures\.)$",
            then: Skip,
        },
        Rule { on: r"(?:> Task )?:[\w:-]+(?: [A-Z-]+)?$", then: End },
        Rule { on: r"[\w.$]+ > .* (?:PASSED|SKIPPED|STANDARD_OUT|STANDARD_ERROR)$", then: End },
        Rule { on: r"\s+Caused by:(?: (?P<message>\S.*))?$", then: CauseBelow },
        Rule { on: LIBRARY_FRAME, then: Keep },
        Rule { on: TEST_FRAME, then: Refill },
        Rule { on: JAVA_FRAME, then: Fill },
        //     java.lang.AssertionError at CartTest.java:17
        Rule {
            on: r"    (?:[a-z_]\w*\.)+(?P<message>[A-Z][\w$.]*) at (?P<file>[\w$]+\.\w+):(?P<line>\d+)$",
            then: Fill,
        },
        Rule { on: r"    \s*(?:[a-z_]\w*\.)+(?P<message>[A-Z][\w$.]*(?::.*)?)$", then: Fill },
        Rule { on: r"\s+(?:at |\.\.\. )", then: Keep },
        Rule { on: r"    (?P<message>\S.*)$", then: Continue },
    ],
    ..Format::DEFAULT
};

/// Tasks of gradle that failed for other reasons than tests and compile errors.
const GRADLE_TASK: Format = Format {
    name: "gradle task",
    kind: FormatKind::Steps,
    rules: &[
        Rule { on: r"\* Where:$", then: Begin },
        Rule { on: r"\w[\w ]* '(?P<file>[^']+)' line: (?P<line>\d+)$", then: Fill },
        Rule { on: r"\* What went wrong:$", then: Keep },
        Rule { on: r"\* What went wrong:$", then: Begin },
        Rule {
            on: r"\s*(?:> )?(?:There were failing tests|Compilation failed|Compilation error)\b",
            then: Drop,
        },
        Rule { on: r"Execution failed for task '(?P<name>[^']+)'", then: Fill },
        Rule { on: r"\* (?:Try|Exception is|Get more help)", then: End },
        Rule { on: r"\s*> (?P<message>\S.*)$", then: Append },
        Rule { on: r"(?P<message>\S.*)$", then: Fill },
    ],
    ..Format::DEFAULT
};

/// The compiler alone, under gradle (which may put the name of the task before the first line) and
/// under maven (which writes places in its own way).
const JAVAC: Format = Format {
    name: "javac",
    kind: FormatKind::Diagnostics,
    rules: &[
        Rule {
            on: r"(?::[\w:-]+)?(?P<file>[^\s:]+\.java):(?P<line>\d+): error: (?P<message>.*)$",
            then: Begin,
        },
        Rule {
            on: r"(?::[\w:-]+)?(?P<file>[^\s:]+\.java):(?P<line>\d+): warning: (?P<message>.*)$",
            then: BeginWarning,
        },
        Rule {
            on: r"\[ERROR\] (?P<file>[^\s:]+\.\w+):\[(?P<line>\d+),(?P<column>\d+)\] (?:error: )?(?P<message>.*)$",
            then: Begin,
        },
        Rule {
            on: r"\[WARNING\] (?P<file>[^\s:]+\.\w+):\[(?P<line>\d+),(?P<column>\d+)\] (?P<message>.*)$",
            then: BeginWarning,
        },
        Rule { on: r"(?:\[ERROR\])? +(?:symbol|reason): +(?P<message>\S.*)$", then: Append },
        Rule { on: r"\[ERROR\] +(?:location|required|found): ", then: Keep },
        Rule { on: r"\[ERROR\] COMPILATION ERROR", then: Skip },
        Rule { on: r"\[INFO\] +(?P<errors>\d+) errors? *$", then: Counts },
        Rule { on: r"\[INFO\] +(?P<warnings>\d+) warnings? *$", then: Counts },
        Rule { on: r"\[(?:ERROR|INFO|WARNING)\] ", then: End },
        Rule { on: r"(?P<errors>\d+) errors?$", then: EndCounts },
        Rule { on: r"(?P<warnings>\d+) warnings?$", then: EndCounts },
    ],
    ..Format::DEFAULT
};

const KOTLINC: Format = Format {
    name: "kotlinc",
    kind: FormatKind::Diagnostics,
    rules: &[
        // e: file:///srv/app/App.kt:3:5 Unresolved reference: foo
        Rule {
            on: r"e: (?:file://)?(?P<file>[^\s:]+\.kts?):(?: \()?(?P<line>\d+)(?:, |:)(?P<column>\d+)\)?:? (?P<message>.*)$",
            then: Failure,
        },
        Rule {
            on: r"w: (?:file://)?(?P<file>[^\s:]+\.kts?):(?: \()?(?P<line>\d+)(?:, |:)(?P<column>\d+)\)?:? (?P<message>.*)$",
            then: Warning,
        },
        // App.kt:3:5: error: unresolved reference: foo
        Rule {
            on: r"(?P<file>[^\s:]+\.kts?):(?P<line>\d+):(?P<column>\d+): error: (?P<message>.*)$",
            then: Failure,
        },
        Rule {
            on: r"(?P<file>[^\s:]+\.kts?):(?P<line>\d+):(?P<column>\d+): warning: (?P<message>.*)$",
            then: Warning,
        },
        // [ERROR] /srv/app/App.kt: (3, 5) Unresolved reference: foo
        Rule {
            on: r"\[ERROR\] (?P<file>[^\s:]+\.kts?): \((?P<line>\d+), (?P<column>\d+)\) (?P<message>.*)$",
            then: Failure,
        },
    ],
    ..Format::DEFAULT
};

pub(crate) const RUST_FORMATS: &[Format] = &[NEXTEST, CARGO_TEST, CARGO, RUST_PANIC];

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

const RUST_PANIC: Format = Format {
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

pub(crate) const GO_FORMATS: &[Format] = &[GO_TEST, GO, GO_PANIC, GO_RACE];

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

const GO_PANIC: Format = Format {
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
const GO_RACE: Format = Format {
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
