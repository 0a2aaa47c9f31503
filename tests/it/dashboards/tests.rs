//! The checks, held against the real files, and each against one that is wrong.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::rules::{self, Makes};
use super::{board, checks, known};

/// The dashboards there should be.
const BOARDS: [&str; 7] = ["jobs", "mcp", "output", "overview", "process", "queue", "tenants"];

fn none(found: &[String]) {
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

/// The list in `not_plotted.toml`. Each entry has a reason.
fn left_out() -> Vec<String> {
    let text = fs::read_to_string(board::folder().join("source/not_plotted.toml")).unwrap();
    let entries: toml::Table = text.parse().unwrap();
    let with_reason = |(name, reason): (String, toml::Value)| {
        assert!(reason.as_str().is_some_and(|reason| reason.len() > 10), "{name} has no reason");
        name
    };
    entries.into_iter().map(with_reason).collect()
}

#[test]
fn every_dashboard_is_there() {
    let names: BTreeSet<String> = board::all().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, BOARDS.map(|name| format!("shellyard-{name}")).into());
}

#[test]
fn dashboards_speak_of_what_exists() {
    let known = known::series();
    let boards = board::all();
    let found: Vec<String> =
        boards.iter().flat_map(|(name, board)| checks::board(name, board, &known)).collect();
    none(&found);
}

#[test]
fn every_metric_is_on_a_panel_or_left_out_on_purpose() {
    none(&checks::coverage(&board::all(), &known::series(), &left_out()));
}

#[test]
fn dashboards_are_what_their_source_says() {
    let check = Command::new("python3")
        .arg(board::folder().join("generate.py"))
        .arg("--check")
        .output()
        .expect("python3, 3.11 or newer");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

#[test]
fn links_to_runbooks_have_the_base_that_an_operator_gives() {
    let copy = tempfile::tempdir().unwrap();
    let folder = copy.path().join("dashboards");
    let copied = Command::new("cp").arg("-r").arg(board::folder()).arg(&folder).status().unwrap();
    assert!(copied.success());
    fs::copy(board::folder().join("../Cargo.toml"), copy.path().join("Cargo.toml")).unwrap();
    let run = |arguments: &[&str]| {
        let mut generate = Command::new("python3");
        generate.arg(folder.join("generate.py")).args(arguments).output().unwrap()
    };
    let base = "https://wiki.example/shellyard";
    let written = run(&["--runbooks", &format!("{base}/")]);
    assert!(written.status.success(), "{written:?}");
    let alerts = fs::read_to_string(folder.join("rules/alerts.yml")).unwrap();
    for rule in rules::of_kind(&rules::all(), Makes::Alert) {
        let link = format!("runbook_url: {base}/{}.md\n", rule.name);
        assert!(alerts.contains(&link), "{}", rule.name);
    }
    let overview = fs::read_to_string(folder.join("shellyard-overview.json")).unwrap();
    assert!(overview.contains(&format!("[ShellyardDown]({base}/ShellyardDown.md)")));
    assert!(run(&["--check", "--runbooks", base]).status.success());
    let stale = run(&["--check"]);
    assert!(String::from_utf8_lossy(&stale.stderr).contains("alerts.yml"), "{stale:?}");
    for mistake in [&["--runbooks"][..], &["--runbooks", "docs/runbooks"], &["--chek"]] {
        assert_eq!(run(mistake).status.code(), Some(2), "{mistake:?}");
    }
}

#[test]
fn rules_speak_of_what_exists_and_alerts_have_runbooks() {
    none(&rules::violations(&rules::all(), &known::series(), &rules::runbooks()));
}

#[test]
fn every_alert_has_a_test_that_makes_it_fire() {
    let folder = board::folder().join("rules/tests");
    let files = fs::read_dir(folder).unwrap().flatten();
    let tests: String = files.map(|file| fs::read_to_string(file.path()).unwrap()).collect();
    for rule in rules::of_kind(&rules::all(), Makes::Alert) {
        // What is expected of an alert that fires names its page.
        assert!(rules::links_to_page(&tests, &rule.name), "no test makes {} fire", rule.name);
    }
}

/// A dashboard of one panel that is right, changed by `change`.
fn complaints(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let expr = r#"sum by (fault) (rate(shellyard_jobs_failed_total{job=~"$job", instance=~"$instance"}[5m]))"#;
    let panel = json!({
        "type": "timeseries", "title": "Failed", "description": "What fails, and what to do then.",
        "gridPos": {"x": 0, "y": 0, "w": 12, "h": 8},
        "fieldConfig": {"defaults": {"unit": "cps", "thresholds": {"steps": [{"color": "green"}]}}},
        "targets": [{"expr": expr, "legendFormat": "{{fault}}"}],
    });
    let variables = ["datasource", "job", "instance"].map(|name| json!({"name": name}));
    let restarts = r#"process_start_time_seconds{job=~"$job", instance=~"$instance"}"#;
    let mut whole = json!({
        "uid": "b", "title": "B", "templating": {"list": variables}, "panels": [panel],
        "annotations": {"list": [{"name": "Restarts", "expr": restarts}]},
    });
    change(&mut whole);
    let board = serde_json::from_value(whole).unwrap();
    checks::board("b", &board, &known::series())
}

#[test]
fn a_wrong_dashboard_is_found() {
    assert_eq!(complaints(|_| {}), [""; 0]);
    let expr = |text: &str| {
        let text = text.replace('@', r#"job=~"$job", instance=~"$instance""#);
        complaints(|board| board["panels"][0]["targets"][0]["expr"] = text.into())
    };
    let found = [
        (expr("sum by (fault) (shellyard_jobs_gone{@})"), "no metric shellyard_jobs_gone"),
        (expr("sum by (tier) (shellyard_jobs_failed_total{@})"), "label tier"),
        (expr("sum by (fault) (shellyard_jobs_failed_total{@, tenant=\"a\"})"), "no label tenant"),
        (expr("sum by (fault) (shellyard_jobs_failed_total{@, fault=\"ours\"})"), "never ours"),
        (expr("sum by (fault) (shellyard_jobs_failed_total)"), "not filtered"),
        (expr("sum(shellyard_jobs_failed_total{@})"), "its legend shows fault"),
        (expr("sum by (fault) (shellyard_jobs_failed_total_bucket{@})"), "no metric"),
        (complaints(|board| board["panels"][0]["description"] = "".into()), "no description"),
        (
            complaints(|board| board["panels"][0]["fieldConfig"] = json!({"defaults": {}})),
            "no unit",
        ),
        (complaints(|board| board["panels"][0]["targets"] = json!([])), "no query"),
        (complaints(|board| board["panels"][0]["gridPos"]["x"] = 13.into()), "leaves the grid"),
        (complaints(|board| board["uid"] = "c".into()), "its uid is c"),
        (complaints(|board| board["templating"]["list"] = json!([])), "no variable $job"),
        (
            complaints(|board| board["templating"]["list"][1]["allValue"] = ".*".into()),
            "all jobs are more",
        ),
        (complaints(|board| board["annotations"]["list"] = json!([])), "restarts"),
    ];
    for (complaints, part) in found {
        assert!(complaints.iter().any(|why| why.contains(part)), "{part}: {complaints:?}");
    }
    let twice = complaints(|board| {
        let panel = board["panels"][0].clone();
        board["panels"].as_array_mut().unwrap().push(panel);
    });
    assert_eq!(twice, ["B: \"Failed\" lies on \"Failed\""]);
}

#[test]
fn a_forgotten_metric_is_found() {
    let known = known::series();
    let boards = board::all();
    let gone = ["shellyard_gone", "process_threads"].map(str::to_owned);
    let found = checks::coverage(&boards, &known, &gone);
    for part in [
        "shellyard_gone is left out and does not exist",
        "process_threads is on a panel and left out",
        "process_virtual_memory_bytes is on no panel",
    ] {
        assert!(found.iter().any(|why| why == part), "{part}: {found:?}");
    }
}

#[test]
fn a_wrong_rule_is_found() {
    let text = "
      - record: instance:a:sum
        expr: sum(shellyard_jobs_running)
      - alert: Told
        expr: |
          instance:a:sum > 1
            or instance:b:sum > 1
        for: 1m
      - alert: UsersOwn
        expr: rate(shellyard_jobs_failed_total[5m]) > 0 or shellyard_gone > 0
";
    let runbooks = ["Told", "Stray"].map(str::to_owned).into();
    let found = rules::violations(&rules::read(text), &known::series(), &runbooks);
    for part in [
        "Told: there is no metric instance:b:sum",
        "Told: no `severity: `",
        "Told: no `runbook_url: `",
        "Told: its runbook_url is not the absolute address of its page",
        "UsersOwn: shellyard_jobs_failed_total counts what users do",
        "UsersOwn: there is no metric shellyard_gone",
        "UsersOwn has no runbook",
        "Stray.md is of no alert",
    ] {
        assert!(found.iter().any(|why| why == part), "{part}: {found:?}");
    }
    assert!(!found.iter().any(|why| why.contains("instance:a:sum")), "{found:?}");
}
