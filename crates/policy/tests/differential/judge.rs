//! The decision of the policy on a script, and its comparison with the programs that ran.

use std::collections::BTreeSet;
use std::path::Path;

use shellyard_policy::command::{Shell, base_name};
use shellyard_policy::extract::extract;
use shellyard_policy::rules::patterns;
use shellyard_policy::{Call, Decision, Opinion, Policy, Refusal, Request, explain};

use crate::jail::{Jail, OPAQUE};
use crate::trace::Exec;

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
pub(crate) enum Answer {
    /// It may run; the programs that the decision names, as written.
    Allowed(BTreeSet<String>),
    /// It may not run, with the refusal.
    Refused(Refusal),
}

/// An allow list of every program in the jail.
pub(crate) fn list_everything(jail: &Jail) -> Policy {
    let mut names = jail.programs();
    names.extend(LISTED.map(str::to_owned));
    allow_only(names.iter().map(String::as_str))
}

/// An allow list of these programs.
pub(crate) fn allow_only<'n>(names: impl Iterator<Item = &'n str>) -> Policy {
    Policy { allow: Some(patterns("policy.allow", names).unwrap()), ..Policy::default() }
}

/// Asks the policy. This is the only place that knows how a decision names its programs.
pub(crate) fn ask(policy: &Policy, cwd: &Path, script: &str) -> Answer {
    let explanation = explain(policy, &request(cwd, script));
    match explanation.decision {
        Decision::Allow => {
            let is_listed = |opinion: &Opinion| matches!(opinion, Opinion::Allowed(_));
            let listed = explanation.findings.into_iter().filter(|it| is_listed(&it.opinion));
            Answer::Allowed(listed.map(|finding| finding.program).collect())
        }
        Decision::Deny(refusal) => Answer::Refused(refusal),
        Decision::Ask { .. } | Decision::Confine { .. } => {
            panic!("no rule or setting asks for this: {script:?}")
        }
    }
}

/// A request to run a text in this directory.
pub(crate) fn request<'r>(cwd: &'r Path, script: &'r str) -> Request<'r> {
    Request {
        call: Call::Shell(script),
        environment: &[],
        cwd: cwd.to_str().unwrap(),
        writable: &[],
        tenant: "local",
        lane: "default",
        shell: None,
    }
}

/// The programs that the wide reader finds; `None` if it is uncertain.
pub(crate) fn find_widely(script: &str, shell: Shell) -> Option<BTreeSet<String>> {
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
