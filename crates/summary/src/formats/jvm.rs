//! Java and Kotlin: compilers, maven and gradle.

use crate::rules::Effect::{
    Append, Begin, BeginWarning, CauseBelow, Continue, Counts, Drop, End, EndCounts, Failure, Fill,
    Keep, ListCounts, ListStart, Refill, Result, Skip, Warning,
};
use crate::rules::{Format, FormatKind, Rule};
use crate::summary;

pub(crate) const FORMATS: &[Format] = &[MAVEN, MAVEN_GOAL, GRADLE, GRADLE_TASK, JAVAC, KOTLINC];

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
