//! Stack traces: Python, Java and Kotlin, JavaScript, .NET, Ruby, PHP.

use crate::rules::Effect::{
    Begin, BeginBelow, CauseAbove, CauseBelow, End, FillLast, Frame, Keep, Skip,
};
use crate::rules::{BlockEnd, Format, FormatKind, FrameOrder, Rule};
use crate::summary::Failure;

pub(crate) const FORMATS: &[Format] = &[PYTHON, JAVA, JAVASCRIPT, DOTNET, RUBY, PHP];

/// A bar stands before each line of an exception group.
const PYTHON: Format = Format {
    name: "Python",
    kind: FormatKind::Trace(FrameOrder::InnermostLast),
    rules: &[
        Rule {
            on: r"(?:\s*\| )?(?:The above exception was the direct cause of|During handling of the above exception)",
            then: CauseAbove,
        },
        Rule { on: PYTHON_HEAD, then: Keep },
        Rule { on: PYTHON_HEAD, then: Begin },
        Rule {
            on: r#"(?:\s*\| )?  File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<name>.*))?$"#,
            then: Frame,
        },
        // A syntax error of the program itself has no trace.
        Rule { on: r#"  File "(?P<file>[^"]+)", line (?P<line>\d+)$"#, then: Begin },
        Rule { on: r"(?:\s+\| )?  +[^\s|]|\s*(?:\| *)?$", then: Keep },
        // SettingsError: no settings
        Rule { on: r"(?:\s*\| )?(?P<message>[A-Za-z_][\w.]*(?::.*)?)$", then: FillLast },
        Rule { on: r"Exception in thread [^:]*:$", then: Skip },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};

const PYTHON_HEAD: &str =
    r"(?:\s*[+|] )?(?:Exception Group )?Traceback \(most recent call last\):$";

const JAVA: Format = Format {
    name: "Java",
    kind: FormatKind::Trace(FrameOrder::InnermostFirst),
    rules: &[
        Rule {
            on: r"\s+at (?:[\w.@$-]*/+)*(?P<frame>[\w$.<>]+\((?:[\w$-]+\.(?:java|kt|kts|scala|groovy|clj):\d+|Native Method|Unknown Source|<generated>)\))",
            then: BeginBelow,
        },
        Rule { on: r"\s*Caused by: (?P<message>\S.*)$", then: CauseBelow },
        Rule { on: r"\s+(?P<frame>Suppressed: \S.*)$", then: CauseBelow },
        Rule { on: r"\s+(?:\.\.\. \d+ (?:more|common frames)|at )", then: Keep },
    ],
    block: BlockEnd::FirstOther,
    complete: Some(strip_thread),
    ..Format::DEFAULT
};

/// Removes the name of the thread from a message.
fn strip_thread(failure: &mut Failure) {
    if let Some(message) = &mut failure.message
        && message.starts_with("Exception in thread \"")
        && let Some((_, rest)) = message.split_once("\" ")
    {
        *message = rest.to_owned();
    }
}

const JAVASCRIPT: Format = Format {
    name: "JavaScript",
    kind: FormatKind::Trace(FrameOrder::InnermostFirst),
    rules: &[
        Rule {
            on: r"\s{1,12}at (?P<frame>(?:.* \()?(?:file:|node:|https?:|webpack|/|\./|[A-Za-z]:\\|[\w@.-]+/)[^()\s]*:\d+:\d+\)?|.* \((?:<anonymous>|native|index \d+)\))(?:,| \{)?$",
            then: BeginBelow,
        },
        Rule { on: r"\s+\[cause\]: (?P<message>\S.*)$", then: CauseBelow },
        // An error of an AggregateError.
        Rule {
            on: r"    +(?P<message>(?:[A-Z]\w*)?(?:Error|Exception)(?: \[\w+\])?: .*)$",
            then: CauseBelow,
        },
        Rule { on: r"\s+(?:at |\.\.\. \d+ lines matching cause)", then: Keep },
        Rule { on: r"  +(?:[\w$]+|\[\w+\]|'[^']*'): |\s*[}\]],?$", then: Keep },
    ],
    block: BlockEnd::FirstOther,
    complete: Some(strip_uncaught),
    ..Format::DEFAULT
};

/// Removes the word before an error that a browser or a runtime did not catch.
fn strip_uncaught(failure: &mut Failure) {
    if let Some(message) = &mut failure.message
        && let Some(rest) = message.strip_prefix("Uncaught ")
    {
        *message = rest.to_owned();
    }
}

/// The frames of an inner exception come first.
const DOTNET: Format = Format {
    name: ".NET",
    kind: FormatKind::Trace(FrameOrder::InnermostFirst),
    rules: &[
        Rule { on: r"Unhandled exception\. (?P<message>\S.*)$", then: Begin },
        Rule { on: r"\[ERROR\] FATAL UNHANDLED EXCEPTION: (?P<message>\S.*)$", then: Begin },
        Rule { on: r"Unhandled Exception:$", then: Skip },
        Rule { on: r" *---> (?P<message>\S.*)$", then: CauseBelow },
        Rule { on: r" *(?P<frame>---> \S.*)$", then: BeginBelow },
        Rule {
            on: r"\s{2,12}at (?P<name>[\w.<>`+\[\],|$ ]+?) ?\(.*\)(?: \[0x\w+\])? in (?P<file>[^<>]+):(?:line )?(?P<line>\d+) ?(?:<---)?$",
            then: BeginBelow,
        },
        Rule {
            on: r"\s{2,12}at (?P<frame>[\w.<>`+\[\],|$]+) ?\(.*\)(?: \[0x\w+\] in <\w+>:0)? ?(?:<---)?$",
            then: BeginBelow,
        },
        Rule { on: r" +(?P<frame>--- End of inner exception stack trace ---)$", then: CauseBelow },
        Rule { on: r" +(?:at |--- End of stack trace from previous)|$", then: Keep },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};

const RUBY: Format = Format {
    name: "Ruby",
    kind: FormatKind::Trace(FrameOrder::InnermostFirst),
    rules: &[
        Rule { on: RUBY_HEAD, then: CauseBelow },
        Rule { on: RUBY_HEAD, then: Begin },
        Rule { on: r"\s+from (?P<frame>\S+:\d+:in .*)$", then: Frame },
        Rule { on: r"\s+(?:from |\.\.\. \d+ levels)", then: Keep },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};

/// app.rb:14:in `start': no settings (RuntimeError)
const RUBY_HEAD: &str =
    r"(?P<file>[^\s:]+):(?P<line>\d+):in [`'].*?': (?P<message>.*\([A-Z][\w:]*\))$";

/// The cause comes first.
const PHP: Format = Format {
    name: "PHP",
    kind: FormatKind::Trace(FrameOrder::InnermostFirst),
    rules: &[
        Rule {
            on: r"(?:PHP )?Fatal error:  ?Uncaught (?P<message>.*) in (?P<file>\S+):(?P<line>\d+)$",
            then: Begin,
        },
        Rule { on: r"Next (?P<message>.*) in (?P<file>\S+):(?P<line>\d+)$", then: CauseAbove },
        Rule { on: r"#\d+ (?P<frame>\S+\(\d+\): .*)$", then: BeginBelow },
        Rule { on: r"Stack trace:$|#\d+ |$", then: Keep },
        Rule { on: r"  thrown in ", then: End },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};
