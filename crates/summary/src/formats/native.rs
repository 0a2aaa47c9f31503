//! C and C++: compilers, linkers, build tools, test runners, sanitizers and crashes.

use crate::rules::Effect::{
    Append, Begin, BeginWarning, CauseBelow, Confirm, Continue, Counts, End, Failure, Fill,
    FillAbove, Frame, Keep, Result, Skip, Warning, Watch,
};
use crate::rules::{BlockEnd, Format, FormatKind, FrameOrder, Rule};
use crate::summary;

pub(crate) const FORMATS: &[Format] =
    &[GOOGLETEST, CTEST, UBSAN, LINKER, COMPILER, MAKE, NINJA, CMAKE, SANITIZER, TERMINATE, CRASH];

/// gcc and clang, whose messages have the same form.
const COMPILER: Format = Format {
    name: "C compiler",
    rules: &[
        Rule { on: COMPILER_ERROR, then: Failure },
        Rule { on: COMPILER_UNUSED, then: Warning },
        Rule { on: COMPILER_WARNING, then: Warning },
        Rule {
            on: r"(?:gcc|g\+\+|cc|c\+\+|cc1|cc1plus|clang|clang\+\+)(?:-\d+)?: (?P<message>(?:fatal )?error: .*(?:no input files|[Nn]o such file|unrecognized|unknown argument|unsupported|not found).*)$",
            then: Failure,
        },
    ],
    ..Format::DEFAULT
};

/// The place of a message: a file of C, C++, Objective-C, CUDA or assembler, or a header.
macro_rules! source_place {
    ($message:literal) => {
        concat!(
            r"(?P<file>[^\s:]+\.(?:[cChHmMS]|cc|hh|cpp|hpp|cxx|hxx|c\+\+|h\+\+|ipp|tpp|inc|inl|def|mm|cu|cuh|ixx|cppm)|[^\s:]*/include/[^\s:]+)",
            r":(?P<line>\d+):(?:(?P<column>\d+):)? ",
            $message
        )
    };
}

const COMPILER_ERROR: &str =
    source_place!(r"(?P<message>(?:fatal |internal compiler )?error: .+)$");
/// A warning whose kind does not depend on the name at its end.
const COMPILER_UNUSED: &str = source_place!(
    r"warning: (?P<message>unused [a-z ]+|implicit declaration of function) (?:‘[^’]*’|'[^']*')(?: \[-W.*)?$"
);
const COMPILER_WARNING: &str = source_place!(r"warning: (?P<message>.+?)(?: \[-W[^\]]*\])?$");

const LINKER: Format = Format {
    name: "linker",
    rules: &[
        // /usr/bin/ld: a.o: in function `twice':
        Rule { on: r"\s*\S*ld(?:\.\w+)?: \S+: in function ", then: Skip },
        Rule {
            on: r"\s*(?:= note: )?\S*\bld(?:\.\w+)?: (?:\S+: )?warning: (?P<message>.+)$",
            then: Warning,
        },
        Rule {
            on: r"\s*(?:= note: )?\S*ld(?:\.\w+)?: (?P<message>skipping incompatible .+)$",
            then: Warning,
        },
        // /usr/bin/ld: /srv/app/main.c:5: undefined reference to `limit'
        Rule {
            on: r"\s*(?:= note: )?(?:\S*ld(?:\.\w+)?: )?(?:[^\s:]+\.o:)?(?P<file>[^\s:()]+):(?:(?P<line>\d+)|\([^()]*\)): (?P<message>(?:undefined reference to|multiple definition of) .+)$",
            then: Failure,
        },
        // main.o:main.c:function main: error: undefined reference to 'sqrt'
        Rule {
            on: r"[^\s:]+\.o:(?:(?P<file>[^\s:]+):)?function .+?: error: (?P<message>undefined reference to .+)$",
            then: Failure,
        },
        Rule {
            on: r"\s*(?:= note: )?\S*\b(?:ld|lld|mold)(?:\.\w+)?: (?:fatal )?error: (?P<message>.+)$",
            then: Begin,
        },
        Rule { on: r"\s*>>> referenced by \S+ \((?P<file>[^\s:)]+):(?P<line>\d+)\)", then: Fill },
        Rule {
            on: r"\s*>>> (?:referenced by|defined at) (?P<file>[^\s:]+?)(?::(?P<line>\d+))?(?: .*)?$",
            then: Fill,
        },
        Rule { on: r"\s*>>> |$", then: Keep },
        Rule { on: r"\S*ld\.gold: \S+: previous definition here$", then: Skip },
        Rule {
            on: r"\s*(?:= note: )?\S*ld(?:\.\w+)?: (?P<message>(?:cannot (?:find|open)|.*(?:relocation |undefined |recompile with|file not recognized|final link failed|file in wrong format|No such file|symbol\(s\) not found|library not found|hidden symbol|DSO missing)).*)$",
            then: Failure,
        },
        // Undefined symbols for architecture arm64:
        Rule { on: "  (?P<message>\"[^\"]+\", referenced from):$", then: Failure },
        Rule {
            on: r"\s*(?:collect2: error: ld returned|clang(?:\+\+)?(?:-\d+)?: error: linker command failed)",
            then: Skip,
        },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};

const MAKE: Format = Format {
    name: "make",
    kind: FormatKind::Steps,
    rules: &[
        // The rules that cmake writes repeat the failures of their parts.
        Rule {
            on: r"g?make(?:\[\d+\])?: \*\*\* \[(?:CMakeFiles/Makefile2:\d+: |Makefile:\d+: all\])",
            then: Skip,
        },
        Rule { on: r"g?make(?:\[\d+\])?: \*\*\* Waiting for unfinished jobs", then: Skip },
        // make[1]: *** [Makefile:8: check] Error 3
        Rule {
            on: r"g?make(?:\[\d+\])?: \*\*\* \[(?:<builtin>|(?P<file>[^\]:]+):(?P<line>\d+)): (?P<name>[^\]]+)\] (?P<message>.+)$",
            then: Failure,
        },
        Rule {
            on: r"g?make(?:\[\d+\])?: \*\*\* \[(?P<name>[^\]]+)\] (?P<message>.+)$",
            then: Failure,
        },
        Rule { on: r"g?make(?:\[\d+\])?: \*\*\* (?P<message>.+?)\s+Stop\.$", then: Failure },
        Rule {
            on: r"(?P<file>[^\s:]+):(?P<line>\d+): \*\*\* (?P<message>.+?)\s+Stop\.$",
            then: Failure,
        },
    ],
    ..Format::DEFAULT
};

const NINJA: Format = Format {
    name: "ninja",
    kind: FormatKind::Steps,
    rules: &[
        Rule {
            on: r"(?P<message>FAILED: (?:\[code=\d+\] )?[^\s\[]*[./]\S*)(?: \S*[./]\S*)*\s*$",
            then: Failure,
        },
        Rule { on: r"ninja: error: (?P<message>.+)$", then: Failure },
        Rule { on: r"ninja: (?P<message>build stopped: .+?)\.$", then: Result },
    ],
    ..Format::DEFAULT
};

const CMAKE: Format = Format {
    name: "cmake",
    rules: &[
        Rule { on: r"CMake Error at (?P<file>[^\s:]+):(?P<line>\d+)(?: \(.*\))?:$", then: Begin },
        Rule { on: r"CMake Error in (?P<file>[^\s:]+):$", then: Begin },
        Rule { on: r"CMake Error: (?P<message>.+)$", then: Begin },
        Rule {
            on: r"CMake (?:\w+ )?Warning(?: \(dev\))?(?: at (?P<file>[^\s:]+):(?P<line>\d+)(?: \(.*\))?| in (?P<name>[^\s:]+))?:$",
            then: BeginWarning,
        },
        Rule { on: r"  (?P<message>\S.*)$", then: Continue },
        Rule { on: r"-- (?P<message>Configuring incomplete, errors occurred!)", then: Result },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};

const GOOGLETEST: Format = Format {
    name: "googletest",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r"\[ RUN      \] (?P<name>\S+)$", then: Watch },
        Rule { on: r"\[       OK \] |\[  SKIPPED \] \S+ \(", then: End },
        Rule {
            on: r"(?P<file>[^\s:]+):(?P<line>\d+): Failure$|unknown file: Failure$",
            then: FillAbove,
        },
        Rule { on: r"\s+(?P<message>\S.*)$", then: Append },
        Rule { on: r"\[  FAILED  \] (?P<name>[^\s,]+)(?:, where .*)? \(\d+ ms\)$", then: Failure },
        // The program ends in a test.
        Rule {
            on: r"\S+: line \d+:\s+\d+ (?P<message>Segmentation fault|Aborted|Bus error|Killed|Floating point exception|Illegal instruction)",
            then: Confirm,
        },
        Rule { on: r"==\d+==ERROR: (?P<message>\w+Sanitizer: \S+)", then: Confirm },
        Rule {
            on: r"[^\s:]+: (?P<file>[^\s:]+):(?P<line>\d+): (?:.+: )?(?P<message>Assertion .+ failed)\.$",
            then: Confirm,
        },
        Rule { on: r"\[  PASSED  \] (?P<passed>\d+) tests?\.$", then: Counts },
        Rule { on: r"\[  SKIPPED \] (?P<skipped>\d+) tests?(?:, listed below:|\.)$", then: Counts },
        Rule { on: r"\[  FAILED  \] (?P<failed>\d+) tests?, listed below:$", then: Counts },
    ],
    ..Format::DEFAULT
};

const CTEST: Format = Format {
    name: "ctest",
    kind: FormatKind::Tests,
    rules: &[
        Rule {
            on: r"\s*\d+/\d+ Test\s+#\d+: .*\*\*\*(?:Skipped|Not Run \(Disabled\))",
            then: Skip,
        },
        Rule {
            on: r"\s*\d+/\d+ Test\s+#\d+: (?P<name>\S.*?) \.*\*\*\*(?P<message>\S.*?)\s+[\d.]+ sec$",
            then: Failure,
        },
        Rule {
            on: r"\d+% tests passed, (?P<failed>\d+) tests? failed out of (?P<total>\d+)$",
            then: Counts,
        },
        Rule { on: r"Errors while running CTest$|Unable to find executable: ", then: Skip },
    ],
    ..Format::DEFAULT
};

/// Reports of the address, leak, thread and memory sanitizers.
const SANITIZER: Format = Format {
    name: "sanitizer",
    kind: FormatKind::Trace(FrameOrder::InnermostFirst),
    rules: &[
        Rule {
            on: r"==\d+==(?:ERROR|WARNING): (?P<message>\w+Sanitizer: .+?)(?: on (?:unknown )?address .*)?$",
            then: Begin,
        },
        Rule { on: r"WARNING: (?P<message>ThreadSanitizer: .+?)(?: \(pid=\d+\))?$", then: Begin },
        Rule {
            on: r"SUMMARY: \w+Sanitizer: .*? (?P<file>/?[^\s:()]+):(?P<line>\d+)(?::(?P<column>\d+))? in",
            then: Fill,
        },
        Rule { on: r"SUMMARY: |Shadow bytes around|==\d+==ABORTING", then: End },
        Rule { on: r"(?P<message>(?:READ|WRITE) of size \d+) at ", then: Append },
        Rule {
            on: r"\s*(?P<frame>(?:Direct|Indirect) leak of .*?) allocated from:$",
            then: CauseBelow,
        },
        Rule {
            on: r"(?P<frame>(?:previously )?allocated|freed) by thread \S+ here:$",
            then: CauseBelow,
        },
        Rule { on: r"Address 0x\S+ (?P<frame>is located in .+)$", then: CauseBelow },
        Rule {
            on: r"  (?P<frame>Previous (?:atomic )?(?:read|write) of size \d+) at ",
            then: CauseBelow,
        },
        Rule { on: r"  (?:Location is|Thread T\d+ .*created by|Mutex M\d+ )", then: End },
        Rule {
            on: r"\s+#\d+ (?:0x[0-9a-f]+ in )?(?:(?:__interceptor_|operator new|__libc_start|_start|__asan|<null>)|.* /usr/(?:include|lib)/)",
            then: Keep,
        },
        Rule {
            on: r"\s+#\d+ (?:0x[0-9a-f]+ in )?(?P<name>.+?) (?P<file>/?[^\s:()]+):(?P<line>\d+)(?::\d+)?(?: \(.*\))?$",
            then: Frame,
        },
    ],
    ..Format::DEFAULT
};

const UBSAN: Format = Format {
    name: "undefined behaviour",
    kind: FormatKind::Trace(FrameOrder::InnermostFirst),
    rules: &[
        Rule {
            on: r"(?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+): (?P<message>runtime error: .+)$",
            then: Failure,
        },
        Rule { on: r"SUMMARY: UndefinedBehaviorSanitizer: ", then: Skip },
    ],
    ..Format::DEFAULT
};

/// An exception that nothing caught.
const TERMINATE: Format = Format {
    name: "C++",
    kind: FormatKind::Trace(FrameOrder::InnermostFirst),
    rules: &[
        Rule { on: r"(?P<message>terminate called .+)$", then: Begin },
        Rule { on: r"  what\(\):  (?P<message>.+)$", then: Append },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};

/// Signals and failed checks of the C library.
const CRASH: Format = Format {
    name: "crash",
    kind: FormatKind::Trace(FrameOrder::InnermostFirst),
    rules: &[
        // app: src/app.c:8: main: Assertion `argc == 7' failed.
        Rule {
            on: r"[^\s:]+: (?P<file>[^\s:]+):(?P<line>\d+): (?:.+: )?(?P<message>Assertion .+ failed)\.$",
            then: Failure,
        },
        Rule {
            on: r"(?P<message>(?:(?:free|malloc|realloc|munmap_chunk)\(\)|double free or corruption|corrupted size|malloc_consolidate\(\)|\*\*\* stack smashing detected).*)$",
            then: Failure,
        },
        // bash: line 1: 11370 Segmentation fault      (core dumped) ./app
        Rule {
            on: r"\S+: line \d+:\s+\d+ (?P<message>(?:Segmentation fault|Bus error|Illegal instruction|Floating point exception|Aborted|Killed|Trace/breakpoint trap|Bad system call).*)$",
            then: Failure,
        },
    ],
    complete: Some(join_words),
    ..Format::DEFAULT
};

/// Removes the padding between the words of a message.
fn join_words(failure: &mut summary::Failure) {
    if let Some(message) = &mut failure.message {
        *message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}
