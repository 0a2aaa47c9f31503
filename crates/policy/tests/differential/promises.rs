//! The promises that generated scripts and recorded lines are held to: what ran is compared with what
//! was said beforehand.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shellyard_policy::command::{ShellSyntax, base_name};
use shellyard_policy::extract::extract;
use shellyard_policy::rules::parse_patterns;
use shellyard_policy::{
    AllowCheck, Policy, PolicyDecision, PolicyRefusal, PolicyRequest, RequestedCommand,
    RuleOutcome, decide, explain,
};

use crate::jail::{Jail, JailRun, OPAQUE, Worker, announce, run, share, sum, texts};
use crate::script::{Family, Mix, grammar_script, script};
use crate::trace::Exec;

/// The share of scripts, in percent, that may be refused although bash runs them without an error.
const MAX_REFUSED: u64 = 15;
/// The POSIX shell runs this part of the scripts.
const POSIX_PART: u64 = 5;

#[test]
fn an_allowed_script_runs_only_what_the_decision_named() {
    let test = "promises::an_allowed_script_runs_only_what_the_decision_named";
    let work = |worker: &_| check_decisions(worker, Mix::Usual);
    let Some(reports) = share(test, work) else { return };
    let count = |name: &str| sum(&reports, name);
    let (all, clean) = (count("allowed") + count("refused"), count("clean"));
    let refused = count("clean_refused");
    hold_decisions(&reports);
    assert!(clean * 4 > all * 3, "too few scripts run without an error: {clean} of {all}");
    assert!(count("ran") * 2 > all, "too few allowed scripts start a program");
    assert!(refused * 100 <= clean * MAX_REFUSED, "{refused} of {clean} are refused");
}

#[test]
fn an_allowed_script_of_odd_constructs_runs_only_what_the_decision_named() {
    let test = "promises::an_allowed_script_of_odd_constructs_runs_only_what_the_decision_named";
    let work = |worker: &_| check_decisions(worker, Mix::Hostile);
    let Some(reports) = share(test, work) else { return };
    hold_decisions(&reports);
    assert!(sum(&reports, "ran") > 0, "no allowed script started a program");
}

fn hold_decisions(reports: &[Value]) {
    let count = |name: &str| sum(reports, name);
    announce(&format!(
        "{} allowed, {} refused; {} ran without an error, of these {} refused, by family {:?}; \
         {} cut short",
        count("allowed"),
        count("refused"),
        count("clean"),
        count("clean_refused"),
        family_counts(reports),
        count("cut_short"),
    ));
    println!("refused although bash runs them without an error:\n{}", show_reasons(reports));
    hold_sound(reports);
}

#[test]
fn every_program_that_bash_runs_was_found_or_the_text_was_uncertain() {
    let test = "promises::every_program_that_bash_runs_was_found_or_the_text_was_uncertain";
    let work = |worker: &_| check_reader(worker, ShellSyntax::Bash, 1);
    let Some(reports) = share(test, work) else { return };
    hold_reader(&reports);
    let count = |name: &str| sum(&reports, name);
    assert!(count("allowed") * 4 > count("refused"), "too few scripts test the reader");
    assert!(count("ran") * 4 > count("allowed"), "too few scripts start a program");
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
    let (certain, uncertain) = (sum(reports, "allowed"), sum(reports, "refused"));
    announce(&format!("{certain} certain, {uncertain} uncertain"));
    hold_sound(reports);
}

fn hold_sound(reports: &[Value]) {
    let unsound = texts(reports, "unsound");
    assert!(unsound.is_empty(), "{} unsound:\n{unsound}", unsound.lines().count());
}

/// Clean and refused scripts of each family.
fn family_counts(reports: &[Value]) -> BTreeMap<&str, (u64, u64)> {
    let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (name, family) in reports.iter().filter_map(|it| it["families"].as_object()).flatten() {
        let count = counts.entry(name).or_default();
        count.0 += family["clean"].as_u64().unwrap_or_default();
        count.1 += family["refused"].as_u64().unwrap_or_default();
    }
    counts
}

/// The reasons of refusals with an example of each, the most frequent first.
fn show_reasons(reports: &[Value]) -> String {
    let mut reasons: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    for (reason, found) in reports.iter().filter_map(|it| it["reasons"].as_object()).flatten() {
        let entry = reasons.entry(reason).or_default();
        entry.0 += found[0].as_u64().unwrap_or_default();
        entry.1 = found[1].as_str().unwrap_or_default();
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, (count, _))| Reverse(*count));
    let lines = reasons.iter().map(|(reason, (count, text))| format!("{count} {reason}: {text:?}"));
    lines.collect::<Vec<_>>().join("\n")
}

const CASES: &str = include_str!("../../../../tests/policy_cases.jsonl");
const ATTACKS: &str = include_str!("../../../../tests/policy_attacks.jsonl");
const EVERYDAY: &str = include_str!("../../../../tests/policy_everyday.jsonl");
/// Scripts that started a program past an allow list once, one JSON string in each line.
const REGRESSIONS: &str = include_str!("regressions.jsonl");

/// One recorded decision.
#[derive(Debug)]
struct CorpusCase {
    command: String,
    /// Runs before the command, outside the policy.
    set_up: String,
    policy: Policy,
    expected: String,
}

impl CorpusCase {
    fn parse(line: &str) -> Self {
        let value: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let list = |name: &str| -> Vec<String> {
            let names = value[name].as_array().into_iter().flatten();
            names.map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        let (allow, deny) = (list("allow"), list("deny"));
        let rules = |place: &str, names: &[String]| {
            parse_patterns(place, names.iter().map(String::as_str)).unwrap()
        };
        let policy = Policy {
            allow: (!allow.is_empty()).then(|| rules("policy.allow", &allow)),
            deny: rules("policy.deny", &deny),
            ..Policy::default()
        };
        Self { command: text("command"), set_up: text("setup"), policy, expected: text("expected") }
    }
}

fn cases(text: &str) -> impl Iterator<Item = CorpusCase> {
    text.lines().map(CorpusCase::parse)
}

/// Checks every line of a file; the names of those that differ are shown together.
#[track_caller]
fn check_lines(text: &str, count: usize) {
    let decided =
        |case: &CorpusCase| decide(&case.policy, &request(Path::new("/srv"), &case.command));
    let is_right = |case: &CorpusCase| match decided(case) {
        PolicyDecision::Allow => case.expected == "allow",
        PolicyDecision::Ask { .. } => case.expected == "ask",
        PolicyDecision::Confine { .. } => case.expected == "confine",
        PolicyDecision::Deny(_) => case.expected == "deny",
    };
    let show = |case: CorpusCase| format!("{:?}: {:?}", case.command, decided(&case));
    let wrong: Vec<String> = cases(text).filter(|case| !is_right(case)).map(show).collect();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(cases(text).count(), count);
}

#[test]
fn recorded_decisions_hold() {
    check_lines(CASES, 189);
}

#[test]
fn recorded_attacks_are_refused() {
    check_lines(ATTACKS, 17);
}

#[test]
fn everyday_lines_are_allowed() {
    check_lines(EVERYDAY, 36);
}

/// The attacks are real: each starts a program that it should not. The tracer sees it, and the
/// decision on the same line refused it.
#[test]
fn recorded_attacks_run_what_they_claim_and_are_caught() {
    let test = "promises::recorded_attacks_run_what_they_claim_and_are_caught";
    let work = |worker: &Worker| {
        let attacks = cases(ATTACKS).filter(|case| has_program(&worker.jail, &case.command));
        json!({ "faults": attacks.flat_map(|case| run_attack(&worker.jail, &case)).collect::<Vec<_>>() })
    };
    let Some(reports) = run(test, 1, work) else { return };
    let faults = texts(&reports, "faults");
    assert!(faults.is_empty(), "{faults}");
}

/// Some machines do not have the tool of an attack; that is said, not passed over.
fn has_program(jail: &Jail, command: &str) -> bool {
    let needed = ["zip", "sqlite3"].into_iter().find(|name| command.starts_with(name));
    let missing = needed.filter(|name| !jail.has(name));
    if let Some(name) = missing {
        announce(&format!(
            "NOT RUN, {name} is missing (Debian: apt-get install {name}): {command}"
        ));
    }
    missing.is_none()
}

fn run_attack(jail: &Jail, case: &CorpusCase) -> Vec<String> {
    let run = jail.run_to_end(&case.set_up, &case.command);
    let mut faults = Vec::new();
    if !run.execs.iter().any(|exec| base_name(&exec.path) == "touch") {
        faults.push(format!("{:?} did not run `touch`: {:?}", case.command, run.execs));
    }
    if let ScriptDecision::Allowed(names) = ask(&case.policy, &jail.cwd(), &case.command) {
        let unnamed = unnamed(jail, &run.execs, &names);
        faults.push(format!("{:?} is allowed and ran {unnamed:?} unnamed", case.command));
    }
    faults
}

#[test]
fn scripts_that_were_unsound_once_are_sound() {
    let test = "promises::scripts_that_were_unsound_once_are_sound";
    let work = |worker: &Worker| {
        let policy = list_everything(&worker.jail);
        let fault = |line: &str| {
            let script: String = serde_json::from_str(line).unwrap();
            let unnamed = run_unnamed(&worker.jail, &policy, &script);
            (!unnamed.is_empty()).then(|| format!("{script:?} ran {unnamed:?} unnamed"))
        };
        json!({ "faults": REGRESSIONS.lines().filter_map(fault).collect::<Vec<_>>() })
    };
    let Some(reports) = run(test, 1, work) else { return };
    let faults = texts(&reports, "faults");
    assert!(faults.is_empty(), "{faults}");
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
/// Counts of one worker.
#[derive(Debug, Default)]
struct Tally {
    allowed: u64,
    refused: u64,
    /// Scripts that ran without an error, and those of them that were refused.
    clean: u64,
    clean_refused: u64,
    /// Allowed scripts that started a program.
    ran: u64,
    cut_short: u64,
    /// Clean scripts of each family, and those of them that were refused.
    families: BTreeMap<&'static str, (u64, u64)>,
    unsound: Vec<String>,
    /// The reasons why clean scripts were refused: how often, and one such script.
    reasons: BTreeMap<String, (u64, String)>,
}

impl Tally {
    fn report(&self) -> Value {
        let families = self.families.iter().map(|(name, (clean, refused))| {
            ((*name).to_owned(), json!({"clean": clean, "refused": refused}))
        });
        json!({
            "allowed": self.allowed, "refused": self.refused, "clean": self.clean,
            "clean_refused": self.clean_refused, "ran": self.ran, "cut_short": self.cut_short,
            "unsound": self.unsound,
            "families": families.collect::<serde_json::Map<_, _>>(),
            "reasons": self.reasons,
        })
    }

    fn add(&mut self, family: Family, text: &str, answer: &ScriptDecision, run: &JailRun) {
        self.cut_short += u64::from(run.cut_short);
        self.clean += u64::from(run.clean);
        let counts = self.families.entry(family.name()).or_default();
        counts.0 += u64::from(run.clean);
        match answer {
            ScriptDecision::Allowed(_) => {
                self.allowed += 1;
                self.ran += u64::from(!run.execs.is_empty());
            }
            ScriptDecision::Refused(refusal) => {
                self.refused += 1;
                self.clean_refused += u64::from(run.clean);
                counts.1 += u64::from(run.clean);
                if run.clean {
                    let reason = format!("{}: {refusal}", family.name());
                    self.reasons.entry(reason).or_insert_with(|| (0, text.to_owned())).0 += 1;
                }
            }
        }
    }

    /// Notes a script that ran something unnamed, in its shortest form.
    fn note(&mut self, label: &str, text: &str, jail: &Jail, fault: impl Fn(&str) -> Faults) {
        let mut missed = fault(text);
        // A shell that a tool starts on the way is less telling than the program at its end.
        if missed.len() > 1 {
            missed.remove("/bin/sh");
        }
        let is_same = |text: &str| !fault(text).is_disjoint(&missed);
        let short =
            if self.unsound.len() < MAX_REDUCED { reduce(text, is_same) } else { text.into() };
        let missed: Vec<&str> = missed.iter().map(|path| strip_bin(jail, path)).collect();
        self.unsound.push(format!("{label}: ran {missed:?} in {short:?}, from {text:?}"));
    }
}

fn strip_bin<'p>(jail: &Jail, path: &'p str) -> &'p str {
    path.strip_prefix(&format!("{}/", jail.bin().display())).unwrap_or(path)
}

/// Programs that ran unnamed.
type Faults = BTreeSet<String>;

/// Checks decisions beside an allow list that holds every program of the jail.
fn check_decisions(worker: &Worker, mix: Mix) -> Value {
    let (jail, policy) = (&worker.jail, list_everything(&worker.jail));
    let mut tally = Tally::default();
    for index in worker.part(worker.settings.scripts) {
        let (family, text) = script(mix, worker.settings.seed, index);
        let answer = timed(&text, || ask(&policy, &jail.cwd(), &text));
        let run = jail.run(ShellSyntax::Bash, &text);
        tally.add(family, &text, &answer, &run);
        if let ScriptDecision::Allowed(names) = &answer
            && !unnamed(jail, &run.execs, names).is_empty()
        {
            let label = format!("#{index} {}", family.name());
            tally.note(&label, &text, jail, |text| run_unnamed(jail, &policy, text));
        }
    }
    tally.report()
}

/// The programs that an allowed script runs although the decision does not name them.
fn run_unnamed(jail: &Jail, policy: &Policy, text: &str) -> BTreeSet<String> {
    match ask(policy, &jail.cwd(), text) {
        ScriptDecision::Allowed(names) => {
            unnamed(jail, &jail.run(ShellSyntax::Bash, text).execs, &names)
        }
        ScriptDecision::Refused(_) => BTreeSet::new(),
    }
}

/// Checks that the wide reader finds what runs. Scripts that it is uncertain of are not run.
fn check_reader(worker: &Worker, shell: ShellSyntax, part: u64) -> Value {
    let jail = &worker.jail;
    let mut tally = Tally::default();
    let missed = |text: &str| {
        let names = find_widely(text, shell);
        names
            .map_or_else(BTreeSet::new, |names| unnamed(jail, &jail.run(shell, text).execs, &names))
    };
    for index in worker.part(worker.settings.scripts / part) {
        let text = grammar_script(worker.settings.seed, index);
        let Some(names) = timed(&text, || find_widely(&text, shell)) else {
            tally.refused += 1;
            continue;
        };
        let run = jail.run(shell, &text);
        tally.add(Family::Grammar, &text, &ScriptDecision::Allowed(names.clone()), &run);
        if !unnamed(jail, &run.execs, &names).is_empty() {
            tally.note(&format!("#{index}"), &text, jail, missed);
        }
    }
    tally.report()
}

fn timed<T>(text: &str, read: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = read();
    assert!(start.elapsed() < READING, "reading {text:?} took {:?}", start.elapsed());
    result
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

// The decision of the policy on a script, and its comparison with the programs that ran.

/// Builtins and files that the allow list names beside all programs of the jail: as much as
/// possible is let through, so that as much as possible is tested.
const LISTED: [&str; 52] = [
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "builtin",
    "caller",
    "cd",
    "command",
    "compgen",
    "complete",
    "declare",
    "dirs",
    "disown",
    "enable",
    "eval",
    "exec",
    "export",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "mapfile",
    "popd",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "set",
    "shift",
    "shopt",
    "source",
    "test",
    "times",
    "trap",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
    "./run.sh",
    "nosuch",
];

/// The answer to a script beside an allow list.
#[derive(Debug)]
enum ScriptDecision {
    /// The script may run; the programs that the decision names, as written.
    Allowed(BTreeSet<String>),
    /// The script may not run; the refusal.
    Refused(PolicyRefusal),
}

/// An allow list of every program in the jail.
fn list_everything(jail: &Jail) -> Policy {
    let mut names = jail.programs();
    names.extend(LISTED.map(str::to_owned));
    allow_only(names.iter().map(String::as_str))
}

/// An allow list of these programs.
fn allow_only<'n>(names: impl Iterator<Item = &'n str>) -> Policy {
    Policy { allow: Some(parse_patterns("policy.allow", names).unwrap()), ..Policy::default() }
}

/// Asks the policy. This is the only place that knows how a decision names its programs.
fn ask(policy: &Policy, cwd: &Path, script: &str) -> ScriptDecision {
    let explanation = explain(policy, &request(cwd, script));
    match explanation.decision {
        PolicyDecision::Allow => {
            let is_listed = |outcome: &RuleOutcome| matches!(outcome, RuleOutcome::Allowed(_));
            let listed = explanation.commands.into_iter().filter(|it| is_listed(&it.outcome));
            ScriptDecision::Allowed(listed.map(|finding| finding.program).collect())
        }
        PolicyDecision::Deny(refusal) => ScriptDecision::Refused(refusal),
        PolicyDecision::Ask { .. } | PolicyDecision::Confine { .. } => {
            panic!("no rule or setting asks for this: {script:?}")
        }
    }
}

/// A request to run a text in this directory.
fn request<'r>(cwd: &'r Path, script: &'r str) -> PolicyRequest<'r> {
    PolicyRequest {
        command: RequestedCommand::Shell(script),
        environment: &[],
        cwd: cwd.to_str().unwrap(),
        writable: &[],
        tenant: "local",
        lane: "default",
        shell: None,
        allow_check: AllowCheck::ByText,
    }
}

/// The programs that the wide reader finds; `None` if it is uncertain.
fn find_widely(script: &str, shell: ShellSyntax) -> Option<BTreeSet<String>> {
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
