//! A differential fuzz of the extractor against real bash.
//!
//! Scripts come from a grammar and from mutation. Each is run by bash in a jail whose PATH holds
//! marker programs that note their names. What ran must have been found, or the extractor must
//! have said that it was uncertain.
//!
//! `POLICY_FUZZ_SCRIPTS` and `POLICY_FUZZ_SEED` ask for a longer or another run.

mod grammar;
mod jail;
mod mutate;
mod random;
mod words;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use grammar::Grammar;
use jail::{Jail, MARKERS};
use random::Random;
use shellyard::policy::command::{Lookup, Shell, base_name};
use shellyard::policy::extract::extract;

use crate::harness::eventually;

/// Enough for every run; a longer one is asked for by name.
const SCRIPTS: u64 = 5_000;
const SEED: u64 = 0x5eed_0001;
/// Reading a script takes microseconds. This is far beyond any load, and short of exponential.
const READING: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Tally {
    certain: u64,
    uncertain: u64,
    ran: u64,
    timed_out: u64,
}

#[test]
fn what_bash_runs_was_found_or_called_uncertain() {
    let tally = fuzz(Shell::Bash, 1);
    assert!(tally.certain * 4 > tally.uncertain, "too few scripts test the reader: {tally:?}");
    assert!(tally.ran * 4 > tally.certain, "too few scripts ran anything: {tally:?}");
}

#[test]
fn what_a_posix_shell_runs_was_found_or_called_uncertain() {
    let tally = fuzz(Shell::Posix, 5);
    assert!(tally.ran > 0, "no script ran anything: {tally:?}");
}

/// Runs a part of the scripts; what was missed is shown in its shortest form.
fn fuzz(shell: Shell, part: u64) -> Tally {
    let count = setting("POLICY_FUZZ_SCRIPTS", SCRIPTS) / part;
    let seed = setting("POLICY_FUZZ_SEED", SEED);
    let jail = Jail::new();
    let mut tally = Tally::default();
    let mut unsound = Vec::new();
    for index in 0..count {
        let script = script(seed, index);
        if let Some(missed) = check(&jail, shell, &script, &mut tally) {
            let small = reduce(&jail, shell, &script);
            unsound.push(format!("#{index}: ran {missed:?} in {small:?}"));
        }
    }
    println!(
        "{shell:?}: {count} scripts from seed {seed:#x}: {tally:?}, {} unsound",
        unsound.len()
    );
    assert!(unsound.is_empty(), "{}", unsound.join("\n"));
    tally
}

/// A script depends on the seed and its number only, so that each can be had again.
fn script(seed: u64, index: u64) -> String {
    let mut random = Random::new(seed, index);
    let script = Grammar::new(&mut random).script();
    if random.below(3) == 0 { mutate::mutate(&script, &mut random) } else { script }
}

/// A shorter script that shows the same fault: what can be left out is left out.
fn reduce(jail: &Jail, shell: Shell, script: &str) -> String {
    let mut small: Vec<char> = script.chars().collect();
    let mut length = small.len() / 2;
    while length > 0 {
        let mut at = 0;
        while at < small.len() {
            let end = (at + length).min(small.len());
            let shorter: Vec<char> = small.iter().take(at).chain(&small[end..]).copied().collect();
            let text: String = shorter.iter().collect();
            if check(jail, shell, &text, &mut Tally::default()).is_some() {
                small = shorter;
            } else {
                at += length;
            }
        }
        length /= 2;
    }
    small.into_iter().collect()
}

/// What ran and was neither found nor called uncertain.
fn check(jail: &Jail, shell: Shell, script: &str, tally: &mut Tally) -> Option<BTreeSet<String>> {
    let start = Instant::now();
    let found = extract(script, shell, &[]);
    assert!(start.elapsed() < READING, "reading {script:?} took {:?}", start.elapsed());
    if found.uncertain.is_some() {
        tally.uncertain += 1;
        return None;
    }
    tally.certain += 1;
    let names: BTreeSet<String> = found
        .commands
        .iter()
        // A function is let through by its name, so that must never be a program.
        .filter(|command| command.lookup != Lookup::Function)
        .filter_map(|command| command.program.value())
        .map(|program| base_name(program).to_owned())
        .collect();
    let run = jail.run(shell, script);
    tally.timed_out += u64::from(run.timed_out);
    tally.ran += u64::from(!run.programs.is_empty());
    let missed: BTreeSet<String> = run.programs.difference(&names).cloned().collect();
    if missed.is_empty() {
        return None;
    }
    // A straggler of the script before could have noted its name late: once more, where no other
    // has been.
    let missed: BTreeSet<String> =
        Jail::new().run(shell, script).programs.difference(&names).cloned().collect();
    (!missed.is_empty()).then_some(missed)
}

fn setting(name: &str, otherwise: u64) -> u64 {
    option_env(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[expect(clippy::disallowed_methods, reason = "a test's own settings are not the product's")]
fn option_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[test]
fn the_jail_notices_what_runs() {
    let jail = Jail::new();
    let script = format!("{} | {}; nosuch", MARKERS[0], MARKERS[1]);
    let expected: BTreeSet<String> = MARKERS.iter().take(2).map(|it| (*it).to_owned()).collect();
    // A script has a moment only, in which it may not get its turn.
    eventually("both are noticed", || jail.run(Shell::Bash, &script).programs == expected);
}
