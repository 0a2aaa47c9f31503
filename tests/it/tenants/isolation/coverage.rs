//! Checks that the list of attempts covers every tool, method and route.

use std::collections::BTreeSet;

/// The names of tools, methods and routes.
pub(super) type Names = BTreeSet<String>;

/// Returns what exists and is not covered by any attempt.
pub(super) fn missing_attempts(existing: &Names, done: &Names) -> Vec<String> {
    existing.difference(done).cloned().collect()
}

/// Returns the attempts at something that does not exist: a misspelt or removed name.
pub(super) fn unknown_attempts(existing: &Names, done: &Names) -> Vec<String> {
    done.difference(existing).cloned().collect()
}

fn names(words: &[&str]) -> Names {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn new_tools_and_routes_are_reported_until_an_attempt_covers_them() {
    let done = names(&["tool run_command", "GET /api/v1/jobs", "modern tools/call"]);
    assert!(missing_attempts(&done, &done).is_empty());
    let mut existing = done.clone();
    existing.extend(names(&["tool peek", "POST /api/v1/jobs", "legacy tools/call"]));
    let missing = missing_attempts(&existing, &done);
    assert_eq!(missing, ["POST /api/v1/jobs", "legacy tools/call", "tool peek"]);
    assert!(unknown_attempts(&existing, &done).is_empty());
    assert_eq!(unknown_attempts(&names(&["tool run_command"]), &done).len(), 2);
}
