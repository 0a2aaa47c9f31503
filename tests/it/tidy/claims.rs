//! Each claim of SECURITY.md and docs/security.md, and each statement of docs/dialects.md, names a
//! test that exists, and what docs/performance.md claims was measured.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Returns the texts between single backquotes, in all lines.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

fn has_function(file: &Path, name: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("fn {name}(")))
}

/// `true` unless the text looks like the name of a test and is none.
fn holds(name: &str) -> bool {
    if ["src/", "crates/", "tests/"].iter().any(|folder| name.starts_with(folder)) {
        let (file, function) = name.split_once(": ").unwrap_or((name, ""));
        let file = root().join(file);
        return file.exists() && (function.is_empty() || has_function(&file, function));
    }
    let is_path = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c);
    let Some((module, last)) = name.rsplit_once("::").filter(|_| name.chars().all(is_path)) else {
        return true;
    };
    let tests = root().join("tests/it");
    let (module, whole) = (module.replace("::", "/"), name.replace("::", "/"));
    has_function(&tests.join(format!("{module}.rs")), last)
        || has_function(&tests.join(format!("{module}/mod.rs")), last)
        || tests.join(&whole).is_dir()
        || tests.join(format!("{whole}.rs")).exists()
}

/// The rows of all tables whose head is `| claim | test |`, each as its last cell.
fn claims(text: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line == "| claim | test |") {
        let rows = lines.by_ref().skip(1).take_while(|line| line.starts_with('|'));
        cells.extend(rows.filter_map(|row| row.trim_end_matches([' ', '|']).rsplit(" | ").next()));
    }
    cells
}

/// `true` if a cell names a test, or refers to the row above.
fn names_a_test(cell: &str) -> bool {
    let is_test =
        |name: &str| name.contains("::") || name.starts_with("src/") || name.starts_with("crates/");
    cell.starts_with("the same") || quoted(cell).any(is_test)
}

#[test]
fn every_claim_names_a_test_that_exists() {
    for (page, least) in [("docs/security.md", 80), ("SECURITY.md", 13)] {
        let text = fs::read_to_string(root().join(page)).expect("it is there");
        let missing: Vec<&str> = quoted(&text).filter(|name| !holds(name)).collect();
        assert!(missing.is_empty(), "{page}: {missing:#?}");
        let claims = claims(&text);
        let bare: Vec<&&str> = claims.iter().filter(|cell| !names_a_test(cell)).collect();
        assert!(bare.is_empty(), "{page}: {bare:#?}");
        assert!(claims.len() >= least, "{page} was really read: {} claims", claims.len());
    }
}

#[test]
fn every_guarantee_names_tests_that_exist() {
    let text = fs::read_to_string(root().join("docs/reliability.md")).expect("it is there");
    let missing: Vec<&str> = quoted(&text).filter(|name| !holds(name)).collect();
    assert!(missing.is_empty(), "docs/reliability.md: {missing:#?}");
    let head = "| guarantee | fault | test | figures |";
    let rows = text.lines().skip_while(|line| *line != head).skip(2);
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    let bare: Vec<&&str> =
        rows.iter().filter(|row| !quoted(row).any(|name| name.contains("::"))).collect();
    assert!(bare.is_empty(), "without a test: {bare:#?}");
    assert!(rows.len() > 20, "the page was really read: {} guarantees", rows.len());
}

/// The last cells of all rows below a head that ends in `shown by`, or in `test`.
fn test_cells(page: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let mut is_shown = false;
    for line in page.lines() {
        let last = line.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
        if !line.starts_with('|') {
            is_shown = false;
        } else if last.starts_with("shown by") || last == "test" {
            is_shown = true;
        } else if is_shown && !line.starts_with("|--") {
            cells.push(last);
        }
    }
    cells
}

/// The names in a cell that are long enough to be those of tests.
fn test_names(cell: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    quoted(cell).filter(move |name| name.chars().all(is_name) && name.matches('_').count() >= 3)
}

#[test]
fn every_test_that_the_page_of_dialects_names_exists() {
    let page = fs::read_to_string(root().join("docs/dialects.md")).expect("it is there");
    let sources = ["src", "tests"].map(|folder| rust_sources(&root().join(folder))).concat();
    let cells = test_cells(&page);
    assert!(cells.len() > 140, "the page was really read: {} rows", cells.len());
    let is_missing = |name: &&str| !sources.contains(&format!("fn {name}("));
    let missing: Vec<&str> = cells.into_iter().flat_map(test_names).filter(is_missing).collect();
    assert!(missing.is_empty(), "docs/dialects.md: {missing:#?}");
}

/// The text of all Rust files below this folder.
fn rust_sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).expect("a folder of ours").map(|it| it.expect("an entry"));
    let text = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => rust_sources(&path),
        Some(extension) if extension == "rs" => fs::read_to_string(path).expect("a file of ours"),
        Some(_) | None => String::new(),
    };
    entries.map(|entry| text(entry.path())).collect()
}

#[test]
fn a_row_names_its_tests() {
    let page = "| a | shown by (`x.rs`) |\n|---|---|\n| b | `one_long_test_name`, `fields` |\n\n| c | d |\n";
    assert_eq!(test_cells(page), ["`one_long_test_name`, `fields`"]);
    let names: Vec<&str> = test_cells(page).into_iter().flat_map(test_names).collect();
    assert_eq!(names, ["one_long_test_name"]);
}

#[test]
fn a_claim_without_a_test_is_found() {
    let text = "| claim | test |\n|---|---|\n| a | `x::y` |\n| b | some day |\n\n| c | d |\n";
    assert_eq!(claims(text), ["`x::y`", "some day"]);
    assert!(names_a_test("`x::y`") && names_a_test("the same") && !names_a_test("some day"));
}

#[test]
fn a_name_without_a_test_is_found() {
    assert!(holds("tidy::claims::a_name_without_a_test_is_found") && holds("tidy::claims"));
    assert!(holds("src/ids.rs") && holds("cargo build") && holds("policy::gate::…"));
    assert!(!holds("tidy::claims::no_such_test") && !holds("tidy::no_such_module"));
    assert!(!holds("src/no_such_file.rs") && !holds("src/ids.rs: no_such_test"));
}

#[test]
fn the_readme_leads_to_figures_and_the_benchmark_finds_where_to_write_them() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("it is there");
    assert!(read("README.md").contains("(docs/performance.md)"));
    let page = read("docs/performance.md");
    let begin = page.find("<!-- measured -->").expect("where figures begin");
    let end = page.find("<!-- /measured -->").expect("where they end");
    assert!(begin < end);
    for plot in page[begin..end].split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(root().join("docs").join(plot).exists(), "{plot} is missing");
    }
}
