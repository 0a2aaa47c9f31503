//! The promises that generated scripts are held to.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;
use shellyard_policy::command::ShellSyntax;

use crate::check::{check_decisions, check_reader};
use crate::generate::Mix;
use crate::workers::{announce, share, sum, texts};

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
