//! Runs generated scripts and compares what ran with what was said beforehand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shellyard_policy::command::{ShellSyntax, base_name};
use shellyard_policy::extract::extract;
use shellyard_policy::rules::parse_patterns;
use shellyard_policy::{
    Policy, PolicyDecision, PolicyRefusal, PolicyRequest, RequestedCommand, RuleOutcome, explain,
};

use crate::generate::{Family, Mix, grammar_script, script};
use crate::jail::{Jail, JailRun, OPAQUE};
use crate::trace::Exec;
use crate::workers::Worker;

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
pub(crate) fn check_decisions(worker: &Worker, mix: Mix) -> Value {
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
pub(crate) fn run_unnamed(jail: &Jail, policy: &Policy, text: &str) -> BTreeSet<String> {
    match ask(policy, &jail.cwd(), text) {
        ScriptDecision::Allowed(names) => {
            unnamed(jail, &jail.run(ShellSyntax::Bash, text).execs, &names)
        }
        ScriptDecision::Refused(_) => BTreeSet::new(),
    }
}

/// Checks that the wide reader finds what runs. Scripts that it is uncertain of are not run.
pub(crate) fn check_reader(worker: &Worker, shell: ShellSyntax, part: u64) -> Value {
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
pub(crate) enum ScriptDecision {
    /// The script may run; the programs that the decision names, as written.
    Allowed(BTreeSet<String>),
    /// The script may not run; the refusal.
    Refused(PolicyRefusal),
}

/// An allow list of every program in the jail.
pub(crate) fn list_everything(jail: &Jail) -> Policy {
    let mut names = jail.programs();
    names.extend(LISTED.map(str::to_owned));
    allow_only(names.iter().map(String::as_str))
}

/// An allow list of these programs.
pub(crate) fn allow_only<'n>(names: impl Iterator<Item = &'n str>) -> Policy {
    Policy { allow: Some(parse_patterns("policy.allow", names).unwrap()), ..Policy::default() }
}

/// Asks the policy. This is the only place that knows how a decision names its programs.
pub(crate) fn ask(policy: &Policy, cwd: &Path, script: &str) -> ScriptDecision {
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
pub(crate) fn request<'r>(cwd: &'r Path, script: &'r str) -> PolicyRequest<'r> {
    PolicyRequest {
        command: RequestedCommand::Shell(script),
        environment: &[],
        cwd: cwd.to_str().unwrap(),
        writable: &[],
        tenant: "local",
        lane: "default",
        shell: None,
    }
}

/// The programs that the wide reader finds; `None` if it is uncertain.
pub(crate) fn find_widely(script: &str, shell: ShellSyntax) -> Option<BTreeSet<String>> {
    let found = extract(script, shell, &[]);
    if found.uncertain.is_some() {
        return None;
    }
    // A deny rule matches a name whether it is a function's or a program's.
    let names = found.commands.iter().filter_map(|command| command.program.value());
    Some(names.map(str::to_owned).collect())
}

/// The programs that ran although nobody named them.
pub(crate) fn unnamed(jail: &Jail, execs: &[Exec], names: &BTreeSet<String>) -> BTreeSet<String> {
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
