//! The promise that generated scripts are held to: what ran is compared with what the reader found.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shellyard_policy::command::{ShellSyntax, base_name};
use shellyard_policy::extract::extract;

use crate::jail::{Jail, OPAQUE, Worker, announce, run, share, sum, texts};
use crate::script::grammar_script;
use crate::trace::Exec;

/// The POSIX shell runs this part of the scripts.
const POSIX_PART: u64 = 5;

#[test]
fn every_program_that_bash_runs_was_found_or_the_text_was_uncertain() {
    let test = "promises::every_program_that_bash_runs_was_found_or_the_text_was_uncertain";
    let work = |worker: &_| check_reader(worker, ShellSyntax::Bash, 1);
    let Some(reports) = share(test, work) else { return };
    hold_reader(&reports);
    let count = |name: &str| sum(&reports, name);
    assert!(count("certain") * 4 > count("uncertain"), "too few scripts test the reader");
    assert!(count("ran") * 4 > count("certain"), "too few scripts start a program");
}

#[test]
fn every_program_that_a_posix_shell_runs_was_found_or_the_text_was_uncertain() {
    let test =
        "promises::every_program_that_a_posix_shell_runs_was_found_or_the_text_was_uncertain";
    let work = |worker: &_| check_reader(worker, ShellSyntax::Posix, POSIX_PART);
    let Some(reports) = share(test, work) else { return };
    hold_reader(&reports);
    assert!(sum(&reports, "ran") > 0, "no script started a program");
}

fn hold_reader(reports: &[Value]) {
    let (certain, uncertain) = (sum(reports, "certain"), sum(reports, "uncertain"));
    announce(&format!("{certain} certain, {uncertain} uncertain"));
    let missed = texts(reports, "missed");
    assert!(missed.is_empty(), "{} missed:\n{missed}", missed.lines().count());
}

/// The tracer sees pipes, background commands, wrappers, and real tools that start others.
#[test]
fn the_tracer_records_every_program() {
    let test = "promises::the_tracer_records_every_program";
    let work = |worker: &Worker| {
        let script = "zqa | zqb; (zqc &); env nice zqd; find . -maxdepth 0 -exec zqe \\;; \
                      awk 'BEGIN { system(\"zqf\") }'; nosuch; echo \"$(./run.sh)\"";
        let run = worker.jail.run_to_end("", script);
        let names: BTreeSet<&str> = run.execs.iter().map(|it| base_name(&it.path)).collect();
        json!({ "names": names, "clean": run.clean })
    };
    let Some(reports) = run(test, 1, work) else { return };
    let expected = [
        "awk", "env", "find", "nice", "run.sh", "sh", "zqa", "zqb", "zqc", "zqd", "zqe", "zqf",
        "zqopaque",
    ];
    assert_eq!(reports, [json!({ "names": expected, "clean": false })]);
}

/// Nothing outlives a script, and nothing outside its directory is written.
#[test]
fn the_jail_holds_scripts() {
    let test = "promises::the_jail_holds_scripts";
    let work = |worker: &Worker| {
        let run = |script: &str| worker.jail.run(ShellSyntax::Bash, script);
        json!({
            "harmless": worker.jail.run_to_end("", "echo x > inside; sleep 0.1 & wait").clean,
            "endless": run("setsid sleep 60 & sleep 60").cut_short,
            "bomb": run("while :; do zqa & done").cut_short,
            "outside": worker.is_isolated && run("echo x > ../../outside").clean,
        })
    };
    let Some(reports) = run(test, 1, work) else { return };
    let expected = json!({ "harmless": true, "endless": true, "bomb": true, "outside": false });
    assert_eq!(reports, [expected]);
}

/// Reading a script takes microseconds. This is far beyond any load, and short of exponential.
const READING: Duration = Duration::from_secs(10);
/// Faults that are shown in their shortest form; reducing each takes hundreds of runs.
const MAX_REDUCED: usize = 20;

/// Checks that the reader finds what runs. Scripts that it is uncertain of are not run.
fn check_reader(worker: &Worker, shell: ShellSyntax, part: u64) -> Value {
    let jail = &worker.jail;
    let (mut certain, mut uncertain, mut ran, mut missed) = (0, 0, 0, Vec::new());
    let find_missed = |text: &str| {
        let names = find_programs(text, shell);
        names
            .map_or_else(BTreeSet::new, |names| unnamed(jail, &jail.run(shell, text).execs, &names))
    };
    for index in worker.part(worker.settings.scripts / part) {
        let text = grammar_script(worker.settings.seed, index);
        let start = Instant::now();
        let names = find_programs(&text, shell);
        assert!(start.elapsed() < READING, "reading {text:?} took {:?}", start.elapsed());
        let Some(names) = names else {
            uncertain += 1;
            continue;
        };
        let run = jail.run(shell, &text);
        certain += 1;
        ran += u64::from(!run.execs.is_empty());
        let programs = unnamed(jail, &run.execs, &names);
        if !programs.is_empty() {
            let is_same = |text: &str| !find_missed(text).is_disjoint(&programs);
            let short =
                if missed.len() < MAX_REDUCED { reduce(&text, is_same) } else { text.clone() };
            missed.push(format!("#{index}: ran {programs:?} in {short:?}, from {text:?}"));
        }
    }
    json!({ "certain": certain, "uncertain": uncertain, "ran": ran, "missed": missed })
}

/// A shorter script that shows the same fault: what can be left out is left out.
fn reduce(script: &str, is_faulty: impl Fn(&str) -> bool) -> String {
    let mut small: Vec<char> = script.chars().collect();
    let mut length = small.len() / 2;
    while length > 0 {
        let mut at = 0;
        while at < small.len() {
            let end = (at + length).min(small.len());
            let shorter: Vec<char> = small.iter().take(at).chain(&small[end..]).copied().collect();
            if is_faulty(&shorter.iter().collect::<String>()) {
                small = shorter;
            } else {
                at += length;
            }
        }
        length /= 2;
    }
    small.into_iter().collect()
}

/// The programs that the reader finds; `None` if it is uncertain.
fn find_programs(script: &str, shell: ShellSyntax) -> Option<BTreeSet<String>> {
    let found = extract(script, shell, &[]);
    if found.uncertain.is_some() {
        return None;
    }
    // A deny rule matches a name whether it is a function's or a program's.
    let names = found.commands.iter().filter_map(|command| command.program.value());
    Some(names.map(str::to_owned).collect())
}

/// The programs that ran although nobody named them.
fn unnamed(jail: &Jail, execs: &[Exec], names: &BTreeSet<String>) -> BTreeSet<String> {
    let mut unnamed = BTreeSet::new();
    // The program on whose behalf each one runs: a helper stands for the program that needs it.
    let mut masters: Vec<&str> = Vec::new();
    for exec in execs {
        let master = exec.starter.map_or("", |index| masters[index]);
        let starter = exec.starter.map(|index| &execs[index]);
        if starter.is_some_and(|starter| is_own_helper(jail, master, starter, exec)) {
            masters.push(master);
            continue;
        }
        masters.push(base_name(&exec.path));
        if !is_named(jail, &exec.path, names) {
            unnamed.insert(exec.path.clone());
        }
    }
    unnamed
}

/// A name without a directory means the program on the PATH, or the system's own: `env -i` and
/// `command -p` look there. Any other directory must be named.
fn is_named(jail: &Jail, path: &str, names: &BTreeSet<String>) -> bool {
    let (directory, name) = path.rsplit_once('/').unwrap_or_default();
    let is_known = Path::new(directory) == jail.bin() || ["/bin", "/usr/bin"].contains(&directory);
    names.contains(path) || is_known && (name == OPAQUE || names.contains(name))
}

/// `true` for programs that a tool starts by its design, whatever it is told: git its own parts,
/// tar the compressor that `-z` means.
fn is_own_helper(jail: &Jail, master: &str, starter: &Exec, exec: &Exec) -> bool {
    let part_of_git = |exec: &Exec| {
        let part = exec.path.strip_prefix(jail.git_programs());
        part.is_some_and(|part| part.starts_with("/git") && !part[1..].contains('/'))
    };
    let argv: Vec<&str> = exec.argv.iter().map(String::as_str).collect();
    match (master, argv.as_slice()) {
        ("tar", ["gzip"] | ["gzip", "-d"] | ["/bin/sh", "-c", "gzip" | "gzip -d"]) => true,
        ("git", ["/bin/sh", "-c", text, ..]) => {
            let path = text.strip_prefix("git-upload-pack '").and_then(|it| it.strip_suffix('\''));
            path.is_some_and(|path| !path.contains('\''))
        }
        // Some parts of git are shell scripts, which use these.
        ("git", ["basename" | "sed" | "uname", ..]) if starter.argv[0] == "/bin/sh" => {
            part_of_git(starter)
        }
        ("git", _) => part_of_git(exec),
        _ => false,
    }
}
