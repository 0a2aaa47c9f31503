//! Rules for a query, a panel and a dashboard.

use std::collections::{BTreeMap, BTreeSet};

use super::board::{Board, Grid, Panel, Target, Variable};
use super::known::Series;
use super::promql::{self, Matcher, Query, Selector};

/// Everything that a query may read, by name.
pub(super) type Known = BTreeMap<String, Series>;

const COLUMNS: u32 = 24;
/// The variables that every query obeys.
const FILTER: [(&str, &str); 2] = [("job", "$job"), ("instance", "$instance")];
/// Alerts are ours by their names, and must show when no job is left to choose.
const OF_ANY_JOB: &str = "ALERTS";
const VARIABLES: [&str; 3] = ["datasource", "job", "instance"];

/// Everything that is wrong with a dashboard.
pub(super) fn board(name: &str, board: &Board, known: &Known) -> Vec<String> {
    let is_row = |panel: &&Panel| panel.kind == "row";
    let panels = board.panels.iter().filter(|panel| !is_row(panel));
    let of_panels = panels.flat_map(|one| panel(one, known));
    let of_annotations = board.annotations.list.iter().flat_map(|annotation| {
        let query = promql::read(&annotation.expr);
        selectors(&query, known).into_iter().chain(filtered(&query))
    });
    let all = [frame(name, board), overlaps(&board.panels)].into_iter().flatten();
    let all = all.chain(of_panels).chain(of_annotations);
    all.map(|why| format!("{}: {why}", board.title)).collect()
}

/// Checks the parts of a dashboard around its panels.
fn frame(name: &str, board: &Board) -> Vec<String> {
    let variables: BTreeSet<&str> = board.templating.list.iter().map(|one| &*one.name).collect();
    let missing = VARIABLES.iter().filter(|name| !variables.contains(*name));
    let mut wrong: Vec<String> = missing.map(|name| format!("no variable ${name}")).collect();
    if board.uid != name {
        wrong.push(format!("its uid is {}, its file {name}.json", board.uid));
    }
    let is_any_job = |one: &Variable| one.name == "job" && one.all_value.is_some();
    if board.templating.list.iter().any(is_any_job) {
        wrong.push("all jobs are more than those of Shellyard".to_owned());
    }
    if !board.annotations.list.iter().any(|annotation| annotation.name == "Restarts") {
        wrong.push("restarts are not marked".to_owned());
    }
    wrong
}

/// Panels that lie on each other, or leave the grid.
fn overlaps(panels: &[Panel]) -> Vec<String> {
    let outside = panels.iter().filter(|panel| panel.grid_pos.x + panel.grid_pos.w > COLUMNS);
    let outside = outside.map(|panel| format!("\"{}\" leaves the grid", panel.title));
    let pairs = panels.iter().enumerate().flat_map(|(index, one)| {
        let further = panels[index + 1..].iter();
        further.filter(|other| touch(one.grid_pos, other.grid_pos)).map(move |other| (one, other))
    });
    let lying = pairs.map(|(one, other)| format!("\"{}\" lies on \"{}\"", one.title, other.title));
    outside.chain(lying).collect()
}

fn touch(a: Grid, b: Grid) -> bool {
    a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h
}

/// Everything that is wrong with one panel.
fn panel(panel: &Panel, known: &Known) -> Vec<String> {
    let defaults = &panel.field_config.defaults;
    let has = [
        ("title", !panel.title.is_empty()),
        ("description", panel.description.split_whitespace().count() >= 5),
        ("unit", !defaults.unit.is_empty()),
        ("thresholds", !defaults.thresholds.steps.is_empty()),
        ("query", !panel.targets.is_empty()),
    ];
    let missing = has.iter().filter(|(_, is_there)| !is_there);
    let missing = missing.map(|(what, _)| format!("no {what}"));
    let of_targets = panel.targets.iter().flat_map(|one| target(one, known));
    missing.chain(of_targets).map(|why| format!("\"{}\": {why}", panel.title)).collect()
}

/// Everything that is wrong with a query and its legend.
fn target(target: &Target, known: &Known) -> Vec<String> {
    let query = promql::read(&target.expr);
    let legend = promql::labels_of_legend(&target.legend_format);
    let lost = legend.iter().filter(|label| !query.kept.iter().any(|kept| kept == *label));
    let lost = lost.map(|label| format!("its legend shows {label}, which the query does not keep"));
    let wrong = [selectors(&query, known), unknown_kept_labels(&query, known), filtered(&query)];
    wrong.into_iter().flatten().chain(lost).collect()
}

/// Metrics, labels and values that there are not.
fn selectors(query: &Query, known: &Known) -> Vec<String> {
    query.selectors.iter().flat_map(|one| selector(one, known)).collect()
}

/// Returns the parts of this selector that do not exist.
pub(super) fn selector(selector: &Selector, known: &Known) -> Vec<String> {
    let Some(series) = known.get(&selector.metric) else {
        return vec![format!("there is no metric {}", selector.metric)];
    };
    selector
        .matchers
        .iter()
        .flat_map(|one| matcher(one, series))
        .map(|why| format!("{}: {why}", selector.metric))
        .collect()
}

/// A label that there is not, or values that it cannot have. Only lists of words are looked at.
fn matcher(matcher: &Matcher, series: &Series) -> Vec<String> {
    let label = &matcher.label;
    let Some(values) = series.labels.get(&**label) else {
        return vec![format!("it has no label {label}")];
    };
    let words = values.unwrap_or_default();
    let asked = matcher.value.split('|').filter(|word| !word.is_empty());
    asked
        .filter(|word| values.is_some() && !words.contains(word))
        .map(|word| format!("{label} is never {word}"))
        .collect()
}

/// Labels that a query keeps and that none of its metrics has.
fn unknown_kept_labels(query: &Query, known: &Known) -> Vec<String> {
    let series = query.selectors.iter().filter_map(|selector| known.get(&selector.metric));
    let labels: BTreeSet<&str> = series.flat_map(|series| series.labels.keys().copied()).collect();
    let unknown = query.kept.iter().filter(|label| !labels.contains(&***label));
    unknown.map(|label| format!("no metric of it has the label {label}")).collect()
}

/// Series that are read without the filter by job and instance.
fn filtered(query: &Query) -> Vec<String> {
    let obeys = |selector: &Selector, (label, value): (&str, &str)| {
        let is_it =
            |one: &Matcher| one.label == label && one.operator == "=~" && one.value == value;
        let is_free = label == "job" && selector.metric == OF_ANY_JOB;
        is_free || selector.matchers.iter().any(is_it)
    };
    let open = query.selectors.iter().filter(|one| !FILTER.iter().all(|rule| obeys(one, *rule)));
    open.map(|selector| format!("{} is not filtered by job and instance", selector.metric))
        .collect()
}

/// Metrics that are neither on a panel nor left out on purpose, or both.
pub(super) fn coverage(
    boards: &[(String, Board)],
    known: &Known,
    left_out: &[String],
) -> Vec<String> {
    let panels = boards.iter().flat_map(|(_, board)| &board.panels);
    let queries = panels.flat_map(|panel| &panel.targets).map(|target| promql::read(&target.expr));
    let plotted: BTreeSet<&str> = queries
        .flat_map(|query| query.selectors)
        .filter_map(|selector| known.get(&selector.metric)?.metric)
        .collect();
    let all: BTreeSet<&str> = known.values().filter_map(|series| series.metric).collect();
    let left_out: BTreeSet<&str> = left_out.iter().map(|name| &**name).collect();
    let forgotten = all.iter().filter(|name| !plotted.contains(*name) && !left_out.contains(*name));
    let forgotten = forgotten.map(|name| format!("{name} is on no panel"));
    let both = plotted.intersection(&left_out);
    let both = both.map(|name| format!("{name} is on a panel and left out"));
    let unknown = left_out.difference(&all);
    let unknown = unknown.map(|name| format!("{name} is left out and does not exist"));
    forgotten.chain(both).chain(unknown).collect()
}
