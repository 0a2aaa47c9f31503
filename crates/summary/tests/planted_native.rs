//! Generated logs of Rust, Go, C and shell tools: every planted failure is found, and no other is
//! claimed.

use std::fmt::Write as _;

use proptest::prelude::*;
use shellyard_summary::{Failure, Summarizer, Summary};

/// A failure that a generated log contains.
#[derive(Debug, Clone)]
struct Planted {
    /// A module, a package or a file without its ending.
    unit: String,
    /// The test or the symbol, different in each failure of a log.
    name: String,
    line: u64,
    column: u64,
    message: String,
}

fn word() -> impl Strategy<Value = String> {
    "[a-z]{3,9}"
}

/// Words that no format takes for something else.
fn message() -> impl Strategy<Value = String> {
    proptest::collection::vec("[a-z]{2,8}", 2..6).prop_map(|words| words.join(" "))
}

fn planted() -> impl Strategy<Value = Vec<Planted>> {
    let one = (word(), 1_u64..5000, 1_u64..200, message());
    proptest::collection::btree_map(word(), one, 1..12).prop_map(|failures| {
        let numbered = failures.into_iter().enumerate();
        let planted = numbered.map(|(index, (name, (unit, line, column, message)))| Planted {
            unit,
            name: format!("{name}_{index}"),
            line,
            column,
            message,
        });
        planted.collect()
    })
}

/// Lines that programs print between other lines.
fn noise() -> impl Strategy<Value = Vec<String>> {
    let line = prop_oneof![
        message(),
        (message(), 0_u32..1000).prop_map(|(text, number)| format!("{text} {number}")),
        message().prop_map(|text| format!("2026-03-14T00:28:58Z INFO {text}")),
        message().prop_map(|text| format!("    {text}")),
        Just(String::new()),
    ];
    proptest::collection::vec(line, 0..6)
}

/// Lines that a test prints, in the form of its runner.
fn false_lines() -> impl Strategy<Value = Vec<String>> {
    let line = prop_oneof![
        Just("test result: FAILED. 0 passed; 99 failed; 0 ignored; 0 measured; 0 filtered out"),
        Just("test made::up ... FAILED"),
        Just("100% tests passed, 0 tests failed out of 9"),
        Just("3 tests, 1 failure"),
        Just("ok 3 - fine"),
    ];
    proptest::collection::vec(line.prop_map(str::to_owned), 0..4)
}

fn lines(noise: &[String]) -> String {
    noise.iter().map(|line| format!("{line}\n")).collect()
}

fn summarize(log: &str) -> Summary {
    let mut summarizer = Summarizer::new();
    for (index, line) in log.lines().enumerate() {
        summarizer.read(index as u64 + 1, line);
    }
    summarizer.summary()
}

/// The place, name and message of a failure.
type Fact = (Option<String>, Option<u64>, Option<String>, Option<String>);

fn fact(failure: &Failure) -> Fact {
    (failure.file.clone(), failure.line, failure.name.clone(), failure.message.clone())
}

/// An expected fact; an empty text stands for none.
fn expect(file: &str, line: u64, name: &str, message: &str) -> Fact {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    (text(file), (line > 0).then_some(line), text(name), text(message))
}

/// Checks that one tool reports exactly the expected failures and nothing else failed.
fn check_tool(log: &str, tool: &str, mut expected: Vec<Fact>) -> Result<(), TestCaseError> {
    let summary = summarize(log);
    let mut found: Vec<Fact> = Vec::new();
    for report in &summary.tools {
        prop_assert!(report.is_consistent, "{report:?}\n{log}");
        prop_assert!(report.failures.is_empty() || report.tool == tool, "{report:?}\n{log}");
        found.extend(report.failures.iter().map(fact));
    }
    expected.sort();
    found.sort();
    prop_assert_eq!(found, expected, "{}", log);
    prop_assert!(summary.traces.is_empty(), "{:?}\n{}", summary.traces, log);
    prop_assert_eq!(summary.errors.count, 0, "{:?}\n{}", summary.errors, log);
    Ok(())
}

/// Checks that the traces are the expected ones, each with a place or the file of its first frame.
fn check_traces(log: &str, mut expected: Vec<Fact>) -> Result<(), TestCaseError> {
    let summary = summarize(log);
    let mut found: Vec<Fact> = summary.traces.iter().map(fact).collect();
    expected.sort();
    found.sort();
    prop_assert_eq!(found, expected, "{}", log);
    prop_assert!(summary.tools.is_empty(), "{:?}\n{}", summary.tools, log);
    prop_assert_eq!(summary.errors.count, 0, "{:?}\n{}", summary.errors, log);
    Ok(())
}

/// The counts of a report: failed, passed, skipped.
fn counts(log: &str, tool: &str) -> Option<(u64, u64, u64)> {
    let summary = summarize(log);
    let report = summary.tools.iter().find(|report| report.tool == tool)?;
    let counts = report.counts;
    Some((counts.failed?, counts.passed?, counts.skipped.unwrap_or(0)))
}

/// The numbers of errors and warnings of a report.
fn read_counts(log: &str, tool: &str) -> Option<(u64, u64)> {
    let summary = summarize(log);
    let report = summary.tools.iter().find(|report| report.tool == tool)?;
    Some((report.failure_count, report.warning_count))
}

fn cargo_log(planted: &[Planted], warnings: u64, has_tests: bool) -> String {
    let mut log = String::from("   Compiling shop v0.3.1 (/srv/shop)\n");
    for number in 1..=warnings {
        write!(log, "warning: unused import: `std::io::Read`\n --> src/old.rs:{number}:5\n  |\n{number} | use std::io::Read;\n  |     ^^^^^^^^^^^^^\n\n").ok();
    }
    for (index, Planted { unit, name, line, column, message }) in planted.iter().enumerate() {
        let code = if index % 2 == 0 { "[E0425]" } else { "" };
        write!(log, "error{code}: {message}\n  --> src/{unit}.rs:{line}:{column}\n   |\n{line} |     {name}();\n   |     ^^^^ not found in this scope\n   |\nnote: it is defined here\n  --> src/other.rs:1:1\n   |\n\n").ok();
    }
    let errors = planted.len();
    for target in if has_tests { &["lib", "lib test"][..] } else { &["lib"] } {
        writeln!(log, "warning: `shop` ({target}) generated {warnings} warnings").ok();
        writeln!(log, "error: could not compile `shop` ({target}) due to {errors} previous errors; {warnings} warnings emitted").ok();
    }
    log
}

fn cargo_test_log(planted: &[Planted], printed: &[String], passed: usize) -> String {
    let mut log = String::from(
        "    Finished `test` profile target(s) in 3.87s\n     Running unittests src/lib.rs (target/debug/deps/shop-9a411c)\n\n",
    );
    writeln!(log, "running {} tests", planted.len() + passed).ok();
    for number in 0..passed {
        writeln!(log, "test fine::works_{number} ... ok").ok();
    }
    for Planted { unit, name, .. } in planted {
        writeln!(log, "test {unit}::{name} ... FAILED").ok();
    }
    log.push_str("\nfailures:\n");
    for Planted { unit, name, line, column, message } in planted {
        write!(log, "\n---- {unit}::{name} stdout ----\n{}\nthread '{unit}::{name}' (7) panicked at src/{unit}.rs:{line}:{column}:\n{message}\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n", lines(printed)).ok();
    }
    log.push_str("\n\nfailures:\n");
    for Planted { unit, name, .. } in planted {
        writeln!(log, "    {unit}::{name}").ok();
    }
    write!(log, "\ntest result: FAILED. {passed} passed; {} failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\nerror: test failed, to rerun pass `--lib`\n", planted.len()).ok();
    log
}

fn nextest_log(planted: &[Planted], passed: usize) -> String {
    let total = planted.len() + passed;
    let mut log = format!("────────────\n    Starting {total} tests across 1 binary\n");
    let mut list = String::new();
    for (index, Planted { unit, name, line, column, message }) in planted.iter().enumerate() {
        let head =
            format!("        FAIL [   0.037s] ({:>2}/{total}) shop {unit}::{name}\n", index + 1);
        write!(log, "{head}  stdout ───\n\n    running 1 test\n    test {unit}::{name} ... FAILED\n\n    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 10 filtered out; finished in 0.01s\n\n  stderr ───\n\n    thread '{unit}::{name}' (7) panicked at src/{unit}.rs:{line}:{column}:\n    {message}\n    note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n\n").ok();
        list += &head;
    }
    for number in 0..passed {
        writeln!(log, "        PASS [   0.056s] ( 2/{total}) shop fine::works_{number}").ok();
    }
    write!(log, "────────────\n     Summary [   0.262s] {total} tests run: {passed} passed, {} failed, 2 skipped\n{list}error: test run failed\n", planted.len()).ok();
    log
}

fn go_test_log(planted: &[Planted], is_verbose: bool, is_nested: bool) -> String {
    let mut log = String::new();
    for Planted { unit, name, line, message, .. } in planted {
        let (test, indent) = if is_nested {
            (format!("TestAll/{name}"), "    ")
        } else {
            (format!("Test_{name}"), "")
        };
        let text = format!("{indent}    {unit}_test.go:{line}: {message}\n");
        let start = |test: &str| format!("=== RUN   {test}\n");
        if is_verbose {
            log += &start("TestFine");
            log += "    fine_test.go:3: logged\n--- PASS: TestFine (0.00s)\n";
        }
        match (is_verbose, is_nested) {
            (true, true) => {
                write!(
                    log,
                    "{}{}{}--- FAIL: TestAll (0.00s)\n    --- FAIL: {test} (0.00s)\n",
                    start("TestAll"),
                    start(&test),
                    text
                )
                .ok();
            }
            (true, false) => {
                writeln!(log, "{}{}--- FAIL: {test} (0.00s)", start(&test), text).ok();
            }
            (false, true) => {
                write!(log, "--- FAIL: TestAll (0.00s)\n    --- FAIL: {test} (0.00s)\n{text}").ok();
            }
            (false, false) => {
                write!(log, "--- FAIL: {test} (0.00s)\n{text}").ok();
            }
        }
        write!(log, "FAIL\nFAIL\texample.com/{unit}\t0.005s\nok  \texample.com/fine\t0.01s\n").ok();
    }
    log.push_str("FAIL\n");
    log
}

fn go_build_log(planted: &[Planted]) -> String {
    let mut log = String::from("# example.com/shop\n");
    for Planted { unit, line, column, message, .. } in planted {
        writeln!(log, "{unit}/{unit}.go:{line}:{column}: {message}").ok();
    }
    log
}

fn compiler_log(planted: &[Planted], noise: &[String], warnings: usize, is_clang: bool) -> String {
    let mut log = String::new();
    for number in 1..=warnings {
        write!(log, "src/old.c: In function 'old':\nsrc/old.c:{number}:3: warning: unused variable 'spare' [-Wunused-variable]\n    5 |   int spare;\n      |       ^~~~~\n").ok();
    }
    for Planted { unit, line, column, message, .. } in planted {
        write!(log, "{}In file included from src/{unit}.cc:1:\nsrc/{unit}.cc:{line}:{column}: error: {message}\n  {line} |   text;\n      |   ^~~~\nsrc/{unit}.cc:{line}:{column}: note: declared here\n", lines(noise)).ok();
        if is_clang {
            log.push_str("1 error generated.\n");
        }
    }
    log
}

fn linker_log(planted: &[Planted]) -> String {
    let mut log = String::new();
    for Planted { unit, name, line, .. } in planted {
        write!(log, "/usr/bin/ld: {unit}.o: in function `main':\n/srv/app/{unit}.c:{line}: undefined reference to `{name}'\n").ok();
    }
    log.push_str("collect2: error: ld returned 1 exit status\n");
    log
}

fn googletest_log(planted: &[Planted], printed: &[String], passed: usize) -> String {
    let total = planted.len() + passed;
    let mut log = format!("[==========] Running {total} tests from 1 test suite.\n");
    for number in 0..passed {
        write!(
            log,
            "[ RUN      ] Fine.Works{number}\n{}[       OK ] Fine.Works{number} (0 ms)\n",
            lines(printed)
        )
        .ok();
    }
    for Planted { unit, name, line, message, .. } in planted {
        write!(log, "[ RUN      ] Shop.{name}\n{}/srv/tests/{unit}_test.cc:{line}: Failure\n{message}\n[  FAILED  ] Shop.{name} (0 ms)\n", lines(printed)).ok();
    }
    write!(log, "[==========] {total} tests from 1 test suite ran. (0 ms total)\n[  PASSED  ] {passed} tests.\n[  FAILED  ] {} tests, listed below:\n", planted.len()).ok();
    for Planted { name, .. } in planted {
        writeln!(log, "[  FAILED  ] Shop.{name}").ok();
    }
    write!(log, "\n {} FAILED TESTS\n", planted.len()).ok();
    log
}

fn ctest_log(planted: &[Planted], passed: usize) -> String {
    let total = planted.len() + passed;
    let mut log = String::from("Test project /srv/out\n");
    for number in 0..passed {
        writeln!(
            log,
            " 1/{total} Test  #1: fine_{number} .......................   Passed    0.01 sec"
        )
        .ok();
    }
    for (index, Planted { name, .. }) in planted.iter().enumerate() {
        let result = ["***Failed ", "***Exception: SegFault", "***Timeout "][index % 3];
        writeln!(log, "      Start {index:>2}: {name}").ok();
        writeln!(log, "{index:>2}/{total} Test #{index}: {name} .......{result}  0.01 sec").ok();
    }
    write!(
        log,
        "\n36% tests passed, {} tests failed out of {total}\n\nThe following tests FAILED:\n",
        planted.len()
    )
    .ok();
    for (index, Planted { name, .. }) in planted.iter().enumerate() {
        writeln!(log, "\t  {index} - {name} (Failed)").ok();
    }
    log.push_str("Errors while running CTest\n");
    log
}

proptest! {
    #[test]
    fn cargo(planted in planted(), warnings in 0_u64..5, has_tests: bool) {
        let log = cargo_log(&planted, warnings, has_tests);
        let facts = planted.iter().enumerate().map(|(index, Planted { unit, line, message, .. })| {
            let code = if index % 2 == 0 { "[E0425]" } else { "" };
            expect(&format!("src/{unit}.rs"), *line, "", &format!("error{code}: {message}"))
        });
        check_tool(&log, "cargo", facts.collect())?;
        prop_assert_eq!(read_counts(&log, "cargo"), Some((planted.len() as u64, warnings)), "{}", log);
    }

    #[test]
    fn cargo_test(planted in planted(), printed in false_lines(), passed in 0_usize..9) {
        let log = cargo_test_log(&planted, &printed, passed);
        let facts = planted.iter().map(|Planted { unit, name, line, message, .. }| {
            expect(&format!("src/{unit}.rs"), *line, &format!("{unit}::{name}"), message)
        });
        check_tool(&log, "cargo test", facts.collect())?;
        let expected = (planted.len() as u64, passed as u64, 2);
        prop_assert_eq!(counts(&log, "cargo test"), Some(expected), "{}", log);
    }

    #[test]
    fn nextest(planted in planted(), passed in 0_usize..9) {
        let log = nextest_log(&planted, passed);
        let facts = planted.iter().map(|Planted { unit, name, line, message, .. }| {
            expect(&format!("src/{unit}.rs"), *line, &format!("shop {unit}::{name}"), message)
        });
        check_tool(&log, "nextest", facts.collect())?;
        let expected = (planted.len() as u64, passed as u64, 2);
        prop_assert_eq!(counts(&log, "nextest"), Some(expected), "{}", log);
    }

    #[test]
    fn go_test(planted in planted(), is_verbose: bool, is_nested: bool) {
        let log = go_test_log(&planted, is_verbose, is_nested);
        let facts = planted.iter().map(|Planted { unit, name, line, message, .. }| {
            let test = if is_nested { format!("TestAll/{name}") } else { format!("Test_{name}") };
            expect(&format!("{unit}_test.go"), *line, &format!("{unit}.{test}"), message)
        });
        check_tool(&log, "go test", facts.collect())?;
    }

    #[test]
    fn go_build(planted in planted()) {
        let facts = planted.iter().map(|Planted { unit, line, message, .. }| {
            expect(&format!("{unit}/{unit}.go"), *line, "", message)
        });
        check_tool(&go_build_log(&planted), "go", facts.collect())?;
    }

    #[test]
    fn compiler(planted in planted(), noise in noise(), warnings in 0_usize..5, is_clang: bool) {
        let log = compiler_log(&planted, &noise, warnings, is_clang);
        let facts = planted.iter().map(|Planted { unit, line, message, .. }| {
            expect(&format!("src/{unit}.cc"), *line, "", &format!("error: {message}"))
        });
        check_tool(&log, "C compiler", facts.collect())?;
        let expected = (planted.len() as u64, warnings as u64);
        prop_assert_eq!(read_counts(&log, "C compiler"), Some(expected), "{}", log);
    }

    #[test]
    fn linker(planted in planted()) {
        let facts = planted.iter().map(|Planted { unit, name, line, .. }| {
            let file = format!("/srv/app/{unit}.c");
            expect(&file, *line, "", &format!("undefined reference to `{name}'"))
        });
        check_tool(&linker_log(&planted), "linker", facts.collect())?;
    }

    #[test]
    fn googletest(planted in planted(), printed in noise(), passed in 0_usize..9) {
        let log = googletest_log(&planted, &printed, passed);
        let facts = planted.iter().map(|Planted { unit, name, line, message, .. }| {
            let file = format!("/srv/tests/{unit}_test.cc");
            expect(&file, *line, &format!("Shop.{name}"), message)
        });
        check_tool(&log, "googletest", facts.collect())?;
        let expected = (planted.len() as u64, passed as u64, 0);
        prop_assert_eq!(counts(&log, "googletest"), Some(expected), "{}", log);
    }

    #[test]
    fn ctest(planted in planted(), passed in 0_usize..9) {
        let log = ctest_log(&planted, passed);
        let facts = planted.iter().enumerate().map(|(index, Planted { name, .. })| {
            let result = ["Failed", "Exception: SegFault", "Timeout"][index % 3];
            expect("", 0, name, result)
        });
        check_tool(&log, "ctest", facts.collect())?;
        let expected = (planted.len() as u64, passed as u64, 0);
        prop_assert_eq!(counts(&log, "ctest"), Some(expected), "{}", log);
    }

    #[test]
    fn make(planted in planted(), noise in noise()) {
        let mut log = lines(&noise);
        for Planted { unit, name, line, .. } in &planted {
            writeln!(log, "make[1]: Entering directory '/srv/{unit}'").ok();
            writeln!(log, "make[1]: *** [{unit}.mk:{line}: {name}] Error 1").ok();
        }
        let facts = planted.iter().map(|Planted { unit, name, line, .. }| {
            expect(&format!("{unit}.mk"), *line, name, "Error 1")
        });
        check_tool(&log, "make", facts.collect())?;
    }

    #[test]
    fn ninja(planted in planted()) {
        let mut log = String::new();
        for Planted { unit, name, .. } in &planted {
            write!(log, "[1/9] Building CXX object {unit}/{name}.o\nFAILED: {unit}/{name}.o \n/usr/bin/c++ -c {name}.cc\n").ok();
        }
        log.push_str("ninja: build stopped: subcommand failed.\n");
        let facts = planted.iter().map(|Planted { unit, name, .. }| {
            expect("", 0, "", &format!("FAILED: {unit}/{name}.o"))
        });
        check_tool(&log, "ninja", facts.collect())?;
    }

    #[test]
    fn cmake(planted in planted()) {
        let mut log = String::from("-- Detecting CXX compiler ABI info - done\n");
        for Planted { unit, name, line, message, .. } in &planted {
            write!(log, "CMake Error at {unit}/CMakeLists.txt:{line} ({name}):\n  {message}\n  and more\nCall Stack (most recent call first):\n  CMakeLists.txt:5 (include)\n\n\n").ok();
        }
        log.push_str("-- Configuring incomplete, errors occurred!\n");
        let facts = planted.iter().map(|Planted { unit, line, message, .. }| {
            let file = format!("{unit}/CMakeLists.txt");
            expect(&file, *line, "", &format!("{message} and more"))
        });
        check_tool(&log, "cmake", facts.collect())?;
    }

    #[test]
    fn shellcheck(planted in planted()) {
        let mut log = String::new();
        for Planted { unit, line, message, .. } in &planted {
            write!(log, "\nIn {unit}.sh line {line}:\ncd $dir\n^-----^ SC2164 (error): {message}\n   ^--^ SC2086 (info): Double quote.\n").ok();
        }
        let facts = planted.iter().map(|Planted { unit, line, message, .. }| {
            expect(&format!("{unit}.sh"), *line, "", &format!("SC2164 (error): {message}"))
        });
        check_tool(&log, "shellcheck", facts.collect())?;
    }

    #[test]
    fn bazel_test(planted in planted(), passed in 1_u64..9) {
        let mut log = String::from("INFO: Found 3 test targets...\n");
        for Planted { unit, name, .. } in &planted {
            writeln!(log, "FAIL: //{unit}:{name} (see /srv/testlogs/{unit}/{name}/test.log)").ok();
        }
        for Planted { unit, name, .. } in &planted {
            write!(log, "//{unit}:{name}          FAILED in 0.1s\n  /srv/testlogs/{unit}/{name}/test.log\n").ok();
        }
        write!(log, "//fine:works      (cached) PASSED in 0.1s\n\nExecuted 9 out of 9 tests: {passed} tests pass and {} fail locally.\n", planted.len()).ok();
        let facts = planted.iter().map(|Planted { unit, name, .. }| {
            expect("", 0, &format!("//{unit}:{name}"), "FAILED")
        });
        check_tool(&log, "bazel test", facts.collect())?;
        let expected = (planted.len() as u64, passed, 0);
        prop_assert_eq!(counts(&log, "bazel test"), Some(expected), "{}", log);
    }

    #[test]
    fn rust_panics(planted in planted(), noise in noise()) {
        let mut log = String::new();
        for Planted { unit, line, column, message, .. } in &planted {
            write!(log, "{}\nthread 'main' (7) panicked at src/{unit}.rs:{line}:{column}:\n{message}\nstack backtrace:\n   0: std::panicking\n             at /rustc/5980/library/std/src/panicking.rs:689:5\n   1: shop::main\n             at ./src/{unit}.rs:{line}:{column}\n", lines(&noise)).ok();
        }
        let facts = planted.iter().map(|Planted { unit, line, message, .. }| {
            expect(&format!("src/{unit}.rs"), *line, "", message)
        });
        check_traces(&log, facts.collect())?;
    }

    #[test]
    fn go_panics(planted in planted(), noise in noise()) {
        let mut log = String::new();
        for Planted { unit, name, line, message, .. } in &planted {
            write!(log, "{}panic: {name} {message}\n\ngoroutine 1 [running]:\nmain.run(0x1)\n\t/srv/app/{unit}.go:{line} +0x1d\nmain.main()\n\t/srv/app/main.go:3 +0x20\nexit status 2\n", lines(&noise)).ok();
        }
        let facts = planted.iter().map(|Planted { name, message, .. }| {
            expect("", 0, "", &format!("panic: {name} {message}"))
        });
        check_traces(&log, facts.collect())?;
        let traces = summarize(&log).traces;
        for (trace, Planted { unit, line, .. }) in traces.iter().zip(&planted) {
            let first = format!("/srv/app/{unit}.go:{line}");
            prop_assert_eq!(trace.frames.first(), Some(&first), "{}", log);
        }
    }

    #[test]
    fn sanitizers(planted in planted(), noise in noise()) {
        let mut log = String::new();
        for Planted { unit, name, line, .. } in &planted {
            write!(log, "{}=================================================================\n==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x602 at pc 0x5 bp 0x7 sp 0x8\nREAD of size 4 at 0x602 thread T0\n    #0 0x562d in {name} /srv/app/{unit}.cc:{line}\n    #1 0x562e in main /srv/app/main.cc:7\n\n0x602 is located 0 bytes inside\nfreed by thread T0 here:\n    #0 0x7fba in __interceptor_free ../asan_malloc_linux.cpp:69\n    #1 0x562f in main /srv/app/main.cc:5\n\nSUMMARY: AddressSanitizer: heap-use-after-free /srv/app/{unit}.cc:{line} in {name}\nShadow bytes around the buggy address:\n  0x0c04: 00 00\n==7==ABORTING\n", lines(&noise)).ok();
        }
        let traces = summarize(&log).traces;
        let places: Vec<_> = traces.iter().filter_map(|trace| trace.frames.first()).collect();
        let expected = planted.iter().map(|Planted { unit, name, line, .. }| {
            format!("/srv/app/{unit}.cc:{line} in {name}")
        });
        let expected: Vec<String> = expected.collect();
        prop_assert_eq!(places, expected.iter().collect::<Vec<_>>(), "{}", log);
    }
}
