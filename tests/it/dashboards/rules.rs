//! The rule files of Prometheus, read as far as they are written here: a list of rules, each with
//! its keys on lines of their own.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::board;
use super::checks::{self, Known};
use super::promql::{self, Query, Selector};

/// The product of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Makes {
    Alert,
    Record,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) makes: Makes,
    pub(super) name: String,
    pub(super) expr: String,
    /// Everything else of it.
    pub(super) text: String,
}

/// Every rule of both files.
pub(super) fn all() -> Vec<Rule> {
    let files =
        ["recording.yml", "alerts.yml"].map(|file| board::folder().join("rules").join(file));
    files.iter().flat_map(|file| read(&fs::read_to_string(file).expect("a rule file"))).collect()
}

/// The rules of one file.
pub(super) fn read(text: &str) -> Vec<Rule> {
    let code: String =
        text.lines().filter(|line| !is_comment(line)).flat_map(|l| [l, "\n"]).collect();
    let (alert, record) = ("      - alert: ", "      - record: ");
    let starts = code.match_indices("\n      - ").map(|(index, _)| index + 1);
    let starts: Vec<usize> = starts.chain([code.len()]).collect();
    let blocks = starts.windows(2).map(|pair| &code[pair[0]..pair[1]]);
    blocks
        .filter_map(|block| {
            let (head, text) = block.split_once('\n')?;
            let (makes, name) = match (head.strip_prefix(alert), head.strip_prefix(record)) {
                (Some(name), _) => (Makes::Alert, name),
                (None, Some(name)) => (Makes::Record, name),
                (None, None) => return None,
            };
            let (name, text) = (name.to_owned(), text.to_owned());
            Some(Rule { makes, name, expr: expression(&text), text })
        })
        .collect()
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// Returns the text after `expr:`, on its line or indented below.
fn expression(text: &str) -> String {
    let after = text.split_once("        expr:").map_or("", |(_, after)| after);
    let mut lines = after.lines();
    let first = lines.next().unwrap_or_default().trim().trim_start_matches('|');
    let below = lines.take_while(|line| line.starts_with("          "));
    [first].into_iter().chain(below).collect::<Vec<_>>().join("\n")
}

/// Everything that is wrong with the rules.
pub(super) fn violations(
    rules: &[Rule],
    known: &Known,
    runbooks: &BTreeSet<String>,
) -> Vec<String> {
    let recorded: BTreeSet<&str> = of_kind(rules, Makes::Record).map(|rule| &*rule.name).collect();
    let of_rules = rules.iter().flat_map(|rule| {
        let query = promql::read(&rule.expr);
        let wrong = [unknown(&query, known, &recorded), users_own(&query), pages(rule)];
        wrong.into_iter().flatten().map(|why| format!("{}: {why}", rule.name)).collect::<Vec<_>>()
    });
    let alerts: BTreeSet<String> =
        of_kind(rules, Makes::Alert).map(|rule| rule.name.clone()).collect();
    let without = alerts.difference(runbooks).map(|name| format!("{name} has no runbook"));
    let idle = runbooks.difference(&alerts).map(|name| format!("{name}.md is of no alert"));
    of_rules.chain(without).chain(idle).collect()
}

pub(super) fn of_kind(rules: &[Rule], makes: Makes) -> impl Iterator<Item = &Rule> {
    rules.iter().filter(move |rule| rule.makes == makes)
}

/// Metrics that neither the server nor a rule makes.
fn unknown(query: &Query, known: &Known, recorded: &BTreeSet<&str>) -> Vec<String> {
    let nothing = query.selectors.is_empty().then(|| "it reads nothing".to_owned());
    let others = query.selectors.iter().filter(|one| !recorded.contains(&*one.metric));
    let wrong = others.flat_map(|one| checks::selector(one, known));
    nothing.into_iter().chain(wrong).collect()
}

/// Nobody is told of how commands of users end: only failures that are the server's count.
fn users_own(query: &Query) -> Vec<String> {
    let is_ours = |selector: &Selector| {
        let is_server = |label: &str, value: &str| label == "fault" && value == "server";
        selector.matchers.iter().any(|one| one.operator == "=" && is_server(&one.label, &one.value))
    };
    let failures = query.selectors.iter().filter(|one| one.metric == "shellyard_jobs_failed_total");
    let failures = failures.filter(|one| !is_ours(one));
    let outcomes =
        query.selectors.iter().filter(|one| one.matchers.iter().any(|m| m.label == "outcome"));
    failures.chain(outcomes).map(|one| format!("{} counts what users do", one.metric)).collect()
}

/// An alert says how bad it is, what happened, and where its page is.
fn pages(rule: &Rule) -> Vec<String> {
    let wanted = ["severity: ", "summary: ", "description: ", "for: ", "runbook_url: "];
    let is_alert = rule.makes == Makes::Alert;
    let missing = wanted.iter().filter(|key| is_alert && !rule.text.contains(**key));
    let address = (is_alert && !links_to_page(&rule.text, &rule.name))
        .then(|| "its runbook_url is not the absolute address of its page".to_owned());
    missing.map(|key| format!("no `{key}`")).chain(address).collect()
}

/// `true` if a line of the text is the absolute address of this runbook.
pub(super) fn links_to_page(text: &str, name: &str) -> bool {
    let addresses = text.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: "));
    let mut pages = addresses.filter_map(|address| address.strip_suffix(&format!("/{name}.md")));
    pages.any(|base| base.starts_with("https://") || base == "http://127.0.0.1:8000/runbooks")
}

/// The names of the runbooks.
pub(super) fn runbooks() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbooks");
    let files = fs::read_dir(folder).expect("the runbooks").flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().replace(".md", ""));
    names.filter(|name| name != "README").collect()
}
