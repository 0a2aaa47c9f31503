//! Generated logs of Java, Ruby, PHP, image and infrastructure tools: every planted failure is
//! found, and no other is claimed.

use std::collections::BTreeMap;

use proptest::prelude::*;
use shellyard_summary::{Failure, Summarizer, Summary};

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

fn word() -> impl Strategy<Value = String> {
    "[a-z]{3,9}"
}

fn class() -> impl Strategy<Value = String> {
    "[A-Z][a-z]{3,8}"
}

/// Words that no format takes for something else.
fn message() -> impl Strategy<Value = String> {
    proptest::collection::vec("[a-z]{2,8}", 2..6).prop_map(|words| words.join(" "))
}

fn planted() -> impl Strategy<Value = Vec<PlantedFailure>> {
    let one = (class(), word(), 1_u64..5000, message());
    proptest::collection::btree_map(word(), one, 1..12).prop_map(|failures| {
        let numbered = failures.into_iter().enumerate();
        let planted = numbered.map(|(index, (name, (unit, test, line, message)))| PlantedFailure {
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

fn summarize(log: &str) -> Summary {
    let mut summarizer = Summarizer::new();
    for (index, line) in log.lines().enumerate() {
        summarizer.read(index as u64 + 1, line);
    }
    summarizer.summary()
}

/// The place, name and message of a failure, as an expected failure is written.
type FoundFailure = (Option<String>, Option<u64>, Option<String>, Option<String>);

fn fact(failure: &Failure) -> FoundFailure {
    (failure.file.clone(), failure.line, failure.name.clone(), failure.message.clone())
}

/// Checks that one tool reports exactly the expected failures and nothing else failed.
fn check_tool(log: &str, tool: &str, expected: Vec<FoundFailure>) -> Result<(), TestCaseError> {
    let summary = summarize(log);
    let mut found: Vec<FoundFailure> = Vec::new();
    for report in &summary.tools {
        prop_assert!(report.is_consistent, "{report:?}\n{log}");
        prop_assert!(report.failures.is_empty() || report.tool == tool, "{report:?}\n{log}");
        found.extend(report.failures.iter().map(fact));
    }
    let mut expected = expected;
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
    let failed =
        format!("process \"/bin/sh -c make {name}\" did not complete successfully: exit code: 2");
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
