//! Runs generated scripts and compares what ran with what was said beforehand.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shellyard_policy::Policy;
use shellyard_policy::command::Shell;

use crate::generate::{Family, Mix, grammar_script, script};
use crate::jail::{Jail, Run};
use crate::judge::{Answer, ask, find_widely, list_everything, unnamed};
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
    /// Why clean scripts were refused: how often, and one of them.
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

    fn add(&mut self, family: Family, text: &str, answer: &Answer, run: &Run) {
        self.cut_short += u64::from(run.cut_short);
        self.clean += u64::from(run.clean);
        let counts = self.families.entry(family.name()).or_default();
        counts.0 += u64::from(run.clean);
        match answer {
            Answer::Allowed(_) => {
                self.allowed += 1;
                self.ran += u64::from(!run.execs.is_empty());
            }
            Answer::Refused(refusal) => {
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
        let run = jail.run(Shell::Bash, &text);
        tally.add(family, &text, &answer, &run);
        if let Answer::Allowed(names) = &answer
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
        Answer::Allowed(names) => unnamed(jail, &jail.run(Shell::Bash, text).execs, &names),
        Answer::Refused(_) => BTreeSet::new(),
    }
}

/// Checks that the wide reader finds what runs. Scripts that it is uncertain of are not run.
pub(crate) fn check_reader(worker: &Worker, shell: Shell, part: u64) -> Value {
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
        tally.add(Family::Grammar, &text, &Answer::Allowed(names.clone()), &run);
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
