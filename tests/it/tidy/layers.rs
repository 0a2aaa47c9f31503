//! The import order of modules.

use super::source::SourceFile;

/// The modules from the top down. A module imports what stands in a later row and nothing above;
/// neighbours only in the first row, which wires everything, and in the last, which has shared types.
const ROWS: &[&[&str]] = &[
    &["main", "app", "cli"],
    &["config"],
    &["http", "proxy"],
    &["lines"],
    &["mcp"],
    &["service"],
    &["supervisor"],
    &["job"],
    &["journal"],
    &["environment", "exec_gate"],
    &["policy"],
    &["process"],
    &["client"],
    &["telemetry"],
    &[
        "confinement",
        "ids",
        "in_place",
        "outcome",
        "output",
        "private_files",
        "setting_values",
        "spec",
        "task_limit",
        "trace",
    ],
];

/// The imports that a module must not have although they stand below it: it only carries data.
const CLOSED: &[(&str, &[&str])] = &[
    ("http", &["supervisor", "job", "process", "output"]),
    ("proxy", &["mcp", "service", "policy", "supervisor", "job", "output"]),
    ("lines", &["service", "policy", "supervisor", "job", "process", "output"]),
    ("client", &["telemetry"]),
    ("mcp", &["supervisor", "process"]),
];

/// Returns the forbidden imports of one file.
pub(super) fn violations(file: &SourceFile) -> Vec<String> {
    let module = file.module();
    if module == "lib" {
        return Vec::new();
    }
    let Some(own_row) = find_row(module) else {
        return vec![format!("{}: the module `{module}` has no place in the order", file.path)];
    };
    let mut found: Vec<String> = imports(&file.code)
        .into_iter()
        .filter(|import| *import != module)
        .filter_map(|import| {
            let why = explain_forbidden(module, own_row, &import)?;
            Some(format!("{}: `{module}` must not import `{import}`: {why}", file.path))
        })
        .collect();
    if leaves_module(file) {
        found.push(format!("{}: names another module by `super`; write `crate::`", file.path));
    }
    found
}

fn explain_forbidden(module: &str, own_row: usize, import: &str) -> Option<&'static str> {
    let row = find_row(import)?;
    let are_neighbours_fine = row == 0 || row == ROWS.len() - 1;
    if import == "config" && own_row != 0 {
        Some("modules get values, not the configuration")
    } else if row < own_row {
        Some("it stands above")
    } else if row == own_row && !are_neighbours_fine {
        Some("it stands beside")
    } else if CLOSED.iter().any(|(closed, modules)| *closed == module && modules.contains(&import))
    {
        Some("it belongs to another module")
    } else {
        None
    }
}

fn find_row(module: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&module))
}

/// The modules that a piece of code names through `crate::` or `shellyard::`.
fn imports(code: &str) -> Vec<String> {
    let mut modules: Vec<String> = ["crate::", "shellyard::"]
        .iter()
        .flat_map(|root| {
            code.match_indices(root).map(move |(index, _)| &code[index + root.len()..])
        })
        .flat_map(first_names)
        .collect();
    modules.sort();
    modules.dedup();
    modules
}

/// The first name after `crate::`, or each first name in a group of braces.
fn first_names(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else { return vec![identifier(path)] };
    let mut names = Vec::new();
    let mut depth = 0_usize;
    let mut is_start = true;
    for (index, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            c if is_start && !c.is_whitespace() => {
                names.push(identifier(&group[index..]));
                is_start = false;
            }
            _ => {}
        }
    }
    names
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// `true` if enough `super::` stand in a row to leave the module.
fn leaves_module(file: &SourceFile) -> bool {
    file.module() != "main" && file.code.contains(&"super::".repeat(file.depth()))
}

#[track_caller]
fn check(path: &str, text: &str, expected: &[&str]) {
    let found = violations(&SourceFile::new(path, text));
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn imports_from_below_are_fine() {
    check("job/actor.rs", "use crate::{output::{LogReader, Page}, process::ProcessTree};", &[]);
    check("job/actor.rs", "use crate::job::state::Phase; use crate::ids::JobId;", &[]);
    check("outcome.rs", "use crate::spec::Stream;", &[]);
    check("main.rs", "use shellyard::{app, config::Settings};", &[]);
}

#[test]
fn imports_from_above_are_caught() {
    check("telemetry/log.rs", "use crate::job::JobHandle;", &["must not import `job`"]);
    check("telemetry/log.rs", "fn f(x: crate::service::Yard) {}", &["must not import `service`"]);
    check("job/a/b.rs", "use crate::{\n  output::{A, B},\n  mcp::C,\n};", &["`mcp`"]);
    check("spec.rs", "use crate::process::ProcessTree;", &["`process`"]);
}

#[test]
fn imports_past_a_public_handle_are_caught() {
    check("http/mod.rs", "use crate::output::LogReader;", &["another module"]);
    check("proxy/mod.rs", "use crate::http::serve;", &["stands beside"]);
    check("job/actor.rs", "use crate::config::Settings;", &["get values"]);
    check("job/actor.rs", "use super::super::service::Yard;", &["by `super`"]);
    check("job/mod.rs", "use super::service::Yard;", &["by `super`"]);
    check("attic/mod.rs", "", &["no place"]);
}
