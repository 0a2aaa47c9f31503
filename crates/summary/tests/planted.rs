//! Generated logs: every planted failure is found, and no other is claimed.

use proptest::prelude::*;
use shellyard_summary::{Failure, Summarizer, Summary};

/// The place, name and message of a failure, as an expected failure is written.
type FoundFailure = (Option<String>, Option<u64>, Option<String>, Option<String>);

fn word() -> impl Strategy<Value = String> {
    "[a-z]{3,9}"
}

/// Words that no format takes for something else.
fn message() -> impl Strategy<Value = String> {
    proptest::collection::vec("[a-z]{2,8}", 2..6).prop_map(|words| words.join(" "))
}

fn summarize(log: &str) -> Summary {
    let mut summarizer = Summarizer::new();
    for (index, line) in log.lines().enumerate() {
        summarizer.read(index as u64 + 1, line);
    }
    summarizer.summary()
}

fn fact(failure: &Failure) -> FoundFailure {
    (failure.file.clone(), failure.line, failure.name.clone(), failure.message.clone())
}

/// Checks that one tool reports exactly the expected failures and nothing else failed.
fn check_tool(log: &str, tool: &str, mut expected: Vec<FoundFailure>) -> Result<(), TestCaseError> {
    let summary = summarize(log);
    let mut found: Vec<FoundFailure> = Vec::new();
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

/// The counts of a report: failed, passed, skipped.
fn counts(log: &str, tool: &str) -> Option<(u64, u64, u64)> {
    let summary = summarize(log);
    let report = summary.tools.iter().find(|report| report.tool == tool)?;
    let counts = report.counts;
    Some((counts.failed?, counts.passed?, counts.skipped.unwrap_or(0)))
}

fn lines(noise: &[String]) -> String {
    noise.iter().map(|line| format!("{line}\n")).collect()
}

/// Logs of Java, Ruby, PHP, image and infrastructure tools.
mod jvm {
    use std::collections::BTreeMap;

    use super::*;

    /// A failure that a generated log contains.
    #[derive(Debug, Clone)]
    struct PlantedFailure {
        /// The part of the program: a class, a file, a step.
        unit: String,
        /// The test or the method, different in each failure of a log.
        name: String,
        line: u64,
        message: String,
    }

    fn class() -> impl Strategy<Value = String> {
        "[A-Z][a-z]{3,8}"
    }

    fn planted() -> impl Strategy<Value = Vec<PlantedFailure>> {
        let one = (class(), word(), 1_u64..5000, message());
        proptest::collection::btree_map(word(), one, 1..12).prop_map(|failures| {
            let numbered = failures.into_iter().enumerate();
            let planted =
                numbered.map(|(index, (name, (unit, test, line, message)))| PlantedFailure {
                    unit,
                    name: format!("{name}{}{index}", capital(&test)),
                    line,
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
            (0_u32..100, message()).prop_map(|(percent, text)| format!("[{percent:>3}%] {text}")),
            message().prop_map(|text| format!("2026-03-14T00:28:58Z INFO {text}")),
            Just(String::new()),
            false_counts(),
        ];
        proptest::collection::vec(line, 0..8)
    }

    /// Counts that a test prints, in the form of its runner.
    fn false_counts() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("Tests run: 99, Failures: 0, Errors: 0, Skipped: 0"),
            Just("[INFO] Tests run: 99, Failures: 0, Errors: 0, Skipped: 0"),
            Just("100 examples, 0 failures"),
            Just("50 runs, 50 assertions, 0 failures, 0 errors, 0 skips"),
            Just("OK (99 tests, 99 assertions)"),
            Just("Tests: 99, Assertions: 99, Failures: 1."),
            Just("3 errors"),
        ]
        .prop_map(str::to_owned)
    }

    fn capital(word: &str) -> String {
        let mut chars = word.chars();
        chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
    }

    fn by_unit(planted: &[PlantedFailure]) -> BTreeMap<&str, Vec<&PlantedFailure>> {
        let mut units: BTreeMap<&str, Vec<&PlantedFailure>> = BTreeMap::new();
        for failure in planted {
            units.entry(&failure.unit).or_default().push(failure);
        }
        units
    }

    const MAVEN_END: &str = "[INFO] \n[INFO] BUILD FAILURE\n[ERROR] Failed to execute goal org.apache.maven.plugins:maven-surefire-plugin:2.22.3:test (default-test) on project shop: There are test failures.\n[ERROR] \n[ERROR] -> [Help 1]\n";

    /// The age of the plugin that runs tests under maven.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Surefire {
        /// Before 2.20: no levels before the lines.
        Old,
        /// 2.20 and later, with JUnit 4.
        Two,
        /// 3, with JUnit 5 and whole traces.
        Three,
    }

    fn surefire() -> impl Strategy<Value = Surefire> {
        prop_oneof![Just(Surefire::Old), Just(Surefire::Two), Just(Surefire::Three)]
    }

    fn maven_log(
        planted: &[PlantedFailure],
        noise: &[String],
        passed: usize,
        surefire: Surefire,
    ) -> String {
        let is_new = surefire == Surefire::Three;
        let failed = planted.len();
        let total = failed + passed;
        let mut log = String::from("[INFO] Scanning for projects...\n[INFO]  T E S T S\n");
        for (unit, failures) in by_unit(planted) {
            let count = failures.len();
            let dashes = if is_new { "--" } else { "-" };
            log += &format!("[INFO] Running shop.{unit}Test\n{}", lines(noise));
            log += &format!(
                "[ERROR] Tests run: {count}, Failures: {count}, Errors: 0, Skipped: 0, Time elapsed: 0.1 s <<< FAILURE! {dashes} in shop.{unit}Test"
            );
            log.push('\n');
            for PlantedFailure { name, line, message, .. } in failures {
                let text = if is_new {
                    format!(
                        "[ERROR] shop.{unit}Test.{name} -- Time elapsed: 0.01 s <<< FAILURE!\norg.opentest4j.AssertionFailedError: {message}\n\tat org.junit.jupiter.api.AssertionUtils.fail(AssertionUtils.java:55)\n\tat shop.{unit}.check({unit}.java:3)\n\tat shop.{unit}Test.{name}({unit}Test.java:{line})\n\tat java.base/java.lang.reflect.Method.invoke(Method.java:568)\n"
                    )
                } else {
                    format!(
                        "[ERROR] {name}(shop.{unit}Test)  Time elapsed: 0 s  <<< FAILURE!\norg.opentest4j.AssertionFailedError: {message}\n\tat shop.{unit}Test.{name}({unit}Test.java:{line})\nCaused by: java.io.IOException: gone\n\tat shop.{unit}Test.read({unit}Test.java:1)\n\t... 3 more\n"
                    )
                };
                log += &text;
                log.push('\n');
            }
        }
        if surefire == Surefire::Old {
            let log = log.replace("[ERROR] ", "").replace("[INFO] ", "").replace(" s ", " sec ");
            return format!(
                "{log}\nResults :\n\nFailed tests:   some\n\nTests run: {total}, Failures: {failed}, Errors: 0, Skipped: 0\n\n{MAVEN_END}"
            );
        }
        log.push_str("[INFO] \n[INFO] Results:\n[INFO] \n[ERROR] Failures: \n");
        for PlantedFailure { unit, name, line, message } in planted {
            log += &format!("[ERROR]   {unit}Test.{name}:{line} {message}");
            log.push('\n');
        }
        log += &format!(
            "[INFO] \n[ERROR] Tests run: {total}, Failures: {failed}, Errors: 0, Skipped: 0\n{MAVEN_END}"
        );
        log
    }

    fn gradle_log(planted: &[PlantedFailure], passed: usize, is_full: bool) -> String {
        let mut log = String::from("> Task :compileJava\n> Task :test\n");
        for PlantedFailure { unit, name, line, message } in planted {
            let text = if is_full {
                format!(
                    "\n{unit}Test > {name}() FAILED\n    org.opentest4j.AssertionFailedError: {message}\n        at app//org.junit.jupiter.api.Assertions.fail(Assertions.java:3)\n        at app//shop.{unit}Test.{name}({unit}Test.java:{line})\n\n        Caused by:\n        java.io.IOException: gone\n            at shop.{unit}Test.read({unit}Test.java:1)"
                )
            } else {
                format!(
                    "\n{unit}Test > {name}() FAILED\n    org.opentest4j.AssertionFailedError at {unit}Test.java:{line}"
                )
            };
            log += &text;
            log.push('\n');
        }
        let failed = planted.len();
        log += &format!(
            "\n{} tests completed, {failed} failed\n\n> Task :test FAILED\n\nFAILURE: Build failed with an exception.\n\n* What went wrong:\nExecution failed for task ':test'.\n> There were failing tests. See the report at: file:///srv/app/index.html\n\n* Try:\n> Run with --stacktrace option to get the stack trace.\n\nBUILD FAILED in 3s\n",
            failed + passed
        );
        log
    }

    fn javac_log(planted: &[PlantedFailure], warnings: usize, prefix: &str) -> String {
        let mut log = String::new();
        for number in 0..warnings {
            log += &format!(
                "{prefix}shop/Old.java:{}: warning: [rawtypes] found raw type: List\n    List names;\n    ^",
                number + 1
            );
            log.push('\n');
        }
        for PlantedFailure { unit, name, line, message } in planted {
            log += &format!(
                "{prefix}shop/{unit}.java:{line}: error: {message}\n        int {name} = 0;\n            ^\n  symbol:   variable {name}\n  location: class {unit}"
            );
            log.push('\n');
        }
        let plural = if planted.len() == 1 { "" } else { "s" };
        log += &format!("{} error{plural}", planted.len());
        log.push('\n');
        if warnings > 0 {
            let plural = if warnings == 1 { "" } else { "s" };
            log += &format!("{warnings} warning{plural}");
            log.push('\n');
        }
        log
    }

    fn rspec_log(planted: &[PlantedFailure], noise: &[String], pending: usize) -> String {
        let mut log = lines(noise);
        log.push_str(".F..F\n\nPending: (Failures listed here are expected and do not affect your suite's status)\n\n");
        for number in 1..=pending {
            log += &format!(
                "  {number}) Stock waits\n     # some reason\n     # ./spec/stock_spec.rb:{number}\n"
            );
            log.push('\n');
        }
        log.push_str("Failures:\n\n");
        for (index, PlantedFailure { unit, name, line, message }) in planted.iter().enumerate() {
            log += &format!(
                "  {}) {unit}#{name} works\n     Failure/Error: expect({message}).to eq(8)\n\n       expected: 8\n            got: 7\n\n       (compared using ==)\n     # ./lib/{name}.rb:1:in `{name}'\n     # ./spec/{name}_spec.rb:{line}:in `block (3 levels) in <top (required)>'\n",
                index + 1
            );
            log.push('\n');
        }
        let failed = planted.len();
        log += &format!(
            "Finished in 0.1 seconds (files took 0.7 seconds to load)\n{} examples, {failed} failure{}, {pending} pending\n\nFailed examples:\n",
            failed + pending + 3,
            if failed == 1 { "" } else { "s" }
        );
        log.push('\n');
        for PlantedFailure { unit, name, line, .. } in planted {
            log += &format!("rspec ./spec/{name}_spec.rb:{line} # {unit}#{name} works");
            log.push('\n');
        }
        log
    }

    fn minitest_log(planted: &[PlantedFailure], noise: &[String], skipped: usize) -> String {
        let mut log = format!(
            "Run options: --seed 42\n\n# Running:\n\n{}.F.E\n\nFinished in 0.02s, 394.3 runs/s, 322.6 assertions/s.\n\n",
            lines(noise)
        );
        for number in 1..=skipped {
            log += &format!(
                "  {number}) Skipped:\nStockTest#test_later_{number} [test/stock_test.rb:{number}]:\nnot yet\n"
            );
            log.push('\n');
        }
        for (index, PlantedFailure { unit, name, line, message }) in planted.iter().enumerate() {
            let text = if index % 2 == 0 {
                format!(
                    "  {}) Failure:\n{unit}Test#test_{name} [test/{name}_test.rb:{line}]:\n{message}\n",
                    index + skipped + 1
                )
            } else {
                format!(
                    "  {}) Error:\n{unit}Test#test_{name}:\nArgumentError: {message}\n    lib/{name}.rb:9:in `add'\n    test/{name}_test.rb:{line}:in `test_{name}'\n",
                    index + skipped + 1
                )
            };
            log += &text;
            log.push('\n');
        }
        let errors = planted.len() / 2;
        let failed = planted.len() - errors;
        log += &format!(
            "{} runs, 9 assertions, {failed} failures, {errors} errors, {skipped} skips",
            planted.len() + skipped + 5
        );
        log.push('\n');
        log
    }

    fn phpunit_log(planted: &[PlantedFailure], noise: &[String], risky: usize) -> String {
        let mut log = format!(
            "PHPUnit 10.5.1 by Sebastian Bergmann and contributors.\n\n{}\n..F  3 / 3 (100%)\n\nTime: 00:00.014, Memory: 4.00 MB\n\n",
            lines(noise)
        );
        log += &format!("There were {} failures:\n", planted.len());
        log.push('\n');
        for (index, PlantedFailure { unit, name, line, message }) in planted.iter().enumerate() {
            log += &format!(
                "{}) {unit}Test::{name}\n{message}\n\n/srv/app/src/{unit}.php:3\n/srv/app/tests/{unit}Test.php:{line}\n",
                index + 1
            );
            log.push('\n');
        }
        log += &format!(
            "--\n\nThere was {risky} risky test:\n\n1) StockTest::nothing\nThis test did not perform any assertions\n\n/srv/app/tests/StockTest.php:36\n\nFAILURES!\nTests: {}, Assertions: 8, Failures: {}, Risky: {risky}.\n",
            planted.len() + risky + 2,
            planted.len()
        );
        log
    }

    fn docker_log(planted: &PlantedFailure, noise: &[String], is_old: bool) -> String {
        let PlantedFailure { name, line, message, .. } = planted;
        let step = format!("RUN make {name}");
        if is_old {
            return format!(
                "Sending build context to Docker daemon  4.096kB\nStep 1/3 : FROM base\n ---> 1c35f36b530b\nStep 2/3 : {step}\n ---> Running in 68d63f29b290\n{}The command '/bin/sh -c make {name}' returned a non-zero code: 2\n",
                lines(noise)
            );
        }
        let output: String = noise.iter().map(|text| format!("#6 1.25 {text}\n")).collect();
        let repeated: String = noise.iter().map(|text| format!("1.25 {text}\n")).collect();
        let failed = format!(
            "process \"/bin/sh -c make {name}\" did not complete successfully: exit code: 2"
        );
        format!(
            "#5 [1/3] FROM base\n#5 DONE 0.0s\n\n#6 [2/3] {step}\n{output}#6 ERROR: {failed}\n\n#7 [other 2/2] RUN {message}\n#7 CANCELED\n------\n > [2/3] {step}:\n{repeated}------\nDockerfile:{line}\n--------------------\n   {line} | >>> {step}\n--------------------\nERROR: failed to solve: {failed}\n"
        )
    }

    fn terraform_log(planted: &[PlantedFailure], has_box: bool) -> String {
        let mut log = String::from(
            "Initializing the backend...\n\nPlanning failed. Terraform encountered an error while generating this plan.\n\n",
        );
        for PlantedFailure { unit, name, line, message } in planted {
            let text = format!(
                "Error: {message}\n\n  with aws_instance.{name}[7],\n  on {name}.tf line {line}, in resource \"aws_instance\" \"{name}\":\n  {line}:   input = var.{name}\n\nThe name {unit} is wrong.\n"
            );
            if has_box {
                let boxed: String = text.lines().map(|line| format!("│ {line}\n")).collect();
                log += &format!("╷\n{boxed}╵\n");
            } else {
                log += &format!("\n{text}");
                log.push('\n');
            }
        }
        log
    }

    /// A trace with a cause, in the form of a language.
    #[derive(Debug, Clone, Copy)]
    enum Language {
        Java,
        JavaScript,
        Python,
        Ruby,
        Php,
        DotNet,
    }

    fn trace_log(language: Language, planted: &[PlantedFailure], noise: &[String]) -> String {
        let mut log = String::new();
        for (index, PlantedFailure { unit, name, line, message }) in planted.iter().enumerate() {
            let text = match language {
                Language::Java => format!(
                    "Exception in thread \"main\" shop.{unit}Exception: {message}\n\tat shop.{unit}.{name}({unit}.java:{line})\n\tat shop.App.main(App.java:2)\nCaused by: java.io.IOException: gone\n\tat shop.{unit}.read({unit}.java:1)\n\t... 12 more\n"
                ),
                Language::JavaScript => format!(
                    "/srv/app/{name}.js:{line}\n  throw error\n  ^\n\n{unit}Error: {message}\n    at {name} (/srv/app/{name}.js:{line}:9)\n    at main (/srv/app/main.js:2:1) {{\n  code: 'E1',\n  [cause]: Error: gone\n      at read (/srv/app/{name}.js:1:1)\n}}\n"
                ),
                Language::Python => format!(
                    "Traceback (most recent call last):\n  File \"/srv/app/{name}.py\", line 1, in read\n    return open(path)\n           ^^^^^^^^^^\nOSError: gone\n\nThe above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n  File \"/srv/app/main.py\", line 2, in main\n    run()\n  File \"/srv/app/{name}.py\", line {line}, in {name}\n    raise error\n{unit}Error: {message}\n"
                ),
                Language::Ruby => format!(
                    "{name}.rb:{line}:in `{name}': {message} ({unit}Error)\n\tfrom main.rb:2:in `<main>'\n{name}.rb:1:in `read': gone (IOError)\n\tfrom {name}.rb:3:in `{name}'\n"
                ),
                Language::Php => format!(
                    "PHP Fatal error:  Uncaught RuntimeException: gone in /srv/app/{name}.php:1\nStack trace:\n#0 /srv/app/{name}.php(3): read()\n#1 {{main}}\n\nNext {unit}Error: {message} in /srv/app/{name}.php:{line}\nStack trace:\n#0 /srv/app/main.php(2): {name}()\n#1 {{main}}\n  thrown in /srv/app/{name}.php on line {line}\n"
                ),
                Language::DotNet => format!(
                    "Unhandled exception. Shop.{unit}Exception: {message}\n ---> System.IO.IOException: gone\n   at Shop.{unit}.Read() in /srv/app/{name}.cs:line 1\n   --- End of inner exception stack trace ---\n   at Shop.{unit}.{name}() in /srv/app/{name}.cs:line {line}\n   at Program.Main(String[] args) in /srv/app/main.cs:line 2\n"
                ),
            };
            log += &text;
            log += &format!("2026-03-14T00:28:58Z INFO next is {index}\n{}", lines(noise));
        }
        log
    }

    /// Mixes the logs of containers as docker compose does; the choices say whose line is next.
    fn interleave(logs: &[String], choices: &[usize]) -> String {
        let mut parts: Vec<_> = logs.iter().map(|log| log.lines().peekable()).collect();
        let mut mixed = String::new();
        for index in choices.iter().copied().chain((0..logs.len()).cycle()) {
            if parts.iter_mut().all(|part| part.peek().is_none()) {
                break;
            }
            if let Some(line) = parts.get_mut(index).and_then(Iterator::next) {
                mixed += &format!("app-{index}  | {line}\n");
            }
        }
        mixed
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn maven(planted in planted(), noise in noise(), passed in 0_usize..50, surefire in surefire()) {
            let log = maven_log(&planted, &noise, passed, surefire);
            let expected = planted.iter().map(|PlantedFailure { unit, name, line, message }| (
                Some(format!("{unit}Test.java")), Some(*line), Some(format!("{unit}Test.{name}")),
                Some(format!("AssertionFailedError: {message}")),
            ));
            check_tool(&log, "maven", expected.collect())?;
            prop_assert_eq!(counts(&log, "maven"), Some((planted.len() as u64, passed as u64, 0)));
        }

        #[test]
        fn gradle(planted in planted(), passed in 0_usize..50, is_full: bool) {
            let log = gradle_log(&planted, passed, is_full);
            let expected = planted.iter().map(|PlantedFailure { unit, name, line, message }| {
                let text = if is_full { format!(": {message}") } else { String::new() };
                (
                    Some(format!("{unit}Test.java")), Some(*line), Some(format!("{unit}Test > {name}()")),
                    Some(format!("AssertionFailedError{text}")),
                )
            });
            check_tool(&log, "gradle", expected.collect())?;
            prop_assert_eq!(counts(&log, "gradle"), Some((planted.len() as u64, passed as u64, 0)));
        }

        #[test]
        fn javac(planted in planted(), warnings in 0_usize..4, is_under_gradle: bool) {
            let log = javac_log(&planted, warnings, if is_under_gradle { "/srv/app/" } else { "" });
            let prefix = if is_under_gradle { "/srv/app/" } else { "" };
            let expected = planted.iter().map(|PlantedFailure { unit, name, line, message }| (
                Some(format!("{prefix}shop/{unit}.java")), Some(*line), None,
                Some(format!("{message}: variable {name}")),
            ));
            check_tool(&log, "javac", expected.collect())?;
            let summary = summarize(&log);
            prop_assert_eq!(summary.tools[0].warning_count, warnings as u64);
        }

        #[test]
        fn rspec(planted in planted(), noise in noise(), pending in 0_usize..4) {
            let log = rspec_log(&planted, &noise, pending);
            let expected = planted.iter().map(|PlantedFailure { unit, name, line, message }| (
                Some(format!("./spec/{name}_spec.rb")), Some(*line), Some(format!("{unit}#{name} works")),
                Some(format!("expect({message}).to eq(8): expected: 8, got: 7")),
            ));
            check_tool(&log, "rspec", expected.collect())?;
            let expected = (planted.len() as u64, 3, pending as u64);
            prop_assert_eq!(counts(&log, "rspec"), Some(expected));
        }

        #[test]
        fn minitest(planted in planted(), noise in noise(), skipped in 0_usize..4) {
            let log = minitest_log(&planted, &noise, skipped);
            let expected = planted.iter().enumerate().map(|(index, failure)| {
                let PlantedFailure { unit, name, line, message } = failure;
                let class = if index % 2 == 0 { "" } else { "ArgumentError: " };
                (
                    Some(format!("test/{name}_test.rb")), Some(*line),
                    Some(format!("{unit}Test#test_{name}")), Some(format!("{class}{message}")),
                )
            });
            check_tool(&log, "minitest", expected.collect())?;
            let expected = (planted.len() as u64, 5, skipped as u64);
            prop_assert_eq!(counts(&log, "minitest"), Some(expected));
        }

        #[test]
        fn phpunit(planted in planted(), noise in noise(), risky in 1_usize..3) {
            let log = phpunit_log(&planted, &noise, risky);
            let expected = planted.iter().map(|PlantedFailure { unit, name, line, message }| (
                Some(format!("/srv/app/tests/{unit}Test.php")), Some(*line),
                Some(format!("{unit}Test::{name}")), Some(message.clone()),
            ));
            check_tool(&log, "phpunit", expected.collect())?;
            prop_assert_eq!(counts(&log, "phpunit"), Some((planted.len() as u64, 2, 0)));
        }

        #[test]
        fn docker(planted in planted(), noise in noise(), is_old: bool) {
            let log = docker_log(&planted[0], &noise, is_old);
            let PlantedFailure { name, line, .. } = &planted[0];
            let place = (!is_old).then(|| ("Dockerfile".to_owned(), *line)).unzip();
            let step = format!("[2/3] RUN make {name}");
            let expected = (place.0, place.1, Some(step), Some("exit code: 2".to_owned()));
            check_tool(&log, "docker", vec![expected])?;
        }

        #[test]
        fn terraform(planted in planted(), has_box: bool) {
            let log = terraform_log(&planted, has_box);
            let expected = planted.iter().map(|PlantedFailure { unit, name, line, message }| (
                Some(format!("{name}.tf")), Some(*line), None,
                Some(format!("aws_instance.{name}[7]: {message}: The name {unit} is wrong.")),
            ));
            check_tool(&log, "terraform", expected.collect())?;
        }

        #[test]
        fn traces(
            planted in planted(),
            noise in noise(),
            language in prop_oneof![
                Just(Language::Java), Just(Language::JavaScript), Just(Language::Python),
                Just(Language::Ruby), Just(Language::Php), Just(Language::DotNet),
            ],
        ) {
            let log = trace_log(language, &planted, &noise);
            let summary = summarize(&log);
            prop_assert!(summary.tools.is_empty(), "{:?}\n{}", summary.tools, log);
            prop_assert_eq!(summary.errors.count, 0, "{:?}\n{}", summary.errors, log);
            prop_assert_eq!(summary.traces.len(), planted.len(), "{:?}\n{}", summary.traces, log);
            for (trace, PlantedFailure { name, line, message, .. }) in summary.traces.iter().zip(&planted) {
                let told = trace.message.clone().unwrap_or_default();
                prop_assert!(told.contains(message.as_str()), "{trace:?}\n{log}");
                let place = trace.file.iter().zip(trace.line).map(|(file, line)| format!("{file}:{line}"));
                let places: Vec<String> = place.chain(trace.frames.iter().cloned()).collect();
                let has = |part: &str| places.iter().any(|place| place.contains(part));
                prop_assert!(has(&format!(":{line}")) && has(name), "{trace:?}\n{log}");
                prop_assert!(has("gone"), "{trace:?}\n{log}");
            }
        }

        #[test]
        fn noise_alone(noise in proptest::collection::vec(noise(), 1..8)) {
            let log = lines(&noise.concat());
            let summary = summarize(&log);
            prop_assert!(summary.tools.is_empty(), "{:?}\n{}", summary.tools, log);
            prop_assert!(summary.traces.is_empty(), "{:?}\n{}", summary.traces, log);
            prop_assert_eq!(summary.errors.count, 0, "{:?}\n{}", summary.errors, log);
        }

        #[test]
        fn traces_of_containers(
            planted in planted(),
            choices in proptest::collection::vec(Just([0_usize, 1, 2]).prop_shuffle(), 100),
            language in prop_oneof![
                Just(Language::Java), Just(Language::JavaScript), Just(Language::Python),
            ],
        ) {
            let logs: Vec<String> =
                planted.chunks(planted.len().div_ceil(3)).map(|part| trace_log(language, part, &[])).collect();
            let log = interleave(&logs, &choices.concat());
            let summary = summarize(&log);
            prop_assert_eq!(summary.traces.len(), planted.len(), "{:?}\n{}", summary.traces, log);
            for PlantedFailure { name, line, message, .. } in &planted {
                let is_told = summary.traces.iter().any(|trace| {
                    let has = |part: &str| trace.frames.iter().any(|frame| frame.contains(part));
                    let told = trace.message.as_ref().is_some_and(|told| told.contains(message));
                    told && has(&format!(":{line}")) && has(name) && has("gone")
                });
                prop_assert!(is_told, "{name}: {:?}\n{}", summary.traces, log);
            }
        }
    }
}

/// Logs of Rust, Go, C and shell tools.
mod native {
    use std::fmt::Write as _;

    use super::*;

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

    /// An expected fact; an empty text stands for none.
    fn expect(file: &str, line: u64, name: &str, message: &str) -> FoundFailure {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        (text(file), (line > 0).then_some(line), text(name), text(message))
    }

    /// Checks that the traces are the expected ones, each with a place or the file of its first frame.
    fn check_traces(log: &str, mut expected: Vec<FoundFailure>) -> Result<(), TestCaseError> {
        let summary = summarize(log);
        let mut found: Vec<FoundFailure> = summary.traces.iter().map(fact).collect();
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected, "{}", log);
        prop_assert!(summary.tools.is_empty(), "{:?}\n{}", summary.tools, log);
        prop_assert_eq!(summary.errors.count, 0, "{:?}\n{}", summary.errors, log);
        Ok(())
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
            let head = format!(
                "        FAIL [   0.037s] ({:>2}/{total}) shop {unit}::{name}\n",
                index + 1
            );
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
                    write!(log, "--- FAIL: TestAll (0.00s)\n    --- FAIL: {test} (0.00s)\n{text}")
                        .ok();
                }
                (false, false) => {
                    write!(log, "--- FAIL: {test} (0.00s)\n{text}").ok();
                }
            }
            write!(log, "FAIL\nFAIL\texample.com/{unit}\t0.005s\nok  \texample.com/fine\t0.01s\n")
                .ok();
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

    fn compiler_log(
        planted: &[Planted],
        noise: &[String],
        warnings: usize,
        is_clang: bool,
    ) -> String {
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
            writeln!(log, "{index:>2}/{total} Test #{index}: {name} .......{result}  0.01 sec")
                .ok();
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
}

/// Logs of Python and JavaScript tools.
mod scripts {
    use std::collections::BTreeMap;

    use super::*;

    /// Adds a line to a log.
    macro_rules! add_line {
        ($log:ident, $($text:tt)*) => {
            $log.push_str(&format!($($text)*));
            $log.push('\n');
        };
    }

    /// A failure that a generated log contains.
    #[derive(Debug, Clone)]
    struct Planted {
        /// The file of the test, without its ending.
        file: String,
        /// The name of the test, different in each failure of a log.
        name: String,
        line: u64,
        message: String,
    }

    fn planted() -> impl Strategy<Value = Vec<Planted>> {
        let names_tests = |name: &str| name.contains("test") || name.contains("spec");
        let file = "[a-z]{3,8}".prop_filter("it names tests", move |name| !names_tests(name));
        let one = (file, 1_u64..5000, message());
        proptest::collection::btree_map("[a-z]{3,9}", one, 1..12).prop_map(|failures| {
            let numbered = failures.into_iter().enumerate();
            let planted = numbered.map(|(index, (name, (file, line, message)))| Planted {
                file,
                name: format!("{name}_{index}"),
                line,
                message,
            });
            planted.collect()
        })
    }

    /// Lines that tests print, among them lines in the form of test runners.
    fn noise() -> impl Strategy<Value = Vec<String>> {
        let line = prop_oneof![
            message(),
            (message(), 0_u32..1000).prop_map(|(text, number)| format!("{text} {number}")),
            message().prop_map(|text| format!("2026-03-14T00:28:58Z INFO {text}")),
            Just("=== 3 failed, 2 passed in 0.10s ===".to_owned()),
            Just("FAILED (failures=9)".to_owned()),
            Just("not ok 7 - never ran".to_owned()),
            Just("# fail 9".to_owned()),
            Just("ℹ fail 9".to_owned()),
            Just("✖ never ran (1ms)".to_owned()),
            Just("  9 failing".to_owned()),
            Just("  1) never ran".to_owned()),
            Just("  ● never ran".to_owned()),
            Just("Tests:       9 failed, 2 passed, 11 total".to_owned()),
            Just("      Tests  9 failed | 2 passed (11)".to_owned()),
        ];
        proptest::collection::vec(line, 0..8)
    }

    fn by_file(planted: &[Planted]) -> BTreeMap<&str, Vec<&Planted>> {
        let mut files: BTreeMap<&str, Vec<&Planted>> = BTreeMap::new();
        for failure in planted {
            files.entry(&failure.file).or_default().push(failure);
        }
        files
    }

    /// The expected facts; `ending` is that of the file, `name` and `message` write their texts.
    fn facts(
        planted: &[Planted],
        place: impl Fn(&str) -> String,
        name: impl Fn(&Planted) -> Option<String>,
        message: impl Fn(&str) -> String,
    ) -> Vec<FoundFailure> {
        let one = |failure: &Planted| {
            let file = Some(place(&failure.file));
            (file, Some(failure.line), name(failure), Some(message(&failure.message)))
        };
        planted.iter().map(one).collect()
    }

    /// Checks that one tool reports exactly the expected failures, with the given counts of failed and
    /// passed tests.
    fn check(
        log: &str,
        tool: &str,
        mut expected: Vec<FoundFailure>,
        counts: (Option<u64>, Option<u64>),
    ) -> Result<(), TestCaseError> {
        let summary = summarize(log);
        let mut found: Vec<FoundFailure> = Vec::new();
        for report in &summary.tools {
            prop_assert!(report.is_consistent, "{report:?}\n{log}");
            prop_assert_eq!(report.tool, tool, "{:?}\n{}", report, log);
            prop_assert_eq!((report.counts.failed, report.counts.passed), counts, "{}", log);
            found.extend(report.failures.iter().map(fact));
        }
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected, "{}", log);
        prop_assert!(summary.traces.is_empty(), "{:?}\n{}", summary.traces, log);
        Ok(())
    }

    fn total(planted: &[Planted], passed: u64) -> (Option<u64>, Option<u64>) {
        (Some(planted.len() as u64), Some(passed))
    }

    fn own_name(failure: &Planted) -> Option<String> {
        Some(failure.name.clone())
    }

    fn pytest_log(planted: &[Planted], noise: &[String], passed: u64, is_short: bool) -> String {
        let mut log = String::from(
            "============================= test session starts ==============================\ncollected 9 items\n\n",
        );
        log += "=================================== FAILURES ===================================\n";
        for Planted { file, name, line, message } in planted {
            add_line!(
                log,
                "_________________________________ test_{name} __________________________________"
            );
            if is_short {
                add_line!(
                    log,
                    "tests/test_{file}.py:{line}: in test_{name}\n    check()\nsrc/{file}.py:3: in check\n    raise ValueError()\nE   ValueError: {message}"
                );
            } else {
                add_line!(
                    log,
                    "\n    def test_{name}():\n>       check()\n\ntests/test_{file}.py:{line}: \n_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ \n\n    def check():\n>       raise ValueError()\nE       ValueError: {message}\n\nsrc/{file}.py:3: ValueError"
                );
            }
            if !noise.is_empty() {
                log += "----------------------------- Captured stdout call -----------------------------\n";
                log += &lines(noise);
            }
        }
        log += "=========================== short test summary info ============================\n";
        for Planted { file, name, .. } in planted {
            add_line!(log, "FAILED tests/test_{file}.py::test_{name} - ValueError: ...");
        }
        let failed = planted.len();
        add_line!(
            log,
            "==================== {failed} failed, {passed} passed, 1 skipped in 0.31s ===================="
        );
        log
    }

    fn unittest_log(planted: &[Planted], noise: &[String]) -> String {
        let mut log = format!("FF.E\n{}", lines(noise));
        for Planted { file, name, line, message } in planted {
            add_line!(
                log,
                "======================================================================\nFAIL: test_{name} (tests.test_{file}.ShopTest.test_{name})\n----------------------------------------------------------------------\nTraceback (most recent call last):\n  File \"/srv/app/tests/test_{file}.py\", line {line}, in test_{name}\n    self.check()\n  File \"/usr/lib/python3.11/unittest/case.py\", line 873, in assertEqual\n    assertion_func(first, second, msg=msg)\nAssertionError: {message}\n"
            );
        }
        let failed = planted.len();
        add_line!(
            log,
            "----------------------------------------------------------------------\nRan {} tests in 0.003s\n\nFAILED (failures={failed})",
            failed + 4
        );
        log
    }

    fn node_spec_log(planted: &[Planted], noise: &[String], passed: u64) -> String {
        let mut log = format!("▶ shop\n  ✔ opens (0.6ms)\n{}", lines(noise));
        for Planted { name, .. } in planted {
            add_line!(log, "  ✖ {name} (13.55ms)");
        }
        let failed = planted.len();
        add_line!(
            log,
            "✖ shop (17.9ms)\nℹ tests {}\nℹ suites 1\nℹ pass {passed}\nℹ fail {failed}\nℹ cancelled 0\nℹ skipped 0\nℹ todo 0\nℹ duration_ms 3646.6\n\n✖ failing tests:",
            passed + failed as u64
        );
        for Planted { file, name, line, message } in planted {
            add_line!(
                log,
                "\ntest at test/{file}.test.js:1:5\n✖ {name} (13.55ms)\n  Error: {message}\n      at check (/srv/app/src/{file}.js:4:26)\n      at TestContext.<anonymous> (/srv/app/test/{file}.test.js:{line}:14)\n      at Test.run (node:internal/test_runner/test:1047:25) {{\n    code: 'E_SHOP'\n  }}"
            );
        }
        log
    }

    fn node_tap_log(planted: &[Planted], noise: &[String], passed: u64) -> String {
        let mut log = String::from("TAP version 13\n");
        for line in noise {
            add_line!(log, "# {}", line.replace('#', "\\#"));
        }
        for (index, Planted { file, name, line, message }) in planted.iter().enumerate() {
            let number = index + 1;
            add_line!(
                log,
                "# Subtest: {name}\nnot ok {number} - {name}\n  ---\n  duration_ms: 13.7\n  type: 'test'\n  location: '/srv/app/test/{file}.test.js:1:1'\n  failureType: 'testCodeFailure'\n  error: '{message}'\n  code: 'ERR_TEST_FAILURE'\n  stack: |-\n    TestContext.<anonymous> (/srv/app/test/{file}.test.js:{line}:10)\n    Test.run (node:internal/test_runner/test:1047:25)\n  ..."
            );
        }
        let failed = planted.len();
        add_line!(
            log,
            "1..{failed}\n# tests {}\n# suites 0\n# pass {passed}\n# fail {failed}\n# cancelled 0\n# skipped 0\n# todo 0\n# duration_ms 2067.3",
            passed + failed as u64
        );
        log
    }

    fn jest_log(planted: &[Planted], noise: &[String], passed: u64) -> String {
        let mut log = String::new();
        let files = by_file(planted);
        for (file, failures) in &files {
            add_line!(log, "FAIL test/{file}.test.js\n  ● Console\n");
            for line in noise {
                add_line!(
                    log,
                    "    console.log\n      {line}\n\n      at Object.log (test/{file}.test.js:1:11)\n"
                );
            }
            for Planted { name, line, message, .. } in failures {
                add_line!(
                    log,
                    "  ● shop › {name}\n\n    RangeError: {message}\n\n      2 |\n    > 3 |   throw new RangeError();\n        |         ^\n      4 |\n\n      at Shop.check (src/{file}.js:3:9)\n      at Object.check (test/{file}.test.js:{line}:18)\n"
                );
            }
        }
        let failed = planted.len();
        add_line!(
            log,
            "PASS good/a.test.js\n\nTest Suites: {} failed, 1 passed, {} total\nTests:       {failed} failed, 1 skipped, {passed} passed, {} total\nSnapshots:   0 total\nTime:        0.3 s\nRan all test suites.",
            files.len(),
            files.len() + 1,
            failed as u64 + passed + 1
        );
        log
    }

    fn vitest_log(planted: &[Planted], noise: &[String], passed: u64) -> String {
        let mut log = String::from("\n RUN  v4.1.12 /srv/app\n\n");
        if !noise.is_empty() {
            add_line!(log, "stdout | test/a.test.mjs > prints\n{}", lines(noise));
        }
        let failed = planted.len();
        add_line!(log, "⎯⎯⎯⎯⎯⎯ Failed Tests {failed} ⎯⎯⎯⎯⎯⎯⎯\n");
        for (index, Planted { file, name, line, message }) in planted.iter().enumerate() {
            let number = index + 1;
            add_line!(
                log,
                " FAIL  test/{file}.test.mjs > shop > {name}\nAssertionError: {message} // Object.is equality\n\n- Expected\n+ Received\n\n- 501\n+ 500\n\n ❯ check src/{file}.mjs:3:9\n ❯ test/{file}.test.mjs:{line}:28\n     11|   check();\n       |   ^\n\n⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[{number}/{failed}]⎯\n"
            );
        }
        add_line!(
            log,
            "\n Test Files  1 failed | 1 passed (2)\n      Tests  {failed} failed | {passed} passed | 1 skipped (99)\n   Start at  06:08:23\n   Duration  348ms"
        );
        log
    }

    fn mocha_log(planted: &[Planted], noise: &[String], passed: u64) -> String {
        let mut log = format!("\n\n  shop\n    ✔ opens\n{}", lines(noise));
        for (index, Planted { name, .. }) in planted.iter().enumerate() {
            add_line!(log, "    {}) {name}", index + 1);
        }
        let failed = planted.len();
        add_line!(log, "\n\n  {passed} passing (61ms)\n  2 pending\n  {failed} failing\n");
        for (index, Planted { file, name, line, message }) in planted.iter().enumerate() {
            add_line!(
                log,
                "  {}) shop\n       {name}:\n     RangeError: {message}\n      at Shop.check (src/{file}.js:4:26)\n      at Context.<anonymous> (test/{file}.test.js:{line}:18)\n      at process.processImmediate (node:internal/timers:484:21)\n",
                index + 1
            );
        }
        log
    }

    fn playwright_log(planted: &[Planted], noise: &[String], passed: u64) -> String {
        let failed = planted.len();
        let mut log = format!("\nRunning {failed} tests using 2 workers\n\n{}\n", lines(noise));
        for (index, Planted { file, name, line, message }) in planted.iter().enumerate() {
            add_line!(
                log,
                "  {}) [chromium] › tests/{file}.spec.ts:1:5 › shop › {name} ─────────────────\n\n    RangeError: {message}\n\n      2 |\n    > 3 |   throw new RangeError();\n        |         ^\n        at check (/srv/app/src/{file}.ts:4:9)\n        at /srv/app/tests/{file}.spec.ts:{line}:3\n\n    Error Context: test-results/{name}/error-context.md\n",
                index + 1
            );
        }
        add_line!(log, "  {failed} failed");
        for Planted { file, name, .. } in planted {
            add_line!(
                log,
                "    [chromium] › tests/{file}.spec.ts:1:5 › shop › {name} ─────────────────"
            );
        }
        add_line!(log, "  1 skipped\n  {passed} passed (26.6s)");
        log
    }

    /// The log of a checker: a line for each error, and its closing lines.
    fn checker_log(planted: &[Planted], line: impl Fn(&Planted) -> String, end: &str) -> String {
        let body: String = planted.iter().map(|failure| line(failure) + "\n").collect();
        format!("{body}{end}\n")
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn pytest_failures_are_found(
            planted in planted(), noise in noise(), passed in 0_u64..500, is_short: bool,
        ) {
            let log = pytest_log(&planted, &noise, passed, is_short);
            let name = |failure: &Planted| Some(format!("test_{}", failure.name));
            let place = |file: &str| format!("tests/test_{file}.py");
            let expected = facts(&planted, place, name, |text| format!("ValueError: {text}"));
            check(&log, "pytest", expected, total(&planted, passed))?;
        }

        #[test]
        fn unittest_failures_are_found(planted in planted(), noise in noise()) {
            let name = |failure: &Planted| Some(format!("ShopTest.test_{}", failure.name));
            let place = |file: &str| format!("/srv/app/tests/test_{file}.py");
            let expected = facts(&planted, place, name, str::to_owned);
            let counts = (Some(planted.len() as u64), None);
            check(&unittest_log(&planted, &noise), "unittest", expected, counts)?;
        }

        #[test]
        fn node_failures_are_found(planted in planted(), noise in noise(), passed in 0_u64..500) {
            let place = |file: &str| format!("test/{file}.test.js");
            let expected = facts(&planted, place, own_name, |text| format!("Error: {text}"));
            let counts = total(&planted, passed);
            check(&node_spec_log(&planted, &noise, passed), "node test", expected, counts)?;
            let place = |file: &str| format!("/srv/app/test/{file}.test.js");
            let expected = facts(&planted, place, own_name, str::to_owned);
            check(&node_tap_log(&planted, &noise, passed), "TAP", expected, counts)?;
        }

        #[test]
        fn jest_failures_are_found(planted in planted(), noise in noise(), passed in 0_u64..500) {
            // Jest prints no count of zero.
            let passed = passed + 1;
            let name = |failure: &Planted| Some(format!("shop › {}", failure.name));
            let place = |file: &str| format!("test/{file}.test.js");
            let expected = facts(&planted, place, name, |text| format!("RangeError: {text}"));
            check(&jest_log(&planted, &noise, passed), "jest", expected, total(&planted, passed))?;
        }

        #[test]
        fn vitest_failures_are_found(planted in planted(), noise in noise(), passed in 1_u64..500) {
            let name = |failure: &Planted| Some(format!("shop > {}", failure.name));
            let place = |file: &str| format!("test/{file}.test.mjs");
            let expected = facts(&planted, place, name, str::to_owned);
            check(&vitest_log(&planted, &noise, passed), "vitest", expected, total(&planted, passed))?;
        }

        #[test]
        fn mocha_failures_are_found(planted in planted(), noise in noise(), passed in 0_u64..500) {
            let place = |file: &str| format!("test/{file}.test.js");
            let expected = facts(&planted, place, own_name, |text| format!("RangeError: {text}"));
            check(&mocha_log(&planted, &noise, passed), "mocha", expected, total(&planted, passed))?;
        }

        #[test]
        fn playwright_failures_are_found(
            planted in planted(), noise in noise(), passed in 0_u64..500,
        ) {
            let name = |failure: &Planted| Some(format!("[chromium] › shop › {}", failure.name));
            let place = |file: &str| format!("tests/{file}.spec.ts");
            let expected = facts(&planted, place, name, |text| format!("RangeError: {text}"));
            let log = playwright_log(&planted, &noise, passed);
            check(&log, "playwright", expected, total(&planted, passed))?;
        }

        #[test]
        fn errors_of_checkers_are_found(planted in planted()) {
            let count = planted.len();
            let none = |_: &Planted| None;
            let python = |file: &str| format!("shop/{file}.py");
            let script = |file: &str| format!("/srv/app/{file}.ts");
            let line = |it: &Planted| format!("F401 [*] {}\n  --> shop/{}.py:{}:8\n   |\n 1 | import os\n   | ^^\n", it.message, it.file, it.line);
            let log = checker_log(&planted, line, &format!("Found {count} errors."));
            check(&log, "ruff", facts(&planted, python, none, |text| format!("F401 {text}")), (None, None))?;
            let line = |it: &Planted| format!("shop/{}.py:{}: error: {}  [misc]", it.file, it.line, it.message);
            let log = checker_log(&planted, line, &format!("Found {count} errors in 1 file (checked 3 source files)"));
            check(&log, "mypy", facts(&planted, python, none, |text| format!("{text} [misc]")), (None, None))?;
            let line = |it: &Planted| format!("shop/{}.py:{}:0: E0401: {} (import-error)", it.file, it.line, it.message);
            let log = checker_log(&planted, line, "Your code has been rated at 0.00/10");
            check(&log, "pylint", facts(&planted, python, none, |text| format!("E0401: {text} (import-error)")), (None, None))?;
            let line = |it: &Planted| format!("/srv/app/{}.ts\n  {}:3  error  {}  no-undef\n", it.file, it.line, it.message);
            let log = checker_log(&planted, line, &format!("✖ {count} problems ({count} errors, 0 warnings)"));
            check(&log, "eslint", facts(&planted, script, none, |text| format!("{text} (no-undef)")), (None, None))?;
            let line = |it: &Planted| format!("/srv/app/{}.ts({},7): error TS2322: {}.", it.file, it.line, it.message);
            let log = checker_log(&planted, line, "");
            check(&log, "tsc", facts(&planted, script, none, |text| format!("TS2322: {text}")), (None, None))?;
        }
    }
}
